/* Products with a transposed A and few columns: the transposed product is computed, and turned.  Included by gemm.c. */
#ifndef CJ_KERNELS_CPU_GEMM_FLIP_H
#define CJ_KERNELS_CPU_GEMM_FLIP_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/isa.h"

enum {
    FLIP_FEW = 16,         /* so few columns are always computed as rows, if A has rows enough */
    FLIPPED_COLUMNS = 256, /* no more columns than this ... */
    FLIPPED_LONG = 128,    /* ... and no more than this with a k beyond ... */
    FLIPPED_K = 1024,
    TURN_ROWS = 256, /* rows of C turned in one go */
};

/* C = A B with A transposed and few columns: computed as C' = B' A', whose vectors run along m, and turned back.  Turning B and C instead of A pays if
 * they are smaller. */
static int is_flipped(const cj_gemm *g)
{
    if (g->a_row != 1 || g->a_col == 1 || g->n == 1 || g->batch != 1 || g->k == 0) return 0;
    if (g->n <= FLIP_FEW) return g->m >= 64;
    return g->n <= (g->k > FLIPPED_K ? FLIPPED_LONG : FLIPPED_COLUMNS) && 2 * g->n <= g->m && 2 * g->n <= g->k;
}

static cj_gemm flipped(const cj_gemm *g, float *c)
{
    return (cj_gemm){ .m = g->n,
                      .n = g->m,
                      .k = g->k,
                      .batch = 1,
                      .a = g->b,
                      .b = g->a,
                      .c = c,
                      .a_row = g->b_col,
                      .a_col = g->b_row,
                      .b_row = g->a_col,
                      .b_col = 1,
                      .c_row = g->m };
}

static size_t flipped_bytes(const cj_gemm *g) { return ((size_t)(g->m * g->n) * sizeof(float) + 63) & ~(size_t)63; }

GEMM_INLINE int64_t flip_least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct turn {
    const cj_gemm *g;
    const float *turned;
} turn;

/* Rows [begin, end) of C from the columns of its transpose, VL x VL elements at a time. */
static void turn_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const turn *t = arg;
    const cj_gemm *g = t->g;
    (void)worker;
    for (int64_t i = begin; i < end; i += VL) {
        const int rows = (int)flip_least(VL, end - i);
        for (int64_t j = 0; j < g->n; j += VL) {
            const int columns = (int)flip_least(VL, g->n - j);
            vf x[VL];
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) x[q] = q < columns ? vload_some(t->turned + (j + q) * g->m + i, rows) : vzero();
            transpose_block(x);
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) {
                if (q >= rows) break;
                float *c = (float *)g->c + (i + q) * g->c_row + j;
                vf y = x[q];
                if (g->accumulate) y = vadd(vload_some(c, columns), y);
                if (g->bias) y = vadd(y, vload_some((const float *)g->bias + j, columns));
                if (g->act == CJ_GEMM_RELU) y = vrelu(y);
                vstore_some(c, y, columns);
            }
        }
    }
    if (g->tail) g->tail(g->tail_arg, 0, begin, end, 0, g->n);
}

#endif
