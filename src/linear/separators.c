/* Separating hyperplanes: Rosenblatt's perceptron, the separator of largest margin, and how many ways there are to separate points (Cover 1965). */
#include <math.h>

#include "linear/linear.h"

static bool signs_ok(const char *op, const cj__examples *e)
{
    for (int64_t i = 0; i < e->n; i++)
        if (e->y[i] != 1 && e->y[i] != -1)
            return cj__error(e->c, CJ_EVALUE, "%s: target %lld is %g; -1 or 1 expected", op, (long long)i, e->y[i]);
    return true;
}

static cj_separator failed(const cj_tensor *x)
{
    cj_tensor *none = x ? x->ctx->poison : NULL;
    return (cj_separator){ .weight = none, .alpha = none, .margin = NAN };
}

static cj_separator separator_of(const cj__examples *e, const double *w, double bias, const double *alpha)
{
    cj_ctx *c = e->c;
    double least = INFINITY, length = sqrt(cj__dot(w, w, e->d));
    for (int64_t i = 0; i < e->n; i++) least = fmin(least, e->y[i] * (cj__dot(e->x + i * e->d, w, e->d) + bias));
    if (c->error) return (cj_separator){ .weight = c->poison, .alpha = c->poison, .margin = NAN };
    return (cj_separator){ .weight = cj_from_f64(c, w, CJ_SHAPE(e->d)),
                           .bias = bias,
                           .alpha = cj_from_f64(c, alpha, CJ_SHAPE(e->n)),
                           .margin = length > 0 ? least / length : 0,
                           .separated = least > 0 };
}

/* Where the next example comes from. */
static bool draw(cj_ctx *c, int64_t n, int64_t *out, int64_t count)
{
    cj_scope s = cj_scope_open(c);
    bool ok = cj_to_i64(cj_randint(c, 0, n, CJ_SHAPE(count), &(cj_random_opts){ .stream = CJ_STREAM_DATA }), out, count);
    cj_scope_close(s);
    return ok;
}

static bool any_wrong(const cj__examples *e, const double *w)
{
    for (int64_t i = 0; i < e->n; i++)
        if (!(e->y[i] * cj__dot(e->x + i * e->d, w, e->d) > 0)) return true;
    return false;
}

cj_separator cj_perceptron(cj_tensor *x, cj_tensor *y, const cj_perceptron_opts *opts)
{
    cj_perceptron_opts o = opts ? *opts : (cj_perceptron_opts){ 0 };
    cj__examples e;
    enum { BLOCK = 256 };
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0, n = x && x->ndim == 2 ? x->shape[0] : 0, updates = 0, clean = 0, drawn[BLOCK] = { 0 };
    if (x && !x->ctx->error && (o.updates < 0 || o.passes < 0))
        cj__error(x->ctx, CJ_EVALUE, "perceptron: %lld updates in %lld passes must not be negative", (long long)o.updates,
                  (long long)o.passes);
    if (!cj__examples_open(&e, "perceptron", x, y, false, d + n)) return failed(x);
    n = e.n;
    double *w = e.more, *alpha = w + d;
    o.updates = o.updates ? o.updates : 100000;
    bool ok = signs_ok("perceptron", &e);
    /* in order, it ends after n examples without a mistake; drawn ones may repeat, so that all are looked at when n in a row were right */
    for (int64_t t = 0; ok && updates < o.updates && (!o.passes || t < o.passes * n); t++) {
        if (t % BLOCK == 0 && !(cj__cancel_check(e.c) && (!o.random || draw(e.c, n, drawn, BLOCK)))) break;
        int64_t i = o.random ? drawn[t % BLOCK] : t % n;
        const double *row = e.x + i * d;
        if (e.y[i] * cj__dot(row, w, d) <= 0) {
            if (o.visit) o.visit(o.seen, updates, w, i);
            cj__axpy(e.y[i], row, w, d);
            alpha[i]++, updates++, clean = 0;
        } else if (++clean >= n) {
            if (!o.random || !any_wrong(&e, w)) break;
            clean = 0;
        }
    }
    cj_separator s = separator_of(&e, w, 0, alpha);
    s.updates = updates;
    cj__examples_close(&e);
    return s;
}

/* ---- largest margin -------------------------------------------------------------------------------------------------------------------------------------- */

/* Dual: max sum alpha - 1/2 |w|², w = sum alpha_i y_i x_i, sum alpha_i y_i = 0, alpha >= 0.  With F_i = y_i - w·x_i the optimum has max F over the examples whose alpha_i y_i may grow
 * equal to min F over those whose alpha_i y_i may shrink: the pair that violates this most is moved to its own optimum. */
cj_separator cj_hard_margin(cj_tensor *x, cj_tensor *y, const cj_hard_margin_opts *opts)
{
    cj__examples e;
    double tolerance = cj__value_or(opts ? opts->tolerance : 0, 1e-10);
    int64_t most = opts && opts->iterations ? opts->iterations : 1000000, t = 0;
    int64_t d = x && x->ndim == 2 ? x->shape[1] : 0, n = x && x->ndim == 2 ? x->shape[0] : 0;
    if (!x || x->ctx->error || !cj__limits_ok(x->ctx, "hard_margin", most, tolerance)) return failed(x);
    if (!cj__examples_open(&e, "hard_margin", x, y, false, d + n)) return failed(x);
    double *w = e.more, *alpha = w + d, high = 0, low = 0;
    bool ok = signs_ok("hard_margin", &e), positive = false, negative = false;
    for (int64_t i = 0; i < n; i++) *(e.y[i] > 0 ? &positive : &negative) = true;
    if (ok && !(positive && negative)) ok = cj__error(e.c, CJ_EVALUE, "hard_margin: all targets are alike");
    for (; ok && t < most; t++) {
        int64_t up = -1, down = -1;
        if (t % 256 == 0 && !cj__cancel_check(e.c)) break;
        for (int64_t i = 0; i < n; i++) {
            double f = e.y[i] - cj__dot(e.x + i * d, w, d);
            if ((e.y[i] > 0 || alpha[i] > 0) && (up < 0 || f > high)) up = i, high = f;
            if ((e.y[i] < 0 || alpha[i] > 0) && (down < 0 || f < low)) down = i, low = f;
        }
        if (up < 0 || down < 0 || high - low <= tolerance) break;
        double curvature = 0, step;
        for (int64_t k = 0; k < d; k++) curvature += (e.x[up * d + k] - e.x[down * d + k]) * (e.x[up * d + k] - e.x[down * d + k]);
        if (!(curvature > 0)) break; /* one point with two targets */
        step = (high - low) / curvature;
        if (e.y[up] < 0) step = fmin(step, alpha[up]);
        if (e.y[down] > 0) step = fmin(step, alpha[down]);
        alpha[up] = fmax(alpha[up] + e.y[up] * step, 0);
        alpha[down] = fmax(alpha[down] - e.y[down] * step, 0);
        cj__axpy(step, e.x + up * d, w, d);
        cj__axpy(-step, e.x + down * d, w, d);
        if (cj__dot(w, w, d) > 1e24) break; /* it grows for ever where nothing separates */
    }
    cj_separator s = separator_of(&e, w, (high + low) / 2, alpha);
    s.updates = t;
    s.separated = s.separated && high - low <= fmax(tolerance, 1e-6);
    cj__examples_close(&e);
    return s;
}

double cj_cover_count(int64_t s, int64_t n)
{
    double sum = 0, choose = 1;
    for (int64_t i = 0; i < n && i < s; i++) sum += choose, choose = choose * (double)(s - 1 - i) / (double)(i + 1);
    return s < 1 || n < 0 ? NAN : 2 * sum;
}
