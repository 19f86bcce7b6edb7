/* Regions of interest (roi.h): RoI align (He et al. 2017) with its transpose, RoI pooling (Girshick 2015).
 *
 * Forward, a task is a box; the transpose cuts the channels instead and lets every task walk all boxes in order, so that sums over overlapping
 * boxes have one order.
 */
#include "kernels/cpu/roi.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/isa.h"

typedef struct roi_job {
    const cj_roi_shape *v;
    cj_roi_code code;
    cj_dtype t;
    const void *in;
    const double *boxes;
    void *out;
    int64_t *where;
} roi_job;

/* One axis of a box: where its bins begin, how long they are, how many samples they have. */
typedef struct extent {
    double start, bin;
    int64_t samples;
} extent;

static extent extent_of(const cj_roi_shape *v, double low, double high, int64_t bins)
{
    const double shift = v->aligned ? 0.5 : 0, start = low * v->scale - shift;
    double size = high * v->scale - shift - start;
    if (!v->aligned && size < 1) size = 1;
    const int64_t samples = v->sampling > 0 ? v->sampling : (int64_t)ceil(size / (double)bins);
    return (extent){ start, size / (double)bins, samples > 0 ? samples : 0 };
}

/* The two neighbours of a sample along an axis of n pixels and their weights; both 0 for a sample more than a pixel outside. */
typedef struct between {
    int64_t low, high;
    double w_low, w_high;
} between;

static between between_at(const extent *e, int64_t bin, int64_t k, int64_t n)
{
    double at = e->start + ((double)bin + ((double)k + 0.5) / (double)e->samples) * e->bin;
    if (at < -1 || at > (double)n) return (between){ 0 };
    if (at < 0) at = 0;
    const int64_t low = (int64_t)at;
    if (low >= n - 1) return (between){ n - 1, n - 1, 1, 0 };
    return (between){ low, low + 1, 1 - (at - (double)low), at - (double)low };
}

/* x[4 places]·weights summed over channels [c0, c1), or the transpose of that: `grad` true adds to x. */
#define SAMPLES(name, type)                                                                                                                \
    static void name(const cj_roi_shape *v, type *x, type *y, const double *box, int64_t c0, int64_t c1, bool grad)                        \
    {                                                                                                                                      \
        const extent ey = extent_of(v, box[2], box[4], v->bins[0]), ex = extent_of(v, box[1], box[3], v->bins[1]);                         \
        const int64_t plane = v->h * v->w, bins = v->bins[0] * v->bins[1];                                                                 \
        const double count = (double)(ey.samples * ex.samples > 1 ? ey.samples * ex.samples : 1);                                          \
        x += (int64_t)box[0] * v->c * plane;                                                                                               \
        for (int64_t b = 0; b < bins; b++)                                                                                                 \
            for (int64_t s = 0; s < ey.samples * ex.samples; s++) {                                                                        \
                const between py = between_at(&ey, b / v->bins[1], s / ex.samples, v->h),                                                  \
                              px = between_at(&ex, b % v->bins[1], s % ex.samples, v->w);                                                  \
                const int64_t at[4] = { py.low * v->w + px.low, py.low * v->w + px.high, py.high * v->w + px.low,                          \
                                        py.high * v->w + px.high };                                                                        \
                const type w[4] = { (type)(py.w_low * px.w_low / count), (type)(py.w_low * px.w_high / count),                             \
                                    (type)(py.w_high * px.w_low / count), (type)(py.w_high * px.w_high / count) };                         \
                if (w[0] == 0 && w[1] == 0 && w[2] == 0 && w[3] == 0) continue;                                                            \
                for (int64_t c = c0; c < c1; c++) {                                                                                        \
                    type *p = x + c * plane, *q = y + c * bins + b;                                                                        \
                    if (grad)                                                                                                              \
                        for (int k = 0; k < 4; k++) p[at[k]] += w[k] * *q;                                                                 \
                    else *q += w[0] * p[at[0]] + w[1] * p[at[1]] + w[2] * p[at[2]] + w[3] * p[at[3]];                                      \
                }                                                                                                                          \
            }                                                                                                                              \
    }
SAMPLES(samples_f32, float)
SAMPLES(samples_f64, double)

/* Pixels [from, to) of a bin along an axis of n: torchvision's rounding. */
static void bin_range(const cj_roi_shape *v, double low, double high, int64_t bins, int64_t bin, int64_t n, int64_t *from, int64_t *to)
{
    const double first = round(low * v->scale), last = round(high * v->scale), size = last - first + 1 > 1 ? last - first + 1 : 1;
    const double begin = first + floor((double)bin * size / (double)bins), end = first + ceil((double)(bin + 1) * size / (double)bins);
    *from = (int64_t)(begin < 0 ? 0 : begin > (double)n ? (double)n : begin);
    *to = (int64_t)(end < 0 ? 0 : end > (double)n ? (double)n : end);
}

#define LARGEST(name, type)                                                                                                                \
    static void name(const cj_roi_shape *v, const type *x, type *y, int64_t *where, const double *box)                                     \
    {                                                                                                                                      \
        const int64_t plane = v->h * v->w, bins = v->bins[0] * v->bins[1], image = (int64_t)box[0] * v->c * plane;                         \
        for (int64_t b = 0; b < bins; b++) {                                                                                               \
            int64_t top, bottom, left, right;                                                                                              \
            bin_range(v, box[2], box[4], v->bins[0], b / v->bins[1], v->h, &top, &bottom);                                                 \
            bin_range(v, box[1], box[3], v->bins[1], b % v->bins[1], v->w, &left, &right);                                                 \
            for (int64_t c = 0; c < v->c; c++) {                                                                                           \
                int64_t at = v->n * v->c * plane;                                                                                          \
                type best = 0;                                                                                                             \
                for (int64_t i = top; i < bottom; i++)                                                                                     \
                    for (int64_t j = left; j < right; j++) {                                                                               \
                        const int64_t place = image + c * plane + i * v->w + j;                                                            \
                        if (at < v->n * v->c * plane && !(x[place] > best || x[place] != x[place])) continue;                              \
                        best = x[place];                                                                                                   \
                        at = place;                                                                                                        \
                    }                                                                                                                      \
                y[c * bins + b] = best;                                                                                                    \
                where[c * bins + b] = at;                                                                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
LARGEST(largest_f32, float)
LARGEST(largest_f64, double)

static void each_box(void *arg, int64_t begin, int64_t end, int worker)
{
    const roi_job *j = arg;
    const cj_roi_shape *v = j->v;
    const int64_t size = v->c * v->bins[0] * v->bins[1];
    (void)worker;
    for (int64_t k = begin; k < end; k++) {
        const double *box = j->boxes + 5 * k;
        char *y = (char *)j->out + k * size * cj__elem_size(j->t);
        if (j->code == CJ_ROI_POOL) {
            if (j->t == CJ_F64) largest_f64(v, j->in, (double *)(void *)y, j->where + k * size, box);
            else largest_f32(v, j->in, (float *)(void *)y, j->where + k * size, box);
            continue;
        }
        memset(y, 0, (size_t)(size * cj__elem_size(j->t)));
        if (j->t == CJ_F64) samples_f64(v, (double *)(uintptr_t)j->in, (double *)(void *)y, box, 0, v->c, false);
        else samples_f32(v, (float *)(uintptr_t)j->in, (float *)(void *)y, box, 0, v->c, false);
    }
}

static void each_channel(void *arg, int64_t begin, int64_t end, int worker)
{
    const roi_job *j = arg;
    const cj_roi_shape *v = j->v;
    const int64_t size = v->c * v->bins[0] * v->bins[1], elem = cj__elem_size(j->t), plane = v->h * v->w;
    (void)worker;
    for (int64_t n = 0; n < v->n; n++)
        memset((char *)j->out + (n * v->c + begin) * plane * elem, 0, (size_t)((end - begin) * plane * elem));
    for (int64_t k = 0; k < v->boxes; k++) {
        char *g = (char *)(uintptr_t)j->in + k * size * elem;
        if (j->t == CJ_F64) samples_f64(v, j->out, (double *)(void *)g, j->boxes + 5 * k, begin, end, true);
        else samples_f32(v, j->out, (float *)(void *)g, j->boxes + 5 * k, begin, end, true);
    }
}

void CJ_K(cj__roi)(cj_pool *pool, cj_roi_code code, const cj_roi_shape *v, cj_dtype t, const void *in, const double *boxes, void *out,
                   int64_t *where)
{
    roi_job j = { .v = v, .code = code, .t = t, .in = in, .boxes = boxes, .out = out, .where = where };
    if (code == CJ_ROI_SPREAD) cj__parallel_for(pool, v->c, 8, each_channel, &j);
    else cj__parallel_for(pool, v->boxes, 1, each_box, &j);
}
