/* Recurrences in f64, for checks: the steps of recurrent_steps.h on scalars and the plain f64 product. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/simd.h"

#define REAL double
#define VEC double
#define LANES 1

CJ_INLINE double load(const double *p, int n) { return (void)n, *p; }
CJ_INLINE void store(double *p, double v, int n) { (void)n, *p = v; }
CJ_INLINE double splat(double x) { return x; }
CJ_INLINE double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
CJ_INLINE double tanh_of(double x) { return tanh(x); }
CJ_INLINE double relu_of(double x) { return x < 0 ? 0 : x; }
CJ_INLINE double where_positive(double x, double g) { return x > 0 ? g : 0; }

typedef struct job job;
typedef struct fetch fetch;
static void multiply(const job *j, const double *a, int64_t ld, int64_t rows, int64_t panel, double *c, fetch *soon);

static int64_t block_units(int64_t hidden) { return hidden < 64 ? hidden : 64; }
static size_t packed_bytes(const cj_recurrence *r) { return (void)r, 0; } /* W is read where it lies */
static void pack_panels(void *arg, int64_t begin, int64_t end, int worker) { (void)arg, (void)begin, (void)end, (void)worker; }

#include "kernels/cpu/recurrent_steps.h"

int64_t CJ_K(cj__recurrent_saved_f64)(const cj_recurrence *r);
size_t CJ_K(cj__recurrent_workspace_f64)(const cj_recurrence *r, bool backward, int threads);
void CJ_K(cj__recurrent_f64)(cj_pool *pool, const cj_recurrence *r, bool backward, void *workspace);
void CJ_K(cj__gemm_f64)(cj_pool *pool, const cj_gemm *g, void *workspace);

static void multiply(const job *j, const double *a, int64_t ld, int64_t rows, int64_t panel, double *c, fetch *soon)
{
    const int64_t H = j->r->hidden, block = j->backward ? panel : panel / j->gates, u = block * j->units;
    cj_gemm g = {
        .m = rows, .n = H - u < j->units ? H - u : j->units, .batch = 1, .a = a, .a_row = ld, .a_col = 1, .c = c, .c_row = j->units
    };
    if (j->backward) { /* W */
        g.k = j->gates * H, g.b = (const double *)j->r->w + u;
        g.b_row = H, g.b_col = 1;
    } else { /* the transpose of a gate's rows */
        g.k = H, g.b = (const double *)j->r->w + (panel % j->gates * H + u) * H;
        g.b_row = 1, g.b_col = H;
    }
    fetch_rows(soon, rows);
    CJ_K(cj__gemm_f64)(NULL, &g, NULL);
}

int64_t CJ_K(cj__recurrent_saved_f64)(const cj_recurrence *r) { return saved_elements(r); }
size_t CJ_K(cj__recurrent_workspace_f64)(const cj_recurrence *r, bool backward, int threads) { return workspace_of(r, backward, threads); }
void CJ_K(cj__recurrent_f64)(cj_pool *pool, const cj_recurrence *r, bool backward, void *workspace)
{
    run_steps(pool, r, backward, workspace);
}
