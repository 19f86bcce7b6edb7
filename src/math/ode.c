/* Ordinary differential equations dy/dt = f(t, y) over tensors: Euler, midpoint, the classical Runge-Kutta method, and Dormand and Prince's embedded pair 5(4) (1980) with
 * steps chosen by its error estimate.
 *
 * Steps are made of operators, so gradients flow to y0 and to whatever f uses; the lengths of adaptive steps are constants there.  Where nothing asks for a gradient every step
 * has its own scope, and memory does not grow with their number.
 */
#include <math.h>

#include "math/math.h"
#include "ops/ops.h"

typedef struct problem {
    cj_ctx *c;
    cj_ode_fn f;
    void *user;
    double rtol, atol;
    int64_t steps, most, taken;
    cj_ode_method method;
    bool adaptive;
    bool scoped; /* every step in a scope of its own: y is kept from one to the next */
    cj_tensor *held;
} problem;

static cj_tensor *slope(const problem *p, double t, cj_tensor *y)
{
    cj_ctx *c = p->c;
    if (c->error) return c->poison;
    cj_tensor *k = p->f(c, p->user, t, y);
    if (c->error) return c->poison;
    if (!k) return cj_fail(c, CJ_EVALUE, "ode_solve: the function returned NULL");
    if (k->ndim != y->ndim || memcmp(k->shape, y->shape, y->ndim * sizeof y->shape[0]) != 0)
        return cj_fail(c, CJ_ESHAPE, "ode_solve: the function made %s of %s; the same shape expected", cj__tensor_text(k),
                       cj__tensor_text(y));
    return k;
}
/* y + sum of factor[i]·k[i] */
static cj_tensor *moved(cj_tensor *y, double h, const double *factor, cj_tensor *const *k, int n)
{
    for (int i = 0; i < n; i++)
        if (factor[i] != 0) y = cj_add(y, cj_mul_scalar(k[i], h * factor[i]));
    return y;
}

static cj_tensor *fixed_step(const problem *p, double t, double h, cj_tensor *y)
{
    cj_tensor *k[4] = { slope(p, t, y) };
    if (p->method == CJ_ODE_EULER) return moved(y, h, (double[]){ 1 }, k, 1);
    k[1] = slope(p, t + h / 2, moved(y, h, (double[]){ 0.5 }, k, 1));
    if (p->method == CJ_ODE_MIDPOINT) return moved(y, h, (double[]){ 0, 1 }, k, 2);
    k[2] = slope(p, t + h / 2, moved(y, h, (double[]){ 0, 0.5 }, k, 2));
    k[3] = slope(p, t + h, moved(y, h, (double[]){ 0, 0, 1 }, k, 3));
    return moved(y, h, (double[]){ 1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6 }, k, 4);
}

/* Dormand and Prince: seven slopes, the last one at the end of the step; order 5, and the difference to order 4. */
static const double when[7] = { 0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1 };
static const double stage[7][6] = { { 0 },
                                    { 1.0 / 5 },
                                    { 3.0 / 40, 9.0 / 40 },
                                    { 44.0 / 45, -56.0 / 15, 32.0 / 9 },
                                    { 19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729 },
                                    { 9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656 },
                                    { 35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84 } };
static const double apart[7] = { 71.0 / 57600, 0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525, -1.0 / 40 };

/* Root mean square of x / (atol + rtol·scale). */
static double relative(const problem *p, cj_tensor *x, cj_tensor *scale)
{
    cj_tensor *r = cj_div(cj_detach(x), cj_add_scalar(cj_mul_scalar(cj_abs(cj_detach(scale)), p->rtol), p->atol));
    return sqrt(cj_item(cj_mean(cj_cast(cj_square(r), CJ_F64), NULL)));
}

/* One try of length h from the slope k[0]; *error says how good it is. */
static cj_tensor *adaptive_step(const problem *p, double t, double h, cj_tensor *y, cj_tensor *k[7], double *error)
{
    cj_tensor *end = y;
    for (int i = 1; i < 7; i++) {
        end = moved(y, h, stage[i], k, i);
        k[i] = slope(p, t + when[i] * h, end);
    }
    if (p->c->error) return p->c->poison;
    cj_tensor *difference = moved(cj_mul_scalar(k[0], h * apart[0]), h, apart + 1, k + 1, 6);
    *error = relative(p, difference, cj_maximum(cj_abs(y), cj_abs(end)));
    return end;
}

static cj_scope step_open(const problem *p) { return p->scoped ? cj_scope_open(p->c) : (cj_scope){ 0 }; }
static cj_tensor *step_close(problem *p, cj_scope s, cj_tensor *y)
{
    if (!p->scoped) return y;
    cj_tensor *fresh = cj_keep(y);
    cj_scope_close(s);
    cj_release(p->held);
    return p->held = fresh;
}

/* y at t1 from y at t0; *h is the length to begin with, and afterwards the one to go on with. */
static cj_tensor *advance(problem *p, double t0, double t1, cj_tensor *y, double *h)
{
    cj_ctx *c = p->c;
    if (!p->adaptive) {
        for (int64_t i = 0; i < p->steps && !c->error; i++, p->taken++) {
            const cj_scope s = step_open(p);
            const double length = (t1 - t0) / (double)p->steps;
            y = step_close(p, s, fixed_step(p, t0 + length * (double)i, length, y));
        }
        return y;
    }
    double t = t0;
    while (t != t1 && !c->error) {
        const double left = t1 - t;
        const bool whole = fabs(*h) >= fabs(left) * (1 - 1e-12);
        const double length = whole ? left : copysign(*h, left);
        if (p->taken++ >= p->most)
            return cj_fail(c, CJ_EVALUE, "ode_solve: %lld steps did not reach %g: they are at %g, of length %g", (long long)p->most, t1, t,
                           length);
        if (!(fabs(length) > 1e-14 * fabs(t)))
            return cj_fail(
                c, CJ_EVALUE,
                "ode_solve: the step became as short as %g at %g: the solution has a pole there, or the tolerances are too small", length,
                t);
        const cj_scope s = step_open(p);
        cj_tensor *k[7] = { slope(p, t, y) }, *next = y;
        double error = NAN;
        if (!c->error) next = adaptive_step(p, t, length, y, k, &error);
        const bool good = error <= 1; /* false for NaN */
        const double factor = isnan(error) ? 0.2 : error > 0 ? fmin(5, fmax(0.2, 0.9 * pow(error, -0.2))) : 5;
        if (good) y = step_close(p, s, next);
        else if (p->scoped) cj_scope_close(s);
        if (good) t = whole ? t1 : t + length;
        if (!(good && whole && factor > 1 && fabs(length) < fabs(*h))) *h = fabs(length) * factor; /* a step cut short says nothing */
    }
    return y;
}

/* A first length: 1/100 of the time in which y changes by itself (Hairer, Norsett & Wanner 1993). */
static double first_length(const problem *p, double t0, double t1, cj_tensor *y)
{
    cj_scope s = cj_scope_open(p->c);
    const double size = relative(p, y, y), speed = relative(p, slope(p, t0, y), y);
    cj_scope_close(s);
    const double h = size > 1e-5 && speed > 1e-5 ? 0.01 * size / speed : 1e-6;
    return fmin(h, fabs(t1 - t0));
}

cj_tensor *(cj_ode_solve)(cj_ctx *c, cj_ode_fn f, void *user, cj_tensor *y0, const double *t, int n, const cj_ode_opts *opts)
{
    const cj_ode_opts o = opts ? *opts : (cj_ode_opts){ 0 };
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "ode_solve", 3, y0)) return c->poison;
    problem p = { .c = c,
                  .f = f,
                  .user = user,
                  .rtol = o.rtol > 0 ? o.rtol : 1e-7,
                  .atol = o.atol > 0 ? o.atol : 1e-9,
                  .steps = o.steps > 0 ? o.steps : 1,
                  .most = o.most > 0 ? o.most : 100000,
                  .method = o.method,
                  .adaptive = o.method == CJ_ODE_DOPRI5 };
    if (!f || !t || n < 1 || (unsigned)o.method > CJ_ODE_RK4)
        return cj_fail(c, CJ_EVALUE, "ode_solve: a function, at least 1 time and a method are expected, found %s, %d and %d",
                       f ? "one" : "NULL", t ? n : 0, (int)o.method);
    if (!cj_dtype_is_float((cj_dtype)y0->dtype))
        return cj_fail(c, CJ_EDTYPE, "ode_solve: y0 is %s; floats expected", cj_dtype_name((cj_dtype)y0->dtype));
    for (int i = 0; i < n; i++)
        if (!isfinite(t[i]) || (i > 1 && (t[i] - t[i - 1]) * (t[1] - t[0]) < 0))
            return cj_fail(c, CJ_EVALUE, "ode_solve: finite times in order are expected, found %g at %d", t[i], i);
    if (p.adaptive && c->trace)
        return cj_fail(c, CJ_ECAPTURE,
                       "ode_solve: it reads values to choose its steps, so a step that is captured cannot call it; methods with fixed "
                       "steps can be captured");
    cj_tensor *probe = slope(&p, t[0], y0);
    if (c->error) return c->poison;
    p.scoped = !c->trace && !c->fwd_limit && !cj__requires(probe) && !cj__requires(y0);
    double h = p.adaptive && n > 1 ? first_length(&p, t[0], t[1], y0) : 0;
    cj_tensor *path = cj_unsqueeze(y0, 0), *y = y0;
    enum { AT_ONCE = 64 };
    cj_tensor *some[AT_ONCE + 1] = { path };
    int held = 1;
    for (int i = 1; i < n && !c->error; i++) {
        y = advance(&p, t[i - 1], t[i], y, &h);
        some[held++] = cj_unsqueeze(p.scoped ? cj_clone(y) : y, 0);
        if (held > AT_ONCE) some[0] = cj_cat(some, held, 0), held = 1;
    }
    cj_release(p.held);
    if (o.taken) *o.taken = p.taken;
    return c->error ? c->poison : held == 1 ? some[0] : cj_cat(some, held, 0);
}
