/* Activations with one fused instruction: the definition in public operators, the forward kernel, and the fused derivative. */
#include "ops/ops.h"

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

#define ROW(op_name, CODE, op_kind, definition, rule)                                                                                      \
    {                                                                                                                                      \
        .name = op_name, .family = "activation", .kind = op_kind, .flags = CJ_OP_QUICK, .nin = 1, .nout = 1, .ew = CJ_EW_##CODE + 1,       \
        .save_in = 1, .infer = cj__ew_infer, .run = cj__ew_run_call, .vjp = rule, .jvp_rule = CJ_JVP_ELEMENTWISE, .define = definition     \
    }

enum { GELU, GELU_TANH, SILU, SOFTPLUS, LOG_SIGMOID };
const cj_op cj__ops_activation[] = {
    [GELU] = ROW("gelu", GELU, CJ_COMPOSITE, define_gelu, d_gelu),
    [GELU_TANH] = ROW("gelu_tanh", GELU_TANH, CJ_COMPOSITE, define_gelu_tanh, d_gelu_tanh),
    [SILU] = ROW("silu", SILU, CJ_COMPOSITE, define_silu, d_silu),
    [SOFTPLUS] = ROW("softplus", SOFTPLUS, CJ_PRIMITIVE, define_softplus, d_softplus),
    [LOG_SIGMOID] = ROW("log_sigmoid", LOGSIGMOID, CJ_PRIMITIVE, define_log_sigmoid, d_log_sigmoid),
};
CJ_OP_TABLE(activation);

cj_tensor *cj_gelu(cj_tensor *x, const cj_gelu_opts *opts)
{
    return cj__apply_ew(&cj__ops_activation[opts && opts->tanh ? GELU_TANH : GELU], NULL, x, NULL);
}
cj_tensor *cj_silu(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[SILU], NULL, x, NULL); }
cj_tensor *cj_softplus(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[SOFTPLUS], NULL, x, NULL); }
cj_tensor *cj_log_sigmoid(cj_tensor *x) { return cj__apply_ew(&cj__ops_activation[LOG_SIGMOID], NULL, x, NULL); }
