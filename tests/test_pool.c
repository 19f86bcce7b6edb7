/* Pooling against plain loops, by its definitions at the borders, and its derivatives by differences. */
#include "support.h"

typedef struct windows {
    int nd;
    int64_t planes, in[3], kernel[3], stride[3], pad[3], dilation[3];
    bool ceil_mode;
} windows;

static bool check_layout(cj_ctx *c, windows w, cj_dtype t, bool last)
{
    int64_t out[3], inside = 1, outside = 1, window = 1;
    for (int d = 0; d < 3; d++) {
        int64_t room = w.in[d] + 2 * w.pad[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
        if (room < 0 || 2 * w.pad[d] > w.kernel[d]) return false;
        out[d] = (room + (w.ceil_mode ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
        if (w.ceil_mode && (out[d] - 1) * w.stride[d] >= w.in[d] + w.pad[d]) out[d]--;
        inside *= w.in[d], outside *= out[d], window *= w.kernel[d];
    }
    cj_scope s = cj_scope_open(c);
    cj_shape shape = { .ndim = w.nd + 2, .dim = { last ? 2 : 1, last ? w.planes / 2 : w.planes } };
    cj_pool_opts o = {
        .ceil_mode = w.ceil_mode, .kernels.ndim = w.nd, .strides.ndim = w.nd, .paddings.ndim = w.nd, .dilations.ndim = w.nd
    };
    for (int d = 0; d < w.nd; d++) {
        int at = 3 - w.nd + d;
        shape.dim[2 + d] = w.in[at];
        o.kernels.dim[d] = w.kernel[at], o.strides.dim[d] = w.stride[at], o.paddings.dim[d] = w.pad[at],
        o.dilations.dim[d] = w.dilation[at];
    }
    /* few values, so that there are ties */
    cj_tensor *x = cj_cast(cj_randint(c, -3, 4, shape), t);
    x = cj_require_grad(last ? cj_channels_last(x) : x);
    cj_pooled p = (cj_max_pool)(x, &o);
    o.values_only = true;
    cj_tensor *lean = (cj_max_pool)(x, &o).value;
    assert_null((cj_max_pool)(x, &o).index);
    cj_tensor *mean = (cj_avg_pool)(x, &o), *g[3];
    o.exclude_padding = true;
    cj_tensor *present = (cj_avg_pool)(x, &o);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
    assert_int_equal(cj_numel(p.value), w.planes * outside);
    cj_tensor *seed = cj_cast(cj_randint(c, -2, 3, cj_shape_of(p.value)), t);
    if (last) seed = cj_channels_last(seed);
    assert_true(cj_grad(p.value, &x, 1, &g[0], .seed = seed));
    assert_true(cj_grad(mean, &x, 1, &g[1], .seed = seed));
    assert_true(cj_grad(lean, &x, 1, &g[2], .seed = seed));
    assert_near(distance(lean, p.value), 0, 0);
    double *v = values_of(x), *y = values_of(p.value), *at = values_of(p.index), *m = values_of(mean), *e = values_of(present),
           *u = values_of(seed), *dmax = values_of(g[0]), *dmean = values_of(g[1]), *dlean = values_of(g[2]);
    double *want_max = calloc((size_t)(2 * w.planes * inside), sizeof *want_max), *want_mean = want_max + w.planes * inside;
    double tolerance = t == CJ_F64 ? 1e-13 : t == CJ_F32 ? 1e-6 : t == CJ_BF16 ? 0x1p-7 : 0x1p-10;
    for (int64_t q = 0; q < w.planes * outside; q++) {
        int64_t plane = q / outside, r = q % outside, pos[3] = { r / out[2] / out[1], r / out[2] % out[1], r % out[2] }, first = -1,
                count = 0;
        double best = -INFINITY, sum = 0;
        for (int64_t k = 0; k < window; k++) {
            int64_t kk[3] = { k / w.kernel[2] / w.kernel[1], k / w.kernel[2] % w.kernel[1], k % w.kernel[2] }, i[3];
            bool here = true;
            for (int d = 0; d < 3; d++) i[d] = pos[d] * w.stride[d] - w.pad[d] + kk[d] * w.dilation[d], here &= i[d] >= 0 && i[d] < w.in[d];
            if (!here) continue;
            int64_t place = (i[0] * w.in[1] + i[1]) * w.in[2] + i[2];
            double value = v[plane * inside + place];
            if (first < 0 || value > best) best = value, first = place;
            sum += value;
            count++;
            want_mean[plane * inside + place] += u[q] / (double)window;
        }
        if (first < 0) continue;
        assert_near(y[q], best, 0);
        assert_near(at[q], (double)first, 0);
        assert_near(m[q], sum / (double)window, tolerance * 4);
        assert_near(e[q], sum / (double)count, tolerance * 4);
        want_max[plane * inside + first] += u[q];
    }
    for (int64_t i = 0; i < w.planes * inside; i++) {
        assert_near(dmax[i], want_max[i], 0);
        assert_near(dlean[i], want_max[i], 0);
        assert_near(dmean[i], want_mean[i], tolerance * 8);
    }
    free(v), free(y), free(at), free(m), free(e), free(u), free(dmax), free(dmean), free(dlean), free(want_max);
    cj_scope_close(s);
    return true;
}

/* Row-major; channels-last with few channels and, of the same geometry, with more than a vector. */
static bool check(cj_ctx *c, windows w, cj_dtype t)
{
    if (!check_layout(c, w, t, false)) return false;
    w.planes = 2 * w.planes;
    if (!check_layout(c, w, t, true)) return false;
    w.planes = 2 * 19;
    return check_layout(c, w, t, true);
}

static void all_combinations(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 31 });
    int done = 0;
    for (int64_t k = 1; k <= 3; k++)
        for (int64_t s = 1; s <= 3; s++)
            for (int64_t p = 0; p <= 1; p++)
                for (int64_t d = 1; d <= 2; d++)
                    for (int ceiling = 0; ceiling < 2; ceiling++) {
                        windows one = { 1, 3, { 1, 1, 10 }, { 1, 1, k }, { 1, 1, s }, { 0, 0, p }, { 1, 1, d }, ceiling };
                        windows two = { 2, 2, { 1, 9, 7 }, { 1, 2, k }, { 1, 4 - s, s }, { 0, 1, p }, { 1, d, 1 }, ceiling };
                        done += check(c, one, CJ_F32) + check(c, two, CJ_F32) + check(c, two, CJ_F64);
                    }
    windows three = { 3, 2, { 4, 5, 6 }, { 2, 3, 2 }, { 2, 1, 2 }, { 1, 0, 1 }, { 1, 1, 1 }, false };
    windows wide = { 2, 3, { 1, 5, 1300 }, { 1, 2, 2 }, { 1, 2, 2 }, { 0, 0, 0 }, { 1, 1, 1 }, false };
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        assert_true(check(c, three, (cj_dtype)t));
        assert_true(check(c, wide, (cj_dtype)t));
    }
    assert_true(done > 150);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *max_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n) { return (void)c, (void)n, (cj_max_pool)(in[0], user).value; }
static cj_tensor *lean_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    cj_pool_opts o = *(cj_pool_opts *)user;
    o.values_only = true;
    return (void)c, (void)n, (cj_max_pool)(in[0], &o).value;
}
static cj_tensor *min_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n) { return (void)c, (void)n, (cj_min_pool)(in[0], user).value; }
static cj_tensor *avg_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n) { return (void)c, (void)n, (cj_avg_pool)(in[0], user); }
static cj_tensor *soft_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    return (void)c, (void)n, (cj_softmax_pool)(in[0], 0.7, user);
}
static cj_tensor *adaptive_avg_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    return (void)c, (void)n, (void)user, cj_adaptive_avg_pool(in[0], CJ_SHAPE(3, 2));
}
static cj_tensor *adaptive_max_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    return (void)c, (void)n, (void)user, cj_adaptive_max_pool(in[0], CJ_SHAPE(3, 2));
}

static void derivatives(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 32 });
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 2, 5, 4), .dtype = CJ_F64);
    cj_pool_opts o = { .kernel = 3, .stride = 2, .padding = 1, .exclude_padding = true };
    const struct {
        const char *name;
        cj_fn fn;
    } list[] = { { "max", max_fn },
                 { "max, values only", lean_fn },
                 { "min", min_fn },
                 { "avg", avg_fn },
                 { "softmax", soft_fn },
                 { "adaptive avg", adaptive_avg_fn },
                 { "adaptive max", adaptive_max_fn } };
    for (int i = 0; i < 7; i++) {
        cj_gradcheck_result r = cj_gradcheck(c, list[i].fn, &o, &x, 1, .second_order = true);
        if (!r.ok) fail_msg("%s: %s (%s)", list[i].name, r.what, cj_message(c));
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void definitions(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 33 });
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 7, 5), .dtype = CJ_F64);
    /* global pooling */
    assert_near(distance(cj_adaptive_avg_pool(x, CJ_SHAPE(1, 1)), cj_mean(x, .axes = CJ_AXES(2, 3), .keepdim = true)), 0, 1e-14);
    assert_near(distance(cj_adaptive_max_pool(x, CJ_SHAPE(1, 1)), cj_max(x, .axes = CJ_AXES(2, 3), .keepdim = true)), 0, 0);
    /* 7 to 3: windows 0..2, 2..4, 4..6 */
    cj_tensor *a = cj_adaptive_avg_pool(x, CJ_SHAPE(3, 5)), *m = cj_adaptive_max_pool(x, CJ_SHAPE(3, 5));
    for (int i = 0; i < 3; i++) {
        cj_tensor *part = cj_slice(x, 2, 2 * i, 2 * i + 3, 1);
        assert_near(distance(cj_slice(a, 2, i, i + 1, 1), cj_mean(part, .axes = CJ_AXIS(2), .keepdim = true)), 0, 1e-14);
        assert_near(distance(cj_slice(m, 2, i, i + 1, 1), cj_max(part, .axes = CJ_AXIS(2), .keepdim = true)), 0, 0);
    }
    /* unpooling puts values back where they were */
    cj_pooled p = cj_max_pool(x, .kernel = 2);
    cj_tensor *back = cj_max_unpool(p.value, p.index, CJ_SHAPE(7, 5));
    assert_near(distance(cj_max_pool(back, .kernel = 2).value, cj_maximum(p.value, cj_zeros_like(p.value))), 0, 0);
    assert_near(cj_item(cj_sum(back)), cj_item(cj_sum(p.value)), 1e-12);
    assert_near(distance(cj_min_pool(x, .kernel = 2).value, cj_neg(cj_max_pool(cj_neg(x), .kernel = 2).value)), 0, 0);
    /* softmax pooling lies between mean and maximum, and tends to them */
    cj_tensor *hot = cj_softmax_pool(x, 1e6, .kernel = 2), *cold = cj_softmax_pool(x, 1e-4, .kernel = 2);
    assert_near(distance(hot, cj_avg_pool(x, .kernel = 2)), 0, 1e-5);
    assert_near(distance(cold, p.value), 0, 1e-3);
    const cj_pool_opts windows[] = { { .kernel = 3, .stride = 2, .padding = 1, .exclude_padding = true },
                                     { .kernel = 2, .stride = 2, .ceil_mode = true, .exclude_padding = true },
                                     { .kernel = 4, .exclude_padding = true }, /* one window only, the axis longer */
                                     { .kernels = CJ_SHAPE(3, 2), .strides = CJ_SHAPE(2, 1), .dilations = CJ_SHAPE(2, 3) } };
    for (int i = 0; i < 4; i++) {
        const cj_pool_opts *o = &windows[i];
        if (!o->dilations.ndim) assert_near(distance((cj_softmax_pool)(x, 1e6, o), (cj_avg_pool)(x, o)), 0, 1e-5);
        assert_near(distance((cj_softmax_pool)(x, 1e-4, o), (cj_max_pool)(x, o).value), 0, 1e-3);
    }
    /* NaN wins and -inf has a place */
    cj_tensor *odd = cj_from_f32(c, (float[]){ -INFINITY, -INFINITY, NAN, 1 }, CJ_SHAPE(1, 1, 4));
    cj_pooled q = cj_max_pool(odd, .kernel = 2);
    assert_true(value_at(q.value, 0) == -INFINITY);
    assert_near(value_at(q.index, 0), 0, 0);
    assert_true(isnan(value_at(q.value, 1)));
    assert_near(value_at(q.index, 1), 2, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

static void bad_input(void **unused)
{
    (void)unused;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
    assert_poisoned(CJ_EVALUE, "max_pool: kernel 0; at least 1 expected", cj_max_pool(F(1, 1, 4)).value);
    assert_poisoned(CJ_EVALUE, "stride -2; at least 1", cj_max_pool(F(1, 1, 4), .kernel = 2, .stride = -2).value);
    assert_poisoned(CJ_EVALUE, "padding 2 is more than half of the window 3", cj_avg_pool(F(1, 1, 4), .kernel = 3, .padding = 2));
    assert_poisoned(CJ_ESHAPE, "a window of 5 is larger than the padded axis of 4", cj_avg_pool(F(1, 1, 4), .kernel = 5));
    assert_poisoned(CJ_EVALUE, "2 values of stride for 1 axes", cj_avg_pool(F(1, 1, 4), .kernel = 2, .strides = CJ_SHAPE(1, 1)));
    assert_poisoned(CJ_EDTYPE, "the input is i64", cj_avg_pool(cj_cast(F(1, 1, 4), CJ_I64), .kernel = 2));
    assert_poisoned(CJ_ESHAPE, "1 to 3 spatial ones expected", cj_avg_pool(F(4, 4), .kernel = 2));
    assert_poisoned(CJ_EVALUE, "temperature 0", cj_softmax_pool(F(1, 1, 4), 0, .kernel = 2));
    assert_poisoned(CJ_EVALUE, "softmax_pool: padding 2 is more than half of the window 2",
                    cj_softmax_pool(F(1, 1, 4), 1, .kernel = 2, .padding = 2));
    assert_poisoned(CJ_EVALUE, "size 0 from an axis of 4", cj_adaptive_avg_pool(F(1, 1, 4), CJ_SHAPE(0)));
    assert_poisoned(CJ_ESHAPE, "values [1, 4] and positions [1, 3] differ", cj_max_unpool(F(1, 4), cj_cast(F(1, 3), CJ_I64), CJ_SHAPE(8)));
    assert_poisoned(CJ_EINDEX, "max_unpool: index 9", cj_max_unpool(F(1, 2), cj_full(c, 9, CJ_SHAPE(1, 2), CJ_I64), CJ_SHAPE(8)));
    assert_null(cj_max_pool(NULL).value);
    assert_null(cj_avg_pool(NULL));
    cj_ctx_free(c);
    assert_balanced(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_combinations), cmocka_unit_test(derivatives), cmocka_unit_test(definitions),
                                        cmocka_unit_test(bad_input) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
