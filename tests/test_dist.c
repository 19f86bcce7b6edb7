/* Distributions: samplers by Kolmogorov-Smirnov and chi-square, bits at every level and number of threads, densities against their integrals, gradients of samples, and
 * parameters outside of their range. */
#include "support.h"

#include <cajal/math.h>

enum { DRAWS = 100000 };

typedef struct law {
    const char *name;
    cj_dist (*make)(cj_ctx *c);
    double low, high; /* practically all of the mass lies between */
    bool no_cdf;
} law;

static cj_tensor *number(cj_ctx *c, double v) { return cj_from_f64(c, &v, CJ_SCALAR); }
#define N(v) number(c, v)
#define LAW(name, expression)                                                                                                              \
    static cj_dist name(cj_ctx *c) { return expression; }
LAW(normal, cj_dist_normal(N(0.5), N(2)))
LAW(laplace, cj_dist_laplace(N(-1), N(0.7)))
LAW(gumbel, cj_dist_gumbel(N(1), N(1.5)))
LAW(logistic, cj_dist_logistic(N(0.3), N(0.8)))
LAW(student, cj_dist_student_t(N(0.2), N(1.3), N(5)))
LAW(uniform, cj_dist_uniform(N(-2), N(3)))
LAW(exponential, cj_dist_exponential(N(1.7)))
LAW(gamma_small, cj_dist_gamma(N(0.3), N(2)))
LAW(gamma_large, cj_dist_gamma(N(7.5), N(0.5)))
LAW(beta, cj_dist_beta(N(0.7), N(2.5)))
LAW(log_normal, cj_dist_log_normal(N(0.1), N(0.5)))
LAW(affine, cj_dist_affine(cj_dist_gumbel(N(0), N(1)), N(1), N(-2)))
LAW(von_mises, cj_dist_von_mises(N(0.4), N(2)))
LAW(flat_von_mises, cj_dist_von_mises(N(0), N(0)))
LAW(mixture, cj_dist_mixture(F64(c, CJ_SHAPE(2), 0, 1), cj_dist_normal(F64(c, CJ_SHAPE(2), -2, 1), F64(c, CJ_SHAPE(2), 0.5, 1))))
LAW(bernoulli, cj_dist_bernoulli(N(0.3)))
LAW(binomial_few, cj_dist_binomial(N(12), N(0.3)))
LAW(binomial_many, cj_dist_binomial(N(1000), N(0.02)))
LAW(poisson_few, cj_dist_poisson(N(3.5)))
LAW(poisson_many, cj_dist_poisson(N(150)))

static const law continuous[] = {
    { "normal", normal, -20, 20, false },          { "laplace", laplace, -26, 24, false },
    { "gumbel", gumbel, -6, 60, false },           { "logistic", logistic, -30, 30, false },
    { "student_t", student, -3000, 3000, false },  { "uniform", uniform, -2, 3, false },
    { "exponential", exponential, 0, 25, false },  { "gamma 0.3", gamma_small, 0, 25, false },
    { "gamma 7.5", gamma_large, 0, 150, false },   { "beta", beta, 0, 1, false },
    { "log_normal", log_normal, 0, 40, false },    { "affine", affine, -80, 12, false },
    { "von_mises", von_mises, -M_PI, M_PI, true }, { "flat von_mises", flat_von_mises, -M_PI, M_PI, true },
    { "mixture", mixture, -10, 12, false },
};
static const law discrete[] = {
    { "bernoulli", bernoulli, 0, 1, false },          { "binomial 12", binomial_few, 0, 12, false },
    { "binomial 1000", binomial_many, 0, 60, false }, { "poisson 3.5", poisson_few, 0, 25, false },
    { "poisson 150", poisson_many, 70, 250, false },
};
#define EACH(l, table) for (const law *l = table; l < table + sizeof(table) / sizeof *(table); l++)

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* P(sqrt(n) D > 1.95) is 0.001. Where there is no cdf it is the integral of the density by the midpoint rule. */
static void samples_follow_the_cdf(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5 });
    EACH(l, continuous)
    {
        cj_scope s = cj_scope_open(c);
        const cj_dist d = l->make(c);
        double *x = values_of(cj_dist_sample(d, CJ_SHAPE(DRAWS))), worst = 0, *f;
        assert_ok(c);
        qsort(x, DRAWS, sizeof *x, ascending);
        if (l->no_cdf) {
            enum { CELLS = 4000 };
            double at[CELLS], sum = 0;
            for (int i = 0; i < CELLS; i++) at[i] = -M_PI + 2 * M_PI * (i + 0.5) / CELLS;
            double *p = values_of(cj_exp(cj_dist_log_prob(d, f64(c, at, CJ_SHAPE(CELLS)))));
            f = calloc(DRAWS, sizeof *f);
            for (int64_t i = 0, cell = 0; i < DRAWS; i++) {
                const double place = (x[i] + M_PI) / (2 * M_PI) * CELLS;
                while (cell < CELLS && (double)(cell + 1) <= place) sum += p[cell++] * 2 * M_PI / CELLS;
                f[i] = sum + (cell < CELLS ? (place - (double)cell) * p[cell] * 2 * M_PI / CELLS : 0);
            }
            free(p);
        } else {
            f = values_of(cj_dist_cdf(d, f64(c, x, CJ_SHAPE(DRAWS))));
        }
        for (int i = 0; i < DRAWS; i++) worst = fmax(worst, fmax(f[i] - (double)i / DRAWS, (double)(i + 1) / DRAWS - f[i]));
        if (!(worst * sqrt(DRAWS) < 1.95)) fail_msg("%s: Kolmogorov-Smirnov %g", l->name, worst * sqrt(DRAWS));
        free(x), free(f);
        assert_ok(c);
        cj_scope_close(s);
    }
    cj_ctx_free(c);
}

/* Chi-square over the outcomes expected at least 10 times, the others together: within 4 deviations of its degrees of freedom. */
static void counts_follow_the_probabilities(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 6 });
    EACH(l, discrete)
    {
        cj_scope s = cj_scope_open(c);
        const cj_dist d = l->make(c);
        double *x = values_of(cj_dist_sample(d, CJ_SHAPE(DRAWS))), seen[1200] = { 0 }, other = DRAWS, rest = DRAWS, chi = 0;
        int cells = 0;
        for (int i = 0; i < DRAWS; i++) {
            assert_true(x[i] >= 0 && x[i] < 1200 && floor(x[i]) == x[i]);
            seen[(int)x[i]]++;
        }
        double *p = values_of(cj_exp(cj_dist_log_prob(d, cj_arange(c, l->low, l->high + 1, 1, CJ_F64)))), total = 0;
        double *f = values_of(cj_dist_cdf(d, cj_arange(c, l->low, l->high + 1, 1, CJ_F64)));
        const double before = cj_item(cj_dist_cdf(d, N(l->low - 1)));
        for (int k = 0; k <= l->high - l->low; k++) {
            total += p[k];
            assert_near(f[k] - before, total, 1e-12);
            if (p[k] * DRAWS < 10) continue;
            const double e = p[k] * DRAWS, o = seen[(int)l->low + k];
            chi += (o - e) * (o - e) / e, rest -= e, other -= o, cells++;
        }
        assert_near(total, 1, 1e-9);
        if (rest > 10) chi += (other - rest) * (other - rest) / rest;
        if (!(chi < cells + 4 * sqrt(2.0 * cells))) fail_msg("%s: chi-square %g of %d cells", l->name, chi, cells);
        free(x), free(p), free(f);
        cj_scope_close(s);
    }
    /* categorical and multinomial, with a class that never comes */
    cj_tensor *logits = cj_log(F64(c, CJ_SHAPE(4), 0.5, 0.2, 0, 0.3));
    double *k = values_of(cj_dist_sample(cj_dist_categorical(logits), CJ_SHAPE(DRAWS))), n[4] = { 0 };
    for (int i = 0; i < DRAWS; i++) n[(int)k[i]]++;
    const double p[4] = { 0.5, 0.2, 0, 0.3 };
    double chi = 0;
    for (int i = 0; i < 4; i++) chi += i == 2 ? n[i] : (n[i] - p[i] * DRAWS) * (n[i] - p[i] * DRAWS) / (p[i] * DRAWS);
    assert_true(chi < 13.8); /* 0.001 at 2 degrees of freedom */
    assert_true(n[2] == 0);
    free(k);
    double *m = values_of(cj_dist_sample(cj_dist_multinomial(40, logits), CJ_SHAPE(DRAWS))), sum[4] = { 0 }, squares[4] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        assert_near(m[4 * i] + m[4 * i + 1] + m[4 * i + 3], 40, 0);
        for (int j = 0; j < 4; j++) sum[j] += m[4 * i + j], squares[j] += m[4 * i + j] * m[4 * i + j];
    }
    for (int j = 0; j < 4; j++) {
        const double v = 40 * p[j] * (1 - p[j]), mean = sum[j] / DRAWS;
        assert_near(mean, 40 * p[j], 4 * sqrt(v / DRAWS));
        assert_near(squares[j] / DRAWS - mean * mean, v, 0.03 * v);
    }
    free(m);
    assert_ok(c);
    cj_ctx_free(c);
}

/* f32 and f64 draws of all kinds are the same on 1 and 2 threads and at every level. */
static void bits_do_not_depend_on_the_machine(void **state)
{
    (void)state;
    static const char *const levels[] = { "portable", "avx2", "avx512" };
    cj_ctx *first = NULL;
    cj_tensor *want[2][40];
    for (int l = 0; l < 3; l++)
        for (int threads = 1; threads <= 2; threads++) {
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .isa = levels[l], .threads = threads, .seed = 9 });
            if (!cj_ok(c)) { /* not on this machine */
                cj_ctx_free(c);
                continue;
            }
            for (int wide = 0; wide < 2; wide++) {
                int n = 0;
                cj_dist d[40];
                EACH(law, continuous) d[n++] = law->make(c);
                EACH(law, discrete) d[n++] = law->make(c);
                d[n++] = cj_dist_dirichlet(F64(c, CJ_SHAPE(3), 0.2, 1, 5));
                d[n++] = cj_dist_categorical(F64(c, CJ_SHAPE(3), 0.2, 1, 0.5));
                d[n++] = cj_dist_multinomial(300, F64(c, CJ_SHAPE(3), 0.2, 1, 0.5));
                for (int i = 0; i < n; i++) {
                    for (int k = 0; k < 3 && !wide; k++)
                        if (d[i].p[k]) d[i].p[k] = cj_cast(d[i].p[k], CJ_F32);
                    cj_tensor *x = cj_dist_sample(d[i], CJ_SHAPE(1000));
                    assert_ok(c);
                    if (!first) want[wide][i] = x;
                    else if (!same_bits(x, want[wide][i])) fail_msg("draw %d differs at %s with %d threads", i, levels[l], threads);
                }
            }
            if (!first) first = c;
            else cj_ctx_free(c);
        }
    cj_ctx_free(first);
}

/* Simpson's rule on 2m + 1 points x = low + (high - low) s(t), s = t³ (10 - 15t + 6t²): flat at the ends, where densities may be infinite. */
static void densities_integrate(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    enum { POINTS = 40001 };
    static double x[POINTS], w[POINTS];
    EACH(l, continuous)
    {
        cj_scope s = cj_scope_open(c);
        const cj_dist d = l->make(c);
        for (int i = 0; i < POINTS; i++) {
            const double t = (double)i / (POINTS - 1), u = t * t * t * (10 - 15 * t + 6 * t * t);
            x[i] = l->low + (l->high - l->low) * u;
            w[i] = (i == 0 || i == POINTS - 1 ? 1
                    : i % 2                   ? 4
                                              : 2) /
                   3.0 / (POINTS - 1) * (l->high - l->low) * 30 * t * t * (1 - t) * (1 - t);
        }
        double *lp = values_of(cj_dist_log_prob(d, f64(c, x, CJ_SHAPE(POINTS)))), mass = 0, mean = 0, square = 0, entropy = 0;
        for (int i = 0; i < POINTS; i++) {
            if (w[i] == 0 || lp[i] == -INFINITY) continue;
            const double p = w[i] * exp(lp[i]);
            mass += p, mean += p * x[i], square += p * x[i] * x[i], entropy -= p * lp[i];
        }
        free(lp);
        const bool rough = strcmp(l->name, "gamma 0.3") == 0 || strcmp(l->name, "student_t") == 0; /* a pole; a tail */
        const double tol = rough ? 1e-3 : 1e-5;
        if (!(fabs(mass - 1) < tol)) fail_msg("%s: mass %.12g", l->name, mass);
        if (!l->no_cdf) {
            assert_near(mean, cj_item(cj_dist_mean(d)), tol * 10);
            assert_near(square - mean * mean, cj_item(cj_dist_variance(d)), rough ? 0.02 : 1e-3);
        }
        if (!d.weights && fabs(entropy - cj_item(cj_dist_entropy(d))) > tol * 10) fail_msg("%s: entropy %.12g", l->name, entropy);
        assert_ok(c);
        cj_scope_close(s);
    }
    cj_ctx_free(c);
}

/* F(Q(u)) = u. */
static void quantiles_invert(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *u = F64(c, CJ_SHAPE(5), 0.01, 0.2, 0.5, 0.9, 0.999);
    EACH(l, continuous)
    {
        const cj_dist d = l->make(c);
        if (l->no_cdf || d.weights) {
            assert_refused(CJ_EVALUE, "quantile: there is no closed form for", cj_dist_quantile(d, u));
            continue;
        }
        assert_near(distance(cj_dist_cdf(d, cj_dist_quantile(d, u)), u), 0, 1e-12);
    }
    cj_ctx_free(c);
}

/* ---- gradients --------------------------------------------------------------------------------------------------------------------------------------- */

/* d E[x²] / d parameter by samples, against the derivative of mean² + variance. */
static void gradients_of_samples(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3 });
    for (int kind = 0; kind < 9; kind++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *p[3] = { cj_require_grad(N(0.9)), cj_require_grad(N(1.4)), cj_require_grad(N(6)) }, *sampled[3], *exact[3];
        const cj_dist d = kind == 0   ? cj_dist_normal(p[0], p[1])
                          : kind == 1 ? cj_dist_laplace(p[0], p[1])
                          : kind == 2 ? cj_dist_gumbel(p[0], p[1])
                          : kind == 3 ? cj_dist_logistic(p[0], p[1])
                          : kind == 4 ? cj_dist_uniform(p[0], p[1])
                          : kind == 5 ? cj_dist_gamma(p[0], p[1])
                          : kind == 6 ? cj_dist_beta(p[0], p[1])
                          : kind == 7 ? cj_dist_student_t(p[0], p[1], p[2])
                                      : cj_dist_log_normal(p[0], cj_mul_scalar(p[1], 0.25));
        const int n = kind == 7 ? 3 : 2;
        assert_true(cj_grad(cj_mean(cj_square(cj_dist_sample(d, CJ_SHAPE(40000)))), p, n, sampled, .retain = true));
        assert_true(cj_grad(cj_add(cj_square(cj_dist_mean(d)), cj_dist_variance(d)), p, n, exact));
        assert_ok(c);
        for (int i = 0; i < n; i++) {
            const double a = cj_item(sampled[i]), b = cj_item(exact[i]);
            if (!(fabs(a - b) < 0.03 * (1 + fabs(b)))) fail_msg("kind %d, parameter %d: %g by samples, %g exactly", kind, i, a, b);
        }
        cj_scope_close(s);
    }
    cj_ctx_free(c);
}

/* The implicit derivative is the slope of the quantile: F(a, x(a)) stays. */
static void gamma_derivative_is_the_slope_of_the_quantile(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 4 });
    const double a[] = { 0.2, 1, 3.5, 80 };
    for (int i = 0; i < 4; i++) {
        cj_tensor *leaf = cj_require_grad(N(a[i])), *g;
        cj_tensor *x = cj_dist_sample(cj_dist_gamma(leaf, N(1)), CJ_SCALAR);
        assert_true(cj_grad(x, &leaf, 1, &g));
        const double x0 = cj_item(x), h = 1e-4 * a[i], u = cj_item(cj_gammainc(N(a[i]), N(x0)));
        double q[2];
        for (int side = 0; side < 2; side++) { /* x with P(a ± h, x) = u, by bisection */
            double lo = 0, hi = 4 * x0 + 1;
            for (int k = 0; k < 200; k++) {
                const double mid = (lo + hi) / 2;
                if (cj_item(cj_gammainc(N(a[i] + (side ? h : -h)), N(mid))) < u) lo = mid;
                else hi = mid;
            }
            q[side] = lo;
        }
        const double slope = (q[1] - q[0]) / (2 * h);
        assert_near(cj_item(g), slope, 1e-5 * (1 + fabs(slope)));
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *density_of(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    const int kind = *(int *)user;
    cj_tensor *x = in[0], *a = in[1], *b = in[2];
    return cj_dist_log_prob(kind == 0   ? cj_dist_logistic(a, b)
                            : kind == 1 ? cj_dist_student_t(a, b, N(3))
                            : kind == 2 ? cj_dist_gamma(a, b)
                            : kind == 3 ? cj_dist_von_mises(a, b)
                            : kind == 4 ? cj_dist_exp(cj_dist_logistic(a, b))
                                        : cj_dist_affine(cj_dist_gumbel(a, b), a, b),
                            x);
}
static void densities_have_gradients(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    for (int kind = 0; kind < 6; kind++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[] = { F64(c, CJ_SHAPE(3), 0.4, 1.2, 2.5), F64(c, CJ_SHAPE(3), 0.5, 1, 1.7), F64(c, CJ_SHAPE(3), 0.6, 1.1, 2) };
        cj_gradcheck_result r = cj_gradcheck(c, density_of, &kind, in, 3, .second_order = true, .tolerance = 1e-5);
        if (!r.ok) fail_msg("kind %d: %s %s", kind, r.what, cj_message(c));
        cj_scope_close(s);
    }
    cj_ctx_free(c);
}

/* ---- bad input ---------------------------------------------------------------------------------------------------------------------------------------- */

static void bad_parameters_are_named(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *ok = F64(c, CJ_SHAPE(3), 1, 2, 3), *bad = F64(c, CJ_SHAPE(3), 1, 2, -3), *other = F64(c, CJ_SHAPE(2), 1, 2);
    assert_refused(CJ_EVALUE, "normal: scale element 2: a positive number is expected, found -3", cj_dist_normal(ok, bad));
    assert_refused(CJ_EVALUE, "normal: loc element 0: a finite number is expected, found nan", cj_dist_normal(N(NAN), ok));
    assert_refused(CJ_EVALUE, "gamma: concentration element 2", cj_dist_gamma(bad, ok));
    assert_refused(CJ_EVALUE, "bernoulli: p element 1: a probability is expected, found 2", cj_dist_bernoulli(ok));
    assert_refused(CJ_EVALUE, "binomial: trials element 0: a whole number from 0 on is expected, found 2.5",
                   cj_dist_binomial(N(2.5), N(0.5)));
    assert_refused(CJ_EVALUE, "poisson: rate element 2: a number not below 0 is expected, found -3", cj_dist_poisson(bad));
    assert_refused(CJ_EVALUE, "uniform: high - low element 1", cj_dist_uniform(ok, N(2)));
    assert_refused(CJ_ESHAPE, "normal: loc [3] and scale [2] do not broadcast", cj_dist_normal(ok, other));
    assert_refused(CJ_ESHAPE, "categorical: logits [.., K]", cj_dist_categorical(N(0)));
    assert_refused(CJ_EVALUE, "categorical: logsumexp of logits element 0", cj_dist_categorical(F64(c, CJ_SHAPE(2), -INFINITY, -INFINITY)));
    assert_refused(CJ_EVALUE, "multinomial: trials", cj_dist_multinomial(-1, ok));
    assert_refused(CJ_EVALUE, "affine: factor element 0: a number other than 0 is expected, found 0",
                   cj_dist_affine(normal(c), N(1), N(0)));
    assert_refused(CJ_EVALUE, "affine: the distribution is affine already", cj_dist_affine(affine(c), N(1), N(2)));
    assert_refused(CJ_EVALUE, "exp: a continuous kind over numbers before exp and mixture is expected, found poisson",
                   cj_dist_exp(poisson_few(c)));
    assert_refused(CJ_EVALUE, "mixture: components with float outcomes are expected, found categorical",
                   cj_dist_mixture(ok, cj_dist_categorical(ok)));
    assert_refused(CJ_EVALUE, "mgf: there is no closed form for student_t", cj_dist_mgf(student(c), N(0.1)));
    assert_refused(CJ_EVALUE, "mgf: there is no closed form for exp of normal", cj_dist_mgf(log_normal(c), N(0.1)));
    assert_refused(CJ_EVALUE, "kl: there is no closed form for laplace and logistic", cj_dist_kl(laplace(c), logistic(c)));
    assert_refused(CJ_EVALUE, "kl: two distributions alike in exp and trials are expected, found two of normal that are not",
                   cj_dist_kl(normal(c), log_normal(c)));
    assert_refused(CJ_EVALUE, "entropy: there is no closed form for mixtures of normal", cj_dist_entropy(mixture(c)));
    assert_refused(CJ_ESHAPE, "", cj_dist_sample(normal(c), CJ_SHAPE(-2)));
    assert_refused(CJ_ESHAPE, "", cj_dist_sample(gumbel(c), CJ_SHAPE(-2)));
    assert_refused(CJ_EVALUE, "stream 77 is none of", cj_dist_sample(gamma_small(c), CJ_SHAPE(2), .stream = (cj_stream)77));
    assert_null(cj_dist_sample((cj_dist){ 0 }, CJ_SHAPE(2)));
    assert_null(cj_dist_normal(NULL, NULL).p[0]);
    cj_ctx_free(c);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_follow_the_cdf),
        cmocka_unit_test(counts_follow_the_probabilities),
        cmocka_unit_test(bits_do_not_depend_on_the_machine),
        cmocka_unit_test(densities_integrate),
        cmocka_unit_test(quantiles_invert),
        cmocka_unit_test(gradients_of_samples),
        cmocka_unit_test(gamma_derivative_is_the_slope_of_the_quantile),
        cmocka_unit_test(densities_have_gradients),
        cmocka_unit_test(bad_parameters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
