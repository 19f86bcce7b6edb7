/* Bags of rows, counts and boxes (segment.h).
 *
 * A bag is summed a strip of columns at a time, in registers, while the next rows are on their way from memory.  The derivative walks the indices in order for
 * every part of the table, so that every element is summed in the same order on any number of threads. */
#include "kernels/cpu/segment.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/load.h"

#define STRIP (CJ_VL == 16 ? 16 : 8) /* vectors of a row kept in registers: AVX-512 has twice as many */
#define AHEAD 8         /* rows fetched in advance, into the second-level cache: the first has no room for so many lines on their way */
#define AHEAD_WRITTEN 4 /* the same of rows that are added to */
#define CHUNK 32768     /* elements of a parallel chunk, about */

typedef struct bag_job {
    const cj_bag *b;
    const char *table, *dy;
    char *y;
    int64_t *where;
    int64_t parts; /* of the table's rows, in its derivative */
} bag_job;

static int64_t bag_end(const cj_bag *b, int64_t i) { return i + 1 < b->bags ? b->offset[i + 1] : b->n; }

/* ---- forward ------------------------------------------------------------------------------------------------------------------------------------------- */

/* Columns [c, c + m) of a bag, m <= STRIP·CJ_VL, in f32. */
CJ_INLINE void bag_strip(const cj_bag *b, cj_dtype T, const void *table, int64_t begin, int64_t end, int64_t c, int m, float scale, void *y)
{
    vf sum[STRIP];
    const int full = m / CJ_VL, rest = m % CJ_VL;
    const int elem = cj__elem_size(T);
    for (int v = 0; v < STRIP; v++) sum[v] = vf_zero();
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = b->index[i] * b->d + c;
        if (i + AHEAD < b->n) {
            const char *next = (const char *)table + (b->index[i + AHEAD] * b->d + c) * elem;
            for (int k = 0; k < m * elem; k += 64) __builtin_prefetch(next + k, 0, 2);
        }
        const vf w = vf_set1(b->weight ? load_one(T, b->weight, i) : 1);
        if (full == STRIP) { /* all in registers */
            if (b->weight)
                for (int v = 0; v < STRIP; v++) sum[v] = vf_fma(w, load_vf(T, table, row + v * CJ_VL), sum[v]);
            else
                for (int v = 0; v < STRIP; v++) sum[v] += load_vf(T, table, row + v * CJ_VL);
            continue;
        }
        for (int v = 0; v < full; v++) sum[v] = vf_fma(w, load_vf(T, table, row + v * CJ_VL), sum[v]);
        if (rest) sum[full] = vf_fma(w, load_vf_n(T, table, row + full * CJ_VL, rest), sum[full]);
    }
    for (int v = 0; v < full; v++) store_vf(T, y, v * CJ_VL, sum[v] * vf_set1(scale));
    if (rest) store_vf_n(T, y, full * CJ_VL, sum[full] * vf_set1(scale), rest);
}

static void bag_f64(const cj_bag *b, const double *table, int64_t begin, int64_t end, double scale, double *restrict y)
{
    memset(y, 0, (size_t)b->d * sizeof *y);
    for (int64_t i = begin; i < end; i++) {
        const double w = b->weight ? ((const double *)b->weight)[i] : 1, *row = table + b->index[i] * b->d;
        for (int64_t c = 0; c < b->d; c++) y[c] += w * row[c];
    }
    for (int64_t c = 0; c < b->d; c++) y[c] *= scale;
}

CJ_INLINE void max_columns(const cj_bag *b, cj_dtype t, const void *table, int64_t begin, int64_t end, void *y, int64_t *where)
{
    for (int64_t c = 0; c < b->d; c++) {
        double best = 0;
        int64_t at = -1;
        for (int64_t i = begin; i < end; i++) {
            const int64_t e = b->index[i] * b->d + c;
            const double v = t == CJ_F64 ? ((const double *)table)[e] : (double)load_one(t, table, e);
            if (at < 0 || v > best || (v != v && best == best)) best = v, at = b->index[i];
        }
        if (t == CJ_F64) ((double *)y)[c] = best;
        else store_one(t, y, c, (float)best);
        where[c] = at;
    }
}

static void bag_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const bag_job *j = arg;
    const cj_bag *b = j->b;
    const int elem = cj__elem_size(b->t);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = b->offset[i], last = bag_end(b, i);
        char *y = j->y + i * b->d * elem;
        const double scale = b->mode == CJ_BAG_MODE_MEAN && last > first ? 1 / (double)(last - first) : 1;
        if (b->mode == CJ_BAG_MODE_MAX) {
            if (b->t == CJ_F32) max_columns(b, CJ_F32, j->table, first, last, y, j->where + i * b->d);
            else max_columns(b, b->t, j->table, first, last, y, j->where + i * b->d);
        } else if (b->t == CJ_F64) {
            bag_f64(b, (const double *)(const void *)j->table, first, last, scale, (double *)(void *)y);
        } else {
            for (int64_t c = 0; c < b->d; c += STRIP * CJ_VL) {
                const int m = (int)(b->d - c < STRIP * CJ_VL ? b->d - c : STRIP * CJ_VL);
                CJ_BY_TYPE(b->t, bag_strip(b, T, j->table, first, last, c, m, (float)scale, y + c * elem));
            }
        }
    }
}

void CJ_K(cj__bag)(cj_pool *pool, const cj_bag *b, const void *table, void *y, int64_t *where)
{
    if (b->bags * b->d == 0) return;
    bag_job j = { .b = b, .table = table, .y = y, .where = where };
    const int64_t each = (b->n / b->bags + 1) * b->d;
    cj__parallel_for(pool, b->bags, each < CHUNK ? CHUNK / each : 1, bag_range, &j);
}

/* ---- derivatives ------------------------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE void add_scaled(cj_dtype T, void *y, const void *x, float scale, int64_t n)
{
    int64_t i = 0;
    for (; i + CJ_VL <= n; i += CJ_VL) store_vf(T, y, i, vf_fma(vf_set1(scale), load_vf(T, x, i), load_vf(T, y, i)));
    if (i < n)
        store_vf_n(T, y, i, vf_fma(vf_set1(scale), load_vf_n(T, x, i, (int)(n - i)), load_vf_n(T, y, i, (int)(n - i))), (int)(n - i));
}

static void bwd_parts(void *arg, int64_t begin, int64_t end, int worker)
{
    const bag_job *j = arg;
    const cj_bag *b = j->b;
    const int elem = cj__elem_size(b->t);
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const int64_t low = b->rows * part / j->parts, high = b->rows * (part + 1) / j->parts;
        for (int64_t i = 0; i < b->bags; i++) {
            const int64_t first = b->offset[i], last = bag_end(b, i);
            const char *g = j->dy + i * b->d * elem;
            const double scale = b->mode == CJ_BAG_MODE_MEAN && last > first ? 1 / (double)(last - first) : 1;
            if (b->mode == CJ_BAG_MODE_MAX) {
                for (int64_t c = 0; c < b->d; c++) {
                    const int64_t row = j->where[i * b->d + c], at = row * b->d + c;
                    if (row < low || row >= high) continue;
                    if (b->t == CJ_F64) ((double *)(void *)j->y)[at] += ((const double *)(const void *)g)[c];
                    else store_one(b->t, j->y, at, load_one(b->t, j->y, at) + load_one(b->t, g, c));
                }
                continue;
            }
            for (int64_t k = first; k < last; k++) {
                if (b->index[k] < low || b->index[k] >= high) continue;
                char *y = j->y + b->index[k] * b->d * elem;
                if (k + AHEAD_WRITTEN < b->n)
                    for (int64_t q = 0; q < b->d * elem; q += 64)
                        __builtin_prefetch(j->y + b->index[k + AHEAD_WRITTEN] * b->d * elem + q, 1);
                if (b->t == CJ_F64) {
                    const double w = b->weight ? scale * ((const double *)b->weight)[k] : scale;
                    for (int64_t c = 0; c < b->d; c++) ((double *)(void *)y)[c] += w * ((const double *)(const void *)g)[c];
                } else {
                    const float w = b->weight ? (float)scale * load_one(b->t, b->weight, k) : (float)scale;
                    CJ_BY_TYPE(b->t, add_scaled(T, y, g, w, b->d));
                }
            }
        }
    }
}

void CJ_K(cj__bag_bwd)(cj_pool *pool, const cj_bag *b, const void *dy, const int64_t *where, void *dtable)
{
    if (b->bags * b->d == 0) return;
    const int threads = cj__pool_threads(pool);
    bag_job j = {
        .b = b, .dy = dy, .where = (int64_t *)(uintptr_t)where, .y = dtable, .parts = threads > 1 && b->n * b->d > CHUNK ? 4 * threads : 1
    };
    cj__parallel_for(pool, j.parts, 1, bwd_parts, &j);
}

static void weights_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const bag_job *j = arg;
    const cj_bag *b = j->b;
    const int elem = cj__elem_size(b->t);
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = b->offset[i]; k < bag_end(b, i); k++) {
            const char *g = j->dy + i * b->d * elem, *row = j->table + b->index[k] * b->d * elem;
            double dot = 0;
            for (int64_t c = 0; c < b->d; c++)
                dot += b->t == CJ_F64 ? ((const double *)(const void *)g)[c] * ((const double *)(const void *)row)[c]
                                      : (double)load_one(b->t, g, c) * (double)load_one(b->t, row, c);
            if (b->t == CJ_F64) ((double *)(void *)j->y)[k] = dot;
            else store_one(b->t, j->y, k, (float)dot);
        }
}

void CJ_K(cj__bag_weights_bwd)(cj_pool *pool, const cj_bag *b, const void *dy, const void *table, void *dweight)
{
    if (b->bags == 0) return;
    bag_job j = { .b = b, .dy = dy, .table = table, .y = dweight };
    const int64_t each = (b->n / b->bags + 1) * b->d;
    cj__parallel_for(pool, b->bags, each < CHUNK ? CHUNK / each : 1, weights_range, &j);
}

/* ---- counts: every worker has counters of its own --------------------------------------------------------------------------------------------------------- */

typedef struct count_job {
    cj_dtype t;
    const char *x;
    int64_t bins;
    double low, high;
    int64_t *counters; /* [threads][bins] */
    _Atomic int64_t nan;
} count_job;

static void add_counters(cj_pool *pool, int64_t bins, int64_t *counts, const int64_t *counters)
{
    memcpy(counts, counters, (size_t)bins * sizeof *counts);
    for (int w = 1; w < cj__pool_threads(pool); w++)
        for (int64_t i = 0; i < bins; i++) counts[i] += counters[w * bins + i];
}

static void count_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const count_job *j = arg;
    int64_t *c = j->counters + worker * j->bins;
    const int64_t *x = (const int64_t *)(const void *)j->x;
    for (int64_t i = begin; i < end; i++) c[x[i]]++;
}

void CJ_K(cj__count)(cj_pool *pool, const int64_t *x, int64_t n, int64_t bins, int64_t *counts, int64_t *scratch)
{
    count_job j = { .x = (const char *)x, .bins = bins, .counters = scratch };
    memset(scratch, 0, (size_t)cj__pool_threads(pool) * (size_t)bins * sizeof *scratch);
    if (n) cj__parallel_for(pool, n, CHUNK, count_range, &j);
    add_counters(pool, bins, counts, scratch);
}

static void histogram_range(void *arg, int64_t begin, int64_t end, int worker)
{
    enum { BLOCK = 512 };
    count_job *j = arg;
    int64_t *c = j->counters + worker * j->bins;
    const double width = (j->high - j->low) / (double)j->bins, per = (double)j->bins / (j->high - j->low);
    double v[BLOCK];
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = end - i < BLOCK ? end - i : BLOCK;
        CJ_K(cj__convert)(j->t, j->x + i * cj__elem_size(j->t), CJ_F64, v, n);
        for (int64_t k = 0; k < n; k++) {
            if (v[k] != v[k]) {
                int64_t seen = atomic_load(&j->nan);
                while (i + k < seen && !atomic_compare_exchange_weak(&j->nan, &seen, i + k)) {}
                return;
            }
            if (v[k] < j->low || v[k] > j->high) continue;
            int64_t at = (int64_t)((v[k] - j->low) * per);
            if (at >= j->bins) at = j->bins - 1;
            /* the quotient may round across an edge */
            if (at > 0 && v[k] < j->low + (double)at * width) at--;
            else if (at + 1 < j->bins && v[k] >= j->low + (double)(at + 1) * width) at++;
            c[at]++;
        }
    }
}

int64_t CJ_K(cj__histogram)(cj_pool *pool, cj_dtype t, const void *x, int64_t n, int64_t bins, double low, double high, int64_t *counts,
                            int64_t *scratch)
{
    count_job j = { .t = t, .x = x, .bins = bins, .low = low, .high = high, .counters = scratch };
    atomic_init(&j.nan, INT64_MAX);
    memset(scratch, 0, (size_t)cj__pool_threads(pool) * (size_t)bins * sizeof *scratch);
    if (n) cj__parallel_for(pool, n, CHUNK, histogram_range, &j);
    add_counters(pool, bins, counts, scratch);
    const int64_t nan = atomic_load(&j.nan);
    return nan == INT64_MAX ? -1 : nan;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* The coordinates side by side, so that one kept box is held against all later ones by vectors: intersection > threshold · union. */
#define SUPPRESS(name, type)                                                                                                               \
    static void name(const type *boxes, const int64_t *classes, int64_t n, type threshold, uint8_t *keep, type *scratch)                   \
    {                                                                                                                                      \
        type *restrict left = scratch, *restrict top = left + n, *restrict right = top + n, *restrict bottom = right + n,                  \
                       *restrict area = bottom + n;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            left[i] = boxes[4 * i], top[i] = boxes[4 * i + 1], right[i] = boxes[4 * i + 2], bottom[i] = boxes[4 * i + 3];                  \
            area[i] = (right[i] - left[i]) * (bottom[i] - top[i]);                                                                         \
            keep[i] = 1;                                                                                                                   \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            if (!keep[i]) continue;                                                                                                        \
            const type l = left[i], t = top[i], r = right[i], b = bottom[i], a = area[i];                                                  \
            for (int64_t k = i + 1; k < n; k++) {                                                                                          \
                const type w = (r < right[k] ? r : right[k]) - (l > left[k] ? l : left[k]);                                                \
                const type h = (b < bottom[k] ? b : bottom[k]) - (t > top[k] ? t : top[k]);                                                \
                const type inner = (w > 0 ? w : 0) * (h > 0 ? h : 0);                                                                      \
                const bool far = !(inner > threshold * (a + area[k] - inner));                                                             \
                keep[k] &= (uint8_t)(far | (classes && classes[k] != classes[i]));                                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
SUPPRESS(suppress_f32, float)
SUPPRESS(suppress_f64, double)

void CJ_K(cj__suppress)(cj_dtype t, const void *boxes, const int64_t *classes, int64_t n, double threshold, uint8_t *keep, void *scratch)
{
    if (t == CJ_F64) suppress_f64(boxes, classes, n, threshold, keep, scratch);
    else suppress_f32(boxes, classes, n, (float)threshold, keep, scratch);
}
