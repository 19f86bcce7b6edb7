/* What operators share: checking their arguments, running the definition of a composite. */
#include "ops/compose.h"

bool cj__given(const char *op, cj_tensor *const *in, int n)
{
    cj_ctx *c = NULL;
    for (int i = 0; i < n && !c; i++)
        if (in[i]) c = in[i]->ctx;
    if (!c || c->error) return false;
    for (int i = 0; i < n; i++)
        if (!cj__usable(c, op, i, in[i])) return false;
    return true;
}

cj_tensor *cj__poison_of(cj_tensor *const *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i]) return in[i]->ctx->poison;
    return NULL;
}

cj_tensor *cj__missing(const char *op, cj_tensor *const *in, int n)
{
    (void)cj__given(op, in, n);
    return cj__poison_of(in, n);
}

static bool is_half(const cj_tensor *t) { return t->dtype == CJ_BF16 || t->dtype == CJ_F16; }

bool cj__compose(cj_ctx *c, const char *name, cj_body *body, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    enum { MOST = 8 };
    cj_tensor *floats[MOST], *wide[MOST];
    int n = 0;
    if (nin < 1 || nin > MOST) return cj__error(c, CJ_EVALUE, "%s: %d inputs", name, nin);
    if (!cj_dtype_is_float((cj_dtype)in[0]->dtype))
        return cj__error(c, CJ_EDTYPE, "%s: the input is %s, a float type expected", name, cj_dtype_name((cj_dtype)in[0]->dtype));
    for (int i = 0; i < nin; i++) {
        if (cj_dtype_is_float((cj_dtype)in[i]->dtype)) floats[n++] = in[i];
        wide[i] = is_half(in[i]) ? cj_cast(in[i], CJ_F32) : in[i];
    }
    cj_dtype result = cj__promote_n(floats, n);
    out[0] = body(attrs, wide, nin);
    if (c->error) return false;
    if (result == CJ_BF16 || result == CJ_F16) out[0] = cj_cast(out[0], result);
    return c->error == CJ_OK;
}

cj_tensor *cj__const_like(cj_tensor *x, double value)
{
    return x->dtype == CJ_F64 ? cj_mul_scalar(cj_cast(cj__const(x, 1), CJ_F64), value) : cj__const(x, value);
}

cj_tensor *cj__reduced(cj_tensor *loss, int64_t reduction)
{
    return reduction == CJ_NONE ? loss : reduction == CJ_SUM ? cj_sum(loss, NULL) : cj_mean(loss, NULL);
}

bool cj__loss_inputs(const char *op, cj_tensor *const *in, int n, int64_t reduction)
{
    if (!cj__given(op, in, n)) return false;
    cj_ctx *c = in[0]->ctx;
    if (reduction < CJ_MEAN || reduction > CJ_NONE)
        return cj__error(c, CJ_EVALUE, "%s: reduction %lld is none of CJ_MEAN, CJ_SUM, CJ_NONE", op, (long long)reduction);
    for (int i = 1; i < n; i++)
        if (in[i]->ndim != in[0]->ndim || memcmp(in[i]->shape, in[0]->shape, in[0]->ndim * sizeof in[0]->shape[0]) != 0)
            return cj__error(c, CJ_ESHAPE, "%s: %s %s and %s %s have different shapes", op, n == 2 ? "input" : "argument 1",
                             cj__tensor_text(in[0]),
                             n == 2   ? "target"
                             : i == 1 ? "argument 2"
                                      : "argument 3",
                             cj__tensor_text(in[i]));
    return true;
}
