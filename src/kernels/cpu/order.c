/* Ordering (order.h).  Values become integer keys in the same order, a key and its place one word, and words are sorted by the digits of their keys (least
 * significant digit first; Knuth, vol. 3, 5.2.5): a stable sort without comparisons.  A long row is first split by its highest digit, by all threads together, and the
 * pieces, which fit the cache, are sorted one by one.  64-bit keys are sorted by their low half, then by their high half.
 *
 * The best k of a long row: keys are held against the k-th best so far, a vector at a time; what passes is collected and, when there is enough of it, sorted. */
#include "kernels/cpu/order.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define BLOCK 512 /* keys made at a time */
#define FEW 40    /* words that are sorted by insertion */
#define WIDE 11   /* bits of a digit; of short rows NARROW */
#define NARROW 8
#define LONG 65536       /* elements from which a row is split by its highest digit … */
#define CHUNKS 16        /* … in that many chunks */
#define REST (32 - WIDE) /* bits below the highest digit */

enum { BUCKETS = 1 << WIDE };

/* Which 32 bits of the values are the keys. */
typedef enum part { WHOLE, LOW, HIGH } part;

typedef struct order_job {
    cj_dtype t;
    int elem;
    const char *x; /* of the row, or of all rows */
    int64_t rows, n, k;
    int32_t flip; /* -1: descending */
    char *values;
    int64_t *indices;
    uint64_t *scratch;
    int64_t per_worker; /* words of scratch */
    /* a long row */
    part part;
    const uint64_t *order; /* HIGH: places in the order of the low halves */
    uint64_t *from, *to;
    uint32_t *count; /* [CHUNKS][BUCKETS] */
    int64_t chunk;
    int64_t first[BUCKETS + 1];
} order_job;

static bool is_wide(cj_dtype t) { return t == CJ_F64 || t == CJ_I64; }

/* ---- keys: signed integers in the order of the values ------------------------------------------------------------------------------------------ */

/* -0 + 0 is 0; the bits of negative numbers count downwards. */
CJ_INLINE int32_t key_f32(float x)
{
    int32_t b = (int32_t)cj_f32_bits(x + 0.0f);
    b ^= (b >> 31) & INT32_MAX;
    return x != x ? INT32_MAX : b;
}
CJ_INLINE int64_t key_f64(double x)
{
    int64_t b;
    x += 0.0;
    memcpy(&b, &x, sizeof b);
    b ^= (b >> 63) & INT64_MAX;
    return x != x ? INT64_MAX : b;
}
CJ_INLINE int64_t key_at(cj_dtype t, const char *x, int64_t i)
{
    switch (t) {
    case CJ_F64: return key_f64(((const double *)(const void *)x)[i]);
    case CJ_BF16: return key_f32(cj_f32_from_bf16(((const uint16_t *)(const void *)x)[i]));
    case CJ_F16: return key_f32(cj_f32_from_f16(((const uint16_t *)(const void *)x)[i]));
    case CJ_I64: return ((const int64_t *)(const void *)x)[i];
    case CJ_I32: return ((const int32_t *)(const void *)x)[i];
    case CJ_U8:
    case CJ_BOOL: return ((const uint8_t *)x)[i];
    default: return key_f32(((const float *)(const void *)x)[i]);
    }
}

/* Keys of elements [begin, begin + n), n <= BLOCK, of a type of at most 32 bits. */
static void narrow_keys(cj_dtype t, const char *x, int64_t begin, int n, int32_t flip, int32_t *restrict key)
{
    float wide[BLOCK];
    const float *f = (const float *)(const void *)x + begin;
    switch (t) {
    case CJ_I32:
        for (int i = 0; i < n; i++) key[i] = ((const int32_t *)(const void *)x)[begin + i] ^ flip;
        return;
    case CJ_U8:
    case CJ_BOOL:
        for (int i = 0; i < n; i++) key[i] = ((const uint8_t *)x)[begin + i] ^ flip;
        return;
    case CJ_BF16:
    case CJ_F16:
        CJ_K(cj__convert)(t, x + begin * 2, CJ_F32, wide, n);
        f = wide;
        break;
    default: break;
    }
    for (int i = 0; i < n; i++) key[i] = key_f32(f[i]) ^ flip;
}

/* The words of items [begin, begin + n): the key of the job's part, as an unsigned number, above the place. */
static void make_words(const order_job *j, const char *x, int64_t begin, int n, uint64_t *word)
{
    int32_t key[BLOCK];
    if (j->part == WHOLE) {
        narrow_keys(j->t, x, begin, n, j->flip, key);
        for (int i = 0; i < n; i++) word[i] = (uint64_t)((uint32_t)key[i] ^ 0x80000000u) << 32 | (uint64_t)(begin + i);
        return;
    }
    for (int i = 0; i < n; i++) {
        const uint64_t at = j->part == HIGH ? (uint32_t)j->order[begin + i] : (uint64_t)(begin + i);
        const uint64_t k = (uint64_t)(key_at(j->t, x, (int64_t)at) ^ j->flip) ^ 0x8000000000000000u;
        word[i] = (j->part == HIGH ? k & 0xffffffff00000000u : k << 32) | at;
    }
}

/* ---- words --------------------------------------------------------------------------------------------------------------------------------------- */

static void insertion(uint64_t *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const uint64_t w = a[i];
        int64_t at = i;
        for (; at > 0 && a[at - 1] >> 32 > w >> 32; at--) a[at] = a[at - 1];
        a[at] = w;
    }
}

/* Sorts a[0 … n) by the lowest `bits` bits of the keys, stably; b is of the same size.  The result is in what is returned, a or b. */
static uint64_t *sort_words(uint64_t *a, uint64_t *b, int64_t n, int bits)
{
    if (n <= FEW) {
        insertion(a, n);
        return a;
    }
    uint32_t count[4 << NARROW > 3 << WIDE ? 4 << NARROW : 3 << WIDE];
    const int width = n < 4096 ? NARROW : WIDE, passes = (bits + width - 1) / width;
    const uint32_t mask = (1u << width) - 1;
    memset(count, 0, ((size_t)passes << width) * sizeof *count);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t key = (uint32_t)(a[i] >> 32);
        for (int p = 0; p < passes; p++) count[((uint32_t)p << width) + (key >> p * width & mask)]++;
    }
    for (int p = 0; p < passes; p++) {
        uint32_t *c = count + ((size_t)p << width), sum = 0;
        const int shift = 32 + p * width;
        if (c[a[0] >> shift & mask] == n) continue; /* the digit is the same everywhere */
        for (uint32_t d = 0; d <= mask; d++) {
            const uint32_t here = c[d];
            c[d] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < n; i++) b[c[a[i] >> shift & mask]++] = a[i];
        uint64_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

/* Results [at, at + n) of a row from sorted words.  Most keys are their value; only 0 (or -0) and NaN are looked up. */
static void emit(const order_job *j, const char *x, char *values, int64_t *indices, int64_t at, const uint64_t *word, int64_t n)
{
    for (int64_t i = 0; i < n; i++) indices[at + i] = (int64_t)(uint32_t)word[i];
    if (!values) return;
    if (j->t == CJ_F32 && j->part == WHOLE) {
        const float *f = (const float *)(const void *)x;
        for (int64_t i = 0; i < n; i++) {
            const int32_t key = (int32_t)((uint32_t)(word[i] >> 32) ^ 0x80000000u) ^ j->flip;
            const float v = cj_f32_from_bits((uint32_t)(key ^ ((key >> 31) & INT32_MAX)));
            ((float *)(void *)values)[at + i] = key == 0 || key == INT32_MAX ? f[(uint32_t)word[i]] : v;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(values + (at + i) * j->elem, x + (int64_t)(uint32_t)word[i] * j->elem, (size_t)j->elem);
}

/* ---- rows that one thread sorts ------------------------------------------------------------------------------------------------------------------- */

static uint64_t *sort_row(order_job *j, const char *x, uint64_t *a, uint64_t *b)
{
    for (part p = is_wide(j->t) ? LOW : WHOLE;; p = HIGH) {
        j->part = p;
        for (int64_t i = 0; i < j->n; i += BLOCK) make_words(j, x, i, (int)(j->n - i < BLOCK ? j->n - i : BLOCK), a + i);
        uint64_t *sorted = sort_words(a, b, j->n, 32);
        if (p != LOW) return sorted;
        b = sorted == a ? b : a;
        a = sorted;
        j->order = a; /* a word of the high half replaces the word it was made from */
    }
}

/* ---- the best k ------------------------------------------------------------------------------------------------------------------------------------ */

/* Enough candidates to pay for a sort. */
static int64_t room(int64_t k) { return 4 * k + 16; }

static uint64_t *best_of_row(const order_job *j, const char *x, uint64_t *a, uint64_t *b)
{
    const int64_t cap = room(j->k), k = j->k;
    int64_t m = 0;
    int32_t limit = INT32_MAX; /* the key of the k-th best, once there are k */
    const bool few = k <= FEW; /* then kept in order all the time */
    bool full = false;
    for (int64_t begin = 0; begin < j->n; begin += BLOCK) {
        const int n = (int)(j->n - begin < BLOCK ? j->n - begin : BLOCK);
        int32_t key[BLOCK];
        narrow_keys(j->t, x, begin, n, j->flip, key);
        for (int i = n; i % CJ_VL; i++) key[i] = INT32_MAX; /* never better */
        for (int i = 0; i < n; i += CJ_VL) {
            uint32_t better = full ? vm_bits(vi_lt(vi_load(key + i), vi_set1(limit))) : ~0u;
            if (!full && n - i < 32) better = (1u << (n - i)) - 1;
            better &= (uint32_t)((1ull << CJ_VL) - 1);
            for (; better; better &= better - 1) {
                const int at = i + __builtin_ctz(better);
                if (full && key[at] >= limit) continue; /* the limit has moved */
                const uint64_t word = (uint64_t)((uint32_t)key[at] ^ 0x80000000u) << 32 | (uint64_t)(begin + at);
                if (few) {
                    int64_t to = m < k ? m++ : k - 1;
                    for (; to > 0 && a[to - 1] >> 32 > word >> 32; to--) a[to] = a[to - 1];
                    a[to] = word;
                    full = m == k;
                    limit = (int32_t)((uint32_t)(a[m - 1] >> 32) ^ 0x80000000u);
                    continue;
                }
                a[m++] = word;
                if (m < cap) continue;
                uint64_t *sorted = sort_words(a, b, m, 32);
                if (sorted != a) b = a;
                a = sorted;
                m = k;
                limit = (int32_t)((uint32_t)(a[k - 1] >> 32) ^ 0x80000000u);
                full = true;
            }
        }
    }
    return few ? a : sort_words(a, b, m, 32);
}

/* Longer than this a list of candidates is no shortcut. */
static bool by_candidates(cj_dtype t, int64_t n, int64_t k) { return !is_wide(t) && k > 0 && 2 * room(k) < n; }

static void order_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    order_job j = *(const order_job *)arg;
    uint64_t *a = j.scratch + worker * j.per_worker, *b = a + j.per_worker / 2;
    const bool few = by_candidates(j.t, j.n, j.k);
    for (int64_t r = begin; r < end; r++) {
        const char *x = j.x + r * j.n * j.elem;
        j.part = WHOLE;
        const uint64_t *sorted = few ? best_of_row(&j, x, a, b) : sort_row(&j, x, a, b);
        emit(&j, x, j.values ? j.values + r * j.k * j.elem : NULL, j.indices + r * j.k, 0, sorted, j.k);
    }
}

/* ---- long rows: all threads together ------------------------------------------------------------------------------------------------------------------ */

static void count_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    order_job *j = arg;
    uint64_t word[BLOCK];
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        uint32_t *count = j->count + c * BUCKETS;
        const int64_t last = (c + 1) * j->chunk < j->n ? (c + 1) * j->chunk : j->n;
        memset(count, 0, BUCKETS * sizeof *count);
        for (int64_t i = c * j->chunk; i < last; i += BLOCK) {
            const int n = (int)(last - i < BLOCK ? last - i : BLOCK);
            make_words(j, j->x, i, n, word);
            for (int k = 0; k < n; k++) count[word[k] >> (32 + REST)]++;
        }
    }
}
static void spread_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    order_job *j = arg;
    uint64_t word[BLOCK];
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        uint32_t *next = j->count + c * BUCKETS;
        const int64_t last = (c + 1) * j->chunk < j->n ? (c + 1) * j->chunk : j->n;
        for (int64_t i = c * j->chunk; i < last; i += BLOCK) {
            const int n = (int)(last - i < BLOCK ? last - i : BLOCK);
            make_words(j, j->x, i, n, word);
            for (int k = 0; k < n; k++) j->to[next[word[k] >> (32 + REST)]++] = word[k];
        }
    }
}
static void sort_buckets(void *arg, int64_t begin, int64_t end, int worker)
{
    order_job *j = arg;
    (void)worker;
    for (int64_t d = begin; d < end; d++) {
        const int64_t at = j->first[d], n = j->first[d + 1] - at;
        if (!n) continue;
        uint64_t *sorted = sort_words(j->to + at, j->from + at, n, REST);
        if (j->part != LOW) emit(j, j->x, j->values, j->indices, at, sorted, n);
        else if (sorted != j->to + at) memcpy(j->to + at, sorted, (size_t)n * sizeof *sorted);
    }
}

static void order_long(cj_pool *pool, order_job *j)
{
    uint64_t *buffer[3] = { j->scratch, j->scratch + j->n, j->scratch + 2 * j->n }; /* the third: only for 64-bit keys */
    j->count = (uint32_t *)(void *)(j->scratch + (is_wide(j->t) ? 3 : 2) * j->n);
    j->chunk = (j->n + CHUNKS - 1) / CHUNKS;
    for (part p = is_wide(j->t) ? LOW : WHOLE;; p = HIGH) {
        j->part = p;
        j->from = buffer[0];
        j->to = p == HIGH ? buffer[2] : buffer[1];
        j->order = buffer[1];
        cj__parallel_for(pool, CHUNKS, 1, count_chunks, j);
        uint32_t sum = 0;
        for (int d = 0; d < BUCKETS; d++) {
            j->first[d] = sum;
            for (int c = 0; c < CHUNKS; c++) {
                const uint32_t here = j->count[c * BUCKETS + d];
                j->count[c * BUCKETS + d] = sum;
                sum += here;
            }
        }
        j->first[BUCKETS] = sum;
        cj__parallel_for(pool, CHUNKS, 1, spread_chunks, j);
        cj__parallel_for(pool, BUCKETS, 16, sort_buckets, j);
        if (p != LOW) return;
    }
}

static bool is_long(int64_t n, int64_t k) { return k == n && n >= LONG; }

size_t CJ_K(cj__order_scratch)(cj_pool *pool, cj_dtype t, int64_t n, int64_t k)
{
    if (is_long(n, k)) return (size_t)n * 8 * (is_wide(t) ? 3 : 2) + CHUNKS * BUCKETS * sizeof(uint32_t);
    return (size_t)cj__pool_threads(pool) * 16 * (size_t)(by_candidates(t, n, k) ? room(k) : n);
}

void CJ_K(cj__order)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t k, bool descending, void *values,
                     int64_t *indices, void *scratch)
{
    if (rows * k == 0) return;
    order_job j = { .t = t,
                    .elem = cj__elem_size(t),
                    .x = x,
                    .rows = rows,
                    .n = n,
                    .k = k,
                    .flip = descending ? -1 : 0,
                    .values = values,
                    .indices = indices,
                    .scratch = scratch };
    if (is_long(n, k)) {
        for (int64_t r = 0; r < rows; r++) {
            j.x = (const char *)x + r * n * j.elem;
            j.values = values ? (char *)values + r * n * j.elem : NULL;
            j.indices = indices + r * n;
            order_long(pool, &j);
        }
        return;
    }
    j.per_worker = 2 * (by_candidates(t, n, k) ? room(k) : n);
    cj__parallel_for(pool, rows, n < 16384 ? 16384 / n : 1, order_rows, &j);
}

/* ---- search ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct search_job {
    cj_dtype t;
    const char *sorted, *values;
    bool shared, right;
    int64_t n, m;
    int64_t *y;
} search_job;

CJ_INLINE void search_items(const search_job *j, cj_dtype t, int64_t begin, int64_t end)
{
    const int elem = cj__elem_size(t);
    for (int64_t i = begin; i < end; i++) {
        const char *row = j->sorted + (j->shared ? 0 : i / j->m) * j->n * elem;
        const int64_t key = key_at(t, j->values, i);
        int64_t low = 0, high = j->n;
        while (low < high) {
            const int64_t mid = low + (high - low) / 2, there = key_at(t, row, mid);
            if (j->right ? there <= key : there < key) low = mid + 1;
            else high = mid;
        }
        j->y[i] = low;
    }
}
static void search_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const search_job *j = arg;
    (void)worker;
    switch (j->t) { /* inlined for the types that matter */
    case CJ_F32: search_items(j, CJ_F32, begin, end); break;
    case CJ_F64: search_items(j, CJ_F64, begin, end); break;
    case CJ_I64: search_items(j, CJ_I64, begin, end); break;
    default: search_items(j, j->t, begin, end); break;
    }
}

void CJ_K(cj__searchsorted)(cj_pool *pool, cj_dtype t, const void *sorted, bool shared, int64_t n, const void *values, int64_t rows,
                            int64_t m, bool right, int64_t *y)
{
    search_job j = { .t = t, .sorted = sorted, .values = values, .shared = shared, .right = right, .n = n, .m = m, .y = y };
    if (rows * m > 0) cj__parallel_for(pool, rows * m, 2048, search_range, &j);
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------------------------------ */

CJ_INLINE int64_t runs_of(cj_dtype t, const char *x, int64_t n, int64_t *first)
{
    const int64_t nan = t == CJ_F64 ? INT64_MAX : t == CJ_F32 || t == CJ_BF16 || t == CJ_F16 ? INT32_MAX : INT64_MIN;
    const bool is_float = t == CJ_F64 || t == CJ_F32 || t == CJ_BF16 || t == CJ_F16;
    int64_t count = 0, before = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = key_at(t, x, i);
        if (i == 0 || key != before || (is_float && key == nan)) {
            if (first) first[count] = i;
            count++;
        }
        before = key;
    }
    return count;
}

int64_t CJ_K(cj__runs)(cj_dtype t, const void *x, int64_t n, int64_t *first)
{
    switch (t) {
    case CJ_F32: return runs_of(CJ_F32, x, n, first);
    case CJ_I64: return runs_of(CJ_I64, x, n, first);
    default: return runs_of(t, x, n, first);
    }
}
