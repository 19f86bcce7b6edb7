/* Catalogue rows of convolutional networks: what they count, what they are made of, and what small ones learn.  ctest: slow */
#include "reader.h"
#include "zoo.h"

extern const cj_model cj_model_lenet5, cj_model_mlp;

TEST_CONTEXT(.threads = 1, .seed = 101);

static int64_t count(cj_module *m) { return cj_params_numel(cj_module_params(m)); }
static cj_module *conv(int64_t in, int64_t out, int64_t kernel)
{
    return cj_conv_layer(c, in, out, CJ_SHAPE(kernel, kernel), .conv = { .padding = kernel / 2 });
}

/* A classifier and rows to learn from. */
typedef struct job {
    cj_module *net;
    cj_tensor *x, *y;
    int64_t batch;
    cj_tensor *(*change)(cj_tensor *x); /* of every batch; may be NULL */
} job;
static cj_tensor *job_loss(void *user, int step)
{
    job *j = user;
    int64_t n = cj_size(j->x, 0), from = (step * j->batch) % (n - j->batch + 1);
    cj_tensor *x = cj_slice(j->x, 0, from, from + j->batch, 1), *y = cj_contiguous(cj_slice(j->y, 0, from, from + j->batch, 1));
    return cj_cross_entropy(cj_forward(j->net, j->change ? j->change(x) : x), y);
}
static void learn(job *j, int steps, double lr) { train_steps(c, cj_adam(cj_module_params(j->net), .lr = lr), steps, job_loss, j); }
static double right(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    double share = cj_accuracy(cj_forward(net, x), y);
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return share;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------------------------------------------- */

static double flops_of(cj_module *m, int64_t inputs)
{
    static cj_module_row row[64];
    int n = cj_module_describe(m, CJ_SHAPE(1, inputs), row, 64);
    assert_true(n > 0 && n <= 64);
    return cj_module_summarise(row, n).flops;
}

/* cnn.lenet5 and cnn.mnist-98: parameters, multiplications and what the last neurons see; docs/results.md has the accuracies on MNIST, 99.33 % and (the MLP) 98.5 % */
static void cnn_lenet5(void **state)
{
    (void)state;
    cj_model_data d = { .inputs = 784, .outputs = 10, .channels = 1, .height = 28, .width = 28 };
    cj_module *lenet = zoo_build(c, &cj_model_lenet5, d, WITH("c1=6")),
              *mlp = zoo_build(c, &cj_model_mlp, d, WITH("hidden=512", "layers=2"));
    assert_int_equal(count(lenet), 61706);
    assert_int_equal(count(mlp), 669706);
    cj_module_train(lenet, false);
    cj_module_train(mlp, false);
    double a = flops_of(lenet, 784), b = flops_of(mlp, 784);
    print_message("LeNet-5: %.0f operations a digit; 784-512-512-10: %.0f\n", a, b);
    assert_true(a < b && b >= 2 * 669706 - 4096);
    int64_t field[5]; /* C1, S2, C3, S4, C5 see all of 32 x 32 */
    assert_true(cj_receptive_field((int64_t[]){ 5, 2, 5, 2, 5 }, (int64_t[]){ 1, 2, 1, 2, 1 }, NULL, 5, field));
    assert_int_equal(field[4], 32);
}

/* ---- parts ---------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Branches side by side, their channels one after the other. */
typedef struct branches {
    int n;
} branches;
static cj_tensor *branches_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_tensor *y[8];
    int n = cj_module_children(m);
    for (int i = 0; i < n; i++) y[i] = cj_forward(cj_module_child(m, i), x);
    return cj_cat(y, n, 1);
}
static const cj_module_type branches_type = { "Branches", branches_forward, NULL };

/* An Inception module (Szegedy et al. 2015) of `in` channels: 1x1 | 1x1, 3x3 | 1x1, 5x5 | pool, 1x1; without reductions the 1x1 before are left out, and the one after the pool. */
static cj_module *inception(int64_t in, const int64_t w[6], bool reduced)
{
    cj_module *m = cj_module_new(c, &branches_type, sizeof(branches));
    cj_module_add(m, "one", conv(in, w[0], 1));
    cj_module_add(m, "three", reduced ? cj_sequential(c, conv(in, w[1], 1), cj_relu_layer(c), conv(w[1], w[2], 3)) : conv(in, w[2], 3));
    cj_module_add(m, "five", reduced ? cj_sequential(c, conv(in, w[3], 1), cj_relu_layer(c), conv(w[3], w[4], 5)) : conv(in, w[4], 5));
    cj_module *pool = cj_max_pool_layer(c, .kernel = 3, .stride = 1, .padding = 1);
    cj_module_add(m, "pool", reduced ? cj_sequential(c, pool, conv(in, w[5], 1)) : pool);
    return m;
}

static cj_tensor *small_inception(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    cj_tensor *x = in[0];
    cj_tensor *y[] = { cj_conv(x, in[1], NULL), cj_conv(cj_tanh(cj_conv(x, in[2], NULL)), in[3], NULL, .padding = 1),
                       cj_conv(cj_max_pool(x, .kernel = 3, .stride = 1, .padding = 1).value, in[4], NULL) };
    return cj_cat(y, 3, 1);
}

/* cnn.inception */
static void cnn_inception(void **state)
{
    (void)state;
    static const int64_t w3a[6] = { 64, 96, 128, 16, 32, 32 };
    cj_scope s = cj_scope_open(c);
    cj_module *m = inception(192, w3a, true), *plain = inception(192, w3a, false);
    assert_int_equal(count(m), 163696);
    assert_int_equal(count(plain), 387296);
    cj_tensor *y = cj_forward(m, cj_randn(c, CJ_SHAPE(1, 192, 4, 4)));
    assert_true(cj_size(y, 1) == 256 && cj_size(y, 2) == 4 && cj_size(y, 3) == 4);
#define N64(...) cj_randn(c, CJ_SHAPE(__VA_ARGS__), .dtype = CJ_F64)
    cj_tensor *in[] = { N64(2, 3, 4, 4), N64(2, 3, 1, 1), N64(2, 3, 1, 1), N64(2, 2, 3, 3), N64(1, 3, 1, 1) };
    cj_gradcheck_result r = cj_gradcheck(c, small_inception, NULL, in, 5);
    if (!r.ok) fail_msg("%s", r.what);
    cj_scope_close(s);
}

/* cnn.aux-classifier: a head half-way up gives early layers a gradient; the total is the weighted sum, exactly */
static void cnn_aux_classifier(void **state)
{
    (void)state;
    enum { DEPTH = 20, D = 16, CLASSES = 5, N = 32 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *w[DEPTH], *h = N64(N, D), *half = NULL, *top = N64(CLASSES, D), *aux = N64(CLASSES, D),
                         *y = cj_randint(c, 0, CLASSES, CJ_SHAPE(N));
    for (int l = 0; l < DEPTH; l++) {
        w[l] = cj_require_grad(cj_mul_scalar(N64(D, D), 1 / sqrt(D)));
        h = cj_sigmoid(cj_linear_op(h, w[l], NULL)); /* a plain deep net: slopes of at most 1/4 */
        if (l == DEPTH / 4) half = h;
    }
    cj_tensor *main_loss = cj_cross_entropy(cj_linear_op(h, top, NULL), y), *aux_loss = cj_cross_entropy(cj_linear_op(half, aux, NULL), y),
              *a, *b, *both;
    assert_true(cj_grad(main_loss, w, 1, &a, .retain = true) && cj_grad(aux_loss, w, 1, &b, .retain = true));
    assert_true(cj_grad(cj_add(main_loss, cj_mul_scalar(aux_loss, 0.3)), w, 1, &both));
    assert_near(distance(both, cj_add(a, cj_mul_scalar(b, 0.3))), 0, 1e-17);
    double without_it = cj_item(cj_norm(a, 2)), with = cj_item(cj_norm(both, 2));
    print_message("first of %d layers: |gradient| %.3g, with a classifier half-way %.3g\n", DEPTH, without_it, with);
    assert_true(with > 100 * without_it);
    cj_scope_close(s);
}

/* y = T·H + (1 - T)·x (Srivastava, Greff & Schmidhuber 2015) */
static cj_tensor *highway_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_tensor *gate = cj_sigmoid(cj_forward(cj_module_child(m, 1), x)), *new = cj_tanh(cj_forward(cj_module_child(m, 0), x));
    return cj_add(x, cj_mul(gate, cj_sub(new, x)));
}
static const cj_module_type highway_type = { "Highway", highway_forward, NULL };
static cj_module *highway(int64_t dim, double bias)
{
    cj_module *m = cj_module_new(c, &highway_type, 0);
    cj_module_add(m, "body", cj_linear(c, dim, dim));
    cj_module *gate = cj_module_add(m, "gate", cj_linear(c, dim, dim, .zero_bias = true));
    cj_init_constant_(cj_params_find(cj_module_params(gate), "bias"), bias);
    return m;
}

static cj_module *deep(bool gated, int64_t in, int64_t dim, int depth)
{
    cj_module *layer[64] = { cj_linear(c, in, dim) };
    int n = 1;
    for (int l = 0; l < depth; l++) layer[n++] = gated ? highway(dim, -2) : cj_sequential(c, cj_linear(c, dim, dim), cj_tanh_layer(c));
    layer[n++] = cj_linear(c, dim, 10);
    layer[n] = NULL;
    return (cj_sequential)(c, layer);
}

/* cnn.highway */
static void cnn_highway(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *shut = highway(6, -1e4), *open = highway(6, 1e4);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(4, 6));
    assert_true(same_bits(cj_forward(shut, x), x));                                                        /* T = 0: the identity */
    assert_near(distance(cj_forward(open, x), cj_tanh(cj_forward(cj_module_child(open, 0), x))), 0, 1e-6); /* T = 1: the plain layer */
    cj_tensor *leaf = cj_require_grad(x), *g, *w = cj_randn(c, CJ_SHAPE(4, 6));
    assert_true(cj_grad(cj_sum(cj_mul(cj_forward(shut, leaf), w)), &leaf, 1, &g));
    assert_near(distance(g, w), 0, 0); /* Jacobian 1 */
    cj_dataset *d = cj_dataset_open(c, "digits");
    double share[2];
    for (int gated = 0; gated < 2; gated++) {
        job j = { deep(gated, 64, 32, 50), d->train_x, d->train_y, 64, NULL };
        learn(&j, 500, 0.003);
        share[gated] = right(j.net, d->train_x, d->train_y);
    }
    print_message("50 layers on the digits: plain %.3f right, highway %.3f\n", share[0], share[1]);
    assert_true(share[1] > 0.9 && share[0] < 0.5);
    cj_dataset_free(d);
    cj_scope_close(s);
}

/* ---- translated 1-D digits ---------------------------------------------------------------------------------------------------------------------------------------- */

enum { POINTS = 40, SHAPE = 12, TRAIN = 4000, TEST_ROWS = 1000 };

/* Ten smooth shapes of twelve points, each at a random place of forty, of a random size, with noise. */
static void digits_1d(int n, float *x, int64_t *y)
{
    static float shape[10 * SHAPE], noise[(TRAIN + TEST_ROWS) * POINTS], size[TRAIN + TEST_ROWS];
    static int64_t place[TRAIN + TEST_ROWS];
    cj_to_f32(cj_randn(c, CJ_SHAPE(10, SHAPE)), shape, 10 * SHAPE);
    cj_to_f32(cj_mul_scalar(cj_randn(c, CJ_SHAPE(n, POINTS)), 0.3), noise, (int64_t)n * POINTS);
    cj_to_f32(cj_uniform(c, 0.7, 1.3, CJ_SHAPE(n)), size, n);
    cj_to_i64(cj_randint(c, 0, POINTS - SHAPE + 1, CJ_SHAPE(n)), place, n);
    for (int k = 0; k < 10 * SHAPE; k++)
        if (k % SHAPE) shape[k] = 0.7f * shape[k - 1] + 0.7f * shape[k];
    for (int i = 0; i < n; i++) {
        y[i] = i % 10;
        for (int t = 0; t < POINTS; t++) {
            int64_t k = t - place[i];
            x[i * POINTS + t] = noise[i * POINTS + t] + (k >= 0 && k < SHAPE ? size[i] * shape[y[i] * SHAPE + k] : 0);
        }
    }
}

/* Convolutions against dense layers of fifteen times their size: about half the errors, whichever shapes were drawn. */
static void translated_digits(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    static float x[(TRAIN + TEST_ROWS) * POINTS];
    static int64_t y[TRAIN + TEST_ROWS];
    cj_seed(c, 102);
    digits_1d(TRAIN + TEST_ROWS, x, y);
    cj_tensor *all = cj_from_f32(c, x, CJ_SHAPE(TRAIN + TEST_ROWS, 1, POINTS)), *classes = cj_from_i64(c, y, CJ_SHAPE(TRAIN + TEST_ROWS));
    cj_tensor *train = cj_slice(all, 0, 0, TRAIN, 1), *test = cj_slice(all, 0, TRAIN, CJ_END, 1),
              *train_y = cj_slice(classes, 0, 0, TRAIN, 1), *test_y = cj_contiguous(cj_slice(classes, 0, TRAIN, CJ_END, 1));
    const cj_conv_opts two = { .stride = 2 };
#define CONV(in) cj_conv_layer(c, in, 15, CJ_SHAPE(3), .conv = two), cj_relu_layer(c)
    cj_module *net[2] = { cj_sequential(c, CONV(1), CONV(15), CONV(15), cj_flatten_layer(c), cj_linear(c, 60, 10)),
                          cj_sequential(c, cj_flatten_layer(c), cj_linear(c, POINTS, 150), cj_relu_layer(c), cj_linear(c, 150, 150),
                                        cj_relu_layer(c), cj_linear(c, 150, 10)) };
    assert_int_equal(count(net[0]), 60 + 690 + 690 + 610);
    double error[2][2];
    for (int k = 0; k < 2; k++) {
        job j = { net[k], train, train_y, 100, NULL };
        learn(&j, k ? 2000 : 3000, k ? 0.002 : 0.005);
        learn(&j, 400, 0.0005);
        error[k][0] = 1 - right(net[k], train, cj_contiguous(train_y)), error[k][1] = 1 - right(net[k], test, test_y);
    }
    print_message("1-D digits: %d parameters of convolutions, error %.3f in training, %.3f in the test; %d of dense layers %.3f, %.3f\n",
                  (int)count(net[0]), error[0][0], error[0][1], (int)count(net[1]), error[1][0], error[1][1]);
    assert_true(error[0][0] < 0.05 && error[1][0] < 0.05);
    assert_true(error[0][1] < 0.75 * error[1][1]);
    cj_scope_close(s);
}

/* ---- images ------------------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *as_images(cj_tensor *x, int64_t side) { return cj_reshape(cj_contiguous(x), CJ_SHAPE(-1, 1, side, side)); }
static cj_module *small_cnn(int64_t flat)
{
    return cj_sequential(c, conv(1, 8, 3), cj_relu_layer(c), cj_max_pool_layer(c, .kernel = 2), conv(8, 16, 3), cj_relu_layer(c),
                         cj_max_pool_layer(c, .kernel = 2), cj_flatten_layer(c), cj_linear(c, flat, 10));
}

/* One answer for wherever a thing is: convolutions, then the maximum over all places. */
static cj_module *anywhere_cnn(void)
{
    return cj_sequential(c, conv(1, 16, 5), cj_relu_layer(c), conv(16, 32, 5), cj_global_max_pool_layer(c), cj_linear(c, 32, 10));
}

/* cnn.classification */
static void cnn_classification(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_module *net = small_cnn(64);
    cj_init_constant_(cj_params_find(cj_module_params(net), "7.weight"), 0);
    cj_init_constant_(cj_params_find(cj_module_params(net), "7.bias"), 0); /* every class as likely */
    cj_tensor *x = as_images(d->test_x, 8), *y = d->test_y, *logits = cj_forward(net, x);
    assert_near(cj_item(cj_cross_entropy(logits, y)), log(10), 1e-6);
    double guess = 0;
    for (int64_t k = 0; k < 10; k++) guess += cj_item(cj_mean(cj_cast(cj_eq_scalar(y, (double)k), CJ_F32))) / 10;
    assert_near(guess, 0.1, 1e-7);
    assert_near(cj_accuracy(logits, y), 0.1, 0.05); /* of equal scores the first class */
    job j = { net, as_images(d->train_x, 8), d->train_y, 64, NULL };
    learn(&j, 500, 0.005);
    logits = cj_forward(net, x);
    double before = 1, share = cj_accuracy(logits, y);
    for (int64_t k = 1; k <= 10; k++) {
        double error = 1 - cj_top_k_accuracy(logits, y, k);
        assert_true(error <= before);
        before = error;
    }
    assert_near(before, 0, 0);
    cj_tensor *confusion = cj_confusion_matrix(cj_argmax(logits, .axes = CJ_AXIS(-1)), y, 10);
    double trace = cj_item(cj_sum(cj_diagonal(confusion, 0, 0, 1))), n = cj_item(cj_sum(confusion));
    assert_near(trace / n, share, 1e-12);
    print_message("digits: %.3f right, top-5 error %.4f\n", share, 1 - cj_top_k_accuracy(logits, y, 5));
    assert_true(share > 0.95 && n == (double)cj_numel(y));
    cj_dataset_free(d);
    cj_scope_close(s);
}

/* cnn.pixel-permutation: dense layers do not know where pixels lie */
static void cnn_pixel_permutation(void **state)
{
    (void)state;
    enum { FEW = 1000, SIDE = 12 };
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *part[2], *y = cj_slice(d->train_y, 0, 0, FEW, 1), *order = cj_argsort(cj_rand(c, CJ_SHAPE(SIDE * SIDE)), 0);
    for (int k = 0; k < 2; k++) { /* each digit at a place of its own */
        cj_tensor *image = cj_pad(as_images(k ? d->test_x : cj_slice(d->train_x, 0, 0, FEW, 1), 8), CJ_SHAPE(2, 2), CJ_SHAPE(2, 2));
        part[k] = cj_flatten(cj_augment(image, .pad = 2, .seed = 5 + (uint64_t)k), 1);
    }
    cj_tensor *x = part[0];
    double share[3][2] = { 0 };
    static const char *const names[] = { "linear", "mlp", "cnn" };
    for (int kind = 0; kind < 3; kind++)
        for (int moved = 0; moved < 2; moved++)
            for (int seed = 0; seed < 2; seed++) {
                cj_seed(c, 102 + (uint64_t)seed);
                cj_module *net = kind == 0   ? cj_sequential(c, cj_linear(c, SIDE * SIDE, 10))
                                 : kind == 1 ? cj_sequential(c, cj_linear(c, SIDE * SIDE, 64), cj_relu_layer(c), cj_linear(c, 64, 10))
                                             : anywhere_cnn();
                if (kind < 2 && moved) { /* weights that go with the pixels: the same numbers all the way */
                    cj_tensor *w = cj_params_find(cj_module_params(net), "0.weight");
                    bool was = cj_no_grad(c);
                    cj_assign_(w, cj_index_select(w, 1, order));
                    cj_grad_mode(c, was);
                }
                cj_tensor *in = moved ? cj_index_select(x, 1, order) : x, *test = moved ? cj_index_select(part[1], 1, order) : part[1];
                job j = { net, kind == 2 ? as_images(in, SIDE) : in, y, 50, NULL };
                learn(&j, 200, 0.005);
                share[kind][moved] += right(net, kind == 2 ? as_images(test, SIDE) : test, d->test_y) / 2;
            }
    for (int kind = 0; kind < 3; kind++)
        print_message("%s: %.3f right, with all pixels moved %.3f\n", names[kind], share[kind][0], share[kind][1]);
    assert_near(share[0][0], share[0][1], 0.003); /* sums in another order, nothing else */
    assert_near(share[1][0], share[1][1], 0.006);
    assert_true(share[2][0] - share[2][1] > 0.1);
    cj_dataset_free(d);
    cj_scope_close(s);
}

static cj_tensor *shifted(cj_tensor *x)
{
    static int64_t step[2];
    cj_to_i64(cj_randint(c, -2, 3, CJ_SHAPE(2)), step, 2);
    return cj_shift(x, (double)step[0], (double)step[1], false);
}

/* cnn.mlp-augment: what shifted copies teach a dense net, at many times the steps, weight sharing has from the beginning */
static void cnn_mlp_augment(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *x = cj_pad(as_images(d->train_x, 8), CJ_SHAPE(2, 2), CJ_SHAPE(2, 2)),
              *test = cj_pad(as_images(d->test_x, 8), CJ_SHAPE(2, 2), CJ_SHAPE(2, 2));
    double share[3] = { 0 };
    for (int k = 0; k < 3; k++) { /* dense; dense on shifted copies, ten times as long; convolutions and a maximum over all places */
        cj_module *net =
            k < 2 ? cj_sequential(c, cj_flatten_layer(c), cj_linear(c, 144, 128), cj_relu_layer(c), cj_linear(c, 128, 10)) : anywhere_cnn();
        job j = { net, x, d->train_y, 64, k == 1 ? shifted : NULL };
        learn(&j, k == 1 ? 2500 : 250, k == 1 ? 0.002 : 0.005);
        for (int down = -2; down <= 2; down += 2)
            for (int across = -2; across <= 2; across += 2) share[k] += right(net, cj_shift(test, down, across, false), d->test_y) / 9;
    }
    print_message("shifted digits: mlp %.3f right, with 10 times the steps on shifted copies %.3f, cnn without any %.3f\n", share[0],
                  share[1], share[2]);
    assert_true(share[1] > share[0] + 0.1 && share[2] > share[0] + 0.1 && fabs(share[1] - share[2]) < share[1] - share[0]);
    cj_dataset_free(d);
    cj_scope_close(s);
}

static void keep_map(void *user, cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)m, (void)x;
    *(cj_tensor **)user = cj_keep(y);
}

static double correlation(cj_tensor *a, cj_tensor *b)
{
    cj_tensor *x = cj_sub(a, cj_mean(a)), *y = cj_sub(b, cj_mean(b));
    return cj_item(cj_sum(cj_mul(x, y))) / (cj_item(cj_norm(x, 2)) * cj_item(cj_norm(y, 2)) + 1e-12);
}

/* cnn.feature-maps */
static void cnn_feature_maps(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *colour = cj_sequential(c, conv(3, 10, 3), cj_relu_layer(c));
    cj_tensor *before = NULL, *after = NULL, *picture = cj_rand(c, CJ_SHAPE(1, 3, 12, 12));
    cj_module_hook(cj_module_child(colour, 0), keep_map, &before); /* pre- and post-activations */
    cj_module_hook(cj_module_child(colour, 1), keep_map, &after);
    cj_forward(colour, picture);
    cj_module_hook(cj_module_child(colour, 0), NULL, NULL);
    cj_params *p = cj_module_params(colour);
    assert_true(same_bits(before, cj_conv(picture, cj_params_at(p, 0), cj_params_at(p, 1), .padding = 1)));
    assert_true(same_bits(after, cj_relu(before)));
    assert_int_equal(cj_size(before, 1), 10); /* one grey image for each channel */
    double *grey = values_of(cj_contiguous(cj_div(cj_sub(before, cj_min(before)), cj_sub(cj_max(before), cj_min(before)))));
    cj_plot *sheet = cj_plot_new(c, "ten maps");
    assert_true(cj_plot_images(sheet, grey, 10, 1, 12, 12));
    cj_plot_free(sheet);
    free(grey);
    cj_release(before);
    cj_release(after);
    /* maps of a network that knows digits look like edges: the best of twelve directions of a derivative */
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_module *net = small_cnn(64);
    double best[2] = { 0 };
    cj_tensor *x = as_images(cj_slice(d->test_x, 0, 0, 100, 1), 8), *w = cj_params_find(cj_module_params(net), "0.weight");
    job j = { net, as_images(d->train_x, 8), d->train_y, 64, NULL };
    learn(&j, 300, 0.005);
    cj_tensor *maps = cj_conv(x, w, NULL, .padding = 1);
    for (int k = 0; k < 8; k++) {
        double most = 0;
        for (int angle = 0; angle < 12; angle++) {
            float edge[9];
            for (int i = 0; i < 9; i++)
                edge[i] = (float)((i / 3 - 1) * sin(angle * M_PI / 12) + (i % 3 - 1) * cos(angle * M_PI / 12)) *
                          (i == 1 || i == 3 || i == 5 || i == 7 ? 2.0f : 1.0f);
            cj_tensor *e = cj_conv(x, cj_from_f32(c, edge, CJ_SHAPE(1, 1, 3, 3)), NULL, .padding = 1);
            most = fmax(most, fabs(correlation(cj_slice(maps, 1, k, k + 1, 1), e)));
        }
        best[0] += most / 8, best[1] = fmax(best[1], most);
    }
    print_message("maps of the first layer and edges: correlation %.2f on average, %.2f at best\n", best[0], best[1]);
    assert_true(best[0] > 0.5 && best[1] > 0.8);
    cj_dataset_free(d);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cnn_lenet5),
        cmocka_unit_test(cnn_inception),
        cmocka_unit_test(cnn_aux_classifier),
        cmocka_unit_test(cnn_highway),
        cmocka_unit_test(translated_digits),
        cmocka_unit_test(cnn_classification),
        cmocka_unit_test(cnn_pixel_permutation),
        cmocka_unit_test(cnn_mlp_augment),
        cmocka_unit_test(cnn_feature_maps),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
