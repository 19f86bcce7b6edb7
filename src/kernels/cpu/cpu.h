/* The table of CPU kernels: one instance per instruction-set level (table.c), chosen when a context is made.
 *
 * Kernels know pointers, sizes and strides, nothing of tensors, tapes or errors; arguments have been validated before.  They allocate nothing: scratch
 * comes from the caller.  Sizes and strides count elements.  Results depend on the arguments and the level only, never on the number of threads.
 */
#ifndef CJ_KERNELS_CPU_CPU_H
#define CJ_KERNELS_CPU_CPU_H

#include "cajal/core.h"
#include "core/parallel.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/ew.h"
#include "kernels/cpu/fft.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/grid.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lu.h"
#include "kernels/cpu/normalise.h"
#include "kernels/cpu/order.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/resample.h"
#include "kernels/cpu/roi.h"
#include "kernels/cpu/scan.h"
#include "kernels/cpu/segment.h"
#include "kernels/cpu/small.h"
#include "kernels/cpu/sparse.h"
#include "kernels/cpu/window.h"

/* ---- reductions (reduce.c) ------------------------------------------------------------------------------------------------------ */

typedef enum cj_reduce_code {
    CJ_RED_SUM,
    CJ_RED_PROD,
    CJ_RED_MAX,
    CJ_RED_MIN,
    CJ_RED_ARGMAX,
    CJ_RED_ARGMIN,
    CJ_RED_ANY,
    CJ_RED_ALL,
    CJ_REDS
} cj_reduce_code;

/* x is [outer, len, inner] with the given strides, y is contiguous [outer, inner].
 * SUM, PROD, MAX, MIN: y has x's dtype (float sums blocked, bf16/f16 accumulated in f32; integer sums of any width and bool come with y i64); NaN wins MAX and MIN.
 * ARGMAX, ARGMIN: y is i64, the first index among ties, NaN wins.  ANY, ALL: y is bool.  scale multiplies a float SUM (mean: 1/len). */
typedef void cj_reduce_fn(cj_pool *pool, cj_reduce_code code, cj_dtype dtype, const void *x, int64_t outer, int64_t len, int64_t inner,
                          int64_t s_outer, int64_t s_len, int64_t s_inner, void *y, double scale);

/* ---- copies (copy.c) -------------------------------------------------------------------------------------------------------------- */

/* y[i…] = convert(x[i…]) over any strides and dtypes. Float to integer truncates and saturates, NaN becomes 0; float to bool is x != 0.
 * Contiguous same-dtype runs are memcpy, 2-D transposes are tiled. */
typedef void cj_copy_fn(cj_pool *pool, int ndim, const int64_t *shape, cj_dtype xt, const void *x, const int64_t *xs, cj_dtype yt, void *y,
                        const int64_t *ys);
/* n elements of dtype t set to value (converted as cj_copy_fn does). */
typedef void cj_fill_fn(cj_pool *pool, cj_dtype t, void *y, int64_t n, double value, int64_t ivalue);

/* ---- indexing (index.c) ---------------------------------------------------------------------------------------------------------- */

/* y[i0, j, i2] = x[i0, index[j], i2]: x [outer, len, inner], index n_index values of i64, y contiguous [outer, n_index, inner]. elem: element size in bytes.
 * Indices are in range (checked by cj_index_check). */
typedef void cj_index_select_fn(cj_pool *pool, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                                int64_t n_index, void *y);
/* y[i0, index[j], i2] += x[i0, j, i2], in the order of j for every element (deterministic); y starts as given. dtype float or integer. */
typedef void cj_index_add_fn(cj_pool *pool, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                             int64_t n_index, const void *x);
/* gather: y[i0, j, i2] = x[i0, index[i0, j, i2], i2]; all contiguous; x [outer, len, inner], index and y [outer, n, inner]. */
typedef void cj_gather_fn(cj_pool *pool, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                          int64_t n, void *y);
/* scatter_add: y[i0, index[i0, j, i2], i2] += x[i0, j, i2], in the order of j. */
typedef void cj_scatter_add_fn(cj_pool *pool, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                               int64_t n, const void *x);
/* The same with CJ_RED_PROD, CJ_RED_MAX or CJ_RED_MIN (NaN wins) in place of the sum. */
typedef void cj_scatter_reduce_fn(cj_pool *pool, cj_reduce_code how, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner,
                                  const int64_t *index, int64_t n, const void *x);
/* The first position whose index lies outside [0, len), or -1. */
typedef int64_t cj_index_check_fn(cj_pool *pool, const int64_t *index, int64_t n, int64_t len);

/* ---- rows (rows.c): fused composites over the last axis; x [rows, n] with unit column stride and row stride s_row, f32/f64/bf16/f16 ----- */

typedef void cj_softmax_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, void *y, bool log);
/* dx from y and dy (contiguous): softmax dx = y*(dy - sum(y*dy)); log-softmax dx = dy - exp(y)*sum(dy). */
typedef void cj_softmax_bwd_fn(cj_pool *pool, cj_dtype t, const void *y, const void *dy, int64_t rows, int64_t n, void *dx, bool log);
/* y = (x - mean) / sqrt(var + eps) * w + b; w, b may be NULL; mean and rstd (f32, or f64 for f64; rows values) are saved. */
typedef void cj_layer_norm_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, const void *w,
                              const void *b, double eps, void *y, void *mean, void *rstd);
/* dx, dw, db (each may be NULL). scratch: cj_layer_norm_bwd_scratch bytes. */
typedef void cj_layer_norm_bwd_fn(cj_pool *pool, cj_dtype t, const void *x, const void *dy, const void *w, const void *mean,
                                  const void *rstd, int64_t rows, int64_t n, int64_t s_row, void *dx, void *dw, void *db, void *scratch);
typedef size_t cj_layer_norm_bwd_scratch_fn(cj_dtype t, int64_t rows, int64_t n);
/* y = x / sqrt(mean(x²) + eps) * w, contiguous rows; rstd is saved. The backward's dw may be NULL; its scratch is cj_layer_norm_bwd_scratch's. */
typedef void cj_rms_norm_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, const void *w, double eps, void *y,
                            void *rstd);
typedef void cj_rms_norm_bwd_fn(cj_pool *pool, cj_dtype t, const void *x, const void *dy, const void *w, const void *rstd, int64_t rows,
                                int64_t n, void *dx, void *dw, void *scratch);
/* Cross-entropy with class targets: loss[r] = lse(x[r]) - (1-smooth)*x[r,target] - smooth*mean(x[r]); rows whose target is ignore give 0. lse (f32/f64) is saved.
 * x has unit column stride, row stride s_row. loss has x's dtype. */
typedef void cj_cross_entropy_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, const int64_t *target,
                                 int64_t ignore, double smooth, void *loss, void *lse);
/* dx[r] = g[r]*(softmax(x[r]) - (1-smooth)*onehot - smooth/n); g has row stride s_g (0: one value for all) and x's dtype. */
typedef void cj_cross_entropy_bwd_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row,
                                     const int64_t *target, int64_t ignore, double smooth, const void *lse, const void *g, int64_t s_g,
                                     void *dx);

/* ---- random draws (random.c): the same bits on every level, thread count and device ----------------------------------------------- */

typedef enum cj_draw { CJ_DRAW_UNIFORM, CJ_DRAW_NORMAL, CJ_DRAW_BERNOULLI, CJ_DRAW_INTEGER, CJ_DRAW_EXPONENTIAL } cj_draw;
/* Element i (row-major) takes words of Philox4x32-10 with key (seed, stream) and counter (call, i / 4 …); a, b: uniform [a, b), normal mean a and deviation b,
 * Bernoulli probability a, integers a <= v < b, exponential rate a. y contiguous. */
typedef void cj_random_fn(cj_pool *pool, cj_draw kind, cj_dtype t, uint64_t seed, uint64_t stream, uint64_t call, double a, double b,
                          int64_t n, void *y);

/* ---- updates (update.c): one pass over a list of parameters ---------------------------------------------------------------------------- */

typedef struct cj_update_slice { /* all contiguous, n elements; of dtype t, but for bf16 and f16 p and the states are f32 */
    void *p;                     /* parameter, or its master copy */
    const void *g;               /* gradient */
    void *m, *v, *w;             /* states, or NULL */
    void *half;                  /* bf16, f16: the parameter, which gets p rounded; else NULL */
    int64_t n;
} cj_update_slice;
typedef struct cj_update_opts {
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
    double bias1, bias2;   /* 1 - beta1^t, 1 - beta2^t */
    double grad_scale;     /* every gradient is multiplied by this first (clipping, loss scale) */
    double step_g, step_m; /* NAdam: what the gradient and its mean are multiplied by */
    bool nesterov, decoupled /* AdamW */, centred /* RMSProp */, first /* momentum: first step copies the gradient */;
} cj_update_opts;
/* PyTorch's formulas.  SGD: g += wd*p; m = momentum*m + (1-dampening)*g (m = g on the first step); p -= lr*(nesterov ? g + momentum*m : m). */
typedef void cj_update_fn(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices, const cj_update_opts *o);
/* Sum of squares of all gradients, in f64, blocked by shape. */
typedef double cj_sumsq_fn(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices);

/* ---- small elementwise calls (ew_small.c): one f32 instruction on n <= CJ_EW_BLOCK contiguous elements ------------------------------------- */

typedef void cj_ew_small_fn(cj_ew_code code, float *d, const float *a, const float *b, const float *c, double s, int n);

/* A program of f32 on `rows` rows of n contiguous elements of every argument, inputs then outputs, row[k] elements apart. */
typedef void cj_ew_rows_fn(const cj_ew_prog *p, float *const *at, const int64_t *row, int64_t rows, int64_t n);

typedef struct cj_cpu_kernels {
    const char *name; /* "avx512" … */
    cj_ew_small_fn *ew_small;
    cj_ew_rows_fn *ew_rows;
    cj_ew_run_fn *ew_run;
    cj_ew_span_fn *ew_span;
    cj_gemm_fn *gemm[CJ_DTYPES]; /* by dtype; NULL where there is none */
    cj_gemm_workspace_fn *gemm_workspace[CJ_DTYPES];
    cj_gemm_one_go_fn *gemm_one_go;
    cj_conv_fn *conv;
    cj_conv_workspace_fn *conv_workspace;
    cj_conv_packed_fn *conv_packed;
    cj_conv_pack_fn *conv_pack;
    cj_conv_both_fn *conv_both;
    cj_conv_both_workspace_fn *conv_both_workspace;
    cj_fft_fn *fft;
    cj_fft_workspace_fn *fft_workspace;
    cj_fft_split_fn *fft_split;
    cj_fft_join_fn *fft_join;
    cj_recurrent_fn *recurrent;
    cj_recurrent_saved_fn *recurrent_saved;
    cj_recurrent_workspace_fn *recurrent_workspace;
    cj_window_workspace_fn *window_workspace;
    cj_window_max_fn *window_max;
    cj_window_put_fn *window_put;
    cj_window_sum_fn *window_sum;
    cj_window_spread_fn *window_spread;
    cj_resample_fn *resample;
    cj_resample_workspace_fn *resample_workspace;
    cj_grid_fn *grid_sample;
    cj_grid_bwd_fn *grid_sample_bwd;
    cj_roi_fn *roi;
    cj_csr_matmul_fn *csr_matmul;
    cj_csr_dot_fn *csr_dot;
    cj_reduce_fn *reduce;
    cj_copy_fn *copy;
    cj_fill_fn *fill;
    cj_index_select_fn *index_select;
    cj_index_add_fn *index_add;
    cj_gather_fn *gather;
    cj_scatter_add_fn *scatter_add;
    cj_index_check_fn *index_check;
    cj_scatter_reduce_fn *scatter_reduce;
    cj_order_fn *order;
    cj_order_scratch_fn *order_scratch;
    cj_searchsorted_fn *searchsorted;
    cj_runs_fn *runs;
    cj_scan_fn *scan;
    cj_scan_bwd_fn *scan_bwd;
    cj_bag_fn *bag;
    cj_bag_bwd_fn *bag_bwd;
    cj_bag_weights_bwd_fn *bag_weights_bwd;
    cj_count_fn *count;
    cj_histogram_fn *histogram;
    cj_suppress_fn *suppress;
    cj_softmax_fn *softmax;
    cj_softmax_bwd_fn *softmax_bwd;
    cj_layer_norm_fn *layer_norm;
    cj_layer_norm_bwd_fn *layer_norm_bwd;
    cj_layer_norm_bwd_scratch_fn *layer_norm_bwd_scratch;
    cj_rms_norm_fn *rms_norm;
    cj_rms_norm_bwd_fn *rms_norm_bwd;
    cj_normalise_fn *normalise, *normalise_bwd;
    cj_normalise_scratch_fn *normalise_scratch;
    cj_cross_entropy_fn *cross_entropy;
    cj_cross_entropy_bwd_fn *cross_entropy_bwd;
    cj_attention_fn *attention;
    cj_attention_workspace_fn *attention_workspace;
    cj_random_fn *random;
    cj_update_fn *sgd, *adam, *amsgrad, *adagrad, *rmsprop, *adamax, *nadam, *sign, *lion;
    cj_sumsq_fn *sumsq;
    cj_small_fn *small;
    cj_finite_fn *finite;
    cj_lu_workspace_fn *lu_workspace;
    cj_lu_factor_fn *lu_factor;
    cj_lu_solve_fn *lu_solve;
    cj_turn_fn *turn;
} cj_cpu_kernels;

/* The table of a level, or NULL where it is not built in or the processor lacks it. */
const cj_cpu_kernels *cj__cpu_kernels(cj_isa level);
/* The level named "avx512", "avx2", "neon" or "portable", or -1. */
int cj__isa_by_name(const char *name);

#endif
