/* The instructions of the elementwise engine on f64: plain loops over libm, the same formulas as in f32.  For checks; there is no speed target. */
#include <math.h>

#include "kernels/cpu/ew_block.h"

static double sign(double x) { return (x > 0) - (x < 0); }
static double sigmoid(double x)
{
    double z = exp(-fabs(x));
    return (x < 0 ? z : 1) / (1 + z);
}
static double maximum(double a, double b) { return a != a || a > b ? a : b; }
static double minimum(double a, double b) { return a != a || a < b ? a : b; }
static double remainder_f64(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
static double floordiv_f64(double a, double b)
{
    if (b == 0) return a / b;
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysign(0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}
static double pow_f64(double a, double s)
{
    if (s == 2) return a * a;
    if (s == 3) return a * a * a;
    if (s == 1) return a;
    if (s == 0.5) return sqrt(a);
    if (s == 0) return 1;
    if (s == -1) return 1 / a;
    if (s == -0.5) return 1 / sqrt(a);
    if (s == -2) return 1 / (a * a);
    return pow(a, s);
}

static const double sqrt_half = 0.70710678118654752440;

/* x Phi(x) and its slope: NaN where inf * 0 occurs, as in PyTorch. */
static double gelu(double x) { return x * 0.5 * erfc(-x * sqrt_half); }
static double gelu_slope(double x) { return 0.5 * erfc(-x * sqrt_half) + x * exp(-0.5 * x * x) * 0.39894228040143267794; }
/* x sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3) */
static const double gelu_k = 1.5957691216057307;
static double gelu_tanh(double x) { return x * sigmoid(gelu_k * x * (1 + 0.044715 * x * x)); }
static double gelu_tanh_slope(double x)
{
    double c = x > 40 ? 40 : x < -40 ? -40 : x, s = sigmoid(gelu_k * c * (1 + 0.044715 * c * c));
    double r = sigmoid(-gelu_k * c * (1 + 0.044715 * c * c));
    return s + c * s * r * gelu_k * (1 + 3 * 0.044715 * c * c) + (x - x);
}
static double silu(double x) { return x * sigmoid(x); }
static double silu_slope(double x)
{
    double s = sigmoid(x);
    return s + x * s * sigmoid(-x);
}
static double softplus(double x) { return maximum(x, 0) + log1p(exp(-fabs(x))); }
static double logsigmoid(double x) { return minimum(x, 0) - log1p(exp(-fabs(x))); }

#define A a[i]
#define B b[i]
#define C c[i]
#define OP(NAME, EXPR)                                                                                                                     \
    static void f64_##NAME(const cj_ew_call *k)                                                                                            \
    {                                                                                                                                      \
        const double *a = k->a, *b = k->b, *c = k->c, s = k->s;                                                                            \
        double *d = k->d;                                                                                                                  \
        (void)a, (void)b, (void)c, (void)s;                                                                                                \
        for (int i = 0, n = k->n; i < n; i++) d[i] = EXPR;                                                                                 \
    }

OP(COPY, A)
OP(NEG, -A)
OP(ABS, fabs(A))
OP(SIGN, sign(A))
OP(EXP, exp(A))
OP(EXPM1, expm1(A))
OP(LOG, log(A))
OP(LOG1P, log1p(A))
OP(SQRT, sqrt(A))
OP(RSQRT, 1 / sqrt(A))
OP(RECIP, 1 / A)
OP(SQUARE, A *A)
OP(SIN, sin(A))
OP(COS, cos(A))
OP(TANH, tanh(A))
OP(SIGMOID, sigmoid(A))
OP(ERF, erf(A))
OP(FLOOR, floor(A))
OP(CEIL, ceil(A))
OP(ROUND, rint(A))
OP(TRUNC, trunc(A))
OP(RELU, A < 0 ? 0 : A)
OP(NOT, A == 0)
OP(ISNAN, A != A)
OP(ISFINITE, fabs(A) < INFINITY)
OP(ADD, A + B)
OP(SUB, A - B)
OP(MUL, A *B)
OP(DIV, A / B)
OP(POW, pow(A, B))
OP(MAX, maximum(A, B))
OP(MIN, minimum(A, B))
OP(FMOD, fmod(A, B))
OP(REMAINDER, remainder_f64(A, B))
OP(FLOORDIV, floordiv_f64(A, B))
OP(ATAN2, atan2(A, B))
OP(EQ, A == B)
OP(NE, A != B)
OP(LT, A < B)
OP(LE, A <= B)
OP(GT, A > B)
OP(GE, A >= B)
OP(AND, A != 0 && B != 0)
OP(OR, A != 0 || B != 0)
OP(XOR, (A != 0) != (B != 0))
OP(WHERE, A != 0 ? B : C)
OP(FMA, fma(A, B, C))
OP(CONST, s)
OP(ADDS, A + s)
OP(MULS, A *s)
OP(POWS, pow_f64(A, s))
OP(MAXS, maximum(A, s))
OP(MINS, minimum(A, s))
OP(EQS, A == s)
OP(NES, A != s)
OP(LTS, A < s)
OP(LES, A <= s)
OP(GTS, A > s)
OP(GES, A >= s)
OP(GELU, gelu(A))
OP(GELU_BWD, B *gelu_slope(A))
OP(GELU_TANH, gelu_tanh(A))
OP(GELU_TANH_BWD, B *gelu_tanh_slope(A))
OP(SILU, silu(A))
OP(SILU_BWD, B *silu_slope(A))
OP(SOFTPLUS, softplus(A))
OP(LOGSIGMOID, logsigmoid(A))
OP(TANH_BWD, B *(1 - A * A))
OP(SIGMOID_BWD, B *(A *(1 - A)))
OP(RELU_BWD, A > 0 ? B : 0)
OP(BCE_LOGITS, maximum(A, 0) - A * B + log1p(exp(-fabs(A))))

cj_ew_block_fn *const CJ_K(cj__ew_f64)[CJ_EW_CODES] = {
#define X(name, arity) [CJ_EW_##name] = f64_##name,
    CJ_EW_OPS(X)
#undef X
};
