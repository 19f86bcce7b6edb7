/* Least squares and its kin in closed form, written in operators: minimum-norm least squares, ridge, Bayesian regression.
 *
 * A bias is taken out by centring: with x and y minus their means the best bias is mean(y) - mean(x)·w, and penalties on w leave it alone.
 */
#include <math.h>

#include "linear/linear.h"

/* ---- what all files here share ------------------------------------------------------------------------------------------------------------------------ */

static bool matrix_ok(const char *op, cj_tensor *x)
{
    if (!x || x->ctx->error || !cj__cancel_check(x->ctx)) return false;
    cj_ctx *c = x->ctx;
    if (!cj__usable(c, op, 0, x)) return false;
    if (x->ndim != 2 || !x->numel) return cj__error(c, CJ_ESHAPE, "%s: x is %s; [examples, features] expected", op, cj__tensor_text(x));
    if (x->dtype != CJ_F32 && x->dtype != CJ_F64)
        return cj__error(c, CJ_EDTYPE, "%s: x is %s; f32 or f64 expected", op, cj_dtype_name((cj_dtype)x->dtype));
    return true;
}

bool cj__examples_check(const char *op, cj_tensor *x, cj_tensor *y)
{
    if (!matrix_ok(op, x) || !cj__usable(x->ctx, op, 1, y)) return false;
    if (y->ndim == 1 && y->shape[0] == x->shape[0]) return true;
    return cj__error(x->ctx, CJ_ESHAPE, "%s: y is %s; a number for each of the %lld rows of x expected", op, cj__tensor_text(y),
                     (long long)x->shape[0]);
}

bool cj__examples_read(cj__examples *e, const char *op, cj_tensor *x, cj_tensor *y, bool bias, int64_t more)
{
    if (!cj__examples_check(op, x, y)) return false;
    cj_ctx *c = x->ctx;
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "%s: it reads values, so a step that is captured cannot call it", op);
    *e = (cj__examples){ .c = c, .n = x->shape[0], .d = x->shape[1], .dtype = (cj_dtype)x->dtype };
    e->columns = e->d + bias;
    e->bytes = (size_t)(e->n * e->columns + e->n + more + 1) * sizeof(double);
    e->memory = cj__zalloc(c, e->bytes);
    if (!e->memory) return false;
    e->x = e->memory, e->y = e->x + e->n * e->columns, e->more = e->y + e->n;
    bool ok = cj_to_f64(x, e->x, e->n * e->d) && cj_to_f64(y, e->y, e->n);
    for (int64_t i = e->n; i-- > 0 && bias && ok;) { /* from the last row on: makes room for the ones */
        memmove(e->x + i * e->columns, e->x + i * e->d, (size_t)e->d * sizeof *e->x);
        e->x[i * e->columns + e->d] = 1;
    }
    if (ok && !(isfinite(cj__largest(e->x, e->n * e->columns)) && isfinite(cj__largest(e->y, e->n))))
        ok = cj__error(c, CJ_EVALUE, "%s: x or y has a number that is not finite", op);
    if (!ok) cj__examples_close(e);
    return ok;
}

void cj__examples_close(cj__examples *e) { cj__free(e->c, e->memory, e->bytes); }

cj_fit cj__fit_failed(const cj_tensor *x)
{
    cj_tensor *none = x ? x->ctx->poison : NULL;
    return (cj_fit){ .weight = none, .bias = none };
}

cj_fit cj__fit_of(const cj__examples *e, const double *w, int64_t k)
{
    cj_ctx *c = e->c;
    double none[1] = { 0 };
    bool bias = e->columns > e->d;
    if (c->error) return (cj_fit){ .weight = c->poison, .bias = c->poison };
    cj_tensor *weight = cj_from_f64(c, w, k ? CJ_SHAPE(e->d, k) : CJ_SHAPE(e->d)), *zero;
    if (k) zero = bias ? cj_from_f64(c, w + e->d * k, CJ_SHAPE(k)) : cj_zeros(c, CJ_SHAPE(k), CJ_F64);
    else zero = cj_from_f64(c, bias ? w + e->d : none, CJ_SCALAR);
    return (cj_fit){ .weight = cj_cast(weight, e->dtype), .bias = cj_cast(zero, e->dtype) };
}

/* ---- least squares and ridge ---------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *mean_row(cj_tensor *x) { return cj_mean(x, &(cj_reduce_opts){ .axes = CJ_AXIS(0), .keepdim = true }); }

/* (a + alpha) w = b for symmetric a + alpha, which is positive definite. */
static cj_tensor *regular_solve(cj_tensor *a, double alpha, cj_tensor *b)
{
    cj_tensor *l = cj_cholesky(cj_add(a, cj_mul_scalar(cj_eye(a->ctx, cj_size(a, 0), cj_dtype_of(a)), alpha)), NULL);
    return cj_solve_triangular(l, cj_solve_triangular(l, b, NULL), &(cj_triangular_opts){ .transpose = true });
}

static cj_fit squares(const char *op, cj_tensor *x, cj_tensor *y, double alpha, const cj_fit_opts *opts)
{
    if (!matrix_ok(op, x)) return cj__fit_failed(x);
    cj_ctx *c = x->ctx;
    if (!cj__usable(c, op, 1, y)) return cj__fit_failed(x);
    if (y->ndim < 1 || y->ndim > 2 || y->shape[0] != x->shape[0]) {
        cj__error(c, CJ_ESHAPE, "%s: y is %s; targets for each of the %lld rows of x expected", op, cj__tensor_text(y),
                  (long long)x->shape[0]);
        return cj__fit_failed(x);
    }
    bool vector = y->ndim == 1, bias = !(opts && opts->no_bias);
    cj_tensor *t = cj_cast(vector ? cj_unsqueeze(y, 1) : y, (cj_dtype)x->dtype), *mx = mean_row(x), *my = mean_row(t);
    cj_tensor *a = bias ? cj_sub(x, mx) : x, *b = bias ? cj_sub(t, my) : t;
    bool tall = x->shape[0] > 16384; /* more rows than cj_lstsq takes: the normal equations have the same solutions */
    bool ridge = alpha > 0, normal = ridge || tall;
    cj_tensor *gram = normal ? cj_matmul(cj_t(a), a) : NULL, *pull = normal ? cj_matmul(cj_t(a), b) : NULL, *w;
    if (ridge) w = regular_solve(gram, alpha, pull);
    else w = tall ? cj_lstsq(gram, pull, NULL) : cj_lstsq(a, b, NULL);
    cj_tensor *shift = bias ? cj_sub(my, cj_matmul(mx, w)) : cj_zeros_like(my);
    cj_tensor *variance = cj_mean(cj_square(cj_sub(cj_add(cj_matmul(x, w), shift), t)), &(cj_reduce_opts){ .axes = CJ_AXIS(0) });
    cj_fit f = { .weight = w, .bias = cj_squeeze(shift, 0), .variance = variance, .converged = true };
    if (vector) f.weight = cj_squeeze(w, 1), f.bias = cj_squeeze(f.bias, 0), f.variance = cj_squeeze(variance, 0);
    f.rank = c->error ? 0 : (int64_t)cj_item(cj_matrix_rank(cj_detach(tall ? gram : a), NULL));
    return c->error ? cj__fit_failed(x) : f;
}

cj_fit cj_least_squares(cj_tensor *x, cj_tensor *y, const cj_fit_opts *opts) { return squares("least_squares", x, y, 0, opts); }

cj_fit cj_ridge(cj_tensor *x, cj_tensor *y, double alpha, const cj_fit_opts *opts)
{
    if (x && !x->ctx->error && !(alpha > 0 && isfinite(alpha)))
        cj__error(x->ctx, CJ_EVALUE, "ridge: alpha %g; it must be positive and finite (0: least_squares)", alpha);
    return squares("ridge", x, y, alpha, opts);
}

cj_tensor *cj_fit_predict(const cj_fit *f, cj_tensor *x)
{
    if (!f || !matrix_ok("fit_predict", x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = x->ctx;
    if (!cj__usable(c, "fit_predict", 0, f->weight)) return c->poison;
    if (f->weight->shape[0] != x->shape[1])
        return cj_fail(c, CJ_ESHAPE, "fit_predict: x is %s, the model has %lld inputs", cj__tensor_text(x), (long long)f->weight->shape[0]);
    bool vector = f->weight->ndim == 1;
    cj_tensor *z = cj_matmul(x, vector ? cj_unsqueeze(f->weight, 1) : f->weight);
    return cj_add(vector ? cj_squeeze(z, 1) : z, f->bias);
}

/* ---- Bayesian regression ------------------------------------------------------------------------------------------------------------------------------ */

static bool positive(cj_ctx *c, const char *op, double alpha, double variance)
{
    return (alpha > 0 && variance > 0 && isfinite(alpha) && isfinite(variance)) ||
           cj__error(c, CJ_EVALUE, "%s: alpha %g and variance %g must be positive and finite", op, alpha, variance);
}

/* From the precision and precision·mean of the prior. */
static cj_posterior update(cj_tensor *precision, cj_tensor *pull, cj_tensor *x, cj_tensor *y, double variance)
{
    cj_tensor *t = cj_unsqueeze(cj_cast(y, cj_dtype_of(x)), 1);
    cj_tensor *covariance = cj_inverse(cj_add(precision, cj_mul_scalar(cj_matmul(cj_t(x), x), 1 / variance)));
    cj_tensor *mean = cj_matmul(covariance, cj_add(pull, cj_mul_scalar(cj_matmul(cj_t(x), t), 1 / variance)));
    return (cj_posterior){ .mean = cj_squeeze(mean, 1), .covariance = covariance, .variance = variance };
}

cj_posterior cj_bayes_linear(cj_tensor *x, cj_tensor *y, double alpha, double variance)
{
    cj_tensor *none = x ? x->ctx->poison : NULL;
    if (!cj__examples_check("bayes_linear", x, y) || !positive(x->ctx, "bayes_linear", alpha, variance))
        return (cj_posterior){ none, none, variance };
    cj_tensor *prior = cj_mul_scalar(cj_eye(x->ctx, x->shape[1], (cj_dtype)x->dtype), alpha);
    return update(prior, cj_zeros(x->ctx, CJ_SHAPE(x->shape[1], 1), (cj_dtype)x->dtype), x, y, variance);
}

static bool posterior_ok(const char *op, cj_posterior p, cj_tensor *x)
{
    if (!matrix_ok(op, x) || !cj__usable(x->ctx, op, 0, p.mean) || !cj__usable(x->ctx, op, 0, p.covariance)) return false;
    return p.mean->shape[0] == x->shape[1] ||
           cj__error(x->ctx, CJ_ESHAPE, "%s: x is %s, the model has %lld inputs", op, cj__tensor_text(x), (long long)p.mean->shape[0]);
}

cj_posterior cj_bayes_update(cj_posterior prior, cj_tensor *x, cj_tensor *y)
{
    cj_tensor *none = x ? x->ctx->poison : NULL;
    if (!posterior_ok("bayes_update", prior, x) || !cj__examples_check("bayes_update", x, y))
        return (cj_posterior){ none, none, prior.variance };
    cj_tensor *precision = cj_inverse(prior.covariance);
    return update(precision, cj_matmul(precision, cj_unsqueeze(prior.mean, 1)), x, y, prior.variance);
}

cj_prediction cj_bayes_predict(cj_posterior p, cj_tensor *x)
{
    cj_tensor *none = x ? x->ctx->poison : NULL;
    if (!posterior_ok("bayes_predict", p, x)) return (cj_prediction){ none, none };
    cj_tensor *spread = cj_sum(cj_mul(cj_matmul(x, p.covariance), x), &(cj_reduce_opts){ .axes = CJ_AXIS(1) });
    return (cj_prediction){ .mean = cj_squeeze(cj_matmul(x, cj_unsqueeze(p.mean, 1)), 1), .variance = cj_add_scalar(spread, p.variance) };
}

cj_tensor *cj_bayes_evidence(cj_tensor *x, cj_tensor *y, double alpha, double variance)
{
    if (!cj__examples_check("bayes_evidence", x, y) || !positive(x->ctx, "bayes_evidence", alpha, variance))
        return x ? x->ctx->poison : NULL;
    cj_tensor *k =
        cj_add(cj_mul_scalar(cj_matmul(x, cj_t(x)), 1 / alpha), cj_mul_scalar(cj_eye(x->ctx, x->shape[0], (cj_dtype)x->dtype), variance));
    cj_tensor *l = cj_cholesky(k, NULL), *half = cj_solve_triangular(l, cj_unsqueeze(cj_cast(y, cj_dtype_of(x)), 1), NULL);
    cj_tensor *squares = cj_mul_scalar(cj_sum(cj_square(half), NULL), -0.5); /* -1/2 yᵀK⁻¹y */
    cj_tensor *volume = cj_mul_scalar(cj_logdet(k), -0.5);
    return cj_add_scalar(cj_add(squares, volume), -0.5 * (double)x->shape[0] * log(2 * 3.14159265358979323846));
}
