/* Catalogue rows on convolutional networks that need training runs, and the tuner: rotation, pooling, the choice of an algorithm. */
/* ctest: alone slow */
#include "experiment.h"

#include <time.h>

TEST_CONTEXT(.threads = 1, .seed = 89);

/* ---- quarter turns -------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *flipped(cj_tensor *x, int axis) { return cj_slice(x, axis, CJ_END, CJ_END, -1); }
/* the last two axes by k quarter turns */
static cj_tensor *turned(cj_tensor *x, int k)
{
    int n = cj_ndim(x);
    switch (k & 3) {
    case 1: return flipped(cj_transpose(x, n - 2, n - 1), n - 2);
    case 2: return flipped(flipped(x, n - 2), n - 1);
    case 3: return flipped(cj_transpose(x, n - 2, n - 1), n - 1);
    default: return x;
    }
}
/* images [n, 1, 8, 8]: the i-th by i quarter turns */
static cj_tensor *each_turned(cj_tensor *x)
{
    cj_tensor *all[4], *which = cj_remainder(cj_arange(c, 0, (double)cj_size(x, 0), 1, CJ_I64), cj_full(c, 4, CJ_SCALAR, CJ_I64));
    cj_tensor *sum = cj_zeros_like(x);
    for (int k = 0; k < 4; k++) {
        all[k] = cj_reshape(cj_cast(cj_eq_scalar(which, k), CJ_F32), CJ_SHAPE(-1, 1, 1, 1));
        sum = cj_add(sum, cj_mul(all[k], turned(x, k)));
    }
    return sum;
}

/* A bank of filters and of templates on their responses, both also in `orientations` quarter turns; the best orientation counts. One orientation: a plain CNN. */
typedef struct bank {
    cj_module *conv, *head;
    int orientations;
} bank;
static cj_tensor *bank_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const bank *b = self;
    cj_params *p = cj_module_params(b->conv);
    cj_tensor *w = cj_params_find(p, "weight"), *bias = cj_params_find(p, "bias"), *score[4];
    for (int k = 0; k < b->orientations; k++) { /* turned filters; their responses turned back meet the templates */
        cj_tensor *response = cj_relu(cj_conv(x, cj_contiguous(turned(w, k)), bias, .padding = 1));
        score[k] = cj_forward(b->head, cj_contiguous(turned(response, 4 - k)));
    }
    return b->orientations == 1 ? score[0] : cj_max(cj_stack(score, b->orientations, 0), .axes = CJ_AXIS(0));
}
static const cj_module_type bank_type = { "Bank", bank_forward, NULL };
static cj_module *bank_new(int orientations)
{
    cj_module *m = cj_module_new(c, &bank_type, sizeof(bank));
    bank *b = cj_module_self(m);
    b->orientations = orientations;
    b->conv = cj_module_add(m, "conv", cj_conv_layer(c, 1, 8, CJ_SHAPE(3, 3)));
    b->head = cj_module_add(m, "head", cj_sequential(c, cj_max_pool_layer(c, .kernel = 2), cj_flatten_layer(c), cj_linear(c, 8 * 16, 10)));
    return m;
}

/* [n, 1, 8, 8] around its middle: logarithms of radii down, 16 angles across, where a turn is a shift */
enum { RADII = 6, ANGLES = 16 };
static cj_tensor *polar_grid(void)
{
    double at[RADII][ANGLES][2];
    for (int r = 0; r < RADII; r++)
        for (int a = 0; a < ANGLES; a++) {
            double radius = 0.7 * pow(4.4 / 0.7, r / (RADII - 1.)) / 4, angle = 2 * M_PI * a / ANGLES;
            at[r][a][0] = radius * cos(angle), at[r][a][1] = radius * sin(angle);
        }
    return cj_cast(f64(c, &at[0][0][0], CJ_SHAPE(1, RADII, ANGLES, 2)), CJ_F32);
}
static cj_tensor *log_polar(cj_tensor *grid, cj_tensor *x)
{
    return cj_grid_sample(x, cj_contiguous(cj_expand(grid, CJ_SHAPE(cj_size(x, 0), RADII, ANGLES, 2))));
}
/* filters over all radii and 7 angles, round the circle; the best angle counts */
static cj_tensor *polar_forward(cj_module *m, void *self, cj_tensor *x)
{
    cj_tensor *p = log_polar(*(cj_tensor **)self, x), *round = cj_cat(CJ_TENSORS(p, cj_slice(p, 3, 0, 6, 1)), 2, 3);
    cj_tensor *h = cj_max(cj_relu(cj_forward(cj_module_child(m, 0), round)), .axes = CJ_AXES(2, 3));
    return cj_forward(cj_module_child(m, 1), h);
}
static const cj_module_type polar_type = { "Polar", polar_forward, NULL };

static void conv_rotation(void **state) /* conv.rotation */
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_reshape(d->train_x, CJ_SHAPE(-1, 1, 8, 8)), *y = d->train_y, *test = cj_reshape(d->test_x, CJ_SHAPE(-1, 1, 8, 8));
    cj_tensor *test_turned = each_turned(test), *all[4], *labels[4];
    for (int k = 0; k < 4; k++) all[k] = turned(x, k), labels[k] = y;
    cj_module *plain = bank_new(1), *augmented = bank_new(1), *four = bank_new(4),
              *polar = cj_module_new(c, &polar_type, sizeof(cj_tensor *));
    cj_tensor *grid = *(cj_tensor **)cj_module_self(polar) = cj_module_buffer(polar, "grid", polar_grid());
    cj_module_add(polar, "conv", cj_conv_layer(c, 1, 48, CJ_SHAPE(RADII, 7)));
    cj_module_add(polar, "head", cj_linear(c, 48, 10));
    enum { STEPS = 400 };
    fit(plain, cj_adam(cj_module_params(plain), .lr = 0.005), x, y, 64, STEPS);
    fit(augmented, cj_adam(cj_module_params(augmented), .lr = 0.005), cj_cat(all, 4, 0), cj_cat(labels, 4, 0), 64, 2 * STEPS);
    fit(four, cj_adam(cj_module_params(four), .lr = 0.005), x, y, 64, STEPS);
    fit(polar, cj_adam(cj_module_params(polar), .lr = 0.01), x, y, 64, 2 * STEPS);
    double upright = accuracy_of(plain, test, d->test_y), lost = upright - accuracy_of(plain, test_turned, d->test_y);
    double route[3] = { accuracy_of(augmented, test_turned, d->test_y), accuracy_of(four, test_turned, d->test_y),
                        accuracy_of(polar, test_turned, d->test_y) };
    print_message("upright %.3f, turned %.3f; turned with augmentation %.3f, with a bank of 4 orientations %.3f, log-polar %.3f\n", upright,
                  upright - lost, route[0], route[1], route[2]);
    assert_true(upright > 0.9 && lost > 0.3);
    for (int i = 0; i < 3; i++) assert_true(route[i] > upright - lost / 2);
    /* exactly invariant: the same scores for all turns of an image */
    cj_tensor *few = cj_slice(test, 0, 0, 20, 1), *score = cj_forward(four, few);
    for (int k = 1; k < 4; k++) {
        assert_near(distance(cj_forward(four, cj_contiguous(turned(few, k))), score), 0, 1e-4);
        assert_true(distance(cj_forward(plain, cj_contiguous(turned(few, k))), cj_forward(plain, few)) > 1);
    }
    /* a quarter turn of the image is a shift by 4 of 16 angles */
    cj_tensor *p = log_polar(grid, few), *q = log_polar(grid, cj_contiguous(turned(few, 3)));
    assert_near(distance(cj_cat(CJ_TENSORS(cj_slice(p, 3, 12, 16, 1), cj_slice(p, 3, 0, 12, 1)), 2, 3), q), 0, 1e-5);
    cj_scope_close(s);
    cj_dataset_free(d);
}

/* ---- pooling ------------------------------------------------------------------------------------------------------------------------------------------------------ */

/* by one pixel to the right and one down, zeros behind */
static cj_tensor *shifted(cj_tensor *x, int64_t by)
{
    cj_tensor *wide = cj_pad(x, CJ_SHAPE(by, by), CJ_SHAPE(0, 0));
    return cj_contiguous(cj_slice(cj_slice(wide, 2, 0, cj_size(x, 2), 1), 3, 0, cj_size(x, 3), 1));
}

static void pool_tradeoff(void **state) /* pool.tradeoff */
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_scope s = cj_scope_open(c);
    enum { SIZES = 4, CHANNELS = 8 };
    cj_tensor *x = cj_reshape(d->train_x, CJ_SHAPE(-1, 1, 8, 8)), *test = cj_reshape(d->test_x, CJ_SHAPE(-1, 1, 8, 8)),
              *moved = shifted(test, 1);
    double clean[SIZES], robust[SIZES];
    for (int i = 0; i < SIZES; i++) {
        int64_t size = 1 << i, left = 8 / size;
        cj_module *net = cj_sequential(c, cj_conv_layer(c, 1, CHANNELS, CJ_SHAPE(3, 3), .conv = { .padding = 1 }), cj_relu_layer(c),
                                       cj_max_pool_layer(c, .kernel = size), cj_flatten_layer(c), cj_linear(c, CHANNELS * left * left, 10));
        fit(net, cj_adam(cj_module_params(net), .lr = 0.005), x, d->train_y, 64, 400);
        clean[i] = accuracy_of(net, test, d->test_y), robust[i] = accuracy_of(net, moved, d->test_y) / clean[i];
        print_message("pooling %ld: clean %.3f, kept after a shift of one pixel %.3f\n", (long)size, clean[i], robust[i]);
        if (i) assert_true(robust[i] > robust[i - 1]);
    }
    assert_true(clean[3] < clean[1] - 0.1 && robust[3] > robust[0] + 0.3);
    /* the same features under a top layer of ones, the sum of a map per class, and under a learned one */
    double top[2];
    for (int learned = 0; learned < 2; learned++) {
        cj_module *map = cj_conv_layer(c, 1, 10, CJ_SHAPE(3, 3), .conv = { .padding = 1 });
        cj_module *net = learned ? cj_sequential(c, map, cj_relu_layer(c), cj_flatten_layer(c), cj_linear(c, 640, 10))
                                 : cj_sequential(c, map, cj_relu_layer(c), cj_global_avg_pool_layer(c));
        fit(net, cj_adam(cj_module_params(net), .lr = 0.005), x, d->train_y, 64, 400);
        top[learned] = accuracy_of(net, test, d->test_y);
    }
    print_message("top layer of ones %.3f, learned %.3f\n", top[0], top[1]);
    assert_true(top[0] < top[1] - 0.2);
    cj_scope_close(s);
    cj_dataset_free(d);
}

/* ---- the tuner ------------------------------------------------------------------------------------------------------------------------------------------------------ */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double time_of(cj_conv_algorithm a, cj_tensor *x, cj_tensor *w)
{
    double least = INFINITY;
    for (int i = 0; i < 12; i++) {
        cj_scope s = cj_scope_open(c);
        double start = seconds();
        cj_conv_by(a, x, w, NULL, .padding = 1);
        least = fmin(least, seconds() - start);
        cj_scope_close(s);
    }
    return least;
}
static cj_tensor *by_algorithm(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_conv_by(*(cj_conv_algorithm *)user, in[0], in[1], in[2], .padding = 1);
}

static void conv_autotune(void **state) /* conv.autotune */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_conv_tuner *t = cj_conv_tuner_new(c);
    enum { SHAPES = 3 };
    const int64_t shape[SHAPES][4] = { { 4, 16, 24, 3 }, { 1, 3, 40, 5 }, { 1, 1, 128, 61 } }; /* images, channels, side, kernel */
    for (int i = 0; i < SHAPES; i++) {
        const int64_t *g = shape[i];
        cj_tensor *x = cj_randn(c, CJ_SHAPE(g[0], g[1], g[2], g[2])),
                  *w = cj_mul_scalar(cj_randn(c, CJ_SHAPE(g[1], g[1], g[3], g[3])), 1.0 / (double)g[3]), *b = cj_randn(c, CJ_SHAPE(g[1]));
        cj_tensor *y = cj_conv(x, w, b, .padding = 1);
        for (int a = 0; a < CJ_CONV_ALGORITHMS; a++)
            assert_near(distance(cj_conv_by((cj_conv_algorithm)a, x, w, b, .padding = 1), y), 0, 2e-4);
        cj_conv_tuner_enable(t, false);
        assert_true(same_bits(cj_conv_tuned(t, x, w, b, .padding = 1), y) && same_bits(cj_conv_tuned(t, x, w, b, .padding = 1), y));
        assert_int_equal(cj_conv_tuner_count(t), i);
        cj_conv_tuner_enable(t, true);
        assert_near(distance(cj_conv_tuned(t, x, w, b, .padding = 1), y), 0, 2e-4);
        assert_int_equal(cj_conv_tuner_count(t), i + 1);
        cj_conv_timing found = cj_conv_tuner_at(t, i);
        cj_conv_tuned(t, x, w, b, .padding = 1);
        assert_int_equal(cj_conv_tuner_count(t), i + 1); /* known by now */
        double best = INFINITY, chosen = 0;
        for (int a = 0; a < CJ_CONV_ALGORITHMS; a++) {
            assert_true(isfinite(found.seconds[a]) && found.seconds[found.algorithm] <= found.seconds[a]);
            double took = time_of((cj_conv_algorithm)a, x, w);
            best = fmin(best, took);
            if (a == (int)found.algorithm) chosen = took;
        }
        print_message("%ld x %ld channels, kernel %ld: %.3g, %.3g, %.3g ms; choice %d takes %.2f of the best\n", (long)g[2], (long)g[1],
                      (long)g[3], 1e3 * found.seconds[0], 1e3 * found.seconds[1], 1e3 * found.seconds[2], (int)found.algorithm,
                      chosen / best);
        assert_true(chosen <= 1.1 * best);
    }
    /* strides and dilations, and derivatives of all */
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 2, 7, 6), .dtype = CJ_F64), *w = cj_randn(c, CJ_SHAPE(3, 2, 3, 2), .dtype = CJ_F64),
              *in[] = { x, w, cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64) };
    for (int a = 0; a < CJ_CONV_ALGORITHMS; a++) {
        cj_conv_algorithm which = (cj_conv_algorithm)a;
        assert_true(cj_gradcheck(c, by_algorithm, &which, in, 3).ok);
    }
    cj_conv_opts strided = { .strides = CJ_SHAPE(2, 1), .dilations = CJ_SHAPE(1, 2), .paddings = CJ_SHAPE(1, 2) };
    assert_near(distance((cj_conv_by)(CJ_CONV_COLUMNS, x, w, NULL, &strided), (cj_conv)(x, w, NULL, &strided)), 0, 1e-12);
    assert_poisoned(CJ_EVALUE, "conv_by: FFT does not take this convolution of [2, 2, 7, 6] by [3, 2, 3, 2]",
                    (cj_conv_by)(CJ_CONV_FFT, x, w, NULL, &strided));
    cj_conv_tuned(t, x, w, NULL, .stride = 2); /* only two can */
    assert_true(isinf(cj_conv_tuner_at(t, SHAPES).seconds[CJ_CONV_FFT]));
    cj_conv_tuner_free(t);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_rotation),
        cmocka_unit_test(pool_tradeoff),
        cmocka_unit_test(conv_autotune),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
