/* The catalogue's family `loss`: one test case per row, named after its id (docs/coverage.tsv); then what all losses have in common: finite far out, reductions,
 * errors.  Parity with PyTorch is in test_parity_losses.c, derivatives of all orders in `cajal selftest`. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

static cj_tensor *randn(cj_shape s) { return (cj_randn)(c, s, &(cj_random_opts){ .dtype = CJ_F64 }); }
static cj_tensor *leaf(cj_tensor *x) { return cj_require_grad(x); }
static cj_tensor *constant(double v) { return F64(c, CJ_SCALAR, v); }
/* d sum(y) / d x */
static cj_tensor *slope(cj_tensor *y, cj_tensor *x)
{
    cj_tensor *g = NULL;
    assert_true(cj_grad(cj_sum(y), &x, 1, &g));
    return g;
}
/* n labels ±1 */
static cj_tensor *labels(cj_shape s) { return cj_hard_sign(randn(s)); }

/* Gradient descent on n tensors of fn, in place; the last value. */
static double descend(cj_fn fn, void *user, cj_tensor **x, int n, double lr, int steps)
{
    double value = 0;
    for (int step = 0; step < steps; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *g[4], *next[4], *y = cj_vjp(c, fn, user, x, n, NULL, g);
        value = cj_item(y);
        for (int i = 0; i < n; i++) next[i] = cj_sub(x[i], cj_mul_scalar(g[i], lr));
        for (int i = 0; i < n; i++) cj_assign_(x[i], next[i]);
        cj_scope_close(s);
    }
    return value;
}
static cj_tensor *variable(cj_tensor *x) { return cj_keep(cj_clone(x)); }

static void assert_gradient(cj_fn fn, cj_tensor *const *x, int n)
{
    cj_gradcheck_result r = cj_gradcheck(c, fn, NULL, x, n, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
}
#define FUNCTION(name, expression)                                                                                                         \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)                                                           \
    {                                                                                                                                      \
        (void)ctx, (void)user, (void)n;                                                                                                    \
        return expression;                                                                                                                 \
    }

/* ---- regression ------------------------------------------------------------------------------------------------------------------------------------ */

FUNCTION(mse, cj_mse_loss(in[0], in[1]))

/* loss.squared */
static void loss_squared(void **state)
{
    (void)state;
    cj_tensor *t = F64(c, CJ_SHAPE(2), 2, 4), *y = leaf(F64(c, CJ_SHAPE(2), 0, 2));
    assert_near(cj_item(cj_mse_loss(y, t)), 4, 0);
    assert_near(cj_item(cj_squared_loss(y, t, .reduction = CJ_SUM)), 4, 0); /* half of the sum of squares */
    assert_true(same_bits(cj_squared_loss(y, t, .reduction = CJ_NONE), F64(c, CJ_SHAPE(2), 2, 2)));
    assert_true(same_bits(slope(cj_squared_loss(y, t, .reduction = CJ_SUM), y), cj_sub(y, t)));
    assert_gradient(mse, CJ_TENSORS(randn(CJ_SHAPE(3, 2)), randn(CJ_SHAPE(3, 2))), 2);
    cj_tensor *data = randn(CJ_SHAPE(50)), *m = leaf(cj_mean(data)); /* the constant fit */
    assert_near(cj_item(slope(cj_squared_loss(cj_expand(m, CJ_SHAPE(50)), data), m)), 0, 1e-15);
}

/* loss.absolute */
static void loss_absolute(void **state)
{
    (void)state;
    double v[] = { 3, -1, 7, 0.5, 2, 11, -4 }, best = INFINITY, where = 0;
    cj_tensor *data = f64(c, v, CJ_SHAPE(7));
    for (int k = -500; k <= 1200; k++) {
        double loss = cj_item(cj_l1_loss(cj_full(c, k / 100.0, CJ_SHAPE(7), CJ_F64), data));
        if (loss < best - 1e-12) best = loss, where = k / 100.0;
    }
    assert_near(where, 2, 0); /* the median */
    cj_tensor *x = leaf(randn(CJ_SHAPE(7)));
    assert_true(same_bits(slope(cj_l1_loss(x, data, .reduction = CJ_SUM), x), cj_sign(cj_sub(x, data))));
    /* the negative log-likelihood of Laplace's distribution of scale 1, less log 2 */
    assert_near(cj_item(cj_laplace_nll_loss(x, data, constant(1))) - log(2), cj_item(cj_l1_loss(x, data)), 1e-14);
}

/* loss.huber */
static void loss_huber(void **state)
{
    (void)state;
    const double d = 0.75, h = 1e-9;
    cj_tensor *zero = cj_zeros(c, CJ_SHAPE(2), CJ_F64), *r = leaf(F64(c, CJ_SHAPE(2), d - h, d + h));
    cj_tensor *each = cj_huber_loss(r, zero, .delta = d, .reduction = CJ_NONE), *g = slope(each, r);
    assert_near(value_at(each, 0), value_at(each, 1), 2e-9);
    assert_near(value_at(g, 0), value_at(g, 1), 2e-9);
    cj_tensor *x = leaf(cj_mul_scalar(randn(CJ_SHAPE(200)), 3)), *t = cj_zeros_like(x);
    assert_near(distance(slope(cj_huber_loss(x, t, .delta = d, .reduction = CJ_SUM), x), cj_clamp(x, -d, d)), 0, 1e-15);
    assert_true(same_bits(cj_huber_loss(x, t, .delta = 1e9), cj_squared_loss(x, t)));
    cj_tensor *small = cj_mul_scalar(cj_huber_loss(x, t, .delta = 1e-9), 1e9);
    assert_near(cj_item(small), cj_item(cj_l1_loss(x, t)), 1e-8);
    assert_near(cj_item(cj_smooth_l1_loss(x, t, .beta = d)), cj_item(cj_huber_loss(x, t, .delta = d)) / d, 1e-14);
    assert_true(same_bits(cj_smooth_l1_loss(x, t, .beta = CJ_ZERO), cj_l1_loss(x, t)));
}

/* loss.pinball */
static void loss_pinball(void **state)
{
    (void)state;
    enum { N = 40 };
    double *v = values_of(cj_mul_scalar(randn(CJ_SHAPE(N)), 2));
    for (int i = 1; i < N; i++) /* sorted */
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            double swap = v[k];
            v[k] = v[k - 1];
            v[k - 1] = swap;
        }
    cj_tensor *data = f64(c, v, CJ_SHAPE(N));
    static const double taus[] = { 0.1, 0.33, 0.5, 0.77, 0.9 };
    for (int q = 0; q < 5; q++) {
        double best = INFINITY;
        int where = -1;
        for (int i = 0; i < N; i++) { /* the minimum of a piecewise linear function lies on a data point */
            double loss = cj_item(cj_pinball_loss(cj_full(c, v[i], CJ_SHAPE(N), CJ_F64), data, taus[q]));
            if (loss < best - 1e-12) best = loss, where = i;
        }
        assert_int_equal(where, (int)ceil(taus[q] * N - 1e-9) - 1); /* inf{y: F(y) >= tau} */
    }
    cj_tensor *x = leaf(randn(CJ_SHAPE(N)));
    assert_near(cj_item(cj_pinball_loss(x, data, 0.5)), cj_item(cj_l1_loss(x, data)) / 2, 1e-15);
    cj_tensor *r = cj_sub(data, x); /* costs tau·|r| above, (1-tau)·|r| below: slopes -tau and 1 - tau */
    cj_tensor *want = cj_where(cj_lt_scalar(r, 0), constant(0.75), constant(-0.25));
    assert_true(same_bits(slope(cj_pinball_loss(x, data, 0.25, .reduction = CJ_SUM), x), want));
    free(v);
}

/* ---- two classes -------------------------------------------------------------------------------------------------------------------------------------- */

/* loss.zero_one */
static void loss_zero_one(void **state)
{
    (void)state;
    enum { N = 37 };
    cj_tensor *f = leaf(randn(CJ_SHAPE(N))), *y = labels(CJ_SHAPE(N)), *each = cj_zero_one_loss(f, y, .reduction = CJ_NONE);
    double error = cj_item(cj_zero_one_loss(f, y)) * N;
    assert_near(error, round(error), 1e-12);
    assert_true(error > 0 && error < N);
    assert_near(cj_item(cj_sum(cj_abs(slope(cj_zero_one_loss(f, y), f)))), 0, 0);
    cj_tensor *bounds[] = { cj_exponential_loss(f, y, .reduction = CJ_NONE), cj_hinge_loss(f, y, .reduction = CJ_NONE),
                            cj_mul_scalar(cj_soft_margin_loss(f, y, .reduction = CJ_NONE), 1 / log(2)) };
    for (int i = 0; i < 3; i++) assert_true(cj_item(cj_min(cj_sub(bounds[i], each))) >= 0);
    assert_true(same_bits(cj_zero_one_loss(F64(c, CJ_SHAPE(3), 2, 0, -1), cj_ones(c, CJ_SHAPE(3), CJ_F64), .reduction = CJ_NONE),
                          F64(c, CJ_SHAPE(3), 0, 1, 1)));
}

/* loss.perceptron */
static void loss_perceptron(void **state)
{
    (void)state;
    enum { N = 60, D = 3 };
    cj_tensor *f = leaf(F64(c, CJ_SHAPE(4), 2, -2, 0, 1)), *y = F64(c, CJ_SHAPE(4), 1, 1, -1, -1);
    assert_true(same_bits(cj_perceptron_loss(f, y, .reduction = CJ_NONE), F64(c, CJ_SHAPE(4), 0, 2, 0, 1)));
    assert_near(distance(slope(cj_perceptron_loss(f, y, .reduction = CJ_SUM), f), F64(c, CJ_SHAPE(4), 0, -1, 1, 1)), 0, 0);
    assert_near(cj_item(cj_perceptron_loss(cj_zeros_like(y), y)), 0, 0); /* w = 0 is a minimiser, and of no use */
    /* stochastic gradient descent with rate 1 is the perceptron algorithm: the same bits after every example */
    cj_tensor *x = randn(CJ_SHAPE(N, D)), *t = labels(CJ_SHAPE(N)), *w = cj_zeros(c, CJ_SHAPE(D), CJ_F64);
    double *xs = values_of(x), *ts = values_of(t), p[D] = { 0 };
    for (int step = 0; step < 3 * N; step++) {
        int i = step * 7 % N;
        cj_tensor *l = leaf(w), *score = cj_sum(cj_mul(l, cj_select(x, 0, i)));
        w = cj_sub(w, slope(cj_perceptron_loss(score, cj_select(t, 0, i), .reduction = CJ_SUM), l));
        double s = 0;
        for (int k = 0; k < D; k++) s += p[k] * xs[i * D + k];
        if (ts[i] * s <= 0)
            for (int k = 0; k < D; k++) p[k] += ts[i] * xs[i * D + k];
        for (int k = 0; k < D; k++) assert_true(value_at(w, k) == p[k]);
    }
    free(xs);
    free(ts);
}

FUNCTION(multi_margin, cj_multi_margin_loss(in[0], cj_from_i64(ctx, (int64_t[]){ 2, 0, 1 }, CJ_SHAPE(3))))

/* loss.hinge */
static void loss_hinge(void **state)
{
    (void)state;
    cj_tensor *f = leaf(cj_mul_scalar(randn(CJ_SHAPE(100)), 2)), *y = labels(CJ_SHAPE(100)), *m = cj_mul(y, f);
    cj_tensor *each = cj_hinge_loss(f, y, .reduction = CJ_NONE);
    assert_true(same_bits(cj_eq_scalar(each, 0), cj_ge_scalar(m, 1)));
    assert_near(distance(slope(cj_hinge_loss(f, y, .reduction = CJ_SUM), f), cj_where(cj_lt_scalar(m, 1), cj_neg(y), constant(0))), 0, 0);
    assert_true(cj_item(cj_min(cj_sub(each, cj_zero_one_loss(f, y, .reduction = CJ_NONE)))) >= 0);
    cj_tensor *g = randn(CJ_SHAPE(100)), *middle = cj_mul_scalar(cj_add(f, g), 0.5); /* convex */
    cj_tensor *chord = cj_mul_scalar(cj_add(each, cj_hinge_loss(g, y, .reduction = CJ_NONE)), 0.5);
    assert_true(cj_item(cj_min(cj_sub(chord, cj_hinge_loss(middle, y, .reduction = CJ_NONE)))) >= -1e-15);
    /* several classes: 0 when the right one leads by the margin */
    cj_tensor *scores = F64(c, CJ_SHAPE(2, 3), 3, 1, 2, 0, 1, 0.5), *t = cj_from_i64(c, (int64_t[]){ 0, 1 }, CJ_SHAPE(2));
    cj_tensor *several = cj_multi_margin_loss(scores, t, .reduction = CJ_NONE);
    assert_near(value_at(several, 0), 0, 0);
    assert_near(value_at(several, 1), 0.5 / 3, 1e-16);
    assert_gradient(multi_margin, CJ_TENSORS(randn(CJ_SHAPE(3, 4))), 1);
}

/* Labels +1 in three of four cases, one score for all: log-odds log 3. */
static cj_tensor *unbalanced(void) { return F64(c, CJ_SHAPE(4), 1, 1, 1, -1); }
FUNCTION(exponential_of, cj_exponential_loss(cj_expand(in[0], CJ_SHAPE(4)), unbalanced()))
FUNCTION(logistic_of, cj_soft_margin_loss(cj_expand(in[0], CJ_SHAPE(4)), unbalanced()))

/* loss.exponential */
static void loss_exponential(void **state)
{
    (void)state;
    cj_tensor *f = leaf(randn(CJ_SHAPE(50))), *y = labels(CJ_SHAPE(50)), *each = cj_exponential_loss(f, y, .reduction = CJ_NONE);
    assert_true(cj_item(cj_min(cj_sub(each, cj_zero_one_loss(f, y, .reduction = CJ_NONE)))) >= 0);
    assert_near(distance(slope(cj_exponential_loss(f, y, .reduction = CJ_SUM), f), cj_neg(cj_mul(y, cj_exp(cj_neg(cj_mul(y, f)))))), 0,
                1e-14);
    cj_tensor *score = variable(constant(0));
    descend(exponential_of, NULL, &score, 1, 0.5, 200);
    assert_near(cj_item(score), log(3) / 2, 1e-9);
}

/* loss.logistic */
static void loss_logistic(void **state)
{
    (void)state;
    cj_tensor *f = randn(CJ_SHAPE(50)), *y = labels(CJ_SHAPE(50)), *t = cj_mul_scalar(cj_add_scalar(y, 1), 0.5);
    assert_near(distance(cj_soft_margin_loss(f, y, .reduction = CJ_NONE), cj_bce_with_logits(f, t, .reduction = CJ_NONE)), 0, 1e-14);
    cj_tensor *far = leaf(F64(c, CJ_SHAPE(2), 1000, -1000)), *one = cj_ones(c, CJ_SHAPE(2), CJ_F64);
    assert_true(same_bits(cj_soft_margin_loss(far, one, .reduction = CJ_NONE), F64(c, CJ_SHAPE(2), 0, 1000)));
    assert_near(distance(slope(cj_soft_margin_loss(far, one, .reduction = CJ_SUM), far), F64(c, CJ_SHAPE(2), 0, -1)), 0, 1e-300);
    cj_tensor *score = variable(constant(0));
    descend(logistic_of, NULL, &score, 1, 2, 300);
    assert_near(cj_item(score), log(3), 1e-9);
    /* the surrogates against y·f at -1, 0, 1, 2: 0-1, perceptron, hinge, exponential, logistic */
    static const double want[5][4] = { { 1, 1, 0, 0 },
                                       { 1, 0, 0, 0 },
                                       { 2, 1, 0, 0 },
                                       { 2.718281828459045, 1, 0.36787944117144233, 0.1353352832366127 },
                                       { 1.3132616875182228, 0.6931471805599453, 0.31326168751822286, 0.12692801104297263 } };
    cj_tensor *m = F64(c, CJ_SHAPE(4), -1, 0, 1, 2), *plus = cj_ones(c, CJ_SHAPE(4), CJ_F64);
    cj_tensor *got[] = { cj_zero_one_loss(m, plus, .reduction = CJ_NONE), cj_perceptron_loss(m, plus, .reduction = CJ_NONE),
                         cj_hinge_loss(m, plus, .reduction = CJ_NONE), cj_exponential_loss(m, plus, .reduction = CJ_NONE),
                         cj_soft_margin_loss(m, plus, .reduction = CJ_NONE) };
    for (int i = 0; i < 5; i++) assert_near(distance(got[i], f64(c, want[i], CJ_SHAPE(4))), 0, 1e-15);
}

FUNCTION(half_bce, cj_neg(cj_mean(cj_mul(F64(ctx, CJ_SHAPE(3), 1, 0.5, 0.2), cj_log_sigmoid(in[0])))))
FUNCTION(multi_hot_bce, cj_bce_with_logits(in[0], F64(ctx, CJ_SHAPE(3), 1, 1, 0)))
FUNCTION(multi_hot_softmax, cj_soft_cross_entropy(in[0], F64(ctx, CJ_SHAPE(3), 1, 1, 0)))

/* loss.bce */
static void loss_bce(void **state)
{
    (void)state;
    cj_tensor *z = leaf(randn(CJ_SHAPE(20))), *t = cj_sigmoid(randn(CJ_SHAPE(20))), *p = cj_sigmoid(z);
    assert_near(distance(slope(cj_bce_with_logits(z, t, .reduction = CJ_SUM), z), cj_sub(p, t)), 0, 1e-15);
    assert_near(distance(cj_bce_with_logits(z, t, .reduction = CJ_NONE), cj_bce_loss(p, t, .reduction = CJ_NONE)), 0, 1e-13);
    /* two classes with logits (0, z) */
    cj_tensor *hard = cj_ge_scalar(t, 0.5), *pair = cj_stack(CJ_TENSORS(cj_zeros_like(z), z), 2, 1);
    cj_tensor *two = cj_cross_entropy(pair, cj_cast(hard, CJ_I64), .reduction = CJ_NONE);
    assert_near(distance(two, cj_bce_with_logits(z, cj_cast(hard, CJ_F64), .reduction = CJ_NONE)), 0, 1e-14);
    /* without the term (1-t)·log(1-p) every logit rises for ever */
    cj_tensor *rising = variable(F64(c, CJ_SHAPE(3), 0, 0, 0));
    double before = 0;
    for (int k = 0; k < 4; k++) {
        descend(half_bce, NULL, &rising, 1, 10, 200);
        assert_true(cj_item(cj_min(rising)) > before);
        before = cj_item(cj_min(rising));
    }
    assert_true(before > 4);
    /* two labels at once: independent sigmoids reach them, a softmax shares its 1 among them */
    cj_tensor *a = variable(cj_zeros(c, CJ_SHAPE(3), CJ_F64)), *b = variable(cj_zeros(c, CJ_SHAPE(3), CJ_F64));
    descend(multi_hot_bce, NULL, &a, 1, 10, 500);
    descend(multi_hot_softmax, NULL, &b, 1, 1, 500);
    assert_near(distance(cj_sigmoid(a), F64(c, CJ_SHAPE(3), 1, 1, 0)), 0, 1e-2);
    assert_near(value_at(cj_softmax(b, 0), 0), 0.5, 1e-3);
    assert_near(value_at(cj_softmax(b, 0), 1), 0.5, 1e-3);
}

/* ---- classes ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *three_targets(cj_ctx *ctx) { return cj_from_i64(ctx, (int64_t[]){ 2, 0, 1 }, CJ_SHAPE(3)); }
FUNCTION(cross_entropy, cj_cross_entropy(in[0], three_targets(ctx)))

/* loss.cross_entropy */
static void loss_cross_entropy(void **state)
{
    (void)state;
    cj_tensor *uniform = cj_zeros(c, CJ_SHAPE(1, 10), CJ_F64), *seven = cj_from_i64(c, (int64_t[]){ 7 }, CJ_SHAPE(1));
    assert_near(cj_item(cj_cross_entropy(uniform, seven)), 2.302585, 5e-7);
    cj_tensor *z = leaf(randn(CJ_SHAPE(3, 4))), *t = three_targets(c), *hot = cj_cast(cj_one_hot(t, 4), CJ_F64);
    assert_gradient(cross_entropy, &z, 1);
    assert_near(cj_item(cj_cross_entropy(cj_add_scalar(z, 50), t)), cj_item(cj_cross_entropy(z, t)), 1e-13);
    cj_tensor *chosen = cj_sum(cj_mul(z, hot), .axes = CJ_AXIS(1)), *nll = cj_sum(cj_sub(cj_logsumexp(z, .axes = CJ_AXIS(1)), chosen));
    assert_near(cj_item(cj_cross_entropy(z, t, .reduction = CJ_SUM)), cj_item(nll), 1e-14);
    const double T = 2.5; /* with a temperature the gradient is (p - onehot)/T */
    cj_tensor *g = slope(cj_cross_entropy(cj_mul_scalar(z, 1 / T), t, .reduction = CJ_SUM), z);
    assert_near(distance(g, cj_mul_scalar(cj_sub(cj_softmax_temperature(z, 1, T), hot), 1 / T)), 0, 1e-15);
    assert_true(cj_item(cj_min(cj_abs(g))) > 0); /* it touches all logits */
}

/* loss.soft_targets */
static void loss_soft_targets(void **state)
{
    (void)state;
    cj_tensor *z = leaf(randn(CJ_SHAPE(40, 5))), *y = cj_softmax(randn(CJ_SHAPE(40, 5)), 1);
    cj_tensor *entropy = cj_neg(cj_sum(cj_mul(y, cj_log(y)), .axes = CJ_AXIS(1)));
    assert_true(cj_item(cj_min(cj_sub(cj_soft_cross_entropy(z, y, .reduction = CJ_NONE), entropy))) > 0); /* Gibbs */
    assert_near(distance(cj_soft_cross_entropy(cj_log(y), y, .reduction = CJ_NONE), entropy), 0, 1e-14);
    assert_near(distance(slope(cj_soft_cross_entropy(z, y, .reduction = CJ_SUM), z), cj_sub(cj_softmax(z, 1), y)), 0, 1e-15);
    cj_tensor *t = cj_randint(c, 0, 5, CJ_SHAPE(40)), *hot = cj_cast(cj_one_hot(t, 5), CJ_F64);
    assert_near(cj_item(cj_soft_cross_entropy(z, hot)), cj_item(cj_cross_entropy(z, t)), 1e-14);
}

FUNCTION(smoothed, cj_cross_entropy(in[0], cj_zeros(ctx, CJ_SHAPE(1), CJ_I64), .label_smoothing = 0.1, .smooth_others = true))

/* loss.label_smoothing */
static void loss_label_smoothing(void **state)
{
    (void)state;
    static const struct {
        int64_t m;
        double gap, minimum;
    } rows[] = { { 10, 4.394449, .544805 }, { 1000, 9.103979, 1.015758 }, { 2, 2.197225, .325083 } };
    for (int i = 0; i < 3; i++) {
        int64_t m = rows[i].m;
        assert_near(log((double)(m - 1) * 0.9 / 0.1), rows[i].gap, 5e-7);
        cj_tensor *z = variable(cj_zeros(c, CJ_SHAPE(1, m), CJ_F64));
        double loss = descend(smoothed, NULL, &z, 1, 2, 1500);
        assert_near(value_at(z, 0) - value_at(z, 1), rows[i].gap, 1e-6);
        assert_near(loss, rows[i].minimum, 5e-7);
        /* the same as soft targets of 1 - eps and eps/(m - 1) */
        cj_tensor *other = cj_full(c, 0.1 / (double)(m - 1), CJ_SHAPE(1, m - 1), CJ_F64), *first = cj_full(c, 0.9, CJ_SHAPE(1, 1), CJ_F64);
        assert_near(cj_item(cj_soft_cross_entropy(z, cj_cat(CJ_TENSORS(first, other), 2, 1))), loss, 1e-12);
        cj_release(z);
    }
}

/* loss.ce_equals_nll */
static void loss_ce_equals_nll(void **state)
{
    (void)state;
    enum { I = 50, C = 4 };
    cj_tensor *y = cj_randint(c, 0, C, CJ_SHAPE(I)), *z = randn(CJ_SHAPE(C)), *rows = cj_expand(z, CJ_SHAPE(I, C));
    cj_tensor *q = cj_mean(cj_cast(cj_one_hot(y, C), CJ_F64), .axes = CJ_AXIS(0)), *log_p = cj_log_softmax(z, 0);
    double nll = cj_item(cj_cross_entropy(rows, y, .reduction = CJ_SUM)), ce = cj_item(cj_soft_cross_entropy(z, q));
    double entropy = -cj_item(cj_sum(cj_mul(q, cj_log(q))));
    assert_near(I * ce, nll, 1e-11);
    assert_near(cj_item(cj_kl_div(log_p, q, .reduction = CJ_SUM)), ce - entropy, 1e-14);
    int best[3] = { 0 };
    double least[3] = { INFINITY, INFINITY, INFINITY };
    for (int k = 0; k <= 100; k++) { /* one logit on a grid: the same place is best for all three */
        cj_tensor *g = cj_add(z, F64(c, CJ_SHAPE(C), -2.5 + k * 0.05, 0, 0, 0));
        double v[3] = { cj_item(cj_cross_entropy(cj_expand(g, CJ_SHAPE(I, C)), y)), cj_item(cj_soft_cross_entropy(g, q)),
                        cj_item(cj_kl_div(cj_log_softmax(g, 0), q, .reduction = CJ_SUM)) };
        for (int i = 0; i < 3; i++)
            if (v[i] < least[i]) least[i] = v[i], best[i] = k;
    }
    assert_true(best[0] == best[1] && best[1] == best[2]);
}

/* ---- likelihoods --------------------------------------------------------------------------------------------------------------------------------------------- */

FUNCTION(head_normal, cj_gaussian_scale_nll_loss(in[0], in[1], in[2]))
FUNCTION(head_laplace, cj_laplace_nll_loss(in[0], in[1], cj_exp(in[2])))
FUNCTION(head_gumbel, cj_gumbel_nll_loss(in[0], in[1], cj_exp(in[2])))
FUNCTION(head_binary, cj_bce_with_logits(in[0], cj_sigmoid(in[1])))
FUNCTION(head_poisson, cj_poisson_nll_loss(in[0], cj_exp(in[1])))

/* loss.recipe */
static void loss_recipe(void **state)
{
    (void)state;
    enum { N = 30 };
    cj_tensor *y = cj_add_scalar(randn(CJ_SHAPE(N)), 0.7);
    int best[3] = { 0 };
    double top[3] = { -INFINITY, -INFINITY, -INFINITY };
    for (int k = 0; k <= 200; k++) { /* -NLL, log-likelihood, likelihood over a grid of means */
        cj_tensor *mean = constant(k * 0.01), *z = cj_sub(y, mean);
        cj_tensor *density = cj_mul_scalar(cj_exp(cj_mul_scalar(cj_square(z), -0.5)), 1 / sqrt(2 * M_PI));
        double v[3] = { -cj_item(cj_gaussian_nll_loss(mean, y, constant(1), .reduction = CJ_SUM, .full = true)),
                        cj_item(cj_sum(cj_log(density))), cj_item(cj_prod(density)) };
        assert_near(v[0], v[1], 1e-11);
        for (int i = 0; i < 3; i++)
            if (v[i] > top[i]) top[i] = v[i], best[i] = k;
    }
    assert_true(best[0] == best[1] && best[1] == best[2]);
    cj_tensor *x[3] = { randn(CJ_SHAPE(6)), randn(CJ_SHAPE(6)), cj_add_scalar(cj_square(randn(CJ_SHAPE(6))), 0.3) };
    assert_gradient(head_normal, x, 3);
    assert_gradient(head_laplace, x, 3);
    assert_gradient(head_gumbel, x, 3);
    assert_gradient(head_binary, x, 2);
    assert_gradient(head_poisson, x, 2);
    assert_gradient(cross_entropy, CJ_TENSORS(randn(CJ_SHAPE(3, 4))), 1);
    cj_tensor *mode = leaf(constant(1.25)); /* the mode of the normal head is its mean */
    assert_near(cj_item(slope(cj_gaussian_scale_nll_loss(constant(1.25), mode, constant(0.4)), mode)), 0, 0);
}

typedef struct line_data {
    cj_tensor *x, *y;
} line_data;
static cj_tensor *line(const line_data *d, cj_tensor *const *in) { return cj_add(cj_mul(d->x, in[0]), in[1]); }
static cj_tensor *fit_line(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx;
    line_data *d = user;
    return cj_gaussian_nll_loss(line(d, in), d->y, n > 2 ? cj_exp(in[2]) : constant(0.3));
}

/* loss.gaussian_nll */
static void loss_gaussian_nll(void **state)
{
    (void)state;
    enum { N = 200 };
    cj_tensor *x = randn(CJ_SHAPE(N)), *y = cj_add(cj_add_scalar(cj_mul_scalar(x, 2), 1), cj_mul_scalar(randn(CJ_SHAPE(N)), 0.5));
    line_data d = { x, y };
    double mx = cj_item(cj_mean(x)), my = cj_item(cj_mean(y)), xx = cj_item(cj_mean(cj_square(x))) - mx * mx;
    double slope_ls = (cj_item(cj_mean(cj_mul(x, y))) - mx * my) / xx, offset = my - slope_ls * mx;
    cj_tensor *fixed[2] = { variable(constant(0)), variable(constant(0)) };
    descend(fit_line, &d, fixed, 2, 0.2, 400);
    assert_near(cj_item(fixed[0]), slope_ls, 1e-9);
    assert_near(cj_item(fixed[1]), offset, 1e-9);
    cj_tensor *learned[3] = { variable(constant(0)), variable(constant(0)), variable(constant(0)) };
    descend(fit_line, &d, learned, 3, 0.1, 3000);
    double residual = cj_item(cj_mse_loss(cj_add_scalar(cj_mul_scalar(x, slope_ls), offset), y));
    assert_near(exp(cj_item(learned[2])), residual, 1e-6);
}

static cj_tensor *fit_hetero(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    line_data *d = user;
    return cj_gaussian_scale_nll_loss(line(d, in), d->y, line(d, in + 2));
}

/* loss.hetero_nll */
static void loss_hetero_nll(void **state)
{
    (void)state;
    enum { N = 4000 };
    cj_tensor *x = cj_mul_scalar((cj_rand)(c, CJ_SHAPE(2 * N), &(cj_random_opts){ .dtype = CJ_F64 }), 2);
    cj_tensor *spread = cj_add_scalar(cj_mul_scalar(x, 0.5), 0.2); /* y = 1 + 2x + (0.2 + 0.5x)·noise */
    cj_tensor *y = cj_add(cj_add_scalar(cj_mul_scalar(x, 2), 1), cj_mul(spread, randn(CJ_SHAPE(2 * N))));
    line_data train = { cj_slice(x, 0, 0, N, 1), cj_slice(y, 0, 0, N, 1) },
              test = { cj_slice(x, 0, N, CJ_END, 1), cj_slice(y, 0, N, CJ_END, 1) };
    cj_tensor *one[3] = { variable(constant(0)), variable(constant(0)), variable(constant(0)) };
    cj_tensor *two[4] = { variable(constant(0)), variable(constant(0)), variable(constant(0)), variable(constant(1)) };
    descend(fit_line, &train, one, 3, 0.1, 1500);
    descend(fit_hetero, &train, two, 4, 0.03, 3000);
    double same = cj_item(cj_gaussian_nll_loss(line(&test, one), test.y, cj_exp(one[2]), .full = true));
    double varying = cj_item(fit_hetero(c, &test, two, 4));
    assert_true(varying < same - 0.05);
    assert_near(cj_item(two[2]), 0.5, 0.05); /* the predicted scale follows the true one */
    assert_near(fabs(cj_item(two[3])), 0.2, 0.05);
    cj_tensor *z = cj_div(cj_sub(test.y, line(&test, two)), line(&test, two + 2)), *inside = cj_cast(cj_le_scalar(cj_abs(z), 2), CJ_F64);
    for (int k = 0; k < 4; k++) { /* ±2s covers 95 % everywhere */
        cj_tensor *here = cj_cast(cj_logical_and(cj_ge_scalar(test.x, k * 0.5), cj_lt_scalar(test.x, k * 0.5 + 0.5)), CJ_F64);
        assert_near(cj_item(cj_div(cj_sum(cj_mul(inside, here)), cj_sum(here))), 0.9545, 0.03);
    }
    /* the floor: a scale of 0 is finite */
    assert_true(isfinite(cj_item(cj_gaussian_scale_nll_loss(constant(1), constant(3), constant(0)))));
}

static cj_tensor *log_partition(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    return cj_exponential_family_nll(in[0], cj_zeros(ctx, cj_shape_of(in[0]), CJ_F64), *(cj_family *)user, .reduction = CJ_SUM);
}
static cj_tensor *fit_rates(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    line_data *d = user;
    return cj_exponential_family_nll(line(d, in), d->y, CJ_FAMILY_POISSON);
}
/* A Poisson draw by counting exponential waiting times. */
static double poisson_draw(double rate, unsigned short seed[3])
{
    double t = 0;
    int n = -1;
    for (; t < rate; n++) t -= log(1 - erand48(seed));
    return n;
}

/* loss.exponential_family */
static void loss_exponential_family(void **state)
{
    (void)state;
    for (int f = CJ_FAMILY_GAUSSIAN; f <= CJ_FAMILY_EXPONENTIAL; f++) {
        cj_family family = (cj_family)f;
        cj_tensor *v = randn(CJ_SHAPE(4)), *y = cj_softmax(randn(CJ_SHAPE(4)), 0);
        if (family == CJ_FAMILY_EXPONENTIAL) v = cj_neg(cj_exp(v));
        cj_tensor *l = leaf(v), *mean = cj_exponential_family_mean(v, family);
        assert_near(distance(slope(cj_exponential_family_nll(l, y, family, .reduction = CJ_SUM), l), cj_sub(mean, y)), 0, 1e-13);
        cj_tensor *h = cj_hessian(c, log_partition, &family, v), *want; /* psi'' is the variance of y */
        switch (family) {
        case CJ_FAMILY_GAUSSIAN: want = cj_eye(c, 4, CJ_F64); break;
        case CJ_FAMILY_BERNOULLI: want = cj_mul(cj_eye(c, 4, CJ_F64), cj_mul(mean, cj_add_scalar(cj_neg(mean), 1))); break;
        case CJ_FAMILY_CATEGORICAL: want = cj_sub(cj_mul(cj_eye(c, 4, CJ_F64), mean), cj_outer(mean, mean)); break;
        case CJ_FAMILY_POISSON: want = cj_mul(cj_eye(c, 4, CJ_F64), mean); break;
        default: want = cj_mul(cj_eye(c, 4, CJ_F64), cj_square(mean));
        }
        assert_near(distance(h, want), 0, 1e-12 * (1 + cj_item(cj_max(cj_abs(want)))));
    }
    /* counts with rate exp(0.8x + 0.5) */
    enum { N = 5000 };
    static double xs[N], ys[N];
    unsigned short seed[3] = { 1, 2, 3 };
    for (int i = 0; i < N; i++) {
        xs[i] = 2 * erand48(seed) - 1;
        ys[i] = poisson_draw(exp(0.8 * xs[i] + 0.5), seed);
    }
    line_data d = { f64(c, xs, CJ_SHAPE(N)), f64(c, ys, CJ_SHAPE(N)) };
    cj_tensor *w[2] = { variable(constant(0)), variable(constant(0)) };
    descend(fit_rates, &d, w, 2, 0.3, 400);
    assert_near(cj_item(w[0]), 0.8, 0.06);
    assert_near(cj_item(w[1]), 0.5, 0.04);
}

FUNCTION(two_heads, cj_add(cj_mse_loss(in[0], F64(ctx, CJ_SHAPE(3), 1, -1, 2)), cj_cross_entropy(in[1], three_targets(ctx))))

/* loss.composite */
static void loss_composite(void **state)
{
    (void)state;
    /* independent outputs: the negative log of the product of densities is the sum of the losses */
    cj_tensor *mean = randn(CJ_SHAPE(8, 2)), *y = randn(CJ_SHAPE(8, 2)), *eye = cj_eye(c, 2, CJ_F64);
    double joint = cj_item(cj_multivariate_gaussian_nll_loss(mean, y, eye, .reduction = CJ_SUM)), sum = 0;
    for (int k = 0; k < 2; k++)
        sum += cj_item(cj_gaussian_nll_loss(cj_select(mean, 1, k), cj_select(y, 1, k), constant(1), .reduction = CJ_SUM, .full = true));
    assert_near(joint, sum, 1e-12);
    /* one head for numbers, one for classes: both are learned */
    cj_tensor *heads[2] = { variable(cj_zeros(c, CJ_SHAPE(3), CJ_F64)), variable(cj_zeros(c, CJ_SHAPE(3, 4), CJ_F64)) };
    assert_true(descend(two_heads, NULL, heads, 2, 0.5, 400) < 0.05);
    assert_near(distance(heads[0], F64(c, CJ_SHAPE(3), 1, -1, 2)), 0, 1e-6);
    assert_true(same_bits(cj_argmax(heads[1], .axes = CJ_AXIS(1)), three_targets(c)));
    /* correlated outputs: with the full covariance the likelihood is higher than with its diagonal */
    enum { N = 500 };
    cj_tensor *u = randn(CJ_SHAPE(N)), *v = randn(CJ_SHAPE(N)), *b = cj_add(cj_mul_scalar(u, 0.9), cj_mul_scalar(v, 0.4));
    cj_tensor *pair = cj_stack(CJ_TENSORS(u, b), 2, 1), *zero = cj_zeros(c, CJ_SHAPE(N, 2), CJ_F64);
    double s11 = cj_item(cj_mean(cj_square(u))), s22 = cj_item(cj_mean(cj_square(b))), s12 = cj_item(cj_mean(cj_mul(u, b)));
    double det = s11 * s22 - s12 * s12; /* precision [s22, -s12; -s12, s11]/det = L·Lᵀ */
    double l11 = sqrt(s22 / det), l21 = -s12 / det / l11, l22 = sqrt(s11 / det - l21 * l21);
    double full = cj_item(cj_multivariate_gaussian_nll_loss(zero, pair, F64(c, CJ_SHAPE(2, 2), l11, 99, l21, l22)));
    double diagonal = cj_item(cj_multivariate_gaussian_nll_loss(zero, pair, F64(c, CJ_SHAPE(2, 2), 1 / sqrt(s11), 0, 0, 1 / sqrt(s22))));
    assert_near(full, 0.5 * log(det) + 1 + log(2 * M_PI), 1e-12); /* the closed form at the maximum */
    assert_true(full < diagonal - 0.5);
}

static cj_tensor *fit_gumbel(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_gumbel_nll_loss(in[0], user, in[1]);
}

/* loss.gumbel_mle */
static void loss_gumbel_mle(void **state)
{
    (void)state;
    enum { N = 100000 };
    const double mu = 1.5, beta = 0.8;
    cj_tensor *few = randn(CJ_SHAPE(40)), *p[2] = { F64(c, CJ_SCALAR, 0.3), F64(c, CJ_SCALAR, 1.2) };
    cj_gradcheck_result r = cj_gradcheck(c, fit_gumbel, few, p, 2, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    /* the derivatives of the sum, as they are written */
    double m = 0.3, b = 1.2, n = 40, *x = values_of(few), dm = -n / b, db = n / b;
    for (int i = 0; i < 40; i++) {
        dm += exp(-(x[i] - m) / b) / b;
        db += (-(x[i] - m) + (x[i] - m) * exp(-(x[i] - m) / b)) / (b * b);
    }
    free(x);
    cj_tensor *lm = leaf(p[0]), *lb = leaf(p[1]), *g[2];
    assert_true(cj_grad(cj_gumbel_nll_loss(lm, few, lb, .reduction = CJ_SUM), CJ_TENSORS(lm, lb), 2, g));
    assert_near(cj_item(g[0]), dm, 1e-11);
    assert_near(cj_item(g[1]), db, 1e-11);
    /* 100,000 draws: mu - beta·log(exponential) */
    cj_tensor *draws =
        cj_add_scalar(cj_mul_scalar(cj_log((cj_exponential)(c, 1, CJ_SHAPE(N), &(cj_random_opts){ .dtype = CJ_F64 })), -beta), mu);
    cj_tensor *fit[2] = { variable(constant(0)), variable(constant(1.5)) };
    descend(fit_gumbel, draws, fit, 2, 0.3, 250);
    assert_near(cj_item(fit[0]), mu, 0.01 * mu);
    assert_near(cj_item(fit[1]), beta, 0.01 * beta);
    cj_vjp(c, fit_gumbel, draws, fit, 2, NULL, g);
    assert_near(cj_item(g[0]), 0, 1e-9);
    assert_near(cj_item(g[1]), 0, 1e-9);
}

/* loss.regularised */
static void loss_regularised(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(20, 3)), *y = randn(CJ_SHAPE(20, 1)), *w = leaf(randn(CJ_SHAPE(1, 3))), *b = leaf(randn(CJ_SHAPE(1))),
              *g[2], *r[2];
    double last = -1;
    assert_true(cj_grad(cj_mse_loss(cj_linear_op(x, w, b), y), CJ_TENSORS(w, b), 2, g));
    for (double lambda = 0; lambda <= 1; lambda += 0.25) { /* R + lambda·|w|²/2; the bias is left out */
        cj_tensor *omega = cj_mul_scalar(cj_sum(cj_square(w)), lambda / 2), *loss = cj_add(cj_mse_loss(cj_linear_op(x, w, b), y), omega);
        assert_true(cj_item(loss) > last);
        last = cj_item(loss);
        assert_true(cj_grad(loss, CJ_TENSORS(w, b), 2, r));
        assert_near(distance(r[0], cj_add(g[0], cj_mul_scalar(w, lambda))), 0, 1e-15);
        assert_true(same_bits(r[1], g[1]));
    }
}

typedef struct robust_data {
    line_data d;
    int loss; /* squared, Huber, absolute */
} robust_data;
static cj_tensor *fit_robust(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    robust_data *r = user;
    cj_tensor *f = line(&r->d, in);
    return r->loss == 0 ? cj_squared_loss(f, r->d.y) : r->loss == 1 ? cj_huber_loss(f, r->d.y, .delta = 0.5) : cj_l1_loss(f, r->d.y);
}

/* loss.outliers */
static void loss_outliers(void **state)
{
    (void)state;
    enum { N = 400 };
    cj_tensor *x = randn(CJ_SHAPE(N)), *clean = cj_add(cj_add_scalar(cj_mul_scalar(x, 2), 1), cj_mul_scalar(randn(CJ_SHAPE(N)), 0.5));
    cj_tensor *hit = (cj_bernoulli)(c, 0.08, CJ_SHAPE(N), &(cj_random_opts){ .dtype = CJ_F64 });
    cj_tensor *dirty = cj_add(clean, cj_mul(hit, cj_add_scalar(cj_mul_scalar(x, 10), 20))); /* 8 % gross outliers */
    double error[2][3];
    for (int k = 0; k < 6; k++) {
        robust_data r = { { x, k / 3 ? dirty : clean }, k % 3 };
        cj_tensor *w[2] = { variable(constant(0)), variable(constant(0)) };
        descend(fit_robust, &r, w, 2, 0.1, 400);
        descend(fit_robust, &r, w, 2, 0.005, 400);
        error[k / 3][k % 3] = hypot(cj_item(w[0]) - 2, cj_item(w[1]) - 1);
    }
    for (int i = 0; i < 3; i++) assert_true(error[0][i] < 4 * 0.5 / sqrt(N)); /* without them all are within a few standard errors */
    assert_true(error[1][0] > 1 && error[1][1] < 0.25 && error[1][2] < 0.25);
    assert_true(error[1][0] > 5 * error[1][1] && error[1][0] > 5 * error[1][2]);
}

/* ---- what all of them have in common --------------------------------------------------------------------------------------------------------------------- */

#define R .reduction = r
static cj_tensor *by_number(int k, cj_tensor *a, cj_tensor *b, cj_tensor *y, cj_tensor *t, cj_reduction r)
{
    cj_tensor *p = cj_softmax(cj_mul_scalar(b, 1e-4), -1), *one = cj_ones_like(a);
    switch (k) {
    case 0: return cj_mse_loss(a, b, R);
    case 1: return cj_l1_loss(a, b, R);
    case 2: return cj_huber_loss(a, b, R);
    case 3: return cj_smooth_l1_loss(a, b, R);
    case 4: return cj_pinball_loss(a, b, 0.9, R);
    case 5: return cj_perceptron_loss(a, y, R);
    case 6: return cj_hinge_loss(a, y, R);
    case 7: return cj_soft_margin_loss(a, y, R);
    case 8: return cj_zero_one_loss(a, y, R);
    case 9: return cj_hinge_embedding_loss(a, y, R);
    case 10: return cj_bce_with_logits(a, p, R);
    case 11: return cj_bce_with_logits(a, p, R, .weight = one, .pos_weight = one);
    case 12: return cj_bce_loss(cj_clamp(a, 0, 1), p, R);
    case 13: return cj_kl_div(cj_log_softmax(a, -1), p, R);
    case 14: return cj_soft_cross_entropy(a, p, R);
    case 15: return cj_margin_ranking_loss(a, b, y, R);
    case 16: return cj_squared_loss(a, b, R);
    case 17: return cj_gaussian_nll_loss(a, b, cj_abs(y), R);
    case 18: return cj_gaussian_scale_nll_loss(a, b, y, R);
    case 19: return cj_laplace_nll_loss(a, b, cj_abs(y), R);
    case 20: return cj_poisson_nll_loss(cj_abs(a), cj_abs(b), R, .rate = true, .full = true);
    case 21: return cj_exponential_family_nll(a, p, CJ_FAMILY_BERNOULLI, R);
    case 22: return cj_exponential_family_nll(a, p, CJ_FAMILY_CATEGORICAL, R);
    case 23: return cj_multilabel_soft_margin_loss(a, p, R);
    case 24: return cj_cross_entropy(a, t, R);
    case 25: return cj_cross_entropy(a, t, R, .label_smoothing = 0.1, .weight = cj_select(one, 0, 0));
    case 26: return cj_nll_loss(cj_log_softmax(a, -1), t, R);
    case 27: return cj_multi_margin_loss(a, t, R);
    case 28: return cj_multilabel_margin_loss(a, cj_expand(cj_unsqueeze(t, -1), cj_shape_of(a)), R);
    case 29: return cj_triplet_margin_loss(a, b, y, R);
    case 30: return cj_triplet_margin_loss(a, a, b, R, .swap = true);
    case 31: return cj_cosine_embedding_loss(a, b, cj_select(y, 1, 0), R);
    default: return NULL;
    }
}

static void finite_far_out(void **state)
{
    (void)state;
    static const double far[] = { -1e4, 1e4, 0, 1e4, -1e4, 1, 100, -100, 0.5, 0, 0, 0 };
    static const cj_dtype types[] = { CJ_F32, CJ_F64 };
    for (int t = 0; t < 2; t++) {
        cj_tensor *b = cj_cast(F64(c, CJ_SHAPE(4, 3), 1e4, -1e4, 0, 1e4, 3, -1e4, 0, 1, 2, -1e4, 0, 0), types[t]), *y = cj_hard_sign(b);
        cj_tensor *target = cj_from_i64(c, (int64_t[]){ 0, 1, 2, 0 }, CJ_SHAPE(4));
        int k = 0;
        for (;; k++) {
            cj_tensor *a = leaf(cj_cast(f64(c, far, CJ_SHAPE(4, 3)), types[t])), *loss = by_number(k, a, b, y, target, CJ_NONE);
            if (!loss) break;
            if (!cj_ok(c)) fail_msg("loss %d: %s", k, cj_message(c));
            if (!cj_item(cj_all(cj_isfinite(loss)))) fail_msg("loss %d in %s is not finite", k, cj_dtype_name(types[t]));
            if (!cj_item(cj_all(cj_isfinite(slope(loss, a)))))
                fail_msg("the gradient of loss %d in %s is not finite", k, cj_dtype_name(types[t]));
        }
        assert_int_equal(k, 32);
    }
}

/* The sum is the sum of what CJ_NONE gives, the mean that divided by their number. */
static void reductions(void **state)
{
    (void)state;
    cj_tensor *a = randn(CJ_SHAPE(4, 3)), *b = randn(CJ_SHAPE(4, 3)), *y = labels(CJ_SHAPE(4, 3)), *none;
    cj_tensor *t = cj_from_i64(c, (int64_t[]){ 0, 1, 2, 0 }, CJ_SHAPE(4));
    for (int k = 0; (none = by_number(k, a, b, y, t, CJ_NONE)); k++) {
        assert_ok(c);
        assert_int_equal(cj_ndim(by_number(k, a, b, y, t, CJ_MEAN)), 0);
        double sum = cj_item(by_number(k, a, b, y, t, CJ_SUM)), mean = cj_item(by_number(k, a, b, y, t, CJ_MEAN));
        assert_near(sum, cj_item(cj_sum(none)), 1e-12 * (1 + fabs(sum)));
        assert_near(mean, sum / (double)cj_numel(none), 1e-12 * (1 + fabs(mean)));
    }
}

static void errors(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(3, 4)), *y = randn(CJ_SHAPE(3, 5)), *t = three_targets(c), *v = randn(CJ_SHAPE(3)),
              *w = randn(CJ_SHAPE(5));
    assert_poisoned(CJ_ESHAPE, "huber_loss: input [3, 4] and target [3, 5] have different shapes", cj_huber_loss(x, y));
    assert_poisoned(CJ_EVALUE, "huber_loss: delta is -1, a positive number expected", cj_huber_loss(x, x, .delta = -1));
    assert_poisoned(CJ_EVALUE, "smooth_l1_loss: beta is -1, 0 or more expected", cj_smooth_l1_loss(x, x, .beta = -1));
    assert_poisoned(CJ_EVALUE, "pinball_loss: tau is 1.5, a number in [0, 1] expected", cj_pinball_loss(x, x, 1.5));
    assert_poisoned(CJ_EVALUE, "mse_loss: this loss takes no weights", cj_mse_loss(x, x, .weight = w));
    assert_poisoned(CJ_EVALUE, "mse_loss: reduction 7 is none of CJ_MEAN, CJ_SUM, CJ_NONE",
                    cj_mse_loss(x, x, .reduction = (cj_reduction)7));
    assert_poisoned(CJ_EVALUE, "hinge_loss", cj_hinge_loss(x, NULL));
    assert_poisoned(CJ_ESHAPE, "cross_entropy: the weight is f64 [5], a float for each of 4 classes expected",
                    cj_cross_entropy(x, t, .weight = w));
    assert_poisoned(CJ_EDTYPE, "nll_loss: targets are f64, i64 expected", cj_nll_loss(x, v));
    assert_poisoned(CJ_ESHAPE, "nll_loss: scores [3, 5] do not fit targets [4]", cj_nll_loss(y, cj_zeros(c, CJ_SHAPE(4), CJ_I64)));
    assert_poisoned(CJ_EVALUE, "multi_margin_loss: p is 3, 1 or 2 expected", cj_multi_margin_loss(x, t, .p = 3));
    assert_poisoned(CJ_EDTYPE, "multilabel_margin_loss: targets are f64, i64 expected", cj_multilabel_margin_loss(x, x));
    assert_poisoned(CJ_EVALUE, "soft_cross_entropy: label smoothing 2 is outside [0, 1]",
                    cj_soft_cross_entropy(x, x, .label_smoothing = 2));
    assert_poisoned(CJ_ESHAPE, "soft_cross_entropy: input [] has no classes", cj_soft_cross_entropy(constant(1), constant(1)));
    assert_poisoned(CJ_EVALUE, "cross_entropy: smooth_others with 1 classes",
                    cj_cross_entropy(randn(CJ_SHAPE(3, 1)), t, .label_smoothing = 0.1, .smooth_others = true));
    assert_poisoned(CJ_ESHAPE, "bce_with_logits: weight [5] does not broadcast to input [3, 4]", cj_bce_with_logits(x, x, .pos_weight = w));
    assert_poisoned(CJ_EVALUE, "bce_loss: pos_weight belongs to bce_with_logits", cj_bce_loss(x, x, .pos_weight = w));
    assert_poisoned(CJ_ESHAPE, "kl_div: [] has no first axis to divide by", cj_kl_div(constant(1), constant(1), .batch_mean = true));
    assert_poisoned(CJ_ESHAPE, "cosine_embedding_loss: vectors [3, 4] do not fit targets [4]",
                    cj_cosine_embedding_loss(x, x, randn(CJ_SHAPE(4))));
    assert_poisoned(CJ_ESHAPE, "cosine_embedding_loss: vectors [3, 4] do not fit targets [3, 4]", cj_cosine_embedding_loss(x, x, x));
    cj_tensor *scalar = randn(CJ_SHAPE());
    assert_poisoned(CJ_ESHAPE, "cosine_embedding_loss: vectors [] do not fit targets []", cj_cosine_embedding_loss(scalar, scalar, scalar));
    assert_poisoned(CJ_ESHAPE, "margin_ranking_loss: argument 1 [3, 4] and argument 3 [3, 5] have different shapes",
                    cj_margin_ranking_loss(x, x, y));
    assert_poisoned(CJ_EVALUE, "triplet_margin_loss: p is 0.5, 1 or more expected", cj_triplet_margin_loss(x, x, x, .p = 0.5));
    assert_poisoned(CJ_ESHAPE, "triplet_margin_loss: 0-d inputs are no vectors",
                    cj_triplet_margin_loss(constant(1), constant(1), constant(1)));
    assert_poisoned(CJ_ESHAPE, "gaussian_nll_loss: argument 3 [5] does not broadcast to the target [3, 4]", cj_gaussian_nll_loss(x, x, w));
    assert_poisoned(CJ_EVALUE, "gumbel_nll_loss: eps is -1, 0 or more expected", cj_gumbel_nll_loss(x, x, constant(1), .eps = -1));
    assert_poisoned(CJ_ESHAPE, "multivariate_gaussian_nll_loss: factor [3, 5] does not fit mean [3, 4]",
                    cj_multivariate_gaussian_nll_loss(x, x, y));
    assert_poisoned(CJ_EVALUE, "exponential_family_nll: there is no family 9", cj_exponential_family_nll(x, x, (cj_family)9));
    assert_poisoned(CJ_ESHAPE, "exponential_family_mean: a 0-d input has no classes",
                    cj_exponential_family_mean(constant(1), CJ_FAMILY_CATEGORICAL));
    assert_poisoned(CJ_EDTYPE, "mse_loss: the input is i64, a float type expected", cj_mse_loss(t, t));
    assert_null(cj_mse_loss(NULL, NULL));
    assert_null(cj_triplet_margin_loss(NULL, NULL, NULL));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(loss_squared),
        CASE(loss_absolute),
        CASE(loss_huber),
        CASE(loss_pinball),
        CASE(loss_zero_one),
        CASE(loss_perceptron),
        CASE(loss_hinge),
        CASE(loss_exponential),
        CASE(loss_logistic),
        CASE(loss_bce),
        CASE(loss_cross_entropy),
        CASE(loss_soft_targets),
        CASE(loss_label_smoothing),
        CASE(loss_ce_equals_nll),
        CASE(loss_recipe),
        CASE(loss_gaussian_nll),
        CASE(loss_hetero_nll),
        CASE(loss_exponential_family),
        CASE(loss_composite),
        CASE(loss_gumbel_mle),
        CASE(loss_regularised),
        CASE(loss_outliers),
        CASE(finite_far_out),
        CASE(reductions),
        CASE(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
