/* The catalogue's rows on decoders of variational autoencoders, vae.* by name: likelihoods of pixels in closed form. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 8);

static cj_tensor *normal(cj_shape s) { return cj_randn(c, s, .dtype = CJ_F64); }

/* vae.dec-bernoulli: log-likelihood is minus the summed binary cross-entropy; one logit or two; pixels of 0 … 127 are 0, of 128 … 255 are 1 */
static void vae_dec_bernoulli(void **state)
{
    (void)state;
    enum { N = 3, D = 28 * 28 };
    cj_tensor *bytes = cj_randint(c, 0, 256, CJ_SHAPE(N, D)), *on = cj_ge_scalar(bytes, 128), *x = cj_cast(on, CJ_F64);
    cj_tensor *a = cj_mul_scalar(normal(CJ_SHAPE(N, D)), 3);
    double *logit = values_of(a), *pixel = values_of(x), *byte = values_of(bytes), sum = 0;
    for (int i = 0; i < N * D; i++) {
        assert_true(pixel[i] == (byte[i] > 127));
        double p = 1 / (1 + exp(-logit[i]));
        sum += pixel[i] != 0 ? log(p) : log(1 - p);
    }
    assert_near(-cj_item(cj_bce_with_logits(a, x, .reduction = CJ_SUM)), sum, 1e-9 * fabs(sum));
    cj_tensor *two = cj_stack(CJ_TENSORS(cj_zeros_like(a), a), 2, -1); /* 28 x 28 x 2 */
    cj_tensor *pairs = cj_cross_entropy(two, cj_cast(on, CJ_I64), .reduction = CJ_NONE);
    assert_near(distance(pairs, cj_bce_with_logits(a, x, .reduction = CJ_NONE)), 0, 1e-6);
    int64_t edge[4] = { 0, 127, 128, 255 };
    double *e = values_of(cj_ge_scalar(cj_from_i64(c, edge, CJ_SHAPE(4)), 128));
    assert_true(e[0] == 0 && e[1] == 0 && e[2] == 1 && e[3] == 1);
    free(logit), free(pixel), free(byte), free(e);
}

static cj_tensor *categorical(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_cross_entropy(in[0], user, .reduction = CJ_SUM);
}

/* vae.dec-categorical: 784 log 256 = 4347.4 nats for uniform logits; rows sum to 1; draws are intensities */
static void vae_dec_categorical(void **state)
{
    (void)state;
    cj_tensor *pixels = cj_randint(c, 0, 256, CJ_SHAPE(784)), *flat = cj_zeros(c, CJ_SHAPE(784, 256), CJ_F64);
    assert_near(cj_item(cj_cross_entropy(flat, pixels, .reduction = CJ_SUM)), 4347.4, 0.05);
    assert_near(cj_item(cj_cross_entropy(flat, pixels, .reduction = CJ_SUM)), 784 * log(256), 1e-9);
    cj_tensor *logits = normal(CJ_SHAPE(784, 256)), *sums = cj_sum(cj_softmax(logits, -1), .axes = CJ_AXIS(-1));
    assert_near(distance(sums, cj_ones_like(sums)), 0, 1e-13);
    cj_tensor *few = normal(CJ_SHAPE(3, 256));
    cj_gradcheck_result r = cj_gradcheck(c, categorical, cj_randint(c, 0, 256, CJ_SHAPE(3)), &few, 1);
    if (!r.ok) fail_msg("%s", r.what);
    cj_tensor *drawn = cj_dist_sample(cj_dist_categorical(logits), CJ_SHAPE(20)); /* 20 images */
    assert_true(cj_size(drawn, 0) == 20 && cj_size(drawn, 1) == 784 && cj_dtype_of(drawn) == CJ_I64);
    assert_true(cj_item(cj_min(drawn)) >= 0 && cj_item(cj_max(drawn)) <= 255);
    cj_tensor *sure = cj_mul_scalar(cj_cast(cj_one_hot(pixels, 256), CJ_F64), 1000); /* all the mass on one intensity: it is drawn */
    assert_near(distance(cj_squeeze(cj_dist_sample(cj_dist_categorical(sure), CJ_SHAPE(1)), 0), pixels), 0, 0);
}

/* vae.dec-gaussian: |x - mu|²/2 + d/2 log 2 pi at variance 1; the best variance is the mean squared residual */
static void vae_dec_gaussian(void **state)
{
    (void)state;
    enum { N = 400, D = 5 };
    cj_tensor *mu = normal(CJ_SHAPE(N, D)), *x = cj_add(mu, cj_mul(normal(CJ_SHAPE(N, D)), F64(c, CJ_SHAPE(D), .1, .5, 1, 2, 3)));
    cj_tensor *one = cj_ones(c, CJ_SHAPE(N, D), CJ_F64), *squares = cj_square(cj_sub(x, mu));
    double nll = cj_item(cj_gaussian_nll_loss(mu, x, one, .full = true, .reduction = CJ_SUM));
    assert_near(nll, 0.5 * cj_item(cj_sum(squares)) + 0.5 * N * D * log(2 * M_PI), 1e-9 * nll);
    cj_tensor *want = cj_mean(squares, .axes = CJ_AXIS(0)), *logvar = cj_zeros(c, CJ_SHAPE(D), CJ_F64), *g;
    for (int step = 0; step < 200; step++) { /* descent on the logarithm of the variance, which the decoder puts out */
        cj_scope s = cj_scope_open(c);
        cj_tensor *at = cj_require_grad(logvar);
        cj_tensor *loss = cj_gaussian_nll_loss(mu, x, cj_expand(cj_exp(at), CJ_SHAPE(N, D)), .full = true, .reduction = CJ_SUM);
        assert_true(cj_grad(cj_mul_scalar(loss, 1.0 / N), &at, 1, &g));
        logvar = cj_scope_return(s, cj_sub(logvar, cj_clamp(cj_mul_scalar(g, 1.2), -0.5, 0.5))); /* curvature 1/2 at the optimum */
    }
    assert_near(distance(cj_exp(logvar), want), 0, 1e-9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(vae_dec_bernoulli), TEST(vae_dec_categorical), TEST(vae_dec_gaussian) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
