/* Full-batch descent: the loop that gradient descent, (L-)BFGS, Newton and Gauss-Newton share, and gradient descent itself. */
#include <math.h>

#include "cajal/math.h"
#include "optim/objective.h"

static bool opts_ok(cj__objective *ob, const cj_solve_opts *o)
{
    cj_ctx *c = ob->ctx;
    if (!c || c->error) return false;
    if (o->iterations < 0)
        return cj__error(c, CJ_EVALUE, "%s: %lld iterations; they must not be negative", ob->name, (long long)o->iterations);
    if (!cj__step_ok(c, ob->name, o->step)) return false;
    if (!(o->tolerance >= 0 && o->damping >= 0 && o->cg_tolerance >= 0))
        return cj__error(c, CJ_EVALUE, "%s: tolerance %g, damping %g and cg_tolerance %g must not be negative", ob->name, o->tolerance,
                         o->damping, o->cg_tolerance);
    if (o->search < CJ_SEARCH_USUAL || o->search > CJ_SEARCH_BRACKET)
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
        if (!cj__finite(ob, f, g, m->done)) break;
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

/* Gradient descent: d = -P g, P = G^(-1/2) where there is a metric G. */
typedef struct steepest {
    cj__method m;
    const double *p; /* [size] or [size, size], or NULL */
    bool diagonal;
} steepest;

static bool downhill(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    steepest *self = (steepest *)m;
    (void)w;
    for (int64_t i = 0; i < ob->size; i++)
        d[i] = !self->p ? -g[i] : self->diagonal ? -self->p[i] * g[i] : -cj__dot(self->p + i * ob->size, g, ob->size);
    return true;
}

/* G^(-1/2) as numbers, or its diagonal; NULL after an error. */
static double *inverse_root(cj_ctx *c, cj_tensor *metric, int64_t size, bool *diagonal)
{
    if (!cj__usable(c, "descent", 0, metric)) return NULL;
    *diagonal = cj_ndim(metric) == 1;
    bool fits = (*diagonal || (cj_ndim(metric) == 2 && cj_size(metric, 1) == size)) && cj_size(metric, 0) == size;
    if (!fits) {
        cj__error(c, CJ_ESHAPE, "descent: the metric is %s; [%lld] or [%lld, %lld] expected", cj__tensor_text(metric), (long long)size,
                  (long long)size, (long long)size);
        return NULL;
    }
    double *p = cj__alloc(c, (size_t)cj_numel(metric) * sizeof *p);
    cj_scope s = cj_scope_open(c);
    cj_tensor *g = cj_cast(cj_detach(metric), CJ_F64);
    if (p) cj_to_f64(*diagonal ? cj_rsqrt(g) : cj_matrix_inverse_sqrt(g), p, cj_numel(metric));
    cj_scope_close(s);
    if (p && !c->error && !isfinite(cj__largest(p, cj_numel(metric))))
        cj__error(c, CJ_EVALUE, "descent: the metric is not positive definite");
    if (c->error && p) cj__free(c, p, (size_t)cj_numel(metric) * sizeof *p), p = NULL;
    return p;
}

bool cj_descent(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    cj__objective ob = { .name = "descent", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    steepest self = { .m = { .usual = CJ_SEARCH_ARMIJO, .direction = downhill } };
    cj_tensor *metric = opts ? opts->metric : NULL;
    if (!metric) return cj__descend(&ob, &self.m, out, opts);
    if (!c || c->error) return false;
    double *p = inverse_root(c, metric, cj__total(x, n), &self.diagonal);
    if (!p) return false;
    self.p = p;
    bool ok = cj__descend(&ob, &self.m, out, opts);
    cj__free(c, p, (size_t)cj_numel(metric) * sizeof *p);
    return ok;
}
