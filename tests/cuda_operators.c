/* Every operator on the GPU against the CPU: values and gradients of the table below, in every dtype; and the speed of some (-b). */
#include "cuda_check.h"
#include <math.h>
#include <stdio.h>

static bool differentiable(const input *in)
{
    return (in->kind == 'n' || in->kind == 'p' || in->kind == 'u') && (in->dtype == CJ_DEFAULT_DTYPE || cj_dtype_is_float(in->dtype));
}

typedef cj_tensor *fn(cj_ctx *c, cj_tensor *const *x);
typedef struct sample {
    const char *name;
    fn *f;
    input in[4];
    double k;     /* reduction length */
    double loose; /* factor on the tolerance; 0: 1 */
    int only;     /* 1: f32 and f64 only */
} sample;

static void check(const sample *s, cj_dtype dtype)
{
    double tol = dtype == CJ_F64 ? 1e-12 : dtype == CJ_BF16 ? 0.02 : dtype == CJ_F16 ? 4e-3 : 4e-6;
    if (s->loose) tol *= s->loose;
    double k = s->k ? s->k : 1;
    cj_tensor *x[2][4], *y[2], *leaf[2][4], *g[2][4];
    int n = 0, m = 0;
    cj_scope a = cj_scope_open(host), b = cj_scope_open(device);
    for (; n < 4 && s->in[n].kind; n++) {
        cj_tensor *pair[2];
        make(&s->in[n], dtype, pair);
        for (int c = 0; c < 2; c++) x[c][n] = differentiable(&s->in[n]) ? cj_require_grad(pair[c]) : pair[c];
        if (differentiable(&s->in[n])) {
            for (int c = 0; c < 2; c++) leaf[c][m] = x[c][n];
            m++;
        }
    }
    for (int c = 0; c < 2; c++) y[c] = s->f(c ? device : host, x[c]);
    double worst = compare(y[1], y[0], tol, k);
    bool ok = worst <= 1 && cj_ok(host) && cj_ok(device);
    report(ok, named(s->name, "value"), ok ? "" : cj_ok(device) ? cj_ok(host) ? "differs" : cj_message(host) : cj_message(device), worst);
    if (ok && m && cj_requires_grad(y[0])) {
        input in = { .shape = cj_shape_of(y[0]), .kind = 'n' };
        cj_tensor *seed[2];
        make(&in, cj_dtype_of(y[0]), seed);
        for (int c = 0; c < 2; c++) ok &= (cj_grad)(y[c], leaf[c], m, g[c], &(cj_grad_opts){ .seed = seed[c], .allow_unused = true });
        for (int i = 0; i < m && ok; i++) {
            worst = compare(g[1][i], g[0][i], 4 * tol, k);
            report(worst <= 1, named(s->name, "gradient"), "differs", worst);
        }
        if (!ok) report(false, named(s->name, "gradient"), cj_ok(device) ? cj_message(host) : cj_message(device), 0);
    }
    cj_scope_close(b);
    cj_scope_close(a);
    cj_clear(host);
    cj_clear(device);
}

/* ---- the operators --------------------------------------------------------------------------------------------------------------------------------- */

#define F(name, expression)                                                                                                                \
    static cj_tensor *f_##name(cj_ctx *c, cj_tensor *const *x)                                                                             \
    {                                                                                                                                      \
        (void)c, (void)x;                                                                                                                  \
        return expression;                                                                                                                 \
    }
#define X0 x[0]
#define X1 x[1]
#define X2 x[2]
/* clang-format off */
/* clang-format off */
F(neg, cj_neg(X0))
F(abs, cj_abs(X0))
F(sign, cj_sign(X0))
F(exp, cj_exp(X0))
F(expm1, cj_expm1(X0))
F(log, cj_log(X0))
F(log1p, cj_log1p(X0))
F(sqrt, cj_sqrt(X0))
F(rsqrt, cj_rsqrt(X0))
F(reciprocal, cj_reciprocal(X0))
F(square, cj_square(X0))
F(sin, cj_sin(X0))
F(cos, cj_cos(X0))
F(tanh, cj_tanh(X0))
F(sigmoid, cj_sigmoid(X0))
F(erf, cj_erf(X0))
F(floor, cj_floor(X0))
F(ceil, cj_ceil(X0))
F(round, cj_round(X0))
F(trunc, cj_trunc(X0))
F(relu, cj_relu(X0))
F(gelu, cj_gelu(X0))
F(gelu_tanh, cj_gelu(X0, .tanh = true))
F(silu, cj_silu(X0))
F(softplus, cj_softplus(X0))
F(log_sigmoid, cj_log_sigmoid(X0))
F(add_scalar, cj_add_scalar(X0, 1.25))
F(mul_scalar, cj_mul_scalar(X0, -0.75))
F(pow2, cj_pow_scalar(X0, 2))
F(pow3, cj_pow_scalar(X0, 3))
F(pow_half, cj_pow_scalar(X0, 0.5))
F(pow_17, cj_pow_scalar(X0, 1.7))
F(pow_m1, cj_pow_scalar(X0, -1))
F(clamp, cj_clamp(X0, -1, 1.5))
F(isnan, cj_isnan(cj_log(X0)))
F(isfinite, cj_isfinite(cj_div(X0, cj_sub(X0, X0))))
F(not, cj_logical_not(cj_floor(X0)))
F(gt_s, cj_gt_scalar(X0, 0.5))
F(ge_s, cj_ge_scalar(X0, 0.5))
F(lt_s, cj_lt_scalar(X0, 0.5))
F(le_s, cj_le_scalar(X0, 0.5))
F(eq_s, cj_eq_scalar(cj_floor(X0), 1))
F(ne_s, cj_ne_scalar(cj_floor(X0), 1))
F(add, cj_add(X0, X1))
F(sub, cj_sub(X0, X1))
F(mul, cj_mul(X0, X1))
F(div, cj_div(X0, X1))
F(pow, cj_pow(X0, X1))
F(maximum, cj_maximum(X0, X1))
F(minimum, cj_minimum(X0, X1))
F(fmod, cj_fmod(X0, X1))
F(remainder, cj_remainder(X0, X1))
F(floor_divide, cj_floor_divide(X0, X1))
F(atan2, cj_atan2(X0, X1))
F(eq, cj_eq(cj_floor(X0), cj_floor(X1)))
F(ne, cj_ne(cj_floor(X0), cj_floor(X1)))
F(lt, cj_lt(X0, X1))
F(le, cj_le(X0, X1))
F(gt, cj_gt(X0, X1))
F(ge, cj_ge(X0, X1))
F(and, cj_logical_and(cj_floor(X0), cj_floor(X1)))
F(or, cj_logical_or(cj_floor(X0), cj_floor(X1)))
F(xor, cj_logical_xor(cj_floor(X0), cj_floor(X1)))
F(add_t, cj_add(cj_t(X0), X1))
F(mul_steps, cj_mul(cj_slice(X0, 1, 1, CJ_END, 2), cj_slice(X1, 0, -1, CJ_END, -1)))
F(add3, cj_mul(cj_permute(X0, CJ_AXES(2, 0, 1)), X1))
F(where, cj_where(X0, X1, X2))
F(masked, cj_masked_fill(X1, X0, -3))
F(chain, cj_add(cj_mul(cj_gelu(cj_add_scalar(cj_mul_scalar(X0, 1.5), 0.2)), cj_sigmoid(X0)), X0))
F(bce, cj_bce_with_logits(X0, cj_detach(cj_sigmoid(X1))))
F(mse, cj_mse_loss(X0, X1))
F(l1, cj_l1_loss(X0, X1))
F(floats, cj_mul_scalar(X0, 0.5))
F(sum, cj_sum(X0))
F(sum0, cj_sum(X0, .axes = CJ_AXIS(0)))
F(sum1, cj_sum(X0, .axes = CJ_AXIS(1)))
F(sum2, cj_sum(X0, .axes = CJ_AXIS(2), .keepdim = true))
F(sum02, cj_sum(X0, .axes = CJ_AXES(0, 2)))
F(mean, cj_mean(X0))
F(mean1, cj_mean(X0, .axes = CJ_AXIS(1)))
F(prod, cj_prod(X0, .axes = CJ_AXIS(-1)))
F(max, cj_max(X0))
F(max1, cj_max(X0, .axes = CJ_AXIS(1)))
F(min0, cj_min(X0, .axes = CJ_AXIS(0)))
F(argmax, cj_argmax(X0))
F(argmax1, cj_argmax(X0, .axes = CJ_AXIS(1)))
F(argmin0, cj_argmin(X0, .axes = CJ_AXIS(0)))
F(any, cj_any(cj_gt_scalar(X0, 2.4), .axes = CJ_AXIS(1)))
F(all, cj_all(cj_gt_scalar(X0, -2.4), .axes = CJ_AXIS(0)))
F(var, cj_var(X0, .axes = CJ_AXIS(-1)))
F(logsumexp, cj_logsumexp(X0, .axes = CJ_AXIS(1)))
F(sum_t, cj_sum(cj_t(X0), .axes = CJ_AXIS(0)))
F(argmax_ties, cj_argmax(cj_floor(X0), .axes = CJ_AXIS(0)))
F(cat, cj_cat(CJ_TENSORS(X0, X1, X0), 3, 1))
F(stack, cj_stack(CJ_TENSORS(X0, X1), 2, 0))
F(clone_t, cj_clone(cj_t(X0)))
F(slice, cj_slice(X0, 1, 2, -1, 3))
F(back, cj_slice(X0, 0, -1, CJ_END, -2))
F(unfold, cj_unfold(X0, 1, 5, 2))
F(diagonal, cj_diagonal(X0, 1, 0, 1))
F(select, cj_select(X0, 1, 3))
F(tril, cj_tril(X0, 0))
F(expand, cj_expand(X0, CJ_SHAPE(4, 7, 9)))
F(reshape, cj_reshape(cj_t(X0), CJ_SHAPE(-1)))
F(to_i64, cj_cast(cj_mul_scalar(X0, 100), CJ_I64))
F(to_i32, cj_cast(cj_mul_scalar(X0, 1e9), CJ_I32))
F(to_u8, cj_cast(cj_mul_scalar(X0, 200), CJ_U8))
F(to_bool, cj_cast(cj_floor(X0), CJ_BOOL))
F(to_bf16, cj_cast(X0, CJ_BF16))
F(to_f16, cj_cast(cj_mul_scalar(X0, 1e-5), CJ_F16))
F(to_f64, cj_cast(X0, CJ_F64))
F(i_cast, cj_cast(X0, CJ_F16))
F(i_to_u8, cj_cast(cj_mul_scalar(X0, 100), CJ_U8))
F(index_select, cj_index_select(X0, 0, X1))
F(index_select1, cj_index_select(X0, 1, X1))
F(embedding, cj_embedding(X0, X1))
F(gather, cj_gather(X0, 1, X1))
F(index_add, cj_index_add(X0, 0, X1, X2))
F(index_add1, cj_index_add(X0, 1, X1, X2))
F(scatter_add, cj_scatter_add(X0, 1, X1, X2))
F(scatter_flat, cj_scatter_add(X0, 0, X1, X2))
F(one_hot, cj_one_hot(X0, 11))
F(matmul, cj_matmul(X0, X1))
F(matmul_tn, cj_matmul(cj_t(X0), X1))
F(matmul_nt, cj_matmul(X0, cj_t(X1)))
F(matmul_tt, cj_matmul(cj_t(X0), cj_t(X1)))
F(matmul_steps, cj_matmul(cj_slice(X0, 1, 0, CJ_END, 2), X1))
F(matmul_expand, cj_matmul(cj_expand(X0, CJ_SHAPE(17, 33)), X1))
F(linear, cj_linear_op(X0, X1, X2))
F(linear0, cj_linear_op(X0, X1, NULL))
F(clone_axes, cj_clone(cj_permute(X0, CJ_AXES(1, 2, 0))))
F(dot, cj_dot(X0, X1))
F(outer, cj_outer(X0, X1))
F(heads, cj_matmul(cj_transpose(X0, 1, 2), cj_t(cj_transpose(X1, 1, 2))))
F(softmax, cj_softmax(X0, -1))
F(softmax0, cj_softmax(X0, 0))
F(log_softmax, cj_log_softmax(X0, -1))
F(norm0, cj_layer_norm(X0, NULL, NULL, 0))
F(norm1, cj_layer_norm(X0, X1, NULL, 0))
F(norm2, cj_layer_norm(X0, X1, X2, 1e-3))
F(ce, cj_cross_entropy(X0, X1))
F(ce_sum, cj_cross_entropy(X0, X1, .reduction = CJ_SUM))
F(ce_none, cj_cross_entropy(X0, X1, .reduction = CJ_NONE))
F(ce_smooth, cj_cross_entropy(X0, X1, .label_smoothing = 0.1))
F(ce_ignore, cj_cross_entropy(X0, X1, .ignore_index = 3))
F(nll, cj_nll_loss(cj_log_softmax(X0, -1), X1))
F(attention, cj_attention(X0, X1, X2, .causal = true))
F(attention_full, cj_attention(X0, X1, X2))
F(attention_length, cj_attention(X0, X1, X2, .key_length = cj_full(cj_tensor_ctx(X0), 9, CJ_SCALAR, CJ_I64)))
F(attention_length_causal, cj_attention(X0, X1, X2, .causal = true, .key_length = cj_full(cj_tensor_ctx(X0), 20, CJ_SCALAR, CJ_I64)))
F(attention_packed, cj_attention_packed(X0, 4, .causal = true))
/* clang-format on */

#define S(...) .shape = { (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / 8), { __VA_ARGS__ } }
#define N(...)                                                                                                                             \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'n'                                                                                                        \
    }
#define P(...)                                                                                                                             \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'p'                                                                                                        \
    }
#define U(...)                                                                                                                             \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'u'                                                                                                        \
    }
#define I(n, ...)                                                                                                                          \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'i', .limit = n                                                                                            \
    }
#define B(...)                                                                                                                             \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'b'                                                                                                        \
    }
#define Z(t, ...)                                                                                                                          \
    {                                                                                                                                      \
        S(__VA_ARGS__), .kind = 'z', .dtype = t                                                                                            \
    }

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* the tables below leave out what is 0 */
static const sample samples[] = {
    { "neg", f_neg, { N(33, 65) } },
    { "neg big", f_neg, { N(512, 1024) } },
    { "abs", f_abs, { N(33, 65) } },
    { "sign", f_sign, { N(33, 65) } },
    { "exp", f_exp, { N(33, 65) } },
    { "expm1", f_expm1, { N(33, 65) } },
    { "log", f_log, { P(33, 65) } },
    { "log1p", f_log1p, { P(33, 65) } },
    { "sqrt", f_sqrt, { P(33, 65) } },
    { "rsqrt", f_rsqrt, { P(33, 65) } },
    { "reciprocal", f_reciprocal, { P(33, 65) } },
    { "square", f_square, { N(33, 65) } },
    { "sin", f_sin, { N(33, 65) } },
    { "cos", f_cos, { N(33, 65) } },
    { "tanh", f_tanh, { N(33, 65) } },
    { "sigmoid", f_sigmoid, { N(33, 65) } },
    { "erf", f_erf, { N(33, 65) } },
    { "floor", f_floor, { N(33, 65) } },
    { "ceil", f_ceil, { N(33, 65) } },
    { "round", f_round, { N(33, 65) } },
    { "trunc", f_trunc, { N(33, 65) } },
    { "relu", f_relu, { N(33, 65) } },
    { "gelu", f_gelu, { N(33, 65) } },
    { "gelu_tanh", f_gelu_tanh, { N(33, 65) } },
    { "silu", f_silu, { N(33, 65) } },
    { "softplus", f_softplus, { N(33, 65) } },
    { "log_sigmoid", f_log_sigmoid, { N(33, 65) } },
    { "add_scalar", f_add_scalar, { N(33, 65) } },
    { "mul_scalar", f_mul_scalar, { N(33, 65) } },
    { "pow 2", f_pow2, { N(33, 65) } },
    { "pow 3", f_pow3, { N(33, 65) } },
    { "pow 0.5", f_pow_half, { P(33, 65) } },
    { "pow 1.7", f_pow_17, { P(33, 65) } },
    { "pow -1", f_pow_m1, { P(33, 65) } },
    { "clamp", f_clamp, { N(33, 65) } },
    { "isnan", f_isnan, { N(33, 65) } },
    { "isfinite", f_isfinite, { N(33, 65) } },
    { "logical_not", f_not, { N(33, 65) } },
    { "gt_scalar", f_gt_s, { N(33, 65) } },
    { "ge_scalar", f_ge_s, { N(33, 65) } },
    { "lt_scalar", f_lt_s, { N(33, 65) } },
    { "le_scalar", f_le_s, { N(33, 65) } },
    { "eq_scalar", f_eq_s, { N(33, 65) } },
    { "ne_scalar", f_ne_s, { N(33, 65) } },
    { "add", f_add, { N(33, 65), N(33, 65) } },
    { "add row", f_add, { N(33, 65), N(65) }, 33 },
    { "add scalar tensor", f_add, { N(33, 65), { .shape = { 0 }, .kind = 'n' } }, 2145 },
    { "add odd", f_add, { N(7), N(7) } },
    { "add big", f_add, { N(1 << 18), N(1 << 18) } },
    { "add 5-d", f_add, { N(3, 1, 5, 1, 2), N(2, 1, 4, 2) }, 8 },
    { "sub", f_sub, { N(33, 65), N(33, 1) }, 65 },
    { "mul outer", f_mul, { N(33, 1), N(1, 65) }, 65 },
    { "div", f_div, { N(33, 65), P(65) }, 33 },
    { "pow", f_pow, { P(33, 65), N(33, 65) } },
    { "maximum", f_maximum, { N(33, 65), N(33, 65) } },
    { "minimum", f_minimum, { N(33, 65), N(65) }, 33 },
    { "fmod", f_fmod, { N(33, 65), P(33, 65) }, 0, 4, 1 },
    { "remainder", f_remainder, { N(33, 65), P(33, 65) }, 0, 4, 1 },
    { "floor_divide", f_floor_divide, { N(33, 65), P(33, 65) }, 0, 0, 1 },
    { "atan2", f_atan2, { N(33, 65), N(33, 65) } },
    { "eq", f_eq, { N(33, 65), N(33, 65) } },
    { "ne", f_ne, { N(33, 65), N(33, 65) } },
    { "lt", f_lt, { N(33, 65), N(33, 65) } },
    { "le", f_le, { N(33, 65), N(65) } },
    { "gt", f_gt, { N(33, 65), N(33, 65) } },
    { "ge", f_ge, { N(512, 64), N(512, 64) } },
    { "logical_and", f_and, { N(33, 65), N(33, 65) } },
    { "logical_or", f_or, { N(33, 65), N(33, 65) } },
    { "logical_xor", f_xor, { N(33, 65), N(33, 65) } },
    { "add transposed", f_add_t, { N(65, 33), N(33, 65) } },
    { "mul of slices", f_mul_steps, { N(8, 17), N(8, 8) } },
    { "mul permuted", f_add3, { N(4, 5, 6), N(6, 1, 5) }, 4 },
    { "where", f_where, { B(33, 65), N(33, 65), N(65) }, 33 },
    { "masked_fill", f_masked, { B(33, 65), N(33, 65) } },
    { "chain", f_chain, { N(128, 64) } },
    { "bce_with_logits", f_bce, { N(33, 65), N(33, 65) }, 2145 },
    { "mse", f_mse, { N(33, 65), N(33, 65) }, 2145 },
    { "l1", f_l1, { N(33, 65), N(33, 65) }, 2145 },
    { "sum", f_sum, { N(7, 1000, 3) }, 21000 },
    { "sum long", f_sum, { N(1, 300000) }, 300000 },
    { "sum 0", f_sum0, { N(7, 1000, 3) }, 7 },
    { "sum columns", f_sum0, { N(5000, 33) }, 5000 },
    { "sum 1", f_sum1, { N(7, 1000, 3) }, 1000 },
    { "sum 2", f_sum2, { N(7, 1000, 3) }, 3 },
    { "sum rows", f_sum1, { N(700, 1500) }, 1500 },
    { "sum 0 and 2", f_sum02, { N(7, 100, 30) }, 210 },
    { "mean", f_mean, { N(33, 65) }, 2145 },
    { "mean 1", f_mean1, { N(33, 65, 4) }, 65 },
    { "prod", f_prod, { P(33, 9) }, 9 },
    { "max", f_max, { N(33, 65) } },
    { "max 1", f_max1, { N(33, 650) } },
    { "min 0", f_min0, { N(330, 65) } },
    { "argmax", f_argmax, { N(33, 65) } },
    { "argmax 1", f_argmax1, { N(33, 3000) } },
    { "argmin 0", f_argmin0, { N(900, 65) } },
    { "argmax of ties", f_argmax_ties, { N(900, 65) } },
    { "any", f_any, { N(33, 65) } },
    { "all", f_all, { N(33, 65) } },
    { "var", f_var, { N(33, 65) }, 65 },
    { "logsumexp", f_logsumexp, { N(33, 65) }, 65 },
    { "sum transposed", f_sum_t, { N(33, 650) }, 650 },
    { "cat", f_cat, { N(5, 7), N(5, 9) } },
    { "stack", f_stack, { N(5, 7), N(5, 7) } },
    { "clone transposed", f_clone_t, { N(64, 128) } },
    { "clone transposed odd", f_clone_t, { N(65, 33) } },
    { "clone of other axes", f_clone_axes, { N(40, 3, 70) } },
    { "slice", f_slice, { N(6, 20) } },
    { "slice backwards", f_back, { N(9, 5) } },
    { "unfold", f_unfold, { N(6, 21) }, 5 },
    { "diagonal", f_diagonal, { N(6, 9) } },
    { "select", f_select, { N(6, 9) } },
    { "tril", f_tril, { N(6, 9) } },
    { "expand", f_expand, { N(7, 1) }, 36 },
    { "reshape transposed", f_reshape, { N(12, 20) } },
    { "cast i64", f_to_i64, { N(33, 65) } },
    { "cast i32", f_to_i32, { N(33, 65) }, 0, 0, 1 },
    { "cast u8", f_to_u8, { N(33, 65) } },
    { "cast bool", f_to_bool, { N(33, 65) } },
    { "cast bf16", f_to_bf16, { N(33, 65) }, 0, 1 },
    { "cast f16", f_to_f16, { N(33, 65) }, 0, 1 },
    { "cast f64", f_to_f64, { N(33, 65) } },
    { "index_select", f_index_select, { N(20, 16), I(20, 50) }, 4 },
    { "index_select 1", f_index_select1, { N(5, 20, 3), I(20, 50) }, 4 },
    { "embedding", f_embedding, { N(65, 32), I(65, 8, 512) }, 64 },
    { "embedding large", f_embedding, { N(70000, 8), I(70000, 3000) }, 2 },
    { "gather", f_gather, { N(33, 20), I(20, 33, 7) }, 2 },
    { "index_add", f_index_add, { N(20, 16), I(20, 50), N(50, 16) }, 4 },
    { "index_add 1", f_index_add1, { N(3, 20, 5), I(20, 1000), N(3, 1000, 5) }, 50 },
    { "scatter_add", f_scatter_add, { N(33, 20), I(20, 33, 40), N(33, 40) }, 3 },
    { "scatter_add flat", f_scatter_flat, { N(300), I(300, 5000), N(5000) }, 20 },
    { "one_hot", f_one_hot, { I(11, 5, 6) } },
    { "matmul", f_matmul, { N(17, 33), N(33, 65) }, 33 },
    { "matmul 256", f_matmul, { N(256, 256), N(256, 256) }, 256 },
    { "matmul tn", f_matmul_tn, { N(33, 17), N(33, 65) }, 33 },
    { "matmul nt", f_matmul_nt, { N(17, 33), N(65, 33) }, 33 },
    { "matmul tt", f_matmul_tt, { N(33, 17), N(65, 33) }, 33 },
    { "matmul batched", f_matmul, { N(3, 4, 17, 5), N(3, 4, 5, 9) }, 5 },
    { "matmul broadcast", f_matmul, { N(3, 1, 17, 5), N(4, 5, 9) }, 20 },
    { "matmul shared", f_matmul, { N(3, 17, 5), N(5, 9) }, 51 },
    { "matmul vector", f_matmul, { N(17, 33), N(33) }, 33 },
    { "matmul row", f_matmul, { N(1, 33), N(33, 64) }, 33 },
    { "matmul k 1", f_matmul, { N(17, 1), N(1, 9) } },
    { "matmul of a slice", f_matmul_steps, { N(17, 66), N(33, 9) }, 33 },
    { "matmul expanded", f_matmul_expand, { N(1, 33), N(33, 9) }, 33 },
    { "matmul heads", f_heads, { N(2, 16, 3, 8), N(2, 16, 3, 8) }, 16 },
    { "dot", f_dot, { N(1000), N(1000) }, 1000 },
    { "outer", f_outer, { N(30), N(40) }, 40 },
    { "linear", f_linear, { N(128, 784), N(512, 784), N(512) }, 784 },
    { "linear odd", f_linear, { N(5, 7), N(3, 7), N(3) }, 7 },
    { "linear 3-d", f_linear, { N(2, 9, 32), N(65, 32), N(65) }, 32 },
    { "linear without bias", f_linear0, { N(16, 32), N(10, 32) }, 32 },
    { "softmax", f_softmax, { N(33, 10) }, 10 },
    { "softmax 1000", f_softmax, { N(33, 1000) }, 1000 },
    { "softmax 3000", f_softmax, { N(5, 3000) }, 3000 },
    { "softmax 0", f_softmax0, { N(33, 10) }, 33 },
    { "log_softmax", f_log_softmax, { N(33, 100) }, 100 },
    { "log_softmax 3000", f_log_softmax, { N(5, 3000) }, 3000 },
    { "layer_norm plain", f_norm0, { N(33, 64) }, 64 },
    { "layer_norm weight", f_norm1, { N(33, 64), N(64) }, 64 },
    { "layer_norm", f_norm2, { N(3, 50, 64), N(64), N(64) }, 150 },
    { "layer_norm 2000", f_norm2, { N(70, 2000), N(2000), N(2000) }, 2000 },
    { "layer_norm rows", f_norm2, { N(3000, 16), N(16), N(16) }, 3000 },
    { "cross_entropy", f_ce, { N(64, 10), I(10, 64) }, 64 },
    { "cross_entropy sum", f_ce_sum, { N(64, 10), I(10, 64) }, 64 },
    { "cross_entropy none", f_ce_none, { N(64, 10), I(10, 64) }, 10 },
    { "cross_entropy smooth", f_ce_smooth, { N(4, 16, 100), I(100, 4, 16) }, 64 },
    { "cross_entropy ignore", f_ce_ignore, { N(64, 10), I(10, 64) }, 64 },
    { "cross_entropy 5000", f_ce, { N(16, 5000), I(5000, 16) }, 5000 },
    { "nll", f_nll, { N(64, 10), I(10, 64) }, 64 },
    { "attention", f_attention, { N(2, 4, 32, 16), N(2, 4, 32, 16), N(2, 4, 32, 16) }, 32 },
    { "attention, 9 keys", f_attention_length, { N(2, 16, 8), N(2, 24, 8), N(2, 24, 8) }, 24 },
    { "attention, 20 keys, causal", f_attention_length_causal, { N(2, 16, 8), N(2, 24, 8), N(2, 24, 8) }, 24 },
    { "attention full", f_attention_full, { N(2, 16, 8), N(2, 24, 8), N(2, 24, 8) }, 24 },
    { "attention packed", f_attention_packed, { N(2, 32, 192) }, 32 },
};

/* clang-format on */

static const sample integer_samples[] = {
    { "i64 add", f_add, { Z(CJ_I64, 33, 65), Z(CJ_I64, 65) } },
    { "i32 mul", f_mul, { Z(CJ_I32, 33, 65), Z(CJ_I32, 33, 65) } },
    { "u8 add wraps", f_add, { Z(CJ_U8, 33, 65), Z(CJ_U8, 33, 65) } },
    { "i64 floor_divide", f_floor_divide, { Z(CJ_I64, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i64 remainder", f_remainder, { Z(CJ_I64, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i64 fmod", f_fmod, { Z(CJ_I64, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i64 div", f_div, { Z(CJ_I64, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i32 maximum", f_maximum, { Z(CJ_I32, 33, 65), Z(CJ_I32, 33, 65) } },
    { "i64 neg", f_neg, { Z(CJ_I64, 33, 65) } },
    { "i64 square", f_square, { Z(CJ_I64, 33, 65) } },
    { "i64 exp", f_exp, { Z(CJ_I64, 33, 65) } },
    { "i64 times a half", f_floats, { Z(CJ_I64, 33, 65) } },
    { "i64 eq", f_eq, { Z(CJ_I64, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i32 lt i64", f_lt, { Z(CJ_I32, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i64 lt f32", f_lt, { Z(CJ_I64, 33, 65), Z(CJ_F32, 33, 65) } },
    { "i64 gt 0.5", f_gt_s, { Z(CJ_I64, 33, 65) } },
    { "bool and i64", f_and, { Z(CJ_BOOL, 33, 65), Z(CJ_I64, 33, 65) } },
    { "i64 sum", f_sum, { Z(CJ_I64, 33, 65) } },
    { "u8 sum", f_sum1, { Z(CJ_U8, 33, 65) } },
    { "bool sum", f_sum0, { Z(CJ_BOOL, 33, 65) } },
    { "i32 max", f_max1, { Z(CJ_I32, 33, 65) } },
    { "i64 prod", f_prod, { Z(CJ_I64, 33, 5) } },
    { "i64 argmax", f_argmax1, { Z(CJ_I64, 33, 65) } },
    { "i64 cast f16", f_i_cast, { Z(CJ_I64, 33, 65) } },
    { "i64 cast u8", f_i_to_u8, { Z(CJ_I64, 33, 65) } },
    { "i32 cat i64", f_cat, { Z(CJ_I32, 5, 7), Z(CJ_I64, 5, 9) } },
    { "i32 index_add", f_index_add, { Z(CJ_I32, 20, 16), I(20, 50), Z(CJ_I32, 50, 16) } },
    { "i32 scatter_add", f_scatter_add, { Z(CJ_I32, 33, 20), I(20, 33, 40), Z(CJ_I32, 33, 40) } },
    { "f32 with f64", f_mul, { { S(33, 65), .kind = 'n', .dtype = CJ_F32 }, { S(33, 65), .kind = 'n', .dtype = CJ_F64 } } },
    { "bf16 with f32", f_mul, { { S(33, 65), .kind = 'n', .dtype = CJ_BF16 }, { S(65), .kind = 'n', .dtype = CJ_F32 } }, 33, 500 },
};

void check_operators(void)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    for (int t = 0; t < 4; t++) {
        dtype_name = cj_dtype_name(types[t]);
        for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
            if (!(samples[i].only && t > 1)) check(&samples[i], types[t]);
    }
    dtype_name = "";
    for (size_t i = 0; i < sizeof integer_samples / sizeof integer_samples[0]; i++) check(&integer_samples[i], CJ_F32);
}

/* ---- chains: what a graph runs as one kernel, compiled or interpreted, has the bits of the operators one by one; in 16 bits it rounds once instead of at every one --------- */

/* clang-format off */
F(chain_rows, cj_mul(cj_add(cj_tanh(X0), X1), cj_exp(cj_neg(cj_abs(X2)))))
F(chain_turned, cj_add(cj_sigmoid(cj_t(X0)), cj_mul_scalar(X1, 0.3)))
F(chain_slice, cj_silu(cj_mul_scalar(cj_slice(X0, 0, 1, CJ_END, 1), 2)))
F(chain_steps, cj_gelu(cj_add_scalar(cj_slice(X0, 1, 0, CJ_END, 2), -0.25)))
F(chain_chosen, cj_where(cj_gt(cj_square(X0), X1), cj_softplus(X0), cj_sqrt(cj_add_scalar(cj_abs(X1), 1))))
F(chain_bool, cj_logical_and(cj_gt_scalar(cj_sin(X0), 0.1), cj_lt(X0, X1)))
F(chain_cast, cj_cast(cj_mul_scalar(cj_cast(X0, CJ_F32), 1.7), CJ_BF16))
/* clang-format on */

static const sample chains[] = {
    /* large enough to be compiled, but the second */
    { "chain", f_chain, { N(1 << 18) } },
    { "chain of a few", f_chain, { N(4097) } },
    { "chain odd", f_chain, { N(300001) } },
    { "chain of rows", f_chain_rows, { N(2048, 128), N(128), N(2048, 1) } },
    { "chain of odd rows", f_chain_rows, { N(2999, 33, 3), N(33, 1), N(2999, 1, 3) } },
    { "chain turned", f_chain_turned, { N(768, 512), N(512, 768) } },
    { "chain behind one", f_chain_slice, { N(262149) } },
    { "chain of every other", f_chain_steps, { N(4096, 130) } },
    { "chain that chooses", f_chain_chosen, { N(3000, 100), N(100) }, .only = 1 }, /* rounding would choose, too */
    { "chain to bool", f_chain_bool, { N(512, 512), N(512, 512) }, .only = 1 },
    { "chain of casts", f_chain_cast, { N(512, 512) } },
};

static void chain_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out) { out[0] = ((const sample *)user)->f(c, in); }

static void check_chain(const sample *s, cj_dtype dtype)
{
    cj_tensor *x[4], *pair[2], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    int n = 0;
    cj_scope a = cj_scope_open(host), b = cj_scope_open(device);
    for (; n < 4 && s->in[n].kind; n++) {
        make(&s->in[n], dtype, pair);
        x[n] = pair[1];
    }
    cj_tensor *one_by_one = s->f(device, x);
    cj_plan *p = (cj_capture)(device, chain_step, (void *)(uintptr_t)s, x, n, out);
    for (int r = 0; r < 2 && p; r++) (cj_replay)(p, x, out);
    const bool half = dtype == CJ_BF16 || dtype == CJ_F16;
    double other = NAN;
    if (p && half) other = compare(out[0], one_by_one, dtype == CJ_BF16 ? 0.02 : 4e-3, 1);
    else if (p) other = cj_item(cj_sum(cj_cast(cj_ne(out[0], one_by_one), CJ_F64)));
    report(other <= (half ? 1 : 0) && cj_ok(device), named(s->name, "plan"), cj_ok(device) ? "differs" : cj_message(device), other);
    cj_plan_free(p);
    cj_scope_close(b);
    cj_scope_close(a);
    cj_clear(host);
    cj_clear(device);
}

void check_chains(void)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    for (int t = 0; t < 4; t++) {
        dtype_name = cj_dtype_name(types[t]);
        for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
            if (!(chains[i].only && t > 1)) check_chain(&chains[i], types[t]);
    }
    dtype_name = "";
}

/* ---- speed (-b): what a planned operator moves or computes per second ------------------------------------------------------------------------------------------- */

typedef struct speed {
    const char *name;
    fn *f;
    input in[3];
    double bytes, flops;
    cj_dtype dtype;
} speed;
/* The operands are persistent, so that a replay copies nothing. */
typedef struct speed_run {
    const speed *s;
    cj_tensor *in[3];
} speed_run;

static void speed_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    speed_run *r = user;
    (void)in;
    out[0] = r->s->f(c, r->in);
}
static cj_tensor *chain_backward(cj_ctx *c, cj_tensor *const *x)
{
    (void)c;
    cj_tensor *leaf = cj_require_grad(x[0]), *g;
    return (cj_grad)(f_chain(c, &leaf), &leaf, 1, &g, &(cj_grad_opts){ .seed = x[1] }) ? g : NULL;
}
F(copy, cj_clone(X0))
F(transposed, cj_clone(cj_t(X0)))

void bench(void)
{
    const double n = 1 << 26;
    const speed list[] = {
        { "copy", f_copy, { N(1 << 26) }, 8 * n },
        { "add", f_add, { N(1 << 26), N(1 << 26) }, 12 * n },
        { "chain", f_chain, { N(1 << 26) }, 8 * n },
        { "chain backward", chain_backward, { N(1 << 26), N(1 << 26) }, 12 * n },
        { "transpose", f_transposed, { N(8192, 8192) }, 8 * n },
        { "sum", f_sum, { N(1 << 26) }, 4 * n },
        { "sum rows", f_sum1, { N(65536, 1024) }, 4 * n },
        { "sum columns", f_sum0, { N(65536, 1024) }, 4 * n },
        { "softmax", f_softmax, { N(65536, 1024) }, 8 * n },
        { "layer_norm", f_norm2, { N(65536, 1024), N(1024), N(1024) }, 8 * n },
        { "cross_entropy", f_ce, { N(8192, 8192), I(8192, 8192) }, 4 * n },
        { "embedding", f_embedding, { N(50000, 1024), I(50000, 65536) }, 8 * n },
        { "index_add", f_index_add, { N(50000, 1024), I(50000, 65536), N(65536, 1024) }, 4 * n + 8 * 50000 * 1024 },
        { "matmul f32 4096", f_matmul, { N(4096, 4096), N(4096, 4096) }, 0, 2.0 * 4096 * 4096 * 4096 },
        { "matmul bf16 8192", f_matmul, { N(8192, 8192), N(8192, 8192) }, 0, 2.0 * 8192 * 8192 * 8192, CJ_BF16 },
        { "linear 128x784x512", f_linear, { N(128, 784), N(512, 784), N(512) }, 0, 2.0 * 128 * 784 * 512 },
        { "matmul tn 784x128x512", f_matmul_tn, { N(128, 784), N(128, 512) }, 0, 2.0 * 128 * 784 * 512 },
        { "attention 16x12x256x64",
          f_attention,
          { N(16, 12, 256, 64), N(16, 12, 256, 64), N(16, 12, 256, 64) },
          0,
          4.0 * 16 * 12 * 256 * 256 * 64 },
    };
    cj_tensor *one = cj_keep(cj_ones(device, CJ_SCALAR, CJ_F32)); /* reading it waits for the device */
    for (size_t i = 0; i < sizeof list / sizeof list[0] && cj_ok(device); i++) {
        cj_scope s = cj_scope_open(device);
        speed_run run = { .s = &list[i] };
        cj_tensor *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
        int m = 0;
        for (; m < 3 && list[i].in[m].kind; m++) {
            cj_shape shape = list[i].in[m].shape;
            cj_dtype t = list[i].dtype ? list[i].dtype : CJ_F32;
            run.in[m] = cj_keep(list[i].in[m].kind == 'i' ? (cj_randint)(device, 0, list[i].in[m].limit, shape, NULL)
                                                          : (cj_randn)(device, shape, &(cj_random_opts){ .dtype = t }));
        }
        cj_plan *p = (cj_capture)(device, speed_step, &run, NULL, 0, out);
        double best = INFINITY;
        for (int r = 0; r < 3 && p; r++) (cj_replay)(p, NULL, out);
        for (int r = 0; r < 5 && cj_ok(device); r++) {
            cj_item(one);
            double start = seconds();
            for (int q = 0; q < 10; q++) {
                cj_scope inner = cj_scope_open(device);
                (cj_replay)(p, NULL, out);
                cj_scope_close(inner);
            }
            cj_item(one);
            best = fmin(best, (seconds() - start) / 10);
        }
        if (list[i].bytes > 0) printf("bench %-26s %10.1f us  %7.1f GB/s\n", list[i].name, 1e6 * best, 1e-9 * list[i].bytes / best);
        else printf("bench %-26s %10.1f us  %7.2f TFLOP/s\n", list[i].name, 1e6 * best, 1e-12 * list[i].flops / best);
        cj_plan_free(p);
        for (int k = 0; k < m; k++) cj_release(run.in[k]);
        cj_scope_close(s);
    }
    if (!cj_ok(device)) printf("bench: %s\n", cj_message(device));
    cj_clear(device);
}
