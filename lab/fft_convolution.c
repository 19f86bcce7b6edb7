/* fft-convolution: a convolution is a product of spectra.
 *
 *     x * w = F^-1[F x · F w],   (x * w)_k = sum_j x_j w_(k-j)
 *
 * with both padded by zeros to n + m - 1 values: without them the end of the result wraps around to its beginning.  The sum costs n·m products, the transforms about
 * n log n, so from a width m of the order of log n on the detour is the shorter way; where exactly depends on the machine, and is reported, not claimed.
 */
#include "lab/lab.h"

#include <math.h>
#include <time.h>

enum { N = 4096, WIDTHS = 8 };

static cj_tensor *convolve(cj_tensor *a, cj_tensor *b, bool padded)
{
    if (padded) return cj_fft_convolve(a, b);
    const int64_t n = cj_size(a, 0), m = cj_size(b, 0);
    cj_tensor *wide = cj_pad(b, CJ_SHAPE(0), CJ_SHAPE(n - m)), *y = cj_fft_convolve(a, wide, .mode = CJ_CONVOLVE_CYCLIC);
    return cj_pad(y, CJ_SHAPE(0), CJ_SHAPE(m - 1));
}

/* The sum itself, through the convolution operator, which slides the kernel without turning it round. */
static cj_tensor *slide(cj_tensor *a, cj_tensor *b)
{
    const int64_t n = cj_size(a, 0), m = cj_size(b, 0);
    cj_tensor *turned = cj_contiguous(cj_slice(b, 0, CJ_END, CJ_END, -1));
    return cj_reshape(cj_conv(cj_reshape(a, CJ_SHAPE(1, 1, n)), cj_reshape(turned, CJ_SHAPE(1, 1, m)), NULL, .padding = m - 1),
                      CJ_SHAPE(n + m - 1));
}

static double largest(cj_tensor *x) { return cj_item(cj_max(cj_abs(x))); }

static double seconds(cj_ctx *c, cj_tensor *a, cj_tensor *b, bool by_fft)
{
    double best = INFINITY;
    for (int i = 0; i < 5; i++) {
        cj_scope s = cj_scope_open(c);
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (by_fft) cj_fft_convolve(a, b);
        else slide(a, b);
        clock_gettime(CLOCK_MONOTONIC, &to);
        cj_scope_close(s);
        double t = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        best = t < best ? t : best;
    }
    return best;
}

static void crossover(cj_ctx *c, cj_lab_record *r)
{
    static const double width[WIDTHS] = { 4, 8, 16, 32, 64, 128, 256, 512 };
    double direct[WIDTHS], fast[WIDTHS];
    int at = -1;
    for (int i = 0; i < WIDTHS; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *a = cj_randn(c, CJ_SHAPE(N)), *b = cj_randn(c, CJ_SHAPE((int64_t)width[i]));
        direct[i] = 1e6 * seconds(c, a, b, false);
        fast[i] = 1e6 * seconds(c, a, b, true);
        if (at < 0 && fast[i] < direct[i]) at = i;
        cj_scope_close(s);
    }
    if (at >= 0) cj_lab_say(r, "%d values: transforms are faster here from a width of %.0f on", N, width[at]);
    else cj_lab_say(r, "%d values: transforms are not faster here up to a width of %.0f", N, width[WIDTHS - 1]);
    cj_plot *p = cj_plot_new(c, "Convolution of 4096 values: the sum, and the product of spectra");
    cj_plot_labels(p, "width of the kernel", "microseconds");
    cj_plot_log(p, true, true);
    cj_plot_line(p, "sum", width, direct, WIDTHS);
    cj_plot_line(p, "transforms", width, fast, WIDTHS);
    cj_lab_picture(r, c, p, "fft-convolution");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_scope s = cj_scope_open(c);
    double small[5];
    cj_tensor *x = cj_from_f64(c, (double[]){ 2, -1, 1 }, CJ_SHAPE(3)), *w = cj_from_f64(c, (double[]){ 1, 1, 2 }, CJ_SHAPE(3));
    cj_to_f64(convolve(x, w, !control), small, 5);
    static const double expected[5] = { 2, 1, 4, -1, 2 };
    for (int i = 0; i < 5; i++) cj_lab_expect(r, "(2, -1, 1) * (1, 1, 2)", expected[i], small[i], 1e-12);

    double worst = 0, order = 0, wrap = 0;
    for (int i = 0; i < 20 && cj_ok(c); i++) {
        const int64_t n = 20 + 37 * i, m = 1 + i;
        cj_tensor *a = cj_randn(c, CJ_SHAPE(n), .dtype = CJ_F64), *b = cj_randn(c, CJ_SHAPE(m), .dtype = CJ_F64),
                  *d = cj_randn(c, CJ_SHAPE(7), .dtype = CJ_F64);
        cj_tensor *direct = slide(a, b);
        worst = fmax(worst, largest(cj_sub(convolve(a, b, !control), direct)));
        order = fmax(order, largest(cj_sub(cj_fft_convolve(b, a), direct)));
        order = fmax(order, largest(cj_sub(cj_fft_convolve(cj_fft_convolve(a, b), d), cj_fft_convolve(a, cj_fft_convolve(b, d)))));
        /* without zeros: value k also gets what belongs to value k + n */
        cj_tensor *cyclic = cj_fft_convolve(a, cj_pad(b, CJ_SHAPE(0), CJ_SHAPE(n - m)), .mode = CJ_CONVOLVE_CYCLIC);
        cj_tensor *folded =
            cj_add(cj_slice(direct, 0, 0, n, 1), cj_pad(cj_slice(direct, 0, n, CJ_END, 1), CJ_SHAPE(0), CJ_SHAPE(n - m + 1)));
        wrap = fmax(wrap, largest(cj_sub(cyclic, folded)));
    }
    cj_lab_expect(r, "largest difference to the sum, 20 random lengths", 0, worst, 1e-10);
    cj_lab_expect(r, "the order of the factors, and of two convolutions", 0, order, 1e-10);
    cj_lab_expect(r, "without zeros: the sum wrapped around", 0, wrap, 1e-10);
    cj_scope_close(s);
    if (!control && cj_lab_wants_pictures(r) && cj_ok(c)) crossover(c, r);
}

const cj_lab cj_lab_fft_convolution = {
    .name = "fft-convolution",
    .claim = "the product of two spectra is the spectrum of the convolution, once both are padded with zeros",
    .source = "Cooley & Tukey 1965; Stockham 1966",
    .control = "no zeros: the end wraps around to the beginning",
    .run = run,
};
