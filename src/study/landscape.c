/* Landscapes: critical points and their kind, and slices of a loss through trained parameters (Li et al. 2018).
 *
 * A critical point is found by Newton's method on the gradient, which goes to saddles as readily as to minima: d = -H⁺g, halved until |g| falls; where that
 * does not help, d = -Hg, the descent of |g|²/2.  Its kind is read off the signs of the Hessian's eigenvalues.
 */
#include <math.h>
#include <string.h>

#include "cajal/math.h"
#include "cajal/study.h"
#include "nn/nn.h"
#include "ops/ops.h"

/* ---- critical points ------------------------------------------------------------------------------------------------------------------------------------- */

/* the gradient at x as [n] */
static cj_tensor *gradient_at(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x)
{
    bool grad = cj_grad_mode(c, true);
    cj_tensor *leaf = cj_require_grad(x), *g = c->poison;
    cj_grad(fn(c, user, &leaf, 1), &leaf, 1, &g, &(cj_grad_opts){ .allow_unused = true });
    cj_grad_mode(c, grad);
    return cj_reshape(g, CJ_SHAPE(-1));
}
static cj_tensor *hessian_at(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x)
{
    bool grad = cj_grad_mode(c, true);
    cj_tensor *h = cj_reshape(cj_detach(cj_hessian(c, fn, user, x)), CJ_SHAPE(x->numel, x->numel));
    cj_grad_mode(c, grad);
    return cj_mul_scalar(cj_add(h, cj_t(h)), 0.5); /* symmetric to the last bit */
}
static double length_of(cj_tensor *g) { return sqrt(cj_item(cj_sum(cj_square(g), NULL))); }

static bool critical_arguments(cj_ctx *c, const char *op, cj_fn fn, cj_tensor *x)
{
    if (!c || c->error) return false;
    if (!fn) return cj__error(c, CJ_EVALUE, "%s: the function is NULL", op);
    if (!cj__usable(c, op, 3, x)) return false;
    if (!cj_dtype_is_float((cj_dtype)x->dtype) || !x->numel)
        return cj__error(c, CJ_ESHAPE, "%s: x is %s %s; floats expected", op, cj_dtype_name((cj_dtype)x->dtype), cj__tensor_text(x));
    return true;
}

cj_critical cj_classify_point(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, double flat)
{
    static const char op[] = "classify_point";
    cj_critical r = { .kind = CJ_CRITICAL_NONE, .index = -1, .flat = -1, .smallest = NAN, .largest = NAN, .gradient = NAN };
    if (!critical_arguments(c, op, fn, x)) return r;
    if (!(flat >= 0)) return cj_fail(c, CJ_EVALUE, "%s: eigenvalues below %g as flat; 0 or more expected", op, flat), r;
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    double slope = length_of(gradient_at(c, fn, user, x));
    cj_tensor *lambda = cj_eigvalsh(hessian_at(c, fn, user, x));
    double low = cj_item(cj_min(lambda, NULL)), high = cj_item(cj_max(lambda, NULL));
    double tiny = (flat > 0 ? flat : 1e-8) * fmax(1, fmax(fabs(low), fabs(high)));
    int64_t down = (int64_t)cj_item(cj_sum(cj_lt_scalar(lambda, -tiny), NULL)),
            up = (int64_t)cj_item(cj_sum(cj_gt_scalar(lambda, tiny), NULL));
    cj_grad_mode(c, grad);
    cj_scope_close(s);
    if (c->error) return r;
    r = (cj_critical){ .index = down, .flat = x->numel - down - up, .smallest = low, .largest = high, .gradient = slope };
    /* directions up and down make a saddle whatever the flat ones do; a semidefinite Hessian with flat directions decides nothing */
    r.kind = down && up ? CJ_CRITICAL_SADDLE : r.flat ? CJ_CRITICAL_DEGENERATE : down ? CJ_CRITICAL_MAXIMUM : CJ_CRITICAL_MINIMUM;
    return r;
}

/* x + d, halved until the gradient there is shorter; NULL: it never is */
static cj_tensor *shorter(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, cj_tensor *d, double length, double *now)
{
    for (int half = 0; half < 40 && !c->error; half++) {
        cj_tensor *there = cj_add(x, cj_mul_scalar(d, ldexp(1, -half)));
        *now = length_of(gradient_at(c, fn, user, there));
        if (*now < length) return there;
    }
    return NULL;
}

cj_critical cj_critical_point(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_critical_opts *opts)
{
    static const char op[] = "critical_point";
    cj_critical_opts o = opts ? *opts : (cj_critical_opts){ 0 };
    cj_critical r = { .kind = CJ_CRITICAL_NONE, .index = -1, .flat = -1, .smallest = NAN, .largest = NAN, .gradient = NAN };
    if (!critical_arguments(c, op, fn, x)) return r;
    int64_t most = o.iterations ? o.iterations : 200;
    double tolerance = o.tolerance > 0 ? o.tolerance : 1e-9;
    if (!(x->flags & CJ_T_PERSISTENT)) return cj_fail(c, CJ_EVALUE, "%s: x goes with its scope; it must be kept", op), r;
    if (most < 0) return cj_fail(c, CJ_EVALUE, "%s: %lld iterations", op, (long long)most), r;
    bool grad = cj_no_grad(c);
    for (int64_t i = 0; i < most && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *at = cj_detach(x), *g = gradient_at(c, fn, user, at);
        double length = length_of(g), now = length;
        if (c->error || length <= tolerance) {
            cj_scope_close(s);
            break;
        }
        cj_tensor *h = hessian_at(c, fn, user, at), *column = cj_unsqueeze(g, 1);
        cj_shape like = cj__shape(x);
        cj_tensor *newton = cj_neg(cj_matmul(cj_pinv(h, NULL), column)),
                  *there = shorter(c, fn, user, at, cj_reshape(newton, like), length, &now);
        if (!there) there = shorter(c, fn, user, at, cj_reshape(cj_neg(cj_matmul(h, column)), like), length, &now);
        if (there) cj_assign_(x, there);
        cj_scope_close(s);
        if (!there) break; /* |g| has a minimum of its own here */
    }
    cj_grad_mode(c, grad);
    r = cj_classify_point(c, fn, user, x, o.flat);
    r.converged = r.gradient <= tolerance;
    if (!r.converged) r.kind = CJ_CRITICAL_NONE;
    return r;
}

/* ---- slices ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* A random direction for w: normal; normalised by filters: every row as long as w's own, nothing for vectors (biases, scales). */
static cj_tensor *direction(cj_tensor *w, bool plain)
{
    cj_random_opts draw = { .dtype = (cj_dtype)w->dtype };
    cj_tensor *d = cj_randn(w->ctx, cj__shape(w), &draw);
    if (plain) return d;
    if (w->ndim < 2) return cj_zeros_like(w);
    cj_reduce_opts rows = { .keepdim = true };
    for (int k = 1; k < w->ndim; k++) rows.axes.axis[rows.axes.n++] = k;
    cj_tensor *own = cj_sqrt(cj_sum(cj_square(w), &rows)), *drawn = cj_sqrt(cj_sum(cj_square(d), &rows));
    return cj_mul(d, cj_div(own, drawn));
}

bool cj_loss_surface(cj_params *p, double (*loss)(void *user), void *user, int64_t n, double reach, double *out,
                     const cj_surface_opts *opts)
{
    static const char op[] = "loss_surface";
    if (!p || p->ctx->error) return false;
    cj_ctx *c = p->ctx;
    if (!loss || !out || n < 2 || !(reach > 0 && isfinite(reach)))
        return cj__error(c, CJ_EVALUE, "%s: a function, room for the values, two points a side and a reach above 0 are expected", op);
    bool plain = opts && opts->plain, grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    cj_tensor **was = cj__zalloc(c, sizeof *was * (size_t)p->n), **d[2] = { NULL, NULL };
    for (int k = 0; k < 2 && was; k++) d[k] = cj__zalloc(c, sizeof **d * (size_t)p->n);
    bool ready = was && d[0] && d[1];
    for (int i = 0; i < p->n && ready && !c->error; i++) {
        was[i] = cj_clone(cj_detach(p->item[i].tensor));
        for (int k = 0; k < 2; k++) d[k][i] = direction(was[i], plain);
    }
    for (int64_t at = 0; at < n * n && ready && !c->error; at++) {
        const int64_t row = at / n, column = at % n;
        double a = reach * (2 * (double)row / (double)(n - 1) - 1), b = reach * (2 * (double)column / (double)(n - 1) - 1);
        cj_scope inner = cj_scope_open(c);
        for (int i = 0; i < p->n; i++)
            cj_assign_(p->item[i].tensor, cj_add(was[i], cj_add(cj_mul_scalar(d[0][i], a), cj_mul_scalar(d[1][i], b))));
        out[at] = loss(user);
        cj_scope_close(inner);
    }
    /* byte by byte: an error in the middle must not keep the parameters away from home */
    for (int i = 0; i < p->n && ready && was[i] && was[i] != c->poison; i++) {
        cj_tensor *w = p->item[i].tensor;
        if (!c->error) cj_assign_(w, was[i]);
        else if (!w->st->device) memcpy(w->data, was[i]->data, (size_t)w->numel * cj_dtype_size((cj_dtype)w->dtype));
    }
    for (int k = 0; k < 2; k++)
        if (d[k]) cj__free(c, d[k], sizeof **d * (size_t)p->n);
    if (was) cj__free(c, was, sizeof *was * (size_t)p->n);
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    return c->error == CJ_OK;
}

cj_surface_shape cj_surface_convexity(const double *value, int64_t n)
{
    cj_surface_shape r = { 0 };
    if (!value || n < 3) return (cj_surface_shape){ .convex = NAN, .violated = NAN, .minima = -1 };
    int64_t inner = 0, convex = 0, chords = 0, violated = 0;
    for (int64_t i = 1; i + 1 < n; i++)
        for (int64_t j = 1; j + 1 < n; j++, inner++) {
            const double *v = &value[i * n + j];
            double xx = v[n] + v[-n] - 2 * v[0], yy = v[1] + v[-1] - 2 * v[0], xy = (v[n + 1] + v[-n - 1] - v[n - 1] - v[-n + 1]) / 4;
            convex += xx + yy >= 0 && xx * yy - xy * xy >= 0;
            bool least = true;
            for (int64_t k = -1; k <= 1; k++)
                for (int64_t l = -1; l <= 1; l++) least = least && ((k == 0 && l == 0) || v[k * n + l] > v[0]);
            r.minima += least;
        }
    /* chords of every length along rows, columns and both diagonals: the middle above the mean of the ends */
    static const int64_t way[4][2] = { { 0, 1 }, { 1, 0 }, { 1, 1 }, { 1, -1 } };
    for (int w = 0; w < 4; w++)
        for (int64_t h = 1; h <= (n - 1) / 2; h++)
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    int64_t i0 = i - h * way[w][0], j0 = j - h * way[w][1], i1 = i + h * way[w][0], j1 = j + h * way[w][1];
                    if (i0 < 0 || i0 >= n || j0 < 0 || j0 >= n || i1 < 0 || i1 >= n || j1 < 0 || j1 >= n) continue;
                    double ends = (value[i0 * n + j0] + value[i1 * n + j1]) / 2;
                    chords++, violated += value[i * n + j] > ends + 1e-12 * fabs(ends);
                }
    r.convex = (double)convex / (double)inner, r.violated = (double)violated / (double)chords;
    return r;
}
