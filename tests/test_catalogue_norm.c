/* What normalisation is said to do: moments of its results, statistics that run, invariances, what order, shift and dropout do to a small network.  Each case carries the
 * name of the claim that it checks. */
#include "support.h"

static cj_ctx *context(void) { return cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }); }
static cj_tensor *normal(cj_ctx *c, cj_shape s, double mean, double std) { return cj_cast(cj_normal(c, mean, std, s), CJ_F64); }
static double mean_of(cj_tensor *x) { return cj_item(cj_mean(x)); }
static double var_of(cj_tensor *x) { return cj_item(cj_var(x, .biased = true)); }

static void checked(cj_ctx *c, cj_fn fn, cj_tensor *const *x, int n)
{
    cj_gradcheck_result r = cj_gradcheck(c, fn, NULL, x, n, .second_order = true, .tolerance = 2e-5);
    if (!r.ok) fail_msg("%s", r.what);
}

static cj_tensor *batch(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_batch_norm(in[0], in[1], in[2]);
}

/* norm.batch_fc */
static void norm_batch_fc(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *h = normal(c, CJ_SHAPE(50, 3), 4, 0.01), *y = cj_batch_norm(h, NULL, NULL);
    for (int j = 0; j < 3; j++) { /* mean 0, variance var/(var + eps), here about 0.9 */
        double var = var_of(cj_select(h, 1, j));
        assert_near(mean_of(cj_select(y, 1, j)), 0, 1e-12);
        assert_near(var_of(cj_select(y, 1, j)), var / (var + 1e-5), 1e-10);
        assert_true(var / (var + 1e-5) < 0.95);
    }
    cj_tensor *x = normal(c, CJ_SHAPE(5, 2), 0, 1), *w = F64(c, CJ_SHAPE(2), 1.5, -0.5), *b = F64(c, CJ_SHAPE(2), 0.25, 2);
    checked(c, batch, CJ_TENSORS(x, w, b), 3);
    /* without the way through mean and variance the gradient is another one: here of a batch whose results sum to a constant, 0 instead of rstd·w */
    cj_tensor *leaf = cj_require_grad(x), *g;
    cj_grad(cj_sum(cj_batch_norm(leaf, w, b)), &leaf, 1, &g);
    assert_near(cj_item(cj_max(cj_abs(g))), 0, 1e-12);
    /* one example: it is its own mean and has no variance; training refuses it, and with these statistics the result is b */
    cj_tensor *one = F64(c, CJ_SHAPE(1, 2), 7, -3);
    cj_tensor *r =
        cj_batch_norm(one, w, b, .eval = true, .running_mean = cj_select(one, 0, 0), .running_var = cj_zeros(c, CJ_SHAPE(2), CJ_F64));
    assert_near(distance(cj_select(r, 0, 0), b), 0, 0);
    r = cj_batch_norm(cj_expand(one, CJ_SHAPE(4, 2)), w, b); /* the same example four times */
    for (int i = 0; i < 4; i++) assert_near(distance(cj_select(r, 0, i), b), 0, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.batch_conv */
static void norm_batch_conv(void **state)
{
    (void)state;
    cj_ctx *c = context();
    enum { C = 4 };
    cj_tensor *x = normal(c, CJ_SHAPE(6, C, 5, 7), 2, 3), *w = normal(c, CJ_SHAPE(C), 1, 0.5), *b = normal(c, CJ_SHAPE(C), 0, 1);
    assert_int_equal(cj_numel(w) + cj_numel(b), 2 * C);
    cj_tensor *rows = cj_reshape(cj_permute(x, CJ_AXES(0, 2, 3, 1)), CJ_SHAPE(6 * 5 * 7, C));
    cj_tensor *back = cj_permute(cj_reshape(cj_batch_norm(rows, w, b), CJ_SHAPE(6, 5, 7, C)), CJ_AXES(0, 3, 1, 2));
    assert_near(distance(cj_batch_norm(x, w, b), back), 0, 1e-12);
    cj_tensor *y = cj_batch_norm(x, NULL, NULL);
    for (int k = 0; k < C; k++) {
        assert_near(mean_of(cj_select(y, 1, k)), 0, 1e-12);
        assert_near(var_of(cj_select(y, 1, k)), 1, 1e-5);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.running_stats, the operator's part: they converge to the data's statistics, have no gradient, and in eval a result depends on its own example only */
static void running_statistics(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *mean = cj_keep(cj_zeros(c, CJ_SHAPE(15), CJ_F32)), *var = cj_keep(cj_ones(c, CJ_SHAPE(15), CJ_F32));
    cj_tensor *data = cj_keep(cj_normal(c, 3, 2, CJ_SHAPE(400, 15)));
    cj_scope s = cj_scope_open(c);
    cj_batch_norm(data, NULL, NULL, .running_mean = mean, .running_var = var); /* momentum 0.1, unbiased variance */
    cj_scope_close(s);
    double m = mean_of(cj_select(data, 1, 4)), v = cj_item(cj_var(cj_select(data, 1, 4)));
    assert_near(value_at(mean, 4), 0.1 * m, 1e-6);
    assert_near(value_at(var, 4), 0.9 + 0.1 * v, 1e-6);
    for (int i = 0; i < 200; i++) {
        s = cj_scope_open(c);
        cj_batch_norm(data, NULL, NULL, .running_mean = mean, .running_var = var);
        cj_scope_close(s);
    }
    assert_near(value_at(mean, 4), m, 1e-5);
    assert_near(value_at(var, 4), v, 1e-5);
    cj_tensor *x = cj_slice(data, 0, 0, 6, 1), *all = cj_batch_norm(x, NULL, NULL, .running_mean = mean, .running_var = var, .eval = true);
    cj_tensor *alone = cj_batch_norm(cj_slice(x, 0, 2, 3, 1), NULL, NULL, .running_mean = mean, .running_var = var, .eval = true);
    assert_true(same_bits(cj_select(all, 0, 2), cj_select(alone, 0, 0)));
    assert_near(value_at(alone, 4), (value_at(x, 2 * 15 + 4) - value_at(mean, 4)) / sqrt(value_at(var, 4) + 1e-5), 1e-5);
    cj_tensor *ones = cj_ones(c, CJ_SHAPE(15), CJ_F32), *zeros = cj_zeros(c, CJ_SHAPE(15), CJ_F32);
    assert_true(same_bits(cj_batch_norm(x, ones, zeros), cj_batch_norm(x, NULL, NULL))); /* no parameters is a = 1, b = 0 */
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.bias_gradient */
static void norm_bias_gradient(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = normal(c, CJ_SHAPE(32, 3), 1, 2), *target = normal(c, CJ_SHAPE(32, 3), 0, 1),
              *b = cj_require_grad(cj_zeros(c, CJ_SHAPE(3), CJ_F64)), *g;
    const cj_reduce_opts first = { .axes = CJ_AXIS(0) };
    cj_tensor *h = cj_add(x, b);
    cj_grad(cj_mean(cj_square(cj_sub(cj_sub(h, (cj_mean)(h, &first)), target))), &b, 1, &g);
    assert_near(cj_item(cj_max(cj_abs(g))), 0, 1e-12);
    /* as if the mean did not depend on b: another gradient, and b grows with every step while the loss stays */
    cj_tensor *v = cj_zeros(c, CJ_SHAPE(3), CJ_F64);
    double loss[2] = { 0 }, before = 0;
    for (int i = 0; i < 50; i++) {
        v = cj_require_grad(cj_detach(v));
        cj_tensor *k = cj_add(x, v), *l = cj_mean(cj_square(cj_sub(cj_sub(k, cj_detach((cj_mean)(k, &first))), target)));
        cj_grad(l, &v, 1, &g);
        assert_true(cj_item(cj_max(cj_abs(g))) > 1e-3);
        loss[i > 0] = cj_item(l);
        if (i) assert_near(loss[1], loss[0], 1e-12);
        v = cj_sub(v, g);
        double size = cj_item(cj_max(cj_abs(v)));
        assert_true(size > before);
        before = size;
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *layer(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_layer_norm(in[0], in[1], in[2], 0);
}
static cj_tensor *group(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_group_norm(in[0], 2, in[1], in[2], 0);
}

/* norm.layer */
static void norm_layer(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = normal(c, CJ_SHAPE(5, 40), 3, 2), *y = cj_layer_norm(x, NULL, NULL, 0);
    for (int i = 0; i < 5; i++) {
        assert_near(mean_of(cj_select(y, 0, i)), 0, 1e-12);
        assert_near(var_of(cj_select(y, 0, i)), 1, 1e-5);
        assert_true(
            same_bits(cj_layer_norm(cj_slice(x, 0, i, i + 1, 1), NULL, NULL, 0), cj_slice(y, 0, i, i + 1, 1))); /* one example alone */
    }
    checked(c, layer, CJ_TENSORS(normal(c, CJ_SHAPE(2, 4), 0, 1), normal(c, CJ_SHAPE(4), 1, 1), normal(c, CJ_SHAPE(4), 0, 1)), 3);
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.group_instance */
static void norm_group_instance(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = normal(c, CJ_SHAPE(3, 4, 3, 5), 1, 2);
    cj_tensor *layers = cj_reshape(cj_layer_norm(cj_flatten(x, 1), NULL, NULL, 0), cj_shape_of(x));
    assert_near(distance(cj_group_norm(x, 1, NULL, NULL, 0), layers), 0, 1e-12);
    assert_true(same_bits(cj_group_norm(x, 4, NULL, NULL, 0), cj_instance_norm(x, NULL, NULL, 0)));
    cj_tensor *planes = cj_reshape(cj_layer_norm(cj_reshape(x, CJ_SHAPE(12, 15)), NULL, NULL, 0), cj_shape_of(x));
    assert_near(distance(cj_instance_norm(x, NULL, NULL, 0), planes), 0, 1e-12);
    assert_true(
        same_bits(cj_group_norm(cj_slice(x, 0, 1, 2, 1), 2, NULL, NULL, 0), cj_slice(cj_group_norm(x, 2, NULL, NULL, 0), 0, 1, 2, 1)));
    checked(c, group, CJ_TENSORS(normal(c, CJ_SHAPE(2, 4, 3), 0, 1), normal(c, CJ_SHAPE(4), 1, 1), normal(c, CJ_SHAPE(4), 0, 1)), 3);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *weight(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_weight_norm(in[0], in[1], 0);
}

/* norm.weight */
static void norm_weight(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *v = cj_require_grad(normal(c, CJ_SHAPE(4, 6), 0, 1)), *g = normal(c, CJ_SHAPE(4), 1, 0.5),
              *x = normal(c, CJ_SHAPE(9, 6), 0, 1), *d;
    cj_tensor *y = cj_linear_op(x, cj_weight_norm(v, g, 0), NULL);
    assert_near(distance(y, cj_linear_op(x, cj_weight_norm(cj_mul_scalar(v, 17), g, 0), NULL)), 0, 1e-12);
    assert_near(distance(cj_sum(cj_square(cj_weight_norm(v, g, 0)), .axes = CJ_AXIS(1)), cj_square(g)), 0, 1e-12); /* rows of length g */
    cj_grad(cj_sum(cj_square(y)), &v, 1, &d);
    cj_tensor *inner = cj_sum(cj_mul(v, d), .axes = CJ_AXIS(1)); /* orthogonal, row by row */
    assert_near(cj_item(cj_max(cj_abs(inner))), 0, 1e-10);
    assert_true(cj_item(cj_max(cj_abs(d))) > 0.1);
    checked(c, weight, CJ_TENSORS(cj_detach(v), g), 2);
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.scale_invariance: a loss of the normalised layer at c·W, and its gradient */
typedef enum kind { BATCH, LAYER, WEIGHT } kind;
static double loss_at(kind k, cj_tensor *x, cj_tensor *w, double scale, cj_tensor **value, cj_tensor **g)
{
    cj_ctx *c = cj_tensor_ctx(x);
    cj_tensor *v = cj_require_grad(cj_mul_scalar(w, scale)), *gain = cj_ones(c, CJ_SHAPE(5), CJ_F64);
    cj_tensor *h = cj_linear_op(x, k == WEIGHT ? cj_weight_norm(v, gain, 0) : v, NULL);
    *value = k == BATCH ? cj_batch_norm(h, NULL, NULL) : k == LAYER ? cj_layer_norm(h, NULL, NULL, 0) : h;
    cj_grad(cj_sum(cj_mul(*value, cj_square(*value))), &v, 1, g); /* not the square: normalised values have a fixed sum of squares */
    return cj_item(cj_sum(cj_mul(v, *g)));
}
static void norm_scale_invariance(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = normal(c, CJ_SHAPE(40, 6), 0, 10), *w = normal(c, CJ_SHAPE(5, 6), 0, 3);
    for (int k = BATCH; k <= WEIGHT; k++) {
        cj_tensor *y, *g, *scaled, *gs;
        assert_near(loss_at((kind)k, x, w, 1, &y, &g), 0, 1e-4);
        for (double s = 0.1; s <= 10; s *= 10) {
            double along = loss_at((kind)k, x, w, s, &scaled, &gs);
            assert_near(distance(y, scaled), 0, 1e-5); /* eps is what is left of the scale */
            assert_near(along, 0, 1e-3);
            assert_near(distance(cj_mul_scalar(gs, s), g), 0, 2e-5 * cj_item(cj_max(cj_abs(g))));
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.standardise */
static void norm_standardise(void **state)
{
    (void)state;
    cj_ctx *c = context();
    const double constant = 0.1;
    cj_tensor *parts[2] = { normal(c, CJ_SHAPE(200, 3), 50, 7), cj_full(c, constant, CJ_SHAPE(200, 1), CJ_F64) },
              *train = cj_cat(parts, 2, 1);
    cj_tensor *test = cj_add_scalar(cj_slice(train, 0, 0, 50, 1), 1);
    cj_standardised z = cj_standardise(train);
    for (int j = 0; j < 3; j++) {
        assert_near(mean_of(cj_select(z.value, 1, j)), 0, 1e-12);
        assert_near(var_of(cj_select(z.value, 1, j)), 1, 1e-12);
    }
    assert_near(cj_item(cj_max(cj_abs(cj_select(z.value, 1, 3)))), 0,
                1e-15); /* the constant feature: 0, not rounding divided by rounding */
    assert_near(value_at(z.std, 3), 1, 0);
    cj_standardised t = cj_standardise(test, .mean = z.mean, .std = z.std); /* the training set's numbers */
    assert_near(distance(t.value, cj_add(cj_slice(z.value, 0, 0, 50, 1), cj_reciprocal(z.std))), 0, 1e-12);
    assert_near(distance(cj_add(cj_mul(t.value, t.std), t.mean), test), 0, 1e-12);
    cj_tensor *same = cj_full(c, 0.1, CJ_SHAPE(1000, 1), CJ_F32); /* 0.1 has no exact mean in f32 */
    assert_near(cj_item(cj_max(cj_abs(cj_standardise(same).value))), 0, 1e-6);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- small networks: is the point outside of a circle? -------------------------------------------------------------------------------------------------- */

typedef struct net {
    cj_tensor *w1, *w2, *b2, *a, *b, *mean, *var, *mean2, *var2;
    bool relu_first, input_norm;
    double drop;
} net;

static net net_new(cj_ctx *c, uint64_t seed, int64_t hidden)
{
    cj_seed(c, seed);
    return (net){ .w1 = cj_param(cj_normal(c, 0, 0.7, CJ_SHAPE(hidden, 2))),
                  .w2 = cj_param(cj_normal(c, 0, 0.2, CJ_SHAPE(2, hidden))),
                  .b2 = cj_param(cj_zeros(c, CJ_SHAPE(2), CJ_F32)),
                  .a = cj_param(cj_ones(c, CJ_SHAPE(hidden), CJ_F32)),
                  .b = cj_param(cj_zeros(c, CJ_SHAPE(hidden), CJ_F32)),
                  .mean = cj_keep(cj_zeros(c, CJ_SHAPE(hidden), CJ_F32)),
                  .var = cj_keep(cj_ones(c, CJ_SHAPE(hidden), CJ_F32)),
                  .mean2 = cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F32)),
                  .var2 = cj_keep(cj_ones(c, CJ_SHAPE(2), CJ_F32)) };
}

static cj_tensor *logits(const net *n, cj_tensor *x, bool eval, bool drop)
{
    if (n->input_norm) x = cj_batch_norm(x, NULL, NULL, .running_mean = n->mean2, .running_var = n->var2, .eval = eval);
    cj_tensor *h = cj_linear_op(x, n->w1, NULL);
    cj_batch_norm_opts o = { .running_mean = n->mean, .running_var = n->var, .eval = eval, .relu = !n->relu_first };
    if (n->relu_first) h = cj_relu(h);
    if (drop) h = cj_dropout(h, .p = n->drop);
    h = (cj_batch_norm)(h, n->a, n->b, &o);
    return cj_linear_op(h, n->w2, n->b2);
}

static cj_tensor *outside(cj_tensor *x) { return cj_cast(cj_gt_scalar(cj_sum(cj_square(x), .axes = CJ_AXIS(1)), 1.4), CJ_I64); }

static void fit(cj_ctx *c, const net *n, cj_tensor *x, cj_tensor *target, int steps)
{
    cj_tensor *params[5] = { n->w1, n->w2, n->b2, n->a, n->b }, *g[5];
    for (int i = 0; i < steps; i++) {
        cj_scope s = cj_scope_open(c);
        cj_grad(cj_cross_entropy(logits(n, x, false, n->drop > 0), target), params, 5, g);
        bool was = cj_no_grad(c);
        for (int k = 0; k < 5; k++) cj_add_(params[k], g[k], -0.5);
        cj_grad_mode(c, was);
        cj_scope_close(s);
    }
    assert_ok(c);
}

static double accuracy(const net *n, cj_tensor *x, cj_tensor *target)
{
    cj_scope s = cj_scope_open(cj_tensor_ctx(x));
    cj_tensor *best = cj_argmax(logits(n, x, true, false), .axes = CJ_AXIS(1));
    double a = cj_item(cj_mean(cj_cast(cj_eq(best, target), CJ_F32)));
    cj_scope_close(s);
    return a;
}

/* norm.bn_order */
static void norm_bn_order(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *h = cj_normal(c, 0.3, 2, CJ_SHAPE(20000, 4)), *positive = cj_relu(h);
    cj_tensor *bn_relu = cj_batch_norm(h, NULL, NULL, .relu = true), *relu_bn = cj_batch_norm(positive, NULL, NULL);
    assert_near(mean_of(bn_relu), 0.3989, 0.01); /* N(0, 1) through the ReLU: 1/sqrt(2 pi) */
    assert_near(mean_of(relu_bn), 0, 1e-5);
    double zeros = mean_of(cj_cast(cj_eq_scalar(bn_relu, 0), CJ_F32)), other = mean_of(cj_cast(cj_eq_scalar(relu_bn, 0), CJ_F32));
    assert_near(zeros, 0.5, 0.02); /* half of the values are 0; after the other order none is */
    assert_near(other, 0, 0);
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(400, 2))), *t = cj_keep(outside(x));
    for (int first = 0; first < 2; first++) {
        net n = net_new(c, 3, 24);
        n.relu_first = first;
        fit(c, &n, x, t, 150);
        double a = accuracy(&n, x, t);
        print_message("%s: accuracy %.3f\n", first ? "ReLU, BN" : "BN, ReLU", a);
        assert_true(a > 0.9);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.bn_shift */
static void norm_bn_shift(void **state)
{
    (void)state;
    cj_ctx *c = context();
    net n = net_new(c, 5, 24);
    n.input_norm = true;
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(400, 2))), *t = cj_keep(outside(x));
    fit(c, &n, x, t, 150);
    double before = accuracy(&n, x, t), last = before;
    assert_true(before > 0.9);
    for (int k = 1; k <= 3; k++) { /* brighter and of more contrast, by stored statistics */
        double a = accuracy(&n, cj_add_scalar(cj_mul_scalar(x, 1 + 0.3 * k), 0.6 * k), t);
        assert_true(a < last - 0.02);
        last = a;
    }
    cj_tensor *shifted = cj_keep(cj_add_scalar(cj_mul_scalar(x, 1.9), 1.8));
    for (int i = 0; i < 100; i++) { /* statistics of the shifted data, weights as they are */
        cj_scope s = cj_scope_open(c);
        logits(&n, shifted, false, false);
        cj_scope_close(s);
    }
    double after = accuracy(&n, shifted, t);
    print_message("accuracy %.3f, shifted %.3f, statistics taken again %.3f\n", before, last, after);
    assert_true(after > before - 0.02);
    assert_ok(c);
    cj_ctx_free(c);
}

/* norm.bn_recalibrate: with dropout before it, batch norm stores a variance that eval does not see */
static void norm_bn_recalibrate(void **state)
{
    (void)state;
    cj_ctx *c = context();
    double before = 0, after = 0;
    enum { RUNS = 6 };
    for (int run = 0; run < RUNS; run++) {
        net n = net_new(c, 100 + (uint64_t)run, 24);
        n.relu_first = true;
        n.drop = 0.5;
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(400, 2))), *t = cj_keep(outside(x)), *test = cj_keep(cj_randn(c, CJ_SHAPE(2000, 2))),
                  *truth = cj_keep(outside(test));
        fit(c, &n, x, t, 120);
        cj_tensor *w1 = cj_keep(cj_clone(cj_detach(n.w1))), *a = cj_keep(cj_clone(cj_detach(n.a))), *var = cj_keep(cj_clone(n.var));
        before += accuracy(&n, test, truth) / RUNS;
        for (int i = 0; i < 60; i++) { /* training mode, dropout off, no update */
            cj_scope s = cj_scope_open(c);
            logits(&n, x, false, false);
            cj_scope_close(s);
        }
        after += accuracy(&n, test, truth) / RUNS;
        assert_true(same_bits(cj_detach(n.w1), w1) && same_bits(cj_detach(n.a), a));
        assert_true(distance(n.var, var) > 1e-3);
    }
    print_message("accuracy on average: before %.4f, after %.4f\n", before, after);
    assert_true(after >= before);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_batch_fc),      cmocka_unit_test(norm_batch_conv),
        cmocka_unit_test(running_statistics), cmocka_unit_test(norm_bias_gradient),
        cmocka_unit_test(norm_layer),         cmocka_unit_test(norm_group_instance),
        cmocka_unit_test(norm_weight),        cmocka_unit_test(norm_scale_invariance),
        cmocka_unit_test(norm_standardise),   cmocka_unit_test(norm_bn_order),
        cmocka_unit_test(norm_bn_shift),      cmocka_unit_test(norm_bn_recalibrate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
