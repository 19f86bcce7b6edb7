/* The catalogue's rows on positions, pos.combine and pos.learned: which of two words comes first, with and without them; and emb.lookup, the table of words itself. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 19);

enum { WORDS = 4, DIM = 8, PAIRS = WORDS * (WORDS - 1) };

static cj_tensor *weight(cj_module *m) { return cj_params_find(cj_module_params(m), "weight"); }

typedef enum how { NONE, ADDED, CONCATENATED, NAIVE } how;
typedef struct reader {
    how positions;
    cj_module *root, *words, *table, *attention, *hidden, *head;
} reader;
static const cj_module_type root_type = { "Reader", NULL, NULL };

static reader reader_new(how positions)
{
    int64_t dim = positions == CONCATENATED ? 2 * DIM : positions == NAIVE ? DIM + 1 : DIM;
    reader r = { .positions = positions, .root = cj_module_new(c, &root_type, 0) };
    r.words = cj_module_add(r.root, "words", cj_embedding_layer(c, WORDS, DIM));
    if (positions == ADDED || positions == CONCATENATED) r.table = cj_module_add(r.root, "table", cj_learned_positions_layer(c, 2, DIM));
    if (r.table) cj_init_normal_(weight(r.table), 0, 1);
    r.attention = cj_module_add(r.root, "attention", cj_multihead_attention(c, dim, 1));
    r.hidden = cj_module_add(r.root, "hidden", cj_linear(c, dim, 16));
    r.head = cj_module_add(r.root, "head", cj_linear(c, 16, 2));
    return r;
}
/* Words i64 [n, 2] -> logits [n, 2]: positions, self-attention, a unit-wise layer, the mean over the words. */
static cj_tensor *read_words(const reader *r, cj_tensor *x)
{
    cj_tensor *e = cj_forward(r->words, x), *place = NULL;
    cj_shape s = cj_shape_of(e);
    if (r->positions == ADDED) e = cj_forward(r->table, e);
    if (r->positions == CONCATENATED) place = cj_expand(cj_unsqueeze(weight(r->table), 0), s);
    if (r->positions == NAIVE) place = cj_expand(cj_reshape(cj_arange(c, 0, 2, 1, CJ_F32), CJ_SHAPE(1, 2, 1)), CJ_SHAPE(s.dim[0], 2, 1));
    if (place) e = cj_cat(CJ_TENSORS(e, place), 2, 2);
    cj_tensor *h = cj_add(e, cj_multihead_forward(r->attention, e, e, e));
    return cj_forward(r->head, cj_mean(cj_relu(cj_forward(r->hidden, h)), .axes = CJ_AXIS(1)));
}
/* All ordered pairs of different words; class 1 where the first is the smaller. Accuracy after training. */
static double order_task(how positions)
{
    int64_t x[2 * PAIRS], y[PAIRS], n = 0;
    for (int a = 0; a < WORDS; a++)
        for (int b = 0; b < WORDS; b++)
            if (a != b) x[2 * n] = a, x[2 * n + 1] = b, y[n++] = a < b;
    reader r = reader_new(positions);
    cj_tensor *X = cj_keep(cj_from_i64(c, x, CJ_SHAPE(PAIRS, 2))), *Y = cj_keep(cj_from_i64(c, y, CJ_SHAPE(PAIRS)));
    cj_optim *adam = cj_adam(cj_module_params(r.root), .lr = 1e-2);
    for (int step = 0; step < 300; step++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(adam, cj_cross_entropy(read_words(&r, X), Y)));
        cj_scope_close(s);
    }
    return cj_accuracy(read_words(&r, X), Y);
}

/* pos.combine: zero positions leave attention equivariant; adding is concatenating with a tied projection; order needs positions */
static void pos_combine(void **state)
{
    (void)state;
    enum { T = 5 };
    static const int64_t order[T] = { 3, 0, 4, 1, 2 };
    cj_module *attention = cj_multihead_attention(c, DIM, 2), *table = cj_learned_positions_layer(c, T, DIM);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, T, DIM)), *index = cj_from_i64(c, order, CJ_SHAPE(T)), *moved = cj_index_select(x, 1, index);
    double gap[2];
    for (int zero = 0; zero < 2; zero++) {
        cj_init_normal_(weight(table), 0, zero ? 0 : 1);
        cj_tensor *a = cj_forward(table, x), *b = cj_forward(table, moved);
        gap[zero] = distance(cj_index_select(cj_multihead_forward(attention, a, a, a), 1, index), cj_multihead_forward(attention, b, b, b));
    }
    assert_true(gap[1] < 1e-6 && gap[0] > 1e-2);
    cj_tensor *W = cj_randn(c, CJ_SHAPE(3, DIM), .dtype = CJ_F64), *u = cj_randn(c, CJ_SHAPE(T, DIM), .dtype = CJ_F64);
    cj_tensor *p = cj_randn(c, CJ_SHAPE(T, DIM), .dtype = CJ_F64), *both = cj_cat(CJ_TENSORS(u, p), 2, 1);
    assert_near(distance(cj_linear_op(cj_add(u, p), W, NULL), cj_linear_op(both, cj_cat(CJ_TENSORS(W, W), 2, 1), NULL)), 0, 1e-13);
    assert_near(order_task(NONE), 0.5, 0); /* (a, b) and (b, a) get one answer, which is right for one of them */
    for (how h = ADDED; h <= NAIVE; h++) assert_near(order_task(h), 1, 0);
}

/* pos.learned: gradients to the positions used only, all rows different, order learned, more than the table has is an error */
static void pos_learned(void **state)
{
    (void)state;
    enum { MOST = 6, T = 4 };
    cj_module *table = cj_learned_positions_layer(c, MOST, DIM);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, T, DIM)), *w = weight(table), *g;
    assert_near(distance(cj_forward(table, x), cj_add(x, cj_slice(w, 0, 0, T, 1))), 0, 0);
    assert_true(cj_grad(cj_sum(cj_square(cj_forward(table, x))), &w, 1, &g));
    double *v = values_of(cj_sum(cj_abs(g), .axes = CJ_AXIS(1)));
    for (int t = 0; t < MOST; t++) assert_true(t < T ? v[t] > 0 : v[t] == 0);
    free(v);
    double *d = values_of(cj_cdist(w, w, 2));
    for (int i = 0; i < MOST * MOST; i++) assert_true(i / MOST == i % MOST || d[i] > 1e-3);
    free(d);
    assert_near(order_task(ADDED), 1, 0);
    assert_true(cj_is_poison(cj_forward(table, cj_randn(c, CJ_SHAPE(2, MOST + 1, DIM)))));
    assert_true(cj_error(c) == CJ_ESHAPE || cj_error(c) == CJ_EVALUE || cj_error(c) == CJ_EINDEX);
    assert_says(c, "7");
    assert_says(c, "6");
    cj_clear(c);
}

/* emb.lookup: the product with one-hot columns; gradients add up where a word comes twice and are 0 where it does not come */
static void emb_lookup(void **state)
{
    (void)state;
    enum { V = 7, D = 3, N = 5 };
    static const int64_t word[N] = { 2, 5, 2, 0, 2 };
    cj_tensor *E = cj_require_grad(cj_randn(c, CJ_SHAPE(V, D), .dtype = CJ_F64)), *index = cj_from_i64(c, word, CJ_SHAPE(N)), *g;
    cj_tensor *one_hot = cj_cast(cj_one_hot(index, V), CJ_F64), *X = cj_embedding(E, index);
    assert_near(distance(X, cj_matmul(one_hot, E)), 0, 0);
    cj_tensor *seed = cj_randn(c, CJ_SHAPE(N, D), .dtype = CJ_F64);
    assert_true(cj_grad(X, &E, 1, &g, .seed = seed));
    double want[V * D] = { 0 }, *s = values_of(seed), *got = values_of(g);
    for (int i = 0; i < N * D; i++) want[word[i / D] * D + i % D] += s[i];
    for (int i = 0; i < V * D; i++) assert_near(got[i], want[i], 1e-15);
    for (int v = 0; v < V; v++)
        if (v != 0 && v != 2 && v != 5)
            for (int e = 0; e < D; e++) assert_true(got[v * D + e] == 0);
    free(s), free(got);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(pos_combine), TEST(pos_learned), TEST(emb_lookup) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
