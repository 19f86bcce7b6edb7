/* Fits that are linear programs: quantile and minimax regression, basis pursuit, separability.
 *
 * A free variable is the difference of two that are not negative; an inequality becomes an equation with a slack variable.
 */
#include <math.h>

#include "linear/linear.h"

/* cost, a and b as tensors from arrays; the solution into x [n].  False after an error or where there is no solution: `outcome` says which. */
typedef struct program {
    cj_ctx *c;
    int64_t m, n;
    double *cost, *a, *b; /* [n], [m, n], [m] */
    size_t bytes;
} program;

static bool program_open(program *p, cj_ctx *c, int64_t m, int64_t n)
{
    *p = (program){ .c = c, .m = m, .n = n, .bytes = (size_t)(n + m * n + m) * sizeof(double) };
    p->cost = cj__zalloc(c, p->bytes);
    if (!p->cost) return false;
    p->a = p->cost + n, p->b = p->a + m * n;
    return true;
}

/* The solution replaces the cost. */
static cj_program program_solve(program *p)
{
    cj_scope s = cj_scope_open(p->c);
    cj_program out = cj_linear_program(cj_from_f64(p->c, p->cost, CJ_SHAPE(p->n)), cj_from_f64(p->c, p->a, CJ_SHAPE(p->m, p->n)),
                                       cj_from_f64(p->c, p->b, CJ_SHAPE(p->m)));
    if (!p->c->error && out.outcome == CJ_PROGRAM_SOLVED) cj_to_f64(out.x, p->cost, p->n);
    cj_scope_close(s);
    return out;
}

static void program_close(program *p) { cj__free(p->c, p->cost, p->bytes); }

/* w = plus - minus, the first 2 k unknowns */
static void difference(const program *p, int64_t k, double *w)
{
    for (int64_t j = 0; j < k; j++) w[j] = p->cost[j] - p->cost[k + j];
}

static cj_fit failed(const cj__examples *e) { return (cj_fit){ .weight = e->c->poison, .bias = e->c->poison }; }

/* x·w + u - v = y with u, v >= 0: the cost is tau sum u + (1 - tau) sum v */
cj_fit cj_quantile_regression(cj_tensor *x, cj_tensor *y, double tau, const cj_fit_opts *opts)
{
    cj__examples e;
    if (x && !x->ctx->error && !(tau > 0 && tau < 1))
        cj__error(x->ctx, CJ_EVALUE, "quantile_regression: tau %g; it must be in (0, 1)", tau);
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0;
    if (!cj__examples_open(&e, "quantile_regression", x, y, !(opts && opts->no_bias), d + 1)) return cj__fit_failed(x);
    int64_t k = e.columns, n = e.n, width = 2 * k + 2 * n;
    program p;
    if (!program_open(&p, e.c, n, width)) return cj__examples_close(&e), failed(&e);
    for (int64_t i = 0; i < n; i++) {
        double *row = p.a + i * width;
        for (int64_t j = 0; j < k; j++) row[j] = e.x[i * k + j], row[k + j] = -row[j];
        row[2 * k + i] = 1, row[2 * k + n + i] = -1;
        p.cost[2 * k + i] = tau, p.cost[2 * k + n + i] = 1 - tau;
        p.b[i] = e.y[i];
    }
    cj_program out = program_solve(&p);
    difference(&p, k, e.more);
    cj_fit f = cj__fit_of(&e, e.more, 0);
    f.iterations = out.pivots, f.converged = out.outcome == CJ_PROGRAM_SOLVED;
    program_close(&p);
    cj__examples_close(&e);
    return f;
}

/* The least t with -t <= y_i - x_i·w <= t: x·w + t - s = y, x·w - t + s' = y */
cj_fit cj_minimax_regression(cj_tensor *x, cj_tensor *y, const cj_fit_opts *opts)
{
    cj__examples e;
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0;
    if (!cj__examples_open(&e, "minimax_regression", x, y, !(opts && opts->no_bias), d + 1)) return cj__fit_failed(x);
    int64_t k = e.columns, n = e.n, width = 2 * k + 1 + 2 * n;
    program p;
    if (!program_open(&p, e.c, 2 * n, width)) return cj__examples_close(&e), failed(&e);
    for (int64_t i = 0; i < 2 * n; i++) {
        double *row = p.a + i * width, side = i < n ? 1 : -1;
        for (int64_t j = 0; j < k; j++) row[j] = e.x[i % n * k + j], row[k + j] = -row[j];
        row[2 * k] = side;
        row[2 * k + 1 + i] = -side;
        p.b[i] = e.y[i % n];
    }
    p.cost[2 * k] = 1;
    cj_program out = program_solve(&p);
    difference(&p, k, e.more);
    cj_fit f = cj__fit_of(&e, e.more, 0);
    f.iterations = out.pivots, f.converged = out.outcome == CJ_PROGRAM_SOLVED;
    program_close(&p);
    cj__examples_close(&e);
    return f;
}

cj_tensor *cj_basis_pursuit(cj_tensor *a, cj_tensor *b)
{
    cj__examples e;
    int64_t d = a && a->ndim == 2 ? a->shape[1] : 0;
    if (!cj__examples_open(&e, "basis_pursuit", a, b, false, d)) return a ? a->ctx->poison : NULL;
    program p;
    cj_tensor *w = e.c->poison;
    if (program_open(&p, e.c, e.n, 2 * d)) {
        for (int64_t j = 0; j < 2 * d; j++) p.cost[j] = 1;
        for (int64_t i = 0; i < e.n; i++) {
            for (int64_t j = 0; j < d; j++) p.a[i * 2 * d + j] = e.x[i * d + j], p.a[i * 2 * d + d + j] = -e.x[i * d + j];
            p.b[i] = e.y[i];
        }
        cj_program out = program_solve(&p);
        if (!e.c->error && out.outcome != CJ_PROGRAM_SOLVED) cj__error(e.c, CJ_EVALUE, "basis_pursuit: a·w = b has no solution");
        difference(&p, d, e.more);
        if (!e.c->error) w = cj_cast(cj_from_f64(e.c, e.more, CJ_SHAPE(d)), e.dtype);
        program_close(&p);
    }
    cj__examples_close(&e);
    return w;
}

/* y_i x_i·w - s_i = 1 has a solution with s >= 0 */
bool cj_separable(cj_tensor *x, cj_tensor *y, bool bias)
{
    cj__examples e;
    if (!cj__examples_open(&e, "separable", x, y, bias, 0)) return false;
    int64_t k = e.columns, n = e.n, width = 2 * k + n;
    program p;
    bool found = false;
    if (program_open(&p, e.c, n, width)) {
        for (int64_t i = 0; i < n; i++) {
            double *row = p.a + i * width;
            for (int64_t j = 0; j < k; j++) row[j] = e.y[i] * e.x[i * k + j], row[k + j] = -row[j];
            row[2 * k + i] = -1;
            p.b[i] = 1;
        }
        found = program_solve(&p).outcome == CJ_PROGRAM_SOLVED && !e.c->error;
        program_close(&p);
    }
    cj__examples_close(&e);
    return found;
}
