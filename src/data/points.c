/* Generated points in the plane, each a classic picture of what a line cannot separate.
 *
 *   moons    two half circles that reach into each other: (cos t, sin t) and (1 - cos t, 1/2 - sin t), t in [0, pi)
 *   spirals  arms of one and a half turns: radius r in (0, 1], angle 3 pi r + 2 pi k / classes
 *   blobs    Gaussian clouds around the corners of a regular polygon of radius 4
 *   xor      clouds around the corners of the unit square; the class is x XOR y
 *
 * Classes alternate from row to row.  Sine, cosine and logarithm are those of core/philox.h: the same seed gives the same bits on every machine.
 */
#include "core/philox.h"
#include "data/dataset.h"

typedef struct draw {
    uint32_t key[2];
} draw;

/* Four words for point i; the second set of four is for its noise. */
static void words(const draw *d, int64_t i, int set, uint32_t out[4])
{
    cj_philox_block(d->key, CJ_CALL_POINTS, (uint64_t)i * 2 + (uint64_t)set, out);
}

static void add_noise(const draw *d, int64_t i, float deviation, float *p)
{
    uint32_t w[4];
    float g[2];
    words(d, i, 1, w);
    cj_philox_normal_f32(w[0], w[1], 0, deviation, g);
    p[0] += g[0];
    p[1] += g[1];
}

/* cos and sin of a fraction of the full circle. */
static void circle(double turn, float *x, float *y) { cj_philox_sincos_f32((uint32_t)(int64_t)((turn - floor(turn)) * 0x1p32), x, y); }

typedef void (*place_fn)(int64_t k, int64_t classes, const uint32_t w[4], float *p);

static bool points(cj_ctx *c, const char *name, const cj_dataset_opts *o, uint64_t seed, int64_t default_classes, int64_t max_classes,
                   double default_noise, place_fn place, cj_rows *r)
{
    int64_t n = o->n ? o->n : 1000, k = o->classes ? o->classes : default_classes;
    double noise = o->noise == CJ_ZERO ? 0 : o->noise == 0 ? default_noise : o->noise;
    if (n < 1 || n > INT32_MAX) return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s of %lld points", name, (long long)n);
    if (k < 2 || k > max_classes)
        return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s of %lld classes; 2 to %lld are possible", name, (long long)k,
                         (long long)max_classes);
    if (!(noise >= 0 && noise < 1e6)) return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s with noise %g", name, noise);
    if (!cj__rows_alloc(r, c, n, 2)) return false;
    r->classes = k;
    draw d;
    cj_philox_key(seed, CJ_STREAM_DATA, d.key);
    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];
        words(&d, i, 0, w);
        r->y[i] = (float)(i % k);
        place(i % k, k, w, r->x + 2 * i);
        if (noise > 0) add_noise(&d, i, (float)noise, r->x + 2 * i);
    }
    return true;
}

static void moons(int64_t k, int64_t classes, const uint32_t w[4], float *p)
{
    (void)classes;
    circle(0.5 * cj_philox_unit_f32(w[0]), &p[0], &p[1]);
    if (k == 0) return;
    p[0] = 1 - p[0];
    p[1] = 0.5f - p[1];
}

static void spirals(int64_t k, int64_t classes, const uint32_t w[4], float *p)
{
    float r = 1 - cj_philox_unit_f32(w[0]);
    circle(1.5 * r + (double)k / (double)classes, &p[0], &p[1]);
    p[0] *= r;
    p[1] *= r;
}

static void blobs(int64_t k, int64_t classes, const uint32_t w[4], float *p)
{
    (void)w;
    circle((double)k / (double)classes, &p[0], &p[1]);
    p[0] *= 4;
    p[1] *= 4;
}

static void exclusive_or(int64_t k, int64_t classes, const uint32_t w[4], float *p)
{
    (void)classes;
    int x = (int)(w[0] & 1);
    p[0] = (float)x;
    p[1] = (float)(x ^ (int)k);
}

#define MAKER(maker, name, classes, most, noise)                                                                                           \
    bool cj__points_##maker(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)                   \
    {                                                                                                                                      \
        (void)e;                                                                                                                           \
        return points(c, #maker, o, seed, classes, most, noise, name, out);                                                                \
    }
MAKER(moons, moons, 2, 2, 0.1)
MAKER(spirals, spirals, 2, 10, 0.02)
MAKER(blobs, blobs, 3, 10, 1.0)
MAKER(xor, exclusive_or, 2, 2, 0.1)
