/* Generalised linear models with canonical links by Newton's method; softmax regression; many classes from models of two.
 *
 * With the canonical link the loss of an example is A(z) - y z, so that d loss / dz = A'(z) - y = mean - y, and the Hessian is xᵀ diag(A''(z)) x: a Newton step solves a
 * weighted least-squares problem.
 */
#include <math.h>

#include "linear/linear.h"

static const char *const family_name[] = { "gaussian", "bernoulli", "poisson", "exponential" };

static bool family_ok(cj_ctx *c, const char *op, cj_glm_family f)
{
    return (f >= CJ_GLM_GAUSSIAN && f <= CJ_GLM_EXPONENTIAL) || cj__error(c, CJ_EVALUE, "%s: family %d is none", op, (int)f);
}

cj_tensor *cj_glm_mean(cj_glm_family family, cj_tensor *z)
{
    if (!z || z->ctx->error || !family_ok(z->ctx, "glm_mean", family)) return z ? z->ctx->poison : NULL;
    switch (family) {
    case CJ_GLM_BERNOULLI: return cj_sigmoid(z);
    case CJ_GLM_POISSON: return cj_exp(z);
    case CJ_GLM_EXPONENTIAL: return cj_neg(cj_reciprocal(z));
    default: return z;
    }
}

cj_tensor *cj_glm_loss(cj_glm_family family, cj_tensor *z, cj_tensor *y)
{
    if (!z || z->ctx->error || !family_ok(z->ctx, "glm_loss", family)) return z ? z->ctx->poison : NULL;
    cj_tensor *a = cj_mul_scalar(cj_square(z), 0.5);
    if (family == CJ_GLM_BERNOULLI) a = cj_softplus(z);
    if (family == CJ_GLM_POISSON) a = cj_exp(z);
    if (family == CJ_GLM_EXPONENTIAL) a = cj_neg(cj_log(cj_neg(z)));
    return cj_sub(a, cj_mul(z, y));
}

/* A(z), A'(z), A''(z) of one number */
typedef struct cumulant {
    double value, mean, variance;
} cumulant;

static cumulant cumulant_at(cj_glm_family family, double z)
{
    double p;
    switch (family) {
    case CJ_GLM_BERNOULLI: p = 1 / (1 + exp(-z)); return (cumulant){ fmax(z, 0) + log1p(exp(-fabs(z))), p, p * (1 - p) };
    case CJ_GLM_POISSON: p = exp(z); return (cumulant){ p, p, p };
    case CJ_GLM_EXPONENTIAL: return (cumulant){ z < 0 ? -log(-z) : INFINITY, -1 / z, 1 / (z * z) };
    default: return (cumulant){ z * z / 2, z, 1 };
    }
}

static bool glm_opts(cj_tensor *x, const char *op, const cj_glm_opts *opts, cj_glm_opts *o)
{
    *o = opts ? *opts : (cj_glm_opts){ 0 };
    if (!x || x->ctx->error) return false;
    o->tolerance = cj__value_or(o->tolerance, 1e-10);
    o->iterations = o->iterations ? o->iterations : 100;
    if (!(o->ridge >= 0 && isfinite(o->ridge)))
        return cj__error(x->ctx, CJ_EVALUE, "%s: ridge %g; it must be finite and not negative", op, o->ridge);
    return cj__limits_ok(x->ctx, op, o->iterations, o->tolerance);
}

/* Sum of the losses at w, with the penalty; where g is not NULL also gradient and Hessian. */
static double glm_at(const cj__examples *e, cj_glm_family family, double ridge, const double *w, double *g, double *h)
{
    int64_t k = e->columns;
    double loss = ridge / 2 * cj__dot(w, w, e->d);
    for (int64_t j = 0; j < k && g; j++) g[j] = j < e->d ? ridge * w[j] : 0;
    for (int64_t j = 0; j < k * k && g; j++) h[j] = j % (k + 1) == 0 && j / k < e->d ? ridge : 0;
    for (int64_t i = 0; i < e->n; i++) {
        const double *row = e->x + i * k;
        double z = cj__dot(row, w, k);
        cumulant a = cumulant_at(family, z);
        loss += a.value - e->y[i] * z;
        if (!g) continue;
        cj__axpy(a.mean - e->y[i], row, g, k);
        for (int64_t j = 0; j < k; j++) cj__axpy(a.variance * row[j], row, h + j * k, k);
    }
    return loss;
}

/* w += d, halved until the loss falls or rounding ends it. */
typedef double loss_fn(const void *user, const double *w);
static bool damped_step(loss_fn *loss, const void *user, double before, const double *d, double *w, double *trial, int64_t n)
{
    double s = 1;
    while (s > 1e-10) {
        for (int64_t i = 0; i < n; i++) trial[i] = w[i] + s * d[i];
        if (loss(user, trial) <= before + 1e-12 * fabs(before)) {
            memcpy(w, trial, (size_t)n * sizeof *w);
            return true;
        }
        s /= 2;
    }
    return false;
}

typedef struct glm_problem {
    const cj__examples *e;
    cj_glm_family family;
    double ridge;
} glm_problem;
static double glm_loss_only(const void *user, const double *w)
{
    const glm_problem *p = user;
    return glm_at(p->e, p->family, p->ridge, w, NULL, NULL);
}

static bool targets_ok(const cj__examples *e, cj_glm_family family)
{
    for (int64_t i = 0; i < e->n; i++) {
        double y = e->y[i];
        bool fits = family == CJ_GLM_GAUSSIAN || (y >= 0 && (family != CJ_GLM_BERNOULLI || y <= 1));
        if (!fits)
            return cj__error(e->c, CJ_EVALUE, "glm: target %lld is %g; the %s family has %s", (long long)i, y, family_name[family],
                             family == CJ_GLM_BERNOULLI ? "[0, 1]" : "no negative ones");
    }
    return true;
}

/* All examples strictly on their side: the likelihood grows for ever along w. */
static bool separates(const cj__examples *e, const double *w)
{
    for (int64_t i = 0; i < e->n; i++)
        if (!((2 * e->y[i] - 1) * cj__dot(e->x + i * e->columns, w, e->columns) > 0)) return false;
    return true;
}

/* The exponential family begins inside its domain: z_i as near to -1 / mean(y) as linear functions come. */
static bool start(const cj__examples *e, cj_glm_family family, double *w, double *h)
{
    int64_t k = e->columns;
    double mean = 0;
    if (family != CJ_GLM_EXPONENTIAL) return true;
    for (int64_t i = 0; i < e->n; i++) mean += e->y[i] / (double)e->n;
    memset(h, 0, (size_t)(k * k) * sizeof *h);
    for (int64_t i = 0; i < e->n; i++) {
        const double *row = e->x + i * k;
        cj__axpy(-1 / mean, row, w, k);
        for (int64_t j = 0; j < k; j++) cj__axpy(row[j], row, h + j * k, k);
    }
    return (cj__solve(h, w, k) && isfinite(glm_at(e, family, 0, w, NULL, NULL))) ||
           cj__error(e->c, CJ_EVALUE, "glm: no weights with negative z were found to start the exponential family from");
}

cj_fit cj_glm(cj_glm_family family, cj_tensor *x, cj_tensor *y, const cj_glm_opts *opts)
{
    cj_glm_opts o;
    cj__examples e;
    if (!glm_opts(x, "glm", opts, &o) || !family_ok(x->ctx, "glm", family)) return cj__fit_failed(x);
    int64_t k = (x->ndim == 2 ? x->shape[1] : 0) + 1, t = 0;
    if (!cj__examples_open(&e, "glm", x, y, !o.no_bias, 3 * k + k * k)) return cj__fit_failed(x);
    double *w = e.more, *g = w + k, *trial = g + k, *h = trial + k;
    bool converged = false, ok = targets_ok(&e, family) && start(&e, family, w, h);
    const glm_problem problem = { &e, family, o.ridge };
    k = e.columns;
    for (; ok && t < o.iterations && cj__cancel_check(e.c); t++) {
        double loss = glm_at(&e, family, o.ridge, w, g, h);
        converged = cj__largest(g, k) <= o.tolerance * (double)e.n;
        if (converged) break;
        for (int64_t j = 0; j < k; j++) g[j] = -g[j], h[j * k + j] += 1e-14 * (1 + h[j * k + j]); /* columns that others explain */
        if (!cj__solve(h, g, k) || !damped_step(glm_loss_only, &problem, loss, g, w, trial, k)) break;
    }
    if (ok && family == CJ_GLM_BERNOULLI && o.ridge == 0 && separates(&e, w)) converged = false;
    cj_fit f = cj__fit_of(&e, w, 0);
    f.iterations = t, f.converged = converged;
    cj__examples_close(&e);
    return f;
}

cj_fit cj_logistic_regression(cj_tensor *x, cj_tensor *y, const cj_glm_opts *opts) { return cj_glm(CJ_GLM_BERNOULLI, x, y, opts); }

/* ---- softmax regression: weights [columns, classes] -------------------------------------------------------------------------------------------------- */

enum { MOST_CLASSES = 1000 };

/* Loss, and where g is not NULL gradient [k, c] and Hessian [k c, k c]; p is scratch [c].  (1/c) x xᵀ in every block of the Hessian does away with the direction of equal changes in
 * all classes, along which nothing changes; the gradient has no part in it. */
static double softmax_at(const cj__examples *e, int64_t c, double ridge, const double *w, double *p, double *g, double *h)
{
    int64_t k = e->columns, size = k * c;
    double loss = ridge / 2 * cj__dot(w, w, e->d * c);
    if (g) memset(h, 0, (size_t)(size * size) * sizeof *h);
    for (int64_t j = 0; j < size && g; j++) {
        bool bias = j / c >= e->d;
        g[j] = bias ? 0 : ridge * w[j];
        h[j * size + j] = (bias ? 0 : ridge) + 1e-12 * (double)e->n;
    }
    for (int64_t i = 0; i < e->n; i++) {
        const double *row = e->x + i * k;
        int64_t target = (int64_t)e->y[i];
        double top = -INFINITY, sum = 0; /* sum: at least 1, the largest's own */
        for (int64_t a = 0; a < c; a++) {
            p[a] = 0;
            for (int64_t j = 0; j < k; j++) p[a] += row[j] * w[j * c + a];
            top = fmax(top, p[a]);
        }
        loss -= p[target] - top;
        for (int64_t a = 0; a < c; a++) sum += p[a] = exp(p[a] - top);
        loss += log(fmax(sum, 1));
        for (int64_t a = 0; a < c && g; a++) p[a] /= sum;
        for (int64_t j = 0; j < k && g; j++) {
            for (int64_t a = 0; a < c; a++) g[j * c + a] += row[j] * (p[a] - (a == target));
            for (int64_t a = 0; a < c; a++) {
                double *out = h + (j * c + a) * size;
                for (int64_t l = 0; l < k; l++) {
                    double xx = row[j] * row[l];
                    for (int64_t b = 0; b < c; b++) out[l * c + b] += xx * (1.0 / (double)c - p[a] * p[b]);
                    out[l * c + a] += xx * p[a];
                }
            }
        }
    }
    return loss;
}

typedef struct softmax_problem {
    const cj__examples *e;
    int64_t classes;
    double ridge, *p;
} softmax_problem;
static double softmax_loss_only(const void *user, const double *w)
{
    const softmax_problem *p = user;
    return softmax_at(p->e, p->classes, p->ridge, w, p->p, NULL, NULL);
}

static bool classes_ok(const char *op, const cj__examples *e, int64_t classes)
{
    for (int64_t i = 0; i < e->n; i++)
        if (!(e->y[i] >= 0 && e->y[i] < (double)classes && e->y[i] == floor(e->y[i])))
            return cj__error(e->c, CJ_EVALUE, "%s: target %lld is %g; a class from 0 to %lld expected", op, (long long)i, e->y[i],
                             (long long)classes - 1);
    return true;
}

static bool count_ok(cj_tensor *x, const char *op, int64_t classes)
{
    return (classes >= 2 && classes <= MOST_CLASSES) ||
           cj__error(x->ctx, CJ_EVALUE, "%s: %lld classes; 2 to %d are possible", op, (long long)classes, MOST_CLASSES);
}

cj_fit cj_softmax_regression(cj_tensor *x, cj_tensor *y, int64_t classes, const cj_glm_opts *opts)
{
    static const char op[] = "softmax_regression";
    cj_glm_opts o;
    cj__examples e;
    if (!glm_opts(x, op, opts, &o) || !count_ok(x, op, classes)) return cj__fit_failed(x);
    int64_t size = ((x->ndim == 2 ? x->shape[1] : 0) + 1) * classes, t = 0;
    if (size > 16384) {
        cj__error(x->ctx, CJ_EVALUE,
                  "softmax_regression: %lld weights; Newton's method takes 16384 at most, use cj_linear and an optimiser", (long long)size);
        return cj__fit_failed(x);
    }
    if (!cj__examples_open(&e, op, x, y, !o.no_bias, 3 * size + classes + size * size)) return cj__fit_failed(x);
    double *w = e.more, *g = w + size, *trial = g + size, *p = trial + size, *h = p + classes;
    bool converged = false, ok = classes_ok(op, &e, classes);
    const softmax_problem problem = { &e, classes, o.ridge, p };
    size = e.columns * classes;
    for (; ok && t < o.iterations && cj__cancel_check(e.c); t++) {
        double loss = softmax_at(&e, classes, o.ridge, w, p, g, h);
        converged = cj__largest(g, size) <= o.tolerance * (double)e.n;
        if (converged) break;
        for (int64_t j = 0; j < size; j++) g[j] = -g[j];
        if (!cj__solve(h, g, size) || !damped_step(softmax_loss_only, &problem, loss, g, w, trial, size)) break;
    }
    for (int64_t j = 0; j < e.columns; j++) { /* they sum to 0 already, up to rounding */
        double mean = 0;
        for (int64_t a = 0; a < classes; a++) mean += w[j * classes + a] / (double)classes;
        for (int64_t a = 0; a < classes; a++) w[j * classes + a] -= mean;
    }
    cj_fit f = cj__fit_of(&e, w, classes);
    f.iterations = t, f.converged = converged;
    cj__examples_close(&e);
    return f;
}

/* ---- many classes from models of two ------------------------------------------------------------------------------------------------------------------- */

/* Logits [n] of x by a logistic model that tells class a from b, or from all others where b < 0. */
static cj_tensor *two_classes(cj_tensor *train_x, cj_tensor *train_y, int64_t a, int64_t b, cj_tensor *x, const cj_glm_opts *opts)
{
    cj_tensor *y = cj_cast(cj_eq_scalar(train_y, (double)a), CJ_F64);
    if (b >= 0) {
        cj_tensor *rows = cj_nonzero(cj_logical_or(cj_eq_scalar(train_y, (double)a), cj_eq_scalar(train_y, (double)b)));
        rows = cj_reshape(rows, CJ_SHAPE(-1));
        train_x = cj_index_select(train_x, 0, rows), y = cj_index_select(y, 0, rows);
    }
    cj_fit f = cj_logistic_regression(train_x, y, opts);
    return cj_fit_predict(&f, x);
}

static bool many_ok(const char *op, cj_tensor *train_x, cj_tensor *train_y, int64_t classes, cj_tensor *x)
{
    return cj__examples_check(op, train_x, train_y) && count_ok(train_x, op, classes) && cj__usable(train_x->ctx, op, 3, x);
}

cj_tensor *cj_one_vs_rest(cj_tensor *train_x, cj_tensor *train_y, int64_t classes, cj_tensor *x, int64_t *fits, const cj_glm_opts *opts)
{
    if (!many_ok("one_vs_rest", train_x, train_y, classes, x)) return train_x ? train_x->ctx->poison : NULL;
    cj_tensor *logits[MOST_CLASSES];
    for (int64_t a = 0; a < classes; a++) logits[a] = two_classes(train_x, train_y, a, -1, x, opts);
    if (fits) *fits = classes;
    return cj_argmax(cj_stack(logits, (int)classes, 1), &(cj_reduce_opts){ .axes = CJ_AXIS(1) });
}

cj_tensor *cj_one_vs_one(cj_tensor *train_x, cj_tensor *train_y, int64_t classes, cj_tensor *x, int64_t *fits, const cj_glm_opts *opts)
{
    if (!many_ok("one_vs_one", train_x, train_y, classes, x)) return train_x ? train_x->ctx->poison : NULL;
    cj_ctx *c = train_x->ctx;
    cj_tensor *votes[MOST_CLASSES];
    for (int64_t a = 0; a < classes; a++) votes[a] = cj_zeros(c, CJ_SHAPE(cj_size(x, 0)), CJ_F64);
    for (int64_t a = 0; a < classes && !c->error; a++)
        for (int64_t b = a + 1; b < classes && !c->error; b++) {
            cj_tensor *won = cj_cast(cj_gt_scalar(two_classes(train_x, train_y, a, b, x, opts), 0), CJ_F64);
            votes[a] = cj_add(votes[a], won);
            votes[b] = cj_add(votes[b], cj_add_scalar(cj_neg(won), 1));
        }
    if (fits) *fits = classes * (classes - 1) / 2;
    return cj_argmax(cj_stack(votes, (int)classes, 1), &(cj_reduce_opts){ .axes = CJ_AXIS(1) });
}
