/* The operations of the elementwise engine on f32 (ew_block.h): the functions of simd_math.h on a group of vectors, as threaded code.
 *
 * The last elements of a block go through the same arithmetic with masked loads and stores, so a value never depends on its position.
 */
#include "kernels/cpu/ew_job.h"
#include "kernels/cpu/simd_math.h"

enum { AHEAD_BYTES = 2048 }; /* prefetched from: far enough for the memory's latency, near enough to stay in the L1 cache */

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

/* Where the group lies in memory.  Looked up once per operation: after a store the compiler would have to look again. */
CJ_INLINE float *memory(const cj_ew_frame *f, int place, int64_t i) { return (float *)(f->at[place] + i); }
#define PLACES                                                                                                                             \
    float *const here = memory(f, op->place, i), *const other = memory(f, op->other, i);                                                   \
    (void)here, (void)other
CJ_INLINE int rest(const cj_ew_frame *f, int q)
{
    const int n = f->tail - q * CJ_VL;
    return n < 0 ? 0 : n > CJ_VL ? CJ_VL : n;
}
/* Vector q of the group; in a tail the elements beyond the end are not touched. */
#define WHOLE(q) vf_load(here + CJ_VL * (q))
#define TAIL(q) vf_load_n(here + CJ_VL * (q), rest(f, q))
#define OTHER_WHOLE(q) vf_load(other + CJ_VL * (q))
#define OTHER_TAIL(q) vf_load_n(other + CJ_VL * (q), rest(f, q))

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
/* fn changes four vectors together. */
#define OP1_EACH(NAME, fn)                                                                                                                 \
    ONE(NAME) { return ONE_UNUSED, fn(&a, 1), a; }                                                                                         \
    OPERATION(NAME)                                                                                                                        \
    {                                                                                                                                      \
        vf v[4] = { a0, a1, a2, a3 };                                                                                                      \
        fn(v, 4);                                                                                                                          \
        a0 = v[0], a1 = v[1], a2 = v[2], a3 = v[3];                                                                                        \
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
        PLACES;                                                                                                                            \
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
#if defined CJ_ISA_AVX512
OP1_EACH(SIGMOID, cj_sigmoid_each)
OP1_EACH(GELU, cj_gelu_each)
ONE(GELU_BWD) { return ONE_UNUSED, op_gelu_bwd(a, b); }
OPERATION(GELU_BWD)
{
    vf v[4] = { a0, a1, a2, a3 };
    cj_gelu_slope_each(v, 4);
    a0 = b0 * v[0], a1 = b1 * v[1], a2 = b2 * v[2], a3 = b3 * v[3];
    NEXT;
}
#else
OP2(GELU_BWD, op_gelu_bwd)
OP1(SIGMOID, vf_sigmoid)
OP1(GELU, vf_gelu)
#endif
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
/* The two halves of a pair.  A program's last operation calls nothing. */
#define STORE_WHOLE                                                                                                                        \
    vf_store(here + CJ_VL * 0, a0), vf_store(here + CJ_VL * 1, a1);                                                                        \
    vf_store(here + CJ_VL * 2, a2), vf_store(here + CJ_VL * 3, a3)
#define STORE_PART                                                                                                                         \
    vf_store_n(here + CJ_VL * 0, a0, rest(f, 0)), vf_store_n(here + CJ_VL * 1, a1, rest(f, 1));                                            \
    vf_store_n(here + CJ_VL * 2, a2, rest(f, 2)), vf_store_n(here + CJ_VL * 3, a3, rest(f, 3))
#define STREAM_WHOLE                                                                                                                       \
    vf_stream(here + CJ_VL * 0, a0), vf_stream(here + CJ_VL * 1, a1);                                                                      \
    vf_stream(here + CJ_VL * 2, a2), vf_stream(here + CJ_VL * 3, a3)
#define PREFETCH_WHOLE                                                                                                                     \
    for (int q = 0; q < 4; q++) __builtin_prefetch((const char *)(here + CJ_VL * q) + AHEAD_BYTES)
#define B_UNUSED (void)b0, (void)b1, (void)b2, (void)b3
OPERATION(STORE)
{
    PLACES;
    STORE_WHOLE;
    NEXT;
}
OPERATION(STORE_tail)
{
    PLACES;
    STORE_PART;
    NEXT;
}
OPERATION(STORE_END)
{
    PLACES;
    STORE_WHOLE;
    B_UNUSED;
}
OPERATION(STORE_END_tail)
{
    PLACES;
    STORE_PART;
    B_UNUSED;
}
OPERATION(STREAM)
{
    PLACES;
    STREAM_WHOLE;
    NEXT;
}
OPERATION(STREAM_END)
{
    PLACES;
    STREAM_WHOLE;
    B_UNUSED;
}
OPERATION(STORE_LOAD)
{
    PLACES;
    STORE_WHOLE;
    a0 = OTHER_WHOLE(0), a1 = OTHER_WHOLE(1), a2 = OTHER_WHOLE(2), a3 = OTHER_WHOLE(3);
    NEXT;
}
OPERATION(STORE_LOAD_tail)
{
    PLACES;
    STORE_PART;
    a0 = OTHER_TAIL(0), a1 = OTHER_TAIL(1), a2 = OTHER_TAIL(2), a3 = OTHER_TAIL(3);
    NEXT;
}
OPERATION(STORE_MUL_M)
{
    PLACES;
    STORE_WHOLE;
    a0 = a0 * OTHER_WHOLE(0), a1 = a1 * OTHER_WHOLE(1), a2 = a2 * OTHER_WHOLE(2), a3 = a3 * OTHER_WHOLE(3);
    NEXT;
}
OPERATION(STORE_MUL_M_tail)
{
    PLACES;
    STORE_PART;
    a0 = a0 * OTHER_TAIL(0), a1 = a1 * OTHER_TAIL(1), a2 = a2 * OTHER_TAIL(2), a3 = a3 * OTHER_TAIL(3);
    NEXT;
}
OPERATION(MULS_ADD_M)
{
    PLACES;
    const vf s = vf_set1(op->s);
    a0 = a0 * s + OTHER_WHOLE(0), a1 = a1 * s + OTHER_WHOLE(1), a2 = a2 * s + OTHER_WHOLE(2), a3 = a3 * s + OTHER_WHOLE(3);
    NEXT;
}
OPERATION(MULS_ADD_M_tail)
{
    PLACES;
    const vf s = vf_set1(op->s);
    a0 = a0 * s + OTHER_TAIL(0), a1 = a1 * s + OTHER_TAIL(1), a2 = a2 * s + OTHER_TAIL(2), a3 = a3 * s + OTHER_TAIL(3);
    NEXT;
}
OPERATION(PREFETCH)
{
    PLACES;
    PREFETCH_WHOLE;
    NEXT;
}
OPERATION(PREFETCH_LOAD)
{
    PLACES;
    PREFETCH_WHOLE;
    a0 = WHOLE(0), a1 = WHOLE(1), a2 = WHOLE(2), a3 = WHOLE(3);
    NEXT;
}
OPERATION(END)
{
    (void)op, (void)f, (void)i;
    (void)a0, (void)a1, (void)a2, (void)a3, (void)b0, (void)b1, (void)b2, (void)b3;
}

#define ADDED(X) X(DUP) X(MULS_ADDS) X(CUBE) X(RECIP_SQUARE) X(PREFETCH) X(END)
#define TOUCHES_MEMORY(X)                                                                                                                  \
    X(LOAD)                                                                                                                                \
    X(LOAD_B) X(FLIP) X(ADD_M) X(MUL_M) X(SUB_M) X(RSUB_M) X(MUL_ADD_M) X(MULS_ADD_M) X(STORE) X(STORE_LOAD) X(STORE_MUL_M) X(STORE_END)

cj_ew_op_fn *const CJ_K(cj__ew_f32)[2][CJ_EW_F32_CODES] = {
    {
#define X(name, arity) [CJ_EW_##name] = f32_##name,
        CJ_EW_OPS(X)
#undef X
#define X(name) [CJ_EW_##name] = f32_##name,
            ADDED(X) TOUCHES_MEMORY(X) X(STREAM) X(STREAM_END) X(PREFETCH_LOAD)
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
        [CJ_EW_STREAM_END] = f32_STORE_END_tail,
        [CJ_EW_PREFETCH_LOAD] = f32_LOAD_tail,
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

void CJ_K(cj__ew_run_ops)(const cj_ew_op *op, int n, cj_ew_frame *f, int from, int elements)
{
    int i = from;
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

/* ---- wide groups ---------------------------------------------------------------------------------------------------------------------------- */

#if CJ_EW_WIDE

#define WIDE(NAME)                                                                                                                         \
    static void wide_##NAME(const cj_ew_op *op, const cj_ew_frame *f, int64_t i, vf a0, vf a1, vf a2, vf a3, vf a4, vf a5, vf a6, vf a7)
#define WIDE_NEXT op[1].fn(op + 1, f, i, a0, a1, a2, a3, a4, a5, a6, a7)
#define MEMORY WHOLE
#define OTHER OTHER_WHOLE
/* SET(q) does something with vector q. */
#define EIGHT(SET) SET(0), SET(1), SET(2), SET(3), SET(4), SET(5), SET(6), SET(7)
#define WIDE_SET(NAME, SET)                                                                                                                \
    WIDE(NAME)                                                                                                                             \
    {                                                                                                                                      \
        PLACES;                                                                                                                            \
        EIGHT(SET);                                                                                                                        \
        WIDE_NEXT;                                                                                                                         \
    }

#define WIDE_1(NAME, fn)                                                                                                                   \
    WIDE(NAME)                                                                                                                             \
    {                                                                                                                                      \
        a0 = fn(a0), a1 = fn(a1), a2 = fn(a2), a3 = fn(a3), a4 = fn(a4), a5 = fn(a5), a6 = fn(a6), a7 = fn(a7);                            \
        WIDE_NEXT;                                                                                                                         \
    }
/* Four and four: the steps of more would not stay in registers. */
#define WIDE_EACH(NAME, fn)                                                                                                                \
    WIDE(NAME)                                                                                                                             \
    {                                                                                                                                      \
        vf v[4] = { a0, a1, a2, a3 }, w[4] = { a4, a5, a6, a7 };                                                                           \
        fn(v, 4), fn(w, 4);                                                                                                                \
        a0 = v[0], a1 = v[1], a2 = v[2], a3 = v[3], a4 = w[0], a5 = w[1], a6 = w[2], a7 = w[3];                                            \
        WIDE_NEXT;                                                                                                                         \
    }
#define WIDE_S(NAME, fn)                                                                                                                   \
    WIDE(NAME)                                                                                                                             \
    {                                                                                                                                      \
        const vf s = vf_set1(op->s);                                                                                                       \
        a0 = fn(a0, s), a1 = fn(a1, s), a2 = fn(a2, s), a3 = fn(a3, s), a4 = fn(a4, s), a5 = fn(a5, s), a6 = fn(a6, s), a7 = fn(a7, s);    \
        WIDE_NEXT;                                                                                                                         \
    }
#define WIDE_2(NAME, fn)                                                                                                                   \
    WIDE(NAME)                                                                                                                             \
    {                                                                                                                                      \
        PLACES;                                                                                                                            \
        a0 = fn(a0, MEMORY(0)), a1 = fn(a1, MEMORY(1)), a2 = fn(a2, MEMORY(2)), a3 = fn(a3, MEMORY(3));                                    \
        a4 = fn(a4, MEMORY(4)), a5 = fn(a5, MEMORY(5)), a6 = fn(a6, MEMORY(6)), a7 = fn(a7, MEMORY(7));                                    \
        WIDE_NEXT;                                                                                                                         \
    }                                                                                                                                      \
    WIDE(NAME##_turned)                                                                                                                    \
    {                                                                                                                                      \
        PLACES;                                                                                                                            \
        a0 = fn(MEMORY(0), a0), a1 = fn(MEMORY(1), a1), a2 = fn(MEMORY(2), a2), a3 = fn(MEMORY(3), a3);                                    \
        a4 = fn(MEMORY(4), a4), a5 = fn(MEMORY(5), a5), a6 = fn(MEMORY(6), a6), a7 = fn(MEMORY(7), a7);                                    \
        WIDE_NEXT;                                                                                                                         \
    }

#define UNARY(X)                                                                                                                           \
    X(NEG, op_neg)                                                                                                                         \
    X(ABS, vf_abs)                                                                                                                         \
    X(EXP, vf_exp)                                                                                                                         \
    X(LOG, vf_log)                                                                                                                         \
    X(SQRT, vf_sqrt)                                                                                                                       \
    X(RSQRT, op_rsqrt)                                                                                                                     \
    X(RECIP, op_recip)                                                                                                                     \
    X(SQUARE, op_square)                                                                                                                   \
    X(CUBE, op_cube)                                                                                                                       \
    X(TANH, vf_tanh)                                                                                                                       \
    X(RELU, op_relu)                                                                                                                       \
    X(NOT, op_not)                                                                                                                         \
    X(GELU_TANH, vf_gelu_tanh)                                                                                                             \
    X(SILU, vf_silu)
#define EACH(X) X(SIGMOID, cj_sigmoid_each) X(GELU, cj_gelu_each)
#define IMMEDIATE(X)                                                                                                                       \
    X(ADDS, op_add)                                                                                                                        \
    X(MULS, op_mul)                                                                                                                        \
    X(MAXS, vf_max_nan)                                                                                                                    \
    X(MINS, vf_min_nan)                                                                                                                    \
    X(EQS, op_eq)                                                                                                                          \
    X(NES, op_ne)                                                                                                                          \
    X(LTS, op_lt)                                                                                                                          \
    X(LES, op_le)                                                                                                                          \
    X(GTS, op_gt)                                                                                                                          \
    X(GES, op_ge)
#define BINARY(X)                                                                                                                          \
    X(DIV, op_div)                                                                                                                         \
    X(MAX, vf_max_nan)                                                                                                                     \
    X(MIN, vf_min_nan)                                                                                                                     \
    X(EQ, op_eq)                                                                                                                           \
    X(NE, op_ne)                                                                                                                           \
    X(LT, op_lt)                                                                                                                           \
    X(LE, op_le)                                                                                                                           \
    X(GT, op_gt)                                                                                                                           \
    X(GE, op_ge)                                                                                                                           \
    X(AND, op_and)                                                                                                                         \
    X(OR, op_or)                                                                                                                           \
    X(GELU_TANH_BWD, op_gelu_tanh_bwd)                                                                                                     \
    X(SILU_BWD, op_silu_bwd)                                                                                                               \
    X(TANH_BWD, op_tanh_bwd)                                                                                                               \
    X(SIGMOID_BWD, op_sigmoid_bwd)                                                                                                         \
    X(RELU_BWD, op_relu_bwd)

/* clang-format off */
UNARY(WIDE_1) EACH(WIDE_EACH) IMMEDIATE(WIDE_S) BINARY(WIDE_2)
/* clang-format on */

#define W_TIMES(q) a##q = a##q * u[q]
#define W_TIMES_M(q) a##q = MEMORY(q) * u[q]
    WIDE(GELU_BWD)
{
    PLACES;
    vf u[8] = { a0, a1, a2, a3, a4, a5, a6, a7 };
    cj_gelu_slope_each(u, 4), cj_gelu_slope_each(u + 4, 4);
    EIGHT(W_TIMES_M);
    WIDE_NEXT;
}
WIDE(GELU_BWD_turned)
{
    PLACES;
    vf u[8] = { MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), MEMORY(6), MEMORY(7) };
    cj_gelu_slope_each(u, 4), cj_gelu_slope_each(u + 4, 4);
    EIGHT(W_TIMES);
    WIDE_NEXT;
}
#define W_WHERE(q) a##q = op_where(a##q, MEMORY(q), OTHER(q))
#define W_FMA(q) a##q = vf_fma_exact(a##q, MEMORY(q), OTHER(q))
#define W_CONST(q) a##q = vf_set1(op->s)
#define W_LOAD(q) a##q = MEMORY(q)
#define W_ADD_M(q) a##q = a##q + MEMORY(q)
#define W_MUL_M(q) a##q = a##q * MEMORY(q)
#define W_SUB_M(q) a##q = a##q - MEMORY(q)
#define W_RSUB_M(q) a##q = MEMORY(q) - a##q
#define W_MUL_ADD_M(q) a##q = a##q * MEMORY(q) + OTHER(q)
#define W_MULS_ADDS(q) a##q = a##q * vf_set1(op->s) + vf_set1(op->t)
#define W_MULS_ADD_M(q) a##q = a##q * vf_set1(op->s) + OTHER(q)
#define W_STORE(q) vf_store(here + CJ_VL * (q), a##q)
#define W_STREAM(q) vf_stream(here + CJ_VL * (q), a##q)
#define W_STORE_LOAD(q) W_STORE(q), a##q = OTHER(q)
#define W_STORE_MUL_M(q) W_STORE(q), a##q = a##q * OTHER(q)
#define W_PREFETCH(q) __builtin_prefetch((const char *)(here + CJ_VL * (q)) + AHEAD_BYTES)
#define W_PREFETCH_LOAD(q) W_PREFETCH(q), W_LOAD(q)
#define MOVES(X)                                                                                                                           \
    X(WHERE, W_WHERE)                                                                                                                      \
    X(FMA, W_FMA)                                                                                                                          \
    X(CONST, W_CONST)                                                                                                                      \
    X(LOAD, W_LOAD)                                                                                                                        \
    X(ADD_M, W_ADD_M)                                                                                                                      \
    X(MUL_M, W_MUL_M)                                                                                                                      \
    X(SUB_M, W_SUB_M)                                                                                                                      \
    X(RSUB_M, W_RSUB_M)                                                                                                                    \
    X(MUL_ADD_M, W_MUL_ADD_M)                                                                                                              \
    X(MULS_ADDS, W_MULS_ADDS)                                                                                                              \
    X(MULS_ADD_M, W_MULS_ADD_M)                                                                                                            \
    X(STORE, W_STORE)                                                                                                                      \
    X(STREAM, W_STREAM)                                                                                                                    \
    X(STORE_LOAD, W_STORE_LOAD)                                                                                                            \
    X(STORE_MUL_M, W_STORE_MUL_M)                                                                                                          \
    X(PREFETCH, W_PREFETCH)                                                                                                                \
    X(PREFETCH_LOAD, W_PREFETCH_LOAD)
MOVES(WIDE_SET)

WIDE(STORE_END)
{
    PLACES;
    EIGHT(W_STORE);
}
WIDE(STREAM_END)
{
    PLACES;
    EIGHT(W_STREAM);
}
WIDE(END) { (void)op, (void)f, (void)i, (void)a0, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7; }

/* ADD, SUB and MUL become operations with memory, COPY none; they stand here because a program may contain them. */
cj_ew_op_fn *const CJ_K(cj__ew_f32_wide)[2][CJ_EW_F32_CODES] = {
    {
#define X(name, fn) [CJ_EW_##name] = wide_##name,
        UNARY(X) EACH(X) IMMEDIATE(X) BINARY(X) MOVES(X)
#undef X
            [CJ_EW_STORE_END] = wide_STORE_END,
        [CJ_EW_STREAM_END] = wide_STREAM_END,
        [CJ_EW_END] = wide_END,
        [CJ_EW_GELU_BWD] = wide_GELU_BWD,
        [CJ_EW_ADD] = wide_ADD_M,
        [CJ_EW_SUB] = wide_SUB_M,
        [CJ_EW_MUL] = wide_MUL_M,
        [CJ_EW_COPY] = wide_END,
    },
    {
#define X(name, fn) [CJ_EW_##name] = wide_##name##_turned,
        BINARY(X)
#undef X
            [CJ_EW_GELU_BWD] = wide_GELU_BWD_turned,
    },
};

int CJ_K(cj__ew_run_wide)(const cj_ew_op *op, const cj_ew_frame *f, int elements)
{
    const vf z = vf_zero();
    int i = 0;
    for (; i + CJ_EW_WIDE_GROUP <= elements; i += CJ_EW_WIDE_GROUP) op->fn(op, f, 4 * (int64_t)i, z, z, z, z, z, z, z, z);
    return i;
}

int64_t CJ_K(cj__ew_run_groups)(const cj_ew_op *op, cj_ew_frame *f, const uint8_t *moving, int n, int64_t elements)
{
    const vf z = vf_zero();
    int64_t i = 0;
    for (; i + CJ_EW_WIDE_GROUP <= elements; i += CJ_EW_WIDE_GROUP) {
        op->fn(op, f, 0, z, z, z, z, z, z, z, z);
        for (int k = 0; k < n; k++) f->at[moving[k]] += CJ_EW_WIDE_GROUP * sizeof(float);
    }
    return i;
}

#else
int CJ_K(cj__ew_run_wide)(const cj_ew_op *op, const cj_ew_frame *f, int elements) { return (void)op, (void)f, (void)elements, 0; }
int64_t CJ_K(cj__ew_run_groups)(const cj_ew_op *op, cj_ew_frame *f, const uint8_t *moving, int n, int64_t elements)
{
    return (void)op, (void)f, (void)moving, (void)n, (void)elements, 0;
}
#endif
