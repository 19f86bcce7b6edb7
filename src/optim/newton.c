/* Newton's method, dense and by conjugate gradients, and Gauss-Newton: directions from second derivatives, all of them products with vectors (cj_hvp; jvp, then vjp). */
#include <math.h>

#include "optim/objective.h"

typedef bool product_fn(cj__objective *ob, const double *w, const double *v, double *out);

typedef struct newton {
    cj__method m;
    product_fn *product;
    double damping, cg_tolerance;
} newton;

/* (M + damping I) d = -g with M column by column; memory: a unit vector, a column, M [size, size] */
static bool dense(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    newton *self = (newton *)m;
    int64_t size = ob->size;
    double *unit = m->memory, *column = unit + size, *matrix = column + size;
    for (int64_t k = 0; k < size; k++) {
        unit[k] = 1;
        bool ok = self->product(ob, w, unit, column);
        unit[k] = 0;
        if (!ok) return false;
        for (int64_t i = 0; i < size; i++) matrix[i * size + k] = column[i];
        matrix[k * size + k] += self->damping;
    }
    for (int64_t i = 0; i < size; i++) d[i] = -g[i];
    return cj__solve(matrix, d, size) || cj__error(ob->ctx, CJ_EVALUE, "%s: the matrix is singular; damping makes it regular", ob->name);
}

/* H d = -g by conjugate gradients; memory: residual, direction, its product.  Where the curvature is not positive the way so far counts, or -g at the start. */
static bool conjugate(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    newton *self = (newton *)m;
    int64_t size = ob->size;
    double *r = m->memory, *p = r + size, *hp = p + size, norm = sqrt(cj__dot(g, g, size));
    double stop = norm * (self->cg_tolerance > 0 ? self->cg_tolerance : fmin(0.5, sqrt(norm))), rr = norm * norm;
    for (int64_t i = 0; i < size; i++) d[i] = 0, p[i] = r[i] = -g[i];
    for (int64_t k = 0; k < 2 * size && sqrt(rr) > stop; k++) {
        if (!self->product(ob, w, p, hp)) return false;
        double curvature = cj__dot(p, hp, size);
        if (!(curvature > 0)) {
            if (k == 0) memcpy(d, p, (size_t)size * sizeof *d);
            break;
        }
        double along = rr / curvature, before = rr;
        cj__axpy(along, p, d, size);
        cj__axpy(-along, hp, r, size);
        rr = cj__dot(r, r, size);
        for (int64_t i = 0; i < size; i++) p[i] = r[i] + rr / before * p[i];
    }
    return true;
}

bool cj_newton(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    int64_t size = cj__total(x, n);
    cj__objective ob = { .name = "newton", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    newton self = { .m = { .usual = CJ_SEARCH_FIXED, .direction = dense, .vectors = 2, .more = size * size },
                    .product = cj__objective_hvp,
                    .damping = opts ? opts->damping : 0 };
    return cj__descend(&ob, &self.m, out, opts);
}

bool cj_newton_cg(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    cj__objective ob = { .name = "newton_cg", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    newton self = { .m = { .usual = CJ_SEARCH_ARMIJO, .direction = conjugate, .vectors = 3 },
                    .product = cj__objective_hvp,
                    .cg_tolerance = opts ? opts->cg_tolerance : 0 };
    return cj__descend(&ob, &self.m, out, opts);
}

/* ---- Gauss-Newton: f = 1/2 |r|² ------------------------------------------------------------------------------------------------------------------------ */

typedef struct residuals {
    cj_fn fn;
    void *user;
} residuals;

static cj_tensor *half_squares(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    residuals *r = user;
    return cj_mul_scalar(cj_sum(cj_square(r->fn(c, r->user, x, n)), NULL), 0.5);
}

/* JᵀJ v: forward, then back */
static bool gauss_newton_product(cj__objective *ob, const double *w, const double *v, double *out)
{
    cj_ctx *c = ob->ctx;
    residuals *r = ob->user;
    if (!cj__cancel_check(c)) return false;
    cj_tensor *x[CJ__MAX_X], *t[CJ__MAX_X], *g[CJ__MAX_X];
    cj_scope s = cj_scope_open(c);
    ob->evaluations += 2;
    bool ok = cj__objective_tensors(ob, w, x) && cj__objective_tensors(ob, v, t);
    if (ok) {
        cj_pair forward = cj_jvp(c, r->fn, r->user, x, t, ob->n);
        ok = !c->error && !cj_is_poison(cj_vjp(c, r->fn, r->user, x, ob->n, forward.derivative, g));
    }
    for (int i = 0; i < ob->n && ok; out += cj_numel(ob->x[i++])) ok = cj_to_f64(g[i], out, cj_numel(ob->x[i]));
    cj_scope_close(s);
    return ok;
}

bool cj_gauss_newton(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    residuals r = { fn, user };
    int64_t size = cj__total(x, n);
    cj__objective ob = { .name = "gauss_newton", .ctx = c, .fn = fn ? half_squares : NULL, .user = &r, .x = x, .n = n };
    newton self = { .m = { .usual = CJ_SEARCH_FIXED, .direction = dense, .vectors = 2, .more = size * size },
                    .product = gauss_newton_product,
                    .damping = opts ? opts->damping : 0 };
    return cj__descend(&ob, &self.m, out, opts);
}
