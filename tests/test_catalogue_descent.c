/* The catalogue's family `opt`, second file: descent over the full batch, over samples, without derivatives, with noise, of games.  One test case per row or property,
 * named after the row's id (docs/coverage.tsv).  Everything in f64. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 31);

static cj_tensor *vector(const double *v, int64_t n) { return cj_keep((cj_from_f64)(c, v, CJ_SHAPE(n))); }
static cj_tensor *constant(double v, int64_t n) { return cj_keep(cj_full(c, v, CJ_SHAPE(n), CJ_F64)); }

/* 1/2 sum_i h_i w_i², user: the tensor h */
static cj_tensor *diagonal(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)n;
    return cj_mul_scalar(cj_sum(cj_mul(cj_square(x[0]), (cj_tensor *)user)), 0.5);
}
/* n numbers from 1/kappa to 1, log-spaced */
static cj_tensor *eigenvalues(int n, double kappa)
{
    double l[1024];
    for (int i = 0; i < n; i++) l[i] = pow(kappa, (double)i / (n - 1) - 1);
    return vector(l, n);
}
static double rms(cj_tensor *w) { return sqrt(cj_item(cj_mean(cj_square(w)))); }

static const double quadratic_a[9] = { 3, 1, 0, 1, 2, 0.5, 0, 0.5, 1 }, quadratic_b[3] = { 1, -1.5, 2 };
static cj_tensor *quadratic(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *a = (cj_from_f64)(k, quadratic_a, CJ_SHAPE(3, 3)), *b = (cj_from_f64)(k, quadratic_b, CJ_SHAPE(3));
    cj_tensor *aw = cj_reshape(cj_matmul(a, cj_reshape(x[0], CJ_SHAPE(3, 1))), CJ_SHAPE(3));
    return cj_sub(cj_mul_scalar(cj_sum(cj_mul(x[0], aw)), 0.5), cj_sum(cj_mul(b, x[0])));
}
static cj_tensor *rosenbrock(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    cj_tensor *a = cj_select(x[0], 0, 0), *b = cj_select(x[0], 0, 1);
    return cj_add(cj_mul_scalar(cj_square(cj_sub(b, cj_square(a))), 100), cj_square(cj_add_scalar(cj_neg(a), 1)));
}
/* A network of 6 tanh units on 24 points of a sine, with a little weight decay. */
static cj_tensor *network(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *t = cj_mul_scalar(cj_arange(k, -12, 12, 1, CJ_F64), 0.25), *decay = cj_full(k, 0, CJ_SCALAR, CJ_F64);
    cj_tensor *h = cj_tanh(cj_add(cj_mul(cj_reshape(t, CJ_SHAPE(24, 1)), x[0]), x[1]));
    for (int i = 0; i < 3; i++) decay = cj_add(decay, cj_sum(cj_square(x[i])));
    cj_tensor *fit = cj_mse_loss(cj_reshape(cj_matmul(h, cj_reshape(x[2], CJ_SHAPE(6, 1))), CJ_SHAPE(24)), cj_sin(t));
    return cj_add(fit, cj_mul_scalar(decay, 0.01));
}

/* ---- flows and momentum ---------------------------------------------------------------------------------------------------------------------------------- */

/* opt.gradient_flow: gradient flow integrator */
static void opt_gradient_flow(void **state)
{
    (void)state;
    static const double h[3] = { 0.5, 2, 7 }, start[3] = { 1, -2, 3 };
    cj_tensor *curvature = vector(h, 3), *w = vector(start, 3), *v = vector(start, 3);
    assert_true(cj_gradient_flow(c, diagonal, curvature, &w, 1, 1, NULL, .steps = 200));
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), start[i] * exp(-h[i]), 1e-8); /* e^(-Ht) x0 */
    w = vector(start, 3);
    assert_true(cj_gradient_flow(c, diagonal, curvature, &w, 1, 1, NULL, .steps = 50, .euler = true));
    assert_true(cj_descent(c, diagonal, curvature, &v, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 1.0 / 50, .iterations = 50));
    assert_true(same_bits(w, v)); /* Euler's rule is gradient descent */
    double error[3];
    for (int k = 0; k < 3; k++) { /* at a fixed time the distance to the flow halves with the step */
        w = vector(start, 3);
        assert_true(cj_gradient_flow(c, diagonal, curvature, &w, 1, 1, NULL, .steps = 400 << k, .euler = true));
        error[k] = 0;
        for (int i = 0; i < 3; i++) error[k] = hypot(error[k], value_at(w, i) - start[i] * exp(-h[i]));
    }
    assert_near(error[0] / error[1], 2, 0.05);
    assert_near(error[1] / error[2], 2, 0.05);
}

static const cj_module_type holder_type = { .name = "w" };

/* opt.nesterov: the velocity form, the averaged form, the look-ahead form (cj_accelerated) and the optimiser are one method */
static void opt_nesterov_forms(void **state)
{
    (void)state;
    enum { N = 50, STEPS = 60 };
    double l[N], w[N], u[N], z[N], m[N], eta = 0.9, rho = 0.8;
    cj_tensor *h = eigenvalues(N, 100), *x = constant(1, N);
    cj_to_f64(h, l, N);
    cj_module *holder = cj_module_new(c, &holder_type, 0);
    cj_tensor *p = cj_module_param(holder, "w", cj_ones(c, CJ_SHAPE(N), CJ_F64));
    cj_optim *sgd = cj_sgd(cj_module_params(holder), .lr = eta, .momentum = rho, .nesterov = true);
    for (int i = 0; i < N; i++) w[i] = z[i] = 1, u[i] = m[i] = 0;
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < N; i++) {
            u[i] = rho * u[i] - l[i] * (w[i] + eta * rho * u[i]), w[i] += eta * u[i];
            double alpha = eta / (1 - rho); /* m = b m + (1 - b) grad(th - alpha b m), th -= alpha m */
            m[i] = rho * m[i] + (1 - rho) * l[i] * (z[i] - alpha * rho * m[i]), z[i] -= alpha * m[i];
        }
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(sgd, cj_mul_scalar(cj_sum(cj_mul(h, cj_square(p))), 0.5)));
        cj_scope_close(s);
    }
    assert_true(cj_accelerated(c, diagonal, h, &x, 1, NULL, .step = eta, .momentum = rho, .iterations = STEPS, .tolerance = CJ_ZERO));
    for (int i = 0; i < N; i++) {
        assert_near(value_at(x, i), w[i], 1e-12);
        assert_near(z[i], w[i], 1e-12);
        assert_near(value_at(p, i), w[i] + rho * eta * u[i], 1e-12); /* PyTorch's parameters are the points looked ahead to */
    }
}

static void opt_nesterov_counts(void **state)
{
    (void)state;
    double rho = 9.0 / 11; /* (sqrt 100 - 1) / (sqrt 100 + 1) */
    cj_tensor *h = eigenvalues(50, 100);
    for (int steps = 138; steps <= 139; steps++) {
        cj_tensor *w = constant(1, 50);
        assert_true(cj_accelerated(c, diagonal, h, &w, 1, NULL, .step = 1, .momentum = rho, .iterations = steps, .tolerance = CJ_ZERO));
        assert_true((rms(w) < 1e-6) == (steps == 139));
    }
    double limit = 2 * (1 + rho) / (1 + 2 * rho); /* of eta L */
    for (int above = 0; above < 2; above++) {
        cj_tensor *w = constant(1, 50);
        assert_true(cj_accelerated(c, diagonal, h, &w, 1, NULL, .step = limit * (above ? 1.01 : 0.99), .momentum = rho, .iterations = 1500,
                                   .tolerance = CJ_ZERO));
        assert_true(above ? rms(w) > 100 : rms(w) < 1e-6);
    }
}

/* opt.momentum_schedule: momentum coefficient schedules */
static void opt_momentum_schedule(void **state)
{
    (void)state;
    assert_near(cj_momentum_convex(1), 0, 0);
    assert_near(cj_momentum_convex(4), 0.5, 1e-15);
    assert_true(cj_momentum_convex(1000000) > 0.999996 && cj_momentum_convex(1000000) < 1);
    assert_near(cj_momentum_strongly_convex(100), 9.0 / 11, 1e-15);
    assert_near(cj_momentum_strongly_convex(1), 0, 0);
    assert_true(isnan(cj_momentum_convex(0)) && isnan(cj_momentum_strongly_convex(0.5)));
    cj_tensor *h = eigenvalues(1000, 1e10); /* convex, not strongly: curvatures down to 1e-10 */
    cj_solution found;
    double gap[2];
    for (int k = 0; k < 2; k++) {
        cj_tensor *w = constant(1, 1000);
        assert_true(cj_accelerated(c, diagonal, h, &w, 1, &found, .step = 1, .iterations = k ? 2000 : 100, .tolerance = CJ_ZERO));
        gap[k] = found.value;
    }
    assert_near(log(gap[1] / gap[0]) / log(20), -2, 0.05); /* 1/t² */
    h = eigenvalues(50, 100);
    for (int k = 0; k < 2; k++) { /* a constant momentum: linear, at least by 1 - 1/sqrt(kappa) in each step */
        cj_tensor *w = constant(1, 50);
        assert_true(cj_accelerated(c, diagonal, h, &w, 1, &found, .step = 1, .momentum = cj_momentum_strongly_convex(100),
                                   .iterations = k ? 200 : 100, .tolerance = CJ_ZERO));
        gap[k] = found.value;
    }
    double rate = pow(gap[1] / gap[0], 0.01);
    assert_true(rate > 0.5 && rate < 0.9);
    assert_refused(CJ_EVALUE, "accelerated: momentum 1; it must be in [0, 1)",
                   cj_accelerated(c, diagonal, h, (cj_tensor *[]){ constant(1, 50) }, 1, NULL, .step = 1, .momentum = 1));
    assert_refused(CJ_EVALUE, "accelerated: step inf; it must be positive and finite",
                   cj_accelerated(c, diagonal, h, (cj_tensor *[]){ constant(1, 50) }, 1, NULL, .step = INFINITY));
    assert_refused(CJ_EVALUE, "gradient_flow: time -1", cj_gradient_flow(c, diagonal, h, (cj_tensor *[]){ constant(1, 50) }, 1, -1, NULL));
}

/* ---- line searches ------------------------------------------------------------------------------------------------------------------------------------------ */

/* opt.exact_line_search: exact line search */
static void opt_exact_line_search_numeric(void **state)
{
    (void)state;
    double zero[3] = { 0 }, bb = 1 + 2.25 + 4, bab = 3 * 1 + 2 * 2.25 + 4 - 2 * 1.5 - 1.5 * 2;
    cj_tensor *w = vector(zero, 3);
    assert_true(cj_descent(c, quadratic, NULL, &w, 1, NULL, .search = CJ_SEARCH_BRACKET, .iterations = 1));
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), bb / bab * quadratic_b[i], 1e-8);
}

/* opt.bracket_line_search: the one-dimensional minimum of Rosenbrock's function, again and again */
static void opt_bracket_line_search(void **state)
{
    (void)state;
    double start[2] = { -1.2, 1 }, before = 24.2;
    cj_tensor *w = vector(start, 2), *g[1];
    for (int k = 0; k < 12; k++) {
        cj_solution found;
        double w0 = value_at(w, 0), w1 = value_at(w, 1);
        (cj_vjp)(c, rosenbrock, NULL, &w, 1, NULL, g);
        double d0 = -value_at(g[0], 0), d1 = -value_at(g[0], 1);
        assert_true(cj_descent(c, rosenbrock, NULL, &w, 1, &found, .search = CJ_SEARCH_BRACKET, .step = k % 2 ? 1e-6 : 1, .iterations = 1));
        assert_true(found.value < before); /* monotone */
        before = found.value;
        (cj_vjp)(c, rosenbrock, NULL, &w, 1, NULL, g);
        double cosine = (d0 * value_at(g[0], 0) + d1 * value_at(g[0], 1)) / (hypot(d0, d1) * hypot(value_at(g[0], 0), value_at(g[0], 1)));
        assert_near(cosine, 0, 1e-4); /* the new gradient is orthogonal */
        double s = (d0 * (value_at(w, 0) - w0) + d1 * (value_at(w, 1) - w1)) / (d0 * d0 + d1 * d1);
        for (int side = -1; side <= 1; side += 2) { /* a local minimum lies within 1e-6 */
            double t = s * (1 + side * 1e-6), a = w0 + t * d0, b = w1 + t * d1, slope;
            slope = d0 * (-400 * a * (b - a * a) - 2 * (1 - a)) + d1 * 200 * (b - a * a);
            assert_true(slope * side > 0);
        }
        /* golden sections: each costs one value, and 29 of them make a bracket 1e-6 as wide; doubling or halving from the first step at most 25 */
        assert_true(found.evaluations <= 4 + 25 + 29 + 4);
    }
    cj_tensor *flat = constant(-1, 2); /* -1/2 |w|²: no minimum along any direction */
    assert_refused(CJ_EVALUE, "the function falls without end along the direction",
                   cj_descent(c, diagonal, flat, &w, 1, NULL, .search = CJ_SEARCH_BRACKET));
}

/* ---- second order -------------------------------------------------------------------------------------------------------------------------------------------- */

/* opt.newton_cg on a small network: the dense step */
static void opt_newton_cg_network(void **state)
{
    (void)state;
    cj_tensor *net[2][3];
    for (int i = 0; i < 3; i++) net[0][i] = cj_keep(cj_randn(c, CJ_SHAPE(6), .dtype = CJ_F64));
    assert_true(cj_lbfgs(c, network, NULL, net[0], 3, NULL, .iterations = 500));
    bool was = cj_no_grad(c); /* a little beside the minimum, where the Hessian is positive definite */
    for (int i = 0; i < 3; i++) cj_add_(net[0][i], cj_randn(c, CJ_SHAPE(6), .dtype = CJ_F64), 1e-3);
    for (int i = 0; i < 3; i++) net[1][i] = cj_keep(cj_clone(net[0][i]));
    cj_grad_mode(c, was);
    assert_true(cj_newton(c, network, NULL, net[0], 3, NULL, .iterations = 1));
    assert_true(cj_newton_cg(c, network, NULL, net[1], 3, NULL, .iterations = 1, .cg_tolerance = 1e-12));
    for (int i = 0; i < 3; i++) assert_near(distance(net[0][i], net[1][i]), 0, 1e-6);
}

/* opt.bfgs: after n steps with exact searches the matrix is the inverse of A; along the way it is positive definite */
static void opt_bfgs_inverse_hessian(void **state)
{
    (void)state;
    double h[9], zero[3] = { 0 }, start[2] = { -1.2, 1 };
    cj_tensor *w = vector(zero, 3);
    cj_solution found;
    assert_true(cj_bfgs(c, quadratic, NULL, &w, 1, &found, .search = CJ_SEARCH_EXACT, .inverse_hessian = h, .tolerance = 1e-12));
    assert_true(found.converged && found.iterations == 3);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double product = 0;
            for (int k = 0; k < 3; k++) product += h[3 * i + k] * quadratic_a[3 * k + j];
            assert_near(product, i == j, 1e-8);
        }
    for (int k = 1; k < 40; k++) {
        double p[4];
        w = vector(start, 2);
        assert_true(cj_bfgs(c, rosenbrock, NULL, &w, 1, &found, .iterations = k, .inverse_hessian = p));
        assert_near(p[1], p[2], 1e-9 * (1 + fabs(p[1])));
        assert_true(p[0] > 0 && p[0] * p[3] - p[1] * p[2] > 0);
    }
}

/* opt.preconditioned: preconditioned gradient descent */
static void opt_preconditioned(void **state)
{
    (void)state;
    cj_tensor *a = (cj_from_f64)(c, quadratic_a, CJ_SHAPE(3, 3)), *w = constant(0, 3);
    cj_solution found;
    assert_true(cj_descent(c, quadratic, NULL, &w, 1, &found, .search = CJ_SEARCH_FIXED, .metric = cj_matmul(a, a), .tolerance = 1e-10));
    assert_int_equal(found.iterations, 1); /* G = H²: Newton's step */
    static const double minimum[3] = { 1, -2, 3 };
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), minimum[i], 1e-10);
    static const double h[2] = { 1, 1e4 };
    cj_tensor *steep = vector(h, 2), *plain = constant(1, 2);
    w = constant(1, 2);
    assert_true(cj_descent(c, diagonal, steep, &w, 1, &found, .search = CJ_SEARCH_FIXED, .metric = cj_square(steep)));
    assert_true(found.converged && found.iterations <= 2);
    assert_true(cj_descent(c, diagonal, steep, &plain, 1, &found, .search = CJ_SEARCH_FIXED, .step = 2 / (1 + 1e4), .iterations = 5000));
    assert_true(!found.converged && rms(plain) > 0.1); /* (kappa - 1)/(kappa + 1) in each step */
    assert_refused(CJ_ESHAPE, "descent: the metric is [3]; [2] or [2, 2] expected",
                   cj_descent(c, diagonal, steep, &w, 1, NULL, .metric = constant(1, 3)));
    assert_refused(CJ_EVALUE, "descent: the metric is not positive definite",
                   cj_descent(c, diagonal, steep, &w, 1, NULL, .metric = constant(0, 2)));
}

/* opt.normalised_gradient: Adam without memory */
static void opt_normalised_gradient(void **state)
{
    (void)state;
    cj_module *holder = cj_module_new(c, &holder_type, 0);
    cj_tensor *p = cj_module_param(holder, "w", F64(c, CJ_SHAPE(3), 1.03, -2.01, 0.55));
    cj_optim *o = cj_adam(cj_module_params(holder), .lr = 0.125, .beta1 = CJ_ZERO, .beta2 = CJ_ZERO, .eps = 1e-12);
    double w[3] = { 1.03, -2.01, 0.55 };
    static const double h[3] = { 1, 100, 0.01 };
    for (int t = 0; t < 60; t++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(o, cj_mul_scalar(cj_sum(cj_mul(cj_square(p), (cj_from_f64)(c, h, CJ_SHAPE(3)))), 0.5)));
        cj_scope_close(s);
        for (int i = 0; i < 3; i++) {
            double g = h[i] * w[i], before = w[i];
            w[i] -= 0.125 * g / (fabs(g) + 1e-12);
            if (g != 0) assert_near(fabs(w[i] - before), 0.125, 1e-9); /* the same step whatever the gradient … */
            assert_near(value_at(p, i), w[i], 1e-9);
            if (t > 20) assert_true(fabs(w[i]) <= 0.125 + 1e-9); /* … so that it bounces around the minimum */
        }
    }
}

/* ---- samples: linear least squares, n = 50, d = 5; every draw is recorded --------------------------------------------------------------------------------- */

enum { N = 50, D = 5, DRAWN = 4000 };
typedef struct regression {
    double x[N][D], y[N], largest;
    int64_t drawn[DRAWN], count, last; /* the examples evaluated, how many; the evaluation that is spoiled */
} regression;
static regression make_regression(void)
{
    regression r = { .count = 0 };
    double *a = values_of(cj_randn(c, CJ_SHAPE(N, D), .dtype = CJ_F64)), *e = values_of(cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64));
    for (int i = 0; i < N; i++) {
        double norm = 0;
        r.y[i] = 0.5 * e[i];
        for (int k = 0; k < D; k++) r.x[i][k] = a[D * i + k], norm += a[D * i + k] * a[D * i + k], r.y[i] += a[D * i + k];
        r.largest = fmax(r.largest, norm);
    }
    free(a);
    free(e);
    return r;
}
static cj_tensor *example(cj_ctx *k, void *user, cj_tensor *const *x, int n, int64_t i)
{
    regression *r = user;
    (void)n;
    if (r->count < DRAWN) r->drawn[r->count] = i;
    r->count++;
    cj_tensor *z = cj_sum(cj_mul(x[0], (cj_from_f64)(k, r->x[i], CJ_SHAPE(D))));
    return cj_mul_scalar(cj_square(cj_add_scalar(z, -r->y[i])), 0.5);
}
static void gradient(const regression *r, int64_t i, const double *w, double *g)
{
    double z = -r->y[i];
    for (int k = 0; k < D; k++) z += r->x[i][k] * w[k];
    for (int k = 0; k < D; k++) g[k] = z * r->x[i][k];
}
static double gap(const regression *r, const double *w)
{
    cj_fit best = cj_least_squares((cj_from_f64)(c, &r->x[0][0], CJ_SHAPE(N, D)), (cj_from_f64)(c, r->y, CJ_SHAPE(N)), .no_bias = true);
    double *b = values_of(best.weight), sum = 0; /* the excess over the minimum is 1/2 mean (x·(w - best))² */
    for (int i = 0; i < N; i++) {
        double z = 0;
        for (int k = 0; k < D; k++) z += r->x[i][k] * (w[k] - b[k]);
        sum += z * z / (2 * N);
    }
    free(b);
    return sum;
}

/* opt.sgd: stochastic and minibatch gradient descent */
static void opt_sgd(void **state)
{
    (void)state;
    regression r = make_regression();
    double zero[D] = { 0 }, full[D] = { 0 }, g[N][D];
    for (int i = 0; i < N; i++) {
        gradient(&r, i, zero, g[i]);
        for (int k = 0; k < D; k++) full[k] += g[i][k] / N;
    }
    cj_tensor *w = vector(zero, D);
    assert_true(cj_sampled_descent(c, example, &r, N, &w, 1, .step = 1e-9, .batch = 10, .iterations = 10, .shuffled = true));
    for (int pass = 0; pass < 2; pass++) { /* every example once in every pass, in another order each */
        int seen[N] = { 0 };
        for (int i = 0; i < N; i++) seen[r.drawn[N * pass + i]]++;
        for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(r.drawn, r.drawn + N, N * sizeof r.drawn[0]);
    double sum[D] = { 0 }; /* at a fixed w the means of the five batches of a pass add up to five full gradients */
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < 10; i++)
            for (int k = 0; k < D; k++) sum[k] += g[r.drawn[10 * b + i]][k] / 10;
    for (int k = 0; k < D; k++) assert_near(sum[k] / 5, full[k], 1e-12);
    double mean[D] = { 0 }; /* over all 20 batches of 3 of the first 6 examples */
    int batches = 0;
    for (int a = 0; a < 6; a++)
        for (int b = a + 1; b < 6; b++)
            for (int d = b + 1; d < 6; d++, batches++)
                for (int k = 0; k < D; k++) mean[k] += (g[a][k] + g[b][k] + g[d][k]) / 3;
    assert_int_equal(batches, 20);
    for (int k = 0; k < D; k++) {
        double six = 0;
        for (int i = 0; i < 6; i++) six += g[i][k] / 6;
        assert_near(mean[k] / 20, six, 1e-12);
    }
    double v = 0; /* variance V/b with replacement */
    for (int i = 0; i < N; i++)
        for (int k = 0; k < D; k++) v += (g[i][k] - full[k]) * (g[i][k] - full[k]) / N;
    for (int b = 1; b <= 4; b *= 4) {
        double spread = 0;
        enum { RUNS = 1500 };
        for (int run = 0; run < RUNS; run++) {
            w = vector(zero, D);
            assert_true(cj_sampled_descent(c, example, &r, N, &w, 1, .step = 1, .batch = b, .iterations = 1));
            for (int k = 0; k < D; k++) spread += (value_at(w, k) + full[k]) * (value_at(w, k) + full[k]) / RUNS;
            cj_release(w);
        }
        assert_near(spread / (v / b), 1, 0.15);
    }
    w = vector(zero, D); /* one batch of all: gradient descent */
    assert_true(cj_sampled_descent(c, example, &r, N, &w, 1, .step = 0.25, .batch = N, .iterations = 1, .shuffled = true));
    for (int k = 0; k < D; k++) assert_near(value_at(w, k), -0.25 * full[k], 1e-12);
    assert_refused(CJ_EVALUE, "sampled_descent: batches of 60 of 50 examples",
                   cj_sampled_descent(c, example, &r, N, &w, 1, .step = 1, .batch = 60, .shuffled = true));
    assert_refused(CJ_EVALUE, "sampled_descent: 0 examples", cj_sampled_descent(c, example, &r, 0, &w, 1, .step = 1));
}

/* The variance of the weighted gradient, sum_i p_i |g_i / (n p_i)|² - |g|², whose first part is what p can change. */
static double second_moment(double norm2[N], const double *p)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += norm2[i] / (N * N * p[i]);
    return sum;
}
/* opt.importance_sgd: non-uniform (importance) sampling SGD */
static void opt_importance_sgd(void **state)
{
    (void)state;
    regression r = make_regression();
    double p[N], best[N], zero[D] = { 0 }, full[D] = { 0 }, weighted[D] = { 0 }, biased[D] = { 0 }, norm2[N], total = 0, g[D];
    for (int i = 0; i < N; i++) {
        gradient(&r, i, zero, g);
        norm2[i] = 0;
        p[i] = (i + 1.0) / (N * (N + 1) / 2);
        for (int k = 0; k < D; k++) {
            norm2[i] += g[k] * g[k], full[k] += g[k] / N;
            weighted[k] += p[i] * (g[k] / (N * p[i])), biased[k] += p[i] * g[k];
        }
        total += sqrt(norm2[i]);
    }
    double difference = 0;
    for (int k = 0; k < D; k++) {
        assert_near(weighted[k], full[k], 1e-12);
        difference = fmax(difference, fabs(biased[k] - full[k]));
    }
    assert_true(difference > 0.01);
    for (int unweighted = 0; unweighted < 2; unweighted++) { /* what the function does with the examples that it drew */
        cj_tensor *w = vector(zero, D);
        double sum[D] = { 0 };
        int seen[N] = { 0 };
        r.count = 0;
        assert_true(cj_sampled_descent(c, example, &r, N, &w, 1, .step = 1, .iterations = 1, .batch = 2000, .probability = vector(p, N),
                                       .unweighted = unweighted));
        for (int t = 0; t < 2000; t++) {
            int64_t i = r.drawn[t];
            gradient(&r, i, zero, g);
            seen[i]++;
            for (int k = 0; k < D; k++) sum[k] += g[k] / (unweighted ? 1 : N * p[i]) / 2000;
        }
        for (int k = 0; k < D; k++) assert_near(value_at(w, k), -sum[k], 1e-12);
        for (int i = 0; i < N; i++) assert_near(seen[i] / 2000.0, p[i], 5 * sqrt(p[i] / 2000)); /* drawn as often as they should be */
    }
    for (int i = 0; i < N; i++) best[i] = sqrt(norm2[i]) / total; /* p ~ |g| has the least variance */
    double least = second_moment(norm2, best), uniform[N];
    for (int i = 0; i < N; i++) uniform[i] = 1.0 / N;
    assert_true(least < second_moment(norm2, uniform) && least < second_moment(norm2, p));
    for (int trial = 0; trial < 100; trial++) {
        double other[N], sum = 0, *u = values_of(cj_rand(c, CJ_SHAPE(N), .dtype = CJ_F64));
        for (int i = 0; i < N; i++) sum += other[i] = best[i] * (1 + 0.2 * (u[i] - 0.5));
        for (int i = 0; i < N; i++) other[i] /= sum;
        assert_true(least <= second_moment(norm2, other));
        free(u);
    }
    assert_refused(CJ_EVALUE, "probability 0 of example 0",
                   cj_sampled_descent(c, example, &r, N, (cj_tensor *[]){ vector(zero, D) }, 1, .step = 1, .probability = constant(0, N)));
    assert_refused(CJ_ESHAPE, "3 probabilities for 50 examples",
                   cj_sampled_descent(c, example, &r, N, (cj_tensor *[]){ vector(zero, D) }, 1, .step = 1, .probability = constant(1, 3)));
}

/* opt.saga, opt.sag, opt.svrg: the same steps computed here from the examples that were drawn; the mean of the step's direction over all examples against the full gradient */
typedef enum kind { SAGA, SAG, SVRG } kind;
static double unbiased(kind how)
{
    regression r = make_regression();
    enum { STEPS = 120, REFRESH = 100 };
    double w[D] = { 0 }, zero[D] = { 0 }, table[N][D], mean[D] = { 0 }, g[D], worst = 0, step = 1 / (3 * r.largest);
    cj_tensor *x = vector(zero, D);
    r.count = 0;
    if (how == SAGA) assert_true(cj_saga(c, example, &r, N, &x, 1, .step = step, .iterations = STEPS));
    if (how == SAG) assert_true(cj_sag(c, example, &r, N, &x, 1, .step = step, .iterations = STEPS));
    if (how == SVRG) assert_true(cj_svrg(c, example, &r, N, &x, 1, .step = step, .iterations = STEPS));
    int64_t at = how == SVRG ? 0 : N; /* the first N evaluations fill the table, in order */
    for (int t = 0; t < STEPS; t++) {
        if (how == SVRG ? t % REFRESH == 0 : t == 0) {
            if (how == SVRG) at += N;
            memset(mean, 0, sizeof mean);
            for (int i = 0; i < N; i++) {
                gradient(&r, i, w, table[i]);
                for (int k = 0; k < D; k++) mean[k] += table[i][k] / N;
            }
        }
        double bias = 0, full[D] = { 0 }, average[D] = { 0 };
        for (int i = 0; i < N; i++) {
            gradient(&r, i, w, g);
            for (int k = 0; k < D; k++)
                full[k] += g[k] / N, average[k] += (how == SAG ? mean[k] + (g[k] - table[i][k]) / N : g[k] - table[i][k] + mean[k]) / N;
        }
        for (int k = 0; k < D; k++) bias = fmax(bias, fabs(average[k] - full[k]));
        worst = fmax(worst, bias);
        int64_t i = r.drawn[at];
        at += how == SVRG ? 2 : 1; /* SVRG evaluates the example twice */
        gradient(&r, i, w, g);
        for (int k = 0; k < D; k++) {
            double change = g[k] - table[i][k];
            if (how != SAG) w[k] -= step * (change + mean[k]);
            if (how != SVRG) mean[k] += change / N, table[i][k] = g[k];
            if (how == SAG) w[k] -= step * mean[k];
        }
    }
    for (int k = 0; k < D; k++) assert_near(value_at(x, k), w[k], 1e-12);
    return worst;
}
static void opt_saga_unbiased(void **state)
{
    (void)state;
    assert_near(unbiased(SAGA), 0, 1e-12);
}
static void opt_svrg_unbiased(void **state)
{
    (void)state;
    assert_near(unbiased(SVRG), 0, 1e-12);
}
static void opt_sag_biased(void **state)
{
    (void)state;
    assert_true(unbiased(SAG) > 1e-3);
}

/* an example whose loss is not finite ends the descent at once and leaves x alone, whichever evaluation it is */
static cj_tensor *spoiled(cj_ctx *k, void *user, cj_tensor *const *x, int n, int64_t i)
{
    const regression *r = user;
    cj_tensor *loss = example(k, user, x, n, i);
    return r->count == r->last ? cj_mul_scalar(loss, INFINITY) : loss;
}
static void opt_variance_stops(void **state)
{
    (void)state;
    regression r = make_regression();
    double zero[D] = { 0 };
    for (int how = SAGA; how <= SVRG; how++)
        for (r.last = N - 1; r.last < N + 4; r.last++) {
            cj_tensor *x = vector(zero, D);
            r.count = 0;
            bool done = how == SAGA  ? cj_saga(c, spoiled, &r, N, &x, 1, .step = 0.01, .iterations = 20)
                        : how == SAG ? cj_sag(c, spoiled, &r, N, &x, 1, .step = 0.01, .iterations = 20)
                                     : cj_svrg(c, spoiled, &r, N, &x, 1, .step = 0.01, .iterations = 20);
            assert_false(done);
            assert_non_null(strstr(cj_message(c), "or its gradient is not finite"));
            cj_clear(c);
            assert_int_equal(r.count, r.last);
            for (int k = 0; k < D; k++) assert_near(value_at(x, k), 0, 0);
        }
}

/* opt.svrg: at the optimum the direction has no variance, SGD's has */
static void opt_svrg_variance_vanishes(void **state)
{
    (void)state;
    regression r = make_regression();
    cj_fit best = cj_least_squares((cj_from_f64)(c, &r.x[0][0], CJ_SHAPE(N, D)), (cj_from_f64)(c, r.y, CJ_SHAPE(N)), .no_bias = true);
    double *w = values_of(best.weight), moved = 0, noise = 0, g[D];
    cj_tensor *x = vector(w, D);
    assert_true(cj_svrg(c, example, &r, N, &x, 1, .step = 0.05, .iterations = 50));
    for (int k = 0; k < D; k++) moved = fmax(moved, fabs(value_at(x, k) - w[k]));
    assert_near(moved, 0, 1e-13);
    for (int i = 0; i < N; i++) {
        gradient(&r, i, w, g);
        for (int k = 0; k < D; k++) noise += g[k] * g[k] / N;
    }
    assert_true(noise > 0.1);
    free(w);
}

/* opt.gauss_newton_diag: JᵀJ, the empirical Fisher matrix and its diagonal */
static cj_tensor *residuals(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    regression *r = user;
    (void)n;
    cj_tensor *z = cj_matmul((cj_from_f64)(k, &r->x[0][0], CJ_SHAPE(N, D)), cj_reshape(x[0], CJ_SHAPE(D, 1)));
    return cj_sub(cj_reshape(z, CJ_SHAPE(N)), (cj_from_f64)(k, r->y, CJ_SHAPE(N)));
}
static cj_tensor *bent(cj_ctx *k, void *user, cj_tensor *const *x, int n) { return cj_expm1(residuals(k, user, x, n)); }
static cj_tensor *half_squares(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    return cj_mul_scalar(cj_sum(cj_square(residuals(k, user, x, n))), 0.5);
}
static cj_tensor *bent_squares(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    return cj_mul_scalar(cj_sum(cj_square(bent(k, user, x, n))), 0.5);
}
static void opt_gauss_newton_diag(void **state)
{
    (void)state;
    regression r = make_regression();
    double w[D] = { 1, 1, 1, 1, 1 }, zero[D] = { 0 }, matrix[D][D] = { { 0 } }, full[D] = { 0 }, g[D];
    cj_tensor *x = vector(zero, D);
    cj_tensor *j = cj_jacobian(c, residuals, &r, x), *hessian = cj_hessian(c, half_squares, &r, x);
    assert_near(distance(cj_matmul(cj_t(j), j), hessian), 0, 1e-10); /* linear least squares: JᵀJ is the Hessian */
    for (int i = 0; i < N; i++) {
        r.y[i] = 0;
        for (int k = 0; k < D; k++) r.y[i] += r.x[i][k];
    }
    cj_tensor *solution = vector(w, D);
    j = cj_jacobian(c, bent, &r, solution), hessian = cj_hessian(c, bent_squares, &r, solution);
    assert_near(distance(cj_matmul(cj_t(j), j), hessian), 0, 1e-9); /* and where the residual is 0 */
    cj_tensor *f = cj_fisher(c, example, &r, N, &x, 1), *diagonal_of = cj_fisher(c, example, &r, N, &x, 1, .diagonal = true);
    for (int i = 0; i < N; i++) {
        gradient(&r, i, zero, g);
        for (int a = 0; a < D; a++) {
            full[a] += g[a] / N;
            for (int b = 0; b < D; b++) matrix[a][b] += g[a] * g[b] / N;
        }
    }
    double slope = 0;
    for (int a = 0; a < D; a++) {
        assert_near(value_at(diagonal_of, a), matrix[a][a], 1e-12);
        for (int b = 0; b < D; b++) assert_near(value_at(f, D * a + b), matrix[a][b], 1e-12);
        slope += full[a] * full[a] / sqrt(matrix[a][a]);
    }
    assert_true(slope > 0 && value_at(cj_eigvalsh(f), 0) >= -1e-12); /* a direction of descent; positive semidefinite */
    assert_near(cj_item(cj_max(cj_abs(cj_fisher(c, example, &r, N, &solution, 1)))), 0, 1e-25); /* all g_i = 0 */
    x = vector(zero, D); /* the first steps: -g / sqrt(diagonal), and (F + damping) d = -g */
    assert_true(cj_natural_gradient(c, example, &r, N, &x, 1, NULL, .diagonal = true, .root = true, .damping = CJ_ZERO, .iterations = 1,
                                    .step = 0.1));
    for (int a = 0; a < D; a++) assert_near(value_at(x, a), -0.1 * full[a] / sqrt(matrix[a][a]), 1e-12);
    x = vector(zero, D);
    assert_true(cj_natural_gradient(c, example, &r, N, &x, 1, NULL, .iterations = 1, .damping = 0.5));
    for (int a = 0; a < D; a++) {
        double sum = 0.5 * value_at(x, a) + full[a];
        for (int b = 0; b < D; b++) sum += matrix[a][b] * value_at(x, b);
        assert_near(sum, 0, 1e-10);
    }
    assert_refused(CJ_EVALUE, "fisher: 0 examples", cj_fisher(c, example, &r, 0, &x, 1));
    assert_refused(CJ_EVALUE, "natural_gradient: damping -1", cj_natural_gradient(c, example, &r, N, &x, 1, NULL, .damping = -1));
}

/* opt.polyak_average: a constant rate on the regression; the last iterate and the mean of all, over 10 runs */
static void opt_polyak_average_gap(void **state)
{
    (void)state;
    double last = 0, average = 0;
    enum { RUNS = 10, STEPS = 20000 };
    for (int run = 0; run < RUNS; run++) {
        regression r = make_regression();
        double w[D] = { 0 }, mean[D] = { 0 }, g[D], step = 1 / (3 * r.largest), *pick = values_of(cj_randint(c, 0, N, CJ_SHAPE(STEPS)));
        for (int t = 0; t < STEPS; t++) {
            gradient(&r, (int64_t)pick[t], w, g);
            for (int k = 0; k < D; k++) w[k] -= step * g[k], mean[k] += (w[k] - mean[k]) / (t + 1);
        }
        last += gap(&r, w) / RUNS, average += gap(&r, mean) / RUNS;
        free(pick);
    }
    assert_true(last > 1e-3 && last < 1e-2);
    assert_true(average < 1e-4 && average < last / 30);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(opt_gradient_flow),
        ROW(opt_nesterov_forms),
        ROW(opt_nesterov_counts),
        ROW(opt_momentum_schedule),
        ROW(opt_exact_line_search_numeric),
        ROW(opt_bracket_line_search),
        ROW(opt_newton_cg_network),
        ROW(opt_bfgs_inverse_hessian),
        ROW(opt_preconditioned),
        ROW(opt_normalised_gradient),
        ROW(opt_sgd),
        ROW(opt_importance_sgd),
        ROW(opt_saga_unbiased),
        ROW(opt_svrg_unbiased),
        ROW(opt_sag_biased),
        ROW(opt_variance_stops),
        ROW(opt_svrg_variance_vanishes),
        ROW(opt_gauss_newton_diag),
        ROW(opt_polyak_average_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
