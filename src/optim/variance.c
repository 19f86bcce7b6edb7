/* Variance-reduced stochastic gradients: SAG (Le Roux, Schmidt and Bach 2012), SVRG (Johnson and Zhang 2013), SAGA (Defazio, Bach and Lacoste-Julien 2014).
 *
 * All three move by a stochastic gradient whose noise vanishes at the optimum, so that a fixed step converges.
 */
#include <math.h>

#include "optim/objective.h"

typedef enum kind { SAG, SAGA, SVRG } kind;

typedef struct run {
    cj__objective ob;
    cj__example e;
    int64_t examples;
    double *w, *g, *mean, *old; /* old: the gradient that is replaced; its own for SVRG */
    double *table;              /* SAG, SAGA: [examples, size]; SVRG: the snapshot */
} run;

/* The mean gradient at w; every one of them into the table if there is one. */
static bool full_gradient(run *r, const double *w, double *table)
{
    int64_t size = r->ob.size;
    memset(r->mean, 0, (size_t)size * sizeof *r->mean);
    for (int64_t i = 0; i < r->examples; i++) {
        double *g = table ? table + i * size : r->g;
        if (!cj__example_gradient(&r->ob, i, w, g)) return false;
        cj__axpy(1.0 / (double)r->examples, g, r->mean, size);
    }
    return true;
}

static bool one_step(run *r, kind how, int64_t i, double step)
{
    int64_t size = r->ob.size;
    double *stored = r->table + i * size, share = 1.0 / (double)r->examples;
    if (!cj__example_gradient(&r->ob, i, r->w, r->g)) return false;
    if (how == SVRG) {
        if (!cj__example_gradient(&r->ob, i, r->table, r->old)) return false;
        for (int64_t k = 0; k < size; k++) r->w[k] -= step * (r->g[k] - r->old[k] + r->mean[k]);
        return true;
    }
    for (int64_t k = 0; k < size; k++) {
        double change = r->g[k] - stored[k];
        if (how == SAGA) r->w[k] -= step * (change + r->mean[k]);
        r->mean[k] += share * change;
        if (how == SAG) r->w[k] -= step * r->mean[k];
        stored[k] = r->g[k];
    }
    return true;
}

static bool opts_ok(cj_ctx *c, const char *name, const cj_variance_opts *o, int64_t examples)
{
    if (!c || c->error) return false;
    if (examples < 1) return cj__error(c, CJ_EVALUE, "%s: %lld examples; there must be one at least", name, (long long)examples);
    if (!cj__step_ok(c, name, o->step)) return false;
    if (o->iterations < 0 || o->refresh < 0)
        return cj__error(c, CJ_EVALUE, "%s: %lld iterations and a refresh of %lld must not be negative", name, (long long)o->iterations,
                         (long long)o->refresh);
    return true;
}

static bool reduced(cj_ctx *c, kind how, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n,
                    const cj_variance_opts *opts)
{
    static const char *const names[] = { "sag", "saga", "svrg" };
    cj_variance_opts o = opts ? *opts : (cj_variance_opts){ 0 };
    run r = { .ob = { .name = names[how], .ctx = c, .fn = fn ? cj__example_loss : NULL, .x = x, .n = n },
              .e = { fn, user, 0 },
              .examples = examples };
    r.ob.user = &r.e;
    if (!opts_ok(c, names[how], &o, examples)) return false;
    int64_t steps = o.iterations ? o.iterations : 10 * examples, refresh = o.refresh ? o.refresh : 2 * examples;
    if (examples > INT32_MAX) return cj__error(c, CJ_EVALUE, "%s: %lld examples are too many", names[how], (long long)examples);
    if (!cj__objective_open(&r.ob, 4 + (how == SVRG ? 1 : (int)examples), 0)) return false;
    int64_t size = r.ob.size;
    r.w = r.ob.memory, r.g = r.w + size, r.mean = r.g + size, r.old = r.mean + size, r.table = r.old + size;
    bool ok = how == SVRG || full_gradient(&r, r.w, r.table);
    enum { BLOCK = 1024 };
    int64_t drawn[BLOCK];
    for (int64_t k = 0; k < steps && ok; k++) {
        if (k % BLOCK == 0) {
            cj_scope s = cj_scope_open(c);
            ok = cj_to_i64(cj_randint(c, 0, examples, CJ_SHAPE(BLOCK), &(cj_random_opts){ .stream = CJ_STREAM_DATA }), drawn, BLOCK);
            cj_scope_close(s);
        }
        if (how == SVRG && k % refresh == 0 && ok) {
            memcpy(r.table, r.w, (size_t)size * sizeof *r.w);
            ok = full_gradient(&r, r.table, NULL);
        }
        ok = ok && one_step(&r, how, drawn[k % BLOCK], o.step);
    }
    return cj__objective_close(&r.ob, r.w);
}

bool cj_saga(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts)
{
    return reduced(c, SAGA, fn, user, examples, x, n, opts);
}
bool cj_sag(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts)
{
    return reduced(c, SAG, fn, user, examples, x, n, opts);
}
bool cj_svrg(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts)
{
    return reduced(c, SVRG, fn, user, examples, x, n, opts);
}
