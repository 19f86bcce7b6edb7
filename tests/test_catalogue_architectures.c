/* Catalogue rows of known convolutional networks, built from layers: how many parameters they have, and where.  ctest: slow */
#include "zoo.h"

extern const cj_model cj_model_lenet5;

/* A context for each network: the largest take half a gigabyte. */
static cj_ctx *c;
static int setup(void **state) { return (void)state, (c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 141 })) ? 0 : 1; }
static int teardown(void **state)
{
    (void)state;
    assert_ok(c);
    cj_ctx_free(c);
    return 0;
}
static void fresh(void)
{
    teardown(NULL);
    setup(NULL);
}

static int64_t count(cj_module *m) { return cj_params_numel(cj_module_params(m)); }

/* Modules one after the other, as they come. */
typedef struct chain {
    cj_module *m[200];
    int n;
} chain;
static void then(chain *k, cj_module *m) { k->m[k->n++] = m, assert_true(k->n < 200); }
static cj_module *end(chain *k) { return k->m[k->n] = NULL, (cj_sequential)(c, k->m); }

static cj_module *conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, bool bias)
{
    return cj_conv_layer(c, in, out, CJ_SHAPE(kernel, kernel), .conv = { .stride = stride, .padding = kernel / 2 }, .no_bias = !bias);
}

/* ---- residual networks (He et al. 2016) ------------------------------------------------------------------------------------------------------------------------------ */

static cj_module *residual_block(int64_t in, int64_t width, int64_t stride, bool bottleneck)
{
    int64_t out = bottleneck ? 4 * width : width;
    chain k = { 0 };
    if (bottleneck) then(&k, conv(in, width, 1, 1, false)), then(&k, cj_batch_norm_layer(c, width)), then(&k, cj_relu_layer(c));
    then(&k, conv(bottleneck ? width : in, width, 3, stride, false)), then(&k, cj_batch_norm_layer(c, width)), then(&k, cj_relu_layer(c));
    then(&k, conv(width, out, bottleneck ? 1 : 3, 1, false)), then(&k, cj_batch_norm_layer(c, out));
    cj_module *shortcut = stride != 1 || in != out ? cj_sequential(c, conv(in, out, 1, stride, false), cj_batch_norm_layer(c, out)) : NULL;
    return cj_sequential(c, cj_residual_layer(c, end(&k), shortcut), cj_relu_layer(c));
}

static cj_module *resnet(const int stages[4], bool bottleneck)
{
    chain k = { 0 };
    int64_t in = 64;
    then(&k, conv(3, 64, 7, 2, false)), then(&k, cj_batch_norm_layer(c, 64)), then(&k, cj_relu_layer(c));
    then(&k, cj_max_pool_layer(c, .kernel = 3, .stride = 2, .padding = 1));
    for (int s = 0; s < 4; s++)
        for (int b = 0; b < stages[s]; b++) {
            then(&k, residual_block(in, (int64_t)64 << s, s && !b ? 2 : 1, bottleneck));
            in = ((int64_t)64 << s) * (bottleneck ? 4 : 1);
        }
    then(&k, cj_global_avg_pool_layer(c)), then(&k, cj_linear(c, in, 1000));
    return end(&k);
}

/* cnn.resnet */
static void cnn_resnet(void **state)
{
    (void)state;
    static const struct {
        int stages[4];
        bool bottleneck;
        int64_t params;
    } each[] = { { { 2, 2, 2, 2 }, false, 11689512 },
                 { { 3, 4, 6, 3 }, false, 21797672 },
                 { { 3, 4, 6, 3 }, true, 25557032 },
                 { { 3, 4, 23, 3 }, true, 44549160 } };
    for (int i = 0; i < 4; i++) {
        cj_module *net = resnet(each[i].stages, each[i].bottleneck);
        assert_int_equal(count(net), each[i].params);
        if (i % 2 == 0) {
            cj_module_train(net, false);
            bool was = cj_no_grad(c);
            assert_int_equal(cj_size(cj_forward(net, cj_randn(c, CJ_SHAPE(1, 3, 32, 32))), 1), 1000);
            cj_grad_mode(c, was);
        }
        fresh();
    }
    /* the last norm's weight 0: a block hands on what it gets (which is not negative) */
    for (int bottleneck = 0; bottleneck < 2; bottleneck++) {
        cj_module *block = residual_block(bottleneck ? 64 : 16, 16, 1, bottleneck);
        char name[32];
        snprintf(name, sizeof name, "0.body.%d.weight", bottleneck ? 7 : 4);
        cj_init_constant_(cj_params_find(cj_module_params(block), name), 0);
        cj_tensor *x = cj_rand(c, CJ_SHAPE(2, bottleneck ? 64 : 16, 6, 6));
        assert_true(same_bits(cj_contiguous(cj_forward(block, x)), x));
    }
}

/* ---- wide residual networks (Zagoruyko & Komodakis 2016): norm, relu, convolution ------------------------------------------------------------------------------------- */

static cj_module *wide_block(int64_t in, int64_t out, int64_t stride)
{
    cj_module *body = cj_sequential(c, cj_batch_norm_layer(c, in), cj_relu_layer(c), conv(in, out, 3, stride, false),
                                    cj_batch_norm_layer(c, out), cj_relu_layer(c), conv(out, out, 3, 1, false));
    return cj_residual_layer(c, body, in == out && stride == 1 ? NULL : conv(in, out, 1, stride, false));
}

static cj_module *wide_resnet(int depth, int64_t width)
{
    chain k = { 0 };
    int64_t in = 16;
    then(&k, conv(3, 16, 3, 1, false));
    for (int s = 0; s < 3; s++)
        for (int b = 0; b < (depth - 4) / 6; b++) then(&k, wide_block(in, (16 * width) << s, s && !b ? 2 : 1)), in = (16 * width) << s;
    then(&k, cj_batch_norm_layer(c, in)), then(&k, cj_relu_layer(c)), then(&k, cj_global_avg_pool_layer(c)), then(&k, cj_linear(c, in, 10));
    return end(&k);
}

/* cnn.wrn */
static void cnn_wrn(void **state)
{
    (void)state;
    cj_module *net = wide_resnet(16, 4);
    assert_int_equal(count(net), 2748890);
    cj_module *body = cj_module_find(cj_module_child(net, 1), "body");
    static const char *const order[] = { "BatchNorm", "ReLU", "Conv", "BatchNorm", "ReLU", "Conv" };
    for (int i = 0; i < 6; i++)
        if (!strstr(cj_module_type_name(cj_module_child(body, i)), order[i]))
            fail_msg("%d is a %s", i, cj_module_type_name(cj_module_child(body, i)));
    cj_module_train(net, false);
    bool was = cj_no_grad(c);
    assert_int_equal(cj_size(cj_forward(net, cj_randn(c, CJ_SHAPE(1, 3, 32, 32))), 1), 10);
    cj_grad_mode(c, was);
    fresh();
    assert_int_equal(count(wide_resnet(28, 10)), 36479194);
}

/* ---- densely connected networks (Huang et al. 2017) ------------------------------------------------------------------------------------------------------------------------ */

static cj_module *dense_layer(int64_t in, int64_t growth, bool bottleneck)
{
    cj_module *body = bottleneck
                          ? cj_sequential(c, cj_batch_norm_layer(c, in), cj_relu_layer(c), conv(in, 4 * growth, 1, 1, false),
                                          cj_batch_norm_layer(c, 4 * growth), cj_relu_layer(c), conv(4 * growth, growth, 3, 1, false))
                          : cj_sequential(c, cj_batch_norm_layer(c, in), cj_relu_layer(c), conv(in, growth, 3, 1, false));
    return cj_dense_connection_layer(c, body, CJ_AXIS(1));
}
static cj_module *transition(int64_t in, int64_t out)
{
    return cj_sequential(c, cj_batch_norm_layer(c, in), cj_relu_layer(c), conv(in, out, 1, 1, false), cj_avg_pool_layer(c, .kernel = 2));
}

static cj_module *densenet(int64_t in, const int *blocks, int n, int64_t growth, bool bottleneck, int64_t classes)
{
    chain k = { 0 };
    then(&k, conv(3, in, bottleneck ? 7 : 3, bottleneck ? 2 : 1, false));
    if (bottleneck)
        then(&k, cj_batch_norm_layer(c, in)), then(&k, cj_relu_layer(c)),
            then(&k, cj_max_pool_layer(c, .kernel = 3, .stride = 2, .padding = 1));
    for (int b = 0; b < n; b++) {
        for (int l = 0; l < blocks[b]; l++, in += growth) then(&k, dense_layer(in, growth, bottleneck));
        if (b < n - 1) then(&k, transition(in, bottleneck ? in / 2 : in)), in = bottleneck ? in / 2 : in;
    }
    then(&k, cj_batch_norm_layer(c, in)), then(&k, cj_relu_layer(c)), then(&k, cj_global_avg_pool_layer(c)),
        then(&k, cj_linear(c, in, classes));
    return end(&k);
}

/* cnn.densenet */
static void cnn_densenet(void **state)
{
    (void)state;
    enum { C0 = 4, GROWTH = 3, LAYERS = 5 };
    assert_int_equal(count(densenet(64, (int[]){ 6, 12, 24, 16 }, 4, 32, true, 1000)), 7978856);
    fresh();
    assert_int_equal(count(densenet(16, (int[]){ 12, 12, 12 }, 3, 12, false, 10)), 1019722);
    /* after l layers c0 + l k channels, the first of which are the input itself; every layer gets its gradient directly */
    cj_tensor *x = cj_require_grad(cj_randn(c, CJ_SHAPE(2, C0, 5, 5))), *h = x, *each[LAYERS + 1] = { x }, *g[LAYERS + 1];
    for (int l = 0; l < LAYERS; l++) {
        h = each[l + 1] = cj_forward(dense_layer(C0 + l * GROWTH, GROWTH, false), h);
        assert_int_equal(cj_size(h, 1), C0 + (l + 1) * GROWTH);
        assert_true(same_bits(cj_contiguous(cj_slice(h, 1, 0, C0, 1)), cj_contiguous(cj_detach(x))));
    }
    cj_tensor *only = cj_sum(cj_slice(h, 1, 0, C0, 1)); /* what the last map has of the input: a copy, not a sum */
    assert_true(cj_grad(only, each, 1, g));
    assert_near(distance(g[0], cj_ones_like(x)), 0, 0);
}

/* ---- where the parameters are ------------------------------------------------------------------------------------------------------------------------------------------------ */

static void head(chain *k, int64_t in)
{
    then(k, cj_flatten_layer(c)), then(k, cj_linear(c, in, 4096)), then(k, cj_relu_layer(c)), then(k, cj_linear(c, 4096, 4096)),
        then(k, cj_relu_layer(c)), then(k, cj_linear(c, 4096, 1000));
}

/* VGG (Simonyan & Zisserman 2015): `pairs` convolutions of 3x3 in each of five stages. */
static cj_module *vgg(const int pairs[5])
{
    chain k = { 0 };
    int64_t in = 3;
    for (int s = 0; s < 5; s++) {
        int64_t out = s < 3 ? (int64_t)64 << s : 512;
        for (int i = 0; i < pairs[s]; i++, in = out) then(&k, conv(in, out, 3, 1, true)), then(&k, cj_relu_layer(c));
        then(&k, cj_max_pool_layer(c, .kernel = 2));
    }
    head(&k, 512 * 7 * 7);
    return end(&k);
}

/* AlexNet in one tower (Krizhevsky 2014). */
static cj_module *alexnet(void)
{
    static const int64_t out[5] = { 64, 192, 384, 256, 256 }, kernel[5] = { 11, 5, 3, 3, 3 };
    chain k = { 0 };
    int64_t in = 3;
    for (int l = 0; l < 5; l++, in = out[l - 1]) then(&k, conv(in, out[l], kernel[l], l ? 1 : 4, true)), then(&k, cj_relu_layer(c));
    head(&k, 256 * 6 * 6);
    return end(&k);
}

/* Share of the parameters that dense layers have. */
static double dense_share(cj_module *m)
{
    int64_t dense = 0;
    for (int i = 0; i < cj_module_children(m); i++)
        if (strcmp(cj_module_type_name(cj_module_child(m, i)), "Linear") == 0) dense += count(cj_module_child(m, i));
    return (double)dense / (double)count(m);
}

/* cnn.vgg, cnn.fc-share */
static void cnn_vgg(void **state)
{
    (void)state;
    static const struct {
        int pairs[5];
        int64_t params;
    } each[] = { { { 1, 1, 2, 2, 2 }, 132863336 }, { { 2, 2, 3, 3, 3 }, 138357544 }, { { 2, 2, 4, 4, 4 }, 143667240 } };
    double share[4];
    for (int i = 0; i < 3; i++) {
        cj_module *net = vgg(each[i].pairs);
        assert_int_equal(count(net), each[i].params);
        if (i == 1) share[0] = dense_share(net);
        fresh();
    }
    cj_module *alex = alexnet();
    assert_int_equal(count(alex), 61100840);
    share[1] = dense_share(alex);
    fresh();
    cj_module *lenet = zoo_build(c, &cj_model_lenet5,
                                 (cj_model_data){ .inputs = 3072, .outputs = 10, .channels = 3, .height = 32, .width = 32 }, WITH("c1=6"));
    assert_int_equal(count(lenet), 62006);
    share[2] = dense_share(lenet), share[3] = dense_share(resnet((int[4]){ 2, 2, 2, 2 }, false));
    print_message("share of dense layers: VGG-16 %.3f, AlexNet %.3f, the net of 62,006 %.3f, ResNet-18 %.3f\n", share[0], share[1],
                  share[2], share[3]);
    assert_near(share[0], 0.894, 0.0005);
    assert_near(share[1], 0.96, 0.005);
    assert_near(share[2], 0.95, 0.005);
    assert_true(share[3] < 0.05);
    int64_t field[2]; /* two 3x3 see what one 5x5 sees, with 18 weights instead of 25 */
    assert_true(cj_receptive_field((int64_t[]){ 3, 3 }, (int64_t[]){ 1, 1 }, NULL, 2, field));
    assert_int_equal(field[1], 5);
    assert_true(count(cj_sequential(c, cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 3), .no_bias = true),
                                    cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 3), .no_bias = true))) == 18 &&
                count(cj_conv_layer(c, 1, 1, CJ_SHAPE(5, 5), .no_bias = true)) == 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cnn_resnet), cmocka_unit_test(cnn_wrn), cmocka_unit_test(cnn_densenet),
                                        cmocka_unit_test(cnn_vgg) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
