/* Transforms: functions of functions, built from the two modes. */
#include <math.h>

#include "grad/grad.h"

#define MAX_ARGS 64

static bool args_ok(cj_ctx *c, const char *op, cj_fn fn, cj_tensor *const *x, int n)
{
    if (!cj__cancel_check(c)) return false;
    if (!fn) return cj__error(c, CJ_EVALUE, "%s: the function is NULL", op);
    if (n < 1 || n > MAX_ARGS || !x) return cj__error(c, CJ_EVALUE, "%s: %d inputs, 1 to %d are possible", op, x ? n : 0, MAX_ARGS);
    for (int i = 0; i < n; i++)
        if (!cj__usable(c, op, i, x[i])) return false;
    return true;
}

/* Room for n results: poison until they are there. */
static bool room_for(cj_ctx *c, const char *op, cj_tensor **out, int n)
{
    for (int i = 0; out && i < n; i++) out[i] = c ? c->poison : NULL;
    return c && (out || cj__error(c, CJ_EVALUE, "%s: the room for results is NULL", op));
}

/* What the function makes of x; NULL after an error. */
static cj_tensor *value_of(cj_ctx *c, const char *op, cj_fn fn, void *user, cj_tensor *const *x, int n)
{
    cj_tensor *y = fn(c, user, x, n);
    if (!c->error && cj_is_poison(y)) cj__error(c, CJ_EVALUE, "%s: the function returned NULL", op);
    return c->error ? NULL : y;
}

/* Tangents may be NULL (zero); the others have the shapes of their inputs. */
static bool tangents_ok(cj_ctx *c, const char *op, cj_tensor *const *x, cj_tensor *const *t, int n)
{
    if (!t) return cj__error(c, CJ_EVALUE, "%s: the tangents are NULL", op);
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        if (!cj__usable(c, op, n + i, t[i])) return false;
        if (t[i]->ndim != x[i]->ndim || memcmp(t[i]->shape, x[i]->shape, x[i]->ndim * sizeof x[i]->shape[0]) != 0)
            return cj__error(c, CJ_ESHAPE, "%s: tangent %s does not fit %s", op, cj__tensor_text(t[i]), cj__tensor_text(x[i]));
    }
    return true;
}

/* Fresh leaves at x's values that are still connected to x's own graph: gradients stop here, tangents and outer graphs pass. */
static void leaves_at(cj_tensor *const *x, int n, cj_tensor **leaf)
{
    for (int i = 0; i < n; i++) {
        leaf[i] = cj__alias(x[i]);
        if (!cj_is_poison(leaf[i])) leaf[i]->flags |= CJ_T_REQUIRES;
        if (!cj_is_poison(leaf[i]) && !leaf[i]->node) leaf[i]->flags |= CJ_T_LEAF;
    }
}

cj_tensor *cj_vjp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *v, cj_tensor **out)
{
    if (!room_for(c, "vjp", out, n) || !args_ok(c, "vjp", fn, x, n)) return c ? c->poison : NULL;
    cj_tensor *leaf[MAX_ARGS];
    bool was = cj_grad_mode(c, true);
    leaves_at(x, n, leaf);
    cj_tensor *y = value_of(c, "vjp", fn, user, leaf, n);
    cj_grad_mode(c, was);
    bool outer = was && y && cj__requires(y);
    if (y) cj_grad(y, leaf, n, out, &(cj_grad_opts){ .seed = v, .allow_unused = true, .create_graph = outer && was });
    return c->error ? c->poison : y;
}

cj_pair cj_jvp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, cj_tensor *const *t, int n)
{
    cj_pair r = { c ? c->poison : NULL, c ? c->poison : NULL };
    if (!c || !args_ok(c, "jvp", fn, x, n)) return r;
    if (!tangents_ok(c, "jvp", x, t, n)) return r;
    cj_tensor *dual[MAX_ARGS];
    for (int i = 0; i < n; i++) dual[i] = cj__alias(x[i]);
    uint64_t level = c->error ? 0 : cj__level_open(c);
    if (!level) return r;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        if (t[i]) ok = cj__tangent_set(dual[i], level, t[i]);
    cj_tensor *y = ok ? value_of(c, "jvp", fn, user, dual, n) : NULL;
    cj__level_close(c);
    if (!y) return r;
    r.value = y;
    cj_tensor *d = cj__tangent_at(y, level);
    r.derivative = d ? cj__alias(d) : cj_zeros_like(y);
    return r;
}

cj_tensor *cj_hvp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, cj_tensor *const *t, int n, cj_tensor **out)
{
    if (!room_for(c, "hvp", out, n) || !args_ok(c, "hvp", fn, x, n) || !tangents_ok(c, "hvp", x, t, n)) return c ? c->poison : NULL;
    cj_tensor *leaf[MAX_ARGS], *g[MAX_ARGS];
    bool was = cj_grad_mode(c, true);
    leaves_at(x, n, leaf);
    uint64_t level = c->error ? 0 : cj__level_open(c);
    if (!level) {
        cj_grad_mode(c, was);
        return c->poison;
    }
    for (int i = 0; i < n; i++)
        if (t[i]) cj__tangent_set(leaf[i], level, t[i]);
    cj_tensor *y = value_of(c, "hvp", fn, user, leaf, n);
    cj_grad_mode(c, was);
    const bool ok = y && cj_grad(y, leaf, n, g, &(cj_grad_opts){ .allow_unused = true });
    cj__level_close(c);
    if (!ok) return c->poison;
    for (int i = 0; i < n; i++) {
        cj_tensor *d = cj__tangent_at(g[i], level);
        out[i] = d ? cj_detach(d) : cj_zeros_like(x[i]);
    }
    return y;
}

/* The k-th unit vector in the shape of x. */
static cj_tensor *unit(cj_tensor *x, int64_t k)
{
    cj_ctx *c = x->ctx;
    cj_tensor *e = cj_eq_scalar(cj_arange(c, 0, (double)x->numel, 1, CJ_I64), (double)k);
    return cj_reshape(cj_cast(e, (cj_dtype)x->dtype), cj_shape_of(x));
}

static cj_shape joined(const cj_tensor *a, const cj_tensor *b)
{
    cj_shape s = cj_shape_of(a);
    for (int d = 0; d < b->ndim; d++) s.dim[s.ndim++] = b->shape[d];
    return s;
}

/* Derivatives of y (NULL: of nothing) by x make a tensor of both shapes side by side. */
static bool matrix_ok(const char *op, const cj_tensor *y, const cj_tensor *x)
{
    if (!y || !y->numel || !x->numel) return cj__error(x->ctx, CJ_ESHAPE, "%s: the %s is empty", op, x->numel ? "result" : "input");
    return y->ndim + x->ndim <= CJ_MAX_DIMS || cj__error(x->ctx, CJ_ESHAPE, "%s: %s by %s has more than %d dimensions", op,
                                                         cj__tensor_text(y), cj__tensor_text(x), CJ_MAX_DIMS);
}

cj_tensor *cj_jacobian(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_jacobian_opts *opts)
{
    if (!c || !args_ok(c, "jacobian", fn, &x, 1)) return c ? c->poison : NULL;
    bool forward = opts && opts->forward;
    cj_tensor *row[CJ_MAX_INPUTS], *y = NULL;
    if (forward) {
        if (x->numel > CJ_MAX_INPUTS)
            return cj_fail(c, CJ_EVALUE, "jacobian: %lld columns, at most %d are possible", (long long)x->numel, CJ_MAX_INPUTS);
        for (int64_t k = 0; k < x->numel; k++) {
            cj_tensor *t = unit(x, k);
            cj_pair p = cj_jvp(c, fn, user, &x, &t, 1);
            if (c->error || !p.value) return c->poison;
            y = p.value;
            row[k] = cj_reshape(p.derivative, CJ_SHAPE(y->numel));
        }
        return matrix_ok("jacobian", y, x) ? cj_reshape(cj_t(cj_stack(row, (int)x->numel, 0)), joined(y, x)) : c->poison;
    }
    cj_tensor *leaf;
    bool was = cj_grad_mode(c, true);
    leaves_at(&x, 1, &leaf);
    y = value_of(c, "jacobian", fn, user, &leaf, 1);
    cj_grad_mode(c, was);
    if (!y || !matrix_ok("jacobian", y, x)) return c->poison;
    if (y->numel > CJ_MAX_INPUTS)
        return cj_fail(c, CJ_EVALUE, "jacobian: %lld rows, at most %d are possible", (long long)y->numel, CJ_MAX_INPUTS);
    for (int64_t k = 0; k < y->numel; k++) {
        cj_grad(y, &leaf, 1, &row[k],
                &(cj_grad_opts){ .seed = unit(y, k), .retain = true, .allow_unused = true, .create_graph = was && cj__requires(x) });
        row[k] = cj_reshape(row[k], CJ_SHAPE(x->numel));
        if (c->error) return c->poison;
    }
    return cj_reshape(cj_stack(row, (int)y->numel, 0), joined(y, x));
}

cj_tensor *cj_hessian(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x)
{
    if (!c || !args_ok(c, "hessian", fn, &x, 1)) return c ? c->poison : NULL;
    if (x->numel > CJ_MAX_INPUTS)
        return cj_fail(c, CJ_EVALUE, "hessian: %lld variables, at most %d are possible", (long long)x->numel, CJ_MAX_INPUTS);
    if (!matrix_ok("hessian", x, x)) return c->poison;
    cj_tensor *row[CJ_MAX_INPUTS];
    for (int64_t k = 0; k < x->numel; k++) {
        cj_tensor *t = unit(x, k);
        cj_hvp(c, fn, user, &x, &t, 1, &row[k]);
        row[k] = cj_reshape(row[k], CJ_SHAPE(x->numel));
        if (c->error) return c->poison;
    }
    return cj_reshape(cj_stack(row, (int)x->numel, 0), joined(x, x));
}

bool cj_per_example_grad(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *const *batch, int m, cj_tensor **out)
{
    if (!room_for(c, "per_example_grad", out, n) || !args_ok(c, "per_example_grad", fn, x, n) ||
        !args_ok(c, "per_example_grad", fn, batch, m))
        return false;
    int64_t examples = batch[0]->ndim ? batch[0]->shape[0] : 0;
    for (int k = 0; k < m; k++)
        if (batch[k]->ndim < 1 || batch[k]->shape[0] != examples || examples < 1 || examples > CJ_MAX_INPUTS)
            return cj__error(c, CJ_ESHAPE, "per_example_grad: batch tensor %s; all need the same first size from 1 to %d",
                             cj__tensor_text(batch[k]), CJ_MAX_INPUTS);
    cj_tensor **g = cj__alloc(c, (size_t)n * (size_t)examples * sizeof *g);
    if (!g) return false;
    bool ok = true;
    for (int64_t e = 0; e < examples && ok; e++) {
        cj_tensor *one[MAX_ARGS], *got[MAX_ARGS];
        for (int k = 0; k < m; k++) one[k] = cj_slice(batch[k], 0, e, e + 1, 1);
        bool was = cj_grad_mode(c, true);
        cj_tensor *loss = value_of(c, "per_example_grad", fn, user, one, m);
        cj_grad_mode(c, was);
        ok = loss && cj_grad(loss, x, n, got, &(cj_grad_opts){ .allow_unused = true });
        for (int i = 0; i < n && ok; i++) g[(int64_t)i * examples + e] = got[i];
    }
    for (int i = 0; i < n && ok; i++) {
        out[i] = cj_stack(g + (int64_t)i * examples, (int)examples, 0);
        ok = !cj_is_poison(out[i]);
    }
    cj__free(c, g, (size_t)n * (size_t)examples * sizeof *g);
    return ok;
}
