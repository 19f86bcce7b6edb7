/* Probability distributions as values: constructors, which check their parameters, and samples.  Densities are in dist_density.c, moments and divergences in
 * dist_moments.c. */
#include <math.h>

#include "math/dist.h"

const cj_dist_row cj__dists[CJ_DISTS] = {
    [CJ_DIST_NORMAL] = { "normal", 2, false },
    [CJ_DIST_LAPLACE] = { "laplace", 2, false },
    [CJ_DIST_GUMBEL] = { "gumbel", 2, false },
    [CJ_DIST_LOGISTIC] = { "logistic", 2, false },
    [CJ_DIST_STUDENT_T] = { "student_t", 3, false },
    [CJ_DIST_UNIFORM] = { "uniform", 2, false },
    [CJ_DIST_EXPONENTIAL] = { "exponential", 1, false },
    [CJ_DIST_GAMMA] = { "gamma", 2, false },
    [CJ_DIST_BETA] = { "beta", 2, false },
    [CJ_DIST_VON_MISES] = { "von_mises", 2, false },
    [CJ_DIST_BERNOULLI] = { "bernoulli", 1, false },
    [CJ_DIST_BINOMIAL] = { "binomial", 2, false },
    [CJ_DIST_POISSON] = { "poisson", 1, false },
    [CJ_DIST_DIRICHLET] = { "dirichlet", 1, true },
    [CJ_DIST_CATEGORICAL] = { "categorical", 1, true },
    [CJ_DIST_MULTINOMIAL] = { "multinomial", 1, true },
    [CJ_DIST_DIAGONAL_NORMAL] = { "diagonal_normal", 2, true },
    [CJ_DIST_MULTIVARIATE_NORMAL] = { "multivariate_normal", 2, true },
    [CJ_DIST_LOW_RANK_NORMAL] = { "low_rank_normal", 3, true },
};

/* ---- making them ------------------------------------------------------------------------------------------------------------------------------- */

typedef enum rule { FINITE, POSITIVE, NOT_NEGATIVE, PROBABILITY, WHOLE, LOGIT, NOT_ZERO } rule;
typedef struct parameter {
    const char *name;
    rule rule;
} parameter;

static bool within(rule r, double v)
{
    switch (r) {
    case FINITE: return isfinite(v);
    case POSITIVE: return v > 0 && isfinite(v);
    case NOT_NEGATIVE: return v >= 0 && isfinite(v);
    case PROBABILITY: return v >= 0 && v <= 1;
    case WHOLE: return v >= 0 && isfinite(v) && floor(v) == v;
    case LOGIT: return v < INFINITY;
    default: return isfinite(v) && v != 0;
    }
}
static const char *const rule_text[] = { "a finite number",          "a positive number", "a number not below 0", "a probability",
                                         "a whole number from 0 on", "a number or -inf",  "a number other than 0" };

/* A float tensor whose elements obey the rule; NULL after an error. */
static cj_tensor *checked(cj_ctx *c, const char *dist, int i, parameter p, cj_tensor *t)
{
    if (!cj_ok(c) || !cj__usable(c, dist, i, t)) return NULL;
    if (!cj_dtype_is_float((cj_dtype)t->dtype)) t = cj_cast(t, CJ_F32);
    cj_tensor *dense = cj_contiguous(t);
    if (!cj_ok(c)) return NULL;
    if (cj_on_device(t) || dense->st->dry) return t; /* values are looked at on the host only, and not while a step is recorded */
    for (int64_t e = 0; e < dense->numel; e++) {
        const double v = cj__load(dense, e);
        if (within(p.rule, v)) continue;
        cj__error(c, CJ_EVALUE, "%s: %s element %lld: %s is expected, found %g", dist, p.name, (long long)e, rule_text[p.rule], v);
        return NULL;
    }
    return t;
}

cj_tensor *cj__dist_finite(cj_ctx *c, const char *dist, int i, const char *name, cj_tensor *t)
{
    return checked(c, dist, i, (parameter){ name, FINITE }, t);
}
cj_tensor *cj__dist_positive(cj_ctx *c, const char *dist, int i, const char *name, cj_tensor *t)
{
    return checked(c, dist, i, (parameter){ name, POSITIVE }, t);
}

static cj_dist made(cj_dist_kind kind, cj_tensor *a, parameter pa, cj_tensor *b, parameter pb, cj_tensor *e, parameter pe)
{
    cj_dist d = { .kind = kind };
    cj_tensor *in[3] = { a, b, e };
    const parameter rules[3] = { pa, pb, pe };
    const cj_dist_row *row = &cj__dists[kind];
    const int n = row->params < 3 ? row->params : 3;
    cj_ctx *c = a ? a->ctx : b ? b->ctx : e ? e->ctx : NULL;
    if (!c) return d;
    for (int i = 0; i < n; i++) d.p[i] = c->poison;
    cj_tensor *p[3] = { 0 };
    for (int i = 0; i < n; i++)
        if (!(p[i] = checked(c, row->name, i, rules[i], in[i]))) return d;
    const cj_dtype t = cj__promote_n(p, n);
    int nd = p[0]->ndim;
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, p[0]->shape, sizeof shape);
    for (int i = 1; i < n; i++)
        if (!cj__broadcast(nd, shape, p[i]->ndim, p[i]->shape, &nd, shape)) {
            cj__error(c, CJ_ESHAPE, "%s: %s %s and %s %s do not broadcast", row->name, rules[0].name, cj__tensor_text(p[0]), rules[i].name,
                      cj__tensor_text(p[i]));
            return d;
        }
    if (row->vector && (nd < 1 || shape[nd - 1] < 1)) {
        cj__error(c, CJ_ESHAPE, "%s: %s [.., K] with K of at least 1 is expected, found %s", row->name, rules[0].name,
                  cj__tensor_text(p[0]));
        return d;
    }
    for (int i = 0; i < n; i++) d.p[i] = cj_cast(p[i], t);
    return d;
}
#define NO_PARAMETER                                                                                                                       \
    NULL, (parameter) { 0 }
#define LOC                                                                                                                                \
    loc, (parameter) { "loc", FINITE }
#define SCALE                                                                                                                              \
    scale, (parameter) { "scale", POSITIVE }

cj_dist(cj_dist_normal)(cj_tensor *loc, cj_tensor *scale) { return made(CJ_DIST_NORMAL, LOC, SCALE, NO_PARAMETER); }
cj_dist(cj_dist_laplace)(cj_tensor *loc, cj_tensor *scale) { return made(CJ_DIST_LAPLACE, LOC, SCALE, NO_PARAMETER); }
cj_dist(cj_dist_gumbel)(cj_tensor *loc, cj_tensor *scale) { return made(CJ_DIST_GUMBEL, LOC, SCALE, NO_PARAMETER); }
cj_dist(cj_dist_logistic)(cj_tensor *loc, cj_tensor *scale) { return made(CJ_DIST_LOGISTIC, LOC, SCALE, NO_PARAMETER); }
cj_dist(cj_dist_student_t)(cj_tensor *loc, cj_tensor *scale, cj_tensor *df)
{
    return made(CJ_DIST_STUDENT_T, LOC, SCALE, df, (parameter){ "df", POSITIVE });
}
cj_dist(cj_dist_uniform)(cj_tensor *low, cj_tensor *high)
{
    cj_dist d = made(CJ_DIST_UNIFORM, low, (parameter){ "low", FINITE }, high, (parameter){ "high", FINITE }, NO_PARAMETER);
    cj_ctx *c = cj__dist_ctx(&d, "uniform");
    if (c) checked(c, "uniform", 1, (parameter){ "high - low", POSITIVE }, cj_sub(d.p[1], d.p[0]));
    return d;
}
cj_dist(cj_dist_exponential)(cj_tensor *rate)
{
    return made(CJ_DIST_EXPONENTIAL, rate, (parameter){ "rate", POSITIVE }, NO_PARAMETER, NO_PARAMETER);
}
cj_dist(cj_dist_gamma)(cj_tensor *concentration, cj_tensor *rate)
{
    return made(CJ_DIST_GAMMA, concentration, (parameter){ "concentration", POSITIVE }, rate, (parameter){ "rate", POSITIVE },
                NO_PARAMETER);
}
cj_dist(cj_dist_beta)(cj_tensor *a, cj_tensor *b)
{
    return made(CJ_DIST_BETA, a, (parameter){ "a", POSITIVE }, b, (parameter){ "b", POSITIVE }, NO_PARAMETER);
}
cj_dist(cj_dist_von_mises)(cj_tensor *loc, cj_tensor *concentration)
{
    return made(CJ_DIST_VON_MISES, LOC, concentration, (parameter){ "concentration", NOT_NEGATIVE }, NO_PARAMETER);
}
cj_dist(cj_dist_bernoulli)(cj_tensor *p) { return made(CJ_DIST_BERNOULLI, p, (parameter){ "p", PROBABILITY }, NO_PARAMETER, NO_PARAMETER); }
cj_dist(cj_dist_binomial)(cj_tensor *trials, cj_tensor *p)
{
    return made(CJ_DIST_BINOMIAL, trials, (parameter){ "trials", WHOLE }, p, (parameter){ "p", PROBABILITY }, NO_PARAMETER);
}
cj_dist(cj_dist_poisson)(cj_tensor *rate)
{
    return made(CJ_DIST_POISSON, rate, (parameter){ "rate", NOT_NEGATIVE }, NO_PARAMETER, NO_PARAMETER);
}
cj_dist(cj_dist_dirichlet)(cj_tensor *concentration)
{
    return made(CJ_DIST_DIRICHLET, concentration, (parameter){ "concentration", POSITIVE }, NO_PARAMETER, NO_PARAMETER);
}
/* Densities take normalised logits, samples those that were given: rounding in the normalisation may differ between levels. */
static cj_dist of_logits(cj_dist_kind kind, cj_tensor *logits)
{
    cj_dist d = made(kind, logits, (parameter){ "logits", LOGIT }, NO_PARAMETER, NO_PARAMETER);
    d.logits = d.p[0];
    cj_ctx *c = cj__dist_ctx(&d, cj__dists[kind].name);
    /* normalised; a row without any class has no maximum */
    if (c && checked(c, cj__dists[kind].name, 0, (parameter){ "logsumexp of logits", FINITE },
                     cj_logsumexp(d.p[0], &(cj_reduce_opts){ .axes = CJ_AXIS(-1) })))
        d.p[0] = cj_log_softmax(d.p[0], -1);
    return d;
}
cj_dist(cj_dist_categorical)(cj_tensor *logits) { return of_logits(CJ_DIST_CATEGORICAL, logits); }
cj_dist(cj_dist_multinomial)(int64_t trials, cj_tensor *logits)
{
    cj_dist d = of_logits(CJ_DIST_MULTINOMIAL, logits);
    d.count = trials;
    if (trials < 0 && logits)
        cj__error(logits->ctx, CJ_EVALUE, "multinomial: trials: a number from 0 on is expected, found %lld", (long long)trials);
    return d;
}
cj_dist(cj_dist_diagonal_normal)(cj_tensor *loc, cj_tensor *scale) { return made(CJ_DIST_DIAGONAL_NORMAL, LOC, SCALE, NO_PARAMETER); }
cj_dist(cj_dist_log_normal)(cj_tensor *loc, cj_tensor *scale) { return (cj_dist_exp)((cj_dist_normal)(loc, scale)); }

/* Only a continuous number that is not a mixture can be transformed. */
static bool transformable(cj_ctx *c, const cj_dist *d, const char *what)
{
    if (d->kind <= CJ_DIST_BETA && !d->exp && !d->weights) return true;
    return cj__error(c, CJ_EVALUE, "%s: a continuous kind over numbers before exp and mixture is expected, found %s", what,
                     cj__dists[d->kind].name);
}
cj_dist(cj_dist_affine)(cj_dist d, cj_tensor *shift, cj_tensor *factor)
{
    cj_ctx *c = cj__dist_ctx(&d, "affine");
    if (!c || !transformable(c, &d, "affine")) return d;
    if (d.shift) {
        cj__error(c, CJ_EVALUE, "affine: the distribution is affine already: put both maps into one");
        return d;
    }
    shift = checked(c, "affine", 1, (parameter){ "shift", FINITE }, shift);
    factor = shift ? checked(c, "affine", 2, (parameter){ "factor", NOT_ZERO }, factor) : NULL;
    if (factor) d.shift = shift, d.factor = factor;
    return d;
}
cj_dist(cj_dist_exp)(cj_dist d)
{
    cj_ctx *c = cj__dist_ctx(&d, "exp");
    if (c && transformable(c, &d, "exp")) d.exp = true;
    return d;
}
cj_dist(cj_dist_mixture)(cj_tensor *logits, cj_dist d)
{
    cj_ctx *c = cj__dist_ctx(&d, "mixture");
    cj_dist of = c ? of_logits(CJ_DIST_CATEGORICAL, logits) : d;
    if (!c || !cj_ok(c)) return d;
    if (d.kind == CJ_DIST_CATEGORICAL || d.kind == CJ_DIST_MULTINOMIAL || d.weights) {
        cj__error(c, CJ_EVALUE, "mixture: components with float outcomes are expected, found %s",
                  d.weights ? "a mixture" : cj__dists[d.kind].name);
        return d;
    }
    d.weights = cj_cast(of.p[0], (cj_dtype)d.p[0]->dtype);
    d.logits = of.logits;
    return d;
}

cj_ctx *cj__dist_ctx(const cj_dist *d, const char *what)
{
    const cj_tensor *p = d->p[0];
    if (!p || !cj_ok(p->ctx)) return NULL;
    if ((unsigned)d->kind >= CJ_DISTS) {
        cj__error(p->ctx, CJ_EVALUE, "%s: %d is no kind of distribution", what, (int)d->kind);
        return NULL;
    }
    for (int i = 0; i < cj__dists[d->kind].params; i++)
        if (!cj__usable(p->ctx, what, i, d->p[i])) return NULL;
    return p->ctx;
}
cj_tensor *cj__dist_none(const cj_dist *d, const char *what)
{
    cj__error(d->p[0]->ctx, CJ_EVALUE, "%s: there is no closed form for %s%s%s", what, d->weights ? "mixtures of " : "",
              d->exp ? "exp of " : "", cj__dists[d->kind].name);
    return d->p[0]->ctx->poison;
}
cj_dist cj__dist_inner(const cj_dist *d)
{
    cj_dist in = *d;
    if (in.exp) in.exp = false;
    else in.shift = in.factor = NULL;
    return in;
}

/* ---- samples -------------------------------------------------------------------------------------------------------------------------------------- */

/* [shape, batch], and the batch alone; ndim -1 after an error. The batch counts weights and maps too. */
static cj_shape outcome_shape(const cj_dist *d, cj_shape shape, cj_shape *of_batch)
{
    cj_ctx *c = d->p[0]->ctx;
    const cj_tensor *all[6] = { d->p[0], d->p[1], d->p[2], d->shift, d->factor, d->weights };
    cj_shape batch = { 0 };
    bool fits = shape.ndim >= 0 && shape.ndim <= CJ_MAX_DIMS;
    for (int i = 0; i < 6 && fits; i++) {
        if (!all[i]) continue;
        cj_shape s = cj__shape(all[i]);
        if (i == 1 && cj__dist_is_gaussian(d)) s.ndim--;                                      /* matrices [.., d, _] */
        if (i == 5 && cj__dists[d->kind].vector && s.ndim < CJ_MAX_DIMS) s.dim[s.ndim++] = 1; /* weights [.., K] of components [.., K, d] */
        fits = cj__broadcast(batch.ndim, batch.dim, s.ndim, s.dim, &batch.ndim, batch.dim);
    }
    if (!fits || shape.ndim + batch.ndim > CJ_MAX_DIMS) {
        cj__error(c, CJ_ESHAPE, "sample of %s: %s and a batch of %s do not make a shape", cj__dists[d->kind].name,
                  cj__shape_text(shape.ndim < 0 || shape.ndim > CJ_MAX_DIMS ? 0 : shape.ndim, shape.dim),
                  cj__shape_text(batch.ndim, batch.dim));
        return (cj_shape){ .ndim = -1 };
    }
    for (int i = 0; i < batch.ndim; i++) shape.dim[shape.ndim++] = batch.dim[i];
    *of_batch = batch;
    return shape;
}

static cj_tensor *standard_gamma(cj_tensor *a, cj_shape shape, cj_stream s) { return cj__draw(CJ_DRAW_GAMMA, a, NULL, 0, shape, s); }
static cj_tensor *placed(const cj_dist *d, cj_tensor *noise) { return cj_add(d->p[0], cj_mul(d->p[1], noise)); }

static cj_tensor *sample(const cj_dist *d, cj_shape shape, cj_shape batch, cj_stream s)
{
    cj_ctx *c = d->p[0]->ctx;
    const cj_dtype t = (cj_dtype)d->p[0]->dtype;
    const cj_random_opts o = { t, s };
    switch (d->kind) {
    case CJ_DIST_NORMAL:
    case CJ_DIST_DIAGONAL_NORMAL: return placed(d, cj_randn(c, shape, &o));
    case CJ_DIST_LAPLACE: return placed(d, cj__draw_noise(c, CJ_DRAW_LAPLACE, shape, t, s));
    case CJ_DIST_GUMBEL: return placed(d, cj__draw_noise(c, CJ_DRAW_GUMBEL, shape, t, s));
    case CJ_DIST_LOGISTIC: return placed(d, cj__draw_noise(c, CJ_DRAW_LOGISTIC, shape, t, s));
    case CJ_DIST_STUDENT_T: { /* normal / sqrt(chi² / df), chi² = 2 Gamma(df/2) */
        cj_tensor *half = cj_mul_scalar(d->p[2], 0.5);
        return placed(d, cj_mul(cj_randn(c, shape, &o), cj_sqrt(cj_div(half, standard_gamma(half, shape, s)))));
    }
    case CJ_DIST_UNIFORM: return cj_add(d->p[0], cj_mul(cj_sub(d->p[1], d->p[0]), cj_rand(c, shape, &o)));
    case CJ_DIST_EXPONENTIAL: return cj_div(cj_exponential(c, 1, shape, &o), d->p[0]);
    case CJ_DIST_GAMMA: return cj_div(standard_gamma(d->p[0], shape, s), d->p[1]);
    case CJ_DIST_BETA: {
        cj_tensor *a = standard_gamma(d->p[0], shape, s), *b = standard_gamma(d->p[1], shape, s);
        return cj_div(a, cj_add(a, b));
    }
    case CJ_DIST_DIRICHLET: {
        cj_tensor *g = standard_gamma(d->p[0], shape, s);
        return cj_div(g, cj_sum(g, &(cj_reduce_opts){ .axes = CJ_AXIS(-1), .keepdim = true }));
    }
    case CJ_DIST_VON_MISES: {
        cj_tensor *turned = cj_add_scalar(cj_add(d->p[0], cj__draw(CJ_DRAW_VON_MISES, d->p[1], NULL, 0, shape, s)), M_PI);
        return cj_add_scalar(cj_remainder(turned, cj_full(c, 2 * M_PI, CJ_SCALAR, t)), -M_PI);
    }
    case CJ_DIST_BERNOULLI: return cj_cast(cj_lt(cj_rand(c, shape, &o), d->p[0]), t);
    case CJ_DIST_BINOMIAL: return cj__draw(CJ_DRAW_BINOMIAL, d->p[0], d->p[1], 0, shape, s);
    case CJ_DIST_POISSON: return cj__draw(CJ_DRAW_POISSON, d->p[0], NULL, 0, shape, s);
    case CJ_DIST_MULTIVARIATE_NORMAL:
    case CJ_DIST_LOW_RANK_NORMAL: return cj__gaussian_sample(d, shape, batch, s);
    case CJ_DIST_CATEGORICAL: return cj__draw(CJ_DRAW_CATEGORICAL, d->logits, NULL, 0, shape, s);
    default: return cj__draw(CJ_DRAW_MULTINOMIAL, d->logits, NULL, d->count, shape, s);
    }
}

cj_tensor *(cj_dist_sample)(cj_dist d, cj_shape shape, const cj_dist_opts *opts)
{
    if (!d.p[0]) return NULL;
    cj_ctx *c = d.p[0]->ctx;
    cj_tensor *poison = c->poison;
    if (!cj__dist_ctx(&d, "sample")) return poison;
    const cj_stream s = opts ? opts->stream : CJ_STREAM_USER;
    if (!d.logits) d.logits = d.weights ? d.weights : d.p[0];
    cj_shape batch = { 0 };
    shape = outcome_shape(&d, shape, &batch);
    if (shape.ndim < 0) return c->poison;
    const bool discrete = d.weights || d.kind == CJ_DIST_VON_MISES; /* no derivative of the draw */
    const bool was = c->grad_enabled;
    if (discrete) c->grad_enabled = false;
    cj_tensor *x = sample(&d, shape, batch, s);
    if (d.shift) x = cj_add(d.shift, cj_mul(d.factor, x));
    if (d.exp) x = cj__ordered_exp(x);
    if (d.weights) {
        const bool vector = cj__dists[d.kind].vector;
        const int64_t own = shape.ndim ? shape.dim[shape.ndim - 1] : 1;
        shape.ndim -= vector;
        cj_tensor *k = cj_unsqueeze(cj__draw(CJ_DRAW_CATEGORICAL, d.logits, NULL, 0, shape, s), -1);
        if (vector) {
            shape.dim[shape.ndim - 1] = 1, shape.dim[shape.ndim++] = own;
            k = cj_expand(cj_unsqueeze(k, -1), shape);
        }
        x = cj_squeeze(cj_gather(x, vector ? -2 : -1, k), vector ? -2 : -1);
    }
    if (discrete) c->grad_enabled = was;
    return x;
}

/* A race: index i arrives after an exponential time of rate w_i, so the first to arrive is i with probability w_i / sum w, and so on among those that are left. Ordered by
 * w_i / (standard exponential) it is the same at every level. */
cj_tensor *(cj_choice)(cj_tensor *weights, int64_t k, const cj_choice_opts *opts)
{
    const cj_choice_opts o = opts ? *opts : (cj_choice_opts){ 0 };
    if (!weights) return NULL;
    cj_ctx *c = weights->ctx;
    if (!cj_ok(c)) return c->poison;
    cj_tensor *w = checked(c, "choice", 0, (parameter){ "weights", NOT_NEGATIVE }, weights);
    if (!w) return c->poison;
    const int64_t n = w->ndim ? w->shape[w->ndim - 1] : 0;
    if (n < 1 || k < 0)
        return cj_fail(c, CJ_ESHAPE, "choice: weights [.., K] and a number from 0 on are expected, found %s and %lld", cj__tensor_text(w),
                       (long long)k);
    cj_tensor *some = cj_cast(cj_sum(cj_gt_scalar(w, 0), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }), CJ_F64);
    some = cj_contiguous(some);
    for (int64_t e = 0; cj_ok(c) && !cj_on_device(w) && !some->st->dry && e < some->numel; e++)
        if (cj__load(some, e) < (double)(o.replacement ? k > 0 : k))
            return cj_fail(c, CJ_EVALUE, "choice: row %lld has %g positive weights for %lld draws %s replacement", (long long)e,
                           cj__load(some, e), (long long)k, o.replacement ? "with" : "without");
    const bool was = c->grad_enabled;
    c->grad_enabled = false;
    cj_shape shape = cj__shape(w);
    if (o.replacement) { /* one race for every draw: [.., k, K] */
        w = cj_unsqueeze(w, -2);
        shape.dim[shape.ndim - 1] = k;
        if (shape.ndim < CJ_MAX_DIMS) shape.dim[shape.ndim++] = n;
    }
    const cj_random_opts r = { CJ_F64, o.stream }; /* an f32 exponential is 0 once in 2^25 draws */
    cj_tensor *speed = cj_div(cj_cast(w, r.dtype), cj_exponential(c, 1, shape, &r));
    cj_tensor *first = cj_topk(speed, o.replacement ? 1 : k, -1, NULL).indices;
    c->grad_enabled = was;
    return o.replacement ? cj_squeeze(first, -1) : first;
}
