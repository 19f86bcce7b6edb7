/* The transforms of Winograd's F(2, R) along one axis (conv_winograd.c), R = 3 or 5 taps for two results, N = R + 1 pixels: Toom and Cook's interpolation at the points 0, 1, -1, ∞ and,
 * for 5, also 1/2 and -2.  y = Aᵀ [ (G g) ⊙ (Bᵀ d) ].
 *
 * N is a constant at every call; neighbours along the axis lie `step` (or `from`) vectors apart.
 */
#ifndef CJ_KERNELS_CPU_CONV_WINOGRAD_H
#define CJ_KERNELS_CPU_CONV_WINOGRAD_H

#include "kernels/cpu/gemm_simd.h"

enum { MOST_SIDE = 6, MOST_PLACES = MOST_SIDE * MOST_SIDE };

/* Bᵀ d, in place.  For 5 taps its rows are
 *     1 -3/2 -2 3/2 1 0,  0 -1 1/2 5/2 1 0,  0 1 -5/2 1/2 1 0,  0 -2 -1 2 1 0,  0 1/2 -1 -1/2 1 0,  0 1 -3/2 -2 3/2 1. */
GEMM_INLINE void source_axis(vf *d, const int step, const int N)
{
    const vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    if (N == 4) {
        d[0] = d0 - d2, d[step] = d1 + d2, d[2 * step] = d2 - d1, d[3 * step] = d1 - d3;
        return;
    }
    const vf d4 = d[4 * step], d5 = d[5 * step], e = d3 - d1, f = d4 - d2, more = vset1(1.5f);
    d[0] = vfma(more, e, d0 - d2 + f);
    d[step] = vfma(more, d2 + d3, f + e);
    d[2 * step] = vfma(more, d3 - d2, f - e);
    d[3 * step] = vfma(vset1(2), e, f);
    d[4 * step] = vfma(vset1(-0.5f), e, f);
    d[5 * step] = vfma(more, f, d5 - d3 - e);
}

/* Aᵀ m = (m0 + m1 + m2 [+ m3 + m4], m1 - m2 [+ m3/2 - 2 m4] ± the last), which for 3 taps is taken away: its place has the other sign. */
GEMM_INLINE void result_axis(const vf *m, const int from, vf *y, const int step, const int N)
{
    const vf m1 = m[from], m2 = m[2 * from], m3 = m[3 * from];
    if (N == 4) {
        y[0] = m[0] + m1 + m2, y[step] = m1 - m2 - m3;
        return;
    }
    const vf m4 = m[4 * from];
    y[0] = m[0] + (m1 + m2) + (m3 + m4);
    y[step] = vfma(vset1(0.5f), m3, vfma(vset1(-2), m4, m1 - m2 + m[5 * from]));
}

/* A y, the transpose of it. */
GEMM_INLINE void slope_axis(vf y0, vf y1, vf *to, const int step, const int N)
{
    to[0] = y0, to[step] = y0 + y1, to[2 * step] = y0 - y1;
    if (N == 4) {
        to[3 * step] = vzero() - y1;
        return;
    }
    to[3 * step] = vfma(vset1(0.5f), y1, y0), to[4 * step] = vfma(vset1(-2), y1, y0), to[5 * step] = y1;
}

/* G g. */
static const float winograd_g4[4][3] = { { 1, 0, 0 }, { 0.5f, 0.5f, 0.5f }, { 0.5f, -0.5f, 0.5f }, { 0, 0, 1 } };
static const float winograd_g6[6][5] = { { 1, 0, 0, 0, 0 },
                                         { 1 / 3.0f, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f },
                                         { -1 / 3.0f, 1 / 3.0f, -1 / 3.0f, 1 / 3.0f, -1 / 3.0f },
                                         { -16 / 15.0f, -8 / 15.0f, -4 / 15.0f, -2 / 15.0f, -1 / 15.0f },
                                         { 1 / 15.0f, -2 / 15.0f, 4 / 15.0f, -8 / 15.0f, 16 / 15.0f },
                                         { 0, 0, 0, 0, 1 } };
GEMM_INLINE float winograd_g(int i, int j, const int N) { return N == 4 ? winograd_g4[i][j] : winograd_g6[i][j]; }

GEMM_INLINE void kernel_axis(const vf *g, const int from, vf *to, const int step, const int N)
{
#pragma GCC unroll 6
    for (int i = 0; i < N; i++) {
        vf sum = vset1(winograd_g(i, 0, N)) * g[0];
#pragma GCC unroll 5
        for (int j = 1; j < N - 1; j++) sum = vfma(vset1(winograd_g(i, j, N)), g[j * from], sum);
        to[i * step] = sum;
    }
}

/* Gᵀ u, the transpose of it. */
GEMM_INLINE void back_axis(const vf *u, const int from, vf *to, const int step, const int N)
{
#pragma GCC unroll 5
    for (int j = 0; j < N - 1; j++) {
        vf sum = vset1(winograd_g(0, j, N)) * u[0];
#pragma GCC unroll 6
        for (int i = 1; i < N; i++) sum = vfma(vset1(winograd_g(i, j, N)), u[i * from], sum);
        to[j * step] = sum;
    }
}

#endif
