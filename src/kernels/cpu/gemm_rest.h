/* Products whose columns are some whole vectors and a few more, where vectors have 16 lanes: the few are a product of their own.
 *
 * As a vector of their own they would cost as much as 16 columns.  Along the rows of A as it lies, they are dot products; a transposed A is swept (gemm_thin.h), its rows being the lanes.
 */
#ifndef CJ_KERNELS_CPU_GEMM_REST_H
#define CJ_KERNELS_CPU_GEMM_REST_H

#include "kernels/cpu/gemm_few.h"

#if VL == 16

enum {
    REST_COLUMNS = 6,      /* no more than these; of a transposed A no more than SWEEP_ROWS */
    REST_ROWS = 20,        /* no fewer rows: they would not pay for turning the columns of B */
    REST_K = 8,            /* nor would a shorter k */
    REST_FLOATS = 1 << 20, /* a larger A comes from too far to be read twice */
    REST_GAIN = 16,        /* a share of the work below 1/16 is not worth it */
    REST_TASK = 64,        /* rows at least of a task, in whole cache lines of a column */
};

/* Columns of the rest, or 0.  A vector of columns costs m k steps; reading A once more an eighth of that, and each column a twentieth with its folding. */
static int64_t rest_columns(const cj_gemm *g)
{
    const int64_t rest = g->n % VL;
    if (g->n < VL || rest == 0 || g->batch != 1 || g->m < REST_ROWS || g->k < REST_K || g->m * g->k > REST_FLOATS) return 0;
    if (g->a_col == 1 ? rest > REST_COLUMNS : g->a_row != 1 || rest > SWEEP_ROWS) return 0;
    const double column = g->a_col == 1 ? (double)(g->k + DOTS_K) / (20 * (double)g->k) : 1.0 / VL + 2 / (double)g->k;
    const double saved = 1 - 0.125 - (double)rest * column;
    return saved * REST_GAIN >= (double)ceil_div(g->n, VL) ? rest : 0;
}

typedef struct rest_run {
    thin t;
    const cj_gemm *g;
    int64_t rest;
} rest_run;

/* Column j of C from its sums. */
static void rest_column(const cj_gemm *g, const float *sums, int64_t j, int64_t begin, int64_t end)
{
    float *c = (float *)g->c + j;
    const float bias = g->bias ? ((const float *)g->bias)[j] : 0;
    const int plain = !g->accumulate && !g->bias && g->act != CJ_GEMM_RELU;
    for (int64_t i = begin; plain && i < end; i++) c[i * g->c_row] = sums[i];
    for (int64_t i = begin; !plain && i < end; i++) {
        float sum = g->accumulate ? c[i * g->c_row] + sums[i] : sums[i];
        if (g->bias) sum += bias;
        c[i * g->c_row] = g->act == CJ_GEMM_RELU && sum < 0 ? 0 : sum;
    }
}

/* Rows [begin, end) of the last columns of C. */
static void rest_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rest_run *r = arg;
    const cj_gemm *g = r->g;
    const int64_t j0 = g->n - r->rest;
    (void)worker;
    if (g->a_col == 1) {
        dots(&r->t, begin, end);
    } else {
        sweep(&r->t, begin, end);
        for (int64_t j = 0; j < r->rest; j++) rest_column(g, r->t.y + j * r->t.y_row, j0 + j, begin, end);
    }
    if (g->tail) call_tail(g, 0, begin, end - begin, j0, g->n);
}

/* The columns of B as rows, or those of C. */
static int64_t rest_ld(const cj_gemm *g) { return ceil_div(g->a_col == 1 ? g->k : g->m, TILE_LINE) * TILE_LINE + TILE_LINE; }
static size_t rest_bytes(const cj_gemm *g, int64_t rest) { return round64((size_t)(rest * rest_ld(g)) * sizeof(float)); }

static void gemm_rest(cj_pool *pool, const cj_gemm *g, int64_t rest, float *workspace)
{
    const int64_t j0 = g->n - rest, ld = rest_ld(g);
    const float *b = (const float *)g->b + j0 * g->b_col;
    rest_run r = { .g = g, .rest = rest, .t = { .rows = rest, .columns = g->m, .k = g->k, .w = g->a } };
    if (g->a_col == 1) {
        pack_elements(workspace, ld, b, g->b_col, g->b_row, 0, rest, 0, g->k, GEMM_F32);
        r.t.x = workspace, r.t.x_row = ld, r.t.x_col = 1, r.t.w_row = g->a_row;
        r.t.y = (float *)g->c + j0, r.t.y_row = 1, r.t.y_col = g->c_row;
        r.t.bias = g->bias ? (const float *)g->bias + j0 : NULL, r.t.bias_row = 1;
        r.t.add = g->accumulate, r.t.relu = g->act == CJ_GEMM_RELU;
    } else {
        r.t.x = b, r.t.x_row = g->b_col, r.t.x_col = g->b_row, r.t.w_row = g->a_col;
        r.t.y = workspace, r.t.y_row = ld, r.t.y_col = 1;
    }
    const int64_t grain = ceil_div(ceil_div(g->m, 4), REST_TASK) * REST_TASK;
    if ((double)g->m * (double)rest * (double)g->k < PARALLEL_THIN) pool = NULL;
    cj__parallel_for(pool, g->m, pool ? grain : g->m, rest_rows, &r);
}

#else

static int64_t rest_columns(const cj_gemm *g) { return (void)g, 0; }
static size_t rest_bytes(const cj_gemm *g, int64_t rest) { return (void)g, (void)rest, 0; }
static void gemm_rest(cj_pool *pool, const cj_gemm *g, int64_t rest, float *workspace) { (void)pool, (void)g, (void)rest, (void)workspace; }

#endif

#endif
