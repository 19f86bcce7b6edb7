/* Register tiles of any result points: R rows times V vectors, every accumulator in a register (gemm_tile.h says which sizes reach the peak).
 *
 *   acc[i][v] += rows[tap][i][p] · B[tap, p, v]       over taps and p < run: rows are wherever the taps of a point lie (Dukhan 2019, indirect convolution),
 *                                                     B is a packed panel of weights
 */
#ifndef CJ_KERNELS_CPU_CONV_TILE_H
#define CJ_KERNELS_CPU_CONV_TILE_H

#include <stdbool.h>

#include "kernels/cpu/gemm_simd.h"

#define CONV_ROWS 10 /* of the tallest tile: a pointer each */
#if GEMM_REGISTERS == 32
#define CONV_WIDTH 4 /* vectors of the widest tile */
#else
#define CONV_WIDTH 3
#endif

/* Rows of the tallest tile that is V vectors wide. */
GEMM_INLINE int conv_tile_rows(int V)
{
#if GEMM_REGISTERS == 32
    return V == 4 ? 6 : V == 3 ? 9 : CONV_ROWS;
#else
    return V == 3 ? 4 : V == 2 ? 6 : CONV_ROWS;
#endif
}

/* Vectors of the next panel, of at most `width`, when `left` vectors of columns remain. */
GEMM_INLINE int conv_panel(int64_t left, int width)
{
    if (left <= width) return (int)left;
    return left < 2 * width ? (int)((left + 1) / 2) : width;
}

typedef struct conv_tile {
    int64_t taps, run;
    const float *const *rows;
    int64_t rows_step; /* between taps */
    const float *b;
    const float *bias; /* what the sums begin with, full vectors; or NULL */
    float *const *c;   /* row i of the result begins at c[i] + column */
    int64_t column;
    int last, add; /* lanes of the last vector that exist; add to what is there */
    /* What is wanted soon, fetched while the tile multiplies, a line at a time: a burst would hold up its loads. */
    const char *next; /* fetching tiles: a piece of memory, next_step bytes further with every step, to the second-level cache */
    int64_t next_step;
    const char
        *put; /* one tap: where the next tile will write, put_step bytes further with every step; or NULL: that is fetched with the taps */
    int64_t put_step;
    const float *const *ahead; /* runs of the points after this tile, some with every tap, to the first-level cache */
    int64_t ahead_lines;       /* of them all; 0: none */
} conv_tile;

typedef void conv_tile_fn(const conv_tile *t);

#define CONV_UNROLL _Pragma("GCC unroll 10")

GEMM_INLINE void gather_run(const conv_tile *t, const int R, const int V, const bool fetch)
{
    vf acc[CONV_ROWS][CONV_WIDTH];
    CONV_UNROLL for (int v = 0; v < V; v++)
    {
        const vf first = t->bias ? vload(t->bias + v * VL) : vzero();
        CONV_UNROLL for (int i = 0; i < R; i++) acc[i][v] = first;
    }
    const float *b = t->b;
    const float *const *rows = t->rows;
    const int64_t run = t->run, next_step = t->next_step, put_step = t->put ? t->put_step : 0;
    const float *const *ahead = t->ahead;
    int64_t written = 0, due = 0, fetched = 0; /* taps · lines that are due; floats of the first run ahead that are fetched */
    const char *next = t->next, *put = t->put ? t->put : (const char *)t->b; /* b is there already */
    if (t->put) written = R;
    for (int64_t tap = 0; tap < t->taps; tap++, rows += t->rows_step) {
        for (; written * t->taps < R * (tap + 1); written++) /* where the tile will write */
            CONV_UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(t->c[written] + t->column + v * VL, 1, 3);
        for (due += t->ahead_lines; due > 0; due -= t->taps) {
            __builtin_prefetch(*ahead + fetched, 0, 3);
            fetched += 16;
            if (fetched >= run) ahead++, fetched = 0;
        }
        const float *q[CONV_ROWS];
        CONV_UNROLL for (int i = 0; i < R; i++) q[i] = rows[i] + run;
#pragma GCC unroll 2
        for (int64_t p = -run; p < 0; p++, b += V * VL) {
            vf x[CONV_WIDTH];
            CONV_UNROLL for (int v = 0; v < V; v++) x[v] = vload(b + v * VL);
            CONV_UNROLL for (int i = 0; i < R; i++)
            {
                const vf a = vset1(q[i][p]);
                CONV_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(a, x[v], acc[i][v]);
            }
            if (fetch) {
                __builtin_prefetch(next, 0, 2);
                __builtin_prefetch(put, 1, 3);
                next += next_step, put += put_step;
            }
        }
    }
    CONV_UNROLL for (int i = 0; i < R; i++)
    {
        float *c = t->c[i] + t->column;
        CONV_UNROLL for (int v = 0; v < V; v++) vput(c + v * VL, acc[i][v], t->add, v == V - 1 ? t->last : VL);
    }
}

#define CONV_TILE(R, V)                                                                                                                    \
    static void gather_##R##x##V(const conv_tile *t) { gather_run(t, R, V, false); }                                                       \
    static void gather_fetch_##R##x##V(const conv_tile *t) { gather_run(t, R, V, true); }
#define TO_4(X, V) X(1, V) X(2, V) X(3, V) X(4, V)
#define TO_6(X, V) TO_4(X, V) X(5, V) X(6, V)
#define TO_9(X, V) TO_6(X, V) X(7, V) X(8, V) X(9, V)
#define TO_10(X, V) TO_9(X, V) X(10, V)
#define GATHER_ENTRY(R, V) { gather_##R##x##V, gather_fetch_##R##x##V },

/* clang-format off */
#if GEMM_REGISTERS == 32
TO_10(CONV_TILE, 1) TO_10(CONV_TILE, 2) TO_9(CONV_TILE, 3) TO_6(CONV_TILE, 4)
static conv_tile_fn *const gather_tiles[CONV_WIDTH][CONV_ROWS][2] = { { TO_10(GATHER_ENTRY, 1) }, { TO_10(GATHER_ENTRY, 2) }, { TO_9(GATHER_ENTRY, 3) }, { TO_6(GATHER_ENTRY, 4) } };
#else
TO_10(CONV_TILE, 1) TO_6(CONV_TILE, 2) TO_4(CONV_TILE, 3)
static conv_tile_fn *const gather_tiles[CONV_WIDTH][CONV_ROWS][2] = { { TO_10(GATHER_ENTRY, 1) }, { TO_6(GATHER_ENTRY, 2) }, { TO_4(GATHER_ENTRY, 3) } };
#endif
/* clang-format on */

#endif
