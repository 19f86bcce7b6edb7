/* The operations of the elementwise engine on f32 (ew_block.h): the functions of simd_math.h on a group of vectors, as threaded code.
 *
 * The last elements of a block go through the same arithmetic with masked loads and stores, so a value never depends on its position.
 */
#include "kernels/cpu/ew_job.h"
#include "kernels/cpu/simd_math.h"

enum { AHEAD_BYTES = 8192 }; /* prefetched from: far enough for the memory's latency, near enough to stay in the L1 cache */

/* ---- functions --------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE vf op_neg(vf a) { return vf_neg(a); }
CJ_INLINE vf op_sign(vf a) { return vf_from_mask(vf_lt(vf_zero(), a)) - vf_from_mask(vf_lt(a, vf_zero())); }
CJ_INLINE vf op_rsqrt(vf a) { return vf_set1(1.0f) / vf_sqrt(a); }
CJ_INLINE vf op_recip(vf a) { return vf_set1(1.0f) / a; }
CJ_INLINE vf op_square(vf a) { return a * a; }
CJ_INLINE vf op_cube(vf a) { return a * a * a; }
CJ_INLINE vf op_recip_square(vf a) { return vf_set1(1.0f) / (a * a); }
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

/* Rare functions, one value at a time. */
CJ_INLINE vf each(float (*f)(float, float), vf a, vf b)
{
    for (int i = 0; i < CJ_VL; i++) a[i] = f(a[i], b[i]);
    return a;
}
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
CJ_INLINE vf op_fmod(vf a, vf b) { return each(fmodf, a, b); }
CJ_INLINE vf op_remainder(vf a, vf b) { return each(remainder_f32, a, b); }
CJ_INLINE vf op_floordiv(vf a, vf b) { return each(floordiv_f32, a, b); }

/* ---- operations -------------------------------------------------------------------------------------------------------------------------- */

/* Every operation ends with a call of the next one with the same signature; the optimizer turns it into a jump. */
#define OPERATION(NAME)                                                                                                                    \
    static void f32_##NAME(const cj_ew_op *op, const cj_ew_frame *f, int64_t i, vf a0, vf a1, vf a2, vf a3, vf b0, vf b1, vf b2, vf b3)
#define NEXT op[1].fn(op + 1, f, i, a0, a1, a2, a3, b0, b1, b2, b3)

/* Vector q of the group in memory; in a tail the elements beyond the end are not touched. */
CJ_INLINE float *memory(const cj_ew_op *op, const cj_ew_frame *f, int64_t i, int q)
{
    return (float *)(f->at[op->place] + i + (int64_t)sizeof(vf) * q);
}
CJ_INLINE float *other_memory(const cj_ew_op *op, const cj_ew_frame *f, int64_t i, int q)
{
    return (float *)(f->at[op->other] + i + (int64_t)sizeof(vf) * q);
}
CJ_INLINE int rest(const cj_ew_frame *f, int q)
{
    const int n = f->tail - q * CJ_VL;
    return n < 0 ? 0 : n > CJ_VL ? CJ_VL : n;
}
#define WHOLE(q) vf_load(memory(op, f, i, q))
#define TAIL(q) vf_load_n(memory(op, f, i, q), rest(f, q))
#define OTHER_WHOLE(q) vf_load(other_memory(op, f, i, q))
#define OTHER_TAIL(q) vf_load_n(other_memory(op, f, i, q), rest(f, q))

/* The same on one vector, for calls so small that a group would be mostly empty. */
#define ONE(NAME) static vf one_##NAME(vf a, vf b, vf c, vf s)
#define ONE_UNUSED (void)a, (void)b, (void)c, (void)s

#define OP1(NAME, fn1)                                                                                                                     \
    ONE(NAME) { return ONE_UNUSED, fn1(a); }                                                                                               \
    OPERATION(NAME)                                                                                                                        \
    {                                                                                                                                      \
        a0 = fn1(a0), a1 = fn1(a1), a2 = fn1(a2), a3 = fn1(a3);                                                                            \
        NEXT;                                                                                                                              \
    }
#define OP2(NAME, fn2)                                                                                                                     \
    ONE(NAME) { return ONE_UNUSED, fn2(a, b); }                                                                                            \
    OPERATION(NAME)                                                                                                                        \
    {                                                                                                                                      \
        a0 = fn2(a0, b0), a1 = fn2(a1, b1), a2 = fn2(a2, b2), a3 = fn2(a3, b3);                                                            \
        NEXT;                                                                                                                              \
    }
/* With the immediate as second operand. */
#define OPS(NAME, fn2)                                                                                                                     \
    ONE(NAME) { return ONE_UNUSED, fn2(a, s); }                                                                                            \
    OPERATION(NAME)                                                                                                                        \
    {                                                                                                                                      \
        const vf s = vf_set1(op->s);                                                                                                       \
        a0 = fn2(a0, s), a1 = fn2(a1, s), a2 = fn2(a2, s), a3 = fn2(a3, s);                                                                \
        NEXT;                                                                                                                              \
    }
/* SET(q, m) changes vector q with m, its memory. */
#define OPM_AS(NAME, SET, MEMORY)                                                                                                          \
    OPERATION(NAME)                                                                                                                        \
    {                                                                                                                                      \
        SET(0, MEMORY(0));                                                                                                                 \
        SET(1, MEMORY(1));                                                                                                                 \
        SET(2, MEMORY(2));                                                                                                                 \
        SET(3, MEMORY(3));                                                                                                                 \
        NEXT;                                                                                                                              \
    }
#define OPM(NAME, SET) OPM_AS(NAME, SET, WHOLE) OPM_AS(NAME##_tail, SET, TAIL)

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
OP2(FMOD, op_fmod)
OP2(REMAINDER, op_remainder)
OP2(FLOORDIV, op_floordiv)
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
OPS(POWS, vf_pow)
OP1(CUBE, op_cube)
OP1(RECIP_SQUARE, op_recip_square)

#define SET_LOAD(q, m) a##q = m
#define SET_LOAD_B(q, m) b##q = m
#define SET_FLIP(q, m) b##q = a##q, a##q = m
#define SET_ADD(q, m) a##q = a##q + m
#define SET_MUL(q, m) a##q = a##q * m
#define SET_SUB(q, m) a##q = a##q - m
#define SET_RSUB(q, m) a##q = m - a##q
#define SET_WHERE(q, m) a##q = op_where(a##q, b##q, m)
#define SET_FMA(q, m) a##q = vf_fma_exact(a##q, b##q, m)
#define SET_MUL_ADD(q, m) a##q = a##q * m + OTHER_WHOLE(q)
#define SET_MUL_ADD_tail(q, m) a##q = a##q * m + OTHER_TAIL(q)
OPM(LOAD, SET_LOAD)
OPM(LOAD_B, SET_LOAD_B)
OPM(FLIP, SET_FLIP)
OPM(ADD_M, SET_ADD)
OPM(MUL_M, SET_MUL)
OPM(SUB_M, SET_SUB)
OPM(RSUB_M, SET_RSUB)
OPM(WHERE, SET_WHERE)
OPM(FMA, SET_FMA)

OPM_AS(MUL_ADD_M, SET_MUL_ADD, WHOLE)
OPM_AS(MUL_ADD_M_tail, SET_MUL_ADD_tail, TAIL)

OPERATION(MULS_ADDS)
{
    const vf s = vf_set1(op->s), t = vf_set1(op->t);
    a0 = a0 * s + t, a1 = a1 * s + t, a2 = a2 * s + t, a3 = a3 * s + t;
    NEXT;
}
OPERATION(COPY) { NEXT; }
OPERATION(DUP)
{
    b0 = a0, b1 = a1, b2 = a2, b3 = a3;
    NEXT;
}
OPERATION(CONST)
{
    a0 = a1 = a2 = a3 = vf_set1(op->s);
    NEXT;
}
OPERATION(STORE)
{
    vf_store(memory(op, f, i, 0), a0), vf_store(memory(op, f, i, 1), a1);
    vf_store(memory(op, f, i, 2), a2), vf_store(memory(op, f, i, 3), a3);
    NEXT;
}
OPERATION(STREAM)
{
    vf_stream(memory(op, f, i, 0), a0), vf_stream(memory(op, f, i, 1), a1);
    vf_stream(memory(op, f, i, 2), a2), vf_stream(memory(op, f, i, 3), a3);
    NEXT;
}
OPERATION(STORE_tail)
{
    vf_store_n(memory(op, f, i, 0), a0, rest(f, 0)), vf_store_n(memory(op, f, i, 1), a1, rest(f, 1));
    vf_store_n(memory(op, f, i, 2), a2, rest(f, 2)), vf_store_n(memory(op, f, i, 3), a3, rest(f, 3));
    NEXT;
}
OPERATION(STORE_LOAD)
{
    vf_store(memory(op, f, i, 0), a0), vf_store(memory(op, f, i, 1), a1);
    vf_store(memory(op, f, i, 2), a2), vf_store(memory(op, f, i, 3), a3);
    a0 = OTHER_WHOLE(0), a1 = OTHER_WHOLE(1), a2 = OTHER_WHOLE(2), a3 = OTHER_WHOLE(3);
    NEXT;
}
OPERATION(STORE_LOAD_tail)
{
    vf_store_n(memory(op, f, i, 0), a0, rest(f, 0)), vf_store_n(memory(op, f, i, 1), a1, rest(f, 1));
    vf_store_n(memory(op, f, i, 2), a2, rest(f, 2)), vf_store_n(memory(op, f, i, 3), a3, rest(f, 3));
    a0 = OTHER_TAIL(0), a1 = OTHER_TAIL(1), a2 = OTHER_TAIL(2), a3 = OTHER_TAIL(3);
    NEXT;
}
OPERATION(PREFETCH)
{
    for (int q = 0; q < 4; q++) __builtin_prefetch((const char *)memory(op, f, i, q) + AHEAD_BYTES);
    NEXT;
}
OPERATION(END)
{
    (void)op, (void)f, (void)i;
    (void)a0, (void)a1, (void)a2, (void)a3, (void)b0, (void)b1, (void)b2, (void)b3;
}

#define ADDED(X) X(DUP) X(MULS_ADDS) X(CUBE) X(RECIP_SQUARE) X(PREFETCH) X(END)
#define TOUCHES_MEMORY(X) X(LOAD) X(LOAD_B) X(FLIP) X(ADD_M) X(MUL_M) X(SUB_M) X(RSUB_M) X(MUL_ADD_M) X(STORE) X(STORE_LOAD)

cj_ew_op_fn *const CJ_K(cj__ew_f32)[2][CJ_EW_F32_CODES] = {
    {
#define X(name, arity) [CJ_EW_##name] = f32_##name,
        CJ_EW_OPS(X)
#undef X
#define X(name) [CJ_EW_##name] = f32_##name,
            ADDED(X) TOUCHES_MEMORY(X) X(STREAM)
#undef X
    },
    {
#define X(name, arity) [CJ_EW_##name] = f32_##name,
#define f32_WHERE f32_WHERE_tail
#define f32_FMA f32_FMA_tail
        CJ_EW_OPS(X)
#undef X
#define X(name) [CJ_EW_##name] = f32_##name,
            ADDED(X)
#undef X
#define X(name) [CJ_EW_##name] = f32_##name##_tail,
                TOUCHES_MEMORY(X)
#undef X
                    [CJ_EW_STREAM] = f32_STORE_tail,
    },
};

ONE(COPY) { return ONE_UNUSED, a; }
ONE(CONST) { return ONE_UNUSED, s; }
ONE(WHERE) { return ONE_UNUSED, op_where(a, b, c); }
ONE(FMA) { return ONE_UNUSED, vf_fma_exact(a, b, c); }
cj_ew_one_fn *const CJ_K(cj__ew_one)[CJ_EW_F32_CODES] = {
#define X(name, arity) [CJ_EW_##name] = one_##name,
    CJ_EW_OPS(X)
#undef X
        [CJ_EW_CUBE] = one_CUBE,
    [CJ_EW_RECIP_SQUARE] = one_RECIP_SQUARE,
};

static void run_group(const cj_ew_op *op, const cj_ew_frame *f, int i)
{
    const vf z = vf_zero();
    op->fn(op, f, 4 * (int64_t)i, z, z, z, z, z, z, z, z);
}

void CJ_K(cj__ew_run_ops)(const cj_ew_op *op, int n, cj_ew_frame *f, int elements)
{
    int i = 0;
    for (; i + CJ_EW_GROUP <= elements; i += CJ_EW_GROUP) run_group(op, f, i);
    if (i == elements) return;
    cj_ew_op tail[CJ_EW_MAX_OPS];
    for (int k = 0; k < n; k++) {
        tail[k] = op[k];
        tail[k].fn = CJ_K(cj__ew_f32)[1][op[k].code];
    }
    CJ_K(cj__ew_run_tail)(tail, f, i, elements - i);
}

void CJ_K(cj__ew_run_tail)(const cj_ew_op *op, cj_ew_frame *f, int from, int elements)
{
    f->tail = elements;
    run_group(op, f, from);
}
