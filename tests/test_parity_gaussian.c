/* Parity with torch.distributions and SciPy: correlated Gaussians, divergences between kinds, quantiles.  Reference values: tests/fixtures/gaussian.txt, made by
 * tools/fixtures_gaussian.py. */
#include "parity.h"

#include <cajal/math.h>

/* w·wᵀ + 1, and a lower triangle with a positive diagonal. */
static cj_tensor *spd(cj_tensor *w) { return cj_add(cj_matmul(w, cj_t(w)), cj_eye(cj_tensor_ctx(w), cj_size(w, -1), CJ_F64)); }
static cj_tensor *tril(cj_tensor *w)
{
    return cj_add(cj_tril(w, -1),
                  cj_mul(cj_eye(cj_tensor_ctx(w), cj_size(w, -1), CJ_F64), cj_exp(cj_unsqueeze(cj_diagonal(w, 0, -2, -1), -1))));
}
#define FULL(m, w) cj_dist_multivariate_normal(m, spd(w), CJ_COVARIANCE)
#define THIN(m, w) cj_dist_low_rank_normal(m, w, cj_add_scalar(cj_square(m), 1))

/* clang-format off */
CASE(covariance_log_prob, cj_dist_log_prob(FULL(in[1], in[2]), in[0]))
CASE(precision_log_prob, cj_dist_log_prob(cj_dist_multivariate_normal(in[1], spd(in[2]), CJ_PRECISION), in[0]))
CASE(tril_log_prob, cj_dist_log_prob(cj_dist_multivariate_normal(in[1], tril(in[2]), CJ_SCALE_TRIL), in[0]))
CASE(covariance_entropy, cj_dist_entropy(FULL(in[0], in[1])))
CASE(covariance_variance, cj_dist_variance(FULL(in[0], in[1])))
CASE(precision_covariance, cj_dist_covariance(cj_dist_multivariate_normal(in[0], spd(in[1]), CJ_PRECISION)))
CASE(low_rank_log_prob, cj_dist_log_prob(cj_dist_low_rank_normal(in[1], in[2], in[3]), in[0]))
CASE(low_rank_entropy, cj_dist_entropy(cj_dist_low_rank_normal(in[0], in[1], in[2])))
CASE(low_rank_variance, cj_dist_variance(cj_dist_low_rank_normal(in[0], in[1], in[2])))
CASE(covariance_kl, cj_dist_kl(FULL(in[0], in[1]), FULL(in[2], in[3])))
CASE(low_rank_kl, cj_dist_kl(THIN(in[0], in[1]), THIN(in[2], in[3])))
CASE(low_rank_full_kl, cj_dist_kl(THIN(in[0], in[1]), FULL(in[2], in[3])))
CASE(full_low_rank_kl, cj_dist_kl(FULL(in[0], in[1]), THIN(in[2], in[3])))
CASE(normal_laplace_kl, cj_dist_kl(cj_dist_normal(in[0], in[1]), cj_dist_laplace(in[2], in[3])))
CASE(normal_gumbel_kl, cj_dist_kl(cj_dist_normal(in[0], in[1]), cj_dist_gumbel(in[2], in[3])))
CASE(laplace_normal_kl, cj_dist_kl(cj_dist_laplace(in[0], in[1]), cj_dist_normal(in[2], in[3])))
CASE(gumbel_normal_kl, cj_dist_kl(cj_dist_gumbel(in[0], in[1]), cj_dist_normal(in[2], in[3])))
CASE(exponential_normal_kl, cj_dist_kl(cj_dist_exponential(in[0]), cj_dist_normal(in[1], in[2])))
CASE(exponential_gumbel_kl, cj_dist_kl(cj_dist_exponential(in[0]), cj_dist_gumbel(in[1], in[2])))
CASE(exponential_gamma_kl, cj_dist_kl(cj_dist_exponential(in[0]), cj_dist_gamma(in[1], in[2])))
CASE(gamma_exponential_kl, cj_dist_kl(cj_dist_gamma(in[0], in[1]), cj_dist_exponential(in[2])))
CASE(gamma_normal_kl, cj_dist_kl(cj_dist_gamma(in[0], in[1]), cj_dist_normal(in[2], in[3])))
CASE(gamma_gumbel_kl, cj_dist_kl(cj_dist_gamma(in[0], in[1]), cj_dist_gumbel(in[2], in[3])))
CASE(beta_exponential_kl, cj_dist_kl(cj_dist_beta(in[0], in[1]), cj_dist_exponential(in[2])))
CASE(beta_gamma_kl, cj_dist_kl(cj_dist_beta(in[0], in[1]), cj_dist_gamma(in[2], in[3])))
CASE(beta_normal_kl, cj_dist_kl(cj_dist_beta(in[0], in[1]), cj_dist_normal(in[2], in[3])))
CASE(beta_uniform_kl, cj_dist_kl(cj_dist_beta(in[0], in[1]), cj_dist_uniform(in[2], in[3])))
CASE(uniform_normal_kl, cj_dist_kl(cj_dist_uniform(in[0], cj_add(in[0], in[1])), cj_dist_normal(in[2], in[3])))
CASE(uniform_gumbel_kl, cj_dist_kl(cj_dist_uniform(in[0], cj_add(in[0], in[1])), cj_dist_gumbel(in[2], in[3])))
CASE(uniform_exponential_kl, cj_dist_kl(cj_dist_uniform(in[0], cj_add(in[0], in[1])), cj_dist_exponential(in[2])))
CASE(uniform_gamma_kl, cj_dist_kl(cj_dist_uniform(in[0], cj_add(in[0], in[1])), cj_dist_gamma(in[2], in[3])))
CASE(uniform_beta_kl, cj_dist_kl(cj_dist_uniform(in[0], in[1]), cj_dist_beta(in[2], in[3])))
CASE(normal_gamma_kl, cj_dist_kl(cj_dist_normal(in[0], in[1]), cj_dist_gamma(in[2], in[3])))
CASE(bernoulli_poisson_kl, cj_dist_kl(cj_dist_bernoulli(in[0]), cj_dist_poisson(in[1])))
CASE(gaussian_mixture_log_prob, cj_dist_log_prob(cj_dist_mixture(in[1], FULL(in[2], in[3])), in[0]))
CASE(gaussian_mixture_mean, cj_dist_mean(cj_dist_mixture(in[0], FULL(in[1], in[2]))))
CASE(gaussian_mixture_variance, cj_dist_variance(cj_dist_mixture(in[0], FULL(in[1], in[2]))))
CASE(gamma_quantile, cj_dist_quantile(cj_dist_gamma(in[1], in[2]), in[0]))
CASE(beta_quantile, cj_dist_quantile(cj_dist_beta(in[1], in[2]), in[0]))
CASE(student_t_quantile, cj_dist_quantile(cj_dist_student_t(cj_zeros_like(in[1]), cj_ones_like(in[1]), in[1]), in[0]))

static const parity_row rows[] = {
    ROW(covariance_log_prob),
    ROW(precision_log_prob),
    ROW(tril_log_prob),
    ROW(covariance_entropy),
    ROW(covariance_variance),
    ROW(precision_covariance),
    ROW(low_rank_log_prob),
    ROW(low_rank_entropy),
    ROW(low_rank_variance),
    ROW(covariance_kl),
    ROW(low_rank_kl),
    ROW(low_rank_full_kl),
    ROW(full_low_rank_kl),
    ROW(normal_laplace_kl),
    ROW(normal_gumbel_kl),
    ROW(laplace_normal_kl),
    ROW(gumbel_normal_kl),
    ROW(exponential_normal_kl),
    ROW(exponential_gumbel_kl),
    ROW(exponential_gamma_kl),
    ROW(gamma_exponential_kl),
    ROW(gamma_normal_kl),
    ROW(gamma_gumbel_kl),
    ROW(beta_exponential_kl),
    ROW(beta_gamma_kl),
    ROW(beta_normal_kl),
    ROW(beta_uniform_kl),
    ROW(uniform_normal_kl),
    ROW(uniform_gumbel_kl),
    ROW(uniform_exponential_kl),
    ROW(uniform_gamma_kl),
    ROW(uniform_beta_kl),
    ROW(normal_gamma_kl),
    ROW(bernoulli_poisson_kl),
    ROW(gaussian_mixture_log_prob),
    ROW(gaussian_mixture_mean),
    ROW(gaussian_mixture_variance),
    ROW(gamma_quantile),
    ROW(beta_quantile),
    ROW(student_t_quantile),
};
/* clang-format on */

static void same_as_torch_and_scipy(void **state)
{
    (void)state;
    assert_int_equal(run_cases("gaussian.txt", rows, sizeof rows / sizeof *rows), 50);
    assert_int_equal(wrong, 0);
}
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_as_torch_and_scipy) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
