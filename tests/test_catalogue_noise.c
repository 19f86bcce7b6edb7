/* The catalogue's family `opt`, third file: clipping, groups, averages, noise on purpose, games, no derivatives, and optimisers side by side.  One test case per row or
 * property, named after the row's id (docs/coverage.tsv).  f64 unless said otherwise. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 37);

static cj_tensor *vector(const double *v, int64_t n) { return cj_keep((cj_from_f64)(c, v, CJ_SHAPE(n))); }
static cj_tensor *constant(double v, int64_t n) { return cj_keep(cj_full(c, v, CJ_SHAPE(n), CJ_F64)); }
static const cj_module_type holder_type = { "holder", NULL, NULL };
static cj_params *holder(double v, int64_t n)
{
    cj_module *m = cj_module_new(c, &holder_type, 0);
    cj_module_param(m, "w", cj_full(c, v, CJ_SHAPE(n), CJ_F64));
    return cj_module_params(m);
}
static cj_tensor *w_of(cj_optim *o) { return cj_params_at(cj_optim_params(o), 0); }
/* One step of the optimiser on fn of its parameter. */
static void step(cj_optim *o, cj_fn fn, void *user)
{
    cj_tensor *w = w_of(o);
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(o, fn(c, user, &w, 1)));
    cj_scope_close(s);
}

/* ---- clipping and groups --------------------------------------------------------------------------------------------------------------------------------- */

/* 0.05 (w + 3)² with a cliff of height 20 at 0 */
static cj_tensor *cliff(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    cj_tensor *bowl = cj_mul_scalar(cj_square(cj_add_scalar(x[0], 3)), 0.05),
              *wall = cj_mul_scalar(cj_sigmoid(cj_mul_scalar(x[0], 50)), 20);
    return cj_sum(cj_add(bowl, wall));
}
/* opt.clip_norm: gradient clipping by norm */
static void opt_clip_norm_cliff(void **state)
{
    (void)state;
    cj_optim *free_step = cj_sgd(holder(0.01, 1), .lr = 0.5), *clipped = cj_sgd(holder(0.01, 1), .lr = 0.5, .clip_norm = 1);
    step(free_step, cliff, NULL);
    assert_true(fabs(value_at(w_of(free_step), 0)) > 50); /* thrown away by a slope of 235 */
    for (int t = 0; t < 300; t++) step(clipped, cliff, NULL);
    assert_near(value_at(w_of(clipped), 0), -3, 0.01);
}

/* opt.weight_decay_sgd: decay is the gradient of alpha/2 |w|²; groups have rates and decays of their own */
static void opt_weight_decay_sgd(void **state)
{
    (void)state;
    static const cj_module_type two = { "two", NULL, NULL };
    cj_module *m[3];
    cj_tensor *w[3], *b[3];
    for (int k = 0; k < 3; k++) {
        m[k] = cj_module_new(c, &two, 0);
        w[k] = cj_module_param(m[k], "weight", F64(c, CJ_SHAPE(2), 1.5, -2));
        b[k] = cj_module_param(m[k], "bias", F64(c, CJ_SHAPE(2), 0.5, 4));
    }
    cj_optim *decay = cj_sgd(cj_module_params(m[0]), .lr = 0.1, .weight_decay = 0.3), *plain = cj_sgd(cj_module_params(m[1]), .lr = 0.1);
    for (int t = 0; t < 20; t++) { /* the decay, and the gradient of the penalty */
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(decay, cj_add(cj_sum(cj_sin(w[0])), cj_sum(cj_cos(b[0])))));
        cj_tensor *penalty = cj_mul_scalar(cj_l2_penalty(cj_module_params(m[1])), 0.15);
        assert_true(cj_minimise(plain, cj_add(cj_add(cj_sum(cj_sin(w[1])), cj_sum(cj_cos(b[1]))), penalty)));
        cj_scope_close(s);
    }
    assert_near(distance(w[0], w[1]) + distance(b[0], b[1]), 0, 1e-12);
    cj_optim *grouped = cj_sgd(cj_module_params(m[2]), .lr = 0.1, .weight_decay = 0.3);
    assert_true(cj_optim_group(grouped, "bias", 10, 0));
    for (int t = 1; t <= 20; t++) { /* no gradient on the weights: geometric decay; the bias moves ten times as far and does not decay */
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(grouped, cj_add(cj_mul_scalar(cj_sum(w[2]), 0), cj_sum(b[2]))));
        cj_scope_close(s);
        assert_near(value_at(w[2], 1), -2 * pow(1 - 0.1 * 0.3, t), 1e-12);
        assert_near(value_at(b[2], 0), 0.5 - 0.1 * 10 * t, 1e-12);
    }
    assert_true(cj_optim_group(grouped, "weight", 0, 0)); /* frozen */
    cj_tensor *before = cj_clone(cj_detach(w[2]));
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(grouped, cj_add(cj_sum(w[2]), cj_sum(b[2]))));
    cj_scope_close(s);
    assert_true(same_bits(before, w[2]));
    assert_near(value_at(b[2], 0), 0.5 - 21, 1e-12); /* the other group stays */
    assert_refused(CJ_EVALUE, "optim_group: no parameter's name ends with \"gamma\"", cj_optim_group(grouped, "gamma", 1, 0));
    assert_refused(CJ_EVALUE, "factor nan and weight decay 0 must be finite", cj_optim_group(grouped, "bias", NAN, 0));
    assert_refused(CJ_EVALUE, "optim_group: the ending is NULL", cj_optim_group(grouped, NULL, 1, 0));
}

/* Groups under every rule: an optimiser of two parameters with groups is two optimisers of one. */
static void opt_weight_decay_sgd_groups_of_all_rules(void **state)
{
    (void)state;
    for (int rule = 0; rule < 6; rule++) {
        cj_tensor *p[2][2];
        cj_module *m[3];
        for (int k = 0; k < 3; k++) m[k] = cj_module_new(c, &holder_type, 0);
        p[0][0] = cj_module_param(m[0], "a", F64(c, CJ_SHAPE(2), 1, 2)), p[0][1] = cj_module_param(m[0], "b", F64(c, CJ_SHAPE(2), 3, 4));
        p[1][0] = cj_module_param(m[1], "a", F64(c, CJ_SHAPE(2), 1, 2)), p[1][1] = cj_module_param(m[2], "b", F64(c, CJ_SHAPE(2), 3, 4));
        cj_optim *o[3];
        for (int k = 0; k < 3; k++) {
            cj_params *q = cj_module_params(m[k]);
            double lr = k == 2 ? 0.02 : 0.01, decay = k == 2 ? 0.5 : 0.1;
            o[k] = rule == 0   ? cj_sgd(q, .lr = lr, .weight_decay = decay, .momentum = 0.9)
                   : rule == 1 ? cj_adam(q, .lr = lr, .weight_decay = decay)
                   : rule == 2 ? cj_adamw(q, .lr = lr, .weight_decay = decay)
                   : rule == 3 ? cj_rmsprop(q, .lr = lr, .weight_decay = decay)
                   : rule == 4 ? cj_nadam(q, .lr = lr, .weight_decay = decay)
                               : cj_adagrad(q, .lr = lr, .weight_decay = decay);
        }
        assert_true(cj_optim_group(o[0], "b", 2, 0.5));
        for (int t = 0; t < 10; t++) {
            cj_scope s = cj_scope_open(c);
            assert_true(cj_minimise(o[0], cj_add(cj_sum(cj_sin(p[0][0])), cj_sum(cj_cos(p[0][1])))));
            assert_true(cj_minimise(o[1], cj_sum(cj_sin(p[1][0]))));
            assert_true(cj_minimise(o[2], cj_sum(cj_cos(p[1][1]))));
            cj_scope_close(s);
        }
        for (int k = 0; k < 2; k++) assert_near(distance(p[0][k], p[1][k]), 0, 1e-15);
    }
}

/* A learning rate must be a finite number that is not negative, wherever it comes from. */
static void opt_learning_rate_refused(void **state)
{
    (void)state;
    cj_params *p = holder(1, 2);
    cj_optim *o = cj_sgd(p, .lr = 0.5);
    assert_refused(CJ_EVALUE, "sgd: learning rate inf; it must be finite and not negative", cj_sgd(p, .lr = INFINITY));
    assert_refused(CJ_EVALUE, "adam: learning rate nan; it must be finite and not negative", cj_adam(p, .lr = NAN));
    cj_optim_set_lr(o, NAN);
    assert_error(c, CJ_EVALUE, "optim_set_lr: learning rate nan; it must be finite and not negative");
    cj_clear(c);
    cj_optim_set_lr(o, INFINITY);
    assert_error(c, CJ_EVALUE, "optim_set_lr: learning rate inf");
    cj_clear(c);
    assert_near(cj_optim_lr(o), 0.5, 0);
    cj_tensor *w = constant(1, 2);
    assert_refused(CJ_EVALUE, "descent: step inf; it must be positive and finite",
                   cj_descent(c, cliff, NULL, &w, 1, NULL, .step = INFINITY));
    assert_near(value_at(w, 0), 1, 0);
}

/* ---- averages ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Sets the parameter of o to v: a step of rate 1 along w - v. */
static cj_tensor *towards(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(cj_add_scalar(x[0], -*(double *)user))), 0.5);
}
/* opt.ema: exponential moving average of weights */
static void opt_ema_weights(void **state)
{
    (void)state;
    double rho = 0.75, value = 1;
    cj_optim *o = cj_sgd(holder(0, 1), .lr = 1);
    cj_average *a = cj_average_new(cj_optim_params(o), .decay = rho);
    assert_true(cj_average_update(a)); /* 0 … */
    for (int t = 1; t <= 9; t++) {     /* … then ones: their weights add up to 1 - rho^t */
        step(o, towards, &value);
        assert_true(cj_average_update(a));
        assert_true(cj_average_swap_in(a));
        assert_near(value_at(w_of(o), 0), 1 - pow(rho, t), 1e-14);
        assert_true(cj_average_swap_out(a));
    }
    double *noise = values_of(cj_randn(c, CJ_SHAPE(4000), .dtype = CJ_F64)),
           spread = 0; /* of independent iterates: (1 - rho)/(1 + rho) of their variance */
    for (int t = 0; t < 4000; t++) {
        step(o, towards, &noise[t]);
        assert_true(cj_average_update(a));
        if (t < 50) continue;
        assert_true(cj_average_swap_in(a));
        spread += value_at(w_of(o), 0) * value_at(w_of(o), 0) / 3950;
        assert_true(cj_average_swap_out(a));
    }
    free(noise);
    assert_near(spread, 0.25 / 1.75, 0.02);
}

/* opt.swa: batch norm and a linear layer on a noisy plane; constant rate, then the mean of the iterates with statistics estimated anew */
static double test_loss(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_module_train(net, false);
    bool was = cj_no_grad(c);
    double loss = cj_item(cj_mse_loss(cj_forward(net, x), y));
    cj_grad_mode(c, was);
    cj_module_train(net, true);
    return loss;
}
static void opt_swa(void **state)
{
    (void)state;
    double last = 0, averaged = 0;
    enum { RUNS = 6, N = 256, EPOCHS = 60 };
    for (int run = 0; run < RUNS; run++) {
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(N, 4))), *test_x = cj_keep(cj_randn(c, CJ_SHAPE(N, 4)));
        cj_tensor *truth = cj_randn(c, CJ_SHAPE(4, 1));
        cj_tensor *y = cj_keep(cj_add(cj_matmul(x, truth), cj_randn(c, CJ_SHAPE(N, 1)))), *test_y = cj_keep(cj_matmul(test_x, truth));
        cj_module *net = cj_sequential(c, cj_batch_norm_layer(c, 4), cj_linear(c, 4, 1));
        cj_params *p = cj_module_params(net);
        cj_optim *o = cj_sgd(p, .lr = 0.05);
        cj_average *a = cj_average_new(p);
        double sum[4] = { 0 };
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            for (int b = 0; b < N; b += 16) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *rows = cj_randint(c, 0, N, CJ_SHAPE(16));
                assert_true(cj_minimise(o, cj_mse_loss(cj_forward(net, cj_index_select(x, 0, rows)), cj_index_select(y, 0, rows))));
                cj_scope_close(s);
            }
            if (epoch < EPOCHS / 2) continue;
            assert_true(cj_average_update(a));
            double *w = values_of(cj_params_at(p, 2));
            for (int i = 0; i < 4; i++) sum[i] += w[i] / (EPOCHS - EPOCHS / 2);
            free(w);
        }
        last += test_loss(net, test_x, test_y) / RUNS;
        assert_true(cj_average_swap_in(a));
        for (int i = 0; i < 4; i++) assert_near(value_at(cj_params_at(p, 2), i), sum[i], 1e-5); /* the mean of the saved ones */
        assert_true(cj_batch_norm_recalibrate(net, &x, 1));
        cj_scope s = cj_scope_open(c); /* the running statistics are now those of all examples */
        cj_module_train(net, false);
        cj_tensor *says = cj_forward(net, x), *mean = cj_mean(x, .axes = CJ_AXIS(0));
        cj_module_train(net, true);
        cj_tensor *spread = cj_mul_scalar(cj_mean(cj_square(cj_sub(x, mean)), .axes = CJ_AXIS(0)), N / (N - 1.0));
        cj_tensor *h = cj_mul(cj_sub(x, mean), cj_rsqrt(cj_add_scalar(spread, 1e-5)));
        h = cj_add(cj_mul(h, cj_params_at(p, 0)), cj_params_at(p, 1));
        h = cj_add(cj_matmul(h, cj_t(cj_params_at(p, 2))), cj_params_at(p, 3));
        assert_near(distance(cj_detach(says), cj_detach(h)), 0, 1e-4);
        cj_scope_close(s);
        averaged += test_loss(net, test_x, test_y) / RUNS;
    }
    print_message("test loss: last %.4f, averaged %.4f\n", last, averaged);
    assert_true(averaged <= last);
}

/* ---- constraints ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *nearness(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(x[0], (cj_tensor *)user))), 0.5);
}
/* opt.projected: the projection brings points no further apart; rows of a matrix each in their ball */
static void opt_projected_nonexpansive(void **state)
{
    (void)state;
    for (int trial = 0; trial < 30; trial++) {
        cj_tensor *y[2], *w[2];
        for (int k = 0; k < 2; k++) { /* one step of rate 1 towards y projects y */
            y[k] = cj_keep(cj_mul_scalar(cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64), 1 + k)), w[k] = constant(0, 4);
            assert_true(cj_proximal(c, nearness, y[k], &w[k], 1, NULL, .prox = CJ_PROX_BALL, .radius = 1.5, .step = 1, .iterations = 1));
            double norm = sqrt(cj_item(cj_sum(cj_square(y[k])))), kept = fmin(1, 1.5 / norm);
            assert_near(distance(w[k], cj_mul_scalar(y[k], kept)), 0, 1e-14);
        }
        assert_true(cj_item(cj_sum(cj_square(cj_sub(w[0], w[1])))) <= cj_item(cj_sum(cj_square(cj_sub(y[0], y[1])))) + 1e-15);
    }
    cj_tensor *m = cj_keep(F64(c, CJ_SHAPE(3, 2), 3, 4, 0.3, 0.4, -6, 8)); /* max-norm: per unit */
    cj_max_norm_(m, 1);
    static const double expected[6] = { 0.6, 0.8, 0.3, 0.4, -0.6, 0.8 };
    for (int i = 0; i < 6; i++) assert_near(value_at(m, i), expected[i], 1e-7);
}

/* opt.proximal: the subgradient has no exact zeros; steps beyond 2/L diverge */
static cj_tensor *curved(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    cj_tensor *h = F64(k, CJ_SHAPE(3), 1, 4, 2), *b = F64(k, CJ_SHAPE(3), 0.3, 2, -0.1);
    return cj_sub(cj_mul_scalar(cj_sum(cj_mul(h, cj_square(x[0]))), 0.5), cj_sum(cj_mul(b, x[0])));
}
static void opt_proximal_zeros(void **state)
{
    (void)state;
    cj_tensor *w = constant(1, 3);
    assert_true(cj_proximal(c, curved, NULL, &w, 1, NULL, .weight = 0.5, .step = 0.25));
    static const double expected[3] = { 0, 0.375, 0 }; /* soft(b, 0.5) / h */
    for (int i = 0; i < 3; i++) assert_near(value_at(w, i), expected[i], 1e-9);
    assert_true(value_at(w, 0) == 0 && value_at(w, 2) == 0);
    static const double h[3] = { 1, 4, 2 }, b[3] = { 0.3, 2, -0.1 };
    double v[3] = { 1, 1, 1 };
    for (int t = 0; t < 2000; t++)
        for (int i = 0; i < 3; i++) v[i] -= 0.01 * (h[i] * v[i] - b[i] + 0.5 * ((v[i] > 0) - (v[i] < 0)));
    assert_true(v[0] != 0 && v[2] != 0 && fabs(v[0]) < 0.02);
    w = constant(10, 3);
    assert_true(cj_proximal(c, curved, NULL, &w, 1, NULL, .weight = 0.5, .step = 0.55, .iterations = 60));
    assert_true(fabs(value_at(w, 1)) > 1000); /* 0.55 > 2/L = 0.5 */
}

/* ---- Langevin, annealing, local entropy --------------------------------------------------------------------------------------------------------------------- */

static double tilted_at(double w) { return (w * w - 1) * (w * w - 1) + 0.1 * w; }
/* sum of (w² - 1)² + w/10 over many independent w: the deeper minimum is on the left */
static cj_tensor *tilted(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    return cj_sum(cj_add(cj_square(cj_add_scalar(cj_square(x[0]), -1)), cj_mul_scalar(x[0], 0.1)));
}
static double share_left(cj_tensor *w) { return cj_item(cj_mean(cj_cast(cj_lt_scalar(w, 0), CJ_F64))); }
typedef struct occupation {
    double left, all;
    int64_t from;
} occupation;
static void count_left(void *seen, int64_t t, const double *x, int64_t size)
{
    occupation *o = seen;
    for (int64_t i = 0; i < size && t >= o->from; i++) o->left += x[i] < 0, o->all++;
}
/* opt.annealed_sgd: global minimisation by annealing SGD/Langevin */
static void opt_annealed_sgd(void **state)
{
    (void)state;
    static const double beta[4] = { 1, 5, 10, 20 }, expected[4] = { 0.541, 0.721, 0.876, 0.981 };
    for (int k = 0; k < 4; k++) { /* what e^(-beta l) gives to the left side */
        double left = 0, right = 0;
        for (int i = 0; i < 60000; i++) {
            double w = (i + 0.5) * 1e-4; /* up to 6 */
            left += exp(-beta[k] * tilted_at(-w)), right += exp(-beta[k] * tilted_at(w));
        }
        double share = left / (left + right);
        assert_near(share, expected[k], 0.0006);
        if (k > 1) continue;
        occupation seen = { .from = 5000 }; /* and the dynamics do; at lower temperatures they would take too long to cross */
        cj_tensor *w =
            cj_keep(cj_cast(cj_sub(cj_mul_scalar(cj_arange(c, 0, 200, 1, CJ_F64), 0.01), cj_ones(c, CJ_SHAPE(200), CJ_F64)), CJ_F64));
        assert_true(cj_langevin(c, tilted, NULL, &w, 1, NULL, .step = 0.02, .temperature = 1 / beta[k], .iterations = 25000,
                                .visit = count_left, .seen = &seen));
        assert_near(seen.left / seen.all, share, 0.03);
    }
    cj_tensor *w = constant(1, 200), *still = constant(1, 200); /* 200 walkers from the wrong minimum */
    cj_rate cooling = cj_rate_exponential(0.03, 0.9999);        /* temperature eta/(2b): from 0.3 down to 0.005 */
    assert_true(cj_langevin(c, tilted, NULL, &w, 1, NULL, .batch = 0.05, .rate = &cooling, .iterations = 40000));
    assert_true(cj_langevin(c, tilted, NULL, &still, 1, NULL, .temperature = CJ_ZERO, .iterations = 3000));
    assert_near(share_left(still), 0, 0); /* gradient descent never crosses */
    assert_true(share_left(w) > 0.6);
    assert_refused(CJ_EVALUE, "langevin: temperature -1", cj_langevin(c, tilted, NULL, &w, 1, NULL, .temperature = -1));
    cj_rate bad = cj_rate_constant(-1);
    assert_refused(CJ_EVALUE, "langevin: the schedule gives the rate nan at step 0",
                   cj_langevin(c, tilted, NULL, &w, 1, NULL, .rate = &bad));
}

static cj_tensor *bowl(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(x[0])), 0.5 * *(double *)user);
}
/* a narrow minimum at -1 and a wide one at 1, both of depth 1 */
static cj_tensor *two_wells(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    cj_tensor *narrow = cj_exp(cj_mul_scalar(cj_square(cj_add_scalar(x[0], 1)), -0.5 / 0.01));
    cj_tensor *wide = cj_exp(cj_mul_scalar(cj_square(cj_add_scalar(x[0], -1)), -0.5 / 0.36));
    return cj_neg(cj_sum(cj_add(narrow, wide)));
}
/* opt.entropy_sgd: Entropy-SGD */
static void opt_entropy_sgd(void **state)
{
    (void)state;
    double lambda = 2, gamma = 0.5; /* the gradient of minus the local entropy of lambda w²/2 is lambda gamma / (lambda + gamma) w */
    cj_tensor *w = constant(3, 200);
    assert_true(cj_entropy_sgd(c, bowl, &lambda, &w, 1, NULL, .step = 1, .scope = gamma, .inner_step = 0.05, .inner = 2000,
                               .temperature = 1, .iterations = 1));
    assert_near((3 - cj_item(cj_mean(w))) / 3, lambda * gamma / (lambda + gamma), 0.02);
    cj_tensor *walkers = constant(-1, 60), *still = constant(-1, 60);
    assert_true(cj_entropy_sgd(c, two_wells, NULL, &walkers, 1, NULL, .step = 0.5, .scope = 0.5, .inner_step = 0.05, .inner = 60,
                               .temperature = 0.5, .iterations = 150));
    assert_true(cj_descent(c, two_wells, NULL, &still, 1, NULL, .search = CJ_SEARCH_FIXED, .step = 0.005, .iterations = 200));
    assert_near(cj_item(cj_mean(still)), -1, 0.05);
    assert_true(share_left(walkers) < 0.1); /* out of the narrow one */
    assert_refused(CJ_EVALUE, "entropy_sgd: scope -1 must be positive", cj_entropy_sgd(c, two_wells, NULL, &w, 1, NULL, .scope = -1));
}

/* opt.batch_scaling: twice the batch allows twice the rate, while both are small */
static double stationary(double eta, double batch)
{
    double one = 1;
    cj_tensor *w = constant(0, 4000); /* w - eta w - eta / sqrt(b) xi: variance eta / (b (2 - eta)) */
    assert_true(cj_langevin(c, bowl, &one, &w, 1, NULL, .step = eta, .batch = batch, .iterations = (int64_t)(5 / eta) + 20));
    double v = cj_item(cj_mean(cj_square(w)));
    assert_near(v / (eta / (batch * (2 - eta))), 1, 0.1);
    return v;
}
static void opt_batch_scaling(void **state)
{
    (void)state;
    assert_near(stationary(0.04, 2) / stationary(0.02, 1), 1, 0.1);
    assert_true(stationary(1.9, 2) / stationary(0.95, 1) > 5); /* near 2/L the rule fails */
    assert_near(cj_batch_scaled_lr(0.1, 32, 256, 0), 0.8, 1e-15);
    assert_near(cj_batch_scaled_lr(0.1, 32, 256, 0.5), 0.5, 0);
    assert_true(isnan(cj_batch_scaled_lr(0.1, 0, 256, 0)));
}

/* ---- without derivatives; games --------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *stretched(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    return cj_mul_scalar(cj_sum(cj_mul(cj_square(x[0]), F64(k, CJ_SHAPE(5), 1, 2, 3, 4, 5))), 0.5);
}
static cj_tensor *rosenbrock(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    cj_tensor *a = cj_select(x[0], 0, 0), *b = cj_select(x[0], 0, 1);
    return cj_add(cj_mul_scalar(cj_square(cj_sub(b, cj_square(a))), 100), cj_square(cj_add_scalar(cj_neg(a), 1)));
}
/* opt.derivative_free: derivative-free descent */
static void opt_derivative_free(void **state)
{
    (void)state;
    cj_solution plain, found;
    cj_tensor *w = constant(1, 5);
    assert_true(
        cj_descent(c, stretched, NULL, &w, 1, &plain, .search = CJ_SEARCH_FIXED, .step = 1.0 / 3, .iterations = 100, .tolerance = 1e-4));
    assert_true(plain.value < 1e-6);
    for (int method = CJ_FREE_NELDER_MEAD; method <= CJ_FREE_DIFFERENCES; method++) {
        w = constant(1, 5);
        assert_true(cj_derivative_free(c, stretched, NULL, &w, 1, &found, .method = method, .tolerance = 1e-7));
        assert_true(found.value < 1e-6);
        assert_true(found.evaluations > 3 * plain.evaluations);
    }
    w = vector((double[]){ -1.2, 1 }, 2);
    assert_true(cj_derivative_free(c, rosenbrock, NULL, &w, 1, &found));
    assert_near(value_at(w, 0), 1, 1e-5);
    assert_near(value_at(w, 1), 1, 1e-5);
    assert_refused(CJ_EVALUE, "derivative_free: method 9 is none", cj_derivative_free(c, rosenbrock, NULL, &w, 1, NULL, .method = 9));
    assert_refused(CJ_EVALUE, "derivative_free: step -1", cj_derivative_free(c, rosenbrock, NULL, &w, 1, NULL, .step = -1));
}

static cj_tensor *product(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)k, (void)user, (void)n;
    return cj_sum(cj_mul(x[0], x[1]));
}
static double radius_after(int method, int steps)
{
    cj_tensor *x = constant(sqrt(0.5), 1), *y = constant(sqrt(0.5), 1); /* f = x y, from radius 1 */
    assert_true(cj_min_max(c, product, NULL, &x, 1, &y, 1, NULL, .method = method, .step = 0.1, .iterations = steps));
    return hypot(value_at(x, 0), value_at(y, 0));
}
/* opt.gda_consensus: gradient descent-ascent and consensus optimisation */
static void opt_gda_consensus(void **state)
{
    (void)state;
    assert_near(radius_after(CJ_GAME_SIMULTANEOUS, 100), 1.6446, 5e-5); /* (1 + eta²)^50 */
    for (int steps = 1; steps <= 200; steps += 7) {                     /* x² + y² - eta x y does not change: bounded */
        double r = radius_after(CJ_GAME_ALTERNATING, steps);
        assert_true(r > 0.94 && r < 1.06);
    }
    assert_near(radius_after(CJ_GAME_ALTERNATING, 100), 0.98, 0.05);
    assert_true(radius_after(CJ_GAME_CONSENSUS, 300) < 1e-10);
    assert_near(radius_after(CJ_GAME_CONSENSUS, 1), sqrt(0.81 + 0.01), 1e-12);                /* |1 - eta gamma ± i eta| */
    assert_near(radius_after(CJ_GAME_EXTRAGRADIENT, 100), pow(1 - 0.01 + 0.0001, 50), 1e-12); /* |1 - eta² ± i eta| */
    cj_tensor *x = constant(1, 1);
    assert_refused(CJ_EVALUE, "min_max: 1 and 0 tensors", cj_min_max(c, product, NULL, &x, 1, NULL, 0, NULL));
    assert_refused(CJ_EVALUE, "min_max: step inf", cj_min_max(c, product, NULL, &x, 1, &x, 1, NULL, .step = INFINITY));
}

/* ---- side by side ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* opt.adamax: the loss of a small network after 300 steps beside Adam's, mean of 5 starts */
static void opt_adamax_network(void **state)
{
    (void)state;
    double loss[2] = { 0 };
    cj_tensor *x = cj_keep(cj_reshape(cj_mul_scalar(cj_arange(c, -32, 32, 1, CJ_F32), 0.1), CJ_SHAPE(64, 1))), *y = cj_keep(cj_sin(x));
    for (int run = 0; run < 10; run++) {
        cj_module *net = cj_sequential(c, cj_linear(c, 1, 16), cj_tanh_layer(c), cj_linear(c, 16, 1));
        cj_optim *o = run % 2 ? cj_adamax(cj_module_params(net), .lr = 0.06) : cj_adam(cj_module_params(net), .lr = 0.02);
        double last = NAN;
        for (int t = 0; t < 300; t++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *l = cj_mse_loss(cj_forward(net, x), y);
            last = cj_item(l);
            assert_true(cj_minimise(o, l));
            cj_scope_close(s);
        }
        loss[run % 2] += last / 5;
    }
    assert_true(loss[0] < 0.02 && loss[1] < 0.02);
    assert_true(loss[1] < 4 * loss[0] && loss[0] < 4 * loss[1]);
}

/* opt.comparison: an elongated valley 1/2 (a x² + b y²) */
static const double valley[2] = { 0.02, 1 };
static cj_tensor *in_valley(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    (void)n;
    return cj_mul_scalar(cj_sum(cj_mul(cj_square(x[0]), (cj_from_f64)(k, user, CJ_SHAPE(2)))), 0.5);
}
/* Steps until f < 1e-6; changes of sign of the steep coordinate on the way. */
static int run_valley(cj_optim *o, const double *h, int *turns)
{
    double before = 1;
    *turns = 0;
    for (int t = 0; t < 3000; t++) {
        double x = value_at(w_of(o), 0), y = value_at(w_of(o), 1);
        *turns += y * before < 0;
        before = y;
        if (0.5 * (h[0] * x * x + h[1] * y * y) < 1e-6) return t;
        step(o, in_valley, (void *)h);
    }
    return 3000;
}
static void opt_comparison_valley(void **state)
{
    (void)state;
    int turns[3], steps[3];
    steps[0] = run_valley(cj_sgd(holder(1, 2), .lr = 1.9), valley, &turns[0]);
    steps[1] = run_valley(cj_sgd(holder(1, 2), .lr = 0.5, .momentum = 0.8), valley, &turns[1]);
    steps[2] = run_valley(cj_sgd(holder(1, 2), .lr = 0.5, .momentum = 0.8, .nesterov = true), valley, &turns[2]);
    assert_true(3 * steps[1] < 2 * steps[0] && 3 * steps[2] < 2 * steps[0]);
    assert_true(turns[1] < turns[0] && turns[2] < turns[0]);
    static const double scaled[2] = { 0.02 * 1e4, 1e4 * 1e4 }; /* the same valley in other units: x = 100 x', y = 1e4 y'… */
    cj_optim *a = cj_adam(holder(1, 2), .lr = 0.05, .eps = CJ_ZERO), *b = cj_adam(holder(1, 2), .lr = 0.05, .eps = CJ_ZERO);
    for (int t = 0; t < 100; t++) { /* … leaves Adam's steps as they are */
        step(a, in_valley, (void *)valley);
        step(b, in_valley, (void *)scaled);
        assert_near(distance(w_of(a), w_of(b)), 0, 1e-9);
    }
}

/* opt.comparison: a Gabor model sin(z) e^(-z²/32), z = p0 + 0.06 p1 x, on 28 points; from a bad start gradient descent sticks, batches of one escape now and then */
enum { POINTS = 28 };
static double gabor_x[POINTS], gabor_y[POINTS];
static cj_tensor *gabor_loss(cj_ctx *k, cj_tensor *p, int64_t from, int64_t to)
{
    cj_tensor *x = (cj_from_f64)(k, gabor_x + from, CJ_SHAPE(to - from)), *y = (cj_from_f64)(k, gabor_y + from, CJ_SHAPE(to - from));
    cj_tensor *z = cj_add(cj_select(p, 0, 0), cj_mul(cj_mul_scalar(x, 0.06), cj_select(p, 0, 1)));
    cj_tensor *f = cj_mul(cj_sin(z), cj_exp(cj_mul_scalar(cj_square(z), -1.0 / 32)));
    return cj_mean(cj_square(cj_sub(f, y)));
}
static cj_tensor *gabor_all(cj_ctx *k, void *user, cj_tensor *const *x, int n)
{
    return (void)user, (void)n, gabor_loss(k, x[0], 0, POINTS);
}
static cj_tensor *gabor_one(cj_ctx *k, void *user, cj_tensor *const *x, int n, int64_t i)
{
    return (void)user, (void)n, gabor_loss(k, x[0], i, i + 1);
}
static void opt_comparison_escape(void **state)
{
    (void)state;
    for (int i = 0; i < POINTS; i++) {
        gabor_x[i] = -15 + 30.0 * i / (POINTS - 1);
        double z = 0 + 0.06 * 16.6 * gabor_x[i];
        gabor_y[i] = sin(z) * exp(-z * z / 32) + 0.14 * sin(37.0 * i);
    }
    cj_solution found;
    double start[2] = { 4.6, 13.4 };
    cj_tensor *w = vector(start, 2);
    assert_true(cj_descent(c, gabor_all, NULL, &w, 1, &found, .iterations = 3000, .tolerance = 1e-5));
    assert_true(found.converged && found.value > 0.05); /* a local minimum: the truth has 0.01, the variance of the noise */
    int escaped = 0;
    for (int run = 0; run < 10; run++) {
        w = vector(start, 2);
        assert_true(cj_sampled_descent(c, gabor_one, NULL, POINTS, &w, 1, .step = 1, .iterations = 2800, .shuffled = true));
        assert_true(cj_descent(c, gabor_all, NULL, &w, 1, &found, .iterations = 300)); /* what basin is it in? */
        escaped += found.value < 0.012;
    }
    assert_true(escaped >= 2);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(opt_clip_norm_cliff),
        ROW(opt_weight_decay_sgd),
        ROW(opt_weight_decay_sgd_groups_of_all_rules),
        ROW(opt_learning_rate_refused),
        ROW(opt_ema_weights),
        ROW(opt_swa),
        ROW(opt_projected_nonexpansive),
        ROW(opt_proximal_zeros),
        ROW(opt_annealed_sgd),
        ROW(opt_entropy_sgd),
        ROW(opt_batch_scaling),
        ROW(opt_derivative_free),
        ROW(opt_gda_consensus),
        ROW(opt_adamax_network),
        ROW(opt_comparison_valley),
        ROW(opt_comparison_escape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
