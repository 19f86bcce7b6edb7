/* Densities, distribution functions and quantiles.  A layer at a time: mixture, exp, affine, then the kind itself; location-scale kinds through z = (x - loc) / scale. */
#include <math.h>

#include "math/dist.h"

static cj_tensor *standardised(const cj_dist *d, cj_tensor *x) { return cj_div(cj_sub(x, d->p[0]), d->p[1]); }
static cj_tensor *whole(cj_tensor *x) { return cj_logical_and(cj_eq(cj_floor(x), x), cj_ge_scalar(x, 0)); }
static cj_tensor *one_minus(cj_tensor *x) { return cj_add_scalar(cj_neg(x), 1); }
static cj_tensor *factorial(cj_tensor *x) { return cj_lgamma(cj_add_scalar(x, 1)); }
/* x where the condition holds, else a harmless value: for formulas that would be NaN there and give NaN gradients. */
static cj_tensor *safe(cj_tensor *inside, cj_tensor *x, double value) { return cj__else(inside, x, value); }

/* sum over the last axis of x_k log p_k with 0·(-inf) = 0, from logs. */
static cj_tensor *picked(cj_tensor *x, cj_tensor *log_p)
{
    cj_tensor *none = cj_eq_scalar(x, 0);
    return cj__last_sum(cj_mul(x, cj_where(none, cj__const_like(log_p, 0), log_p)));
}

static cj_tensor *log_density(const cj_dist *d, cj_tensor *x)
{
    cj_tensor *a = d->p[0], *b = d->p[1], *inside;
    switch (d->kind) {
    case CJ_DIST_NORMAL:
    case CJ_DIST_DIAGONAL_NORMAL: {
        cj_tensor *l = cj_sub(cj_add_scalar(cj_mul_scalar(cj_square(standardised(d, x)), -0.5), -0.5 * CJ_LOG_2PI), cj_log(b));
        return d->kind == CJ_DIST_NORMAL ? l : cj__last_sum(l);
    }
    case CJ_DIST_LAPLACE: return cj_neg(cj_add(cj_abs(standardised(d, x)), cj_log(cj_mul_scalar(b, 2))));
    case CJ_DIST_GUMBEL: {
        cj_tensor *z = standardised(d, x);
        return cj_neg(cj_add(cj_add(z, cj_exp(cj_neg(z))), cj_log(b)));
    }
    case CJ_DIST_LOGISTIC: { /* -z - 2 log(1 + e^-z) */
        cj_tensor *z = standardised(d, x);
        return cj_sub(cj_neg(cj_add(z, cj_mul_scalar(cj_softplus(cj_neg(z)), 2))), cj_log(b));
    }
    case CJ_DIST_STUDENT_T: {
        cj_tensor *v = d->p[2], *half = cj_mul_scalar(v, 0.5), *up = cj_add_scalar(half, 0.5);
        cj_tensor *constant = cj_sub(cj_sub(cj_lgamma(up), cj_lgamma(half)), cj_mul_scalar(cj_log(cj_mul_scalar(v, M_PI)), 0.5));
        return cj_sub(cj_sub(constant, cj_mul(up, cj_log1p(cj_div(cj_square(standardised(d, x)), v)))), cj_log(b));
    }
    case CJ_DIST_UNIFORM:
        inside = cj_logical_and(cj_ge(x, a), cj_le(x, b));
        return cj__else(inside, cj_neg(cj_log(cj_sub(b, a))), -INFINITY);
    case CJ_DIST_EXPONENTIAL:
        inside = cj_ge_scalar(x, 0);
        return cj__else(inside, cj_sub(cj_log(a), cj_mul(a, safe(inside, x, 1))), -INFINITY);
    case CJ_DIST_GAMMA: {
        inside = cj_gt_scalar(x, 0);
        cj_tensor *y = safe(inside, x, 1);
        cj_tensor *l = cj_sub(cj_sub(cj_add(cj_mul(a, cj_log(b)), cj_mul(cj_add_scalar(a, -1), cj_log(y))), cj_mul(b, y)), cj_lgamma(a));
        return cj__else(inside, l, -INFINITY);
    }
    case CJ_DIST_BETA: {
        inside = cj_logical_and(cj_gt_scalar(x, 0), cj_lt_scalar(x, 1));
        cj_tensor *y = safe(inside, x, 0.5),
                  *l = cj_add(cj_mul(cj_add_scalar(a, -1), cj_log(y)), cj_mul(cj_add_scalar(b, -1), cj_log1p(cj_neg(y))));
        return cj__else(inside, cj_sub(l, cj_lbeta(a, b)), -INFINITY);
    }
    case CJ_DIST_VON_MISES: /* k (cos - 1) - log(2 pi e^-k I0(k)) */
        return cj_add_scalar(cj_sub(cj_mul(b, cj_add_scalar(cj_cos(cj_sub(x, a)), -1)), cj_log(cj_bessel_i0e(b))), -CJ_LOG_2PI);
    case CJ_DIST_BERNOULLI:
        inside = cj_logical_or(cj_eq_scalar(x, 0), cj_eq_scalar(x, 1));
        x = safe(inside, x, 0);
        return cj__else(inside, cj_add(cj_xlogy(x, a), cj_xlogy(one_minus(x), one_minus(a))), -INFINITY);
    case CJ_DIST_BINOMIAL: {
        inside = cj_logical_and(whole(x), cj_le(x, a));
        cj_tensor *y = safe(inside, x, 0), *rest = cj_sub(a, y);
        cj_tensor *ways = cj_sub(cj_sub(factorial(a), factorial(y)), factorial(rest));
        return cj__else(inside, cj_add(ways, cj_add(cj_xlogy(y, b), cj_xlogy(rest, one_minus(b)))), -INFINITY);
    }
    case CJ_DIST_POISSON: {
        inside = whole(x);
        cj_tensor *y = safe(inside, x, 0);
        return cj__else(inside, cj_sub(cj_sub(cj_xlogy(y, a), a), factorial(y)), -INFINITY);
    }
    case CJ_DIST_DIRICHLET: {
        cj_tensor *norm = cj_sub(cj__last_sum(cj_lgamma(a)), cj_lgamma(cj__last_sum(a)));
        return cj_sub(cj__last_sum(cj_xlogy(cj_add_scalar(a, -1), x)), norm);
    }
    case CJ_DIST_MULTIVARIATE_NORMAL:
    case CJ_DIST_LOW_RANK_NORMAL: return cj__gaussian_log_prob(d, x);
    default: /* multinomial */ return cj_add(cj_sub(factorial(cj__last_sum(x)), cj__last_sum(factorial(x))), picked(x, a));
    }
}

/* log p_x of whole numbers x; out of range is -INFINITY. */
static cj_tensor *categorical_log_prob(cj_tensor *log_p, cj_tensor *x)
{
    cj_ctx *c = log_p->ctx;
    const int64_t n = log_p->shape[log_p->ndim - 1];
    cj_tensor *k = cj_arange(c, 0, (double)n, 1, (cj_dtype)x->dtype), *hit = cj_eq(cj_unsqueeze(x, -1), k);
    return cj_logsumexp(cj_where(hit, log_p, cj__const_like(log_p, -INFINITY)), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}

static cj_ctx *ready(const cj_dist *d, const char *what, cj_tensor **x)
{
    cj_ctx *c = cj__dist_ctx(d, what);
    if (!c || !cj__usable(c, what, 1, *x)) return NULL;
    if (!cj_dtype_is_float((cj_dtype)(*x)->dtype) && d->kind != CJ_DIST_CATEGORICAL) *x = cj_cast(*x, (cj_dtype)d->p[0]->dtype);
    return c;
}

cj_tensor *(cj_dist_log_prob)(cj_dist d, cj_tensor *x)
{
    if (!ready(&d, "log_prob", &x)) return CJ_POISON_OF(d.p[0]);
    if (d.kind == CJ_DIST_CATEGORICAL) return categorical_log_prob(d.p[0], x);
    if (d.weights)
        return cj_logsumexp(cj_add(d.weights, (cj_dist_log_prob)(cj__dist_component(&d), cj__dist_apart(&d, x))),
                            &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
    if (d.exp) { /* p(log y) / y */
        cj_tensor *inside = cj_gt_scalar(x, 0), *l = cj_log(safe(inside, x, 1));
        return cj__else(inside, cj_sub((cj_dist_log_prob)(cj__dist_inner(&d), l), l), -INFINITY);
    }
    if (d.shift) return cj_sub((cj_dist_log_prob)(cj__dist_inner(&d), cj_div(cj_sub(x, d.shift), d.factor)), cj_log(cj_abs(d.factor)));
    return log_density(&d, x);
}

/* ---- distribution functions --------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *halves(cj_tensor *z, cj_tensor *tail) /* tail = P(Z > |z|) of a symmetric law */
{
    return cj_where(cj_gt_scalar(z, 0), one_minus(tail), tail);
}

cj_tensor *(cj_dist_cdf)(cj_dist d, cj_tensor *x)
{
    if (!ready(&d, "cdf", &x)) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return cj__last_sum(cj_mul(cj_exp(d.weights), (cj_dist_cdf)(cj__dist_component(&d), cj__dist_apart(&d, x))));
    if (d.exp) {
        cj_tensor *inside = cj_gt_scalar(x, 0);
        return cj__else(inside, (cj_dist_cdf)(cj__dist_inner(&d), cj_log(safe(inside, x, 1))), 0);
    }
    if (d.shift) {
        cj_tensor *f = (cj_dist_cdf)(cj__dist_inner(&d), cj_div(cj_sub(x, d.shift), d.factor));
        return cj_where(cj_gt_scalar(d.factor, 0), f, one_minus(f));
    }
    cj_tensor *a = d.p[0], *b = d.p[1];
    switch (d.kind) {
    case CJ_DIST_NORMAL: return cj_ndtr(standardised(&d, x));
    case CJ_DIST_LAPLACE: {
        cj_tensor *z = standardised(&d, x);
        return halves(z, cj_mul_scalar(cj_exp(cj_neg(cj_abs(z))), 0.5));
    }
    case CJ_DIST_GUMBEL: return cj_exp(cj_neg(cj_exp(cj_neg(standardised(&d, x)))));
    case CJ_DIST_LOGISTIC: return cj_sigmoid(standardised(&d, x));
    case CJ_DIST_STUDENT_T: return cj_stdtr(d.p[2], standardised(&d, x));
    case CJ_DIST_UNIFORM: return cj_clamp(cj_div(cj_sub(x, a), cj_sub(b, a)), 0, 1);
    case CJ_DIST_EXPONENTIAL: return cj_neg(cj_expm1(cj_neg(cj_mul(a, cj_relu(x)))));
    case CJ_DIST_GAMMA: return cj_gammainc(a, cj_mul(b, cj_relu(x)));
    case CJ_DIST_BETA: return cj_betainc(a, b, cj_clamp(x, 0, 1));
    case CJ_DIST_BERNOULLI:
        return cj_where(cj_lt_scalar(x, 0), cj__const_like(a, 0), cj_where(cj_lt_scalar(x, 1), one_minus(a), cj__const_like(a, 1)));
    case CJ_DIST_BINOMIAL: { /* I_{1-p}(n - k, k + 1) */
        cj_tensor *k = cj_floor(x), *below = cj_lt_scalar(k, 0), *all = cj_ge(k, a), *in = cj_logical_not(cj_logical_or(below, all));
        cj_tensor *y = safe(in, k, 0), *n = cj_where(in, a, cj__const_like(a, 1));
        cj_tensor *f = cj_betainc(cj_sub(n, y), cj_add_scalar(y, 1), one_minus(b));
        return cj_where(below, cj__const_like(a, 0), cj_where(all, cj__const_like(a, 1), f));
    }
    case CJ_DIST_POISSON: {
        cj_tensor *below = cj_lt_scalar(x, 0), *k = cj_where(below, cj__const_like(x, 0), cj_floor(x));
        return cj_where(below, cj__const_like(a, 0), cj_gammaincc(cj_add_scalar(k, 1), a));
    }
    default: return cj__dist_none(&d, "cdf");
    }
}

cj_tensor *(cj_dist_quantile)(cj_dist d, cj_tensor *u)
{
    if (!ready(&d, "quantile", &u)) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return cj__dist_none(&d, "quantile");
    if (d.exp) return cj_exp((cj_dist_quantile)(cj__dist_inner(&d), u));
    if (d.shift)
        return cj_add(d.shift,
                      cj_mul(d.factor, (cj_dist_quantile)(cj__dist_inner(&d), cj_where(cj_gt_scalar(d.factor, 0), u, one_minus(u)))));
    cj_tensor *z, *a = d.p[0], *b = d.p[1];
    switch (d.kind) {
    case CJ_DIST_NORMAL: z = cj_ndtri(u); break;
    case CJ_DIST_LAPLACE: { /* sign(v)·-log(1 - |v|), v = 2u - 1 */
        cj_tensor *v = cj_add_scalar(cj_mul_scalar(u, 2), -1);
        z = cj_neg(cj_mul(cj_sign(v), cj_log1p(cj_neg(cj_abs(v)))));
        break;
    }
    case CJ_DIST_GUMBEL: z = cj_neg(cj_log(cj_neg(cj_log(u)))); break;
    case CJ_DIST_LOGISTIC: z = cj_logit(u, NULL); break;
    case CJ_DIST_UNIFORM: return cj_add(a, cj_mul(cj_sub(b, a), u));
    case CJ_DIST_EXPONENTIAL: return cj_neg(cj_div(cj_log1p(cj_neg(u)), a));
    case CJ_DIST_GAMMA: return cj_div(cj_gammaincinv(a, u), b);
    case CJ_DIST_BETA: return cj_betaincinv(a, b, u);
    case CJ_DIST_STUDENT_T: z = cj_stdtrit(d.p[2], u); break;
    default: return cj__dist_none(&d, "quantile");
    }
    return cj_add(a, cj_mul(b, z));
}
