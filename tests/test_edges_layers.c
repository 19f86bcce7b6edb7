/* The edges of attention, recurrence, normalisation and losses: each condition of an argument check alone, default options, NULL and poison
 * among good arguments, tensors without elements, definitions in place of fused kernels. */
#include "ops/compose.h"
#include "ops/ops.h"
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

#define F(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
#define D(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_F64)
#define I(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_I64)
#define R(...) cj_rand(c, CJ_SHAPE(__VA_ARGS__))
#define POINT cj_scalar(c, 1)
#define POISON (c->poison)

/* A case in a scope of its own; a differentiable function of in[] and user. */
#define CASE(name)                                                                                                                         \
    static void name##_body(void);                                                                                                         \
    static void name(void **state)                                                                                                         \
    {                                                                                                                                      \
        (void)state;                                                                                                                       \
        cj_scope s = cj_scope_open(c);                                                                                                     \
        name##_body();                                                                                                                     \
        cj_scope_close(s);                                                                                                                 \
    }                                                                                                                                      \
    static void name##_body(void)
#define FUNCTION(name, expression)                                                                                                         \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)user, (void)n, expression; }    \
    _Static_assert(1, "takes the semicolon")
#define SHAPE(text, ...) assert_poisoned(CJ_ESHAPE, text, __VA_ARGS__)
#define VALUE(text, ...) assert_poisoned(CJ_EVALUE, text, __VA_ARGS__)
#define DTYPE(text, ...) assert_poisoned(CJ_EDTYPE, text, __VA_ARGS__)
#define STALE(text, ...) assert_poisoned(CJ_ESTALE, text, __VA_ARGS__)

/* ---- every function: defaults, an error before it, poison and NULL as arguments ------------------------------------------------------ */

/* name; arguments that must be there (bit i); good arguments x, y, z; the call, and the same without options. */
#define CALLS(X)                                                                                                                           \
    X(attention, 7, R(2, 3), R(2, 3), R(2, 3), cj_attention(x, y, z), (cj_attention)(x, y, z, NULL))                                       \
    X(attention_packed, 1, R(2, 6), NULL, NULL, cj_attention_packed(x, 2), (cj_attention_packed)(x, 2, NULL))                              \
    X(rnn, 5, R(2, 1, 4), R(4, 4), R(4, 4), cj_rnn(x, y, z, NULL, NULL).y, (cj_rnn)(x, y, z, NULL, NULL, NULL).y)                          \
    X(lstm, 7, R(2, 1, 4), R(16, 4), R(16, 4), cj_lstm(x, y, z, NULL, NULL).c_n, (cj_lstm)(x, y, z, NULL, NULL, NULL).c_n)                 \
    X(softmax, 1, R(2, 3), NULL, NULL, cj_softmax(x, -1), cj_softmax(x, 1))                                                                \
    X(batch_norm, 1, R(2, 3), R(3), R(3), cj_batch_norm(x, y, z), (cj_batch_norm)(x, y, z, NULL))                                          \
    X(group_norm, 1, R(2, 4), R(4), R(4), cj_group_norm(x, 2, y, z, 0), cj_group_norm(x, 2, y, z, 1e-5))                                   \
    X(instance_norm, 1, R(2, 3, 4), R(3), R(3), cj_instance_norm(x, y, z, 0), cj_instance_norm(x, y, z, 1e-5))                             \
    X(rms_norm, 1, R(2, 3), R(3), NULL, cj_rms_norm(x, y, 0), cj_rms_norm(x, y, 0x1p-23))                                                  \
    X(local_response_norm, 1, R(2, 3), NULL, NULL, cj_local_response_norm(x, 2), (cj_local_response_norm)(x, 2, NULL))                     \
    X(weight_norm, 3, R(2, 3), R(2), NULL, cj_weight_norm(x, y, 0), cj_weight_norm(x, y, -2))                                              \
    X(spectral_norm, 3, R(1, 3), cj_keep(cj_ones(c, CJ_SHAPE(1), CJ_F32)), NULL, cj_spectral_norm(x, y).value,                             \
      (cj_spectral_norm)(x, y, NULL).value)                                                                                                \
    X(standardise, 1, R(4, 3), NULL, NULL, cj_standardise(x).std, (cj_standardise)(x, NULL).std)                                           \
    X(whiten, 1, R(4, 2), NULL, NULL, cj_whiten(x).value, (cj_whiten)(x, NULL).value)                                                      \
    X(hardtanh, 1, R(3), NULL, NULL, cj_hardtanh(x), (cj_hardtanh)(x, NULL))                                                               \
    X(leaky_relu, 1, R(3), NULL, NULL, cj_leaky_relu(x), (cj_leaky_relu)(x, NULL))                                                         \
    X(prelu, 3, R(2, 3), R(3), NULL, cj_prelu(x, y), cj_prelu(x, cj_clone(y)))                                                             \
    X(softshrink, 1, R(3), NULL, NULL, cj_softshrink(x), (cj_softshrink)(x, NULL))                                                         \
    X(elu, 1, R(3), NULL, NULL, cj_elu(x), (cj_elu)(x, NULL))                                                                              \
    X(celu, 1, R(3), NULL, NULL, cj_celu(x), (cj_celu)(x, NULL))                                                                           \
    X(softplus_beta, 1, R(3), NULL, NULL, cj_softplus_beta(x), (cj_softplus_beta)(x, NULL))                                                \
    X(logit, 1, R(3), NULL, NULL, cj_logit(x), (cj_logit)(x, NULL))                                                                        \
    X(glu, 1, R(3, 4), NULL, NULL, cj_glu(x, -1), cj_glu(x, 1))                                                                            \
    X(maxout, 1, R(3, 4), NULL, NULL, cj_maxout(x, -1, 2), cj_maxout(x, 1, 2))                                                             \
    X(softmin, 1, R(3), NULL, NULL, cj_softmin(x, 0), cj_softmin(x, -1))                                                                   \
    X(softmax_temperature, 1, R(3), NULL, NULL, cj_softmax_temperature(x, 0, 2), cj_softmax_temperature(x, -1, 2))                         \
    X(gumbel_softmax, 1, R(3), NULL, NULL, cj_gumbel_softmax(x, 0), (cj_gumbel_softmax)(x, 0, NULL))                                       \
    X(cross_entropy, 3, R(2, 3), I(2), NULL, cj_cross_entropy(x, y), (cj_cross_entropy)(x, y, NULL))                                       \
    X(nll_loss, 3, R(2, 3), I(2), NULL, cj_nll_loss(x, y), (cj_nll_loss)(x, y, NULL))                                                      \
    X(mse_loss, 3, R(3), R(3), NULL, cj_mse_loss(x, y), (cj_mse_loss)(x, y, NULL))                                                         \
    X(huber_loss, 3, R(3), R(3), NULL, cj_huber_loss(x, y), (cj_huber_loss)(x, y, NULL))                                                   \
    X(smooth_l1_loss, 3, R(3), R(3), NULL, cj_smooth_l1_loss(x, y), (cj_smooth_l1_loss)(x, y, NULL))                                       \
    X(pinball_loss, 3, R(3), R(3), NULL, cj_pinball_loss(x, y, 0.2), (cj_pinball_loss)(x, y, 0.2, NULL))                                   \
    X(hinge_loss, 3, R(3), R(3), NULL, cj_hinge_loss(x, y), (cj_hinge_loss)(x, y, NULL))                                                   \
    X(bce_with_logits, 3, R(3), R(3), NULL, cj_bce_with_logits(x, y), (cj_bce_with_logits)(x, y, NULL))                                    \
    X(bce_loss, 3, R(3), R(3), NULL, cj_bce_loss(x, y), (cj_bce_loss)(x, y, NULL))                                                         \
    X(kl_div, 3, R(3), R(3), NULL, cj_kl_div(x, y), (cj_kl_div)(x, y, NULL))                                                               \
    X(multi_margin_loss, 3, R(2, 3), I(2), NULL, cj_multi_margin_loss(x, y), (cj_multi_margin_loss)(x, y, NULL))                           \
    X(soft_cross_entropy, 3, R(2, 3), R(2, 3), NULL, cj_soft_cross_entropy(x, y), (cj_soft_cross_entropy)(x, y, NULL))                     \
    X(multilabel_soft_margin_loss, 3, R(2, 3), R(2, 3), NULL, cj_multilabel_soft_margin_loss(x, y),                                        \
      (cj_multilabel_soft_margin_loss)(x, y, NULL))                                                                                        \
    X(cosine_embedding_loss, 7, R(2, 3), R(2, 3), R(2), cj_cosine_embedding_loss(x, y, z), (cj_cosine_embedding_loss)(x, y, z, NULL))      \
    X(triplet_margin_loss, 7, R(2, 3), R(2, 3), R(2, 3), cj_triplet_margin_loss(x, y, z), (cj_triplet_margin_loss)(x, y, z, NULL))         \
    X(multivariate_gaussian_nll_loss, 7, R(3, 2), R(3, 2), R(2, 2), cj_multivariate_gaussian_nll_loss(x, y, z),                            \
      (cj_multivariate_gaussian_nll_loss)(x, y, z, NULL))                                                                                  \
    X(poisson_nll_loss, 3, R(3), R(3), NULL, cj_poisson_nll_loss(x, y), (cj_poisson_nll_loss)(x, y, NULL))                                 \
    X(exponential_family_nll, 3, R(3), R(3), NULL, cj_exponential_family_nll(x, y, CJ_FAMILY_POISSON),                                     \
      (cj_exponential_family_nll)(x, y, CJ_FAMILY_POISSON, NULL))                                                                          \
    X(exponential_family_mean, 1, R(3), NULL, NULL, cj_exponential_family_mean(x, CJ_FAMILY_POISSON), cj_exp(x))

typedef cj_tensor *call_fn(cj_tensor *x, cj_tensor *y, cj_tensor *z);
#define DEFINE(name, needed, x1, y1, z1, usual, plain)                                                                                     \
    static cj_tensor *name##_usual(cj_tensor *x, cj_tensor *y, cj_tensor *z) { return (void)x, (void)y, (void)z, usual; }                  \
    static cj_tensor *name##_plain(cj_tensor *x, cj_tensor *y, cj_tensor *z) { return (void)x, (void)y, (void)z, plain; }
CALLS(DEFINE)

static void check_call(const char *name, int needed, cj_tensor *const *good, call_fn *usual, call_fn *plain)
{
    char says[96];
    cj_seed(c, 3);
    cj_tensor *a = usual(good[0], good[1], good[2]), *b = (cj_seed(c, 3), plain(good[0], good[1], good[2]));
    assert_ok(c);
    if (!same_bits(a, b)) fail_msg("%s: without options another result", name);
    cj_fail(c, CJ_EINDEX, "the first error");
    assert_ptr_equal(usual(good[0], good[1], good[2]), POISON);
    assert_ptr_equal(plain(good[0], good[1], good[2]), POISON);
    assert_error(c, CJ_EINDEX, "the first error");
    cj_clear(c);
    for (int i = 0; i < 3; i++) {
        if (!good[i]) continue;
        cj_tensor *in[3] = { good[0], good[1], good[2] };
        in[i] = POISON;
        snprintf(says, sizeof says, "%s: argument %d is the result of an earlier error that was cleared", name, i + 1);
        STALE(says, usual(in[0], in[1], in[2]));
        in[i] = NULL;
        if (cj_is_poison(usual(in[0], in[1], in[2])) != (needed >> i & 1)) fail_msg("%s: NULL for argument %d", name, i + 1);
        if (!(needed >> i & 1)) assert_ok(c);
        cj_clear(c);
    }
    assert_null(plain(NULL, NULL, NULL));
    assert_ok(c);
}

#define CHECK(name, needed, x1, y1, z1, usual, plain) check_call(#name, needed, CJ_TENSORS(x1, y1, z1), name##_usual, name##_plain);
CASE(all_calls){ CALLS(CHECK) }

/* What the header says an option that is not given means. */
CASE(documented_defaults)
{
    cj_tensor *x = cj_mul_scalar(cj_randn(c, CJ_SHAPE(40)), 2), *y = cj_randn(c, CJ_SHAPE(40)), *z = cj_randn(c, CJ_SHAPE(40));
    cj_tensor *sign = cj_sign(y), *rows[] = { cj_reshape(x, CJ_SHAPE(8, 5)), cj_reshape(y, CJ_SHAPE(8, 5)), cj_reshape(z, CJ_SHAPE(8, 5)) };
#define MEANS(usual, given)                                                                                                                \
    if (!same_bits(usual, given)) fail_msg("%s is not %s", #usual, #given)
    MEANS(cj_heaviside(cj_sub(x, x)), cj_heaviside(cj_sub(x, x), .at_zero = 1));
    MEANS(cj_hardtanh(x), cj_hardtanh(x, .low = -1, .high = 1));
    MEANS(cj_leaky_relu(x), cj_leaky_relu(x, .slope = 0.01));
    MEANS(cj_softshrink(x), cj_softshrink(x, .lambda = 0.5));
    MEANS(cj_hardshrink(x), cj_hardshrink(x, .lambda = 0.5));
    MEANS(cj_elu(x), cj_elu(x, .alpha = 1));
    MEANS(cj_celu(x), cj_celu(x, .alpha = 1));
    MEANS(cj_softplus_beta(x), cj_softplus_beta(x, .beta = 1));
    MEANS(cj_huber_loss(x, y), cj_huber_loss(x, y, .delta = 1));
    MEANS(cj_smooth_l1_loss(x, y), cj_smooth_l1_loss(x, y, .beta = 1));
    MEANS(cj_hinge_loss(x, sign), cj_hinge_loss(x, sign, .margin = 1));
    MEANS(cj_hinge_embedding_loss(x, sign), cj_hinge_embedding_loss(x, sign, .margin = 1));
    MEANS(cj_margin_ranking_loss(x, y, sign), cj_margin_ranking_loss(x, y, sign, .margin = CJ_ZERO));
    MEANS(cj_triplet_margin_loss(rows[0], rows[1], rows[2]), cj_triplet_margin_loss(rows[0], rows[1], rows[2], .margin = 1));
    MEANS(cj_local_response_norm(rows[0], 2), cj_local_response_norm(rows[0], 2, .k = 1));
    assert_ok(c);
}

/* ---- what is refused, condition by condition ----------------------------------------------------------------------------------------- */

FUNCTION(attend, cj_attention(in[0], in[1], in[2], .key_length = user));
FUNCTION(attend_packed, cj_attention_packed(in[0], 2, .key_length = user));

CASE(attention_refuses)
{
    cj_tensor *x = R(2, 3), *qkv = R(2, 6), *far = cj_full(c, 3, CJ_SCALAR, CJ_I64), *in[3] = { x, x, x }, *t[3] = { x };
    SHAPE("attention: q [2, 3], k [3], v [2, 3]; [.., T, d] expected", cj_attention(x, F(3), x));
    SHAPE("attention: q [2, 3], k [2, 3], v [3]; [.., T, d] expected", cj_attention(x, x, F(3)));
    DTYPE("attention: q is f32, k f32, v f64; the same float type expected", cj_attention(x, x, D(2, 3)));
    STALE("attention: argument 4 is the result of an earlier error", cj_attention(x, x, x, .mask = POISON));
    STALE("attention: argument 5 is the result of an earlier error", cj_attention(x, x, x, .key_length = POISON));
    SHAPE("key_length is i64 [7]; i64, 0-d or of q's 1 leading axes expected", cj_attention_packed(qkv, 2, .key_length = I(7)));
    SHAPE("attention: the mask [3, 3] does not broadcast to the scores [2, 2, 2]",
          cj_attention_packed(qkv, 2, .mask = cj_require_grad(F(3, 3))));
    /* a length that is too large is found by the kernels and by the definitions */
    assert_poisoned(CJ_EINDEX, "key_length 3 lies outside of 1 … 2", cj_attention_packed(qkv, 2, .key_length = far));
    assert_poisoned(CJ_EINDEX, "key_length 3 lies outside of 1 … 2", cj_jvp(c, attend, far, in, t, 3).value);
    assert_poisoned(CJ_EINDEX, "key_length 3 lies outside of 1 … 2", cj_jvp(c, attend_packed, far, &qkv, CJ_TENSORS(qkv), 1).value);
    assert_poisoned(CJ_EINDEX, "key_length 3 lies outside of 1 … 2",
                    cj_attention(x, x, x, .mask = cj_require_grad(F(2, 2)), .key_length = far));
}

FUNCTION(rnn_of, cj_rnn(in[0], in[1], in[1], NULL, NULL, .lengths = user).y);

CASE(recurrence_refuses)
{
    cj_tensor *x = R(2, 1, 3), *w = R(4, 3), *u = R(4, 4), *w4 = R(16, 3), *u4 = R(16, 4), *square = R(3, 3);
#define RNN(...) cj_rnn(x, w, u, NULL, NULL, __VA_ARGS__).y
#define LSTM(...) cj_lstm(x, w4, u4, NULL, NULL, __VA_ARGS__).y
#define STACK(...) cj_recurrent(CJ_LSTM, x, CJ_TENSORS(w4, u4), 2, __VA_ARGS__).y
    SHAPE("rnn: w_hh is [4]; [1, H] with 1 gates of H units expected", cj_rnn(x, w, F(4), NULL, NULL).y);
    SHAPE("lstm: w_hh is [5, 4]; [16, H] with 4 gates of H units expected", cj_lstm(x, w4, F(5, 4), NULL, NULL).h_n);
    SHAPE("rnn: w_ih is [4], [4, 3] expected", cj_rnn(x, F(4), u, NULL, NULL).y);
    SHAPE("rnn: b_ih is [4, 1], [4] expected", cj_rnn(x, w, u, F(4, 1), NULL).y);
    DTYPE("rnn: w_hh is f64, the input f32; one type expected", cj_rnn(x, w, D(4, 4), NULL, NULL).y);
    SHAPE("rnn: b_hh is [3], [4] expected", cj_rnn(x, w, u, F(4), F(3)).y);
    SHAPE("lstm: h0 is [2, 4], [1, 4] expected", LSTM(.h0 = F(2, 4)));
    SHAPE("lstm: c0 is [4], [1, 4] expected", LSTM(.c0 = F(4)));
    STALE("lstm: argument 6 is the result of an earlier error", LSTM(.h0 = POISON));
    STALE("lstm: argument 7 is the result of an earlier error", LSTM(.c0 = POISON));
    STALE("lstm: argument", LSTM(.lengths = POISON));
    STALE("lstm: argument", STACK(.h0 = POISON));
    STALE("lstm: argument", STACK(.c0 = POISON));
    SHAPE("lstm: h0 is [1, 4]; [1, N, H] expected", STACK(.h0 = F(1, 4)));
    SHAPE("lstm: c0 is [2, 1, 4]; [1, N, H] expected", STACK(.c0 = F(2, 1, 4)));
    SHAPE("lstm: c0 is [1, 1, 4]; [1, H] expected",
          cj_recurrent(CJ_LSTM, R(2, 3), CJ_TENSORS(w4, u4), 2, .h0 = F(1, 4), .c0 = F(1, 1, 4)).c_n);
    SHAPE("rnn: the input is [3]; [T, N, I] or [T, I] expected", cj_rnn(F(3), w, u, NULL, NULL).y);
    SHAPE("rnn: the input is [3]; [N, T, I] or [T, I] expected", cj_rnn(F(3), w, u, NULL, NULL, .batch_first = true).y);
    VALUE("rnn: layers, bidirectional, dropout and eval are options of stacks", RNN(.layers = 1));
    VALUE("rnn: layers, bidirectional, dropout and eval are options of stacks", RNN(.bidirectional = true));
    VALUE("rnn: layers, bidirectional, dropout and eval are options of stacks", RNN(.dropout = 0.1));
    VALUE("rnn: layers, bidirectional, dropout and eval are options of stacks", RNN(.eval = true));
    VALUE("lstm: dropout -0.5 is not a probability", STACK(.dropout = -0.5));
    VALUE("lstm: 0 weights for 1 layer; w_ih, w_hh, b_ih, b_hh of each (4)", cj_recurrent(CJ_LSTM, x, NULL, 2).c_n);
    VALUE("rnn: argument 2 is NULL", cj_recurrent(CJ_RNN, x, CJ_TENSORS(w, NULL), 2).y);
    assert_null(cj_recurrent(CJ_RNN, NULL, CJ_TENSORS(w, u), 2).y);
    assert_poisoned(CJ_EINDEX, "rnn: the length of sequence 0 is 3; 1 to 2 steps expected",
                    cj_jvp(c, rnn_of, cj_full(c, 3, CJ_SHAPE(1), CJ_I64), CJ_TENSORS(x, square), CJ_TENSORS(x, NULL), 2).value);
    cj_tensor *same = (cj_recurrent)(CJ_LSTM, x, CJ_TENSORS(w4, u4), 2, NULL).y;
    assert_true(same_bits(same, STACK(.layers = 1)));
}

CASE(normalisation_refuses)
{
    cj_tensor *x = R(4, 3), *v = F(3), *k = cj_keep(F(3));
#define BATCH(...) cj_batch_norm(x, NULL, NULL, __VA_ARGS__)
    VALUE("batch_norm: running_var is missing; both or neither", BATCH(.running_mean = k));
    VALUE("batch_norm: running_mean is missing; both or neither", BATCH(.running_var = k));
    SHAPE("batch_norm: the running_mean has shape [3, 1], [3] expected", BATCH(.running_mean = F(3, 1), .running_var = k));
    STALE("batch_norm: argument 4 is the result of an earlier error", BATCH(.running_mean = POISON, .running_var = k));
    STALE("batch_norm: argument 6 is the result of an earlier error", BATCH(.batches = POISON));
    VALUE("batch_norm: momentum -0.5 is outside 0 … 1", BATCH(.momentum = -0.5));
    DTYPE("batch_norm: the weight is f32, the input f64", cj_batch_norm(D(4, 3), v, NULL));
    SHAPE("group_norm: the input has shape [2], [N, C, ..] expected", cj_group_norm(F(2), 1, NULL, NULL, 0));
    SHAPE("instance_norm: the input has shape [2, 0, 3]", cj_instance_norm(F(2, 0, 3), NULL, NULL, 0));
    SHAPE("rms_norm: weight [3, 1] f32 does not fit input [4, 3] f32", cj_rms_norm(x, F(3, 1), 0));
    SHAPE("rms_norm: weight [3] f64 does not fit input [4, 3] f32", cj_rms_norm(x, D(3), 0));
    assert_true(cj_is_poison(cj_layer_norm(NULL, v, NULL, 0)));
    cj_clear(c);
    SHAPE("layer_norm: weight [3, 1] f32 does not fit input [4, 3] f32", cj_layer_norm(x, F(3, 1), NULL, 0));
    SHAPE("layer_norm: bias [3] f64 does not fit input [4, 3] f32", cj_layer_norm(x, v, D(3), 0));
    assert_poisoned(CJ_EINDEX, "weight_norm: axis 3 is out of range for 2 dimensions", cj_weight_norm(x, F(4), 3));
    SHAPE("weight_norm: g has shape [4, 1, 1], [4] expected for axis 0 of v [4, 3]", cj_weight_norm(x, F(4, 1, 1), 0));
    SHAPE("weight_norm: g has shape [1, 4], [4] expected for axis 0 of v [4, 3]", cj_weight_norm(x, F(1, 4), 0));
    DTYPE("spectral_norm: the input is i64, a float type expected", cj_spectral_norm(I(3, 2), k).value);
    SHAPE("spectral_norm: w [3, 0] has no elements", cj_spectral_norm(F(3, 0), k).sigma);
    SHAPE("spectral_norm: u is f32 [3, 1], floats [3] expected for w [3, 2]", cj_spectral_norm(F(3, 2), F(3, 1)).value);
    SHAPE("spectral_norm: u is i64 [3], floats [3] expected for w [3, 2]", cj_spectral_norm(F(3, 2), I(3)).value);
    VALUE("standardise: std is missing; both or neither", cj_standardise(x, .mean = v).value);
    VALUE("standardise: mean is missing; both or neither", cj_standardise(x, .std = v).mean);
    STALE("standardise: argument 2 is the result of an earlier error", cj_standardise(x, .mean = POISON, .std = v).std);
    SHAPE("standardise: std [4] does not fit the input [4, 3]", cj_standardise(x, .mean = v, .std = F(4)).value);
    SHAPE("standardise: mean [1, 4, 3] does not fit the input [4, 3]", cj_standardise(x, .mean = F(1, 4, 3), .std = v).value);
    SHAPE("standardise: mean [4, 3] does not fit the input [1, 3]", cj_standardise(F(1, 3), .mean = x, .std = v).value);
    DTYPE("standardise: the input is i64, a float type expected", cj_standardise(I(4, 3), .mean = v, .std = v).value);
    SHAPE("standardise: a 0-d input", cj_standardise(POINT).value);
    assert_poisoned(CJ_EINDEX, "standardise: axis 4 is out of range for 2 dimensions", cj_standardise(x, .axes = CJ_AXIS(4)).value);
    VALUE("standardise: 1 value of a feature in [1, 3]", cj_standardise(F(1, 3), .unbiased = true).value);
    VALUE("standardise: 0 values of a feature in [0, 3]", cj_standardise(F(0, 3)).value);
    DTYPE("whiten: the input is i64, a float type expected", cj_whiten(I(3, 2)).value);
    SHAPE("whiten: the input has shape [3, 0]", cj_whiten(F(3, 0)).matrix);
    cj_release(k);
}

CASE(activations_refuse)
{
    cj_tensor *x = R(2, 1);
    SHAPE("prelu: weight [1, 1] does not fit input [2, 1]", cj_prelu(x, F(1, 1)));
    VALUE("celu: alpha is inf, a finite number other than 0 expected", cj_celu(x, .alpha = INFINITY));
    VALUE("celu: alpha is 0, a finite number other than 0 expected", cj_celu(x, .alpha = CJ_ZERO));
    VALUE("softplus_beta: beta is inf, a positive number expected", cj_softplus_beta(x, .beta = INFINITY));
    VALUE("logit: eps is -0.1, a number in [0, 0.5] expected", cj_logit(x, .eps = -0.1));
    SHAPE("maxout: [1, 1, 1, 1, 1, 1, 1, 2] has no room for another axis", cj_maxout(F(1, 1, 1, 1, 1, 1, 1, 2), 7, 2));
    cj_fail(c, CJ_EINDEX, "the first error");
    assert_ptr_equal(cj_masked_fill(x, F(3), 1), POISON);
    assert_error(c, CJ_EINDEX, "the first error");
    cj_clear(c);
    assert_true(cj_is_poison(cj__gumbel_softmax(NULL, x, 0, NULL)));
    assert_null(cj__gumbel_softmax(NULL, NULL, 0, NULL));
}

CASE(losses_refuse)
{
    cj_tensor *x = R(2, 3), *v = R(3), *t = I(2);
    VALUE("cross_entropy: label smoothing -0.1 is outside [0, 1]", cj_cross_entropy(x, t, .label_smoothing = -0.1));
    SHAPE("cross_entropy: the weight is f32 [3, 1], a float for each of 3 classes", cj_cross_entropy(x, t, .weight = F(3, 1)));
    SHAPE("cross_entropy: the weight is i64 [3], a float for each of 3 classes", cj_cross_entropy(x, t, .weight = I(3)));
    STALE("cross_entropy: argument 3 is the result of an earlier error", cj_cross_entropy(x, t, .weight = POISON));
    SHAPE("nll_loss: scores [2, 3] do not fit targets [2, 3]", cj_nll_loss(x, I(2, 3)));
    SHAPE("nll_loss: the weight is f32 [2], a float for each of 3 classes", cj_nll_loss(x, t, .weight = F(2)));
    VALUE("mse_loss: this loss takes no weights", cj_mse_loss(v, v, .pos_weight = v));
    VALUE("pinball_loss: tau is -0.1, a number in [0, 1] expected", cj_pinball_loss(v, v, -0.1));
    VALUE("pinball_loss: tau is 1.1, a number in [0, 1] expected", cj_pinball_loss(v, v, 1.1));
    VALUE("bce_loss: pos_weight belongs to bce_with_logits", cj_bce_loss(v, v, .pos_weight = v));
    STALE("bce_loss: argument 3 is the result of an earlier error", cj_bce_loss(v, v, .weight = POISON));
    SHAPE("bce_loss: weight [1, 3] does not broadcast to input [3]", cj_bce_loss(v, v, .weight = F(1, 3)));
    SHAPE("bce_with_logits: weight [3] does not broadcast to input [1]", cj_bce_with_logits(F(1), F(1), .pos_weight = v));
    SHAPE("kl_div: [] has no first axis to divide by", cj_kl_div(POINT, POINT, .batch_mean = true));
    SHAPE("kl_div: [0, 2] has no first axis to divide by", cj_kl_div(F(0, 2), F(0, 2), .batch_mean = true));
    STALE("kl_div: argument 1 is the result of an earlier error", cj_kl_div(POISON, x, .batch_mean = true));
    VALUE("soft_cross_entropy: this loss takes no weights", cj_soft_cross_entropy(x, x, .weight = v));
    VALUE("soft_cross_entropy: this loss takes no weights", cj_soft_cross_entropy(x, x, .pos_weight = v));
    VALUE("soft_cross_entropy: label smoothing -1 is outside [0, 1]", cj_soft_cross_entropy(x, x, .label_smoothing = -1));
    SHAPE("soft_cross_entropy: input [] has no classes", cj_soft_cross_entropy(POINT, POINT));
    SHAPE("soft_cross_entropy: input [2, 0] has no classes", cj_soft_cross_entropy(F(2, 0), F(2, 0)));
    SHAPE("multilabel_soft_margin_loss: the weight is f32 [2]", cj_multilabel_soft_margin_loss(x, x, .weight = F(2)));
    VALUE("multilabel_margin_loss: argument 1 is NULL", cj_multilabel_margin_loss(NULL, I(2, 3)));
    VALUE("multilabel_margin_loss: argument 2 is NULL", cj_multilabel_margin_loss(x, NULL));
    VALUE("triplet_margin_loss: p is inf", cj_triplet_margin_loss(x, x, x, .p = INFINITY));
    SHAPE("gaussian_nll_loss: argument 1 [1, 3] does not broadcast to the target [3]", cj_gaussian_nll_loss(F(1, 3), v, v));
    SHAPE("gaussian_nll_loss: argument 3 [3] does not broadcast to the target [1]", cj_gaussian_nll_loss(F(1), F(1), v));
    cj_tensor *wrong[] = { F(3), F(3, 2), F(2, 3), F(4, 3, 3), F(1, 2, 3, 3) }; /* factors of x [2, 3] */
    for (int i = 0; i < 5; i++) SHAPE("does not fit mean [2, 3]: [.., d, d] expected", cj_multivariate_gaussian_nll_loss(x, x, wrong[i]));
    SHAPE("factor [2, 2] does not fit mean []", cj_multivariate_gaussian_nll_loss(POINT, POINT, F(2, 2)));
    VALUE("mixture_nll_loss: argument 4 is NULL", cj_mixture_nll_loss(x, x, x, NULL));
    SHAPE("mixture_nll_loss: components [], target []", cj_mixture_nll_loss(POINT, POINT, POINT, POINT));
    SHAPE("mixture_nll_loss: components [2, 3], target [2, 3]", cj_mixture_nll_loss(x, x, x, x));
    SHAPE("mixture_nll_loss: components [2, 0], target [2]", cj_mixture_nll_loss(F(2, 0), F(2, 0), F(2, 0), F(2)));
    SHAPE("mixture_nll_loss: components [2, 3], target [3]", cj_mixture_nll_loss(x, x, x, v));
    STALE("gaussian_nll_loss: argument 1 is the result of an earlier error", cj_gaussian_nll_loss(POISON, v, v));
    STALE("gaussian_nll_loss: argument 3 is the result of an earlier error", cj_gaussian_nll_loss(v, v, POISON));
    assert_true(cj_is_poison(cj_gaussian_nll_loss(v, NULL, v)));
    cj_clear(c);
    cj_fail(c, CJ_EINDEX, "the first error");
    assert_ptr_equal(cj_multilabel_margin_loss(x, x), POISON);
    assert_ptr_equal(cj_gaussian_nll_loss(v, v, v), POISON);
    assert_error(c, CJ_EINDEX, "the first error");
    cj_clear(c);
}

/* ---- values -------------------------------------------------------------------------------------------------------------------------- */

/* The gradients of y, which does not depend on x, are zeros of x's shapes. */
static void assert_zero_gradients(cj_tensor *y, cj_tensor *const *x, int n)
{
    cj_tensor *g[3];
    assert_true(cj_grad(cj_sum(y), x, n, g));
    for (int i = 0; i < n; i++) assert_true(distance(g[i], cj_zeros_like(x[i])) == 0);
}

CASE(attention_without)
{
    /* rows of size 0: all scores are 0, all weights equal */
    cj_tensor *v = R(3, 2), *mean = cj_mean(v, .axes = CJ_AXIS(0), .keepdim = true);
    assert_true(distance(cj_attention(F(4, 0), F(3, 0), v), cj_clone(cj_expand(mean, CJ_SHAPE(4, 2)))) < 1e-6);
    /* no queries */
    cj_tensor *in[3] = { cj_require_grad(R(2, 0, 3)), cj_require_grad(R(2, 4, 3)), cj_require_grad(R(2, 4, 5)) };
    cj_tensor *y = cj_attention(in[0], in[1], in[2]), *qkv = cj_require_grad(R(2, 0, 12)), *z = cj_attention_packed(qkv, 2);
    assert_int_equal(cj_size(y, 1), 0);
    assert_int_equal(cj_size(y, 2), 5);
    assert_zero_gradients(y, in, 3);
    assert_int_equal(cj_size(z, 2), 4);
    assert_zero_gradients(z, &qkv, 1);
    /* all weights dropped, through the definition too */
    cj_tensor *x = cj_require_grad(R(2, 3)), *mask = cj_require_grad(R(2, 2));
    cj_tensor *none = cj_attention(x, x, x, .mask = mask, .dropout = 1);
    assert_true(distance(none, F(2, 3)) == 0 && distance(cj_attention(x, x, x, .dropout = 1), F(2, 3)) == 0);
    assert_zero_gradients(none, CJ_TENSORS(x, mask), 2);
}

FUNCTION(packed_with_mask, cj_attention_packed(in[0], 2, .mask = in[1]));

/* A mask that is learnt, for packed queries, keys and values. */
CASE(packed_mask)
{
    cj_tensor *x[2] = { cj_randn(c, CJ_SHAPE(2, 3, 12), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(3, 3), .dtype = CJ_F64) };
    cj_tensor *learnt = cj_attention_packed(x[0], 2, .mask = cj_require_grad(x[1]));
    assert_true(distance(learnt, cj_attention_packed(x[0], 2, .mask = x[1])) < 1e-14);
    cj_gradcheck_result r = cj_gradcheck(c, packed_with_mask, NULL, x, 2, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
}

/* What a step hands out is the same captured and as it is, also where lengths are values that the step makes. */
static void attention_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx, (void)user;
    cj_tensor *mask = cj_require_grad(in[1]), *length = cj_add_scalar(in[2], 1);
    out[0] = cj_attention(in[0], in[0], in[0], .mask = mask, .key_length = cj_reshape(length, CJ_SCALAR));
    cj_grad(cj_sum(cj_square(out[0])), &mask, 1, &out[1]);
}
static void recurrent_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx, (void)user;
    cj_tensor *x = cj_require_grad(cj_unsqueeze(in[0], 1)), *g;
    cj_recurrent_result r = cj_rnn(x, in[1], in[1], NULL, NULL, .lengths = cj_add_scalar(in[2], 1));
    out[0] = r.y;
    cj_grad(cj_sum(cj_square(r.y)), &x, 1, &g, .create_graph = true);
    cj_grad(cj_sum(cj_square(g)), &x, 1, &out[1]);
}
CASE(captured_lengths)
{
    const cj_step_fn steps[] = { attention_step, recurrent_step };
    for (int k = 0; k < 2; k++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[3] = { R(3, 3), R(3, 3), cj_full(c, 1, CJ_SHAPE(1), CJ_I64) }, *out[CJ_MAX_OUTPUTS] = { NULL }, *want[2];
        cj_plan *p = compiled(c, steps[k], NULL, in, 3, out);
        for (int n = 0; n < 3; n++) { /* lengths 1, 2, 3 */
            in[2] = cj_full(c, n, CJ_SHAPE(1), CJ_I64);
            assert_true(cj_replay(p, in, out));
            steps[k](c, NULL, in, want);
            assert_ok(c);
            for (int i = 0; i < 2; i++) assert_true(distance(out[i], want[i]) < 1e-5);
        }
        cj_plan_free(p);
        cj_scope_close(s);
    }
}

/* A gru with one of its two biases only. */
CASE(one_bias)
{
    cj_tensor *x = R(3, 2, 4), *w = R(9, 4), *u = R(9, 3), *b = cj_require_grad(R(9)), *zero = cj_require_grad(F(9)), *g[2];
    cj_tensor *y = cj_gru(x, w, u, NULL, b).y, *z = cj_gru(x, w, u, zero, b).y;
    assert_true(distance(y, z) < 1e-6);
    assert_true(cj_grad(cj_sum(y), &b, 1, &g[0]) && cj_grad(cj_sum(z), &b, 1, &g[1]));
    assert_true(distance(g[0], g[1]) < 1e-6);
    y = cj_gru(x, w, u, b, NULL).y, z = cj_gru(x, w, u, b, zero).y;
    assert_true(distance(y, z) < 1e-6);
}

FUNCTION(batch_normed, cj_batch_norm(in[0], NULL, NULL));
FUNCTION(rms_normed, cj_rms_norm(in[0], NULL, 0.1));

/* 16 bits in forward mode, where definitions take the place of kernels, one input with a tangent: as in f32, up to the last rounding. */
CASE(half_tangents)
{
    const cj_fn fn[] = { attend, attend_packed, batch_normed, rms_normed };
    for (int k = 0; k < 4; k++)
        for (cj_dtype half = CJ_BF16; half <= CJ_F16; half++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *narrow[3], *wide[3], *t[3] = { NULL }, *wide_t[3] = { NULL };
            const int n = k ? 1 : 3;
            for (int i = 0; i < n; i++) wide[i] = cj_cast(narrow[i] = cj_cast(cj_randn(c, CJ_SHAPE(4, 6)), half), CJ_F32);
            wide_t[0] = cj_cast(t[0] = cj_cast(cj_randn(c, CJ_SHAPE(4, 6)), half), CJ_F32);
            cj_pair got = cj_jvp(c, fn[k], NULL, narrow, t, n), want = cj_jvp(c, fn[k], NULL, wide, wide_t, n);
            assert_ok(c);
            assert_int_equal(cj_dtype_of(got.value), half);
            assert_true(distance(cj_cast(got.value, CJ_F32), want.value) < 0.02);
            assert_true(distance(cj_cast(got.derivative, CJ_F32), want.derivative) < 0.05);
            assert_true(cj_item(cj_sum(cj_square(want.derivative))) > 0.1);
            cj_scope_close(s);
        }
}

CASE(norms_without)
{
    cj_tensor *x = cj_require_grad(R(2, 0)), *w = cj_require_grad(R(0)), *b = cj_require_grad(R(0));
    assert_zero_gradients(cj_layer_norm(x, w, b, 0), CJ_TENSORS(x, w, b), 3);
    assert_zero_gradients(cj_rms_norm(x, w, 0), CJ_TENSORS(x, w), 2);
    assert_zero_gradients(cj_batch_norm(x, w, b, .running_mean = F(0), .running_var = F(0), .eval = true), CJ_TENSORS(x, w, b), 3);
    /* no eps at all: (x - m)/|x - m| of two positions is ±1 */
    cj_tensor *y = cj_instance_norm(F64(c, CJ_SHAPE(1, 2, 2), 1, 1 + 1e-9, 5, -5), NULL, NULL, CJ_ZERO);
    assert_true(distance(y, F64(c, CJ_SHAPE(1, 2, 2), -1, 1, 1, -1)) < 1e-6);
    /* a weight vector whose slices are numbers: g·sign(v) */
    y = cj_weight_norm(F64(c, CJ_SHAPE(3), 2, -3, 0.5), F64(c, CJ_SHAPE(3), 1, 2, 3), 0);
    assert_true(distance(y, F64(c, CJ_SHAPE(3), 1, -2, 3)) < 1e-15);
    y = cj_weight_norm(F64(c, CJ_SHAPE(2, 2), 3, 4, 0, 2), F64(c, CJ_SHAPE(2, 1), 10, 1), 0);
    assert_true(distance(y, F64(c, CJ_SHAPE(2, 2), 6, 8, 0, 1)) < 1e-15);
    /* covariance 1, divided by n - 1 */
    cj_tensor *d = cj_whiten(cj_randn(c, CJ_SHAPE(20, 3), .dtype = CJ_F64), .unbiased = true, .eps = CJ_ZERO, .iterations = 40).value;
    assert_true(distance(cj_mul_scalar(cj_matmul(cj_t(d), d), 1.0 / 19), cj_eye(c, 3, CJ_F64)) < 1e-9);
}

/* Running statistics that stay, that follow, and that average; batches are counted without them, too. */
CASE(running_statistics)
{
    cj_tensor *mean = cj_keep(F(2)), *var = cj_keep(F(2)), *batches = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64));
    const cj_batch_norm_opts all = { .running_mean = mean, .running_var = var, .batches = batches };
    cj_batch_norm_opts o[4] = { all, { .batches = batches }, all, all };
    o[0].momentum = CJ_ZERO;
    o[2].momentum = 1;
    o[3].cumulative = true, o[3].momentum = CJ_ZERO;
    /* 3 and 7 in channel 0: mean 5, unbiased variance 8; the average of 5 and -5 in call 4 moves by a quarter of the way */
    const double means[] = { 0, 0, 5, 2.5 }, variances[] = { 0, 0, 8, 8 };
    for (int k = 0; k < 4; k++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = cj_mul_scalar(cj_cast(F64(c, CJ_SHAPE(2, 2), 3, 1, 7, 1), CJ_F32), k == 3 ? -1 : 1);
        cj_tensor *y = (cj_batch_norm)(x, NULL, NULL, &o[k]);
        assert_near(value_at(y, 0), k == 3 ? 1 : -1, 1e-5);
        cj_scope_close(s);
        assert_near(value_at(mean, 0), means[k], 1e-6);
        assert_near(value_at(var, 0), variances[k], 1e-5);
        assert_near(value_at(batches, 0), k + 1, 0);
    }
    cj_release(mean), cj_release(var), cj_release(batches);
}

CASE(loss_options)
{
    const int64_t label[3] = { 1, 0, 2 };
    cj_tensor *x = cj_log_softmax(cj_randn(c, CJ_SHAPE(3, 4), .dtype = CJ_F64), -1), *t = cj_from_i64(c, label, CJ_SHAPE(3));
    double *v = values_of(x), mean = -(v[1] + v[4] + v[10]) / 3, kept = -(v[4] + v[10]) / 2;
    free(v);
    assert_near(cj_item(cj_cross_entropy(x, t, .smooth_others = true)), mean, 1e-12);
    assert_near(cj_item(cj_cross_entropy(x, cj_cast(t, CJ_I32))), mean, 1e-12);
    assert_near(cj_item(cj_nll_loss(x, t, .ignore_index = 1)), kept, 1e-12);
    assert_near(cj_item(cj_cross_entropy(x, t, .ignore_index = 1)), kept, 1e-12);
    cj_tensor *scores = F64(c, CJ_SHAPE(1, 3), 0.1, 0.2, 0.8), *listed = cj_from_i64(c, (int64_t[]){ 0, -1, 0 }, CJ_SHAPE(1, 3));
    assert_near(cj_item((cj_multilabel_margin_loss)(scores, listed, NULL)), (1.1 + 1.7) / 3, 1e-12);
    /* a factor for each mean is the same as one for all */
    cj_tensor *two = R(2), *m = R(2, 3), *y = R(2, 3), *factor = cj_add(R(3, 3), cj_eye(c, 3, CJ_F32));
    cj_tensor *each = cj_clone(cj_expand(factor, CJ_SHAPE(2, 3, 3)));
    assert_near(cj_item(cj_multivariate_gaussian_nll_loss(m, y, each)), cj_item(cj_multivariate_gaussian_nll_loss(m, y, factor)), 1e-5);
    assert_true(same_bits((cj_mixture_nll_loss)(m, y, y, two, NULL), cj_mixture_nll_loss(m, y, y, two)));
    /* log(2π)/2 apart */
    double with = cj_item(cj_gaussian_nll_loss(m, y, y, .full = true)), without = cj_item((cj_gaussian_nll_loss)(m, y, y, NULL));
    assert_near(with - without, 0.918938533, 1e-5);
}

/* The noise of 16 bits is that of f32, rounded. */
CASE(half_gumbel)
{
    cj_tensor *x = cj_cast(cj_randn(c, CJ_SHAPE(3, 5)), CJ_BF16);
    cj_seed(c, 11);
    cj_tensor *y = cj_gumbel_softmax(x, -1, .hard = true);
    cj_seed(c, 11);
    cj_tensor *noise = cj_neg(cj_log(cj_exponential(c, 1, CJ_SHAPE(3, 5), .stream = CJ_STREAM_SAMPLING)));
    cj_tensor *score = cj_add(cj_cast(x, CJ_F32), cj_cast(noise, CJ_BF16)), *best = cj_argmax(score, .axes = CJ_AXIS(-1));
    assert_true(distance(cj_cast(y, CJ_F32), cj_cast(cj_one_hot(best, 5), CJ_F32)) < 0.01);
    assert_int_equal(cj_dtype_of(y), CJ_BF16);
}

/* Stirling's terms of the Poisson loss are for counts above 1: there is none at 1, and the gradient of the count, which does not go through them there, is -x. */
CASE(counts_up_to_one)
{
    cj_tensor *x = cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64), *y = cj_require_grad(F64(c, CJ_SHAPE(4), 0, 0.5, 1, 3)), *g;
    cj_tensor *loss = cj_poisson_nll_loss(x, y, .reduction = CJ_NONE, .full = true);
    cj_tensor *without = cj_poisson_nll_loss(x, y, .reduction = CJ_NONE), *terms = cj_sub(loss, without);
    assert_true(cj_grad(cj_sum(loss), &y, 1, &g));
    for (int i = 0; i < 3; i++) {
        assert_true(value_at(terms, i) == 0);
        assert_near(value_at(g, i), -value_at(x, i), 1e-15);
    }
    assert_near(value_at(terms, 3), 3 * log(3) - 3 + 0.5 * log(6 * acos(-1)), 1e-14);
    assert_near(value_at(g, 3), -value_at(x, 3) + log(3) + 1.0 / 6, 1e-14);
}

/* Channels, classes and elements that are not there; shapes that fit in number only; arguments that are missing. */
static void nothing_there(void **state)
{
    (void)state;
    cj_tensor *mean = cj_keep(F(0)), *var = cj_keep(F(0));
    cj_tensor *y = cj_batch_norm(cj_zeros(c, CJ_SHAPE(4, 0), CJ_F32), NULL, NULL, .running_mean = mean, .running_var = var);
    assert_true(cj_ndim(y) == 2 && cj_size(y, 0) == 4 && cj_numel(y) == 0);
    cj_release(mean), cj_release(var);
    assert_true(isnan(cj_item(cj_sum(cj_var(cj_zeros(c, CJ_SHAPE(2, 0), CJ_F32), .axes = CJ_AXIS(1))))));
    assert_poisoned(CJ_ESHAPE, "cross_entropy: logits [2, 3, 4] do not fit targets [3, 2]",
                    cj_cross_entropy(F(2, 3, 4), cj_zeros(c, CJ_SHAPE(3, 2), CJ_I64)));
    assert_poisoned(CJ_ESHAPE, "cross_entropy: logits [2, 3, 4] do not fit targets [2, 2]",
                    cj_cross_entropy(F(2, 3, 4), cj_zeros(c, CJ_SHAPE(2, 2), CJ_I64)));
    assert_poisoned(CJ_EVALUE, "layer_norm: eps nan is negative", cj_layer_norm(F(2, 3), NULL, NULL, NAN));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3)), *centred = cj_sub(x, cj_mean(x, .axes = CJ_AXIS(1), .keepdim = true));
    cj_tensor *spread = cj_mean(cj_square(centred), .axes = CJ_AXIS(1), .keepdim = true);
    assert_near(distance(cj_layer_norm(x, NULL, NULL, CJ_ZERO), cj_div(centred, cj_sqrt(spread))), 0, 1e-5);
    assert_poisoned(CJ_EVALUE, "masked_fill: argument 2 is NULL", cj_masked_fill(x, NULL, 1));
    assert_poisoned(CJ_EVALUE, "nll_loss: argument 1 is NULL", cj_nll_loss(NULL, cj_zeros(c, CJ_SHAPE(2), CJ_I64)));
    assert_poisoned(CJ_EVALUE, "gaussian_nll_loss: argument 2 is NULL", cj_gaussian_nll_loss(x, NULL, x));
    assert_poisoned(CJ_EVALUE, "batch_norm: argument 1 is NULL", cj_batch_norm(NULL, x, NULL));
    assert_poisoned(CJ_EVALUE, "layer_norm: argument 1 is NULL", cj_layer_norm(NULL, x, NULL, 0));
    assert_poisoned(CJ_EVALUE, "attention: argument 1 is NULL", cj_attention(NULL, x, x));
    assert_poisoned(CJ_EVALUE, "prelu: argument 1 is NULL", cj_prelu(NULL, x));
    assert_poisoned(CJ_ESHAPE, "expand", cj_expand(x, (cj_shape){ .ndim = CJ_MAX_DIMS + 1 }));
    cj_ctx *other = cj_ctx_new(NULL);
    cj_tensor *foreign = cj_ones(other, CJ_SHAPE(7), CJ_F32);
    assert_poisoned(CJ_ECONTEXT, "cross_entropy: argument 3 belongs to another context",
                    cj_cross_entropy(F(2, 3), cj_zeros(c, CJ_SHAPE(2), CJ_I64), .weight = foreign));
    assert_ok(other);
    cj_ctx_free(other);
}

int main(void)
{
#define T cmocka_unit_test
    const struct CMUnitTest tests[] = { T(all_calls),           T(attention_refuses), T(recurrence_refuses), T(normalisation_refuses),
                                        T(activations_refuse),  T(losses_refuse),     T(attention_without),  T(packed_mask),
                                        T(captured_lengths),    T(one_bias),          T(half_tangents),      T(norms_without),
                                        T(running_statistics),  T(loss_options),      T(half_gumbel),        T(nothing_there),
                                        T(documented_defaults), T(counts_up_to_one) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
