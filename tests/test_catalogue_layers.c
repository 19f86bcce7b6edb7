/* What is said of initial values, of the running statistics of batch norm and of positions, by the layers themselves.  Each case carries the name of the claim that it checks. */
#include "support.h"

static cj_ctx *context(void) { return cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 }); }
static double var_of(cj_tensor *x) { return cj_item(cj_var(x, .biased = true)); }
static double largest(cj_tensor *x) { return cj_item(cj_max(cj_abs(x))); }
static cj_tensor *param(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }

/* init.default_uniform: ±1/sqrt d, variance 1/(3d), a third of the fan-in Gaussian's */
static void init_default_uniform(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *weights[] = { param(cj_linear(c, 100, 4000), "weight"), param(cj_conv_layer(c, 4, 4000, CJ_SHAPE(5, 5)), "weight") };
    for (int i = 0; i < 2; i++) { /* 100 inputs each */
        assert_true(largest(weights[i]) <= 0.1 + 1e-8 && largest(weights[i]) > 0.0999);
        assert_near(var_of(weights[i]) * 300, 1, 0.01);
        double uniform = var_of(weights[i]);
        assert_near(var_of(cj_init_kaiming_normal_(weights[i], CJ_FAN_IN, 1)) / uniform, 3, 0.05);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- deep networks of equal width without biases ---------------------------------------------------------------------------------------------------- */

enum { DEPTH = 30, WIDTH = 400, ROWS = 50 };
typedef enum squash { LINEAR, RELU, TANH } squash;
typedef struct moments {
    double forward[DEPTH], after[DEPTH]; /* mean squares of pre-activations and activations */
    double backward[DEPTH];              /* of the gradient of pre-activations, for a normal gradient at the end */
} moments;

static moments deep(cj_ctx *c, int depth, squash kind, void (*init)(cj_tensor *w))
{
    moments m = { 0 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *z[DEPTH], *g[DEPTH], *x = cj_randn(c, CJ_SHAPE(ROWS, WIDTH));
    for (int k = 0; k < depth; k++) {
        cj_tensor *w = cj_keep(cj_zeros(c, CJ_SHAPE(WIDTH, WIDTH), CJ_F32));
        init(w);
        z[k] = cj_matmul(x, cj_t(w));
        if (k == 0) z[k] = cj_require_grad(z[k]);
        x = kind == RELU ? cj_relu(z[k]) : kind == TANH ? cj_tanh(z[k]) : z[k];
        m.forward[k] = cj_item(cj_mean(cj_square(z[k])));
        m.after[k] = cj_item(cj_mean(cj_square(x)));
        cj_release(w);
    }
    assert_ok(c);
    cj_tensor *seed = cj_randn(c, CJ_SHAPE(ROWS, WIDTH));
    assert_true(cj_grad(x, z, depth, g, .seed = seed));
    for (int k = 0; k < depth; k++) m.backward[k] = cj_item(cj_mean(cj_square(g[k])));
    cj_scope_close(s);
    return m;
}
static void fan_in_gaussian(cj_tensor *w) { cj_init_kaiming_normal_(w, CJ_FAN_IN, 1); }
static void he(cj_tensor *w) { cj_init_kaiming_normal_(w, CJ_FAN_IN, 0); }
static void he_out(cj_tensor *w) { cj_init_kaiming_normal_(w, CJ_FAN_OUT, 0); }
static void twice_he(cj_tensor *w) { cj_init_kaiming_normal_(w, CJ_FAN_IN, 2); }
static void xavier(cj_tensor *w) { cj_init_xavier_normal_(w, 0); }
static void small(cj_tensor *w) { cj_init_normal_(w, 0, 0.01); }
/* log2 of the change per layer. A layer changes the logarithm of a mean square by about sqrt(2/400), with relu sqrt(5/400), at random: over 30 layers 0.02 to 0.03 per layer. */
static double per_layer(const double *v, int n) { return log2(v[n - 1] / v[0]) / (n - 1); }

/* init.fan_in */
static void init_fan_in(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *dense = cj_param(cj_zeros(c, CJ_SHAPE(500, 200), CJ_F32)), *kernel = cj_param(cj_zeros(c, CJ_SHAPE(400, 30, 3, 3), CJ_F32));
    assert_near(var_of(cj_init_kaiming_normal_(dense, CJ_FAN_IN, 1)) * 200, 1, 0.02);
    assert_near(var_of(cj_init_kaiming_normal_(kernel, CJ_FAN_IN, 1)) * 270, 1, 0.02);
    moments linear = deep(c, DEPTH, LINEAR, fan_in_gaussian), relu = deep(c, DEPTH, RELU, fan_in_gaussian);
    assert_near(per_layer(linear.forward, DEPTH), 0, 0.1);
    assert_near(per_layer(relu.forward, DEPTH), -1, 0.1);
    cj_ctx_free(c);
}

/* init.he */
static void init_he(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(600, 200), CJ_F32));
    assert_near(var_of(cj_init_kaiming_normal_(w, CJ_FAN_IN, 0)) * 200 / 2, 1, 0.02);
    assert_near(var_of(cj_init_kaiming_normal_(w, CJ_FAN_OUT, 0)) * 600 / 2, 1, 0.02);
    assert_near(var_of(cj_init_kaiming_normal_(w, CJ_FAN_MEAN, 0)) * (200 + 600) / 4, 1, 0.02);
    moments flat = deep(c, DEPTH, RELU, he), back = deep(c, DEPTH, RELU, he_out);
    moments falls = deep(c, DEPTH, RELU, fan_in_gaussian), grows = deep(c, DEPTH, RELU, twice_he);
    assert_near(per_layer(flat.forward, DEPTH), 0, 0.1);
    assert_near(-per_layer(back.backward, DEPTH), 0,
                0.05); /* of square matrices fan in and fan out agree; rectangular ones: the variances above */
    assert_near(log10(falls.forward[DEPTH - 1]), -9, 1); /* 2^-30 */
    assert_near(log10(grows.forward[DEPTH - 1]), 9, 1);
    cj_ctx_free(c);
}

static double tanh_squared(double x) { return tanh(x) * tanh(x); }
static double tanh_slope_squared(double x) { return pow(1 - tanh(x) * tanh(x), 2); }
/* the mean of f over a normal variable of variance v, by the trapezoidal rule */
static double normal_mean(double (*f)(double), double v)
{
    double sum = 0, step = 1.0 / 64;
    for (int i = -640; i <= 640; i++) sum += f(sqrt(v) * i * step) * exp(-i * step * i * step / 2);
    return sum * step / sqrt(2 * acos(-1));
}

/* init.xavier */
static void init_xavier(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(900, 600), CJ_F32));
    assert_near(var_of(cj_init_xavier_normal_(w, 0)) * 750, 1, 0.01);
    assert_near(var_of(cj_init_xavier_uniform_(w, 0)) * 750, 1, 0.01);
    assert_true(largest(w) <= sqrt(6.0 / 1500) + 1e-8 && largest(w) > 0.9999 * sqrt(6.0 / 1500));
    moments flat = deep(c, 10, TANH, xavier), decay = deep(c, 10, TANH, small);
    /* what a wide network does: v becomes the mean of tanh(sqrt(v)·n)², gradients are multiplied by the mean of tanh'²: both fall as a power of the depth only.
     * With 0.01 each layer keeps 0.01·sqrt(400) = 0.2 of the deviation, 5e-7 over nine layers. */
    double v = 1, first = 0, slope = 1;
    for (int k = 0; k < 10; k++) {
        if (k == 1) first = v;
        if (k < 9) slope *= normal_mean(tanh_slope_squared, v);
        v = normal_mean(tanh_squared, v);
    }
    double activations = sqrt(flat.after[9] / flat.after[0]), gradients = sqrt(flat.backward[0] / flat.backward[9]);
    assert_near(activations / sqrt(v / first), 1, 0.05);
    assert_near(gradients / sqrt(slope), 1, 0.1);
    assert_true(activations > 0.25 && gradients > 0.25);
    assert_near(per_layer(decay.forward, 10) / 2, log2(0.2), 0.1);
    assert_near(-per_layer(decay.backward, 10) / 2, log2(0.2), 0.1);
    cj_ctx_free(c);
}

/* init.orthogonal */
static double departure(cj_tensor *q) /* |QᵀQ - 1| */
{
    cj_tensor *gram = cj_matmul(cj_t(q), q), *one = cj_eye(cj_tensor_ctx(q), cj_size(q, 1), CJ_F64);
    return sqrt(cj_item(cj_sum(cj_square(cj_sub(gram, one)))));
}
static void init_orthogonal(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *q = cj_param(cj_zeros(c, CJ_SHAPE(40, 40), CJ_F64)), *tall = cj_param(cj_zeros(c, CJ_SHAPE(40, 15), CJ_F64));
    cj_init_orthogonal_(q, 0);
    assert_true(departure(q) < 1e-6);
    assert_true(departure(cj_init_orthogonal_(tall, 0)) < 1e-6); /* rectangular: semi-orthogonal */
    cj_tensor *x = cj_cast(cj_randn(c, CJ_SHAPE(40, 1)), CJ_F64), *y = x;
    for (int k = 0; k < 100; k++) y = cj_matmul(q, y);
    assert_near(sqrt(cj_item(cj_sum(cj_square(y))) / cj_item(cj_sum(cj_square(x)))), 1, 1e-10);
    double last = departure(q); /* gradient steps leave the orthogonal matrices, further each time */
    cj_tensor *data = cj_cast(cj_randn(c, CJ_SHAPE(40, 60)), CJ_F64), *target = cj_cast(cj_randn(c, CJ_SHAPE(40, 60)), CJ_F64), *g;
    for (int step = 0; step < 3; step++) {
        assert_true(cj_grad(cj_mean(cj_square(cj_sub(cj_matmul(q, data), target))), &q, 1, &g));
        bool was = cj_no_grad(c);
        cj_add_(q, g, -0.5);
        cj_grad_mode(c, was);
        assert_ok(c);
        assert_true(departure(q) > last + 1e-3);
        last = departure(q);
    }
    cj_ctx_free(c);
}

/* norm.running_stats */
static void fifteen(void *user, const char *name, cj_tensor *t)
{
    bool counter = strcmp(name, "num_batches_tracked") == 0;
    assert_int_equal(cj_numel(t), counter ? 1 : 15);
    bool one = strcmp(name, "weight") == 0 || strcmp(name, "running_var") == 0,
         trained = strcmp(name, "weight") == 0 || strcmp(name, "bias") == 0;
    for (int i = 0; i < cj_numel(t); i++) assert_near(value_at(t, i), one, 0);
    assert_true(cj_requires_grad(t) == trained);
    if (strcmp(name, "running_mean") == 0) ((cj_tensor **)user)[0] = t;
    if (strcmp(name, "running_var") == 0) ((cj_tensor **)user)[1] = t;
}
static void norm_running_stats(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_module *m = cj_batch_norm_layer(c, 15), *plain = cj_batch_norm_layer(c, 15, .no_affine = true);
    cj_tensor *running[2] = { 0 };
    assert_int_equal(cj_module_state(m, fifteen, running), 5);
    assert_int_equal(cj_params_count(cj_module_params(plain)), 0);
    cj_tensor *x = cj_normal(c, 3, 2, CJ_SHAPE(50, 15)), *y = NULL;
    assert_true(same_bits(cj_forward(m, x), cj_forward(plain, x))); /* scale 1 and shift 0 */
    cj_tensor *mean = cj_mean(x, .axes = CJ_AXIS(0)), *var = cj_var(x, .axes = CJ_AXIS(0));
    assert_near(distance(running[0], cj_mul_scalar(mean, 0.1)), 0, 1e-6); /* momentum 0.1 from 0 and 1, the variance unbiased */
    assert_near(distance(running[1], cj_add_scalar(cj_mul_scalar(var, 0.1), 0.9)), 0, 1e-5);
    for (int k = 0; k < 200; k++) {
        cj_scope s = cj_scope_open(c);
        cj_forward(m, x);
        cj_scope_close(s);
    }
    assert_near(distance(running[0], mean), 0, 1e-5);
    assert_near(distance(running[1], var), 0, 1e-5);
    cj_module_train(m, false);
    y = cj_forward(m, x); /* row 7 alone gives what it gives among the others, by the stored statistics */
    assert_true(same_bits(cj_forward(m, cj_slice(x, 0, 7, 8, 1)), cj_slice(y, 0, 7, 8, 1)));
    assert_near(distance(y, cj_div(cj_sub(x, running[0]), cj_sqrt(cj_add_scalar(running[1], 1e-5)))), 0, 1e-5);
    assert_ok(c);
    cj_ctx_free(c);
}

/* pos.sinusoidal */
static void pos_sinusoidal(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *p = cj_sinusoidal_positions(c, 10000, 128), *wide = cj_cast(p, CJ_F64);
    assert_near(asin(value_at(p, 128)) / 1, 1, 1e-6);                 /* the first frequency, from sin at t = 1 */
    assert_near(asin(value_at(p, 128 + 126)) / 1.154782e-4, 1, 1e-6); /* the 64th */
    cj_tensor *norms = cj_sum(cj_square(wide), .axes = CJ_AXIS(1));
    assert_near(cj_item(cj_min(norms)), 64, 1e-4);
    assert_near(cj_item(cj_max(norms)), 64, 1e-4);
    /* products of t + 300 with 300, of t + 5000 with 5000, and of t with 0: one function of the distance */
    cj_tensor *row[3];
    static const int64_t from[] = { 0, 300, 5000 };
    for (int i = 0; i < 3; i++) row[i] = cj_matmul(cj_slice(wide, 0, from[i], from[i] + 4000, 1), cj_select(wide, 0, from[i]));
    assert_near(distance(row[0], row[1]), 0, 1e-4);
    assert_near(distance(row[0], row[2]), 0, 1e-4);
    /* so no two of the 10000 are equal when none equals the first: |p_t - p_s|² = 2·(64 - p_0·p_(t-s)) */
    cj_tensor *first = cj_matmul(wide, cj_select(wide, 0, 0));
    assert_true(cj_item(cj_max(cj_slice(first, 0, 1, 10000, 1))) < 64 - 1);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_default_uniform), cmocka_unit_test(init_fan_in),     cmocka_unit_test(init_he),
        cmocka_unit_test(init_xavier),          cmocka_unit_test(init_orthogonal), cmocka_unit_test(norm_running_stats),
        cmocka_unit_test(pos_sinusoidal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
