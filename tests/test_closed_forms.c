/* Every regulariser and every form of output that the headers offer, against its closed form; derivatives against the formula or differences. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 67);

static const cj_module_type holder = { "Holder", NULL, NULL };

/* w = [[3, 0], [0, -4]] and b = [1, -2]: singular values 4 and 3 */
static cj_module *two_parameters(void)
{
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_module_param(m, "w", F64(c, CJ_SHAPE(2, 2), 3, 0, 0, -4));
    cj_module_param(m, "b", F64(c, CJ_SHAPE(2), 1, -2));
    return m;
}

/* the term's value, and its gradient at w, at b */
static void assert_term(cj_tensor *term, cj_params *p, double value, const double *dw, const double *db)
{
    cj_tensor *in[] = { cj_params_at(p, 0), cj_params_at(p, 1) }, *g[2];
    assert_near(cj_item(term), value, 1e-12);
    assert_true(cj_grad(term, in, 2, g, .allow_unused = true));
    assert_near(distance(g[0], f64(c, dw, CJ_SHAPE(2, 2))), 0, 1e-12);
    assert_near(distance(g[1], f64(c, db, CJ_SHAPE(2))), 0, 1e-12);
}

static void penalties(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_params *p = cj_module_params(two_parameters());
    assert_term(cj_l1_penalty(p), p, 10, (double[]){ 1, 0, 0, -1 }, (double[]){ 1, -1 });
    assert_term(cj_l2_penalty(p), p, 30, (double[]){ 6, 0, 0, -8 }, (double[]){ 2, -4 });
    assert_term(cj_elastic_net_penalty(p, 0.5, 0.1), p, 5 + 3, (double[]){ 0.5 + 0.6, 0, 0, -0.5 - 0.8 },
                (double[]){ 0.5 + 0.2, -0.5 - 0.4 });
    assert_term(cj_tikhonov_penalty(p, 0.2), p, 0.1 * 25, (double[]){ 0.6, 0, 0, -0.8 }, (double[]){ 0, 0 });
    assert_term(cj_spectral_penalty(p, 0.2), p, 0.1 * 16, (double[]){ 0, 0, 0, -0.8 }, (double[]){ 0, 0 });
    assert_ok(c);
    cj_scope_close(s);
}

/* -log N(w; 0, s²) = w²/(2 s²) + log s + log(2π)/2; -log Laplace(w; 0, b) = |w|/b + log 2b */
static void priors(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_params *p = cj_module_params(two_parameters());
    cj_tensor *zero = F64(c, CJ_SCALAR, 0), *half = F64(c, CJ_SCALAR, 0.5);
    assert_term(cj_prior_penalty(p, cj_dist_normal(zero, half)), p, 30 * 2 + 6 * (log(0.5) + 0.5 * log(2 * M_PI)),
                (double[]){ 12, 0, 0, -16 }, (double[]){ 4, -8 });
    assert_term(cj_prior_penalty(p, cj_dist_laplace(zero, half)), p, 20, (double[]){ 2, 0, 0, -2 }, (double[]){ 2, -2 });
    /* the maximum of the posterior: y_i = w + noise of variance 1, w ~ N(0, s²): sum y / (n + 1/s²) */
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", F64(c, CJ_SCALAR, 7.5 / (3 + 4))), *y = F64(c, CJ_SHAPE(3), 1, 2, 4.5), *g;
    cj_tensor *loss = cj_add(cj_gaussian_nll_loss(w, y, F64(c, CJ_SCALAR, 1), .reduction = CJ_SUM),
                             cj_prior_penalty(cj_module_params(m), cj_dist_normal(zero, half)));
    assert_true(cj_grad(loss, &w, 1, &g));
    assert_near(cj_item(g), 0, 1e-14);
    assert_poisoned(CJ_ESHAPE, "prior_penalty: the prior gives",
                    cj_prior_penalty(p, cj_dist_normal(cj_zeros(c, CJ_SHAPE(2, 2, 2), CJ_F64), half)));
    cj_scope_close(s);
}

static void norm_constraint(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *w = cj_keep(F64(c, CJ_SHAPE(3, 2), 3, 4, 0.3, 0.4, -6, 8));
    cj_max_norm_(w, 2.5);
    assert_near(distance(w, F64(c, CJ_SHAPE(3, 2), 1.5, 2, 0.3, 0.4, -1.5, 2)), 0, 1e-15); /* the row inside keeps its bits */
    assert_true(value_at(w, 2) == 0.3 && value_at(w, 3) == 0.4);
    cj_release(w);
    cj_scope_close(s);
}

/* y = W x + b has the Jacobian W: the penalty is |W|² whatever x is, and 2 W its gradient; of tanh(W x) it is sum (1 - y_i²)² |W_i|² */
static void jacobian(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_linear(c, 3, 2), *bent = cj_sequential(c, m, cj_tanh_layer(c));
    cj_tensor *w = cj_params_at(cj_module_params(m), 0), *x = cj_randn(c, CJ_SHAPE(5, 3)), *g, *term = cj_jacobian_penalty(m, x);
    assert_near(cj_item(term), cj_item(cj_sum(cj_square(w))), 1e-6);
    assert_true(cj_grad(term, &w, 1, &g));
    assert_near(distance(g, cj_mul_scalar(cj_detach(w), 2)), 0, 1e-6);
    cj_tensor *y = cj_forward(bent, x), *slope = cj_add_scalar(cj_neg(cj_square(y)), 1); /* [5, 2] */
    cj_tensor *rows = cj_sum(cj_square(w), .axes = CJ_AXIS(1));
    double expected = cj_item(cj_sum(cj_mul(cj_square(slope), rows))) / 5;
    assert_near(cj_item(cj_jacobian_penalty(bent, x)), expected, 1e-6);
    cj_scope_close(s);
}

/* ---- outputs that are distributions -------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *mixture_fn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_mixture_nll_loss(in[0], in[1], in[2], user);
}

static void mixture_density(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    /* weights 1/4 and 3/4, N(0, 1) and N(2, 1/4), y = 1: densities by hand */
    double first = exp(-0.5) / sqrt(2 * M_PI), second = 2 * exp(-2) / sqrt(2 * M_PI);
    cj_tensor *y = F64(c, CJ_SHAPE(1), 1),
              *in[] = { F64(c, CJ_SHAPE(1, 2), 0, log(3)), F64(c, CJ_SHAPE(1, 2), 0, 2), F64(c, CJ_SHAPE(1, 2), 1, -0.5) };
    cj_tensor *loss = cj_mixture_nll_loss(in[0], in[1], in[2], y);
    assert_near(cj_item(loss), -log(0.25 * first + 0.75 * second), 1e-14);
    /* the gradient of the logits is weight - responsibility, of a mean responsibility·(m - y)/s² */
    for (int i = 0; i < 3; i++) in[i] = cj_require_grad(in[i]);
    cj_tensor *g[3];
    assert_true(cj_grad(cj_mixture_nll_loss(in[0], in[1], in[2], y), in, 3, g));
    double r = 0.25 * first / (0.25 * first + 0.75 * second);
    assert_near(distance(g[0], F64(c, CJ_SHAPE(1, 2), 0.25 - r, r - 0.25)), 0, 1e-14);
    assert_near(distance(g[1], F64(c, CJ_SHAPE(1, 2), -r, (1 - r) * 4)), 0, 1e-13);
    assert_true(cj_gradcheck(c, mixture_fn, y, in, 3, .second_order = true).ok);
    /* one component is the Gaussian; a mixture of the library's distributions is the same density */
    cj_tensor *mean = cj_randn(c, CJ_SHAPE(4, 3), .dtype = CJ_F64),
              *scale = cj_add_scalar(cj_rand(c, CJ_SHAPE(4, 3), .dtype = CJ_F64), 0.2),
              *logits = cj_randn(c, CJ_SHAPE(4, 3), .dtype = CJ_F64), *t = cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64);
    cj_tensor *one = cj_mixture_nll_loss(cj_slice(logits, 1, 0, 1, 1), cj_slice(mean, 1, 0, 1, 1), cj_slice(scale, 1, 0, 1, 1), t);
    assert_near(cj_item(one), cj_item(cj_gaussian_scale_nll_loss(cj_select(mean, 1, 0), t, cj_select(scale, 1, 0))), 1e-14);
    cj_tensor *density = cj_dist_log_prob(cj_dist_mixture(logits, cj_dist_normal(mean, scale)), t);
    assert_near(distance(cj_neg(density), cj_mixture_nll_loss(logits, mean, scale, t, .reduction = CJ_NONE)), 0, 1e-13);
    assert_near(cj_item(cj_mixture_nll_loss(logits, mean, scale, t, .reduction = CJ_SUM)), -cj_item(cj_sum(density)), 1e-12);
    assert_poisoned(CJ_ESHAPE, "mixture_nll_loss: components [4, 3], target [4, 3]; [.., K] and [..] expected",
                    cj_mixture_nll_loss(logits, mean, scale, mean));
    assert_poisoned(CJ_EVALUE, "mixture_nll_loss: eps is -1", cj_mixture_nll_loss(logits, mean, scale, t, .eps = -1));
    cj_scope_close(s);
}

/* y is x² or -x² with equal chance: one Gaussian per x says 0 and a wide spread, two components say both branches */
static void mixture_network(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 256 };
    cj_tensor *x = cj_rand(c, CJ_SHAPE(N, 1)), *sign = cj_sub(cj_mul_scalar(cj_bernoulli(c, 0.5, CJ_SHAPE(N, 1)), 2), cj_scalar(c, 1));
    x = cj_add_scalar(x, 0.5);
    cj_tensor *y = cj_squeeze(cj_add(cj_mul(sign, cj_square(x)), cj_mul_scalar(cj_randn(c, CJ_SHAPE(N, 1)), 0.05)), 1);
    double found[2] = { INFINITY, INFINITY }; /* the best of the last steps: Adam leaves the valley now and then */
    for (int k = 1; k <= 2; k++) {
        cj_module *net = cj_sequential(c, cj_linear(c, 1, 16), cj_tanh_layer(c), cj_linear(c, 16, 3 * k));
        cj_optim *adam = cj_adam(cj_module_params(net), .lr = 0.02);
        for (int i = 0; i < 800; i++) {
            cj_scope step = cj_scope_open(c);
            cj_tensor *o = cj_forward(net, x), *part[3];
            for (int j = 0; j < 3; j++) part[j] = cj_slice(o, 1, j * k, (j + 1) * k, 1);
            cj_tensor *loss = cj_mixture_nll_loss(part[0], part[1], cj_exp(part[2]), y);
            if (i >= 700) found[k - 1] = fmin(found[k - 1], cj_item(loss));
            cj_minimise(adam, loss);
            cj_scope_close(step);
        }
    }
    /* the truth: log 2 + log 0.05 + log(2π)/2 + 1/2 = -0.884; one Gaussian cannot be better than the entropy bound of its variance, about 1.5 */
    assert_near(found[1], log(2) + log(0.05) + 0.5 * log(2 * M_PI) + 0.5, 0.25);
    assert_true(found[0] > 1);
    cj_scope_close(s);
}

/* ---- several networks ------------------------------------------------------------------------------------------------------------------------------------- */

static void ensembles(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *member[] = { cj_linear(c, 3, 4), cj_linear(c, 3, 4), cj_linear(c, 3, 4) }, *mean = cj_ensemble_layer(c, member, 3);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(5, 3)), *y[3];
    for (int i = 0; i < 3; i++) y[i] = cj_forward(member[i], x);
    /* the mean of linear maps is the linear map of the mean */
    assert_near(distance(cj_forward(mean, x), cj_mul_scalar(cj_add(cj_add(y[0], y[1]), y[2]), 1.0 / 3)), 0, 1e-6);
    cj_module *vote = cj_ensemble_layer(c, member, 3, .probabilities = true);
    cj_tensor *p = cj_exp(cj_forward(vote, x)), *q = cj_zeros(c, CJ_SHAPE(5, 4), CJ_F32);
    for (int i = 0; i < 3; i++) q = cj_add(q, cj_mul_scalar(cj_softmax(y[i], 1), 1.0 / 3));
    assert_near(distance(p, q), 0, 1e-6);
    assert_int_equal(cj_params_count(cj_module_params(mean)), 6);
    assert_string_equal(cj_params_name(cj_module_params(mean), 4), "2.weight");
    assert_refused(CJ_EVALUE, "ensemble layer: 0 members", cj_ensemble_layer(c, member, 0));
    cj_scope_close(s);
}

/* teacher and student [0, log 3]: KL 0, and the cross-entropy of class 1 is log(4/3); student [0, 0]: KL(p | uniform) at T = 1 is log 2 - H(1/4) */
static void distillation(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *teacher = F64(c, CJ_SHAPE(1, 2), 0, log(3)), *flat = F64(c, CJ_SHAPE(1, 2), 0, 0),
              *target = cj_from_i64(c, (int64_t[]){ 1 }, CJ_SHAPE(1));
    assert_near(cj_item(cj_distillation_loss(teacher, teacher, target, .lambda = 0.5)), 0.5 * log(4.0 / 3), 1e-12);
    double h = -(0.25 * log(0.25) + 0.75 * log(0.75));
    assert_near(cj_item(cj_distillation_loss(flat, teacher, NULL, .lambda = 1, .temperature = 1)), log(2) - h, 1e-12);
    /* gradient of the student's logits: lambda·T·(softmax(student/T) - softmax(teacher/T)) */
    cj_tensor *student = cj_require_grad(flat), *g, *soft = cj_softmax(cj_mul_scalar(teacher, 0.5), 1);
    assert_true(cj_grad(cj_distillation_loss(student, teacher, NULL, .lambda = 1, .temperature = 2), &student, 1, &g));
    assert_near(distance(g, cj_mul_scalar(cj_sub(cj_full(c, 0.5, CJ_SHAPE(1, 2), CJ_F64), soft), 2)), 0, 1e-12);
    cj_scope_close(s);
}

/* ---- spectral and weight norm ------------------------------------------------------------------------------------------------------------------------------ */

/* W = diag(2, 1), u = (1, 1)/sqrt 2: after k rounds v is in proportion to (2^(2k-1), 1), u to (4^k, 1), and sigma = uᵀWv */
static double diagonal_sigma(int rounds)
{
    double v = pow(2, 2 * rounds - 1), u = pow(4, rounds);
    return (2 * u * v + 1) / (sqrt(u * u + 1) * sqrt(v * v + 1));
}

typedef struct norms {
    cj_tensor *w, *u, *v;
} norms;
static void three_calls(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx, (void)in;
    norms *n = user;
    out[0] = cj_spectral_norm(n->w, n->u, .v = n->v).sigma;
    out[1] = cj_spectral_norm(n->w, n->u, .v = n->v).sigma;
    out[2] = cj_spectral_norm(n->w, n->u, .v = n->v, .eval = true).sigma;
}

static void spectral_norm_calls(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    norms n = { cj_keep(F64(c, CJ_SHAPE(2, 2), 2, 0, 0, 1)), cj_keep(cj_full(c, sqrt(0.5), CJ_SHAPE(2), CJ_F64)),
                cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F64)) };
    /* two calls in one scope are two rounds of the power method; one in evaluation sees their vectors and moves nothing */
    cj_scope step = cj_scope_open(c);
    cj_tensor *out[3], *x = F64(c, CJ_SCALAR, 0);
    three_calls(c, &n, NULL, out);
    for (int i = 0; i < 3; i++) assert_near(cj_item(out[i]), diagonal_sigma(i < 2 ? i + 1 : 2), 1e-14);
    assert_near(value_at(n.u, 0), sqrt(0.5), 1e-15); /* nothing is written before the scope closes */
    cj_scope_close(step);
    assert_near(value_at(n.u, 0), 16 / sqrt(257), 1e-14);
    /* the same in a captured step, and in its replays */
    cj_assign_(n.u, cj_full(c, sqrt(0.5), CJ_SHAPE(2), CJ_F64));
    cj_plan *plan = cj_capture(c, three_calls, &n, &x, 1, out);
    for (int k = 0; k < 3; k++) {
        if (k) assert_true(cj_replay(plan, &x, out));
        for (int i = 0; i < 3; i++) assert_near(cj_item(out[i]), diagonal_sigma(2 * k + (i < 2 ? i + 1 : 2)), 1e-14);
    }
    assert_near(value_at(n.u, 0), pow(4, 6) / sqrt(pow(4, 12) + 1), 1e-14);
    cj_release(n.w), cj_release(n.u), cj_release(n.v);
    cj_scope_close(s);
}

/* A layer that two passes of one step share has the bits of two steps with one pass each. */
static void spectral_norm_layer_passes(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *layer[2];
    cj_rng_state start = cj_rng_get(c);
    for (int i = 0; i < 2; i++) {
        cj_rng_set(c, start);
        layer[i] = cj_spectral_norm_layer(cj_linear(c, 40, 30));
    }
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 40)), *y[2][2];
    cj_scope together = cj_scope_open(c);
    for (int i = 0; i < 2; i++) y[0][i] = cj_keep(cj_forward(layer[0], x));
    cj_scope_close(together);
    for (int i = 0; i < 2; i++) {
        cj_scope alone = cj_scope_open(c);
        y[1][i] = cj_keep(cj_forward(layer[1], x));
        cj_scope_close(alone);
    }
    for (int i = 0; i < 2; i++) assert_true(same_bits(y[0][i], y[1][i]));
    assert_false(same_bits(y[0][0], y[0][1])); /* 15 rounds at its making are not the limit */
    for (int i = 0; i < 2; i++) {
        cj_module_train(layer[i], false);
        cj_release(y[0][i]), cj_release(y[1][i]);
    }
    assert_true(same_bits(cj_forward(layer[0], x), cj_forward(layer[1], x)));
    /* weight norm: rows of weight_v are turned into unit vectors times weight_g */
    cj_module *wn = cj_weight_norm_layer(cj_linear(c, 2, 2, .no_bias = true), (cj_axes){ 0 });
    bool grad = cj_no_grad(c);
    cj_assign_(cj_params_find(cj_module_params(wn), "weight_v"), cj_from_f32(c, (float[]){ 3, 4, 0, 2 }, CJ_SHAPE(2, 2)));
    cj_assign_(cj_params_find(cj_module_params(wn), "weight_g"), cj_from_f32(c, (float[]){ 10, 1 }, CJ_SHAPE(2, 1)));
    cj_grad_mode(c, grad);
    assert_near(distance(cj_forward(wn, cj_eye(c, 2, CJ_F32)), cj_from_f32(c, (float[]){ 6, 0, 8, 1 }, CJ_SHAPE(2, 2))), 0, 1e-6);
    cj_scope_close(s);
}

/* ---- noise, masks, stopping ------------------------------------------------------------------------------------------------------------------------------------- */

/* dropout of ones with p: values 0 and 1/(1 - p), mean 1, variance p/(1 - p); the standard form 0 and 1, and 1 - p in evaluation */
static void dropout_and_noise(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 20000 };
    const double p = 0.3;
    cj_tensor *one = cj_ones(c, CJ_SHAPE(N), CJ_F32), *y = cj_forward(cj_dropout_layer(c, p), one);
    double mean = cj_item(cj_mean(y)), square = cj_item(cj_mean(cj_square(y)));
    assert_near(mean, 1, 4 * sqrt(p / (1 - p) / N));
    assert_near(square, 1 / (1 - p), 4 * sqrt(p / (1 - p) / N) / (1 - p)); /* y² = y/(1 - p) */
    assert_near(cj_item(cj_max(y)), 1 / (1 - p), 1e-6);
    cj_module *standard = cj_dropout_layer(c, p, .standard = true), *noise = cj_noise_layer(c, 0.5);
    assert_near(cj_item(cj_max(cj_forward(standard, one))), 1, 0);
    cj_module_train(standard, false);
    assert_near(distance(cj_forward(standard, one), cj_full(c, 1 - p, CJ_SHAPE(N), CJ_F32)), 0, 1e-7);
    cj_tensor *added = cj_sub(cj_forward(noise, one), one);
    assert_near(cj_item(cj_mean(added)), 0, 4 * 0.5 / sqrt(N));
    assert_near(cj_item(cj_mean(cj_square(added))) / 0.25, 1, 4 * sqrt(2.0 / N));
    cj_module_train(noise, false);
    assert_near(distance(cj_forward(noise, one), one), 0, 0);
    /* u = (1, 2), v = (3, 1), value 4: error (4 - 5)² = 1, spread (1 - keep)/keep (9 + 4) */
    cj_tensor *u = F64(c, CJ_SHAPE(1, 2), 1, 2), *v = F64(c, CJ_SHAPE(1, 2), 3, 1), *value = F64(c, CJ_SHAPE(1, 1), 4),
              *seen = cj_ones_like(value);
    assert_near(cj_item(cj_dropout_factorisation_loss(value, seen, u, v, 0.25)), 1 + 3 * 13, 1e-12);
    /* a draw with replacement leaves out (1 - 1/n)^n of the rows, about 1/e */
    enum { ROWS = 4000 };
    cj_tensor *index = cj_bootstrap(c, ROWS), *count = cj_segment_sum(cj_ones(c, CJ_SHAPE(ROWS), CJ_F32), index, ROWS);
    assert_near(cj_item(cj_sum(count)), ROWS, 0);
    assert_near(cj_item(cj_mean(cj_cast(cj_eq_scalar(count, 0), CJ_F32))), pow(1 - 1.0 / ROWS, ROWS), 4 * sqrt(0.1 / ROWS));
    cj_scope_close(s);
}

static void masks_and_stopping(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *w = F64(c, CJ_SHAPE(2, 3), 0.1, -3, 2, -0.5, 0, 1);
    assert_near(distance(cj_magnitude_mask(w, 0.5), F64(c, CJ_SHAPE(2, 3), 0, 1, 1, 0, 0, 1)), 0, 0);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *p = cj_module_param(m, "w", w), *b = cj_module_param(m, "b", F64(c, CJ_SHAPE(1), 7));
    cj_pruning *r = cj_pruning_new(cj_module_params(m));
    bool grad = cj_no_grad(c);
    cj_assign_(p, F64(c, CJ_SHAPE(2, 3), 5, 4, 3, 2, 1, 0)), cj_assign_(b, F64(c, CJ_SHAPE(1), 8)); /* training */
    assert_true(cj_pruning_prune(r, 0.5));                                                          /* the three largest of now */
    assert_near(distance(cj_detach(p), F64(c, CJ_SHAPE(2, 3), 5, 4, 3, 0, 0, 0)), 0, 0);
    assert_near(distance(cj_pruning_mask(r, 0), F64(c, CJ_SHAPE(2, 3), 1, 1, 1, 0, 0, 0)), 0, 0);
    assert_null(cj_pruning_mask(r, 1)); /* a vector */
    cj_assign_(p, cj_ones(c, CJ_SHAPE(2, 3), CJ_F64));
    assert_true(cj_pruning_apply(r));
    assert_near(distance(cj_detach(p), F64(c, CJ_SHAPE(2, 3), 1, 1, 1, 0, 0, 0)), 0, 0);
    assert_true(cj_pruning_rewind(r)); /* the first values under the mask; the bias too */
    assert_near(distance(cj_detach(p), F64(c, CJ_SHAPE(2, 3), 0.1, -3, 2, 0, 0, 0)), 0, 0);
    assert_near(cj_item(b), 7, 0);
    /* losses 3, 1, 2, 2, 2 with patience 3: the best is call 1, the last call says stop */
    cj_early_stop *e = cj_early_stop_new(cj_module_params(m), 3);
    const double loss[] = { 3, 1, 2, 2, 2 };
    for (int i = 0; i < 5; i++) {
        cj_assign_(b, F64(c, CJ_SHAPE(1), i));
        assert_true(cj_early_stop_update(e, loss[i]) == (i == 4));
    }
    assert_int_equal(cj_early_stop_best(e), 1);
    assert_true(cj_early_stop_restore(e));
    assert_near(cj_item(b), 1, 0);
    cj_grad_mode(c, grad);
    cj_scope_close(s);
}

/* ---- memory -------------------------------------------------------------------------------------------------------------------------------------------------------- */

static double length_here(void *user) { return cj_item(cj_l2_penalty(user)); }
static cj_tensor *half_square(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_mul_scalar(cj_sum(cj_square(in[0])), 0.5);
}

/* Everything of this file and of landscapes that asks for memory, in a context of its own. True: no error. */
static bool session(counter *k)
{
    cj_ctx *own = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = k });
    if (!own) return false;
    cj_scope s = cj_scope_open(own);
    cj_module *member[] = { cj_linear(own, 3, 4), cj_linear(own, 3, 4) }, *all = cj_ensemble_layer(own, member, 2, .probabilities = true);
    cj_tensor *x = cj_randn(own, CJ_SHAPE(5, 3)), *y = cj_forward(all, x);
    cj_mixture_nll_loss(y, y, y, cj_select(y, 1, 0));
    cj_params *p = all ? cj_module_params(all) : NULL;
    cj_prior_penalty(p, cj_dist_normal(cj_scalar(own, 0), cj_scalar(own, 1)));
    double surface[9];
    cj_loss_surface(p, length_here, p, 3, 1, surface);
    cj_tensor *at = cj_keep(cj_cast(cj_rand(own, CJ_SHAPE(2)), CJ_F64));
    cj_critical_point(own, half_square, NULL, at);
    cj_conv_tuner *t = cj_conv_tuner_new(own);
    cj_conv_tuned(t, cj_randn(own, CJ_SHAPE(1, 1, 6, 6)), cj_randn(own, CJ_SHAPE(1, 1, 3, 3)), NULL);
    cj_conv_tuner_free(t);
    cj_spectral_norm_layer(cj_linear(own, 3, 4));
    cj_scope_close(s);
    bool ok = cj_ok(own);
    cj_ctx_free(own);
    return ok;
}
static void every_allocation_fails(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        counter k = { .fail_at = n };
        bool ok = session(&k);
        assert_balanced(&k);
        if (k.allocs < n) { /* none failed */
            assert_true(ok);
            assert_true(n > 30);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties),
        cmocka_unit_test(priors),
        cmocka_unit_test(norm_constraint),
        cmocka_unit_test(jacobian),
        cmocka_unit_test(mixture_density),
        cmocka_unit_test(mixture_network),
        cmocka_unit_test(ensembles),
        cmocka_unit_test(distillation),
        cmocka_unit_test(spectral_norm_calls),
        cmocka_unit_test(spectral_norm_layer_passes),
        cmocka_unit_test(dropout_and_noise),
        cmocka_unit_test(masks_and_stopping),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
