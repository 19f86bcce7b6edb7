/* Scans against plain loops, their accuracy, and derivatives where there are zeros. */
#include "support.h"

typedef cj_tensor *scan_fn(cj_tensor *x, int axis);
static cj_tensor *cummax_values(cj_tensor *x, int axis) { return cj_cummax(x, axis).values; }
static cj_tensor *cummin_values(cj_tensor *x, int axis) { return cj_cummin(x, axis).values; }
static cj_tensor *cumsum(cj_tensor *x, int axis) { return cj_cumsum(x, axis); }
static cj_tensor *cumprod(cj_tensor *x, int axis) { return cj_cumprod(x, axis); }
static cj_tensor *logcumsumexp(cj_tensor *x, int axis) { return cj_logcumsumexp(x, axis); }

static double join(int what, double a, double b)
{
    switch (what) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return log(exp(a) + exp(b));
    case 3: return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    default: return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    }
}

static void test_against_loops(void **state)
{
    (void)state;
    static scan_fn *const fns[] = { cumsum, cumprod, logcumsumexp, cummax_values, cummin_values };
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16, CJ_I64, CJ_I32, CJ_U8, CJ_BOOL };
    const int64_t shapes[][3] = { { 2, 7, 3 }, { 1, 2500, 1 }, { 3, 1, 4 }, { 2, 40, 300 }, { 1, 140000, 1 }, { 2, 1500, 5 }, { 2, 0, 3 } };
    for (int threads = 1; threads <= 2; threads++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 3 });
        for (int f = 0; f < 5; f++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                    if (f == 2 && (!cj_dtype_is_float(types[t]) || shapes[i][1] > 3000)) continue;
                    cj_scope s = cj_scope_open(c);
                    cj_shape shape = CJ_SHAPE(shapes[i][0], shapes[i][1], shapes[i][2]);
                    cj_tensor *x = cj_cast(cj_randint(c, f == 1 ? 1 : -2, f == 1 ? 2 : 3, shape), types[t]);
                    if (types[t] == CJ_U8 || types[t] == CJ_BOOL) x = cj_cast(cj_randint(c, f == 1, 2, shape), types[t]);
                    cj_tensor *y = fns[f](x, 1);
                    assert_ok(c);
                    bool wide = f < 2 && !cj_dtype_is_float(types[t]);
                    assert_int_equal(cj_dtype_of(y), wide ? CJ_I64 : types[t]);
                    double *v = values_of(x), *got = values_of(y);
                    int64_t len = shape.dim[1], inner = shape.dim[2];
                    double rounding = types[t] == CJ_BF16 ? 0x1p-8 : types[t] == CJ_F16 ? 0x1p-11 : types[t] == CJ_F32 ? 0x1p-24 : 0;
                    for (int64_t o = 0; o < shape.dim[0]; o++)
                        for (int64_t k = 0; k < inner; k++)
                            for (int64_t r = 0; r < len; r++) {
                                int64_t at = (o * len + r) * inner + k;
                                double want = r ? join(f, v[at - inner], v[at]) : v[at];
                                v[at] = want; /* the scan so far */
                                assert_near(got[at], want, fabs(want) * rounding + (f == 2 ? 1e-12 * fabs(want) + 1e-12 : 0));
                            }
                    free(v), free(got);
                    cj_scope_close(s);
                }
        cj_ctx_free(c);
    }
}

/* A million times 0.1f: the running sum is the exact one rounded, far beyond what f32 additions could keep. */
static void test_accuracy(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    enum { N = 1000000 };
    double *y = values_of(cj_cumsum(cj_full(c, 0.1, CJ_SHAPE(N), CJ_F32), 0));
    for (int64_t i = 0; i < N; i++) {
        double exact = (double)0.1f * (double)(i + 1);
        if (fabs(y[i] - exact) > exact * 0x1p-24 * 1.001) fail_msg("sum of %lld: %.9g, exactly %.9g", (long long)i + 1, y[i], exact);
    }
    free(y);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* Once NaN, always NaN; the place of an extremum is where it was seen last. */
static void test_extrema(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_ordered y = cj_cummax(F64(c, CJ_SHAPE(7), 1, 3, 2, 3, NAN, 5, NAN), 0);
    const double at[] = { 0, 1, 1, 3, 4, 4, 6 };
    for (int i = 0; i < 7; i++) assert_near(value_at(y.indices, i), at[i], 0);
    for (int i = 0; i < 7; i++) assert_true(isnan(value_at(y.values, i)) == (i >= 4));
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(5), 2, 1, 4, 1, 0)), *g;
    assert_true(cj_grad(cj_cummin(x, 0).values, &x, 1, &g, .seed = F64(c, CJ_SHAPE(5), 1, 2, 3, 4, 5)));
    assert_near(distance(g, F64(c, CJ_SHAPE(5), 1, 5, 0, 4, 5)), 0, 0); /* the second 1 takes over from the first */
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* y_k = x_0 … x_k with zeros in it: the gradient is the sum over i >= k of g_i times the product of the others. */
static cj_tensor *weighted_product(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)n;
    return cj_sum(cj_mul(cj_cumprod(x[0], 0), user));
}
static void test_products_with_zeros(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    static const double cases[][5] = { { 2, 3, 0.5, -1, 4 }, { 2, 0, 3, 5, -1 }, { 0, 2, 3, 0, 4 }, { 1, 2, 0, 0, 3 }, { 0, 0, 0, 1, 1 } };
    for (int k = 0; k < 5; k++) {
        cj_scope s = cj_scope_open(c);
        const double *x = cases[k], w[5] = { 1, -2, 3, 0.5, 2 };
        cj_tensor *in = cj_require_grad(f64(c, x, CJ_SHAPE(5))), *g, *h[1], *t[1] = { F64(c, CJ_SHAPE(5), 1, 2, -1, 3, 1) };
        assert_true(cj_grad(cj_cumprod(in, 0), &in, 1, &g, .seed = f64(c, w, CJ_SHAPE(5))));
        assert_true((cj_hvp)(c, weighted_product, f64(c, w, CJ_SHAPE(5)), &in, t, 1, h));
        for (int a = 0; a < 5; a++) {
            double want = 0, second = 0;
            const double tangent[5] = { 1, 2, -1, 3, 1 };
            for (int i = a; i < 5; i++) {
                double product = 1;
                for (int j = 0; j <= i; j++) product *= j == a ? 1 : x[j];
                want += w[i] * product;
                for (int b = 0; b <= i; b++) {
                    double rest = 1;
                    for (int j = 0; j <= i; j++) rest *= j == a || j == b ? 1 : x[j];
                    if (b != a) second += w[i] * rest * tangent[b];
                }
            }
            assert_near(value_at(g, a), want, 1e-12);
            assert_near(value_at(h[0], a), second, 1e-12);
        }
        cj_scope_close(s);
    }
    cj_ctx_free(c);
}

static void test_log_sums_far_out(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(5), -INFINITY, 1000, 1000, -1000, 2000)), *g;
    cj_tensor *y = cj_logcumsumexp(x, 0);
    assert_near(distance(cj_slice(y, 0, 1, CJ_END, 1), F64(c, CJ_SHAPE(4), 1000, 1000 + log(2), 1000 + log(2), 2000)), 0, 1e-12);
    assert_true(value_at(y, 0) == -INFINITY);
    assert_true(cj_grad(y, &x, 1, &g, .seed = F64(c, CJ_SHAPE(5), 0, 1, 1, 1, 1)));
    assert_near(distance(g, F64(c, CJ_SHAPE(5), 0, 2, 1, 0, 1)), 0, 1e-12); /* 1 + 1/2 + 1/2, 1/2 + 1/2 */
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_refused(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *i = cj_zeros(c, CJ_SHAPE(3), CJ_I64);
    assert_true(cj_is_poison(cj_logcumsumexp(i, 0)));
    assert_error(c, CJ_EDTYPE, "logcumsumexp: the input is i64, a float type expected");
    cj_clear(c);
    assert_true(cj_is_poison(cj_cumsum(i, 1)));
    assert_error(c, CJ_EINDEX, "cumsum: axis 1");
    cj_clear(c);
    assert_true(cj_is_poison(cj_cummax(i, -2).values));
    assert_error(c, CJ_EINDEX, "cummax: axis -2");
    cj_clear(c);
    assert_null(cj_cumsum(NULL, 0));
    assert_null(cj_cummin(NULL, 0).values);
    cj_scope_close(s);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),       cmocka_unit_test(test_accuracy),         cmocka_unit_test(test_extrema),
        cmocka_unit_test(test_products_with_zeros), cmocka_unit_test(test_log_sums_far_out), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
