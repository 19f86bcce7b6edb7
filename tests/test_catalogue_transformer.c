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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(tr_ffn), TEST(tr_sequence_probability), TEST(a_tied_head_is_the_embedding) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
