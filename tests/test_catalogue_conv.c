/* Catalogue rows of convolution and pooling: the worked examples and the laws. */
#include "support.h"

static cj_ctx *c;
static int set_up(void **state)
{
    (void)state;
    c = cj_ctx_new(&(cj_ctx_opts){ .seed = 31 });
    return !c;
}
static int tear_down(void **state)
{
    (void)state;
    cj_ctx_free(c);
    return 0;
}

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static cj_tensor *reversed(cj_tensor *w) { return cj_contiguous(cj_slice(w, -1, CJ_END, CJ_END, -1)); }

/* One channel, one axis, every overlap: the kernel slides as it is. */
static cj_tensor *slide(cj_tensor *x, cj_tensor *w)
{
    const int64_t n = cj_numel(x), k = cj_numel(w);
    return cj_flatten(cj_conv(cj_reshape(x, CJ_SHAPE(1, 1, n)), cj_reshape(w, CJ_SHAPE(1, 1, k)), NULL, .padding = k - 1), 0);
}
static cj_tensor *convolve(cj_tensor *x, cj_tensor *w) { return slide(x, reversed(w)); }
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
    assert_near(distance(a, b), 0, tolerance);
}
static cj_tensor *rolled(cj_tensor *x, int axis, int64_t by)
{
    const int64_t n = cj_size(x, axis);
    return cj_cat(CJ_TENSORS(cj_slice(x, axis, n - by, CJ_END, 1), cj_slice(x, axis, 0, n - by, 1)), 2, axis);
}

static void conv_true_1d_xcorr_algebra_toeplitz(void **state) /* conv.true-1d, conv.xcorr, conv.algebra, conv.toeplitz-1d */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F64(c, CJ_SHAPE(3), 2, -1, 1), *w = F64(c, CJ_SHAPE(3), 1, 1, 2);
    same(convolve(x, w), F64(c, CJ_SHAPE(5), 2, 1, 4, -1, 2), 0);
    same(convolve(F64(c, CJ_SHAPE(4), 1, 1, 1, 1), F64(c, CJ_SHAPE(4), 1, 2, 3, 4)), F64(c, CJ_SHAPE(7), 1, 3, 6, 10, 9, 7, 4), 0);
    same(slide(x, w), F64(c, CJ_SHAPE(5), 4, 0, 3, 0, 1), 0);
    assert_true(distance(slide(w, x), slide(x, w)) > 1); /* sliding does not commute */
    cj_tensor *t = F64(c, CJ_SHAPE(5, 3), 1, 0, 0, 1, 1, 0, 2, 1, 1, 0, 2, 1, 0, 0, 2);
    same(cj_squeeze(cj_matmul(t, cj_unsqueeze(x, 1)), 1), convolve(x, w), 0);
    cj_tensor *y = normal(CJ_SHAPE(5));
    same(cj_squeeze(cj_matmul(cj_t(t), cj_unsqueeze(y, 1)), 1),
         cj_flatten(cj_conv_transpose(cj_reshape(y, CJ_SHAPE(1, 1, 5)), cj_reshape(reversed(w), CJ_SHAPE(1, 1, 3)), NULL, .padding = 2), 0),
         1e-14);
    for (int i = 1; i < 9; i++) {
        cj_tensor *f = normal(CJ_SHAPE(5 + i)), *g = normal(CJ_SHAPE(i)), *h = normal(CJ_SHAPE(3)), *k = normal(CJ_SHAPE(5 + i));
        same(convolve(f, g), convolve(g, f), 1e-12);
        same(convolve(convolve(f, g), h), convolve(f, convolve(g, h)), 1e-12);
        same(convolve(cj_add(f, k), g), cj_add(convolve(f, g), convolve(k, g)), 1e-12);
        same(convolve(cj_mul_scalar(f, 3), g), cj_mul_scalar(convolve(f, g), 3), 1e-12);
        cj_tensor *symmetric = cj_add(h, reversed(h));
        same(slide(f, symmetric), convolve(f, symmetric), 0);
    }
    cj_scope_close(s);
}

static void conv_padding_stride_dilated_1x1(void **state) /* conv.padding, conv.stride, conv.dilated, conv.1x1 */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(1, 1, 5)), *w = normal(CJ_SHAPE(1, 1, 3));
    assert_int_equal(cj_size(cj_conv(x, w, NULL), 2), 3);
    assert_int_equal(cj_size(cj_conv(x, w, NULL, .border = CJ_SAME), 2), 5);
    assert_int_equal(cj_size(cj_conv(x, w, NULL, .border = CJ_FULL), 2), 7);
    same(cj_pad(F64(c, CJ_SHAPE(4), 1, 2, 3, 4), CJ_SHAPE(1), CJ_SHAPE(1), .mode = CJ_PAD_REFLECT), F64(c, CJ_SHAPE(6), 2, 1, 2, 3, 4, 3),
         0);
    cj_tensor *cyclic = cj_conv(x, w, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC);
    same(rolled(cyclic, 2, 2), cj_conv(rolled(x, 2, 2), w, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC), 0);
    cj_tensor *row = cj_flatten(w, 0), *zero = cj_zeros(c, CJ_SHAPE(2), CJ_F64); /* circulant(c): c_0 = w_1, c_1 = w_0, c_4 = w_2 */
    cj_tensor *column = cj_cat(CJ_TENSORS(cj_slice(row, 0, 1, 2, 1), cj_slice(row, 0, 0, 1, 1), zero, cj_slice(row, 0, 2, 3, 1)), 4, 0);
    same(cj_flatten(cyclic, 0), cj_circulant_product(column, cj_flatten(x, 0)), 1e-14);

    cj_tensor *image = normal(CJ_SHAPE(2, 3, 11, 12)), *k = normal(CJ_SHAPE(4, 3, 3, 3));
    cj_tensor *dense = cj_conv(image, k, NULL);
    for (int64_t stride = 2; stride < 4; stride++)
        same(cj_conv(image, k, NULL, .stride = stride), cj_slice(cj_slice(dense, 2, 0, CJ_END, stride), 3, 0, CJ_END, stride), 1e-13);
    cj_tensor *long_signal = normal(CJ_SHAPE(1, 1, 12)), *abc = F64(c, CJ_SHAPE(1, 1, 3), 2, 3, 5),
              *stuffed = F64(c, CJ_SHAPE(1, 1, 5), 2, 0, 3, 0, 5);
    same(cj_conv(long_signal, abc, NULL, .dilation = 2), cj_conv(long_signal, stuffed, NULL), 1e-14);
    cj_tensor *mix = normal(CJ_SHAPE(5, 3, 1, 1)), *bias = normal(CJ_SHAPE(5)), *each = cj_permute(image, CJ_AXES(0, 2, 3, 1));
    same(cj_conv(image, mix, bias), cj_permute(cj_linear_op(each, cj_reshape(mix, CJ_SHAPE(5, 3)), bias), CJ_AXES(0, 3, 1, 2)), 1e-13);
    same(cj_conv(rolled(image, 3, 5), mix, bias), rolled(cj_conv(image, mix, bias), 3, 5), 1e-14);
    assert_int_equal(cj_numel(mix) + cj_numel(bias), 3 * 5 + 5);
    cj_scope_close(s);
}

static int64_t out_size(int64_t i, int64_t k, int64_t st, int64_t p, int64_t d) { return (i + 2 * p - d * (k - 1) - 1) / st + 1; }

static void conv_arithmetic(void **state) /* conv.arithmetic */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *y = cj_conv(cj_zeros(c, CJ_SHAPE(1, 3, 100, 100), CJ_F32), cj_zeros(c, CJ_SHAPE(3, 3, 3, 3), CJ_F32), NULL);
    assert_int_equal(cj_size(y, 2), 98);
    assert_int_equal(cj_size(cj_max_pool(y, .kernel = 2).value, 3), 49);
    y = cj_conv(cj_zeros(c, CJ_SHAPE(1, 3, 7, 7), CJ_F32), cj_zeros(c, CJ_SHAPE(2, 3, 3, 3), CJ_F32), NULL, .stride = 2);
    assert_true(cj_size(y, 1) == 2 && cj_size(y, 2) == 3 && cj_size(y, 3) == 3);
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(1, 1, 40), CJ_F32), *w = cj_zeros(c, CJ_SHAPE(1, 1, 3), CJ_F32);
    const int64_t sizes[3] = { 19, 9, 4 };
    for (int i = 0; i < 3; i++) assert_int_equal(cj_size(x = cj_conv(x, w, NULL, .stride = 2), 2), sizes[i]);
    for (int64_t i = 1; i <= 7; i++)
        for (int64_t k = 1; k <= 7; k++)
            for (int64_t st = 1; st <= 7; st++)
                for (int64_t p = 0; p <= 7; p++)
                    for (int64_t d = 1; d <= 7; d++) {
                        if (i + 2 * p < d * (k - 1) + 1) continue;
                        cj_scope inner = cj_scope_open(c);
                        int64_t positions = 0; /* counted one by one */
                        for (int64_t at = -p; at + d * (k - 1) < i + p; at += st) positions++;
                        cj_tensor *f = cj_conv(cj_zeros(c, CJ_SHAPE(1, 1, i), CJ_F32), cj_zeros(c, CJ_SHAPE(1, 1, k), CJ_F32), NULL,
                                               .stride = st, .padding = p, .dilation = d);
                        if (cj_size(f, 2) != positions || positions != out_size(i, k, st, p, d))
                            fail_msg("size %d of %d", (int)cj_size(f, 2), (int)positions);
                        cj_scope_close(inner);
                    }
    cj_tensor *up = cj_conv_transpose(cj_zeros(c, CJ_SHAPE(1, 1, 5), CJ_F32), cj_zeros(c, CJ_SHAPE(1, 1, 4), CJ_F32), NULL, .stride = 3,
                                      .padding = 1, .dilation = 2, .output_padding = 2);
    assert_int_equal(cj_size(up, 2), 4 * 3 - 2 + 2 * 3 + 2 + 1);
    cj_scope_close(s);
}

static void conv_transposed_and_separable(void **state) /* conv.transposed, conv.separable */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *square = F64(c, CJ_SHAPE(1, 1, 2, 2), 0, 1, 2, 3);
    same(cj_conv_transpose(square, square, NULL), F64(c, CJ_SHAPE(1, 1, 3, 3), 0, 0, 1, 0, 4, 6, 4, 12, 9), 0);
    cj_tensor *x = normal(CJ_SHAPE(2, 3, 9, 8)), *w = normal(CJ_SHAPE(4, 3, 3, 3)), *y = cj_conv(x, w, NULL, .stride = 2, .padding = 1),
              *g = normal(cj_shape_of(y));
    cj_tensor *back = cj_conv_transpose(g, w, NULL, .stride = 2, .padding = 1, .output_paddings = CJ_SHAPE(0, 1));
    assert_near(cj_item(cj_sum(cj_mul(y, g))), cj_item(cj_sum(cj_mul(x, back))), 1e-10);
    cj_tensor *image = normal(CJ_SHAPE(1, 1, 9, 9));
    const struct {
        double column[3], row[3], kernel[9];
    } rank_one[] = { { { 3, 4, 5 }, { 1, 2, 3 }, { 3, 6, 9, 4, 8, 12, 5, 10, 15 } },
                     { { 1, 2, 1 }, { 1, 0, -1 }, { 1, 0, -1, 2, 0, -2, 1, 0, -1 } } };
    for (int i = 0; i < 2; i++) {
        cj_tensor *u = cj_from_f64(c, rank_one[i].column, CJ_SHAPE(1, 1, 3, 1)), *v = cj_from_f64(c, rank_one[i].row, CJ_SHAPE(1, 1, 1, 3));
        cj_tensor *k = cj_from_f64(c, rank_one[i].kernel, CJ_SHAPE(1, 1, 3, 3));
        same(cj_mul(u, v), k, 0);
        same(cj_conv(cj_conv(image, u, NULL), v, NULL), cj_conv(image, k, NULL), 1e-12);
    }
    cj_scope_close(s);
}

static void conv_groups_and_3d(void **state) /* conv.3d */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    /* groups are the blocks of a block-diagonal kernel */
    cj_tensor *x = normal(CJ_SHAPE(2, 4, 6, 5)), *w = normal(CJ_SHAPE(6, 2, 3, 3)), *zero = cj_zeros(c, CJ_SHAPE(3, 2, 3, 3), CJ_F64);
    cj_tensor *top = cj_cat(CJ_TENSORS(cj_slice(w, 0, 0, 3, 1), zero), 2, 1),
              *bottom = cj_cat(CJ_TENSORS(zero, cj_slice(w, 0, 3, 6, 1)), 2, 1);
    same(cj_conv(x, w, NULL, .groups = 2), cj_conv(x, cj_cat(CJ_TENSORS(top, bottom), 2, 0), NULL), 1e-13);
    assert_int_equal(cj_numel(w) + 6, (1 + 4 / 2 * 9) * 6);
    /* a kernel of depth 1 is a convolution of every slice */
    cj_tensor *volume = normal(CJ_SHAPE(1, 2, 4, 6, 5)), *flat = normal(CJ_SHAPE(3, 2, 1, 3, 3)), *y = cj_conv(volume, flat, NULL);
    for (int64_t d = 0; d < 4; d++) same(cj_select(y, 2, d), cj_conv(cj_select(volume, 2, d), cj_squeeze(flat, 2), NULL), 1e-13);
    cj_tensor *cube = normal(CJ_SHAPE(3, 2, 3, 3, 3));
    for (int axis = 2; axis < 5; axis++)
        same(rolled(cj_conv(volume, cube, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC), axis, 1),
             cj_conv(rolled(volume, axis, 1), cube, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC), 1e-13);
    assert_int_equal(cj_numel(cube) + 3, (1 + 2 * 27) * 3);
    cj_scope_close(s);
}

static cj_tensor *convolution(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_conv(in[0], in[1], in[2], .stride = 2, .padding = 1);
}

static void conv_2d_and_1d_layer(void **state) /* conv.2d, conv.1d-layer, conv.causal-1d, conv.equivariance */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *small = cj_conv_layer(c, 3, 16, CJ_SHAPE(3, 3)), *large = cj_conv_layer(c, 10, 25, CJ_SHAPE(5, 5), .conv = { .stride = 2 });
    cj_module *line = cj_conv_layer(c, 15, 15, CJ_SHAPE(3));
    assert_int_equal(cj_params_numel(cj_module_params(small)), 448);
    assert_int_equal(cj_params_numel(cj_module_params(large)), 6275);
    assert_int_equal(cj_params_numel(cj_module_params(line)), 690);
    cj_tensor *x = normal(CJ_SHAPE(1, 3, 7, 6)), *w = normal(CJ_SHAPE(2, 3, 3, 3)), *b = normal(CJ_SHAPE(2)),
              *order = cj_from_i64(c, (int64_t[]){ 2, 0, 1 }, CJ_SHAPE(3));
    same(cj_conv(x, w, b), cj_conv(cj_index_select(x, 1, order), cj_index_select(w, 1, order), b), 1e-13);
    cj_tensor *in[3] = { x, w, b };
    cj_gradcheck_result r = cj_gradcheck(c, convolution, NULL, in, 3);
    if (!r.ok) fail_msg("%s", r.what);
    /* z_i = w1 x_(i-1) + w2 x_i + w3 x_(i+1) */
    cj_tensor *z = cj_conv(F64(c, CJ_SHAPE(1, 1, 4), 1, 10, 100, 1000), F64(c, CJ_SHAPE(1, 1, 3), 2, 3, 5), NULL, .padding = 1);
    same(z, F64(c, CJ_SHAPE(1, 1, 4), 53, 532, 5320, 3200), 0);
    /* causal: padded on the left only, later values change nothing */
    cj_tensor *signal = normal(CJ_SHAPE(1, 1, 20)), *k = normal(CJ_SHAPE(1, 1, 4)), *padded = cj_pad(signal, CJ_SHAPE(6), CJ_SHAPE(0));
    cj_tensor *causal = cj_conv(padded, reversed(k), NULL, .dilation = 2);
    cj_tensor *later = cj_cat(CJ_TENSORS(cj_slice(signal, 2, 0, 12, 1), normal(CJ_SHAPE(1, 1, 8))), 2, 2);
    cj_tensor *changed = cj_conv(cj_pad(later, CJ_SHAPE(6), CJ_SHAPE(0)), reversed(k), NULL, .dilation = 2);
    same(cj_slice(causal, 2, 0, 12, 1), cj_slice(changed, 2, 0, 12, 1), 0);
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += cj_item(cj_select(cj_flatten(k, 0), 0, i)) * cj_item(cj_select(cj_flatten(signal, 0), 0, 15 - 2 * i));
    assert_near(cj_item(cj_select(cj_flatten(causal, 0), 0, 15)), sum, 1e-14);
    /* equivariance: exact with a cyclic border; broken by a stride, except for shifts by the stride */
    cj_tensor *once = cj_conv(x, w, b, .padding = 1, .mode = CJ_PAD_CYCLIC),
              *shifted = cj_conv(rolled(x, 3, 1), w, b, .padding = 1, .mode = CJ_PAD_CYCLIC);
    same(rolled(once, 3, 1), shifted, 1e-13);
    cj_tensor *wide = normal(CJ_SHAPE(1, 3, 8, 8)), *coarse = cj_conv(wide, w, b, .padding = 1, .stride = 2, .mode = CJ_PAD_CYCLIC);
    same(rolled(coarse, 3, 1), cj_conv(rolled(wide, 3, 2), w, b, .padding = 1, .stride = 2, .mode = CJ_PAD_CYCLIC), 1e-13);
    assert_true(distance(rolled(coarse, 3, 1), cj_conv(rolled(wide, 3, 1), w, b, .padding = 1, .stride = 2, .mode = CJ_PAD_CYCLIC)) > 0.1);
    cj_tensor *dense = normal(CJ_SHAPE(20, 20)), *line_signal = normal(CJ_SHAPE(1, 20));
    assert_true(distance(cj_matmul(rolled(line_signal, 1, 1), dense), rolled(cj_matmul(line_signal, dense), 1, 1)) > 0.1);
    cj_scope_close(s);
}

static void pooling(void **state) /* pool.max, pool.avg, pool.min, pool.softmax, pool.global, pool.subsample, up.unpool */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *y = F64(c, CJ_SHAPE(1, 1, 4, 4), 0, 5, 8, 0, 6, 10, 1, 5, 4, 0, 2, 11, 0, 1, 11, 3), *g;
    same(cj_max_pool(y, .kernel = 2).value, F64(c, CJ_SHAPE(1, 1, 2, 2), 10, 8, 4, 11), 0);
    same(cj_avg_pool(y, .kernel = 2), F64(c, CJ_SHAPE(1, 1, 2, 2), 21. / 4, 7. / 2, 5. / 4, 27. / 4), 0);
    cj_tensor *x = cj_require_grad(normal(CJ_SHAPE(2, 3, 8, 6)));
    cj_pooled p = cj_max_pool(x, .kernel = 2);
    cj_tensor *seed = normal(cj_shape_of(p.value));
    cj_grad(p.value, &x, 1, &g, .seed = seed);
    assert_near(cj_item(cj_sum(g)), cj_item(cj_sum(seed)), 1e-12); /* nothing of the gradient is lost */
    same(g, cj_max_unpool(seed, p.index, CJ_SHAPE(8, 6)), 0);
    assert_int_equal(cj_size(cj_max_pool(x, .kernel = 3, .stride = 1, .padding = 1).value, 2), 8);
    cj_tensor *plain = cj_detach(x);
    same(cj_min_pool(plain, .kernel = 2).value, cj_neg(cj_max_pool(cj_neg(plain), .kernel = 2).value), 0);
    cj_tensor *quarter = cj_full(c, 0.25, CJ_SHAPE(3, 1, 2, 2), CJ_F64);
    same(cj_avg_pool(plain, .kernel = 2), cj_conv(plain, quarter, NULL, .stride = 2, .groups = 3), 1e-15);
    same(cj_softmax_pool(plain, 1e9, .kernel = 2), cj_avg_pool(plain, .kernel = 2), 1e-8);        /* beta = 0 */
    same(cj_softmax_pool(plain, 1e-4, .kernel = 2), cj_max_pool(plain, .kernel = 2).value, 0.02); /* beta = 10^4 */
    cj_tensor *all = cj_flatten(cj_adaptive_avg_pool(plain, CJ_SHAPE(1, 1)), 1), *ones = cj_ones(c, CJ_SHAPE(48, 1), CJ_F64);
    same(cj_mul_scalar(all, 48), cj_squeeze(cj_matmul(cj_reshape(plain, CJ_SHAPE(2, 3, 48)), ones), -1), 1e-13);
    same(all, cj_flatten(cj_adaptive_avg_pool(rolled(rolled(plain, 2, 3), 3, 2), CJ_SHAPE(1, 1)), 1), 1e-14);
    cj_tensor *delta = cj_ones(c, CJ_SHAPE(3, 1, 1, 1), CJ_F64);
    same(cj_slice(cj_slice(plain, 2, 0, CJ_END, 3), 3, 0, CJ_END, 3), cj_conv(plain, delta, NULL, .stride = 3, .groups = 3), 0);
    cj_tensor *sub = cj_slice(x, 2, 0, CJ_END, 3); /* sizes ceil(8/3); the gradient comes back between zeros */
    assert_int_equal(cj_size(sub, 2), 3);
    cj_grad(cj_sum(sub), &x, 1, &g);
    assert_near(cj_item(cj_sum(g)), 2 * 3 * 3 * 6, 0);
    assert_near(cj_item(cj_sum(cj_select(g, 2, 1))), 0, 0);
    cj_pooled q = cj_max_pool(cj_abs(plain), .kernel = 2);
    same(cj_max_pool(cj_max_unpool(q.value, q.index, CJ_SHAPE(8, 6)), .kernel = 2).value, q.value, 0);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_true_1d_xcorr_algebra_toeplitz),
        cmocka_unit_test(conv_padding_stride_dilated_1x1),
        cmocka_unit_test(conv_arithmetic),
        cmocka_unit_test(conv_transposed_and_separable),
        cmocka_unit_test(conv_groups_and_3d),
        cmocka_unit_test(conv_2d_and_1d_layer),
        cmocka_unit_test(pooling),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
