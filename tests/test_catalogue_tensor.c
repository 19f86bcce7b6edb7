/* The catalogue's family `tensor`: one test case per row, named after its id (docs/coverage.tsv). */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 17);

static cj_tensor *randn(cj_shape s, cj_dtype t) { return (cj_randn)(c, s, &(cj_random_opts){ .dtype = t }); }

/* ---- tensor.core --------------------------------------------------------------------------------------------------------------------------------- */

static void reductions_equal_loops(void)
{
    enum { A = 5, B = 7, C = 3 };
    cj_tensor *x = randn(CJ_SHAPE(A, B, C), CJ_F64);
    double *v = values_of(x);
#define AT(i, j, k) v[((i)*B + (j)) * C + (k)]
    for (int axis = 0; axis < 3; axis++) {
        int64_t n[3] = { A, B, C };
        cj_axes one = CJ_AXIS(axis);
        cj_tensor *sum = cj_sum(x, .axes = one), *mean = cj_mean(x, .axes = one), *prod = cj_prod(x, .axes = one),
                  *max = cj_max(x, .axes = one), *min = cj_min(x, .axes = one), *arg = cj_argmax(x, .axes = one),
                  *low = cj_argmin(x, .axes = one), *var = cj_var(x, .axes = one);
        int u = axis == 0, w = axis == 2 ? 1 : 2; /* the axes that stay */
        for (int64_t p = 0; p < n[u]; p++)
            for (int64_t q = 0; q < n[w]; q++) {
                double s = 0, pr = 1, hi = -INFINITY, lo = INFINITY, sq = 0;
                int64_t at = 0, under = 0, i[3];
                i[u] = p, i[w] = q;
                for (i[axis] = 0; i[axis] < n[axis]; i[axis]++) {
                    double e = AT(i[0], i[1], i[2]);
                    s += e, pr *= e;
                    if (e > hi) hi = e, at = i[axis];
                    if (e < lo) lo = e, under = i[axis];
                }
                double m = s / (double)n[axis];
                for (i[axis] = 0; i[axis] < n[axis]; i[axis]++) sq += (AT(i[0], i[1], i[2]) - m) * (AT(i[0], i[1], i[2]) - m);
                int64_t pq[2] = { p, q };
                assert_near(cj_at(sum, pq), s, 1e-13);
                assert_near(cj_at(mean, pq), m, 1e-14);
                assert_near(cj_at(prod, pq), pr, 1e-13);
                assert_near(cj_at(max, pq), hi, 0);
                assert_near(cj_at(min, pq), lo, 0);
                assert_near(cj_at(arg, pq), (double)at, 0);
                assert_near(cj_at(low, pq), (double)under, 0);
                assert_near(cj_at(var, pq), sq / (double)(n[axis] - 1), 1e-13);
            }
    }
    double total = 0;
    for (int i = 0; i < A * B * C; i++) total += v[i];
    assert_near(cj_item(cj_sum(x)), total, 1e-12);
    cj_tensor *outer = cj_sum(x, .axes = CJ_AXES(0, 2), .keepdim = true);
    assert_int_equal(cj_ndim(outer), 3);
    assert_int_equal(cj_size(outer, 0) * cj_size(outer, 2), 1);
    free(v);
}

static void broadcasting_equals_expansion(void)
{
    cj_shape shapes[][2] = { { CJ_SHAPE(4, 1), CJ_SHAPE(1, 5) },
                             { CJ_SHAPE(2, 3, 4), CJ_SHAPE(4) },
                             { CJ_SHAPE(3, 1), CJ_SHAPE(2, 1, 4) },
                             { CJ_SCALAR, CJ_SHAPE(2, 2) } };
    cj_shape wide[] = { CJ_SHAPE(4, 5), CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 2) };
    for (int i = 0; i < 4; i++) {
        cj_tensor *a = randn(shapes[i][0], CJ_F32), *b = randn(shapes[i][1], CJ_F32);
        cj_tensor *wa = cj_clone(cj_expand(a, wide[i])), *wb = cj_clone(cj_expand(b, wide[i]));
        assert_true(same_bits(cj_add(a, b), cj_add(wa, wb)));
        assert_true(same_bits(cj_mul(a, b), cj_mul(wa, wb)));
        assert_true(same_bits(cj_sub(a, b), cj_sub(wa, wb)));
        assert_true(same_bits(cj_div(a, b), cj_div(wa, wb)));
        assert_true(same_bits(cj_maximum(a, b), cj_maximum(wa, wb)));
    }
}

static void views_share_memory(void)
{
    cj_tensor *x = cj_reshape(cj_arange(c, 0, 24, 1, CJ_F32), CJ_SHAPE(2, 3, 4));
    cj_tensor *views[] = { cj_t(x),
                           cj_permute(x, CJ_AXES(2, 0, 1)),
                           cj_slice(x, 2, 0, CJ_END, 2),
                           cj_select(x, 1, 0),
                           cj_reshape(x, CJ_SHAPE(6, 4)),
                           cj_diagonal(x, 0, 1, 2),
                           cj_unfold(x, 2, 2, 1),
                           cj_expand(cj_select(x, 0, 0), CJ_SHAPE(5, 3, 4)),
                           cj_unsqueeze(x, 0) };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) assert_ptr_equal(cj_data(views[i]), cj_data(x));
    assert_int_equal(cj_stride(x, 0), 12);
    assert_int_equal(cj_stride(x, -1), 1);
    assert_int_equal(cj_stride(views[2], 2), 2);
    assert_int_equal(cj_stride(views[7], 0), 0);
    assert_near(cj_at(cj_permute(x, CJ_AXES(2, 0, 1)), (int64_t[]){ 3, 1, 2 }), 23, 0);
    assert_near(cj_at(cj_slice(x, 2, 3, CJ_END, -2), (int64_t[]){ 1, 1, 1 }), 17, 0);
    assert_near(cj_at(cj_slice(x, 1, -2, -1, 1), (int64_t[]){ 0, 0, 1 }), 5, 0);
    assert_near(cj_at(cj_unfold(x, 2, 2, 1), (int64_t[]){ 1, 2, 2, 1 }), 23, 0);
    assert_near(cj_at(cj_diagonal(x, 1, 1, 2), (int64_t[]){ 1, 2 }), 23, 0);
    assert_near(cj_at(cj_diagonal(x, -1, 1, 2), (int64_t[]){ 0, 1 }), 9, 0);
    assert_near(cj_at(cj_select(x, 0, -1), (int64_t[]){ -1, -1 }), 23, 0);
    assert_false(cj_is_contiguous(cj_t(x)));
    assert_true(cj_is_contiguous(cj_contiguous(cj_t(x))));
}

/* tensor.core */
static void tensor_core(void **state)
{
    (void)state;
    assert_int_equal(cj_dtype_size(CJ_F32), 4);
    assert_int_equal(cj_dtype_size(CJ_F64), 8);
    cj_tensor *x = randn(CJ_SHAPE(5, 10), CJ_F32);
    char text[64];
    cj_format_shape(x, text, sizeof text);
    assert_string_equal(text, "Size([5, 10])");
    assert_int_equal(cj_size(x, 0), 5);
    assert_int_equal(cj_size(x, -1), 10);
    /* reshape and flatten are exact inverses; flatten(x, 1) keeps the batch axis */
    cj_tensor *img = randn(CJ_SHAPE(5, 2, 3, 4), CJ_F32), *flat = cj_flatten(img, 1);
    cj_format_shape(flat, text, sizeof text);
    assert_string_equal(text, "Size([5, 24])");
    assert_true(same_bits(cj_reshape(flat, CJ_SHAPE(5, 2, 3, 4)), img));
    assert_true(same_bits(cj_reshape(cj_flatten(img, 0), CJ_SHAPE(5, 2, -1, 4)), img));
    cj_tensor *odd = cj_permute(img, CJ_AXES(3, 1, 0, 2));
    assert_true(same_bits(cj_reshape(cj_flatten(odd, 0), CJ_SHAPE(4, 2, 5, 3)), cj_contiguous(odd)));
    assert_true(same_bits(cj_contiguous(cj_t(cj_contiguous(cj_t(x)))), x));
    broadcasting_equals_expansion();
    reductions_equal_loops();
    views_share_memory();
    /* concat and stack, gather and scatter, argmax, one-hot */
    cj_tensor *a = randn(CJ_SHAPE(2, 3), CJ_F32), *b = randn(CJ_SHAPE(2, 3), CJ_F32), *cat = cj_cat(CJ_TENSORS(a, b), 2, 1),
              *stack = cj_stack(CJ_TENSORS(a, b), 2, -1);
    assert_true(same_bits(cj_contiguous(cj_slice(cat, 1, 3, 6, 1)), b));
    assert_true(same_bits(cj_contiguous(cj_select(stack, 2, 0)), a));
    cj_tensor *index = cj_from_i64(c, (int64_t[]){ 2, 0, 0, 1 }, CJ_SHAPE(2, 2)), *got = cj_gather(a, 1, index);
    assert_near(cj_at(got, (int64_t[]){ 0, 0 }), cj_at(a, (int64_t[]){ 0, 2 }), 0);
    assert_near(cj_at(got, (int64_t[]){ 1, 1 }), cj_at(a, (int64_t[]){ 1, 1 }), 0);
    cj_tensor *back = cj_scatter_add(cj_zeros_like(a), 1, index, got);
    assert_near(cj_at(back, (int64_t[]){ 0, 2 }), cj_at(a, (int64_t[]){ 0, 2 }), 0);
    assert_near(cj_at(back, (int64_t[]){ 0, 1 }), 0, 0);
    cj_tensor *hot = cj_one_hot(cj_from_i64(c, (int64_t[]){ 2, 0 }, CJ_SHAPE(2)), 4);
    cj_format(hot, text, sizeof text);
    assert_string_equal(text, "tensor([[0, 0, 1, 0],\n        [1, 0, 0, 0]])");
    assert_true(same_bits(cj_argmax(hot, .axes = CJ_AXIS(1)), cj_from_i64(c, (int64_t[]){ 2, 0 }, CJ_SHAPE(2))));
    /* sizes and totals */
    assert_near(cj_item(cj_sum(cj_index_add(cj_zeros(c, CJ_SHAPE(3), CJ_F32), 0, cj_from_i64(c, (int64_t[]){ 1, 1 }, CJ_SHAPE(2)),
                                            cj_ones(c, CJ_SHAPE(2), CJ_F32)))),
                2, 0);
    assert_near(cj_item(cj_sum(cj_tril(cj_ones(c, CJ_SHAPE(4, 4), CJ_F32), 0))), 10, 0);
    assert_near(cj_item(cj_sum(cj_triu(cj_ones(c, CJ_SHAPE(4, 4), CJ_F32), 1))), 6, 0);
    assert_near(cj_item(cj_sum(cj_eye(c, 5, CJ_F64))), 5, 0);
}

/* tensor.image_layout */
static void tensor_image_layout(void **state)
{
    (void)state;
    enum { T = 2, C = 3, H = 4, W = 5 };
    cj_tensor *grey = randn(CJ_SHAPE(H, W), CJ_F32), *image = randn(CJ_SHAPE(C, H, W), CJ_F32),
              *video = randn(CJ_SHAPE(T, C, H, W), CJ_F32);
    cj_tensor *batch = cj_stack(CJ_TENSORS(image, cj_neg(image)), 2, 0);
    assert_int_equal(cj_ndim(grey), 2);
    assert_int_equal(cj_ndim(batch), 4);
    assert_int_equal(cj_size(batch, 0), 2);
    /* R^{CHW} and back, bit for bit */
    cj_tensor *flat = cj_flatten(image, 0);
    assert_int_equal(cj_numel(flat), C * H * W);
    assert_true(same_bits(cj_reshape(flat, CJ_SHAPE(C, H, W)), image));
    assert_true(same_bits(cj_reshape(cj_flatten(video, 0), CJ_SHAPE(T, C, H, W)), video));
    assert_true(same_bits(cj_reshape(cj_flatten(grey, 0), CJ_SHAPE(H, W)), grey));
    assert_true(same_bits(cj_reshape(cj_flatten(batch, 1), CJ_SHAPE(2, C, H, W)), batch));
    /* element (c, i, j) is at c*H*W + i*W + j */
    for (int64_t ch = 0; ch < C; ch++)
        for (int64_t i = 0; i < H; i++)
            for (int64_t j = 0; j < W; j++) {
                assert_near(cj_at(image, (int64_t[]){ ch, i, j }), cj_at(flat, (int64_t[]){ ch * H * W + i * W + j }), 0);
                assert_near(((const float *)cj_data(image))[ch * H * W + i * W + j], cj_at(image, (int64_t[]){ ch, i, j }), 0);
            }
    /* channels last is a view, and comes back */
    cj_tensor *last = cj_permute(image, CJ_AXES(1, 2, 0));
    assert_int_equal(cj_stride(last, 2), H * W);
    assert_true(same_bits(cj_contiguous(cj_permute(cj_contiguous(last), CJ_AXES(2, 0, 1))), image));
}

/* ---- tensor.products ------------------------------------------------------------------------------------------------------------------------------- */

/* Largest error of a·b against the triple loop, relative to sum |a||b|. */
static double product_error(int64_t m, int64_t k, int64_t n, cj_dtype t)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *a = randn(CJ_SHAPE(m, k), t), *b = randn(CJ_SHAPE(k, n), t), *y = cj_matmul(a, b);
    double *x = values_of(a), *w = values_of(b), *z = values_of(y), worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 1e-30;
            for (int64_t p = 0; p < k; p++) {
                sum += x[i * k + p] * w[p * n + j];
                size += fabs(x[i * k + p] * w[p * n + j]);
            }
            worst = fmax(worst, fabs(z[i * n + j] - sum) / size);
        }
    free(x);
    free(w);
    free(z);
    cj_scope_close(s);
    return worst;
}

/* tensor.products */
static void tensor_products(void **state)
{
    (void)state;
    static const int64_t odd[] = { 1, 2, 3, 7, 13, 17, 31, 33, 65 };
    for (size_t i = 0; i < 9; i++)
        for (size_t j = 0; j < 9; j += 2)
            for (size_t k = 0; k < 9; k += 3) {
                assert_near(product_error(odd[i], odd[k], odd[j], CJ_F32), 0, 1e-5);
                assert_near(product_error(odd[i], odd[k], odd[j], CJ_F64), 0, 1e-13);
            }
    assert_near(product_error(129, 517, 131, CJ_F32), 0, 1e-5);
    assert_near(product_error(65, 300, 67, CJ_F64), 0, 1e-13);
    /* (AB)^T = B^T A^T, products with vectors, batches, outer, inner and Hadamard products */
    for (int f = 0; f < 2; f++) {
        cj_dtype t = f ? CJ_F64 : CJ_F32;
        double tolerance = f ? 1e-13 : 1e-5;
        cj_tensor *a = randn(CJ_SHAPE(7, 5), t), *b = randn(CJ_SHAPE(5, 3), t), *v = randn(CJ_SHAPE(5), t), *u = randn(CJ_SHAPE(7), t);
        assert_near(distance(cj_contiguous(cj_t(cj_matmul(a, b))), cj_matmul(cj_t(b), cj_t(a))), 0, tolerance);
        cj_tensor *av = cj_matmul(a, v), *ua = cj_matmul(u, a);
        assert_int_equal(cj_ndim(av), 1);
        for (int64_t i = 0; i < 7; i++) assert_near(cj_at(av, &i), cj_item(cj_dot(cj_contiguous(cj_select(a, 0, i)), v)), 10 * tolerance);
        for (int64_t j = 0; j < 5; j++) assert_near(cj_at(ua, &j), cj_item(cj_sum(cj_mul(u, cj_select(a, 1, j)))), 10 * tolerance);
        cj_tensor *outer = cj_outer(u, v);
        assert_near(cj_at(outer, (int64_t[]){ 6, 4 }), cj_at(u, (int64_t[]){ 6 }) * cj_at(v, (int64_t[]){ 4 }), tolerance);
        assert_near(cj_item(cj_dot(v, v)), cj_item(cj_sum(cj_square(v))), 10 * tolerance);
        cj_tensor *x = randn(CJ_SHAPE(4, 1, 6, 5), t), *w = randn(CJ_SHAPE(3, 5, 2), t), *y = cj_matmul(x, w);
        assert_int_equal(cj_ndim(y), 4);
        assert_int_equal(cj_size(y, 1), 3);
        for (int64_t i = 0; i < 4; i++)
            for (int64_t j = 0; j < 3; j++)
                assert_near(distance(cj_contiguous(cj_select(cj_select(y, 0, i), 0, j)),
                                     cj_matmul(cj_select(cj_select(x, 0, i), 0, 0), cj_select(w, 0, j))),
                            0, 10 * tolerance);
        cj_tensor *bias = randn(CJ_SHAPE(3), t);
        assert_near(distance(cj_linear_op(a, cj_contiguous(cj_t(b)), bias), cj_add(cj_matmul(a, b), bias)), 0, 10 * tolerance);
        assert_near(cj_at(cj_mul(a, a), (int64_t[]){ 3, 2 }), pow(cj_at(a, (int64_t[]){ 3, 2 }), 2), tolerance);
    }
}

/* tensor.stable */
static void tensor_stable(void **state)
{
    (void)state;
    /* nothing overflows up to 10^4 */
    for (int f = 0; f < 2; f++) {
        cj_dtype t = f ? CJ_F64 : CJ_F32;
        cj_tensor *z = cj_arange(c, -10000, 10001, 100, t);
        cj_tensor *all[] = { cj_softplus(z),
                             cj_log_sigmoid(z),
                             cj_log_softmax(z, 0),
                             cj_softmax(z, 0),
                             cj_logsumexp(z),
                             cj_sigmoid(z),
                             cj_tanh(z),
                             cj_logsumexp(cj_add_scalar(z, -20000)),
                             cj_bce_with_logits(z, cj_ones_like(z)),
                             cj_logsumexp(cj_add_scalar(z, 20000)) };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) assert_near(cj_item(cj_all(cj_isfinite(all[i]))), 1, 0);
        assert_near(cj_item(cj_logsumexp(z)), 10000, 1e-2);
    }
    /* the naive forms for |z| <= 20 */
    cj_tensor *z = cj_arange(c, -20, 20.01, 0.25, CJ_F64);
    double *v = values_of(z), naive = 0;
    int64_t n = cj_numel(z);
    cj_tensor *plus = cj_softplus(z), *ls = cj_log_sigmoid(z), *lsm = cj_log_softmax(z, 0);
    for (int64_t i = 0; i < n; i++) naive += exp(v[i]);
    for (int64_t i = 0; i < n; i++) {
        assert_near(cj_at(plus, &i), log(1 + exp(v[i])), 1e-12);
        assert_near(cj_at(plus, &i), log1p(exp(-fabs(v[i]))) + fmax(v[i], 0), 1e-14);
        assert_near(cj_at(ls, &i), log(1 / (1 + exp(-v[i]))), 1e-12);
        assert_near(cj_at(lsm, &i), log(exp(v[i]) / naive), 1e-12);
    }
    assert_near(cj_item(cj_logsumexp(z)), log(naive), 1e-12);
    free(v);
    /* LSE(z + c) = LSE(z) + c; T·LSE(z/T) -> max from above, within T log n */
    cj_tensor *x = randn(CJ_SHAPE(50), CJ_F64);
    for (double shift = -900; shift <= 900; shift += 300)
        assert_near(cj_item(cj_logsumexp(cj_add_scalar(x, shift))), cj_item(cj_logsumexp(x)) + shift, 1e-12 * 1000);
    double max = cj_item(cj_max(x)), before = INFINITY;
    for (double temperature = 1; temperature > 1e-6; temperature /= 10) {
        double gap = temperature * cj_item(cj_logsumexp(cj_mul_scalar(x, 1 / temperature))) - max;
        assert_true(gap >= -1e-12 && gap <= temperature * log(50) + 1e-12 && gap <= before + 1e-12);
        before = gap;
    }
    /* infinities stay what they mean */
    cj_tensor *edge = F64(c, CJ_SHAPE(2), -INFINITY, -INFINITY);
    assert_true(cj_item(cj_logsumexp(edge)) == -INFINITY);
    edge = F64(c, CJ_SHAPE(2), INFINITY, 0);
    assert_true(cj_item(cj_logsumexp(edge)) == INFINITY);
}

/* Gradient of a 50-layer tanh-free linear net with respect to its input: the product of the weights. */
static double gradient_through(double scale)
{
    enum { LAYERS = 50, WIDTH = 32 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(randn(CJ_SHAPE(1, WIDTH), CJ_F32)), *h = x, *g;
    for (int i = 0; i < LAYERS; i++) h = cj_matmul(h, cj_mul_scalar(randn(CJ_SHAPE(WIDTH, WIDTH), CJ_F32), scale / sqrt(WIDTH)));
    assert_true(cj_grad(cj_sum(h), &x, 1, &g));
    double norm = cj_item(cj_max(cj_abs(g)));
    cj_scope_close(s);
    return norm;
}

/* tensor.precision_demo */
static void tensor_precision_demo(void **state)
{
    (void)state;
    assert_true(gradient_through(0.1) == 0); /* underflow: exactly 0 */
    double big = gradient_through(10);
    assert_true(isinf(big) || isnan(big) || big > 1e30);
    assert_true(!isfinite(gradient_through(30))); /* overflow */
    double right = gradient_through(1);
    assert_true(isfinite(right) && right > 1e-6 && right < 1e6);
    /* the likelihood of 1000 observations */
    cj_tensor *p = cj_uniform(c, 0.1, 0.9, CJ_SHAPE(1000));
    assert_true(cj_item(cj_prod(p)) == 0);
    double log_sum = cj_item(cj_sum(cj_log(p)));
    assert_true(isfinite(log_sum) && log_sum < -300 && log_sum > -2000);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = { T(tensor_core), T(tensor_image_layout), T(tensor_products), T(tensor_stable),
                                        T(tensor_precision_demo) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
