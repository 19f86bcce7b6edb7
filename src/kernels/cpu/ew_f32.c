/* The instructions of the elementwise engine on f32: the functions of simd_math.h in a loop over a block.
 *
 * The last vector of a block goes through the same code with masked loads and stores, so a value never depends on its position.
 */
#include "kernels/cpu/ew_block.h"
#include "kernels/cpu/simd_math.h"

/* ---- loops ----------------------------------------------------------------------------------------------------------------------------- */

typedef vf fn1(vf a);
typedef vf fn2(vf a, vf b);
typedef vf fn3(vf a, vf b, vf c);

CJ_INLINE void put(bool stream, float *p, vf x)
{
    if (stream) vf_stream(p, x);
    else vf_store(p, x);
}

typedef struct ahead2 {
    const char *p, *q;
    int64_t dp, dq;
} ahead2;
CJ_INLINE ahead2 start_ahead(const cj_ew_call *k) { return (ahead2){ k->ahead[0], k->ahead[1], k->pace[0], k->pace[1] }; }
CJ_INLINE void prefetch(ahead2 *at)
{
    __builtin_prefetch(at->p);
    __builtin_prefetch(at->q);
    at->p += at->dp;
    at->q += at->dq;
}

enum { WIDE = 4 }; /* vectors of one turn of the loop: shares the decoding of links and hides latencies */

/* Links first … last-1 on WIDE vectors at element i (tail 0), or on the first `tail` elements of v[0]. */
CJ_INLINE void follow(const cj_ew_call *k, int first, int last, int i, int tail, vf *v)
{
    const int n = tail ? 1 : WIDE;
    for (const cj_ew_link *link = k->links + first, *end = k->links + last; link < end; link++) {
        const float *x = link->x + i;
        vf u[WIDE];
        if (link->op <= CJ_LINK_RSUB)
            for (int q = 0; q < n; q++) u[q] = tail ? vf_load_n(x, tail) : vf_load(x + q * CJ_VL);
        else
            for (int q = 0; q < n; q++) u[q] = vf_set1(link->s);
        switch (link->op) {
        case CJ_LINK_ADD:
        case CJ_LINK_ADDS:
            for (int q = 0; q < n; q++) v[q] = v[q] + u[q];
            break;
        case CJ_LINK_MUL:
        case CJ_LINK_MULS:
            for (int q = 0; q < n; q++) v[q] = v[q] * u[q];
            break;
        case CJ_LINK_SUB:
            for (int q = 0; q < n; q++) v[q] = v[q] - u[q];
            break;
        case CJ_LINK_RSUB:
            for (int q = 0; q < n; q++) v[q] = u[q] - v[q];
            break;
        case CJ_LINK_RELU:
            for (int q = 0; q < n; q++) v[q] = vf_max(vf_zero(), v[q]);
            break;
        }
    }
}

/* The loops take f as a constant and are inlined: each instance is one straight loop. */
CJ_INLINE int whole1(const cj_ew_call *k, bool stream, fn1 *f)
{
    const float *a = k->a;
    ahead2 at = start_ahead(k);
    float *d = k->d;
    const int n = k->n, n_pre = k->n_pre, n_all = n_pre + k->n_post;
    int i = 0;
    for (; i + WIDE * CJ_VL <= n; i += WIDE * CJ_VL) {
        vf x[WIDE];
        for (int q = 0; q < WIDE; q++) {
            prefetch(&at);
            x[q] = vf_load(a + i + q * CJ_VL);
        }
        if (n_pre) follow(k, 0, n_pre, i, 0, x);
        for (int q = 0; q < WIDE; q++) x[q] = f(x[q]);
        if (n_all > n_pre) follow(k, n_pre, n_all, i, 0, x);
        for (int q = 0; q < WIDE; q++) put(stream, d + i + q * CJ_VL, x[q]);
    }
    return i;
}
CJ_INLINE void run1(const cj_ew_call *k, fn1 *f)
{
    int i = k->stream ? whole1(k, true, f) : whole1(k, false, f), n = k->n;
    const float *a = k->a;
    float *d = k->d;
    for (; i < n; i += CJ_VL) {
        const int m = n - i < CJ_VL ? n - i : CJ_VL;
        vf x[WIDE] = { vf_load_n(a + i, m) };
        if (k->n_pre) follow(k, 0, k->n_pre, i, m, x);
        x[0] = f(x[0]);
        if (k->n_post) follow(k, k->n_pre, k->n_pre + k->n_post, i, m, x);
        vf_store_n(d + i, x[0], m);
    }
}

CJ_INLINE int whole2(const cj_ew_call *k, bool stream, fn2 *f)
{
    const float *a = k->a, *b = k->b;
    ahead2 at = start_ahead(k);
    float *d = k->d;
    const int n = k->n, n_pre = k->n_pre, n_all = n_pre + k->n_post;
    /* Both operands are read before the links run on one of them, so the other one is swapped in and out by pointer alone. */
    const float *linked = k->pre_b ? b : a, *other = k->pre_b ? a : b;
    const bool pre_b = k->pre_b;
    int i = 0;
    for (; i + WIDE * CJ_VL <= n; i += WIDE * CJ_VL) {
        vf x[WIDE], y[WIDE];
        for (int q = 0; q < WIDE; q++) {
            prefetch(&at);
            x[q] = vf_load(linked + i + q * CJ_VL);
        }
        if (n_pre) follow(k, 0, n_pre, i, 0, x);
        for (int q = 0; q < WIDE; q++) y[q] = vf_load(other + i + q * CJ_VL);
        if (pre_b)
            for (int q = 0; q < WIDE; q++) {
                const vf t = x[q];
                x[q] = y[q];
                y[q] = t;
            }
        for (int q = 0; q < WIDE; q++) x[q] = f(x[q], y[q]);
        if (n_all > n_pre) follow(k, n_pre, n_all, i, 0, x);
        for (int q = 0; q < WIDE; q++) put(stream, d + i + q * CJ_VL, x[q]);
    }
    return i;
}
CJ_INLINE void run2(const cj_ew_call *k, fn2 *f)
{
    int i = k->stream ? whole2(k, true, f) : whole2(k, false, f), n = k->n;
    const float *a = k->a, *b = k->b;
    float *d = k->d;
    for (; i < n; i += CJ_VL) {
        const int m = n - i < CJ_VL ? n - i : CJ_VL;
        vf x[WIDE] = { vf_load_n(a + i, m) }, y[WIDE] = { vf_load_n(b + i, m) };
        if (k->n_pre && k->pre_b) follow(k, 0, k->n_pre, i, m, y);
        else if (k->n_pre) follow(k, 0, k->n_pre, i, m, x);
        x[0] = f(x[0], y[0]);
        if (k->n_post) follow(k, k->n_pre, k->n_pre + k->n_post, i, m, x);
        vf_store_n(d + i, x[0], m);
    }
}

CJ_INLINE int whole3(const cj_ew_call *k, bool stream, fn3 *f)
{
    const float *a = k->a, *b = k->b, *c = k->c;
    float *d = k->d;
    ahead2 at = start_ahead(k);
    int i = 0;
    for (const int n = k->n; i + CJ_VL <= n; i += CJ_VL) {
        prefetch(&at);
        put(stream, d + i, f(vf_load(a + i), vf_load(b + i), vf_load(c + i)));
    }
    return i;
}
CJ_INLINE void run3(const cj_ew_call *k, fn3 *f)
{
    int i = k->stream ? whole3(k, true, f) : whole3(k, false, f), n = k->n;
    const float *a = k->a, *b = k->b, *c = k->c;
    float *d = k->d;
    if (i < n) vf_store_n(d + i, f(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i), vf_load_n(c + i, n - i)), n - i);
}

/* f(a, s) */
CJ_INLINE int whole_s(const cj_ew_call *k, bool stream, fn2 *f)
{
    const float *a = k->a;
    float *d = k->d;
    const vf s = vf_set1((float)k->s);
    ahead2 at = start_ahead(k);
    int i = 0;
    for (const int n = k->n; i + CJ_VL <= n; i += CJ_VL) {
        prefetch(&at);
        put(stream, d + i, f(vf_load(a + i), s));
    }
    return i;
}
CJ_INLINE void run_s(const cj_ew_call *k, fn2 *f)
{
    int i = k->stream ? whole_s(k, true, f) : whole_s(k, false, f), n = k->n;
    const float *a = k->a;
    float *d = k->d;
    if (i < n) vf_store_n(d + i, f(vf_load_n(a + i, n - i), vf_set1((float)k->s)), n - i);
}

/* Rare functions, one value at a time. */
CJ_INLINE void run_scalar(const cj_ew_call *k, float (*f)(float, float))
{
    const float *a = k->a, *b = k->b;
    float *d = k->d;
    for (int i = 0; i < k->n; i++) d[i] = f(a[i], b[i]);
}

/* ---- functions --------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE vf op_copy(vf a) { return a; }
CJ_INLINE vf op_neg(vf a) { return vf_neg(a); }
CJ_INLINE vf op_sign(vf a)
{
    vf one = vf_set1(1.0f);
    vf y = vf_and_mask(vf_lt(vf_zero(), a), one) - vf_and_mask(vf_lt(a, vf_zero()), one);
    return vf_sel(vf_isnan(a), a, y);
}
CJ_INLINE vf op_rsqrt(vf a) { return vf_set1(1.0f) / vf_sqrt(a); }
CJ_INLINE vf op_recip(vf a) { return vf_set1(1.0f) / a; }
CJ_INLINE vf op_square(vf a) { return a * a; }
CJ_INLINE vf op_cube(vf a) { return a * a * a; }
CJ_INLINE vf op_recip_square(vf a) { return vf_set1(1.0f) / (a * a); }
CJ_INLINE vf op_one(vf a) { return (void)a, vf_set1(1.0f); }
CJ_INLINE vf op_relu(vf a) { return vf_max(vf_zero(), a); }
CJ_INLINE vf op_not(vf a) { return vf_from_mask(vf_eq(a, vf_zero())); }
CJ_INLINE vf op_isnan(vf a) { return vf_from_mask(vf_isnan(a)); }
CJ_INLINE vf op_isfinite(vf a) { return vf_from_mask(vf_lt(vf_abs(a), vf_set1(INFINITY))); }

CJ_INLINE vf op_add(vf a, vf b) { return a + b; }
CJ_INLINE vf op_sub(vf a, vf b) { return a - b; }
CJ_INLINE vf op_mul(vf a, vf b) { return a * b; }
CJ_INLINE vf op_div(vf a, vf b) { return a / b; }
CJ_INLINE vf op_eq(vf a, vf b) { return vf_from_mask(vf_eq(a, b)); }
CJ_INLINE vf op_ne(vf a, vf b) { return vf_from_mask(vf_ne(a, b)); }
CJ_INLINE vf op_lt(vf a, vf b) { return vf_from_mask(vf_lt(a, b)); }
CJ_INLINE vf op_le(vf a, vf b) { return vf_from_mask(vf_le(a, b)); }
CJ_INLINE vf op_gt(vf a, vf b) { return vf_from_mask(vf_lt(b, a)); }
CJ_INLINE vf op_ge(vf a, vf b) { return vf_from_mask(vf_le(b, a)); }
CJ_INLINE vm truth(vf a) { return vf_ne(a, vf_zero()); }
CJ_INLINE vf op_and(vf a, vf b) { return vf_from_mask(vm_and(truth(a), truth(b))); }
CJ_INLINE vf op_or(vf a, vf b) { return vf_from_mask(vm_or(truth(a), truth(b))); }
CJ_INLINE vf op_xor(vf a, vf b)
{
    vm x = truth(a), y = truth(b);
    return vf_from_mask(vm_and(vm_or(x, y), vm_not(vm_and(x, y))));
}
CJ_INLINE vf op_where(vf a, vf b, vf c) { return vf_sel(truth(a), b, c); }

CJ_INLINE vf op_gelu_bwd(vf a, vf b) { return b * vf_gelu_slope(a); }
CJ_INLINE vf op_gelu_tanh_bwd(vf a, vf b) { return b * vf_gelu_tanh_slope(a); }
CJ_INLINE vf op_silu_bwd(vf a, vf b) { return b * vf_silu_slope(a); }
CJ_INLINE vf op_tanh_bwd(vf a, vf b) { return b * (vf_set1(1.0f) - a * a); }
CJ_INLINE vf op_sigmoid_bwd(vf a, vf b) { return b * (a * (vf_set1(1.0f) - a)); }
CJ_INLINE vf op_relu_bwd(vf a, vf b) { return vf_and_mask(vf_lt(vf_zero(), a), b); }
CJ_INLINE vf op_bce_logits(vf a, vf b) { return (vf_max(vf_zero(), a) - a * b) + cj_log1p_unit(vf_exp_negabs(a)); }

/* The sign of the divisor. */
static float remainder_f32(float a, float b)
{
    float m = fmodf(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
/* Python's //, in the steps of PyTorch: exact even where a / b rounds across an integer. */
static float floordiv_f32(float a, float b)
{
    if (b == 0) return a / b;
    float m = fmodf(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysignf(0, a / b);
    float f = floorf(q);
    return q - f > 0.5f ? f + 1 : f;
}

/* ---- instructions ------------------------------------------------------------------------------------------------------------------------ */

#define OP1(NAME, f)                                                                                                                       \
    static void f32_##NAME(const cj_ew_call *k) { run1(k, f); }
#define OP2(NAME, f)                                                                                                                       \
    static void f32_##NAME(const cj_ew_call *k) { run2(k, f); }
#define OP3(NAME, f)                                                                                                                       \
    static void f32_##NAME(const cj_ew_call *k) { run3(k, f); }
#define OPS(NAME, f)                                                                                                                       \
    static void f32_##NAME(const cj_ew_call *k) { run_s(k, f); }

OP1(COPY, op_copy)
OP1(NEG, op_neg)
OP1(ABS, vf_abs)
OP1(SIGN, op_sign)
OP1(EXP, vf_exp)
OP1(EXPM1, vf_expm1)
OP1(LOG, vf_log)
OP1(LOG1P, vf_log1p)
OP1(SQRT, vf_sqrt)
OP1(RSQRT, op_rsqrt)
OP1(RECIP, op_recip)
OP1(SQUARE, op_square)
OP1(SIN, vf_sin)
OP1(COS, vf_cos)
OP1(TANH, vf_tanh)
OP1(SIGMOID, vf_sigmoid)
OP1(ERF, vf_erf)
OP1(FLOOR, vf_floor)
OP1(CEIL, vf_ceil)
OP1(ROUND, vf_round)
OP1(TRUNC, vf_trunc)
OP1(RELU, op_relu)
OP1(NOT, op_not)
OP1(ISNAN, op_isnan)
OP1(ISFINITE, op_isfinite)
OP2(ADD, op_add)
OP2(SUB, op_sub)
OP2(MUL, op_mul)
OP2(DIV, op_div)
OP2(POW, vf_pow)
OP2(MAX, vf_max_nan)
OP2(MIN, vf_min_nan)
static void f32_FMOD(const cj_ew_call *k) { run_scalar(k, fmodf); }
static void f32_REMAINDER(const cj_ew_call *k) { run_scalar(k, remainder_f32); }
static void f32_FLOORDIV(const cj_ew_call *k) { run_scalar(k, floordiv_f32); }
OP2(ATAN2, vf_atan2)
OP2(EQ, op_eq)
OP2(NE, op_ne)
OP2(LT, op_lt)
OP2(LE, op_le)
OP2(GT, op_gt)
OP2(GE, op_ge)
OP2(AND, op_and)
OP2(OR, op_or)
OP2(XOR, op_xor)
OP3(WHERE, op_where)
OP3(FMA, vf_fma_exact)
OPS(ADDS, op_add)
OPS(MULS, op_mul)
OPS(MAXS, vf_max_nan)
OPS(MINS, vf_min_nan)
OPS(EQS, op_eq)
OPS(NES, op_ne)
OPS(LTS, op_lt)
OPS(LES, op_le)
OPS(GTS, op_gt)
OPS(GES, op_ge)
OP1(GELU, vf_gelu)
OP2(GELU_BWD, op_gelu_bwd)
OP1(GELU_TANH, vf_gelu_tanh)
OP2(GELU_TANH_BWD, op_gelu_tanh_bwd)
OP1(SILU, vf_silu)
OP2(SILU_BWD, op_silu_bwd)
OP1(SOFTPLUS, vf_softplus)
OP1(LOGSIGMOID, vf_logsigmoid)
OP2(TANH_BWD, op_tanh_bwd)
OP2(SIGMOID_BWD, op_sigmoid_bwd)
OP2(RELU_BWD, op_relu_bwd)
OP2(BCE_LOGITS, op_bce_logits)

static void f32_CONST(const cj_ew_call *k)
{
    const vf s = vf_set1((float)k->s);
    float *d = k->d;
    int i = 0, n = k->n;
    for (; i + CJ_VL <= n; i += CJ_VL) put(k->stream, d + i, s);
    if (i < n) vf_store_n(d + i, s, n - i);
}

/* The exponents PyTorch treats apart, with its formulas. */
static void f32_POWS(const cj_ew_call *k)
{
    if (k->s == 2.0) run1(k, op_square);
    else if (k->s == 3.0) run1(k, op_cube);
    else if (k->s == 1.0) run1(k, op_copy);
    else if (k->s == 0.5) run1(k, vf_sqrt);
    else if (k->s == 0.0) run1(k, op_one);
    else if (k->s == -1.0) run1(k, op_recip);
    else if (k->s == -0.5) run1(k, op_rsqrt);
    else if (k->s == -2.0) run1(k, op_recip_square);
    else run_s(k, vf_pow);
}

cj_ew_block_fn *const CJ_K(cj__ew_f32)[CJ_EW_CODES] = {
#define X(name, arity) [CJ_EW_##name] = f32_##name,
    CJ_EW_OPS(X)
#undef X
};
