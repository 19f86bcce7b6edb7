/* Catalogue rows of regularisation, the exact part: penalties, early stopping and dropout against their closed forms. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_ok(c);
    assert_near(distance(a, b), 0, tolerance);
}

/* A module that is nothing but a parameter. */
static const cj_module_type holder_type = { "Holder", NULL, NULL };
static cj_params *hold(cj_tensor *start)
{
    cj_module *m = cj_module_new(c, &holder_type, 0);
    cj_module_param(m, "w", start);
    return cj_module_params(m);
}

/* (XᵀX + mu)⁻¹Xᵀy */
static cj_tensor *ridge(cj_tensor *x, cj_tensor *y, double mu)
{
    cj_tensor *gram = cj_add(cj_matmul(cj_t(x), x), cj_mul_scalar(cj_eye(c, cj_size(x, 1), CJ_F64), mu));
    return cj_solve(gram, cj_matmul(cj_t(x), y));
}

static void reg_l2(void **state) /* reg.l2 */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *net = cj_sequential(c, cj_linear(c, 3, 4), cj_linear(c, 4, 2));
    cj_params *p = cj_module_params(net);
    cj_tensor *all[4], *g[4];
    for (int i = 0; i < 4; i++) all[i] = cj_params_at(p, i);
    assert_true(cj_grad(cj_tikhonov_penalty(p, 0.3), all, 4, g, .allow_unused = true));
    for (int i = 0; i < 4; i++) same(g[i], cj_mul_scalar(all[i], i % 2 ? 0 : 0.3), 1e-7); /* mu·W; biases are left alone */
    cj_tensor *x = normal(CJ_SHAPE(12, 3)), *y = normal(CJ_SHAPE(12));
    cj_params *w = hold(cj_zeros(c, CJ_SHAPE(3, 1), CJ_F64)); /* two axes: a weight */
    cj_optim *gd = cj_sgd(w, .lr = 0.03);
    for (int i = 0; i < 1500; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *residual = cj_sub(cj_squeeze(cj_matmul(x, cj_params_at(w, 0)), 1), y);
        assert_true(cj_minimise(gd, cj_add(cj_mul_scalar(cj_sum(cj_square(residual)), 0.5), cj_tikhonov_penalty(w, 2.5))));
        cj_scope_close(inner);
    }
    same(cj_squeeze(cj_params_at(w, 0), 1), ridge(x, y, 2.5), 1e-10);
    /* 30 cosines through 10 points: as mu rises the solution is shorter and smoother, and better between the points for some mu */
    enum { POINTS = 10, WAVES = 30, GRID = 200 };
    double at[POINTS * WAVES], fine[GRID * WAVES], target[POINTS], truth[GRID];
    double *noise = values_of(normal(CJ_SHAPE(POINTS)));
    for (int j = 0; j < WAVES; j++) {
        for (int i = 0; i < POINTS; i++) at[i * WAVES + j] = cos(M_PI * j * (i + 0.5) / POINTS * 0.97);
        for (int i = 0; i < GRID; i++) fine[i * WAVES + j] = cos(M_PI * j * (i + 0.5) / GRID * 0.97);
    }
    for (int i = 0; i < POINTS; i++) target[i] = sin(3 * (i + 0.5) / POINTS) + 0.5 * noise[i];
    for (int i = 0; i < GRID; i++) truth[i] = sin(3 * (i + 0.5) / GRID);
    free(noise);
    double length = INFINITY, rough = INFINITY, first = 0, best = INFINITY;
    for (int k = 0; k < 6; k++) {
        cj_tensor *fit = ridge(f64(c, at, CJ_SHAPE(POINTS, WAVES)), f64(c, target, CJ_SHAPE(POINTS)), pow(10, k - 5.));
        cj_tensor *f = cj_matmul(f64(c, fine, CJ_SHAPE(GRID, WAVES)), fit),
                  *slope = cj_sub(cj_slice(f, 0, 1, GRID, 1), cj_slice(f, 0, 0, GRID - 1, 1));
        double norm = cj_item(cj_norm(fit, 2)), wiggle = cj_item(cj_norm(slope, 2)),
               error = cj_item(cj_norm(cj_sub(f, f64(c, truth, CJ_SHAPE(GRID))), 2));
        assert_true(norm < length && wiggle < rough);
        length = norm, rough = wiggle;
        if (!k) first = error;
        best = error < best ? error : best;
    }
    assert_true(best < first);
    cj_scope_close(s);
}

typedef struct regression {
    cj_tensor *x, *y;
} regression;
static cj_tensor *half_squares(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const regression *r = user;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(cj_matmul(r->x, in[0]), r->y))), 0.5 / (double)cj_size(r->y, 0));
}

static void reg_l1(void **state) /* reg.l1 */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 100, D = 10 };
    cj_tensor *truth = F64(c, CJ_SHAPE(D), 3, -2, 1.5, 1, 0, 0, 0, 0, 0, 0); /* six inputs do not matter */
    regression r = { normal(CJ_SHAPE(N, D)), NULL };
    r.y = cj_add(cj_matmul(r.x, truth), cj_mul_scalar(normal(CJ_SHAPE(N)), 0.3));
    int before = 0;
    for (int k = 0; k < 4; k++) {
        const double alpha[] = { 0, 0.1, 0.7, 5 };
        cj_tensor *w = cj_keep(cj_zeros(c, CJ_SHAPE(D), CJ_F64));
        cj_solution out;
        assert_true(cj_proximal(c, half_squares, &r, &w, 1, &out, .prox = CJ_PROX_L1, .weight = alpha[k], .step = 0.3, .iterations = 5000));
        int zeros = 0, wrong = 0;
        for (int i = 0; i < D; i++) zeros += value_at(w, i) == 0, wrong += i < 4 && value_at(w, i) == 0;
        assert_true(zeros >= before);
        before = zeros;
        if (k == 0) assert_int_equal(zeros, 0);
        if (k == 1) assert_true(zeros >= 5 && wrong == 0); /* those that do not matter first */
        if (k == 3) assert_int_equal(zeros, D);
        cj_release(w);
    }
    cj_params *p = hold(cj_zeros(c, CJ_SHAPE(D), CJ_F64)); /* steps along a subgradient never land on 0 */
    cj_optim *sgd = cj_sgd(p, .lr = 0.05);
    for (int i = 0; i < 500; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *w = cj_params_at(p, 0), *loss = cj_add(half_squares(c, &r, &w, 1), cj_mul_scalar(cj_l1_penalty(p), 0.1));
        assert_true(cj_minimise(sgd, loss));
        cj_scope_close(inner);
    }
    for (int i = 0; i < D; i++) assert_true(value_at(cj_params_at(p, 0), i) != 0);
    for (int i = 4; i < D; i++) assert_true(fabs(value_at(cj_params_at(p, 0), i)) < 0.02);
    cj_tensor *w = F64(c, CJ_SHAPE(3), 2, 0, -1), *leaf = cj_require_grad(w), *g;
    assert_true(cj_grad(cj_sum(cj_abs(leaf)), &leaf, 1, &g));
    same(g, F64(c, CJ_SHAPE(3), 1, 0, -1), 0); /* alpha·sign(w) */
    cj_scope_close(s);
}

/* The place of the largest value of f on [low, high], by golden section. */
static double highest(double (*f)(double w, const double *p), const double *p, double low, double high)
{
    const double phi = (sqrt(5) - 1) / 2;
    for (int i = 0; i < 200; i++) {
        double a = high - phi * (high - low), b = low + phi * (high - low);
        if (f(a, p) < f(b, p)) low = a;
        else high = b;
    }
    return (low + high) / 2;
}
static double log_density(cj_dist d, double x) { return cj_item(cj_dist_log_prob(d, cj_full(c, x, CJ_SCALAR, CJ_F64))); }
static cj_tensor *number(double v) { return cj_full(c, v, CJ_SCALAR, CJ_F64); }
/* p: strength of the prior; data y_i = w·x_i + noise of deviation s */
static const double map_x[2] = { 1, 2 }, map_y[2] = { 1.3, 1.9 }, map_s = 0.7;
static double likelihood(double w)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) sum += log_density(cj_dist_normal(number(w * map_x[i]), number(map_s)), map_y[i]);
    return sum;
}
static double normal_posterior(double w, const double *p)
{
    return likelihood(w) + log_density(cj_dist_normal(number(0), number(sqrt(1 / (2 * *p)))), w);
}
static double laplace_posterior(double w, const double *p)
{
    return likelihood(w) + log_density(cj_dist_laplace(number(0), number(1 / *p)), w);
}

static void reg_map(void **state) /* reg.map */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    double xx = 0, xy = 0, lambda = 0.8;
    for (int i = 0; i < 2; i++) xx += map_x[i] * map_x[i] / (map_s * map_s), xy += map_x[i] * map_y[i] / (map_s * map_s);
    /* -log likelihood + lambda·w² has its least value at xy/(xx + 2·lambda); + lambda·|w| at the soft threshold (xy - lambda)/xx */
    assert_near(highest(normal_posterior, &lambda, -3, 3), xy / (xx + 2 * lambda), 1e-7);
    assert_near(highest(laplace_posterior, &lambda, -3, 3), (xy - lambda) / xx, 1e-7);
    /* evidence: the integral of likelihood · prior against N(y; 0, s² + x·xᵀ/(2·lambda)) */
    double z = 0;
    for (int i = 0; i <= 400; i++) {
        double w = -6 + 12. * i / 400;
        z += exp(normal_posterior(w, &lambda)) * 12 / 400;
    }
    double v = 1 / (2 * lambda), a = map_s * map_s + v * map_x[0] * map_x[0], d = map_s * map_s + v * map_x[1] * map_x[1],
           b = v * map_x[0] * map_x[1];
    double det = a * d - b * b, q = (d * map_y[0] * map_y[0] - 2 * b * map_y[0] * map_y[1] + a * map_y[1] * map_y[1]) / det;
    assert_near(z, exp(-q / 2) / (2 * M_PI * sqrt(det)), 1e-10);
    cj_scope_close(s);
}

typedef struct quadratic {
    cj_tensor *h, *at;
    double mu;
} quadratic;
static cj_tensor *penalised(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const quadratic *q = user;
    cj_tensor *d = cj_sub(in[0], q->at);
    return cj_mul_scalar(cj_add(cj_dot(d, cj_matmul(q->h, d)), cj_mul_scalar(cj_sum(cj_square(in[0])), q->mu)), 0.5);
}

static void reg_l2_spectral(void **state) /* reg.l2_spectral */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double lambda[4] = { 1e-4, 0.1, 1, 1e4 };
    cj_tensor *q = cj_qr(normal(CJ_SHAPE(4, 4))).q, *l = f64(c, lambda, CJ_SHAPE(4)), *star = normal(CJ_SHAPE(4));
    quadratic f = { cj_matmul(cj_mul(q, l), cj_t(q)), star, 0.3 };
    cj_tensor *w = cj_keep(cj_zeros(c, CJ_SHAPE(4), CJ_F64));
    assert_true(cj_newton(c, penalised, &f, &w, 1, NULL, .tolerance = 1e-11));
    cj_tensor *shrink = cj_div(l, cj_add_scalar(l, 0.3)), *spectral = cj_matmul(q, cj_mul(shrink, cj_matmul(cj_t(q), star)));
    same(w, spectral, 1e-10);
    assert_near(value_at(shrink, 3), 1, 1e-4); /* kept */
    assert_near(value_at(shrink, 0), 0, 1e-3); /* removed */
    cj_release(w);
    cj_scope_close(s);
}

static void reg_no_bias_decay(void **state) /* reg.no_bias_decay */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    float x[21], y[21];
    double v = 0;
    for (int i = 0; i < 21; i++) x[i] = (float)(i - 10) / 10, y[i] = 10 + x[i], v += x[i] * x[i] / 21;
    cj_tensor *in = cj_from_f32(c, x, CJ_SHAPE(21, 1)), *target = cj_from_f32(c, y, CJ_SHAPE(21, 1));
    for (int all = 0; all < 2; all++) {
        cj_module *m = cj_linear(c, 1, 1);
        cj_params *p = cj_module_params(m);
        cj_optim *gd = cj_sgd(p, .lr = 0.3);
        for (int i = 0; i < 400; i++) {
            cj_scope inner = cj_scope_open(c);
            cj_tensor *penalty = all ? cj_mul_scalar(cj_l2_penalty(p), 0.25) : cj_tikhonov_penalty(p, 0.5);
            assert_true(cj_minimise(gd, cj_add(cj_mean(cj_square(cj_sub(cj_forward(m, in), target))), penalty)));
            cj_scope_close(inner);
        }
        assert_near(value_at(cj_params_at(p, 0), 0), v / (v + 0.25), 1e-4);
        assert_near(value_at(cj_params_at(p, 1), 0), all ? 10 / 1.25 : 10, 1e-3);
        double bias = cj_item(cj_mean(cj_sub(cj_forward(m, in), target)));
        if (all) assert_true(bias < -1.9);
        else assert_near(bias, 0, 1e-3);
    }
    cj_scope_close(s);
}

static void reg_early_stop_equiv(void **state) /* reg.early_stop_equiv */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double lambda[4] = { 1e-3, 1e-2, 0.1, 1 }, learned[4] = { .0009995, .00995, .0952, .632 },
                 shrunk[4] = { .0009990, .00990, .0909, .5 };
    cj_tensor *l = f64(c, lambda, CJ_SHAPE(4)), *one = cj_ones(c, CJ_SHAPE(4), CJ_F64);
    cj_params *p = hold(cj_zeros(c, CJ_SHAPE(4), CJ_F64));
    cj_optim *gd = cj_sgd(p, .lr = 1e-3);
    for (int k = 0; k < 1000; k++) { /* 1/2 sum lambda·(w - 1)² */
        cj_scope inner = cj_scope_open(c);
        assert_true(cj_minimise(gd, cj_mul_scalar(cj_sum(cj_mul(l, cj_square(cj_sub(cj_params_at(p, 0), one)))), 0.5)));
        cj_scope_close(inner);
    }
    for (int i = 0; i < 4; i++) {
        double unit = pow(10, floor(log10(learned[i])) - 3); /* the last printed digit */
        assert_near(value_at(cj_params_at(p, 0), i), 1 - pow(1 - 1e-3 * lambda[i], 1000), 1e-12);
        assert_near(value_at(cj_params_at(p, 0), i), learned[i], i == 0 ? unit / 10 : 5 * unit);
        assert_near(lambda[i] / (lambda[i] + 1), shrunk[i], i == 0 ? unit / 10 : 5 * unit);
    }
    cj_scope_close(s);
}

static void reg_early_stopping(void **state) /* reg.early_stopping */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *net = cj_sequential(c, cj_linear(c, 1, 40), cj_tanh_layer(c), cj_linear(c, 40, 1));
    cj_params *p = cj_module_params(net);
    cj_optim *opt = cj_adam(p, .lr = 0.02);
    cj_tensor *x[3], *y[3]; /* to train, to watch, to test */
    for (int k = 0; k < 3; k++) {
        x[k] = cj_uniform(c, -2, 2, CJ_SHAPE(k == 0 ? 12 : 300, 1));
        y[k] = cj_add(cj_sin(cj_mul_scalar(x[k], 2)), cj_mul_scalar(cj_randn(c, cj_shape_of(x[k])), 0.5));
    }
    cj_early_stop *stop = cj_early_stop_new(p, 100000);
    cj_tensor *kept = cj_keep(cj_clone(cj_detach(cj_params_at(p, 0))));
    double least = INFINITY;
    int64_t at = -1;
    for (int i = 0; i < 1500; i++) {
        cj_scope inner = cj_scope_open(c);
        assert_true(cj_minimise(opt, cj_mse_loss(cj_forward(net, x[0]), y[0])));
        double loss = cj_item(cj_mse_loss(cj_forward(net, x[1]), y[1]));
        assert_false(cj_early_stop_update(stop, loss));
        if (loss < least) {
            least = loss, at = i;
            cj_assign_(kept, cj_detach(cj_params_at(p, 0)));
        }
        cj_scope_close(inner);
    }
    double final = cj_item(cj_mse_loss(cj_forward(net, x[2]), y[2]));
    assert_int_equal(cj_early_stop_best(stop), at);
    assert_true(at < 1499); /* it did over-fit */
    assert_true(cj_early_stop_restore(stop));
    assert_true(same_bits(cj_params_at(p, 0), kept));
    assert_true(cj_item(cj_mse_loss(cj_forward(net, x[1]), y[1])) == least);
    assert_true(cj_item(cj_mse_loss(cj_forward(net, x[2]), y[2])) <= final);
    cj_early_stop *soon = cj_early_stop_new(p, 2); /* 3, then 2, then twice nothing better; NaN is nothing better */
    assert_false(cj_early_stop_update(soon, 3));
    assert_false(cj_early_stop_update(soon, 2));
    assert_false(cj_early_stop_update(soon, 2));
    assert_true(cj_early_stop_update(soon, NAN));
    assert_int_equal(cj_early_stop_best(soon), 1);
    assert_ok(c);
    assert_refused(CJ_EVALUE, "early_stop: patience 0; 1 at least expected", cj_early_stop_new(p, 0));
    cj_release(kept);
    cj_scope_close(s);
}

/* ---- dropout --------------------------------------------------------------------------------------------------------------------------------------- */

static void reg_dropout(void **state) /* reg.dropout, reg.dropout_inverted */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 20000, D = 6 };
    cj_tensor *a = cj_randn(c, CJ_SHAPE(1, D)), *w = cj_randn(c, CJ_SHAPE(3, D)), *b = cj_randn(c, CJ_SHAPE(3)),
              *rows = cj_contiguous(cj_expand(a, CJ_SHAPE(N, D)));
    for (int standard = 0; standard < 2; standard++) {
        const double p = 0.3;
        cj_module *m = cj_dropout_layer(c, p, .standard = standard);
        cj_tensor *dropped = cj_forward(m, rows), *z = cj_linear_op(dropped, w, b); /* a fresh mask for every row */
        cj_module_train(m, false);
        cj_tensor *test = cj_linear_op(cj_forward(m, a), w, b);
        for (int i = 0; i < 3; i++) {
            double error = sqrt(cj_item(cj_var(cj_select(z, 1, i))) / N);
            assert_near(cj_item(cj_mean(cj_select(z, 1, i))), value_at(test, i), 4 * error);
        }
        /* test: weights times 1 - p, biases as they are; inverted: nothing at all */
        same(test, cj_linear_op(a, cj_mul_scalar(w, standard ? 1 - p : 1), b), 1e-5);
        if (!standard) assert_true(same_bits(cj_forward(m, a), a));
        for (int i = 0; i < D; i++) { /* survivors: a or a/(1 - p); variance of a unit */
            cj_tensor *unit = cj_select(dropped, 1, i);
            double value = value_at(a, i), top = value * (standard ? 1 : 1 / (1 - p)), square = cj_item(cj_var(unit, .biased = true));
            assert_near(square / (value * value), standard ? p * (1 - p) : p / (1 - p), 0.02);
            assert_near(cj_item(cj_max(cj_abs(unit))), fabs(top), 1e-6);
        }
        cj_module *none = cj_dropout_layer(c, 0, .standard = standard); /* keep everything */
        assert_true(same_bits(cj_forward(none, rows), rows));
        cj_module_train(m, true);
        cj_tensor *x = cj_require_grad(cj_full(c, 1, CJ_SHAPE(100), CJ_F32)), *y = cj_forward(m, x), *g; /* backward uses the same mask */
        assert_true(cj_grad(cj_sum(y), &x, 1, &g));
        same(g, y, 0);
    }
    cj_module *always = cj_dropout_layer(c, 0.5, .always = true);
    cj_module_train(always, false);
    assert_false(same_bits(cj_forward(always, rows), rows));
    assert_true(same_bits(cj_forward(cj_dropout_layer(c, 1, .standard = true), a), cj_zeros_like(a)));
    cj_scope_close(s);
}

static void reg_dropout_api(void **state) /* reg.dropout_api */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const float given[] = { .3342f, .8208f, .3765f, .1820f };
    cj_tensor *x = cj_keep(cj_from_f32(c, given, CJ_SHAPE(4))), *y = NULL;
    cj_module *m = cj_dropout_layer(c, 0.5);
    int tries = 0;
    do {
        y = cj_forward(m, x);
        assert_true(++tries < 500);
    } while (!(value_at(y, 0) != 0 && value_at(y, 1) != 0 && value_at(y, 2) == 0 && value_at(y, 3) == 0));
    assert_near(value_at(y, 0), .6684, 1e-4);
    assert_near(value_at(y, 1), 1.6417, 2e-4);
    for (int i = 0; i < 4; i++) assert_true(value_at(x, i) == given[i]); /* x is as it was … */
    assert_ptr_equal(cj_assign_(x, y), x);                               /* … until it is overwritten */
    assert_true(same_bits(x, y));
    cj_release(x);
    cj_scope_close(s);
}

static void reg_dropout_subnets(void **state) /* reg.dropout_subnets */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { U = 5, MASKS = 1 << (2 * U), DRAWS = 4000 };
    const double p = 0.4;
    cj_module *net = cj_sequential(c, cj_linear(c, 3, U), cj_tanh_layer(c), cj_dropout_layer(c, p), cj_linear(c, U, U), cj_tanh_layer(c),
                                   cj_dropout_layer(c, p), cj_linear(c, U, 1), cj_sigmoid_layer(c));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 3)), *w[6];
    for (int i = 0; i < 6; i++) w[i] = cj_params_at(cj_module_params(net), i);
    /* all masks at once: a row of masks for each sub-network */
    float *mask[2] = { malloc(sizeof(float) * MASKS * U), malloc(sizeof(float) * MASKS * U) };
    double *weight = malloc(sizeof(double) * MASKS), total = 0, mixture = 0;
    for (int z = 0; z < MASKS; z++) {
        weight[z] = 1;
        for (int i = 0; i < 2 * U; i++) {
            const bool kept = z >> i & 1;
            weight[z] *= kept ? 1 - p : p;
            mask[i / U][z * U + i % U] = kept ? (float)(1 / (1 - p)) : 0;
        }
        total += weight[z];
    }
    assert_int_equal(MASKS, 1024);
    assert_near(total, 1, 1e-12);
    cj_tensor *h = cj_mul(cj_tanh(cj_linear_op(x, w[0], w[1])), cj_from_f32(c, mask[0], CJ_SHAPE(MASKS, U)));
    h = cj_mul(cj_tanh(cj_linear_op(h, w[2], w[3])), cj_from_f32(c, mask[1], CJ_SHAPE(MASKS, U)));
    double *y = values_of(cj_sigmoid(cj_linear_op(h, w[4], w[5]))), spread = 0;
    for (int z = 0; z < MASKS; z++) mixture += weight[z] * y[z];
    for (int z = 0; z < MASKS; z++) spread += weight[z] * pow(y[z] - mixture, 2);
    free(mask[0]), free(mask[1]), free(weight), free(y);
    cj_mean_variance draws = cj_mc_dropout(net, x, DRAWS);
    assert_near(cj_item(draws.mean), mixture, 4 * sqrt(spread / DRAWS));
    assert_near(cj_item(draws.variance) / spread, 1, 0.1);
    assert_near(cj_item(cj_mc_dropout(net, x, 20).mean), mixture, 4 * sqrt(spread / 20));
    cj_module_train(net, false);
    assert_near(cj_item(cj_forward(net, x)), mixture, 0.05); /* one pass with scaled weights is close, not equal */
    assert_ok(c);
    assert_refused(CJ_EVALUE, "mc_dropout: 1 samples; 2 at least expected", cj_mc_dropout(net, x, 1).mean);
    cj_scope_close(s);
}

static void reg_dropout_geometric(void **state) /* reg.dropout_geometric */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { U = 5, MASKS = 1 << U, K = 3 };
    const double keep = 0.5;
    double m[MASKS * U];
    for (int z = 0; z < MASKS; z++)
        for (int i = 0; i < U; i++) m[z * U + i] = z >> i & 1;
    cj_tensor *masks = f64(c, m, CJ_SHAPE(MASKS, U)), *w = normal(CJ_SHAPE(K, U)), *b = normal(CJ_SHAPE(K)), *x = normal(CJ_SHAPE(1, U)),
              *deep = normal(CJ_SHAPE(U, U));
    for (int hidden = 0; hidden < 2; hidden++) {
        cj_tensor *all = cj_mul(x, masks), *mean = cj_mul_scalar(x, keep);
        if (hidden) all = cj_tanh(cj_matmul(all, deep)), mean = cj_tanh(cj_matmul(mean, deep)); /* masks below a hidden layer */
        cj_tensor *logs = cj_log_softmax(cj_linear_op(all, w, b), -1); /* the geometric mean is the mean of logarithms, normalised */
        cj_tensor *geometric = cj_softmax(cj_mean(logs, .axes = CJ_AXIS(0)), -1),
                  *scaled = cj_flatten(cj_softmax(cj_linear_op(mean, w, b), -1), 0);
        if (!hidden) same(geometric, scaled, 1e-15);
        else assert_true(distance(geometric, scaled) > 1e-3);
    }
    cj_scope_close(s);
}

static void reg_dropout_ridge(void **state) /* reg.dropout_ridge */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 3, D = 2, MASKS = 1 << (N * D) };
    const double p = 0.3;
    cj_tensor *x = normal(CJ_SHAPE(N, D)), *y = normal(CJ_SHAPE(N)), *w = normal(CJ_SHAPE(D));
    double expected = 0;
    for (int z = 0; z < MASKS; z++) {
        double r[N * D], weight = 1;
        for (int i = 0; i < N * D; i++) r[i] = z >> i & 1, weight *= r[i] != 0 ? 1 - p : p;
        expected += weight * cj_item(cj_sum(cj_square(cj_sub(y, cj_matmul(cj_mul(f64(c, r, CJ_SHAPE(N, D)), x), w)))));
    }
    cj_tensor *gram = cj_matmul(cj_t(x), x), *diagonal = cj_diagonal(gram, 0, 0, 1);
    double formula = cj_item(cj_sum(cj_square(cj_sub(y, cj_mul_scalar(cj_matmul(x, w), 1 - p))))) +
                     p * (1 - p) * cj_item(cj_sum(cj_mul(diagonal, cj_square(w))));
    assert_near(expected, formula, 1e-12);
    /* with v = (1 - p)·w: |y - Xv|² + p/(1-p)·vᵀdiag(XᵀX)v */
    cj_tensor *v = cj_mul_scalar(w, 1 - p);
    assert_near(cj_item(cj_sum(cj_square(cj_sub(y, cj_matmul(x, v))))) + p / (1 - p) * cj_item(cj_sum(cj_mul(diagonal, cj_square(v)))),
                formula, 1e-12);
    /* and its minimum by steps on dropped inputs (inverted: v itself), a fresh mask for each of many copies */
    enum { COPIES = 4000 };
    cj_tensor *many = cj_contiguous(cj_expand(cj_unsqueeze(x, 0), CJ_SHAPE(COPIES, N, D)));
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        cj_tensor *drop = cj_dropout(many, .p = p), *e = cj_sub(y, cj_squeeze(cj_matmul(drop, cj_unsqueeze(v, 1)), -1));
        sum += cj_item(cj_sum(cj_square(e))) / COPIES / 4;
    }
    assert_near(sum / formula, 1, 0.05);
    cj_tensor *ridged = cj_solve(cj_add(gram, cj_mul_scalar(cj_mul(cj_eye(c, D, CJ_F64), diagonal), p / (1 - p))), cj_matmul(cj_t(x), y));
    cj_tensor *leaf = cj_require_grad(cj_mul_scalar(ridged, 1 / (1 - p))), *g,
              *loss = NULL; /* the gradient of the enumerated mean vanishes there */
    for (int z = 0; z < MASKS; z++) {
        double r[N * D], weight = 1;
        for (int i = 0; i < N * D; i++) r[i] = z >> i & 1, weight *= r[i] != 0 ? 1 - p : p;
        cj_tensor *term = cj_mul_scalar(cj_sum(cj_square(cj_sub(y, cj_matmul(cj_mul(f64(c, r, CJ_SHAPE(N, D)), x), leaf)))), weight);
        loss = loss ? cj_add(loss, term) : term;
    }
    assert_true(cj_grad(loss, &leaf, 1, &g));
    same(g, cj_zeros(c, CJ_SHAPE(D), CJ_F64), 1e-12);
    cj_scope_close(s);
}

static void reg_dropout_mc(void **state) /* reg.dropout_mc */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { D = 5, DRAWS = 20000 };
    double before = INFINITY;
    for (int k = 0; k < 3; k++) { /* a linear model: variance p/(1-p)·sum w²x², which goes with p */
        const double p[] = { 0.5, 0.1, 0.001 };
        cj_module *net = cj_sequential(c, cj_dropout_layer(c, p[k]), cj_linear(c, D, 1));
        cj_tensor *x = cj_ones(c, CJ_SHAPE(1, D), CJ_F32), *w = cj_params_at(cj_module_params(net), 0);
        cj_init_uniform_(w, 0.5, 0.6);
        cj_mean_variance y = cj_mc_dropout(net, x, DRAWS);
        double variance = p[k] / (1 - p[k]) * cj_item(cj_sum(cj_square(w)));
        assert_near(cj_item(y.variance) / variance, 1, k == 2 ? 0.5 : 0.05);
        assert_true(cj_item(y.variance) < before);
        before = cj_item(y.variance);
        cj_module_train(net, false);
        assert_near(cj_item(y.mean), cj_item(cj_forward(net, x)), 4 * sqrt(variance / DRAWS));
        cj_mean_variance again = cj_mc_dropout(net, x, 2); /* modes are as before */
        assert_false(cj_module_training(net));
        (void)again;
    }
    cj_module *net = cj_sequential(c, cj_linear(c, 1, 50), cj_relu_layer(c), cj_dropout_layer(c, 0.2), cj_linear(c, 50, 1));
    cj_tensor *x = cj_uniform(c, -1, 1, CJ_SHAPE(64, 1)), *y = cj_sin(cj_mul_scalar(x, 3));
    cj_optim *opt = cj_adam(cj_module_params(net), .lr = 0.01);
    for (int i = 0; i < 600; i++) {
        cj_scope inner = cj_scope_open(c);
        assert_true(cj_minimise(opt, cj_mse_loss(cj_forward(net, x), y)));
        cj_scope_close(inner);
    }
    double inside = cj_item(cj_mean(cj_mc_dropout(net, cj_uniform(c, -1, 1, CJ_SHAPE(50, 1)), 200).variance));
    double outside = cj_item(cj_mean(cj_mc_dropout(net, cj_uniform(c, 4, 6, CJ_SHAPE(50, 1)), 200).variance));
    assert_true(outside > 5 * inside);
    assert_true(cj_module_training(net));
    cj_scope_close(s);
}

static void reg_noise(void **state) /* reg.noise */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 20, D = 3, COPIES = 20000 };
    const double deviation = 0.5;
    cj_tensor *x = normal(CJ_SHAPE(N, D)), *y = normal(CJ_SHAPE(N));
    /* least squares on many noisy copies is ridge with n·s² */
    cj_tensor *many =
        cj_add(cj_expand(cj_unsqueeze(x, 0), CJ_SHAPE(COPIES, N, D)), cj_mul_scalar(normal(CJ_SHAPE(COPIES, N, D)), deviation));
    cj_tensor *flat = cj_reshape(many, CJ_SHAPE(COPIES * N, D)),
              *targets = cj_reshape(cj_contiguous(cj_expand(y, CJ_SHAPE(COPIES, N))), CJ_SHAPE(COPIES * N));
    same(ridge(flat, targets, 0), ridge(x, y, N * deviation * deviation), 0.01);
    /* weight noise adds s²/2·trace of the Hessian: of two minima of one depth it prefers the flat one */
    const double curve[2] = { 1, 30 };
    for (int k = 0; k < 2; k++) {
        cj_tensor *w = cj_mul_scalar(normal(CJ_SHAPE(200000)), 0.1);
        assert_near(cj_item(cj_mean(cj_mul_scalar(cj_square(w), curve[k] / 2))), 0.01 / 2 * curve[k], 0.0002 * curve[k]);
    }
    /* noisy targets: the mean of the loss rises by their variance, its gradient stays */
    cj_tensor *w = cj_require_grad(normal(CJ_SHAPE(D))), *g, *h, *fit = cj_matmul(x, w),
              *around = cj_mul_scalar(normal(CJ_SHAPE(COPIES, N)), 0.3);
    cj_tensor *clean = cj_sum(cj_square(cj_sub(fit, y))),
              *noisy = cj_mul_scalar(cj_sum(cj_square(cj_sub(fit, cj_add(y, around)))), 1. / COPIES);
    assert_near(cj_item(noisy) - cj_item(clean), N * 0.09, 0.1);
    assert_true(cj_grad(clean, &w, 1, &g, .retain = true) && cj_grad(noisy, &w, 1, &h));
    same(g, h, 0.1);
    cj_module *layer = cj_noise_layer(c, 1);
    cj_tensor *in = cj_cast(x, CJ_F32);
    assert_false(same_bits(cj_forward(layer, in), in));
    cj_module_train(layer, false);
    assert_true(same_bits(cj_forward(layer, in), in));
    cj_scope_close(s);
}

/* ---- implicit regularisation ------------------------------------------------------------------------------------------------------------------------ */

/* d w/d t = -gradient, by Runge and Kutta */
static cj_tensor *flow(cj_tensor *(*loss)(cj_tensor *w, double alpha), cj_tensor *w, double alpha, double time, int steps)
{
    double h = time / steps;
    for (int i = 0; i < steps; i++) {
        cj_tensor *k[4], *at = w;
        static const double ahead[] = { 0.5, 0.5, 1, 0 };
        for (int j = 0; j < 4; j++) {
            cj_tensor *leaf = cj_require_grad(at), *g;
            assert_true(cj_grad(loss(leaf, alpha), &leaf, 1, &g));
            k[j] = cj_neg(g);
            at = cj_add(w, cj_mul_scalar(k[j], h * ahead[j]));
        }
        cj_tensor *mean = cj_add(cj_add(k[0], k[3]), cj_mul_scalar(cj_add(k[1], k[2]), 2));
        w = cj_detach(cj_add(w, cj_mul_scalar(mean, h / 6)));
    }
    return w;
}
static cj_tensor *bowl(cj_tensor *w, double alpha)
{
    (void)alpha;
    return cj_mul_scalar(cj_sum(cj_square(w)), 0.5);
}
static cj_tensor *modified_bowl(cj_tensor *w, double alpha)
{
    cj_tensor *g, *l = bowl(w, 0);
    assert_true(cj_grad(l, &w, 1, &g, .create_graph = true));
    return cj_add(l, cj_mul_scalar(cj_sum(cj_square(g)), alpha / 4));
}

static void reg_implicit_gd(void **state) /* reg.implicit_gd */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    double error[2][2];
    for (int k = 0; k < 2; k++) {
        const double alpha = k ? 0.05 : 0.1;
        cj_params *p = hold(cj_ones(c, CJ_SHAPE(1), CJ_F64));
        assert_true(cj_minimise(cj_sgd(p, .lr = alpha), bowl(cj_params_at(p, 0), 0)));
        double step = value_at(cj_params_at(p, 0), 0), plain = value_at(flow(bowl, cj_ones(c, CJ_SHAPE(1), CJ_F64), alpha, alpha, 10), 0),
               modified = value_at(flow(modified_bowl, cj_ones(c, CJ_SHAPE(1), CJ_F64), alpha, alpha, 10), 0);
        assert_near(step, 1 - alpha, 1e-15);
        assert_near(modified, exp(-alpha * (1 + alpha / 2)), 1e-10);
        if (!k) {
            assert_near(plain, .904837, 5e-7);
            assert_near(modified, .900325, 5e-7);
        }
        error[k][0] = fabs(step - plain), error[k][1] = fabs(step - modified);
    }
    assert_near(error[0][0], 4.84e-3, 5e-6);
    assert_near(error[0][1], 3.25e-4, 5e-7);
    assert_near(error[1][0], 1.23e-3, 5e-6);
    assert_near(error[1][1], 4.11e-5, 5e-8);
    assert_near(log2(error[0][0] / error[1][0]), 2, 0.1);
    assert_near(log2(error[0][1] / error[1][1]), 3, 0.1);
    cj_scope_close(s);
}

enum { BATCHES = 3 };
static cj_tensor *sgd_x[BATCHES], *sgd_y[BATCHES];
static cj_tensor *batch_loss(cj_tensor *w, int b)
{
    return cj_mul_scalar(cj_mean(cj_square(cj_sub(cj_matmul(sgd_x[b], w), sgd_y[b]))), 0.5);
}
static cj_tensor *mean_loss(cj_tensor *w, double alpha)
{
    (void)alpha;
    cj_tensor *sum = batch_loss(w, 0);
    for (int b = 1; b < BATCHES; b++) sum = cj_add(sum, batch_loss(w, b));
    return cj_mul_scalar(sum, 1. / BATCHES);
}
/* L + alpha/4·|grad L|² + alpha/(4B)·sum |grad L_b - grad L|² */
static cj_tensor *sgd_loss(cj_tensor *w, double alpha)
{
    cj_tensor *g, *l = mean_loss(w, 0), *each;
    assert_true(cj_grad(l, &w, 1, &g, .create_graph = true));
    cj_tensor *sum = cj_add(l, cj_mul_scalar(cj_sum(cj_square(g)), alpha / 4));
    for (int b = 0; b < BATCHES; b++) {
        assert_true(cj_grad(batch_loss(w, b), &w, 1, &each, .create_graph = true));
        sum = cj_add(sum, cj_mul_scalar(cj_sum(cj_square(cj_sub(each, g))), alpha / (4 * BATCHES)));
    }
    return sum;
}

static void reg_implicit_sgd(void **state) /* reg.implicit_sgd */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int b = 0; b < BATCHES; b++) sgd_x[b] = normal(CJ_SHAPE(4, 2)), sgd_y[b] = normal(CJ_SHAPE(4));
    cj_tensor *start = normal(CJ_SHAPE(2)), *leaf = cj_require_grad(start), *g, *each;
    double squares = 0, alpha = 0.2;
    for (int b = 0; b < BATCHES; b++) {
        assert_true(cj_grad(batch_loss(leaf, b), &leaf, 1, &each));
        squares += cj_item(cj_sum(cj_square(each)));
    }
    assert_true(cj_grad(mean_loss(leaf, 0), &leaf, 1, &g));
    assert_near(cj_item(sgd_loss(leaf, alpha)) - cj_item(mean_loss(leaf, 0)), alpha / (4 * BATCHES) * squares, 1e-12);
    static const int order[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    double error[2][2];
    for (int k = 0; k < 2; k++, alpha /= 2) { /* an epoch in every order; its mean endpoint against the two flows over the time B·alpha */
        cj_tensor *mean = cj_zeros(c, CJ_SHAPE(2), CJ_F64);
        for (int o = 0; o < 6; o++) {
            cj_tensor *w = start;
            for (int b = 0; b < BATCHES; b++) {
                cj_tensor *at = cj_require_grad(w);
                assert_true(cj_grad(batch_loss(at, order[o][b]), &at, 1, &each));
                w = cj_detach(cj_sub(w, cj_mul_scalar(each, alpha)));
            }
            mean = cj_add(mean, cj_mul_scalar(w, 1. / 6));
        }
        error[k][0] = distance(mean, flow(mean_loss, start, alpha, BATCHES * alpha, 12));
        error[k][1] = distance(mean, flow(sgd_loss, start, alpha, BATCHES * alpha, 12));
    }
    assert_true(error[0][1] < error[0][0] && error[1][1] < error[1][0]);
    assert_near(log2(error[0][0] / error[1][0]), 2, 0.6);
    assert_true(log2(error[0][1] / error[1][1]) > 2.5);
    cj_scope_close(s);
}

/* Penalties on the derivative of a network and on singular values: of a linear layer both are known. */
static void jacobian_and_spectral_penalties(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_linear(c, 4, 3);
    cj_params *p = cj_module_params(m);
    cj_tensor *w = cj_params_at(p, 0), *x = cj_randn(c, CJ_SHAPE(5, 4)), *g, *penalty = cj_jacobian_penalty(m, x);
    assert_near(cj_item(penalty), cj_item(cj_sum(cj_square(w))), 1e-5); /* the Jacobian of every example is W */
    assert_true(cj_grad(penalty, &w, 1, &g));
    same(g, cj_mul_scalar(w, 2), 1e-5);
    cj_module *net = cj_sequential(c, m, cj_tanh_layer(c)); /* diag(1 - y²)·W */
    cj_tensor *slope = cj_sub(cj_ones(c, CJ_SHAPE(5, 3), CJ_F32), cj_square(cj_forward(net, x))),
              *rows = cj_sum(cj_square(w), .axes = CJ_AXIS(1));
    assert_near(cj_item(cj_jacobian_penalty(net, x)), cj_item(cj_sum(cj_mul(cj_square(slope), rows))) / 5, 1e-5);
    cj_svd_result f = cj_svd(w);
    double top = value_at(f.s, 0);
    penalty = cj_spectral_penalty(p, 0.6);
    assert_near(cj_item(penalty), 0.3 * top * top, 1e-5);
    assert_true(cj_grad(penalty, &w, 1, &g)); /* mu·sigma·u·vᵀ */
    same(g, cj_mul_scalar(cj_outer(cj_select(f.u, 1, 0), cj_select(f.vh, 0, 0)), 0.6 * top), 1e-5);
    assert_ok(c);
    assert_poisoned(CJ_EVALUE, "spectral_penalty: weight -1; it must not be negative", cj_spectral_penalty(p, -1));
    assert_poisoned(CJ_EVALUE, "tikhonov_penalty: weight -1", cj_tikhonov_penalty(p, -1));
    assert_poisoned(CJ_ESHAPE, "jacobian_penalty: input i64 [5]; floats [examples, ..] expected",
                    cj_jacobian_penalty(m, cj_zeros(c, CJ_SHAPE(5), CJ_I64)));
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reg_l2),
        cmocka_unit_test(reg_l1),
        cmocka_unit_test(reg_map),
        cmocka_unit_test(reg_l2_spectral),
        cmocka_unit_test(reg_no_bias_decay),
        cmocka_unit_test(reg_early_stop_equiv),
        cmocka_unit_test(reg_early_stopping),
        cmocka_unit_test(reg_dropout),
        cmocka_unit_test(reg_dropout_api),
        cmocka_unit_test(reg_dropout_subnets),
        cmocka_unit_test(reg_dropout_geometric),
        cmocka_unit_test(reg_dropout_ridge),
        cmocka_unit_test(reg_dropout_mc),
        cmocka_unit_test(reg_noise),
        cmocka_unit_test(reg_implicit_gd),
        cmocka_unit_test(reg_implicit_sgd),
        cmocka_unit_test(jacobian_and_spectral_penalties),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
