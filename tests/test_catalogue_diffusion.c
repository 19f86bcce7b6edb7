/* The catalogue's rows on diffusion, diff.* by name: Gaussian data, for which the best denoiser, the bound and the likelihood have closed forms. */
#include "support.h"

TEST_CONTEXT(.threads = 2, .seed = 17);

static cj_tensor *normal(cj_shape s) { return cj_randn(c, s, .dtype = CJ_F64); }
static cj_tensor *when(int64_t t, int64_t n) { return cj_full(c, (double)t, CJ_SHAPE(n), CJ_I64); }
static cj_tensor *all_times(int64_t T) { return cj_arange(c, 1, (double)T + 1, 1, CJ_I64); }
static double mean_of(cj_tensor *x) { return cj_item(cj_mean(x)); }
static double variance_of(cj_tensor *x) { return cj_item(cj_var(x)); }

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* diff.forward: step by step is the closed form; unit variance stays; the end is normal */
static void diff_forward(void **state)
{
    (void)state;
    enum { N = 20000, T = 100 };
    cj_diffusion d = cj_diffusion_linear(c, T, 1e-3, 0.2);
    double *kept = values_of(d.kept), *beta = values_of(d.beta), product = 1;
    for (int t = 0; t < T; t++) {
        assert_near(beta[t], 1e-3 + (0.2 - 1e-3) * t / (T - 1), 1e-15);
        product *= 1 - beta[t];
        assert_near(kept[t], product, 1e-14);
    }
    const double start = 1.5;
    cj_tensor *z = cj_full(c, start, CJ_SHAPE(N), CJ_F64), *x = z, *u = normal(CJ_SHAPE(N));
    for (int t = 1; t <= T; t++) {
        z = cj_diffusion_step(d, z, when(t, N), normal(CJ_SHAPE(N)));
        u = cj_diffusion_step(d, u, when(t, N), normal(CJ_SHAPE(N)));
        if (t != 1 && t != 10 && t != 40 && t != T) continue;
        double mean = sqrt(kept[t - 1]) * start, variance = 1 - kept[t - 1];
        cj_tensor *direct = cj_diffusion_noised(d, x, when(t, N), normal(CJ_SHAPE(N)));
        assert_near(mean_of(z), mean, 5 * sqrt(variance / N));
        assert_near(mean_of(direct), mean, 5 * sqrt(variance / N));
        assert_near(variance_of(z), variance, 5 * variance * sqrt(2.0 / N));
        assert_near(variance_of(direct), variance, 5 * variance * sqrt(2.0 / N));
        assert_near(variance_of(u), 1, 5 * sqrt(2.0 / N));
    }
    double *v = values_of(z), worst = 0; /* Kolmogorov's distance of z_T from N(0, 1): above 2/sqrt(N) in one of 1500 samples */
    qsort(v, N, sizeof *v, ascending);
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs((i + 0.5) / N - 0.5 * erfc(-v[i] / sqrt(2))));
    assert_true(worst < 2 / sqrt(N));
    free(v), free(kept), free(beta);
    assert_poisoned(CJ_EVALUE, "diffusion_linear: 0 steps", cj_diffusion_linear(c, 0, 0.1, 0.2).beta);
    assert_poisoned(CJ_ESHAPE, "diffusion_step: rows [20000] at the times [3]; [n, ..] and i64 [n] expected",
                    cj_diffusion_step(d, x, when(1, 3), x));
    assert_refused(CJ_EINDEX, "index", cj_diffusion_step(d, F64(c, CJ_SHAPE(1), 1), when(T + 1, 1), F64(c, CJ_SHAPE(1), 1)));
}

/* diff.posterior: Bayes' rule for two Gaussians; with the true noise it is the sampler's mean */
static void diff_posterior(void **state)
{
    (void)state;
    enum { T = 12 };
    cj_diffusion d = cj_diffusion_linear(c, T, 0.05, 0.4);
    double *beta = values_of(d.beta), *kept = values_of(d.kept);
    cj_tensor *t = all_times(T), *x = normal(CJ_SHAPE(T, 1)), *eps = normal(CJ_SHAPE(T, 1)), *z = cj_diffusion_noised(d, x, t, eps);
    cj_mean_variance q = cj_diffusion_posterior(d, x, z, t);
    double *mean = values_of(q.mean), *variance = values_of(q.variance), *xv = values_of(x), *zv = values_of(z);
    assert_true(variance[0] == 0);
    assert_near(mean[0], xv[0], 1e-14);
    for (int i = 1; i < T; i++) {
        double prior = 1 - kept[i - 1], precision = 1 / prior + (1 - beta[i]) / beta[i];
        double want = (sqrt(kept[i - 1]) * xv[i] / prior + sqrt(1 - beta[i]) * zv[i] / beta[i]) / precision;
        assert_near(variance[i], 1 / precision, 1e-14);
        assert_near(mean[i], want, 1e-14 * (1 + fabs(want)));
    }
    assert_near(distance(q.mean, cj_diffusion_mean(d, z, t, eps)), 0, 1e-13);
    free(beta), free(kept), free(mean), free(variance), free(xv), free(zv);
}

/* diff.eps-loss: both forms of the objective are one number for any prediction; the simple loss is least at the best linear predictor */
static void diff_eps_loss(void **state)
{
    (void)state;
    enum { T = 30, D = 3, N = 50000 };
    cj_diffusion d = cj_diffusion_linear(c, T, 0.01, 0.3);
    cj_tensor *t = all_times(T), *x = normal(CJ_SHAPE(T, D)), *eps = normal(CJ_SHAPE(T, D)), *guess = normal(CJ_SHAPE(T, D));
    assert_near(distance(cj_diffusion_mean_loss(d, x, t, eps, guess), cj_diffusion_noise_loss(d, t, eps, guess, false)), 0, 1e-10);
    cj_tensor *plain = cj_sum(cj_square(cj_sub(eps, guess)), .axes = CJ_AXIS(1));
    assert_near(distance(cj_diffusion_noise_loss(d, t, eps, guess, true), plain), 0, 1e-13);
    double *beta = values_of(d.beta), *kept = values_of(d.kept), *got = values_of(cj_diffusion_noise_loss(d, t, eps, guess, false)),
           *square = values_of(plain);
    for (int i = 0; i < T; i++) { /* the row's formula */
        double sigma2 = i ? (1 - kept[i - 1]) / (1 - kept[i]) * beta[i] : beta[0];
        assert_near(got[i], beta[i] * beta[i] / (2 * sigma2 * (1 - beta[i]) * (1 - kept[i])) * square[i], 1e-11);
    }
    const double s2 = 0.25; /* variance of the data: E[eps|z] = a·z, a = sqrt(1 - kept)/(kept s² + 1 - kept) */
    for (int i = 4; i < T; i += 12) {
        cj_tensor *data = cj_mul_scalar(normal(CJ_SHAPE(N)), sqrt(s2)), *noise = normal(CJ_SHAPE(N)), *times = when(i + 1, N);
        cj_tensor *z = cj_diffusion_noised(d, data, times, noise);
        double loss[3]; /* at slopes 0, 1, 2: a parabola with its lowest point at a */
        for (int k = 0; k < 3; k++) loss[k] = mean_of(cj_diffusion_noise_loss(d, times, noise, cj_mul_scalar(z, k), true));
        double least = 0.5 - (loss[1] - loss[0]) / (loss[2] - 2 * loss[1] + loss[0]);
        double total = kept[i] * s2 + 1 - kept[i], a = sqrt(1 - kept[i]) / total, residual = 1 - (1 - kept[i]) / total;
        assert_near(least, a, 5 * sqrt(residual / (N * total)));
    }
    free(beta), free(kept), free(got), free(square);
}

/* -ELBO of x ~ N(0, s²), in nats, with the best linear denoiser: E|eps - a z|² = kept s²/(kept s² + 1 - kept) */
static double negative_bound(int64_t T, double s2, double *prior)
{
    double beta_of[2560],
        before = 1; /* the logarithm of kept/(1 - kept) falls in equal steps from log 99 to -9: the first noise does not depend on T */
    for (int64_t t = 0; t < T; t++) {
        double kept = 1 / (1 + exp(-(log(99) - (log(99) + 9) * (double)t / (double)(T - 1))));
        beta_of[t] = 1 - kept / before;
        before = kept;
    }
    cj_diffusion d = cj_diffusion_of(f64(c, beta_of, CJ_SHAPE(T)));
    cj_tensor *k = cj_mul_scalar(d.kept, s2), *error = cj_div(k, cj_add_scalar(cj_sub(k, d.kept), 1));
    cj_tensor *terms =
        cj_diffusion_noise_loss(d, all_times(T), cj_unsqueeze(cj_sqrt(error), 1), cj_zeros(c, CJ_SHAPE(T, 1), CJ_F64), false);
    assert_true(isfinite(value_at(terms, 0)));
    double last = value_at(d.kept, T - 1), beta = value_at(d.beta, 0);
    *prior = 0.5 * (last * s2 + (1 - last) - 1 - log1p(-last)); /* KL(q(z_T|x) | N(0, 1)), mean over x */
    return *prior + cj_item(cj_sum(terms)) + 0.5 * log(2 * M_PI * beta);
}

/* diff.elbo: below the exact log-likelihood, closer with more steps; finite at t = 1; nothing is left of x at T */
static void diff_elbo(void **state)
{
    (void)state;
    const double s2 = 0.5, exact = 0.5 * log(2 * M_PI * s2) + 0.5; /* -E log p(x) */
    double before = INFINITY, prior = 0;
    for (int64_t T = 40; T <= 2560; T *= 4) {
        double gap = negative_bound(T, s2, &prior) - exact;
        assert_true(gap > 0 && gap < 0.5 * before); /* as 1/T */
        assert_true(T > 40 || gap > 0.1);
        before = gap;
        assert_near(prior, 0, 1e-3);
    }
    assert_true(before < 0.01);
}

/* ---- two Gaussians in the plane ------------------------------------------------------------------------------------------------------------------ */

typedef struct mixture {
    cj_diffusion d;
    cj_tensor *means, *log_weight; /* [2, 2], [2] */
    double s2;
} mixture;

/* E[eps|z_t] = (z - sqrt(kept) E[x|z])/sqrt(1 - kept): the posterior means of the components, by their responsibilities */
static cj_tensor *exact_noise(cj_ctx *ctx, void *user, cj_tensor *z, cj_tensor *t)
{
    (void)ctx;
    const mixture *m = user;
    double kept = value_at(m->d.kept, (int64_t)value_at(t, 0) - 1), v = kept * m->s2 + 1 - kept;
    cj_tensor *centre = cj_mul_scalar(m->means, sqrt(kept));
    cj_tensor *gap = cj_sub(cj_unsqueeze(z, 1), centre); /* [n, 2, 2] */
    cj_tensor *log_r = cj_add(cj_mul_scalar(cj_sum(cj_square(gap), .axes = CJ_AXIS(2)), -0.5 / v), m->log_weight);
    cj_tensor *x = cj_add(m->means, cj_mul_scalar(gap, sqrt(kept) * m->s2 / v));
    cj_tensor *mean = cj_sum(cj_mul(cj_unsqueeze(cj_softmax(log_r, 1), 2), x), .axes = CJ_AXIS(1));
    return cj_mul_scalar(cj_sub(z, cj_mul_scalar(mean, sqrt(kept))), 1 / sqrt(1 - kept));
}

/* diff.sampler: with the exact denoiser the draws have the data's mean, covariance and weights; the same seed gives the same draws */
static void diff_sampler(void **state)
{
    (void)state;
    enum { N = 4000, T = 200 };
    mixture m = { cj_diffusion_linear(c, T, 0.1 / T, 20.0 / T), F64(c, CJ_SHAPE(2, 2), -1.5, 0.5, 1, -0.5),
                  F64(c, CJ_SHAPE(2), log(0.3), log(0.7)), 0.1 };
    cj_tensor *x = cj_diffusion_sample(c, m.d, exact_noise, &m, CJ_SHAPE(N, 2), CJ_F64);
    double *v = values_of(x), mean[2] = { 0 }, cov[3] = { 0 }, left = 0;
    for (int i = 0; i < N; i++) mean[0] += v[2 * i] / N, mean[1] += v[2 * i + 1] / N, left += v[2 * i] < -0.25 ? 1.0 / N : 0;
    for (int i = 0; i < N; i++) {
        double a = v[2 * i] - mean[0], b = v[2 * i + 1] - mean[1];
        cov[0] += a * a / N, cov[1] += a * b / N, cov[2] += b * b / N;
    }
    free(v);
    /* mean 0.3·(-1.5, 0.5) + 0.7·(1, -0.5); covariance 0.1 + 0.21·(2.5, -1)(2.5, -1)ᵀ; five deviations of N draws, and 3 % for the finite steps */
    assert_near(mean[0], 0.25, 5 * sqrt(1.4125 / N) + 0.03);
    assert_near(mean[1], -0.2, 5 * sqrt(0.31 / N) + 0.03);
    assert_near(left, 0.3, 5 * sqrt(0.21 / N) + 0.01);
    assert_near(cov[0], 1.4125, 0.1 * 1.4125);
    assert_near(cov[1], -0.525, 0.1 * 0.525);
    assert_near(cov[2], 0.31, 0.1 * 0.31);
    cj_seed(c, 4);
    cj_tensor *one = cj_diffusion_sample(c, m.d, exact_noise, &m, CJ_SHAPE(5, 2), CJ_F64);
    cj_seed(c, 4);
    assert_true(same_bits(one, cj_diffusion_sample(c, m.d, exact_noise, &m, CJ_SHAPE(5, 2), CJ_F64)));
    assert_poisoned(CJ_EVALUE, "diffusion_sample: a function", cj_diffusion_sample(c, m.d, NULL, NULL, CJ_SHAPE(5, 2), CJ_F64));
}

typedef struct place {
    const mixture *m;
    double kept;
} place;
/* sum of log q(z_t) over the rows: a mixture of N(sqrt(kept) m_i, kept s² + 1 - kept) */
static cj_tensor *log_density(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const place *p = user;
    double v = p->kept * p->m->s2 + 1 - p->kept;
    cj_tensor *gap = cj_sub(cj_unsqueeze(in[0], 1), cj_mul_scalar(p->m->means, sqrt(p->kept)));
    cj_tensor *each = cj_add(cj_mul_scalar(cj_sum(cj_square(gap), .axes = CJ_AXIS(2)), -0.5 / v), p->m->log_weight);
    return cj_sum(cj_logsumexp(each, .axes = CJ_AXIS(1)));
}

/* The score of the exact denoiser is the derivative of the density's logarithm. */
static void score_is_the_derivative(void **state)
{
    (void)state;
    enum { T = 50 };
    mixture m = { cj_diffusion_linear(c, T, 0.01, 0.2), F64(c, CJ_SHAPE(2, 2), -1.5, 0.5, 1, -0.5), F64(c, CJ_SHAPE(2), log(0.3), log(0.7)),
                  0.1 };
    for (int64_t t = 1; t <= T; t += 7) {
        cj_tensor *z = cj_require_grad(normal(CJ_SHAPE(20, 2))), *g, *times = when(t, 20);
        place p = { &m, value_at(m.d.kept, t - 1) };
        assert_true(cj_grad(log_density(c, &p, &z, 1), &z, 1, &g));
        assert_near(distance(cj_diffusion_score(m.d, times, exact_noise(c, &m, z, times)), g), 0, 1e-8);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(diff_forward), TEST(diff_posterior), TEST(diff_eps_loss), TEST(diff_elbo), TEST(diff_sampler), TEST(score_is_the_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
