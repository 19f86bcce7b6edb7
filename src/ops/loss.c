/* Losses.  Cross-entropy with class targets has fused kernels; the others are a line or two of public operators, which plans fuse. */
#include "cajal/grad.h"
#include "ops/attrs.h"
#include "ops/ops.h"

/* ---- cross-entropy: lse(x) - x[target], with label smoothing --------------------------------------------------------------------------------- */

/* Outputs: the loss (0-d, or one per row), log-sum-exp per row, and the weight of a row in the mean (0-d f64 on the host side of the kernel). */
static bool infer_ce(cj_call *call)
{
    const cj_ce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *t = call->in[1];
    cj_dtype saved = x->dtype == CJ_F64 ? CJ_F64 : CJ_F32;
    if (!cj_dtype_is_float((cj_dtype)x->dtype) || t->dtype != CJ_I64)
        return cj__error(call->ctx, CJ_EDTYPE, "cross_entropy: logits %s and targets %s; a float type and i64 expected",
                         cj_dtype_name((cj_dtype)x->dtype), cj_dtype_name((cj_dtype)t->dtype));
    if (x->ndim != 2 || t->ndim != 1 || x->shape[0] != t->shape[0])
        return cj__error(call->ctx, CJ_ESHAPE, "cross_entropy: logits %s do not fit targets %s", cj__tensor_text(x), cj__tensor_text(t));
    if (x->shape[1] == 0) return cj__error(call->ctx, CJ_ESHAPE, "cross_entropy: logits %s have no classes", cj__tensor_text(x));
    return cj__out(call, 0, (cj_dtype)x->dtype, a->reduction == CJ_NONE, &x->shape[0]) && cj__out(call, 1, saved, 1, &x->shape[0]) &&
           cj__out(call, 2, saved, 0, NULL);
}

static bool run_ce(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_ce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *t = call->in[1];
    int64_t rows = x->shape[0], n = x->shape[1], counted = 0;
    const int64_t *target = (const int64_t *)t->data;
    for (int64_t i = 0; i < rows; i++) {
        if (target[i] == a->ignore) continue;
        counted++;
        if (target[i] < 0 || target[i] >= n)
            return cj__error(c, CJ_EINDEX, "cross_entropy: target %lld at position %lld is outside [0, %lld)", (long long)target[i],
                             (long long)i, (long long)n);
    }
    double weight = a->reduction == CJ_MEAN ? 1.0 / (double)counted : 1;
    cj__store((cj_dtype)call->out[2]->dtype, call->out[2]->data, weight);
    void *loss = call->out[0]->data;
    size_t size = cj_dtype_size((cj_dtype)x->dtype);
    if (a->reduction != CJ_NONE && rows > 0 && !(loss = cj__scratch(c, (size_t)rows * size))) return false;
    if (rows) c->k->cross_entropy(c->pool, (cj_dtype)x->dtype, x->data, rows, n, n, target, a->ignore, a->smooth, loss, call->out[1]->data);
    if (a->reduction != CJ_NONE) {
        if (rows) c->k->reduce(c->pool, CJ_RED_SUM, (cj_dtype)x->dtype, loss, 1, rows, 1, rows, 1, 1, call->out[0]->data, weight);
        else cj__store((cj_dtype)x->dtype, call->out[0]->data, a->reduction == CJ_MEAN ? __builtin_nan("") : 0);
    }
    return true;
}

/* Inputs x, target, lse, weight, g. */
static bool infer_ce_bwd(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return cj__out(call, 0, (cj_dtype)x->dtype, 2, x->shape);
}
static bool run_ce_bwd(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_ce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *g = call->in[4];
    int64_t rows = x->shape[0], n = x->shape[1];
    if (!rows) return true;
    double scaled = 0; /* room for one value of any float type */
    const void *gp = g->data;
    int64_t gs = g->ndim ? 1 : 0;
    if (a->reduction != CJ_NONE) { /* one gradient for all rows, times the weight of a row */
        cj__store((cj_dtype)x->dtype, &scaled, cj__load(g, 0) * cj__load(call->in[3], 0));
        gp = &scaled;
    }
    c->k->cross_entropy_bwd(c->pool, (cj_dtype)x->dtype, x->data, rows, n, n, (const int64_t *)call->in[1]->data, a->ignore, a->smooth,
                            call->in[2]->data, gp, gs, call->out[0]->data);
    return true;
}

/* -(1-s)·logp[target] - s/C·sum logp, zero where ignored, then the mean over the counted rows. */
static bool define_ce(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    const cj_ce_attrs *a = attrs;
    int64_t rows = in[0]->shape[0];
    cj_dtype dt = (cj_dtype)in[0]->dtype;
    cj_tensor *lse = cj_logsumexp(in[0], &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
    cj_tensor *keep = cj_cast(cj_ne_scalar(in[1], (double)a->ignore), dt);
    cj_tensor *safe = cj_where(cj_ne_scalar(in[1], (double)a->ignore), in[1], cj_zeros_like(in[1]));
    cj_tensor *chosen = cj_reshape(cj_gather(in[0], 1, cj_reshape(safe, CJ_SHAPE(rows, 1))), CJ_SHAPE(rows));
    cj_tensor *loss = cj_sub(lse, cj_mul_scalar(chosen, 1 - a->smooth));
    if (a->smooth != 0) loss = cj_sub(loss, cj_mul_scalar(cj_mean(in[0], &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }), a->smooth));
    loss = cj_mul(loss, keep);
    cj_tensor *weight = cj_reciprocal(cj_sum(keep, NULL));
    if (a->reduction == CJ_MEAN) loss = cj_mul(cj_sum(loss, NULL), weight);
    else if (a->reduction == CJ_SUM) loss = cj_sum(loss, NULL);
    (void)c;
    out[0] = loss;
    out[1] = lse;
    out[2] = weight;
    return true;
}

static void d_ce(cj_vjp_args *v);

/* ---- bce with logits: max(x,0) - x·t + log1p(exp(-|x|)), one instruction ------------------------------------------------------------------------ */

static void d_bce(cj_vjp_args *v)
{
    cj_tensor *x = v->in[0], *t = v->in[1], *g = v->g[0];
    if (v->need[0]) v->gin[0] = cj__sum_to(cj_mul(g, cj_sub(cj_sigmoid(x), t)), x);
    if (v->need[1]) v->gin[1] = cj__sum_to(cj_neg(cj_mul(g, x)), t);
}
static bool define_bce(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    out[0] = cj_sub(cj_softplus(in[0]), cj_mul(in[0], in[1]));
    return true;
}

enum { CE, CE_BWD, BCE };
const cj_op cj__ops_loss[] = {
    [CE] = { .name = "cross_entropy",
             .family = "loss",
             .kind = CJ_COMPOSITE,
             .nin = 2,
             .nout = 3,
             .attr_size = sizeof(cj_ce_attrs),
             .save_in = 3,
             .save_out = 6,
             .infer = infer_ce,
             .run = run_ce,
             .vjp = d_ce,
             .define = define_ce },
    [CE_BWD] = { .name = "cross_entropy_backward",
                 .family = "loss",
                 .kind = CJ_INTERNAL,
                 .flags = CJ_OP_NOGRAD,
                 .nin = 5,
                 .nout = 1,
                 .attr_size = sizeof(cj_ce_attrs),
                 .infer = infer_ce_bwd,
                 .run = run_ce_bwd },
    [BCE] = { .name = "bce_with_logits",
              .family = "loss",
              .kind = CJ_PRIMITIVE,
              .flags = CJ_OP_QUICK,
              .nin = 2,
              .nout = 1,
              .ew = CJ_EW_BCE_LOGITS + 1,
              .save_in = 3,
              .infer = cj__ew_infer,
              .run = cj__ew_run_call,
              .vjp = d_bce,
              .jvp_rule = CJ_JVP_ELEMENTWISE,
              .define = define_bce },
};
CJ_OP_TABLE(loss);

static void d_ce(cj_vjp_args *v)
{
    if (!v->g[0] || !v->need[0]) return;
    cj_tensor *in[5] = { v->in[0], v->in[1], v->out[1], v->out[2], cj_contiguous(v->g[0]) };
    v->gin[0] = cj__apply(&cj__ops_loss[CE_BWD], v->attrs, in, 5);
}

cj_tensor *cj_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!logits || !target) return logits ? cj_fail(logits->ctx, CJ_EVALUE, "cross_entropy: the target is NULL") : CJ_POISON_OF(target);
    cj_ctx *c = logits->ctx;
    if (c->error || !cj__usable(c, "cross_entropy", 0, logits) || !cj__usable(c, "cross_entropy", 1, target)) return c->poison;
    cj_loss_opts o = opts ? *opts : (cj_loss_opts){ 0 };
    if (logits->ndim != target->ndim + 1)
        return cj_fail(c, CJ_ESHAPE, "cross_entropy: logits %s do not fit targets %s", cj__tensor_text(logits), cj__tensor_text(target));
    if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
        return cj_fail(c, CJ_EVALUE, "cross_entropy: label smoothing %g is outside [0, 1]", o.label_smoothing);
    cj_ce_attrs a = { .smooth = o.label_smoothing, .ignore = o.ignore_index ? o.ignore_index : -100, .reduction = (int32_t)o.reduction };
    cj_shape each = cj__shape(target);
    if (logits->ndim != 2) {
        int64_t n = logits->shape[logits->ndim - 1];
        logits = cj_reshape(logits, CJ_SHAPE(n ? logits->numel / n : 0, n));
        target = cj_reshape(target, CJ_SHAPE(target->numel));
    }
    if (target->dtype != CJ_I64 && !cj_dtype_is_float((cj_dtype)target->dtype)) target = cj_cast(target, CJ_I64);
    cj_tensor *in[2] = { cj_contiguous(logits), cj_contiguous(target) }, *out[3];
    cj__apply_n(c, &cj__ops_loss[CE], &a, in, 2, out);
    return o.reduction == CJ_NONE && each.ndim != 1 ? cj_reshape(out[0], each) : out[0];
}

static cj_tensor *reduced(cj_tensor *loss, const cj_loss_opts *o)
{
    cj_reduction r = o ? o->reduction : CJ_MEAN;
    return r == CJ_NONE ? loss : r == CJ_SUM ? cj_sum(loss, NULL) : cj_mean(loss, NULL);
}

cj_tensor *cj_nll_loss(cj_tensor *log_probs, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!log_probs || !target) return log_probs ? cj_fail(log_probs->ctx, CJ_EVALUE, "nll_loss: the target is NULL") : CJ_POISON_OF(target);
    cj_tensor *chosen = cj_gather(log_probs, -1, cj_unsqueeze(target, -1));
    return reduced(cj_neg(cj_squeeze(chosen, -1)), opts);
}

/* Losses of two equal shapes: broadcasting here is nearly always a mistake, so it is an error. */
static bool same_shape(const char *op, cj_tensor *a, cj_tensor *b)
{
    cj_tensor *some = a ? a : b;
    if (!some) return false;
    cj_ctx *c = some->ctx;
    if (c->error || !cj__usable(c, op, 0, a) || !cj__usable(c, op, 1, b)) return false;
    if (a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0) return true;
    return cj__error(c, CJ_ESHAPE, "%s: input %s and target %s have different shapes", op, cj__tensor_text(a), cj__tensor_text(b));
}

cj_tensor *cj_mse_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!same_shape("mse_loss", input, target)) return input ? input->ctx->poison : CJ_POISON_OF(target);
    return reduced(cj_square(cj_sub(input, target)), opts);
}
cj_tensor *cj_l1_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!same_shape("l1_loss", input, target)) return input ? input->ctx->poison : CJ_POISON_OF(target);
    return reduced(cj_abs(cj_sub(input, target)), opts);
}
cj_tensor *cj_bce_with_logits(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!same_shape("bce_with_logits", logits, target)) return logits ? logits->ctx->poison : CJ_POISON_OF(target);
    return reduced(cj__apply_ew(&cj__ops_loss[BCE], NULL, logits, target), opts);
}
cj_tensor *cj_bce_loss(cj_tensor *p, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!same_shape("bce_loss", p, target)) return p ? p->ctx->poison : CJ_POISON_OF(target);
    cj_tensor *log_p = cj_clamp(cj_log(p), -100, __builtin_inf()), *log_q = cj_clamp(cj_log1p(cj_neg(p)), -100, __builtin_inf());
    return reduced(cj_neg(cj_add(cj_mul(target, log_p), cj_mul(cj_add_scalar(cj_neg(target), 1), log_q))), opts);
}
