/* Every optimiser, full-batch method, schedule and average of cajal/optim.h against its closed form.
 *
 * Under a constant gradient g the moments of all rules are known, m_t = (1 - beta1^t) g and v_t = (1 - beta2^t) g², and so is where the parameter is after t steps.
 * Full-batch methods are given a quadratic, whose minimum and path are known.
 */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 97);

/* ---- rules for steps: p after t steps under the gradient g, from p0 ------------------------------------------------------------------------------------------------ */

static const cj_module_type holder = { "Holder", NULL, NULL };
enum { STEPS = 9 };
static const double p0[2] = { 1.5, -0.25 }, slope[2] = { 0.5, -2 };

typedef cj_optim *maker(cj_params *p);
typedef double closed(double p, double g, int t);

static void assert_path(const char *name, maker *make, closed *at, double tolerance)
{
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", f64(c, p0, CJ_SHAPE(2))), *g = f64(c, slope, CJ_SHAPE(2));
    cj_optim *o = make(cj_module_params(m));
    for (int t = 1; t <= STEPS; t++) {
        assert_true(cj_minimise(o, cj_sum(cj_mul(w, g))));
        for (int i = 0; i < 2; i++) {
            double expected = at(p0[i], slope[i], t), found = value_at(w, i);
            if (!(fabs(found - expected) <= tolerance))
                fail_msg("%s, step %d, element %d: %.15g, expected %.15g", name, t, i, found, expected);
        }
    }
    cj_optim_free(o);
    cj_scope_close(s);
}
static double sign(double g) { return (g > 0) - (g < 0); }
#define RULE(name, making, place)                                                                                                          \
    static cj_optim *make_##name(cj_params *p) { return making; }                                                                          \
    static double at_##name(double p, double g, int t) { return (void)g, (void)t, place; }

/* clang-format off */
RULE(sgd, cj_sgd(p, .lr = 0.1), p - 0.1 * g * t)
RULE(decay, cj_sgd(p, .lr = 0.1, .weight_decay = 0.5), pow(0.95, t) * (p + 2 * g) - 2 * g)                      /* towards -g / decay */
RULE(clipped, cj_sgd(p, .lr = 0.1, .clip_value = 0.3), p - 0.1 * fmax(-0.3, fmin(g, 0.3)) * t)
RULE(clipped_norm, cj_sgd(p, .lr = 0.1, .clip_norm = 1), p - 0.1 * g / (sqrt(0.25 + 4) + 1e-6) * t) /* PyTorch adds 1e-6 to the norm */
RULE(upwards, cj_sgd(p, .lr = 0.1, .maximise = true), p + 0.1 * g * t)
/* v_t = (1 - mu^t)/(1 - mu) g */
RULE(momentum, cj_sgd(p, .lr = 0.1, .momentum = 0.9), p - 0.1 * g / 0.1 * (t - 0.9 * (1 - pow(0.9, t)) / 0.1))
/* steps g + mu v_t */
RULE(nesterov, cj_sgd(p, .lr = 0.1, .momentum = 0.9, .nesterov = true), p - 0.1 * g * (t + 0.9 / 0.1 * (t - 0.9 * (1 - pow(0.9, t)) / 0.1)))
RULE(adam, cj_adam(p, .lr = 0.1), p - 0.1 * t * g / (fabs(g) + 1e-8))
RULE(amsgrad, cj_adam(p, .lr = 0.1, .amsgrad = true), p - 0.1 * t * g / (fabs(g) + 1e-8))                       /* v_t rises: its maximum is itself */
/* p_t = (1 - lr·decay) p_(t-1) - lr sign g */
RULE(adamw, cj_adamw(p, .lr = 0.1, .weight_decay = 0.5, .eps = 1e-14), pow(0.95, t) * (p + 2 * sign(g)) - 2 * sign(g))
RULE(sign_sgd, cj_sign_sgd(p, .lr = 0.1), p - 0.1 * t * sign(g))
RULE(sign_momentum, cj_sign_sgd(p, .lr = 0.1, .momentum = 0.9), p - 0.1 * t * sign(g))
RULE(lion, cj_lion(p, .lr = 0.1), p - 0.1 * t * sign(g))
RULE(adamax, cj_adamax(p, .lr = 0.1), p - 0.1 * t * g / (fabs(g) + 1e-8))
/* clang-format on */

/* sum_{k <= t} f(k) */
static double summed(double (*f)(int k), int t)
{
    double s = 0;
    for (int k = 1; k <= t; k++) s += f(k);
    return s;
}
static double inverse_root(int k) { return 1 / sqrt(k); }
static double rms(int k) { return 1 / sqrt(1 - pow(0.99, k)); }
RULE(adagrad, cj_adagrad(p, .lr = 0.1, .eps = 1e-14), p - 0.1 * sign(g) * summed(inverse_root, t)) /* the sum is k g² */
RULE(rmsprop, cj_rmsprop(p, .lr = 0.1, .eps = 1e-14), p - 0.1 * sign(g) * summed(rms, t))

/* momentum mu_k = beta1 (1 - 0.96^(k psi)/2), products M_k: (1 - mu_k)/(1 - M_k) + mu_(k+1)/(1 - M_(k+1)) · (1 - beta1^k) */
static double nadam_step(int k)
{
    double product = 1, mu = 0, next = 0.9 * (1 - 0.5 * pow(0.96, (k + 1) * 4e-3));
    for (int i = 1; i <= k; i++) mu = 0.9 * (1 - 0.5 * pow(0.96, i * 4e-3)), product *= mu;
    return (1 - mu) / (1 - product) + next / (1 - product * next) * (1 - pow(0.9, k));
}
RULE(nadam, cj_nadam(p, .lr = 0.1, .eps = 1e-14), p - 0.1 * sign(g) * summed(nadam_step, t))

/* rho_k <= 5: the plain mean; else rectified */
static double radam_g;
static double radam_step(int k)
{
    double most = 2 / (1 - 0.9) - 1, rho = most - 2 * k * pow(0.9, k) / (1 - pow(0.9, k));
    if (rho <= 5) return radam_g;
    return sign(radam_g) * sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
}
static cj_optim *make_radam(cj_params *p) { return cj_radam(p, .lr = 0.1, .beta2 = 0.9, .eps = 1e-14); }
static double at_radam(double p, double g, int t)
{
    radam_g = g;
    return p - 0.1 * summed(radam_step, t);
}

/* steps of one sign grow: lr (1 + 1.2 + … ); PyTorch's first step is lr itself, and so is the first here */
RULE(rprop, cj_rprop(p, .lr = 0.1), p - sign(g) * 0.1 * (pow(1.2, t) - 1) / 0.2)

/* v_t = (1 - rho^t) g²; the squares of steps have their own mean, so each step follows from the last */
static cj_optim *make_adadelta(cj_params *p) { return cj_adadelta(p, .lr = 0.5, .eps = 1e-4); }
static double at_adadelta(double p, double g, int t)
{
    double u = 0;
    for (int k = 1; k <= t; k++) {
        double d = g * sqrt(u + 1e-4) / sqrt((1 - pow(0.9, k)) * g * g + 1e-4);
        u = 0.9 * u + 0.1 * d * d, p -= 0.5 * d;
    }
    return p;
}
static cj_optim *make_asgd(cj_params *p) { return cj_asgd(p, .lr = 0.1, .lambda = 0.5); }
static double at_asgd(double p, double g, int t)
{
    for (int k = 1; k <= t; k++) {
        double e = 0.1 / pow(1 + 0.5 * 0.1 * (k - 1), 0.75);
        p = (1 - 0.5 * e) * p - e * g;
    }
    return p;
}
/* p -= lr·t·g: 1 + 2 + … + t */
static cj_tensor *growing(cj_ctx *ctx, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)ctx, (void)payload, (void)state;
    return cj_sub(p, cj_mul(g, cj_mul(lr, t)));
}
static const cj_rule growing_rule = { .name = "growing", .update = growing };
static cj_optim *make_custom(cj_params *p) { return cj_custom_optim(p, &growing_rule, .lr = 0.1); }
static double at_custom(double p, double g, int t) { return p - 0.1 * g * t * (t + 1) / 2; }

#define PATH(name, tolerance) assert_path(#name, make_##name, at_##name, tolerance)
static void rules_under_a_constant_gradient(void **state)
{
    (void)state;
    PATH(sgd, 1e-13), PATH(decay, 1e-13), PATH(clipped, 1e-13), PATH(clipped_norm, 1e-13), PATH(upwards, 1e-13), PATH(momentum, 1e-12);
    PATH(nesterov, 1e-12), PATH(adam, 1e-12), PATH(amsgrad, 1e-12), PATH(adamw, 1e-11), PATH(sign_sgd, 1e-13), PATH(sign_momentum, 1e-13);
    PATH(lion, 1e-13), PATH(adamax, 1e-7), PATH(adagrad, 1e-12), PATH(rmsprop, 1e-11), PATH(nadam, 1e-11), PATH(radam, 1e-11);
    PATH(rprop, 1e-13), PATH(adadelta, 1e-12), PATH(asgd, 1e-13), PATH(custom, 1e-13);
}

/* ---- rates --------------------------------------------------------------------------------------------------------------------------------------------------------- */

static void assert_rate(cj_rate r, int64_t t, double expected) { assert_near(cj_rate_at(&r, t), expected, 1e-15); }
static void rates(void **state)
{
    (void)state;
    const int64_t milestones[] = { 3, 7 };
    for (int64_t t = 0; t < 20; t++) {
        double d = (double)t;
        assert_rate(cj_rate_constant(0.3), t, 0.3);
        assert_rate(cj_rate_step(0.3, 4, 0.5), t, 0.3 * pow(0.5, floor(d / 4)));
        assert_rate(cj_rate_multi_step(0.3, milestones, 2, 0.1), t, 0.3 * pow(0.1, (t >= 3) + (t >= 7)));
        assert_rate(cj_rate_exponential(0.3, 0.9), t, 0.3 * pow(0.9, d));
        assert_rate(cj_rate_cosine(0.3, 0.1, 10), t, t >= 10 ? 0.1 : 0.1 + 0.2 * (1 + cos(M_PI * d / 10)) / 2);
        double in = t < 4 ? d / 4 : t < 12 ? (d - 4) / 8 : (d - 12) / 16; /* periods of 4, 8, 16 */
        assert_rate(cj_rate_cosine_restarts(0.3, 0, 4, 2), t, 0.3 * (1 + cos(M_PI * in)) / 2);
        assert_rate(cj_rate_polynomial(0.3, 10, 2), t, t >= 10 ? 0 : 0.3 * pow(1 - d / 10, 2));
        assert_rate(cj_rate_inverse_time(2, 5), t, 2 / (d + 5));
        assert_rate(cj_rate_inverse_root(2, 5), t, 2 / sqrt(d + 5));
        assert_rate(cj_rate_warmup(cj_rate_exponential(0.3, 0.9), 5, 0.2), t, t < 5 ? 0.3 * (0.2 + 0.8 * d / 5) : 0.3 * pow(0.9, d - 5));
    }
    /* one cycle by lines, 10 steps of which 3 rise: PyTorch's phases end at 0.3·10 - 1 and 9 */
    cj_rate cycle = cj_rate_one_cycle(1, 10, .linear = true, .start_divisor = 10, .end_divisor = 100);
    for (int t = 0; t < 10; t++) assert_near(cj_rate_at(&cycle, t), t <= 2 ? 0.1 + 0.9 * t / 2 : 1 + (0.001 - 1) * (t - 2) / 7, 1e-12);
    cj_plateau p = { .lr = 1, .factor = 0.5, .patience = 1 };
    const double loss[] = { 3, 2, 2, 2, 2, 2 }, lr[] = { 1, 1, 1, 0.5, 0.5, 0.25 };
    for (int i = 0; i < 6; i++) assert_near(cj_plateau_lr(&p, loss[i]), lr[i], 1e-15);
    /* a scheduled step of SGD under a constant gradient: the sum of the rates */
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", F64(c, CJ_SHAPE(1), 0));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 1);
    cj_rate half = cj_rate_exponential(1, 0.5);
    assert_true(cj_optim_schedule(o, &half));
    for (int t = 0; t < 10; t++) cj_minimise(o, cj_sum(w));
    assert_near(cj_item(w), -(2 - pow(0.5, 9)), 1e-14);
    cj_optim_free(o);
    cj_scope_close(s);
}

/* p = 1, 2, 3, 4: the mean of all is 2.5; with decay 1/2 it is ((1·1/2 + 2/2)/2 + 3/2)/2 + 4/2 */
static void averages(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", F64(c, CJ_SHAPE(1), 0));
    cj_average *mean = cj_average_new(cj_module_params(m)), *moving = cj_average_new(cj_module_params(m), .decay = 0.5);
    for (int i = 1; i <= 4; i++) {
        bool grad = cj_no_grad(c);
        cj_assign_(w, F64(c, CJ_SHAPE(1), i));
        cj_grad_mode(c, grad);
        assert_true(cj_average_update(mean) && cj_average_update(moving));
    }
    assert_true(cj_average_swap_in(mean));
    assert_near(cj_item(w), 2.5, 1e-14);
    assert_true(cj_average_swap_out(mean));
    assert_near(cj_item(w), 4, 0);
    assert_true(cj_average_swap_in(moving));
    assert_near(cj_item(w), ((1.5 / 2 + 1.5) / 2 + 2), 1e-14);
    assert_true(cj_average_swap_out(moving));
    cj_average_free(mean), cj_average_free(moving);
    cj_scope_close(s);
}

/* ---- full-batch methods: x²/2 + 2y² - x - 2y, least at (1, 1/2) with value -1 ------------------------------------------------------------------------------------- */

static cj_tensor *weights(void) { return F64(c, CJ_SHAPE(2), 1, 4); }
static cj_tensor *bowl(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    cj_tensor *x = in[0];
    return cj_sub(cj_mul_scalar(cj_sum(cj_mul(weights(), cj_square(x))), 0.5), cj_sum(cj_mul(x, F64(c, CJ_SHAPE(2), 1, 2))));
}
/* residuals sqrt(weights) (x - least): half the sum of their squares is bowl + 1 */
static cj_tensor *residuals(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_mul(cj_sqrt(weights()), cj_sub(in[0], F64(c, CJ_SHAPE(2), 1, 0.5)));
}
/* l_i = |x - a_i|²/2: least at the mean of a, (1, 1/2) */
static const double centre[4][2] = { { 0, 0 }, { 2, 0 }, { 1, 1 }, { 1, 1 } };
static cj_tensor *example(cj_ctx *ctx, void *user, cj_tensor *const *in, int n, int64_t i)
{
    (void)ctx, (void)user, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(in[0], f64(c, centre[i], CJ_SHAPE(2))))), 0.5);
}
/* (x - 1)²/2 - (y - 2)²/2 + (x - 1)(y - 2): a saddle at (1, 2) */
static cj_tensor *game(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    cj_tensor *x = cj_add_scalar(in[0], -1), *y = cj_add_scalar(in[1], -2);
    return cj_sum(cj_add(cj_mul_scalar(cj_sub(cj_square(x), cj_square(y)), 0.5), cj_mul(x, y)));
}

static cj_tensor *x; /* kept */
static void begin(double a, double b)
{
    if (x) cj_release(x);
    x = cj_keep(F64(c, CJ_SHAPE(2), a, b));
}
static void assert_at(double a, double b, double tolerance)
{
    assert_ok(c);
    assert_near(value_at(x, 0), a, tolerance);
    assert_near(value_at(x, 1), b, tolerance);
}

static void methods_on_a_quadratic(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_solution out;
    /* descent with a fixed step: x_t - x* = (1 - step·curvature)^t (x_0 - x*) */
    begin(3, -1), cj_descent(c, bowl, NULL, &x, 1, &out, .search = CJ_SEARCH_FIXED, .step = 0.1, .iterations = 7),
        assert_at(1 + 2 * pow(0.9, 7), 0.5 - 1.5 * pow(0.6, 7), 1e-13);
    /* by its inverse square root as the metric, G = weights²: the first step of 1 is Newton's */
    begin(3, -1),
        cj_descent(c, bowl, NULL, &x, 1, &out, .search = CJ_SEARCH_FIXED, .step = 1, .iterations = 1, .metric = F64(c, CJ_SHAPE(2), 1, 16)),
        assert_at(1, 0.5, 1e-13);
    begin(3, -1), cj_newton(c, bowl, NULL, &x, 1, &out, .iterations = 1), assert_at(1, 0.5, 1e-13);
    begin(3, -1), cj_gauss_newton(c, residuals, NULL, &x, 1, &out, .iterations = 1), assert_at(1, 0.5, 1e-13);
    begin(3, -1), cj_gauss_newton(c, residuals, NULL, &x, 1, &out, .iterations = 1, .damping = 1),
        assert_at(1 + 2 * 0.5, 0.5 - 1.5 * 0.2, 1e-13); /* damping/(curvature + damping) is left */
    begin(3, -1), cj_newton_cg(c, bowl, NULL, &x, 1, &out, .cg_tolerance = 1e-12, .iterations = 1),
        assert_at(1, 0.5, 1e-12); /* two dimensions, two products */
    /* with exact line searches both are conjugate gradients: done after two steps */
    begin(3, -1), cj_bfgs(c, bowl, NULL, &x, 1, &out, .search = CJ_SEARCH_EXACT, .iterations = 2), assert_at(1, 0.5, 1e-12);
    begin(3, -1), cj_lbfgs(c, bowl, NULL, &x, 1, &out, .search = CJ_SEARCH_EXACT, .iterations = 2), assert_at(1, 0.5, 1e-12);
    assert_near(out.value, -1, 1e-12);
    /* y = x + rho (x - x before): e_(t+1) = (1 - step·curvature) ((1 + rho) e_t - rho e_(t-1)) */
    begin(3, -1), cj_accelerated(c, bowl, NULL, &x, 1, &out, .step = 0.1, .momentum = 0.5, .iterations = 3);
    double e[2][4] = { { 2, 2 * 0.9 }, { -1.5, -1.5 * 0.6 } };
    for (int i = 0; i < 2; i++)
        for (int t = 2; t <= 3; t++) e[i][t] = (i ? 0.6 : 0.9) * (1.5 * e[i][t - 1] - 0.5 * e[i][t - 2]);
    assert_at(1 + e[0][3], 0.5 + e[1][3], 1e-13);
    /* the flow: e^(-curvature·time) */
    begin(3, -1), cj_gradient_flow(c, bowl, NULL, &x, 1, 0.7, &out, .steps = 400),
        assert_at(1 + 2 * exp(-0.7), 0.5 - 1.5 * exp(-2.8), 1e-9);
    begin(3, -1), cj_gradient_flow(c, bowl, NULL, &x, 1, 0.7, &out, .steps = 7, .euler = true),
        assert_at(1 + 2 * pow(0.9, 7), 0.5 - 1.5 * pow(0.6, 7), 1e-13);
    /* weight·|x|_1: x* = shrink(b, weight) / curvature, here (1 - 0.4)/1 and (2 - 0.4)/4; a ball, a box */
    begin(3, -1), cj_proximal(c, bowl, NULL, &x, 1, &out, .prox = CJ_PROX_L1, .weight = 0.4, .step = 0.25), assert_at(0.6, 0.4, 1e-8);
    begin(3, -1), cj_proximal(c, bowl, NULL, &x, 1, &out, .prox = CJ_PROX_L1, .weight = 0.4, .step = 0.25, .accelerate = true),
        assert_at(0.6, 0.4, 1e-8);
    begin(3, -1), cj_proximal(c, bowl, NULL, &x, 1, &out, .prox = CJ_PROX_BOX, .low = -1, .high = 0.3, .step = 0.25),
        assert_at(0.3, 0.3, 1e-12);
    begin(0.1, 0.1), cj_proximal(c, bowl, NULL, &x, 1, &out, .prox = CJ_PROX_BALL, .radius = 0.5, .step = 0.25);
    assert_near(hypot(value_at(x, 0), value_at(x, 1)), 0.5, 1e-12);                                      /* on the border, where … */
    assert_near((1 - value_at(x, 0)) * value_at(x, 1), (2 - 4 * value_at(x, 1)) * value_at(x, 0), 1e-8); /* … the gradient is along x */
    for (int k = 0; k <= CJ_FREE_DIFFERENCES; k++)
        begin(3, -1), cj_derivative_free(c, bowl, NULL, &x, 1, &out, .method = k), assert_at(1, 0.5, 1e-4);
    cj_scope_close(s);
}

static void methods_on_examples(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_solution out;
    begin(3, -1), cj_saga(c, example, NULL, 4, &x, 1, .step = 0.3, .iterations = 400), assert_at(1, 0.5, 1e-10);
    begin(3, -1), cj_svrg(c, example, NULL, 4, &x, 1, .step = 0.3, .iterations = 400), assert_at(1, 0.5, 1e-10);
    begin(3, -1), cj_sag(c, example, NULL, 4, &x, 1, .step = 0.1, .iterations = 600), assert_at(1, 0.5, 1e-10);
    /* whole batches are descent; without replacement, one at a time with step 1, the last example decides */
    begin(3, -1), cj_sampled_descent(c, example, NULL, 4, &x, 1, .step = 0.5, .batch = 4, .shuffled = true, .iterations = 3),
        assert_at(1 + 2 / 8., 0.5 - 1.5 / 8, 1e-13);
    begin(3, -1), cj_sampled_descent(c, example, NULL, 4, &x, 1, .step = 1, .iterations = 1);
    int same = 0;
    for (int i = 0; i < 4; i++) same += fabs(value_at(x, 0) - centre[i][0]) + fabs(value_at(x, 1) - centre[i][1]) < 1e-13;
    assert_true(same >= 1);
    /* at x = 0 the gradients are -a_i: F = mean a aᵀ = [[6, 2], [2, 2]]/4; the natural step is -F⁻¹ g = F⁻¹ (1, 1/2) = (1/2, 1/2) */
    begin(0, 0);
    assert_near(distance(cj_fisher(c, example, NULL, 4, &x, 1), F64(c, CJ_SHAPE(2, 2), 1.5, 0.5, 0.5, 0.5)), 0, 1e-14);
    assert_near(distance(cj_fisher(c, example, NULL, 4, &x, 1, .diagonal = true), F64(c, CJ_SHAPE(2), 1.5, 0.5)), 0, 1e-14);
    cj_natural_gradient(c, example, NULL, 4, &x, 1, &out, .iterations = 1, .damping = 1e-13), assert_at(0.5, 0.5, 1e-10);
    cj_scope_close(s);
}

/* mean and variance of what Langevin's dynamics visits */
typedef struct seen {
    double n, sum[2], square[2];
} seen;
static void visit(void *user, int64_t t, const double *at, int64_t size)
{
    seen *v = user;
    if (t < 500) return;
    v->n++;
    for (int64_t i = 0; i < size; i++) v->sum[i] += at[i], v->square[i] += at[i] * at[i];
}

static void methods_with_noise_and_games(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_solution out;
    /* x' = (1 - ah) x + sqrt(2hT) normal has the variance T / (a (1 - ah/2)) */
    seen v = { 0 };
    begin(1, 0.5),
        cj_langevin(c, bowl, NULL, &x, 1, &out, .step = 0.1, .temperature = 0.5, .iterations = 20500, .visit = visit, .seen = &v);
    for (int i = 0; i < 2; i++) {
        double a = i ? 4 : 1, mean = v.sum[i] / v.n, variance = v.square[i] / v.n - mean * mean, expected = 0.5 / (a * (1 - a * 0.05));
        double draws = v.n * a * 0.1 / 2; /* neighbours are alike: e^(-a h t) */
        assert_near(mean, i ? 0.5 : 1, 5 * sqrt(expected / draws));
        assert_near(variance / expected, 1, 5 * sqrt(2 / draws));
    }
    begin(3, -1), cj_langevin(c, bowl, NULL, &x, 1, &out, .step = 0.1, .temperature = CJ_ZERO, .iterations = 7),
        assert_at(1 + 2 * pow(0.9, 7), 0.5 - 1.5 * pow(0.6, 7), 1e-13);
    /* without noise and with an inner loop that converges, x' = argmin f + gamma/2 |x' - x|²: the error shrinks by 1 - step·gamma·a/(a + gamma) each time */
    begin(3, -1), cj_entropy_sgd(c, bowl, NULL, &x, 1, &out, .step = 0.5, .scope = 1, .inner_step = 0.2, .inner = 800,
                                 .temperature = CJ_ZERO, .iterations = 3);
    assert_at(1 + 2 * pow(1 - 0.5 * 0.5, 3), 0.5 - 1.5 * pow(1 - 0.5 * 0.8, 3),
              1e-2); /* its mean has the way to the minimum in it, from the second quarter on */
    /* simultaneous steps on w' = w - h v: v = (dx + dy, dy - dx) around the saddle; (1 - h)² + h² per step in squared distance */
    cj_tensor *a = cj_keep(F64(c, CJ_SHAPE(1), 2)), *b = cj_keep(F64(c, CJ_SHAPE(1), 2));
    assert_true(cj_min_max(c, game, NULL, &a, 1, &b, 1, &out, .method = CJ_GAME_SIMULTANEOUS, .step = 0.2, .iterations = 5));
    assert_near(pow(cj_item(a) - 1, 2) + pow(cj_item(b) - 2, 2), pow(0.8 * 0.8 + 0.2 * 0.2, 5), 1e-12);
    for (int k = 0; k <= CJ_GAME_CONSENSUS; k++) {
        assert_true(cj_min_max(c, game, NULL, &a, 1, &b, 1, &out, .method = k, .step = 0.2, .iterations = 300));
        assert_near(cj_item(a), 1, 1e-9);
        assert_near(cj_item(b), 2, 1e-9);
    }
    cj_release(a), cj_release(b);
    /* min -x - 2y with x + y + s = 4, x + 3y + t = 6: at x = 3, y = 1, value -5 */
    cj_program p =
        cj_linear_program(F64(c, CJ_SHAPE(4), -1, -2, 0, 0), F64(c, CJ_SHAPE(2, 4), 1, 1, 1, 0, 1, 3, 0, 1), F64(c, CJ_SHAPE(2), 4, 6));
    assert_true(p.outcome == CJ_PROGRAM_SOLVED);
    assert_near(p.value, -5, 1e-12);
    assert_near(distance(p.x, F64(c, CJ_SHAPE(4), 3, 1, 0, 0)), 0, 1e-12);
    cj_release(x), x = NULL;
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_under_a_constant_gradient),
        cmocka_unit_test(rates),
        cmocka_unit_test(averages),
        cmocka_unit_test(methods_on_a_quadratic),
        cmocka_unit_test(methods_on_examples),
        cmocka_unit_test(methods_with_noise_and_games),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
