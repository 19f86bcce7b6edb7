/* Augmentation of batches of images.  Image i draws from Philox with the key of (seed, data stream), the epoch as call number and its own number in the block:
 * random access, no state.
 */
#include <math.h>

#include "core/philox.h"
#include "data/file.h"

typedef struct plane {
    int64_t n, channels, height, width;
} plane;

/* Host copies in and out; NULL after an error. */
static float *images_of(cj_tensor *x, const char *op, plane *p)
{
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, op, 0, x)) return NULL;
    if (cj_ndim(x) != 4 || cj_dtype_of(x) != CJ_F32 || cj_numel(x) == 0)
        return cj__error(c, CJ_ESHAPE, "%s: f32 [n, channels, height, width] was expected, %s was found", op, cj__tensor_text(x)), NULL;
    *p = (plane){ cj_size(x, 0), cj_size(x, 1), cj_size(x, 2), cj_size(x, 3) };
    float *v = cj__alloc(c, (size_t)cj_numel(x) * sizeof *v);
    if (v && !cj_to_f32(x, v, cj_numel(x))) {
        cj__free(c, v, (size_t)cj_numel(x) * sizeof *v);
        v = NULL;
    }
    return v;
}

static cj_tensor *tensor_of(cj_ctx *c, const plane *p, float *v)
{
    size_t bytes = (size_t)(p->n * p->channels * p->height * p->width) * sizeof *v;
    cj_tensor *t = cj_from_f32(c, v, CJ_SHAPE(p->n, p->channels, p->height, p->width));
    cj__free(c, v, bytes);
    return t;
}

static float pixel(const float *v, const plane *p, int64_t i, int64_t j)
{
    return i >= 0 && i < p->height && j >= 0 && j < p->width ? v[i * p->width + j] : 0;
}

/* One image through the map; from and to do not overlap. */
static void warp(const float *from, float *to, const plane *p, const double m[6])
{
    double det = m[0] * m[4] - m[1] * m[3], row = (double)(p->height - 1) / 2, column = (double)(p->width - 1) / 2;
    double a = m[4] / det, b = -m[1] / det, k = -m[3] / det, d = m[0] / det; /* the inverse */
    int64_t area = p->height * p->width;
    for (int64_t i = 0; i < p->height; i++)
        for (int64_t j = 0; j < p->width; j++) {
            double y = (double)i - row - m[2], x = (double)j - column - m[5], sy = a * y + b * x + row, sx = k * y + d * x + column;
            double fy = floor(sy), fx = floor(sx);
            bool far = !(fy >= -1 && fx >= -1 && fy <= (double)p->height && fx <= (double)p->width);
            int64_t r = far ? -2 : (int64_t)fy, s = far ? -2 : (int64_t)fx;
            float u = (float)(sy - fy), w = (float)(sx - fx);
            for (int64_t c = 0; c < p->channels; c++) {
                const float *v = from + c * area;
                float top = (1 - w) * pixel(v, p, r, s) + w * pixel(v, p, r, s + 1),
                      bottom = (1 - w) * pixel(v, p, r + 1, s) + w * pixel(v, p, r + 1, s + 1);
                to[c * area + i * p->width + j] = far ? 0 : (1 - u) * top + u * bottom;
            }
        }
}

cj_tensor *cj_warp(cj_tensor *x, const double m[6])
{
    plane p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *from = images_of(x, "cj_warp", &p);
    if (!from) return NULL;
    int64_t one = p.channels * p.height * p.width;
    size_t bytes = (size_t)(p.n * one) * sizeof *from;
    double det = m ? m[0] * m[4] - m[1] * m[3] : 0;
    bool ok = m && fabs(det) > 1e-12 && isfinite(det) && isfinite(m[2]) && isfinite(m[5]);
    if (!ok) cj__error(c, CJ_EVALUE, "cj_warp: a map that can be undone was expected, its determinant is %g", det);
    float *to = ok ? cj__alloc(c, bytes) : NULL;
    for (int64_t i = 0; to && i < p.n; i++) warp(from + i * one, to + i * one, &p, m);
    cj__free(c, from, bytes);
    return to ? tensor_of(c, &p, to) : NULL;
}

/* ---- random changes --------------------------------------------------------------------------------------------------------------------------- */

typedef struct draw {
    uint32_t key[2], w[4];
    uint64_t call, block;
    int used;
} draw;

static uint32_t word(draw *d)
{
    if (d->used == 4) {
        cj_philox_block(d->key, d->call, d->block++, d->w);
        d->used = 0;
    }
    return d->w[d->used++];
}
static double unit(draw *d) { return cj_philox_unit_f32(word(d)); }
static double within(draw *d, double most) { return most * (2 * unit(d) - 1); }
static int64_t below(draw *d, int64_t n)
{
    uint32_t low = word(d), high = word(d);
    return (int64_t)cj_philox_below(cj_philox_word64(low, high), (uint64_t)n);
}

static void mirror(float *v, const plane *p, bool vertical)
{
    for (int64_t k = 0; k < p->channels; k++)
        for (int64_t i = 0; i < (vertical ? p->height / 2 : p->height); i++)
            for (int64_t j = 0; j < (vertical ? p->width : p->width / 2); j++) {
                float *a = v + (k * p->height + i) * p->width + j;
                float *b = vertical ? v + (k * p->height + p->height - 1 - i) * p->width + j
                                    : v + (k * p->height + i) * p->width + p->width - 1 - j,
                      t = *a;
                *a = *b;
                *b = t;
            }
}

static void photometric(float *v, int64_t n, double contrast, double brightness)
{
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += v[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) v[i] = (float)(contrast * (v[i] - mean) + mean + brightness);
}

static void noise(float *v, int64_t n, draw *d, float deviation)
{
    for (int64_t i = 0; i < n; i += 2) {
        float g[2];
        uint32_t a = word(d), b = word(d);
        cj_philox_normal_f32(a, b, 0, deviation, g);
        v[i] += g[0];
        if (i + 1 < n) v[i + 1] += g[1];
    }
}

/* What warp does where the map only moves: whole rows, zeros where nothing came from. */
static void shift(const float *from, float *to, const plane *p, int64_t down, int64_t right)
{
    int64_t first = right > 0 ? right : 0, last = right < 0 ? p->width + right : p->width;
    memset(to, 0, (size_t)(p->channels * p->height * p->width) * sizeof *to);
    for (int64_t k = 0; k < p->channels && first < last; k++)
        for (int64_t i = 0; i < p->height; i++)
            if (i - down >= 0 && i - down < p->height)
                memcpy(to + (k * p->height + i) * p->width + first, from + (k * p->height + i - down) * p->width + first - right,
                       (size_t)(last - first) * sizeof *to);
}

/* Image v, with room for one more. */
static void change(float *v, float *room, const plane *p, const cj_augment_opts *o, draw *d)
{
    int64_t one = p->channels * p->height * p->width;
    if (o->flip > 0 && unit(d) < o->flip) mirror(v, p, false);
    if (o->flip_vertical > 0 && unit(d) < o->flip_vertical) mirror(v, p, true);
    if (o->rotate > 0 || o->scale > 0 || o->shear > 0 || o->pad > 0) {
        double angle = within(d, o->rotate) * 0.017453292519943295, size = 1 + within(d, o->scale), s = within(d, o->shear);
        double cosine = cos(angle) * size, sine = sin(angle) * size;
        int64_t down = o->pad > 0 ? below(d, 2 * o->pad + 1) - o->pad : 0, right = o->pad > 0 ? below(d, 2 * o->pad + 1) - o->pad : 0;
        /* rotation · shear: rows [cos, -sin; sin, cos] times [1, 0; s, 1] on (row, column) */
        const double map[6] = { cosine - sine * s, -sine, (double)down, sine + cosine * s, cosine, (double)right };
        if (o->rotate > 0 || o->scale > 0 || o->shear > 0) warp(v, room, p, map);
        else shift(v, room, p, down, right);
        memcpy(v, room, (size_t)one * sizeof *v);
    }
    if (o->contrast > 0 || o->brightness > 0) {
        double k = 1 + within(d, o->contrast), b = within(d, o->brightness);
        photometric(v, one, k, b);
    }
    if (o->noise > 0) noise(v, one, d, (float)o->noise);
    if (o->mask > 0) {
        int64_t top = below(d, p->height - o->mask + 1), left = below(d, p->width - o->mask + 1);
        for (int64_t k = 0; k < p->channels; k++)
            for (int64_t i = 0; i < o->mask; i++) memset(v + (k * p->height + top + i) * p->width + left, 0, (size_t)o->mask * sizeof *v);
    }
}

static bool allowed(cj_ctx *c, const cj_augment_opts *o, const plane *p)
{
    const double share[] = { o->flip, o->flip_vertical, o->scale, o->contrast, o->brightness, o->noise, o->rotate, o->shear };
    for (int i = 0; i < 8; i++)
        if (!(share[i] >= 0 && share[i] < 1e6) || (i < 2 && share[i] > 1) || (i == 2 && share[i] >= 1))
            return cj__error(
                c, CJ_EVALUE,
                "cj_augment: probabilities of 0 … 1, a scale below 1 and strengths that are not negative were expected, %g was found",
                share[i]);
    if (o->pad < 0 || o->pad > 65536 || o->mask < 0 || o->mask > p->height || o->mask > p->width)
        return cj__error(c, CJ_EVALUE, "cj_augment: a pad and a mask that fit %lld x %lld were expected, %lld and %lld were found",
                         (long long)p->height, (long long)p->width, (long long)o->pad, (long long)o->mask);
    return true;
}

cj_tensor *cj_augment(cj_tensor *x, const cj_augment_opts *opts)
{
    static const cj_augment_opts defaults;
    const cj_augment_opts *o = opts ? opts : &defaults;
    plane p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = images_of(x, "cj_augment", &p);
    if (!v) return NULL;
    int64_t one = p.channels * p.height * p.width;
    float *room = allowed(c, o, &p) ? cj__alloc(c, (size_t)one * sizeof *room) : NULL;
    for (int64_t i = 0; room && i < p.n; i++) {
        draw d = { .call = (uint64_t)o->epoch, .block = (uint64_t)(o->samples ? o->samples[i] : i) << 32, .used = 4 };
        cj_philox_key(o->seed, CJ_STREAM_DATA, d.key);
        change(v + i * one, room, &p, o, &d);
    }
    if (room) {
        cj__free(c, room, (size_t)one * sizeof *room);
        return tensor_of(c, &p, v);
    }
    cj__free(c, v, (size_t)(p.n * one) * sizeof *v);
    return NULL;
}
