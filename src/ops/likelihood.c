/* Negative log-likelihoods of distributions whose parameters a network puts out: -log p(y; parameters), the maximum-likelihood recipe.
 *
 * Parameters broadcast to the input, so that one learned variance and one per example are the same function.  The losses are made of public operators.
 */
#include <math.h>

#include "ops/compose.h"

#define P(i) (((const cj_loss_attrs *)attrs)->p[i])
#define CHOICE (((const cj_loss_attrs *)attrs)->choice)
#define REDUCED(expression) cj__reduced((expression), ((const cj_loss_attrs *)attrs)->reduction)
#define HALF_LOG_2PI 0.91893853320467274178

static const cj_reduce_opts last_axis = { .axes = { 1, { -1 } } };

/* ---- compositions ---------------------------------------------------------------------------------------------------------------------------------- */

/* (log v + (x - y)²/v)/2 with v = max(variance, p[0]); choice 1: plus log(2π)/2.  Inputs mean, target, variance. */
CJ_COMPOSE(gaussian_nll_loss)
{
    cj_tensor *v = cj_clamp(in[2], P(0), INFINITY);
    cj_tensor *loss = cj_mul_scalar(cj_add(cj_log(v), cj_div(cj_square(cj_sub(in[0], in[1])), v)), 0.5);
    return REDUCED(CHOICE ? cj_add_scalar(loss, HALF_LOG_2PI) : loss);
}
/* log s + ((y - m)/s)²/2 + log(2π)/2 with s = max(|scale|, p[0]): a scale of any sign, so that a network puts it out as it is.  Inputs mean, target, scale. */
CJ_COMPOSE(gaussian_scale_nll_loss)
{
    cj_tensor *s = cj_clamp(cj_abs(in[2]), P(0), INFINITY), *z = cj_div(cj_sub(in[1], in[0]), s);
    return REDUCED(cj_add_scalar(cj_add(cj_log(s), cj_mul_scalar(cj_square(z), 0.5)), HALF_LOG_2PI));
}
/* |Lᵀ(y - m)|²/2 - sum log|L_ii| + d/2·log(2π) with precision L·Lᵀ, L lower triangular: no inverse, no determinant.  Inputs mean, target [.., d], L [.., d, d]. */
CJ_COMPOSE(multivariate_gaussian_nll_loss)
{
    double d = (double)in[0]->shape[in[0]->ndim - 1];
    cj_tensor *lower = cj_tril(in[2], 0), *r = cj_unsqueeze(cj_sub(in[1], in[0]), -2); /* a row: (Lᵀr)ᵀ = rᵀL */
    cj_tensor *z = cj_squeeze(cj_matmul(r, lower), -2);
    cj_tensor *log_det = cj_sum(cj_log(cj_abs(cj_diagonal(in[2], 0, -2, -1))), &last_axis);
    cj_tensor *loss = cj_sub(cj_mul_scalar(cj_sum(cj_square(z), &last_axis), 0.5), log_det);
    return REDUCED(cj_add_scalar(loss, d * HALF_LOG_2PI));
}
/* |y - m|/b + log(2b).  Inputs mean, target, scale. */
CJ_COMPOSE(laplace_nll_loss)
{
    cj_tensor *b = cj_clamp(in[2], P(0), INFINITY);
    return REDUCED(cj_add(cj_div(cj_abs(cj_sub(in[1], in[0])), b), cj_log(cj_mul_scalar(b, 2))));
}
/* log b + z + e^-z, z = (y - m)/b.  Inputs location, target, scale. */
CJ_COMPOSE(gumbel_nll_loss)
{
    cj_tensor *b = cj_clamp(in[2], P(0), INFINITY), *z = cj_div(cj_sub(in[1], in[0]), b);
    return REDUCED(cj_add(cj_log(b), cj_add(z, cj_exp(cj_neg(z)))));
}
/* -log sum_k softmax(logits)_k N(y; m_k, s_k²) with s = max(|scale|, p[0]) (Bishop 1994).  Inputs logits, means, scales [.., K], target [..]. */
CJ_COMPOSE(mixture_nll_loss)
{
    cj_tensor *s = cj_clamp(cj_abs(in[2]), P(0), INFINITY), *z = cj_div(cj_sub(cj_unsqueeze(in[3], -1), in[1]), s);
    cj_tensor *component = cj_neg(cj_add(cj_log(s), cj_mul_scalar(cj_square(z), 0.5))); /* log density, without log(2π)/2 */
    cj_tensor *joint = cj_logsumexp(cj_add(cj_log_softmax(in[0], -1), component), &last_axis);
    return REDUCED(cj_add_scalar(cj_neg(joint), HALF_LOG_2PI));
}
/* e^x - y·x for log rates x; choice 1: x - y·log(x + p[0]) for rates; 2: plus Stirling's y·log y - y + log(2πy)/2 for log y!, where y > 1 */
CJ_COMPOSE(poisson_nll_loss)
{
    cj_tensor *x = in[0], *y = in[1];
    cj_tensor *loss = CHOICE & 1 ? cj_sub(x, cj_mul(y, cj_log(cj_add_scalar(x, P(0))))) : cj_sub(cj_exp(x), cj_mul(y, x));
    if (CHOICE & 2) {
        cj_tensor *many = cj_gt_scalar(y, 1), *t = cj_where(many, y, cj__const_like(x, 1)), *log_t = cj_log(t);
        cj_tensor *stirling = cj_add_scalar(cj_add(cj_sub(cj_mul(t, log_t), t), cj_mul_scalar(log_t, 0.5)), HALF_LOG_2PI);
        loss = cj_add(loss, cj_where(many, stirling, cj__const_like(x, 0)));
    }
    return REDUCED(loss);
}

/* Exponential families p(y; v) = h(y)·exp(y·v - psi(v)): the loss is psi(v) - y·v, its gradient psi'(v) - y = mean - y. */
static cj_tensor *log_partition(cj_tensor *v, int64_t family)
{
    switch (family) {
    case CJ_FAMILY_GAUSSIAN: return cj_mul_scalar(cj_square(v), 0.5);
    case CJ_FAMILY_BERNOULLI: return cj_softplus(v);
    case CJ_FAMILY_POISSON: return cj_exp(v);
    case CJ_FAMILY_EXPONENTIAL: return cj_neg(cj_log(cj_neg(v)));
    default: return cj_logsumexp(v, &last_axis);
    }
}
CJ_COMPOSE(exponential_family_nll)
{
    cj_tensor *score = cj_mul(in[0], in[1]);
    if (CHOICE == CJ_FAMILY_CATEGORICAL) score = cj_sum(score, &last_axis);
    return REDUCED(cj_sub(log_partition(in[0], CHOICE), score));
}
CJ_COMPOSE(exponential_family_mean)
{
    cj_tensor *v = in[0];
    switch (CHOICE) {
    case CJ_FAMILY_GAUSSIAN: return cj_mul_scalar(v, 1);
    case CJ_FAMILY_BERNOULLI: return cj_sigmoid(v);
    case CJ_FAMILY_POISSON: return cj_exp(v);
    case CJ_FAMILY_EXPONENTIAL: return cj_neg(cj_reciprocal(v));
    default: return cj_softmax(v, -1);
    }
}

/* ---- rows --------------------------------------------------------------------------------------------------------------------------------------------- */

#define COMPOSED(op_name, inputs) CJ_COMPOSITE_ROW(op_name, "likelihood", inputs, sizeof(cj_loss_attrs))

enum { GAUSSIAN, GAUSSIAN_SCALE, MULTIVARIATE, LAPLACE, GUMBEL, MIXTURE, POISSON, FAMILY_NLL, FAMILY_MEAN };
const cj_op cj__ops_likelihood[] = {
    [GAUSSIAN] = COMPOSED(gaussian_nll_loss, 3),
    [GAUSSIAN_SCALE] = COMPOSED(gaussian_scale_nll_loss, 3),
    [MULTIVARIATE] = COMPOSED(multivariate_gaussian_nll_loss, 3),
    [LAPLACE] = COMPOSED(laplace_nll_loss, 3),
    [GUMBEL] = COMPOSED(gumbel_nll_loss, 3),
    [MIXTURE] = COMPOSED(mixture_nll_loss, 4),
    [POISSON] = COMPOSED(poisson_nll_loss, 2),
    [FAMILY_NLL] = COMPOSED(exponential_family_nll, 2),
    [FAMILY_MEAN] = COMPOSED(exponential_family_mean, 1),
};
CJ_OP_TABLE(likelihood);

/* ---- the functions: defaults and checks ------------------------------------------------------------------------------------------------------------------ */

static bool broadcasts_to(const cj_tensor *t, const cj_tensor *like)
{
    int n;
    int64_t shape[CJ_MAX_DIMS];
    return cj__broadcast(like->ndim, like->shape, t->ndim, t->shape, &n, shape) && n == like->ndim &&
           memcmp(shape, like->shape, (size_t)n * sizeof *shape) == 0;
}
/* Location, target and a scale: location and scale broadcast to the target. */
static cj_tensor *location_scale(int row, cj_tensor *location, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *o,
                                 double floor)
{
    const char *op = cj__ops_likelihood[row].name;
    cj_loss_attrs a = { o ? (int64_t)o->reduction : CJ_MEAN, o && o->full, { cj__option(o ? o->eps : 0, floor) } };
    cj_tensor *in[3] = { location, target, scale };
    if (!cj__given(op, in, 3) || !cj__loss_inputs(op, &target, 1, a.reduction)) return cj__poison_of(in, 3);
    cj_ctx *c = target->ctx;
    for (int i = 0; i < 3; i += 2)
        if (!broadcasts_to(in[i], target))
            return cj_fail(c, CJ_ESHAPE, "%s: argument %d %s does not broadcast to the target %s", op, i + 1, cj__tensor_text(in[i]),
                           cj__tensor_text(target));
    if (!(a.p[0] >= 0)) return cj_fail(c, CJ_EVALUE, "%s: eps is %g, 0 or more expected", op, a.p[0]);
    return cj__apply(&cj__ops_likelihood[row], &a, in, 3);
}
cj_tensor *cj_gaussian_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *variance, const cj_likelihood_opts *opts)
{
    return location_scale(GAUSSIAN, mean, target, variance, opts, 1e-6);
}
cj_tensor *cj_gaussian_scale_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts)
{
    return location_scale(GAUSSIAN_SCALE, mean, target, scale, opts, 1e-3);
}
cj_tensor *cj_laplace_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts)
{
    return location_scale(LAPLACE, mean, target, scale, opts, 1e-6);
}
cj_tensor *cj_gumbel_nll_loss(cj_tensor *location, cj_tensor *target, cj_tensor *scale, const cj_likelihood_opts *opts)
{
    return location_scale(GUMBEL, location, target, scale, opts, 1e-6);
}

cj_tensor *cj_multivariate_gaussian_nll_loss(cj_tensor *mean, cj_tensor *target, cj_tensor *factor, const cj_likelihood_opts *opts)
{
    const char *op = "multivariate_gaussian_nll_loss";
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { 0 } };
    cj_tensor *in[3] = { mean, target, factor };
    if (!cj__loss_inputs(op, in, 2, a.reduction)) return cj__poison_of(in, 3);
    cj_ctx *c = mean->ctx;
    if (!cj__usable(c, op, 2, factor)) return c->poison;
    int64_t d = mean->ndim ? mean->shape[mean->ndim - 1] : 0;
    bool fits = mean->ndim && factor->ndim >= 2 && factor->shape[factor->ndim - 1] == d && factor->shape[factor->ndim - 2] == d &&
                (factor->ndim == 2 || (factor->ndim == mean->ndim + 1 &&
                                       memcmp(factor->shape, mean->shape, (size_t)(mean->ndim - 1) * sizeof mean->shape[0]) == 0));
    if (!fits)
        return cj_fail(c, CJ_ESHAPE, "%s: factor %s does not fit mean %s: [.., d, d] expected", op, cj__tensor_text(factor),
                       cj__tensor_text(mean));
    return cj__apply(&cj__ops_likelihood[MULTIVARIATE], &a, in, 3);
}

cj_tensor *cj_mixture_nll_loss(cj_tensor *logits, cj_tensor *mean, cj_tensor *scale, cj_tensor *target, const cj_likelihood_opts *opts)
{
    const char *op = "mixture_nll_loss";
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { cj__option(opts ? opts->eps : 0, 1e-3) } };
    cj_tensor *in[4] = { logits, mean, scale, target };
    if (!cj__loss_inputs(op, in, 3, a.reduction)) return cj__poison_of(in, 4);
    cj_ctx *c = logits->ctx;
    if (!cj__usable(c, op, 3, target)) return c->poison;
    if (logits->ndim < 1 || target->ndim != logits->ndim - 1 || !logits->shape[logits->ndim - 1] ||
        memcmp(target->shape, logits->shape, (size_t)target->ndim * sizeof target->shape[0]) != 0)
        return cj_fail(c, CJ_ESHAPE, "%s: components %s, target %s; [.., K] and [..] expected", op, cj__tensor_text(logits),
                       cj__tensor_text(target));
    if (!(a.p[0] >= 0)) return cj_fail(c, CJ_EVALUE, "%s: eps is %g, 0 or more expected", op, a.p[0]);
    return cj__apply(&cj__ops_likelihood[MIXTURE], &a, in, 4);
}

cj_tensor *cj_poisson_nll_loss(cj_tensor *input, cj_tensor *target, const cj_poisson_opts *opts)
{
    cj_poisson_opts o = opts ? *opts : (cj_poisson_opts){ 0 };
    cj_loss_attrs a = { o.reduction, (o.rate ? 1 : 0) | (o.full ? 2 : 0), { cj__option(o.eps, 1e-8) } };
    cj_tensor *in[2] = { input, target };
    return cj__loss_inputs("poisson_nll_loss", in, 2, a.reduction) ? cj__apply(&cj__ops_likelihood[POISSON], &a, in, 2)
                                                                   : cj__poison_of(in, 2);
}

static bool family_ok(cj_tensor *v, const char *op, cj_family family)
{
    if ((int)family < CJ_FAMILY_GAUSSIAN || family > CJ_FAMILY_EXPONENTIAL)
        return cj__error(v->ctx, CJ_EVALUE, "%s: there is no family %d", op, (int)family);
    if (family == CJ_FAMILY_CATEGORICAL && v->ndim == 0) return cj__error(v->ctx, CJ_ESHAPE, "%s: a 0-d input has no classes", op);
    return true;
}
cj_tensor *cj_exponential_family_nll(cj_tensor *v, cj_tensor *target, cj_family family, const cj_loss_opts *opts)
{
    const char *op = "exponential_family_nll";
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, family, { 0 } };
    cj_tensor *in[2] = { v, target };
    if (!cj__loss_inputs(op, in, 2, a.reduction) || !family_ok(v, op, family)) return cj__poison_of(in, 2);
    return cj__apply(&cj__ops_likelihood[FAMILY_NLL], &a, in, 2);
}
cj_tensor *cj_exponential_family_mean(cj_tensor *v, cj_family family)
{
    cj_loss_attrs a = { CJ_NONE, family, { 0 } };
    if (!v) return NULL;
    if (!cj__loss_inputs("exponential_family_mean", &v, 1, CJ_NONE) || !family_ok(v, "exponential_family_mean", family))
        return v->ctx->poison;
    return cj__apply(&cj__ops_likelihood[FAMILY_MEAN], &a, &v, 1);
}
