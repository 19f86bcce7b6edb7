/* bf16 and f16 as storage of the packed product: widening loads, and one rounding to nearest even when an element of C is finished. */
#ifndef CJ_KERNELS_CPU_GEMM_HALF_H
#define CJ_KERNELS_CPU_GEMM_HALF_H

#include "kernels/cpu/gemm_simd.h"

GEMM_INLINE uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

GEMM_INLINE float f32_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

GEMM_INLINE float bf16_to_f32(uint16_t h) { return f32_of((uint32_t)h << 16); }

GEMM_INLINE uint16_t f32_to_bf16(float x)
{
    const uint32_t u = f32_bits(x);
    if ((u & 0x7fffffffU) > 0x7f800000U) return (uint16_t)(u >> 16 | 0x40U); /* NaN: keep it one, and quiet */
    return (uint16_t)((u + 0x7fffU + (u >> 16 & 1U)) >> 16);
}

#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2
GEMM_INLINE float f16_to_f32(uint16_t h) { return _cvtsh_ss(h); }
GEMM_INLINE uint16_t f32_to_f16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
GEMM_INLINE float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000U) << 16, magnitude = h & 0x7fffU;
    if (magnitude >= 0x7c00U) { /* infinity, or NaN made quiet */
        return f32_of(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13 | (magnitude > 0x7c00U ? 0x400000U : 0));
    }
    if (magnitude >= 0x400U) return f32_of(sign | ((magnitude << 13) + 0x38000000U));
    const float tiny = (float)magnitude * 0x1p-24F; /* subnormal */
    return f32_of(sign | f32_bits(tiny));
}

GEMM_INLINE uint16_t f32_to_f16(float x)
{
    const uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000U, magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return (uint16_t)(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
    if (magnitude >= 0x477ff000U) return (uint16_t)(sign | 0x7c00U); /* 65520 and above round to infinity */
    if (magnitude < 0x38800000U) { /* below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits */
        const float y = f32_of(magnitude) + 0.5F;
        return (uint16_t)(sign | (f32_bits(y) - 0x3f000000U));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13);
}
#endif

#if defined CJ_ISA_AVX512
GEMM_INLINE vf vload_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16));
}
GEMM_INLINE vf vload_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
#elif defined CJ_ISA_AVX2
GEMM_INLINE vf vload_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16));
}
GEMM_INLINE vf vload_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
#else
GEMM_INLINE vf vload_bf16(const uint16_t *p)
{
    const float x[VL] = { bf16_to_f32(p[0]), bf16_to_f32(p[1]), bf16_to_f32(p[2]), bf16_to_f32(p[3]) };
    return vload(x);
}
GEMM_INLINE vf vload_f16(const uint16_t *p)
{
    const float x[VL] = { f16_to_f32(p[0]), f16_to_f32(p[1]), f16_to_f32(p[2]), f16_to_f32(p[3]) };
    return vload(x);
}
#endif

#endif
