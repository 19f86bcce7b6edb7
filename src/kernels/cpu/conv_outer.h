/* The register tile of the derivative of a convolution's weights: R channels of a tap times V vectors of result channels, every accumulator in a register.
 *
 *   acc[i][v] += x[p][row + i] · dy[p][column + v]        over points p
 *
 * Points come in runs, the part of a line that a tap sees; points that do not see it are never multiplied.  dy must be readable up to a full last vector: a masked load would
 * take a turn of a multiply-add unit in every step.
 */
#ifndef CJ_KERNELS_CPU_CONV_OUTER_H
#define CJ_KERNELS_CPU_CONV_OUTER_H

#include <stdbool.h>

#include "kernels/cpu/gemm_simd.h"

#if GEMM_REGISTERS == 32
#define OUTER_WIDTH 2 /* vectors of the widest tile */
#define OUTER_ROWS 30 /* of the tallest */
#else
#define OUTER_WIDTH 3
#define OUTER_ROWS 10
#endif

/* Rows of the tallest tile that is V vectors wide. */
GEMM_INLINE int outer_rows(int V)
{
#if GEMM_REGISTERS == 32
    return V == 2 ? 14 : OUTER_ROWS;
#else
    return V == 3 ? 4 : V == 2 ? 6 : OUTER_ROWS;
#endif
}

typedef struct outer_run {
    const float *x, *dy; /* of its first point */
    int64_t points;
} outer_run;

typedef struct outer_tile {
    const outer_run *run;
    int64_t runs;
    int64_t row, column;     /* the first channel, the first lane */
    int64_t x_step, dy_step; /* floats between points */
    float *sum;              /* row i at sum + i·sum_row */
    int64_t sum_row;
    bool add;
    const char *
        next; /* what is wanted soon, fetched to the second-level cache, next_step bytes further with every point (a narrow tile: with every run) */
    int64_t next_step;
} outer_tile;

typedef void outer_tile_fn(const outer_tile *t);

#define OUTER_UNROLL _Pragma("GCC unroll 30")

GEMM_INLINE void outer_sum(const outer_tile *t, const int R, const int V)
{
    vf acc[OUTER_ROWS][OUTER_WIDTH];
    OUTER_UNROLL for (int i = 0; i < R; i++) OUTER_UNROLL for (int v = 0; v < V; v++)
    {
        acc[i][v] = vzero();
        __builtin_prefetch(t->sum + i * t->sum_row + v * VL, 1, 3);
    }
    const int64_t x_step = t->x_step, dy_step = t->dy_step, next_step = t->next_step;
    const char *next = t->next;
    for (const outer_run *r = t->run, *end = r + t->runs; r < end; r++) {
        const float *q = r->x + t->row, *b = r->dy + t->column;
        if (V == 1) /* it loads once for every multiply-add */
            for (int64_t line = 0; line < next_step; line += 64, next += 64) __builtin_prefetch(next, 0, 2);
        for (int64_t p = r->points; p > 0; p--, q += x_step, b += dy_step) {
            vf x[OUTER_WIDTH];
            OUTER_UNROLL for (int v = 0; v < V; v++) x[v] = vload(b + v * VL);
            OUTER_UNROLL for (int i = 0; i < R; i++)
            {
                const vf a = vset1(q[i]);
                OUTER_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(a, x[v], acc[i][v]);
            }
            if (V > 1) {
                __builtin_prefetch(next, 0, 2);
                next += next_step;
            }
        }
    }
    float *c = t->sum;
    OUTER_UNROLL for (int i = 0; i < R; i++, c += t->sum_row) OUTER_UNROLL for (int v = 0; v < V; v++)
        vstore(c + v * VL, t->add ? vadd(vload(c + v * VL), acc[i][v]) : acc[i][v]);
}

#define OUTER_TILE(R, V)                                                                                                                   \
    static void outer_##R##x##V(const outer_tile *t) { outer_sum(t, R, V); }
#define OUTER_ENTRY(R, V) outer_##R##x##V,
/* clang-format off */
#define OUTER_TO_4(X, V) X(1, V) X(2, V) X(3, V) X(4, V)
#define OUTER_TO_6(X, V) OUTER_TO_4(X, V) X(5, V) X(6, V)
#define OUTER_TO_10(X, V) OUTER_TO_6(X, V) X(7, V) X(8, V) X(9, V) X(10, V)
#if GEMM_REGISTERS == 32
#define OUTER_TO_14(X, V) OUTER_TO_10(X, V) X(11, V) X(12, V) X(13, V) X(14, V)
#define OUTER_TO_30(X, V) OUTER_TO_14(X, V) X(15, V) X(16, V) X(17, V) X(18, V) X(19, V) X(20, V) X(21, V) X(22, V) X(23, V) X(24, V) X(25, V) X(26, V) X(27, V) X(28, V) X(29, V) X(30, V)
OUTER_TO_30(OUTER_TILE, 1) OUTER_TO_14(OUTER_TILE, 2)
static outer_tile_fn *const outer_tiles[OUTER_WIDTH][OUTER_ROWS] = { { OUTER_TO_30(OUTER_ENTRY, 1) }, { OUTER_TO_14(OUTER_ENTRY, 2) } };
#else
OUTER_TO_10(OUTER_TILE, 1) OUTER_TO_6(OUTER_TILE, 2) OUTER_TO_4(OUTER_TILE, 3)
static outer_tile_fn *const outer_tiles[OUTER_WIDTH][OUTER_ROWS] = { { OUTER_TO_10(OUTER_ENTRY, 1) }, { OUTER_TO_6(OUTER_ENTRY, 2) }, { OUTER_TO_4(OUTER_ENTRY, 3) } };
#endif
/* clang-format on */

#endif
