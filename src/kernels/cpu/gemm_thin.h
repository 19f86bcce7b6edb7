/* Products with few rows, where every element of the matrix is used once or a few times and reading it is the whole cost.
 *
 *   dots  y[i,j] = x[i,:] . w[j,:]      w has contiguous rows (B transposed, or A when B is one column): vectors run along k, and VL sums at a time
 *                                       are folded into one vector at the end
 *   sweep y[j] = sum_p x[p] w[p,j]      one row times row-major B (or a transposed A times one column): y stays in L1 while w streams by, eight
 *                                       rows at a time, in whole rows, as the hardware prefetcher likes it
 *
 * Both sum in an order that depends on k alone.
 */
#ifndef CJ_KERNELS_CPU_GEMM_THIN_H
#define CJ_KERNELS_CPU_GEMM_THIN_H

#include "kernels/cpu/gemm_simd.h"

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
    int64_t bias_col;
    int add, relu;
} thin;

GEMM_INLINE float thin_finish(const thin *t, float sum, int64_t i, int64_t j)
{
    float *y = t->y + i * t->y_row + j * t->y_col;
    if (t->add) sum = *y + sum;
    if (t->bias) sum += t->bias[j * t->bias_col];
    if (t->relu && sum < 0) sum = 0;
    return *y = sum;
}

/* Lane l of the result is the sum of the lanes of x[l]. */
GEMM_INLINE vf fold(vf x[VL])
{
#pragma GCC unroll 4
    for (int half = VL / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) x[i] = vadd(vzip_low(x[i], x[i + half]), vzip_high(x[i], x[i + half]));
    }
    return x[0];
}

/* R rows of x by S rows of w; sums of k products each.  R and S are constants at every call, R * S <= VL. */
GEMM_INLINE void dots_block(const thin *t, const int R, const int S, int64_t i0, int64_t j0)
{
    const float *x = t->x + i0 * t->x_row, *w = t->w + j0 * t->w_row;
    int64_t x_row = t->x_row, w_row = t->w_row;
    vf acc[VL];
#pragma GCC unroll 16
    for (int l = 0; l < VL; l++) acc[l] = vzero();
    const int64_t whole = t->k - t->k % VL;
    for (int64_t p = 0; p < whole; p += VL) {
        vf xs[4];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) xs[r] = vload(x + r * x_row + p);
#pragma GCC unroll 16
        for (int s = 0; s < S; s++) {
            const vf ws = vload(w + s * w_row + p);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) acc[r * S + s] = vfma(xs[r], ws, acc[r * S + s]);
        }
    }
    if (whole < t->k) {
        const int lanes = (int)(t->k - whole);
        vf xs[4];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) xs[r] = vload_some(x + r * x_row + whole, lanes);
#pragma GCC unroll 16
        for (int s = 0; s < S; s++) {
            const vf ws = vload_some(w + s * w_row + whole, lanes);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) acc[r * S + s] = vfma(xs[r], ws, acc[r * S + s]);
        }
    }
    float sums[VL];
    vstore(sums, fold(acc));
    if (!t->add && !t->bias && !t->relu && t->y_col == 1) {
        for (int r = 0; r < R; r++) memcpy(t->y + (i0 + r) * t->y_row + j0, sums + r * S, (size_t)S * sizeof(float));
        return;
    }
    for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++) thin_finish(t, sums[r * S + s], i0 + r, j0 + s);
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

#define DOTS(name, R, S)                                                                                                                   \
    static __attribute__((noinline)) void dots_##name(const thin *t, int64_t i, int64_t j) { dots_block(t, R, S, i, j); }
DOTS(only_row, 1, VL)
DOTS(only_two, 2, VL / 2)
DOTS(1, 1, VL / 4)
DOTS(2, 2, VL / 4)
DOTS(3, 3, VL / 4)
DOTS(4, 4, VL / 4)

/* Columns [j0, j1) of y.  Four rows at a time where there are so many; the rows of w stay in L1 from one group of rows to the next. */
static void dots(const thin *t, int64_t j0, int64_t j1)
{
    int64_t j = j0;
    if (t->rows == 1) {
        for (; j + VL <= j1; j += VL) dots_only_row(t, 0, j);
    } else if (t->rows == 2) {
        for (; j + VL / 2 <= j1; j += VL / 2) dots_only_two(t, 0, j);
    }
    for (; j + VL / 4 <= j1; j += VL / 4) {
        int64_t i = 0;
        for (; i + 4 <= t->rows; i += 4) dots_4(t, i, j);
        if (t->rows - i == 3) dots_3(t, i, j);
        else if (t->rows - i == 2) dots_2(t, i, j);
        else if (t->rows - i == 1) dots_1(t, i, j);
    }
    for (; j < j1; j++)
        for (int64_t i = 0; i < t->rows; i++) dots_one(t, i, j);
}

/* y[j0..j1) += x[p..p+P) w[p..p+P, j0..j1), or = when first. */
GEMM_INLINE void sweep_rows(const thin *t, const int P, int64_t p, int64_t j0, int64_t j1, int first)
{
    const float *w = t->w + p * t->w_row;
    float *y = t->y;
    int64_t w_row = t->w_row;
    vf x[8];
#pragma GCC unroll 8
    for (int q = 0; q < P; q++) x[q] = vset1(t->x[(p + q) * t->x_col]);
    int64_t j = j0;
    for (; j + VL <= j1; j += VL) {
        vf s = first ? vzero() : vload(y + j);
#pragma GCC unroll 8
        for (int q = 0; q < P; q++) s = vfma(x[q], vload(w + q * w_row + j), s);
        vstore(y + j, s);
    }
    if (j < j1) {
        const int lanes = (int)(j1 - j);
        vf s = first ? vzero() : vload_some(y + j, lanes);
#pragma GCC unroll 8
        for (int q = 0; q < P; q++) s = vfma(x[q], vload_some(w + q * w_row + j, lanes), s);
        vstore_some(y + j, s, lanes);
    }
}

/* Columns [j0, j1) of y. */
static void sweep(const thin *t, int64_t j0, int64_t j1)
{
    int64_t p = 0;
    int first = !t->add;
    for (; p + 8 <= t->k; p += 8, first = 0) sweep_rows(t, 8, p, j0, j1, first);
    for (; p < t->k; p++, first = 0) sweep_rows(t, 1, p, j0, j1, first);
    if (first)
        for (int64_t j = j0; j < j1; j++) t->y[j] = 0;
    if (!t->bias && !t->relu) return;
    for (int64_t j = j0; j < j1; j++) {
        float y = t->y[j];
        if (t->bias) y += t->bias[j * t->bias_col];
        t->y[j] = t->relu && y < 0 ? 0 : y;
    }
}

#endif
