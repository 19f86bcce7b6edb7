/* Images changed in their values: blurred, in two levels, along their colours, with their pixels in another order, on other backgrounds, mixed. */
#include <math.h>

#include "data/augment.h"

/* What is drawn for a sample here is apart from what cj_augment draws for it. */
enum { FOR_BACKGROUND = 1, FOR_MIX = 2 };

cj_tensor *cj_blur(cj_tensor *x, double sigma, int64_t radius)
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_blur", &p), *room = NULL;
    if (!v) return NULL;
    size_t bytes = (size_t)cj__image_size(&p) * sizeof *room;
    bool ok = sigma >= 0 && 3 * sigma <= CJ_BLUR_RADIUS && radius >= 0 && radius <= CJ_BLUR_RADIUS;
    if (!ok)
        cj__error(c, CJ_EVALUE, "cj_blur: a sigma of 0 … %d and a radius of 0 … %d were expected, %g and %lld were found",
                  CJ_BLUR_RADIUS / 3, CJ_BLUR_RADIUS, sigma, (long long)radius);
    if (ok) room = cj__alloc(c, bytes);
    if (!room) return cj__images_free(c, &p, v), NULL;
    for (int64_t i = 0; i < p.n && (sigma > 0 || radius > 0); i++) cj__blur(v + i * cj__image_size(&p), room, &p, sigma, radius);
    cj__free(c, room, bytes);
    return cj__images_tensor(c, &p, v);
}

cj_tensor *cj_channel_threshold(cj_tensor *x, const double *threshold, double high)
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_channel_threshold", &p);
    if (!v) return NULL;
    for (int64_t k = 0; k < p.channels; k++)
        if (!threshold || !(threshold[k] <= high)) { /* what became `high` must stay so */
            cj__images_free(c, &p, v);
            return cj__error(c, CJ_EVALUE, "cj_channel_threshold: thresholds of at most %g were expected, %g was found", high,
                             threshold ? threshold[k] : NAN),
                   NULL;
        }
    int64_t area = p.height * p.width;
    for (int64_t i = 0; i < p.n * p.channels * area; i++) v[i] = v[i] >= (float)threshold[i / area % p.channels] ? (float)high : 0;
    return cj__images_tensor(c, &p, v);
}

/* ---- colours --------------------------------------------------------------------------------------------------------------------------------------- */

/* Jacobi's method (1846): rotations that take the off-diagonal elements of a symmetric a to zero; the columns of v become its eigenvectors. */
static void jacobi3(double a[3][3], double v[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) v[i][j] = i == j;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < 2; p++)
            for (int q = p + 1; q < 3; q++) {
                if (a[p][q] == 0) continue;
                double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]), t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double k = 1 / sqrt(t * t + 1), s = t * k;
                for (int i = 0; i < 3; i++) { /* a J */
                    double x = a[i][p], y = a[i][q];
                    a[i][p] = k * x - s * y;
                    a[i][q] = s * x + k * y;
                    x = v[i][p], y = v[i][q];
                    v[i][p] = k * x - s * y;
                    v[i][q] = s * x + k * y;
                }
                for (int i = 0; i < 3; i++) { /* Jᵀ (a J) */
                    double x = a[p][i], y = a[q][i];
                    a[p][i] = k * x - s * y;
                    a[q][i] = s * x + k * y;
                }
            }
}

bool cj_colour_axes(cj_tensor *x, double axes[9])
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_colour_axes", &p);
    if (!v) return false;
    if (p.channels != 3) {
        cj__images_free(c, &p, v);
        return cj__error(c, CJ_ESHAPE, "cj_colour_axes: 3 channels were expected, %lld were found", (long long)p.channels);
    }
    int64_t area = p.height * p.width, n = p.n * area;
    double mean[3] = { 0 }, a[3][3] = { { 0 } }, e[3][3];
    for (int64_t i = 0; i < 3 * n; i++) mean[i / area % 3] += v[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const float *first = v + i / area * 3 * area + i % area;
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++) a[k][l] += (first[k * area] - mean[k]) * (first[l * area] - mean[l]) / (double)n;
    }
    cj__images_free(c, &p, v);
    jacobi3(a, e);
    int order[3] = { 0, 1, 2 };
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (a[order[j]][order[j]] > a[order[i]][order[i]]) {
                int t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) axes[3 * i + k] = a[order[i]][order[i]] * e[k][order[i]];
    return true;
}

/* ---- order ------------------------------------------------------------------------------------------------------------------------------------------ */

cj_tensor *cj_permute_pixels(cj_tensor *x, uint64_t seed, bool back)
{
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_permute_pixels", &p);
    if (!v) return NULL;
    int64_t area = p.height * p.width;
    size_t bytes = (size_t)area * sizeof(int64_t), row = (size_t)area * sizeof(float);
    int64_t *order = cj__alloc(c, bytes);
    float *old = order ? cj__alloc(c, row) : NULL;
    cj_draws d = cj__draws(seed, 0, 0, 3);
    for (int64_t i = 0; old && i < area; i++) order[i] = i;
    for (int64_t i = area - 1; old && i > 0; i--) { /* Fisher and Yates */
        int64_t j = cj__draw_below(&d, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int64_t k = 0; old && k < p.n * p.channels; k++) {
        float *plane = v + k * area;
        memcpy(old, plane, row);
        for (int64_t i = 0; i < area; i++) plane[back ? order[i] : i] = old[back ? i : order[i]];
    }
    bool ok = old != NULL;
    if (old) cj__free(c, old, row);
    if (order) cj__free(c, order, bytes);
    if (ok) return cj__images_tensor(c, &p, v);
    cj__images_free(c, &p, v);
    return NULL;
}

/* ---- two images ------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_replace_background(cj_tensor *x, cj_tensor *mask, cj_tensor *backgrounds, const cj_background_opts *opts)
{
    static const cj_background_opts defaults;
    const cj_background_opts *o = opts ? opts : &defaults;
    cj_images p, q = { 0 }, r = { 0 };
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_replace_background", &p), *m = NULL, *b = NULL;
    if (!v) return NULL;
    m = cj__images_of(mask, "cj_replace_background: mask", &q);
    if (m) b = cj__images_of(backgrounds, "cj_replace_background: backgrounds", &r);
    bool ok = b && q.n == p.n && q.channels == 1 && q.height == p.height && q.width == p.width && r.channels == p.channels &&
              r.height == p.height && r.width == p.width;
    if (b && !ok)
        cj__error(c, CJ_ESHAPE, "cj_replace_background: a mask [n, 1, H, W] and backgrounds [m, C, H, W] of x %s were expected",
                  cj__tensor_text(x));
    int64_t one = cj__image_size(&p), area = p.height * p.width;
    for (int64_t i = 0; ok && i < p.n; i++) {
        cj_draws d = cj__draws(o->seed, o->epoch, o->samples ? o->samples[i] : i, FOR_BACKGROUND);
        const float *other = b + cj__draw_below(&d, r.n) * one, *w = m + i * area;
        for (int64_t k = 0; k < one; k++) {
            float s = w[k % area], *at = v + i * one + k;
            *at = s == 1 ? *at : s * *at + (1 - s) * other[k]; /* the object keeps its bits */
        }
    }
    if (m) cj__images_free(c, &q, m);
    if (b) cj__images_free(c, &r, b);
    if (ok) return cj__images_tensor(c, &p, v);
    cj__images_free(c, &p, v);
    return NULL;
}

/* Gamma(a, 1) by Marsaglia and Tsang (2000); a < 1 through Gamma(a + 1) u^(1/a). */
static double gamma_draw(cj_draws *d, double a)
{
    double boost = 1;
    if (a < 1) {
        boost = pow(1 - cj__draw_unit(d), 1 / a);
        a += 1;
    }
    double t = a - 1.0 / 3, k = 1 / sqrt(9 * t);
    for (;;) {
        double z = cj__draw_normal(d), v = 1 + k * z;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(1 - cj__draw_unit(d)) < 0.5 * z * z + t - t * v + t * log(v)) return t * v * boost;
    }
}

/* A rectangle of share^(1/2) of both sides around a random centre, cut at the border; returns the share that it really has. */
static double paste(float *to, const float *from, const cj_images *p, double share, cj_draws *d)
{
    int64_t h = (int64_t)(sqrt(share) * (double)p->height), w = (int64_t)(sqrt(share) * (double)p->width);
    int64_t top = cj__draw_below(d, p->height) - h / 2, left = cj__draw_below(d, p->width) - w / 2, bottom = top + h, right = left + w;
    top = top < 0 ? 0 : top;
    left = left < 0 ? 0 : left;
    bottom = bottom > p->height ? p->height : bottom;
    right = right > p->width ? p->width : right;
    for (int64_t k = 0; k < p->channels; k++)
        for (int64_t i = top; i < bottom; i++)
            for (int64_t j = left; j < right; j++) to[(k * p->height + i) * p->width + j] = from[(k * p->height + i) * p->width + j];
    return (double)((bottom - top) * (right - left)) / (double)(p->height * p->width);
}

static void mix_rows(const float *x, const float *y, float *xx, float *yy, const cj_images *p, int64_t classes, const cj_mix_opts *o)
{
    int64_t one = cj__image_size(p);
    double alpha = o->alpha > 0 ? o->alpha : 1;
    for (int64_t i = 0; i < p->n; i++) {
        cj_draws d = cj__draws(o->seed, o->epoch, o->samples ? o->samples[i] : i, FOR_MIX);
        int64_t j = cj__draw_below(&d, p->n);
        double a = gamma_draw(&d, alpha), b = gamma_draw(&d, alpha), keep = a + b > 0 ? a / (a + b) : 0.5;
        memcpy(xx + i * one, x + i * one, (size_t)one * sizeof *x);
        if (o->cut) keep = 1 - paste(xx + i * one, x + j * one, p, 1 - keep, &d);
        else
            for (int64_t k = 0; k < one; k++) xx[i * one + k] = (float)(keep * x[i * one + k] + (1 - keep) * x[j * one + k]);
        for (int64_t k = 0; k < classes; k++) yy[i * classes + k] = (float)(keep * y[i * classes + k] + (1 - keep) * y[j * classes + k]);
    }
}

bool cj_mix(cj_tensor *x, cj_tensor *y, cj_tensor **mixed_x, cj_tensor **mixed_y, const cj_mix_opts *opts)
{
    static const cj_mix_opts defaults;
    const cj_mix_opts *o = opts ? opts : &defaults;
    *mixed_x = *mixed_y = NULL;
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_mix", &p), *label = NULL, *out = NULL;
    if (!v) return false;
    bool ok = cj__usable(c, "cj_mix", 1, y);
    if (ok && (cj_ndim(y) != 2 || cj_dtype_of(y) != CJ_F32 || cj_size(y, 0) != p.n))
        ok = cj__error(c, CJ_ESHAPE, "cj_mix: y f32 [%lld, classes] was expected, %s was found", (long long)p.n, cj__tensor_text(y));
    if (ok && !(o->alpha >= 0 && o->alpha < 1e6))
        ok = cj__error(c, CJ_EVALUE, "cj_mix: an alpha above 0 was expected, %g was found", o->alpha);
    int64_t classes = ok ? cj_size(y, 1) : 0, numbers = p.n * classes;
    size_t bytes = (size_t)(p.n * cj__image_size(&p)) * sizeof *v, labels = (size_t)(2 * numbers + 1) * sizeof *v;
    if (ok) label = cj__alloc(c, labels);
    if (label && cj_to_f32(y, label, numbers)) out = cj__alloc(c, bytes);
    if (out) {
        mix_rows(v, label, out, label + numbers, &p, classes, o);
        *mixed_x = cj__images_tensor(c, &p, out);
        *mixed_y = cj_from_f32(c, label + numbers, CJ_SHAPE(p.n, classes));
    }
    if (label) cj__free(c, label, labels);
    cj__images_free(c, &p, v);
    return c->error == CJ_OK;
}
