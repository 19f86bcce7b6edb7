/* The catalogue's rows on variational autoencoders, vae.* by name: likelihoods of pixels in closed form, and the whole model. */
#include "zoo.h"

extern const cj_model cj_model_vae;

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

/* ---- the whole ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_module *vae(const char *const *settings) { return zoo_build(c, &cj_model_vae, (cj_model_data){ .inputs = 64 }, settings); }
static cj_module *part(cj_module *m, const char *name) { return cj_module_find(m, name); }

/* log p(x|z) [rows, points] of x [rows, 64] at codes z [rows, points, 1]. */
static cj_tensor *likelihood(cj_module *m, cj_tensor *x, cj_tensor *z)
{
    cj_tensor *logits = cj_forward(part(m, "fc4"), cj_relu(cj_forward(part(m, "fc3"), z))),
              *all = cj_expand(cj_unsqueeze(x, 1), cj_shape_of(logits));
    return cj_neg(cj_sum(cj_cast(cj_bce_with_logits(logits, all, .reduction = CJ_NONE), CJ_F64), .axes = CJ_AXIS(2)));
}

typedef struct bounds {
    double elbo, log_p, weighted; /* means over rows: the bound and log p(x) by quadrature, and log p by 100 draws weighted by importance */
} bounds;
static bounds bounds_of(cj_module *m, cj_tensor *x)
{
    enum { POINTS = 601 };
    int64_t rows = cj_size(x, 0);
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    cj_tensor *h = cj_relu(cj_forward(part(m, "fc1"), x)), *mu = cj_forward(part(m, "fc21"), h), *logvar = cj_forward(part(m, "fc22"), h),
              *sigma = cj_exp(cj_mul_scalar(logvar, 0.5));
    cj_tensor *t = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, POINTS, 1, CJ_F32), 12.0 / (POINTS - 1)), -6); /* -6 … 6 */
    cj_tensor *weight = cj_mul_scalar(cj_exp(cj_mul_scalar(cj_square(cj_cast(t, CJ_F64)), -0.5)), 12.0 / (POINTS - 1) / sqrt(2 * M_PI));
    cj_tensor *code = cj_unsqueeze(cj_add(mu, cj_mul(sigma, t)), 2),
              *prior = cj_expand(cj_reshape(t, CJ_SHAPE(1, POINTS, 1)), CJ_SHAPE(rows, POINTS, 1));
    cj_tensor *kl = cj_mul_scalar(cj_sum(cj_sub(cj_add(cj_exp(logvar), cj_square(mu)), cj_add_scalar(logvar, 1))), 0.5 / (double)rows);
    bounds b;
    b.elbo = cj_item(cj_sum(cj_mul(likelihood(m, x, code), weight))) / (double)rows - cj_item(kl);
    b.log_p = cj_item(cj_mean(cj_logsumexp(cj_add(likelihood(m, x, prior), cj_log(weight)), .axes = CJ_AXIS(1))));
    cj_tensor *eps = cj_randn(c, CJ_SHAPE(rows, 100)), *z = cj_add(mu, cj_mul(sigma, eps));
    cj_tensor *ratio =
        cj_add(cj_mul_scalar(cj_sub(cj_square(eps), cj_square(z)), 0.5), cj_mul_scalar(logvar, 0.5)); /* log p(z) - log q(z|x) */
    b.weighted =
        cj_item(cj_mean(cj_logsumexp(cj_add(likelihood(m, x, cj_unsqueeze(z, 2)), cj_cast(ratio, CJ_F64)), .axes = CJ_AXIS(1)))) - log(100);
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return b;
}

static double loss_with_noise(cj_module *m, cj_tensor *x, uint64_t seed)
{
    cj_seed(c, seed);
    bool was = cj_no_grad(c);
    double v = cj_item(cj_model_vae.loss(m, x, NULL));
    cj_grad_mode(c, was);
    return v;
}

/* vae.vae */
static void vae_vae(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *x = cj_cast(cj_gt_scalar(d->train_x, 0.5), CJ_F32), *few = cj_contiguous(cj_slice(x, 0, 0, 16, 1)),
              *y = cj_zeros(c, CJ_SHAPE(cj_size(x, 0)), CJ_I64);
    /* the gradient with the noise held, against differences along itself */
    cj_module *m = vae(WITH("hidden=24", "latent=1"));
    cj_params *p = cj_module_params(m);
    cj_tensor *w[16], *g[16];
    int n = cj_params_count(p);
    for (int i = 0; i < n; i++) w[i] = cj_params_at(p, i);
    cj_seed(c, 5);
    assert_true(cj_grad(cj_model_vae.loss(m, few, NULL), w, n, g));
    double squares = 0, value[2];
    for (int i = 0; i < n; i++) squares += cj_item(cj_sum(cj_square(g[i])));
    const double step = 2e-3;
    for (int side = 0; side < 2; side++) {
        bool was = cj_no_grad(c);
        for (int i = 0; i < n; i++) cj_add_(w[i], g[i], side ? -2 * step : step);
        cj_grad_mode(c, was);
        value[side] = loss_with_noise(m, few, 5);
    }
    assert_near((value[0] - value[1]) / (2 * step), squares, 0.02 * squares);
    /* one draw per row: right on average */
    cj_examples e;
    cj_tensor *rows = cj_keep(x), *labels = cj_keep(y);
    assert_true(cj_examples_of_rows(rows, labels, &e));
    bounds before = bounds_of(m, few);
    assert_true(cj_train(m, &e, .task = CJ_TASK_GENERATE, .model = &cj_model_vae, .steps = 400, .batch = 64, .lr = 5e-3).finished);
    bounds after = bounds_of(m, few);
    double mean = 0, square = 0;
    enum { DRAWS = 600 };
    for (int i = 0; i < DRAWS; i++) {
        cj_scope inner = cj_scope_open(c);
        double v = -loss_with_noise(m, few, 1000 + (uint64_t)i);
        mean += v / DRAWS, square += v * v / DRAWS;
        cj_scope_close(inner);
    }
    double error = sqrt((square - mean * mean) / DRAWS);
    print_message("bound %.3f -> %.3f; by draws %.3f +- %.3f; log p %.3f, by importance %.3f\n", before.elbo, after.elbo, mean, error,
                  after.log_p, after.weighted);
    assert_near(mean, after.elbo, 4 * error);
    assert_true(after.elbo > before.elbo + 5 && after.elbo <= after.log_p && after.elbo <= after.weighted);
    assert_near(after.weighted, after.log_p, 0.5);
    /* samples look like digits to a classifier that knows digits */
    cj_module *judge = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_linear(c, 64, 10));
    cj_optim *o = cj_adam(cj_module_params(judge), .lr = 0.005);
    for (int i = 0; i < 300; i++) {
        cj_scope inner = cj_scope_open(c);
        cj_minimise(o, cj_cross_entropy(cj_forward(judge, x), d->train_y));
        cj_scope_close(inner);
    }
    cj_module *big = vae(WITH("hidden=128", "latent=8"));
    double sure[2], far[2], kinds = 0; /* far: the mean distance to the nearest training digit */
    for (int trained = 0; trained < 2; trained++) {
        if (trained)
            assert_true(
                cj_train(big, &e, .task = CJ_TASK_GENERATE, .model = &cj_model_vae, .steps = 1200, .batch = 64, .lr = 3e-3).finished);
        cj_scope inner = cj_scope_open(c);
        bool was = cj_no_grad(c);
        cj_seed(c, 6);
        cj_tensor *drawn = cj_cast(cj_gt_scalar(cj_model_vae.sample(big, 300), 0.5), CJ_F32),
                  *prob = cj_softmax(cj_forward(judge, drawn), -1);
        far[trained] = cj_item(cj_mean(cj_min(cj_cdist(drawn, x, 2), .axes = CJ_AXIS(1))));
        sure[trained] = cj_item(cj_mean(cj_max(prob, .axes = CJ_AXIS(-1))));
        cj_tensor *each = cj_sum(cj_one_hot(cj_argmax(prob, .axes = CJ_AXIS(-1)), 10), .axes = CJ_AXIS(0));
        kinds = cj_item(cj_sum(cj_cast(cj_ge_scalar(each, 10), CJ_I64)));
        cj_grad_mode(c, was);
        cj_scope_close(inner);
    }
    cj_tensor *test = cj_cast(cj_gt_scalar(d->test_x, 0.5), CJ_F32);
    double real = cj_item(cj_mean(cj_max(cj_softmax(cj_forward(judge, test), -1), .axes = CJ_AXIS(-1)))),
           near = cj_item(cj_mean(cj_min(cj_cdist(test, x, 2), .axes = CJ_AXIS(1))));
    print_message("samples: a classifier is sure with %.3f (of real digits %.3f), %.0f of 10 kinds; nearest training digit at %.2f (of "
                  "real ones %.2f, before training %.2f)\n",
                  sure[1], real, kinds, far[1], near, far[0]);
    assert_true(sure[1] > 0.9 * real && kinds >= 8 && far[1] < 1.2 * near && far[0] > 1.5 * near);
    cj_release(rows);
    cj_release(labels);
    cj_dataset_free(d);
    cj_scope_close(s);
}

/* ---- linear: principal components ----------------------------------------------------------------------------------------------------------------------------- */

enum { ROWS = 300, DIM = 5, CODE = 2 };

/* Minus the bound per row, in closed form: q(z|x) = N(V x, diag e^u), p(x|z) = N(W z, e^s): 1/2 of
 *     DIM (log 2 pi + s) + (mean |x - W V x|² + sum_j e^(u_j) |W_j|²)/e^s + mean |V x|² + sum_j (e^(u_j) - 1 - u_j) */
static cj_tensor *linear_bound(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *x = user, *W = in[0], *V = in[1], *u = in[2], *noise = in[3];
    cj_tensor *mean = cj_matmul(x, cj_t(V)), *left = cj_sub(x, cj_matmul(mean, cj_t(W))), *spread = cj_exp(u);
    cj_tensor *error =
        cj_add(cj_mul_scalar(cj_sum(cj_square(left)), 1.0 / ROWS), cj_sum(cj_mul(cj_sum(cj_square(W), .axes = CJ_AXIS(0)), spread)));
    cj_tensor *kl = cj_add(cj_mul_scalar(cj_sum(cj_square(mean)), 1.0 / ROWS), cj_sum(cj_sub(spread, cj_add_scalar(u, 1))));
    cj_tensor *fit = cj_add(cj_mul_scalar(cj_add_scalar(noise, log(2 * M_PI)), DIM), cj_mul(error, cj_exp(cj_neg(noise))));
    return cj_mul_scalar(cj_add(cj_sum(fit), kl), 0.5);
}

/* vae.linear-ppca: the best bound of a linear model is the likelihood of probabilistic principal components (Tipping & Bishop 1999) */
static void vae_linear_ppca(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_add(cj_matmul(normal(CJ_SHAPE(ROWS, CODE)), cj_mul_scalar(normal(CJ_SHAPE(CODE, DIM)), 1.5)),
                          cj_mul_scalar(normal(CJ_SHAPE(ROWS, DIM)), 0.6));
    x = cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true));
    cj_eigen e = cj_eigh(cj_mul_scalar(cj_matmul(cj_t(x), x), 1.0 / ROWS));
    double *w = values_of(e.values), rest = 0, log_likelihood = -DIM * log(2 * M_PI) - DIM;
    for (int i = 0; i < DIM - CODE; i++) rest += w[i] / (DIM - CODE);
    for (int i = DIM - CODE; i < DIM; i++) log_likelihood -= log(w[i]);
    log_likelihood = (log_likelihood - (DIM - CODE) * log(rest)) / 2;
    cj_tensor *in[4] = { cj_keep(cj_mul_scalar(normal(CJ_SHAPE(DIM, CODE)), 0.3)), cj_keep(cj_mul_scalar(normal(CJ_SHAPE(CODE, DIM)), 0.3)),
                         cj_keep(cj_zeros(c, CJ_SHAPE(CODE), CJ_F64)), cj_keep(cj_zeros(c, CJ_SCALAR, CJ_F64)) };
    cj_solution out;
    assert_true(cj_lbfgs(c, linear_bound, x, in, 4, &out, .iterations = 500));
    print_message("linear: bound %.6f, likelihood of the principal components %.6f; variance of the noise %.4f (%.4f)\n", -out.value,
                  log_likelihood, exp(cj_item(in[3])), rest);
    assert_near(-out.value, log_likelihood, 1e-3);
    assert_true(-out.value <= log_likelihood + 1e-9); /* a bound: the gap is the divergence of q from the posterior */
    assert_near(exp(cj_item(in[3])), rest, 1e-2 * rest);
    /* the columns of the decoder lie in the space of the two largest components */
    cj_tensor *small = cj_slice(e.vectors, 1, 0, DIM - CODE, 1), *across = cj_matmul(cj_t(small), in[0]);
    assert_near(cj_item(cj_max(cj_abs(across))), 0, 1e-2);
    free(w);
    for (int i = 0; i < 4; i++) cj_release(in[i]);
    cj_scope_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(vae_dec_bernoulli), TEST(vae_dec_categorical), TEST(vae_dec_gaussian), TEST(vae_vae),
                                        TEST(vae_linear_ppca) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
