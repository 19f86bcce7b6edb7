/* Checks reductions, copies, indexing, row kernels, random draws and updates of every instruction-set level of this machine against obvious loops.
 *
 *   kernels_rows_main [seed]      exit code 0: all equal
 *
 * Every result is computed with no pool and with a pool of two threads, which must agree to the bit; guard bytes around every output must survive.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/philox.h"
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

static uint64_t rnd(void) /* splitmix64 */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static int64_t between(int64_t lo, int64_t hi) { return lo + (int64_t)(rnd() % (uint64_t)(hi - lo + 1)); }
static double unit(void) { return (double)(rnd() >> 11) * 0x1p-53; }
static double gauss(void) { return sqrt(-2 * log(1 - unit())) * cos(6.283185307179586 * unit()); }

static const int size_of[CJ_DTYPES] = { 4, 4, 8, 2, 2, 8, 4, 1, 1 };
static const char *name_of[CJ_DTYPES] = { "?", "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" };
static bool is_float(cj_dtype t) { return t == CJ_F32 || t == CJ_F64 || t == CJ_BF16 || t == CJ_F16; }
static const double eps_of[CJ_DTYPES] = { 0, 0x1p-23, 0x1p-52, 0x1p-8, 0x1p-11, 0, 0, 0, 0 };

static double half_value(uint16_t h) /* f16 */
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}
static double bf16_value(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static double get(cj_dtype t, const void *p, int64_t i)
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
static int64_t get_int(cj_dtype t, const void *p, int64_t i) { return t == CJ_I64 ? ((const int64_t *)p)[i] : (int64_t)get(t, p, i); }

/* x rounded to nearest even among the 16-bit patterns, by bisection over the positive ones: slow and obvious. */
static uint16_t nearest16(cj_dtype t, double x)
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

static int64_t saturate(double x, double lo, double hi, int64_t ilo, int64_t ihi)
{
    return x != x ? 0 : x <= lo ? ilo : x >= hi ? ihi : (int64_t)x;
}

/* Element i of y from element k of x. */
static void put_converted(cj_dtype xt, const void *x, int64_t k, cj_dtype yt, void *y, int64_t i)
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
static void put(cj_dtype t, void *y, int64_t i, double v) { put_converted(CJ_F64, &v, 0, t, y, i); }

static bool same(cj_dtype t, const void *a, const void *b, int64_t i)
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
static buffer make(int64_t n, cj_dtype t)
{
    buffer b;
    b.bytes = (size_t)n * (size_t)size_of[t];
    b.all = malloc(b.bytes + 2 * GUARD);
    memset(b.all, 0xA5, b.bytes + 2 * GUARD);
    b.p = b.all + GUARD;
    return b;
}
static void done(buffer *b)
{
    for (size_t i = 0; i < GUARD; i++) CHECK(b->all[i] == 0xA5 && b->all[GUARD + b->bytes + i] == 0xA5, "guard byte overwritten");
    free(b->all);
}
static void equal_bits(const buffer *a, const buffer *b) { CHECK(memcmp(a->p, b->p, a->bytes) == 0, "one and two threads differ"); }

static void fill_random(buffer *b, cj_dtype t, int64_t n, double scale, bool special)
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

/* ---- copies ----------------------------------------------------------------------------------------------------------------------------- */

static void test_copy_once(int64_t limit)
{
    const cj_dtype xt = (cj_dtype)between(1, CJ_DTYPES - 1), yt = rnd() % 3 ? (cj_dtype)between(1, CJ_DTYPES - 1) : xt;
    const int ndim = (int)between(0, 5);
    int64_t shape[8], xs[8], ys[8], nx = 1, ny = 1, total = 1, ox = 0, oy = 0;
    int xorder[8], yorder[8];
    for (int k = 0; k < ndim; k++) {
        const int64_t most = limit / total < 1 ? 1 : limit / total;
        shape[k] = rnd() % 40 == 0 ? 0 : rnd() % 4 == 0 ? 1 : between(1, rnd() % 3 ? (most < 9 ? most : 9) : (most < 200 ? most : 200));
        total *= shape[k] > 0 ? shape[k] : 1;
        xorder[k] = yorder[k] = k;
    }
    for (int k = ndim - 1; k > 0; k--) {
        int r = (int)between(0, k), s = xorder[k];
        xorder[k] = xorder[r], xorder[r] = s;
        if (rnd() % 2) r = (int)between(0, k), s = yorder[k], yorder[k] = yorder[r], yorder[r] = s;
    }
    for (int k = ndim - 1; k >= 0; k--) {
        const int a = xorder[k], b = yorder[k];
        const int64_t n = shape[a] > 0 ? shape[a] : 1, m = shape[b] > 0 ? shape[b] : 1;
        if (rnd() % 8 == 0) xs[a] = 0;
        else {
            if (rnd() % 8 == 0) nx *= 2;
            xs[a] = rnd() % 6 ? nx : -nx;
            if (xs[a] < 0) ox += (n - 1) * nx;
            nx *= n;
        }
        if (rnd() % 8 == 0) ny *= 2;
        ys[b] = rnd() % 6 ? ny : -ny;
        if (ys[b] < 0) oy += (m - 1) * ny;
        ny *= m;
    }
    buffer x = make(nx, xt), y = make(ny, yt), z = make(ny, yt);
    fill_random(&x, xt, nx, rnd() % 2 ? 1.0 : 100.0, true);
    char *x0 = (char *)x.p + ox * size_of[xt], *y0 = (char *)y.p + oy * size_of[yt], *z0 = (char *)z.p + oy * size_of[yt];
    K->copy(rnd() % 2 ? two : NULL, ndim, shape, xt, x0, xs, yt, y0, ys);
    int64_t at[8] = { 0 };
    int64_t count = 1;
    for (int k = 0; k < ndim; k++) count *= shape[k];
    for (int64_t i = 0; i < count; i++) {
        int64_t px = 0, py = 0;
        for (int k = 0; k < ndim; k++) px += at[k] * xs[k], py += at[k] * ys[k];
        put_converted(xt, x0, px, yt, z0, py);
        if (!same(yt, y0, z0, py)) {
            CHECK(false, "copy %s to %s: %.17g gives %.17g, not %.17g", name_of[xt], name_of[yt], get(xt, x0, px), get(yt, y0, py),
                  get(yt, z0, py));
            break;
        }
        memcpy(y0 + py * size_of[yt], z0 + py * size_of[yt], (size_t)size_of[yt]); /* NaN payloads may differ */
        for (int k = ndim - 1; k >= 0 && ++at[k] == shape[k]; k--) at[k] = 0;
    }
    CHECK(memcmp(y.p, z.p, y.bytes) == 0, "copy wrote between the elements");
    done(&x), done(&y), done(&z);
}

static void test_fill(void)
{
    for (int t = 1; t < CJ_DTYPES; t++) {
        const int64_t n = rnd() % 2 ? between(0, 40) : between(1, 100000);
        buffer y = make(n, (cj_dtype)t);
        const double v = (double)between(0, 3);
        K->fill(two, (cj_dtype)t, y.p, n, v, (int64_t)v);
        for (int64_t i = 0; i < n; i++)
            if (get((cj_dtype)t, y.p, i) != (t == CJ_BOOL ? v != 0 : v)) {
                CHECK(false, "fill %s", name_of[t]);
                break;
            }
        done(&y);
    }
}

/* ---- indexing --------------------------------------------------------------------------------------------------------------------------- */

static void test_index_once(int64_t limit)
{
    const int64_t outer = between(1, rnd() % 2 ? 3 : 20), inner = rnd() % 3 ? between(1, 20) : between(1, 300),
                  len = between(1, rnd() % 2 ? 6 : 200);
    int64_t n = between(0, limit / (outer * inner) + 1);
    const cj_dtype t = (cj_dtype)between(1, CJ_DTYPES - 2);
    const int e = size_of[t];
    buffer x = make(outer * len * inner, t), index = make(outer * n * inner, CJ_I64), y = make(outer * n * inner, t),
           g = make(outer * n * inner, t);
    int64_t *ix = index.p;
    fill_random(&x, t, outer * len * inner, 3, false);
    fill_random(&g, t, outer * n * inner, 3, false);
    for (int64_t i = 0; i < outer * n * inner; i++) ix[i] = between(0, len - 1);
    K->index_select(two, e, x.p, outer, len, inner, ix, n, y.p);
    bool ok = true;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < n; j++)
            ok = ok && memcmp((char *)y.p + (o * n + j) * inner * e, (char *)x.p + (o * len + ix[j]) * inner * e, (size_t)(inner * e)) == 0;
    CHECK(ok, "index_select");
    K->gather(two, e, x.p, outer, len, inner, ix, n, y.p);
    ok = true;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < inner; i++) {
                const int64_t k = (o * n + j) * inner + i;
                ok = ok && memcmp((char *)y.p + k * e, (char *)x.p + ((o * len + ix[k]) * inner + i) * e, (size_t)e) == 0;
            }
    CHECK(ok, "gather");
    for (int scatter = 0; scatter < 2; scatter++) {
        buffer a = make(outer * len * inner, t), b = make(outer * len * inner, t), c = make(outer * len * inner, t);
        memcpy(a.p, x.p, x.bytes), memcpy(b.p, x.p, x.bytes), memcpy(c.p, x.p, x.bytes);
        for (int k = 0; k < 2; k++)
            (scatter ? K->scatter_add : K->index_add)(k ? two : NULL, t, k ? b.p : a.p, outer, len, inner, ix, n, g.p);
        equal_bits(&a, &b);
        for (int64_t o = 0; o < outer; o++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < inner; i++) {
                    const int64_t k = (o * n + j) * inner + i, at = (o * len + ix[scatter ? k : j]) * inner + i;
                    if (t == CJ_U8) ((uint8_t *)c.p)[at] = (uint8_t)(((uint8_t *)c.p)[at] + ((uint8_t *)g.p)[k]);
                    else if (t == CJ_F32) ((float *)c.p)[at] += ((float *)g.p)[k];
                    else put(t, c.p, at, get(t, c.p, at) + get(t, g.p, k));
                }
        for (int64_t i = 0; i < outer * len * inner; i++)
            if (!same(t, a.p, c.p, i)) {
                CHECK(false, "%s of %s: %g, not %g", scatter ? "scatter_add" : "index_add", name_of[t], get(t, a.p, i), get(t, c.p, i));
                break;
            }
        done(&a), done(&b), done(&c);
    }
    const int64_t m = outer * n * inner;
    CHECK(K->index_check(two, ix, m, len) == -1, "index_check of good indices");
    if (m > 0) {
        const int64_t p = between(0, m - 1), q = between(p, m - 1);
        ix[p] = rnd() % 2 ? len : -1;
        ix[q] = INT64_MIN;
        CHECK(K->index_check(two, ix, m, len) == p, "index_check of bad ones");
    }
    done(&x), done(&index), done(&y), done(&g);
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------------------- */

static void test_reduce_once(int64_t limit)
{
    const cj_reduce_code code = (cj_reduce_code)between(0, CJ_REDS - 1);
    const cj_dtype t = (cj_dtype)between(1, CJ_DTYPES - 1);
    const bool arg = code == CJ_RED_ARGMAX || code == CJ_RED_ARGMIN, extremum = arg || code == CJ_RED_MAX || code == CJ_RED_MIN;
    const bool truth = code == CJ_RED_ANY || code == CJ_RED_ALL;
    int64_t d[3];
    for (int k = 0; k < 3; k++) d[k] = between(rnd() % 10 == 0 && !(k == 1 && extremum) ? 0 : 1, rnd() % 2 ? 5 : 70);
    if (rnd() % 4 == 0) d[1] = between(1, limit);
    if (rnd() % 4 == 0) d[2] = between(1, 1200);
    while (d[0] * d[1] * d[2] > limit) d[d[0] > 1 ? 0 : d[2] > 1 && rnd() % 2 ? 2 : 1] /= 2;
    if (extremum && d[1] == 0) d[1] = 1;
    int64_t s[3], n = 1, origin = 0;
    int order[3] = { 0, 1, 2 };
    for (int k = 2; k > 0; k--) {
        const int r = (int)between(0, k), v = order[k];
        if (rnd() % 2) order[k] = order[r], order[r] = v;
    }
    for (int k = 2; k >= 0; k--) {
        const int a = order[k];
        if (rnd() % 8 == 0) n *= 2;
        s[a] = rnd() % 8 ? n : -n;
        if (s[a] < 0 && d[a] > 0) origin += (d[a] - 1) * n;
        n *= d[a] > 0 ? d[a] : 1;
    }
    const cj_dtype yt = arg ? CJ_I64 : truth ? CJ_BOOL : code == CJ_RED_SUM && !is_float(t) ? CJ_I64 : t;
    buffer x = make(n, t), y = make(d[0] * d[2], yt), z = make(d[0] * d[2], yt);
    fill_random(&x, t, n, code == CJ_RED_PROD ? 1.0 : 5.0, false);
    if (extremum && is_float(t) && rnd() % 2)
        for (int64_t i = 0; i < n; i += between(1, 50)) put(t, x.p, i, rnd() % 3 == 0 ? NAN : rnd() % 2 ? INFINITY : -INFINITY);
    if (truth || rnd() % 4 == 0) {
        const double v = code == CJ_RED_ALL ? 1.0 : 0.0;
        for (int64_t i = 0; i < n; i++) put(t, x.p, i, v);
        if (n > 3 && rnd() % 2) put(t, x.p, between(0, n - 1), 1 - v);
    }
    const char *x0 = (char *)x.p + origin * size_of[t];
    const double scale = code == CJ_RED_SUM && is_float(t) && rnd() % 2 ? 1.0 / (double)(d[1] > 0 ? d[1] : 1) : 1.0;
    K->reduce(NULL, code, t, x0, d[0], d[1], d[2], s[0], s[1], s[2], y.p, scale);
    K->reduce(two, code, t, x0, d[0], d[1], d[2], s[0], s[1], s[2], z.p, scale);
    equal_bits(&y, &z);
    for (int64_t o = 0; o < d[0]; o++)
        for (int64_t i = 0; i < d[2]; i++) {
            const int64_t k = o * d[2] + i;
            double f = code == CJ_RED_PROD ? 1 : 0, size = 0;
            uint64_t u = code == CJ_RED_PROD;
            int64_t at = 0;
            bool any = false, all = true;
            for (int64_t l = 0; l < d[1]; l++) {
                const int64_t p = o * s[0] + l * s[1] + i * s[2];
                const double v = get(t, x0, p);
                if (code == CJ_RED_SUM) f += v, size += fabs(v), u += is_float(t) ? 0 : (uint64_t)get_int(t, x0, p);
                if (code == CJ_RED_PROD) f *= v, u *= is_float(t) ? 0 : (uint64_t)get_int(t, x0, p);
                const bool max = code == CJ_RED_MAX || code == CJ_RED_ARGMAX;
                if (extremum && (l == 0 || (max ? v > f : v < f) || (v != v && f == f))) f = v, at = l;
                any |= v != 0;
                all &= v != 0;
            }
            if (arg)
                CHECK(((int64_t *)y.p)[k] == at, "arg of %s [%ld %ld %ld]: %ld, not %ld", name_of[t], d[0], d[1], d[2], ((int64_t *)y.p)[k],
                      at);
            else if (truth) CHECK(((uint8_t *)y.p)[k] == (code == CJ_RED_ANY ? any : all), "any/all of %s", name_of[t]);
            else if (extremum) {
                const double v = get(yt, y.p, k);
                CHECK(v == f || (v != v && f != f), "max/min of %s: %g, not %g", name_of[t], v, f);
            } else if (!is_float(t)) {
                const uint64_t mask = yt == CJ_I64 ? ~(uint64_t)0 : yt == CJ_I32 ? 0xffffffff : 0xff;
                if (yt == CJ_BOOL) u = u != 0;
                CHECK(((uint64_t)get_int(yt, y.p, k) & mask) == (u & mask), "sum/prod of %s", name_of[t]);
            } else {
                const double v = get(yt, y.p, k), got = f * scale;
                const double tolerance = code == CJ_RED_SUM ? size * scale * (t == CJ_F64 ? 4 * eps_of[CJ_F64] : 2 * eps_of[CJ_F32]) +
                                                                  fabs(got) * eps_of[t] + (t == CJ_F16 ? 0x1p-24 : 0)
                                                            : fabs(f) * eps_of[t] * 2 + fabs(f) * (double)d[1] * eps_of[CJ_F64] +
                                                                  (t == CJ_F16 ? 0x1p-24 : 1e-38);
                const bool over = fabs(got) > (t == CJ_F16 ? 65504 : t == CJ_F64 ? DBL_MAX : FLT_MAX);
                CHECK(over || (v != v && got != got) || fabs(v - got) <= tolerance || v == got,
                      "sum/prod of %s [%ld %ld %ld] strides %ld %ld %ld: %.9g, not %.9g", name_of[t], d[0], d[1], d[2], s[0], s[1], s[2], v,
                      got);
            }
        }
    done(&x), done(&y), done(&z);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------- */

static void close_to(const char *what, cj_dtype t, const buffer *y, int64_t i, double want, double scale)
{
    const double v = get(t, y->p, i), unit_error = t == CJ_F64 ? 1e-14 : 1.2e-6;
    CHECK((v != v && want != want) || v == want ||
              fabs(v - want) <=
                  (unit_error + eps_of[t]) * (fabs(want) + scale) + (t == CJ_F16 ? 0x1p-24 : 0x1p-122), /* tiny probabilities are 0 */
          "%s of %s: %.9g, not %.9g", what, name_of[t], v, want);
}

static double lse_of(cj_dtype t, const void *x, int64_t at, int64_t n)
{
    double m = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) m = fmax(m, get(t, x, at + i));
    for (int64_t i = 0; i < n; i++) sum += exp(get(t, x, at + i) - m);
    return m + log(sum);
}

static void test_softmax_once(int64_t limit)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    const cj_dtype t = types[rnd() % 4];
    const int64_t n = rnd() % 3 ? between(1, 40) : between(1, limit), rows = between(0, limit / n < 200 ? limit / n : 200),
                  stride = n + (rnd() % 2 ? between(0, 5) : 0);
    const bool log_form = rnd() % 2;
    buffer x = make(rows * stride, t), y = make(rows * n, t), z = make(rows * n, t), dy = make(rows * n, t), dx = make(rows * n, t);
    fill_random(&x, t, rows * stride, 3, false);
    fill_random(&dy, t, rows * n, 1, false);
    if (rows > 0 && rnd() % 2) put(t, x.p, between(0, rows * stride - 1), 1e4);
    if (rows > 0 && rnd() % 2)
        for (int64_t i = 0; i < rows * stride; i += between(1, 4)) put(t, x.p, i, -INFINITY);
    if (rows > 0 && rnd() % 2)
        for (int64_t i = 0; i < n; i++) put(t, x.p, i, -INFINITY);
    if (rows > 0 && rnd() % 4 == 0) put(t, x.p, between(0, rows * stride - 1), NAN);
    for (int k = 0; k < 2; k++) K->softmax(k ? two : NULL, t, x.p, rows, n, stride, k ? z.p : y.p, log_form);
    equal_bits(&y, &z);
    for (int64_t r = 0; r < rows; r++) {
        bool nan_row = false;
        for (int64_t i = 0; i < n; i++) nan_row |= isnan(get(t, x.p, r * stride + i));
        const double lse = nan_row ? NAN : lse_of(t, x.p, r * stride, n);
        for (int64_t i = 0; i < n; i++) {
            const double d = get(t, x.p, r * stride + i) - lse;
            if (lse != lse || isinf(lse))
                CHECK(isnan(get(t, y.p, r * n + i)), "softmax of a row of -inf or with NaN: %g", get(t, y.p, r * n + i));
            else
                close_to(log_form ? "log_softmax" : "softmax", t, &y, r * n + i, log_form ? d : exp(d),
                         log_form   ? 1
                         : d > -700 ? exp(d) * fabs(d) / 8
                                    : 0);
        }
    }
    /* gradients from an ordinary y */
    fill_random(&x, t, rows * stride, 3, false);
    K->softmax(NULL, t, x.p, rows, n, stride, y.p, log_form);
    for (int k = 0; k < 2; k++) K->softmax_bwd(k ? two : NULL, t, y.p, dy.p, rows, n, k ? z.p : dx.p, log_form);
    equal_bits(&dx, &z);
    for (int64_t r = 0; r < rows; r++) {
        double s = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            const double v = (log_form ? 1 : get(t, y.p, r * n + i)) * get(t, dy.p, r * n + i);
            s += v;
            size += fabs(v);
        }
        for (int64_t i = 0; i < n; i++) {
            const double u = get(t, y.p, r * n + i), g = get(t, dy.p, r * n + i);
            close_to("softmax_bwd", t, &dx, r * n + i, log_form ? g - exp(u) * s : u * (g - s),
                     log_form ? fabs(g) + exp(u) * size : u * (fabs(g) + size));
        }
    }
    done(&x), done(&y), done(&z), done(&dy), done(&dx);
}

static void test_cross_entropy_once(int64_t limit)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    const cj_dtype t = types[rnd() % 4], st = t == CJ_F64 ? CJ_F64 : CJ_F32;
    const int64_t n = rnd() % 3 ? between(1, 40) : between(1, limit), rows = between(1, limit / n < 200 ? limit / n + 1 : 200),
                  stride = n + (rnd() % 2 ? 3 : 0);
    const double smooth = rnd() % 2 ? 0 : 0.1;
    const int64_t ignore = rnd() % 2 ? -100 : 0, s_g = rnd() % 2;
    buffer x = make(rows * stride, t), target = make(rows, CJ_I64), loss = make(rows, t), lse = make(rows, st), dx = make(rows * n, t),
           dz = make(rows * n, t), g = make(rows, t);
    int64_t *c = target.p;
    fill_random(&x, t, rows * stride, rnd() % 2 ? 3 : 100, false);
    fill_random(&g, t, rows, 1, false);
    if (rnd() % 3 == 0 && smooth == 0)
        for (int64_t i = 0; i < rows * stride; i += between(1, 4)) put(t, x.p, i, -INFINITY);
    for (int64_t r = 0; r < rows; r++) c[r] = rnd() % 8 == 0 ? ignore : between(0, n - 1);
    for (int64_t r = 0; r < rows; r++) /* a target that is not masked, so that rows stay finite */
        if (c[r] >= 0) put(t, x.p, r * stride + c[r], 1.5);
    K->cross_entropy(two, t, x.p, rows, n, stride, c, ignore, smooth, loss.p, lse.p);
    for (int k = 0; k < 2; k++)
        K->cross_entropy_bwd(k ? two : NULL, t, x.p, rows, n, stride, c, ignore, smooth, lse.p, g.p, s_g, k ? dz.p : dx.p);
    equal_bits(&dx, &dz);
    for (int64_t r = 0; r < rows; r++) {
        const double l = lse_of(t, x.p, r * stride, n), gr = get(t, g.p, s_g * r);
        double mean = 0;
        for (int64_t i = 0; i < n; i++) mean += get(t, x.p, r * stride + i) / (double)n;
        if (c[r] == ignore) CHECK(get(t, loss.p, r) == 0, "ignored row: %g", get(t, loss.p, r));
        else
            close_to("cross_entropy", t, &loss, r, l - (1 - smooth) * get(t, x.p, r * stride + c[r]) - (smooth > 0 ? smooth * mean : 0),
                     fabs(l));
        if (c[r] >= 0) close_to("lse", st, &lse, r, l, 0);
        for (int64_t i = 0; i < n; i++) {
            const double p = exp(get(t, x.p, r * stride + i) - l),
                         want = c[r] == ignore ? 0 : gr * (p - (i == c[r] ? 1 - smooth : 0) - smooth / (double)n);
            const double far = p > 0 ? fabs(l) + fabs(get(t, x.p, r * stride + i)) : 0; /* x - lse rounds, exp makes that relative */
            close_to("cross_entropy_bwd", t, &dx, r * n + i, want, fabs(gr) * (p * (1 + far / 8) + (i == c[r])));
        }
    }
    done(&x), done(&target), done(&loss), done(&lse), done(&dx), done(&dz), done(&g);
}

static void test_layer_norm_once(int64_t limit)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    const cj_dtype t = types[rnd() % 4], st = t == CJ_F64 ? CJ_F64 : CJ_F32;
    const int64_t n = rnd() % 2 ? between(2, 40) : between(2, limit < 6000 ? limit : 6000),
                  rows = between(1, limit / n < 400 ? limit / n + 1 : 400), stride = n + (rnd() % 2 ? 3 : 0);
    const double eps = 1e-5, offset = rnd() % 2 ? 0 : 30;
    buffer x = make(rows * stride, t), w = make(n, t), b = make(n, t), y = make(rows * n, t), mean = make(rows, st), rstd = make(rows, st),
           dy = make(rows * n, t);
    buffer dx = make(rows * n, t), dw = make(n, t), db = make(n, t), dx2 = make(rows * n, t), dw2 = make(n, t), db2 = make(n, t);
    const bool has_w = rnd() % 4, has_b = rnd() % 4;
    for (int64_t i = 0; i < rows * stride; i++) put(t, x.p, i, gauss() * 2 + offset);
    fill_random(&w, t, n, 1, false), fill_random(&b, t, n, 1, false), fill_random(&dy, t, rows * n, 1, false);
    K->layer_norm(two, t, x.p, rows, n, stride, has_w ? w.p : NULL, has_b ? b.p : NULL, eps, y.p, mean.p, rstd.p);
    const size_t bytes = K->layer_norm_bwd_scratch(t, rows, n);
    buffer scratch = make((int64_t)bytes, CJ_U8);
    K->layer_norm_bwd(NULL, t, x.p, dy.p, has_w ? w.p : NULL, mean.p, rstd.p, rows, n, stride, dx.p, dw.p, db.p, scratch.p);
    K->layer_norm_bwd(two, t, x.p, dy.p, has_w ? w.p : NULL, mean.p, rstd.p, rows, n, stride, dx2.p, dw2.p, db2.p, scratch.p);
    equal_bits(&dx, &dx2), equal_bits(&dw, &dw2), equal_bits(&db, &db2);
    double *sw = calloc((size_t)n, sizeof *sw), *sb = calloc((size_t)n, sizeof *sb), *aw = calloc((size_t)n, sizeof *aw);
    for (int64_t r = 0; r < rows; r++) {
        double m = 0, v = 0, c1 = 0, c2 = 0, a1 = 0;
        for (int64_t i = 0; i < n; i++) m += get(t, x.p, r * stride + i) / (double)n;
        for (int64_t i = 0; i < n; i++) v += pow(get(t, x.p, r * stride + i) - m, 2) / (double)n;
        const double s = 1 / sqrt(v + eps), slack = 1 + fabs(m) * s; /* the saved mean is rounded */
        for (int64_t i = 0; i < n; i++) {
            const double h = (get(t, x.p, r * stride + i) - m) * s, d = get(t, dy.p, r * n + i), g = d * (has_w ? get(t, w.p, i) : 1);
            close_to("layer_norm", t, &y, r * n + i, h * (has_w ? get(t, w.p, i) : 1) + (has_b ? get(t, b.p, i) : 0),
                     (fabs(h) + slack) * (has_w ? fabs(get(t, w.p, i)) : 1) + 1);
            c1 += g / (double)n;
            c2 += g * h / (double)n;
            a1 += fabs(g) * (1 + fabs(h)) / (double)n;
            sw[i] += d * h;
            sb[i] += d;
            aw[i] += fabs(d) * (fabs(h) + slack);
        }
        for (int64_t i = 0; i < n; i++) {
            const double h = (get(t, x.p, r * stride + i) - m) * s, d = get(t, dy.p, r * n + i), g = d * (has_w ? get(t, w.p, i) : 1);
            close_to("layer_norm_bwd dx", t, &dx, r * n + i, s * (g - c1 - h * c2), 3 * s * (fabs(g) + (1 + fabs(h)) * a1) * slack);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        close_to("layer_norm_bwd dw", t, &dw, i, sw[i], aw[i]);
        close_to("layer_norm_bwd db", t, &db, i, sb[i], aw[i] + 1);
    }
    free(sw), free(sb), free(aw);
    done(&x), done(&w), done(&b), done(&y), done(&mean), done(&rstd), done(&dy), done(&dx), done(&dw), done(&db), done(&dx2), done(&dw2),
        done(&db2), done(&scratch);
}

/* Results large enough to bypass the cache must equal those of the rows one by one. */
static void test_streamed(void)
{
    const int64_t n = 1027, rows = 4200;
    buffer x = make(rows * n, CJ_F32), dy = make(rows * n, CJ_F32), y = make(rows * n, CJ_F32), a = make(rows, CJ_F32),
           b = make(rows, CJ_F32), target = make(rows, CJ_I64);
    buffer z = make(n, CJ_F32), c = make(1, CJ_F32), d = make(1, CJ_F32);
    float *px = x.p, *pdy = dy.p, *py = y.p, *pa = a.p, *pb = b.p;
    int64_t *t = target.p;
    K->random(two, CJ_DRAW_NORMAL, CJ_F32, rnd(), 0, 0, 0, 3, rows * n, px);
    K->random(two, CJ_DRAW_NORMAL, CJ_F32, rnd(), 0, 0, 0, 1, rows * n, pdy);
    for (int64_t r = 0; r < rows; r++) t[r] = between(0, n - 1);
    for (int kind = 0; kind < 7; kind++) {
        switch (kind) {
        case 0: K->softmax(two, CJ_F32, px, rows, n, n, py, false); break;
        case 1: K->softmax(two, CJ_F32, px, rows, n, n, py, true); break;
        case 2: K->softmax_bwd(two, CJ_F32, px, pdy, rows, n, py, false); break;
        case 3: K->layer_norm(two, CJ_F32, px, rows, n, n, NULL, NULL, 1e-5, py, pa, pb); break;
        case 4: K->layer_norm_bwd(two, CJ_F32, px, pdy, NULL, pa, pb, rows, n, n, py, NULL, NULL, NULL); break;
        case 5:
            K->cross_entropy(two, CJ_F32, px, rows, n, n, t, -100, 0.1, pb, pa);
            K->cross_entropy_bwd(two, CJ_F32, px, rows, n, n, t, -100, 0.1, pa, pdy, 1, py);
            break;
        default: K->copy(two, 2, (int64_t[]){ rows, n }, CJ_F32, px, (int64_t[]){ n, 1 }, CJ_F32, py, (int64_t[]){ n, 1 });
        }
        for (int64_t r = 0; r < rows; r += r < 40 ? 1 : 37) {
            const float *xr = px + r * n, *dr = pdy + r * n;
            switch (kind) {
            case 0: K->softmax(NULL, CJ_F32, xr, 1, n, n, z.p, false); break;
            case 1: K->softmax(NULL, CJ_F32, xr, 1, n, n, z.p, true); break;
            case 2: K->softmax_bwd(NULL, CJ_F32, xr, dr, 1, n, z.p, false); break;
            case 3: K->layer_norm(NULL, CJ_F32, xr, 1, n, n, NULL, NULL, 1e-5, z.p, c.p, d.p); break;
            case 4: K->layer_norm_bwd(NULL, CJ_F32, xr, dr, NULL, pa + r, pb + r, 1, n, n, z.p, NULL, NULL, NULL); break;
            case 5: K->cross_entropy_bwd(NULL, CJ_F32, xr, 1, n, n, t + r, -100, 0.1, pa + r, dr - r * n + r, 0, z.p); break;
            default: memcpy(z.p, xr, (size_t)n * 4);
            }
            CHECK(memcmp(z.p, py + r * n, (size_t)n * 4) == 0, "streamed kind %d differs in row %ld", kind, r);
        }
    }
    done(&x), done(&dy), done(&y), done(&a), done(&b), done(&target), done(&z), done(&c), done(&d);
}

/* ---- random draws ----------------------------------------------------------------------------------------------------------------------- */

static void test_philox(void)
{
    static const struct {
        uint32_t c[4], k[2], out[4];
    } known[] = { /* Random123, kat_vectors */
                  { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
                  { { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
                  { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
                    { 0xa4093822, 0x299f31d0 },
                    { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } }
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        cj_philox4x32_10(known[i].c, known[i].k, out);
        CHECK(memcmp(out, known[i].out, sizeof out) == 0, "philox vector %d", i);
    }
    for (int i = 0; i < 20000; i++) {
        const uint32_t w = (uint32_t)rnd();
        const uint64_t v = rnd();
        float c, s;
        double cd, sd;
        const float u = cj_philox_open_f32(w);
        const double ud = cj_philox_open_f64(v);
        CHECK(fabs(cj_philox_log_f32(u) - log(u)) <= 2e-7 * fabs(log(u)), "log f32 of %g", u);
        CHECK(fabs(cj_philox_log_f64(ud) - log(ud)) <= 5e-16 * fabs(log(ud)), "log f64 of %g", ud);
        cj_philox_sincos_f32(w, &c, &s);
        const double a = 6.28318530717958647692 * (double)w * 0x1p-32;
        CHECK(fabs(c - cos(a)) < 1.5e-7 && fabs(s - sin(a)) < 1.5e-7, "sincos f32 of %08x", w);
        cj_philox_sincos_f64(v, &cd, &sd);
        const double b = 6.28318530717958647692 * (double)v * 0x1p-64;
        CHECK(fabs(cd - cos(b)) < 2e-15 && fabs(sd - sin(b)) < 2e-15, "sincos f64 of %016lx", v);
        const uint64_t range = rnd() >> between(0, 62);
        CHECK(cj_philox_below(v, range) == (uint64_t)((unsigned __int128)v * range >> 64), "below");
        if (range < (uint64_t)1 << 32) CHECK(cj_philox_below(v, range) == cj_philox_below32(v, (uint32_t)range), "below32");
    }
}

/* Element i from the definitions, one at a time. */
static double draw_one(cj_draw kind, cj_dtype t, uint64_t seed, uint64_t stream, uint64_t call, double a, double b, int64_t i)
{
    uint32_t key[2], w[4];
    cj_philox_key(seed, stream, key);
    const bool wide = kind == CJ_DRAW_INTEGER || (t == CJ_F64 && kind != CJ_DRAW_BERNOULLI);
    const int per = wide ? 2 : 4, k = (int)(i % per);
    cj_philox_block(key, call, (uint64_t)(i / per), w);
    const uint64_t v = cj_philox_word64(w[2 * k & 3], w[(2 * k + 1) & 3]);
    float f[2];
    double d[2];
    switch (kind) {
    case CJ_DRAW_BERNOULLI: return cj_philox_bernoulli(w[k], cj_philox_threshold(a));
    case CJ_DRAW_INTEGER: return a + (double)cj_philox_below(v, (uint64_t)(b - a));
    case CJ_DRAW_NORMAL:
        if (wide) cj_philox_normal_f64(cj_philox_word64(w[0], w[1]), cj_philox_word64(w[2], w[3]), a, b, d);
        else cj_philox_normal_f32(w[k & 2], w[(k & 2) + 1], (float)a, (float)b, f);
        return wide ? d[k & 1] : (double)f[k & 1];
    case CJ_DRAW_EXPONENTIAL: return wide ? cj_philox_exponential_f64(v, a) : (double)cj_philox_exponential_f32(w[k], (float)a);
    default:
        if (wide) return cj_philox_uniform_f64(v, a, b - a, nextafter(b, -INFINITY));
        float top = nextafterf((float)b, -INFINITY);
        if (t == CJ_BF16 || t == CJ_F16) { /* b is a number of the type in this test */
            uint16_t h = (uint16_t)(nearest16(t, b) - 1);
            top = (float)(t == CJ_F16 ? half_value(h) : bf16_value(h));
        }
        return cj_philox_uniform_f32(w[k], (float)a, (float)(b - a), top);
    }
}

static void test_random_once(int64_t limit)
{
    const cj_draw kind = (cj_draw)between(0, 4);
    const cj_dtype t = kind == CJ_DRAW_INTEGER || kind == CJ_DRAW_BERNOULLI ? (cj_dtype)between(1, CJ_DTYPES - 1) : (cj_dtype)between(1, 4);
    const int64_t n = between(0, limit);
    const uint64_t seed = rnd(), stream = rnd() % 5, call = rnd() % 3 ? rnd() % 100 : rnd();
    double a = kind == CJ_DRAW_BERNOULLI     ? (double)between(0, 4) / 4
               : kind == CJ_DRAW_EXPONENTIAL ? 2
               : kind == CJ_DRAW_INTEGER     ? 3
                                             : -1,
           b = 2;
    if (kind == CJ_DRAW_INTEGER) b = t == CJ_BOOL ? 4 : rnd() % 2 ? 103 : 250;
    if (kind == CJ_DRAW_INTEGER && t == CJ_I64 && rnd() % 2) b = 0x1p52;
    buffer x = make(n, t), y = make(n, t), z = make(n, t);
    K->random(NULL, kind, t, seed, stream, call, a, b, n, x.p);
    K->random(two, kind, t, seed, stream, call, a, b, n, y.p);
    equal_bits(&x, &y);
    const int64_t part = between(0, n);
    K->random(two, kind, t, seed, stream, call, a, b, part, z.p);
    CHECK(memcmp(x.p, z.p, (size_t)(part * size_of[t])) == 0, "a shorter draw differs");
    for (int64_t i = 0; i < n; i++) {
        const double want = draw_one(kind, t, seed, stream, call, a, b, i);
        put(t, z.p, i, want);
        if (!same(t, x.p, z.p, i)) {
            CHECK(false, "draw %d of %s, element %ld: %.17g, not %.17g", (int)kind, name_of[t], i, get(t, x.p, i), want);
            break;
        }
        if (kind == CJ_DRAW_UNIFORM) CHECK(get(t, x.p, i) >= a && get(t, x.p, i) < b, "uniform out of its interval");
    }
    done(&x), done(&y), done(&z);
}

static void test_moments(void)
{
    enum { N = 1 << 20 };
    buffer x = make(N, CJ_F32);
    const float *p = x.p;
    K->random(two, CJ_DRAW_NORMAL, CJ_F32, 7, 1, 0, 0, 1, N, x.p);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0;
    for (int i = 0; i < N; i++) {
        const double v = p[i];
        m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v;
        if (i) lag += v * p[i - 1];
    }
    CHECK(fabs(m1 / N) < 5e-3 && fabs(m2 / N - 1) < 8e-3 && fabs(m3 / N) < 2e-2 && fabs(m4 / N - 3) < 6e-2 && fabs(lag / N) < 5e-3,
          "normal moments %g %g %g %g lag %g", m1 / N, m2 / N, m3 / N, m4 / N, lag / N);
    K->random(two, CJ_DRAW_EXPONENTIAL, CJ_F32, 7, 1, 1, 2, 0, N, x.p);
    for (int i = m1 = m2 = 0; i < N; i++) m1 += p[i], m2 += (double)p[i] * p[i];
    CHECK(fabs(m1 / N - 0.5) < 3e-3 && fabs(m2 / N - 0.5) < 6e-3, "exponential moments %g %g", m1 / N, m2 / N);
    K->random(two, CJ_DRAW_UNIFORM, CJ_F32, 7, 1, 2, 0, 1, N, x.p);
    for (int i = m1 = m2 = 0; i < N; i++) m1 += p[i], m2 += (double)p[i] * p[i];
    CHECK(fabs(m1 / N - 0.5) < 2e-3 && fabs(m2 / N - 1.0 / 3) < 2e-3, "uniform moments %g %g", m1 / N, m2 / N);
    K->random(two, CJ_DRAW_BERNOULLI, CJ_F32, 7, 1, 3, 0.3, 0, N, x.p);
    for (int i = m1 = 0; i < N; i++) m1 += p[i];
    CHECK(fabs(m1 / N - 0.3) < 3e-3, "bernoulli mean %g", m1 / N);
    done(&x);
}

/* ---- updates ---------------------------------------------------------------------------------------------------------------------------- */

static void test_update_once(int64_t limit)
{
    enum { SLICES = 7 };
    const cj_dtype t = rnd() % 3 ? CJ_F32 : CJ_F64;
    const bool adam = rnd() % 2;
    cj_update_slice s[2][SLICES];
    buffer b[4][2][SLICES], first[4][SLICES];
    cj_update_opts o = { .lr = 0.1,
                         .momentum = rnd() % 2 ? 0.9 : 0,
                         .dampening = rnd() % 2 ? 0.5 : 0,
                         .weight_decay = rnd() % 2 ? 0.01 : 0,
                         .beta1 = rnd() % 4 ? 0.9 : 0.3,
                         .beta2 = 0.999,
                         .eps = 1e-8,
                         .bias1 = 1 - 0.9 * 0.9,
                         .bias2 = 1 - 0.999 * 0.999,
                         .grad_scale = rnd() % 2 ? 1 : 0.5,
                         .nesterov = rnd() % 2,
                         .decoupled = rnd() % 2,
                         .first = rnd() % 2 };
    for (int k = 0; k < SLICES; k++) {
        const int64_t n = rnd() % 5 == 0 ? 0 : between(1, rnd() % 3 ? 50 : limit);
        for (int a = 0; a < 4; a++) {
            first[a][k] = make(n, t);
            for (int64_t i = 0; i < n; i++) put(t, first[a][k].p, i, a == 3 ? fabs(gauss()) : gauss());
            for (int c = 0; c < 2; c++) {
                b[a][c][k] = make(n, t);
                memcpy(b[a][c][k].p, first[a][k].p, first[a][k].bytes);
            }
        }
        for (int c = 0; c < 2; c++)
            s[c][k] = (cj_update_slice){ .p = b[0][c][k].p,
                                         .g = b[1][c][k].p,
                                         .m = adam || o.momentum != 0 ? b[2][c][k].p : NULL,
                                         .v = adam ? b[3][c][k].p : NULL,
                                         .n = n };
    }
    for (int c = 0; c < 2; c++) (adam ? K->adam : K->sgd)(c ? two : NULL, t, s[c], SLICES, &o);
    const double q = K->sumsq(NULL, t, s[0], SLICES), q2 = K->sumsq(two, t, s[0], SLICES);
    double want_q = 0;
    CHECK(q == q2, "sumsq: one and two threads differ");
    for (int k = 0; k < SLICES; k++) {
        for (int64_t i = 0; i < s[0][k].n; i++) {
            double p = get(t, first[0][k].p, i), g = get(t, first[1][k].p, i), m = get(t, first[2][k].p, i), v = get(t, first[3][k].p, i);
            want_q += g * g;
            const double p0 = fabs(p);
            g *= o.grad_scale;
            if (adam) {
                if (o.decoupled) p *= 1 - o.lr * o.weight_decay;
                else g += o.weight_decay * p;
                m = o.beta1 * m + (1 - o.beta1) * g;
                v = o.beta2 * v + (1 - o.beta2) * g * g;
                p -= o.lr / o.bias1 * m / (sqrt(v) / sqrt(o.bias2) + o.eps);
                close_to("adam m", t, &b[2][0][k], i, m, fabs(g) + 1);
                close_to("adam v", t, &b[3][0][k], i, v, 0);
                close_to("adam p", t, &b[0][0][k], i, p, p0 + fabs(p) + fabs(g) + 1);
            } else {
                g += o.weight_decay * p;
                if (o.momentum != 0) {
                    m = o.first ? g : o.momentum * m + (1 - o.dampening) * g;
                    g = o.nesterov ? g + o.momentum * m : m;
                    close_to("sgd m", t, &b[2][0][k], i, m, 3);
                }
                close_to("sgd p", t, &b[0][0][k], i, p - o.lr * g, p0 + 1);
            }
        }
        for (int a = 0; a < 4; a++) {
            equal_bits(&b[a][0][k], &b[a][1][k]);
            done(&b[a][0][k]), done(&b[a][1][k]), done(&first[a][k]);
        }
    }
    CHECK(fabs(q - want_q) <= 1e-12 * want_q, "sumsq %g, not %g", q, want_q);
}

/* More elements than the table of partial sums has room for at the smallest chunk: 256 chunks of 16384, and one. */
static void test_sumsq_large(void)
{
    const int64_t n = 256 * 16384 + 1;
    buffer g = make(n, CJ_F32);
    for (int64_t i = 0; i < n; i++) ((float *)g.p)[i] = (float)(i % 3);
    const cj_update_slice s = { .g = g.p, .n = n };
    const double q = K->sumsq(NULL, CJ_F32, &s, 1), want = (double)(n / 3) * 5 + (n % 3 == 2); /* 0, 1, 4, 0, 1, 4 … */
    CHECK(q == want && K->sumsq(two, CJ_F32, &s, 1) == want, "sumsq of %lld: %.17g, not %.17g", (long long)n, q, want);
    done(&g);
}

/* ---- main ------------------------------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261115;
    const int rounds = argc > 2 ? atoi(argv[2]) : 1;
    printf("seed %llu\n", (unsigned long long)seed);
    two = cj__pool_new(2);
    for (int level = 0; level < CJ_ISA_LEVELS; level++) {
        K = cj__cpu_kernels((cj_isa)level);
        if (!K) continue;
        state = seed;
        test_philox();
        test_moments();
        test_streamed();
        test_sumsq_large();
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < 3000; i++) test_copy_once(i % 50 == 0 ? 200000 : 2000);
            for (int i = 0; i < 3; i++) test_fill();
            for (int i = 0; i < 150; i++) test_index_once(i % 10 == 0 ? 100000 : 3000);
            for (int i = 0; i < 3000; i++) test_reduce_once(i % 50 == 0 ? 300000 : 3000);
            for (int i = 0; i < 300; i++) test_softmax_once(i % 20 == 0 ? 60000 : 2000);
            for (int i = 0; i < 300; i++) test_cross_entropy_once(i % 20 == 0 ? 60000 : 2000);
            for (int i = 0; i < 150; i++) test_layer_norm_once(i % 20 == 0 ? 60000 : 2000);
            for (int i = 0; i < 200; i++) test_random_once(i % 20 == 0 ? 60000 : 600);
            for (int i = 0; i < 100; i++) test_update_once(i % 10 == 0 ? 40000 : 400);
        }
        printf("%s: %d failures\n", K->name, failures);
    }
    cj__pool_free(two);
    return failures != 0;
}
