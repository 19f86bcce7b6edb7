/* Geometry of images: affine, projective and lens maps, shifts and mirrors.
 *
 * Every new pixel looks up where it came from, so a map is given by its inverse; between pixels bilinearly, zero outside.
 */
#include <math.h>

#include "data/augment.h"

float *cj__images_of(cj_tensor *x, const char *op, cj_images *p)
{
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, op, 0, x)) return NULL;
    if (cj_ndim(x) != 4 || cj_dtype_of(x) != CJ_F32 || cj_numel(x) == 0)
        return cj__error(c, CJ_ESHAPE, "%s: f32 [n, channels, height, width] was expected, %s was found", op, cj__tensor_text(x)), NULL;
    *p = (cj_images){ cj_size(x, 0), cj_size(x, 1), cj_size(x, 2), cj_size(x, 3) };
    float *v = cj__alloc(c, (size_t)cj_numel(x) * sizeof *v);
    if (v && !cj_to_f32(x, v, cj_numel(x))) {
        cj__images_free(c, p, v);
        v = NULL;
    }
    return v;
}

void cj__images_free(cj_ctx *c, const cj_images *p, float *v) { cj__free(c, v, (size_t)(p->n * cj__image_size(p)) * sizeof *v); }

cj_tensor *cj__images_tensor(cj_ctx *c, const cj_images *p, float *v)
{
    cj_tensor *t = cj_from_f32(c, v, CJ_SHAPE(p->n, p->channels, p->height, p->width));
    cj__images_free(c, p, v);
    return t;
}

/* ---- resampling -------------------------------------------------------------------------------------------------------------------------------- */

static float pixel(const float *v, const cj_images *p, int64_t i, int64_t j)
{
    return i >= 0 && i < p->height && j >= 0 && j < p->width ? v[i * p->width + j] : 0;
}

void cj__resample(const float *from, float *to, const cj_images *p, cj_place_fn place, const void *user)
{
    int64_t area = p->height * p->width;
    for (int64_t i = 0; i < p->height; i++)
        for (int64_t j = 0; j < p->width; j++) {
            double sy = (double)i, sx = (double)j;
            place(user, &sy, &sx);
            double fy = floor(sy), fx = floor(sx);
            bool far = !(fy >= -1 && fx >= -1 && fy <= (double)p->height && fx <= (double)p->width); /* also where the map has no value */
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

/* All images of x through a map; takes `from` away. */
static cj_tensor *resample_all(cj_ctx *c, const cj_images *p, float *from, cj_place_fn place, const void *user)
{
    int64_t one = cj__image_size(p);
    float *to = cj__alloc(c, (size_t)(p->n * one) * sizeof *to);
    for (int64_t i = 0; to && i < p->n; i++) cj__resample(from + i * one, to + i * one, p, place, user);
    cj__images_free(c, p, from);
    return to ? cj__images_tensor(c, p, to) : NULL;
}

/* ---- affine maps ------------------------------------------------------------------------------------------------------------------------------- */

cj_affine_map cj__affine(const cj_images *p, const double m[6])
{
    double det = m[0] * m[4] - m[1] * m[3];
    return (cj_affine_map){ .a = m[4] / det,
                            .b = -m[1] / det,
                            .c = -m[3] / det,
                            .d = m[0] / det,
                            .row = (double)(p->height - 1) / 2,
                            .column = (double)(p->width - 1) / 2,
                            .down = m[2],
                            .right = m[5] };
}

void cj__affine_place(const void *affine, double *i, double *j)
{
    const cj_affine_map *m = affine;
    double y = *i - m->row - m->down, x = *j - m->column - m->right;
    *i = m->a * y + m->b * x + m->row;
    *j = m->c * y + m->d * x + m->column;
}

cj_tensor *cj_warp(cj_tensor *x, const double m[6])
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *from = cj__images_of(x, "cj_warp", &p);
    if (!from) return NULL;
    double det = m ? m[0] * m[4] - m[1] * m[3] : 0;
    if (!m || !(fabs(det) > 1e-12) || !isfinite(det) || !isfinite(m[2]) || !isfinite(m[5])) {
        cj__images_free(c, &p, from);
        return cj__error(c, CJ_EVALUE, "cj_warp: a map that can be undone was expected, its determinant is %g", det), NULL;
    }
    cj_affine_map map = cj__affine(&p, m);
    return resample_all(c, &p, from, cj__affine_place, &map);
}

/* ---- projective maps --------------------------------------------------------------------------------------------------------------------------- */

/* Gauss's elimination with pivots; false where a is singular. */
static bool solve8(double a[8][9])
{
    for (int k = 0; k < 8; k++) {
        int best = k;
        for (int i = k + 1; i < 8; i++)
            if (fabs(a[i][k]) > fabs(a[best][k])) best = i;
        if (!(fabs(a[best][k]) > 1e-10)) return false;
        for (int j = 0; j < 9; j++) {
            double t = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = t;
        }
        for (int i = 0; i < 8; i++) {
            double f = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < 9 && f != 0; j++) a[i][j] -= f * a[k][j];
        }
    }
    for (int k = 0; k < 8; k++) a[k][8] /= a[k][k];
    return true;
}

/* u (h6 y + h7 x + 1) = h0 y + h1 x + h2 and the same for v: two equations for each point. */
bool cj__homography(const double from[8], const double to[8], double h[9])
{
    double a[8][9];
    for (int k = 0; k < 4; k++) {
        double y = from[2 * k], x = from[2 * k + 1], u = to[2 * k], v = to[2 * k + 1];
        memcpy(a[2 * k], (double[]){ y, x, 1, 0, 0, 0, -u * y, -u * x, u }, sizeof a[0]);
        memcpy(a[2 * k + 1], (double[]){ 0, 0, 0, y, x, 1, -v * y, -v * x, v }, sizeof a[0]);
    }
    if (!solve8(a)) return false;
    for (int k = 0; k < 8; k++) h[k] = a[k][8];
    h[8] = 1;
    return true;
}

bool cj_homography(cj_ctx *c, const double from[8], const double to[8], double h[9])
{
    if (!c) return false;
    double other[9];
    bool ok = from && to && h && cj__homography(from, to, h) && cj__projective_inverse(h, other);
    return ok || cj__error(c, CJ_EVALUE, "cj_homography: four points and four others were expected, no three of which lie on a line");
}

/* The adjugate: a multiple of the inverse, which is the same map. */
bool cj__projective_inverse(const double h[9], double v[9])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int a = (j + 1) % 3, b = (j + 2) % 3, k = (i + 1) % 3, l = (i + 2) % 3;
            v[3 * i + j] = h[3 * a + k] * h[3 * b + l] - h[3 * a + l] * h[3 * b + k];
        }
    double det = h[0] * v[0] + h[1] * v[3] + h[2] * v[6];
    for (int i = 0; i < 9; i++) v[i] /= det;
    return isfinite(det) && fabs(det) > 1e-12;
}

void cj__projective_place(const void *inverse, double *i, double *j)
{
    const double *h = inverse, y = *i, x = *j, w = h[6] * y + h[7] * x + h[8];
    *i = (h[0] * y + h[1] * x + h[2]) / w;
    *j = (h[3] * y + h[4] * x + h[5]) / w;
}

cj_tensor *cj_warp_perspective(cj_tensor *x, const double h[9])
{
    cj_images p;
    double inverse[9];
    cj_ctx *c = cj_tensor_ctx(x);
    float *from = cj__images_of(x, "cj_warp_perspective", &p);
    if (!from) return NULL;
    if (!h || !cj__projective_inverse(h, inverse)) {
        cj__images_free(c, &p, from);
        return cj__error(c, CJ_EVALUE, "cj_warp_perspective: a map that can be undone was expected, its determinant is 0 or not finite"),
               NULL;
    }
    return resample_all(c, &p, from, cj__projective_place, inverse);
}

/* ---- lenses ------------------------------------------------------------------------------------------------------------------------------------ */

/* Does r (1 + k1 r² + k2 r⁴) grow on 0 … 1?  Its derivative 1 + 3 k1 s + 5 k2 s² with s = r² is least at an end or where 3 k1 + 10 k2 s = 0. */
static bool lens_grows(double k1, double k2)
{
    double turn = k2 != 0 ? -3 * k1 / (10 * k2) : 0;
    double at = turn > 0 && turn < 1 ? 1 + 3 * k1 * turn + 5 * k2 * turn * turn : 1;
    return isfinite(k1) && isfinite(k2) && at > 1e-6 && 1 + 3 * k1 + 5 * k2 > 1e-6;
}

/* Newton's method between two ends that always hold the root. */
double cj_lens_undo(double k1, double k2, double far)
{
    if (!lens_grows(k1, k2) || !(far >= 0 && far <= 1 + k1 + k2)) return NAN;
    double low = 0, high = 1, r = far < 1 ? far : 1;
    for (int k = 0; k < 100; k++) {
        double s = r * r, gap = r * (1 + s * (k1 + k2 * s)) - far;
        if (gap > 0) high = r;
        else low = r;
        double next = r - gap / (1 + s * (3 * k1 + 5 * k2 * s));
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        if (fabs(next - r) < 1e-14) return next;
        r = next;
    }
    return r;
}

cj_lens cj__lens(const cj_images *p, double k1, double k2)
{
    double row = (double)(p->height - 1) / 2, column = (double)(p->width - 1) / 2, unit = sqrt(row * row + column * column);
    return (cj_lens){ k1, k2, row, column, unit > 0 ? unit : 1 };
}

void cj__lens_place(const void *lens, double *i, double *j)
{
    const cj_lens *m = lens;
    double y = *i - m->row, x = *j - m->column, far = sqrt(y * y + x * x) / m->unit;
    if (m->k1 == 0 && m->k2 == 0) return;
    double share = far > 0 ? cj_lens_undo(m->k1, m->k2, far) / far : 1; /* NaN: nothing came from there */
    *i = m->row + y * share;
    *j = m->column + x * share;
}

cj_tensor *cj_warp_lens(cj_tensor *x, double k1, double k2)
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *from = cj__images_of(x, "cj_warp_lens", &p);
    if (!from) return NULL;
    if (!lens_grows(k1, k2)) {
        cj__images_free(c, &p, from);
        return cj__error(c, CJ_EVALUE,
                         "cj_warp_lens: a radius that grows was expected, 1 + 3 k1 r^2 + 5 k2 r^4 > 0; k1 = %g, k2 = %g were found", k1,
                         k2),
               NULL;
    }
    cj_lens lens = cj__lens(&p, k1, k2);
    return resample_all(c, &p, from, cj__lens_place, &lens);
}

/* ---- shifts and mirrors ------------------------------------------------------------------------------------------------------------------------ */

/* The row or column that the mode has for i of n; -1: zero.  Reflected without repeating the border: 2 1 | 0 1 2 | 1 0. */
static int64_t beyond(int64_t i, int64_t n, cj_pad_mode mode)
{
    if (i >= 0 && i < n) return i;
    switch (mode) {
    case CJ_PAD_REPLICATE: return i < 0 ? 0 : n - 1;
    case CJ_PAD_CYCLIC: return (i % n + n) % n;
    case CJ_PAD_REFLECT: {
        if (n == 1) return 0;
        int64_t period = 2 * (n - 1), k = (i % period + period) % period;
        return k < n ? k : period - k;
    }
    default: return -1;
    }
}

void cj__move(const float *from, float *to, const cj_images *p, int64_t down, int64_t right, cj_pad_mode mode)
{
    int64_t w = p->width, inside = right < 0 ? w + right : w - right; /* columns that stay */
    if (inside < 0) inside = 0;
    for (int64_t k = 0; k < p->channels; k++)
        for (int64_t i = 0; i < p->height; i++) {
            float *row = to + (k * p->height + i) * w;
            int64_t r = beyond(i - down, p->height, mode);
            if (r < 0) {
                memset(row, 0, (size_t)w * sizeof *row);
                continue;
            }
            const float *old = from + (k * p->height + r) * w;
            int64_t first = inside == 0 ? 0 : right > 0 ? right : 0, last = first + inside;
            if (mode == CJ_PAD_ZERO) {
                for (int64_t j = 0; j < first; j++) row[j] = 0;
                for (int64_t j = first; j < last; j++) row[j] = old[j - right];
                for (int64_t j = last; j < w; j++) row[j] = 0;
                continue;
            }
            for (int64_t j = 0; j < w; j++) {
                if (j == first && inside > 0) { /* the middle as it is */
                    memcpy(row + j, old + j - right, (size_t)inside * sizeof *row);
                    j = last - 1;
                    continue;
                }
                int64_t s = beyond(j - right, w, mode);
                row[j] = s < 0 ? 0 : old[s];
            }
        }
}

/* Whole pixels by moving, the rest between them: (1-u) of the lower whole shift and u of the next. */
cj_tensor *cj_shift(cj_tensor *x, double down, double right, bool wrap)
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *from = cj__images_of(x, "cj_shift", &p);
    if (!from) return NULL;
    if (!(fabs(down) < 1e6 && fabs(right) < 1e6)) {
        cj__images_free(c, &p, from);
        return cj__error(c, CJ_EVALUE, "cj_shift: shifts below a million pixels were expected, %g and %g were found", down, right), NULL;
    }
    int64_t one = cj__image_size(&p), di = (int64_t)floor(down), dj = (int64_t)floor(right);
    float u = (float)(down - floor(down)), w = (float)(right - floor(right)),
          share[4] = { (1 - u) * (1 - w), (1 - u) * w, u * (1 - w), u * w };
    size_t bytes = (size_t)one * sizeof(float);
    float *to = cj__alloc(c, (size_t)p.n * bytes), *room = to ? cj__alloc(c, bytes) : NULL;
    for (int64_t i = 0; room && i < p.n; i++) {
        float *out = to + i * one;
        for (int k = 0; k < 4; k++) {
            if (k > 0 && share[k] == 0) continue;
            cj__move(from + i * one, k ? room : out, &p, di + k / 2, dj + k % 2, wrap ? CJ_PAD_CYCLIC : CJ_PAD_ZERO);
            if (k == 0 && share[0] == 1) break; /* whole pixels keep their bits */
            for (int64_t j = 0; j < one; j++) out[j] = k ? out[j] + share[k] * room[j] : share[0] * out[j];
        }
    }
    cj__images_free(c, &p, from);
    if (room) {
        cj__free(c, room, bytes);
        return cj__images_tensor(c, &p, to);
    }
    cj__free(c, to, (size_t)p.n * bytes);
    return NULL;
}

void cj__mirror(float *v, const cj_images *p, bool vertical)
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

cj_tensor *cj_mirror(cj_tensor *x, bool vertical)
{
    cj_images p;
    float *v = cj__images_of(x, "cj_mirror", &p);
    for (int64_t i = 0; v && i < p.n; i++) cj__mirror(v + i * cj__image_size(&p), &p, vertical);
    return v ? cj__images_tensor(cj_tensor_ctx(x), &p, v) : NULL;
}

/* What was the far edge is the near one: xmin' = W - xmax, xmax' = W - xmin. */
cj_tensor *cj_mirror_boxes(cj_tensor *boxes, double size, bool vertical)
{
    cj_ctx *c = cj_tensor_ctx(boxes);
    if (!c || !cj__usable(c, "cj_mirror_boxes", 0, boxes)) return NULL;
    if (cj_ndim(boxes) != 2 || cj_size(boxes, 1) != 4 || cj_dtype_of(boxes) != CJ_F32)
        return cj__error(c, CJ_ESHAPE, "cj_mirror_boxes: f32 [n, 4] was expected, %s was found", cj__tensor_text(boxes)), NULL;
    int64_t n = cj_size(boxes, 0);
    size_t bytes = (size_t)(n ? n : 1) * 4 * sizeof(float);
    float *v = cj__alloc(c, bytes);
    bool ok = v && cj_to_f32(boxes, v, 4 * n);
    for (int64_t i = 0; ok && i < n; i++) {
        float *low = v + 4 * i + vertical, *high = low + 2, near = *low;
        *low = (float)size - *high;
        *high = (float)size - near;
    }
    cj_tensor *t = ok ? cj_from_f32(c, v, CJ_SHAPE(n, 4)) : NULL;
    cj__free(c, v, bytes);
    return t;
}
