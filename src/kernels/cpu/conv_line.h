/* Register tiles along a line of result points, for machines with 32 vector registers.
 *
 *   acc[i][v] += from[tap][i·row + p] · b[tap][p, v]        over taps and p < run, i < R points side by side, V vectors of result channels
 *
 * The points of a line read pixels that lie equally far apart, so that a few address registers do for all of them, and tiles can be tall: 14 points times 2 vectors, 28 times 1.
 * Compared with the 6 times 4 of conv_tile.h, half as many bytes of weights come in for a multiply-add.  Taps outside of the image are left out: whole lines of them by
 * the caller, and up to LINE_EDGE points at either end here, by loops of their own.
 */
#ifndef CJ_KERNELS_CPU_CONV_LINE_H
#define CJ_KERNELS_CPU_CONV_LINE_H

#include <stdbool.h>

#include "kernels/cpu/gemm_simd.h"

#define LINE_WIDTH 2    /* vectors of a tile */
#define LINE_EDGE 2     /* points at an end that a tap may leave out */
#define LINE_LEAST 7    /* points of a line, and rows of a tile, at least */
#define LINE_LEAST_1 10 /* the same of tiles that are one vector wide */

typedef struct line_tap {
    const float *from; /* of the first point that sees it */
    const float *b;
    int64_t edge; /* points that do not: 0 none, 1 … LINE_EDGE so many first ones, LINE_EDGE + 1 … so many last ones */
} line_tap;

typedef struct line_tile {
    const line_tap *tap;
    int64_t taps, run;
    int64_t row;       /* floats between points of the source */
    int64_t shift;     /* by so many floats the source lies behind `from` */
    const float *bias; /* what the sums begin with, full vectors; or NULL */
    float *c;
    int64_t c_row;
    int last, add;    /* lanes of the last vector that exist; add to what is there */
    const char *next; /* a piece of memory that is wanted soon, fetched to the second-level cache meanwhile */
    int64_t next_bytes;
} line_tile;

typedef void line_tile_fn(const line_tile *t);

#if GEMM_REGISTERS == 32

#define LINE_ROWS 28
#define LINE_UNROLL _Pragma("GCC unroll 28")

/* Rows of the tallest tile that is V vectors wide. */
GEMM_INLINE int line_rows(int V) { return LINE_ROWS / V; }

/* One step of the points that see a tap: at: of every seven of them; 0 … 6 rows from it are multiples of three numbers of bytes. */
GEMM_INLINE void line_step(vf acc[LINE_ROWS][LINE_WIDTH], const char *at[4], int64_t one, int64_t three, int64_t five, const float *b,
                           const int R, const int V, const int LO, const int HI)
{
    __asm__("" : "+r"(one), "+r"(three), "+r"(five)); /* or the compiler would keep each of the multiples in a register */
    vf x[LINE_WIDTH];
    LINE_UNROLL for (int v = 0; v < V; v++) x[v] = vload(b + v * VL);
    LINE_UNROLL for (int i = LO; i < R - HI; i++)
    {
        const int k = i - LO, n = k % 7;
        const int64_t far = n == 0 ? 0 : n == 1 ? one : n == 2 ? 2 * one : n == 3 ? three : n == 4 ? 4 * one : n == 5 ? five : 2 * three;
        const vf a = vset1(*(const float *)(const void *)(at[k / 7] + far));
        LINE_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(a, x[v], acc[i][v]);
    }
    LINE_UNROLL for (int k = 0; k < 4; k++) at[k] += 4;
}

/* One tap, without the first LO and the last HI points. */
GEMM_INLINE void line_steps(vf acc[LINE_ROWS][LINE_WIDTH], const line_tap *t, int64_t shift, int64_t run, int64_t row, const char *next,
                            int64_t next_step, const int R, const int V, const int LO, const int HI)
{
    const int64_t one = row * 4, three = 3 * one, five = 5 * one;
    const char *at[4];
    LINE_UNROLL for (int k = 0; k < 4; k++) at[k] = (const char *)(t->from + shift) + (7 * k < R ? 7 * k * one : 0);
    const float *b = t->b;
    if (V == 1) {
        for (int64_t p = 0; p < run; p++, b += VL) line_step(acc, at, one, three, five, b, R, V, LO, HI);
        return;
    }
#pragma GCC unroll 2
    for (int64_t p = 0; p < run; p++, b += V * VL, next += next_step) {
        line_step(acc, at, one, three, five, b, R, V, LO, HI);
        __builtin_prefetch(next, 0, 2);
    }
}

GEMM_INLINE void line_run(const line_tile *t, const int R, const int V)
{
    vf acc[LINE_ROWS][LINE_WIDTH];
    LINE_UNROLL for (int v = 0; v < V; v++)
    {
        const vf first = t->bias ? vload(t->bias + v * VL) : vzero();
        LINE_UNROLL for (int i = 0; i < R; i++) acc[i][v] = first;
    }
    const int64_t shift = t->shift, run = t->run, row = t->row, steps = t->taps * run;
    /* A wide tile has room for a line with every step; a narrow one, which loads once for every multiply-add, fetches some with every tap. */
    const int64_t each = V > 1 ? (steps ? (t->next_bytes + steps - 1) / steps : 0) : 64;
    const char *next = t->next, *const end = t->next + t->next_bytes;
    int64_t written = 0;
    for (int64_t j = 0; j < t->taps; j++) {
        const line_tap *tap = t->tap + j;
        for (; written * t->taps < R * (j + 1); written++) /* where the tile will write */
            LINE_UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(t->c + written * t->c_row + v * VL, 1, 3);
        if (V == 1)
            for (; next < t->next + t->next_bytes * (j + 1) / t->taps && next < end; next += 64) __builtin_prefetch(next, 0, 2);
        switch (tap->edge) {
        case 0: line_steps(acc, tap, shift, run, row, next, each, R, V, 0, 0); break;
        case 1: line_steps(acc, tap, shift, run, row, next, each, R, V, 1, 0); break;
        case 2: line_steps(acc, tap, shift, run, row, next, each, R, V, 2, 0); break;
        case LINE_EDGE + 1: line_steps(acc, tap, shift, run, row, next, each, R, V, 0, 1); break;
        default: line_steps(acc, tap, shift, run, row, next, each, R, V, 0, 2); break;
        }
        if (V > 1) next += run * each;
    }
    float *c = t->c;
    LINE_UNROLL for (int i = 0; i < R; i++, c += t->c_row) LINE_UNROLL for (int v = 0; v < V; v++)
        vput(c + v * VL, acc[i][v], t->add, v == V - 1 ? t->last : VL);
}

#define LINE_TILE(R, V)                                                                                                                    \
    static void line_##R##x##V(const line_tile *t) { line_run(t, R, V); }
#define LINE_ENTRY(R, V) [R] = line_##R##x##V,
/* clang-format off */
#define LINE_TILES_1(X) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1) X(15, 1) X(16, 1) X(17, 1) X(18, 1) X(19, 1) X(20, 1) X(21, 1) X(22, 1) X(23, 1) X(24, 1) X(25, 1) X(26, 1) X(27, 1) X(28, 1)
#define LINE_TILES_2(X) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
LINE_TILES_1(LINE_TILE) LINE_TILES_2(LINE_TILE)
static line_tile_fn *const line_tiles[LINE_WIDTH][LINE_ROWS + 1] = { { LINE_TILES_1(LINE_ENTRY) }, { LINE_TILES_2(LINE_ENTRY) } };
/* clang-format on */

#endif

#endif
