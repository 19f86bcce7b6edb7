/* Shared inside src/nn and src/optim. */
#ifndef CJ_NN_NN_H
#define CJ_NN_NN_H

#include "cajal/grad.h"
#include "cajal/nn.h"
#include "core/core.h"

typedef struct cj_param_item {
    char *name;
    cj_tensor *tensor;
} cj_param_item;

struct cj_params {
    cj_ctx *ctx;
    cj_param_item *item;
    int n, cap;
    cj_tensor *flat[CJ_DTYPES];
};

bool cj__params_add(cj_params *p, const char *name, cj_tensor *t);
void cj__params_clear(cj_params *p);
/* Offset of each parameter of a dtype in the flat buffer (offset may be NULL); returns the buffer's length. */
int64_t cj__params_offsets(const cj_params *p, cj_dtype dtype, int64_t *offset);

/* m is a module of this type and its context without error; else an error that names the function (found through x where m is NULL), and false. */
bool cj__module_is(const cj_module *m, const cj_module_type *type, const char *function, cj_tensor *x);

#endif
