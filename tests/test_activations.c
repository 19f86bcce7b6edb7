/* The catalogue's family `act`: one test case per row, named after its id (docs/coverage.tsv); then what all activations have in common: finite far out, exact in
 * bf16 but for one rounding, and their errors.  Parity with PyTorch is in test_parity_losses.c, derivatives of all orders in `cajal selftest`. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 23);

static cj_tensor *randn(cj_shape s) { return (cj_randn)(c, s, &(cj_random_opts){ .dtype = CJ_F64 }); }
static cj_tensor *leaf(cj_tensor *x) { return cj_require_grad(x); }
/* d sum(y) / d x */
static cj_tensor *slope(cj_tensor *y, cj_tensor *x)
{
    cj_tensor *g = NULL;
    assert_true(cj_grad(cj_sum(y), &x, 1, &g));
    return g;
}
static double derivative_at(cj_tensor *(*fn)(cj_tensor *), double at)
{
    cj_tensor *x = leaf(F64(c, CJ_SHAPE(1), at));
    return value_at(slope(fn(x), x), 0);
}
static double at(cj_tensor *(*fn)(cj_tensor *), double x) { return value_at(fn(F64(c, CJ_SHAPE(1), x)), 0); }

typedef struct unary_fn {
    cj_tensor *(*fn)(cj_tensor *);
} unary_fn;
static cj_tensor *call(cj_ctx *unused, void *user, cj_tensor *const *in, int n)
{
    (void)unused, (void)n;
    return ((unary_fn *)user)->fn(in[0]);
}
static void assert_gradient(cj_tensor *(*fn)(cj_tensor *), cj_tensor *x)
{
    unary_fn u = { fn };
    cj_gradcheck_result r = cj_gradcheck(c, call, &u, &x, 1, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
}

/* clang-format off */
#define WITH(name, expression) static cj_tensor *name(cj_tensor *x) { return expression; }
WITH(heaviside, cj_heaviside(x))
WITH(leaky, cj_leaky_relu(x))
WITH(elu, cj_elu(x))
WITH(celu, cj_celu(x, .alpha = 2))
WITH(hardtanh, cj_hardtanh(x))
WITH(softshrink, cj_softshrink(x))
WITH(hardshrink, cj_hardshrink(x))
WITH(threshold, cj_threshold(x, 1, -3))
WITH(softplus_beta, cj_softplus_beta(x, .beta = 3))
WITH(softplus_threshold, cj_softplus_beta(x, .beta = 3, .threshold = 20))
WITH(gelu, cj_gelu(x))
WITH(gelu_tanh, cj_gelu(x, .tanh = true))
WITH(logit, cj_logit(x, .eps = 1e-3))
WITH(softmin, cj_softmin(x, 0))
WITH(softmax_cold, cj_softmax_temperature(x, 0, 0.01))
WITH(glu, cj_glu(x, 0))
WITH(reglu, cj_reglu(x, 0))
WITH(geglu, cj_geglu(x, 0))
WITH(swiglu, cj_swiglu(x, 0))
WITH(maxout, cj_maxout(x, 0, 2))
/* clang-format on */

/* ---- the rows of the catalogue ------------------------------------------------------------------------------------------------------------------ */

/* act.step */
static void act_step(void **state)
{
    (void)state;
    cj_tensor *z = F64(c, CJ_SHAPE(3), -1, 0, 1);
    assert_true(same_bits(cj_heaviside(z), F64(c, CJ_SHAPE(3), 0, 1, 1)));
    assert_true(same_bits(cj_heaviside(z, .at_zero = CJ_ZERO), F64(c, CJ_SHAPE(3), 0, 0, 1)));
    assert_true(same_bits(cj_heaviside(z, .at_zero = 0.1), F64(c, CJ_SHAPE(3), 0, 0.1, 1)));
    assert_true(same_bits(cj_hard_sign(z), F64(c, CJ_SHAPE(3), -1, 1, 1)));
    assert_near(at(heaviside, NAN), 0, 0);
    /* no net learns through them: the gradients of everything below are 0, not missing */
    cj_tensor *w = leaf(randn(CJ_SHAPE(4, 3))), *b = leaf(randn(CJ_SHAPE(4))), *x = leaf(randn(CJ_SHAPE(8, 3))),
              *v = leaf(randn(CJ_SHAPE(4)));
    for (int k = 0; k < 2; k++) {
        cj_tensor *h = cj_linear_op(x, w, b), *y = cj_matmul(k ? cj_hard_sign(h) : cj_heaviside(h), v), *g[4];
        assert_true(cj_grad(cj_mean(cj_square(y)), CJ_TENSORS(w, b, x, v), 4, g));
        for (int i = 0; i < 3; i++) assert_near(cj_item(cj_sum(cj_abs(g[i]))), 0, 0);
        assert_true(cj_item(cj_sum(cj_abs(g[3]))) > 0);
    }
}

/* act.identity */
static void act_identity(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(7, 5)), *w1 = randn(CJ_SHAPE(6, 5)), *w2 = randn(CJ_SHAPE(4, 6)), *w3 = randn(CJ_SHAPE(3, 4));
    cj_tensor *b1 = randn(CJ_SHAPE(6)), *b2 = randn(CJ_SHAPE(4)), *b3 = randn(CJ_SHAPE(3));
    cj_tensor *deep = cj_linear_op(cj_linear_op(cj_linear_op(x, w1, b1), w2, b2), w3, b3);
    cj_tensor *w = cj_matmul(w3, cj_matmul(w2, w1));
    cj_tensor *b = cj_add(cj_matmul(w3, cj_add(cj_matmul(w2, b1), b2)), b3);
    assert_near(distance(deep, cj_linear_op(x, w, b)), 0, 1e-12 * cj_item(cj_max(cj_abs(deep))));
}

/* act.relu */
static void act_relu(void **state)
{
    (void)state;
    cj_tensor *z = cj_add(randn(CJ_SHAPE(40)), F64(c, CJ_SCALAR, 0.01));
    assert_gradient(cj_relu, z);
    assert_true(same_bits(cj_relu(cj_mul_scalar(z, 4)), cj_mul_scalar(cj_relu(z), 4)));
    assert_near(distance(cj_relu(z), cj_mul_scalar(cj_add(z, cj_abs(z)), 0.5)), 0, 0);
    assert_near(derivative_at(cj_relu, 0), 0, 0);
    /* d relu(Wx)_k / dW_ij = 1[W_i·x > 0]·x_j·delta_ik: unit 0 is active, unit 1 is not */
    cj_tensor *w = leaf(F64(c, CJ_SHAPE(2, 2), 1, 2, -1, -3)), *x = leaf(F64(c, CJ_SHAPE(2), 0.5, 0.25)), *g[2];
    cj_tensor *h = cj_relu(cj_matmul(w, x));
    assert_true(cj_grad(cj_select(h, 0, 0), CJ_TENSORS(w, x), 2, g, .retain = true));
    assert_true(same_bits(g[0], F64(c, CJ_SHAPE(2, 2), 0.5, 0.25, 0, 0)));
    assert_true(cj_grad(cj_select(h, 0, 1), CJ_TENSORS(w, x), 2, g));
    assert_near(cj_item(cj_sum(cj_abs(g[0]))) + cj_item(cj_sum(cj_abs(g[1]))), 0, 0);
}

/* act.leaky_relu */
static void act_leaky_relu(void **state)
{
    (void)state;
    assert_near(derivative_at(leaky, 2), 1, 0);
    assert_near(derivative_at(leaky, -2), 0.01, 0);
    cj_tensor *z = leaf(randn(CJ_SHAPE(50)));
    assert_true(cj_item(cj_min(cj_abs(slope(cj_leaky_relu(z), z)))) >= 0.01);
    assert_near(distance(cj_leaky_relu(z, .slope = CJ_ZERO), cj_relu(z)), 0, 0);
    assert_true(same_bits(cj_leaky_relu(z, .slope = 1), z));
}

static cj_tensor *prelu_of(cj_ctx *unused, void *user, cj_tensor *const *in, int n)
{
    (void)unused, (void)user, (void)n;
    return cj_prelu(in[0], in[1]);
}

/* act.prelu */
static void act_prelu(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(6, 4)), *alpha = F64(c, CJ_SHAPE(4), 0.25, 0.1, -0.2, 0.5);
    cj_gradcheck_result r = cj_gradcheck(c, prelu_of, NULL, CJ_TENSORS(x, alpha), 2, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    cj_tensor *a = leaf(F64(c, CJ_SHAPE(1), 0.25)), *low = cj_clamp(x, -INFINITY, 0);
    assert_near(value_at(slope(cj_prelu(x, a), a), 0), cj_item(cj_sum(low)), 1e-14);
    /* a teacher with slope 0.3: gradient descent from the usual 0.25 finds it, per layer and per channel */
    cj_tensor *w = randn(CJ_SHAPE(5, 4)), *input = randn(CJ_SHAPE(200, 4)), *h = cj_linear_op(input, w, NULL);
    cj_tensor *target = cj_leaky_relu(h, .slope = 0.3), *learned = cj_full(c, 0.25, CJ_SHAPE(5), CJ_F64);
    for (int step = 0; step < 200; step++) {
        cj_tensor *l = leaf(learned);
        cj_tensor *g = slope(cj_mse_loss(cj_prelu(h, l), target), l);
        learned = cj_sub(learned, cj_mul_scalar(g, 0.5));
    }
    for (int i = 0; i < 5; i++) assert_near(value_at(learned, i), 0.3, 1e-6);
}

/* act.elu */
static void act_elu(void **state)
{
    (void)state;
    assert_near(at(elu, -1e-9), at(elu, 1e-9), 3e-9);
    assert_near(derivative_at(elu, 0), 1, 0);
    assert_near(derivative_at(elu, -1e-9), derivative_at(elu, 1e-9), 3e-9);
    assert_near(at(elu, -1e4), -1, 0);
    cj_tensor *z = randn(CJ_SHAPE(2000));
    assert_near(value_at(cj_elu(F64(c, CJ_SHAPE(1), -50), .alpha = 0.5), 0), -0.5, 1e-15);
    assert_true(cj_item(cj_min(cj_elu(z))) > -1);
    assert_true(fabs(cj_item(cj_mean(cj_elu(z)))) < fabs(cj_item(cj_mean(cj_relu(z)))));
    assert_near(derivative_at(elu, -1.5), exp(-1.5), 1e-15);
}

/* act.softplus */
static void act_softplus(void **state)
{
    (void)state;
    assert_near(at(cj_softplus, 1000), 1000, 0);
    assert_near(at(cj_softplus, -1000), 0, 0);
    assert_near(derivative_at(cj_softplus, 1000), 1, 0);
    cj_tensor *z = randn(CJ_SHAPE(64));
    assert_near(distance(cj_sub(cj_softplus(z), cj_softplus(cj_neg(z))), z), 0, 1e-14);
    cj_tensor *l = leaf(z);
    assert_near(distance(slope(cj_softplus(l), l), cj_sigmoid(z)), 0, 1e-15);
    double last = INFINITY;
    for (double beta = 1; beta <= 1000; beta *= 10) { /* softplus(beta·z)/beta -> relu, at most log 2 / beta away */
        double gap = distance(cj_softplus_beta(z, .beta = beta), cj_relu(z));
        assert_true(gap < last && gap <= log(2) / beta + 1e-15);
        last = gap;
    }
}

/* act.sigmoid */
static void act_sigmoid(void **state)
{
    (void)state;
    cj_tensor *z = leaf(cj_mul_scalar(randn(CJ_SHAPE(200)), 3)), *s = cj_sigmoid(z);
    assert_near(distance(cj_add(s, cj_sigmoid(cj_neg(z))), cj_ones_like(z)), 0, 0x1p-52);
    assert_near(distance(cj_logit(s), z), 0, 1e-10);
    cj_tensor *g = slope(cj_sigmoid(z), z);
    assert_true(cj_item(cj_max(g)) <= 0.25);
    assert_near(derivative_at(cj_sigmoid, 0), 0.25, 0);
    assert_near(distance(g, cj_mul(s, cj_sigmoid(cj_neg(z)))), 0, 1e-15);
    assert_true(cj_item(cj_min(s)) > 0 && cj_item(cj_max(s)) < 1);
    assert_near(at(cj_sigmoid, 1000), 1, 0);
    assert_near(at(cj_sigmoid, -1000), 0, 0);
    assert_true(isfinite(derivative_at(cj_sigmoid, 1000)) && isfinite(derivative_at(cj_sigmoid, -1000)));
}

/* act.tanh */
static void act_tanh(void **state)
{
    (void)state;
    cj_tensor *z = cj_mul_scalar(randn(CJ_SHAPE(200)), 2);
    assert_near(distance(cj_tanh(z), cj_add_scalar(cj_mul_scalar(cj_sigmoid(cj_mul_scalar(z, 2)), 2), -1)), 0, 1e-14);
    assert_true(same_bits(cj_tanh(cj_neg(z)), cj_neg(cj_tanh(z))));
    assert_near(derivative_at(cj_tanh, 0), 1, 0);
    assert_near(derivative_at(cj_tanh, 20), 0, 1e-15);
    assert_near(derivative_at(cj_tanh, 0.7), 1 - tanh(0.7) * tanh(0.7), 1e-15);
}

/* act.abs */
static void act_abs(void **state)
{
    (void)state;
    cj_tensor *z = randn(CJ_SHAPE(60));
    assert_near(distance(cj_abs(z), cj_sub(cj_mul_scalar(cj_relu(z), 2), z)), 0, 1e-15);
    assert_near(distance(cj_abs(z), cj_add(cj_relu(z), cj_relu(cj_neg(z)))), 0, 1e-15);
    assert_near(derivative_at(cj_abs, 0), 0, 0);
    assert_gradient(cj_abs, z);
    /* any ReLU net is an AbsU net plus a linear term: V·relu(Wx) = V·|Wx|/2 + V·Wx/2 */
    cj_tensor *w = randn(CJ_SHAPE(6, 3)), *v = randn(CJ_SHAPE(2, 6)), *x = randn(CJ_SHAPE(9, 3)), *h = cj_linear_op(x, w, NULL);
    cj_tensor *absolute = cj_mul_scalar(cj_linear_op(cj_abs(h), v, NULL), 0.5), *linear = cj_mul_scalar(cj_linear_op(h, v, NULL), 0.5);
    assert_near(distance(cj_linear_op(cj_relu(h), v, NULL), cj_add(absolute, linear)), 0, 1e-13);
}

/* act.swish */
static void act_swish(void **state)
{
    (void)state;
    cj_tensor *z = cj_add_scalar(cj_mul_scalar(cj_arange(c, 0, 40001, 1, CJ_F64), 1e-4), -3), *y = cj_silu(z);
    double best = cj_item(cj_min(y));
    double where = value_at(z, (int64_t)cj_item(cj_argmin(y)));
    assert_near(best, -0.278465, 5e-7);
    assert_near(where, -1.27846, 6e-5);
    assert_near(derivative_at(cj_silu, -1.2784645), 0, 1e-7);
    assert_near(derivative_at(cj_silu, 0), 0.5, 0);
    assert_near(at(cj_silu, 50), 50, 1e-12);
    assert_near(at(cj_silu, -50), 0, 1e-12);
    double s = 1 / (1 + exp(-0.8));
    assert_near(derivative_at(cj_silu, 0.8), s + 0.8 * s * (1 - s), 1e-15);
}

/* act.sin_cos */
static void act_sin_cos(void **state)
{
    (void)state;
    cj_tensor *z = randn(CJ_SHAPE(50));
    assert_gradient(cj_sin, z);
    assert_gradient(cj_cos, z);
    assert_near(distance(cj_sin(cj_add_scalar(z, M_PI / 2)), cj_cos(z)), 0, 1e-15);
}

static cj_tensor *softmax_at_2(cj_ctx *unused, void *user, cj_tensor *const *in, int n)
{
    (void)unused, (void)user, (void)n;
    return cj_softmax_temperature(in[0], 0, 2);
}

/* act.softmax */
static void act_softmax(void **state)
{
    (void)state;
    cj_tensor *z = F64(c, CJ_SHAPE(3), 2, 1, 0.1);
    static const double rows[][4] = {
        { 0.5, .86378, .11690, .01932 }, { 1, .65900, .24243, .09857 }, { 2, .50169, .30429, .19402 }, { 10, .36606, .33122, .30272 }
    };
    for (int i = 0; i < 4; i++) {
        cj_tensor *p = cj_softmax_temperature(z, 0, rows[i][0]);
        for (int k = 0; k < 3; k++) assert_near(value_at(p, k), rows[i][k + 1], 5e-6);
        assert_near(cj_item(cj_sum(p)), 1, 1e-15);
        assert_near(distance(p, cj_softmax_temperature(cj_add_scalar(z, 123), 0, rows[i][0])), 0, 1e-13);
    }
    assert_near(distance(cj_softmax_temperature(z, 0, 1), cj_softmax(z, 0)), 0, 0);
    assert_near(distance(cj_softmax_temperature(z, 0, 1e9), cj_full(c, 1.0 / 3, CJ_SHAPE(3), CJ_F64)), 0, 1e-9);
    assert_true(same_bits(cj_softmax_temperature(z, 0, 1e-4), F64(c, CJ_SHAPE(3), 1, 0, 0)));
    assert_near(distance(cj_softmin(z, 0), cj_softmax(cj_neg(z), 0)), 0, 0);
    cj_tensor *p = cj_softmax_temperature(z, 0, 2); /* Jacobian (diag(p) - p·pᵀ)/T */
    cj_tensor *want = cj_mul_scalar(cj_sub(cj_mul(cj_eye(c, 3, CJ_F64), p), cj_outer(p, p)), 0.5);
    assert_near(distance(cj_jacobian(c, softmax_at_2, NULL, z), want), 0, 1e-15);
}

/* act.maxout */
static void act_maxout(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(30, 4)), *w = randn(CJ_SHAPE(5, 1, 4)), *zero = cj_zeros(c, CJ_SHAPE(5, 1, 4), CJ_F64);
    /* two hinges a unit, [5, 2, 4] -> [10, 4]: neighbours are one group */
    cj_tensor *plain = cj_linear_op(x, cj_reshape(w, CJ_SHAPE(5, 4)), NULL);
    cj_tensor *two = cj_reshape(cj_cat(CJ_TENSORS(w, zero), 2, 1), CJ_SHAPE(10, 4));
    assert_near(distance(cj_maxout(cj_linear_op(x, two, NULL), -1, 2), cj_relu(plain)), 0, 1e-15);
    two = cj_reshape(cj_cat(CJ_TENSORS(w, cj_mul_scalar(w, 0.01)), 2, 1), CJ_SHAPE(10, 4));
    assert_near(distance(cj_maxout(cj_linear_op(x, two, NULL), -1, 2), cj_leaky_relu(plain)), 0, 1e-15);
    /* convex: the middle lies below the chord; backward goes to the largest; the slope never vanishes */
    cj_tensor *hinges = randn(CJ_SHAPE(12, 4)), *bias = randn(CJ_SHAPE(12)), *a = randn(CJ_SHAPE(30, 4));
    cj_tensor *middle = cj_mul_scalar(cj_add(x, a), 0.5);
#define UNIT(v) cj_maxout(cj_linear_op(v, hinges, bias), 1, 3)
    cj_tensor *chord = cj_mul_scalar(cj_add(UNIT(x), UNIT(a)), 0.5);
    assert_true(cj_item(cj_min(cj_sub(chord, UNIT(middle)))) >= -1e-14);
    cj_tensor *far = leaf(cj_mul_scalar(x, 1e4));
    assert_true(cj_item(cj_min(cj_sum(cj_abs(slope(UNIT(far), far)), .axes = CJ_AXIS(1)))) > 0);
    cj_tensor *z = leaf(F64(c, CJ_SHAPE(6), 1, 3, 2, -4, -6, -5));
    assert_true(same_bits(cj_maxout(z, 0, 3), F64(c, CJ_SHAPE(2), 3, -4)));
    assert_true(same_bits(slope(cj_maxout(z, 0, 3), z), F64(c, CJ_SHAPE(6), 0, 1, 0, 1, 0, 0)));
}

/* ---- what all of them have in common ----------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cj_tensor *(*fn)(cj_tensor *);
} all[] = {
    { "heaviside", heaviside },
    { "hard_sign", cj_hard_sign },
    { "relu", cj_relu },
    { "relu6", cj_relu6 },
    { "leaky_relu", leaky },
    { "elu", elu },
    { "celu", celu },
    { "selu", cj_selu },
    { "hardtanh", hardtanh },
    { "hardsigmoid", cj_hardsigmoid },
    { "hardswish", cj_hardswish },
    { "softshrink", softshrink },
    { "hardshrink", hardshrink },
    { "threshold", threshold },
    { "softplus", cj_softplus },
    { "softplus_beta", softplus_beta },
    { "softplus_threshold", softplus_threshold },
    { "log_sigmoid", cj_log_sigmoid },
    { "sigmoid", cj_sigmoid },
    { "tanh", cj_tanh },
    { "gelu", gelu },
    { "gelu_tanh", gelu_tanh },
    { "silu", cj_silu },
    { "mish", cj_mish },
    { "softsign", cj_softsign },
    { "tanhshrink", cj_tanhshrink },
    { "logit", logit },
    { "softmin", softmin },
    { "softmax_temperature", softmax_cold },
    { "glu", glu },
    { "reglu", reglu },
    { "geglu", geglu },
    { "swiglu", swiglu },
    { "maxout", maxout },
};

static void finite_far_out(void **state)
{
    (void)state;
    static const double values[] = { -1e4, -100, -1, 0, 1, 100, 1e4, 0.5 };
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int t = 0; t < 3; t++) {
            cj_tensor *x = leaf(cj_cast(f64(c, values, CJ_SHAPE(8)), types[t])), *y = all[i].fn(x);
            assert_int_equal(cj_dtype_of(y), types[t]);
            if (!cj_item(cj_all(cj_isfinite(y)))) fail_msg("%s %s is not finite", all[i].name, cj_dtype_name(types[t]));
            if (!cj_item(cj_all(cj_isfinite(slope(y, x)))))
                fail_msg("the gradient of %s %s is not finite", all[i].name, cj_dtype_name(types[t]));
        }
}

/* 16-bit results are the f32 ones, rounded once. */
static void half_precision_rounds_once(void **state)
{
    (void)state;
    cj_tensor *x = cj_cast(cj_mul_scalar(randn(CJ_SHAPE(64)), 3), CJ_BF16), *wide = cj_cast(x, CJ_F32);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!same_bits(all[i].fn(x), cj_cast(all[i].fn(wide), CJ_BF16))) fail_msg("%s of bf16 is rounded more than once", all[i].name);
}

static cj_tensor *gumbel_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    cj_rng_set(ctx, (cj_rng_state){ .seed = 5 });
    return cj_gumbel_softmax(in[0], -1, .tau = 0.7);
}

/* GELU and its slope to the last digits, everywhere and at every level of instructions. */
static void gelu_to_the_last_digits(void **state)
{
    (void)state;
    static const char *const levels[] = { "avx512", "avx2", "neon", "portable" };
    enum { POINTS = 40001 };
    double *at = malloc(POINTS * sizeof *at);
    float *v = malloc(3 * POINTS * sizeof *v), *y = v + POINTS, *d = y + POINTS;
    for (int i = 0; i < POINTS; i++) at[i] = -10 + 20.0 * i / (POINTS - 1);
    for (int l = 0; l < 4; l++) {
        cj_ctx *q = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .isa = levels[l] });
        if (cj_ok(q)) {
            cj_tensor *x = cj_require_grad(cj_cast(cj_from_f64(q, at, CJ_SHAPE(POINTS)), CJ_F32)), *gelu = cj_gelu(x), *g;
            assert_true(cj_grad(cj_sum(gelu), &x, 1, &g));
            assert_true(cj_to_f32(x, v, POINTS) && cj_to_f32(gelu, y, POINTS) && cj_to_f32(g, d, POINTS));
        }
        for (int i = 0; i < POINTS && cj_ok(q); i++) {
            const double t = v[i], below = 0.5 * erfc(-t / sqrt(2)), rise = below + t * exp(-t * t / 2) / sqrt(2 * M_PI);
            if (!(fabs(y[i] - t * below) <= 2.5e-7 * (1e-3 + fabs(t)) && fabs(d[i] - rise) <= 2.5e-7))
                fail_msg("%s, gelu(%.9g): %.9g with slope %.9g, expected %.9g and %.9g", levels[l], t, y[i], d[i], t * below, rise);
        }
        cj_ctx_free(q);
    }
    free(at), free(v);
}

/* The largest entry of logits + noise is drawn with probability softmax(logits). */
static void gumbel_softmax_draws(void **state)
{
    (void)state;
    enum { N = 20000 };
    cj_tensor *logits = F64(c, CJ_SHAPE(3), 1, 0, -1), *many = cj_expand(logits, CJ_SHAPE(N, 3)), *p = cj_softmax(logits, 0);
    cj_tensor *hard = cj_gumbel_softmax(many, -1, .hard = true), *soft = cj_gumbel_softmax(many, -1, .tau = 0.5);
    cj_tensor *frequency = cj_mean(hard, .axes = CJ_AXIS(0)), *chosen = cj_argmax(soft, .axes = CJ_AXIS(1));
    cj_tensor *counted = cj_mean(cj_cast(cj_one_hot(chosen, 3), CJ_F64), .axes = CJ_AXIS(0));
    for (int k = 0; k < 3; k++) {
        double q = value_at(p, k), error = 5 * sqrt(q * (1 - q) / N);
        assert_near(value_at(frequency, k), q, error);
        assert_near(value_at(counted, k), q, error);
    }
    assert_near(distance(cj_sum(hard, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(N), CJ_F64)), 0, 1e-15);
    assert_near(distance(cj_max(hard, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(N), CJ_F64)), 0, 1e-15);
    cj_tensor *x = randn(CJ_SHAPE(4, 5));
    cj_gradcheck_result r = cj_gradcheck(c, gumbel_of, NULL, &x, 1, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    /* hard: the value is one-hot, the derivative that of the soft draw */
    cj_tensor *l = leaf(x), *weight = randn(CJ_SHAPE(4, 5));
    cj_rng_set(c, (cj_rng_state){ .seed = 5 });
    cj_tensor *a = slope(cj_mul(cj_gumbel_softmax(l, -1, .tau = 0.7, .hard = true), weight), l);
    cj_rng_set(c, (cj_rng_state){ .seed = 5 });
    assert_near(distance(a, slope(cj_mul(cj_gumbel_softmax(l, -1, .tau = 0.7), weight), l)), 0, 1e-15);
}

static void errors(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(3, 5)), *whole = cj_ones(c, CJ_SHAPE(3), CJ_I64);
    assert_poisoned(CJ_EDTYPE, "elu: the input is i64, a float type expected", cj_elu(whole));
    assert_poisoned(CJ_EVALUE, "hardtanh: low 2 is above high 1", cj_hardtanh(x, .low = 2, .high = 1));
    assert_poisoned(CJ_EVALUE, "leaky_relu: the slope is nan, a finite number expected", cj_leaky_relu(x, .slope = NAN));
    assert_poisoned(CJ_EVALUE, "elu: alpha is inf", cj_elu(x, .alpha = INFINITY));
    assert_poisoned(CJ_EVALUE, "celu: alpha is 0, a finite number other than 0 expected", cj_celu(x, .alpha = CJ_ZERO));
    assert_poisoned(CJ_EVALUE, "softshrink: lambda is -1, 0 or more expected", cj_softshrink(x, .lambda = -1));
    assert_poisoned(CJ_EVALUE, "hardshrink: lambda is -1", cj_hardshrink(x, .lambda = -1));
    assert_poisoned(CJ_EVALUE, "softplus_beta: beta is -2, a positive number expected", cj_softplus_beta(x, .beta = -2));
    assert_poisoned(CJ_EVALUE, "logit: eps is 0.7, a number in [0, 0.5] expected", cj_logit(x, .eps = 0.7));
    assert_poisoned(CJ_ESHAPE, "prelu: weight [4] does not fit input [3, 5]", cj_prelu(x, randn(CJ_SHAPE(4))));
    assert_poisoned(CJ_EVALUE, "prelu: argument 2 is NULL", cj_prelu(x, NULL));
    assert_poisoned(CJ_ESHAPE, "glu: axis 1 of [3, 5] has an odd size and no halves", cj_glu(x, 1));
    assert_poisoned(CJ_ESHAPE, "swiglu: a 0-d input", cj_swiglu(randn(CJ_SCALAR), 0));
    assert_poisoned(CJ_EINDEX, "geglu", cj_geglu(x, 2));
    assert_poisoned(CJ_ESHAPE, "maxout: axis 1 of [3, 5] cannot be cut into groups of 2", cj_maxout(x, 1, 2));
    assert_poisoned(CJ_ESHAPE, "maxout: axis 1 of [3, 5] cannot be cut into groups of 0", cj_maxout(x, 1, 0));
    assert_poisoned(CJ_EVALUE, "softmax_temperature: the temperature is 0, a positive number expected", cj_softmax_temperature(x, 0, 0));
    assert_poisoned(CJ_EVALUE, "gumbel_softmax: tau is -1, a positive number expected", cj_gumbel_softmax(x, 0, .tau = -1));
    assert_null(cj_relu6(NULL));
    assert_null(cj_glu(NULL, 0));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(act_step),
        CASE(act_identity),
        CASE(act_relu),
        CASE(act_leaky_relu),
        CASE(act_prelu),
        CASE(act_elu),
        CASE(act_softplus),
        CASE(act_sigmoid),
        CASE(act_tanh),
        CASE(act_abs),
        CASE(act_swish),
        CASE(act_sin_cos),
        CASE(act_softmax),
        CASE(act_maxout),
        CASE(finite_far_out),
        CASE(gelu_to_the_last_digits),
        CASE(half_precision_rounds_once),
        CASE(gumbel_softmax_draws),
        CASE(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
