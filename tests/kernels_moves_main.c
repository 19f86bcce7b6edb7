/* Checks copies, indexing and reductions of every instruction-set level of this machine against obvious loops.
 *
 *   kernels_moves_main [seed [rounds]]      exit code 0: all equal
 */
#include "kernels_check.h"

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

/* ---- main ------------------------------------------------------------------------------------------------------------------------------- */

static void all(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 3000; i++) test_copy_once(i % 50 == 0 ? 200000 : 2000);
        for (int i = 0; i < 3; i++) test_fill();
        for (int i = 0; i < 150; i++) test_index_once(i % 10 == 0 ? 100000 : 3000);
        for (int i = 0; i < 3000; i++) test_reduce_once(i % 50 == 0 ? 300000 : 3000);
    }
}

int main(int argc, char **argv) { return every_level(argc, argv, all); }
