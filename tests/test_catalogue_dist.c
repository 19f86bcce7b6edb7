/* What probability and information are said to do.  Each case carries the name of the claim that it checks. */
#include "support.h"

#include <cajal/math.h>

static cj_ctx *context(uint64_t seed) { return cj_ctx_new(&(cj_ctx_opts){ .seed = seed }); }
static cj_tensor *number(cj_ctx *c, double v) { return cj_from_f64(c, &v, CJ_SCALAR); }
#define N(v) number(c, v)
enum { DRAWS = 100000 };

typedef struct moments {
    double mean, variance;
} moments;
static moments moments_of(cj_tensor *x) { return (moments){ cj_item(cj_mean(x)), cj_item(cj_var(x)) }; }
/* Within 4 standard errors; the fourth moment is bounded by kurtosis. */
static void has_moments(cj_dist d, double mean, double variance, double kurtosis)
{
    const moments m = moments_of(cj_dist_sample(d, CJ_SHAPE(DRAWS)));
    assert_near(m.mean, mean, 4 * sqrt(variance / DRAWS));
    assert_near(m.variance, variance, 4 * variance * sqrt((kurtosis - 1) / DRAWS));
    assert_near(cj_item(cj_dist_mean(d)), mean, 1e-12);
    assert_near(cj_item(cj_dist_variance(d)), variance, 1e-12);
}
static double cdf(cj_dist d, double x) { return cj_item(cj_dist_cdf(d, number(cj_tensor_ctx(d.p[0]), x))); }
static double pdf(cj_dist d, double x) { return exp(cj_item(cj_dist_log_prob(d, number(cj_tensor_ctx(d.p[0]), x)))); }
/* sqrt(n)·sup|F - F_n|; 1.63 is the 1 % point */
static double kolmogorov(cj_dist d, cj_tensor *x)
{
    const int64_t n = cj_numel(x);
    double *f = values_of(cj_dist_cdf(d, cj_sort(x, 0).values)), worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fmax(f[i] - (double)i / (double)n, (double)(i + 1) / (double)n - f[i]));
    free(f);
    return worst * sqrt((double)n);
}
/* The midpoint rule for the density. */
static double mass(cj_dist d, double low, double high)
{
    cj_ctx *c = cj_tensor_ctx(d.p[0]);
    cj_tensor *x = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0.5, 20000.5, 1, CJ_F64), (high - low) / 20000), low);
    return cj_item(cj_sum(cj_exp(cj_dist_log_prob(d, x)))) * (high - low) / 20000;
}

/* dist.normal */
static void dist_normal(void **state)
{
    (void)state;
    cj_ctx *c = context(1);
    const cj_dist z = cj_dist_normal(N(0), N(1)), d = cj_dist_normal(N(1.5), N(2));
    assert_near(cj_item(cj_dist_quantile(z, N(0.95))), 1.644854, 5e-7);
    cj_tensor *p = F64(c, CJ_SHAPE(7), 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6);
    assert_near(distance(cj_dist_cdf(d, cj_dist_quantile(d, p)), p), 0, 1e-9);
    assert_true(kolmogorov(d, cj_dist_sample(d, CJ_SHAPE(DRAWS))) < 1.63);
    assert_true(kolmogorov(d, cj_dist_quantile(d, cj_rand(c, CJ_SHAPE(DRAWS), .dtype = CJ_F64))) < 1.63);
    has_moments(d, 1.5, 4, 3);
    assert_near(mass(d, -20, 22), 1, 1e-9);
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.bernoulli_binomial */
static void dist_bernoulli_binomial(void **state)
{
    (void)state;
    cj_ctx *c = context(2);
    const cj_dist d = cj_dist_binomial(N(6), N(0.3));
    cj_tensor *sums = cj_sum(cj_dist_sample(cj_dist_bernoulli(N(0.3)), CJ_SHAPE(DRAWS, 6)), .axes = CJ_AXIS(1));
    double *x = values_of(sums), *y = values_of(cj_dist_sample(d, CJ_SHAPE(DRAWS))), seen[2][7] = { 0 }, total = 0, chi[2] = { 0 };
    for (int i = 0; i < DRAWS; i++) seen[0][(int)x[i]]++, seen[1][(int)y[i]]++;
    const double ways[] = { 1, 6, 15, 20, 15, 6, 1 };
    for (int k = 0; k <= 6; k++) {
        const double p = ways[k] * pow(0.3, k) * pow(0.7, 6 - k);
        assert_near(pdf(d, k), p, 1e-14);
        total += pdf(d, k);
        for (int s = 0; s < 2; s++) chi[s] += (seen[s][k] - p * DRAWS) * (seen[s][k] - p * DRAWS) / (p * DRAWS);
    }
    assert_near(total, 1, 1e-14);
    assert_true(chi[0] < 16.8 && chi[1] < 16.8); /* 1 % at 6 degrees of freedom */
    has_moments(d, 6 * 0.3, 6 * 0.3 * 0.7, 3);
    has_moments(cj_dist_bernoulli(N(0.3)), 0.3, 0.21, 2);
    free(x), free(y);
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.categorical */
static void dist_categorical(void **state)
{
    (void)state;
    cj_ctx *c = context(3);
    const double p[4] = { 0.1, 0, 0.6, 0.3 };
    cj_tensor *probs = f64(c, p, CJ_SHAPE(4)), *logits = cj_log(probs);
    /* the sampler takes the largest of log p + Gumbel noise; the other one looks a uniform number up in the running sums */
    double *k[2], chi[2] = { 0 }, n[2][4] = { 0 };
    k[0] = values_of(cj_dist_sample(cj_dist_categorical(logits), CJ_SHAPE(DRAWS)));
    k[1] = values_of(cj_searchsorted(cj_cumsum(probs, 0), cj_rand(c, CJ_SHAPE(DRAWS), .dtype = CJ_F64), .right = true));
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < DRAWS; i++) n[s][(int)k[s][i]]++;
        assert_true(n[s][1] == 0);
        for (int j = 0; j < 4; j++)
            if (p[j] > 0) chi[s] += (n[s][j] - p[j] * DRAWS) * (n[s][j] - p[j] * DRAWS) / (p[j] * DRAWS);
        assert_true(chi[s] < 9.21); /* 1 % at 2 degrees of freedom */
        free(k[s]);
    }
    assert_near(cj_item(cj_dist_log_prob(cj_dist_categorical(logits), N(2))), log(0.6), 1e-14);
    cj_tensor *counts = cj_dist_sample(cj_dist_multinomial(25, logits), CJ_SHAPE(500));
    assert_near(distance(cj_sum(counts, .axes = CJ_AXIS(1)), cj_full(c, 25, CJ_SHAPE(500), CJ_F64)), 0, 0);
    assert_near(cj_item(cj_sum(cj_select(counts, 1, 1))), 0, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.poisson */
static void dist_poisson(void **state)
{
    (void)state;
    cj_ctx *c = context(4);
    const double rates[] = { 2.5, 40 };
    for (int i = 0; i < 2; i++) {
        const cj_dist d = cj_dist_poisson(N(rates[i]));
        double total = 0;
        for (int k = 0; k < 150; k++) total += pdf(d, k);
        assert_near(total, 1, 1e-12);
        has_moments(d, rates[i], rates[i], 3 + 1 / rates[i]);
        const moments m = moments_of(cj_exp(cj_mul_scalar(cj_dist_sample(d, CJ_SHAPE(DRAWS)), 0.1)));
        assert_near(m.mean, exp(rates[i] * (exp(0.1) - 1)), 4 * sqrt(m.variance / DRAWS));
        assert_near(cj_item(cj_dist_mgf(d, N(0.1))), exp(rates[i] * (exp(0.1) - 1)), 1e-12 * exp(rates[i]));
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.exponential */
static void dist_exponential(void **state)
{
    (void)state;
    cj_ctx *c = context(5);
    const cj_dist d = cj_dist_exponential(N(2.5));
    has_moments(d, 0.4, 0.16, 9);
    for (double s = 0; s < 2; s += 0.4)
        for (double t = 0; t < 2; t += 0.3) assert_near((1 - cdf(d, s + t)) / (1 - cdf(d, s)), 1 - cdf(d, t), 1e-13);
    assert_true(kolmogorov(d, cj_dist_sample(d, CJ_SHAPE(DRAWS))) < 1.63);
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.gamma_dirichlet */
static void dist_gamma_dirichlet(void **state)
{
    (void)state;
    cj_ctx *c = context(6);
    const double alpha = 2.5, beta = 0.4; /* a scale: rate 1/beta */
    const cj_dist d = cj_dist_gamma(N(alpha), N(1 / beta));
    has_moments(d, alpha * beta, alpha * beta * beta, 3 + 6 / alpha);
    assert_near(cj_item(cj_dist_mgf(d, N(0.7))), pow(1 - beta * 0.7, -alpha), 1e-13);
    assert_true(cj_item(cj_dist_mgf(d, N(2.6))) == INFINITY);
    const double a[3] = { 0.5, 2, 3.5 };
    cj_tensor *x = cj_dist_sample(cj_dist_dirichlet(f64(c, a, CJ_SHAPE(3))), CJ_SHAPE(DRAWS));
    assert_true(cj_item(cj_min(x)) >= 0);
    assert_near(distance(cj_sum(x, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(DRAWS), CJ_F64)), 0, 1e-14);
    for (int i = 0; i < 3; i++) {
        const double m = a[i] / 6, v = m * (1 - m) / 7;
        const moments found = moments_of(cj_select(x, 1, i));
        assert_near(found.mean, m, 4 * sqrt(v / DRAWS));
        assert_near(found.variance, v, 0.03 * v);
    }
    has_moments(cj_dist_beta(N(2), N(3)), 0.4, 0.04, 3);
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.laplace */
static void dist_laplace(void **state)
{
    (void)state;
    cj_ctx *c = context(7);
    const cj_dist d = cj_dist_laplace(N(0.5), N(1.2));
    assert_near(mass(d, -50, 51), 1, 1e-5);
    has_moments(d, 0.5, 2 * 1.44, 6);
    /* of five numbers the likelihood is largest at their median and their mean distance from it */
    cj_tensor *x = F64(c, CJ_SHAPE(5), 0.3, -1, 2, 0.9, 5), *mu = N(0.9), *b = N((0.6 + 1.9 + 1.1 + 0 + 4.1) / 5);
    const double best = cj_item(cj_sum(cj_dist_log_prob(cj_dist_laplace(mu, b), x)));
    for (int i = -20; i <= 20; i++)
        for (int j = -9; j <= 9; j++) {
            const cj_dist other = cj_dist_laplace(cj_add_scalar(mu, i * 0.05), cj_mul_scalar(b, 1 + j * 0.05));
            assert_true(cj_item(cj_sum(cj_dist_log_prob(other, x))) <= best + 1e-12);
        }
    assert_ok(c);
    cj_ctx_free(c);
}

/* dist.gumbel */
static void dist_gumbel(void **state)
{
    (void)state;
    cj_ctx *c = context(8);
    const double mu = -0.5, beta = 1.5;
    const cj_dist d = cj_dist_gumbel(N(mu), N(beta));
    has_moments(d, mu + 0.57721566490153286 * beta, M_PI * M_PI * beta * beta / 6, 5.4);
    cj_tensor *x = cj_dist_sample(d, CJ_SHAPE(DRAWS));
    assert_near(cj_item(cj_median(x, 0).values), mu - beta * log(M_LN2), 0.03);
    assert_near(cj_item(cj_dist_quantile(d, N(0.5))), mu - beta * log(M_LN2), 1e-14);
    assert_true(kolmogorov(d, x) < 1.63);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- information ---------------------------------------------------------------------------------------------------------------------------------------- */

/* Random tables on the simplex, one per row. */
static cj_tensor *tables(cj_ctx *c, int64_t n, int64_t k)
{
    return cj_dist_sample(cj_dist_dirichlet(cj_ones(c, CJ_SHAPE(k), CJ_F64)), CJ_SHAPE(n));
}

/* info.entropy */
static void info_entropy(void **state)
{
    (void)state;
    cj_ctx *c = context(9);
    for (int k = 1; k < 9; k++) assert_near(cj_item(cj_entropy(cj_full(c, 1.0 / k, CJ_SHAPE(k), CJ_F64))), log(k), 1e-14);
    assert_near(cj_item(cj_entropy(F64(c, CJ_SHAPE(4), 0.5, 0.25, 0.25, 0))) / M_LN2, 1.5, 1e-14); /* bits */
    cj_tensor *p = tables(c, 200, 5), *q = tables(c, 200, 5);
    cj_tensor *h = cj_entropy(p), *ce = cj_table_cross_entropy(p, q);
    assert_true(cj_item(cj_min(h)) >= 0 && cj_item(cj_min(cj_sub(ce, h))) > 0);
    assert_near(distance(cj_table_cross_entropy(p, p), h), 0, 1e-14);
    assert_near(distance(ce, cj_add(h, cj_relative_entropy(p, q))), 0, 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.kl */
static void info_kl(void **state)
{
    (void)state;
    cj_ctx *c = context(10);
    cj_tensor *p = tables(c, 200, 4), *q = tables(c, 200, 4), *k = cj_relative_entropy(p, q), *back = cj_relative_entropy(q, p);
    assert_true(cj_item(cj_min(k)) > 0 && distance(k, back) > 0.1);
    assert_near(cj_item(cj_max(cj_abs(cj_relative_entropy(p, p)))), 0, 0);
    assert_true(cj_item(cj_relative_entropy(F64(c, CJ_SHAPE(2), 0.5, 0.5), F64(c, CJ_SHAPE(2), 1, 0))) == INFINITY);
    /* products add */
    cj_tensor *r = tables(c, 200, 3), *s = tables(c, 200, 3);
    cj_tensor *pr = cj_reshape(cj_mul(cj_unsqueeze(p, 2), cj_unsqueeze(r, 1)), CJ_SHAPE(200, 12));
    cj_tensor *qs = cj_reshape(cj_mul(cj_unsqueeze(q, 2), cj_unsqueeze(s, 1)), CJ_SHAPE(200, 12));
    assert_near(distance(cj_relative_entropy(pr, qs), cj_add(k, cj_relative_entropy(r, s))), 0, 1e-12);
    /* Gaussians in cells of width h: the divergence of the tables comes to the closed form */
    const cj_dist a = cj_dist_normal(N(1), N(0.5)), b = cj_dist_normal(N(0), N(1));
    const double exact = cj_item(cj_dist_kl(a, b));
    double before = INFINITY;
    for (double h = 0.4; h > 0.04; h /= 2) {
        cj_tensor *edge = cj_arange(c, -6, 6 + h / 2, h, CJ_F64), *fa = cj_dist_cdf(a, edge), *fb = cj_dist_cdf(b, edge);
        cj_tensor *ta = cj_sub(cj_slice(fa, 0, 1, CJ_END, 1), cj_slice(fa, 0, 0, -1, 1));
        cj_tensor *tb = cj_sub(cj_slice(fb, 0, 1, CJ_END, 1), cj_slice(fb, 0, 0, -1, 1));
        const double off = fabs(cj_item(cj_relative_entropy(ta, tb)) - exact);
        assert_true(off < before);
        before = off;
    }
    assert_true(before < 2e-3);
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.kl_gauss */
static void info_kl_gauss(void **state)
{
    (void)state;
    cj_ctx *c = context(11);
    const cj_dist p = cj_dist_normal(N(1), N(0.5)), q = cj_dist_normal(N(0), N(1));
    assert_near(cj_item(cj_dist_kl(p, q)), 0.818147, 5e-7);
    assert_near(cj_item(cj_dist_kl(cj_dist_normal(N(1), N(2)), cj_dist_normal(N(3), N(4)))), 0.443147, 5e-7);
    const cj_dist d = cj_dist_diagonal_normal(F64(c, CJ_SHAPE(2), 0.5, -1), F64(c, CJ_SHAPE(2), 0.5, M_SQRT2));
    assert_near(cj_item(cj_dist_kl(d, cj_dist_diagonal_normal(F64(c, CJ_SHAPE(2), 0, 0), F64(c, CJ_SHAPE(2), 1, 1)))), 1.096574, 5e-7);
    cj_tensor *x = cj_dist_sample(p, CJ_SHAPE(DRAWS));
    const moments m = moments_of(cj_sub(cj_dist_log_prob(p, x), cj_dist_log_prob(q, x)));
    assert_near(m.mean, 0.818147, 4 * sqrt(m.variance / DRAWS));
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.jsd */
static void info_jsd(void **state)
{
    (void)state;
    cj_ctx *c = context(12);
    cj_tensor *p = tables(c, 200, 4), *q = tables(c, 200, 4), *js = cj_jensen_shannon(p, q);
    assert_near(distance(js, cj_jensen_shannon(q, p)), 0, 1e-15);
    assert_true(cj_item(cj_min(js)) > 0 && cj_item(cj_max(js)) < M_LN2);
    assert_near(cj_item(cj_max(cj_abs(cj_jensen_shannon(p, p)))), 0, 0);
    assert_near(cj_item(cj_jensen_shannon(F64(c, CJ_SHAPE(4), 0.3, 0.7, 0, 0), F64(c, CJ_SHAPE(4), 0, 0, 0.2, 0.8))), M_LN2, 1e-15);
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.mutual_information */
static void info_mutual_information(void **state)
{
    (void)state;
    cj_ctx *c = context(13);
    cj_tensor *p = cj_select(tables(c, 1, 4), 0, 0), *q = cj_select(tables(c, 1, 3), 0, 0);
    assert_near(cj_item(cj_mutual_information(cj_outer(p, q))), 0, 1e-14);
    assert_near(cj_item(cj_mutual_information(cj_mul(cj_eye(c, 4, CJ_F64), p))), cj_item(cj_entropy(p)), 1e-14); /* Y = X */
    for (double f = 0; f <= 0.5; f += 0.1) { /* a bit, flipped with probability f */
        cj_tensor *channel = F64(c, CJ_SHAPE(2, 2), (1 - f) / 2, f / 2, f / 2, (1 - f) / 2);
        const double h = f > 0 ? -f * log(f) - (1 - f) * log(1 - f) : 0;
        assert_near(cj_item(cj_mutual_information(channel)), M_LN2 - h, 1e-14);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.donsker */
static void info_donsker(void **state)
{
    (void)state;
    cj_ctx *c = context(14);
    cj_tensor *p = tables(c, 500, 6), *q = tables(c, 500, 6), *phi = cj_mul_scalar(cj_randn(c, CJ_SHAPE(500, 6), .dtype = CJ_F64), 2);
    cj_tensor *partition = cj_sum(cj_mul(p, cj_exp(phi)), .axes = CJ_AXIS(1), .keepdim = true),
              *tilted = cj_div(cj_mul(p, cj_exp(phi)), partition);
    cj_tensor *right = cj_squeeze(cj_log(partition), 1);
    cj_tensor *gap = cj_sub(cj_add(cj_relative_entropy(q, p), right), cj_sum(cj_mul(q, phi), .axes = CJ_AXIS(1)));
    assert_true(cj_item(cj_min(gap)) > 0);
    cj_tensor *none = cj_sub(cj_add(cj_relative_entropy(tilted, p), right), cj_sum(cj_mul(tilted, phi), .axes = CJ_AXIS(1)));
    assert_near(cj_item(cj_max(cj_abs(none))), 0, 1e-12);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- probability ---------------------------------------------------------------------------------------------------------------------------------------- */

/* prob.log_derivative */
static void prob_log_derivative(void **state)
{
    (void)state;
    cj_ctx *c = context(15);
    enum { MANY = 1000000 };
    cj_tensor *mu = N(2), *z = cj_dist_sample(cj_dist_normal(mu, N(1)), CJ_SHAPE(MANY)), *phi = cj_square(z), *score = cj_sub(z, mu);
    const moments s = moments_of(cj_mul(phi, score)), r = moments_of(cj_mul_scalar(z, 2)),
                  b = moments_of(cj_mul(cj_add_scalar(phi, -5), score));
    assert_near(s.mean, 4, 4 * sqrt(87.0 / MANY));
    assert_near(s.variance, 87, 2);
    assert_near(r.mean, 4, 4 * sqrt(4.0 / MANY));
    assert_near(r.variance, 4, 0.05);
    assert_near(b.mean, 4, 4 * sqrt(42.0 / MANY));
    assert_near(b.variance, 42, 1);
    assert_near(cj_item(cj_mean(score)), 0, 4e-3);
    /* the score is the derivative of the log-density: tape and difference quotient */
    cj_tensor *leaf = cj_require_grad(mu), *g;
    cj_tensor *few = cj_slice(z, 0, 0, 1000, 1);
    assert_true(cj_grad(cj_mean(cj_mul(cj_square(few), cj_dist_log_prob(cj_dist_normal(leaf, N(1)), few))), &leaf, 1, &g));
    assert_near(cj_item(g), cj_item(cj_mean(cj_mul(cj_square(few), cj_sub(few, mu)))), 1e-10);
    /* a difference quotient of the sampled expectation, with the same noise on both sides */
    const double h = 1e-3, up = cj_item(cj_mean(cj_square(cj_add_scalar(z, h)))), down = cj_item(cj_mean(cj_square(cj_add_scalar(z, -h))));
    assert_near((up - down) / (2 * h), 4, 4 * sqrt(4.0 / MANY) + 1e-8);
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.gauss_annulus */
static void prob_gauss_annulus(void **state)
{
    (void)state;
    cj_ctx *c = context(16);
    const int64_t n[] = { 10, 100, 1000, 10000 }, rows = 2000;
    double before = INFINITY;
    for (int i = 0; i < 4; i++) {
        cj_scope s = cj_scope_open(c);
        const moments m = moments_of(cj_sqrt(cj_sum(cj_square(cj_randn(c, CJ_SHAPE(rows, n[i]))), .axes = CJ_AXIS(1))));
        const double off = fabs(m.mean / sqrt((double)n[i]) - 1);
        assert_true(off < before); /* 1/(4n) */
        before = off;
        assert_near(sqrt(m.variance), 0.7071, i ? 0.04 : 0.06);
        cj_scope_close(s);
    }
    assert_true(before < 1e-3);
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.definetti */
static void prob_definetti(void **state)
{
    (void)state;
    cj_ctx *c = context(17);
    const double a = 1.5, b = 2.5;
    double by_count[6];
    for (int word = 0; word < 32; word++) { /* five draws, one after another: p(1 | so far) = (a + ones) / (a + b + n) */
        double p = 1;
        int ones = 0;
        for (int i = 0; i < 5; i++) {
            const double next = (a + ones) / (a + b + i);
            p *= word >> i & 1 ? next : 1 - next;
            ones += word >> i & 1;
        }
        const double formula = exp(cj_item(cj_sub(cj_lbeta(N(a + ones), N(b + 5 - ones)), cj_lbeta(N(a), N(b)))));
        assert_near(p, formula, 1e-14);
        by_count[ones] = formula;
    }
    /* the integral over z by the midpoint rule in u, z = u² (3 - 2u): smooth at both ends */
    cj_tensor *u = cj_mul_scalar(cj_arange(c, 0.5, 20000.5, 1, CJ_F64), 1.0 / 20000);
    cj_tensor *z = cj_mul(cj_square(u), cj_add_scalar(cj_mul_scalar(u, -2), 3)),
              *dz = cj_mul_scalar(cj_mul(u, cj_add_scalar(cj_neg(u), 1)), 6.0 / 20000);
    cj_tensor *prior = cj_mul(cj_exp(cj_dist_log_prob(cj_dist_beta(N(a), N(b)), z)), dz);
    for (int k = 0; k <= 5; k++) {
        cj_tensor *p = cj_mul(cj_pow_scalar(z, k), cj_pow_scalar(cj_add_scalar(cj_neg(z), 1), 5 - k));
        assert_near(cj_item(cj_sum(cj_mul(p, prior))), by_count[k], 1e-8);
    }
    /* one z for two coins: correlated by Var z / (m (1 - m)) = 1 / (a + b + 1) */
    cj_tensor *one = cj_dist_sample(cj_dist_beta(N(a), N(b)), CJ_SHAPE(DRAWS));
    cj_tensor *pair = cj_t(cj_dist_sample(cj_dist_bernoulli(one), CJ_SHAPE(2)));
    assert_near(value_at(cj_corr(pair), 1), 1 / (a + b + 1), 4 / sqrt(DRAWS));
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.scaling */
static void prob_scaling(void **state)
{
    (void)state;
    cj_ctx *c = context(21);
    const cj_dist base[] = { cj_dist_gumbel(N(0.3), N(1)), cj_dist_normal(N(1), N(2)), cj_dist_logistic(N(0), N(0.7)) };
    const double alpha[] = { -2, 0.5, 3 }, h = 1e-5;
    for (int i = 0; i < 3; i++) {
        for (double t = -3; t < 4; t += 0.5) assert_near((cdf(base[i], t + h) - cdf(base[i], t - h)) / (2 * h), pdf(base[i], t), 1e-6);
        for (int k = 0; k < 3; k++) {
            const cj_dist scaled = cj_dist_affine(base[i], N(0), N(alpha[k]));
            for (double y = -3; y < 4; y += 0.5) assert_near(pdf(scaled, y), pdf(base[i], y / alpha[k]) / fabs(alpha[k]), 1e-14);
            assert_near(mass(scaled, -120, 120), 1, 1e-6);
            /* the histogram of alpha·Y: chi-square of 20 cells of equal probability, 1 % at 19 degrees of freedom */
            double *x = values_of(cj_dist_cdf(scaled, cj_mul_scalar(cj_dist_sample(base[i], CJ_SHAPE(DRAWS)), alpha[k]))), seen[20] = { 0 },
                   chi = 0;
            for (int j = 0; j < DRAWS; j++) seen[(int)fmin(19, 20 * x[j])]++;
            for (int j = 0; j < 20; j++) chi += (seen[j] - DRAWS / 20.0) * (seen[j] - DRAWS / 20.0) / (DRAWS / 20.0);
            assert_true(chi < 36.2);
            free(x);
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.control_variate */
static void prob_control_variate(void **state)
{
    (void)state;
    cj_ctx *c = context(22);
    enum { MANY = 400000 };
    cj_tensor *u = cj_rand(c, CJ_SHAPE(MANY), .dtype = CJ_F64), *x = cj_exp(u), *y = cj_add_scalar(u, -0.5); /* E e^u = e - 1, Y - E Y */
    cj_tensor *cov = cj_cov(cj_stack(CJ_TENSORS(x, u), 2, 1));
    /* Cov(e^u, u) = 1 - (e - 1)/2 = (3 - e)/2, Var u = 1/12, Var e^u = (e² - 1)/2 - (e - 1)² */
    const double e = exp(1), covariance = (3 - e) / 2, variance = (e * e - 1) / 2 - (e - 1) * (e - 1), best = -12 * covariance;
    assert_near(value_at(cov, 1), covariance, 2e-3);
    const double kept = 1 - covariance * covariance * 12 / variance, plain = moments_of(x).variance;
    double least = INFINITY, where = 0;
    for (double k = 0; k <= 2; k += 0.25) { /* any multiple of c* is unbiased; c* has the least variance */
        const moments m = moments_of(cj_add(x, cj_mul_scalar(y, k * best)));
        assert_near(m.mean, e - 1, 4 * sqrt(m.variance / MANY));
        if (m.variance < least) least = m.variance, where = k;
    }
    assert_near(where, 1, 0);
    assert_near(least / plain, kept, 0.02 * kept);
    assert_ok(c);
    cj_ctx_free(c);
}

/* info.functional_derivative */
static void info_functional_derivative(void **state)
{
    (void)state;
    cj_ctx *c = context(23);
    cj_tensor *p = tables(c, 100, 6), *q = tables(c, 100, 6), *phi = cj_mul(p, cj_sub(q, p)); /* p + eps·phi stays positive */
    phi = cj_sub(phi, cj_mul(p, cj_sum(phi, .axes = CJ_AXIS(1), .keepdim = true)));           /* and on the simplex */
    cj_tensor *slope = cj_sum(cj_mul(cj_add_scalar(cj_neg(cj_log(p)), -1), phi), .axes = CJ_AXIS(1));
    double before = INFINITY;
    for (double eps = 0.1; eps > 5e-5; eps /= 10) { /* the error falls with eps */
        cj_tensor *quotient = cj_mul_scalar(cj_sub(cj_entropy(cj_add(p, cj_mul_scalar(phi, eps))), cj_entropy(p)), 1 / eps);
        const double off = distance(quotient, slope);
        assert_true(off < before / 5 && off < eps);
        before = off;
    }
    cj_tensor *r = tables(c, 100, 6), *s = tables(c, 100, 6);
    for (double t = 0.1; t < 1; t += 0.2) { /* jointly convex: from (p, q) to (r, s) */
#define BETWEEN(a, b) cj_add(cj_mul_scalar(a, 1 - t), cj_mul_scalar(b, t))
        cj_tensor *inside = cj_relative_entropy(BETWEEN(p, r), BETWEEN(q, s));
        assert_true(cj_item(cj_max(cj_sub(inside, BETWEEN(cj_relative_entropy(p, q), cj_relative_entropy(r, s))))) <= 1e-14);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.sum_density */
static void prob_sum_density(void **state)
{
    (void)state;
    cj_ctx *c = context(24);
    const double h = 0.01;
    cj_tensor *x = cj_arange(c, -15, 15, h, CJ_F64);
    cj_tensor *f = cj_exp(cj_dist_log_prob(cj_dist_normal(N(0.5), N(1)), x)),
              *g = cj_exp(cj_dist_log_prob(cj_dist_normal(N(-1), N(1.5)), x));
    cj_tensor *sum = cj_mul_scalar(cj_fft_convolve(f, g), h),
              *z = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, (double)cj_numel(sum), 1, CJ_F64), h), -30);
    assert_near(distance(sum, cj_exp(cj_dist_log_prob(cj_dist_normal(N(-0.5), N(sqrt(3.25))), z))), 0, 1e-9);
    /* two uniform numbers, as cells of width 1/1000: the triangle */
    cj_tensor *one = cj_ones(c, CJ_SHAPE(1000), CJ_F64), *triangle = cj_mul_scalar(cj_fft_convolve(one, one), 1e-3);
    cj_tensor *at = cj_mul_scalar(cj_arange(c, 1, 2000, 1, CJ_F64), 1e-3);
    assert_near(distance(triangle, cj_add_scalar(cj_neg(cj_abs(cj_add_scalar(at, -1))), 1)), 0, 1e-3);
    cj_tensor *k = cj_arange(c, 0, 60, 1, CJ_F64);
    cj_tensor *a = cj_exp(cj_dist_log_prob(cj_dist_poisson(N(2)), k)), *b = cj_exp(cj_dist_log_prob(cj_dist_poisson(N(3)), k));
    cj_tensor *both = cj_slice(cj_fft_convolve(a, b), 0, 0, 60, 1);
    assert_near(distance(both, cj_exp(cj_dist_log_prob(cj_dist_poisson(N(5)), k))), 0, 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.monte_carlo */
static void prob_monte_carlo(void **state)
{
    (void)state;
    cj_ctx *c = context(25);
    const double truth = exp(1) - 1; /* of e^u */
    double error[3];
    for (int i = 0; i < 3; i++) {
        cj_scope s = cj_scope_open(c);
        const int64_t n = i == 0 ? 100 : i == 1 ? 1000 : 10000;
        cj_tensor *estimate = cj_mean(cj_exp(cj_rand(c, CJ_SHAPE(500, n), .dtype = CJ_F64)), .axes = CJ_AXIS(1));
        error[i] = sqrt(cj_item(cj_mean(cj_square(cj_add_scalar(estimate, -truth)))));
        cj_scope_close(s);
    }
    assert_near(log10(error[2] / error[0]) / 2, -0.5, 0.05);
    cj_tensor *x = cj_exp(cj_rand(c, CJ_SHAPE(4000, 400), .dtype = CJ_F64)), *estimate = cj_mean(x, .axes = CJ_AXIS(1));
    cj_tensor *se = cj_mul_scalar(cj_sqrt(cj_var(x, .axes = CJ_AXIS(1))), 1 / sqrt(400.0));
    cj_tensor *covered = cj_le(cj_abs(cj_add_scalar(estimate, -truth)), cj_mul_scalar(se, 1.959964));
    assert_near(cj_item(cj_mean(cj_cast(covered, CJ_F64))), 0.95, 0.02);
    cj_seed(c, 25); /* the same numbers again */
    cj_tensor *again = cj_mean(cj_exp(cj_rand(c, CJ_SHAPE(500, 100), .dtype = CJ_F64)), .axes = CJ_AXIS(1));
    assert_near(sqrt(cj_item(cj_mean(cj_square(cj_add_scalar(again, -truth))))), error[0], 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* prob.lln_clt */
static void prob_lln_clt(void **state)
{
    (void)state;
    cj_ctx *c = context(26);
    const double p = 0.3;
    double *running = values_of(cj_cumsum(cj_dist_sample(cj_dist_bernoulli(N(p)), CJ_SHAPE(1000000)), 0));
    for (int n = 1000; n <= 1000000; n *= 10) assert_near(running[n - 1] / n, p, 4 * sqrt(p * (1 - p) / n));
    free(running);
    /* the largest distance of both distribution functions, on both sides of each jump: it halves when n is multiplied by 4 */
    double before = 0;
    for (int n = 64; n <= 4096; n *= 4) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *k = cj_arange(c, 0, n + 1, 1, CJ_F64), *z = cj_mul_scalar(cj_add_scalar(k, -n * p), 1 / sqrt(n * p * (1 - p)));
        const cj_dist exact = cj_dist_binomial(N(n), N(p));
        cj_tensor *phi = cj_ndtr(z), *right = cj_abs(cj_sub(cj_dist_cdf(exact, k), phi)),
                  *left = cj_abs(cj_sub(cj_dist_cdf(exact, cj_add_scalar(k, -1)), phi));
        const double far = fmax(cj_item(cj_max(right)), cj_item(cj_max(left)));
        if (before > 0) assert_near(before / far, 2, 0.1);
        before = far;
        cj_scope_close(s);
    }
    const int n = 400;
    cj_tensor *scaled =
        cj_mul_scalar(cj_add_scalar(cj_mul_scalar(cj_dist_sample(cj_dist_binomial(N(n), N(p)), CJ_SHAPE(DRAWS)), 1.0 / n), -p), sqrt(n));
    assert_near(moments_of(scaled).variance, p * (1 - p), 0.02 * p * (1 - p));
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- inequalities --------------------------------------------------------------------------------------------------------------------------------------- */

/* ineq.markov_chebyshev */
static void ineq_markov_chebyshev(void **state)
{
    (void)state;
    cj_ctx *c = context(18);
    const cj_dist d[] = { cj_dist_exponential(N(0.7)), cj_dist_poisson(N(3)),
                          cj_dist_gamma(N(2.5), N(0.5)) }; /* the last: chi-square of 5 */
    for (int i = 0; i < 3; i++) {
        const double mean = cj_item(cj_dist_mean(d[i])), variance = cj_item(cj_dist_variance(d[i]));
        for (double x = 0.25; x < 12; x += 0.25) {
            const double below = i == 1 ? cdf(d[i], ceil(x) - 1) : cdf(d[i], x); /* P(X < x) */
            assert_true(1 - below <= mean / x + 1e-15);
            const double right = mean + x, left = mean - x, upper = i == 1 ? cdf(d[i], ceil(right) - 1) : cdf(d[i], right);
            assert_true(1 - upper + cdf(d[i], left) <= variance / (x * x) + 1e-15);
        }
    }
    /* equalities: {0, a} with mass q at a has P(X >= a) = q = E X / a; {-e, 0, e} with s²/(2e²) at each end */
    const double a = 3, q = 0.2, e = 2, s2 = 0.5;
    cj_tensor *two = F64(c, CJ_SHAPE(2), 0, a), *weight = F64(c, CJ_SHAPE(2), 1 - q, q);
    const double tail = cj_item(cj_sum(cj_mul(weight, cj_cast(cj_ge_scalar(two, a), CJ_F64))));
    assert_near(tail, cj_item(cj_sum(cj_mul(weight, two))) / a, 1e-15);
    cj_tensor *x = F64(c, CJ_SHAPE(3), -e, 0, e), *p = F64(c, CJ_SHAPE(3), s2 / (2 * e * e), 1 - s2 / (e * e), s2 / (2 * e * e));
    const double variance = cj_item(cj_sum(cj_mul(p, cj_square(x))));
    cj_tensor *far = cj_cast(cj_ge_scalar(cj_abs(x), e), CJ_F64);
    assert_near(cj_item(cj_sum(cj_mul(p, far))), variance / (e * e), 1e-15);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ineq.cauchy_holder */
static void ineq_cauchy_holder(void **state)
{
    (void)state;
    cj_ctx *c = context(19);
    const double powers[] = { 1.5, 2, 3 };
    cj_tensor *v = cj_randn(c, CJ_SHAPE(1000, 6), .dtype = CJ_F64), *u = cj_randn(c, CJ_SHAPE(1000, 6), .dtype = CJ_F64);
    cj_tensor *dot = cj_sum(cj_mul(u, v), .axes = CJ_AXIS(1)), *one = cj_sum(cj_abs(cj_mul(u, v)), .axes = CJ_AXIS(1));
    assert_true(cj_item(cj_max(cj_sub(dot, one))) <= 1e-14);
    cj_tensor *ends = cj_mul(cj_sum(cj_abs(v), .axes = CJ_AXIS(1)), cj_max(cj_abs(u), .axes = CJ_AXIS(1))); /* p = 1 and infinity */
    assert_true(cj_item(cj_max(cj_sub(one, ends))) <= 1e-14);
    for (int i = 0; i < 3; i++) {
        const double p = powers[i], dual = p / (p - 1);
#define NORM(x, p) cj_pow_scalar(cj_sum(cj_pow_scalar(cj_abs(x), p), .axes = CJ_AXIS(1)), 1 / (p))
        assert_true(cj_item(cj_max(cj_sub(one, cj_mul(NORM(v, p), NORM(u, dual))))) <= 1e-12);
        /* |v|^p = |w|^dual, with the signs of u */
        cj_tensor *w = cj_mul(cj_sign(v), cj_pow_scalar(cj_abs(v), p / dual));
        cj_tensor *gap =
            cj_sub(cj_div(cj_sum(cj_mul(v, w), .axes = CJ_AXIS(1)), cj_mul(NORM(v, p), NORM(w, dual))), cj_ones(c, CJ_SHAPE(1000), CJ_F64));
        assert_near(cj_item(cj_max(cj_abs(gap))), 0, 1e-12);
    }
    /* of random variables: E[XY]² <= E[X²] E[Y²] */
    const double xy = cj_item(cj_mean(cj_mul(u, v)));
    assert_true(xy * xy <= cj_item(cj_mean(cj_square(u))) * cj_item(cj_mean(cj_square(v))));
    assert_ok(c);
    cj_ctx_free(c);
}

/* ineq.jensen */
static void ineq_jensen(void **state)
{
    (void)state;
    cj_ctx *c = context(20);
    cj_tensor *p = tables(c, 500, 5), *x = cj_uniform(c, 0.1, 3, CJ_SHAPE(500, 5), .dtype = CJ_F64);
#define MEAN(y) cj_sum(cj_mul(p, y), .axes = CJ_AXIS(1))
    cj_tensor *m = MEAN(x);
    assert_true(cj_item(cj_min(cj_sub(MEAN(cj_exp(x)), cj_exp(m)))) > 0);
    assert_true(cj_item(cj_min(cj_sub(MEAN(cj_square(x)), cj_square(m)))) > 0);
    assert_true(cj_item(cj_min(cj_sub(cj_log(m), MEAN(cj_log(x))))) > 0);                             /* -log is convex */
    assert_true(cj_item(cj_min(cj_sub(cj_log(MEAN(cj_square(x))), MEAN(cj_log(cj_square(x)))))) > 0); /* of h(y) = y² */
    cj_tensor *line = cj_add_scalar(cj_mul_scalar(x, -2), 1);
    assert_near(distance(MEAN(line), cj_add_scalar(cj_mul_scalar(m, -2), 1)), 0, 1e-14);
    x = cj_full(c, 1.7, CJ_SHAPE(500, 5), CJ_F64);
    assert_near(cj_item(cj_max(cj_abs(cj_add_scalar(MEAN(cj_exp(x)), -exp(1.7))))), 0, 1e-14);
    for (int n = 1; n < 8; n++) { /* 2^n points of equal weight */
        cj_tensor *y = cj_randn(c, CJ_SHAPE(1 << n), .dtype = CJ_F64);
        assert_true(exp(cj_item(cj_mean(y))) <= cj_item(cj_mean(cj_exp(y))));
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* ineq.hoeffding */
static void ineq_hoeffding(void **state)
{
    (void)state;
    cj_ctx *c = context(27);
    for (int n = 10; n <= 1000; n *= 10) {
        cj_tensor *off = cj_add_scalar(cj_mul_scalar(cj_dist_sample(cj_dist_binomial(N(n), N(0.5)), CJ_SHAPE(DRAWS)), 1.0 / n), -0.5);
        for (double t = 0.02; t < 0.3; t += 0.04) {
            const double upper = cj_item(cj_mean(cj_cast(cj_ge_scalar(off, t), CJ_F64))),
                         both = cj_item(cj_mean(cj_cast(cj_ge_scalar(cj_abs(off), t), CJ_F64)));
            assert_true(upper <= exp(-2 * n * t * t) && both <= 2 * exp(-2 * n * t * t));
        }
    }
    /* numbers in [0, b_i] of different widths: exp(-2 n² t² / sum b²), which is the first form where all b are 1 */
    enum { TERMS = 20 };
    cj_tensor *b = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, TERMS, 1, CJ_F64), 0.1), 0.5);
    cj_tensor *mean =
        cj_mean(cj_mul(cj_add_scalar(cj_dist_sample(cj_dist_bernoulli(N(0.5)), CJ_SHAPE(DRAWS, TERMS)), -0.5), b), .axes = CJ_AXIS(1));
    const double squares = cj_item(cj_sum(cj_square(b)));
    bool sharper = false;
    for (double t = 0.05; t < 0.8; t += 0.05) {
        const double tail = cj_item(cj_mean(cj_cast(cj_ge_scalar(mean, t), CJ_F64)));
        assert_true(tail <= exp(-2.0 * TERMS * TERMS * t * t / squares));
        sharper = sharper || tail > exp(-2.0 * TERMS * TERMS * t * t); /* without dividing by the widths it would be wrong */
    }
    assert_true(sharper);
    const double eps = 0.05, delta = 0.05, n = ceil(log(2 / delta) / (2 * eps * eps));
    assert_near(n, 738, 0);
    cj_tensor *p = cj_mul_scalar(cj_dist_sample(cj_dist_binomial(N(n), N(0.5)), CJ_SHAPE(DRAWS)), 1 / n);
    assert_true(cj_item(cj_mean(cj_cast(cj_ge_scalar(cj_abs(cj_add_scalar(p, -0.5)), eps), CJ_F64))) <= delta);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ineq.union_bonferroni */
static void ineq_union_bonferroni(void **state)
{
    (void)state;
    cj_ctx *c = context(28);
    enum { EVENTS = 5, POINTS = 40, SPACES = 50 };
    double *p = values_of(tables(c, SPACES, POINTS)), *in = values_of(cj_bernoulli(c, 0.4, CJ_SHAPE(SPACES, POINTS, EVENTS)));
    for (int s = 0; s < SPACES; s++) {
        double any = 0, all = 0, outside = 0, order[EVENTS + 1] = { 0 }, partial = 0;
        for (int i = 0; i < POINTS; i++) {
            int members = 0;
            for (int e = 0; e < EVENTS; e++) members += in[(s * POINTS + i) * EVENTS + e] > 0;
            const double w = p[s * POINTS + i];
            any += members ? w : 0, all += members == EVENTS ? w : 0, outside += w * (EVENTS - members);
        }
        for (unsigned set = 1; set < 1u << EVENTS; set++) { /* S_k: the sum over k events of the probability of their intersection */
            double both = 0;
            for (int i = 0; i < POINTS; i++) {
                bool inside = true;
                for (int e = 0; e < EVENTS; e++) inside = inside && (!(set >> e & 1) || in[(s * POINTS + i) * EVENTS + e] > 0);
                both += inside ? p[s * POINTS + i] : 0;
            }
            order[__builtin_popcount(set)] += both;
        }
        assert_true(any <= order[1] + 1e-14 && all >= 1 - outside - 1e-14);
        for (int k = 1; k <= EVENTS; k++) {
            partial += k % 2 ? order[k] : -order[k];
            assert_true(k % 2 ? partial >= any - 1e-14 : partial <= any + 1e-14);
        }
        assert_near(partial, any, 1e-14);
    }
    free(p), free(in);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dist_normal),
        cmocka_unit_test(dist_bernoulli_binomial),
        cmocka_unit_test(dist_categorical),
        cmocka_unit_test(dist_poisson),
        cmocka_unit_test(dist_exponential),
        cmocka_unit_test(dist_gamma_dirichlet),
        cmocka_unit_test(dist_laplace),
        cmocka_unit_test(dist_gumbel),
        cmocka_unit_test(info_entropy),
        cmocka_unit_test(info_kl),
        cmocka_unit_test(info_kl_gauss),
        cmocka_unit_test(info_jsd),
        cmocka_unit_test(info_mutual_information),
        cmocka_unit_test(info_donsker),
        cmocka_unit_test(prob_log_derivative),
        cmocka_unit_test(prob_gauss_annulus),
        cmocka_unit_test(prob_definetti),
        cmocka_unit_test(ineq_markov_chebyshev),
        cmocka_unit_test(ineq_cauchy_holder),
        cmocka_unit_test(ineq_jensen),
        cmocka_unit_test(prob_scaling),
        cmocka_unit_test(prob_control_variate),
        cmocka_unit_test(info_functional_derivative),
        cmocka_unit_test(prob_sum_density),
        cmocka_unit_test(prob_monte_carlo),
        cmocka_unit_test(prob_lln_clt),
        cmocka_unit_test(ineq_hoeffding),
        cmocka_unit_test(ineq_union_bonferroni),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
