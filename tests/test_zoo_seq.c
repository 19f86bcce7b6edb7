/* The zoo's models of texts, translations and graphs: symbol by symbol is the whole at once, sentences are learnt by heart, nodes know their club. */
#include "zoo.h"

extern const cj_model cj_model_lstm, cj_model_gru, cj_model_rnn, cj_model_gpt, cj_model_seq2seq, cj_model_gcn;

TEST_CONTEXT(.threads = 2, .seed = 41);

static cj_module *build(const cj_model *m, cj_model_data d, const char *const *assignments) { return zoo_build(c, m, d, assignments); }

/* ---- texts ------------------------------------------------------------------------------------------------------------------------------------------- */

enum { V = 11, T = 9 };

typedef struct reader {
    const cj_model *model;
    cj_module *net;
} reader;

static void read_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx;
    reader *r = user;
    out[0] = r->model->next(r->net, in[0]);
}

/* Logits after every symbol of x [B, T], one by one through one plan, against forward. */
static void reads_like_forward(reader *r, cj_plan **plan, cj_tensor *x, int64_t room)
{
    int64_t B = cj_size(x, 0);
    cj_tensor *whole = cj_forward(r->net, x), *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    assert_true(r->model->begin(r->net, B) == room);
    for (int64_t t = 0; t < cj_size(x, 1); t++) {
        cj_tensor *in[1] = { cj_contiguous(cj_select(x, 1, t)) };
        if (*plan) assert_true(cj_replay(*plan, in, out));
        else *plan = cj_capture(c, read_step, r, in, 1, out);
        assert_ok(c);
        assert_near(distance(out[0], cj_contiguous(cj_select(whole, 1, t))), 0, 2e-5);
    }
}

static void continuing_equals_forward(void **state)
{
    (void)state;
    const struct {
        const cj_model *model;
        int64_t room;
    } each[] = { { &cj_model_gpt, T }, { &cj_model_lstm, INT64_MAX }, { &cj_model_gru, INT64_MAX }, { &cj_model_rnn, INT64_MAX } };
    bool grad = cj_no_grad(c);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        bool gpt = each[i].model == &cj_model_gpt;
        reader r = { each[i].model,
                     build(each[i].model, (cj_model_data){ .inputs = V, .outputs = V },
                           gpt ? WITH("dim=16", "heads=4", "layers=2", "context=9") : WITH("dim=6", "hidden=10", "layers=2")) };
        cj_module_train(r.net, false);
        for (int64_t B = 1; B <= 3; B += 2) {
            cj_plan *plan = NULL;
            for (int again = 0; again < 2; again++) /* the plan stays valid when another text begins */
                reads_like_forward(&r, &plan, cj_randint(c, 0, V, CJ_SHAPE(B, T)), each[i].room);
            cj_plan_stats s = cj_plan_statistics(plan);
            assert_true(s.compiled);
            assert_int_equal(s.plans, 1);
            assert_int_equal(s.allocations, 0);
            cj_plan_free(plan);
        }
    }
    cj_grad_mode(c, grad);
}

/* ---- translations ----------------------------------------------------------------------------------------------------------------------------------- */

enum { PAIRS = 20, S = 7, WORDS = 14 };

/* Sentences of 2 to 5 words and the same from behind: words, end, padding; the translation begins with CJ_WORD_BEGIN. */
static void make_pairs(int64_t *x, int64_t *y)
{
    memset(x, 0, PAIRS * S * sizeof *x);
    memset(y, 0, PAIRS * (S + 1) * sizeof *y);
    for (int i = 0; i < PAIRS; i++) {
        int n = 2 + i % 4;
        y[i * (S + 1)] = CJ_WORD_BEGIN;
        for (int j = 0; j < n; j++) x[i * S + j] = y[i * (S + 1) + n - j] = 4 + (i * 5 + j * j * 3 + j) % (WORDS - 4);
        x[i * S + n] = y[i * (S + 1) + n + 1] = CJ_WORD_END;
    }
}

static void translation_is_learnt_by_heart(void **state)
{
    (void)state;
    int64_t x[PAIRS * S], y[PAIRS * (S + 1)], got[PAIRS * 12];
    make_pairs(x, y);
    cj_tensor *X = cj_keep(cj_from_i64(c, x, CJ_SHAPE(PAIRS, S))), *Y = cj_keep(cj_from_i64(c, y, CJ_SHAPE(PAIRS, S + 1)));
    for (int lstm = 0; lstm < 2; lstm++) {
        cj_module *m =
            build(&cj_model_seq2seq, (cj_model_data){ .inputs = WORDS, .outputs = WORDS },
                  WITH("dim=16", "hidden=24", "dropout=0", "smoothing=0", lstm ? "cell=lstm" : "cell=gru", lstm ? "layers=2" : "layers=1"));
        cj_examples e;
        assert_true(cj_examples_of_pairs(X, Y, &e));
        cj_train_result r =
            cj_train(m, &e, .task = CJ_TASK_TRANSLATE, .model = &cj_model_seq2seq, .steps = 300, .batch = PAIRS, .lr = 1e-2);
        assert_ok(c);
        assert_true(r.finished);
        cj_metrics k;
        assert_true(cj_evaluate(m, &e, &k, .task = CJ_TASK_TRANSLATE, .model = &cj_model_seq2seq));
        assert_true(k.loss < 0.02);
        int64_t words = 0;
        for (int i = 0; i < PAIRS * (S + 1); i++) words += y[i] != CJ_WORD_PAD && i % (S + 1) != 0;
        assert_int_equal(k.n, words);
        cj_module_train(m, false);
        bool grad = cj_no_grad(c);
        cj_tensor *w = cj_model_seq2seq.decode(m, X, 12);
        assert_int_equal(cj_size(w, 1), 6); /* five words and the end: no step more */
        assert_true(cj_to_i64(w, got, cj_numel(w)));
        for (int i = 0; i < PAIRS; i++)
            for (int t = 0; t < 6; t++) assert_int_equal(got[i * 6 + t], y[i * (S + 1) + 1 + t]);
        /* more padding changes nothing, and a limit cuts */
        cj_tensor *wide = cj_cat((cj_tensor *[]){ X, cj_zeros(c, CJ_SHAPE(PAIRS, 5), CJ_I64) }, 2, 1);
        assert_near(cj_item(cj_model_seq2seq.loss(m, wide, Y)), cj_item(cj_model_seq2seq.loss(m, X, Y)), 1e-6);
        assert_int_equal(cj_size(cj_model_seq2seq.decode(m, X, 3), 1), 3);
        cj_grad_mode(c, grad);
    }
    cj_examples e;
    assert_refused(CJ_ESHAPE, "examples: pairs are words i64 [n, S] and [n, T]",
                   cj_examples_of_pairs(cj_zeros(c, CJ_SHAPE(3, 2), CJ_F32), cj_zeros(c, CJ_SHAPE(3, 2), CJ_I64), &e));
    cj_release(X);
    cj_release(Y);
}

/* A batch has the columns that its longest sentence needs, rounded up to 16, and no more than there are. */
static void pairs_are_cut(void **state)
{
    (void)state;
    enum { N = 3, LONG = 40 };
    int64_t x[N][LONG] = { { 5, 2 }, { 5, 6, 2 }, { 0 } }, y[N][2] = { { 1, 2 }, { 1, 2 }, { 1, 2 } };
    for (int j = 0; j < 20; j++) x[2][j] = 4;
    cj_examples e;
    cj_tensor *a, *b;
    assert_true(cj_examples_of_pairs(cj_keep(cj_from_i64(c, x[0], CJ_SHAPE(N, LONG))), cj_keep(cj_from_i64(c, y[0], CJ_SHAPE(N, 2))), &e));
    assert_true(e.batch(c, &e, 0, cj_arange(c, 0, 2, 1, CJ_I64), &a, &b));
    assert_int_equal(cj_size(a, 1), 16);
    assert_int_equal(cj_size(b, 1), 2);
    assert_near(value_at(a, 16 + 1), 6, 0);
    assert_true(e.batch(c, &e, 0, cj_arange(c, 0, 3, 1, CJ_I64), &a, &b));
    assert_int_equal(cj_size(a, 1), 32);
    cj_release(e.x);
    cj_release(e.y);
}

/* ---- words ------------------------------------------------------------------------------------------------------------------------------------------- */

static void words(void **state)
{
    (void)state;
    const char *text[] = { "The dog's T-shirt, (red) and 2 dogs.", "the RED dog -- and \"the\" Änderung .", "ÄNDERUNG, the red!" };
    cj_words *w = cj_words_new(c, text, 3, .least = 2);
    /* the 4, red 3, then by bytes the pairs: " , . and änderung */
    const char *want[] = { "", "", "", "", "the", "red", "\"", ",", "-", ".", "and", "änderung", "" };
    assert_int_equal(cj_words_count(w), 12);
    for (int i = 0; i < 13; i++) assert_string_equal(cj_words_at(w, i), want[i]);
    cj_tensor *x = cj_words_encode(w, (const char *[]){ "The red, red rose.", "" }, 2, true, 0);
    const double numbers[] = { 1, 4, 5, 7, 5, 3, 9, 2, 1, 2, 0, 0, 0, 0, 0, 0 };
    assert_true(cj_size(x, 0) == 2 && cj_size(x, 1) == 8);
    for (int i = 0; i < 16; i++) assert_near(value_at(x, i), numbers[i], 0);
    x = cj_words_encode(w, (const char *[]){ "the red the red" }, 1, false, 3);
    const double cut[] = { 4, 5, 2 };
    for (int i = 0; i < 3; i++) assert_near(value_at(x, i), cut[i], 0);
    char out[64];
    assert_int_equal(cj_words_text(w, (int64_t[]){ 1, 11, 7, 3, 6, 4, 5, 6, 9, 2, 4 }, 11, out, sizeof out), 21);
    assert_string_equal(out, "Änderung, \"the red\".");
    assert_int_equal(cj_words_text(w, (int64_t[]){ 4, 5 }, 2, out, 4), 7);
    assert_string_equal(out, "The");
    assert_refused(CJ_EVALUE, "words: at least -1 occurrences", cj_words_new(c, text, 3, .least = -1));
    assert_poisoned(CJ_EVALUE, "words: 1 sentences of at most 1 columns", cj_words_encode(w, text, 1, true, 1));
    cj_words_free(w);
    w = cj_words_new(c, text, 3, .least = 1, .most = 2);
    assert_int_equal(cj_words_count(w), 6);
    cj_words_free(w);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------------------------------------------ */

/* Q of an undirected graph, D^-1/2 (A + I) D^-1/2, dense f32 [n, n]. */
static cj_tensor *normalised(const int (*edge)[2], int edges, int n)
{
    double *a = calloc((size_t)(n * n), sizeof *a), *d = calloc((size_t)n, sizeof *d);
    for (int i = 0; i < n; i++) a[i * n + i] = 1;
    for (int e = 0; e < edges; e++) a[edge[e][0] * n + edge[e][1]] = a[edge[e][1] * n + edge[e][0]] = 1;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) d[i] += a[i * n + j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i * n + j] /= sqrt(d[i] * d[j]);
    cj_tensor *q = cj_cast(cj_from_f64(c, a, CJ_SHAPE(n, n)), CJ_F32);
    free(a);
    free(d);
    return q;
}

static cj_module *gcn_on(cj_tensor *q, cj_tensor *nodes, int64_t classes, const char *const *settings)
{
    cj_csr graph = cj_csr_from_dense(q);
    return build(&cj_model_gcn, (cj_model_data){ .inputs = cj_size(nodes, 1), .outputs = classes, .graph = &graph, .nodes = nodes },
                 settings);
}

static cj_tensor *weight(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }

static void same_parameters(cj_module *to, cj_module *from)
{
    bool grad = cj_no_grad(c);
    for (int i = 0; i < cj_params_count(cj_module_params(to)); i++)
        cj_assign_(cj_params_at(cj_module_params(to), i), cj_detach(cj_params_at(cj_module_params(from), i)));
    cj_grad_mode(c, grad);
}

/* graph.gcn-layer */
static void graph_gcn_layer(void **state)
{
    (void)state;
    enum { N = 9, FEATURES = 6, CLASSES = 3 };
    static const int edge[][2] = { { 0, 1 }, { 1, 2 }, { 2, 0 }, { 2, 3 }, { 3, 4 }, { 4, 5 }, { 5, 6 }, { 6, 7 }, { 7, 8 }, { 8, 4 } };
    cj_tensor *q = normalised(edge, 10, N), *nodes = cj_rand(c, CJ_SHAPE(N, FEATURES)), *all = cj_arange(c, 0, N, 1, CJ_I64);
    nodes = cj_div(nodes, cj_sum(nodes, .axes = CJ_AXIS(1), .keepdim = true)); /* rows that sum to 1 are taken as they are */
    cj_module *m = gcn_on(q, nodes, CLASSES, WITH("hidden=5", "dropout=0"));
    bool grad = cj_no_grad(c);
    cj_init_normal_(weight(m, "conv1.bias"), 0, 0.3);
    cj_init_normal_(weight(m, "conv2.bias"), 0, 0.3);
    /* sparse = dense: X' = relu(Q X Wᵀ + b), then Q X' Wᵀ + b */
    cj_tensor *h = cj_relu(cj_add(cj_matmul(q, cj_matmul(nodes, cj_t(weight(m, "conv1.lin.weight")))), weight(m, "conv1.bias")));
    cj_tensor *z = cj_add(cj_matmul(q, cj_matmul(h, cj_t(weight(m, "conv2.lin.weight")))), weight(m, "conv2.bias"));
    assert_near(distance(cj_forward(m, all), z), 0, 1e-6);
    /* permuting the nodes permutes the result */
    cj_tensor *order = cj_from_i64(c, (int64_t[]){ 3, 0, 8, 1, 7, 2, 6, 4, 5 }, CJ_SHAPE(N));
    cj_module *p = gcn_on(cj_index_select(cj_index_select(q, 0, order), 1, order), cj_index_select(nodes, 0, order), CLASSES,
                          WITH("hidden=5", "dropout=0"));
    same_parameters(p, m);
    assert_near(distance(cj_forward(p, all), cj_index_select(z, 0, order)), 0, 1e-6);
    /* no edges: a dense layer for every node alone */
    cj_module *alone = gcn_on(cj_eye(c, N, CJ_F32), nodes, CLASSES, WITH("hidden=5", "dropout=0"));
    same_parameters(alone, m);
    h = cj_relu(cj_linear_op(nodes, weight(m, "conv1.lin.weight"), weight(m, "conv1.bias")));
    assert_near(distance(cj_forward(alone, all), cj_linear_op(h, weight(m, "conv2.lin.weight"), weight(m, "conv2.bias"))), 0, 1e-6);
    /* features that are mostly zero are kept sparse, with the same result */
    cj_tensor *few = cj_cat((cj_tensor *[]){ nodes, cj_zeros(c, CJ_SHAPE(N, 10 * FEATURES), CJ_F32) }, 2, 1);
    cj_module *wide = gcn_on(q, few, CLASSES, WITH("hidden=5", "dropout=0"));
    cj_assign_(weight(wide, "conv1.lin.weight"),
               cj_cat((cj_tensor *[]){ cj_detach(weight(m, "conv1.lin.weight")), cj_randn(c, CJ_SHAPE(5, 10 * FEATURES)) }, 2, 1));
    cj_assign_(weight(wide, "conv1.bias"), cj_detach(weight(m, "conv1.bias")));
    cj_assign_(weight(wide, "conv2.lin.weight"), cj_detach(weight(m, "conv2.lin.weight")));
    cj_assign_(weight(wide, "conv2.bias"), cj_detach(weight(m, "conv2.bias")));
    assert_near(distance(cj_forward(wide, all), z), 0, 1e-6);
    cj_grad_mode(c, grad);
    /* and the same gradients as the dense formula */
    cj_tensor *x = cj_from_i64(c, (int64_t[]){ 0, 4, 7 }, CJ_SHAPE(3)), *y = cj_from_i64(c, (int64_t[]){ 0, 1, 2 }, CJ_SHAPE(3));
    cj_tensor *w[4] = { weight(m, "conv1.lin.weight"), weight(m, "conv1.bias"), weight(m, "conv2.lin.weight"), weight(m, "conv2.bias") };
    cj_tensor *g[4], *dense[4];
    h = cj_relu(cj_add(cj_matmul(q, cj_matmul(nodes, cj_t(w[0]))), w[1]));
    z = cj_add(cj_matmul(q, cj_matmul(h, cj_t(w[2]))), w[3]);
    cj_grad(cj_cross_entropy(cj_index_select(z, 0, x), y), w, 4, dense);
    cj_grad(cj_cross_entropy(cj_forward(m, x), y), w, 4, g);
    for (int i = 0; i < 4; i++) assert_near(distance(g[i], dense[i]), 0, 1e-6);
    /* which are slopes: along them the loss rises by their squared length, to first order */
    double squares = 0, f[2];
    for (int i = 0; i < 4; i++) squares += cj_item(cj_sum(cj_square(g[i])));
    grad = cj_no_grad(c);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 4; i++) cj_add_(w[i], g[i], side ? -2e-2 : 1e-2);
        f[side] = cj_item(cj_cross_entropy(cj_forward(m, x), y));
    }
    cj_grad_mode(c, grad);
    assert_near((f[0] - f[1]) / 2e-2, squares, 1e-2 * squares);
    assert_refused(CJ_EVALUE, "gcn: the data has no graph",
                   build(&cj_model_gcn, (cj_model_data){ .inputs = 2, .outputs = 2 }, WITH("hidden=5")));
}

/* Two cliques of eight that share two edges; a label in each, the nodes' own numbers as features. */
static void two_labels_are_enough(void **state)
{
    (void)state;
    enum { HALF = 8, N = 2 * HALF };
    int edge[HALF * HALF][2], edges = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < HALF; i++)
            for (int j = 0; j < i; j++) edge[edges][0] = side * HALF + i, edge[edges++][1] = side * HALF + j;
    edge[edges][0] = 1, edge[edges++][1] = HALF + 1;
    edge[edges][0] = 2, edge[edges++][1] = HALF + 5;
    cj_module *m = gcn_on(normalised((const int(*)[2])edge, edges, N), cj_eye(c, N, CJ_F32), 2, WITH("hidden=8", "dropout=0.2"));
    cj_tensor *x = cj_keep(cj_from_i64(c, (int64_t[]){ 0, HALF }, CJ_SHAPE(2))),
              *y = cj_keep(cj_from_i64(c, (int64_t[]){ 0, 1 }, CJ_SHAPE(2)));
    cj_examples e;
    assert_true(cj_examples_of_rows(x, y, &e));
    cj_train(m, &e, .task = CJ_TASK_NODES, .model = &cj_model_gcn, .steps = 100, .lr = 0.01);
    assert_ok(c);
    cj_module_train(m, false);
    cj_tensor *classes = cj_argmax(cj_forward(m, cj_arange(c, 0, N, 1, CJ_I64)), .axes = CJ_AXIS(-1));
    for (int i = 0; i < N; i++) assert_near(value_at(classes, i), i / HALF, 0);
    cj_release(x);
    cj_release(y);
}

/* What PyTorch Geometric's GCN has on Cora: 1433 words, 16 units, 7 classes. */
static void gcn_parameters(void **state)
{
    (void)state;
    cj_module *m = gcn_on(cj_eye(c, 3, CJ_F32), cj_ones(c, CJ_SHAPE(3, 1433), CJ_F32), 7, WITH("hidden=16"));
    assert_int_equal(cj_params_numel(cj_module_params(m)), 23063);
    assert_true(cj_size(weight(m, "conv1.lin.weight"), 0) == 16 && cj_size(weight(m, "conv1.lin.weight"), 1) == 1433);
    assert_true(cj_size(weight(m, "conv2.lin.weight"), 0) == 7 && cj_size(weight(m, "conv2.bias"), 0) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continuing_equals_forward),
        cmocka_unit_test(translation_is_learnt_by_heart),
        cmocka_unit_test(pairs_are_cut),
        cmocka_unit_test(words),
        cmocka_unit_test(graph_gcn_layer),
        cmocka_unit_test(two_labels_are_enough),
        cmocka_unit_test(gcn_parameters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
