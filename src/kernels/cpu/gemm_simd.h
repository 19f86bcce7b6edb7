/* The few vector operations that the packed product needs, one definition per instruction set.
 *
 * vf holds VL floats; a vmask names the first 1..VL lanes (or the last), for the ragged right edge of C.  gemm_tile.h and gemm_pack.h are written once against
 * these names.  The product rule is vfma everywhere except in the portable build, which has no fused multiply-add to rely on.
 */
#ifndef CJ_KERNELS_CPU_GEMM_SIMD_H
#define CJ_KERNELS_CPU_GEMM_SIMD_H

#include <stdint.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#define GEMM_INLINE static inline __attribute__((always_inline))

#if defined CJ_ISA_AVX512
#include <immintrin.h>

typedef __m512 vf;
typedef __mmask16 vmask;
#define VL 16
#define GEMM_REGISTERS 32
#define GEMM_MASKS_ARE_FREE 1 /* a masked load costs what a plain one costs */

GEMM_INLINE vf vzero(void) { return _mm512_setzero_ps(); }
GEMM_INLINE vf vset1(float x) { return _mm512_set1_ps(x); }
GEMM_INLINE vf vload(const float *p) { return _mm512_loadu_ps(p); }
GEMM_INLINE void vstore(float *p, vf x) { _mm512_storeu_ps(p, x); }
GEMM_INLINE vf vadd(vf a, vf b) { return _mm512_add_ps(a, b); }
GEMM_INLINE vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
GEMM_INLINE vf vrelu(vf x) { return _mm512_max_ps(_mm512_setzero_ps(), x); } /* a NaN in the second operand comes through */
GEMM_INLINE vmask vfirst(int lanes) { return (__mmask16)(0xffffU >> (16 - lanes)); }
GEMM_INLINE vmask vlast(int lanes) { return (__mmask16)(0xffffU << (16 - lanes)); }
GEMM_INLINE vf vload_first(const float *p, vmask m) { return _mm512_maskz_loadu_ps(m, p); }
GEMM_INLINE void vstore_first(float *p, vf x, vmask m) { _mm512_mask_storeu_ps(p, m, x); }

/* vzip_low(a, b) = a0 b0 a1 b1 ... from the lower halves, vzip_high from the upper ones. */
GEMM_INLINE vf vzip_low(vf a, vf b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
}
GEMM_INLINE vf vzip_high(vf a, vf b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b);
}
/* Two floats of memory side by side in all lanes; the pairs (a, b) of half of the lanes, and of the other half; and the sums of such pairs, in the order of the lanes. */
GEMM_INLINE vf vset2(const float *p) { return (vf)_mm512_broadcastq_epi64(_mm_loadu_si64(p)); }
/* Four numbers each from p, p + step, p + 2*step and p + 3*step. */
GEMM_INLINE vf vload_fours(const float *p, int64_t step)
{
    vf x = _mm512_castps128_ps512(_mm_loadu_ps(p));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(p + step));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(p + 2 * step));
    return _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(p + 3 * step));
}
GEMM_INLINE vf vzip_pairs_low(vf a, vf b) { return (vf)_mm512_unpacklo_pd((__m512d)a, (__m512d)b); }
GEMM_INLINE vf vzip_pairs_high(vf a, vf b) { return (vf)_mm512_unpackhi_pd((__m512d)a, (__m512d)b); }
GEMM_INLINE vf vpairs_low(vf a, vf b) { return _mm512_unpacklo_ps(a, b); }
GEMM_INLINE vf vpairs_high(vf a, vf b) { return _mm512_unpackhi_ps(a, b); }
GEMM_INLINE vf vpairs_sum(vf low, vf high) { return vadd(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xdd)); }
GEMM_INLINE vf vswap_halves(vf x) { return _mm512_shuffle_f32x4(x, x, 0x4e); }
GEMM_INLINE vf vnext_quarter(vf x) { return _mm512_shuffle_f32x4(x, x, 0x39); } /* moves to the front */
/* The elements 4 l + q of all four vectors become quarter l of x[q]. */
GEMM_INLINE void transpose_fours(vf x[4])
{
    const vf a = vpairs_low(x[0], x[1]), b = vpairs_high(x[0], x[1]), c = vpairs_low(x[2], x[3]), d = vpairs_high(x[2], x[3]);
    x[0] = vzip_pairs_low(a, c), x[1] = vzip_pairs_high(a, c), x[2] = vzip_pairs_low(b, d), x[3] = vzip_pairs_high(b, d);
}

#elif defined CJ_ISA_AVX2
#include <immintrin.h>

typedef __m256 vf;
typedef __m256i vmask;
#define VL 8
#define GEMM_REGISTERS 16
#define GEMM_MASKS_ARE_FREE 0

GEMM_INLINE vf vzero(void) { return _mm256_setzero_ps(); }
GEMM_INLINE vf vset1(float x) { return _mm256_set1_ps(x); }
GEMM_INLINE vf vload(const float *p) { return _mm256_loadu_ps(p); }
GEMM_INLINE void vstore(float *p, vf x) { _mm256_storeu_ps(p, x); }
GEMM_INLINE vf vadd(vf a, vf b) { return _mm256_add_ps(a, b); }
GEMM_INLINE vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
GEMM_INLINE vf vrelu(vf x) { return _mm256_max_ps(_mm256_setzero_ps(), x); }
GEMM_INLINE vmask vfirst(int lanes) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
GEMM_INLINE vf vload_first(const float *p, vmask m) { return _mm256_maskload_ps(p, m); }
GEMM_INLINE void vstore_first(float *p, vf x, vmask m) { _mm256_maskstore_ps(p, m, x); }
GEMM_INLINE vf vzip_low(vf a, vf b) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20); }
GEMM_INLINE vf vzip_high(vf a, vf b) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31); }
GEMM_INLINE vf vswap_halves(vf x) { return _mm256_permute2f128_ps(x, x, 0x01); }

#elif defined CJ_ISA_NEON
#include <arm_neon.h>

typedef float32x4_t vf;
typedef int vmask;
#define VL 4
#define GEMM_REGISTERS 32
#define GEMM_MASKS_ARE_FREE 0

GEMM_INLINE vf vzero(void) { return vdupq_n_f32(0); }
GEMM_INLINE vf vset1(float x) { return vdupq_n_f32(x); }
GEMM_INLINE vf vload(const float *p) { return vld1q_f32(p); }
GEMM_INLINE void vstore(float *p, vf x) { vst1q_f32(p, x); }
GEMM_INLINE vf vadd(vf a, vf b) { return vaddq_f32(a, b); }
GEMM_INLINE vf vfma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
GEMM_INLINE vf vrelu(vf x) { return vmaxq_f32(x, vdupq_n_f32(0)); }
GEMM_INLINE vf vzip_low(vf a, vf b) { return vzip1q_f32(a, b); }
GEMM_INLINE vf vzip_high(vf a, vf b) { return vzip2q_f32(a, b); }
GEMM_INLINE vf vswap_halves(vf x) { return vextq_f32(x, x, 2); }

#else

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vf_bits __attribute__((vector_size(16)));
typedef int vmask;
#define VL 4
#define GEMM_REGISTERS 16
#define GEMM_MASKS_ARE_FREE 0

GEMM_INLINE vf vset1(float x) { return (vf){ x, x, x, x }; }
GEMM_INLINE vf vzero(void) { return vset1(0); }
GEMM_INLINE vf vload(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}
GEMM_INLINE void vstore(float *p, vf x) { memcpy(p, &x, sizeof x); }
GEMM_INLINE vf vadd(vf a, vf b) { return a + b; }
GEMM_INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; }
GEMM_INLINE vf vrelu(vf x) { return (vf)((vf_bits)x & ~(x < vzero())); }
GEMM_INLINE vf vzip_low(vf a, vf b) { return (vf){ a[0], b[0], a[1], b[1] }; }
GEMM_INLINE vf vzip_high(vf a, vf b) { return (vf){ a[2], b[2], a[3], b[3] }; }
GEMM_INLINE vf vswap_halves(vf x) { return (vf){ x[2], x[3], x[0], x[1] }; }

#endif

#if VL == 4 /* no masks: the tiles leave the ragged edge to scalar code, so only the number of lanes is kept */
GEMM_INLINE vmask vfirst(int lanes) { return lanes; }
GEMM_INLINE vf vload_first(const float *p, vmask lanes)
{
    (void)lanes;
    return vload(p);
}
GEMM_INLINE void vstore_first(float *p, vf x, vmask lanes)
{
    (void)lanes;
    vstore(p, x);
}
#endif

#if !GEMM_MASKS_ARE_FREE
GEMM_INLINE vmask vlast(int lanes) { return vfirst(lanes); } /* asked for by nobody: vectors begin where they do */
#endif

/* What vfma does to one lane. */
GEMM_INLINE float fma1(float a, float b, float c)
{
#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2 || defined CJ_ISA_NEON
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

#if VL >= 8
/* Eight floats, of which `some` (up to eight) are read and the others are zero. */
GEMM_INLINE void copy_eight(float *to, const float *from, vmask some)
{
#if defined CJ_ISA_AVX512
    _mm256_storeu_ps(to, _mm256_maskz_loadu_ps((__mmask8)some, from));
#else
    vstore(to, vload_first(from, some));
#endif
}
#endif

/* The first lanes (1..VL) of a vector in memory; the others are zero. */
GEMM_INLINE vf vload_some(const float *p, int lanes)
{
#if VL == 4
    const float x[4] = { p[0], lanes > 1 ? p[1] : 0, lanes > 2 ? p[2] : 0, lanes > 3 ? p[3] : 0 };
    return vload(x);
#else
    return vload_first(p, vfirst(lanes));
#endif
}

GEMM_INLINE void vstore_some(float *p, vf x, int lanes)
{
#if VL == 4
    float y[4];
    vstore(y, x);
    for (int l = 0; l < lanes; l++) p[l] = y[l];
#else
    vstore_first(p, x, vfirst(lanes));
#endif
}

/* C = x, or C += x, for the first `lanes` (1..VL) of a vector. */
GEMM_INLINE void vput(float *c, vf x, int add, int lanes)
{
    if (lanes < VL) vstore_some(c, add ? vadd(vload_some(c, lanes), x) : x, lanes);
    else vstore(c, add ? vadd(vload(c), x) : x);
}

#endif
