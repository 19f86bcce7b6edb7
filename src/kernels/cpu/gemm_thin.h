/* Products with few rows, where every element of the matrix is used once or a few times and reading it is the whole cost.
 *
 *   dots  y[i,j] = x[i,:] . w[j,:]      w has contiguous rows (B transposed, or A when B is one column): vectors run along k, and VL sums at a time
 *                                       are folded into one vector at the end; one row of x reads the rows of w one after another, or four at a time
 *   sweep y[i,j] = sum_p x[i,p] w[p,j]  up to four rows times row-major B (or a transposed A times one column): y stays in L1 while w streams by,
 *                                       eight rows at a time (one row of x: sixteen where w is near), in long runs, as the hardware prefetcher likes it
 *   row   y[j] = sum_p x[p] w[p,j]      one row times row-major B that is near, or whose rows are short: y in registers over all of k
 *
 * All sum in an order that depends on k alone.
 */
#ifndef CJ_KERNELS_CPU_GEMM_THIN_H
#define CJ_KERNELS_CPU_GEMM_THIN_H

#include "kernels/cpu/gemm_simd.h"
#include "kernels/cpu/gemm_sizes.h"

enum {
    THIN_LINE = 16,                                 /* floats in a cache line */
    DOTS_BLOCK = GEMM_REGISTERS == 32 ? 6 : 4,      /* rows of x of a block of dot products, ... */
    DOTS_SUMS = GEMM_REGISTERS == 32 ? 2 * VL : VL, /* ... and sums, of which two thirds are used with the most rows */
    DOTS_RUN = 1024,                                /* floats of a row that dot products read at a time: a page */
    DOTS_CHAINED = 192,                             /* from this k, up to ... */
    DOTS_LONG = 4096,                               /* ... this one and with ... */
    DOTS_FAR = 1 << 15,                             /* ... such a matrix, the dot products with one row have ... */
    DOTS_CHAINS = 4,                                /* ... so many chains of sums, */
    DOTS_STREAMS = GEMM_REGISTERS == 32 ? 4 : 2,    /* rows of w at a time, ... */
    DOTS_AHEAD = 2048,                              /* ... and fetch what lies so many floats ahead */
    ROW_VECTORS = GEMM_REGISTERS == 32 ? 28 : 12,   /* vectors of a row that are summed in registers over all of k; of a longer one ... */
    ROW_BLOCK = GEMM_REGISTERS / 2                  /* ... so many at a time */
};

/* The strides of y also serve a column of C (one column, y_row = 0 used by nobody). */
typedef struct thin {
    int64_t rows, columns, k; /* of y, and the length of the sums */
    const float *x;
    int64_t x_row, x_col; /* dots: x_col = 1 */
    const float *w;
    int64_t w_row; /* dots: from one column of y to the next; sweep: from p to p+1; the other stride is 1 */
    float *y;
    int64_t y_row, y_col; /* sweep: y_col = 1 */
    const float *bias;
    int64_t bias_row, bias_col;
    int add, relu;
    int near; /* sweep: w fits in the second-level cache */
} thin;

GEMM_INLINE float thin_finish(const thin *t, float sum, int64_t i, int64_t j)
{
    float *y = t->y + i * t->y_row + j * t->y_col;
    if (t->add) sum = *y + sum;
    if (t->bias) sum += t->bias[i * t->bias_row + j * t->bias_col];
    if (t->relu && sum < 0) sum = 0;
    return *y = sum;
}

/* Sums of lanes that are `half` apart: those of a where bit `half` of the lane's number is clear, those of b where it is set. */
GEMM_INLINE vf fold_pair(vf a, vf b, const int half)
{
#if defined CJ_ISA_AVX512 /* a permutation and a blend, which has more ports to run on */
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), bit = _mm512_set1_epi32(half);
    const vmask from_b = _mm512_test_epi32_mask(lane, bit);
    const __m512i other = _mm512_mask_or_epi32(_mm512_xor_si512(lane, bit), from_b, _mm512_xor_si512(lane, bit), _mm512_set1_epi32(VL));
    return vadd(_mm512_mask_blend_ps(from_b, a, b), _mm512_permutex2var_ps(a, other, b));
#else
    (void)half; /* zipping puts the lanes where they belong after the last round */
    return vadd(vzip_low(a, b), vzip_high(a, b));
#endif
}

/* Lane l of the result is the sum of the lanes of x[l]. */
GEMM_INLINE vf fold(vf x[VL])
{
#pragma GCC unroll 4
    for (int half = VL / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) x[i] = fold_pair(x[i], x[i + half], half);
    }
    return x[0];
}

/* R rows of x by S rows of w; sums of k products each.  R, S and across are constants at every call, R * S <= DOTS_SUMS.  across: y_row = 1, and the sums for
 * one row of w are neighbours. */
GEMM_INLINE void dots_block(const thin *t, const int R, const int S, const int across, int64_t i0, int64_t j0)
{
    const int up = across ? 1 : S, right = across ? R : 1; /* the sum of rows r and s is number r * up + s * right */
    const float *x = t->x + i0 * t->x_row, *w = t->w + j0 * t->w_row;
    int64_t x_row = t->x_row, w_row = t->w_row;
    vf acc[DOTS_SUMS];
#pragma GCC unroll 32
    for (int l = 0; l < DOTS_SUMS; l++) acc[l] = vzero();
    const int64_t whole = t->k - t->k % VL;
    for (int64_t p = 0; p < whole; p += VL) {
        vf xs[DOTS_BLOCK];
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) xs[r] = vload(x + r * x_row + p);
#pragma GCC unroll 16
        for (int s = 0; s < S; s++) {
            vf ws = vload(w + s * w_row + p);
            if (R > 1) VKEEP(ws);
#pragma GCC unroll 6
            for (int r = 0; r < R; r++) acc[r * up + s * right] = vfma(xs[r], ws, acc[r * up + s * right]);
        }
    }
    if (whole < t->k) {
        const int lanes = (int)(t->k - whole);
        vf xs[DOTS_BLOCK];
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) xs[r] = vload_some(x + r * x_row + whole, lanes);
#pragma GCC unroll 16
        for (int s = 0; s < S; s++) {
            const vf ws = vload_some(w + s * w_row + whole, lanes);
#pragma GCC unroll 6
            for (int r = 0; r < R; r++) acc[r * up + s * right] = vfma(xs[r], ws, acc[r * up + s * right]);
        }
    }
    float sums[DOTS_SUMS];
#pragma GCC unroll 2
    for (int l = 0; l < R * S; l += VL) {
        vf part[VL]; /* a copy, for an array that is folded from its middle would not stay in registers */
#pragma GCC unroll 16
        for (int q = 0; q < VL; q++) part[q] = acc[l + q];
        vstore(sums + l, fold(part));
    }
    if (!t->add && !t->bias && !t->relu && (across || t->y_col == 1)) {
        const int runs = across ? S : R, length = across ? R : S;
        float *y = t->y + i0 * t->y_row + j0 * t->y_col;
        for (int q = 0; q < runs; q++) memcpy(y + q * (across ? t->y_col : t->y_row), sums + q * length, (size_t)length * sizeof(float));
        return;
    }
    for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++) thin_finish(t, sums[r * up + s * right], i0 + r, j0 + s);
}

/* The sums of `count` columns of y, up to VL of them, one in the lanes of each vector. */
GEMM_INLINE void dots_row_finish(const thin *t, vf acc[VL], int64_t j0, int count)
{
    const vf y = fold(acc);
    if (!t->add && !t->bias && !t->relu && t->y_col == 1) {
        vstore_some(t->y + j0, y, count);
        return;
    }
    float sums[VL];
    vstore(sums, y);
    for (int s = 0; s < count; s++) thin_finish(t, sums[s], 0, j0 + s);
}

/* One row of x by VL rows of w, four of them at a time: fewer streams than VL suit the prefetcher better.  Rows that do not begin on a cache line have every
 * load cross one; `ahead` fetches their lines first.  A constant at every call. */
GEMM_INLINE void dots_row(const thin *t, const int ahead, int64_t j0)
{
    enum { STREAMS = 4, AHEAD = 64 };
    const int64_t w_row = t->w_row, whole = t->k - t->k % VL;
    const int lanes = (int)(t->k - whole);
    vf acc[VL];
#pragma GCC unroll 4
    for (int g = 0; g < VL; g += STREAMS) {
        const float *w = t->w + (j0 + g) * w_row;
#pragma GCC unroll 4
        for (int s = 0; s < STREAMS; s++) acc[g + s] = vzero();
        for (int64_t p = 0; p < whole; p += VL) {
            const vf x = vload(t->x + p);
#pragma GCC unroll 4
            for (int s = 0; s < STREAMS; s++) {
                if (ahead) __builtin_prefetch(w + s * w_row + p + AHEAD);
                acc[g + s] = vfma(x, vload(w + s * w_row + p), acc[g + s]);
            }
        }
        if (lanes == 0) continue;
        const vf x = vload_some(t->x + whole, lanes);
#pragma GCC unroll 4
        for (int s = 0; s < STREAMS; s++) acc[g + s] = vfma(x, vload_some(w + s * w_row + whole, lanes), acc[g + s]);
    }
    dots_row_finish(t, acc, j0, VL);
}
/* The same where rows are long: a page of each at a time, so that no more of x than that has to stay in L1 beside the streams. */
static __attribute__((noinline)) void dots_row_long(const thin *t, int64_t j0)
{
    enum { STREAMS = 4 };
    const int64_t w_row = t->w_row, whole = t->k - t->k % VL;
    const int lanes = (int)(t->k - whole);
    vf acc[VL];
#pragma GCC unroll 16
    for (int s = 0; s < VL; s++) acc[s] = vzero();
    for (int64_t p0 = 0; p0 < whole; p0 += DOTS_RUN) {
        const int64_t p1 = p0 + DOTS_RUN < whole ? p0 + DOTS_RUN : whole;
#pragma GCC unroll 4
        for (int g = 0; g < VL; g += STREAMS) {
            const float *w = t->w + (j0 + g) * w_row;
            for (int64_t p = p0; p < p1; p += VL) {
                const vf x = vload(t->x + p);
#pragma GCC unroll 4
                for (int s = 0; s < STREAMS; s++) acc[g + s] = vfma(x, vload(w + s * w_row + p), acc[g + s]);
            }
        }
    }
    if (lanes > 0) {
        const vf x = vload_some(t->x + whole, lanes);
#pragma GCC unroll 16
        for (int s = 0; s < VL; s++) acc[s] = vfma(x, vload_some(t->w + (j0 + s) * w_row + whole, lanes), acc[s]);
    }
    dots_row_finish(t, acc, j0, VL);
}
static __attribute__((noinline)) void dots_row_even(const thin *t, int64_t j) { dots_row(t, 0, j); }
static __attribute__((noinline)) void dots_row_uneven(const thin *t, int64_t j) { dots_row(t, 1, j); }

/* The sums of k products of x with each of S rows of w, lane by lane: vector q of them goes to chain q % DOTS_CHAINS, what is left of one to the last.  One row at a time is one
 * stream of memory, to which Zen 5 gives 5 to 15 % more, and Intel's processors a third less than to four.  S and ragged (is anything left?) are constants at every call. */
GEMM_INLINE void dots_run(const float *x, const float *w, int64_t w_row, const int S, const int ragged, int64_t k, vf *sum)
{
    vf acc[DOTS_STREAMS][DOTS_CHAINS];
#pragma GCC unroll 4
    for (int s = 0; s < S; s++) {
#pragma GCC unroll 4
        for (int h = 0; h < DOTS_CHAINS; h++) acc[s][h] = vzero();
    }
    int64_t p = 0;
    for (; p + DOTS_CHAINS * VL <= k; p += DOTS_CHAINS * VL) {
#pragma GCC unroll 4
        for (int h = 0; h < DOTS_CHAINS; h++) {
            const vf xs = vload(x + p + h * VL);
#pragma GCC unroll 4
            for (int s = 0; s < S; s++) {
                if (S == 1) __builtin_prefetch(w + p + h * VL + DOTS_AHEAD);
                acc[s][h] = vfma(xs, vload(w + s * w_row + p + h * VL), acc[s][h]);
            }
        }
    }
#pragma GCC unroll 3
    for (int h = 0; ragged && h < DOTS_CHAINS - 1; h++) {
        if (p + VL > k) break;
        const vf xs = vload(x + p);
#pragma GCC unroll 4
        for (int s = 0; s < S; s++) acc[s][h] = vfma(xs, vload(w + s * w_row + p), acc[s][h]);
        p += VL;
    }
    if (ragged && p < k) {
        const int lanes = (int)(k - p), last = DOTS_CHAINS - 1;
        const vf xs = vload_some(x + p, lanes);
#pragma GCC unroll 4
        for (int s = 0; s < S; s++) acc[s][last] = vfma(xs, vload_some(w + s * w_row + p, lanes), acc[s][last]);
    }
#pragma GCC unroll 4
    for (int s = 0; s < S; s++) sum[s] = vadd(vadd(acc[s][0], acc[s][1]), vadd(acc[s][2], acc[s][3]));
}

/* One row of x by the rows of w, S of them at a time, for columns [j0, j1) of y. */
GEMM_INLINE void dots_row_chained(const thin *t, const int S, const int ragged, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j += VL) {
        const int count = j + VL <= j1 ? VL : (int)(j1 - j);
        vf acc[VL];
        if (count < VL)
            for (int s = 0; s < VL; s++) acc[s] = vzero();
        int s = 0;
        for (; s + S <= count; s += S) dots_run(t->x, t->w + (j + s) * t->w_row, t->w_row, S, ragged, t->k, acc + s);
        for (; s < count; s++) dots_run(t->x, t->w + (j + s) * t->w_row, t->w_row, 1, 1, t->k, acc + s);
        dots_row_finish(t, acc, j, count);
    }
}
static __attribute__((noinline)) void dots_row_whole(const thin *t, int64_t j0, int64_t j1) { dots_row_chained(t, 1, 0, j0, j1); }
static __attribute__((noinline)) void dots_row_ragged(const thin *t, int64_t j0, int64_t j1) { dots_row_chained(t, 1, 1, j0, j1); }
static __attribute__((noinline)) void dots_rows(const thin *t, int64_t j0, int64_t j1) { dots_row_chained(t, DOTS_STREAMS, 1, j0, j1); }

GEMM_INLINE int is_chained(const thin *t)
{
    return t->rows == 1 && t->k >= DOTS_CHAINED && t->k <= DOTS_LONG && t->columns * t->k >= DOTS_FAR;
}

/* One element, for the columns left over: the same order of summation as a block, so that it does not matter which one computes it. */
static void dots_one(const thin *t, int64_t i, int64_t j)
{
    const float *x = t->x + i * t->x_row, *w = t->w + j * t->w_row;
    const int64_t whole = t->k - t->k % VL;
    vf acc = vzero();
    for (int64_t p = 0; p < whole; p += VL) acc = vfma(vload(x + p), vload(w + p), acc);
    if (whole < t->k) acc = vfma(vload_some(x + whole, (int)(t->k - whole)), vload_some(w + whole, (int)(t->k - whole)), acc);
    float sums[VL];
    vstore(sums, acc);
    for (int half = VL / 2; half > 0; half /= 2) /* as fold does */
        for (int l = 0; l < half; l++) sums[l] += sums[l + half];
    thin_finish(t, sums[0], i, j);
}

#define DOTS(name, R, S, across)                                                                                                           \
    static __attribute__((noinline)) void dots_##name(const thin *t, int64_t i, int64_t j) { dots_block(t, R, S, across, i, j); }
DOTS(only_two, 2, VL / 2, 0)
DOTS(1, 1, VL / 4, 0)
DOTS(2, 2, VL / 4, 0)
DOTS(3, 3, VL / 4, 0)
DOTS(4, 4, VL / 4, 0)
#if GEMM_REGISTERS == 32
DOTS(5, 5, VL / 4, 0)
DOTS(6, 6, VL / 4, 0)
DOTS(across_5, 5, VL / 4, 1)
DOTS(across_6, 6, VL / 4, 1)
#endif
DOTS(across_1, 1, VL, 1)
DOTS(across_2, 2, VL / 2, 1)
DOTS(across_3, 3, VL / 4, 1)
DOTS(across_4, 4, VL / 4, 1)

/* The rows of x are taken in blocks of nearly the same height: that of the next one, of so many rows left. */
GEMM_INLINE int64_t dots_height(int64_t left) { return left / ((left + DOTS_BLOCK - 1) / DOTS_BLOCK); }

/* VL rows of w by all rows of x, for y_row = 1. */
static void dots_across(const thin *t, int64_t j)
{
    static void (*const blocks[DOTS_BLOCK])(const thin *, int64_t, int64_t) = {
        dots_across_1,
        dots_across_2,
        dots_across_3,
        dots_across_4,
#if GEMM_REGISTERS == 32
        dots_across_5,
        dots_across_6,
#endif
    };
    for (int64_t i = 0, height; i < t->rows; i += height) {
        height = dots_height(t->rows - i);
        const int S = height == 1 ? VL : height == 2 ? VL / 2 : VL / 4;
        for (int s = 0; s < VL; s += S) blocks[height - 1](t, i, j + s);
    }
}

/* VL / 4 rows of w by all rows of x. */
static void dots_quarter(const thin *t, int64_t j)
{
    static void (*const blocks[DOTS_BLOCK])(const thin *, int64_t, int64_t) = {
        dots_1,
        dots_2,
        dots_3,
        dots_4,
#if GEMM_REGISTERS == 32
        dots_5,
        dots_6,
#endif
    };
    for (int64_t i = 0, height; i < t->rows; i += height) {
        height = dots_height(t->rows - i);
        blocks[height - 1](t, i, j);
    }
}

/* Columns [j0, j1) of y.  The rows of w stay in L1 from one block of rows to the next.  What is left of the columns is summed together with some before it, once more. */
static void dots(const thin *t, int64_t j0, int64_t j1)
{
    int64_t j = j0;
    if (is_chained(t)) {
        if (!is_foreseen()) dots_rows(t, j0, j1);
        else if (t->k % (DOTS_CHAINS * VL) == 0) dots_row_whole(t, j0, j1);
        else dots_row_ragged(t, j0, j1);
        return;
    }
    if (t->rows == 1) {
        const int early = t->w_row % THIN_LINE != 0 && (t->k > DOTS_LONG || !is_foreseen());
        void (*const row)(const thin *, int64_t) = early ? dots_row_uneven : t->k > DOTS_LONG ? dots_row_long : dots_row_even;
        for (; j + VL <= j1; j += VL) row(t, j);
    } else if (t->y_row == 1) {
        for (; j + VL <= j1; j += VL) dots_across(t, j);
    } else if (t->rows == 2) {
        for (; j + VL / 2 <= j1; j += VL / 2) dots_only_two(t, 0, j);
    }
    for (; j + VL / 4 <= j1; j += VL / 4) dots_quarter(t, j);
    if (j < j1 && j1 - j0 >= VL / 4 && !t->add) {
        dots_quarter(t, j1 - VL / 4);
        return;
    }
    for (; j < j1; j++)
        for (int64_t i = 0; i < t->rows; i++) dots_one(t, i, j);
}

/* y[0..R, j0..j1) += x[0..R, p..p+P) w[p..p+P, j0..j1), or = when first.  R and P are constants at every call. */
GEMM_INLINE void sweep_rows(const thin *t, const int R, const int P, int64_t p, int64_t j0, int64_t j1, int first)
{
    const float *w = t->w + p * t->w_row;
    float *y = t->y;
    int64_t w_row = t->w_row, y_row = t->y_row;
    vf x[4][8];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
#pragma GCC unroll 8
        for (int q = 0; q < P; q++) x[r][q] = vset1(t->x[r * t->x_row + (p + q) * t->x_col]);
    }
    int64_t j = j0;
    for (; j + VL <= j1; j += VL) {
        vf s[4];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) s[r] = first ? vzero() : vload(y + r * y_row + j);
#pragma GCC unroll 8
        for (int q = 0; q < P; q++) {
            vf v = vload(w + q * w_row + j);
            if (R > 1) VKEEP(v);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) s[r] = vfma(x[r][q], v, s[r]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) vstore(y + r * y_row + j, s[r]);
    }
    if (j == j1) return;
    const int lanes = (int)(j1 - j);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
        vf s = first ? vzero() : vload_some(y + r * y_row + j, lanes);
#pragma GCC unroll 8
        for (int q = 0; q < P; q++) s = vfma(x[r][q], vload_some(w + q * w_row + j, lanes), s);
        vstore_some(y + r * y_row + j, s, lanes);
    }
}

/* As many steps of k at a time as there are registers for x. */
#define SWEEP(R, P)                                                                                                                        \
    static __attribute__((noinline)) int sweep_##R(const thin *t, int64_t j0, int64_t j1, int first)                                       \
    {                                                                                                                                      \
        int64_t p = 0;                                                                                                                     \
        for (; p + (P) <= t->k; p += (P), first = 0) sweep_rows(t, R, P, p, j0, j1, first);                                                \
        for (; p < t->k; p++, first = 0) sweep_rows(t, R, 1, p, j0, j1, first);                                                            \
        return first;                                                                                                                      \
    }
#if GEMM_REGISTERS == 32
enum {
    RUN_STEPS = 8,    /* of k in one go, twice as many where w is near */
    RUN_VECTORS = 16, /* of a run */
    RUN_SHORT = 640   /* floats of a row: up to so many it is short */
};

/* V vectors of one row of y from column j on, in registers while P rows of w are read one after another, and what lies `ahead` of them is fetched: the next line, which brings 43
 * instead of 30 bytes per cycle out of the second-level cache of Zen 5, or, of short rows, the next rows.  V and P are constants at every call. */
GEMM_INLINE void sweep_run(const thin *t, const int V, const int P, int64_t p, int64_t j, int first, int64_t ahead)
{
    const float *w = t->w + p * t->w_row + j, *x = t->x + p * t->x_col;
    float *y = t->y + j;
    vf s[RUN_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) s[v] = first ? vzero() : vload(y + v * VL);
#pragma GCC unroll 16
    for (int q = 0; q < P; q++, w += t->w_row, x += t->x_col) {
        const vf xs = vset1(*x);
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) {
            __builtin_prefetch(w + v * VL + ahead);
            vf ws = vload(w + v * VL);
            VKEEP(ws); /* where lines are crossed, a load by itself is quicker */
            s[v] = vfma(xs, ws, s[v]);
        }
    }
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) vstore(y + v * VL, s[v]);
}

/* Columns [j0, j1) of one row, whole vectors, and those that are left, whose sums are in `rest`: what was stored under a mask would be slow to be loaded again. */
GEMM_INLINE vf sweep_steps(const thin *t, const int P, int64_t p, int64_t j0, int64_t j1, int lanes, vf rest, int first)
{
    const int64_t ahead = t->w_row <= RUN_SHORT && !t->near ? RUN_STEPS * t->w_row : VL;
    int64_t j = j0;
    for (; j + RUN_VECTORS * VL <= j1; j += RUN_VECTORS * VL) sweep_run(t, RUN_VECTORS, P, p, j, first, ahead);
#pragma GCC unroll 4
    for (int V = RUN_VECTORS / 2; V > 0; V /= 2)
        if (j + V * VL <= j1) sweep_run(t, V, P, p, j, first, ahead), j += V * VL;
    if (lanes == 0) return rest;
    const float *w = t->w + p * t->w_row + j1;
#pragma GCC unroll 16
    for (int q = 0; q < P; q++, w += t->w_row) rest = vfma(vset1(t->x[(p + q) * t->x_col]), vload_some(w, lanes), rest);
    return rest;
}

static __attribute__((noinline)) int sweep_1(const thin *t, int64_t j0, int64_t j1, int first)
{
    const int lanes = (int)((j1 - j0) % VL);
    const int64_t whole = j1 - lanes;
    vf rest = lanes == 0 || first ? vzero() : vload_some(t->y + whole, lanes);
    int64_t p = 0;
    for (; t->near && p + 2 * RUN_STEPS <= t->k; p += 2 * RUN_STEPS, first = 0)
        rest = sweep_steps(t, 2 * RUN_STEPS, p, j0, whole, lanes, rest, first);
    for (; p + RUN_STEPS <= t->k; p += RUN_STEPS, first = 0) rest = sweep_steps(t, RUN_STEPS, p, j0, whole, lanes, rest, first);
    if (p + RUN_STEPS / 2 <= t->k) rest = sweep_steps(t, RUN_STEPS / 2, p, j0, whole, lanes, rest, first), p += RUN_STEPS / 2, first = 0;
    for (; p < t->k; p++, first = 0) rest = sweep_steps(t, 1, p, j0, whole, lanes, rest, first);
    if (lanes > 0 && !first) vstore_some(t->y + whole, rest, lanes);
    return first;
}
SWEEP(2, 8)
SWEEP(3, 8)
SWEEP(4, 6)
#else
SWEEP(1, 8)
SWEEP(2, 4)
SWEEP(3, 3)
SWEEP(4, 2)
#endif

/* V vectors of one row of y from column j on, the last one of `lanes` columns, in registers from the first step of k to the last: w is read in long runs.
 * Step p goes to chain p % chains, so that few vectors need not wait for their sums; the chains are added in the end.  V, chains and ragged (whether lanes
 * is less than VL) are constants at every call. */
GEMM_INLINE void row_run(const thin *t, const int V, const int chains, const int ragged, int64_t j, int lanes)
{
    const float *w = t->w + j, *x = t->x;
    vf acc[4][ROW_VECTORS];
#pragma GCC unroll 4
    for (int h = 0; h < chains; h++) {
#pragma GCC unroll 28
        for (int v = 0; v < V; v++) acc[h][v] = vzero();
    }
#define ROW_STEP(h)                                                                                                                        \
    do {                                                                                                                                   \
        const vf xs = vset1(*x);                                                                                                           \
        _Pragma("GCC unroll 28") for (int v = 0; v < V; v++)                                                                               \
        {                                                                                                                                  \
            vf ws = ragged && v == V - 1 ? vload_some(w + v * VL, lanes) : vload(w + v * VL);                                              \
            VKEEP(ws);                                                                                                                     \
            acc[h][v] = vfma(xs, ws, acc[h][v]);                                                                                           \
        }                                                                                                                                  \
        w += t->w_row, x += t->x_col;                                                                                                      \
    } while (0)
    int64_t p = t->k;
    for (; p >= chains; p -= chains) {
#pragma GCC unroll 4
        for (int h = 0; h < chains; h++) ROW_STEP(h);
    }
    for (; p > 0; p--) ROW_STEP(0);
#undef ROW_STEP
    float *y = t->y + j;
#pragma GCC unroll 28
    for (int v = 0; v < V; v++) {
        const int columns = v == V - 1 ? lanes : VL;
        vf sum = acc[0][v];
        if (chains > 1) sum = vadd(sum, acc[1][v]);
        if (chains > 2) sum = vadd(sum, vadd(acc[2][v], acc[3][v]));
        if (t->add) sum = vadd(vload_some(y + v * VL, columns), sum);
        if (t->bias) sum = vadd(sum, vload_some(t->bias + j + v * VL, columns));
        vstore_some(y + v * VL, t->relu ? vrelu(sum) : sum, columns);
    }
}
#define ROW(V, chains)                                                                                                                     \
    static __attribute__((noinline)) void row_##V(const thin *t, int64_t j, int lanes)                                                     \
    {                                                                                                                                      \
        if (lanes < VL) row_run(t, V, chains, 1, j, lanes);                                                                                \
        else row_run(t, V, chains, 0, j, VL);                                                                                              \
    }
/* clang-format off */
ROW(1, 4) ROW(2, 4) ROW(3, 2) ROW(4, 2)
#if GEMM_REGISTERS == 32
ROW(5, 2) ROW(6, 2) ROW(7, 2) ROW(8, 1) ROW(9, 1) ROW(10, 1) ROW(11, 1) ROW(12, 1) ROW(13, 1) ROW(14, 1) ROW(15, 1) ROW(16, 1) ROW(17, 1) ROW(18, 1) ROW(19, 1)
ROW(20, 1) ROW(21, 1) ROW(22, 1) ROW(23, 1) ROW(24, 1) ROW(25, 1) ROW(26, 1) ROW(27, 1) ROW(28, 1)
#else
ROW(5, 1) ROW(6, 1) ROW(7, 1) ROW(8, 1) ROW(9, 1) ROW(10, 1) ROW(11, 1) ROW(12, 1)
#endif
static void (*const rows[ROW_VECTORS])(const thin *, int64_t, int) = {
    row_1, row_2, row_3, row_4, row_5, row_6, row_7, row_8, row_9, row_10, row_11, row_12,
#if GEMM_REGISTERS == 32
    row_13, row_14, row_15, row_16, row_17, row_18, row_19, row_20, row_21, row_22, row_23, row_24, row_25, row_26, row_27, row_28,
#endif
};
/* clang-format on */

/* Columns [begin, end) of y.  The chains of a column follow from both. */
static void row_columns(const thin *t, int64_t begin, int64_t end)
{
    for (; end - begin > ROW_VECTORS * VL; begin += ROW_BLOCK * VL) rows[ROW_BLOCK - 1](t, begin, VL);
    const int64_t last = (end - begin - 1) / VL;
    if (begin < end) rows[last](t, begin, (int)(end - begin - last * VL));
}

enum { SWEEP_ROWS = 4, SWEEP_FLOATS = 6144 /* of y in L1 */ };

/* Columns [j0, j1) of y. */
static void sweep_columns(const thin *t, int64_t j0, int64_t j1)
{
    static int (*const sweeps[SWEEP_ROWS])(const thin *, int64_t, int64_t, int) = { sweep_1, sweep_2, sweep_3, sweep_4 };
    const int untouched = sweeps[t->rows - 1](t, j0, j1, !t->add);
    if (!t->bias && !t->relu && !untouched) return;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = j0; j < j1; j++) {
            float *y = t->y + i * t->y_row + j, sum = untouched ? 0 : *y;
            if (t->bias) sum += t->bias[j * t->bias_col];
            *y = t->relu && sum < 0 ? 0 : sum;
        }
    }
}

static void sweep(const thin *t, int64_t j0, int64_t j1)
{
    const int64_t chunk = SWEEP_FLOATS / t->rows / 64 * 64;
    for (int64_t j = j0; j < j1; j += chunk) sweep_columns(t, j, j + chunk < j1 ? j + chunk : j1);
}

#endif
