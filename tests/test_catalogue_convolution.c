/* Catalogue rows of convolution: its algebra, its matrices, its derivatives, its symmetries; what layers count and see. */
#include "support.h"

TEST_CONTEXT(.seed = 41);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_ok(c);
    assert_near(distance(a, b), 0, tolerance);
}
static cj_tensor *rolled(cj_tensor *x, int axis, int64_t by)
{
    const int64_t n = cj_size(x, axis);
    by = (by % n + n) % n;
    if (!by) return x;
    return cj_cat(CJ_TENSORS(cj_slice(x, axis, n - by, CJ_END, 1), cj_slice(x, axis, 0, n - by, 1)), 2, axis);
}
static cj_tensor *turned(cj_tensor *w) /* by half a turn: both last axes backwards */
{
    return cj_contiguous(cj_slice(cj_slice(w, -1, CJ_END, CJ_END, -1), -2, CJ_END, CJ_END, -1));
}
/* One channel, two axes, every overlap: sliding, and the true convolution, whose kernel is turned round. */
static cj_tensor *slide(cj_tensor *x, cj_tensor *w)
{
    return cj_squeeze(
        cj_squeeze(cj_conv(cj_unsqueeze(cj_unsqueeze(x, 0), 0), cj_unsqueeze(cj_unsqueeze(w, 0), 0), NULL, .border = CJ_FULL), 0), 0);
}
static cj_tensor *convolve(cj_tensor *x, cj_tensor *w) { return slide(x, turned(w)); }
static int64_t count(cj_module *m) { return cj_params_numel(cj_module_params(m)); }

static void conv_image_tensor(void **state) /* conv.image-tensor */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const cj_shape shapes[] = { CJ_SHAPE(4, 5), CJ_SHAPE(3, 4, 5), CJ_SHAPE(2, 3, 4, 5), CJ_SHAPE(3, 2, 4, 5), CJ_SHAPE(2, 3, 2, 4, 5) };
    for (int i = 0; i < 5; i++) { /* grey, colour, video, volume, a batch of volumes */
        cj_tensor *x = cj_randn(c, shapes[i]), *flat = cj_flatten(x, 0);
        assert_int_equal(cj_ndim(flat), 1);
        assert_true(same_bits(x, cj_reshape(flat, shapes[i])));
    }
    assert_int_equal(cj_numel(cj_zeros(c, CJ_SHAPE(3, 1024, 1024), CJ_U8)), 3145728);
    cj_tensor *image = normal(CJ_SHAPE(1, 3, 6, 7));
    for (int k = 0; k < 2; k++)
        same(cj_interpolate(image, .size = CJ_SHAPE(6, 7), .mode = CJ_INTERP_LINEAR, .align_corners = k), image, 1e-15);
    /* a ramp 2h - 3w + 1 on 5x4 pixels brought to 9x7: steps half as long, still a ramp */
    double ramp[20], longer[63];
    for (int h = 0; h < 5; h++)
        for (int w = 0; w < 4; w++) ramp[h * 4 + w] = 2 * h - 3 * w + 1;
    for (int h = 0; h < 9; h++)
        for (int w = 0; w < 7; w++) longer[h * 7 + w] = h - 1.5 * w + 1;
    same(cj_interpolate(f64(c, ramp, CJ_SHAPE(1, 1, 5, 4)), .size = CJ_SHAPE(9, 7), .mode = CJ_INTERP_LINEAR, .align_corners = true),
         f64(c, longer, CJ_SHAPE(1, 1, 9, 7)), 1e-13);
    cj_scope_close(s);
}

static void conv_integral_operator(void **state) /* conv.integral-operator */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 12, K = 5 };
    double h[2 * N - 1], matrix[N * N], circle[N * N], f[N], wave[2 * N * N], direct[N] = { 0 }, around[N] = { 0 };
    cj_to_f64(normal(CJ_SHAPE(2 * N - 1)), h, 2 * N - 1);
    cj_to_f64(normal(CJ_SHAPE(N)), f, N);
    for (int u = 0; u < N; u++)
        for (int t = 0; t < N; t++) {
            matrix[u * N + t] = h[u - t + N - 1];
            circle[u * N + t] = h[((u - t) % N + N) % N];
            wave[2 * (u * N + t)] = cos(2 * M_PI * u * t / N);
            wave[2 * (u * N + t) + 1] = -sin(2 * M_PI * u * t / N);
            direct[u] += h[u - t + N - 1] * f[t];
            around[u] += h[((u - t) % N + N) % N] * f[t];
        }
    cj_tensor *x = f64(c, f, CJ_SHAPE(N)), *kernel = f64(c, h, CJ_SHAPE(2 * N - 1));
    cj_tensor *column = cj_slice(kernel, 0, N - 1, CJ_END, 1), *row = cj_contiguous(cj_slice(kernel, 0, N - 1, CJ_END, -1));
    same(cj_toeplitz(column, row), f64(c, matrix, CJ_SHAPE(N, N)), 0);
    same(cj_matmul(cj_toeplitz(column, row), x), f64(c, direct, CJ_SHAPE(N)), 1e-12);
    cj_tensor *full = cj_flatten(slide(cj_unsqueeze(x, 0), turned(cj_unsqueeze(kernel, 0))), 0); /* the middle of h * f */
    same(cj_slice(full, 0, N - 1, 2 * N - 1, 1), f64(c, direct, CJ_SHAPE(N)), 1e-12);
    cj_tensor *first = cj_slice(kernel, 0, 0, N, 1);
    same(cj_circulant(first), f64(c, circle, CJ_SHAPE(N, N)), 0);
    same(cj_circulant_product(first, x), f64(c, around, CJ_SHAPE(N)), 1e-12);
    cj_tensor *fourier = f64(c, wave, CJ_SHAPE(N, N, 2)); /* e^(-2 pi i u t / N) */
    cj_tensor *spectrum = cj_stack(CJ_TENSORS(cj_matmul(cj_real(fourier), x), cj_matmul(cj_imag(fourier), x)), 2, -1);
    same(spectrum, cj_fft(cj_complex(x, NULL)), 1e-12);
    cj_scope_close(s);
}

static void conv_algebra(void **state) /* conv.algebra */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int i = 1; i < 7; i++)
        for (int rows = 1; rows <= 3; rows += 2) { /* one row: the case of one axis */
            cj_tensor *f = normal(CJ_SHAPE(rows, 4 + i)), *g = normal(CJ_SHAPE(rows, i)), *h = normal(CJ_SHAPE(rows, 3)),
                      *k = normal(CJ_SHAPE(rows, 4 + i));
            same(convolve(f, g), convolve(g, f), 1e-12);
            same(convolve(convolve(f, g), h), convolve(f, convolve(g, h)), 1e-12);
            same(convolve(cj_add(f, k), g), cj_add(convolve(f, g), convolve(k, g)), 1e-12);
            same(convolve(cj_mul_scalar(f, -1.7), g), cj_mul_scalar(convolve(f, g), -1.7), 1e-12);
        }
    cj_tensor *x = F64(c, CJ_SHAPE(1, 2), 1, 2), *w = F64(c, CJ_SHAPE(1, 2), 1, 0);
    same(slide(x, w), F64(c, CJ_SHAPE(1, 3), 0, 1, 2), 0); /* sliding does not commute */
    same(slide(w, x), F64(c, CJ_SHAPE(1, 3), 2, 1, 0), 0);
    cj_scope_close(s);
}

static cj_tensor *line(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_conv(in[0], in[1], in[2], .padding = 2, .stride = 2, .dilation = 2);
}

static void conv_1d_layer(void **state) /* conv.1d-layer */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_int_equal(count(cj_conv_layer(c, 15, 15, CJ_SHAPE(3))), 690);
    same(cj_conv(F64(c, CJ_SHAPE(1, 1, 4), 1, 10, 100, 1000), F64(c, CJ_SHAPE(1, 1, 3), 2, 3, 5), NULL, .padding = 1),
         F64(c, CJ_SHAPE(1, 1, 4), 3 + 50, 2 + 30 + 500, 20 + 300 + 5000, 200 + 3000), 0);
    cj_tensor *x = normal(CJ_SHAPE(1, 2, 9)), *w = normal(CJ_SHAPE(3, 2, 3)), *b = normal(CJ_SHAPE(3)), *in[] = { x, w, b };
    cj_gradcheck_result r = cj_gradcheck(c, line, NULL, in, 3);
    if (!r.ok) fail_msg("%s", r.what);
    /* z_(o,i) = b_o + sum_c sum_k w x_(c, i·S + (k - 2)·D), k from 1 */
    double *X = values_of(x), *W = values_of(w), *B = values_of(b), z[15];
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < 5; i++) {
            z[o * 5 + i] = B[o];
            for (int ch = 0; ch < 2; ch++)
                for (int k = 1; k <= 3; k++) {
                    int at = i * 2 + (k - 2) * 2;
                    if (at >= 0 && at < 9) z[o * 5 + i] += W[(o * 2 + ch) * 3 + k - 1] * X[ch * 9 + at];
                }
        }
    free(X), free(W), free(B);
    same(line(c, NULL, in, 3), f64(c, z, CJ_SHAPE(1, 3, 5)), 1e-13);
    cj_tensor *signal = normal(CJ_SHAPE(8)), *k = normal(CJ_SHAPE(3)); /* the matrix with w_2 on the diagonal */
    cj_tensor *column = cj_cat(CJ_TENSORS(cj_slice(k, 0, 1, 2, 1), cj_slice(k, 0, 0, 1, 1), cj_zeros(c, CJ_SHAPE(6), CJ_F64)), 3, 0),
              *row = cj_cat(CJ_TENSORS(cj_slice(k, 0, 1, 3, 1), cj_zeros(c, CJ_SHAPE(6), CJ_F64)), 2, 0);
    same(cj_flatten(cj_conv(cj_reshape(signal, CJ_SHAPE(1, 1, 8)), cj_reshape(k, CJ_SHAPE(1, 1, 3)), NULL, .padding = 1), 0),
         cj_matmul(cj_toeplitz(column, row), signal), 1e-13);
    cj_scope_close(s);
}

static void conv_ex31(void **state) /* conv.ex31 */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F64(c, CJ_SHAPE(1, 3, 4, 4), 2, 1, 0, 0, 0, 0, 2, 1, 0, 2, 0, 1, 2, 1, 0, 1, /* X0 */
                       2, 2, 0, 0, 0, 0, 2, 1, 0, 0, 2, 0, 0, 1, 0, 1,                          /* X1 */
                       2, 1, 0, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 1, 0, 1);                         /* X2 */
    cj_tensor *w = F64(c, CJ_SHAPE(1, 3, 3, 3), 1, 0, 0, 0, -2, 0, 0, 0, -1, 1, 2, 0, 2, 0, -1, 0, -1, 1, 0, 0, -2, 0, 1, 2, -2, 2, 0);
    cj_tensor *y = cj_relu(cj_conv(x, w, F64(c, CJ_SHAPE(1), 2), .padding = 1));
    same(y, F64(c, CJ_SHAPE(1, 1, 4, 4), 0, 5, 8, 0, 6, 10, 1, 5, 4, 0, 2, 11, 0, 1, 11, 3), 0);
    same(cj_max_pool(y, .kernel = 2).value, F64(c, CJ_SHAPE(1, 1, 2, 2), 10, 8, 4, 11), 0);
    same(cj_avg_pool(y, .kernel = 2), F64(c, CJ_SHAPE(1, 1, 2, 2), 21. / 4, 7. / 2, 5. / 4, 27. / 4), 0);
    cj_tensor *last = cj_conv(cj_slice(x, 1, 2, 3, 1), cj_slice(w, 1, 2, 3, 1), NULL, .padding = 1);
    assert_near(value_at(last, 1 * 4 + 3), 1, 0);
    cj_scope_close(s);
}

static void conv_local(void **state) /* conv.local */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { M = 7, N = 6, P = 3, Q = 2, C = 2, K = 4 };
    cj_module *local = cj_locally_connected_layer(c, C, K, CJ_SHAPE(M, N), CJ_SHAPE(P, Q), .no_bias = true);
    assert_int_equal(count(local), P * Q * C * K * (M - P + 1) * (N - Q + 1));
    assert_int_equal(count(cj_locally_connected_layer(c, 1, 1000, CJ_SHAPE(5, 5), CJ_SHAPE(5, 5))), 25000 + 1000);
    /* all positions alike: the convolution; its gradient is the sum over positions */
    cj_tensor *x = normal(CJ_SHAPE(2, C, M, N)), *w = normal(CJ_SHAPE(K, C, P, Q)), *b = normal(CJ_SHAPE(K));
    cj_tensor *each = cj_expand(cj_reshape(w, CJ_SHAPE(K, C, 1, 1, P, Q)), CJ_SHAPE(K, C, M - P + 1, N - Q + 1, P, Q));
    cj_tensor *own = cj_require_grad(cj_contiguous(each)), *shared = cj_require_grad(w), *g_own, *g_shared;
    cj_tensor *y = cj_locally_connected(x, own, b), *z = cj_conv(x, shared, b), *seed = normal(cj_shape_of(z));
    same(y, z, 1e-13);
    assert_true(cj_grad(y, &own, 1, &g_own, .seed = seed) && cj_grad(z, &shared, 1, &g_shared, .seed = seed));
    same(cj_sum(g_own, .axes = CJ_AXES(2, 3)), g_shared, 1e-12);
    /* the layer, also with one axis, stride, padding and mode */
    cj_module *strided =
        cj_locally_connected_layer(c, 3, 5, CJ_SHAPE(8), CJ_SHAPE(3), .conv = { .stride = 2, .padding = 1, .mode = CJ_PAD_CYCLIC });
    cj_tensor *in = cj_randn(c, CJ_SHAPE(2, 3, 8)), *out = cj_forward(strided, in);
    cj_tensor *weight = cj_params_find(cj_module_params(strided), "weight"), *bias = cj_params_find(cj_module_params(strided), "bias");
    assert_int_equal(cj_size(weight, 2), 4);
    for (int n = 0; n < 2; n++)
        for (int o = 0; o < 5; o++)
            for (int p = 0; p < 4; p++) {
                double sum = value_at(bias, o);
                for (int ch = 0; ch < 3; ch++)
                    for (int k = 0; k < 3; k++)
                        sum += value_at(weight, ((o * 3 + ch) * 4 + p) * 3 + k) * value_at(in, (n * 3 + ch) * 8 + (2 * p + k - 1 + 8) % 8);
                assert_near(value_at(out, (n * 5 + o) * 4 + p), sum, 1e-5);
            }
    assert_refused(CJ_ESHAPE, "a kernel of 9 with stride 1 on 8 padded positions",
                   cj_locally_connected_layer(c, 1, 1, CJ_SHAPE(8), CJ_SHAPE(9)));
    assert_refused(CJ_EVALUE, "neither groups nor border nor dilation",
                   cj_locally_connected_layer(c, 2, 2, CJ_SHAPE(8), CJ_SHAPE(3), .conv = { .groups = 2 }));
    cj_scope_close(s);
}

static void conv_grouped(void **state) /* conv.grouped */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int64_t groups = 1; groups <= 4; groups *= 2) {
        const int64_t in = 4, out = 8, each = in / groups, k = 3;
        cj_tensor *x = normal(CJ_SHAPE(2, in, 6, 5)), *w = normal(CJ_SHAPE(out, each, k, k)), *rows[4];
        for (int64_t g = 0; g < groups; g++) /* blocks on the diagonal of a full kernel */
            rows[g] = cj_pad(cj_slice(w, 0, g * out / groups, (g + 1) * out / groups, 1), CJ_SHAPE(g * each, 0, 0),
                             CJ_SHAPE(in - (g + 1) * each, 0, 0));
        same(cj_conv(x, w, NULL, .groups = groups), cj_conv(x, cj_cat(rows, (int)groups, 0), NULL), 1e-13);
        assert_int_equal(count(cj_conv_layer(c, in, out, CJ_SHAPE(k, k), .conv = { .groups = groups })), (1 + in / groups * k * k) * out);
    }
    cj_module *separable = cj_separable_conv_layer(c, 4, 6, CJ_SHAPE(3, 3));
    cj_tensor *image = cj_randn(c, CJ_SHAPE(1, 4, 5, 5));
    cj_params *p = cj_module_params(separable);
    same(cj_forward(separable, image),
         cj_conv(cj_conv(image, cj_params_find(p, "depthwise.weight"), cj_params_find(p, "depthwise.bias"), .groups = 4),
                 cj_params_find(p, "pointwise.weight"), cj_params_find(p, "pointwise.bias")),
         0);
    /* AlexNet on two devices: convolutions 2, 4 and 5 see half of the channels */
    int64_t total =
        count(cj_conv_layer(c, 3, 96, CJ_SHAPE(11, 11))) + count(cj_conv_layer(c, 96, 256, CJ_SHAPE(5, 5), .conv = { .groups = 2 })) +
        count(cj_conv_layer(c, 256, 384, CJ_SHAPE(3, 3))) + count(cj_conv_layer(c, 384, 384, CJ_SHAPE(3, 3), .conv = { .groups = 2 })) +
        count(cj_conv_layer(c, 384, 256, CJ_SHAPE(3, 3), .conv = { .groups = 2 })) + count(cj_linear(c, 4096, 1000));
    total += (9216 + 1) * 4096 + (4096 + 1) * 4096; /* the two large layers, not allocated here */
    assert_int_equal(total, 60965224);
    cj_scope_close(s);
}

static void conv_svd_separable_and_factorised(void **state) /* conv.svd-separable, conv.factorised */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *image = normal(CJ_SHAPE(1, 1, 11, 12)), *kernel = normal(CJ_SHAPE(5, 4));
    cj_svd_result f = cj_svd(kernel);
    double *sigma = values_of(f.s);
    cj_tensor *sum = NULL, *kept = cj_zeros(c, CJ_SHAPE(5, 4), CJ_F64);
    for (int i = 0; i < 4; i++) {
        cj_tensor *u = cj_mul_scalar(cj_select(f.u, 1, i), sigma[i]), *v = cj_select(f.vh, 0, i);
        cj_tensor *passes = cj_conv(cj_conv(image, cj_reshape(u, CJ_SHAPE(1, 1, 5, 1)), NULL), cj_reshape(v, CJ_SHAPE(1, 1, 1, 4)), NULL);
        sum = sum ? cj_add(sum, passes) : passes;
        kept = cj_add(kept, cj_outer(u, v));
        double rest = 0;
        for (int j = i + 1; j < 4; j++) rest += sigma[j] * sigma[j];
        assert_near(cj_item(cj_norm(cj_sub(kernel, kept), 2)), sqrt(rest), 1e-12);
    }
    free(sigma);
    same(sum, cj_conv(image, cj_reshape(kernel, CJ_SHAPE(1, 1, 5, 4)), NULL), 1e-12);
    cj_tensor *examples[] = { F64(c, CJ_SHAPE(3, 3), 3, 6, 9, 4, 8, 12, 5, 10, 15), F64(c, CJ_SHAPE(3, 3), 1, 0, -1, 2, 0, -2, 1, 0, -1) };
    for (int i = 0; i < 2; i++) assert_int_equal((int64_t)cj_item(cj_matrix_rank(examples[i])), 1);
    assert_int_equal((int64_t)cj_item(cj_matrix_rank(kernel)), 4);
    /* two 3x3 see what a 5x5 sees, with 18 of 25 weights; 1xn and nx1 with 2n of n² */
    int64_t seen[2];
    assert_true(cj_receptive_field((int64_t[]){ 3, 3 }, NULL, NULL, 2, seen));
    assert_int_equal(seen[1], 5);
    cj_module *two =
        cj_sequential(c, cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 3), .no_bias = true), cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 3), .no_bias = true));
    cj_module *cross =
        cj_sequential(c, cj_conv_layer(c, 1, 1, CJ_SHAPE(1, 3), .no_bias = true), cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 1), .no_bias = true));
    assert_int_equal(count(two), 18);
    assert_int_equal(count(cj_conv_layer(c, 1, 1, CJ_SHAPE(5, 5), .no_bias = true)), 25);
    assert_int_equal(count(cross), 6);
    assert_int_equal(count(cj_conv_layer(c, 1, 1, CJ_SHAPE(3, 3), .no_bias = true)), 9);
    cj_params *p = cj_module_params(cross);
    cj_tensor *product = cj_mul(cj_params_at(p, 1), cj_params_at(p, 0)); /* [1, 1, 3, 3] of rank 1 */
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 1, 8, 8));
    same(cj_forward(cross, x), cj_conv(x, product, NULL), 1e-5);
    cj_scope_close(s);
}

static void conv_toeplitz_1d(void **state) /* conv.toeplitz-1d */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *t = cj_toeplitz(F64(c, CJ_SHAPE(5), 1, 1, 2, 0, 0), F64(c, CJ_SHAPE(3), 1, 0, 0));
    same(t, F64(c, CJ_SHAPE(5, 3), 1, 0, 0, 1, 1, 0, 2, 1, 1, 0, 2, 1, 0, 0, 2), 0);
    same(cj_matmul(t, F64(c, CJ_SHAPE(3), 2, -1, 1)), F64(c, CJ_SHAPE(5), 2, 1, 4, -1, 2), 0);
    for (int64_t n = 1; n < 9; n++)
        for (int64_t k = 1; k < 6; k++) {
            cj_tensor *x = normal(CJ_SHAPE(n)), *w = normal(CJ_SHAPE(k)), *y = normal(CJ_SHAPE(n + k - 1));
            cj_tensor *column = cj_pad(w, CJ_SHAPE(0), CJ_SHAPE(n - 1)),
                      *row = cj_pad(cj_slice(w, 0, 0, 1, 1), CJ_SHAPE(0), CJ_SHAPE(n - 1));
            cj_tensor *matrix = cj_toeplitz(column, row), *kernel = cj_reshape(w, CJ_SHAPE(1, 1, k));
            same(cj_matmul(matrix, x), cj_flatten(convolve(cj_unsqueeze(x, 0), cj_unsqueeze(w, 0)), 0), 1e-13);
            assert_int_equal((int64_t)cj_item(cj_norm(matrix, 0)), n * k); /* of n·m entries */
            /* x -> T·x is the transposed convolution with w; so Tᵀ is the convolution itself */
            same(cj_matmul(matrix, x), cj_flatten(cj_conv_transpose(cj_reshape(x, CJ_SHAPE(1, 1, n)), kernel, NULL), 0), 1e-13);
            same(cj_matmul(cj_t(matrix), y), cj_flatten(cj_conv(cj_reshape(y, CJ_SHAPE(1, 1, n + k - 1)), kernel, NULL), 0), 1e-13);
        }
    cj_scope_close(s);
}

/* Row (o, p, q), column (i, h, w): the weight that joins them, one by one. */
static cj_tensor *big_matrix(const double *w, int in, int out, int H, int W, int k, int stride, int pad, int *P, int *Q)
{
    *P = (H + 2 * pad - k) / stride + 1, *Q = (W + 2 * pad - k) / stride + 1;
    const int64_t rows = (int64_t)out * *P * *Q, cols = (int64_t)in * H * W;
    double *m = calloc((size_t)(rows * cols), sizeof *m);
    for (int o = 0; o < out; o++)
        for (int p = 0; p < *P; p++)
            for (int q = 0; q < *Q; q++)
                for (int i = 0; i < in; i++)
                    for (int a = 0; a < k; a++)
                        for (int b = 0; b < k; b++) {
                            int h = p * stride - pad + a, v = q * stride - pad + b;
                            if (h >= 0 && h < H && v >= 0 && v < W)
                                m[(((int64_t)o * *P + p) * *Q + q) * cols + ((int64_t)i * H + h) * W + v] =
                                    w[((o * in + i) * k + a) * k + b];
                        }
    cj_tensor *t = f64(c, m, CJ_SHAPE(rows, cols));
    free(m);
    return t;
}

static void conv_toeplitz_2d_and_backward(void **state) /* conv.toeplitz-2d, conv.backward */
{
    (void)state;
    enum { IN = 2, OUT = 3, H = 5, W = 6 };
    for (int k = 1; k <= 3; k++)
        for (int stride = 1; stride <= 3; stride++)
            for (int pad = 0; pad < k; pad++) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *x = cj_require_grad(normal(CJ_SHAPE(1, IN, H, W))), *w = cj_require_grad(normal(CJ_SHAPE(OUT, IN, k, k))),
                          *b = cj_require_grad(normal(CJ_SHAPE(OUT)));
                double *values = values_of(w);
                int P, Q;
                cj_tensor *m = big_matrix(values, IN, OUT, H, W, k, stride, pad, &P, &Q);
                free(values);
                cj_tensor *y = cj_conv(x, w, b, .stride = stride, .padding = pad), *g = normal(cj_shape_of(y)), *in[] = { x, w, b }, *d[3];
                same(cj_flatten(cj_conv(cj_detach(x), cj_detach(w), NULL, .stride = stride, .padding = pad), 0),
                     cj_matmul(m, cj_flatten(cj_detach(x), 0)), 1e-12);
                assert_true(cj_grad(y, in, 3, d, .seed = g));
                same(cj_flatten(d[0], 0), cj_matmul(cj_t(m), cj_flatten(g, 0)), 1e-12); /* the transpose of the matrix */
                same(d[2], cj_sum(g, .axes = CJ_AXES(0, 2, 3)), 1e-12);
                /* blocks: one step down in the image is one block down in the matrix, one step right one row down */
                if (stride == 1 && pad == 0 && P > 1 && Q > 1) {
                    cj_tensor *plane = cj_slice(cj_slice(m, 0, 0, P * Q, 1), 1, 0, H * W, 1);
                    same(cj_slice(cj_slice(plane, 0, 0, (P - 1) * Q, 1), 1, 0, (H - 1) * W, 1),
                         cj_slice(cj_slice(plane, 0, Q, P * Q, 1), 1, W, H * W, 1), 0);
                    same(cj_slice(cj_slice(plane, 0, 0, 1, 1), 1, 0, H * W - 1, 1), cj_slice(cj_slice(plane, 0, 1, 2, 1), 1, 1, H * W, 1),
                         0);
                    assert_int_equal((int64_t)cj_item(cj_norm(m, 0)), OUT * IN * k * k * P * Q);
                }
                if (stride == 1) { /* dX: every overlap of dY with the kernel turned; dK_(f,c) = X_c slid over by dY_f */
                    cj_tensor *full = cj_conv(g, cj_transpose(turned(cj_detach(w)), 0, 1), NULL, .padding = k - 1 - pad);
                    same(d[0], full, 1e-12);
                    cj_tensor *each =
                        cj_conv(cj_transpose(cj_detach(x), 0, 1), cj_transpose(g, 0, 1), NULL, .padding = pad); /* [IN, OUT, k, k] */
                    same(d[1], cj_transpose(each, 0, 1), 1e-12);
                }
                /* the Jacobian of one value is exactly zero outside of its window */
                cj_tensor *one, *v = cj_select(cj_flatten(cj_conv(x, w, NULL, .stride = stride, .padding = pad), 0), 0, P * Q - 1);
                assert_true(cj_grad(v, &x, 1, &one));
                double *j = values_of(one);
                for (int i = 0; i < IN * H * W; i++) {
                    int h = i / W % H - ((P - 1) * stride - pad), u = i % W - ((Q - 1) * stride - pad);
                    if (h < 0 || h >= k || u < 0 || u >= k) assert_true(j[i] == 0);
                    else assert_true(j[i] != 0);
                }
                free(j);
                cj_scope_close(s);
            }
    /* f = vᵀ·vec(tanh(x * w)): df/dw = rot(x) * (mat(v)·tanh'(x * w)), without padding; d = 5, q = 3, against differences */
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(5, 5)), *w = normal(CJ_SHAPE(3, 3)), *v = normal(CJ_SHAPE(3, 3));
#define VALID(a, b)                                                                                                                        \
    cj_squeeze(cj_squeeze(cj_conv(cj_reshape(a, CJ_SHAPE(1, 1, 5, 5)), cj_reshape(turned(b), CJ_SHAPE(1, 1, 3, 3)), NULL), 0), 0)
    cj_tensor *z = VALID(x, w), *slope = cj_sub(cj_ones(c, CJ_SHAPE(3, 3), CJ_F64), cj_square(cj_tanh(z)));
    cj_tensor *formula = VALID(turned(x), cj_mul(v, slope));
    double step = 1e-5, *base = values_of(w);
    for (int i = 0; i < 9; i++) {
        double f[2];
        for (int side = 0; side < 2; side++) {
            double moved[9];
            memcpy(moved, base, sizeof moved);
            moved[i] += side ? step : -step;
            f[side] = cj_item(cj_sum(cj_mul(v, cj_tanh(VALID(x, f64(c, moved, CJ_SHAPE(3, 3)))))));
        }
        assert_near((f[1] - f[0]) / (2 * step), value_at(formula, i), 1e-8);
    }
    free(base);
    cj_scope_close(s);
}

static void conv_init(void **state) /* conv.init */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *m = cj_conv_layer(c, 64, 64, CJ_SHAPE(5, 5));
    cj_tensor *w = cj_params_find(cj_module_params(m), "weight");
    cj_init_kaiming_normal_(w, CJ_FAN_IN, 1);
    assert_near(cj_item(cj_var(w)) * 64 * 25, 1, 0.02);
    cj_init_kaiming_normal_(w, CJ_FAN_IN, 0);
    assert_near(cj_item(cj_var(w)) * 64 * 25, 2, 0.04);
    assert_near(cj_item(cj_var(cj_init_kaiming_uniform_(w, CJ_FAN_IN, 1))) * 64 * 25, 1, 0.02);
    assert_true(cj_item(cj_max(cj_abs(w))) <= sqrt(3. / (64 * 25)) + 1e-7);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(8, 128, 10, 10)), *k = cj_keep(cj_zeros(c, CJ_SHAPE(128, 128, 3, 3), CJ_F32));
    for (int layer = 0; layer < 10; layer++) { /* no border at all: every pixel is an interior one */
        cj_init_kaiming_normal_(k, CJ_FAN_IN, 1);
        x = cj_conv(x, k, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC);
        assert_near(cj_item(cj_mean(cj_square(x))), 1, layer ? 0.15 : 0.05);
    }
    cj_release(k);
    cj_scope_close(s);
}

static void conv_count(void **state) /* conv.count */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const int64_t m = 9, n = 8, ch = 2, p = 3, q = 2, K = 5, places = (m - p + 1) * (n - q + 1);
    assert_int_equal(count(cj_conv_layer(c, ch, K, CJ_SHAPE(p, q))), K * p * q * ch + K);
    assert_int_equal(count(cj_locally_connected_layer(c, ch, K, CJ_SHAPE(m, n), CJ_SHAPE(p, q), .no_bias = true)), p * q * ch * K * places);
    assert_int_equal(count(cj_linear(c, m * n * ch, places * K, .no_bias = true)), m * n * ch * places * K);
    assert_int_equal(count(cj_conv_layer(c, 10, 25, CJ_SHAPE(5, 5))), 6275);
    cj_module *grey = cj_linear(c, 100 * 100, 1000, .no_bias = true);
    assert_int_equal(count(grey), 10000000);
    cj_module_row row;
    assert_int_equal(cj_module_describe(grey, CJ_SHAPE(1, 10000), &row, 1), 1);
    assert_int_equal(row.params, 10000000);
    assert_int_equal(row.bytes, 40000000);                 /* four bytes each */
    const int64_t large = INT64_C(3) * 1024 * 1024 * 1000; /* not allocated */
    assert_int_equal(large, 3145728000);
    assert_near((double)large * (double)cj_dtype_size(CJ_F32) / 1e9, 12.58, 0.005);
    cj_scope_close(s);
}

static cj_tensor *shift(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return rolled(in[0], -1 + cj_ndim(in[0]), *(const int *)user);
}
static cj_tensor *run(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_forward(user, in[0]);
}

static void conv_equivariance(void **state) /* conv.equivariance */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 2, 12, 12)), *signal = cj_randn(c, CJ_SHAPE(2, 2, 12));
    cj_conv_layer_opts around = { .conv = { .padding = 1, .mode = CJ_PAD_CYCLIC } };
    cj_module *stack = cj_sequential(c, (cj_conv_layer)(c, 2, 4, CJ_SHAPE(3, 3), &around), cj_relu_layer(c),
                                     (cj_conv_layer)(c, 4, 3, CJ_SHAPE(3, 3), &around));
    cj_module *one = (cj_conv_layer)(c, 2, 3, CJ_SHAPE(3), &around);
    cj_module *coarse = cj_conv_layer(c, 2, 3, CJ_SHAPE(3, 3), .conv = { .padding = 1, .mode = CJ_PAD_CYCLIC, .stride = 2 });
    cj_module *dense = cj_linear(c, 12, 12);
    for (int by = 1; by <= 5; by++) {
        assert_near(cj_symmetry_error(c, run, stack, x, shift, shift, &by), 0, 1e-6);
        assert_near(cj_symmetry_error(c, run, one, signal, shift, shift, &by), 0, 1e-6);
        assert_true(cj_symmetry_error(c, run, dense, signal, shift, shift, &by) > 0.1);
        cj_tensor *moved = cj_forward(coarse, rolled(x, 3, by)), *after = rolled(cj_forward(coarse, x), 3, by / 2);
        if (by % 2 == 0) same(moved, after, 1e-6);
        else assert_true(distance(moved, after) > 0.1);
    }
    /* every overlap: a signal between zeros, moved by 2; and zeros as border, away from it */
    cj_tensor *f = normal(CJ_SHAPE(1, 1, 6)), *w = normal(CJ_SHAPE(1, 1, 3));
    same(cj_pad(cj_conv(f, w, NULL, .border = CJ_FULL), CJ_SHAPE(2), CJ_SHAPE(1)),
         cj_conv(cj_pad(f, CJ_SHAPE(2), CJ_SHAPE(1)), w, NULL, .border = CJ_FULL), 1e-14);
    cj_tensor *wide = normal(CJ_SHAPE(1, 1, 12)), *here = cj_conv(wide, w, NULL, .padding = 1),
              *there = cj_conv(rolled(wide, 2, 1), w, NULL, .padding = 1);
    same(cj_slice(rolled(here, 2, 1), 2, 2, 11, 1), cj_slice(there, 2, 2, 11, 1), 1e-14);
    assert_true(distance(rolled(here, 2, 1), there) > 1e-3); /* not at the border */
    cj_scope_close(s);
}

static void conv_shift_theorem(void **state) /* conv.shift-theorem */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 9 };
    cj_tensor *a = normal(CJ_SHAPE(N, N)), *mean = cj_zeros(c, CJ_SHAPE(N, N), CJ_F64), *x = normal(CJ_SHAPE(N)),
              *impulse = cj_one_hot(cj_full(c, 0, CJ_SCALAR, CJ_I64), N);
    for (int k = 0; k < N; k++) mean = cj_add(mean, cj_mul_scalar(rolled(rolled(a, 0, k), 1, k), 1. / N)); /* over all shifts */
    cj_tensor *h = cj_matmul(mean, cj_cast(impulse, CJ_F64)); /* what comes out when a single 1 goes in */
    same(mean, cj_circulant(h), 1e-12);
    same(cj_matmul(mean, x), cj_circulant_product(h, x), 1e-12);
    cj_tensor *kernel =
        cj_reshape(turned(cj_reshape(h, CJ_SHAPE(1, N))), CJ_SHAPE(1, 1, N)); /* and as a convolution with a cyclic border */
    cj_tensor *y = cj_conv(cj_pad(cj_reshape(x, CJ_SHAPE(1, 1, N)), CJ_SHAPE(N - 1), CJ_SHAPE(0), .mode = CJ_PAD_CYCLIC), kernel, NULL);
    same(cj_matmul(mean, x), cj_flatten(y, 0), 1e-12);
    assert_true(distance(cj_matmul(a, x), cj_circulant_product(cj_matmul(a, cj_cast(impulse, CJ_F64)), x)) > 0.1);
    cj_scope_close(s);
}

static cj_tensor *turn(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_contiguous(cj_slice(cj_transpose(in[0], 2, 3), 2, CJ_END, CJ_END, -1));
}
static cj_tensor *swap_tokens(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    return cj_index_select(in[0], 1, cj_from_i64(ctx, user, CJ_SHAPE(5)));
}
static cj_tensor *attend(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_multihead_forward(user, in[0], in[0], in[0]);
}
static cj_tensor *attend_causally(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_multihead_forward(user, in[0], in[0], in[0], .causal = true);
}

static void conv_property_tests(void **state) /* conv.property-tests */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    int by = 3;
    cj_tensor *image = cj_randn(c, CJ_SHAPE(2, 2, 8, 8)), *tokens = cj_randn(c, CJ_SHAPE(2, 5, 8));
    cj_module *conv = cj_conv_layer(c, 2, 3, CJ_SHAPE(3, 3), .conv = { .padding = 1, .mode = CJ_PAD_CYCLIC }),
              *pool = cj_global_avg_pool_layer(c);
    assert_near(cj_symmetry_error(c, run, conv, image, shift, shift, &by), 0, 1e-6); /* equivariant, not invariant */
    assert_true(cj_symmetry_error(c, run, conv, image, shift, NULL, &by) > 0.1);
    assert_near(cj_symmetry_error(c, run, pool, image, shift, NULL, &by), 0, 1e-6);
    assert_near(cj_symmetry_error(c, run, pool, image, turn, NULL, NULL), 0, 1e-6);
    assert_true(cj_symmetry_error(c, run, conv, image, turn, turn, NULL) > 0.1); /* a kernel that is not symmetric */
    cj_module *flat = cj_sequential(c, cj_conv_layer(c, 2, 3, CJ_SHAPE(3, 3), .conv = { .padding = 1 })); /* zeros beyond the border */
    assert_true(cj_symmetry_error(c, run, flat, image, shift, shift, &by) > 1e-3);
    cj_module *attention = cj_multihead_attention(c, 8, 2), *positions = cj_sequential(c, cj_sinusoidal_layer(c, 8), cj_linear(c, 8, 8));
    int64_t order[] = { 3, 0, 4, 1, 2 };
    assert_near(cj_symmetry_error(c, attend, attention, tokens, swap_tokens, swap_tokens, order), 0, 1e-5);
    assert_true(cj_symmetry_error(c, run, positions, tokens, swap_tokens, swap_tokens, order) > 0.1);
    assert_near(cj_causality_error(c, attend_causally, attention, tokens, 1), 0, 0);
    assert_true(cj_causality_error(c, attend, attention, tokens, 1) > 1e-3);
    assert_ok(c);
    assert_refused(CJ_EINDEX, "causality_error: axis 3 of [2, 5, 8]", cj_causality_error(c, attend, attention, tokens, 3));
    assert_refused(CJ_EVALUE, "symmetry_error: the function or its symmetry is NULL",
                   cj_symmetry_error(c, NULL, NULL, tokens, shift, NULL, &by));
    cj_scope_close(s);
}

static void conv_star_detector(void **state) /* conv.star-detector */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const double star[25] = { 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0 }; /* 13 pixels */
    enum { N = 12 };
    cj_module *detector =
        cj_sequential(c, cj_conv_layer(c, 1, 1, CJ_SHAPE(5, 5), .no_bias = true, .conv = { .padding = 2 }), cj_global_max_pool_layer(c));
    bool grad = cj_no_grad(c);
    cj_assign_(cj_params_at(cj_module_params(detector), 0), f64(c, star, CJ_SHAPE(1, 1, 5, 5)));
    cj_grad_mode(c, grad);
    const double threshold = 12.5;
    for (int top = 0; top + 5 <= N; top++)
        for (int left = 0; left + 5 <= N; left++) {
            cj_scope inner = cj_scope_open(c);
            cj_tensor *x = cj_pad(f64(c, star, CJ_SHAPE(1, 1, 5, 5)), CJ_SHAPE(top, left), CJ_SHAPE(N - 5 - top, N - 5 - left));
            double score = cj_item(cj_forward(detector, cj_cast(x, CJ_F32)));
            assert_true(score == 13 && score >= threshold); /* the same wherever it stands */
            cj_scope_close(inner);
        }
    const double cross[25] = {
        0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0
    }; /* 9 pixels, all of them in the star */
    cj_tensor *other = cj_pad(f64(c, cross, CJ_SHAPE(1, 1, 5, 5)), CJ_SHAPE(3, 4), CJ_SHAPE(4, 3));
    assert_true(cj_item(cj_forward(detector, cj_cast(other, CJ_F32))) < threshold);
    assert_true(cj_item(cj_forward(detector, cj_zeros(c, CJ_SHAPE(1, 1, N, N), CJ_F32))) < threshold);
    cj_scope_close(s);
}

static void rf_calculator_and_empirical(void **state) /* rf.calculator, rf.empirical */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    int64_t size[32];
    assert_true(cj_receptive_field((int64_t[]){ 3, 3, 3, 3, 3 }, NULL, NULL, 5, size));
    for (int i = 0; i < 5; i++) assert_int_equal(size[i], 3 + 2 * i);
    assert_true(cj_receptive_field((int64_t[]){ 5, 2, 5, 2, 5 }, (int64_t[]){ 1, 2, 1, 2, 1 }, NULL, 5, size)); /* LeNet-5 */
    const int64_t lenet[] = { 5, 6, 14, 16, 32 };
    for (int i = 0; i < 5; i++) assert_int_equal(size[i], lenet[i]);
    int64_t kernel[18], stride[18];
    const int stage[] = { 2, 2, 3, 3, 3 };
    int n = 0;
    for (int i = 0; i < 5; i++) { /* VGG-16: 3x3 convolutions, and a 2x2 pooling after each stage */
        for (int k = 0; k < stage[i]; k++) kernel[n] = 3, stride[n++] = 1;
        kernel[n] = 2, stride[n++] = 2;
    }
    assert_true(cj_receptive_field(kernel, stride, NULL, n, size));
    assert_int_equal(size[n - 1], 212);
    assert_false(cj_receptive_field((int64_t[]){ 0 }, NULL, NULL, 1, size));
    /* random stacks of convolution and pooling: where the derivative of a middle value with positive weights is not 0 */
    srand(7);
    for (int trial = 0; trial < 12; trial++) {
        cj_scope inner = cj_scope_open(c);
        enum { LAYERS = 4, WIDE = 151 };
        int64_t k[LAYERS], st[LAYERS], d[LAYERS];
        cj_module *part[LAYERS + 1] = { NULL };
        for (int l = 0; l < LAYERS; l++) {
            bool pool = rand() % 3 == 0;
            k[l] = 1 + rand() % 3, st[l] = 1 + rand() % 2, d[l] = pool ? 1 : 1 + rand() % 2;
            part[l] = pool ? cj_avg_pool_layer(c, .kernel = k[l], .stride = st[l])
                           : cj_conv_layer(c, 1, 1, CJ_SHAPE(k[l]), .conv = { .stride = st[l], .dilation = d[l] }, .no_bias = true);
            if (!pool) cj_init_constant_(cj_params_at(cj_module_params(part[l]), 0), 1);
        }
        cj_module *net = (cj_sequential)(c, part);
        cj_tensor *x = cj_require_grad(cj_ones(c, CJ_SHAPE(1, 1, WIDE), CJ_F32)), *y = cj_forward(net, x), *g;
        assert_true(cj_grad(cj_select(cj_flatten(y, 0), 0, cj_size(y, 2) / 2), &x, 1, &g));
        double *v = values_of(g);
        int from = WIDE, to = -1;
        for (int i = 0; i < WIDE; i++)
            if (v[i] != 0) from = i < from ? i : from, to = i;
        free(v);
        assert_true(cj_receptive_field(k, st, d, LAYERS, size));
        assert_int_equal(to - from + 1, size[LAYERS - 1]);
        cj_module_row row[LAYERS];
        assert_int_equal(cj_module_describe(net, CJ_SHAPE(1, 1, WIDE), row, LAYERS), LAYERS);
        for (int l = 0; l < LAYERS; l++) assert_int_equal(row[l].field[0], size[l]);
        cj_scope_close(inner);
    }
    cj_scope_close(s);
}

static cj_tensor *pooled(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n, (void)user; /* as the layer computes it, in f64, with beta as an input */
    cj_tensor *windows = cj_flatten(cj_unfold(cj_unfold(in[0], 2, 2, 2), 3, 3, 1), 4);
    return cj_sum(cj_mul(cj_softmax(cj_mul(windows, in[1]), -1), windows), .axes = CJ_AXIS(-1));
}

static void pool_softmax(void **state) /* pool.softmax */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 6, 7));
    cj_pool_opts o = { .kernels = CJ_SHAPE(2, 3), .strides = CJ_SHAPE(2, 1) };
    for (int learned = 0; learned < 2; learned++) {
        same(cj_forward((cj_softmax_pool_layer)(c, 0, learned, &o), x), (cj_avg_pool)(x, &o), 1e-6);
        same(cj_forward((cj_softmax_pool_layer)(c, 1e4, learned, &o), x), (cj_max_pool)(x, &o).value, 1e-3);
        same(cj_forward((cj_softmax_pool_layer)(c, -1e4, learned, &o), x), (cj_min_pool)(x, &o).value, 1e-3);
        double *low = values_of((cj_min_pool)(x, &o).value), *high = values_of((cj_max_pool)(x, &o).value);
        double *y = values_of(cj_forward((cj_softmax_pool_layer)(c, 1.5, learned, &o), x));
        for (int i = 0; i < 2 * 3 * 3 * 5; i++) assert_true(y[i] >= low[i] - 1e-6 && y[i] <= high[i] + 1e-6);
        free(low), free(high), free(y);
    }
    cj_module *m = (cj_softmax_pool_layer)(c, 0.7, true, &o);
    cj_tensor *in[] = { normal(CJ_SHAPE(1, 2, 4, 5)), F64(c, CJ_SCALAR, 0.7) };
    same(cj_forward(m, cj_cast(in[0], CJ_F32)), pooled(c, NULL, in, 2), 1e-6);
    cj_gradcheck_result r = cj_gradcheck(c, pooled, NULL, in, 2, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    cj_tensor *beta = cj_params_find(cj_module_params(m), "beta"), *g;
    cj_tensor *leaf = cj_require_grad(in[1]), *exact;
    assert_true(cj_grad(cj_sum(cj_forward(m, cj_cast(in[0], CJ_F32))), &beta, 1, &g));
    assert_true(cj_grad(cj_sum(pooled(c, NULL, CJ_TENSORS(in[0], leaf), 2)), &leaf, 1, &exact));
    assert_near(cj_item(g), cj_item(exact), 1e-5);
    assert_ok(c);
    for (double sharp = -1e4; sharp <= 1e4; sharp += 2e4) { /* what is not there has no weight, whatever the sign of beta */
        cj_pool_opts wide = { .kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true };
        cj_tensor *y = cj_forward((cj_softmax_pool_layer)(c, sharp, true, &wide), x);
        same(y, cj_forward((cj_softmax_pool_layer)(c, sharp, false, &wide), x), 1e-5);
        same(y, sharp > 0 ? (cj_max_pool)(x, &wide).value : (cj_min_pool)(x, &wide).value, 1e-3);
    }
    assert_refused(CJ_EVALUE, "softmax_pool layer: beta inf", cj_softmax_pool_layer(c, INFINITY, false, .kernel = 2));
    cj_scope_close(s);
}

static void pool_shift_test(void **state) /* pool.shift-test */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { K = 4 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(8, 4, 64));                                                     /* on a circle */
#define CHANGE(a, b) (cj_item(cj_mean(cj_square(cj_sub(a, b)))) / cj_item(cj_mul_scalar(cj_var(a), 2))) /* 1: nothing in common */
    for (int by = 1; by <= K; by++) {
        cj_tensor *moved = rolled(x, 2, by);
        double plain = CHANGE(x, moved);
        double most = CHANGE(cj_max_pool(x, .kernel = K, .stride = 1).value, cj_max_pool(moved, .kernel = K, .stride = 1).value);
        double mean = CHANGE(cj_avg_pool(x, .kernel = K, .stride = 1), cj_avg_pool(moved, .kernel = K, .stride = 1));
        if (by < K) {
            assert_true(most > 0.01 && most < plain);
            assert_true(mean > 0.01 && mean < plain);
            assert_near(mean, (double)by / K, 0.12); /* of K values that a window adds up, `by` are other ones */
        }
        same(cj_forward(cj_global_avg_pool_layer(c), moved), cj_forward(cj_global_avg_pool_layer(c), x), 1e-6);
        same(cj_forward(cj_global_max_pool_layer(c), moved), cj_forward(cj_global_max_pool_layer(c), x), 0);
    }
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_image_tensor),
        cmocka_unit_test(conv_integral_operator),
        cmocka_unit_test(conv_algebra),
        cmocka_unit_test(conv_1d_layer),
        cmocka_unit_test(conv_ex31),
        cmocka_unit_test(conv_local),
        cmocka_unit_test(conv_grouped),
        cmocka_unit_test(conv_svd_separable_and_factorised),
        cmocka_unit_test(conv_toeplitz_1d),
        cmocka_unit_test(conv_toeplitz_2d_and_backward),
        cmocka_unit_test(conv_init),
        cmocka_unit_test(conv_count),
        cmocka_unit_test(conv_equivariance),
        cmocka_unit_test(conv_shift_theorem),
        cmocka_unit_test(conv_property_tests),
        cmocka_unit_test(conv_star_detector),
        cmocka_unit_test(rf_calculator_and_empirical),
        cmocka_unit_test(pool_softmax),
        cmocka_unit_test(pool_shift_test),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
