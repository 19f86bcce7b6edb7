/* Windows (window.h): plane by plane, one line of results at a time.  Every element of the kernel adds one shifted line to the running line, so the inner loops are plain
 * loops over pixels that the compiler turns into vector code; lines of bf16 and f16 are converted to f32 and back. */
#include "kernels/cpu/window.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/isa.h"

#define LINE 512 /* results worked on at a time */

typedef struct window_job {
    const cj_window_shape *v;
    cj_dtype t;
    const char *x;
    char *y;
    int64_t *index;
} window_job;

static int64_t volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

/* What one element k of the kernel does to results [begin, end) of a line: those from `low` to `high` see x[from + i·step], i counted from low. */
typedef struct shifted {
    int64_t low, high, from;
} shifted;

static shifted shift_of(const cj_window_shape *v, int64_t line, int64_t k, int64_t begin, int64_t end)
{
    const int64_t kx = k % v->kernel[2], ky = k / v->kernel[2] % v->kernel[1], kz = k / v->kernel[2] / v->kernel[1];
    const int64_t iy = line % v->out[1] * v->stride[1] + ky * v->dilation[1] - v->pad[1];
    const int64_t iz = line / v->out[1] * v->stride[0] + kz * v->dilation[0] - v->pad[0];
    const int64_t step = v->stride[2], shift = kx * v->dilation[2] - v->pad[2];
    if (iy < 0 || iy >= v->in[1] || iz < 0 || iz >= v->in[0] || shift >= v->in[2]) return (shifted){ begin, begin, 0 };
    int64_t low = shift >= 0 ? 0 : (-shift + step - 1) / step, high = (v->in[2] - 1 - shift) / step + 1;
    if (low < begin) low = begin;
    if (high > end) high = end;
    if (high < low) high = low;
    return (shifted){ low, high, (iz * v->in[1] + iy) * v->in[2] + low * step + shift };
}

/* ---- maxima ------------------------------------------------------------------------------------------------------------------------------------ */

/* best = max(best, x[0], x[by], …); from + i·step is the place of the i-th.  The first element seen is taken in any case: also -inf has a place. */
#define MAX_LINE(name, type, integer)                                                                                                      \
    static void name(type *restrict best, integer *restrict where, const type *restrict x, int64_t by, int64_t step, int64_t n,            \
                     int64_t from)                                                                                                         \
    {                                                                                                                                      \
        if (by == 1 && step == 1)                                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                const bool take = (x[i] > best[i]) | (x[i] != x[i]) | (where[i] < 0);                                                      \
                best[i] = take ? x[i] : best[i];                                                                                           \
                where[i] = take ? (integer)(from + i) : where[i];                                                                          \
            }                                                                                                                              \
        else                                                                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                const type v = x[i * by];                                                                                                  \
                const bool take = (v > best[i]) | (v != v) | (where[i] < 0);                                                               \
                best[i] = take ? v : best[i];                                                                                              \
                where[i] = take ? (integer)(from + i * step) : where[i];                                                                   \
            }                                                                                                                              \
    }
MAX_LINE(max_line_f32, float, int32_t)
MAX_LINE(max_line_f64, double, int64_t)

static void max_f32(const window_job *j, int64_t plane, int64_t line, int64_t begin, int64_t end, int64_t at)
{
    const cj_window_shape *v = j->v;
    const int64_t elem = cj__elem_size(j->t), step = v->stride[2];
    const char *x = j->x + plane * volume(v->in) * elem;
    float best[LINE], converted[LINE];
    int32_t where[LINE];
    for (int64_t i = 0; i < LINE; i++) best[i] = -INFINITY, where[i] = -1;
    for (int64_t k = 0; k < volume(v->kernel); k++) {
        const shifted s = shift_of(v, line, k, begin, end);
        const int64_t n = s.high - s.low;
        const bool half = j->t != CJ_F32;
        if (half && n) CJ_K(cj__convert_strided)(j->t, x + s.from * elem, step, CJ_F32, converted, n);
        max_line_f32(best + s.low - begin, where + s.low - begin, half ? converted : (const float *)x + s.from, half ? 1 : step, step, n,
                     s.from);
    }
    CJ_K(cj__convert)(CJ_F32, best, j->t, j->y + at * elem, end - begin);
    for (int64_t i = 0; i < end - begin; i++) j->index[at + i] = where[i] < 0 ? 0 : where[i];
}

static void max_f64(const window_job *j, int64_t plane, int64_t line, int64_t begin, int64_t end, int64_t at)
{
    const cj_window_shape *v = j->v;
    const double *x = (const double *)j->x + plane * volume(v->in);
    double *best = (double *)j->y + at;
    int64_t *where = j->index + at;
    for (int64_t i = 0; i < end - begin; i++) best[i] = -INFINITY, where[i] = -1;
    for (int64_t k = 0; k < volume(v->kernel); k++) {
        const shifted s = shift_of(v, line, k, begin, end);
        max_line_f64(best + s.low - begin, where + s.low - begin, x + s.from, v->stride[2], v->stride[2], s.high - s.low, s.from);
    }
    for (int64_t i = 0; i < end - begin; i++)
        if (where[i] < 0) where[i] = 0;
}

/* ---- sums --------------------------------------------------------------------------------------------------------------------------------------- */

#define ADD_LINE(name, type)                                                                                                               \
    static void name(type *restrict y, int64_t sy, const type *restrict x, int64_t sx, int64_t n)                                          \
    {                                                                                                                                      \
        if (sx == 1 && sy == 1)                                                                                                            \
            for (int64_t i = 0; i < n; i++) y[i] += x[i];                                                                                  \
        else                                                                                                                               \
            for (int64_t i = 0; i < n; i++) y[i * sy] += x[i * sx];                                                                        \
    }
ADD_LINE(add_line_f32, float)
ADD_LINE(add_line_f64, double)

static void sum_line(const window_job *j, int64_t plane, int64_t line, int64_t begin, int64_t end, int64_t at)
{
    const cj_window_shape *v = j->v;
    const int64_t elem = cj__elem_size(j->t), step = v->stride[2];
    const char *x = j->x + plane * volume(v->in) * elem;
    if (j->t == CJ_F64) {
        double *y = (double *)j->y + at;
        memset(y, 0, (size_t)(end - begin) * sizeof *y);
        for (int64_t k = 0; k < volume(v->kernel); k++) {
            const shifted s = shift_of(v, line, k, begin, end);
            add_line_f64(y + s.low - begin, 1, (const double *)x + s.from, step, s.high - s.low);
        }
        return;
    }
    float sum[LINE] = { 0 }, converted[LINE];
    for (int64_t k = 0; k < volume(v->kernel); k++) {
        const shifted s = shift_of(v, line, k, begin, end);
        const int64_t n = s.high - s.low;
        if (j->t == CJ_F32) {
            add_line_f32(sum + s.low - begin, 1, (const float *)x + s.from, step, n);
        } else if (n) {
            CJ_K(cj__convert_strided)(j->t, x + s.from * elem, step, CJ_F32, converted, n);
            add_line_f32(sum + s.low - begin, 1, converted, 1, n);
        }
    }
    CJ_K(cj__convert)(CJ_F32, sum, j->t, j->y + at * elem, end - begin);
}

/* ---- planes -------------------------------------------------------------------------------------------------------------------------------------- */

typedef void line_fn(const window_job *j, int64_t plane, int64_t line, int64_t begin, int64_t end, int64_t at);

static void each_line(const window_job *j, int64_t first, int64_t last, line_fn *fn)
{
    const cj_window_shape *v = j->v;
    const int64_t lines = v->out[0] * v->out[1], width = v->out[2];
    for (int64_t p = first; p < last; p++)
        for (int64_t l = 0; l < lines; l++)
            for (int64_t at = 0; at < width; at += LINE)
                fn(j, p, l, at, at + LINE < width ? at + LINE : width, (p * lines + l) * width + at);
}
static void max_planes(void *arg, int64_t begin, int64_t end, int worker)
{
    const window_job *j = arg;
    (void)worker;
    each_line(j, begin, end, j->t == CJ_F64 ? max_f64 : max_f32);
}
static void sum_planes(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    each_line(arg, begin, end, sum_line);
}

static void spread_planes(void *arg, int64_t begin, int64_t end, int worker)
{
    const window_job *j = arg;
    const cj_window_shape *v = j->v;
    const int64_t elem = cj__elem_size(j->t), inside = volume(v->in), lines = v->out[0] * v->out[1], width = v->out[2];
    (void)worker;
    for (int64_t p = begin; p < end; p++) {
        char *x = j->y + p * inside * elem;
        memset(x, 0, (size_t)(inside * elem));
        if (j->t == CJ_F32 || j->t == CJ_F64) {
            for (int64_t l = 0; l < lines; l++)
                for (int64_t k = 0; k < volume(v->kernel); k++) {
                    const shifted s = shift_of(v, l, k, 0, width);
                    const char *g = j->x + ((p * lines + l) * width + s.low) * elem;
                    if (j->t == CJ_F32) add_line_f32((float *)x + s.from, v->stride[2], (const float *)g, 1, s.high - s.low);
                    else add_line_f64((double *)x + s.from, v->stride[2], (const double *)g, 1, s.high - s.low);
                }
            continue;
        }
        /* bf16, f16: every element of x on its own, so that it is rounded once */
        for (int64_t i = 0; i < inside; i++) {
            const int64_t at[3] = { i / v->in[2] / v->in[1], i / v->in[2] % v->in[1], i % v->in[2] };
            float sum = 0;
            for (int64_t k = 0; k < volume(v->kernel); k++) {
                const int64_t kk[3] = { k / v->kernel[2] / v->kernel[1], k / v->kernel[2] % v->kernel[1], k % v->kernel[2] };
                int64_t o[3];
                bool held = true;
                for (int d = 0; d < 3 && held; d++) {
                    const int64_t from = at[d] + v->pad[d] - kk[d] * v->dilation[d];
                    o[d] = from / v->stride[d];
                    held = from >= 0 && from % v->stride[d] == 0 && o[d] < v->out[d];
                }
                if (!held) continue;
                float g;
                CJ_K(cj__convert)(j->t, j->x + (((p * v->out[0] + o[0]) * v->out[1] + o[1]) * width + o[2]) * elem, CJ_F32, &g, 1);
                sum += g;
            }
            CJ_K(cj__convert)(CJ_F32, &sum, j->t, x + i * elem, 1);
        }
    }
}

static void run(cj_pool *pool, const window_job *j, cj_range_fn fn)
{
    const int64_t work = volume(j->v->out) * volume(j->v->kernel), grain = work > 0 && work < 16384 ? 16384 / work : 1;
    cj__parallel_for(pool, j->v->planes, grain, fn, (void *)(uintptr_t)j);
}

void CJ_K(cj__window_max)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, int64_t *index)
{
    run(pool, &(window_job){ .v = v, .t = t, .x = x, .y = y, .index = index }, max_planes);
}
void CJ_K(cj__window_sum)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y)
{
    run(pool, &(window_job){ .v = v, .t = t, .x = x, .y = y }, sum_planes);
}
void CJ_K(cj__window_spread)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, void *x)
{
    run(pool, &(window_job){ .v = v, .t = t, .x = g, .y = x }, spread_planes);
}
