/* Catalogue rows of generators and discriminators that are trained, and of tests whether two samples have one law. */
#include "reader.h"

TEST_CONTEXT(.threads = 1, .seed = 131);

static double mean_of(cj_tensor *x) { return cj_item(cj_mean(x)); }
static double deviation(cj_tensor *x) { return sqrt(cj_item(cj_var(x))); }

/* ---- a game ------------------------------------------------------------------------------------------------------------------------------------------------------ */

typedef enum { D_FIRST, G_FIRST, TOGETHER } order;
typedef struct game {
    cj_module *G, *D;
    cj_optim *of_g, *of_d;
    int64_t steps_g, steps_d;
} game;

static game game_new(double lr)
{
    game g = { .G = cj_linear(c, 1, 1), .D = cj_sequential(c, cj_linear(c, 1, 16), cj_tanh_layer(c), cj_linear(c, 16, 1)) };
    g.of_g = cj_adam(cj_module_params(g.G), .lr = lr, .beta1 = 0.5);
    g.of_d = cj_adam(cj_module_params(g.D), .lr = lr, .beta1 = 0.5);
    return g;
}

enum { BATCH = 128 };
static const double true_mean = 3, true_deviation = 0.7;
static cj_tensor *data(int64_t n) { return cj_normal(c, true_mean, true_deviation, CJ_SHAPE(n, 1)); }
static cj_tensor *noise(int64_t n) { return cj_randn(c, CJ_SHAPE(n, 1)); }

static cj_tensor *loss_d(game *g, cj_tensor *fake)
{
    cj_tensor *real = cj_forward(g->D, data(BATCH));
    return cj_neg(cj_add(cj_mean(cj_log_sigmoid(real)), cj_mean(cj_log_sigmoid(cj_neg(cj_forward(g->D, cj_detach(fake)))))));
}
static cj_tensor *loss_g(game *g) { return cj_neg(cj_mean(cj_log_sigmoid(cj_forward(g->D, cj_forward(g->G, noise(BATCH)))))); }

static void step_d(game *g)
{
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(g->of_d, loss_d(g, cj_forward(g->G, noise(BATCH)))));
    g->steps_d++;
    cj_scope_close(s);
}
static void step_g(game *g)
{
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(g->of_g, loss_g(g)));
    g->steps_g++;
    cj_scope_close(s);
}

/* k steps of D and one of G: the second player sees what the first has become; or both from the same point. */
static void round_of(game *g, order how, int k)
{
    if (how == TOGETHER) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *d = loss_d(g, cj_forward(g->G, noise(BATCH))), *of_g = loss_g(g); /* both losses before any step */
        assert_true(cj_minimise(g->of_g, of_g) && cj_minimise(g->of_d, d));
        g->steps_g++, g->steps_d++;
        cj_scope_close(s);
        return;
    }
    if (how == G_FIRST) step_g(g);
    for (int i = 0; i < k; i++) step_d(g);
    if (how == D_FIRST) step_g(g);
}

static void copy_of(cj_module *m, double v[64])
{
    memset(v, 0, 64 * sizeof *v);
    for (int i = 0, n = 0; i < cj_params_count(cj_module_params(m)); i++) {
        cj_tensor *t = cj_params_at(cj_module_params(m), i);
        assert_true(cj_to_f64(t, v + n, cj_numel(t)));
        n += (int)cj_numel(t);
    }
}

/* gan.model: gradients reach G through D; each player's step leaves the other alone */
static void gan_model(void **state)
{
    (void)state;
    game g = game_new(0.01);
    double before[2][64] = { 0 }, after[64];
    cj_scope s = cj_scope_open(c);
    cj_tensor *p = cj_sigmoid(cj_forward(g.D, cj_mul_scalar(noise(500), 3)));
    assert_true(cj_item(cj_min(p)) > 0 && cj_item(cj_max(p)) < 1);
    /* differences of the generator's two numbers, with the noise held */
    cj_tensor *z = noise(64), *w[2] = { cj_params_at(cj_module_params(g.G), 0), cj_params_at(cj_module_params(g.G), 1) }, *grad[2];
#define GAME_LOSS cj_neg(cj_mean(cj_log_sigmoid(cj_forward(g.D, cj_forward(g.G, z)))))
    assert_true(cj_grad(GAME_LOSS, w, 2, grad));
    for (int i = 0; i < 2; i++) {
        double value[2];
        for (int side = 0; side < 2; side++) {
            bool was = cj_no_grad(c);
            cj_add_(w[i], cj_ones_like(w[i]), side ? -2e-2 : 1e-2);
            value[side] = cj_item(GAME_LOSS);
            cj_grad_mode(c, was);
        }
        bool was = cj_no_grad(c);
        cj_add_(w[i], cj_ones_like(w[i]), 1e-2);
        cj_grad_mode(c, was);
        assert_near((value[0] - value[1]) / 2e-2, cj_item(grad[i]), 0.05 * fabs(cj_item(grad[i])) + 2e-5);
        assert_true(fabs(cj_item(grad[i])) > 1e-4);
    }
    cj_scope_close(s);
    copy_of(g.G, before[0]), copy_of(g.D, before[1]);
    step_d(&g);
    copy_of(g.G, after);
    assert_memory_equal(before[0], after, sizeof after);
    copy_of(g.D, before[1]);
    step_g(&g);
    copy_of(g.D, after);
    assert_memory_equal(before[1], after, sizeof after);
    copy_of(g.G, after);
    assert_true(memcmp(before[0], after, sizeof after) != 0);
}

/* gan.training */
static void gan_training(void **state)
{
    (void)state;
    static const char *const names[] = { "D first", "G first", "together" };
    for (int how = D_FIRST; how <= TOGETHER; how++) {
        cj_seed(c, 132);
        const int k = how == TOGETHER ? 1 : 2, rounds = 1500;
        game g = game_new(0.01);
        for (int i = 0; i < rounds; i++) {
            if (i == rounds / 2) cj_optim_set_lr(g.of_g, 0.002), cj_optim_set_lr(g.of_d, 0.002);
            if (i == 3 * rounds / 4) cj_optim_set_lr(g.of_g, 3e-4), cj_optim_set_lr(g.of_d, 1e-3);
            round_of(&g, (order)how, k);
        }
        assert_true(g.steps_d == (int64_t)k * rounds && g.steps_g == rounds);
        cj_scope s = cj_scope_open(c);
        cj_tensor *made = cj_forward(g.G, noise(20000));
        cj_tensor *p = cj_sigmoid(cj_forward(
            g.D, cj_reshape(cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, 9, 1, CJ_F32), 0.25 * true_deviation), true_mean - true_deviation),
                            CJ_SHAPE(9, 1))));
        print_message("%s: mean %.3f (%.1f), deviation %.3f (%.1f), D from %.3f to %.3f within a deviation of the mean\n", names[how],
                      mean_of(made), true_mean, deviation(made), true_deviation, cj_item(cj_min(p)), cj_item(cj_max(p)));
        assert_near(mean_of(made), true_mean, 0.05 * true_mean);
        assert_near(deviation(made), true_deviation, 0.05 * true_deviation);
        assert_true(cj_item(cj_min(p)) > 0.45 && cj_item(cj_max(p)) < 0.55);
        cj_scope_close(s);
    }
}

/* ---- one law or two? ------------------------------------------------------------------------------------------------------------------------------------------------ */

static double phi(double x) { return 0.5 * erfc(-x / sqrt(2)); }

/* Share of pairs of samples of n with means a distance apart whose |difference of means| is above the threshold of level 5 %. */
static double rejected(int64_t n, double apart)
{
    enum { TIMES = 4000 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_mean(cj_randn(c, CJ_SHAPE(TIMES, n)), .axes = CJ_AXIS(1)),
              *y = cj_add_scalar(cj_mean(cj_randn(c, CJ_SHAPE(TIMES, n)), .axes = CJ_AXIS(1)), apart);
    double share = mean_of(cj_cast(cj_gt_scalar(cj_abs(cj_sub(x, y)), 1.959964 * sqrt(2.0 / (double)n)), CJ_F32));
    cj_scope_close(s);
    return share;
}

static double mean_gap(void *user, cj_tensor *x, cj_tensor *y) { return (void)user, fabs(mean_of(x) - mean_of(y)); }

/* gan.two-sample */
static void gan_two_sample(void **state)
{
    (void)state;
    assert_near(rejected(50, 0), 0.05, 0.01);
    double last = 0;
    for (int i = 1; i <= 4; i++) {
        const double apart = 0.15 * i, z = 1.959964, shift = apart / sqrt(2.0 / 50), power = 1 - phi(z - shift) + phi(-z - shift),
                     found = rejected(50, apart);
        print_message("means %.2f apart, 50 each: power %.3f (formula %.3f)\n", apart, found, power);
        assert_near(found, power, 0.03);
        assert_true(found > last);
        last = found;
    }
    assert_true(rejected(100, 0.3) > rejected(50, 0.3) && rejected(50, 0.3) > rejected(20, 0.3));
    /* the same by dealing out the rows again */
    int level = 0, power = 0;
    for (int i = 0; i < 100; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(30)), *y = cj_randn(c, CJ_SHAPE(30));
        level += cj_permutation_test(x, y, mean_gap, NULL, 99) <= 0.05;
        power += cj_permutation_test(x, cj_add_scalar(y, 1), mean_gap, NULL, 99) <= 0.05;
        cj_scope_close(s);
    }
    print_message("by permutation: %d of 100 rejected where there is one law, %d where means are 1 apart\n", level, power);
    assert_true(level <= 12 && power >= 90);
    cj_tensor *one = cj_randn(c, CJ_SHAPE(3, 2)), *two = cj_randn(c, CJ_SHAPE(3, 3));
    assert_refused(CJ_ESHAPE, "permutation_test: samples [3, 2] and [3, 3]", cj_permutation_test(one, two, mean_gap, NULL, 9));
    assert_refused(CJ_EVALUE, "permutation_test: 0 deals", cj_permutation_test(one, one, mean_gap, NULL, 0));
}

static double discrepancy(void *user, cj_tensor *x, cj_tensor *y) { return (void)user, cj_item(cj_mmd(x, y)); }

/* E k(x, y) for x ~ N(m, a²), y ~ N(0, b²) in one dimension */
static double gaussian_kernel(double m, double a, double b, double s)
{
    double v = s * s + a * a + b * b;
    return s / sqrt(v) * exp(-m * m / (2 * v));
}

/* gan.mmd */
static void gan_mmd(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(6, 2), .dtype = CJ_F64), *y = cj_randn(c, CJ_SHAPE(5, 2), .dtype = CJ_F64);
    double *a = values_of(x), *b = values_of(y), sum[3] = { 0 }; /* by loops */
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            if (i != j) sum[0] += exp(-(pow(a[2 * i] - a[2 * j], 2) + pow(a[2 * i + 1] - a[2 * j + 1], 2)) / 2) / 30;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            if (i != j) sum[1] += exp(-(pow(b[2 * i] - b[2 * j], 2) + pow(b[2 * i + 1] - b[2 * j + 1], 2)) / 2) / 20;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++) sum[2] += exp(-(pow(a[2 * i] - b[2 * j], 2) + pow(a[2 * i + 1] - b[2 * j + 1], 2)) / 2) / 30;
    free(a), free(b);
    assert_near(cj_item(cj_mmd(x, y, .bandwidth = 1)), sum[0] + sum[1] - 2 * sum[2], 1e-13);
    cj_tensor *gap = cj_sub(cj_mean(x, .axes = CJ_AXIS(0)), cj_mean(y, .axes = CJ_AXIS(0)));
    assert_near(cj_item(cj_mmd(x, y, .linear = true, .biased = true)), cj_item(cj_sum(cj_square(gap))),
                1e-13); /* the squared difference of the means */
    /* two Gaussians against the closed form */
    double exact = gaussian_kernel(0, 0.5, 0.5, 0.8) + gaussian_kernel(0, 1, 1, 0.8) - 2 * gaussian_kernel(1, 0.5, 1, 0.8), found = 0,
           none = 0;
    for (int i = 0; i < 8; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *p = cj_normal(c, 1, 0.5, CJ_SHAPE(500, 1), .dtype = CJ_F64), *q = cj_normal(c, 0, 1, CJ_SHAPE(500, 1), .dtype = CJ_F64);
        found += cj_item(cj_mmd(p, q, .bandwidth = 0.8)) / 8,
            none += cj_item(cj_mmd(q, cj_normal(c, 0, 1, CJ_SHAPE(500, 1), .dtype = CJ_F64))) / 8;
        cj_scope_close(inner);
    }
    print_message("two Gaussians: %.4f (closed form %.4f)\n", found, exact);
    assert_near(found, exact, 0.02);
    assert_near(none, 0, 0.003);
    int level = 0, power = 0;
    for (int i = 0; i < 60; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *u = cj_randn(c, CJ_SHAPE(25, 2)), *v = cj_randn(c, CJ_SHAPE(25, 2));
        level += cj_permutation_test(u, v, discrepancy, NULL, 39) <= 0.05;
        power += cj_permutation_test(u, cj_mul_scalar(v, 3), discrepancy, NULL, 39) <= 0.05; /* means are equal */
        cj_scope_close(inner);
    }
    print_message("by permutation: %d of 60 rejected where there is one law, %d where deviations are 1 and 3\n", level, power);
    assert_true(level <= 9 && power >= 50);
    assert_poisoned(CJ_EVALUE, "mmd: samples of 1 and 5 rows; at least 2 expected", cj_mmd(cj_slice(x, 0, 0, 1, 1), y));
    assert_poisoned(CJ_EVALUE, "mmd: bandwidth -1", cj_mmd(x, y, .bandwidth = -1));
    cj_scope_close(s);
}

/* Accuracy, on rows it has not seen, of a network trained to tell two samples [n, 1] apart; held: how many those are. */
typedef struct teller {
    cj_module *net;
    cj_tensor *x, *y;
} teller;
static cj_tensor *teller_loss(void *user, int step)
{
    (void)step;
    teller *t = user;
    return cj_bce_with_logits(cj_forward(t->net, t->x), t->y);
}
static double told_apart(cj_tensor *p, cj_tensor *q, int64_t *held)
{
    cj_scope s = cj_scope_open(c);
    int64_t half = cj_size(p, 0) / 2;
    *held = 2 * (cj_size(p, 0) - half);
    teller t = { .net = cj_sequential(c, cj_linear(c, 1, 8), cj_tanh_layer(c), cj_linear(c, 8, 1)) };
    t.x = cj_cat((cj_tensor *[]){ cj_slice(p, 0, 0, half, 1), cj_slice(q, 0, 0, half, 1) }, 2, 0);
    t.y = cj_cat((cj_tensor *[]){ cj_ones(c, CJ_SHAPE(half, 1), CJ_F32), cj_zeros(c, CJ_SHAPE(half, 1), CJ_F32) }, 2, 0);
    train_steps(c, cj_adam(cj_module_params(t.net), .lr = 0.05), 60, teller_loss, &t);
    double right = (mean_of(cj_cast(cj_gt_scalar(cj_forward(t.net, cj_slice(p, 0, half, CJ_END, 1)), 0), CJ_F32)) +
                    mean_of(cj_cast(cj_le_scalar(cj_forward(t.net, cj_slice(q, 0, half, CJ_END, 1)), 0), CJ_F32))) /
                   2;
    cj_scope_close(s);
    return right;
}

/* gan.c2st */
static void gan_c2st(void **state)
{
    (void)state;
    enum { TIMES = 60, N = 100 };
    int reject[3] = { 0 }, mean_test = 0;
    double mean_accuracy = 0, spread = 0;
    for (int i = 0; i < TIMES; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *p = cj_randn(c, CJ_SHAPE(N, 1)),
                  *q[] = { cj_randn(c, CJ_SHAPE(N, 1)), cj_normal(c, 1.5, 1, CJ_SHAPE(N, 1)), cj_normal(c, 0, 4, CJ_SHAPE(N, 1)) };
        for (int k = 0; k < 3; k++) {
            int64_t held;
            double right = told_apart(p, q[k], &held),
                   threshold = 0.5 + 1.644854 * sqrt(0.25 / (double)held); /* under one law N(1/2, 1/(4 n)) */
            reject[k] += right > threshold;
            if (k == 0) mean_accuracy += right / TIMES, spread += (right - 0.5) * (right - 0.5) * 4 * (double)held / TIMES;
        }
        mean_test += fabs(mean_of(p) - mean_of(q[2])) > 1.959964 * sqrt((1.0 + 16) / N);
        cj_scope_close(s);
    }
    print_message("rejected of %d: one law %d (accuracy %.3f), means 1.5 apart %d, deviations 1 and 4 %d (the test of means: %d)\n", TIMES,
                  reject[0], mean_accuracy, reject[1], reject[2], mean_test);
    assert_true(reject[0] <= 9 && reject[1] >= TIMES - 2 && reject[2] >= TIMES - 4 && mean_test <= 9);
    assert_near(mean_accuracy, 0.5, 0.02);
    assert_near(spread, 1, 0.6); /* the variance of 60 accuracies, in units of 1/(4 n) */
}

/* Median distance of rows of x to their nearest of the rows of the data. */
static double nearest(cj_tensor *x, cj_tensor *rows, cj_tensor **which)
{
    cj_tensor *d = cj_cdist(x, rows, 2);
    if (which) *which = cj_argmin(d, .axes = CJ_AXIS(1));
    return cj_item(cj_median(cj_min(d, .axes = CJ_AXIS(1)), 0).values);
}

/* gan.memorisation: samples that lie nearer to the training rows than new data does were copied */
static void gan_memorisation(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_tensor *copies = cj_add(cj_slice(d->train_x, 0, 0, 100, 1), cj_mul_scalar(cj_randn(c, CJ_SHAPE(100, 64)), 1e-4)), *which;
    cj_tensor *fresh = cj_slice(d->test_x, 0, 0, 250, 1),
              *honest = cj_slice(d->test_x, 0, 250, 500, 1); /* a perfect generator: more of the same law */
    double held_out = nearest(fresh, d->train_x, NULL), copier = nearest(copies, d->train_x, NULL) / held_out,
           good = nearest(honest, d->train_x, &which) / held_out;
    print_message("nearest training digit, over that of held-out digits: copier %.4f, generator %.3f\n", copier, good);
    assert_true(copier < 0.01);
    assert_near(good, 1, 0.1);
    /* a sheet of samples beside their neighbours */
    cj_tensor *pairs[] = { cj_slice(honest, 0, 0, 8, 1), cj_index_select(d->train_x, 0, cj_contiguous(cj_slice(which, 0, 0, 8, 1))) };
    double *sheet = values_of(cj_contiguous(cj_stack(pairs, 2, 1)));
    cj_plot *p = cj_plot_new(c, "samples and their nearest training digits");
    assert_true(cj_plot_images(p, sheet, 16, 1, 8, 8));
    cj_plot_free(p);
    free(sheet);
    cj_dataset_free(d);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gan_model), cmocka_unit_test(gan_training), cmocka_unit_test(gan_two_sample),
        cmocka_unit_test(gan_mmd),   cmocka_unit_test(gan_c2st),     cmocka_unit_test(gan_memorisation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
