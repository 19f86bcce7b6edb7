/* Augmentation: maps that are exact, maps and their inverses, draws that depend on the sample alone, the catalogue's rows of single transforms. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 3);

/* A smooth image, and one of noise. */
static cj_tensor *smooth(int64_t n)
{
    float v[2 * 32 * 32];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) v[(k * n + i) * n + j] = (float)(0.5 + 0.3 * sin(0.3 * i + k) * cos(0.25 * j));
    return cj_from_f32(c, v, CJ_SHAPE(1, 2, n, n));
}

static cj_tensor *turn(cj_tensor *x, double degrees)
{
    double a = degrees * M_PI / 180, k = degrees == 90 ? 0 : cos(a), s = degrees == 90 ? 1 : sin(a);
    return cj_warp(x, (double[]){ k, -s, 0, s, k, 0 });
}

/* Largest difference at least `edge` pixels from the border. */
static double inside(cj_tensor *a, cj_tensor *b, int64_t edge)
{
    double *x = values_of(a), *y = values_of(b), most = 0;
    int64_t n = cj_size(a, 2);
    for (int64_t k = 0; k < cj_size(a, 1); k++)
        for (int64_t i = edge; i < n - edge; i++)
            for (int64_t j = edge; j < n - edge; j++) most = fmax(most, fabs(x[(k * n + i) * n + j] - y[(k * n + i) * n + j]));
    free(x), free(y);
    return most;
}

/* aug.rotate: 90 degrees are transpose and flip, four of them nothing; an angle and back again */
static void aug_rotate(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 9, 9)), *y = turn(x, 90);
    double *from = values_of(x), *to = values_of(y);
    for (int64_t k = 0; k < 6; k++)
        for (int i = 0; i < 9; i++)
            for (int j = 0; j < 9; j++)
                assert_true(to[(k * 9 + 8 - j) * 9 + i] == from[(k * 9 + i) * 9 + j]); /* row' = 8 - column, column' = row */
    assert_true(distance(y, x) > 0.1);
    assert_near(distance(turn(turn(turn(y, 90), 90), 90), x), 0, 0);
    free(from), free(to);
    cj_tensor *s = smooth(32);
    assert_true(inside(turn(turn(s, 17), -17), s, 10) < 0.01);
    assert_true(inside(turn(s, 17), s, 10) > 0.05);
}

/* aug.shear: x' = x + s y; nothing at 0, area kept, undone by -s */
static void aug_shear(void **state)
{
    (void)state;
    cj_tensor *s = smooth(32);
    assert_near(distance(cj_warp(s, (double[]){ 1, 0, 0, 0, 1, 0 }), s), 0, 0);
    cj_tensor *once = cj_warp(s, (double[]){ 1, 0, 0, 0.4, 1, 0 });
    assert_true(inside(once, s, 10) > 0.05);
    assert_true(inside(cj_warp(once, (double[]){ 1, 0, 0, -0.4, 1, 0 }), s, 10) < 0.01);
    float dot[21 * 21] = { 0 };
    for (int i = 8; i < 13; i++)
        for (int j = 8; j < 13; j++) dot[i * 21 + j] = 1;
    cj_tensor *square = cj_from_f32(c, dot, CJ_SHAPE(1, 1, 21, 21));
    assert_near(cj_item(cj_sum(cj_warp(square, (double[]){ 1, 0, 0, 0.4, 1, 0 }))), 25, 1e-5);
    assert_near(cj_item(cj_sum(cj_warp(square, (double[]){ 1, 0, 0, 1, 1, 0 }))), 25, 0);
    assert_refused(CJ_EVALUE, "a map that can be undone", cj_warp(s, (double[]){ 1, 1, 0, 1, 1, 0 }));
}

static void shifts(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 1, 8, 8)), *y = cj_warp(x, (double[]){ 1, 0, 2, 0, 1, -1 });
    for (int64_t i = 0; i < 8; i++)
        for (int64_t j = 0; j < 8; j++) {
            double want = i - 2 >= 0 && j + 1 < 8 ? cj_at(x, (int64_t[]){ 0, 0, i - 2, j + 1 }) : 0;
            assert_true(cj_at(y, (int64_t[]){ 0, 0, i, j }) == want);
        }
}

/* aug.photometric: nothing at b = 0, c = 1; the mean moves by b, the deviation grows c times; clipped to a range where one is given */
static void aug_photometric(void **state)
{
    (void)state;
    cj_tensor *x = cj_rand(c, CJ_SHAPE(200, 1, 6, 6));
    assert_near(distance(cj_augment(x), x), 0, 0);
    cj_tensor *y = cj_augment(x, .seed = 4, .brightness = 0.3);
    double low = 1, high = -1;
    for (int64_t i = 0; i < 200; i++) {
        cj_tensor *a = cj_slice(x, 0, i, i + 1, 1), *b = cj_slice(y, 0, i, i + 1, 1), *gap = cj_sub(b, a);
        double shift = cj_item(cj_mean(gap));
        assert_near(cj_item(cj_max(gap)) - cj_item(cj_min(gap)), 0, 1e-6); /* every value by the same b */
        low = fmin(low, shift), high = fmax(high, shift);
        assert_true(fabs(shift) <= 0.3 + 1e-6);
    }
    assert_true(low < -0.25 && high > 0.25);
    assert_near(distance(cj_augment(x, .seed = 4, .brightness = 0.3, .low = 0, .high = 1), cj_clamp(y, 0, 1)), 0, 0);
    assert_refused(CJ_EVALUE, ".low = 1 is above .high = 0", cj_augment(x, .low = 1));
    y = cj_augment(x, .seed = 4, .contrast = 0.5);
    for (int64_t i = 0; i < 200; i++) {
        cj_tensor *a = cj_slice(x, 0, i, i + 1, 1), *b = cj_slice(y, 0, i, i + 1, 1);
        assert_near(cj_item(cj_mean(b)), cj_item(cj_mean(a)), 1e-6);
        double da = cj_item(cj_max(a)) - cj_item(cj_min(a)), db = cj_item(cj_max(b)) - cj_item(cj_min(b)), k = db / da;
        assert_true(k > 0.499 && k < 1.501);
        cj_tensor *again = cj_add(cj_mul(cj_sub(a, cj_mean(a)), cj_full(c, k, CJ_SHAPE(1), CJ_F32)), cj_mean(a));
        assert_near(distance(again, b), 0, 1e-5); /* all deviations, so the standard one too, k times */
    }
}

/* aug.mask: exactly side x side pixels become zero, in every channel; the others keep their bits */
static void aug_mask(void **state)
{
    (void)state;
    cj_tensor *x = cj_add(cj_rand(c, CJ_SHAPE(50, 3, 12, 10)), cj_ones(c, CJ_SHAPE(1), CJ_F32)), *y = cj_augment(x, .seed = 9, .mask = 4);
    double *a = values_of(x), *b = values_of(y);
    int64_t zeros = 0;
    for (int64_t i = 0; i < 50 * 3 * 120; i++) {
        zeros += b[i] == 0;
        assert_true(b[i] == 0 || b[i] == a[i]);
    }
    assert_int_equal(zeros, 50 * 3 * 16);
    free(a), free(b);
    assert_refused(CJ_EVALUE, "a pad and a mask that fit 12 x 10", cj_augment(x, .mask = 11));
}

/* aug.flip: twice is nothing, to the bit; boxes and masks turn with the image; convolving with mirrored kernels commutes */
static void aug_flip(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 6, 9));
    for (int vertical = 0; vertical < 2; vertical++) {
        cj_tensor *y = cj_mirror(x, vertical);
        assert_true(same_bits(cj_mirror(y, vertical), x));
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 9; j++)
                assert_true(cj_at(y, (int64_t[]){ 1, 2, i, j }) ==
                            cj_at(x, (int64_t[]){ 1, 2, vertical ? 5 - i : i, vertical ? j : 8 - j }));
        cj_tensor *w = cj_randn(c, CJ_SHAPE(2, 3, 3, 3));
        assert_near(distance(cj_conv(cj_mirror(x, vertical), cj_mirror(w, vertical), NULL), cj_mirror(cj_conv(x, w, NULL), vertical)), 0,
                    1e-5);
        assert_true(same_bits(cj_augment(x, .flip = !vertical, .flip_vertical = vertical), y));
    }
    /* a box around bright pixels still is after the mirror: rows 1 … 3, columns 2 … 6 */
    float v[6 * 9] = { 0 };
    for (int i = 1; i < 4; i++)
        for (int j = 2; j < 7; j++) v[i * 9 + j] = 1;
    cj_tensor *mask = cj_from_f32(c, v, CJ_SHAPE(1, 1, 6, 9)), *box = cj_from_f32(c, (float[]){ 2, 1, 7, 4 }, CJ_SHAPE(1, 4));
    for (int vertical = 0; vertical < 2; vertical++) {
        cj_tensor *turned = cj_mirror(mask, vertical), *b = cj_mirror_boxes(box, vertical ? 6 : 9, vertical);
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 9; j++) {
                bool in =
                    (double)j >= value_at(b, 0) && (double)j < value_at(b, 2) && (double)i >= value_at(b, 1) && (double)i < value_at(b, 3);
                assert_true(cj_at(turned, (int64_t[]){ 0, 0, i, j }) == (in ? 1 : 0));
            }
        assert_true(same_bits(cj_mirror_boxes(b, vertical ? 6 : 9, vertical), box));
    }
    assert_refused(CJ_ESHAPE, "cj_mirror_boxes: f32 [n, 4]", cj_mirror_boxes(cj_zeros(c, CJ_SHAPE(3, 3), CJ_F32), 5, false));
}

/* aug.crop-pad: offset (p, p) after a pad of p is nothing; every offset is as likely; zeros, reflected, cyclic and edge pads as cj_pad has them */
static void aug_crop_pad(void **state)
{
    (void)state;
    enum { N = 9000 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 2, 5, 6));
    for (int mode = CJ_PAD_ZERO; mode <= CJ_PAD_REPLICATE; mode++) {
        cj_tensor *wide = cj_pad(x, CJ_SHAPE(2, 2), CJ_SHAPE(2, 2), .mode = (cj_pad_mode)mode);
        assert_true(same_bits(cj_contiguous(cj_slice(cj_slice(wide, 2, 2, 7, 1), 3, 2, 8, 1)), x));
        int found[5][5] = { { 0 } };
        for (int64_t sample = 0; sample < 300; sample++) { /* every crop is one of the 25, and all of them occur */
            cj_tensor *y = cj_augment(x, .seed = 5, .samples = &sample, .pad = 2, .pad_mode = (cj_pad_mode)mode);
            bool any = false;
            for (int64_t i = 0; i < 5; i++)
                for (int64_t j = 0; j < 5; j++) {
                    bool same = same_bits(cj_contiguous(cj_slice(cj_slice(wide, 2, i, i + 5, 1), 3, j, j + 6, 1)), y);
                    found[i][j] += same;
                    any = any || same;
                }
            assert_true(any);
        }
        for (int k = 0; k < 25; k++)
            assert_true(found[k / 5][k % 5] > 0); /* misses one with probability 25 (24/25)^300 = 1e-4; the seed is fixed */
    }
    float *v = calloc(N * 25, sizeof *v);
    for (int i = 0; i < N; i++) v[i * 25 + 12] = 1;
    double *to = values_of(cj_augment(cj_from_f32(c, v, CJ_SHAPE(N, 1, 5, 5)), .seed = 2, .pad = 1));
    int count[9] = { 0 };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 9; k++) count[k] += to[i * 25 + (1 + k / 3) * 5 + 1 + k % 3] == 1;
    for (int k = 0; k < 9; k++) assert_true(abs(count[k] - N / 9) < 150); /* five deviations of sqrt(9000 · 8/81) */
    free(v), free(to);
    assert_refused(CJ_EVALUE, "pad_mode", cj_augment(x, .pad_mode = (cj_pad_mode)9));
}

/* aug.translate: whole shifts are exact, a shift and back restores the inside, a cyclic shift is a permutation */
static void aug_translate(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 1, 8, 8)), *y = cj_shift(x, 2, -1, false), *z = cj_shift(x, 2, -1, true);
    for (int64_t i = 0; i < 8; i++)
        for (int64_t j = 0; j < 8; j++) {
            double want = i - 2 >= 0 && j + 1 < 8 ? cj_at(x, (int64_t[]){ 0, 0, i - 2, j + 1 }) : 0;
            assert_true(cj_at(y, (int64_t[]){ 0, 0, i, j }) == want);
            assert_true(cj_at(z, (int64_t[]){ 0, 0, i, j }) == cj_at(x, (int64_t[]){ 0, 0, (i + 6) % 8, (j + 1) % 8 }));
        }
    assert_true(same_bits(cj_shift(z, -2, 1, true), x));
    assert_near(inside(cj_shift(y, -2, 1, false), x, 2), 0, 0);
    assert_true(same_bits(cj_shift(x, 0, 0, false), x));
    /* half a pixel: the mean of two; and as cj_warp has it */
    y = cj_shift(x, 0.5, 0, false);
    assert_near(cj_at(y, (int64_t[]){ 0, 0, 3, 4 }), 0.5 * (cj_at(x, (int64_t[]){ 0, 0, 3, 4 }) + cj_at(x, (int64_t[]){ 0, 0, 2, 4 })),
                1e-6);
    assert_near(distance(cj_shift(x, 1.25, -0.75, false), cj_warp(x, (double[]){ 1, 0, 1.25, 0, 1, -0.75 })), 0, 1e-5);
    cj_tensor *s = smooth(32);
    /* bilinear sampling of f errs by at most h²/8 max|f''| in an axis: 2 shifts, 2 axes, |f''| <= 0.3·0.09 */
    assert_true(inside(cj_shift(cj_shift(s, 0.3, 0.6, false), -0.3, -0.6, false), s, 3) < 4 * 0.3 * 0.09 / 8);
    assert_refused(CJ_EVALUE, "cj_shift: shifts below a million", cj_shift(x, NAN, 0, false));
}

/* aug.scale: factor 1 is nothing; twice with the nearest pixel, then every other pixel, is nothing; an affine diag(sy, sx) is the resampling formula */
static void aug_scale(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 2, 8, 6));
    assert_true(same_bits(cj_warp(x, (double[]){ 1, 0, 0, 0, 1, 0 }), x));
    cj_tensor *twice = cj_interpolate(x, .size = CJ_SHAPE(16, 12), .mode = CJ_INTERP_NEAREST);
    assert_true(same_bits(cj_contiguous(cj_slice(cj_slice(twice, 2, 0, 16, 2), 3, 0, 12, 2)), x));
    cj_tensor *y = cj_warp(x, (double[]){ 2, 0, 0, 0, 1.5, 0 });
    for (int64_t i = 0; i < 8; i++)
        for (int64_t j = 0; j < 6; j++) { /* centre (3.5, 2.5) */
            double sy = ((double)i - 3.5) / 2 + 3.5, sx = ((double)j - 2.5) / 1.5 + 2.5, u = sy - floor(sy), w = sx - floor(sx);
            int64_t r = (int64_t)floor(sy), s = (int64_t)floor(sx);
            double want = 0;
            for (int k = 0; k < 4; k++) {
                int64_t a = r + k / 2, b = s + k % 2;
                double share = (k / 2 ? u : 1 - u) * (k % 2 ? w : 1 - w);
                if (a >= 0 && a < 8 && b >= 0 && b < 6) want += share * cj_at(x, (int64_t[]){ 0, 1, a, b });
            }
            assert_near(cj_at(y, (int64_t[]){ 0, 1, i, j }), want, 1e-5);
        }
}

/* aug.perspective: four corners go where they should, the identity is exact, an affine map is a special case, the inverse undoes it */
static void aug_perspective(void **state)
{
    (void)state;
    const double from[8] = { 0, 0, 0, 31, 31, 0, 31, 31 }, to[8] = { 2, 3, 1, 28, 30, 1, 27, 29 };
    double h[9], back[9];
    assert_true(cj_homography(c, from, to, h) && cj_homography(c, to, from, back));
    for (int k = 0; k < 4; k++) {
        double y = from[2 * k], x = from[2 * k + 1], w = h[6] * y + h[7] * x + h[8];
        assert_near((h[0] * y + h[1] * x + h[2]) / w, to[2 * k], 1e-9);
        assert_near((h[3] * y + h[4] * x + h[5]) / w, to[2 * k + 1], 1e-9);
    }
    for (int i = 0; i < 3; i++) /* H back is a multiple of I */
        for (int j = 0; j < 3; j++) {
            double sum = 0, unit = 0;
            for (int k = 0; k < 3; k++) sum += back[3 * i + k] * h[3 * k + j], unit += back[6 + k] * h[3 * k + 2];
            assert_near(sum / unit, i == j, 1e-9);
        }
    cj_tensor *s = smooth(32), *x = cj_randn(c, CJ_SHAPE(1, 2, 8, 8));
    assert_true(same_bits(cj_warp_perspective(x, (double[]){ 1, 0, 0, 0, 1, 0, 0, 0, 1 }), x));
    assert_near(distance(cj_warp_perspective(x, (double[]){ 1, 0, 2, 0, 1, -1, 0, 0, 1 }), cj_warp(x, (double[]){ 1, 0, 2, 0, 1, -1 })), 0,
                0);
    assert_true(inside(cj_warp_perspective(s, h), s, 8) > 0.02);
    assert_true(inside(cj_warp_perspective(cj_warp_perspective(s, h), back), s, 8) < 4 * 1.3 * 0.3 * 0.09 / 8);
    assert_refused(CJ_EVALUE, "no three of which", cj_homography(c, (double[]){ 0, 0, 1, 1, 2, 2, 3, 3 }, to, h));
    assert_refused(CJ_EVALUE, "a map that can be undone", cj_warp_perspective(x, (double[9]){ 0 }));
    assert_true(distance(cj_augment(s, .seed = 3, .perspective = 0.2), s) > 0.05);
}

/* aug.lens: nothing at 0, the centre stays, lines bend by the sign of k1, the radius is found back to 1e-4 of a pixel */
static void aug_lens(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(1, 1, 9, 9)), *s = smooth(32);
    assert_true(same_bits(cj_warp_lens(x, 0, 0), x));
    for (double k = -0.25; k < 0.5; k += 0.25)
        assert_true(cj_at(cj_warp_lens(x, k, 0.05), (int64_t[]){ 0, 0, 4, 4 }) == cj_at(x, (int64_t[]){ 0, 0, 4, 4 }));
    for (double k1 = -0.3; k1 <= 0.5; k1 += 0.1)
        for (double r = 0; r <= 1; r += 0.01) assert_near(cj_lens_undo(k1, 0.02, r * (1 + k1 * r * r + 0.02 * r * r * r * r)), r, 1e-9);
    /* a straight column off the centre: at the top its brightest place lies nearer to the centre than in the middle with a barrel, farther with a pincushion */
    enum { N = 65 };
    float v[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) v[i * N + j] = (float)exp(-0.5 * (j - 48) * (j - 48) / 4.0);
    cj_tensor *line = cj_from_f32(c, v, CJ_SHAPE(1, 1, N, N));
    for (int sign = -1; sign <= 1; sign += 2) {
        double *to = values_of(cj_warp_lens(line, sign * 0.2, 0)), place[2];
        for (int k = 0; k < 2; k++) { /* centre of mass of the middle row and of one near the top */
            int i = k ? 14 : 32;
            double sum = 0, mass = 0;
            for (int j = 0; j < N; j++) sum += j * to[i * N + j], mass += to[i * N + j];
            place[k] = sum / mass;
        }
        assert_true(sign * (place[1] - place[0]) > 0.3);
        /* in the middle row the line goes to 32 + 16 (1 + k1 (16/45.25)²) */
        assert_near(place[0], 32 + 16 * (1 + sign * 0.2 * 256 / (2 * 32.0 * 32)), 0.1);
        free(to);
    }
    assert_true(distance(cj_augment(s, .seed = 3, .lens = 0.3), s) > 0.01);
    assert_refused(CJ_EVALUE, "a radius that grows", cj_warp_lens(x, -0.5, 0));
    assert_true(isnan(cj_lens_undo(0, 0, 2)));
}

/* aug.pca-colour: the shift has covariance 0.01 P Λ² Pᵀ, grey data move along grey only, α = 0 changes nothing */
static void aug_pca_colour(void **state)
{
    (void)state;
    enum { N = 20000 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(40, 3, 10, 10));
    cj_tensor *mix = cj_from_f32(c, (float[]){ 1, 0.5f, 0.2f, 0, 0.8f, -0.3f, 0, 0, 0.4f }, CJ_SHAPE(3, 3, 1, 1));
    x = cj_conv(x, mix, NULL);
    double axes[9], cov[3][3] = { { 0 } }, want[3][3] = { { 0 } };
    assert_true(cj_colour_axes(x, axes));
    for (int i = 0; i < 3; i++) /* eigenpairs of the covariance, by the definition: C p = λ p, with λ p = axes[i] */
        for (int j = 0; j < i; j++)
            assert_near(axes[3 * i] * axes[3 * j] + axes[3 * i + 1] * axes[3 * j + 1] + axes[3 * i + 2] * axes[3 * j + 2], 0, 1e-9);
    double *v = values_of(x), C[3][3] = { { 0 } }, mean[3] = { 0 };
    for (int i = 0; i < 4000; i++)
        for (int k = 0; k < 3; k++) mean[k] += v[(i / 100 * 3 + k) * 100 + i % 100] / 4000;
    for (int i = 0; i < 4000; i++)
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++)
                C[k][l] += (v[(i / 100 * 3 + k) * 100 + i % 100] - mean[k]) * (v[(i / 100 * 3 + l) * 100 + i % 100] - mean[l]) / 4000;
    for (int i = 0; i < 3; i++) {
        double *a = axes + 3 * i, size = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
        for (int k = 0; k < 3; k++) assert_near(C[k][0] * a[0] + C[k][1] * a[1] + C[k][2] * a[2], size * a[k], 1e-5);
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++) want[k][l] += 0.01 * a[k] * a[l];
    }
    free(v);
    v = values_of(cj_augment(cj_zeros(c, CJ_SHAPE(N, 3, 1, 1), CJ_F32), .seed = 6, .colour = 0.1, .colour_axes = axes));
    double largest = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++) cov[k][l] += v[3 * i + k] * v[3 * i + l] / N;
    for (int k = 0; k < 3; k++) largest = fmax(largest, want[k][k]);
    for (int k = 0; k < 9; k++) assert_near(cov[k / 3][k % 3], want[k / 3][k % 3], 5 * largest * sqrt(2.0 / N)); /* five deviations */
    free(v);
    cj_tensor *grey = cj_cat((cj_tensor *[]){ cj_slice(x, 1, 0, 1, 1), cj_slice(x, 1, 0, 1, 1), cj_slice(x, 1, 0, 1, 1) }, 3, 1);
    assert_true(cj_colour_axes(grey, axes));
    v = values_of(cj_augment(grey, .seed = 6, .colour = 0.1, .colour_axes = axes));
    for (int i = 0; i < 4000; i++)
        for (int k = 1; k < 3; k++) assert_near(v[(i / 100 * 3 + k) * 100 + i % 100], v[i / 100 * 300 + i % 100], 1e-5);
    free(v);
    assert_true(same_bits(cj_augment(x, .colour_axes = axes), x));
    assert_refused(CJ_EVALUE, ".colour needs 3 channels", cj_augment(x, .colour = 0.1));
    assert_refused(CJ_ESHAPE, "3 channels were expected", cj_colour_axes(smooth(8), axes));
}

/* aug.noise: the mean stays, the variance grows by σ²; in a linear model it is ridge with λ = n σ², in expectation */
static void aug_noise(void **state)
{
    (void)state;
    enum { N = 40, COPIES = 4000 };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(200, 1, 10, 10)), *gap = cj_sub(cj_augment(x, .seed = 4, .noise = 0.3), x);
    assert_near(cj_item(cj_mean(gap)), 0, 5 * 0.3 / sqrt(20000));
    assert_near(cj_item(cj_mean(cj_square(gap))), 0.09, 5 * 0.09 * sqrt(2.0 / 20000));
    /* y = 2 a - b on n points; the mean of the normal equations over noisy copies against those of ridge */
    double *v = values_of(cj_randn(c, CJ_SHAPE(N, 2))), A[2][2] = { { 0 } }, b[2] = { 0 }, R[2][2] = { { 0 } }, q[2] = { 0 }, s = 0.5;
    float *rows = calloc(N * COPIES * 2, sizeof *rows);
    for (int i = 0; i < N * COPIES * 2; i++) rows[i] = (float)v[i % (2 * N)];
    double *noisy = values_of(cj_augment(cj_from_f32(c, rows, CJ_SHAPE(N * COPIES, 1, 1, 2)), .seed = 9, .noise = s));
    for (int i = 0; i < N * COPIES; i++) {
        double y = 2 * v[2 * (i % N)] - v[2 * (i % N) + 1];
        for (int k = 0; k < 2; k++) {
            b[k] += noisy[2 * i + k] * y / COPIES;
            for (int l = 0; l < 2; l++) A[k][l] += noisy[2 * i + k] * noisy[2 * i + l] / COPIES;
        }
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++) {
            q[k] += v[2 * i + k] * (2 * v[2 * i] - v[2 * i + 1]);
            for (int l = 0; l < 2; l++) R[k][l] += v[2 * i + k] * v[2 * i + l] + (k == l ? s * s : 0); /* in all n σ² */
        }
    double det = A[0][0] * A[1][1] - A[0][1] * A[1][0], ridge = R[0][0] * R[1][1] - R[0][1] * R[1][0];
    assert_near((b[0] * A[1][1] - b[1] * A[0][1]) / det, (q[0] * R[1][1] - q[1] * R[0][1]) / ridge, 0.02);
    assert_near((b[1] * A[0][0] - b[0] * A[1][0]) / det, (q[1] * R[0][0] - q[0] * R[1][0]) / ridge, 0.02);
    assert_true(fabs((q[0] * R[1][1] - q[1] * R[0][1]) / ridge - 2) > 0.1); /* and not least squares, which finds 2 */
    free(v), free(rows), free(noisy);
}

/* aug.threshold: two values per channel, twice is once; thresholds 0 and 255 */
static void aug_threshold(void **state)
{
    (void)state;
    cj_tensor *x = cj_floor(cj_mul_scalar(cj_rand(c, CJ_SHAPE(4, 3, 8, 8)), 256));
    const double at[3] = { 100, 0, 255 };
    cj_tensor *y = cj_channel_threshold(x, at, 255);
    double *a = values_of(x), *b = values_of(y);
    for (int i = 0; i < 4 * 3 * 64; i++) assert_true(b[i] == (a[i] >= at[i / 64 % 3] ? 255 : 0));
    assert_true(same_bits(cj_channel_threshold(y, at, 255), y));
    free(a), free(b);
    assert_refused(CJ_EVALUE, "thresholds of at most 255", cj_channel_threshold(x, (double[]){ 0, 0, 256 }, 255));
}

/* aug.blur: nothing at σ → 0, a constant stays, and it is the convolution with the outer product of the weights */
static void aug_blur(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 1, 11, 9)), *flat = cj_full(c, 0.7, CJ_SHAPE(1, 2, 7, 7), CJ_F32);
    assert_true(same_bits(cj_blur(x, 0, 0), x));
    assert_near(distance(cj_blur(x, 0.05, 0), x), 0, 1e-6); /* exp(-1/(2·0.05²)) is nothing */
    assert_near(distance(cj_blur(flat, 1.3, 0), flat), 0, 1e-6);
    assert_near(distance(cj_blur(flat, 0, 2), flat), 0, 1e-6);
    for (int box = 0; box < 2; box++) {
        enum { R = 4 }; /* ceil(3 · 1.3) */
        float w[(2 * R + 1) * (2 * R + 1)];
        double sum = 0;
        for (int i = -R; i <= R; i++)
            for (int j = -R; j <= R; j++)
                sum += w[(i + R) * (2 * R + 1) + j + R] = box ? 1 : (float)exp(-(i * i + j * j) / (2 * 1.3 * 1.3));
        cj_tensor *k = cj_mul_scalar(cj_from_f32(c, w, CJ_SHAPE(1, 1, 2 * R + 1, 2 * R + 1)), 1 / sum);
        cj_tensor *want = cj_conv(cj_pad(x, CJ_SHAPE(R, R), CJ_SHAPE(R, R), .mode = CJ_PAD_REPLICATE), k, NULL);
        assert_near(distance(cj_blur(x, box ? 0 : 1.3, R), want), 0, 1e-5);
    }
    assert_true(distance(cj_augment(x, .seed = 1, .blur = 2), x) > 0.1);
    assert_refused(CJ_EVALUE, "cj_blur: a sigma", cj_blur(x, -1, 0));
}

/* Object pixels keep their bits, and which background an image gets has nothing to do with its class. */
static void backgrounds_of(int64_t n, cj_tensor **x, cj_tensor **mask, cj_tensor **out, uint64_t seed)
{
    float *m = calloc((size_t)n * 16, sizeof *m), b[4 * 2 * 16];
    for (int64_t i = 0; i < n * 16; i++) m[i] = i % 16 >= 5 && i % 16 <= 10;
    for (int i = 0; i < 4 * 2 * 16; i++) b[i] = (float)(i / 32); /* background k is k everywhere */
    *x = cj_rand(c, CJ_SHAPE(n, 2, 4, 4));
    *mask = cj_from_f32(c, m, CJ_SHAPE(n, 1, 4, 4));
    *out = cj_replace_background(*x, *mask, cj_from_f32(c, b, CJ_SHAPE(4, 2, 4, 4)), .seed = seed);
    free(m);
}

/* aug.background: the object keeps its bits, the backgrounds are as likely for either class */
static void aug_background(void **state)
{
    (void)state;
    enum { N = 4000 };
    cj_tensor *x, *mask, *y;
    backgrounds_of(N, &x, &mask, &y, 12);
    double *a = values_of(x), *b = values_of(y), *m = values_of(mask), product = 0, count[4] = { 0 };
    for (int i = 0; i < N * 32; i++) assert_true(m[i / 32 * 16 + i % 16] == 0 || a[i] == b[i]);
    for (int i = 0; i < N; i++) {
        int k = (int)b[i * 32];
        for (int j = 0; j < 32; j++) assert_true(m[i * 16 + j % 16] == 1 || b[i * 32 + j] == k);
        count[k]++;
        product += (k - 1.5) * (i % 2 - 0.5) / N; /* class i % 2 */
    }
    assert_true(fabs(product / (sqrt(1.25) * 0.5)) < 5 / sqrt(N)); /* correlation: five deviations */
    for (int k = 0; k < 4; k++) assert_true(fabs(count[k] - N / 4.0) < 5 * sqrt(N * 3 / 16.0));
    free(a), free(b), free(m);
    assert_refused(CJ_ESHAPE, "a mask [n, 1, H, W]", cj_replace_background(x, x, x));
}

/* aug.occlusion: the background swap leaves the object, a mask has its exact area (with either fill), a permutation of pixels is undone */
static void aug_occlusion(void **state)
{
    (void)state;
    cj_tensor *x, *mask, *y;
    backgrounds_of(50, &x, &mask, &y, 2);
    double *a = values_of(x), *b = values_of(y);
    for (int i = 0; i < 50 * 32; i++) assert_true(i % 16 < 5 || i % 16 > 10 || a[i] == b[i]);
    free(a), free(b);
    x = cj_rand(c, CJ_SHAPE(20, 2, 9, 7));
    a = values_of(x), b = values_of(cj_augment(x, .seed = 3, .mask = 4, .mask_mean = true));
    for (int i = 0; i < 40; i++) {
        double mean = 0;
        int changed = 0;
        for (int k = 0; k < 63; k++) mean += a[i * 63 + k] / 63;
        for (int k = 0; k < 63; k++)
            if (a[i * 63 + k] != b[i * 63 + k]) {
                changed++;
                assert_near(b[i * 63 + k], mean, 1e-6);
            }
        assert_int_equal(changed, 16);
    }
    free(a), free(b);
    y = cj_permute_pixels(x, 8, false);
    assert_true(distance(y, x) > 0.1);
    assert_true(same_bits(cj_permute_pixels(y, 8, true), x));
    assert_true(same_bits(cj_sort(cj_reshape(y, CJ_SHAPE(40, 63)), -1).values, cj_sort(cj_reshape(x, CJ_SHAPE(40, 63)), -1).values));
    assert_true(cj_at(y, (int64_t[]){ 0, 0, 0, 0 }) == cj_at(x, (int64_t[]){ 0, 0, 0, 0 }) ||
                cj_at(y, (int64_t[]){ 0, 1, 0, 0 }) != cj_at(x, (int64_t[]){ 0, 1, 0, 0 })); /* all channels alike */
}

/* aug.geometric: flips, four quarter turns and transforms without strength are nothing; a warp and its inverse keep the inside; crops and pads have their shapes */
static void aug_geometric(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 9, 9)), *s = smooth(32);
    assert_true(same_bits(cj_mirror(cj_mirror(x, false), false), x) && same_bits(cj_mirror(cj_mirror(x, true), true), x));
    assert_true(same_bits(turn(turn(turn(turn(x, 90), 90), 90), 90), x));
    assert_true(same_bits(cj_augment(x), x) && same_bits(cj_shift(x, 0, 0, true), x) && same_bits(cj_warp_lens(x, 0, 0), x));
    assert_true(same_bits(cj_warp(x, (double[]){ 1, 0, 0, 0, 1, 0 }), x));
    assert_true(same_bits(cj_warp_perspective(x, (double[]){ 1, 0, 0, 0, 1, 0, 0, 0, 1 }), x));
    const double m[6] = { 1.1, 0.2, 0.7, -0.15, 0.95, -0.4 }, det = 1.1 * 0.95 + 0.2 * 0.15;
    const double a = 0.95 / det, b = -0.2 / det, k = 0.15 / det, d = 1.1 / det; /* the inverse map, its shift -A⁻¹ t */
    const double back[6] = { a, b, -(a * m[2] + b * m[5]), k, d, -(k * m[2] + d * m[5]) };
    assert_true(inside(cj_warp(s, m), s, 8) > 0.05);
    assert_true(inside(cj_warp(cj_warp(s, m), back), s, 8) < 4 * 1.3 * 0.3 * 0.09 / 8);
    cj_tensor *wide = cj_pad(x, CJ_SHAPE(1, 2), CJ_SHAPE(3, 4), .mode = CJ_PAD_REFLECT),
              *crop = cj_slice(cj_slice(wide, 2, 1, 10, 1), 3, 2, 11, 1);
    assert_true(cj_size(wide, 2) == 13 && cj_size(wide, 3) == 15 && same_bits(cj_contiguous(crop), x));
    cj_tensor *resized = cj_interpolate(x, .size = CJ_SHAPE(4, 17), .mode = CJ_INTERP_LINEAR);
    assert_true(cj_size(resized, 2) == 4 && cj_size(resized, 3) == 17);
}

static void flips_and_crops(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(4, 2, 5, 7));
    cj_tensor *y = cj_augment(x, .flip = 1);
    assert_true(cj_at(y, (int64_t[]){ 1, 1, 2, 0 }) == cj_at(x, (int64_t[]){ 1, 1, 2, 6 }));
    assert_near(distance(cj_augment(y, .flip = 1), x), 0, 0); /* an involution, to the bit */
    y = cj_augment(x, .flip_vertical = 1);
    assert_true(cj_at(y, (int64_t[]){ 1, 1, 0, 3 }) == cj_at(x, (int64_t[]){ 1, 1, 4, 3 }));
    /* a crop after a pad: every offset as likely; a single bright pixel tells which it was */
    float *v = calloc(9000 * 25, sizeof *v);
    for (int i = 0; i < 9000; i++) v[i * 25 + 12] = 1;
    double *to = values_of(cj_augment(cj_from_f32(c, v, CJ_SHAPE(9000, 1, 5, 5)), .seed = 2, .pad = 1));
    int count[9] = { 0 };
    for (int i = 0; i < 9000; i++)
        for (int k = 0; k < 9; k++) count[k] += to[i * 25 + (1 + k / 3) * 5 + 1 + k % 3] == 1;
    for (int k = 0; k < 9; k++) assert_true(abs(count[k] - 1000) < 150); /* five deviations */
    free(v), free(to);
}

static void draws_depend_on_the_sample_alone(void **state)
{
    (void)state;
    cj_tensor *x = cj_rand(c, CJ_SHAPE(6, 1, 8, 8));
    const int64_t all[] = { 10, 11, 12, 13, 14, 15 };
#define CHANGES .flip = 0.5, .rotate = 20, .scale = 0.2, .shear = 0.1, .pad = 2, .contrast = 0.3, .brightness = 0.2, .noise = 0.1, .mask = 3
    cj_tensor *y = cj_augment(x, .seed = 7, .epoch = 3, .samples = all, CHANGES);
    for (int64_t i = 0; i < 6; i++) /* one by one: the same bits */
        assert_near(distance(cj_augment(cj_slice(x, 0, i, i + 1, 1), .seed = 7, .epoch = 3, .samples = all + i, CHANGES),
                             cj_slice(y, 0, i, i + 1, 1)),
                    0, 0);
    assert_true(distance(cj_augment(x, .seed = 7, .epoch = 4, .samples = all, CHANGES), y) > 0.01); /* another epoch, another image */
    assert_true(distance(cj_augment(x, .seed = 8, .epoch = 3, .samples = all, CHANGES), y) > 0.01);
    assert_refused(CJ_ESHAPE, "f32 [n, channels, height, width]", cj_augment(cj_zeros(c, CJ_SHAPE(3, 3), CJ_F32)));
    assert_refused(CJ_EVALUE, "cj_augment: .flip of 0 or more", cj_augment(x, .flip = 1.5));
    cj_tensor *many = cj_augment(cj_zeros(c, CJ_SHAPE(100, 1, 10, 10), CJ_F32), .seed = 1, .noise = 0.5);
    assert_near(cj_item(cj_mean(many)), 0, 0.03);
    assert_near(cj_item(cj_mean(cj_square(many))), 0.25, 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aug_rotate),      cmocka_unit_test(aug_shear),
        cmocka_unit_test(shifts),          cmocka_unit_test(aug_photometric),
        cmocka_unit_test(aug_mask),        cmocka_unit_test(flips_and_crops),
        cmocka_unit_test(aug_flip),        cmocka_unit_test(aug_crop_pad),
        cmocka_unit_test(aug_translate),   cmocka_unit_test(aug_scale),
        cmocka_unit_test(aug_perspective), cmocka_unit_test(aug_lens),
        cmocka_unit_test(aug_pca_colour),  cmocka_unit_test(aug_noise),
        cmocka_unit_test(aug_threshold),   cmocka_unit_test(aug_blur),
        cmocka_unit_test(aug_background),  cmocka_unit_test(aug_occlusion),
        cmocka_unit_test(aug_geometric),   cmocka_unit_test(draws_depend_on_the_sample_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
