/* Parity with PyTorch: layers with the state of a state_dict give its results and gradients, leave its buffers, and have its state after ten steps of training.  Reference: tests/fixtures/layers.txt, made by
 * tools/fixtures_layers.py.  The state of a layer is exactly the state_dict: a name too many or too few is an error. */
#include <cajal/nn.h>
#include <cajal/optim.h>

#include "parity.h"

typedef struct built {
    cj_module *m;
    cj_tensor *(*call)(cj_module *m, cj_tensor *const *in);
} built;

static cj_tensor *unary(cj_module *m, cj_tensor *const *in) { return cj_forward(m, in[0]); }
static cj_tensor *two(cj_module *m, cj_tensor *const *in) { return cj_bilinear_forward(m, in[0], in[1]); }
static cj_tensor *cross(cj_module *m, cj_tensor *const *in) { return cj_multihead_forward(m, in[0], in[1], in[2], NULL); }
static cj_tensor *causal(cj_module *m, cj_tensor *const *in)
{
    return cj_multihead_forward(m, in[0], in[0], in[0], &(cj_multihead_call_opts){ .causal = true });
}
static cj_tensor *decode(cj_module *m, cj_tensor *const *in)
{
    return cj_transformer_decoder_forward(m, in[0], in[1], NULL, &(cj_multihead_call_opts){ .causal = true });
}

static cj_tensor *pool_and_back(cj_module *m, cj_tensor *const *in)
{
    cj_pooled p = cj_max_pool_forward(cj_module_child(m, 0), in[0]);
    return cj_max_unpool_forward(cj_module_child(m, 1), p.value, p.index, CJ_SHAPE(cj_size(in[0], 2), cj_size(in[0], 3)));
}
static cj_tensor *packed(cj_module *m, cj_tensor *const *in)
{
    cj_tensor *lengths = cj_from_i64(cj_module_ctx(m), (int64_t[]){ 5, 2, 3 }, CJ_SHAPE(3));
    return cj_recurrent_forward(m, in[0], lengths, NULL);
}
static cj_tensor *windows(cj_module *m, cj_tensor *const *in)
{
    cj_recurrent_state state = { 0 };
    cj_tensor *part[2];
    for (int k = 0; k < 2; k++) {
        part[k] = cj_recurrent_forward(m, cj_slice(in[0], 0, 3 * k, 3 * k + 3, 1), NULL, &state);
        state.h = cj_detach(state.h), state.c = cj_detach(state.c);
    }
    return cj_cat(part, 2, 0);
}
static cj_tensor *attended(cj_module *m, cj_tensor *const *in) { return cj_score_attention_forward(m, in[0], in[1], in[2], NULL).value; }
static cj_tensor *relative(cj_module *m, cj_tensor *const *in)
{
    return cj_attention(in[0], in[1], in[2], &(cj_attention_opts){ .mask = cj_relative_bias(m, 3, 5) });
}
static cj_tensor *rotary(cj_module *m, cj_tensor *const *in) { return (void)m, cj_rotary(in[0], 3, 0); }
static cj_tensor *graph_conv(cj_module *m, cj_tensor *const *in)
{
    const float edges[] = { 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0 };
    return cj_graph_conv_forward(m, cj_graph_normalise(cj_csr_from_dense(cj_from_f32(cj_module_ctx(m), edges, CJ_SHAPE(4, 4)))), in[0]);
}

static built build(cj_ctx *c, const char *name)
{
#define LAYER(label, function, module)                                                                                                     \
    if (strcmp(name, label) == 0) return (built){ module, function };
    LAYER("conv1", unary, cj_conv_layer(c, 2, 3, CJ_SHAPE(3), &(cj_conv_layer_opts){ .conv = { .stride = 2, .padding = 1 } }))
    LAYER("conv2", unary,
          cj_conv_layer(c, 4, 4, CJ_SHAPE(3, 2),
                        &(cj_conv_layer_opts){ .conv = { .paddings = CJ_SHAPE(1, 0), .dilations = CJ_SHAPE(1, 2), .groups = 2 } }))
    LAYER("conv3", unary, cj_conv_layer(c, 1, 2, CJ_SHAPE(2, 2, 2), &(cj_conv_layer_opts){ .no_bias = true }))
    LAYER("conv_transpose2", unary,
          cj_conv_transpose_layer(c, 2, 3, CJ_SHAPE(3, 3),
                                  &(cj_conv_transpose_layer_opts){ .conv = { .stride = 2, .padding = 1, .output_padding = 1 } }))
    LAYER("conv_transpose1", unary,
          cj_conv_transpose_layer(c, 4, 4, CJ_SHAPE(2), &(cj_conv_transpose_layer_opts){ .conv = { .groups = 2 } }))
    LAYER("separable", unary, cj_separable_conv_layer(c, 3, 2, CJ_SHAPE(3, 3), &(cj_conv_layer_opts){ .conv = { .padding = 1 } }))
    LAYER("batch_norm", unary, cj_batch_norm_layer(c, 3, NULL))
    LAYER("batch_norm_plain", unary, cj_batch_norm_layer(c, 3, &(cj_batch_norm_layer_opts){ .no_affine = true }))
    LAYER("group_norm", unary, cj_group_norm_layer(c, 2, 4, NULL))
    LAYER("instance_norm", unary, cj_instance_norm_layer(c, 2, &(cj_instance_norm_layer_opts){ .affine = true }))
    LAYER("rms_norm", unary, cj_rms_norm_layer(c, 5, NULL))
    LAYER("prelu", unary, cj_activation_layer(c, "prelu", &(cj_activation_opts){ .channels = 3 }))
    LAYER("bilinear", two, cj_bilinear_layer(c, 3, 2, 4, NULL))
    LAYER("rnn", unary, cj_rnn_layer(c, 3, 2, NULL))
    LAYER("lstm", unary, cj_lstm_layer(c, 3, 2, &(cj_recurrent_layer_opts){ .layers = 2, .bidirectional = true }))
    LAYER("gru", unary, cj_gru_layer(c, 3, 2, &(cj_recurrent_layer_opts){ .batch_first = true, .no_bias = true }))
    LAYER("multihead", cross, cj_multihead_attention(c, 6, 2, NULL))
    LAYER("multihead_causal", causal, cj_multihead_attention(c, 4, 2, &(cj_multihead_opts){ .no_bias = true }))
    cj_transformer_opts t = { .feed_forward = 6, .dropout = CJ_ZERO };
    LAYER("encoder", unary, cj_transformer_encoder_layer(c, 4, 2, &t))
    LAYER("decoder", decode, cj_transformer_decoder_layer(c, 4, 2, &t))
    t.norm_first = true;
    t.activation = "gelu";
    LAYER("encoder_first", unary, cj_transformer_encoder_layer(c, 4, 2, &t))
    LAYER("decoder_first", decode, cj_transformer_decoder_layer(c, 4, 2, &t))
    LAYER("linear", unary, cj_linear(c, 4, 3, NULL))
    LAYER("embedding", unary, cj_embedding_layer(c, 5, 3, NULL))
    LAYER("layer_norm", unary, cj_layer_norm_layer(c, 6, NULL))
    LAYER("conv_reflect", unary,
          cj_conv_layer(c, 2, 2, CJ_SHAPE(3, 3), &(cj_conv_layer_opts){ .conv = { .padding = 1, .mode = CJ_PAD_REFLECT } }))
    LAYER("conv_cyclic", unary,
          cj_conv_layer(c, 2, 3, CJ_SHAPE(3), &(cj_conv_layer_opts){ .conv = { .padding = 1, .mode = CJ_PAD_CYCLIC } }))
    LAYER(
        "locally_connected", unary,
        cj_locally_connected_layer(c, 2, 3, CJ_SHAPE(3, 4), CJ_SHAPE(2, 2), &(cj_conv_layer_opts){ .conv = { .strides = CJ_SHAPE(1, 2) } }))
    const cj_pool_opts pairs = { .kernel = 2 };
    LAYER("unpool", pool_and_back, cj_sequential(c, (cj_module *[]){ cj_max_pool_layer(c, &pairs), cj_max_unpool_layer(c, &pairs), NULL }))
    LAYER("softmax_pool", unary, cj_softmax_pool_layer(c, 1, true, &pairs))
    LAYER("upsample", unary, cj_upsample_layer(c, &(cj_interpolate_opts){ .scale = 2, .mode = CJ_INTERP_LINEAR }))
    LAYER("adaptive_pool", unary, cj_adaptive_avg_pool_layer(c, CJ_SHAPE(2, 3)))
    LAYER("whiten", unary, cj_whiten_layer(c, 3, NULL))
    LAYER("weight_norm", unary, cj_weight_norm_layer(cj_linear(c, 3, 4, NULL), (cj_axes){ 0 }))
    LAYER("spectral_norm", unary, cj_spectral_norm_layer(cj_linear(c, 3, 4, NULL), NULL))
    LAYER("light_gru", unary, cj_light_gru_layer(c, 3, 2, NULL))
    LAYER("lstm_lengths", packed, cj_lstm_layer(c, 2, 3, &(cj_recurrent_layer_opts){ .bidirectional = true }))
    LAYER("gru_lengths", packed, cj_gru_layer(c, 2, 3, &(cj_recurrent_layer_opts){ .layers = 2 }))
    LAYER("lstm_stateful", windows, cj_lstm_layer(c, 2, 3, NULL))
    LAYER("additive", attended, cj_score_attention(c, CJ_SCORE_ADDITIVE, 2, 4, 3))
    LAYER("dot", attended, cj_score_attention(c, CJ_SCORE_DOT, 4, 4, 0))
    LAYER("general", attended, cj_score_attention(c, CJ_SCORE_GENERAL, 2, 4, 0))
    LAYER("reduced_rank", attended, cj_score_attention(c, CJ_SCORE_REDUCED_RANK, 3, 4, 2))
    LAYER("relative", relative, cj_relative_positions_layer(c, 2, 2))
    LAYER("rotary", rotary, cj_flatten_layer(c))
    LAYER("sinusoidal", unary, cj_sinusoidal_layer(c, 6))
    LAYER("learned_positions", unary, cj_learned_positions_layer(c, 5, 4))
    LAYER("graph_conv", graph_conv, cj_graph_conv_layer(c, 3, 2, NULL))
    LAYER("map_attention", unary, cj_map_attention_layer(c, 4, 3, 2, false))
    fail_msg("no layer %s", name);
    return (built){ 0 };
}

typedef struct search {
    const char *name;
    cj_tensor *found;
} search;
static void find(void *user, const char *name, cj_tensor *t)
{
    search *s = user;
    if (strcmp(s->name, name) == 0) s->found = t;
}
static cj_tensor *state_of(cj_module *m, const char *name)
{
    search s = { name, NULL };
    cj_module_state(m, find, &s);
    if (!s.found) fail_msg("%s has no %s", cj_module_type_name(m), name);
    return s.found;
}
static void ignore(void *user, const char *name, cj_tensor *t) { (void)user, (void)name, (void)t; }

/* Ten steps on mean((y - w)²), each in a scope of its own. */
static void train(const built *b, cj_tensor *const *in)
{
    cj_ctx *c = cj_module_ctx(b->m);
    cj_optim *o = cj_sgd(cj_module_params(b->m), &(cj_sgd_opts){ .lr = 0.05, .momentum = 0.9 });
    for (int step = 0; step < 10; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *y = b->call(b->m, in);
        cj_minimise(o, cj_mean(cj_square(cj_sub(y, sequence(y, 7, 11, 5, 8))), NULL));
        cj_scope_close(s);
    }
    cj_optim_free(o);
}

static void layers(void **state)
{
    (void)state, (void)run_cases;
    wrong = 0;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    FILE *f = fixture("layers.txt");
    static char line[MAX_LINE];
    static values v;
    cj_scope scope = cj_scope_open(c);
    built b = { 0 };
    cj_tensor *in[MAX_INPUTS], *leaf[MAX_INPUTS + 32], *grad[MAX_INPUTS + 32];
    int number = 0, layers_seen = 0, n = 0, inputs = 0, stepped = 0, states = 0, leaves = 0, grads = 0;
    char layer[64] = "", name[64] = "", mode[16], what[160];
    while (fgets(line, sizeof line, f)) {
        number++;
        char word[16];
        int skip = 0;
        if (sscanf(line, "%15s %n", word, &skip) != 1) continue;
        if (strcmp(word, "layer") == 0) {
            assert_int_equal(sscanf(line + skip, "%63s %15s", layer, mode), 2);
            cj_scope_close(scope);
            scope = cj_scope_open(c);
            b = build(c, layer);
            if (!b.m) fail_msg("%s: %s", layer, cj_message(c));
            cj_module_train(b.m, strcmp(mode, "train") == 0);
            n = states = leaves = grads = inputs = stepped = 0;
            layers_seen++;
        } else if (strcmp(word, "name") == 0) {
            assert_int_equal(sscanf(line + skip, "%63s", name), 1);
        } else if (strcmp(word, "state") == 0) {
            read_values(line + skip, &v);
            bool was = cj_no_grad(c);
            cj_tensor *t = state_of(b.m, name);
            assert_int_equal(cj_dtype_of(t), v.dtype);
            assert_int_equal(cj_numel(t), v.n);
            cj_assign_(t, tensor_of(c, &v));
            cj_grad_mode(c, was);
            states++;
        } else if (strcmp(word, "in") == 0) {
            read_values(line + skip, &v);
            in[n] = tensor_of(c, &v);
            if (cj_dtype_is_float(v.dtype)) in[n] = leaf[leaves++] = cj_require_grad(in[n]);
            n++;
        } else if (strcmp(word, "out") == 0) {
            assert_int_equal(states, cj_module_state(b.m, ignore, NULL));
            read_values(line + skip, &v);
            cj_params *p = cj_module_params(b.m);
            assert_true(cj_params_count(p) <= 32);
            inputs = leaves;
            for (int i = 0; i < cj_params_count(p); i++) leaf[leaves++] = cj_params_at(p, i);
            cj_scope step = cj_scope_open(c); /* buffers are written when it closes */
            cj_tensor *y = b.call(b.m, in);
            expect(y, &v, tolerance(CJ_F32, false), number, layer);
            cj_tensor *fresh[MAX_INPUTS + 32] = { 0 };
            if (cj_ok(c)) cj_grad(cj_sum(cj_mul(y, sequence(y, 7, 11, 5, 8)), NULL), leaf, leaves, fresh, NULL);
            for (int i = 0; i < leaves; i++) grad[i] = fresh[i] ? cj_keep(fresh[i]) : NULL;
            cj_scope_close(step);
            if (!cj_ok(c)) fail_msg("%s: %s", layer, cj_message(c));
        } else if (strcmp(word, "grad") == 0) {
            read_values(line + skip, &v);
            snprintf(what, sizeof what, "%s, gradient of input %d", layer, grads);
            expect(grad[grads++], &v, tolerance(CJ_F32, true), number, what);
        } else if (strcmp(word, "slope") == 0) {
            read_values(line + skip, &v);
            snprintf(what, sizeof what, "%s, gradient of %s", layer, name);
            cj_tensor *p = cj_params_find(cj_module_params(b.m), name);
            for (int i = inputs; i < leaves; i++)
                if (leaf[i] == p) expect(grad[i], &v, tolerance(CJ_F32, true), number, what), grads++;
        } else if (strcmp(word, "after") == 0) {
            read_values(line + skip, &v);
            snprintf(what, sizeof what, "%s, %s after the call", layer, name);
            expect(state_of(b.m, name), &v, tolerance(v.dtype, false), number, what);
        } else if (strcmp(word, "stepped") == 0) {
            if (stepped++ == 0) train(&b, in);
            read_values(line + skip, &v);
            snprintf(what, sizeof what, "%s, %s after ten steps", layer, name);
            expect(state_of(b.m, name), &v, tolerance(v.dtype, true), number, what);
        } else {
            assert_string_equal(word, "end");
            assert_int_equal(stepped, cj_params_count(cj_module_params(b.m)) ? states : 0);
            assert_int_equal(grads, leaves);
            for (int i = 0; i < leaves; i++) cj_release(grad[i]);
        }
    }
    cj_scope_close(scope);
    fclose(f);
    cj_ctx_free(c);
    assert_int_equal(layers_seen, 50);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
