/* A small vector layer: f32 and i32 vectors of CJ_VL lanes, written once per instruction-set level.
 *
 *   level      CJ_VL  vf_fma            masks
 *   avx512       16   hardware          k registers
 *   avx2          8   hardware          vectors of 0 / -1
 *   neon          4   hardware          vectors of 0 / -1
 *   portable      4   multiply, add     vectors of 0 / -1 (GCC vector extensions only)
 *
 * + - * / and, for integers, & | ^ ~ << >> are the compiler's own operators on vectors.  vi has signed lanes (>> is arithmetic), vu unsigned ones
 * (wraps; >> is logical); (vu)x and (vi)x reinterpret.  Everything with an n takes 0 <= n <= CJ_VL and touches n elements of memory only.
 */
#ifndef CJ_KERNELS_CPU_SIMD_H
#define CJ_KERNELS_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2
#include <immintrin.h>
#elif defined CJ_ISA_NEON
#include <arm_neon.h>
#endif

#define CJ_INLINE static inline __attribute__((always_inline, unused))

/* ---- storage types: one value ------------------------------------------------------------------------------------------------------ */

CJ_INLINE uint32_t cj_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
CJ_INLINE float cj_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

CJ_INLINE float cj_f32_from_bf16(uint16_t h) { return cj_f32_from_bits((uint32_t)h << 16); }

/* Round to nearest even; NaN stays (quiet) NaN. */
CJ_INLINE uint16_t cj_bf16_from_f32(float x)
{
    uint32_t u = cj_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

CJ_INLINE float cj_f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    if (rest >= 0x7c00u << 13) return cj_f32_from_bits(sign | 0x7f800000u | (rest & 0x7fffffu) | (rest & 0x7fffffu ? 0x400000u : 0));
    if (rest >= 0x400u << 13) return cj_f32_from_bits(sign | (rest + (112u << 23)));
    return cj_f32_from_bits(sign | cj_f32_bits((float)(h & 0x3ff) * 0x1p-24f)); /* zero and denormals: an integer multiple of 2^-24 */
}

CJ_INLINE uint16_t cj_f16_from_f32(float x)
{
    uint32_t u = cj_f32_bits(x), a = u & 0x7fffffffu;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x47800000u) return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    if (a < 0x38800000u)                                    /* below 2^-14: adding 0.5 leaves the denormal, rounded, in the last bits */
        return (uint16_t)(sign | (cj_f32_bits(cj_f32_from_bits(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((a - (112u << 23) + 0xfffu + (a >> 13 & 1)) >> 13)); /* 65520 … 65535 carry into infinity */
}

/* ---- vectors ------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_ISA_AVX512
#define CJ_VL 16
typedef __m512 vf;
typedef __mmask16 vm; /* one truth value per lane */
#elif defined CJ_ISA_AVX2
#define CJ_VL 8
typedef __m256 vf;
#elif defined CJ_ISA_NEON
#define CJ_VL 4
typedef float32x4_t vf;
#else
#define CJ_VL 4
typedef float vf __attribute__((vector_size(16)));
#endif

#if defined CJ_ISA_NEON
typedef int32x4_t vi;
typedef uint32x4_t vu;
#else
typedef int32_t vi __attribute__((vector_size(4 * CJ_VL)));
typedef uint32_t vu __attribute__((vector_size(4 * CJ_VL)));
#endif
#if !defined CJ_ISA_AVX512
typedef vi vm; /* lanes of 0 or -1 */
#endif

CJ_INLINE vi vf_as_vi(vf x) { return (vi)x; } /* bit casts */
CJ_INLINE vf vi_as_vf(vi x) { return (vf)x; }

CJ_INLINE vf vf_set1(float x)
{
#if defined CJ_ISA_AVX512
    return _mm512_set1_ps(x);
#elif defined CJ_ISA_AVX2
    return _mm256_set1_ps(x);
#elif defined CJ_ISA_NEON
    return vdupq_n_f32(x);
#else
    return (vf){ x, x, x, x };
#endif
}

CJ_INLINE vi vi_set1(int32_t x)
{
#if defined CJ_ISA_AVX512
    return (vi)_mm512_set1_epi32(x);
#elif defined CJ_ISA_AVX2
    return (vi)_mm256_set1_epi32(x);
#elif defined CJ_ISA_NEON
    return vdupq_n_s32(x);
#else
    return (vi){ x, x, x, x };
#endif
}

CJ_INLINE vf vf_zero(void) { return vf_set1(0.0f); }

/* ---- memory: any alignment ----------------------------------------------------------------------------------------------------------- */

CJ_INLINE vf vf_load(const float *p)
{
#if defined CJ_ISA_AVX512
    return _mm512_loadu_ps(p);
#elif defined CJ_ISA_AVX2
    return _mm256_loadu_ps(p);
#else
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
#endif
}

CJ_INLINE void vf_store(float *p, vf x)
{
#if defined CJ_ISA_AVX512
    _mm512_storeu_ps(p, x);
#elif defined CJ_ISA_AVX2
    _mm256_storeu_ps(p, x);
#else
    memcpy(p, &x, sizeof x);
#endif
}

/* Past the cache; p is aligned to the vector's size.  vf_stream_end orders the streamed stores before what follows. */
CJ_INLINE void vf_stream(float *p, vf x)
{
#if defined CJ_ISA_AVX512
    _mm512_stream_ps(p, x);
#elif defined CJ_ISA_AVX2
    _mm256_stream_ps(p, x);
#else
    memcpy(p, &x, sizeof x);
#endif
}
CJ_INLINE void vf_stream_end(void)
{
#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2
    _mm_sfence();
#endif
}

CJ_INLINE vi vi_load(const int32_t *p)
{
    vi x;
    memcpy(&x, p, sizeof x);
    return x;
}
CJ_INLINE void vi_store(int32_t *p, vi x) { memcpy(p, &x, sizeof x); }

#if defined CJ_ISA_AVX512
CJ_INLINE __mmask16 cj_tail_mask(int n) { return (__mmask16)((1u << n) - 1); }
#elif defined CJ_ISA_AVX2
CJ_INLINE __m256i cj_tail_mask(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
#endif

/* The first n lanes from memory, the others 0. */
CJ_INLINE vf vf_load_n(const float *p, int n)
{
#if defined CJ_ISA_AVX512
    return _mm512_maskz_loadu_ps(cj_tail_mask(n), p);
#elif defined CJ_ISA_AVX2
    return _mm256_maskload_ps(p, cj_tail_mask(n));
#else
    vf x = vf_zero();
    if (n > 0) memcpy(&x, p, (size_t)n * 4);
    return x;
#endif
}

CJ_INLINE void vf_store_n(float *p, vf x, int n)
{
#if defined CJ_ISA_AVX512
    _mm512_mask_storeu_ps(p, cj_tail_mask(n), x);
#elif defined CJ_ISA_AVX2
    _mm256_maskstore_ps(p, cj_tail_mask(n), x);
#else
    if (n > 0) memcpy(p, &x, (size_t)n * 4);
#endif
}

/* p[at] lane by lane. */
CJ_INLINE vf vf_gather(const float *p, vi at)
{
#if defined CJ_ISA_AVX512
    return _mm512_i32gather_ps((__m512i)at, p, 4);
#elif defined CJ_ISA_AVX2
    return _mm256_i32gather_ps(p, (__m256i)at, 4);
#else
    return (vf){ p[at[0]], p[at[1]], p[at[2]], p[at[3]] };
#endif
}

/* ---- masks --------------------------------------------------------------------------------------------------------------------------- */

/* Comparisons with NaN are false, except vf_ne. */
#if defined CJ_ISA_AVX512
CJ_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
CJ_INLINE vm vf_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
CJ_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
CJ_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
CJ_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
CJ_INLINE vm vi_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
CJ_INLINE vm vm_and(vm a, vm b) { return (vm)(a & b); }
CJ_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
CJ_INLINE vm vm_not(vm a) { return (vm)~a; }
CJ_INLINE int vm_any(vm m) { return m != 0; }
CJ_INLINE int vm_all(vm m) { return m == 0xffff; }
CJ_INLINE uint32_t vm_bits(vm m) { return m; }                                  /* bit i: lane i */
CJ_INLINE vf vf_sel(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); } /* m ? a : b */
CJ_INLINE vi vi_sel(vm m, vi a, vi b) { return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }
CJ_INLINE vf vf_and_mask(vm m, vf a) { return _mm512_maskz_mov_ps(m, a); } /* m ? a : +0 */
CJ_INLINE vm vm_first(int n) { return cj_tail_mask(n); }                   /* lanes 0 … n-1 */
#else
#if defined CJ_ISA_AVX2
CJ_INLINE vm vf_eq(vf a, vf b) { return (vm)_mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
CJ_INLINE vm vf_ne(vf a, vf b) { return (vm)_mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
CJ_INLINE vm vf_lt(vf a, vf b) { return (vm)_mm256_cmp_ps(a, b, _CMP_LT_OQ); }
CJ_INLINE vm vf_le(vf a, vf b) { return (vm)_mm256_cmp_ps(a, b, _CMP_LE_OQ); }
CJ_INLINE int vm_any(vm m) { return _mm256_movemask_ps((__m256)m) != 0; }
CJ_INLINE int vm_all(vm m) { return _mm256_movemask_ps((__m256)m) == 0xff; }
CJ_INLINE uint32_t vm_bits(vm m) { return (uint32_t)_mm256_movemask_ps((__m256)m); }
CJ_INLINE vf vf_sel(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, (__m256)m); }
CJ_INLINE vm vm_first(int n) { return (vm)cj_tail_mask(n); }
#else
CJ_INLINE vm vf_eq(vf a, vf b) { return (vm)(a == b); }
CJ_INLINE vm vf_ne(vf a, vf b) { return (vm)(a != b); }
CJ_INLINE vm vf_lt(vf a, vf b) { return (vm)(a < b); }
CJ_INLINE vm vf_le(vf a, vf b) { return (vm)(a <= b); }
CJ_INLINE uint32_t vm_bits(vm m) { return (uint32_t)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8)); }
CJ_INLINE int vm_any(vm m) { return vm_bits(m) != 0; }
CJ_INLINE int vm_all(vm m) { return vm_bits(m) == 15; }
CJ_INLINE vf vf_sel(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
CJ_INLINE vm vm_first(int n) { return (vm)((vi){ 0, 1, 2, 3 } < vi_set1(n)); }
#endif
CJ_INLINE vm vi_eq(vi a, vi b) { return (vm)(a == b); }
CJ_INLINE vm vi_lt(vi a, vi b) { return (vm)(a < b); }
CJ_INLINE vm vm_and(vm a, vm b) { return a & b; }
CJ_INLINE vm vm_or(vm a, vm b) { return a | b; }
CJ_INLINE vm vm_not(vm a) { return ~a; }
CJ_INLINE vi vi_sel(vm m, vi a, vi b) { return (m & a) | (~m & b); }
CJ_INLINE vf vf_and_mask(vm m, vf a) { return (vf)(m & (vi)a); }
#endif

CJ_INLINE vm vf_gt(vf a, vf b) { return vf_lt(b, a); }
CJ_INLINE vm vf_ge(vf a, vf b) { return vf_le(b, a); }
CJ_INLINE vm vi_gt(vi a, vi b) { return vi_lt(b, a); }
CJ_INLINE vm vf_isnan(vf a) { return vf_ne(a, a); }
CJ_INLINE vf vf_from_mask(vm m) { return vf_and_mask(m, vf_set1(1.0f)); } /* 1 or 0 */

/* ---- arithmetic ---------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE vf vf_abs(vf x) { return (vf)((vi)x & vi_set1(0x7fffffff)); }
CJ_INLINE vf vf_neg(vf x) { return (vf)((vi)x ^ vi_set1(INT32_MIN)); }
CJ_INLINE vi vf_sign_bit(vf x) { return (vi)x & vi_set1(INT32_MIN); }
CJ_INLINE vf vf_copysign(vf magnitude, vf sign) { return (vf)(((vi)magnitude & vi_set1(0x7fffffff)) | vf_sign_bit(sign)); }

/* a*b + c: one rounding where the hardware has it, two on the portable level. */
CJ_INLINE vf vf_fma(vf a, vf b, vf c)
{
#if defined CJ_ISA_AVX512
    return _mm512_fmadd_ps(a, b, c);
#elif defined CJ_ISA_AVX2
    return _mm256_fmadd_ps(a, b, c);
#elif defined CJ_ISA_NEON
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

/* c - a*b */
CJ_INLINE vf vf_fnma(vf a, vf b, vf c)
{
#if defined CJ_ISA_AVX512
    return _mm512_fnmadd_ps(a, b, c);
#elif defined CJ_ISA_AVX2
    return _mm256_fnmadd_ps(a, b, c);
#elif defined CJ_ISA_NEON
    return vfmsq_f32(c, a, b);
#else
    return c - a * b;
#endif
}

/* a*b + c with one rounding on every level. */
CJ_INLINE vf vf_fma_exact(vf a, vf b, vf c)
{
#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2 || defined CJ_ISA_NEON
    return vf_fma(a, b, c);
#else
    return (vf){ fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3]) };
#endif
}

/* a < b ? a : b and a > b ? a : b: the second operand when either is NaN (or both are zeros). */
CJ_INLINE vf vf_min(vf a, vf b)
{
#if defined CJ_ISA_AVX512
    return _mm512_min_ps(a, b);
#elif defined CJ_ISA_AVX2
    return _mm256_min_ps(a, b);
#else
    return vf_sel(vf_lt(a, b), a, b);
#endif
}
CJ_INLINE vf vf_max(vf a, vf b)
{
#if defined CJ_ISA_AVX512
    return _mm512_max_ps(a, b);
#elif defined CJ_ISA_AVX2
    return _mm256_max_ps(a, b);
#else
    return vf_sel(vf_lt(b, a), a, b);
#endif
}
/* NaN when either operand is NaN. */
CJ_INLINE vf vf_min_nan(vf a, vf b) { return vf_sel(vf_isnan(a), a, vf_min(a, b)); }
CJ_INLINE vf vf_max_nan(vf a, vf b) { return vf_sel(vf_isnan(a), a, vf_max(a, b)); }

CJ_INLINE vi vi_min(vi a, vi b) { return vi_sel(vi_lt(a, b), a, b); }
CJ_INLINE vi vi_max(vi a, vi b) { return vi_sel(vi_lt(b, a), a, b); }

CJ_INLINE vf vf_sqrt(vf x)
{
#if defined CJ_ISA_AVX512
    return _mm512_sqrt_ps(x);
#elif defined CJ_ISA_AVX2
    return _mm256_sqrt_ps(x);
#elif defined CJ_ISA_NEON
    return vsqrtq_f32(x);
#else
    return (vf){ sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3]) };
#endif
}

/* To an integral value: to nearest even, down, up, towards zero.  The sign of zero is kept. */
#if defined CJ_ISA_AVX512
CJ_INLINE vf vf_round(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_floor(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_ceil(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_trunc(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#elif defined CJ_ISA_AVX2
CJ_INLINE vf vf_round(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_floor(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_ceil(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
CJ_INLINE vf vf_trunc(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#elif defined CJ_ISA_NEON
CJ_INLINE vf vf_round(vf x) { return vrndnq_f32(x); }
CJ_INLINE vf vf_floor(vf x) { return vrndmq_f32(x); }
CJ_INLINE vf vf_ceil(vf x) { return vrndpq_f32(x); }
CJ_INLINE vf vf_trunc(vf x) { return vrndq_f32(x); }
#else
/* Below 2^23, adding and subtracting 2^23 rounds to an integer; above, every float is one. */
CJ_INLINE vf vf_round(vf x)
{
    vf a = vf_abs(x), big = vf_set1(0x1p23f), r = (a + big) - big;
    return vf_sel(vf_lt(a, big), vf_copysign(r, x), x);
}
CJ_INLINE vf vf_floor(vf x)
{
    vf r = vf_round(x);
    return vf_copysign(r - vf_and_mask(vf_lt(x, r), vf_set1(1.0f)), x);
}
CJ_INLINE vf vf_ceil(vf x)
{
    vf r = vf_round(x);
    return vf_copysign(r + vf_and_mask(vf_lt(r, x), vf_set1(1.0f)), x);
}
CJ_INLINE vf vf_trunc(vf x) { return vf_copysign(vf_floor(vf_abs(x)), x); }
#endif

/* Conversions between lanes of i32 and f32; x lies within the range of i32. */
CJ_INLINE vf vf_from_vi(vi x)
{
#if defined CJ_ISA_AVX512
    return _mm512_cvtepi32_ps((__m512i)x);
#elif defined CJ_ISA_AVX2
    return _mm256_cvtepi32_ps((__m256i)x);
#elif defined CJ_ISA_NEON
    return vcvtq_f32_s32(x);
#else
    return __builtin_convertvector(x, vf);
#endif
}
CJ_INLINE vi vi_from_vf_trunc(vf x)
{
#if defined CJ_ISA_AVX512
    return (vi)_mm512_cvttps_epi32(x);
#elif defined CJ_ISA_AVX2
    return (vi)_mm256_cvttps_epi32(x);
#elif defined CJ_ISA_NEON
    return vcvtq_s32_f32(x);
#else
    return __builtin_convertvector(x, vi);
#endif
}
CJ_INLINE vi vi_from_vf_round(vf x)
{ /* to nearest even */
#if defined CJ_ISA_AVX512
    return (vi)_mm512_cvtps_epi32(x);
#elif defined CJ_ISA_AVX2
    return (vi)_mm256_cvtps_epi32(x);
#elif defined CJ_ISA_NEON
    return vcvtnq_s32_f32(x);
#else
    return __builtin_convertvector(vf_round(x), vi);
#endif
}

/* 2^n for -126 <= n <= 127, n integral. */
CJ_INLINE vf vf_pow2i(vi n) { return (vf)((vi)((vu)(n + 127) << 23)); }

/* ---- across lanes, in a fixed order: halves onto each other ---------------------------------------------------------------------------- */

CJ_INLINE float vf_hsum(vf x)
{
#if defined CJ_ISA_AVX512
    __m256 h = _mm512_castps512_ps256(x) + _mm512_extractf32x8_ps(x, 1);
    __m128 q = _mm256_castps256_ps128(h) + _mm256_extractf128_ps(h, 1);
#elif defined CJ_ISA_AVX2
    __m128 q = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
#else
    vf q = x;
#endif
    return (q[0] + q[2]) + (q[1] + q[3]);
}

/* NaN anywhere gives NaN. */
CJ_INLINE float vf_hmax(vf x)
{
#if defined CJ_ISA_AVX512
    if (vm_any(vf_isnan(x))) return NAN;
    return _mm512_reduce_max_ps(x);
#else
    float m = x[0];
    for (int i = 1; i < CJ_VL; i++) m = x[i] > m || x[i] != x[i] ? x[i] : m;
    return m;
#endif
}
CJ_INLINE float vf_hmin(vf x) { return -vf_hmax(vf_neg(x)); }

/* ---- bf16 and f16 in memory ---------------------------------------------------------------------------------------------------------- */

CJ_INLINE vi cj_bf16_bits(vf x)
{ /* the 16 bits of each lane, zero-extended */
    vu u = (vu)x, r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return vi_sel(vf_isnan(x), (vi)(u >> 16 | 0x40u), (vi)r);
}

CJ_INLINE vf vf_load_bf16(const uint16_t *p)
{
#if defined CJ_ISA_AVX512
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#elif defined CJ_ISA_AVX2
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
#elif defined CJ_ISA_NEON
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
#else
    return (vf)((vu){ p[0], p[1], p[2], p[3] } << 16);
#endif
}

CJ_INLINE void vf_store_bf16(uint16_t *p, vf x)
{
#if defined CJ_ISA_AVX512
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)cj_bf16_bits(x)));
#elif defined CJ_ISA_AVX2
    __m256i b = (__m256i)cj_bf16_bits(x);
    b = _mm256_permute4x64_epi64(_mm256_packus_epi32(b, b), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(b));
#elif defined CJ_ISA_NEON
    vst1_u16(p, vmovn_u32((vu)cj_bf16_bits(x)));
#else
    vi b = cj_bf16_bits(x);
    for (int i = 0; i < 4; i++) p[i] = (uint16_t)b[i];
#endif
}

CJ_INLINE vf vf_load_f16(const uint16_t *p)
{
#if defined CJ_ISA_AVX512
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined CJ_ISA_AVX2
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined CJ_ISA_NEON
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    return (vf){ cj_f32_from_f16(p[0]), cj_f32_from_f16(p[1]), cj_f32_from_f16(p[2]), cj_f32_from_f16(p[3]) };
#endif
}

CJ_INLINE void vf_store_f16(uint16_t *p, vf x)
{
#if defined CJ_ISA_AVX512
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined CJ_ISA_AVX2
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined CJ_ISA_NEON
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
#else
    for (int i = 0; i < 4; i++) p[i] = cj_f16_from_f32(x[i]);
#endif
}

/* The first n lanes; the others read as 0. */
CJ_INLINE vf vf_load_bf16_n(const uint16_t *p, int n)
{
    uint16_t t[CJ_VL] = { 0 };
    if (n > 0) memcpy(t, p, (size_t)n * 2);
    return vf_load_bf16(t);
}
CJ_INLINE void vf_store_bf16_n(uint16_t *p, vf x, int n)
{
    uint16_t t[CJ_VL];
    vf_store_bf16(t, x);
    if (n > 0) memcpy(p, t, (size_t)n * 2);
}
CJ_INLINE vf vf_load_f16_n(const uint16_t *p, int n)
{
    uint16_t t[CJ_VL] = { 0 };
    if (n > 0) memcpy(t, p, (size_t)n * 2);
    return vf_load_f16(t);
}
CJ_INLINE void vf_store_f16_n(uint16_t *p, vf x, int n)
{
    uint16_t t[CJ_VL];
    vf_store_f16(t, x);
    if (n > 0) memcpy(p, t, (size_t)n * 2);
}

#endif
