/* Softmax, log-softmax and layer normalisation over the last axis: definitions in public operators, fused kernels forward and backward.
 *
 * What a fused forward saves (mean, 1/std) is an extra output that only the fused backward reads; when the gradient itself is differentiated, the
 * definition is replayed on the saved inputs.
 */
#include "cajal/grad.h"
#include "ops/attrs.h"
#include "ops/compose.h"
#include "ops/which.h"

#include "ops/ops.h"

/* ---- softmax ------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_rows(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj_dtype_is_float((cj_dtype)x->dtype))
        return cj__error(call->ctx, CJ_EDTYPE, "%s: the input is %s, a float type expected", call->op->name,
                         cj_dtype_name((cj_dtype)x->dtype));
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}

static bool rows_softmax(cj_call *call, bool log)
{
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1];
    if (x->numel) call->ctx->k->softmax(call->ctx->pool, (cj_dtype)x->dtype, x->data, x->numel / n, n, n, call->out[0]->data, log);
    return true;
}
static bool run_softmax(cj_call *call) { return rows_softmax(call, false); }
static bool run_log_softmax(cj_call *call) { return rows_softmax(call, true); }

/* exp(x - max) / sum exp(x - max) */
static bool define_softmax(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    cj_reduce_opts last = { .axes = CJ_AXIS(-1), .keepdim = true };
    cj_tensor *e = cj_exp(cj_sub(in[0], cj_detach(cj_max(in[0], &last))));
    out[0] = cj_div(e, cj_sum(e, &last));
    return true;
}
/* (x - max) - log sum exp(x - max) */
static bool define_log_softmax(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    cj_reduce_opts last = { .axes = CJ_AXIS(-1), .keepdim = true };
    cj_tensor *z = cj_sub(in[0], cj_detach(cj_max(in[0], &last)));
    out[0] = cj_sub(z, cj_log(cj_sum(cj_exp(z), &last)));
    return true;
}

static bool rows_softmax_bwd(cj_call *call, bool log)
{
    const cj_tensor *y = call->in[0];
    int64_t n = y->shape[y->ndim - 1];
    if (y->numel)
        call->ctx->k->softmax_bwd(call->ctx->pool, (cj_dtype)y->dtype, y->data, call->in[1]->data, y->numel / n, n, call->out[0]->data,
                                  log);
    return true;
}
static bool run_softmax_bwd(cj_call *call) { return rows_softmax_bwd(call, false); }
static bool run_log_softmax_bwd(cj_call *call) { return rows_softmax_bwd(call, true); }

/* ---- layer norm: y = (x - mean)/sqrt(var + eps)·w + b (Ba et al. 2016) ---------------------------------------------------------------------- */

static bool infer_layer_norm(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    cj_dtype t = (cj_dtype)x->dtype, saved = t == CJ_F64 ? CJ_F64 : CJ_F32;
    if (!cj_dtype_is_float(t))
        return cj__error(call->ctx, CJ_EDTYPE, "layer_norm: the input is %s, a float type expected", cj_dtype_name(t));
    if (x->ndim < 1) return cj__error(call->ctx, CJ_ESHAPE, "layer_norm: a 0-d input");
    for (int i = 1; i < call->nin; i++) {
        const cj_tensor *w = call->in[i];
        if (w->ndim != 1 || w->shape[0] != x->shape[x->ndim - 1] || w->dtype != x->dtype || !cj__contiguous(w))
            return cj__error(call->ctx, CJ_ESHAPE, "layer_norm: %s %s %s does not fit input %s %s", i == 1 ? "weight" : "bias",
                             cj__tensor_text(w), cj_dtype_name((cj_dtype)w->dtype), cj__tensor_text(x), cj_dtype_name(t));
    }
    return cj__out(call, 0, t, x->ndim, x->shape) && cj__out(call, 1, saved, x->ndim - 1, x->shape) &&
           cj__out(call, 2, saved, x->ndim - 1, x->shape);
}
static bool run_layer_norm(cj_call *call)
{
    const cj_norm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1];
    if (x->numel)
        call->ctx->k->layer_norm(call->ctx->pool, (cj_dtype)x->dtype, x->data, x->numel / n, n, n, a->affine > 0 ? call->in[1]->data : NULL,
                                 a->affine > 1 ? call->in[2]->data : NULL, a->eps, call->out[0]->data, call->out[1]->data,
                                 call->out[2]->data);
    return true;
}
static bool define_layer_norm(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)nin;
    const cj_norm_attrs *a = attrs;
    cj_reduce_opts last = { .axes = CJ_AXIS(-1), .keepdim = true };
    cj_tensor *mean = cj_mean(in[0], &last);
    cj_tensor *d = cj_sub(in[0], mean);
    cj_tensor *rstd = cj_rsqrt(cj_add_scalar(cj_mean(cj_square(d), &last), a->eps));
    cj_tensor *y = cj_mul(d, rstd);
    if (a->affine > 0) y = cj_mul(y, in[1]);
    if (a->affine > 1) y = cj_add(y, in[2]);
    out[0] = y;
    out[1] = cj_squeeze(mean, -1);
    out[2] = cj_squeeze(rstd, -1);
    return true;
}

/* Inputs x, dy, mean, rstd [, w]; outputs dx [, dw, db]. */
static bool infer_layer_norm_bwd(cj_call *call)
{
    const cj_norm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape) &&
           cj__out(call, 1, (cj_dtype)x->dtype, 1, a->affine ? &n : &(int64_t){ 0 }) &&
           cj__out(call, 2, (cj_dtype)x->dtype, 1, a->affine ? &n : &(int64_t){ 0 });
}
static bool run_layer_norm_bwd(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_norm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1], rows = n ? x->numel / n : 0;
    if (!x->numel) {
        memset(call->out[1]->data, 0, (size_t)call->out[1]->numel * cj_dtype_size((cj_dtype)x->dtype));
        memset(call->out[2]->data, 0, (size_t)call->out[2]->numel * cj_dtype_size((cj_dtype)x->dtype));
        return true;
    }
    size_t bytes = c->k->layer_norm_bwd_scratch((cj_dtype)x->dtype, rows, n);
    void *scratch = bytes ? cj__scratch(c, bytes) : NULL;
    if (bytes && !scratch) return false;
    c->k->layer_norm_bwd(c->pool, (cj_dtype)x->dtype, x->data, call->in[1]->data, a->affine > 0 ? call->in[4]->data : NULL,
                         call->in[2]->data, call->in[3]->data, rows, n, n, call->out[0]->data, a->affine > 0 ? call->out[1]->data : NULL,
                         a->affine > 0 ? call->out[2]->data : NULL, scratch);
    return true;
}

static void d_softmax(cj_vjp_args *v);
static void d_log_softmax(cj_vjp_args *v);
static void d_layer_norm(cj_vjp_args *v);

enum { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, SOFTMAX_BWD, LOG_SOFTMAX_BWD, LAYER_NORM_BWD };
const cj_op cj__ops_norm[] = {
    [SOFTMAX] = { .name = "softmax",
                  .family = "normalisation",
                  .kind = CJ_COMPOSITE,
                  .nin = 1,
                  .nout = 1,
                  .save_in = 1,
                  .save_out = 1,
                  .infer = infer_rows,
                  .run = run_softmax,
                  .vjp = d_softmax,
                  .define = define_softmax },
    [LOG_SOFTMAX] = { .name = "log_softmax",
                      .family = "normalisation",
                      .kind = CJ_COMPOSITE,
                      .nin = 1,
                      .nout = 1,
                      .save_in = 1,
                      .save_out = 1,
                      .infer = infer_rows,
                      .run = run_log_softmax,
                      .vjp = d_log_softmax,
                      .define = define_log_softmax },
    [LAYER_NORM] = { .name = "layer_norm",
                     .family = "normalisation",
                     .kind = CJ_COMPOSITE,
                     .nin = -1,
                     .nout = 3,
                     .attr_size = sizeof(cj_norm_attrs),
                     .save_in = 7,
                     .save_out = 6,
                     .infer = infer_layer_norm,
                     .run = run_layer_norm,
                     .vjp = d_layer_norm,
                     .define = define_layer_norm },
    [SOFTMAX_BWD] = { .name = "softmax_backward",
                      .family = "normalisation",
                      .kind = CJ_INTERNAL,
                      .flags = CJ_OP_NOGRAD,
                      .nin = 2,
                      .nout = 1,
                      .infer = infer_rows,
                      .run = run_softmax_bwd },
    [LOG_SOFTMAX_BWD] = { .name = "log_softmax_backward",
                          .family = "normalisation",
                          .kind = CJ_INTERNAL,
                          .flags = CJ_OP_NOGRAD,
                          .nin = 2,
                          .nout = 1,
                          .infer = infer_rows,
                          .run = run_log_softmax_bwd },
    [LAYER_NORM_BWD] = { .name = "layer_norm_backward",
                         .family = "normalisation",
                         .kind = CJ_INTERNAL,
                         .flags = CJ_OP_NOGRAD,
                         .nin = -1,
                         .nout = 3,
                         .attr_size = sizeof(cj_norm_attrs),
                         .infer = infer_layer_norm_bwd,
                         .run = run_layer_norm_bwd },
};
CJ_OP_TABLE(norm);

bool cj__op_is_layer_norm(const cj_op *op) { return op == &cj__ops_norm[LAYER_NORM]; }

static void d_softmax(cj_vjp_args *v)
{
    v->gin[0] = cj__apply(&cj__ops_norm[SOFTMAX_BWD], NULL, (cj_tensor *[]){ v->out[0], cj_contiguous(v->g[0]) }, 2);
}
static void d_log_softmax(cj_vjp_args *v)
{
    v->gin[0] = cj__apply(&cj__ops_norm[LOG_SOFTMAX_BWD], NULL, (cj_tensor *[]){ v->out[0], cj_contiguous(v->g[0]) }, 2);
}
static void d_layer_norm(cj_vjp_args *v)
{
    const cj_norm_attrs *a = v->attrs;
    if (!v->g[0]) return;
    cj_tensor *in[5] = { v->in[0], cj_contiguous(v->g[0]), v->out[1], v->out[2], a->affine ? v->in[1] : NULL }, *out[3];
    cj__apply_n(v->ctx, &cj__ops_norm[LAYER_NORM_BWD], a, in, a->affine ? 5 : 4, out);
    for (int i = 0; i <= a->affine; i++) v->gin[i] = out[i];
}

/* Along another axis: swap it to the back, work there, swap it home. */
static cj_tensor *along(int row, cj_tensor *x, int axis)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    const cj_op *op = &cj__ops_norm[row];
    if (c->error || !cj__usable(c, op->name, 0, x)) return c->poison;
    if (x->ndim == 0) return cj_reshape(along(row, cj_reshape(x, CJ_SHAPE(1)), axis), CJ_SCALAR);
    axis = cj__axis(c, op->name, axis, x->ndim);
    if (axis < 0) return c->poison;
    bool moved = axis != x->ndim - 1;
    if (moved) x = cj_transpose(x, axis, -1);
    x = cj_contiguous(x);
    x = cj__apply(op, NULL, &x, 1);
    return moved ? cj_transpose(x, axis, -1) : x;
}
cj_tensor *cj_softmax(cj_tensor *x, int axis) { return along(SOFTMAX, x, axis); }
cj_tensor *cj_log_softmax(cj_tensor *x, int axis) { return along(LOG_SOFTMAX, x, axis); }

cj_tensor *cj_layer_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps)
{
    if (!x) return CJ_MISSING("layer_norm", x, weight, bias);
    cj_ctx *c = x->ctx;
    cj_norm_attrs a = { .eps = cj__option(eps, 1e-5), .affine = weight ? bias ? 2 : 1 : 0 };
    if (!(a.eps >= 0)) return cj_fail(c, CJ_EVALUE, "layer_norm: eps %g is negative", eps);
    if (bias && !weight) return cj_fail(c, CJ_EVALUE, "layer_norm: a bias without a weight");
    if (!cj__given("layer_norm", (cj_tensor *[]){ x, weight, bias }, 1 + a.affine)) return c->poison;
    cj_tensor *in[3] = { cj_contiguous(x), cj_contiguous(weight), cj_contiguous(bias) }, *out[3];
    cj__apply_n(c, &cj__ops_norm[LAYER_NORM], &a, in, 1 + a.affine, out);
    return out[0];
}
