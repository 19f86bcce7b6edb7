/* Separable linear maps of planes: the kernel of interpolation and of its transpose (resample.c).
 *
 * x [planes, in], y [planes, out], contiguous, spatial sizes as depth, height, width.  Along each axis result i is the sum of weight[k]·x[from[k]]
 * over its taps k; axes are independent: y = (D ⊗ H ⊗ W)·x.
 */
#ifndef CJ_KERNELS_CPU_RESAMPLE_H
#define CJ_KERNELS_CPU_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

/* One axis: tap k of result i is at [k·out + i], k < count[i] <= taps.  Beyond its count a result has weights 0 on places that it also sees
 * otherwise (or on 0). */
typedef struct cj_axis_map {
    int64_t in, out, taps;
    const int32_t *from, *count;
    const double *weight;
} cj_axis_map;

typedef struct cj_resample_shape {
    int64_t planes;
    cj_axis_map axis[3];
} cj_resample_shape;

/* t: any float type; f32 (f64 of f64) inside, rounded once.  scratch: cj_resample_workspace bytes. */
typedef void cj_resample_fn(cj_pool *pool, const cj_resample_shape *v, cj_dtype t, const void *x, void *y, void *scratch);
typedef size_t cj_resample_workspace_fn(const cj_resample_shape *v, cj_dtype t, int threads);

#endif
