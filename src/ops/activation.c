/* Activations.  First those with one fused instruction: the definition in public operators, the forward kernel, and the fused derivative.  Then those that are
 * their definition: a line or two of public operators, which plans fuse.  Names, defaults and derivatives at the corners are PyTorch's.
 */
#include <math.h>

#include "cajal/grad.h"
#include "ops/compose.h"

#define X (in[0])

/* x·Phi(x) = x·(1 + erf(x/√2))/2 */
static bool define_gelu(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    cj_tensor *phi = cj_mul_scalar(cj_add_scalar(cj_erf(cj_mul_scalar(X, 0.70710678118654752440)), 1), 0.5);
    out[0] = cj_mul(X, phi);
    return true;
}

/* x·(1 + tanh(√(2/π)(x + 0.044715 x³)))/2 */
static bool define_gelu_tanh(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    cj_tensor *inner = cj_mul_scalar(cj_add(X, cj_mul_scalar(cj_pow_scalar(X, 3), 0.044715)), 0.79788456080286535588);
    out[0] = cj_mul(X, cj_mul_scalar(cj_add_scalar(cj_tanh(inner), 1), 0.5));
    return true;
}

static bool define_silu(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    out[0] = cj_mul(X, cj_sigmoid(X));
    return true;
}

/* max(x, 0) + log1p(exp(-|x|)) has a kink at 0 term by term, so the definition that is differentiated is -log sigmoid(-x), whose derivative is
 * written out: d softplus = sigmoid. */
static bool define_softplus(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    out[0] = cj_add(cj_relu(X), cj_log1p(cj_exp(cj_neg(cj_abs(X)))));
    return true;
}

static bool define_log_sigmoid(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    out[0] = cj_neg(cj_softplus(cj_neg(X)));
    return true;
}

static void d_gelu(cj_vjp_args *v) { v->gin[0] = cj__ew_bwd(CJ_EW_GELU_BWD, v->in[0], v->g[0]); }
static void d_gelu_tanh(cj_vjp_args *v) { v->gin[0] = cj__ew_bwd(CJ_EW_GELU_TANH_BWD, v->in[0], v->g[0]); }
static void d_silu(cj_vjp_args *v) { v->gin[0] = cj__ew_bwd(CJ_EW_SILU_BWD, v->in[0], v->g[0]); }
static void d_softplus(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], cj_sigmoid(v->in[0])); }
static void d_log_sigmoid(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], cj_sigmoid(cj_neg(v->in[0]))); }

/* ---- compositions: X the input, P(i) the parameters --------------------------------------------------------------------------------------------- */

#define P(i) (((const double *)attrs)[i])

/* Steps.  Both are written with sign, so that their derivative is 0 and not missing. */

/* 0 below 0 and for NaN, P(0) at 0, 1 above */
CJ_COMPOSE(heaviside)
{
    return cj_where(cj_eq_scalar(X, 0), cj__const_like(X, P(0)), cj_floor(cj_mul_scalar(cj_add_scalar(cj_sign(X), 1), 0.5)));
}
/* s + (1 - s²): +1 also at 0 */
CJ_COMPOSE(hard_sign)
{
    cj_tensor *s = cj_sign(X);
    return cj_add(s, cj_add_scalar(cj_neg(cj_square(s)), 1));
}

/* Pieces of straight lines. */

CJ_COMPOSE(hardtanh) { return cj_clamp(X, P(0), P(1)); }
CJ_COMPOSE(relu6) { return cj_clamp(X, 0, 6); }
CJ_COMPOSE(leaky_relu) { return cj_where(cj_gt_scalar(X, 0), X, cj_mul_scalar(X, P(0))); }
/* x above 0, weight·x below; inputs x and the weight, shaped to broadcast */
CJ_COMPOSE(prelu) { return cj_where(cj_gt_scalar(X, 0), X, cj_mul(in[1], X)); }
CJ_COMPOSE(hardsigmoid) { return cj_mul_scalar(cj_clamp(cj_add_scalar(X, 3), 0, 6), 1.0 / 6); }
CJ_COMPOSE(hardswish) { return cj_mul(X, cj_mul_scalar(cj_clamp(cj_add_scalar(X, 3), 0, 6), 1.0 / 6)); }
/* 0 within ±P(0), moved by it towards 0 outside */
CJ_COMPOSE(softshrink) { return cj_where(cj_le_scalar(cj_abs(X), P(0)), cj__const_like(X, 0), cj_sub(X, cj_mul_scalar(cj_sign(X), P(0)))); }
CJ_COMPOSE(hardshrink) { return cj_where(cj_le_scalar(cj_abs(X), P(0)), cj__const_like(X, 0), X); }
CJ_COMPOSE(threshold) { return cj_where(cj_le_scalar(X, P(0)), cj__const_like(X, P(1)), X); }

/* Exponentials.  They see min(x, 0), so that nothing overflows in the half that is not chosen; a selection, because a clamp has no derivative at 0. */

static cj_tensor *negative_part(cj_tensor *x) { return cj_where(cj_gt_scalar(x, 0), cj__const_like(x, 0), x); }
static cj_tensor *exponential_unit(cj_tensor *x, double alpha, double width)
{
    cj_tensor *below = cj_mul_scalar(cj_expm1(cj_mul_scalar(negative_part(x), 1 / width)), alpha);
    return cj_where(cj_gt_scalar(x, 0), x, below);
}
/* alpha·(e^x - 1) below 0 (Clevert et al. 2015) */
CJ_COMPOSE(elu) { return exponential_unit(X, P(0), 1); }
/* alpha·(e^(x/alpha) - 1) below 0: slope 1 at 0 for every alpha (Barron 2017) */
CJ_COMPOSE(celu) { return exponential_unit(X, P(0), P(0)); }
/* elu with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017) */
CJ_COMPOSE(selu) { return cj_mul_scalar(exponential_unit(X, 1.6732632423543772848170429916717, 1), 1.0507009873554804934193349852946); }
/* log(1 + e^(beta·x)) / beta, and x itself from beta·x = threshold on, if one is given */
CJ_COMPOSE(softplus_beta)
{
    cj_tensor *z = cj_mul_scalar(X, P(0)), *y = cj_mul_scalar(cj_softplus(z), 1 / P(0));
    return P(1) == 0 ? y : cj_where(cj_gt_scalar(z, P(1)), X, y);
}
/* x·tanh(softplus(x)) (Misra 2019) */
CJ_COMPOSE(mish) { return cj_mul(X, cj_tanh(cj_softplus(X))); }
CJ_COMPOSE(softsign) { return cj_div(X, cj_add_scalar(cj_abs(X), 1)); }
CJ_COMPOSE(tanhshrink) { return cj_sub(X, cj_tanh(X)); }
/* log(x / (1 - x)), the inverse of sigmoid; with eps, x is clamped to [eps, 1 - eps] first */
CJ_COMPOSE(logit)
{
    cj_tensor *p = P(0) > 0 ? cj_clamp(X, P(0), 1 - P(0)) : X;
    return cj_sub(cj_log(p), cj_log1p(cj_neg(p)));
}

/* Along an axis, whose number is the attribute. */

typedef struct axis_attrs {
    int64_t axis, group;
    double temperature;
} axis_attrs;
#define AXIS ((int)((const axis_attrs *)attrs)->axis)
#define TEMPERATURE (((const axis_attrs *)attrs)->temperature)

/* Gated units: the two halves a and b of the axis (Dauphin et al. 2016; Shazeer 2020). */
static cj_tensor *half(cj_tensor *x, int axis, int which)
{
    int64_t n = x->shape[axis] / 2;
    return cj_slice(x, axis, which * n, (which + 1) * n, 1);
}
CJ_COMPOSE(glu) { return cj_mul(half(X, AXIS, 0), cj_sigmoid(half(X, AXIS, 1))); }
CJ_COMPOSE(reglu) { return cj_mul(cj_relu(half(X, AXIS, 0)), half(X, AXIS, 1)); }
CJ_COMPOSE(geglu) { return cj_mul(cj_gelu(half(X, AXIS, 0), NULL), half(X, AXIS, 1)); }
CJ_COMPOSE(swiglu) { return cj_mul(cj_silu(half(X, AXIS, 0)), half(X, AXIS, 1)); }

/* The largest of every group of neighbours (Goodfellow et al. 2013). */
CJ_COMPOSE(maxout)
{
    const axis_attrs *a = attrs;
    cj_shape s = { .ndim = X->ndim + 1 };
    for (int d = 0; d < X->ndim; d++) s.dim[d > AXIS ? d + 1 : d] = X->shape[d];
    s.dim[AXIS] = X->shape[AXIS] / a->group;
    s.dim[AXIS + 1] = a->group;
    return cj_max(cj_reshape(X, s), &(cj_reduce_opts){ .axes = CJ_AXIS(AXIS + 1) });
}
CJ_COMPOSE(softmin) { return cj_softmax(cj_neg(X), AXIS); }
/* e^(x_k/T) / sum_j e^(x_j/T) */
CJ_COMPOSE(softmax_temperature) { return cj_softmax(cj_mul_scalar(X, 1 / TEMPERATURE), AXIS); }
/* softmax((x + g)/T) with Gumbel noise g, input 2 (Jang et al. 2016; Maddison et al. 2016).  Hard (group 1): one-hot forward, the soft derivative backward. */
CJ_COMPOSE(gumbel_softmax)
{
    const axis_attrs *a = attrs;
    cj_tensor *y = cj_softmax(cj_mul_scalar(cj_add(X, in[1]), 1 / TEMPERATURE), AXIS);
    if (!a->group) return y;
    cj_reduce_opts along = { .axes = CJ_AXIS(AXIS), .keepdim = true };
    cj_tensor *hot = cj_cast(cj_eq(cj_detach(y), cj_max(cj_detach(y), &along)), (cj_dtype)y->dtype);
    return cj_add(cj_sub(hot, cj_detach(y)), y);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------ */

#define ROW(op_name, CODE, op_kind, definition, rule)                                                                                      \
    {                                                                                                                                      \
        .name = op_name, .family = "activation", .kind = op_kind, .flags = CJ_OP_QUICK, .nin = 1, .nout = 1, .ew = CJ_EW_##CODE + 1,       \
        .save_in = 1, .infer = cj__ew_infer, .run = cj__ew_run_call, .vjp = rule, .jvp_rule = CJ_JVP_ELEMENTWISE, .define = definition     \
    }

#define COMPOSED(op_name, inputs, attribute_bytes) CJ_COMPOSITE_ROW(op_name, "activation", inputs, attribute_bytes)

enum {
    GELU,
    GELU_TANH,
    SILU,
    SOFTPLUS,
    LOG_SIGMOID,
    HEAVISIDE,
    HARD_SIGN,
    HARDTANH,
    RELU6,
    LEAKY_RELU,
    PRELU,
    HARDSIGMOID,
    HARDSWISH,
    SOFTSHRINK,
    HARDSHRINK,
    THRESHOLD,
    ELU,
    CELU,
    SELU,
    SOFTPLUS_BETA,
    MISH,
    SOFTSIGN,
    TANHSHRINK,
    LOGIT,
    GLU,
    REGLU,
    GEGLU,
    SWIGLU,
    MAXOUT,
    SOFTMIN,
    SOFTMAX_TEMPERATURE,
    GUMBEL_SOFTMAX
};
const cj_op cj__ops_activation[] = {
    [GELU] = ROW("gelu", GELU, CJ_COMPOSITE, define_gelu, d_gelu),
    [GELU_TANH] = ROW("gelu_tanh", GELU_TANH, CJ_COMPOSITE, define_gelu_tanh, d_gelu_tanh),
    [SILU] = ROW("silu", SILU, CJ_COMPOSITE, define_silu, d_silu),
    [SOFTPLUS] = ROW("softplus", SOFTPLUS, CJ_PRIMITIVE, define_softplus, d_softplus),
    [LOG_SIGMOID] = ROW("log_sigmoid", LOGSIGMOID, CJ_PRIMITIVE, define_log_sigmoid, d_log_sigmoid),
    [HEAVISIDE] = COMPOSED(heaviside, 1, sizeof(double)),
    [HARD_SIGN] = COMPOSED(hard_sign, 1, 0),
    [HARDTANH] = COMPOSED(hardtanh, 1, 2 * sizeof(double)),
    [RELU6] = COMPOSED(relu6, 1, 0),
    [LEAKY_RELU] = COMPOSED(leaky_relu, 1, sizeof(double)),
    [PRELU] = COMPOSED(prelu, 2, 0),
    [HARDSIGMOID] = COMPOSED(hardsigmoid, 1, 0),
    [HARDSWISH] = COMPOSED(hardswish, 1, 0),
    [SOFTSHRINK] = COMPOSED(softshrink, 1, sizeof(double)),
    [HARDSHRINK] = COMPOSED(hardshrink, 1, sizeof(double)),
    [THRESHOLD] = COMPOSED(threshold, 1, 2 * sizeof(double)),
    [ELU] = COMPOSED(elu, 1, sizeof(double)),
    [CELU] = COMPOSED(celu, 1, sizeof(double)),
    [SELU] = COMPOSED(selu, 1, 0),
    [SOFTPLUS_BETA] = COMPOSED(softplus_beta, 1, 2 * sizeof(double)),
    [MISH] = COMPOSED(mish, 1, 0),
    [SOFTSIGN] = COMPOSED(softsign, 1, 0),
    [TANHSHRINK] = COMPOSED(tanhshrink, 1, 0),
    [LOGIT] = COMPOSED(logit, 1, sizeof(double)),
    [GLU] = COMPOSED(glu, 1, sizeof(axis_attrs)),
    [REGLU] = COMPOSED(reglu, 1, sizeof(axis_attrs)),
    [GEGLU] = COMPOSED(geglu, 1, sizeof(axis_attrs)),
    [SWIGLU] = COMPOSED(swiglu, 1, sizeof(axis_attrs)),
    [MAXOUT] = COMPOSED(maxout, 1, sizeof(axis_attrs)),
    [SOFTMIN] = COMPOSED(softmin, 1, sizeof(axis_attrs)),
    [SOFTMAX_TEMPERATURE] = COMPOSED(softmax_temperature, 1, sizeof(axis_attrs)),
    [GUMBEL_SOFTMAX] = COMPOSED(gumbel_softmax, 2, sizeof(axis_attrs)),
};
CJ_OP_TABLE(activation);

cj_tensor *cj_gelu(cj_tensor *x, const cj_gelu_opts *opts)
{
    return cj__apply_ew(&cj__ops_activation[opts && opts->tanh ? GELU_TANH : GELU], NULL, x, NULL);
}
cj_tensor *cj_silu(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[SILU], NULL, x, NULL); }
cj_tensor *cj_softplus(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[SOFTPLUS], NULL, x, NULL); }
cj_tensor *cj_log_sigmoid(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[LOG_SIGMOID], NULL, x, NULL); }

/* ---- the functions: defaults and checks --------------------------------------------------------------------------------------------------------------- */

static cj_tensor *composed(int row, const double *parameters, cj_tensor *x)
{
    return cj__apply(&cj__ops_activation[row], parameters, &x, 1);
}
/* A parameter outside of its range: poison after the error. */
static cj_tensor *refused(cj_tensor *x, const char *op, const char *what, double value, const char *range)
{
    return cj_fail(x->ctx, CJ_EVALUE, "%s: %s is %g, %s expected", op, what, value, range);
}

cj_tensor *cj_heaviside(cj_tensor *x, const cj_heaviside_opts *opts)
{
    return composed(HEAVISIDE, (double[]){ cj__option(opts ? opts->at_zero : 0, 1) }, x);
}
cj_tensor *cj_hard_sign(cj_tensor *x) { return composed(HARD_SIGN, NULL, x); }
cj_tensor *cj_hardtanh(cj_tensor *x, const cj_hardtanh_opts *opts)
{
    double p[2] = { cj__option(opts ? opts->low : 0, -1), cj__option(opts ? opts->high : 0, 1) };
    if (x && !(p[0] <= p[1])) return cj_fail(x->ctx, CJ_EVALUE, "hardtanh: low %g is above high %g", p[0], p[1]);
    return composed(HARDTANH, p, x);
}
cj_tensor *cj_relu6(cj_tensor *x) { return composed(RELU6, NULL, x); }
cj_tensor *cj_leaky_relu(cj_tensor *x, const cj_leaky_relu_opts *opts)
{
    double slope = cj__option(opts ? opts->slope : 0, 0.01);
    if (x && !isfinite(slope)) return refused(x, "leaky_relu", "the slope", slope, "a finite number");
    return composed(LEAKY_RELU, &slope, x);
}
cj_tensor *cj_prelu(cj_tensor *x, cj_tensor *weight)
{
    if (!x || !weight) return CJ_MISSING("prelu", x, weight);
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, "prelu", 0, x) || !cj__usable(c, "prelu", 1, weight)) return c->poison;
    int64_t channels = x->ndim > 1 ? x->shape[1] : 1;
    if (weight->ndim > 1 || (weight->numel != 1 && weight->numel != channels))
        return cj_fail(c, CJ_ESHAPE, "prelu: weight %s does not fit input %s: one element or one per channel (axis 1)",
                       cj__tensor_text(weight), cj__tensor_text(x));
    cj_shape s = { .ndim = x->ndim > 1 ? x->ndim : 0 };
    for (int d = 0; d < s.ndim; d++) s.dim[d] = d == 1 ? weight->numel : 1;
    return cj__apply(&cj__ops_activation[PRELU], NULL, (cj_tensor *[]){ x, cj_reshape(weight, s) }, 2);
}
cj_tensor *cj_hardsigmoid(cj_tensor *x) { return composed(HARDSIGMOID, NULL, x); }
cj_tensor *cj_hardswish(cj_tensor *x) { return composed(HARDSWISH, NULL, x); }

static cj_tensor *shrink(int row, cj_tensor *x, const cj_shrink_opts *opts)
{
    double lambda = cj__option(opts ? opts->lambda : 0, 0.5);
    if (x && !(lambda >= 0)) return refused(x, cj__ops_activation[row].name, "lambda", lambda, "0 or more");
    return composed(row, &lambda, x);
}
cj_tensor *cj_softshrink(cj_tensor *x, const cj_shrink_opts *opts) { return shrink(SOFTSHRINK, x, opts); }
cj_tensor *cj_hardshrink(cj_tensor *x, const cj_shrink_opts *opts) { return shrink(HARDSHRINK, x, opts); }
cj_tensor *cj_threshold(cj_tensor *x, double threshold, double value) { return composed(THRESHOLD, (double[]){ threshold, value }, x); }

cj_tensor *cj_elu(cj_tensor *x, const cj_elu_opts *opts)
{
    double alpha = cj__option(opts ? opts->alpha : 0, 1);
    if (x && !isfinite(alpha)) return refused(x, "elu", "alpha", alpha, "a finite number");
    return composed(ELU, &alpha, x);
}
cj_tensor *cj_celu(cj_tensor *x, const cj_elu_opts *opts)
{
    double alpha = cj__option(opts ? opts->alpha : 0, 1);
    if (x && (!isfinite(alpha) || alpha == 0)) return refused(x, "celu", "alpha", alpha, "a finite number other than 0");
    return composed(CELU, &alpha, x);
}
cj_tensor *cj_selu(cj_tensor *x) { return composed(SELU, NULL, x); }
cj_tensor *cj_softplus_beta(cj_tensor *x, const cj_softplus_opts *opts)
{
    double p[2] = { cj__option(opts ? opts->beta : 0, 1), opts ? opts->threshold : 0 };
    if (x && !(p[0] > 0 && isfinite(p[0]))) return refused(x, "softplus_beta", "beta", p[0], "a positive number");
    return composed(SOFTPLUS_BETA, p, x);
}
cj_tensor *cj_mish(cj_tensor *x) { return composed(MISH, NULL, x); }
cj_tensor *cj_softsign(cj_tensor *x) { return composed(SOFTSIGN, NULL, x); }
cj_tensor *cj_tanhshrink(cj_tensor *x) { return composed(TANHSHRINK, NULL, x); }
cj_tensor *cj_logit(cj_tensor *x, const cj_logit_opts *opts)
{
    double eps = opts ? opts->eps : 0;
    if (x && !(eps >= 0 && eps <= 0.5)) return refused(x, "logit", "eps", eps, "a number in [0, 0.5]");
    return composed(LOGIT, &eps, x);
}

/* Finds the axis; false after an error. */
static bool find_axis(int row, cj_tensor *x, int axis, axis_attrs *a)
{
    cj_ctx *c = x->ctx;
    const char *name = cj__ops_activation[row].name;
    if (c->error || !cj__usable(c, name, 0, x)) return false;
    if (x->ndim == 0) return cj__error(c, CJ_ESHAPE, "%s: a 0-d input", name);
    a->axis = cj__axis(c, name, axis, x->ndim);
    return a->axis >= 0;
}
static cj_tensor *gated(int row, cj_tensor *x, int axis)
{
    axis_attrs a = { 0 };
    if (!x) return NULL;
    if (!find_axis(row, x, axis, &a)) return x->ctx->poison;
    if (x->shape[a.axis] % 2)
        return cj_fail(x->ctx, CJ_ESHAPE, "%s: axis %d of %s has an odd size and no halves", cj__ops_activation[row].name, axis,
                       cj__tensor_text(x));
    return cj__apply(&cj__ops_activation[row], &a, &x, 1);
}
cj_tensor *cj_glu(cj_tensor *x, int axis) { return gated(GLU, x, axis); }
cj_tensor *cj_reglu(cj_tensor *x, int axis) { return gated(REGLU, x, axis); }
cj_tensor *cj_geglu(cj_tensor *x, int axis) { return gated(GEGLU, x, axis); }
cj_tensor *cj_swiglu(cj_tensor *x, int axis) { return gated(SWIGLU, x, axis); }

cj_tensor *cj_maxout(cj_tensor *x, int axis, int64_t k)
{
    axis_attrs a = { .group = k };
    if (!x) return NULL;
    if (!find_axis(MAXOUT, x, axis, &a)) return x->ctx->poison;
    if (k < 1 || x->shape[a.axis] % k)
        return cj_fail(x->ctx, CJ_ESHAPE, "maxout: axis %d of %s cannot be cut into groups of %lld", axis, cj__tensor_text(x),
                       (long long)k);
    if (x->ndim == CJ_MAX_DIMS) return cj_fail(x->ctx, CJ_ESHAPE, "maxout: %s has no room for another axis", cj__tensor_text(x));
    return cj__apply(&cj__ops_activation[MAXOUT], &a, &x, 1);
}

cj_tensor *cj_softmin(cj_tensor *x, int axis)
{
    axis_attrs a = { 0 };
    if (!x) return NULL;
    return find_axis(SOFTMIN, x, axis, &a) ? cj__apply(&cj__ops_activation[SOFTMIN], &a, &x, 1) : x->ctx->poison;
}
cj_tensor *cj_softmax_temperature(cj_tensor *x, int axis, double temperature)
{
    axis_attrs a = { .temperature = temperature };
    if (!x) return NULL;
    if (!find_axis(SOFTMAX_TEMPERATURE, x, axis, &a)) return x->ctx->poison;
    if (!(temperature > 0)) return refused(x, "softmax_temperature", "the temperature", temperature, "a positive number");
    return cj__apply(&cj__ops_activation[SOFTMAX_TEMPERATURE], &a, &x, 1);
}

cj_tensor *cj__gumbel_softmax(cj_tensor *logits, cj_tensor *noise, int axis, const cj_gumbel_opts *opts)
{
    axis_attrs a = { .temperature = cj__option(opts ? opts->tau : 0, 1), .group = opts && opts->hard };
    if (!logits) return CJ_POISON_OF(noise);
    if (!find_axis(GUMBEL_SOFTMAX, logits, axis, &a)) return logits->ctx->poison;
    if (!(a.temperature > 0)) return refused(logits, "gumbel_softmax", "tau", a.temperature, "a positive number");
    return cj__apply(&cj__ops_activation[GUMBEL_SOFTMAX], &a, (cj_tensor *[]){ logits, noise }, 2);
}
/* A Gumbel draw is -log of an exponential one. */
cj_tensor *cj_gumbel_softmax(cj_tensor *logits, int axis, const cj_gumbel_opts *opts)
{
    if (!logits) return NULL;
    cj_ctx *c = logits->ctx;
    if (c->error || !cj__usable(c, "gumbel_softmax", 0, logits)) return c->poison;
    cj_random_opts draw = { .dtype = logits->dtype == CJ_F64 ? CJ_F64 : CJ_F32, .stream = CJ_STREAM_SAMPLING };
    cj_tensor *noise = cj_neg(cj_log(cj_exponential(c, 1, cj__shape(logits), &draw)));
    if (logits->dtype == CJ_BF16 || logits->dtype == CJ_F16) noise = cj_cast(noise, (cj_dtype)logits->dtype);
    return cj__gumbel_softmax(logits, noise, axis, opts);
}
