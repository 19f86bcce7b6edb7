/* Masks: of x only what the mask lets through.  Composites; what is masked out gets gradient 0, never NaN. */
#include <math.h>

#include "ops/compose.h"

/* x and its mask, stretched to one shape; false after an error. */
static bool stretched(const char *op, cj_tensor *x, cj_tensor *mask, cj_tensor *in[2])
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, mask)) return false;
    if (mask->dtype != CJ_BOOL)
        return cj__error(c, CJ_EDTYPE, "%s: the mask is %s, bool expected", op, cj_dtype_name((cj_dtype)mask->dtype));
    cj_shape s;
    if (!cj__broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &s.ndim, s.dim))
        return cj__error(c, CJ_ESHAPE, "%s: input %s and mask %s do not broadcast", op, cj__tensor_text(x), cj__tensor_text(mask));
    in[0] = cj_expand(x, s);
    in[1] = cj_expand(mask, s);
    return c->error == CJ_OK;
}

static bool define_masked_select(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)attrs, (void)nin;
    cj_tensor *places = cj_nonzero(cj_flatten(in[1], 0));
    if (c->error) return false;
    out[0] = cj_index_select(cj_flatten(in[0], 0), 0, cj_reshape(places, CJ_SHAPE(places->numel)));
    return c->error == CJ_OK;
}

/* Rows without anything are a softmax of zeros, of which nothing is kept: no infinity meets its like. */
CJ_COMPOSE(masked_softmax)
{
    const int axis = (int)*(const int64_t *)attrs;
    cj_tensor *x = in[0], *mask = in[1], *zero = cj__const_like(x, 0);
    cj_tensor *any = cj_any(mask, &(cj_reduce_opts){ .axes = CJ_AXIS(axis), .keepdim = true });
    cj_tensor *beyond = cj_where(any, cj__const_like(x, -INFINITY), zero);
    return cj_where(mask, cj_softmax(cj_where(mask, x, beyond), axis), zero);
}

typedef struct mean_attrs {
    int32_t axis[CJ_MAX_DIMS];
    int32_t n, keepdim;
} mean_attrs;
CJ_COMPOSE(masked_mean)
{
    const mean_attrs *a = attrs;
    cj_reduce_opts o = { .axes.n = a->n, .keepdim = a->keepdim != 0 };
    for (int i = 0; i < a->n; i++) o.axes.axis[i] = a->axis[i];
    cj_tensor *x = in[0], *mask = in[1];
    return cj_div(cj_sum(cj_where(mask, x, cj__const_like(x, 0)), &o), cj_cast(cj_sum(mask, &o), (cj_dtype)x->dtype));
}

enum { SELECT, SOFTMAX, MEAN };
const cj_op cj__ops_masked[] = {
    [SELECT] = { .name = "masked_select", .family = "mask", .kind = CJ_COMPOSITE, .nin = 2, .nout = 1, .define = define_masked_select },
    [SOFTMAX] = CJ_COMPOSITE_ROW(masked_softmax, "mask", 2, sizeof(int64_t)),
    [MEAN] = CJ_COMPOSITE_ROW(masked_mean, "mask", 2, sizeof(mean_attrs)),
};
CJ_OP_TABLE(masked);

cj_tensor *cj_masked_select(cj_tensor *x, cj_tensor *mask)
{
    cj_tensor *in[2];
    if (!x || !mask) return CJ_MISSING("masked_select", x, mask);
    return stretched("masked_select", x, mask, in) ? cj__apply(&cj__ops_masked[SELECT], NULL, in, 2) : x->ctx->poison;
}

cj_tensor *cj_masked_softmax(cj_tensor *x, cj_tensor *mask, int axis)
{
    cj_tensor *in[2];
    if (!x || !mask) return CJ_MISSING("masked_softmax", x, mask);
    if (!stretched("masked_softmax", x, mask, in)) return x->ctx->poison;
    int64_t at = cj__axis(x->ctx, "masked_softmax", axis, in[0]->ndim);
    return at < 0 ? x->ctx->poison : cj__apply(&cj__ops_masked[SOFTMAX], &at, in, 2);
}

cj_tensor *cj_masked_mean(cj_tensor *x, cj_tensor *mask, const cj_reduce_opts *opts)
{
    cj_tensor *in[2];
    mean_attrs a = { 0 };
    if (!x || !mask) return CJ_MISSING("masked_mean", x, mask);
    if (!stretched("masked_mean", x, mask, in)) return x->ctx->poison;
    if (opts && (opts->axes.n < 0 || opts->axes.n > CJ_MAX_DIMS)) return cj_fail(x->ctx, CJ_EVALUE, "masked_mean: %d axes", opts->axes.n);
    for (int i = 0; opts && i < opts->axes.n; i++) a.axis[a.n++] = opts->axes.axis[i];
    a.keepdim = opts && opts->keepdim;
    return cj__apply(&cj__ops_masked[MEAN], &a, in, 2);
}
