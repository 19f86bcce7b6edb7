/* Products with a k of a few steps, where vectors have 16 lanes: C is written along its rows, some rows at a time.
 *
 *     C[i, j .. j+VL) = sum_p A[i,p] B[p, j .. j+VL)        for p = 0 .. k-1, in this order
 *
 * The rows' elements of A stay in registers, the few rows of B in the L1 cache, and every element of C is summed and written at once: with so little to compute, writing C is the
 * work, and long rows are written faster than tiles.  A B whose rows do not begin on cache lines is copied first, a transposed one turned.
 */
#ifndef CJ_KERNELS_CPU_GEMM_SHORT_H
#define CJ_KERNELS_CPU_GEMM_SHORT_H

#include "cajal/limits.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_tile.h"

#if VL == 16

enum {
    SHORT_MOST = 7,            /* k; and beyond ... */
    SHORT_ALWAYS = 6,          /* ... this only with ... */
    SHORT_LONG = 400,          /* ... rows of so many columns */
    SHORT_ROWS = 8,            /* no fewer rows: B would not be turned, or its rows fetched, for so few */
    SHORT_PACKED_ROWS = 32,    /* from so many on a copy of B pays */
    SHORT_COLUMNS = 2 * VL,    /* no fewer columns */
    SHORT_B_FLOATS = 6144,     /* of B at a time: half of an L1 cache */
    SHORT_TASK_SUMS = 1 << 14, /* elements of C at least of a task */
};

GEMM_INLINE int is_short(const cj_gemm *g)
{
    return g->k >= 1 && g->k <= SHORT_MOST && g->m >= SHORT_ROWS && g->n >= (g->k <= SHORT_ALWAYS ? SHORT_COLUMNS : SHORT_LONG) &&
           g->batch == 1 && (g->b_col == 1 || g->b_row == 1);
}

/* Is B copied?  Rows that begin inside cache lines take two of them for a vector. */
static int short_packs(const cj_gemm *g) { return g->b_col != 1 || (g->b_row % TILE_LINE != 0 && g->m >= SHORT_PACKED_ROWS); }
static int64_t short_ld(const cj_gemm *g) { return ceil_div(g->n, VL) * VL; }
/* For each thread: to fetch a copy out of another one's cache takes as long as the product. */
static size_t short_bytes(const cj_gemm *g, int threads)
{
    return short_packs(g) ? round64((size_t)(g->k * short_ld(g)) * sizeof(float)) * (size_t)threads : 0;
}

typedef struct short_run {
    const cj_gemm *g;
    const float *b;
    int64_t b_row, columns; /* of C at a time */
} short_run;

/* R rows from i on, columns [j0, j1).  The last vector is moved back to end with the columns; what it has in common with the one before it is the same, or is not stored. */
GEMM_INLINE void short_block(const short_run *s, int64_t i, int64_t j0, int64_t j1, const int K, const int R, const int plain)
{
    const cj_gemm *g = s->g;
    const float *const a = (const float *)g->a + i * g->a_row, *const b = s->b;
    float *const c = (float *)g->c + i * g->c_row;
    const int64_t a_row = g->a_row, a_col = g->a_col, b_row = s->b_row, c_row = g->c_row;
    vf x[8 * SHORT_MOST];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 7
        for (int p = 0; p < K; p++) x[r * K + p] = vset1(a[r * a_row + p * a_col]);
    for (int64_t j = j0, next; j < j1; j = next) {
        vmask written = vfirst(VL);
        next = j + VL;
        if (next > j1) written = vlast((int)(j1 - j)), j = j1 - VL;
        vf y[8];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) y[r] = vzero();
#pragma GCC unroll 7
        for (int p = 0; p < K; p++) {
            const vf q = vload(b + p * b_row + j);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) y[r] = vfma(x[r * K + p], q, y[r]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            if (plain) {
                vstore(c + r * c_row + j, y[r]);
                continue;
            }
            if (g->accumulate) y[r] = vfma(vset1(g->accumulate == CJ_GEMM_ADD_SCALED ? g->alpha : 1), y[r], vload(c + r * c_row + j));
            if (g->bias) y[r] = vadd(y[r], vload((const float *)g->bias + j));
            if (g->act == CJ_GEMM_RELU) y[r] = vrelu(y[r]);
            vstore_first(c + r * c_row + j, y[r], written);
        }
    }
}

typedef void short_fn(const short_run *s, int64_t i0, int64_t i1, int64_t j0, int64_t j1);

#define SHORT(K, R)                                                                                                                        \
    static void short_##K(const short_run *s, int64_t i0, int64_t i1, int64_t j0, int64_t j1)                                              \
    {                                                                                                                                      \
        const int plain = !s->g->accumulate && !s->g->bias && s->g->act == CJ_GEMM_LINEAR && !s->g->tail;                                  \
        int64_t i = i0;                                                                                                                    \
        for (; plain && i + R <= i1; i += R) short_block(s, i, j0, j1, K, R, 1);                                                           \
        for (; plain && i < i1; i++) short_block(s, i, j0, j1, K, 1, 1);                                                                   \
        for (; i + R <= i1; i += R) short_block(s, i, j0, j1, K, R, 0);                                                                    \
        for (; i < i1; i++) short_block(s, i, j0, j1, K, 1, 0);                                                                            \
    }
/* As many rows as there are registers for: R K elements of A, R sums, a vector of B. */
SHORT(1, 8)
SHORT(2, 8)
SHORT(3, 6)
SHORT(4, 5)
SHORT(5, 4)
SHORT(6, 4)
SHORT(7, 3)
static short_fn *const short_of[SHORT_MOST] = { short_1, short_2, short_3, short_4, short_5, short_6, short_7 };

typedef struct short_work {
    short_run run;
    float *copies;              /* of B, or NULL; of worker 0, those of the others follow */
    char ready[CJ_MAX_THREADS]; /* whose are */
} short_work;

static void short_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    short_work *w = arg;
    short_run s = w->run;
    const cj_gemm *g = s.g;
    if (w->copies) {
        float *copy = w->copies + worker * g->k * s.b_row;
        if (!w->ready[worker]) pack(copy, s.b_row, g->b, g->b_row, g->b_col, g->k, g->n, GEMM_F32);
        w->ready[worker] = 1;
        s.b = copy;
    }
    for (int64_t j = 0; j < g->n; j += s.columns) {
        const int64_t j1 = min64(g->n, j + s.columns);
        short_of[g->k - 1](&s, begin, end, j, j1);
        if (g->tail) call_tail(g, 0, begin, end - begin, j, j1);
    }
}

static void gemm_short(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    const int64_t parts = ceil_div(g->k * g->n, SHORT_B_FLOATS);
    short_work w = { .run = { .g = g, .b = g->b, .b_row = g->b_row, .columns = ceil_div(ceil_div(g->n, parts), VL) * VL } };
    if (short_packs(g)) w.copies = workspace, w.run.b_row = short_ld(g);
    if (g->m * g->n < SHARED_SUMS) pool = NULL;
    cj__parallel_for(pool, g->m, ceil_div(g->m, min64(4, ceil_div(g->m * g->n, SHORT_TASK_SUMS))), short_rows, &w);
}

#else

GEMM_INLINE int is_short(const cj_gemm *g) { return (void)g, 0; }
static size_t short_bytes(const cj_gemm *g, int threads) { return (void)g, (void)threads, 0; }
static void gemm_short(cj_pool *pool, const cj_gemm *g, void *workspace) { (void)pool, (void)g, (void)workspace; }

#endif

#endif
