/* The gradient checker: derivatives of any function against central differences, in f64.
 *
 * One random cotangent v turns fn into the scalar s(x) = <v, fn(x)>, so all inputs are checked jointly; two are tried.  Forward mode is checked against reverse
 * mode, and with second_order the checker checks the function x -> d s/d x in the same way.  Error: |a - n| / max(1, |a| + |n|).
 */
#include <math.h>

#include "grad/grad.h"

#define MAX_ARGS 64

typedef struct checked {
    cj_fn fn;
    void *user;
    int n;
    cj_tensor *v;  /* cotangent */
    uint64_t seed; /* of the cotangents of the second order */
} checked;

static cj_tensor *noise(cj_ctx *c, cj_tensor *like, uint64_t seed)
{
    cj_rng_state was = cj_rng_get(c);
    cj_rng_set(c, (cj_rng_state){ .seed = seed });
    cj_tensor *v = cj_randn(c, cj_shape_of(like), &(cj_random_opts){ .dtype = cj_dtype_of(like) });
    cj_rng_set(c, was);
    return v;
}

/* <v, fn(x)> */
static cj_tensor *scalar_of(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    checked *k = user;
    cj_tensor *y = k->fn(c, k->user, x, n);
    return y && k->v ? cj_sum(cj_mul(y, k->v), NULL) : y;
}

/* The concatenated gradient of the scalar: a function again. */
static cj_tensor *gradient_of(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    cj_tensor *leaf[MAX_ARGS], *g[MAX_ARGS];
    bool was = cj_grad_mode(c, true);
    for (int i = 0; i < n; i++) {
        leaf[i] = cj__alias(x[i]);
        if (cj_is_poison(leaf[i])) return leaf[i];
        leaf[i]->flags |= CJ_T_REQUIRES;
        if (!leaf[i]->node) leaf[i]->flags |= CJ_T_LEAF;
    }
    cj_tensor *y = scalar_of(c, user, leaf, n);
    cj_grad_mode(c, was);
    if (cj_is_poison(y)) return y;
    if (cj__requires(y)) cj_grad(y, leaf, n, g, &(cj_grad_opts){ .create_graph = true, .allow_unused = true });
    else
        for (int i = 0; i < n; i++) g[i] = cj_zeros_like(x[i]);
    for (int i = 0; i < n; i++) g[i] = cj_reshape(g[i], CJ_SHAPE(x[i]->numel));
    return cj_cat(g, n, 0);
}

static double value_at(cj_ctx *c, checked *k, cj_tensor *const *x)
{
    bool was = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    double v = cj_item(scalar_of(c, k, x, k->n));
    cj_scope_close(s);
    cj_grad_mode(c, was);
    return v;
}

static void note(cj_gradcheck_result *r, double a, double n, int input, int64_t element, const char *what, double tolerance)
{
    double error = fabs(a - n) / fmax(1, fabs(a) + fabs(n));
    if (!(error <= r->worst)) {
        r->worst = error;
        r->input = input;
        r->element = element;
        snprintf(r->what, sizeof r->what, "%s: derivative %.10g, difference quotient %.10g", what, a, n);
    }
    if (!(error <= tolerance)) r->ok = false;
}

/* A corner: the slopes on both sides differ far more than curvature over one step explains, and the derivative is one of the subgradients. */
static bool is_kink(double a, double left, double right)
{
    double low = fmin(left, right), high = fmax(left, right), size = fmax(1, fabs(left) + fabs(right));
    return high - low > 1e-3 * size && a >= low - 1e-6 * size && a <= high + 1e-6 * size;
}

/* Checks d<v, fn>/dx against differences, and jvp against vjp. */
static bool check_order(cj_ctx *c, checked *k, cj_tensor *const *x, const cj_gradcheck_opts *o, const char *what, cj_gradcheck_result *r)
{
    cj_tensor *g[MAX_ARGS], *t[MAX_ARGS];
    cj_vjp(c, scalar_of, k, x, k->n, NULL, g);
    if (c->error) return false;
    double here = value_at(c, k, x);
    for (int i = 0; i < k->n; i++) {
        double *at = (double *)x[i]->data; /* f64, contiguous and private to the check */
        for (int64_t e = 0; e < x[i]->numel; e++) {
            double was = at[e], h = o->step * fmax(1, fabs(was));
            at[e] = was + h;
            double up = value_at(c, k, x);
            at[e] = was - h;
            double down = value_at(c, k, x);
            at[e] = was;
            if (c->error) return false;
            double a = ((const double *)cj_contiguous(g[i])->data)[e];
            if (is_kink(a, (here - down) / h, (up - here) / h)) r->kinks++;
            else note(r, a, (up - down) / (2 * h), i, e, what, o->tolerance);
        }
    }
    if (o->no_jvp) return true;
    double dot = 0;
    for (int i = 0; i < k->n; i++) {
        t[i] = noise(c, x[i], k->seed + 17 + (uint64_t)i);
        dot += cj_item(cj_sum(cj_mul(g[i], t[i]), NULL));
    }
    cj_pair p = cj_jvp(c, scalar_of, k, x, t, k->n);
    if (c->error) return false;
    char label[40];
    snprintf(label, sizeof label, "%s, jvp against vjp", what);
    note(r, cj_item(p.derivative), dot, -1, 0, label, 1e-3 * o->tolerance);
    return !c->error;
}

cj_gradcheck_result cj_gradcheck(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, const cj_gradcheck_opts *opts)
{
    cj_gradcheck_result r = { .ok = false, .worst = 0, .input = -1, .what = "not run" };
    cj_gradcheck_opts o = opts ? *opts : (cj_gradcheck_opts){ 0 };
    if (o.step == 0) o.step = 1e-6;
    if (o.tolerance == 0) o.tolerance = 1e-6;
    if (!c || n < 1 || n > MAX_ARGS) return r;
    if (!fn || !x) {
        cj__error(c, CJ_EVALUE, "gradcheck: the function or its inputs are NULL");
        return r;
    }
    cj_scope s = cj_scope_open(c);
    cj_tensor *at[MAX_ARGS];
    bool ok = cj__cancel_check(c);
    for (int i = 0; i < n && ok; i++) {
        ok = cj__usable(c, "gradcheck", i, x[i]);
        if (ok && x[i]->dtype != CJ_F64)
            ok = cj__error(c, CJ_EDTYPE, "gradcheck: input %d is %s, f64 expected", i + 1, cj_dtype_name((cj_dtype)x[i]->dtype));
        if (ok) at[i] = cj_clone(cj_detach(x[i]));
        ok = ok && !cj_is_poison(at[i]);
    }
    r.ok = true;
    r.what[0] = 0;
    cj_tensor *y = NULL;
    if (ok) {
        bool was = cj_no_grad(c);
        y = fn(c, user, at, n);
        cj_grad_mode(c, was);
        ok = !c->error && !cj_is_poison(y);
    }
    for (int turn = 0; turn < 2 && ok; turn++) {
        checked k = { fn, user, n, noise(c, y, 1000 + (uint64_t)turn), 77 + (uint64_t)turn };
        ok = check_order(c, &k, at, &o, "first order", &r);
        if (ok && o.second_order) {
            cj_tensor *g = gradient_of(c, &k, at, n);
            ok = !c->error && !cj_is_poison(g);
            checked k2 = { gradient_of, &k, n, ok ? noise(c, g, 2000 + (uint64_t)turn) : NULL, 99 + (uint64_t)turn };
            cj_gradcheck_opts o2 = o;
            o2.tolerance *= 10; /* differences of a derivative that carries rounding of its own */
            ok = ok && check_order(c, &k2, at, &o2, "second order", &r);
        }
    }
    if (!ok) {
        r.ok = false;
        snprintf(r.what, sizeof r.what, "%.150s", c->error ? cj_message(c) : "the function failed");
    }
    cj_scope_close(s);
    return r;
}
