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
    bool last; /* channels-last */
} cj_window_shape;

/* Bytes of 64-byte aligned scratch that any of the following needs. */
typedef size_t cj_window_workspace_fn(const cj_window_shape *v, cj_dtype t, int threads);
/* y: the maxima; index: where in the plane, of ties the first; NaN wins.  t: any float type. */
typedef void cj_window_max_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, int64_t *index, void *workspace);
/* Its derivative: every element of x gets the sum of those g whose index is its place. */
typedef void cj_window_put_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, const int64_t *index, void *x,
                              void *workspace);
/* y: the sums, in f32 (f64 of f64), rounded once. */
typedef void cj_window_sum_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, void *workspace);
/* Its transpose: every element of x gets the sum of the windows' values g that hold it. */
typedef void cj_window_spread_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, void *x, void *workspace);

#endif
