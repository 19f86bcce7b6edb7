/* Calculus as experiments: derivatives of any order, Taylor polynomials with their remainder, convexity tested along segments, one-sided derivatives. */
#include <math.h>

#include "math/math.h"
#include "ops/compose.h"
#include "ops/ops.h"

/* ---- Taylor ---------------------------------------------------------------------------------------------------------------------------------- */

enum { HIGHEST = 8 };

/* The derivative of order `order` as a cj_fn: that of one order less, differentiated in the direction of ones. */
typedef struct nest {
    cj_fn fn;
    void *user;
    int order;
} nest;
static cj_tensor *nested(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    const nest *k = user;
    (void)n;
    if (k->order == 0) return k->fn(c, k->user, in, 1);
    nest inner = { k->fn, k->user, k->order - 1 };
    cj_tensor *ones = cj_ones_like(in[0]);
    return (cj_jvp)(c, nested, &inner, in, &ones, 1).derivative;
}

cj_tensor *(cj_derivative)(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int order)
{
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "derivative", 3, x)) return c->poison;
    if (!fn || order < 0 || order > HIGHEST)
        return cj_fail(c, CJ_EVALUE, "derivative: a function and an order of 0 to %d are expected, found %s and %d", HIGHEST,
                       fn ? "one" : "NULL", order);
    nest k = { fn, user, order };
    return nested(c, &k, &x, 1);
}

cj_tensor *(cj_taylor)(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x0, int n, cj_tensor *x)
{
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "taylor", 3, x0) || !cj__usable(c, "taylor", 5, x)) return c->poison;
    if (n < 0) return cj_fail(c, CJ_EVALUE, "taylor: a degree from 0 to %d is expected, found %d", HIGHEST, n);
    cj_tensor *step = cj_sub(x, x0), *sum = (cj_derivative)(c, fn, user, x0, n); /* Horner's scheme */
    for (int k = n - 1; k >= 0; k--)
        sum = cj_add((cj_derivative)(c, fn, user, x0, k), cj_mul_scalar(cj_mul(sum, step), 1 / (double)(k + 1)));
    return sum;
}

typedef struct remainder_term {
    cj_ctx *c;
    cj_fn fn;
    void *user;
    double x;
    int n;
} remainder_term;
static double remainder_at(void *user, double t)
{
    const remainder_term *r = user;
    cj_scope s = cj_scope_open(r->c);
    double y = cj_item((cj_derivative)(r->c, r->fn, r->user, cj_from_f64(r->c, &t, CJ_SCALAR), r->n + 1));
    cj_scope_close(s);
    for (int k = 1; k <= r->n; k++) y *= (r->x - t) / k;
    return y;
}
cj_integral(cj_taylor_remainder)(cj_ctx *c, cj_fn fn, void *user, double x0, int n, double x, const cj_integrate_opts *opts)
{
    if (!c || c->error) return (cj_integral){ NAN, INFINITY, 0, false };
    if (!fn || n < 0 || n >= HIGHEST)
        cj__error(c, CJ_EVALUE, "taylor_remainder: a function and a degree from 0 to %d are expected, found %s and %d", HIGHEST - 1,
                  fn ? "one" : "NULL", n);
    remainder_term r = { c, fn, user, x, n };
    return (cj_integrate)(c, remainder_at, &r, x0, x, opts);
}

/* ---- convexity -------------------------------------------------------------------------------------------------------------------------------- */

typedef struct test {
    cj_ctx *c;
    cj_fn fn;
    void *user;
    double tolerance;
    cj_convexity r;
} test;

static double value(const test *t, cj_tensor *x)
{
    cj_tensor *y = t->c->error ? t->c->poison : t->fn(t->c, t->user, &x, 1);
    if (!t->c->error && !y) cj__error(t->c, CJ_EVALUE, "check_convex: the function returned NULL");
    return t->c->error ? NAN : cj_item(y);
}
static double inner(cj_tensor *a, cj_tensor *b) { return cj_item(cj_sum(cj_cast(cj_mul(a, b), CJ_F64), NULL)); }
static cj_tensor *gradient(const test *t, cj_tensor *x)
{
    cj_tensor *leaf = cj_require_grad(x), *g = t->c->poison;
    cj_tensor *y = t->c->error ? NULL : t->fn(t->c, t->user, &leaf, 1);
    if (y) (cj_grad)(y, &leaf, 1, &g, &(cj_grad_opts){ .allow_unused = true });
    return g;
}

/* Notes the first inequality that fails: `gap` should not be negative, compared with values of this size. */
static bool holds(test *t, const char *what, double lambda, double gap, double size)
{
    if (gap >= -t->tolerance * (1 + size)) return true;
    t->r.convex = t->r.strict = false;
    t->r.broken = what, t->r.lambda = lambda, t->r.gap = gap;
    return false;
}

static bool segment(test *t, cj_tensor *a, cj_tensor *b, bool values_only, bool curvature)
{
    const double fa = value(t, a), fb = value(t, b), size = fabs(fa) + fabs(fb);
    for (int i = 1; i <= 9 && !t->c->error; i++) {
        const double l = 0.1 * (i == 1 ? 5 : i <= 5 ? i - 1 : i); /* the middle first: for a continuous function it suffices */
        const double gap = l * fa + (1 - l) * fb - value(t, cj_add(cj_mul_scalar(a, l), cj_mul_scalar(b, 1 - l)));
        if (!holds(t, "chord", l, gap, size)) return false;
        if (!(gap > t->tolerance * (1 + size))) t->r.strict = false;
    }
    if (values_only || t->c->error) return !t->c->error;
    cj_tensor *ga = gradient(t, a), *gb = gradient(t, b), *d = cj_sub(b, a);
    if (t->c->error) return false;
    const double rise = inner(ga, d), later = inner(gb, d);
    if (!holds(t, "tangent", 0, fb - fa - rise, size + fabs(rise))) return false;
    if (!holds(t, "monotone gradient", 0, later - rise, fabs(rise) + fabs(later))) return false;
    if (!curvature || a->numel > 64) return true;
    cj_tensor *h = cj_reshape((cj_hessian)(t->c, t->fn, t->user, a), CJ_SHAPE(a->numel, a->numel));
    cj_tensor *w = cj_eigvalsh(cj_cast(h, CJ_F64));
    if (t->c->error) return false;
    const double smallest = cj_item(cj_min(w, NULL)), largest = cj_item(cj_max(cj_abs(w), NULL));
    return holds(t, "Hessian", 0, smallest, largest);
}

cj_convexity(cj_check_convex)(cj_ctx *c, cj_fn fn, void *user, cj_tensor *low, cj_tensor *high, const cj_convexity_opts *opts)
{
    const cj_convexity_opts o = opts ? *opts : (cj_convexity_opts){ 0 };
    test t = { c, fn, user, o.tolerance > 0 ? o.tolerance : 1e-9, { .convex = true, .strict = true } };
    const cj_convexity none = { 0 };
    if (!c || c->error || !cj__usable(c, "check_convex", 3, low) || !cj__usable(c, "check_convex", 4, high)) return none;
    if (!fn) return cj__error(c, CJ_EVALUE, "check_convex: the function is NULL"), none;
    if (low->ndim != high->ndim || memcmp(low->shape, high->shape, low->ndim * sizeof low->shape[0]) != 0 || !low->numel)
        return cj__error(c, CJ_ESHAPE, "check_convex: two corners of one shape are expected, found %s and %s", cj__tensor_text(low),
                         cj__tensor_text(high)),
               none;
    const int64_t segments = o.segments > 0 ? o.segments : 200;
    for (int64_t i = 0; i < segments && t.r.convex && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *end[2];
        for (int k = 0; k < 2; k++)
            end[k] = cj_add(low, cj_mul(cj_sub(high, low), cj_rand(c, cj__shape(low), &(cj_random_opts){ .dtype = (cj_dtype)low->dtype })));
        if (!segment(&t, end[0], end[1], o.values_only, i < 20) && !c->error) {
            cj_tensor *both = cj_scope_return(s, cj_stack(end, 2, 0));
            t.r.a = cj_select(both, 0, 0), t.r.b = cj_select(both, 0, 1);
        } else cj_scope_close(s);
    }
    return c->error ? none : t.r;
}

/* ---- one-sided derivatives -------------------------------------------------------------------------------------------------------------------- */

/* (-3 f(x) + 4 f(x + h) - f(x + 2h)) / 2h, right to h² where f is smooth on that side. */
static double one_sided(cj_real_fn f, void *user, double x, double h)
{
    return (4 * (f(user, x + h) - f(user, x)) - (f(user, x + 2 * h) - f(user, x))) / (2 * h);
}
cj_interval(cj_subdifferential)(cj_ctx *c, cj_real_fn f, void *user, double x)
{
    if (!c || c->error) return (cj_interval){ NAN, NAN };
    if (!f || !isfinite(x)) {
        cj__error(c, CJ_EVALUE, "subdifferential: a function and a finite place are expected, found %s and %g", f ? "one" : "NULL", x);
        return (cj_interval){ NAN, NAN };
    }
    const double h = 0x1p-17 * (1 + fabs(x));
    return (cj_interval){ one_sided(f, user, x, -h), one_sided(f, user, x, h) };
}
