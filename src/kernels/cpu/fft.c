/* Discrete Fourier transforms (fft.h): the body for f32 and f64. */
#include "kernels/cpu/fft.h"

#include <string.h>

#include "kernels/cpu/simd.h"

#define VECTOR_BYTES (4 * CJ_VL)

#if defined CJ_ISA_AVX512
/* 16 x 16: while they are loaded the quarters of four rows come beside each other, so that only the 4 x 4 within them are left to shuffle. */
CJ_INLINE void transposed_16(const float *p, int64_t stride, __m512 *x)
{
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++, p += 4) {
        __m512 v[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            v[i] = _mm512_castps128_ps512(_mm_loadu_ps(p + i * stride));
            v[i] = _mm512_mask_broadcast_f32x4(v[i], 0x00f0, _mm_loadu_ps(p + (i + 4) * stride));
            v[i] = _mm512_mask_broadcast_f32x4(v[i], 0x0f00, _mm_loadu_ps(p + (i + 8) * stride));
            v[i] = _mm512_mask_broadcast_f32x4(v[i], 0xf000, _mm_loadu_ps(p + (i + 12) * stride));
        }
        const __m512d a = (__m512d)_mm512_unpacklo_ps(v[0], v[1]), b = (__m512d)_mm512_unpacklo_ps(v[2], v[3]);
        const __m512d d = (__m512d)_mm512_unpackhi_ps(v[0], v[1]), e = (__m512d)_mm512_unpackhi_ps(v[2], v[3]);
        x[4 * c] = (__m512)_mm512_unpacklo_pd(a, b);
        x[4 * c + 1] = (__m512)_mm512_unpackhi_pd(a, b);
        x[4 * c + 2] = (__m512)_mm512_unpacklo_pd(d, e);
        x[4 * c + 3] = (__m512)_mm512_unpackhi_pd(d, e);
    }
}
#define LOAD_TRANSPOSED(p, stride, x) transposed_16(p, stride, (__m512 *)(x))
#endif

typedef int32_t f32_index_int;
#define REAL float
#define FMA(a, b, c) ((f32_vr)vf_fma((vf)(a), (vf)(b), (vf)(c)))
#define NAME(x) f32_##x
#include "kernels/cpu/fft_body.h"

typedef int64_t f64_index_int;
#define REAL double
#if defined CJ_ISA_AVX512
#define FMA(a, b, c) ((f64_vr)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined CJ_ISA_AVX2
#define FMA(a, b, c) ((f64_vr)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#define NAME(x) f64_##x
#include "kernels/cpu/fft_body.h"

cj_fft_fn CJ_K(cj__fft);
cj_fft_workspace_fn CJ_K(cj__fft_workspace);
cj_fft_split_fn CJ_K(cj__fft_split);
cj_fft_join_fn CJ_K(cj__fft_join);

void CJ_K(cj__fft)(cj_pool *pool, const cj_fft_job *f, void *work)
{
    if (f->plan->dtype == CJ_F64) f64_run(pool, f, work);
    else f32_run(pool, f, work);
}

size_t CJ_K(cj__fft_workspace)(const cj_fft_job *f, int threads)
{
    return (size_t)threads * (f->plan->dtype == CJ_F64 ? f64_room_bytes(f->plan) : f32_room_bytes(f->plan));
}

static int64_t sequences(int64_t h) { return h >= 1 << 14 ? 1 : (1 << 14) / (h + 1) + 1; }

void CJ_K(cj__fft_split)(cj_pool *pool, cj_dtype t, int64_t batch, int64_t h, const void *root, const void *z, void *x, double scale)
{
    if (t == CJ_F64) cj__parallel_for(pool, batch, sequences(h), f64_split_range, &(f64_real_job){ h, root, z, x, scale });
    else cj__parallel_for(pool, batch, sequences(h), f32_split_range, &(f32_real_job){ h, root, z, x, (float)scale });
}

void CJ_K(cj__fft_join)(cj_pool *pool, cj_dtype t, int64_t batch, int64_t h, const void *root, const void *x, void *z, double scale)
{
    if (t == CJ_F64) cj__parallel_for(pool, batch, sequences(h), f64_join_range, &(f64_real_job){ h, root, x, z, scale });
    else cj__parallel_for(pool, batch, sequences(h), f32_join_range, &(f32_real_job){ h, root, x, z, (float)scale });
}
