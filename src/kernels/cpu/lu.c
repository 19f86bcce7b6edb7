/* LU by recursion (lu.h): lu_body.h for both types. */
#include "kernels/cpu/lu.h"

#include <stdbool.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/transpose.h"

#if defined CJ_ISA_AVX512
#define LU_BYTES 64
#elif defined CJ_ISA_AVX2
#define LU_BYTES 32
#else
#define LU_BYTES 16
#endif

enum {
    PANEL = 16,          /* columns that are eliminated one by one */
    TOGETHER = 4,        /* right-hand sides that pass through a block of a triangle at a time */
    SHARED = 20000,      /* steps of a vector from which on work is shared out among threads ... */
    SHARED_COLUMNS = 32, /* ... so many columns at a time */
};

cj_gemm_fn CJ_K(cj__gemm_f32), CJ_K(cj__gemm_f64);
cj_gemm_workspace_fn CJ_K(cj__gemm_workspace_f32), CJ_K(cj__gemm_workspace_f64);

typedef struct lu_run { /* where a recursion runs */
    cj_pool *pool;
    void *minus, *rest; /* -U of a product, which the product adds; the product's own workspace */
} lu_run;

static int64_t half(int64_t n) { return (n / 2 + PANEL - 1) / PANEL * PANEL; } /* n > PANEL: both parts have columns */

/* The shape of cᵀ [n, m] += (-uᵀ) [n, k] · lᵀ [k, m]. */
static cj_gemm product_of(int64_t m, int64_t n, int64_t k, int64_t l_ld, int64_t c_ld)
{
    return (
        cj_gemm){ .m = n, .n = m, .k = k, .batch = 1, .a_row = k, .a_col = 1, .b_row = l_ld, .b_col = 1, .c_row = c_ld, .accumulate = 1 };
}

/* What the products of a recursion need at most: elements of U, bytes of workspace. */
typedef struct lu_need {
    cj_dtype t;
    int threads;
    int64_t ld, minus;
    size_t rest;
} lu_need;
static void need(lu_need *w, int64_t m, int64_t n, int64_t k, int64_t c_ld)
{
    if (!m || !n) return;
    const cj_gemm g = product_of(m, n, k, w->ld, c_ld);
    const size_t bytes = w->t == CJ_F64 ? CJ_K(cj__gemm_workspace_f64)(&g, w->threads) : CJ_K(cj__gemm_workspace_f32)(&g, w->threads);
    if (bytes > w->rest) w->rest = bytes;
    if (n * k > w->minus) w->minus = n * k;
}
static void need_solution(lu_need *w, int64_t n, int64_t columns, int64_t b_ld)
{
    if (n <= PANEL) return;
    const int64_t h = half(n);
    need(w, n - h, columns, h, b_ld);
    need(w, h, columns, n - h, b_ld);
    need_solution(w, h, columns, b_ld);
    need_solution(w, n - h, columns, b_ld);
}
static void need_factors(lu_need *w, int64_t m, int64_t n)
{
    if (n <= PANEL) return;
    const int64_t h = half(n);
    need_solution(w, h, n - h, w->ld);
    need(w, m - h, n - h, h, w->ld);
    need_factors(w, m, h);
    need_factors(w, m - h, n - h);
}

#define R float
#define INT int32_t
#define MAGNITUDE 0x7fffffff
#define SMALLEST 1.17549435e-38f
#define NAME(x) x##_f32
#define GEMM CJ_K(cj__gemm_f32)
#include "kernels/cpu/lu_body.h"

#define R double
#define INT int64_t
#define MAGNITUDE 0x7fffffffffffffff
#define SMALLEST 2.2250738585072014e-308
#define NAME(x) x##_f64
#define GEMM CJ_K(cj__gemm_f64)
#include "kernels/cpu/lu_body.h"

static size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* For both parts of a problem, so that factor and solve cut the workspace alike. */
static lu_need needed(cj_dtype t, int64_t n, int64_t k, int threads)
{
    lu_need w = { .t = t, .threads = threads, .ld = cj__lu_ld(n) };
    need_factors(&w, n, n);
    if (k) need_solution(&w, n, k, w.ld);
    return w;
}
size_t CJ_K(cj__lu_workspace)(cj_dtype t, int64_t n, int64_t k, int threads)
{
    const lu_need w = needed(t, n, k, threads);
    return line_up((size_t)w.minus * (t == CJ_F64 ? 8 : 4)) + w.rest;
}
static lu_run running(cj_pool *pool, const cj_lu *f)
{
    const lu_need w = needed(f->dtype, f->n, f->k, pool ? cj__pool_threads(pool) : 1);
    return (lu_run){ pool, f->work, (char *)f->work + line_up((size_t)w.minus * (f->dtype == CJ_F64 ? 8 : 4)) };
}

int64_t CJ_K(cj__lu_factor)(cj_pool *pool, const cj_lu *f)
{
    const lu_run run = running(pool, f);
    return f->dtype == CJ_F64 ? factor_f64(&run, f->n, f->n, f->a, f->ld, f->pivot) : factor_f32(&run, f->n, f->n, f->a, f->ld, f->pivot);
}

void CJ_K(cj__lu_solve)(cj_pool *pool, const cj_lu *f, void *b)
{
    const lu_run run = running(pool, f);
    if (f->dtype == CJ_F64) {
        exchange_f64(&run, f->k, b, f->ld, f->n, f->pivot);
        lower_f64(&run, f->n, f->k, f->a, f->ld, b, f->ld);
        upper_f64(&run, f->n, f->k, f->a, f->ld, b, f->ld);
    } else {
        exchange_f32(&run, f->k, b, f->ld, f->n, f->pivot);
        lower_f32(&run, f->n, f->k, f->a, f->ld, b, f->ld);
        upper_f32(&run, f->n, f->k, f->a, f->ld, b, f->ld);
    }
}

void CJ_K(cj__turn)(cj_dtype t, int64_t m, int64_t n, const void *x, int64_t x_row, void *y, int64_t y_row)
{
    if (t == CJ_F64) turn_f64(m, n, x, x_row, y, y_row);
    else turn_f32(m, n, x, x_row, y, y_row);
}
