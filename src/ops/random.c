/* Random draws and dropout.  A draw takes the next call number of its stream; the plan renumbers it on every replay. */
#include <math.h>

#include "ops/attrs.h"
#include "ops/ops.h"

static bool infer_draw(cj_call *call)
{
    const cj_draw_attrs *a = call->attrs;
    if (cj__numel(call->ctx, call->op->name, a->ndim, a->dim) < 0) return false;
    return (call->out[0] = cj__tensor_new(call->ctx, (cj_dtype)a->dtype, a->ndim, a->dim, a->device)) != NULL;
}

static bool run_draw(cj_call *call)
{
    const cj_draw_attrs *a = call->attrs;
    cj_tensor *y = call->out[0];
    if (y->numel)
        call->ctx->k->random(call->ctx->pool, (cj_draw)a->kind, (cj_dtype)y->dtype, a->base.seed, a->base.stream, a->base.call, a->a, a->b,
                             y->numel, y->data);
    return true;
}

#define ROW(op_name)                                                                                                                       \
    {                                                                                                                                      \
        .name = op_name, .family = "random", .kind = CJ_PRIMITIVE, .flags = CJ_OP_NOGRAD | CJ_OP_RANDOM, .nin = 0, .nout = 1,              \
        .attr_size = sizeof(cj_draw_attrs), .infer = infer_draw, .run = run_draw, .jvp_rule = CJ_JVP_NONE                                  \
    }
const cj_op cj__ops_random[] = {
    [CJ_DRAW_UNIFORM] = ROW("uniform"), [CJ_DRAW_NORMAL] = ROW("normal"),           [CJ_DRAW_BERNOULLI] = ROW("bernoulli"),
    [CJ_DRAW_INTEGER] = ROW("randint"), [CJ_DRAW_EXPONENTIAL] = ROW("exponential"),
};
CJ_OP_TABLE(random);

static cj_draw_attrs attrs_of(const cj_ctx *c, cj_random_attrs base, cj_draw kind, double a, double b, cj_shape shape, cj_dtype dtype)
{
    cj_draw_attrs at = {
        .base = base, .a = a, .b = b, .ndim = shape.ndim, .dtype = cj__dtype_or_default(dtype), .kind = kind, .device = c->backend != NULL
    };
    memcpy(at.dim, shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
    return at;
}

static cj_tensor *draw(cj_ctx *c, cj_draw kind, double a, double b, cj_shape shape, cj_dtype dtype, cj_stream stream)
{
    if (!c) return NULL;
    if ((unsigned)stream >= CJ_STREAMS)
        return cj_fail(c, CJ_EVALUE, "random: stream %d is none of the %d streams", (int)stream, CJ_STREAMS);
    if (shape.ndim < 0 || shape.ndim > CJ_MAX_DIMS)
        return cj_fail(c, CJ_ESHAPE, "random: %d dimensions, at most %d are possible", shape.ndim, CJ_MAX_DIMS);
    cj_draw_attrs at = attrs_of(c, (cj_random_attrs){ c->rng.seed, (uint64_t)stream, c->rng.call[stream] }, kind, a, b, shape, dtype);
    if (!cj__dtype_ok(c, cj__ops_random[kind].name, (cj_dtype)at.dtype)) return c->poison;
    cj_tensor *out;
    if (cj__apply_n(c, &cj__ops_random[kind], &at, NULL, 0, &out)) c->rng.call[stream]++;
    return out;
}

cj_tensor *cj__bernoulli_at(cj_ctx *c, const cj_random_attrs *base, double p, cj_shape shape, cj_dtype dtype)
{
    cj_draw_attrs at = attrs_of(c, *base, CJ_DRAW_BERNOULLI, p, 0, shape, dtype);
    cj_tensor *out;
    cj__apply_n(c, &cj__ops_random[CJ_DRAW_BERNOULLI], &at, NULL, 0, &out);
    return out;
}

static cj_random_opts opts_of(const cj_random_opts *o) { return o ? *o : (cj_random_opts){ 0 }; }

static cj_tensor *draw_float(cj_ctx *c, cj_draw kind, double a, double b, cj_shape shape, const cj_random_opts *opts)
{
    cj_random_opts o = opts_of(opts);
    if (c && o.dtype != CJ_DEFAULT_DTYPE && !cj_dtype_is_float(o.dtype))
        return cj_fail(c, CJ_EDTYPE, "%s: draws floats, not %s", cj__ops_random[kind].name, cj_dtype_name(o.dtype));
    return draw(c, kind, a, b, shape, o.dtype, o.stream);
}

cj_tensor *cj_rand(cj_ctx *c, cj_shape shape, const cj_random_opts *o) { return draw_float(c, CJ_DRAW_UNIFORM, 0, 1, shape, o); }
cj_tensor *cj_uniform(cj_ctx *c, double low, double high, cj_shape shape, const cj_random_opts *o)
{
    if (c && !(low <= high)) return cj_fail(c, CJ_EVALUE, "uniform: low %g is above high %g", low, high);
    return draw_float(c, CJ_DRAW_UNIFORM, low, high, shape, o);
}
cj_tensor *cj_randn(cj_ctx *c, cj_shape shape, const cj_random_opts *o) { return draw_float(c, CJ_DRAW_NORMAL, 0, 1, shape, o); }
cj_tensor *cj_normal(cj_ctx *c, double mean, double std, cj_shape shape, const cj_random_opts *o)
{
    if (c && !(std >= 0)) return cj_fail(c, CJ_EVALUE, "normal: standard deviation %g is negative", std);
    return draw_float(c, CJ_DRAW_NORMAL, mean, std, shape, o);
}
cj_tensor *cj_exponential(cj_ctx *c, double rate, cj_shape shape, const cj_random_opts *o)
{
    if (c && !(rate > 0)) return cj_fail(c, CJ_EVALUE, "exponential: rate %g is not positive", rate);
    return draw_float(c, CJ_DRAW_EXPONENTIAL, rate, 0, shape, o);
}
cj_tensor *cj_randint(cj_ctx *c, int64_t low, int64_t high, cj_shape shape, const cj_random_opts *opts)
{
    cj_random_opts o = opts_of(opts);
    if (c && low >= high)
        return cj_fail(c, CJ_EVALUE, "randint: there is no integer from %lld below %lld", (long long)low, (long long)high);
    return draw(c, CJ_DRAW_INTEGER, (double)low, (double)high, shape, o.dtype == CJ_DEFAULT_DTYPE ? CJ_I64 : o.dtype, o.stream);
}
cj_tensor *cj_bernoulli(cj_ctx *c, double p, cj_shape shape, const cj_random_opts *opts)
{
    cj_random_opts o = opts_of(opts);
    if (c && !(p >= 0 && p <= 1)) return cj_fail(c, CJ_EVALUE, "bernoulli: probability %g is outside [0, 1]", p);
    return draw(c, CJ_DRAW_BERNOULLI, p, 0, shape, o.dtype, o.stream);
}

/* x · mask / (1 - p), mask ~ Bernoulli(1 - p) (Srivastava et al. 2014, inverted). */
cj_tensor *cj_dropout(cj_tensor *x, const cj_dropout_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, "dropout", 0, x)) return c->poison;
    double p = !opts || opts->p == 0 ? 0.5 : opts->p == CJ_ZERO ? 0 : opts->p;
    if (!(p >= 0 && p <= 1)) return cj_fail(c, CJ_EVALUE, "dropout: probability %g is outside [0, 1]", p);
    if ((opts && opts->eval) || p == 0) return x;
    if (p == 1) return cj_mul_scalar(x, 0);
    cj_tensor *mask = draw(c, CJ_DRAW_BERNOULLI, 1 - p, 0, cj__shape(x), (cj_dtype)x->dtype, CJ_STREAM_DROPOUT);
    return cj_mul(x, cj_mul_scalar(mask, 1 / (1 - p)));
}
