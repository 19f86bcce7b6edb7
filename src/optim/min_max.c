/* Games of two players: x minimises and y maximises f(x, y).
 *
 * The field v = (df/dx, -df/dy) turns around an equilibrium of f = x·y: simultaneous steps spiral out by (1 + eta²)^(1/2) each, alternating ones stay on a closed
 * curve, extragradient and consensus steps go in.  The gradient of 1/2 |v|² is H·(df/dx, df/dy): one Hessian-vector product.
 */
#include <math.h>

#include "optim/objective.h"

/* w -= step · v on [from, to); y begins at `split`. */
static void play(double *w, const double *g, double step, int64_t from, int64_t to, int64_t split)
{
    for (int64_t i = from; i < to; i++) w[i] -= i < split ? step * g[i] : -step * g[i];
}

bool cj_min_max(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *const *y, int m, cj_solution *out,
                const cj_min_max_opts *opts)
{
    cj_min_max_opts o = opts ? *opts : (cj_min_max_opts){ 0 };
    cj_tensor *both[CJ__MAX_X];
    if (!c || c->error) return false;
    if (!x || !y || n < 1 || m < 1 || n + m > CJ__MAX_X)
        return cj__error(c, CJ_EVALUE, "min_max: %d and %d tensors; one of each at least, %d in all", x ? n : 0, y ? m : 0, CJ__MAX_X);
    for (int i = 0; i < n + m; i++) both[i] = i < n ? x[i] : y[i - n];
    cj__objective ob = { .name = "min_max", .ctx = c, .fn = fn, .user = user, .x = both, .n = n + m };
    o.step = cj__value_or(o.step, 0.1);
    o.weight = cj__value_or(o.weight, 1);
    if (!cj__step_ok(c, ob.name, o.step) || !cj__limits_ok(c, ob.name, o.iterations, o.tolerance)) return false;
    if (o.method > CJ_GAME_CONSENSUS || !(o.weight >= 0 && isfinite(o.weight)))
        return cj__error(c, CJ_EVALUE, "min_max: method %d with weight %g is none", (int)o.method, o.weight);
    o.iterations = o.iterations ? o.iterations : 100;
    int64_t split = cj__total(x, n), t = 0;
    if (!cj__objective_open(&ob, 3, 0)) return false;
    int64_t size = ob.size;
    double *w = ob.memory, *g = w + size, *more = g + size, f = NAN;
    bool converged = false;
    for (; !c->error; t++) {
        f = cj__objective_at(&ob, w, g);
        if (!cj__finite(&ob, f, g, t)) break;
        converged = cj__largest(g, size) <= o.tolerance;
        if (converged || t == o.iterations) break;
        switch (o.method) {
        case CJ_GAME_ALTERNATING:
            play(w, g, o.step, 0, split, split);
            f = cj__objective_at(&ob, w, g);
            if (cj__finite(&ob, f, g, t)) play(w, g, o.step, split, size, split);
            break;
        case CJ_GAME_EXTRAGRADIENT:
            memcpy(more, w, (size_t)size * sizeof *w);
            play(more, g, o.step, 0, size, split);
            f = cj__objective_at(&ob, more, g);
            if (cj__finite(&ob, f, g, t)) play(w, g, o.step, 0, size, split);
            break;
        case CJ_GAME_CONSENSUS:
            if (!cj__objective_hvp(&ob, w, g, more)) break;
            play(w, g, o.step, 0, size, split);
            cj__axpy(-o.step * o.weight, more, w, size);
            break;
        default: play(w, g, o.step, 0, size, split);
        }
    }
    if (out)
        *out = (cj_solution){
            .value = f, .gradient = cj__largest(g, size), .iterations = t, .evaluations = ob.evaluations, .converged = converged
        };
    return cj__objective_close(&ob, w);
}
