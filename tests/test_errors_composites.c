/* What is wrong with an argument is said in the name of the operator that was called, also where operators inside find it: all composites of the registry, and functions that
 * are made of several operators without being one. */
#include "errors.h"

enum { MOST = 256 };
static const char *seen[MOST];
static int n_seen;

/* "op: words (file:line)" and nothing else. */
static void assert_named(cj_ctx *c, const char *op, const char *words)
{
    char expected[512];
    snprintf(expected, sizeof expected, "%s: %s (test_errors", op, words);
    if (strncmp(cj_message(c), expected, strlen(expected)) != 0) fail_msg("\"%s\" where \"%s\" is expected", cj_message(c), expected);
    assert_sentence(c, op);
    assert_null(c->called.op);
    cj_clear(c);
    assert_true(n_seen < MOST);
    seen[n_seen++] = op;
}
#define BAD(op, words, ...)                                                                                                                \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_named(c, op, words);                                                                                                        \
    } while (0)

static void activations(void **state)
{
    cj_ctx *c = *state;
    BAD("heaviside", "the input is i64, a float type expected", cj_heaviside(I(2, 3)));
    BAD("hard_sign", "the input is i64, a float type expected", cj_hard_sign(I(2, 3)));
    BAD("hardtanh", "the input is i64, a float type expected", cj_hardtanh(I(2, 3)));
    BAD("hardtanh", "low 2 is above high 1", cj_hardtanh(F(2), .low = 2, .high = 1));
    BAD("relu6", "the input is i64, a float type expected", cj_relu6(I(2, 3)));
    BAD("leaky_relu", "the input is i64, a float type expected", cj_leaky_relu(I(2, 3)));
    BAD("prelu", "weight [4] does not fit input [2, 3]: one element or one per channel (axis 1)", cj_prelu(F(2, 3), F(4)));
    BAD("hardsigmoid", "the input is i64, a float type expected", cj_hardsigmoid(I(2, 3)));
    BAD("hardswish", "the input is i64, a float type expected", cj_hardswish(I(2, 3)));
    BAD("softshrink", "the input is i64, a float type expected", cj_softshrink(I(2, 3)));
    BAD("hardshrink", "the input is i64, a float type expected", cj_hardshrink(I(2, 3)));
    BAD("threshold", "the input is i64, a float type expected", cj_threshold(I(2, 3), 0, 0));
    BAD("elu", "the input is i64, a float type expected", cj_elu(I(2, 3)));
    BAD("celu", "the input is i64, a float type expected", cj_celu(I(2, 3)));
    BAD("selu", "the input is i64, a float type expected", cj_selu(I(2, 3)));
    BAD("softplus_beta", "the input is i64, a float type expected", cj_softplus_beta(I(2, 3)));
    BAD("mish", "the input is i64, a float type expected", cj_mish(I(2, 3)));
    BAD("softsign", "the input is i64, a float type expected", cj_softsign(I(2, 3)));
    BAD("tanhshrink", "the input is i64, a float type expected", cj_tanhshrink(I(2, 3)));
    BAD("logit", "the input is i64, a float type expected", cj_logit(I(2, 3)));
    BAD("glu", "axis 1 of [2, 3] has an odd size and no halves", cj_glu(F(2, 3), 1));
    BAD("glu", "axis 5 is out of range for 2 dimensions", cj_glu(F(2, 4), 5));
    BAD("reglu", "axis 1 of [2, 3] has an odd size and no halves", cj_reglu(F(2, 3), 1));
    BAD("geglu", "axis 1 of [2, 3] has an odd size and no halves", cj_geglu(F(2, 3), 1));
    BAD("swiglu", "axis 1 of [2, 3] has an odd size and no halves", cj_swiglu(F(2, 3), 1));
    BAD("maxout", "axis 1 of [2, 4] cannot be cut into groups of 3", cj_maxout(F(2, 4), 1, 3));
    BAD("maxout", "axis 3 is out of range for 2 dimensions", cj_maxout(F(2, 4), 3, 2));
    BAD("softmin", "axis 2 is out of range for 2 dimensions", cj_softmin(F(2, 3), 2));
    BAD("softmax_temperature", "axis 2 is out of range for 2 dimensions", cj_softmax_temperature(F(2, 3), 2, 1));
    BAD("gumbel_softmax", "axis 2 is out of range for 2 dimensions", cj_gumbel_softmax(F(2, 3), 2));
    BAD("softmax", "axis 2 is out of range for 2 dimensions", cj_softmax(F(2, 3), 2));
    BAD("log_softmax", "axis -3 is out of range for 2 dimensions", cj_log_softmax(F(2, 3), -3));
    BAD("sinc", "the input is i64, a float type expected", cj_sinc(I(2)));
    BAD("softplus_inverse", "the input is i64, a float type expected", cj_softplus_inverse(I(2)));
    BAD("logaddexp", "shapes do not broadcast: [2] with [3]", cj_logaddexp(F(2), F(3)));
    BAD("xlogy", "shapes do not broadcast: [2], [], [3]", cj_xlogy(F(2), F(3)));
}

static void losses(void **state)
{
    cj_ctx *c = *state;
    BAD("cross_entropy", "logits [2, 3] do not fit targets [1]", cj_cross_entropy(F(2, 3), INDEX(3)));
    BAD("cross_entropy", "target 3 at position 0 is outside [0, 3)", cj_cross_entropy(F(1, 3), INDEX(3)));
    BAD("cross_entropy", "target 3 at position 0 is outside [0, 3)", cj_cross_entropy(F(1, 3), INDEX(3), .weight = F(3)));
    BAD("cross_entropy", "the weight is f32 [4], a float for each of 3 classes expected",
        cj_cross_entropy(F(1, 3), INDEX(1), .weight = F(4)));
    BAD("mse_loss", "input [2, 3] and target [3] have different shapes", cj_mse_loss(F(2, 3), F(3)));
    BAD("squared_loss", "input [2, 3] and target [3] have different shapes", cj_squared_loss(F(2, 3), F(3)));
    BAD("l1_loss", "input [2, 3] and target [3] have different shapes", cj_l1_loss(F(2, 3), F(3)));
    BAD("huber_loss", "input [2, 3] and target [3] have different shapes", cj_huber_loss(F(2, 3), F(3)));
    BAD("smooth_l1_loss", "input [2, 3] and target [3] have different shapes", cj_smooth_l1_loss(F(2, 3), F(3)));
    BAD("pinball_loss", "input [2, 3] and target [3] have different shapes", cj_pinball_loss(F(2, 3), F(3), 0.5));
    BAD("zero_one_loss", "input [2, 3] and target [3] have different shapes", cj_zero_one_loss(F(2, 3), F(3)));
    BAD("perceptron_loss", "input [2, 3] and target [3] have different shapes", cj_perceptron_loss(F(2, 3), F(3)));
    BAD("hinge_loss", "input [2, 3] and target [3] have different shapes", cj_hinge_loss(F(2, 3), F(3)));
    BAD("exponential_loss", "input [2, 3] and target [3] have different shapes", cj_exponential_loss(F(2, 3), F(3)));
    BAD("soft_margin_loss", "input [2, 3] and target [3] have different shapes", cj_soft_margin_loss(F(2, 3), F(3)));
    BAD("hinge_embedding_loss", "input [2, 3] and target [3] have different shapes", cj_hinge_embedding_loss(F(2, 3), F(3)));
    BAD("bce_loss", "input [2, 3] and target [3] have different shapes", cj_bce_loss(F(2, 3), F(3)));
    BAD("bce_loss", "weight [4] does not broadcast to input [2, 3]", cj_bce_loss(F(2, 3), F(2, 3), .weight = F(4)));
    BAD("bce_with_logits", "input [2, 3] and target [3] have different shapes", cj_bce_with_logits(F(2, 3), F(3)));
    BAD("bce_with_logits", "weight [4] does not broadcast to input [2, 3]", cj_bce_with_logits(F(2, 3), F(2, 3), .weight = F(4)));
    BAD("bce_with_logits", "the input is i64, a float type expected", cj_bce_with_logits(I(2, 3), F(2, 3), .weight = F(3)));
    BAD("bce_with_logits", "argument 1 is NULL", cj_bce_with_logits(NULL, F(2, 3)));
    BAD("bce_loss", "argument 1 is NULL", cj_bce_loss(NULL, F(2, 3)));
    assert_non_null(cj_bce_with_logits(NULL, F(2, 3))); /* poison of the context that the other argument names */
    cj_clear(c);
    BAD("kl_div", "input [2, 3] and target [3] have different shapes", cj_kl_div(F(2, 3), F(3)));
    BAD("nll_loss", "scores [2, 3] do not fit targets [3]", cj_nll_loss(F(2, 3), I(3)));
    BAD("nll_loss", "target 3 at position 0 is outside [0, 3)", cj_nll_loss(F(1, 3), INDEX(3)));
    BAD("nll_loss", "target 3 at position 0 is outside [0, 3)", cj_nll_loss(F(1, 3), INDEX(3), .weight = F(3)));
    BAD("nll_loss", "targets are f32, i64 expected", cj_nll_loss(F(1, 3), F(1)));
    BAD("soft_cross_entropy", "input [2, 3] and target [3] have different shapes", cj_soft_cross_entropy(F(2, 3), F(3)));
    BAD("multi_margin_loss", "target -1 at position 0 is outside [0, 3)", cj_multi_margin_loss(F(1, 3), INDEX(-1)));
    BAD("multi_margin_loss", "scores [2, 3] do not fit targets [3]", cj_multi_margin_loss(F(2, 3), I(3)));
    BAD("multilabel_margin_loss", "input [2, 3] and target [3] have different shapes", cj_multilabel_margin_loss(F(2, 3), I(3)));
    BAD("multilabel_margin_loss", "target 3 at position 0 is outside [0, 1)", cj_multilabel_margin_loss(F(1), INDEX(3)));
    BAD("multilabel_soft_margin_loss", "input [2, 3] and target [3] have different shapes", cj_multilabel_soft_margin_loss(F(2, 3), F(3)));
    BAD("cosine_embedding_loss", "input [2, 3] and target [3] have different shapes", cj_cosine_embedding_loss(F(2, 3), F(3), F(2)));
    BAD("cosine_embedding_loss", "vectors [2, 3] do not fit targets [3]", cj_cosine_embedding_loss(F(2, 3), F(2, 3), F(3)));
    BAD("margin_ranking_loss", "argument 1 [2] and argument 2 [3] have different shapes", cj_margin_ranking_loss(F(2), F(3), F(2)));
    BAD("triplet_margin_loss", "argument 1 [2, 3] and argument 2 [3] have different shapes",
        cj_triplet_margin_loss(F(2, 3), F(3), F(2, 3)));
    BAD("gaussian_nll_loss", "argument 1 [2] does not broadcast to the target [3]", cj_gaussian_nll_loss(F(2), F(3), F(2)));
    BAD("gaussian_scale_nll_loss", "argument 1 [2] does not broadcast to the target [3]", cj_gaussian_scale_nll_loss(F(2), F(3), F(2)));
    BAD("multivariate_gaussian_nll_loss", "factor [2, 2] does not fit mean [2, 3]: [.., d, d] expected",
        cj_multivariate_gaussian_nll_loss(F(2, 3), F(2, 3), F(2, 2)));
    BAD("laplace_nll_loss", "argument 1 [2] does not broadcast to the target [3]", cj_laplace_nll_loss(F(2), F(3), F(2)));
    BAD("gumbel_nll_loss", "argument 1 [2] does not broadcast to the target [3]", cj_gumbel_nll_loss(F(2), F(3), F(2)));
    BAD("mixture_nll_loss", "argument 1 [2, 4] and argument 2 [2, 3] have different shapes",
        cj_mixture_nll_loss(F(2, 4), F(2, 3), F(2, 3), F(2)));
    BAD("poisson_nll_loss", "input [2] and target [3] have different shapes", cj_poisson_nll_loss(F(2), F(3)));
    BAD("exponential_family_nll", "input [2] and target [3] have different shapes",
        cj_exponential_family_nll(F(2), F(3), CJ_FAMILY_GAUSSIAN));
    BAD("exponential_family_mean", "the input is i64, a float type expected", cj_exponential_family_mean(I(2), CJ_FAMILY_GAUSSIAN));
}

static void order_and_masks(void **state)
{
    cj_ctx *c = *state;
    BAD("cumprod", "axis 2 is out of range for 2 dimensions", cj_cumprod(F(2, 3), 2));
    BAD("logcumsumexp", "axis 2 is out of range for 2 dimensions", cj_logcumsumexp(F(2, 3), 2));
    BAD("segment_mean", "ids [3] for [2, 3]; one per row expected", cj_segment_mean(F(2, 3), I(3), 2));
    BAD("segment_mean", "id 2 at position 0 is outside [0, 2)", cj_segment_mean(F(1, 3), INDEX(2), 2));
    BAD("segment_max", "id 2 at position 0 is outside [0, 2)", cj_segment_max(F(1, 3), INDEX(2), 2));
    BAD("embedding_bag", "index 4 at position 0 is outside [0, 4)", cj_embedding_bag(F(4, 2), INDEX(4), I(1), CJ_COMBINE_SUM));
    BAD("embedding_bag", "the index is f32, i64 expected", cj_embedding_bag(F(4, 2), INDEX(1), F(1), CJ_COMBINE_SUM));
    BAD("masked_select", "input [2, 3] and mask [4] do not broadcast", cj_masked_select(F(2, 3), cj_zeros(c, CJ_SHAPE(4), CJ_BOOL)));
    BAD("masked_softmax", "input [2, 3] and mask [4] do not broadcast", cj_masked_softmax(F(2, 3), cj_zeros(c, CJ_SHAPE(4), CJ_BOOL), -1));
    BAD("masked_softmax", "axis 2 is out of range for 2 dimensions", cj_masked_softmax(F(2, 3), cj_zeros(c, CJ_SHAPE(2, 3), CJ_BOOL), 2));
    BAD("masked_mean", "input [2, 3] and mask [4] do not broadcast", cj_masked_mean(F(2, 3), cj_zeros(c, CJ_SHAPE(4), CJ_BOOL)));
    BAD("box_corners", "boxes [2, 3], [.., 4] expected", cj_box_corners(F(2, 3)));
    BAD("box_centres", "boxes [2, 3], [.., 4] expected", cj_box_centres(F(2, 3)));
    BAD("box_clip", "boxes [2, 3], [.., 4] expected", cj_box_clip(F(2, 3), 1, 1));
    BAD("box_iou", "boxes [2, 3], [.., 4] expected", cj_box_iou(F(2, 4), F(2, 3)));
    BAD("nms", "boxes [2, 4] and scores [3], [n, 4] and [n] expected", cj_nms(F(2, 4), F(3), 0.5));
    BAD("complex_mul", "complex numbers are pairs: a last axis of size 2 is expected, found [2, 3]", cj_complex_mul(F(2, 3), F(2, 2)));
    BAD("complex_mul", "shapes do not broadcast: [4] with [3]", cj_complex_mul(F(4, 2), F(3, 2)));
    BAD("complex_abs", "complex numbers are pairs: a last axis of size 2 is expected, found [2, 3]", cj_complex_abs(F(2, 3)));
    BAD("complex_angle", "complex numbers are pairs: a last axis of size 2 is expected, found [2, 3]", cj_complex_angle(F(2, 3)));
}

static void images_and_contractions(void **state)
{
    cj_ctx *c = *state;
    BAD("pixel_shuffle", "3 channels of [1, 3, 2, 2] are no multiple of 2²", cj_pixel_shuffle(F(1, 3, 2, 2), 2));
    BAD("pixel_unshuffle", "height and width of [1, 3, 3, 2] are no multiples of 2", cj_pixel_unshuffle(F(1, 3, 3, 2), 2));
    BAD("grid_sample",
        "input [1, 3, 4, 4] and grid [1, 2, 2, 3]; [N, C, H, W] and [N, h, w, 2], or [N, C, D, H, W] and [N, d, h, w, 3] expected",
        cj_grid_sample(F(1, 3, 4, 4), F(1, 2, 2, 3)));
    BAD("affine_grid", "theta [1, 3, 3] and size [1, 3, 4, 4]; [N, 2, 3] and [N, C, H, W], or [N, 3, 4] and [N, C, D, H, W] expected",
        cj_affine_grid(F(1, 3, 3), CJ_SHAPE(1, 3, 4, 4), false));
    BAD("einsum", "'j' of \"ij,jk->ik\" has size 4 in operand 2 and 3 before",
        cj_einsum("ij,jk->ik", (cj_tensor *[]){ F(2, 3), F(4, 5) }, 2));
    BAD("tensordot", "axis 1 of [2, 3] and axis 0 of [4, 5] have different sizes", cj_tensordot(F(2, 3), F(4, 5), CJ_AXIS(1), CJ_AXIS(0)));
    BAD("kron", "argument 2 is NULL", cj_kron(F(2), NULL));
    BAD("norm", "axis 4 is out of range for 2 dimensions", cj_norm(F(2, 3), 2, .axes = CJ_AXIS(4)));
    BAD("cdist", "[2, 3] and [2, 4]; [.., P, M] and [.., R, M] expected", cj_cdist(F(2, 3), F(2, 4), 2));
    BAD("cosine_similarity", "[2, 3] and [2, 4] do not broadcast", cj_cosine_similarity(F(2, 3), F(2, 4), -1, 0));
    BAD("cosine_similarity", "axis 4 is out of range for 2 dimensions", cj_cosine_similarity(F(2, 3), F(2, 3), 4, 0));
    BAD("attention", "the rows of q [2, 4, 8] and k [2, 5, 7] have different sizes", cj_attention(F(2, 4, 8), F(2, 5, 7), F(2, 5, 8)));
    BAD("attention_packed", "[2, 4, 20] with 2 heads; [.., T, 3·heads·d] expected", cj_attention_packed(F(2, 4, 20), 2));
    BAD("attention", "the mask [3, 3] does not broadcast to the scores [2, 4, 5]",
        cj_attention(F(2, 4, 8), F(2, 5, 8), F(2, 5, 8), .mask = cj_require_grad(F(3, 3))));
    BAD("attention", "the mask [4, 3] does not broadcast to the scores [2, 4, 5]", /* its rows fit, its keys do not */
        cj_attention(F(2, 4, 8), F(2, 5, 8), F(2, 5, 8), .mask = F(4, 3)));
    BAD("attention", "the mask [3, 5] does not broadcast to the scores [2, 4, 5]",
        cj_attention(F(2, 4, 8), F(2, 5, 8), F(2, 5, 8), .mask = F(3, 5)));
}

static void normalisation(void **state)
{
    cj_ctx *c = *state;
    BAD("layer_norm", "weight [4] f32 does not fit input [2, 3] f32", cj_layer_norm(F(2, 3), F(4), NULL, 1e-5));
    BAD("batch_norm", "the weight has shape [4], [3] expected", cj_batch_norm(F(2, 3), F(4), NULL));
    BAD("group_norm", "2 groups do not divide the 3 channels of [2, 3, 4]", cj_group_norm(F(2, 3, 4), 2, NULL, NULL, 1e-5));
    BAD("instance_norm", "the weight has shape [4], [3] expected", cj_instance_norm(F(2, 3, 4), F(4), NULL, 1e-5));
    BAD("rms_norm", "weight [4] f32 does not fit input [2, 3] f32", cj_rms_norm(F(2, 3), F(4), 1e-5));
    BAD("local_response_norm", "size 0; at least 1 expected", cj_local_response_norm(F(2, 3, 4), 0));
    BAD("weight_norm", "g has shape [3], [2] expected for axis 0 of v [2, 3]", cj_weight_norm(F(2, 3), F(3), 0));
    BAD("spectral_norm", "u is f32 [4], floats [2] expected for w [2, 3]", cj_spectral_norm(F(2, 3), F(4)));
    BAD("standardise", "the input is i64, a float type expected", cj_standardise(I(2, 3)));
    BAD("whiten", "the input has shape [2, 3, 4], [n, d] with two rows at least expected", cj_whiten(F(2, 3, 4)));
}

static void recurrent(void **state)
{
    cj_ctx *c = *state;
    BAD("rnn", "w_ih is [4, 2], [4, 3] expected", cj_rnn(F(2, 1, 3), F(4, 2), F(4, 4), NULL, NULL));
    BAD("lstm", "w_hh is [15, 4]; [16, H] with 4 gates of H units expected", cj_lstm(F(2, 1, 3), F(16, 3), F(15, 4), NULL, NULL));
    BAD("lstm", "the length of sequence 0 is 3; 1 to 2 steps expected",
        cj_lstm(F(2, 1, 3), F(16, 3), F(16, 4), NULL, NULL, .lengths = INDEX(3)));
    BAD("gru", "w_ih is [12, 2], [12, 3] expected", cj_gru(F(2, 1, 3), F(12, 2), F(12, 4), NULL, NULL));
    BAD("light_gru", "w_ih is [8, 2], [8, 3] expected", cj_light_gru(F(2, 1, 3), F(8, 2), F(8, 4), NULL, NULL));
}

static void matrices(void **state)
{
    cj_ctx *c = *state;
    BAD("logdet", "the matrix [2, 3] is not square", cj_logdet(F(2, 3)));
    BAD("eigh_general", "f32 [2, 2] and f32 [3, 3] do not fit", cj_eigh_general(F(2, 2), F(3, 3)));
    BAD("matrix_inverse_sqrt", "the matrix [2, 3] is not square", cj_matrix_inverse_sqrt(F(2, 3)));
    BAD("matrix_power", "the matrix [2, 3] is not square", cj_matrix_power(F(2, 3), 2));
    BAD("matrix_rank", "[2] is not a matrix or a batch of matrices", cj_matrix_rank(F(2)));
    BAD("spectral_radius", "the matrix [2, 3] is not square", cj_spectral_radius(F(2, 3)));
    BAD("matrix_norm", "[2] is not a matrix or a batch of matrices", cj_matrix_norm(F(2), CJ_NORM_FRO));
    BAD("cond", "[2] is not a matrix or a batch of matrices", cj_cond(F(2), CJ_NORM_2));
    BAD("matrix_trace", "[2] is not a matrix or a batch of matrices", cj_matrix_trace(F(2)));
    BAD("circulant", "[] is not a vector or a batch of vectors", cj_circulant(cj_scalar(c, 1)));
    BAD("toeplitz", "[] is not a vector or a batch of vectors", cj_toeplitz(F(2), cj_scalar(c, 1)));
    BAD("circulant_product", "the vector [4] does not fit a matrix with 3 columns", cj_circulant_product(F(3), F(4)));
    BAD("toeplitz_product", "the vector [4] does not fit a matrix with 3 columns", cj_toeplitz_product(F(3), F(3), F(4)));
}

static void made_of_several(void **state)
{
    cj_ctx *c = *state;
    BAD("one_hot", "index 3 at position 0 is outside [0, 3)", cj_one_hot(INDEX(3), 3));
    BAD("one_hot", "the index is f32, i64 expected", cj_one_hot(F(3), 3));
    BAD("embedding", "index 4 at position 0 is outside [0, 4)", cj_embedding(F(4, 2), INDEX(4)));
    BAD("embedding", "the index is f32, i64 expected", cj_embedding(F(4, 2), F(1)));
    BAD("min_pool", "a window of 3 is larger than the padded axis of 2", cj_min_pool(F(1, 1, 2, 2), .kernel = 3));
    BAD("min_pool", "the input is bool; a float type expected", cj_min_pool(cj_zeros(c, CJ_SHAPE(1, 1, 2, 2), CJ_BOOL), .kernel = 2));
    BAD("avg_pool", "a window of 3 is larger than the padded axis of 2", cj_avg_pool(F(1, 1, 2, 2), .kernel = 3));
    BAD("softmax_pool", "a window of 3 is larger than the padded axis of 2", cj_softmax_pool(F(1, 1, 2, 2), 1, .kernel = 3));
    BAD("adaptive_avg_pool", "size 0 from an axis of 2", cj_adaptive_avg_pool(F(1, 1, 2, 2), CJ_SHAPE(0, 1)));
    BAD("adaptive_max_pool", "size 0 from an axis of 2", cj_adaptive_max_pool(F(1, 1, 2, 2), CJ_SHAPE(0, 1)));
    BAD("max_unpool", "index 9 at position 0 is outside [0, 4)",
        cj_max_unpool(F(1, 1, 1, 1), cj_full(c, 9, CJ_SHAPE(1, 1, 1, 1), CJ_I64), CJ_SHAPE(2, 2)));
    BAD("argsort", "axis 2 is out of range for 2 dimensions", cj_argsort(F(2, 3), 2));
    BAD("median", "axis 2 is out of range for 2 dimensions", cj_median(F(2, 3), 2));
    BAD("kthvalue", "k is 4, the axis has 3 elements", cj_kthvalue(F(2, 3), 4, 1));
    BAD("logsumexp", "axis 3 is out of range for 2 dimensions", cj_logsumexp(F(2, 3), .axes = CJ_AXIS(3)));
    BAD("var", "axis 3 is out of range for 2 dimensions", cj_var(F(2, 3), .axes = CJ_AXIS(3)));
    BAD("masked_fill", "input [2, 3] and mask [4] do not broadcast", cj_masked_fill(F(2, 3), cj_zeros(c, CJ_SHAPE(4), CJ_BOOL), 0));
    BAD("conv_transpose", "the weight [3, 2, 3] is for 3 channels, the input [1, 2, 4] has 2",
        cj_conv_transpose(F(1, 2, 4), F(3, 2, 3), NULL));
    BAD("locally_connected",
        "input [1, 2, 4], weight [3, 2, 3]; [N, C, ..] and [O, C, positions .., kernel ..] with 1 or 2 spatial axes expected",
        cj_locally_connected(F(1, 2, 4), F(3, 2, 3), NULL));
    BAD("dot", "inner sizes differ: [2] x [3]", cj_dot(F(2), F(3)));
    BAD("outer", "[2, 2] x [3] are not vectors", cj_outer(F(2, 2), F(3)));
    BAD("flatten", "axis 3 is out of range for 2 dimensions", cj_flatten(F(2, 3), 3));
    BAD("stack", "argument 2 is [3], [2] expected as the first", cj_stack((cj_tensor *[]){ F(2), F(3) }, 2, 0));
    BAD("pad", "widths for 3 and 3 axes of [2, 3]; both sides need the same number of last axes",
        cj_pad(F(2, 3), CJ_SHAPE(1, 1, 1), CJ_SHAPE(1, 1, 1)));
    BAD("tril", "needs a matrix, got [2]", cj_tril(F(2), 0));
    BAD("triu", "needs a matrix, got [2]", cj_triu(F(2), 0));
    BAD("squeeze", "axis 0 of [2] has not size 1", cj_squeeze(F(2), 0));
    BAD("unsqueeze", "axis 4 is out of range for 2 dimensions", cj_unsqueeze(F(2), 4));
    BAD("transpose", "axis 3 is out of range for 1 dimensions", cj_transpose(F(2), 0, 3));
    BAD("dropout", "probability 1.5 is outside [0, 1]", cj_dropout(F(2), .p = 1.5));
    BAD("complex", "real parts [2] and imaginary parts [3] have different shapes", cj_complex(F(2), F(3)));
    BAD("conj", "complex numbers are pairs: a last axis of size 2 is expected, found [2, 3]", cj_conj(F(2, 3)));
    BAD("real", "complex numbers are pairs: a last axis of size 2 is expected, found [2, 3]", cj_real(F(2, 3)));
    BAD("cov", "[n, d] with at least 2 samples is expected, found [2]", cj_cov(F(2)));
    BAD("corr", "[n, d] with at least 2 samples is expected, found [2]", cj_corr(F(2)));
    BAD("segment_sum", "id 2 at position 0 is outside [0, 2)", cj_segment_sum(F(1, 3), INDEX(2), 2));
}

/* Every composite of the registry is above, but for those that take any tensor. */
static void all_of_them(void **state)
{
    (void)state;
    static const char *const any[] = { "gelu", "gelu_tanh", "silu" };
    static const struct {
        const char *row, *called;
    } variants[] = { { "bce_with_logits_weighted", "bce_with_logits" },
                     { "cross_entropy_weighted", "cross_entropy" },
                     { "attention_composed", "attention" } };
    for (int i = 0; i < cj_op_count(); i++) {
        const cj_op_info op = cj_op_at(i);
        const char *name = op.name;
        bool found = strcmp(op.kind, "composite") != 0;
        for (size_t k = 0; k < sizeof any / sizeof *any; k++) found |= strcmp(any[k], name) == 0;
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++)
            if (strcmp(variants[k].row, name) == 0) name = variants[k].called;
        for (int k = 0; k < n_seen && !found; k++) found = strcmp(seen[k], name) == 0;
        if (!found) fail_msg("%s has no case here", op.name);
    }
}

/* A replay finds the target that is out of range: the operator and its line are those of the step. */
static void nll_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_nll_loss(in[0], in[1]);
    out[1] = cj_sum(cj_one_hot(in[1], 3));
}
static void replayed(void **state)
{
    cj_ctx *c = *state;
    cj_tensor *good[2] = { F(2, 3), I(2) }, *bad[2] = { good[0], cj_full(c, 5, CJ_SHAPE(2), CJ_I64) }, *out[2];
    cj_plan *plan = cj_capture(c, nll_step, NULL, good, 2, out);
    assert_ok(c);
    for (int i = 0; i < 3; i++) {
        assert_true(cj_replay(plan, good, out));
        assert_false(cj_replay(plan, bad, out));
        assert_named(c, "nll_loss", "target 5 at position 0 is outside [0, 3)");
    }
    assert_works(c);
}

/* Memory, contexts and the like are not said in the name of somebody else. */
static void only_arguments(void **state)
{
    cj_ctx *c = *state, *other = cj_ctx_new(NULL);
    cj_one_hot(cj_zeros(c, CJ_SHAPE((int64_t)1 << 40), CJ_I64), 3);
    assert_true(strncmp(cj_message(c), "one_hot", 7) != 0);
    assert_int_equal(cj_error(c), CJ_EMEMORY);
    cj_clear(c);
    cj_mse_loss(F(2), cj_zeros(other, CJ_SHAPE(2), CJ_F32));
    assert_error(c, CJ_ECONTEXT, "mse_loss: ");
    cj_clear(c);
    cj_ctx_free(other);
    assert_works(c);
}

static int start(void **state)
{
    *state = cj_ctx_new(NULL);
    return *state == NULL;
}
static int stop(void **state)
{
    cj_ctx_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),     cmocka_unit_test(losses),
        cmocka_unit_test(order_and_masks), cmocka_unit_test(images_and_contractions),
        cmocka_unit_test(normalisation),   cmocka_unit_test(recurrent),
        cmocka_unit_test(matrices),        cmocka_unit_test(made_of_several),
        cmocka_unit_test(all_of_them),     cmocka_unit_test(replayed),
        cmocka_unit_test(only_arguments),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
