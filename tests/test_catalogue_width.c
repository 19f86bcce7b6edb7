/* Catalogue rows on what width and depth buy: rates of approximation, radial and folded targets, networks that are trained to fit. */
/* ctest: slow */
#include "experiment.h"

TEST_CONTEXT(.threads = 1, .seed = 73);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static cj_tensor *row_sums(cj_tensor *x) { return cj_sum(x, .axes = CJ_AXIS(1)); }
static double mean_square(cj_tensor *x) { return cj_item(cj_mean(cj_square(x))); }
static double variance_of(cj_tensor *y) { return mean_square(cj_sub(y, cj_mean(y))); }
/* phi and a constant; outer weights by least squares, with a small ridge that keeps equal columns harmless */
static cj_tensor *with_ones(cj_tensor *phi) { return cj_cat(CJ_TENSORS(phi, cj_ones(c, CJ_SHAPE(cj_size(phi, 0), 1), CJ_F64)), 2, 1); }
static cj_tensor *least_squares(cj_tensor *phi, cj_tensor *y, double ridge)
{
    cj_tensor *gram = cj_add(cj_matmul(cj_t(phi), phi), cj_mul_scalar(cj_eye(c, cj_size(phi, 1), CJ_F64), ridge));
    return cj_solve(gram, cj_matmul(cj_t(phi), cj_unsqueeze(y, 1)));
}
static cj_tensor *predicted(cj_tensor *phi, cj_tensor *w) { return cj_squeeze(cj_matmul(phi, w), 1); }
/* n directions with radii uniform in [0, most] */
static cj_tensor *in_ball(int64_t rows, int64_t n, double most)
{
    cj_tensor *x = normal(CJ_SHAPE(rows, n)), *r = cj_uniform(c, 0, most, CJ_SHAPE(rows, 1), .dtype = CJ_F64);
    return cj_mul(x, cj_div(r, cj_unsqueeze(cj_sqrt(row_sums(cj_square(x))), 1)));
}

/* ---- Barron 1993 ------------------------------------------------------------------------------------------------------------------------------------------- */

/* Relaxed greedily: of many random sigmoid units the one that fits the residual best, then all outer weights anew. errors at m = 4, 8, 16, 32, 64. */
enum { SIZES = 5, MOST_UNITS = 64 };
static void greedy(cj_tensor *x, cj_tensor *y, double *error)
{
    enum { CANDIDATES = 300 };
    int64_t rows = cj_size(x, 0), n = cj_size(x, 1);
    cj_tensor *chosen = cj_keep(cj_ones(c, CJ_SHAPE(rows, 1), CJ_F64)), *residual = cj_keep(cj_sub(y, cj_mean(y)));
    for (int m = 1, k = 0; m <= MOST_UNITS; m++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *theta =
                      cj_mul(normal(CJ_SHAPE(n, CANDIDATES)), cj_mul_scalar(cj_exp(normal(CJ_SHAPE(1, CANDIDATES))), 3 / sqrt((double)n))),
                  *b = cj_mul_scalar(normal(CJ_SHAPE(CANDIDATES)), 2);
        cj_tensor *unit = cj_sigmoid(cj_add(cj_matmul(x, theta), b)), *centred = cj_sub(unit, cj_mean(unit, .axes = CJ_AXIS(0)));
        cj_tensor *gain =
            cj_div(cj_square(cj_matmul(residual, centred)), cj_add_scalar(cj_sum(cj_square(centred), .axes = CJ_AXIS(0)), 1e-9));
        int64_t best = (int64_t)cj_item(cj_argmax(gain));
        cj_tensor *more = cj_cat(CJ_TENSORS(chosen, cj_slice(unit, 1, best, best + 1, 1)), 2, 1);
        cj_tensor *left = cj_sub(y, predicted(more, least_squares(more, y, 1e-8)));
        if (m == 4 << k) error[k++] = mean_square(left);
        more = cj_keep(more), left = cj_keep(left);
        cj_release(chosen), cj_release(residual);
        chosen = more, residual = left;
        cj_scope_close(s);
    }
    cj_release(chosen), cj_release(residual);
}

/* the best function that is constant on each of k^n cells, k^n <= m, of [-1, 1]^n: share of the variance that is left */
static double on_a_grid(cj_tensor *x, cj_tensor *y, int64_t m)
{
    int64_t n = cj_size(x, 1), rows = cj_size(x, 0), k = (int64_t)floor(pow((double)m, 1.0 / (double)n) + 1e-9), cells = 1;
    for (int64_t i = 0; i < n; i++) cells *= k;
    double *at = values_of(x), *value = values_of(y), *sum = calloc((size_t)cells, sizeof *sum),
           *count = calloc((size_t)cells, sizeof *count), left = 0;
    int64_t *cell = calloc((size_t)rows, sizeof *cell);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t d = 0; d < n; d++)
            cell[i] = cell[i] * k + (int64_t)fmin(fmax(floor((at[i * n + d] + 1) / 2 * (double)k), 0), (double)k - 1);
        sum[cell[i]] += value[i], count[cell[i]]++;
    }
    for (int64_t i = 0; i < rows; i++) left += pow(value[i] - sum[cell[i]] / count[cell[i]], 2) / (double)rows;
    free(at), free(value), free(sum), free(count), free(cell);
    return left;
}

/* g = exp(-|x|²/2) has the spectrum of N(0, 1): C_g = E|w| = sqrt 2 Gamma((n+1)/2) / Gamma(n/2); mu is that of 600 points in the unit ball. */
static void approx_barron_and_uat_barron(void **state) /* approx.barron, uat.barron */
{
    (void)state;
    const double units[SIZES] = { 4, 8, 16, 32, 64 };
    double first_grid = 0, last_grid = 0;
    for (int n = 1; n <= 10; n += n < 4 ? 1 : 3) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = in_ball(600, n, 1), *y = cj_exp(cj_mul_scalar(row_sums(cj_square(x)), -0.5));
        double error[SIZES], moment = sqrt(2) * tgamma((n + 1) / 2.) / tgamma(n / 2.), grid = on_a_grid(x, y, MOST_UNITS) / variance_of(y);
        greedy(x, y, error);
        for (int i = 0; i < SIZES; i++) assert_true(error[i] <= pow(2 * moment, 2) / units[i]);
        double slope = log_slope(units, error, SIZES);
        print_message(
            "n = %2d: mean square %.2g with 4 units, %.2g with 64, slope %.2f; on a grid of 64 cells %.3f of the variance is left\n", n,
            error[0], error[SIZES - 1], slope, grid);
        assert_true(slope <= -1);
        if (n == 1) first_grid = grid;
        last_grid = grid;
        cj_scope_close(s);
    }
    assert_true(first_grid < 0.01 && last_grid > 0.9);
}

/* ---- radial targets ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *radial(cj_tensor *x) { return cj_cos(cj_mul_scalar(cj_sqrt(row_sums(cj_square(x))), 3 * M_PI)); }

/* One hidden layer of m ReLU units in random directions with random knots, best outer weights: share of the variance left on fresh points. */
static double one_layer(int n, int64_t m, cj_tensor *x, cj_tensor *y, cj_tensor *fresh, cj_tensor *truth)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *theta = normal(CJ_SHAPE(n, m)), *b = cj_uniform(c, -1, 1, CJ_SHAPE(m), .dtype = CJ_F64);
    theta = cj_div(theta, cj_sqrt(cj_sum(cj_square(theta), .axes = CJ_AXIS(0))));
    cj_tensor *w = least_squares(with_ones(cj_relu(cj_sub(cj_matmul(x, theta), b))), y, 1e-3);
    double left = mean_square(cj_sub(truth, predicted(with_ones(cj_relu(cj_sub(cj_matmul(fresh, theta), b))), w))) / variance_of(truth);
    cj_scope_close(s);
    return left;
}

/* Two hidden layers: `each` ReLU units per coordinate make x_i², their sum is |x|²; `top` units of it make psi(sqrt(.)). */
static cj_tensor *squares(cj_tensor *x, int64_t each)
{
    double at[64], value[64], jump[64];
    for (int64_t i = 0; i < each; i++) at[i] = -1 + 2. * (double)i / (double)(each - 1), value[i] = at[i] * at[i];
    cj_relu_form form;
    assert_true(cj_relu_interpolant(at, value, each, &form, jump));
    cj_tensor *y = cj_add_scalar(cj_mul_scalar(x, form.slope), form.offset);
    for (int64_t i = 1; i + 1 < each; i++) y = cj_add(y, cj_mul_scalar(cj_relu(cj_add_scalar(x, -at[i])), jump[i]));
    return row_sums(y);
}
static cj_tensor *hinges(cj_tensor *s, int64_t top)
{
    cj_tensor *knot = cj_div(cj_arange(c, 0, (double)top, 1, CJ_F64), cj_full(c, (double)top, CJ_SCALAR, CJ_F64));
    return with_ones(cj_relu(cj_sub(cj_unsqueeze(s, 1), cj_square(knot)))); /* knots equally apart in |x| */
}
static double two_layers(int64_t each, int64_t top, cj_tensor *x, cj_tensor *y, cj_tensor *fresh, cj_tensor *truth)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *w = least_squares(hinges(squares(x, each), top), y, 1e-8);
    double left = mean_square(cj_sub(truth, predicted(hinges(squares(fresh, each), top), w))) / variance_of(truth);
    cj_scope_close(s);
    return left;
}

static void ff_depth_benefit_and_uat_depth_benefit(void **state) /* ff.depth_benefit, uat.depth-benefit */
{
    (void)state;
    enum { LEAST = 32, MOST = 512 };
    double needed[2][11] = { { 0 } }, gap = -1;
    for (int n = 2; n <= 10; n += 2) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = in_ball(2000, n, 1), *y = radial(x), *fresh = in_ball(1000, n, 1), *truth = radial(fresh);
        /* equal parameters, those of the two layers counted as if nothing were 0 */
        int64_t each = 16, top = 16, parameters = n * each * (n + 1) + top * (n * each + 1) + top + 1, width = (parameters - 1) / (n + 2);
        double one = one_layer(n, width, x, y, fresh, truth), two = two_layers(each, top, x, y, fresh, truth);
        print_message("n = %2d, %ld parameters: one layer leaves %.3f of the variance, two %.4f\n", n, (long)parameters, one, two);
        assert_true(two < 0.2 * one);
        assert_true(n <= 8 ? one - two > gap + 0.1 : one - two > 0.7); /* the gap grows, until nothing of the target is left to miss */
        gap = one - two;
        /* units for a third of the variance */
        for (int64_t m = LEAST; n <= 8 && m <= MOST && !(needed[0][n] > 0); m *= 2)
            if (one_layer(n, m, x, y, fresh, truth) < 0.35) needed[0][n] = (double)m;
        for (int64_t k = 4; n <= 8 && k <= 32 && !(needed[1][n] > 0); k *= 2)
            if (two_layers(k, k, x, y, fresh, truth) < 0.35) needed[1][n] = (double)((n + 1) * k);
        cj_scope_close(s);
    }
    for (int n = 2; n <= 8; n += 2)
        print_message("n = %d: %g units in one layer (0: more than 512), %g in two\n", n, needed[0][n], needed[1][n]);
    assert_true(needed[0][2] > 0 && needed[0][2] <= 128);
    assert_true(!(needed[0][6] > 0) && !(needed[0][8] > 0));                               /* more than 512: at least four times as many */
    assert_true(needed[1][2] > 0 && needed[1][8] > 0 && needed[1][8] <= 4 * needed[1][2]); /* in proportion to n */
}

/* ---- regions for a budget, and what they are good for -------------------------------------------------------------------------------------------------------- */

static double log_regions_shallow(int64_t inputs, int64_t budget)
{
    int64_t width = (budget - 1) / (inputs + 2); /* width (inputs + 1) + width + 1 parameters */
    return width < 1 ? 0 : log(cj_zaslavsky_bound(width, inputs));
}
/* the best of 2 … 5 equal layers */
static double log_regions_deep(int64_t inputs, int64_t budget)
{
    double best = 0;
    for (int layers = 2; layers <= 5; layers++)
        for (int64_t width = inputs; width <= 400; width++) {
            int64_t parameters = width * (inputs + 1) + (layers - 1) * width * (width + 1) + width + 1, widths[5];
            if (parameters > budget) break;
            for (int i = 0; i < layers; i++) widths[i] = width;
            best = fmax(best, log(cj_montufar_bound(inputs, widths, layers)));
        }
    return best;
}

/* the tent map, four times: 8 teeth on [0, 1] */
static cj_tensor *folded(cj_tensor *x)
{
    for (int i = 0; i < 4; i++) x = cj_add_scalar(cj_neg(cj_abs(cj_add_scalar(cj_mul_scalar(x, 2), -1))), 1);
    return x;
}

static cj_module *layers_of(int64_t width, int hidden)
{
    cj_module *m[24] = { 0 };
    int n = 0;
    for (int i = 0; i < hidden; i++)
        m[n++] = cj_linear(c, i ? width : 1, width, .init_std = sqrt(2.0 / (double)(i ? width : 1))), m[n++] = cj_relu_layer(c);
    m[n] = cj_linear(c, width, 1);
    return (cj_sequential)(c, m);
}
static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
/* median over 5 trained nets of `hidden` layers: share of the variance that is left */
static double median_fit(int64_t width, int hidden, cj_tensor *x, cj_tensor *y, int steps)
{
    double left[5];
    for (int i = 0; i < 5; i++) {
        cj_module *net = layers_of(width, hidden);
        cj_optim *adam = cj_adam(cj_module_params(net), .lr = 0.01);
        cj_rate falling = cj_rate_cosine(0.01, 0, steps);
        cj_optim_schedule(adam, &falling);
        fit(net, adam, x, y, 0, steps);
        left[i] = loss_of(net, x, y) / variance_of(y);
    }
    qsort(left, 5, sizeof *left, by_size);
    return left[2];
}

static void ff_depth_budget(void **state) /* ff.depth_budget */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    double gap[2];
    for (int64_t budget = 5000; budget <= 20000; budget *= 4) {
        for (int i = 0; i < 2; i++) gap[i] = log_regions_deep(i ? 10 : 1, budget) - log_regions_shallow(i ? 10 : 1, budget);
        assert_true(gap[0] > 0 && gap[1] > gap[0]); /* e^gap times as many regions */
    }
    assert_true(log_regions_deep(1, 50) > log_regions_shallow(1, 50));
    assert_true(log_regions_deep(10, 500) < log_regions_shallow(10, 500)); /* a few parameters are too few for it */
    enum { STEPS = 2500, POINTS = 256 };
    cj_tensor *x = cj_reshape(cj_arange(c, 0, 1, 1.0 / POINTS, CJ_F32), CJ_SHAPE(POINTS, 1)),
              *wide = cj_mul_scalar(cj_add_scalar(x, -0.5), 3.4);
    /* 4 layers of 24 units and 1 of 624 have as many parameters */
    assert_int_equal(cj_params_numel(cj_module_params(layers_of(24, 4))), 1873);
    assert_int_equal(cj_params_numel(cj_module_params(layers_of(624, 1))), 1873);
    double deep = median_fit(24, 4, wide, folded(x), STEPS), shallow = median_fit(624, 1, wide, folded(x), STEPS);
    print_message("folded target: deep leaves %.4f, shallow %.4f\n", deep, shallow);
    assert_true(deep < 0.5 * shallow);
    cj_tensor *noise = cj_rand(c, CJ_SHAPE(POINTS, 1));
    deep = median_fit(24, 4, wide, noise, STEPS / 5), shallow = median_fit(624, 1, wide, noise, STEPS / 5);
    print_message("unstructured target: deep leaves %.4f, shallow %.4f\n", deep, shallow);
    assert_true(deep > 0.8 * shallow);
    cj_scope_close(s);
}

/* ---- trained to fit --------------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct sample {
    cj_tensor *x, *y;
    bool tanh;
} sample;
static cj_tensor *shallow_error(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const sample *p = user;
    cj_tensor *z = cj_add(cj_matmul(p->x, in[0]), in[1]);
    return cj_sub(cj_add(cj_matmul(p->tanh ? cj_tanh(z) : cj_relu(z), in[2]), in[3]), p->y);
}
static cj_tensor *shallow_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    return cj_mean(cj_square(shallow_error(ctx, user, in, n)));
}
/* largest error of the best of some shallow nets by L-BFGS */
static double sup_error(sample *p, int64_t width, int nets, int64_t iterations)
{
    double best = INFINITY;
    int64_t inputs = cj_size(p->x, 1);
    for (int i = 0; i < nets; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *w[] = { cj_keep(cj_mul_scalar(normal(CJ_SHAPE(inputs, width)), 3)), cj_keep(cj_mul_scalar(normal(CJ_SHAPE(width)), 2)),
                           cj_keep(cj_mul_scalar(normal(CJ_SHAPE(width, 1)), 1 / sqrt((double)width))),
                           cj_keep(cj_zeros(c, CJ_SHAPE(1), CJ_F64)) };
        cj_lbfgs(c, shallow_loss, p, w, 4, NULL, .iterations = iterations, .tolerance = 1e-9);
        best = fmin(best, cj_item(cj_max(cj_abs(shallow_error(c, p, w, 4)))));
        for (int k = 0; k < 4; k++) cj_release(w[k]);
        cj_scope_close(s);
    }
    return best;
}

static void lab_uat_trained(void **state) /* lab.uat-trained */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    sample p = { .x = cj_reshape(cj_arange(c, -1, 1, 1.0 / 64, CJ_F64), CJ_SHAPE(128, 1)) };
    p.y = cj_add(cj_sin(cj_mul_scalar(p.x, 5)), cj_abs(p.x));
    for (int tanh = 0; tanh < 2; tanh++) {
        double before = INFINITY;
        p.tanh = tanh;
        for (int64_t width = 2; width <= 32; width *= 4) {
            double error = sup_error(&p, width, 3, 300);
            print_message("%s, %2ld units: sup error %.4f\n", tanh ? "tanh" : "ReLU", (long)width, error);
            assert_true(error < before);
            before = error;
        }
        assert_true(before < 0.1);
    }
    sample any = { normal(CJ_SHAPE(20, 3)), normal(CJ_SHAPE(20, 1)), true }; /* any data at all */
    assert_true(sup_error(&any, 64, 1, 500) < 1e-4);
    assert_true(sup_error(&any, 2, 1, 500) > 0.1); /* if the network is large enough */
    cj_scope_close(s);
}

/* 784-512-512-10 on the real digits is a row of tests/results.sh; here the same net on the small ones. */
static void ff_mnist_mlp(void **state) /* ff.mnist_mlp */
{
    (void)state;
    cj_module *full =
        cj_sequential(c, cj_linear(c, 784, 512), cj_relu_layer(c), cj_linear(c, 512, 512), cj_relu_layer(c), cj_linear(c, 512, 10));
    assert_int_equal(cj_params_numel(cj_module_params(full)), 669706);
    cj_scope s = cj_scope_open(c);
    cj_tensor *noise = cj_rand(c, CJ_SHAPE(128, 784)), *label = cj_randint(c, 0, 10, CJ_SHAPE(128));
    assert_near(loss_of(full, noise, label), log(10), 0.03);
    cj_scope_close(s);
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_module *net =
        cj_sequential(c, cj_linear(c, 64, 512), cj_relu_layer(c), cj_linear(c, 512, 512), cj_relu_layer(c), cj_linear(c, 512, 10));
    assert_near(loss_of(net, d->train_x, d->train_y), log(10), 0.03);
    int64_t epoch = (cj_size(d->train_x, 0) + 127) / 128;
    fit(net, cj_adam(cj_module_params(net), .lr = 1e-3), d->train_x, d->train_y, 128, (int)(10 * epoch));
    double right = accuracy_of(net, d->test_x, d->test_y);
    print_message("10 epochs of small digits: %.1f %% of the test rows\n", 100 * right);
    assert_true(right >= 0.95);
    cj_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approx_barron_and_uat_barron),
        cmocka_unit_test(ff_depth_benefit_and_uat_depth_benefit),
        cmocka_unit_test(ff_depth_budget),
        cmocka_unit_test(lab_uat_trained),
        cmocka_unit_test(ff_mnist_mlp),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
