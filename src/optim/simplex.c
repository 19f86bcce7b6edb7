/* Linear programs: the least cost·x with A x = b, x >= 0, by the simplex method on a dense table (Dantzig 1947).
 *
 * The first phase minimises the sum of artificial variables that make any b possible; where it ends above 0 there is no feasible point.  The second has the cost
 * itself.  The column with the most negative reduced cost enters; after many pivots without progress the first such column does (Bland 1977), which cannot cycle.
 */
#include <math.h>

#include "optim/objective.h"

typedef struct table {
    int64_t m, n, width; /* rows; columns: n variables, m artificial ones, the right side */
    double *row;         /* [m + 1, width]; the last row holds reduced costs and minus the value */
    int64_t *basis;      /* [m]: the variable of each row */
    int64_t pivots;
} table;

static const double tiny = 1e-9;

static void pivot(table *t, int64_t r, int64_t k)
{
    double *p = t->row + r * t->width, by = p[k];
    for (int64_t j = 0; j < t->width; j++) p[j] /= by;
    p[k] = 1;
    for (int64_t i = 0; i <= t->m; i++) {
        double *q = t->row + i * t->width, s = q[k];
        if (i == r || s == 0) continue;
        cj__axpy(-s, p, q, t->width);
        q[k] = 0;
    }
    t->basis[r] = k;
    t->pivots++;
}

/* Pivots among the first `columns` until no reduced cost is negative; false: unbounded. */
static bool solve(cj_ctx *c, table *t, int64_t columns, bool *bounded)
{
    double *cost = t->row + t->m * t->width;
    *bounded = true;
    for (int64_t k = 0; cj__cancel_check(c); k++) {
        bool bland = k > 20 * (t->m + columns);
        int64_t enter = -1, leave = -1;
        for (int64_t j = 0; j < columns; j++)
            if (cost[j] < -tiny && (enter < 0 || (!bland && cost[j] < cost[enter]))) enter = j;
        if (enter < 0) return true;
        double least = INFINITY;
        for (int64_t i = 0; i < t->m; i++) {
            double a = t->row[i * t->width + enter], ratio = t->row[i * t->width + t->width - 1] / a;
            if (a <= tiny || ratio > least) continue;
            if (ratio < least || t->basis[i] < t->basis[leave]) least = ratio, leave = i;
        }
        if (leave < 0) return *bounded = false, true;
        pivot(t, leave, enter);
        if (k > 1000 * (t->m + columns)) return cj__error(c, CJ_EVALUE, "linear_program: no end after %lld pivots", (long long)t->pivots);
    }
    return false;
}

/* Both phases on a filled table; x gets the solution. */
static bool two_phases(cj_ctx *c, table *t, const double *price, double *x, cj_program *out)
{
    int64_t m = t->m, n = t->n, last = t->width - 1;
    double *cost = t->row + m * t->width;
    bool bounded;
    for (int64_t i = 0; i < m; i++) { /* b >= 0, an artificial variable in every row, cost their sum */
        double *r = t->row + i * t->width;
        for (int64_t j = 0; j < t->width && r[last] < 0; j++) r[j] = -r[j];
        r[n + i] = 1;
        t->basis[i] = n + i;
        for (int64_t j = 0; j < n; j++) cost[j] -= r[j];
        cost[last] -= r[last];
    }
    if (!solve(c, t, n, &bounded)) return false;
    double scale = 1;
    for (int64_t i = 0; i < m; i++) scale = fmax(scale, fabs(t->row[i * t->width + last]));
    out->outcome = CJ_PROGRAM_INFEASIBLE;
    if (-cost[last] > 1e-7 * scale) return true;
    for (int64_t i = 0; i < m; i++) /* artificial variables at 0 leave where they can */
        for (int64_t j = 0; j < n && t->basis[i] >= n; j++)
            if (fabs(t->row[i * t->width + j]) > 1e-7) pivot(t, i, j);
    memset(cost, 0, (size_t)t->width * sizeof *cost);
    memcpy(cost, price, (size_t)n * sizeof *cost);
    for (int64_t i = 0; i < m; i++)
        if (t->basis[i] < n) cj__axpy(-price[t->basis[i]], t->row + i * t->width, cost, t->width);
    if (!solve(c, t, n, &bounded)) return false;
    out->outcome = bounded ? CJ_PROGRAM_SOLVED : CJ_PROGRAM_UNBOUNDED;
    memset(x, 0, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < m; i++)
        if (t->basis[i] < n) x[t->basis[i]] = t->row[i * t->width + last];
    out->value = cj__dot(price, x, n);
    return true;
}

cj_program cj_linear_program(cj_tensor *cost, cj_tensor *a, cj_tensor *b)
{
    cj_program out = { .outcome = CJ_PROGRAM_INFEASIBLE, .value = NAN };
    cj_ctx *c = a ? a->ctx : NULL;
    if (!c) return out;
    out.x = c->poison;
    if (!cj__cancel_check(c) || !cj__usable(c, "linear_program", 0, cost) || !cj__usable(c, "linear_program", 1, a) ||
        !cj__usable(c, "linear_program", 2, b))
        return out;
    int64_t m = cj_ndim(a) == 2 ? cj_size(a, 0) : 0, n = cj_ndim(a) == 2 ? cj_size(a, 1) : 0;
    if (cj_ndim(a) != 2 || cj_numel(cost) != n || cj_numel(b) != m || !m || !n) {
        cj__error(c, CJ_ESHAPE, "linear_program: cost %s, a %s, b %s; [n], [m, n] and [m] expected", cj__tensor_text(cost),
                  cj__tensor_text(a), cj__tensor_text(b));
        return out;
    }
    table t = { .m = m, .n = n, .width = n + m + 1 };
    size_t bytes = (size_t)((m + 1) * t.width + 2 * n + m + m * n + m) * sizeof(double);
    double *memory = cj__zalloc(c, bytes);
    if (!memory) return out;
    t.row = memory;
    double *price = t.row + (m + 1) * t.width, *x = price + n, *right = x + n, *matrix = right + m;
    t.basis = (int64_t *)(matrix + m * n);
    bool ok = cj_to_f64(cost, price, n) && cj_to_f64(a, matrix, m * n) && cj_to_f64(b, right, m);
    if (ok && !(isfinite(cj__largest(price, n)) && isfinite(cj__largest(matrix, m * n)) && isfinite(cj__largest(right, m))))
        ok = cj__error(c, CJ_EVALUE, "linear_program: a number is not finite");
    for (int64_t i = 0; i < m && ok; i++) {
        memcpy(t.row + i * t.width, matrix + i * n, (size_t)n * sizeof *matrix);
        t.row[i * t.width + t.width - 1] = right[i];
    }
    ok = ok && two_phases(c, &t, price, x, &out);
    out.pivots = t.pivots;
    if (ok && out.outcome == CJ_PROGRAM_SOLVED) out.x = cj_from_f64(c, x, CJ_SHAPE(n));
    cj__free(c, memory, bytes);
    return out;
}
