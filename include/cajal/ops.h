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

/* activations made of operators; a parameter of 0 means its default, CJ_ZERO means 0 */
typedef struct cj_heaviside_opts {
    double at_zero;  /* 1 */
} cj_heaviside_opts;
CJ_API cj_tensor *cj_heaviside(cj_tensor *x, const cj_heaviside_opts *opts);   /* 0 below 0, at_zero at 0, 1 above; gradient 0 */
CJ_API cj_tensor *cj_hard_sign(cj_tensor *x);                                  /* -1 below 0, +1 from 0 on; gradient 0 */
typedef struct cj_hardtanh_opts {
    double low, high;  /* -1, 1 */
} cj_hardtanh_opts;
CJ_API cj_tensor *cj_hardtanh(cj_tensor *x, const cj_hardtanh_opts *opts);     /* min(max(x, low), high) */
CJ_API cj_tensor *cj_relu6(cj_tensor *x);                                      /* min(max(x, 0), 6) */
typedef struct cj_leaky_relu_opts {
    double slope;  /* 0.01 */
} cj_leaky_relu_opts;
CJ_API cj_tensor *cj_leaky_relu(cj_tensor *x, const cj_leaky_relu_opts *opts); /* x above 0, slope·x below */
CJ_API cj_tensor *cj_prelu(cj_tensor *x, cj_tensor *weight);                   /* the same with a learned slope: one, or one per channel (axis 1) */
CJ_API cj_tensor *cj_hardsigmoid(cj_tensor *x);                                /* min(max(x + 3, 0), 6) / 6 */
CJ_API cj_tensor *cj_hardswish(cj_tensor *x);                                  /* x · hardsigmoid(x) */
typedef struct cj_shrink_opts {
    double lambda;  /* 0.5 */
} cj_shrink_opts;
CJ_API cj_tensor *cj_softshrink(cj_tensor *x, const cj_shrink_opts *opts);     /* x - lambda·sign(x), 0 where |x| <= lambda */
CJ_API cj_tensor *cj_hardshrink(cj_tensor *x, const cj_shrink_opts *opts);     /* x, 0 where |x| <= lambda */
CJ_API cj_tensor *cj_threshold(cj_tensor *x, double threshold, double value);  /* x above the threshold, else value */
typedef struct cj_elu_opts {
    double alpha;  /* 1 */
} cj_elu_opts;
CJ_API cj_tensor *cj_elu(cj_tensor *x, const cj_elu_opts *opts);               /* x above 0, alpha·(e^x - 1) below */
CJ_API cj_tensor *cj_celu(cj_tensor *x, const cj_elu_opts *opts);              /* x above 0, alpha·(e^(x/alpha) - 1) below */
CJ_API cj_tensor *cj_selu(cj_tensor *x);                                       /* 1.0507 · elu(x, 1.67326) */
typedef struct cj_softplus_opts {
    double beta;       /* 1 */
    double threshold;  /* x itself where beta·x is above it; none by default: the formula is safe for all x (PyTorch: 20) */
} cj_softplus_opts;
CJ_API cj_tensor *cj_softplus_beta(cj_tensor *x, const cj_softplus_opts *opts); /* log(1 + e^(beta·x)) / beta */
CJ_API cj_tensor *cj_mish(cj_tensor *x);                                       /* x · tanh(softplus(x)) */
CJ_API cj_tensor *cj_softsign(cj_tensor *x);                                   /* x / (1 + |x|) */
CJ_API cj_tensor *cj_tanhshrink(cj_tensor *x);                                 /* x - tanh(x) */
typedef struct cj_logit_opts {
    double eps;  /* x is clamped to [eps, 1 - eps] first; 0 */
} cj_logit_opts;
CJ_API cj_tensor *cj_logit(cj_tensor *x, const cj_logit_opts *opts);           /* log(x / (1 - x)): the inverse of sigmoid */
/* Gated units: the axis has two halves a and b, the result is half as long. */
CJ_API cj_tensor *cj_glu(cj_tensor *x, int axis);                              /* a · sigmoid(b) */
CJ_API cj_tensor *cj_reglu(cj_tensor *x, int axis);                            /* relu(a) · b */
CJ_API cj_tensor *cj_geglu(cj_tensor *x, int axis);                            /* gelu(a) · b */
CJ_API cj_tensor *cj_swiglu(cj_tensor *x, int axis);                           /* silu(a) · b */
CJ_API cj_tensor *cj_maxout(cj_tensor *x, int axis, int64_t k);                /* the largest of every k neighbours along the axis; ties share the gradient */

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
/* x [N, C, ..] with 1 to 3 spatial axes itself where the channels of a pixel lie side by side and pixels in row-major order, or such a copy. Shape and meaning stay
 * [N, C, ..]; convolution, pooling and elementwise operators compute on this layout directly and give their results the layout of their inputs. */
CJ_API cj_tensor *cj_channels_last(cj_tensor *x);
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
typedef struct cj_lookup_opts {
    bool padding;         /* the row padding_idx gets no gradient */
    int64_t padding_idx;  /* counts from the end where negative */
} cj_lookup_opts;
CJ_API cj_tensor *cj_embedding(cj_tensor *weight, cj_tensor *index, const cj_lookup_opts *opts); /* weight [V, D], index any shape -> [.., D] */
CJ_API cj_tensor *cj_one_hot(cj_tensor *index, int64_t classes);                   /* i64 [.., classes] */
CJ_API cj_tensor *cj_nonzero(cj_tensor *x);                                        /* i64 [count, ndim]; its shape depends on values: not capturable */

/* ---- ordering: the order is total, NaN is larger than everything, equal values keep their order ------------------------------------------------------------- */

typedef struct cj_ordered {
    cj_tensor *values;
    cj_tensor *indices;  /* i64: where along the axis each value was; the gradient of the values goes back there */
} cj_ordered;
typedef struct cj_sort_opts {
    bool descending;
} cj_sort_opts;
CJ_API cj_ordered cj_sort(cj_tensor *x, int axis, const cj_sort_opts *opts);    /* stable */
CJ_API cj_tensor *cj_argsort(cj_tensor *x, int axis, const cj_sort_opts *opts); /* the indices of cj_sort */
typedef struct cj_topk_opts {
    bool smallest;
    bool unsorted;  /* any order will do */
} cj_topk_opts;
CJ_API cj_ordered cj_topk(cj_tensor *x, int64_t k, int axis, const cj_topk_opts *opts); /* the k largest, best first, of equals the first; 0 <= k <= the axis */
CJ_API cj_ordered cj_kthvalue(cj_tensor *x, int64_t k, int axis);  /* the k-th smallest, k from 1; the axis goes */
CJ_API cj_ordered cj_median(cj_tensor *x, int axis);               /* the lower of the two middle values; NaN where there is one; the axis goes */
typedef struct cj_uniques {
    cj_tensor *values;   /* ascending, [count]; every NaN counts for itself */
    cj_tensor *inverse;  /* i64, x's shape: x = values[inverse] */
    cj_tensor *counts;   /* i64 [count] */
} cj_uniques;
CJ_API cj_uniques cj_unique(cj_tensor *x);  /* of all elements; its shape depends on values: not capturable */
typedef struct cj_searchsorted_opts {
    bool right;  /* how many are not larger, instead of how many are smaller */
} cj_searchsorted_opts;
/* i64 of values' shape: where each value goes in `sorted` [n], or in its row of [.., n] with values [.., m]. That `sorted` ascends is not checked. */
CJ_API cj_tensor *cj_searchsorted(cj_tensor *sorted, cj_tensor *values, const cj_searchsorted_opts *opts);

/* ---- running sums along an axis ----------------------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_cumsum(cj_tensor *x, int axis);        /* y_k = x_0 + … + x_k; integers and bool give i64 */
CJ_API cj_tensor *cj_cumprod(cj_tensor *x, int axis);       /* y_k = x_0 · … · x_k; the gradient is right also at zeros */
CJ_API cj_tensor *cj_logcumsumexp(cj_tensor *x, int axis);  /* log(e^x_0 + … + e^x_k), safe for all x */
CJ_API cj_ordered cj_cummax(cj_tensor *x, int axis);        /* the largest so far and where it was seen last; NaN wins */
CJ_API cj_ordered cj_cummin(cj_tensor *x, int axis);

/* ---- segments, bags, counts ---------------------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_combine { CJ_COMBINE_SUM, CJ_COMBINE_PROD, CJ_COMBINE_MEAN, CJ_COMBINE_MAX, CJ_COMBINE_MIN } cj_combine;
typedef struct cj_scatter_opts {
    bool exclude_self;  /* places that the index names begin with nothing instead of x */
} cj_scatter_opts;
/* x with source combined into it at the index, which is as in cj_scatter_add. Ties of max and min share the gradient; the mean of integers is rounded down. */
CJ_API cj_tensor *cj_scatter_reduce(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source, cj_combine how, const cj_scatter_opts *opts);
/* x [n, ..], ids i64 [n] in any order, each in [0, segments) -> [segments, ..]. An empty segment has sum 0, mean NaN, maximum -inf (integers: the smallest). */
CJ_API cj_tensor *cj_segment_sum(cj_tensor *x, cj_tensor *ids, int64_t segments);
CJ_API cj_tensor *cj_segment_mean(cj_tensor *x, cj_tensor *ids, int64_t segments);
CJ_API cj_tensor *cj_segment_max(cj_tensor *x, cj_tensor *ids, int64_t segments);   /* ties share the gradient */
typedef struct cj_embedding_bag_opts {
    cj_tensor *per_sample_weights;  /* a factor per index, of weight's dtype; CJ_COMBINE_SUM only */
} cj_embedding_bag_opts;
/* Sum, mean or max of rows of weight [V, D] -> [B, D]: bag b holds indices[offsets[b] … offsets[b+1]) of i64 [n]; offsets i64 [B] ascend from 0 and may be NULL for
 * indices [B, n/B], a row per bag. An empty bag gives 0. The gradient of a maximum goes to the first row that has it. */
CJ_API cj_tensor *cj_embedding_bag(cj_tensor *weight, cj_tensor *indices, cj_tensor *offsets, cj_combine mode, const cj_embedding_bag_opts *opts);
typedef struct cj_bincount_opts {
    int64_t minlength;
    cj_tensor *weights;  /* sums of these (f32, or f64) instead of counts */
} cj_bincount_opts;
CJ_API cj_tensor *cj_bincount(cj_tensor *x, const cj_bincount_opts *opts);  /* how often 0, 1, … occur in i64 x [n]; its shape depends on values: not capturable */
typedef struct cj_histogram_result {
    cj_tensor *counts;  /* i64 [bins] */
    cj_tensor *edges;   /* [bins + 1], low … high; x's dtype, f32 for integers */
} cj_histogram_result;
/* Elements of x in `bins` equal intervals of [low, high], each with its left edge, the last with both; what is outside is left out; NaN is an error. */
CJ_API cj_histogram_result cj_histogram(cj_tensor *x, int64_t bins, double low, double high);

/* ---- masks: true takes part; a mask broadcasts to x --------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_masked_select(cj_tensor *x, cj_tensor *mask);             /* [count], row-major; its shape depends on values: not capturable */
CJ_API cj_tensor *cj_masked_softmax(cj_tensor *x, cj_tensor *mask, int axis);  /* 0 where the mask is false, also where it is false all along the axis */
CJ_API cj_tensor *cj_masked_mean(cj_tensor *x, cj_tensor *mask, const cj_reduce_opts *opts); /* NaN where nothing takes part */

/* ---- boxes [.., 4]: left, top, right, bottom ------------------------------------------------------------------------------------------------------------------ */

CJ_API cj_tensor *cj_box_corners(cj_tensor *boxes);    /* from centre x, centre y, width, height */
CJ_API cj_tensor *cj_box_centres(cj_tensor *boxes);    /* and back */
CJ_API cj_tensor *cj_box_clip(cj_tensor *boxes, double width, double height);   /* to [0, width] x [0, height] */
CJ_API cj_tensor *cj_box_iou(cj_tensor *a, cj_tensor *b);   /* [n, 4], [m, 4] -> [n, m]: area of the intersection / area of the union */
typedef struct cj_nms_opts {
    cj_tensor *classes;  /* i64 [n]: boxes of different classes do not suppress each other */
    int64_t limit;       /* at most so many are kept */
} cj_nms_opts;
/* Best score first, a box is kept unless it overlaps a kept one by more than the threshold: their indices, i64. Its shape depends on values: not capturable. */
CJ_API cj_tensor *cj_nms(cj_tensor *boxes, cj_tensor *scores, double iou_threshold, const cj_nms_opts *opts);

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
/* y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] · x[n, c, p·stride - padding + k·dilation] (no flip). x [N, C, ..], weight [O, C/groups, ..], bias [O] or NULL.
 * Where x or weight is not finite, so is every result that reads it; in f32 on channels-last images, 3x3 or 5x5 and stride 1, perhaps also its neighbours one pixel on. */
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

/* ---- pooling: over the last 1, 2 or 3 axes ----------------------------------------------------------------------------------------------------------- */

typedef struct cj_pool_opts {
    int64_t kernel, stride, padding, dilation;      /* stride: the kernel by default */
    cj_shape kernels, strides, paddings, dilations; /* or a value per axis; without kernels the axes after [N, C] are spatial */
    bool ceil_mode;         /* windows that begin inside and end outside count too */
    bool exclude_padding;   /* averages divide by the elements that are there */
    bool values_only;       /* maxima, minima: the index is NULL; the derivative keeps one byte of a window instead of eight */
} cj_pool_opts;
typedef struct cj_pooled {
    cj_tensor *value;
    cj_tensor *index;   /* i64: the flat position in its plane, of ties the first */
} cj_pooled;
CJ_API cj_pooled cj_max_pool(cj_tensor *x, const cj_pool_opts *opts);
CJ_API cj_pooled cj_min_pool(cj_tensor *x, const cj_pool_opts *opts);
CJ_API cj_tensor *cj_max_unpool(cj_tensor *x, cj_tensor *index, cj_shape size);   /* values back at their positions in planes of this size, zero elsewhere */
CJ_API cj_tensor *cj_avg_pool(cj_tensor *x, const cj_pool_opts *opts);
CJ_API cj_tensor *cj_softmax_pool(cj_tensor *x, double temperature, const cj_pool_opts *opts);  /* sum of a window weighted by its softmax(x/temperature) */
/* To a given size, by windows floor(i·in/out) … ceil((i+1)·in/out): CJ_SHAPE(1, 1) is global pooling. */
CJ_API cj_tensor *cj_adaptive_avg_pool(cj_tensor *x, cj_shape size);
CJ_API cj_tensor *cj_adaptive_max_pool(cj_tensor *x, cj_shape size);

/* ---- resampling ---------------------------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_interpolation { CJ_INTERP_DEFAULT, CJ_INTERP_NEAREST, CJ_INTERP_LINEAR, CJ_INTERP_CUBIC, CJ_INTERP_NEAREST_EXACT } cj_interpolation;
typedef struct cj_interpolate_opts {
    cj_shape size;          /* of the spatial axes, … */
    double scale;           /* … or a factor of all of them: floor(n·scale), … */
    double scales[3];       /* … or one for each */
    cj_interpolation mode;  /* nearest by default; linear in 1, 2 or 3 axes; cubic */
    bool align_corners;     /* linear, cubic: the centres of the corner pixels stay, not their outer edges */
} cj_interpolate_opts;
/* x [N, C, ..] with 1 to 3 spatial axes resampled to another size. Source position of result i: i·(in-1)/(out-1) with aligned corners, else
 * (i+1/2)·in/out - 1/2; nearest takes floor(i·in/out), nearest_exact floor((i+1/2)·in/out). Beyond the border the border's values count. Nothing is
 * smoothed first when the size shrinks. */
CJ_API cj_tensor *cj_interpolate(cj_tensor *x, const cj_interpolate_opts *opts);
CJ_API cj_tensor *cj_pixel_shuffle(cj_tensor *x, int64_t factor);    /* [.., C·r², H, W] -> [.., C, H·r, W·r]: y[c, h·r+i, w·r+j] = x[c·r²+i·r+j, h, w] */
CJ_API cj_tensor *cj_pixel_unshuffle(cj_tensor *x, int64_t factor);  /* its inverse */
typedef struct cj_grid_opts {
    cj_interpolation mode;  /* linear by default; nearest (halves to even); cubic in two axes */
    cj_pad_mode padding;    /* beyond the border: zeros by default, CJ_PAD_REPLICATE the border's value, CJ_PAD_REFLECT mirrors */
    bool align_corners;     /* -1 and 1 are the centres of the corner pixels, not the outer edges */
} cj_grid_opts;
/* y[n, c, p] = x[n, c] at grid[n, p], a position (x, y) or (x, y, z) that runs from -1 to 1: x [N, C, H, W] and grid [N, h, w, 2], or x [N, C, D,
 * H, W] and grid [N, d, h, w, 3]. Gradients to both. */
CJ_API cj_tensor *cj_grid_sample(cj_tensor *x, cj_tensor *grid, const cj_grid_opts *opts);
/* Positions for cj_grid_sample: theta [N, 2, 3] (or [N, 3, 4]) times (x, y, 1) over a grid of `size` [N, C, H, W] (or [N, C, D, H, W]). */
CJ_API cj_tensor *cj_affine_grid(cj_tensor *theta, cj_shape size, bool align_corners);
typedef struct cj_roi_opts {
    cj_shape size;           /* of the result: CJ_SHAPE(7, 7) */
    double spatial_scale;    /* boxes times this are positions in x; 1 by default */
    int64_t sampling_ratio;  /* roi_align: samples per bin and axis; by default ceil(box / bins) */
    bool aligned;            /* roi_align: pixels' centres lie at halves (torchvision's "aligned") */
} cj_roi_opts;
/* Regions of x [N, C, H, W] brought to one size: boxes [K, 5] of (image, x1, y1, x2, y2) -> [K, C, size]. Gradients to x; the boxes get none.
 * roi_align averages bilinear samples in each bin, roi_pool takes the largest pixel of a bin (0 of an empty one). */
CJ_API cj_tensor *cj_roi_align(cj_tensor *x, cj_tensor *boxes, const cj_roi_opts *opts);
CJ_API cj_tensor *cj_roi_pool(cj_tensor *x, cj_tensor *boxes, const cj_roi_opts *opts);

/* ---- contractions, norms, distances ------------------------------------------------------------------------------------------------------------------------ */

/* Sums of products by index letters: "bij,bjk->bik". A letter that the result does not have is summed over; a letter twice in one operand is its
 * diagonal; "..." stands for leading axes, which broadcast; without "->" the letters that occur once, in the order of the alphabet. Operands are
 * contracted from left to right. Up to 8 operands. */
CJ_API cj_tensor *cj_einsum(const char *equation, cj_tensor *const *x, int n);
CJ_API cj_tensor *cj_tensordot(cj_tensor *a, cj_tensor *b, cj_axes of_a, cj_axes of_b);  /* sum over these axes of a and b, in pairs: the other axes of a, then of b */
CJ_API cj_tensor *cj_kron(cj_tensor *a, cj_tensor *b);                                   /* Kronecker: y[i·m + k, j·n + l] = a[i, j]·b[k, l], any number of axes */
typedef struct cj_norm_opts {
    cj_axes axes;   /* not given: all */
    bool keepdim;
} cj_norm_opts;
/* (sum |x|^p)^(1/p); p = INFINITY and -INFINITY: largest and smallest |x|; p = 0: how many are not 0. p = 2 neither overflows nor underflows on the
 * way; gradient 0 where the norm is 0. */
CJ_API cj_tensor *cj_norm(cj_tensor *x, double p, const cj_norm_opts *opts);
/* p-norm distances of the rows of a [.., P, M] and b [.., R, M]: [.., P, R]. p = 2 with more than 25 rows on either side through |a|² + |b|² -
 * 2·a·b (cancels where a and b are close), as in PyTorch; gradient 0 where the distance is 0. */
CJ_API cj_tensor *cj_cdist(cj_tensor *a, cj_tensor *b, double p);
CJ_API cj_tensor *cj_cosine_similarity(cj_tensor *a, cj_tensor *b, int axis, double eps); /* a·b / (max(|a|, eps)·max(|b|, eps)); eps 1e-8 by default */

/* ---- sparse matrices: compressed rows --------------------------------------------------------------------------------------------------------------------- */

/* Row i has values[offsets[i] … offsets[i+1]) at the columns of these entries, which rise. The transposed structure stands beside it: column j has
 * its entries at the rows `t_rows`, entry numbers `t_entry`. A struct of tensors of the innermost scope; cj_csr_keep makes them outlive it. */
typedef struct cj_csr {
    int64_t rows, cols;
    cj_tensor *offsets, *columns;             /* i64 [rows + 1], [entries] */
    cj_tensor *values;                        /* [entries] */
    cj_tensor *t_offsets, *t_rows, *t_entry;  /* i64 [cols + 1], [entries], [entries] */
} cj_csr;
/* From its parts: offsets must not fall, columns must rise within each row and lie in [0, cols). Reads them on the host: not capturable. Gradients
 * to values. */
CJ_API cj_csr cj_csr_from_parts(cj_tensor *offsets, cj_tensor *columns, cj_tensor *values, int64_t rows, int64_t cols);
CJ_API cj_csr cj_csr_from_coo(cj_tensor *row, cj_tensor *col, cj_tensor *values, int64_t rows, int64_t cols); /* any order; entries at one place are added */
CJ_API cj_csr cj_csr_from_dense(cj_tensor *x);                    /* what is not 0 */
CJ_API cj_csr cj_csr_with_values(cj_csr a, cj_tensor *values);    /* the same places with other values */
CJ_API cj_tensor *cj_csr_to_dense(cj_csr a);
CJ_API cj_tensor *cj_csr_matmul(cj_csr a, cj_tensor *x);          /* a·x: x [cols, k] or [cols]; gradients to a.values and x */
CJ_API cj_tensor *cj_csr_matmul_t(cj_csr a, cj_tensor *x);        /* aᵀ·x: x [rows, k] or [rows] */
CJ_API cj_tensor *cj_csr_sampled(cj_csr a, cj_tensor *x, cj_tensor *y);  /* (x·yᵀ) at the places of a: x [rows, k], y [cols, k] -> [entries] */
CJ_API cj_csr cj_csr_keep(cj_csr a);
CJ_API void cj_csr_release(cj_csr a);
/* ---- recurrent networks over whole sequences ------------------------------------------------------------------------------------------------------- */

/* One layer in one direction. x [T, N, I]: T steps of N sequences; or [T, I] for one sequence, and then no result has the axis N. H hidden units and G gates:
 *   rnn        G 1           h = f(a + w_hh·h + b_hh),   with a = w_ih·x[t] + b_ih at every step and f tanh or relu
 *   lstm       G 4: i f g o  i, f, o = sigmoid(a + w_hh·h + b_hh),  g = tanh(same);   c = f·c + i·g;   h = o·tanh(c)
 *   gru        G 3: r z n    r, z = sigmoid(a + w_hh·h + b_hh);   n = tanh(a + r·(w_hh·h + b_hh));   h = (1 - z)·n + z·h
 *   light_gru  G 2: z n      z = sigmoid(a + w_hh·h + b_hh);   n = f(same), f relu or tanh;   h = (1 - z)·n + z·h       (Ravanelli et al. 2018)
 * w_ih [G·H, I], w_hh [G·H, H], b_ih and b_hh [G·H] or NULL: PyTorch's layout and order. w_ih NULL: x [T, N, G·H] is w_ih·x already, for input terms that are normalised first.
 * All of one float type; bf16 and f16 are widened once and the results rounded once. */
typedef enum cj_recurrent_cell { CJ_RNN, CJ_LSTM, CJ_GRU, CJ_LIGHT_GRU } cj_recurrent_cell;
typedef enum cj_recurrent_activation { CJ_ACTIVATION_USUAL, CJ_ACTIVATION_TANH, CJ_ACTIVATION_RELU } cj_recurrent_activation;
typedef struct cj_recurrent_opts {
    cj_tensor *h0, *c0;         /* first state [N, H], of stacks [layers·directions, N, H]; zero by default. c0: lstm */
    bool batch_first;           /* x and y are [N, T, ..] */
    bool reverse;               /* from the last step to the first (not of stacks) */
    cj_tensor *lengths;         /* i64 [N] of 1 … T: from there on a sequence keeps its state and y is 0; in reverse it begins at its own end. As packed sequences do */
    int64_t truncate;           /* truncated back-propagation: h and c are constants at every k-th step; 0: never */
    cj_recurrent_activation activation; /* f: tanh in an rnn, relu in a light_gru by default */
    int layers;                 /* stacks: 1 */
    bool bidirectional;         /* stacks: a second layer in reverse beside each, y [T, N, 2·H] has both */
    double dropout;             /* stacks: probability of zero between layers; 0 */
    bool eval;                  /* stacks: no dropout */
} cj_recurrent_opts;
typedef struct cj_recurrent_result {
    cj_tensor *y;               /* h of every step [T, N, H] */
    cj_tensor *h_n, *c_n;       /* the last state, shaped as h0; c_n is NULL but of an lstm */
} cj_recurrent_result;
CJ_API cj_recurrent_result cj_rnn(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh, const cj_recurrent_opts *opts);
CJ_API cj_recurrent_result cj_lstm(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh, const cj_recurrent_opts *opts);
CJ_API cj_recurrent_result cj_gru(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh, const cj_recurrent_opts *opts);
CJ_API cj_recurrent_result cj_light_gru(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh, const cj_recurrent_opts *opts);
/* Stacks of layers: layer l reads y of layer l-1. weights: PyTorch's flat list, layer by layer, the direction in reverse after its layer: w_ih, w_hh, b_ih, b_hh of each; or
 * w_ih, w_hh of each, n half as large, without biases. A layer above a bidirectional one has w_ih [G·H, 2·H]. */
CJ_API cj_recurrent_result cj_recurrent(cj_recurrent_cell cell, cj_tensor *x, cj_tensor *const *weights, int n, const cj_recurrent_opts *opts);

/* ---- normalisation and losses ----------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_softmax(cj_tensor *x, int axis);
CJ_API cj_tensor *cj_log_softmax(cj_tensor *x, int axis);
CJ_API cj_tensor *cj_softmin(cj_tensor *x, int axis);                                         /* softmax(-x) */
CJ_API cj_tensor *cj_softmax_temperature(cj_tensor *x, int axis, double temperature);         /* softmax(x / temperature) */
typedef struct cj_gumbel_opts {
    double tau;  /* temperature; 1 */
    bool hard;   /* one-hot forward, the soft derivative backward */
} cj_gumbel_opts;
/* softmax((logits + g) / tau) with Gumbel noise g from the sampling stream: a differentiable draw from softmax(logits). */
CJ_API cj_tensor *cj_gumbel_softmax(cj_tensor *logits, int axis, const cj_gumbel_opts *opts);
/* (x - mean) / sqrt(var + eps) · weight + bias over the last axis; weight and bias [n] may be NULL; eps 1e-5 by default. */
CJ_API cj_tensor *cj_layer_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps);
typedef struct cj_batch_norm_opts {
    cj_tensor *running_mean, *running_var; /* [C], any float type: read with eval, else brought forward by momentum when the caller's scope closes
                                            * (cj_assign_at_close_), the variance unbiased; then they must be persistent. NULL: none */
    cj_tensor *batches;                    /* i64, 0-d, persistent: counts the training calls; NULL: nobody counts */
    double momentum;                       /* running += momentum·(batch - running); 0.1, CJ_ZERO: they stay */
    bool cumulative;                       /* momentum 1/batches: the running statistics are averages over all batches */
    double eps;                            /* 1e-5; CJ_ZERO: none */
    bool eval;                             /* normalise by the running statistics, which are constants for derivatives */
    bool relu;                             /* max(.., 0) of the result, in the same pass */
} cj_batch_norm_opts;
/* (x - mean) / sqrt(var + eps) · weight + bias per channel, mean and biased variance over all other axes: x [N, C, ..] in any float type, also as a permuted view with its
 * channels last, which is neither copied nor reordered; weight, bias [C] of x's type (or f32 where x has 16 bits), each may be NULL. Training needs at least two values
 * per channel. Ioffe & Szegedy 2015. */
CJ_API cj_tensor *cj_batch_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_batch_norm_opts *opts);
/* The same with the statistics of each example, over the channels of a group and all positions (Wu & He 2018): x [N, C, ..], weight, bias [C] or NULL; the groups divide C;
 * eps 0: 1e-5. One group is layer normalisation over all but the first axis, as many groups as channels instance normalisation. */
CJ_API cj_tensor *cj_group_norm(cj_tensor *x, int64_t groups, cj_tensor *weight, cj_tensor *bias, double eps);
/* The statistics of each example and channel (Ulyanov et al. 2016): x [N, C, positions ..] with at least two positions. */
CJ_API cj_tensor *cj_instance_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps);
/* x / sqrt(mean(x²) + eps) · weight over the last axis (Zhang & Sennrich 2019); weight [n] of x's type or NULL; eps 0: 2^-23, for f64 2^-52. */
CJ_API cj_tensor *cj_rms_norm(cj_tensor *x, cj_tensor *weight, double eps);
typedef struct cj_lrn_opts {
    double alpha, beta, k;  /* 1e-4, 0.75, 1 */
} cj_lrn_opts;
/* x / (k + alpha·s)^beta, s the mean of x² over `size` neighbouring channels (size/2 before, (size-1)/2 after; zeros beyond): x [N, C, ..]. */
CJ_API cj_tensor *cj_local_response_norm(cj_tensor *x, int64_t size, const cj_lrn_opts *opts);
/* g · v / |v| (Salimans & Kingma 2016): the norm over all axes but one, g with one value per slice ([n], or v's shape with 1 elsewhere); a 0-d g scales all of v, whose
 * norm is then the whole one, and the axis does not count. */
CJ_API cj_tensor *cj_weight_norm(cj_tensor *v, cj_tensor *g, int axis);
typedef struct cj_spectral_opts {
    cj_tensor *v;        /* [columns], persistent: the right vector, kept like u; NULL: made from u */
    int64_t iterations;  /* of the power method; 1 */
    double eps;          /* the least norm; 1e-12 */
    bool eval;           /* u and v as they are, nothing is written */
} cj_spectral_opts;
typedef struct cj_spectral {
    cj_tensor *value;    /* w / sigma */
    cj_tensor *sigma;    /* 0-d: uᵀ·W·v, from below the largest singular value */
} cj_spectral;
/* w divided by its largest singular value as a matrix [first axis, the others] (Miyato et al. 2018). u [rows] is persistent: every call that is not eval brings it forward by
 * power iterations v = Wᵀu/|Wᵀu|, u = Wv/|Wv|, written when the caller's scope closes. Several calls in one scope, or in one captured step, go on from each other exactly as if
 * each had a scope of its own, and an eval call after them sees their vectors: as in PyTorch. u and v are constants for the derivative. */
CJ_API cj_spectral cj_spectral_norm(cj_tensor *w, cj_tensor *u, const cj_spectral_opts *opts);
typedef struct cj_standardise_opts {
    cj_axes axes;            /* over which mean and deviation are taken; not given: the first, the examples */
    bool unbiased;           /* divide by n - 1 */
    cj_tensor *mean, *std;   /* both: of another set of examples, instead of x's own */
} cj_standardise_opts;
typedef struct cj_standardised {
    cj_tensor *value;        /* (x - mean) / std; x is value · std + mean */
    cj_tensor *mean, *std;   /* with size 1 along the axes; the deviation of a constant feature counts as 1 */
} cj_standardised;
CJ_API cj_standardised cj_standardise(cj_tensor *x, const cj_standardise_opts *opts);
typedef struct cj_whiten_opts {
    double eps;          /* added to the diagonal of the covariance; 1e-5, CJ_ZERO: none */
    int64_t iterations;  /* 20 */
    bool unbiased;       /* covariance divided by n - 1 */
} cj_whiten_opts;
typedef struct cj_whitened {
    cj_tensor *value;    /* [n, d]: (x - mean)·matrix */
    cj_tensor *mean;     /* [d] */
    cj_tensor *matrix;   /* [d, d]: covariance^(-1/2), symmetric: of all whitenings the result stays closest to x (ZCA) */
} cj_whitened;
/* x [n, d] with covariance 1. The inverse square root comes from the coupled Newton-Schulz iteration (Higham 2008, 6.7) on cov/|cov|: a small eigenvalue grows by 2.25 per step,
 * then digits double, so 20 steps reach rounding error for condition numbers up to about 1e5 (f64; f32 to about 1e-5 for condition numbers up to 1e3). */
CJ_API cj_whitened cj_whiten(cj_tensor *x, const cj_whiten_opts *opts);
typedef struct cj_dropout_opts {
    double p;       /* probability of zero; 0.5 by default, CJ_ZERO for none */
    bool eval;      /* identity */
} cj_dropout_opts;
CJ_API cj_tensor *cj_dropout(cj_tensor *x, const cj_dropout_opts *opts);   /* inverted dropout: survivors are scaled by 1/(1-p) */

typedef enum cj_reduction { CJ_MEAN, CJ_SUM, CJ_NONE } cj_reduction;
typedef struct cj_loss_opts {
    cj_reduction reduction;   /* mean by default */
    double label_smoothing;   /* cross-entropy: (1-s) on the target plus s/C on every class */
    int64_t ignore_index;     /* cross-entropy, nll: 0 means -100 */
    bool smooth_others;       /* cross-entropy: 1-s on the target and s/(C-1) on each other class */
    cj_tensor *weight;        /* cross-entropy, nll, multilabel_soft_margin: [C]; the mean of the first two divides by the sum of the weights used. bce: broadcasts */
    cj_tensor *pos_weight;    /* bce_with_logits: factor of the cases with target 1; broadcasts */
} cj_loss_opts;
/* Classes: scores [.., C], target i64 [..]. */
CJ_API cj_tensor *cj_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts);  /* -log softmax(logits)[target] */
CJ_API cj_tensor *cj_nll_loss(cj_tensor *log_probs, cj_tensor *target, const cj_loss_opts *opts);    /* -log_probs[target] */
CJ_API cj_tensor *cj_soft_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts); /* target [.., C] on the simplex: -sum t·log softmax */
typedef struct cj_kl_opts {
    cj_reduction reduction;
    bool log_target;   /* the target holds logarithms, too */
    bool batch_mean;   /* the sum divided by the first axis: the divergence per row, where the mean divides by all elements */
} cj_kl_opts;
CJ_API cj_tensor *cj_kl_div(cj_tensor *log_probs, cj_tensor *target, const cj_kl_opts *opts);         /* t·(log t - log_probs); 0·log 0 = 0 */
CJ_API cj_tensor *cj_bce_loss(cj_tensor *p, cj_tensor *target, const cj_loss_opts *opts);             /* logs clamped at -100 as in PyTorch */
CJ_API cj_tensor *cj_bce_with_logits(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts); /* max(x,0) - x·t + log(1 + e^-|x|) */
CJ_API cj_tensor *cj_multilabel_soft_margin_loss(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts); /* mean over the last axis of bce; target 0 or 1 */
/* Row by row the sum over targets j and other classes i of max(0, 1 - x_j + x_i) / C; target i64 [.., C]: class numbers up to the first negative one. */
CJ_API cj_tensor *cj_multilabel_margin_loss(cj_tensor *scores, cj_tensor *target, const cj_loss_opts *opts);

/* Regression: equal shapes. */
CJ_API cj_tensor *cj_mse_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts);         /* (x - t)² */
CJ_API cj_tensor *cj_squared_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts);     /* (x - t)² / 2: gradient x - t */
CJ_API cj_tensor *cj_l1_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts);          /* |x - t|; gradient 0 at 0 */
typedef struct cj_huber_opts {
    cj_reduction reduction;
    double delta;   /* 1 */
} cj_huber_opts;
CJ_API cj_tensor *cj_huber_loss(cj_tensor *input, cj_tensor *target, const cj_huber_opts *opts);      /* r²/2 where |r| <= delta, else delta·(|r| - delta/2) */
typedef struct cj_smooth_l1_opts {
    cj_reduction reduction;
    double beta;    /* 1; CJ_ZERO: |r| */
} cj_smooth_l1_opts;
CJ_API cj_tensor *cj_smooth_l1_loss(cj_tensor *input, cj_tensor *target, const cj_smooth_l1_opts *opts); /* huber with delta = beta, divided by beta */
/* r·(tau - 1{r < 0}) with r = t - x: minimised by the tau-quantile. */
CJ_API cj_tensor *cj_pinball_loss(cj_tensor *input, cj_tensor *target, double tau, const cj_loss_opts *opts);

/* Two classes: a score f and a target y of +1 or -1, equal shapes. */
CJ_API cj_tensor *cj_zero_one_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts);    /* 1 where y·f <= 0; gradient 0 */
CJ_API cj_tensor *cj_perceptron_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts);  /* max(0, -y·f); gradient -y also at a tie */
CJ_API cj_tensor *cj_exponential_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts); /* e^(-y·f) */
CJ_API cj_tensor *cj_soft_margin_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts); /* log(1 + e^(-y·f)): the logistic loss */
typedef struct cj_margin_opts {
    cj_reduction reduction;
    double margin;      /* 1; of margin_ranking and cosine_embedding 0 */
    double p;           /* multi_margin: 1 or 2; 1 */
    cj_tensor *weight;  /* multi_margin: [C] */
} cj_margin_opts;
CJ_API cj_tensor *cj_hinge_loss(cj_tensor *score, cj_tensor *target, const cj_margin_opts *opts);     /* max(0, margin - y·f) */
CJ_API cj_tensor *cj_hinge_embedding_loss(cj_tensor *x, cj_tensor *target, const cj_margin_opts *opts); /* x for y = 1, max(0, margin - x) for y = -1 */
/* The hinge of several classes: sum over i != t of max(0, margin - x_t + x_i)^p / C. */
CJ_API cj_tensor *cj_multi_margin_loss(cj_tensor *scores, cj_tensor *target, const cj_margin_opts *opts);
CJ_API cj_tensor *cj_margin_ranking_loss(cj_tensor *a, cj_tensor *b, cj_tensor *target, const cj_margin_opts *opts); /* max(0, margin - y·(a - b)) */
/* Vectors along the last axis: 1 - cos(a, b) for y = 1, max(0, cos - margin) for y = -1. */
CJ_API cj_tensor *cj_cosine_embedding_loss(cj_tensor *a, cj_tensor *b, cj_tensor *target, const cj_margin_opts *opts);
typedef struct cj_triplet_opts {
    cj_reduction reduction;
    double margin;  /* 1 */
    double p;       /* of the norm; 2 */
    bool swap;      /* also the distance of positive and negative: the smaller counts */
} cj_triplet_opts;
CJ_API cj_tensor *cj_triplet_margin_loss(cj_tensor *anchor, cj_tensor *positive, cj_tensor *negative, const cj_triplet_opts *opts); /* max(0, margin + |a-p| - |a-n|) */

/* Negative log-likelihoods: location and scale broadcast to the target, so one variance and one per example are the same call. */
typedef struct cj_likelihood_opts {
    cj_reduction reduction;
    bool full;    /* gaussian_nll: with log(2π)/2; the others always have their constants */
    double eps;   /* floor of the variance (1e-6), of the scale (1e-6; of gaussian_scale and mixture 1e-3) */
} cj_likelihood_opts;
CJ_API cj_tensor *cj_gaussian_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *variance, const cj_likelihood_opts *opts);    /* (log v + (m - y)²/v) / 2 */
/* log|s| + ((y - m)/s)²/2 + log(2π)/2: a scale of either sign, as a network puts it out. */
CJ_API cj_tensor *cj_gaussian_scale_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts);
/* Full covariance: mean and target [.., d], factor L [.., d, d] or [d, d], of which the lower triangle counts; precision (inverse covariance) L·Lᵀ. */
CJ_API cj_tensor *cj_multivariate_gaussian_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *factor, const cj_likelihood_opts *opts);
CJ_API cj_tensor *cj_laplace_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts);        /* |y - m|/b + log(2b) */
CJ_API cj_tensor *cj_gumbel_nll_loss(cj_tensor *location, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts);     /* log b + z + e^-z, z = (y - m)/b */
/* Mixture density outputs (Bishop 1994): -log sum_k softmax(logits)_k N(y; mean_k, scale_k²); logits, mean, scale [.., K], a scale of either sign, target [..]. With one component it
 * is gaussian_scale_nll. Samples, means and quantiles of such outputs: cj_dist_mixture(logits, cj_dist_normal(mean, scale)). */
CJ_API cj_tensor *cj_mixture_nll_loss(cj_tensor *logits, cj_tensor *mean, cj_tensor *scale, cj_tensor *target, const cj_likelihood_opts *opts);
typedef struct cj_poisson_opts {
    cj_reduction reduction;
    bool rate;    /* the input is the rate, not its logarithm: x - y·log(x + eps) */
    bool full;    /* with Stirling's approximation of log y! */
    double eps;   /* 1e-8 */
} cj_poisson_opts;
CJ_API cj_tensor *cj_poisson_nll_loss(cj_tensor *input, cj_tensor *target, const cj_poisson_opts *opts);                            /* e^x - y·x */
/* Exponential families p(y; v) = h(y)·exp(y·v - psi(v)); psi: v²/2, log(1 + e^v), log sum e^v (last axis), e^v, -log(-v) for v < 0. */
typedef enum cj_family { CJ_FAMILY_GAUSSIAN, CJ_FAMILY_BERNOULLI, CJ_FAMILY_CATEGORICAL, CJ_FAMILY_POISSON, CJ_FAMILY_EXPONENTIAL } cj_family;
CJ_API cj_tensor *cj_exponential_family_nll(cj_tensor *v, cj_tensor *target, cj_family family, const cj_loss_opts *opts); /* psi(v) - y·v: gradient mean - y */
CJ_API cj_tensor *cj_exponential_family_mean(cj_tensor *v, cj_family family);                                            /* psi'(v): the mean of y */
/* softmax(scale·q·kᵀ + mask)·v, row by row of q: q [.., Tq, d], k [.., Tk, d], v [.., Tk, e] -> [.., Tq, e], of one float type (bf16 and f16 are computed in f32).
 * Leading axes broadcast; the last of them counts heads, and q may have a multiple of the heads of k and v: neighbours share one (grouped queries). A query that may
 * attend to nothing gives zeros, and so do its gradients. Memory grows with Tq + Tk, not with their product, except for the gradient of a mask and derivatives of
 * higher order. Strides of all axes but the last are free: a transposed view of [B, T, H, d] is not copied. */
typedef struct cj_attention_opts {
    bool causal;            /* query i stands at key i + (Tk - Tq) and sees the keys up to there */
    double scale;           /* 1/sqrt(d) by default */
    cj_tensor *key_length;  /* i64, 0-d or with q's leading axes: keys from this position on get no weight, so a cache larger than its contents can be given;
                             * a tensor, so that one plan decodes at every position. With causal, the queries are the last of these keys. 1 … Tk. */
    cj_tensor *mask;        /* broadcasts to [.., Tq, Tk]: bool, true may attend; or floats, added to the scaled scores (-INFINITY: may not), differentiable */
    double dropout;         /* probability with which a weight is set to 0, the others divided by 1 - p; one call of CJ_STREAM_DROPOUT. For training only. */
} cj_attention_opts;
CJ_API cj_tensor *cj_attention(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts);
/* The same for queries, keys and values side by side, as one projection makes them: qkv [.., T, 3·heads·d] -> [.., T, heads·d].  Its gradient is one tensor like qkv;
 * nothing is taken apart, copied or put together. */
CJ_API cj_tensor *cj_attention_packed(cj_tensor *qkv, int64_t heads, const cj_attention_opts *opts);

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
