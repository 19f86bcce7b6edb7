/* Scans (scan.h).  A line, the elements along the scanned axis, is worked on in blocks of f64 (or i64) in the cache; the carry goes from block to block.
 *
 * The running sum of a block goes as four chains at once, each started by the sums of the quarters before it, so that the additions of one do not wait for those of
 * another.  A long line is cut into chunks: their sums first, then the chunks, each from the sum of those before it.  Both depend on the length alone. */
#include "kernels/cpu/scan.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define BLOCK 1024
#define QUARTER (BLOCK / 4)
#define CHUNK 65536 /* elements of a line summed on their own */
#define COLUMNS 16  /* neighbouring lines from which on they are summed side by side */
#define TILE 256

typedef struct scan_job {
    cj_scan_code code;
    cj_dtype t;
    int elem;
    bool integers, reverse;
    const char *x, *y_in, *dy;
    char *y;
    int64_t *index;
    int64_t outer, len, inner;
    int64_t tiles;
    /* a long line */
    int64_t line;
    double *sums;
} scan_job;

/* ---- a line: element k, counted in the order of the scan, lies at first + k·step ------------------------------------------------------------------- */

typedef struct line {
    int64_t first, step;
} line;

static line line_of(const scan_job *j, int64_t i)
{
    const int64_t first = i / j->inner * j->len * j->inner + i % j->inner;
    return j->reverse ? (line){ first + (j->len - 1) * j->inner, -j->inner } : (line){ first, j->inner };
}
/* A block holds doubles or int64_t: 8 bytes either way. */
static void turn_round(void *block, int64_t n)
{
    uint64_t *v = block;
    for (int64_t i = 0, k = n - 1; i < k; i++, k--) {
        const uint64_t w = v[i];
        v[i] = v[k];
        v[k] = w;
    }
}
static void load(cj_dtype t, const char *x, line l, int64_t k, cj_dtype as, void *block, int64_t n)
{
    const int size = cj__elem_size(t);
    const char *from = x + (l.first + k * l.step) * size;
    if (l.step == 1) {
        CJ_K(cj__convert)(t, from, as, block, n);
    } else if (l.step == -1) {
        CJ_K(cj__convert)(t, from - (n - 1) * size, as, block, n);
        turn_round(block, n);
    } else {
        CJ_K(cj__convert_strided)(t, from, l.step, as, block, n);
    }
}
/* The block is used up. */
static void store(cj_dtype t, char *y, line l, int64_t k, cj_dtype as, void *block, int64_t n)
{
    const int size = cj__elem_size(t);
    char *to = y + (l.first + k * l.step) * size;
    uint64_t packed[BLOCK];
    if (l.step == 1) {
        CJ_K(cj__convert)(as, block, t, to, n);
    } else if (l.step == -1) {
        turn_round(block, n);
        CJ_K(cj__convert)(as, block, t, to - (n - 1) * size, n);
    } else {
        CJ_K(cj__convert)(as, block, t, packed, n);
        CJ_K(cj__move_strided)(size, packed, 1, to, l.step, n);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------------------------------- */

static double sum_of(const double *x, int64_t n)
{
    double lane[8] = { 0 };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) lane[k] += x[i + k];
    for (int k = 0; k < 7 && i + k < n; k++) lane[k] += x[i + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Running sums from `base + local` on; returns local + the block's sum. */
static double sum_block(double *v, int64_t n, double base, double local)
{
    if (n < BLOCK) { /* the last one */
        const double all = local + sum_of(v, n);
        double s = base + local;
        for (int64_t i = 0; i < n; i++) v[i] = s += v[i];
        return all;
    }
    double start[5] = { local };
    for (int q = 0; q < 4; q++) start[q + 1] = start[q] + sum_of(v + q * QUARTER, QUARTER);
    double a = base + start[0], b = base + start[1], c = base + start[2], d = base + start[3];
    for (int64_t i = 0; i < QUARTER; i++) {
        v[i] = a += v[i];
        v[i + QUARTER] = b += v[i + QUARTER];
        v[i + 2 * QUARTER] = c += v[i + 2 * QUARTER];
        v[i + 3 * QUARTER] = d += v[i + 3 * QUARTER];
    }
    return start[4];
}
/* The same sum without the running ones. */
static double sum_only(const double *v, int64_t n, double local)
{
    if (n < BLOCK) return local + sum_of(v, n);
    for (int q = 0; q < 4; q++) local += sum_of(v + q * QUARTER, QUARTER);
    return local;
}

static double prod_block(double *v, int64_t n, double p)
{
    for (int64_t i = 0; i < n; i++) v[i] = p *= v[i];
    return p;
}
/* log(e^s + e^x), safe for all. */
static double logsumexp_block(double *v, int64_t n, double s)
{
    for (int64_t i = 0; i < n; i++) {
        const double high = v[i] > s || v[i] != v[i] ? v[i] : s, low = high == s ? v[i] : s;
        v[i] = s = isinf(high) ? high : high + log1p(exp(low - high));
    }
    return s;
}
static int64_t integer_block(cj_scan_code code, int64_t *v, int64_t n, int64_t carry)
{
    uint64_t s = (uint64_t)carry; /* wraps */
    if (code == CJ_SCAN_SUM)
        for (int64_t i = 0; i < n; i++) v[i] = (int64_t)(s += (uint64_t)v[i]);
    else
        for (int64_t i = 0; i < n; i++) v[i] = (int64_t)(s *= (uint64_t)v[i]);
    return (int64_t)s;
}

/* ---- whole lines ------------------------------------------------------------------------------------------------------------------------------------ */

static double scan_chunk(const scan_job *j, line l, int64_t from, int64_t to, double base)
{
    double v[BLOCK], local = 0;
    for (int64_t k = from; k < to; k += BLOCK) {
        const int64_t n = to - k < BLOCK ? to - k : BLOCK;
        load(j->t, j->x, l, k, CJ_F64, v, n);
        local = sum_block(v, n, base, local);
        store(j->t, j->y, l, k, CJ_F64, v, n);
    }
    return local;
}

static void scan_line(const scan_job *j, int64_t i)
{
    const line l = line_of(j, i);
    if (j->integers) {
        int64_t v[BLOCK], carry = j->code == CJ_SCAN_PROD;
        for (int64_t k = 0; k < j->len; k += BLOCK) {
            const int64_t n = j->len - k < BLOCK ? j->len - k : BLOCK;
            load(j->t, j->x, l, k, CJ_I64, v, n);
            carry = integer_block(j->code, v, n, carry);
            store(CJ_I64, j->y, l, k, CJ_I64, v, n);
        }
        return;
    }
    if (j->code == CJ_SCAN_SUM) {
        double base = 0;
        for (int64_t k = 0; k < j->len; k += CHUNK) base += scan_chunk(j, l, k, k + CHUNK < j->len ? k + CHUNK : j->len, base);
        return;
    }
    double v[BLOCK], carry = j->code == CJ_SCAN_PROD ? 1 : -INFINITY;
    for (int64_t k = 0; k < j->len; k += BLOCK) {
        const int64_t n = j->len - k < BLOCK ? j->len - k : BLOCK;
        load(j->t, j->x, l, k, CJ_F64, v, n);
        carry = j->code == CJ_SCAN_PROD ? prod_block(v, n, carry) : logsumexp_block(v, n, carry);
        store(j->t, j->y, l, k, CJ_F64, v, n);
    }
}

/* Extrema: the later of equals, and once NaN, always NaN. */
#define EXTREME(name, type, work, is_nan)                                                                                                  \
    static void name(const scan_job *j, line l)                                                                                            \
    {                                                                                                                                      \
        type v[BLOCK], best = 0;                                                                                                           \
        int64_t where[BLOCK], at = 0;                                                                                                      \
        const int64_t last = j->len - 1;                                                                                                   \
        for (int64_t k = 0; k < j->len; k += BLOCK) {                                                                                      \
            const int64_t n = j->len - k < BLOCK ? j->len - k : BLOCK;                                                                     \
            load(j->t, j->x, l, k, work, v, n);                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                const bool better = j->code == CJ_SCAN_MAX ? v[i] >= best : v[i] <= best;                                                  \
                if (k + i == 0 || better || is_nan(v[i])) best = v[i], at = j->reverse ? last - k - i : k + i;                             \
                v[i] = best;                                                                                                               \
                where[i] = at;                                                                                                             \
            }                                                                                                                              \
            store(j->t, j->y, l, k, work, v, n);                                                                                           \
            store(CJ_I64, (char *)j->index, l, k, CJ_I64, where, n);                                                                       \
        }                                                                                                                                  \
    }
static bool never(int64_t v) { return (void)v, false; }
EXTREME(extreme_f64, double, CJ_F64, isnan)
EXTREME(extreme_i64, int64_t, CJ_I64, never)

static void scan_lines(void *arg, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        if (j->code < CJ_SCAN_MAX) scan_line(j, i);
        else if (j->integers) extreme_i64(j, line_of(j, i));
        else extreme_f64(j, line_of(j, i));
    }
}

/* ---- neighbouring lines side by side: float sums and products ------------------------------------------------------------------------------------------ */

static void scan_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = arg;
    double v[TILE], s[TILE];
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t o = i / j->tiles, c = i % j->tiles * TILE, n = j->inner - c < TILE ? j->inner - c : TILE;
        for (int64_t k = 0; k < n; k++) s[k] = j->code == CJ_SCAN_PROD;
        for (int64_t r = 0; r < j->len; r++) {
            const int64_t at = (o * j->len + (j->reverse ? j->len - 1 - r : r)) * j->inner + c;
            CJ_K(cj__convert)(j->t, j->x + at * j->elem, CJ_F64, v, n);
            if (j->code == CJ_SCAN_PROD)
                for (int64_t k = 0; k < n; k++) s[k] *= v[k];
            else
                for (int64_t k = 0; k < n; k++) s[k] += v[k];
            CJ_K(cj__convert)(CJ_F64, s, j->t, j->y + at * j->elem, n);
        }
    }
}

/* ---- a long line: chunks ---------------------------------------------------------------------------------------------------------------------------------- */

static void sum_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = arg;
    const line l = line_of(j, j->line);
    double v[BLOCK];
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        const int64_t to = (c + 1) * CHUNK < j->len ? (c + 1) * CHUNK : j->len;
        double local = 0;
        for (int64_t k = c * CHUNK; k < to; k += BLOCK) {
            const int64_t n = to - k < BLOCK ? to - k : BLOCK;
            load(j->t, j->x, l, k, CJ_F64, v, n);
            local = sum_only(v, n, local);
        }
        j->sums[c] = local;
    }
}
static void scan_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = arg;
    const line l = line_of(j, j->line);
    (void)worker;
    for (int64_t c = begin; c < end; c++) scan_chunk(j, l, c * CHUNK, (c + 1) * CHUNK < j->len ? (c + 1) * CHUNK : j->len, j->sums[c]);
}

/* false: too few chunks, or too many to keep their sums, or nobody to share them with. */
static bool scan_long(cj_pool *pool, scan_job *j)
{
    enum { MOST = 4096 };
    const int64_t chunks = (j->len + CHUNK - 1) / CHUNK, lines = j->outer * j->inner;
    if (cj__pool_threads(pool) < 2 || lines >= cj__pool_threads(pool) || chunks < 2 || chunks > MOST) return false;
    double sums[MOST];
    j->sums = sums;
    for (j->line = 0; j->line < lines; j->line++) {
        cj__parallel_for(pool, chunks, 1, sum_chunks, j);
        double base = 0;
        for (int64_t c = 0; c < chunks; c++) {
            const double here = sums[c];
            sums[c] = base;
            base += here;
        }
        cj__parallel_for(pool, chunks, 1, scan_chunks, j);
    }
    return true;
}

void CJ_K(cj__scan)(cj_pool *pool, cj_scan_code code, cj_dtype t, const void *x, int64_t outer, int64_t len, int64_t inner, bool reverse,
                    void *y, int64_t *index)
{
    const bool integers = t != CJ_F32 && t != CJ_F64 && t != CJ_BF16 && t != CJ_F16;
    if (outer * len * inner == 0) return;
    scan_job j = { .code = code,
                   .t = t,
                   .elem = cj__elem_size(t),
                   .integers = integers,
                   .reverse = reverse,
                   .x = x,
                   .y = y,
                   .index = index,
                   .outer = outer,
                   .len = len,
                   .inner = inner };
    if (!integers && code <= CJ_SCAN_PROD && inner >= COLUMNS) {
        j.tiles = (inner + TILE - 1) / TILE;
        const int64_t each = len * (inner < TILE ? inner : TILE);
        cj__parallel_for(pool, outer * j.tiles, each < 16384 ? 16384 / each : 1, scan_columns, &j);
        return;
    }
    if (!integers && code == CJ_SCAN_SUM && scan_long(pool, &j)) return;
    cj__parallel_for(pool, outer * inner, len < 16384 ? 16384 / len : 1, scan_lines, &j);
}

/* ---- derivatives ------------------------------------------------------------------------------------------------------------------------------------------
 * Products, y_k = x_0 … x_k:        dx_k = y_(k-1) · r_k,        r_k = dy_k + x_(k+1) · r_(k+1)
 * log-sums, y_k = log sum e^x:      dx_k = e^(x_k - y_k) · r_k,  r_k = dy_k + e^(y_k - y_(k+1)) · r_(k+1): both exponents are at most 0 */

static double factor(double a, double b) { return b == -INFINITY ? 0 : exp(a - b); }

static void bwd_lines(void *arg, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = arg;
    double x[BLOCK], y[BLOCK], g[BLOCK];
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const line l = line_of(j, i);
        double r = 0, next = 0; /* x_(k+1) or y_(k+1) */
        for (int64_t to = j->len; to > 0;) {
            const int64_t from = to > BLOCK ? to - BLOCK : 0, n = to - from;
            load(j->t, j->x, l, from, CJ_F64, x, n);
            load(j->t, j->dy, l, from, CJ_F64, g, n);
            if (j->code == CJ_SCAN_PROD) { /* y one place earlier */
                y[0] = 1;
                if (from) load(j->t, j->y_in, l, from - 1, CJ_F64, y, n);
                else if (n > 1) load(j->t, j->y_in, l, 0, CJ_F64, y + 1, n - 1);
                for (int64_t k = n - 1; k >= 0; k--) {
                    r = g[k] + next * r;
                    next = x[k];
                    g[k] = y[k] * r;
                }
            } else {
                load(j->t, j->y_in, l, from, CJ_F64, y, n);
                for (int64_t k = n - 1; k >= 0; k--) {
                    r = g[k] + (from + k == j->len - 1 ? 0 : factor(y[k], next) * r);
                    next = y[k];
                    g[k] = factor(x[k], y[k]) * r;
                }
            }
            store(j->t, j->y, l, from, CJ_F64, g, n);
            to = from;
        }
    }
}

void CJ_K(cj__scan_bwd)(cj_pool *pool, cj_scan_code code, cj_dtype t, const void *x, const void *y, const void *dy, int64_t outer,
                        int64_t len, int64_t inner, void *dx)
{
    scan_job j = { .code = code, .t = t, .x = x, .y_in = y, .dy = dy, .y = dx, .outer = outer, .len = len, .inner = inner };
    if (outer * len * inner > 0) cj__parallel_for(pool, outer * inner, len < 8192 ? 8192 / len : 1, bwd_lines, &j);
}
