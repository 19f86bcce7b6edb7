/* Proximal gradient: ISTA and FISTA (soft threshold), projection onto a ball or a box. */
#include <math.h>

#include "optim/objective.h"

static void prox(const cj_proximal_opts *o, double *w, int64_t n)
{
    double t = o->step * o->weight, norm;
    switch (o->prox) {
    case CJ_PROX_BALL:
        norm = sqrt(cj__dot(w, w, n));
        for (int64_t i = 0; i < n && norm > o->radius; i++) w[i] *= o->radius / norm;
        break;
    case CJ_PROX_BOX:
        for (int64_t i = 0; i < n; i++) w[i] = fmin(fmax(w[i], o->low), o->high);
        break;
    default: /* sign(w) max(|w| - t, 0) */
        for (int64_t i = 0; i < n; i++) w[i] = w[i] > t ? w[i] - t : w[i] < -t ? w[i] + t : 0;
    }
}

static bool opts_ok(cj_ctx *c, const cj_proximal_opts *o)
{
    if (!c || c->error) return false;
    if (!cj__step_ok(c, "proximal", o->step)) return false;
    if (o->prox == CJ_PROX_L1 && !(o->weight >= 0))
        return cj__error(c, CJ_EVALUE, "proximal: weight %g; it must not be negative", o->weight);
    if (o->prox == CJ_PROX_BALL && !(o->radius >= 0))
        return cj__error(c, CJ_EVALUE, "proximal: radius %g; it must not be negative", o->radius);
    if (o->prox == CJ_PROX_BOX && !(o->low <= o->high))
        return cj__error(c, CJ_EVALUE, "proximal: the box [%g, %g] is empty", o->low, o->high);
    return cj__limits_ok(c, "proximal", o->iterations, o->tolerance);
}

bool cj_proximal(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_proximal_opts *opts)
{
    cj_proximal_opts o = opts ? *opts : (cj_proximal_opts){ 0 };
    cj__objective ob = { .name = "proximal", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    o.iterations = o.iterations == 0 ? 1000 : o.iterations;
    o.tolerance = cj__value_or(o.tolerance, 1e-10);
    if (!opts_ok(c, &o) || !cj__objective_open(&ob, 4, 0)) return false;
    int64_t size = ob.size, k = 0;
    double *w = ob.memory, *ahead = w + size, *g = ahead + size,
           *next = g + size; /* gradients are taken at ahead: w itself without acceleration */
    double f = NAN, moved = INFINITY, t = 1;
    memcpy(ahead, w, (size_t)size * sizeof *w);
    for (; k < o.iterations && moved > o.tolerance; k++) {
        f = cj__objective_at(&ob, ahead, g);
        if (!cj__finite(&ob, f, g, k)) break;
        for (int64_t i = 0; i < size; i++) next[i] = ahead[i] - o.step * g[i];
        prox(&o, next, size);
        double grown = (1 + sqrt(1 + 4 * t * t)) / 2, beyond = o.accelerate ? (t - 1) / grown : 0;
        moved = 0;
        for (int64_t i = 0; i < size; i++) {
            double change = next[i] - w[i];
            moved = fmax(moved, fabs(change) / o.step);
            ahead[i] = next[i] + beyond * change;
            w[i] = next[i];
        }
        t = grown;
    }
    if (!c->error) f = cj__objective_at(&ob, w, NULL);
    if (out)
        *out = (cj_solution){
            .value = f, .gradient = moved, .iterations = k, .evaluations = ob.evaluations, .converged = moved <= o.tolerance
        };
    return cj__objective_close(&ob, w);
}
