/* Roots and minima of functions of one number: bisection, Newton, Brent; golden section, Brent (Brent, "Algorithms for minimization without derivatives", 1973). */
#include <float.h>
#include <math.h>

#include "math/math.h"
#include "ops/ops.h"

typedef struct search {
    cj_ctx *c;
    const char *op;
    cj_real_fn f;
    void *user;
    double tolerance;
    int64_t most, evaluations;
} search;

static double value_at(search *s, double x)
{
    s->evaluations++;
    const double y = s->f(s->user, x);
    if (isnan(y)) cj__error(s->c, CJ_EVALUE, "%s: the function is NaN at %.17g", s->op, x);
    return y;
}
/* What is meant by "close to x". */
static double close_to(const search *s, double x) { return s->tolerance * (1 + fabs(x)); }

static bool ready(search *s, const cj_root_opts *o, int64_t steps, double tolerance)
{
    s->tolerance = o && o->tolerance > 0 ? o->tolerance : tolerance;
    s->most = o && o->steps > 0 ? o->steps : steps;
    if (!s->c || s->c->error) return false;
    if (!s->f) return cj__error(s->c, CJ_EVALUE, "%s: the function is NULL", s->op);
    return true;
}
static bool ordered(const search *s, double a, double b)
{
    if (isfinite(a) && isfinite(b) && a < b) return true;
    return cj__error(s->c, CJ_EVALUE, "%s: an interval of finite numbers is expected, found %g to %g", s->op, a, b);
}
static cj_root nothing(void) { return (cj_root){ NAN, NAN, 0, false }; }
static cj_root found(const search *s, double x, double value, bool converged)
{
    return s->c->error ? nothing() : (cj_root){ x, value, s->evaluations, converged };
}
/* Values of different sign at both ends, or an error. */
static bool brackets(search *s, double a, double b, double *fa, double *fb)
{
    if (!ordered(s, a, b)) return false;
    *fa = value_at(s, a), *fb = value_at(s, b);
    if (s->c->error) return false;
    if ((*fa <= 0 && *fb >= 0) || (*fa >= 0 && *fb <= 0)) return true;
    return cj__error(s->c, CJ_EVALUE, "%s: values of different sign at the ends are expected, found %g at %g and %g at %g", s->op, *fa, a,
                     *fb, b);
}

cj_root(cj_root_bisect)(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts)
{
    search s = { .c = c, .op = "root_bisect", .f = f, .user = user };
    double fa, fb;
    if (!ready(&s, opts, 2000, 4 * DBL_EPSILON) || !brackets(&s, a, b, &fa, &fb)) return nothing();
    if (fa == 0 || fb == 0) return found(&s, fa == 0 ? a : b, 0, true);
    double x = a, y = fa;
    for (int64_t i = 0; i < s.most && !c->error; i++) {
        x = a + 0.5 * (b - a), y = value_at(&s, x);
        if (y == 0 || 0.5 * (b - a) <= close_to(&s, x)) return found(&s, x, y, true);
        if ((y > 0) == (fa > 0)) a = x;
        else b = x;
    }
    return found(&s, x, y, false);
}

/* x - f/f'; a step that does not make |f| smaller is halved, at most 40 times. */
cj_root(cj_root_newton)(cj_ctx *c, cj_real_fn f, cj_real_fn derivative, void *user, double x, const cj_root_opts *opts)
{
    search s = { .c = c, .op = "root_newton", .f = f, .user = user };
    if (!ready(&s, opts, 100, 4 * DBL_EPSILON)) return nothing();
    if (!derivative || !isfinite(x)) {
        cj__error(c, CJ_EVALUE, "root_newton: a derivative and a finite start are expected, found %s and %g", derivative ? "one" : "NULL",
                  x);
        return nothing();
    }
    double y = value_at(&s, x);
    for (int64_t i = 0; i < s.most && !c->error; i++) {
        if (y == 0) return found(&s, x, y, true);
        const double slope = derivative(user, x);
        if (!isfinite(slope) || slope == 0) {
            cj__error(c, CJ_EVALUE, "root_newton: the derivative is %g at %.17g", slope, x);
            return nothing();
        }
        double step = -y / slope, next = value_at(&s, x + step);
        for (int halved = 0; halved < 40 && fabs(step) > close_to(&s, x) && !(fabs(next) < fabs(y)) && !c->error; halved++)
            step *= 0.5, next = value_at(&s, x + step);
        const bool last = fabs(step) <= close_to(&s, x);
        if (!last || fabs(next) < fabs(y)) x += step, y = next;
        if (last) return found(&s, x, y, true);
    }
    return found(&s, x, y, false);
}

/* Inverse quadratic interpolation or the secant while they shrink the bracket fast enough, else bisection. b is the best point, a the one before, c on the other side. */
cj_root(cj_root_brent)(cj_ctx *ctx, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts)
{
    search s = { .c = ctx, .op = "root_brent", .f = f, .user = user };
    double fa, fb;
    if (!ready(&s, opts, 200, 2 * DBL_EPSILON) || !brackets(&s, a, b, &fa, &fb)) return nothing();
    double c = a, fc = fa, step = b - a, before = step;
    for (int64_t i = 0; i < s.most && !ctx->error; i++) {
        if ((fb > 0) == (fc > 0)) c = a, fc = fa, step = before = b - a;
        if (fabs(fc) < fabs(fb)) a = b, b = c, c = a, fa = fb, fb = fc, fc = fa;
        const double near = close_to(&s, b), middle = 0.5 * (c - b);
        if (fabs(middle) <= near || fb == 0) return found(&s, b, fb, true);
        if (fabs(before) >= near && fabs(fa) > fabs(fb)) {
            const double r = fb / fa;
            double p, q;
            if (a == c) p = 2 * middle * r, q = 1 - r;
            else {
                const double t = fa / fc, u = fb / fc;
                p = r * (2 * middle * t * (t - u) - (b - a) * (u - 1)), q = (t - 1) * (u - 1) * (r - 1);
            }
            if (p > 0) q = -q;
            else p = -p;
            if (2 * p < fmin(3 * middle * q - fabs(near * q), fabs(before * q))) before = step, step = p / q;
            else step = before = middle;
        } else step = before = middle;
        a = b, fa = fb;
        b += fabs(step) > near ? step : copysign(near, middle);
        fb = value_at(&s, b);
    }
    return found(&s, b, fb, false);
}

/* ---- minima ---------------------------------------------------------------------------------------------------------------------------------- */

#define GOLDEN 0.38196601125010515180 /* (3 - sqrt 5)/2 */
#define HALF_DIGITS 1.5e-8            /* sqrt(eps): closer together, values at a minimum do not differ */

cj_root(cj_minimum_golden)(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts)
{
    search s = { .c = c, .op = "minimum_golden", .f = f, .user = user };
    if (!ready(&s, opts, 500, HALF_DIGITS) || !ordered(&s, a, b)) return nothing();
    double x = a + GOLDEN * (b - a), y = b - GOLDEN * (b - a), fx = value_at(&s, x), fy = value_at(&s, y);
    for (int64_t i = 0; i < s.most && !c->error; i++) {
        if (b - a <= 2 * close_to(&s, x)) return found(&s, fx < fy ? x : y, fmin(fx, fy), true);
        if (fx < fy) b = y, y = x, fy = fx, x = a + GOLDEN * (b - a), fx = value_at(&s, x);
        else a = x, x = y, fx = fy, y = b - GOLDEN * (b - a), fy = value_at(&s, y);
    }
    return found(&s, fx < fy ? x : y, fmin(fx, fy), false);
}

/* A parabola through the three best points x, w, v while its steps halve, else a golden section of the larger part. */
cj_root(cj_minimum_brent)(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts)
{
    search s = { .c = c, .op = "minimum_brent", .f = f, .user = user };
    if (!ready(&s, opts, 500, HALF_DIGITS) || !ordered(&s, a, b)) return nothing();
    double x = a + GOLDEN * (b - a), w = x, v = x, fx = value_at(&s, x), fw = fx, fv = fx, step = 0, before = 0;
    for (int64_t i = 0; i < s.most && !c->error; i++) {
        const double middle = 0.5 * (a + b), near = close_to(&s, x);
        if (fabs(x - middle) <= 2 * near - 0.5 * (b - a)) return found(&s, x, fx, true);
        double p = 0, q = 0, was = before;
        if (fabs(before) > near) {
            const double r = (x - w) * (fx - fv);
            q = (x - v) * (fx - fw), p = (x - v) * q - (x - w) * r, q = 2 * (q - r);
            if (q > 0) p = -p;
            q = fabs(q), before = step;
        }
        if (q > 0 && fabs(p) < fabs(0.5 * q * was) && p > q * (a - x) && p < q * (b - x)) {
            step = p / q;
            if (x + step - a < 2 * near || b - x - step < 2 * near) step = copysign(near, middle - x);
        } else before = x < middle ? b - x : a - x, step = GOLDEN * before;
        const double u = x + (fabs(step) >= near ? step : copysign(near, step)), fu = value_at(&s, u);
        if (fu <= fx) {
            if (u < x) b = x;
            else a = x;
            v = w, fv = fw, w = x, fw = fx, x = u, fx = fu;
        } else {
            if (u < x) a = u;
            else b = u;
            if (fu <= fw || w == x) v = w, fv = fw, w = u, fw = fu;
            else if (fu <= fv || v == x || v == w) v = u, fv = fu;
        }
    }
    return found(&s, x, fx, false);
}
