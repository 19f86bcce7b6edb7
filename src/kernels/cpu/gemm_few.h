/* Products with few rows or few columns on all threads: which of the ways of gemm_thin.h a product takes, and how it is shared out.
 *
 * Each thread takes columns.  But a matrix with short rows is read in slices of whole rows, whose sums are added at the end in the order of the slices:
 * a thread that took some columns of it would jump from one short run to the next, and no prefetcher would follow.  The slices depend on the shape alone.
 */
#ifndef CJ_KERNELS_CPU_GEMM_FEW_H
#define CJ_KERNELS_CPU_GEMM_FEW_H

#include "cajal/limits.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_thin.h"
#include "kernels/cpu/gemm_tile.h"

/* ---- few rows ---- */

/* FEW_DOTS: few columns, whose transposes lie in the workspace if B is not transposed; C is the transpose of y. */
typedef enum thin_form { THIN_NO, THIN_DOTS, THIN_SWEEP, THIN_ROW, THIN_FEW_DOTS, THIN_COLUMN_DOTS, THIN_COLUMN_SWEEP } thin_form;

static thin_form thin_form_of(const cj_gemm *g)
{
    if (g->n == 1 && g->m > 1) {
        if (g->a_col == 1 && g->b_row == 1) return THIN_COLUMN_DOTS;
        return g->a_row == 1 && g->c_row == 1 && g->m >= 32 ? THIN_COLUMN_SWEEP : THIN_NO;
    }
    if (g->b_row == 1 && g->b_col != 1 && g->a_col == 1 && g->m <= (g->k < DOTS_K + 8 * g->m ? DOTS_ROWS : THIN_ROWS)) return THIN_DOTS;
    if (g->n <= FEW_COLUMNS && g->m > THIN_ROWS && g->a_col == 1 && g->k >= LONG_K && g->batch == 1) return THIN_FEW_DOTS;
    if (g->m > SWEEP_ROWS || g->b_col != 1) return THIN_NO;
    if (g->m == 1 && g->n * g->k <= NEAR_FLOATS) return THIN_ROW;
    if (g->m > 1 && (g->b_row % TILE_LINE != 0 || g->n * g->k <= NEAR_FLOATS)) return THIN_NO;
    return g->n >= 256 ? THIN_SWEEP : THIN_NO;
}

typedef struct thin_run {
    thin t;
    thin_form form;
    const cj_gemm *g;
    int64_t item;
} thin_run;

static int is_column(thin_form form) { return form == THIN_COLUMN_DOTS || form == THIN_COLUMN_SWEEP; }
static int is_few(thin_form form) { return form == THIN_FEW_DOTS; }

static void run_thin_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    const thin_run *r = arg;
    const cj_gemm *g = r->g;
    (void)worker;
    if (r->form == THIN_ROW) row_columns(&r->t, begin, end); /* all of them: what is this near is not shared between threads */
    else if (r->form == THIN_SWEEP || r->form == THIN_COLUMN_SWEEP) sweep(&r->t, begin, end);
    else dots(&r->t, begin, end);
    if (!g->tail) return;
    if (is_column(r->form) || is_few(r->form)) call_tail(g, r->item, begin, end - begin, 0, g->n);
    else call_tail(g, r->item, 0, g->m, begin, end);
}

static void start_item(thin_run *r, int64_t item)
{
    const cj_gemm *g = r->g;
    const float *a = (const float *)g->a + item * g->a_batch, *b = (const float *)g->b + item * g->b_batch;
    r->item = item;
    if (is_column(r->form)) r->t.x = b, r->t.w = a;
    else r->t.x = a, r->t.w = b;
    r->t.y = (float *)g->c + item * g->c_batch;
}

static void run_thin_items(void *arg, int64_t begin, int64_t end, int worker)
{
    thin_run r = *(const thin_run *)arg;
    for (int64_t item = begin; item < end; item++) {
        start_item(&r, item);
        run_thin_columns(&r, 0, r.t.columns, worker);
    }
}

/* At least four chunks, each with some microseconds of work, in whole cache lines. */
static int64_t thin_grain(int64_t columns) { return ceil_div(ceil_div(columns, 4), 4 * TILE_LINE) * 4 * TILE_LINE; }

static void run_thin(cj_pool *pool, thin_run *r)
{
    cj__parallel_for(pool, r->t.columns, pool ? thin_grain(r->t.columns) : r->t.columns, run_thin_columns, r);
}

/* ---- slices of k ---- */

/* The sums of a slice have to be fetched from the thread that made them: the more rows the slice has, the less that costs. */
static int is_sliced(const cj_gemm *g, thin_form form)
{
    const int64_t columns = is_column(form) ? g->m : g->n, floats = columns * g->k;
    if (form != THIN_SWEEP && form != THIN_COLUMN_SWEEP) return 0;
    return g->m * g->n <= SLICED_SUMS && floats >= SLICED_FLOATS && columns <= (floats >= FAR_FLOATS ? 4 : 3) * g->k;
}

static size_t slice_bytes(const cj_gemm *g, thin_form form)
{
    return is_sliced(g, form) ? SLICES * (size_t)(g->m * g->n) * sizeof(float) : 0;
}

typedef struct slice_run {
    const thin *t;
    float *sums; /* of slice 0, row after row; those of the others follow */
} slice_run;

static void run_slice(void *arg, int64_t begin, int64_t end, int worker)
{
    const slice_run *r = arg;
    const int64_t length = ceil_div(ceil_div(r->t->k, SLICES), SLICE_STEP) * SLICE_STEP;
    (void)worker;
    for (int64_t s = begin; s < end; s++) {
        const int64_t p = s * length;
        thin t = {
            .rows = r->t->rows, .columns = r->t->columns, .x_row = r->t->x_row, .x_col = r->t->x_col, .w_row = r->t->w_row, .y_col = 1
        };
        t.k = p < r->t->k ? min64(length, r->t->k - p) : 0;
        t.x = r->t->x + p * t.x_col, t.w = r->t->w + p * t.w_row;
        t.y = r->sums + s * t.rows * t.columns, t.y_row = t.columns;
        sweep(&t, 0, t.columns);
    }
}

/* A vector of row i of y from column j on. */
GEMM_INLINE void add_slices(const thin *t, const float *sums, int64_t i, int64_t j)
{
    const int lanes = (int)min64(VL, t->columns - j);
    float *y = t->y + i * t->y_row + j;
    vf sum = vload_some(sums + i * t->columns + j, lanes);
    for (int s = 1; s < SLICES; s++) sum = vadd(sum, vload_some(sums + (s * t->rows + i) * t->columns + j, lanes));
    if (t->add) sum = vadd(vload_some(y, lanes), sum);
    if (t->bias) sum = vadd(sum, t->bias_col ? vload_some(t->bias + j, lanes) : vset1(*t->bias));
    vstore_some(y, t->relu ? vrelu(sum) : sum, lanes);
}

static void run_slices(cj_pool *pool, const thin_run *r, float *sums)
{
    const thin *t = &r->t;
    cj__parallel_for(pool, SLICES, 1, run_slice, &(slice_run){ t, sums });
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->columns; j += VL) add_slices(t, sums, i, j);
    if (r->g->tail) call_tail(r->g, r->item, 0, r->g->m, 0, r->g->n);
}

static void gemm_thin(cj_pool *pool, const cj_gemm *g, thin_form form, float *workspace)
{
    const int column = is_column(form);
    thin_run r = { .form = form, .g = g };
    r.t = (thin){ .rows = column ? 1 : g->m,
                  .columns = column ? g->m : g->n,
                  .k = g->k,
                  .bias = g->bias,
                  .bias_col = !column,
                  .add = g->accumulate,
                  .relu = g->act == CJ_GEMM_RELU,
                  .x_row = column ? 0 : g->a_row,
                  .x_col = column ? g->b_row : g->a_col,
                  .y_row = column ? 0 : g->c_row,
                  .y_col = column ? g->c_row : 1 };
    r.t.w_row = form == THIN_DOTS ? g->b_col : form == THIN_COLUMN_DOTS ? g->a_row : form == THIN_COLUMN_SWEEP ? g->a_col : g->b_row;
    const double work = (double)g->m * (double)g->n * (double)g->k;
    if (work < PARALLEL_THIN) {
        const double items = PARALLEL_THIN / 2 / (work + 1);
        cj__parallel_for(pool, g->batch, items < 1 ? 1 : items > 1024 ? 1024 : (int64_t)items, run_thin_items, &r);
        return;
    }
    for (int64_t item = 0; item < g->batch; item++) {
        start_item(&r, item);
        if (is_sliced(g, form)) run_slices(pool, &r, workspace);
        else run_thin(pool, &r);
    }
}

/* ---- few columns ---- */

static int64_t few_ld(const cj_gemm *g) { return (g->k + TILE_LINE - 1) / TILE_LINE * TILE_LINE + TILE_LINE; }
static size_t few_bytes(const cj_gemm *g, int threads)
{
    return g->b_row == 1 ? 0 : (size_t)(g->n * few_ld(g)) * sizeof(float) * (size_t)threads;
}

typedef struct few_run {
    thin_run r;
    float *turned;              /* B, turned, of worker 0; those of the others follow */
    char ready[CJ_MAX_THREADS]; /* whose are */
} few_run;

/* Every thread turns B for itself: to fetch it out of another one's cache takes longer. */
static void run_few(void *arg, int64_t begin, int64_t end, int worker)
{
    few_run *f = arg;
    const cj_gemm *g = f->r.g;
    thin_run r = f->r;
    if (g->b_row != 1) {
        float *turned = f->turned + worker * g->n * few_ld(g);
        if (!f->ready[worker]) pack(turned, few_ld(g), g->b, g->b_col, g->b_row, g->n, g->k, GEMM_F32);
        f->ready[worker] = 1;
        r.t.x = turned, r.t.x_row = few_ld(g);
    }
    run_thin_columns(&r, begin, end, worker);
}

/* Rows of y are columns of C. */
static void gemm_few(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    few_run f = { .r = { .form = THIN_FEW_DOTS, .g = g }, .turned = workspace };
    f.r.t = (thin){ .rows = g->n,
                    .columns = g->m,
                    .k = g->k,
                    .x = g->b,
                    .x_row = g->b_col,
                    .x_col = 1,
                    .w = g->a,
                    .w_row = g->a_row,
                    .y = g->c,
                    .y_row = 1,
                    .y_col = g->c_row,
                    .bias = g->bias,
                    .bias_row = 1,
                    .add = g->accumulate,
                    .relu = g->act == CJ_GEMM_RELU };
    if ((double)g->m * (double)g->n * (double)g->k < PARALLEL_WORK) pool = NULL;
    cj__parallel_for(pool, g->m, pool ? thin_grain(g->m) : g->m, run_few, &f);
}

#endif
