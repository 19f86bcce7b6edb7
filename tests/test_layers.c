/* Layers: what they do besides computing their operators: modes, buffers, states that are carried on, caches, names, files, captured steps, initial values, and the sentences
 * for what cannot be.  Values against PyTorch: test_parity_layers.c. */
#include <unistd.h>

#include "support.h"

static cj_ctx *context(void) { return cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }); }
static double mean_of(cj_tensor *x) { return cj_item(cj_mean(x)); }
static double var_of(cj_tensor *x) { return cj_item(cj_var(x, .biased = true)); }
static void ignore(void *user, const char *name, cj_tensor *t) { (void)user, (void)name, (void)t; }

static void activations_by_name(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 4));
    for (int i = 0; i < cj_activation_count(); i++) { /* all run, and no name stands there twice */
        cj_module *m = cj_activation_layer(c, cj_activation_name(i));
        cj_tensor *y = cj_forward(m, x);
        if (!cj_ok(c)) fail_msg("%s: %s", cj_activation_name(i), cj_message(c));
        assert_string_equal(cj_module_type_name(m), cj_activation_name(i));
        assert_int_equal(cj_size(y, 0), 3);
        for (int j = 0; j < i; j++) assert_string_not_equal(cj_activation_name(i), cj_activation_name(j));
    }
    assert_null(cj_activation_name(cj_activation_count()));
    assert_null(cj_activation_name(-1));
#define SAME(layer, operator) assert_true(same_bits(cj_forward(layer, x), operator))
    SAME(cj_activation_layer(c, "mish"), cj_mish(x));
    SAME(cj_activation_layer(c, "gelu_tanh"), cj_gelu(x, .tanh = true));
    SAME(cj_activation_layer(c, "leaky_relu", .slope = 0.3), cj_leaky_relu(x, .slope = 0.3));
    SAME(cj_activation_layer(c, "hardtanh", .low = -0.5, .high = 0.25), cj_hardtanh(x, .low = -0.5, .high = 0.25));
    SAME(cj_activation_layer(c, "softmax", .axis = CJ_AXIS(0)), cj_softmax(x, 0));
    SAME(cj_activation_layer(c, "swiglu"), cj_swiglu(x, -1));
    SAME(cj_activation_layer(c, "maxout", .pieces = 4), cj_maxout(x, -1, 4));
    SAME(cj_activation_layer(c, "prelu"), cj_leaky_relu(x, .slope = 0.25));
    assert_ok(c);
    assert_null(cj_activation_layer(c, "rectify"));
    assert_error(c, CJ_EVALUE, "activation layer: there is no activation 'rectify'");
    cj_ctx_free(c);
}

static void pooling_and_residual(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 4, 6));
    SAME(cj_max_pool_layer(c, .kernel = 2), cj_max_pool(x, .kernel = 2).value);
    SAME(cj_avg_pool_layer(c, .kernel = 3, .stride = 1, .padding = 1), cj_avg_pool(x, .kernel = 3, .stride = 1, .padding = 1));
    SAME(cj_adaptive_avg_pool_layer(c, CJ_SHAPE(2, 3)), cj_adaptive_avg_pool(x, CJ_SHAPE(2, 3)));
    SAME(cj_adaptive_max_pool_layer(c, CJ_SHAPE(3, 2)), cj_adaptive_max_pool(x, CJ_SHAPE(3, 2)));
    SAME(cj_upsample_layer(c, .scale = 2, .mode = CJ_INTERP_LINEAR), cj_interpolate(x, .scale = 2, .mode = CJ_INTERP_LINEAR));
    cj_tensor *mean = cj_forward(cj_global_avg_pool_layer(c), x), *most = cj_forward(cj_global_max_pool_layer(c), x);
    assert_int_equal(cj_ndim(mean), 2);
    for (int n = 0; n < 2; n++)
        for (int k = 0; k < 3; k++) {
            double *v = values_of(cj_select(cj_select(x, 0, n), 0, k)), sum = 0, top = -INFINITY;
            for (int i = 0; i < 24; i++) sum += v[i], top = v[i] > top ? v[i] : top;
            assert_near(value_at(mean, n * 3 + k), sum / 24, 1e-6);
            assert_near(value_at(most, n * 3 + k), top, 0);
            free(v);
        }
    cj_module *body = cj_conv_layer(c, 3, 3, CJ_SHAPE(3, 3), .conv = { .padding = 1 }), *side = cj_conv_layer(c, 3, 3, CJ_SHAPE(1, 1));
    SAME(cj_residual_layer(c, body, NULL), cj_add(cj_forward(body, x), x));
    cj_module *both = cj_residual_layer(c, body, side);
    SAME(both, cj_add(cj_forward(body, x), cj_forward(side, x)));
    assert_string_equal(cj_params_name(cj_module_params(both), 2), "shortcut.weight");
    assert_ok(c);
    cj_forward(cj_global_avg_pool_layer(c), cj_ones(c, CJ_SHAPE(2, 3), CJ_F32));
    assert_error(c, CJ_ESHAPE, "global_avg_pool: input [2, 3]; [N, C, positions ..] expected");
    cj_ctx_free(c);
}

/* Buffers after recalibration are the averages of the batches' statistics; dropout is off meanwhile, parameters and mode stay. */
static void batch_norm_modes(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_module *norm = cj_batch_norm_layer(c, 4), *net = cj_sequential(c, cj_dropout_layer(c, 0.5), norm);
    cj_tensor *batch[2] = { cj_normal(c, 3, 2, CJ_SHAPE(64, 4)), cj_normal(c, -1, 0.5, CJ_SHAPE(64, 4)) };
    cj_tensor *before = cj_keep(cj_forward(net, batch[0]));
    assert_false(same_bits(before, cj_forward(net, batch[0]))); /* another mask */
    assert_true(cj_batch_norm_recalibrate(net, batch, 2));
    assert_true(cj_module_training(net) && cj_module_training(norm));
    assert_int_equal(cj_module_state(net, ignore, NULL), 5);
    cj_module_train(net, false);
    cj_tensor *y = cj_forward(net, batch[0]);
    assert_true(same_bits(y, cj_forward(net, batch[0])));
    for (int j = 0; j < 4; j++) {
        double mean = 0, var = 0;
        for (int k = 0; k < 2; k++) {
            mean += mean_of(cj_select(batch[k], 1, j)) / 2;
            var += cj_item(cj_var(cj_select(batch[k], 1, j))) / 2;
        }
        for (int i = 0; i < 64; i += 9)
            assert_near(value_at(y, i * 4 + j), (value_at(batch[0], i * 4 + j) - mean) / sqrt(var + 1e-5), 1e-5);
    }
    cj_module *own = cj_batch_norm_layer(c, 4, .no_running = true); /* the batch's statistics in both modes */
    cj_tensor *training = cj_forward(own, batch[0]);
    cj_module_train(own, false);
    assert_true(same_bits(training, cj_forward(own, batch[0])));
    assert_int_equal(cj_module_state(own, ignore, NULL), 2);
    assert_ok(c);
    assert_false(cj_batch_norm_recalibrate(net, batch, 0));
    assert_error(c, CJ_EVALUE, "batch_norm_recalibrate: 0 batches");
    cj_ctx_free(c);
}

/* A sequence at once, or in two parts with the state carried on; padded sequences as if each stood alone. */
static void recurrent_states(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_module *cells[] = { cj_rnn_layer(c, 3, 5, .layers = 2), cj_lstm_layer(c, 3, 5, .layers = 2), cj_gru_layer(c, 3, 5, .layers = 2),
                           cj_light_gru_layer(c, 3, 5, .layers = 2) };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(6, 2, 3));
    for (int i = 0; i < 4; i++) {
        cj_recurrent_state whole = { 0 }, parts = { 0 };
        cj_tensor *y = cj_recurrent_forward(cells[i], x, NULL, &whole);
        assert_true(same_bits(y, cj_forward(cells[i], x)));
        cj_tensor *first = cj_recurrent_forward(cells[i], cj_slice(x, 0, 0, 4, 1), NULL, &parts);
        cj_tensor *second = cj_recurrent_forward(cells[i], cj_slice(x, 0, 4, 6, 1), NULL, &parts);
        assert_near(distance(y, cj_cat(((cj_tensor *[]){ first, second }), 2, 0)), 0, 1e-6);
        assert_near(distance(whole.h, parts.h), 0, 1e-6);
        assert_true((whole.c != NULL) == (i == 1));
        if (whole.c) assert_near(distance(whole.c, parts.c), 0, 1e-6);
        cj_recurrent_state cut = { 0 }, alone = { 0 };
        cj_recurrent_forward(cells[i], x, cj_from_i64(c, (int64_t[]){ 6, 4 }, CJ_SHAPE(2)), &cut);
        cj_recurrent_forward(cells[i], cj_slice(cj_slice(x, 0, 0, 4, 1), 1, 1, 2, 1), NULL, &alone);
        assert_near(distance(cj_slice(cut.h, 1, 1, 2, 1), alone.h), 0, 1e-6);
    }
    assert_ok(c);
    cj_recurrent_state kept = { x, NULL }; /* a state that does not fit stays as it was */
    assert_true(cj_is_poison(cj_recurrent_forward(cells[0], x, NULL, &kept)));
    assert_true(kept.h == x && kept.c == NULL);
    cj_clear(c);
    cj_recurrent_forward(cj_relu_layer(c), x, NULL, NULL);
    assert_error(c, CJ_EVALUE, "recurrent_forward: the module is a ReLU; a LSTM expected");
    cj_ctx_free(c);
}

/* Position after position with a cache gives what the causal pass over all of them gives; what does not fit is refused. */
static void attention_cache(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_module *m = cj_multihead_attention(c, 8, 2);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 6, 8)), *y = cj_multihead_forward(m, x, x, x, .causal = true);
    cj_kv_cache cache = cj_kv_cache_new(m, 3, 6);
    static const int from[] = { 0, 3, 4, 5, 6 };
    for (int i = 0; i < 4; i++) { /* three positions at once, then one by one */
        cj_tensor *part = cj_slice(x, 1, from[i], from[i + 1], 1);
        cj_tensor *got = cj_multihead_forward(m, part, part, part, .causal = true, .cache = &cache);
        assert_ok(c);
        assert_near(distance(got, cj_slice(y, 1, from[i], from[i + 1], 1)), 0, 2e-6);
        assert_near(cj_item(cache.length), from[i + 1], 0);
    }
    cj_tensor *one = cj_slice(x, 1, 0, 1, 1);
    assert_true(cj_is_poison(cj_multihead_forward(m, one, one, one, .cache = &cache)));
    cj_clear(c);
    assert_near(cj_item(cache.length), 6, 0);
    assert_true(cj_grad_enabled(c));
    cj_kv_cache_free(&cache);
    assert_null(cache.k);
    /* a bool mask: nothing but the first key, so every query gets the same */
    cj_tensor *first = cj_lt_scalar(cj_arange(c, 0, 6, 1, CJ_I64), 1);
    cj_tensor *same = cj_multihead_forward(m, x, x, x, .mask = cj_expand(first, CJ_SHAPE(6, 6)));
    assert_near(distance(cj_slice(same, 1, 0, 1, 1), cj_slice(same, 1, 5, 6, 1)), 0, 1e-6);
    cj_ctx_free(c);
}

static void positions(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 5, 4));
    cj_tensor *p = cj_sub(cj_forward(cj_sinusoidal_layer(c, 4), x), x);
    for (int t = 0; t < 5; t++) {
        double want[] = { sin(t), cos(t), sin(t / 100.0), cos(t / 100.0) };
        for (int i = 0; i < 4; i++) assert_near(value_at(p, t * 4 + i), want[i], 1e-6);
    }
    /* turned queries and keys: products depend on the distance, norms stay */
    cj_tensor *q = cj_cast(cj_randn(c, CJ_SHAPE(1, 6)), CJ_F64), *k = cj_cast(cj_randn(c, CJ_SHAPE(1, 6)), CJ_F64);
    double near = cj_item(cj_sum(cj_mul(cj_rotary(q, 7, 0), cj_rotary(k, 3, 0)))), plain = cj_item(cj_sum(cj_mul(q, k)));
    assert_near(cj_item(cj_sum(cj_mul(cj_rotary(q, 104, 0), cj_rotary(k, 100, 0)))), near, 1e-10);
    assert_true(fabs(near - plain) > 1e-3);
    assert_near(cj_item(cj_sum(cj_square(cj_rotary(q, 50, 0)))), cj_item(cj_sum(cj_square(q))), 1e-12);
    assert_true(same_bits(cj_rotary(q, 0, 0), q));
    cj_module *learned = cj_learned_positions_layer(c, 5, 4);
    cj_tensor *w = cj_params_find(cj_module_params(learned), "weight"), *g;
    assert_true(same_bits(cj_forward(learned, x), cj_add(x, w)));
    cj_tensor *some = cj_forward(learned, cj_slice(x, 1, 0, 3, 1));
    assert_true(cj_grad(cj_sum(some), &w, 1, &g));
    for (int i = 0; i < 20; i++) assert_near(value_at(g, i), i < 12 ? 2 : 0, 0); /* two examples, three positions */
    assert_ok(c);
    cj_forward(learned, cj_ones(c, CJ_SHAPE(2, 6, 4), CJ_F32));
    assert_error(c, CJ_EINDEX, "LearnedPositions: 6 positions; there are 5");
    cj_ctx_free(c);
}

/* ---- a network of many of them: names, files, captured steps -------------------------------------------------------------------------------------- */

static cj_module *network(cj_ctx *c)
{
    cj_module *block = cj_sequential(c, cj_conv_layer(c, 4, 4, CJ_SHAPE(3, 3), .conv = { .padding = 1 }), cj_batch_norm_layer(c, 4));
    return cj_sequential(c, cj_conv_layer(c, 1, 4, CJ_SHAPE(3, 3), .no_bias = true), cj_residual_layer(c, block, NULL),
                         cj_activation_layer(c, "prelu"), cj_max_pool_layer(c, .kernel = 2), cj_global_avg_pool_layer(c),
                         cj_linear(c, 4, 3));
}

static const char *const names[] = { "0.weight",
                                     "1.body.0.weight",
                                     "1.body.0.bias",
                                     "1.body.1.weight",
                                     "1.body.1.bias",
                                     "1.body.1.running_mean",
                                     "1.body.1.running_var",
                                     "1.body.1.num_batches_tracked",
                                     "2.weight",
                                     "5.weight",
                                     "5.bias" };
enum { NAMES = sizeof names / sizeof names[0] };

typedef struct listing {
    cj_named item[NAMES];
    int n;
} listing;
static void list(void *user, const char *name, cj_tensor *t)
{
    listing *l = user;
    assert_true(l->n < NAMES);
    assert_string_equal(name, names[l->n]);
    l->item[l->n] = (cj_named){ names[l->n], t };
    l->n++;
}

static void captured_step_and_file(void **state)
{
    (void)state;
    cj_module *net[2];
    cj_ctx *ctx[2];
    for (int k = 0; k < 2; k++) { /* the same steps one by one, and captured */
        cj_ctx *c = ctx[k] = context();
        rig r = { .c = c, .net = net[k] = network(c) };
        assert_ok(c);
        r.opt = cj_adam(cj_module_params(r.net), .lr = 0.01);
        r.x = cj_keep(cj_randn(c, CJ_SHAPE(5, 1, 8, 8)));
        r.y = cj_keep(cj_randint(c, 0, 3, CJ_SHAPE(5)));
        cj_plan *p = NULL;
        for (int step = 0; step < 5; step++) {
            cj_tensor *in[] = { r.x, r.y };
            if (k == 0) assert_true(rig_step(&r));
            else if (!p) p = cj_capture(c, rig_captured, &r, in, 2, NULL);
            else assert_true(cj_replay(p, in, NULL));
            assert_ok(c);
        }
        if (p) cj_plan_free(p);
    }
    listing a = { 0 }, b = { 0 };
    assert_int_equal(cj_module_state(net[0], list, &a), NAMES);
    cj_module_state(net[1], list, &b);
    for (int i = 0; i < NAMES; i++)
        if (distance(a.item[i].tensor, b.item[i].tensor) > 1e-6) fail_msg("%s differs when captured", names[i]);
    assert_near(cj_item(a.item[7].tensor), 5, 0);
#if defined CJ_HAVE_CJSON
    cj_ctx *c = ctx[0], *other = context();
    char path[64];
    snprintf(path, sizeof path, "/tmp/cajal-layers-%ld.safetensors", (long)getpid());
    assert_true(cj_safetensors_save(c, path, a.item, a.n, NULL, 0));
    cj_seed(other, 99);
    cj_module *copy = network(other);
    listing l = { 0 };
    cj_module_state(copy, list, &l);
    assert_false(same_bits(l.item[0].tensor, a.item[0].tensor));
    cj_archive *file = cj_safetensors_load(other, path);
    unlink(path);
    assert_non_null(file);
    cj_no_grad(other);
    for (int i = 0; i < NAMES; i++) cj_assign_(l.item[i].tensor, cj_archive_find(file, names[i]));
    assert_ok(other);
    cj_module_train(net[0], false);
    cj_module_train(copy, false);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 1, 8, 8));
    double *v = values_of(x);
    assert_true(same_bits(cj_forward(net[0], x), cj_forward(copy, cj_cast(cj_from_f64(other, v, CJ_SHAPE(2, 1, 8, 8)), CJ_F32))));
    free(v);
    cj_ctx_free(other);
#endif
    cj_ctx_free(ctx[0]);
    cj_ctx_free(ctx[1]);
}

/* ---- initial values ---------------------------------------------------------------------------------------------------------------------------------- */

static void initial_values(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(200, 100, 3), CJ_F32));
    double in = 300, out = 600;
#define LARGEST(t) cj_item(cj_max(cj_abs(t)))
    cj_init_constant_(w, 2.5);
    assert_near(var_of(w), 0, 0);
    assert_near(mean_of(w), 2.5, 0);
    cj_init_uniform_(w, 1, 3);
    assert_near(mean_of(w), 2, 0.02);
    assert_near(var_of(w), 4.0 / 12, 0.01);
    cj_init_normal_(w, -1, 2);
    assert_near(mean_of(w), -1, 0.05);
    assert_near(var_of(w), 4, 0.1);
    cj_init_xavier_uniform_(w, 0);
    assert_near(var_of(w) * (in + out) / 2, 1, 0.02);
    assert_true(LARGEST(w) <= sqrt(6 / (in + out)) + 1e-7 && LARGEST(w) > 0.999 * sqrt(6 / (in + out)));
    cj_init_xavier_normal_(w, 3);
    assert_near(var_of(w) * (in + out) / 2, 9, 0.2);
    cj_init_kaiming_uniform_(w, CJ_FAN_IN, 0);
    assert_near(var_of(w) * in, 2, 0.04);
    assert_true(LARGEST(w) <= sqrt(6 / in) + 1e-7);
    cj_init_kaiming_normal_(w, CJ_FAN_OUT, cj_init_gain("tanh", 0));
    assert_near(var_of(w) * out, 25.0 / 9, 0.06);
    /* normal between -1 and 2 deviations: mean (phi(-1) - phi(2))/Z, Z = Phi(2) - Phi(-1) */
    cj_init_truncated_normal_(w, 0, 1, -1, 2);
    double z = (erf(sqrt(2)) + erf(sqrt(0.5))) / 2, mean = (exp(-0.5) - exp(-2)) / sqrt(2 * acos(-1)) / z;
    assert_near(mean_of(w), mean, 0.015);
    assert_true(cj_item(cj_min(w)) >= -1 && cj_item(cj_max(w)) <= 2);
    cj_init_truncated_normal_(w, 1, 0.5, 0.5, 2); /* the same, moved and scaled */
    assert_near(mean_of(w), 1 + 0.5 * mean, 0.0075);
    assert_true(cj_item(cj_min(w)) >= 0.5 && cj_item(cj_max(w)) <= 2);
    cj_tensor *tall = cj_param(cj_zeros(c, CJ_SHAPE(3, 2), CJ_F32));
    assert_true(same_bits(cj_init_identity_(tall), cj_from_f32(c, (float[]){ 1, 0, 0, 1, 0, 0 }, CJ_SHAPE(3, 2))));
    for (int k = 0; k < 2; k++) {
        cj_tensor *q = cj_param(cj_zeros(c, k ? CJ_SHAPE(12, 5) : CJ_SHAPE(5, 4, 3), CJ_F32));
        cj_init_orthogonal_(q, 2);
        cj_tensor *a = cj_reshape(q, CJ_SHAPE(cj_size(q, 0), -1)), *gram = k ? cj_matmul(cj_t(a), a) : cj_matmul(a, cj_t(a));
        assert_near(distance(gram, cj_mul_scalar(cj_eye(c, 5, CJ_F32), 4)), 0, 4e-6);
    }
    assert_near(cj_init_gain("leaky_relu", 0.2), sqrt(2 / 1.04), 1e-15);
    assert_true(isnan(cj_init_gain("unknown", 0)));
    /* PyTorch's ranges: ±1/sqrt(fan in), of transposed convolutions out·kernel, of recurrent layers 1/sqrt(hidden) */
    assert_ok(c);
#define RANGE(module, name, bound)                                                                                                         \
    do {                                                                                                                                   \
        double most = LARGEST(cj_params_find(cj_module_params(module), name));                                                             \
        assert_true(most <= (bound) + 1e-7 && most > 0.98 * (bound));                                                                      \
    } while (0)
    RANGE(cj_conv_layer(c, 16, 40, CJ_SHAPE(3, 3), .conv = { .groups = 4 }), "weight", 1 / sqrt(4 * 9));
    RANGE(cj_conv_transpose_layer(c, 16, 40, CJ_SHAPE(3, 3)), "weight", 1 / sqrt(40 * 9));
    RANGE(cj_gru_layer(c, 16, 40), "weight_ih_l0", 1 / sqrt(40));
    RANGE(cj_multihead_attention(c, 40, 4), "in_proj_weight", sqrt(6.0 / 160));
    cj_ctx_free(c);
}

static void regularisers(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_module *m = cj_linear(c, 2, 2, .no_bias = true);
    cj_params *p = cj_module_params(m);
    cj_tensor *w = cj_params_at(p, 0), *g;
    bool was = cj_no_grad(c);
    cj_assign_(w, cj_from_f32(c, (float[]){ 3, -4, 0.5f, 0 }, CJ_SHAPE(2, 2)));
    cj_grad_mode(c, was);
    assert_near(cj_item(cj_l1_penalty(p)), 7.5, 0);
    assert_near(cj_item(cj_l2_penalty(p)), 25.25, 0);
    cj_tensor *both = cj_elastic_net_penalty(p, 0.5, 2);
    assert_near(cj_item(both), 0.5 * 7.5 + 2 * 25.25, 0);
    assert_true(cj_grad(both, &w, 1, &g)); /* 0.5·sign + 4·w */
    static const double slope[] = { 12.5, -16.5, 2.5, 0 }, bounded[] = { 1.5, -2, 0.5, 0 };
    for (int i = 0; i < 4; i++) assert_near(value_at(g, i), slope[i], 0);
    assert_true(cj_max_norm_(w, 2.5) == w); /* the first row has norm 5, the second 0.5 */
    for (int i = 0; i < 4; i++) assert_near(value_at(w, i), bounded[i], 1e-6);
    assert_ok(c);
    cj_elastic_net_penalty(p, -1, 0);
    assert_error(c, CJ_EVALUE, "elastic_net_penalty: weights -1 and 0; neither is negative");
    cj_clear(c);
    cj_max_norm_(w, 0);
    assert_error(c, CJ_EVALUE, "max_norm_: norm 0; more than 0 expected");
    cj_clear(c);
    cj_max_norm_(cj_scalar(c, 1), 1);
    assert_error(c, CJ_ESHAPE, "max_norm_: f32 []; floats [units, ..] expected");
    cj_ctx_free(c);
}

static void bad_input(void **state)
{
    (void)state;
    cj_ctx *c = context();
    cj_tensor *x = cj_ones(c, CJ_SHAPE(2, 3, 4), CJ_F32), *i = cj_keep(cj_zeros(c, CJ_SHAPE(3), CJ_I64));
    cj_module *heads = cj_multihead_attention(c, 4, 2), *pair = cj_bilinear_layer(c, 4, 2, 3);
#define BAD(code, text, call)                                                                                                              \
    do {                                                                                                                                   \
        (void)(call);                                                                                                                      \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
    } while (0)
    BAD(CJ_ESHAPE, "conv layer: a kernel with 4 axes; 1 to 3 expected", cj_conv_layer(c, 1, 1, CJ_SHAPE(1, 1, 1, 1)));
    BAD(CJ_ESHAPE, "conv layer: kernel size 0 along axis 1", cj_conv_layer(c, 1, 1, CJ_SHAPE(1, 0)));
    BAD(CJ_EVALUE, "conv layer: channels 0 -> 1", cj_conv_layer(c, 0, 1, CJ_SHAPE(3)));
    BAD(CJ_EVALUE, "conv layer: 2 groups do not divide 3 -> 4 channels", cj_conv_layer(c, 3, 4, CJ_SHAPE(3), .conv = { .groups = 2 }));
    BAD(CJ_EVALUE, "separable_conv layer: has a group for each channel; groups 2 given",
        cj_separable_conv_layer(c, 4, 4, CJ_SHAPE(3), .conv = { .groups = 2 }));
    BAD(CJ_EVALUE, "conv_transpose layer: channels 2 -> -1", cj_conv_transpose_layer(c, 2, -1, CJ_SHAPE(3)));
    BAD(CJ_EVALUE, "batch_norm layer: 0 channels", cj_batch_norm_layer(c, 0));
    BAD(CJ_EVALUE, "group_norm layer: 3 groups do not divide 4 channels", cj_group_norm_layer(c, 3, 4));
    BAD(CJ_EVALUE, "instance_norm layer: -1 channels", cj_instance_norm_layer(c, -1));
    BAD(CJ_EVALUE, "rms_norm layer: 0 channels", cj_rms_norm_layer(c, 0));
    BAD(CJ_EVALUE, "prelu layer: -2 channels", cj_activation_layer(c, "prelu", .channels = -2));
    BAD(CJ_EVALUE, "bilinear layer: sizes 0, 2 -> 3", cj_bilinear_layer(c, 0, 2, 3));
    BAD(CJ_ESHAPE, "bilinear_forward: inputs [2, 3, 4] and [2, 3, 4]; [.., 4] and [.., 2] expected", cj_bilinear_forward(pair, x, x));
    BAD(CJ_EVALUE, "bilinear_forward: the module is a MultiheadAttention; a Bilinear expected", cj_bilinear_forward(heads, x, x));
    BAD(CJ_EVALUE, "bilinear_forward: the module is NULL", cj_bilinear_forward(NULL, x, x));
    BAD(CJ_EVALUE, "forward: Bilinear takes more than one input", cj_forward(pair, x));
    BAD(CJ_EVALUE, "LSTM layer: sizes 0 -> 4", cj_lstm_layer(c, 0, 4));
    BAD(CJ_EVALUE, "GRU layer: 65 layers; 1 to 64 expected", cj_gru_layer(c, 3, 4, .layers = 65));
    BAD(CJ_EVALUE, "RNN layer: dropout 1.5 is outside [0, 1]", cj_rnn_layer(c, 3, 4, .dropout = 1.5));
    BAD(CJ_EVALUE, "multihead_attention: 3 heads do not divide dimension 4", cj_multihead_attention(c, 4, 3));
    BAD(CJ_EVALUE, "multihead_attention: dropout 1 is outside [0, 1)", cj_multihead_attention(c, 4, 2, .dropout = 1));
    BAD(CJ_ESHAPE, "multihead_forward: the key is [2, 3]; [N, T, 4] expected", cj_multihead_forward(heads, x, cj_select(x, 2, 0), x));
    BAD(CJ_ESHAPE, "have different lengths", cj_multihead_forward(heads, x, x, cj_slice(x, 1, 0, 2, 1)));
    BAD(CJ_EVALUE, "kv_cache_new: 0 examples of 4 positions", cj_kv_cache_new(heads, 0, 4));
    BAD(CJ_EVALUE, "sinusoidal_positions: dimension 3; an even one expected", cj_sinusoidal_positions(c, 4, 3));
    BAD(CJ_EVALUE, "sinusoidal_positions: length 0", cj_sinusoidal_positions(c, 0, 4));
    BAD(CJ_EVALUE, "learned_positions layer: sizes 0 x 4", cj_learned_positions_layer(c, 0, 4));
    BAD(CJ_ESHAPE, "rotary: input i64 [3]; floats [.., T, d] with an even d expected", cj_rotary(i, 0, 0));
    BAD(CJ_EVALUE, "rotary: start -1, base 0; neither is negative", cj_rotary(x, -1, 0));
    BAD(CJ_EVALUE, "TransformerEncoderLayer: dropout 2 is outside [0, 1)", cj_transformer_encoder_layer(c, 4, 2, .dropout = 2));
    BAD(CJ_EVALUE, "there is no activation 'ReLU'", cj_transformer_decoder_layer(c, 4, 2, .activation = "ReLU"));
    BAD(CJ_EVALUE, "transformer_encoder_forward: the module is a Bilinear", cj_transformer_encoder_forward(pair, x));
    cj_tensor *w = cj_param(x);
    BAD(CJ_ESHAPE, "init_normal_: i64 [3]; floats with at least 0 axes expected", cj_init_normal_(i, 0, 1));
    BAD(CJ_EVALUE, "init_normal_: deviation -1", cj_init_normal_(w, 0, -1));
    BAD(CJ_EVALUE, "init_uniform_: the range [1, 0)", cj_init_uniform_(w, 1, 0));
    BAD(CJ_EVALUE, "init_truncated_normal_: deviation 1 in [2, 1]", cj_init_truncated_normal_(w, 0, 1, 2, 1));
    BAD(CJ_EVALUE, "init_truncated_normal_: [90, 91] is too far from mean 0", cj_init_truncated_normal_(w, 0, 1, 90, 91));
    BAD(CJ_ESHAPE, "init_identity_: [2, 3, 4]; a matrix expected", cj_init_identity_(w));
    BAD(CJ_EVALUE, "init_kaiming_normal_: fan 7; CJ_FAN_IN, CJ_FAN_OUT or CJ_FAN_MEAN expected", cj_init_kaiming_normal_(w, (cj_fan)7, 0));
    BAD(CJ_EVALUE, "init_xavier_uniform_: gain -1", cj_init_xavier_uniform_(w, -1));
    for (int k = 0; k < 24; k++) assert_near(value_at(w, k), 1, 0); /* nothing was written */
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_by_name),    cmocka_unit_test(pooling_and_residual), cmocka_unit_test(batch_norm_modes),
        cmocka_unit_test(recurrent_states),       cmocka_unit_test(attention_cache),      cmocka_unit_test(positions),
        cmocka_unit_test(captured_step_and_file), cmocka_unit_test(initial_values),       cmocka_unit_test(bad_input),
        cmocka_unit_test(regularisers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
