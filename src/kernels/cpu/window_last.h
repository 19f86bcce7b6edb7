/* Windows of channels-last f32 images, between the files that implement them (window.c chooses). */
#ifndef CJ_KERNELS_CPU_WINDOW_LAST_H
#define CJ_KERNELS_CPU_WINDOW_LAST_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/window.h"

/* Is it a case for the following? */
bool CJ_K(cj__window_last_fits)(const cj_window_shape *v, cj_dtype t);
void CJ_K(cj__window_last_max)(cj_pool *pool, const cj_window_shape *v, const float *x, float *y, uint8_t *tap);
void CJ_K(cj__window_last_put)(cj_pool *pool, const cj_window_shape *v, const float *g, const uint8_t *tap, float *x);
/* Sums, or spread: their transpose. */
void CJ_K(cj__window_last_sums)(cj_pool *pool, const cj_window_shape *v, bool spread, const float *from, float *to);

#endif
