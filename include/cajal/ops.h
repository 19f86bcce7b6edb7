/* cajal/ops.h: the operators.
 *
 * Names and meanings are PyTorch's.  Inputs broadcast as in NumPy, dtypes promote as in PyTorch, every result is a tensor of the innermost scope.  Errors: every operator
 * returns poison after CJ_ESHAPE, CJ_EDTYPE, CJ_EDEVICE, CJ_EINDEX or CJ_EVALUE, and passes poison on.  A trailing `const …_opts *` may be NULL; with
 * <cajal/sugar.h> the options are written as trailing designated fields: cj_sum(x, .axes = CJ_AXIS(0)).
 */
#ifndef CAJAL_OPS_H
#define CAJAL_OPS_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- creation -------------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_full(cj_ctx *c, double value, cj_shape shape, cj_dtype dtype); /* every element is value */
CJ_API cj_tensor *cj_zeros(cj_ctx *c, cj_shape shape, cj_dtype dtype);
CJ_API cj_tensor *cj_ones(cj_ctx *c, cj_shape shape, cj_dtype dtype);
CJ_API cj_tensor *cj_scalar(cj_ctx *c, double value);                               /* 0-d f32; never widens a result within its category */
CJ_API cj_tensor *cj_zeros_like(cj_tensor *x);
CJ_API cj_tensor *cj_ones_like(cj_tensor *x);
/* start, start+step, … below stop (above, for a negative step); i64 by default. */
CJ_API cj_tensor *cj_arange(cj_ctx *c, double start, double stop, double step, cj_dtype dtype);
CJ_API cj_tensor *cj_eye(cj_ctx *c, int64_t n, cj_dtype dtype);                     /* [n, n] identity */

/* ---- random draws: same bits on every machine ------------------------------------------------------------------------------------------ */

typedef struct cj_random_opts {
    cj_dtype dtype;
    cj_stream stream;  /* CJ_STREAM_USER by default */
} cj_random_opts;
CJ_API cj_tensor *cj_rand(cj_ctx *c, cj_shape shape, const cj_random_opts *opts);                                 /* uniform [0, 1) */
CJ_API cj_tensor *cj_uniform(cj_ctx *c, double low, double high, cj_shape shape, const cj_random_opts *opts);     /* uniform [low, high) */
CJ_API cj_tensor *cj_randn(cj_ctx *c, cj_shape shape, const cj_random_opts *opts);                                /* normal (0, 1) */
CJ_API cj_tensor *cj_normal(cj_ctx *c, double mean, double std, cj_shape shape, const cj_random_opts *opts);
CJ_API cj_tensor *cj_randint(cj_ctx *c, int64_t low, int64_t high, cj_shape shape, const cj_random_opts *opts);   /* low <= v < high; i64 by default */
CJ_API cj_tensor *cj_bernoulli(cj_ctx *c, double p, cj_shape shape, const cj_random_opts *opts);                  /* 1 with probability p */
CJ_API cj_tensor *cj_exponential(cj_ctx *c, double rate, cj_shape shape, const cj_random_opts *opts);             /* density rate·exp(-rate·x) */

/* ---- elementwise ------------------------------------------------------------------------------------------------------------------------ */

CJ_API cj_tensor *cj_add(cj_tensor *a, cj_tensor *b);       /* a + b */
CJ_API cj_tensor *cj_sub(cj_tensor *a, cj_tensor *b);       /* a - b */
CJ_API cj_tensor *cj_mul(cj_tensor *a, cj_tensor *b);       /* a · b, elementwise */
CJ_API cj_tensor *cj_div(cj_tensor *a, cj_tensor *b);       /* a / b; integers give f32 */
CJ_API cj_tensor *cj_pow(cj_tensor *a, cj_tensor *b);       /* a ^ b */
CJ_API cj_tensor *cj_maximum(cj_tensor *a, cj_tensor *b);   /* NaN wins; at ties each side gets half the gradient */
CJ_API cj_tensor *cj_minimum(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_fmod(cj_tensor *a, cj_tensor *b);      /* sign of a; integer division by zero is an error */
CJ_API cj_tensor *cj_remainder(cj_tensor *a, cj_tensor *b); /* sign of b */
CJ_API cj_tensor *cj_floor_divide(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_atan2(cj_tensor *a, cj_tensor *b);

CJ_API cj_tensor *cj_add_scalar(cj_tensor *x, double s);    /* x + s; the scalar never changes a float's dtype */
CJ_API cj_tensor *cj_mul_scalar(cj_tensor *x, double s);    /* x · s */
CJ_API cj_tensor *cj_pow_scalar(cj_tensor *x, double s);    /* x ^ s */

CJ_API cj_tensor *cj_neg(cj_tensor *x);
CJ_API cj_tensor *cj_abs(cj_tensor *x);                     /* gradient 0 at 0 */
CJ_API cj_tensor *cj_sign(cj_tensor *x);
CJ_API cj_tensor *cj_exp(cj_tensor *x);
CJ_API cj_tensor *cj_expm1(cj_tensor *x);
CJ_API cj_tensor *cj_log(cj_tensor *x);
CJ_API cj_tensor *cj_log1p(cj_tensor *x);
CJ_API cj_tensor *cj_sqrt(cj_tensor *x);
CJ_API cj_tensor *cj_rsqrt(cj_tensor *x);                   /* 1 / sqrt(x) */
CJ_API cj_tensor *cj_reciprocal(cj_tensor *x);
CJ_API cj_tensor *cj_square(cj_tensor *x);
CJ_API cj_tensor *cj_sin(cj_tensor *x);
CJ_API cj_tensor *cj_cos(cj_tensor *x);
CJ_API cj_tensor *cj_tanh(cj_tensor *x);
CJ_API cj_tensor *cj_sigmoid(cj_tensor *x);                 /* 1 / (1 + exp(-x)) */
CJ_API cj_tensor *cj_erf(cj_tensor *x);
CJ_API cj_tensor *cj_floor(cj_tensor *x);                   /* floor, ceil, round (half to even), trunc, sign: gradient 0 */
CJ_API cj_tensor *cj_ceil(cj_tensor *x);
CJ_API cj_tensor *cj_round(cj_tensor *x);
CJ_API cj_tensor *cj_trunc(cj_tensor *x);
CJ_API cj_tensor *cj_relu(cj_tensor *x);                    /* max(x, 0); gradient 0 at 0 */

CJ_API cj_tensor *cj_eq(cj_tensor *a, cj_tensor *b);        /* comparisons and logic give bool */
CJ_API cj_tensor *cj_ne(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_lt(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_le(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_gt(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_ge(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_gt_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_ge_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_lt_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_le_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_eq_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_ne_scalar(cj_tensor *x, double s);
CJ_API cj_tensor *cj_logical_and(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_logical_or(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_logical_xor(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_logical_not(cj_tensor *x);
CJ_API cj_tensor *cj_isnan(cj_tensor *x);
CJ_API cj_tensor *cj_isfinite(cj_tensor *x);
CJ_API cj_tensor *cj_where(cj_tensor *condition, cj_tensor *a, cj_tensor *b); /* condition ? a : b */
CJ_API cj_tensor *cj_clamp(cj_tensor *x, double low, double high);            /* min(max(x, low), high); gradient 1 strictly inside, else 0 */
CJ_API cj_tensor *cj_masked_fill(cj_tensor *x, cj_tensor *mask, double value);
CJ_API cj_tensor *cj_cast(cj_tensor *x, cj_dtype dtype);    /* floats to integers truncate and saturate, NaN gives 0 */

/* activations with fused kernels */
typedef struct cj_gelu_opts {
    bool tanh;  /* the tanh approximation instead of x·Phi(x) */
} cj_gelu_opts;
CJ_API cj_tensor *cj_gelu(cj_tensor *x, const cj_gelu_opts *opts);  /* x · (1 + erf(x/sqrt 2)) / 2 */
CJ_API cj_tensor *cj_silu(cj_tensor *x);                            /* x · sigmoid(x) */
CJ_API cj_tensor *cj_softplus(cj_tensor *x);                        /* log(1 + exp(x)), safe for all x */
CJ_API cj_tensor *cj_log_sigmoid(cj_tensor *x);                     /* log sigmoid(x), safe for all x */

/* ---- reductions -------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_reduce_opts {
    cj_axes axes;   /* not given: all */
    bool keepdim;
} cj_reduce_opts;
CJ_API cj_tensor *cj_sum(cj_tensor *x, const cj_reduce_opts *opts);   /* integers and bool sum to i64 */
CJ_API cj_tensor *cj_mean(cj_tensor *x, const cj_reduce_opts *opts);
CJ_API cj_tensor *cj_prod(cj_tensor *x, const cj_reduce_opts *opts);
CJ_API cj_tensor *cj_max(cj_tensor *x, const cj_reduce_opts *opts);   /* NaN wins; ties share the gradient */
CJ_API cj_tensor *cj_min(cj_tensor *x, const cj_reduce_opts *opts);
CJ_API cj_tensor *cj_any(cj_tensor *x, const cj_reduce_opts *opts);
CJ_API cj_tensor *cj_all(cj_tensor *x, const cj_reduce_opts *opts);
CJ_API cj_tensor *cj_argmax(cj_tensor *x, const cj_reduce_opts *opts); /* i64 index of the first maximum along one axis; of the flat tensor without axes */
CJ_API cj_tensor *cj_argmin(cj_tensor *x, const cj_reduce_opts *opts);
typedef struct cj_var_opts {
    cj_axes axes;
    bool keepdim;
    bool biased;    /* divide by n instead of n - 1 */
} cj_var_opts;
CJ_API cj_tensor *cj_var(cj_tensor *x, const cj_var_opts *opts);           /* two-pass */
CJ_API cj_tensor *cj_logsumexp(cj_tensor *x, const cj_reduce_opts *opts);  /* log sum exp, shifted by the maximum */

/* ---- shape: views share memory; nothing is copied unless said ----------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_reshape(cj_tensor *x, cj_shape shape);                 /* one size may be -1; copies when the strides do not allow a view */
CJ_API cj_tensor *cj_flatten(cj_tensor *x, int first_axis);                 /* axes first_axis … last become one */
CJ_API cj_tensor *cj_transpose(cj_tensor *x, int a, int b);                 /* swaps two axes */
CJ_API cj_tensor *cj_t(cj_tensor *x);                                       /* swaps the last two axes */
CJ_API cj_tensor *cj_permute(cj_tensor *x, cj_axes order);
CJ_API cj_tensor *cj_expand(cj_tensor *x, cj_shape shape);                  /* broadcasts without copying; -1 keeps a size */
CJ_API cj_tensor *cj_squeeze(cj_tensor *x, int axis);                       /* the axis must have size 1 */
CJ_API cj_tensor *cj_unsqueeze(cj_tensor *x, int axis);
/* x[start:stop:step] along an axis; negative positions count from the end, a negative step runs backwards (stop CJ_END: to the end). */
#define CJ_END INT64_MAX
CJ_API cj_tensor *cj_slice(cj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
CJ_API cj_tensor *cj_select(cj_tensor *x, int axis, int64_t index);         /* x[index] along an axis, which goes */
CJ_API cj_tensor *cj_diagonal(cj_tensor *x, int64_t offset, int axis1, int axis2); /* the diagonal becomes the last axis */
CJ_API cj_tensor *cj_unfold(cj_tensor *x, int axis, int64_t size, int64_t step);   /* windows: [.., n, ..] -> [.., (n-size)/step+1, .., size] */
CJ_API cj_tensor *cj_contiguous(cj_tensor *x);                              /* x itself, or a row-major copy */
CJ_API cj_tensor *cj_clone(cj_tensor *x);                                   /* always a copy */
CJ_API cj_tensor *cj_cat(cj_tensor *const *x, int n, int axis);
CJ_API cj_tensor *cj_stack(cj_tensor *const *x, int n, int axis);           /* along a new axis */
CJ_API cj_tensor *cj_to(cj_tensor *x, const char *device);                  /* "cpu" or "cuda"; counted in host_copies */
CJ_API cj_tensor *cj_tril(cj_tensor *x, int64_t diagonal);                  /* zero above the diagonal */
CJ_API cj_tensor *cj_triu(cj_tensor *x, int64_t diagonal);

/* ---- indexing ----------------------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_index_select(cj_tensor *x, int axis, cj_tensor *index);       /* rows x[.., index[j], ..]; index is 1-D i64 */
CJ_API cj_tensor *cj_index_add(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source); /* x with source's rows added at index */
CJ_API cj_tensor *cj_gather(cj_tensor *x, int axis, cj_tensor *index);             /* y[i][j][k] = x[i][index[i][j][k]][k] for axis 1 */
CJ_API cj_tensor *cj_scatter_add(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source);
CJ_API cj_tensor *cj_embedding(cj_tensor *weight, cj_tensor *index);               /* weight [V, D], index any shape -> [.., D] */
CJ_API cj_tensor *cj_one_hot(cj_tensor *index, int64_t classes);                   /* i64 [.., classes] */
CJ_API cj_tensor *cj_nonzero(cj_tensor *x);                                        /* i64 [count, ndim]; its shape depends on values: not capturable */

/* ---- products ------------------------------------------------------------------------------------------------------------------------------ */

/* a·b over the last two axes, batch axes broadcast; 1-D operands as vectors. Transposed views cost nothing. */
CJ_API cj_tensor *cj_matmul(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_dot(cj_tensor *a, cj_tensor *b);       /* 1-D: sum a·b */
CJ_API cj_tensor *cj_outer(cj_tensor *a, cj_tensor *b);     /* 1-D: a_i b_j */
/* x·Wᵀ + b: x [.., in], weight [out, in], bias [out] or NULL (then none). */
CJ_API cj_tensor *cj_linear_op(cj_tensor *x, cj_tensor *weight, cj_tensor *bias);

/* ---- convolution: 1, 2 or 3 spatial axes, channels second, as in PyTorch ------------------------------------------------------------------------- */

typedef enum cj_pad_mode { CJ_PAD_ZERO, CJ_PAD_REFLECT, CJ_PAD_CYCLIC, CJ_PAD_REPLICATE } cj_pad_mode;
typedef struct cj_pad_opts {
    cj_pad_mode mode;   /* reflect: without repeating the border (2 1 | 0 1 2); cyclic; replicate: the border's value */
    double value;       /* of CJ_PAD_ZERO, instead of 0 */
} cj_pad_opts;
/* The last axes of x widened by before and after: cj_pad(x, CJ_SHAPE(1, 2), CJ_SHAPE(1, 2)) for height and width. */
CJ_API cj_tensor *cj_pad(cj_tensor *x, cj_shape before, cj_shape after, const cj_pad_opts *opts);

typedef enum cj_border { CJ_VALID, CJ_SAME, CJ_FULL } cj_border;
typedef struct cj_conv_opts {
    int64_t stride, padding, dilation;          /* 1, 0, 1; the same for every axis … */
    cj_shape strides, paddings, dilations;      /* … or a value per axis: .paddings = CJ_SHAPE(1, 0) */
    int64_t groups;                             /* 1; as many as channels: depthwise */
    cj_border border;                           /* instead of a padding: CJ_SAME keeps the size, CJ_FULL gives every overlap */
    cj_pad_mode mode;                           /* what lies beyond the border */
} cj_conv_opts;
/* y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] · x[n, c, p·stride - padding + k·dilation] (no flip). x [N, C, ..], weight [O, C/groups, ..], bias [O] or NULL. */
CJ_API cj_tensor *cj_conv(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts);
typedef struct cj_conv_transpose_opts {
    int64_t stride, padding, dilation, output_padding;
    cj_shape strides, paddings, dilations, output_paddings;
    int64_t groups;
} cj_conv_transpose_opts;
/* The transpose of cj_conv as a linear map of x: weight [C, O/groups, ..]; size (n - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1. */
CJ_API cj_tensor *cj_conv_transpose(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_transpose_opts *opts);
/* A convolution with weights of its own at every position: weight [O, C, positions .., kernel ..], 1 or 2 spatial axes; stride, padding and mode. */
CJ_API cj_tensor *cj_locally_connected(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts);

/* ---- normalisation and losses ----------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_softmax(cj_tensor *x, int axis);
CJ_API cj_tensor *cj_log_softmax(cj_tensor *x, int axis);
/* (x - mean) / sqrt(var + eps) · weight + bias over the last axis; weight and bias [n] may be NULL; eps 1e-5 by default. */
CJ_API cj_tensor *cj_layer_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps);
typedef struct cj_dropout_opts {
    double p;       /* probability of zero; 0.5 by default, CJ_ZERO for none */
    bool eval;      /* identity */
} cj_dropout_opts;
CJ_API cj_tensor *cj_dropout(cj_tensor *x, const cj_dropout_opts *opts);   /* inverted dropout: survivors are scaled by 1/(1-p) */

typedef enum cj_reduction { CJ_MEAN, CJ_SUM, CJ_NONE } cj_reduction;
typedef struct cj_loss_opts {
    cj_reduction reduction;   /* mean by default */
    double label_smoothing;   /* cross-entropy */
    int64_t ignore_index;     /* cross-entropy: 0 means -100 */
} cj_loss_opts;
CJ_API cj_tensor *cj_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts);  /* logits [.., C], target i64 [..] */
CJ_API cj_tensor *cj_nll_loss(cj_tensor *log_probs, cj_tensor *target, const cj_loss_opts *opts);
CJ_API cj_tensor *cj_mse_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts);
CJ_API cj_tensor *cj_l1_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts);
CJ_API cj_tensor *cj_bce_loss(cj_tensor *p, cj_tensor *target, const cj_loss_opts *opts);            /* logs clamped at -100 as in PyTorch */
CJ_API cj_tensor *cj_bce_with_logits(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts);
/* softmax(q·kᵀ/sqrt(d))·v over [.., T, d]; causal masks the future. */
typedef struct cj_attention_opts {
    bool causal;
    double scale;           /* 1/sqrt(d) by default */
    cj_tensor *key_length;  /* i64, 0-d or with q's leading axes: keys from this position on get no weight, so a cache larger than its contents can be given;
                             * a tensor, so that one plan decodes at every position. With causal, the queries are the last of these keys. At least 1. */
} cj_attention_opts;
CJ_API cj_tensor *cj_attention(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts);

/* ---- collectives: every rank of the comm calls them in the same order; NULL is one process --------------------------------------------------------- */

CJ_API cj_tensor *cj_all_sum(cj_tensor *x, const cj_comm *comm);                 /* the sum over ranks */
CJ_API cj_tensor *cj_all_max(cj_tensor *x, const cj_comm *comm);                 /* the maximum over ranks; ties share the gradient */
CJ_API cj_tensor *cj_all_gather(cj_tensor *x, const cj_comm *comm);              /* [size, x.shape] */
CJ_API cj_tensor *cj_broadcast(cj_tensor *x, const cj_comm *comm, int root);     /* root's value */

/* ---- writes: the only operators that change a tensor -------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_assign_(cj_tensor *dst, cj_tensor *src);                         /* dst = src (broadcast); returns dst */
CJ_API cj_tensor *cj_add_(cj_tensor *dst, cj_tensor *src, double scale);              /* dst += scale · src */
/* dst = src when the innermost scope of the caller closes, and only if no error is set then: for running statistics and averages, which must not outlive a step that
 * failed. dst is persistent. Several of them in one scope happen together or not at all; outside of any scope the write happens at once. */
CJ_API cj_tensor *cj_assign_at_close_(cj_tensor *dst, cj_tensor *src);
CJ_API cj_tensor *cj_write_slice_(cj_tensor *dst, int axis, cj_tensor *position, cj_tensor *src); /* dst[.., p:p+n, ..] = src; position is a 0-d i64 tensor */

/* ---- what there is --------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_op_info {
    const char *name, *family, *kind;
    bool differentiable;
    const char *jvp;      /* "own", "elementwise", "linear", "derived", "none" */
    bool fused_backward;
} cj_op_info;
CJ_API int cj_op_count(void);
CJ_API cj_op_info cj_op_at(int i);

#ifdef __cplusplus
}
#endif
#endif
