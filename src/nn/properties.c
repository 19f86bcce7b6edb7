/* Symmetries of a function, measured: how far it is from invariant, equivariant or causal. */
#include <math.h>

#include "cajal/math.h"
#include "nn/nn.h"

/* max |a - b|, or NaN after an error */
static double gap(cj_ctx *c, cj_tensor *a, cj_tensor *b)
{
    double most = cj_item(cj_norm(cj_sub(a, b), INFINITY, NULL));
    return c->error ? NAN : most;
}

static cj_tensor *call1(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x) { return fn ? fn(c, user, &x, 1) : x; }

double cj_symmetry_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, cj_fn of_input, cj_fn of_output, void *symmetry)
{
    if (!c || c->error) return NAN;
    if (!fn || !of_input) return cj_fail(c, CJ_EVALUE, "symmetry_error: the function or its symmetry is NULL"), NAN;
    if (!cj__usable(c, "symmetry_error", 0, x)) return NAN;
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    double error = gap(c, call1(c, fn, user, call1(c, of_input, symmetry, x)), call1(c, of_output, symmetry, call1(c, fn, user, x)));
    cj_grad_mode(c, grad);
    cj_scope_close(s);
    return error;
}

double cj_causality_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int axis)
{
    static const char op[] = "causality_error";
    if (!c || c->error) return NAN;
    if (!fn) return cj_fail(c, CJ_EVALUE, "%s: the function is NULL", op), NAN;
    if (!cj__usable(c, op, 0, x)) return NAN;
    int along = axis < 0 ? axis + x->ndim : axis;
    if (along < 0 || along >= x->ndim) return cj_fail(c, CJ_EINDEX, "%s: axis %d of %s", op, axis, cj__tensor_text(x)), NAN;
    cj_scope s = cj_scope_open(c);
    bool grad = cj_grad_mode(c, true);
    cj_tensor *at = cj_require_grad(x), *y = fn(c, user, &at, 1), *g;
    double worst = 0;
    if (!c->error && (y->ndim <= along || y->shape[along] != x->shape[along]))
        cj_fail(c, CJ_ESHAPE, "%s: %s gives %s; as many steps expected", op, cj__tensor_text(x), cj__tensor_text(y));
    for (int64_t t = 0; t + 1 < x->shape[along] && !c->error; t++) { /* what steps after t do to step t */
        cj_tensor *step = cj_select(y, along, t), *seed = cj_randn(c, cj_shape_of(step), &(cj_random_opts){ .dtype = (cj_dtype)y->dtype });
        cj_grad_opts o = { .seed = seed, .retain = true, .allow_unused = true };
        if (!cj_grad(step, &at, 1, &g, &o)) break;
        double most = cj_item(cj_norm(cj_slice(g, along, t + 1, CJ_END, 1), INFINITY, NULL));
        worst = most > worst ? most : worst;
    }
    cj_grad_mode(c, grad);
    cj_scope_close(s);
    return c->error ? NAN : worst;
}
