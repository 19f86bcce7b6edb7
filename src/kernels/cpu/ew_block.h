/* Inside the elementwise engine: one instruction over one block.  The tables are in ew_f32.c, ew_f64.c and ew_i64.c; ew.c calls them. */
#ifndef CJ_KERNELS_CPU_EW_BLOCK_H
#define CJ_KERNELS_CPU_EW_BLOCK_H

#include "kernels/cpu/ew.h"
#include "kernels/cpu/isa.h"

/* A cheap operation fused into another instruction's loop: v = v op x, on the way from memory to the function or from it to memory. */
typedef enum cj_ew_link_op {
    CJ_LINK_ADD,
    CJ_LINK_MUL,
    CJ_LINK_SUB,
    CJ_LINK_RSUB /* x - v */,
    CJ_LINK_ADDS,
    CJ_LINK_MULS,
    CJ_LINK_RELU
} cj_ew_link_op;
#define CJ_EW_MAX_LINKS 4 /* before the function, and as many after it */
typedef struct cj_ew_link {
    cj_ew_link_op op;
    float s;
    const float *x;
} cj_ew_link;

/* d[i] = f(a[i], b[i], c[i]) for i < n, all contiguous and of the compute type; d may be a, b or c.  Operands beyond the arity are not read. */
typedef struct cj_ew_call {
    void *d;
    const void *a, *b, *c;
    double s;
    int n;
    bool stream;          /* f32: d is 64-byte aligned and goes to memory past the caches */
    const char *ahead[2]; /* f32: two places in memory to prefetch from while the block is worked on … */
    int pace[2];          /* … and the bytes to go on there per vector; 0 with a valid address: nothing */
    int *fault;           /* i64: set by a division by zero */
    int n_pre, n_post;    /* f32, one and two operands: links[0 … n_pre) on the way in, to a or (pre_b) b; the rest on the way out */
    bool pre_b;
    const cj_ew_link *links;
} cj_ew_call;

typedef void cj_ew_block_fn(const cj_ew_call *k);

extern cj_ew_block_fn *const CJ_K(cj__ew_f32)[CJ_EW_CODES];
extern cj_ew_block_fn *const CJ_K(cj__ew_f64)[CJ_EW_CODES];
extern cj_ew_block_fn *const CJ_K(cj__ew_i64)[CJ_EW_CODES];

#endif
