/* Creation: constants, ranges, identities. */
#include <math.h>

#include "ops/attrs.h"
#include "ops/ops.h"

static bool infer_full(cj_call *call)
{
    const cj_full_attrs *a = call->attrs;
    if (cj__numel(call->ctx, call->op->name, a->ndim, a->dim) < 0) return false;
    return (call->out[0] = cj__tensor_new(call->ctx, (cj_dtype)a->dtype, a->ndim, a->dim, a->device)) != NULL;
}

static int64_t to_i64(double v) { return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v; }

static bool run_full(cj_call *call)
{
    const cj_full_attrs *a = call->attrs;
    cj_tensor *y = call->out[0];
    if (y->numel == 1) cj__store((cj_dtype)y->dtype, y->data, a->value);
    else if (y->numel) call->ctx->k->fill(call->ctx->pool, (cj_dtype)y->dtype, y->data, y->numel, a->value, to_i64(a->value));
    return true;
}

static bool infer_range(cj_call *call)
{
    const cj_range_attrs *a = call->attrs;
    return (call->out[0] = cj__tensor_new(call->ctx, (cj_dtype)a->dtype, 1, &a->n, a->device)) != NULL;
}

static bool run_range(cj_call *call)
{
    const cj_range_attrs *a = call->attrs;
    cj_tensor *y = call->out[0];
    size_t size = cj_dtype_size((cj_dtype)y->dtype);
    for (int64_t i = 0; i < a->n; i++) cj__store((cj_dtype)y->dtype, y->data + (size_t)i * size, a->start + (double)i * a->step);
    return true;
}

enum { FULL, ARANGE };
const cj_op cj__ops_create[] = {
    [FULL] = { .name = "full",
               .family = "creation",
               .kind = CJ_PRIMITIVE,
               .flags = CJ_OP_NOGRAD,
               .nin = 0,
               .nout = 1,
               .attr_size = sizeof(cj_full_attrs),
               .infer = infer_full,
               .run = run_full,
               .jvp_rule = CJ_JVP_NONE },
    [ARANGE] = { .name = "arange",
                 .family = "creation",
                 .kind = CJ_PRIMITIVE,
                 .flags = CJ_OP_NOGRAD,
                 .nin = 0,
                 .nout = 1,
                 .attr_size = sizeof(cj_range_attrs),
                 .infer = infer_range,
                 .run = run_range,
                 .jvp_rule = CJ_JVP_NONE },
};
CJ_OP_TABLE(create);

static cj_tensor *full_at(cj_ctx *c, double value, int ndim, const int64_t *shape, cj_dtype dtype, bool device)
{
    cj_full_attrs a = { .value = value, .ndim = ndim, .dtype = cj__dtype_or_default(dtype), .device = device };
    if (ndim < 0 || ndim > CJ_MAX_DIMS) return cj_fail(c, CJ_ESHAPE, "full: %d dimensions, at most %d are possible", ndim, CJ_MAX_DIMS);
    if (!cj__dtype_ok(c, "full", (cj_dtype)a.dtype)) return c->poison;
    if (ndim) memcpy(a.dim, shape, (size_t)ndim * sizeof *shape);
    cj_tensor *out;
    cj__apply_n(c, &cj__ops_create[FULL], &a, NULL, 0, &out);
    return out;
}

/* The plan folds constants into fused programs and needs their value. */
bool cj__full_value(const cj_op *op, const void *attrs, double *value)
{
    if (op != &cj__ops_create[FULL]) return false;
    *value = ((const cj_full_attrs *)attrs)->value;
    return true;
}

cj_tensor *cj_full(cj_ctx *c, double value, cj_shape shape, cj_dtype dtype)
{
    return c ? full_at(c, value, shape.ndim, shape.dim, dtype, c->backend != NULL) : NULL;
}
cj_tensor *cj_zeros(cj_ctx *c, cj_shape shape, cj_dtype dtype) { return cj_full(c, 0, shape, dtype); }
cj_tensor *cj_ones(cj_ctx *c, cj_shape shape, cj_dtype dtype) { return cj_full(c, 1, shape, dtype); }
cj_tensor *cj_scalar(cj_ctx *c, double value) { return cj_full(c, value, CJ_SCALAR, CJ_F32); }

static cj_tensor *like(cj_tensor *x, double value)
{
    if (!x) return NULL;
    if (x->ctx->error || !cj__usable(x->ctx, "full", 0, x)) return x->ctx->poison;
    return full_at(x->ctx, value, x->ndim, x->shape, (cj_dtype)x->dtype, x->st->device);
}
cj_tensor *cj_zeros_like(cj_tensor *x) { return like(x, 0); }
cj_tensor *cj_ones_like(cj_tensor *x) { return like(x, 1); }

cj_tensor *cj__const(const cj_tensor *t, double value)
{
    if (!t) return NULL;
    bool device = t->st ? t->st->device : t->ctx->backend != NULL;
    return full_at(t->ctx, value, 0, NULL, CJ_F32, device);
}

cj_tensor *cj__const_as(const cj_tensor *t, double value)
{
    return t->flags & CJ_T_POISON ? t->ctx->poison : full_at(t->ctx, value, 0, NULL, (cj_dtype)t->dtype, t->st->device);
}

cj_tensor *cj__zeros_for(const cj_tensor *x, const cj_tensor *g)
{
    if (g->flags & CJ_T_POISON || !g->st) return g->ctx->poison;
    return full_at(g->ctx, 0, x->ndim, x->shape, (cj_dtype)x->dtype, g->st->device);
}

cj_tensor *cj_arange(cj_ctx *c, double start, double stop, double step, cj_dtype dtype)
{
    if (!c) return NULL;
    if (!(step != 0) || !isfinite(start) || !isfinite(stop) || !isfinite(step))
        return cj_fail(c, CJ_EVALUE, "arange: start %g, stop %g, step %g", start, stop, step);
    double n = ceil((stop - start) / step);
    if (n < 0 || n > 0x1p50) return cj_fail(c, CJ_EVALUE, "arange: from %g to %g in steps of %g is not a range", start, stop, step);
    cj_range_attrs a = { start, step, (int64_t)n, dtype == CJ_DEFAULT_DTYPE ? CJ_I64 : dtype, c->backend != NULL };
    if (!cj__dtype_ok(c, "arange", (cj_dtype)a.dtype)) return c->poison;
    cj_tensor *out;
    cj__apply_n(c, &cj__ops_create[ARANGE], &a, NULL, 0, &out);
    return out;
}

cj_tensor *cj_eye(cj_ctx *c, int64_t n, cj_dtype dtype)
{
    if (!c) return NULL;
    if (n < 0) return cj_fail(c, CJ_ESHAPE, "eye: size %lld", (long long)n);
    cj_tensor *i = cj_arange(c, 0, (double)n, 1, CJ_I64);
    return cj_cast(cj_eq(cj_reshape(i, CJ_SHAPE(n, 1)), i), dtype);
}
