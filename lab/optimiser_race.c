/* optimiser-race: every optimiser of the library on the same two valleys.
 *
 *     valley       f(x, y) = 1/2 (x² / 100 + y²), kappa = 100, from (1, 1)
 *     Rosenbrock   f(x, y) = 100 (y - x²)² + (1 - x)², from (-1.2, 1)
 *
 * Rates are each method's own, found once by hand on the valley.  Momentum beats plain descent on an elongated valley; methods that divide by the size of the gradient
 * do not see the elongation at all; second-order methods go through Rosenbrock's bend in a few dozen steps, first-order ones crawl along it.
 */
#include "lab/lab.h"

#include <math.h>

enum { STEPS = 300, RULES = 17, METHODS = 5 };

typedef cj_optim *maker(cj_params *p, double scale);
/* clang-format off */
static cj_optim *gd(cj_params *p, double s) { return cj_sgd(p, .lr = 1.9 * s); }
static cj_optim *heavy_ball(cj_params *p, double s) { return cj_sgd(p, .lr = 1 * s, .momentum = 0.8); }
static cj_optim *nesterov(cj_params *p, double s) { return cj_sgd(p, .lr = 1 * s, .momentum = 0.8, .nesterov = true); }
static cj_optim *adagrad(cj_params *p, double s) { return cj_adagrad(p, .lr = 0.5 * s); }
static cj_optim *rmsprop(cj_params *p, double s) { return cj_rmsprop(p, .lr = 0.02 * s); }
static cj_optim *adam(cj_params *p, double s) { return cj_adam(p, .lr = 0.1 * s); }
static cj_optim *adamw(cj_params *p, double s) { return cj_adamw(p, .lr = 0.1 * s, .weight_decay = CJ_ZERO); }
static cj_optim *amsgrad(cj_params *p, double s) { return cj_adam(p, .lr = 0.1 * s, .amsgrad = true); }
static cj_optim *adamax(cj_params *p, double s) { return cj_adamax(p, .lr = 0.1 * s); }
static cj_optim *nadam(cj_params *p, double s) { return cj_nadam(p, .lr = 0.1 * s); }
static cj_optim *sign_sgd(cj_params *p, double s) { return cj_sign_sgd(p, .lr = 0.0103 * s); }
static cj_optim *lion(cj_params *p, double s) { return cj_lion(p, .lr = 0.0103 * s); }
static cj_optim *rms_momentum(cj_params *p, double s) { return cj_rmsprop(p, .lr = 0.005 * s, .momentum = 0.8); }
static cj_optim *adadelta(cj_params *p, double s) { return cj_adadelta(p, .lr = 5 * s, .eps = 1e-4); }
static cj_optim *radam(cj_params *p, double s) { return cj_radam(p, .lr = 0.1 * s); }
static cj_optim *rprop(cj_params *p, double s) { return cj_rprop(p, .lr = 0.01 * s); }
static cj_optim *asgd(cj_params *p, double s) { return cj_asgd(p, .lr = 1.9 * s, .lambda = CJ_ZERO, .start = 100); }
static const struct { const char *name; maker *make; double on_rosenbrock; } rules[RULES] = {
    { "gradient descent", gd, 5e-4 }, { "heavy ball", heavy_ball, 5e-4 }, { "Nesterov", nesterov, 5e-4 }, { "AdaGrad", adagrad, 1 },
    { "RMSProp", rmsprop, 1 }, { "Adam", adam, 1 }, { "AdamW", adamw, 1 }, { "AMSGrad", amsgrad, 1 }, { "AdaMax", adamax, 1 },
    { "NAdam", nadam, 1 }, { "SignSGD", sign_sgd, 1 }, { "Lion", lion, 1 }, { "RMSProp, momentum", rms_momentum, 1 },
    { "Adadelta", adadelta, 1 }, { "RAdam", radam, 5e-3 }, { "Rprop", rprop, 1 }, { "averaged SGD", asgd, 5e-4 } };
/* clang-format on */

static cj_tensor *valley(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    const double *h = user;
    return cj_mul_scalar(cj_sum(cj_mul(cj_square(x[0]), cj_from_f64(c, h, CJ_SHAPE(2)))), 0.5);
}
static cj_tensor *rosenbrock(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    cj_tensor *a = cj_select(x[0], 0, 0), *b = cj_select(x[0], 0, 1);
    return cj_add(cj_mul_scalar(cj_square(cj_sub(b, cj_square(a))), 100), cj_square(cj_add_scalar(cj_neg(a), 1)));
}

/* Losses of the first STEPS steps; the first step below `goal`, or STEPS. */
static int race(cj_ctx *c, maker *make, double scale, cj_fn fn, void *user, const double *start, double goal, double *curve)
{
    static const cj_module_type holder = { "holder", NULL, NULL };
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", cj_from_f64(c, start, CJ_SHAPE(2)));
    cj_optim *o = make(cj_module_params(m), scale);
    int first = STEPS;
    for (int t = 0; t < STEPS && cj_ok(c); t++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *loss = fn(c, user, &w, 1);
        curve[t] = cj_item(loss);
        if (curve[t] < goal && first == STEPS) first = t;
        cj_minimise(o, loss);
        cj_scope_close(s);
    }
    return first;
}

static double second_order(cj_ctx *c, int method, int64_t *steps)
{
    cj_tensor *w = cj_keep(cj_from_f64(c, (double[]){ -1.2, 1 }, CJ_SHAPE(2)));
    cj_solution found = { 0 };
    if (method == 0) cj_bfgs(c, rosenbrock, NULL, &w, 1, &found);
    if (method == 1) cj_lbfgs(c, rosenbrock, NULL, &w, 1, &found);
    if (method == 2) cj_newton(c, rosenbrock, NULL, &w, 1, &found);
    if (method == 3) cj_newton_cg(c, rosenbrock, NULL, &w, 1, &found);
    if (method == 4) cj_derivative_free(c, rosenbrock, NULL, &w, 1, &found);
    *steps = found.iterations;
    cj_release(w);
    return found.value;
}

static double curve[2][RULES][STEPS];

static void draw(cj_ctx *c, cj_lab_record *r, int which, const char *title, const char *name)
{
    cj_plot *p = cj_plot_new(c, title);
    cj_plot_labels(p, "step", "loss");
    cj_plot_log(p, false, true);
    cj_plot_range_y(p, which ? 1e-3 : 1e-9, which ? 100 : 1);
    for (int k = 0; k < RULES; k++) cj_plot_line(p, rules[k].name, NULL, curve[which][k], STEPS);
    cj_lab_picture(r, c, p, name);
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double h[2] = { 0.01, 1 }, bent[2] = { -1.2, 1 }, start[2] = { 1, 1 }, scaled[STEPS] = { 0 }, plain[STEPS] = { 0 };
    int steps[RULES] = { 0 };
    for (int k = 0; k < RULES && cj_ok(c); k++) { /* the control takes momentum and memory away: everybody is gradient descent */
        steps[k] = race(c, control ? gd : rules[k].make, 1, valley, h, start, 1e-6, curve[0][k]);
        race(c, control ? gd : rules[k].make, control ? 5e-4 : rules[k].on_rosenbrock, rosenbrock, NULL, bent, 1e-6, curve[1][k]);
        cj_lab_say(r, "%-18s valley %3d steps; Rosenbrock after %d steps %.3g", rules[k].name, steps[k], STEPS, curve[1][k][STEPS - 1]);
    }
    if (!cj_ok(c)) return;
    cj_lab_expect_at_least(r, "valley: steps of gradient descent over those of the heavy ball", 2, (double)steps[0] / steps[1]);
    cj_lab_expect_at_least(r, "valley: steps of gradient descent over those of Nesterov", 2, (double)steps[0] / steps[2]);
    double other[2] = { 1, 1e4 }, difference = 0; /* the valley 100 and 10000 times as steep: Adam walks as before */
    race(c, control ? gd : adam, control ? 1e-4 : 1, valley, h, start, 0, plain);
    race(c, control ? gd : adam, control ? 1e-4 : 1, valley, other, start, 0, scaled);
    for (int t = 0; t < 100;
         t++) { /* losses in units of the first one's curvatures agree only if the paths do: both are started at (1, 1) */
        double a = plain[t] / plain[0], b = scaled[t] / scaled[0];
        difference = fmax(difference, fabs(a - b));
    }
    cj_lab_expect(r, "Adam: relative loss on a valley 100 and 10000 times as steep", 0, difference, 0.02);
    for (int k = 0; k < METHODS && cj_ok(c); k++) {
        static const char *const name[METHODS] = { "BFGS", "L-BFGS", "Newton", "Newton-CG", "Nelder-Mead" };
        int64_t taken = 0;
        double value = second_order(c, k, &taken);
        cj_lab_say(r, "%-18s Rosenbrock in %lld steps", name[k], (long long)taken);
        cj_lab_expect(r, name[k], 0, value, 1e-9);
    }
    if (!control && cj_lab_wants_pictures(r)) {
        draw(c, r, 0, "A quadratic valley of condition number 100", "optimiser-race");
        draw(c, r, 1, "Rosenbrock's function from (-1.2, 1)", "optimiser-race-rosenbrock");
    }
}

const cj_lab cj_lab_optimiser_race = {
    .name = "optimiser-race",
    .claim = "momentum halves the steps on an elongated valley, Adam does not see how elongated it is, second-order methods pass "
             "Rosenbrock's bend",
    .source = "Polyak 1964; Nesterov 1983; Kingma & Ba 2015",
    .control = "every first-order optimiser replaced by gradient descent",
    .run = run,
};
