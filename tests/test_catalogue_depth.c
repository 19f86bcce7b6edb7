/* Catalogue rows on training deep networks: plain and residual twins, batch norm, gradients along a line. */
/* ctest: slow */
#include "experiment.h"

TEST_CONTEXT(.threads = 1, .seed = 71);

static cj_dataset *digits(void)
{
    static cj_dataset *d;
    static cj_ctx *of;
    if (of != c) d = cj_dataset_open(c, "digits", .held_out = 0.3), of = c;
    return d;
}

enum { WIDTH = 32, MOST = 64 };
typedef enum kind { PLAIN, USUAL, USUAL_NORMED, NORMED, RESIDUAL, RELU_LAST, NORMED_RESIDUAL } kind;

static cj_module *block(kind k, int blocks)
{
    cj_module *relu = cj_relu_layer(c);
    switch (k) {
    case PLAIN: return cj_sequential(c, relu, he_linear(c, WIDTH, WIDTH));
    case USUAL: return cj_sequential(c, relu, cj_linear(c, WIDTH, WIDTH)); /* weights uniform in ±1/sqrt(inputs) */
    case USUAL_NORMED: return cj_sequential(c, cj_batch_norm_layer(c, WIDTH), relu, cj_linear(c, WIDTH, WIDTH));
    case NORMED: return cj_sequential(c, cj_batch_norm_layer(c, WIDTH), relu, he_linear(c, WIDTH, WIDTH));
    case NORMED_RESIDUAL: return cj_residual_layer(c, block(NORMED, blocks), NULL);
    default: break;
    }
    /* without batch norm: branches small enough that all together have the variance of the input */
    cj_module *linear = cj_linear(c, WIDTH, WIDTH, .init_std = sqrt(2.0 / WIDTH / blocks), .zero_bias = true);
    return cj_residual_layer(c, k == RESIDUAL ? cj_sequential(c, relu, linear) : cj_sequential(c, linear, relu), NULL);
}

/* A first layer to WIDTH units, blocks of one layer, a last one to the classes. */
static cj_module *deep(kind k, int blocks)
{
    cj_module *m[MOST + 4] = { he_linear(c, 64, WIDTH) };
    for (int i = 0; i < blocks; i++) m[i + 1] = block(k, blocks);
    m[blocks + 1] = cj_relu_layer(c), m[blocks + 2] = he_linear(c, WIDTH, 10);
    return (cj_sequential)(c, m);
}

static cj_module *trained_on(cj_tensor *x, cj_tensor *y, kind k, int blocks, double lr, int steps)
{
    cj_module *net = deep(k, blocks);
    cj_optim *sgd = cj_sgd(cj_module_params(net), .lr = lr, .momentum = 0.9);
    cj_rate falling = cj_rate_cosine(lr, 0, steps);
    cj_optim_schedule(sgd, &falling);
    fit(net, sgd, x, y, 64, steps);
    return net;
}
static cj_module *trained(kind k, int blocks, double lr, int steps)
{
    return trained_on(digits()->train_x, digits()->train_y, k, blocks, lr, steps);
}
static double training_loss(kind k, int blocks, double lr, int steps)
{
    return loss_of(trained(k, blocks, lr, steps), digits()->train_x, digits()->train_y);
}

/* With batch norm, as in He et al. 2016: the deeper plain net is worse on the rows it is trained on, so it is not a matter of overfitting; its residual twin is not. */
static void resid_degradation(void **state) /* resid.degradation */
{
    (void)state;
    const cj_dataset *d = digits();
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_slice(d->train_x, 0, 0, 500, 1), *y = cj_slice(d->train_y, 0, 0, 500, 1);
    double loss[2][2], train[2][2], test[2][2];
    for (int residual = 0; residual < 2; residual++)
        for (int deeper = 0; deeper < 2; deeper++) {
            cj_module *net = trained_on(x, y, residual ? NORMED_RESIDUAL : NORMED, deeper ? 56 : 20, 0.02, 500);
            loss[residual][deeper] = loss_of(net, x, y);
            train[residual][deeper] = 1 - accuracy_of(net, x, y);
            test[residual][deeper] = 1 - accuracy_of(net, d->test_x, d->test_y);
        }
    print_message("training loss of 20 and 56 layers: plain %.3f %.3f, residual %.4f %.4f\n", loss[0][0], loss[0][1], loss[1][0],
                  loss[1][1]);
    assert_true(loss[0][1] > loss[0][0] + 0.5 && train[0][1] > train[0][0] + 0.2 && test[0][1] > test[0][0] + 0.2);
    assert_true(train[1][1] <= train[1][0]); /* all rows right */
    assert_true(loss[1][0] < 0.05 && loss[1][1] < 0.05);
    assert_near(test[1][1], test[1][0], 0.04); /* 539 rows: three deviations of a difference of error rates near 5 % are 4 % */
    cj_scope_close(s);
}

/* ReLU at the end of a branch can only add: no unit ever falls. Before the linear map it goes both ways, and 40 blocks bear a larger learning rate. */
static void resid_order(void **state) /* resid.order */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    int falls[2] = { 0 }, rises[2] = { 0 };
    for (int last = 0; last < 2; last++) {
        cj_tensor *h = cj_randn(c, CJ_SHAPE(50, WIDTH));
        for (int i = 0; i < 20; i++) {
            cj_tensor *next = cj_forward(block(last ? RELU_LAST : RESIDUAL, 20), h), *change = cj_sub(next, h);
            falls[last] += cj_item(cj_min(change))<0, rises[last] += cj_item(cj_max(change))> 0;
            h = next;
        }
    }
    assert_true(falls[1] == 0 && rises[1] == 20);
    assert_true(falls[0] == 20 && rises[0] == 20);
    enum { SEEDS = 5 };
    double loss[2] = { 0 };
    for (int i = 0; i < 2 * SEEDS; i++) loss[i % 2] += fmin(training_loss(i % 2 ? RELU_LAST : RESIDUAL, 40, 0.03, 250), 10) / SEEDS;
    print_message("40 blocks, learning rate 0.03: ReLU first %.3f, ReLU last %.3f\n", loss[0], loss[1]);
    assert_true(loss[0] < 0.5 * loss[1]);
    cj_scope_close(s);
}

/* largest over smallest of the learning rates, a factor sqrt(10) apart, that bring the loss of 20 layers well below that of guessing (2.30) */
static double rates_that_train(kind k)
{
    double low = 0, high = 0;
    for (int i = 0; i < 9; i++) {
        double lr = 1e-4 * pow(10, 0.5 * (i + 1)), loss = 0;
        for (int seed = 0; seed < 3; seed++) loss += fmin(training_loss(k, 20, lr, 200), 10) / 3;
        print_message("%s learning rate %-8.4g loss %.2f\n", k == USUAL ? "plain" : "batch norm", lr, loss);
        if (loss < 1.5) high = lr, low = low > 0 ? low : lr;
    }
    return low > 0 ? high / low : 0;
}

static void norm_bn_trainability(void **state) /* norm.bn_trainability */
{
    (void)state;
    double plain = rates_that_train(USUAL), normed = rates_that_train(USUAL_NORMED);
    assert_true(plain <= 1); /* one rate at most */
    assert_true(normed >= 10);
    /* residual blocks: variance 1 + k with batch norm in the branch, 2^k without */
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    enum { D = 600, ROWS = 300 };
    cj_tensor *x[2] = { cj_randn(c, CJ_SHAPE(ROWS, D)), NULL };
    x[1] = x[0];
    for (int k = 1; k <= 6; k++) {
        cj_module *linear = he_linear(c, D, D), *plain_block = cj_sequential(c, cj_relu_layer(c), linear);
        x[0] = cj_forward(cj_residual_layer(c, cj_sequential(c, cj_batch_norm_layer(c, D), plain_block), NULL), x[0]);
        x[1] = cj_forward(cj_residual_layer(c, plain_block, NULL), x[1]);
        double variance[2];
        for (int i = 0; i < 2; i++) variance[i] = cj_item(cj_mean(cj_square(x[i]))) - pow(cj_item(cj_mean(x[i])), 2);
        assert_near(variance[0] / (1 + k), 1, 0.08);
        assert_near(variance[1] / pow(2, k), 1, 0.15);
    }
    cj_grad_mode(c, grad);
    /* an example's result depends on its batch with batch norm, not with layer norm */
    cj_tensor *row = cj_randn(c, CJ_SHAPE(1, 8)), *others[2];
    for (int i = 0; i < 2; i++) others[i] = cj_cat(CJ_TENSORS(row, cj_randn(c, CJ_SHAPE(5, 8))), 2, 0);
    cj_module *bn = cj_batch_norm_layer(c, 8), *ln = cj_layer_norm_layer(c, 8);
    assert_true(distance(cj_select(cj_forward(bn, others[0]), 0, 0), cj_select(cj_forward(bn, others[1]), 0, 0)) > 0.01);
    assert_near(distance(cj_select(cj_forward(ln, others[0]), 0, 0), cj_select(cj_forward(ln, others[1]), 0, 0)), 0, 0);
    cj_scope_close(s);
}

/* ---- paths --------------------------------------------------------------------------------------------------------------------------------------------- */

/* Sum over all subsets of blocks, in order, of the products of their matrices: the 2^n paths; `through` counts those that use the first block. */
static cj_tensor *sum_of_paths(cj_tensor *const *a, int n, int64_t d, int *paths, int *through)
{
    cj_tensor *sum = cj_zeros(c, CJ_SHAPE(d, d), CJ_F64);
    *paths = *through = 0;
    for (int set = 0; set < 1 << n; set++) {
        cj_tensor *path = cj_eye(c, d, CJ_F64);
        for (int i = 0; i < n; i++)
            if (set >> i & 1) path = cj_matmul(a[i], path);
        sum = cj_add(sum, path);
        *paths += 1, *through += set & 1;
    }
    return sum;
}

typedef struct matrices {
    cj_tensor **a;
    int n;
} matrices;
static cj_tensor *linear_blocks(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const matrices *m = user;
    cj_tensor *h = in[0];
    for (int i = 0; i < m->n; i++) h = cj_add(h, cj_matmul(m->a[i], h));
    return h;
}

/* accuracy of a trained net when block `out` is left out (-1: none) */
static double without(cj_module *net, int out)
{
    const cj_dataset *d = digits();
    cj_scope s = cj_scope_open(c);
    cj_tensor *h = d->train_x;
    for (int i = 0; i < cj_module_children(net); i++)
        if (i != out + 1 || out < 0) h = cj_forward(cj_module_child(net, i), h);
    double right = share_right(h, d->train_y);
    cj_scope_close(s);
    return right;
}

static void resid_paths(void **state) /* resid.paths */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { D = 4 };
    for (int n = 3; n <= 4; n++) {
        cj_tensor *a[4], *x = cj_randn(c, CJ_SHAPE(D), .dtype = CJ_F64);
        for (int i = 0; i < n; i++) a[i] = cj_randn(c, CJ_SHAPE(D, D), .dtype = CJ_F64);
        int paths, through;
        cj_tensor *sum = sum_of_paths(a, n, D, &paths, &through);
        assert_true(paths == (n == 3 ? 8 : 16) && through == (n == 3 ? 4 : 8));
        matrices m = { a, n };
        assert_near(distance(cj_matmul(sum, x), linear_blocks(c, &m, &x, 1)), 0, 1e-12);
        assert_near(distance(sum, cj_jacobian(c, linear_blocks, &m, x)), 0, 1e-12);
        if (n > 3) continue;
        /* dy/df1 = 1 + A2 + A3 + A3·A2 */
        matrices after = { a + 1, 2 };
        cj_tensor *by_first = cj_add(cj_add(cj_eye(c, D, CJ_F64), cj_add(a[1], a[2])), cj_matmul(a[2], a[1]));
        assert_near(distance(by_first, cj_jacobian(c, linear_blocks, &after, x)), 0, 1e-12);
    }
    cj_module *residual = trained(RESIDUAL, 16, 0.01, 300), *plain = trained(PLAIN, 16, 0.01, 600);
    double whole[2] = { without(residual, -1), without(plain, -1) }, mean[2] = { 0 };
    for (int i = 0; i < 16; i++) mean[0] += without(residual, i) / 16, mean[1] += without(plain, i) / 16;
    print_message("one of 16 blocks left out: residual %.3f of %.3f, plain %.3f of %.3f\n", mean[0], whole[0], mean[1], whole[1]);
    assert_true(whole[0] > 0.95 && whole[1] > 0.6);
    assert_true(mean[0] > whole[0] - 0.1 && mean[1] < whole[1] - 0.4);
    cj_scope_close(s);
}

/* ---- gradients along a line -------------------------------------------------------------------------------------------------------------------------------- */

enum { POINTS = 256, UNITS = 200 };
/* dy/dx of a random net of one input at POINTS places; `layers` hidden layers of UNITS units, every weight by He's rule; a residual layer is (h + W relu(h)) / sqrt 2 */
typedef struct line {
    int layers;
    bool residual;
    cj_tensor *w[64], *b;
} line;
static cj_tensor *along(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const line *l = user;
    cj_tensor *h = cj_add(cj_mul(in[0], l->w[0]), l->b);
    for (int i = 1; i < l->layers; i++) {
        cj_tensor *next = cj_matmul(cj_relu(h), l->w[i]);
        h = l->residual ? cj_mul_scalar(cj_add(h, next), sqrt(0.5)) : next;
    }
    return cj_matmul(cj_relu(h), l->w[l->layers]);
}

typedef struct shattering {
    double correlation[2]; /* of dy/dx at lags 2 and 8 */
    double norm;           /* mean square of dy/dx */
} shattering;
static shattering gradients_along(int layers, bool residual, int nets)
{
    shattering r = { .norm = 0 };
    for (int k = 0; k < nets; k++) {
        cj_scope s = cj_scope_open(c);
        line l = { .layers = layers, .residual = residual };
        l.w[0] = cj_randn(c, CJ_SHAPE(1, UNITS)), l.b = cj_randn(c, CJ_SHAPE(UNITS));
        for (int i = 1; i < layers; i++) l.w[i] = cj_mul_scalar(cj_randn(c, CJ_SHAPE(UNITS, UNITS)), sqrt(2.0 / UNITS));
        l.w[layers] = cj_mul_scalar(cj_randn(c, CJ_SHAPE(UNITS, 1)), sqrt(2.0 / UNITS));
        cj_tensor *x = cj_reshape(cj_arange(c, -2, 2, 4.0 / POINTS, CJ_F32), CJ_SHAPE(POINTS, 1)), *one = cj_ones_like(x);
        double *g = values_of(cj_jvp(c, along, &l, &x, &one, 1).derivative), mean = 0, square = 0;
        for (int i = 0; i < POINTS; i++) mean += g[i] / POINTS, r.norm += g[i] * g[i] / POINTS / nets;
        for (int i = 0; i < POINTS; i++) square += pow(g[i] - mean, 2) / POINTS;
        for (int j = 0; j < 2; j++) {
            int lag = j ? 8 : 2;
            double product = 0;
            for (int i = 0; i + lag < POINTS; i++) product += (g[i] - mean) * (g[i + lag] - mean) / (POINTS - lag);
            r.correlation[j] += product / square / nets;
        }
        free(g);
        cj_scope_close(s);
    }
    return r;
}

static void resid_shattered_and_ff_shattered_gradients(void **state) /* resid.shattered, ff.shattered_gradients */
{
    (void)state;
    bool grad = cj_no_grad(c);
    enum { NETS = 8 };
    const int depth[2] = { 24, 50 };
    shattering shallow = gradients_along(1, false, NETS), plain[2], residual[2];
    for (int i = 0; i < 2; i++) plain[i] = gradients_along(depth[i], false, NETS), residual[i] = gradients_along(depth[i], true, NETS);
    print_message("autocorrelation at lag 2: shallow %.3f, plain %.3f %.3f, residual %.3f %.3f; at lag 8: %.3f, %.3f %.3f, %.3f %.3f; "
                  "norms %.2f %.2f %.2f\n",
                  shallow.correlation[0], plain[0].correlation[0], plain[1].correlation[0], residual[0].correlation[0],
                  residual[1].correlation[0], shallow.correlation[1], plain[0].correlation[1], plain[1].correlation[1],
                  residual[0].correlation[1], residual[1].correlation[1], shallow.norm, plain[0].norm, residual[0].norm);
    for (int lag = 0; lag < 2; lag++) {
        assert_true(shallow.correlation[lag] > residual[0].correlation[lag] && residual[0].correlation[lag] > plain[0].correlation[lag]);
        assert_true(residual[1].correlation[lag] > plain[1].correlation[lag]);
    }
    assert_true(plain[1].correlation[0] < plain[0].correlation[0]); /* falls with depth */
    /* the gradients themselves neither vanish nor explode */
    assert_true(fabs(log(plain[0].norm / shallow.norm)) < log(4));
    assert_true(fabs(log(residual[0].norm / shallow.norm)) < log(4));
    cj_grad_mode(c, grad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resid_degradation),
        cmocka_unit_test(resid_order),
        cmocka_unit_test(norm_bn_trainability),
        cmocka_unit_test(resid_paths),
        cmocka_unit_test(resid_shattered_and_ff_shattered_gradients),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
