/* Catalogue rows of kernels: functions, features, Gram machines, strings, smoothing. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 43);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static const cj_kernel linear = { .kind = CJ_KERNEL_LINEAR }, square = { .kind = CJ_KERNEL_POLYNOMIAL },
                       gauss = { .kind = CJ_KERNEL_GAUSSIAN };

/* Two rings (radius 1: +1, radius 2: -1) and the four corners of exclusive or. */
enum { RING = 40 };
static void rings(cj_tensor **x, cj_tensor **y)
{
    double v[2 * RING], sign[RING];
    for (int i = 0; i < RING; i++) {
        double r = i % 2 ? 1 : 2, a = 2 * M_PI * i / RING;
        v[2 * i] = r * cos(a), v[2 * i + 1] = r * sin(a), sign[i] = i % 2 ? 1 : -1;
    }
    *x = f64(c, v, CJ_SHAPE(RING, 2)), *y = f64(c, sign, CJ_SHAPE(RING));
}
static cj_tensor *corners(void) { return F64(c, CJ_SHAPE(4, 2), -1, -1, -1, 1, 1, -1, 1, 1); }
static cj_tensor *exor(void) { return F64(c, CJ_SHAPE(4), -1, 1, 1, -1); }
/* wrong signs of a machine on the rows of x */
static int wrong(const cj_kernel_machine *m, cj_kernel k, cj_tensor *x, cj_tensor *y, cj_tensor *at, cj_tensor *truth)
{
    return (int)cj_item(cj_sum(cj_le_scalar(cj_mul(cj_kernel_scores(m, cj_gram(k, at, x), y), truth), 0)));
}

static void kern_functions(void **state) /* kern.functions */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(15, 3)), *z = normal(CJ_SHAPE(4, 3));
    const cj_kernel k[] = {
        linear, square, { CJ_KERNEL_GAUSSIAN, .width = 0.8 }, { CJ_KERNEL_LAPLACE, .width = 1.5 }, { CJ_KERNEL_BOX, .width = 1 }
    };
    double *a = values_of(x), *b = values_of(z);
    for (int i = 0; i < 5; i++) {
        cj_tensor *gram = cj_gram(k[i], x, x);
        assert_near(distance(gram, cj_t(gram)), 0, 1e-15);
        if (i < 4) assert_true(cj_item(cj_min(cj_eigvalsh(gram))) >= -1e-10);
        double *g = values_of(cj_gram(k[i], x, z));
        for (int n = 0; n < 15; n++)
            for (int m = 0; m < 4; m++) {
                double dot = 0, far = 0;
                for (int d = 0; d < 3; d++) dot += a[3 * n + d] * b[3 * m + d], far += pow(a[3 * n + d] - b[3 * m + d], 2);
                const double expected[] = { dot, (dot + 1) * (dot + 1), exp(-far / (2 * 0.64)), exp(-sqrt(far) / 1.5), far <= 1 };
                assert_near(g[n * 4 + m], expected[i], 1e-12 * (1 + fabs(expected[i])));
            }
        free(g);
    }
    free(a), free(b);
    cj_tensor *box = cj_gram((cj_kernel){ CJ_KERNEL_BOX, .width = 1 }, F64(c, CJ_SHAPE(3, 1), 0, 1, 2), F64(c, CJ_SHAPE(3, 1), 0, 1, 2));
    assert_near(cj_item(cj_min(cj_eigvalsh(box))), 1 - sqrt(2), 1e-12);
    assert_near(cj_item(cj_min(cj_eigvalsh(box))), -0.4142, 5e-5);
    assert_poisoned(CJ_EVALUE, "gram: width -1", cj_gram((cj_kernel){ CJ_KERNEL_GAUSSIAN, .width = -1 }, x, z));
    assert_poisoned(CJ_ESHAPE, "gram:", cj_gram(gauss, x, normal(CJ_SHAPE(4, 2))));
    cj_scope_close(s);
}

static void kern_feature_maps(void **state) /* kern.feature_maps */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *one = cj_polynomial_features(F64(c, CJ_SHAPE(1, 1), 3), 2);
    assert_near(distance(one, F64(c, CJ_SHAPE(1, 3), 1, sqrt(2) * 3, 9)), 0, 1e-13); /* 1, sqrt 2 x, x² */
    double *two = values_of(cj_polynomial_features(F64(c, CJ_SHAPE(1, 2), 2, -3), 2)), sum = 0;
    const double expected[6] = { 1, sqrt(2) * 2, sqrt(2) * -3, sqrt(2) * -6, 4, 9 };
    for (int i = 0; i < 6; i++) { /* in whatever order */
        double nearest = INFINITY;
        for (int k = 0; k < 6; k++) nearest = fmin(nearest, fabs(two[k] - expected[i]));
        assert_near(nearest, 0, 1e-13);
        sum += two[i] * two[i];
    }
    assert_near(sum, 14 * 14, 1e-12);
    free(two);
    cj_tensor *x = normal(CJ_SHAPE(6, 2)), *phi = cj_polynomial_features(x, 2);
    assert_int_equal(cj_size(phi, 1), 6);
    assert_near(distance(cj_matmul(phi, cj_t(phi)), cj_gram(square, x, x)), 0, 1e-12);
    cj_tensor *small = cj_mul_scalar(normal(CJ_SHAPE(5, 3)), 0.3), *ten = cj_polynomial_features(small, 10);
    assert_int_equal(cj_size(ten, 1), 286);
    cj_kernel tenth = { CJ_KERNEL_POLYNOMIAL, .degree = 10 };
    assert_near(distance(cj_matmul(ten, cj_t(ten)), cj_gram(tenth, small, small)), 0, 1e-10);
    assert_poisoned(CJ_EVALUE, "polynomial_features: degree 0", cj_polynomial_features(x, 0));
    cj_scope_close(s);
}

static void kern_feature_perceptron(void **state) /* kern.feature_perceptron */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x, *y, *ones = cj_ones(c, CJ_SHAPE(RING, 1), CJ_F64);
    rings(&x, &y);
    cj_tensor *flat[] = { x, ones };
    assert_false(cj_perceptron(cj_cat(flat, 2, 1), y, .updates = 2000).separated);
    assert_false(cj_separable(x, y, true));
    cj_separator lifted = cj_perceptron(cj_polynomial_features(x, 2), y);
    assert_true(lifted.separated);
    /* the curve w·phi = 0 is a conic: a quadratic along every line, so that third differences vanish */
    double f[4];
    for (int i = 0; i < 4; i++)
        f[i] = cj_item(cj_matmul(cj_polynomial_features(F64(c, CJ_SHAPE(1, 2), 0.3 + 0.4 * i, -1 + 0.7 * i), 2), lifted.weight));
    assert_near(f[3] - 3 * f[2] + 3 * f[1] - f[0], 0, 1e-9);
    cj_scope_close(s);
}

static void kern_perceptron(void **state) /* kern.perceptron */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(30, 3)), *w = F64(c, CJ_SHAPE(3), 1, -2, 0.5), *y = cj_sign(cj_matmul(x, w));
    cj_separator primal = cj_perceptron(x, y);
    cj_kernel_machine dual = cj_kernel_perceptron(cj_gram(linear, x, x), y, 0);
    assert_true(primal.separated && dual.converged && primal.updates == dual.updates);
    assert_near(distance(primal.alpha, dual.alpha), 0, 0);
    cj_tensor *ring, *side;
    rings(&ring, &side);
    cj_separator lifted = cj_perceptron(cj_polynomial_features(ring, 2), side);
    cj_kernel_machine poly = cj_kernel_perceptron(cj_gram(square, ring, ring), side, 0);
    assert_int_equal(lifted.updates, poly.updates);
    assert_near(distance(lifted.alpha, poly.alpha), 0, 0); /* mistake by mistake */
    cj_kernel narrow = { CJ_KERNEL_GAUSSIAN, .width = 0.5 };
    cj_kernel_machine rbf = cj_kernel_perceptron(cj_gram(narrow, ring, ring), side, 0);
    assert_int_equal(wrong(&rbf, narrow, ring, side, ring, side), 0);
    cj_kernel_machine four = cj_kernel_perceptron(cj_gram(narrow, corners(), corners()), exor(), 0);
    assert_int_equal(wrong(&four, narrow, corners(), exor(), corners(), exor()), 0);
    assert_false(cj_kernel_perceptron(cj_gram(linear, corners(), corners()), exor(), 50).converged);
    assert_refused(CJ_ESHAPE, "kernel_perceptron: the Gram matrix", cj_kernel_perceptron(x, y, 0).updates);
    assert_refused(CJ_EVALUE, "kernel_perceptron: target 0 is 0", cj_kernel_perceptron(cj_gram(linear, x, x), cj_zeros_like(y), 0).updates);
    cj_scope_close(s);
}

static void kern_gram(void **state) /* kern.gram */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x, *y;
    rings(&x, &y);
    for (int i = 0; i < 3; i++) {
        const cj_kernel k[] = { square, { CJ_KERNEL_GAUSSIAN, .width = 0.5 }, { CJ_KERNEL_LAPLACE, .width = 0.5 } };
        cj_kernel_machine stored = cj_kernel_perceptron(cj_gram(k[i], x, x), y, 0), online = cj_kernel_perceptron_online(k[i], x, y, 0);
        assert_int_equal(stored.updates, online.updates);
        assert_near(distance(stored.alpha, online.alpha), 0, 0);
    }
    size_t before = cj_memory_stats(c).live;
    cj_tensor *big = normal(CJ_SHAPE(200, 2)), *gram = cj_gram(linear, big, big);
    assert_int_equal(cj_numel(gram) * 8, 8 * 200 * 200); /* 8·n² bytes; n = 10^6: 8·10^12 */
    assert_true(cj_memory_stats(c).live - before >= 8 * 200 * 200);
    /* numbers to store: n² of the Gram matrix against n·C(d + q, q) of features; the features win from n = C(d + q, q) on */
    print_message("   d  q   features = examples at which both need the same memory\n");
    for (int d = 2; d <= 8; d += 3)
        for (int q = 2; q <= 4; q++) {
            int64_t features = cj_size(cj_polynomial_features(cj_zeros(c, CJ_SHAPE(1, d), CJ_F64), q), 1), expected = 1;
            for (int i = 1; i <= q; i++) expected = expected * (d + i) / i;
            assert_int_equal(features, expected);
            print_message("%4d %2d   %lld\n", d, q, (long long)features);
        }
    cj_scope_close(s);
}

static void kern_nystrom(void **state) /* kern.nystrom */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(60, 3)), *flat = cj_gram(linear, x, x), *phi = cj_nystrom_features(linear, cj_slice(x, 0, 0, 3, 1), x);
    assert_near(distance(cj_matmul(phi, cj_t(phi)), flat), 0, 1e-8); /* three marks span rank 3 */
    cj_kernel k = { CJ_KERNEL_GAUSSIAN, .width = 1 };
    cj_tensor *gram = cj_gram(k, x, x), *values = cj_svdvals(gram);
    double before = INFINITY;
    for (int m = 5; m <= 60; m += 11) {
        cj_tensor *f = cj_nystrom_features(k, cj_slice(x, 0, 0, m, 1), x);
        double error = cj_item(cj_matrix_norm(cj_sub(cj_matmul(f, cj_t(f)), gram), CJ_NORM_FRO)),
               best = m < 60 ? cj_item(cj_norm(cj_slice(values, 0, m, 60, 1), 2)) : 0;
        assert_true(error <= before + 1e-9 && error >= best - 1e-9);
        before = error;
    }
    assert_near(before, 0, 1e-6);
    /* a classifier on the features of half the points and one on the full matrix */
    cj_tensor *ring, *side;
    rings(&ring, &side);
    cj_kernel narrow = { CJ_KERNEL_GAUSSIAN, .width = 0.7 };
    cj_tensor *test = cj_add(cj_index_select(ring, 0, cj_arange(c, 0, RING, 1, CJ_I64)), cj_mul_scalar(normal(CJ_SHAPE(RING, 2)), 0.1)),
              *f = cj_nystrom_features(narrow, cj_slice(ring, 0, 0, RING / 2, 1), ring),
              *ft = cj_nystrom_features(narrow, cj_slice(ring, 0, 0, RING / 2, 1), test);
    cj_kernel_machine full = cj_svm(cj_gram(narrow, ring, ring), side, .c = 10), low = cj_svm(cj_matmul(f, cj_t(f)), side, .c = 10);
    int a = wrong(&full, narrow, ring, side, test, side),
        b = (int)cj_item(cj_sum(cj_le_scalar(cj_mul(cj_kernel_scores(&low, cj_matmul(ft, cj_t(f)), side), side), 0)));
    assert_int_equal(a, 0);
    assert_int_equal(b, 0);
    cj_scope_close(s);
}

/* logistic steps on rows phi: w += rate·y sigmoid(-y w·phi) phi */
static double *primal_logistic(const double *phi, const double *y, int n, int d, double rate, int steps)
{
    double *w = calloc((size_t)d, sizeof *w);
    for (int t = 0; t < steps; t++) {
        const double *row = phi + t % n * d;
        double f = 0, target = y[t % n];
        for (int j = 0; j < d; j++) f += w[j] * row[j];
        for (int j = 0; j < d; j++) w[j] += rate * target / (1 + exp(target * f)) * row[j];
    }
    return w;
}

static void kern_logistic(void **state) /* kern.logistic */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(20, 3)), *y = cj_sign(normal(CJ_SHAPE(20)));
    double *target = values_of(y);
    for (int lifted = 0; lifted < 2; lifted++) {
        cj_tensor *phi = lifted ? cj_polynomial_features(x, 2) : x;
        int d = (int)cj_size(phi, 1);
        double *rows = values_of(phi);
        for (int steps = 1; steps <= 201; steps += 40) { /* along the way, not only at its end */
            double *w = primal_logistic(rows, target, 20, d, 0.1, steps);
            cj_kernel k = lifted ? square : linear;
            cj_kernel_machine m = cj_kernel_logistic(cj_gram(k, x, x), y, 0.1, steps);
            assert_near(distance(cj_kernel_scores(&m, cj_gram(k, x, x), y), cj_matmul(phi, f64(c, w, CJ_SHAPE(d)))), 0, 1e-10);
            free(w);
        }
        free(rows);
    }
    free(target);
    assert_refused(CJ_EVALUE, "kernel_logistic: rate 0", cj_kernel_logistic(cj_gram(linear, x, x), y, 0, 1).updates);
    cj_scope_close(s);
}

static void kern_mercer_check(void **state) /* kern.mercer_check */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int trial = 0; trial < 10; trial++) {
        cj_tensor *x = normal(CJ_SHAPE(12, 2));
        assert_true(cj_mercer_defect(cj_gram(gauss, x, x)) >= -1e-10);
        assert_true(cj_mercer_defect(cj_gram(square, x, x)) >= -1e-10);
        assert_true(cj_mercer_defect(cj_gram((cj_kernel){ .kind = CJ_KERNEL_SQUARED }, x, x)) < -1e-3);
        assert_true(cj_mercer_defect(cj_gram((cj_kernel){ CJ_KERNEL_TANH, .offset = -1 }, x, x)) < -1e-3);
        double *u = values_of(normal(CJ_SHAPE(12))), form = 0, *g = values_of(cj_gram(gauss, x, x));
        for (int i = 0; i < 144; i++) form += u[i / 12] * g[i] * u[i % 12];
        assert_true(form >= 0);
        free(u), free(g);
    }
    /* a set that passes although the kernel is none: tanh(x·z - 1) at one far point; the box of far points */
    cj_tensor *far = F64(c, CJ_SHAPE(2, 1), 2, 2.1), *apart = F64(c, CJ_SHAPE(3, 1), 0, 5, 10), *near = F64(c, CJ_SHAPE(3, 1), 0, 1, 2);
    assert_true(
        cj_mercer_defect(cj_gram((cj_kernel){ CJ_KERNEL_TANH, .offset = -1 }, cj_slice(far, 0, 0, 1, 1), cj_slice(far, 0, 0, 1, 1))) > 0);
    assert_true(cj_mercer_defect(cj_gram((cj_kernel){ CJ_KERNEL_BOX, .width = 1 }, apart, apart)) > 0);
    assert_true(cj_mercer_defect(cj_gram((cj_kernel){ CJ_KERNEL_BOX, .width = 1 }, near, near)) < -0.4);
    /* exp(-edit distance / 4) of all strings of one, two and three letters is not positive semidefinite */
    enum { WORDS = 14 };
    char word[WORDS][4];
    int n = 0;
    for (int length = 1; length <= 3; length++)
        for (int code = 0; code < 1 << length; code++, n++) {
            for (int i = 0; i < length; i++) word[n][i] = code >> i & 1 ? 'b' : 'a';
            word[n][length] = 0;
        }
    assert_int_equal(n, WORDS);
    double least = INFINITY;
    for (double rate = 0.05; rate < 1; rate += 0.05) {
        double gram[WORDS * WORDS];
        for (int i = 0; i < WORDS * WORDS; i++) gram[i] = exp(-rate * (double)cj_edit_distance(word[i / WORDS], word[i % WORDS]));
        least = fmin(least, cj_mercer_defect(f64(c, gram, CJ_SHAPE(WORDS, WORDS))));
    }
    assert_true(least < -1e-4);
    cj_scope_close(s);
}

/* sum over pairs of equal subsequences of length k of decay^(spans), by their index sets */
static double subsequences(const char *a, const char *b, int k, double decay)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    double sum = 0;
    for (int u = 0; u < 1 << n; u++) {
        if (__builtin_popcount((unsigned)u) != k) continue;
        for (int v = 0; v < 1 << m; v++) {
            if (__builtin_popcount((unsigned)v) != k) continue;
            char p[16] = { 0 }, q[16] = { 0 };
            int i = 0, j = 0, first = -1, last = 0, from = -1, to = 0;
            for (int t = 0; t < n; t++)
                if (u >> t & 1) p[i++] = a[t], first = first < 0 ? t : first, last = t;
            for (int t = 0; t < m; t++)
                if (v >> t & 1) q[j++] = b[t], from = from < 0 ? t : from, to = t;
            if (!strcmp(p, q)) sum += pow(decay, last - first + 1 + to - from + 1);
        }
    }
    return sum;
}
static const char spam[] = "this string is interesting", odd[] = "txws sbhtqg is atso iyubqtnhpqg";
static void random_word(char *word, int most)
{
    int n = (int)cj_item(cj_randint(c, 1, most + 1, CJ_SCALAR));
    for (int i = 0; i < n; i++) word[i] = (char)('a' + (int)cj_item(cj_randint(c, 0, 3, CJ_SCALAR)));
    word[n] = 0;
}

static void kern_string(void **state) /* kern.string */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (double decay = 0.3; decay < 1; decay += 0.3) {
        assert_near(cj_subsequence_kernel("cat", "car", 2, decay), pow(decay, 4), 1e-15);
        assert_near(cj_subsequence_kernel("cat", "cat", 2, decay), 2 * pow(decay, 4) + pow(decay, 6), 1e-15);
        for (int trial = 0; trial < 10; trial++) {
            char a[8], b[8];
            random_word(a, 7), random_word(b, 7);
            for (int k = 1; k <= 4; k++) assert_near(cj_subsequence_kernel(a, b, k, decay), subsequences(a, b, k, decay), 1e-12);
        }
    }
    const int64_t expected[3] = { 63, 12, 5 };
    for (int k = 1; k <= 3; k++) assert_int_equal(cj_spectrum_kernel(spam, odd, k), expected[k - 1]);
    double alike =
        (double)cj_spectrum_kernel(spam, odd, 3) / sqrt((double)(cj_spectrum_kernel(spam, spam, 3) * cj_spectrum_kernel(odd, odd, 3)));
    assert_near(alike, 0.175, 5e-4);
    assert_int_equal(cj_spectrum_kernel("ab", "ab", 3), 0);
    assert_int_equal(cj_spectrum_kernel("ab", "ab", 0), -1);
    assert_true(isnan(cj_subsequence_kernel("ab", "ab", 0, 0.5)));
    cj_scope_close(s);
}

static void kern_edit_distance(void **state) /* kern.edit_distance */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_int_equal(cj_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(cj_edit_distance(spam, odd), 20);
    assert_int_equal(cj_edit_distance("", "abc"), 3);
    for (int trial = 0; trial < 200; trial++) {
        char a[9], b[9], d[9];
        random_word(a, 8), random_word(b, 8), random_word(d, 8);
        int64_t ab = cj_edit_distance(a, b);
        assert_true(ab >= 0 && (ab == 0) == !strcmp(a, b));
        assert_int_equal(ab, cj_edit_distance(b, a));
        assert_true(cj_edit_distance(a, d) <= ab + cj_edit_distance(b, d));
    }
    /* garbled advertisements against garbled other sentences, by the most similar known example */
    const char *known[2] = { "buy cheap watches now", "see you at lunch today" };
    int right = 0;
    enum { TRIALS = 100 };
    for (int trial = 0; trial < TRIALS; trial++) {
        char text[32];
        int kind = trial % 2;
        strcpy(text, known[kind]);
        for (int i = 0; i < 6; i++)
            text[(int)cj_item(cj_randint(c, 0, (int64_t)strlen(text), CJ_SCALAR))] =
                (char)('a' + (int)cj_item(cj_randint(c, 0, 26, CJ_SCALAR)));
        double alike[2];
        for (int k = 0; k < 2; k++) alike[k] = exp(-(double)cj_edit_distance(text, known[k]));
        right += (alike[1] > alike[0]) == kind;
    }
    assert_true(right > 65); /* chance: 50 with a deviation of 5 */
    cj_scope_close(s);
}

static void kern_random_features(void **state) /* kern.random_features */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 5, DRAWS = 200, P = 100 };
    const double width = 0.9;
    cj_tensor *x = normal(CJ_SHAPE(N, 2)), *gram = cj_gram((cj_kernel){ CJ_KERNEL_GAUSSIAN, .width = width }, x, x),
              *mean = cj_zeros_like(gram), *biased = cj_zeros_like(gram);
    for (int i = 0; i < DRAWS; i++) {
        cj_fourier f = cj_fourier_draw(c, 2, P, width, CJ_F64), flat = { f.frequency, cj_zeros_like(f.phase) };
        cj_tensor *phi = cj_fourier_features(&f, x), *without = cj_mul_scalar(cj_fourier_features(&flat, x), sqrt(0.5)); /* cos·cos alone */
        mean = cj_add(mean, cj_mul_scalar(cj_matmul(phi, cj_t(phi)), 1. / DRAWS));
        biased = cj_add(biased, cj_mul_scalar(cj_matmul(without, cj_t(without)), 1. / DRAWS));
    }
    double deviation = 2 / sqrt((double)DRAWS * P); /* each term lies in [-2, 2] */
    assert_near(distance(mean, gram), 0, 4 * deviation);
    cj_tensor *mirrored = cj_gram((cj_kernel){ CJ_KERNEL_GAUSSIAN, .width = width }, x, cj_neg(x)),
              *stated = cj_mul_scalar(cj_add(gram, mirrored), 0.5);
    assert_near(distance(biased, stated), 0, 4 * deviation);
    assert_true(distance(biased, gram) > 0.2);
    /* classification: errors on fresh points fall to those of the kernel machine as features are added */
    cj_tensor *ring, *side;
    rings(&ring, &side);
    cj_kernel k = { CJ_KERNEL_GAUSSIAN, .width = 0.7 };
    cj_tensor *fresh = cj_add(ring, cj_mul_scalar(normal(CJ_SHAPE(RING, 2)), 0.1));
    cj_kernel_machine full = cj_svm(cj_gram(k, ring, ring), side, .c = 10);
    int errors[2] = { 0 }, best = wrong(&full, k, ring, side, fresh, side);
    for (int trial = 0; trial < 10; trial++)
        for (int i = 0; i < 2; i++) {
            cj_fourier f = cj_fourier_draw(c, 2, i ? 400 : 2, 0.7, CJ_F64);
            cj_tensor *a = cj_fourier_features(&f, ring), *b = cj_fourier_features(&f, fresh);
            cj_kernel_machine m = cj_svm(cj_matmul(a, cj_t(a)), side, .c = 10, .tolerance = 1e-3, .iterations = 20000);
            errors[i] += (int)cj_item(cj_sum(cj_le_scalar(cj_mul(cj_kernel_scores(&m, cj_matmul(b, cj_t(a)), side), side), 0)));
        }
    assert_int_equal(best, 0);
    assert_true(errors[1] <= 8 && errors[0] > 5 * (errors[1] + 1)); /* of 400: at most 2 % beside 0 */
    assert_refused(CJ_EVALUE, "fourier_draw: 2 inputs, 0 features", cj_fourier_draw(c, 2, 0, 1, CJ_F64).phase);
    cj_scope_close(s);
}

static void kern_svm_linear(void **state) /* kern.svm_linear */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F64(c, CJ_SHAPE(2, 2), 1, 1, -1, -1), *y = F64(c, CJ_SHAPE(2), 1, -1);
    cj_kernel_machine m = cj_svm(cj_gram(linear, x, x), y, .c = 1e6);
    assert_near(distance(cj_matmul(cj_mul(m.alpha, y), x), F64(c, CJ_SHAPE(2), 0.5, 0.5)), 0, 1e-9);
    assert_near(m.bias, 0, 1e-9);
    /* overlapping clouds: gap, complementary slackness, and the primal optimum by subgradients (Pegasos) */
    enum { N = 60 };
    const double lambda = 0.1;
    cj_tensor *side = cj_sign(normal(CJ_SHAPE(N))), *points = cj_add(normal(CJ_SHAPE(N, 2)), cj_mul_scalar(cj_unsqueeze(side, 1), 0.8));
    cj_kernel_machine svm = cj_svm(cj_gram(linear, points, points), side, .c = 1 / (lambda * N));
    assert_true(svm.converged && svm.gap >= -1e-9 && svm.gap * lambda < 1e-4);
    double *a = values_of(svm.alpha), *v = values_of(points), *t = values_of(side),
           *w = values_of(cj_matmul(cj_mul(svm.alpha, side), points));
    double best = lambda / 2 * (w[0] * w[0] + w[1] * w[1]);
    for (int i = 0; i < N; i++) {
        double margin = t[i] * (w[0] * v[2 * i] + w[1] * v[2 * i + 1] + svm.bias);
        best += fmax(0, 1 - margin) / N;
        if (margin > 1 + 1e-4) assert_true(a[i] == 0); /* only support vectors count */
        if (margin < 1 - 1e-4) assert_near(a[i], 1 / (lambda * N), 1e-12);
    }
    double u[3] = { 0 }, found = INFINITY;
    for (int step = 1; step <= 20000; step++) {
        double g[3] = { lambda * u[0], lambda * u[1], 0 }, value = lambda / 2 * (u[0] * u[0] + u[1] * u[1]);
        for (int i = 0; i < N; i++) {
            double margin = t[i] * (u[0] * v[2 * i] + u[1] * v[2 * i + 1] + u[2]);
            value += fmax(0, 1 - margin) / N;
            if (margin < 1) g[0] -= t[i] * v[2 * i] / N, g[1] -= t[i] * v[2 * i + 1] / N, g[2] -= t[i] / N;
        }
        found = fmin(found, value);
        for (int k = 0; k < 3; k++) u[k] -= g[k] / (lambda * (step + 10));
    }
    assert_true(found >= best - 1e-6); /* nothing is below the dual's optimum */
    assert_near(found, best, 1e-3);
    free(a), free(v), free(t), free(w);
    cj_scope_close(s);
}

static void kern_svm_kernel(void **state) /* kern.svm_kernel */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *ring, *side;
    rings(&ring, &side);
    cj_kernel k = { CJ_KERNEL_GAUSSIAN, .width = 0.7 };
    cj_kernel_machine m = cj_svm(cj_gram(k, ring, ring), side, .c = 5), four = cj_svm(cj_gram(k, corners(), corners()), exor(), .c = 5);
    assert_int_equal(wrong(&m, k, ring, side, ring, side), 0);
    assert_int_equal(wrong(&four, k, corners(), exor(), corners(), exor()), 0);
    /* conditions: alpha 0 -> margin >= 1, inside -> 1, c -> <= 1; sum alpha y = 0 */
    cj_tensor *noise = cj_add(ring, cj_mul_scalar(normal(CJ_SHAPE(RING, 2)), 0.6)); /* overlapping: some at the bound */
    for (int i = 0; i < 2; i++) {
        cj_kernel_machine w = cj_svm(cj_gram(k, noise, noise), side, .c = 2);
        double *a = values_of(w.alpha), *f = values_of(cj_mul(cj_kernel_scores(&w, cj_gram(k, noise, noise), side), side)),
               sum = cj_item(cj_dot(w.alpha, side));
        assert_near(sum, 0, 1e-9);
        for (int n = 0; n < RING; n++) {
            assert_true(a[n] >= 0 && a[n] <= 2);
            if (a[n] < 2) assert_true(f[n] >= 1 - 1e-3);
            if (a[n] > 0) assert_true(f[n] <= 1 + 1e-3);
        }
        free(a), free(f);
        k = square;
    }
    /* linear kernel, separable data: the separator of largest margin */
    cj_tensor *x = F64(c, CJ_SHAPE(5, 2), 2, 2, 3, 1, -1, -2, -2, 0, 0.5, 3), *y = F64(c, CJ_SHAPE(5), 1, 1, -1, -1, 1);
    cj_separator hard = cj_hard_margin(x, y);
    cj_kernel_machine soft = cj_svm(cj_gram(linear, x, x), y, .c = 1e4, .tolerance = 1e-10);
    assert_near(distance(cj_matmul(cj_mul(soft.alpha, y), x), hard.weight), 0, 1e-6);
    assert_near(soft.bias, hard.bias, 1e-6);
    assert_refused(CJ_EVALUE, "svm: c -1", cj_svm(cj_gram(linear, x, x), y, .c = -1).updates);
    cj_scope_close(s);
}

static void kern_nadaraya_watson(void **state) /* kern.nadaraya_watson */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = normal(CJ_SHAPE(20, 2)), *y = normal(CJ_SHAPE(20)), *q = normal(CJ_SHAPE(7, 2));
    double low = cj_item(cj_min(y)), high = cj_item(cj_max(y)), mean = cj_item(cj_mean(y));
    const cj_kernel_kind kinds[] = { CJ_KERNEL_GAUSSIAN, CJ_KERNEL_LAPLACE, CJ_KERNEL_BOX };
    double *a = values_of(x), *b = values_of(q), *t = values_of(y);
    for (int i = 0; i < 3; i++) {
        cj_kernel k = { kinds[i], .width = i == 2 ? 4 : 0.6 }, wide = { kinds[i], .width = 1e7 }, narrow = { kinds[i], .width = 1e-5 };
        cj_tensor *w = cj_smoothing_weights(k, x, q), *f = cj_nadaraya_watson(k, x, y, q);
        assert_near(distance(cj_sum(w, .axes = CJ_AXIS(1)), cj_ones(c, CJ_SHAPE(7), CJ_F64)), 0, 1e-12);
        assert_true(cj_item(cj_min(f)) >= low - 1e-12 && cj_item(cj_max(f)) <= high + 1e-12);
        double *gram = values_of(cj_gram(k, q, x)), *got = values_of(f);
        for (int n = 0; n < 7; n++) {
            double top = 0, bottom = 0;
            for (int m = 0; m < 20; m++) top += gram[n * 20 + m] * t[m], bottom += gram[n * 20 + m];
            assert_near(got[n], top / bottom, 1e-10);
        }
        free(gram), free(got);
        assert_near(distance(cj_nadaraya_watson(wide, x, y, q), cj_full(c, mean, CJ_SHAPE(7), CJ_F64)), 0, 1e-5);
        if (i == 2) continue;
        double *nearest = values_of(cj_nadaraya_watson(narrow, x, y, q));
        for (int n = 0; n < 7; n++) {
            int best = 0;
            for (int m = 1; m < 20; m++)
                if (hypot(a[2 * m] - b[2 * n], a[2 * m + 1] - b[2 * n + 1]) < hypot(a[2 * best] - b[2 * n], a[2 * best + 1] - b[2 * n + 1]))
                    best = m;
            assert_near(nearest[n], t[best], 1e-9);
        }
        free(nearest);
    }
    free(a), free(b), free(t);
    /* with keys of one length the Gaussian weights e^(-|q-k|²/2) are those of softmax attention e^(q·k) */
    cj_tensor *keys = cj_div(x, cj_norm(x, 2, .axes = CJ_AXIS(1), .keepdim = true)), *v = cj_unsqueeze(y, 1);
    assert_near(distance(cj_squeeze(cj_attention(q, keys, v, .scale = 1), 1), cj_nadaraya_watson(gauss, keys, y, q)), 0, 1e-12);
    cj_scope_close(s);
}

/* a sample of y = 2 sin x + x + noise of deviation 0.5 on [0, 5] */
static void curve(int64_t n, cj_tensor **x, cj_tensor **y)
{
    *x = cj_uniform(c, 0, 5, CJ_SHAPE(n, 1), .dtype = CJ_F64);
    cj_tensor *v = cj_squeeze(*x, 1);
    *y = cj_add(cj_add(cj_mul_scalar(cj_sin(v), 2), v), cj_mul_scalar(normal(CJ_SHAPE(n)), 0.5));
}

static void kern_nw_figure(void **state) /* kern.nw_figure */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x, *y, *tx, *ty;
    curve(40, &x, &y);
    curve(4000, &tx, &ty);
    double line = cj_item(cj_mean(cj_square(cj_sub(ty, cj_full(c, cj_item(cj_mean(y)), CJ_SHAPE(4000), CJ_F64))))), entropy = -1;
    const double widths[] = { 0.1, 0.2, 0.5, 1 };
    for (int i = 0; i < 4; i++) {
        cj_kernel k = { CJ_KERNEL_GAUSSIAN, .width = widths[i] };
        assert_true(cj_item(cj_mean(cj_square(cj_sub(cj_nadaraya_watson(k, x, y, tx), ty)))) < line);
        cj_tensor *map = cj_smoothing_weights(k, x, x);
        double spread = -cj_item(cj_sum(cj_mul(map, cj_log(cj_clamp(map, 1e-300, 1))))) / 40;
        assert_true(spread > entropy); /* wider: flatter rows */
        entropy = spread;
    }
    double error = INFINITY; /* above the noise of 0.25, and closer to it with more points and a narrower kernel */
    for (int i = 0; i < 3; i++) {
        const int64_t n[] = { 40, 400, 4000 };
        curve(n[i], &x, &y);
        double now = cj_item(cj_mean(cj_square(
            cj_sub(cj_nadaraya_watson((cj_kernel){ CJ_KERNEL_GAUSSIAN, .width = 0.8 * pow((double)n[i], -0.3) }, x, y, tx), ty))));
        assert_true(now < error);
        error = now;
    }
    assert_near(error, 0.25, 0.03); /* the deviation of the mean of 4000 squares is 0.0056 */
    cj_scope_close(s);
}

static void kern_rff_error(void **state) /* kern.rff_error */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 20, SIZES = 5 };
    cj_tensor *x = normal(CJ_SHAPE(N, 2)), *gram = cj_gram(gauss, x, x);
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < SIZES; i++) {
        int64_t p = 8 << (2 * i);
        double sum = 0, beyond = 0;
        enum { DRAWS = 20 };
        for (int k = 0; k < DRAWS; k++) {
            cj_scope inner = cj_scope_open(c);
            cj_fourier f = cj_fourier_draw(c, 2, p, 1, CJ_F64);
            cj_tensor *phi = cj_fourier_features(&f, x), *error = cj_sub(cj_matmul(phi, cj_t(phi)), gram);
            sum += cj_item(cj_mean(cj_square(error))) / DRAWS;
            beyond += cj_item(cj_mean(cj_cast(cj_gt_scalar(cj_abs(error), 0.5), CJ_F64))) / DRAWS;
            if (i == 0) assert_true(cj_item(cj_matrix_rank(cj_matmul(phi, cj_t(phi)))) <= (double)p);
            cj_scope_close(inner);
        }
        double lx = log((double)p), ly = log(sum) / 2;
        sx += lx, sy += ly, sxx += lx * lx, sxy += lx * ly;
        assert_true(beyond <= 2 * exp(-(double)p * 0.25 / 8) + 0.02);
    }
    assert_near((SIZES * sxy - sx * sy) / (SIZES * sxx - sx * sx), -0.5, 0.1);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kern_functions),
        cmocka_unit_test(kern_feature_maps),
        cmocka_unit_test(kern_feature_perceptron),
        cmocka_unit_test(kern_perceptron),
        cmocka_unit_test(kern_gram),
        cmocka_unit_test(kern_nystrom),
        cmocka_unit_test(kern_logistic),
        cmocka_unit_test(kern_mercer_check),
        cmocka_unit_test(kern_string),
        cmocka_unit_test(kern_edit_distance),
        cmocka_unit_test(kern_random_features),
        cmocka_unit_test(kern_svm_linear),
        cmocka_unit_test(kern_svm_kernel),
        cmocka_unit_test(kern_nadaraya_watson),
        cmocka_unit_test(kern_nw_figure),
        cmocka_unit_test(kern_rff_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
