/* Convolution with few result channels: dot products.
 *
 *     sum[p][l] = sum over taps, c of rows[tap][p][c] · W[tap, c, l]        p < P points, l < L <= DOT_LANES result channels
 *
 * In the tiles of conv_tile.h the lanes of a vector are result channels, and few of them leave most lanes empty.  Here the lanes are channels of the source: a pixel is
 * read as vectors, every accumulator of a point and a result channel is a vector, and its lanes are added at the end, many accumulators at once.
 */
#ifndef CJ_KERNELS_CPU_CONV_DOT_H
#define CJ_KERNELS_CPU_CONV_DOT_H

#include "kernels/cpu/gemm_simd.h"

#define DOT_LANES 8
#define DOT_SUMS 24 /* accumulators at most */
#define DOT_UNROLL _Pragma("GCC unroll 24")

/* Points that are taken together, by result channels. */
#if GEMM_REGISTERS == 32
#define DOT_POINTS_1 16
#define DOT_POINTS_2 8
#define DOT_POINTS_3 8
#define DOT_POINTS_4 6
#define DOT_POINTS_5 4
#define DOT_POINTS_6 4
#define DOT_POINTS_7 3
#define DOT_POINTS_8 3
#else
#define DOT_POINTS_1 8
#define DOT_POINTS_2 4
#define DOT_POINTS_3 3
#define DOT_POINTS_4 2
#define DOT_POINTS_5 2
#define DOT_POINTS_6 1
#define DOT_POINTS_7 1
#define DOT_POINTS_8 1
#endif

typedef struct conv_dot {
    int64_t taps, run;
    const float *const *rows;
    int64_t rows_step; /* between taps */
    const float *w;    /* [taps, vectors of a run, L, VL], zeros behind its end */
    float *const *c;   /* point p of the result begins at c[p] */
    const float *bias; /* of as many points as are taken together, vectors of them; or NULL */
} conv_dot;

typedef void conv_dot_fn(const conv_dot *t);

/* The sums of n vectors (a power of two, at most VL) in the first n lanes: with every round two vectors become one that holds the sums of their halves, side by side. */
GEMM_INLINE vf dot_fold(vf x[VL], const int n)
{
#pragma GCC unroll 4
    for (int half = n / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) x[i] = vadd(vzip_low(x[i], x[i + half]), vzip_high(x[i], x[i + half]));
    if (n == VL) return x[0];
    if (n == VL / 2) return vadd(x[0], vswap_halves(x[0])); /* lane i has the rest of lane i + n */
    float lanes[VL];
    vstore(lanes, x[0]);
    for (int i = n; i < VL; i++) lanes[i % n] += lanes[i];
    return vload(lanes);
}

GEMM_INLINE void dot_step(vf acc[DOT_SUMS], const float *const *q, int64_t c, int lanes, const float *w, const int P, const int L)
{
    vf x[16];
    DOT_UNROLL for (int p = 0; p < P; p++) x[p] = lanes == VL ? vload(q[p] + c) : vload_some(q[p] + c, lanes);
    DOT_UNROLL for (int l = 0; l < L; l++)
    {
        const vf b = vload(w + l * VL);
        DOT_UNROLL for (int p = 0; p < P; p++) acc[p * L + l] = vfma(x[p], b, acc[p * L + l]);
    }
}

GEMM_INLINE void dot_run(const conv_dot *t, const int P, const int L)
{
    vf acc[DOT_SUMS];
    DOT_UNROLL for (int i = 0; i < P * L; i++) acc[i] = vzero();
    const float *const *rows = t->rows;
    const float *w = t->w;
    const int64_t whole = t->run - t->run % VL;
    for (int64_t tap = 0; tap < t->taps; tap++, rows += t->rows_step) {
        for (int64_t c = 0; c < whole; c += VL, w += L * VL) dot_step(acc, rows, c, VL, w, P, L);
        if (whole < t->run) {
            dot_step(acc, rows, whole, (int)(t->run - whole), w, P, L);
            w += L * VL;
        }
    }
    const bool together = t->c[P - 1] - t->c[0] == (P - 1) * L; /* results lie side by side */
    float sums[DOT_SUMS + VL];
    DOT_UNROLL for (int i = 0; i < P * L; i += VL)
    {
        const int left = P * L - i < VL ? P * L - i : VL, n = left > VL / 2 ? VL : VL == 16 && left <= VL / 4 ? VL / 4 : VL / 2;
        vf x[VL];
        DOT_UNROLL for (int k = 0; k < n; k++) x[k] = k < left ? acc[i + k] : vzero();
        vf sum = dot_fold(x, n);
        if (t->bias) sum = vadd(sum, vload(t->bias + i));
        vstore(sums + i, sum);
        if (together && left == VL) vstore(t->c[0] + i, sum);
        else if (together) vstore_some(t->c[0] + i, sum, left);
    }
    for (int p = 0; p < P && !together; p++) memcpy(t->c[p], sums + p * L, L * sizeof *sums);
}

#define DOT_TILE(L)                                                                                                                        \
    static void dot_many_##L(const conv_dot *t) { dot_run(t, DOT_POINTS_##L, L); }                                                         \
    static void dot_one_##L(const conv_dot *t) { dot_run(t, 1, L); }
/* clang-format off */
DOT_TILE(1) DOT_TILE(2) DOT_TILE(3) DOT_TILE(4) DOT_TILE(5) DOT_TILE(6) DOT_TILE(7) DOT_TILE(8)
#define DOT_ENTRY(L) { DOT_POINTS_##L, dot_many_##L, dot_one_##L }
static const struct {
    int points;
    conv_dot_fn *many, *one;
} dot_tiles[DOT_LANES] = { DOT_ENTRY(1), DOT_ENTRY(2), DOT_ENTRY(3), DOT_ENTRY(4), DOT_ENTRY(5), DOT_ENTRY(6), DOT_ENTRY(7), DOT_ENTRY(8) };
/* clang-format on */

/* All points of a band. */
static void dot_band(conv_dot t, int64_t lanes, int64_t points, const float *const *rows, float *const *out)
{
    float bias[DOT_SUMS + VL];
    for (int i = 0; t.bias && i < DOT_SUMS + VL; i++) bias[i] = t.bias[i % lanes];
    if (t.bias) t.bias = bias;
    for (int64_t at = 0; at < points;) {
        const bool many = points - at >= dot_tiles[lanes - 1].points;
        t.rows = rows + at, t.c = out + at;
        (many ? dot_tiles[lanes - 1].many : dot_tiles[lanes - 1].one)(&t);
        at += many ? dot_tiles[lanes - 1].points : 1;
    }
}

#endif
