/* The instructions of the elementwise engine on i64 (for i64, i32, u8 and bool).
 *
 * + - * wrap; division by zero sets the fault flag and gives 0.  DIV truncates, FLOORDIV rounds down.  Functions that have no integer meaning (exp,
 * gelu …) never reach this file from an operator; they go through f64 and saturate.
 */
#include <math.h>
#include <stddef.h>

#include "kernels/cpu/ew_block.h"

static int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static int64_t quotient(int64_t a, int64_t b, int *fault)
{
    if (b == 0) {
        if (fault) __atomic_store_n(fault, 1, __ATOMIC_RELAXED); /* several workers may find one */
        return 0;
    }
    return b == -1 ? sub(0, a) : a / b;
}
static int64_t modulus(int64_t a, int64_t b, int *fault) /* the sign of the dividend */
{
    if (b == 0 || b == -1) return quotient(0, b, fault);
    return a % b;
}
static int64_t floor_quotient(int64_t a, int64_t b, int *fault)
{
    int64_t q = quotient(a, b, fault);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static int64_t floor_modulus(int64_t a, int64_t b, int *fault)
{
    int64_t m = modulus(a, b, fault);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

/* a^b by squaring; a negative exponent leaves 0 unless a is 1 or -1. */
static int64_t power(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; b; b >>= 1, a = mul(a, a))
        if (b & 1) r = mul(r, a);
    return r;
}

static int64_t saturate(double x)
{
    if (x != x) return 0;
    return x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

#define A a[i]
#define B b[i]
#define C c[i]
#define OP(NAME, EXPR)                                                                                                                     \
    static void i64_##NAME(const cj_ew_call *k)                                                                                            \
    {                                                                                                                                      \
        const int64_t *a = k->a, *b = k->b, *c = k->c, s = saturate(k->s);                                                                 \
        int64_t *d = k->d;                                                                                                                 \
        int *fault = k->fault;                                                                                                             \
        (void)a, (void)b, (void)c, (void)s, (void)fault;                                                                                   \
        for (int i = 0, n = k->n; i < n; i++) d[i] = EXPR;                                                                                 \
    }

/* Through f64, value by value. */
static void as_f64(const cj_ew_call *k, cj_ew_code code)
{
    const int64_t *a = k->a, *b = k->b;
    int64_t *d = k->d;
    for (int i = 0; i < k->n; i++) {
        double x = a ? (double)a[i] : 0, y = b ? (double)b[i] : 0, z;
        CJ_K(cj__ew_f64)[code](&(cj_ew_call){ .d = &z, .a = &x, .b = &y, .s = k->s, .n = 1 });
        d[i] = saturate(z);
    }
}
#define VIA_F64(NAME)                                                                                                                      \
    static void i64_##NAME(const cj_ew_call *k) { as_f64(k, CJ_EW_##NAME); }

OP(COPY, A)
OP(NEG, sub(0, A))
OP(ABS, A < 0 ? sub(0, A) : A)
OP(SIGN, (A > 0) - (A < 0))
VIA_F64(EXP)
VIA_F64(EXPM1)
VIA_F64(LOG)
VIA_F64(LOG1P)
VIA_F64(SQRT)
VIA_F64(RSQRT)
OP(RECIP, quotient(1, A, fault))
OP(SQUARE, mul(A, A))
VIA_F64(SIN)
VIA_F64(COS)
VIA_F64(TANH)
VIA_F64(SIGMOID)
VIA_F64(ERF)
OP(FLOOR, A)
OP(CEIL, A)
OP(ROUND, A)
OP(TRUNC, A)
OP(RELU, A > 0 ? A : 0)
OP(NOT, A == 0)
OP(ISNAN, 0)
OP(ISFINITE, 1)
OP(ADD, add(A, B))
OP(SUB, sub(A, B))
OP(MUL, mul(A, B))
OP(DIV, quotient(A, B, fault))
OP(POW, power(A, B))
OP(MAX, A > B ? A : B)
OP(MIN, A < B ? A : B)
OP(FMOD, modulus(A, B, fault))
OP(REMAINDER, floor_modulus(A, B, fault))
OP(FLOORDIV, floor_quotient(A, B, fault))
VIA_F64(ATAN2)
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
OP(FMA, add(mul(A, B), C))
OP(CONST, s)
OP(ADDS, add(A, s))
OP(MULS, mul(A, s))
OP(POWS, power(A, s))
OP(MAXS, A > s ? A : s)
OP(MINS, A < s ? A : s)
OP(EQS, A == s)
OP(NES, A != s)
OP(LTS, A < s)
OP(LES, A <= s)
OP(GTS, A > s)
OP(GES, A >= s)
VIA_F64(GELU)
VIA_F64(GELU_BWD)
VIA_F64(GELU_TANH)
VIA_F64(GELU_TANH_BWD)
VIA_F64(SILU)
VIA_F64(SILU_BWD)
VIA_F64(SOFTPLUS)
VIA_F64(LOGSIGMOID)
VIA_F64(TANH_BWD)
VIA_F64(SIGMOID_BWD)
OP(RELU_BWD, A > 0 ? B : 0)
VIA_F64(BCE_LOGITS)

cj_ew_block_fn *const CJ_K(cj__ew_i64)[CJ_EW_CODES] = {
#define X(name, arity) [CJ_EW_##name] = i64_##name,
    CJ_EW_OPS(X)
#undef X
};
