#!/usr/bin/env python3
"""Reference values of correlated Gaussians, divergences between kinds, and quantiles: python tools/fixtures_gaussian.py > tests/fixtures/gaussian.txt

Gaussians and divergences are torch.distributions'; the quantiles of gamma, beta and Student are SciPy's, without derivatives.
Factors of covariances are made positive definite inside of the case, so that derivatives in any entry make sense.
"""
import scipy.stats
import torch.distributions as D

from fixtures import *

D.Distribution.set_default_validate_args(False)


def pos(*shape):
    return rand(*shape, low=0.3, high=3.0)


def unit(*shape):
    return rand(*shape, low=0.1, high=0.9)


def spd(w):
    return w @ w.mT + torch.eye(w.shape[-1], dtype=w.dtype)


covariance = lambda m, w: D.MultivariateNormal(m, covariance_matrix=spd(w))
precision = lambda m, w: D.MultivariateNormal(m, precision_matrix=spd(w))
tril = lambda m, w: D.MultivariateNormal(m, scale_tril=torch.tril(w, -1) + torch.diag_embed(torch.exp(torch.diagonal(w, dim1=-2, dim2=-1))))
low_rank = lambda m, w, d: D.LowRankMultivariateNormal(m, w, d)
case("covariance_log_prob", lambda x, m, w: covariance(m, w).log_prob(x), [rand(5, 3), rand(3), rand(3, 3)])
case("covariance_log_prob", lambda x, m, w: covariance(m, w).log_prob(x), [rand(4, 2, 3), rand(3), rand(2, 3, 3)])
case("precision_log_prob", lambda x, m, w: precision(m, w).log_prob(x), [rand(5, 3), rand(3), rand(3, 3)])
case("tril_log_prob", lambda x, m, w: tril(m, w).log_prob(x), [rand(5, 3), rand(2, 1, 3), rand(3, 3)])
case("covariance_entropy", lambda m, w: covariance(m, w).entropy() + 0 * m.sum(-1), [rand(2, 3), rand(3, 3)])
case("covariance_variance", lambda m, w: covariance(m, w).variance + 0 * m, [rand(2, 3), rand(3, 3)])
case("precision_covariance", lambda m, w: precision(m, w).covariance_matrix, [rand(3), rand(3, 3)], grad=False)
case("low_rank_log_prob", lambda x, m, w, d: low_rank(m, w, d).log_prob(x), [rand(4, 5), rand(5), rand(5, 2), pos(5)])
case("low_rank_log_prob", lambda x, m, w, d: low_rank(m, w, d).log_prob(x), [rand(4, 2, 3), rand(3), rand(2, 3, 1), pos(3)])
case("low_rank_entropy", lambda m, w, d: low_rank(m, w, d).entropy() + 0 * m.sum(), [rand(5), rand(5, 2), pos(5)])
case("low_rank_variance", lambda m, w, d: low_rank(m, w, d).variance + 0 * m, [rand(5), rand(5, 2), pos(5)])
case("covariance_kl", lambda a, b, u, v: D.kl_divergence(covariance(a, b), covariance(u, v)), [rand(3), rand(3, 3), rand(2, 3), rand(3, 3)])
case("low_rank_kl", lambda a, b, u, v: D.kl_divergence(low_rank(a, b, a * a + 1), low_rank(u, v, u * u + 1)),
     [rand(4), rand(4, 2), rand(4), rand(4, 1)])
case("low_rank_full_kl", lambda a, b, u, v: D.kl_divergence(low_rank(a, b, a * a + 1), covariance(u, v)), [rand(4), rand(4, 2), rand(4), rand(4, 4)])
case("full_low_rank_kl", lambda a, b, u, v: D.kl_divergence(covariance(a, b), low_rank(u, v, u * u + 1)), [rand(4), rand(4, 4), rand(4), rand(4, 2)])

kl = D.kl_divergence
case("normal_laplace_kl", lambda a, b, u, v: kl(D.Normal(a, b), D.Laplace(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("normal_gumbel_kl", lambda a, b, u, v: kl(D.Normal(a, b), D.Gumbel(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("laplace_normal_kl", lambda a, b, u, v: kl(D.Laplace(a, b), D.Normal(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("gumbel_normal_kl", lambda a, b, u, v: kl(D.Gumbel(a, b), D.Normal(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("exponential_normal_kl", lambda a, u, v: kl(D.Exponential(a), D.Normal(u, v)), [pos(3), rand(3), pos(3)])
case("exponential_gumbel_kl", lambda a, u, v: kl(D.Exponential(a), D.Gumbel(u, v)), [pos(3), rand(3), pos(3)])
case("exponential_gamma_kl", lambda a, u, v: kl(D.Exponential(a), D.Gamma(u, v)), [pos(3), pos(3), pos(3)], hvp=False)
case("gamma_exponential_kl", lambda a, b, u: kl(D.Gamma(a, b), D.Exponential(u)), [pos(3), pos(3), pos(3)], grad=False)
case("gamma_normal_kl", lambda a, b, u, v: kl(D.Gamma(a, b), D.Normal(u, v)), [pos(3), pos(3), rand(3), pos(3)], grad=False)
case("gamma_gumbel_kl", lambda a, b, u, v: kl(D.Gamma(a, b), D.Gumbel(u, v)), [pos(3), pos(3), rand(3), pos(3)], grad=False)
case("beta_exponential_kl", lambda a, b, u: kl(D.Beta(a, b), D.Exponential(u)), [pos(3), pos(3), pos(3)], grad=False)
case("beta_gamma_kl", lambda a, b, u, v: kl(D.Beta(a, b), D.Gamma(u, v)), [pos(3), pos(3), pos(3), pos(3)], grad=False)
case("beta_normal_kl", lambda a, b, u, v: kl(D.Beta(a, b), D.Normal(u, v)), [pos(3), pos(3), rand(3), pos(3)], grad=False)
case("beta_uniform_kl", lambda a, b, u, v: kl(D.Beta(a, b), D.Uniform(u, v)), [pos(3), pos(3), t64(-1, 0, 0.5), t64(2, 1, 3)], grad=False)
case("uniform_normal_kl", lambda a, b, u, v: kl(D.Uniform(a, a + b), D.Normal(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("uniform_gumbel_kl", lambda a, b, u, v: kl(D.Uniform(a, a + b), D.Gumbel(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("uniform_exponential_kl", lambda a, b, u: kl(D.Uniform(a, a + b), D.Exponential(u)), [t64(0.5, 1, -1), pos(3), pos(3)], grad=False)
case("uniform_gamma_kl", lambda a, b, u, v: kl(D.Uniform(a, a + b), D.Gamma(u, v)), [t64(0.5, 1, -1), pos(3), pos(3), pos(3)], grad=False)
case("uniform_beta_kl", lambda a, b, u, v: kl(D.Uniform(a, b), D.Beta(u, v)), [t64(0.1, 0.25, -1), t64(0.75, 0.5, 0.5), pos(3), pos(3)], grad=False)
case("normal_gamma_kl", lambda a, b, u, v: kl(D.Normal(a, b), D.Gamma(u, v)), [rand(3), pos(3), pos(3), pos(3)], grad=False)
case("bernoulli_poisson_kl", lambda p, r: kl(D.Bernoulli(probs=p), D.Poisson(r)), [unit(3), pos(3)])
mixture = lambda l, m, w: D.MixtureSameFamily(D.Categorical(logits=l), covariance(m, w))
case("gaussian_mixture_log_prob", lambda x, l, m, w: mixture(l, m, w).log_prob(x), [rand(4, 2), rand(3), rand(3, 2), rand(3, 2, 2)])
case("gaussian_mixture_mean", lambda l, m, w: mixture(l, m, w).mean, [rand(3), rand(3, 2), rand(3, 2, 2)])
case("gaussian_mixture_variance", lambda l, m, w: mixture(l, m, w).variance, [rand(3), rand(3, 2), rand(3, 2, 2)])

p = t64(1e-12, 1e-5, 0.01, 0.2, 0.5, 0.75, 0.99, 1 - 1e-7)
for a in (0.2, 1.0, 3.7, 250.0):
    case("gamma_quantile", lambda p, a, b: torch.tensor(scipy.stats.gamma.ppf(p, a, scale=1 / b)), [p, t64(a), t64(1.5)], grad=False)
for a, b in ((0.3, 0.6), (2.5, 1.0), (40.0, 3.0), (300.0, 500.0)):
    case("beta_quantile", lambda p, a, b: torch.tensor(scipy.stats.beta.ppf(p, a, b)), [p, t64(a), t64(b)], grad=False)
for v in (1.0, 2.5, 30.0):
    case("student_t_quantile", lambda p, v: torch.tensor(scipy.stats.t.ppf(p, v)), [p, t64(v)], grad=False)
