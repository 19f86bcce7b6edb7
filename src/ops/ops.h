/* Shared by the operator files: rows of the registry and helpers for rules. */
#ifndef CJ_OPS_OPS_H
#define CJ_OPS_OPS_H

#include "cajal/ops.h"
#include "core/core.h"
#include "ops/attrs.h"

/* Each family file exports its table of rows. Those of src/math are named here so that the registry finds them; nothing else of it is known here. */
/* clang-format off */
#define CJ_FAMILIES(X) \
    X(elementwise) \
    X(activation) \
    X(reduce) \
    X(shape) \
    X(index) \
    X(product) \
    X(create) \
    X(random) \
    X(norm) \
    X(loss) \
    X(likelihood) \
    X(conv) \
    X(pool) \
    X(comm) \
    X(write) \
    X(order) \
    X(ordered) \
    X(scan) \
    X(segment) \
    X(masked) \
    X(boxes) \
    X(fourier) \
    X(signal) \
    X(resample) \
    X(grid) \
    X(roi) \
    X(contract) \
    X(distance) \
    X(sparse) \
    X(attention) \
    X(normalise) \
    X(standardise) \
    X(recurrent) \
    X(special) \
    X(special_composites) \
    X(factor) \
    X(spectral) \
    X(matfun) \
    X(matrix) \
    X(draw)

/* clang-format on */
#define CJ_FAMILY_DECLARED(family)                                                                                                         \
    extern const cj_op cj__ops_##family[];                                                                                                 \
    extern const int cj__ops_##family##_n;
CJ_FAMILIES(CJ_FAMILY_DECLARED)
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
cj_tensor *cj__const_as(const cj_tensor *t, double value); /* the same in t's dtype */
/* For derivatives: zeros like the input x, whose data may be gone, where its gradient g lives. */
cj_tensor *cj__zeros_for(const cj_tensor *x, const cj_tensor *g);

/* x as [outer, len, inner] around an axis of a contiguous tensor. */
static inline void cj__split(const cj_tensor *x, int64_t axis, int64_t size[3])
{
    size[0] = size[2] = 1;
    size[1] = x->shape[axis];
    for (int d = 0; d < axis; d++) size[0] *= x->shape[d];
    for (int d = (int)axis + 1; d < x->ndim; d++) size[2] *= x->shape[d];
}
/* The index is i64; contiguous and in [0, len): the bad position is named. */
bool cj__index_dtype(cj_call *call, const cj_tensor *index);
bool cj__index_range(cj_call *call, const cj_tensor *index, int64_t len);
/* The transpose of index_select: zeros of length len along the axis, with the rows of x added at the index. */
cj_tensor *cj__segment_sum(cj_tensor *x, int axis, cj_tensor *index, int64_t len);
cj_tensor *cj__csr_rows(cj_csr a); /* the row of every entry */

/* Options of convolution and pooling: one value for all nd axes, or one per axis, none below `least`; right-aligned in out[3]. */
bool cj__per_axis(cj_ctx *c, const char *op, const char *what, int64_t nd, int64_t all, cj_shape each, int64_t least, int64_t *out);
/* The derivatives of convolution and of window sums that no other public operator is: for samples. */
cj_tensor *cj__conv_weight(cj_tensor *x, cj_tensor *g, cj_shape kernel, const cj_conv_opts *opts);
void cj__conv_gradients(cj_tensor *g, cj_tensor *w, cj_tensor *x, const cj_conv_opts *opts, cj_tensor **out); /* of x, of w */
cj_tensor *cj__window_put(cj_tensor *g, cj_tensor *index, cj_shape size, const cj_pool_opts *opts);
cj_tensor *cj__window_put_taps(cj_tensor *g, cj_tensor *x, const cj_pool_opts *opts); /* where x has its maxima */
cj_tensor *cj__window_spread(cj_tensor *g, cj_shape size, const cj_pool_opts *opts);
cj_tensor *cj__softmax_pool(cj_tensor *x, cj_tensor *score,
                            const cj_pool_opts *opts); /* sums of windows of x weighted by softmax(score), [like x] */
/* The transpose of cj_interpolate from planes of `size`: for samples. */
cj_tensor *cj__interpolate_transpose(cj_tensor *g, cj_shape size, const cj_interpolate_opts *opts);
/* The transpose of cj_roi_align for images of shape x: for samples. */
cj_tensor *cj__roi_align_transpose(cj_tensor *g, cj_tensor *boxes, cj_shape x, const cj_roi_opts *opts);

/* cj_attention by its definition: for samples. */
cj_tensor *cj__attention_composed(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts);
/* The Bernoulli draw of a given call number: its stream does not move. */
cj_tensor *cj__bernoulli_at(cj_ctx *c, const cj_random_attrs *base, double p, cj_shape shape, cj_dtype dtype);

/* x as convolution and pooling take it: row-major, or on the host channels-last. x itself, or a row-major copy. */
cj_tensor *cj__image(cj_tensor *x);
static inline bool cj__is_image(const cj_tensor *t) { return cj__contiguous(t) || (!t->st->device && cj__channels_last(t)); }

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

/* Usable arguments, of one context without an error (NULL included): false after an error. */
bool cj__given(const char *op, cj_tensor *const *in, int n);
/* Poison of the context of the first argument that is not NULL; NULL where all are. */
cj_tensor *cj__poison_of(cj_tensor *const *in, int n);
/* One of the arguments is NULL: an error of the context of the others, and its poison; NULL where all are. */
cj_tensor *cj__missing(const char *op, cj_tensor *const *in, int n);
#define CJ_MISSING(op, ...)                                                                                                                \
    cj__missing(op, (cj_tensor *[]){ __VA_ARGS__ }, (int)(sizeof((cj_tensor *[]){ __VA_ARGS__ }) / sizeof(cj_tensor *)))
#define CJ_POISON_OF(t) ((t) ? (t)->ctx->poison : NULL)

#endif
