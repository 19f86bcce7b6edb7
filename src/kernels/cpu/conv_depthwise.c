/* Depthwise convolution and its derivatives: every channel on its own, vectors along the channels; f32, bf16 and f16.
 *
 *   forward, data   y[p, c]  = sum over taps of w[tap, c] · x[p at tap, c]
 *   weight          dw[tap, c] = sum over points of x[p at tap, c] · dy[p, c]: a sum per image, added in the order of the images
 *
 * A task takes a band of points and a block of channels; what is not channels-last f32 is copied first (conv_image.h).
 */
#include <string.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/conv_slide.h"

enum {
    BLOCK = 64,                          /* channels of a task */
    BAND_POINTS = 448,                   /* of a task, about */
    TOGETHER = 2,                        /* points that are worked on at a time */
    TAPS = 4,                            /* the same of taps */
    WIDE = GEMM_REGISTERS == 32 ? 4 : 2, /* vectors of channels: whole pixels are read in one go */
    LINES = 16,                          /* of the source, read at a time */
};

typedef struct depthwise_plan {
    cj_conv_pass pass;
    bool data;
    int64_t channels, blocks, phases, band;
    conv_image source, result; /* weight: x and dy */
    int64_t source_floats, out_floats, turned_floats;
    int64_t window, sums; /* elements of a kernel; floats of the weights, or of an image's sums */
    size_t worker_bytes, shared_bytes;
} depthwise_plan;

static bool plain_image(const conv_image *m) { return m->last && m->t == CJ_F32; }

static depthwise_plan depthwise_plan_of(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t)
{
    const conv_image x = { t, v->x_last, v->groups, conv_volume(v->in) }, y = { t, v->y_last, v->groups, conv_volume(v->out) };
    depthwise_plan p = { .pass = pass, .data = pass == CJ_CONV_DATA, .channels = v->groups, .window = conv_volume(v->kernel) };
    p.source = p.data ? y : x, p.result = p.data ? x : y;
    p.blocks = (p.channels + BLOCK - 1) / BLOCK;
    p.phases = p.data ? conv_volume(v->stride) : 1;
    p.band = conv_max(32, BAND_POINTS / (p.data ? 1 : v->stride[1] * v->stride[2]));
    for (int64_t i = 0; i < p.phases; i++) {
        const conv_phase f = conv_phase_of(v, p.data, i);
        const conv_copy c = conv_copy_of(&f, plain_image(&p.source), BLOCK, p.band, false);
        p.source_floats = conv_max(p.source_floats, conv_copy_floats(&c, &f, BLOCK));
    }
    if (!plain_image(&p.result)) p.out_floats = p.band * BLOCK;
    if (p.out_floats && t != CJ_F32 && !p.result.last) p.turned_floats = p.out_floats;
    p.sums = conv_up(p.window * p.channels, 16);
    p.worker_bytes = (size_t)((p.source_floats + p.out_floats + p.turned_floats) * 4);
    p.shared_bytes = (size_t)((pass == CJ_CONV_WEIGHT ? v->n : 1) * p.sums * 4);
    return p;
}

typedef struct depthwise_job {
    const cj_conv_shape *v;
    const depthwise_plan *p;
    const void *a, *b;
    void *y;
    float *shared; /* weights [tap of the kernel, channel]; weight: sums of an image of the same shape */
    char *workers;
    conv_phase f;
    conv_copy c;
    int64_t bands;
} depthwise_job;

#define DEPTHWISE_UNROLL _Pragma("GCC unroll 4")

GEMM_INLINE vf load_lanes(const float *p, int lanes) { return lanes == VL ? vload(p) : vload_some(p, lanes); }
GEMM_INLINE void store_lanes(float *p, vf x, int lanes)
{
    if (lanes == VL) vstore(p, x);
    else vstore_some(p, x, lanes);
}

/* The lines of the source that a line of points reads: tap (jz, jy) of those that lie inside. */
typedef struct source_line {
    const float *from; /* x = 0, first channel of the block */
    int64_t k;         /* element of the kernel of its tap jx = 0 */
} source_line;

/* Up to LINES of them from tap *at on. */
static int source_lines(const depthwise_job *j, const conv_source *s, int64_t line, int64_t *at, source_line *l)
{
    const conv_axis *az = &j->f.axis[0], *ay = &j->f.axis[1], *ax = &j->f.axis[2];
    const int64_t *kernel = j->v->kernel, z = line / ay->points, y = line - z * ay->points;
    int n = 0;
    if (!ax->taps) *at = az->taps * ay->taps; /* strides beyond the kernel: these points see nothing */
    for (int64_t jz = *at / conv_max(1, ay->taps), jy = *at - jz * ay->taps; *at < az->taps * ay->taps && n < LINES; ++*at) {
        const int64_t iz = z * az->mul + az->off0 + jz * az->off_step, iy = y * ay->mul + ay->off0 + jy * ay->off_step;
        if (iz >= 0 && iz < az->size && iy >= 0 && iy < ay->size) {
            l[n].from = s->base + ((iz - s->z0) * s->lines + iy - s->y0) * s->line_floats;
            l[n++].k = ((az->k0 + jz * az->k_step) * kernel[1] + ay->k0 + jy * ay->k_step) * kernel[2] + ax->k0;
        }
        if (++jy == ay->taps) jy = 0, jz++;
    }
    return n;
}

/* ---- forward and data ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct line_work {
    const conv_axis *x;
    const source_line *line;
    int lines;
    int64_t pixel;  /* floats between pixels of the source */
    const float *w; /* of the first channel */
    int64_t w_row;  /* floats between elements of the kernel */
    bool add;
} line_work;

/* N points from x on, all of whose taps along x lie inside; V vectors of channels, or one of `lanes` lanes. */
GEMM_INLINE void points_inside(const line_work *t, int64_t x, int64_t c, float *const *out, const int lanes, const int N, const int V)
{
    const conv_axis *ax = t->x;
    const int64_t taps = ax->taps, next = ax->mul * t->pixel, start = (x * ax->mul + ax->off0) * t->pixel + c;
    const int64_t w_step = ax->k_step * t->w_row, step = ax->off_step * t->pixel;
    vf acc[TOGETHER][WIDE];
    DEPTHWISE_UNROLL for (int i = 0; i < N; i++) DEPTHWISE_UNROLL for (int v = 0; v < V; v++) acc[i][v] =
        t->add ? load_lanes(out[i] + c + v * VL, lanes) : vzero();
    for (int l = 0; l < t->lines; l++) {
        const float *w = t->w + t->line[l].k * t->w_row + c, *from = t->line[l].from + start, *second = from + next;
        for (int64_t jx = 0; jx < taps; jx++, w += w_step, from += step, second += step) DEPTHWISE_UNROLL for (int v = 0; v < V; v++)
            {
                const vf weight = load_lanes(w + v * VL, lanes);
                acc[0][v] = vfma(weight, load_lanes(from + v * VL, lanes), acc[0][v]);
                if (N > 1) acc[1][v] = vfma(weight, load_lanes(second + v * VL, lanes), acc[1][v]);
            }
    }
    DEPTHWISE_UNROLL for (int i = 0; i < N; i++) DEPTHWISE_UNROLL for (int v = 0; v < V; v++)
        store_lanes(out[i] + c + v * VL, acc[i][v], lanes);
}
/* Functions of their own: inlined into the loops around them, their addresses would not fit the registers. */
static __attribute__((noinline)) void two_wide(const line_work *t, int64_t x, int64_t c, float *const *out)
{
    points_inside(t, x, c, out, VL, 2, WIDE);
}
static __attribute__((noinline)) void one_wide(const line_work *t, int64_t x, int64_t c, float *const *out)
{
    points_inside(t, x, c, out, VL, 1, WIDE);
}
static __attribute__((noinline)) void one_narrow(const line_work *t, int64_t x, int64_t c, float *const *out, int lanes)
{
    points_inside(t, x, c, out, lanes, 1, 1);
}

/* One point some of whose taps may lie outside. */
static void point_at_edge(const line_work *t, int64_t x, int64_t c, float *out, int lanes)
{
    const conv_axis *ax = t->x;
    vf acc = t->add ? load_lanes(out + c, lanes) : vzero();
    for (int l = 0; l < t->lines; l++)
        for (int64_t jx = 0; jx < ax->taps; jx++) {
            const int64_t ix = x * ax->mul + ax->off0 + jx * ax->off_step;
            if (ix < 0 || ix >= ax->size) continue;
            const float *w = t->w + (t->line[l].k + jx * ax->k_step) * t->w_row + c;
            acc = vfma(load_lanes(w, lanes), load_lanes(t->line[l].from + ix * t->pixel + c, lanes), acc);
        }
    store_lanes(out + c, acc, lanes);
}

/* Points [begin, end) of a line, of which [low, high) have all taps along x inside; out[i]: the first channel of point begin + i. */
static void work_line(const line_work *t, int64_t begin, int64_t end, int64_t low, int64_t high, int64_t channels, float *const *out)
{
    for (int64_t c = 0; c < channels;) {
        const bool wide = channels - c >= WIDE * VL;
        const int lanes = (int)conv_min(VL, channels - c);
        for (int64_t x = begin; x < end; x++) {
            if (x == low) x = high;
            if (x >= end) break;
            for (int v = 0; v < (wide ? WIDE : 1); v++) point_at_edge(t, x, c + v * VL, out[x - begin], lanes);
        }
        int64_t x = low;
        if (wide) {
            for (; x + TOGETHER <= high; x += TOGETHER) two_wide(t, x, c, out + x - begin);
            for (; x < high; x++) one_wide(t, x, c, out + x - begin);
        } else {
            for (; x < high; x++) one_narrow(t, x, c, out + x - begin, lanes);
        }
        c += wide ? WIDE * VL : VL;
    }
}

/* Whether a window can slide along the lines of a phase (conv_slide.h). */
static bool slides(const conv_phase *f)
{
    const conv_axis *x = &f->axis[2];
    return x->taps == SLIDE_TAPS && x->off_step == 1 && x->mul == 1 && x->step == 1 && x->off0 > -SLIDE_TAPS && x->size >= SLIDE_TAPS - 1 &&
           f->axis[0].taps * f->axis[1].taps <= SLIDE_LINES;
}

/* A line of points [begin, end) as the sliding window sees it; returns how many lines of the source it reads.  y: point `begin` of the result, or of dy. */
static int slide_along(const depthwise_job *j, const conv_source *s, int64_t line, int64_t begin, int64_t end, float *y, int64_t y_step,
                       source_line *lines, slide_line *t)
{
    const conv_axis *ax = &j->f.axis[2];
    int64_t tap = 0;
    const int count = source_lines(j, s, line, &tap, lines);
    *t = (slide_line){ .pixel = s->pixel,
                       .size = ax->size,
                       .w_step = ax->k_step * j->p->channels,
                       .y = y,
                       .y_step = y_step,
                       .begin = begin,
                       .end = end,
                       .off = ax->off0 };
    for (int l = 0; l < count; l++) t->from[l] = lines[l].from;
    return count;
}

/* The result of a line. */
static void slide_result(const depthwise_job *j, const conv_source *s, int64_t line, int64_t begin, int64_t end, int64_t c0,
                         int64_t channels, float *y, int64_t y_step)
{
    source_line lines[LINES];
    slide_line t;
    const int count = slide_along(j, s, line, begin, end, y, y_step, lines, &t);
    for (int l = 0; l < count; l++) t.w[l] = j->shared + c0 + lines[l].k * j->p->channels;
    if (count) slide_points(t, SLIDE_GATHER, count, channels);
    for (int64_t x = begin; !count && x < end; x++, y += y_step) memset(y, 0, (size_t)channels * sizeof *y);
}

/* Adds to the sums what a line, or two where they see all of their taps, has for them; returns how many it were. */
static int slide_sums(const depthwise_job *j, const conv_source *s, int64_t line, int64_t begin, int64_t end, int64_t left,
                      int64_t channels, const float *dy, int64_t dy_step, float *sums)
{
    const conv_axis *az = &j->f.axis[0], *ay = &j->f.axis[1], *ax = &j->f.axis[2];
    source_line lines[LINES];
    slide_line t;
    const int count = slide_along(j, s, line, begin, end, (float *)(uintptr_t)dy, dy_step, lines, &t);
    const int64_t first = line % ay->points + ay->off0; /* line of the source */
    const bool two = az->taps == 1 && ay->mul == 1 && ay->off_step == 1 && line % ay->points + 1 < ay->points && first >= 0 &&
                     first + ay->taps < ay->size && begin == 0 && end == ax->points && left >= 2 * end;
    for (int l = 0; l < count; l++) t.sums[l] = sums + lines[l].k * j->p->channels;
    if (two) t.from[count] = t.from[count - 1] + s->line_floats, t.y_line = ax->points * dy_step;
    if (count) slide_points(t, two ? SLIDE_TWO : SLIDE_WEIGHT, count, channels);
    return two ? 2 : 1;
}

/* A band of an image, a block of channels. */
static void gather_band(const depthwise_job *j, int64_t n, int64_t band, int64_t block, int worker)
{
    const depthwise_plan *p = j->p;
    const conv_axis *ax = &j->f.axis[2];
    const int64_t *size = p->data ? j->v->in : j->v->out;
    const bool direct = plain_image(&p->result), sliding = slides(&j->f);
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *sums = copy + p->source_floats,
          *turned = sums + p->out_floats;
    float *out[BAND_POINTS];
    int64_t low = 0, high = ax->points, some; /* points all of whose taps along x lie inside */
    if (ax->taps) {
        conv_inside(ax, ax->off0, 0, ax->points, &low, &some);
        conv_inside(ax, ax->off0 + (ax->taps - 1) * ax->off_step, 0, ax->points, &some, &high);
        if (high < low) low = high = 0;
    }
    const int64_t c0 = block * BLOCK, channels = conv_min(BLOCK, p->channels - c0);
    const int64_t p0 = band * p->band, p1 = conv_min(p0 + p->band, j->f.points);
    const conv_source s = conv_source_of(&j->f, &j->c, &p->source, j->a, n, c0, channels, p0, p1, copy);
    for (int64_t at = p0, from, to; at < p1; at += to - from) {
        const int64_t line = at / ax->points;
        from = at - line * ax->points, to = conv_min(ax->points, from + p1 - at);
        if (sliding) {
            float *y =
                direct ? (float *)(uintptr_t)conv_at(&p->result, j->y, n, c0, conv_place(&j->f, size, at)) : sums + (at - p0) * channels;
            slide_result(j, &s, line, from, to, c0, channels, y, direct ? p->channels : channels);
            continue;
        }
        if (direct)
            conv_places(&j->f, size, (float *)(uintptr_t)conv_at(&p->result, j->y, n, c0, 0), p->channels, at, at + to - from, 1, out);
        else
            for (int64_t x = from; x < to; x++) out[x - from] = sums + (at + x - from - p0) * channels;
        const int64_t l = conv_min(conv_max(low, from), to), h = conv_min(conv_max(high, l), to);
        source_line lines[LINES];
        line_work t = { .x = ax, .line = lines, .pixel = s.pixel, .w = j->shared + c0, .w_row = p->channels };
        int64_t tap = 0;
        do {
            t.lines = source_lines(j, &s, line, &tap, lines);
            work_line(&t, from, to, l, h, channels, out);
            t.add = true;
        } while (tap < j->f.axis[0].taps * j->f.axis[1].taps);
    }
    if (!direct) conv_store(&j->f, size, &p->result, j->y, n, c0, channels, p0, p1, sums, channels, turned);
}

/* Tasks: (image, band, block of channels). */
static void gather_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const depthwise_job *j = arg;
    for (int64_t task = begin; task < end; task++)
        gather_band(j, task / j->p->blocks / j->bands, task / j->p->blocks % j->bands, task % j->p->blocks, worker);
}

/* ---- weight ----------------------------------------------------------------------------------------------------------------------------------------------- */

/* N taps along x from jx on, points [low, high) of a line: sums[i·sums_row] += sum of x · dy. */
GEMM_INLINE void add_taps(const conv_axis *ax, const float *from, int64_t pixel, const float *dy, int64_t dy_pixel, float *sums,
                          int64_t sums_row, int64_t jx, int64_t low, int64_t high, const int lanes, const int N, const int V)
{
    vf acc[TAPS][WIDE];
    DEPTHWISE_UNROLL for (int i = 0; i < N; i++) DEPTHWISE_UNROLL for (int v = 0; v < V; v++) acc[i][v] = vzero();
    from += (low * ax->mul + ax->off0 + jx * ax->off_step) * pixel, dy += low * dy_pixel;
    for (int64_t x = low; x < high; x++, from += ax->mul * pixel, dy += dy_pixel) DEPTHWISE_UNROLL for (int v = 0; v < V; v++)
        {
            const vf g = load_lanes(dy + v * VL, lanes);
            DEPTHWISE_UNROLL for (int i = 0; i < N; i++) acc[i][v] =
                vfma(g, load_lanes(from + i * ax->off_step * pixel + v * VL, lanes), acc[i][v]);
        }
    DEPTHWISE_UNROLL for (int i = 0; i < N; i++) DEPTHWISE_UNROLL for (int v = 0; v < V; v++)
    {
        float *to = sums + i * sums_row + v * VL;
        store_lanes(to, vadd(load_lanes(to, lanes), acc[i][v]), lanes);
    }
}

#define TAPS_TOGETHER(N)                                                                                                                   \
    static __attribute__((noinline)) void add_taps_##N(const conv_axis *ax, const float *from, int64_t pixel, const float *dy,             \
                                                       int64_t dy_pixel, float *sums, int64_t sums_row, int64_t jx, int64_t low,           \
                                                       int64_t high, int lanes, bool wide)                                                 \
    {                                                                                                                                      \
        if (wide) add_taps(ax, from, pixel, dy, dy_pixel, sums, sums_row, jx, low, high, VL, N, WIDE);                                     \
        else add_taps(ax, from, pixel, dy, dy_pixel, sums, sums_row, jx, low, high, lanes, N, 1);                                          \
    }
TAPS_TOGETHER(1)
TAPS_TOGETHER(2)
TAPS_TOGETHER(3)
TAPS_TOGETHER(4)

/* All taps along x of one line of points [begin, end); dy: point 0 of the line. */
static void weight_line(const conv_axis *ax, const float *from, int64_t pixel, const float *dy, int64_t dy_pixel, float *sums,
                        int64_t sums_row, int64_t begin, int64_t end, int lanes, bool wide)
{
    sums_row *= ax->k_step;
    for (int64_t jx = 0; jx < ax->taps; jx += TAPS) {
        const int64_t taps = conv_min(TAPS, ax->taps - jx);
        int64_t low[TAPS], high[TAPS], all_low = begin, all_high = end;
        for (int64_t i = 0; i < taps; i++) {
            conv_inside(ax, ax->off0 + (jx + i) * ax->off_step, begin, end, &low[i], &high[i]);
            all_low = conv_max(all_low, low[i]), all_high = conv_min(all_high, high[i]);
        }
        if (all_high < all_low) all_high = all_low = end;
        float *to = sums + jx * sums_row;
        static void (*const together[])(const conv_axis *, const float *, int64_t, const float *, int64_t, float *, int64_t, int64_t,
                                        int64_t, int64_t, int, bool) = { add_taps_1, add_taps_2, add_taps_3, add_taps_4 };
        together[taps - 1](ax, from, pixel, dy, dy_pixel, to, sums_row, jx, all_low, all_high, lanes, wide);
        for (int64_t i = 0; i < taps; i++) { /* points that only some of the taps see */
            const int64_t left = conv_min(high[i], all_low), right = conv_max(low[i], all_high);
            if (low[i] < left) add_taps_1(ax, from, pixel, dy, dy_pixel, to + i * sums_row, 0, jx + i, low[i], left, lanes, wide);
            if (right < high[i]) add_taps_1(ax, from, pixel, dy, dy_pixel, to + i * sums_row, 0, jx + i, right, high[i], lanes, wide);
        }
    }
}

/* The sums of an image: of a block of channels, begun with the first band. */
static void weight_band(const depthwise_job *j, int64_t n, int64_t band, int64_t block, int worker)
{
    const depthwise_plan *p = j->p;
    const conv_axis *ax = &j->f.axis[2];
    const bool direct = plain_image(&p->result), sliding = slides(&j->f);
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *turned = copy + p->source_floats;
    const int64_t c0 = block * BLOCK, channels = conv_min(BLOCK, p->channels - c0);
    const int64_t p0 = band * p->band, p1 = conv_min(p0 + p->band, j->f.points);
    float *sums = j->shared + n * p->sums + c0;
    for (int64_t k = 0; k < p->window && band == 0; k++) memset(sums + k * p->channels, 0, (size_t)channels * sizeof *sums);
    const conv_source s = conv_source_of(&j->f, &j->c, &p->source, j->a, n, c0, channels, p0, p1, copy);
    if (!direct) conv_load(&p->result, j->b, n, c0, channels, p0, p1 - p0, turned, channels);
    const float *dy = direct ? (const float *)(const void *)conv_at(&p->result, j->b, n, c0, p0) : turned;
    const int64_t dy_pixel = direct ? p->channels : channels;
    for (int64_t at = p0, from, to, count = 1; at < p1; at += (to - from) * count) {
        const int64_t line = at / ax->points;
        from = at - line * ax->points, to = conv_min(ax->points, from + p1 - at);
        if (sliding) {
            count = slide_sums(j, &s, line, from, to, p1 - at, channels, dy + (at - p0) * dy_pixel, dy_pixel, sums);
            continue;
        }
        source_line lines[LINES];
        for (int64_t tap = 0; tap < j->f.axis[0].taps * j->f.axis[1].taps;) {
            const int found = source_lines(j, &s, line, &tap, lines);
            for (int l = 0; l < found; l++)
                for (int64_t c = 0; c < channels;) {
                    const int lanes = (int)conv_min(VL, channels - c);
                    const float *x = lines[l].from + c, *g = dy + (at - p0 - from) * dy_pixel + c;
                    const bool wide = channels - c >= WIDE * VL;
                    weight_line(ax, x, s.pixel, g, dy_pixel, sums + lines[l].k * p->channels + c, p->channels, from, to, lanes, wide);
                    c += wide ? WIDE * VL : VL;
                }
        }
    }
}

/* Tasks: (image, block of channels). */
static void weight_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const depthwise_job *j = arg;
    for (int64_t task = begin; task < end; task++)
        for (int64_t band = 0; band < j->bands; band++) weight_band(j, task / j->p->blocks, band, task % j->p->blocks, worker);
}

static void finish_weight(const depthwise_job *j)
{
    const depthwise_plan *p = j->p;
    float *total = j->shared;
    for (int64_t n = 1; n < j->v->n; n++)
        for (int64_t i = 0; i < p->window * p->channels; i++) total[i] += j->shared[n * p->sums + i];
    for (int64_t c = 0; c < p->channels; c++) CJ_K(cj__convert_strided)
    (CJ_F32, total + c, p->channels, p->source.t, (char *)j->y + c * p->window * cj__elem_size(p->source.t), p->window);
}

/* ---- the entry ------------------------------------------------------------------------------------------------------------------------------------------------ */

size_t CJ_K(cj__conv_depthwise_workspace)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, int threads)
{
    const depthwise_plan p = depthwise_plan_of(v, pass, t);
    return p.shared_bytes + (size_t)threads * p.worker_bytes;
}

/* The job of a pass, its weights in the order that is read. */
static depthwise_job job_of(const cj_conv_shape *v, const depthwise_plan *p, const void *a, const void *b, void *result, void *workspace)
{
    depthwise_job j = { .v = v, .p = p, .a = a, .b = b, .y = result, .shared = workspace, .workers = (char *)workspace + p->shared_bytes };
    const cj_dtype t = p->source.t;
    if (p->pass == CJ_CONV_WEIGHT) return j;
    for (int64_t i = 0; i < p->window * p->channels && !b; i++) j.shared[i] = (float)v->weight;
    for (int64_t k = 0; k < p->window && b; k++)
        CJ_K(cj__convert_strided)(t, (const char *)b + k * cj__elem_size(t), p->window, CJ_F32, j.shared + k * p->channels, p->channels);
    return j;
}

static bool next_phase(depthwise_job *j, int64_t i)
{
    j->f = conv_phase_of(j->v, j->p->data, i);
    if (!j->f.points) return false;
    j->c = conv_copy_of(&j->f, plain_image(&j->p->source), BLOCK, j->p->band, false);
    j->bands = (j->f.points + j->p->band - 1) / j->p->band;
    return true;
}

void CJ_K(cj__conv_depthwise)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *a, const void *b,
                              void *result, void *workspace)
{
    const depthwise_plan p = depthwise_plan_of(v, pass, t);
    depthwise_job j = job_of(v, &p, a, b, result, workspace);
    const bool weight = pass == CJ_CONV_WEIGHT;
    if (weight && !v->n) {
        memset(result, 0, (size_t)(p.window * p.channels * cj__elem_size(t)));
        return;
    }
    for (int64_t i = 0; i < p.phases; i++) {
        if (!next_phase(&j, i)) continue;
        const int64_t points = weight ? j.f.points : conv_min(p.band, j.f.points);
        cj__parallel_for(pool, v->n * p.blocks * (weight ? 1 : j.bands), conv_max(1, 16384 / (points * p.window * VL)),
                         weight ? weight_tasks : gather_tasks, &j);
    }
    if (weight) finish_weight(&j);
}

/* ---- both derivatives in one sweep: dy is read from memory once --------------------------------------------------------------------------------------------------- */

typedef struct both_jobs {
    depthwise_job data, weight;
} both_jobs;

/* Tasks: (image, block of channels). */
static void both_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const both_jobs *j = arg;
    for (int64_t task = begin; task < end; task++) {
        const int64_t blocks = j->data.p->blocks, n = task / blocks, block = task % blocks;
        for (int64_t band = 0; band < conv_max(j->data.bands, j->weight.bands); band++) {
            if (band < j->data.bands) gather_band(&j->data, n, band, block, worker);
            if (band < j->weight.bands) weight_band(&j->weight, n, band, block, worker);
        }
    }
}

size_t CJ_K(cj__conv_depthwise_both_workspace)(const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, int threads)
{
    return CJ_K(cj__conv_depthwise_workspace)(v, CJ_CONV_DATA, t, threads) +
           CJ_K(cj__conv_depthwise_workspace)(w, CJ_CONV_WEIGHT, t, threads);
}

void CJ_K(cj__conv_depthwise_both)(cj_pool *pool, const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, const void *dy,
                                   const void *weights, const void *x, void *dx, void *dw, void *workspace)
{
    const int threads = cj__pool_threads(pool);
    const depthwise_plan pd = depthwise_plan_of(v, CJ_CONV_DATA, t), pw = depthwise_plan_of(w, CJ_CONV_WEIGHT, t);
    char *second = (char *)workspace + CJ_K(cj__conv_depthwise_workspace)(v, CJ_CONV_DATA, t, threads);
    if (pd.phases > 1 || !v->n || v->n * pd.blocks < 4 * threads) { /* nothing to gain, or too few tasks: the bits are the same */
        CJ_K(cj__conv_depthwise)(pool, v, CJ_CONV_DATA, t, dy, weights, dx, workspace);
        CJ_K(cj__conv_depthwise)(pool, w, CJ_CONV_WEIGHT, t, x, dy, dw, second);
        return;
    }
    both_jobs j = { job_of(v, &pd, dy, weights, dx, workspace), job_of(w, &pw, x, dy, dw, second) };
    next_phase(&j.data, 0);
    next_phase(&j.weight, 0);
    cj__parallel_for(pool, v->n * pd.blocks, conv_max(1, 8192 / (j.data.f.points * pd.window * VL + 1)), both_tasks, &j);
    finish_weight(&j.weight);
}
