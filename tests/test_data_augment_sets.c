/* Augmentation of whole sets: doubled sets, mixed pairs, and what a fit to augmented data learns. */
#include <fcntl.h>
#include <unistd.h>

#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 3);

/* aug.dataset: 2n rows, labels kept, the identity leaves the loss, the same seed the same set; and a sheet of every transform */
static void aug_dataset(void **state)
{
    (void)state;
    cj_tensor *x = cj_rand(c, CJ_SHAPE(30, 3, 8, 8)), *y = cj_randint(c, 0, 5, CJ_SHAPE(30)), *xx, *yy, *again, *unused;
    assert_true(cj_augment_set(x, y, &xx, &yy, .seed = 2, .rotate = 20, .noise = 0.1));
    assert_true(cj_size(xx, 0) == 60 && cj_size(yy, 0) == 60);
    assert_true(same_bits(cj_contiguous(cj_slice(xx, 0, 0, 30, 1)), x));
    assert_true(same_bits(cj_contiguous(cj_slice(yy, 0, 0, 30, 1)), y) && same_bits(cj_contiguous(cj_slice(yy, 0, 30, 60, 1)), y));
    assert_true(distance(cj_slice(xx, 0, 30, 60, 1), x) > 0.1);
    assert_true(cj_augment_set(x, y, &again, &unused, .seed = 2, .rotate = 20, .noise = 0.1) && same_bits(again, xx));
    assert_true(cj_augment_set(x, y, &again, &unused, .seed = 3, .rotate = 20, .noise = 0.1) && !same_bits(again, xx));
    /* the mean loss over T(D) ∪ D with T the identity is that over D */
    cj_tensor *w = cj_randn(c, CJ_SHAPE(192, 5));
    assert_true(cj_augment_set(x, y, &xx, &yy));
    double once = cj_item(cj_cross_entropy(cj_matmul(cj_reshape(x, CJ_SHAPE(30, 192)), w), y)),
           twice = cj_item(cj_cross_entropy(cj_matmul(cj_reshape(xx, CJ_SHAPE(60, 192)), w), yy));
    assert_near(once, twice, 1e-5 * fabs(once));
    /* probability: a quarter of the images is mirrored */
    cj_tensor *pairs = cj_from_f32(c, (float[]){ 0, 1 }, CJ_SHAPE(1, 1, 1, 2)), *many[200];
    for (int i = 0; i < 200; i++) many[i] = pairs;
    double turned = cj_item(cj_mean(cj_slice(cj_augment(cj_cat(many, 200, 0), .seed = 1, .flip = 0.25), 3, 0, 1, 1)));
    assert_near(turned, 0.25, 5 * sqrt(0.25 * 0.75 / 200));
    /* the sheet */
    double axes[9];
    cj_tensor *one = cj_slice(x, 0, 0, 1, 1), *base = cj_contiguous(one);
    assert_true(cj_colour_axes(x, axes));
    cj_tensor *sheet[] = { base,
                           cj_augment(base, .flip = 1),
                           cj_augment(base, .flip_vertical = 1),
                           cj_augment(base, .pad = 2, .pad_mode = CJ_PAD_REFLECT),
                           cj_augment(base, .rotate = 30),
                           cj_augment(base, .scale = 0.3),
                           cj_augment(base, .shear = 0.5),
                           cj_augment(base, .perspective = 0.3),
                           cj_augment(base, .lens = 0.3),
                           cj_augment(base, .blur = 2),
                           cj_augment(base, .contrast = 0.5, .brightness = 0.3, .low = 0, .high = 1),
                           cj_augment(base, .colour = 1, .colour_axes = axes),
                           cj_augment(base, .noise = 0.2),
                           cj_augment(base, .mask = 3),
                           cj_permute_pixels(base, 1, false),
                           cj_channel_threshold(base, (double[]){ 0.5, 0.5, 0.5 }, 1) };
    enum { SHEET = sizeof sheet / sizeof sheet[0] };
    double *v = values_of(cj_cat(sheet, SHEET, 0));
    for (int i = 1; i < SHEET; i++) assert_true(distance(sheet[i], base) > 1e-3); /* each does something */
#if defined CJ_HAVE_PNG
    char path[] = "/tmp/cajal-gallery-XXXXXX.png";
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    cj_plot *p = cj_plot_new(c, "augmentation");
    assert_true(cj_plot_images(p, v, SHEET, 3, 8, 8) && cj_plot_save(p, path));
    cj_plot_free(p);
    close(fd);
    fd = open(path, O_RDONLY); /* what was written was renamed into place */
    assert_true(lseek(fd, 0, SEEK_END) > 100);
    close(fd);
    remove(path);
    memcpy(strrchr(path, '.'), ".tsv", 4); /* the numbers beside the picture */
    assert_int_equal(remove(path), 0);
#endif
    free(v);
    assert_refused(CJ_ESHAPE, "different numbers of rows", cj_augment_set(x, cj_slice(y, 0, 0, 3, 1), &xx, &yy));
}

/* Mixed pairs: convex combinations with λ of mean 1/2 and variance 1/(4 (2α + 1)); cut ones have every pixel from one of the two, labels by area. */
static void mixed_pairs(void **state)
{
    (void)state;
    enum { N = 2000 };
    float *v = calloc(N * 36, sizeof *v), *l = calloc(N * 2, sizeof *l);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 36; k++) v[i * 36 + k] = (float)(i % 2);
        l[2 * i + i % 2] = 1;
    }
    cj_tensor *x = cj_from_f32(c, v, CJ_SHAPE(N, 1, 6, 6)), *y = cj_from_f32(c, l, CJ_SHAPE(N, 2)), *xx, *yy;
    assert_true(cj_mix(x, y, &xx, &yy, .seed = 4, .alpha = 0.4));
    double *a = values_of(xx), *b = values_of(yy), square = 0;
    int mixed = 0;
    for (int i = 0; i < N; i++) {
        assert_near(b[2 * i] + b[2 * i + 1], 1, 1e-6);
        assert_near(a[i * 36], b[2 * i + 1], 1e-6); /* pixel = λ 1 + (1-λ) 0 = the share of class 1 */
        if (a[i * 36] == i % 2) continue;           /* (almost always) a partner of its own class */
        mixed++;
        square += (a[i * 36] - 0.5) * (a[i * 36] - 0.5);
    }
    assert_true(abs(mixed - N / 2) < 5 * sqrt(N / 4.0) + N / 50);
    assert_near(square / mixed, 1 / (4 * 1.8), 0.015);
    free(a), free(b);
    assert_true(cj_mix(x, y, &xx, &yy, .seed = 4, .cut = true));
    a = values_of(xx), b = values_of(yy);
    for (int i = 0; i < N; i++) {
        double ones = 0;
        for (int k = 0; k < 36; k++) {
            assert_true(a[i * 36 + k] == 0 || a[i * 36 + k] == 1);
            ones += a[i * 36 + k];
        }
        assert_near(b[2 * i + 1], ones / 36, 1e-6);
    }
    free(a), free(b), free(v), free(l);
    assert_refused(CJ_ESHAPE, "cj_mix: y f32", cj_mix(x, x, &xx, &yy));
    assert_refused(CJ_EVALUE, "an alpha above 0", cj_mix(x, y, &xx, &yy, .alpha = -1));
}

/* Least squares with 1, x, x², x³ (normal equations, Gauss). */
static void fit_cubic(const double *x, const double *y, int n, double w[4])
{
    double a[4][5] = { { 0 } };
    for (int i = 0; i < n; i++) {
        double p[4] = { 1, x[i], x[i] * x[i], x[i] * x[i] * x[i] };
        for (int k = 0; k < 4; k++) {
            for (int j = 0; j < 4; j++) a[k][j] += p[k] * p[j];
            a[k][4] += p[k] * y[i];
        }
    }
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++) {
            double f = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < 5 && i != k; j++) a[i][j] -= f * a[k][j];
        }
    for (int k = 0; k < 4; k++) w[k] = a[k][4] / a[k][k];
}

/* A cubic through y = x³ whose inputs are shifted by ± s with the label kept: as s grows its curvature falls and its error on the law rises; where the test
 * data are shifted as well, the augmented fit is the better one. */
static void regression(double strength, double *curvature, double *clean, double *shifted)
{
    enum { N = 200, COPIES = 50 };
    static double x[N * COPIES], y[N * COPIES];
    double w[4], *u = values_of(cj_augment(cj_zeros(c, CJ_SHAPE(N * COPIES, 1, 1, 1), CJ_F32), .seed = 5, .noise = 1));
    double *fresh = values_of(cj_augment(cj_zeros(c, CJ_SHAPE(N * COPIES, 1, 1, 1), CJ_F32), .seed = 6, .noise = 1));
    for (int i = 0; i < N * COPIES; i++) {
        double t = -1 + 2 * (i % N + 0.5) / N;
        x[i] = t + strength * u[i];
        y[i] = t * t * t;
    }
    fit_cubic(x, y, N * COPIES, w);
    *curvature = *clean = *shifted = 0;
    for (int i = 0; i < N * COPIES; i++) {
        double t = -1 + 2 * (i % N + 0.5) / N, s = t + 0.6 * fresh[i];
        double at = w[0] + t * (w[1] + t * (w[2] + t * w[3])), moved = w[0] + s * (w[1] + s * (w[2] + s * w[3]));
        *curvature += fabs(2 * w[2] + 6 * w[3] * t) / (N * COPIES);
        *clean += (at - t * t * t) * (at - t * t * t) / (N * COPIES);
        *shifted += (moved - t * t * t) * (moved - t * t * t) / (N * COPIES);
    }
    free(u), free(fresh);
}

/* aug.regression */
static void aug_regression(void **state)
{
    (void)state;
    double curvature[3], clean[3], shifted[3];
    for (int k = 0; k < 3; k++) regression((double[]){ 0, 0.15, 0.6 }[k], &curvature[k], &clean[k], &shifted[k]);
    assert_near(clean[0], 0, 1e-9);
    assert_near(curvature[0], 3, 0.01);                                                                                 /* mean of 6 |x| */
    assert_true(curvature[1] < 0.7 * curvature[0] && curvature[2] < 0.1 * curvature[0] && curvature[2] < curvature[1]); /* nearly a line */
    assert_true(clean[1] > 1e-3 && clean[2] > clean[1]);
    assert_true(shifted[2] < shifted[1] && shifted[1] < shifted[0]); /* test data that are shifted, too */
}

/* aug.regression_toy: the same experiment under its other row */
static void aug_regression_toy(void **state) { aug_regression(state); }

/* Cows: 4 x 4 images of a weak, honest object (2 pixels) on a background whose brightness goes with the class in 95 of 100 training images and in none of the
 * test images.  A linear classifier by gradient descent, with and without other backgrounds. */
enum { COWS = 1000 };
static void cows(uint64_t seed, double agree, float *x, float *m, double *t)
{
    double *u = values_of((cj_augment)(cj_zeros(c, CJ_SHAPE(COWS, 1, 1, 18), CJ_F32), &(cj_augment_opts){ .seed = seed, .noise = 1 }));
    for (int i = 0; i < COWS; i++) {
        int class = i % 2, sky = i / 2 % 100 < 100 * agree ? class : !class;
        t[i] = class ? 1 : -1;
        for (int k = 0; k < 16; k++) {
            bool object = k == 5 || k == 6;
            m[i * 16 + k] = object;
            x[i * 16 + k] = (float)(object ? 0.5 + 0.1 * t[i] + 0.03 * u[i * 18 + k] : 0.5 + (sky ? 0.3 : -0.3) + 0.1 * u[i * 18 + k]);
        }
    }
    free(u);
}

static double cow_accuracy(cj_tensor *train, const double *t, cj_tensor *test, const double *s)
{
    double w[17] = { 0 }, *x = values_of(train), *z = values_of(test), right = 0;
    for (int step = 0; step < 100; step++) {
        double g[17] = { 0 };
        for (int i = 0; i < COWS; i++) {
            double out = w[16];
            for (int k = 0; k < 16; k++) out += w[k] * (x[i * 16 + k] - 0.5);
            double slope = -t[i] / (1 + exp(t[i] * out)) / COWS;
            for (int k = 0; k < 16; k++) g[k] += slope * (x[i * 16 + k] - 0.5);
            g[16] += slope;
        }
        for (int k = 0; k < 17; k++) w[k] -= 1.0 * g[k];
    }
    for (int i = 0; i < COWS; i++) {
        double out = w[16];
        for (int k = 0; k < 16; k++) out += w[k] * (z[i * 16 + k] - 0.5);
        right += (out > 0) == (s[i] > 0);
    }
    free(x), free(z);
    return right / COWS;
}

/* aug.cow */
static void aug_cow(void **state)
{
    (void)state;
    static float x[COWS * 16], m[COWS * 16], z[COWS * 16];
    static double t[COWS], s[COWS];
    cows(1, 0.95, x, m, t);
    cows(2, 0.05, z, m, s); /* the backgrounds have changed sides */
    cj_tensor *train = cj_from_f32(c, x, CJ_SHAPE(COWS, 1, 4, 4)), *test = cj_from_f32(c, z, CJ_SHAPE(COWS, 1, 4, 4));
    cj_tensor *mask = cj_from_f32(c, m, CJ_SHAPE(COWS, 1, 4, 4));
    double without = cow_accuracy(train, t, test, s);
    double with = cow_accuracy(cj_replace_background(train, mask, train, .seed = 3), t, test, s);
    assert_true(without < 0.2); /* the spurious rate is 0.05 */
    assert_true(with > 0.95);   /* the object alone: 4.7 deviations from the border */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aug_dataset),        cmocka_unit_test(mixed_pairs), cmocka_unit_test(aug_regression),
        cmocka_unit_test(aug_regression_toy), cmocka_unit_test(aug_cow),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
