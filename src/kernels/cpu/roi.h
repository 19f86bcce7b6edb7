/* Regions of feature maps brought to one size: the kernels of RoI align, its transpose, and RoI pooling (roi.c).
 *
 * x [n, c, h, w], boxes [boxes, 5] of (image, x1, y1, x2, y2) in f64, checked before; results [boxes, c, bins y, bins x]; all contiguous.
 */
#ifndef CJ_KERNELS_CPU_ROI_H
#define CJ_KERNELS_CPU_ROI_H

#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef enum cj_roi_code {
    CJ_ROI_ALIGN,  /* in: x, out: the means of bilinear samples */
    CJ_ROI_SPREAD, /* in: gradients of these, out: x's, starting from 0: the transpose */
    CJ_ROI_POOL /* in: x, out: the largest of each bin, where[]: their flat places in x, or x's size for an empty bin, whose value is 0; NaN wins */
} cj_roi_code;

typedef struct cj_roi_shape {
    int64_t n, c, h, w, boxes, bins[2];
    double scale;
    int64_t sampling; /* samples per bin and axis; 0: ceil(box / bins) */
    bool aligned;
} cj_roi_shape;

/* t: f32 or f64. */
typedef void cj_roi_fn(cj_pool *pool, cj_roi_code code, const cj_roi_shape *v, cj_dtype t, const void *in, const double *boxes, void *out,
                       int64_t *where);

#endif
