/* Catalogue rows of convexity: conditions on functions whose constants are known, and functions that break them. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 47);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }

/* ---- the catalogue of convex functions, and some that are not -------------------------------------------------------------------------------------- */

enum { DIM = 3 };
typedef struct function {
    const char *name;
    cj_fn fn;
    double low, high;
    bool kinks, affine;
} function;
static cj_tensor *line(void) { return F64(c, CJ_SHAPE(DIM), 1, -2, 0.5); }
/* eigenvalues of Q: 1, 2, 4 (a rotated diagonal) */
static cj_tensor *form(double a, double b, double d)
{
    const double s = sqrt(0.5);
    cj_tensor *u = F64(c, CJ_SHAPE(3, 3), s, s, 0, -s, s, 0, 0, 0, 1);
    return cj_matmul(cj_matmul(u, cj_mul(cj_eye(c, 3, CJ_F64), F64(c, CJ_SHAPE(3), a, b, d))), cj_t(u));
}
static cj_tensor *quadratic(cj_tensor *q, cj_tensor *x) { return cj_mul_scalar(cj_dot(x, cj_matmul(q, x)), 0.5); }
FUNCTION_OF_X(power, cj_sum(cj_pow_scalar(x, 1.5)));
FUNCTION_OF_X(absolute, cj_sum(cj_pow_scalar(cj_abs(x), 1.7)));
FUNCTION_OF_X(exponential, cj_sum(cj_exp(x)));
FUNCTION_OF_X(minus_log, cj_neg(cj_sum(cj_log(x))));
FUNCTION_OF_X(affine, cj_add_scalar(cj_dot(x, line()), 3));
FUNCTION_OF_X(bowl, cj_add_scalar(cj_add(quadratic(form(1, 2, 4), x), cj_dot(x, line())), 1));
FUNCTION_OF_X(norm_1, cj_norm(x, 1));
FUNCTION_OF_X(norm_3, cj_norm(x, 3));
FUNCTION_OF_X(norm_inf, cj_norm(x, INFINITY));
FUNCTION_OF_X(lse, cj_logsumexp(x));
FUNCTION_OF_X(sine, cj_sum(cj_sin(x)));
FUNCTION_OF_X(cube, cj_sum(cj_mul(x, cj_square(x))));
FUNCTION_OF_X(hill, cj_neg(cj_sum(cj_square(x))));
FUNCTION_OF_X(saddle, quadratic(form(1, 2, -0.5), x));
static const function convex[] = {
    { "w^1.5", power, 0.1, 3, false, false },    { "|w|^1.7", absolute, -2, 2, true, false }, { "exp", exponential, -2, 2, false, false },
    { "-log", minus_log, 0.1, 3, false, false }, { "affine", affine, -2, 2, false, true },    { "quadratic", bowl, -2, 2, false, false },
    { "1-norm", norm_1, -2, 2, true, false },    { "3-norm", norm_3, -2, 2, true, false },    { "inf-norm", norm_inf, -2, 2, true, false },
    { "log-sum-exp", lse, -2, 2, false, false },
};
static const function bent[] = { { "sin", sine, -3, 3, false, false },
                                 { "w^3", cube, -2, 2, false, false },
                                 { "-w^2", hill, -2, 2, false, false },
                                 { "saddle", saddle, -2, 2, false, false } };
enum { CONVEX = sizeof convex / sizeof *convex, BENT = sizeof bent / sizeof *bent };

static cj_convexity check(cj_fn fn, void *user, double low, double high, int64_t size, bool values_only)
{
    return cj_check_convex(c, fn, user, cj_full(c, low, CJ_SHAPE(size), CJ_F64), cj_full(c, high, CJ_SHAPE(size), CJ_F64),
                           .values_only = values_only);
}
static cj_tensor *draw(const function *f) { return cj_uniform(c, f->low, f->high, CJ_SHAPE(DIM), .dtype = CJ_F64); }
static double at(const function *f, cj_tensor *x) { return cj_item(f->fn(c, NULL, &x, 1)); }

/* hinge of features phi·w, fixed, and of a network of two layers */
typedef struct data {
    cj_tensor *x, *y;
} data;
static cj_tensor *hinge_fixed(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    return cj_hinge_loss(cj_matmul(cj_polynomial_features(d->x, 2), in[0]), d->y);
}
static cj_tensor *squares_fixed(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    return cj_mse_loss(cj_matmul(cj_polynomial_features(d->x, 2), in[0]), d->y);
}
/* w (3), then S [2, 3] */
static cj_tensor *two_layers(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    cj_tensor *s = cj_reshape(cj_slice(in[0], 0, 3, 9, 1), CJ_SHAPE(2, 3));
    return cj_hinge_loss(cj_matmul(cj_relu(cj_matmul(d->x, s)), cj_slice(in[0], 0, 0, 3, 1)), d->y);
}
static cj_tensor *last_layer(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    cj_tensor *both[] = { in[0], F64(c, CJ_SHAPE(6), 1, -1, 0.5, 0.3, 1, -1) }, *all = cj_cat(both, 2, 0);
    return two_layers(ctx, user, &all, n);
}
static data sample(void) { return (data){ normal(CJ_SHAPE(12, 2)), cj_sign(normal(CJ_SHAPE(12))) }; }

static void cvx_checker(void **state) /* cvx.checker */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++) assert_true(check(convex[i].fn, NULL, convex[i].low, convex[i].high, DIM, true).convex);
    for (int i = 0; i < BENT; i++) {
        cj_convexity r = check(bent[i].fn, NULL, bent[i].low, bent[i].high, DIM, true);
        assert_false(r.convex);
        /* the segment it returns is indeed above its chord */
        double u = at(&bent[i], r.a), v = at(&bent[i], r.b),
               middle = at(&bent[i], cj_add(cj_mul_scalar(r.a, r.lambda), cj_mul_scalar(r.b, 1 - r.lambda)));
        assert_true(middle > r.lambda * u + (1 - r.lambda) * v);
    }
    data d = sample();
    assert_true(check(hinge_fixed, &d, -2, 2, 6, true).convex);
    assert_true(check(squares_fixed, &d, -2, 2, 6, false).convex);
    assert_false(check(two_layers, &d, -2, 2, 9, true).convex);
    assert_true(check(last_layer, &d, -2, 2, 3, true).convex);
    cj_scope_close(s);
}

static void cvx_catalogue(void **state) /* cvx.catalogue */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++) {
        const function *f = &convex[i];
        cj_convexity r = check(f->fn, NULL, f->low, f->high, DIM, f->kinks);
        if (!r.convex) fail_msg("%s: %s", f->name, r.broken);
        cj_tensor *x = draw(f);
        assert_true(cj_gradcheck(c, f->fn, NULL, &x, 1).ok);
        for (int k = 0; k < 20; k++) { /* first order everywhere, also with kinks */
            cj_two_points p = cj_compare_points(c, f->fn, NULL, draw(f), draw(f));
            assert_true(p.divergence >= -1e-10 && p.monotone >= -1e-10);
        }
    }
    assert_false(check(saddle, NULL, -2, 2, DIM, false).convex); /* one negative eigenvalue */
    cj_scope_close(s);
}

static void cvx_midpoint(void **state) /* cvx.midpoint */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++) {
        const function *f = &convex[i];
        for (int n = 1; n <= 6; n++) {
            cj_tensor *sum = cj_zeros(c, CJ_SHAPE(DIM), CJ_F64);
            double mean = 0;
            for (int k = 0; k < 1 << n; k++) {
                cj_tensor *x = draw(f);
                sum = cj_add(sum, cj_mul_scalar(x, 1. / (1 << n))), mean += at(f, x) / (1 << n);
            }
            double left = at(f, sum);
            assert_true(left <= mean + 1e-12 * (1 + fabs(mean)));
            if (f->affine) assert_near(left, mean, 1e-12);
        }
        cj_tensor *u = draw(f), *v = draw(f);
        for (int m = 0; m <= 64; m++) { /* all dyadic weights m / 64 */
            double a = m / 64., chord = a * at(f, u) + (1 - a) * at(f, v);
            assert_true(at(f, cj_add(cj_mul_scalar(u, a), cj_mul_scalar(v, 1 - a))) <= chord + 1e-12 * (1 + fabs(chord)));
        }
    }
    cj_tensor *y = cj_uniform(c, 0.1, 5, CJ_SHAPE(64), .dtype = CJ_F64);
    assert_true(log(cj_item(cj_mean(y))) > cj_item(cj_mean(cj_log(y)))); /* concave: the other way round */
    cj_scope_close(s);
}

/* a f + b g, max(f, g), exp(f), and two that fail: min(f, g), exp(-f) */
typedef struct composition {
    const function *f, *g;
    int how;
} composition;
static cj_tensor *composed(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    const composition *k = user;
    cj_tensor *f = k->f->fn(ctx, NULL, in, n), *g = k->g->fn(ctx, NULL, in, n);
    switch (k->how) {
    case 0: return cj_add(cj_mul_scalar(f, 0.7), cj_mul_scalar(g, 2));
    case 1: return cj_maximum(f, g);
    case 2: return cj_exp(cj_mul_scalar(f, 0.2)); /* convex and not falling */
    case 3: return cj_minimum(f, g);
    default: return cj_exp(cj_neg(f)); /* falling */
    }
}

static void cvx_closure(void **state) /* cvx.closure */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++)
        for (int k = 0; k < CONVEX; k += 3) {
            double low = fmax(convex[i].low, convex[k].low), high = fmin(convex[i].high, convex[k].high);
            for (int how = 0; how < 3; how++) {
                composition x = { &convex[i], &convex[k], how };
                assert_true(check(composed, &x, low, high, DIM, true).convex);
            }
        }
    composition least = { &convex[2], &convex[5], 3 }, falling = { &convex[5], &convex[5], 4 };
    assert_false(check(composed, &least, -2, 2, DIM, true).convex);
    assert_false(check(composed, &falling, -2, 2, DIM, true).convex);
    cj_scope_close(s);
}

static double dual_norm(cj_tensor *v, double p) { return cj_item(cj_norm(v, p)); }

static void cvx_inequalities(void **state) /* cvx.inequalities */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double p[] = { 1, 1.5, 2, 3, INFINITY };
    for (int i = 0; i < 5; i++) {
        double q = p[i] == 1 ? INFINITY : isinf(p[i]) ? 1 : p[i] / (p[i] - 1);
        for (int k = 0; k < 50; k++) {
            cj_tensor *v = normal(CJ_SHAPE(8)), *u = normal(CJ_SHAPE(8));
            double bound = dual_norm(v, p[i]) * dual_norm(u, q);
            assert_true(cj_item(cj_dot(v, u)) <= bound * (1 + 1e-14) && cj_item(cj_dot(cj_abs(v), cj_abs(u))) <= bound * (1 + 1e-14));
            assert_true(cj_item(cj_dot(v, u)) <= dual_norm(v, 2) * dual_norm(u, 2) * (1 + 1e-14));
            double xy = cj_item(cj_mean(cj_mul(v, u))); /* E[XY]² <= E[X²] E[Y²] over 8 outcomes */
            assert_true(xy * xy <= cj_item(cj_mean(cj_square(v))) * cj_item(cj_mean(cj_square(u))));
        }
        /* equality: u = sign(v) |v|^(p - 1); for the infinity norm all weight on the largest */
        cj_tensor *v = normal(CJ_SHAPE(8)), *u = isinf(p[i]) ? cj_mul(cj_sign(v), cj_cast(cj_eq(cj_abs(v), cj_max(cj_abs(v))), CJ_F64))
                                                             : cj_mul(cj_sign(v), cj_pow_scalar(cj_abs(v), p[i] - 1));
        double bound = dual_norm(v, p[i]) * dual_norm(u, q);
        assert_near(cj_item(cj_dot(v, u)) / bound, 1, 1e-12);
        assert_true(cj_item(cj_dot(v, cj_neg(u))) < 0); /* signs must match */
    }
    cj_scope_close(s);
}

static cj_tensor *least_squares(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(cj_matmul(d->x, in[0]), d->y))), 0.5);
}

static void cvx_first_order(void **state) /* cvx.first-order */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++)
        for (int k = 0; k < 50; k++) {
            cj_two_points p = cj_compare_points(c, convex[i].fn, NULL, draw(&convex[i]), draw(&convex[i]));
            assert_true(p.divergence >= -1e-10 && p.monotone >= -1e-10);
            if (i == 2 || i == 3 || i == 5) assert_true(p.divergence > 0 && p.monotone > 0); /* strict */
        }
    for (int i = 0; i < BENT; i++) {
        bool tangent = false, monotone = false;
        for (int k = 0; k < 200; k++) {
            cj_two_points p = cj_compare_points(c, bent[i].fn, NULL, draw(&bent[i]), draw(&bent[i]));
            tangent |= p.divergence < -1e-6, monotone |= p.monotone < -1e-6;
        }
        assert_true(tangent && monotone);
    }
    data full = { normal(CJ_SHAPE(6, 3)), normal(CJ_SHAPE(6)) }, flat = full;
    flat.x = cj_matmul(full.x, F64(c, CJ_SHAPE(3, 3), 1, 0, 1, 0, 1, 1, 0, 0, 0)); /* third column: the sum of the others */
    cj_tensor *u = normal(CJ_SHAPE(3)), *along = cj_add(u, F64(c, CJ_SHAPE(3), 2, 2, -2));
    assert_true(cj_compare_points(c, least_squares, &full, u, along).divergence > 1e-3);
    assert_near(cj_compare_points(c, least_squares, &flat, u, along).divergence, 0, 1e-10); /* a flat direction */
    assert_refused(CJ_EVALUE, "compare_points: the function is NULL", cj_compare_points(c, NULL, NULL, u, u).monotone);
    cj_scope_close(s);
}

static void cvx_second_order(void **state) /* cvx.second-order */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < CONVEX; i++) {
        if (convex[i].kinks) continue;
        for (int k = 0; k < 20; k++)
            assert_true(cj_item(cj_min(cj_eigvalsh(cj_hessian(c, convex[i].fn, NULL, draw(&convex[i]))))) >= -1e-8);
    }
    data d = { normal(CJ_SHAPE(6, 3)), normal(CJ_SHAPE(6)) };
    cj_tensor *w = normal(CJ_SHAPE(3)), *h = cj_hessian(c, least_squares, &d, w);
    assert_near(distance(h, cj_matmul(cj_t(d.x), d.x)), 0, 1e-8);
    /* column by column as differences of gradients */
    for (int j = 0; j < 3; j++) {
        double e[3] = { 0 };
        e[j] = 1e-5;
        cj_tensor *g[2];
        for (int k = 0; k < 2; k++) {
            cj_tensor *x = cj_require_grad(k ? cj_sub(w, f64(c, e, CJ_SHAPE(3))) : cj_add(w, f64(c, e, CJ_SHAPE(3))));
            assert_true(cj_grad(least_squares(c, &d, &x, 1), &x, 1, &g[k]));
        }
        assert_near(distance(cj_mul_scalar(cj_sub(g[0], g[1]), 0.5e5), cj_select(h, 1, j)), 0, 1e-8);
    }
    assert_true(cj_item(cj_min(cj_eigvalsh(cj_hessian(c, saddle, NULL, w)))) < -0.4);
    assert_true(cj_definiteness(cj_hessian(c, saddle, NULL, w)) == CJ_INDEFINITE);
    cj_scope_close(s);
}

/* fn - m/2 |w|² */
typedef struct less {
    cj_fn fn;
    double m;
} less;
static cj_tensor *minus_square(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    const less *l = user;
    return cj_sub(l->fn(ctx, NULL, in, n), cj_mul_scalar(cj_sum(cj_square(in[0])), l->m / 2));
}

static void cvx_strong(void **state) /* cvx.strong */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double m = 1, s2 = sqrt(0.5); /* lambda_min of the bowl, its eigenvector (1, -1, 0)/sqrt 2 */
    less exact = { bowl, m }, over = { bowl, 1.01 * m };
    assert_true(check(minus_square, &exact, -2, 2, 3, false).convex);
    cj_tensor *h = cj_hessian(c, bowl, NULL, normal(CJ_SHAPE(3))), *one = cj_eye(c, 3, CJ_F64);
    assert_true(cj_item(cj_min(cj_eigvalsh(cj_sub(h, cj_mul_scalar(one, m))))) >= -1e-12);
    assert_true(cj_item(cj_min(cj_eigvalsh(cj_sub(h, cj_mul_scalar(one, 1.01 * m))))) < -1e-3);
    for (int k = 0; k < 100; k++) {
        cj_two_points p = cj_compare_points(c, bowl, NULL, normal(CJ_SHAPE(3)), normal(CJ_SHAPE(3)));
        assert_true(p.divergence >= m / 2 * p.distance2 - 1e-12 && p.monotone >= m * p.distance2 - 1e-12);
    }
    cj_tensor *u = normal(CJ_SHAPE(3)), *v = cj_add(u, F64(c, CJ_SHAPE(3), 2 * s2, -2 * s2, 0));
    cj_two_points p = cj_compare_points(c, bowl, NULL, u, v), q = cj_compare_points(c, minus_square, &over, u, v);
    assert_true(p.divergence < 1.01 * m / 2 * p.distance2 && p.monotone < 1.01 * m * p.distance2);
    assert_true(q.divergence < 0 && q.monotone < 0); /* with 1.01 m it is not convex any more */
    assert_false(check(minus_square, &over, -2, 2, 3, false).convex);
    cj_scope_close(s);
}

FUNCTION_OF_X(wavy, cj_add(cj_sum(cj_square(x)), cj_mul_scalar(cj_sum(cj_square(cj_sin(x))), 3)));

static void cvx_pl(void **state) /* cvx.pl */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    /* the bowl: l* by its closed form -1/2 bᵀQ⁻¹b + 1 */
    cj_tensor *best = cj_neg(cj_solve(form(1, 2, 4), line()));
    double least = cj_item(bowl(c, NULL, &best, 1)), worst = INFINITY;
    for (int k = 0; k < 200; k++) {
        cj_tensor *x = normal(CJ_SHAPE(3));
        cj_two_points p = cj_compare_points(c, bowl, NULL, x, x);
        assert_true(p.gradient2 / 2 >= p.value_u - least - 1e-12);
    }
    cj_tensor *weak = cj_add(best, F64(c, CJ_SHAPE(3), 3, -3, 0));
    cj_two_points tight = cj_compare_points(c, bowl, NULL, weak, weak);
    assert_near(tight.gradient2 / 2, tight.value_u - least, 1e-10);
    /* w² + 3 sin² w: not convex, minimum 0, m = 1/32 */
    assert_false(check(wavy, NULL, -4, 4, 1, false).convex);
    for (int i = -4000; i <= 4000; i++) {
        if (!i) continue;
        double w = i / 400., l = w * w + 3 * sin(w) * sin(w), g = 2 * w + 3 * sin(2 * w);
        worst = fmin(worst, g * g / (2 * l));
    }
    assert_true(worst >= 1. / 32);
    cj_tensor *x = F64(c, CJ_SHAPE(1), 2.3);
    cj_two_points at_x = cj_compare_points(c, wavy, NULL, x, x);
    assert_near(at_x.gradient2, pow(4.6 + 3 * sin(4.6), 2), 1e-10);
    assert_true(at_x.gradient2 / 2 >= at_x.value_u / 32);
    /* descent with 1/L, L = 8: the gap shrinks by 1 - m/L at least */
    double w = 3, gap = w * w + 3 * sin(w) * sin(w);
    for (int t = 0; t < 200; t++) {
        w -= (2 * w + 3 * sin(2 * w)) / 8;
        double now = w * w + 3 * sin(w) * sin(w);
        assert_true(now <= (1 - 1. / 256) * gap);
        gap = now;
    }
    assert_true(gap < 1e-12);
    x = F64(c, CJ_SHAPE(3), 3, 3, 3);
    gap = cj_item(bowl(c, NULL, &x, 1)) - least;
    for (int t = 0; t < 40; t++) { /* the bowl: m = 1, L = 4 */
        cj_tensor *leaf = cj_require_grad(x), *g;
        assert_true(cj_grad(bowl(c, NULL, &leaf, 1), &leaf, 1, &g));
        x = cj_sub(x, cj_mul_scalar(g, 0.25));
        double now = cj_item(bowl(c, NULL, &x, 1)) - least;
        assert_true(now <= 0.75 * gap + 1e-12);
        gap = now;
    }
    cj_scope_close(s);
}

static cj_tensor *logistic(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    return cj_soft_margin_loss(cj_matmul(d->x, in[0]), d->y);
}

static void cvx_smooth(void **state) /* cvx.smooth */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    data d = { normal(CJ_SHAPE(20, 3)), cj_sign(normal(CJ_SHAPE(20))) };
    double top = cj_item(cj_matrix_norm(d.x, CJ_NORM_2)), slope = 0, *rows = values_of(cj_norm(d.x, 2, .axes = CJ_AXIS(1)));
    for (int i = 0; i < 20; i++) slope += rows[i] / 20; /* |gradient| <= mean |x_i| */
    free(rows);
    const struct {
        cj_fn fn;
        void *user;
        double L;
    } f[] = { { bowl, NULL, 4 }, { logistic, &d, top * top / 80 } };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 200; k++) {
            cj_tensor *u = normal(CJ_SHAPE(3)), *v = normal(CJ_SHAPE(3));
            cj_two_points p = cj_compare_points(c, f[i].fn, f[i].user, u, v);
            assert_true(p.divergence <= f[i].L / 2 * p.distance2 + 1e-12 && p.change2 <= f[i].L * f[i].L * p.distance2 + 1e-12);
            if (i) assert_true(fabs(p.value_u - p.value_v) <= slope * sqrt(p.distance2) + 1e-12); /* Lipschitz */
            cj_tensor *leaf = cj_require_grad(u), *g;
            assert_true(cj_grad(f[i].fn(c, f[i].user, &leaf, 1), &leaf, 1, &g));
            cj_tensor *next = cj_sub(u, cj_mul_scalar(g, 1 / f[i].L));
            assert_true(cj_item(f[i].fn(c, f[i].user, &next, 1)) <= p.value_u - p.gradient2 / (2 * f[i].L) + 1e-12); /* progress */
        }
    cj_tensor *u = normal(CJ_SHAPE(3)), *v = cj_add(u, F64(c, CJ_SHAPE(3), 0, 0, 1.5)); /* along the top eigenvector */
    cj_two_points p = cj_compare_points(c, bowl, NULL, u, v);
    assert_near(p.divergence, 2 * p.distance2, 1e-12);
    assert_true(p.divergence > 0.99 * 2 * p.distance2 && p.change2 > 0.99 * 0.99 * 16 * p.distance2);
    cj_scope_close(s);
}

static void cvx_gap_sandwich(void **state) /* cvx.gap-sandwich */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    data d = { normal(CJ_SHAPE(40, 3)), cj_sign(normal(CJ_SHAPE(40))) };
    double top = cj_item(cj_matrix_norm(d.x, CJ_NORM_2));
    assert_false(cj_separable(d.x, d.y, false)); /* so that there is an optimum */
    const struct {
        cj_fn fn;
        void *user;
        double L;
    } f[] = { { least_squares, &d, top * top }, { logistic, &d, top * top / 160 } };
    for (int i = 0; i < 2; i++) {
        cj_tensor *best = cj_keep(cj_zeros(c, CJ_SHAPE(3), CJ_F64));
        cj_solution out;
        assert_true(cj_newton(c, f[i].fn, f[i].user, &best, 1, &out, .tolerance = 1e-12));
        for (int k = 0; k < 100; k++) {
            cj_tensor *w = normal(CJ_SHAPE(3));
            cj_two_points p = cj_compare_points(c, f[i].fn, f[i].user, w, best);
            double gap = p.value_u - p.value_v;
            assert_true(p.gradient2 / (2 * f[i].L) <= gap + 1e-12 && gap <= f[i].L / 2 * p.distance2 + 1e-12);
        }
        cj_release(best);
    }
    cj_tensor *w = normal(CJ_SHAPE(3)); /* 3/2 |w|²: both sides are equal */
    less round = { affine, -3 };
    cj_tensor *best = cj_mul_scalar(line(), -1. / 3);
    cj_two_points p = cj_compare_points(c, minus_square, &round, w, best);
    assert_near(p.gradient2 / 6, p.value_u - p.value_v, 1e-11);
    assert_near(1.5 * p.distance2, p.value_u - p.value_v, 1e-11);
    cj_scope_close(s);
}

FUNCTION_OF_X(two_values, quadratic(form(1, 4, 4), x));

static void cvx_cocoercive(void **state) /* cvx.cocoercive */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double m = 1, L = 4;
    for (int k = 0; k < 200; k++) {
        cj_two_points p = cj_compare_points(c, bowl, NULL, normal(CJ_SHAPE(3)), normal(CJ_SHAPE(3)));
        assert_true(p.monotone >= p.change2 / L - 1e-12 && p.monotone >= m * L / (m + L) * p.distance2 + p.change2 / (m + L) - 1e-12);
        p = cj_compare_points(c, lse, NULL, normal(CJ_SHAPE(3)), normal(CJ_SHAPE(3))); /* L = 1/2 <= 1 */
        assert_true(p.monotone >= p.change2 - 1e-12);
        p = cj_compare_points(c, two_values, NULL, normal(CJ_SHAPE(3)), normal(CJ_SHAPE(3)));
        assert_near(p.monotone, m * L / (m + L) * p.distance2 + p.change2 / (m + L), 1e-11);
    }
    bool broken = false; /* sin is smooth with L = 1, and not convex */
    for (int k = 0; k < 200; k++) {
        cj_two_points p = cj_compare_points(c, sine, NULL, draw(&bent[0]), draw(&bent[0]));
        broken |= p.monotone < p.change2 - 1e-6;
    }
    assert_true(broken);
    cj_scope_close(s);
}

FUNCTION_OF_X(hundred, cj_mul_scalar(cj_sum(cj_mul(cj_arange(c, 1, 101, 1, CJ_F64), cj_square(x))), 0.5));
static cj_tensor *small_net(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const data *d = user;
    cj_tensor *s = cj_reshape(cj_slice(in[0], 0, 0, 8, 1), CJ_SHAPE(2, 4));
    return cj_mse_loss(cj_matmul(cj_tanh(cj_matmul(d->x, s)), cj_slice(in[0], 0, 8, 12, 1)), d->y);
}

static void cvx_spectrum(void **state) /* cvx.spectrum */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_curvature r = cj_hessian_extremes(c, hundred, NULL, normal(CJ_SHAPE(100)), 0);
    assert_near(r.smallest, 1, 1e-6);
    assert_near(r.largest, 100, 1e-6);
    assert_near(r.condition, 100, 1e-4);
    data d = sample();
    cj_tensor *w = normal(CJ_SHAPE(12)), *values = cj_eigvalsh(cj_hessian(c, small_net, &d, w));
    r = cj_hessian_extremes(c, small_net, &d, w, 0);
    assert_near(r.smallest, cj_item(cj_min(values)), 1e-6);
    assert_near(r.largest, cj_item(cj_max(values)), 1e-6);
    cj_hessian_map map = { hundred, NULL, normal(CJ_SHAPE(100)) };
    assert_near(cj_power_iteration(c, cj_hessian_product, &map, normal(CJ_SHAPE(100)), .steps = 20000, .tolerance = 1e-14).value, 100,
                1e-6);
    cj_tensor *v = normal(CJ_SHAPE(12)), *hv, *g[2];
    cj_hvp(c, small_net, &d, &w, &v, 1, &hv);
    for (int k = 0; k < 2; k++) {
        cj_tensor *x = cj_require_grad(cj_add(w, cj_mul_scalar(v, k ? -1e-5 : 1e-5)));
        assert_true(cj_grad(small_net(c, &d, &x, 1), &x, 1, &g[k]));
    }
    assert_near(distance(hv, cj_mul_scalar(cj_sub(g[0], g[1]), 0.5e5)), 0, 1e-6);
    assert_refused(CJ_EVALUE, "hessian_extremes:", cj_hessian_extremes(c, NULL, NULL, w, 0).largest);
    cj_scope_close(s);
}

static void cvx_optimality(void **state) /* cvx.optimality */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    data full = { normal(CJ_SHAPE(6, 3)), normal(CJ_SHAPE(6)) }, flat = full;
    flat.x = cj_matmul(full.x, F64(c, CJ_SHAPE(3, 3), 1, 0, 1, 0, 1, 1, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        double value = NAN, apart = 0;
        cj_tensor *first = NULL;
        for (int k = 0; k < 8; k++) {
            cj_tensor *w = cj_keep(cj_mul_scalar(normal(CJ_SHAPE(3)), 3));
            cj_solution out;
            assert_true(cj_lbfgs(c, least_squares, i ? &flat : &full, &w, 1, &out, .iterations = 1000, .tolerance = 1e-9));
            assert_true(out.converged && out.gradient <= 1e-9); /* stops where it says */
            if (k) {
                assert_near(out.value, value, 1e-10);
                apart = fmax(apart, distance(w, first));
            } else {
                value = out.value, first = w;
            }
            if (k) cj_release(w);
        }
        cj_release(first);
        assert_true(i ? apart > 0.5 : apart < 1e-6); /* strictly convex: one point; else a flat set of them */
    }
    cj_scope_close(s);
}

static void cvx_rate_class(void **state) /* cvx.rate-class */
{
    (void)state;
    double gap[400], w = 1;
    for (int t = 0; t < 400; t++) gap[t] = pow(0.9, t);
    assert_int_equal(cj_convergence_class(gap, 400), CJ_RATE_LINEAR);
    for (int t = 0; t < 400; t++) gap[t] = 1. / (t + 1);
    assert_int_equal(cj_convergence_class(gap, 400), CJ_RATE_SUBLINEAR);
    for (int t = 0; t < 400; t++) gap[t] = pow(2, -pow(2, t));
    assert_int_equal(cj_convergence_class(gap, 400), CJ_RATE_SUPERLINEAR);
    /* descent on (w² + 10 v²)/2 with 1/L, on w^4 with 0.1; Newton on e^w - w, whose minimum is 1 */
    double v = 1;
    for (int t = 0; t < 200; t++) gap[t] = (w * w + 10 * v * v) / 2, w -= 0.1 * w, v -= 0.1 * 10 * v;
    assert_int_equal(cj_convergence_class(gap, 200), CJ_RATE_LINEAR);
    w = 1;
    for (int t = 0; t < 400; t++) gap[t] = w * w * w * w, w -= 0.1 * 4 * w * w * w;
    assert_int_equal(cj_convergence_class(gap, 400), CJ_RATE_SUBLINEAR);
    w = 1;
    for (int t = 0; t < 6; t++) gap[t] = exp(w) - w - 1, w -= (exp(w) - 1) / exp(w);
    assert_int_equal(cj_convergence_class(gap, 5), CJ_RATE_SUPERLINEAR);
    assert_int_equal(cj_convergence_class(gap, 3), CJ_RATE_UNKNOWN);
}

static void lab_nets_nonconvex(void **state) /* lab.nets-nonconvex */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    data d = sample();
    cj_tensor *low = cj_full(c, -2, CJ_SHAPE(3), CJ_F64), *high = cj_full(c, 2, CJ_SHAPE(3), CJ_F64);
    assert_true(cj_check_convex(c, last_layer, &d, low, high, .segments = 10000, .values_only = true).convex);
    cj_convexity joint = check(two_layers, &d, -2, 2, 9, true);
    assert_false(joint.convex);
    cj_tensor *middle = cj_add(cj_mul_scalar(joint.a, joint.lambda), cj_mul_scalar(joint.b, 1 - joint.lambda));
    double u = cj_item(two_layers(c, &d, &joint.a, 1)), v = cj_item(two_layers(c, &d, &joint.b, 1));
    assert_true(cj_item(two_layers(c, &d, &middle, 1)) > joint.lambda * u + (1 - joint.lambda) * v + 1e-9);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cvx_checker),        cmocka_unit_test(cvx_catalogue),    cmocka_unit_test(cvx_midpoint),
        cmocka_unit_test(cvx_closure),        cmocka_unit_test(cvx_inequalities), cmocka_unit_test(cvx_first_order),
        cmocka_unit_test(cvx_second_order),   cmocka_unit_test(cvx_strong),       cmocka_unit_test(cvx_pl),
        cmocka_unit_test(cvx_smooth),         cmocka_unit_test(cvx_gap_sandwich), cmocka_unit_test(cvx_cocoercive),
        cmocka_unit_test(cvx_spectrum),       cmocka_unit_test(cvx_optimality),   cmocka_unit_test(cvx_rate_class),
        cmocka_unit_test(lab_nets_nonconvex),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
