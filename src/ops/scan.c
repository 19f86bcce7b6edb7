/* Running sums, products, extrema and log-sums along an axis.
 *
 * The transpose of a running sum is the running sum from the other end.  Running products and log-sums are composites: a fused kernel forward and backward, and, for
 * derivatives of higher order, a definition by doubling (Hillis & Steele 1986): after step s every element holds the last 2s ones, so y_k becomes y_(k-s) ∘ y_k.  It has no
 * division, so zeros are no exception in a derivative of any order.
 */
#include "ops/ops.h"

typedef cj_scan_attrs scan_attrs;

static bool infer_scan(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    const cj_dtype t = (cj_dtype)x->dtype;
    if (!cj__contiguous(x)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    const bool extreme = call->op->nout == 2;
    if (!cj__out(call, 0, extreme || cj_dtype_is_float(t) ? t : CJ_I64, x->ndim, x->shape)) return false;
    return !extreme || cj__out(call, 1, CJ_I64, x->ndim, x->shape);
}
static bool infer_float_scan(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj_dtype_is_float((cj_dtype)x->dtype))
        return cj__error(call->ctx, CJ_EDTYPE, "%s: the input is %s, a float type expected", call->op->name,
                         cj_dtype_name((cj_dtype)x->dtype));
    return infer_scan(call);
}
static bool run(cj_call *call, cj_scan_code code)
{
    const scan_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t size[3];
    cj__split(x, a->axis, size);
    call->ctx->k->scan(call->ctx->pool, code, (cj_dtype)x->dtype, x->data, size[0], size[1], size[2], a->reverse != 0, call->out[0]->data,
                       call->nout > 1 ? (int64_t *)(void *)call->out[1]->data : NULL);
    return true;
}
static bool run_sum(cj_call *call) { return run(call, CJ_SCAN_SUM); }
static bool run_prod(cj_call *call) { return run(call, CJ_SCAN_PROD); }
static bool run_logsumexp(cj_call *call) { return run(call, CJ_SCAN_LOGSUMEXP); }
static bool run_max(cj_call *call) { return run(call, CJ_SCAN_MAX); }
static bool run_min(cj_call *call) { return run(call, CJ_SCAN_MIN); }

/* Inputs x, y, dy. */
static bool infer_bwd(cj_call *call) { return cj__out(call, 0, (cj_dtype)call->in[0]->dtype, call->in[0]->ndim, call->in[0]->shape); }
static bool run_bwd(cj_call *call, cj_scan_code code)
{
    const cj_tensor *x = call->in[0];
    int64_t size[3];
    cj__split(x, ((const scan_attrs *)call->attrs)->axis, size);
    call->ctx->k->scan_bwd(call->ctx->pool, code, (cj_dtype)x->dtype, x->data, call->in[1]->data, call->in[2]->data, size[0], size[1],
                           size[2], call->out[0]->data);
    return true;
}
static bool run_prod_bwd(cj_call *call) { return run_bwd(call, CJ_SCAN_PROD); }
static bool run_logsumexp_bwd(cj_call *call) { return run_bwd(call, CJ_SCAN_LOGSUMEXP); }

/* ---- definitions --------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *times(cj_tensor *a, cj_tensor *b) { return cj_mul(a, b); }
/* log(e^a + e^b) = max + log(1 + e^-|a-b|) */
static cj_tensor *log_plus(cj_tensor *a, cj_tensor *b) { return cj_add(cj_maximum(a, b), cj_softplus(cj_neg(cj_abs(cj_sub(a, b))))); }

static cj_tensor *doubling(cj_tensor *y, int axis, cj_tensor *(*join)(cj_tensor *, cj_tensor *))
{
    for (int64_t s = 1, n = cj_size(y, axis); s < n; s *= 2) {
        cj_tensor *part[2] = { cj_slice(y, axis, 0, s, 1), join(cj_slice(y, axis, 0, n - s, 1), cj_slice(y, axis, s, CJ_END, 1)) };
        y = cj_cat(part, 2, axis);
    }
    return y;
}
static bool define_prod(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    const cj_dtype t = (cj_dtype)in[0]->dtype, wide = !cj_dtype_is_float(t) ? CJ_I64 : t == CJ_BF16 || t == CJ_F16 ? CJ_F32 : t;
    cj_tensor *y = doubling(wide == t ? in[0] : cj_cast(in[0], wide), (int)((const scan_attrs *)attrs)->axis, times);
    out[0] = wide == CJ_F32 && t != CJ_F32 ? cj_cast(y, t) : cj_clone(y);
    return c->error == CJ_OK;
}
static bool define_logsumexp(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    out[0] = cj_clone(doubling(in[0], (int)((const scan_attrs *)attrs)->axis, log_plus));
    return c->error == CJ_OK;
}

/* ---- derivatives --------------------------------------------------------------------------------------------------------------------------------------- */

enum { CUMSUM, CUMPROD, LOGCUMSUMEXP, CUMMAX, CUMMIN, CUMPROD_BWD, LOGCUMSUMEXP_BWD };

static cj_tensor *apply(int row, cj_tensor *x, const scan_attrs *a)
{
    cj_tensor *dense = cj_contiguous(x);
    return cj__apply(&cj__ops_scan[row], a, &dense, 1);
}
static void d_sum(cj_vjp_args *v)
{
    scan_attrs back = *(const scan_attrs *)v->attrs;
    back.reverse = !back.reverse;
    v->gin[0] = apply(CUMSUM, v->g[0], &back);
}
/* Many gradients may come to one place: those of 16 bits are summed in f32. */
static void d_extreme(cj_vjp_args *v)
{
    if (!v->g[0]) return;
    const cj_dtype t = (cj_dtype)v->in[0]->dtype, wide = t == CJ_BF16 || t == CJ_F16 ? CJ_F32 : t;
    cj_tensor *zeros = cj_cast(cj__zeros_for(v->in[0], v->g[0]), wide);
    v->gin[0] = cj_cast(cj_scatter_add(zeros, (int)((const scan_attrs *)v->attrs)->axis, v->out[1], cj_cast(v->g[0], wide)), t);
}
static void j_extreme(cj_jvp_args *j)
{
    j->tout[0] = cj_gather(j->tan[0], (int)((const scan_attrs *)j->attrs)->axis, j->out[1]);
    j->tout[1] = NULL;
}
static void fused_backward(cj_vjp_args *v, int row)
{
    cj_tensor *in[3] = { v->in[0], v->out[0], cj_contiguous(v->g[0]) };
    v->gin[0] = cj__apply(&cj__ops_scan[row], v->attrs, in, 3);
}
static void d_prod(cj_vjp_args *v) { fused_backward(v, CUMPROD_BWD); }
static void d_logsumexp(cj_vjp_args *v) { fused_backward(v, LOGCUMSUMEXP_BWD); }

#define COMPOSITE(op_name, inferred, part)                                                                                                 \
    {                                                                                                                                      \
        .name = op_name, .family = "scan", .kind = CJ_COMPOSITE, .nin = 1, .nout = 1, .attr_size = sizeof(scan_attrs), .save_in = 1,       \
        .save_out = 1, .infer = inferred, .run = run_##part, .vjp = d_##part, .define = define_##part                                      \
    }
#define EXTREME(op_name, part)                                                                                                             \
    {                                                                                                                                      \
        .name = op_name, .family = "scan", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 2, .attr_size = sizeof(scan_attrs), .save_out = 2,      \
        .infer = infer_scan, .run = run_##part, .vjp = d_extreme, .jvp_rule = CJ_JVP_OWN, .jvp = j_extreme                                 \
    }
#define BACKWARD(op_name, part)                                                                                                            \
    {                                                                                                                                      \
        .name = op_name, .family = "scan", .kind = CJ_INTERNAL, .flags = CJ_OP_NOGRAD, .nin = 3, .nout = 1,                                \
        .attr_size = sizeof(scan_attrs), .infer = infer_bwd, .run = run_##part##_bwd                                                       \
    }
const cj_op cj__ops_scan[] = {
    [CUMSUM] = { .name = "cumsum",
                 .family = "scan",
                 .kind = CJ_PRIMITIVE,
                 .nin = 1,
                 .nout = 1,
                 .attr_size = sizeof(scan_attrs),
                 .infer = infer_scan,
                 .run = run_sum,
                 .vjp = d_sum,
                 .jvp_rule = CJ_JVP_LINEAR },
    [CUMPROD] = COMPOSITE("cumprod", infer_scan, prod),
    [LOGCUMSUMEXP] = COMPOSITE("logcumsumexp", infer_float_scan, logsumexp),
    [CUMMAX] = EXTREME("cummax", max),
    [CUMMIN] = EXTREME("cummin", min),
    [CUMPROD_BWD] = BACKWARD("cumprod_backward", prod),
    [LOGCUMSUMEXP_BWD] = BACKWARD("logcumsumexp_backward", logsumexp),
};
CJ_OP_TABLE(scan);

/* A 0-d tensor is a row of one. */
static bool along(int row, cj_tensor *x, int axis, cj_tensor **out)
{
    cj_ctx *c = x->ctx;
    const cj_op *op = &cj__ops_scan[row];
    for (int i = 0; i < op->nout; i++) out[i] = c->poison;
    if (c->error || !cj__usable(c, op->name, 0, x)) return false;
    const bool scalar = x->ndim == 0;
    if (scalar) x = cj_reshape(x, CJ_SHAPE(1));
    axis = cj__axis(c, op->name, axis, x->ndim);
    if (axis < 0) return false;
    cj_tensor *dense = cj_contiguous(x);
    cj__apply_n(c, op, &(scan_attrs){ axis, 0 }, &dense, 1, out);
    for (int i = 0; i < op->nout && scalar; i++) out[i] = cj_reshape(out[i], CJ_SCALAR);
    return c->error == CJ_OK;
}
static cj_tensor *one(int row, cj_tensor *x, int axis)
{
    cj_tensor *out = NULL;
    if (x) along(row, x, axis, &out);
    return out;
}
static cj_ordered two(int row, cj_tensor *x, int axis)
{
    cj_tensor *out[2] = { 0 };
    if (x) along(row, x, axis, out);
    return (cj_ordered){ out[0], out[1] };
}
cj_tensor *cj_cumsum(cj_tensor *x, int axis) { return one(CUMSUM, x, axis); }
cj_tensor *cj_cumprod(cj_tensor *x, int axis) { return one(CUMPROD, x, axis); }
cj_tensor *cj_logcumsumexp(cj_tensor *x, int axis) { return one(LOGCUMSUMEXP, x, axis); }
cj_ordered cj_cummax(cj_tensor *x, int axis) { return two(CUMMAX, x, axis); }
cj_ordered cj_cummin(cj_tensor *x, int axis) { return two(CUMMIN, x, axis); }
