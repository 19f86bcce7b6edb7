/* Sampling of images at given positions, and its derivative (grid.c).
 *
 * x [n, c, size], positions [n, positions, axes] with the last spatial axis first, results [n, c, positions]; contiguous, f32 or f64.  A position p
 * of an axis of s pixels is pixel ((p + 1)·s - 1)/2, with aligned corners (p + 1)·(s - 1)/2.
 */
#ifndef CJ_KERNELS_CPU_GRID_H
#define CJ_KERNELS_CPU_GRID_H

#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef enum cj_grid_border { CJ_GRID_ZEROS, CJ_GRID_BORDER, CJ_GRID_REFLECT } cj_grid_border;

typedef struct cj_grid_shape {
    int64_t n, c, axes, size[3], positions; /* axes 2 or 3; size: the first `axes` count */
    int taps;                               /* per axis: 1 nearest, 2 linear, 4 cubic (two axes) */
    cj_grid_border border;
    bool align;
} cj_grid_shape;

typedef void cj_grid_fn(cj_pool *pool, const cj_grid_shape *v, cj_dtype t, const void *x, const void *grid, void *y);
/* From dy: dx and dgrid; either may be NULL. */
typedef void cj_grid_bwd_fn(cj_pool *pool, const cj_grid_shape *v, cj_dtype t, const void *x, const void *grid, const void *dy, void *dx,
                            void *dgrid);

#endif
