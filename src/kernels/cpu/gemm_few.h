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

#if VL == 16
/* Cycles of the dot products of m rows with n: a vector of each pair of rows per half cycle, and the folding of a block's sums. */
static double dots_cycles(int64_t m, int64_t n, int64_t k)
{
    const double folds = 38, blocks = (double)(ceil_div(m, DOTS_BLOCK) * ceil_div(n, VL / 4));
    return blocks * folds + (double)(ceil_div(k, VL) * m * n) / 2;
}
#endif

/* A few rows by a transposed B: dot products, or tiles after B has been packed?  Dot products fold their sums, tiles fill their last vector with nothing and wait for the
 * packing.  Cycles of both as measured on Zen 5 (within 5 %); what they depend on, lanes and ports, is the same on other processors with these vectors. */
static int is_dots(const cj_gemm *g)
{
    if (g->b_row != 1 || g->b_col == 1 || g->a_col != 1 || g->m > THIN_ROWS) return 0;
    if (g->m <= DOTS_ROWS) return 1;
#if VL == 16
    if (g->m > FEW_COLUMNS && g->n <= FEW_COLUMNS) return 0; /* those take the columns for rows */
    const double m = (double)g->m, k = (double)g->k, columns = (double)ceil_div(g->n, VL), packing = 5.8, call = 440;
    return dots_cycles(g->m, g->n, g->k) <= columns * k * (m / 2 + packing) + call;
#else
    return g->k >= DOTS_K + 8 * g->m; /* turning B costs less than folding the sums of a shorter k */
#endif
}

static thin_form thin_form_of(const cj_gemm *g)
{
    if (g->n == 1 && g->m > 1) {
        if (g->a_col == 1 && g->b_row == 1) return THIN_COLUMN_DOTS;
        return g->a_row == 1 && g->c_row == 1 && g->m >= 32 ? THIN_COLUMN_SWEEP : THIN_NO;
    }
    if (is_dots(g)) return THIN_DOTS;
    if (g->n <= FEW_COLUMNS && g->m > FEW_COLUMNS && g->a_col == 1 && g->k >= LONG_K && g->batch == 1) return THIN_FEW_DOTS;
    if (g->m > SWEEP_ROWS || g->b_col != 1) return THIN_NO;
    if (g->m == 1 && g->n * g->k <= (g->n <= ROW_VECTORS * VL ? NEAR_FLOATS : L1_FLOATS)) return THIN_ROW;
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
static int are_dots(thin_form form) { return form == THIN_DOTS || form == THIN_COLUMN_DOTS; }

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
static int64_t thin_grain(int64_t columns, thin_form form)
{
    const int64_t whole = are_dots(form) ? TILE_LINE : 4 * TILE_LINE; /* a sweep wants longer runs */
    return ceil_div(ceil_div(columns, 4), whole) * whole;
}

/* Rows of y. */
static void run_thin_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const thin_run *r = arg;
    thin t = r->t;
    (void)worker;
    t.rows = end - begin, t.x += begin * t.x_row, t.y += begin * t.y_row;
    dots(&t, 0, t.columns);
    if (r->g->tail) call_tail(r->g, r->item, begin, end - begin, 0, r->g->n);
}

/* A row is summed in chains that follow from its length, and the sign of a NaN from the block that sums it: where columns are not all summed alike, the chunks are the same ones on
 * one thread. */
static void run_thin(cj_pool *pool, thin_run *r)
{
    const int64_t columns = r->t.columns;
    if (r->form == THIN_DOTS && r->t.rows >= 2 * DOTS_BLOCK && columns <= SHARED_COLUMNS) {
        cj__parallel_for(pool, r->t.rows, ceil_div(r->t.rows, 2), run_thin_rows, r); /* smaller shares would be lower blocks */
        return;
    }
    const int whole = r->form == THIN_ROW || (!are_dots(r->form) && !pool);
    cj__parallel_for(pool, columns, whole ? columns : thin_grain(columns, r->form), run_thin_columns, r);
}

/* ---- slices of k ---- */

/* One row that stays in registers over all of k (row_columns), and so is not shared out by columns. */
static int is_short_row(const cj_gemm *g, int64_t columns)
{
    return g->m * g->n == columns && columns <= ROW_VECTORS * VL && g->batch == 1;
}

/* The sums of a slice have to be fetched from the thread that made them: the more rows the slice has, the less that costs. */
static int is_sliced(const cj_gemm *g, thin_form form)
{
    const int64_t columns = is_column(form) ? g->m : g->n, floats = columns * g->k;
    if (form != THIN_SWEEP && form != THIN_COLUMN_SWEEP) return 0;
    if (is_short_row(g, columns)) return (double)floats >= PARALLEL_THIN;
    return g->m * g->n <= SLICED_SUMS && floats >= SLICED_FLOATS && columns <= (floats >= FAR_FLOATS ? 4 : 3) * g->k;
}

static size_t slice_bytes(const cj_gemm *g, thin_form form)
{
    return is_sliced(g, form) ? SLICES * (size_t)(g->m * g->n) * sizeof(float) : 0;
}

typedef struct slice_run {
    const thin *t;
    float *sums; /* of slice 0, row after row; those of the others follow */
    int is_short_row;
} slice_run;

static void run_slice(void *arg, int64_t begin, int64_t end, int worker)
{
    const slice_run *r = arg;
    const int64_t length = ceil_div(ceil_div(r->t->k, SLICES), SLICE_STEP) * SLICE_STEP;
    (void)worker;
    for (int64_t s = begin; s < end; s++) {
        const int64_t p = s * length;
        thin t = { .rows = r->t->rows,
                   .columns = r->t->columns,
                   .x_row = r->t->x_row,
                   .x_col = r->t->x_col,
                   .w_row = r->t->w_row,
                   .y_col = 1,
                   .near = r->t->near };
        t.k = p < r->t->k ? min64(length, r->t->k - p) : 0;
        t.x = r->t->x + p * t.x_col, t.w = r->t->w + p * t.w_row;
        t.y = r->sums + s * t.rows * t.columns, t.y_row = t.columns;
        if (r->is_short_row) row_columns(&t, 0, t.columns);
        else sweep(&t, 0, t.columns);
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
    cj__parallel_for(pool, SLICES, 1, run_slice, &(slice_run){ t, sums, is_short_row(r->g, t->columns) });
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
    r.t.near = r.t.columns * g->k <= L2_FLOATS;
    r.t.w_row = form == THIN_DOTS ? g->b_col : form == THIN_COLUMN_DOTS ? g->a_row : form == THIN_COLUMN_SWEEP ? g->a_col : g->b_row;
    const double work = (double)g->m * (double)g->n * (double)g->k, shared = form == THIN_SWEEP ? PARALLEL_NEAR : PARALLEL_THIN;
    if (work < shared && !is_sliced(g, form)) {
        const double items = shared / 2 / (work + 1);
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

/* At least four chunks of rows of C, whole vectors of them: every row is then summed by the same block, however many threads there are. */
static int64_t few_grain(int64_t rows) { return ceil_div(ceil_div(rows, 4), VL) * VL; }

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
    cj__parallel_for(pool, g->m, (double)g->m * (double)g->n * (double)g->k < PARALLEL_THIN ? g->m : few_grain(g->m), run_few, &f);
}

#endif
