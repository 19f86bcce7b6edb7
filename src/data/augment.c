/* Random changes of images.  Image i draws from Philox with the key of (seed, data stream), the epoch as call number and its own number in the block:
 * random access, no state.
 */
#include <math.h>

#include "data/augment.h"

/* ---- draws -------------------------------------------------------------------------------------------------------------------------------------- */

cj_draws cj__draws(uint64_t seed, int64_t epoch, int64_t sample, unsigned purpose)
{
    /* bit 31 keeps away from the order of the epoch (cj_data_order), which has the blocks from 0 on */
    cj_draws d = { .call = (uint64_t)epoch, .block = (uint64_t)sample << 32 | 1u << 31 | (uint64_t)purpose << 29, .used = 4 };
    cj_philox_key(seed, CJ_STREAM_DATA, d.key);
    return d;
}

uint32_t cj__draw_word(cj_draws *d)
{
    if (d->used == 4) {
        cj_philox_block(d->key, d->call, d->block++, d->w);
        d->used = 0;
    }
    return d->w[d->used++];
}

double cj__draw_unit(cj_draws *d) { return cj_philox_unit_f32(cj__draw_word(d)); }
double cj__draw_within(cj_draws *d, double most) { return most * (2 * cj__draw_unit(d) - 1); }

int64_t cj__draw_below(cj_draws *d, int64_t n)
{
    uint32_t low = cj__draw_word(d), high = cj__draw_word(d);
    return (int64_t)cj_philox_below(cj_philox_word64(low, high), (uint64_t)n);
}

float cj__draw_normal(cj_draws *d)
{
    float g[2];
    uint32_t a = cj__draw_word(d), b = cj__draw_word(d);
    cj_philox_normal_f32(a, b, 0, 1, g);
    return g[0];
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------------------- */

static void photometric(float *v, int64_t n, double contrast, double brightness)
{
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += v[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) v[i] = (float)(contrast * (v[i] - mean) + mean + brightness);
}

static void noise(float *v, int64_t n, cj_draws *d, float deviation)
{
    for (int64_t i = 0; i < n; i += 2) {
        float g[2];
        uint32_t a = cj__draw_word(d), b = cj__draw_word(d);
        cj_philox_normal_f32(a, b, 0, deviation, g);
        v[i] += g[0];
        if (i + 1 < n) v[i + 1] += g[1];
    }
}

static void mask(float *v, const cj_images *p, const cj_augment_opts *o, cj_draws *d)
{
    int64_t top = cj__draw_below(d, p->height - o->mask + 1), left = cj__draw_below(d, p->width - o->mask + 1), area = p->height * p->width;
    for (int64_t k = 0; k < p->channels; k++) {
        double mean = 0;
        for (int64_t i = 0; o->mask_mean && i < area; i++) mean += v[k * area + i];
        float fill = (float)(mean / (double)area);
        for (int64_t i = 0; i < o->mask; i++)
            for (int64_t j = 0; j < o->mask; j++) v[k * area + (top + i) * p->width + left + j] = fill;
    }
}

/* Along the rows, then along the columns: the Gaussian of the plane is the product of two. */
void cj__blur(float *v, float *room, const cj_images *p, double sigma, int64_t radius)
{
    int64_t reach = sigma > 0 ? (int64_t)ceil(3 * sigma) : radius;
    double w[CJ_BLUR_RADIUS + 1] = { 1 }, sum = 0;
    for (int64_t k = 0; k <= reach; k++) {
        w[k] = sigma > 0 ? exp(-(double)(k * k) / (2 * sigma * sigma)) : 1;
        sum += k ? 2 * w[k] : w[k];
    }
    for (int axis = 0; axis < 2; axis++) {
        const float *from = axis ? room : v;
        float *to = axis ? v : room;
        int64_t last = axis ? p->height - 1 : p->width - 1, stride = axis ? p->width : 1;
        for (int64_t k = 0; k < p->channels * p->height * p->width; k++) {
            int64_t at = k % (p->height * p->width) / stride % (last + 1);
            double mean = w[0] * from[k];
            for (int64_t r = 1; r <= reach; r++)
                mean += w[r] * ((double)from[k - (at < r ? at : r) * stride] + (double)from[k + (last - at < r ? last - at : r) * stride]);
            to[k] = (float)(mean / sum);
        }
    }
}

/* ---- all of it ---------------------------------------------------------------------------------------------------------------------------------- */

static void into(float *v, const float *room, const cj_images *p) { memcpy(v, room, (size_t)cj__image_size(p) * sizeof *v); }

static void geometry(float *v, float *room, const cj_images *p, const cj_augment_opts *o, cj_draws *d)
{
    if (o->rotate > 0 || o->scale > 0 || o->shear > 0) {
        double angle = cj__draw_within(d, o->rotate) * 0.017453292519943295, size = 1 + cj__draw_within(d, o->scale);
        double s = cj__draw_within(d, o->shear), cosine = cos(angle) * size, sine = sin(angle) * size;
        /* rotation · shear: rows [cos, -sin; sin, cos] times [1, 0; s, 1] on (row, column) */
        cj_affine_map m = cj__affine(p, (double[]){ cosine - sine * s, -sine, 0, sine + cosine * s, cosine, 0 });
        cj__resample(v, room, p, cj__affine_place, &m);
        into(v, room, p);
    }
    if (o->perspective > 0) {
        double y = (double)(p->height - 1), x = (double)(p->width - 1), h[9], back[9];
        const double from[8] = { 0, 0, 0, x, y, 0, y, x };
        double to[8];
        for (int k = 0; k < 8; k++) { /* inwards: away from 0, or back from the far side */
            double step = o->perspective * cj__draw_unit(d) * (k % 2 ? x : y);
            to[k] = from[k] == 0 ? step : from[k] - step;
        }
        if (cj__homography(from, to, h) && cj__projective_inverse(h, back)) {
            cj__resample(v, room, p, cj__projective_place, back);
            into(v, room, p);
        }
    }
    if (o->lens > 0) {
        cj_lens lens = cj__lens(p, cj__draw_within(d, o->lens), 0);
        cj__resample(v, room, p, cj__lens_place, &lens);
        into(v, room, p);
    }
    if (o->pad > 0) {
        int64_t down = cj__draw_below(d, 2 * o->pad + 1) - o->pad, right = cj__draw_below(d, 2 * o->pad + 1) - o->pad;
        cj__move(v, room, p, down, right, o->pad_mode);
        into(v, room, p);
    }
}

static void values(float *v, float *room, const cj_images *p, const cj_augment_opts *o, cj_draws *d)
{
    int64_t one = cj__image_size(p), area = p->height * p->width;
    if (o->blur > 0) {
        double sigma = o->blur * cj__draw_unit(d);
        if (sigma > 0) cj__blur(v, room, p, sigma, 0);
    }
    if (o->contrast > 0 || o->brightness > 0) {
        double k = 1 + cj__draw_within(d, o->contrast), b = cj__draw_within(d, o->brightness);
        photometric(v, one, k, b);
    }
    if (o->colour > 0) {
        double shift[3] = { 0 };
        for (int i = 0; i < 3; i++) {
            double alpha = o->colour * cj__draw_normal(d);
            for (int k = 0; k < 3; k++) shift[k] += alpha * o->colour_axes[3 * i + k];
        }
        for (int64_t i = 0; i < one; i++) v[i] += (float)shift[i / area];
    }
    if (o->noise > 0) noise(v, one, d, (float)o->noise);
    if (o->high > o->low)
        for (int64_t i = 0; i < one; i++) v[i] = v[i] < (float)o->low ? (float)o->low : v[i] > (float)o->high ? (float)o->high : v[i];
}

void cj__augment_image(float *v, float *room, const cj_images *p, const cj_augment_opts *o, int64_t sample)
{
    cj_draws d = cj__draws(o->seed, o->epoch, sample, 0);
    if (o->flip > 0 && cj__draw_unit(&d) < o->flip) cj__mirror(v, p, false);
    if (o->flip_vertical > 0 && cj__draw_unit(&d) < o->flip_vertical) cj__mirror(v, p, true);
    geometry(v, room, p, o, &d);
    values(v, room, p, o, &d);
    if (o->mask > 0) mask(v, p, o, &d);
}

bool cj__augment_allowed(cj_ctx *c, const cj_augment_opts *o, const cj_images *p)
{
    const int most_blur = CJ_BLUR_RADIUS / 3; /* the kernel reaches three standard deviations */
    const struct {
        const char *name;
        double value, below;
    } strength[] = { { "flip", o->flip, 1.0000001 },
                     { "flip_vertical", o->flip_vertical, 1.0000001 },
                     { "scale", o->scale, 1 },
                     { "rotate", o->rotate, 1e6 },
                     { "shear", o->shear, 1e6 },
                     { "contrast", o->contrast, 1e6 },
                     { "brightness", o->brightness, 1e6 },
                     { "noise", o->noise, 1e6 },
                     { "perspective", o->perspective, 0.5 },
                     { "lens", o->lens, 1.0 / 3 },
                     { "blur", o->blur, most_blur },
                     { "colour", o->colour, 1e6 } };
    for (size_t i = 0; i < sizeof strength / sizeof strength[0]; i++)
        if (!(strength[i].value >= 0 && strength[i].value < strength[i].below))
            return cj__error(c, CJ_EVALUE, "cj_augment: .%s of 0 or more and below %.4g was expected, %g was found", strength[i].name,
                             strength[i].below, strength[i].value);
    if (o->pad < 0 || o->pad > 65536 || o->mask < 0 || o->mask > p->height || o->mask > p->width)
        return cj__error(c, CJ_EVALUE, "cj_augment: a pad and a mask that fit %lld x %lld were expected, %lld and %lld were found",
                         (long long)p->height, (long long)p->width, (long long)o->pad, (long long)o->mask);
    if ((int)o->pad_mode < CJ_PAD_ZERO || o->pad_mode > CJ_PAD_REPLICATE)
        return cj__error(c, CJ_EVALUE, "cj_augment: .pad_mode is no cj_pad_mode: %d", (int)o->pad_mode);
    if (o->colour > 0 && (p->channels != 3 || !o->colour_axes))
        return cj__error(c, CJ_EVALUE, "cj_augment: .colour needs 3 channels and .colour_axes; there are %lld channels%s",
                         (long long)p->channels, o->colour_axes ? "" : " and no axes");
    if (!(o->low <= o->high)) return cj__error(c, CJ_EVALUE, "cj_augment: .low = %g is above .high = %g", o->low, o->high);
    return true;
}

cj_tensor *cj_augment(cj_tensor *x, const cj_augment_opts *opts)
{
    static const cj_augment_opts defaults;
    const cj_augment_opts *o = opts ? opts : &defaults;
    cj_images p;
    cj_ctx *c = cj_tensor_ctx(x);
    float *v = cj__images_of(x, "cj_augment", &p);
    if (!v) return NULL;
    int64_t one = cj__image_size(&p);
    float *room = cj__augment_allowed(c, o, &p) ? cj__alloc(c, (size_t)one * sizeof *room) : NULL;
    for (int64_t i = 0; room && i < p.n; i++) cj__augment_image(v + i * one, room, &p, o, o->samples ? o->samples[i] : i);
    if (room) {
        cj__free(c, room, (size_t)one * sizeof *room);
        return cj__images_tensor(c, &p, v);
    }
    cj__images_free(c, &p, v);
    return NULL;
}

bool cj_augment_set(cj_tensor *x, cj_tensor *y, cj_tensor **more_x, cj_tensor **more_y, const cj_augment_opts *opts)
{
    *more_x = *more_y = NULL;
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, "cj_augment_set", 0, x) || !cj__usable(c, "cj_augment_set", 1, y)) return false;
    if (cj_ndim(x) < 1 || cj_ndim(y) < 1 || cj_size(x, 0) != cj_size(y, 0))
        return cj__error(c, CJ_ESHAPE, "cj_augment_set: x %s and y %s have different numbers of rows", cj__tensor_text(x),
                         cj__tensor_text(y));
    cj_tensor *other = (cj_augment)(x, opts);
    if (!other) return false;
    *more_x = cj_cat((cj_tensor *[]){ x, other }, 2, 0);
    *more_y = cj_cat((cj_tensor *[]){ y, y }, 2, 0);
    return c->error == CJ_OK;
}
