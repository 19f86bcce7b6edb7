/* Shared by the operator files: rows of the registry and helpers for rules. */
#ifndef CJ_OPS_OPS_H
#define CJ_OPS_OPS_H

#include "cajal/ops.h"
#include "core/core.h"
#include "ops/attrs.h"

/* Each family file exports its table; those of src/math are named here so that the registry knows them, and nothing else is. */
extern const cj_op cj__ops_fourier[], cj__ops_signal[];
extern const int cj__ops_fourier_n, cj__ops_signal_n;
extern const cj_op cj__ops_elementwise[], cj__ops_activation[], cj__ops_reduce[], cj__ops_shape[], cj__ops_index[], cj__ops_product[],
    cj__ops_create[], cj__ops_random[], cj__ops_norm[], cj__ops_loss[], cj__ops_likelihood[], cj__ops_conv[], cj__ops_pool[],
    cj__ops_comm[], cj__ops_write[];
extern const int cj__ops_elementwise_n, cj__ops_activation_n, cj__ops_reduce_n, cj__ops_shape_n, cj__ops_index_n, cj__ops_product_n,
    cj__ops_create_n, cj__ops_random_n, cj__ops_norm_n, cj__ops_loss_n, cj__ops_likelihood_n, cj__ops_conv_n, cj__ops_pool_n,
    cj__ops_comm_n, cj__ops_write_n;
#define CJ_OP_TABLE(family) const int cj__ops_##family##_n = (int)(sizeof cj__ops_##family / sizeof cj__ops_##family[0])

/* g summed down to the shape of `like` (undoing a broadcast) and cast to its dtype. */
cj_tensor *cj__sum_to(cj_tensor *g, const cj_tensor *like);
/* Elementwise operators: infer and run of any row with an ew code. */
bool cj__ew_infer(cj_call *call);
bool cj__ew_run_call(cj_call *call);
/* An elementwise call of one or two operands. */
cj_tensor *cj__apply_ew(const cj_op *op, const void *attrs, cj_tensor *a, cj_tensor *b);
/* The type in which an elementwise call computes: CJ_F32, CJ_F64 or CJ_I64. */
cj_dtype cj__ew_compute(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin);
bool cj__ew_has_scalar(int code); /* the instruction has an immediate: attrs are one double */

/* Internal elementwise operators by code (fused backward kernels). */
cj_tensor *cj__ew_bwd(cj_ew_code code, cj_tensor *a, cj_tensor *g);

/* The value of a `full` call; false for any other operator. */
bool cj__full_value(const cj_op *op, const void *attrs, double *value);
/* A 0-d f32 constant where t lives. */
cj_tensor *cj__const(const cj_tensor *t, double value);
/* For derivatives: zeros like the input x, whose data may be gone, where its gradient g lives. */
cj_tensor *cj__zeros_for(const cj_tensor *x, const cj_tensor *g);

/* Options of convolution and pooling: one value for all nd axes, or one per axis, none below `least`; right-aligned in out[3]. */
bool cj__per_axis(cj_ctx *c, const char *op, const char *what, int64_t nd, int64_t all, cj_shape each, int64_t least, int64_t *out);
/* The derivatives of convolution and of window sums that no other public operator is: for samples. */
cj_tensor *cj__conv_weight(cj_tensor *x, cj_tensor *g, cj_shape kernel, const cj_conv_opts *opts);
cj_tensor *cj__window_spread(cj_tensor *g, cj_shape size, const cj_pool_opts *opts);

/* as_strided over a contiguous x, and its transpose: zeros of `shape` with g added at the view's places. */
cj_tensor *cj__as_strided(cj_tensor *x, const cj_strided_attrs *a);
cj_tensor *cj__as_strided_scatter(cj_tensor *g, const cj_strided_attrs *a);

static inline cj_shape cj__shape(const cj_tensor *t)
{
    cj_shape s;
    s.ndim = t->ndim;
    memcpy(s.dim, t->shape, sizeof s.dim);
    return s;
}

/* Poison of the context of whichever argument is not NULL. */
#define CJ_POISON_OF(t) ((t) ? (t)->ctx->poison : NULL)

#endif
