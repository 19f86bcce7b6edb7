/* The catalogue's rows on autoencoders, ae.* by name: linear, tied and contractive ones, in f64 against formulas. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 33);

static cj_tensor *normal(cj_shape s, double std) { return cj_mul_scalar(cj_randn(c, s, .dtype = CJ_F64), std); }

/* ---- linear: y = D·C·x, loss |X - D C X|²/(2 s) ---------------------------------------------------------------------------------------------- */

enum { S = 8, N = 4, M = 2 };

typedef struct setting {
    cj_tensor *X; /* [N, S]: examples in columns */
    cj_tensor *C, *D;
} setting;
static cj_tensor *linear_loss(cj_tensor *X, cj_tensor *C, cj_tensor *D)
{
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(X, cj_matmul(D, cj_matmul(C, X))))), 0.5 / S);
}
static cj_tensor *of_code(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const setting *s = user;
    return linear_loss(s->X, in[0], s->D);
}
static cj_tensor *of_decoder(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const setting *s = user;
    return linear_loss(s->X, s->C, in[0]);
}
static cj_tensor *of_both(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) /* [2, M·N] */
{
    (void)ctx, (void)n;
    const setting *s = user;
    return linear_loss(s->X, cj_reshape(cj_select(in[0], 0, 0), CJ_SHAPE(M, N)), cj_reshape(cj_select(in[0], 0, 1), CJ_SHAPE(N, M)));
}
static bool convex(cj_fn fn, setting *s, cj_shape shape)
{
    return cj_check_convex(c, fn, s, cj_full(c, -2, shape, CJ_F64), cj_full(c, 2, shape, CJ_F64)).convex;
}

/* ae.linear: gradients by hand; rank of the code at most; convex in each factor, not in both; nothing lost with as many codes as inputs */
static void ae_linear(void **state)
{
    (void)state;
    setting s = { normal(CJ_SHAPE(N, S), 1), normal(CJ_SHAPE(M, N), 1), normal(CJ_SHAPE(N, M), 1) };
    cj_tensor *C = cj_require_grad(s.C), *D = cj_require_grad(s.D), *g[2];
    assert_true(cj_grad(linear_loss(s.X, C, D), CJ_TENSORS(C, D), 2, g));
    cj_tensor *Y = cj_matmul(s.D, cj_matmul(s.C, s.X)), *gap = cj_mul_scalar(cj_sub(Y, s.X), 1.0 / S);
    assert_near(distance(g[0], cj_matmul(cj_t(s.D), cj_matmul(gap, cj_t(s.X)))), 0, 1e-13); /* Dᵀ(y - x)xᵀ */
    assert_near(distance(g[1], cj_matmul(cj_matmul(gap, cj_t(s.X)), cj_t(s.C))), 0, 1e-13); /* (y - x)xᵀCᵀ */
    assert_true(cj_item(cj_matrix_rank(Y)) <= M);
    assert_true(convex(of_code, &s, CJ_SHAPE(M, N)) && convex(of_decoder, &s, CJ_SHAPE(N, M)));
    assert_false(convex(of_both, &s, CJ_SHAPE(2, M * N)));
    cj_tensor *code = normal(CJ_SHAPE(N + 1, N), 1);
    assert_near(cj_item(linear_loss(s.X, code, cj_pinv(code))), 0, 1e-24); /* N + 1 codes: the decoder undoes them */
    cj_tensor *c2 = normal(CJ_SHAPE(N, N), 0.5), *d2 = normal(CJ_SHAPE(N, N), 0.5);
    double last = 0;
    for (int step = 0; step < 6000; step++) { /* and descent finds that too */
        cj_scope scope = cj_scope_open(c);
        cj_tensor *both = cj_require_grad(cj_stack(CJ_TENSORS(c2, d2), 2, 0)), *slope;
        cj_tensor *loss = linear_loss(s.X, cj_select(both, 0, 0), cj_select(both, 0, 1));
        last = cj_item(loss);
        assert_true(cj_grad(loss, &both, 1, &slope));
        cj_tensor *next = cj_scope_return(scope, cj_sub(both, cj_mul_scalar(slope, 0.1)));
        c2 = cj_select(next, 0, 0), d2 = cj_select(next, 0, 1);
    }
    assert_near(last, 0, 1e-4);
}

/* ---- sigmoid units ------------------------------------------------------------------------------------------------------------------------------ */

enum { IN = 5, HIDDEN = 3, ROWS = 6 };

/* Squared error of V·sigmoid(W x + b) + e */
static cj_tensor *error_of(cj_tensor *x, cj_tensor *W, cj_tensor *b, cj_tensor *V, cj_tensor *e)
{
    cj_tensor *y = cj_linear_op(cj_sigmoid(cj_linear_op(x, W, b)), V, e);
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(y, x))), 0.5 / ROWS);
}

/* ae.tied: the gradient of W is the encoder's plus the transposed decoder's; half as many weights */
static void ae_tied(void **state)
{
    (void)state;
    cj_tensor *x = normal(CJ_SHAPE(ROWS, IN), 1), *w = normal(CJ_SHAPE(HIDDEN, IN), 1), *b = normal(CJ_SHAPE(HIDDEN), 1),
              *e = normal(CJ_SHAPE(IN), 1);
    cj_tensor *W = cj_require_grad(w), *V = cj_require_grad(cj_contiguous(cj_t(w))), *tied = cj_require_grad(w), *g[2], *both;
    assert_true(cj_grad(error_of(x, W, b, V, e), CJ_TENSORS(W, V), 2, g));
    assert_true(cj_grad(error_of(x, tied, b, cj_t(tied), e), &tied, 1, &both));
    assert_near(distance(both, cj_add(g[0], cj_t(g[1]))), 0, 1e-12);
    assert_true(distance(both, g[0]) > 1e-3);
    assert_int_equal(2 * cj_numel(tied), cj_numel(W) + cj_numel(V));
}

typedef struct encoder {
    cj_tensor *W, *b;
} encoder;
static cj_tensor *encode(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const encoder *k = self;
    return cj_sigmoid(cj_linear_op(x, k->W, k->b));
}
static const cj_module_type encoder_type = { "Encoder", encode, NULL };

/* mean over the rows of sum_j (h_j (1 - h_j))² sum_k W_jk² */
static cj_tensor *contraction(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *x = user, *h = cj_sigmoid(cj_linear_op(x, in[0], in[1]));
    cj_tensor *slope = cj_square(cj_mul(h, cj_add_scalar(cj_neg(h), 1)));
    return cj_mul_scalar(cj_sum(cj_mul(slope, cj_sum(cj_square(in[0]), .axes = CJ_AXIS(1)))), 1 / (double)cj_size(x, 0));
}

/* ae.contractive: the closed form is the Jacobian's norm, gradients too; a larger factor makes it smaller */
static void ae_contractive(void **state)
{
    (void)state;
    cj_tensor *x = normal(CJ_SHAPE(ROWS, IN), 1), *in[2] = { normal(CJ_SHAPE(HIDDEN, IN), 1), normal(CJ_SHAPE(HIDDEN), 1) }, *g[2],
              *want[2];
    cj_module *m = cj_module_new(c, &encoder_type, sizeof(encoder));
    encoder *k = cj_module_self(m);
    *k = (encoder){ cj_module_param(m, "W", in[0]), cj_module_param(m, "b", in[1]) };
    cj_tensor *penalty = cj_jacobian_penalty(m, x), *leaf[2] = { cj_require_grad(in[0]), cj_require_grad(in[1]) };
    assert_near(cj_item(penalty), cj_item(contraction(c, x, in, 2)), 1e-10);
    assert_true(cj_grad(penalty, CJ_TENSORS(k->W, k->b), 2, g));
    assert_true(cj_grad(contraction(c, x, leaf, 2), leaf, 2, want));
    for (int i = 0; i < 2; i++) assert_near(distance(g[i], want[i]), 0, 1e-10);
    cj_gradcheck_result r = cj_gradcheck(c, contraction, x, in, 2);
    if (!r.ok) fail_msg("%s", r.what);
    double norm[3];
    static const double lambda[3] = { 0, 0.1, 1 };
    for (int i = 0; i < 3; i++) {
        cj_tensor *w = in[0], *zero = cj_zeros(c, CJ_SHAPE(HIDDEN), CJ_F64), *none = cj_zeros(c, CJ_SHAPE(IN), CJ_F64);
        for (int step = 0; step < 300; step++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *at = cj_require_grad(w), *slope, *two[2] = { at, zero };
            cj_tensor *loss = cj_add(error_of(x, at, zero, cj_t(at), none), cj_mul_scalar(contraction(c, x, two, 2), lambda[i]));
            assert_true(cj_grad(loss, &at, 1, &slope));
            w = cj_scope_return(s, cj_sub(w, cj_mul_scalar(slope, 0.1)));
        }
        norm[i] = cj_item(contraction(c, x, CJ_TENSORS(w, zero), 2));
    }
    assert_true(norm[1] < norm[0] && norm[2] < norm[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(ae_linear), TEST(ae_tied), TEST(ae_contractive) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
