/* Maxima and sums over windows: the kernels of pooling (window.c).
 *
 * x [planes, in], y [planes, out], contiguous, spatial sizes as depth, height, width.  Window p of a plane holds the elements p·stride - pad + k·dilation, k < kernel,
 * that lie inside of x; a window without any has maximum -inf and sum 0.
 */
#ifndef CJ_KERNELS_CPU_WINDOW_H
#define CJ_KERNELS_CPU_WINDOW_H

#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef struct cj_window_shape {
    int64_t planes, in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
} cj_window_shape;

/* y: the maxima; index: where in the plane, of ties the first; NaN wins.  t: any float type. */
typedef void cj_window_max_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, int64_t *index);
/* y: the sums, in f32 (f64 of f64), rounded once. */
typedef void cj_window_sum_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y);
/* Its transpose: every element of x gets the sum of the windows' values g that hold it. */
typedef void cj_window_spread_fn(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, void *x);

#endif
