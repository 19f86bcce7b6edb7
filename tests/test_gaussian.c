/* Correlated Gaussians: samples against their law, bits at every level and number of threads, derivatives, marginals and conditionals, and what is refused. */
#include "support.h"

#include <cajal/math.h>

TEST_CONTEXT(.seed = 41);

enum { DRAWS = 100000 };
static const double mean[3] = { 1, -2, 0.5 }, cov[9] = { 4, 1.2, -0.6, 1.2, 2, 0.3, -0.6, 0.3, 1 },
                    factor[6] = { 1, 0.5, -0.7, 0.2, 0.4, -1.1 }, diagonal[3] = { 0.5, 1.5, 0.8 };

static cj_dist full(cj_ctx *ctx)
{
    return cj_dist_multivariate_normal(f64(ctx, mean, CJ_SHAPE(3)), f64(ctx, cov, CJ_SHAPE(3, 3)), CJ_COVARIANCE);
}
static cj_dist thin(cj_ctx *ctx)
{
    return cj_dist_low_rank_normal(f64(ctx, mean, CJ_SHAPE(3)), f64(ctx, factor, CJ_SHAPE(3, 2)), f64(ctx, diagonal, CJ_SHAPE(3)));
}
/* Four Gaussians in one. */
static cj_dist many(cj_ctx *ctx)
{
    cj_tensor *more = cj_mul(cj_reshape(cj_arange(ctx, 0, 4, 1, CJ_F64), CJ_SHAPE(4, 1, 1)), cj_eye(ctx, 3, CJ_F64));
    return cj_dist_multivariate_normal(f64(ctx, mean, CJ_SHAPE(3)), cj_add(f64(ctx, cov, CJ_SHAPE(3, 3)), more), CJ_COVARIANCE);
}

/* sqrt(n)·sup|F - F_n| of a sample; above 1.95 with probability 0.001 */
static double kolmogorov(cj_dist d, cj_tensor *x)
{
    const int64_t n = cj_numel(x);
    double *f = values_of(cj_dist_cdf(d, cj_sort(x, 0).values)), worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fmax(f[i] - (double)i / (double)n, (double)(i + 1) / (double)n - f[i]));
    free(f);
    return worst * sqrt((double)n);
}
/* Every coordinate, and a direction across all of them, is normal with the mean and variance that the law says; the covariances agree. */
static void samples_have_the_law(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const cj_dist d = kind ? thin(c) : full(c);
        cj_tensor *x = cj_dist_sample(d, CJ_SHAPE(DRAWS)), *s = cj_dist_covariance(d), *a = F64(c, CJ_SHAPE(3), 0.3, -1, 0.7);
        assert_near(distance(cj_cov(x), s), 0, 0.08);
        cj_tensor *across = cj_matmul(x, a), *m = cj_dot(cj_dist_mean(d), a), *v = cj_dot(a, cj_matmul(s, a));
        assert_true(kolmogorov(cj_dist_normal(m, cj_sqrt(v)), across) < 1.95);
        for (int i = 0; i < 3; i++) {
            const cj_dist one = cj_dist_normal(cj_select(cj_dist_mean(d), 0, i), cj_sqrt(cj_select(cj_dist_variance(d), 0, i)));
            assert_true(kolmogorov(one, cj_select(x, 1, i)) < 1.95);
        }
        /* the distance to the mean follows chi-square with 3 degrees of freedom: Gamma(3/2, 1/2) */
        cj_tensor *apart = cj_mul_scalar(cj_sub(cj_dist_log_prob(d, x), cj_dist_log_prob(d, cj_dist_mean(d))), -2);
        assert_true(kolmogorov(cj_dist_gamma(F64(c, CJ_SCALAR, 1.5), F64(c, CJ_SCALAR, 0.5)), apart) < 1.95);
        assert_ok(c);
    }
    cj_tensor *x = cj_dist_sample(many(c), CJ_SHAPE(20000)); /* [20000, 4, 3] */
    assert_int_equal(cj_size(x, 1), 4);
    for (int k = 0; k < 4; k++) assert_near(distance(cj_cov(cj_select(x, 1, k)), cj_select(cj_dist_covariance(many(c)), 0, k)), 0, 0.3);
}

static void bits_do_not_depend_on_the_machine(void **state)
{
    (void)state;
    static const char *const levels[] = { "portable", "avx2", "avx512" };
    cj_tensor *want[6] = { 0 };
    cj_ctx *first = NULL;
    for (int l = 0; l < 3; l++)
        for (int threads = 1; threads <= 2; threads++) {
            cj_ctx *k = cj_ctx_new(&(cj_ctx_opts){ .isa = levels[l], .threads = threads, .seed = 9 });
            if (!cj_ok(k)) { /* not on this machine */
                cj_ctx_free(k);
                continue;
            }
            for (int i = 0; i < 6; i++) {
                cj_dist d = i % 3 == 0 ? cj_dist_multivariate_normal(f64(k, mean, CJ_SHAPE(3)), f64(k, cov, CJ_SHAPE(3, 3)), CJ_SCALE_TRIL)
                            : i % 3 == 1
                                ? thin(k)
                                : cj_dist_multivariate_normal(f64(k, mean, CJ_SHAPE(3)),
                                                              cj_expand(f64(k, cov, CJ_SHAPE(3, 3)), CJ_SHAPE(7, 3, 3)), CJ_SCALE_TRIL);
                for (int p = 0; p < 3 && i < 3; p++)
                    if (d.p[p]) d.p[p] = cj_cast(d.p[p], CJ_F32);
                cj_tensor *x = cj_dist_sample(d, CJ_SHAPE(500));
                assert_ok(k);
                if (!first) want[i] = x;
                else if (!same_bits(x, want[i])) fail_msg("sample %d differs at %s with %d threads", i, levels[l], threads);
            }
            if (!first) first = k;
            else cj_ctx_free(k);
        }
    cj_ctx_free(first);
}

/* x, mean and a root w of the covariance w·wᵀ + 1. */
static cj_tensor *function_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    const int kind = *(int *)user;
    cj_tensor *eye = cj_eye(ctx, 3, CJ_F64), *s = cj_add(cj_matmul(in[2], cj_t(in[2])), eye);
    const cj_dist a = cj_dist_multivariate_normal(in[1], s, kind == 1 ? CJ_PRECISION : CJ_COVARIANCE);
    const cj_dist b = cj_dist_low_rank_normal(in[0], in[2], cj_add_scalar(cj_square(in[1]), 1));
    switch (kind) {
    case 0:
    case 1: return cj_dist_log_prob(a, in[0]);
    case 2: return cj_dist_log_prob(b, in[1]);
    case 3: return cj_dist_kl(a, b);
    case 4: return cj_dist_kl(b, a);
    case 5: return cj_dist_entropy(b);
    case 6: return cj_dist_mgf(b, cj_mul_scalar(in[1], 0.3));
    case 7: return cj_dist_log_prob(cj_gaussian_conditional(a, 2, cj_slice(in[0], 0, 2, 3, 1)), cj_slice(in[0], 0, 0, 2, 1));
    default: /* the same noise every time */ cj_seed(ctx, 3); return cj_sum(cj_square(cj_dist_sample(kind == 8 ? a : b, CJ_SHAPE(4))));
    }
}
static void derivatives(void **state)
{
    (void)state;
    for (int kind = 0; kind < 10; kind++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[] = { F64(c, CJ_SHAPE(3), 0.4, -0.2, 0.9), F64(c, CJ_SHAPE(3), 0.5, 1, -0.7),
                            F64(c, CJ_SHAPE(3, 3), 0.6, 0.1, 0.2, -0.3, 0.8, 0.5, 0.1, -0.4, 0.7) };
        cj_gradcheck_result r = cj_gradcheck(c, function_of, &kind, in, 3, .second_order = true, .tolerance = 1e-5);
        if (!r.ok) fail_msg("kind %d: %s %s", kind, r.what, cj_message(c));
        cj_scope_close(s);
    }
}

/* Both forms of one law say the same, and three forms of the matrix too. */
static void forms_agree(void **state)
{
    (void)state;
    const cj_dist t = thin(c), f = cj_dist_multivariate_normal(t.p[0], cj_dist_covariance(t), CJ_COVARIANCE);
    const cj_dist p = cj_dist_multivariate_normal(t.p[0], cj_inverse(cj_dist_covariance(t)), CJ_PRECISION);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(6, 3), .dtype = CJ_F64), *u = F64(c, CJ_SHAPE(2, 3), 0.1, 0.2, -0.3, 0, 0.5, 0.2);
    assert_near(distance(cj_dist_log_prob(t, x), cj_dist_log_prob(f, x)), 0, 1e-12);
    assert_near(distance(cj_dist_log_prob(p, x), cj_dist_log_prob(f, x)), 0, 1e-12);
    assert_near(distance(p.p[1], f.p[1]), 0, 1e-12);
    assert_near(cj_item(cj_dist_kl(t, f)), 0, 1e-12);
    assert_near(cj_item(cj_dist_kl(f, t)), 0, 1e-12);
    assert_near(cj_item(cj_sub(cj_dist_entropy(t), cj_dist_entropy(f))), 0, 1e-12);
    assert_near(distance(cj_dist_mgf(t, u), cj_dist_mgf(f, u)), 0, 1e-12);
    /* a mixture of one component is the component; of two, samples come from both */
    cj_tensor *two = F64(c, CJ_SHAPE(2, 3), 1, -2, 0.5, 9, 9, 9);
    const cj_dist m =
        cj_dist_mixture(F64(c, CJ_SHAPE(2), log(0.25), log(0.75)), cj_dist_multivariate_normal(two, cj_dist_covariance(t), CJ_COVARIANCE));
    cj_tensor *far = cj_dist_sample(m, CJ_SHAPE(20000));
    assert_int_equal(cj_ndim(far), 2);
    assert_near(cj_item(cj_mean(cj_select(far, 1, 0))), 0.25 * 1 + 0.75 * 9, 0.1);
    assert_near(distance(cj_mean(far, .axes = CJ_AXIS(0)), cj_dist_mean(m)), 0, 0.15);
    assert_near(distance(cj_var(far, .axes = CJ_AXIS(0)), cj_dist_variance(m)), 0, 0.5);
}

static void bad_input_is_named(void **state)
{
    (void)state;
    cj_tensor *m = f64(c, mean, CJ_SHAPE(3)), *s = f64(c, cov, CJ_SHAPE(3, 3)), *w = f64(c, factor, CJ_SHAPE(3, 2)),
              *v = f64(c, diagonal, CJ_SHAPE(3));
    assert_refused(CJ_EVALUE, "pivot 2", cj_dist_multivariate_normal(m, F64(c, CJ_SHAPE(3, 3), 1, 0, 0, 0, -1, 0, 0, 0, 1), CJ_COVARIANCE));
    assert_refused(CJ_EVALUE, "multivariate_normal: covariance element 4: a finite number is expected, found nan",
                   cj_dist_multivariate_normal(m, F64(c, CJ_SHAPE(3, 3), 1, 0, 0, 0, NAN, 0, 0, 0, 1), CJ_COVARIANCE));
    assert_refused(CJ_EVALUE, "multivariate_normal: diagonal of scale_tril element 1: a positive number is expected, found -1",
                   cj_dist_multivariate_normal(m, F64(c, CJ_SHAPE(3, 3), 1, 0, 0, 0, -1, 0, 0, 0, 1), CJ_SCALE_TRIL));
    assert_refused(CJ_ESHAPE, "multivariate_normal: loc [.., d] and precision [.., d, d] are expected, found",
                   cj_dist_multivariate_normal(m, cj_eye(c, 2, CJ_F64), CJ_PRECISION));
    assert_refused(CJ_EVALUE, "multivariate_normal: form 7 is none of", cj_dist_multivariate_normal(m, s, (cj_matrix_form)7));
    assert_refused(CJ_EVALUE, "low_rank_normal: diagonal element 0: a positive number is expected, found -0.5",
                   cj_dist_low_rank_normal(m, w, cj_neg(v)));
    assert_refused(CJ_ESHAPE, "low_rank_normal: loc [.., d], factor [.., d, r] and diagonal [.., d] are expected",
                   cj_dist_low_rank_normal(m, v, v));
    assert_refused(CJ_ESHAPE, "kl: two Gaussians of one dimension are expected, found 3 and 2",
                   cj_dist_kl(full(c), cj_dist_multivariate_normal(F64(c, CJ_SHAPE(2), 0, 0), cj_eye(c, 2, CJ_F64), CJ_COVARIANCE)));
    assert_refused(CJ_EVALUE, "gaussian_marginal: coordinates 2 to 3 are not among 3", cj_gaussian_marginal(full(c), 2, 4));
    assert_refused(CJ_ESHAPE, "gaussian_conditional: values of the last 2 coordinates are expected",
                   cj_gaussian_conditional(full(c), 1, m));
    assert_refused(CJ_EVALUE, "gaussian_marginal: a multivariate or low-rank normal is expected, found normal",
                   cj_gaussian_marginal(cj_dist_normal(m, v), 0, 1));
    assert_refused(CJ_EVALUE, "covariance: there is no closed form for gamma", cj_dist_covariance(cj_dist_gamma(v, v)));
    assert_refused(CJ_EVALUE, "cdf: there is no closed form for multivariate_normal", cj_dist_cdf(full(c), m));
    assert_null(cj_dist_multivariate_normal(NULL, NULL, CJ_COVARIANCE).p[0]);
    assert_null(cj_dist_low_rank_normal(NULL, NULL, NULL).p[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_have_the_law), cmocka_unit_test(bits_do_not_depend_on_the_machine),
        cmocka_unit_test(derivatives),          cmocka_unit_test(forms_agree),
        cmocka_unit_test(bad_input_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
