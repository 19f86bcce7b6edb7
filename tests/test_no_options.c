/* Functions without options: NULL, as a caller from C++ or another language passes it, means what options that say nothing mean: the same bits, or the same error. */
#include "support.h"

TEST_CONTEXT(.seed = 17, .threads = 1);

/* What the last call said, and nothing is left of it. */
static void said(char *words)
{
    snprintf(words, 400, "%s", cj_message(c));
    char *line = strstr(words, " ("); /* the caller's line, which only the macros know */
    if (line) *line = 0;
    cj_clear(c);
    cj_seed(c, 5);
}

static void same(const char *name, cj_tensor *a, cj_tensor *b, const char *first, const char *second)
{
    if (strcmp(first, second) != 0) fail_msg("%s: \"%s\" without options, \"%s\" with empty ones", name, first, second);
    if (!*first && !same_bits(a, b)) fail_msg("%s: other values without options than with empty ones", name);
}

#define SAME(f, ...)                                                                                                                       \
    do {                                                                                                                                   \
        char first[400], second[400];                                                                                                      \
        said(first);                                                                                                                       \
        cj_tensor *a = (f)(__VA_ARGS__, NULL);                                                                                             \
        said(first);                                                                                                                       \
        cj_tensor *b = f(__VA_ARGS__);                                                                                                     \
        said(second);                                                                                                                      \
        same(#f, a, b, first, second);                                                                                                     \
    } while (0)
/* Of results in a struct, `part` is compared. */
#define SAME_PART(f, part, ...)                                                                                                            \
    do {                                                                                                                                   \
        char first[400], second[400];                                                                                                      \
        cj_tensor *a = (f)(__VA_ARGS__, NULL).part;                                                                                        \
        said(first);                                                                                                                       \
        cj_tensor *b = f(__VA_ARGS__).part;                                                                                                \
        said(second);                                                                                                                      \
        same(#f, a, b, first, second);                                                                                                     \
    } while (0)

static void operators(void **unused)
{
    (void)unused;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 4)), *y = cj_randn(c, CJ_SHAPE(3, 4)), *p = cj_exp(cj_randn(c, CJ_SHAPE(3, 4))),
              *sign = cj_sign(cj_randn(c, CJ_SHAPE(3, 4))), *image = cj_randn(c, CJ_SHAPE(2, 3, 8, 8)),
              *pairs = cj_randn(c, CJ_SHAPE(3, 8, 2));
    SAME(cj_sum, x);
    SAME(cj_mean, x);
    SAME(cj_prod, x);
    SAME(cj_max, x);
    SAME(cj_min, x);
    SAME(cj_all, x);
    SAME(cj_any, x);
    SAME(cj_argmin, x);
    SAME(cj_argmax, x);
    SAME(cj_argsort, x, 1);
    SAME(cj_norm, x, 2);
    SAME(cj_cov, x);
    SAME_PART(cj_sort, values, x, 0);
    SAME_PART(cj_topk, values, x, 2, 1);
    SAME(cj_gelu, x);
    SAME(cj_hardshrink, x);
    SAME(cj_heaviside, x);
    SAME(cj_l1_loss, x, y);
    SAME(cj_squared_loss, x, y);
    SAME(cj_mse_loss, x, y);
    SAME(cj_perceptron_loss, x, sign);
    SAME(cj_soft_margin_loss, x, sign);
    SAME(cj_zero_one_loss, x, sign);
    SAME(cj_exponential_loss, x, sign);
    SAME(cj_hinge_embedding_loss, x, sign);
    SAME(cj_margin_ranking_loss, x, y, sign);
    SAME(cj_gaussian_scale_nll_loss, x, y, p);
    SAME(cj_laplace_nll_loss, x, y, p);
    SAME(cj_gumbel_nll_loss, x, y, p);
    SAME(cj_distillation_loss, x, y, cj_from_i64(c, (int64_t[]){ 0, 3, 1 }, CJ_SHAPE(3)));
    SAME(cj_avg_pool, image);
    SAME(cj_softmax_pool, image, 1);
    SAME_PART(cj_min_pool, value, image);
    SAME_PART(cj_max_pool, value, image);
    SAME(cj_pad, x, CJ_SHAPE(1), CJ_SHAPE(2));
    SAME(cj_conv, image, cj_randn(c, CJ_SHAPE(5, 3, 3, 3)), NULL);
    SAME(cj_conv_transpose, image, cj_randn(c, CJ_SHAPE(3, 5, 3, 3)), NULL);
    SAME(cj_embedding, x, cj_from_i64(c, (int64_t[]){ 2, 0 }, CJ_SHAPE(2)));
    SAME(cj_scatter_reduce, x, 0, cj_zeros(c, CJ_SHAPE(3, 4), CJ_I64), y, CJ_COMBINE_SUM);
    SAME(cj_fft, pairs);
    SAME(cj_ifft, pairs);
    SAME(cj_irfft, pairs);
    SAME(cj_rfft, x);
    SAME(cj_fft_convolve, x, y);
    SAME(cj_window, c, CJ_WINDOW_HANN, 9);
    SAME(cj_mmd, x, y);
    SAME(cj_attention, cj_randn(c, CJ_SHAPE(1, 2, 5, 4)), cj_randn(c, CJ_SHAPE(1, 2, 6, 4)), cj_randn(c, CJ_SHAPE(1, 2, 6, 4)));
    cj_tensor *square = cj_matmul(x, cj_t(x)), *even = cj_add(square, cj_eye(c, 3, CJ_F32));
    SAME(cj_cholesky, even);
    SAME(cj_matrix_rank, x);
    SAME(cj_pinv, x);
    SAME(cj_null_space, x);
    SAME(cj_lstsq, cj_t(x), cj_randn(c, CJ_SHAPE(4, 1)));
    SAME(cj_solve_triangular, cj_tril(even, 0), cj_randn(c, CJ_SHAPE(3, 1)));
    SAME(cj_rand, c, CJ_SHAPE(5));
    SAME(cj_randn, c, CJ_SHAPE(5));
    SAME(cj_bernoulli, c, 0.4, CJ_SHAPE(40));
    SAME(cj_exponential, c, 2, CJ_SHAPE(5));
    SAME(cj_uniform, c, -1, 2, CJ_SHAPE(5));
    SAME(cj_normal, c, 1, 2, CJ_SHAPE(5));
    cj_tensor *steps = cj_randn(c, CJ_SHAPE(4, 2, 3)), *wi = cj_randn(c, CJ_SHAPE(15, 3)), *wh = cj_randn(c, CJ_SHAPE(15, 5));
    SAME_PART(cj_gru, y, steps, wi, wh, NULL, NULL);
}

/* The same parameters, and the same results. */
#define SAME_LAYER(x, f, ...)                                                                                                              \
    do {                                                                                                                                   \
        char first[400], second[400];                                                                                                      \
        said(first);                                                                                                                       \
        cj_tensor *a = cj_forward((f)(__VA_ARGS__, NULL), x);                                                                              \
        said(first);                                                                                                                       \
        cj_tensor *b = cj_forward(f(__VA_ARGS__), x);                                                                                      \
        said(second);                                                                                                                      \
        same(#f, a, b, first, second);                                                                                                     \
    } while (0)

static void layers(void **unused)
{
    (void)unused;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 4)), *image = cj_randn(c, CJ_SHAPE(2, 4, 8, 8)), *text = cj_randn(c, CJ_SHAPE(2, 5, 4));
    SAME_LAYER(x, cj_linear, c, 4, 6);
    SAME_LAYER(x, cj_masked_linear, c, cj_ones(c, CJ_SHAPE(6, 4), CJ_F32));
    SAME_LAYER(x, cj_dropout_layer, c, 0.5);
    SAME_LAYER(x, cj_layer_norm_layer, c, 4);
    SAME_LAYER(x, cj_rms_norm_layer, c, 4);
    SAME_LAYER(x, cj_whiten_layer, c, 4);
    SAME_LAYER(x, cj_activation_layer, c, "gelu");
    SAME_LAYER(image, cj_batch_norm_layer, c, 4);
    SAME_LAYER(image, cj_group_norm_layer, c, 2, 4);
    SAME_LAYER(image, cj_instance_norm_layer, c, 4);
    SAME_LAYER(image, cj_conv_layer, c, 4, 6, CJ_SHAPE(3, 3));
    SAME_LAYER(image, cj_conv_transpose_layer, c, 4, 6, CJ_SHAPE(3, 3));
    SAME_LAYER(image, cj_separable_conv_layer, c, 4, 6, CJ_SHAPE(3, 3));
    SAME_LAYER(image, cj_locally_connected_layer, c, 4, 2, CJ_SHAPE(8, 8), CJ_SHAPE(3, 3));
    SAME_LAYER(image, cj_avg_pool_layer, c);
    SAME_LAYER(image, cj_max_pool_layer, c);
    SAME_LAYER(image, cj_min_pool_layer, c);
    SAME_LAYER(image, cj_softmax_pool_layer, c, 1, false);
    SAME_LAYER(image, cj_upsample_layer, c);
    SAME_LAYER(cj_from_i64(c, (int64_t[]){ 2, 0 }, CJ_SHAPE(2)), cj_embedding_layer, c, 5, 3);
    SAME_LAYER(text, cj_rnn_layer, c, 4, 3);
    SAME_LAYER(text, cj_lstm_layer, c, 4, 3);
    SAME_LAYER(text, cj_gru_layer, c, 4, 3);
    SAME_LAYER(text, cj_light_gru_layer, c, 4, 3);
    cj_module *heads = (cj_multihead_attention)(c, 4, 2, NULL), *encoder = (cj_transformer_encoder_layer)(c, 4, 2, NULL);
    SAME(cj_multihead_forward, heads, text, text, text);
    SAME(cj_transformer_encoder_forward, encoder, text);
    SAME_LAYER(text, cj_transformer_encoder_layer, c, 4, 2);
}

typedef cj_optim *optim_fn(cj_params *p);
#define RULE(name)                                                                                                                         \
    static cj_optim *none_##name(cj_params *p) { return (cj_##name)(p, NULL); }                                                            \
    static cj_optim *empty_##name(cj_params *p) { return cj_##name(p); }
#define RULES(X) X(sgd) X(adam) X(adamw) X(adagrad) X(rmsprop) X(adamax) X(nadam) X(sign_sgd) X(lion) X(adadelta) X(radam) X(rprop) X(asgd)
RULES(RULE)

/* The weights after three steps. */
static cj_tensor *trained(optim_fn *make)
{
    cj_seed(c, 5);
    cj_module *net = cj_linear(c, 4, 2);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(6, 4)), *w = cj_params_at(cj_module_params(net), 0);
    cj_optim *o = make(cj_module_params(net));
    for (int i = 0; i < 3; i++) cj_minimise(o, cj_mean(cj_square(cj_forward(net, x))));
    return cj_clone(w);
}

static void optimisers(void **unused)
{
    (void)unused;
#define PAIR(name) { #name, none_##name, empty_##name },
    static const struct {
        const char *name;
        optim_fn *none, *empty;
    } rules[] = { RULES(PAIR) };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char first[400], second[400];
        cj_tensor *a = trained(rules[i].none);
        said(first);
        cj_tensor *b = trained(rules[i].empty);
        said(second);
        same(rules[i].name, a, b, first, second);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(operators), cmocka_unit_test(layers), cmocka_unit_test(optimisers) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
