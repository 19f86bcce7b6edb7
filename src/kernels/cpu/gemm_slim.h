/* Products with many rows and up to 16 columns, where vectors have 16 lanes: a vector holds a row of C.
 *
 *     C[i, 0..n) = sum_p A[i,p] * B[p, 0..n)        for p = 0 .. k-1, in this order
 *
 * There is one multiply-add for every element of A, which is read once, and often from far away; B comes by again and again from the second-level cache.
 *
 *   tall    A as it lies: up to 24 rows of C in registers, so that a row of B serves as many multiply-adds
 *   swept   A transposed, C dense: twelve rows of B in registers while as many rows of A are read along their whole length, as the hardware prefetcher likes it; C stays near
 */
#ifndef CJ_KERNELS_CPU_GEMM_SLIM_H
#define CJ_KERNELS_CPU_GEMM_SLIM_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_few.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_tile.h"

typedef enum slim_form { SLIM_NO, SLIM_TALL, SLIM_SWEPT } slim_form;

#if VL == 16

enum {
    TALL_COLUMNS = 15,      /* from so many columns on; or, because fewer leave lanes empty ... */
    TALL_LEAST = 9,         /* ... from so many on where dot products would wait: ... */
    TALL_SHORT = 256,       /* ... for their sums to be folded, k being short, ... */
    TALL_FLOATS = 3 << 17,  /* ... or for an A of this size */
    TALL_ROWS = 24,         /* of C in registers */
    TALL_TASK = 96,         /* rows of a task; of ... */
    TALL_FEW = 512,         /* ... fewer than these, so many as are in registers: the threads should have equal shares */
    SWEPT_FLOATS = 1 << 20, /* a smaller A is near enough to be read in any order */
    SWEPT_STEPS = 12,       /* of k, rows of B in registers */
    SWEPT_TASK = 4096,      /* rows of C at a time: 256 KiB */
};

/* Does a transposed B, which would have to be turned, make dot products the quicker way?  Cycles as in is_dots. */
static int is_turned_dearly(const cj_gemm *g)
{
    if (g->b_col == 1) return 0;
    const double m = (double)g->m, k = (double)g->k, row = 10, turning = g->n == VL ? 5.5 : 12, call = 620;
    return dots_cycles(g->n, g->m, g->k) + call <= m * (k / 2 + row) + k * turning;
}

static slim_form slim_form_of(const cj_gemm *g)
{
    if (g->n > VL || g->n < TALL_LEAST || g->k < LONG_K || g->batch != 1) return SLIM_NO;
    if (g->a_col != 1)
        return g->a_row == 1 && g->n == VL && g->c_row == VL && (double)g->m * (double)g->k >= SWEPT_FLOATS ? SLIM_SWEPT : SLIM_NO;
    const int tall = g->n >= TALL_COLUMNS || g->k < TALL_SHORT || (double)g->m * (double)g->k >= TALL_FLOATS;
    if (g->m <= FEW_COLUMNS || !tall) return SLIM_NO;
    return (double)g->m * (double)g->k < TALL_FLOATS && is_turned_dearly(g) ? SLIM_NO : SLIM_TALL;
}

/* B as rows of vectors, if it does not lie so. */
static size_t slim_bytes(const cj_gemm *g) { return g->b_col == 1 ? 0 : (size_t)(g->k * VL) * sizeof(float); }

typedef struct slim {
    const cj_gemm *g;
    const float *b;
    int64_t b_row;
    vmask columns;
} slim;

/* C[i] of eight rows each from three pointers and four strides: rows 0 to 7 are 0, 1, 2·1, 3, 4·1, 5, 2·3 and 7 strides away. */
typedef struct eights {
    const float *at[TALL_ROWS / 8];
    int64_t row1, row3, row5, row7;
} eights;

GEMM_INLINE eights eights_from(const float *a, int64_t row)
{
    eights x = { { a, a + 8 * row, a + 16 * row }, row, 3 * row, 5 * row, 7 * row };
    __asm__("" : "+r"(x.row1), "+r"(x.row3), "+r"(x.row5), "+r"(x.row7)); /* no pointer per row */
    return x;
}
GEMM_INLINE const float *eights_row(const eights *x, const int i)
{
    const float *at = x->at[i / 8];
    switch (i % 8) {
    case 0: return at;
    case 1: return at + x->row1;
    case 2: return at + 2 * x->row1;
    case 3: return at + x->row3;
    case 4: return at + 4 * x->row1;
    case 5: return at + x->row5;
    case 6: return at + 2 * x->row3;
    default: return at + x->row7;
    }
}
GEMM_INLINE void eights_on(eights *x, int64_t floats)
{
#pragma GCC unroll 3
    for (int i = 0; i < TALL_ROWS / 8; i++) x->at[i] += floats;
}

GEMM_INLINE vf slim_finish(const slim *t, vf y)
{
    if (t->g->bias) y = vadd(y, vload_first(t->g->bias, t->columns));
    return t->g->act == CJ_GEMM_RELU ? vrelu(y) : y;
}

/* ---- tall ---- */

GEMM_INLINE void tall_step(vf acc[TALL_ROWS], const eights *a, const int q, const float *b, const slim *t, const int R, const int whole)
{
    vf x = whole ? vload(b) : vload_first(b, t->columns);
    VKEEP(x);
#pragma GCC unroll 24
    for (int i = 0; i < R; i++) acc[i] = vfma(vset1(eights_row(a, i)[q]), x, acc[i]);
}

/* R rows from row i on.  R and whole (whether there are 16 columns) are constants at every call. */
GEMM_INLINE void tall_run(const slim *t, int64_t i, const int R, const int whole)
{
    const cj_gemm *g = t->g;
    const float *b = t->b;
    int64_t p = 0;
    eights a = eights_from((const float *)g->a + i * g->a_row, g->a_row);
    vf acc[TALL_ROWS];
#pragma GCC unroll 24
    for (int r = 0; r < R; r++) acc[r] = vzero();
    for (; p + 4 <= g->k; p += 4, eights_on(&a, 4)) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++, b += t->b_row) tall_step(acc, &a, q, b, t, R, whole);
    }
    for (; p < g->k; p++, b += t->b_row, eights_on(&a, 1)) tall_step(acc, &a, 0, b, t, R, whole);
    float *c = (float *)g->c + i * g->c_row;
#pragma GCC unroll 24
    for (int r = 0; r < R; r++, c += g->c_row) {
        vf y = acc[r];
        if (g->accumulate) y = vadd(vload_first(c, t->columns), y);
        vstore_first(c, slim_finish(t, y), t->columns);
    }
}

#define TALL(R)                                                                                                                            \
    static __attribute__((noinline)) void tall_##R(const slim *t, int64_t i)                                                               \
    {                                                                                                                                      \
        if (t->g->n == VL) tall_run(t, i, R, 1);                                                                                           \
        else tall_run(t, i, R, 0);                                                                                                         \
    }
TALL(24)
TALL(20)
TALL(16)
TALL(12)
TALL(8)
TALL(4)
TALL(1)

static void tall_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const slim *t = arg;
    static void (*const fours[])(const slim *, int64_t) = { NULL, tall_4, tall_8, tall_12, tall_16, tall_20, tall_24 };
    int64_t i = begin;
    (void)worker;
    for (int64_t count; i + 4 <= end; i += 4 * count) { /* so many fours that no lone one is left */
        const int64_t left = (end - i) / 4, runs = ceil_div(left, TALL_ROWS / 4);
        count = ceil_div(left, runs);
        fours[count](t, i);
    }
    for (; i < end; i++) tall_1(t, i);
    if (t->g->tail) call_tail(t->g, 0, begin, end - begin, 0, t->g->n);
}

/* ---- swept ---- */

/* C[i] of rows [begin, end) += A[i, p..p+P) B[p..p+P), or = when first.  P and last are constants at every call. */
GEMM_INLINE void swept_run(const slim *t, int64_t p, int64_t begin, int64_t end, const int P, const int first, const int last)
{
    const cj_gemm *g = t->g;
    eights a = eights_from((const float *)g->a + begin + p * g->a_col, g->a_col);
    float *c = (float *)g->c + begin * VL;
    vf b[SWEPT_STEPS];
#pragma GCC unroll 12
    for (int q = 0; q < P; q++) b[q] = vload(t->b + (p + q) * t->b_row);
    int64_t i = begin;
#define SWEPT_ROWS_OF(N)                                                                                                                   \
    do {                                                                                                                                   \
        vf y[8];                                                                                                                           \
        _Pragma("GCC unroll 8") for (int u = 0; u < (N); u++) y[u] = first ? vzero() : vload(c + u * VL);                                  \
        _Pragma("GCC unroll 12") for (int q = 0; q < P; q++)                                                                               \
        {                                                                                                                                  \
            _Pragma("GCC unroll 8") for (int u = 0; u < (N); u++) y[u] = vfma(vset1(eights_row(&a, q)[u]), b[q], y[u]);                    \
        }                                                                                                                                  \
        _Pragma("GCC unroll 8") for (int u = 0; u < (N); u++) vstore(c + u * VL, last ? slim_finish(t, y[u]) : y[u]);                      \
        c += (N)*VL;                                                                                                                       \
        eights_on(&a, N);                                                                                                                  \
    } while (0)
    for (; i + 8 <= end; i += 8) SWEPT_ROWS_OF(8);
    for (; i < end; i++) SWEPT_ROWS_OF(1);
#undef SWEPT_ROWS_OF
}
static __attribute__((noinline)) void swept_first(const slim *t, int64_t p, int64_t begin, int64_t end)
{
    swept_run(t, p, begin, end, SWEPT_STEPS, 1, 0);
}
static __attribute__((noinline)) void swept_more(const slim *t, int64_t p, int64_t begin, int64_t end)
{
    swept_run(t, p, begin, end, SWEPT_STEPS, 0, 0);
}
static __attribute__((noinline)) void swept_one(const slim *t, int64_t p, int64_t begin, int64_t end)
{
    swept_run(t, p, begin, end, 1, 0, 0);
}
static __attribute__((noinline)) void swept_last(const slim *t, int64_t p, int64_t begin, int64_t end)
{
    swept_run(t, p, begin, end, 1, 0, 1);
}

static void swept_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const slim *t = arg;
    const int64_t k = t->g->k;
    int64_t p = 0;
    (void)worker;
    if (!t->g->accumulate) swept_first(t, 0, begin, end), p = SWEPT_STEPS;
    for (; p + SWEPT_STEPS < k; p += SWEPT_STEPS) swept_more(t, p, begin, end);
    for (; p + 1 < k; p++) swept_one(t, p, begin, end);
    swept_last(t, p, begin, end);
    if (t->g->tail) call_tail(t->g, 0, begin, end - begin, 0, t->g->n);
}

/* The rows of a task follow from the number of threads, but no sum does. */
static void gemm_slim(cj_pool *pool, const cj_gemm *g, slim_form form, float *workspace)
{
    slim t = { g, g->b, g->b_row, vfirst((int)g->n) };
    if (g->b_col != 1) {
        pack_panel(workspace, VL, g->b, g->b_row, g->b_col, g->k, g->n, GEMM_F32);
        t.b = workspace, t.b_row = VL;
    }
    if ((double)g->m * (double)g->n * (double)g->k < PARALLEL_WORK) pool = NULL;
    const int64_t share = ceil_div(ceil_div(g->m, cj__pool_threads(pool)), 4 * TILE_LINE) * 4 * TILE_LINE;
    if (form == SLIM_TALL) cj__parallel_for(pool, g->m, !pool ? g->m : g->m < TALL_FEW ? TALL_ROWS : TALL_TASK, tall_rows, &t);
    else cj__parallel_for(pool, g->m, min64(share, SWEPT_TASK), swept_rows, &t);
}

#else

static slim_form slim_form_of(const cj_gemm *g) { return (void)g, SLIM_NO; }
static size_t slim_bytes(const cj_gemm *g) { return (void)g, 0; }
static void gemm_slim(cj_pool *pool, const cj_gemm *g, slim_form form, float *workspace)
{
    (void)pool, (void)g, (void)form, (void)workspace;
}

#endif

#endif
