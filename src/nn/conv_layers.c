/* Layers with windows: convolution, its transpose, depthwise separable and locally connected convolution, pooling, unpooling, upsampling. */
#include <math.h>

#include "nn/nn.h"
#include "ops/ops.h"

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
    return cj__forward_as(cj_module_child(m, 1), "pointwise", cj__forward_as(cj_module_child(m, 0), "depthwise", x));
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

/* ---- locally connected: weights of their own at every position ------------------------------------------------------------------------------------ */

static cj_tensor *local_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    conv *l = self;
    return cj_locally_connected(x, l->weight, l->bias, &l->opts);
}
static const cj_module_type local_type[] = { { "LocallyConnected1d", local_forward, NULL }, { "LocallyConnected2d", local_forward, NULL } };

/* a value per axis, a value for all, or the default */
static int64_t along(cj_shape each, int64_t all, int d, int64_t otherwise) { return each.ndim ? each.dim[d] : all ? all : otherwise; }

cj_module *cj_locally_connected_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape size, cj_shape kernel, const cj_conv_layer_opts *opts)
{
    static const char op[] = "locally_connected layer";
    cj_conv_layer_opts o = opts ? *opts : (cj_conv_layer_opts){ 0 };
    if (!c || !sizes_fit(c, op, in, out, kernel, 1)) return NULL;
    if (kernel.ndim > 2 || size.ndim != kernel.ndim) {
        cj_fail(c, CJ_ESHAPE, "%s: an input with %d spatial axes and a kernel with %d; both 1 or both 2 expected", op, size.ndim,
                kernel.ndim);
        return NULL;
    }
    if (o.conv.groups > 1 || o.conv.border || o.conv.dilation > 1 || o.conv.dilations.ndim) {
        cj_fail(c, CJ_EVALUE, "%s: takes stride, padding and mode; neither groups nor border nor dilation", op);
        return NULL;
    }
    cj_shape weight = { .ndim = 2 + 2 * size.ndim, .dim = { out, in } };
    double fan_in = (double)in;
    for (int d = 0; d < size.ndim; d++) {
        int64_t stride = along(o.conv.strides, o.conv.stride, d, 1), room = size.dim[d] + 2 * along(o.conv.paddings, o.conv.padding, d, 0);
        if (stride < 1 || room < kernel.dim[d]) {
            cj_fail(c, CJ_ESHAPE, "%s: a kernel of %lld with stride %lld on %lld padded positions, along axis %d", op,
                    (long long)kernel.dim[d], (long long)stride, (long long)room, d);
            return NULL;
        }
        weight.dim[2 + d] = (room - kernel.dim[d]) / stride + 1;
        weight.dim[2 + size.ndim + d] = kernel.dim[d];
        fan_in *= (double)kernel.dim[d];
    }
    cj_module *m = cj_module_new(c, &local_type[size.ndim - 1], sizeof(conv));
    if (!m) return NULL;
    conv *l = cj_module_self(m);
    l->opts = o.conv;
    double bound = 1 / sqrt(fan_in);
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "weight", cj_uniform(c, -bound, bound, weight, &init_stream));
    if (!o.no_bias) l->bias = cj_module_param(m, "bias", cj_uniform(c, -bound, bound, CJ_SHAPE(out), &init_stream));
    cj_scope_close(s);
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
WITH_OPTIONS(min_pool, "MinPool", cj_pool_opts, cj_min_pool(x, o).value)
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

/* ---- max pooling that keeps where its values were, and its inverse -------------------------------------------------------------------------------- */

cj_pooled cj_max_pool_forward(cj_module *m, cj_tensor *x)
{
    cj_ctx *c = m ? cj_module_ctx(m) : x ? x->ctx : NULL;
    const cj_pooled poison = { c ? c->poison : NULL, c ? c->poison : NULL };
    if (!c || !cj__module_is(m, &max_pool_type, "max_pool_forward", x) || !cj__usable(c, "max_pool_forward", 0, x)) return poison;
    cj__module_begins(m, x);
    cj_pooled y = cj_max_pool(x, cj_module_self(m));
    cj__module_ends(m, x, y.value);
    return y;
}

static const cj_module_type max_unpool_type = { "MaxUnpool", NULL, NULL };

cj_module *cj_max_unpool_layer(cj_ctx *c, const cj_pool_opts *opts)
{
    cj_module *m = cj_module_new(c, &max_unpool_type, sizeof(cj_pool_opts));
    if (m && opts) *(cj_pool_opts *)cj_module_self(m) = *opts;
    return m;
}

cj_tensor *cj_max_unpool_forward(cj_module *m, cj_tensor *x, cj_tensor *index, cj_shape size)
{
    static const char op[] = "max_unpool_forward";
    if (!cj__module_is(m, &max_unpool_type, op, x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    if (!cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, index)) return c->poison;
    const cj_pool_opts *o = cj_module_self(m);
    if (!size.ndim) { /* the smallest input that gives this result */
        int axes = o->kernels.ndim ? o->kernels.ndim : x->ndim - 2;
        if (axes < 1 || axes > 3 || x->ndim < axes)
            return cj_fail(c, CJ_ESHAPE, "%s: input %s; [N, C, positions ..] expected", op, cj__tensor_text(x));
        size.ndim = axes;
        for (int d = 0; d < axes; d++) {
            int64_t kernel = along(o->kernels, o->kernel, d, 1), stride = along(o->strides, o->stride, d, kernel);
            size.dim[d] = (x->shape[x->ndim - axes + d] - 1) * stride - 2 * along(o->paddings, o->padding, d, 0) + kernel;
        }
    }
    cj__module_begins(m, x);
    cj_tensor *y = cj_max_unpool(x, index, size);
    cj__module_ends(m, x, y);
    return y;
}

/* ---- softmax pooling: sum x·e^(beta·x) / sum e^(beta·x) of every window ----------------------------------------------------------------------------- */

typedef struct softmax_pool {
    cj_tensor *beta; /* learned; NULL: constant */
    double constant;
    cj_pool_opts opts;
} softmax_pool;

static cj_tensor *softmax_pool_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const softmax_pool *l = self;
    if (l->beta) return cj__softmax_pool(x, cj_mul(x, l->beta), &l->opts);
    if (l->constant < 0)
        return cj_neg(cj_softmax_pool(cj_neg(x), -1 / l->constant, &l->opts)); /* the weights of -x at -beta are the same */
    return l->constant == 0 ? cj_avg_pool(x, &l->opts) : cj_softmax_pool(x, 1 / l->constant, &l->opts);
}
static const cj_module_type softmax_pool_type = { "SoftmaxPool", softmax_pool_forward, NULL };

cj_module *cj_softmax_pool_layer(cj_ctx *c, double beta, bool learned, const cj_pool_opts *opts)
{
    if (!c) return NULL;
    cj_pool_opts o = opts ? *opts : (cj_pool_opts){ 0 };
    if (!isfinite(beta)) {
        cj_fail(c, CJ_EVALUE, "softmax_pool layer: beta %g", beta);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &softmax_pool_type, sizeof(softmax_pool));
    if (!m) return NULL;
    softmax_pool *l = cj_module_self(m);
    l->constant = beta;
    l->opts = o;
    l->opts.exclude_padding = true; /* beta 0: what is not there has no weight */
    cj_scope s = cj_scope_open(c);
    if (learned) l->beta = cj_module_param(m, "beta", cj_full(c, beta, CJ_SCALAR, CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* ---- what windows see ----------------------------------------------------------------------------------------------------------------------------- */

bool cj__conv_window(const cj_module *m, const cj_tensor *x, cj_window_geometry *w)
{
    *w = (cj_window_geometry){ .axes = x->ndim - 2 };
    if (w->axes < 1 || w->axes > 3) return false;
    const char *type = cj_module_type_name(m);
    const void *self = cj_module_self(m);
    const conv *convolution = NULL;
    const cj_pool_opts *pool = NULL;
    for (int i = 0; i < 3; i++)
        if (type == conv_type[i].name || (i < 2 && type == local_type[i].name)) convolution = self;
    if (type == max_pool_type.name || type == min_pool_type.name || type == avg_pool_type.name) pool = self;
    if (type == softmax_pool_type.name) pool = &((const softmax_pool *)self)->opts;
    w->whole = type == global_avg_type.name || type == global_max_type.name || type == adaptive_avg_pool_type.name ||
               type == adaptive_max_pool_type.name;
    for (int d = 0; d < w->axes && convolution; d++) {
        w->kernel[d] = convolution->weight->shape[convolution->weight->ndim - w->axes + d];
        w->stride[d] = along(convolution->opts.strides, convolution->opts.stride, d, 1);
        w->dilation[d] = along(convolution->opts.dilations, convolution->opts.dilation, d, 1);
    }
    for (int d = 0; d < w->axes && pool; d++) {
        w->kernel[d] = along(pool->kernels, pool->kernel, d, 1);
        w->stride[d] = along(pool->strides, pool->stride, d, w->kernel[d]);
        w->dilation[d] = along(pool->dilations, pool->dilation, d, 1);
    }
    return convolution || pool || w->whole;
}
