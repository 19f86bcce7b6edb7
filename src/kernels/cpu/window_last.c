/* Windows of channels-last f32 images (window.h): maxima with their taps, sums, and the derivatives of both.  All of them are bound by memory: vectors run along the channels,
 * every result is written once, and past the caches where there are many.
 *
 * A result knows its elements by a list: forward the inputs of its window, backward the windows that hold it, each with the tap that ties the two.
 *   MAXIMA  y = max of the elements, tap of the first that is            SUMS  y = scale · sum of the elements
 *   CHOSEN  x = sum of those windows' g whose tap is the one by which they hold x
 */
#include <math.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/window_last.h"

enum { NONE = CJ_WINDOW_TAPS, STREAM_BYTES = 16 << 20, LINE = 16 /* floats of a cache line */, AHEAD = 512 };

typedef enum pass { MAXIMA, SUMS, CHOSEN } pass;
typedef struct last_job {
    const cj_window_shape *v;
    bool backward, stream;
    const float *from;
    float *to;
    uint8_t *tap; /* of the windows: written by MAXIMA, read by CHOSEN */
} last_job;

/* The elements of a result: where they begin, and their taps. */
typedef struct elements {
    int n;
    int64_t at[CJ_WINDOW_TAPS];
    int32_t tap[CJ_WINDOW_TAPS];
} elements;

/* Result r along axis d: positions of its elements and their taps.  Backward, windows o with r = o·stride - pad + tap·dilation. */
CJ_INLINE int along(const cj_window_shape *v, int d, int64_t r, bool backward, int32_t *position, int32_t *tap)
{
    const int32_t stride = (int32_t)v->stride[d], dilation = (int32_t)v->dilation[d], kernel = (int32_t)v->kernel[d];
    int n = 0;
    if (!backward) {
        int32_t i = (int32_t)(r * stride - v->pad[d]);
        for (int32_t k = 0; k < kernel; k++, i += dilation)
            if (i >= 0 && i < v->in[d]) position[n] = i, tap[n++] = k;
        return n;
    }
    const int32_t at = (int32_t)(r + v->pad[d]), reach = dilation * (kernel - 1), high = at / stride;
    for (int32_t o = at > reach ? (at - reach + stride - 1) / stride : 0; o <= high && o < v->out[d]; o++) {
        const int32_t k = at - o * stride;
        if (dilation > 1 && k % dilation) continue;
        position[n] = o, tap[n++] = dilation > 1 ? k / dilation : k;
    }
    return n;
}

/* Which of CJ_VL taps are this one. */
CJ_INLINE vm taps_are(const uint8_t *p, int32_t tap)
{
#if defined CJ_ISA_AVX512
    return _mm_cmpeq_epi8_mask(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8((char)tap));
#elif defined CJ_ISA_AVX2
    return vi_eq((vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)), vi_set1(tap));
#else
    vi x;
    for (int i = 0; i < CJ_VL; i++) x[i] = p[i];
    return vi_eq(x, vi_set1(tap));
#endif
}
CJ_INLINE void store_taps(uint8_t *p, vi x)
{
#if defined CJ_ISA_AVX512
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)x));
#else
    for (int i = 0; i < CJ_VL; i++) p[i] = (uint8_t)x[i];
#endif
}

/* Channels [c, end) one by one, NaN winning. */
static __attribute__((noinline)) void maxima_one_by_one(const elements *e, int64_t c, int64_t end, const float *from, float *to,
                                                        uint8_t *tap)
{
    for (; c < end; c++) {
        to[c] = -INFINITY, tap[c] = NONE;
        for (int i = 0; i < e->n; i++) {
            const float x = from[e->at[i] + c];
            if (i == 0 || x > to[c] || x != x) to[c] = x, tap[c] = (uint8_t)e->tap[i];
        }
    }
}

CJ_INLINE void maxima_of(const elements *e, int64_t channels, const float *from, float *to, uint8_t *tap, const int n)
{
    int64_t c = 0;
    for (; c + CJ_VL <= channels && n; c += CJ_VL) {
        vf best = vf_load(from + e->at[0] + c), sum = best;
        vi where = vi_set1(e->tap[0]);
        for (int i = 1; i < n; i++) {
            vf x = vf_load(from + e->at[i] + c);
            VKEEP(x);
            const vm take = vf_gt(x, best);
            sum = sum + x;
            best = vf_max(x, best), where = vi_sel(take, vi_set1(e->tap[i]), where);
        }
        vf_store(to + c, best);
        store_taps(tap + c, where);
        if (vm_any(vf_isnan(sum))) maxima_one_by_one(e, c, c + CJ_VL, from, to, tap); /* a NaN among them, or infinities of both signs */
    }
    if (c < channels) maxima_one_by_one(e, c, channels, from, to, tap);
}
CJ_INLINE void maxima(const elements *e, int64_t channels, const float *from, float *to, uint8_t *tap)
{
    switch (e->n) {
    case 4: maxima_of(e, channels, from, to, tap, 4); break;
    case 9: maxima_of(e, channels, from, to, tap, 9); break;
    default: maxima_of(e, channels, from, to, tap, e->n);
    }
}

CJ_INLINE void put(float *to, vf x, bool stream)
{
    if (stream) vf_stream(to, x);
    else vf_store(to, x);
}

/* n: e->n, as a constant where it is a frequent one. */
CJ_INLINE void sums_of(const elements *e, int64_t channels, const float *from, float scale, float *to, const bool stream, const int n)
{
    int64_t c = 0;
    for (; c + CJ_VL <= channels; c += CJ_VL) {
        vf sum = n ? vf_load(from + e->at[0] + c) : vf_zero();
        for (int i = 1; i < n; i++) sum = sum + vf_load(from + e->at[i] + c);
        put(to + c, sum * vf_set1(scale), stream);
    }
    for (; c < channels; c++) {
        float sum = n ? from[e->at[0] + c] : 0;
        for (int i = 1; i < n; i++) sum += from[e->at[i] + c];
        to[c] = sum * scale;
    }
}
CJ_INLINE void sums(const elements *e, int64_t channels, const float *from, float scale, float *to, const bool stream)
{
    switch (e->n) {
    case 1: sums_of(e, channels, from, scale, to, stream, 1); break;
    case 2: sums_of(e, channels, from, scale, to, stream, 2); break;
    case 4: sums_of(e, channels, from, scale, to, stream, 4); break;
    case 9: sums_of(e, channels, from, scale, to, stream, 9); break;
    default: sums_of(e, channels, from, scale, to, stream, e->n);
    }
}

CJ_INLINE void chosen_of(const elements *e, int64_t channels, const float *from, const uint8_t *tap, float *to, const bool stream,
                         const int n)
{
    int64_t c = 0;
    for (; c + CJ_VL <= channels; c += CJ_VL) {
        vf sum = vf_zero();
        for (int i = 0; i < n; i++) {
            const vm mine = taps_are(tap + e->at[i] + c, e->tap[i]);
            sum = sum + vf_and_mask(mine, vf_load(from + e->at[i] + c));
        }
        put(to + c, sum, stream);
    }
    for (; c < channels; c++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += tap[e->at[i] + c] == e->tap[i] ? from[e->at[i] + c] : 0;
        to[c] = sum;
    }
}

CJ_INLINE void chosen(const elements *e, int64_t channels, const float *from, const uint8_t *tap, float *to, const bool stream)
{
    switch (e->n) {
    case 1: chosen_of(e, channels, from, tap, to, stream, 1); break;
    case 2: chosen_of(e, channels, from, tap, to, stream, 2); break;
    case 4: chosen_of(e, channels, from, tap, to, stream, 4); break;
    default: chosen_of(e, channels, from, tap, to, stream, e->n);
    }
}

/* The elements along the last axis of RUN results, one result after the other; element i of result r is entry first[r] + i. */
enum { RUN = 64 };
typedef struct run_elements {
    int64_t results; /* of the run */
    int first[RUN + 1];
    int64_t at[4 * CJ_WINDOW_TAPS]; /* position · channels */
    int32_t tap[4 * CJ_WINDOW_TAPS];
} run_elements;

static void run_from(run_elements *l, const cj_window_shape *v, int64_t begin, int64_t end, bool backward)
{
    for (l->results = l->first[0] = 0; begin + l->results < end && l->results < RUN; l->results++) {
        const int at = l->first[l->results];
        if (at + v->kernel[2] > 4 * CJ_WINDOW_TAPS) return;
        int32_t position[CJ_WINDOW_TAPS];
        const int n = along(v, 2, begin + l->results, backward, position, l->tap + at);
        for (int k = 0; k < n; k++) l->at[at + k] = position[k] * v->channels;
        l->first[l->results + 1] = at + n;
    }
}

/* The lines of the source that a line of results reads. */
static void rows_of(elements *rows, const cj_window_shape *v, int64_t item, bool backward)
{
    const int64_t *size = backward ? v->in : v->out, *source = backward ? v->out : v->in;
    const int64_t n = item / (size[0] * size[1]), line = item % (size[0] * size[1]);
    int32_t z[CJ_WINDOW_TAPS], z_tap[CJ_WINDOW_TAPS], y[CJ_WINDOW_TAPS], y_tap[CJ_WINDOW_TAPS];
    const int zs = along(v, 0, line / size[1], backward, z, z_tap), ys = along(v, 1, line % size[1], backward, y, y_tap);
    rows->n = 0;
    for (int i = 0; i < zs; i++)
        for (int k = 0; k < ys; k++) {
            rows->at[rows->n] = ((n * source[0] + z[i]) * source[1] + y[k]) * source[2] * v->channels;
            rows->tap[rows->n++] = (int32_t)((z_tap[i] * v->kernel[1] + y_tap[k]) * v->kernel[2]);
        }
}

/* Brings the elements of the results to come: those of the lines that no earlier line of results has read.  The hardware stops at the end of a page, and a line has several. */
CJ_INLINE void fetch(const last_job *j, const elements *rows, int64_t at)
{
    const cj_window_shape *v = j->v;
    const int64_t fresh = v->stride[1] < rows->n ? v->stride[1] : rows->n, floats = v->stride[2] * v->channels;
    for (int64_t i = rows->n - fresh; i < rows->n; i++) {
        const float *p = j->from + rows->at[i] + at + AHEAD;
        for (int64_t l = 0; l < floats; l += LINE) __builtin_prefetch(p + l);
    }
}

/* Items: lines of results of all images. */
CJ_INLINE void work_lines(const last_job *j, int64_t begin, int64_t end, const pass p)
{
    const cj_window_shape *v = j->v;
    const int64_t length = (j->backward ? v->in : v->out)[2], channels = v->channels;
    elements e, rows;
    run_elements x;
    for (int64_t from = 0; from < length; from += x.results) {
        run_from(&x, v, from, length, j->backward);
        for (int64_t item = begin; item < end; item++) {
            rows_of(&rows, v, item, j->backward);
            int64_t at = (item * length + from) * channels;
            for (int64_t r = 0; r < x.results; r++, at += channels) {
                e.n = 0;
                if (p != CHOSEN && !j->backward && x.first[r] < x.first[r + 1]) fetch(j, &rows, x.at[x.first[r]]);
                for (int i = 0; i < rows.n; i++)
                    for (int k = x.first[r]; k < x.first[r + 1]; k++)
                        e.at[e.n] = rows.at[i] + x.at[k], e.tap[e.n++] = rows.tap[i] + x.tap[k];
                if (p == MAXIMA) maxima(&e, channels, j->from, j->to + at, j->tap + at);
                else if (p == SUMS && j->stream) sums(&e, channels, j->from, (float)v->scale, j->to + at, true);
                else if (p == SUMS) sums(&e, channels, j->from, (float)v->scale, j->to + at, false);
                else if (j->stream) chosen(&e, channels, j->from, j->tap, j->to + at, true);
                else chosen(&e, channels, j->from, j->tap, j->to + at, false);
            }
        }
    }
    if (j->stream) vf_stream_end();
}
static void max_lines(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, work_lines(arg, begin, end, MAXIMA); }
static void sum_lines(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, work_lines(arg, begin, end, SUMS); }
static void chosen_lines(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, work_lines(arg, begin, end, CHOSEN); }

static void run(cj_pool *pool, last_job j, void (*lines)(void *, int64_t, int64_t, int))
{
    const int64_t *size = j.backward ? j.v->in : j.v->out, line = size[2] * j.v->channels;
    const bool whole = j.v->channels % CJ_VL == 0 && (uintptr_t)j.to % (CJ_VL * sizeof(float)) == 0;
    j.stream = whole && j.v->n * size[0] * size[1] * line * (int64_t)sizeof(float) >= STREAM_BYTES;
    cj__parallel_for(pool, j.v->n * size[0] * size[1], 1 + 65536 / (line + 1), lines, &j);
}

bool CJ_K(cj__window_last_fits)(const cj_window_shape *v, cj_dtype t) { return v->last && t == CJ_F32 && cj__window_small(v); }
void CJ_K(cj__window_last_max)(cj_pool *pool, const cj_window_shape *v, const float *x, float *y, uint8_t *tap)
{
    run(pool, (last_job){ .v = v, .from = x, .to = y, .tap = tap }, max_lines);
}
void CJ_K(cj__window_last_put)(cj_pool *pool, const cj_window_shape *v, const float *g, const uint8_t *tap, float *x)
{
    run(pool, (last_job){ .v = v, .backward = true, .from = g, .to = x, .tap = (uint8_t *)(uintptr_t)tap }, chosen_lines);
}
void CJ_K(cj__window_last_sums)(cj_pool *pool, const cj_window_shape *v, bool spread, const float *from, float *to)
{
    run(pool, (last_job){ .v = v, .backward = spread, .from = from, .to = to }, sum_lines);
}
