/* LeNet-5 and ResNet: how many parameters they have for which image, what they are called, what they refuse, and that they learn a few images by heart. */
#include "zoo.h"

extern const cj_model cj_model_lenet5, cj_model_resnet;

TEST_CONTEXT(.threads = 2, .seed = 4);

static cj_module *build(const cj_model *m, int64_t channels, int64_t side, int64_t classes, const char *const *assignments)
{
    cj_model_data d = { .inputs = channels * side * side, .outputs = classes, .channels = channels, .height = side, .width = side };
    return zoo_build(c, m, d, assignments);
}

static int64_t parameters(const cj_model *m, int64_t channels, int64_t side, const char *const *assignments)
{
    cj_module *net = build(m, channels, side, 10, assignments);
    assert_ok(c);
    cj_scope s = cj_scope_open(c);
    cj_module_train(net, false);
    cj_tensor *y = cj_forward(net, cj_rand(c, CJ_SHAPE(2, channels * side * side)));
    assert_true(cj_ndim(y) == 2 && cj_size(y, 0) == 2 && cj_size(y, 1) == 10);
    assert_ok(c);
    cj_scope_close(s);
    return cj_params_numel(cj_module_params(net));
}

static void shape_is(cj_module *m, const char *name, const char *shape)
{
    cj_tensor *t = cj_params_find(cj_module_params(m), name);
    if (!t) fail_msg("there is no %s", name);
    char text[64];
    cj_format_shape(t, text, sizeof text);
    assert_string_equal(text, shape);
}

/* LeCun et al. 1998 with all connections in C3: 156 + 2,416 + 48,120 + 10,164 + 850; of colour images of 32x32 456 in C1. */
static void lenet5_parameters(void **state)
{
    (void)state;
    assert_int_equal(parameters(&cj_model_lenet5, 1, 28, WITH("c1=6")), 61706);
    assert_int_equal(parameters(&cj_model_lenet5, 1, 32, WITH("c1=6")), 61706);
    assert_int_equal(parameters(&cj_model_lenet5, 3, 32, WITH("c1=6")), 62006);
    assert_int_equal(parameters(&cj_model_lenet5, 1, 8, WITH("c1=6")), 156 + 2416 + (64 * 120 + 120) + 10164 + 850);
    assert_int_equal(parameters(&cj_model_lenet5, 1, 28, WITH("c1=32", "c3=64", "c5=512", "f6=0", "border=same")),
                     32 * 26 + 64 * (32 * 25 + 1) + 512 * (3136 + 1) + 10 * 513);
    cj_module *m = build(&cj_model_lenet5, 1, 28, 10, WITH("c1=6"));
    shape_is(m, "conv1.weight", "Size([6, 1, 5, 5])");
    shape_is(m, "conv2.weight", "Size([16, 6, 5, 5])");
    shape_is(m, "fc1.weight", "Size([120, 400])");
    shape_is(m, "fc2.weight", "Size([84, 120])");
    shape_is(m, "fc3.bias", "Size([10])");
    assert_int_equal(cj_params_count(cj_module_params(m)), 10);
}

/* He et al. 2016, table 6: 0.27, 0.85 and 1.7 million; ResNet-18 with a 3x3 convolution in front and ten classes. */
static void resnet_parameters(void **state)
{
    (void)state;
    assert_int_equal(parameters(&cj_model_resnet, 3, 32, WITH("depth=20")), 269722);
    assert_int_equal(parameters(&cj_model_resnet, 3, 16, WITH("depth=56")), 853018);
    assert_int_equal(parameters(&cj_model_resnet, 3, 8, WITH("depth=110")), 1727962);
    assert_int_equal(parameters(&cj_model_resnet, 3, 16, WITH("depth=18")), 11173962);
    cj_module *m = build(&cj_model_resnet, 3, 32, 10, WITH("depth=18", "width=8"));
    shape_is(m, "conv1.weight", "Size([8, 3, 3, 3])");
    shape_is(m, "layer1.1.bn2.weight", "Size([8])");
    shape_is(m, "layer2.0.downsample.0.weight", "Size([16, 8, 1, 1])");
    shape_is(m, "layer4.1.conv2.weight", "Size([64, 64, 3, 3])");
    shape_is(m, "fc.weight", "Size([10, 64])");
    m = build(&cj_model_resnet, 3, 32, 10, WITH("depth=20"));
    assert_null(cj_params_find(cj_module_params(m), "layer2.0.downsample.0.weight"));
    m = build(&cj_model_resnet, 3, 32, 10, WITH("depth=20", "shortcut=projection"));
    shape_is(m, "layer2.0.downsample.0.weight", "Size([32, 16, 1, 1])");
}

/* A block whose last scale is zero passes a map without negative values on as it is: the whole network then is its first layer. */
static void resnet_identity(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_resnet, 3, 8, 4, WITH("depth=8", "width=4"));
    cj_module_train(m, false);
    cj_params *p = cj_module_params(m);
    cj_scope s = cj_scope_open(c);
    cj_init_constant_(cj_params_find(p, "layer1.0.bn2.weight"), 0);
    cj_tensor *x = cj_relu(cj_randn(c, CJ_SHAPE(2, 4, 8, 8)));
    cj_tensor *y = cj_forward(cj_module_child(cj_module_find(m, "layer1"), 0), x);
    assert_true(distance(x, y) == 0);
    cj_scope_close(s);
}

static void refusals(void **state)
{
    (void)state;
    assert_refused(CJ_EVALUE, "resnet: depth=19 is not 6n+2 (8, 14, 20, 26, 32 …), 18 or 34",
                   assert_null(build(&cj_model_resnet, 3, 32, 10, WITH("depth=19"))));
    assert_refused(CJ_EVALUE, "resnet: the data has no images", assert_null(build(&cj_model_resnet, 0, 0, 10, WITH("depth=20"))));
    assert_refused(CJ_EVALUE, "lenet5: images of at least 4 pixels a side are needed, rows of 3 x 3 were found",
                   assert_null(build(&cj_model_lenet5, 1, 3, 10, WITH("c1=6"))));
    assert_refused(CJ_EVALUE, "lenet5: images of at least 16 pixels a side are needed, rows of 15 x 15 were found",
                   assert_null(build(&cj_model_lenet5, 1, 15, 10, WITH("border=valid"))));
    assert_non_null(build(&cj_model_lenet5, 1, 16, 10, WITH("border=valid")));
    assert_non_null(build(&cj_model_lenet5, 1, 4, 10, WITH("c1=6")));
    assert_ok(c);
}

/* 24 digits by heart. */
static void by_heart(void **state)
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *x = cj_keep(cj_slice(d->train_x, 0, 0, 24, 1)), *y = cj_keep(cj_slice(d->train_y, 0, 0, 24, 1));
    cj_examples e;
    assert_true(cj_examples_of_rows(x, y, &e));
    const struct {
        const cj_model *model;
        const char *setting;
        double lr;
    } each[] = { { &cj_model_lenet5, "dropout=0", 5e-3 }, { &cj_model_resnet, "depth=8", 5e-3 } };
    for (int i = 0; i < 2; i++) {
        cj_module *m = build(each[i].model, 1, 8, 10, WITH(each[i].setting));
        cj_train_result r = cj_train(m, &e, .model = each[i].model, .steps = 150, .batch = 12, .lr = each[i].lr);
        assert_ok(c);
        assert_true(r.finished);
        cj_metrics learned;
        assert_true(cj_evaluate(m, &e, &learned, .model = each[i].model));
        assert_true(learned.accuracy == 1);
        assert_true(learned.loss < 0.05);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lenet5_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(resnet_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(resnet_identity, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(by_heart, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
