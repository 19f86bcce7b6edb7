/* Samples of resampling: interpolation and its transpose, pixels and channels, grids, regions. */
#include "ops/samples_list.h"

/* at: mode, align_corners; shape: the size of the result. */
static cj_interpolate_opts interpolate_opts(const cj_sample *s)
{
    return (cj_interpolate_opts){ .size = s->shape, .mode = (cj_interpolation)s->at[0], .align_corners = s->at[1] };
}
CALL(resized)
{
    cj_interpolate_opts o = interpolate_opts(s);
    (void)c;
    return cj_interpolate(in[0], &o);
}
/* The input is a result; shape: the size before. */
CALL(resized_back)
{
    cj_interpolate_opts o = interpolate_opts(s);
    cj_shape size = o.size;
    o.size = (cj_shape){ .ndim = size.ndim };
    memcpy(o.size.dim, cj__shape(in[0]).dim + 2, (size_t)size.ndim * sizeof(int64_t));
    (void)c;
    return cj__interpolate_transpose(in[0], size, &o);
}
CALL(shuffled)
{
    UNUSED;
    return cj_pixel_shuffle(in[0], s->at[0]);
}
CALL(unshuffled)
{
    UNUSED;
    return cj_pixel_unshuffle(in[0], s->at[0]);
}
/* at: mode, padding, align_corners */
CALL(sampled)
{
    UNUSED;
    return cj_grid_sample(
        in[0], in[1], &(cj_grid_opts){ .mode = (cj_interpolation)s->at[0], .padding = (cj_pad_mode)s->at[1], .align_corners = s->at[2] });
}
CALL(affine)
{
    UNUSED;
    return cj_affine_grid(in[0], s->shape, s->at[0]);
}

/* Boxes made of the input's numbers would sit on kinks: three boxes of image 0, away from them. at: sampling_ratio, aligned. */
static cj_tensor *boxes_of(cj_ctx *c, const cj_tensor *like)
{
    static const double corner[3][5] = { { 0, 0.3, 0.6, 3.7, 4.2 }, { 0, 1.1, -0.4, 6.3, 2.9 }, { 0, 2.2, 2.3, 2.4, 2.6 } };
    cj_tensor *box[3];
    for (int k = 0; k < 3; k++) {
        cj_tensor *number[5];
        for (int i = 0; i < 5; i++) number[i] = cj_full(c, corner[k][i], CJ_SCALAR, CJ_F64); /* an operator, so that a plan has it */
        box[k] = cj_stack(number, 5, 0);
    }
    (void)like;
    return cj_stack(box, 3, 0);
}
static cj_roi_opts roi_opts(const cj_sample *s)
{
    return (cj_roi_opts){ .size = CJ_SHAPE(2, 3), .spatial_scale = 0.75, .sampling_ratio = s->at[0], .aligned = s->at[1] };
}
CALL(region_align)
{
    cj_roi_opts o = roi_opts(s);
    return cj_roi_align(in[0], boxes_of(c, in[0]), &o);
}
CALL(region_spread)
{
    cj_roi_opts o = roi_opts(s);
    return cj__roi_align_transpose(in[0], boxes_of(c, in[0]), s->shape, &o);
}
CALL(region_pool)
{
    cj_roi_opts o = roi_opts(s);
    return cj_roi_pool(in[0], boxes_of(c, in[0]), &o);
}

static void interpolations(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const struct {
        const char *label;
        cj_shape x, size;
        int mode, align;
    } sizes[] = {
        { "nearest, twice", CJ_SHAPE(1, 2, 3, 4), CJ_SHAPE(6, 8), CJ_INTERP_NEAREST, 0 },
        { "nearest, fewer", CJ_SHAPE(2, 1, 7), CJ_SHAPE(3), CJ_INTERP_NEAREST, 0 },
        { "nearest exact", CJ_SHAPE(1, 1, 3, 5), CJ_SHAPE(7, 4), CJ_INTERP_NEAREST_EXACT, 0 },
        { "linear", CJ_SHAPE(2, 2, 5), CJ_SHAPE(8), CJ_INTERP_LINEAR, 0 },
        { "bilinear, twice", CJ_SHAPE(1, 2, 3, 4), CJ_SHAPE(6, 8), CJ_INTERP_LINEAR, 0 },
        { "bilinear, corners", CJ_SHAPE(1, 2, 3, 4), CJ_SHAPE(5, 9), CJ_INTERP_LINEAR, 1 },
        { "bilinear, fewer", CJ_SHAPE(1, 1, 7, 6), CJ_SHAPE(3, 2), CJ_INTERP_LINEAR, 0 },
        { "trilinear", CJ_SHAPE(1, 1, 2, 3, 4), CJ_SHAPE(3, 5, 6), CJ_INTERP_LINEAR, 0 },
        { "trilinear, corners, fewer", CJ_SHAPE(1, 1, 4, 3, 5), CJ_SHAPE(2, 2, 3), CJ_INTERP_LINEAR, 1 },
        { "bicubic", CJ_SHAPE(1, 2, 4, 3), CJ_SHAPE(7, 8), CJ_INTERP_CUBIC, 0 },
        { "bicubic, corners", CJ_SHAPE(1, 1, 4, 5), CJ_SHAPE(3, 8), CJ_INTERP_CUBIC, 1 },
        { "to one pixel", CJ_SHAPE(1, 2, 3, 4), CJ_SHAPE(1, 1), CJ_INTERP_LINEAR, 1 },
        { "empty batch", CJ_SHAPE(0, 2, 3, 4), CJ_SHAPE(6, 8), CJ_INTERP_LINEAR, 0 },
        { "large", CJ_SHAPE(2, 5, 67, 61), CJ_SHAPE(135, 122), CJ_INTERP_LINEAR, 0 },
        { "large, fewer", CJ_SHAPE(2, 5, 131, 141), CJ_SHAPE(37, 23), CJ_INTERP_CUBIC, 0 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const bool back = IS("interpolate_transpose");
        if (!back && !IS("interpolate")) return;
        const unsigned flags = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | (i >= 13 ? CJ_SAMPLE_LARGE : 0);
        cj_shape y = sizes[i].x, before = { .ndim = sizes[i].size.ndim };
        memcpy(before.dim, y.dim + 2, (size_t)before.ndim * sizeof(int64_t));
        memcpy(y.dim + 2, sizes[i].size.dim, (size_t)before.ndim * sizeof(int64_t));
        cj_sample *s = input(add(l, sizes[i].label, back ? resized_back : resized, flags), back ? y : sizes[i].x, real);
        s->shape = back ? before : sizes[i].size;
        s->at[0] = sizes[i].mode, s->at[1] = sizes[i].align;
        s->terms = 16;
    }
}

static void grids(cj_sample_list *l)
{
    const struct {
        const char *label;
        cj_shape x, grid;
        int64_t at[3];
        bool large;
    } cases[] = {
        { "bilinear, zeros", CJ_SHAPE(2, 2, 3, 4), CJ_SHAPE(2, 2, 3, 2), { CJ_INTERP_LINEAR, CJ_PAD_ZERO, 0 }, false },
        { "bilinear, border, corners", CJ_SHAPE(1, 2, 4, 3), CJ_SHAPE(1, 3, 2, 2), { CJ_INTERP_LINEAR, CJ_PAD_REPLICATE, 1 }, false },
        { "bilinear, reflection", CJ_SHAPE(1, 1, 5, 4), CJ_SHAPE(1, 3, 3, 2), { CJ_INTERP_LINEAR, CJ_PAD_REFLECT, 0 }, false },
        { "bilinear, reflection, corners", CJ_SHAPE(1, 1, 5, 4), CJ_SHAPE(1, 3, 3, 2), { CJ_INTERP_LINEAR, CJ_PAD_REFLECT, 1 }, false },
        { "nearest", CJ_SHAPE(1, 2, 4, 4), CJ_SHAPE(1, 3, 2, 2), { CJ_INTERP_NEAREST, CJ_PAD_ZERO, 0 }, false },
        { "bicubic", CJ_SHAPE(1, 2, 4, 5), CJ_SHAPE(1, 2, 2, 2), { CJ_INTERP_CUBIC, CJ_PAD_ZERO, 0 }, false },
        { "bicubic, reflection", CJ_SHAPE(1, 1, 4, 5), CJ_SHAPE(1, 2, 2, 2), { CJ_INTERP_CUBIC, CJ_PAD_REFLECT, 1 }, false },
        { "three axes", CJ_SHAPE(1, 2, 3, 2, 4), CJ_SHAPE(1, 2, 1, 2, 3), { CJ_INTERP_LINEAR, CJ_PAD_ZERO, 0 }, false },
        { "empty", CJ_SHAPE(0, 2, 3, 4), CJ_SHAPE(0, 2, 3, 2), { CJ_INTERP_LINEAR, CJ_PAD_ZERO, 0 }, false },
        { "large", CJ_SHAPE(2, 7, 21, 23), CJ_SHAPE(2, 31, 33, 2), { CJ_INTERP_LINEAR, CJ_PAD_ZERO, 0 }, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cj_sample *s = add(l, cases[i].label, sampled, CJ_SAMPLE_FLOAT | (cases[i].large ? CJ_SAMPLE_LARGE : 0));
        input(input(s, cases[i].x, CJ_DOMAIN_REAL), cases[i].grid, CJ_DOMAIN_BETWEEN); /* between pixels: off the kinks */
        memcpy(s->at, cases[i].at, sizeof cases[i].at);
        s->terms = 16;
    }
}

void cj__samples_resample(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    interpolations(l, name);
    if (IS("pixel_shuffle") || IS("pixel_unshuffle")) {
        const bool back = IS("pixel_unshuffle");
        const struct {
            const char *label;
            cj_shape x, y;
            int64_t factor;
        } cases[] = { { "by two", CJ_SHAPE(2, 8, 2, 3), CJ_SHAPE(2, 2, 4, 6), 2 },
                      { "one image, by three", CJ_SHAPE(9, 2, 2), CJ_SHAPE(1, 6, 6), 3 },
                      { "empty", CJ_SHAPE(0, 4, 2, 3), CJ_SHAPE(0, 1, 4, 6), 2 },
                      { "large", CJ_SHAPE(2, 12, 31, 33), CJ_SHAPE(2, 3, 62, 66), 2 } };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            cj_sample *s = add(l, cases[i].label, back ? unshuffled : shuffled, CJ_SAMPLE_EXACT | (i == 3 ? CJ_SAMPLE_LARGE : 0));
            input(s, back ? cases[i].y : cases[i].x, real)->at[0] = cases[i].factor;
        }
    }
    if (IS("grid_sample")) grids(l);
    if (IS("affine_grid")) {
        cj_sample *s = input(add(l, "plane", affine, CJ_SAMPLE_FLOAT), CJ_SHAPE(2, 2, 3), real);
        s->shape = CJ_SHAPE(2, 1, 3, 4), s->terms = 3;
        s = input(add(l, "plane, corners", affine, CJ_SAMPLE_FLOAT), CJ_SHAPE(1, 2, 3), real);
        s->shape = CJ_SHAPE(1, 1, 2, 5), s->at[0] = 1, s->terms = 3;
        s = input(add(l, "space", affine, CJ_SAMPLE_FLOAT), CJ_SHAPE(1, 3, 4), real);
        s->shape = CJ_SHAPE(1, 1, 2, 3, 2), s->terms = 4;
    }
    const struct {
        const char *label;
        int64_t at[2];
    } regions[] = { { "two samples", { 2, 0 } }, { "adaptive, aligned", { 0, 1 } } };
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
        const unsigned flags = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT;
        cj_sample *s = NULL;
        if (IS("roi_align")) s = input(add(l, regions[i].label, region_align, flags), CJ_SHAPE(2, 3, 5, 6), real);
        if (IS("roi_align_transpose")) s = input(add(l, regions[i].label, region_spread, flags), CJ_SHAPE(3, 3, 2, 3), real);
        if (IS("roi_pool")) s = input(add(l, regions[i].label, region_pool, flags), CJ_SHAPE(2, 2, 5, 6), CJ_DOMAIN_DISTINCT);
        if (!s) continue;
        s->shape = CJ_SHAPE(2, 3, 5, 6);
        memcpy(s->at, regions[i].at, sizeof regions[i].at);
        s->terms = IS("roi_pool") ? 0 : 16;
    }
}
