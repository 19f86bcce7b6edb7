/* Vector loads and stores by dtype: f32, bf16 and f16 as vectors of f32.  Kernels pass the dtype as a constant and are inlined per dtype, so that one
 * source serves all three without a branch in the loop. */
#ifndef CJ_KERNELS_CPU_LOAD_H
#define CJ_KERNELS_CPU_LOAD_H

#include "cajal/core.h"
#include "kernels/cpu/simd.h"

/* CJ_VL values from element i of x on. */
CJ_INLINE vf load_vf(cj_dtype t, const void *x, int64_t i)
{
    return t == CJ_BF16  ? vf_load_bf16((const uint16_t *)x + i)
           : t == CJ_F16 ? vf_load_f16((const uint16_t *)x + i)
                         : vf_load((const float *)x + i);
}
CJ_INLINE void store_vf(cj_dtype t, void *y, int64_t i, vf v)
{
    if (t == CJ_BF16) vf_store_bf16((uint16_t *)y + i, v);
    else if (t == CJ_F16) vf_store_f16((uint16_t *)y + i, v);
    else vf_store((float *)y + i, v);
}

/* The first n lanes only; the others read as 0. */
CJ_INLINE vf load_vf_n(cj_dtype t, const void *x, int64_t i, int n)
{
    return t == CJ_BF16  ? vf_load_bf16_n((const uint16_t *)x + i, n)
           : t == CJ_F16 ? vf_load_f16_n((const uint16_t *)x + i, n)
                         : vf_load_n((const float *)x + i, n);
}
CJ_INLINE void store_vf_n(cj_dtype t, void *y, int64_t i, vf v, int n)
{
    if (t == CJ_BF16) vf_store_bf16_n((uint16_t *)y + i, v, n);
    else if (t == CJ_F16) vf_store_f16_n((uint16_t *)y + i, v, n);
    else vf_store_n((float *)y + i, v, n);
}

CJ_INLINE float load_one(cj_dtype t, const void *x, int64_t i)
{
    return t == CJ_BF16  ? cj_f32_from_bf16(((const uint16_t *)x)[i])
           : t == CJ_F16 ? cj_f32_from_f16(((const uint16_t *)x)[i])
                         : ((const float *)x)[i];
}
CJ_INLINE void store_one(cj_dtype t, void *y, int64_t i, float v)
{
    if (t == CJ_BF16) ((uint16_t *)y)[i] = cj_bf16_from_f32(v);
    else if (t == CJ_F16) ((uint16_t *)y)[i] = cj_f16_from_f32(v);
    else ((float *)y)[i] = v;
}

/* Runs the statement for each storage type, with T a constant inside. */
#define CJ_BY_TYPE(t, ...)                                                                                                                 \
    switch (t) {                                                                                                                           \
    case CJ_BF16: {                                                                                                                        \
        const cj_dtype T = CJ_BF16;                                                                                                        \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    case CJ_F16: {                                                                                                                         \
        const cj_dtype T = CJ_F16;                                                                                                         \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    default: {                                                                                                                             \
        const cj_dtype T = CJ_F32;                                                                                                         \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    }

#endif
