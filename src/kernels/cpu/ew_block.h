/* Inside the elementwise engine: how an instruction runs.
 *
 * f64 and i64 programs go instruction by instruction over a block (ew_f64.c, ew_i64.c).
 *
 * f32 programs run as threaded code (ew_f32.c): each operation is a function that works on a group of CJ_EW_GROUP elements and ends by calling the next
 * one, with two values of the group, a and b, in vector registers all the way.  The compiler makes these calls jumps, so a whole program is one pass over a
 * group: arithmetic of one operation overlaps with waiting of another, and only values that are needed again later go through a buffer.
 */
#ifndef CJ_KERNELS_CPU_EW_BLOCK_H
#define CJ_KERNELS_CPU_EW_BLOCK_H

#include "kernels/cpu/ew.h"
#include "kernels/cpu/simd.h"

/* ---- f64, i64: d[i] = f(a[i], b[i], c[i]) for i < n ------------------------------------------------------------------------------------- */

/* All contiguous and of the compute type; d may be a, b or c.  Operands beyond the arity are not read. */
typedef struct cj_ew_call {
    void *d;
    const void *a, *b, *c;
    double s;
    int n;
    int *fault; /* i64: set by a division by zero */
} cj_ew_call;

typedef void cj_ew_block_fn(const cj_ew_call *k);

extern cj_ew_block_fn *const CJ_K(cj__ew_f64)[CJ_EW_CODES];
extern cj_ew_block_fn *const CJ_K(cj__ew_i64)[CJ_EW_CODES];

/* ---- f32 -------------------------------------------------------------------------------------------------------------------------------- */

#define CJ_EW_GROUP (4 * CJ_VL) /* elements: enough vectors to hide latencies and to share the cost of a jump */

/* Instructions work on the registers: a = f(a), a = f(a, b), a = f(a, b, memory).  To these come: */
enum {
    CJ_EW_LOAD = CJ_EW_CODES, /* a = memory */
    CJ_EW_LOAD_B,             /* b = memory */
    CJ_EW_FLIP,               /* b = a, a = memory */
    CJ_EW_DUP,                /* b = a */
    CJ_EW_ADD_M,              /* a + memory */
    CJ_EW_MUL_M,
    CJ_EW_SUB_M,
    CJ_EW_RSUB_M, /* memory - a */
    CJ_EW_CUBE,
    CJ_EW_RECIP_SQUARE,
    CJ_EW_STORE,    /* memory = a */
    CJ_EW_STREAM,   /* the same past the caches; the memory is 64-byte aligned */
    CJ_EW_PREFETCH, /* memory that is read soon */
    /* pairs that follow each other often, in one jump */
    CJ_EW_MULS_ADDS,
    CJ_EW_MUL_ADD_M,     /* a * memory + other memory, two roundings */
    CJ_EW_MULS_ADD_M,    /* a * s + other memory, two roundings */
    CJ_EW_STORE_LOAD,    /* memory = a, a = other memory */
    CJ_EW_STORE_MUL_M,   /* memory = a, a * other memory */
    CJ_EW_PREFETCH_LOAD, /* both of the same memory */
    CJ_EW_STORE_END,
    CJ_EW_STREAM_END,
    CJ_EW_END,
    CJ_EW_F32_CODES
};

/* Operands in memory are places: 0 … CJ_EW_MAX_REGS-1 are buffers of a block, then come the arguments themselves. */
#define CJ_EW_PLACE_ARG(k) (CJ_EW_MAX_REGS + (k))
#define CJ_EW_PLACES CJ_EW_PLACE_ARG(CJ_EW_MAX_ARGS)

typedef struct cj_ew_frame {
    char *at[CJ_EW_PLACES]; /* where each place begins for the current block */
    int tail;               /* elements of the last group of a block, if it is not whole */
} cj_ew_frame;

typedef struct cj_ew_op cj_ew_op;
/* i: byte offset of the group within the block */
typedef void cj_ew_op_fn(const cj_ew_op *op, const cj_ew_frame *f, int64_t i, vf a0, vf a1, vf a2, vf a3, vf b0, vf b1, vf b2, vf b3);
struct cj_ew_op {
    cj_ew_op_fn *fn;
    float s, t; /* t: of the second of a pair, like other */
    uint8_t code, place, other;
};

/* [0] for whole groups, [1] for tails; a value is the same in both. */
extern cj_ew_op_fn *const CJ_K(cj__ew_f32)[2][CJ_EW_F32_CODES];

/* Long programs of common instructions run on twice as many vectors at a time, where there are registers for it: all eight arguments are a then, and other operands come
 * from memory.  Half as many jumps and constants per element; the same values.  [0]: a = f(a, memory, other memory); [1]: a = f(memory, a).  NULL: there is none. */
#if defined CJ_ISA_AVX512
#define CJ_EW_WIDE 1
#define CJ_EW_WIDE_GROUP (8 * CJ_VL)
extern cj_ew_op_fn *const CJ_K(cj__ew_f32_wide)[2][CJ_EW_F32_CODES];
#else
#define CJ_EW_WIDE 0
#define CJ_EW_WIDE_GROUP CJ_EW_GROUP
#endif

/* One vector of an instruction: f(a, b, c) with the immediate s; operands beyond the arity are not looked at. */
typedef vf cj_ew_one_fn(vf a, vf b, vf c, vf s);
extern cj_ew_one_fn *const CJ_K(cj__ew_one)[CJ_EW_F32_CODES];
/* The code that computes a to the power s: POWS itself, or a cheaper one. */
int CJ_K(cj__ew_power)(double s);

/* Appends operations to a list that the caller has room for. */
typedef struct cj_ew_emitter {
    cj_ew_op *op;
    int n;
    int a, b;        /* places whose values the registers hold; -1: none */
    bool tail, wide; /* which table */
} cj_ew_emitter;

#define CJ_EW_NOWHERE 255 /* the place of a value that lives in register a only */
/* One instruction with operands and result at these places makes at most three operations; with a store, four. */
#define CJ_EW_OPS_PER_INSTR 4

void CJ_K(cj__ew_put)(cj_ew_emitter *e, int code, int place, float s);
void CJ_K(cj__ew_emit)(cj_ew_emitter *e, const cj_ew_instr *in, int a, int b, int c, int dst);
/* Runs the n operations, END last, on the elements from `from` (a multiple of CJ_EW_GROUP) on. */
void CJ_K(cj__ew_run_ops)(const cj_ew_op *op, int n, cj_ew_frame *f, int from, int elements);
/* Operations of the wide table; returns how many elements they did, as many as make whole groups. */
int CJ_K(cj__ew_run_wide)(const cj_ew_op *op, const cj_ew_frame *f, int elements);
/* The same with buffers of one group; the n places of `moving`, the arguments, advance with every group. */
int64_t CJ_K(cj__ew_run_groups)(const cj_ew_op *op, cj_ew_frame *f, const uint8_t *moving, int n, int64_t elements);
/* Operations of the table of tails on fewer than CJ_EW_GROUP elements. */
void CJ_K(cj__ew_run_tail)(const cj_ew_op *op, cj_ew_frame *f, int from, int elements);

#endif
