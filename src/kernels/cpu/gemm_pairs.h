/* Products of a transposed A that is near with two to four columns, where vectors have 16 lanes: 16 rows of C are a vector.
 *
 *     C[i .. i+VL, j] = sum_p A[i .. i+VL, p] * B[p,j]        for p = 0 .. k-1, in this order
 *
 * A is read along its memory, as many rows of C at a time as registers hold; the columns of sums are turned into rows of C on their way out.
 */
#ifndef CJ_KERNELS_CPU_GEMM_PAIRS_H
#define CJ_KERNELS_CPU_GEMM_PAIRS_H

#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_tile.h"

#if VL == 16

enum {
    PAIRS_COLUMNS = 4,
    PAIRS_LEAST = 32,   /* rows */
    PAIRS_VECTORS = 12, /* of rows by two columns; eight by three and six by four: 24 sums */
};

static int is_pairs(const cj_gemm *g)
{
    return g->a_row == 1 && g->a_col != 1 && g->n >= 2 && g->n <= PAIRS_COLUMNS && g->m >= PAIRS_LEAST && g->k > 0 && g->batch == 1 &&
           g->m * g->k <= L2_FLOATS;
}

/* y with what else goes into C, `floats` (up to 16) of which lie at c. */
GEMM_INLINE void pairs_finish(const cj_gemm *g, float *c, vf y, vf bias, vmask floats)
{
    if (g->accumulate) y = vadd(vload_first(c, floats), y);
    if (g->bias) y = vadd(y, bias);
    if (g->act == CJ_GEMM_RELU) y = vrelu(y);
    vstore_first(c, y, floats);
}

/* 16 rows (or fewer) of two columns without a gap, from the columns. */
GEMM_INLINE void pairs_dense(const cj_gemm *g, float *c, vf x0, vf x1, vf bias, int64_t rows)
{
    pairs_finish(g, c, vzip_low(x0, x1), bias, vfirst((int)min64(2 * rows, VL)));
    if (rows > VL / 2) pairs_finish(g, c + VL, vzip_high(x0, x1), bias, vfirst((int)(2 * rows - VL)));
}

/* Rows of C from i on from their columns of sums, ld apart: 16 rows at a time, each of them a quarter of a vector. */
static __attribute__((noinline)) void pairs_turn(const cj_gemm *g, const float *sums, int64_t ld, int64_t i, int64_t end)
{
    const vmask columns = vfirst((int)g->n);
    const int dense = g->n == 2 && g->c_row == 2;
    const vf bias = !g->bias ? vzero() : dense ? vset2(g->bias) : vload_first(g->bias, columns);
    float *c = (float *)g->c + i * g->c_row;
    for (; i < end; i += VL, sums += VL, c += VL * g->c_row) {
        const int64_t rows = min64(VL, end - i);
        vf x[PAIRS_COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS_COLUMNS; j++) x[j] = j < g->n ? vload(sums + j * ld) : vzero();
        if (dense) {
            pairs_dense(g, c, x[0], x[1], bias, rows);
            continue;
        }
        transpose_fours(x);
#pragma GCC unroll 16
        for (int row = 0; row < VL; row++) {
            if (row >= rows) break;
            pairs_finish(g, c + row * g->c_row, x[row % 4], bias, columns);
            x[row % 4] = vnext_quarter(x[row % 4]);
        }
    }
}

/* V vectors of rows from i on, the last one of `last` rows, by N columns.  V, N and ragged (whether last is less than VL) are constants at every call. */
GEMM_INLINE void pairs_run(const cj_gemm *g, const int V, const int N, const int ragged, int64_t i, int last)
{
    const float *a = (const float *)g->a + i, *b = g->b;
    const int64_t a_col = g->a_col, b_row = g->b_row, b1 = g->b_col, b2 = 2 * b1, b3 = 3 * b1;
    vf sum[PAIRS_COLUMNS][PAIRS_VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) {
#pragma GCC unroll 12
        for (int v = 0; v < V; v++) sum[j][v] = vzero();
    }
    for (int64_t p = g->k; p > 0; p--, a += a_col, b += b_row) {
        vf x[PAIRS_COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < N; j++) x[j] = vset1(b[j == 0 ? 0 : j == 1 ? b1 : j == 2 ? b2 : b3]);
#pragma GCC unroll 12
        for (int v = 0; v < V; v++) {
            vf w = ragged && v == V - 1 ? vload_some(a + v * VL, last) : vload(a + v * VL);
            VKEEP(w);
#pragma GCC unroll 4
            for (int j = 0; j < N; j++) sum[j][v] = vfma(x[j], w, sum[j][v]);
        }
    }
    float turned[PAIRS_COLUMNS * PAIRS_VECTORS * VL] __attribute__((aligned(64)));
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) {
#pragma GCC unroll 12
        for (int v = 0; v < V; v++) vstore(turned + (j * V + v) * VL, sum[j][v]);
    }
    pairs_turn(g, turned, V * VL, i, i + (V - 1) * VL + last);
}

#define PAIRS(V, N)                                                                                                                        \
    static __attribute__((noinline)) void pairs_##V##x##N(const cj_gemm *g, int64_t i, int last)                                           \
    {                                                                                                                                      \
        if (last < VL) pairs_run(g, V, N, 1, i, last);                                                                                     \
        else pairs_run(g, V, N, 0, i, last);                                                                                               \
    }
/* clang-format off */
PAIRS(1, 2) PAIRS(2, 2) PAIRS(3, 2) PAIRS(4, 2) PAIRS(5, 2) PAIRS(6, 2) PAIRS(7, 2) PAIRS(8, 2) PAIRS(9, 2) PAIRS(10, 2) PAIRS(11, 2) PAIRS(12, 2)
PAIRS(1, 3) PAIRS(2, 3) PAIRS(3, 3) PAIRS(4, 3) PAIRS(5, 3) PAIRS(6, 3) PAIRS(7, 3) PAIRS(8, 3)
PAIRS(1, 4) PAIRS(2, 4) PAIRS(3, 4) PAIRS(4, 4) PAIRS(5, 4) PAIRS(6, 4)

typedef void pairs_fn(const cj_gemm *g, int64_t i, int last);
static pairs_fn *const pairs_runs[PAIRS_COLUMNS - 1][PAIRS_VECTORS] = {
    {pairs_1x2, pairs_2x2, pairs_3x2, pairs_4x2, pairs_5x2, pairs_6x2, pairs_7x2, pairs_8x2, pairs_9x2, pairs_10x2, pairs_11x2, pairs_12x2},
    {pairs_1x3, pairs_2x3, pairs_3x3, pairs_4x3, pairs_5x3, pairs_6x3, pairs_7x3, pairs_8x3},
    {pairs_1x4, pairs_2x4, pairs_3x4, pairs_4x4, pairs_5x4, pairs_6x4}};
/* clang-format on */

/* Rows [begin, end), in runs of nearly the same length. */
static void pairs_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_gemm *g = arg;
    const int64_t most = 2 * PAIRS_VECTORS / g->n;
    (void)worker;
    for (int64_t i = begin; i < end;) {
        const int64_t left = ceil_div(end - i, VL), V = ceil_div(left, ceil_div(left, most));
        pairs_runs[g->n - 2][V - 1](g, i, (int)min64(VL, end - i - (V - 1) * VL));
        i += V * VL;
    }
    if (g->tail) call_tail(g, 0, begin, end - begin, 0, g->n);
}

/* At least four tasks, so that every row is summed by the same run however many threads there are. */
static void gemm_pairs(cj_pool *pool, const cj_gemm *g)
{
    const int64_t grain = (double)g->m * (double)g->k * (double)g->n < PARALLEL_NEAR ? g->m : ceil_div(ceil_div(g->m, 4), VL) * VL;
    cj__parallel_for(pool, g->m, grain, pairs_rows, (void *)(uintptr_t)g);
}

#else

static int is_pairs(const cj_gemm *g) { return (void)g, 0; }
static void gemm_pairs(cj_pool *pool, const cj_gemm *g) { (void)pool, (void)g; }

#endif

#endif
