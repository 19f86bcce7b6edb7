/* Resampling against plain loops: interpolation at every mode, size and type, its transpose by the inner product, channels into pixels, grids,
 * regions of interest; rows up.nearest, up.bilinear and det.roi-pool of the catalogue. */
#include "support.h"

static const double tolerance_of[CJ_DTYPES] = { [CJ_F32] = 2e-6, [CJ_F64] = 1e-12, [CJ_BF16] = 0x1p-7, [CJ_F16] = 0x1p-9 };
static const cj_interpolation modes[] = { CJ_INTERP_NEAREST, CJ_INTERP_LINEAR, CJ_INTERP_CUBIC, CJ_INTERP_NEAREST_EXACT };

/* The weight that result i of `out` gives to element k of `in`: written from the definition, without any table. */
static double cubic_kernel(double t)
{
    t = fabs(t);
    return t <= 1 ? 1.25 * t * t * t - 2.25 * t * t + 1 : t < 2 ? -0.75 * (t * t * t - 5 * t * t + 8 * t - 4) : 0;
}
static double weight_of(cj_interpolation mode, bool align, int64_t in, int64_t out, int64_t i, int64_t k)
{
    if (mode == CJ_INTERP_NEAREST) return i * in / out == k;
    if (mode == CJ_INTERP_NEAREST_EXACT) return (2 * i + 1) * in / (2 * out) == k;
    double at = align ? (out > 1 ? (double)(i * (in - 1)) / (double)(out - 1) : 0) : ((double)i + 0.5) * (double)in / (double)out - 0.5,
           sum = 0;
    if (mode == CJ_INTERP_LINEAR) {
        at = fmin(fmax(at, 0), (double)(in - 1));
        return fmax(0, 1 - fabs(at - (double)k));
    }
    for (int64_t tap = (int64_t)floor(at) - 1; tap <= (int64_t)floor(at) + 2; tap++) { /* beyond the border the border counts */
        int64_t place = tap < 0 ? 0 : tap >= in ? in - 1 : tap;
        if (place == k) sum += cubic_kernel(at - (double)tap);
    }
    return sum;
}

typedef struct geometry {
    int nd;
    int64_t planes, in[3], out[3];
} geometry;

static void check_interpolation(cj_ctx *c, geometry g, cj_interpolation mode, bool align, cj_dtype t)
{
    cj_scope s = cj_scope_open(c);
    cj_shape shape = { .ndim = g.nd + 2, .dim = { 1, g.planes } }, size = { .ndim = g.nd };
    int64_t inside = 1, outside = 1;
    for (int d = 0; d < 3; d++) {
        if (d >= 3 - g.nd) shape.dim[d - 1 + g.nd] = g.in[d], size.dim[d - 3 + g.nd] = g.out[d];
        inside *= g.in[d], outside *= g.out[d];
    }
    cj_tensor *x = cj_require_grad(cj_cast(cj_randn(c, shape), t)), *grad;
    cj_tensor *y = cj_interpolate(x, .size = size, .mode = mode, .align_corners = align);
    cj_tensor *seed = cj_cast(cj_randn(c, cj_shape_of(y)), t);
    assert_true(cj_grad(y, &x, 1, &grad, .seed = seed));
    double *v = values_of(x), *u = values_of(y), *w = values_of(seed), *dx = values_of(grad);
    double *want = calloc((size_t)(2 * g.planes * inside), sizeof *want), *sizes = want + g.planes * inside;
    for (int64_t p = 0; p < g.planes; p++)
        for (int64_t q = 0; q < outside; q++) {
            int64_t o[3] = { q / g.out[2] / g.out[1], q / g.out[2] % g.out[1], q % g.out[2] };
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < inside; k++) {
                int64_t e[3] = { k / g.in[2] / g.in[1], k / g.in[2] % g.in[1], k % g.in[2] };
                double weight = 1;
                for (int d = 0; d < 3 && weight != 0; d++)
                    weight *= d < 3 - g.nd ? 1 : weight_of(mode, align, g.in[d], g.out[d], o[d], e[d]);
                sum += weight * v[p * inside + k], magnitude += fabs(weight * v[p * inside + k]);
                want[p * inside + k] += weight * w[p * outside + q], sizes[p * inside + k] += fabs(weight * w[p * outside + q]);
            }
            if (!(fabs(u[p * outside + q] - sum) <= tolerance_of[t] * (magnitude + 1e-3)))
                fail_msg("%s mode %d align %d %ldx%ldx%ld -> %ldx%ldx%ld: element %ld is %.9g, expected %.9g", cj_dtype_name(t), (int)mode,
                         align, (long)g.in[0], (long)g.in[1], (long)g.in[2], (long)g.out[0], (long)g.out[1], (long)g.out[2], (long)q,
                         u[p * outside + q], sum);
        }
    for (int64_t i = 0; i < g.planes * inside; i++)
        if (!(fabs(dx[i] - want[i]) <= tolerance_of[t] * (sizes[i] + 1e-3)))
            fail_msg("%s mode %d align %d: gradient %ld is %.9g, expected %.9g", cj_dtype_name(t), (int)mode, align, (long)i, dx[i],
                     want[i]);
    free(v), free(u), free(w), free(dx), free(want);
    cj_scope_close(s);
}

static void interpolation_by_definition(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 41 });
    const geometry cases[] = {
        { 1, 3, { 1, 1, 5 }, { 1, 1, 11 } }, { 1, 2, { 1, 1, 70 }, { 1, 1, 9 } },   { 1, 1, { 1, 1, 9 }, { 1, 1, 200 } },
        { 2, 2, { 1, 3, 4 }, { 1, 6, 8 } },  { 2, 1, { 1, 7, 19 }, { 1, 15, 40 } }, { 2, 1, { 1, 17, 40 }, { 1, 5, 13 } },
        { 2, 2, { 1, 6, 5 }, { 1, 3, 17 } }, { 2, 1, { 1, 4, 33 }, { 1, 9, 7 } },   { 2, 1, { 1, 1, 1 }, { 1, 4, 5 } },
        { 2, 1, { 1, 5, 4 }, { 1, 1, 1 } },  { 2, 2, { 1, 4, 4 }, { 1, 4, 4 } },    { 3, 1, { 2, 3, 4 }, { 3, 5, 6 } },
        { 3, 2, { 4, 3, 5 }, { 2, 6, 3 } },  { 3, 1, { 3, 5, 4 }, { 7, 2, 9 } },    { 2, 3, { 1, 2, 3 }, { 1, 40, 50 } },
        { 3, 2, { 4, 2, 5 }, { 1, 11, 7 } }, { 3, 1, { 2, 3, 5 }, { 1, 11, 7 } },   { 3, 1, { 1, 3, 5 }, { 3, 5, 7 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t m = 0; m < 4; m++)
            for (int align = 0; align < (m == 1 || m == 2 ? 2 : 1); align++)
                for (int t = CJ_F32; t <= CJ_F16; t++) check_interpolation(c, cases[i], modes[m], align, (cj_dtype)t);
    assert_ok(c);
    cj_ctx_free(c);
}

static void interpolation_at_random_sizes(void **state)
{
    (void)state;
    const uint64_t seed = 77;
    print_message("seed %llu\n", (unsigned long long)seed);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = seed });
    uint64_t r = seed;
    for (int i = 0; i < 120; i++) { /* images, then volumes: lines of several depths are needed at once */
        const int nd = i < 60 ? 2 : 3, most_in = nd == 2 ? 37 : 6, most_out = nd == 2 ? 53 : 14;
        geometry g = { .nd = nd, .planes = 2, .in = { 1, 1, 1 }, .out = { 1, 1, 1 } };
        for (int d = 3 - nd; d < 3; d++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            g.in[d] = 1 + (int64_t)(r >> 40) % most_in, g.out[d] = 1 + (int64_t)(r >> 20 & 0xffff) % most_out;
        }
        check_interpolation(c, g, modes[i % 4], i % 3 == 0 && (i % 4 == 1 || i % 4 == 2), CJ_F32);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* The bits do not depend on threads, also where the output goes past the cache; large planes are cut into bands. */
static void threads_and_bands(void **state)
{
    (void)state;
    const cj_shape shapes[] = { CJ_SHAPE(3, 40, 130, 125), CJ_SHAPE(1, 2, 400, 300), CJ_SHAPE(1, 2, 21, 40, 37) };
    for (size_t i = 0; i < 3; i++)
        for (size_t m = 0; m < 3; m++) {
            if (m == 2 && shapes[i].ndim == 5) continue;
            double *one = NULL;
            for (int threads = 1; threads <= 2; threads++) {
                cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 5 });
                cj_tensor *x = cj_require_grad(cj_randn(c, shapes[i])), *g[1];
                cj_tensor *y = cj_interpolate(x, .scale = 2, .mode = modes[m]);
                assert_true(cj_grad(y, &x, 1, g, .seed = cj_randn(c, cj_shape_of(y))));
                double *v = values_of(g[0]), *u = values_of(y);
                v = realloc(v, (size_t)(cj_numel(x) + cj_numel(y)) * sizeof *v);
                memcpy(v + cj_numel(x), u, (size_t)cj_numel(y) * sizeof *v);
                free(u);
                if (one) assert_memory_equal(one, v, (size_t)(cj_numel(x) + cj_numel(y)) * sizeof *v);
                if (one) free(v);
                else one = v;
                assert_ok(c);
                cj_ctx_free(c);
            }
            free(one);
        }
}

static double at(cj_tensor *t, int64_t i)
{
    double *v = values_of(t), x = v[i];
    free(v);
    return x;
}
static void assert_same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    double *u = values_of(a), *v = values_of(b);
    assert_int_equal(cj_numel(a), cj_numel(b));
    for (int64_t i = 0; i < cj_numel(a); i++) assert_near(u[i], v[i], tolerance);
    free(u), free(v);
}

static cj_tensor *up_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return (cj_interpolate)(in[0], user);
}

/* up.nearest: every value S x S times; sub-sampling and averaging bring x back; the gradient sums blocks, S² times the average. */
static void up_nearest(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3 });
    for (int64_t S = 2; S <= 4; S++) {
        cj_tensor *x = cj_require_grad(cj_randn(c, CJ_SHAPE(2, 3, 4, 5), .dtype = CJ_F64)), *g;
        cj_tensor *y = cj_interpolate(x, .scale = (double)S);
        assert_int_equal(cj_size(y, 2), 4 * S);
        assert_same(cj_slice(cj_slice(y, 2, 0, CJ_END, S), 3, 0, CJ_END, S), x, 0);
        assert_same(cj_avg_pool(y, .kernel = S), x, 1e-15);
        cj_tensor *dy = cj_randn(c, cj_shape_of(y), .dtype = CJ_F64);
        assert_true(cj_grad(y, &x, 1, &g, .seed = dy));
        assert_same(g, cj_mul_scalar(cj_avg_pool(dy, .kernel = S), (double)(S * S)), 1e-13);
        cj_interpolate_opts o = { .scale = (double)S };
        cj_tensor *in[1] = { cj_randn(c, CJ_SHAPE(1, 1, 3, 2), .dtype = CJ_F64) };
        cj_gradcheck_result r = cj_gradcheck(c, up_fn, &o, in, 1, .second_order = true);
        if (!r.ok) fail_msg("%s", r.what);
    }
    const float block[] = { 1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4 };
    cj_tensor *x = cj_from_f32(c, (float[]){ 1, 2, 3, 4 }, CJ_SHAPE(1, 1, 2, 2));
    assert_same(cj_interpolate(x, .scale = 2), cj_from_f32(c, block, CJ_SHAPE(1, 1, 4, 4)), 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* up.bilinear: a plane a + b·x + c·y stays a plane, everywhere with aligned corners, inside with half-pixel centres; weights sum to 1. */
static void up_bilinear(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 4 });
    const int64_t H = 4, W = 5, h = 9, w = 13;
    double plane[20];
    for (int64_t i = 0; i < H; i++)
        for (int64_t j = 0; j < W; j++) plane[i * W + j] = 0.5 + 2.0 * (double)j - 3.0 * (double)i;
    cj_tensor *x = cj_from_f64(c, plane, CJ_SHAPE(1, 1, H, W));
    for (int align = 0; align < 2; align++) {
        cj_tensor *y = cj_interpolate(x, .size = CJ_SHAPE(h, w), .mode = CJ_INTERP_LINEAR, .align_corners = align);
        double *v = values_of(y);
        int inside = 0;
        for (int64_t i = 0; i < h; i++)
            for (int64_t j = 0; j < w; j++) {
                double y_at = align ? (double)i * 3 / 8 : ((double)i + 0.5) * 4 / 9 - 0.5;
                double x_at = align ? (double)j * 4 / 12 : ((double)j + 0.5) * 5 / 13 - 0.5;
                if (y_at < 0 || y_at > 3 || x_at < 0 || x_at > 4) continue;
                assert_near(v[i * w + j], 0.5 + 2 * x_at - 3 * y_at, 1e-13);
                inside++;
            }
        assert_int_equal(inside, align ? h * w : 7 * 11);
        free(v);
        cj_tensor *ones = cj_interpolate(cj_ones(c, CJ_SHAPE(1, 1, H, W), CJ_F64), .size = CJ_SHAPE(h, w), .mode = CJ_INTERP_LINEAR,
                                         .align_corners = align);
        assert_same(ones, cj_ones_like(ones), 1e-15);
        cj_interpolate_opts o = { .size = CJ_SHAPE(5, 4), .mode = CJ_INTERP_LINEAR, .align_corners = align };
        cj_tensor *in[1] = { cj_randn(c, CJ_SHAPE(1, 2, 3, 2), .dtype = CJ_F64) };
        cj_gradcheck_result r = cj_gradcheck(c, up_fn, &o, in, 1, .second_order = true);
        if (!r.ok) fail_msg("%s", r.what);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void channels_and_pixels(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 6 });
    for (int t = CJ_F32; t <= CJ_I64; t++) {
        cj_tensor *x = cj_cast(cj_randint(c, -9, 9, CJ_SHAPE(2, 18, 2, 3)), (cj_dtype)t), *y = cj_pixel_shuffle(x, 3);
        double *u = values_of(x), *v = values_of(y);
        for (int64_t n = 0; n < 2; n++)
            for (int64_t k = 0; k < 2; k++)
                for (int64_t i = 0; i < 6; i++)
                    for (int64_t j = 0; j < 9; j++)
                        assert_near(v[((n * 2 + k) * 6 + i) * 9 + j], u[((n * 18 + k * 9 + i % 3 * 3 + j % 3) * 2 + i / 3) * 3 + j / 3], 0);
        free(u), free(v);
        assert_same(cj_pixel_unshuffle(y, 3), x, 0);
        assert_int_equal(cj_dtype_of(y), t);
    }
    for (int empty = 0; empty < 4; empty++) { /* nothing in, nothing out, of the shape that it would have */
        int64_t n[4] = { 2, 4, 6, 8 };
        n[empty] = 0;
        cj_tensor *x = cj_zeros(c, CJ_SHAPE(n[0], n[1], n[2], n[3]), CJ_F32), *y = cj_pixel_shuffle(x, 2), *z = cj_pixel_unshuffle(x, 2);
        assert_ok(c);
        for (int d = 0; d < 4; d++) {
            assert_int_equal(cj_size(y, d), d == 0 ? n[d] : d == 1 ? n[d] / 4 : n[d] * 2);
            assert_int_equal(cj_size(z, d), d == 0 ? n[d] : d == 1 ? n[d] * 4 : n[d] / 2);
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* The identity map samples every pixel at its centre; a reflection mirrors; outside there are zeros. */
static void grids(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 2, 4, 6), .dtype = CJ_F64);
    for (int align = 0; align < 2; align++)
        for (int mode = CJ_INTERP_NEAREST; mode <= CJ_INTERP_CUBIC; mode++) {
            cj_tensor *theta = cj_from_f64(c, (double[]){ 1, 0, 0, 0, 1, 0 }, CJ_SHAPE(1, 2, 3));
            cj_tensor *grid = cj_affine_grid(theta, cj_shape_of(x), align);
            assert_same(cj_grid_sample(x, grid, .mode = (cj_interpolation)mode, .align_corners = align), x, 1e-13);
            cj_tensor *mirror = cj_affine_grid(cj_from_f64(c, (double[]){ -1, 0, 0, 0, 1, 0 }, CJ_SHAPE(1, 2, 3)), cj_shape_of(x), align);
            assert_same(cj_grid_sample(x, mirror, .mode = (cj_interpolation)mode, .align_corners = align), cj_slice(x, 3, -1, CJ_END, -1),
                        1e-13);
        }
    /* half a pixel beyond the corner: a quarter of its value with zeros, all of it with the border */
    cj_tensor *corner = cj_from_f64(c, (double[]){ -1, -1 }, CJ_SHAPE(1, 1, 1, 2));
    assert_near(at(cj_grid_sample(x, corner), 0), at(x, 0) / 4, 1e-14);
    assert_near(at(cj_grid_sample(x, corner, .padding = CJ_PAD_REPLICATE), 0), at(x, 0), 1e-14);
    assert_near(at(cj_grid_sample(x, cj_mul_scalar(corner, 3)), 0), 0, 0);
    /* a position that is no number reads nothing out of bounds */
    cj_tensor *nowhere = cj_from_f64(c, (double[]){ NAN, INFINITY }, CJ_SHAPE(1, 1, 1, 2));
    for (int padding = 0; padding < 4; padding++)
        if (padding != CJ_PAD_CYCLIC) (void)at(cj_grid_sample(x, nowhere, .padding = (cj_pad_mode)padding), 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* torchvision's RoI align, written as one loop per sample. */
static double bilinear(const double *x, int64_t H, int64_t W, double y_at, double x_at)
{
    if (y_at < -1 || y_at > (double)H || x_at < -1 || x_at > (double)W) return 0;
    y_at = fmax(y_at, 0), x_at = fmax(x_at, 0);
    int64_t top = (int64_t)y_at, left = (int64_t)x_at, bottom = top + 1, right = left + 1;
    if (top >= H - 1) top = bottom = H - 1, y_at = (double)top;
    if (left >= W - 1) left = right = W - 1, x_at = (double)left;
    double ly = y_at - (double)top, lx = x_at - (double)left;
    return (1 - ly) * ((1 - lx) * x[top * W + left] + lx * x[top * W + right]) +
           ly * ((1 - lx) * x[bottom * W + left] + lx * x[bottom * W + right]);
}
static void regions_align(void **state)
{
    (void)state;
    const double boxes[] = { 0, 0.5, 1.25, 6.5, 5.0, 1, -2, -1, 3, 12, 1, 3, 3, 3.2, 3.1, 0, 0, 0, 15, 11 };
    const int64_t N = 2, C = 3, H = 6, W = 8, K = 4, ph = 3, pw = 2;
    for (int t = CJ_F32; t <= CJ_F16; t++)
        for (int aligned = 0; aligned < 2; aligned++)
            for (int64_t ratio = 0; ratio < 3; ratio++) {
                cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 8 });
                const double scale = 0.5;
                cj_tensor *x = cj_require_grad(cj_cast(cj_randn(c, CJ_SHAPE(N, C, H, W)), (cj_dtype)t)), *g;
                cj_tensor *y = cj_roi_align(x, cj_from_f64(c, boxes, CJ_SHAPE(K, 5)), .size = CJ_SHAPE(ph, pw), .spatial_scale = scale,
                                            .sampling_ratio = ratio, .aligned = aligned);
                assert_ok(c);
                double *v = values_of(x), *u = values_of(y);
                for (int64_t q = 0; q < K * C * ph * pw; q++) {
                    int64_t k = q / (C * ph * pw), channel = q / (ph * pw) % C, i = q / pw % ph, j = q % pw;
                    const double *b = boxes + 5 * k, shift = aligned ? 0.5 : 0;
                    double x1 = b[1] * scale - shift, y1 = b[2] * scale - shift, w = b[3] * scale - shift - x1,
                           h = b[4] * scale - shift - y1, sum = 0;
                    if (!aligned) w = fmax(w, 1), h = fmax(h, 1);
                    int64_t gy = ratio ? ratio : (int64_t)ceil(h / (double)ph), gx = ratio ? ratio : (int64_t)ceil(w / (double)pw);
                    for (int64_t a = 0; a < gy; a++)
                        for (int64_t e = 0; e < gx; e++)
                            sum += bilinear(v + ((int64_t)b[0] * C + channel) * H * W, H, W,
                                            y1 + ((double)i + ((double)a + 0.5) / (double)gy) * h / (double)ph,
                                            x1 + ((double)j + ((double)e + 0.5) / (double)gx) * w / (double)pw);
                    sum /= fmax((double)(gy * gx), 1);
                    assert_near(u[q], sum, tolerance_of[t] * 8);
                }
                /* the transpose: <align(x), s> = <x, transpose(s)> */
                cj_tensor *s = cj_cast(cj_randn(c, cj_shape_of(y)), (cj_dtype)t);
                assert_true(cj_grad(y, &x, 1, &g, .seed = s));
                double left = 0, right = 0, *ws = values_of(s), *dx = values_of(g);
                for (int64_t q = 0; q < cj_numel(y); q++) left += u[q] * ws[q];
                for (int64_t q = 0; q < cj_numel(x); q++) right += v[q] * dx[q];
                assert_near(left, right, 100 * tolerance_of[t]);
                free(v), free(u), free(ws), free(dx);
                cj_ctx_free(c);
            }
}

static cj_tensor *pool_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return cj_roi_pool(in[0], user, .size = CJ_SHAPE(2, 2));
}

/* det.roi-pool: 4x4 of 1 … 16 to 2x2 is [6 8; 14 16]; one bin over the whole map is global max pooling; every box gives the same size; overlapping
 * boxes add gradients. */
static void det_roi_pool(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 9 });
    cj_tensor *x = cj_require_grad(cj_reshape(cj_arange(c, 1, 17, 1, CJ_F32), CJ_SHAPE(1, 1, 4, 4))), *g;
    cj_tensor *whole = cj_from_f32(c, (float[]){ 0, 0, 0, 3, 3, 0, 0, 0, 3, 3 }, CJ_SHAPE(2, 5));
    cj_tensor *y = cj_roi_pool(x, whole, .size = CJ_SHAPE(2, 2));
    const double want[] = { 6, 8, 14, 16 };
    for (int64_t i = 0; i < 8; i++) assert_near(at(y, i), want[i % 4], 0);
    assert_true(cj_grad(cj_sum(y), &x, 1, &g));
    for (int64_t i = 0; i < 16; i++) assert_near(at(g, i), i == 5 || i == 7 || i == 13 || i == 15 ? 2 : 0, 0);

    cj_tensor *map = cj_randn(c, CJ_SHAPE(2, 3, 7, 5));
    cj_tensor *boxes = cj_from_f32(c, (float[]){ 1, 0, 0, 4, 6, 0, 0, 0, 4, 6 }, CJ_SHAPE(2, 5));
    cj_tensor *top = cj_roi_pool(map, boxes, .size = CJ_SHAPE(1, 1)), *global = cj_adaptive_max_pool(map, CJ_SHAPE(1, 1));
    assert_same(top, cj_slice(global, 0, -1, CJ_END, -1), 0);
    cj_tensor *many = cj_from_f32(c, (float[]){ 0, 1, 1, 2, 2, 1, 0, 2, 9, 9, 0, 30, 30, 40, 40 }, CJ_SHAPE(3, 5));
    y = cj_roi_pool(map, many, .size = CJ_SHAPE(3, 2));
    assert_int_equal(cj_size(y, 0), 3);
    assert_int_equal(cj_numel(y), 3 * 3 * 3 * 2);
    for (int64_t i = 2 * 18; i < 3 * 18; i++) assert_near(at(y, i), 0, 0); /* a box outside: empty bins */
    cj_tensor *in[1] = { cj_randn(c, CJ_SHAPE(1, 2, 4, 4), .dtype = CJ_F64) };
    cj_gradcheck_result r = cj_gradcheck(c, pool_fn, whole, in, 1, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Halving a line of large numbers of alternating sign gives zeros: an average takes two neighbours and nothing else, however small it is. */
static void halves_cancel(void **state)
{
    enum { LONG = 150 };
    float line[LONG];
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    for (int i = 0; i < LONG; i++) line[i] = i % 2 ? -0x1p126F : 0x1p126F;
    cj_tensor *x = cj_reshape(cj_from_f32(c, line, CJ_SHAPE(LONG)), CJ_SHAPE(1, 1, 1, LONG)),
              *twice = cj_expand(x, CJ_SHAPE(1, 3, 2, LONG));
    assert_float_equal(cj_item(cj_max(cj_abs(cj_interpolate(x, .size = CJ_SHAPE(1, LONG / 2), .mode = CJ_INTERP_LINEAR)))), 0, 0);
    assert_float_equal(
        cj_item(cj_max(cj_abs(cj_interpolate(cj_contiguous(twice), .size = CJ_SHAPE(2, LONG / 2), .mode = CJ_INTERP_LINEAR)))), 0, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

static void bad_input(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(1, 4, 4, 6), CJ_F32), *ints = cj_zeros(c, CJ_SHAPE(1, 4, 4, 6), CJ_I64),
              *flat = cj_zeros(c, CJ_SHAPE(4, 6), CJ_F32);
    assert_refused(CJ_ESHAPE, "interpolate: the input [4, 6]; [N, C, ..] with 1 to 3 spatial axes expected",
                   cj_interpolate(flat, .scale = 2));
    assert_refused(CJ_EDTYPE, "interpolate: the input is i64; a float type expected", cj_interpolate(ints, .scale = 2));
    assert_refused(CJ_EVALUE, "interpolate: neither size nor scale is given", cj_interpolate(x));
    assert_refused(CJ_EVALUE, "interpolate: a size and a scale are given", cj_interpolate(x, .scale = 2, .size = CJ_SHAPE(2, 2)));
    assert_refused(CJ_EVALUE, "interpolate: 1 sizes for the 2 spatial axes", cj_interpolate(x, .size = CJ_SHAPE(2)));
    assert_refused(CJ_EVALUE, "interpolate: size 0 from an axis of 4", cj_interpolate(x, .size = CJ_SHAPE(0, 2)));
    assert_refused(CJ_EVALUE, "interpolate: size 0 from an axis of 4", cj_interpolate(x, .scale = 0.1));
    assert_refused(CJ_EVALUE, "interpolate: scale -1 of an axis of 4", cj_interpolate(x, .scale = -1));
    assert_refused(CJ_EVALUE, "interpolate: scale nan", cj_interpolate(x, .scale = NAN));
    assert_refused(CJ_EVALUE, "interpolate: scale 1e+30", cj_interpolate(x, .scale = 1e30));
    assert_refused(CJ_EVALUE, "interpolate: mode 9 is none of", cj_interpolate(x, .scale = 2, .mode = (cj_interpolation)9));
    assert_refused(CJ_EVALUE, "interpolate: align_corners has no meaning for nearest",
                   cj_interpolate(x, .scale = 2, .align_corners = true));
    assert_refused(CJ_ESHAPE, "pixel_shuffle: the input [4, 6]", cj_pixel_shuffle(flat, 2));
    assert_refused(CJ_ESHAPE, "pixel_shuffle: 4 channels of [1, 4, 4, 6] are no multiple of 3", cj_pixel_shuffle(x, 3));
    assert_refused(CJ_EVALUE, "pixel_shuffle: factor 0", cj_pixel_shuffle(x, 0));
    assert_refused(CJ_ESHAPE, "pixel_unshuffle: height and width of [1, 4, 4, 6] are no multiples of 4", cj_pixel_unshuffle(x, 4));
    cj_tensor *grid = cj_zeros(c, CJ_SHAPE(1, 2, 2, 2), CJ_F32), *wrong = cj_zeros(c, CJ_SHAPE(1, 2, 2, 3), CJ_F32);
    assert_refused(CJ_ESHAPE, "grid_sample: input [1, 4, 4, 6] and grid [1, 2, 2, 3]", cj_grid_sample(x, wrong));
    assert_refused(CJ_EDTYPE, "grid_sample: input f32 and grid f64", cj_grid_sample(x, cj_cast(grid, CJ_F64)));
    assert_refused(CJ_EVALUE, "grid_sample: mode 4", cj_grid_sample(x, grid, .mode = CJ_INTERP_NEAREST_EXACT));
    assert_refused(CJ_EVALUE, "grid_sample: padding 2", cj_grid_sample(x, grid, .padding = CJ_PAD_CYCLIC));
    assert_refused(CJ_ESHAPE, "grid_sample: the input [1, 4, 0, 6] has no pixels", cj_grid_sample(cj_slice(x, 2, 0, 0, 1), grid));
    assert_refused(CJ_ESHAPE, "affine_grid: theta [4, 6] and size [1, 1, 2, 2]", cj_affine_grid(flat, CJ_SHAPE(1, 1, 2, 2), false));
    assert_refused(CJ_EVALUE, "affine_grid: size [1, 1, 0, 2]",
                   cj_affine_grid(cj_zeros(c, CJ_SHAPE(1, 2, 3), CJ_F32), CJ_SHAPE(1, 1, 0, 2), false));
    cj_tensor *box = cj_from_f32(c, (float[]){ 0, 0, 0, 3, 3 }, CJ_SHAPE(1, 5));
    assert_refused(CJ_ESHAPE, "roi_align: input [1, 4, 4, 6] and boxes [4, 6]; [N, C, H, W] and [K, 5] expected",
                   cj_roi_align(x, flat, .size = CJ_SHAPE(2, 2)));
    assert_refused(CJ_EVALUE, "roi_align: size [2]; a height and a width expected", cj_roi_align(x, box, .size = CJ_SHAPE(2)));
    assert_refused(CJ_EDTYPE, "roi_pool: input i64 and boxes f32", cj_roi_pool(ints, box, .size = CJ_SHAPE(2, 2)));
    assert_refused(CJ_EVALUE, "roi_align: sampling_ratio -1", cj_roi_align(x, box, .size = CJ_SHAPE(2, 2), .sampling_ratio = -1));
    assert_refused(CJ_EVALUE, "roi_align: spatial_scale -2", cj_roi_align(x, box, .size = CJ_SHAPE(2, 2), .spatial_scale = -2));
    cj_tensor *other = cj_from_f32(c, (float[]){ 1, 0, 0, 3, 3 }, CJ_SHAPE(1, 5)),
              *far_away = cj_from_f32(c, (float[]){ 0, 0, 0, 1e9f, 3 }, CJ_SHAPE(1, 5)),
              *nothing = cj_from_f32(c, (float[]){ 0, 0, NAN, 3, 3 }, CJ_SHAPE(1, 5));
    assert_refused(CJ_EINDEX, "roi_pool: box 0 is of image 1, the input has 1", cj_roi_pool(x, other, .size = CJ_SHAPE(2, 2)));
    assert_refused(CJ_EVALUE, "roi_align: box 0 has a corner at 1e+09", cj_roi_align(x, far_away, .size = CJ_SHAPE(2, 2)));
    assert_refused(CJ_EVALUE, "roi_align: box 0 has a corner at nan", cj_roi_align(x, nothing, .size = CJ_SHAPE(2, 2)));
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpolation_by_definition),
        cmocka_unit_test(interpolation_at_random_sizes),
        cmocka_unit_test(threads_and_bands),
        cmocka_unit_test(up_nearest),
        cmocka_unit_test(up_bilinear),
        cmocka_unit_test(channels_and_pixels),
        cmocka_unit_test(grids),
        cmocka_unit_test(regions_align),
        cmocka_unit_test(det_roi_pool),
        cmocka_unit_test(halves_cancel),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
