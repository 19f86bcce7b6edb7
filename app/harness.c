/* The operator harness: each check evaluates a sample in two ways and compares.
 *
 * Tolerance (DESIGN 5.9): |a - b| <= tol · (|b| + mean|b| · √K), K the length of the reduction behind one element.  tol is 8 units in the last place of f32 and
 * 90 of f64 (several roundings in a row, polynomials good to a few units), 1 unit of bf16 and 2 of f16, which round once; gradients, which chain several
 * operators, get four times as much, those of bf16 and f16 eight times.
 */
#include "app/harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cajal/grad.h"
#include "ops/samples.h"

const char *const harness_check_names[HARNESS_CHECKS] = {
    "reached", "vjp",     "jvp",     "second_order", "dtypes", "definition", "fused_backward",
    "written", "layouts", "threads", "plan",         "isa",    "device",
};

enum { MANY_THREADS = 3 };

struct harness {
    harness_opts opts;
    cj_ctx *ctx;                  /* the level under test, one thread */
    cj_ctx *many;                 /* the same, several threads */
    cj_ctx *reference;            /* portable */
    cj_ctx *level[CJ_ISA_LEVELS]; /* the other levels; NULL where the machine has none */
    cj_ctx *device;
    int main_level;
    char levels[64];
    int written;          /* GRADIENT_WRITTEN: the input */
    const cj_op *watched; /* the row whose calls are counted */
    int reached;
    bool defining; /* compare its results with its definition */
    bool inside;
    struct outcome *cached; /* f64 results of the current sample, by the kind of values */
    bool definition_ran, definition_ok;
    double definition_terms;
    char definition_why[200];
};

/* ---- evaluating a sample --------------------------------------------------------------------------------------------------------------------------- */

typedef enum mode { FORWARD, GRADIENT, GRADIENT_GRAPH /* through definitions */, GRADIENT_WRITTEN /* after a write to an input */ } mode;

typedef struct outcome {
    bool ok;
    cj_code code;
    char message[200];
    cj_dtype dtype;
    cj_shape shape;
    int64_t ny, ng; /* results, then gradients of all inputs */
    double *v;
    int parts;
    int64_t part[CJ_MAX_PLAN_OUTPUTS]; /* of each input */
} outcome;

static void outcome_free(outcome *o)
{
    free(o->v);
    o->v = NULL;
}

/* Weights of the results: the seed of a gradient. */
static cj_tensor *weights(cj_ctx *c, cj_tensor *y, uint64_t seed)
{
    cj_sample one = { .n = 1, .in = { { cj_shape_of(y), CJ_DOMAIN_REAL, 0 } } };
    return cj__sample_input(c, &one, 0, CJ_F64, cj_dtype_of(y), CJ_LAYOUT_DENSE, seed + 77);
}

static void read_out(cj_ctx *c, outcome *o, cj_tensor *y, cj_tensor *const *g, int m)
{
    o->ny = cj_numel(y);
    o->dtype = cj_dtype_of(y);
    o->shape = cj_shape_of(y);
    o->parts = m;
    for (int i = 0; i < m; i++) o->ng += o->part[i] = cj_numel(g[i]);
    o->v = malloc((size_t)(o->ny + o->ng + 1) * sizeof *o->v);
    if (!o->v) {
        cj_fail(c, CJ_EMEMORY, "selftest: no memory");
        return;
    }
    int64_t at = o->ny;
    cj_to_f64(y, o->v, o->ny);
    for (int i = 0; i < m; i++) {
        cj_to_f64(g[i], o->v + at, cj_numel(g[i]));
        at += cj_numel(g[i]);
    }
}

static bool settle(cj_ctx *c, outcome *o)
{
    o->ok = cj_ok(c);
    if (!o->ok) {
        o->code = cj_error(c);
        snprintf(o->message, sizeof o->message, "%.190s", cj_message(c));
        cj_clear(c);
        outcome_free(o);
    }
    return o->ok;
}

static outcome evaluate(harness *h, cj_ctx *c, const cj_sample *sample, cj_dtype values, cj_dtype dtype, cj_layout layout, mode how,
                        uint64_t seed)
{
    outcome o = { 0 };
    cj_sample s = *sample;
    s.dtype = dtype;
    if (s.op->flags & CJ_OP_NOGRAD && s.op->kind != CJ_INTERNAL) how = FORWARD;
    cj_scope scope = cj_scope_open(c);
    cj_rng_set(c, (cj_rng_state){ .seed = seed });
    cj_tensor *in[CJ_SAMPLE_INPUTS], *leaf[CJ_SAMPLE_INPUTS], *g[CJ_SAMPLE_INPUTS];
    int m = 0;
    for (int i = 0; i < s.n; i++) {
        in[i] = cj__sample_input(c, &s, i, values, dtype, layout, seed);
        if (how != FORWARD && cj__sample_value(&s, i)) in[i] = leaf[m++] = cj_require_grad(in[i]);
    }
    cj_tensor *y = s.call(c, &s, in), *value = y;
    if (how == GRADIENT_WRITTEN) {
        const bool was = cj_no_grad(c);
        value = cj_clone(y); /* it may be a view */
        cj_assign_(cj_detach(in[h->written]), cj_full(c, 1, CJ_SCALAR, cj_dtype_of(in[h->written])));
        cj_grad_mode(c, was);
    }
    bool grad = how != FORWARD && m && cj_ok(c) && cj_requires_grad(y);
    if (grad)
        cj_grad(y, leaf, m, g, &(cj_grad_opts){ .seed = weights(c, y, seed), .create_graph = how == GRADIENT_GRAPH, .allow_unused = true });
    if (cj_ok(c)) read_out(c, &o, value, g, grad ? m : 0);
    settle(c, &o);
    cj_scope_close(scope);
    return o;
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------------------------------------ */

static double tolerance(cj_dtype t)
{
    switch (t) {
    case CJ_F64: return 2e-14;
    case CJ_F32: return 1e-6;
    case CJ_BF16: return 0x1p-8;
    case CJ_F16: return 0x1p-10;
    default: return 0;
    }
}

/* A value of the f64 reference as a result dtype shows it: integers wrap, bool is != 0. */
static double shown(double v, cj_dtype t)
{
    switch (t) {
    case CJ_BOOL: return v != 0;
    case CJ_U8: return isfinite(v) ? (double)(uint8_t)(int64_t)v : v;
    case CJ_I32:
    case CJ_I64: return trunc(v);
    default: return v;
    }
}

typedef struct comparison {
    double tol; /* 0: equal bits */
    double terms;
    const char *a, *b; /* names, for the message */
} comparison;

static bool close_range(const double *a, const double *b, int64_t n, cj_dtype t, const comparison *k, const char *part, char *why,
                        size_t size)
{
    double mean = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(b[i])) mean += fabs(b[i]), finite++;
    if (finite) mean /= (double)finite;
    for (int64_t i = 0; i < n; i++) {
        double want = k->tol > 0 ? shown(b[i], t) : b[i];
        if ((a[i] == want && signbit(a[i]) == signbit(want)) || (isnan(a[i]) && isnan(want))) continue;
        if (k->tol > 0 && isfinite(want) && fabs(a[i] - want) <= k->tol * (fabs(want) + mean * sqrt(k->terms))) continue;
        if (k->tol > 0 && a[i] == want) continue;
        snprintf(why, size, "%s %lld of %lld: %s %.9g, %s %.9g", part, (long long)i, (long long)n, k->a, a[i], k->b, want);
        return false;
    }
    return true;
}

static bool same(const outcome *a, const outcome *b, const comparison *k, char *why, size_t size)
{
    if (!a->ok || !b->ok) {
        snprintf(why, size, "%.220s", !a->ok ? a->message : b->message);
        return false;
    }
    if (a->ny != b->ny || a->ng != b->ng || a->shape.ndim != b->shape.ndim) {
        snprintf(why, size, "%s has %lld results and %lld gradients, %s %lld and %lld", k->a, (long long)a->ny, (long long)a->ng, k->b,
                 (long long)b->ny, (long long)b->ng);
        return false;
    }
    comparison g = *k;
    g.tol *= g.tol > 1e-4 ? 8 : 4;
    bool ok = close_range(a->v, b->v, a->ny, a->dtype, k, "result", why, size);
    int64_t at = a->ny;
    for (int i = 0; i < b->parts && ok; i++) { /* how many results one input element reaches is K of its gradient */
        char part[32];
        snprintf(part, sizeof part, "gradient %d, element", i + 1);
        g.terms = fmax(fmax(1, k->terms), (double)b->ny / (double)(b->part[i] ? b->part[i] : 1));
        ok = close_range(a->v + at, b->v + at, b->part[i], CJ_F64, &g, part, why, size);
        at += b->part[i];
    }
    return ok;
}

/* ---- bookkeeping ------------------------------------------------------------------------------------------------------------------------------------------- */

static bool note(harness_row *row, harness_check check, const cj_sample *s, bool ok, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static bool note(harness_row *row, harness_check check, const cj_sample *s, bool ok, const char *format, ...)
{
    row->ran[check]++;
    if (ok) return true;
    if (!row->failed[check]++) {
        char text[200];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        snprintf(row->why[check], sizeof row->why[check], "%.32s: %.200s", s->label, text);
    }
    return false;
}

/* ---- the spy: sees every call of the watched row, and can hold its results against its definition ------------------------------------------------------------ */

static harness *spied; /* the recorder has no argument of its own */

static bool compare_definition(cj_ctx *c, const cj_call *call)
{
    harness *h = spied;
    cj_tensor *out[CJ_MAX_OUTPUTS] = { 0 };
    int64_t n = cj_numel(call->out[0]);
    double *a = malloc((size_t)(n + 1) * sizeof *a), *b = malloc((size_t)(n + 1) * sizeof *b);
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    bool ok = a && b && call->op->define(c, call->attrs, call->in, call->nin, out) && cj_to_f64(call->out[0], a, n) &&
              cj_numel(out[0]) == n && cj_to_f64(out[0], b, n);
    cj_grad_mode(c, was);
    if (!ok) snprintf(h->definition_why, sizeof h->definition_why, "the definition failed: %.150s", cj_message(c));
    comparison k = { tolerance(cj_dtype_of(call->out[0])) * 2, fmax(1, h->definition_terms), "fused", "definition" };
    ok = ok && close_range(a, b, n, cj_dtype_of(call->out[0]), &k, "result", h->definition_why, sizeof h->definition_why);
    cj_scope_close(s);
    free(a);
    free(b);
    return ok;
}

static bool spy(cj_ctx *c, cj_call *call)
{
    harness *h = spied;
    if (!call || !h || h->inside || call->op != h->watched) return true;
    h->reached++;
    if (!h->defining || !call->op->define) return true;
    h->inside = true;
    uint8_t active = c->active;
    c->active = 0;
    h->definition_ran = true;
    if (!compare_definition(c, call)) h->definition_ok = false;
    c->active = active;
    h->inside = false;
    return true;
}

static void spy_on(cj_ctx *c, bool on)
{
    c->recorder[CJ_REC_PROFILE].record = on ? spy : NULL;
    if (on) c->active |= 1u << CJ_REC_PROFILE;
    else c->active &= (uint8_t) ~(1u << CJ_REC_PROFILE);
}

/* ---- checks -------------------------------------------------------------------------------------------------------------------------------------------------------- */

static bool differentiable(const cj_op *op)
{
    return op->kind != CJ_INTERNAL && (op->vjp || (op->define && !op->run)) && !(op->flags & CJ_OP_NOGRAD);
}
static bool values_in(const cj_sample *s)
{
    for (int i = 0; i < s->n; i++)
        if (cj__sample_value(s, i)) return true;
    return false;
}

/* The call reaches its row; a fused forward equals its definition. */
static void check_reached(harness *h, const cj_sample *s, harness_row *row, mode how)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64 };
    for (int t = 0; t < 2; t++) {
        h->watched = s->op;
        h->reached = 0;
        h->defining = true;
        h->definition_ran = false;
        h->definition_ok = true;
        h->definition_terms = s->terms;
        spied = h;
        spy_on(h->ctx, true);
        outcome o = evaluate(h, h->ctx, s, types[t], types[t], CJ_LAYOUT_DENSE, how, h->opts.seed);
        spy_on(h->ctx, false);
        spied = NULL;
        note(row, HARNESS_REACHED, s, o.ok && h->reached, "%.180s", o.ok ? "the sample does not call this operator" : o.message);
        if (h->definition_ran) note(row, HARNESS_DEFINITION, s, h->definition_ok, "%s %.180s", cj_dtype_name(types[t]), h->definition_why);
        outcome_free(&o);
    }
}

/* The sample as a function of its float inputs; indices and masks are fixed. */
typedef struct fixed {
    const cj_sample *s;
    cj_tensor *in[CJ_SAMPLE_INPUTS];
    uint64_t seed;
} fixed;

static cj_tensor *of_values(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    fixed *f = user;
    cj_tensor *in[CJ_SAMPLE_INPUTS];
    for (int i = 0, k = 0; i < f->s->n; i++) in[i] = cj__sample_value(f->s, i) && k < n ? x[k++] : f->in[i];
    if (f->s->flags & CJ_SAMPLE_RANDOM) cj_rng_set(c, (cj_rng_state){ .seed = f->seed });
    return f->s->call(c, f->s, in);
}

static void check_gradient(harness *h, const cj_sample *s, harness_row *row)
{
    cj_ctx *c = h->ctx;
    cj_scope scope = cj_scope_open(c);
    fixed f = { .s = s, .seed = h->opts.seed };
    cj_tensor *x[CJ_SAMPLE_INPUTS];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        f.in[i] = cj__sample_input(c, s, i, CJ_F64, CJ_F64, CJ_LAYOUT_DENSE, h->opts.seed);
        if (cj__sample_value(s, i)) x[n++] = f.in[i];
    }
    static const harness_check orders[] = { HARNESS_VJP, HARNESS_JVP, HARNESS_SECOND };
    for (int k = 0; k < 3; k++) {
        cj_gradcheck_opts o = { .step = s->step, .tolerance = s->tolerance, .no_jvp = k == 0, .second_order = k == 2 };
        cj_gradcheck_result r = cj_gradcheck(c, of_values, &f, x, n, &o);
        bool ok = note(row, orders[k], s, r.ok, "input %d element %lld, %.140s", r.input, (long long)r.element, r.what);
        cj_clear(c);
        if (!ok) break;
    }
    cj_scope_close(scope);
}

/* The values that a dtype can hold decide which reference it is compared with. */
static cj_dtype values_of(cj_dtype t) { return cj_dtype_is_float(t) ? CJ_F64 : t == CJ_I32 ? CJ_I64 : t; }

static bool moments(const cj_sample *s, const outcome *o, char *why, size_t size)
{
    double n = (double)o->ny, mean = 0, square = 0;
    for (int64_t i = 0; i < o->ny; i++) mean += o->v[i] / n;
    for (int64_t i = 0; i < o->ny; i++) square += (o->v[i] - mean) * (o->v[i] - mean) / n;
    double deviation = sqrt(square);
    bool ok = fabs(mean - s->mean) <= s->deviation * (6 / sqrt(n) + tolerance(o->dtype)) && fabs(deviation / s->deviation - 1) <= 0.03;
    if (!ok) snprintf(why, size, "mean %.4g and deviation %.4g, expected %.4g and %.4g", mean, deviation, s->mean, s->deviation);
    return ok;
}

/* The f64 results and gradients of a sample, made once. */
static const outcome *reference(harness *h, const cj_sample *s, cj_dtype t)
{
    cj_dtype values = values_of(t);
    outcome *r = &h->cached[values];
    if (!r->v && !r->code)
        *r = evaluate(h, h->reference, s, values, CJ_F64, CJ_LAYOUT_DENSE, cj_dtype_is_float(t) ? GRADIENT : FORWARD, h->opts.seed);
    return r;
}

static void forget_reference(harness *h)
{
    for (int t = 0; t < CJ_DTYPES; t++) {
        outcome_free(&h->cached[t]);
        h->cached[t] = (outcome){ 0 };
    }
}

/* One dtype on one context against f64 on the portable kernels. */
static bool against_reference(harness *h, cj_ctx *c, const cj_sample *s, cj_dtype t, bool *allowed, char *why, size_t size)
{
    *allowed = true;
    bool floats = cj_dtype_is_float(t);
    if (!floats && s->flags & CJ_SAMPLE_FLOAT) return *allowed = false, true;
    outcome o = evaluate(h, c, s, values_of(t), t, CJ_LAYOUT_DENSE, floats ? GRADIENT : FORWARD, h->opts.seed);
    bool ok = true;
    if (!o.ok && (o.code == CJ_EDTYPE || (!floats && o.code == CJ_EGRAPH))) {
        *allowed = false;
    } else if (s->flags & CJ_SAMPLE_RANDOM) {
        if (!o.ok) snprintf(why, size, "%.190s", o.message);
        ok = o.ok && (s->n || !(s->flags & CJ_SAMPLE_LARGE) || t == CJ_BOOL || moments(s, &o, why, size));
    } else {
        const outcome *r = reference(h, s, t);
        /* results of integers that are floats are f32 */
        double tol = tolerance(floats ? t : CJ_F32);
        if (o.ok && !cj_dtype_is_float(o.dtype)) tol = 1e-300;
        if (o.ok && cj_dtype_is_float(o.dtype) && tolerance(o.dtype) > tol) tol = tolerance(o.dtype);
        comparison k = { tol, s->terms, cj_dtype_name(t), "f64" };
        ok = same(&o, r, &k, why, size);
    }
    outcome_free(&o);
    return ok;
}

static void check_dtypes(harness *h, const cj_sample *s, harness_row *row)
{
    for (int t = CJ_F32; t < CJ_DTYPES; t++) {
        char why[200] = "";
        bool allowed;
        if (s->flags & CJ_SAMPLE_LARGE && t > CJ_BF16 && (h->opts.quick || s->op->kind == CJ_INTERNAL)) continue;
        bool ok = against_reference(h, h->ctx, s, (cj_dtype)t, &allowed, why, sizeof why);
        if (!allowed) continue;
        note(row, HARNESS_DTYPE, s, ok, "%s: %.180s", cj_dtype_name((cj_dtype)t), why);
        if (ok) row->dtypes |= 1u << t;
        else row->dtypes_failed |= 1u << t;
    }
}

static void check_fused(harness *h, const cj_sample *s, harness_row *row)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64 };
    for (int t = 0; t < 2; t++) {
        char why[200] = "";
        outcome a = evaluate(h, h->ctx, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
        outcome b = evaluate(h, h->ctx, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT_GRAPH, h->opts.seed);
        comparison k = { tolerance(types[t]) * 2, s->terms, "fused", "composed" };
        note(row, HARNESS_FUSED, s, same(&a, &b, &k, why, sizeof why), "%s %.190s", cj_dtype_name(types[t]), why);
        outcome_free(&a);
        outcome_free(&b);
    }
}

/* A rule that reads an input has to say so: what is overwritten before the gradient would else be read as it is then. */
static void check_written(harness *h, const cj_sample *s, harness_row *row)
{
    outcome held = evaluate(h, h->ctx, s, CJ_F32, CJ_F32, CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
    for (h->written = 0; h->written < s->n; h->written++) {
        char why[200] = "";
        outcome o = evaluate(h, h->ctx, s, CJ_F32, CJ_F32, CJ_LAYOUT_DENSE, GRADIENT_WRITTEN, h->opts.seed);
        comparison k = { 0, 0, "written", "held" };
        const bool refused = !o.ok && o.code == CJ_EGRAPH && held.ok;
        note(row, HARNESS_WRITTEN, s, refused || same(&o, &held, &k, why, sizeof why), "input %d: %.180s", h->written + 1, why);
        outcome_free(&o);
    }
    outcome_free(&held);
}

static void check_layouts(harness *h, const cj_sample *s, harness_row *row)
{
    static const char *const names[] = { "dense", "transposed", "sliced", "reversed", "expanded" };
    for (int layout = CJ_LAYOUT_TRANSPOSED; layout <= CJ_LAYOUT_EXPANDED; layout++) {
        if (!cj__sample_layout(s, (cj_layout)layout) || (s->flags & CJ_SAMPLE_LARGE && layout > CJ_LAYOUT_SLICED)) continue;
        char why[200] = "";
        cj_layout plain = layout == CJ_LAYOUT_EXPANDED ? CJ_LAYOUT_REPEATED : CJ_LAYOUT_DENSE;
        outcome a = evaluate(h, h->ctx, s, CJ_F32, CJ_F32, (cj_layout)layout, GRADIENT, h->opts.seed);
        outcome b = evaluate(h, h->ctx, s, CJ_F32, CJ_F32, plain, GRADIENT, h->opts.seed);
        comparison k = { s->flags & CJ_SAMPLE_EXACT ? 0 : tolerance(CJ_F32), s->terms, names[layout], "contiguous" };
        note(row, HARNESS_LAYOUT, s, same(&a, &b, &k, why, sizeof why), "%.190s", why);
        outcome_free(&a);
        outcome_free(&b);
    }
}

static void check_threads(harness *h, const cj_sample *s, harness_row *row)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16 };
    for (int t = 0; t < (h->opts.quick || !(s->flags & CJ_SAMPLE_LARGE) ? 1 : 3); t++) { /* small ones run on one thread anyway */
        char why[200] = "";
        outcome a = evaluate(h, h->many, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
        outcome b = evaluate(h, h->ctx, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
        comparison k = { 0, 0, "several threads", "one" };
        note(row, HARNESS_THREADS, s, same(&a, &b, &k, why, sizeof why), "%s %.180s", cj_dtype_name(types[t]), why);
        outcome_free(&a);
        outcome_free(&b);
    }
}

/* The step that is captured: the result, its weighted sum, and the gradient of that. in: the sample's inputs, then the weights (float results). */
typedef struct step_user {
    const cj_sample *s;
    bool weighted, grad;
    int results;
} step_user;

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    step_user *u = user;
    const cj_sample *s = u->s;
    cj_tensor *x[CJ_SAMPLE_INPUTS], *leaf[CJ_SAMPLE_INPUTS], *g[CJ_SAMPLE_INPUTS];
    int m = 0;
    for (int i = 0; i < s->n; i++) {
        x[i] = in[i];
        if (!u->grad || !cj__sample_value(s, i)) continue;
        x[i] = leaf[m++] = cj_require_grad(in[i]);
    }
    cj_tensor *y = s->call(c, s, x);
    u->results = 1;
    out[0] = y;
    if (!u->weighted) return;
    cj_tensor *loss = cj_sum(cj_mul(y, in[s->n]), NULL);
    out[u->results++] = loss;
    if (!m || !cj_ok(c) || !cj_requires_grad(loss)) return;
    if (cj_grad(loss, leaf, m, g, &(cj_grad_opts){ .allow_unused = true }))
        for (int i = 0; i < m; i++) out[u->results++] = g[i];
}

static outcome step_outcome(cj_ctx *c, cj_tensor *const *out, int n)
{
    outcome o = { 0 };
    if (cj_ok(c)) read_out(c, &o, out[0], out + 1, n - 1);
    settle(c, &o);
    return o;
}

static void check_plan(harness *h, const cj_sample *sample, harness_row *row, cj_dtype t)
{
    enum { TURNS = 4 };
    static const uint64_t seeds[TURNS] = { 0, 1, 2, 1 };
    cj_ctx *c = h->many;
    cj_sample s = *sample;
    s.dtype = t;
    outcome eager[TURNS], planned[TURNS];
    char why[200] = "";
    cj_scope scope = cj_scope_open(c);
    cj_tensor *in[TURNS][CJ_SAMPLE_INPUTS + 1], *out[CJ_MAX_PLAN_OUTPUTS];
    step_user u = { .s = &s };
    for (int k = 0; k < TURNS; k++)
        for (int i = 0; i < s.n; i++) in[k][i] = cj__sample_input(c, &s, i, t, t, CJ_LAYOUT_DENSE, h->opts.seed + seeds[k]);
    cj_rng_set(c, (cj_rng_state){ .seed = h->opts.seed });
    cj_tensor *y = s.call(c, &s, in[0]);
    u.weighted = cj_ok(c) && cj_dtype_is_float(cj_dtype_of(y));
    u.grad = u.weighted && !(s.op->flags & CJ_OP_WRITES);
    for (int k = 0; k < TURNS && u.weighted; k++) in[k][s.n] = weights(c, y, h->opts.seed + seeds[k]);
    cj_rng_set(c, (cj_rng_state){ .seed = h->opts.seed });
    for (int k = 0; k < TURNS; k++) {
        memset(out, 0, sizeof out);
        step(c, &u, in[k], out);
        eager[k] = step_outcome(c, out, u.results);
    }
    cj_rng_set(c, (cj_rng_state){ .seed = h->opts.seed });
    memset(out, 0, sizeof out);
    cj_plan *p = cj_capture(c, step, &u, in[0], s.n + u.weighted, out);
    planned[0] = step_outcome(c, out, u.results);
    for (int k = 1; k < TURNS; k++) {
        memset(out, 0, sizeof out);
        if (p) cj_replay(p, in[k], out);
        planned[k] = p ? step_outcome(c, out, u.results) : planned[0];
        if (!p) planned[k].v = NULL;
    }
    comparison k = { 0, 0, "plan", "eager" };
    bool ok = true;
    int turn = 0;
    for (; turn < TURNS && ok; turn++) ok = same(&planned[turn], &eager[turn], &k, why, sizeof why);
    bool compiled = p && cj_plan_statistics(p).compiled;
    note(row, HARNESS_PLAN, sample, ok && compiled, "%s, %s: %.150s", cj_dtype_name(t),
         turn == 1   ? "capture"
         : turn == 2 ? "first replay"
                     : "replay",
         ok ? "the plan was not compiled" : why);
    for (int i = 0; i < TURNS; i++) {
        outcome_free(&eager[i]);
        outcome_free(&planned[i]);
    }
    cj_plan_free(p);
    cj_clear(c);
    cj_scope_close(scope);
}

/* Another level or the device: within tolerance of f64, and draws to the bit. */
static bool against_context(harness *h, cj_ctx *c, const cj_sample *s, harness_row *row, harness_check check, const char *name,
                            bool *missing)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    bool all = true;
    for (int t = 0; t < (h->opts.quick || (s->flags & CJ_SAMPLE_LARGE && s->op->kind == CJ_INTERNAL) ? 1 : 4); t++) {
        char why[200] = "";
        bool ok, allowed = true;
        if (s->flags & CJ_SAMPLE_RANDOM) {
            outcome a = evaluate(h, c, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
            outcome b = evaluate(h, h->ctx, s, types[t], types[t], CJ_LAYOUT_DENSE, GRADIENT, h->opts.seed);
            comparison k = { 0, 0, name, "cpu" };
            ok = same(&a, &b, &k, why, sizeof why);
            if (!a.ok && a.code == CJ_EDTYPE) allowed = false;
            outcome_free(&a);
            outcome_free(&b);
        } else {
            ok = against_reference(h, c, s, types[t], &allowed, why, sizeof why);
        }
        if (missing && !ok && (strstr(why, "kernel for this operator") || strstr(why, "no kernel"))) {
            *missing = true;
            continue;
        }
        if (allowed) all &= note(row, check, s, ok, "%s %s: %.170s", name, cj_dtype_name(types[t]), why);
    }
    return all;
}

static void check_sample(harness *h, const cj_sample *s, int at, harness_row *row)
{
    const bool internal = s->op->kind == CJ_INTERNAL, large = s->flags & CJ_SAMPLE_LARGE, quick = h->opts.quick;
    const bool grad = values_in(s) && (internal || differentiable(s->op));
    if (!large) check_reached(h, s, row, internal ? GRADIENT : FORWARD);
    if (row->failed[HARNESS_REACHED]) return;
    if (grad && !internal && !large && !(s->flags & CJ_SAMPLE_ROUGH) && (!quick || at < 3)) check_gradient(h, s, row);
    if (!quick || at < 3) check_dtypes(h, s, row);
    if (internal && large && at > 0 && s[-1].flags & CJ_SAMPLE_LARGE) return; /* its composite has run the others */
    if (grad && (internal || s->op->kind == CJ_COMPOSITE || s->op->define) && (!quick || at < 3)) check_fused(h, s, row);
    if (grad && (!quick || at < 3)) check_written(h, s, row);
    if (!quick || at < 2) check_layouts(h, s, row);
    if (!quick || at == 0 || large) check_threads(h, s, row);
    if (!(s->flags & CJ_SAMPLE_DYNAMIC) && (!quick || at < 2)) {
        check_plan(h, s, row, CJ_F32);
        if (!quick) check_plan(h, s, row, CJ_F64);
    }
    if (quick && at > 1 && !large) return;
    for (int l = 0; l < CJ_ISA_LEVELS; l++) {
        cj_ctx *c = h->level[l];
        if (!c) continue;
        if (against_context(h, c, s, row, HARNESS_ISA, cj_ctx_isa(c), NULL)) row->levels |= 1u << l;
        else row->levels_failed |= 1u << l;
    }
    if (h->device) {
        bool missing = false;
        against_context(h, h->device, s, row, HARNESS_DEVICE, cj_ctx_device(h->device), &missing);
        if (missing) row->no_device_kernel = true;
    }
}

/* Without elements a gradient has nothing to do, and its kernel may not be called. */
static bool empty(const cj_sample *s)
{
    for (int i = 0; i < s->n; i++)
        for (int d = 0; d < s->in[i].shape.ndim; d++)
            if (s->in[i].shape.dim[d] == 0) return true;
    return false;
}

void harness_run(harness *h, int i, harness_row *row)
{
    *row = (harness_row){ 0 };
    const cj_op *op = cj__op_at(i), *of = op;
    if (!op) return;
    row->name = op->name;
    if (op->kind == CJ_INTERNAL) { /* gelu_backward runs in the gradient of gelu */
        char name[64];
        const char *end = strstr(op->name, "_backward");
        snprintf(name, sizeof name, "%.*s", end ? (int)(end - op->name) : (int)strlen(op->name), op->name);
        of = cj__op_by_name(name);
    }
    static cj_sample sample[CJ_SAMPLES];
    row->samples = of ? cj__samples(of, sample) : 0;
    if (!row->samples) {
        row->failed[HARNESS_REACHED] = 1;
        snprintf(row->why[HARNESS_REACHED], sizeof row->why[0], "the operator has no sample");
        return;
    }
    for (int k = 0; k < row->samples; k++) {
        if (op->kind == CJ_INTERNAL && empty(&sample[k])) continue;
        sample[k].op = op;
        check_sample(h, &sample[k], k, row);
        forget_reference(h);
    }
    if (row->ran[HARNESS_DTYPE] && !(row->dtypes_failed & 1u << CJ_F32)) row->levels |= 1u << h->main_level;
    row->device = h->device && row->ran[HARNESS_DEVICE] && !row->failed[HARNESS_DEVICE] && !row->no_device_kernel;
    if (row->failed[HARNESS_VJP]) row->ran[HARNESS_JVP] = 0; /* what stands on a wrong derivative has not been shown */
    if (row->failed[HARNESS_VJP] || row->failed[HARNESS_JVP]) row->ran[HARNESS_SECOND] = 0;
    row->passed = true;
    for (int k = 0; k < HARNESS_CHECKS; k++) row->passed &= !row->failed[k];
}

/* ---- contexts ------------------------------------------------------------------------------------------------------------------------------------------------------------ */

static cj_ctx *context(const harness *h, const char *isa, int threads, const char *device)
{
    return cj_ctx_new(&(cj_ctx_opts){ .seed = h->opts.seed, .isa = isa, .threads = threads, .device = device });
}

harness *harness_new(const harness_opts *opts, char *message, size_t n)
{
    harness *h = calloc(1, sizeof *h);
    if (h) h->cached = calloc(CJ_DTYPES, sizeof *h->cached);
    if (!h || !h->cached) {
        free(h);
        snprintf(message, n, "no memory");
        return NULL;
    }
    h->opts = *opts;
    h->ctx = context(h, opts->isa, 1, NULL);
    h->many = h->ctx && cj_ok(h->ctx) ? context(h, cj_ctx_isa(h->ctx), MANY_THREADS, NULL) : NULL;
    h->reference = context(h, "portable", 1, NULL);
    bool ok = h->ctx && cj_ok(h->ctx) && h->many && cj_ok(h->many) && h->reference && cj_ok(h->reference);
    if (!ok) snprintf(message, n, "%s", h->ctx ? cj_message(h->ctx) : "no memory");
    for (int l = 0; l < CJ_ISA_LEVELS && ok; l++) {
        const cj_cpu_kernels *k = cj__cpu_kernels((cj_isa)l);
        if (!k) continue;
        snprintf(h->levels + strlen(h->levels), sizeof h->levels - strlen(h->levels), "%s%s", *h->levels ? " " : "", k->name);
        if (strcmp(k->name, cj_ctx_isa(h->ctx)) == 0) h->main_level = l;
        else h->level[l] = context(h, k->name, 1, NULL);
    }
    if (ok && opts->device && strcmp(opts->device, "cpu") != 0) {
        h->device = context(h, NULL, 1, opts->device);
        ok = h->device && cj_ok(h->device);
        if (!ok) snprintf(message, n, "%s", h->device ? cj_message(h->device) : "no memory");
    }
    if (ok) return h;
    harness_free(h);
    return NULL;
}

void harness_free(harness *h)
{
    if (!h) return;
    cj_ctx_free(h->ctx);
    cj_ctx_free(h->many);
    cj_ctx_free(h->reference);
    for (int l = 0; l < CJ_ISA_LEVELS; l++) cj_ctx_free(h->level[l]);
    cj_ctx_free(h->device);
    free(h->cached);
    free(h);
}

const char *harness_isa(const harness *h) { return cj_ctx_isa(h->ctx); }
const char *harness_levels(const harness *h) { return h->levels; }
