/* What tables, moments, generating functions, Gaussians and the generator are said to do.  Each case carries the name of the claim that it checks. */
#include "support.h"

#include <cajal/math.h>

TEST_CONTEXT(.seed = 83);

static cj_tensor *number(double v) { return cj_from_f64(c, &v, CJ_SCALAR); }
#define N(v) number(v)
enum { DRAWS = 100000 };

static double least(cj_tensor *symmetric) { return cj_item(cj_min(cj_eigvalsh(symmetric))); }
static cj_tensor *randn64(cj_shape s) { return cj_randn(c, s, .dtype = CJ_F64); }
/* sqrt(n)·sup|F - F_n|; 1.63 is the 1 % point */
static double kolmogorov(cj_dist d, cj_tensor *x)
{
    const int64_t n = cj_numel(x);
    double *f = values_of(cj_dist_cdf(d, cj_sort(cj_cast(x, CJ_F64), 0).values)), worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fmax(f[i] - (double)i / (double)n, (double)(i + 1) / (double)n - f[i]));
    free(f);
    return worst * sqrt((double)n);
}

/* ---- prob.discrete ------------------------------------------------------------------------------------------------------------------------------- */

static void prob_discrete(void **state)
{
    (void)state;
    for (int k = 0; k < 10; k++) {
        cj_tensor *joint = cj_reshape(cj_softmax(randn64(CJ_SHAPE(20)), 0), CJ_SHAPE(4, 5)); /* P(x, y) */
        cj_tensor *x = cj_sum(joint, .axes = CJ_AXIS(1)), *y = cj_sum(joint, .axes = CJ_AXIS(0));
        cj_tensor *y_given_x = cj_table_conditional(joint, CJ_AXIS(1)), *x_given_y = cj_table_conditional(joint, CJ_AXIS(0));
        assert_near(cj_item(cj_sum(x)), 1, 1e-12);
        assert_near(distance(cj_mul(y_given_x, cj_unsqueeze(x, 1)), joint), 0, 1e-12); /* product rule, both ways */
        assert_near(distance(cj_mul(x_given_y, y), joint), 0, 1e-12);
        assert_near(distance(cj_sum(y_given_x, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(4), CJ_F64)), 0, 1e-12);
        /* Bayes: P(y | x) from P(y) and P(x | y) [y, x] */
        cj_tensor *posterior = cj_bayes(y, cj_t(x_given_y));
        assert_near(distance(posterior, y_given_x), 0, 1e-12);
        assert_near(distance(cj_sum(posterior, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(4), CJ_F64)), 0, 1e-12);
        /* independent exactly where the table is the product of its marginals */
        assert_near(cj_item(cj_mutual_information(cj_outer(x, y))), 0, 1e-12);
        assert_true(cj_item(cj_mutual_information(joint)) > 1e-3);
        /* P(z) P(x|z) P(y|z): conditionally independent, not independent */
        cj_tensor *z = cj_softmax(randn64(CJ_SHAPE(3)), 0), *xz = cj_softmax(cj_mul_scalar(randn64(CJ_SHAPE(4, 3)), 2), 0),
                  *yz = cj_softmax(cj_mul_scalar(randn64(CJ_SHAPE(5, 3)), 2), 0);
        cj_tensor *xyz = cj_mul(cj_mul(cj_unsqueeze(xz, 1), cj_unsqueeze(yz, 0)), z); /* [4, 5, 3] */
        assert_near(cj_item(cj_conditional_mutual_information(xyz)), 0, 1e-12);
        assert_true(cj_item(cj_mutual_information(cj_sum(xyz, .axes = CJ_AXIS(2)))) > 1e-3);
        /* equivalently P(x | y, z) = P(x | z) */
        assert_near(distance(cj_table_conditional(xyz, CJ_AXIS(0)), cj_expand(cj_unsqueeze(xz, 1), CJ_SHAPE(4, 5, 3))), 0, 1e-12);
        cj_tensor *other = cj_reshape(cj_softmax(randn64(CJ_SHAPE(60)), 0), CJ_SHAPE(4, 5, 3));
        assert_true(cj_item(cj_conditional_mutual_information(other)) > 1e-3);
    }
    /* an outcome without probability has no posterior: zeros, no NaN */
    cj_tensor *none = cj_bayes(F64(c, CJ_SHAPE(2), 0.5, 0.5), F64(c, CJ_SHAPE(2, 2), 1, 0, 1, 0));
    assert_near(distance(none, F64(c, CJ_SHAPE(2, 2), 0.5, 0.5, 0, 0)), 0, 0);
    assert_refused(CJ_ESHAPE, "bayes: prior [.., Y] and likelihood [.., Y, X] are expected",
                   cj_bayes(F64(c, CJ_SHAPE(2), 0.5, 0.5), cj_eye(c, 3, CJ_F64)));
    assert_refused(CJ_ESHAPE, "conditional_mutual_information: a table [.., X, Y, Z]",
                   cj_conditional_mutual_information(cj_eye(c, 3, CJ_F64)));
}

/* ---- prob.moments ------------------------------------------------------------------------------------------------------------------------------------ */

static void prob_moments(void **state)
{
    (void)state;
    cj_tensor *x = randn64(CJ_SHAPE(7, 3)), *p = cj_softmax(randn64(CJ_SHAPE(7)), 0),
              *a = randn64(CJ_SHAPE(2, 3)); /* a law on 7 points of R³ */
    cj_tensor *column = cj_unsqueeze(p, 1), *mean = cj_sum(cj_mul(column, x), .axes = CJ_AXIS(0)), *s = cj_cov(x, .weights = p);
    cj_tensor *second = cj_matmul(cj_t(x), cj_mul(column, x)); /* E[X Xᵀ] */
    assert_near(distance(s, cj_sub(second, cj_outer(mean, mean))), 0, 1e-12);
    assert_near(distance(cj_cov(cj_add_scalar(cj_mul_scalar(x, -1.5), 2), .weights = p), cj_mul_scalar(s, 2.25)), 0,
                1e-12);                                                                                                /* Var[aX + b] */
    assert_near(distance(cj_cov(cj_matmul(x, cj_t(a)), .weights = p), cj_matmul(cj_matmul(a, s), cj_t(a))), 0, 1e-12); /* Var[AX] */
    /* Var[sum a_i X_i] = sum a_i² Var X_i + 2 sum_(i<j) a_i a_j Cov; and covariance is bilinear */
    cj_tensor *row = cj_select(a, 0, 0), *sum = cj_matmul(x, row), *spread = cj_cov(cj_unsqueeze(sum, 1), .weights = p);
    cj_tensor *aa = cj_mul(cj_outer(row, row), s);
    assert_near(cj_item(spread), cj_item(cj_sum(cj_diagonal(aa, 0, 0, 1))) + 2 * cj_item(cj_sum(cj_triu(aa, 1))), 1e-12);
    cj_tensor *both = cj_cov(cj_stack(CJ_TENSORS(sum, cj_select(x, 1, 2)), 2, 1), .weights = p);
    assert_near(value_at(both, 1), cj_item(cj_dot(row, cj_select(s, 1, 2))), 1e-12);
    assert_true(least(cj_matmul(x, cj_t(x))) >= -1e-12 && least(s) >= -1e-12);
    /* independent: a product law on a grid */
    cj_tensor *u = cj_softmax(randn64(CJ_SHAPE(4)), 0), *v = cj_softmax(randn64(CJ_SHAPE(5)), 0), *xs = randn64(CJ_SHAPE(4, 1)),
              *ys = randn64(CJ_SHAPE(1, 5));
    cj_tensor *grid = cj_reshape(cj_stack(CJ_TENSORS(cj_expand(xs, CJ_SHAPE(4, 5)), cj_expand(ys, CJ_SHAPE(4, 5))), 2, 2), CJ_SHAPE(20, 2));
    assert_near(value_at(cj_cov(grid, .weights = cj_reshape(cj_outer(u, v), CJ_SHAPE(20))), 1), 0, 1e-12);
    /* Monte Carlo, within 4 standard errors: Var[2X - 3Y + 1] for X exponential, Y normal; E|t| f(t) by samples */
    cj_tensor *e = cj_dist_sample(cj_dist_exponential(N(1)), CJ_SHAPE(DRAWS)),
              *g = cj_dist_sample(cj_dist_normal(N(2), N(0.5)), CJ_SHAPE(DRAWS));
    cj_tensor *mix = cj_add_scalar(cj_sub(cj_mul_scalar(e, 2), cj_mul_scalar(g, 3)), 1), *squares = cj_square(cj_sub(mix, cj_mean(mix)));
    const double want = 4 * 1 + 9 * 0.25;
    assert_near(cj_item(cj_mean(squares)), want, 4 * sqrt(cj_item(cj_var(squares)) / DRAWS));
    assert_near(cj_item(cj_mean(mix)), 2 * 1 - 3 * 2 + 1, 4 * sqrt(want / DRAWS));
    assert_near(value_at(cj_cov(cj_stack(CJ_TENSORS(e, g), 2, 1)), 1), 0, 4 * sqrt(1 * 0.25 / DRAWS));
    assert_refused(CJ_ESHAPE, "cov: [n, d] and weights [n] are expected", cj_cov(x, .weights = u));
}

/* ---- prob.mgf -------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *mgf_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    return (void)ctx, (void)n, cj_dist_mgf(*(cj_dist *)user, in[0]);
}

static void prob_mgf(void **state)
{
    (void)state;
    const double p = 0.3, n = 6, m = 0.7, s = 1.2, a = 2.5, scale = 0.5, l = 1.4;
    /* raw moments 1 to 4: Bernoulli p; binomial and Poisson by factorial moments; normal; gamma a (a+1) … scale^k */
    const double b1 = n * p, b2 = n * (n - 1) * p * p, b3 = b2 * (n - 2) * p, b4 = b3 * (n - 3) * p, v = s * s;
    const struct {
        cj_dist d;
        double moment[4];
    } laws[] = {
        { cj_dist_bernoulli(N(p)), { p, p, p, p } },
        { cj_dist_binomial(N(n), N(p)), { b1, b2 + b1, b3 + 3 * b2 + b1, b4 + 6 * b3 + 7 * b2 + b1 } },
        { cj_dist_normal(N(m), N(s)), { m, m * m + v, m * m * m + 3 * m * v, m * m * m * m + 6 * m * m * v + 3 * v * v } },
        { cj_dist_gamma(N(a), N(1 / scale)),
          { a * scale, a * (a + 1) * scale * scale, a * (a + 1) * (a + 2) * pow(scale, 3),
            a * (a + 1) * (a + 2) * (a + 3) * pow(scale, 4) } },
        { cj_dist_poisson(N(l)), { l, l * l + l, l * l * l + 3 * l * l + l, pow(l, 4) + 6 * l * l * l + 7 * l * l + l } },
    };
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        cj_dist d = laws[i].d;
        cj_tensor *x = cj_dist_sample(d, CJ_SHAPE(DRAWS));
        assert_near(cj_item(cj_dist_mgf(d, N(0))), 1, 1e-14);
        for (int k = 1; k <= 4; k++) {
            assert_near(cj_item(cj_derivative(c, mgf_fn, &d, N(0), k)), laws[i].moment[k - 1], 1e-8);
            cj_tensor *power = cj_pow_scalar(x, k);
            assert_near(cj_item(cj_mean(power)), laws[i].moment[k - 1], 5 * sqrt(cj_item(cj_var(power)) / DRAWS));
        }
    }
    /* closed forms at a few t; the gamma's ends at 1/scale */
    for (double t = -1.5; t < 1.6; t += 0.5) {
        assert_near(cj_item(cj_dist_mgf(laws[0].d, N(t))), p * exp(t) + 1 - p, 1e-12);
        assert_near(cj_item(cj_dist_mgf(laws[1].d, N(t))), pow(p * exp(t) + 1 - p, n), 1e-11);
        assert_near(cj_item(cj_dist_mgf(laws[2].d, N(t))), exp(m * t + v * t * t / 2), 1e-11);
        assert_near(cj_item(cj_dist_mgf(laws[3].d, N(t))), pow(1 - scale * t, -a), 1e-10);
        assert_near(cj_item(cj_dist_mgf(laws[4].d, N(t))), exp(l * (exp(t) - 1)), 1e-10);
        /* sums of independent ones multiply: 2 X - Y with Poissons, and with normals, where the sum is a law of its own */
        const double two = cj_item(cj_dist_mgf(cj_dist_poisson(N(0.6)), N(t))) * cj_item(cj_dist_mgf(cj_dist_poisson(N(0.8)), N(t)));
        assert_near(two, cj_item(cj_dist_mgf(laws[4].d, N(t))), 1e-10);
        const double by_parts = cj_item(cj_dist_mgf(laws[2].d, N(2 * t))) * cj_item(cj_dist_mgf(cj_dist_normal(N(1), N(0.5)), N(-t)));
        const double whole = cj_item(cj_dist_mgf(cj_dist_normal(N(2 * m - 1), N(sqrt(4 * v + 0.25))), N(t)));
        assert_near(by_parts / whole, 1, 1e-12);
        /* equal M, equal cdf */
        if (t < 1)
            assert_near(cj_item(cj_dist_mgf(cj_dist_exponential(N(1.5)), N(t))), cj_item(cj_dist_mgf(cj_dist_gamma(N(1), N(1.5)), N(t))),
                        1e-13);
    }
    assert_true(isinf(cj_item(cj_dist_mgf(laws[3].d, N(2)))));
    cj_tensor *grid = cj_mul_scalar(cj_arange(c, 0, 60, 1, CJ_F64), 0.1);
    assert_near(distance(cj_dist_cdf(cj_dist_exponential(N(1.5)), grid), cj_dist_cdf(cj_dist_gamma(N(1), N(1.5)), grid)), 0, 1e-14);
    /* a Gaussian vector: M(t), and E[x_i x_j] = d²M / dt_i dt_j at 0 */
    cj_tensor *mean = F64(c, CJ_SHAPE(2), 0.5, -1), *cov = F64(c, CJ_SHAPE(2, 2), 2, 0.6, 0.6, 1), *t = F64(c, CJ_SHAPE(2), 0.3, -0.4);
    cj_dist g = cj_dist_multivariate_normal(mean, cov, CJ_COVARIANCE);
    assert_near(cj_item(cj_dist_mgf(g, t)), exp(0.15 + 0.4 + (0.09 * 2 - 2 * 0.12 * 0.6 + 0.16) / 2), 1e-12);
    assert_near(distance(cj_hessian(c, mgf_fn, &g, F64(c, CJ_SHAPE(2), 0, 0)), cj_add(cov, cj_outer(mean, mean))), 0, 1e-12);
}

/* ---- prob.gauss_block, dist.mvn -------------------------------------------------------------------------------------------------------------------------- */

static const double mu[4] = { 1, -1, 0.5, 2 };
static cj_tensor *some_covariance(int64_t n)
{
    cj_tensor *w = randn64(CJ_SHAPE(n, n));
    return cj_add(cj_matmul(w, cj_t(w)), cj_mul_scalar(cj_eye(c, n, CJ_F64), 0.5));
}

static void prob_gauss_block(void **state)
{
    (void)state;
    cj_tensor *s = some_covariance(4), *x = randn64(CJ_SHAPE(4)), *x2 = cj_slice(x, 0, 2, 4, 1), *x1 = cj_slice(x, 0, 0, 2, 1);
    const cj_dist d = cj_dist_multivariate_normal(f64(c, mu, CJ_SHAPE(4)), s, CJ_COVARIANCE);
    const cj_dist first = cj_gaussian_marginal(d, 0, 2), second = cj_gaussian_marginal(d, 2, 4), given = cj_gaussian_conditional(d, 2, x2);
    const double joint = cj_item(cj_dist_log_prob(d, x));
    assert_near(joint, cj_item(cj_dist_log_prob(second, x2)) + cj_item(cj_dist_log_prob(given, x1)), 1e-10);
    /* by the formulas with an inverse */
    cj_tensor *s11 = cj_slice(cj_slice(s, 0, 0, 2, 1), 1, 0, 2, 1), *s12 = cj_slice(cj_slice(s, 0, 0, 2, 1), 1, 2, 4, 1),
              *s22 = cj_slice(cj_slice(s, 0, 2, 4, 1), 1, 2, 4, 1), *gain = cj_matmul(s12, cj_inverse(s22));
    assert_near(distance(cj_dist_covariance(first), s11), 0, 1e-12);
    assert_near(distance(cj_dist_mean(given), cj_add(f64(c, mu, CJ_SHAPE(2)), cj_matmul(gain, cj_sub(x2, f64(c, mu + 2, CJ_SHAPE(2)))))), 0,
                1e-10);
    cj_tensor *rest = cj_dist_covariance(given);
    assert_near(distance(rest, cj_sub(s11, cj_matmul(gain, cj_t(s12)))), 0, 1e-10);
    assert_true(least(rest) >= 0 && least(cj_sub(s11, rest)) >= -1e-12);
    /* regression on samples finds the gain and the covariance of what is left */
    cj_tensor *draws = cj_dist_sample(d, CJ_SHAPE(DRAWS)), *centred = cj_sub(draws, cj_mean(draws, .axes = CJ_AXIS(0)));
    cj_tensor *in = cj_slice(centred, 1, 2, 4, 1), *out = cj_slice(centred, 1, 0, 2, 1),
              *beta = cj_solve(cj_matmul(cj_t(in), in), cj_matmul(cj_t(in), out));
    assert_near(distance(cj_t(beta), gain), 0, 0.05);
    assert_near(distance(cj_cov(cj_sub(out, cj_matmul(in, beta))), rest), 0, 0.05 * cj_item(cj_max(s)));
    /* a batch of conditions at once */
    cj_tensor *many = randn64(CJ_SHAPE(5, 2));
    const cj_dist all = cj_gaussian_conditional(d, 2, many);
    for (int k = 0; k < 5; k++)
        assert_near(distance(cj_select(cj_dist_mean(all), 0, k), cj_dist_mean(cj_gaussian_conditional(d, 2, cj_select(many, 0, k)))), 0,
                    1e-12);
}

static void dist_mvn(void **state)
{
    (void)state;
    const cj_dist unit = cj_dist_multivariate_normal(F64(c, CJ_SHAPE(2), 0, 0), cj_eye(c, 2, CJ_F64), CJ_COVARIANCE);
    assert_near(cj_item(cj_dist_log_prob(unit, F64(c, CJ_SHAPE(2), 0, 0))), -1.837877, 5e-7);
    /* diagonal: the sum over the coordinates */
    cj_tensor *m = f64(c, mu, CJ_SHAPE(4)), *scale = F64(c, CJ_SHAPE(4), 0.5, 2, 1, 0.3), *x = randn64(CJ_SHAPE(6, 4));
    const cj_dist d = cj_dist_multivariate_normal(m, cj_mul(cj_eye(c, 4, CJ_F64), cj_square(scale)), CJ_COVARIANCE);
    assert_near(distance(cj_dist_log_prob(d, x), cj_sum(cj_dist_log_prob(cj_dist_normal(m, scale), x), .axes = CJ_AXIS(1))), 0, 1e-12);
    /* by eigenvalues: -(k log 2 pi + sum log w + sum (Vᵀ(x - m))² / w) / 2 */
    cj_tensor *s = some_covariance(4);
    const cj_dist f = cj_dist_multivariate_normal(m, s, CJ_COVARIANCE);
    const cj_eigen e = cj_eigh(s);
    cj_tensor *z = cj_matmul(cj_sub(x, m), e.vectors), *quadratic = cj_sum(cj_div(cj_square(z), e.values), .axes = CJ_AXIS(1));
    cj_tensor *by_eigen = cj_mul_scalar(cj_add_scalar(cj_add(quadratic, cj_sum(cj_log(e.values))), 4 * log(2 * M_PI)), -0.5);
    assert_near(distance(cj_dist_log_prob(f, x), by_eigen), 0, 1e-10);
    /* the sample covariance tends to S: 100 times the draws, about a tenth of the error */
    const double size = cj_item(cj_max(s)), few = distance(cj_cov(cj_dist_sample(f, CJ_SHAPE(1000))), s),
                 many = distance(cj_cov(cj_dist_sample(f, CJ_SHAPE(DRAWS))), s);
    assert_true(many < few && many < 0.03 * size);
}

/* ---- dist.rng --------------------------------------------------------------------------------------------------------------------------------------------- */

static double chi_square(const double *seen, int cells, double each)
{
    double chi = 0;
    for (int i = 0; i < cells; i++) chi += (seen[i] - each) * (seen[i] - each) / each;
    return chi;
}
static void dist_rng(void **state)
{
    (void)state;
    cj_ctx *a = cj_ctx_new(&(cj_ctx_opts){ .seed = 12 }), *b = cj_ctx_new(&(cj_ctx_opts){ .seed = 12 }),
           *other = cj_ctx_new(&(cj_ctx_opts){ .seed = 13 });
    for (int k = 0; k < 3; k++) { /* a stream of draws, not one */
        cj_tensor *x = cj_rand(a, CJ_SHAPE(1000)), *z = cj_randn(a, CJ_SHAPE(100, 7)), *i = cj_randint(a, -5, 99, CJ_SHAPE(300));
        assert_true(same_bits(x, cj_rand(b, CJ_SHAPE(1000))) && same_bits(z, cj_randn(b, CJ_SHAPE(100, 7))) &&
                    same_bits(i, cj_randint(b, -5, 99, CJ_SHAPE(300))));
        assert_false(same_bits(x, cj_rand(other, CJ_SHAPE(1000))));
        assert_true(same_bits(cj_choice(cj_ones(a, CJ_SHAPE(9), CJ_F32), 9), cj_choice(cj_ones(b, CJ_SHAPE(9), CJ_F32), 9)));
        assert_false(same_bits(cj_randn(other, CJ_SHAPE(100, 7)), z) || same_bits(cj_randint(other, -5, 99, CJ_SHAPE(300)), i));
    }
    cj_ctx_free(a), cj_ctx_free(b), cj_ctx_free(other);
    /* uniform, normal and integers at 1 % */
    assert_true(kolmogorov(cj_dist_uniform(N(0), N(1)), cj_rand(c, CJ_SHAPE(DRAWS))) < 1.63);
    assert_true(kolmogorov(cj_dist_normal(N(0), N(1)), cj_randn(c, CJ_SHAPE(DRAWS))) < 1.63);
    double *k = values_of(cj_randint(c, 3, 13, CJ_SHAPE(DRAWS))), tens[10] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        assert_true(k[i] >= 3 && k[i] < 13);
        tens[(int)k[i] - 3]++;
    }
    free(k);
    assert_true(chi_square(tens, 10, DRAWS / 10.0) < 21.67); /* 9 degrees of freedom */
    const cj_dtype floats[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    for (int t = 0; t < 4; t++) {
        cj_tensor *u = cj_rand(c, CJ_SHAPE(1000000), .dtype = floats[t]);
        assert_true(cj_item(cj_max(cj_cast(u, CJ_F64))) < 1 && cj_item(cj_min(cj_cast(u, CJ_F64))) >= 0);
    }
    /* the 6 orders of 3 */
    enum { SHUFFLES = 60000 };
    double *p = values_of(cj_choice(cj_ones(c, CJ_SHAPE(SHUFFLES, 3), CJ_F32), 3)), orders[6] = { 0 };
    for (int i = 0; i < SHUFFLES; i++) {
        const int x = (int)p[3 * i], y = (int)p[3 * i + 1], z = (int)p[3 * i + 2];
        assert_true(x + y + z == 3 && x != y && y != z && x != z);
        orders[2 * x + (y > z)]++;
    }
    free(p);
    assert_true(chi_square(orders, 6, SHUFFLES / 6.0) < 15.09); /* 5 degrees of freedom */
    /* without replacement: no index twice, and the first two of weights (1, 2, 3) come with w_i / 6 · w_j / (6 - w_i) */
    const double w[3] = { 1, 2, 3 };
    cj_tensor *weights = cj_expand(f64(c, w, CJ_SHAPE(3)), CJ_SHAPE(SHUFFLES, 3));
    double *two = values_of(cj_choice(weights, 2)), chi = 0, seen[9] = { 0 }, cells[3] = { 0 };
    for (int i = 0; i < SHUFFLES; i++) seen[3 * (int)two[2 * i] + (int)two[2 * i + 1]]++;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double e = i == j ? 0 : SHUFFLES * w[i] / 6 * w[j] / (6 - w[i]);
            if (i == j) assert_true(seen[4 * i] == 0);
            else chi += (seen[3 * i + j] - e) * (seen[3 * i + j] - e) / e;
        }
    assert_true(chi < 15.09);
    free(two);
    /* with replacement: w_i / 6 every time */
    double *again = values_of(cj_choice(f64(c, w, CJ_SHAPE(3)), SHUFFLES, .replacement = true));
    for (int i = 0; i < SHUFFLES; i++) cells[(int)again[i]]++;
    chi = 0;
    for (int i = 0; i < 3; i++) chi += (cells[i] - SHUFFLES * w[i] / 6) * (cells[i] - SHUFFLES * w[i] / 6) / (SHUFFLES * w[i] / 6);
    assert_true(chi < 9.21); /* 2 degrees of freedom */
    free(again);
    assert_poisoned(CJ_EVALUE, "choice: row 0 has 2 positive weights for 3 draws without replacement",
                    cj_choice(F64(c, CJ_SHAPE(3), 1, 0, 1), 3));
    assert_poisoned(CJ_EVALUE, "choice: weights element 1: a number not below 0 is expected, found -1",
                    cj_choice(F64(c, CJ_SHAPE(3), 1, -1, 1), 2));
    assert_poisoned(CJ_ESHAPE, "choice: weights [.., K] and a number from 0 on are expected", cj_choice(N(1), 2));
}

/* ---- info.wasserstein ------------------------------------------------------------------------------------------------------------------------------------ */

/* The least mean of (x_i - y_p(i))² over all permutations p, by trying them all. */
static double brute(const double *x, const double *y, int n, int at, unsigned taken)
{
    double best = at == n ? 0 : INFINITY;
    for (int j = 0; j < n && at < n; j++)
        if (!(taken >> j & 1)) best = fmin(best, (x[at] - y[j]) * (x[at] - y[j]) / n + brute(x, y, n, at + 1, taken | 1u << j));
    return best;
}
static void info_wasserstein(void **state)
{
    (void)state;
    /* N(0, 1) and N(1, 4): 1² + (1 - 2)² */
    assert_near(cj_item(cj_gaussian_w2(F64(c, CJ_SHAPE(1), 0), F64(c, CJ_SHAPE(1), 1), F64(c, CJ_SHAPE(1), 1), F64(c, CJ_SHAPE(1), 2))), 2,
                1e-12);
    cj_tensor *zero = F64(c, CJ_SHAPE(1), 0), *one = F64(c, CJ_SHAPE(1), 1), *v1 = F64(c, CJ_SHAPE(1, 1), 1),
              *v4 = F64(c, CJ_SHAPE(1, 1), 4);
    assert_near(cj_item(cj_gaussian_w2_full(zero, v1, one, v4)), 2, 1e-12);
    double before = INFINITY;
    for (int64_t n = 1000; n <= 100000; n *= 10) {
        cj_tensor *x = cj_dist_sample(cj_dist_normal(N(0), N(1)), CJ_SHAPE(n)),
                  *y = cj_dist_sample(cj_dist_normal(N(1), N(2)), CJ_SHAPE(n));
        const double off = fabs(cj_item(cj_wasserstein2(x, y)) - 2);
        assert_true(off < 20 / sqrt((double)n));
        before = off;
        assert_true(cj_item(cj_wasserstein2(x, x)) == 0);
    }
    assert_true(before < 0.05);
    /* in more dimensions: 0 to itself, symmetric, the trace formula for matrices that commute, and with (S1 S2)^(1/2) for any */
    cj_tensor *m1 = f64(c, mu, CJ_SHAPE(3)), *m2 = f64(c, mu + 1, CJ_SHAPE(3)), *s1 = some_covariance(3), *s2 = some_covariance(3);
    const double apart = cj_item(cj_gaussian_w2_full(m1, s1, m2, s2));
    assert_near(cj_item(cj_gaussian_w2_full(m1, s1, m1, s1)), 0, 1e-10);
    assert_near(cj_item(cj_gaussian_w2_full(m2, s2, m1, s1)), apart, 1e-10);
    const double trace = cj_item(cj_matrix_trace(cj_matrix_sqrt(cj_matmul(s1, s2)))), far = cj_item(cj_sum(cj_square(cj_sub(m1, m2))));
    assert_near(apart, far + cj_item(cj_matrix_trace(cj_add(s1, s2))) - 2 * trace, 1e-9);
    cj_tensor *root = cj_matmul(s1, s1); /* commutes with s1 */
    assert_near(cj_item(cj_gaussian_w2_full(m1, root, m1, s1)),
                cj_item(cj_sum(cj_square(cj_sub(cj_matrix_sqrt(root), cj_matrix_sqrt(s1))))), 1e-9);
    /* brute force */
    for (int n = 2; n <= 7; n++) {
        double x[7], y[7];
        cj_to_f64(randn64(CJ_SHAPE(n)), x, n), cj_to_f64(randn64(CJ_SHAPE(n)), y, n);
        assert_near(cj_item(cj_wasserstein2(f64(c, x, CJ_SHAPE(n)), f64(c, y, CJ_SHAPE(n)))), brute(x, y, n, 0, 0), 1e-14);
    }
    assert_refused(CJ_ESHAPE, "wasserstein2: as many samples of each are expected", cj_wasserstein2(m1, zero));
    assert_refused(CJ_ESHAPE, "gaussian_w2_full: means [.., d] and covariances [.., d, d] are expected",
                   cj_gaussian_w2_full(m1, m1, m2, m2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prob_discrete),    cmocka_unit_test(prob_moments), cmocka_unit_test(prob_mgf),
        cmocka_unit_test(prob_gauss_block), cmocka_unit_test(dist_mvn),     cmocka_unit_test(dist_rng),
        cmocka_unit_test(info_wasserstein),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
