/* Differentiation: what a pass consumes, what it sees, and how the transforms compose. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 4);

static cj_tensor *randn64(int64_t n) { return cj_randn(c, CJ_SHAPE(n), .dtype = CJ_F64); }
static cj_tensor *scalar64(double v) { return cj_full(c, v, CJ_SCALAR, CJ_F64); }
static cj_tensor *leaf64(double v) { return cj_require_grad(scalar64(v)); }

/* ---- one pass ---------------------------------------------------------------------------------------------------------------------------------- */

static void retain_and_consume(void **state)
{
    (void)state;
    cj_tensor *x = leaf64(3), *y = cj_mul(cj_square(x), x), *g;
    assert_true(cj_grad(y, &x, 1, &g, .retain = true));
    assert_near(cj_item(g), 27, 0);
    assert_true(c->tape_n > 0);
    assert_true(cj_grad(y, &x, 1, &g, .retain = true));
    assert_near(cj_item(g), 27, 0);
    assert_true(cj_grad(y, &x, 1, &g));
    assert_int_equal(c->tape_n, 0);
    assert_false(cj_grad(y, &x, 1, &g));
    assert_error(c, CJ_EGRAPH, "grad: the graph is gone; a pass consumes it unless .retain is set");
    assert_true(cj_is_poison(g));
    cj_clear(c);
}

/* Without options the graph is used up, as with none of them set. */
static void no_options_are_the_defaults(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(1), 3)), *y = cj_square(x), *g = c->poison;
        assert_true(all ? (cj_backward)(y, NULL) : (cj_grad)(y, &x, 1, &g, NULL));
        if (all) g = cj_leaf_grad(x);
        assert_near(cj_item(g), 6, 0);
        assert_false((cj_grad)(y, &x, 1, &g, NULL)); /* not kept */
        assert_int_equal(cj_error(c), CJ_EGRAPH);
        cj_clear(c);
    }
}

/* A pass takes only what lies between y and x: the rest of the graph is still there. */
static void only_the_path_is_consumed(void **state)
{
    (void)state;
    cj_tensor *a = leaf64(2), *b = leaf64(5), *p = cj_exp(a), *q = cj_square(b), *y = cj_add(p, q), *g;
    assert_true(cj_grad(y, &a, 1, &g));
    assert_near(cj_item(g), exp(2), 1e-14);
    assert_true(cj_grad(q, &b, 1, &g)); /* b's square was not on the way to a */
    assert_near(cj_item(g), 10, 0);
}

static void gradient_of_intermediate_and_duplicate(void **state)
{
    (void)state;
    cj_tensor *x = leaf64(2), *h = cj_square(x), *y = cj_mul(h, x), *g[4];
    assert_true(cj_grad(y, CJ_TENSORS(h, x, x, y), 4, g));
    assert_near(cj_item(g[0]), 2, 0);
    assert_near(cj_item(g[1]), 12, 0);
    assert_near(cj_item(g[2]), 12, 0);
    assert_near(cj_item(g[3]), 1, 0);
}

static void unused_gives_zeros(void **state)
{
    (void)state;
    cj_tensor *x = leaf64(2), *z = cj_require_grad(cj_ones(c, CJ_SHAPE(2, 3), CJ_F32)), *g[2];
    assert_true(cj_grad(cj_square(x), CJ_TENSORS(x, z), 2, g, .allow_unused = true));
    assert_near(cj_item(g[0]), 4, 0);
    assert_int_equal(cj_numel(g[1]), 6);
    assert_near(cj_item(cj_sum(cj_abs(g[1]))), 0, 0);
    assert_true(cj_grad(scalar64(1), CJ_TENSORS(x, z), 2, g, .allow_unused = true));
    assert_near(cj_item(g[0]), 0, 0);
}

static void seed_is_a_vjp(void **state)
{
    (void)state;
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(3), 1, 2, 3)), *g, *v = F64(c, CJ_SHAPE(3), 10, 100, 1000);
    assert_true(cj_grad(cj_square(x), &x, 1, &g, .seed = v));
    assert_near(value_at(g, 0), 20, 0);
    assert_near(value_at(g, 1), 400, 0);
    assert_near(value_at(g, 2), 6000, 0);
}

static void create_graph_to_fourth_order(void **state)
{
    (void)state;
    cj_tensor *x = leaf64(2), *y = cj_pow_scalar(x, 5);
    static const double expected[] = { 80, 160, 240, 240, 120 };
    for (int k = 0; k < 5; k++) {
        assert_true(cj_grad(y, &x, 1, &y, .create_graph = true));
        assert_near(cj_item(y), expected[k], 1e-9);
    }
    cj_tensor *g;
    assert_true(cj_grad(y, &x, 1, &g, .allow_unused = true));
    assert_near(cj_item(g), 0, 0);
    y = cj_square(x);
    assert_true(cj_grad(y, &x, 1, &g)); /* without it the gradient is a plain value */
    assert_false(cj_requires_grad(g));
}

static void detach_and_no_grad(void **state)
{
    (void)state;
    cj_tensor *x = leaf64(3), *g;
    cj_tensor *y = cj_mul(x, cj_detach(x));
    assert_false(cj_requires_grad(cj_detach(x)));
    assert_ptr_equal(cj_data(cj_detach(x)), cj_data(x));
    assert_true(cj_grad(y, &x, 1, &g));
    assert_near(cj_item(g), 3, 0);
    assert_true(cj_grad_enabled(c));
    bool was = cj_no_grad(c);
    assert_true(was && !cj_grad_enabled(c));
    y = cj_square(x);
    assert_false(cj_requires_grad(y));
    assert_int_equal(c->tape_n, 0);
    assert_false(cj_no_grad(c)); /* nested: says what was */
    cj_grad_mode(c, was);
    assert_true(cj_requires_grad(cj_square(x)));
    assert_false(cj_requires_grad(cj_argmax(cj_expand(x, CJ_SHAPE(3)))));
    assert_false(cj_requires_grad(cj_gt_scalar(x, 0)));
    cj_tensor *fresh = cj_require_grad(cj_exp(x)); /* a new leaf: nothing flows back to x */
    assert_true(cj_grad(cj_square(fresh), CJ_TENSORS(fresh, x), 2, (cj_tensor *[2]){ 0 }, .allow_unused = true));
}

static void backward_accumulates(void **state)
{
    (void)state;
    cj_tensor *w = cj_param(scalar64(3)), *v = cj_param(scalar64(2));
    assert_null(cj_leaf_grad(w));
    assert_true(cj_backward(cj_mul(cj_square(w), v)));
    assert_near(cj_item(cj_leaf_grad(w)), 12, 0);
    assert_near(cj_item(cj_leaf_grad(v)), 9, 0);
    assert_true(cj_backward(cj_square(w)));
    assert_near(cj_item(cj_leaf_grad(w)), 18, 0);
    assert_near(cj_item(cj_leaf_grad(v)), 9, 0);
    cj_leaf_zero_grad(w);
    assert_near(cj_item(cj_leaf_grad(w)), 0, 0);
    assert_near(cj_item(cj_leaf_grad(v)), 9, 0);
    assert_true(cj_backward(w, .seed = scalar64(5))); /* of a leaf itself */
    assert_near(cj_item(cj_leaf_grad(w)), 5, 0);
    assert_false(cj_requires_grad(cj_leaf_grad(w)));
    cj_release(w);
    cj_release(v);
}

/* Versioned writes: both operators are named; what no rule reads may change. */
static void writes_are_noticed(void **state)
{
    (void)state;
    cj_tensor *x = cj_require_grad(randn64(4)), *w = randn64(4), *g;
    struct {
        cj_tensor *y;
        const char *says;
    } cases[] = {
        { cj_sum(cj_mul(x, w)), "backward of mul: its input 2 was changed by add_ after it had been used" },
        { cj_sum(cj_div(x, w)), "backward of div: its input 2 was changed by add_ after it had been used" },
        { cj_dot(x, w), "backward of matmul: its input 2 was changed by add_ after it had been used" },
    };
    cj_tensor *fine = cj_sum(cj_add(x, w));
    cj_add_(w, cj_ones_like(w), 0.5);
    for (size_t i = 0; i < 3; i++) {
        assert_false(cj_grad(cases[i].y, &x, 1, &g));
        assert_error(c, CJ_EGRAPH, cases[i].says);
        cj_clear(c);
    }
    assert_true(cj_grad(fine, &x, 1, &g)); /* add's rule reads no values */
    /* a parameter that an optimiser changed between forward and backward */
    cj_tensor *p = cj_param(randn64(4)), *loss = cj_sum(cj_square(p));
    bool was = cj_no_grad(c);
    cj_assign_(p, cj_zeros_like(p));
    cj_grad_mode(c, was);
    assert_false(cj_grad(loss, &p, 1, &g));
    assert_error(c, CJ_EGRAPH, "backward of square: its input 1 was changed by assign_");
    cj_clear(c);
    cj_release(p);
}

/* ---- shared parameters, names, layout ----------------------------------------------------------------------------------------------------------------- */

typedef struct twice {
    cj_module *first, *second;
} twice;
static cj_tensor *twice_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    twice *t = self;
    return cj_forward(t->second, cj_forward(t->first, x));
}
static const cj_module_type twice_type = { "Twice", twice_forward, NULL };
static void name_seen(void *user, const char *name, cj_tensor *t)
{
    (void)t;
    strcat(strcat(user, name), " ");
}

static void names_and_sharing(void **state)
{
    (void)state;
    cj_module *net = cj_module_new(c, &twice_type, sizeof(twice)), *lin = cj_linear(c, 3, 3),
              *deep = cj_sequential(c, cj_linear(c, 3, 3), cj_relu_layer(c));
    twice *t = cj_module_self(net);
    t->first = cj_module_add(net, "encoder", deep);
    t->second = cj_module_add(net, "head", lin);
    cj_module_add(net, "again", lin); /* the same module a second time */
    cj_module_param(net, "tied", cj_params_find(cj_module_params(lin), "weight"));
    cj_module_buffer(net, "mean", cj_zeros(c, CJ_SHAPE(3), CJ_F32));
    cj_params *p = cj_module_params(net);
    char names[200] = "";
    for (int i = 0; i < cj_params_count(p); i++) strcat(strcat(names, cj_params_name(p, i)), " ");
    assert_string_equal(names, "encoder.0.weight encoder.0.bias head.weight head.bias ");
    assert_int_equal(cj_params_numel(p), 24);
    assert_ptr_equal(cj_params_find(p, "head.weight"), cj_params_find(cj_module_params(lin), "weight"));
    assert_null(cj_params_find(p, "again.weight"));
    assert_null(cj_params_at(p, 4));
    assert_null(cj_params_at(p, -1));
    char all[400] = "";
    assert_int_equal(cj_module_state(net, name_seen, all), 8);
    assert_non_null(strstr(all, "mean "));
    assert_int_equal(cj_module_children(net), 3);
    assert_string_equal(cj_module_child_name(net, 2), "again");
    assert_ptr_equal(cj_module_child(net, 2), lin);
    assert_string_equal(cj_module_type_name(cj_module_child(net, 0)), "Sequential");
    assert_null(cj_module_child(net, 3));
    assert_true(cj_module_training(net));
    cj_module_train(net, false);
    assert_false(cj_module_training(lin) || cj_module_training(deep));
    cj_module_train(net, true);
    /* one summed gradient, one update */
    cj_tensor *w = cj_params_find(p, "head.weight"), *g;
    cj_tensor *x = cj_ones(c, CJ_SHAPE(1, 3), CJ_F32);
    cj_tensor *y = cj_sum(cj_add(cj_forward(lin, x), cj_forward(lin, cj_mul_scalar(x, 2))));
    assert_true(cj_grad(y, &w, 1, &g));
    assert_near(cj_item(cj_sum(g)), 27, 1e-5);
}

static void flat_layout(void **state)
{
    (void)state;
    cj_module *net = cj_sequential(c, cj_linear(c, 3, 5), cj_linear(c, 5, 2));
    cj_params *p = cj_module_params(net);
    assert_null(cj_params_flat(p, CJ_F32));
    double *before[4];
    for (int i = 0; i < 4; i++) before[i] = values_of(cj_params_at(p, i));
    assert_true(cj_params_flatten(p) && cj_params_flatten(p));
    cj_tensor *flat = cj_params_flat(p, CJ_F32);
    assert_ptr_equal(flat, cj_params_flat(p, CJ_DEFAULT_DTYPE));
    assert_null(cj_params_flat(p, CJ_F64));
    assert_int_equal(cj_ndim(flat), 1);
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        cj_tensor *t = cj_params_at(p, i);
        assert_ptr_equal(cj_data(t), (const float *)cj_data(flat) + at);
        assert_int_equal((uintptr_t)cj_data(t) % 64, 0);
        double *now = values_of(t);
        assert_memory_equal(now, before[i], sizeof(double) * (size_t)cj_numel(t));
        free(now);
        free(before[i]);
        at += (cj_numel(t) + 15) / 16 * 16;
    }
    assert_int_equal(cj_numel(flat), at);
    assert_true(cj_requires_grad(cj_params_at(p, 0)));
}

/* Weighted halves give the gradient of the whole batch. */
static void accumulate_equals_minimise(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 9 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 9 });
    cj_ctx *both[2] = { d, e };
    cj_params *p[2];
    for (int k = 0; k < 2; k++) {
        cj_ctx *q = both[k];
        cj_module *net = cj_sequential(q, cj_linear(q, 4, 6), cj_tanh_layer(q), cj_linear(q, 6, 1));
        p[k] = cj_module_params(net);
        cj_optim *opt = cj_adam(p[k], .lr = 0.1);
        cj_tensor *x = cj_randn(q, CJ_SHAPE(12, 4)), *y = cj_randn(q, CJ_SHAPE(12, 1));
        for (int step = 0; step < 3; step++) {
            if (k == 0) {
                assert_true(cj_minimise(opt, cj_mse_loss(cj_forward(net, x), y)));
                continue;
            }
            for (int part = 0; part < 3; part++) {
                cj_tensor *xs = cj_slice(x, 0, 4 * part, 4 * part + 4, 1), *ys = cj_slice(y, 0, 4 * part, 4 * part + 4, 1);
                assert_true(cj_accumulate(opt, cj_mse_loss(cj_forward(net, xs), ys), 1.0 / 3));
            }
            assert_true(cj_step(opt));
            assert_near(cj_item(cj_sum(cj_abs(cj_leaf_grad(cj_params_at(p[k], 0))))), 0, 0); /* zeroed */
        }
        assert_int_equal(cj_optim_steps(opt), 3);
        assert_ok(q);
    }
    for (int i = 0; i < cj_params_count(p[0]); i++) assert_near(distance(cj_params_at(p[0], i), cj_params_at(p[1], i)), 0, 2e-5);
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* ---- transforms ------------------------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *vector_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)user, (void)n;
    cj_tensor *x = in[0];
    cj_tensor *parts[3] = { cj_softmax(x, 0), cj_mul(cj_sin(x), cj_flatten(cj_slice(x, 0, 3, CJ_END, -1), 0)), cj_tanh(cj_mul(x, x)) };
    return cj_cat(parts, 3, 0);
}

static cj_tensor *scalar_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)user, (void)n;
    cj_tensor *x = in[0];
    return cj_add(cj_logsumexp(x), cj_sum(cj_mul(cj_pow_scalar(x, 3), cj_slice(x, 0, 3, CJ_END, -1))));
}

static void jacobian_rows_are_columns(void **state)
{
    (void)state;
    cj_tensor *x = randn64(4), *rows = cj_jacobian(c, vector_fn, NULL, x), *columns = cj_jacobian(c, vector_fn, NULL, x, .forward = true);
    assert_int_equal(cj_size(rows, 0), 12);
    assert_int_equal(cj_size(rows, 1), 4);
    assert_near(distance(rows, columns), 0, 1e-13);
    /* and both are difference quotients */
    for (int64_t k = 0; k < 4; k++) {
        double *at = (double *)x->data, was = at[k], h = 1e-6;
        at[k] = was + h;
        double *up = values_of(vector_fn(c, NULL, &x, 1));
        at[k] = was - h;
        double *down = values_of(vector_fn(c, NULL, &x, 1));
        at[k] = was;
        for (int64_t i = 0; i < 12; i++) assert_near(cj_at(rows, (int64_t[]){ i, k }), (up[i] - down[i]) / (2 * h), 1e-8);
        free(up);
        free(down);
    }
}

static void hessian_is_symmetric_and_hvp(void **state)
{
    (void)state;
    cj_tensor *x = randn64(4), *h = cj_hessian(c, scalar_fn, NULL, x), *t = randn64(4), *out;
    assert_near(distance(h, cj_t(h)), 0, 1e-12);
    cj_tensor *value = cj_hvp(c, scalar_fn, NULL, &x, &t, 1, &out);
    assert_near(distance(out, cj_matmul(h, t)), 0, 1e-12);
    assert_near(cj_item(value), cj_item(scalar_fn(c, NULL, &x, 1)), 0);
    /* reverse over reverse */
    cj_tensor *leaf = cj_require_grad(x), *g, *gg;
    assert_true(cj_grad(scalar_fn(c, NULL, &leaf, 1), &leaf, 1, &g, .create_graph = true));
    assert_true(cj_grad(cj_sum(cj_mul(g, t)), &leaf, 1, &gg));
    assert_near(distance(gg, out), 0, 1e-12);
    /* reverse over forward */
    leaf = cj_require_grad(x);
    cj_pair p = cj_jvp(c, scalar_fn, NULL, &leaf, &t, 1);
    assert_true(cj_grad(p.derivative, &leaf, 1, &gg));
    assert_near(distance(gg, out), 0, 1e-12);
}

static void vjp_and_jvp_are_transposes(void **state)
{
    (void)state;
    cj_tensor *x = randn64(4), *t = randn64(4), *v = randn64(12), *g;
    cj_tensor *y = cj_vjp(c, vector_fn, NULL, &x, 1, v, &g);
    cj_pair p = cj_jvp(c, vector_fn, NULL, &x, &t, 1);
    assert_near(distance(y, p.value), 0, 0);
    assert_near(cj_item(cj_dot(g, t)), cj_item(cj_dot(v, p.derivative)), 1e-13);
    cj_tensor *none = NULL;
    p = cj_jvp(c, vector_fn, NULL, &x, &none, 1); /* no tangent: zero */
    assert_near(cj_item(cj_sum(cj_abs(p.derivative))), 0, 0);
}

/* d/dx (x · d/dy (x + y)) = 1, not 2: the perturbations of the two levels are not confused. */
static cj_tensor *x_plus_y(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)n, cj_add(user, in[0]); }
static cj_tensor *outer_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    cj_tensor *y = cj_full(q, 1, CJ_SCALAR, CJ_F64), *one = cj_ones_like(y);
    return cj_mul(in[0], cj_jvp(q, x_plus_y, in[0], &y, &one, 1).derivative);
}
static void nested_forward(void **state)
{
    (void)state;
    cj_tensor *x = scalar64(3), *one = scalar64(1);
    cj_pair p = cj_jvp(c, outer_fn, NULL, &x, &one, 1);
    assert_near(cj_item(p.value), 3, 0);
    assert_near(cj_item(p.derivative), 1, 0);
    cj_tensor *leaf = leaf64(3), *g; /* the same in reverse over forward */
    assert_true(cj_grad(outer_fn(c, NULL, &leaf, 1), &leaf, 1, &g));
    assert_near(cj_item(g), 1, 0);
}

/* Third derivative by three nested forward passes. */
static cj_tensor *quartic(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)user, (void)n, cj_square(cj_square(in[0]));
}
static cj_tensor *derivative_of(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    int *order = user, now = *order;
    cj_tensor *one = cj_ones_like(in[0]);
    if (now == 0) return quartic(q, NULL, in, n);
    int below = now - 1;
    return cj_jvp(q, derivative_of, &below, in, &one, 1).derivative;
}
static void nested_forward_orders(void **state)
{
    (void)state;
    static const double expected[] = { 81, 108, 108, 72, 24 };
    cj_tensor *x = scalar64(3);
    for (int order = 0; order < 5; order++) assert_near(cj_item(derivative_of(c, &order, &x, 1)), expected[order], 1e-10);
    assert_int_equal(c->fwd_limit, 0);
}

/* One example at a time equals the rows of the batch. */
typedef struct regression {
    cj_tensor *w, *b;
} regression;
static cj_tensor *regression_loss(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    regression *r = user;
    return cj_sum(cj_square(cj_sub(cj_linear_op(in[0], r->w, r->b), in[1])));
}
static cj_tensor *times_a_sum(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    regression *r = user;
    return cj_sum(cj_mul(in[0], cj_sum(r->b)));
}
static void per_example_gradients(void **state)
{
    (void)state;
    cj_random_opts d = { .dtype = CJ_F64 };
    cj_tensor *x = (cj_randn)(c, CJ_SHAPE(5, 3), &d), *y = (cj_randn)(c, CJ_SHAPE(5, 2), &d), *g[2], *whole[2];
    regression r = { cj_require_grad((cj_randn)(c, CJ_SHAPE(2, 3), &d)), cj_require_grad((cj_randn)(c, CJ_SHAPE(2), &d)) };
    cj_tensor *param[2] = { r.w, r.b }, *batch[2] = { x, y };
    assert_true(cj_per_example_grad(c, regression_loss, &r, param, 2, batch, 2, g));
    assert_int_equal(cj_size(g[0], 0), 5);
    assert_int_equal(cj_ndim(g[0]), 3);
    cj_tensor *e = cj_mul_scalar(cj_sub(cj_linear_op(x, r.w, r.b), y), 2);
    assert_near(distance(g[1], cj_detach(e)), 0, 1e-13);
    assert_near(distance(g[0], cj_detach(cj_mul(cj_unsqueeze(e, 2), cj_unsqueeze(x, 1)))), 0, 1e-13);
    assert_true(cj_grad(regression_loss(c, &r, batch, 2), param, 2, whole));
    assert_near(distance(cj_sum(g[0], .axes = CJ_AXIS(0)), whole[0]), 0, 1e-12);
    cj_tensor *numbers = cj_select(x, 1, 0), *slope[1]; /* a batch of numbers: [5] */
    assert_true(cj_per_example_grad(c, times_a_sum, &r, param + 1, 1, &numbers, 1, slope));
    assert_near(distance(slope[0], cj_expand(cj_unsqueeze(numbers, 1), CJ_SHAPE(5, 2))), 0, 1e-13);
    cj_tensor *short_batch[2] = { x, cj_slice(y, 0, 0, 3, 1) };
    assert_false(cj_per_example_grad(c, regression_loss, &r, param, 2, short_batch, 2, g));
    assert_error(c, CJ_ESHAPE, "all need the same first size");
    cj_clear(c);
}

/* ---- checkpointing --------------------------------------------------------------------------------------------------------------------------------------- */

enum { WIDE = 64, ROWS = 500, BLOCKS = 6 };
static cj_tensor *block(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    return cj_forward(user, in[0]);
}
typedef struct deep {
    cj_ctx *c;
    cj_module *block[BLOCKS];
    cj_params *params[BLOCKS];
} deep;
static void deep_build(deep *d)
{
    d->c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 21 });
    for (int i = 0; i < BLOCKS; i++) {
        d->block[i] = cj_sequential(d->c, cj_linear(d->c, WIDE, WIDE), cj_gelu_layer(d->c), cj_dropout_layer(d->c, 0.3),
                                    cj_linear(d->c, WIDE, WIDE), cj_layer_norm_layer(d->c, WIDE), cj_tanh_layer(d->c));
        d->params[i] = cj_module_params(d->block[i]);
    }
}
static size_t deep_grads(deep *d, bool checkpointed, cj_tensor **g, int *n)
{
    cj_ctx *q = d->c;
    cj_tensor *x = cj_require_grad(cj_randn(q, CJ_SHAPE(ROWS, WIDE))), *want[1 + 8 * BLOCKS];
    cj_memory_reset_peak(q);
    size_t before = cj_memory_stats(q).live;
    cj_tensor *h = x;
    for (int i = 0; i < BLOCKS; i++) h = checkpointed ? cj_checkpoint(q, block, d->block[i], &h, 1) : cj_forward(d->block[i], h);
    cj_tensor *noise = cj_dropout(h, .p = 0.5); /* draws after the checkpoints see the same numbers */
    *n = 0;
    want[(*n)++] = x;
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < cj_params_count(d->params[i]); k++) want[(*n)++] = cj_params_at(d->params[i], k);
    assert_true(cj_grad(cj_sum(cj_square(noise)), want, *n, g));
    assert_ok(q);
    return cj_memory_stats(q).peak - before;
}
static void checkpoint_same_bits_less_memory(void **state)
{
    (void)state;
    deep a, b;
    deep_build(&a);
    deep_build(&b);
    cj_tensor *ga[1 + 8 * BLOCKS], *gb[1 + 8 * BLOCKS];
    int na, nb;
    size_t plain = deep_grads(&a, false, ga, &na), small = deep_grads(&b, true, gb, &nb);
    assert_int_equal(na, nb);
    for (int i = 0; i < na; i++) {
        assert_true(same_bits(ga[i], gb[i]));
        assert_true(cj_item(cj_sum(cj_abs(gb[i]))) > 0);
    }
    if (!(small < 0.6 * (double)plain)) fail_msg("checkpointing: %zu bytes, %zu without", small, plain);
    cj_rng_state ra = cj_rng_get(a.c), rb = cj_rng_get(b.c);
    assert_memory_equal(&ra, &rb, sizeof ra);
    cj_ctx_free(a.c);
    cj_ctx_free(b.c);
}

/* A parameter used inside and outside of a checkpoint, and by two of them. */
static cj_tensor *scaled_tanh(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)n, cj_tanh(cj_mul(in[0], user)); }
static void checkpoint_shares_parameters(void **state)
{
    (void)state;
    cj_tensor *w = cj_param(cj_full(c, 0.7, CJ_SCALAR, CJ_F64)), *x = cj_require_grad(randn64(5)), *g[2], *h[2], *gg[2], *hh[2];
    for (int k = 0; k < 2; k++) {
        cj_tensor *y = x;
        for (int i = 0; i < 3; i++) y = k ? cj_checkpoint(c, scaled_tanh, w, &y, 1) : scaled_tanh(c, w, &y, 1);
        y = cj_sum(cj_mul(y, w));
        assert_true(cj_grad(y, CJ_TENSORS(x, w), 2, k ? h : g, .create_graph = true));
        assert_true(
            cj_grad(cj_sum(cj_square(k ? h[0] : g[0])), CJ_TENSORS(x, w), 2, k ? hh : gg)); /* second order through the recomputation */
    }
    for (int i = 0; i < 2; i++) {
        assert_near(distance(g[i], h[i]), 0, 0);
        assert_near(distance(gg[i], hh[i]), 0, 1e-14);
    }
    /* the identity, a constant, and no gradient at all */
    cj_tensor *same = cj_checkpoint(c, x_plus_y, cj_zeros_like(x), &x, 1);
    assert_true(cj_grad(cj_sum(same), &x, 1, g));
    assert_near(cj_item(cj_sum(g[0])), 5, 0);
    bool was = cj_no_grad(c);
    assert_false(cj_requires_grad(cj_checkpoint(c, scaled_tanh, w, &x, 1)));
    cj_grad_mode(c, was);
    cj_pair p = cj_jvp(c, scaled_tanh, w, &x, CJ_TENSORS(cj_ones_like(x)), 1);
    assert_true(cj_ok(c) && !cj_is_poison(p.derivative));
    cj_release(w);
}

/* ---- custom operators ----------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct power {
    double exponent;
    int *destroyed;
} power;
static bool power_infer(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)q, (void)payload;
    *shape = cj_shape_of(in[0]);
    *dtype = cj_dtype_of(in[0]);
    return true;
}
static bool power_run(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    const power *p = payload;
    if (cj_dtype_of(shapes[0]) != CJ_F64) return cj_fail(q, CJ_EDTYPE, "power: f64 expected"), false;
    for (int64_t i = 0; i < cj_numel(shapes[0]); i++) ((double *)out)[i] = pow(((const double *)in[0])[i], p->exponent);
    return true;
}
static cj_tensor *power_of(cj_ctx *q, double exponent, int *destroyed, cj_tensor *x);
static int *vjp_destroyed;
static void power_vjp(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin)
{
    (void)out;
    const power *p = payload;
    gin[0] = cj_mul(g, cj_mul_scalar(power_of(q, p->exponent - 1, vjp_destroyed, in[0]), p->exponent));
}
static void power_destroy(void *payload) { ++*((power *)payload)->destroyed; }
static cj_tensor *power_of(cj_ctx *q, double exponent, int *destroyed, cj_tensor *x)
{
    power p = { exponent, destroyed };
    cj_custom_op op = { .name = "power",
                        .nin = 1,
                        .payload = &p,
                        .payload_size = sizeof p,
                        .destroy = power_destroy,
                        .infer = power_infer,
                        .run = power_run,
                        .vjp = power_vjp };
    return cj_custom(q, &op, &x);
}
static bool silent_infer(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)q, (void)payload, (void)in, (void)shape, (void)dtype;
    return false;
}
static bool silent_run(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)q, (void)payload, (void)in, (void)shapes, (void)out;
    return false;
}
static cj_tensor *cube(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)n, power_of(q, 3, user, in[0]); }
static void cube_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out) { out[0] = power_of(q, 3, user, in[0]); }

static void custom_operator(void **state)
{
    (void)state;
    int destroyed = 0, inner = 0;
    vjp_destroyed = &inner;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F64(c, CJ_SHAPE(3), 1, 2, 3), *g, *gg;
    assert_near(value_at(power_of(c, 3, &destroyed, x), 2), 27, 0);
    assert_int_equal(destroyed, 1); /* nobody holds it */
    cj_tensor *leaf = cj_require_grad(x), *y = power_of(c, 3, &destroyed, leaf);
    assert_int_equal(destroyed, 1); /* the tape does */
    assert_true(cj_grad(cj_sum(y), &leaf, 1, &g, .create_graph = true));
    assert_near(value_at(g, 1), 12, 1e-14);
    assert_true(cj_grad(cj_sum(g), &leaf, 1, &gg));
    assert_near(value_at(gg, 1), 12, 1e-14);
    cj_scope_close(s);
    assert_int_equal(destroyed, 2);
    assert_int_equal(inner, 2);
    /* strided inputs are made contiguous, forward mode is derived, the checker agrees */
    s = cj_scope_open(c);
    cj_tensor *m = cj_reshape(F64(c, CJ_SHAPE(4), 1, 2, 3, 4), CJ_SHAPE(2, 2));
    assert_near(cj_at(power_of(c, 2, &destroyed, cj_t(m)), (int64_t[]){ 0, 1 }), 9, 0);
    cj_pair p = cj_jvp(c, cube, &destroyed, &m, CJ_TENSORS(cj_ones_like(m)), 1);
    assert_near(cj_at(p.derivative, (int64_t[]){ 1, 0 }), 27, 1e-13);
    assert_true(cj_gradcheck(c, cube, &destroyed, &m, 1, .second_order = true).ok);
    cj_scope_close(s);
    /* a plan holds the payloads of its trace */
    s = cj_scope_open(c);
    x = F64(c, CJ_SHAPE(3), 1, 2, 3);
    destroyed = 0;
    cj_tensor *out[1];
    cj_plan *plan = cj_capture(c, cube_step, &destroyed, &x, 1, out);
    assert_int_equal(destroyed, 0);
    assert_true(cj_replay(plan, &x, out));
    assert_int_equal(destroyed, 1); /* the second trace has been compared and is gone */
    assert_true(cj_replay(plan, CJ_TENSORS(F64(c, CJ_SHAPE(3), 2, 3, 4)), out));
    assert_near(value_at(out[0], 2), 64, 0);
    assert_int_equal(destroyed, 1);
    cj_plan_free(plan);
    assert_int_equal(destroyed, 2);
    cj_scope_close(s);
    /* errors of its own, and limits */
    cj_tensor *f = cj_ones(c, CJ_SHAPE(2), CJ_F32);
    assert_true(cj_is_poison(power_of(c, 2, &destroyed, f)));
    assert_error(c, CJ_EDTYPE, "power: f64 expected");
    cj_clear(c);
    assert_int_equal(destroyed, 3);
    cj_custom_op big = {
        .name = "big", .nin = 1, .payload = f, .payload_size = CJ_MAX_ATTR_BYTES + 1, .infer = power_infer, .run = power_run
    };
    assert_true(cj_is_poison(cj_custom(c, &big, &f)));
    assert_error(c, CJ_EVALUE, "big: payload of 513 bytes, at most 512 are possible");
    cj_clear(c);
    big = (cj_custom_op){ .name = "many", .nin = 17, .infer = power_infer, .run = power_run };
    assert_true(cj_is_poison(cj_custom(c, &big, &f)));
    assert_error(c, CJ_EVALUE, "many: 17 inputs, 1 to 16 are possible");
    cj_clear(c);
    /* who fails without a word gets one */
    const power two = { 2, &destroyed };
    cj_custom_op silent = {
        .name = "silent", .nin = 1, .payload = &two, .payload_size = sizeof two, .infer = power_infer, .run = silent_run
    };
    cj_tensor *given = F64(c, CJ_SHAPE(2), 1, 2);
    assert_true(cj_is_poison(cj_custom(c, &silent, &given)));
    assert_error(c, CJ_EVALUE, "silent: its kernel failed");
    cj_clear(c);
    silent.infer = silent_infer;
    assert_true(cj_is_poison(cj_custom(c, &silent, &given)));
    assert_error(c, CJ_EVALUE, "silent: its shape rule failed");
    cj_clear(c);
}

/* ---- the checker ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *kinked(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)user, (void)n, cj_add(cj_relu(in[0]), cj_abs(in[0]));
}
static void gradcheck_skips_kinks(void **state)
{
    (void)state;
    cj_tensor *x = F64(c, CJ_SHAPE(4), 0, 1, -2, 0);
    cj_gradcheck_result r = cj_gradcheck(c, kinked, NULL, &x, 1);
    if (!r.ok) fail_msg("%s", r.what);
    assert_int_equal(r.kinks, 4); /* two elements, two cotangents */
    x = F64(c, CJ_SHAPE(2), 1, -2);
    r = cj_gradcheck(c, kinked, NULL, &x, 1);
    assert_true(r.ok && r.kinks == 0);
}

/* Gradients of many inputs: all are held while the tape needs them, and none longer. */
enum { INPUTS = 40 };
static void operators_of_many_inputs(void **state)
{
    (void)state;
    cj_tensor *leaf[INPUTS], *g[INPUTS];
    for (int i = 0; i < INPUTS; i++) leaf[i] = cj_param(cj_full(c, i + 1, CJ_SHAPE(100), CJ_F32));
    size_t before = 0;
    for (int turn = 0; turn < 3; turn++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *part[INPUTS];
        for (int i = 0; i < INPUTS; i++) part[i] = cj_square(leaf[i]);
        cj_tensor *y = cj_sum(cj_square(cj_cat(part, INPUTS, 0)));
        assert_true(cj_grad(y, leaf, INPUTS, g));
        for (int i = 0; i < INPUTS; i++) assert_near(cj_item(cj_sum(g[i])), 400 * pow(i + 1, 3), 0);
        cj_scope_close(s);
        if (turn == 0) before = cj_memory_stats(c).live;
        assert_int_equal(cj_memory_stats(c).live, before);
    }
}

static cj_tensor *reads_much(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    cj_tensor *const *other = user, *sum = in[0];
    for (int i = 0; i < CJ_MAX_INPUTS; i++) sum = cj_add(sum, other[i]);
    return sum;
}
static void checkpoint_reads_too_much(void **state)
{
    (void)state;
    cj_tensor **other = malloc(CJ_MAX_INPUTS * sizeof *other), *x = cj_require_grad(cj_ones(c, CJ_SCALAR, CJ_F32));
    for (int i = 0; i < CJ_MAX_INPUTS; i++) other[i] = cj_require_grad(cj_ones(c, CJ_SCALAR, CJ_F32));
    assert_true(cj_is_poison(cj_checkpoint(c, reads_much, other, &x, 1)));
    assert_error(c, CJ_EVALUE, "checkpoint: the function reads more than 1024 tensors");
    cj_clear(c);
    free(other);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(retain_and_consume),
        T(no_options_are_the_defaults),
        T(only_the_path_is_consumed),
        T(gradient_of_intermediate_and_duplicate),
        T(unused_gives_zeros),
        T(seed_is_a_vjp),
        T(create_graph_to_fourth_order),
        T(detach_and_no_grad),
        T(backward_accumulates),
        T(writes_are_noticed),
        T(names_and_sharing),
        T(flat_layout),
        T(accumulate_equals_minimise),
        T(jacobian_rows_are_columns),
        T(hessian_is_symmetric_and_hvp),
        T(vjp_and_jvp_are_transposes),
        T(nested_forward),
        T(nested_forward_orders),
        T(per_example_gradients),
        T(checkpoint_same_bits_less_memory),
        T(checkpoint_shares_parameters),
        T(checkpoint_reads_too_much),
        T(operators_of_many_inputs),
        T(custom_operator),
        T(gradcheck_skips_kinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
