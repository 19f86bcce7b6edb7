/* Windows (window.h).  f32 works on channels-last bands with vectors along the channels, as depthwise convolution does (conv_image.h): row-major images are turned band by
 * band.  Sums are depthwise convolutions whose weights are all the same.  Maxima of the other types go element by element.  Channels-last images have kernels of their own for all
 * but the largest windows (window_last.c). */
#include "kernels/cpu/window.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/window_last.h"

enum {
    BLOCK = 64,  /* channels of a task */
    POINTS = 128 /* of a task, at most */
};

static cj_conv_shape as_conv(const cj_window_shape *v)
{
    cj_conv_shape c = { .n = v->n, .groups = v->channels, .c = 1, .o = 1, .x_last = v->last, .y_last = v->last, .weight = v->scale };
    memcpy(c.in, v->in, sizeof c.in);
    memcpy(c.out, v->out, sizeof c.out);
    memcpy(c.kernel, v->kernel, sizeof c.kernel);
    memcpy(c.stride, v->stride, sizeof c.stride);
    memcpy(c.pad, v->pad, sizeof c.pad);
    memcpy(c.dilation, v->dilation, sizeof c.dilation);
    return c;
}

/* ---- maxima of f32 -------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct max_job {
    const cj_window_shape *v;
    cj_conv_shape shape;
    conv_phase f;
    conv_copy c;
    conv_image x, y;
    int64_t blocks, bands, source_floats;
    size_t worker_bytes;
    const float *from;
    float *y_data;
    int64_t *index; /* one of the two */
    uint8_t *tap;
    char *workers;
} max_job;

static max_job max_job_of(const cj_window_shape *v)
{
    max_job j = { .v = v,
                  .shape = as_conv(v),
                  .x = { CJ_F32, v->last, v->channels, conv_volume(v->in) },
                  .y = { CJ_F32, v->last, v->channels, conv_volume(v->out) } };
    j.f = conv_phase_of(&j.shape, false, 0);
    j.c = conv_copy_of(&j.f, v->last, BLOCK, POINTS, false);
    j.blocks = (v->channels + BLOCK - 1) / BLOCK;
    j.bands = (j.f.points + POINTS - 1) / POINTS;
    j.source_floats = conv_copy_floats(&j.c, &j.f, BLOCK);
    j.worker_bytes = (size_t)(j.source_floats + (v->last ? 0 : 4 * POINTS * BLOCK)) * 4;
    return j;
}

/* One window: where its elements lie and what their places are, in the plane or in the window; those inside only. */
typedef struct window {
    const float *at[8];
    int32_t place[8];
    int n;
} window;

CJ_INLINE void look(const float *x, int32_t place, vf *best, vi *where)
{
    const vf a = vf_load(x);
    const vm take = vm_or(vf_gt(a, *best), vf_isnan(a));
    *best = vf_sel(take, a, *best), *where = vi_sel(take, vi_set1(place), *where);
}

/* The elements of a window, up to 8 at a time, against the maxima so far (none: begin). */
static void maxima(const window *w, bool begin, int64_t channels, float *y, int32_t *where)
{
    int64_t c = 0;
    for (; c + CJ_VL <= channels; c += CJ_VL) {
        vf best = begin ? vf_load(w->at[0] + c) : vf_load(y + c);
        vi place = begin ? vi_set1(w->place[0]) : vi_load(where + c);
        for (int k = begin; k < w->n; k++) look(w->at[k] + c, w->place[k], &best, &place);
        vf_store(y + c, best);
        vi_store(where + c, place);
    }
    for (; c < channels; c++)
        for (int k = 0; k < w->n; k++) {
            const float a = w->at[k][c];
            if ((begin && k == 0) || a > y[c] || a != a) y[c] = a, where[c] = w->place[k];
        }
}

/* Point p of a band: its maxima and their places. */
static void max_point(const max_job *j, const conv_source *s, int64_t p, int64_t channels, float *y, int32_t *where)
{
    const conv_axis *az = &j->f.axis[0], *ay = &j->f.axis[1], *ax = &j->f.axis[2];
    const int64_t line = p / ax->points, x = p - line * ax->points;
    const int64_t z0 = line / ay->points * az->mul + az->off0, y0 = line % ay->points * ay->mul + ay->off0, x0 = x * ax->mul + ax->off0;
    window w = { .n = 0 };
    bool begin = true;
    for (int64_t jz = 0, iz = z0; jz < az->taps; jz++, iz += az->off_step) {
        if (iz < 0 || iz >= az->size) continue;
        for (int64_t jy = 0, iy = y0; jy < ay->taps; jy++, iy += ay->off_step) {
            if (iy < 0 || iy >= ay->size) continue;
            const float *row = s->base + ((iz - s->z0) * s->lines + iy - s->y0) * s->line_floats;
            for (int64_t jx = 0, ix = x0; jx < ax->taps; jx++, ix += ax->off_step) {
                if (ix < 0 || ix >= ax->size) continue;
                w.at[w.n] = row + ix * s->pixel,
                w.place[w.n++] = (int32_t)(j->tap ? (jz * ay->taps + jy) * ax->taps + jx : (iz * ay->size + iy) * ax->size + ix);
                if (w.n < 8) continue;
                maxima(&w, begin, channels, y, where);
                begin = false, w.n = 0;
            }
        }
    }
    if (w.n) maxima(&w, begin, channels, y, where);
    else if (begin)
        for (int64_t c = 0; c < channels; c++) y[c] = -INFINITY, where[c] = j->tap ? CJ_WINDOW_TAPS : 0;
}

static void store_places(const max_job *j, int64_t at, const int32_t *place, int64_t n)
{
    if (j->tap)
        for (int64_t i = 0; i < n; i++) j->tap[at + i] = (uint8_t)place[i];
    else
        for (int64_t i = 0; i < n; i++) j->index[at + i] = place[i];
}

static void max_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const max_job *j = arg;
    const bool last = j->v->last;
    float *copy = (float *)(void *)(j->workers + (size_t)worker * j->worker_bytes), *sums = copy + j->source_floats,
          *turned = sums + POINTS * BLOCK;
    int32_t *places = (int32_t *)(void *)(turned + POINTS * BLOCK), *turned_places = places + POINTS * BLOCK, where[BLOCK];
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % j->blocks, band = task / j->blocks % j->bands, n = task / j->blocks / j->bands;
        const int64_t c0 = block * BLOCK, channels = conv_min(BLOCK, j->v->channels - c0);
        const int64_t p0 = band * POINTS, p1 = conv_min(p0 + POINTS, j->f.points), points = p1 - p0;
        const conv_source s = conv_source_of(&j->f, &j->c, &j->x, j->from, n, c0, channels, p0, p1, copy);
        if (last) {
            const int64_t at = (n * j->y.pixels + p0) * j->y.channels + c0;
            for (int64_t i = 0; i < points; i++) {
                max_point(j, &s, p0 + i, channels, j->y_data + at + i * j->y.channels, where);
                store_places(j, at + i * j->y.channels, where, channels);
            }
            continue;
        }
        for (int64_t i = 0; i < points; i++) max_point(j, &s, p0 + i, channels, sums + i * channels, places + i * channels);
        pack(turned, points, sums, 1, channels, channels, points, GEMM_F32);
        pack((float *)(void *)turned_places, points, places, 1, channels, channels, points, GEMM_F32); /* moved as they are, bit by bit */
        for (int64_t c = 0; c < channels; c++) {
            const int64_t at = (n * j->y.channels + c0 + c) * j->y.pixels + p0;
            memcpy(j->y_data + at, turned + c * points, (size_t)points * sizeof *turned);
            store_places(j, at, turned_places + c * points, points);
        }
    }
}

/* ---- maxima of the other types: row-major, plane by plane -------------------------------------------------------------------------------------------------- */

typedef struct plane_job {
    const cj_window_shape *v;
    conv_phase f;
    cj_dtype t;
    const char *x;
    char *y;
    int64_t *index; /* one of the two */
    uint8_t *tap;
    float *sums; /* a plane of each worker */
} plane_job;

CJ_INLINE double element(cj_dtype t, const char *x, int64_t i)
{
    return t == CJ_F64 ? ((const double *)(const void *)x)[i] : load1(x, i, conv_kind(t));
}

static void max_planes(void *arg, int64_t begin, int64_t end, int worker)
{
    const plane_job *j = arg;
    const conv_axis *az = &j->f.axis[0], *ay = &j->f.axis[1], *ax = &j->f.axis[2];
    const int64_t elem = cj__elem_size(j->t);
    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        const char *x = j->x + plane * conv_volume(j->v->in) * elem;
        for (int64_t p = 0; p < j->f.points; p++) {
            const int64_t line = p / ax->points, at = plane * j->f.points + p;
            int64_t where = -1, which = CJ_WINDOW_TAPS;
            double best = -INFINITY;
            for (int64_t k = 0; k < j->f.taps; k++) {
                const int64_t iz = line / ay->points * az->mul + az->off0 + k / ax->taps / ay->taps * az->off_step,
                              iy = line % ay->points * ay->mul + ay->off0 + k / ax->taps % ay->taps * ay->off_step,
                              ix = p % ax->points * ax->mul + ax->off0 + k % ax->taps * ax->off_step;
                if (iz < 0 || iz >= az->size || iy < 0 || iy >= ay->size || ix < 0 || ix >= ax->size) continue;
                const int64_t i = (iz * ay->size + iy) * ax->size + ix;
                const double a = element(j->t, x, i);
                if (where < 0 || a > best || a != a) best = a, where = i, which = k;
            }
            CJ_K(cj__convert)(CJ_F64, &best, j->t, j->y + at * elem, 1);
            if (j->tap) j->tap[at] = (uint8_t)which;
            else j->index[at] = where < 0 ? 0 : where;
        }
    }
}

/* ---- the derivative of the maxima --------------------------------------------------------------------------------------------------------------------------- */

/* How far from the beginning of a window its taps lie. */
static void tap_offsets(const cj_window_shape *v, int64_t *offset)
{
    for (int64_t k = 0; k < conv_volume(v->kernel); k++) {
        const int64_t kz = k / v->kernel[2] / v->kernel[1], ky = k / v->kernel[2] % v->kernel[1], kx = k % v->kernel[2];
        offset[k] = (kz * v->dilation[0] * v->in[1] + ky * v->dilation[1]) * v->in[2] + kx * v->dilation[2];
    }
}
/* Where the first window of a line begins. */
CJ_INLINE int64_t line_begin(const cj_window_shape *v, int64_t line)
{
    const int64_t y = line % v->out[1], z = line / v->out[1];
    return ((z * v->stride[0] - v->pad[0]) * v->in[1] + y * v->stride[1] - v->pad[1]) * v->in[2] - v->pad[2];
}

/* Row-major: plane by plane, in the order of the windows; halves are summed in f32. */
static void put_planes(void *arg, int64_t begin, int64_t end, int worker)
{
    const plane_job *j = arg;
    const int64_t size = conv_volume(j->v->in), n = conv_volume(j->v->out), lines = j->v->out[0] * j->v->out[1], elem = cj__elem_size(j->t);
    int64_t offset[CJ_WINDOW_TAPS];
    if (j->tap) tap_offsets(j->v, offset);
/* Does something at the place of every window that has one. */
#define EACH_WINDOW(something)                                                                                                             \
    for (int64_t line = 0, i = 0; line < lines; line++) {                                                                                  \
        const int64_t from = line_begin(j->v, line);                                                                                       \
        for (int64_t x = 0; x < j->v->out[2]; x++, i++) {                                                                                  \
            const int tap = j->tap ? j->tap[plane * n + i] : 0;                                                                            \
            if (tap == CJ_WINDOW_TAPS) continue;                                                                                           \
            const int64_t place = j->tap ? from + x * j->v->stride[2] + offset[tap] : j->index[plane * n + i];                             \
            something;                                                                                                                     \
        }                                                                                                                                  \
    }
    for (int64_t plane = begin; plane < end; plane++) {
        const char *g = j->x + plane * n * elem;
        char *to = j->y + plane * size * elem;
        if (j->t == CJ_F64) {
            memset(to, 0, (size_t)(size * elem));
            EACH_WINDOW(((double *)(void *)to)[place] += ((const double *)(const void *)g)[i]);
            continue;
        }
        float *sum = j->t == CJ_F32 ? (float *)(void *)to : j->sums + worker * size;
        memset(sum, 0, (size_t)size * sizeof *sum);
        EACH_WINDOW(sum[place] += load1(g, i, conv_kind(j->t)));
        if (j->t != CJ_F32) CJ_K(cj__convert)(CJ_F32, sum, j->t, to, size);
    }
#undef EACH_WINDOW
}

typedef struct put_job {
    const cj_window_shape *v;
    const float *g;
    const int64_t *index;
    float *x;
} put_job;

/* Does window o hold element i of axis d?  Only those from *low to *high can. */
CJ_INLINE bool holds(const cj_window_shape *v, int d, int64_t i, int64_t o)
{
    const int64_t k = i + v->pad[d] - o * v->stride[d];
    return k >= 0 && k % v->dilation[d] == 0 && k / v->dilation[d] < v->kernel[d];
}
CJ_INLINE void windows_of(const cj_window_shape *v, int d, int64_t i, int64_t *low, int64_t *high)
{
    const int64_t reach = v->dilation[d] * (v->kernel[d] - 1), at = i + v->pad[d];
    *low = at > reach ? (at - reach + v->stride[d] - 1) / v->stride[d] : 0;
    *high = conv_min(at / v->stride[d] + 1, v->out[d]);
}

/* A pixel from the windows that hold it: their g where their index is its place.  first: nothing is there yet. */
static bool put_pixel(const put_job *j, const int64_t *window, int n, int64_t place, float *to, bool first)
{
    const int64_t channels = j->v->channels;
    int64_t c = 0;
    for (; c + CJ_VL <= channels; c += CJ_VL) {
        vf sum = first ? vf_zero() : vf_load(to + c);
        for (int k = 0; k < n; k++) {
            int32_t index[CJ_VL];
            for (int l = 0; l < CJ_VL; l++) index[l] = (int32_t)j->index[window[k] + c + l];
            sum = sum + vf_and_mask(vi_eq(vi_load(index), vi_set1((int32_t)place)), vf_load(j->g + window[k] + c));
        }
        vf_store(to + c, sum);
    }
    for (; c < channels; c++) {
        float sum = first ? 0 : to[c];
        for (int k = 0; k < n; k++) sum += j->index[window[k] + c] == place ? j->g[window[k] + c] : 0;
        to[c] = sum;
    }
    return false;
}

/* Channels-last: every pixel asks the windows that hold it.  Items: lines of all images. */
static void put_lines(void *arg, int64_t begin, int64_t end, int worker)
{
    const put_job *j = arg;
    const cj_window_shape *v = j->v;
    const int64_t channels = v->channels, lines = v->in[0] * v->in[1];
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / lines, line = item % lines, iz = line / v->in[1], iy = line % v->in[1];
        int64_t z0, z1, y0, y1;
        windows_of(v, 0, iz, &z0, &z1);
        windows_of(v, 1, iy, &y0, &y1);
        for (int64_t ix = 0; ix < v->in[2]; ix++) {
            const int64_t place = line * v->in[2] + ix;
            float *to = j->x + (n * lines * v->in[2] + place) * channels;
            int64_t window[64], x0, x1;
            int count = 0;
            bool first = true;
            windows_of(v, 2, ix, &x0, &x1);
            for (int64_t oz = z0; oz < z1; oz++)
                for (int64_t oy = y0; oy < y1; oy++)
                    for (int64_t ox = x0; ox < x1; ox++) {
                        if (!holds(v, 0, iz, oz) || !holds(v, 1, iy, oy) || !holds(v, 2, ix, ox)) continue;
                        window[count++] = (((n * v->out[0] + oz) * v->out[1] + oy) * v->out[2] + ox) * channels;
                        if (count < 64) continue;
                        first = put_pixel(j, window, count, place, to, first), count = 0;
                    }
            put_pixel(j, window, count, place, to, first);
        }
    }
}

/* ---- the entries ------------------------------------------------------------------------------------------------------------------------------------------- */

size_t CJ_K(cj__window_workspace)(const cj_window_shape *v, cj_dtype t, int threads)
{
    const cj_conv_shape c = as_conv(v);
    if (threads < 1) threads = 1;
    size_t bytes = (size_t)threads * (t == CJ_F32   ? max_job_of(v).worker_bytes
                                      : t == CJ_F64 ? 0
                                                    : (size_t)conv_volume(v->in) * sizeof(float));
    for (int data = 0; data < 2 && t != CJ_F64; data++) {
        const size_t sums = CJ_K(cj__conv_depthwise_workspace)(&c, data ? CJ_CONV_DATA : CJ_CONV_FORWARD, t, threads);
        bytes = bytes > sums ? bytes : sums;
    }
    return bytes;
}

static int64_t grain_of(int64_t work) { return work > 0 && work < 16384 ? 16384 / work : 1; }

void CJ_K(cj__window_max)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, int64_t *index, uint8_t *tap,
                          void *workspace)
{
    if (tap && CJ_K(cj__window_last_fits)(v, t)) {
        CJ_K(cj__window_last_max)(pool, v, x, y, tap);
        return;
    }
    const int64_t work = conv_volume(v->kernel) * conv_volume(v->out);
    if (t != CJ_F32) {
        const cj_conv_shape c = as_conv(v);
        plane_job j = { .v = v, .f = conv_phase_of(&c, false, 0), .t = t, .x = x, .y = y, .index = index, .tap = tap };
        cj__parallel_for(pool, v->n * v->channels, grain_of(work), max_planes, &j);
        return;
    }
    max_job j = max_job_of(v);
    j.from = x, j.y_data = y, j.index = index, j.tap = tap, j.workers = workspace;
    cj__parallel_for(pool, v->n * j.bands * j.blocks, grain_of(conv_min(POINTS, j.f.points) * conv_volume(v->kernel) * 4), max_tasks, &j);
}

void CJ_K(cj__window_put)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, const int64_t *index, const uint8_t *tap,
                          void *x, void *workspace)
{
    if (v->last && tap) {
        CJ_K(cj__window_last_put)(pool, v, g, tap, x);
        return;
    }
    if (v->last) {
        put_job j = { .v = v, .g = g, .index = index, .x = x };
        cj__parallel_for(pool, v->n * v->in[0] * v->in[1], grain_of(v->in[2] * v->channels), put_lines, &j);
        return;
    }
    plane_job j = { .v = v, .t = t, .x = g, .y = x, .index = (int64_t *)(uintptr_t)index, .tap = (uint8_t *)(uintptr_t)tap };
    j.sums = workspace;
    cj__parallel_for(pool, v->n * v->channels, grain_of(conv_volume(v->in)), put_planes, &j);
}

static void sums(cj_pool *pool, const cj_window_shape *v, cj_conv_pass pass, cj_dtype t, const void *from, void *to, void *workspace)
{
    const cj_conv_shape c = as_conv(v);
    if (CJ_K(cj__window_last_fits)(v, t)) CJ_K(cj__window_last_sums)(pool, v, pass == CJ_CONV_DATA, from, to);
    else if (t == CJ_F64) CJ_K(cj__conv_f64)(pool, &c, pass, from, NULL, to);
    else CJ_K(cj__conv_depthwise)(pool, &c, pass, t, from, NULL, to, workspace);
}
void CJ_K(cj__window_sum)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *x, void *y, void *workspace)
{
    sums(pool, v, CJ_CONV_FORWARD, t, x, y, workspace);
}
void CJ_K(cj__window_spread)(cj_pool *pool, const cj_window_shape *v, cj_dtype t, const void *g, void *x, void *workspace)
{
    sums(pool, v, CJ_CONV_DATA, t, g, x, workspace);
}
