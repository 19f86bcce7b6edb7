/* The edges of the image operators: every condition of their argument checks on its own; NULL and stale tensors, errors that are
 * set already, cancelled calls; derivatives of some inputs only; axes of size 0 and 1; operands whose layout a row does not take. */
#include "support.h"

#include "ops/ops.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
#define D(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F64)
#define I(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_I64)
#define NORMAL(...) cj_randn(c, CJ_SHAPE(__VA_ARGS__), .dtype = CJ_F64)
#define BIG ((int64_t)1 << 31)
#define BAD(...) assert_poisoned(__VA_ARGS__)
static const cj_roi_opts halves = { .size = { .ndim = 2, .dim = { 2, 2 } }, .spatial_scale = 1 };
/* A cj_fn of in[]. */
#define FUNCTION(name, expression)                                                                                                         \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return (void)ctx, (void)user, (void)n, expression; }

/* What an error leaves behind once it is cleared. */
static cj_tensor *stale(void)
{
    cj_tensor *t = cj_fail(c, CJ_EVALUE, "earlier");
    cj_clear(c);
    return t;
}

static void assert_derivatives(cj_fn fn, void *user, cj_tensor *const *x, int n)
{
    cj_gradcheck_result r = cj_gradcheck(c, fn, user, x, n, .second_order = true);
    if (!r.ok) fail_msg("%s (%s)", r.what, cj_message(c));
}

/* ---- every operator with bad tensors ------------------------------------------------------------------------------------------------- */

/* name; dtype of b, of an operator that takes one tensor 0; shapes of a and b that fit; the call */
#define OPERATORS(X)                                                                                                                       \
    X(conv, CJ_F32, CJ_SHAPE(2, 1, 5), CJ_SHAPE(2, 1, 3), (cj_conv)(a, b, NULL, NULL))                                                     \
    X(conv_transpose, CJ_F32, CJ_SHAPE(2, 1, 5), CJ_SHAPE(1, 2, 3), (cj_conv_transpose)(a, b, NULL, NULL))                                 \
    X(locally_connected, CJ_F32, CJ_SHAPE(2, 1, 5), CJ_SHAPE(2, 1, 3, 3), (cj_locally_connected)(a, b, NULL, NULL))                        \
    X(pad, 0, CJ_SHAPE(2, 3), CJ_SCALAR, cj_pad(a, CJ_SHAPE(1), CJ_SHAPE(1)))                                                              \
    X(max_pool, 0, CJ_SHAPE(2, 1, 5), CJ_SCALAR, cj_max_pool(a, .kernel = 2).value)                                                        \
    X(avg_pool, 0, CJ_SHAPE(2, 1, 5), CJ_SCALAR, cj_avg_pool(a, .kernel = 2, .padding = 1, .exclude_padding = true))                       \
    X(softmax_pool, 0, CJ_SHAPE(2, 1, 5), CJ_SCALAR, cj_softmax_pool(a, 1, .kernel = 2))                                                   \
    X(max_unpool, CJ_I64, CJ_SHAPE(2, 1), CJ_SHAPE(2, 1), cj_max_unpool(a, b, CJ_SHAPE(9)))                                                \
    X(adaptive_avg_pool, 0, CJ_SHAPE(2, 5), CJ_SCALAR, cj_adaptive_avg_pool(a, CJ_SHAPE(2)))                                               \
    X(adaptive_max_pool, 0, CJ_SHAPE(2, 5), CJ_SCALAR, cj_adaptive_max_pool(a, CJ_SHAPE(2)))                                               \
    X(roi_align, CJ_F32, CJ_SHAPE(2, 1, 4, 4), CJ_SHAPE(1, 5), cj_roi_align(a, b, .size = CJ_SHAPE(2, 2)))                                 \
    X(roi_pool, CJ_F32, CJ_SHAPE(2, 1, 4, 4), CJ_SHAPE(1, 5), cj_roi_pool(a, b, .size = CJ_SHAPE(2, 2)))                                   \
    X(grid_sample, CJ_F32, CJ_SHAPE(2, 1, 4, 4), CJ_SHAPE(2, 3, 3, 2), (cj_grid_sample)(a, b, NULL))                                       \
    X(affine_grid, 0, CJ_SHAPE(1, 2, 3), CJ_SCALAR, cj_affine_grid(a, CJ_SHAPE(1, 1, 4, 4), false))                                        \
    X(interpolate, 0, CJ_SHAPE(2, 1, 5), CJ_SCALAR, cj_interpolate(a, .scale = 2))                                                         \
    X(pixel_shuffle, 0, CJ_SHAPE(4, 2, 2), CJ_SCALAR, cj_pixel_shuffle(a, 2))                                                              \
    X(pixel_unshuffle, 0, CJ_SHAPE(4, 2, 2), CJ_SCALAR, cj_pixel_unshuffle(a, 2))                                                          \
    X(box_corners, 0, CJ_SHAPE(3, 4), CJ_SCALAR, cj_box_corners(a))                                                                        \
    X(box_clip, 0, CJ_SHAPE(3, 4), CJ_SCALAR, cj_box_clip(a, 1, 1))                                                                        \
    X(box_iou, CJ_F32, CJ_SHAPE(3, 4), CJ_SHAPE(2, 4), cj_box_iou(a, b))                                                                   \
    X(nms, CJ_F32, CJ_SHAPE(3, 4), CJ_SHAPE(3), cj_nms(a, b, 0.5, .limit = 1))
#define CALL(name, dtype, of_a, of_b, expression)                                                                                          \
    static cj_tensor *call_##name(cj_tensor *a, UNUSED cj_tensor *b) { return expression; }
OPERATORS(CALL)

static void bad_tensors(UNUSED void **state)
{
#define ROW(name, dtype, of_a, of_b, expression) { #name, call_##name, of_a, of_b, (cj_dtype)(dtype) },
    const struct {
        const char *name;
        cj_tensor *(*call)(cj_tensor *a, cj_tensor *b);
        cj_shape a, b;
        cj_dtype dtype;
    } list[] = { OPERATORS(ROW) };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        cj_scope s = cj_scope_open(c);
        char text[2][128];
        for (int k = 0; k < 2; k++)
            snprintf(text[k], sizeof text[k], "%s: argument %d is the result of an earlier error", list[i].name, k + 1);
        cj_tensor *a = cj_ones(c, list[i].a, CJ_F32), *b = list[i].dtype ? cj_ones(c, list[i].b, list[i].dtype) : NULL;
        cj_tensor *(*call)(cj_tensor *, cj_tensor *) = list[i].call;
        assert_false(cj_is_poison(call(a, b)));
        assert_null(call(NULL, NULL));
        assert_ok(c);
        BAD(CJ_ESTALE, text[0], call(stale(), b));
        (void)cj_fail(c, CJ_EFILE, "the first error");
        BAD(CJ_EFILE, "the first error", call(a, b));
        cj_cancel(c);
        BAD(CJ_ECANCELLED, "cancel", call(a, b));
        if (b) { /* NULL counts as poison */
            BAD(CJ_ESTALE, text[1], call(a, stale()));
            assert_true(cj_is_poison(call(NULL, b)));
            assert_true(cj_is_poison(call(a, NULL)));
            cj_clear(c);
        }
        assert_false(cj_is_poison(call(a, b)));
        cj_scope_close(s);
    }
    assert_null(cj_min_pool(NULL, .kernel = 2).index);
}

/* ---- arguments: one condition at a time ---------------------------------------------------------------------------------------------- */

static void conv_arguments(UNUSED void **state)
{
    cj_tensor *x = F(1, 2, 5), *w = F(2, 2, 3);
    BAD(CJ_EVALUE, "conv: argument 2 is NULL", cj_conv(x, NULL, NULL));
    BAD(CJ_ESHAPE, "0 channels of the input", cj_conv(F(1, 0, 5), F(2, 0, 3), NULL));
    BAD(CJ_EVALUE, "conv: 2 values of padding for 1 axes", cj_conv(x, w, NULL, .paddings = CJ_SHAPE(1, 1)));
    BAD(CJ_EVALUE, "conv: a padding is given and a border too", cj_conv(x, w, NULL, .paddings = CJ_SHAPE(1), .border = CJ_SAME));
    BAD(CJ_EVALUE, "conv: dilation -1; at least 1 expected", cj_conv(x, w, NULL, .dilation = -1));
    BAD(CJ_ESHAPE, "conv: the number of elements of", cj_conv(F(1, 1, 1, 1, 1), F(1, 1, 1, 1, 1), NULL, .padding = BIG - 1));
    BAD(CJ_ESTALE, "conv: argument 3 is the result", cj_conv(x, w, stale()));
    BAD(CJ_EDTYPE, "conv: dtypes f32 and f64", cj_conv(x, D(2, 2, 3), F(2)));
    BAD(CJ_ESHAPE, "conv: the bias has shape [2, 1], [2] expected", cj_conv(x, w, F(2, 1)));
    BAD(CJ_ESHAPE, "conv_transpose: input [1, 2, 5] and weight [2, 2, 3, 3]", cj_conv_transpose(x, F(2, 2, 3, 3), NULL));
    BAD(CJ_EVALUE, "conv_transpose: -1 groups", cj_conv_transpose(x, w, NULL, .groups = -1));
    BAD(CJ_EVALUE, "conv_transpose: stride -1", cj_conv_transpose(x, w, NULL, .stride = -1));
    BAD(CJ_EVALUE, "conv_transpose: padding -1", cj_conv_transpose(x, w, NULL, .padding = -1));
    BAD(CJ_EVALUE, "conv_transpose: dilation -1", cj_conv_transpose(x, w, NULL, .dilation = -1));
    BAD(CJ_EVALUE, "conv_transpose: output_padding -1", cj_conv_transpose(x, w, NULL, .output_padding = -1));
    BAD(CJ_ESHAPE, "the weight [2, 0, 3] has no channels", cj_conv_transpose(x, F(2, 0, 3), NULL));
    BAD(CJ_ESTALE, "conv_transpose: argument 3 is the result", cj_conv_transpose(x, w, stale()));
    cj_tensor *own = F(2, 2, 3, 3); /* 3 positions of 3 */
    BAD(CJ_ESHAPE, "locally_connected: input [2, 5]", cj_locally_connected(F(2, 5), F(2, 2), NULL));
    BAD(CJ_ESHAPE, "with 1 or 2 spatial axes", cj_locally_connected(F(1, 1, 1, 1, 1), F(1, 1, 1, 1, 1, 1, 1, 1), NULL));
    BAD(CJ_ESHAPE, "weight [2, 2, 3]", cj_locally_connected(x, w, NULL));
    const cj_conv_opts more[] = { { .groups = 2 }, { .dilation = 2 }, { .dilations = CJ_SHAPE(1) }, { .border = CJ_SAME } };
    for (int i = 0; i < 4; i++) BAD(CJ_EVALUE, "takes stride and padding only", (cj_locally_connected)(x, own, NULL, &more[i]));
    BAD(CJ_EVALUE, "locally_connected: stride -1", cj_locally_connected(x, own, NULL, .stride = -1));
    BAD(CJ_EVALUE, "locally_connected: padding -1", cj_locally_connected(x, own, NULL, .padding = -1));
    BAD(CJ_ESHAPE, "the weight [2, 2, 3, 3] sees 2 channels, the input has 3", cj_locally_connected(F(1, 3, 5), own, NULL));
    BAD(CJ_ESTALE, "locally_connected: argument 3 is the result", cj_locally_connected(x, own, stale()));
    BAD(CJ_ESHAPE, "pad: widths for 0 and 0 axes", cj_pad(x, CJ_SCALAR, CJ_SCALAR));
    BAD(CJ_EVALUE, "pad: widths 0 and 1 are too large", cj_pad(F(1, 0), CJ_SHAPE(0), CJ_SHAPE(1), .mode = CJ_PAD_REPLICATE));
    BAD(CJ_EVALUE, "pad: widths 0 and 6 are too large for an axis of 5", cj_pad(x, CJ_SHAPE(0), CJ_SHAPE(6), .mode = CJ_PAD_CYCLIC));
}

static void pool_arguments(UNUSED void **state)
{
    cj_tensor *x = F(1, 1, 4);
    BAD(CJ_EVALUE, "max_pool: kernel 0; at least 1 expected", (cj_max_pool)(x, NULL).value);
    BAD(CJ_ESHAPE, "max_pool: the input [4]; leading axes", cj_max_pool(F(4), .kernels = CJ_SHAPE(2, 2)).value);
    BAD(CJ_ESHAPE, "1 to 3 spatial ones expected", cj_max_pool(F(1, 1, 1, 1, 1, 1), .kernel = 1).value);
    BAD(CJ_EVALUE, "max_pool: padding -1; at least 0 expected", cj_max_pool(x, .kernel = 2, .padding = -1).value);
    BAD(CJ_EVALUE, "max_pool: dilation -1; at least 1 expected", cj_max_pool(x, .kernel = 2, .dilation = -1).value);
    BAD(CJ_EVALUE, "softmax_pool: dilation -1; at least 1 expected", cj_softmax_pool(x, 1, .kernel = 2, .dilation = -1));
    BAD(CJ_EVALUE, "max_unpool: argument 2 is NULL", cj_max_unpool(x, NULL, CJ_SHAPE(4)));
    BAD(CJ_ESHAPE, "max_unpool: 0 spatial sizes for [1, 1, 4]", cj_max_unpool(x, I(1, 1, 4), CJ_SCALAR));
    BAD(CJ_ESHAPE, "max_unpool: 4 spatial sizes", cj_max_unpool(F(1, 1, 1, 1), I(1, 1, 1, 1), CJ_SHAPE(1, 1, 1, 1)));
    BAD(CJ_ESHAPE, "max_unpool: 2 spatial sizes for [4]", cj_max_unpool(F(4), I(4), CJ_SHAPE(2, 2)));
    BAD(CJ_ESHAPE, "adaptive_avg_pool: 0 sizes for [1, 1, 4]", cj_adaptive_avg_pool(x, CJ_SCALAR));
    BAD(CJ_ESHAPE, "adaptive_max_pool: 4 sizes for", cj_adaptive_max_pool(F(1, 1, 1, 1), CJ_SHAPE(1, 1, 1, 1)));
    BAD(CJ_EVALUE, "adaptive_avg_pool: size 2 from an axis of 0", cj_adaptive_avg_pool(F(1, 1, 0), CJ_SHAPE(2)));
}

static void resample_arguments(UNUSED void **state)
{
    cj_tensor *x = F(1, 1, 4, 4), *boxes = cj_cast(I(1, 5), CJ_F64), *volume = F(1, 1, 2, 2, 2);
    const cj_shape two = CJ_SHAPE(2, 2);
    BAD(CJ_EVALUE, "roi_align: size []; a height and a width expected", (cj_roi_align)(x, boxes, NULL));
    BAD(CJ_EVALUE, "roi_align: argument 2 is NULL", cj_roi_align(x, NULL, .size = two));
    BAD(CJ_EDTYPE, "roi_align: input f32 and boxes i64", cj_roi_align(x, I(1, 5), .size = two));
    BAD(CJ_ESHAPE, "roi_pool: input [1, 4, 4] and", cj_roi_pool(F(1, 4, 4), boxes, .size = two));
    BAD(CJ_ESHAPE, "roi_pool: input [1, 1, 4, 4] and boxes [5]", cj_roi_pool(x, F(5), .size = two));
    BAD(CJ_EVALUE, "roi_align: size [0, 2]", cj_roi_align(x, boxes, .size = CJ_SHAPE(0, 2)));
    BAD(CJ_EVALUE, "roi_align: size [2, 0]", cj_roi_align(x, boxes, .size = CJ_SHAPE(2, 0)));
    BAD(CJ_ESHAPE, "the input [1, 1, 0, 4] has no pixels", cj_roi_align(F(1, 1, 0, 4), boxes, .size = two));
    BAD(CJ_ESHAPE, "the input [1, 1, 4, 0] has no pixels", cj_roi_align(F(1, 1, 4, 0), boxes, .size = two));
    BAD(CJ_EVALUE, "roi_align: spatial_scale 2e+06", cj_roi_align(x, boxes, .size = two, .spatial_scale = 2e6));
    BAD(CJ_ESHAPE, "roi_pool: the number of elements of", cj_roi_pool(x, boxes, .size = CJ_SHAPE(BIG << 9, BIG << 9)));
    const double image[] = { -1, 1, 0.5, NAN };
    const char *says[] = { "box 0 is of image -1", "box 0 is of image 1,", "box 0 is of image 0.5", "box 0 is of image nan" };
    for (int i = 0; i < 4; i++) BAD(CJ_EINDEX, says[i], cj_roi_align(x, F64(c, CJ_SHAPE(1, 5), image[i], 0, 0, 1, 1), .size = two));
    BAD(CJ_EVALUE, "grid_sample: argument 2 is NULL", cj_grid_sample(x, NULL));
    BAD(CJ_ESHAPE, "grid_sample: input [1, 1, 4] and", cj_grid_sample(F(1, 1, 4), F(1, 2, 1)));
    BAD(CJ_ESHAPE, "grid_sample: input [1, 1, 1, 1, 1, 1]", cj_grid_sample(F(1, 1, 1, 1, 1, 1), F(1, 1, 1, 1, 1, 4)));
    BAD(CJ_ESHAPE, "and grid [1, 2, 2]", cj_grid_sample(x, F(1, 2, 2)));
    BAD(CJ_ESHAPE, "and grid [2, 2, 2, 2]", cj_grid_sample(x, F(2, 2, 2, 2)));
    BAD(CJ_EDTYPE, "grid_sample: input i64 and grid i64; the same float type", cj_grid_sample(I(1, 1, 2, 2), I(1, 2, 2, 2)));
    BAD(CJ_ESHAPE, "has no pixels", cj_grid_sample(F(1, 1, 0, 4), F(1, 2, 2, 2)));
    BAD(CJ_ESHAPE, "has more than 2^31 pixels", cj_grid_sample(cj_expand(F(1, 1, 1, 1), CJ_SHAPE(1, 1, BIG, 1)), F(1, 2, 2, 2)));
    BAD(CJ_EVALUE, "grid_sample: mode 3;", cj_grid_sample(volume, F(1, 2, 2, 2, 3), .mode = CJ_INTERP_CUBIC));
    BAD(CJ_ESHAPE, "and size [1, 1, 4]", cj_affine_grid(F(1, 1, 2), CJ_SHAPE(1, 1, 4), false));
    BAD(CJ_ESHAPE, "and size [1, 1, 4, 4, 4, 4]", cj_affine_grid(F(1, 4, 5), CJ_SHAPE(1, 1, 4, 4, 4, 4), false));
    BAD(CJ_ESHAPE, "affine_grid: theta [2, 3] and", cj_affine_grid(F(2, 3), CJ_SHAPE(1, 1, 4, 4), false));
    BAD(CJ_ESHAPE, "affine_grid: theta [2, 2, 3] and", cj_affine_grid(F(2, 2, 3), CJ_SHAPE(1, 1, 4, 4), false));
    BAD(CJ_ESHAPE, "affine_grid: theta [1, 2, 4] and", cj_affine_grid(F(1, 2, 4), CJ_SHAPE(1, 1, 4, 4), false));
    BAD(CJ_EVALUE, "interpolate: neither size nor scale is given", (cj_interpolate)(x, NULL));
    BAD(CJ_EVALUE, "a size and a scale are given", cj_interpolate(x, .scales = { 2, 2 }, .size = two));
    BAD(CJ_EVALUE, "interpolate: size 3 from an axis of 0", cj_interpolate(F(1, 1, 0), .size = CJ_SHAPE(3)));
    BAD(CJ_EVALUE, "from an axis of 2147483648", cj_interpolate(cj_expand(F(1, 1, 1), CJ_SHAPE(1, 1, BIG)), .size = CJ_SHAPE(3)));
    BAD(CJ_EVALUE, "size 2147483648 from an axis of 1", cj_interpolate(F(1, 1, 1), .size = CJ_SHAPE(BIG)));
    BAD(CJ_EVALUE, "pixel_unshuffle: factor 0", cj_pixel_unshuffle(x, 0));
}

static void box_arguments(UNUSED void **state)
{
    cj_tensor *boxes = F(2, 4), *scores = F(2);
    BAD(CJ_ESHAPE, "box_centres: boxes [], [.., 4] expected", cj_box_centres(cj_scalar(c, 1)));
    BAD(CJ_EVALUE, "box_clip: to -1 x 1", cj_box_clip(boxes, -1, 1));
    BAD(CJ_EVALUE, "box_clip: to 1 x nan", cj_box_clip(boxes, 1, NAN));
    assert_null(cj_box_clip(NULL, -1, 1));
    BAD(CJ_ESHAPE, "box_iou: boxes [3], [.., 4] expected", cj_box_iou(F(3), boxes));
    BAD(CJ_ESHAPE, "box_iou: boxes [4] and [2, 4]", cj_box_iou(F(4), boxes));
    BAD(CJ_ESHAPE, "box_iou: boxes [2, 4] and [1, 2, 4]", cj_box_iou(boxes, F(1, 2, 4)));
    BAD(CJ_EDTYPE, "nms: the boxes are i64", cj_nms(I(2, 4), scores, 0.5));
    BAD(CJ_EVALUE, "nms: threshold 0.5, limit -1; neither may be negative", cj_nms(boxes, scores, 0.5, .limit = -1));
    BAD(CJ_ESHAPE, "nms: boxes [1, 2, 4] and scores [1]", cj_nms(F(1, 2, 4), F(1), 0.5));
    BAD(CJ_ESHAPE, "nms: boxes [2, 4] and scores [2, 1]", cj_nms(boxes, F(2, 1), 0.5));
    BAD(CJ_ESHAPE, "nms: boxes [2, 4] and classes [3]", cj_nms(boxes, scores, 0.5, .classes = I(3)));
    BAD(CJ_ESTALE, "nms: argument 3 is the result", cj_nms(boxes, scores, 0.5, .classes = stale()));
}

/* ---- what only derivatives call ------------------------------------------------------------------------------------------------------ */

static cj_tensor *gradients(cj_tensor *g, cj_tensor *w, cj_tensor *x, int which, int64_t groups)
{
    cj_tensor *out[2];
    cj__conv_gradients(g, w, x, &(cj_conv_opts){ .groups = groups }, out);
    return out[which];
}
static cj_tensor *weight_of(cj_tensor *x, cj_tensor *g, int64_t kernel, int64_t groups)
{
    return cj__conv_weight(x, g, CJ_SHAPE(kernel), &(cj_conv_opts){ .groups = groups });
}

static void derivative_arguments(UNUSED void **state)
{
    cj_tensor *x = F(1, 2, 5), *w = F(2, 2, 3), *g = F(1, 2, 3);
    BAD(CJ_ESHAPE, "conv_gradients: [1, 2, 3, 1] and [2, 2, 3]; both need", gradients(F(1, 2, 3, 1), w, x, 0, 1));
    BAD(CJ_ESHAPE, "the weight [2, 2, 3] makes 2 channels, the gradient [1, 3, 3] has 3", gradients(F(1, 3, 3), w, x, 0, 1));
    BAD(CJ_ESHAPE, "conv_gradients: 2 groups do not divide the 3 channels of the gradient", gradients(F(1, 3, 3), F(3, 1, 3), x, 0, 2));
    BAD(CJ_ESHAPE, "the kernel [3] with its dilation is larger than the padded input [2]", gradients(g, w, F(1, 2, 2), 0, 1));
    BAD(CJ_ESHAPE, "a gradient of size [3], [4] expected", gradients(g, w, F(1, 2, 6), 0, 1));
    BAD(CJ_ESHAPE, "[2, 2, 5] and [1, 2, 3] have different batch sizes", gradients(g, w, F(2, 2, 5), 1, 1));
    BAD(CJ_EVALUE, "conv: -1 groups", gradients(g, w, x, 0, -1));
    BAD(CJ_EVALUE, "conv: -1 groups", weight_of(x, g, 3, -1));
    BAD(CJ_ESHAPE, "conv_weight: 2 groups do not divide the 3 channels of the input", weight_of(F(1, 3, 5), g, 3, 2));
    BAD(CJ_ESHAPE, "conv_weight: 2 groups do not divide the 3 channels of the gradient", weight_of(x, F(1, 3, 3), 3, 2));
    BAD(CJ_ESHAPE, "conv_weight: the kernel [6] with its dilation is larger", weight_of(x, g, 6, 1));
    const cj_pool_opts none = { 0 }, pairs = { .kernel = 2 };
    cj_tensor *image = F(1, 1, 4), *half = F(1, 1, 2);
    BAD(CJ_EVALUE, "window_put: kernel 0", cj__window_put(half, I(1, 1, 2), CJ_SHAPE(4), &none));
    BAD(CJ_EVALUE, "max_pool: kernel 0", cj__window_put_taps(half, image, &none));
    BAD(CJ_EVALUE, "window_spread: kernel 0", cj__window_spread(half, CJ_SHAPE(4), &none));
    BAD(CJ_ESHAPE, "window_put: values [1, 1, 2] and places [1, 1, 2] differ", cj__window_put(half, half, CJ_SHAPE(4), &pairs));
    BAD(CJ_ESHAPE, "and places [1, 2] differ", cj__window_put(half, I(1, 2), CJ_SHAPE(4), &pairs));
    BAD(CJ_ESHAPE, "and places [1, 1, 3] differ", cj__window_put(half, I(1, 1, 3), CJ_SHAPE(4), &pairs));
    (void)cj_fail(c, CJ_EFILE, "the first error");
    BAD(CJ_EFILE, "the first error", cj__window_put(half, I(1, 1, 2), CJ_SHAPE(4), &pairs));
    BAD(CJ_ESHAPE, "transpose: the number of elements of",
        cj__roi_align_transpose(half, D(1, 5), CJ_SHAPE(1, 1, BIG << 9, BIG << 9), &halves));
    BAD(CJ_EVALUE, "neither size nor scale", cj__interpolate_transpose(half, CJ_SHAPE(4), &(cj_interpolate_opts){ 0 }));
}

/* Rows take operands that the functions above them have laid out. */
static void layouts_of_rows(UNUSED void **state)
{
    const int64_t blank[CJ_MAX_ATTR_BYTES / 8] = { 0 };
    cj_conv_attrs conv = { .nd = 1, .groups = 1, .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 }, .size = { 1, 1, 3 } }, grouped = conv;
    grouped.groups = 2;
    const cj_window_attrs pairs = { .nd = 1, .kernel = { 1, 1, 2 }, .in = { 1, 1, 4 }, .out = { 1, 1, 2 } };
    cj_tensor *x = F(2, 2, 3), *w = F(2, 2, 2), *g = F(2, 2, 2), *b = F(2), *box = D(2, 5), *grid = F(2, 2, 2, 2);
    cj_tensor *even = cj_slice(F(2, 2, 6), 2, 0, 6, 2), *even_w = cj_slice(F(2, 2, 4), 2, 0, 4, 2), *even_b = cj_slice(F(4), 0, 0, 4, 2);
    cj_tensor *even_index = cj_slice(I(2, 2, 4), 2, 0, 4, 2), *turned = cj_transpose(grid, 2, 3);
    const struct {
        const char *op;
        const void *attrs;
        cj_tensor *in[3];
        cj_code code;
        const char *says;
    } rows[] = {
        { "conv", &conv, { F(2, 2, 3, 3), w }, CJ_ESHAPE, "conv: [2, 2, 3, 3] and [2, 2, 2]; both need" },
        { "conv", &conv, { x, F(2, 2, 2, 2) }, CJ_ESHAPE, "conv: [2, 2, 3] and [2, 2, 2, 2]; both need" },
        { "conv", &conv, { x, w, D(2) }, CJ_ESTATE, "the bias of f32 images and one group only" },
        { "conv", &conv, { D(2, 2, 3), D(2, 2, 2), b }, CJ_ESTATE, "the bias of f32 images and one group only" },
        { "conv", &grouped, { x, F(2, 1, 2), b }, CJ_ESTATE, "the bias of f32 images and one group only" },
        { "conv", &conv, { x, w, even_b }, CJ_ESTATE, "the bias of f32 images and one group only" },
        { "conv", &conv, { even, w }, CJ_ESTATE, "conv: operand layout" },
        { "conv", &conv, { x, even_w }, CJ_ESTATE, "conv: operand layout" },
        { "conv_weight", &conv, { x, even_w }, CJ_ESTATE, "conv_weight: operand layout" },
        { "conv_gradients", &conv, { g, F(2, 2, 2, 2), x }, CJ_ESHAPE, "conv_gradients: [2, 2, 2] and [2, 2, 2, 2]" },
        { "max_pool", &pairs, { even }, CJ_ESTATE, "max_pool: operand layout" },
        { "max_pool_values", &pairs, { even }, CJ_ESTATE, "max_pool_values: operand layout" },
        { "window_put", &pairs, { g, even_index }, CJ_ESTATE, "window_put: operand layout" },
        { "window_put", &pairs, { even_w, even_index }, CJ_ESTATE, "window_put: operand layout" },
        { "interpolate", blank, { even }, CJ_ESTATE, "interpolate: operand layout" },
        { "grid_sample", blank, { turned, grid }, CJ_ESTATE, "grid_sample: operand layout" },
        { "grid_sample", blank, { grid, turned }, CJ_ESTATE, "grid_sample: operand layout" },
        { "roi_align", blank, { turned, box }, CJ_ESTATE, "roi_align: operand layout" },
        { "roi_align", blank, { grid, cj_slice(D(2, 10), 1, 0, 10, 2) }, CJ_ESTATE, "roi_align: operand layout" },
        { "roi_align", blank, { grid, F(2, 5) }, CJ_ESTATE, "roi_align: operand layout" },
        { "roi_align_transpose", blank, { turned, box }, CJ_ESTATE, "roi_align_transpose: operand layout" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int n = !rows[i].in[1] ? 1 : !rows[i].in[2] ? 2 : 3;
        BAD(rows[i].code, rows[i].says, cj__apply(cj__op_by_name(rows[i].op), rows[i].attrs, rows[i].in, n));
    }
}

/* ---- derivatives of some inputs only ------------------------------------------------------------------------------------------------- */

typedef struct part {
    cj_tensor *in[3]; /* what does not vary */
    int vary[3], which;
} part;

/* One of the two derivatives of a depthwise convolution, as a function of some of g, w, x. */
static cj_tensor *one_gradient(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx;
    const part *p = user;
    cj_tensor *all[3] = { p->in[0], p->in[1], p->in[2] };
    for (int i = 0; i < n; i++) all[p->vary[i]] = in[i];
    return gradients(all[0], all[1], all[2], p->which, 3);
}

static void depthwise_parts(UNUSED void **state)
{
    part p = { .in = { NORMAL(2, 3, 4), NORMAL(3, 1, 2), NORMAL(2, 3, 5) } };
    cj_tensor *dx = gradients(p.in[0], p.in[1], p.in[2], 0, 3), *dw = gradients(p.in[0], p.in[1], p.in[2], 1, 3);
    assert_near(distance(dx, cj_conv_transpose(p.in[0], p.in[1], NULL, .groups = 3)), 0, 1e-14);
    assert_near(distance(dw, weight_of(p.in[2], p.in[0], 2, 3)), 0, 1e-14);
    for (p.which = 0; p.which < 2; p.which++) /* of x: from g and w; of w: from g and x */
        for (int set = 1; set < 8; set++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *x[3];
            int n = 0;
            for (int i = 0; i < 3; i++)
                if (set >> i & 1) p.vary[n] = i, x[n++] = p.in[i];
            if (n > 1 || p.vary[0] != (p.which ? 1 : 2)) assert_derivatives(one_gradient, &p, x, n);
            cj_scope_close(s);
        }
}

FUNCTION(biased, cj_conv(in[0], in[1], in[2]))

/* Each tangent of a convolution alone: conv is linear in each of its inputs. */
static void tangents_alone(UNUSED void **state)
{
    cj_tensor *x[3] = { cj_randn(c, CJ_SHAPE(2, 2, 5)), cj_randn(c, CJ_SHAPE(3, 2, 3)), cj_randn(c, CJ_SHAPE(3)) };
    for (int i = 0; i < 3; i++) {
        cj_tensor *t[3] = { NULL, NULL, NULL }, *parts[3] = { x[0], x[1], NULL };
        t[i] = cj_randn(c, cj_shape_of(x[i]));
        parts[i] = t[i];
        cj_pair got = cj_jvp(c, biased, NULL, x, t, 3);
        cj_tensor *want = i < 2 ? cj_conv(parts[0], parts[1], NULL) : cj_expand(cj_reshape(t[2], CJ_SHAPE(3, 1)), CJ_SHAPE(2, 3, 3));
        assert_near(distance(got.derivative, want), 0, 1e-5);
        assert_near(distance(got.value, cj_conv(x[0], x[1], x[2])), 0, 0);
    }
}

FUNCTION(sampled, (cj_grid_sample)(in[0], in[1], user))

static void samples(UNUSED void **state)
{
    /* the gradients of one input are those of both */
    cj_tensor *x[2] = { NORMAL(2, 2, 3, 4), NORMAL(2, 2, 3, 2) }, *seed = NORMAL(2, 2, 2, 3), *both[2], *one;
    for (int mode = CJ_INTERP_NEAREST; mode <= CJ_INTERP_CUBIC; mode++) {
        cj_grid_opts o = { .mode = (cj_interpolation)mode };
        assert_false(cj_is_poison(cj_vjp(c, sampled, &o, x, 2, seed, both)));
        for (int i = 0; i < 2; i++) {
            cj_tensor *in[2] = { x[0], x[1] };
            in[i] = cj_require_grad(x[i]);
            assert_true(cj_grad((cj_grid_sample)(in[0], in[1], &o), &in[i], 1, &one, .seed = seed));
            assert_near(distance(one, both[i]), 0, 1e-14);
        }
    }
    /* an axis of one pixel, its centre at 0 of any position: nothing moves along it */
    cj_tensor *thin[2] = { NORMAL(1, 2, 1, 3), cj_mul_scalar(NORMAL(1, 2, 2, 2), 0.7) }, *empty = F(0, 2, 3, 3);
    cj_grid_opts mirrored = { .padding = CJ_PAD_REFLECT, .align_corners = true };
    assert_derivatives(sampled, &mirrored, thin, 2);
    cj_tensor *y = sampled(c, &mirrored, thin, 2), *level = cj_mul(thin[1], F64(c, CJ_SHAPE(2), 1, 0));
    assert_near(distance(y, cj_grid_sample(thin[0], level, .padding = CJ_PAD_REFLECT, .align_corners = true)), 0, 1e-15);
    /* the positions of a map onto a single row: y is 0 */
    cj_tensor *at = cj_affine_grid(F64(c, CJ_SHAPE(1, 2, 3), 1, 2, 3, 4, 5, 6), CJ_SHAPE(1, 1, 1, 3), true);
    assert_near(distance(at, F64(c, CJ_SHAPE(1, 1, 3, 2), 2, 2, 3, 6, 4, 10)), 0, 1e-15);
    /* no image */
    x[0] = cj_require_grad(empty), x[1] = cj_require_grad(F(0, 2, 2, 2));
    assert_true(cj_grad(cj_sum(cj_grid_sample(x[0], x[1])), x, 2, both));
    assert_near(distance(both[0], empty), 0, 0);
    assert_int_equal(cj_numel(both[1]), 0);
}

FUNCTION(aligned, (cj_roi_align)(in[0], user, &halves))
FUNCTION(pooled, (cj_roi_pool)(in[0], user, &halves))
FUNCTION(spread, cj__roi_align_transpose(user, in[0], CJ_SHAPE(1, 2, 4, 4), &halves))

/* Without boxes there is no result, and the image gets a gradient of zeros. */
static void nothing(UNUSED void **state)
{
    const cj_fn fn[] = { aligned, pooled };
    cj_tensor *x = NORMAL(1, 2, 4, 4), *boxes = D(0, 5), *dx;
    for (int i = 0; i < 2; i++) {
        cj_tensor *y = cj_vjp(c, fn[i], boxes, &x, 1, D(0, 2, 2, 2), &dx);
        assert_near(distance(y, D(0, 2, 2, 2)), 0, 0);
        assert_near(distance(dx, cj_zeros_like(x)), 0, 0);
        assert_near(distance(cj_jvp(c, fn[i], boxes, &x, &x, 1).derivative, y), 0, 0);
    }
    assert_int_equal(cj_numel((cj_nms)(D(0, 4), D(0), 0.5, NULL)), 0);
    assert_near(distance(cj_max_unpool(D(0, 3, 0), I(0, 3, 0), CJ_SHAPE(4)), D(0, 3, 4)), 0, 0); /* no window, no plane */
    /* boxes get no derivative, from the transpose neither */
    cj_tensor *g = NORMAL(1, 2, 2, 2), *box = cj_require_grad(F64(c, CJ_SHAPE(1, 5), 0, 0.3, 0.4, 2.5, 3.1)), *one = D(1, 5);
    assert_near(cj_item(cj_sum(spread(c, g, &box, 1))), cj_item(cj_sum(g)), 1e-14);
    assert_true(cj_grad(cj_sum(spread(c, g, &box, 1)), &box, 1, &dx, .allow_unused = true));
    assert_near(distance(dx, cj_zeros_like(box)), 0, 0);
    assert_near(distance(cj_jvp(c, spread, g, &box, &one, 1).derivative, cj_zeros_like(x)), 0, 0);
}

/* ---- values -------------------------------------------------------------------------------------------------------------------------- */

/* Windows of more elements than a byte counts: the same maxima and gradients with positions and without. */
static void large_windows(UNUSED void **state)
{
    cj_tensor *x = cj_require_grad(NORMAL(2, 1, 32, 17)), *seed = NORMAL(2, 1, 2, 1), *with, *without;
    cj_pooled p = cj_max_pool(x, .kernels = CJ_SHAPE(16, 17)), q = cj_max_pool(x, .kernels = CJ_SHAPE(16, 17), .values_only = true);
    assert_null(q.index);
    for (int i = 0; i < 4; i++)
        assert_near(value_at(q.value, i), cj_item(cj_max(cj_slice(cj_select(x, 0, i / 2), 1, i % 2 * 16, i % 2 * 16 + 16, 1))), 0);
    assert_true(cj_grad(p.value, &x, 1, &with, .seed = seed) && cj_grad(q.value, &x, 1, &without, .seed = seed));
    assert_near(distance(with, without), 0, 0);
    assert_near(cj_item(cj_sum(cj_mul(with, x))), cj_item(cj_sum(cj_mul(seed, q.value))), 1e-13);
}

/* Borders on one side of one axis only, and scales of their own for the axes. */
static void one_side(UNUSED void **state)
{
    cj_tensor *x = NORMAL(3, 4);
    const cj_pad_mode mode[] = { CJ_PAD_REFLECT, CJ_PAD_CYCLIC, CJ_PAD_REPLICATE };
    const int from[3][6] = { { 0, 1, 2, 3, 2, 1 }, { 0, 1, 2, 3, 0, 1 }, { 0, 1, 2, 3, 3, 3 } };
    for (int m = 0; m < 3; m++) {
        cj_tensor *y = cj_pad(x, CJ_SHAPE(0, 0), CJ_SHAPE(0, 2), .mode = mode[m]);
        assert_int_equal(cj_numel(y), 18);
        for (int i = 0; i < 18; i++) assert_near(value_at(y, i), value_at(x, i / 6 * 4 + from[m][i % 6]), 0);
    }
    cj_tensor *y = cj_interpolate(cj_reshape(x, CJ_SHAPE(1, 1, 3, 4)), .scales = { 2, 1.5 });
    assert_int_equal(cj_size(y, 2) * 10 + cj_size(y, 3), 66);
    for (int i = 0; i < 36; i++) assert_near(value_at(y, i), value_at(x, i / 6 / 2 * 4 + i % 6 * 2 / 3), 0);
}

/* Sizes that no memory holds, kinds that there are none of, planes without positions. */
static void absurd_sizes(void **state)
{
    (void)state;
    cj_tensor *x = F(1, 1, 3), *w = F(1, 1, 1);
    assert_poisoned(CJ_EVALUE, "pad: widths 9223372036854775807 and 9223372036854775807; at most 2147483647 is possible",
                    cj_pad(x, CJ_SHAPE(INT64_MAX), CJ_SHAPE(INT64_MAX)));
    assert_poisoned(CJ_EVALUE, "at most 2147483647 is possible", cj_pad(x, CJ_SHAPE(1), CJ_SHAPE(INT64_MAX), .mode = CJ_PAD_REPLICATE));
    assert_poisoned(CJ_EVALUE, "conv: padding 9223372036854775807; at most", cj_conv(x, w, NULL, .padding = INT64_MAX));
    assert_poisoned(CJ_EVALUE, "max_pool: dilation 4611686018427387904; at most", cj_max_pool(x, .kernel = 2, .dilation = 1ll << 62).value);
    assert_poisoned(CJ_EVALUE, "adaptive_max_pool: size 2305843009213693952 from an axis of 3",
                    cj_adaptive_max_pool(x, CJ_SHAPE(1ll << 61)));
    assert_poisoned(CJ_EVALUE, "adaptive_max_pool: 1025 windows along an axis, at most 1024", cj_adaptive_max_pool(x, CJ_SHAPE(1025)));
    assert_poisoned(CJ_EVALUE, "adaptive_avg_pool: size 144115188075855873 from", cj_adaptive_avg_pool(x, CJ_SHAPE((1ll << 57) + 1)));
    assert_poisoned(CJ_EVALUE, "pad: 7 is no cj_pad_mode", cj_pad(x, CJ_SHAPE(1), CJ_SHAPE(1), .mode = (cj_pad_mode)7));
    assert_poisoned(CJ_EVALUE, "conv: 7 is no cj_border", cj_conv(x, w, NULL, .border = (cj_border)7));
    cj_tensor *line = cj_arange(c, 0, 6, 1, CJ_F32),
              *one = cj_max_pool(cj_reshape(line, CJ_SHAPE(1, 1, 6)), .kernel = 2, .stride = 300000000).value;
    assert_true(cj_numel(one) == 1 && cj_item(one) == 1); /* only one window: its step does not matter */
    cj_tensor *none = cj_max_unpool(cj_zeros(c, CJ_SHAPE(2, 3, 0), CJ_F32), cj_zeros(c, CJ_SHAPE(2, 3, 0), CJ_I64), CJ_SHAPE(4));
    assert_true(cj_numel(none) == 24 && cj_item(cj_sum(cj_abs(none))) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bad_tensors),     cmocka_unit_test(conv_arguments),
                                        cmocka_unit_test(pool_arguments),  cmocka_unit_test(resample_arguments),
                                        cmocka_unit_test(box_arguments),   cmocka_unit_test(derivative_arguments),
                                        cmocka_unit_test(layouts_of_rows), cmocka_unit_test(depthwise_parts),
                                        cmocka_unit_test(tangents_alone),  cmocka_unit_test(samples),
                                        cmocka_unit_test(nothing),         cmocka_unit_test(large_windows),
                                        cmocka_unit_test(one_side),        cmocka_unit_test(absurd_sizes) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
