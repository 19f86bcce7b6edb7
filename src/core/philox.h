/* Random numbers from a counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * Element i of a draw is a pure function of (seed, stream, call, i): no state, any order, any device.  This header is the definition; random.c runs
 * it in loops that the compiler vectorises, CUDA includes it as it is.  Everything that rounds is written out in fma, so that all give the same bits;
 * compile with contraction off (-ffp-contract=off, nvcc -fmad=false) and with IEEE division and square root.
 *
 *   key      k0 = low32(seed)  ^ low32(stream * 0x9E3779B9)
 *            k1 = high32(seed) ^ low32(stream * 0xBB67AE85)
 *   counter  (low32(call), high32(call), low32(block), high32(block))
 *   block    32-bit draws (f32, bf16, f16, Bernoulli): block i / 4, word i % 4
 *            64-bit draws (f64, integers): block i / 2, words 2*(i % 2) (low) and 2*(i % 2) + 1 (high)
 *   normals  are made in pairs from two neighbouring 32-bit (or 64-bit) words: the even element takes the cosine, the odd one the sine.
 */
#ifndef CJ_CORE_PHILOX_H
#define CJ_CORE_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined __CUDACC__
#define CJ_HD __host__ __device__ __forceinline__
#elif defined __GNUC__
#define CJ_HD inline __attribute__((always_inline))
#else
#define CJ_HD inline
#endif

static CJ_HD void cj_philox_key(uint64_t seed, uint64_t stream, uint32_t key[2])
{
    key[0] = (uint32_t)seed ^ (uint32_t)(stream * 0x9E3779B9u);
    key[1] = (uint32_t)(seed >> 32) ^ (uint32_t)(stream * 0xBB67AE85u);
}

static CJ_HD void cj_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The four words of a block. */
static CJ_HD void cj_philox_block(const uint32_t key[2], uint64_t call, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = { (uint32_t)call, (uint32_t)(call >> 32), (uint32_t)block, (uint32_t)(block >> 32) };
    cj_philox4x32_10(counter, key, out);
}

/* ---- f32 ------------------------------------------------------------------------------------------------------------------------------ */

static CJ_HD uint32_t cj_philox_bits32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static CJ_HD float cj_philox_float32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 24 bits: k * 2^-24, in [0, 1). */
static CJ_HD float cj_philox_unit_f32(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }

/* 30 bits, the midpoints (2k+1) * 2^-31 of their cells, rounded: in [2^-31, 1], never 0, for logarithms. */
static CJ_HD float cj_philox_open_f32(uint32_t w) { return (float)(int32_t)((w >> 1) | 1) * 0x1p-31f; }

/* lo + u * span, at most top: the largest number of the target dtype below the upper end, so that rounding never reaches that end. */
static CJ_HD float cj_philox_uniform_f32(uint32_t w, float lo, float span, float top)
{
    const float v = fmaf(cj_philox_unit_f32(w), span, lo);
    return v < top ? v : top;
}

/* log(x) of a normal x > 0, within an ulp or so: x = 2^e (1+m), sqrt(1/2) <= 1+m < sqrt(2); the polynomial is that of Cephes logf (Moshier). */
static CJ_HD float cj_philox_log_f32(float x)
{
    const uint32_t b = cj_philox_bits32(x) + (0x3f800000u - 0x3f3504f3u);
    const float e = (float)((int32_t)(b >> 23) - 127);
    const float m = cj_philox_float32((b & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = fmaf(p, m, -1.1514610310e-1f);
    p = fmaf(p, m, 1.1676998740e-1f);
    p = fmaf(p, m, -1.2420140846e-1f);
    p = fmaf(p, m, 1.4249322787e-1f);
    p = fmaf(p, m, -1.6668057665e-1f);
    p = fmaf(p, m, 2.0000714765e-1f);
    p = fmaf(p, m, -2.4999993993e-1f);
    p = fmaf(p, m, 3.3333331174e-1f);
    p = p * m * z;
    p = fmaf(e, -2.12194440e-4f, p);
    p = fmaf(z, -0.5f, p);
    return fmaf(e, 0.693359375f, m + p);
}

/* cos and sin of the angle 2 pi w / 2^32.  The top two bits are the quadrant, the rest (signed) an angle within 45 degrees of its axis. */
static CJ_HD void cj_philox_sincos_f32(uint32_t w, float *cosine, float *sine)
{
    const float t = (float)(int32_t)(w << 2) * (1.57079632679489662f * 0x1p-32f);
    const float z = t * t;
    float s = fmaf(z, -1.9515295891e-4f, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f);
    s = fmaf(s * z, t, t);
    float c = fmaf(z, 2.443315711809948e-5f, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f);
    c = fmaf(c * z, z, fmaf(z, -0.5f, 1.0f));
    /* The signed rest makes a quadrant span [-45, 45) degrees around q * 90 degrees, q rounded to nearest: add the top bit of the rest. */
    const uint32_t q = (w >> 30) + ((w >> 29) & 1u);
    const float a = q & 1u ? s : c, b = q & 1u ? c : s;
    *cosine = cj_philox_float32(cj_philox_bits32(a) ^ (((q + 1u) & 2u) << 30));
    *sine = cj_philox_float32(cj_philox_bits32(b) ^ ((q & 2u) << 30));
}

/* Box and Muller (1958): radius sqrt(-2 log u). The square root is IEEE's, left to the caller in vector code. */
static CJ_HD float cj_philox_radius2_f32(uint32_t w) { return -2.0f * cj_philox_log_f32(cj_philox_open_f32(w)); }

static CJ_HD void cj_philox_normal_f32(uint32_t w0, uint32_t w1, float mean, float deviation, float out[2])
{
    float c, s;
    const float r = sqrtf(cj_philox_radius2_f32(w0));
    cj_philox_sincos_f32(w1, &c, &s);
    out[0] = fmaf(r * c, deviation, mean);
    out[1] = fmaf(r * s, deviation, mean);
}

static CJ_HD float cj_philox_exponential_f32(uint32_t w, float rate) { return -cj_philox_log_f32(cj_philox_open_f32(w)) / rate; }

/* True with probability p, to 2^-33: w < round(p * 2^32); p = 0 is never, p = 1 is always. */
static CJ_HD uint64_t cj_philox_threshold(double p)
{
    return p >= 1.0 ? (uint64_t)1 << 32 : p > 0.0 ? (uint64_t)(p * 4294967296.0 + 0.5) : 0;
}
static CJ_HD int cj_philox_bernoulli(uint32_t w, uint64_t threshold) { return w < threshold; }

/* ---- 64 bits ---------------------------------------------------------------------------------------------------------------------------- */

static CJ_HD uint64_t cj_philox_word64(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* floor(w * range / 2^64): an integer in [0, range). Each value's probability differs from 1/range by less than 2^-64, a relative bias below
 * range / 2^64. */
static CJ_HD uint64_t cj_philox_below(uint64_t w, uint64_t range)
{
    const uint64_t wl = (uint32_t)w, wh = w >> 32, rl = (uint32_t)range, rh = range >> 32;
    const uint64_t mid = wh * rl + ((wl * rl) >> 32);
    const uint64_t mid2 = wl * rh + (uint32_t)mid;
    return wh * rh + (mid >> 32) + (mid2 >> 32);
}
/* The same for range < 2^32, where half of it is zero. */
static CJ_HD uint64_t cj_philox_below32(uint64_t w, uint32_t range)
{
    return ((w >> 32) * range + (((w & 0xffffffffu) * range) >> 32)) >> 32;
}

static CJ_HD uint64_t cj_philox_bits64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static CJ_HD double cj_philox_float64(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 53 bits: k * 2^-53, in [0, 1). */
static CJ_HD double cj_philox_unit_f64(uint64_t w) { return (double)(int64_t)(w >> 11) * 0x1p-53; }
/* Midpoints of 2^-62 cells, rounded: in [2^-63, 1]. */
static CJ_HD double cj_philox_open_f64(uint64_t w) { return (double)(int64_t)((w >> 1) | 1) * 0x1p-63; }

static CJ_HD double cj_philox_uniform_f64(uint64_t w, double lo, double span, double top)
{
    const double v = fma(cj_philox_unit_f64(w), span, lo);
    return v < top ? v : top;
}

/* log(x) of a normal x > 0, method and coefficients of fdlibm e_log.c (Sun, 1993). */
static CJ_HD double cj_philox_log_f64(double x)
{
    const uint64_t b = cj_philox_bits64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    const double e = (double)((int64_t)(b >> 52) - 1023);
    const double f = cj_philox_float64((b & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = fma(p, z, 1.531383769920937332e-01);
    p = fma(p, z, 1.818357216161805012e-01);
    p = fma(p, z, 2.222219843214978396e-01);
    p = fma(p, z, 2.857142874366239149e-01);
    p = fma(p, z, 3.999999999940941908e-01);
    p = fma(p, z, 6.666666666666735130e-01);
    p = p * z;
    return fma(e, 6.93147180369123816490e-01, f - (half - fma(s, half + p, e * 1.90821492927058770002e-10)));
}

static CJ_HD void cj_philox_sincos_f64(uint64_t w, double *cosine, double *sine)
{
    const double t = (double)(int64_t)(w << 2) * (1.57079632679489661923 * 0x1p-64);
    const double z = t * t;
    double s = 1.58969099521155010221e-10;
    s = fma(s, z, -2.50507602534068634195e-08);
    s = fma(s, z, 2.75573137070700676789e-06);
    s = fma(s, z, -1.98412698298579493134e-04);
    s = fma(s, z, 8.33333333332248946124e-03);
    s = fma(s, z, -1.66666666666666324348e-01);
    s = fma(s * z, t, t);
    double c = -1.13596475577881948265e-11;
    c = fma(c, z, 2.08757232129817482790e-09);
    c = fma(c, z, -2.75573143513906633035e-07);
    c = fma(c, z, 2.48015872894767294178e-05);
    c = fma(c, z, -1.38888888888741095749e-03);
    c = fma(c, z, 4.16666666666666019037e-02);
    c = fma(c * z, z, fma(z, -0.5, 1.0));
    const uint64_t q = (w >> 62) + ((w >> 61) & 1u);
    const double a = q & 1u ? s : c, b = q & 1u ? c : s;
    *cosine = cj_philox_float64(cj_philox_bits64(a) ^ (((q + 1u) & 2u) << 62));
    *sine = cj_philox_float64(cj_philox_bits64(b) ^ ((q & 2u) << 62));
}

static CJ_HD void cj_philox_normal_f64(uint64_t w0, uint64_t w1, double mean, double deviation, double out[2])
{
    double c, s;
    const double r = sqrt(-2.0 * cj_philox_log_f64(cj_philox_open_f64(w0)));
    cj_philox_sincos_f64(w1, &c, &s);
    out[0] = fma(r * c, deviation, mean);
    out[1] = fma(r * s, deviation, mean);
}

static CJ_HD double cj_philox_exponential_f64(uint64_t w, double rate) { return -cj_philox_log_f64(cj_philox_open_f64(w)) / rate; }

#endif
