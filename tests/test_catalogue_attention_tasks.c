/* Catalogue rows of attention at work: between the places of a feature map, where heads look, functions of sets. */
#include "reader.h"

TEST_CONTEXT(.threads = 1, .seed = 91);

static cj_tensor *own(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }

/* ---- feature maps ------------------------------------------------------------------------------------------------------------------------------------------ */

enum { SIDE = 8, IMAGES = 32 };

/* Noise with a plus (class 0) or a cross (class 1) of three pixels in one of the corners; *corner its number. */
static cj_sequences corners(int64_t *corner)
{
    static float v[IMAGES * SIDE * SIDE];
    static int64_t y[IMAGES];
    cj_to_f32(cj_mul_scalar(cj_randn(c, CJ_SHAPE(IMAGES * SIDE * SIDE)), 0.2), v, IMAGES * SIDE * SIDE);
    cj_to_i64(cj_randint(c, 0, 4, CJ_SHAPE(IMAGES)), corner, IMAGES);
    cj_to_i64(cj_randint(c, 0, 2, CJ_SHAPE(IMAGES)), y, IMAGES);
    for (int i = 0; i < IMAGES; i++)
        for (int k = 0; k < 9; k++) {
            int64_t row = k / 3 + (corner[i] / 2 ? SIDE - 3 : 0), column = k % 3 + (corner[i] % 2 ? SIDE - 3 : 0);
            if (k == 4 || (k % 2 == 1) == (y[i] == 0)) v[(i * SIDE + row) * SIDE + column] += 1;
        }
    return (cj_sequences){ cj_from_f32(c, v, CJ_SHAPE(IMAGES, 1, SIDE, SIDE)), cj_from_i64(c, y, CJ_SHAPE(IMAGES)) };
}

typedef struct finder {
    cj_module *all, *conv, *attention, *head;
} finder;

/* The answer is read at one place of the map, in the middle, which sees no corner but through attention. */
static cj_tensor *look(finder *f, cj_tensor *x)
{
    cj_tensor *map = cj_forward(f->attention, cj_relu(cj_forward(f->conv, x)));
    return cj_forward(f->head, cj_contiguous(cj_select(cj_select(map, 2, SIDE / 2), 2, SIDE / 2)));
}

static cj_tensor *finder_loss(void *user, int step)
{
    (void)step;
    int64_t corner[IMAGES];
    cj_sequences q = corners(corner);
    return cj_cross_entropy(look(user, q.x), q.y);
}

/* attn.conv-features */
static void attn_conv_features(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int relu = 0; relu < 2; relu++) { /* self-attention of the places as a list, by hand */
        cj_module *m = cj_map_attention_layer(c, 5, 3, 4, relu);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 5, 3, 4)), *h = cj_transpose(cj_reshape(x, CJ_SHAPE(2, 5, 12)), 1, 2), *y = cj_forward(m, x);
        cj_tensor *q = cj_matmul(h, cj_t(own(m, "query"))), *k = cj_matmul(h, cj_t(own(m, "key"))),
                  *v = cj_matmul(h, cj_t(own(m, "value")));
        if (relu) q = cj_relu(q), k = cj_relu(k), v = cj_relu(v);
        cj_tensor *alpha = cj_softmax(cj_matmul(q, cj_t(k)), -1), *by_hand = cj_transpose(cj_matmul(alpha, v), 1, 2);
        assert_near(distance(y, cj_reshape(cj_contiguous(by_hand), CJ_SHAPE(2, 4, 3, 4))), 0, 1e-6);
        assert_near(distance(cj_map_attention_weights(m, x), alpha), 0, 1e-6);
    }
    finder f = { .all = holder(c) };
    f.conv = cj_module_add(f.all, "conv", cj_conv_layer(c, 1, 8, CJ_SHAPE(3, 3), .conv = { .border = CJ_SAME }));
    f.attention = cj_module_add(f.all, "attention", cj_map_attention_layer(c, 8, 8, 8, false));
    f.head = cj_module_add(f.all, "head", cj_linear(c, 8, 2));
    train_steps(c, cj_adam(cj_module_params(f.all), .lr = 0.01), 300, finder_loss, &f);
    int64_t corner[IMAGES], found[IMAGES];
    cj_sequences q = corners(corner);
    double right = cj_accuracy(look(&f, q.x), q.y);
    cj_tensor *map = cj_map_attention_weights(f.attention, cj_relu(cj_forward(f.conv, q.x)));
    map = cj_reshape(cj_contiguous(cj_select(map, 1, SIDE * SIDE / 2 + SIDE / 2)),
                     CJ_SHAPE(IMAGES, 1, SIDE, SIDE)); /* where the middle looks */
    cj_tensor *shares =
        cj_reshape(cj_mul_scalar(cj_avg_pool(map, .kernel = SIDE / 2), SIDE * SIDE / 4.0), CJ_SHAPE(IMAGES, 4)); /* of each quarter */
    cj_to_i64(cj_argmax(shares, .axes = CJ_AXIS(1)), found, IMAGES);
    int hits = 0;
    for (int i = 0; i < IMAGES; i++) hits += found[i] == corner[i];
    double share = cj_item(cj_mean(cj_max(shares, .axes = CJ_AXIS(1))));
    print_message("shape in a corner: %.3f right; the middle looks there in %d of %d images, with %.2f of its weight\n", right, hits,
                  IMAGES, share);
    assert_true(right >= 0.95 && hits >= IMAGES - 2 && share > 0.6); /* a quarter would be chance */
    assert_poisoned(CJ_ESHAPE, "MapAttention: input [2, 5]", cj_forward(f.attention, cj_zeros(c, CJ_SHAPE(2, 5), CJ_F32)));
    assert_refused(CJ_EVALUE, "map_attention layer: 0 channels", cj_map_attention_layer(c, 0, 1, 1, false));
    cj_scope_close(s);
}

/* ---- where heads look ----------------------------------------------------------------------------------------------------------------------------------------- */

static void weights_of_heads(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 2, Q = 4, K = 6, D = 8, HEADS = 2 };
    cj_module *m = cj_multihead_attention(c, D, HEADS);
    cj_tensor *q = cj_randn(c, CJ_SHAPE(N, Q, D)), *k = cj_randn(c, CJ_SHAPE(N, K, D));
    cj_tensor *mask = cj_ne_scalar(cj_randint(c, 0, 3, CJ_SHAPE(N, 1, Q, K)), 0);
    cj_tensor *w = cj_multihead_weights(m, q, k, .mask = mask);
    assert_near(distance(cj_sum(w, .axes = CJ_AXIS(-1)), cj_ones(c, CJ_SHAPE(N, HEADS, Q), CJ_F32)), 0, 1e-6);
    assert_near(cj_item(cj_max(cj_masked_fill(w, mask, 0))), 0, 0);
    /* the layer's result from them: heads side by side of w·v, then the last map */
    cj_tensor *wv = cj_slice(own(m, "in_proj_weight"), 0, 2 * D, 3 * D, 1), *bv = cj_slice(own(m, "in_proj_bias"), 0, 2 * D, 3 * D, 1);
    cj_tensor *v = cj_transpose(cj_reshape(cj_linear_op(k, wv, bv), CJ_SHAPE(N, K, HEADS, D / HEADS)), 1, 2);
    cj_tensor *y = cj_forward(cj_module_child(m, 0), cj_reshape(cj_transpose(cj_matmul(w, v), 1, 2), CJ_SHAPE(N, Q, D)));
    assert_near(distance(y, cj_multihead_forward(m, q, k, k, .mask = mask)), 0, 1e-6);
    cj_tensor *causal = cj_multihead_weights(m, k, k, .causal = true);
    assert_near(cj_item(cj_max(cj_abs(cj_triu(causal, 1)))), 0, 0);
    assert_ok(c);
    cj_kv_cache cache = cj_kv_cache_new(m, N, 4);
    assert_poisoned(CJ_ESHAPE, "multihead_weights: query [2, 4, 8] and key [2, 4, 4]", cj_multihead_weights(m, q, cj_slice(q, 2, 0, 4, 1)));
    assert_poisoned(CJ_EVALUE, "keys in a cache are not seen", cj_multihead_weights(m, q, k, .cache = &cache));
    cj_kv_cache_free(&cache);
    cj_scope_close(s);
}

/* ---- functions of sets ------------------------------------------------------------------------------------------------------------------------------------------ */

enum {
    THINGS = 6,
    MOST = 8,
    SETS = 64
}; /* kinds of things; sets are learnt from with 1, 2, 3, 5, 6 and 8 of them, and asked for with 4 and 7 */
typedef enum { COUNT, SUM, MAXIMUM } question;

/* x i64 [SETS, room]: n things, then THINGS for none; y [SETS, 1]: how many are of kind 0, the sum of the kinds, the largest. */
static cj_sequences sets(question what, int64_t room, int64_t n)
{
    cj_tensor *x = cj_randint(c, 0, THINGS, CJ_SHAPE(SETS, n)), *y;
    if (what == COUNT) y = cj_sum(cj_cast(cj_eq_scalar(x, 0), CJ_I64), .axes = CJ_AXIS(1), .keepdim = true);
    else if (what == SUM) y = cj_sum(x, .axes = CJ_AXIS(1), .keepdim = true);
    else y = cj_max(x, .axes = CJ_AXIS(1), .keepdim = true);
    if (room > n) x = cj_cat((cj_tensor *[]){ x, cj_full(c, THINGS, CJ_SHAPE(SETS, room - n), CJ_I64) }, 2, 1);
    return (cj_sequences){ x, cj_cast(y, CJ_F32) };
}

/* rho(sum over i of phi(x_i)); or, as the other way, a network of all things in their order. */
typedef struct set_function {
    cj_module *all, *phi, *rho;
    question what;
    bool ordered;
    bool augmented; /* the things of every set in another order in every step */
} set_function;

static cj_tensor *of_set(set_function *f, cj_tensor *x)
{
    cj_tensor *h = cj_forward(f->phi, x); /* [SETS, room, 16] */
    if (f->ordered) return cj_forward(f->rho, cj_flatten(h, 1));
    cj_tensor *there = cj_unsqueeze(cj_cast(cj_lt_scalar(x, THINGS), CJ_F32), 2);
    /* the sum in f64, rounded once: the same bits in every order */
    return cj_forward(f->rho, cj_cast(cj_sum(cj_cast(cj_mul(h, there), CJ_F64), .axes = CJ_AXIS(1)), CJ_F32));
}

static set_function set_function_new(question what, bool ordered)
{
    set_function f = { .all = holder(c), .what = what, .ordered = ordered };
    f.phi = cj_module_add(f.all, "phi", cj_embedding_layer(c, THINGS + 1, 16));
    f.rho =
        cj_module_add(f.all, "rho", cj_sequential(c, cj_linear(c, ordered ? 16 * MOST : 16, 64), cj_relu_layer(c), cj_linear(c, 64, 1)));
    return f;
}

/* The same few sets of each size in all steps. */
static cj_tensor *set_loss(void *user, int step)
{
    set_function *f = user;
    static const int64_t sizes[] = { 1, 2, 3, 5, 6, 8 };
    const int64_t n = sizes[step % 6];
    cj_rng_state now = cj_rng_get(c), fixed = { .seed = 92 };
    fixed.call[CJ_STREAM_USER] = (uint64_t)n;
    cj_rng_set(c, fixed);
    cj_sequences q = sets(f->what, MOST, n);
    cj_rng_set(c, now);
    if (f->augmented) {
        cj_tensor *order = cj_argsort(cj_rand(c, CJ_SHAPE(SETS, MOST)), 1);
        q.x = cj_gather(q.x, 1, order);
    }
    return cj_mse_loss(of_set(f, q.x), q.y);
}

static double set_error(set_function *f, int64_t room, int64_t n)
{
    cj_scope s = cj_scope_open(c);
    cj_sequences q = sets(f->what, room, n);
    double e = cj_item(cj_mean(cj_abs(cj_sub(of_set(f, q.x), q.y))));
    cj_scope_close(s);
    return e;
}

/* attn.deepsets */
static void attn_deepsets(void **state)
{
    (void)state;
    static const char *const names[] = { "count", "sum", "maximum" };
    for (int what = COUNT; what <= MAXIMUM; what++) {
        cj_scope s = cj_scope_open(c);
        set_function f = set_function_new((question)what, false), mlp = set_function_new((question)what, true);
        cj_sequences q = sets((question)what, MOST, MOST);
        cj_tensor *order = cj_from_i64(c, (int64_t[]){ 3, 5, 0, 7, 1, 4, 6, 2 }, CJ_SHAPE(MOST)), *moved = cj_index_select(q.x, 1, order);
        assert_true(same_bits(of_set(&f, q.x), of_set(&f, moved)));
        assert_true(distance(of_set(&mlp, q.x), of_set(&mlp, moved)) > 1e-3);
        double error[2], moves[2]; /* on sizes never seen; when things change places */
        for (int k = 0; k < 2; k++) {
            set_function *g = k ? &mlp : &f;
            g->augmented = k == 1;
            train_steps(c, cj_adam(cj_module_params(g->all), .lr = 0.003), 1500, set_loss, g);
            error[k] = fmax(set_error(g, MOST, 4), set_error(g, MOST, 7));
            moves[k] = distance(of_set(g, q.x), of_set(g, moved));
        }
        print_message("%s: error %.3f on sets of 4 and 7; a network of things in their order, shown every order, %.3f, and it changes by "
                      "%.3f with the order\n",
                      names[what], error[0], error[1], moves[1]);
        assert_true(error[0] < 0.35 && error[0] < error[1] && moves[0] == 0 && moves[1] > 0.01);
        cj_scope_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(attn_conv_features), cmocka_unit_test(weights_of_heads),
                                        cmocka_unit_test(attn_deepsets) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
