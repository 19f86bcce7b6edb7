/* Indexing along one axis: rows picked, rows added, element-wise gather and scatter-add, and the range check.
 *
 * The adding kernels keep the order of the indices for every element, whatever the number of threads: work is cut along the other axes, or, where
 * those are too short, along the indexed axis, each worker walking all indices and adding only those that fall in its part.  How many parts there are
 * changes nothing in the results.
 */
#include <stdatomic.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define CHUNK 32768 /* elements of one parallel chunk, about */
#define PARTS 16    /* parts of the indexed axis at most, where it is cut */
#define INNER_TILE 64

typedef struct index_job {
    cj_dtype t;
    cj_reduce_code how; /* of scatter_reduce */
    int elem;
    const char *x;
    char *y;
    const int64_t *index;
    int64_t outer, len, inner, n;
    int64_t tiles, tile, parts; /* of the inner axis, of the indexed axis */
    _Atomic int64_t bad;
} index_job;

/* ---- index_select -------------------------------------------------------------------------------------------------------------------- */

#define SELECT(type)                                                                                                                       \
    do {                                                                                                                                   \
        const type *p = (const type *)(const void *)x;                                                                                     \
        type *q = (type *)(void *)y;                                                                                                       \
        for (int64_t k = 0; k < n; k++) q[k] = p[index[k]];                                                                                \
    } while (0)

/* One value per index. */
static void select_scalars(int elem, const char *x, const int64_t *index, int64_t n, char *y)
{
    switch (elem) {
    case 1: SELECT(uint8_t); break;
    case 2: SELECT(uint16_t); break;
    case 4: SELECT(uint32_t); break;
    default: SELECT(uint64_t); break;
    }
}
#undef SELECT

static void select_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const index_job *j = arg;
    const int64_t bytes = j->inner * j->elem;
    (void)worker;
    for (int64_t i = begin; i < end;) {
        const int64_t o = i / j->n, k0 = i - o * j->n, k1 = k0 + (end - i) < j->n ? k0 + (end - i) : j->n;
        const char *x = j->x + o * j->len * bytes;
        char *y = j->y + i * bytes;
        if (j->inner == 1) select_scalars(j->elem, x, j->index + k0, k1 - k0, y);
        else
            for (int64_t k = k0; k < k1; k++, y += bytes) memcpy(y, x + j->index[k] * bytes, (size_t)bytes);
        i += k1 - k0;
    }
}

void CJ_K(cj__index_select)(cj_pool *pool, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                            int64_t n_index, void *y)
{
    if (outer * n_index * inner == 0) return;
    index_job j = { .elem = elem, .x = x, .y = y, .index = index, .outer = outer, .len = len, .inner = inner, .n = n_index };
    const int64_t rows = outer * n_index;
    if (rows * inner <= CHUNK) select_rows(&j, 0, rows, 0);
    else cj__parallel_for(pool, rows, CHUNK / inner + 1, select_rows, &j);
}

/* ---- adding -------------------------------------------------------------------------------------------------------------------------- */

/* y[0 … n) += x[0 … n) */
CJ_INLINE void add_run(cj_dtype t, char *y, const char *x, int64_t n)
{
    int64_t i = 0;
    switch (t) {
    case CJ_F64:
        for (; i < n; i++) ((double *)(void *)y)[i] += ((const double *)(const void *)x)[i];
        break;
    case CJ_BF16: {
        uint16_t *p = (uint16_t *)(void *)y;
        const uint16_t *q = (const uint16_t *)(const void *)x;
        for (; i + CJ_VL <= n; i += CJ_VL) vf_store_bf16(p + i, vf_load_bf16(p + i) + vf_load_bf16(q + i));
        for (; i < n; i++) p[i] = cj_bf16_from_f32(cj_f32_from_bf16(p[i]) + cj_f32_from_bf16(q[i]));
        break;
    }
    case CJ_F16: {
        uint16_t *p = (uint16_t *)(void *)y;
        const uint16_t *q = (const uint16_t *)(const void *)x;
        for (; i + CJ_VL <= n; i += CJ_VL) vf_store_f16(p + i, vf_load_f16(p + i) + vf_load_f16(q + i));
        for (; i < n; i++) p[i] = cj_f16_from_f32(cj_f32_from_f16(p[i]) + cj_f32_from_f16(q[i]));
        break;
    }
    case CJ_I64: /* integers wrap */
        for (; i < n; i++) ((uint64_t *)(void *)y)[i] += ((const uint64_t *)(const void *)x)[i];
        break;
    case CJ_I32:
        for (; i < n; i++) ((uint32_t *)(void *)y)[i] += ((const uint32_t *)(const void *)x)[i];
        break;
    case CJ_U8:
        for (; i < n; i++) ((uint8_t *)y)[i] = (uint8_t)(((uint8_t *)y)[i] + ((const uint8_t *)x)[i]);
        break;
    case CJ_BOOL:
        for (; i < n; i++) ((uint8_t *)y)[i] = (((uint8_t *)y)[i] | ((const uint8_t *)x)[i]) != 0;
        break;
    default: {
        float *p = (float *)(void *)y;
        const float *q = (const float *)(const void *)x;
        for (; i + CJ_VL <= n; i += CJ_VL) vf_store(p + i, vf_load(p + i) + vf_load(q + i));
        for (; i < n; i++) p[i] += q[i];
        break;
    }
    }
}

/* How the adding work of [outer, n, inner] is cut: by outer and tiles of inner; by parts of the indexed axis only where those are few. */
static void cut(index_job *j, int threads)
{
    const int64_t work = j->outer * j->n * j->inner;
    j->tile = j->inner <= INNER_TILE ? j->inner : j->inner * j->n <= CHUNK ? j->inner : INNER_TILE;
    if (j->outer >= PARTS) j->tile = j->inner;
    j->tiles = (j->inner + j->tile - 1) / j->tile;
    j->parts = work > CHUNK && j->outer * j->tiles < 4 && j->len >= PARTS ? (threads < PARTS ? threads : PARTS) : 1;
}

typedef struct part {
    int64_t o, c0, c1, lo, hi;
} part;

/* Item i: an outer index, columns [c0, c1) and rows [lo, hi) of the indexed axis. */
static part part_of(const index_job *j, int64_t i)
{
    part p;
    const int64_t q = i % j->parts, c = i / j->parts % j->tiles;
    p.o = i / j->parts / j->tiles;
    p.c0 = c * j->tile;
    p.c1 = p.c0 + j->tile < j->inner ? p.c0 + j->tile : j->inner;
    p.lo = j->len * q / j->parts;
    p.hi = j->len * (q + 1) / j->parts;
    return p;
}

static void add_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const index_job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const part p = part_of(j, i);
        char *y = j->y + (p.o * j->len * j->inner + p.c0) * j->elem;
        const char *x = j->x + (p.o * j->n * j->inner + p.c0) * j->elem;
        const int64_t row = j->inner * j->elem, n = p.c1 - p.c0;
        for (int64_t k = 0; k < j->n; k++) {
            const int64_t at = j->index[k];
            if (at < p.lo || at >= p.hi) continue;
            if (j->t == CJ_F32) add_run(CJ_F32, y + at * row, x + k * row, n);
            else add_run(j->t, y + at * row, x + k * row, n);
        }
    }
}

static void run_adding(cj_pool *pool, index_job *j, cj_range_fn fn)
{
    if (j->outer * j->n * j->inner == 0) return;
    cut(j, cj__pool_threads(pool));
    const int64_t items = j->outer * j->tiles * j->parts, each = j->n * j->tile;
    if (items * each <= CHUNK) fn(j, 0, items, 0);
    else cj__parallel_for(pool, items, each < CHUNK ? CHUNK / each : 1, fn, j);
}

void CJ_K(cj__index_add)(cj_pool *pool, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                         int64_t n_index, const void *x)
{
    index_job j = {
        .t = t, .elem = cj__elem_size(t), .x = x, .y = y, .index = index, .outer = outer, .len = len, .inner = inner, .n = n_index
    };
    run_adding(pool, &j, add_items);
}

/* ---- gather, scatter-add ------------------------------------------------------------------------------------------------------------- */

#define GATHER(type)                                                                                                                       \
    do {                                                                                                                                   \
        const type *p = (const type *)(const void *)x;                                                                                     \
        type *q = (type *)(void *)y;                                                                                                       \
        for (int64_t c = 0; c < n; c++) q[c] = p[index[c] * n + c];                                                                        \
    } while (0)

static void gather_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const index_job *j = arg;
    const int64_t n = j->inner;
    (void)worker;
    if (n == 1) { /* the common case, classes along the last axis */
        for (int64_t i = begin; i < end;) {
            const int64_t o = i / j->n, stop = (o + 1) * j->n < end ? (o + 1) * j->n : end;
            select_scalars(j->elem, j->x + o * j->len * j->elem, j->index + i, stop - i, j->y + i * j->elem);
            i = stop;
        }
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const char *x = j->x + i / j->n * j->len * n * j->elem;
        char *y = j->y + i * n * j->elem;
        const int64_t *index = j->index + i * n;
        switch (j->elem) {
        case 1: GATHER(uint8_t); break;
        case 2: GATHER(uint16_t); break;
        case 4: GATHER(uint32_t); break;
        default: GATHER(uint64_t); break;
        }
    }
}
#undef GATHER

void CJ_K(cj__gather)(cj_pool *pool, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                      void *y)
{
    if (outer * n * inner == 0) return;
    index_job j = { .elem = elem, .x = x, .y = y, .index = index, .outer = outer, .len = len, .inner = inner, .n = n };
    const int64_t rows = outer * n;
    if (rows * inner <= CHUNK) gather_rows(&j, 0, rows, 0);
    else cj__parallel_for(pool, rows, CHUNK / inner + 1, gather_rows, &j);
}

/* One row of numbers.  The places are fetched in advance: indices come in no order. */
static void scatter_row(float *restrict y, const float *restrict x, const int64_t *restrict index, int64_t n)
{
    enum { AHEAD = 32 };
    int64_t k = 0;
    for (; k + AHEAD < n; k++) {
        __builtin_prefetch(y + index[k + AHEAD], 1);
        y[index[k]] += x[k];
    }
    for (; k < n; k++) y[index[k]] += x[k];
}
/* Of those, the ones in [lo, hi): picked out first, without a branch, which would be mistaken every other time. */
static void scatter_part(float *restrict y, const float *restrict x, const int64_t *restrict index, int64_t n, int64_t lo, int64_t hi)
{
    enum { BLOCK = 512 };
    int64_t at[BLOCK + 1];
    float value[BLOCK + 1];
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t count = n - k < BLOCK ? n - k : BLOCK;
        int64_t m = 0;
        for (int64_t i = k; i < k + count; i++) {
            at[m] = index[i];
            value[m] = x[i];
            m += (uint64_t)(index[i] - lo) < (uint64_t)(hi - lo);
        }
        scatter_row(y, value, at, m);
    }
}

static void scatter_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const index_job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const part p = part_of(j, i);
        char *y = j->y + p.o * j->len * j->inner * j->elem;
        const char *x = j->x + p.o * j->n * j->inner * j->elem;
        const int64_t *index = j->index + p.o * j->n * j->inner;
        if (j->t == CJ_F32 && j->inner == 1) {
            if (j->parts == 1) scatter_row((float *)(void *)y, (const float *)(const void *)x, index, j->n);
            else scatter_part((float *)(void *)y, (const float *)(const void *)x, index, j->n, p.lo, p.hi);
            continue;
        }
        for (int64_t k = 0; k < j->n; k++)
            for (int64_t c = p.c0; c < p.c1; c++) {
                const int64_t from = k * j->inner + c, at = index[from], to = at * j->inner + c;
                if (at < p.lo || at >= p.hi) continue;
                if (j->t == CJ_F32) ((float *)(void *)y)[to] += ((const float *)(const void *)x)[from];
                else add_run(j->t, y + to * j->elem, x + from * j->elem, 1);
            }
    }
}

void CJ_K(cj__scatter_add)(cj_pool *pool, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                           const void *x)
{
    index_job j = { .t = t, .elem = cj__elem_size(t), .x = x, .y = y, .index = index, .outer = outer, .len = len, .inner = inner, .n = n };
    run_adding(pool, &j, scatter_items);
}

/* y = y·x or the larger or smaller of both, NaN wins; one element. */
#define COMBINE(type, op_type)                                                                                                             \
    do {                                                                                                                                   \
        type *p = (type *)(void *)y;                                                                                                       \
        const type v = *(const type *)(const void *)x;                                                                                     \
        if (how == CJ_RED_PROD) *p = (type)((op_type)*p * (op_type)v);                                                                     \
        else if (how == CJ_RED_MAX ? v > *p : v < *p) *p = v;                                                                              \
    } while (0)
#define COMBINE_FLOAT(get, put, type)                                                                                                      \
    do {                                                                                                                                   \
        const type a = get(y), v = get(x);                                                                                                 \
        if (how == CJ_RED_PROD) put(y, a *v);                                                                                              \
        else if ((how == CJ_RED_MAX ? v > a : v < a) || v != v) put(y, v);                                                                 \
    } while (0)
#define GET_F32(p) (*(const float *)(const void *)(p))
#define PUT_F32(p, v) (*(float *)(void *)(p) = (v))
#define GET_F64(p) (*(const double *)(const void *)(p))
#define PUT_F64(p, v) (*(double *)(void *)(p) = (v))
#define GET_BF16(p) cj_f32_from_bf16(*(const uint16_t *)(const void *)(p))
#define PUT_BF16(p, v) (*(uint16_t *)(void *)(p) = cj_bf16_from_f32(v))
#define GET_F16(p) cj_f32_from_f16(*(const uint16_t *)(const void *)(p))
#define PUT_F16(p, v) (*(uint16_t *)(void *)(p) = cj_f16_from_f32(v))
CJ_INLINE void combine(cj_reduce_code how, cj_dtype t, char *y, const char *x)
{
    switch (t) {
    case CJ_F64: COMBINE_FLOAT(GET_F64, PUT_F64, double); break;
    case CJ_BF16: COMBINE_FLOAT(GET_BF16, PUT_BF16, float); break;
    case CJ_F16: COMBINE_FLOAT(GET_F16, PUT_F16, float); break;
    case CJ_I64: COMBINE(int64_t, uint64_t); break;
    case CJ_I32: COMBINE(int32_t, uint32_t); break;
    case CJ_U8:
    case CJ_BOOL: COMBINE(uint8_t, unsigned); break;
    default: COMBINE_FLOAT(GET_F32, PUT_F32, float); break;
    }
}

static void reduce_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const index_job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const part p = part_of(j, i);
        char *y = j->y + p.o * j->len * j->inner * j->elem;
        const char *x = j->x + p.o * j->n * j->inner * j->elem;
        const int64_t *index = j->index + p.o * j->n * j->inner;
        for (int64_t k = 0; k < j->n; k++)
            for (int64_t c = p.c0; c < p.c1; c++) {
                const int64_t from = k * j->inner + c, at = index[from];
                if (at >= p.lo && at < p.hi) combine(j->how, j->t, y + (at * j->inner + c) * j->elem, x + from * j->elem);
            }
    }
}

void CJ_K(cj__scatter_reduce)(cj_pool *pool, cj_reduce_code how, cj_dtype t, void *y, int64_t outer, int64_t len, int64_t inner,
                              const int64_t *index, int64_t n, const void *x)
{
    index_job j = {
        .t = t, .how = how, .elem = cj__elem_size(t), .x = x, .y = y, .index = index, .outer = outer, .len = len, .inner = inner, .n = n
    };
    run_adding(pool, &j, reduce_items);
}

/* ---- range check --------------------------------------------------------------------------------------------------------------------- */

/* The first bad position of index[0 … n), or n. Whole blocks are tested without branches. */
static int64_t first_bad(const int64_t *index, int64_t n, int64_t len)
{
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bad = 0;
        for (int k = 0; k < 64; k++) bad |= (uint64_t)index[i + k] >= (uint64_t)len;
        if (bad) break;
    }
    for (; i < n; i++)
        if ((uint64_t)index[i] >= (uint64_t)len) return i;
    return n;
}

static void check_range(void *arg, int64_t begin, int64_t end, int worker)
{
    index_job *j = arg;
    (void)worker;
    int64_t found = begin + first_bad(j->index + begin, end - begin, j->len), seen = atomic_load(&j->bad);
    if (found == end) return;
    while (found < seen && !atomic_compare_exchange_weak(&j->bad, &seen, found)) {}
}

int64_t CJ_K(cj__index_check)(cj_pool *pool, const int64_t *index, int64_t n, int64_t len)
{
    if (n <= CHUNK) {
        const int64_t at = first_bad(index, n, len);
        return at < n ? at : -1;
    }
    index_job j = { .index = index, .len = len };
    atomic_init(&j.bad, INT64_MAX);
    cj__parallel_for(pool, n, CHUNK, check_range, &j);
    const int64_t at = atomic_load(&j.bad);
    return at == INT64_MAX ? -1 : at;
}
