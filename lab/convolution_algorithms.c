/* convolution-algorithms: four ways to slide a kernel over an image.
 *
 *     y[p, q] = sum over a, b of w[a, b] · x[p·s - m + a·d, q·s - m + b·d]        (stride s, margin m of zeros, dilation d)
 *
 *   direct     the sums as they stand, in loops
 *   Toeplitz   y = T·x with x and y as vectors: T has the weight that joins position and pixel, the same along diagonals, in blocks that are the same along theirs
 *   im2col     the pixels under each position as a column, and one product of the kernel with all columns; back again, columns are added where they came from
 *   FFT        the product of the spectra of x and of the turned kernel, both between zeros
 *
 * All give the same numbers.  They differ in what they cost: for n x n pixels and k x k weights n²k² products in loops and in columns (which need k² copies of the
 * image), n²·n² entries for the matrix, and about n² log n steps for transforms, whatever k is.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

typedef struct geometry {
    int64_t n, k, stride, margin, dilation;
} geometry;

static int64_t positions(const geometry *g) { return (g->n + 2 * g->margin - g->dilation * (g->k - 1) - 1) / g->stride + 1; }

/* ---- direct --------------------------------------------------------------------------------------------------------------------------------------- */

static void direct(const geometry *g, const double *x, const double *w, double *y)
{
    const int64_t p = positions(g);
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < p; j++) {
            double sum = 0;
            for (int64_t a = 0; a < g->k; a++) {
                const int64_t row = i * g->stride - g->margin + a * g->dilation;
                if (row < 0 || row >= g->n) continue;
                for (int64_t b = 0; b < g->k; b++) {
                    const int64_t col = j * g->stride - g->margin + b * g->dilation;
                    if (col >= 0 && col < g->n) sum += w[a * g->k + b] * x[row * g->n + col];
                }
            }
            y[i * p + j] = sum;
        }
}

/* ---- Toeplitz: column by column, what a single pixel does ------------------------------------------------------------------------------------------- */

static cj_tensor *toeplitz(cj_ctx *c, const geometry *g, const double *w)
{
    const int64_t p = positions(g), pixels = g->n * g->n;
    double *t = calloc((size_t)(p * p * pixels), sizeof *t);
    if (!t) return cj_fail(c, CJ_EMEMORY, "convolution-algorithms: no memory for the matrix");
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < p; j++)
            for (int64_t a = 0; a < g->k; a++)
                for (int64_t b = 0; b < g->k; b++) {
                    const int64_t row = i * g->stride - g->margin + a * g->dilation, col = j * g->stride - g->margin + b * g->dilation;
                    if (row >= 0 && row < g->n && col >= 0 && col < g->n) t[(i * p + j) * pixels + row * g->n + col] = w[a * g->k + b];
                }
    cj_tensor *matrix = cj_from_f64(c, t, CJ_SHAPE(p * p, pixels));
    free(t);
    return matrix;
}

/* ---- im2col and its transpose ------------------------------------------------------------------------------------------------------------------------ */

/* Visits the pixel that weight (a, b) meets at position (i, j): columns[a·k + b][i·p + j], or with `back` the other way, adding up. */
static void im2col(const geometry *g, double *image, double *columns, bool back)
{
    const int64_t p = positions(g);
    for (int64_t a = 0; a < g->k; a++)
        for (int64_t b = 0; b < g->k; b++)
            for (int64_t i = 0; i < p; i++)
                for (int64_t j = 0; j < p; j++) {
                    const int64_t row = i * g->stride - g->margin + a * g->dilation, col = j * g->stride - g->margin + b * g->dilation;
                    double *at = &columns[(a * g->k + b) * p * p + i * p + j];
                    const bool inside = row >= 0 && row < g->n && col >= 0 && col < g->n;
                    if (!back) *at = inside ? image[row * g->n + col] : 0;
                    else if (inside) image[row * g->n + col] += *at;
                }
}

static cj_tensor *by_columns(cj_ctx *c, const geometry *g, double *x, const double *w, double *columns, bool turned)
{
    const int64_t p = positions(g), k2 = g->k * g->k;
    im2col(g, x, columns, false);
    cj_tensor *row = cj_from_f64(c, w, CJ_SHAPE(1, k2));
    if (turned) row = cj_contiguous(cj_slice(row, 1, CJ_END, CJ_END, -1));
    return cj_reshape(cj_matmul(row, cj_from_f64(c, columns, CJ_SHAPE(k2, p * p))), CJ_SHAPE(p * p));
}

/* ---- FFT ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *by_spectra(const geometry *g, cj_tensor *x, cj_tensor *w)
{
    cj_tensor *turned = cj_contiguous(cj_slice(cj_slice(w, 0, CJ_END, CJ_END, -1), 1, CJ_END, CJ_END, -1));
    cj_tensor *wide = cj_pad(x, CJ_SHAPE(g->margin, g->margin), CJ_SHAPE(g->margin, g->margin));
    return cj_fft_convolve(wide, turned, .axes = CJ_AXES(0, 1), .mode = CJ_CONVOLVE_VALID);
}

/* ---- the claims ------------------------------------------------------------------------------------------------------------------------------------------ */

static double apart(cj_tensor *a, const double *b)
{
    const int64_t n = cj_numel(a);
    double *v = malloc((size_t)n * sizeof *v), worst = INFINITY;
    if (v && cj_to_f64(a, v, n)) {
        worst = 0;
        for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(v[i] - b[i]));
    }
    free(v);
    return worst;
}

typedef struct differences {
    double operators, matrix, columns, spectra, adjoint, transpose;
} differences;

static void compare(cj_ctx *c, const geometry *g, bool control, differences *d)
{
    const int64_t p = positions(g), pixels = g->n * g->n, k2 = g->k * g->k;
    double *x = calloc((size_t)pixels, sizeof *x), *w = calloc((size_t)k2, sizeof *w), *y = calloc((size_t)(p * p), sizeof *y);
    double *columns = calloc((size_t)(k2 * p * p), sizeof *columns), *other = calloc((size_t)(k2 * p * p), sizeof *other),
           *back = calloc((size_t)pixels, sizeof *back);
    cj_scope s = cj_scope_open(c);
    cj_tensor *image = cj_randn(c, CJ_SHAPE(g->n, g->n), .dtype = CJ_F64), *kernel = cj_randn(c, CJ_SHAPE(g->k, g->k), .dtype = CJ_F64);
    if (x && w && y && columns && other && back && cj_to_f64(image, x, pixels) && cj_to_f64(kernel, w, k2)) {
        direct(g, x, w, y);
        cj_tensor *library = cj_conv(cj_reshape(image, CJ_SHAPE(1, 1, g->n, g->n)), cj_reshape(kernel, CJ_SHAPE(1, 1, g->k, g->k)), NULL,
                                     .stride = g->stride, .padding = g->margin, .dilation = g->dilation);
        d->operators = fmax(d->operators, apart(library, y));
        cj_tensor *t = toeplitz(c, g, w);
        d->matrix = fmax(d->matrix, apart(cj_matmul(t, cj_reshape(image, CJ_SHAPE(pixels))), y));
        d->columns = fmax(d->columns, apart(by_columns(c, g, x, w, columns, control), y));
        if (g->stride == 1 && g->dilation == 1) d->spectra = fmax(d->spectra, apart(by_spectra(g, image, kernel), y));
        /* <im2col(x), z> = <x, col2im(z)>, and back through the matrix: Tᵀ·y */
        cj_to_f64(cj_randn(c, CJ_SHAPE(k2 * p * p), .dtype = CJ_F64), other, k2 * p * p);
        double left = 0, right = 0;
        im2col(g, back, other, true);
        for (int64_t i = 0; i < k2 * p * p; i++) left += columns[i] * other[i];
        for (int64_t i = 0; i < pixels; i++) right += x[i] * back[i];
        d->adjoint = fmax(d->adjoint, fabs(left - right));
        for (int64_t i = 0; i < k2; i++)
            for (int64_t j = 0; j < p * p; j++) other[i * p * p + j] = w[i] * y[j]; /* the columns of y: every weight times every value */
        for (int64_t i = 0; i < pixels; i++) back[i] = 0;
        im2col(g, back, other, true);
        d->transpose = fmax(d->transpose, apart(cj_matmul(cj_t(t), cj_from_f64(c, y, CJ_SHAPE(p * p))), back));
    }
    cj_scope_close(s);
    free(x), free(w), free(y), free(columns), free(other), free(back);
}

/* ---- what they cost --------------------------------------------------------------------------------------------------------------------------------------- */

enum { PIXELS = 64, SIZES = 7 };
static const double sizes[SIZES] = { 3, 5, 7, 11, 15, 23, 31 };
typedef enum algorithm { DIRECT, COLUMNS, SPECTRA, ALGORITHMS } algorithm;

static double microseconds(cj_ctx *c, algorithm how, const geometry *g)
{
    const int64_t p = positions(g), k2 = g->k * g->k;
    double *x = calloc((size_t)(g->n * g->n), sizeof *x), *w = calloc((size_t)k2, sizeof *w), *y = calloc((size_t)(p * p), sizeof *y),
           *columns = calloc((size_t)(k2 * p * p), sizeof *columns), best = INFINITY;
    cj_scope s = cj_scope_open(c);
    cj_tensor *image = cj_randn(c, CJ_SHAPE(g->n, g->n), .dtype = CJ_F64), *kernel = cj_randn(c, CJ_SHAPE(g->k, g->k), .dtype = CJ_F64);
    if (x && w && y && columns && cj_to_f64(image, x, g->n * g->n) && cj_to_f64(kernel, w, k2))
        for (int i = 0; i < 7; i++) {
            cj_scope inner = cj_scope_open(c);
            struct timespec from, to;
            clock_gettime(CLOCK_MONOTONIC, &from);
            if (how == DIRECT) direct(g, x, w, y);
            else if (how == COLUMNS) by_columns(c, g, x, w, columns, false);
            else by_spectra(g, image, kernel);
            clock_gettime(CLOCK_MONOTONIC, &to);
            cj_scope_close(inner);
            best = fmin(best, 1e6 * (double)(to.tv_sec - from.tv_sec) + 1e-3 * (double)(to.tv_nsec - from.tv_nsec));
        }
    cj_scope_close(s);
    free(x), free(w), free(y), free(columns);
    return best;
}

/* Slope of log t over log x. */
static double slope(const double *x, const double *t, int n)
{
    double mx = 0, mt = 0, xt = 0, xx = 0;
    for (int i = 0; i < n; i++) mx += log(x[i]) / n, mt += log(t[i]) / n;
    for (int i = 0; i < n; i++) xt += (log(x[i]) - mx) * (log(t[i]) - mt), xx += (log(x[i]) - mx) * (log(x[i]) - mx);
    return xt / xx;
}

static void costs(cj_ctx *c, cj_lab_record *r)
{
    static const char *const name[ALGORITHMS] = { "direct", "im2col", "FFT" };
    double time[ALGORITHMS][SIZES];
    for (int i = 0; i < SIZES; i++)
        for (int how = 0; how < ALGORITHMS; how++)
            time[how][i] = microseconds(c, (algorithm)how, &(geometry){ PIXELS, (int64_t)sizes[i], 1, 0, 1 });
    for (int i = 0; i < SIZES; i++) {
        int best = 0;
        for (int how = 1; how < ALGORITHMS; how++)
            if (time[how][i] < time[best][i]) best = how;
        cj_lab_say(r, "%.0f x %.0f weights: direct %.0f us, im2col %.0f us, FFT %.0f us; %s first here", sizes[i], sizes[i],
                   time[DIRECT][i], time[COLUMNS][i], time[SPECTRA][i], name[best]);
    }
    double products[SIZES], grown[4], side[4];
    for (int i = 0; i < SIZES; i++) products[i] = pow(sizes[i] * (PIXELS - sizes[i] + 1), 2);
    for (int i = 0; i < 4; i++) {
        const double n = (double)(48 << i);
        side[i] = n * n * log(n);
        grown[i] = microseconds(c, SPECTRA, &(geometry){ 48 << i, 5, 1, 0, 1 });
    }
    cj_lab_expect(r, "loops: time over products k²p², slope on logarithms", 1, slope(products, time[DIRECT], SIZES), 0.3);
    cj_lab_expect(r, "FFT: time over n² log n, slope on logarithms", 1, slope(side, grown, 4), 0.35);
    cj_lab_expect_at_least(r, "3 x 3: FFT takes longer than loops by", 1.3, time[SPECTRA][0] / time[DIRECT][0]);
    cj_lab_expect_at_least(r, "15 x 15: loops take longer than FFT by", 1.3, time[DIRECT][4] / time[SPECTRA][4]);
    cj_plot *p = cj_plot_new(c, "Sliding a kernel over 64 x 64 pixels");
    cj_plot_labels(p, "side of the kernel", "microseconds");
    cj_plot_log(p, true, true);
    for (int how = 0; how < ALGORITHMS; how++) cj_plot_line(p, name[how], sizes, time[how], SIZES);
    cj_lab_picture(r, c, p, "convolution-algorithms");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    differences d = { 0 };
    for (int64_t n = 6; n <= 9; n += 3)
        for (int64_t k = 1; k <= 4; k++)
            for (int64_t stride = 1; stride <= 3; stride++)
                for (int64_t margin = 0; margin <= 2; margin++)
                    for (int64_t dilation = 1; dilation <= 2; dilation++) {
                        const geometry g = { n, k, stride, margin, dilation };
                        if (n + 2 * margin >= dilation * (k - 1) + 1) compare(c, &g, control, &d);
                    }
    cj_lab_expect(r, "the library's convolution against the loops", 0, d.operators, 1e-12);
    cj_lab_expect(r, "the matrix against the loops", 0, d.matrix, 1e-12);
    cj_lab_expect(r, "columns against the loops", 0, d.columns, 1e-12);
    cj_lab_expect(r, "spectra against the loops", 0, d.spectra, 1e-11);
    cj_lab_expect(r, "<im2col(x), z> - <x, col2im(z)>", 0, d.adjoint, 1e-10);
    cj_lab_expect(r, "the matrix transposed against col2im", 0, d.transpose, 1e-10);
    if (!control && cj_lab_wants_pictures(r) && cj_ok(c)) costs(c, r);
}

const cj_lab cj_lab_convolution_algorithms = {
    .name = "convolution-algorithms",
    .claim = "loops, a Toeplitz matrix, columns of pixels and spectra give the same convolution",
    .source = "courses; Chellapilla, Puri & Simard 2006; Mathieu, Henaff & LeCun 2014",
    .control = "columns meet the kernel turned round",
    .run = run,
};
