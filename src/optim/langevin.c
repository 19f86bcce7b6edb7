/* Gradients with noise on purpose: Langevin's dynamics, annealing, and Entropy-SGD (Chaudhari and others 2017).
 *
 *   x -= eta grad f(x) + sqrt(2 eta T) xi         stationary as e^(-f/T) for small eta; SGD with batches of b behaves like T = eta / (2 b)
 */
#include <math.h>

#include "optim/objective.h"

bool cj_langevin(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_langevin_opts *opts)
{
    cj_langevin_opts o = opts ? *opts : (cj_langevin_opts){ 0 };
    cj__objective ob = { .name = "langevin", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    o.step = cj__value_or(o.step, 0.01);
    o.temperature = cj__value_or(o.temperature, 1);
    if (!c || c->error || !cj__step_ok(c, ob.name, o.step) || !cj__limits_ok(c, ob.name, o.iterations, 0)) return false;
    if (!(o.temperature >= 0 && isfinite(o.temperature)) || !(o.batch >= 0))
        return cj__error(c, CJ_EVALUE, "langevin: temperature %g and batch %g must not be negative", o.temperature, o.batch);
    o.iterations = o.iterations ? o.iterations : 1000;
    if (!cj__objective_open(&ob, 3, 0)) return false;
    int64_t size = ob.size, t = 0;
    double *w = ob.memory, *g = w + size, *noise = g + size, f = NAN;
    for (; t < o.iterations && !c->error; t++) {
        double eta = o.rate ? cj_rate_at(o.rate, t) : o.step, temperature = o.batch > 0 ? eta / (2 * o.batch) : o.temperature;
        if (!(eta >= 0 && isfinite(eta))) {
            cj__error(c, CJ_EVALUE, "langevin: the schedule gives the rate %g at step %lld", eta, (long long)t);
            break;
        }
        f = cj__objective_at(&ob, w, g);
        if (!cj__finite(&ob, f, g, t) || !cj__normal(c, noise, size)) break;
        for (int64_t i = 0; i < size; i++) w[i] -= eta * g[i] + sqrt(2 * eta * temperature) * noise[i];
        if (o.visit) o.visit(o.seen, t, w, size);
    }
    if (!c->error) f = cj__objective_at(&ob, w, g);
    if (out) *out = (cj_solution){ .value = f, .gradient = cj__largest(g, size), .iterations = t, .evaluations = ob.evaluations };
    return cj__objective_close(&ob, w);
}

bool cj_entropy_sgd(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_entropy_sgd_opts *opts)
{
    cj_entropy_sgd_opts o = opts ? *opts : (cj_entropy_sgd_opts){ 0 };
    cj__objective ob = { .name = "entropy_sgd", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    o.step = cj__value_or(o.step, 0.1);
    o.inner_step = cj__value_or(o.inner_step, 0.1);
    o.scope = cj__value_or(o.scope, 1);
    o.temperature = cj__value_or(o.temperature, 1e-4);
    if (!c || c->error || !cj__step_ok(c, ob.name, o.step) || !cj__step_ok(c, ob.name, o.inner_step) ||
        !cj__limits_ok(c, ob.name, o.iterations, 0))
        return false;
    if (!(o.scope > 0 && isfinite(o.scope)) || !(o.temperature >= 0 && isfinite(o.temperature)) || o.inner < 0)
        return cj__error(c, CJ_EVALUE, "entropy_sgd: scope %g must be positive, temperature %g and %lld inner steps not negative", o.scope,
                         o.temperature, (long long)o.inner);
    o.iterations = o.iterations ? o.iterations : 100;
    o.inner = o.inner ? o.inner : 20;
    if (!cj__objective_open(&ob, 5, 0)) return false;
    int64_t size = ob.size, t = 0;
    double *w = ob.memory, *near = w + size, *mean = near + size, *g = mean + size, *noise = g + size, f = NAN;
    for (; t < o.iterations && !c->error; t++) {
        memcpy(near, w, (size_t)size * sizeof *w);
        memset(mean, 0, (size_t)size * sizeof *mean);
        int64_t begin = o.inner / 4;
        for (int64_t k = 0; k < o.inner; k++) {
            f = cj__objective_at(&ob, near, g);
            if (!cj__finite(&ob, f, g, t) || !cj__normal(c, noise, size)) break;
            for (int64_t i = 0; i < size; i++) {
                near[i] -= o.inner_step * (g[i] + o.scope * (near[i] - w[i])) + sqrt(2 * o.inner_step * o.temperature) * noise[i];
                if (k >= begin) mean[i] += near[i] / (double)(o.inner - begin);
            }
        }
        for (int64_t i = 0; i < size && !c->error; i++) w[i] -= o.step * o.scope * (w[i] - mean[i]);
    }
    if (!c->error) f = cj__objective_at(&ob, w, g);
    if (out) *out = (cj_solution){ .value = f, .gradient = cj__largest(g, size), .iterations = t, .evaluations = ob.evaluations };
    return cj__objective_close(&ob, w);
}
