/* The catalogue's families `opt` and `sched`: one test case per row, named after its id (docs/coverage.tsv).  Everything in f64. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

static cj_tensor *vector(const double *v, int64_t n) { return cj_keep((cj_from_f64)(c, v, CJ_SHAPE(n))); }

/* A module with one parameter, to give to an optimiser. */
static const cj_module_type holder_type = { "holder", NULL, NULL };
static cj_params *holder(const double *v, int64_t n)
{
    cj_module *m = cj_module_new(c, &holder_type, 0);
    cj_module_param(m, "w", (cj_from_f64)(c, v, CJ_SHAPE(n)));
    return cj_module_params(m);
}
/* One step along the gradient g. */
static void push(cj_optim *o, const double *g, int64_t n)
{
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(o, cj_sum(cj_mul(cj_params_at(cj_optim_params(o), 0), (cj_from_f64)(c, g, CJ_SHAPE(n))))));
    cj_scope_close(s);
}
static double w_of(cj_optim *o, int64_t i) { return value_at(cj_params_at(cj_optim_params(o), 0), i); }

/* ---- functions to minimise ----------------------------------------------------------------------------------------------------------------------- */

/* 1/2 wᵀAw - bᵀw, A = [[3, 1, 0], [1, 2, 0.5], [0, 0.5, 1]]; its minimum for b = A (1, -2, 3) is there. */
static const double quadratic_a[9] = { 3, 1, 0, 1, 2, 0.5, 0, 0.5, 1 }, quadratic_b[3] = { 1, -1.5, 2 }, quadratic_min[3] = { 1, -2, 3 };
static cj_tensor *quadratic(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *a = (cj_from_f64)(k, quadratic_a, CJ_SHAPE(3, 3)), *b = (cj_from_f64)(k, quadratic_b, CJ_SHAPE(3));
    cj_tensor *aw = cj_reshape(cj_matmul(a, cj_reshape(x[0], CJ_SHAPE(3, 1))), CJ_SHAPE(3));
    return cj_sub(cj_mul_scalar(cj_sum(cj_mul(x[0], aw)), 0.5), cj_sum(cj_mul(b, x[0])));
}
/* 1/2 (m w0² + L w1²), user: m and L */
static cj_tensor *diagonal(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    return cj_mul_scalar(cj_sum(cj_mul(cj_square(x[0]), (cj_from_f64)(k, user, CJ_SHAPE(2)))), 0.5);
}
static cj_tensor *rosenbrock(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    cj_tensor *a = cj_select(x[0], 0, 0), *b = cj_select(x[0], 0, 1);
    return cj_add(cj_mul_scalar(cj_square(cj_sub(b, cj_square(a))), 100), cj_square(cj_add_scalar(cj_neg(a), 1)));
}
/* Logistic regression on 20 points with a small ridge. */
static cj_tensor *logistic(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    double f[60], y[20];
    for (int i = 0; i < 20; i++) {
        f[3 * i] = 1, f[3 * i + 1] = sin(i * 1.7), f[3 * i + 2] = cos(i * 0.9);
        y[i] = f[3 * i + 1] + 0.3 * cos(i * 2.3) > 0;
    }
    cj_tensor *z = cj_reshape(cj_matmul((cj_from_f64)(k, f, CJ_SHAPE(20, 3)), cj_reshape(x[0], CJ_SHAPE(3, 1))), CJ_SHAPE(20));
    return cj_add(cj_bce_with_logits(z, (cj_from_f64)(k, y, CJ_SHAPE(20))), cj_mul_scalar(cj_sum(cj_square(x[0])), 0.005));
}

/* The same in other units: w = scale · x. */
static const double scale[3] = { 10, 0.1, 3 };
static cj_tensor *scaled_logistic(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    cj_tensor *w = cj_mul(x[0], (cj_from_f64)(k, scale, CJ_SHAPE(3)));
    return logistic(k, user, &w, n);
}
/* Mean square error of the line x0 t + x1 at t = 0 … 4 against 2 t - 1 + (0, 1, 0, -1, 0); the closed form is slope 1.8, intercept -0.6. */
static cj_tensor *line_fit(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    static const double y[5] = { -1, 2, 3, 4, 7 };
    (void)user, (void)n;
    cj_tensor *z = cj_add(cj_mul(cj_select(x[0], 0, 0), cj_arange(k, 0, 5, 1, CJ_F64)), cj_select(x[0], 0, 1));
    return cj_mean(cj_square(cj_sub(z, (cj_from_f64)(k, y, CJ_SHAPE(5)))));
}
/* A network of 8 tanh units on 24 points of a sine. */
static cj_tensor *network(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *t = cj_mul_scalar(cj_arange(k, -12, 12, 1, CJ_F64), 0.25);
    cj_tensor *h = cj_tanh(cj_add(cj_mul(cj_reshape(t, CJ_SHAPE(24, 1)), x[0]), x[1]));
    return cj_mse_loss(cj_reshape(cj_matmul(h, cj_reshape(x[2], CJ_SHAPE(8, 1))), CJ_SHAPE(24)), cj_sin(t));
}

/* ---- full-batch rows ----------------------------------------------------------------------------------------------------------------------------- */

/* opt.gd: full-batch gradient descent */
static void opt_gd(void **state)
{
    (void)state;
    double ml[2] = { 0.1, 1 }, one[2] = { 1, 1 };
    for (int k = 1; k <= 8; k *= 2) { /* eta = 2 / (m + L): both extreme directions shrink by (kappa - 1) / (kappa + 1) */
        cj_tensor *w = vector(one, 2);
        assert_true(cj_descent(c, diagonal, ml, &w, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 2 / 1.1, .iterations = k));
        assert_near(value_at(w, 0), pow(9.0 / 11, k), 1e-12);
        assert_near(value_at(w, 1), pow(-9.0 / 11, k), 1e-12);
    }
    cj_tensor *w = vector(one, 2);
    cj_solution found;
    assert_true(cj_descent(c, diagonal, ml, &w, 1, &found, .search = CJ_SEARCH_FIXED, .step = 1.99, .iterations = 5000));
    assert_true(found.converged);
    assert_near(value_at(w, 0) + value_at(w, 1), 0, 1e-6);
    w = vector(one, 2); /* linear regression reaches the closed form */
    assert_true(
        cj_descent(c, line_fit, NULL, &w, 1, &found, .search = CJ_SEARCH_FIXED, .step = 0.1, .iterations = 5000, .tolerance = 1e-12));
    assert_true(found.converged);
    assert_near(value_at(w, 0), 1.8, 1e-10);
    assert_near(value_at(w, 1), -0.6, 1e-10);
    w = vector(one, 2);
    assert_true(cj_descent(c, diagonal, ml, &w, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 2.01, .iterations = 400));
    assert_true(fabs(value_at(w, 1)) > 50); /* 1.01^400 = 53.5 */
    w = vector(one, 2);
    assert_false(cj_descent(c, diagonal, ml, &w, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 1e200, .iterations = 400));
    assert_error(c, CJ_EVALUE, "descent: the function or its gradient is not finite after");
    cj_clear(c);
    assert_near(value_at(w, 1), 1, 0); /* as it was */
}

/* opt.exact_line_search: exact line search */
static void opt_exact_line_search(void **state)
{
    (void)state;
    double start[3] = { 0, 0, 0 }, before = INFINITY;
    cj_tensor *w = vector(start, 3);
    cj_solution found;
    /* the first step from 0 along d = b: b·b / b·Ab */
    double bb = 1 + 2.25 + 4, bab = 3 * 1 + 2 * 2.25 + 4 - 2 * 1.5 - 1.5 * 2;
    assert_true(cj_descent(c, quadratic, NULL, &w, 1, &found, .search = CJ_SEARCH_EXACT, .iterations = 1));
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), bb / bab * quadratic_b[i], 1e-12);
    cj_tensor *g[1];
    (cj_vjp)(c, quadratic, NULL, &w, 1, NULL, g);
    double along = 0; /* the new gradient is orthogonal to the direction */
    for (int i = 0; i < 3; i++) along += value_at(g[0], i) * quadratic_b[i];
    assert_near(along, 0, 1e-12);
    for (int k = 0; k < 40; k++) {
        assert_true(cj_descent(c, quadratic, NULL, &w, 1, &found, .search = CJ_SEARCH_EXACT, .iterations = 1));
        assert_true(found.value <= before);
        before = found.value;
    }
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), quadratic_min[i], 1e-6);
    double saddle[2] = { 1, -1 }, at[2] = { 0.1, 1 };
    w = vector(at, 2);
    assert_false(cj_descent(c, diagonal, saddle, &w, 1, NULL, .search = CJ_SEARCH_EXACT));
    assert_error(c, CJ_EVALUE, "an exact line search needs a positive one");
    cj_clear(c);
}

/* opt.backtracking: Armijo and strong Wolfe */
static void opt_backtracking(void **state)
{
    (void)state;
    double start[2] = { -1.2, 1 }, before = 24.2; /* f(-1.2, 1) */
    static const cj_search searches[] = { CJ_SEARCH_ARMIJO, CJ_SEARCH_WOLFE };
    for (int k = 0; k < 2; k++) {
        cj_tensor *w = vector(start, 2), *g[1];
        double f = before;
        for (int i = 0; i < 30; i++) { /* what the search promises, checked from outside at every step */
            double w0 = value_at(w, 0), w1 = value_at(w, 1);
            (cj_vjp)(c, rosenbrock, NULL, &w, 1, NULL, g);
            double g0 = value_at(g[0], 0), g1 = value_at(g[0], 1);
            cj_solution found;
            assert_true(cj_descent(c, rosenbrock, NULL, &w, 1, &found, .search = searches[k], .iterations = 1));
            assert_int_equal(found.iterations, 1);
            double moved = g0 * (value_at(w, 0) - w0) + g1 * (value_at(w, 1) - w1); /* step · slope */
            assert_true(moved < 0 && found.value <= f + 1e-4 * moved + 1e-14);
            if (k == 1) {
                (cj_vjp)(c, rosenbrock, NULL, &w, 1, NULL, g);
                double slope = -(g0 * g0 + g1 * g1), now = -(g0 * value_at(g[0], 0) + g1 * value_at(g[0], 1));
                assert_true(fabs(now) <= -0.9 * slope + 1e-12);
            }
            f = found.value;
        }
    }
    double curvature[2] = { -1, -1 }, at[2] = { 1, 1 }; /* Newton goes uphill there: a search refuses */
    cj_tensor *w = vector(at, 2);
    assert_false(cj_newton(c, diagonal, curvature, &w, 1, NULL, .search = CJ_SEARCH_ARMIJO));
    assert_error(c, CJ_EVALUE, "newton: the direction has slope");
    cj_clear(c);
}

/* opt.newton: Newton's method */
static void opt_newton(void **state)
{
    (void)state;
    double zero[3] = { 0 };
    cj_tensor *w = vector(zero, 3), *v = vector(zero, 3);
    cj_solution found;
    assert_true(cj_newton(c, quadratic, NULL, &w, 1, &found)); /* one step on quadratics */
    assert_int_equal(found.iterations, 1);
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), quadratic_min[i], 1e-12);
    w = vector(zero, 3);
    assert_true(cj_newton(c, logistic, NULL, &v, 1, &found, .tolerance = 1e-14));
    double best = found.value, gap = INFINITY;
    for (int k = 0; k < 9; k++) { /* quadratic convergence: gap+ / gap² bounded */
        assert_true(cj_newton(c, logistic, NULL, &w, 1, &found, .iterations = 1, .tolerance = 1e-14));
        double next = found.value - best;
        if (k > 0 && gap > 1e-7) assert_true(next <= 200 * gap * gap);
        gap = next;
    }
    assert_near(distance(v, w), 0, 1e-8);
    w = vector(zero, 3), v = vector(zero, 3);
    for (int k = 0; k < 5; k++) { /* the units of w do not matter */
        assert_true(cj_newton(c, logistic, NULL, &w, 1, NULL, .iterations = 1));
        assert_true(cj_newton(c, scaled_logistic, NULL, &v, 1, NULL, .iterations = 1));
        for (int i = 0; i < 3; i++) assert_near(scale[i] * value_at(v, i), value_at(w, i), 1e-9);
    }
}

/* opt.newton_cg: Newton-CG with Hessian-vector products */
static void opt_newton_cg(void **state)
{
    (void)state;
    double zero[3] = { 0 };
    cj_tensor *w = vector(zero, 3), *v = vector(zero, 3);
    cj_solution found;
    for (int k = 0; k < 5; k++) { /* the same iterates as the dense method */
        assert_true(cj_newton(c, logistic, NULL, &w, 1, NULL, .iterations = 1));
        assert_true(cj_newton_cg(c, logistic, NULL, &v, 1, NULL, .iterations = 1, .cg_tolerance = 1e-12));
        assert_near(distance(v, w), 0, 1e-6);
    }
    v = vector(zero, 3);
    assert_true(cj_newton_cg(c, logistic, NULL, &v, 1, &found));
    assert_true(found.converged && found.iterations <= 10);
    assert_near(distance(v, w), 0, 1e-6);
    double start[2] = { -1.2, 1 }, curved[2] = { 1, -1 }, at[2] = { 1, 1e-3 };
    w = vector(start, 2);
    assert_true(cj_newton_cg(c, rosenbrock, NULL, &w, 1, &found, .iterations = 200));
    assert_near(value_at(w, 0), 1, 1e-6);
    w = vector(at, 2);
    assert_true(cj_newton_cg(c, diagonal, curved, &w, 1, &found, .iterations = 3)); /* negative curvature: it still goes down */
    assert_true(found.value < 0.5 - 0.5e-6);
}

/* opt.bfgs: BFGS */
static void opt_bfgs(void **state)
{
    (void)state;
    double zero[3] = { 0 }, start[2] = { -1.2, 1 };
    cj_tensor *w = vector(zero, 3);
    cj_solution found;
    assert_true(cj_bfgs(c, quadratic, NULL, &w, 1, &found, .search = CJ_SEARCH_EXACT)); /* at most n steps */
    assert_true(found.converged && found.iterations <= 3);
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), quadratic_min[i], 1e-8);
    w = vector(start, 2);
    assert_true(cj_bfgs(c, rosenbrock, NULL, &w, 1, &found));
    assert_true(found.value < 1e-12 && found.iterations < 60);
    assert_near(value_at(w, 0), 1, 1e-6);
    assert_near(value_at(w, 1), 1, 1e-6);
}

/* opt.lbfgs: L-BFGS beside BFGS and gradient descent */
static void opt_lbfgs(void **state)
{
    (void)state;
    double start[2] = { -1.2, 1 };
    for (int k = 1; k <= 20; k++) { /* enough memory and H0 = I: BFGS */
        cj_tensor *w = vector(start, 2), *v = vector(start, 2);
        assert_true(cj_bfgs(c, rosenbrock, NULL, &w, 1, NULL, .iterations = k));
        assert_true(cj_lbfgs(c, rosenbrock, NULL, &v, 1, NULL, .iterations = k, .history = 20, .unscaled = true));
        assert_near(distance(v, w), 0, 1e-8);
    }
    cj_tensor *w = vector(start, 2), *v = vector(start, 2);
    cj_solution found, plain;
    assert_true(cj_lbfgs(c, rosenbrock, NULL, &w, 1, &found));
    assert_true(found.converged && found.value < 1e-12);
    assert_true(cj_descent(c, rosenbrock, NULL, &v, 1, &plain, .iterations = found.evaluations)); /* more gradients than L-BFGS had */
    assert_true(plain.value > 1e3 * found.value);
    cj_tensor *net[2][3]; /* a network, full batch: lower loss from as many gradients */
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) net[k][i] = k ? cj_keep(cj_clone(net[0][i])) : cj_keep(cj_randn(c, CJ_SHAPE(8), .dtype = CJ_F64));
    assert_true(cj_lbfgs(c, network, NULL, net[0], 3, &found, .iterations = 60));
    assert_true(cj_descent(c, network, NULL, net[1], 3, &plain, .iterations = found.evaluations));
    assert_true(plain.evaluations >= found.evaluations && found.value < 0.1 * plain.value);
}

/* Residuals of a line through points that lie on one: JᵀJ is the Hessian. */
static cj_tensor *line_residuals(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    cj_tensor *t = cj_arange(k, 0, 5, 1, CJ_F64);
    cj_tensor *r = cj_sub(cj_add(cj_mul(cj_select(x[0], 0, 0), t), cj_select(x[0], 0, 1)), cj_add_scalar(cj_mul_scalar(t, 2), -1));
    return user ? cj_expm1(r) : r;
}
static void gauss_newton(void **state)
{
    (void)state;
    double start[2] = { 0.3, 0.4 };
    cj_tensor *w = vector(start, 2);
    cj_solution found;
    assert_true(cj_gauss_newton(c, line_residuals, NULL, &w, 1, &found)); /* linear least squares: one step */
    assert_int_equal(found.iterations, 1);
    assert_near(value_at(w, 0), 2, 1e-12);
    assert_near(value_at(w, 1), -1, 1e-12);
    double near[2] = { 1.9, -0.9 };
    w = vector(near, 2);
    assert_true(cj_gauss_newton(c, line_residuals, near, &w, 1, &found)); /* zero residual: quadratic convergence */
    assert_true(found.converged && found.iterations <= 8);
    assert_near(value_at(w, 0), 2, 1e-8);
}

/* 1/2 |w - y|² */
static cj_tensor *nearness(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(x[0], (cj_from_f64)(k, user, CJ_SHAPE(3))))), 0.5);
}
/* opt.proximal: proximal gradient (ISTA/FISTA) and coordinate descent */
static void opt_proximal(void **state)
{
    (void)state;
    double y[3] = { 2, -0.3, -1.5 }, zero[3] = { 0 };
    cj_solution found;
    cj_tensor *w = vector(zero, 3);
    assert_true(cj_proximal(c, nearness, y, &w, 1, &found, .weight = 0.5, .step = 1)); /* identity design: the soft threshold itself */
    assert_near(value_at(w, 0), 1.5, 1e-15);
    assert_near(value_at(w, 1), 0, 0);
    assert_near(value_at(w, 2), -1, 1e-15);
    double weight = 1.6;
    for (int fast = 0; fast < 2; fast++) { /* lasso: |gradient| <= weight where w is 0, = -weight sign(w) elsewhere; L < 3.7 */
        cj_tensor *g[1];
        w = vector(zero, 3);
        double before = INFINITY;
        for (int k = 0; k < 20 && !fast; k++) { /* monotone for steps up to 1 / L */
            assert_true(cj_proximal(c, quadratic, NULL, &w, 1, &found, .weight = weight, .step = 1 / 3.7, .iterations = 1));
            double total = found.value + weight * cj_item(cj_sum(cj_abs(w)));
            assert_true(total <= before + 1e-15);
            before = total;
        }
        assert_true(
            cj_proximal(c, quadratic, NULL, &w, 1, &found, .weight = weight, .step = 1 / 3.7, .accelerate = fast, .iterations = 5000));
        assert_true(found.converged);
        (cj_vjp)(c, quadratic, NULL, &w, 1, NULL, g);
        int zeros = 0;
        for (int i = 0; i < 3; i++) {
            double v = value_at(w, i), d = value_at(g[0], i);
            if (v == 0) zeros++, assert_true(fabs(d) <= weight + 1e-9);
            else assert_near(d, v > 0 ? -weight : weight, 1e-8);
        }
        assert_true(zeros > 0);
    }
}

/* opt.projected: projected gradient descent / norm-constrained (max-norm) training */
static void opt_projected(void **state)
{
    (void)state;
    double y[3] = { 2, -2, 1 }, zero[3] = { 0 };
    cj_solution found;
    cj_tensor *w = vector(zero, 3), *free_w = vector(zero, 3);
    assert_true(cj_proximal(c, nearness, y, &w, 1, NULL, .prox = CJ_PROX_BALL, .radius = 1.5, .step = 0.1, .iterations = 3));
    assert_true(cj_descent(c, nearness, y, &free_w, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 0.1, .iterations = 3));
    assert_near(distance(w, free_w), 0, 1e-15); /* inside the ball: unconstrained */
    for (int k = 0; k < 30; k++) {
        assert_true(cj_proximal(c, nearness, y, &w, 1, NULL, .prox = CJ_PROX_BALL, .radius = 1.5, .step = 0.1, .iterations = 1));
        assert_true(sqrt(cj_item(cj_sum(cj_square(w)))) <= 1.5 + 1e-14);
    }
    assert_true(cj_proximal(c, nearness, y, &w, 1, &found, .prox = CJ_PROX_BALL, .radius = 1.5, .step = 0.5));
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), y[i] / 2, 1e-9); /* y / |y| · 1.5: the gradient is parallel to w */
    assert_true(cj_proximal(c, nearness, y, &w, 1, &found, .prox = CJ_PROX_BOX, .low = -1, .high = 1, .step = 0.5));
    static const double box[3] = { 1, -1, 1 };
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), box[i], 1e-9);
}

/* ---- variance reduction: noisy least squares, n = 50, d = 5 ------------------------------------------------------------------------------------------- */

enum { EXAMPLES = 50, D = 5 };
static double features[EXAMPLES][D], target[EXAMPLES];
static cj_tensor *square_of(cj_ctx *k, void *user, cj_tensor *const *x, int n, int64_t i)
{
    (void)user, (void)n;
    cj_tensor *z = cj_sum(cj_mul(x[0], (cj_from_f64)(k, features[i], CJ_SHAPE(D))));
    return cj_mul_scalar(cj_square(cj_add_scalar(z, -target[i])), 0.5);
}
static cj_tensor *mean_square(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *a = (cj_from_f64)(k, &features[0][0], CJ_SHAPE(EXAMPLES, D)), *y = (cj_from_f64)(k, target, CJ_SHAPE(EXAMPLES));
    cj_tensor *z = cj_reshape(cj_matmul(a, cj_reshape(x[0], CJ_SHAPE(D, 1))), CJ_SHAPE(EXAMPLES));
    return cj_mul_scalar(cj_mean(cj_square(cj_sub(z, y))), 0.5);
}
typedef enum method { SAGA, SAG, SVRG } method;
/* f - f* after 2000 steps of eta = 1 / (3 Lmax) from 0 */
static double gap_after(method how, double *constant_sgd)
{
    double *a = values_of(cj_randn(c, CJ_SHAPE(EXAMPLES, D), .dtype = CJ_F64)),
           *e = values_of(cj_randn(c, CJ_SHAPE(EXAMPLES), .dtype = CJ_F64));
    double largest = 0, zero[D] = { 0 };
    for (int i = 0; i < EXAMPLES; i++) {
        double norm = 0;
        target[i] = 0.5 * e[i];
        for (int k = 0; k < D; k++) features[i][k] = a[D * i + k], norm += a[D * i + k] * a[D * i + k], target[i] += a[D * i + k];
        largest = fmax(largest, norm);
    }
    free(a);
    free(e);
    cj_tensor *best = vector(zero, D), *w = vector(zero, D);
    cj_solution exact, found;
    double step = 1 / (3 * largest);
    assert_true(cj_newton(c, mean_square, NULL, &best, 1, &exact, .tolerance = 1e-14, .iterations = 3));
    if (how == SAGA) assert_true(cj_saga(c, square_of, NULL, EXAMPLES, &w, 1, .step = step, .iterations = 2000));
    if (how == SAG) assert_true(cj_sag(c, square_of, NULL, EXAMPLES, &w, 1, .step = step, .iterations = 2000));
    if (how == SVRG) assert_true(cj_svrg(c, square_of, NULL, EXAMPLES, &w, 1, .step = step, .iterations = 2000));
    assert_true(cj_newton(c, mean_square, NULL, &w, 1, &found, .iterations = 1, .tolerance = 1e300)); /* evaluates only */
    if (constant_sgd) {
        cj_tensor *drawn = cj_randint(c, 0, EXAMPLES, CJ_SHAPE(2000));
        double *pick = values_of(drawn), v[D] = { 0 };
        for (int t = 0; t < 2000; t++) {
            int i = (int)pick[t];
            double r = -target[i];
            for (int k = 0; k < D; k++) r += features[i][k] * v[k];
            for (int k = 0; k < D; k++) v[k] -= step * r * features[i][k];
        }
        free(pick);
        cj_tensor *last = vector(v, D);
        cj_solution end;
        assert_true(cj_newton(c, mean_square, NULL, &last, 1, &end, .iterations = 1, .tolerance = 1e300));
        *constant_sgd = end.value - exact.value;
    }
    return found.value - exact.value;
}
/* opt.saga: SAGA */
static void opt_saga(void **state)
{
    (void)state;
    double noisy, gap = gap_after(SAGA, &noisy);
    assert_true(gap < 1e-13);
    assert_true(noisy > 1e-4); /* a constant rate alone stalls */
}
static void opt_sag(void **state)
{
    (void)state;
    assert_true(gap_after(SAG, NULL) < 1e-11);
}
/* opt.svrg: SVRG */
static void opt_svrg(void **state)
{
    (void)state;
    assert_true(gap_after(SVRG, NULL) < 1e-13);
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* opt.adagrad: AdaGrad */
static void opt_adagrad(void **state)
{
    (void)state;
    double start[2] = { 0, 0 }, g[2] = { 3, -1000 }, sum = 0; /* step k of a constant gradient is eta / sqrt(k), whatever its scale */
    cj_optim *o = cj_adagrad(holder(start, 2), .lr = 0.1, .eps = CJ_ZERO);
    for (int k = 1; k <= 20; k++) {
        push(o, g, 2);
        sum += 0.1 / sqrt(k);
        assert_near(w_of(o, 0), -sum, 1e-12);
        assert_near(w_of(o, 1), sum, 1e-12);
    }
    o = cj_adagrad(holder(start, 2), .lr = 0.1, .eps = CJ_ZERO); /* by hand: 3/3, then 4/5 */
    push(o, (double[2]){ 3, 0.3 }, 2);
    push(o, (double[2]){ 4, 0.4 }, 2);
    assert_near(w_of(o, 0), -0.18, 1e-15);
    assert_near(w_of(o, 1), -0.18, 1e-15);
}

/* opt.adam: Adam */
static void opt_adam(void **state)
{
    (void)state;
    double start[2] = { 0, 0 }, g[2] = { 5, -1e-3 };
    cj_optim *o = cj_adam(holder(start, 2), .lr = 0.01, .eps = CJ_ZERO);
    for (int k = 1; k <= 20; k++) { /* a constant gradient gives steps of eta */
        push(o, g, 2);
        assert_near(w_of(o, 0), -0.01 * k, 1e-12);
        assert_near(w_of(o, 1), 0.01 * k, 1e-12);
    }
    double scaled[2] = { 5e3, -1 }; /* the scale of the loss does not matter */
    cj_optim *large = cj_adam(holder(start, 2), .lr = 0.01, .eps = CJ_ZERO);
    o = cj_adam(holder(start, 2), .lr = 0.01, .eps = CJ_ZERO);
    for (int k = 0; k < 10; k++) {
        push(o, (double[2]){ g[0] * cos(k), g[1] }, 2);
        push(large, (double[2]){ scaled[0] * cos(k), scaled[1] }, 2);
        assert_near(w_of(o, 0), w_of(large, 0), 1e-12);
    }
    static const double wrong[3] = { 1, 5.26, 17.8 }; /* the corrected mean of ones, fed back into the recursion */
    double mean = 0;
    for (int t = 1; t <= 3; t++) {
        mean = (0.9 * mean + 0.1) / (1 - pow(0.9, t));
        assert_near(mean, wrong[t - 1], 0.05);
    }
}

static void largest_moment(void *user, const char *name, cj_tensor *t)
{
    if (strcmp(name, "max_exp_avg_sq") == 0) *(double *)user = value_at(t, 0);
}
/* opt.amsgrad: g = 4 at t = 1 mod 3, else -1, on [-1, 1]; beta1 = 0, beta2 = 1/17, eta = 0.5 / sqrt(t) (Reddi, Kale and Kumar 2018) */
static void opt_amsgrad(void **state)
{
    (void)state;
    for (int amsgrad = 0; amsgrad < 2; amsgrad++) {
        double start = 0;
        cj_optim *o = cj_adam(holder(&start, 1), .beta1 = CJ_ZERO, .beta2 = 1.0 / 17, .amsgrad = amsgrad);
        cj_rate rate = cj_rate_inverse_root(0.5, 1);
        assert_true(cj_optim_schedule(o, &rate));
        double before = 0, moment = 0;
        for (int t = 1; t <= 3000; t++) {
            push(o, &(double){ t % 3 == 1 ? 4 : -1 }, 1);
            cj_optim_state(o, largest_moment, &moment);
            assert_true(moment >= before); /* what divides the step never falls */
            before = moment;
            cj_tensor *w = cj_params_at(cj_optim_params(o), 0);
            bool was = cj_no_grad(c);
            cj_scope s = cj_scope_open(c);
            cj_assign_(w, cj_clamp(w, -1, 1));
            cj_scope_close(s);
            cj_grad_mode(c, was);
        }
        assert_near(w_of(o, 0), amsgrad ? -1 : 1, 0.05);
    }
}

/* opt.adamax: AdaMax */
static void opt_adamax(void **state)
{
    (void)state;
    double start[2] = { 0, 0 }, g[2] = { 7, -0.02 };
    cj_optim *o = cj_adamax(holder(start, 2), .lr = 0.01, .eps = CJ_ZERO);
    push(o, g, 2); /* eta sign(g) first */
    assert_near(w_of(o, 0), -0.01, 1e-15);
    assert_near(w_of(o, 1), 0.01, 1e-15);
    for (int k = 0; k < 50; k++) { /* and never more than about eta */
        double before = w_of(o, 0);
        push(o, (double[2]){ 7 * sin(k), 1 }, 2);
        assert_true(fabs(w_of(o, 0) - before) <= 0.0101);
    }
}

/* opt.signsgd: SignSGD */
static void opt_signsgd(void **state)
{
    (void)state;
    double start[3] = { 1, 1, 1 };
    cj_optim *o = cj_sign_sgd(holder(start, 3), .lr = 0.125);
    push(o, (double[3]){ 1e-9, -4e7, 0 }, 3);
    assert_near(w_of(o, 0), 0.875, 0);
    assert_near(w_of(o, 1), 1.125, 0);
    assert_near(w_of(o, 2), 1, 0);
    for (int k = 0; k < 40; k++) push(o, (double[3]){ w_of(o, 0), 3 * w_of(o, 1), 9 * w_of(o, 2) }, 3); /* a quadratic */
    for (int i = 0; i < 3; i++) assert_true(fabs(w_of(o, i)) <= 0.125);
}

/* opt.clip_value: clipping by value */
static void opt_clip_value(void **state)
{
    (void)state;
    double start[3] = { 0, 0, 0 };
    cj_optim *o = cj_sgd(holder(start, 3), .lr = 1, .clip_value = 0.5);
    push(o, (double[3]){ 3, -0.25, -8 }, 3); /* cut, left alone, cut: the direction turns */
    assert_near(w_of(o, 0), -0.5, 0);
    assert_near(w_of(o, 1), 0.25, 0);
    assert_near(w_of(o, 2), 0.5, 0);
}

/* opt.clip_norm: gradient clipping by norm */
static void opt_clip_norm(void **state)
{
    (void)state;
    double start[2] = { 0, 0 };
    cj_optim *o = cj_sgd(holder(start, 2), .lr = 1, .clip_norm = 1);
    push(o, (double[2]){ 3, 4 }, 2); /* c / (|g| + 1e-6), the direction stays */
    assert_near(w_of(o, 0), -0.6, 1e-6);
    assert_near(w_of(o, 1) / w_of(o, 0), 4.0 / 3, 1e-12);
    assert_true(hypot(w_of(o, 0), w_of(o, 1)) <= 1);
    o = cj_sgd(holder(start, 2), .lr = 1, .clip_norm = 1);
    push(o, (double[2]){ 0.3, 0.4 }, 2);
    assert_near(w_of(o, 0), -0.3, 0);
}

/* ---- averages ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* opt.polyak_average: Polyak-Ruppert averaging */
static void opt_polyak_average(void **state)
{
    (void)state;
    double start = 1, sum = 0, spread_last = 0, spread_mean = 0; /* SGD of a constant rate on w²/2 with noisy gradients */
    cj_optim *o = cj_sgd(holder(&start, 1), .lr = 0.1);
    cj_average *a = cj_average_new(cj_optim_params(o));
    double *noise = values_of(cj_randn(c, CJ_SHAPE(2000), .dtype = CJ_F64));
    for (int t = 0; t < 2000; t++) {
        push(o, &(double){ w_of(o, 0) + noise[t] }, 1);
        assert_true(cj_average_update(a));
        sum += w_of(o, 0);
        if (t >= 1000) spread_last += w_of(o, 0) * w_of(o, 0) / 1000;
    }
    free(noise);
    assert_true(cj_average_swap_in(a));
    assert_near(w_of(o, 0), sum / 2000, 1e-12); /* the running form is the mean */
    spread_mean = w_of(o, 0) * w_of(o, 0);
    assert_true(spread_mean < spread_last / 5);
}

/* opt.ema: exponential moving average of weights */
static void opt_ema(void **state)
{
    (void)state;
    double start[2] = { 3, -1 };
    cj_optim *o = cj_sgd(holder(start, 2), .lr = 1);
    cj_average *a = cj_average_new(cj_optim_params(o), .decay = 0.75);
    double mean = NAN, w = 3;
    for (int t = 0; t < 12; t++) {
        push(o, (double[2]){ 0.5, 0 }, 2);
        w -= 0.5;
        mean = t == 0 ? w : 0.75 * mean + 0.25 * w;
        assert_true(cj_average_update(a));
    }
    assert_true(cj_average_swap_in(a));
    assert_near(w_of(o, 0), mean, 1e-12);
    assert_near(w_of(o, 1), -1, 0); /* a constant is a fixed point */
}

/* ---- schedules ---------------------------------------------------------------------------------------------------------------------------------------------------- */

/* sched.inverse_time: the rate of Robbins and Monro */
static void sched_inverse_time(void **state)
{
    (void)state;
    cj_rate r = cj_rate_inverse_time(2, 5);
    double sum = 0, squares = 0, half = 0;
    for (int64_t t = 0; t < 1000000; t++) {
        double eta = cj_rate_at(&r, t);
        sum += eta;
        squares += eta * eta;
        if (t == 499999) half = sum;
    }
    assert_near(cj_rate_at(&r, 0), 0.4, 1e-15);
    assert_near(sum - half, 2 * log(2), 1e-4); /* grows like 2 log t for ever … */
    assert_near(squares, 4 * (1.6449340668482264 - 1 - 0.25 - 1.0 / 9 - 1.0 / 16),
                1e-4); /* … while the squares sum to 4 (pi²/6 - 1 - 1/4 - 1/9 - 1/16) */
    /* SGD on a strongly convex function: error ~ 1/t; w+ = w - (w + noise) / (t + 1) is minus the mean of the noise */
    double early = 0, late = 0;
    for (int run = 0; run < 40; run++) {
        cj_rate one = cj_rate_inverse_time(1, 1);
        double *noise = values_of(cj_randn(c, CJ_SHAPE(6400), .dtype = CJ_F64)), w = 1;
        for (int t = 0; t < 6400; t++) {
            w -= cj_rate_at(&one, t) * (w + noise[t]);
            if (t == 99) early += w * w / 40;
        }
        late += w * w / 40;
        free(noise);
    }
    assert_near(log(late / early) / log(64), -1, 0.2);
}

/* sched.constant_step: constant, and divided at given steps */
static void sched_constant_step(void **state)
{
    (void)state;
    cj_rate flat = cj_rate_constant(0.3), down = cj_rate_step(0.8, 10, 0.5), few = cj_rate_multi_step(1, (int64_t[]){ 4, 9 }, 2, 0.25);
    for (int64_t t = 0; t < 40; t++) {
        assert_near(cj_rate_at(&flat, t), 0.3, 0);
        assert_near(cj_rate_at(&down, t), t < 10 ? 0.8 : t < 20 ? 0.4 : t < 30 ? 0.2 : 0.1, 0);
        assert_near(cj_rate_at(&few, t), t < 4 ? 1 : t < 9 ? 0.25 : 0.0625, 0);
    }
    /* the floor of SGD is proportional to the rate: variance of w - eta (w + noise) is eta / (2 - eta) */
    double floor_of[2] = { 0 };
    for (int k = 0; k < 2; k++) {
        double eta = k ? 0.05 : 0.1, w = 0, *noise = values_of(cj_randn(c, CJ_SHAPE(100000), .dtype = CJ_F64));
        for (int t = 0; t < 100000; t++) {
            w -= eta * (w + noise[t]);
            if (t >= 1000) floor_of[k] += w * w / 99000;
        }
        free(noise);
        assert_near(floor_of[k] / (eta / (2 - eta)), 1, 0.1);
    }
}

/* sched.plateau: reduced on a plateau */
static void sched_plateau(void **state)
{
    (void)state;
    cj_plateau p = { .lr = 1, .patience = 3, .least = 0.005 };
    for (int epoch = 0; epoch < 5; epoch++) assert_near(cj_plateau_lr(&p, 10 - epoch), 1, 0); /* it falls */
    for (int bad = 1; bad <= 3; bad++) assert_near(cj_plateau_lr(&p, 6), 1, 0);               /* patience */
    assert_near(cj_plateau_lr(&p, 6), 0.1, 1e-15);                                            /* exactly now */
    for (int bad = 1; bad <= 3; bad++) assert_near(cj_plateau_lr(&p, 6), 0.1, 1e-15);
    assert_near(cj_plateau_lr(&p, 6), 0.01, 1e-15);
    for (int bad = 1; bad <= 8; bad++) cj_plateau_lr(&p, 6);
    assert_near(p.lr, 0.005, 0); /* the minimum */
    cj_plateau usual = { .lr = 1 };
    for (int epoch = 0; epoch < 11; epoch++) assert_near(cj_plateau_lr(&usual, 1), 1, 0);
    assert_near(cj_plateau_lr(&usual, 1), 0.1, 1e-15);
}

/* sched.exponential_cosine: exponential and cosine decay */
static void sched_exponential_cosine(void **state)
{
    (void)state;
    cj_rate e = cj_rate_exponential(0.4, 0.5), r = cj_rate_cosine(0.9, 0.1, 40), cyclic = cj_rate_cosine_restarts(0.9, 0.1, 10, 1);
    assert_near(cj_rate_at(&e, 0), 0.4, 0);
    assert_near(cj_rate_at(&e, 10), 0.4 / 1024, 1e-18);
    assert_near(cj_rate_at(&r, 0), 0.9, 0);
    assert_near(cj_rate_at(&r, 40), 0.1, 0);
    assert_near(cj_rate_at(&r, 1000), 0.1, 0);
    assert_near(cj_rate_at(&r, 20), 0.5, 1e-15);
    for (int64_t t = 0; t < 40; t++) {
        assert_true(cj_rate_at(&r, t + 1) < cj_rate_at(&r, t));
        assert_true(cj_rate_at(&e, t + 1) < cj_rate_at(&e, t));
        assert_near(cj_rate_at(&cyclic, t), cj_rate_at(&cyclic, t + 10), 0);
    }
}

/* ---- bad input ---------------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *two_numbers(cj_ctx *k, void *user, cj_tensor *const *x, int n) { return (void)k, (void)user, (void)n, cj_square(x[0]); }
static void refused(void **state)
{
    (void)state;
    double start[2] = { 1, 2 }, ml[2] = { 1, 1 }, flat[2] = { 1, 0 };
    cj_tensor *w = vector(start, 2), *whole = cj_keep(cj_cast(w, CJ_I64));
#define REFUSES(call, code, text)                                                                                                          \
    do {                                                                                                                                   \
        assert_false(call);                                                                                                                \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
    } while (0)
    REFUSES(cj_descent(c, NULL, NULL, &w, 1, NULL), CJ_EVALUE, "descent: the function is NULL");
    REFUSES(cj_gauss_newton(c, NULL, NULL, &w, 1, NULL), CJ_EVALUE, "gauss_newton: the function is NULL");
    REFUSES(cj_bfgs(c, diagonal, ml, &w, 0, NULL), CJ_EVALUE, "bfgs: 0 tensors, 1 to 64 are possible");
    REFUSES(cj_lbfgs(c, diagonal, ml, &whole, 1, NULL), CJ_EDTYPE, "lbfgs: tensor 0 is i64; it must be of a float type");
    REFUSES(cj_lbfgs(c, diagonal, ml, &w, 1, NULL, .history = -1), CJ_EVALUE, "lbfgs: history -1");
    REFUSES(cj_newton(c, diagonal, ml, &w, 1, NULL, .step = -1), CJ_EVALUE, "newton: step -1; it must be positive");
    REFUSES(cj_newton(c, diagonal, ml, &w, 1, NULL, .damping = -1), CJ_EVALUE, "damping -1");
    REFUSES(cj_newton(c, diagonal, ml, &w, 1, NULL, .iterations = -1), CJ_EVALUE, "newton: -1 iterations");
    REFUSES(cj_newton(c, diagonal, ml, &w, 1, NULL, .search = (cj_search)9), CJ_EVALUE, "newton: search 9 is none");
    REFUSES(cj_newton(c, diagonal, flat, &w, 1, NULL), CJ_EVALUE, "newton: the matrix is singular; damping makes it regular");
    REFUSES(cj_proximal(c, two_numbers, NULL, &w, 1, NULL, .step = -1), CJ_EVALUE, "proximal: step -1");
    REFUSES(cj_proximal(c, diagonal, ml, &w, 1, NULL, .step = 1, .weight = -1), CJ_EVALUE, "proximal: weight -1");
    REFUSES(cj_proximal(c, diagonal, ml, &w, 1, NULL, .step = 1, .prox = CJ_PROX_BALL, .radius = -1), CJ_EVALUE, "proximal: radius -1");
    REFUSES(cj_proximal(c, diagonal, ml, &w, 1, NULL, .step = 1, .prox = CJ_PROX_BOX, .low = 1), CJ_EVALUE,
            "proximal: the box [1, 0] is empty");
    REFUSES(cj_saga(c, square_of, NULL, 0, &w, 1, .step = 1), CJ_EVALUE, "saga: 0 examples");
    REFUSES(cj_svrg(c, square_of, NULL, 3, &w, 1), CJ_EVALUE, "svrg: step 0; it must be positive");
    REFUSES(cj_sag(c, NULL, NULL, 3, &w, 1, .step = 1), CJ_EVALUE, "sag: the function is NULL");
    assert_false(cj_descent(c, two_numbers, NULL, &w, 1, NULL));
    assert_true(cj_error(c) != CJ_OK);
    cj_clear(c);
    assert_near(value_at(w, 0) + value_at(w, 1), 3, 0);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(opt_gd),
        ROW(opt_exact_line_search),
        ROW(opt_backtracking),
        ROW(opt_newton),
        ROW(opt_newton_cg),
        ROW(opt_bfgs),
        ROW(opt_lbfgs),
        ROW(gauss_newton),
        ROW(opt_proximal),
        ROW(opt_projected),
        ROW(opt_saga),
        ROW(opt_sag),
        ROW(opt_svrg),
        ROW(opt_adagrad),
        ROW(opt_adam),
        ROW(opt_amsgrad),
        ROW(opt_adamax),
        ROW(opt_signsgd),
        ROW(opt_clip_value),
        ROW(opt_clip_norm),
        ROW(opt_polyak_average),
        ROW(opt_ema),
        ROW(sched_inverse_time),
        ROW(sched_constant_step),
        ROW(sched_plateau),
        ROW(sched_exponential_cosine),
        ROW(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
