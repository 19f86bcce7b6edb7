/* The products of attention_block.h, which includes this file: C[m][n] (+)= A[m][k]·B[k][n], n in whole vectors.  Broadcast numbers of A times vectors of B, with all sums of a tile in
 * registers; what a score becomes it can become there. */
#ifndef CJ_KERNELS_CPU_ATTENTION_TILE_H
#define CJ_KERNELS_CPU_ATTENTION_TILE_H

/* What becomes of the sums before they are stored: they are added to what is there, or stored as they are, as 2^sum, or times what lies in the same place of another matrix.
 * SPREAD and GATHER both add; A has columns that lie closely for SPREAD (a_row is 1), rows for all others (a_col is 1). */
typedef enum ending { SPREAD, GATHER, PLAIN, EXPS, TIMES, ENDINGS } ending;

typedef struct tile {
    const real *a, *b;
    real *c;
    int64_t a_row, a_col, b_row, c_row, k;
    const real *start; /* what every row begins with, where nothing is added */
    const real *other; /* TIMES: rows as those of c */
    real *total;       /* EXPS: to which the rows are added, or NULL */
} tile;

#define UNROLL _Pragma("GCC unroll 16")

/* `count` times R rows by V vectors, with all sums in registers.  Rows of A are addressed as one pointer per four plus 0 … 3 strides: 12 rows need 6 registers.  Rows of C have a pointer
 * that runs; HERE keeps the compiler from making one for every row, all of which would lie on the stack. */
#define HERE(...) __asm__("" : __VA_ARGS__)
CJ_INLINE void tile_run(const tile *t, int64_t count, const int R, const int V, const ending end)
{
    int64_t row1 = end == SPREAD ? 1 : t->a_row, row2 = 2 * row1, row3 = 3 * row1;
    const int64_t a_col = end == SPREAD ? t->a_col : 1, b_row = t->b_row, c_row = t->c_row;
    const real *a = t->a, *other = t->other;
    real *c = t->c;
    if (end != SPREAD) HERE("+r"(row1), "+r"(row2), "+r"(row3));
    for (; count > 0; count--, a += R * row1) {
        vr sum[12][4];
        if (end == SPREAD || end == GATHER) {
            real *to = c;
            UNROLL for (int i = 0; i < R; i++)
            {
                UNROLL for (int v = 0; v < V; v++) sum[i][v] = vr_load(to + v * LANES);
                to += c_row;
                HERE("+r"(to));
            }
        } else {
            UNROLL for (int v = 0; v < V; v++) sum[0][v] = vr_load(t->start + v * LANES);
            UNROLL for (int i = 1; i < R; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] = sum[0][v];
        }
        const real *a0 = a, *a4 = a0 + 4 * row1, *a8 = a0 + 8 * row1, *b = t->b;
#define STEP                                                                                                                               \
    do {                                                                                                                                   \
        vr x[4];                                                                                                                           \
        UNROLL for (int v = 0; v < V; v++) x[v] = vr_load(b + v * LANES);                                                                  \
        UNROLL for (int i = 0; i < R; i++)                                                                                                 \
        {                                                                                                                                  \
            const real *q = i < 4 ? a0 : i < 8 ? a4 : a8;                                                                                  \
            const vr y = vr_set1(q[i % 4 == 0 ? 0 : i % 4 == 1 ? row1 : i % 4 == 2 ? row2 : row3]);                                        \
            UNROLL for (int v = 0; v < V; v++) sum[i][v] = vr_fma(y, x[v], sum[i][v]);                                                     \
        }                                                                                                                                  \
        b += b_row;                                                                                                                        \
        a0 += a_col;                                                                                                                       \
        if (R > 4) a4 += a_col;                                                                                                            \
        if (R > 8) a8 += a_col;                                                                                                            \
    } while (0)
        int64_t p = t->k;
        for (; p > 3; p -= 4) {
            STEP;
            STEP;
            STEP;
            STEP;
        }
        for (; p > 0; p--) STEP;
#undef STEP
        UNROLL for (int i = 0; i < R; i++)
        {
            UNROLL for (int v = 0; v < V; v++)
            {
                if (end == EXPS) sum[i][v] = vr_exp2(sum[i][v]);
                if (end == TIMES) sum[i][v] = sum[i][v] * vr_load(other + v * LANES);
                vr_store(c + v * LANES, sum[i][v]);
            }
            c += c_row;
            HERE("+r"(c));
            if (end == TIMES) {
                other += c_row;
                HERE("+r"(other));
            }
        }
        if (end == EXPS && t->total) {
            UNROLL for (int v = 0; v < V; v++)
            {
                vr all = sum[0][v];
                UNROLL for (int i = 1; i < R; i++) all = all + sum[i][v];
                vr_store(t->total + v * LANES, vr_load(t->total + v * LANES) + all);
            }
        }
    }
}

typedef void tile_fn(const tile *t, int64_t count);
#define TILE(R, V)                                                                                                                         \
    static void spread_##R##x##V(const tile *t, int64_t count) { tile_run(t, count, R, V, SPREAD); }                                       \
    static void gather_##R##x##V(const tile *t, int64_t count) { tile_run(t, count, R, V, GATHER); }                                       \
    static void tile_##R##x##V(const tile *t, int64_t count) { tile_run(t, count, R, V, PLAIN); }                                          \
    static void exps_##R##x##V(const tile *t, int64_t count) { tile_run(t, count, R, V, EXPS); }                                           \
    static void times_##R##x##V(const tile *t, int64_t count) { tile_run(t, count, R, V, TIMES); }
/* clang-format off */
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1) TILE(8, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#if TILE_WIDTH == 4
TILE(7, 2) TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2)
TILE(1, 3) TILE(2, 3) TILE(3, 3) TILE(4, 3) TILE(5, 3) TILE(6, 3) TILE(7, 3) TILE(8, 3)
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4)
#endif
#define TO_6(E, V) E##_1x##V, E##_2x##V, E##_3x##V, E##_4x##V, E##_5x##V, E##_6x##V
#define TO_8(E, V) TO_6(E, V), E##_7x##V, E##_8x##V
#if TILE_WIDTH == 4
#define ALL(E) { { TO_8(E, 1) }, { TO_8(E, 2), E##_9x2, E##_10x2, E##_11x2, E##_12x2 }, { TO_8(E, 3) }, { TO_6(E, 4) } }
#else
#define ALL(E) { { TO_8(E, 1) }, { TO_6(E, 2) } }
#endif
static tile_fn *const tiles[ENDINGS][TILE_WIDTH][12] = { [SPREAD] = ALL(spread), [GATHER] = ALL(gather), [PLAIN] = ALL(tile), [EXPS] = ALL(exps), [TIMES] = ALL(times) };
/* clang-format on */

/* All of C in tiles; `t` says the rest. */
static void product_of(tile t, int64_t m, int64_t n_vectors, ending end)
{
    const tile all = t;
    for (int64_t v = 0, width; v < n_vectors; v += width) {
        const int64_t left = n_vectors - v;
        width = left <= TILE_WIDTH ? left : left == TILE_WIDTH + 1 ? (left + 1) / 2 : TILE_WIDTH;
        const int64_t most = TILE_ROWS(width);
        /* tiles of about the same height: `tall` ones of `rows` rows, the others one less */
        const int64_t count = (m + most - 1) / most, rows = (m + count - 1) / (count ? count : 1), tall = m - (rows - 1) * count;
        t = all;
        t.b += v * LANES, t.c += v * LANES;
        if (t.start) t.start += v * LANES;
        if (t.other) t.other += v * LANES;
        if (t.total) t.total += v * LANES;
        if (tall > 0) tiles[end][width - 1][rows - 1](&t, tall);
        if (tall == count) continue;
        t.a += tall * rows * t.a_row;
        t.c += tall * rows * t.c_row;
        if (t.other) t.other += tall * rows * t.c_row;
        tiles[end][width - 1][rows - 2](&t, count - tall);
    }
}
#endif
