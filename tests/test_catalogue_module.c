/* Catalogue rows of the module tree and of initial values; whitening, relative positions, kernel attention and what else layers are said to do exactly. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 53);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static cj_tensor *param(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }
static int64_t count(cj_module *m) { return cj_params_numel(cj_module_params(m)); }
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_ok(c);
    assert_near(distance(a, b), 0, tolerance);
}

/* ---- modules ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct twice {
    cj_module *first, *second;
} twice;
static cj_tensor *twice_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const twice *l = self;
    return cj_add(cj_forward(l->first, x), cj_forward(l->second, x));
}
static const cj_module_type twice_type = { "Twice", twice_forward, NULL };

static void module_system(void **state) /* module.system */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *a = cj_linear(c, 6, 5), *b = cj_linear(c, 5, 2), *net = cj_sequential(c, cj_flatten_layer(c), a, cj_relu_layer(c), b);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 2, 3));
    same(cj_forward(net, x),
         cj_linear_op(cj_relu(cj_linear_op(cj_flatten(x, 1), param(a, "weight"), param(a, "bias"))), param(b, "weight"), param(b, "bias")),
         0);
    const char *names[] = { "1.weight", "1.bias", "3.weight", "3.bias" };
    cj_params *p = cj_module_params(net);
    assert_int_equal(cj_params_count(p), 4);
    for (int i = 0; i < 4; i++) assert_string_equal(cj_params_name(p, i), names[i]);
    /* a module of the caller's own, with one child under two names: counted once */
    cj_module *own = cj_module_new(c, &twice_type, sizeof(twice));
    twice *l = cj_module_self(own);
    l->first = cj_module_add(own, "first", cj_linear(c, 6, 4));
    l->second = cj_module_add(own, "second", l->first);
    assert_int_equal(cj_params_count(cj_module_params(own)), 2);
    assert_int_equal(count(own), 6 * 4 + 4);
    cj_tensor *flat = cj_flatten(x, 1);
    same(cj_forward(own, flat), cj_mul_scalar(cj_forward(l->first, flat), 2), 0);
    cj_scope_close(s);
}

static void module_train_eval(void **state) /* module.train_eval */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *net = cj_sequential(c, cj_linear(c, 4, 8), cj_batch_norm_layer(c, 8),
                                   cj_residual_layer(c, cj_sequential(c, cj_dropout_layer(c, 0.5)), NULL));
    cj_module *plain = cj_sequential(c, cj_linear(c, 4, 8), cj_layer_norm_layer(c, 8), cj_gelu_layer(c), cj_linear(c, 8, 2));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(10, 4));
    assert_false(same_bits(cj_forward(net, x), cj_forward(net, x))); /* another mask */
    cj_tensor *training = cj_forward(plain, x);
    cj_module_train(net, false);
    cj_module_train(plain, false);
    assert_false(cj_module_training(cj_module_child(cj_module_child(cj_module_child(net, 2), 0), 0))); /* all the way down */
    assert_true(same_bits(cj_forward(net, x), cj_forward(net, x)));
    assert_true(same_bits(training, cj_forward(plain, x)));
    cj_module *norm = cj_module_child(net, 1); /* evaluation: by the running statistics, which an evaluation does not move */
    cj_tensor *z = cj_forward(cj_module_child(net, 0), x);
    cj_tensor *once = cj_forward(norm, z);
    same(once, cj_forward(norm, z), 0);
    cj_module_train(norm, true);
    assert_true(distance(once, cj_forward(norm, z)) > 1e-3);
    cj_scope_close(s);
}

static void find_buffer(void *user, const char *name, cj_tensor *t)
{
    if (strcmp(name, "1.running_mean") == 0) *(cj_tensor **)user = t;
}

static void module_params_buffers(void **state) /* module.params_buffers */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *net = cj_sequential(c, cj_linear(c, 3, 5), cj_batch_norm_layer(c, 5), cj_linear(c, 5, 2)),
              *twin = cj_sequential(c, cj_linear(c, 3, 5), cj_batch_norm_layer(c, 5), cj_linear(c, 5, 2));
    cj_tensor *mean = NULL, *x = cj_randn(c, CJ_SHAPE(9, 3)), *before[6];
    cj_module_state(net, find_buffer, &mean);
    assert_true(cj_requires_grad(param(net, "1.weight")) && cj_requires_grad(param(net, "1.bias")));
    assert_non_null(mean);
    assert_false(cj_requires_grad(mean));
    assert_null(param(net, "1.running_mean"));
    cj_params *p = cj_module_params(net);
    bool grad = cj_no_grad(c);
    for (int i = 0; i < 6; i++) {
        before[i] = cj_clone(cj_params_at(p, i));
        cj_assign_(cj_params_at(cj_module_params(twin), i), cj_params_at(p, i));
    }
    assert_true(cj_params_flatten(p)); /* one vector, of which the parameters are views: nothing moves … */
    for (int i = 0; i < 6; i++) assert_true(same_bits(before[i], cj_params_at(p, i)));
    cj_tensor *flat = cj_params_flat(p, CJ_F32), *saved = cj_clone(flat);
    cj_assign_(flat, cj_add_scalar(flat, 1)); /* … until the vector is written */
    for (int i = 0; i < 6; i++) same(cj_params_at(p, i), cj_add_scalar(before[i], 1), 1e-6);
    cj_assign_(flat, saved);
    for (int i = 0; i < 6; i++) assert_true(same_bits(before[i], cj_params_at(p, i)));
    cj_grad_mode(c, grad);
    /* an optimiser works on the vector; by hand, tensor by tensor */
    assert_true(cj_minimise(cj_sgd(p, .lr = 0.1), cj_mean(cj_square(cj_forward(net, x)))));
    cj_tensor *leaf[6], *g[6];
    for (int i = 0; i < 6; i++) leaf[i] = cj_params_at(cj_module_params(twin), i);
    assert_true(cj_grad(cj_mean(cj_square(cj_forward(twin, x))), leaf, 6, g));
    for (int i = 0; i < 6; i++) same(cj_params_at(p, i), cj_sub(leaf[i], cj_mul_scalar(g[i], 0.1)), 1e-6);
    cj_module_freeze(cj_module_child(net, 0), true);
    cj_tensor *frozen = cj_params_at(p, 0), *value = cj_clone(cj_detach(frozen));
    cj_optim *rest = cj_adam(cj_module_params(net), .lr = 0.1, .weight_decay = 0.1);
    for (int i = 0; i < 3; i++) assert_true(cj_minimise(rest, cj_mean(cj_square(cj_forward(net, x)))));
    assert_true(same_bits(frozen, value));
    cj_scope_close(s);
}

static void keep_output(void *user, cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)m, (void)x;
    *(cj_tensor **)user = cj_keep(y);
}

static void module_hooks(void **state) /* module.hooks */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *l[] = { cj_linear(c, 4, 6), cj_tanh_layer(c), cj_linear(c, 6, 3), cj_relu_layer(c), NULL }, *net = (cj_sequential)(c, l);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(5, 4)), *seen[4] = { NULL }, *w = param(net, "0.weight"), *before, *after;
    cj_tensor *y = cj_forward(net, x);
    assert_true(cj_grad(cj_sum(y), &w, 1, &before));
    for (int i = 0; i < 4; i++) cj_module_hook(l[i], keep_output, &seen[i]);
    cj_tensor *hooked = cj_forward(net, x);
    assert_true(same_bits(y, hooked));
    assert_true(cj_grad(cj_sum(hooked), &w, 1, &after));
    assert_true(same_bits(before, after));
    cj_tensor *h = x;
    for (int i = 0; i < 4; i++) { /* the pass cut short after each layer: h and sigma(h) */
        cj_module_hook(l[i], NULL, NULL);
        h = cj_forward(l[i], h);
        assert_true(same_bits(seen[i], h));
        cj_release(seen[i]);
        seen[i] = NULL;
    }
    cj_forward(net, x);
    assert_null(seen[0]);
    assert_ok(c);
    cj_scope_close(s);
}

static cj_tensor *affine(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_linear_op(in[0], in[1], in[2]);
}

static void module_linear(void **state) /* module.linear */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(5, 3)), *w = normal(CJ_SHAPE(2, 3)), *b = normal(CJ_SHAPE(2)), *in[] = { x, w, b }, *g[3];
    cj_tensor *wide = cj_cat(CJ_TENSORS(w, cj_unsqueeze(b, 1)), 2, 1),
              *one = cj_cat(CJ_TENSORS(x, cj_ones(c, CJ_SHAPE(5, 1), CJ_F64)), 2, 1);
    same(cj_linear_op(x, w, b), cj_matmul(one, cj_t(wide)), 1e-15); /* [W b][x; 1] */
    cj_gradcheck_result r = cj_gradcheck(c, affine, NULL, in, 3);
    if (!r.ok) fail_msg("%s", r.what);
    cj_tensor *leaf[] = { cj_require_grad(x), cj_require_grad(w), cj_require_grad(b) }, *delta = normal(CJ_SHAPE(5, 2));
    assert_true(cj_grad(affine(c, NULL, leaf, 3), leaf, 3, g, .seed = delta));
    same(g[0], cj_matmul(delta, w), 1e-14);
    same(g[1], cj_matmul(cj_t(delta), x), 1e-14);
    same(g[2], cj_sum(delta, .axes = CJ_AXIS(0)), 1e-14);
    cj_tensor *small = cj_require_grad(F64(c, CJ_SHAPE(1, 2), 0.3, -0.7)); /* z = w1·x1 + w2·x2 */
    assert_true(cj_grad(cj_linear_op(F64(c, CJ_SHAPE(1, 2), 2, 5), small, NULL), &small, 1, g, .seed = F64(c, CJ_SHAPE(1, 1), 1.5)));
    same(g[0], F64(c, CJ_SHAPE(1, 2), 3, 7.5), 0);
    cj_scope_close(s);
}

static void module_sparse_dag(void **state) /* module.sparse_dag */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *mask = cj_from_f32(c, (float[]){ 1, 0, 1, 0, 1, 1 }, CJ_SHAPE(2, 3)), *x = cj_randn(c, CJ_SHAPE(7, 3)), *g;
    cj_module *m = cj_masked_linear(c, mask);
    cj_tensor *w = param(m, "weight");
    assert_true(cj_grad(cj_sum(cj_square(cj_forward(m, x))), &w, 1, &g));
    assert_true(value_at(g, 1) == 0 && value_at(g, 3) == 0 && value_at(g, 0) != 0);
    cj_optim *opt = cj_adam(cj_module_params(m), .lr = 0.1, .weight_decay = 0.1);
    for (int i = 0; i < 5; i++) assert_true(cj_minimise(opt, cj_sum(cj_square(cj_forward(m, x)))));
    assert_true(value_at(w, 1) == 0 && value_at(w, 3) == 0);
    /* two inputs, three hidden units, one output: the layered network as a graph */
    const int64_t edge[][2] = { { 0, 2 }, { 1, 2 }, { 0, 3 }, { 1, 3 }, { 0, 4 }, { 1, 4 }, { 2, 5 }, { 3, 5 }, { 4, 5 } };
    cj_module *graph = cj_dag_layer(c, 2, 6, edge, 9, "tanh");
    assert_ok(c);
    cj_tensor *weight = param(graph, "weight"), *bias = param(graph, "bias"), *in = cj_randn(c, CJ_SHAPE(4, 2));
    cj_init_normal_(bias, 0, 1);
#define BLOCK(r0, r1, c0, c1) cj_slice(cj_slice(weight, 0, r0, r1, 1), 1, c0, c1, 1)
    cj_tensor *hidden = cj_tanh(cj_linear_op(in, BLOCK(2, 5, 0, 2), cj_slice(bias, 0, 2, 5, 1)));
    same(cj_forward(graph, in), cj_linear_op(hidden, BLOCK(5, 6, 2, 5), cj_slice(bias, 0, 5, 6, 1)), 1e-6);
    assert_true(cj_grad(cj_sum(cj_forward(graph, in)), &weight, 1, &g)); /* nothing where there is no edge */
    for (int to = 0; to < 6; to++)
        for (int from = 0; from < 6; from++) {
            bool there = false;
            for (int e = 0; e < 9; e++) there = there || (edge[e][0] == from && edge[e][1] == to);
            assert_true((value_at(g, to * 6 + from) != 0) == there);
        }
    /* a unit that skips a level, numbered against the order of evaluation */
    const int64_t skip[][2] = { { 0, 3 }, { 3, 2 }, { 0, 2 }, { 2, 1 }, { 0, 1 } };
    int64_t order[4], level[4];
    assert_true(cj_topological_order(skip, 5, 4, order, level));
    for (int e = 0; e < 5; e++) {
        int at[2] = { -1, -1 };
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 2; k++)
                if (order[i] == skip[e][k]) at[k] = i;
        assert_true(at[0] < at[1]);
    }
    cj_module *odd = cj_dag_layer(c, 1, 4, skip, 5, "relu");
    cj_tensor *v = param(odd, "weight"), *one = cj_randn(c, CJ_SHAPE(3, 1));
#define W(to, from) cj_slice(cj_slice(v, 0, to, (to) + 1, 1), 1, from, (from) + 1, 1)
    cj_tensor *h3 = cj_relu(cj_mul(one, W(3, 0))), *h2 = cj_relu(cj_add(cj_mul(h3, W(2, 3)), cj_mul(one, W(2, 0))));
    same(cj_forward(odd, one), cj_add(cj_mul(h2, W(1, 2)), cj_mul(one, W(1, 0))), 1e-6);
    const int64_t circle[][2] = { { 0, 1 }, { 1, 2 }, { 2, 1 } };
    assert_false(cj_topological_order(circle, 3, 3, order, level));
    assert_refused(CJ_EVALUE, "dag layer: the edges have a circle", cj_dag_layer(c, 1, 3, circle, 3, NULL));
    assert_refused(CJ_EVALUE, "dag layer: nothing feeds unit 2", cj_dag_layer(c, 1, 3, circle, 1, NULL));
    assert_poisoned(CJ_ESHAPE, "dag layer: input [7, 3]; [n, 2] expected", cj_forward(graph, x));
    cj_scope_close(s);
}

static cj_module *mlp(const int64_t *widths, int n, bool relu)
{
    cj_module *part[32] = { NULL };
    int k = 0;
    for (int i = 0; i + 1 < n; i++) {
        part[k++] = cj_linear(c, widths[i], widths[i + 1]);
        if (i + 2 < n) part[k++] = relu ? cj_relu_layer(c) : cj_tanh_layer(c);
    }
    return (cj_sequential)(c, part);
}
#define MLP(...) mlp((int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), true)

static void module_count_params(void **state) /* module.count_params */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_int_equal(count(MLP(784, 512, 512, 10)), 669706);
    assert_int_equal(count(MLP(1, 3, 1)), 10);
    assert_int_equal(count(MLP(1, 3, 2)), 14);
    assert_int_equal(count(MLP(2, 3, 1)), 13);
    assert_int_equal(count(MLP(3, 4, 2, 3, 2)), 43);
    for (int64_t d = 1; d < 6; d++) {
        assert_int_equal(count(MLP(1, d, 1)), 3 * d + 1);
        assert_int_equal(count(MLP(1, d, d, d, 1)), 3 * d + 1 + 2 * d * (d + 1)); /* K = 3 */
        assert_int_equal(count(cj_linear(c, d, 7)), (d + 1) * 7);
        assert_int_equal(count(cj_conv_layer(c, d, 4, CJ_SHAPE(3, 2))), (1 + d * 3 * 2) * 4);
    }
    cj_module *grey = cj_linear(c, 100 * 100, 1000, .no_bias = true);
    assert_int_equal(count(grey), 10000000);
    cj_module_row row;
    assert_int_equal(cj_module_describe(grey, CJ_SHAPE(1, 10000), &row, 1), 1);
    assert_int_equal(row.bytes, 4 * 10000000);
    assert_int_equal(count(cj_locally_connected_layer(c, 1, 1000, CJ_SHAPE(5, 5), CJ_SHAPE(5, 5))), 25000 + 1000);
    const double large = 3 * 1024. * 1024 * 1000; /* too large to be allocated here */
    assert_true(large == 3145728000);
    assert_near(large * 4 / 1e9, 12.58, 0.005);
    cj_scope_close(s);
}

static void module_describe(void **state) /* module.describe */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module_row row[16];
    cj_module *net = MLP(3, 4, 2, 3, 2); /* hidden layers of 4, 2 and 3 units */
    int n = cj_module_describe(net, CJ_SHAPE(1, 3), row, 16);
    assert_int_equal(n, 7);
    cj_module_summary m = cj_module_summarise(row, n);
    assert_int_equal(m.depth, 3);
    assert_int_equal(m.capacity, 9);
    assert_int_equal(m.width, 4);
    assert_int_equal(m.params, 43);
    assert_int_equal(m.activations, 4 + 4 + 2 + 2 + 3 + 3 + 2);
    assert_true(m.deep && m.fully_connected && m.acyclic);
    assert_int_equal(row[0].params, 16);
    assert_int_equal(row[6].activations, 2);
    m = cj_module_summarise(row, cj_module_describe(MLP(5, 1000, 1), CJ_SHAPE(1, 5), row, 16)); /* wide: shallow */
    assert_true(m.depth == 1 && m.width == 1000 && m.capacity == 1000 && !m.deep);
    m = cj_module_summarise(row, cj_module_describe(MLP(5, 2, 2, 2, 2, 2, 1), CJ_SHAPE(1, 5), row, 16)); /* thin: deep */
    assert_true(m.depth == 5 && m.width == 2 && m.capacity == 10 && m.deep);
    cj_module *conv = cj_sequential(c, cj_conv_layer(c, 1, 2, CJ_SHAPE(3)), cj_flatten_layer(c), cj_linear(c, 16, 2));
    assert_false(cj_module_summarise(row, cj_module_describe(conv, CJ_SHAPE(1, 1, 10), row, 16)).fully_connected);
    m = cj_module_summarise(row, cj_module_describe(cj_lstm_layer(c, 3, 4), CJ_SHAPE(1, 5, 3), row, 16));
    assert_false(m.acyclic);
    assert_ok(c);
    cj_scope_close(s);
}

/* ---- initial values --------------------------------------------------------------------------------------------------------------------------------------- */

static void init_zero(void **state) /* init.zero */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { C = 4 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(40, 3)), *y = cj_argmax(cj_matmul(x, cj_randn(c, CJ_SHAPE(3, C))), .axes = CJ_AXIS(1));
    for (int k = 0; k < 2; k++) { /* zeros; then a constant */
        cj_module *net = MLP(3, 6, C);
        cj_params *p = cj_module_params(net);
        for (int i = 0; i < 4; i++) cj_init_constant_(cj_params_at(p, i), k ? 0.5 : 0);
        if (!k) {
            cj_tensor *logits = cj_forward(net, x), *leaf[] = { cj_params_at(p, 0), cj_params_at(p, 1) }, *g[2];
            same(logits, cj_zeros_like(logits), 0);
            assert_near(cj_item(cj_cross_entropy(logits, y)), log(C), 1e-6);
            assert_true(cj_grad(cj_cross_entropy(logits, y), leaf, 2, g, .allow_unused = true));
            for (int i = 0; i < 2; i++) same(g[i], cj_zeros_like(leaf[i]), 0);
        }
        cj_optim *opt = cj_adam(p, .lr = 0.05);
        for (int step = 0; step < 50; step++) {
            cj_scope inner = cj_scope_open(c);
            assert_true(cj_minimise(opt, cj_cross_entropy(cj_forward(net, x), y)));
            cj_scope_close(inner);
        }
        cj_tensor *w = cj_params_at(p, 0), *v = cj_params_at(p, 2);
        for (int unit = 1; unit < 6; unit++) { /* hidden units stay twins to the bit */
            assert_true(same_bits(cj_select(w, 0, unit), cj_select(w, 0, 0)));
            assert_true(same_bits(cj_select(v, 1, unit), cj_select(v, 1, 0)));
        }
        if (!k) { /* only the last bias has learned: the frequencies of the classes */
            double entropy = 0, *labels = values_of(y);
            for (int i = 0; i < C; i++) {
                double share = 0;
                for (int j = 0; j < 40; j++) share += labels[j] == i ? 1. / 40 : 0;
                if (share > 0) entropy -= share * log(share);
            }
            free(labels);
            same(w, cj_zeros_like(w), 0);
            assert_true(cj_item(cj_cross_entropy(cj_forward(net, x), y)) > entropy - 1e-6);
        }
    }
    cj_scope_close(s);
}

enum { WIDTH = 100, LAYERS = 50, ROWS = 20, NETS = 8 };
typedef struct ratios {
    double forward, backward; /* mean change of the mean square per layer */
    double last;              /* mean square of the last layer, over the first */
} ratios;

static ratios propagate(double s2)
{
    ratios r = { 0 };
    for (int net = 0; net < NETS; net++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *z[LAYERS], *g[LAYERS], *x = normal(CJ_SHAPE(ROWS, WIDTH));
        double f[LAYERS], b[LAYERS];
        for (int k = 0; k < LAYERS; k++) {
            z[k] = cj_matmul(x, cj_mul_scalar(normal(CJ_SHAPE(WIDTH, WIDTH)), sqrt(s2)));
            if (!k) z[k] = cj_require_grad(z[k]);
            x = cj_relu(z[k]);
            f[k] = cj_item(cj_mean(cj_square(z[k])));
        }
        assert_true(cj_grad(z[LAYERS - 1], z, LAYERS, g, .seed = normal(CJ_SHAPE(ROWS, WIDTH))));
        for (int k = 0; k < LAYERS; k++) b[k] = cj_item(cj_mean(cj_square(g[k])));
        for (int k = 0; k + 1 < LAYERS; k++) {
            r.forward += f[k + 1] / f[k] / (LAYERS - 1) / NETS;
            r.backward += b[k] / b[k + 1] / (LAYERS - 1) / NETS;
        }
        r.last += log(f[LAYERS - 1] / f[0]) / NETS;
        cj_scope_close(s);
    }
    return r;
}

static void init_variance_propagation_and_gaussian(void **state) /* init.variance_propagation, init.gaussian */
{
    (void)state;
    const double s2[] = { .001, .01, .02, .1, 1 };
    for (int i = 0; i < 5; i++) {
        ratios r = propagate(s2[i]);
        assert_near(r.forward / (WIDTH * s2[i] / 2), 1, 0.03);
        assert_near(r.backward / (WIDTH * s2[i] / 2), 1, 0.03);
        assert_near(r.last / (LAYERS - 1), log(WIDTH * s2[i] / 2), 0.1); /* geometric in the depth; only 0.02 stays flat */
    }
    /* tanh with large weights: nearly all units at ±1, and next to no gradient left */
    cj_scope s = cj_scope_open(c);
    cj_tensor *h = normal(CJ_SHAPE(ROWS, WIDTH));
    for (int k = 0; k < 10; k++) h = cj_tanh(cj_matmul(h, cj_mul_scalar(normal(CJ_SHAPE(WIDTH, WIDTH)), 5)));
    assert_true(cj_item(cj_mean(cj_cast(cj_gt_scalar(cj_abs(h), 0.99), CJ_F64))) > 0.9);
    cj_tensor *one = normal(CJ_SHAPE(200, WIDTH)), *local = cj_tanh(cj_matmul(one, cj_mul_scalar(normal(CJ_SHAPE(WIDTH, WIDTH)), 5)));
    double near_zero = cj_item(cj_mean(cj_cast(cj_lt_scalar(cj_sub(cj_ones_like(local), cj_square(local)), 1e-2), CJ_F64)));
    assert_true(near_zero > 0.9);
    cj_scope_close(s);
}

static cj_tensor *residual(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_forward(user, in[0]);
}

static void init_residual(void **state) /* init.residual */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *last = cj_linear(c, 5, 4), *block = cj_residual_layer(c, cj_sequential(c, cj_linear(c, 4, 5), cj_relu_layer(c), last), NULL);
    for (int i = 0; i < 2; i++) cj_init_constant_(cj_params_at(cj_module_params(last), i), 0);
    same(cj_jacobian(c, residual, block, cj_randn(c, CJ_SHAPE(4))), cj_eye(c, 4, CJ_F32), 0);
    for (int scaled = 0; scaled < 2; scaled++) {
        enum { D = 400, NETS_HERE = 6 };
        double v[11] = { 0 };
        for (int net = 0; net < NETS_HERE; net++) {
            cj_scope inner = cj_scope_open(c);
            cj_tensor *x = cj_randn(c, CJ_SHAPE(20, D));
            for (int k = 0; k <= 10; k++) {
                v[k] += cj_item(cj_mean(cj_square(x))) / NETS_HERE;
                x = cj_add(x, cj_matmul(cj_relu(x), cj_mul_scalar(cj_randn(c, CJ_SHAPE(D, D)), sqrt(2. / D)))); /* He */
                if (scaled) x = cj_mul_scalar(x, sqrt(0.5));
            }
            cj_scope_close(inner);
        }
        for (int k = 1; k <= 10; k++) assert_near(v[k] / v[0] / (scaled ? 1 : pow(2, k)), 1, 0.1);
    }
    cj_scope_close(s);
}

/* ---- whitening, positions, kernels ---------------------------------------------------------------------------------------------------------------------------- */

static void norm_whitening(void **state) /* norm.whitening */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 60, D = 4 };
    cj_tensor *x = cj_add_scalar(cj_matmul(normal(CJ_SHAPE(N, D)), normal(CJ_SHAPE(D, D))), 3), *eye = cj_eye(c, D, CJ_F64);
    cj_tensor *centred = cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0)));
    same(cj_cov(centred), cj_cov(x), 1e-12); /* centring changes the mean only */
    same(cj_mean(centred, .axes = CJ_AXIS(0)), cj_zeros(c, CJ_SHAPE(D), CJ_F64), 1e-13);
    cj_eigen e = cj_eigh(cj_cov(x, .biased = true));
    cj_tensor *pca_matrix = cj_div(e.vectors, cj_sqrt(e.values)), *pca = cj_matmul(centred, pca_matrix);
    cj_whitened zca = cj_whiten(x, .eps = CJ_ZERO, .iterations = 40);
    same(cj_cov(pca, .biased = true), eye, 1e-8);
    same(cj_cov(zca.value, .biased = true), eye, 1e-8);
    same(zca.matrix, cj_t(zca.matrix), 1e-9);
    same(zca.matrix, cj_matmul(cj_div(e.vectors, cj_sqrt(e.values)), cj_t(e.vectors)), 1e-7);
    double closest = cj_item(cj_sum(cj_square(cj_sub(zca.value, centred))));
    assert_true(closest < cj_item(cj_sum(cj_square(cj_sub(pca, centred)))));
    for (int i = 0; i < 10; i++) { /* any other whitening is a turned one */
        cj_tensor *turned = cj_matmul(zca.value, cj_qr(normal(CJ_SHAPE(D, D))).q);
        same(cj_cov(turned, .biased = true), eye, 1e-8);
        assert_true(closest <= cj_item(cj_sum(cj_square(cj_sub(turned, centred)))) + 1e-9);
    }
    cj_scope_close(s);
}

typedef struct attended {
    cj_tensor *q, *k, *v;
} attended;
static cj_tensor *with_offsets(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const attended *a = user;
    int64_t index[36];
    for (int q = 0; q < 6; q++)
        for (int k = 0; k < 6; k++) index[q * 6 + k] = k - q + 5;
    cj_tensor *bias = cj_reshape(cj_index_select(in[0], 0, cj_from_i64(c, index, CJ_SHAPE(36))), CJ_SHAPE(6, 6));
    return cj_matmul(cj_softmax(cj_mul_scalar(cj_add(cj_matmul(a->q, cj_t(a->k)), bias), 0.5), -1), a->v);
}

static void pos_relative(void **state) /* pos.relative */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { T = 6, D = 4, LONG = 12 };
    cj_module *m = cj_relative_positions_layer(c, 1, T - 1);
    cj_tensor *weight = param(m, "weight"), *q = cj_randn(c, CJ_SHAPE(1, 1, T, D)), *k = cj_randn(c, CJ_SHAPE(1, 1, T, D)),
              *v = cj_randn(c, CJ_SHAPE(1, 1, T, D));
    cj_init_normal_(weight, 0, 1);
    cj_tensor *bias = cj_relative_bias(m, T, T);
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) assert_true(value_at(bias, i * T + j) == value_at(weight, j - i + T - 1));
    /* softmax((Q·Kᵀ + Pi)/sqrt D)·V: the mask is added after scaling */
    cj_tensor *y = cj_attention(q, k, v, .mask = cj_mul_scalar(bias, 0.5));
    cj_tensor *scores = cj_mul_scalar(cj_add(cj_matmul(q, cj_t(k)), bias), 0.5);
    same(y, cj_matmul(cj_softmax(scores, -1), v), 1e-5);
    cj_init_constant_(weight, 0);
    same(cj_attention(q, k, v, .mask = cj_relative_bias(m, T, T)), cj_attention(q, k, v), 1e-6);
    cj_init_normal_(weight, 0, 1);
    /* a sequence moved by 2 within a longer one that sees only its neighbours: what is inside moves along */
    cj_module *near = cj_relative_positions_layer(c, 1, 2);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 1, LONG, D)),
              *moved = cj_cat(CJ_TENSORS(cj_randn(c, CJ_SHAPE(1, 1, 2, D)), cj_slice(x, 2, 0, LONG - 2, 1)), 2, 2);
    cj_tensor *far = cj_arange(c, 0, LONG, 1, CJ_F32), *gap = cj_abs(cj_sub(far, cj_unsqueeze(far, 1)));
    cj_tensor *window = cj_masked_fill(cj_relative_bias(near, LONG, LONG), cj_gt_scalar(gap, 2), -INFINITY);
    cj_tensor *a = cj_attention(x, x, x, .mask = window), *b = cj_attention(moved, moved, moved, .mask = window);
    same(cj_slice(a, 2, 2, LONG - 4, 1), cj_slice(b, 2, 4, LONG - 2, 1), 1e-5);
    attended f = { normal(CJ_SHAPE(T, D)), normal(CJ_SHAPE(T, D)), normal(CJ_SHAPE(T, D)) };
    cj_tensor *pi = normal(CJ_SHAPE(2 * T - 1));
    cj_gradcheck_result r = cj_gradcheck(c, with_offsets, &f, &pi, 1);
    if (!r.ok) fail_msg("%s", r.what);
    assert_int_equal(cj_size(cj_relative_bias(m, 3, 9), 2), 9);
    assert_ok(c);
    assert_poisoned(CJ_EVALUE, "relative_bias: 0 queries, 3 keys", cj_relative_bias(m, 0, 3));
    assert_refused(CJ_EVALUE, "relative_positions layer: 0 heads", cj_relative_positions_layer(c, 0, 3));
    cj_scope_close(s);
}

/* Nadaraya and Watson: the mean of y weighted by a Gaussian of x - x_i; -(x - x')²/(2·s²) as a score. */
static cj_tensor *kernel_map(cj_tensor *at, cj_tensor *x, double width)
{
    cj_tensor *d = cj_sub(cj_unsqueeze(at, 1), cj_unsqueeze(x, 0));
    return cj_softmax(cj_mul_scalar(cj_square(d), -0.5 / (width * width)), -1);
}

static void attn_nw_experiment(void **state) /* attn.nw-experiment */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 40 };
#define TRUTH(x) cj_add(cj_mul_scalar(cj_sin(x), 2), x)
    cj_tensor *x = cj_uniform(c, 0, 5, CJ_SHAPE(N), .dtype = CJ_F64), *y = cj_add(TRUTH(x), cj_mul_scalar(normal(CJ_SHAPE(N)), 0.5));
    cj_tensor *test = cj_arange(c, 0.05, 5, 0.1, CJ_F64), *truth = TRUTH(test);
    double line = cj_item(cj_mean(cj_square(cj_sub(truth, cj_mean(y))))), before = -1;
    const double widths[] = { 0.1, 0.2, 0.5, 1, 2 };
    for (int i = 0; i < 5; i++) {
        cj_tensor *map = kernel_map(test, x, widths[i]), *self = kernel_map(x, x, widths[i]);
        same(cj_sum(map, .axes = CJ_AXIS(1)), cj_ones(c, cj_shape_of(test), CJ_F64), 1e-12);
        if (i < 4) assert_true(cj_item(cj_mean(cj_square(cj_sub(cj_matmul(map, y), truth)))) < line);
        double entropy = cj_item(cj_mean(cj_entropy(self)));
        assert_true(entropy > before && entropy <= log(N) + 1e-12); /* wider is more diffuse */
        before = entropy;
    }
    /* many points and a narrow kernel: the error of predicting noisy values goes to the variance of the noise, 0.25 */
    enum { MANY = 4000 };
    cj_tensor *xs = cj_uniform(c, 0, 5, CJ_SHAPE(MANY), .dtype = CJ_F64),
              *ys = cj_add(TRUTH(xs), cj_mul_scalar(normal(CJ_SHAPE(MANY)), 0.5));
    cj_tensor *at = cj_uniform(c, 0.2, 4.8, CJ_SHAPE(2000), .dtype = CJ_F64),
              *noisy = cj_add(TRUTH(at), cj_mul_scalar(normal(CJ_SHAPE(2000)), 0.5));
    assert_near(cj_item(cj_mean(cj_square(cj_sub(cj_matmul(kernel_map(at, xs, 0.05), ys), noisy)))), 0.25, 0.03);
    cj_scope_close(s);
}

static void attn_hierarchy(void **state) /* attn.hierarchy */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    /* One head per offset of a 3x3 kernel; each attends, by its relative position alone, to the pixel at its offset; values are that tap's weights: together the convolution. */
    enum { H = 8, W = 7, IN = 2, OUT = 3 }; /* a frame of zeros around 6x5 pixels */
    cj_tensor *pixels = cj_randn(c, CJ_SHAPE(1, IN, H - 2, W - 2)), *image = cj_pad(pixels, CJ_SHAPE(1, 1), CJ_SHAPE(1, 1)),
              *kernel = cj_randn(c, CJ_SHAPE(OUT, IN, 3, 3)), *tokens = cj_t(cj_reshape(image, CJ_SHAPE(IN, H * W)));
    cj_tensor *sum = NULL, *map = NULL;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            float bias[H * W * H * W];
            for (int p = 0; p < H * W; p++)
                for (int q = 0; q < H * W; q++) bias[p * H * W + q] = q / W - p / W == a - 1 && q % W - p % W == b - 1 ? 40 : 0;
            cj_tensor *alpha = cj_softmax(cj_from_f32(c, bias, CJ_SHAPE(H * W, H * W)), -1),
                      *tap = cj_select(cj_select(kernel, 3, b), 2, a);
            cj_tensor *head = cj_matmul(cj_matmul(alpha, tokens), cj_t(tap)); /* [pixels, OUT] */
            sum = sum ? cj_add(sum, head) : head;
            map = alpha;
        }
    cj_tensor *y = cj_conv(pixels, kernel, NULL, .padding = 1);
    cj_tensor *attended_to = cj_reshape(cj_t(sum), CJ_SHAPE(1, OUT, H, W));
    same(cj_slice(cj_slice(attended_to, 2, 1, H - 1, 1), 3, 1, W - 1, 1), y, 1e-4);
    /* attention with fixed weights is a dense layer over all tokens: the Kronecker product of map and value matrix */
    cj_tensor *value = cj_randn(c, CJ_SHAPE(OUT, IN)), *dense = cj_kron(map, value);
    same(cj_flatten(cj_matmul(cj_matmul(map, tokens), cj_t(value)), 0), cj_matmul(dense, cj_flatten(tokens, 0)), 1e-4);
    cj_scope_close(s);
}

/* ---- recurrent ------------------------------------------------------------------------------------------------------------------------------------------------ */

static void rnn_ortho_init(void **state) /* rnn.ortho-init */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 16 };
    cj_tensor *u = cj_svd(normal(CJ_SHAPE(N, N))).u, *x = normal(CJ_SHAPE(N)), *v = x;
    same(cj_matmul(cj_t(u), u), cj_eye(c, N, CJ_F64), 1e-12);
    for (int k = 1; k <= 100; k++) {
        v = cj_matmul(u, v);
        assert_near(cj_item(cj_norm(v, 2)), cj_item(cj_norm(x, 2)), 1e-10);
    }
    cj_module *rnn = cj_rnn_layer(c, 3, N);
    cj_tensor *w = param(rnn, "weight_hh_l0"), *in = cj_randn(c, CJ_SHAPE(8, 4, 3)), *eye = cj_eye(c, N, CJ_F32);
    cj_init_orthogonal_(w, 0);
    same(cj_matmul(cj_t(w), w), eye, 1e-6);
    cj_optim *sgd = cj_sgd(cj_module_params(rnn), .lr = 0.5);
    for (int i = 0; i < 10; i++) assert_true(cj_minimise(sgd, cj_mean(cj_square(cj_add_scalar(cj_forward(rnn, in), -0.7)))));
    assert_true(distance(cj_matmul(cj_t(w), w), eye) > 1e-2); /* it does not stay so */
    cj_scope_close(s);
}

static void rnn_perplexity(void **state) /* rnn.perplexity */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int64_t classes = 2; classes <= 50; classes += 16) {
        cj_tensor *target = cj_randint(c, 0, classes, CJ_SHAPE(3, 7));
        assert_near(exp(cj_item(cj_cross_entropy(cj_full(c, 1.7, CJ_SHAPE(3, 7, classes), CJ_F64), target))), (double)classes, 1e-9);
    }
    /* two classes with probabilities p and 1 - p: (1/likelihood)^(1/nT) */
    cj_tensor *logits = normal(CJ_SHAPE(2, 5, 4)), *target = cj_randint(c, 0, 4, CJ_SHAPE(2, 5)), *p = cj_softmax(logits, -1);
    double likelihood = 1;
    for (int i = 0; i < 10; i++) likelihood *= value_at(p, i * 4 + (int64_t)value_at(target, i));
    assert_near(exp(cj_item(cj_cross_entropy(logits, target))), pow(1 / likelihood, 0.1), 1e-10);
    /* a class with probability e^-3.55, and one with 2^-3.55 */
    const double rare[] = { exp(-3.55), pow(2, -3.55) }, expected[] = { 34.8133, 11.7127 };
    for (int i = 0; i < 2; i++) {
        cj_tensor *one = F64(c, CJ_SHAPE(1, 2), log(rare[i]), log(1 - rare[i]));
        double nats = cj_item(cj_cross_entropy(one, cj_zeros(c, CJ_SHAPE(1), CJ_I64)));
        assert_near(exp(nats), expected[i], 5e-5);
        assert_near(pow(2, nats / log(2)), expected[i], 5e-5); /* in bits */
    }
    cj_scope_close(s);
}

static void rnn_output_feedback(void **state) /* rnn.output-feedback */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { T = 6, H = 3, I = 2, K = 4 };
    /* a_t = U·x_t + W·h_(t-1) + V·y_(t-1), h = tanh(a), logits = G·h; y_(t-1) is the true class as one-hot */
    cj_tensor *U = cj_require_grad(normal(CJ_SHAPE(H, I))), *W = cj_require_grad(normal(CJ_SHAPE(H, H))),
              *V = cj_require_grad(normal(CJ_SHAPE(H, K))), *G = cj_require_grad(normal(CJ_SHAPE(K, H))), *x = normal(CJ_SHAPE(T, I)),
              *y = cj_randint(c, 0, K, CJ_SHAPE(T)), *onehot = cj_cast(cj_one_hot(y, K), CJ_F64);
    cj_tensor *h[T], *loss = NULL, *state_before = cj_zeros(c, CJ_SHAPE(H), CJ_F64), *g[4];
    for (int t = 0; t < T; t++) {
        cj_tensor *a = cj_add(cj_matmul(U, cj_select(x, 0, t)), cj_matmul(W, state_before));
        if (t) a = cj_add(a, cj_matmul(V, cj_select(onehot, 0, t - 1)));
        h[t] = state_before = cj_tanh(a);
        cj_tensor *l = cj_cross_entropy(cj_unsqueeze(cj_matmul(G, h[t]), 0), cj_slice(y, 0, t, t + 1, 1));
        loss = loss ? cj_add(loss, l) : l;
    }
    double hv[T][H], p[T][K], J[T][H][H], *Wv = values_of(W), *Gv = values_of(G), *Xv = values_of(x), *Yv = values_of(y);
    for (int t = 0; t < T; t++) {
        cj_to_f64(h[t], hv[t], H);
        cj_to_f64(cj_softmax(cj_matmul(G, h[t]), 0), p[t], K);
        for (int i = 0; i < H; i++)
            for (int j = 0; j < H; j++) J[t][i][j] = (1 - hv[t][i] * hv[t][i]) * Wv[i * H + j]; /* dh_t/dh_(t-1) */
    }
    double dU[H * I] = { 0 }, dW[H * H] = { 0 }, dV[H * K] = { 0 };
    for (int t = 0; t < T; t++) {
        double r[H] = { 0 }; /* dL_t/dh_t, carried back through the product of Jacobians */
        for (int k = 0; k < K; k++)
            for (int j = 0; j < H; j++) r[j] += (p[t][k] - (Yv[t] == k)) * Gv[k * H + j];
        for (int i = t; i >= 0; i--) { /* the immediate derivative of h_i by each parameter */
            for (int a = 0; a < H; a++) {
                double d = r[a] * (1 - hv[i][a] * hv[i][a]);
                for (int b = 0; b < I; b++) dU[a * I + b] += d * Xv[i * I + b];
                for (int b = 0; b < H && i; b++) dW[a * H + b] += d * hv[i - 1][b];
                if (i) dV[a * K + (int)Yv[i - 1]] += d;
            }
            double back[H] = { 0 };
            for (int a = 0; a < H; a++)
                for (int b = 0; b < H; b++) back[b] += r[a] * J[i][a][b];
            memcpy(r, back, sizeof r);
        }
    }
    free(Wv), free(Gv), free(Xv), free(Yv);
    cj_tensor *all[] = { U, W, V, G };
    assert_true(cj_grad(loss, all, 4, g));
    same(g[0], f64(c, dU, CJ_SHAPE(H, I)), 1e-10);
    same(g[1], f64(c, dW, CJ_SHAPE(H, H)), 1e-10);
    same(g[2], f64(c, dV, CJ_SHAPE(H, K)), 1e-10);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(module_system),
        cmocka_unit_test(module_train_eval),
        cmocka_unit_test(module_params_buffers),
        cmocka_unit_test(module_hooks),
        cmocka_unit_test(module_linear),
        cmocka_unit_test(module_sparse_dag),
        cmocka_unit_test(module_count_params),
        cmocka_unit_test(module_describe),
        cmocka_unit_test(init_zero),
        cmocka_unit_test(init_variance_propagation_and_gaussian),
        cmocka_unit_test(init_residual),
        cmocka_unit_test(norm_whitening),
        cmocka_unit_test(pos_relative),
        cmocka_unit_test(attn_nw_experiment),
        cmocka_unit_test(attn_hierarchy),
        cmocka_unit_test(rnn_ortho_init),
        cmocka_unit_test(rnn_perplexity),
        cmocka_unit_test(rnn_output_feedback),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
