/* Images of floats in host memory: what augmentation and the loader's threads share.  Nothing here touches a context or allocates. */
#ifndef CJ_DATA_AUGMENT_H
#define CJ_DATA_AUGMENT_H

#include "core/philox.h"
#include "data/file.h"

typedef struct cj_images {
    int64_t n, channels, height, width;
} cj_images;

static inline int64_t cj__image_size(const cj_images *p) { return p->channels * p->height * p->width; }

/* Host copy of x f32 [n, channels, height, width]; NULL after an error.  And back to a tensor, which takes the copy away. */
float *cj__images_of(cj_tensor *x, const char *op, cj_images *p);
cj_tensor *cj__images_tensor(cj_ctx *c, const cj_images *p, float *v);
void cj__images_free(cj_ctx *c, const cj_images *p, float *v);

/* ---- random numbers of a sample ------------------------------------------------------------------------------------------------------------- */

typedef struct cj_draws {
    uint32_t key[2], w[4];
    uint64_t call, block;
    int used;
} cj_draws;
/* purpose tells apart what is drawn for the same sample in the same epoch. */
cj_draws cj__draws(uint64_t seed, int64_t epoch, int64_t sample, unsigned purpose);
uint32_t cj__draw_word(cj_draws *d);
double cj__draw_unit(cj_draws *d);                /* 0 … 1 */
double cj__draw_within(cj_draws *d, double most); /* -most … most */
int64_t cj__draw_below(cj_draws *d, int64_t n);   /* 0 … n-1 */
float cj__draw_normal(cj_draws *d);

/* ---- one image; `from` and `to` do not overlap ------------------------------------------------------------------------------------------------- */

/* Where the new pixel (i, j) came from: *i, *j in, *i, *j out. */
typedef void (*cj_place_fn)(const void *user, double *i, double *j);
void cj__resample(const float *from, float *to, const cj_images *p, cj_place_fn place, const void *user);

typedef struct cj_affine_map {
    double a, b, c, d, row, column, down, right; /* the inverse matrix, the centre, the shift */
} cj_affine_map;
cj_affine_map cj__affine(const cj_images *p, const double m[6]);
void cj__affine_place(const void *affine, double *i, double *j);

bool cj__homography(const double from[8], const double to[8], double h[9]);
bool cj__projective_inverse(const double h[9], double inverse[9]);
void cj__projective_place(const void *inverse, double *i, double *j);

typedef struct cj_lens {
    double k1, k2, row, column, unit;
} cj_lens;
cj_lens cj__lens(const cj_images *p, double k1, double k2);
void cj__lens_place(const void *lens, double *i, double *j);

void cj__mirror(float *v, const cj_images *p, bool vertical);
/* Moved by whole pixels over what the mode puts beyond the border. */
void cj__move(const float *from, float *to, const cj_images *p, int64_t down, int64_t right, cj_pad_mode mode);
enum { CJ_BLUR_RADIUS = 64 };
void cj__blur(float *v, float *room, const cj_images *p, double sigma, int64_t radius);

/* ---- all changes ----------------------------------------------------------------------------------------------------------------------------- */

bool cj__augment_allowed(cj_ctx *c, const cj_augment_opts *o, const cj_images *p);
/* Image v, with room for one more, as sample `sample` of o->epoch. */
void cj__augment_image(float *v, float *room, const cj_images *p, const cj_augment_opts *o, int64_t sample);

#endif
