/* Layers with windows: convolution, its transpose, depthwise separable convolution, pooling, upsampling. */
#include <math.h>

#include "nn/nn.h"

static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

typedef struct conv {
    cj_tensor *weight, *bias;
    cj_conv_opts opts;
} conv;
typedef struct conv_transpose {
    cj_tensor *weight, *bias;
    cj_conv_transpose_opts opts;
} conv_transpose;

static cj_tensor *conv_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    conv *l = self;
    return cj_conv(x, l->weight, l->bias, &l->opts);
}
static cj_tensor *conv_transpose_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    conv_transpose *l = self;
    return cj_conv_transpose(x, l->weight, l->bias, &l->opts);
}
static const cj_module_type conv_type[] = { { "Conv1d", conv_forward, NULL },
                                            { "Conv2d", conv_forward, NULL },
                                            { "Conv3d", conv_forward, NULL } };
static const cj_module_type conv_transpose_type[] = { { "ConvTranspose1d", conv_transpose_forward, NULL },
                                                      { "ConvTranspose2d", conv_transpose_forward, NULL },
                                                      { "ConvTranspose3d", conv_transpose_forward, NULL } };

static bool sizes_fit(cj_ctx *c, const char *op, int64_t in, int64_t out, cj_shape kernel, int64_t groups)
{
    if (kernel.ndim < 1 || kernel.ndim > 3) {
        cj_fail(c, CJ_ESHAPE, "%s: a kernel with %d axes; 1 to 3 expected", op, kernel.ndim);
        return false;
    }
    for (int d = 0; d < kernel.ndim; d++)
        if (kernel.dim[d] < 1) {
            cj_fail(c, CJ_ESHAPE, "%s: kernel size %lld along axis %d", op, (long long)kernel.dim[d], d);
            return false;
        }
    if (in < 1 || out < 1) {
        cj_fail(c, CJ_EVALUE, "%s: channels %lld -> %lld", op, (long long)in, (long long)out);
        return false;
    }
    if (groups < 1 || in % groups || out % groups) {
        cj_fail(c, CJ_EVALUE, "%s: %lld groups do not divide %lld -> %lld channels", op, (long long)groups, (long long)in, (long long)out);
        return false;
    }
    return true;
}

/* weight [first, second, kernel ..] and bias [out], uniform ±1/sqrt(second·kernel) */
static void make_params(cj_module *m, int64_t first, int64_t second, cj_shape kernel, int64_t out, bool no_bias, cj_tensor **weight,
                        cj_tensor **bias)
{
    cj_ctx *c = cj_module_ctx(m);
    cj_scope s = cj_scope_open(c);
    cj_shape w = { .ndim = 2 + kernel.ndim, .dim = { first, second } };
    double fan_in = (double)second;
    for (int d = 0; d < kernel.ndim; d++) {
        w.dim[2 + d] = kernel.dim[d];
        fan_in *= (double)kernel.dim[d];
    }
    double bound = 1 / sqrt(fan_in);
    *weight = cj_module_param(m, "weight", cj_uniform(c, -bound, bound, w, &init_stream));
    if (!no_bias) *bias = cj_module_param(m, "bias", cj_uniform(c, -bound, bound, CJ_SHAPE(out), &init_stream));
    cj_scope_close(s);
}

cj_module *cj_conv_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_layer_opts *opts)
{
    cj_conv_layer_opts o = opts ? *opts : (cj_conv_layer_opts){ 0 };
    int64_t groups = o.conv.groups ? o.conv.groups : 1;
    if (!c || !sizes_fit(c, "conv layer", in, out, kernel, groups)) return NULL;
    cj_module *m = cj_module_new(c, &conv_type[kernel.ndim - 1], sizeof(conv));
    if (!m) return NULL;
    conv *l = cj_module_self(m);
    l->opts = o.conv;
    make_params(m, out, in / groups, kernel, out, o.no_bias, &l->weight, &l->bias);
    return c->error ? NULL : m;
}

cj_module *cj_conv_transpose_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_transpose_layer_opts *opts)
{
    cj_conv_transpose_layer_opts o = opts ? *opts : (cj_conv_transpose_layer_opts){ 0 };
    int64_t groups = o.conv.groups ? o.conv.groups : 1;
    if (!c || !sizes_fit(c, "conv_transpose layer", in, out, kernel, groups)) return NULL;
    cj_module *m = cj_module_new(c, &conv_transpose_type[kernel.ndim - 1], sizeof(conv_transpose));
    if (!m) return NULL;
    conv_transpose *l = cj_module_self(m);
    l->opts = o.conv;
    make_params(m, in, out / groups, kernel, out, o.no_bias, &l->weight, &l->bias);
    return c->error ? NULL : m;
}

/* ---- depthwise separable: a kernel per channel, then a mixture of channels ---------------------------------------------------------------------- */

static cj_tensor *separable_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return cj_forward(cj_module_child(m, 1), cj_forward(cj_module_child(m, 0), x));
}
static const cj_module_type separable_type = { "SeparableConv", separable_forward, NULL };

cj_module *cj_separable_conv_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_layer_opts *opts)
{
    cj_conv_layer_opts o = opts ? *opts : (cj_conv_layer_opts){ 0 };
    if (!c) return NULL;
    if (o.conv.groups) {
        cj_fail(c, CJ_EVALUE, "separable_conv layer: has a group for each channel; groups %lld given", (long long)o.conv.groups);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &separable_type, 0);
    if (!m) return NULL;
    cj_shape one = { .ndim = kernel.ndim, .dim = { 1, 1, 1 } };
    o.conv.groups = in;
    cj_module *depthwise = cj_conv_layer(c, in, in, kernel, &o);
    cj_module *pointwise = cj_conv_layer(c, in, out, one, &(cj_conv_layer_opts){ .no_bias = o.no_bias });
    if (c->error) return NULL;
    cj_module_add(m, "depthwise", depthwise);
    cj_module_add(m, "pointwise", pointwise);
    return c->error ? NULL : m;
}

/* ---- pooling and upsampling: no parameters, the options are kept --------------------------------------------------------------------------------- */

#define WITH_OPTIONS(name, label, options, expression)                                                                                     \
    static cj_tensor *name##_forward(cj_module *m, void *self, cj_tensor *x)                                                               \
    {                                                                                                                                      \
        (void)m;                                                                                                                           \
        const options *o = self;                                                                                                           \
        return expression;                                                                                                                 \
    }                                                                                                                                      \
    static const cj_module_type name##_type = { label, name##_forward, NULL };                                                             \
    cj_module *cj_##name##_layer(cj_ctx *c, const options *opts)                                                                           \
    {                                                                                                                                      \
        cj_module *m = cj_module_new(c, &name##_type, sizeof(options));                                                                    \
        if (m && opts) *(options *)cj_module_self(m) = *opts;                                                                              \
        return m;                                                                                                                          \
    }
static cj_tensor *max_values(cj_tensor *x, cj_pool_opts o)
{
    o.values_only = true;
    return cj_max_pool(x, &o).value;
}
WITH_OPTIONS(max_pool, "MaxPool", cj_pool_opts, max_values(x, *o))
WITH_OPTIONS(avg_pool, "AvgPool", cj_pool_opts, cj_avg_pool(x, o))
WITH_OPTIONS(upsample, "Upsample", cj_interpolate_opts, cj_interpolate(x, o))

#define TO_SIZE(name, label)                                                                                                               \
    static cj_tensor *name##_forward(cj_module *m, void *self, cj_tensor *x)                                                               \
    {                                                                                                                                      \
        (void)m;                                                                                                                           \
        return cj_##name(x, *(const cj_shape *)self);                                                                                      \
    }                                                                                                                                      \
    static const cj_module_type name##_type = { label, name##_forward, NULL };                                                             \
    cj_module *cj_##name##_layer(cj_ctx *c, cj_shape size)                                                                                 \
    {                                                                                                                                      \
        cj_module *m = cj_module_new(c, &name##_type, sizeof(cj_shape));                                                                   \
        if (m) *(cj_shape *)cj_module_self(m) = size;                                                                                      \
        return m;                                                                                                                          \
    }
TO_SIZE(adaptive_avg_pool, "AdaptiveAvgPool")
TO_SIZE(adaptive_max_pool, "AdaptiveMaxPool")

/* the axes after [N, C] */
static cj_axes positions_of(cj_tensor *x, const char *op)
{
    cj_axes a = { 0 };
    if (cj_ndim(x) < 3) cj_fail(cj_tensor_ctx(x), CJ_ESHAPE, "%s: input %s; [N, C, positions ..] expected", op, cj__tensor_text(x));
    for (int d = 2; d < cj_ndim(x); d++) a.axis[a.n++] = d;
    return a;
}
static cj_tensor *global_avg_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m, (void)self;
    return cj_mean(x, &(cj_reduce_opts){ .axes = positions_of(x, "global_avg_pool") });
}
static cj_tensor *global_max_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m, (void)self;
    return cj_max(x, &(cj_reduce_opts){ .axes = positions_of(x, "global_max_pool") });
}
static const cj_module_type global_avg_type = { "GlobalAvgPool", global_avg_forward, NULL };
static const cj_module_type global_max_type = { "GlobalMaxPool", global_max_forward, NULL };
cj_module *cj_global_avg_pool_layer(cj_ctx *c) { return cj_module_new(c, &global_avg_type, 0); }
cj_module *cj_global_max_pool_layer(cj_ctx *c) { return cj_module_new(c, &global_max_type, 0); }
