/* A function of tensors as a function of one vector; the few operations on vectors that the full-batch methods need. */
#include "optim/objective.h"

#include <math.h>

int64_t cj__total(cj_tensor *const *x, int n)
{
    int64_t size = 0;
    for (int i = 0; i < n && x; i++) size += x[i] && !cj_is_poison(x[i]) ? cj_numel(x[i]) : 0;
    return size;
}

bool cj__objective_open(cj__objective *ob, int vectors, int64_t more)
{
    cj_ctx *c = ob->ctx;
    if (!c || !cj__cancel_check(c)) return false;
    if (!ob->fn) return cj__error(c, CJ_EVALUE, "%s: the function is NULL", ob->name);
    if (!ob->x || ob->n < 1 || ob->n > CJ__MAX_X)
        return cj__error(c, CJ_EVALUE, "%s: %d tensors, 1 to %d are possible", ob->name, ob->x ? ob->n : 0, CJ__MAX_X);
    ob->size = 0;
    for (int i = 0; i < ob->n; i++) {
        if (!cj__usable(c, ob->name, i, ob->x[i])) return false;
        if (!cj_dtype_is_float(cj_dtype_of(ob->x[i])))
            return cj__error(c, CJ_EDTYPE, "%s: tensor %d is %s; it must be of a float type", ob->name, i,
                             cj_dtype_name(cj_dtype_of(ob->x[i])));
        ob->size += cj_numel(ob->x[i]);
    }
    ob->bytes = (size_t)(vectors * ob->size + more + 1) * sizeof(double);
    ob->memory = cj__zalloc(c, ob->bytes);
    if (!ob->memory) return false;
    int64_t at = 0;
    for (int i = 0; i < ob->n && !c->error; at += cj_numel(ob->x[i++])) cj_to_f64(ob->x[i], ob->memory + at, cj_numel(ob->x[i]));
    if (c->error) cj__free(c, ob->memory, ob->bytes);
    return !c->error;
}

bool cj__objective_tensors(cj__objective *ob, const double *w, cj_tensor **out)
{
    int64_t at = 0;
    for (int i = 0; i < ob->n; at += cj_numel(ob->x[i++]))
        out[i] = cj_cast(cj_from_f64(ob->ctx, w + at, cj_shape_of(ob->x[i])), cj_dtype_of(ob->x[i]));
    return !ob->ctx->error;
}

static bool gather(cj__objective *ob, cj_tensor **from, double *to)
{
    for (int i = 0; i < ob->n; to += cj_numel(ob->x[i++]))
        if (!cj_to_f64(from[i], to, cj_numel(ob->x[i]))) return false;
    return true;
}

double cj__objective_at(cj__objective *ob, const double *w, double *g)
{
    cj_ctx *c = ob->ctx;
    if (!cj__cancel_check(c)) return NAN;
    cj_tensor *x[CJ__MAX_X], *out[CJ__MAX_X] = { NULL }, *y = NULL;
    double value = NAN;
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    ob->evaluations++;
    if (cj__objective_tensors(ob, w, x)) y = g ? cj_vjp(c, ob->fn, ob->user, x, ob->n, NULL, out) : ob->fn(c, ob->user, x, ob->n);
    if (!c->error && (!y || cj_numel(y) != 1)) cj__error(c, CJ_ESHAPE, "%s: the function must return one number", ob->name);
    if (!c->error) value = cj_item(y);
    if (!c->error && g) gather(ob, out, g);
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return c->error ? NAN : value;
}

bool cj__objective_hvp(cj__objective *ob, const double *w, const double *v, double *out)
{
    cj_ctx *c = ob->ctx;
    if (!cj__cancel_check(c)) return false;
    cj_tensor *x[CJ__MAX_X], *t[CJ__MAX_X], *h[CJ__MAX_X];
    cj_scope s = cj_scope_open(c);
    ob->evaluations++;
    bool ok = cj__objective_tensors(ob, w, x) && cj__objective_tensors(ob, v, t) &&
              !cj_is_poison(cj_hvp(c, ob->fn, ob->user, x, t, ob->n, h)) && gather(ob, h, out);
    cj_scope_close(s);
    return ok && !c->error;
}

bool cj__objective_close(cj__objective *ob, const double *w)
{
    cj_ctx *c = ob->ctx;
    cj_tensor *x[CJ__MAX_X];
    bool ok = cj__cancel_check(c);
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    ok = ok && cj__objective_tensors(ob, w, x);
    c->committing = ok;
    for (int i = 0; i < ob->n && ok; i++) ok = !cj_is_poison(cj_assign_(ob->x[i], x[i]));
    c->committing = false;
    cj_grad_mode(c, was);
    cj_scope_close(s);
    cj__free(c, ob->memory, ob->bytes);
    return ok;
}

cj_tensor *cj__example_loss(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    cj__example *e = user;
    return e->fn(c, e->user, x, n, e->example);
}

bool cj__example_gradient(cj__objective *ob, int64_t example, const double *w, double *g)
{
    ((cj__example *)ob->user)->example = example;
    double f = cj__objective_at(ob, w, g);
    if (ob->ctx->error) return false;
    if (isfinite(f) && isfinite(cj__largest(g, ob->size))) return true;
    return cj__error(ob->ctx, CJ_EVALUE, "%s: the loss of example %lld or its gradient is not finite", ob->name, (long long)example);
}

bool cj__step_ok(cj_ctx *c, const char *name, double step)
{
    return (step > 0 && isfinite(step)) || cj__error(c, CJ_EVALUE, "%s: step %g; it must be positive and finite", name, step);
}

bool cj__limits_ok(cj_ctx *c, const char *name, int64_t iterations, double tolerance)
{
    return (iterations >= 0 && tolerance >= 0) ||
           cj__error(c, CJ_EVALUE, "%s: %lld iterations and tolerance %g must not be negative", name, (long long)iterations, tolerance);
}

bool cj__finite(cj__objective *ob, double f, const double *g, int64_t iterations)
{
    if (ob->ctx->error) return false;
    if (isfinite(f) && isfinite(cj__largest(g, ob->size))) return true;
    return cj__error(ob->ctx, CJ_EVALUE, "%s: the function or its gradient is not finite after %lld iterations", ob->name,
                     (long long)iterations);
}

bool cj__normal(cj_ctx *c, double *out, int64_t n)
{
    cj_scope s = cj_scope_open(c);
    bool ok = cj_to_f64(cj_randn(c, CJ_SHAPE(n), &(cj_random_opts){ .dtype = CJ_F64 }), out, n);
    cj_scope_close(s);
    return ok;
}

double cj__dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

double cj__largest(const double *a, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(a[i]) <= worst)) worst = fabs(a[i]);
    return worst;
}

void cj__axpy(double s, const double *a, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += s * a[i];
}

bool cj__solve(double *a, double *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        if (!(fabs(a[pivot * n + k]) > 0)) return false;
        for (int64_t j = k; j < n && pivot != k; j++) {
            double keep = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = keep;
        }
        double keep = b[k];
        b[k] = b[pivot];
        b[pivot] = keep;
        for (int64_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
            b[i] -= factor * b[k];
        }
    }
    for (int64_t k = n; k-- > 0;) {
        for (int64_t j = k + 1; j < n; j++) b[k] -= a[k * n + j] * b[j];
        b[k] /= a[k * n + k];
    }
    return true;
}
