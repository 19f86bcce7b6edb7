/* Attributes of the operators that more than their own file reads: kernels of several back-ends, the export of graphs.  Plain bytes without hidden padding: plans compare them with memcmp. */
#ifndef CJ_OPS_ATTRS_H
#define CJ_OPS_ATTRS_H

#include "core/core.h"

typedef struct cj_reduce_attrs {
    int first, count; /* the run of axes */
    int code;         /* cj_reduce_code */
    int keepdim;
    double scale; /* multiplies sums: 1/len for the mean */
} cj_reduce_attrs;

typedef struct cj_full_attrs {
    double value;
    int64_t dim[CJ_MAX_DIMS];
    int32_t ndim, dtype, device, pad;
} cj_full_attrs;

typedef struct cj_range_attrs {
    double start, step;
    int64_t n;
    int32_t dtype, device;
} cj_range_attrs;

typedef struct cj_draw_attrs {
    cj_random_attrs base; /* first: plans rewrite base.call */
    double a, b;
    int64_t dim[CJ_MAX_DIMS];
    int32_t ndim, dtype, kind, device;
} cj_draw_attrs;

typedef struct cj_norm_attrs {
    double eps;
    int32_t affine; /* 0 none, 1 weight, 2 weight and bias */
    int32_t pad;
} cj_norm_attrs;

/* Batch and group normalisation.  Inputs x [, mean, var], [weight], [bias]. */
typedef struct cj_normalise_attrs {
    double eps;
    int64_t groups;       /* 0: batch normalisation */
    int32_t last;         /* the channels are the last axis of x, not the second */
    int32_t relu, given;  /* max(y, 0); mean and var are inputs */
    int32_t weight, bias; /* 1: given */
    int32_t pad;
} cj_normalise_attrs;

typedef struct cj_ce_attrs {
    double smooth;
    int64_t ignore;
    int32_t reduction; /* cj_reduction */
    int32_t pad;
} cj_ce_attrs;

/* as_strided over a contiguous base, and its transpose. */
typedef struct cj_strided_attrs {
    int base_ndim, ndim;
    int64_t base[CJ_MAX_DIMS]; /* shape of the contiguous base */
    int64_t shape[CJ_MAX_DIMS], stride[CJ_MAX_DIMS], offset;
} cj_strided_attrs;

/* permute: the input axis of each result axis. */
typedef struct cj_permute_attrs {
    int ndim;
    int order[CJ_MAX_DIMS];
} cj_permute_attrs;

/* slice, select, diagonal, unfold. */
typedef struct cj_pick_attrs {
    int kind, axis, axis2;
    int64_t start, step, len; /* of the axis, of the diagonal, or the number of windows */
    int64_t size;             /* of a window */
} cj_pick_attrs;

/* Convolution and its two transposes; sizes right-aligned. */
typedef struct cj_conv_attrs {
    int64_t nd, groups;
    int64_t stride[3], low[3], high[3], dilation[3]; /* low, high: zeros before and after */
    int64_t size[3];                                 /* conv_data: of x; conv_weight: of the kernel */
} cj_conv_attrs;

/* Pooling. */
typedef struct cj_window_attrs {
    int64_t nd;
    int64_t kernel[3], stride[3], low[3], dilation[3], out[3]; /* right-aligned; axes that are not there have size 1 */
    int64_t in[3];
    double scale; /* of sums */
} cj_window_attrs;

/* Recurrences.  Inputs a (the input terms of all steps), w_hh, then those of `has`, in this order. */
enum { CJ_RECURRENT_BIAS = 1, CJ_RECURRENT_H0 = 2, CJ_RECURRENT_C0 = 4, CJ_RECURRENT_LENGTHS = 8 };
typedef struct cj_recurrent_attrs {
    int64_t cell, relu, reverse, truncate;
    int64_t has;
    int64_t save;  /* a derivative may be wanted */
    int64_t given; /* backward: bit j is set where result j has a gradient */
} cj_recurrent_attrs;

/* Products with a sparse matrix: offsets, columns, their transposes, values, x. */
typedef struct cj_csr_attrs {
    int64_t rows, cols, transposed;
} cj_csr_attrs;

/* Running sums and their kin. */
typedef struct cj_scan_attrs {
    int64_t axis, reverse;
} cj_scan_attrs;

/* sort, topk: along the last axis. */
typedef struct cj_order_attrs {
    int64_t k; /* of every row; -1: all, sorted */
    int64_t descending;
} cj_order_attrs;

/* interpolate and its transpose. */
typedef struct cj_resample_attrs {
    int64_t nd, mode, align;
    int64_t in[3], out[3];    /* right-aligned; axes that are not there have size 1 */
    double advance[3], by[3]; /* source positions are advance / by apart: a quotient, so that whole positions come out whole */
} cj_resample_attrs;

/* Optimiser updates.  Inputs: step, parameters (flat), [f32 master copy,] states, [product of NAdam's momenta] | learning rate, gradients.  Half-precision parameters have
 * a master; states that a rule does not have are absent.  Slices start on 64-byte borders of the parameters, at the same elements in all buffers. */
typedef enum cj_update_rule {
    CJ_UPDATE_SGD,
    CJ_UPDATE_ADAM,
    CJ_UPDATE_AMSGRAD,
    CJ_UPDATE_ADAGRAD,
    CJ_UPDATE_RMSPROP,
    CJ_UPDATE_ADAMAX,
    CJ_UPDATE_NADAM,
    CJ_UPDATE_SIGN,
    CJ_UPDATE_LION,
    CJ_UPDATE_RULES
} cj_update_rule;
typedef struct cj_update_attrs {
    cj_write_attrs w;
    double momentum, dampening, weight_decay, beta1, beta2, eps, clip_norm;
    double lr_decay, momentum_decay; /* AdaGrad, NAdam */
    int32_t rule, states, nesterov, decoupled, master, centred;
    int32_t grouped; /* an input after the rate: factor of the rate and weight decay of each parameter */
} cj_update_attrs;

#endif
