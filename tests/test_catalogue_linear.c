/* The catalogue's families `lin` and `perc`: linear models and separators, one test case per row, named after its id (docs/coverage.tsv).  f64. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 41);

static cj_tensor *matrix(const double *v, int64_t n, int64_t d) { return (cj_from_f64)(c, v, CJ_SHAPE(n, d)); }
static cj_tensor *vector(const double *v, int64_t n) { return (cj_from_f64)(c, v, CJ_SHAPE(n)); }
static cj_tensor *normal(int64_t n, int64_t d) { return cj_randn(c, CJ_SHAPE(n, d), .dtype = CJ_F64); }
static cj_tensor *noise(int64_t n, double deviation) { return cj_mul_scalar(cj_randn(c, CJ_SHAPE(n), .dtype = CJ_F64), deviation); }
/* x·w for a vector w */
static cj_tensor *times(cj_tensor *x, const double *w) { return cj_squeeze(cj_matmul(x, matrix(w, cj_size(x, 1), 1)), 1); }
static double mean_square(cj_tensor *r) { return cj_item(cj_mean(cj_square(r))); }
static double largest(cj_tensor *t) { return cj_item(cj_max(cj_abs(t))); }

/* ---- squared error ------------------------------------------------------------------------------------------------------------------------------------------ */

/* lin.least_squares: linear least squares */
static void lin_least_squares(void **state)
{
    (void)state;
    static const double truth[4] = { 1, -2, 0.5, 3 };
    cj_tensor *x = normal(40, 4), *y = cj_add_scalar(cj_add(times(x, truth), noise(40, 0.3)), 2);
    cj_fit f = cj_least_squares(x, y);
    cj_tensor *r = cj_sub(y, cj_fit_predict(&f, x));
    assert_int_equal(f.rank, 4);
    assert_near(largest(cj_matmul(cj_t(x), cj_unsqueeze(r, 1))), 0, 1e-10); /* the residual is orthogonal to the columns and to ones */
    assert_near(cj_item(cj_sum(r)), 0, 1e-10);
    assert_near(cj_item(f.variance), mean_square(r), 1e-14);
    cj_tensor *both[2] = { x, cj_ones(c, CJ_SHAPE(40, 1), CJ_F64) },
              *a = cj_cat(both, 2, 1); /* with a column of ones: normal equations, QR, SVD */
    cj_tensor *t = cj_unsqueeze(y, 1), *normal_equations = cj_solve(cj_matmul(cj_t(a), a), cj_matmul(cj_t(a), t));
    cj_qr_result qr = cj_qr(a);
    cj_tensor *by_qr = cj_solve_triangular(qr.r, cj_matmul(cj_t(qr.q), t), .upper = true), *by_svd = cj_matmul(cj_pinv(a), t);
    for (int i = 0; i < 5; i++) {
        double w = i < 4 ? value_at(f.weight, i) : cj_item(f.bias);
        assert_near(w, value_at(normal_equations, i), 1e-10);
        assert_near(w, value_at(by_qr, i), 1e-10);
        assert_near(w, value_at(by_svd, i), 1e-10);
    }
    double slope[5] = { 0 }; /* and gradient descent, converged */
    double *av = values_of(a), *yv = values_of(y);
    for (int k = 0; k < 4000; k++) {
        double g[5] = { 0 };
        for (int i = 0; i < 40; i++) {
            double z = -yv[i];
            for (int j = 0; j < 5; j++) z += av[5 * i + j] * slope[j];
            for (int j = 0; j < 5; j++) g[j] += z * av[5 * i + j] / 40;
        }
        for (int j = 0; j < 5; j++) slope[j] -= 0.3 * g[j];
    }
    for (int i = 0; i < 4; i++) assert_near(slope[i], value_at(f.weight, i), 1e-9);
    free(av);
    free(yv);
    static const double line_x[4] = { 0, 1, 2, 3 }, line_y[4] = { 1, 3, 2, 5 }; /* by hand: slope 1.1, intercept 1.1 */
    f = cj_least_squares(matrix(line_x, 4, 1), vector(line_y, 4));
    assert_near(value_at(f.weight, 0), 1.1, 1e-13);
    assert_near(cj_item(f.bias), 1.1, 1e-13);
    static const double twice[6] = { 1, 2, 2, 4, 3, 6 },
                        three[3] = { 5, 10, 15 }; /* the second column is twice the first: rank 1, the shortest w is (1, 2) */
    f = cj_least_squares(matrix(twice, 3, 2), vector(three, 3), .no_bias = true);
    assert_int_equal(f.rank, 1);
    assert_near(value_at(f.weight, 0), 1, 1e-12);
    assert_near(value_at(f.weight, 1), 2, 1e-12);
    x = normal(3, 5), y = noise(3, 1); /* fewer examples than weights */
    f = cj_least_squares(x, y, .no_bias = true);
    assert_int_equal(f.rank, 3);
    assert_near(distance(cj_fit_predict(&f, x), y), 0, 1e-12);
    cj_fit many = cj_least_squares(x, normal(3, 2)); /* two targets */
    assert_int_equal(cj_size(many.weight, 1), 2);
    assert_poisoned(CJ_ESHAPE, "least_squares: y is [4]; targets for each of the 3 rows of x expected",
                    cj_least_squares(x, noise(4, 1)).weight);
    assert_poisoned(CJ_ESHAPE, "least_squares: x is [3]; [examples, features] expected", cj_least_squares(noise(3, 1), noise(3, 1)).weight);
    assert_poisoned(CJ_EDTYPE, "least_squares: x is i64", cj_least_squares(cj_cast(x, CJ_I64), noise(3, 1)).weight);
    assert_poisoned(CJ_ESHAPE, "fit_predict: x is [4, 1], the model has 5 inputs", cj_fit_predict(&f, matrix(line_x, 4, 1)));
}

static double gaussian_nll(cj_tensor *r, double s2)
{
    double n = (double)cj_numel(r);
    return n / 2 * log(s2) + n / 2 * log(2 * M_PI) + n * mean_square(r) / (2 * s2);
}
/* lin.gaussian_mle: least squares as maximum likelihood */
static void lin_gaussian_mle(void **state)
{
    (void)state;
    static const double truth[2] = { 1, -2 };
    cj_tensor *x = normal(4000, 2), *y = cj_add_scalar(cj_add(times(x, truth), noise(4000, 0.7)), 0.5);
    cj_fit f = cj_least_squares(x, y);
    cj_tensor *r = cj_sub(y, cj_fit_predict(&f, x));
    double mse = cj_item(f.variance), best = gaussian_nll(r, mse), s = sqrt(mse);
    for (int k = -20; k <= 20; k++) { /* over s² the least is at the mean squared residual … */
        double s2 = mse * pow(1.1, k);
        assert_true(gaussian_nll(r, s2) >= best - 1e-9);
        cj_fit g = f; /* … and for every s² these weights are the best */
        for (int side = -1; side <= 1; side += 2) {
            g.weight = cj_add_scalar(f.weight, side * 0.01);
            assert_true(gaussian_nll(cj_sub(y, cj_fit_predict(&g, x)), s2) > gaussian_nll(r, s2));
        }
    }
    cj_tensor *fresh = normal(20000, 2), *target = cj_add_scalar(cj_add(times(fresh, truth), noise(20000, 0.7)), 0.5),
              *mean = cj_fit_predict(&f, fresh);
    cj_dist predictive = cj_dist_normal(mean, cj_full(c, s, CJ_SCALAR, CJ_F64));
    cj_tensor *tail = cj_dist_quantile(predictive, cj_full(c, 0.95, CJ_SCALAR, CJ_F64));
    assert_near(largest(cj_sub(cj_sub(tail, mean), cj_full(c, 1.644854 * s, CJ_SCALAR, CJ_F64))), 0, 1e-6);
    assert_near(distance(cj_dist_quantile(predictive, cj_full(c, 0.5, CJ_SCALAR, CJ_F64)), mean), 0, 1e-12); /* the median is the mean */
    assert_near(cj_item(cj_mean(cj_cast(cj_le(target, tail), CJ_F64))), 0.95, 0.005);
    cj_tensor *inside = cj_le_scalar(cj_abs(cj_sub(target, mean)), 1.959964 * s);
    assert_near(cj_item(cj_mean(cj_cast(inside, CJ_F64))), 0.95, 0.005);
}

/* lin.delta_rule: delta rule (LMS, Widrow-Hoff) */
static void lin_delta_rule(void **state)
{
    (void)state;
    enum { N = 12, D = 3 };
    static const double truth[D] = { 1, -2, 0.5 };
    cj_tensor *x = normal(N, D), *y = times(x, truth);
    double *xv = values_of(x), *yv = values_of(y), w[D] = { 0 };
    static const cj_module_type holder = { "holder", NULL, NULL };
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *p = cj_module_param(m, "w", cj_zeros(c, CJ_SHAPE(D), CJ_F64));
    cj_optim *sgd = cj_sgd(cj_module_params(m), .lr = 0.05);
    for (int t = 0; t < 200 * N; t++) {
        int i = t % N;
        double error = yv[i];
        for (int k = 0; k < D; k++) error -= xv[D * i + k] * w[k];
        for (int k = 0; k < D; k++) w[k] += 0.05 * error * xv[D * i + k];
        if (t >= 3 * N) continue;
        cj_scope s = cj_scope_open(c); /* SGD on half the squared error */
        cj_tensor *z = cj_sum(cj_mul(p, vector(xv + D * i, D)));
        assert_true(cj_minimise(sgd, cj_mul_scalar(cj_square(cj_add_scalar(z, -yv[i])), 0.5)));
        cj_scope_close(s);
        for (int k = 0; k < D; k++) assert_near(value_at(p, k), w[k], 1e-12);
    }
    cj_fit f = cj_least_squares(x, y, .no_bias = true);
    for (int k = 0; k < D; k++) assert_near(w[k], value_at(f.weight, k), 1e-8);
    double norm2 = 0; /* one sample again and again: the error is multiplied by 1 - eta |x|² */
    for (int k = 0; k < D; k++) norm2 += xv[k] * xv[k];
    for (int above = 0; above < 2; above++) {
        double eta = (above ? 2.1 : 1.9) / norm2, error = 1;
        for (int t = 0; t < 100; t++) error *= 1 - eta * norm2;
        cj_optim *o = cj_sgd(cj_module_params(m), .lr = eta);
        for (int t = 0; t < 100; t++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *z = cj_sum(cj_mul(p, vector(xv, D)));
            assert_true(cj_minimise(o, cj_mul_scalar(cj_square(cj_add_scalar(z, -yv[0] - 1 - above)), 0.5)));
            cj_scope_close(s);
        }
        double z = -yv[0] - 1 - above;
        for (int k = 0; k < D; k++) z += xv[k] * value_at(p, k);
        assert_true(above ? fabs(z) > 100 : fabs(z) < 1e-3);
        assert_true(above ? fabs(error) > 100 : fabs(error) < 1e-3);
    }
    free(xv);
    free(yv);
}

/* lin.whitened_ls: whitened multi-output least squares */
static void lin_whitened_ls(void **state)
{
    (void)state;
    enum { S = 50, D = 3, K = 2 };
    cj_tensor *x = cj_matmul(normal(D, D), normal(D, S)), *y = normal(K, S); /* columns are examples */
    cj_eigen e = cj_eigh(cj_mul_scalar(cj_matmul(x, cj_t(x)), 1.0 / S));
    cj_tensor *white = cj_mul(cj_unsqueeze(cj_rsqrt(e.values), 1), cj_matmul(cj_t(e.vectors), x));
    assert_near(distance(cj_mul_scalar(cj_matmul(white, cj_t(white)), 1.0 / S), cj_eye(c, D, CJ_F64)), 0, 1e-10);
    cj_tensor *gamma = cj_mul_scalar(cj_matmul(y, cj_t(white)), 1.0 / S);
    double offset = NAN;
    for (int trial = 0; trial < 10; trial++) { /* the loss is 1/2 |Theta - Gamma|² and a constant */
        cj_tensor *theta = normal(K, D);
        double loss = cj_item(cj_sum(cj_square(cj_sub(y, cj_matmul(theta, white))))) / (2 * S);
        double rest = loss - 0.5 * cj_item(cj_sum(cj_square(cj_sub(theta, gamma))));
        if (trial > 0) assert_near(rest, offset, 1e-10);
        offset = rest;
    }
    cj_fit f = cj_least_squares(cj_contiguous(cj_t(white)), cj_contiguous(cj_t(y)), .no_bias = true);
    assert_near(distance(cj_contiguous(cj_t(f.weight)), gamma), 0, 1e-10);
    cj_tensor *theta = normal(K, D), *g = cj_mul_scalar(cj_matmul(cj_sub(cj_matmul(theta, white), y), cj_t(white)), 1.0 / S);
    assert_near(distance(cj_sub(theta, g), gamma), 0, 1e-10); /* one step of rate 1 */
}

/* Powers 1 … degree of t [n] */
static cj_tensor *powers(cj_tensor *t, int degree)
{
    cj_tensor *p[16];
    for (int k = 0; k < degree; k++) p[k] = k ? cj_mul(p[k - 1], t) : t;
    return cj_stack(p, degree, 1);
}
/* lin.polyfit: a sine with noise 0.2, ten points, degrees 0 to 9 */
static void lin_polyfit(void **state)
{
    (void)state;
    double test[10] = { 0 };
    enum { RUNS = 30 };
    for (int run = 0; run < RUNS; run++) {
        cj_tensor *t = cj_mul_scalar(cj_arange(c, 0, 10, 1, CJ_F64), 1.0 / 9),
                  *y = cj_add(cj_sin(cj_mul_scalar(t, 2 * M_PI)), noise(10, 0.2));
        cj_tensor *fresh = cj_mul_scalar(cj_arange(c, 0, 200, 1, CJ_F64), 1.0 / 199), *truth = cj_sin(cj_mul_scalar(fresh, 2 * M_PI));
        double before = INFINITY, train = 0;
        for (int degree = 0; degree <= 9; degree++) {
            if (degree == 0) {
                double mean = cj_item(cj_mean(y));
                train = mean_square(cj_add_scalar(y, -mean)), test[0] += mean_square(cj_add_scalar(truth, -mean)) / RUNS;
            } else {
                cj_fit f = cj_least_squares(powers(t, degree), y);
                train = cj_item(f.variance), test[degree] += mean_square(cj_sub(cj_fit_predict(&f, powers(fresh, degree)), truth)) / RUNS;
            }
            assert_true(train <= before + 1e-12); /* never rises */
            before = train;
        }
        assert_near(train, 0, 1e-10); /* through every point */
    }
    int best = 0;
    for (int k = 1; k < 10; k++)
        if (test[k] < test[best]) best = k;
    assert_true(best >= 3 && best <= 6);
    assert_true(test[9] > 3 * test[best] && test[1] > 3 * test[best]); /* variance at one end, bias at the other */
}

/* lin.minimax_fit: minimax (maximum-loss) regression */
static void lin_minimax_fit(void **state)
{
    (void)state;
    enum { N = 21 };
    cj_tensor *t = cj_mul_scalar(cj_arange(c, 0, N, 1, CJ_F64), 1.0 / (N - 1)), *y = cj_square(t);
    cj_fit f = cj_minimax_regression(cj_unsqueeze(t, 1), y); /* t² on [0, 1]: t - 1/8, error 1/8 at 0, 1/2 and 1 */
    assert_near(value_at(f.weight, 0), 1, 1e-9);
    assert_near(cj_item(f.bias), -0.125, 1e-9);
    double *r = values_of(cj_sub(y, cj_fit_predict(&f, cj_unsqueeze(t, 1))));
    int touching = 0;
    for (int i = 0; i < N; i++) assert_true(fabs(r[i]) <= 0.125 + 1e-9), touching += fabs(fabs(r[i]) - 0.125) < 1e-9;
    assert_true(touching >= 3);
    assert_true(r[0] > 0 && r[10] < 0 && r[20] > 0);
    free(r);
    double *line = values_of(t); /* one outlier on a line moves the maximum fit by half of it, the median fit not at all */
    line[N - 1] += 5;
    cj_fit most = cj_minimax_regression(cj_unsqueeze(t, 1), vector(line, N)),
           median = cj_quantile_regression(cj_unsqueeze(t, 1), vector(line, N), 0.5);
    double moved = fabs(value_at(most.weight, 0) - 1) + fabs(cj_item(most.bias)),
           stayed = fabs(value_at(median.weight, 0) - 1) + fabs(cj_item(median.bias));
    assert_true(moved > 1 && stayed < 1e-8);
    free(line);
}

/* lin.log_inputs: regression on log inputs */
static void lin_log_inputs(void **state)
{
    (void)state;
    cj_tensor *u = cj_uniform(c, 0.5, 4, CJ_SHAPE(60, 2), .dtype = CJ_F64), *x = cj_select(u, 1, 0), *z = cj_select(u, 1, 1);
    cj_tensor *y = cj_div(cj_mul_scalar(cj_square(x), 3), z);
    cj_fit f = cj_least_squares(cj_log(u), cj_log(y)); /* log y = log 3 + 2 log x - log z */
    assert_near(value_at(f.weight, 0), 2, 1e-10);
    assert_near(value_at(f.weight, 1), -1, 1e-10);
    assert_near(exp(cj_item(f.bias)), 3, 1e-9);
    static const double bad[3] = { 1, 0, 2 }; /* the logarithm of what is not positive is not a finite number, and that is refused */
    assert_poisoned(CJ_EVALUE, "lstsq: element [0, 0] of the matrix is infinite",
                    cj_least_squares(cj_log(matrix(bad, 3, 1)), noise(3, 1)).weight);
    assert_poisoned(CJ_EVALUE, "x or y has a number that is not finite", cj_lasso(cj_log(matrix(bad, 3, 1)), noise(3, 1), 0.1).weight);
}

/* lin.ridge: ridge regression */
static void lin_ridge(void **state)
{
    (void)state;
    cj_tensor *x = normal(30, 4), *y = noise(30, 1);
    double before = INFINITY, condition = INFINITY;
    cj_svd_result svd = cj_svd(x);
    for (int k = 0; k < 6; k++) {
        double alpha = 0.1 * pow(4, k);
        cj_fit f = cj_ridge(x, y, alpha, .no_bias = true);
        cj_tensor *a = cj_add(cj_matmul(cj_t(x), x), cj_mul_scalar(cj_eye(c, 4, CJ_F64), alpha)),
                  *b = cj_matmul(cj_t(x), cj_unsqueeze(y, 1));
        assert_near(distance(f.weight, cj_squeeze(cj_solve(a, b), 1)), 0, 1e-12); /* (xᵀx + alpha)⁻¹ xᵀy */
        /* along the singular vectors: s / (s² + alpha) uᵀy, which is s²/(s² + alpha) of least squares */
        cj_tensor *shrunk = cj_div(svd.s, cj_add_scalar(cj_square(svd.s), alpha));
        cj_tensor *w = cj_matmul(cj_t(svd.vh), cj_mul(cj_unsqueeze(shrunk, 1), cj_matmul(cj_t(svd.u), cj_unsqueeze(y, 1))));
        assert_near(distance(f.weight, cj_squeeze(w, 1)), 0, 1e-12);
        double norm = mean_square(f.weight), now = cj_item(cj_cond(a, CJ_NORM_2));
        assert_true(norm < before && now < condition);
        before = norm, condition = now;
    }
    cj_fit f = cj_ridge(x, y, 2, .no_bias = true); /* gradient descent with weight decay */
    static const cj_module_type holder = { "holder", NULL, NULL };
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *p = cj_module_param(m, "w", cj_zeros(c, CJ_SHAPE(4, 1), CJ_F64));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0.01, .weight_decay = 2);
    for (int t = 0; t < 1500; t++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(o, cj_mul_scalar(cj_sum(cj_square(cj_sub(cj_unsqueeze(y, 1), cj_matmul(x, p)))), 0.5)));
        cj_scope_close(s);
    }
    assert_near(distance(cj_squeeze(cj_detach(p), 1), f.weight), 0, 1e-10);
    x = normal(3, 6), y = noise(3, 1); /* rank deficient: still one solution, the shortest in the limit */
    cj_fit small = cj_ridge(x, y, 1e-9), shortest = cj_least_squares(x, y);
    assert_near(distance(small.weight, shortest.weight), 0, 1e-6);
    assert_near(cj_item(small.bias), cj_item(shortest.bias), 1e-6);
    assert_poisoned(CJ_EVALUE, "ridge: alpha -1; it must be positive and finite", cj_ridge(x, y, -1).weight);
}

/* opt.proximal: proximal gradient (ISTA/FISTA) and coordinate descent */
/* lin.lasso: lasso */
static void lin_lasso(void **state)
{
    (void)state;
    enum { N = 60, D = 8 };
    static const double truth[D] = { 2, 0, 0, -1, 0, 0, 0, 0.05 };
    cj_tensor *x = normal(N, D), *y = cj_add(times(x, truth), noise(N, 0.3));
    double lambda = 0.2;
    cj_fit f[2];
    for (int k = 0; k < 2; k++) {
        f[k] = cj_lasso(x, y, lambda, .no_bias = true, .proximal = k, .iterations = 100000);
        assert_true(f[k].converged);
        double *g = values_of(cj_matmul(cj_t(x), cj_unsqueeze(cj_sub(y, cj_fit_predict(&f[k], x)), 1)));
        int zeros = 0;
        for (int j = 0; j < D; j++) { /* the conditions of optimality */
            double w = value_at(f[k].weight, j);
            if (w == 0) zeros++, assert_true(fabs(g[j]) / N <= lambda + 1e-10);
            else assert_near(g[j] / N, w > 0 ? lambda : -lambda, 1e-9);
        }
        assert_true(zeros >= 4 && zeros < D);
        free(g);
    }
    assert_near(distance(f[0].weight, f[1].weight), 0, 1e-8); /* coordinates and FISTA agree */
    double most = largest(cj_matmul(cj_t(x), cj_unsqueeze(y, 1))) / N;
    assert_near(largest(cj_lasso(x, y, most * 1.0000001, .no_bias = true).weight), 0, 0);
    assert_true(largest(cj_lasso(x, y, most * 0.99, .no_bias = true).weight) > 0);
    cj_tensor *q = cj_mul_scalar(cj_qr(x).q, sqrt(N)); /* orthonormal columns: the soft threshold of least squares */
    cj_fit plain = cj_least_squares(q, y, .no_bias = true), thin = cj_lasso(q, y, lambda, .no_bias = true);
    for (int j = 0; j < D; j++) {
        double w = value_at(plain.weight, j);
        assert_near(value_at(thin.weight, j), w > lambda ? w - lambda : w < -lambda ? w + lambda : 0, 1e-10);
    }
    cj_tensor *shifted = cj_add_scalar(y, 7); /* the bias is not penalised */
    cj_fit with = cj_lasso(x, y, lambda), moved = cj_lasso(x, shifted, lambda);
    assert_near(distance(with.weight, moved.weight), 0, 1e-10);
    assert_near(cj_item(moved.bias) - cj_item(with.bias), 7, 1e-10);
    assert_poisoned(CJ_EVALUE, "lasso: lambda -1", cj_lasso(x, y, -1).weight);
}

/* lin.compressed_sensing: k = 4 of d = 60 */
static void lin_compressed_sensing(void **state)
{
    (void)state;
    enum { D = 60, K = 4, TRIALS = 10 };
    int measurements = (int)(4 * K * log((double)D / K)), recovered = 0, few = 0; /* 43 */
    for (int trial = 0; trial < TRIALS; trial++) {
        double w[D] = { 0 };
        for (int k = 0; k < K; k++) w[(7 * trial + 13 * k) % D] = k % 2 ? 1.5 : -1;
        cj_tensor *a = normal(measurements, D), *b = times(a, w), *found = cj_basis_pursuit(a, b);
        recovered += distance(found, vector(w, D)) < 1e-4;
        cj_tensor *shortest = cj_lstsq(a, cj_unsqueeze(b, 1)); /* the least |w|_2 has no zeros */
        assert_int_equal((int)cj_item(cj_sum(cj_cast(cj_gt_scalar(cj_abs(shortest), 1e-6), CJ_I64))), D);
        a = normal(K - 1, D), b = times(a, w);
        few += distance(cj_basis_pursuit(a, b), vector(w, D)) < 1e-4;
    }
    assert_true(recovered >= TRIALS - 1);
    assert_int_equal(few, 0);
    static const double row[2] = { 0, 0 }, one[1] = { 1 };
    assert_poisoned(CJ_EVALUE, "basis_pursuit: a·w = b has no solution", cj_basis_pursuit(matrix(row, 1, 2), vector(one, 1)));
}

/* lin.forward_selection: forward selection */
static void lin_forward_selection(void **state)
{
    (void)state;
    enum { N = 64, D = 8 };
    static const double truth[D] = { 0, 3, 0, 0, -2, 0, 1, 0 };
    cj_tensor *x = normal(N, D), *y = cj_add(times(x, truth), noise(N, 0.1));
    int64_t order[D];
    double residual[D + 1];
    cj_selection s = { .count = D, .order = order, .residual = residual };
    assert_true(cj_forward_selection(x, y, &s));
    for (int k = 0; k < D; k++) assert_true(residual[k + 1] < residual[k]);
    cj_fit full = cj_least_squares(x, y);
    assert_near(residual[D], cj_item(full.variance), 1e-12); /* all inputs: least squares */
    cj_tensor *q = cj_qr(cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true)))
                       .q; /* orthogonal and centred, no noise: the support in three steps */
    assert_true(cj_forward_selection(q, times(q, truth), &s));
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 4);
    assert_int_equal(order[2], 6);
    assert_near(residual[3], 0, 1e-14);
    s.count = 9;
    assert_refused(CJ_EVALUE, "forward_selection: 9 of 8 columns into an order", cj_forward_selection(x, y, &s));
}

/* lin.backward_selection: backward selection */
static void lin_backward_selection(void **state)
{
    (void)state;
    enum { N = 64, D = 8 };
    static const double truth[D] = { 0.3, 3, 0.1, 0.05, -2, 0.2, 1, -0.5 }, sparse[D] = { 0, 3, 0, 0, -2, 0, 1, 0 };
    cj_tensor *x = normal(N, D), *y = cj_add(times(x, sparse), noise(N, 0.1));
    int64_t forward[D], backward[D];
    double there[D + 1], back[D + 1];
    cj_selection s = { .count = D, .order = backward, .residual = back }, f = { .count = D, .order = forward, .residual = there };
    assert_true(cj_backward_selection(x, y, &s));
    bool kept[D] = { false };
    for (int k = 0; k < 3; k++) kept[backward[k]] = true;
    assert_true(kept[1] && kept[4] && kept[6]);
    cj_tensor *q = cj_qr(cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true))).q; /* orthogonal: the forward path, walked back */
    assert_true(cj_backward_selection(q, times(q, truth), &s) && cj_forward_selection(q, times(q, truth), &f));
    for (int k = 0; k < D; k++) {
        assert_int_equal(forward[k], backward[k]);
        assert_near(there[k], back[k], 1e-12);
    }
}

/* lin.variable_importance: variable importance */
static void lin_variable_importance(void **state)
{
    (void)state;
    enum { N = 20000, D = 4 };
    static const double truth[D] = { 2, 0, -1, 0.5 }, scale[D] = { 1, 1, 3, 2 };
    cj_tensor *x = cj_mul(normal(N, D), vector(scale, D)), *y = cj_add_scalar(cj_add(times(x, truth), noise(N, 1)), 3);
    cj_tensor *importance = cj_variable_importance(x, y);
    for (int j = 0; j < D; j++) { /* w² var(x) of independent inputs */
        double expected = truth[j] * truth[j] * scale[j] * scale[j];
        assert_near(value_at(importance, j), expected, 0.05 * expected + 0.001);
        assert_true(value_at(importance, j) >= 0);
    }
    double *refit = values_of(x); /* by refitting without column 2 */
    for (int i = 0; i < N; i++) refit[D * i + 2] = 0;
    double without = cj_item(cj_least_squares(matrix(refit, N, D), y).variance), with = cj_item(cj_least_squares(x, y).variance);
    assert_near(value_at(importance, 2), without - with, 1e-9);
    free(refit);
}

/* lin.quantile_regression: quantile linear regression */
static void lin_quantile_regression(void **state)
{
    (void)state;
    enum { N = 120 };
    cj_tensor *t = cj_uniform(c, 0, 1, CJ_SHAPE(N), .dtype = CJ_F64), *x = cj_unsqueeze(t, 1);
    cj_tensor *y = cj_add(t, cj_mul(cj_add_scalar(t, 0.2), noise(N, 1))); /* spread grows with t */
    static const double tau[3] = { 0.25, 0.5, 0.75 };
    cj_fit f[3];
    for (int k = 0; k < 3; k++) {
        f[k] = cj_quantile_regression(x, y, tau[k]);
        assert_true(f[k].converged);
        double below = cj_item(cj_mean(cj_cast(cj_lt(y, cj_add_scalar(cj_fit_predict(&f[k], x), -1e-9)), CJ_F64)));
        assert_near(below, tau[k], 2 / sqrt(N));
    }
    assert_true(value_at(f[0].weight, 0) < value_at(f[1].weight, 0) &&
                value_at(f[1].weight, 0) < value_at(f[2].weight, 0)); /* the lines fan out */
    for (int i = 0; i <= 10; i++) {                                   /* and do not cross */
        double at = i / 10.0, z[3];
        for (int k = 0; k < 3; k++) z[k] = value_at(f[k].weight, 0) * at + cj_item(f[k].bias);
        assert_true(z[0] < z[1] && z[1] < z[2]);
    }
    double *outlier = values_of(y);
    double top = fabs(outlier[3]);
    outlier[3] = outlier[3] > value_at(f[1].weight, 0) * value_at(t, 3) + cj_item(f[1].bias)
                     ? top + 1000
                     : -top - 1000; /* further off on its own side */
    cj_fit again = cj_quantile_regression(x, vector(outlier, N), 0.5),
           squares[2] = { cj_least_squares(x, y), cj_least_squares(x, vector(outlier, N)) };
    assert_near(value_at(again.weight, 0), value_at(f[1].weight, 0), 1e-9); /* the median line does not notice */
    assert_true(fabs(cj_item(squares[0].bias) - cj_item(squares[1].bias)) > 1);
    free(outlier);
    assert_poisoned(CJ_EVALUE, "quantile_regression: tau 1; it must be in (0, 1)", cj_quantile_regression(x, y, 1).weight);
}

/* lin.bayes_linear: bayesian linear regression */
static void lin_bayes_linear(void **state)
{
    (void)state;
    enum { N = 40, D = 3, TEST = 400, RUNS = 30 };
    double alpha = 0.7, s2 = 0.25, inside = 0;
    cj_tensor *x = normal(N, D), *y = noise(N, 1);
    cj_posterior p = cj_bayes_linear(x, y, alpha, s2);
    cj_fit ridge = cj_ridge(x, y, alpha * s2, .no_bias = true);
    assert_near(distance(p.mean, ridge.weight), 0, 1e-12);
    cj_posterior q =
        cj_bayes_linear(cj_contiguous(cj_slice(x, 0, 0, 15, 1)), cj_contiguous(cj_slice(y, 0, 0, 15, 1)), alpha, s2); /* in two parts */
    q = cj_bayes_update(q, cj_contiguous(cj_slice(x, 0, 15, N, 1)), cj_contiguous(cj_slice(y, 0, 15, N, 1)));
    assert_near(distance(p.mean, q.mean), 0, 1e-10);
    assert_near(distance(p.covariance, q.covariance), 0, 1e-10);
    /* the evidence by the chain rule: log p(y) = sum_i log p(y_i | before), each a one-dimensional Gaussian */
    double sum = 0, *yv = values_of(y);
    for (int i = 0; i < N; i++) {
        cj_tensor *row = cj_contiguous(cj_slice(x, 0, i, i + 1, 1));
        double mean = 0, variance = s2 + cj_item(cj_sum(cj_square(row))) / alpha;
        if (i) {
            cj_prediction next =
                cj_bayes_predict(q = cj_bayes_linear(cj_contiguous(cj_slice(x, 0, 0, i, 1)), vector(yv, i), alpha, s2), row);
            mean = value_at(next.mean, 0), variance = value_at(next.variance, 0);
        }
        sum -= 0.5 * (log(2 * M_PI * variance) + (yv[i] - mean) * (yv[i] - mean) / variance);
    }
    free(yv);
    assert_near(cj_item(cj_bayes_evidence(x, y, alpha, s2)), sum, 1e-8);
    for (int run = 0; run < RUNS; run++) { /* truths from the prior: 95 % of fresh targets inside */
        cj_tensor *w = cj_mul_scalar(normal(D, 1), 1 / sqrt(alpha)), *train = normal(5, D), *fresh = normal(TEST, D);
        p = cj_bayes_linear(train, cj_add(cj_squeeze(cj_matmul(train, w), 1), noise(5, sqrt(s2))), alpha, s2);
        cj_prediction at = cj_bayes_predict(p, fresh);
        cj_tensor *target = cj_add(cj_squeeze(cj_matmul(fresh, w), 1), noise(TEST, sqrt(s2)));
        inside +=
            cj_item(cj_mean(cj_cast(cj_le(cj_abs(cj_sub(target, at.mean)), cj_mul_scalar(cj_sqrt(at.variance), 1.959964)), CJ_F64))) / RUNS;
    }
    assert_near(inside, 0.95, 0.02);
    assert_poisoned(CJ_EVALUE, "bayes_linear: alpha 0 and variance 1 must be positive", cj_bayes_linear(x, y, 0, 1).mean);
    assert_poisoned(CJ_ESHAPE, "bayes_predict: x is [40, 1], the model has 3 inputs", cj_bayes_predict(p, cj_unsqueeze(y, 1)).mean);
}

/* ---- programs --------------------------------------------------------------------------------------------------------------------------------------------------- */

static void linear_programs(void **state)
{
    (void)state;
    /* max 3 a + 5 b with a <= 4, 2 b <= 12, 3 a + 2 b <= 18 (Hillier & Lieberman): a = 2, b = 6, 36 */
    static const double a[15] = { 1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 3, 2, 0, 0, 1 }, b[3] = { 4, 12, 18 }, cost[5] = { -3, -5, 0, 0, 0 };
    cj_program p = cj_linear_program(vector(cost, 5), matrix(a, 3, 5), vector(b, 3));
    assert_int_equal(p.outcome, CJ_PROGRAM_SOLVED);
    assert_near(p.value, -36, 1e-12);
    assert_near(value_at(p.x, 0), 2, 1e-12);
    assert_near(value_at(p.x, 1), 6, 1e-12);
    static const double two[4] = { 1, 1, 1, 1 }, apart[2] = { 1, 2 }, price[2] = { 1, 1 };
    assert_int_equal(cj_linear_program(vector(price, 2), matrix(two, 2, 2), vector(apart, 2)).outcome, CJ_PROGRAM_INFEASIBLE);
    static const double ray[2] = { 1, -1 }, none[1] = { 0 }, gain[2] = { -1, 0 };
    assert_int_equal(cj_linear_program(vector(gain, 2), matrix(ray, 1, 2), vector(none, 1)).outcome, CJ_PROGRAM_UNBOUNDED);
    /* Beale's example, on which the largest-coefficient rule cycles: value -0.05 */
    static const double beale[21] = { 0.25, -60, -0.04, 9, 1, 0, 0, 0.5, -90, -0.02, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1 },
                        right[3] = { 0, 0, 1 }, prices[7] = { -0.75, 150, -0.02, 6, 0, 0, 0 };
    p = cj_linear_program(vector(prices, 7), matrix(beale, 3, 7), vector(right, 3));
    assert_int_equal(p.outcome, CJ_PROGRAM_SOLVED);
    assert_near(p.value, -0.05, 1e-12);
    assert_poisoned(CJ_ESHAPE, "linear_program: cost [2], a [3, 7], b [3]",
                    cj_linear_program(vector(price, 2), matrix(beale, 3, 7), vector(right, 3)).x);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(lin_least_squares),
        ROW(lin_gaussian_mle),
        ROW(lin_delta_rule),
        ROW(lin_whitened_ls),
        ROW(lin_polyfit),
        ROW(lin_minimax_fit),
        ROW(lin_log_inputs),
        ROW(lin_ridge),
        ROW(lin_lasso),
        ROW(lin_compressed_sensing),
        ROW(lin_forward_selection),
        ROW(lin_backward_selection),
        ROW(lin_variable_importance),
        ROW(lin_quantile_regression),
        ROW(lin_bayes_linear),
        ROW(linear_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
