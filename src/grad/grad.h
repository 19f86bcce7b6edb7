/* Shared inside src/grad. */
#ifndef CJ_GRAD_GRAD_H
#define CJ_GRAD_GRAD_H

#include "cajal/grad.h"
#include "cajal/ops.h"
#include "core/core.h"

/* One reverse pass from y (with seed) over the nodes of the tape from `from` on.  x[n] are the wanted tensors; out[i] receives a tensor owned by the innermost scope,
 * or NULL where y does not depend on x[i].  Unless keep is set the nodes passed are consumed. */
bool cj__reverse(cj_ctx *c, cj_tensor *const *y, cj_tensor *const *seed, int ny, int64_t from, cj_tensor *const *x, int n, cj_tensor **out,
                 bool create_graph, bool keep);

bool cj__tape_record(cj_ctx *c, cj_call *call);
/* Adds a node by hand (checkpoint). */
bool cj__tape_add(cj_ctx *c, cj_call *call);
bool cj__forward_record(cj_ctx *c, cj_call *call);
bool cj__capture_record(cj_ctx *c, cj_call *call);

/* Another header with x's value and graph. */
cj_tensor *cj__alias(cj_tensor *x);
cj_tensor *cj__tangent_at(const cj_tensor *t, uint64_t level);
bool cj__tangent_set(cj_tensor *t, uint64_t level, cj_tensor *value);
/* Opens a forward level; 0 after an error. */
uint64_t cj__level_open(cj_ctx *c);
void cj__level_close(cj_ctx *c);

#endif
