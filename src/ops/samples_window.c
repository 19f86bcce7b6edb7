/* Samples of convolution and pooling. */
#include "ops/samples_list.h"

/* at: stride, padding, dilation, groups. */
static cj_conv_opts conv_opts(const cj_sample *s)
{
    return (cj_conv_opts){ .stride = s->at[0], .padding = s->at[1], .dilation = s->at[2], .groups = s->at[3] };
}
CALL(convolve)
{
    cj_conv_opts o = conv_opts(s);
    (void)c;
    return cj_conv(in[0], in[1], NULL, &o);
}
CALL(convolve_transposed)
{
    (void)c;
    return cj_conv_transpose(
        in[0], in[1], NULL, &(cj_conv_transpose_opts){ .stride = s->at[0], .padding = s->at[1], .dilation = s->at[2], .groups = s->at[3] });
}
CALL(weight_of)
{
    cj_conv_opts o = conv_opts(s);
    (void)c;
    return cj__conv_weight(in[0], in[1], s->shape, &o);
}

CALL(gradients_of)
{
    cj_conv_opts o = conv_opts(s);
    cj_tensor *both[2];
    (void)c;
    cj__conv_gradients(in[0], in[1], in[2], &o, both);
    for (int i = 0; i < 2; i++) both[i] = cj_flatten(both[i], 0);
    return cj_cat(both, 2, 0);
}

/* at: kernel, stride, padding. */
static cj_pool_opts pool_opts(const cj_sample *s) { return (cj_pool_opts){ .kernel = s->at[0], .stride = s->at[1], .padding = s->at[2] }; }
CALL(pool_max)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    return cj_max_pool(in[0], &o).value;
}
CALL(pool_values)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    o.values_only = true;
    return cj_max_pool(in[0], &o).value;
}
CALL(pool_avg)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    return cj_avg_pool(in[0], &o);
}
/* in[1]: an image that says where the maxima are. */
CALL(put)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    return cj__window_put(in[0], cj_max_pool(in[1], &o).index, s->shape, &o);
}
CALL(put_taps)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    return cj__window_put_taps(in[0], in[1], &o);
}
CALL(spread)
{
    cj_pool_opts o = pool_opts(s);
    (void)c;
    return cj__window_spread(in[0], s->shape, &o);
}

void cj__samples_window(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    /* x, w, dy of the same convolutions; stride, padding, dilation, groups */
    const struct {
        const char *label;
        cj_shape x, w, y;
        int64_t at[4];
        double terms;
    } convs[] = {
        { "one axis", CJ_SHAPE(2, 3, 7), CJ_SHAPE(2, 3, 3), CJ_SHAPE(2, 2, 5), { 1, 0, 1, 1 }, 9 },
        { "two axes, padded", CJ_SHAPE(1, 2, 4, 5), CJ_SHAPE(2, 2, 3, 3), CJ_SHAPE(1, 2, 4, 5), { 1, 1, 1, 1 }, 18 },
        { "stride and groups", CJ_SHAPE(2, 4, 5, 5), CJ_SHAPE(2, 2, 3, 3), CJ_SHAPE(2, 2, 3, 3), { 2, 1, 1, 2 }, 18 },
        { "dilated, depthwise", CJ_SHAPE(1, 3, 7, 7), CJ_SHAPE(3, 1, 3, 3), CJ_SHAPE(1, 3, 3, 3), { 1, 0, 2, 3 }, 9 },
        { "depthwise, padded", CJ_SHAPE(2, 5, 6, 9), CJ_SHAPE(5, 1, 3, 3), CJ_SHAPE(2, 5, 6, 9), { 1, 1, 1, 5 }, 9 },
        { "1x1", CJ_SHAPE(2, 3, 3, 4), CJ_SHAPE(4, 3, 1, 1), CJ_SHAPE(2, 4, 3, 4), { 1, 0, 1, 1 }, 4 },
        { "three axes", CJ_SHAPE(1, 2, 3, 4, 3), CJ_SHAPE(2, 2, 2, 2, 2), CJ_SHAPE(1, 2, 2, 3, 2), { 1, 0, 1, 1 }, 16 },
        { "empty batch", CJ_SHAPE(0, 3, 7), CJ_SHAPE(2, 3, 3), CJ_SHAPE(0, 2, 5), { 1, 0, 1, 1 }, 9 },
        { "large", CJ_SHAPE(3, 20, 33, 31), CJ_SHAPE(37, 20, 3, 3), CJ_SHAPE(3, 37, 33, 31), { 1, 1, 1, 1 }, 3069 },
    };
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
        const unsigned flags = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | (i == sizeof convs / sizeof convs[0] - 1 ? CJ_SAMPLE_LARGE : 0);
        cj_sample *s = NULL;
        if (IS("conv")) s = input(input(add(l, convs[i].label, convolve, flags), convs[i].x, real), convs[i].w, real);
        if (IS("conv_data")) s = input(input(add(l, convs[i].label, convolve_transposed, flags), convs[i].y, real), convs[i].w, real);
        if (IS("conv_weight")) s = input(input(add(l, convs[i].label, weight_of, flags), convs[i].x, real), convs[i].y, real);
        if (IS("conv_gradients"))
            s = input(input(input(add(l, convs[i].label, gradients_of, flags), convs[i].y, real), convs[i].w, real), convs[i].x, real);
        if (!s) continue;
        memcpy(s->at, convs[i].at, sizeof s->at);
        s->shape.ndim = convs[i].w.ndim - 2;
        memcpy(s->shape.dim, convs[i].w.dim + 2, (size_t)s->shape.ndim * sizeof(int64_t));
        s->terms = convs[i].terms;
    }
    const struct {
        const char *label;
        cj_shape x, y;
        int64_t at[3];
    } pools[] = {
        { "one axis", CJ_SHAPE(2, 2, 8), CJ_SHAPE(2, 2, 4), { 2, 2, 0 } },
        { "overlapping, padded", CJ_SHAPE(1, 2, 7, 6), CJ_SHAPE(1, 2, 4, 3), { 3, 2, 1 } },
        { "three axes", CJ_SHAPE(1, 1, 4, 4, 5), CJ_SHAPE(1, 1, 2, 2, 2), { 2, 2, 0 } },
        { "empty batch", CJ_SHAPE(0, 2, 8), CJ_SHAPE(0, 2, 4), { 2, 2, 0 } },
        { "large", CJ_SHAPE(2, 7, 61, 67), CJ_SHAPE(2, 7, 30, 33), { 2, 2, 0 } },
    };
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        const unsigned flags = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | (i == 4 ? CJ_SAMPLE_LARGE : 0);
        cj_sample *s = NULL;
        if (IS("max_pool")) s = input(add(l, pools[i].label, pool_max, flags), pools[i].x, CJ_DOMAIN_DISTINCT);
        if (IS("window_put")) s = input(input(add(l, pools[i].label, put, flags), pools[i].y, real), pools[i].x, CJ_DOMAIN_DISTINCT);
        if (IS("max_pool_values")) s = input(add(l, pools[i].label, pool_values, flags), pools[i].x, CJ_DOMAIN_DISTINCT);
        if (IS("window_put_taps"))
            s = input(input(add(l, pools[i].label, put_taps, flags), pools[i].y, real), pools[i].x, CJ_DOMAIN_DISTINCT);
        if (IS("window_sum")) s = input(add(l, pools[i].label, pool_avg, flags), pools[i].x, real);
        if (IS("window_spread")) s = input(add(l, pools[i].label, spread, flags), pools[i].y, real);
        if (!s) continue;
        memcpy(s->at, pools[i].at, sizeof pools[i].at);
        s->shape.ndim = pools[i].x.ndim - 2;
        memcpy(s->shape.dim, pools[i].x.dim + 2, (size_t)s->shape.ndim * sizeof(int64_t));
        if (!IS("max_pool") && !IS("max_pool_values")) s->terms = 9;
    }
}
