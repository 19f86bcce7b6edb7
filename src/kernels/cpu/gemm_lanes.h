/* Products of a handful of rows with a transposed matrix (a layer's weight as it lies), where VL is 16: the rows are the lanes of a vector.
 *
 *     Cᵀ[j, 0..m) = sum_p B[p,j] * A[0..m, p]        for p = 0 .. k-1, in this order
 *
 * A is turned once, into k vectors; the matrix is read in place, eight of its rows at a time, an element broadcast per multiply-add, while the eight rows after them are
 * fetched.  A matrix that comes from beyond the second-level cache is read at half the rate of the read limit with 16 rows, where dot products (gemm_thin.h), which read four rows of the matrix
 * and then wait for the next, reach a third.  Below LANES_LEAST rows dot products waste fewer lanes. */
#ifndef CJ_KERNELS_CPU_GEMM_LANES_H
#define CJ_KERNELS_CPU_GEMM_LANES_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_pack.h"

enum { LANES_LEAST = 10, LANES_K = 64, LANES_STREAMS = 8, LANES_LINE = 16 };
static const double LANES_PARALLEL = 2.5e5; /* m*n*k below which a second thread costs more than it brings */

GEMM_INLINE int is_lanes(const cj_gemm *g)
{
    return VL == 16 && g->m >= LANES_LEAST && g->m <= VL && g->n >= VL && g->k >= LANES_K && g->b_row == 1 && g->b_col != 1 &&
           g->a_col == 1 && g->batch == 1;
}
static size_t lanes_bytes(const cj_gemm *g) { return (size_t)(g->k * VL) * sizeof(float); }

/* One step of k: eight rows of the matrix, of which w0 and w4 are the first and the fifth. */
GEMM_INLINE void lanes_step(vf acc[LANES_STREAMS], vf x, const float *w0, const float *w4, int64_t row1, int64_t row2, int64_t row3)
{
    VKEEP(x);
    acc[0] = vfma(vset1(w0[0]), x, acc[0]);
    acc[1] = vfma(vset1(w0[row1]), x, acc[1]);
    acc[2] = vfma(vset1(w0[row2]), x, acc[2]);
    acc[3] = vfma(vset1(w0[row3]), x, acc[3]);
    acc[4] = vfma(vset1(w4[0]), x, acc[4]);
    acc[5] = vfma(vset1(w4[row1]), x, acc[5]);
    acc[6] = vfma(vset1(w4[row2]), x, acc[6]);
    acc[7] = vfma(vset1(w4[row3]), x, acc[7]);
}

/* y[i] = the products of row i of w, `row` apart, with all rows of A.  next: the rows after these eight. */
static __attribute__((noinline)) void lanes_eight(const float *x, const float *w, int64_t row, int64_t k, const float *next, vf *y)
{
    const float *w0 = w, *w4 = w + 4 * row;
    int64_t row1 = row, row2 = 2 * row, row3 = 3 * row, p = 0;
    vf acc[LANES_STREAMS];
#pragma GCC unroll 8
    for (int i = 0; i < LANES_STREAMS; i++) acc[i] = vzero();
    __asm__("" : "+r"(row1), "+r"(row2), "+r"(row3)); /* no pointer per row */
    for (; p + LANES_LINE <= k; p += LANES_LINE) {
        const float *soon = next + p;
        for (int q = 0; q < LANES_STREAMS; q++, x += VL, soon += row) {
            __builtin_prefetch(soon);
            lanes_step(acc, vload(x), w0++, w4++, row1, row2, row3);
        }
        for (int q = LANES_STREAMS; q < LANES_LINE; q++, x += VL) lanes_step(acc, vload(x), w0++, w4++, row1, row2, row3);
    }
    for (; p < k; p++, x += VL) lanes_step(acc, vload(x), w0++, w4++, row1, row2, row3);
#pragma GCC unroll 8
    for (int i = 0; i < LANES_STREAMS; i++) y[i] = acc[i];
}

/* Columns j0 + first .. j0 + VL of C from the sums of all of them, y[i] of row i. */
static void lanes_finish(const cj_gemm *g, const vf *y, int64_t j0, int64_t first)
{
    const float *bias = g->bias ? (const float *)g->bias + j0 : NULL;
    const int relu = g->act == CJ_GEMM_RELU;
    for (int64_t i = 0; i < g->m; i++) {
        float *c = (float *)g->c + i * g->c_row + j0, sums[VL];
        if (first == 0) {
            const vf s = g->accumulate ? vadd(vload(c), y[i]) : y[i], t = bias ? vadd(s, vload(bias)) : s;
            vstore(c, relu ? vrelu(t) : t);
            continue;
        }
        vstore(sums, y[i]);
        for (int64_t j = first; j < VL; j++) {
            float s = sums[j];
            if (g->accumulate) s = c[j] + s;
            if (bias) s += bias[j];
            c[j] = relu && s < 0 ? 0 : s;
        }
    }
}

typedef struct lanes_run {
    const cj_gemm *g;
    const float *x; /* A, turned */
} lanes_run;

/* The last vector of columns begins earlier where less than one is left. */
static void lanes_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    const lanes_run *r = arg;
    const cj_gemm *g = r->g;
    const int64_t row = g->b_col;
    (void)worker;
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t j0 = j + VL <= g->n ? j : g->n - VL;
        const float *w = (const float *)g->b + j0 * row, *next = w + (j0 + 2 * VL <= end ? VL : 0) * row;
        vf y[2 * LANES_STREAMS];
        lanes_eight(r->x, w, row, g->k, w + LANES_STREAMS * row, y);
        lanes_eight(r->x, w + LANES_STREAMS * row, row, g->k, next, y + LANES_STREAMS);
#if VL == 16
        transpose_block(y);
#endif
        lanes_finish(g, y, j0, j - j0);
    }
    if (g->tail) g->tail(g->tail_arg, 0, 0, g->m, begin, end);
}

static void gemm_lanes(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    const lanes_run r = { g, workspace };
    const int64_t share = (g->n + 3) / 4,
                  grain = (share + 4 * VL - 1) / (4 * VL) * (4 * VL); /* at least four chunks, in whole cache lines */
    const int parallel = (double)g->m * (double)g->n * (double)g->k >= LANES_PARALLEL;
    pack_panel(workspace, VL, g->a, 1, g->a_row, g->k, g->m, GEMM_F32);
    cj__parallel_for(parallel ? pool : NULL, g->n, parallel ? grain : g->n, lanes_columns, (void *)(uintptr_t)&r);
}

#endif
