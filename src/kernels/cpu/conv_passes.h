/* The ways of convolution, between the files that implement them (conv.c chooses). */
#ifndef CJ_KERNELS_CPU_CONV_PASSES_H
#define CJ_KERNELS_CPU_CONV_PASSES_H

#include "kernels/cpu/conv.h"
#include "kernels/cpu/isa.h"

/* conv_weight.c: dw from a = x, b = dy; f32, bf16, f16. */
size_t CJ_K(cj__conv_weight_workspace)(const cj_conv_shape *v, cj_dtype t, int threads);
void CJ_K(cj__conv_weight)(cj_pool *pool, const cj_conv_shape *v, cj_dtype t, const void *x, const void *dy, void *dw, void *workspace);

/* conv_depthwise.c: c = o = 1 in every group, all passes; f32, bf16, f16.  Weights NULL: v->weight. */
cj_conv_workspace_fn CJ_K(cj__conv_depthwise_workspace);
cj_conv_fn CJ_K(cj__conv_depthwise);
cj_conv_both_workspace_fn CJ_K(cj__conv_depthwise_both_workspace);
cj_conv_both_fn CJ_K(cj__conv_depthwise_both);

/* conv_winograd.c: 3x3 (all passes) and 5x5 (forward and data), stride 1, channels-last, f32, where it pays.  Weights are packed as for the other passes (conv.h). */
bool CJ_K(cj__conv_winograd_fits)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t);
size_t CJ_K(cj__conv_winograd_workspace)(const cj_conv_shape *v, cj_conv_pass pass, int threads);
size_t CJ_K(cj__conv_winograd_packed)(const cj_conv_shape *v, cj_conv_pass pass);
void CJ_K(cj__conv_winograd_pack)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const float *weights, float *packed);
void CJ_K(cj__conv_winograd)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const float *a, const float *b, float *result,
                             char *work);

/* conv_f64.c: all passes in f64.  Weights NULL: v->weight, of a depthwise convolution. */
void CJ_K(cj__conv_f64)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const double *a, const double *b, double *result);

#endif
