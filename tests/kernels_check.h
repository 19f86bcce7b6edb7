/* What the checks of kernels share: the level under test, random numbers, elements of every dtype, memory with guard bytes around it.
 *
 * Every result is computed with no pool and with a pool of two threads, which must agree to the bit; guard bytes around every output must survive.
 */
#ifndef CJ_KERNELS_CHECK_H
#define CJ_KERNELS_CHECK_H
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static const cj_cpu_kernels *K; /* the level under test */
static cj_pool *two;
static int failures;
static uint64_t state;

#define CHECK(ok, ...)                                                                                                                     \
    do {                                                                                                                                   \
        if (!(ok)) {                                                                                                                       \
            if (failures++ < 20) {                                                                                                         \
                printf("%s, %s:%d: ", K->name, __func__, __LINE__);                                                                        \
                printf(__VA_ARGS__);                                                                                                       \
                printf("\n");                                                                                                              \
            }                                                                                                                              \
        }                                                                                                                                  \
    } while (0)

/* ---- helpers ---------------------------------------------------------------------------------------------------------------------------- */

static inline uint64_t rnd(void) /* splitmix64 */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static inline int64_t between(int64_t lo, int64_t hi) { return lo + (int64_t)(rnd() % (uint64_t)(hi - lo + 1)); }
static inline double unit(void) { return (double)(rnd() >> 11) * 0x1p-53; }
static inline double gauss(void) { return sqrt(-2 * log(1 - unit())) * cos(6.283185307179586 * unit()); }

static const int size_of[CJ_DTYPES] = { 4, 4, 8, 2, 2, 8, 4, 1, 1 };
static const char *name_of[CJ_DTYPES] = { "?", "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" };
static inline bool is_float(cj_dtype t) { return t == CJ_F32 || t == CJ_F64 || t == CJ_BF16 || t == CJ_F16; }
static const double eps_of[CJ_DTYPES] = { 0, 0x1p-23, 0x1p-52, 0x1p-8, 0x1p-11, 0, 0, 0, 0 };

static inline double half_value(uint16_t h) /* f16 */
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}
static inline double bf16_value(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline double get(cj_dtype t, const void *p, int64_t i)
{
    switch (t) {
    case CJ_F64: return ((const double *)p)[i];
    case CJ_BF16: return bf16_value(((const uint16_t *)p)[i]);
    case CJ_F16: return half_value(((const uint16_t *)p)[i]);
    case CJ_I64: return (double)((const int64_t *)p)[i];
    case CJ_I32: return ((const int32_t *)p)[i];
    case CJ_U8: return ((const uint8_t *)p)[i];
    case CJ_BOOL: return ((const uint8_t *)p)[i] != 0;
    default: return ((const float *)p)[i];
    }
}
static inline int64_t get_int(cj_dtype t, const void *p, int64_t i)
{
    return t == CJ_I64 ? ((const int64_t *)p)[i] : (int64_t)get(t, p, i);
}

/* x rounded to nearest even among the 16-bit patterns, by bisection over the positive ones: slow and obvious. */
static inline uint16_t nearest16(cj_dtype t, double x)
{
    double (*value)(uint16_t) = t == CJ_F16 ? half_value : bf16_value;
    const uint16_t inf = t == CJ_F16 ? 0x7c00 : 0x7f80, sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs(x);
    if (x != x) return (uint16_t)(inf + 1);
    uint16_t lo = 0, hi = inf;
    while (hi - lo > 1) {
        const uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (value(mid) <= a) lo = mid;
        else hi = mid;
    }
    if (isinf(a)) return sign | inf;
    const double down = value(lo), up = hi == inf ? 2 * value(lo) - value((uint16_t)(lo - 1)) : value(hi);
    const double dd = a - down, du = up - a;
    return sign | (dd < du ? lo : du < dd ? hi : lo & 1 ? hi : lo);
}

static inline int64_t saturate(double x, double lo, double hi, int64_t ilo, int64_t ihi)
{
    return x != x ? 0 : x <= lo ? ilo : x >= hi ? ihi : (int64_t)x;
}

/* Element i of y from element k of x. */
static inline void put_converted(cj_dtype xt, const void *x, int64_t k, cj_dtype yt, void *y, int64_t i)
{
    const double v = get(xt, x, k);
    const int64_t n = is_float(xt) ? 0 : get_int(xt, x, k);
    switch (yt) {
    case CJ_F64: ((double *)y)[i] = v; break;
    case CJ_F32: ((float *)y)[i] = xt == CJ_I64 ? (float)n : (float)v; break;
    case CJ_BF16:
    case CJ_F16: ((uint16_t *)y)[i] = nearest16(yt, is_float(xt) ? v : (double)(float)n); break;
    case CJ_I64: ((int64_t *)y)[i] = is_float(xt) ? saturate(v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX) : n; break;
    case CJ_I32:
        ((int32_t *)y)[i] = (int32_t)(is_float(xt)    ? saturate(v, -0x1p31, 0x1p31 - 1, INT32_MIN, INT32_MAX)
                                      : n < INT32_MIN ? INT32_MIN
                                      : n > INT32_MAX ? INT32_MAX
                                                      : n);
        break;
    case CJ_U8: ((uint8_t *)y)[i] = (uint8_t)(is_float(xt) ? saturate(v, 0, 255, 0, 255) : n < 0 ? 0 : n > 255 ? 255 : n); break;
    default: ((uint8_t *)y)[i] = v != 0; break;
    }
}
static inline void put(cj_dtype t, void *y, int64_t i, double v) { put_converted(CJ_F64, &v, 0, t, y, i); }

static inline bool same(cj_dtype t, const void *a, const void *b, int64_t i)
{
    if (is_float(t)) {
        const double u = get(t, a, i), v = get(t, b, i);
        return (u != u && v != v) || (u == v && signbit(u) == signbit(v));
    }
    return get_int(t, a, i) == get_int(t, b, i);
}

/* Memory with guard bytes on both sides. */
#define GUARD 64
typedef struct buffer {
    unsigned char *all;
    size_t bytes;
    void *p;
} buffer;
static inline buffer make(int64_t n, cj_dtype t)
{
    buffer b;
    b.bytes = (size_t)n * (size_t)size_of[t];
    b.all = malloc(b.bytes + 2 * GUARD);
    memset(b.all, 0xA5, b.bytes + 2 * GUARD);
    b.p = b.all + GUARD;
    return b;
}
static inline void done(buffer *b)
{
    for (size_t i = 0; i < GUARD; i++) CHECK(b->all[i] == 0xA5 && b->all[GUARD + b->bytes + i] == 0xA5, "guard byte overwritten");
    free(b->all);
}
static inline void equal_bits(const buffer *a, const buffer *b) { CHECK(memcmp(a->p, b->p, a->bytes) == 0, "one and two threads differ"); }

static inline void fill_random(buffer *b, cj_dtype t, int64_t n, double scale, bool special)
{
    for (int64_t i = 0; i < n; i++) {
        double v = gauss() * scale;
        if (special && rnd() % 8 == 0) {
            static const double s[] = { 0.0,           -0.0,   NAN,     INFINITY, -INFINITY, 1e300, -1e300, 65519.999, 65520, 2147483647.5,
                                        -2147483649.0, 9.3e18, -9.3e18, 255.5,    256,       -1,    6e-8,   1e-40,     0.5 };
            v = s[rnd() % (sizeof s / sizeof *s)];
        }
        if (t == CJ_I64 && special && rnd() % 4 == 0) ((int64_t *)b->p)[i] = (int64_t)rnd() >> rnd() % 64;
        else put(t, b->p, i, t == CJ_BOOL ? (rnd() & 1) : v);
    }
}

/* Runs `all` on every level of this machine, from the same seed; the exit code. */
static inline int every_level(int argc, char **argv, void (*all)(int rounds))
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261115;
    const int rounds = argc > 2 ? atoi(argv[2]) : 1;
    printf("seed %llu\n", (unsigned long long)seed);
    two = cj__pool_new(2);
    for (int level = 0; level < CJ_ISA_LEVELS; level++) {
        K = cj__cpu_kernels((cj_isa)level);
        if (!K) continue;
        state = seed;
        all(rounds);
        printf("%s: %d failures\n", K->name, failures);
    }
    cj__pool_free(two);
    return failures != 0;
}
#endif
