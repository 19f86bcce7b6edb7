/* Parity with torch.distributions: densities, distribution functions, moments, entropies and divergences, with their derivatives.  Reference values:
 * tests/fixtures/dist.txt, made by tools/fixtures_dist.py. */
#include "parity.h"

#include <cajal/math.h>

/* clang-format off */
CASE(normal_log_prob, cj_dist_log_prob(cj_dist_normal(in[1], in[2]), in[0]))
CASE(normal_cdf, cj_dist_cdf(cj_dist_normal(in[1], in[2]), in[0]))
CASE(normal_quantile, cj_dist_quantile(cj_dist_normal(in[1], in[2]), in[0]))
CASE(normal_entropy, cj_dist_entropy(cj_dist_normal(in[0], in[1])))
CASE(normal_variance, cj_dist_variance(cj_dist_normal(in[0], in[1])))
CASE(normal_kl, cj_dist_kl(cj_dist_normal(in[0], in[1]), cj_dist_normal(in[2], in[3])))
CASE(laplace_log_prob, cj_dist_log_prob(cj_dist_laplace(in[1], in[2]), in[0]))
CASE(laplace_cdf, cj_dist_cdf(cj_dist_laplace(in[1], in[2]), in[0]))
CASE(laplace_quantile, cj_dist_quantile(cj_dist_laplace(in[1], in[2]), in[0]))
CASE(laplace_entropy, cj_dist_entropy(cj_dist_laplace(in[0], in[1])))
CASE(laplace_variance, cj_dist_variance(cj_dist_laplace(in[0], in[1])))
CASE(laplace_kl, cj_dist_kl(cj_dist_laplace(in[0], in[1]), cj_dist_laplace(in[2], in[3])))
CASE(gumbel_log_prob, cj_dist_log_prob(cj_dist_gumbel(in[1], in[2]), in[0]))
CASE(gumbel_cdf, cj_dist_cdf(cj_dist_gumbel(in[1], in[2]), in[0]))
CASE(gumbel_quantile, cj_dist_quantile(cj_dist_gumbel(in[1], in[2]), in[0]))
CASE(gumbel_entropy, cj_dist_entropy(cj_dist_gumbel(in[0], in[1])))
CASE(gumbel_variance, cj_dist_variance(cj_dist_gumbel(in[0], in[1])))
CASE(gumbel_kl, cj_dist_kl(cj_dist_gumbel(in[0], in[1]), cj_dist_gumbel(in[2], in[3])))
CASE(student_t_log_prob, cj_dist_log_prob(cj_dist_student_t(in[1], in[2], in[3]), in[0]))
CASE(student_t_entropy, cj_dist_entropy(cj_dist_student_t(in[0], in[1], in[2])))
CASE(student_t_variance, cj_dist_variance(cj_dist_student_t(in[0], in[1], in[2])))
CASE(uniform_log_prob, cj_dist_log_prob(cj_dist_uniform(in[1], in[2]), in[0]))
CASE(exponential_log_prob, cj_dist_log_prob(cj_dist_exponential(in[1]), in[0]))
CASE(exponential_kl, cj_dist_kl(cj_dist_exponential(in[0]), cj_dist_exponential(in[1])))
CASE(gamma_log_prob, cj_dist_log_prob(cj_dist_gamma(in[1], in[2]), in[0]))
CASE(gamma_cdf, cj_dist_cdf(cj_dist_gamma(in[1], in[2]), in[0]))
CASE(gamma_entropy, cj_dist_entropy(cj_dist_gamma(in[0], in[1])))
CASE(gamma_kl, cj_dist_kl(cj_dist_gamma(in[0], in[1]), cj_dist_gamma(in[2], in[3])))
CASE(beta_log_prob, cj_dist_log_prob(cj_dist_beta(in[1], in[2]), in[0]))
CASE(beta_variance, cj_dist_variance(cj_dist_beta(in[0], in[1])))
CASE(beta_entropy, cj_dist_entropy(cj_dist_beta(in[0], in[1])))
CASE(beta_kl, cj_dist_kl(cj_dist_beta(in[0], in[1]), cj_dist_beta(in[2], in[3])))
CASE(dirichlet_log_prob, cj_dist_log_prob(cj_dist_dirichlet(in[1]), in[0]))
CASE(dirichlet_variance, cj_dist_variance(cj_dist_dirichlet(in[0])))
CASE(dirichlet_entropy, cj_dist_entropy(cj_dist_dirichlet(in[0])))
CASE(dirichlet_kl, cj_dist_kl(cj_dist_dirichlet(in[0]), cj_dist_dirichlet(in[1])))
CASE(bernoulli_log_prob, cj_dist_log_prob(cj_dist_bernoulli(in[1]), in[0]))
CASE(bernoulli_entropy, cj_dist_entropy(cj_dist_bernoulli(in[0])))
CASE(bernoulli_kl, cj_dist_kl(cj_dist_bernoulli(in[0]), cj_dist_bernoulli(in[1])))
CASE(binomial_log_prob, cj_dist_log_prob(cj_dist_binomial(in[1], in[2]), in[0]))
CASE(poisson_log_prob, cj_dist_log_prob(cj_dist_poisson(in[1]), in[0]))
CASE(poisson_kl, cj_dist_kl(cj_dist_poisson(in[0]), cj_dist_poisson(in[1])))
CASE(categorical_log_prob, cj_dist_log_prob(cj_dist_categorical(in[1]), in[0]))
CASE(categorical_entropy, cj_dist_entropy(cj_dist_categorical(in[0])))
CASE(categorical_kl, cj_dist_kl(cj_dist_categorical(in[0]), cj_dist_categorical(in[1])))
CASE(multinomial_log_prob, cj_dist_log_prob(cj_dist_multinomial(7, in[1]), in[0]))
CASE(log_normal_log_prob, cj_dist_log_prob(cj_dist_log_normal(in[1], in[2]), in[0]))
CASE(log_normal_mean, cj_dist_mean(cj_dist_log_normal(in[0], in[1])))
CASE(log_normal_variance, cj_dist_variance(cj_dist_log_normal(in[0], in[1])))
CASE(log_normal_entropy, cj_dist_entropy(cj_dist_log_normal(in[0], in[1])))
CASE(diagonal_normal_log_prob, cj_dist_log_prob(cj_dist_diagonal_normal(in[1], in[2]), in[0]))
CASE(diagonal_normal_kl, cj_dist_kl(cj_dist_diagonal_normal(in[0], in[1]), cj_dist_diagonal_normal(in[2], in[3])))
CASE(mixture_log_prob, cj_dist_log_prob(cj_dist_mixture(in[1], cj_dist_normal(in[2], in[3])), in[0]))
CASE(mixture_cdf, cj_dist_cdf(cj_dist_mixture(in[1], cj_dist_normal(in[2], in[3])), in[0]))
CASE(mixture_variance, cj_dist_variance(cj_dist_mixture(in[0], cj_dist_normal(in[1], in[2]))))

static const parity_row dists[] = {
    ROW(normal_log_prob),
    ROW(normal_cdf),
    ROW(normal_quantile),
    ROW(normal_entropy),
    ROW(normal_variance),
    ROW(normal_kl),
    ROW(laplace_log_prob),
    ROW(laplace_cdf),
    ROW(laplace_quantile),
    ROW(laplace_entropy),
    ROW(laplace_variance),
    ROW(laplace_kl),
    ROW(gumbel_log_prob),
    ROW(gumbel_cdf),
    ROW(gumbel_quantile),
    ROW(gumbel_entropy),
    ROW(gumbel_variance),
    ROW(gumbel_kl),
    ROW(student_t_log_prob),
    ROW(student_t_entropy),
    ROW(student_t_variance),
    ROW(uniform_log_prob),
    ROW(exponential_log_prob),
    ROW(exponential_kl),
    ROW(gamma_log_prob),
    ROW(gamma_cdf),
    ROW(gamma_entropy),
    ROW(gamma_kl),
    ROW(beta_log_prob),
    ROW(beta_variance),
    ROW(beta_entropy),
    ROW(beta_kl),
    ROW(dirichlet_log_prob),
    ROW(dirichlet_variance),
    ROW(dirichlet_entropy),
    ROW(dirichlet_kl),
    ROW(bernoulli_log_prob),
    ROW(bernoulli_entropy),
    ROW(bernoulli_kl),
    ROW(binomial_log_prob),
    ROW(poisson_log_prob),
    ROW(poisson_kl),
    ROW(categorical_log_prob),
    ROW(categorical_entropy),
    ROW(categorical_kl),
    ROW(multinomial_log_prob),
    ROW(log_normal_log_prob),
    ROW(log_normal_mean),
    ROW(log_normal_variance),
    ROW(log_normal_entropy),
    ROW(diagonal_normal_log_prob),
    ROW(diagonal_normal_kl),
    ROW(mixture_log_prob),
    ROW(mixture_cdf),
    ROW(mixture_variance),
};
/* clang-format on */

static void test_dists(void **state)
{
    (void)state;
    assert_int_equal(run_cases("dist.txt", dists, sizeof dists / sizeof *dists), 55);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_dists) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
