/* Factorisations of many small matrices at once (small.h): one matrix per vector lane. */
#include "kernels/cpu/small.h"

#include "kernels/cpu/transpose.h"

#if defined CJ_ISA_AVX512
#define SMALL_BYTES 64
#elif defined CJ_ISA_AVX2
#define SMALL_BYTES 32
#else
#define SMALL_BYTES 16
#endif

enum { SMALL_AHEAD = 32768 }; /* bytes: what comes after the matrices that the caller has looked at */

/* Masks of lanes: bits of a mask register, or vectors of 0 and -1.  GREATER(a, b), EQUAL(a, b); CHOOSE(m, a, b): m ? a : b; ANY(m): in some lane; FNMADD(c, a, b): c - a·b;
 * STREAM(p, x): past the cache, p aligned. */
#define AS(type, x) ((type)(x))
#if defined CJ_ISA_AVX512
#define MASK __mmask16
#define GREATER(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_GT_OQ)
#define EQUAL(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_EQ_OQ)
#define CHOOSE(m, a, b) AS(vec_f32, _mm512_mask_blend_ps(m, (__m512)(b), (__m512)(a)))
#define ANY(m) ((m) != 0)
#define FNMADD(c, a, b) AS(vec_f32, _mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define SQRT(x) AS(vec_f32, _mm512_sqrt_ps((__m512)(x)))
#define STREAM(p, x) _mm512_stream_ps(p, (__m512)(x))
#elif defined CJ_ISA_AVX2
#define FNMADD(c, a, b) AS(vec_f32, _mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define SQRT(x) AS(vec_f32, _mm256_sqrt_ps((__m256)(x)))
#define ANY(m) (!_mm256_testz_si256((__m256i)(m), (__m256i)(m)))
#define STREAM(p, x) _mm256_stream_ps(p, (__m256)(x))
#else
typedef float four_f32 __attribute__((vector_size(16)));
CJ_INLINE four_f32 root_f32(four_f32 x) { return (four_f32){ sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3]) }; }
#define SQRT(x) root_f32(x)
#endif
#define R float
#define INT int32_t
#define NAME(x) x##_f32
#include "kernels/cpu/small_lanes.h"

#if defined CJ_ISA_AVX512
#define MASK __mmask8
#define GREATER(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_GT_OQ)
#define EQUAL(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_EQ_OQ)
#define CHOOSE(m, a, b) AS(vec_f64, _mm512_mask_blend_pd(m, (__m512d)(b), (__m512d)(a)))
#define ANY(m) ((m) != 0)
#define FNMADD(c, a, b) AS(vec_f64, _mm512_fnmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define SQRT(x) AS(vec_f64, _mm512_sqrt_pd((__m512d)(x)))
#define STREAM(p, x) _mm512_stream_pd(p, (__m512d)(x))
#elif defined CJ_ISA_AVX2
#define FNMADD(c, a, b) AS(vec_f64, _mm256_fnmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define SQRT(x) AS(vec_f64, _mm256_sqrt_pd((__m256d)(x)))
#define ANY(m) (!_mm256_testz_si256((__m256i)(m), (__m256i)(m)))
#define STREAM(p, x) _mm256_stream_pd(p, (__m256d)(x))
#else
typedef double two_f64 __attribute__((vector_size(16)));
CJ_INLINE two_f64 root_f64(two_f64 x) { return (two_f64){ sqrt(x[0]), sqrt(x[1]) }; }
#define SQRT(x) root_f64(x)
#endif
#define R double
#define INT int64_t
#define NAME(x) x##_f64
#include "kernels/cpu/small_lanes.h"

void CJ_K(cj__small)(const cj_small *s)
{
    if (s->dtype == CJ_F64) groups_f64(s);
    else groups_f32(s);
    if (s->stream) vf_stream_end();
}

/* x - x is 0, with no bit set, unless x is NaN or infinite. */
#define FINITE(name, R, V, M)                                                                                                              \
    static bool name(const R *x, int64_t n)                                                                                                \
    {                                                                                                                                      \
        enum { LANES = SMALL_BYTES / sizeof(R), TOGETHER = 4 };                                                                            \
        M bad[TOGETHER] = { 0 };                                                                                                           \
        int64_t i = 0;                                                                                                                     \
        for (; i + TOGETHER * LANES <= n; i += TOGETHER * LANES)                                                                           \
            for (int k = 0; k < TOGETHER; k++) {                                                                                           \
                V v;                                                                                                                       \
                memcpy(&v, x + i + k * LANES, sizeof v);                                                                                   \
                bad[k] |= (M)(v - v);                                                                                                      \
            }                                                                                                                              \
        for (; i < n; i++)                                                                                                                 \
            if (x[i] - x[i] != 0) return false;                                                                                            \
        bad[0] |= bad[1] | bad[2] | bad[3];                                                                                                \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            if (bad[0][l]) return false;                                                                                                   \
        return true;                                                                                                                       \
    }
FINITE(finite_f32, float, vec_f32, mask_f32)
FINITE(finite_f64, double, vec_f64, mask_f64)

bool CJ_K(cj__finite)(cj_dtype t, const void *x, int64_t n) { return t == CJ_F64 ? finite_f64(x, n) : finite_f32(x, n); }
