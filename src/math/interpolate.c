/* Interpolation of values at knots: linear, cubic splines, monotone cubics.
 *
 * Between two knots the cubics are Hermite's, made of values and slopes at both ends; the kinds differ in how they choose the slopes d:
 *   natural    two continuous derivatives, the second 0 at the ends: a tridiagonal system
 *   clamped    the same with given slopes at the ends
 *   monotone   weighted harmonic means of neighbouring secants, 0 at extrema (Fritsch & Butland 1984): no overshoot
 * Everything is linear algebra on y: differentiable in y and in the places, not in the knots.
 */
#include <math.h>

#include "math/math.h"
#include "ops/compose.h"
#include "ops/ops.h"

static cj_tensor *part(cj_tensor *x, int64_t begin, int64_t end) { return cj_slice(x, -1, begin, end, 1); }
static cj_tensor *join(cj_tensor *a, cj_tensor *b, cj_tensor *c) { return cj_cat((cj_tensor *[]){ a, b, c }, b ? 3 : 2, -1); }

/* A·d = rhs with rows (…, h_i, 2 (h_(i-1) + h_i), h_(i-1), …); rhs [.., n]. */
static cj_tensor *tridiagonal(cj_ctx *c, const double *x, int64_t n, bool natural, cj_tensor *rhs)
{
    double *a = cj__alloc(c, (size_t)(n * n) * sizeof *a);
    if (!a) return c->poison;
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    a[0] = natural ? 2 : 1, a[n * n - 1] = a[0];
    if (natural) a[1] = 1, a[n * n - 2] = 1;
    for (int64_t i = 1; i + 1 < n; i++) {
        const double before = x[i] - x[i - 1], after = x[i + 1] - x[i];
        a[i * n + i - 1] = after, a[i * n + i] = 2 * (before + after), a[i * n + i + 1] = before;
    }
    cj_tensor *matrix = cj_cast(cj_from_f64(c, a, CJ_SHAPE(n, n)), (cj_dtype)rhs->dtype);
    cj__free(c, a, (size_t)(n * n) * sizeof *a);
    const cj_shape shape = cj__shape(rhs);
    return cj_reshape(cj_t(cj_solve(matrix, cj_t(cj_reshape(rhs, CJ_SHAPE(-1, n))))), shape);
}

/* The slope at the first of three knots: of the parabola through them, unless it has the wrong sign or overshoots. */
static cj_tensor *end_slope(cj_tensor *h0, cj_tensor *h1, cj_tensor *s0, cj_tensor *s1)
{
    cj_tensor *d = cj_div(cj_sub(cj_mul(cj_add(cj_mul_scalar(h0, 2), h1), s0), cj_mul(h0, s1)), cj_add(h0, h1)),
              *limit = cj_mul_scalar(s0, 3);
    cj_tensor *turns = cj_ne(cj_sign(s0), cj_sign(s1)), *far = cj_gt(cj_abs(d), cj_abs(limit));
    d = cj_where(cj_logical_and(turns, far), limit, d);
    return cj_where(cj_eq(cj_sign(d), cj_sign(s0)), d, cj__const_like(d, 0));
}
static cj_tensor *monotone_slopes(cj_tensor *h, cj_tensor *s, int64_t n)
{
    if (n == 2) return join(s, s, NULL);
    cj_tensor *h0 = part(h, 0, n - 2), *h1 = part(h, 1, n - 1), *s0 = part(s, 0, n - 2), *s1 = part(s, 1, n - 1);
    cj_tensor *w0 = cj_add(cj_mul_scalar(h1, 2), h0), *w1 = cj_add(h1, cj_mul_scalar(h0, 2)), *same = cj_gt_scalar(cj_mul(s0, s1), 0);
    cj_tensor *one = cj__const_like(s, 1), *a = cj_where(same, s0, one), *b = cj_where(same, s1, one);
    cj_tensor *mean = cj_div(cj_add(w0, w1), cj_add(cj_div(w0, a), cj_div(w1, b)));
    cj_tensor *first = end_slope(part(h, 0, 1), part(h, 1, 2), part(s, 0, 1), part(s, 1, 2));
    cj_tensor *last = end_slope(part(h, n - 2, n - 1), part(h, n - 3, n - 2), part(s, n - 2, n - 1), part(s, n - 3, n - 2));
    return join(first, cj_where(same, mean, cj__const_like(s, 0)), last);
}
static cj_tensor *spline_slopes(const cj_interp_opts *o, const double *x, cj_tensor *h, cj_tensor *s, int64_t n)
{
    const bool natural = o->kind == CJ_SPLINE_NATURAL;
    cj_tensor *first = part(s, 0, 1), *last = part(s, n - 2, n - 1), *inner = NULL;
    if (natural) first = cj_mul_scalar(first, 3), last = cj_mul_scalar(last, 3);
    else first = cj_add_scalar(cj_mul_scalar(first, 0), o->slope[0]), last = cj_add_scalar(cj_mul_scalar(last, 0), o->slope[1]);
    if (n > 2) {
        cj_tensor *h0 = part(h, 0, n - 2), *h1 = part(h, 1, n - 1);
        inner = cj_mul_scalar(cj_add(cj_mul(h1, part(s, 0, n - 2)), cj_mul(h0, part(s, 1, n - 1))), 3);
    }
    return tridiagonal(s->ctx, x, n, natural, inner ? join(first, inner, last) : join(first, last, NULL));
}

/* The knots as doubles, strictly ascending; false after an error. */
static bool knots(cj_tensor *x, double *v, int64_t n)
{
    if (!cj_to_f64(x, v, n)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]) || (i && !(v[i] > v[i - 1])))
            return cj__error(x->ctx, CJ_EVALUE, "interp: ascending finite knots are expected, found %g at %lld", v[i], (long long)i);
    return true;
}

static cj_tensor *interpolated(cj_tensor *x, cj_tensor *y, cj_tensor *at, const cj_interp_opts *o, const double *v, int64_t n)
{
    cj_ctx *c = x->ctx;
    const cj_dtype t = cj__promote_n((cj_tensor *[]){ x, y, at }, 3);
    x = cj_cast(x, t), y = cj_cast(y, t), at = cj_cast(at, t);
    if (!o->extrapolate) at = cj_clamp(at, v[0], v[n - 1]);
    cj_shape shape = cj__shape(y); /* [.., places] */
    if (shape.ndim - 1 + at->ndim > CJ_MAX_DIMS)
        return cj_fail(c, CJ_ESHAPE, "interp: %s and %s make more than %d dimensions", cj__tensor_text(y), cj__tensor_text(at),
                       CJ_MAX_DIMS);
    shape.ndim--;
    for (int d = 0; d < at->ndim; d++) shape.dim[shape.ndim++] = at->shape[d];
    cj_tensor *flat = cj_reshape(at, CJ_SHAPE(-1));
    /* the place among the inner knots is the number of the interval */
    cj_tensor *k = n > 2 ? cj_searchsorted(part(x, 1, n - 1), cj_detach(flat), &(cj_searchsorted_opts){ .right = true })
                         : cj_zeros(c, cj__shape(flat), CJ_I64);
    cj_tensor *next = cj_add_scalar(k, 1), *x0 = cj_index_select(x, 0, k), *h = cj_sub(cj_index_select(x, 0, next), x0);
    cj_tensor *s = cj_div(cj_sub(flat, x0), h), *y0 = cj_index_select(y, -1, k), *y1 = cj_index_select(y, -1, next), *r;
    if (o->kind == CJ_INTERP_PIECEWISE_LINEAR) {
        r = cj_add(y0, cj_mul(s, cj_sub(y1, y0)));
    } else {
        cj_tensor *hs = cj_sub(part(x, 1, n), part(x, 0, n - 1)), *secants = cj_div(cj_sub(part(y, 1, n), part(y, 0, n - 1)), hs);
        cj_tensor *d = o->kind == CJ_INTERP_MONOTONE ? monotone_slopes(hs, secants, n) : spline_slopes(o, v, hs, secants, n);
        cj_tensor *d0 = cj_index_select(d, -1, k), *d1 = cj_index_select(d, -1, next), *u = cj_add_scalar(cj_neg(s), 1);
        /* y0 (1 + 2s) u² + y1 s² (3 - 2s) + h (d0 s u² - d1 s² u), u = 1 - s */
        cj_tensor *uu = cj_square(u), *ss = cj_square(s);
        r = cj_add(cj_mul(y0, cj_mul(cj_add_scalar(cj_mul_scalar(s, 2), 1), uu)),
                   cj_mul(y1, cj_mul(ss, cj_add_scalar(cj_mul_scalar(s, -2), 3))));
        r = cj_add(r, cj_mul(h, cj_sub(cj_mul(d0, cj_mul(s, uu)), cj_mul(d1, cj_mul(ss, u)))));
    }
    return cj_reshape(r, shape);
}

cj_tensor *(cj_interp)(cj_tensor *x, cj_tensor *y, cj_tensor *at, const cj_interp_opts *opts)
{
    const cj_interp_opts o = opts ? *opts : (cj_interp_opts){ 0 };
    cj_ctx *c = x ? x->ctx : y ? y->ctx : at ? at->ctx : NULL;
    if (!c || c->error) return c ? c->poison : NULL;
    if (!cj__usable(c, "interp", 0, x) || !cj__usable(c, "interp", 1, y) || !cj__usable(c, "interp", 2, at)) return c->poison;
    const int64_t n = x->ndim == 1 ? x->numel : 0;
    if (n < 2 || y->ndim < 1 || y->shape[y->ndim - 1] != n)
        return cj_fail(c, CJ_ESHAPE, "interp: knots [n] with n of at least 2 and values [.., n] are expected, found %s and %s",
                       cj__tensor_text(x), cj__tensor_text(y));
    if ((unsigned)o.kind > CJ_INTERP_MONOTONE) return cj_fail(c, CJ_EVALUE, "interp: there is no kind %d", (int)o.kind);
    const bool spline = o.kind == CJ_SPLINE_NATURAL || o.kind == CJ_SPLINE_CLAMPED;
    if (spline && n > 4096) return cj_fail(c, CJ_EVALUE, "interp: splines of at most 4096 knots are expected, found %lld", (long long)n);
    if (!isfinite(o.slope[0]) || !isfinite(o.slope[1]))
        return cj_fail(c, CJ_EVALUE, "interp: finite slopes at the ends are expected, found %g and %g", o.slope[0], o.slope[1]);
    double *v = cj__alloc(c, (size_t)n * sizeof *v);
    if (!v) return c->poison;
    cj_tensor *r = knots(x, v, n) ? interpolated(x, y, at, &o, v, n) : c->poison;
    cj__free(c, v, (size_t)n * sizeof *v);
    return r;
}
