/* What bad input gets, layer by layer and sentence by sentence: a layer that is fed the wrong shape is named by its path, an operator with its argument, what was expected and what was
 * found; and nothing has changed: parameters, buffers, random streams, optimiser. */
#include "files.h"

#include "errors.h"

/* ---- every layer ------------------------------------------------------------------------------------------------------------------------------------------ */

/* Layers with more than one input run inside a module that feeds them, under the name "q". */
typedef cj_tensor *(*feed_fn)(cj_module *m, cj_tensor *x);
typedef struct feeder {
    feed_fn feed;
} feeder;
static cj_tensor *feeder_forward(cj_module *m, void *self, cj_tensor *x)
{
    cj_ctx *c = cj_module_ctx(m);
    cj_enter(c, "q");
    cj_tensor *y = ((feeder *)self)->feed(cj_module_child(m, 0), x);
    cj_leave(c);
    return y;
}
static const cj_module_type feeder_type = { "Feeder", feeder_forward, NULL };
static cj_module *fed(cj_module *layer, feed_fn feed)
{
    if (!layer) return NULL;
    cj_module *m = cj_module_new(cj_module_ctx(layer), &feeder_type, sizeof(feeder));
    ((feeder *)cj_module_self(m))->feed = feed;
    cj_module_add(m, "q", layer);
    return m;
}

static cj_tensor *feed_bilinear(cj_module *m, cj_tensor *x) { return cj_bilinear_forward(m, x, x); }
static cj_tensor *feed_unpool(cj_module *m, cj_tensor *x)
{
    return cj_max_unpool_forward(m, x, cj_zeros(cj_module_ctx(m), CJ_SHAPE(1), CJ_I64), CJ_SHAPE(4, 4));
}
static cj_tensor *feed_lengths(cj_module *m, cj_tensor *x)
{
    return cj_recurrent_forward(m, x, cj_full(cj_module_ctx(m), 9, CJ_SHAPE(3), CJ_I64), NULL);
}
static cj_tensor *feed_state(cj_module *m, cj_tensor *x)
{
    cj_recurrent_state s = { .h = cj_zeros(cj_module_ctx(m), CJ_SHAPE(1, 3, 9), CJ_F32) };
    return cj_recurrent_forward(m, x, NULL, &s);
}
static cj_tensor *feed_heads(cj_module *m, cj_tensor *x) { return cj_multihead_forward(m, x, x, x); }
static cj_tensor *feed_mask(cj_module *m, cj_tensor *x)
{
    return cj_multihead_forward(m, x, x, x, .mask = cj_zeros(cj_module_ctx(m), CJ_SHAPE(7, 7), CJ_F32));
}
static cj_tensor *feed_cache(cj_module *m, cj_tensor *x)
{
    cj_kv_cache cache = cj_kv_cache_new(m, cj_size(x, 0), 2);
    cj_tensor *y = cj_multihead_forward(m, x, x, x, .cache = &cache);
    cj_kv_cache_free(&cache);
    return y;
}
static cj_tensor *feed_score(cj_module *m, cj_tensor *x) { return cj_score_attention_forward(m, x, x, x, NULL).value; }
static cj_tensor *feed_decoder(cj_module *m, cj_tensor *x) { return cj_transformer_decoder_forward(m, x, x, NULL); }
static cj_tensor *feed_graph(cj_module *m, cj_tensor *x)
{
    return cj_graph_conv_forward(m, cj_csr_from_dense(cj_eye(cj_module_ctx(m), 4, CJ_F32)), x);
}
static cj_tensor *feed_relative(cj_module *m, cj_tensor *x) { return cj_attention(x, x, x, .mask = cj_relative_bias(m, 7, 7)); }

#define IMAGE CJ_SHAPE(2, 3, 5, 5)
#define ROWS(X)                                                                                                                            \
    X("linear", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_linear(c, 5, 2))                                                                   \
    X("masked_linear", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_masked_linear(c, F(2, 5)))                                                  \
    X("embedding", CJ_EDTYPE, "f32", CJ_SHAPE(3, 4), cj_embedding_layer(c, 5, 2))                                                          \
    X("dag", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_dag_layer(c, 2, 3, (const int64_t[][2]){ { 0, 2 }, { 1, 2 } }, 2, NULL))              \
    X("layer_norm", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_layer_norm_layer(c, 5))                                                        \
    X("rms_norm", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_rms_norm_layer(c, 5))                                                            \
    X("batch_norm", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_batch_norm_layer(c, 4))                                                           \
    X("group_norm", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_group_norm_layer(c, 2, 4))                                                        \
    X("instance_norm", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_instance_norm_layer(c, 4, .affine = true))                                     \
    X("whiten", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_whiten_layer(c, 5))                                                                \
    X("weight_norm", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_weight_norm_layer(cj_linear(c, 5, 2), CJ_AXIS(0)))                            \
    X("spectral_norm", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_spectral_norm_layer(cj_linear(c, 5, 2)))                                    \
    X("conv channels", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_conv_layer(c, 4, 2, CJ_SHAPE(3, 3)))                                           \
    X("conv kernel", CJ_ESHAPE, "7", IMAGE, cj_conv_layer(c, 3, 2, CJ_SHAPE(7, 7)))                                                        \
    X("separable_conv", CJ_ESHAPE, "3 channels of the input", IMAGE, cj_separable_conv_layer(c, 4, 2, CJ_SHAPE(3, 3)))                     \
    X("conv_transpose", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_conv_transpose_layer(c, 4, 2, CJ_SHAPE(3, 3)))                                \
    X("locally_connected", CJ_ESHAPE, "3 positions along axis 2", IMAGE,                                                                   \
      cj_locally_connected_layer(c, 3, 2, CJ_SHAPE(6, 6), CJ_SHAPE(3, 3)))                                                                 \
    X("max_pool", CJ_ESHAPE, "a window of 7 is larger than the padded axis of 5", IMAGE, cj_max_pool_layer(c, .kernel = 7))                \
    X("min_pool", CJ_ESHAPE, "a window of 7 is larger than the padded axis of 5", IMAGE, cj_min_pool_layer(c, .kernel = 7))                \
    X("avg_pool", CJ_ESHAPE, "a window of 7 is larger than the padded axis of 5", IMAGE, cj_avg_pool_layer(c, .kernel = 7))                \
    X("softmax_pool", CJ_ESHAPE, "a window of 7 is larger than the padded axis of 5", IMAGE,                                               \
      cj_softmax_pool_layer(c, 1, false, .kernel = 7))                                                                                     \
    X("adaptive_avg_pool", CJ_ESHAPE, "[3]", CJ_SHAPE(3), cj_adaptive_avg_pool_layer(c, CJ_SHAPE(2, 2)))                                   \
    X("adaptive_max_pool", CJ_ESHAPE, "[3]", CJ_SHAPE(3), cj_adaptive_max_pool_layer(c, CJ_SHAPE(2, 2)))                                   \
    X("global_avg_pool", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_global_avg_pool_layer(c))                                                 \
    X("upsample", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_upsample_layer(c, .scale = 2))                                                   \
    X("max_unpool", CJ_ESHAPE, "[1]", IMAGE, fed(cj_max_unpool_layer(c, .kernel = 2), feed_unpool))                                        \
    X("prelu", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_activation_layer(c, "prelu", .channels = 5))                                        \
    X("swiglu", CJ_ESHAPE, "[3, 5]", CJ_SHAPE(3, 5), cj_activation_layer(c, "swiglu"))                                                     \
    X("residual", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_residual_layer(c, cj_linear(c, 4, 3), NULL))                                     \
    X("dense_connection", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), cj_dense_connection_layer(c, cj_linear(c, 5, 3), CJ_AXIS(1)))               \
    X("bilinear", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), fed(cj_bilinear_layer(c, 4, 5, 2), feed_bilinear))                                  \
    X("rnn", CJ_ESHAPE, "[4, 3, 2]", CJ_SHAPE(4, 3, 2), cj_rnn_layer(c, 5, 2))                                                             \
    X("lstm", CJ_ESHAPE, "[4, 3, 2]", CJ_SHAPE(4, 3, 2), cj_lstm_layer(c, 5, 2, .layers = 2, .bidirectional = true))                       \
    X("gru", CJ_ESHAPE, "[4, 3, 2]", CJ_SHAPE(4, 3, 2), cj_gru_layer(c, 5, 2))                                                             \
    X("light_gru", CJ_ESHAPE, "[4, 3, 2]", CJ_SHAPE(4, 3, 2), cj_light_gru_layer(c, 5, 2))                                                 \
    X("lengths", CJ_EINDEX, "the length of sequence 0 is 9; 1 to 4 steps expected", CJ_SHAPE(4, 3, 2),                                     \
      fed(cj_lstm_layer(c, 2, 2), feed_lengths))                                                                                           \
    X("state", CJ_ESHAPE, "h0 is [3, 9], [3, 2] expected", CJ_SHAPE(4, 3, 2), fed(cj_gru_layer(c, 2, 2), feed_state))                      \
    X("multihead", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_multihead_attention(c, 8, 2), feed_heads))                            \
    X("multihead mask", CJ_ESHAPE, "[7, 7]", CJ_SHAPE(2, 3, 8), fed(cj_multihead_attention(c, 8, 2), feed_mask))                           \
    X("kv_cache", CJ_EINDEX, "3 positions; the cache has room for 2", CJ_SHAPE(2, 3, 8), fed(cj_multihead_attention(c, 8, 2), feed_cache)) \
    X("additive", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_score_attention(c, CJ_SCORE_ADDITIVE, 4, 6, 3), feed_score))           \
    X("dot", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_score_attention(c, CJ_SCORE_DOT, 4, 4, 0), feed_score))                     \
    X("general", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_score_attention(c, CJ_SCORE_GENERAL, 6, 4, 0), feed_score))             \
    X("reduced_rank", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_score_attention(c, CJ_SCORE_REDUCED_RANK, 4, 6, 2), feed_score))   \
    X("map_attention", CJ_ESHAPE, "[2, 3, 5, 5]", IMAGE, cj_map_attention_layer(c, 4, 2, 2, false))                                        \
    X("sinusoidal", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), cj_sinusoidal_layer(c, 8))                                                  \
    X("learned width", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), cj_learned_positions_layer(c, 9, 8))                                     \
    X("learned length", CJ_EINDEX, "3 positions", CJ_SHAPE(2, 3, 6), cj_learned_positions_layer(c, 2, 6))                                  \
    X("relative", CJ_ESHAPE, "[2, 7, 7]", CJ_SHAPE(2, 3, 6), fed(cj_relative_positions_layer(c, 2, 4), feed_relative))                     \
    X("encoder", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), cj_transformer_encoder_layer(c, 8, 2))                                         \
    X("decoder", CJ_ESHAPE, "[2, 3, 6]", CJ_SHAPE(2, 3, 6), fed(cj_transformer_decoder_layer(c, 8, 2), feed_decoder))                      \
    X("graph_conv", CJ_ESHAPE, "[3, 4]", CJ_SHAPE(3, 4), fed(cj_graph_conv_layer(c, 4, 2), feed_graph))

typedef struct bits {
    char *bytes;
    size_t n;
} bits;
static void add_bits(void *user, const char *name, cj_tensor *t)
{
    (void)name;
    bits *b = user;
    size_t n = (size_t)cj_numel(t) * cj_dtype_size(cj_dtype_of(t));
    b->bytes = realloc(b->bytes, b->n + n + 1);
    if (n) memcpy(b->bytes + b->n, cj_data(t), n);
    b->n += n;
}

static void check_layer(cj_ctx *c, const char *name, cj_code code, const char *found, cj_shape shape, cj_module *layer)
{
    if (!layer) fail_msg("%s: %s", name, cj_message(c));
    cj_module *net = cj_sequential(c, cj_relu_layer(c), cj_sequential(c, cj_relu_layer(c), cj_relu_layer(c), layer));
    bits before = { 0 }, after = { 0 };
    cj_module_state(net, add_bits, &before);
    cj_rng_state rng = cj_rng_get(c);
    cj_scope s = cj_scope_open(c);
    cj_tensor *y = cj_forward(net, cj_ones(c, shape, CJ_F32));
    if (!cj_is_poison(y)) fail_msg("%s: nothing was refused", name);
    if (cj_error(c) != code) fail_msg("%s: %s, not %s: %s", name, cj_code_name(cj_error(c)), cj_code_name(code), cj_message(c));
    if (!strstr(cj_message(c), ", in 1.2")) fail_msg("%s: \"%s\" does not name the layer 1.2", name, cj_message(c));
    if (!strstr(cj_message(c), found)) fail_msg("%s: \"%s\" does not say what was found, %s", name, cj_message(c), found);
    assert_sentence(c, name);
    cj_clear(c);
    cj_scope_close(s);
    assert_string_equal(c->path, "");
    cj_rng_state now = cj_rng_get(c);
    cj_module_state(net, add_bits, &after);
    if (before.n != after.n || (before.n && memcmp(before.bytes, after.bytes, before.n) != 0)) fail_msg("%s: the state has changed", name);
    if (memcmp(&rng, &now, sizeof now) != 0) fail_msg("%s: random numbers were drawn", name);
    free(before.bytes), free(after.bytes);
}

static void every_layer_is_named_by_its_path(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3 });
#define CHECK(name, code, found, shape, layer) check_layer(c, name, code, found, shape, layer);
    ROWS(CHECK)
    assert_works(c);
    cj_ctx_free(c);
}

/* ---- networks ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* Targets that are none, rates that are not finite, a state from another network, names twice: parameters and optimiser stay as they are. */
static void networks_stay_as_they_are(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 4 });
    rig r;
    assert_true(rig_build(&r, c, 5) && rig_step(&r));
    snapshot before = snapshot_of(&r);
    cj_scope s = cj_scope_open(c);
    cj_tensor *logits = cj_forward(r.net, r.x), *far = cj_full(c, 3, CJ_SHAPE(5), CJ_I64), *below = cj_full(c, -1, CJ_SHAPE(5), CJ_I64);
    assert_refused(CJ_EINDEX, "cross_entropy: ", assert_false(cj_minimise(r.opt, cj_cross_entropy(logits, far))));
    logits = cj_forward(r.net, r.x);
    assert_refused(CJ_EINDEX, "cross_entropy: ", assert_false(cj_minimise(r.opt, cj_cross_entropy(logits, below))));
    assert_refused(CJ_EINDEX, "nll_loss: target 3 at position 0 is outside [0, 3)", cj_nll_loss(F(5, 3), far));
    assert_refused(CJ_EINDEX, "multi_margin_loss: target 3 at position 0 is outside [0, 3)", cj_multi_margin_loss(F(5, 3), far));
    assert_unchanged(&r, &before, 0);
    static const double rates[] = { NAN, INFINITY, -INFINITY, -1 };
    for (int i = 0; i < 4; i++) {
        assert_refused(CJ_EVALUE, "learning rate", cj_sgd(cj_module_params(r.net), .lr = rates[i]));
        assert_refused(CJ_EVALUE, "learning rate", cj_adam(cj_module_params(r.net), .lr = rates[i]));
        assert_refused(CJ_EVALUE, "learning rate", cj_optim_set_lr(r.opt, rates[i]));
    }
    assert_unchanged(&r, &before, 1);
    /* a state from another network: a parameter too few, and one of another size */
    char path[128];
    snprintf(path, sizeof path, "%s/other", folder);
    assert_true(cj_run_save(cj_sequential(c, cj_linear(c, 6, 8), cj_layer_norm_layer(c, 8)), path));
    assert_refused(CJ_EFILE, "has no 4.weight", assert_int_equal(cj_run_load(r.net, path, false), -1));
    snprintf(path, sizeof path, "%s/wider", folder);
    assert_true(cj_run_save(
        cj_sequential(c, cj_linear(c, 6, 8), cj_layer_norm_layer(c, 8), cj_gelu_layer(c), cj_dropout_layer(c, 0.25), cj_linear(c, 8, 4)),
        path));
    assert_refused(CJ_EFILE, "4.weight", assert_int_equal(cj_run_load(r.net, path, false), -1));
    assert_unchanged(&r, &before, 2);
    cj_module *first = cj_module_child(r.net, 0);
    assert_refused(CJ_EVALUE, "module Linear: 'weight' is there already", cj_module_param(first, "weight", F(2)));
    assert_refused(CJ_EVALUE, "module Linear: 'bias' is there already", cj_module_buffer(first, "bias", F(2)));
    assert_refused(CJ_EVALUE, "module Linear: 'weight' is there already", cj_module_add(first, "weight", cj_relu_layer(c)));
    assert_refused(CJ_EVALUE, "'0' is there already", cj_module_add(r.net, "0", cj_relu_layer(c)));
    cj_scope_close(s);
    assert_unchanged(&r, &before, 3);
    snapshot_free(&before);
    assert_true(rig_step(&r));
    cj_ctx_free(c);
}

/* ---- operators: each with its name, the argument, what was expected and what was found --------------------------------------------------------------------------- */

static void operators_say_expected_and_found(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_scope s = cj_scope_open(c);
    cj_tensor *lengths = cj_full(c, 6, CJ_SHAPE(2), CJ_I64), *x = F(4, 2, 3), *q = F(1, 2, 3, 4), *image = F(1, 4, 5, 5);
#define SAYS(code, op, found, expected, ...)                                                                                               \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_error(c, code, op);                                                                                                         \
        assert_says(c, found);                                                                                                             \
        assert_says(c, expected);                                                                                                          \
        assert_sentence(c, op);                                                                                                            \
        cj_clear(c);                                                                                                                       \
    } while (0)
    SAYS(CJ_ESHAPE, "conv: ", "7", "5", cj_conv(image, F(2, 4, 7, 7), NULL));               /* a kernel larger than the padded input */
    SAYS(CJ_ESHAPE, "conv: ", "9", "7", cj_conv(image, F(2, 4, 9, 9), NULL, .padding = 1)); /* … and what the padding made of it */
    SAYS(CJ_ESHAPE, "max_pool: ", "7", "5", cj_max_pool(image, .kernel = 7));
    SAYS(CJ_ESHAPE, "conv: ", "3", "4", cj_conv(image, F(6, 1, 3, 3), NULL, .groups = 3)); /* channels that groups do not divide */
    SAYS(CJ_ESHAPE, "conv_transpose: ", "3", "4", cj_conv_transpose(image, F(4, 1, 3, 3), NULL, .groups = 3));
    SAYS(CJ_EVALUE, "conv: ", "-1", "stride", cj_conv(image, F(2, 4, 3, 3), NULL, .stride = -1)); /* negative sizes */
    SAYS(CJ_EVALUE, "conv: ", "-2", "padding", cj_conv(image, F(2, 4, 3, 3), NULL, .padding = -2));
    SAYS(CJ_ESHAPE, "full: ", "-3", "size", cj_full(c, 0, CJ_SHAPE(2, -3), CJ_F32));
    SAYS(CJ_ESHAPE, "attention: ", "[5, 5]", "[1, 2, 3, 3]", cj_attention(q, q, q, .mask = F(5, 5))); /* masks of the wrong shape */
    SAYS(CJ_ESHAPE, "masked_softmax: ", "[5]", "[2, 3]", cj_masked_softmax(F(2, 3), cj_gt_scalar(F(5), 0), -1));
    SAYS(CJ_EINDEX, "cross_entropy: ", "7", "3", cj_cross_entropy(F(2, 3), cj_full(c, 7, CJ_SHAPE(2), CJ_I64))); /* targets out of range */
    SAYS(CJ_EINDEX, "lstm: ", "6", "4",
         cj_lstm(x, F(8, 3), F(8, 2), NULL, NULL, .lengths = lengths)); /* lengths longer than the sequence */
    SAYS(CJ_EINDEX, "gru: ", "6", "4", cj_gru(x, F(6, 3), F(6, 2), NULL, NULL, .lengths = lengths));
    SAYS(CJ_EINDEX, "attention: ", "6", "3", cj_attention(q, q, q, .key_length = cj_full(c, 6, CJ_SCALAR, CJ_I64)));
    cj_tensor *offsets = cj_from_i64(c, (int64_t[]){ 0, 2, 3 }, CJ_SHAPE(3)),
              *unsorted = cj_from_i64(c, (int64_t[]){ 2, 1, 0 }, CJ_SHAPE(3));
    SAYS(CJ_EVALUE, "csr_from_parts: ", "1", "2", cj_csr_from_parts(offsets, unsorted, F(3), 2, 3)); /* unsorted CSR */
    cj_tensor *falling = cj_from_i64(c, (int64_t[]){ 0, 3, 2 }, CJ_SHAPE(3));
    SAYS(CJ_EVALUE, "csr_from_parts: ", "offsets", "2", cj_csr_from_parts(falling, unsorted, F(3), 2, 3));
    cj_scope_close(s);
    assert_works(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_named_by_its_path),
        cmocka_unit_test(networks_stay_as_they_are),
        cmocka_unit_test(operators_say_expected_and_found),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
