/* Convolution and its derivatives in f64, by plain loops over lines: the checks run in f64, and nothing here is fast on purpose.
 * Each task owns its results (a channel of y, of dx or of dw), so the bits do not depend on the threads. */
#include <string.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"

typedef struct f64_job {
    const cj_conv_shape *v;
    const double *a, *b;
    double *y;
} f64_job;

static double *f64_at(const cj_conv_shape *v, bool of_x, const double *data, int64_t n, int64_t channel, int64_t pixel)
{
    const conv_image m = { CJ_F64, of_x ? v->x_last : v->y_last, v->groups * (of_x ? v->c : v->o), conv_volume(of_x ? v->in : v->out) };
    return (double *)(uintptr_t)conv_at(&m, data, n, channel, pixel);
}

/* Walks over the lines that channel c of x and channel o of y share through element k of the kernel: n pixels each, sx and sy elements apart. */
typedef void line_fn(double *x, int64_t sx, double *y, int64_t sy, double *w, int64_t n);
static void add_y(double *x, int64_t sx, double *y, int64_t sy, double *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i * sy] += *w * x[i * sx];
}
static void add_x(double *x, int64_t sx, double *y, int64_t sy, double *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i * sx] += *w * y[i * sy];
}
static void add_w(double *x, int64_t sx, double *y, int64_t sy, double *w, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i * sx] * y[i * sy];
    *w += sum;
}

static void each_line(const cj_conv_shape *v, const double *x, const double *y, const double *w, int64_t n, int64_t g, int64_t c, int64_t o,
                      line_fn *fn)
{
    const conv_phase f = conv_phase_of(v, false, 0);
    const conv_axis *az = &f.axis[0], *ay = &f.axis[1], *ax = &f.axis[2];
    const int64_t sx = (v->x_last ? v->groups * v->c : 1) * ax->mul, sy = v->y_last ? v->groups * v->o : 1;
    double all = v->weight, *weights = w ? (double *)(uintptr_t)w + ((g * v->o + o) * v->c + c) * f.taps : &all;
    for (int64_t k = 0; k < f.taps; k++) {
        const int64_t jx = k % ax->taps, jy = k / ax->taps % ay->taps, jz = k / ax->taps / ay->taps;
        int64_t low, high;
        conv_inside(ax, ax->off0 + jx * ax->off_step, 0, ax->points, &low, &high);
        for (int64_t line = 0; line < az->points * ay->points && low < high; line++) {
            const int64_t iz = line / ay->points * az->mul + az->off0 + jz * az->off_step,
                          iy = line % ay->points * ay->mul + ay->off0 + jy * ay->off_step;
            if (iz < 0 || iz >= az->size || iy < 0 || iy >= ay->size) continue;
            const int64_t ix = low * ax->mul + ax->off0 + jx * ax->off_step;
            fn(f64_at(v, true, x, n, g * v->c + c, (iz * ay->size + iy) * ax->size + ix), sx,
               f64_at(v, false, y, n, g * v->o + o, line * ax->points + low), sy, w ? weights + k : weights, high - low);
        }
    }
}

static void clear(const cj_conv_shape *v, bool of_x, double *data, int64_t n, int64_t channel)
{
    const int64_t pixels = conv_volume(of_x ? v->in : v->out);
    for (int64_t p = 0; p < pixels; p++) *f64_at(v, of_x, data, n, channel, p) = 0;
}

static void forward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const f64_job *j = arg;
    const cj_conv_shape *v = j->v;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / (v->groups * v->o), channel = item % (v->groups * v->o);
        clear(v, false, j->y, n, channel);
        for (int64_t c = 0; c < v->c; c++) each_line(v, j->a, j->y, j->b, n, channel / v->o, c, channel % v->o, add_y);
    }
}
static void data_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const f64_job *j = arg;
    const cj_conv_shape *v = j->v;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / (v->groups * v->c), channel = item % (v->groups * v->c);
        clear(v, true, j->y, n, channel);
        for (int64_t o = 0; o < v->o; o++) each_line(v, j->y, j->a, j->b, n, channel / v->c, channel % v->c, o, add_x);
    }
}
static void weight_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const f64_job *j = arg;
    const cj_conv_shape *v = j->v;
    const int64_t window = conv_volume(v->kernel);
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t o = item / v->c, c = item % v->c;
        memset(j->y + item * window, 0, (size_t)window * sizeof *j->y);
        for (int64_t n = 0; n < v->n; n++) each_line(v, j->a, j->b, j->y, n, o / v->o, c, o % v->o, add_w);
    }
}

void CJ_K(cj__conv_f64)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const double *a, const double *b, double *result)
{
    f64_job j = { v, a, b, result };
    const int64_t work = conv_volume(v->out) * conv_volume(v->kernel), grain = conv_max(1, 16384 / conv_max(1, work));
    if (pass == CJ_CONV_FORWARD) cj__parallel_for(pool, v->n * v->groups * v->o, grain, forward_items, &j);
    else if (pass == CJ_CONV_DATA) cj__parallel_for(pool, v->n * v->groups * v->c, grain, data_items, &j);
    else cj__parallel_for(pool, v->groups * v->o * v->c, grain, weight_items, &j);
}
