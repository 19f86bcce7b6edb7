/* First and second derivatives of everything in cajal/math.h that is made of operators rather than being one (those are checked by `cajal selftest`): transforms of signals, distributions, information, distances, interpolation, equations. */
#include "support.h"

#include <cajal/grad.h>
#include <cajal/math.h>

TEST_CONTEXT(.threads = 1, .seed = 41);

typedef struct row {
    const char *name;
    cj_fn fn;
    int n;
    cj_shape in[4]; /* shapes of inputs, drawn from (0.4, 1.4) */
} row;

#define FN(name, expression)                                                                                                               \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)                                                           \
    {                                                                                                                                      \
        (void)ctx, (void)user, (void)n;                                                                                                    \
        return expression;                                                                                                                 \
    }
#define P(i) cj_softmax(in[i], -1) /* a table of probabilities */
/* L·Lᵀ + 1 of any square input. */
static cj_tensor *definite(cj_tensor *a) { return cj_add(cj_matmul(a, cj_t(a)), cj_eye(c, cj_size(a, -1), CJ_F64)); }
/* P(i) over both or all three axes of a joint table. */
static cj_tensor *joint(cj_tensor *a) { return cj_div(cj_exp(a), cj_sum(cj_exp(a))); }

/* ---- signals ----------------------------------------------------------------------------------------------------------------------------------------- */

FN(convolve_full, cj_fft_convolve(in[0], in[1]))
FN(convolve_same, cj_fft_convolve(in[0], in[1], .mode = CJ_CONVOLVE_SAME))
FN(convolve_valid, cj_fft_convolve(in[0], in[1], .mode = CJ_CONVOLVE_VALID))
FN(convolve_cyclic, cj_fft_convolve(in[0], in[1], .mode = CJ_CONVOLVE_CYCLIC))
FN(convolve_2d, cj_fft_convolve(in[0], in[1], .axes = CJ_AXES(-2, -1)))
FN(transform_2d, cj_square(cj_fft(in[0], .axes = CJ_AXES(0, 1))))
FN(transform_3d, cj_square(cj_ifft(in[0], .axes = CJ_AXES(0, 1, 2))))
FN(transform_prime, cj_square(cj_fft(in[0])))
FN(real_2d, cj_square(cj_rfft(in[0], .axes = CJ_AXES(-2, -1))))
FN(shifted, cj_square(cj_ifft_shift(cj_square(cj_fft_shift(in[0], CJ_AXIS(-1))), CJ_AXIS(-1))))
FN(spectrogram, cj_complex_abs(cj_stft(in[0], 8, .hop = 4)))
FN(there_and_back, cj_square(cj_istft(cj_square(cj_stft(in[0], 8, .hop = 2)), 8, .hop = 2)))
FN(complex_parts, cj_mul(cj_real(cj_conj(cj_complex(in[0], in[1]))), cj_imag(cj_conj(cj_complex(in[0], in[1])))))

/* ---- information and distances ------------------------------------------------------------------------------------------------------------------------ */

FN(entropy, cj_entropy(P(0)))
FN(relative_entropy, cj_relative_entropy(P(0), P(1)))
FN(cross_entropy, cj_table_cross_entropy(P(0), P(1)))
FN(jensen_shannon, cj_jensen_shannon(P(0), P(1)))
FN(mutual_information, cj_mutual_information(joint(in[0])))
FN(conditional_information, cj_conditional_mutual_information(joint(in[0])))
FN(conditional, cj_square(cj_table_conditional(joint(in[0]), CJ_AXIS(1))))
FN(bayes, cj_square(cj_bayes(P(0), P(1))))
FN(wasserstein_1, cj_wasserstein1(cj_square(in[0]), cj_square(cj_add_scalar(in[1], 3)))) /* apart: |x - y| has no corner */
FN(wasserstein_2, cj_wasserstein2(in[0], in[1]))
FN(gaussian_w2, cj_gaussian_w2(in[0], in[1], in[2], in[3]))
FN(gaussian_w2_full, cj_gaussian_w2_full(in[0], definite(in[1]), in[2], definite(in[3])))
FN(sinkhorn, cj_sinkhorn(in[0], P(1), P(2), .eps = 0.5, .iterations = 6))
FN(mmd, cj_mmd_rbf(in[0], in[1], 0.9))
FN(covariance, cj_square(cj_cov(in[0])))
FN(weighted_covariance, cj_square(cj_cov(in[0], .weights = P(1))))
FN(correlation, cj_square(cj_corr(in[0])))

/* ---- linear algebra made of rows --------------------------------------------------------------------------------------------------------------------- */

FN(definite_chain, cj_logdet(definite(in[0])))
FN(condition_number, cj_cond(definite(in[0]), CJ_NORM_FRO))
FN(vector_solution, cj_solve(definite(in[0]), in[1]))
FN(hessian_map, cj_square(cj_matrix_power(definite(in[0]), -2)))

/* ---- interpolation, equations, Taylor --------------------------------------------------------------------------------------------------------------- */

static cj_tensor *knots(void) { return F64(c, CJ_SHAPE(5), 0, 0.45, 0.8, 1.2, 1.6); }
FN(linear_pieces, cj_square(cj_interp(knots(), in[0], in[1])))
FN(natural_spline, cj_interp(knots(), in[0], in[1], .kind = CJ_SPLINE_NATURAL))
static const cj_interp_opts clamped = { .kind = CJ_SPLINE_CLAMPED, .slope = { 0.5, -0.25 } };
FN(clamped_spline, (cj_interp)(knots(), in[0], in[1], &clamped))
static cj_tensor *pendulum(cj_ctx *ctx, void *user, double t, cj_tensor *y)
{
    (void)ctx;
    return cj_add_scalar(cj_neg(cj_mul(user, cj_sin(y))), 0.1 * t);
}
static const double times[] = { 0, 0.5, 1.2 };
FN(runge_kutta, cj_ode_solve(c, pendulum, in[1], in[0], times, 3, .method = CJ_ODE_RK4, .steps = 3))
FN(euler, cj_ode_solve(c, pendulum, in[1], in[0], times, 2, .method = CJ_ODE_EULER, .steps = 4))
FN(dormand_prince, cj_ode_solve(c, pendulum, in[1], in[0], times, 2, .rtol = 1e-3, .atol = 1e-3))
static cj_tensor *quartic(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_mul(cj_square(in[0]), cj_exp(in[0]));
}
FN(taylor, cj_taylor(c, quartic, NULL, in[0], 3, in[1]))
FN(derivative, cj_derivative(c, quartic, NULL, in[0], 2))

#define S(...) CJ_SHAPE(__VA_ARGS__)
#define ROW(name, count, ...)                                                                                                              \
    {                                                                                                                                      \
#name, name, count, { __VA_ARGS__ }                                                                                                \
    }
static const row rows[] = {
    ROW(convolve_full, 2, S(2, 5), S(1, 3)),
    ROW(convolve_same, 2, S(6), S(3)),
    ROW(convolve_valid, 2, S(7), S(3)),
    ROW(convolve_cyclic, 2, S(6), S(6)),
    ROW(convolve_2d, 2, S(3, 4), S(2, 2)),
    ROW(transform_2d, 1, S(3, 4, 2)),
    ROW(transform_3d, 1, S(2, 3, 2, 2)),
    ROW(transform_prime, 1, S(37, 2)),
    ROW(real_2d, 1, S(3, 4)),
    ROW(shifted, 1, S(5)),
    ROW(spectrogram, 1, S(20)),
    ROW(there_and_back, 1, S(16)),
    ROW(complex_parts, 2, S(3), S(3)),
    ROW(entropy, 1, S(2, 4)),
    ROW(relative_entropy, 2, S(2, 4), S(2, 4)),
    ROW(cross_entropy, 2, S(4), S(4)),
    ROW(jensen_shannon, 2, S(4), S(4)),
    ROW(mutual_information, 1, S(3, 4)),
    ROW(conditional_information, 1, S(2, 3, 2)),
    ROW(conditional, 1, S(3, 3)),
    ROW(bayes, 2, S(3), S(3, 4)),
    ROW(wasserstein_1, 2, S(5), S(5)),
    ROW(wasserstein_2, 2, S(5), S(5)),
    ROW(gaussian_w2, 4, S(3), S(3), S(3), S(3)),
    ROW(gaussian_w2_full, 4, S(2), S(2, 2), S(2), S(2, 2)),
    ROW(sinkhorn, 3, S(3, 4), S(3), S(4)),
    ROW(mmd, 2, S(3, 2), S(4, 2)),
    ROW(covariance, 1, S(5, 3)),
    ROW(weighted_covariance, 2, S(4, 2), S(4)),
    ROW(correlation, 1, S(5, 3)),
    ROW(definite_chain, 1, S(3, 3)),
    ROW(condition_number, 1, S(3, 3)),
    ROW(vector_solution, 2, S(3, 3), S(3)),
    ROW(hessian_map, 1, S(2, 2)),
    ROW(linear_pieces, 2, S(5), S(3)),
    ROW(natural_spline, 2, S(5), S(3)),
    ROW(clamped_spline, 2, S(5), S(3)),
    ROW(runge_kutta, 2, S(2), S(2)),
    ROW(euler, 2, S(2), S(2)),
    ROW(dormand_prince, 2, S(2), S(2)),
    ROW(taylor, 2, S(3), S(3)),
    ROW(derivative, 1, S(3)),
};

static int failures;
static void checked(const char *name, cj_fn fn, void *user, cj_tensor *const *in, int n)
{
    cj_gradcheck_result r = cj_gradcheck(c, fn, user, in, n, .second_order = true, .tolerance = 1e-5);
    if (r.ok && cj_ok(c)) return;
    print_error("%s: %s (%g) %s\n", name, r.what, r.worst, cj_message(c));
    cj_clear(c);
    failures++;
}

static void functions_have_two_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[4];
        for (int k = 0; k < rows[i].n; k++) in[k] = cj_uniform(c, 0.4, 1.4, rows[i].in[k], .dtype = CJ_F64);
        checked(rows[i].name, rows[i].fn, NULL, in, rows[i].n);
        cj_scope_close(s);
    }
    assert_int_equal(failures, 0);
}

/* ---- distributions ------------------------------------------------------------------------------------------------------------------------------------- */

/* Parameters from numbers in (0.4, 1.4). */
typedef struct law {
    const char *name;
    cj_dist (*make)(cj_tensor *const *in);
    int n;
    cj_shape in[3];
    cj_shape x;
    double at[4];                /* a fixed outcome; NAN: outcomes are drawn from (0.4, 1.4) and differentiated too */
    bool fixed_cdf, no_quantile; /* there is none, or it has jumps */
} law;
#define LAW(name, expression)                                                                                                              \
    static cj_dist name(cj_tensor *const *in) { return expression; }
LAW(normal, cj_dist_normal(in[0], in[1]))
LAW(laplace, cj_dist_laplace(cj_add_scalar(in[0], -2), in[1])) /* its corner is at loc */
LAW(gumbel, cj_dist_gumbel(in[0], in[1]))
LAW(logistic, cj_dist_logistic(in[0], in[1]))
LAW(student, cj_dist_student_t(in[0], in[1], cj_add_scalar(in[2], 4)))
LAW(uniform, cj_dist_uniform(cj_add_scalar(in[0], -2), cj_add_scalar(in[1], 2)))
LAW(exponential, cj_dist_exponential(in[0]))
LAW(gamma_law, cj_dist_gamma(cj_add_scalar(in[0], 1), in[1]))
LAW(beta_law, cj_dist_beta(cj_add_scalar(in[0], 1), cj_add_scalar(in[1], 1)))
LAW(von_mises, cj_dist_von_mises(in[0], in[1]))
LAW(bernoulli, cj_dist_bernoulli(cj_sigmoid(in[0])))
LAW(binomial, cj_dist_binomial(cj_full(c, 6, CJ_SCALAR, CJ_F64), cj_sigmoid(in[0])))
LAW(poisson, cj_dist_poisson(in[0]))
LAW(dirichlet, cj_dist_dirichlet(in[0]))
LAW(categorical, cj_dist_categorical(in[0]))
LAW(multinomial, cj_dist_multinomial(4, in[0]))
LAW(diagonal, cj_dist_diagonal_normal(in[0], in[1]))
LAW(multivariate, cj_dist_multivariate_normal(in[0], definite(in[1]), CJ_COVARIANCE))
LAW(precision, cj_dist_multivariate_normal(in[0], definite(in[1]), CJ_PRECISION))
LAW(low_rank, cj_dist_low_rank_normal(in[0], in[1], in[2]))
LAW(marginal, cj_gaussian_marginal(cj_dist_multivariate_normal(in[0], definite(in[1]), CJ_COVARIANCE), 0, 2))
LAW(given, cj_gaussian_conditional(cj_dist_multivariate_normal(in[0], definite(in[1]), CJ_COVARIANCE), 2, in[2]))
LAW(log_normal, cj_dist_log_normal(in[0], in[1]))
LAW(affine, cj_dist_affine(cj_dist_gumbel(in[0], in[1]), in[0], in[2]))
LAW(mixture, cj_dist_mixture(in[2], cj_dist_normal(in[0], in[1])))

#define NUMBER                                                                                                                             \
    {                                                                                                                                      \
        NAN                                                                                                                                \
    }
static const law laws[] = {
    { "normal", normal, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "laplace", laplace, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "gumbel", gumbel, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "logistic", logistic, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "student_t", student, 3, { S(2), S(2), S(2) }, S(2), NUMBER, false, false },
    { "uniform", uniform, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "exponential", exponential, 1, { S(2) }, S(2), NUMBER, false, false },
    { "gamma", gamma_law, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "beta", beta_law, 2, { S(2), S(2) }, S(2), { 0.3, 0.6 }, false, false },
    { "von_mises", von_mises, 2, { S(2), S(2) }, S(2), NUMBER, true, true },
    { "bernoulli", bernoulli, 1, { S(2) }, S(2), { 1, 0 }, false, true },
    { "binomial", binomial, 1, { S(2) }, S(2), { 2, 5 }, false, true },
    { "poisson", poisson, 1, { S(2) }, S(2), { 0, 3 }, false, true },
    { "dirichlet", dirichlet, 1, { S(3) }, S(3), { 0.2, 0.5, 0.3 }, true, true },
    { "categorical", categorical, 1, { S(3) }, S(1), { 2 }, true, true },
    { "multinomial", multinomial, 1, { S(3) }, S(3), { 1, 3, 0 }, true, true },
    { "diagonal_normal", diagonal, 2, { S(3), S(3) }, S(3), NUMBER, true, true },
    { "multivariate_normal", multivariate, 2, { S(3), S(3, 3) }, S(3), NUMBER, true, true },
    { "multivariate_normal by precision", precision, 2, { S(2), S(2, 2) }, S(2), NUMBER, true, true },
    { "low_rank_normal", low_rank, 3, { S(3), S(3, 1), S(3) }, S(3), NUMBER, true, true },
    { "gaussian_marginal", marginal, 2, { S(3), S(3, 3) }, S(2), NUMBER, true, true },
    { "gaussian_conditional", given, 3, { S(3), S(3, 3), S(1) }, S(2), NUMBER, true, true },
    { "log_normal", log_normal, 2, { S(2), S(2) }, S(2), NUMBER, false, false },
    { "affine", affine, 3, { S(2), S(2), S(2) }, S(2), NUMBER, false, false },
    { "mixture", mixture, 3, { S(3), S(3), S(3) }, S(1), NUMBER, false, true },
};

typedef enum statistic { LOG_PROB, CDF, QUANTILE, MEAN, VARIANCE, ENTROPY, MGF, KL, STATISTICS } statistic;
static const char *const statistic_names[] = { "log_prob", "cdf", "quantile", "mean", "variance", "entropy", "mgf", "kl" };
typedef struct question {
    const law *l;
    statistic what;
    cj_tensor *const *fixed; /* parameters and outcome where they are constants */
    bool only_x;
} question;
static cj_tensor *ask(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx;
    const question *q = user;
    const law *l = q->l;
    const cj_dist d = l->make(q->only_x ? q->fixed : in);
    cj_tensor *x = q->only_x ? in[0] : n > l->n ? in[l->n] : q->fixed[l->n];
    switch (q->what) {
    case LOG_PROB: return cj_dist_log_prob(d, x);
    case CDF: return cj_dist_cdf(d, x);
    case QUANTILE: return cj_dist_quantile(d, cj_mul_scalar(x, 0.5)); /* (0.2, 0.7) */
    case MEAN: return cj_square(cj_dist_mean(d));
    case VARIANCE: return cj_square(cj_dist_variance(d));
    case ENTROPY: return cj_dist_entropy(d);
    case MGF: return cj_dist_mgf(d, cj_mul_scalar(x, 0.2));
    default: return cj_dist_kl(d, l->make(q->fixed));
    }
}

/* Of every distribution all that has a closed form; what has none is an error that says so, and is counted. */
static void distributions_have_two_derivatives(void **state)
{
    (void)state;
    bool seen[CJ_DISTS] = { 0 };
    int asked = 0, none = 0;
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        for (int what = 0; what < STATISTICS; what++) {
            const law *l = &laws[i];
            cj_scope s = cj_scope_open(c);
            cj_tensor *in[4], *fixed[4];
            for (int k = 0; k < l->n; k++) {
                in[k] = cj_uniform(c, 0.4, 1.4, l->in[k], .dtype = CJ_F64);
                fixed[k] = cj_uniform(c, 0.4, 1.4, l->in[k], .dtype = CJ_F64);
            }
            if (l->make == uniform) /* a second one that contains the first: else the divergence is infinite */
                fixed[0] = cj_full(c, 0, l->in[0], CJ_F64), fixed[1] = cj_full(c, 3, l->in[1], CJ_F64);
            const bool drawn = isnan(l->at[0]), smooth_x = drawn || l->fixed_cdf; /* quantiles and moment functions take any number */
            fixed[l->n] = in[l->n] =
                drawn || what == QUANTILE || what == MGF ? cj_uniform(c, 0.4, 1.4, l->x, .dtype = CJ_F64) : f64(c, l->at, l->x);
            question q = { l, (statistic)what, fixed, false };
            seen[l->make(in).kind] = true;
            char name[96];
            snprintf(name, sizeof name, "%s of %s", statistic_names[what], l->name);
            cj_tensor *value = ask(c, &q, in, l->n + 1);
            if (cj_error(c) == CJ_EVALUE) { /* and says why */
                if (!strstr(cj_message(c), statistic_names[what])) fail_msg("%s: %s", name, cj_message(c));
                cj_clear(c);
                none++;
            } else {
                if (!cj_ok(c) || !value) fail_msg("%s: %s", name, cj_message(c));
                const bool with_x = (what == LOG_PROB && drawn) || what == MGF || ((what == CDF || what == QUANTILE) && smooth_x && drawn);
                asked++;
                if ((what == CDF || what == QUANTILE) && l->fixed_cdf) {
                    q.only_x = true;
                    if (l->at[0] != floor(l->at[0])) checked(name, ask, &q, &in[l->n], 1);
                } else {
                    checked(name, ask, &q, in, l->n + with_x);
                }
            }
            cj_scope_close(s);
        }
    for (int k = 0; k < CJ_DISTS; k++)
        if (!seen[k]) fail_msg("kind %d of cj_dist_kind was not asked", k);
    print_message("%d functions of distributions, %d without a closed form\n", asked, none);
    assert_true(asked > 120);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_have_two_derivatives),
        cmocka_unit_test(distributions_have_two_derivatives),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
