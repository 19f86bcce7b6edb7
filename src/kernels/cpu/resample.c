/* Separable maps of planes (resample.h), a line of results at a time.
 *
 * Where the map enlarges, each line of x is stretched to the new width once, kept in a ring as long as results need it, and lines of results are
 * weighted sums of stretched lines.  Where it shrinks, lines of x are summed first and the sum is squeezed.  The second step of either is plain
 * vector code.  Along a line the sources of a vector of results lie close together: one or two vectors are loaded and permuted; only where they lie
 * far apart are elements gathered.
 */
#include "kernels/cpu/resample.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define BAND 32768       /* results of one task, about */
#define STREAM (1 << 25) /* bytes of y from which on it goes past the cache */

typedef enum reach { NEAR, TWICE, FAR } reach; /* sources of a vector of results: within one vector, within two, farther apart */

/* The map along a line, cut into vectors of results: local source positions, counted from base. */
typedef struct line_map {
    int64_t in, out, taps, blocks;
    int32_t *local, *base;
    uint8_t *kind;
    float *weight;
} line_map;

typedef struct resample_job {
    const cj_resample_shape *v;
    cj_dtype t;
    const char *x;
    char *y;
    char *scratch; /* per worker */
    size_t each;
    line_map line;
    int64_t rows, band, bands; /* lines of results of a plane, of a task; tasks of a plane */
    int64_t ring[2];           /* slots of the ring: depth, height */
    bool shrink, stream;
} resample_job;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t padded(int64_t n) { return round_up(n, 16); }

/* The most source lines that one result spans along an axis. */
static int64_t span_of(const cj_axis_map *m)
{
    int64_t most = 1;
    for (int64_t i = 0; i < m->out; i++) {
        int32_t low = m->from[i], high = low;
        for (int64_t k = 1; k < m->count[i]; k++) {
            const int32_t f = m->from[k * m->out + i];
            low = f < low ? f : low;
            high = f > high ? f : high;
        }
        most = high - low + 1 > most ? high - low + 1 : most;
    }
    return most;
}

static bool shrinks(const cj_resample_shape *v) { return v->axis[0].out * v->axis[1].out <= v->axis[0].in * v->axis[1].in; }
static void ring_size(const cj_resample_shape *v, int64_t ring[2])
{
    const bool flat = v->axis[0].in == 1 && v->axis[0].out == 1;
    ring[0] = flat ? 1 : span_of(&v->axis[0]);
    ring[1] = 1; /* a power of two */
    while (ring[1] < (flat ? span_of(&v->axis[1]) : v->axis[1].in)) ring[1] *= 2;
}

/* ---- scratch -------------------------------------------------------------------------------------------------------------------------------------- */

static size_t line_bytes(const cj_axis_map *w)
{
    const int64_t out = padded(w->out), blocks = out / CJ_VL;
    return (size_t)round_up(w->taps * out * 8 + blocks * 5, 64);
}
static size_t worker_bytes(const cj_resample_shape *v)
{
    const cj_axis_map *w = &v->axis[2];
    int64_t ring[2] = { 0, 0 };
    if (!shrinks(v)) ring_size(v, ring);
    const int64_t slots = ring[0] * ring[1];
    return (size_t)round_up(slots * (padded(w->out) * 4 + 8) + (2 * padded(w->in) + padded(w->out)) * 4, 64);
}
size_t CJ_K(cj__resample_workspace)(const cj_resample_shape *v, cj_dtype t, int threads)
{
    return t == CJ_F64 ? 0 : line_bytes(&v->axis[2]) + (size_t)threads * worker_bytes(v);
}

static void prepare_line(line_map *l, const cj_axis_map *w, char *at)
{
    const int64_t out = padded(w->out);
    *l = (line_map){ .in = w->in, .out = w->out, .taps = w->taps, .blocks = (w->out + CJ_VL - 1) / CJ_VL };
    l->weight = (float *)(void *)at;
    l->local = (int32_t *)(void *)(at + w->taps * out * 4);
    l->base = l->local + w->taps * out;
    l->kind = (uint8_t *)(l->base + out / CJ_VL);
    memset(at, 0, (size_t)(w->taps * out * 8));
    for (int64_t b = 0; b < l->blocks; b++) {
        const int64_t first = b * CJ_VL, last = first + CJ_VL < w->out ? first + CJ_VL : w->out;
        int32_t low = INT32_MAX, high = 0;
        for (int64_t k = 0; k < w->taps; k++)
            for (int64_t i = first; i < last; i++) {
                const int32_t f = w->from[k * w->out + i];
                low = f < low ? f : low;
                high = f > high ? f : high;
            }
        l->base[b] = low;
        l->kind[b] = high - low < CJ_VL ? NEAR : high - low < 2 * CJ_VL ? TWICE : FAR;
        for (int64_t k = 0; k < w->taps; k++)
            for (int64_t i = first; i < last; i++) {
                l->local[k * out + i] = w->from[k * w->out + i] - low;
                l->weight[k * out + i] = (float)w->weight[k * w->out + i];
            }
    }
}

/* ---- along a line ------------------------------------------------------------------------------------------------------------------------------------ */

#if defined CJ_ISA_AVX512
CJ_INLINE vf pick_near(vf a, vi at) { return _mm512_permutexvar_ps((__m512i)at, a); }
CJ_INLINE vf pick_twice(vf a, vf b, vi at) { return _mm512_permutex2var_ps(a, (__m512i)at, b); }
#elif defined CJ_ISA_AVX2
CJ_INLINE vf pick_near(vf a, vi at) { return _mm256_permutevar8x32_ps(a, (__m256i)at); }
CJ_INLINE vf pick_twice(vf a, vf b, vi at)
{
    return vf_sel(vi_lt(at, vi_set1(8)), pick_near(a, at), pick_near(b, at)); /* the permutation reads the low three bits */
}
#else
CJ_INLINE vf pick_near(vf a, vi at) { return (vf){ a[at[0]], a[at[1]], a[at[2]], a[at[3]] }; }
CJ_INLINE vf pick_twice(vf a, vf b, vi at)
{
    const vf lanes[2] = { a, b };
    float x[8];
    memcpy(x, lanes, sizeof x);
    return (vf){ x[at[0]], x[at[1]], x[at[2]], x[at[3]] };
}
#endif

CJ_INLINE vf load_some(const float *p, int64_t n) { return n >= CJ_VL ? vf_load(p) : vf_load_n(p, n < 0 ? 0 : (int)n); }

/* y[out] from x[in]. */
static void map_line(const line_map *l, const float *x, float *y)
{
    const int64_t out = padded(l->out);
    for (int64_t b = 0; b < l->blocks; b++) {
        const float *from = x + l->base[b], *w = l->weight + b * CJ_VL;
        const int32_t *at = l->local + b * CJ_VL;
        const int64_t left = l->in - l->base[b];
        vf sum;
        if (l->kind[b] == NEAR) {
            const vf a = load_some(from, left);
            sum = vf_load(w) * pick_near(a, vi_load(at));
            for (int64_t k = 1; k < l->taps; k++) sum = vf_fma(vf_load(w + k * out), pick_near(a, vi_load(at + k * out)), sum);
        } else if (l->kind[b] == TWICE) {
            const vf a = load_some(from, left), c = load_some(from + (left < CJ_VL ? 0 : CJ_VL), left - CJ_VL);
            sum = vf_load(w) * pick_twice(a, c, vi_load(at));
            for (int64_t k = 1; k < l->taps; k++) sum = vf_fma(vf_load(w + k * out), pick_twice(a, c, vi_load(at + k * out)), sum);
        } else {
            sum = vf_load(w) * vf_gather(from, vi_load(at));
            for (int64_t k = 1; k < l->taps; k++) sum = vf_fma(vf_load(w + k * out), vf_gather(from, vi_load(at + k * out)), sum);
        }
        const int64_t n = l->out - b * CJ_VL;
        if (n >= CJ_VL) vf_store(y + b * CJ_VL, sum);
        else vf_store_n(y + b * CJ_VL, sum, (int)n);
    }
}

/* ---- lines together ------------------------------------------------------------------------------------------------------------------------------------ */

enum { TAPS = 16 }; /* lines summed in one pass; further passes add to the result */

CJ_INLINE vf weighted(const float *const *row, const float *w, int n, int64_t i, int lanes)
{
    vf sum = vf_set1(w[0]) * vf_load_n(row[0] + i, lanes);
    for (int k = 1; k < n; k++) sum = vf_fma(vf_set1(w[k]), vf_load_n(row[k] + i, lanes), sum);
    return sum;
}

/* The whole vectors of [i, end): n is a constant where this is inlined. */
CJ_INLINE int64_t weighted_body(float *y, const float *const *row, const float *w, int n, int64_t i, int64_t end, bool stream)
{
    vf factor[TAPS];
    for (int k = 0; k < n; k++) factor[k] = vf_set1(w[k]);
    for (; i + CJ_VL <= end; i += CJ_VL) {
        vf sum = factor[0] * vf_load(row[0] + i);
        for (int k = 1; k < n; k++) sum = vf_fma(factor[k], vf_load(row[k] + i), sum);
        if (stream) vf_stream(y + i, sum);
        else vf_store(y + i, sum);
    }
    return i;
}

/* y = sum of w[k]·row[k], n <= TAPS lines of `width`. */
static void sum_lines(float *y, const float *const *row, const float *w, int n, int64_t width, bool stream)
{
    int64_t i = 0;
    if (stream) { /* up to the first aligned vector */
        const int64_t head = (int64_t)(-((uintptr_t)y / 4) & (CJ_VL - 1));
        i = head < width ? head : width;
        if (i) vf_store_n(y, weighted(row, w, n, 0, (int)i), (int)i);
    }
    if (n == 1) i = weighted_body(y, row, w, 1, i, width, stream);
    else if (n == 2) i = weighted_body(y, row, w, 2, i, width, stream);
    else if (n == 4) i = weighted_body(y, row, w, 4, i, width, stream);
    else i = weighted_body(y, row, w, n, i, width, stream);
    if (i < width) vf_store_n(y + i, weighted(row, w, n, i, (int)(width - i)), (int)(width - i));
}

/* A worker's view of its scratch. */
typedef struct workspace {
    float *line, *wide, *result; /* [in] converted, [in] summed, [out] */
    float *ring;
    int64_t *tag; /* plane line in each slot, or -1 */
} workspace;

/* Line (z, y) of a plane as f32, in `line` where it has to be converted. */
static const float *source_line(const resample_job *j, int64_t plane, int64_t z, int64_t y, float *line)
{
    const cj_axis_map *a = j->v->axis;
    const char *x = j->x + ((plane * a[0].in + z) * a[1].in + y) * a[2].in * cj__elem_size(j->t);
    if (j->t == CJ_F32) return (const float *)(const void *)x;
    CJ_K(cj__convert)(j->t, x, CJ_F32, line, a[2].in);
    return line;
}

/* Line (z, y) stretched to the new width, from the ring or into it. */
static const float *stretched_line(const resample_job *j, workspace *s, int64_t plane, int64_t z, int64_t y)
{
    const int64_t slot = (j->ring[0] > 1 ? z % j->ring[0] : 0) * j->ring[1] + (y & (j->ring[1] - 1)), line = z * j->v->axis[1].in + y;
    float *to = s->ring + slot * padded(j->line.out);
    if (s->tag[slot] != line) {
        map_line(&j->line, source_line(j, plane, z, y, s->line), to);
        s->tag[slot] = line;
    }
    return to;
}

static void add_scaled(float *y, const float *x, float w, int64_t n)
{
    int64_t i = 0;
    for (; i + CJ_VL <= n; i += CJ_VL) vf_store(y + i, vf_fma(vf_set1(w), vf_load(x + i), vf_load(y + i)));
    if (i < n) vf_store_n(y + i, vf_fma(vf_set1(w), vf_load_n(x + i, (int)(n - i)), vf_load_n(y + i, (int)(n - i))), (int)(n - i));
}

/* Line (z, i) of the results of a plane to y (f32, contiguous). */
static void result_line(const resample_job *j, workspace *s, int64_t plane, int64_t z, int64_t i, float *y, bool stream)
{
    const cj_axis_map *d = &j->v->axis[0], *h = &j->v->axis[1];
    const int64_t taps = (int64_t)d->count[z] * h->count[i], width = j->shrink ? j->line.in : j->line.out;
    float *sum = j->shrink ? s->wide : y;
    if (taps == 0) memset(sum, 0, (size_t)width * sizeof *sum);
    const float *row[TAPS];
    float w[TAPS];
    const bool at_once = taps <= TAPS && (!j->shrink || j->t == CJ_F32);
    int64_t k = 0;
    for (int64_t kz = 0; kz < d->count[z]; kz++)
        for (int64_t ky = 0; ky < h->count[i]; ky++, k++) {
            const int64_t fz = d->from[kz * d->out + z], fy = h->from[ky * h->out + i];
            const float weight = (float)(d->weight[kz * d->out + z] * h->weight[ky * h->out + i]);
            const float *line = j->shrink ? source_line(j, plane, fz, fy, s->line) : stretched_line(j, s, plane, fz, fy);
            if (at_once) row[k] = line, w[k] = weight;
            else if (k == 0) sum_lines(sum, &line, &weight, 1, width, false);
            else add_scaled(sum, line, weight, width);
        }
    if (taps && at_once) sum_lines(sum, row, w, (int)taps, width, stream && !j->shrink);
    if (j->shrink) map_line(&j->line, sum, y);
}

static void work(void *arg, int64_t begin, int64_t end, int worker)
{
    const resample_job *j = arg;
    const int64_t slots = j->ring[0] * j->ring[1], in = padded(j->line.in), out = padded(j->line.out);
    char *at = j->scratch + (size_t)worker * j->each;
    workspace s = { .tag = (int64_t *)(void *)at };
    s.ring = (float *)(void *)(at + slots * 8);
    s.line = s.ring + slots * out;
    s.wide = s.line + in;
    s.result = s.wide + in;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / j->bands, first = task % j->bands * j->band;
        const int64_t last = first + j->band < j->rows ? first + j->band : j->rows;
        for (int64_t k = 0; k < slots; k++) s.tag[k] = -1;
        int64_t z = first / j->v->axis[1].out, i = first % j->v->axis[1].out;
        for (int64_t r = first; r < last; r++) {
            char *y = j->y + (plane * j->rows + r) * j->line.out * cj__elem_size(j->t);
            if (j->t == CJ_F32) {
                result_line(j, &s, plane, z, i, (float *)(void *)y, j->stream);
            } else {
                result_line(j, &s, plane, z, i, s.result, false);
                CJ_K(cj__convert)(CJ_F32, s.result, j->t, y, j->line.out);
            }
            if (++i == j->v->axis[1].out) i = 0, z++;
        }
    }
    if (j->stream) vf_stream_end();
}

/* f64: every result by itself. */
static void work_f64(void *arg, int64_t begin, int64_t end, int worker)
{
    const resample_job *j = arg;
    const cj_axis_map *d = &j->v->axis[0], *h = &j->v->axis[1], *w = &j->v->axis[2];
    (void)worker;
    for (int64_t line = begin; line < end; line++) {
        const int64_t plane = line / j->rows, z = line % j->rows / h->out, i = line % h->out;
        const double *x = (const double *)(const void *)j->x + plane * d->in * h->in * w->in;
        double *y = (double *)(void *)j->y + line * w->out;
        memset(y, 0, (size_t)w->out * sizeof *y);
        for (int64_t kz = 0; kz < d->count[z]; kz++)
            for (int64_t ky = 0; ky < h->count[i]; ky++) {
                const double weight = d->weight[kz * d->out + z] * h->weight[ky * h->out + i];
                const double *row = x + ((int64_t)d->from[kz * d->out + z] * h->in + h->from[ky * h->out + i]) * w->in;
                for (int64_t q = 0; q < w->out; q++)
                    for (int64_t kx = 0; kx < w->count[q]; kx++)
                        y[q] += weight * w->weight[kx * w->out + q] * row[w->from[kx * w->out + q]];
            }
    }
}

void CJ_K(cj__resample)(cj_pool *pool, const cj_resample_shape *v, cj_dtype t, const void *x, void *y, void *scratch)
{
    resample_job j = { .v = v, .t = t, .x = x, .y = y, .rows = v->axis[0].out * v->axis[1].out, .shrink = shrinks(v) };
    const int64_t width = v->axis[2].out;
    if (t == CJ_F64) {
        const int64_t grain = BAND / width;
        cj__parallel_for(pool, v->planes * j.rows, grain ? grain : 1, work_f64, &j);
        return;
    }
    prepare_line(&j.line, &v->axis[2], scratch);
    if (!j.shrink) ring_size(v, j.ring);
    j.scratch = (char *)scratch + line_bytes(&v->axis[2]);
    j.each = worker_bytes(v);
    j.stream = v->planes * j.rows * width * 4 >= STREAM;
    j.band = BAND / width < 16 ? 16 : BAND / width;
    j.bands = (j.rows + j.band - 1) / j.band;
    const int64_t plane = j.rows * width, grain = plane < BAND ? BAND / plane : 1;
    cj__parallel_for(pool, v->planes * j.bands, j.bands > 1 ? 1 : grain, work, &j);
}
