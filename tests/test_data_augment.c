/* Augmentation: maps that are exact, maps and their inverses, draws that depend on the sample alone, the catalogue's rows. */
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

/* aug.photometric: nothing at b = 0, c = 1; the mean moves by b, the deviation grows c times (clipping is left to the caller) */
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
    assert_refused(CJ_EVALUE, "probabilities of 0 … 1", cj_augment(x, .flip = 1.5));
    cj_tensor *many = cj_augment(cj_zeros(c, CJ_SHAPE(100, 1, 10, 10), CJ_F32), .seed = 1, .noise = 0.5);
    assert_near(cj_item(cj_mean(many)), 0, 0.03);
    assert_near(cj_item(cj_mean(cj_square(many))), 0.25, 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aug_rotate),
        cmocka_unit_test(aug_shear),
        cmocka_unit_test(shifts),
        cmocka_unit_test(aug_photometric),
        cmocka_unit_test(aug_mask),
        cmocka_unit_test(flips_and_crops),
        cmocka_unit_test(draws_depend_on_the_sample_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
