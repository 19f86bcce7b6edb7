/* The register tiles of convolution: R rows times V vectors, every accumulator in a register (gemm_tile.h says which sizes reach the peak).
 *
 *   gather   acc[i][v] += rows[tap][i][p] · B[tap, p, v]       over taps and p < run: rows are wherever the taps of a point lie (Dukhan 2019, indirect convolution),
 *                                                              B is a packed panel of weights
 *   outer    acc[i][v] += x[s][i] · B[s, v]                    over steps s: derivative of the weights, a row per channel of a tap
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

/* Vectors of the next panel when `left` vectors of columns remain. */
GEMM_INLINE int conv_panel(int64_t left)
{
    if (left <= CONV_WIDTH) return (int)left;
    return left < 2 * CONV_WIDTH ? (int)((left + 1) / 2) : CONV_WIDTH;
}

typedef struct conv_tile {
    int64_t taps, run; /* outer: taps = steps */
    const float *const *rows;
    int64_t rows_step; /* gather: between taps */
    int64_t row;       /* outer: the first element of every row that is read */
    const float *b;
    int64_t b_row;     /* outer */
    const float *bias; /* gather: what the sums begin with, full vectors; or NULL */
    float *const *c;   /* gather: row i of the result begins at c[i] + column */
    int64_t column;
    float *sum; /* outer: row i at sum + i·sum_row */
    int64_t sum_row;
    int last, add; /* lanes of the last vector that exist; add to what is there */
    /* What is wanted soon, fetched while the tile multiplies, a line at a time: a burst would hold up its loads. */
    const char *next; /* fetching tiles: a piece of memory, next_step bytes further with every step, to the second-level cache */
    int64_t next_step;
    const float *const *ahead; /* gather: runs of the points after this tile, some with every tap, to the first-level cache */
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
    const int64_t run = t->run, next_step = t->next_step;
    const float *const *ahead = t->ahead;
    int64_t written = 0, due = 0, fetched = 0; /* taps · lines that are due; floats of the first run ahead that are fetched */
    const char *next = t->next;
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
                next += next_step;
            }
        }
    }
    CONV_UNROLL for (int i = 0; i < R; i++)
    {
        float *c = t->c[i] + t->column;
        CONV_UNROLL for (int v = 0; v < V; v++)
        {
            if (v == V - 1 && t->last < VL) {
                if (t->add) acc[i][v] = vadd(vload_some(c + v * VL, t->last), acc[i][v]);
                vstore_some(c + v * VL, acc[i][v], t->last);
            } else {
                if (t->add) acc[i][v] = vadd(vload(c + v * VL), acc[i][v]);
                vstore(c + v * VL, acc[i][v]);
            }
        }
    }
}

/* B must be readable up to a full last vector: a masked load would take a turn of a multiply-add unit in every step. */
GEMM_INLINE void outer_run(const conv_tile *t, const int R, const int V, const bool fetch)
{
    vf acc[CONV_ROWS][CONV_WIDTH];
    CONV_UNROLL for (int i = 0; i < R; i++) CONV_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vzero();
    CONV_UNROLL for (int i = 0; i < R; i++) CONV_UNROLL for (int v = 0; v < V; v++)
        __builtin_prefetch(t->sum + i * t->sum_row + v * VL, 1, 3);
    const float *b = t->b;
    const float *const *rows = t->rows;
    const int64_t row = t->row, b_row = t->b_row, steps = t->taps, next_step = t->next_step;
    const char *next = t->next;
#pragma GCC unroll 2
    for (int64_t s = 0; s < steps; s++, b += b_row) {
        const float *q = rows[s] + row;
        vf x[CONV_WIDTH];
        CONV_UNROLL for (int v = 0; v < V; v++) x[v] = vload(b + v * VL);
        CONV_UNROLL for (int i = 0; i < R; i++)
        {
            const vf a = vset1(q[i]);
            CONV_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(a, x[v], acc[i][v]);
        }
        if (fetch) {
            __builtin_prefetch(next, 0, 2);
            next += next_step;
        }
    }
    float *c = t->sum;
    CONV_UNROLL for (int i = 0; i < R; i++, c += t->sum_row) CONV_UNROLL for (int v = 0; v < V; v++)
        vstore(c + v * VL, t->add ? vadd(vload(c + v * VL), acc[i][v]) : acc[i][v]);
}

#define CONV_TILE(R, V)                                                                                                                    \
    static void gather_##R##x##V(const conv_tile *t) { gather_run(t, R, V, false); }                                                       \
    static void gather_fetch_##R##x##V(const conv_tile *t) { gather_run(t, R, V, true); }                                                  \
    static void outer_##R##x##V(const conv_tile *t) { outer_run(t, R, V, false); }                                                         \
    static void outer_fetch_##R##x##V(const conv_tile *t) { outer_run(t, R, V, true); }
#define TO_4(X, V) X(1, V) X(2, V) X(3, V) X(4, V)
#define TO_6(X, V) TO_4(X, V) X(5, V) X(6, V)
#define TO_9(X, V) TO_6(X, V) X(7, V) X(8, V) X(9, V)
#define TO_10(X, V) TO_9(X, V) X(10, V)
#define GATHER_ENTRY(R, V) { gather_##R##x##V, gather_fetch_##R##x##V },
#define OUTER_ENTRY(R, V) { outer_##R##x##V, outer_fetch_##R##x##V },

/* clang-format off */
#if GEMM_REGISTERS == 32
#define CONV_TILES(name, X) __attribute__((unused)) static conv_tile_fn *const name[CONV_WIDTH][CONV_ROWS][2] = { { TO_10(X, 1) }, { TO_10(X, 2) }, { TO_9(X, 3) }, { TO_6(X, 4) } }
TO_10(CONV_TILE, 1) TO_10(CONV_TILE, 2) TO_9(CONV_TILE, 3) TO_6(CONV_TILE, 4)
#else
#define CONV_TILES(name, X) __attribute__((unused)) static conv_tile_fn *const name[CONV_WIDTH][CONV_ROWS][2] = { { TO_10(X, 1) }, { TO_6(X, 2) }, { TO_4(X, 3) } }
TO_10(CONV_TILE, 1) TO_6(CONV_TILE, 2) TO_4(CONV_TILE, 3)
#endif
    /* clang-format on */
    CONV_TILES(gather_tiles, GATHER_ENTRY);
CONV_TILES(outer_tiles, OUTER_ENTRY);

#endif
