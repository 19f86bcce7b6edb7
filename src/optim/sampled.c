/* Stochastic gradient descent over numbered examples, uniform or with chosen probabilities; the empirical Fisher matrix and natural gradients.
 *
 * An example drawn with probability p_i counts for g_i / (N p_i): the mean over draws is then the gradient, whatever p.  The variance is least for p_i ~ |g_i|.
 */
#include <math.h>

#include "optim/objective.h"

static bool examples_ok(cj_ctx *c, const char *name, int64_t examples)
{
    return (examples >= 1 && examples <= INT32_MAX) ||
           cj__error(c, CJ_EVALUE, "%s: %lld examples; there must be one at least and 2^31 - 1 at most", name, (long long)examples);
}

/* Where examples come from: a permutation of them for each pass, or draws from a cumulative distribution. */
typedef struct sampler {
    cj_ctx *c;
    int64_t n, at;
    bool shuffled;
    double *cumulative, *probability; /* [n]; NULL: uniform */
    double *uniform;                  /* [n] numbers in [0, 1), a block at a time */
    int64_t *order;                   /* [n] */
} sampler;

static bool refill(sampler *s)
{
    cj_scope scope = cj_scope_open(s->c);
    bool ok = cj_to_f64(cj_rand(s->c, CJ_SHAPE(s->n), &(cj_random_opts){ .dtype = CJ_F64, .stream = CJ_STREAM_DATA }), s->uniform, s->n);
    cj_scope_close(scope);
    for (int64_t i = 0; i < s->n; i++) s->order[i] = i;
    for (int64_t i = s->n - 1; i > 0 && s->shuffled; i--) { /* Fisher and Yates */
        int64_t j = (int64_t)(s->uniform[i] * (double)(i + 1)), keep = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = keep;
    }
    s->at = 0;
    return ok;
}

static bool next(sampler *s, int64_t *example)
{
    if (s->at == s->n && !refill(s)) return false;
    double u = s->uniform[s->at];
    if (s->shuffled) *example = s->order[s->at];
    else if (!s->cumulative) *example = (int64_t)(u * (double)s->n);
    else { /* the first with u < cumulative; the last one where rounding leaves none */ int64_t low = 0, high = s->n - 1;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (u * s->cumulative[s->n - 1] < s->cumulative[middle]) high = middle;
            else low = middle + 1;
        }
        *example = low;
    }
    s->at++;
    return true;
}

static bool read_probabilities(sampler *s, cj_tensor *p)
{
    if (!cj__usable(s->c, "sampled_descent", 0, p)) return false;
    if (cj_numel(p) != s->n)
        return cj__error(s->c, CJ_ESHAPE, "sampled_descent: %lld probabilities for %lld examples", (long long)cj_numel(p), (long long)s->n);
    if (!cj_to_f64(p, s->probability, s->n)) return false;
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (!(s->probability[i] > 0 && isfinite(s->probability[i])))
            return cj__error(s->c, CJ_EVALUE, "sampled_descent: probability %g of example %lld; it must be positive", s->probability[i],
                             (long long)i);
        s->cumulative[i] = sum += s->probability[i];
    }
    for (int64_t i = 0; i < s->n; i++) s->probability[i] /= sum;
    return true;
}

bool cj_sampled_descent(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_sampled_opts *opts)
{
    cj_sampled_opts o = opts ? *opts : (cj_sampled_opts){ 0 };
    cj__example e = { fn, user, 0 };
    cj__objective ob = { .name = "sampled_descent", .ctx = c, .fn = fn ? cj__example_loss : NULL, .user = &e, .x = x, .n = n };
    o.batch = o.batch ? o.batch : 1;
    if (!c || c->error || !examples_ok(c, ob.name, examples) || !cj__step_ok(c, ob.name, o.step) ||
        !cj__limits_ok(c, ob.name, o.iterations, 0))
        return false;
    if (o.batch < 1 || (o.shuffled && (o.batch > examples || o.probability)))
        return cj__error(c, CJ_EVALUE, "sampled_descent: batches of %lld of %lld examples%s", (long long)o.batch, (long long)examples,
                         o.probability ? "; a shuffled pass has no probabilities" : "");
    if (o.iterations == 0) o.iterations = (10 * examples + o.batch - 1) / o.batch;
    if (!cj__objective_open(&ob, 3, 4 * examples)) return false;
    int64_t size = ob.size;
    double *w = ob.memory, *g = w + size, *mean = g + size, *more = mean + size;
    sampler s = {
        .c = c, .n = examples, .at = examples, .shuffled = o.shuffled, .uniform = more, .order = (int64_t *)(more + 3 * examples)
    };
    bool ok = true;
    if (o.probability) s.cumulative = more + examples, s.probability = more + 2 * examples, ok = read_probabilities(&s, o.probability);
    for (int64_t t = 0; t < o.iterations && ok; t++) {
        memset(mean, 0, (size_t)size * sizeof *mean);
        for (int64_t k = 0; k < o.batch && ok; k++) {
            int64_t i = 0;
            ok = next(&s, &i) && cj__example_gradient(&ob, i, w, g);
            double weight = s.probability && !o.unweighted ? 1 / ((double)examples * s.probability[i]) : 1;
            cj__axpy(weight / (double)o.batch, g, mean, size);
        }
        if (ok) cj__axpy(-o.step, mean, w, size);
    }
    return cj__objective_close(&ob, w);
}

/* ---- the empirical Fisher matrix ------------------------------------------------------------------------------------------------------------------ */

/* The mean gradient, and (1/N) sum g gᵀ or its diagonal, at w; scratch g. */
static bool fisher_at(cj__objective *ob, int64_t examples, const double *w, bool diagonal, double *g, double *mean, double *matrix)
{
    int64_t size = ob->size;
    double share = 1.0 / (double)examples;
    memset(mean, 0, (size_t)size * sizeof *mean);
    memset(matrix, 0, (size_t)(diagonal ? size : size * size) * sizeof *matrix);
    for (int64_t e = 0; e < examples; e++) {
        if (!cj__example_gradient(ob, e, w, g)) return false;
        cj__axpy(share, g, mean, size);
        for (int64_t i = 0; i < size; i++) {
            if (diagonal) matrix[i] += share * g[i] * g[i];
            else cj__axpy(share * g[i], g, matrix + i * size, size);
        }
    }
    return true;
}

cj_tensor *cj_fisher(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_fisher_opts *opts)
{
    bool diagonal = opts && opts->diagonal;
    cj__example e = { fn, user, 0 };
    cj__objective ob = { .name = "fisher", .ctx = c, .fn = fn ? cj__example_loss : NULL, .user = &e, .x = x, .n = n };
    if (!c) return NULL;
    int64_t size = cj__total(x, n);
    if (c->error || !examples_ok(c, ob.name, examples) || !cj__objective_open(&ob, 3, diagonal ? size : size * size)) return c->poison;
    double *w = ob.memory, *g = w + size, *mean = g + size, *matrix = mean + size;
    cj_tensor *out = c->poison;
    if (fisher_at(&ob, examples, w, diagonal, g, mean, matrix))
        out = cj_from_f64(c, matrix, diagonal ? CJ_SHAPE(size) : CJ_SHAPE(size, size));
    cj__free(c, ob.memory, ob.bytes);
    return out;
}

bool cj_natural_gradient(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, cj_solution *out,
                         const cj_natural_opts *opts)
{
    cj_natural_opts o = opts ? *opts : (cj_natural_opts){ 0 };
    cj__example e = { fn, user, 0 };
    cj__objective ob = { .name = "natural_gradient", .ctx = c, .fn = fn ? cj__example_loss : NULL, .user = &e, .x = x, .n = n };
    o.iterations = o.iterations ? o.iterations : 100;
    o.tolerance = cj__value_or(o.tolerance, 1e-8);
    o.damping = cj__value_or(o.damping, 1e-8);
    o.step = cj__value_or(o.step, 1);
    if (!c || c->error || !examples_ok(c, ob.name, examples) || !cj__step_ok(c, ob.name, o.step) ||
        !cj__limits_ok(c, ob.name, o.iterations, o.tolerance))
        return false;
    if (!(o.damping >= 0)) return cj__error(c, CJ_EVALUE, "natural_gradient: damping %g; it must not be negative", o.damping);
    int64_t size = cj__total(x, n), t = 0;
    if (!cj__objective_open(&ob, 3, o.diagonal ? size : size * size)) return false;
    double *w = ob.memory, *g = w + size, *mean = g + size, *matrix = mean + size, worst = NAN;
    bool converged = false;
    for (; !c->error; t++) {
        if (!fisher_at(&ob, examples, w, o.diagonal, g, mean, matrix)) break;
        worst = cj__largest(mean, size);
        converged = worst <= o.tolerance;
        if (converged || t == o.iterations) break;
        for (int64_t i = 0; i < size && o.diagonal; i++) mean[i] /= (o.root ? sqrt(matrix[i]) : matrix[i]) + o.damping;
        for (int64_t i = 0; i < size && !o.diagonal; i++) matrix[i * size + i] += o.damping;
        if (!o.diagonal && !cj__solve(matrix, mean, size)) {
            cj__error(c, CJ_EVALUE, "natural_gradient: the matrix is singular; damping makes it regular");
            break;
        }
        cj__axpy(-o.step, mean, w, size);
    }
    if (out) {
        double f = 0;
        for (int64_t i = 0; i < examples && !c->error; i++) e.example = i, f += cj__objective_at(&ob, w, NULL) / (double)examples;
        *out = (cj_solution){ .value = f, .gradient = worst, .iterations = t, .evaluations = ob.evaluations, .converged = converged };
    }
    return cj__objective_close(&ob, w);
}
