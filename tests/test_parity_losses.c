/* Parity with PyTorch: activations and losses, their gradients and Hessian-vector products.  Reference values: tests/fixtures/activations.txt and losses.txt, made
 * by tools/fixtures_activations.py and fixtures_losses.py, where known differences are named.  Parameters are given in hundredths. */
#include "parity.h"

#define H(i) ((double)A(i) / 100)
/* an option that is 0 is a default: say 0 */
#define GIVEN(i) (A(i) ? H(i) : CJ_ZERO)
#define R (cj_reduction) A(0)

/* clang-format off */
UNARY(relu6)
UNARY(selu)
UNARY(hardsigmoid)
UNARY(hardswish)
UNARY(mish)
UNARY(softsign)
UNARY(tanhshrink)
BINARY(prelu)
CASE(leaky_relu, cj_leaky_relu(X, &(cj_leaky_relu_opts){ GIVEN(0) }))
CASE(elu, cj_elu(X, &(cj_elu_opts){ GIVEN(0) }))
CASE(celu, cj_celu(X, &(cj_elu_opts){ GIVEN(0) }))
CASE(softshrink, cj_softshrink(X, &(cj_shrink_opts){ GIVEN(0) }))
CASE(hardshrink, cj_hardshrink(X, &(cj_shrink_opts){ GIVEN(0) }))
CASE(hardtanh, cj_hardtanh(X, &(cj_hardtanh_opts){ GIVEN(0), GIVEN(1) }))
CASE(threshold, cj_threshold(X, H(0), H(1)))
CASE(softplus_beta, cj_softplus_beta(X, &(cj_softplus_opts){ .beta = H(0), .threshold = H(1) }))
CASE(heaviside, cj_heaviside(X, &(cj_heaviside_opts){ GIVEN(0) }))
CASE(logit, cj_logit(X, &(cj_logit_opts){ H(0) }))
CASE(glu, cj_glu(X, (int)A(0)))
CASE(reglu, cj_reglu(X, (int)A(0)))
CASE(geglu, cj_geglu(X, (int)A(0)))
CASE(swiglu, cj_swiglu(X, (int)A(0)))
CASE(softmin, cj_softmin(X, (int)A(0)))
CASE(softmax_temperature, cj_softmax_temperature(X, (int)A(0), H(1)))
CASE(maxout, cj_maxout(X, (int)A(0), A(1)))

static const parity_row activations[] = {
    ROW(relu6),
    ROW(selu),
    ROW(hardsigmoid),
    ROW(hardswish),
    ROW(mish),
    ROW(softsign),
    ROW(tanhshrink),
    ROW(prelu),
    ROW(leaky_relu),
    ROW(elu),
    ROW(celu),
    ROW(softshrink),
    ROW(hardshrink),
    ROW(hardtanh),
    ROW(threshold),
    ROW(softplus_beta),
    ROW(heaviside),
    ROW(logit),
    ROW(glu),
    ROW(reglu),
    ROW(geglu),
    ROW(swiglu),
    ROW(softmin),
    ROW(softmax_temperature),
    ROW(maxout),
};

/* Constant weights of three classes, as in the fixture. */
static cj_tensor *weights(cj_ctx *c) { return cj_from_f64(c, (double[]){ 0.5, 2, 1.25 }, CJ_SHAPE(3)); }
static cj_tensor *factors(cj_ctx *c) { return cj_from_f64(c, (double[]){ 3, 1, 0.2 }, CJ_SHAPE(3)); }
/* Labels of a type without derivative, as numbers. */
static cj_tensor *number(cj_tensor *label, cj_tensor *like) { return cj_cast(label, cj_dtype_of(like)); }

CASE(squared_loss, cj_squared_loss(X, Y, &(cj_loss_opts){ .reduction = R }))
CASE(huber_loss, cj_huber_loss(X, Y, &(cj_huber_opts){ R, H(1) }))
CASE(smooth_l1_loss, cj_smooth_l1_loss(X, Y, &(cj_smooth_l1_opts){ R, GIVEN(1) }))
CASE(soft_margin_loss, cj_soft_margin_loss(X, number(Y, X), &(cj_loss_opts){ .reduction = R }))
CASE(hinge_embedding_loss, cj_hinge_embedding_loss(X, number(Y, X), &(cj_margin_opts){ .reduction = R, .margin = H(1) }))
CASE(margin_ranking_loss, cj_margin_ranking_loss(X, Y, number(in[2], X), &(cj_margin_opts){ .reduction = R, .margin = H(1) }))
CASE(cosine_embedding_loss, cj_cosine_embedding_loss(X, Y, in[2], &(cj_margin_opts){ .reduction = R, .margin = H(1) / 10 }))
CASE(multi_margin_loss, cj_multi_margin_loss(X, Y, &(cj_margin_opts){ .reduction = R, .margin = H(1), .p = (double)A(2) }))
CASE(multi_margin_weighted, cj_multi_margin_loss(X, Y, &(cj_margin_opts){ .reduction = R, .weight = in[2] }))
CASE(multilabel_margin_loss, cj_multilabel_margin_loss(X, Y, &(cj_loss_opts){ .reduction = R }))
CASE(multilabel_soft_margin_loss, cj_multilabel_soft_margin_loss(X, number(Y, X), &(cj_loss_opts){ .reduction = R }))
CASE(multilabel_soft_margin_weighted, cj_multilabel_soft_margin_loss(X, number(Y, X), &(cj_loss_opts){ .reduction = R, .weight = in[2] }))
CASE(kl_div, cj_kl_div(X, number(Y, X), &(cj_kl_opts){ .reduction = R, .log_target = A(1) != 0 }))
CASE(kl_div_batch, cj_kl_div(X, Y, &(cj_kl_opts){ .batch_mean = true }))
CASE(soft_cross_entropy, cj_soft_cross_entropy(X, Y, &(cj_loss_opts){ .reduction = R, .label_smoothing = H(1) }))
CASE(cross_entropy_weighted, cj_cross_entropy(X, Y, &(cj_loss_opts){ .reduction = R, .label_smoothing = H(1), .weight = weights(c) }))
CASE(nll_weighted, cj_nll_loss(X, Y, &(cj_loss_opts){ .reduction = R, .weight = weights(c) }))
CASE(bce_weighted, cj_bce_with_logits(X, number(Y, X), &(cj_loss_opts){ .reduction = R, .weight = weights(c), .pos_weight = factors(c) }))
CASE(bce_positive, cj_bce_with_logits(X, Y, &(cj_loss_opts){ .reduction = R, .pos_weight = factors(c) }))
CASE(bce_loss_weighted, cj_bce_loss(X, number(Y, X), &(cj_loss_opts){ .reduction = R, .weight = weights(c) }))
CASE(triplet_margin_loss, cj_triplet_margin_loss(X, Y, in[2], &(cj_triplet_opts){ .reduction = R, .swap = A(1) != 0, .p = (double)A(2) }))
CASE(gaussian_nll_loss, cj_gaussian_nll_loss(X, Y, in[2], &(cj_likelihood_opts){ .reduction = R, .full = A(1) != 0 }))
CASE(poisson_nll_loss, cj_poisson_nll_loss(X, number(Y, X), &(cj_poisson_opts){ .reduction = R, .rate = A(1) != 0, .full = A(2) != 0 }))

static const parity_row losses[] = {
    ROW(squared_loss),
    ROW(huber_loss),
    ROW(smooth_l1_loss),
    ROW(soft_margin_loss),
    ROW(hinge_embedding_loss),
    ROW(margin_ranking_loss),
    ROW(cosine_embedding_loss),
    ROW(multi_margin_loss),
    ROW(multi_margin_weighted),
    ROW(multilabel_margin_loss),
    ROW(multilabel_soft_margin_loss),
    ROW(multilabel_soft_margin_weighted),
    ROW(kl_div),
    ROW(kl_div_batch),
    ROW(soft_cross_entropy),
    ROW(cross_entropy_weighted),
    ROW(nll_weighted),
    ROW(bce_weighted),
    ROW(bce_positive),
    ROW(bce_loss_weighted),
    ROW(triplet_margin_loss),
    ROW(gaussian_nll_loss),
    ROW(poisson_nll_loss),
};
/* clang-format on */

static void test_activations(void **state)
{
    (void)state;
    assert_int_equal(run_cases("activations.txt", activations, sizeof activations / sizeof *activations), 102);
    assert_int_equal(wrong, 0);
}

static void test_losses(void **state)
{
    (void)state;
    assert_int_equal(run_cases("losses.txt", losses, sizeof losses / sizeof *losses), 132);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_activations), cmocka_unit_test(test_losses) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
