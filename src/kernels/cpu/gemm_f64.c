/* The matrix product for f64: for checks (DESIGN 5.9), so plain C with rows in parallel and no packing.
 *
 * Each row of C is built in pieces of COLUMNS sums that stay in L1; every element is summed in order of p.
 */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"

enum { COLUMNS = 256, ROWS = 4 };

typedef struct rows_of {
    const cj_gemm *g;
} rows_of;

static void finish_piece(const cj_gemm *g, const double *sum, int64_t item, int64_t i, int64_t j0, int64_t j1)
{
    double *c = (double *)g->c + item * g->c_batch + i * g->c_row;
    const double *bias = g->bias;
    for (int64_t j = j0; j < j1; j++) {
        double y = sum[j - j0];
        if (g->accumulate) y = c[j] + y;
        if (bias) y += bias[j];
        c[j] = g->act == CJ_GEMM_RELU && y < 0 ? 0 : y;
    }
    if (g->tail) g->tail(g->tail_arg, item, i, i + 1, j0, j1);
}

static void f64_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_gemm *g = ((const rows_of *)arg)->g;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const int64_t item = row / g->m, i = row % g->m;
        const double *a = (const double *)g->a + item * g->a_batch + i * g->a_row;
        const double *b0 = (const double *)g->b + item * g->b_batch;
        for (int64_t j0 = 0; j0 < g->n; j0 += COLUMNS) {
            const int64_t columns = g->n - j0 < COLUMNS ? g->n - j0 : COLUMNS;
            double sum[COLUMNS] = { 0 };
            for (int64_t p = 0; p < g->k; p++) {
                const double x = a[p * g->a_col];
                const double *b = b0 + p * g->b_row + j0 * g->b_col;
                if (g->b_col == 1) {
                    for (int64_t j = 0; j < columns; j++) sum[j] += x * b[j];
                } else {
                    for (int64_t j = 0; j < columns; j++) sum[j] += x * b[j * g->b_col];
                }
            }
            finish_piece(g, sum, item, i, j0, j0 + columns);
        }
    }
}

void CJ_K(cj__gemm_f64)(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    (void)workspace;
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    rows_of r = { g };
    const int64_t per_row = g->n * (g->k + 1);
    const int64_t grain = per_row >= 100000 ? 1 : 100000 / per_row + 1;
    cj__parallel_for(pool, g->batch * g->m, grain, f64_rows, &r);
}

size_t CJ_K(cj__gemm_workspace_f64)(const cj_gemm *g, int threads)
{
    (void)g;
    (void)threads;
    return 0;
}
