/* Generated sets: seeded, with the moments, margins and laws that src/data/synthetic.c names. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 3);

enum { N = 4000 };
static double *X, *Y;

static cj_dataset *make(const char *name, double noise)
{
    cj_dataset *d = cj_dataset_open(c, name, .n = N, .raw = true, .noise = noise, .seed = 11);
    if (!d) fail_msg("%s", cj_message(c));
    free(X), free(Y);
    X = values_of(d->x), Y = values_of(d->y);
    assert_int_equal(d->n, N);
    return d;
}

/* data.synthetic: every law by its numbers; five deviations where something is drawn */
static void data_synthetic(void **state)
{
    (void)state;
    const double five = 5 / sqrt(N);
    make("rings", CJ_ZERO);
    for (int i = 0; i < N; i++) assert_near(hypot(X[2 * i], X[2 * i + 1]), 1 + Y[i], 1e-5);
    make("xor", CJ_ZERO);
    for (int i = 0; i < N; i++) assert_true(Y[i] == (X[2 * i] != X[2 * i + 1]) && (X[2 * i] == 0 || X[2 * i] == 1));
    double s = 0, square = 0, low = 1e9;
    make("margin", 0);
    for (int i = 0; i < N; i++) low = fmin(low, (2 * Y[i] - 1) * (X[2 * i] + X[2 * i + 1]) / sqrt(2));
    assert_true(low >= 0.5 - 1e-6 && low < 0.51); /* the margin, and it is reached */
    make("sines", CJ_ZERO);
    for (int i = 0; i < N; i++) {
        double a = X[2 * i], b = X[2 * i + 1];
        assert_near(Y[i], sin(a + 2 * b) - 0.5 * sin(2 * a - b) + 2 * sin(0.5 * a + 0.5 * b) + 0.3, 1e-5);
    }
    for (int noisy = 0; noisy < 2; noisy++) {
        make("polynomial", noisy ? 0.2 : CJ_ZERO);
        for (int i = 0; i < N; i++) {
            double gap = Y[i] - (1 - 2 * X[i] + 3 * X[i] * X[i] * X[i]);
            assert_true(fabs(X[i]) <= 1 && (noisy || fabs(gap) < 1e-5));
            s += gap / N, square += gap * gap / N;
        }
    }
    assert_near(s, 0, five * 0.2);
    assert_near(square, 0.04, five * 0.04 * sqrt(2));
    make("wave", CJ_ZERO);
    for (int i = 0; i < N; i++) assert_near(Y[i], 2 * sin(X[i]) + X[i], 1e-5);
    make("wedge", 0.5); /* (y - x)/(0.1 + x) has deviation 0.5 in both halves */
    double half[2] = { 0 }, count[2] = { 0 };
    for (int i = 0; i < N; i++) {
        double z = (Y[i] - X[i]) / (0.1 + X[i]);
        half[X[i] > 0.5] += z * z, count[X[i] > 0.5]++;
    }
    for (int k = 0; k < 2; k++) assert_near(half[k] / count[k], 0.25, 5 * 0.25 * sqrt(2 / count[k]));
    make("outliers", CJ_ZERO);
    for (int i = 0; i < N; i++) assert_near(Y[i], 2 * X[i] + 1 + (i % 10 == 9 ? 10 : 0), 1e-5);
    make("gumbel", 0); /* mean Euler's constant, variance pi²/6, kurtosis 5.4 */
    s = square = 0;
    for (int i = 0; i < N; i++) s += Y[i] / N;
    for (int i = 0; i < N; i++) square += (Y[i] - s) * (Y[i] - s) / N;
    assert_near(s, 0.57721566, five * sqrt(M_PI * M_PI / 6));
    assert_near(square, M_PI * M_PI / 6, five * M_PI * M_PI / 6 * sqrt(4.4));
    make("random", 0);
    double ones = 0, product = 0;
    for (int i = 0; i < N; i++) ones += Y[i] / N, product += (Y[i] - 0.5) * X[10 * i] / N;
    assert_near(ones, 0.5, five * 0.5);
    assert_near(product, 0, five * 0.5);
    make("heights", 0);
    double mean[2] = { 0 };
    for (int i = 0; i < N; i++) mean[(int)Y[i]] += X[i] / (N / 2);
    assert_near(mean[0], 165, 5 * 7 / sqrt(N / 2));
    assert_near(mean[1], 178, 5 * 7 / sqrt(N / 2));
    make("cars", CJ_ZERO);
    for (int i = 0; i < N; i++) {
        assert_true(X[2 * i + 1] == 1 || X[2 * i + 1] == 2 || X[2 * i + 1] == 3 || X[2 * i + 1] == 4);
        assert_near(Y[i], 20 + 0.3 * (X[2 * i] - 25) - 2.5 * X[2 * i + 1], 1e-4);
    }
    free(X), free(Y);
    X = Y = NULL;
    /* oranges: without roughness an orange image has pi r² orange pixels, 10 <= r <= 25, the others none */
    cj_dataset *d = cj_dataset_open(c, "oranges", .n = 20, .noise = CJ_ZERO);
    assert_true(d->channels == 3 && d->height == 100 && d->width == 100 && d->features == 30000);
    double *x = values_of(d->x), *y = values_of(d->y);
    for (int i = 0; i < 20; i++) {
        int orange = 0;
        for (int k = 0; k < 10000; k++) orange += x[i * 30000 + k] == 1;
        if (y[i] == 0) assert_int_equal(orange, 0);
        else assert_true(orange > 0.9 * M_PI * 100 && orange < 1.1 * M_PI * 625);
    }
    free(x), free(y);
}

static void seeded(void **state)
{
    (void)state;
    int n;
    const cj_dataset_info *list = cj_dataset_list(&n);
    const char *const names[] = { "rings",    "margin", "sines",  "polynomial", "wave",    "wedge",
                                  "outliers", "gumbel", "random", "oranges",    "heights", "cars" };
    for (int i = 0; i < 12; i++) {
        bool listed = false;
        for (int k = 0; k < n; k++) listed = listed || strcmp(list[k].name, names[i]) == 0;
        assert_true(listed);
        cj_dataset *a = cj_dataset_open(c, names[i], .n = 20, .seed = 4), *b = cj_dataset_open(c, names[i], .n = 20, .seed = 4),
                   *other = cj_dataset_open(c, names[i], .n = 20, .seed = 5);
        assert_true(same_bits(a->x, b->x) && same_bits(a->y, b->y) && !same_bits(a->x, other->x));
        cj_dataset_free(a), cj_dataset_free(b), cj_dataset_free(other);
        assert_refused(CJ_EVALUE, "with noise -1", cj_dataset_open(c, names[i], .noise = -1));
        assert_refused(CJ_EVALUE, "of -3 rows", cj_dataset_open(c, names[i], .n = -3));
    }
    assert_refused(CJ_EVALUE, "rings of 11 classes", cj_dataset_open(c, "rings", .classes = 11));
    cj_dataset *d = cj_dataset_open(c, "rings", .classes = 4, .n = 40);
    assert_int_equal(d->classes, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(data_synthetic), cmocka_unit_test(seeded) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
