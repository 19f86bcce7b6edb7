/* Discrete Fourier transforms (fft.h): the body for f32 and f64. */
#include "kernels/cpu/fft.h"

#include <string.h>

#include "kernels/cpu/simd.h"

#define VECTOR_BYTES (4 * CJ_VL)

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
