/* What calculus and convexity are said to do.  Each case carries the name of the claim that it checks. */
#include "support.h"

#include <cajal/math.h>

TEST_CONTEXT(.seed = 71);

static cj_tensor *number(double v) { return cj_from_f64(c, &v, CJ_SCALAR); }

/* ---- calc.taylor ------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *exp_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)user, (void)n, cj_exp(in[0]); }
static cj_tensor *sin_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)user, (void)n, cj_sin(in[0]); }
static cj_tensor *log1p_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)user, (void)n, cj_log1p(in[0]); }

static void calc_taylor(void **state)
{
    (void)state;
    const cj_fn fns[] = { exp_fn, sin_fn, log1p_fn };
    const double x0 = 0.3, x = 1.1, exact[] = { exp(x), sin(x), log1p(x) };
    for (int f = 0; f < 3; f++) {
        double before = INFINITY;
        for (int n = 0; n <= 5; n++) {
            const double p = cj_item(cj_taylor(c, fns[f], NULL, number(x0), n, number(x)));
            const cj_integral r = cj_taylor_remainder(c, fns[f], NULL, x0, n, x);
            assert_near(p + r.value, exact[f], 1e-10);
            assert_true(fabs(r.value) < before && r.converged);
            before = fabs(r.value);
        }
    }
    /* the derivatives themselves: sin repeats after 4, log(1 + x) has (-1)^(k+1) (k-1)! / (1 + x)^k */
    for (int k = 1; k <= 6; k++) {
        const double s[] = { sin(x), cos(x), -sin(x), -cos(x) };
        assert_near(cj_item(cj_derivative(c, sin_fn, NULL, number(x), k)), s[k % 4], 1e-14);
        assert_near(cj_item(cj_derivative(c, log1p_fn, NULL, number(x), k)), (k % 2 ? 1 : -1) * tgamma(k) / pow(1 + x, k), 1e-12);
    }
    assert_refused(CJ_EVALUE, "derivative: a function and an order of 0 to 8 are expected, found one and 9",
                   cj_derivative(c, sin_fn, NULL, number(1), 9));
    assert_refused(CJ_EVALUE, "taylor_remainder: a function and a degree from 0 to 7", cj_taylor_remainder(c, sin_fn, NULL, 0, 8, 1));
    assert_refused(CJ_EVALUE, "taylor: a degree from 0 to 8 is expected, found -1", cj_taylor(c, sin_fn, NULL, number(0), -1, number(1)));
}

/* ---- calc.convex_check ------------------------------------------------------------------------------------------------------------------------- */

enum { ROWS = 6 };
static const double features[2 * ROWS] = { 1, 0.2, 1, -1.3, 1, 0.7, 1, 1.9, 1, -0.4, 1, 0.1 },
                                 targets[ROWS] = { 0.3, -1, 1.2, 2, -0.6, 0.4 }, labels[ROWS] = { 1, -1, 1, 1, 1, -1 };
typedef enum loss { LEAST_SQUARES, LOGISTIC, HINGE, TWO_LAYERS, SINE } loss;

static cj_tensor *loss_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    const loss which = *(loss *)user;
    cj_tensor *w = in[0], *x = f64(ctx, features, CJ_SHAPE(ROWS, 2)), *y = f64(ctx, targets, CJ_SHAPE(ROWS)),
              *s = f64(ctx, labels, CJ_SHAPE(ROWS));
    if (which == SINE) return cj_sum(cj_sin(w));
    if (which == TWO_LAYERS) { /* w_3 tanh(w_1 + w_2 x) */
        cj_tensor *h = cj_tanh(cj_matmul(x, cj_slice(w, 0, 0, 2, 1)));
        return cj_mean(cj_square(cj_sub(cj_mul(cj_slice(w, 0, 2, 3, 1), h), y)));
    }
    cj_tensor *z = cj_matmul(x, w), *margin = cj_mul(s, z);
    if (which == LEAST_SQUARES) return cj_mean(cj_square(cj_sub(z, y)));
    return cj_mean(which == LOGISTIC ? cj_softplus(cj_neg(margin)) : cj_relu(cj_add_scalar(cj_neg(margin), 1)));
}
static double loss_at(loss which, cj_tensor *w) { return cj_item(loss_fn(c, &which, &w, 1)); }

static void calc_convex_check(void **state)
{
    (void)state;
    for (loss which = LEAST_SQUARES; which <= SINE; which++) {
        const int64_t n = which == TWO_LAYERS ? 3 : which == SINE ? 1 : 2;
        cj_tensor *low = cj_full(c, -3, CJ_SHAPE(n), CJ_F64), *high = cj_full(c, 3, CJ_SHAPE(n), CJ_F64);
        const cj_convexity r = cj_check_convex(c, loss_fn, &which, low, high);
        assert_ok(c);
        assert_true(r.convex == (which < TWO_LAYERS));
        assert_true(r.strict == (which <= LOGISTIC)); /* the hinge has flat and straight pieces */
        if (r.convex) {
            assert_null(r.broken);
            continue;
        }
        /* the segment that it shows does break the inequality */
        assert_non_null(r.broken);
        if (strcmp(r.broken, "chord") == 0) {
            cj_tensor *between = cj_add(cj_mul_scalar(r.a, r.lambda), cj_mul_scalar(r.b, 1 - r.lambda));
            const double chord = r.lambda * loss_at(which, r.a) + (1 - r.lambda) * loss_at(which, r.b);
            assert_true(loss_at(which, between) > chord);
            assert_near(chord - loss_at(which, between), r.gap, 1e-12);
        }
    }
    /* midpoints alone reject the sine too; values alone accept a function that has no gradient */
    loss which = SINE;
    assert_false(cj_check_convex(c, loss_fn, &which, number(-3), number(3), .values_only = true).convex);
    which = HINGE;
    assert_true(cj_check_convex(c, loss_fn, &which, F64(c, CJ_SHAPE(2), -3, -3), F64(c, CJ_SHAPE(2), 3, 3), .values_only = true).convex);
    /* a local minimum of a convex loss is the global one: descent from far apart ends at one value */
    for (which = LEAST_SQUARES; which <= LOGISTIC; which++) {
        double found[3];
        for (int start = 0; start < 3; start++) {
            cj_tensor *w = cj_require_grad(F64(c, CJ_SHAPE(2), start ? -5 : 5, start == 2 ? 6 : -4)), *g;
            for (int step = 0; step < 4000; step++) {
                cj_scope s = cj_scope_open(c);
                assert_true(cj_grad(loss_fn(c, &which, &w, 1), &w, 1, &g));
                cj_tensor *next = cj_keep(cj_sub(cj_detach(w), cj_mul_scalar(g, 0.3)));
                cj_scope_close(s);
                w = cj_require_grad(next);
                cj_release(next);
            }
            found[start] = loss_at(which, w);
        }
        assert_near(found[0], found[1], 1e-9);
        assert_near(found[0], found[2], 1e-9);
    }
    assert_refused(CJ_ESHAPE, "check_convex: two corners of one shape are expected",
                   cj_check_convex(c, loss_fn, &which, number(0), F64(c, CJ_SHAPE(2), 1, 1)));
    assert_refused(CJ_EVALUE, "check_convex: the function is NULL", cj_check_convex(c, NULL, NULL, number(0), number(1)));
}

/* ---- calc.convex_functions --------------------------------------------------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name;
    cj_tensor *(*f)(cj_tensor *w); /* [2] -> one value */
    double low, high;
    bool convex, kinks; /* kinks: no derivatives */
} entry;
#define ENTRY(name, expression)                                                                                                            \
    static cj_tensor *name(cj_tensor *w) { return expression; }
static cj_tensor *quadratic(cj_tensor *w, double a, double b, double d)
{
    cj_tensor *m = F64(c, CJ_SHAPE(2, 2), a, b, b, d), *linear = F64(c, CJ_SHAPE(2), 1, -2);
    return cj_add_scalar(cj_add(cj_dot(w, cj_matmul(m, w)), cj_dot(linear, w)), 3);
}
ENTRY(cube, cj_sum(cj_pow_scalar(w, 3)))
ENTRY(power, cj_sum(cj_pow_scalar(w, 1.5)))
ENTRY(abs_power, cj_sum(cj_pow_scalar(cj_abs(w), 1.5)))
ENTRY(abs_root, cj_sum(cj_pow_scalar(cj_abs(w), 0.5)))
ENTRY(exponential, cj_sum(cj_exp(w)))
ENTRY(minus_log, cj_neg(cj_sum(cj_log(w))))
ENTRY(affine, cj_add_scalar(cj_dot(F64(c, CJ_SHAPE(2), 2, -3), w), 1))
ENTRY(definite, quadratic(w, 2, 1, 0.5))
ENTRY(indefinite, quadratic(w, 2, 1, -0.5))
ENTRY(norm1, cj_sum(cj_abs(w)))
ENTRY(norm3, cj_pow_scalar(cj_sum(cj_pow_scalar(cj_abs(w), 3)), 1.0 / 3))
ENTRY(norm_inf, cj_max(cj_abs(w)))
ENTRY(log_sum_exp, cj_logsumexp(w, .axes = CJ_AXIS(0)))
ENTRY(positive_sum, cj_add(cj_mul_scalar(exponential(w), 2), cj_mul_scalar(abs_power(w), 0.5)))
ENTRY(larger, cj_maximum(definite(w), affine(w)))
ENTRY(rising_of_convex, cj_exp(cj_mul_scalar(cj_sum(cj_square(w)), 0.2)))
ENTRY(falling_of_convex, cj_exp(cj_mul_scalar(cj_sum(cj_square(w)), -0.2))) /* e^-u is convex, but decreasing */

static cj_tensor *entry_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    return (void)ctx, (void)n, ((const entry *)user)->f(in[0]);
}
static void calc_convex_functions(void **state)
{
    (void)state;
    static const entry entries[] = {
        { "w^3, w > 0", cube, 0.1, 4, true, false },
        { "w^1.5, w > 0", power, 0.1, 4, true, false },
        { "|w|^1.5", abs_power, -4, 4, true, true },
        { "exp", exponential, -3, 3, true, false },
        { "-log w, w > 0", minus_log, 0.05, 4, true, false },
        { "affine", affine, -4, 4, true, false },
        { "psd quadratic", definite, -4, 4, true, false },
        { "1-norm", norm1, -4, 4, true, true },
        { "3-norm", norm3, -4, 4, true, true },
        { "max-norm", norm_inf, -4, 4, true, true },
        { "log-sum-exp", log_sum_exp, -4, 4, true, false },
        { "positive sum", positive_sum, -3, 3, true, true },
        { "max", larger, -4, 4, true, true },
        { "increasing convex of convex", rising_of_convex, -3, 3, true, false },
        { "w^3", cube, -4, 4, false, false },
        { "indefinite quadratic", indefinite, -4, 4, false, false },
        { "|w|^0.5", abs_root, -4, 4, false, true },
        { "decreasing convex of convex", falling_of_convex, -3, 3, false, false },
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const entry *e = &entries[i];
        cj_tensor *low = F64(c, CJ_SHAPE(2), e->low, e->low), *high = F64(c, CJ_SHAPE(2), e->high, e->high);
        const cj_convexity r = cj_check_convex(c, entry_fn, (void *)e, low, high, .values_only = e->kinks);
        if (!cj_ok(c) || r.convex != e->convex)
            fail_msg("%s: %s %s", e->name, r.convex ? "accepted" : r.broken ? r.broken : "", cj_message(c));
    }
    /* f'' >= 0 in one dimension */
    for (double w = -3; w <= 3; w += 0.25) assert_true(cj_item(cj_derivative(c, exp_fn, NULL, number(w), 2)) >= 0);
    assert_true(cj_item(cj_derivative(c, sin_fn, NULL, number(1), 2)) < 0);
}

/* ---- calc.subdifferential ---------------------------------------------------------------------------------------------------------------------------- */

static double relu(void *user, double z) { return (void)user, z > 0 ? z : 0; }
static double modulus(void *user, double z) { return (void)user, fabs(z); }
static double hinge(void *user, double z) { return (void)user, fmax(0, 1 - z); }
static double smooth(void *user, double z) { return (void)user, (z - 1) * (z - 1); }

static void calc_subdifferential(void **state)
{
    (void)state;
    const struct {
        cj_real_fn f;
        double at, low, high;
    } cases[] = { { relu, 0, 0, 1 },       { modulus, 0, -1, 1 }, { hinge, 1, -1, 0 }, { relu, 2, 1, 1 },
                  { modulus, -1, -1, -1 }, { hinge, 0, -1, -1 },  { smooth, 1, 0, 0 }, { smooth, 3, 4, 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double z0 = cases[i].at, f0 = cases[i].f(NULL, z0);
        const cj_interval d = cj_subdifferential(c, cases[i].f, NULL, z0);
        assert_near(d.low, cases[i].low, 1e-9);
        assert_near(d.high, cases[i].high, 1e-9);
        bool minimiser = true;
        for (double z = -5; z <= 5; z += 0.125) {
            minimiser = minimiser && cases[i].f(NULL, z) >= f0;
            for (int k = 0; k <= 10; k++) { /* every slope of the interval supports the graph */
                const double slope = d.low + (d.high - d.low) * k / 10;
                assert_true(cases[i].f(NULL, z) - f0 >= slope * (z - z0) - 1e-8);
            }
        }
        assert_true((d.low <= 1e-9 && d.high >= -1e-9) == minimiser);
        assert_true(cases[i].f(NULL, z0 + 1e-3) - f0 < (d.high + 0.1) * 1e-3); /* and none beyond */
        assert_true(cases[i].f(NULL, z0 - 1e-3) - f0 < -(d.low - 0.1) * 1e-3);
    }
    assert_refused(CJ_EVALUE, "subdifferential: a function and a finite place are expected, found NULL and 0",
                   cj_subdifferential(c, NULL, NULL, 0));
}

/* ---- calc.elementary ---------------------------------------------------------------------------------------------------------------------------------- */

static double u_dv(void *user, double x) { return (void)user, x * x * cos(x); } /* u = x², v = sin x */
static double du_v(void *user, double x) { return (void)user, 2 * x * sin(x); }

static void calc_elementary(void **state)
{
    (void)state;
    /* |log(1 + x) - x| <= x² */
    cj_tensor *x = cj_uniform(c, -0.5, 0.5, CJ_SHAPE(1000), .dtype = CJ_F64);
    assert_true(cj_item(cj_max(cj_sub(cj_abs(cj_sub(cj_log1p(x), x)), cj_square(x)))) <= 0);
    for (int k = 0; k < 20; k++) { /* a (1 - r^(n+1)) / (1 - r), and its limit */
        const double a = cj_item(cj_uniform(c, -2, 2, CJ_SCALAR, .dtype = CJ_F64)),
                     r = cj_item(cj_uniform(c, -0.9, 0.9, CJ_SCALAR, .dtype = CJ_F64));
        double *sums = values_of(cj_cumsum(cj_mul_scalar(cj_pow(cj_full(c, r, CJ_SCALAR, CJ_F64), cj_arange(c, 0, 400, 1, CJ_F64)), a), 0));
        for (int n = 0; n < 400; n += 13) assert_near(sums[n], a * (1 - pow(r, n + 1)) / (1 - r), 1e-12);
        assert_near(sums[399], a / (1 - r), 1e-12);
        free(sums);
    }
    /* (sum a)² = sum a² + 2 sum_(i<j) a_i a_j */
    cj_tensor *a = cj_randn(c, CJ_SHAPE(30), .dtype = CJ_F64);
    const double pairs = cj_item(cj_sum(cj_triu(cj_outer(a, a), 1))), whole = cj_item(cj_sum(a));
    assert_near(whole * whole, cj_item(cj_sum(cj_square(a))) + 2 * pairs, 1e-12);
    /* integration by parts */
    const double low = -0.4, high = 2.3, ends = high * high * sin(high) - low * low * sin(low);
    assert_near(cj_integrate(c, u_dv, NULL, low, high).value, ends - cj_integrate(c, du_v, NULL, low, high).value, 1e-12);
    /* C(n, k) = C(n-1, k-1) + C(n-1, k); sums of a row are 2^n; and the gamma function agrees */
    double row[41] = { 1 };
    for (int n = 1; n <= 40; n++) {
        double sum = 0;
        for (int k = n; k > 0; k--) row[k] += row[k - 1];
        for (int k = 0; k <= n; k++) {
            const double by_gamma = exp(cj_item(cj_neg(cj_lbeta(number(k + 1), number(n - k + 1))))) / (n + 1);
            assert_near(by_gamma / row[k], 1, 1e-12);
            sum += row[k];
        }
        assert_near(sum, ldexp(1, n), 0);
    }
}

/* ---- calc.hyperplane -------------------------------------------------------------------------------------------------------------------------------------- */

typedef cj_tensor *map(cj_tensor *x);
static cj_tensor *matrix(void) { return F64(c, CJ_SHAPE(2, 3), 1, -2, 0.5, 0.3, 1, 4); }
static cj_tensor *linear_map(cj_tensor *x) { return cj_matmul(matrix(), x); }
static cj_tensor *affine_map(cj_tensor *x) { return cj_add(linear_map(x), F64(c, CJ_SHAPE(2), 1, -1)); }
static cj_tensor *relu_map(cj_tensor *x) { return cj_relu(x); }
static cj_tensor *two_maps(cj_tensor *x) { return cj_matmul(F64(c, CJ_SHAPE(2, 2), 0.5, 1, -1, 2), linear_map(x)); }
static double worst_of(map *f, bool affine)
{
    double worst = 0;
    for (int k = 0; k < 20; k++) {
        cj_tensor *x = cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64), *y = cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64);
        const double a = 1.7 - 0.2 * k, b = affine ? 1 - a : 0.3 * k;
        cj_tensor *mixed = f(cj_add(cj_mul_scalar(x, a), cj_mul_scalar(y, b)));
        worst = fmax(worst, distance(mixed, cj_add(cj_mul_scalar(f(x), a), cj_mul_scalar(f(y), b))));
    }
    return worst;
}
static cj_tensor *ridge(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)n, cj_tanh(cj_dot(in[0], user)); }

static void calc_hyperplane(void **state)
{
    (void)state;
    cj_tensor *w = F64(c, CJ_SHAPE(4), 1, -2, 0.5, 3), *p = F64(c, CJ_SHAPE(4), 0.2, 1, -1, 0.4);
    const double b = cj_item(cj_dot(w, p)), length = sqrt(cj_item(cj_dot(w, w)));
    for (int k = 0; k < 50; k++) {
        cj_tensor *x = cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64);
        const double level = cj_item(cj_dot(w, x)) - b;
        assert_near(level, cj_item(cj_dot(w, cj_sub(x, p))), 1e-12); /* the two forms of H */
        cj_tensor *foot = cj_sub(x, cj_mul_scalar(w, level / (length * length)));
        assert_near(cj_item(cj_dot(w, foot)), b, 1e-12);
        const double apart = sqrt(cj_item(cj_sum(cj_square(cj_sub(x, foot)))));
        assert_near(apart, fabs(level) / length, 1e-12);
        /* no other point of H is nearer */
        cj_tensor *along = cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64);
        along = cj_sub(along, cj_mul_scalar(w, cj_item(cj_dot(w, along)) / (length * length)));
        assert_true(sqrt(cj_item(cj_sum(cj_square(cj_sub(x, cj_add(foot, along)))))) >= apart);
        /* the ridge tanh(x·w): |grad| = |phi'| |w|, and nothing changes orthogonally to w */
        cj_tensor *at = cj_require_grad(cj_mul_scalar(x, 0.2)), *g;
        cj_tensor *y = ridge(c, w, &at, 1);
        const double value = cj_item(y);
        assert_true(cj_grad(y, &at, 1, &g));
        assert_near(sqrt(cj_item(cj_dot(g, g))), (1 - value * value) * length, 1e-12);
        cj_tensor *moved = cj_add(cj_detach(at), along);
        assert_near(cj_item(ridge(c, w, &moved, 1)), value, 1e-12);
    }
    assert_true(worst_of(linear_map, false) < 1e-12 && worst_of(two_maps, false) < 1e-12);
    assert_true(worst_of(affine_map, true) < 1e-12 && worst_of(affine_map, false) > 0.1);
    assert_true(worst_of(linear_map, true) < 1e-12);
    assert_true(worst_of(relu_map, false) > 0.1 && worst_of(relu_map, true) > 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calc_taylor),          cmocka_unit_test(calc_convex_check), cmocka_unit_test(calc_convex_functions),
        cmocka_unit_test(calc_subdifferential), cmocka_unit_test(calc_elementary),   cmocka_unit_test(calc_hyperplane),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
