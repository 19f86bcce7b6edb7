/* Quadrature, roots, minima, differential equations and interpolation: closed forms, orders of convergence, derivatives, and what is refused. */
#include "support.h"

#include <cajal/math.h>

TEST_CONTEXT(.seed = 31);

/* ---- quadrature ----------------------------------------------------------------------------------------------------------------------------------- */

static double power_of(void *user, double x) { return pow(x, *(int *)user); }
static double bell(void *user, double x) { return (void)user, exp(-x * x); }
static double runge(void *user, double x) { return (void)user, 1 / (1 + x * x); }
static double root_of(void *user, double x) { return (void)user, sqrt(x); }
static double wiggle(void *user, double x) { return (void)user, cos(100 * x); }
static double step_at(void *user, double x) { return x < *(double *)user ? 0 : 1; }
static double decay(void *user, double x) { return exp(-*(double *)user * x); }
static double pole(void *user, double x) { return (void)user, 1 / (x - 0.5); }
static double not_a_number(void *user, double x) { return (void)user, (void)x, NAN; }

static void integrals(void **state)
{
    (void)state;
    for (int n = 0; n <= 22; n += 2) { /* one application of Kronrod's rule is exact up to degree 22 */
        cj_integral r = cj_integrate(c, power_of, &n, -1, 1);
        assert_near(r.value, 2.0 / (n + 1), 1e-15);
        assert_true(r.converged && (n > 12 || r.evaluations == 15));
    }
    double rate = 2, at = 0.3;
    const struct {
        cj_integral r;
        double want, tol;
    } cases[] = {
        { cj_integrate(c, bell, NULL, -INFINITY, INFINITY), sqrt(M_PI), 1e-11 },
        { cj_integrate(c, bell, NULL, 0, INFINITY), sqrt(M_PI) / 2, 1e-11 },
        { cj_integrate(c, bell, NULL, -INFINITY, 0), sqrt(M_PI) / 2, 1e-11 },
        { cj_integrate(c, runge, NULL, -5, 5), 2 * atan(5), 1e-11 },
        { cj_integrate(c, runge, NULL, -INFINITY, INFINITY), M_PI, 1e-10 },
        { cj_integrate(c, root_of, NULL, 0, 1), 2.0 / 3, 1e-10 },
        { cj_integrate(c, wiggle, NULL, 0, 1), sin(100) / 100, 1e-12 },
        { cj_integrate(c, decay, &rate, 0, INFINITY), 0.5, 1e-11 },
        { cj_integrate(c, step_at, &at, 0, 1), 0.7, 1e-11 },
        { cj_integrate(c, runge, NULL, 5, -5), -2 * atan(5), 1e-11 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_near(cases[i].r.value, cases[i].want, cases[i].tol);
        assert_true(cases[i].r.converged);
        assert_true(fabs(cases[i].r.value - cases[i].want) <= cases[i].r.error + 1e-15); /* the estimate is honest */
    }
    assert_true(cj_integrate(c, bell, NULL, 2, 2).value == 0);
    assert_false(cj_integrate(c, root_of, NULL, 0, 1, .intervals = 2, .rtol = 1e-14, .atol = 1e-16).converged);
    assert_refused(CJ_EVALUE, "integrate: the function is nan at", cj_integrate(c, not_a_number, NULL, 0, 1));
    assert_refused(CJ_EVALUE, "integrate: the function is inf at 0.5", cj_integrate(c, pole, NULL, 0, 1));
    assert_refused(CJ_EVALUE, "integrate: a function, two ends", cj_integrate(c, NULL, NULL, 0, 1));
    assert_refused(CJ_EVALUE, "integrate: a function, two ends", cj_integrate(c, bell, NULL, 0, NAN));
}

/* Exact up to degree 2n - 1 and not beyond; Hermite's moments are Gamma((k + 1)/2). */
static void gauss_nodes(void **state)
{
    (void)state;
    const int64_t sizes[] = { 1, 2, 3, 5, 8, 20, 64, 300 };
    for (int i = 0; i < 8; i++)
        for (int hermite = 0; hermite < 2; hermite++) {
            const int64_t n = sizes[i];
            const cj_nodes r = hermite ? cj_gauss_hermite(c, n) : cj_gauss_legendre(c, n);
            double *x = values_of(r.x), *w = values_of(r.w);
            for (int64_t k = 0; k <= 2 * n && k <= 24; k++) {
                double sum = 0;
                for (int64_t j = 0; j < n; j++) sum += w[j] * pow(x[j], (double)k);
                const double want = k % 2 ? 0 : hermite ? tgamma((double)(k + 1) / 2) : 2.0 / (double)(k + 1);
                if (k < 2 * n)
                    assert_near(sum, want, 2e-13 * (hermite && !(k % 2) ? fmax(1, want) : hermite ? tgamma((double)(k + 2) / 2) : 1));
                else if (n <= 8) assert_true(fabs(sum - want) > 1e-7);
            }
            for (int64_t j = 0; j + 1 < n; j++) assert_true(x[j] < x[j + 1] && x[j] == -x[n - 1 - j]);
            free(x), free(w);
        }
    assert_refused(CJ_EVALUE, "gauss_legendre: 1 to 512 nodes are expected, found 0", cj_gauss_legendre(c, 0));
    assert_refused(CJ_EVALUE, "gauss_hermite: 1 to 512 nodes are expected, found 600", cj_gauss_hermite(c, 600));
}

/* ---- roots and minima -------------------------------------------------------------------------------------------------------------------------------- */

static double cubic(void *user, double x) { return (void)user, x * x * x - 2 * x - 5; } /* Wallis's example: 2.0945514815423265 */
static double d_cubic(void *user, double x) { return (void)user, 3 * x * x - 2; }
static double fixed_cosine(void *user, double x) { return (void)user, cos(x) - x; }
static double d_fixed_cosine(void *user, double x) { return (void)user, -sin(x) - 1; }
static double flat(void *user, double x) { return (void)user, pow(x - 1, 9); }
static double bowl(void *user, double x) { return (void)user, (x - 2) * (x - 2) * (1 + 0.1 * (x - 2)) + 3; }
static double corner(void *user, double x) { return (void)user, fabs(x - 0.7); }
static double one(void *user, double x) { return (void)user, (void)x, 1; }
static double zero(void *user, double x) { return (void)user, (void)x, 0; }

static void roots(void **state)
{
    (void)state;
    const cj_root b = cj_root_bisect(c, cubic, NULL, 2, 3), br = cj_root_brent(c, cubic, NULL, 2, 3),
                  n = cj_root_newton(c, cubic, d_cubic, NULL, 3);
    assert_near(b.x, 2.0945514815423265, 4e-15);
    assert_near(br.x, 2.0945514815423265, 4e-15);
    assert_near(n.x, 2.0945514815423265, 4e-15);
    assert_true(b.converged && br.converged && n.converged);
    assert_true(br.evaluations <= 12 && n.evaluations <= 8 && b.evaluations >= 45); /* superlinear, quadratic, one bit a step */
    assert_near(cj_root_brent(c, fixed_cosine, NULL, 0, 1).x, 0.7390851332151607, 1e-15);
    assert_near(cj_root_newton(c, fixed_cosine, d_fixed_cosine, NULL, 5).x, 0.7390851332151607, 1e-15);
    assert_near(cj_root_brent(c, flat, NULL, 0, 3).x, 1, 1e-3);
    assert_near(cj_root_bisect(c, flat, NULL, 0, 3, .tolerance = 1e-3).x, 1, 4e-3);
    assert_true(cj_root_bisect(c, zero, NULL, 0, 3).converged);
    assert_false(cj_root_bisect(c, cubic, NULL, 2, 3, .steps = 3).converged);
    assert_refused(CJ_EVALUE, "root_bisect: values of different sign at the ends are expected, found 1 at 0 and 1 at 3",
                   cj_root_bisect(c, one, NULL, 0, 3));
    assert_refused(CJ_EVALUE, "root_brent: an interval of finite numbers is expected, found 3 to 2", cj_root_brent(c, cubic, NULL, 3, 2));
    assert_refused(CJ_EVALUE, "root_newton: the derivative is 0 at 3", cj_root_newton(c, cubic, zero, NULL, 3));
    assert_refused(CJ_EVALUE, "root_newton: a derivative and a finite start", cj_root_newton(c, cubic, NULL, NULL, 3));
    assert_refused(CJ_EVALUE, "root_brent: the function is NaN at 2", cj_root_brent(c, not_a_number, NULL, 2, 3));
    assert_refused(CJ_EVALUE, "root_bisect: the function is NULL", cj_root_bisect(c, NULL, NULL, 2, 3));
}
static double exponential(void *user, double x) { return (void)user, exp(x) - 5; }
static double omega(void *user, double x) { return (void)user, log(x) + x; }
static double double_root(void *user, double x) { return (void)user, (x + 3) * (x - 1) * (x - 1); }
/* Interpolation is what makes it fast: as many evaluations as SciPy's brentq needs for the same tolerance, or one more. */
static void steps_of_brent(void **state)
{
    (void)state;
    const struct {
        cj_real_fn f;
        double a, b, x;
        int64_t scipy;
    } cases[] = { { fixed_cosine, 0, 1, 0.7390851332151607, 8 },
                  { cubic, 2, 3, 2.0945514815423265, 8 },
                  { exponential, 0, 4, 1.6094379124341003, 12 },
                  { omega, 0.1, 2, 0.5671432904097838, 9 },
                  { double_root, -4, 4.0 / 3, -3, 13 } };
    for (int i = 0; i < 5; i++) {
        const cj_root r = cj_root_brent(c, cases[i].f, NULL, cases[i].a, cases[i].b);
        assert_near(r.x, cases[i].x, 2e-15);
        assert_in_range(r.evaluations, cases[i].scipy - 2, cases[i].scipy + 1);
    }
}

/* Without options everything has its defaults, as with those that say nothing. */
static void no_options(void **state)
{
    (void)state;
    const cj_integral i = (cj_integrate)(c, bell, NULL, 0, 2, NULL), j = cj_integrate(c, bell, NULL, 0, 2);
    assert_true(i.value == j.value && i.evaluations == j.evaluations && i.converged);
    const cj_root none[] = { (cj_root_bisect)(c, cubic, NULL, 2, 3, NULL), (cj_root_brent)(c, cubic, NULL, 2, 3, NULL),
                             (cj_root_newton)(c, cubic, d_cubic, NULL, 3, NULL), (cj_minimum_golden)(c, bowl, NULL, -1, 4, NULL),
                             (cj_minimum_brent)(c, bowl, NULL, -1, 4, NULL) },
                  some[] = { cj_root_bisect(c, cubic, NULL, 2, 3), cj_root_brent(c, cubic, NULL, 2, 3),
                             cj_root_newton(c, cubic, d_cubic, NULL, 3), cj_minimum_golden(c, bowl, NULL, -1, 4),
                             cj_minimum_brent(c, bowl, NULL, -1, 4) };
    for (int k = 0; k < 5; k++) assert_true(none[k].x == some[k].x && none[k].evaluations == some[k].evaluations);
    cj_tensor *x = cj_arange(c, 0, 4, 1, CJ_F64), *y = cj_square(x), *at = cj_from_f64(c, (double[]){ 0.5, 2.25 }, CJ_SHAPE(2));
    assert_true(same_bits((cj_interp)(x, y, at, NULL), cj_interp(x, y, at)));
    assert_ok(c);
}

static void minima(void **state)
{
    (void)state;
    const cj_root g = cj_minimum_golden(c, bowl, NULL, -1, 4), b = cj_minimum_brent(c, bowl, NULL, -1, 4);
    assert_near(g.x, 2, 1e-7);
    assert_near(b.x, 2, 1e-7);
    assert_near(b.value, 3, 1e-14);
    assert_true(g.converged && b.converged && b.evaluations < g.evaluations);
    assert_near(cj_minimum_brent(c, corner, NULL, -3, 5).x, 0.7, 1e-6);
    assert_near(cj_minimum_golden(c, corner, NULL, -3, 5, .tolerance = 1e-10).x, 0.7, 1e-9);
    assert_refused(CJ_EVALUE, "minimum_golden: an interval", cj_minimum_golden(c, bowl, NULL, 1, INFINITY));
    assert_refused(CJ_EVALUE, "minimum_brent: the function is NaN", cj_minimum_brent(c, not_a_number, NULL, 0, 1));
}

/* ---- differential equations ------------------------------------------------------------------------------------------------------------------------------ */

#define T(...) ((double[]){ __VA_ARGS__ }) /* times */
static cj_tensor *fall(cj_ctx *ctx, void *user, double t, cj_tensor *y) { return (void)ctx, (void)user, (void)t, cj_neg(y); }
/* [q, p] of an oscillator; user: its stiffness, a tensor */
static cj_tensor *oscillator(cj_ctx *ctx, void *user, double t, cj_tensor *y)
{
    (void)ctx, (void)t;
    cj_tensor *q = cj_slice(y, -1, 0, 1, 1), *p = cj_slice(y, -1, 1, 2, 1);
    return cj_cat(CJ_TENSORS(p, cj_neg(cj_mul((cj_tensor *)user, q))), 2, -1);
}
static cj_tensor *forced(cj_ctx *ctx, void *user, double t, cj_tensor *y)
{
    return (void)ctx, (void)user, cj_add_scalar(cj_mul_scalar(y, 0), cos(t));
}
static cj_tensor *explodes(cj_ctx *ctx, void *user, double t, cj_tensor *y) { return (void)ctx, (void)user, (void)t, cj_square(y); }
static cj_tensor *wrong_shape(cj_ctx *ctx, void *user, double t, cj_tensor *y)
{
    return (void)ctx, (void)user, (void)t, cj_unsqueeze(y, 0);
}

static double error_at_1(cj_ode_method method, int64_t steps)
{
    cj_tensor *y = cj_ode_solve(c, fall, NULL, F64(c, CJ_SHAPE(1), 1), T(0, 1), 2, .method = method, .steps = steps);
    return fabs(value_at(y, 1) - exp(-1));
}
/* Twice the steps: half, a quarter, a sixteenth of the error. */
static void fixed_steps_have_their_order(void **state)
{
    (void)state;
    const struct {
        cj_ode_method method;
        double order;
    } methods[] = { { CJ_ODE_EULER, 1 }, { CJ_ODE_MIDPOINT, 2 }, { CJ_ODE_RK4, 4 } };
    for (int i = 0; i < 3; i++)
        assert_near(log2(error_at_1(methods[i].method, 32) / error_at_1(methods[i].method, 64)), methods[i].order, 0.05);
}
static void adaptive_steps_keep_the_tolerance(void **state)
{
    (void)state;
    const double times[] = { 0, 0.5, 1, 2, 10, 10 * M_PI };
    cj_tensor *y0 = F64(c, CJ_SHAPE(2), 1, 0), *k = F64(c, CJ_SCALAR, 4);
    double before = 1;
    for (double rtol = 1e-4; rtol > 1e-11; rtol *= 1e-3) {
        int64_t taken = 0;
        double *y = values_of(cj_ode_solve(c, oscillator, k, y0, times, 6, .rtol = rtol, .atol = rtol, .taken = &taken)), worst = 0;
        for (int i = 0; i < 6; i++)
            worst = fmax(worst, fmax(fabs(y[2 * i] - cos(2 * times[i])), fabs(y[2 * i + 1] + 2 * sin(2 * times[i]))));
        assert_true(worst < 1000 * rtol && worst < before && taken > 0);
        before = worst;
        free(y);
    }
    /* the time itself, backwards, and many times */
    cj_tensor *s = cj_ode_solve(c, forced, NULL, F64(c, CJ_SCALAR, 0), T(0, -3), 2);
    assert_near(value_at(s, 1), sin(-3), 1e-6);
    double many[200];
    for (int i = 0; i < 200; i++) many[i] = 0.05 * i;
    double *path = values_of(cj_ode_solve(c, forced, NULL, F64(c, CJ_SCALAR, 0), many, 200));
    for (int i = 0; i < 200; i++) assert_near(path[i], sin(many[i]), 1e-6);
    free(path);
    /* memory does not grow with the steps */
    cj_memory_reset_peak(c);
    const size_t base = cj_memory_stats(c).peak;
    cj_ode_solve(c, fall, NULL, cj_ones(c, CJ_SHAPE(1000), CJ_F64), T(0, 1), 2, .method = CJ_ODE_EULER, .steps = 2000);
    assert_true(cj_memory_stats(c).peak - base < 200 * 8000);
}

/* Gradients of y(1) with respect to y0 and the stiffness. */
static cj_tensor *end_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    const cj_ode_method m = *(cj_ode_method *)user;
    return cj_select(cj_ode_solve(ctx, oscillator, in[1], in[0], T(0, 0.5, 1), 3, .method = m, .steps = 3), 0, 2);
}
static void gradients_flow_through_steps(void **state)
{
    (void)state;
    for (int m = CJ_ODE_EULER; m <= CJ_ODE_RK4; m++) {
        cj_ode_method method = (cj_ode_method)m;
        cj_tensor *in[] = { F64(c, CJ_SHAPE(2), 1, 0.5), F64(c, CJ_SCALAR, 2) };
        cj_gradcheck_result r = cj_gradcheck(c, end_of, &method, in, 2, .second_order = true);
        if (!r.ok) fail_msg("method %d: %s %s", m, r.what, cj_message(c));
    }
    /* adaptive: q(1) = cos(sqrt k), dq/dk = -sin(sqrt k) / (2 sqrt k) */
    cj_tensor *k = cj_require_grad(F64(c, CJ_SCALAR, 2)), *g;
    cj_tensor *y = cj_ode_solve(c, oscillator, k, F64(c, CJ_SHAPE(2), 1, 0), T(0, 1), 2);
    assert_true(cj_grad(cj_select(cj_select(y, 0, 1), 0, 0), &k, 1, &g));
    assert_near(cj_item(g), -sin(sqrt(2)) / (2 * sqrt(2)), 1e-6);
}
static void solve_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    out[0] = cj_ode_solve(ctx, fall, NULL, in[0], T(0, 1), 2, .method = *(cj_ode_method *)user, .steps = 4);
}
static void bad_equations(void **state)
{
    (void)state;
    cj_tensor *y = F64(c, CJ_SHAPE(1), 1);
    const double t[] = { 0, 2 };
    assert_poisoned(CJ_EVALUE, "ode_solve: ", cj_ode_solve(c, explodes, NULL, y, t, 2)); /* a pole at 1 */
    assert_poisoned(CJ_EVALUE, "ode_solve: 5 steps did not reach 2", cj_ode_solve(c, fall, NULL, y, t, 2, .most = 5));
    assert_poisoned(CJ_ESHAPE, "ode_solve: the function made", cj_ode_solve(c, wrong_shape, NULL, y, t, 2));
    assert_poisoned(CJ_EVALUE, "ode_solve: finite times in order are expected, found 1 at 2",
                    cj_ode_solve(c, fall, NULL, y, T(0, 2, 1), 3));
    assert_poisoned(CJ_EVALUE, "ode_solve: a function, at least 1 time", cj_ode_solve(c, NULL, NULL, y, t, 2));
    assert_poisoned(CJ_EDTYPE, "ode_solve: y0 is i64", cj_ode_solve(c, fall, NULL, cj_arange(c, 0, 3, 1, CJ_I64), t, 2));
    cj_ode_method m = CJ_ODE_DOPRI5;
    assert_refused(CJ_ECAPTURE, "ode_solve: it reads values", cj_capture(c, solve_step, &m, &y, 1, NULL));
    m = CJ_ODE_RK4;
    cj_tensor *x = cj_keep(y);
    cj_plan *p = cj_capture(c, solve_step, &m, &x, 1, NULL);
    assert_ok(c);
    cj_plan_free(p), cj_release(x);
}

/* ---- interpolation ---------------------------------------------------------------------------------------------------------------------------------------- */

static const double knots[6] = { -1, 0, 0.5, 2, 3, 4.5 };
static double poly(double x) { return 1 + x * (0.5 + x * (-0.25 + x * 0.125)); }
static double d_poly(double x) { return 0.5 + x * (-0.5 + x * 0.375); }

static void interpolation(void **state)
{
    (void)state;
    double y[6], line[6];
    for (int i = 0; i < 6; i++) y[i] = poly(knots[i]), line[i] = 3 - 2 * knots[i];
    cj_tensor *x = f64(c, knots, CJ_SHAPE(6)), *v = f64(c, y, CJ_SHAPE(6)),
              *at = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, 111, 1, CJ_F64), 0.05), -1);
    cj_tensor *straight = cj_add_scalar(cj_mul_scalar(at, -2), 3);
    for (int kind = 0; kind < 4; kind++) { /* values at the knots; lines exactly; [2, 6] values at [3, 37] places */
        const cj_interp_opts o = { .kind = (cj_interp_kind)kind, .slope = { -2, -2 } };
        assert_near(distance((cj_interp)(x, v, x, &o), v), 0, 1e-14);
        assert_near(distance((cj_interp)(x, f64(c, line, CJ_SHAPE(6)), at, &o), straight), 0, 1e-13);
        cj_tensor *both = (cj_interp)(x, cj_stack(CJ_TENSORS(v, f64(c, line, CJ_SHAPE(6))), 2, 0), cj_reshape(at, CJ_SHAPE(3, 37)), &o);
        assert_int_equal(cj_ndim(both), 3);
        assert_near(distance(cj_reshape(cj_select(both, 0, 1), CJ_SHAPE(111)), straight), 0, 1e-13);
        assert_near(cj_item((cj_interp)(x, v, F64(c, CJ_SCALAR, 99), &o)), y[5], 1e-13); /* held */
        assert_near(cj_item((cj_interp)(x, v, F64(c, CJ_SCALAR, -99), &o)), y[0], 1e-13);
    }
    assert_near(cj_item(cj_interp(x, v, F64(c, CJ_SCALAR, 1), .kind = CJ_INTERP_PIECEWISE_LINEAR)), y[2] + (y[3] - y[2]) / 3, 1e-14);
    /* a cubic with its own slopes at the ends comes back exactly, also outside */
    cj_tensor *wide = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, 90, 1, CJ_F64), 0.1), -2.5);
    double *w = values_of(wide),
           *got = values_of(cj_interp(x, v, wide, .kind = CJ_SPLINE_CLAMPED, .slope = { d_poly(-1), d_poly(4.5) }, .extrapolate = true));
    for (int i = 0; i < 90; i++) assert_near(got[i], poly(w[i]), 1e-11);
    free(w), free(got);
    /* natural: the second derivative is 0 at the ends and continuous inside (by difference quotients) */
    for (int i = 0; i < 6; i++) {
        const double h = 1e-3;
        double side[2] = { 0 };
        for (int s = 0; s < 2; s++) {
            const double d = s ? h : -h;
            double *q = values_of(cj_interp(x, v, F64(c, CJ_SHAPE(4), knots[i], knots[i] + d, knots[i] + 2 * d, knots[i] + 3 * d),
                                            .kind = CJ_SPLINE_NATURAL, .extrapolate = true));
            side[s] = (2 * q[0] - 5 * q[1] + 4 * q[2] - q[3]) / (h * h);
            free(q);
        }
        if (i == 0 || i == 5) assert_near(side[i == 0], 0, 1e-6);
        else assert_near(side[0], side[1], 1e-6);
    }
    /* monotone data stay monotone, and never leave the range of their neighbours; a spline overshoots */
    const double steps[6] = { 0, 0, 0.1, 5, 5, 5 };
    double *m = values_of(cj_interp(x, f64(c, steps, CJ_SHAPE(6)), at, .kind = CJ_INTERP_MONOTONE)),
           *over = values_of(cj_interp(x, f64(c, steps, CJ_SHAPE(6)), at, .kind = CJ_SPLINE_NATURAL)), top = 0;
    for (int i = 0; i < 111; i++) {
        assert_true(m[i] >= -1e-15 && m[i] <= 5 + 1e-14 && (i == 0 || m[i] >= m[i - 1] - 1e-14));
        top = fmax(top, over[i]);
    }
    assert_true(top > 5.1);
    free(m), free(over);
    /* SciPy: PchipInterpolator and CubicSpline(bc_type="natural") at 1.25 and 4 */
    double *p = values_of(cj_interp(x, F64(c, CJ_SHAPE(6), 1, 3, 2, 2.5, 4, 3), F64(c, CJ_SHAPE(2), 1.25, 4), .kind = CJ_INTERP_MONOTONE));
    assert_near(p[0], 2.1431962025316453, 1e-13);
    assert_near(p[1], 3.6962962962962966, 1e-13);
    free(p);
    p = values_of(cj_interp(x, F64(c, CJ_SHAPE(6), 1, 3, 2, 2.5, 4, 3), F64(c, CJ_SHAPE(2), 1.25, 4), .kind = CJ_SPLINE_NATURAL));
    assert_near(p[0], 1.5481495468277946, 1e-13);
    assert_near(p[1], 3.6364551863041292, 1e-13);
    free(p);
}

static cj_tensor *interp_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    return (cj_interp)(f64(ctx, knots, CJ_SHAPE(6)), in[0], in[1], user);
}
static void interpolation_has_gradients(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        cj_interp_opts o = { .kind = (cj_interp_kind)kind, .slope = { 1, -1 }, .extrapolate = true };
        cj_tensor *in[] = { F64(c, CJ_SHAPE(2, 6), 1, 3, 2, 2.5, 4, 3, 0.5, 0.7, 1.9, 2.2, 2.3, 4),
                            F64(c, CJ_SHAPE(5), -1.3, 0.2, 1.1, 2.9, 5) };
        cj_gradcheck_result r = cj_gradcheck(c, interp_of, &o, in, 2, .second_order = true, .tolerance = 1e-5);
        if (!r.ok) fail_msg("kind %d: %s %s", kind, r.what, cj_message(c));
    }
}
static void bad_interpolation(void **state)
{
    (void)state;
    cj_tensor *x = f64(c, knots, CJ_SHAPE(6)), *y = F64(c, CJ_SHAPE(5), 1, 2, 3, 4, 5), *v = F64(c, CJ_SHAPE(6), 1, 2, 3, 4, 5, 6);
    assert_poisoned(CJ_ESHAPE, "interp: knots [n] with n of at least 2 and values [.., n] are expected", cj_interp(x, y, y));
    assert_poisoned(CJ_ESHAPE, "interp: knots [n] with n of at least 2", cj_interp(F64(c, CJ_SHAPE(1), 1), F64(c, CJ_SHAPE(1), 1), y));
    assert_poisoned(CJ_EVALUE, "interp: ascending finite knots are expected, found 1 at 2",
                    cj_interp(F64(c, CJ_SHAPE(5), 0, 1, 1, 2, 3), y, y));
    assert_poisoned(CJ_EVALUE, "interp: ascending finite knots are expected, found nan at 1",
                    cj_interp(F64(c, CJ_SHAPE(5), 0, NAN, 1, 2, 3), y, y));
    assert_poisoned(CJ_EVALUE, "interp: there is no kind 9", cj_interp(x, v, y, .kind = (cj_interp_kind)9));
    assert_poisoned(CJ_EVALUE, "interp: finite slopes", cj_interp(x, v, y, .kind = CJ_SPLINE_CLAMPED, .slope = { INFINITY, 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integrals),
        cmocka_unit_test(gauss_nodes),
        cmocka_unit_test(roots),
        cmocka_unit_test(steps_of_brent),
        cmocka_unit_test(no_options),
        cmocka_unit_test(minima),
        cmocka_unit_test(fixed_steps_have_their_order),
        cmocka_unit_test(adaptive_steps_keep_the_tolerance),
        cmocka_unit_test(gradients_flow_through_steps),
        cmocka_unit_test(bad_equations),
        cmocka_unit_test(interpolation),
        cmocka_unit_test(interpolation_has_gradients),
        cmocka_unit_test(bad_interpolation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
