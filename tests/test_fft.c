/* Fourier transforms against the sum they abbreviate, and what follows from it: Parseval, inversion, convolution, shifts, spectra of frames. */
#include "support.h"

#include <cajal/math.h>
#include <math.h>
#include <time.h>

static cj_ctx *c;
static int set_up(void **state)
{
    (void)state;
    c = cj_ctx_new(&(cj_ctx_opts){ .seed = 20260105 });
    return !c;
}
static int tear_down(void **state)
{
    (void)state;
    cj_ctx_free(c);
    return 0;
}

/* sum_j x_j exp(sign 2 pi i j k / n), summed in long double. */
static void direct(const double *x, double *y, int64_t n, int sign)
{
    for (int64_t k = 0; k < n; k++) {
        long double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            long double angle = sign * 2 * 3.14159265358979323846264338327950288L * (long double)(j * k % n) / (long double)n,
                        u = cosl(angle), v = sinl(angle);
            re += x[2 * j] * u - x[2 * j + 1] * v;
            im += x[2 * j] * v + x[2 * j + 1] * u;
        }
        y[2 * k] = (double)re, y[2 * k + 1] = (double)im;
    }
}

/* The largest difference between a and b over the root mean square of b. */
static double error_of(const double *a, const double *b, int64_t n)
{
    double worst = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(a[i] - b[i]) <= worst)) worst = fabs(a[i] - b[i]);
        sum += b[i] * b[i];
    }
    return worst / sqrt(sum / (double)n + 1e-300);
}

static void every_length(void **state)
{
    (void)state;
    enum { MOST = 2187 };
    static double x[2 * MOST], y[2 * MOST], z[2 * MOST];
    static const int64_t more[] = { 127, 128, 192, 240, 243, 256, 257, 480, 509, 512, 625, 961, 1000, 1009, 1024, 1155, 1331, 2048, 2187 };
    for (int64_t i = 1; i < 70 + (int64_t)(sizeof more / sizeof *more); i++) {
        const int64_t n = i < 70 ? i : more[i - 70];
        for (int t = 0; t < 2; t++)
            for (int inverse = 0; inverse < 2; inverse++) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *a = cj_cast(cj_randn(c, CJ_SHAPE(n, 2), .dtype = CJ_F64), t ? CJ_F64 : CJ_F32);
                cj_to_f64(a, x, 2 * n);
                direct(x, y, n, inverse ? 1 : -1);
                cj_to_f64(inverse ? cj_mul_scalar(cj_ifft(a), (double)n) : cj_fft(a), z, 2 * n);
                const double error = error_of(z, y, 2 * n);
                if (!cj_ok(c)) fail_msg("%s", cj_message(c));
                if (!(error < (t ? 3e-15 : 2e-6) * (1 + log2((double)n))))
                    fail_msg("length %lld, %s: error %g", (long long)n, t ? "f64" : "f32", error);
                cj_scope_close(s);
            }
    }
}

/* Real transforms are the complex ones of a sequence without imaginary part. */
static void real_sequences(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 80; n++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(3, n), .dtype = CJ_F64), *half = cj_rfft(x);
        cj_tensor *full = cj_fft(cj_complex(x, NULL));
        assert_true(cj_item(cj_max(cj_abs(cj_sub(half, cj_slice(full, 1, 0, n / 2 + 1, 1))))) < 1e-13 * (double)n);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_irfft(half, .size = CJ_SHAPE(n)), x)))) < 1e-14 * (double)n);
        /* what a real sequence cannot have is not read */
        cj_tensor *odd = cj_randn(c, CJ_SHAPE(n / 2 + 1, 2), .dtype = CJ_F64), *k = cj_arange(c, 0, (double)(n / 2 + 1), 1, CJ_I64);
        cj_tensor *alone = cj_logical_or(cj_eq_scalar(k, 0), cj_eq_scalar(k, n % 2 ? -1 : (double)(n / 2)));
        cj_tensor *plain = cj_complex(cj_real(odd), cj_masked_fill(cj_imag(odd), alone, 0));
        assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_irfft(odd, .size = CJ_SHAPE(n)), cj_irfft(plain, .size = CJ_SHAPE(n)))))) < 1e-14);
        cj_scope_close(s);
    }
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

/* Several axes are one after the other; batches and threads change nothing. */
static void axes_and_batches(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *z = cj_randn(c, CJ_SHAPE(5, 12, 37, 2), .dtype = CJ_F64);
    cj_tensor *both = cj_fft(z, .axes = CJ_AXES(1, 2)), *one = cj_fft(cj_fft(z, .axes = CJ_AXIS(1)), .axes = CJ_AXIS(2));
    assert_true(cj_item(cj_max(cj_abs(cj_sub(both, one)))) < 1e-12);
    for (int axis = 0; axis < 3; axis++) {
        cj_tensor *moved = cj_transpose(cj_fft(cj_transpose(z, axis, 2)), axis, 2);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_fft(z, .axes = CJ_AXIS(axis)), moved)))) < 1e-12);
        cj_tensor *back = cj_ifft(cj_fft(z, .axes = CJ_AXIS(axis), .norm = CJ_FFT_ORTHO), .axes = CJ_AXIS(axis), .norm = CJ_FFT_ORTHO);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(back, z)))) < 1e-13);
    }
    cj_tensor *x = cj_randn(c, CJ_SHAPE(4, 10, 9), .dtype = CJ_F64), *h = cj_rfft(x, .axes = CJ_AXES(1, 0));
    assert_int_equal(cj_size(h, 0), 3);
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_irfft(h, .axes = CJ_AXES(1, 0), .size = CJ_SHAPE(10, 4)), x)))) < 1e-14);
    for (int64_t n = 8; n <= 12; n += 4) { /* the first axis cut and padded, the last one's half too */
        cj_tensor *fit = cj_irfft(h, .axes = CJ_AXES(1, 0), .size = CJ_SHAPE(n, 6));
        cj_tensor *rows =
            n < 10 ? cj_slice(h, 1, 0, n, 1) : cj_cat((cj_tensor *[]){ h, cj_zeros(c, CJ_SHAPE(3, n - 10, 9, 2), CJ_F64) }, 2, 1);
        cj_tensor *apart = cj_irfft(cj_ifft(rows, .axes = CJ_AXIS(1)), .axes = CJ_AXIS(0), .size = CJ_SHAPE(6));
        assert_int_equal(cj_size(fit, 1), n);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(fit, apart)))) < 1e-14);
    }
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_fft(z, .size = CJ_SHAPE(40)), cj_fft(cj_pad(z, CJ_SHAPE(0, 0), CJ_SHAPE(3, 0))))))) <
                1e-12);
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_fft(z, .size = CJ_SHAPE(20)), cj_fft(cj_slice(z, 2, 0, 20, 1)))))) < 1e-12);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

/* The same bits on one thread and on two, for one long transform and for many short ones. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    static float y[2][2 * 262144];
    for (int k = 0; k < 2; k++) {
        cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = k + 1, .seed = 3 });
        cj_tensor *z = cj_randn(d, CJ_SHAPE(262144, 2));
        if (k) z = cj_cat(CJ_TENSORS(z), 1, 0);
        cj_tensor *long_one = cj_fft(z), *short_ones = cj_fft(cj_reshape(z, CJ_SHAPE(1024, 256, 2)));
        cj_to_f32(cj_add(cj_reshape(short_ones, CJ_SHAPE(262144, 2)), long_one), y[k], 2 * 262144);
        assert_true(cj_ok(d));
        cj_ctx_free(d);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void parseval_and_convolution(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(360, 2), .dtype = CJ_F64), *X = cj_fft(x, .norm = CJ_FFT_ORTHO);
    assert_true(fabs(cj_item(cj_sum(cj_square(x))) - cj_item(cj_sum(cj_square(X)))) < 1e-10);
    enum { N = 21, M = 6 };
    double a[N], b[M], full[N + M - 1] = { 0 }, cyclic[N] = { 0 }, got[N + M];
    cj_tensor *ta = cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64), *tb = cj_randn(c, CJ_SHAPE(M), .dtype = CJ_F64);
    cj_to_f64(ta, a, N), cj_to_f64(tb, b, M);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) full[i + j] += a[i] * b[j], cyclic[(i + j) % N] += a[i] * b[j];
    cj_to_f64(cj_fft_convolve(ta, tb), got, N + M - 1);
    assert_true(error_of(got, full, N + M - 1) < 1e-14);
    cj_to_f64(cj_fft_convolve(ta, tb, .mode = CJ_CONVOLVE_SAME), got, N);
    assert_true(error_of(got, full + (M - 1) / 2, N) < 1e-14);
    cj_to_f64(cj_fft_convolve(ta, tb, .mode = CJ_CONVOLVE_VALID), got, N - M + 1);
    assert_true(error_of(got, full + M - 1, N - M + 1) < 1e-14);
    cj_to_f64(cj_fft_convolve(ta, cj_pad(tb, CJ_SHAPE(0), CJ_SHAPE(N - M)), .mode = CJ_CONVOLVE_CYCLIC), got, N);
    assert_true(error_of(got, cyclic, N) < 1e-14);
    /* images: as a convolution with the flipped kernel, in cj_conv's terms */
    cj_tensor *p = cj_randn(c, CJ_SHAPE(1, 1, 9, 11), .dtype = CJ_F64), *q = cj_randn(c, CJ_SHAPE(1, 1, 3, 4), .dtype = CJ_F64);
    cj_tensor *flipped = cj_slice(cj_slice(q, 2, CJ_END, CJ_END, -1), 3, CJ_END, CJ_END, -1);
    cj_tensor *by_fft = cj_fft_convolve(p, q, .axes = CJ_AXES(2, 3), .mode = CJ_CONVOLVE_VALID);
    assert_true(cj_item(cj_max(cj_abs(cj_sub(by_fft, cj_conv(p, cj_contiguous(flipped), NULL))))) < 1e-13);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

static void frequencies_and_shifts(void **state)
{
    (void)state;
    float f[5];
    cj_scope s = cj_scope_open(c);
    cj_to_f32(cj_fft_freq(c, 5, 0.1), f, 5);
    const float odd[5] = { 0, 2, 4, -4, -2 }, shifted[5] = { -4, -2, 0, 2, 4 };
    for (int i = 0; i < 5; i++) assert_float_equal(f[i], odd[i], 1e-6);
    cj_to_f32(cj_fft_shift(cj_fft_freq(c, 5, 0.1), CJ_AXIS(0)), f, 5);
    for (int i = 0; i < 5; i++) assert_float_equal(f[i], shifted[i], 1e-6);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(5, 4));
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_ifft_shift(cj_fft_shift(x, CJ_AXES(0, 1)), CJ_AXES(0, 1)), x)))) == 0);
    cj_scope_close(s);
}

/* Spectra of frames: a pure tone has its peak where it belongs, and the signal comes back. */
static void short_time(void **state)
{
    (void)state;
    enum { T = 800, N = 64 };
    double tone[T];
    for (int t = 0; t < T; t++) tone[t] = sin(2 * M_PI * 5 * t / N);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_from_f64(c, tone, CJ_SHAPE(T)), *z = cj_stft(x, N);
    assert_int_equal(cj_size(z, 0), N / 2 + 1);
    assert_int_equal(cj_size(z, 1), 1 + T / (N / 4));
    assert_true(cj_item(cj_select(cj_argmax(cj_complex_abs(z), .axes = CJ_AXIS(0)), 0, 10)) == 5);
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_istft(z, N, .length = T), x)))) < 1e-12);
    cj_tensor *noise = cj_randn(c, CJ_SHAPE(2, 3, T), .dtype = CJ_F64), *w = cj_window(c, CJ_WINDOW_HAMMING, N, .dtype = CJ_F64);
    cj_tensor *frames = cj_stft(noise, N, .hop = 20, .window = w);
    assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_istft(frames, N, .hop = 20, .window = w, .length = T), noise)))) < 1e-12);
    double win[5];
    cj_to_f64(cj_window(c, CJ_WINDOW_HANN, 5, .symmetric = true, .dtype = CJ_F64), win, 5);
    const double hann[5] = { 0, 0.5, 1, 0.5, 0 };
    for (int i = 0; i < 5; i++) assert_true(fabs(win[i] - hann[i]) < 1e-15);
    cj_to_f64(cj_window(c, CJ_WINDOW_BLACKMAN, 4, .dtype = CJ_F64), win, 4);
    const double blackman[4] = { 0, 0.34, 1, 0.34 };
    for (int i = 0; i < 4; i++) assert_true(fabs(win[i] - blackman[i]) < 1e-15);
    cj_to_f64(cj_window(c, CJ_WINDOW_BARTLETT, 4, .dtype = CJ_F64), win, 4);
    const double bartlett[4] = { 0, 0.5, 1, 0.5 };
    for (int i = 0; i < 4; i++) assert_true(fabs(win[i] - bartlett[i]) < 1e-15);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

/* |z| far from 1, and at 0. */
static void moduli(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *z = cj_require_grad(cj_from_f32(c, (float[]){ 3e30f, 4e30f, 3e-30f, -4e-30f, 0, 0, 0, -2 }, CJ_SHAPE(4, 2))), *g,
              *r = cj_complex_abs(z);
    float v[4], d[8];
    cj_to_f32(r, v, 4);
    assert_float_equal(v[0] / 5e30f, 1, 1e-6);
    assert_float_equal(v[1] / 5e-30f, 1, 1e-6);
    assert_true(v[2] == 0 && v[3] == 2);
    cj_grad(cj_sum(r), &z, 1, &g);
    cj_to_f32(g, d, 8);
    const float expected[8] = { .6f, .8f, .6f, -.8f, 0, 0, 0, -1 };
    for (int i = 0; i < 8; i++) assert_float_equal(d[i], expected[i], 1e-6);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

/* fft.core, conv.fft: the sum for every length to 64 and for 1009, back again, Parseval, and a cost of N log N. */
static void fft_core_and_conv_fft(void **state)
{
    (void)state;
    static double x[2 * 1009], y[2 * 1009], z[2 * 1009];
    for (int64_t i = 1; i <= 65; i++) {
        const int64_t n = i <= 64 ? i : 1009;
        cj_scope s = cj_scope_open(c);
        cj_tensor *a = cj_randn(c, CJ_SHAPE(n, 2), .dtype = CJ_F64), *f = cj_fft(a);
        cj_to_f64(a, x, 2 * n), cj_to_f64(f, z, 2 * n);
        direct(x, y, n, -1);
        for (int64_t k = 0; k < 2 * n; k++) assert_true(fabs(y[k] - z[k]) < 1e-10);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(cj_ifft(f), a)))) < 1e-12);
        assert_true(fabs(cj_item(cj_sum(cj_square(f))) / (double)n - cj_item(cj_sum(cj_square(a)))) < 1e-9);
        cj_scope_close(s);
    }
    double best[2] = { INFINITY, INFINITY };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 15; i++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *a = cj_randn(c, CJ_SHAPE(k ? 1 << 16 : 1 << 12, 2));
            struct timespec from, to;
            clock_gettime(CLOCK_MONOTONIC, &from);
            cj_fft(a);
            clock_gettime(CLOCK_MONOTONIC, &to);
            best[k] = fmin(best[k], (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
            cj_scope_close(s);
        }
    if (!(best[1] / best[0] < 90))
        fail_msg("16 times as many values took %.0f times as long; N log N says 21, N squared 256", best[1] / best[0]);
}

static void bad_input(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(4, 3), CJ_F32), *z = cj_zeros(c, CJ_SHAPE(4, 2), CJ_F32);
    assert_refused(CJ_ESHAPE, "pairs", cj_fft(x));
    assert_refused(CJ_EDTYPE, "bf16", cj_fft(cj_cast(z, CJ_BF16)));
    assert_refused(CJ_EINDEX, "axis", cj_fft(z, .axes = CJ_AXIS(1)));
    assert_refused(CJ_EVALUE, "twice", cj_fft(cj_zeros(c, CJ_SHAPE(3, 4, 2), CJ_F32), .axes = CJ_AXES(0, 0)));
    assert_refused(CJ_EVALUE, "at least 1", cj_fft(z, .size = CJ_SHAPE(0)));
    assert_refused(CJ_ESHAPE, "empty", cj_rfft(cj_zeros(c, CJ_SHAPE(0), CJ_F32)));
    assert_refused(CJ_ESHAPE, "size", cj_irfft(cj_zeros(c, CJ_SHAPE(1, 2), CJ_F32)));
    assert_refused(CJ_ESHAPE, "pairs", cj_complex_mul(x, z));
    assert_refused(CJ_EINDEX, "axis", cj_fft_convolve(x, x, .axes = CJ_AXIS(5)));
    assert_refused(CJ_ESHAPE, "longer", cj_fft_convolve(x, cj_zeros(c, CJ_SHAPE(4, 5), CJ_F32), .mode = CJ_CONVOLVE_VALID));
    assert_refused(CJ_ESHAPE, "at least 33", cj_stft(cj_zeros(c, CJ_SHAPE(10), CJ_F32), 64));
    assert_refused(CJ_ESHAPE, "window", cj_stft(cj_zeros(c, CJ_SHAPE(100), CJ_F32), 64, .window = x));
    assert_refused(CJ_ESHAPE, "frames", cj_istft(x, 64));
    assert_refused(CJ_EVALUE, "at least 1", cj_window(c, CJ_WINDOW_HANN, 0));
    assert_refused(CJ_EVALUE, "at least 1", cj_fft_freq(c, 0, 1));
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(fft_core_and_conv_fft),
        cmocka_unit_test(real_sequences),
        cmocka_unit_test(axes_and_batches),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(parseval_and_convolution),
        cmocka_unit_test(frequencies_and_shifts),
        cmocka_unit_test(short_time),
        cmocka_unit_test(moduli),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
