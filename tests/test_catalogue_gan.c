/* The catalogue's rows on adversarial losses and distances, gan.* by name: two tables, two Gaussians, everything by quadrature or closed form. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 14);

static cj_tensor *normal(cj_shape s) { return cj_randn(c, s, .dtype = CJ_F64); }

/* E log D(x) + E log(1 - D(G(z))) of logits */
static cj_tensor *value_of_game(cj_tensor *real, cj_tensor *fake)
{
    return cj_add(cj_mean(cj_log_sigmoid(real)), cj_mean(cj_log_sigmoid(cj_neg(fake))));
}

/* gan.minimax: V is -2 times the balanced logistic loss; stable in logits; 0 for a perfect discriminator */
static void gan_minimax(void **state)
{
    (void)state;
    enum { N = 50 };
    cj_tensor *real = cj_mul_scalar(normal(CJ_SHAPE(N)), 3), *fake = cj_mul_scalar(normal(CJ_SHAPE(N)), 3), *V = value_of_game(real, fake);
    cj_tensor *label = cj_cat(CJ_TENSORS(cj_ones_like(real), cj_zeros_like(fake)), 2, 0);
    assert_near(cj_item(V), -2 * cj_item(cj_bce_with_logits(cj_cat(CJ_TENSORS(real, fake), 2, 0), label)), 1e-13);
    double *r = values_of(real), *f = values_of(fake), naive = 0;
    for (int i = 0; i < N; i++) naive += (log(1 / (1 + exp(-r[i]))) + log(1 - 1 / (1 + exp(-f[i])))) / N;
    assert_near(cj_item(V), naive, 1e-12);
    free(r), free(f);
    cj_tensor *sure = cj_full(c, 1000, CJ_SHAPE(N), CJ_F64);
    assert_near(cj_item(value_of_game(sure, cj_neg(sure))), 0, 0);
    assert_true(cj_item(value_of_game(cj_neg(sure), sure)) == -2000); /* no overflow where the naive form is -inf */
    assert_true(cj_item(V) < 0);
}

/* sum p log d + q log(1 - d) */
static cj_tensor *table_value(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *const *pq = user;
    return cj_add(cj_sum(cj_mul(pq[0], cj_log(in[0]))), cj_sum(cj_mul(pq[1], cj_log(cj_add_scalar(cj_neg(in[0]), 1)))));
}

/* gan.optimal-d: D* = p/(p + q), V(D*) = -log 4 + 2 JSD; a trained discriminator of two Gaussians comes to it */
static void gan_optimal_d(void **state)
{
    (void)state;
    cj_tensor *p = F64(c, CJ_SHAPE(4), .1, .4, .3, .2), *q = F64(c, CJ_SHAPE(4), .25, .25, .4, .1), *pq[2] = { p, q };
    cj_tensor *best = cj_div(p, cj_add(p, q));
    double jsd = cj_item(cj_jensen_shannon(p, q)), at_best = cj_item(table_value(c, pq, &best, 1));
    assert_near(at_best, -log(4) + 2 * jsd, 1e-14);
    assert_near(at_best / 2, jsd - log(2), 1e-14); /* with half weights */
    cj_tensor *g, *d = cj_require_grad(cj_uniform(c, 0.1, 0.9, CJ_SHAPE(4), .dtype = CJ_F64));
    cj_tensor *V = table_value(c, pq, &d, 1);
    assert_true(cj_item(V) < at_best);
    assert_true(cj_grad(V, &d, 1, &g)); /* p/d - q/(1 - d) */
    assert_near(distance(g, cj_sub(cj_div(p, d), cj_div(q, cj_add_scalar(cj_neg(d), 1)))), 0, 1e-13);
    cj_tensor *same[2] = { p, p }, *half = cj_full(c, 0.5, CJ_SHAPE(4), CJ_F64);
    assert_near(distance(cj_div(p, cj_add(p, p)), half), 0, 0);
    assert_near(cj_item(table_value(c, same, &half, 1)), -1.386294, 5e-7);
    assert_near(cj_item(table_value(c, same, &half, 1)) / 2, -.693147, 5e-7);
    assert_near(cj_item(cj_jensen_shannon(F64(c, CJ_SHAPE(4), .3, .7, 0, 0), F64(c, CJ_SHAPE(4), 0, 0, .6, .4))), log(2), 1e-15);
    /* N(0, 1) against N(1, 1) by quadrature: log p/q = 1/2 - x is among the discriminators w x + b */
    enum { M = 401 };
    double x[M], a[M], b[M];
    for (int i = 0; i < M; i++) x[i] = -7 + 15.0 * i / (M - 1), a[i] = 15.0 / (M - 1) / sqrt(2 * M_PI) * exp(-x[i] * x[i] / 2);
    for (int i = 0; i < M; i++) b[i] = 15.0 / (M - 1) / sqrt(2 * M_PI) * exp(-(x[i] - 1) * (x[i] - 1) / 2);
    cj_tensor *X = f64(c, x, CJ_SHAPE(M)), *P = f64(c, a, CJ_SHAPE(M)), *Q = f64(c, b, CJ_SHAPE(M)), *w = F64(c, CJ_SHAPE(2), 0.3, 0);
    for (int step = 0; step < 600; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *at = cj_require_grad(w), *logit = cj_add(cj_mul(X, cj_slice(at, 0, 0, 1, 1)), cj_slice(at, 0, 1, 2, 1)), *slope;
        cj_tensor *game = cj_add(cj_sum(cj_mul(P, cj_log_sigmoid(logit))), cj_sum(cj_mul(Q, cj_log_sigmoid(cj_neg(logit)))));
        assert_true(cj_grad(game, &at, 1, &slope));
        w = cj_scope_return(s, cj_add(w, slope));
    }
    for (int i = 0; i < M; i++) assert_near(1 / (1 + exp(-value_at(w, 0) * x[i] - value_at(w, 1))), a[i] / (a[i] + b[i]), 1e-3);
}

/* Of the Gaussians fitted to two sets of rows. */
static double frechet(cj_tensor *x, cj_tensor *y)
{
    cj_tensor *mx = cj_mean(x, .axes = CJ_AXIS(0)), *my = cj_mean(y, .axes = CJ_AXIS(0));
    return cj_item(cj_gaussian_w2_full(mx, cj_cov(x), my, cj_cov(y)));
}

/* gan.fid: N(0, 1) against N(1, 4) is 2; 0 for one set; symmetric; rises with noise */
static void gan_fid(void **state)
{
    (void)state;
    cj_tensor *zero = F64(c, CJ_SHAPE(1), 0), *one = F64(c, CJ_SHAPE(1), 1), *unit = F64(c, CJ_SHAPE(1, 1), 1),
              *four = F64(c, CJ_SHAPE(1, 1), 4);
    assert_near(cj_item(cj_gaussian_w2_full(zero, unit, one, four)), 2, 1e-12);
    enum { N = 500, D = 4 };
    cj_tensor *x = cj_matmul(normal(CJ_SHAPE(N, D)), normal(CJ_SHAPE(D, D))), *y = cj_add_scalar(normal(CJ_SHAPE(N, D)), 0.3);
    cj_tensor *noise = normal(CJ_SHAPE(N, D));
    assert_near(frechet(x, x), 0, 1e-8);
    assert_near(frechet(x, y), frechet(y, x), 1e-9 * frechet(x, y));
    double before = 0;
    for (int k = 1; k <= 4; k++) {
        double far = frechet(x, cj_add(x, cj_mul_scalar(noise, 0.5 * k)));
        assert_true(far > before);
        before = far;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(gan_minimax), TEST(gan_optimal_d), TEST(gan_fid) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
