/* Elementwise primitives: one row each, with the vector instruction that computes it and its derivative in public operators.
 *
 * All of them run on the elementwise engine (kernels/cpu/ew.h).  Their Jacobian is diagonal, so forward mode uses the vjp with the tangent in place of
 * the gradient.  Rules with a fused instruction use it when no graph of the gradient is wanted.
 */
#include <math.h>

#include "ops/ops.h"

/* ---- dtypes -------------------------------------------------------------------------------------------------------------------------- */

/* How the result's dtype follows from the inputs'. */
typedef enum rule { PROMOTE, TO_FLOAT, COMPARE, LOGIC, SELECT } rule;

static rule rule_of(int code)
{
    switch (code) {
    case CJ_EW_EXP:
    case CJ_EW_EXPM1:
    case CJ_EW_LOG:
    case CJ_EW_LOG1P:
    case CJ_EW_SQRT:
    case CJ_EW_RSQRT:
    case CJ_EW_RECIP:
    case CJ_EW_SIN:
    case CJ_EW_COS:
    case CJ_EW_TANH:
    case CJ_EW_SIGMOID:
    case CJ_EW_ERF:
    case CJ_EW_DIV:
    case CJ_EW_ATAN2:
    case CJ_EW_GELU:
    case CJ_EW_GELU_BWD:
    case CJ_EW_GELU_TANH:
    case CJ_EW_GELU_TANH_BWD:
    case CJ_EW_SILU:
    case CJ_EW_SILU_BWD:
    case CJ_EW_SOFTPLUS:
    case CJ_EW_LOGSIGMOID:
    case CJ_EW_TANH_BWD:
    case CJ_EW_SIGMOID_BWD:
    case CJ_EW_BCE_LOGITS: return TO_FLOAT;
    case CJ_EW_EQ:
    case CJ_EW_NE:
    case CJ_EW_LT:
    case CJ_EW_LE:
    case CJ_EW_GT:
    case CJ_EW_GE:
    case CJ_EW_EQS:
    case CJ_EW_NES:
    case CJ_EW_LTS:
    case CJ_EW_LES:
    case CJ_EW_GTS:
    case CJ_EW_GES:
    case CJ_EW_ISNAN:
    case CJ_EW_ISFINITE: return COMPARE;
    case CJ_EW_AND:
    case CJ_EW_OR:
    case CJ_EW_XOR:
    case CJ_EW_NOT: return LOGIC;
    case CJ_EW_WHERE: return SELECT;
    default: return PROMOTE;
    }
}

bool cj__ew_has_scalar(int code)
{
    switch (code) {
    case CJ_EW_CONST:
    case CJ_EW_ADDS:
    case CJ_EW_MULS:
    case CJ_EW_POWS:
    case CJ_EW_MAXS:
    case CJ_EW_MINS:
    case CJ_EW_EQS:
    case CJ_EW_NES:
    case CJ_EW_LTS:
    case CJ_EW_LES:
    case CJ_EW_GTS:
    case CJ_EW_GES: return true;
    default: return false;
    }
}

/* A fractional immediate turns integers into f32, as a Python float does in PyTorch. */
static bool fractional(const cj_op *op, const void *attrs)
{
    return attrs && cj__ew_has_scalar(op->ew - 1) && *(const double *)attrs != nearbyint(*(const double *)attrs);
}

static cj_dtype promoted(const cj_op *op, cj_tensor *const *in, int nin)
{
    rule r = rule_of(op->ew - 1);
    cj_dtype t = r == SELECT ? cj__promote_n(in + 1, nin - 1) : cj__promote_n(in, nin);
    return r == TO_FLOAT && !cj_dtype_is_float(t) ? CJ_F32 : t;
}

static cj_dtype result_dtype(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin)
{
    rule r = rule_of(op->ew - 1);
    if (r == COMPARE || r == LOGIC) return CJ_BOOL;
    cj_dtype t = promoted(op, in, nin);
    if (fractional(op, attrs) && !cj_dtype_is_float(t)) return CJ_F32;
    return t == CJ_BOOL && cj__ew_has_scalar(op->ew - 1) ? CJ_I64 : t; /* a whole number is an integer: of a higher category than bool */
}

static cj_dtype compute_dtype(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin)
{
    cj_dtype t = promoted(op, in, nin);
    if (fractional(op, attrs) && !cj_dtype_is_float(t)) t = CJ_F32;
    if (t == CJ_F64) return CJ_F64;
    return cj_dtype_is_float(t) ? CJ_F32 : CJ_I64;
}

cj_dtype cj__ew_compute(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin) { return compute_dtype(op, attrs, in, nin); }

/* ---- infer and run --------------------------------------------------------------------------------------------------------------------- */

/* A result whose inputs of its shape are all channels-last, and not row-major, is channels-last too; broadcast inputs have no say. */
static void keep_layout(cj_call *call)
{
    cj_tensor *y = call->out[0];
    bool any = false;
    for (int i = 0; i < call->nin; i++) {
        const cj_tensor *x = call->in[i];
        if (x->ndim != y->ndim || memcmp(x->shape, y->shape, y->ndim * sizeof y->shape[0]) != 0) continue;
        if (cj__contiguous(x) || !cj__channels_last(x)) return;
        any = true;
    }
    if (any) cj__to_channels_last(y);
}

bool cj__ew_infer(cj_call *call)
{
    cj_tensor *a = call->in[0];
    int ndim = a->ndim;
    const int64_t *shape = a->shape;
    int64_t both[CJ_MAX_DIMS];
    for (int i = 1; i < call->nin; i++) {
        cj_tensor *b = call->in[i];
        if (b->ndim == ndim && memcmp(b->shape, shape, (size_t)ndim * sizeof *shape) == 0) continue;
        if (!cj__broadcast(ndim, shape, b->ndim, b->shape, &ndim, both)) {
            if (call->nin == 2)
                return cj__error(call->ctx, CJ_ESHAPE, "%s: shapes do not broadcast: %s with %s", call->op->name, cj__tensor_text(a),
                                 cj__tensor_text(b));
            return cj__error(call->ctx, CJ_ESHAPE, "%s: shapes do not broadcast: %s, %s, %s", call->op->name, cj__tensor_text(a),
                             cj__tensor_text(call->in[1]), cj__tensor_text(call->in[2]));
        }
        shape = both;
    }
    cj_dtype t = a->dtype;
    bool same = t == CJ_F32 && rule_of(call->op->ew - 1) <= TO_FLOAT;
    for (int i = 1; i < call->nin && same; i++) same = call->in[i]->dtype == CJ_F32;
    if (!same) t = result_dtype(call->op, call->attrs, call->in, call->nin);
    if ((call->out[0] = cj__tensor_new(call->ctx, t, ndim, shape, a->st->device)) == NULL) return false;
    if (ndim >= 3 && !a->st->device) keep_layout(call);
    return true;
}

bool cj__ew_run_call(cj_call *call)
{
    cj_tensor *y = call->out[0];
    cj_ew_prog p;
    cj_ew_arg args[4];
    const int nin = call->nin;
    p.compute = y->dtype == CJ_F32 && call->in[0]->dtype == CJ_F32 && (nin < 2 || call->in[1]->dtype == CJ_F32)
                    ? CJ_F32
                    : compute_dtype(call->op, call->attrs, call->in, nin);
    p.n_in = nin;
    p.n_out = 1;
    p.n_instr = 1;
    p.n_regs = nin + 1;
    p.out[0] = (uint8_t)nin;
    p.instr[0] = (cj_ew_instr){ .code = (uint8_t)(call->op->ew - 1), .dst = (uint8_t)nin, .a = 0, .b = 1, .c = 2 };
    if (cj__ew_has_scalar(call->op->ew - 1)) p.instr[0].s = *(const double *)call->attrs;
    for (int i = 0; i < nin; i++) {
        cj_tensor *x = call->in[i];
        args[i].data = x->data;
        args[i].dtype = (cj_dtype)x->dtype;
        int lead = y->ndim - x->ndim;
        for (int d = 0; d < y->ndim; d++) args[i].stride[d] = d < lead || x->shape[d - lead] == 1 ? 0 : x->stride[d - lead];
    }
    args[nin].data = y->data;
    args[nin].dtype = (cj_dtype)y->dtype;
    memcpy(args[nin].stride, y->stride, y->ndim * sizeof y->stride[0]);
    int fault = 0;
    if (y->numel) call->ctx->k->ew_run(call->ctx->pool, &p, args, y->ndim, y->shape, &fault);
    if (fault) return cj__error(call->ctx, CJ_EVALUE, "%s: integer division by zero", call->op->name);
    return true;
}

/* The short way of eager mode: small contiguous f32 operands of one shape, nothing recorded but the tape.  Everything else, errors included, takes the door. */
static cj_tensor *quick(const cj_op *op, const void *attrs, cj_tensor *a, cj_tensor *b)
{
    if (!a || !b || !(op->flags & CJ_OP_QUICK)) return NULL;
    cj_ctx *c = a->ctx;
    const uint8_t look = CJ_T_POISON | CJ_T_CLOSED | CJ_T_CONTIGUOUS;
    if (c->error != CJ_OK || c->active || c->fwd_limit || atomic_load_explicit(&c->cancelled, memory_order_relaxed)) return NULL;
    if ((a->flags & look) != CJ_T_CONTIGUOUS || a->dtype != CJ_F32 || a->numel > CJ_EW_BLOCK || a->numel == 0 || !a->st || a->st->device)
        return NULL;
    if (b != a) {
        if (b->ctx != c || (b->flags & look) != CJ_T_CONTIGUOUS || b->dtype != CJ_F32 || b->ndim != a->ndim || !b->st || b->st->device)
            return NULL;
        for (int d = 0; d < a->ndim; d++)
            if (a->shape[d] != b->shape[d]) return NULL;
    }
    cj_tensor *y = cj__tensor_like(a);
    if (!y) return c->poison;
    c->k->ew_small((cj_ew_code)(op->ew - 1), (float *)y->data, (const float *)a->data, (const float *)b->data, NULL,
                   attrs ? *(const double *)attrs : 0, (int)a->numel);
    if (c->grad_enabled && (a->flags | b->flags) & CJ_T_REQUIRES && !(op->flags & CJ_OP_NOGRAD)) {
        cj_tensor *in[2] = { a, b };
        cj_call call = { c, op, attrs, in, &y, op->nin, 1 };
        if (!c->recorder[CJ_REC_TAPE].record(c, &call)) return c->poison;
    }
    return y;
}

cj_tensor *cj__apply_ew(const cj_op *op, const void *attrs, cj_tensor *a, cj_tensor *b)
{
    cj_tensor *y = quick(op, attrs, a, op->nin == 1 ? a : b);
    return y ? y : cj__apply(op, attrs, (cj_tensor *[]){ a, b }, op->nin);
}

static double ew_flops(const cj_call *call) { return (double)call->out[0]->numel; }

/* ---- derivatives ------------------------------------------------------------------------------------------------------------------------ */

cj_tensor *cj__sum_to(cj_tensor *g, const cj_tensor *like)
{
    if (!g || g->flags & CJ_T_POISON) return g;
    if (g->ndim != like->ndim || memcmp(g->shape, like->shape, like->ndim * sizeof like->shape[0]) != 0) {
        cj_reduce_opts o = { .keepdim = true };
        int lead = g->ndim - like->ndim;
        for (int d = 0; d < g->ndim; d++)
            if (d < lead || (like->shape[d - lead] == 1 && g->shape[d] != 1)) o.axes.axis[o.axes.n++] = d;
        if (o.axes.n) g = cj_sum(g, &o);
        if (lead > 0) g = cj_reshape(g, cj__shape(like));
    }
    if (g && !(g->flags & CJ_T_POISON) && g->dtype != like->dtype && cj_dtype_is_float((cj_dtype)like->dtype))
        g = cj_cast(g, (cj_dtype)like->dtype);
    return g;
}

#define A (v->in[0])
#define B (v->in[1])
#define Y (v->out[0])
#define G (v->g[0])
/* Sets the gradient of input i, if wanted, to the expression. */
#define GRAD(i, expression)                                                                                                                \
    do {                                                                                                                                   \
        if (v->need[i]) v->gin[i] = cj__sum_to((expression), v->in[i]);                                                                    \
    } while (0)

static void d_add(cj_vjp_args *v)
{
    GRAD(0, G);
    GRAD(1, G);
}
static void d_sub(cj_vjp_args *v)
{
    GRAD(0, G);
    GRAD(1, cj_neg(G));
}
static void d_mul(cj_vjp_args *v)
{
    GRAD(0, cj_mul(G, B));
    GRAD(1, cj_mul(G, A));
}
static void d_div(cj_vjp_args *v)
{
    GRAD(0, cj_div(G, B));
    GRAD(1, cj_neg(cj_div(cj_mul(G, cj_div(A, B)), B)));
}
/* d a^b = b·a^(b-1) da + a^b·log a db; 0 where the factor b (or a^b with a = 0) is 0, as in PyTorch. */
static void d_pow(cj_vjp_args *v)
{
    GRAD(0, cj_where(cj_eq_scalar(B, 0), cj__const(v->g[0], 0), cj_mul(G, cj_mul(B, cj_pow(A, cj_add_scalar(B, -1))))));
    GRAD(1, cj_where(cj_logical_and(cj_eq_scalar(A, 0), cj_ge_scalar(B, 0)), cj__const(v->g[0], 0),
                     cj_mul(G, cj_mul(cj_pow(A, B), cj_log(A)))));
}
/* At a tie each side gets half. */
static void d_extreme(cj_vjp_args *v, cj_tensor *a_wins)
{
    cj_tensor *tie = cj_eq(A, B);
    cj_tensor *half = cj_mul_scalar(G, 0.5), *zero = cj__const(v->g[0], 0);
    GRAD(0, cj_where(tie, half, cj_where(a_wins, G, zero)));
    GRAD(1, cj_where(tie, half, cj_where(a_wins, zero, G)));
}
static void d_maximum(cj_vjp_args *v) { d_extreme(v, cj_gt(A, B)); }
static void d_minimum(cj_vjp_args *v) { d_extreme(v, cj_lt(A, B)); }
static void d_fmod(cj_vjp_args *v)
{
    GRAD(0, G);
    GRAD(1, cj_neg(cj_mul(G, cj_trunc(cj_div(A, B)))));
}
static void d_remainder(cj_vjp_args *v)
{
    GRAD(0, G);
    GRAD(1, cj_neg(cj_mul(G, cj_floor(cj_div(A, B)))));
}
static void d_atan2(cj_vjp_args *v)
{
    cj_tensor *r2 = cj_add(cj_square(A), cj_square(B));
    GRAD(0, cj_mul(G, cj_div(B, r2)));
    GRAD(1, cj_neg(cj_mul(G, cj_div(A, r2))));
}
static void d_where(cj_vjp_args *v)
{
    cj_tensor *zero = cj__const(v->g[0], 0);
    GRAD(1, cj_where(A, G, zero));
    GRAD(2, cj_where(A, zero, G));
}
static void d_add_scalar(cj_vjp_args *v) { GRAD(0, G); }
static void d_mul_scalar(cj_vjp_args *v) { GRAD(0, cj_mul_scalar(G, *(const double *)v->attrs)); }
static void d_pow_scalar(cj_vjp_args *v)
{
    double s = *(const double *)v->attrs;
    if (s == 0) GRAD(0, cj_mul_scalar(G, 0));
    else GRAD(0, cj_mul(G, cj_mul_scalar(cj_pow_scalar(A, s - 1), s)));
}
static void d_neg(cj_vjp_args *v) { GRAD(0, cj_neg(G)); }
static void d_abs(cj_vjp_args *v) { GRAD(0, cj_mul(G, cj_sign(A))); }
static void d_zero(cj_vjp_args *v) { GRAD(0, cj_mul_scalar(G, 0)); }
static void d_exp(cj_vjp_args *v) { GRAD(0, cj_mul(G, Y)); }
static void d_expm1(cj_vjp_args *v) { GRAD(0, cj_mul(G, cj_add_scalar(Y, 1))); }
static void d_log(cj_vjp_args *v) { GRAD(0, cj_div(G, A)); }
static void d_log1p(cj_vjp_args *v) { GRAD(0, cj_div(G, cj_add_scalar(A, 1))); }
static void d_sqrt(cj_vjp_args *v) { GRAD(0, cj_div(G, cj_mul_scalar(Y, 2))); }
static void d_rsqrt(cj_vjp_args *v) { GRAD(0, cj_mul(cj_mul_scalar(G, -0.5), cj_pow_scalar(Y, 3))); }
static void d_reciprocal(cj_vjp_args *v) { GRAD(0, cj_neg(cj_mul(G, cj_square(Y)))); }
static void d_square(cj_vjp_args *v) { GRAD(0, cj_mul(G, cj_mul_scalar(A, 2))); }
static void d_sin(cj_vjp_args *v) { GRAD(0, cj_mul(G, cj_cos(A))); }
static void d_cos(cj_vjp_args *v) { GRAD(0, cj_neg(cj_mul(G, cj_sin(A)))); }
static void d_tanh(cj_vjp_args *v)
{
    if (!v->ctx->grad_enabled && !v->ctx->fwd_limit) GRAD(0, cj__ew_bwd(CJ_EW_TANH_BWD, Y, G));
    else GRAD(0, cj_mul(G, cj_add_scalar(cj_neg(cj_square(Y)), 1)));
}
static void d_sigmoid(cj_vjp_args *v)
{
    if (!v->ctx->grad_enabled && !v->ctx->fwd_limit) GRAD(0, cj__ew_bwd(CJ_EW_SIGMOID_BWD, Y, G));
    else GRAD(0, cj_mul(G, cj_mul(Y, cj_add_scalar(cj_neg(Y), 1))));
}
static void d_erf(cj_vjp_args *v) /* 2/sqrt(pi) exp(-x^2) */
{
    GRAD(0, cj_mul(G, cj_mul_scalar(cj_exp(cj_neg(cj_square(A))), 1.12837916709551257390)));
}
static void d_relu(cj_vjp_args *v)
{
    if (!v->ctx->grad_enabled && !v->ctx->fwd_limit) GRAD(0, cj__ew_bwd(CJ_EW_RELU_BWD, Y, G));
    else GRAD(0, cj_where(cj_gt_scalar(Y, 0), G, cj__const(v->g[0], 0)));
}
static void d_clamp_low(cj_vjp_args *v) { GRAD(0, cj_where(cj_gt_scalar(A, *(const double *)v->attrs), G, cj__const(v->g[0], 0))); }
static void d_clamp_high(cj_vjp_args *v) { GRAD(0, cj_where(cj_lt_scalar(A, *(const double *)v->attrs), G, cj__const(v->g[0], 0))); }

/* ---- rows -------------------------------------------------------------------------------------------------------------------------------- */

#define ROW(op_name, CODE, n, in_mask, out_mask, rule_fn)                                                                                  \
    {                                                                                                                                      \
        .name = op_name, .family = "elementwise", .kind = CJ_PRIMITIVE, .flags = n < 3 ? CJ_OP_QUICK : 0, .nin = n, .nout = 1,             \
        .ew = CJ_EW_##CODE + 1, .save_in = in_mask, .save_out = out_mask, .infer = cj__ew_infer, .run = cj__ew_run_call, .vjp = rule_fn,   \
        .jvp_rule = CJ_JVP_ELEMENTWISE, .flops = ew_flops                                                                                  \
    }
#define SCALAR(op_name, CODE, in_mask, rule_fn)                                                                                            \
    {                                                                                                                                      \
        .name = op_name, .family = "elementwise", .kind = CJ_PRIMITIVE, .flags = CJ_OP_QUICK, .nin = 1, .nout = 1,                         \
        .attr_size = sizeof(double), .ew = CJ_EW_##CODE + 1, .save_in = in_mask, .infer = cj__ew_infer, .run = cj__ew_run_call,            \
        .vjp = rule_fn, .jvp_rule = CJ_JVP_ELEMENTWISE, .flops = ew_flops                                                                  \
    }
#define TEST(op_name, CODE, n, attr)                                                                                                       \
    {                                                                                                                                      \
        .name = op_name, .family = "comparison", .kind = CJ_PRIMITIVE, .flags = CJ_OP_NOGRAD, .nin = n, .nout = 1, .attr_size = attr,      \
        .ew = CJ_EW_##CODE + 1, .infer = cj__ew_infer, .run = cj__ew_run_call, .jvp_rule = CJ_JVP_NONE, .flops = ew_flops                  \
    }
#define FUSED(op_name, CODE)                                                                                                               \
    {                                                                                                                                      \
        .name = op_name, .family = "elementwise", .kind = CJ_INTERNAL, .flags = CJ_OP_NOGRAD | CJ_OP_QUICK, .nin = 2, .nout = 1,           \
        .ew = CJ_EW_##CODE + 1, .infer = cj__ew_infer, .run = cj__ew_run_call, .jvp_rule = CJ_JVP_NONE, .flops = ew_flops                  \
    }

enum {
    ADD,
    SUB,
    MUL,
    DIV,
    POW,
    MAXIMUM,
    MINIMUM,
    FMOD,
    REMAINDER,
    FLOOR_DIVIDE,
    ATAN2,
    WHERE,
    ADD_SCALAR,
    MUL_SCALAR,
    POW_SCALAR,
    CLAMP_LOW,
    CLAMP_HIGH,
    NEG,
    ABS,
    SIGN,
    EXP,
    EXPM1,
    LOG,
    LOG1P,
    SQRT,
    RSQRT,
    RECIPROCAL,
    SQUARE,
    SIN,
    COS,
    TANH,
    SIGMOID,
    ERF,
    FLOOR,
    CEIL,
    ROUND,
    TRUNC,
    RELU,
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    EQ_SCALAR,
    NE_SCALAR,
    LT_SCALAR,
    LE_SCALAR,
    GT_SCALAR,
    GE_SCALAR,
    AND,
    OR,
    XOR,
    NOT,
    ISNAN,
    ISFINITE,
    GELU_BWD,
    GELU_TANH_BWD,
    SILU_BWD,
    TANH_BWD,
    SIGMOID_BWD,
    RELU_BWD
};

const cj_op cj__ops_elementwise[] = {
    [ADD] = ROW("add", ADD, 2, 0, 0, d_add),
    [SUB] = ROW("sub", SUB, 2, 0, 0, d_sub),
    [MUL] = ROW("mul", MUL, 2, 3, 0, d_mul),
    [DIV] = ROW("div", DIV, 2, 3, 0, d_div),
    [POW] = ROW("pow", POW, 2, 3, 0, d_pow),
    [MAXIMUM] = ROW("maximum", MAX, 2, 3, 0, d_maximum),
    [MINIMUM] = ROW("minimum", MIN, 2, 3, 0, d_minimum),
    [FMOD] = ROW("fmod", FMOD, 2, 3, 0, d_fmod),
    [REMAINDER] = ROW("remainder", REMAINDER, 2, 3, 0, d_remainder),
    [FLOOR_DIVIDE] = TEST("floor_divide", FLOORDIV, 2, 0),
    [ATAN2] = ROW("atan2", ATAN2, 2, 3, 0, d_atan2),
    [WHERE] = ROW("where", WHERE, 3, 1, 0, d_where),
    [ADD_SCALAR] = SCALAR("add_scalar", ADDS, 0, d_add_scalar),
    [MUL_SCALAR] = SCALAR("mul_scalar", MULS, 0, d_mul_scalar),
    [POW_SCALAR] = SCALAR("pow_scalar", POWS, 1, d_pow_scalar),
    [CLAMP_LOW] = SCALAR("clamp_min", MAXS, 1, d_clamp_low),
    [CLAMP_HIGH] = SCALAR("clamp_max", MINS, 1, d_clamp_high),
    [NEG] = ROW("neg", NEG, 1, 0, 0, d_neg),
    [ABS] = ROW("abs", ABS, 1, 1, 0, d_abs),
    [SIGN] = ROW("sign", SIGN, 1, 0, 0, d_zero),
    [EXP] = ROW("exp", EXP, 1, 0, 1, d_exp),
    [EXPM1] = ROW("expm1", EXPM1, 1, 0, 1, d_expm1),
    [LOG] = ROW("log", LOG, 1, 1, 0, d_log),
    [LOG1P] = ROW("log1p", LOG1P, 1, 1, 0, d_log1p),
    [SQRT] = ROW("sqrt", SQRT, 1, 0, 1, d_sqrt),
    [RSQRT] = ROW("rsqrt", RSQRT, 1, 0, 1, d_rsqrt),
    [RECIPROCAL] = ROW("reciprocal", RECIP, 1, 0, 1, d_reciprocal),
    [SQUARE] = ROW("square", SQUARE, 1, 1, 0, d_square),
    [SIN] = ROW("sin", SIN, 1, 1, 0, d_sin),
    [COS] = ROW("cos", COS, 1, 1, 0, d_cos),
    [TANH] = ROW("tanh", TANH, 1, 0, 1, d_tanh),
    [SIGMOID] = ROW("sigmoid", SIGMOID, 1, 0, 1, d_sigmoid),
    [ERF] = ROW("erf", ERF, 1, 1, 0, d_erf),
    [FLOOR] = ROW("floor", FLOOR, 1, 0, 0, d_zero),
    [CEIL] = ROW("ceil", CEIL, 1, 0, 0, d_zero),
    [ROUND] = ROW("round", ROUND, 1, 0, 0, d_zero),
    [TRUNC] = ROW("trunc", TRUNC, 1, 0, 0, d_zero),
    [RELU] = ROW("relu", RELU, 1, 0, 1, d_relu),
    [EQ] = TEST("eq", EQ, 2, 0),
    [NE] = TEST("ne", NE, 2, 0),
    [LT] = TEST("lt", LT, 2, 0),
    [LE] = TEST("le", LE, 2, 0),
    [GT] = TEST("gt", GT, 2, 0),
    [GE] = TEST("ge", GE, 2, 0),
    [EQ_SCALAR] = TEST("eq_scalar", EQS, 1, sizeof(double)),
    [NE_SCALAR] = TEST("ne_scalar", NES, 1, sizeof(double)),
    [LT_SCALAR] = TEST("lt_scalar", LTS, 1, sizeof(double)),
    [LE_SCALAR] = TEST("le_scalar", LES, 1, sizeof(double)),
    [GT_SCALAR] = TEST("gt_scalar", GTS, 1, sizeof(double)),
    [GE_SCALAR] = TEST("ge_scalar", GES, 1, sizeof(double)),
    [AND] = TEST("logical_and", AND, 2, 0),
    [OR] = TEST("logical_or", OR, 2, 0),
    [XOR] = TEST("logical_xor", XOR, 2, 0),
    [NOT] = TEST("logical_not", NOT, 1, 0),
    [ISNAN] = TEST("isnan", ISNAN, 1, 0),
    [ISFINITE] = TEST("isfinite", ISFINITE, 1, 0),
    [GELU_BWD] = FUSED("gelu_backward", GELU_BWD),
    [GELU_TANH_BWD] = FUSED("gelu_tanh_backward", GELU_TANH_BWD),
    [SILU_BWD] = FUSED("silu_backward", SILU_BWD),
    [TANH_BWD] = FUSED("tanh_backward", TANH_BWD),
    [SIGMOID_BWD] = FUSED("sigmoid_backward", SIGMOID_BWD),
    [RELU_BWD] = FUSED("relu_backward", RELU_BWD),
};
CJ_OP_TABLE(elementwise);

cj_tensor *cj__ew_bwd(cj_ew_code code, cj_tensor *a, cj_tensor *g)
{
    for (int i = GELU_BWD; i <= RELU_BWD; i++)
        if (cj__ops_elementwise[i].ew == (int)code + 1) return cj__apply_ew(&cj__ops_elementwise[i], NULL, a, g);
    return CJ_POISON_OF(a);
}

#define UNARY(name, row)                                                                                                                   \
    cj_tensor *cj_##name(cj_tensor *x) { return cj__apply_ew(&cj__ops_elementwise[row], NULL, x, NULL); }
#define BINARY(name, row)                                                                                                                  \
    cj_tensor *cj_##name(cj_tensor *a, cj_tensor *b) { return cj__apply_ew(&cj__ops_elementwise[row], NULL, a, b); }
#define WITH_SCALAR(name, row)                                                                                                             \
    cj_tensor *cj_##name(cj_tensor *x, double s) { return cj__apply_ew(&cj__ops_elementwise[row], &s, x, NULL); }

BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(pow, POW)
BINARY(maximum, MAXIMUM)
BINARY(minimum, MINIMUM)
BINARY(fmod, FMOD)
BINARY(remainder, REMAINDER)
BINARY(floor_divide, FLOOR_DIVIDE)
BINARY(atan2, ATAN2)
WITH_SCALAR(add_scalar, ADD_SCALAR)
WITH_SCALAR(mul_scalar, MUL_SCALAR)
WITH_SCALAR(pow_scalar, POW_SCALAR)
UNARY(neg, NEG)
UNARY(abs, ABS)
UNARY(sign, SIGN)
UNARY(exp, EXP)
UNARY(expm1, EXPM1)
UNARY(log, LOG)
UNARY(log1p, LOG1P)
UNARY(sqrt, SQRT)
UNARY(rsqrt, RSQRT)
UNARY(reciprocal, RECIPROCAL)
UNARY(square, SQUARE)
UNARY(sin, SIN)
UNARY(cos, COS)
UNARY(tanh, TANH)
UNARY(sigmoid, SIGMOID)
UNARY(erf, ERF)
UNARY(floor, FLOOR)
UNARY(ceil, CEIL)
UNARY(round, ROUND)
UNARY(trunc, TRUNC)
UNARY(relu, RELU)
BINARY(eq, EQ)
BINARY(ne, NE)
BINARY(lt, LT)
BINARY(le, LE)
BINARY(gt, GT)
BINARY(ge, GE)
WITH_SCALAR(eq_scalar, EQ_SCALAR)
WITH_SCALAR(ne_scalar, NE_SCALAR)
WITH_SCALAR(lt_scalar, LT_SCALAR)
WITH_SCALAR(le_scalar, LE_SCALAR)
WITH_SCALAR(gt_scalar, GT_SCALAR)
WITH_SCALAR(ge_scalar, GE_SCALAR)
BINARY(logical_and, AND)
BINARY(logical_or, OR)
BINARY(logical_xor, XOR)
UNARY(logical_not, NOT)
UNARY(isnan, ISNAN)
UNARY(isfinite, ISFINITE)

cj_tensor *cj_where(cj_tensor *condition, cj_tensor *a, cj_tensor *b)
{
    return cj__apply(&cj__ops_elementwise[WHERE], NULL, (cj_tensor *[]){ condition, a, b }, 3);
}

cj_tensor *cj_clamp(cj_tensor *x, double low, double high)
{
    if (!x) return NULL;
    if (!(low <= high)) return cj_fail(x->ctx, CJ_EVALUE, "clamp: low %g is above high %g", low, high);
    if (low > -INFINITY) x = cj__apply(&cj__ops_elementwise[CLAMP_LOW], &low, &x, 1);
    if (high < INFINITY) x = cj__apply(&cj__ops_elementwise[CLAMP_HIGH], &high, &x, 1);
    return x;
}

cj_tensor *cj_masked_fill(cj_tensor *x, cj_tensor *mask, double value)
{
    if (!x || !mask) return CJ_MISSING("masked_fill", x, mask);
    cj_ctx *c = x->ctx;
    int ndim;
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__given("masked_fill", (cj_tensor *[]){ x, mask }, 2)) return c->poison;
    if (!cj__broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &ndim, shape))
        return cj_fail(c, CJ_ESHAPE, "masked_fill: input %s and mask %s do not broadcast", cj__tensor_text(x), cj__tensor_text(mask));
    const cj_called was = cj__called(c, "masked_fill", NULL);
    return cj__called_done(c, was, cj_where(mask, cj__const_as(x, value), x));
}
