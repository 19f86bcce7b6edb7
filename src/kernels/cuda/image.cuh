/* Images on the device: where an element lies, for convolution (conv.cu) and windows (window.cu). */
#ifndef CJ_KERNELS_CUDA_IMAGE_CUH
#define CJ_KERNELS_CUDA_IMAGE_CUH

#include "kernels/cuda/state.cuh"

struct image_place {
    int64_t n, c, p[3];
};

/* Element i of all, counted as they lie: channels last, or lines last. */
template <class I> static __device__ __forceinline__ image_place place_of(const gpu_image &m, int64_t i)
{
    image_place at;
    I left = (I)i;
    const bool last = m.stride_c == 1;
    if (last) at.c = left % (I)m.c, left /= (I)m.c;
#pragma unroll
    for (int d = 2; d >= 0; d--) at.p[d] = left % (I)m.size[d], left /= (I)m.size[d];
    if (!last) at.c = left % (I)m.c, left /= (I)m.c;
    at.n = left;
    return at;
}
static __device__ __forceinline__ int64_t offset_of(const gpu_image &m, int64_t n, int64_t c, int64_t p0, int64_t p1, int64_t p2)
{
    return n * m.stride_n + c * m.stride_c + p0 * m.stride[0] + p1 * m.stride[1] + p2 * m.stride[2];
}

static __device__ __forceinline__ bool is_inside(const gpu_image &m, int64_t p0, int64_t p1, int64_t p2)
{
    return p0 >= 0 && p0 < m.size[0] && p1 >= 0 && p1 < m.size[1] && p2 >= 0 && p2 < m.size[2];
}

/* Where tap k of window p lies along an axis; negative or beyond the end: outside. */
static __device__ __forceinline__ int64_t tap_at(const gpu_window &w, int d, int64_t p, int64_t k)
{
    return p * w.stride[d] - w.pad[d] + k * w.dilation[d];
}
/* The window whose tap k lies at i along an axis, or -1. */
static __device__ __forceinline__ int64_t window_at(const gpu_window &w, int d, int64_t i, int64_t k, int64_t windows)
{
    const int64_t at = i + w.pad[d] - k * w.dilation[d];
    if (at < 0 || at % w.stride[d] != 0) return -1;
    return at / w.stride[d] < windows ? at / w.stride[d] : -1;
}

/* The window whose tap (k0, k1, k2) lies at a place, if there is one. */
static __device__ __forceinline__ bool window_holding(const gpu_window &w, const gpu_image &windows, const image_place &at, int64_t k0,
                                                      int64_t k1, int64_t k2, int64_t (&p)[3])
{
    p[0] = window_at(w, 0, at.p[0], k0, windows.size[0]);
    p[1] = window_at(w, 1, at.p[1], k1, windows.size[1]);
    p[2] = window_at(w, 2, at.p[2], k2, windows.size[2]);
    return p[0] >= 0 && p[1] >= 0 && p[2] >= 0;
}
/* The number of a tap. */
static __device__ __forceinline__ int64_t tap_number(const gpu_window &w, int64_t k0, int64_t k1, int64_t k2)
{
    return (k0 * w.kernel[1] + k1) * w.kernel[2] + k2;
}

/* For kernels whose arguments are `a`: the elements of a thread, the taps of the window a.w; and their launch with 32-bit indices where those do. */
#define EACH(i) for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.total; i += (int64_t)gridDim.x * blockDim.x)
#define TAPS(k)                                                                                                                            \
    for (int64_t k##0 = 0; k##0 < a.w.kernel[0]; k##0 ++)                                                                                  \
        for (int64_t k##1 = 0; k##1 < a.w.kernel[1]; k##1 ++)                                                                              \
            for (int64_t k##2 = 0; k##2 < a.w.kernel[2]; k##2 ++)
#define LAUNCH(st, t, a, ...)                                                                                                              \
    GPU_BY_FLOAT(                                                                                                                          \
        t,                                                                                                                                 \
        if ((a).total <= INT32_MAX) {                                                                                                      \
            typedef uint32_t I;                                                                                                            \
            (__VA_ARGS__<<<gpu_blocks(st, (a).total, 256), 256, 0, (st)->stream>>>(a));                                                    \
        } else {                                                                                                                           \
            typedef uint64_t I;                                                                                                            \
            (__VA_ARGS__<<<gpu_blocks(st, (a).total, 256), 256, 0, (st)->stream>>>(a));                                                    \
        })

static inline int64_t image_points(const gpu_image *m) { return m->size[0] * m->size[1] * m->size[2]; }
static inline int64_t image_total(const gpu_image *m) { return m->n * m->c * image_points(m); }
static inline int64_t window_taps(const gpu_window *w) { return w->kernel[0] * w->kernel[1] * w->kernel[2]; }

#endif
