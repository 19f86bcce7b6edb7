/* The catalogue's rows on transformers, tr.* by name; and the tied head of the zoo's gpt. */
#include "zoo.h"

extern const cj_model cj_model_gpt;

TEST_CONTEXT(.threads = 2, .seed = 21);

static cj_module *gpt(int64_t symbols, const char *const *assignments)
{
    return zoo_build(c, &cj_model_gpt, (cj_model_data){ .inputs = symbols, .outputs = symbols }, assignments);
}
static cj_tensor *param(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }

static cj_tensor *forward(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_forward(user, in[0]);
}

/* tr.ffn: two convolutions of kernel 1; the Jacobian is block diagonal over positions; 2·D·F + F + D parameters */
static void tr_ffn(void **state)
{
    (void)state;
    enum { T = 6, D = 5, F = 20 };
    cj_module *net = cj_sequential(c, cj_linear(c, D, F), cj_gelu_layer(c), cj_linear(c, F, D));
    assert_int_equal(cj_params_numel(cj_module_params(net)), 2 * D * F + F + D);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, T, D)), *w1 = cj_unsqueeze(param(net, "0.weight"), 2),
              *w2 = cj_unsqueeze(param(net, "2.weight"), 2);
    cj_tensor *h = cj_gelu(cj_conv(cj_transpose(x, 1, 2), w1, param(net, "0.bias")));
    assert_near(distance(cj_transpose(cj_conv(h, w2, param(net, "2.bias")), 1, 2), cj_forward(net, x)), 0, 2e-6);
    double *J = values_of(cj_jacobian(c, forward, net, cj_randn(c, CJ_SHAPE(T, D)))), own = 0;
    for (int i = 0; i < T * D; i++)
        for (int j = 0; j < T * D; j++) {
            if (i / D != j / D) assert_true(J[i * T * D + j] == 0); /* positions do not mix */
            else own = fmax(own, fabs(J[i * T * D + j]));
        }
    assert_true(own > 0.01);
    free(J);
}

static cj_tensor *next_symbol(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    (void)ctx;
    return cj_select(cj_forward(user, prefix), 1, -1);
}

/* tr.sequence-probability: the strings of a tiny alphabet have probability 1 together; shuffled sentences are less likely; (10^4)^15 = 10^60 of them */
static void tr_sequence_probability(void **state)
{
    (void)state;
    enum { V = 3, T = 4, ALL = 81 };
    cj_module *m = gpt(V, WITH("dim=16", "heads=2", "layers=2", "context=8", "dropout=0"));
    cj_init_normal_(param(m, "wte.weight"), 0, 1); /* far from uniform */
    cj_init_normal_(param(m, "lm_head.weight"), 0, 0.5);
    int64_t x[ALL * (T + 1)];
    for (int i = 0; i < ALL; i++)
        for (int t = 0, k = i; t <= T; t++) x[i * (T + 1) + t] = t ? k % V : 1, k = t ? k / V : k;
    bool grad = cj_no_grad(c);
    cj_tensor *rows = cj_from_i64(c, x, CJ_SHAPE(ALL, T + 1)), *log_p = cj_sequence_log_prob(c, next_symbol, m, rows, 1);
    assert_near(cj_item(cj_sum(cj_exp(cj_cast(log_p, CJ_F64)))), 1, 1e-5);
    assert_true(cj_item(cj_max(log_p)) - cj_item(cj_min(log_p)) > 0.5);
    /* the sum of the terms is what the cross-entropy of all positions at once says */
    cj_tensor *logits = cj_forward(m, cj_contiguous(cj_slice(rows, 1, 0, T, 1)));
    cj_tensor *each = cj_cross_entropy(logits, cj_contiguous(cj_slice(rows, 1, 1, T + 1, 1)), .reduction = CJ_NONE);
    assert_near(distance(cj_neg(cj_sum(each, .axes = CJ_AXIS(1))), log_p), 0, 1e-5);
    cj_grad_mode(c, grad);
    assert_poisoned(CJ_EVALUE, "sequence_log_prob: 5 given symbols", cj_sequence_log_prob(c, next_symbol, m, rows, 5));

    enum { WORDS = 6, LENGTH = 8 };
    cj_module *reader = gpt(WORDS, WITH("dim=16", "heads=2", "layers=1", "context=8", "dropout=0"));
    int64_t sentence[WORDS * LENGTH], shuffled[WORDS * LENGTH];
    static const int order[LENGTH] = { 0, 5, 2, 7, 1, 4, 6, 3 };
    for (int i = 0; i < WORDS * LENGTH; i++) sentence[i] = (i / LENGTH + i % LENGTH) % WORDS; /* every word has its successor */
    for (int i = 0; i < WORDS * LENGTH; i++) shuffled[i] = sentence[i / LENGTH * LENGTH + order[i % LENGTH]];
    cj_tensor *right = cj_keep(cj_from_i64(c, sentence, CJ_SHAPE(WORDS, LENGTH))),
              *wrong = cj_from_i64(c, shuffled, CJ_SHAPE(WORDS, LENGTH));
    cj_optim *adam = cj_adam(cj_module_params(reader), .lr = 1e-2);
    for (int step = 0; step < 150; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *y = cj_forward(reader, cj_contiguous(cj_slice(right, 1, 0, LENGTH - 1, 1)));
        assert_true(cj_minimise(adam, cj_cross_entropy(y, cj_contiguous(cj_slice(right, 1, 1, LENGTH, 1)))));
        cj_scope_close(s);
    }
    cj_no_grad(c);
    cj_tensor *gap = cj_sub(cj_sequence_log_prob(c, next_symbol, reader, right, 1), cj_sequence_log_prob(c, next_symbol, reader, wrong, 1));
    assert_true(cj_item(cj_min(gap)) > 1);
    cj_grad_mode(c, true);
    assert_near(log10(pow(1e4, 15)), 60, 1e-12);
}

/* What tr.gpt says of GPT-2's size: V·D + C·D + L·(12 D² + 13 D) + 2 D parameters with the tied head. */
static int64_t gpt_size(int64_t V, int64_t C, int64_t D, int64_t L) { return V * D + C * D + L * (12 * D * D + 13 * D) + 2 * D; }
static void a_tied_head_is_the_embedding(void **state)
{
    (void)state;
    enum { V = 11, C = 9, D = 16, L = 3 };
    const char *const *size = WITH("dim=16", "heads=4", "layers=3", "context=9", "dropout=0", "tied=yes");
    cj_module *m = gpt(V, size), *untied = gpt(V, WITH("dim=16", "heads=4", "layers=3", "context=9", "dropout=0"));
    assert_int_equal(cj_params_numel(cj_module_params(m)), gpt_size(V, C, D, L));
    assert_int_equal(cj_params_numel(cj_module_params(untied)), gpt_size(V, C, D, L) + V * D);
    assert_int_equal(gpt_size(50257, 1024, 768, 12), 124439808);
    cj_module_train(m, false);
    cj_tensor *x = cj_randint(c, 0, V, CJ_SHAPE(2, C)), *whole = cj_forward(m, x);
    assert_near(cj_item(cj_cross_entropy(whole, cj_randint(c, 0, V, CJ_SHAPE(2, C)))), log(V), 0.2); /* at the start: a guess */
    bool grad = cj_no_grad(c);
    assert_int_equal(cj_model_gpt.begin(m, 2), C);
    for (int t = 0; t < C; t++) { /* with caches symbol by symbol as all at once */
        cj_tensor *y = cj_model_gpt.next(m, cj_contiguous(cj_select(x, 1, t)));
        assert_near(distance(y, cj_contiguous(cj_select(whole, 1, t))), 0, 2e-5);
    }
    /* logits are linear in the embedding as a head: with the last norm's weight 0 and bias u they are E·u */
    cj_tensor *u = cj_randn(c, CJ_SHAPE(D));
    cj_init_constant_(param(m, "ln_f.weight"), 0);
    cj_assign_(param(m, "ln_f.bias"), u);
    cj_grad_mode(c, grad);
    cj_tensor *want = cj_matmul(param(m, "wte.weight"), u), *got = cj_select(cj_select(cj_forward(m, x), 0, 0), 0, 0);
    assert_near(distance(got, want), 0, 1e-6);
    cj_settings *s = cj_settings_new(c, &cj_model_gpt);
    assert_true(cj_settings_parse(s, "tied=yes"));
    cj_options o = cj_settings_options(s);
    assert_refused(CJ_EVALUE, "gpt: tied=yes with 3 symbols to read and 4 to write",
                   assert_null(cj_model_gpt.build(c, &(cj_model_data){ .inputs = 3, .outputs = 4 }, &o)));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------------------------------ */

/* |d loss/d x| of a stack of blocks over |d loss/d y|, loss = <w, y>. */
static double stack_gradient(int layers, bool norm_first)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(cj_randn(c, CJ_SHAPE(2, 8, 32))), *y = x, *g;
    for (int l = 0; l < layers; l++)
        y = cj_forward(cj_transformer_encoder_layer(c, 32, 4, .feed_forward = 128, .dropout = CJ_ZERO, .norm_first = norm_first), y);
    cj_tensor *w = cj_randn(c, cj_shape_of(y));
    assert_true(cj_grad(cj_sum(cj_mul(y, w)), &x, 1, &g));
    double ratio = cj_item(cj_norm(g, 2)) / cj_item(cj_norm(w, 2));
    cj_scope_close(s);
    return ratio;
}

/* tr.layer: 12 D² + 13 D parameters whatever the length; the derivative is that of differences; a deep stack with its norms first has a bounded gradient */
static void tr_layer(void **state)
{
    (void)state;
    static const int64_t dims[] = { 4, 12, 32 };
    for (int i = 0; i < 3; i++)
        for (int first = 0; first < 2; first++) {
            const int64_t D = dims[i];
            cj_module *m = cj_transformer_encoder_layer(c, D, 2, .feed_forward = 4 * D, .norm_first = first);
            assert_int_equal(cj_params_numel(cj_module_params(m)), 12 * D * D + 13 * D);
            for (int64_t T = 1; T <= 50; T = 3 * T + 1) assert_int_equal(cj_size(cj_forward(m, cj_randn(c, CJ_SHAPE(1, T, D))), 1), T);
        }
    for (int first = 0; first < 2; first++) { /* x -> norm(x + f(x)), or x + f(norm(x)), twice, by the parts */
        cj_module *m = cj_transformer_encoder_layer(c, 8, 2, .feed_forward = 16, .dropout = CJ_ZERO, .norm_first = first);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 5, 8)), *h = x;
        cj_module *attn = cj_module_find(m, "self_attn"), *one = cj_module_find(m, "linear1"), *two = cj_module_find(m, "linear2"),
                  *norm[] = { cj_module_find(m, "norm1"), cj_module_find(m, "norm2") };
        for (int k = 0; k < 2; k++) {
            cj_tensor *in = first ? cj_forward(norm[k], h) : h;
            h = cj_add(h, k ? cj_forward(two, cj_relu(cj_forward(one, in))) : cj_multihead_forward(attn, in, in, in));
            if (!first) h = cj_forward(norm[k], h);
        }
        assert_near(distance(h, cj_forward(m, x)), 0, 2e-6);
        /* differences along a random direction, in f32; the parity tests compare every gradient with PyTorch's in f64 */
        cj_module *smooth =
            cj_transformer_encoder_layer(c, 8, 2, .feed_forward = 16, .dropout = CJ_ZERO, .norm_first = first, .activation = "gelu");
        cj_tensor *leaf = cj_require_grad(x), *d = cj_randn(c, cj_shape_of(x)), *w = cj_randn(c, cj_shape_of(x)), *g;
        assert_true(cj_grad(cj_sum(cj_mul(cj_forward(smooth, leaf), w)), &leaf, 1, &g));
        const double step = 4e-3, slope = cj_item(cj_sum(cj_mul(g, d)));
        double up = cj_item(cj_sum(cj_mul(cj_forward(smooth, cj_add(x, cj_mul_scalar(d, step))), w))),
               down = cj_item(cj_sum(cj_mul(cj_forward(smooth, cj_sub(x, cj_mul_scalar(d, step))), w)));
        assert_near((up - down) / (2 * step), slope, 0.01 * cj_item(cj_norm(g, 2)));
    }
    /* dropout: in training only */
    cj_module *m = cj_transformer_encoder_layer(c, 8, 2, .feed_forward = 16, .dropout = 0.5);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 3, 8));
    assert_true(distance(cj_forward(m, x), cj_forward(m, x)) > 1e-3);
    cj_module_train(m, false);
    assert_true(same_bits(cj_forward(m, x), cj_forward(m, x)));
    double shallow = stack_gradient(2, true), deep = stack_gradient(48, true);
    print_message("norms first, at the start: |gradient| x %.2f through 2 blocks, x %.2f through 48\n", shallow, deep);
    assert_true(deep < 10 && deep > 0.5 && deep < 5 * shallow); /* sums of paths: it grows far slower than a product of 48 factors */
}

/* A text model on encoder layers: embedding, positions, blocks that see both sides, a map to the words. */
typedef struct encoder {
    cj_module *all, *embedding, *positions, *block[2], *head;
} encoder;

static encoder encoder_new(int64_t words, int64_t dim)
{
    static const cj_module_type type = { .name = "Parts" };
    encoder e = { .all = cj_module_new(c, &type, 0) };
    e.embedding = cj_module_add(e.all, "embedding", cj_embedding_layer(c, words, dim));
    e.positions = cj_module_add(e.all, "positions", cj_sinusoidal_layer(c, dim));
    for (int l = 0; l < 2; l++)
        e.block[l] = cj_module_add(
            e.all, l ? "1" : "0", cj_transformer_encoder_layer(c, dim, 2, .feed_forward = 4 * dim, .dropout = CJ_ZERO, .norm_first = true));
    e.head = cj_module_add(e.all, "head", cj_linear(c, dim, words));
    return e;
}

static cj_tensor *encode(encoder *e, cj_tensor *x, cj_tensor *mask)
{
    cj_tensor *h = cj_forward(e->positions, cj_forward(e->embedding, x));
    for (int l = 0; l < 2; l++) h = cj_transformer_encoder_forward(e->block[l], h, .mask = mask);
    return cj_forward(e->head, h);
}

/* tr.encoder: one set of weights for 1 to 1024 symbols; padding that is masked changes nothing; a small text is learnt by heart, each word from both its sides */
static void tr_encoder(void **state)
{
    (void)state;
    enum { WORDS = 12, LENGTH = 10, ROWS = 8 };
    cj_scope s = cj_scope_open(c);
    encoder e = encoder_new(WORDS, 16);
    cj_module_train(e.all, false);
    bool grad = cj_no_grad(c);
    for (int64_t T = 1; T <= 1024; T *= 4) {
        cj_tensor *y = encode(&e, cj_randint(c, 0, WORDS, CJ_SHAPE(1, T)), NULL);
        assert_true(cj_size(y, 1) == T && cj_size(y, 2) == WORDS);
    }
    cj_tensor *x = cj_randint(c, 0, WORDS, CJ_SHAPE(2, 6)), *pad = cj_randint(c, 0, WORDS, CJ_SHAPE(2, 4));
    cj_tensor *longer = cj_cat((cj_tensor *[]){ x, pad }, 2, 1), *real = cj_lt_scalar(cj_arange(c, 0, 10, 1, CJ_I64), 6);
    cj_tensor *padded = cj_slice(encode(&e, longer, cj_reshape(real, CJ_SHAPE(1, 1, 1, 10))), 1, 0, 6, 1);
    assert_near(distance(padded, encode(&e, x, NULL)), 0, 2e-6);
    assert_true(distance(cj_slice(encode(&e, longer, NULL), 1, 0, 6, 1), encode(&e, x, NULL)) > 1e-3); /* without the mask it would */
    cj_grad_mode(c, grad);
    cj_module_train(e.all, true);
    cj_tensor *text = cj_randint(c, 1, WORDS, CJ_SHAPE(ROWS, LENGTH)),
              *place = cj_from_i64(c, (int64_t[]){ 0, 3, 5, 9, 2, 7, 1, 4 }, CJ_SHAPE(ROWS, 1));
    cj_tensor *here = cj_eq(cj_arange(c, 0, LENGTH, 1, CJ_I64), place),
              *hidden = cj_where(here, cj_full(c, 0, CJ_SCALAR, CJ_I64), text); /* 0: a blank */
    cj_tensor *target = cj_where(here, text, cj_full(c, -100, CJ_SCALAR, CJ_I64));
    cj_optim *o = cj_adam(cj_module_params(e.all), .lr = 0.005);
    double loss = 0;
    for (int i = 0; i < 150; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *l = cj_cross_entropy(encode(&e, hidden, NULL), target);
        loss = cj_item(l);
        assert_true(cj_minimise(o, l));
        cj_scope_close(inner);
    }
    print_message("a blank in each of 8 sentences, by heart: loss %.4f\n", loss);
    assert_true(loss < 0.01);
    cj_scope_close(s);
}

static cj_tensor *logits_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *h = in[0]; /* vectors in place of embedded symbols: the blocks alone */
    cj_module *blocks = cj_module_find(user, "h");
    for (int i = 0; i < cj_module_children(blocks); i++) h = cj_forward(cj_module_child(blocks, i), h);
    return h;
}

/* tr.gpt: the size of GPT-2, no look at what comes later; with the caches as all at once: a_tied_head_is_the_embedding */
static void tr_gpt(void **state)
{
    (void)state;
    cj_module *m = gpt(7, WITH("dim=16", "heads=4", "layers=2", "context=12", "dropout=0", "tied=yes"));
    assert_near(cj_causality_error(c, logits_of, m, cj_randn(c, CJ_SHAPE(2, 12, 16)), 1), 0, 0);
    cj_tensor *x = cj_randint(c, 0, 7, CJ_SHAPE(1, 12)), *other = cj_clone(x), *y = cj_forward(m, x);
    cj_write_slice_(other, 1, cj_full(c, 8, CJ_SCALAR, CJ_I64),
                    cj_remainder(cj_add_scalar(cj_slice(x, 1, 8, 9, 1), 1), cj_full(c, 7, CJ_SCALAR, CJ_I64)));
    cj_tensor *z = cj_forward(m, other);
    assert_true(same_bits(cj_contiguous(cj_slice(y, 1, 0, 8, 1)), cj_contiguous(cj_slice(z, 1, 0, 8, 1))));
    assert_true(distance(cj_slice(y, 1, 8, 12, 1), cj_slice(z, 1, 8, 12, 1)) > 1e-6);
    assert_int_equal(gpt_size(50257, 1024, 768, 12), 124439808);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tr_ffn), TEST(tr_sequence_probability), TEST(a_tied_head_is_the_embedding), TEST(tr_layer), TEST(tr_encoder), TEST(tr_gpt)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
