/* Products of at most 16 x 16 elements and k <= 32, for instruction sets with masks: no setup, no table, one function per layout.  Those of a plain A
 * and B also serve any number of rows while n <= 16 and k is short.
 *
 * At this size the loads set the pace.  Where several rows of C share a vector, four elements of A are fetched at once, repeated in every 128-bit lane,
 * and spread by permutations, which run beside the loads:
 *
 *   pairs    up to 8 columns: two rows of C share a vector
 *   fours    dense 4 x 4 blocks: four rows of C are a vector
 *   quads    up to 16 columns: a row of C per vector, four steps of k at a time
 *   upright  A transposed and up to 4 columns: vectors run along the rows of C, which are turned at the end
 *   dots     one column, or up to 4 and B transposed: vectors run along k
 *   rows     any other strides
 */
#ifndef CJ_KERNELS_CPU_GEMM_TINY_H
#define CJ_KERNELS_CPU_GEMM_TINY_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_tile.h"

enum { TINY_ROWS = 16, TINY_K = 32 };

#if GEMM_MASKS_ARE_FREE

/* Four floats in each 128-bit lane, and element e of the four everywhere. */
GEMM_INLINE vf load_quad(const float *p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
#define SPREAD(x, e) _mm512_permute_ps(x, (e)*0x55)

/* The layouts are functions of their own, entered by jumps: what one of them saves on the stack, the others need not. */
#define TINY_LAYOUT static __attribute__((noinline)) void

GEMM_INLINE int tiny_is_plain(const cj_gemm *g) { return !g->accumulate && !g->bias && g->act == CJ_GEMM_LINEAR; }

/* C += , bias and activation for a row of C in a vector. */
GEMM_INLINE vf tiny_finish(const cj_gemm *g, vf y, const float *c, vmask columns)
{
    if (g->accumulate) y = vadd(vload_first(c, columns), y);
    if (g->bias) y = vadd(y, vload_first(g->bias, columns));
    return g->act == CJ_GEMM_RELU ? vrelu(y) : y;
}

GEMM_INLINE void tiny_store(const cj_gemm *g, vf y, float *c, vmask columns, int plain)
{
    if (!plain) y = tiny_finish(g, y, c, columns);
    vstore_first(c, y, columns);
}

/* R rows, any strides of A. */
GEMM_INLINE void tiny_rows(const cj_gemm *g, const float *b, int64_t b_row, vmask columns, int64_t i, const int R)
{
    const float *a = (const float *)g->a + i * g->a_row;
    const int64_t a_row = g->a_row, a_col = g->a_col;
    vf acc[8];
    UNROLL for (int r = 0; r < R; r++) acc[r] = vzero();
    for (int64_t p = g->k; p > 0; p--, a += a_col, b += b_row) {
        const vf x = vload_first(b, columns);
        UNROLL for (int r = 0; r < R; r++) acc[r] = vfma(vset1(a[r * a_row]), x, acc[r]);
    }
    const int plain = tiny_is_plain(g);
    float *c = (float *)g->c + i * g->c_row;
    UNROLL for (int r = 0; r < R; r++, c += g->c_row) tiny_store(g, acc[r], c, columns, plain);
}

/* R rows of a plain A.  whole: B has all 16 columns, and its loads need no mask, which takes a turn of a multiply-add unit on some machines. */
GEMM_INLINE void tiny_quads(const cj_gemm *g, const float *b, int64_t b_row, vmask columns, int64_t i, const int R, const int whole)
{
    const float *a = (const float *)g->a + i * g->a_row, *a4 = a + (R > 4 ? 4 * g->a_row : 0);
    int64_t row1 = g->a_row, row2 = 2 * row1, row3 = 3 * row1;
    __asm__("" : "+r"(row1), "+r"(row2), "+r"(row3), "+r"(a4)); /* as in gemm_tile.h: two pointers instead of eight */
#define QUAD_AT(r, q) ((r) < 4 ? a : a4)[(q) + ((r) % 4 == 0 ? 0 : (r) % 4 == 1 ? row1 : (r) % 4 == 2 ? row2 : row3)]
    vf acc[8];
    UNROLL for (int r = 0; r < R; r++) acc[r] = vzero();
    int64_t p = g->k;
    for (; p >= 4; p -= 4, a += 4, a4 += 4) {
        UNROLL for (int q = 0; q < 4; q++, b += b_row)
        {
            vf x = whole ? vload(b) : vload_first(b, columns);
            VKEEP(x);
            UNROLL for (int r = 0; r < R; r++) acc[r] = vfma(vset1(QUAD_AT(r, q)), x, acc[r]);
        }
    }
    for (; p > 0; p--, a++, a4++, b += b_row) {
        const vf x = vload_first(b, columns);
        UNROLL for (int r = 0; r < R; r++) acc[r] = vfma(vset1(QUAD_AT(r, 0)), x, acc[r]);
    }
#undef QUAD_AT
    const int plain = tiny_is_plain(g);
    float *c = (float *)g->c + i * g->c_row;
    UNROLL for (int r = 0; r < R; r++, c += g->c_row) tiny_store(g, acc[r], c, columns, plain);
}

/* Sixteen rows of a plain A and all 16 columns: sixteen sums never wait for each other, as eight do. */
GEMM_INLINE void tiny_sixteen(const cj_gemm *g, const float *b, int64_t b_row, int64_t i)
{
    const float *a0 = (const float *)g->a + i * g->a_row;
    const float *a[4] = { a0, a0 + 4 * g->a_row, a0 + 8 * g->a_row, a0 + 12 * g->a_row };
    int64_t row1 = g->a_row, row2 = 2 * row1, row3 = 3 * row1;
    __asm__("" : "+r"(row1), "+r"(row2), "+r"(row3)); /* as in tiny_quads */
    vf acc[TINY_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < TINY_ROWS; r++) acc[r] = vzero();
    for (int64_t p = 0; p < g->k; p++, b += b_row) {
        vf x = vload(b);
        VKEEP(x);
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            acc[4 * q] = vfma(vset1(a[q][p]), x, acc[4 * q]);
            acc[4 * q + 1] = vfma(vset1(a[q][p + row1]), x, acc[4 * q + 1]);
            acc[4 * q + 2] = vfma(vset1(a[q][p + row2]), x, acc[4 * q + 2]);
            acc[4 * q + 3] = vfma(vset1(a[q][p + row3]), x, acc[4 * q + 3]);
        }
    }
    float *c = (float *)g->c + i * g->c_row;
    const int plain = tiny_is_plain(g);
#pragma GCC unroll 16
    for (int r = 0; r < TINY_ROWS; r++, c += g->c_row) {
        if (plain) vstore(c, acc[r]);
        else tiny_store(g, acc[r], c, 0xffff, 0);
    }
}

/* Row i in the lower half of a vector, row i + 1 in the upper. */
GEMM_INLINE vf both(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
GEMM_INLINE vf twice(const float *b, __mmask8 columns, const int all_eight)
{
    if (all_eight) return _mm512_broadcast_f32x8(_mm256_loadu_ps(b)); /* a load, without a permutation */
    const __m256 x = _mm256_maskz_loadu_ps(columns, b);
    return both(x, x);
}

/* 2R rows of a plain A and at most 8 columns. */
GEMM_INLINE void tiny_pairs(const cj_gemm *g, const float *b, int64_t b_row, __mmask8 columns, int64_t i, const int R, const int all_eight)
{
    const float *a = (const float *)g->a + i * g->a_row;
    const int64_t a_row = g->a_row;
    vf acc[4];
    UNROLL for (int r = 0; r < R; r++) acc[r] = vzero();
    int64_t p = g->k;
    for (; p >= 4; p -= 4, a += 4, b += 4 * b_row) {
        const vf x0 = twice(b, columns, all_eight), x1 = twice(b + b_row, columns, all_eight),
                 x2 = twice(b + 2 * b_row, columns, all_eight), x3 = twice(b + 3 * b_row, columns, all_eight);
        UNROLL for (int r = 0; r < R; r++)
        {
            const float *q = a + 2 * r * a_row;
            const vf four = _mm512_mask_broadcast_f32x4(load_quad(q), 0xff00, _mm_loadu_ps(q + a_row));
            acc[r] = vfma(SPREAD(four, 0), x0, acc[r]);
            acc[r] = vfma(SPREAD(four, 1), x1, acc[r]);
            acc[r] = vfma(SPREAD(four, 2), x2, acc[r]);
            acc[r] = vfma(SPREAD(four, 3), x3, acc[r]);
        }
    }
    for (; p > 0; p--, a++, b += b_row) {
        const vf x = twice(b, columns, all_eight);
        UNROLL for (int r = 0; r < R; r++)
        {
            const float *q = a + 2 * r * a_row;
            acc[r] = vfma(both(_mm256_set1_ps(q[0]), _mm256_set1_ps(q[a_row])), x, acc[r]);
        }
    }
    const int plain = tiny_is_plain(g);
    float *c = (float *)g->c + i * g->c_row;
    if (all_eight && plain && g->c_row == 8) {
        UNROLL for (int r = 0; r < R; r++) vstore(c + r * VL, acc[r]);
        return;
    }
    UNROLL for (int r = 0; r < R; r++, c += 2 * g->c_row)
    {
        tiny_store(g, acc[r], c, columns, plain);
        tiny_store(g, _mm512_castps256_ps512(_mm512_extractf32x8_ps(acc[r], 1)), c + g->c_row, columns, plain);
    }
}

/* A transposed, n <= 4: lane i of acc[j] is C[i,j]. */
static __attribute__((noinline)) void tiny_upright(const cj_gemm *g)
{
    const float *a = g->a, *b = g->b;
    const int64_t a_col = g->a_col, b_row = g->b_row;
    const vmask rows = vfirst((int)g->m);
    /* columns beyond n repeat the last one */
    const int64_t j1 = g->n > 1 ? g->b_col : 0, j2 = g->n > 2 ? 2 * g->b_col : j1, j3 = g->n > 3 ? 3 * g->b_col : j2;
    vf y0 = vzero(), y1 = y0, y2 = y0, y3 = y0;
    for (int64_t p = g->k; p > 0; p--, a += a_col, b += b_row) {
        const vf x = vload_first(a, rows);
        y0 = vfma(vset1(b[0]), x, y0);
        y1 = vfma(vset1(b[j1]), x, y1);
        if (g->n <= 2) continue;
        y2 = vfma(vset1(b[j2]), x, y2);
        y3 = vfma(vset1(b[j3]), x, y3);
    }
    float *c = g->c;
    const int plain = tiny_is_plain(g);
    if (plain && g->n == 2 && g->c_row == 2) {
        const vf low = vzip_low(y0, y1), high = vzip_high(y0, y1);
        vstore_first(c, low, g->m >= 8 ? 0xffff : vfirst((int)(2 * g->m)));
        if (g->m > 8) vstore_first(c + VL, high, vfirst((int)(2 * (g->m - 8))));
        return;
    }
    float turned[4 * VL] __attribute__((aligned(64)));
    const vf even[2] = { vzip_low(y0, y2), vzip_high(y0, y2) }, odd[2] = { vzip_low(y1, y3), vzip_high(y1, y3) };
    UNROLL for (int half = 0; half < 2; half++)
    {
        vstore(turned + half * 32, vzip_low(even[half], odd[half]));
        vstore(turned + half * 32 + 16, vzip_high(even[half], odd[half]));
    }
    const vmask columns = vfirst((int)g->n);
    for (int64_t i = 0; i < g->m; i++, c += g->c_row) tiny_store(g, vload_first(turned + 4 * i, columns), c, columns, plain);
}

/* Column j, A and B contiguous along k: four rows at a time. */
GEMM_INLINE void tiny_column(const cj_gemm *g, int64_t j)
{
    const float *b = (const float *)g->b + j * g->b_col;
    const int64_t k0 = g->k < VL ? g->k : VL, k1 = g->k - k0;
    const vmask first = vfirst((int)k0), second = k1 > 0 ? vfirst((int)k1) : 0;
    const vf b0 = vload_first(b, first), b1 = vload_first(b + VL, second);
    const int plain = tiny_is_plain(g);
    for (int64_t i = 0; i < g->m; i += 4) {
        const int64_t rows = g->m - i < 4 ? g->m - i : 4;
        vf x[4];
        UNROLL for (int r = 0; r < 4; r++)
        {
            const float *a = (const float *)g->a + (i + (r < rows ? r : 0)) * g->a_row;
            x[r] = vfma(vload_first(a, first), b0, vzero());
            if (k1 > 0) x[r] = vfma(vload_first(a + VL, second), b1, x[r]);
        }
        /* lane l of each 128 bits: a quarter of the sum of row l */
        const vf x01 = vadd(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
        const vf x23 = vadd(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
        const vf four = vadd(_mm512_shuffle_ps(x01, x23, 0x44), _mm512_shuffle_ps(x01, x23, 0xee));
        const __m256 two = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps(four, 1));
        const __m128 sum = _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1));
        float *c = (float *)g->c + i * g->c_row + j;
        if (plain && g->c_row == 1) {
            _mm_mask_storeu_ps(c, (__mmask8)vfirst((int)rows), sum);
            continue;
        }
        float y[4];
        _mm_storeu_ps(y, sum);
        for (int64_t r = 0; r < rows; r++, c += g->c_row) {
            if (g->accumulate) y[r] = *c + y[r];
            if (g->bias) y[r] += ((const float *)g->bias)[j];
            *c = g->act == CJ_GEMM_RELU && y[r] < 0 ? 0 : y[r];
        }
    }
}

static __attribute__((noinline)) void tiny_dots(const cj_gemm *g)
{
    for (int64_t j = 0; j < g->n; j++) tiny_column(g, j);
}

TINY_LAYOUT tiny_all_rows(const cj_gemm *g, const float *b, int64_t b_row)
{
    const vmask columns = vfirst((int)g->n);
    int64_t i = 0;
    for (; i + 8 <= g->m; i += 8) tiny_rows(g, b, b_row, columns, i, 8);
    if (i + 4 <= g->m) tiny_rows(g, b, b_row, columns, i, 4), i += 4;
    for (; i < g->m; i++) tiny_rows(g, b, b_row, columns, i, 1);
}

TINY_LAYOUT tiny_all_quads(const cj_gemm *g, const float *b, int64_t b_row)
{
    const vmask columns = vfirst((int)g->n);
    int64_t i = 0;
    if (g->n == VL)
        for (; i + 8 <= g->m; i += 8) tiny_quads(g, b, b_row, columns, i, 8, 1);
    for (; i + 8 <= g->m; i += 8) tiny_quads(g, b, b_row, columns, i, 8, 0);
    if (i + 4 <= g->m) tiny_quads(g, b, b_row, columns, i, 4, 0), i += 4;
    for (; i < g->m; i++) tiny_quads(g, b, b_row, columns, i, 1, 0);
}

TINY_LAYOUT tiny_all_sixteens(const cj_gemm *g, const float *b, int64_t b_row)
{
    int64_t i = 0;
    for (; i + TINY_ROWS <= g->m; i += TINY_ROWS) tiny_sixteen(g, b, b_row, i);
    if (i == g->m) return;
    cj_gemm rest = *g;
    rest.m -= i, rest.a = (const float *)g->a + i * g->a_row, rest.c = (float *)g->c + i * g->c_row;
    tiny_all_quads(&rest, b, b_row);
}

GEMM_INLINE void tiny_pairs_of(const cj_gemm *g, const float *b, int64_t b_row, const int all_eight)
{
    const vmask columns = vfirst((int)g->n);
    int64_t i = 0;
    for (; i + 8 <= g->m; i += 8) tiny_pairs(g, b, b_row, (__mmask8)columns, i, 4, all_eight);
    if (i + 4 <= g->m) tiny_pairs(g, b, b_row, (__mmask8)columns, i, 2, all_eight), i += 4;
    if (i + 2 <= g->m) tiny_pairs(g, b, b_row, (__mmask8)columns, i, 1, all_eight), i += 2;
    for (; i < g->m; i++) tiny_quads(g, b, b_row, columns, i, 1, 0);
}

TINY_LAYOUT tiny_all_pairs(const cj_gemm *g, const float *b, int64_t b_row) { tiny_pairs_of(g, b, b_row, 0); }
TINY_LAYOUT tiny_all_eights(const cj_gemm *g, const float *b, int64_t b_row) { tiny_pairs_of(g, b, b_row, 1); }

/* Dense matrices with 4 columns and k = 4: four rows of A, and of C, are one vector. */
GEMM_INLINE int is_fours(const cj_gemm *g, int64_t b_row)
{
    return g->n == 4 && ((g->k ^ 4) | (g->a_row ^ 4) | (b_row ^ 4) | (g->c_row ^ 4)) == 0 && tiny_is_plain(g);
}

TINY_LAYOUT tiny_fours(const cj_gemm *g, const float *b)
{
    const vf b0 = load_quad(b), b1 = load_quad(b + 4), b2 = load_quad(b + 8), b3 = load_quad(b + 12);
    const float *a = g->a;
    float *c = g->c;
    for (int64_t left = 4 * g->m; left > 0; left -= VL, a += VL, c += VL) {
        const vmask lanes = left < VL ? vfirst((int)left) : 0xffff;
        const vf x = vload_first(a, lanes);
        vf y = vfma(SPREAD(x, 0), b0, vzero());
        y = vfma(SPREAD(x, 1), b1, y);
        y = vfma(SPREAD(x, 2), b2, y);
        y = vfma(SPREAD(x, 3), b3, y);
        vstore_first(c, y, lanes);
    }
}

GEMM_INLINE void tiny_by_rows(const cj_gemm *g, const float *b, int64_t b_row)
{
    if (g->a_col != 1) tiny_all_rows(g, b, b_row);
    else if (g->n == VL && g->m >= TINY_ROWS) tiny_all_sixteens(g, b, b_row);
    else if (g->n > 8) tiny_all_quads(g, b, b_row);
    else if (g->n == 8) tiny_all_eights(g, b, b_row);
    else if (is_fours(g, b_row)) tiny_fours(g, b);
    else tiny_all_pairs(g, b, b_row);
}

/* B transposed, or stranger. */
TINY_LAYOUT tiny_turned(const cj_gemm *g)
{
    float turned[VL * TINY_K];
    const float *b = g->b;
    for (int64_t p = 0; p < g->k; p++)
        for (int64_t j = 0; j < g->n; j++) turned[p * VL + j] = b[p * g->b_row + j * g->b_col];
    tiny_by_rows(g, turned, VL);
}

GEMM_INLINE int is_tiny(const cj_gemm *g) { return g->n <= VL && g->m <= TINY_ROWS && g->k <= TINY_K && g->batch == 1; }

GEMM_INLINE void tiny_layout(const cj_gemm *g)
{
    if ((g->n == 1 || (g->n <= 4 && g->b_col != 1)) && g->a_col == 1 && g->b_row == 1 && g->k > 0) tiny_dots(g);
    else if (g->a_row == 1 && g->a_col != 1 && g->n <= 4 && g->m > 4) tiny_upright(g);
    else if (g->b_col != 1 && g->n > 1) tiny_turned(g);
    else tiny_by_rows(g, g->b, g->b_row);
}

TINY_LAYOUT tiny_with_tail(const cj_gemm *g)
{
    tiny_layout(g);
    g->tail(g->tail_arg, 0, 0, g->m, 0, g->n);
}

GEMM_INLINE void gemm_tiny(const cj_gemm *g)
{
    if (g->tail) tiny_with_tail(g);
    else tiny_layout(g);
}

/* Rows [begin, end) of a product of a plain A and B with up to 16 columns. */
static void narrow_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    cj_gemm g = *(const cj_gemm *)arg;
    (void)worker;
    g.m = end - begin;
    g.a = (const float *)g.a + begin * g.a_row, g.c = (float *)g.c + begin * g.c_row;
    tiny_by_rows(&g, g.b, g.b_row);
    if (g.tail) g.tail(g.tail_arg, 0, begin, end, 0, g.n);
}
#else
GEMM_INLINE int is_tiny(const cj_gemm *g) { return (void)g, 0; }
GEMM_INLINE void gemm_tiny(const cj_gemm *g) { (void)g; }
static void narrow_rows(void *arg, int64_t begin, int64_t end, int worker) { (void)arg, (void)begin, (void)end, (void)worker; }
#endif

#endif
