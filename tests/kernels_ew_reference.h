/* What the elementwise instructions are, in f64 by libm, and how near to that each has to be. */
#pragma once
#include <math.h>

#include "kernels/cpu/cpu.h"

static double r_neg(double a, double b) { return (void)b, -a; }
static double r_abs(double a, double b) { return (void)b, fabs(a); }
static double r_sign(double a, double b) { return (void)b, (a > 0) - (a < 0); }
static double r_exp(double a, double b) { return (void)b, exp(a); }
static double r_expm1(double a, double b) { return (void)b, expm1(a); }
static double r_log(double a, double b) { return (void)b, log(a); }
static double r_log1p(double a, double b) { return (void)b, log1p(a); }
static double r_sqrt(double a, double b) { return (void)b, sqrt(a); }
static double r_rsqrt(double a, double b) { return (void)b, 1 / sqrt(a); }
static double r_recip(double a, double b) { return (void)b, 1 / a; }
static double r_square(double a, double b) { return (void)b, a * a; }
static double r_sin(double a, double b) { return (void)b, sin(a); }
static double r_cos(double a, double b) { return (void)b, cos(a); }
static double r_tanh(double a, double b) { return (void)b, tanh(a); }
/* 0 where exp(-a) overflows in f32 */
static double r_sigmoid(double a, double b) { return (void)b, a < -88.7228394 ? 0 : 1 / (1 + exp(-a)); }
static double r_erf(double a, double b) { return (void)b, erf(a); }
static double r_floor(double a, double b) { return (void)b, floor(a); }
static double r_ceil(double a, double b) { return (void)b, ceil(a); }
static double r_round(double a, double b) { return (void)b, rint(a); }
static double r_trunc(double a, double b) { return (void)b, trunc(a); }
static double r_relu(double a, double b) { return (void)b, a != a ? a : a > 0 ? a : 0; }
static double r_not(double a, double b) { return (void)b, a == 0; }
static double r_isnan(double a, double b) { return (void)b, a != a; }
static double r_isfinite(double a, double b) { return (void)b, fabs(a) < INFINITY; }
static double r_add(double a, double b) { return a + b; }
static double r_sub(double a, double b) { return a - b; }
static double r_mul(double a, double b) { return a * b; }
static double r_div(double a, double b) { return a / b; }
static double r_pow(double a, double b) { return pow(a, b); }
static double r_max(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }
static double r_min(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }
static double r_fmod(double a, double b) { return fmod(a, b); }
static double r_remainder(double a, double b)
{
    float m = fmodf((float)a, (float)b);
    return m != 0 && (b < 0) != (m < 0) ? m + (float)b : m;
}
static double r_atan2(double a, double b) { return atan2(a, b); }
static double r_eq(double a, double b) { return a == b; }
static double r_ne(double a, double b) { return a != b; }
static double r_lt(double a, double b) { return a < b; }
static double r_le(double a, double b) { return a <= b; }
static double r_gt(double a, double b) { return a > b; }
static double r_ge(double a, double b) { return a >= b; }
static double r_and(double a, double b) { return a != 0 && b != 0; }
static double r_or(double a, double b) { return a != 0 || b != 0; }
static double r_xor(double a, double b) { return (a != 0) != (b != 0); }
static double r_gelu(double a, double b) { return (void)b, a * 0.5 * erfc(-a * 0.70710678118654752440); }
static double slope_gelu(double a)
{
    if (fabs(a) > 100 && fabs(a) < INFINITY) return a > 0;
    return 0.5 * erfc(-a * 0.70710678118654752440) + a * exp(-0.5 * a * a) * 0.39894228040143267794;
}
static double r_gelu_bwd(double a, double b) { return b * (a != a ? a : slope_gelu(a)); }
static double r_gelu_tanh(double a, double b)
{
    (void)b;
    return a * r_sigmoid(1.5957691216057307 * a * (1 + 0.044715 * a * a), 0);
}
static double r_gelu_tanh_bwd(double a, double b)
{
    if (fabs(a) > 100) return b * ((a > 0) + (a - a));
    double u = 1.5957691216057307 * a * (1 + 0.044715 * a * a), s = r_sigmoid(u, 0);
    return b * (s + a * s * r_sigmoid(-u, 0) * 1.5957691216057307 * (1 + 3 * 0.044715 * a * a));
}
static double r_silu(double a, double b) { return (void)b, a * r_sigmoid(a, 0); }
static double r_silu_bwd(double a, double b)
{
    if (fabs(a) > 1000) return b * ((a > 0) + (a - a));
    double s = r_sigmoid(a, 0);
    return b * (s + a * s * r_sigmoid(-a, 0));
}
static double r_softplus(double a, double b) { return (void)b, r_max(a, 0) + log1p(exp(-fabs(a))); }
static double r_logsigmoid(double a, double b) { return (void)b, r_min(a, 0) - log1p(exp(-fabs(a))); }
static double r_tanh_bwd(double a, double b) { return b * (1 - a * a); }
static double r_sigmoid_bwd(double a, double b) { return b * (a * (1 - a)); }
static double r_relu_bwd(double a, double b) { return a > 0 ? b : 0; }
static double r_bce(double a, double b) { return r_max(a, 0) - a * b + log1p(exp(-fabs(a))); }

/* ulp: the bound; floor: errors are measured in ulps of max(|result|, floor * scale), where scale is 1 (unary) or |b| (gradients). */
typedef struct accuracy {
    cj_ew_code code;
    double (*ref)(double, double);
    double ulp, floor;
    double range; /* |a| up to this; 0: all floats */
} accuracy;
static const accuracy cases[] = {
    { CJ_EW_NEG, r_neg, 0, 0, 0 },
    { CJ_EW_ABS, r_abs, 0, 0, 0 },
    { CJ_EW_SIGN, r_sign, 0, 0, 0 },
    { CJ_EW_EXP, r_exp, 1.25, 0, 0 },
    { CJ_EW_EXPM1, r_expm1, 1.5, 0, 0 },
    { CJ_EW_LOG, r_log, 1.25, 0, 0 },
    { CJ_EW_LOG1P, r_log1p, 1.75, 0, 0 },
    { CJ_EW_SQRT, r_sqrt, 0.5, 0, 0 },
    { CJ_EW_RSQRT, r_rsqrt, 1.5, 0, 0 },
    { CJ_EW_RECIP, r_recip, 0.5, 0, 0 },
    { CJ_EW_SQUARE, r_square, 0.5, 0, 0 },
    { CJ_EW_SIN, r_sin, 2, 0, 0 },
    { CJ_EW_COS, r_cos, 2, 0, 0 },
    { CJ_EW_TANH, r_tanh, 3, 0, 0 },
    { CJ_EW_SIGMOID, r_sigmoid, 3.2, 0, 0 }, /* 3.13 over all floats */
    { CJ_EW_ERF, r_erf, 2, 0, 0 },
    { CJ_EW_FLOOR, r_floor, 0, 0, 0 },
    { CJ_EW_CEIL, r_ceil, 0, 0, 0 },
    { CJ_EW_ROUND, r_round, 0, 0, 0 },
    { CJ_EW_TRUNC, r_trunc, 0, 0, 0 },
    { CJ_EW_RELU, r_relu, 0, 0, 0 },
    { CJ_EW_NOT, r_not, 0, 0, 0 },
    { CJ_EW_ISNAN, r_isnan, 0, 0, 0 },
    { CJ_EW_ISFINITE, r_isfinite, 0, 0, 0 },
    { CJ_EW_ADD, r_add, 0.5, 0, 0 },
    { CJ_EW_SUB, r_sub, 0.5, 0, 0 },
    { CJ_EW_MUL, r_mul, 0.5, 0, 0 },
    { CJ_EW_DIV, r_div, 0.5, 0, 0 },
    { CJ_EW_POW, r_pow, 3, 0, 0 },
    { CJ_EW_MAX, r_max, 0, 0, 0 },
    { CJ_EW_MIN, r_min, 0, 0, 0 },
    { CJ_EW_FMOD, r_fmod, 0, 0, 0 },
    { CJ_EW_REMAINDER, r_remainder, 0, 0, 0 },
    { CJ_EW_ATAN2, r_atan2, 3, 0, 0 },
    { CJ_EW_EQ, r_eq, 0, 0, 0 },
    { CJ_EW_NE, r_ne, 0, 0, 0 },
    { CJ_EW_LT, r_lt, 0, 0, 0 },
    { CJ_EW_LE, r_le, 0, 0, 0 },
    { CJ_EW_GT, r_gt, 0, 0, 0 },
    { CJ_EW_GE, r_ge, 0, 0, 0 },
    { CJ_EW_AND, r_and, 0, 0, 0 },
    { CJ_EW_OR, r_or, 0, 0, 0 },
    { CJ_EW_XOR, r_xor, 0, 0, 0 },
    { CJ_EW_GELU, r_gelu, 8, 0.05, 0 },
    { CJ_EW_GELU_BWD, r_gelu_bwd, 8, 0.25, 0 },
    { CJ_EW_GELU_TANH, r_gelu_tanh, 8, 0.05, 0 },
    { CJ_EW_GELU_TANH_BWD, r_gelu_tanh_bwd, 5, 0.25, 0 },
    { CJ_EW_SILU, r_silu, 3.5, 1e-36, 0 },
    { CJ_EW_SILU_BWD, r_silu_bwd, 4, 0.25, 0 },
    { CJ_EW_SOFTPLUS, r_softplus, 2, 0, 0 },
    { CJ_EW_LOGSIGMOID, r_logsigmoid, 2, 0, 0 },
    { CJ_EW_TANH_BWD, r_tanh_bwd, 2, 1, 1 },
    { CJ_EW_SIGMOID_BWD, r_sigmoid_bwd, 2.5, 0.25, 1 },
    { CJ_EW_RELU_BWD, r_relu_bwd, 0, 0, 0 },
    { CJ_EW_BCE_LOGITS, r_bce, 3, 1, 100 } /* relative to |a| */,
};
