/* Layers that the courses ask for beyond the usual ones: borders, unpooling, reparametrised weights, whitening, dense connections, other attention scores, graphs; freezing,
 * hooks and descriptions of a tree; and the sentences for what cannot be, with the path of the layer. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 17);

static cj_tensor *param(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }
static void ignore(void *user, const char *name, cj_tensor *t) { (void)user, (void)name, (void)t; }
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_ok(c);
    assert_near(distance(a, b), 0, tolerance);
}

static void borders(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 7, 8));
    const struct {
        cj_conv_opts conv;
        int64_t height, width;
    } row[] = { { { .border = CJ_VALID }, 5, 5 },
                { { .border = CJ_SAME }, 7, 8 },
                { { .border = CJ_FULL }, 9, 11 },
                { { .border = CJ_SAME, .mode = CJ_PAD_REFLECT }, 7, 8 },
                { { .border = CJ_SAME, .mode = CJ_PAD_CYCLIC }, 7, 8 },
                { { .paddings = CJ_SHAPE(1, 2), .mode = CJ_PAD_REPLICATE }, 7, 9 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        cj_module *m = cj_conv_layer(c, 3, 4, CJ_SHAPE(3, 4), .conv = row[i].conv);
        cj_tensor *y = cj_forward(m, x);
        assert_ok(c);
        assert_int_equal(cj_size(y, 2), row[i].height);
        assert_int_equal(cj_size(y, 3), row[i].width);
        cj_tensor *wide = x; /* what lies beyond the border, put there by hand */
        int64_t h = row[i].height + 2 - 7, w = row[i].width + 3 - 8;
        if (h || w) wide = cj_pad(x, CJ_SHAPE(h / 2, w / 2), CJ_SHAPE(h - h / 2, w - w / 2), .mode = row[i].conv.mode);
        same(y, cj_conv(wide, param(m, "weight"), param(m, "bias")), 1e-5);
    }
    cj_scope_close(s);
}

static void pooling_and_back(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 6, 9));
    same(cj_forward(cj_min_pool_layer(c, .kernel = 3), x), cj_neg(cj_forward(cj_max_pool_layer(c, .kernel = 3), cj_neg(x))), 0);
    cj_module *down = cj_max_pool_layer(c, .kernel = 3), *up = cj_max_unpool_layer(c, .kernel = 3);
    cj_pooled p = cj_max_pool_forward(down, x);
    cj_tensor *back = cj_max_unpool_forward(up, p.value, p.index, (cj_shape){ 0 });
    assert_int_equal(cj_size(back, 2), 6);
    assert_int_equal(cj_size(back, 3), 9);
    assert_near(cj_item(cj_sum(back)), cj_item(cj_sum(p.value)), 1e-4);
    cj_tensor *there = cj_ne_scalar(back, 0); /* where a value came back, it is x's */
    same(back, cj_where(there, x, cj_zeros_like(x)), 0);
    assert_int_equal((int64_t)cj_item(cj_sum(there)), 2 * 3 * 2 * 3);
    assert_int_equal(cj_size(cj_max_unpool_forward(up, p.value, p.index, CJ_SHAPE(7, 9)), 2), 7);
    cj_pool_opts apart = { .kernels = CJ_SHAPE(3, 4),
                           .strides = CJ_SHAPE(2, 3),
                           .paddings = CJ_SHAPE(1, 2) }; /* 3 and 4 windows: the smallest input has 5 rows, 9 columns */
    cj_pooled q = cj_max_pool_forward((cj_max_pool_layer)(c, &apart), cj_slice(x, 2, 0, 5, 1));
    assert_int_equal(cj_size(q.value, 2), 3);
    assert_int_equal(cj_size(q.value, 3), 4);
    cj_tensor *smallest = cj_max_unpool_forward((cj_max_unpool_layer)(c, &apart), q.value, q.index, (cj_shape){ 0 });
    assert_int_equal(cj_size(smallest, 2), 5);
    assert_int_equal(cj_size(smallest, 3), 9);
    same(smallest, cj_max_unpool(q.value, q.index, CJ_SHAPE(5, 9)), 0);
    assert_ok(c);
    assert_poisoned(CJ_EVALUE, "max_pool_forward: the module is a MaxUnpool; a MaxPool expected", cj_max_pool_forward(up, x).value);
    assert_poisoned(CJ_EVALUE, "max_unpool_forward: the module is a MaxPool", cj_max_unpool_forward(down, x, p.index, (cj_shape){ 0 }));
    assert_poisoned(CJ_EVALUE, "MaxUnpool takes more than one input", cj_forward(up, x));
    cj_scope_close(s);
}

static void weight_norm_and_spectral_norm(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(5, 4));
    cj_module *plain = cj_linear(c, 4, 3);
    cj_tensor *w = cj_keep(cj_clone(cj_detach(param(plain, "weight")))), *before = cj_forward(plain, x);
    assert_ptr_equal(cj_weight_norm_layer(plain, (cj_axes){ 0 }), plain);
    assert_null(param(plain, "weight"));
    cj_tensor *g = param(plain, "weight_g"), *v = param(plain, "weight_v"), *leaf[] = { g, v }, *d[2];
    assert_true(g && v && cj_size(g, 0) == 3 && cj_size(g, 1) == 1);
    same(cj_forward(plain, x), before, 1e-6); /* at first the layer is what it was */
    cj_tensor *seed = cj_randn(c, CJ_SHAPE(5, 3)), *y = cj_forward(plain, x);
    assert_true(cj_grad(y, leaf, 2, d, .seed = seed));
    cj_tensor *dw = cj_matmul(cj_t(seed), x); /* d/dg = <dw, v/|v|>; d/dv = g/|v| · (dw - <dw, v/|v|> v/|v|), orthogonal to v */
    cj_tensor *unit = cj_div(w, cj_norm(w, 2, .axes = CJ_AXIS(1), .keepdim = true));
    cj_tensor *along = cj_sum(cj_mul(dw, unit), .axes = CJ_AXIS(1), .keepdim = true);
    same(d[0], along, 1e-5);
    same(d[1], cj_sub(dw, cj_mul(along, unit)), 1e-5); /* g = |v| here */
    same(cj_sum(cj_mul(d[1], w), .axes = CJ_AXIS(1)), cj_zeros(c, CJ_SHAPE(3), CJ_F32), 1e-5);
    cj_optim *opt = cj_sgd(cj_module_params(plain), .lr = 0.1); /* trains as any other */
    assert_true(cj_minimise(opt, cj_mean(cj_square(cj_forward(plain, x)))));
    /* a convolution: over all axes but the first */
    cj_module *conv = cj_weight_norm_layer(cj_conv_layer(c, 2, 3, CJ_SHAPE(3, 3)), CJ_AXIS(0));
    assert_int_equal(cj_numel(param(conv, "weight_g")), 3);
    same(cj_norm(cj_reshape(param(conv, "weight_v"), CJ_SHAPE(3, 18)), 2, .axes = CJ_AXIS(1)), cj_flatten(param(conv, "weight_g"), 0),
         1e-6);
    assert_int_equal(cj_ndim(cj_forward(conv, cj_randn(c, CJ_SHAPE(1, 2, 5, 5)))), 4);

    cj_module *spectral = cj_spectral_norm_layer(cj_linear(c, 6, 5));
    cj_tensor *orig = param(spectral, "weight_orig"), *eye = cj_eye(c, 6, CJ_F32);
    bool grad = cj_no_grad(c);
    cj_assign_(orig, cj_mul_scalar(cj_randn(c, CJ_SHAPE(5, 6)), 3));
    cj_assign_(param(spectral, "bias"), cj_scalar(c, 0));
    cj_grad_mode(c, grad);
    for (int i = 0; i < 200; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_forward(spectral, eye); /* power iterations */
        cj_scope_close(inner);
    }
    cj_module_train(spectral, false);
    cj_tensor *effective = cj_forward(spectral, eye), *sigma = cj_svdvals(orig);
    assert_near(value_at(cj_svdvals(effective), 0), 1, 1e-4);
    same(effective, cj_div(cj_t(orig), cj_select(sigma, 0, 0)), 1e-4);
    assert_true(same_bits(effective, cj_forward(spectral, eye)));
    assert_int_equal(cj_module_state(spectral, ignore, NULL), 4); /* weight_orig, bias, weight_u, weight_v */
    assert_ok(c);
    assert_refused(CJ_EVALUE, "weight_norm layer: a ReLU has no weight [out, ..] of its own",
                   cj_weight_norm_layer(cj_relu_layer(c), CJ_AXIS(0)));
    assert_refused(CJ_EVALUE, "weight_norm layer: the weight of this Linear is reparametrised already",
                   cj_weight_norm_layer(plain, CJ_AXIS(0)));
    assert_refused(CJ_EINDEX, "weight_norm layer: axis 2 of a weight [3, 4]", cj_weight_norm_layer(cj_linear(c, 4, 3), CJ_AXIS(2)));
    assert_refused(CJ_EVALUE, "spectral_norm layer: -1 iterations", cj_spectral_norm_layer(cj_linear(c, 4, 3), .iterations = -1));
    cj_release(w);
    cj_scope_close(s);
}

static void whitening_layer(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_whiten_layer(c, 3, .momentum = 1);
    cj_tensor *mix = cj_from_f32(c, (float[]){ 2, 1, 0, 0, 1, 0.5f, 0, 0, 0.3f }, CJ_SHAPE(3, 3)),
              *x = cj_add_scalar(cj_matmul(cj_randn(c, CJ_SHAPE(400, 3)), mix), 5);
    cj_scope inner = cj_scope_open(c);
    cj_tensor *y = cj_forward(m, x);
    same(cj_cov(y, .biased = true), cj_eye(c, 3, CJ_F32), 2e-3);
    same(cj_mean(y, .axes = CJ_AXIS(0)), cj_zeros(c, CJ_SHAPE(3), CJ_F32), 1e-4);
    cj_scope_close(inner);
    cj_module_train(m, false); /* with momentum 1 the running statistics are the batch's */
    cj_tensor *z = cj_forward(m, x);
    same(cj_cov(z, .biased = true), cj_eye(c, 3, CJ_F32), 2e-3);
    assert_true(same_bits(z, cj_forward(m, x)));
    assert_ok(c);
    assert_poisoned(CJ_ESHAPE, "whiten layer: input [400, 2]; [n, 3] expected", cj_forward(m, cj_slice(x, 1, 0, 2, 1)));
    assert_refused(CJ_EVALUE, "whiten layer: momentum 2", cj_whiten_layer(c, 3, .momentum = 2));
    cj_scope_close(s);
}

static void dense_connections_and_noise(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *inner = cj_conv_layer(c, 3, 4, CJ_SHAPE(3, 3), .conv = { .padding = 1 });
    cj_module *block = cj_sequential(c, cj_dense_connection_layer(c, inner, (cj_axes){ 0 }),
                                     cj_dense_connection_layer(c, cj_conv_layer(c, 7, 4, CJ_SHAPE(1, 1)), CJ_AXIS(1)));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 5, 5)), *y = cj_forward(block, x);
    assert_int_equal(cj_size(y, 1), 3 + 4 + 4);
    same(cj_slice(y, 1, 0, 3, 1), x, 0);
    same(cj_slice(y, 1, 3, 7, 1), cj_forward(inner, x), 0);
    assert_non_null(param(block, "1.body.weight"));
    cj_module *noise = cj_noise_layer(c, 0.5);
    cj_tensor *wide = cj_zeros(c, CJ_SHAPE(200, 200), CJ_F32);
    assert_near(cj_item(cj_var(cj_forward(noise, wide))), 0.25, 0.01);
    cj_module_train(noise, false);
    assert_true(same_bits(cj_forward(noise, wide), wide));
    assert_ok(c);
    assert_refused(CJ_EVALUE, "noise layer: deviation -1", cj_noise_layer(c, -1));
    cj_scope_close(s);
}

static void score_attention(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { TQ = 3, TK = 4, D = 5, R = 2 };
    cj_tensor *q = cj_randn(c, CJ_SHAPE(1, TQ, D)), *k = cj_randn(c, CJ_SHAPE(1, TK, D)), *v = cj_randn(c, CJ_SHAPE(1, TK, 2));
    cj_tensor *seen = cj_from_data(c, (bool[]){ true, true, false, true }, CJ_BOOL, CJ_SHAPE(TK));
    for (int score = CJ_SCORE_ADDITIVE; score <= CJ_SCORE_REDUCED_RANK; score++)
        for (int masked = 0; masked < 2; masked++) {
            cj_module *m = cj_score_attention(c, (cj_score)score, D, D, R);
            cj_attended y = cj_score_attention_forward(m, q, k, v, masked ? seen : NULL);
            assert_ok(c);
            double *Q = values_of(q), *K = values_of(k), *V = values_of(v), *P[3] = { NULL };
            for (int i = 0; i < cj_params_count(cj_module_params(m)); i++) P[i] = values_of(cj_params_at(cj_module_params(m), i));
            for (int a = 0; a < TQ; a++) {
                double e[TK], total = 0, out[2] = { 0 };
                for (int b = 0; b < TK; b++) {
                    e[b] = 0;
                    if (score == CJ_SCORE_DOT)
                        for (int i = 0; i < D; i++) e[b] += Q[a * D + i] * K[b * D + i];
                    if (score == CJ_SCORE_GENERAL)
                        for (int i = 0; i < D; i++)
                            for (int j = 0; j < D; j++) e[b] += K[b * D + i] * P[0][i * D + j] * Q[a * D + j];
                    for (int r = 0; r < R && (score == CJ_SCORE_ADDITIVE || score == CJ_SCORE_REDUCED_RANK); r++) {
                        double left = 0, right = 0;
                        for (int i = 0; i < D; i++) left += P[0][r * D + i] * Q[a * D + i], right += P[1][r * D + i] * K[b * D + i];
                        e[b] += score == CJ_SCORE_ADDITIVE ? P[2][r] * tanh(left + right) : left * right;
                    }
                    e[b] = masked && b == 2 ? 0 : exp(e[b]);
                    total += e[b];
                }
                for (int b = 0; b < TK; b++) {
                    assert_near(value_at(y.weights, a * TK + b), e[b] / total, 1e-6);
                    for (int i = 0; i < 2; i++) out[i] += e[b] / total * V[b * 2 + i];
                }
                for (int i = 0; i < 2; i++) assert_near(value_at(y.value, a * 2 + i), out[i], 1e-5);
            }
            free(Q), free(K), free(V);
            for (int i = 0; i < 3; i++) free(P[i]);
        }
    cj_module *m = cj_score_attention(c, CJ_SCORE_GENERAL, D, D, 0);
    assert_poisoned(CJ_ESHAPE, "score_attention_forward: query [1, 3, 4], key [1, 4, 5]",
                    cj_score_attention_forward(m, cj_slice(q, 2, 0, 4, 1), k, v, NULL).value);
    assert_poisoned(CJ_EDTYPE, "score_attention_forward: the mask is f32; bool expected",
                    cj_score_attention_forward(m, q, k, v, cj_ones(c, CJ_SHAPE(TK), CJ_F32)).value);
    assert_refused(CJ_EVALUE, "score_attention: a product of queries [3] and keys [4]", cj_score_attention(c, CJ_SCORE_DOT, 3, 4, 0));
    assert_refused(CJ_EVALUE, "with rank 0", cj_score_attention(c, CJ_SCORE_ADDITIVE, 3, 4, 0));
    cj_scope_close(s);
}

static void graph_convolution(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 6 };
    double a[N * N] = { 0 };
    const int edge[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 }, { 3, 4 } }; /* node 5 alone */
    for (int i = 0; i < 5; i++) a[edge[i][0] * N + edge[i][1]] = a[edge[i][1] * N + edge[i][0]] = 1;
    cj_csr graph = cj_graph_normalise(cj_csr_from_dense(cj_cast(f64(c, a, CJ_SHAPE(N, N)), CJ_F32)));
    double expected[N * N], degree[N];
    for (int i = 0; i < N; i++) {
        degree[i] = 1;
        for (int j = 0; j < N; j++) degree[i] += a[i * N + j];
    }
    for (int i = 0; i < N * N; i++) expected[i] = (a[i] + (i / N == i % N)) / sqrt(degree[i / N] * degree[i % N]);
    same(cj_csr_to_dense(graph), cj_cast(f64(c, expected, CJ_SHAPE(N, N)), CJ_F32), 1e-6);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(N, 3)), *dense = cj_csr_to_dense(graph);
    for (int out = 2; out <= 5; out += 3) { /* either order of the products */
        cj_module *m = cj_graph_conv_layer(c, 3, out);
        cj_tensor *w = param(m, "weight"), *b = param(m, "bias"), *leaf[] = { w, b }, *g[2], *h[2];
        cj_init_normal_(b, 0, 1);
        cj_tensor *y = cj_graph_conv_forward(m, graph, x), *z = cj_add(cj_matmul(dense, cj_matmul(x, cj_t(w))), b);
        same(y, z, 1e-5);
        assert_true(cj_grad(cj_sum(cj_square(y)), leaf, 2, g) && cj_grad(cj_sum(cj_square(z)), leaf, 2, h));
        same(g[0], h[0], 1e-4);
        same(g[1], h[1], 1e-4);
    }
    assert_ok(c);
    cj_module *m = cj_graph_conv_layer(c, 4, 2);
    assert_poisoned(CJ_ESHAPE, "graph_conv_forward: nodes [6, 3]; [6, 4] expected", cj_graph_conv_forward(m, graph, x));
    assert_refused(CJ_EVALUE, "graph_conv layer: sizes 0 -> 2", cj_graph_conv_layer(c, 0, 2));
    cj_csr flat = cj_csr_from_dense(x);
    assert_refused(CJ_ESHAPE, "graph_normalise: 6 x 3; a square matrix expected", cj_graph_normalise(flat).values);
    cj_scope_close(s);
}

static void initial_values(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int64_t groups = 1; groups <= 2; groups++) { /* a convolution that copies its channels */
        cj_module *m = cj_conv_layer(c, 4, 4, CJ_SHAPE(3, 5), .conv = { .border = CJ_SAME, .groups = groups }, .no_bias = true);
        cj_init_dirac_(param(m, "weight"), groups);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 4, 6, 6));
        same(cj_forward(m, x), x, 0);
    }
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(40, 30), CJ_F32));
    cj_init_sparse_(w, 0.31, 0.5);
    same(cj_sum(cj_cast(cj_eq_scalar(w, 0), CJ_F32), .axes = CJ_AXIS(0)), cj_full(c, 13, CJ_SHAPE(30), CJ_F32),
         0); /* ceil(12.4) in every column */
    assert_near(cj_item(cj_sum(cj_square(w))) / (27 * 30), 0.25, 0.04);
    assert_ok(c);
    assert_refused(CJ_EVALUE, "init_sparse_: sparsity 2", cj_init_sparse_(w, 2, 0));
    assert_refused(CJ_ESHAPE, "init_dirac_: f32 [40, 30]; floats with at least 3 axes expected", cj_init_dirac_(w, 1));
    cj_tensor *k = cj_param(cj_zeros(c, CJ_SHAPE(3, 2, 3), CJ_F32));
    assert_refused(CJ_ESHAPE, "init_dirac_: [3, 2, 3] with 2 groups", cj_init_dirac_(k, 2));
    cj_scope_close(s);
}

/* Two modules of the caller's own, as a model has them. */
static cj_tensor *attn_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_enter(cj_module_ctx(m), "q");
    cj_tensor *y = cj_forward(cj_module_child(m, 0), x);
    cj_leave(cj_module_ctx(m));
    return y;
}
static const cj_module_type attn_type = { "Attn", attn_forward, NULL };
static cj_tensor *named_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_enter(cj_module_ctx(m), cj_module_child_name(m, 0));
    cj_tensor *y = cj_forward(cj_module_child(m, 0), x);
    cj_leave(cj_module_ctx(m));
    return y;
}
static const cj_module_type named_type = { "Named", named_forward, NULL };

static void paths(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *attn = cj_module_new(c, &attn_type, 0), *block = cj_module_new(c, &named_type, 0), *net = cj_module_new(c, &named_type, 0);
    cj_module_add(attn, "q", cj_linear(c, 8, 8));
    cj_module_add(block, "attn", attn);
    cj_module_add(net, "encoder", cj_sequential(c, cj_relu_layer(c), cj_tanh_layer(c), cj_relu_layer(c), block));
    cj_tensor *wrong = cj_ones(c, CJ_SHAPE(2, 7), CJ_F32);
    assert_non_null(param(net, "encoder.3.attn.q.weight"));
    assert_poisoned(CJ_ESHAPE, "in encoder.3.attn.q", cj_forward(net, wrong));
    assert_int_equal(cj_size(cj_forward(net, cj_ones(c, CJ_SHAPE(2, 8), CJ_F32)), 1), 8); /* and the path is left again */
    assert_ok(c);
    cj_module *layers[] = { cj_residual_layer(c, cj_sequential(c, cj_linear(c, 8, 8)), NULL),
                            cj_dense_connection_layer(c, cj_linear(c, 8, 8), CJ_AXIS(1)) };
    assert_poisoned(CJ_ESHAPE, "in body.0", cj_forward(layers[0], wrong));
    assert_poisoned(CJ_ESHAPE, "in body", cj_forward(layers[1], wrong));
    cj_tensor *image = cj_ones(c, CJ_SHAPE(1, 2, 4, 4), CJ_F32);
    assert_poisoned(CJ_ESHAPE, "in depthwise", cj_forward(cj_separable_conv_layer(c, 3, 5, CJ_SHAPE(3, 3)), image));
    cj_tensor *tokens = cj_ones(c, CJ_SHAPE(1, 4, 6), CJ_F32);
    cj_module *transformer = cj_sequential(c, cj_transformer_encoder_layer(c, 8, 2));
    assert_poisoned(CJ_ESHAPE, "in 0.self_attn", cj_forward(transformer, tokens));
    assert_refused(CJ_EVALUE, "module Named: 'encoder' is there already", cj_module_add(net, "encoder", cj_relu_layer(c)));
    assert_refused(CJ_EVALUE, "module Linear: 'weight' is there already", cj_module_param(cj_linear(c, 2, 2), "weight", wrong));
    cj_scope_close(s);
}

static void description(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *shared = cj_linear(c, 10, 10, .no_bias = true);
    cj_module *body =
        cj_sequential(c, cj_conv_layer(c, 4, 4, CJ_SHAPE(3, 3), .conv = { .padding = 1, .stride = 2 }), cj_batch_norm_layer(c, 4));
    cj_module *net =
        cj_sequential(c, cj_conv_layer(c, 3, 4, CJ_SHAPE(3, 3), .conv = { .padding = 1 }), cj_relu_layer(c),
                      cj_residual_layer(c, body, cj_conv_layer(c, 4, 4, CJ_SHAPE(1, 1), .conv = { .stride = 2 })),
                      cj_conv_layer(c, 4, 10, CJ_SHAPE(3, 3), .conv = { .dilation = 2 }), cj_global_avg_pool_layer(c), shared, shared);
    snapshot before = { 0 }, after = { 0 };
    cj_module_state(net, snapshot_add, &before);
    cj_module_row r[16];
    const int n = cj_module_describe(net, CJ_SHAPE(2, 3, 12, 12), r, 16);
    assert_ok(c);
    cj_module_state(net, snapshot_add, &after);
    assert_true(snapshot_same(&before, &after) && cj_module_training(net));
    snapshot_free(&before), snapshot_free(&after);
    const struct {
        const char *path, *type;
        int64_t params, activations, field;
        double flops;
    } e[] = { { "0", "Conv2d", 4 * 27 + 4, 4 * 144, 3, (2. * 27 + 1) * 4 * 144 },
              { "1", "ReLU", 0, 4 * 144, 3, 4 * 144 },
              { "2.body.0", "Conv2d", 4 * 36 + 4, 4 * 36, 5, (2. * 36 + 1) * 4 * 36 },
              { "2.body.1", "BatchNorm", 8, 4 * 36, 5, -1 },
              { "2.shortcut", "Conv2d", 4 * 4 + 4, 4 * 36, 3, (2. * 4 + 1) * 4 * 36 },
              { "3", "Conv2d", 10 * 36 + 10, 10 * 4, 13, (2. * 36 + 1) * 10 * 4 }, /* 5 + 2 · 2 · 2: the stride counts once */
              { "4", "GlobalAvgPool", 0, 10, -1, -1 },
              { "5", "Linear", 100, 10, -1, -1 },
              { "5", "Linear", 0, 10, -1, 200 } }; /* the same layer again, under its first name */
    assert_int_equal(n, sizeof e / sizeof *e);
    for (int i = 0; i < n; i++) {
        assert_string_equal(r[i].path, e[i].path);
        assert_string_equal(r[i].type, e[i].type);
        assert_int_equal(r[i].params, e[i].params);
        assert_int_equal(r[i].activations, e[i].activations);
        if (i < 7) assert_int_equal(r[i].field[0], e[i].field);
        if (e[i].flops >= 0 && r[i].flops != e[i].flops) fail_msg("%s: %g flops, %g expected", r[i].path, r[i].flops, e[i].flops);
    }
    assert_int_equal(cj_module_summarise(r, n).params, cj_params_numel(cj_module_params(net)));
    assert_int_equal(r[0].output.ndim, 4);
    assert_int_equal(r[3].bytes, 4 * (8 + 8) + 8);                              /* weight, bias, two statistics, a counter */
    assert_int_equal(cj_module_describe(net, CJ_SHAPE(2, 3, 12, 12), r, 2), 9); /* more than there is room for */
    assert_int_equal(cj_module_describe(net, CJ_SHAPE(2, 4, 12, 12), r, 16), -1);
    assert_error(c, CJ_ESHAPE, "in 0");
    cj_clear(c);
    assert_true(cj_module_training(net));
    cj_module *gpt = cj_sequential(c, cj_embedding_layer(c, 11, 8), cj_transformer_encoder_layer(c, 8, 2, .feed_forward = 16));
    assert_int_equal(cj_module_describe(gpt, CJ_SHAPE(1, 5), r, 16, .dtype = CJ_I64), 8);
    assert_string_equal(r[1].path, "1.self_attn");
    assert_int_equal(r[1].params, 3 * 8 * 8 + 3 * 8);
    assert_string_equal(r[2].path, "1.self_attn.out_proj");
    assert_int_equal(cj_module_summarise(r, 8).params, cj_params_numel(cj_module_params(gpt)));
    assert_ok(c);
    assert_refused(CJ_ESHAPE, "module_describe: an input shape [examples, ..] expected", cj_module_describe(net, CJ_SCALAR, r, 2));
    assert_refused(CJ_EVALUE, "module_describe: room for -1 rows", cj_module_describe(net, CJ_SHAPE(1), r, -1));
    cj_scope_close(s);
}

static void freezing(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *low = cj_linear(c, 4, 6), *head = cj_linear(c, 6, 2), *net = cj_sequential(c, low, cj_tanh_layer(c), head);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(8, 4)), *held = cj_keep(cj_clone(cj_detach(param(low, "weight"))));
    cj_optim *early = cj_sgd(cj_module_params(net), .lr = 0.1);
    cj_tensor *w = param(low, "weight");
    cj_module_freeze(low, true);
    assert_int_equal(cj_params_count(cj_module_params(net)), 2);
    assert_string_equal(cj_params_name(cj_module_params(net), 0), "2.weight");
    assert_int_equal(cj_module_state(net, ignore, NULL), 4); /* saved all the same */
    assert_refused(CJ_EGRAPH, "does not require gradients", cj_minimise(early, cj_mean(cj_square(cj_forward(net, x)))));
    cj_optim *late = cj_adamw(cj_module_params(net), .lr = 0.1, .weight_decay = 0.5);
    cj_tensor *first = cj_keep(cj_clone(cj_detach(param(net, "2.weight"))));
    for (int i = 0; i < 5; i++) assert_true(cj_minimise(late, cj_mean(cj_square(cj_forward(net, x)))));
    assert_true(same_bits(w, held));
    assert_false(same_bits(param(net, "2.weight"), first));
    assert_true(cj_backward(cj_mean(cj_square(cj_forward(net, x)))));
    assert_null(cj_leaf_grad(w));
    cj_module_freeze(net, false);
    assert_int_equal(cj_params_count(cj_module_params(net)), 4);
    cj_optim *all = cj_sgd(cj_module_params(net), .lr = 0.1);
    assert_true(cj_minimise(all, cj_mean(cj_square(cj_forward(net, x)))));
    assert_false(same_bits(w, held));
    assert_refused(CJ_ESTATE, "the module's parameters have changed since it was made",
                   cj_minimise(late, cj_mean(cj_square(cj_forward(net, x)))));
    cj_release(held);
    cj_release(first);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borders),
        cmocka_unit_test(pooling_and_back),
        cmocka_unit_test(weight_norm_and_spectral_norm),
        cmocka_unit_test(whitening_layer),
        cmocka_unit_test(dense_connections_and_noise),
        cmocka_unit_test(score_attention),
        cmocka_unit_test(graph_convolution),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(paths),
        cmocka_unit_test(description),
        cmocka_unit_test(freezing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
