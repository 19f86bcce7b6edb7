/* The catalogue's row graph.renormalisation, and cnn.three-stage: what stacking does to the scale of features, and to the shape of images. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 27);

enum { NODES = 12 };

static cj_tensor *product(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_matmul(user, in[0]);
}

/* graph.renormalisation: the largest eigenvalue of 1 + D^-1/2 A D^-1/2 is 2, that of the renormalised matrix 1; 20 layers grow by 2^20, or stay */
static void graph_renormalisation(void **state)
{
    (void)state;
    for (int trial = 0; trial < 5; trial++) {
        double a[NODES * NODES] = { 0 }, degree[NODES] = { 0 }, *coin = values_of(cj_rand(c, CJ_SHAPE(NODES, NODES), .dtype = CJ_F64));
        for (int i = 0; i < NODES; i++)
            for (int j = 0; j < i; j++) /* a ring, so that it is connected, and a third of all pairs */
                if (i - j == 1 || i - j == NODES - 1 || coin[i * NODES + j] < 1.0 / 3) a[i * NODES + j] = a[j * NODES + i] = 1;
        free(coin);
        for (int i = 0; i < NODES * NODES; i++) degree[i / NODES] += a[i];
        cj_tensor *A = f64(c, a, CJ_SHAPE(NODES, NODES)), *root = cj_rsqrt(f64(c, degree, CJ_SHAPE(NODES)));
        cj_tensor *plain = cj_add(cj_eye(c, NODES, CJ_F64), cj_mul(cj_mul(A, cj_unsqueeze(root, 0)), cj_unsqueeze(root, 1)));
        cj_tensor *again = cj_csr_to_dense(cj_graph_normalise(cj_csr_from_dense(A))), *start = cj_ones(c, CJ_SHAPE(NODES), CJ_F64);
        assert_near(cj_power_iteration(c, product, plain, start).value, 2, 5e-5);
        assert_near(cj_power_iteration(c, product, again, start).value, 1, 5e-5);
        double *w = values_of(cj_eigvalsh(again)), *u = values_of(cj_eigvalsh(plain));
        assert_near(u[NODES - 1], 2, 1e-12);
        assert_near(w[NODES - 1], 1, 1e-12);
        assert_true(w[0] > -1);
        free(w), free(u);
        cj_tensor *x = cj_reciprocal(root), *y = x, *z = x; /* sqrt(degree): the first eigenvector of the plain matrix */
        for (int layer = 0; layer < 20; layer++) y = cj_matmul(plain, y), z = cj_matmul(again, z);
        double before = cj_item(cj_norm(x, 2));
        assert_near(cj_item(cj_norm(y, 2)) / before / 0x1p20, 1, 1e-10);
        assert_true(cj_item(cj_norm(z, 2)) <= before * (1 + 1e-12));
    }
}

/* cnn.three-stage: convolution, detector, pooling as one block are the three operators; sizes fall while channels grow */
static void cnn_three_stage(void **state)
{
    (void)state;
    enum { STAGES = 3 };
    static const int64_t channels[STAGES + 1] = { 3, 8, 16, 32 };
    cj_module *stage[STAGES], *all[STAGES + 1] = { 0 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 32, 32)), *y = x;
    for (int i = 0; i < STAGES; i++) {
        stage[i] = cj_sequential(c, cj_conv_layer(c, channels[i], channels[i + 1], CJ_SHAPE(3, 3), .conv = { .padding = 1 }),
                                 cj_relu_layer(c), cj_max_pool_layer(c, .kernel = 2));
        all[i] = stage[i];
        cj_params *p = cj_module_params(stage[i]);
        cj_tensor *affine = cj_conv(y, cj_params_find(p, "0.weight"), cj_params_find(p, "0.bias"), .padding = 1);
        cj_tensor *pooled = cj_max_pool(cj_relu(affine), .kernel = 2).value;
        assert_near(distance(cj_forward(stage[i], y), pooled), 0, 1e-5);
        y = pooled;
    }
    cj_module *net = (cj_sequential)(c, all);
    assert_near(distance(cj_forward(net, x), y), 0, 1e-5);
    cj_module_row rows[32];
    int n = cj_module_describe(net, CJ_SHAPE(1, 3, 32, 32), rows, 32), pools = 0;
    assert_true(n > 0 && n <= 32);
    for (int i = 0; i < n; i++) {
        cj_shape s = rows[i].output;
        if (!strstr(rows[i].type, "Pool")) continue;
        pools++;
        assert_int_equal(s.dim[1], channels[pools]);
        assert_true(s.dim[2] == 32 >> pools && s.dim[3] == 32 >> pools);
    }
    assert_int_equal(pools, STAGES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(graph_renormalisation), TEST(cnn_three_stage) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
