/* Linear models with few inputs: the lasso by coordinate descent or FISTA, greedy selection forwards and backwards, importance of inputs.
 *
 * Everything works on G = xᵀx / n and q = xᵀy / n of centred data: the mean squared residual of weights w is yᵀy/n - 2 qᵀw + wᵀG w.
 */
#include <math.h>

#include "linear/linear.h"

typedef struct moments {
    cj__examples e;
    double *g, *q, *mean; /* [d, d], [d], [d]: mean of x */
    double mean_y, yy;
    double *rest; /* further memory */
} moments;

static bool moments_open(moments *m, const char *op, cj_tensor *x, cj_tensor *y, bool centre, int64_t more)
{
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0;
    if (!cj__examples_open(&m->e, op, x, y, false, d * d + 2 * d + more)) return false;
    int64_t n = m->e.n;
    m->g = m->e.more, m->q = m->g + d * d, m->mean = m->q + d, m->rest = m->mean + d;
    m->mean_y = m->yy = 0;
    for (int64_t i = 0; i < n && centre; i++) {
        cj__axpy(1.0 / (double)n, m->e.x + i * d, m->mean, d);
        m->mean_y += m->e.y[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        double *row = m->e.x + i * d;
        cj__axpy(-1, m->mean, row, d);
        m->e.y[i] -= m->mean_y;
        for (int64_t j = 0; j < d; j++) cj__axpy(row[j] / (double)n, row, m->g + j * d, d);
        cj__axpy(m->e.y[i] / (double)n, row, m->q, d);
        m->yy += m->e.y[i] * m->e.y[i] / (double)n;
    }
    return true;
}

static double soft(double x, double t) { return x > t ? x - t : x < -t ? x + t : 0; }

/* One pass over the coordinates; the largest change.  p = q - G w is kept up to date. */
static double coordinates(const moments *m, double lambda, double *w, double *p)
{
    int64_t d = m->e.d;
    double worst = 0;
    for (int64_t j = 0; j < d; j++) {
        double curvature = m->g[j * d + j];
        if (!(curvature > 0)) continue; /* a constant column stays out */
        double next = soft(p[j] + curvature * w[j], lambda) / curvature, change = next - w[j];
        if (change == 0) continue;
        cj__axpy(-change, m->g + j * d, p, d);
        w[j] = next;
        worst = fmax(worst, fabs(change));
    }
    return worst;
}

/* A step of FISTA from `ahead`, with 1 / step the largest row sum of |G|, which bounds its largest eigenvalue. */
static double fista(const moments *m, double lambda, double *w, double *ahead, double *t)
{
    int64_t d = m->e.d;
    double bound = 0, worst = 0, grown = (1 + sqrt(1 + 4 * *t * *t)) / 2, beyond = (*t - 1) / grown, *next = ahead + d, turn = 0;
    for (int64_t j = 0; j < d; j++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++) sum += fabs(m->g[j * d + k]);
        bound = fmax(bound, sum);
    }
    if (!(bound > 0)) return 0;
    for (int64_t j = 0; j < d; j++) next[j] = soft(ahead[j] - (cj__dot(m->g + j * d, ahead, d) - m->q[j]) / bound, lambda / bound);
    for (int64_t j = 0; j < d; j++) turn += (ahead[j] - next[j]) * (next[j] - w[j]);
    if (turn > 0) beyond = 0, grown = 1; /* momentum that points uphill starts anew (O'Donoghue & Candès 2015) */
    for (int64_t j = 0; j < d; j++) {
        double change = next[j] - w[j];
        worst = fmax(worst, fabs(change));
        ahead[j] = next[j] + beyond * change;
        w[j] = next[j];
    }
    *t = grown;
    return worst;
}

cj_fit cj_lasso(cj_tensor *x, cj_tensor *y, double lambda, const cj_lasso_opts *opts)
{
    cj_lasso_opts o = opts ? *opts : (cj_lasso_opts){ 0 };
    moments m;
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0, k = 0;
    o.tolerance = cj__value_or(o.tolerance, 1e-12);
    o.iterations = o.iterations ? o.iterations : 10000;
    if (!x || x->ctx->error) return cj__fit_failed(x);
    if (!(lambda >= 0 && isfinite(lambda))) cj__error(x->ctx, CJ_EVALUE, "lasso: lambda %g; it must be finite and not negative", lambda);
    if (x->ctx->error || !cj__limits_ok(x->ctx, "lasso", o.iterations, o.tolerance) ||
        !moments_open(&m, "lasso", x, y, !o.no_bias, 4 * d + 1))
        return cj__fit_failed(x);
    double *w = m.rest, *p = w + d + 1, change = INFINITY, t = 1;
    if (!o.proximal) memcpy(p, m.q, (size_t)d * sizeof *p);
    while (k < o.iterations && change > o.tolerance && cj__cancel_check(x->ctx)) {
        change = o.proximal ? fista(&m, lambda, w, p, &t) : coordinates(&m, lambda, w, p);
        k++;
    }
    m.e.columns = d + !o.no_bias;
    w[d] = m.mean_y - cj__dot(m.mean, w, d);
    cj_fit f = cj__fit_of(&m.e, w, 0);
    f.iterations = k, f.converged = change <= o.tolerance;
    cj__examples_close(&m.e);
    return f;
}

/* ---- selection ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* Mean squared residual of the best weights on the columns that are `in`; scratch [d, d] and [d]. Columns that others explain add nothing. */
static double residual(const moments *m, const bool *in, double *a, double *b)
{
    int64_t d = m->e.d, k = 0;
    double fit = 0;
    for (int64_t i = 0; i < d; i++) {
        if (!in[i]) continue;
        int64_t l = 0;
        for (int64_t j = 0; j < d; j++)
            if (in[j]) a[k * d + l++] = m->g[i * d + j];
        b[k++] = m->q[i];
    }
    for (int64_t i = 0; i < k; i++) { /* Cholesky in place, forwards: |L⁻¹ q|² is what the columns explain */
        double diagonal = a[i * d + i];
        for (int64_t j = 0; j < i; j++) diagonal -= a[i * d + j] * a[i * d + j];
        bool spent = diagonal <= 1e-12 * a[i * d + i];
        double root = spent ? 0 : sqrt(diagonal);
        for (int64_t r = i + 1; r < k; r++) {
            double s = a[r * d + i];
            for (int64_t j = 0; j < i; j++) s -= a[r * d + j] * a[i * d + j];
            a[r * d + i] = spent ? 0 : s / root;
        }
        for (int64_t j = 0; j < i; j++) b[i] -= a[i * d + j] * b[j];
        b[i] = spent ? 0 : b[i] / root;
        fit += b[i] * b[i];
    }
    return fmax(m->yy - fit, 0);
}

typedef struct selection {
    moments m;
    double *a, *b;
    bool *in;
} selection;

static bool selection_open(selection *s, const char *op, cj_tensor *x, cj_tensor *y, const cj_selection *want)
{
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0;
    if (x && !x->ctx->error && want && (!want->order || want->count < 0 || want->count > d))
        return cj__error(x->ctx, CJ_EVALUE, "%s: %lld of %lld columns into %s", op, (long long)want->count, (long long)d,
                         want->order ? "an order" : "NULL");
    if (!moments_open(&s->m, op, x, y, true, d * d + 2 * d)) return false;
    s->a = s->m.rest, s->b = s->a + d * d, s->in = (bool *)(s->b + d);
    return true;
}

/* The column whose change of side leaves the least residual. */
static int64_t best_change(selection *s, bool from, double *least)
{
    int64_t best = -1;
    *least = INFINITY;
    for (int64_t j = 0; j < s->m.e.d; j++) {
        if (s->in[j] != from) continue;
        s->in[j] = !from;
        double r = residual(&s->m, s->in, s->a, s->b);
        s->in[j] = from;
        if (r < *least) *least = r, best = j;
    }
    return best;
}

bool cj_forward_selection(cj_tensor *x, cj_tensor *y, cj_selection *want)
{
    selection s;
    if (!want || !selection_open(&s, "forward_selection", x, y, want)) return false;
    if (want->residual) want->residual[0] = s.m.yy;
    for (int64_t k = 0; k < want->count && cj__cancel_check(x->ctx); k++) {
        double least;
        int64_t j = best_change(&s, false, &least);
        s.in[j] = true;
        want->order[k] = j;
        if (want->residual) want->residual[k + 1] = least;
    }
    cj__examples_close(&s.m.e);
    return !x->ctx->error;
}

bool cj_backward_selection(cj_tensor *x, cj_tensor *y, cj_selection *want)
{
    selection s;
    if (!want || !selection_open(&s, "backward_selection", x, y, want)) return false;
    int64_t d = s.m.e.d, kept = d;
    for (int64_t j = 0; j < d; j++) s.in[j] = true;
    if (want->residual) want->residual[d] = residual(&s.m, s.in, s.a, s.b);
    while (kept > 0 && cj__cancel_check(x->ctx)) { /* to the end, so that what is kept is in order too */
        double least;
        int64_t j = best_change(&s, true, &least);
        s.in[j] = false;
        want->order[--kept] = j;
        if (want->residual) want->residual[kept] = least;
    }
    cj__examples_close(&s.m.e);
    return !x->ctx->error;
}

cj_tensor *cj_variable_importance(cj_tensor *x, cj_tensor *y)
{
    selection s;
    if (!selection_open(&s, "variable_importance", x, y, NULL)) return x ? x->ctx->poison : NULL;
    int64_t d = s.m.e.d;
    for (int64_t j = 0; j < d; j++) s.in[j] = true;
    double full = residual(&s.m, s.in, s.a, s.b);
    double *out = s.m.mean; /* needed no more */
    for (int64_t j = 0; j < d; j++) {
        s.in[j] = false;
        out[j] = residual(&s.m, s.in, s.a, s.b) - full;
        s.in[j] = true;
    }
    cj_tensor *t = cj_cast(cj_from_f64(x->ctx, out, CJ_SHAPE(d)), s.m.e.dtype);
    cj__examples_close(&s.m.e);
    return t;
}
