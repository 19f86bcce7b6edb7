/* The catalogue's rows on residual connections, resid.* by name, with cj_residual_layer. */
#include "support.h"

TEST_CONTEXT(.threads = 2, .seed = 12);

static cj_tensor *normal(cj_shape s, double std) { return cj_mul_scalar(cj_randn(c, s, .dtype = CJ_F64), std); }

/* A branch in f64: out·relu(in·x), or out·tanh(in·x). */
typedef struct branch {
    cj_tensor *in, *out;
    bool smooth;
} branch;
static cj_tensor *branch_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const branch *b = self;
    cj_tensor *a = cj_matmul(x, cj_t(b->in));
    return cj_matmul(b->smooth ? cj_tanh(a) : cj_relu(a), cj_t(b->out));
}
static const cj_module_type branch_type = { "Branch", branch_forward, NULL };
static cj_module *branch_new(cj_tensor *in, cj_tensor *out, bool smooth)
{
    cj_module *m = cj_module_new(c, &branch_type, sizeof(branch));
    branch *b = cj_module_self(m);
    *b = (branch){ cj_module_param(m, "in", in), cj_module_param(m, "out", out), smooth };
    return m;
}

static cj_tensor *forward(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_forward(user, in[0]);
}

/* resid.block: three blocks are x + f1(x) + f2(x + f1(x)) + f3(..); a projection where sizes differ; silent branches are the identity */
static void resid_block(void **state)
{
    (void)state;
    enum { D = 4 };
    cj_module *f[3], *block[3];
    for (int i = 0; i < 3; i++) {
        f[i] = branch_new(normal(CJ_SHAPE(6, D), 0.5), normal(CJ_SHAPE(D, 6), 0.5), true);
        block[i] = cj_residual_layer(c, f[i], NULL);
    }
    cj_module *net = cj_sequential(c, block[0], block[1], block[2]);
    cj_tensor *x = normal(CJ_SHAPE(5, D), 1), *f1 = cj_forward(f[0], x), *f2 = cj_forward(f[1], cj_add(x, f1));
    cj_tensor *f3 = cj_forward(f[2], cj_add(cj_add(x, f1), cj_forward(f[1], cj_add(x, f1))));
    assert_near(distance(cj_forward(net, x), cj_add(cj_add(x, f1), cj_add(f2, f3))), 0, 1e-14);
    cj_gradcheck_result r = cj_gradcheck(c, forward, net, &x, 1, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    cj_module *wide = branch_new(normal(CJ_SHAPE(6, D), 0.5), normal(CJ_SHAPE(7, 6), 0.5), true),
              *project = branch_new(normal(CJ_SHAPE(3, D), 0.5), normal(CJ_SHAPE(7, 3), 0.5), true);
    cj_tensor *both = cj_forward(cj_residual_layer(c, wide, project), x);
    assert_near(distance(both, cj_add(cj_forward(wide, x), cj_forward(project, x))), 0, 1e-15);
    cj_module *silent = cj_residual_layer(c, branch_new(normal(CJ_SHAPE(6, D), 1), cj_zeros(c, CJ_SHAPE(D, 6), CJ_F64), false), NULL);
    assert_near(distance(cj_forward(silent, x), x), 0, 0);
}

/* resid.jacobian: with a zero last layer the Jacobian is exactly the identity, gradients of 100 blocks are alike */
static void resid_jacobian(void **state)
{
    (void)state;
    enum { D = 5, BLOCKS = 100 };
    cj_module *block[BLOCKS + 1] = { 0 };
    for (int i = 0; i < BLOCKS; i++)
        block[i] = cj_residual_layer(c, branch_new(normal(CJ_SHAPE(8, D), 1), cj_zeros(c, CJ_SHAPE(D, 8), CJ_F64), false), NULL);
    cj_module *net = (cj_sequential)(c, block);
    cj_tensor *x = normal(CJ_SHAPE(1, D), 1), *J = cj_reshape(cj_jacobian(c, forward, net, x), CJ_SHAPE(D, D));
    assert_near(distance(J, cj_eye(c, D, CJ_F64)), 0, 0);
    cj_tensor *h[BLOCKS + 1], *g[2], *top = normal(CJ_SHAPE(1, D), 1);
    h[0] = cj_require_grad(x);
    for (int i = 0; i < BLOCKS; i++) h[i + 1] = cj_forward(block[i], h[i]);
    assert_true(cj_grad(h[BLOCKS], CJ_TENSORS(h[0], h[BLOCKS - 1]), 2, g, .seed = top));
    assert_near(distance(g[0], top), 0, 0); /* at the first block what it is at the top */
    assert_near(distance(g[1], top), 0, 0);
}

/* Second moment minus squared mean of all elements. */
static double variance_of(cj_tensor *x) { return cj_item(cj_mean(cj_square(x))) - pow(cj_item(cj_mean(x)), 2); }

/* resid.variance: 2^k with He's initial values; 1 with 1/sqrt(2); 1 + k with batch norm in the branch */
static void resid_variance(void **state)
{
    (void)state;
    enum { D = 1500, ROWS = 300, BLOCKS = 5 };
    bool grad = cj_no_grad(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(ROWS, D)), *plain = x, *scaled = x, *normed = x;
    for (int k = 1; k <= BLOCKS; k++) {
        cj_module *weight = cj_linear(c, D, D, .zero_bias = true);
        cj_init_kaiming_normal_(cj_params_find(cj_module_params(weight), "weight"), CJ_FAN_IN, 0);
        cj_module *body = cj_sequential(c, cj_relu_layer(c), weight), *block = cj_residual_layer(c, body, NULL);
        cj_module *with_norm = cj_residual_layer(c, cj_sequential(c, cj_batch_norm_layer(c, D), cj_relu_layer(c), weight), NULL);
        plain = cj_forward(block, plain);
        scaled = cj_mul_scalar(cj_forward(block, scaled), 1 / sqrt(2));
        normed = cj_forward(with_norm, normed);
        assert_near(variance_of(plain) / pow(2, k), 1, 0.05);
        assert_near(variance_of(scaled), 1, 0.05);
        assert_near(variance_of(normed) / (1 + k), 1, 0.05);
    }
    cj_grad_mode(c, grad);
}

/* resid.no-extra-power: x + W relu(V x) = [1, -1, W] relu([1; -1; V] x): a plain net with wider layers computes the same */
static void resid_no_extra_power(void **state)
{
    (void)state;
    enum { D = 4, H = 6, BLOCKS = 3, WIDE = 2 * D + H };
    cj_module *block[BLOCKS + 1] = { 0 };
    cj_tensor *x = normal(CJ_SHAPE(200, D), 1), *I = cj_eye(c, D, CJ_F64), *plain = NULL, *left = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        cj_tensor *V = normal(CJ_SHAPE(H, D), 0.7), *W = normal(CJ_SHAPE(D, H), 0.7);
        block[i] = cj_residual_layer(c, branch_new(V, W, false), NULL);
        cj_tensor *right = cj_cat(CJ_TENSORS(I, cj_neg(I), V), 3, 0); /* [WIDE, D] */
        cj_tensor *A = left ? cj_matmul(right, left) : right;         /* one linear layer between two relus */
        plain = cj_relu(cj_matmul(left ? plain : x, cj_t(A)));
        left = cj_cat(CJ_TENSORS(I, cj_neg(I), W), 3, 1); /* [D, WIDE] */
    }
    cj_tensor *y = cj_forward((cj_sequential)(c, block), x);
    assert_int_equal(cj_size(plain, 1), WIDE);
    assert_near(distance(cj_matmul(plain, cj_t(left)), y), 0, 1e-5);
    assert_near(distance(cj_matmul(plain, cj_t(left)), y), 0, 1e-11);
    assert_true(distance(y, x) > 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resid_block),
        TEST(resid_jacobian),
        TEST(resid_variance),
        TEST(resid_no_extra_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
