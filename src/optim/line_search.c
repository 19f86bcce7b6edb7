/* Line searches: how far to go along a direction of descent.
 *
 *   Armijo    shrink the step until f(w + s d) <= f(w) + c1 s g·d
 *   Wolfe     and |g(w + s d)·d| <= c2 |g·d| (strong); bracket, then zoom (Nocedal and Wright, algorithms 3.5 and 3.6)
 *   exact     s = -g·d / d·Hd, the minimum of a quadratic
 *   bracket   low < inner < high with f(inner) below both ends, doubled until there is one, then shrunk by golden sections; four points, of which each step
 *             computes one anew.  f near its minimum is flat, so values alone end at the root of the rounding error: a secant step on the slopes does the rest
 */
#include <math.h>

#include "optim/objective.h"

static const double c1 = 1e-4, c2 = 0.9;
enum { MOST = 60 }; /* tries: the step has shrunk by 2^60 then */

/* f at w + s d; with its slope where asked. */
static double at(cj__line *l, double s, double *slope)
{
    for (int64_t i = 0; i < l->ob->size; i++) l->trial[i] = l->w[i] + s * l->d[i];
    l->value = cj__objective_at(l->ob, l->trial, slope ? l->gradient : NULL);
    if (slope) *slope = cj__dot(l->gradient, l->d, l->ob->size);
    return l->value;
}

static double armijo(cj__line *l, double s)
{
    for (int k = 0; k < MOST && !l->ob->ctx->error; k++) {
        if (at(l, s, NULL) <= l->f + c1 * s * l->slope) {
            double slope;
            at(l, s, &slope);
            return s;
        }
        s /= 2;
    }
    return 0;
}

typedef struct point {
    double s, f, slope;
} point;

/* The minimum of the cubic through two points with their slopes, kept inside by a tenth of the interval; the middle where there is none. */
static double cubic(point a, point b)
{
    double low = fmin(a.s, b.s), high = fmax(a.s, b.s), margin = 0.1 * (high - low);
    double d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.s - b.s), root = d1 * d1 - a.slope * b.slope;
    double d2 = (b.s > a.s ? 1 : -1) * sqrt(root), s = b.s - (b.s - a.s) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
    return root >= 0 && s > low + margin && s < high - margin ? s : (low + high) / 2;
}

static double zoom(cj__line *l, point low, point high)
{
    for (int k = 0; k < MOST && !l->ob->ctx->error && low.s != high.s; k++) {
        point p = { .s = cubic(low, high) };
        p.f = at(l, p.s, &p.slope);
        if (!(p.f <= l->f + c1 * p.s * l->slope) || p.f >= low.f) {
            high = p;
        } else {
            if (fabs(p.slope) <= -c2 * l->slope) return p.s;
            if (p.slope * (high.s - low.s) >= 0) high = low;
            low = p;
        }
    }
    double slope;
    if (low.s > 0) at(l, low.s, &slope); /* rounding ended it: the lowest point that satisfies Armijo */
    return l->ob->ctx->error ? 0 : low.s;
}

static double wolfe(cj__line *l, double s)
{
    point before = { 0, l->f, l->slope };
    for (int k = 0; k < MOST && !l->ob->ctx->error; k++) {
        point p = { .s = s };
        p.f = at(l, s, &p.slope);
        if (!(p.f <= l->f + c1 * s * l->slope) || (k > 0 && p.f >= before.f)) return zoom(l, before, p);
        if (fabs(p.slope) <= -c2 * l->slope) return s;
        if (p.slope >= 0) return zoom(l, p, before);
        before = p;
        s *= 2;
    }
    return 0;
}

static double exact(cj__line *l)
{
    double slope;
    if (!cj__objective_hvp(l->ob, l->w, l->d, l->gradient)) return 0;
    double curvature = cj__dot(l->d, l->gradient, l->ob->size);
    if (!(curvature > 0)) {
        cj__error(l->ob->ctx, CJ_EVALUE, "%s: curvature %g along the direction; an exact line search needs a positive one", l->ob->name,
                  curvature);
        return 0;
    }
    double s = -l->slope / curvature;
    at(l, s, &slope);
    return l->ob->ctx->error ? 0 : s;
}

static const double golden = 0.6180339887498949;

/* Shrinks the bracket [low, high] around a minimum; the two inner points are at golden sections, so that one of them serves the next bracket too. */
static double shrink(cj__line *l, double low, double high)
{
    double a = high - golden * (high - low), b = low + golden * (high - low), fa = at(l, a, NULL), fb = at(l, b, NULL);
    while (high - low > 1e-6 * high && !l->ob->ctx->error) {
        if (fa <= fb) {
            high = b, b = a, fb = fa;
            a = high - golden * (high - low), fa = at(l, a, NULL);
        } else {
            low = a, a = b, fa = fb;
            b = low + golden * (high - low), fb = at(l, b, NULL);
        }
    }
    double left, right, slope;
    at(l, low, &left);
    at(l, high, &right);
    double s = left < 0 && right > 0 ? low + (high - low) * -left / (right - left) : fa <= fb ? a : b;
    at(l, s, &slope);
    return l->ob->ctx->error ? 0 : s;
}

static double bracket(cj__line *l, double s)
{
    double low = 0, inner = s, high, f = at(l, s, NULL);
    for (int k = 0; k < MOST && !(f < l->f) && !l->ob->ctx->error; k++) inner /= 2, f = at(l, inner, NULL);
    if (!(f < l->f)) return 0; /* as low as rounding lets it be */
    high = 2 * inner;
    for (int k = 0; k < MOST && !l->ob->ctx->error; k++) {
        double next = at(l, high, NULL);
        if (!(next < f)) return shrink(l, low, high);
        low = inner, inner = high, f = next, high *= 2;
    }
    if (!l->ob->ctx->error) cj__error(l->ob->ctx, CJ_EVALUE, "%s: the function falls without end along the direction", l->ob->name);
    return 0;
}

double cj__line_search(cj__line *l, cj_search kind, double step)
{
    double slope;
    switch (kind) {
    case CJ_SEARCH_ARMIJO: return armijo(l, step);
    case CJ_SEARCH_WOLFE: return wolfe(l, step);
    case CJ_SEARCH_EXACT: return exact(l);
    case CJ_SEARCH_BRACKET: return bracket(l, step);
    default: at(l, step, &slope); return l->ob->ctx->error ? 0 : step;
    }
}
