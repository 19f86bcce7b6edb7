/* Factorisations of many small matrices at once (small.h): one matrix per vector lane. */
#include "kernels/cpu/small.h"

#include "kernels/cpu/simd.h"

#if defined CJ_ISA_AVX512
#define SMALL_BYTES 64
#elif defined CJ_ISA_AVX2
#define SMALL_BYTES 32
#else
#define SMALL_BYTES 16
#endif

#define R float
#define INT int32_t
#define NAME(x) x##_f32
#if defined CJ_ISA_AVX512
#define FNMADD(c, a, b) ((vec_f32)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define SQRT(x) ((vec_f32)_mm512_sqrt_ps((__m512)(x)))
#elif defined CJ_ISA_AVX2
#define FNMADD(c, a, b) ((vec_f32)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define SQRT(x) ((vec_f32)_mm256_sqrt_ps((__m256)(x)))
#else
#define FNMADD(c, a, b) ((c) - (a) * (b))
#define SQRT(x) root_f32(x)
#endif
#if !defined CJ_ISA_AVX512 && !defined CJ_ISA_AVX2
typedef float four_f32 __attribute__((vector_size(16)));
CJ_INLINE four_f32 root_f32(four_f32 x) { return (four_f32){ sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3]) }; }
typedef double two_f64 __attribute__((vector_size(16)));
CJ_INLINE two_f64 root_f64(two_f64 x) { return (two_f64){ sqrt(x[0]), sqrt(x[1]) }; }
#endif
#include "kernels/cpu/small_lanes.h"

#define R double
#define INT int64_t
#define NAME(x) x##_f64
#if defined CJ_ISA_AVX512
#define FNMADD(c, a, b) ((vec_f64)_mm512_fnmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define SQRT(x) ((vec_f64)_mm512_sqrt_pd((__m512d)(x)))
#elif defined CJ_ISA_AVX2
#define FNMADD(c, a, b) ((vec_f64)_mm256_fnmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define SQRT(x) ((vec_f64)_mm256_sqrt_pd((__m256d)(x)))
#else
#define FNMADD(c, a, b) ((c) - (a) * (b))
#define SQRT(x) root_f64(x)
#endif
#include "kernels/cpu/small_lanes.h"

void CJ_K(cj__small)(const cj_small *s)
{
    if (s->dtype == CJ_F64) groups_f64(s);
    else groups_f32(s);
}
