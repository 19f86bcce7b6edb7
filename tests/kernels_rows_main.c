/* Checks row kernels, random draws and updates of every instruction-set level of this machine against obvious loops.
 *
 *   kernels_rows_main [seed [rounds]]      exit code 0: all equal
 */
#include "core/philox.h"
#include "kernels_check.h"

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

static void all(int rounds)
{
    test_philox();
    test_moments();
    test_streamed();
    test_sumsq_large();
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 300; i++) test_softmax_once(i % 20 == 0 ? 60000 : 2000);
        for (int i = 0; i < 300; i++) test_cross_entropy_once(i % 20 == 0 ? 60000 : 2000);
        for (int i = 0; i < 150; i++) test_layer_norm_once(i % 20 == 0 ? 60000 : 2000);
        for (int i = 0; i < 200; i++) test_random_once(i % 20 == 0 ? 60000 : 600);
        for (int i = 0; i < 100; i++) test_update_once(i % 10 == 0 ? 40000 : 400);
    }
}

int main(int argc, char **argv) { return every_level(argc, argv, all); }
