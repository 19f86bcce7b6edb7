/* The elementwise engine: one small program of vector instructions, run block by block over any strides.
 *
 * Eager operators are programs of one instruction, fused chains of a plan are longer ones; both run the same functions, so eager and replay agree
 * to the bit.  What a program keeps of a block of CJ_EW_BLOCK elements stays in the L1 cache; memory is read once and written once.
 *
 * The program computes in one type: f32 (for f32, bf16, f16), f64 or i64 (for i64, i32, u8, bool).  Loads convert from the argument's dtype to the compute
 * type, stores convert back (bf16/f16 round to nearest even, i32/u8 wrap, bool is value != 0).
 */
#ifndef CJ_KERNELS_CPU_EW_H
#define CJ_KERNELS_CPU_EW_H

#include <stdbool.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

#define CJ_EW_BLOCK 1024 /* elements of one block */
#define CJ_EW_MAX_INSTR 64
#define CJ_EW_MAX_ARGS 24 /* inputs + outputs */
#define CJ_EW_MAX_REGS 24 /* values alive at once */

/* clang-format off */
/* X(NAME, arity): r = f(a, b, c); s is the instruction's immediate. */
#define CJ_EW_OPS(X)                                                                                                                       \
    X(COPY, 1) X(NEG, 1) X(ABS, 1) X(SIGN, 1) X(EXP, 1) X(EXPM1, 1) X(LOG, 1) X(LOG1P, 1) X(SQRT, 1) X(RSQRT, 1) X(RECIP, 1) X(SQUARE, 1)   \
    X(SIN, 1) X(COS, 1) X(TANH, 1) X(SIGMOID, 1) X(ERF, 1) X(FLOOR, 1) X(CEIL, 1) X(ROUND, 1) X(TRUNC, 1) X(RELU, 1) X(NOT, 1)             \
    X(ISNAN, 1) X(ISFINITE, 1)                                                                                                             \
    X(ADD, 2) X(SUB, 2) X(MUL, 2) X(DIV, 2) X(POW, 2) X(MAX, 2) X(MIN, 2) X(FMOD, 2) X(REMAINDER, 2) X(FLOORDIV, 2) X(ATAN2, 2)             \
    X(EQ, 2) X(NE, 2) X(LT, 2) X(LE, 2) X(GT, 2) X(GE, 2) X(AND, 2) X(OR, 2) X(XOR, 2)                                                     \
    X(WHERE, 3) /* a != 0 ? b : c */ X(FMA, 3) /* a*b + c, one rounding */                                                                 \
    X(CONST, 0) /* s */ X(ADDS, 1) X(MULS, 1) X(POWS, 1) /* a + s, a * s, a ** s */ X(MAXS, 1) X(MINS, 1)                                   \
    X(EQS, 1) X(NES, 1) X(LTS, 1) X(LES, 1) X(GTS, 1) X(GES, 1)                                                                             \
    /* fused composites; the forward value first, then its derivative times the gradient b */                                             \
    X(GELU, 1) X(GELU_BWD, 2) X(GELU_TANH, 1) X(GELU_TANH_BWD, 2) X(SILU, 1) X(SILU_BWD, 2) X(SOFTPLUS, 1) X(LOGSIGMOID, 1)                 \
    X(TANH_BWD, 2) /* a = tanh(x): b*(1-a*a) */ X(SIGMOID_BWD, 2) /* a = sigmoid(x): b*a*(1-a) */ X(RELU_BWD, 2) /* a = y or x: a > 0 ? b : 0 */ \
    X(BCE_LOGITS, 2) /* max(a,0) - a*b + log1p(exp(-|a|)) */

/* clang-format on */

typedef enum cj_ew_code {
#define X(name, arity) CJ_EW_##name,
    CJ_EW_OPS(X)
#undef X
        CJ_EW_CODES
} cj_ew_code;

/* Semantics where C is silent, as in PyTorch: MAX/MIN propagate NaN; SIGN(NaN) is 0, RELU(NaN) is NaN; ROUND to even; comparisons and logic give
 * 0 or 1; REMAINDER has the sign of the divisor, FMOD of the dividend; integer DIV, FLOORDIV, REMAINDER, FMOD by zero set *fault and give 0. */
typedef struct cj_ew_instr {
    uint8_t code;    /* cj_ew_code */
    uint8_t dst;     /* register written; may equal a source */
    uint8_t a, b, c; /* registers read: inputs are registers 0 … n_in-1 */
    double s;        /* immediate, rounded to the compute type */
} cj_ew_instr;

typedef struct cj_ew_prog {
    cj_dtype compute;                 /* CJ_F32, CJ_F64 or CJ_I64 */
    int n_in, n_out, n_instr, n_regs; /* registers 0 … n_in-1 are the inputs and are never written */
    uint8_t out[CJ_EW_MAX_ARGS];      /* register stored to output j */
    cj_ew_instr instr[CJ_EW_MAX_INSTR];
} cj_ew_prog;

/* One argument over the common iteration shape.  stride 0 along a dimension broadcasts. */
typedef struct cj_ew_arg {
    void *data;
    cj_dtype dtype;
    int64_t stride[CJ_MAX_DIMS]; /* in elements */
} cj_ew_arg;

/* args: n_in inputs, then n_out outputs.  Outputs never overlap inputs unless they are the same memory with the same strides and dtype.
 * ndim dimensions of sizes shape[]; the engine collapses them itself.  fault: set to 1 by an integer division by zero, else untouched. */
typedef void cj_ew_run_fn(cj_pool *pool, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape, int *fault);

/* The same program on `n` contiguous elements starting at element offset `at` of every argument, on the calling thread; arguments are
 * contiguous, or scalars (stride[0] == 0).  For the tail of a product: n is at most one tile row. */
typedef void cj_ew_span_fn(const cj_ew_prog *p, const cj_ew_arg *args, int64_t at, int64_t n);

#endif
