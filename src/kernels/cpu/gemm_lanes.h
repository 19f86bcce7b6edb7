/* Products of 14 to 16 or 58 to 64 rows with a transposed matrix (a layer's weight as it lies), where vectors have 16 lanes: the rows are the lanes.
 *
 *     Cᵀ[j, 0..m) = sum_p B[p,j] * A[0..m, p]
 *
 * A is turned once, into rows of one vector or of four; the matrix is read in place, broadcast to the lanes, instead of being packed for a few tiles only.
 * With one vector (decoding), a load would bring one element for one multiply-add, and loads are what there are too few of: two steps of k stand side by side in
 * the lanes, eight rows of A in one vector and eight in another, and a load brings two elements for two multiply-adds each.  The even and the odd steps of a
 * run of k are summed apart.  Eight rows of the matrix are taken at a time while the eight after them are fetched; dot products (gemm_thin.h) read four and then
 * wait for the next ones, which come from beyond the second-level cache.  With four vectors (batches), the register tile sums runs of k, in which A stays near;
 * C is turned back at the end.
 */
#ifndef CJ_KERNELS_CPU_GEMM_LANES_H
#define CJ_KERNELS_CPU_GEMM_LANES_H

#include "cajal/limits.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_tile.h"

#if VL == 16

enum {
    LANES_LEAST = 14,   /* rows; below them dot products waste fewer lanes */
    LANES_FULL = 128,   /* columns from which on dot products are slower than 16 rows, ... */
    LANES_SOME = 256,   /* ... and than fewer, which leave lanes empty */
    LANES_K = 64,       /* a shorter k does not pay for turning A and C */
    LANES_STREAMS = 8,  /* rows of the matrix at a time */
    LANES_LINE = 16,    /* floats of a cache line */
    LANES_RUN = 512,    /* steps of k in a run: 32 KiB of A, which stay in L1 */
    LANES_COLUMNS = 64, /* of C whose sums wait for the next run */
    WIDE_LANES = 64,    /* four vectors */
    WIDE_LEAST = 58,    /* rows; below them too many lanes are empty */
    WIDE_RUN = 1024,    /* steps of k in a run: 256 KiB of A, which stay in L2; longer runs of the matrix are fetched better */
    WIDE_COLUMNS = 128, /* of C in a task */
};
static const double LANES_PARALLEL = 2.5e5; /* m*n*k below which a second thread costs more than it brings */

GEMM_INLINE int is_wide(const cj_gemm *g) { return g->m > VL; }
GEMM_INLINE int is_lanes(const cj_gemm *g)
{
    if (g->b_row != 1 || g->b_col == 1 || g->a_col != 1 || g->batch != 1 || g->k < LANES_K) return 0;
    if (is_wide(g)) return g->m >= WIDE_LEAST && g->m <= WIDE_LANES && g->n >= WIDE_COLUMNS;
    return g->m >= LANES_LEAST && g->n >= (g->m == VL ? LANES_FULL : LANES_SOME);
}
GEMM_INLINE int64_t lanes_turned(const cj_gemm *g) { return g->k * (is_wide(g) ? WIDE_LANES : VL); } /* floats of A, turned */
static size_t lanes_bytes(const cj_gemm *g, int threads)
{
    const int64_t sums = is_wide(g) ? WIDE_COLUMNS * WIDE_LANES : 0;
    return (size_t)((threads > 1 ? threads : 1) * (lanes_turned(g) + sums)) * sizeof(float);
}

/* Two steps of k, which are neighbours in a row of the matrix and in the lanes of x: eight rows, of which w0 and w4 are the first and the fifth. */
GEMM_INLINE void lanes_pair(vf acc[2 * LANES_STREAMS], const float *x, const float *w0, const float *w4, int64_t row1, int64_t row2,
                            int64_t row3)
{
    const vf low = vload(x), high = vload(x + VL);
#define LANES_ROW(i, at)                                                                                                                   \
    do {                                                                                                                                   \
        vf w = vset2(at);                                                                                                                  \
        VKEEP(w);                                                                                                                          \
        acc[2 * (i)] = vfma(w, low, acc[2 * (i)]);                                                                                         \
        acc[2 * (i) + 1] = vfma(w, high, acc[2 * (i) + 1]);                                                                                \
    } while (0)
    LANES_ROW(0, w0);
    LANES_ROW(1, w0 + row1);
    LANES_ROW(2, w0 + row2);
    LANES_ROW(3, w0 + row3);
    LANES_ROW(4, w4);
    LANES_ROW(5, w4 + row1);
    LANES_ROW(6, w4 + row2);
    LANES_ROW(7, w4 + row3);
#undef LANES_ROW
}

/* y[i] = (or, with add, +=) the products of row i of w, `row` apart, with all rows of A.  next: what is read after these eight rows. */
static __attribute__((noinline)) void lanes_eight(const float *x, const float *w, int64_t row, int64_t k, const float *next, vf *y, int add)
{
    const float *w0 = w, *w4 = w + 4 * row;
    int64_t row1 = row, row2 = 2 * row, row3 = 3 * row, p = 0;
    vf acc[2 * LANES_STREAMS];
#pragma GCC unroll 16
    for (int i = 0; i < 2 * LANES_STREAMS; i++) acc[i] = vzero();
    __asm__("" : "+r"(row1), "+r"(row2), "+r"(row3)); /* no pointer per row */
    for (; p + LANES_LINE <= k; p += LANES_LINE) {
        const float *soon = next + p;
        for (int q = 0; q < LANES_STREAMS; q++, x += 2 * VL, soon += row, w0 += 2, w4 += 2) {
            __builtin_prefetch(soon, 0, 2); /* 16 rows a power of two apart have no room side by side in L1 */
            lanes_pair(acc, x, w0, w4, row1, row2, row3);
        }
    }
    for (; p + 1 < k; p += 2, x += 2 * VL, w0 += 2, w4 += 2) lanes_pair(acc, x, w0, w4, row1, row2, row3);
#pragma GCC unroll 8
    for (int i = 0; i < LANES_STREAMS; i++) {
        vf sum = vpairs_sum(acc[2 * i], acc[2 * i + 1]);
        if (p < k) sum = vfma(vset1(w[i * row + p]), vload(x), sum);
        y[i] = add ? vadd(y[i], sum) : sum;
    }
}

/* Columns j0 + first .. j0 + VL of C from the sums of all of them, y[i - i0] of row i. */
static void lanes_finish(const cj_gemm *g, const vf *y, int64_t i0, int64_t j0, int64_t first)
{
    const float *bias = g->bias ? (const float *)g->bias + j0 : NULL;
    const int relu = g->act == CJ_GEMM_RELU;
    for (int64_t i = i0; i < g->m && i < i0 + VL; i++) {
        const vf row = y[i - i0];
        float *c = (float *)g->c + i * g->c_row + j0, sums[VL];
        if (first == 0) {
            const vf s = g->accumulate ? vadd(vload(c), row) : row, t = bias ? vadd(s, vload(bias)) : s;
            vstore(c, relu ? vrelu(t) : t);
            continue;
        }
        vstore(sums, row);
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
    float *scratch;             /* of thread 0: A, turned, then the sums; those of the others follow */
    char ready[CJ_MAX_THREADS]; /* which have turned A */
} lanes_run;

/* Four steps of k of 16 rows: two steps side by side, rows 4q and 4q + 1 in one vector, 4q + 2 and 4q + 3 in another, as vpairs_low and vpairs_high put them. */
GEMM_INLINE void lanes_turn(float *x, const float *a, int64_t row)
{
    vf r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) r[i] = vload_fours(a + i * row, 4 * row);
    vstore(x, vzip_pairs_low(r[0], r[1]));
    vstore(x + VL, vzip_pairs_low(r[2], r[3]));
    vstore(x + 2 * VL, vzip_pairs_high(r[0], r[1]));
    vstore(x + 3 * VL, vzip_pairs_high(r[2], r[3]));
}

/* A, turned, by every thread for itself: to wait for the others and to fetch their part takes longer. */
static float *lanes_scratch(lanes_run *r, int worker)
{
    const cj_gemm *g = r->g;
    const int64_t width = is_wide(g) ? WIDE_LANES : VL, sums = is_wide(g) ? WIDE_COLUMNS * WIDE_LANES : 0;
    float *x = r->scratch + worker * (lanes_turned(g) + sums);
    if (r->ready[worker]) return x;
    r->ready[worker] = 1;
    const float *a = g->a;
    int64_t p = 0;
    for (; p + 4 <= g->k && g->m == VL; p += 4) lanes_turn(x + p * VL, a + p, g->a_row);
    pack_panel(x + p * width, width, a + p, 1, g->a_row, g->k - p, g->m, GEMM_F32);
    for (; p + 1 < g->k && width == VL; p += 2) {
        const vf even = vload(x + p * VL), odd = vload(x + (p + 1) * VL);
        vstore(x + p * VL, vpairs_low(even, odd));
        vstore(x + (p + 1) * VL, vpairs_high(even, odd));
    }
    return x;
}

/* Columns [begin, end) of C, at most LANES_COLUMNS.  The last vector of them begins earlier where less than one is left. */
static void lanes_piece(const cj_gemm *g, const float *x, int64_t begin, int64_t end)
{
    const int64_t row = g->b_col, half = LANES_STREAMS * row;
    const float *b = g->b;
    vf sums[LANES_COLUMNS];
    for (int64_t p = 0, k; p < g->k; p += k) {
        k = g->k - p < LANES_RUN ? g->k - p : LANES_RUN;
        /* what comes after the last columns: the next run, or the columns of the next piece */
        const float *after = p + k < g->k ? b + begin * row + p + k : end + VL <= g->n ? b + end * row : NULL;
        for (int64_t j = begin; j < end; j += VL) {
            const float *w = b + (j + VL <= g->n ? j : g->n - VL) * row + p;
            const float *next = j + 2 * VL <= end ? w + 2 * half : after ? after : w;
            lanes_eight(x + p * VL, w, row, k, w + half, sums + (j - begin), p > 0);
            lanes_eight(x + p * VL, w + half, row, k, next, sums + (j - begin) + LANES_STREAMS, p > 0);
        }
    }
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t j0 = j + VL <= g->n ? j : g->n - VL;
        transpose_block(sums + (j - begin));
        lanes_finish(g, sums + (j - begin), 0, j0, j - j0);
    }
}

static void lanes_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    lanes_run *r = arg;
    const cj_gemm *g = r->g;
    const float *x = lanes_scratch(r, worker);
    for (int64_t j = begin; j < end; j += LANES_COLUMNS) lanes_piece(g, x, j, j + LANES_COLUMNS < end ? j + LANES_COLUMNS : end);
    if (g->tail) g->tail(g->tail_arg, 0, 0, g->m, begin, end);
}

/* The same with four vectors of lanes. */
static void wide_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    lanes_run *r = arg;
    const cj_gemm *g = r->g;
    float *x = lanes_scratch(r, worker), *sums = x + lanes_turned(g);
    const int64_t from = end - begin < VL ? end - VL : begin, rows = end - from, count = (rows + TILE_ROWS_4 - 1) / TILE_ROWS_4;
    for (int64_t p = 0; p < g->k; p += WIDE_RUN)
        for (int64_t i = 0, done = 0; i < count; i++) {
            const int64_t height = (rows - done) / (count - i);
            const tile t = { .k = g->k - p < WIDE_RUN ? g->k - p : WIDE_RUN,
                             .a = (const float *)g->b + (from + done) * g->b_col + p,
                             .a_row = g->b_col,
                             .a_col = 1,
                             .b = x + p * WIDE_LANES,
                             .b_row = WIDE_LANES,
                             .c = sums + done * WIDE_LANES,
                             .c_row = WIDE_LANES,
                             .last = VL,
                             .add = p > 0 };
            tiles[3][height - 1][B_PLAIN](&t);
            done += height;
        }
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t j0 = j + VL <= end ? j : end - VL;
        for (int64_t i = 0; i < g->m; i += VL) {
            vf y[VL];
            for (int q = 0; q < VL; q++) y[q] = vload(sums + (j0 - from + q) * WIDE_LANES + i);
            transpose_block(y);
            lanes_finish(g, y, i, j0, j - j0);
        }
    }
    if (g->tail) g->tail(g->tail_arg, 0, 0, g->m, begin, end);
}

static void gemm_lanes(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    lanes_run r = { .g = g, .scratch = workspace };
    const int64_t share = (g->n + 3) / 4, grain = (share + 4 * VL - 1) / (4 * VL) * (4 * VL); /* at least four chunks, in whole lines */
    if ((double)g->m * (double)g->n * (double)g->k < LANES_PARALLEL) pool = NULL;
    if (is_wide(g)) cj__parallel_for(pool, g->n, WIDE_COLUMNS, wide_columns, &r);
    else cj__parallel_for(pool, g->n, pool ? grain : g->n, lanes_columns, &r);
}

#else

GEMM_INLINE int is_lanes(const cj_gemm *g) { return (void)g, 0; }
static size_t lanes_bytes(const cj_gemm *g, int threads) { return (void)g, (void)threads, 0; }
static void gemm_lanes(cj_pool *pool, const cj_gemm *g, void *workspace) { (void)pool, (void)g, (void)workspace; }

#endif

#endif
