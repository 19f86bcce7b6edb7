/* solver-gallery: full-batch, variance-reduced, noisy and game-playing methods, each on a problem whose answer is known in closed form.
 *
 *     least squares   f(w) = 1/2 mean (a_i·w - b_i)²: one Gauss-Newton step is exact; SAG, SAGA and SVRG reach the minimum with a constant step, SGD does not
 *     flow            dx/dt = -h x from 1: e^(-h t)              Langevin    step s, temperature T on x²/2: variance 2 T / (2 - s)
 *     lasso           1/2 |x - a|² + |x|_1: soft threshold       game        x·y, extragradient: |w| shrinks by sqrt(1 - s² + s⁴) a step
 *     entropy         steps of 0.2 diverge on a valley of curvature 15; on its local entropy, curvature 15/16, they do not
 */
#include "lab/lab.h"

#include <math.h>

enum { ROWS = 10, WIDTH = 3, MANY = 200 };

typedef struct rows {
    cj_tensor *a, *b; /* [ROWS, WIDTH], [ROWS] */
} rows;

static cj_tensor *residuals(cj_ctx *c, void *user, cj_tensor *const *w, int n)
{
    (void)c, (void)n;
    const rows *d = user;
    return cj_sub(cj_matmul(d->a, w[0]), d->b);
}
static cj_tensor *squares(cj_ctx *c, void *user, cj_tensor *const *w, int n)
{
    return cj_mul_scalar(cj_mean(cj_square(residuals(c, user, w, n))), 0.5);
}
static cj_tensor *one_row(cj_ctx *c, void *user, cj_tensor *const *w, int n, int64_t i)
{
    (void)c, (void)n;
    const rows *d = user;
    return cj_mul_scalar(cj_square(cj_sub(cj_sum(cj_mul(cj_select(d->a, 0, i), w[0])), cj_select(d->b, 0, i))), 0.5);
}
/* 1/2 h |x|² */
static cj_tensor *valley(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(x[0])), *(const double *)user / 2);
}
static cj_tensor *from_target(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(x[0], cj_from_f64(c, user, CJ_SHAPE(3))))), 0.5);
}
static cj_tensor *product(cj_ctx *c, void *user, cj_tensor *const *w, int n)
{
    (void)c, (void)user, (void)n;
    return cj_sum(cj_mul(w[0], w[1]));
}

static cj_tensor *start(cj_ctx *c, int64_t n, double value) { return cj_keep(cj_full(c, value, CJ_SHAPE(n), CJ_F64)); }
static double distance(cj_tensor *x, cj_tensor *y) { return sqrt(cj_item(cj_sum(cj_square(cj_sub(x, y))))); }

/* ---- least squares ------------------------------------------------------------------------------------------------------------------------------------ */

enum { DESCENT, ACCELERATED, GAUSS_NEWTON, NATURAL, SAG, SAGA, SVRG, SGD, METHODS };
static const char *const name[METHODS] = {
    "gradient descent, Armijo", "Nesterov's method", "one step of Gauss-Newton", "natural gradient", "SAG", "SAGA", "SVRG",
    "SGD, constant step"
};

static void solve(cj_ctx *c, int method, rows *d, cj_tensor *w, double scale)
{
    switch (method) {
    case DESCENT: cj_descent(c, squares, d, &w, 1, NULL, .iterations = scale == 1 ? 500 : 2); break;
    case ACCELERATED: cj_accelerated(c, squares, d, &w, 1, NULL, .step = scale, .momentum = 0.5, .iterations = 500); break;
    case GAUSS_NEWTON: cj_gauss_newton(c, residuals, d, &w, 1, NULL, .iterations = 1, .step = scale); break;
    case NATURAL: cj_natural_gradient(c, one_row, d, ROWS, &w, 1, NULL, .step = scale, .damping = 1, .iterations = 1500); break;
    case SAG: cj_sag(c, one_row, d, ROWS, &w, 1, .step = scale / 3, .iterations = 1500); break;
    case SAGA: cj_saga(c, one_row, d, ROWS, &w, 1, .step = scale / 3, .iterations = 1500); break;
    case SVRG: cj_svrg(c, one_row, d, ROWS, &w, 1, .step = scale / 3, .iterations = 1500); break;
    default: cj_sampled_descent(c, one_row, d, ROWS, &w, 1, .step = scale / 3, .iterations = 1500);
    }
}

static void least_squares(cj_ctx *c, cj_lab_record *r, double scale, double *error)
{
    rows d = { cj_keep(cj_cast(cj_randn(c, CJ_SHAPE(ROWS, WIDTH)), CJ_F64)), cj_keep(cj_cast(cj_randn(c, CJ_SHAPE(ROWS)), CJ_F64)) };
    cj_tensor *best = start(c, WIDTH, 0),
              *a = cj_div(d.a, cj_sqrt(cj_sum(cj_square(d.a), .axes = CJ_AXIS(1), .keepdim = true))); /* rows of norm 1 */
    cj_assign_(d.a, a);
    cj_newton(c, squares, &d, &best, 1, NULL);
    for (int k = 0; k < METHODS && cj_ok(c); k++) {
        cj_tensor *w = start(c, WIDTH, 0);
        solve(c, k, &d, w, scale);
        error[k] = distance(w, best);
        cj_lab_say(r, "%-26s %.1e from the minimum", name[k], error[k]);
        if (k == SGD) cj_lab_expect_at_least(r, name[k], 1e-4, error[k]);
        else cj_lab_expect(r, name[k], 0, error[k], 1e-6);
        cj_release(w);
    }
    const cj_fisher_opts only_diagonal = { .diagonal = true };
    cj_tensor *full = (cj_fisher)(c, one_row, &d, ROWS, &best, 1, NULL);
    cj_tensor *diagonal = (cj_fisher)(c, one_row, &d, ROWS, &best, 1, &only_diagonal);
    double trace = 0;
    for (int k = 0; k < WIDTH && cj_ok(c); k++) trace += cj_item(cj_select(cj_select(full, 0, k), 0, k));
    cj_lab_expect(r, "Fisher matrix: trace over the sum of its diagonal form", 1, trace / cj_item(cj_sum(diagonal)), 1e-12);
}

/* ---- flows, noise, constraints, games -------------------------------------------------------------------------------------------------------------------- */

typedef struct seen {
    double sum;
    int64_t n;
} seen;
static void square_sum(void *user, int64_t t, const double *x, int64_t size)
{
    seen *k = user;
    for (int64_t i = 0; i < size && t >= 200; i++) k->sum += x[i] * x[i], k->n++;
}

static void dynamics(cj_ctx *c, cj_lab_record *r, double scale)
{
    double h = 2;
    cj_tensor *x = start(c, 1, 1);
    cj_gradient_flow(c, valley, &h, &x, 1, 1.5 * scale, NULL, .steps = 200);
    cj_lab_expect(r, "gradient flow after time 1.5 on curvature 2", exp(-3), cj_item(x), 1e-8);

    h = 1;
    seen moments = { 0 };
    x = start(c, MANY, 0);
    cj_langevin(c, valley, &h, &x, 1, NULL, .step = 0.1, .temperature = 0.5 * scale, .iterations = 1200, .visit = square_sum,
                .seen = &moments);
    /* 200·1000 draws with a correlation time of about 20 steps: 1e4 independent squares, 1.4 % each way */
    cj_lab_expect(r, "Langevin: variance at temperature 0.5 and step 0.1", 1 / 1.9, moments.sum / (double)moments.n, 0.04);

    h = 15;
    x = start(c, 1, 1);
    cj_entropy_sgd(c, valley, &h, &x, 1, NULL, .step = 0.2 * scale, .temperature = CJ_ZERO);
    cj_lab_expect(r, "Entropy-SGD in a narrow valley", 0, cj_item(x), 1e-3);
    x = start(c, 1, 1);
    cj_descent(c, valley, &h, &x, 1, NULL, .step = 0.2 * scale, .search = CJ_SEARCH_FIXED, .iterations = 20);
    cj_lab_expect_at_least(r, "gradient descent with the same step: log2 of the distance", 19.9, log2(fabs(cj_item(x))));
}

static void constrained(cj_ctx *c, cj_lab_record *r, double scale)
{
    double target[3] = { 3, -0.5, 1.25 };
    cj_tensor *x = start(c, 3, 0);
    cj_proximal(c, from_target, target, &x, 1, NULL, .prox = CJ_PROX_L1, .weight = 1, .step = 0.5 * scale, .iterations = 60);
    cj_tensor *soft = cj_from_f64(c, (double[]){ 2, 0, 0.25 }, CJ_SHAPE(3));
    cj_lab_expect(r, "proximal gradient: distance to the soft threshold of (3, -1/2, 5/4)", 0, distance(x, soft), 1e-9);

    /* the most 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18, slacks added (Hillier & Lieberman) */
    cj_tensor *cost = cj_from_f64(c, (double[]){ -3, -5, 0, 0, 0 }, CJ_SHAPE(5)), *b = cj_from_f64(c, (double[]){ 4, 12, 18 }, CJ_SHAPE(3));
    cj_tensor *a = cj_from_f64(c, (double[]){ 1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 3, 2, 0, 0, 1 }, CJ_SHAPE(3, 5));
    cj_lab_expect(r, "linear program: its least cost", -36, cj_linear_program(cost, a, b).value, 1e-9);

    double s = 0.3 * scale;
    cj_tensor *u = start(c, 1, 1), *v = start(c, 1, 1);
    cj_min_max(c, product, NULL, &u, 1, &v, 1, NULL, .method = CJ_GAME_EXTRAGRADIENT, .step = s, .iterations = 100);
    cj_lab_expect(r, "game x·y: distance to the equilibrium after 100 extragradient steps", sqrt(2) * pow(1 - 0.09 + 0.0081, 50),
                  hypot(cj_item(u), cj_item(v)), 1e-9);
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double scale = control ? 0.01 : 1, error[METHODS] = { 0 };
    least_squares(c, r, scale, error);
    dynamics(c, r, scale);
    constrained(c, r, scale);
    if (control || !cj_lab_wants_pictures(r)) return;
    double digits[METHODS];
    for (int k = 0; k < METHODS; k++) digits[k] = -log10(fmax(error[k], 1e-16));
    cj_plot *p = cj_plot_new(c, "Least squares: right digits of the minimum");
    static const char *const brief[METHODS] = { "descent", "Nesterov", "G.-Newton", "natural", "SAG", "SAGA", "SVRG", "SGD" };
    cj_plot_labels(p, "", "-log10 of the distance");
    cj_plot_bars(p, NULL, brief, digits, METHODS);
    cj_lab_picture(r, c, p, "solver-gallery");
}

const cj_lab cj_lab_solver_gallery = {
    .name = "solver-gallery",
    .claim = "variance-reduced gradients reach the minimum with a constant step and plain stochastic ones do not; flows, Langevin's "
             "dynamics, proximal steps, linear "
             "programs and games end where closed forms say",
    .source = "Schmidt, Le Roux & Bach 2017; Defazio et al. 2014; Johnson & Zhang 2013; Korpelevich 1976; Chaudhari et al. 2017",
    .control = "every step is a hundredth of what it should be",
    .run = run,
};
