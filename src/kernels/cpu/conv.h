/* Convolution and its two derivatives (conv.c, conv_weight.c, conv_depthwise.c, conv_f64.c).
 *
 * With x [n, groups·c, in], w [groups·o, c, kernel], y [n, groups·o, out], spatial sizes as depth, height, width (1 where there is none):
 *   y[b, o, p] = sum over c, k of w[o, c, k] · x[b, c, p·stride - pad + k·dilation],   zero outside of x.
 * w is row-major; x and y are row-major or channels-last (the channels of a pixel side by side), each on its own.
 */
#ifndef CJ_KERNELS_CPU_CONV_H
#define CJ_KERNELS_CPU_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef struct cj_conv_shape {
    int64_t n, groups, c, o; /* images, groups, channels of a group in x and in y */
    int64_t in[3], out[3], kernel[3];
    int64_t stride[3], pad[3], dilation[3];
    bool x_last, y_last; /* x (or dx), y (or dy) is channels-last */
    double weight;       /* all of w, where a pass is called without */
    const float *bias;   /* forward, f32, one group: o numbers that every point begins with; or NULL */
    const float
        *packed; /* forward, data: w as cj_conv_pack_fn has packed it for a shape of the same layout; NULL: it is packed for this call */
} cj_conv_shape;

typedef enum cj_conv_pass {
    CJ_CONV_FORWARD, /* a = x,  b = w,  result y */
    CJ_CONV_DATA,    /* a = dy, b = w,  result dx */
    CJ_CONV_WEIGHT   /* a = x,  b = dy, result dw */
} cj_conv_pass;

/* All that packed weights depend on, besides the weights: bytes that are the same or not. */
typedef struct cj_conv_layout {
    int64_t pass, t, way, groups, c, o, kernel[3], stride[3], pad[3], dilation[3], in[3], out[3];
} cj_conv_layout;

/* t: f32, f64, bf16 or f16.  workspace: cj_conv_workspace_fn bytes, 64-byte aligned. */
typedef size_t cj_conv_workspace_fn(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, int threads);
/* Bytes of the packed weights of a pass; 0: it reads them as they are. */
typedef size_t cj_conv_packed_fn(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, cj_conv_layout *layout);
typedef void cj_conv_pack_fn(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *w, float *packed,
                             void *workspace);
typedef void cj_conv_fn(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *a, const void *b, void *result,
                        void *workspace);
/* Both derivatives: dx of dy and w, with shape v, and dw of x and dy, with shape w; they may differ in how x and dx lie.  The bits are those of the two passes. */
typedef size_t cj_conv_both_workspace_fn(const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, int threads);
typedef void cj_conv_both_fn(cj_pool *pool, const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, const void *dy, const void *weights,
                             const void *x, void *dx, void *dw, void *workspace);

#endif
