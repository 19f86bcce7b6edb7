#!/usr/bin/env python3
"""Reference values from torch.distributions: python tools/fixtures_dist.py > tests/fixtures/dist.txt

Every case is `KIND_WHAT` with the inputs x (log_prob, cdf, icdf) and the parameters; divergences have the parameters of both.
Where a derivative needs trigamma there is none: torch.polygamma(1, x) is right to about 1e-9 only, and so is the Bessel function of VonMises.
"""
import torch.distributions as D

from fixtures import *

D.Distribution.set_default_validate_args(False)


def pos(*shape):
    return rand(*shape, low=0.3, high=3.0)


def unit(*shape):
    return rand(*shape, low=0.1, high=0.9)


locscale = {"normal": D.Normal, "laplace": D.Laplace, "gumbel": D.Gumbel}
for name, cls in locscale.items():
    case(name + "_log_prob", lambda x, a, b: cls(a, b).log_prob(x), [rand(2, 3), rand(3), pos(2, 1)])
    case(name + "_cdf", lambda x, a, b: cls(a, b).cdf(x), [rand(2, 3), rand(3), pos(3)])
    case(name + "_quantile", lambda x, a, b: cls(a, b).icdf(x), [unit(2, 3), rand(3), pos(3)], hvp=False)
    case(name + "_entropy", lambda a, b: cls(a, b).entropy(), [rand(3), pos(3)])
    case(name + "_variance", lambda a, b: cls(a, b).variance, [rand(3), pos(3)])
    case(name + "_kl", lambda a, b, u, v: D.kl_divergence(cls(a, b), cls(u, v)), [rand(3), pos(3), rand(3), pos(3)])
case("student_t_log_prob", lambda x, a, b, v: D.StudentT(v, a, b).log_prob(x), [rand(2, 3), rand(3), pos(3), pos(3)], hvp=False)
case("student_t_entropy", lambda a, b, v: D.StudentT(v, a, b).entropy() + 0 * a, [rand(3), pos(3), pos(3)], grad=False)
case("student_t_variance", lambda a, b, v: D.StudentT(v, a, b).variance, [rand(4), pos(4), t64(0.5, 1.5, 2.5, 7)], grad=False)
case("uniform_log_prob", lambda x, a, b: D.Uniform(a, a + b).log_prob(x), [t64(0.5, 7, -1), t64(0, 0, 0), t64(1, 2, 3)], hvp=False, grad=False)
case("exponential_log_prob", lambda x, r: D.Exponential(r).log_prob(x), [pos(3), pos(3)])
case("exponential_kl", lambda a, b: D.kl_divergence(D.Exponential(a), D.Exponential(b)), [pos(3), pos(3)])
case("gamma_log_prob", lambda x, a, b: D.Gamma(a, b).log_prob(x), [pos(2, 3), pos(3), pos(3)], hvp=False)
case("gamma_cdf", lambda x, a, b: D.Gamma(a, b).cdf(x), [pos(2, 3), pos(3), pos(3)], grad=False)
case("gamma_entropy", lambda a, b: D.Gamma(a, b).entropy(), [pos(3), pos(3)], grad=False)
case("gamma_kl", lambda a, b, u, v: D.kl_divergence(D.Gamma(a, b), D.Gamma(u, v)), [pos(3), pos(3), pos(3), pos(3)], grad=False)
case("beta_log_prob", lambda x, a, b: D.Beta(a, b).log_prob(x), [unit(2, 3), pos(3), pos(3)], hvp=False)
case("beta_variance", lambda a, b: D.Beta(a, b).variance, [pos(3), pos(3)])
case("beta_entropy", lambda a, b: D.Beta(a, b).entropy(), [pos(3), pos(3)], grad=False)
case("beta_kl", lambda a, b, u, v: D.kl_divergence(D.Beta(a, b), D.Beta(u, v)), [pos(3), pos(3), pos(3), pos(3)], grad=False)
case("dirichlet_log_prob", lambda x, a: D.Dirichlet(a).log_prob(x), [torch.softmax(rand(2, 4), -1), pos(2, 4)], hvp=False)
case("dirichlet_variance", lambda a: D.Dirichlet(a).variance, [pos(2, 4)])
case("dirichlet_entropy", lambda a: D.Dirichlet(a).entropy(), [pos(2, 4)], grad=False)
case("dirichlet_kl", lambda a, b: D.kl_divergence(D.Dirichlet(a), D.Dirichlet(b)), [pos(2, 4), pos(2, 4)], grad=False)
case("bernoulli_log_prob", lambda x, p: D.Bernoulli(probs=p).log_prob(x), [t64(0, 1, 1), unit(3)], grad=False)
case("bernoulli_entropy", lambda p: D.Bernoulli(probs=p).entropy(), [unit(3)])
case("bernoulli_kl", lambda p, q: D.kl_divergence(D.Bernoulli(probs=p), D.Bernoulli(probs=q)), [unit(3), unit(3)])
case("binomial_log_prob", lambda x, n, p: D.Binomial(n, probs=p).log_prob(x), [t64(0, 3, 7), t64(5, 9, 7), unit(3)], grad=False)
case("poisson_log_prob", lambda x, r: D.Poisson(r).log_prob(x), [t64(0, 3, 7), pos(3)], grad=False)
case("poisson_kl", lambda p, q: D.kl_divergence(D.Poisson(p), D.Poisson(q)), [pos(3), pos(3)])
case("categorical_log_prob", lambda x, l: D.Categorical(logits=l).log_prob(x), [ints(0, 2, 3), rand(3, 4)])
case("categorical_entropy", lambda l: D.Categorical(logits=l).entropy(), [rand(3, 4)])
case("categorical_kl", lambda a, b: D.kl_divergence(D.Categorical(logits=a), D.Categorical(logits=b)), [rand(3, 4), rand(3, 4)])
case("multinomial_log_prob", lambda x, l: D.Multinomial(7, logits=l).log_prob(x), [t64(3, 0, 2, 2), rand(4)], grad=False)
case("log_normal_log_prob", lambda x, a, b: D.LogNormal(a, b).log_prob(x), [pos(2, 3), rand(3), pos(3)])
case("log_normal_mean", lambda a, b: D.LogNormal(a, b).mean, [rand(3), unit(3)])
case("log_normal_variance", lambda a, b: D.LogNormal(a, b).variance, [rand(3), unit(3)])
case("log_normal_entropy", lambda a, b: D.LogNormal(a, b).entropy(), [rand(3), unit(3)])
case("diagonal_normal_log_prob", lambda x, a, b: D.Independent(D.Normal(a, b), 1).log_prob(x), [rand(2, 3), rand(3), pos(3)])
case("diagonal_normal_kl", lambda a, b, u, v: D.kl_divergence(D.Independent(D.Normal(a, b), 1), D.Independent(D.Normal(u, v), 1)),
     [rand(3), pos(3), rand(3), pos(3)])
mixture = lambda x, l, a, b: D.MixtureSameFamily(D.Categorical(logits=l), D.Normal(a, b))
case("mixture_log_prob", lambda x, l, a, b: mixture(x, l, a, b).log_prob(x), [rand(5), rand(3), rand(3), pos(3)])
case("mixture_cdf", lambda x, l, a, b: mixture(x, l, a, b).cdf(x), [rand(5), rand(3), rand(3), pos(3)])
case("mixture_variance", lambda l, a, b: mixture(None, l, a, b).variance, [rand(3), rand(3), pos(3)])
