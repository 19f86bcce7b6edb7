/* Diffusion (cajal/generative.h): the forward process, its posterior, the two forms of the objective, ancestral sampling.  Sohl-Dickstein et al. 2015; Ho, Jain & Abbeel
 * 2020. */
#include <cajal/generative.h>

#include "nn/nn.h"

static cj_tensor *poison(const cj_tensor *t) { return t ? t->ctx->poison : NULL; }

cj_diffusion cj_diffusion_of(cj_tensor *beta)
{
    cj_diffusion d = { .beta = poison(beta), .kept = poison(beta) };
    cj_ctx *c = cj_tensor_ctx(beta);
    if (!c || c->error || !cj__usable(c, "diffusion_of", 0, beta)) return d;
    if (cj_ndim(beta) != 1 || cj_numel(beta) < 1) {
        cj__error(c, CJ_ESHAPE, "diffusion_of: beta is %s; [T] expected", cj__tensor_text(beta));
        return d;
    }
    d = (cj_diffusion){ .steps = cj_size(beta, 0), .beta = cj_cast(beta, CJ_F64) };
    d.kept = cj_cumprod(cj_add_scalar(cj_neg(d.beta), 1), 0);
    return d;
}

cj_diffusion cj_diffusion_linear(cj_ctx *c, int64_t steps, double first, double last)
{
    cj_diffusion d = { .steps = steps };
    if (!c) return d;
    if (steps < 1 || !(first > 0 && first < 1 && last > 0 && last < 1)) {
        d.beta = d.kept = cj_fail(c, CJ_EVALUE, "diffusion_linear: %lld steps from %g to %g; at least 1, in (0, 1) expected",
                                  (long long)steps, first, last);
        return d;
    }
    double slope = steps > 1 ? (last - first) / (double)(steps - 1) : 0;
    return cj_diffusion_of(cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, (double)steps, 1, CJ_F64), slope), first));
}

/* ---- coefficients: values of the schedule at the times t [n], as [n, 1 ..] beside z ------------------------------------------------------------ */

typedef struct at {
    cj_tensor *beta, *rest;           /* beta_t, 1 - beta_t */
    cj_tensor *kept, *noise;          /* kept_t, 1 - kept_t */
    cj_tensor *before, *noise_before; /* kept_(t-1), 1 - kept_(t-1) */
    cj_tensor *first;                 /* bool: t = 1 */
} at;

static bool times(const char *op, cj_diffusion d, cj_tensor *z, cj_tensor *t)
{
    cj_ctx *c = cj_tensor_ctx(d.beta);
    if (!c || c->error || !cj__usable(c, op, 0, z) || !cj__usable(c, op, 1, t)) return false;
    if (cj_ndim(t) != 1 || cj_dtype_of(t) != CJ_I64 || cj_ndim(z) < 1 || cj_size(z, 0) != cj_size(t, 0))
        return cj__error(c, CJ_ESHAPE, "%s: rows %s at the times %s; [n, ..] and i64 [n] expected", op, cj__tensor_text(z),
                         cj__tensor_text(t));
    return true;
}

static cj_tensor *rows(cj_tensor *v, cj_tensor *z)
{
    cj_shape s = { .ndim = cj_ndim(z) };
    for (int i = 0; i < s.ndim; i++) s.dim[i] = i ? 1 : cj_size(z, 0);
    return cj_cast(cj_reshape(v, s), cj_dtype_of(z));
}

static at at_times(cj_diffusion d, cj_tensor *z, cj_tensor *t)
{
    cj_ctx *c = cj_tensor_ctx(z);
    cj_tensor *earlier = cj_cat((cj_tensor *[]){ cj_ones(c, CJ_SHAPE(1), CJ_F64), d.kept }, 2, 0); /* kept_0 = 1 first */
    cj_tensor *i = cj_add_scalar(t, -1), *beta = cj_index_select(d.beta, 0, i);
    cj_tensor *kept = cj_index_select(d.kept, 0, i), *before = cj_index_select(earlier, 0, i);
    at k = { .beta = rows(beta, z), .kept = rows(kept, z), .before = rows(before, z) };
    k.rest = rows(cj_add_scalar(cj_neg(beta), 1), z); /* differences in f64, rounded once */
    k.noise = rows(cj_add_scalar(cj_neg(kept), 1), z);
    k.noise_before = rows(cj_add_scalar(cj_neg(before), 1), z);
    cj_shape s = cj_shape_of(k.beta);
    k.first = cj_reshape(cj_eq_scalar(t, 1), s);
    return k;
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_diffusion_step(cj_diffusion d, cj_tensor *z, cj_tensor *t, cj_tensor *eps)
{
    if (!times("diffusion_step", d, z, t)) return poison(d.beta);
    at k = at_times(d, z, t);
    return cj_add(cj_mul(cj_sqrt(k.rest), z), cj_mul(cj_sqrt(k.beta), eps));
}

cj_tensor *cj_diffusion_noised(cj_diffusion d, cj_tensor *x, cj_tensor *t, cj_tensor *eps)
{
    if (!times("diffusion_noised", d, x, t)) return poison(d.beta);
    at k = at_times(d, x, t);
    return cj_add(cj_mul(cj_sqrt(k.kept), x), cj_mul(cj_sqrt(k.noise), eps));
}

cj_mean_variance cj_diffusion_posterior(cj_diffusion d, cj_tensor *x, cj_tensor *z, cj_tensor *t)
{
    if (!times("diffusion_posterior", d, z, t)) return (cj_mean_variance){ poison(d.beta), poison(d.beta) };
    at k = at_times(d, z, t);
    cj_tensor *of_x = cj_div(cj_mul(cj_sqrt(k.before), k.beta), k.noise);
    cj_tensor *share = cj_div(k.noise_before, k.noise), *of_z = cj_mul(cj_sqrt(k.rest), share);
    return (cj_mean_variance){ cj_add(cj_mul(of_x, x), cj_mul(of_z, z)), cj_mul(share, k.beta) };
}

/* ---- backward -------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_diffusion_mean(cj_diffusion d, cj_tensor *z, cj_tensor *t, cj_tensor *eps)
{
    if (!times("diffusion_mean", d, z, t)) return poison(d.beta);
    at k = at_times(d, z, t);
    return cj_div(cj_sub(z, cj_mul(cj_div(k.beta, cj_sqrt(k.noise)), eps)), cj_sqrt(k.rest));
}

cj_tensor *cj_diffusion_score(cj_diffusion d, cj_tensor *t, cj_tensor *eps)
{
    if (!times("diffusion_score", d, eps, t)) return poison(d.beta);
    return cj_neg(cj_div(eps, cj_sqrt(at_times(d, eps, t).noise)));
}

static cj_tensor *variance(const at *k) { return cj_where(k->first, k->beta, cj_mul(cj_div(k->noise_before, k->noise), k->beta)); }

cj_tensor *cj_diffusion_variance(cj_diffusion d, cj_tensor *z, cj_tensor *t)
{
    if (!times("diffusion_variance", d, z, t)) return poison(d.beta);
    at k = at_times(d, z, t);
    return variance(&k);
}

/* factor · |difference|² of every row: [n] */
static cj_tensor *squares(cj_tensor *factor, cj_tensor *difference)
{
    int64_t n = cj_size(difference, 0);
    return cj_sum(cj_reshape(cj_mul(factor, cj_square(difference)), CJ_SHAPE(n, -1)), &(cj_reduce_opts){ .axes = CJ_AXIS(1) });
}

cj_tensor *cj_diffusion_mean_loss(cj_diffusion d, cj_tensor *x, cj_tensor *t, cj_tensor *eps, cj_tensor *predicted)
{
    if (!times("diffusion_mean_loss", d, x, t)) return poison(d.beta);
    at k = at_times(d, x, t);
    cj_tensor *z = cj_diffusion_noised(d, x, t, eps); /* at t = 1 the posterior's mean is x */
    cj_tensor *gap = cj_sub(cj_diffusion_posterior(d, x, z, t).mean, cj_diffusion_mean(d, z, t, predicted));
    return squares(cj_mul_scalar(cj_reciprocal(variance(&k)), 0.5), gap);
}

cj_tensor *cj_diffusion_noise_loss(cj_diffusion d, cj_tensor *t, cj_tensor *eps, cj_tensor *predicted, bool simple)
{
    if (!times("diffusion_noise_loss", d, eps, t)) return poison(d.beta);
    at k = at_times(d, eps, t);
    cj_tensor *below = cj_mul_scalar(cj_mul(variance(&k), cj_mul(k.rest, k.noise)), 2);
    return squares(simple ? cj_ones_like(k.beta) : cj_div(cj_square(k.beta), below), cj_sub(eps, predicted));
}

cj_tensor *cj_diffusion_sample(cj_ctx *c, cj_diffusion d, cj_denoise_fn fn, void *user, cj_shape shape, cj_dtype dtype)
{
    static const char op[] = "diffusion_sample";
    if (!c || c->error || !cj__usable(c, op, 0, d.beta)) return c ? c->poison : NULL;
    if (!fn || shape.ndim < 1) return cj_fail(c, CJ_EVALUE, "%s: a function and rows [n, ..] expected", op);
    const cj_random_opts o = { .stream = CJ_STREAM_SAMPLING, .dtype = dtype };
    bool was = cj_no_grad(c);
    cj_tensor *z = cj_randn(c, shape, &o);
    for (int64_t t = d.steps; t >= 1 && !c->error; t--) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *when = cj_full(c, (double)t, CJ_SHAPE(shape.dim[0]), CJ_I64);
        cj_tensor *mean = cj_diffusion_mean(d, z, when, fn(c, user, z, when));
        if (t > 1) mean = cj_add(mean, cj_mul(cj_sqrt(cj_diffusion_variance(d, z, when)), cj_randn(c, shape, &o)));
        z = cj_scope_return(s, mean);
    }
    cj_grad_mode(c, was);
    return z;
}
