/* The CUDA back-end's inside: what table.c, which knows tensors, asks of the .cu files, which know arrays.
 *
 * Every function launches on the state's one stream and returns NULL or a message; none waits, allocates or copies to or from the host, so all may be
 * called while a graph is captured.  Sizes and strides count elements.  Reductions are trees of fixed shape: same bits on every run.
 */
#ifndef CJ_KERNELS_CUDA_CUDA_H
#define CJ_KERNELS_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "kernels/cpu/cpu.h" /* instruction and reduction codes, cj_ew_prog, cj_gemm: the CPU's descriptions serve both */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_state gpu_state;

static inline int gpu_elem(int t)
{
    return t == CJ_F64 || t == CJ_I64 ? 8 : t == CJ_BF16 || t == CJ_F16 ? 2 : t == CJ_U8 || t == CJ_BOOL ? 1 : 4;
}
static inline bool gpu_is_float(int t) { return t >= CJ_F32 && t <= CJ_F16; }

/* ---- the device (device.cu) ------------------------------------------------------------------------------------------------------------- */

void *gpu_open(int index, char *message, size_t n);
void gpu_close(void *state);
void *gpu_alloc(void *state, size_t bytes);
void gpu_free(void *state, void *p);
bool gpu_to_device(void *state, void *dst, const void *src, size_t bytes);
bool gpu_to_host(void *state, void *dst, const void *src, size_t bytes);
bool gpu_copy_bytes(void *state, void *dst, const void *src, size_t bytes);
bool gpu_sync(void *state);
bool gpu_graph_begin(void *state);
void *gpu_graph_end(void *state);
bool gpu_graph_launch(void *state, void *graph);
void gpu_graph_free(void *state, void *graph);
const char *gpu_describe(void *state);
const char *gpu_fault_text(void *state, cj_code *code);
bool gpu_set_bases(void *state, const uint64_t *bases, int n);
void gpu_use(gpu_state *st); /* makes the state's device the calling thread's */

/* Who reports a bad index; the sentence that the next synchronisation gives names it. */
typedef enum gpu_reporter {
    GPU_INDEX_SELECT,
    GPU_INDEX_ADD,
    GPU_GATHER,
    GPU_SCATTER_ADD,
    GPU_CROSS_ENTROPY,
    GPU_WRITE_SLICE,
    GPU_DIVISION,
    GPU_CSR,
    GPU_REPORTERS
} gpu_reporter;

/* ---- elementwise (ew.cu) -------------------------------------------------------------------------------------------------------------------- */

const char *gpu_ew(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape);

/* ---- copies, constants, draws (copy.cu, random.cu) ----------------------------------------------------------------------------------------------- */

/* A place along an axis that is read on the device: y moves by clamp(*at, 0, limit) · stride elements.  at NULL: none. */
typedef struct gpu_position {
    const int64_t *at;
    int64_t limit, stride;
} gpu_position;
const char *gpu_copy(gpu_state *st, int ndim, const int64_t *shape, int xt, const void *x, const int64_t *xs, int yt, void *y,
                     const int64_t *ys, gpu_position position);
const char *gpu_fill(gpu_state *st, int t, void *y, int64_t n, double value);
const char *gpu_arange(gpu_state *st, int t, void *y, int64_t n, double start, double step);
/* In a graph the call number is `call` plus the stream's entry of the bases (gpu_set_bases), read when the graph runs. */
const char *gpu_random(gpu_state *st, int kind, int t, uint64_t seed, uint64_t stream, uint64_t call, double a, double b, int64_t n,
                       void *y);

/* ---- reductions (reduce.cu) ------------------------------------------------------------------------------------------------------------------- */

const char *gpu_reduce(gpu_state *st, int code, int t, const void *x, const int64_t size[3], const int64_t stride[3], void *y,
                       double scale);

/* ---- indexing (index.cu): arguments as in kernels/cpu/cpu.h; bad indices are clamped and reported ------------------------------------------------- */

const char *gpu_index_select(gpu_state *st, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                             int64_t n, void *y);
const char *gpu_gather(gpu_state *st, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                       void *y);
/* y = x with s added at the indices, in the order of the indices for every element. */
const char *gpu_index_add(gpu_state *st, int t, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                          const void *s, void *y);
const char *gpu_scatter_add(gpu_state *st, int t, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                            const void *s, void *y);

/* ---- products (gemm.cu) -------------------------------------------------------------------------------------------------------------------------- */

const char *gpu_gemm(gpu_state *st, int t, const cj_gemm *g);
/* Room for operands packed before a product: valid until the next kernel that needs scratch, which gpu_gemm does not. */
void *gpu_scratch(gpu_state *st, size_t *bytes);

/* ---- rows (rows.cu): contiguous [rows, n] ---------------------------------------------------------------------------------------------------------- */

const char *gpu_softmax(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, void *y, bool log);
const char *gpu_softmax_bwd(gpu_state *st, int t, const void *y, const void *dy, int64_t rows, int64_t n, void *dx, bool log);
const char *gpu_layer_norm(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const void *w, const void *b, double eps, void *y,
                           void *mean, void *rstd);
const char *gpu_layer_norm_bwd(gpu_state *st, int t, const void *x, const void *dy, const void *w, const void *mean, const void *rstd,
                               int64_t rows, int64_t n, void *dx, void *dw, void *db);
/* loss: one per row where each is set, else the sum times the weight; weight (f32, or f64 for f64): 1/counted rows for the mean, else 1. */
const char *gpu_cross_entropy(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore,
                              double smooth, bool each, bool mean, void *loss, void *lse, void *weight);
/* weight NULL: one gradient per row; else g[0]·weight[0] for all. */
const char *gpu_cross_entropy_bwd(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore,
                                  double smooth, const void *lse, const void *g, int64_t s_g, const void *weight, void *dx);

/* ---- images (conv.cu, window.cu): depth, height and width; axes that are not there have size 1 ------------------------------------------------------------ */

typedef struct gpu_image {
    void *data;
    int64_t n, c, size[3];
    int64_t stride_n, stride_c, stride[3];
} gpu_image;
typedef struct gpu_window {
    int64_t kernel[3], stride[3], pad[3], dilation[3];
} gpu_window;

/* weight [y's channels, x's channels of a group, kernel], contiguous; bias: f32 only, or NULL */
const char *gpu_conv(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, int64_t groups, const void *weight, const float *bias,
                     const gpu_image *y);
const char *gpu_conv_data(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, int64_t groups, const void *weight,
                          const gpu_image *x);
const char *gpu_conv_weight(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, int64_t groups, const gpu_image *y, void *dw);
/* Places of maxima lie as y does: positions or taps, the other one NULL. */
const char *gpu_window_max(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, const gpu_image *y, int64_t *index, uint8_t *tap);
const char *gpu_window_put(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, int64_t *index, uint8_t *tap, const gpu_image *x);
const char *gpu_window_sum(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, double scale, const gpu_image *y);
const char *gpu_window_spread(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, double scale, const gpu_image *x);

/* ---- sparse matrices (sparse.cu) ------------------------------------------------------------------------------------------------------------------------------ */

/* Entry p of row i, p in [offsets[i], offsets[i+1]), stands at columns[p] and has the value number entry[p], or p; dense matrices have k columns. */
typedef struct gpu_csr {
    int64_t rows, cols, entries, k;
    const int64_t *offsets, *columns, *entry;
} gpu_csr;
const char *gpu_csr_matmul(gpu_state *st, int t, const gpu_csr *m, const void *values, const void *x, void *y);
const char *gpu_csr_sampled(gpu_state *st, int t, const gpu_csr *m, const void *x, const void *y, void *out);

/* ---- batch and group normalisation (normalise.cu): contiguous [outer, channels, inner] ------------------------------------------------------------------------ */

typedef struct gpu_norm {
    int t;
    const void *x, *dy;
    void *y;                                /* or dx */
    int64_t outer, channels, inner, groups; /* groups 0: batch normalisation */
    double eps;
    bool relu, given; /* max(y, 0); mean and var are not of x */
    double *mean, *var;
    const void *weight, *bias; /* or NULL */
    int weight_type, bias_type;
} gpu_norm;
const char *gpu_normalise(gpu_state *st, const gpu_norm *n);
const char *gpu_normalise_bwd(gpu_state *st, const gpu_norm *n, void *dweight, void *dbias);

/* ---- updates (update.cu) ----------------------------------------------------------------------------------------------------------------------------- */

typedef struct gpu_update {
    int t;    /* of parameters and gradients */
    int rule; /* cj_update_rule */
    double momentum, dampening, weight_decay, beta1, beta2, eps, clip_norm;
    bool nesterov, decoupled;
    double *step; /* counted up on the device */
    const double *lr;
    void *p, *m, *v; /* flat, f64 for f64, else f32; states may be NULL */
    void *half;      /* bf16, f16: the parameters, which get p rounded */
} gpu_update;
/* Gradient i belongs to elements offset[i] … of the flat buffers. */
typedef struct gpu_slice {
    const void *g;
    int64_t offset, n;
} gpu_slice;
const char *gpu_update_run(gpu_state *st, const gpu_update *u, const gpu_slice *slices, int n);

#ifdef __cplusplus
}
#endif
#endif
