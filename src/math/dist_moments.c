/* Moments, entropies and moment generating functions in closed form. */
#include <math.h>

#include "math/dist.h"

static cj_tensor *one_minus(cj_tensor *x) { return cj_add_scalar(cj_neg(x), 1); }
static cj_tensor *ratio(cj_tensor *a, cj_tensor *b) { return cj_div(a, cj_add(a, b)); }
/* sum over the components of weight · x; x has their axis, of vectors in front of the last. */
static cj_tensor *weighted(const cj_dist *d, cj_tensor *x) { return cj__last_sum(cj_mul(cj_exp(d->weights), x)); }
static cj_tensor *weighted_outcomes(const cj_dist *d, cj_tensor *x)
{
    if (!cj__dists[d->kind].vector) return weighted(d, x);
    return cj_sum(cj_mul(cj_exp(cj_unsqueeze(d->weights, -1)), x), &(cj_reduce_opts){ .axes = CJ_AXIS(-2) });
}
/* x in the shape of the whole batch: a mean that is one of two parameters broadcasts to the other. */
static cj_tensor *with(cj_tensor *x, cj_tensor *other) { return cj_add(x, cj_mul_scalar(other, 0)); }

cj_tensor *(cj_dist_mean)(cj_dist d)
{
    if (!cj__dist_ctx(&d, "mean")) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return weighted_outcomes(&d, (cj_dist_mean)(cj__dist_component(&d)));
    if (d.exp) return (cj_dist_mgf)(cj__dist_inner(&d), cj__const_like(d.p[0], 1)); /* E e^X */
    if (d.shift) return cj_add(d.shift, cj_mul(d.factor, (cj_dist_mean)(cj__dist_inner(&d))));
    cj_tensor *a = d.p[0], *b = d.p[1];
    switch (d.kind) {
    case CJ_DIST_NORMAL:
    case CJ_DIST_LAPLACE:
    case CJ_DIST_LOGISTIC:
    case CJ_DIST_VON_MISES:
    case CJ_DIST_DIAGONAL_NORMAL: return with(a, b);
    case CJ_DIST_GUMBEL: return cj_add(a, cj_mul_scalar(b, CJ_EULER));
    case CJ_DIST_STUDENT_T: return cj__else(cj_gt_scalar(with(d.p[2], b), 1), with(a, with(b, d.p[2])), NAN);
    case CJ_DIST_UNIFORM: return cj_mul_scalar(cj_add(a, b), 0.5);
    case CJ_DIST_EXPONENTIAL: return cj_reciprocal(a);
    case CJ_DIST_GAMMA: return cj_div(a, b);
    case CJ_DIST_BETA: return ratio(a, b);
    case CJ_DIST_BERNOULLI:
    case CJ_DIST_POISSON: return a;
    case CJ_DIST_BINOMIAL: return cj_mul(a, b);
    case CJ_DIST_DIRICHLET: return cj_div(a, cj_unsqueeze(cj__last_sum(a), -1));
    case CJ_DIST_MULTINOMIAL: return cj_mul_scalar(cj_exp(a), (double)d.count);
    case CJ_DIST_MULTIVARIATE_NORMAL:
    case CJ_DIST_LOW_RANK_NORMAL: return cj_add(a, cj_mul_scalar(cj__last_sum(b), 0));
    default: return cj__dist_none(&d, "mean");
    }
}

cj_tensor *(cj_dist_variance)(cj_dist d)
{
    if (!cj__dist_ctx(&d, "variance")) return CJ_POISON_OF(d.p[0]);
    if (d.weights) { /* E[V + m²] - (E m)² */
        cj_tensor *m = (cj_dist_mean)(cj__dist_component(&d)), *v = (cj_dist_variance)(cj__dist_component(&d)),
                  *all = cj__dist_apart(&d, weighted_outcomes(&d, m));
        return weighted_outcomes(&d, cj_add(v, cj_square(cj_sub(m, all))));
    }
    if (d.exp) {
        const cj_dist in = cj__dist_inner(&d);
        return cj_sub((cj_dist_mgf)(in, cj__const_like(d.p[0], 2)), cj_square((cj_dist_mgf)(in, cj__const_like(d.p[0], 1))));
    }
    if (d.shift) return cj_mul(cj_square(d.factor), (cj_dist_variance)(cj__dist_inner(&d)));
    cj_tensor *a = d.p[0], *b = d.p[1];
    switch (d.kind) {
    case CJ_DIST_NORMAL:
    case CJ_DIST_DIAGONAL_NORMAL: return cj_square(with(b, a));
    case CJ_DIST_LAPLACE: return cj_mul_scalar(cj_square(with(b, a)), 2);
    case CJ_DIST_LOGISTIC: return cj_mul_scalar(cj_square(with(b, a)), M_PI * M_PI / 3);
    case CJ_DIST_GUMBEL: return cj_mul_scalar(cj_square(with(b, a)), M_PI * M_PI / 6);
    case CJ_DIST_STUDENT_T: { /* b² v/(v - 2), infinite down to v = 1, undefined below */
        cj_tensor *v = with(d.p[2], with(a, b)), *some = cj_gt_scalar(v, 2), *u = cj__else(some, v, 3);
        return cj__else(cj_gt_scalar(v, 1), cj__else(some, cj_mul(cj_square(b), cj_div(u, cj_add_scalar(u, -2))), INFINITY), NAN);
    }
    case CJ_DIST_UNIFORM: return cj_mul_scalar(cj_square(cj_sub(b, a)), 1.0 / 12);
    case CJ_DIST_EXPONENTIAL: return cj_reciprocal(cj_square(a));
    case CJ_DIST_GAMMA: return cj_div(a, cj_square(b));
    case CJ_DIST_BETA: return cj_div(cj_mul(ratio(a, b), ratio(b, a)), cj_add_scalar(cj_add(a, b), 1));
    case CJ_DIST_VON_MISES: return one_minus(cj_div(cj_bessel_i1e(with(b, a)), cj_bessel_i0e(b))); /* circular: 1 - |E e^iX| */
    case CJ_DIST_BERNOULLI: return cj_mul(a, one_minus(a));
    case CJ_DIST_BINOMIAL: return cj_mul(a, cj_mul(b, one_minus(b)));
    case CJ_DIST_POISSON: return a;
    case CJ_DIST_DIRICHLET: {
        cj_tensor *all = cj_unsqueeze(cj__last_sum(a), -1), *m = cj_div(a, all);
        return cj_div(cj_mul(m, one_minus(m)), cj_add_scalar(all, 1));
    }
    case CJ_DIST_MULTINOMIAL: return cj_mul_scalar(cj_mul(cj_exp(a), one_minus(cj_exp(a))), (double)d.count);
    case CJ_DIST_MULTIVARIATE_NORMAL:
    case CJ_DIST_LOW_RANK_NORMAL: return cj__gaussian_variance(&d);
    default: return cj__dist_none(&d, "variance");
    }
}

cj_tensor *(cj_dist_entropy)(cj_dist d)
{
    if (!cj__dist_ctx(&d, "entropy")) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return cj__dist_none(&d, "entropy");
    if (d.exp) return cj_add((cj_dist_entropy)(cj__dist_inner(&d)), (cj_dist_mean)(cj__dist_inner(&d)));
    if (d.shift) return cj_add((cj_dist_entropy)(cj__dist_inner(&d)), cj_log(cj_abs(d.factor)));
    if (cj__dist_is_gaussian(&d)) return cj__gaussian_entropy(&d);
    cj_tensor *a = d.p[0], *b = d.p[1], *log_scale = b ? cj_log(with(b, a)) : NULL;
    switch (d.kind) {
    case CJ_DIST_NORMAL: return cj_add_scalar(log_scale, 0.5 + 0.5 * CJ_LOG_2PI);
    case CJ_DIST_DIAGONAL_NORMAL: return cj__last_sum(cj_add_scalar(log_scale, 0.5 + 0.5 * CJ_LOG_2PI));
    case CJ_DIST_LAPLACE: return cj_add_scalar(log_scale, 1 + M_LN2);
    case CJ_DIST_GUMBEL: return cj_add_scalar(log_scale, 1 + CJ_EULER);
    case CJ_DIST_LOGISTIC: return cj_add_scalar(log_scale, 2);
    case CJ_DIST_STUDENT_T: { /* (v+1)/2 (psi((v+1)/2) - psi(v/2)) + log(sqrt(v) B(v/2, 1/2)) */
        cj_tensor *v = d.p[2], *half = cj_mul_scalar(v, 0.5), *up = cj_add_scalar(half, 0.5);
        cj_tensor *h = cj_mul(up, cj_sub(cj_digamma(up), cj_digamma(half)));
        return cj_add(cj_add(h, cj_mul_scalar(cj_log(v), 0.5)), cj_add(cj_lbeta(half, cj__const_like(half, 0.5)), log_scale));
    }
    case CJ_DIST_UNIFORM: return cj_log(cj_sub(b, a));
    case CJ_DIST_EXPONENTIAL: return one_minus(cj_log(a));
    case CJ_DIST_GAMMA: return cj_add(cj_sub(cj_add(a, cj_lgamma(a)), log_scale), cj_mul(one_minus(a), cj_digamma(a)));
    case CJ_DIST_BETA: {
        cj_tensor *all = cj_add(a, b);
        cj_tensor *inner = cj_add(cj_mul(cj_add_scalar(a, -1), cj_digamma(a)), cj_mul(cj_add_scalar(b, -1), cj_digamma(b)));
        return cj_add(cj_sub(cj_lbeta(a, b), inner), cj_mul(cj_add_scalar(all, -2), cj_digamma(all)));
    }
    case CJ_DIST_VON_MISES: { /* log(2 pi I0) - k I1/I0 */
        cj_tensor *i0 = cj_bessel_i0e(with(b, a)), *r = cj_div(cj_bessel_i1e(b), i0);
        return cj_add_scalar(cj_add(cj_log(i0), cj_mul(b, one_minus(r))), CJ_LOG_2PI);
    }
    case CJ_DIST_BERNOULLI: return cj_neg(cj_add(cj_xlogy(a, a), cj_xlogy(one_minus(a), one_minus(a))));
    case CJ_DIST_DIRICHLET: {
        cj_tensor *all = cj__last_sum(a), *k = cj_add_scalar(all, -(double)a->shape[a->ndim - 1]);
        cj_tensor *norm = cj_sub(cj__last_sum(cj_lgamma(a)), cj_lgamma(all));
        return cj_sub(cj_add(norm, cj_mul(k, cj_digamma(all))), cj__last_sum(cj_mul(cj_add_scalar(a, -1), cj_digamma(a))));
    }
    case CJ_DIST_CATEGORICAL: return cj_entropy(cj_exp(a));
    default: return cj__dist_none(&d, "entropy");
    }
}

/* sinh(x) / x, by its series near 0. */
static cj_tensor *sinh_over(cj_tensor *x)
{
    cj_tensor *far = cj_gt_scalar(cj_abs(x), 0.1), *y = cj__else(far, x, 1), *z = cj_square(cj__else(cj_logical_not(far), x, 0));
    cj_tensor *series = cj_add_scalar(cj_mul_scalar(z, 1.0 / 362880), 1.0 / 5040);
    const double c[] = { 1.0 / 120, 1.0 / 6, 1 };
    for (int i = 0; i < 3; i++) series = cj_add_scalar(cj_mul(series, z), c[i]);
    return cj_where(far, cj_div(cj_mul_scalar(cj_sub(cj_exp(y), cj_exp(cj_neg(y))), 0.5), y), series);
}

cj_tensor *(cj_dist_mgf)(cj_dist d, cj_tensor *t)
{
    cj_ctx *c = cj__dist_ctx(&d, "mgf");
    if (!c || !cj__usable(c, "mgf", 1, t)) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return weighted(&d, (cj_dist_mgf)(cj__dist_component(&d), cj__dist_apart(&d, t)));
    if (d.exp) return cj__dist_none(&d, "mgf");
    if (d.shift) return cj_mul(cj_exp(cj_mul(d.shift, t)), (cj_dist_mgf)(cj__dist_inner(&d), cj_mul(d.factor, t)));
    if (cj__dist_is_gaussian(&d)) return cj__gaussian_mgf(&d, t);
    cj_tensor *a = d.p[0], *b = d.p[1], *s = b ? cj_mul(b, t) : NULL, *at = cj_mul(a, t), *in;
    switch (d.kind) {
    case CJ_DIST_NORMAL: return cj_exp(cj_add(at, cj_mul_scalar(cj_square(s), 0.5)));
    case CJ_DIST_DIAGONAL_NORMAL: return cj_exp(cj__last_sum(cj_add(at, cj_mul_scalar(cj_square(s), 0.5))));
    case CJ_DIST_LAPLACE:
        in = cj_lt_scalar(cj_abs(s), 1);
        return cj__else(in, cj_div(cj_exp(at), one_minus(cj_square(cj__else(in, s, 0)))), INFINITY);
    case CJ_DIST_GUMBEL:
        in = cj_lt_scalar(s, 1);
        return cj__else(in, cj_exp(cj_add(at, cj_lgamma(one_minus(cj__else(in, s, 0))))), INFINITY);
    case CJ_DIST_LOGISTIC: /* pi s t / sin(pi s t) */
        in = cj_lt_scalar(cj_abs(s), 1);
        return cj__else(in, cj_div(cj_exp(at), cj_sinc(cj__else(in, s, 0))), INFINITY);
    case CJ_DIST_UNIFORM: return cj_mul(cj_exp(cj_mul_scalar(cj_add(at, s), 0.5)), sinh_over(cj_mul_scalar(cj_sub(s, at), 0.5)));
    case CJ_DIST_EXPONENTIAL:
    case CJ_DIST_GAMMA: { /* (1 - t/rate)^-a */
        cj_tensor *rate = d.kind == CJ_DIST_GAMMA ? b : a, *r = cj_div(t, rate);
        in = cj_lt_scalar(r, 1);
        cj_tensor *l = cj_neg(cj_log1p(cj_neg(cj__else(in, r, 0))));
        return cj__else(in, cj_exp(d.kind == CJ_DIST_GAMMA ? cj_mul(a, l) : l), INFINITY);
    }
    case CJ_DIST_BERNOULLI: return cj_add_scalar(cj_mul(a, cj_expm1(t)), 1);
    case CJ_DIST_BINOMIAL: return cj_exp(cj_mul(a, cj_log1p(cj_mul(b, cj_expm1(t)))));
    case CJ_DIST_POISSON: return cj_exp(cj_mul(a, cj_expm1(t)));
    case CJ_DIST_MULTINOMIAL: /* (sum_k p_k e^t_k)^n */
        return cj_exp(cj_mul_scalar(cj_logsumexp(cj_add(a, t), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }), (double)d.count));
    default: return cj__dist_none(&d, "mgf");
    }
}
