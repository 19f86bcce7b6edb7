/* Convexity, measured: the two-point inequalities of smooth and strongly convex functions, curvature, and the kind of a convergence. */
#include <math.h>

#include "cajal/math.h"
#include "cajal/study.h"
#include "core/core.h"

static double product(cj_tensor *a, cj_tensor *b) { return cj_item(cj_sum(cj_mul(a, b), NULL)); }

static cj_tensor *gradient(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, double *at)
{
    cj_tensor *leaf = cj_require_grad(x), *y = fn(c, user, &leaf, 1), *g = c->poison;
    *at = cj_item(y);
    cj_grad(y, &leaf, 1, &g, &(cj_grad_opts){ .allow_unused = true });
    return g;
}

cj_two_points cj_compare_points(cj_ctx *c, cj_fn fn, void *user, cj_tensor *u, cj_tensor *v)
{
    static const char op[] = "compare_points";
    cj_two_points r = { NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    if (!c || c->error) return r;
    if (!fn) return cj_fail(c, CJ_EVALUE, "%s: the function is NULL", op), r;
    if (!cj__usable(c, op, 3, u) || !cj__usable(c, op, 4, v)) return r;
    cj_scope s = cj_scope_open(c);
    bool grad = cj_grad_mode(c, true);
    double at_u, at_v;
    cj_tensor *gu = gradient(c, fn, user, u, &at_u), *gv = gradient(c, fn, user, v, &at_v);
    cj_grad_mode(c, false);
    cj_tensor *way = cj_sub(v, u), *change = cj_sub(gv, gu);
    cj_two_points found = { .value_u = at_u,
                            .value_v = at_v,
                            .divergence = at_v - at_u - product(gu, way),
                            .monotone = product(change, way),
                            .distance2 = product(way, way),
                            .change2 = product(change, change),
                            .gradient2 = product(gu, gu) };
    cj_grad_mode(c, grad);
    cj_scope_close(s);
    return c->error ? r : found;
}

/* max |fn(a + t (b - a)) - fn(a + s (b - a))| */
static double change_between(cj_ctx *c, cj_fn fn, void *user, cj_tensor *a, cj_tensor *b, double s, double t)
{
    cj_scope scope = cj_scope_open(c);
    cj_tensor *way = cj_sub(b, a), *p = cj_add(a, cj_mul_scalar(way, s)), *q = cj_add(a, cj_mul_scalar(way, t));
    double most = cj_item(cj_max(cj_abs(cj_sub(fn(c, user, &p, 1), fn(c, user, &q, 1))), NULL));
    cj_scope_close(scope);
    return most;
}

double cj_continuity_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *a, cj_tensor *b, int64_t steps)
{
    static const char op[] = "continuity_error";
    if (!c || c->error) return NAN;
    if (!fn || steps < 0) return cj_fail(c, CJ_EVALUE, "%s: the function is NULL, or %lld steps", op, (long long)steps), NAN;
    if (!cj__usable(c, op, 3, a) || !cj__usable(c, op, 4, b)) return NAN;
    if (!steps) steps = 200;
    bool grad = cj_no_grad(c);
    double most = -1, low = 0, high = 1;
    for (int64_t i = 0; i < steps && !c->error && cj__cancel_check(c); i++) {
        double s = (double)i / (double)steps, t = (double)(i + 1) / (double)steps, change = change_between(c, fn, user, a, b, s, t);
        if (change > most) most = change, low = s, high = t;
    }
    for (int i = 0; i < 40 && !c->error; i++) {
        double middle = (low + high) / 2, left = change_between(c, fn, user, a, b, low, middle),
               right = change_between(c, fn, user, a, b, middle, high);
        most = left > right ? left : right;
        *(left > right ? &high : &low) = middle;
    }
    cj_grad_mode(c, grad);
    return c->error ? NAN : most;
}

cj_curvature cj_hessian_extremes(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int64_t steps)
{
    static const char op[] = "hessian_extremes";
    cj_curvature r = { NAN, NAN, NAN };
    if (!c || c->error) return r;
    if (!fn || steps < 0) return cj_fail(c, CJ_EVALUE, "%s: the function is NULL, or %lld steps", op, (long long)steps), r;
    if (!cj__usable(c, op, 3, x)) return r;
    if (!steps) steps = x->numel < 200 ? x->numel : 200;
    cj_scope s = cj_scope_open(c);
    cj_hessian_map map = { fn, user, x };
    cj_tensor *start = cj_randn(c, cj_shape_of(x), &(cj_random_opts){ .dtype = (cj_dtype)x->dtype });
    cj_eigen e = cj_lanczos(c, cj_hessian_product, &map, start, steps);
    if (!c->error)
        r.smallest = cj_item(cj_min(e.values, NULL)), r.largest = cj_item(cj_max(e.values, NULL)), r.condition = r.largest / r.smallest;
    cj_scope_close(s);
    return r;
}

cj_rate_class cj_convergence_class(const double *gap, int64_t n)
{
    int64_t used = 0;
    while (used < n && gap[used] > 0 && isfinite(gap[used])) used++;
    if (used < 4) return CJ_RATE_UNKNOWN;
    int64_t last = used - 1, half = last / 2, middle = (half + last) / 2;
    if (middle == half) half--;
    double early = log(gap[middle] / gap[half]) / (double)(middle - half), late = log(gap[last] / gap[middle]) / (double)(last - middle),
           growth = late / early; /* 1/t: log(4/3)/log(3/2) = 0.71; q^t: 1; q^(2^t): at least 2 */
    if (!(early < 0)) return CJ_RATE_UNKNOWN;
    return growth < 0.87 ? CJ_RATE_SUBLINEAR : growth > 1.15 ? CJ_RATE_SUPERLINEAR : CJ_RATE_LINEAR;
}
