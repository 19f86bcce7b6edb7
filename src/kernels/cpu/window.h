/* Maxima and sums over windows: the kernels of pooling (window.c).
 *
 * x [n, channels, in], y [n, channels, out], spatial sizes as depth, height, width; row-major, or in f32 channels-last (the channels of a pixel side by side).  Window p of
 * a plane holds the elements p·stride - pad + k·dilation, k < kernel, that lie inside of x; a window without any has maximum -inf and sum 0.
 */
#ifndef CJ_KERNELS_CPU_WINDOW_H
#define CJ_KERNELS_CPU_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef struct cj_window_shape {
    int64_t n, channels, in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
    bool last;    /* channels-last */
    double scale; /* that sums are multiplied by */
} cj_window_shape;

/* The place of a maximum is its flat position in the plane (index), or its number within the window (tap): one byte instead of eight, for small windows.  CJ_WINDOW_TAPS itself
 * says that there was no element inside. */
enum { CJ_WINDOW_TAPS = 255 };
static inline bool cj__window_small(const cj_window_shape *v)
{
    const int64_t most = INT32_MAX / 4;
    int64_t taps = 1;
    for (int d = 0; d < 3; d++) {
        if (v->kernel[d] > CJ_WINDOW_TAPS || v->in[d] > most || v->out[d] > most || v->stride[d] > most) return false;
        if (v->dilation[d] > most / CJ_WINDOW_TAPS) return false;
        taps *= v->kernel[d];
    }
    return taps <= CJ_WINDOW_TAPS;
}

/* Bytes of 64-byte aligned scratch that any of the following needs. */
typedef size_t cj_window_workspace_fn(const cj_window_shape *v, cj_dtype t, int threads);
/* y: the maxima, of ties the first; NaN wins.  t: any float type.  Of index and tap one is NULL; tap: small windows. */
typedef void cj_window_max_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, int64_t *index, uint8_t *tap,
                              void *workspace);
/* Its derivative: every element of x gets the sum of those g whose place it is. */
typedef void cj_window_put_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, const int64_t *index, const uint8_t *tap,
                              void *x, void *workspace);
/* y: scale times the sums, in f32 (f64 of f64), rounded once. */
typedef void cj_window_sum_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, void *workspace);
/* Its transpose: every element of x gets scale times the sum of the windows' values g that hold it. */
typedef void cj_window_spread_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, void *x, void *workspace);

#endif
