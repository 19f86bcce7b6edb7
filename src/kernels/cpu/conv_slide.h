/* Depthwise convolution with three taps along x, side by side and with stride 1, and up to three along the other axes: a window slides along a line of points.
 *
 *   gather   y[p]  = sum over lines l, taps j of w[l, j] · x[l, p + off + j]        weights in registers; a column of pixels that comes in is used for three points
 *   weight   dw[l, j] += sum over points p of x[l, p + off + j] · dy[p]             sums in registers; where it can be, two lines of points share the pixels that they read
 *
 * So little is done with every number that it is the memory that sets the pace: what matters besides is the order in which it is read and written.
 */
#ifndef CJ_KERNELS_CPU_CONV_SLIDE_H
#define CJ_KERNELS_CPU_CONV_SLIDE_H

#include <stdbool.h>

#include "kernels/cpu/gemm_simd.h"

#define SLIDE_TAPS 3
#define SLIDE_LINES 3
#if GEMM_REGISTERS == 32
#define SLIDE_WIDE 2 /* vectors of channels at a time */
#else
#define SLIDE_WIDE 1
#endif
#define SLIDE_UNROLL _Pragma("GCC unroll 4")

typedef struct slide_line {
    const float *from[SLIDE_LINES + 1]; /* pixel 0 of the lines of the source; one more where there are two lines of points */
    int64_t pixel, size;                /* floats between its pixels; pixels */
    const float *w[SLIDE_LINES];        /* gather: the weight of tap 0 */
    float *sums[SLIDE_LINES];           /* weight: of tap 0 */
    int64_t w_step;                     /* floats between taps: of w, of sums */
    float *y;                           /* dy, y: of point `begin` */
    int64_t y_step, y_line;             /* floats between points; from one line of points to the other */
    int64_t begin, end, off;            /* points; point p sees pixels p + off … p + off + 2 */
} slide_line;

/* V full vectors of channels, or one of so many lanes (V = 0). */
GEMM_INLINE vf slide_load(const float *p, const int V, int lanes) { return V ? vload(p) : vload_some(p, lanes); }

GEMM_INLINE void slide_store(float *p, vf x, const int V, int lanes)
{
    if (V) vstore(p, x);
    else vstore_some(p, x, lanes);
}

/* Channels from c on. */
GEMM_INLINE void slide_gather(const slide_line *t, int64_t c, int lanes, const int L, const int V)
{
    const int N = V ? V : 1;
    vf w[SLIDE_LINES][SLIDE_TAPS][SLIDE_WIDE], one[SLIDE_WIDE], two[SLIDE_WIDE]; /* sums of the next point, and of the one after it */
    const float *at[SLIDE_LINES];
    const int64_t pixel = t->pixel, y_step = t->y_step, first = t->begin + t->off;
    SLIDE_UNROLL for (int l = 0; l < L; l++)
    {
        at[l] = t->from[l] + first * pixel + c;
        SLIDE_UNROLL for (int j = 0; j < SLIDE_TAPS; j++) SLIDE_UNROLL for (int v = 0; v < N; v++) w[l][j][v] =
            slide_load(t->w[l] + j * t->w_step + c + v * VL, V, lanes);
    }
    SLIDE_UNROLL for (int v = 0; v < N; v++) one[v] = two[v] = vzero();
    for (int64_t column = first; column < first + 2; column++) { /* columns that come before the last one of the first point */
        SLIDE_UNROLL for (int v = 0; v < N; v++)
        {
            one[v] = two[v], two[v] = vzero();
            if (column >= 0 && column < t->size) SLIDE_UNROLL for (int l = 0; l < L; l++)
                {
                    const vf x = slide_load(at[l] + v * VL, V, lanes);
                    if (column > first) one[v] = vfma(w[l][1][v], x, one[v]);
                    two[v] = vfma(w[l][0][v], x, two[v]);
                }
        }
        SLIDE_UNROLL for (int l = 0; l < L; l++) at[l] += pixel;
    }
    float *y = t->y + c;
    const int64_t inside = t->size - 2 - t->off < t->end ? t->size - 2 - t->off : t->end;
    int64_t p = t->begin;
#pragma GCC unroll 3
    for (; p < inside; p++, y += y_step) {
        SLIDE_UNROLL for (int v = 0; v < N; v++)
        {
            vf sum = one[v], three = vzero();
            SLIDE_UNROLL for (int l = 0; l < L; l++)
            {
                vf x = slide_load(at[l] + v * VL, V, lanes);
                VKEEP(x);
                sum = vfma(w[l][2][v], x, sum);
                two[v] = vfma(w[l][1][v], x, two[v]);
                three = vfma(w[l][0][v], x, three);
            }
            one[v] = two[v], two[v] = three;
            slide_store(y + v * VL, sum, V, lanes);
        }
        SLIDE_UNROLL for (int l = 0; l < L; l++) at[l] += pixel;
    }
    for (; p < t->end; p++, y += y_step) SLIDE_UNROLL for (int v = 0; v < N; v++)
        {
            slide_store(y + v * VL, one[v], V, lanes);
            one[v] = two[v], two[v] = vzero();
        }
}

/* Point p of Y lines of dy; edge: some of its taps may lie outside. */
GEMM_INLINE void slide_add(const slide_line *t, vf acc[SLIDE_LINES][SLIDE_TAPS][SLIDE_WIDE], const float *const at[SLIDE_LINES + 1],
                           const float *dy, int64_t p, int lanes, const int L, const int Y, const int V, const bool edge)
{
    const int N = V ? V : 1;
    vf g[2][SLIDE_WIDE];
    SLIDE_UNROLL for (int y = 0; y < Y; y++) SLIDE_UNROLL for (int v = 0; v < N; v++) g[y][v] =
        slide_load(dy + y * t->y_line + v * VL, V, lanes);
    SLIDE_UNROLL for (int j = 0; j < SLIDE_TAPS; j++)
    {
        const int64_t c = p + t->off + j;
        if (!edge || (c >= 0 && c < t->size)) SLIDE_UNROLL for (int l = 0; l < L + Y - 1; l++) SLIDE_UNROLL for (int v = 0; v < N; v++)
            {
                vf x = slide_load(at[l] + j * t->pixel + v * VL, V, lanes);
                if (Y > 1) VKEEP(x);
                if (l < L) acc[l][j][v] = vfma(g[0][v], x, acc[l][j][v]);
                if (Y > 1 && l > 0) acc[l - 1][j][v] = vfma(g[1][v], x, acc[l - 1][j][v]);
            }
    }
}

/* L lines of taps, Y lines of points. */
GEMM_INLINE void slide_weight(const slide_line *t, int64_t c, int lanes, const int L, const int Y, const int V)
{
    const int N = V ? V : 1;
    vf acc[SLIDE_LINES][SLIDE_TAPS][SLIDE_WIDE];
    const float *at[SLIDE_LINES + 1], *dy = t->y + c;
    const int64_t pixel = t->pixel, y_step = t->y_step;
    SLIDE_UNROLL for (int l = 0; l < L; l++)
    {
        SLIDE_UNROLL for (int j = 0; j < SLIDE_TAPS; j++) SLIDE_UNROLL for (int v = 0; v < N; v++) acc[l][j][v] = vzero();
    }
    SLIDE_UNROLL for (int l = 0; l < L + Y - 1; l++) at[l] = t->from[l] + (t->begin + t->off) * pixel + c;
    const int64_t low = -t->off < t->begin ? t->begin : -t->off, high = t->size - 2 - t->off < t->end ? t->size - 2 - t->off : t->end;
    int64_t p = t->begin;
    for (; p < t->end; p++, dy += y_step) {
        if (p >= low && p < high) slide_add(t, acc, at, dy, p, lanes, L, Y, V, false);
        else slide_add(t, acc, at, dy, p, lanes, L, Y, V, true);
        SLIDE_UNROLL for (int l = 0; l < L + Y - 1; l++) at[l] += pixel;
    }
    SLIDE_UNROLL for (int l = 0; l < L; l++) SLIDE_UNROLL for (int j = 0; j < SLIDE_TAPS; j++) SLIDE_UNROLL for (int v = 0; v < N; v++)
    {
        float *to = t->sums[l] + j * t->w_step + c + v * VL;
        slide_store(to, vadd(slide_load(to, V, lanes), acc[l][j][v]), V, lanes);
    }
}

typedef void slide_fn(const slide_line *t, int64_t c, int lanes);

#define SLIDE(L)                                                                                                                           \
    static void slide_gather_##L(const slide_line *t, int64_t c, int lanes) { slide_gather(t, c, lanes, L, SLIDE_WIDE); }                  \
    static void slide_gather_some_##L(const slide_line *t, int64_t c, int lanes) { slide_gather(t, c, lanes, L, 0); }                      \
    static void slide_weight_##L(const slide_line *t, int64_t c, int lanes) { slide_weight(t, c, lanes, L, 1, SLIDE_WIDE); }               \
    static void slide_weight_some_##L(const slide_line *t, int64_t c, int lanes) { slide_weight(t, c, lanes, L, 1, 0); }                   \
    static void slide_two_##L(const slide_line *t, int64_t c, int lanes) { slide_weight(t, c, lanes, L, 2, SLIDE_WIDE); }                  \
    static void slide_two_some_##L(const slide_line *t, int64_t c, int lanes) { slide_weight(t, c, lanes, L, 2, 0); }
SLIDE(1)
SLIDE(2)
SLIDE(3)
typedef enum slide_way { SLIDE_GATHER, SLIDE_WEIGHT, SLIDE_TWO, SLIDE_WAYS } slide_way; /* SLIDE_TWO: weight, of two lines of points */
#define SLIDE_ENTRY(L)                                                                                                                     \
    {                                                                                                                                      \
        { slide_gather_##L, slide_gather_some_##L }, { slide_weight_##L, slide_weight_some_##L }, { slide_two_##L, slide_two_some_##L }    \
    }
static slide_fn *const slide_ways[SLIDE_LINES][SLIDE_WAYS][2] = { SLIDE_ENTRY(1), SLIDE_ENTRY(2), SLIDE_ENTRY(3) };

/* All channels of a line of points, a piece of it after the other, so that memory is read in a row. */
static void slide_points(slide_line t, slide_way way, int lines, int64_t channels)
{
    slide_fn *const *fn = slide_ways[lines - 1][way];
    const int64_t piece = channels <= SLIDE_WIDE * VL ? t.end - t.begin
                          : way == SLIDE_GATHER       ? 14
                                                      : 8,
                  whole = channels - channels % (SLIDE_WIDE * VL);
    for (const int64_t end = t.end; t.begin < end; t.begin = t.end) {
        t.end = t.begin + piece < end ? t.begin + piece : end;
        for (int64_t c = 0; c < whole; c += SLIDE_WIDE * VL) fn[0](&t, c, VL);
        for (int64_t c = whole; c < channels; c += VL) fn[1](&t, c, (int)(channels - c < VL ? channels - c : VL));
        t.y += (t.end - t.begin) * t.y_step;
    }
}

#endif
