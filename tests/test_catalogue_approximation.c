/* Catalogue rows of approximation: constructions with known errors, and least squares on random units. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 53);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static cj_tensor *grid(double low, double high, int64_t n)
{
    return cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, (double)n, 1, CJ_F64), (high - low) / (double)(n - 1)), low);
}
static double sup(cj_tensor *a, cj_tensor *b) { return cj_item(cj_max(cj_abs(cj_sub(a, b)))); }
/* the value of the best combination of the columns of phi [n, p], in the sense of least squares */
static cj_tensor *best(cj_tensor *phi, cj_tensor *y) { return cj_matmul(phi, cj_lstsq(phi, y, .rtol = 1e-12)); }

static void approx_bumps_and_uat_bump(void **state) /* approx.bumps, uat.bump */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 200001 };
    cj_tensor *x = grid(-1, 2, N);
    double error[3];
    for (int i = 0; i < 3; i++) {
        double k = 40 << i;
        cj_tensor *bump = cj_bump(x, 0, 1, k), *step = cj_cast(cj_logical_and(cj_gt_scalar(x, 0), cj_lt_scalar(x, 1)), CJ_F64);
        error[i] = cj_item(cj_mean(cj_abs(cj_sub(bump, step)))) * 3;
        assert_near(error[i], 4 * log(2) / k, 2e-4);
        assert_near(cj_item(cj_max(bump)), 1, 1e-7);
        assert_near(cj_item(cj_max(cj_mul_scalar(bump, 0.5))), 0.5, 1e-7); /* with the factor 1/2 it is half as high ... */
        cj_tensor *tanh_bump = cj_mul_scalar(cj_sub(cj_tanh(cj_mul_scalar(x, k)), cj_tanh(cj_mul_scalar(cj_add_scalar(x, -1), k))), 0.5);
        assert_near(cj_item(cj_max(tanh_bump)), 1, 1e-7); /* ... which is right for tanh */
    }
    assert_near(error[0], 0.0693, 2e-4);
    assert_near(error[0] / error[1], 2, 0.01); /* 1/k */
    assert_near(error[1] / error[2], 2, 0.02);
    cj_tensor *plane = normal(CJ_SHAPE(50, 2)), *moved = cj_add(plane, F64(c, CJ_SHAPE(2), 0, 7)); /* a strip looks at x1 only */
    assert_near(sup(cj_bump(cj_select(plane, 1, 0), 0, 1, 9), cj_bump(cj_select(moved, 1, 0), 0, 1, 9)), 0, 0);
    assert_poisoned(CJ_EVALUE, "bump: from 1 to 0", cj_bump(x, 1, 0, 1));
    cj_scope_close(s);
}

/* min over coordinates of the distance to the faces; positive inside */
static double depth(const double *x, const double *low, const double *high, int d)
{
    double inside = INFINITY, outside = 0;
    for (int j = 0; j < d; j++)
        inside = fmin(inside, fmin(x[j] - low[j], high[j] - x[j])), outside = fmax(outside, fmax(low[j] - x[j], x[j] - high[j]));
    return inside > 0 ? inside : -outside;
}

static void uat_tower(void **state) /* uat.tower */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double low[3] = { 0.2, -0.1, 0.3 }, high[3] = { 0.9, 0.5, 0.8 };
    for (int d = 2; d <= 3; d++) {
        cj_tensor *x = cj_uniform(c, -1, 1.5, CJ_SHAPE(4000, d), .dtype = CJ_F64);
        double *p = values_of(x), *f = values_of(cj_tower(x, low, high, 400, 40)),
               *two = values_of(
                   cj_add(cj_mul_scalar(cj_tower(x, low, high, 400, 40), 3),
                          cj_mul_scalar(cj_tower(x, (double[]){ -0.9, -0.9, -0.9 }, (double[]){ -0.3, -0.3, -0.3 }, 400, 40), -2)));
        for (int i = 0; i < 4000; i++) {
            double in = depth(p + i * d, low, high, d),
                   other = depth(p + i * d, (double[]){ -0.9, -0.9, -0.9 }, (double[]){ -0.3, -0.3, -0.3 }, d);
            if (fabs(in) < 0.05 || fabs(other) < 0.05) continue; /* away from the edges */
            assert_near(f[i], in > 0, 1e-3);
            assert_near(two[i], in > 0 ? 3 : other > 0 ? -2 : 0, 5e-3); /* disjoint towers of any height */
        }
        free(p), free(f), free(two);
    }
    assert_poisoned(CJ_ESHAPE, "tower: x is", cj_tower(normal(CJ_SHAPE(3)), low, high, 1, 1));
    cj_scope_close(s);
}

/* 1-Lipschitz functions on the unit square */
static double lipschitz(int which, double x, double y)
{
    return which == 0 ? sin(x + y) / sqrt(2) : which == 1 ? hypot(x - 0.3, y - 0.6) : fabs(x - y) / sqrt(2);
}

/* sup error of K x K towers of height f(centre), away from the edges of cells */
static double checkerboard(int which, int cells)
{
    enum { N = 90 };
    static double at[N * N * 2], value[N * N];
    int n = 0;
    for (int i = 0; i < N * N; i++) {
        double x = (i % N + 0.5) / N, y = (i / N + 0.5) / N,
               edge = fmin(fabs(x * cells - round(x * cells)), fabs(y * cells - round(y * cells)));
        if (edge < 0.05) continue;
        at[2 * n] = x, at[2 * n + 1] = y, value[n++] = lipschitz(which, x, y);
    }
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = f64(c, at, CJ_SHAPE(n, 2)), *sum = cj_zeros(c, CJ_SHAPE(n), CJ_F64);
    for (int k = 0; k < cells * cells; k++) {
        double a = k % cells, b = k / cells, w = 1. / cells;
        cj_tensor *tower = cj_tower(x, (double[]){ a * w, b * w }, (double[]){ (a + 1) * w, (b + 1) * w }, 500 * cells, 60);
        sum = cj_add(sum, cj_mul_scalar(tower, lipschitz(which, (a + 0.5) * w, (b + 0.5) * w)));
    }
    double error = sup(sum, f64(c, value, CJ_SHAPE(n)));
    cj_scope_close(s);
    return error;
}

static void approx_towers_and_uat_checkerboard(void **state) /* approx.towers, uat.checkerboard */
{
    (void)state;
    assert_int_equal((int)ceil(1 / (sqrt(2) * 0.1)), 8); /* L = 1, eps = 0.1 */
    for (int which = 0; which < 3; which++) {
        double four = checkerboard(which, 4), eight = checkerboard(which, 8), sixteen = checkerboard(which, 16);
        assert_true(four <= sqrt(2) / 8 && eight <= sqrt(2) / 16 && sixteen <= sqrt(2) / 32 && eight <= 0.1);
        assert_near(four / eight, 2, 0.5); /* 1/K */
        assert_near(eight / sixteen, 2, 0.6);
    }
    uat_tower(state); /* three dimensions */
}

static void approx_weierstrass_and_uat_weierstrass(void **state) /* approx.weierstrass, uat.weierstrass */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { GRID = 401 };
    double work[300], y[300], error[2][5];
    for (int i = 0; i < 5; i++) {
        int n = 16 << i;
        for (int which = 0; which < 3; which++) {
            double worst = 0;
            for (int k = 0; k <= n; k++) {
                double t = (double)k / n;
                y[k] = which == 0 ? fabs(t - 0.5) : which == 1 ? sin(5 * t) : 3 - 2 * t;
            }
            for (int g = 0; g < GRID; g++) {
                double t = g / (GRID - 1.), f = which == 0 ? fabs(t - 0.5) : which == 1 ? sin(5 * t) : 3 - 2 * t;
                worst = fmax(worst, fabs(cj_bernstein(y, n, t, work) - f));
            }
            if (which == 2) assert_near(worst, 0, 1e-13); /* exact on affine functions */
            else error[which][i] = worst;
        }
        if (i) assert_true(error[0][i] < error[0][i - 1] && error[1][i] < error[1][i - 1]);
        assert_true(error[0][i] <= 0.5 / sqrt(n)); /* Lipschitz constant 1: E|S/n - t| <= 1/(2 sqrt n) */
    }
    assert_near(log(error[0][4] / error[0][0]) / log(16), -0.5, 0.05);
    /* least-squares polynomials of 1/(2 - x) on [-1, 1]: the error falls by 2 + sqrt 3 with each degree */
    cj_tensor *x = cj_cos(grid(0, M_PI, GRID)), *f = cj_reciprocal(cj_add_scalar(cj_neg(x), 2)), *column[16];
    double before = NAN;
    for (int k = 0; k < 16; k++) {
        column[k] = cj_cos(cj_mul_scalar(grid(0, M_PI, GRID), k)); /* Chebyshev's */
        if (k < 3 || k % 2) continue;
        double now = sup(best(cj_stack(column, k + 1, 1), f), f);
        if (k > 4) assert_near(sqrt(before / now), 2 + sqrt(3), 0.2);
        before = now;
    }
    cj_scope_close(s);
}

static void approx_pwl_relu_and_uat_pwl(void **state) /* approx.pwl_relu, uat.pwl */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int trial = 0; trial < 20; trial++) {
        enum { KNOTS = 9 };
        double *x = values_of(cj_cumsum(cj_uniform(c, 0.1, 1, CJ_SHAPE(KNOTS), .dtype = CJ_F64), 0)),
               *y = values_of(normal(CJ_SHAPE(KNOTS))), jump[KNOTS];
        cj_relu_form f;
        assert_true(cj_relu_interpolant(x, y, KNOTS, &f, jump));
        cj_tensor *at = grid(x[0], x[KNOTS - 1], 200), *expected = cj_interp(f64(c, x, CJ_SHAPE(KNOTS)), f64(c, y, CJ_SHAPE(KNOTS)), at);
        double *t = values_of(at), *truth = values_of(expected);
        for (int i = 0; i < 200; i++) {
            double relu = f.offset + f.slope * t[i], absolute = f.abs_offset + f.abs_slope * t[i];
            for (int k = 0; k < KNOTS; k++) relu += jump[k] * fmax(0, t[i] - x[k]), absolute += jump[k] / 2 * fabs(t[i] - x[k]);
            assert_near(relu, truth[i], 1e-12);
            assert_near(absolute, truth[i], 1e-12);
        }
        free(x), free(y), free(t), free(truth);
    }
    double before = NAN;
    for (int units = 8; units <= 256; units *= 2) { /* sin on [0, 3]: error h²/8 */
        double x[300], y[300], jump[300], worst = 0;
        for (int i = 0; i <= units + 1; i++) x[i] = 3. * i / (units + 1), y[i] = sin(x[i]);
        cj_relu_form f;
        assert_true(cj_relu_interpolant(x, y, units + 2, &f, jump));
        for (int g = 0; g <= 3000; g++) {
            double t = g / 1000., v = f.offset + f.slope * t;
            for (int k = 1; k <= units; k++) v += jump[k] * fmax(0, t - x[k]);
            worst = fmax(worst, fabs(v - sin(t)));
        }
        assert_true(worst <= pow(3. / (units + 1), 2) / 8 * 1.001);
        if (units > 16) assert_near(log2(before / worst), 2, 0.15);
        before = worst;
    }
    double a = 3.7, b = -1.2;
    assert_near(2 * fmax(a, b), a + b + fabs(a - b), 1e-14);
    cj_relu_form f;
    double jump[2];
    assert_false(cj_relu_interpolant((double[]){ 1, 1 }, (double[]){ 0, 0 }, 2, &f, jump));
    assert_false(cj_relu_interpolant((double[]){ 1 }, (double[]){ 0 }, 1, &f, jump));
    cj_scope_close(s);
}

/* rows of affine maps: theta [k, n], b [k] */
typedef struct polyhedral {
    cj_tensor *theta, *b;
} polyhedral;
static cj_tensor *maps(const polyhedral *p, cj_tensor *x) { return cj_linear_op(x, p->theta, p->b); }
static cj_tensor *hinge(cj_tensor *z) { return cj_max(z, .axes = CJ_AXIS(-1)); }
static cj_tensor *value(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return hinge(maps(user, in[0]));
}
/* max of k columns from maxima of two, (f + g + |f - g|)/2, level by level */
static cj_tensor *tree(cj_tensor *z, int *levels)
{
    for (*levels = 0; cj_size(z, 1) > 1; ++*levels) {
        cj_tensor *pair[8];
        int64_t k = cj_size(z, 1), n = 0;
        for (int64_t j = 0; j < k; j += 2) {
            cj_tensor *f = cj_select(z, 1, j), *g = j + 1 < k ? cj_select(z, 1, j + 1) : f;
            pair[n++] = cj_mul_scalar(cj_add(cj_add(f, g), cj_abs(cj_sub(f, g))), 0.5);
        }
        z = cj_stack(pair, (int)n, 1);
    }
    return cj_select(z, 1, 0);
}

static void approx_max_abs(void **state) /* approx.max_abs */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int n = 1; n <= 7; n++) {
        polyhedral p = { normal(CJ_SHAPE(n + 1, n)), normal(CJ_SHAPE(n + 1)) };
        cj_tensor *x = normal(CJ_SHAPE(300, n)), *z = maps(&p, x), *f = hinge(z);
        int levels;
        assert_near(sup(tree(z, &levels), f), 0, 1e-14 * 16);
        assert_int_equal(levels, (int)ceil(log2(n + 1)));
        assert_true(
            cj_check_convex(c, value, &p, cj_full(c, -2, CJ_SHAPE(n), CJ_F64), cj_full(c, 2, CJ_SHAPE(n), CJ_F64), .values_only = true)
                .convex);
        /* (x, t) lies in the epigraph exactly where it lies in all half-spaces theta·x + b <= t */
        cj_tensor *t = normal(CJ_SHAPE(300)), *above = cj_ge(t, f), *all = cj_all(cj_ge(cj_unsqueeze(t, 1), z), .axes = CJ_AXIS(1));
        assert_near(distance(cj_cast(above, CJ_F64), cj_cast(all, CJ_F64)), 0, 0);
    }
    cj_scope_close(s);
}

static cj_tensor *max3(cj_tensor *f, cj_tensor *g, cj_tensor *h) { return cj_maximum(cj_maximum(f, g), h); }
static cj_tensor *min3(cj_tensor *f, cj_tensor *g, cj_tensor *h) { return cj_minimum(cj_minimum(f, g), h); }

static void approx_hinge_sum_and_uat_cpwl_hinges(void **state) /* approx.hinge_sum, uat.cpwl-hinges */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(1000, 2)), *u = cj_select(x, 1, 0), *v = cj_select(x, 1, 1);
    /* |u| - |v| from 2-hinges */
    assert_near(sup(cj_sub(cj_maximum(u, cj_neg(u)), cj_maximum(v, cj_neg(v))), cj_sub(cj_abs(u), cj_abs(v))), 0, 1e-12);
    polyhedral p = { normal(CJ_SHAPE(3, 2)), normal(CJ_SHAPE(3)) };
    cj_tensor *z = maps(&p, x), *f = cj_select(z, 1, 0), *g = cj_select(z, 1, 1), *h = cj_select(z, 1, 2);
    /* max(min(f, g), h) = max(f, h) + max(g, h) - max(f, g, h) */
    assert_near(sup(cj_sub(cj_add(cj_maximum(f, h), cj_maximum(g, h)), max3(f, g, h)), cj_maximum(cj_minimum(f, g), h)), 0, 1e-12);
    /* the median: max(f, g) + max(g, h) + max(f, h) - 2 max(f, g, h) */
    cj_tensor *sum = cj_add(cj_add(cj_maximum(f, g), cj_maximum(g, h)), cj_maximum(f, h)),
              *median = cj_sub(cj_sub(cj_add(cj_add(f, g), h), max3(f, g, h)), min3(f, g, h));
    assert_near(sup(cj_sub(sum, cj_mul_scalar(max3(f, g, h), 2)), median), 0, 1e-12);
    assert_near(sup(median, cj_median(z, 1).values), 0, 1e-12);
    /* the same coefficients found by least squares on all hinges of at most three of the maps */
    cj_tensor *hinges[] = { f, g, h, cj_maximum(f, g), cj_maximum(g, h), cj_maximum(f, h), max3(f, g, h), cj_ones_like(f) };
    assert_near(sup(best(cj_stack(hinges, 8, 1), median), median), 0, 1e-8);
    assert_true(sup(best(cj_stack(hinges, 6, 1), median), median) > 1e-2); /* hinges of two do not suffice in the plane */
    for (int n = 2; n <= 7; n++) {                                         /* an (n+1)-hinge from ceil(log2(n+1)) nested maxima of two */
        int levels;
        cj_tensor *many = normal(CJ_SHAPE(100, n + 1));
        assert_near(sup(tree(many, &levels), hinge(many)), 0, 1e-13);
        assert_int_equal(levels, (int)ceil(log2(n + 1)));
    }
    cj_scope_close(s);
}

/* sin(2 pi x) by max_k (a x + b), or by the difference of two such: sup error after training */
static double train_maxout(int64_t k, bool two, cj_module **out)
{
    cj_tensor *x = cj_keep(cj_unsqueeze(cj_cast(grid(0, 1, 100), CJ_F32), 1)), *y = cj_keep(cj_sin(cj_mul_scalar(x, 2 * M_PI)));
    double least = INFINITY;
    for (int start = 0; start < 3; start++) {
        cj_module *m = cj_linear(c, 1, two ? 2 * k : k, .init_std = 4);
        cj_optim *adam = cj_adam(cj_module_params(m), .lr = 0.03);
        double error = NAN;
        for (int i = 0; i <= 1500; i++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *f = cj_maxout(cj_forward(m, x), 1, k);
            if (two) f = cj_sub(cj_slice(f, 1, 0, 1, 1), cj_slice(f, 1, 1, 2, 1));
            error = sup(f, y);
            if (i == 1000) cj_optim_set_lr(adam, 0.003);
            cj_minimise(adam, cj_mse_loss(f, y));
            cj_scope_close(s);
        }
        if (error < least) least = error, *out = m;
    }
    cj_release(x), cj_release(y);
    return least;
}

static void approx_maxout_difference_and_uat_maxout_difference(void **state) /* approx.maxout_difference, uat.maxout-difference */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_uniform(c, -2, 2, CJ_SHAPE(500), .dtype = CJ_F64), *zero = cj_zeros_like(x), *other = cj_add_scalar(cj_neg(x), 1);
    assert_near(sup(cj_sub(zero, cj_maximum(cj_neg(x), cj_neg(other))), cj_minimum(x, other)), 0, 1e-14);
    polyhedral p = { normal(CJ_SHAPE(3, 2)), normal(CJ_SHAPE(3)) };
    cj_tensor *points = normal(CJ_SHAPE(500, 2)), *z = maps(&p, points), *f = cj_select(z, 1, 0), *g = cj_select(z, 1, 1),
              *h = cj_select(z, 1, 2);
    cj_tensor *median = cj_sub(max3(cj_add(g, h), cj_add(f, h), cj_add(f, g)), max3(f, g, h)), *u = cj_select(points, 1, 0),
              *v = cj_select(points, 1, 1);
    assert_near(sup(median, cj_median(z, 1).values), 0, 1e-12);
    assert_near(sup(cj_sub(cj_maximum(u, cj_neg(u)), cj_maximum(v, cj_neg(v))), cj_sub(cj_abs(u), cj_abs(v))), 0, 0); /* like a saddle */
    cj_module *m = NULL;
    double few = train_maxout(2, true, &m), more = train_maxout(8, true, &m);
    assert_true(more < 0.5 * few && more < 0.25);
    /* each half is convex; their difference is not */
    double *w = values_of(cj_params_at(cj_module_params(m), 0)), *b = values_of(cj_params_at(cj_module_params(m), 1));
    for (int half = 0; half < 2; half++) {
        polyhedral part = { f64(c, w + 8 * half, CJ_SHAPE(8, 1)), f64(c, b + 8 * half, CJ_SHAPE(8)) };
        assert_true(cj_check_convex(c, value, &part, F64(c, CJ_SHAPE(1), 0), F64(c, CJ_SHAPE(1), 1), .values_only = true).convex);
    }
    free(w), free(b);
    /* one maxout stays convex: on [0, 1/2] the sine is above its chord, which runs from 0 to 0, so that one of the two ends or the top is missed by 1/2 */
    assert_true(train_maxout(8, false, &m) > 0.45);
    cj_scope_close(s);
}

/* width random units of a kind on [-1, 1], best combination: sup error */
static cj_tensor *units(int kind, cj_tensor *x, int64_t width)
{
    cj_tensor *a = cj_mul_scalar(normal(CJ_SHAPE(1, width)), 3),
              *z = cj_mul(a, cj_sub(cj_unsqueeze(x, 1), cj_uniform(c, -1.2, 1.2, CJ_SHAPE(1, width), .dtype = CJ_F64)));
    return kind == 0 ? cj_tanh(z) : kind == 1 ? cj_sigmoid(z) : kind == 2 ? cj_relu(z) : cj_pow_scalar(z, kind);
}

static void approx_uat_1d_and_uat_nonpolynomial(void **state) /* approx.uat_1d, uat.nonpolynomial */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = grid(-1, 1, 400), *f = cj_add(cj_sin(cj_mul_scalar(x, 6)), cj_abs(x));
    for (int kind = 0; kind < 3; kind++) {
        double before = INFINITY;
        for (int64_t width = 4; width <= 256; width *= 4) {
            double error = 0;
            for (int draw = 0; draw < 5; draw++) error += sup(best(units(kind, x, width), f), f) / 5;
            assert_true(error < before);
            before = error;
        }
        assert_true(before < 0.05);
    }
    for (int d = 3; d <= 5; d++) { /* z^d: all polynomials of degree d and no more, however many units */
        cj_tensor *power[6];
        for (int k = 0; k <= d; k++) power[k] = cj_pow_scalar(x, k);
        double plateau = sup(best(cj_stack(power, d + 1, 1), f), f);
        assert_true(plateau > 0.1);
        for (int64_t width = 16; width <= 256; width *= 4) assert_near(sup(best(units(d, x, width), f), f), plateau, 1e-3);
    }
    cj_scope_close(s);
}

/* cubic ridge functions sum_k c_k (theta·x)^k, k = 0 … 5, in `count` random directions */
static cj_tensor *ridges(cj_tensor *x, int count)
{
    cj_tensor *column[6 * 32];
    int n = 0;
    for (int i = 0; i < count; i++) {
        cj_tensor *theta = normal(CJ_SHAPE(cj_size(x, 1))), *t = cj_matmul(x, cj_div(theta, cj_norm(theta, 2)));
        for (int k = 0; k < 6; k++) column[n++] = cj_pow_scalar(t, k);
    }
    return cj_stack(column, n, 1);
}

static void approx_ridge_lifting_and_uat_ridge_lift(void **state) /* approx.ridge_lifting, uat.ridge-lift */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int n = 2; n <= 3; n++) {
        cj_tensor *x = cj_uniform(c, -1, 1, CJ_SHAPE(1500, n), .dtype = CJ_F64), *u = cj_select(x, 1, 0), *v = cj_select(x, 1, 1);
        cj_tensor *exact = cj_mul_scalar(cj_sub(cj_square(cj_add(u, v)), cj_square(cj_sub(u, v))), 0.25);
        assert_near(sup(exact, cj_mul(u, v)), 0, 1e-14);
        cj_tensor *f = cj_exp(cj_mul(cj_neg(cj_sum(cj_square(cj_sub(x, cj_full(c, 0.2, CJ_SHAPE(n), CJ_F64))), .axes = CJ_AXIS(1))),
                                     cj_add_scalar(cj_mul_scalar(u, 0.5), 1)));
        double before = INFINITY, first = 0;
        for (int count = 2; count <= 16; count *= 2) {
            double error = 0;
            for (int draw = 0; draw < 4; draw++) error += sqrt(cj_item(cj_mse_loss(best(ridges(x, count), f), f))) / 4;
            assert_true(error < before * (count > 8 ? 1.05 : 1)); /* once all of degree 5 is there no more can be won */
            if (count == 2) first = error;
            before = error;
        }
        assert_true(before < 0.2 * first);
    }
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approx_bumps_and_uat_bump),
        cmocka_unit_test(uat_tower),
        cmocka_unit_test(approx_towers_and_uat_checkerboard),
        cmocka_unit_test(approx_weierstrass_and_uat_weierstrass),
        cmocka_unit_test(approx_pwl_relu_and_uat_pwl),
        cmocka_unit_test(approx_max_abs),
        cmocka_unit_test(approx_hinge_sum_and_uat_cpwl_hinges),
        cmocka_unit_test(approx_maxout_difference_and_uat_maxout_difference),
        cmocka_unit_test(approx_uat_1d_and_uat_nonpolynomial),
        cmocka_unit_test(approx_ridge_lifting_and_uat_ridge_lift),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
