/* The geometry that the convolution kernels share, and images as they want them: channels-last, f32.
 *
 * Forward and data are one thing: every result point gathers pixels of a source through its taps,
 *
 *     result[first + i·step] = sum over taps j of W(j) · source[i·mul + off(j)]        per axis, i < points
 *
 *   forward   step 1, mul = stride, off = k·dilation - pad
 *   data      the points of dx fall into stride^axes phases f; those of one phase see the same taps, the k with f + pad - k·dilation divisible by the stride:
 *             first = f, step = stride, mul = 1, off = (f + pad - k·dilation) / stride
 *
 * Taps are kept in order of growing offset.  A task works on a band of consecutive points.  Where the source is not channels-last f32 already, or where few channels ask
 * for the taps of a line to be read as one run, the lines that the band sees are copied first; the copy has zeros left and right.
 */
#ifndef CJ_KERNELS_CPU_CONV_IMAGE_H
#define CJ_KERNELS_CPU_CONV_IMAGE_H

#include "kernels/cpu/conv.h"
#include "kernels/cpu/convert.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* convolution packs rows, never panels */
#include "kernels/cpu/gemm_pack.h"
#pragma GCC diagnostic pop

#define CONV_UNUSED __attribute__((unused))

GEMM_INLINE int64_t conv_min(int64_t a, int64_t b) { return a < b ? a : b; }
GEMM_INLINE int64_t conv_max(int64_t a, int64_t b) { return a > b ? a : b; }
GEMM_INLINE int64_t conv_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
GEMM_INLINE int64_t conv_volume(const int64_t *d) { return d[0] * d[1] * d[2]; }
GEMM_INLINE gemm_kind conv_kind(cj_dtype t) { return t == CJ_BF16 ? GEMM_BF16 : t == CJ_F16 ? GEMM_F16 : GEMM_F32; }

typedef struct conv_axis {
    int64_t points, first, step, mul; /* of the result */
    int64_t taps, k0, k_step;         /* tap j is element k0 + j·k_step of the kernel ... */
    int64_t off0, off_step;           /* ... and reads i·mul + off0 + j·off_step; off_step > 0 */
    int64_t size;                     /* of the source */
} conv_axis;

/* One phase of a pass. */
typedef struct conv_phase {
    conv_axis axis[3];
    int64_t points, taps;
} conv_phase;

/* The same work with m points along x taken as one that has m times the channels: where a point's channels do not fill the vectors.  Its taps cover what the m points
 * see together, and many of its weights are zero.  Only for taps side by side. */
static __attribute__((unused)) conv_phase conv_joined(conv_phase f, int64_t m)
{
    conv_axis *x = &f.axis[2];
    if (m == 1) return f;
    f.points /= m, f.taps /= x->taps;
    x->points /= m;
    x->taps += (m - 1) * x->mul;
    x->mul *= m;
    f.taps *= x->taps;
    return f;
}

static int64_t conv_gcd(int64_t a, int64_t b) { return b ? conv_gcd(b, a % b) : a; }

static conv_axis conv_axis_of(const cj_conv_shape *v, bool data, int d, int64_t phase)
{
    const int64_t s = v->stride[d], dil = v->dilation[d], kernel = v->kernel[d];
    if (!data)
        return (conv_axis){
            .points = v->out[d], .step = 1, .mul = s, .taps = kernel, .k_step = 1, .off0 = -v->pad[d], .off_step = dil, .size = v->in[d]
        };
    conv_axis a = { .points = phase < v->in[d] ? (v->in[d] - phase + s - 1) / s : 0,
                    .first = phase,
                    .step = s,
                    .mul = 1,
                    .off_step = 1,
                    .k_step = 1,
                    .size = v->out[d] };
    const int64_t each = s / conv_gcd(s, dil); /* every so many k the tap falls on an element of dy again */
    int64_t k = 0;
    while (k < each && (phase + v->pad[d] - k * dil) % s != 0) k++;
    if (k >= each || k >= kernel) return a;
    a.taps = (kernel - 1 - k) / each + 1;
    a.k0 = k + (a.taps - 1) * each, a.k_step = -each;
    a.off0 = (phase + v->pad[d] - a.k0 * dil) / s, a.off_step = each * dil / s;
    return a;
}

static CONV_UNUSED conv_phase conv_phase_of(const cj_conv_shape *v, bool data, int64_t phase)
{
    conv_phase f = { .points = 1, .taps = 1 };
    for (int d = 2; d >= 0; d--) {
        const int64_t s = data ? v->stride[d] : 1;
        f.axis[d] = conv_axis_of(v, data, d, phase % s);
        phase /= s;
        f.points *= f.axis[d].points;
        f.taps *= f.axis[d].taps;
    }
    return f;
}

/* The element of the kernel that tap j of a phase is. */
GEMM_INLINE int64_t conv_tap(const cj_conv_shape *v, const conv_phase *f, int64_t j)
{
    int64_t k = 0, at[3];
    for (int d = 2; d >= 0; d--) at[d] = j % f->axis[d].taps, j /= f->axis[d].taps;
    for (int d = 0; d < 3; d++) k = k * v->kernel[d] + f->axis[d].k0 + at[d] * f->axis[d].k_step;
    return k;
}

/* ---- sources -------------------------------------------------------------------------------------------------------------------------------------- */

/* An operand: of type t, `channels` in all; channels-last or row-major. */
typedef struct conv_image {
    cj_dtype t;
    bool last;
    int64_t channels, pixels;
} conv_image;

GEMM_INLINE const char *conv_at(const conv_image *m, const void *data, int64_t n, int64_t channel, int64_t pixel)
{
    const int64_t i = n * m->channels * m->pixels + (m->last ? pixel * m->channels + channel : channel * m->pixels + pixel);
    return (const char *)data + i * cj__elem_size(m->t);
}

/* n pixels from `pixel` on, `channels` channels each, to rows `ld` floats apart. */
static void conv_load(const conv_image *m, const void *data, int64_t image, int64_t channel, int64_t channels, int64_t pixel, int64_t n,
                      float *to, int64_t ld)
{
    if (m->t == CJ_F32 && ld == channels && (m->last ? m->channels == channels : channels == 1)) {
        memcpy(to, conv_at(m, data, image, channel, pixel), (size_t)(n * channels) * sizeof *to);
        return;
    }
    pack(to, ld, conv_at(m, data, image, channel, pixel), m->last ? m->channels : 1, m->last ? 1 : m->pixels, n, channels, conv_kind(m->t));
}

/* What the taps of a band read: pixel (line, x) at base + (line - line0)·line_floats + (x + left)·pixel. */
typedef struct conv_source {
    const float *base;
    int64_t pixel, line_floats, left;
    int64_t z0, y0, lines; /* the first line of the copy, and its lines per z */
} conv_source;

/* How the sources of a phase are made; the same for all its bands. */
typedef struct conv_copy {
    bool copied, merged;        /* merged: the taps along x are one run of taps·channels floats */
    int64_t left, right, lines; /* zeros around a line of the copy; lines of the largest band */
    int64_t taps, run;          /* as the tiles see them */
} conv_copy;

static CONV_UNUSED conv_copy conv_copy_of(const conv_phase *f, bool plain, int64_t channels, int64_t band, bool may_merge)
{
    const conv_axis *z = &f->axis[0], *y = &f->axis[1], *x = &f->axis[2];
    conv_copy c = { .merged = may_merge && x->off_step == 1 && x->taps > 1 && channels < 2 * VL };
    c.copied = !plain || c.merged;
    c.taps = c.merged ? z->taps * y->taps : f->taps;
    c.run = c.merged ? x->taps * channels : channels;
    if (!c.copied || !f->points || !f->taps) return c;
    if (c.merged) {
        c.left = conv_max(0, -x->off0);
        c.right = conv_max(0, (x->points - 1) * x->mul + x->off0 + x->taps - x->size);
    }
    const int64_t lines = conv_min((band + x->points - 1) / x->points + 1, z->points * y->points);
    const int64_t zs = conv_min((lines + y->points - 1) / y->points + 1, z->points);
    const int64_t ys = zs > 1 ? y->points : conv_min(lines, y->points); /* a band that goes on in the next plane sees all of their lines */
    c.lines = conv_min(z->size, (zs - 1) * z->mul + (z->taps - 1) * z->off_step + 1) *
              conv_min(y->size, (ys - 1) * y->mul + (y->taps - 1) * y->off_step + 1);
    return c;
}

static CONV_UNUSED int64_t conv_copy_floats(const conv_copy *c, const conv_phase *f, int64_t channels)
{
    return c->copied ? conv_up(c->lines * (c->left + f->axis[2].size + c->right) * channels, 16) : 0;
}

/* First and last line along an axis that points a … b read. */
GEMM_INLINE void conv_reach(const conv_axis *a, int64_t from, int64_t to, int64_t *low, int64_t *high)
{
    *low = conv_min(conv_max(from * a->mul + a->off0, 0), a->size - 1);
    *high = conv_min(conv_max(to * a->mul + a->off0 + (a->taps - 1) * a->off_step, *low), a->size - 1);
}

/* The source of points [p0, p1) of an image. */
static CONV_UNUSED conv_source conv_source_of(const conv_phase *f, const conv_copy *c, const conv_image *m, const void *data, int64_t image,
                                              int64_t channel, int64_t channels, int64_t p0, int64_t p1, float *copy)
{
    const conv_axis *z = &f->axis[0], *y = &f->axis[1], *x = &f->axis[2];
    if (!c->copied)
        return (conv_source){ .base = (const float *)(const void *)conv_at(m, data, image, channel, 0),
                              .pixel = m->channels,
                              .line_floats = m->channels * x->size,
                              .lines = y->size };
    if (!f->taps) return (conv_source){ .base = copy };
    const int64_t l0 = p0 / x->points, l1 = (p1 - 1) / x->points, za = l0 / y->points, zb = l1 / y->points;
    int64_t z0, z1, y0, y1;
    conv_reach(z, za, zb, &z0, &z1);
    conv_reach(y, za == zb ? l0 % y->points : 0, za == zb ? l1 % y->points : y->points - 1, &y0, &y1);
    const int64_t width = c->left + x->size + c->right;
    conv_source s = { .base = copy, .pixel = channels, .line_floats = width * channels, .left = c->left, .z0 = z0, .y0 = y0 };
    s.lines = y1 - y0 + 1;
    for (int64_t iz = z0; iz <= z1; iz++) {
        float *to = copy + (iz - z0) * s.lines * s.line_floats;
        const int64_t pixel = (iz * y->size + y0) * x->size;
        if (!c->left && !c->right) {
            conv_load(m, data, image, channel, channels, pixel, s.lines * x->size, to, channels);
            continue;
        }
        for (int64_t l = 0; l < s.lines; l++, to += s.line_floats) {
            memset(to, 0, (size_t)(c->left * channels) * sizeof *to);
            conv_load(m, data, image, channel, channels, pixel + l * x->size, x->size, to + c->left * channels, channels);
            memset(to + (c->left + x->size) * channels, 0, (size_t)(c->right * channels) * sizeof *to);
        }
    }
    return s;
}

/* Points i of a line, begin <= i < end, whose tap at `off` lies inside of [0, size): *low <= i < *high. */
GEMM_INLINE void conv_inside(const conv_axis *a, int64_t off, int64_t begin, int64_t end, int64_t *low, int64_t *high)
{
    const bool one = a->mul == 1; /* a division takes as long as a vector of products */
    *low = off >= 0 ? begin : conv_max(begin, one ? -off : (-off + a->mul - 1) / a->mul);
    *high = off >= a->size ? begin : conv_min(end, one ? a->size - off : (a->size - 1 - off) / a->mul + 1);
    *low = conv_min(*low, end);
    *high = conv_max(*low, *high);
}

/* rows[tap·ld + i]: where tap reads for point p0 + i, or zeros. */
static CONV_UNUSED void conv_rows(const conv_phase *f, const conv_copy *c, const conv_source *s, int64_t p0, int64_t p1, const float *zeros,
                                  const float **rows, int64_t ld)
{
    const conv_axis *az = &f->axis[0], *ay = &f->axis[1], *ax = &f->axis[2];
    const int64_t x_taps = c->merged ? 1 : ax->taps;
    for (int64_t at = p0; at < p1;) {
        const int64_t line = at / ax->points, begin = at - line * ax->points, end = conv_min(ax->points, begin + p1 - at);
        const float **to = rows + (at - p0);
        for (int64_t jz = 0; jz < az->taps; jz++)
            for (int64_t jy = 0; jy < ay->taps; jy++) {
                const int64_t iz = line / ay->points * az->mul + az->off0 + jz * az->off_step,
                              iy = line % ay->points * ay->mul + ay->off0 + jy * ay->off_step;
                const bool inside = iz >= 0 && iz < az->size && iy >= 0 && iy < ay->size;
                for (int64_t jx = 0; jx < x_taps; jx++, to += ld) {
                    const int64_t off = ax->off0 + jx * ax->off_step, step = ax->mul * s->pixel;
                    int64_t low = begin, high = end;
                    if (!inside) high = low = end;
                    else if (!c->merged) conv_inside(ax, off, begin, end, &low, &high);
                    const float *from = s->base; /* of point `low` */
                    if (low < high)
                        from += ((iz - s->z0) * s->lines + iy - s->y0) * s->line_floats + (low * ax->mul + off + s->left) * s->pixel;
                    for (int64_t i = begin; i < low; i++) to[i - begin] = zeros;
                    for (int64_t i = low; i < high; i++, from += step) to[i - begin] = from;
                    for (int64_t i = high; i < end; i++) to[i - begin] = zeros;
                }
            }
        at += end - begin;
    }
}

/* ---- results ---------------------------------------------------------------------------------------------------------------------------------------- */

/* The pixel of the result that point (z, y, x) is. */
GEMM_INLINE int64_t conv_pixel(const conv_phase *f, const int64_t *size, int64_t z, int64_t y, int64_t x)
{
    const conv_axis *a = f->axis;
    return ((a[0].first + z * a[0].step) * size[1] + a[1].first + y * a[1].step) * size[2] + a[2].first + x * a[2].step;
}

GEMM_INLINE int64_t conv_place(const conv_phase *f, const int64_t *size, int64_t p)
{
    const conv_axis *y = &f->axis[1], *x = &f->axis[2];
    const int64_t line = p / x->points;
    return conv_pixel(f, size, line / y->points, line % y->points, p % x->points);
}

/* Where points p0, p0 + join, … < p1 are written, a channel further `pixel` floats: out[i] of every one. */
static CONV_UNUSED void conv_places(const conv_phase *f, const int64_t *size, float *first, int64_t pixel, int64_t p0, int64_t p1,
                                    int64_t join, float **out)
{
    const conv_axis *x = &f->axis[2];
    for (int64_t at = p0; at < p1;) { /* line by line; joined points never cross a line */
        const int64_t end = conv_min(p1, (at / x->points + 1) * x->points);
        float *to = first + conv_place(f, size, at) * pixel;
        for (; at < end; at += join, to += join * x->step * pixel) *out++ = to;
    }
}

/* A band of results [p0, p1) x channels, rows `ld` floats apart, to where they belong.  turned: channels·(p1 - p0) floats for row-major 16-bit results. */
static CONV_UNUSED void conv_store(const conv_phase *f, const int64_t *size, const conv_image *m, void *data, int64_t image,
                                   int64_t channel, int64_t channels, int64_t p0, int64_t p1, const float *from, int64_t ld, float *turned)
{
    const int64_t n = p1 - p0, elem = cj__elem_size(m->t);
    const bool dense = f->axis[0].step == 1 && f->axis[1].step == 1 && f->axis[2].step == 1;
    if (!m->last && !dense && m->t == CJ_F32) { /* every `step`-th number of a line of a plane */
        const conv_axis *x = &f->axis[2];
        for (int64_t at = p0, end; at < p1; at = end) {
            end = conv_min(p1, (at / x->points + 1) * x->points);
            float *plane = (float *)(uintptr_t)conv_at(m, data, image, channel, conv_place(f, size, at));
            for (int64_t c = 0; c < channels; c++, plane += m->pixels)
                for (int64_t k = 0; k < end - at; k++) plane[k * x->step] = from[(at - p0 + k) * ld + c];
        }
        return;
    }
    if (m->last || !dense) { /* pixel by pixel */
        for (int64_t i = 0; i < n; i++) {
            char *to = (char *)(uintptr_t)conv_at(m, data, image, channel, conv_place(f, size, p0 + i));
            if (m->last) CJ_K(cj__convert)(CJ_F32, from + i * ld, m->t, to, channels);
            else
                for (int64_t c = 0; c < channels; c++) CJ_K(cj__convert)(CJ_F32, from + i * ld + c, m->t, to + c * m->pixels * elem, 1);
        }
        return;
    }
    char *to = (char *)(uintptr_t)conv_at(m, data, image, channel, p0);
    if (m->t == CJ_F32) {
        pack((float *)(void *)to, m->pixels, from, 1, ld, channels, n, GEMM_F32);
        return;
    }
    pack(turned, n, from, 1, ld, channels, n, GEMM_F32);
    for (int64_t c = 0; c < channels; c++) CJ_K(cj__convert)(CJ_F32, turned + c * n, m->t, to + c * m->pixels * elem, n);
}

#endif
