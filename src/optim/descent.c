/* Full-batch descent: the loop that gradient descent, (L-)BFGS, Newton and Gauss-Newton share, and gradient descent itself. */
#include <math.h>

#include "optim/objective.h"

static bool opts_ok(cj__objective *ob, const cj_solve_opts *o)
{
    cj_ctx *c = ob->ctx;
    if (!c || c->error) return false;
    if (o->iterations < 0)
        return cj__error(c, CJ_EVALUE, "%s: %lld iterations; they must not be negative", ob->name, (long long)o->iterations);
    if (!(o->step > 0)) return cj__error(c, CJ_EVALUE, "%s: step %g; it must be positive", ob->name, o->step);
    if (!(o->tolerance >= 0 && o->damping >= 0 && o->cg_tolerance >= 0))
        return cj__error(c, CJ_EVALUE, "%s: tolerance %g, damping %g and cg_tolerance %g must not be negative", ob->name, o->tolerance,
                         o->damping, o->cg_tolerance);
    if (o->search < CJ_SEARCH_USUAL || o->search > CJ_SEARCH_EXACT)
        return cj__error(c, CJ_EVALUE, "%s: search %d is none", ob->name, (int)o->search);
    return true;
}

bool cj__descend(cj__objective *ob, cj__method *m, cj_solution *out, const cj_solve_opts *opts)
{
    cj_solve_opts o = opts ? *opts : (cj_solve_opts){ 0 };
    cj_ctx *c = ob->ctx;
    o.iterations = o.iterations == 0 ? 100 : o.iterations;
    o.tolerance = cj__value_or(o.tolerance, 1e-8);
    o.step = cj__value_or(o.step, 1);
    if (!opts_ok(ob, &o) || !cj__objective_open(ob, 5 + m->vectors, m->more)) return false;
    cj_search search = o.search == CJ_SEARCH_USUAL ? m->usual : o.search;
    int64_t size = ob->size;
    double *w = ob->memory, *g = w + size, *d = g + size, *trial = d + size, *next = trial + size;
    m->memory = next + size;
    bool converged = false;
    double f = cj__objective_at(ob, w, g);
    for (; !c->error; m->done++) {
        if (!isfinite(f) || !isfinite(cj__largest(g, size))) {
            cj__error(c, CJ_EVALUE, "%s: the function or its gradient is not finite after %lld iterations", ob->name, (long long)m->done);
            break;
        }
        converged = cj__largest(g, size) <= o.tolerance;
        if (converged || m->done == o.iterations) break;
        m->step = o.step;
        if (!m->direction(m, ob, w, g, d)) break;
        double slope = cj__dot(g, d, size);
        if (search != CJ_SEARCH_FIXED && !(slope < 0)) {
            cj__error(c, CJ_EVALUE, "%s: the direction has slope %g, which is not downhill", ob->name, slope);
            break;
        }
        cj__line line = { .ob = ob, .w = w, .d = d, .f = f, .slope = slope, .trial = trial, .gradient = next };
        if (cj__line_search(&line, search, m->step) == 0) break;
        for (int64_t i = 0; i < size; i++) {
            double was_w = w[i], was_g = g[i];
            w[i] = trial[i];
            g[i] = next[i];
            trial[i] = w[i] - was_w;
            next[i] = g[i] - was_g;
        }
        f = line.value;
        if (m->moved) m->moved(m, size, trial, next);
    }
    if (out)
        *out = (cj_solution){
            .value = f, .gradient = cj__largest(g, size), .iterations = m->done, .evaluations = ob->evaluations, .converged = converged
        };
    return cj__objective_close(ob, w);
}

static bool steepest(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    (void)m, (void)w;
    for (int64_t i = 0; i < ob->size; i++) d[i] = -g[i];
    return true;
}

bool cj_descent(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    cj__objective ob = { .name = "descent", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    return cj__descend(&ob, &(cj__method){ .usual = CJ_SEARCH_ARMIJO, .direction = steepest }, out, opts);
}
