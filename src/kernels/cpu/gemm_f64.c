/* The matrix product for f64: C = act(A·B + bias) or C += ..., of which linear algebra and the checks of derivatives are made.
 *
 * Two ways, chosen by the shape of one product alone.  Small ones are plain C: each row of C is built in pieces of COLUMNS sums that stay in L1.  From PACKED_WORK multiply-adds
 * on, and with a workspace, it is the packed product of gemm.c in its simplest form: k is cut into blocks, a block of B is packed by all threads into panels of
 * TILE_COLUMNS columns, and each task takes BLOCK_ROWS rows of C through all panels, tile by tile in registers.  Every element is summed in order of p within a block, and the
 * blocks in order: the bits do not depend on the threads.
 */
#include "kernels/cpu/gemm.h"

#include <stdbool.h>

#include "kernels/cpu/transpose.h"

enum { COLUMNS = 256, PACKED_WORK = 40000 };
#if defined CJ_ISA_AVX512
enum { LANES = 8, TILE_ROWS = 8 };
#elif defined CJ_ISA_AVX2
enum { LANES = 4, TILE_ROWS = 4 };
#else
enum { LANES = 2, TILE_ROWS = 4 };
#endif
enum {
    WIDTH = 3, /* vectors of a tile */
    TILE_COLUMNS = WIDTH * LANES,
    K_BLOCK = 160,   /* of k, at most: a panel of B, 30 KiB, stays in L1 beside the rows of a tile */
    BLOCK_ROWS = 64, /* rows of C of a task */
    GROUP_COLUMNS = 1536 /* columns of B that are packed at a time: 1.9 MiB */,
};
static const double ITEM_WORK = 2e7;   /* batch items below this run whole on one thread each */
static const double SHARED_WORK = 1e6; /* and a single product below this too */

typedef double vd __attribute__((vector_size(LANES * 8)));
/* In memory only: registers are saved to aligned places. */
typedef double vd_anywhere __attribute__((vector_size(LANES * 8), aligned(8), may_alias));
typedef int64_t vl __attribute__((vector_size(LANES * 8)));

CJ_INLINE vd spread_f64(double x)
{
    vd v;
    for (int l = 0; l < LANES; l++) v[l] = x;
    return v;
}
CJ_INLINE vd fma_f64(vd a, vd b, vd c)
{
#if defined CJ_ISA_AVX512
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined CJ_ISA_AVX2
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* ---- the plain way ----------------------------------------------------------------------------------------------------------------------- */

/* What follows the sum: bias, activation and tail, on a block of finished elements. */
static void finish(const cj_gemm *g, int64_t item, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    const double *bias = g->bias;
    for (int64_t i = i0; i < i1 && (bias || g->act == CJ_GEMM_RELU); i++) {
        double *c = (double *)g->c + item * g->c_batch + i * g->c_row;
        for (int64_t j = j0; j < j1; j++) {
            const double y = bias ? c[j] + bias[j] : c[j];
            c[j] = g->act == CJ_GEMM_RELU && y < 0 ? 0 : y;
        }
    }
    if (g->tail) g->tail(g->tail_arg, item, i0, i1, j0, j1);
}

static void plain_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_gemm *g = arg;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const int64_t item = row / g->m, i = row % g->m;
        const double *a = (const double *)g->a + item * g->a_batch + i * g->a_row;
        const double *b0 = (const double *)g->b + item * g->b_batch;
        double *c = (double *)g->c + item * g->c_batch + i * g->c_row;
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
            for (int64_t j = 0; j < columns; j++) c[j0 + j] = g->accumulate ? c[j0 + j] + sum[j] : sum[j];
            finish(g, item, i, i + 1, j0, j0 + columns);
        }
    }
}

/* ---- the packed way ---------------------------------------------------------------------------------------------------------------------- */

typedef struct packed {
    const cj_gemm *g;
    int64_t item;                /* of the batch */
    int64_t p0, kc;              /* the block of k */
    int64_t j0, columns;         /* the group of columns */
    bool add, last;              /* C += this block; it is the last one */
    double *panels, *rows;       /* packed B; packed A, one piece per worker */
    int64_t panels_n, rows_size; /* panels of the group; elements of a piece */
} packed;

static int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static int64_t k_block(const cj_gemm *g)
{
    const int64_t blocks = (g->k + K_BLOCK - 1) / K_BLOCK;
    return (g->k + blocks - 1) / blocks;
}
static int64_t group_columns(const cj_gemm *g)
{
    return g->n < GROUP_COLUMNS ? up(g->n, TILE_COLUMNS) : GROUP_COLUMNS / TILE_COLUMNS * TILE_COLUMNS;
}
static int64_t panels_size(const cj_gemm *g) { return up(k_block(g) * group_columns(g), 8); }
static int64_t rows_size(const cj_gemm *g) { return up(k_block(g) * BLOCK_ROWS, 8); }
static bool is_packed(const cj_gemm *g)
{
    return (double)g->m * (double)g->n * (double)g->k >= PACKED_WORK && g->m >= TILE_ROWS && g->n >= LANES && g->k >= 8;
}
static bool by_item(const cj_gemm *g) { return g->batch > 1 && (double)g->m * (double)g->n * (double)g->k < ITEM_WORK; }

static void pack_panels(void *arg, int64_t begin, int64_t end, int worker)
{
    const packed *q = arg;
    const cj_gemm *g = q->g;
    (void)worker;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t j0 = q->j0 + panel * TILE_COLUMNS, left = q->j0 + q->columns - j0, n = left < TILE_COLUMNS ? left : TILE_COLUMNS;
        const double *b = (const double *)g->b + q->item * g->b_batch + q->p0 * g->b_row + j0 * g->b_col;
        double *to = q->panels + panel * q->kc * TILE_COLUMNS;
        if (g->b_col == 1) {
            for (int64_t p = 0; p < q->kc; p++, to += TILE_COLUMNS, b += g->b_row) {
                if (n == TILE_COLUMNS) memcpy(to, b, TILE_COLUMNS * sizeof *to);
                else
                    for (int64_t j = 0; j < TILE_COLUMNS; j++) to[j] = j < n ? b[j] : 0;
            }
            continue;
        }
        for (int64_t j = 0; j < TILE_COLUMNS; j++)
            for (int64_t p = 0; p < q->kc; p++) to[p * TILE_COLUMNS + j] = j < n ? b[p * g->b_row + j * g->b_col] : 0;
    }
}

/* acc = the sum over p of a tile: rows of packed A times the first vectors of a panel. */
CJ_INLINE void tile_sum(vd acc[TILE_ROWS][WIDTH], int64_t kc, const double *a, const double *b, int vectors)
{
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 3
        for (int v = 0; v < WIDTH; v++) acc[r][v] = spread_f64(0);
    for (int64_t p = 0; p < kc; p++, a += TILE_ROWS, b += TILE_COLUMNS) {
        vd x[WIDTH];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) x[v] = *(const vd_anywhere *)(b + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
            const vd y = spread_f64(a[r]);
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++) acc[r][v] = fma_f64(y, x[v], acc[r][v]);
        }
    }
}

/* `vectors` of WIDTH: those beyond the right border are left out. */
CJ_INLINE void tile_of(int64_t kc, const double *a, const double *b, double *c, int64_t c_row, int64_t rows, int64_t columns, bool add,
                       int vectors)
{
    vd acc[TILE_ROWS][WIDTH];
    tile_sum(acc, kc, a, b, vectors);
    if (rows == TILE_ROWS && columns == (int64_t)vectors * LANES) {
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++) {
                vd_anywhere *to = (vd_anywhere *)(c + r * c_row + v * LANES);
                if (add) acc[r][v] += *to;
                *to = acc[r][v];
            }
        return;
    }
    double sum[TILE_ROWS][TILE_COLUMNS];
    memcpy(sum, acc, sizeof sum);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) c[r * c_row + j] = add ? c[r * c_row + j] + sum[r][j] : sum[r][j];
}
static void tile(int64_t kc, const double *a, const double *b, double *c, int64_t c_row, int64_t rows, int64_t columns, bool add)
{
    if (columns > 2 * LANES) tile_of(kc, a, b, c, c_row, rows, columns, add, 3);
    else if (columns > LANES) tile_of(kc, a, b, c, c_row, rows, columns, add, 2);
    else tile_of(kc, a, b, c, c_row, rows, columns, add, 1);
}

CJ_TRANSPOSE(transpose_f64, vd, vl, LANES)

/* Rows of A as [tile][p][TILE_ROWS]; rows that are not there are 0. */
static void pack_rows(const packed *q, const double *a, int64_t rows, double *to)
{
    const cj_gemm *g = q->g;
    for (int64_t i0 = 0; i0 < rows; i0 += TILE_ROWS, to += q->kc * TILE_ROWS) {
        const int64_t whole = g->a_col == 1 && rows - i0 >= TILE_ROWS ? q->kc / LANES * LANES : 0;
        for (int64_t i = 0; i < TILE_ROWS; i += LANES)
            for (int64_t p = 0; p < whole; p += LANES) {
                vd block[LANES];
                for (int l = 0; l < LANES; l++) block[l] = *(const vd_anywhere *)(a + (i0 + i + l) * g->a_row + p);
                transpose_f64(block);
                for (int l = 0; l < LANES; l++) *(vd_anywhere *)(to + (p + l) * TILE_ROWS + i) = block[l];
            }
        for (int64_t i = 0; i < TILE_ROWS; i++)
            for (int64_t p = whole; p < q->kc; p++) to[p * TILE_ROWS + i] = i0 + i < rows ? a[(i0 + i) * g->a_row + p * g->a_col] : 0;
    }
}

static void blocks_of_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const packed *q = arg;
    const cj_gemm *g = q->g;
    double *mine = q->rows + worker * q->rows_size;
    for (int64_t block = begin; block < end; block++) {
        const int64_t i0 = block * BLOCK_ROWS, rows = g->m - i0 < BLOCK_ROWS ? g->m - i0 : BLOCK_ROWS;
        double *c = (double *)g->c + q->item * g->c_batch + i0 * g->c_row + q->j0;
        pack_rows(q, (const double *)g->a + q->item * g->a_batch + i0 * g->a_row + q->p0 * g->a_col, rows, mine);
        for (int64_t panel = 0; panel < q->panels_n; panel++) {
            const int64_t at = panel * TILE_COLUMNS, columns = q->columns - at < TILE_COLUMNS ? q->columns - at : TILE_COLUMNS;
            for (int64_t i = 0; i < rows; i += TILE_ROWS)
                tile(q->kc, mine + i * q->kc, q->panels + at * q->kc, c + i * g->c_row + at, g->c_row,
                     rows - i < TILE_ROWS ? rows - i : TILE_ROWS, columns, q->add);
            if (q->last) finish(g, q->item, i0, i0 + rows, q->j0 + at, q->j0 + at + columns);
        }
    }
}

/* One item of the batch, on these threads. */
static void packed_item(cj_pool *pool, const cj_gemm *g, int64_t item, double *panels, double *rows)
{
    packed q = { .g = g, .item = item, .panels = panels, .rows = rows, .rows_size = rows_size(g) };
    const int64_t kc = k_block(g), nc = group_columns(g);
    for (q.j0 = 0; q.j0 < g->n; q.j0 += nc) {
        q.columns = g->n - q.j0 < nc ? g->n - q.j0 : nc;
        q.panels_n = (q.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
        for (q.p0 = 0; q.p0 < g->k; q.p0 += kc) {
            q.kc = g->k - q.p0 < kc ? g->k - q.p0 : kc;
            q.add = g->accumulate || q.p0;
            q.last = q.p0 + kc >= g->k;
            cj__parallel_for(pool, q.panels_n, 8, pack_panels, &q);
            cj__parallel_for(pool, (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS, 1, blocks_of_rows, &q);
        }
    }
}

typedef struct items {
    const cj_gemm *g;
    double *work;
} items;
static void packed_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const items *all = arg;
    double *panels = all->work + worker * (panels_size(all->g) + rows_size(all->g));
    for (int64_t item = begin; item < end; item++) packed_item(NULL, all->g, item, panels, panels + panels_size(all->g));
}

void CJ_K(cj__gemm_f64)(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    if (!workspace || !is_packed(g)) {
        const int64_t per_row = g->n * (g->k + 1), grain = per_row >= 100000 ? 1 : 100000 / per_row + 1;
        cj__parallel_for(pool, g->batch * g->m, grain, plain_rows, (void *)(uintptr_t)g);
    } else if (by_item(g)) {
        items all = { g, workspace };
        cj__parallel_for(pool, g->batch, 1, packed_items, &all);
    } else {
        double *panels = workspace;
        if ((double)g->m * (double)g->n * (double)g->k < SHARED_WORK) pool = NULL;
        for (int64_t item = 0; item < g->batch; item++) packed_item(pool, g, item, panels, panels + panels_size(g));
    }
}

size_t CJ_K(cj__gemm_workspace_f64)(const cj_gemm *g, int threads)
{
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0 || !is_packed(g)) return 0;
    const int64_t shared = by_item(g) ? 0 : panels_size(g), each = rows_size(g) + (by_item(g) ? panels_size(g) : 0);
    return (size_t)(shared + each * threads) * sizeof(double);
}
