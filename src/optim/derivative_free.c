/* Descent without derivatives: Nelder and Mead's simplex, random search, an evolution strategy, finite differences.  They need far more evaluations than descent
 * with gradients: each tells one number, a gradient as many as there are unknowns. */
#include <math.h>

#include "optim/objective.h"

typedef struct search {
    cj__objective *ob;
    cj_derivative_free_opts o;
    double *w, *memory; /* the best point so far; the method's own */
    double f, spread;   /* there; what the tolerance is compared with */
    int64_t done;
} search;

/* f, infinite where it is not a number: such points are never kept. */
static double at(search *s, const double *w)
{
    double f = cj__objective_at(s->ob, w, NULL);
    return isnan(f) ? INFINITY : f;
}

static void copy(double *to, const double *from, int64_t n) { memcpy(to, from, (size_t)n * sizeof *to); }

/* to = centre + t (from - centre) */
static void along(double *to, const double *centre, const double *from, double t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = centre[i] + t * (from[i] - centre[i]);
}

static void nelder_mead(search *s)
{
    cj_ctx *c = s->ob->ctx;
    int64_t n = s->ob->size;
    double *p = s->memory, *value = p + (n + 1) * n, *centre = value + n + 1, *trial = centre + n, *other = trial + n;
    for (int64_t i = 0; i <= n; i++) {
        copy(p + i * n, s->w, n);
        if (i > 0) p[i * n + i - 1] += s->o.step;
        value[i] = at(s, p + i * n);
    }
    for (; s->done < s->o.iterations && !c->error; s->done++) {
        int64_t best = 0, worst = 0, second = 0;
        for (int64_t i = 1; i <= n; i++) {
            if (value[i] < value[best]) best = i;
            if (value[i] >= value[worst]) second = worst, worst = i;
            else if (second == worst || value[i] > value[second]) second = i;
        }
        copy(s->w, p + best * n, n);
        s->f = value[best];
        s->spread = value[worst] - value[best];
        if (s->spread <= s->o.tolerance) return;
        for (int64_t k = 0; k < n; k++) {
            centre[k] = 0;
            for (int64_t i = 0; i <= n; i++) centre[k] += i == worst ? 0 : p[i * n + k] / (double)n;
        }
        along(trial, centre, p + worst * n, -1, n); /* reflect */
        double f = at(s, trial);
        if (f < value[best]) { /* expand */
            along(other, centre, p + worst * n, -2, n);
            double far = at(s, other);
            if (far < f) copy(trial, other, n), f = far;
        } else if (f >= value[second]) { /* contract, from the better side */
            along(other, centre, f < value[worst] ? trial : p + worst * n, 0.5, n);
            double near = at(s, other);
            if (near < fmin(f, value[worst])) copy(trial, other, n), f = near;
            else {
                for (int64_t i = 0; i <= n; i++) { /* shrink towards the best */
                    if (i == best) continue;
                    along(p + i * n, p + best * n, p + i * n, 0.5, n);
                    value[i] = at(s, p + i * n);
                }
                continue;
            }
        }
        copy(p + worst * n, trial, n);
        value[worst] = f;
    }
}

static void random_search(search *s)
{
    cj_ctx *c = s->ob->ctx;
    int64_t n = s->ob->size;
    double *trial = s->memory, *noise = trial + n, step = s->o.step;
    for (s->f = at(s, s->w); s->done < s->o.iterations && step > s->o.tolerance && !c->error; s->done++) {
        if (!cj__normal(c, noise, n)) return;
        for (int64_t i = 0; i < n; i++) trial[i] = s->w[i] + step * noise[i];
        double f = at(s, trial);
        bool better = f < s->f;
        if (better) copy(s->w, trial, n), s->f = f;
        step *= better ? exp(0.8 / sqrt((double)n)) : exp(-0.2 / sqrt((double)n)); /* at rest where one in five is better */
    }
    s->spread = step;
}

/* (mu/mu_w, lambda): the path of the means, longer than chance, lets the deviation grow. */
static void evolution(search *s)
{
    enum { MOST = 64 };
    cj_ctx *c = s->ob->ctx;
    int64_t n = s->ob->size;
    int draws = (int)fmin(4 + floor(3 * log((double)n + 1e-9)), MOST), parents;
    draws = draws < 4 ? 4 : draws;
    parents = draws / 2;
    double *mean = s->memory, *path = mean + n, *z = path + n, *trial = z + draws * n, *step = trial + n;
    double weight[MOST], sum = 0, squares = 0, sigma = s->o.step, value[MOST];
    int order[MOST];
    for (int k = 0; k < parents; k++) sum += weight[k] = log(parents + 0.5) - log(k + 1.0);
    for (int k = 0; k < parents; k++) weight[k] /= sum, squares += weight[k] * weight[k];
    double effective = 1 / squares, cs = (effective + 2) / ((double)n + effective + 5),
           damp = 1 + cs + 2 * fmax(0, sqrt((effective - 1) / ((double)n + 1)) - 1);
    double chi = sqrt((double)n) * (1 - 1 / (4.0 * (double)n) + 1 / (21.0 * (double)n * (double)n)); /* mean length of a normal vector */
    copy(mean, s->w, n);
    memset(path, 0, (size_t)n * sizeof *path);
    for (s->f = at(s, s->w); s->done < s->o.iterations && sigma > s->o.tolerance && !c->error; s->done++) {
        if (!cj__normal(c, z, draws * n)) return;
        for (int k = 0; k < draws; k++) {
            for (int64_t i = 0; i < n; i++) trial[i] = mean[i] + sigma * z[k * n + i];
            value[k] = at(s, trial);
            if (value[k] < s->f) copy(s->w, trial, n), s->f = value[k];
            int j = k;
            for (; j > 0 && value[order[j - 1]] > value[k]; j--) order[j] = order[j - 1];
            order[j] = k;
        }
        double norm = 0;
        for (int64_t i = 0; i < n; i++) {
            step[i] = 0;
            for (int k = 0; k < parents; k++) step[i] += weight[k] * z[order[k] * n + i];
            mean[i] += sigma * step[i];
            path[i] = (1 - cs) * path[i] + sqrt(cs * (2 - cs) * effective) * step[i];
            norm += path[i] * path[i];
        }
        sigma *= exp(cs / damp * (sqrt(norm) / chi - 1));
    }
    s->spread = sigma;
}

static void differences(search *s)
{
    cj_ctx *c = s->ob->ctx;
    int64_t n = s->ob->size;
    double *g = s->memory, *trial = g + n, step = s->o.step;
    for (s->f = at(s, s->w); s->done < s->o.iterations && step > s->o.tolerance && !c->error; s->done++) {
        double square = 0;
        copy(trial, s->w, n);
        for (int64_t i = 0; i < n; i++) {
            double h = 1e-5 * (1 + fabs(s->w[i]));
            trial[i] = s->w[i] + h;
            double up = at(s, trial);
            trial[i] = s->w[i] - h;
            g[i] = (up - at(s, trial)) / (2 * h);
            trial[i] = s->w[i];
            square += g[i] * g[i];
        }
        while (!c->error && step > s->o.tolerance) {
            for (int64_t i = 0; i < n; i++) trial[i] = s->w[i] - step * g[i];
            double f = at(s, trial);
            if (f > s->f - 1e-4 * step * square) {
                step /= 2;
                continue;
            }
            copy(s->w, trial, n);
            s->f = f;
            step *= 2;
            break;
        }
        s->spread = sqrt(square);
        if (s->spread <= s->o.tolerance) return;
    }
}

bool cj_derivative_free(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_derivative_free_opts *opts)
{
    static void (*const methods[])(search *) = { nelder_mead, random_search, evolution, differences };
    cj__objective ob = { .name = "derivative_free", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    search s = { .ob = &ob, .o = opts ? *opts : (cj_derivative_free_opts){ 0 }, .f = NAN, .spread = NAN };
    s.o.step = cj__value_or(s.o.step, 0.5);
    s.o.tolerance = cj__value_or(s.o.tolerance, 1e-12);
    if (!c || c->error || !cj__step_ok(c, ob.name, s.o.step) || !cj__limits_ok(c, ob.name, s.o.iterations, s.o.tolerance)) return false;
    if (s.o.method > CJ_FREE_DIFFERENCES) return cj__error(c, CJ_EVALUE, "derivative_free: method %d is none", (int)s.o.method);
    int64_t size = cj__total(x, n);
    if (s.o.iterations == 0) s.o.iterations = 1000 * size;
    int64_t more = s.o.method == CJ_FREE_NELDER_MEAD ? (size + 1) * (size + 1) + 3 * size
                   : s.o.method == CJ_FREE_EVOLUTION ? 70 * size
                                                     : 3 * size;
    if (!cj__objective_open(&ob, 1, more)) return false;
    s.w = ob.memory, s.memory = s.w + size;
    if (!isfinite(cj__objective_at(&ob, s.w, NULL)) && !c->error)
        cj__error(c, CJ_EVALUE, "derivative_free: the function is not finite at the start");
    if (!c->error) methods[s.o.method](&s);
    if (out)
        *out = (cj_solution){
            .value = s.f, .gradient = s.spread, .iterations = s.done, .evaluations = ob.evaluations, .converged = s.spread <= s.o.tolerance
        };
    return cj__objective_close(&ob, s.w);
}
