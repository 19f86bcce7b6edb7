/* Losses.  Cross-entropy with class targets has fused kernels; the others are a line or two of public operators, which plans fuse.  Negative log-likelihoods of
 * distributions with parameters are in likelihood.c.
 *
 * None of them overflows where its value is a float: logarithms of probabilities come from logits, and branches that are not chosen see harmless inputs, because
 * 0·inf in a derivative is NaN.
 */
#include <math.h>

#include "cajal/grad.h"
#include "ops/attrs.h"
#include "ops/compose.h"

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

/* ---- compositions: X the input, Y the target, M the margin y·f of a score f for a label y = ±1 ------------------------------------------------------- */

#define X (in[0])
#define Y (in[1])
#define M cj_mul(Y, X)
#define P(i) (((const cj_loss_attrs *)attrs)->p[i])
#define CHOICE (((const cj_loss_attrs *)attrs)->choice)
#define REDUCED(expression) cj__reduced((expression), ((const cj_loss_attrs *)attrs)->reduction)

static const cj_reduce_opts last_axis = { .axes = { 1, { -1 } } };

/* Regression, r = x - y. */

CJ_COMPOSE(mse_loss) { return REDUCED(cj_square(cj_sub(X, Y))); }
CJ_COMPOSE(squared_loss) { return REDUCED(cj_mul_scalar(cj_square(cj_sub(X, Y)), 0.5)); }
CJ_COMPOSE(l1_loss) { return REDUCED(cj_abs(cj_sub(X, Y))); }
/* r²/2 up to |r| = d, then the tangent d·(|r| - d/2) (Huber 1964); smooth_l1 is the same divided by d, and |r| for d = 0 */
static cj_tensor *huber(cj_tensor *x, cj_tensor *y, double d)
{
    cj_tensor *r = cj_sub(x, y), *size = cj_abs(r);
    return cj_where(cj_le_scalar(size, d), cj_mul_scalar(cj_square(r), 0.5), cj_mul_scalar(cj_add_scalar(size, -d / 2), d));
}
CJ_COMPOSE(huber_loss) { return REDUCED(huber(X, Y, P(0))); }
CJ_COMPOSE(smooth_l1_loss) { return REDUCED(P(0) == 0 ? cj_abs(cj_sub(X, Y)) : cj_mul_scalar(huber(X, Y, P(0)), 1 / P(0))); }
/* r·(tau - 1{r < 0}), r = y - x (Koenker & Bassett 1978) */
CJ_COMPOSE(pinball_loss)
{
    cj_tensor *r = cj_sub(Y, X);
    return REDUCED(cj_where(cj_lt_scalar(r, 0), cj_mul_scalar(r, P(0) - 1), cj_mul_scalar(r, P(0))));
}

/* Two classes, labels ±1. */

/* 1 where y·f <= 0, written with sign so that the derivative is 0 and not missing: 1 - (s + s²)/2 */
CJ_COMPOSE(zero_one_loss)
{
    cj_tensor *s = cj_sign(M);
    return REDUCED(cj_add_scalar(cj_mul_scalar(cj_add(s, cj_square(s)), -0.5), 1));
}
/* max(0, -y·f), with the derivative -y at a tie: the perceptron learns from it, too */
CJ_COMPOSE(perceptron_loss)
{
    cj_tensor *m = M;
    return REDUCED(cj_where(cj_le_scalar(m, 0), cj_neg(m), cj__const_like(m, 0)));
}
CJ_COMPOSE(hinge_loss) { return REDUCED(cj_relu(cj_add_scalar(cj_neg(M), P(0)))); }
CJ_COMPOSE(exponential_loss) { return REDUCED(cj_exp(cj_neg(M))); }
/* log(1 + e^(-y·f)): the logistic loss */
CJ_COMPOSE(soft_margin_loss) { return REDUCED(cj_softplus(cj_neg(M))); }
/* x for y = 1, max(0, margin - x) for y = -1 */
CJ_COMPOSE(hinge_embedding_loss) { return REDUCED(cj_where(cj_gt_scalar(Y, 0), X, cj_relu(cj_add_scalar(cj_neg(X), P(0))))); }

/* Probabilities. */

/* -w·(t·log p + (1 - t)·log(1 - p)), logarithms not below -100; weights in[2] */
CJ_COMPOSE(bce_loss)
{
    cj_tensor *one = cj__const_like(X, 1), *zero = cj__const_like(X, 0), *low = cj__const_like(X, -100);
    cj_tensor *above = cj_gt_scalar(X, 0), *below = cj_lt_scalar(X, 1);
    cj_tensor *log_p = cj_where(above, cj_clamp(cj_log(cj_where(above, X, one)), -100, INFINITY), low);
    cj_tensor *log_q = cj_where(below, cj_clamp(cj_log1p(cj_neg(cj_where(below, X, zero))), -100, INFINITY), low);
    cj_tensor *loss = cj_neg(cj_add(cj_mul(Y, log_p), cj_mul(cj_add_scalar(cj_neg(Y), 1), log_q)));
    return REDUCED(nin > 2 ? cj_mul(loss, in[2]) : loss);
}
/* w·((1 - t)·x + (1 + (q - 1)·t)·softplus(-x)); the choice says which of w (1) and q (2, the weight of positive cases) are there */
CJ_COMPOSE(bce_with_logits_weighted)
{
    cj_tensor *rest = cj_softplus(cj_neg(X));
    if (CHOICE & 2) rest = cj_mul(rest, cj_add_scalar(cj_mul(cj_add_scalar(in[nin - 1], -1), Y), 1));
    cj_tensor *loss = cj_add(cj_mul(cj_add_scalar(cj_neg(Y), 1), X), rest);
    return REDUCED(CHOICE & 1 ? cj_mul(loss, in[2]) : loss);
}
/* t·(log t - x) with x log-probabilities; 0·log 0 = 0.  Choice 1: the target is a logarithm, too; 2: the sum divided by the first axis. */
CJ_COMPOSE(kl_div)
{
    cj_tensor *loss;
    if (CHOICE & 1) {
        loss = cj_mul(cj_exp(Y), cj_sub(Y, X));
    } else {
        cj_tensor *some = cj_gt_scalar(Y, 0), *safe = cj_where(some, Y, cj__const_like(Y, 1));
        loss = cj_sub(cj_mul(Y, cj_log(safe)), cj_mul(Y, X));
    }
    if (CHOICE & 2) return cj_mul_scalar(cj_sum(loss, NULL), 1 / (double)X->shape[0]);
    return REDUCED(loss);
}

/* Classes: logits or log-probabilities [.., C]. */

/* The share of each row: weight[target], 0 where the target is ignored; *safe is a target that can be looked up. */
static cj_tensor *row_weights(cj_tensor *x, cj_tensor *target, cj_tensor *weight, int64_t ignore, cj_tensor **safe)
{
    cj_tensor *keep = cj_ne_scalar(target, (double)ignore), *share = cj_cast(keep, (cj_dtype)x->dtype);
    *safe = cj_where(keep, target, cj_zeros_like(target));
    if (!weight) return share;
    cj_tensor *chosen = cj_reshape(cj_index_select(weight, 0, cj_reshape(*safe, CJ_SHAPE(-1))), cj__shape(target));
    return cj_mul(share, chosen);
}
static cj_tensor *class_mean(cj_tensor *loss, cj_tensor *share, int64_t reduction)
{
    return reduction == CJ_MEAN ? cj_div(cj_sum(loss, NULL), cj_sum(share, NULL)) : cj__reduced(loss, reduction);
}
/* -w[target]·x[target]; the mean divides by the sum of the weights.  The choice is the ignored target. */
CJ_COMPOSE(nll_loss)
{
    const cj_loss_attrs *a = attrs;
    cj_tensor *safe, *share = row_weights(X, Y, nin > 2 ? in[2] : NULL, a->choice, &safe);
    cj_tensor *chosen = cj_squeeze(cj_gather(X, -1, cj_unsqueeze(safe, -1)), -1);
    return class_mean(cj_neg(cj_mul(chosen, share)), share, a->reduction);
}
/* (1 - s)·nll + s/C·sum of w_c·(-log p_c), s = p[0]; rows [n, C] */
CJ_COMPOSE(cross_entropy_weighted)
{
    const cj_loss_attrs *a = attrs;
    cj_tensor *safe, *share = row_weights(X, Y, in[2], a->choice, &safe), *log_p = cj_log_softmax(X, -1);
    cj_tensor *chosen = cj_squeeze(cj_gather(log_p, -1, cj_unsqueeze(safe, -1)), -1);
    cj_tensor *loss = cj_mul_scalar(cj_mul(chosen, share), a->p[0] - 1);
    if (a->p[0] != 0) {
        cj_tensor *all = cj_sum(cj_mul(log_p, in[2]), &last_axis), *keep = cj_cast(cj_ne_scalar(Y, (double)a->choice), (cj_dtype)X->dtype);
        loss = cj_sub(loss, cj_mul_scalar(cj_mul(all, keep), a->p[0] / (double)X->shape[1]));
    }
    return class_mean(loss, share, a->reduction);
}
/* -sum t·log softmax(x) per row, t smoothed by p[0] */
CJ_COMPOSE(soft_cross_entropy)
{
    double n = (double)X->shape[X->ndim - 1];
    cj_tensor *t = P(0) == 0 ? Y : cj_add_scalar(cj_mul_scalar(Y, 1 - P(0)), P(0) / n);
    return REDUCED(cj_neg(cj_sum(cj_mul(t, cj_log_softmax(X, -1)), &last_axis)));
}
/* sum over i != y of w_y·max(0, margin - x_y + x_i)^p / C; margin p[0], the power is the choice */
CJ_COMPOSE(multi_margin_loss)
{
    int64_t n = X->shape[X->ndim - 1];
    cj_tensor *chosen = cj_gather(X, -1, cj_unsqueeze(Y, -1));
    cj_tensor *gap = cj_relu(cj_add_scalar(cj_sub(X, chosen), P(0)));
    if (CHOICE == 2) gap = cj_square(gap);
    cj_tensor *others = cj_where(cj_eq_scalar(cj_one_hot(Y, n), 0), gap, cj__const_like(X, 0));
    cj_tensor *loss = cj_mul_scalar(cj_sum(others, &last_axis), 1 / (double)n);
    if (nin > 2) loss = cj_mul(loss, cj_reshape(cj_index_select(in[2], 0, cj_reshape(Y, CJ_SHAPE(-1))), cj__shape(Y)));
    return REDUCED(loss);
}
/* sum over targets j and others i of max(0, 1 - x_j + x_i) / C; a row of targets ends at its first negative number */
CJ_COMPOSE(multilabel_margin_loss)
{
    int64_t n = X->shape[X->ndim - 1];
    cj_tensor *at = cj_arange(X->ctx, 0, (double)n, 1, CJ_I64);
    cj_tensor *end =
        cj_min(cj_where(cj_lt_scalar(Y, 0), at, cj_add_scalar(at, (double)n)), &(cj_reduce_opts){ .axes = CJ_AXIS(-1), .keepdim = true });
    cj_tensor *listed = cj_lt(at, end), *hot = cj_one_hot(cj_where(listed, Y, cj_zeros_like(Y)), n); /* [.., place, class] */
    cj_tensor *member = cj_any(cj_logical_and(cj_gt_scalar(hot, 0), cj_unsqueeze(listed, -1)), &(cj_reduce_opts){ .axes = CJ_AXIS(-2) });
    cj_tensor *gap = cj_relu(cj_add_scalar(cj_sub(cj_unsqueeze(X, -2), cj_unsqueeze(X, -1)), 1)); /* [.., j, i] */
    cj_tensor *pair = cj_logical_and(cj_unsqueeze(member, -1), cj_logical_not(cj_unsqueeze(member, -2)));
    cj_tensor *sum = cj_sum(cj_where(pair, gap, cj__const_like(X, 0)), &(cj_reduce_opts){ .axes = CJ_AXES(-2, -1) });
    return REDUCED(cj_mul_scalar(sum, 1 / (double)n));
}
/* the mean over classes of w·bce(x, t), from logits */
CJ_COMPOSE(multilabel_soft_margin_loss)
{
    cj_tensor *each = cj_sub(cj_softplus(X), cj_mul(X, Y));
    return REDUCED(cj_mean(nin > 2 ? cj_mul(each, in[2]) : each, &last_axis));
}

/* Pairs and triples of vectors. */

/* 1 - cos(a, b) for y = 1, max(0, cos - margin) for y = -1 */
CJ_COMPOSE(cosine_embedding_loss)
{
    cj_tensor *aa = cj_add_scalar(cj_sum(cj_square(in[0]), &last_axis), 1e-12),
              *bb = cj_add_scalar(cj_sum(cj_square(in[1]), &last_axis), 1e-12);
    cj_tensor *cosine = cj_div(cj_sum(cj_mul(in[0], in[1]), &last_axis), cj_mul(cj_sqrt(aa), cj_sqrt(bb)));
    return REDUCED(cj_where(cj_gt_scalar(in[2], 0), cj_add_scalar(cj_neg(cosine), 1), cj_relu(cj_add_scalar(cosine, -P(0)))));
}
/* max(0, margin - y·(a - b)): a should rank above b for y = 1 */
CJ_COMPOSE(margin_ranking_loss) { return REDUCED(cj_relu(cj_add_scalar(cj_neg(cj_mul(in[2], cj_sub(in[0], in[1]))), P(0)))); }
/* |a - b + 1e-6|_p over the last axis; the constant keeps the derivative at a = b */
static cj_tensor *vector_distance(cj_tensor *a, cj_tensor *b, double p)
{
    cj_tensor *d = cj_add_scalar(cj_sub(a, b), 1e-6);
    if (p == 2) return cj_sqrt(cj_sum(cj_square(d), &last_axis));
    d = cj_abs(d);
    return p == 1 ? cj_sum(d, &last_axis) : cj_pow_scalar(cj_sum(cj_pow_scalar(d, p), &last_axis), 1 / p);
}
/* max(0, margin + |a - p| - |a - n|), anchor, positive, negative; choice 1: the nearer of |a - n| and |p - n| (Balntas et al. 2016) */
CJ_COMPOSE(triplet_margin_loss)
{
    cj_tensor *positive = vector_distance(in[0], in[1], P(1)), *negative = vector_distance(in[0], in[2], P(1));
    if (CHOICE) negative = cj_minimum(negative, vector_distance(in[1], in[2], P(1)));
    return REDUCED(cj_relu(cj_add_scalar(cj_sub(positive, negative), P(0))));
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------- */

#define COMPOSED(op_name, inputs) CJ_COMPOSITE_ROW(op_name, "loss", inputs, sizeof(cj_loss_attrs))

enum {
    CE,
    CE_BWD,
    BCE,
    MSE_LOSS,
    SQUARED_LOSS,
    L1_LOSS,
    HUBER_LOSS,
    SMOOTH_L1_LOSS,
    PINBALL_LOSS,
    ZERO_ONE_LOSS,
    PERCEPTRON_LOSS,
    HINGE_LOSS,
    EXPONENTIAL_LOSS,
    SOFT_MARGIN_LOSS,
    HINGE_EMBEDDING_LOSS,
    BCE_LOSS,
    BCE_WITH_LOGITS_WEIGHTED,
    KL_DIV,
    NLL_LOSS,
    CROSS_ENTROPY_WEIGHTED,
    SOFT_CROSS_ENTROPY,
    MULTI_MARGIN_LOSS,
    MULTILABEL_MARGIN_LOSS,
    MULTILABEL_SOFT_MARGIN_LOSS,
    COSINE_EMBEDDING_LOSS,
    MARGIN_RANKING_LOSS,
    TRIPLET_MARGIN_LOSS
};
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
    [MSE_LOSS] = COMPOSED(mse_loss, 2),
    [SQUARED_LOSS] = COMPOSED(squared_loss, 2),
    [L1_LOSS] = COMPOSED(l1_loss, 2),
    [HUBER_LOSS] = COMPOSED(huber_loss, 2),
    [SMOOTH_L1_LOSS] = COMPOSED(smooth_l1_loss, 2),
    [PINBALL_LOSS] = COMPOSED(pinball_loss, 2),
    [ZERO_ONE_LOSS] = COMPOSED(zero_one_loss, 2),
    [PERCEPTRON_LOSS] = COMPOSED(perceptron_loss, 2),
    [HINGE_LOSS] = COMPOSED(hinge_loss, 2),
    [EXPONENTIAL_LOSS] = COMPOSED(exponential_loss, 2),
    [SOFT_MARGIN_LOSS] = COMPOSED(soft_margin_loss, 2),
    [HINGE_EMBEDDING_LOSS] = COMPOSED(hinge_embedding_loss, 2),
    [BCE_LOSS] = COMPOSED(bce_loss, -1),
    [BCE_WITH_LOGITS_WEIGHTED] = COMPOSED(bce_with_logits_weighted, -1),
    [KL_DIV] = COMPOSED(kl_div, 2),
    [NLL_LOSS] = COMPOSED(nll_loss, -1),
    [CROSS_ENTROPY_WEIGHTED] = COMPOSED(cross_entropy_weighted, 3),
    [SOFT_CROSS_ENTROPY] = COMPOSED(soft_cross_entropy, 2),
    [MULTI_MARGIN_LOSS] = COMPOSED(multi_margin_loss, -1),
    [MULTILABEL_MARGIN_LOSS] = COMPOSED(multilabel_margin_loss, 2),
    [MULTILABEL_SOFT_MARGIN_LOSS] = COMPOSED(multilabel_soft_margin_loss, -1),
    [COSINE_EMBEDDING_LOSS] = COMPOSED(cosine_embedding_loss, 3),
    [MARGIN_RANKING_LOSS] = COMPOSED(margin_ranking_loss, 3),
    [TRIPLET_MARGIN_LOSS] = COMPOSED(triplet_margin_loss, 3),
};
CJ_OP_TABLE(loss);

static void d_ce(cj_vjp_args *v)
{
    if (!v->g[0] || !v->need[0]) return;
    cj_tensor *in[5] = { v->in[0], v->in[1], v->out[1], v->out[2], cj_contiguous(v->g[0]) };
    v->gin[0] = cj__apply(&cj__ops_loss[CE_BWD], v->attrs, in, 5);
}

/* One weight per class; false after an error. */
static bool class_weights(cj_ctx *c, const char *op, cj_tensor *weight, int64_t classes)
{
    if (!cj__usable(c, op, 2, weight)) return false;
    if (weight->ndim == 1 && weight->shape[0] == classes && cj_dtype_is_float((cj_dtype)weight->dtype)) return true;
    return cj__error(c, CJ_ESHAPE, "%s: the weight is %s %s, a float for each of %lld classes expected", op,
                     cj_dtype_name((cj_dtype)weight->dtype), cj__tensor_text(weight), (long long)classes);
}

/* A row of which some operator inside looks the targets up: an error speaks of `op` and its targets. */
static cj_tensor *apply_as(const char *op, int row, const cj_loss_attrs *a, cj_tensor *const *in, int n)
{
    cj_ctx *c = in[0]->ctx;
    const cj_called was = cj__called(c, op, "target");
    return cj__called_done(c, was, cj__apply(&cj__ops_loss[row], a, in, n));
}

cj_tensor *cj_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    if (!logits || !target) return CJ_MISSING("cross_entropy", logits, target);
    cj_ctx *c = logits->ctx;
    if (c->error || !cj__usable(c, "cross_entropy", 0, logits) || !cj__usable(c, "cross_entropy", 1, target)) return c->poison;
    cj_loss_opts o = opts ? *opts : (cj_loss_opts){ 0 };
    if (logits->ndim != target->ndim + 1 || memcmp(logits->shape, target->shape, target->ndim * sizeof target->shape[0]) != 0)
        return cj_fail(c, CJ_ESHAPE, "cross_entropy: logits %s do not fit targets %s", cj__tensor_text(logits), cj__tensor_text(target));
    if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
        return cj_fail(c, CJ_EVALUE, "cross_entropy: label smoothing %g is outside [0, 1]", o.label_smoothing);
    int64_t classes = logits->ndim ? logits->shape[logits->ndim - 1] : 0;
    if (o.smooth_others && o.label_smoothing != 0) { /* eps/(m-1) elsewhere is eps·m/(m-1) spread over all m */
        if (classes < 2) return cj_fail(c, CJ_EVALUE, "cross_entropy: smooth_others with %lld classes", (long long)classes);
        o.label_smoothing *= (double)classes / (double)(classes - 1);
    }
    cj_ce_attrs a = { .smooth = o.label_smoothing, .ignore = o.ignore_index ? o.ignore_index : -100, .reduction = (int32_t)o.reduction };
    cj_shape each = cj__shape(target);
    if (logits->ndim != 2) {
        int64_t n = logits->shape[logits->ndim - 1];
        logits = cj_reshape(logits, CJ_SHAPE(n ? logits->numel / n : 0, n));
        target = cj_reshape(target, CJ_SHAPE(target->numel));
    }
    if (target->dtype != CJ_I64 && !cj_dtype_is_float((cj_dtype)target->dtype)) target = cj_cast(target, CJ_I64);
    cj_tensor *in[3] = { cj_contiguous(logits), cj_contiguous(target), o.weight }, *out[3];
    if (o.weight) {
        if (!class_weights(c, "cross_entropy", o.weight, classes)) return c->poison;
        cj_loss_attrs w = { a.reduction, a.ignore, { a.smooth } };
        out[0] = apply_as("cross_entropy", CROSS_ENTROPY_WEIGHTED, &w, in, 3);
    } else {
        cj__apply_n(c, &cj__ops_loss[CE], &a, in, 2, out);
    }
    return o.reduction == CJ_NONE && each.ndim != 1 ? cj_reshape(out[0], each) : out[0];
}

/* ---- the functions: defaults and checks ----------------------------------------------------------------------------------------------------------------- */

/* Inputs of one shape. */
static cj_tensor *alike(int row, cj_tensor *const *in, int n, cj_loss_attrs a)
{
    return cj__loss_inputs(cj__ops_loss[row].name, in, n, a.reduction) ? cj__apply(&cj__ops_loss[row], &a, in, n) : cj__poison_of(in, n);
}
/* Two tensors of one shape and options without weights. */
static cj_tensor *plain(int row, cj_tensor *x, cj_tensor *y, const cj_loss_opts *o, double parameter)
{
    if (x && o && (o->weight || o->pos_weight)) return cj_fail(x->ctx, CJ_EVALUE, "%s: this loss takes no weights", cj__ops_loss[row].name);
    return alike(row, (cj_tensor *[]){ x, y }, 2, (cj_loss_attrs){ o ? (int64_t)o->reduction : CJ_MEAN, 0, { parameter } });
}

cj_tensor *cj_mse_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts) { return plain(MSE_LOSS, input, target, opts, 0); }
cj_tensor *cj_squared_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts)
{
    return plain(SQUARED_LOSS, input, target, opts, 0);
}
cj_tensor *cj_l1_loss(cj_tensor *input, cj_tensor *target, const cj_loss_opts *opts) { return plain(L1_LOSS, input, target, opts, 0); }
cj_tensor *cj_huber_loss(cj_tensor *input, cj_tensor *target, const cj_huber_opts *opts)
{
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { cj__option(opts ? opts->delta : 0, 1) } };
    if (input && !(a.p[0] > 0)) return cj_fail(input->ctx, CJ_EVALUE, "huber_loss: delta is %g, a positive number expected", a.p[0]);
    return alike(HUBER_LOSS, (cj_tensor *[]){ input, target }, 2, a);
}
cj_tensor *cj_smooth_l1_loss(cj_tensor *input, cj_tensor *target, const cj_smooth_l1_opts *opts)
{
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { cj__option(opts ? opts->beta : 0, 1) } };
    if (input && !(a.p[0] >= 0)) return cj_fail(input->ctx, CJ_EVALUE, "smooth_l1_loss: beta is %g, 0 or more expected", a.p[0]);
    return alike(SMOOTH_L1_LOSS, (cj_tensor *[]){ input, target }, 2, a);
}
cj_tensor *cj_pinball_loss(cj_tensor *input, cj_tensor *target, double tau, const cj_loss_opts *opts)
{
    if (input && !(tau >= 0 && tau <= 1))
        return cj_fail(input->ctx, CJ_EVALUE, "pinball_loss: tau is %g, a number in [0, 1] expected", tau);
    return plain(PINBALL_LOSS, input, target, opts, tau);
}

cj_tensor *cj_zero_one_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts)
{
    return plain(ZERO_ONE_LOSS, score, target, opts, 0);
}
cj_tensor *cj_perceptron_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts)
{
    return plain(PERCEPTRON_LOSS, score, target, opts, 0);
}
cj_tensor *cj_exponential_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts)
{
    return plain(EXPONENTIAL_LOSS, score, target, opts, 0);
}
cj_tensor *cj_soft_margin_loss(cj_tensor *score, cj_tensor *target, const cj_loss_opts *opts)
{
    return plain(SOFT_MARGIN_LOSS, score, target, opts, 0);
}
static cj_tensor *with_margin(int row, cj_tensor *const *in, int n, const cj_margin_opts *o, double usual)
{
    return alike(row, in, n, (cj_loss_attrs){ o ? (int64_t)o->reduction : CJ_MEAN, 0, { cj__option(o ? o->margin : 0, usual) } });
}
cj_tensor *cj_hinge_loss(cj_tensor *score, cj_tensor *target, const cj_margin_opts *opts)
{
    return with_margin(HINGE_LOSS, (cj_tensor *[]){ score, target }, 2, opts, 1);
}
cj_tensor *cj_hinge_embedding_loss(cj_tensor *x, cj_tensor *target, const cj_margin_opts *opts)
{
    return with_margin(HINGE_EMBEDDING_LOSS, (cj_tensor *[]){ x, target }, 2, opts, 1);
}
cj_tensor *cj_margin_ranking_loss(cj_tensor *a, cj_tensor *b, cj_tensor *target, const cj_margin_opts *opts)
{
    return with_margin(MARGIN_RANKING_LOSS, (cj_tensor *[]){ a, b, target }, 3, opts, 0);
}

/* A weight that broadcasts to x; false after an error. */
static bool weight_fits(const char *op, cj_tensor *x, cj_tensor *weight, int i)
{
    cj_ctx *c = x->ctx;
    int n;
    int64_t shape[CJ_MAX_DIMS];
    if (c->error || !cj__usable(c, op, i, weight)) return false;
    if (cj__broadcast(x->ndim, x->shape, weight->ndim, weight->shape, &n, shape) && n == x->ndim &&
        memcmp(shape, x->shape, (size_t)n * sizeof *shape) == 0)
        return true;
    return cj__error(c, CJ_ESHAPE, "%s: weight %s does not broadcast to input %s", op, cj__tensor_text(weight), cj__tensor_text(x));
}
cj_tensor *cj_bce_with_logits(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    cj_loss_opts o = opts ? *opts : (cj_loss_opts){ 0 };
    cj_tensor *in[4] = { logits, target };
    if (!cj__loss_inputs("bce_with_logits", in, 2, o.reduction)) return cj__poison_of(in, 2);
    if (!o.weight && !o.pos_weight) return cj__reduced(cj__apply_ew(&cj__ops_loss[BCE], NULL, logits, target), o.reduction);
    int n = 2;
    for (int k = 0; k < 2; k++) {
        cj_tensor *w = k ? o.pos_weight : o.weight;
        if (w && !weight_fits("bce_with_logits", logits, w, n)) return logits->ctx->poison;
        if (w) in[n++] = w;
    }
    cj_loss_attrs a = { o.reduction, (o.weight ? 1 : 0) | (o.pos_weight ? 2 : 0), { 0 } };
    return apply_as("bce_with_logits", BCE_WITH_LOGITS_WEIGHTED, &a, in, n);
}
cj_tensor *cj_bce_loss(cj_tensor *p, cj_tensor *target, const cj_loss_opts *opts)
{
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { 0 } };
    cj_tensor *in[3] = { p, target, opts ? opts->weight : NULL };
    if (!cj__loss_inputs("bce_loss", in, 2, a.reduction)) return cj__poison_of(in, 2);
    if (opts && opts->pos_weight) return cj_fail(p->ctx, CJ_EVALUE, "bce_loss: pos_weight belongs to bce_with_logits");
    if (in[2] && !weight_fits("bce_loss", p, in[2], 2)) return p->ctx->poison;
    return cj__apply(&cj__ops_loss[BCE_LOSS], &a, in, in[2] ? 3 : 2);
}
cj_tensor *cj_kl_div(cj_tensor *log_probs, cj_tensor *target, const cj_kl_opts *opts)
{
    cj_kl_opts o = opts ? *opts : (cj_kl_opts){ 0 };
    if (log_probs && o.batch_mean && (log_probs->flags & CJ_T_POISON) == 0 && (log_probs->ndim == 0 || log_probs->shape[0] == 0))
        return cj_fail(log_probs->ctx, CJ_ESHAPE, "kl_div: %s has no first axis to divide by", cj__tensor_text(log_probs));
    cj_loss_attrs a = { o.reduction, (o.log_target ? 1 : 0) | (o.batch_mean ? 2 : 0), { 0 } };
    return alike(KL_DIV, (cj_tensor *[]){ log_probs, target }, 2, a);
}

/* Scores [.., C] and class targets [..]. */
static bool class_inputs(const char *op, cj_tensor *x, cj_tensor *target, cj_tensor *weight, int64_t reduction)
{
    if (!cj__given(op, (cj_tensor *[]){ x, target }, 2) || !cj__loss_inputs(op, &x, 1, reduction)) return false;
    cj_ctx *c = x->ctx;
    if (target->dtype != CJ_I64)
        return cj__error(c, CJ_EDTYPE, "%s: targets are %s, i64 expected", op, cj_dtype_name((cj_dtype)target->dtype));
    if (x->ndim != target->ndim + 1 || memcmp(x->shape, target->shape, target->ndim * sizeof x->shape[0]) != 0)
        return cj__error(c, CJ_ESHAPE, "%s: scores %s do not fit targets %s", op, cj__tensor_text(x), cj__tensor_text(target));
    return !weight || class_weights(x->ctx, op, weight, x->shape[x->ndim - 1]);
}
cj_tensor *cj_nll_loss(cj_tensor *log_probs, cj_tensor *target, const cj_loss_opts *opts)
{
    cj_loss_opts o = opts ? *opts : (cj_loss_opts){ 0 };
    cj_tensor *in[3] = { log_probs, target, o.weight };
    if (!class_inputs("nll_loss", log_probs, target, o.weight, o.reduction)) return cj__poison_of(in, 2);
    cj_loss_attrs a = { o.reduction, o.ignore_index ? o.ignore_index : -100, { 0 } };
    return apply_as("nll_loss", NLL_LOSS, &a, in, o.weight ? 3 : 2);
}
cj_tensor *cj_multi_margin_loss(cj_tensor *scores, cj_tensor *target, const cj_margin_opts *opts)
{
    cj_margin_opts o = opts ? *opts : (cj_margin_opts){ 0 };
    cj_tensor *in[3] = { scores, target, o.weight };
    if (!class_inputs("multi_margin_loss", scores, target, o.weight, o.reduction)) return cj__poison_of(in, 2);
    if (o.p != 0 && o.p != 1 && o.p != 2) return cj_fail(scores->ctx, CJ_EVALUE, "multi_margin_loss: p is %g, 1 or 2 expected", o.p);
    cj_loss_attrs a = { o.reduction, o.p == 2 ? 2 : 1, { cj__option(o.margin, 1) } };
    return apply_as("multi_margin_loss", MULTI_MARGIN_LOSS, &a, in, o.weight ? 3 : 2);
}
/* Scores and targets of one shape, classes last. */
static cj_tensor *rows_alike(int row, cj_tensor *x, cj_tensor *target, cj_tensor *weight, cj_loss_attrs a)
{
    cj_tensor *in[3] = { x, target, weight };
    const char *op = cj__ops_loss[row].name;
    if (!cj__loss_inputs(op, in, 2, a.reduction) || !x) return cj__poison_of(in, 2);
    if (x->ndim == 0 || x->shape[x->ndim - 1] == 0)
        return cj_fail(x->ctx, CJ_ESHAPE, "%s: input %s has no classes", op, cj__tensor_text(x));
    if (weight && !class_weights(x->ctx, op, weight, x->shape[x->ndim - 1])) return x->ctx->poison;
    return apply_as(op, row, &a, in, weight ? 3 : 2);
}
cj_tensor *cj_soft_cross_entropy(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    cj_loss_opts o = opts ? *opts : (cj_loss_opts){ 0 };
    if (logits && (o.weight || o.pos_weight)) return cj_fail(logits->ctx, CJ_EVALUE, "soft_cross_entropy: this loss takes no weights");
    if (logits && !(o.label_smoothing >= 0 && o.label_smoothing <= 1))
        return cj_fail(logits->ctx, CJ_EVALUE, "soft_cross_entropy: label smoothing %g is outside [0, 1]", o.label_smoothing);
    return rows_alike(SOFT_CROSS_ENTROPY, logits, target, NULL, (cj_loss_attrs){ o.reduction, 0, { o.label_smoothing } });
}
cj_tensor *cj_multilabel_margin_loss(cj_tensor *scores, cj_tensor *target, const cj_loss_opts *opts)
{
    if (cj__given("multilabel_margin_loss", (cj_tensor *[]){ scores, target }, 2) && target->dtype != CJ_I64)
        return cj_fail(scores->ctx, CJ_EDTYPE, "multilabel_margin_loss: targets are %s, i64 expected",
                       cj_dtype_name((cj_dtype)target->dtype));
    return rows_alike(MULTILABEL_MARGIN_LOSS, scores, target, NULL, (cj_loss_attrs){ opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { 0 } });
}
cj_tensor *cj_multilabel_soft_margin_loss(cj_tensor *logits, cj_tensor *target, const cj_loss_opts *opts)
{
    cj_loss_attrs a = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { 0 } };
    return rows_alike(MULTILABEL_SOFT_MARGIN_LOSS, logits, target, opts ? opts->weight : NULL, a);
}

cj_tensor *cj_cosine_embedding_loss(cj_tensor *a, cj_tensor *b, cj_tensor *target, const cj_margin_opts *opts)
{
    cj_loss_attrs attrs = { opts ? (int64_t)opts->reduction : CJ_MEAN, 0, { cj__option(opts ? opts->margin : 0, 0) } };
    cj_tensor *in[3] = { a, b, target };
    if (!cj__loss_inputs("cosine_embedding_loss", in, 2, attrs.reduction)) return cj__poison_of(in, 3);
    if (!cj__usable(a->ctx, "cosine_embedding_loss", 2, target)) return a->ctx->poison;
    if (a->ndim == 0 || target->ndim != a->ndim - 1 || memcmp(a->shape, target->shape, target->ndim * sizeof a->shape[0]) != 0)
        return cj_fail(a->ctx, CJ_ESHAPE, "cosine_embedding_loss: vectors %s do not fit targets %s", cj__tensor_text(a),
                       cj__tensor_text(target));
    return cj__apply(&cj__ops_loss[COSINE_EMBEDDING_LOSS], &attrs, in, 3);
}
cj_tensor *cj_triplet_margin_loss(cj_tensor *anchor, cj_tensor *positive, cj_tensor *negative, const cj_triplet_opts *opts)
{
    cj_triplet_opts o = opts ? *opts : (cj_triplet_opts){ 0 };
    cj_loss_attrs a = { o.reduction, o.swap, { cj__option(o.margin, 1), cj__option(o.p, 2) } };
    cj_tensor *in[3] = { anchor, positive, negative };
    if (!cj__loss_inputs("triplet_margin_loss", in, 3, a.reduction)) return cj__poison_of(in, 3);
    if (anchor->ndim == 0) return cj_fail(anchor->ctx, CJ_ESHAPE, "triplet_margin_loss: 0-d inputs are no vectors");
    if (!(a.p[1] >= 1 && isfinite(a.p[1])))
        return cj_fail(anchor->ctx, CJ_EVALUE, "triplet_margin_loss: p is %g, 1 or more expected", a.p[1]);
    return cj__apply(&cj__ops_loss[TRIPLET_MARGIN_LOSS], &a, in, 3);
}
