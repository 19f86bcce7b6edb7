/* Methods for matrices that are given as functions x -> A·x: power iteration, Lanczos, Hutchinson's trace, conjugate gradients.
 *
 * Every step runs in a scope of its own; what lives on from step to step is kept and let go by hand, so that memory does not grow with the steps.
 */
#include <math.h>

#include "cajal/grad.h"
#include "math/linalg.h"

static bool ready(cj_ctx *c, const char *op, cj_fn fn, const cj_tensor *x)
{
    if (!c || c->error || !cj__usable(c, op, 0, x)) return false;
    if (!fn) return cj__error(c, CJ_EVALUE, "%s: the function is NULL", op);
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "%s: it reads values, so a step that is captured cannot call it", op);
    if (x->dtype != CJ_F32 && x->dtype != CJ_F64)
        return cj__error(c, CJ_EDTYPE, "%s: the vector is %s; f32 or f64 expected", op, cj_dtype_name((cj_dtype)x->dtype));
    if (!x->numel) return cj__error(c, CJ_ESHAPE, "%s: the vector %s is empty", op, cj__tensor_text(x));
    return true;
}

/* A·x without its history; the shape of x is asked for. */
static cj_tensor *map(cj_ctx *c, const char *op, cj_fn fn, void *user, cj_tensor *x)
{
    cj_tensor *y = fn(c, user, &x, 1);
    if (c->error) return c->poison;
    if (!y) return cj_fail(c, CJ_EVALUE, "%s: the function returned NULL", op);
    if (y->ndim != x->ndim || memcmp(y->shape, x->shape, x->ndim * sizeof x->shape[0]) != 0)
        return cj_fail(c, CJ_ESHAPE, "%s: the function made %s of %s; the same shape expected", op, cj__tensor_text(y), cj__tensor_text(x));
    return cj_detach(y);
}
static double inner(cj_tensor *a, cj_tensor *b) { return cj_item(cj_sum(cj_mul(a, b), NULL)); }
static double length(cj_tensor *x) { return sqrt(inner(x, x)); }

/* *held is replaced by t: kept, and what was there before let go. */
static void hold(cj_tensor **held, cj_tensor *t)
{
    cj_tensor *fresh = cj_keep(t);
    cj_release(*held);
    *held = fresh;
}
/* The result in the caller's scope. */
static cj_tensor *hand_over(cj_ctx *c, cj_tensor *held)
{
    cj_tensor *t = c->error || !held ? c->poison : cj_clone(held);
    cj_release(held);
    return t;
}
static double tolerance_of(const cj_iteration_opts *o, const cj_tensor *x)
{
    return o && o->tolerance > 0 ? o->tolerance : x->dtype == CJ_F64 ? 1e-12 : 1e-6;
}

cj_tensor *cj_hessian_product(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    const cj_hessian_map *h = user;
    cj_tensor *y = c ? c->poison : NULL;
    if (!c || c->error) return y;
    if (!h || n != 1) return cj_fail(c, CJ_EVALUE, "hessian_product: one vector and a cj_hessian_map expected");
    cj_hvp(c, h->fn, h->user, &h->at, x, 1, &y);
    return y;
}

/* ---- power iteration --------------------------------------------------------------------------------------------------------------------------- */

/* One step: x of length 1 to A·x, or to Jᵀ·(J·x); *value the eigenvalue or singular value that it shows. */
typedef struct power {
    const char *op;
    cj_fn fn;
    void *user;
    cj_tensor *at; /* of the Jacobian, or NULL */
} power;

static cj_tensor *power_step(cj_ctx *c, const power *p, cj_tensor *x, double *value)
{
    if (!p->at) {
        cj_tensor *y = map(c, p->op, p->fn, p->user, x);
        *value = c->error ? 0 : inner(x, y);
        return y;
    }
    cj_tensor *at = cj_detach(p->at), *u = cj_jvp(c, p->fn, p->user, &at, &x, 1).derivative, *y = c->poison;
    if (c->error) return y;
    u = cj_detach(u);
    *value = length(u);
    cj_vjp(c, p->fn, p->user, &at, 1, u, &y);
    return cj_detach(y);
}

static cj_eigen_pair power_iteration(cj_ctx *c, const power *p, cj_tensor *start, const cj_iteration_opts *opts)
{
    cj_eigen_pair r = { .vector = c ? c->poison : NULL };
    if (!ready(c, p->op, p->fn, start)) return r;
    const int64_t most = opts && opts->steps > 0 ? opts->steps : 1000;
    const double tolerance = tolerance_of(opts, start);
    cj_tensor *x = NULL;
    double size = 0;
    cj_scope s = cj_scope_open(c);
    size = length(cj_detach(start));
    if (!c->error && !(size > 0 && isfinite(size))) cj__error(c, CJ_EVALUE, "%s: the start vector has length %g", p->op, size);
    hold(&x, cj_mul_scalar(cj_detach(start), 1 / size));
    cj_scope_close(s);
    while (r.steps < most && !r.converged && !c->error) {
        double value = 0;
        s = cj_scope_open(c);
        cj_tensor *y = power_step(c, p, x, &value);
        size = c->error ? 0 : length(y);
        if (!c->error && !isfinite(size))
            cj__error(c, CJ_EVALUE, "%s: step %lld gave a vector of length %g", p->op, (long long)r.steps, size);
        r.converged = r.steps > 0 && fabs(value - r.value) <= tolerance * fabs(value);
        if (size == 0) r.converged = true; /* x is in the null space: the eigenvalue is 0 */
        else hold(&x, cj_mul_scalar(y, 1 / size));
        r.value = value;
        r.steps++;
        cj_scope_close(s);
    }
    r.vector = hand_over(c, x);
    return r;
}

cj_eigen_pair cj_power_iteration(cj_ctx *c, cj_fn fn, void *user, cj_tensor *start, const cj_iteration_opts *opts)
{
    return power_iteration(c, &(power){ "power_iteration", fn, user, NULL }, start, opts);
}

cj_eigen_pair cj_jacobian_norm(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_iteration_opts *opts)
{
    static const char op[] = "jacobian_norm";
    cj_eigen_pair r = { .vector = c ? c->poison : NULL };
    if (!ready(c, op, fn, x)) return r;
    cj_tensor *start = cj_randn(c, cj__shape(x), &(cj_random_opts){ .dtype = (cj_dtype)x->dtype });
    return power_iteration(c, &(power){ op, fn, user, x }, start, opts);
}

/* ---- Lanczos: A·Q = Q·T + rest, T tridiagonal -------------------------------------------------------------------------------------------------- */

/* w minus its part in the span of the rows of q, twice (once leaves rounding errors of the size of w). */
static cj_tensor *orthogonal_to(cj_tensor *w, cj_tensor *q)
{
    for (int twice = 0; twice < 2; twice++) w = cj_sub(w, cj_matmul(cj_t(q), cj_matmul(q, w)));
    return w;
}

cj_eigen cj_lanczos(cj_ctx *c, cj_fn fn, void *user, cj_tensor *start, int64_t k)
{
    static const char op[] = "lanczos";
    cj_eigen r = { c ? c->poison : NULL, c ? c->poison : NULL };
    if (!ready(c, op, fn, start)) return r;
    if (k < 1 || k > start->numel || k > CJ_MAX_INPUTS)
        return cj__error(c, CJ_EVALUE, "lanczos: %lld steps for vectors of %lld elements; 1 to %lld are possible", (long long)k,
                         (long long)start->numel, (long long)(start->numel < CJ_MAX_INPUTS ? start->numel : CJ_MAX_INPUTS)),
               r;
    cj_tensor *q[CJ_MAX_INPUTS] = { 0 };
    const size_t bytes = (size_t)(k * k) * sizeof(double);
    double *t = cj__zalloc(c, bytes);
    if (!t) return r;
    const cj_shape flat = CJ_SHAPE(start->numel), shape = cj__shape(start);
    int64_t n = 0;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_reshape(cj_detach(start), flat);
    double size = length(x), scale = 0;
    if (!c->error && !(size > 0 && isfinite(size))) cj__error(c, CJ_EVALUE, "lanczos: the start vector has length %g", size);
    hold(&q[0], cj_mul_scalar(x, 1 / size));
    cj_scope_close(s);
    for (bool more = !c->error; more;) {
        s = cj_scope_open(c);
        cj_tensor *w = map(c, op, fn, user, cj_reshape(q[n], shape));
        w = cj_reshape(w, flat);
        double alpha = c->error ? 0 : inner(w, q[n]);
        t[n * k + n] = alpha;
        n++;
        w = orthogonal_to(w, cj_stack(q, (int)n, 0));
        size = c->error ? 0 : length(w);
        scale = fmax(scale, fmax(fabs(alpha), size));
        if (!c->error && !isfinite(alpha + size)) cj__error(c, CJ_EVALUE, "lanczos: step %lld gave %g", (long long)n, alpha + size);
        more = !c->error && n < k && size > scale * (start->dtype == CJ_F64 ? 1e-13 : 1e-5); /* else the subspace is invariant */
        if (more) {
            t[n * k + n - 1] = t[(n - 1) * k + n] = size;
            hold(&q[n], cj_mul_scalar(w, 1 / size));
        }
        cj_scope_close(s);
    }
    if (!c->error) {
        for (int64_t i = 0; i < n; i++) /* [k, k] to [n, n] */
            for (int64_t j = 0; j < n; j++) t[i * n + j] = t[i * k + j];
        cj_eigen e = cj_eigh(cj_from_f64(c, t, CJ_SHAPE(n, n)));
        cj_shape full = shape;
        full.dim[full.ndim++] = n;
        r.values = cj_cast(e.values, (cj_dtype)start->dtype);
        cj_tensor *vectors = cj_matmul(cj_t(cj_stack(q, (int)n, 0)), cj_cast(e.vectors, (cj_dtype)start->dtype));
        r.vectors = full.ndim <= CJ_MAX_DIMS ? cj_reshape(vectors, full) : vectors;
    }
    for (int64_t i = 0; i < k; i++) cj_release(q[i]);
    cj__free(c, t, bytes);
    if (c->error) r.values = r.vectors = c->poison;
    return r;
}

/* ---- Hutchinson -------------------------------------------------------------------------------------------------------------------------------- */

double cj_hutchinson(cj_ctx *c, cj_fn fn, void *user, cj_tensor *like, int64_t probes)
{
    static const char op[] = "hutchinson";
    if (!ready(c, op, fn, like)) return NAN;
    if (probes < 1) return cj__error(c, CJ_EVALUE, "hutchinson: %lld probes", (long long)probes), NAN;
    double sum = 0;
    for (int64_t i = 0; i < probes && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *sign = cj_bernoulli(c, 0.5, cj__shape(like), &(cj_random_opts){ .dtype = (cj_dtype)like->dtype });
        sign = cj_add_scalar(cj_mul_scalar(sign, 2), -1);
        cj_tensor *y = map(c, op, fn, user, sign);
        if (!c->error) sum += inner(sign, y);
        cj_scope_close(s);
    }
    return c->error ? NAN : sum / (double)probes;
}

/* ---- conjugate gradients ----------------------------------------------------------------------------------------------------------------------- */

cj_cg_result cj_conjugate_gradients(cj_ctx *c, cj_fn fn, void *user, cj_tensor *b, const cj_iteration_opts *opts)
{
    static const char op[] = "conjugate_gradients";
    cj_cg_result r = { .x = c ? c->poison : NULL };
    if (!ready(c, op, fn, b)) return r;
    const int64_t most = opts && opts->steps > 0 ? opts->steps : 10 * b->numel;
    const double tolerance = tolerance_of(opts, b);
    cj_tensor *x = NULL, *residual = NULL, *p = NULL;
    cj_scope s = cj_scope_open(c);
    hold(&residual, cj_detach(b));
    hold(&p, cj_detach(b));
    hold(&x, cj_zeros_like(b));
    double rr = c->error ? 0 : inner(residual, residual), size = sqrt(rr);
    if (!c->error && !isfinite(size)) cj__error(c, CJ_EVALUE, "%s: the right-hand side has length %g", op, size);
    cj_scope_close(s);
    r.converged = size == 0;
    while (r.steps < most && !r.converged && !c->error) {
        s = cj_scope_open(c);
        cj_tensor *ap = map(c, op, fn, user, p);
        double curvature = c->error ? 0 : inner(p, ap);
        if (!c->error && !(curvature > 0))
            cj__error(c, CJ_EVALUE, "%s: the map is not positive definite: pᵀ·A·p is %g in step %lld", op, curvature,
                      (long long)r.steps + 1);
        const double step = rr / curvature;
        hold(&x, cj_add(x, cj_mul_scalar(p, step)));
        hold(&residual, cj_sub(residual, cj_mul_scalar(ap, step)));
        const double next = c->error ? 0 : inner(residual, residual);
        hold(&p, cj_add(residual, cj_mul_scalar(p, next / rr)));
        rr = next;
        r.steps++;
        r.residual = sqrt(rr) / size;
        r.converged = r.residual <= tolerance;
        cj_scope_close(s);
    }
    cj_release(residual);
    cj_release(p);
    r.x = hand_over(c, x);
    return r;
}
