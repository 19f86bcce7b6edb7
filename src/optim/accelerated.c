/* Momentum over the full batch: Nesterov's method and the heavy ball, with the momenta that theory gives; and gradient flow, which both imitate.
 *
 *   y = x + rho (x - x before),   x = y - eta grad f(y)      (Nesterov 1983)      rho = (t - 1)/(t + 2), or (sqrt k - 1)/(sqrt k + 1)
 *   x = y - eta grad f(x)                                    (Polyak 1964)
 *   dx/dt = -grad f(x)                                       Euler's rule is gradient descent
 */
#include <math.h>

#include "optim/objective.h"

double cj_momentum_convex(int64_t t) { return t < 1 ? NAN : (double)(t - 1) / (double)(t + 2); }
double cj_momentum_strongly_convex(double condition)
{
    double root = sqrt(condition);
    return condition >= 1 ? (root - 1) / (root + 1) : NAN;
}

bool cj_accelerated(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_accelerated_opts *opts)
{
    cj_accelerated_opts o = opts ? *opts : (cj_accelerated_opts){ 0 };
    cj__objective ob = { .name = "accelerated", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    if (!c || c->error || !cj__step_ok(c, ob.name, o.step) ||
        !cj__limits_ok(c, ob.name, o.iterations, o.tolerance == CJ_ZERO ? 0 : o.tolerance))
        return false;
    if (o.momentum != CJ_ZERO && !(o.momentum >= 0 && o.momentum < 1))
        return cj__error(c, CJ_EVALUE, "accelerated: momentum %g; it must be in [0, 1)", o.momentum);
    o.iterations = o.iterations ? o.iterations : 100;
    o.tolerance = cj__value_or(o.tolerance, 1e-8);
    if (!cj__objective_open(&ob, 4, 0)) return false;
    int64_t size = ob.size, t = 0;
    double *w = ob.memory, *before = w + size, *ahead = before + size, *g = ahead + size, f = NAN;
    memcpy(before, w, (size_t)size * sizeof *w);
    bool converged = false;
    for (; t < o.iterations && !c->error; t++) {
        double rho = o.momentum == 0 ? cj_momentum_convex(t + 1) : cj__value_or(o.momentum, 0);
        for (int64_t i = 0; i < size; i++) ahead[i] = w[i] + rho * (w[i] - before[i]);
        f = cj__objective_at(&ob, o.heavy_ball ? w : ahead, g);
        if (!cj__finite(&ob, f, g, t)) break;
        converged = cj__largest(g, size) <= o.tolerance;
        if (converged) break;
        for (int64_t i = 0; i < size; i++) before[i] = w[i], w[i] = ahead[i] - o.step * g[i];
    }
    if (!c->error) f = cj__objective_at(&ob, w, g);
    if (out)
        *out = (cj_solution){
            .value = f, .gradient = cj__largest(g, size), .iterations = t, .evaluations = ob.evaluations, .converged = converged
        };
    return cj__objective_close(&ob, w);
}

/* w + h · slope at `from`, into `to`; d gets the slope -g. */
static bool flow_step(cj__objective *ob, const double *from, const double *w, double h, double *d, double *to, double *f, int64_t k)
{
    *f = cj__objective_at(ob, from, d);
    if (!cj__finite(ob, *f, d, k)) return false;
    for (int64_t i = 0; i < ob->size; i++) d[i] = -d[i];
    for (int64_t i = 0; i < ob->size && to; i++) to[i] = w[i] + h * d[i];
    return true;
}

bool cj_gradient_flow(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, double time, cj_solution *out, const cj_flow_opts *opts)
{
    cj_flow_opts o = opts ? *opts : (cj_flow_opts){ 0 };
    cj__objective ob = { .name = "gradient_flow", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    if (!c || c->error) return false;
    if (!(time >= 0 && isfinite(time)) || o.steps < 0)
        return cj__error(c, CJ_EVALUE, "gradient_flow: time %g in %lld steps; both must be finite and not negative", time,
                         (long long)o.steps);
    o.steps = o.steps ? o.steps : 100;
    if (!cj__objective_open(&ob, 6, 0)) return false;
    int64_t size = ob.size, k = 0;
    double *w = ob.memory, *at = w + size, *d[4], h = time / (double)o.steps, f = NAN;
    for (int i = 0; i < 4; i++) d[i] = at + (i + 1) * size;
    bool ok = true;
    for (; k < o.steps && ok; k++) {
        if (o.euler) {
            ok = flow_step(&ob, w, w, h, d[0], at, &f, k);
            if (ok) memcpy(w, at, (size_t)size * sizeof *w);
            continue;
        }
        ok = flow_step(&ob, w, w, h / 2, d[0], at, &f, k) && flow_step(&ob, at, w, h / 2, d[1], at, &f, k) &&
             flow_step(&ob, at, w, h, d[2], at, &f, k) && flow_step(&ob, at, w, 0, d[3], NULL, &f, k);
        for (int64_t i = 0; i < size && ok; i++) w[i] += h / 6 * (d[0][i] + 2 * d[1][i] + 2 * d[2][i] + d[3][i]);
    }
    if (!c->error) f = cj__objective_at(&ob, w, d[0]);
    if (out) *out = (cj_solution){ .value = f, .gradient = cj__largest(d[0], size), .iterations = k, .evaluations = ob.evaluations };
    return cj__objective_close(&ob, w);
}
