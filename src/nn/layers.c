/* The first layers: linear, embedding, layer norm, dropout, activations, sequential. */
#include <math.h>
#include <stdio.h>

#include "nn/nn.h"

/* ---- linear: y = x·Wᵀ + b ------------------------------------------------------------------------------------------------------------------ */

typedef struct linear {
    cj_tensor *weight, *bias;
} linear;

static cj_tensor *linear_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    linear *l = self;
    return cj_linear_op(x, l->weight, l->bias);
}
static const cj_module_type linear_type = { "Linear", linear_forward, NULL };
static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

cj_module *cj_linear(cj_ctx *c, int64_t in, int64_t out, const cj_linear_opts *opts)
{
    cj_linear_opts o = opts ? *opts : (cj_linear_opts){ 0 };
    if (!c) return NULL;
    if (in < 1 || out < 1) {
        cj_fail(c, CJ_EVALUE, "linear: sizes %lld -> %lld", (long long)in, (long long)out);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &linear_type, sizeof(linear));
    if (!m) return NULL;
    cj_scope s = cj_scope_open(c);
    linear *l = cj_module_self(m);
    double bound = 1 / sqrt((double)in);
    cj_shape w = CJ_SHAPE(out, in), b = CJ_SHAPE(out);
    l->weight = cj_module_param(
        m, "weight", o.init_std > 0 ? cj_normal(c, 0, o.init_std, w, &init_stream) : cj_uniform(c, -bound, bound, w, &init_stream));
    if (!o.no_bias)
        l->bias = cj_module_param(m, "bias",
                                  o.zero_bias || o.init_std > 0 ? cj_zeros(c, b, CJ_F32) : cj_uniform(c, -bound, bound, b, &init_stream));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* ---- linear with edges left out ------------------------------------------------------------------------------------------------------------------------ */

typedef struct masked_linear {
    cj_tensor *weight, *bias, *mask;
} masked_linear;

static cj_tensor *masked_linear_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const masked_linear *l = self;
    return cj_linear_op(x, cj_mul(l->weight, l->mask), l->bias);
}
static const cj_module_type masked_linear_type = { "MaskedLinear", masked_linear_forward, NULL };

cj_module *cj_masked_linear(cj_ctx *c, cj_tensor *mask, const cj_linear_opts *opts)
{
    cj_linear_opts o = opts ? *opts : (cj_linear_opts){ 0 };
    if (!c || c->error || !cj__usable(c, "masked_linear", 0, mask)) return NULL;
    if (mask->ndim != 2 || !mask->numel) {
        cj_fail(c, CJ_ESHAPE, "masked_linear: the mask is %s; [out, in] expected", cj__tensor_text(mask));
        return NULL;
    }
    cj_module *m = cj_module_new(c, &masked_linear_type, sizeof(masked_linear));
    if (!m) return NULL;
    masked_linear *l = cj_module_self(m);
    cj_scope s = cj_scope_open(c);
    double std = o.init_std > 0 ? o.init_std : 1 / sqrt(3 * (double)mask->shape[1]);
    l->mask = cj_module_buffer(m, "mask", cj_cast(cj_ne_scalar(cj_cast(mask, CJ_F32), 0), CJ_F32));
    cj_tensor *w = o.init_std > 0 ? cj_normal(c, 0, std, cj_shape_of(mask), &init_stream)
                                  : cj_uniform(c, -sqrt(3) * std, sqrt(3) * std, cj_shape_of(mask), &init_stream);
    l->weight = cj_module_param(m, "weight", cj_mul(w, l->mask)); /* a missing edge is 0 and, without a gradient, stays so */
    if (!o.no_bias) l->bias = cj_module_param(m, "bias", cj_zeros(c, CJ_SHAPE(mask->shape[0]), CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* ---- embedding ----------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *embedding_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    return cj_embedding(*(cj_tensor **)self, x, NULL);
}
static const cj_module_type embedding_type = { "Embedding", embedding_forward, NULL };

cj_module *cj_embedding_layer(cj_ctx *c, int64_t count, int64_t dim, const cj_embedding_opts *opts)
{
    if (!c) return NULL;
    if (count < 1 || dim < 1) {
        cj_fail(c, CJ_EVALUE, "embedding: sizes %lld x %lld", (long long)count, (long long)dim);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &embedding_type, sizeof(cj_tensor *));
    if (!m) return NULL;
    cj_scope s = cj_scope_open(c);
    double std = opts && opts->init_std > 0 ? opts->init_std : 1;
    *(cj_tensor **)cj_module_self(m) = cj_module_param(m, "weight", cj_normal(c, 0, std, CJ_SHAPE(count, dim), &init_stream));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* ---- layer norm ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct norm {
    cj_tensor *weight, *bias;
    double eps;
} norm;

static cj_tensor *norm_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    norm *n = self;
    return cj_layer_norm(x, n->weight, n->bias, n->eps);
}
static const cj_module_type norm_type = { "LayerNorm", norm_forward, NULL };

cj_module *cj_layer_norm_layer(cj_ctx *c, int64_t dim, const cj_layer_norm_opts *opts)
{
    cj_layer_norm_opts o = opts ? *opts : (cj_layer_norm_opts){ 0 };
    cj_module *m = cj_module_new(c, &norm_type, sizeof(norm));
    if (!m) return NULL;
    cj_scope s = cj_scope_open(c);
    norm *n = cj_module_self(m);
    n->eps = o.eps;
    if (!o.no_affine) n->weight = cj_module_param(m, "weight", cj_ones(c, CJ_SHAPE(dim), CJ_F32));
    if (!o.no_affine && !o.no_bias) n->bias = cj_module_param(m, "bias", cj_zeros(c, CJ_SHAPE(dim), CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* ---- without parameters ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct dropout {
    double p;
    bool standard, always;
} dropout;

static cj_tensor *dropout_forward(cj_module *m, void *self, cj_tensor *x)
{
    const dropout *l = self;
    bool on = l->always || cj_module_training(m);
    double p = l->p == 0 ? CJ_ZERO : l->p;
    if (!l->standard) return cj_dropout(x, &(cj_dropout_opts){ .p = p, .eval = !on });
    if (!on) return cj_mul_scalar(x, 1 - l->p);
    return l->p < 1 ? cj_mul_scalar(cj_dropout(x, &(cj_dropout_opts){ .p = p }), 1 - l->p) : cj_zeros_like(x);
}
static const cj_module_type dropout_type = { "Dropout", dropout_forward, NULL };

cj_module *cj_dropout_layer(cj_ctx *c, double p, const cj_dropout_layer_opts *opts)
{
    if (c && !(p >= 0 && p <= 1)) {
        cj_fail(c, CJ_EVALUE, "dropout: probability %g is outside [0, 1]", p);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &dropout_type, sizeof(dropout));
    if (m) *(dropout *)cj_module_self(m) = (dropout){ p, opts && opts->standard, opts && opts->always };
    return m;
}

static void keep_dropping(cj_module *m)
{
    if (cj_module_type_name(m) == dropout_type.name) cj_module_train(m, true);
    for (int i = 0; i < cj_module_children(m); i++) keep_dropping(cj_module_child(m, i));
}

cj_mean_variance cj_mc_dropout(cj_module *m, cj_tensor *x, int64_t samples)
{
    cj_ctx *c = m ? cj_module_ctx(m) : x ? x->ctx : NULL;
    const cj_mean_variance poison = { c ? c->poison : NULL, c ? c->poison : NULL };
    if (!m || !c || c->error || !cj__usable(c, "mc_dropout", 0, x)) return poison;
    if (samples < 2) return cj_fail(c, CJ_EVALUE, "mc_dropout: %lld samples; 2 at least expected", (long long)samples), poison;
    bool training = cj_module_training(m), grad = cj_no_grad(c);
    cj_module_train(m, false);
    keep_dropping(m);
    int frame = cj__frame_open(c);
    cj_mean_variance y = poison; /* Welford: mean += d/n, squares += d·(y - mean) */
    for (int64_t i = 1; i <= samples && frame && !c->error; i++) {
        cj_tensor *draw = cj_forward(m, x), *from = i > 1 ? cj_sub(draw, y.mean) : NULL;
        y.mean = from ? cj_add(y.mean, cj_mul_scalar(from, 1 / (double)i)) : draw;
        y.variance = from ? cj_add(y.variance, cj_mul(from, cj_sub(draw, y.mean))) : cj_zeros_like(draw);
    }
    y.variance = cj_mul_scalar(y.variance, 1 / (double)(samples - 1));
    cj_tensor *both[] = { y.mean, y.variance };
    if (frame) cj__frame_close(c, frame, both, 2);
    cj_module_train(m, training);
    cj_grad_mode(c, grad);
    return c->error ? poison : (cj_mean_variance){ both[0], both[1] };
}

#define PLAIN(name, label, expression)                                                                                                     \
    static cj_tensor *name##_forward(cj_module *m, void *self, cj_tensor *x)                                                               \
    {                                                                                                                                      \
        (void)m, (void)self;                                                                                                               \
        return expression;                                                                                                                 \
    }                                                                                                                                      \
    static const cj_module_type name##_type = { label, name##_forward, NULL };                                                             \
    cj_module *cj_##name##_layer(cj_ctx *c) { return cj_module_new(c, &name##_type, 0); }

PLAIN(relu, "ReLU", cj_relu(x))
PLAIN(tanh, "Tanh", cj_tanh(x))
PLAIN(sigmoid, "Sigmoid", cj_sigmoid(x))
PLAIN(gelu, "GELU", cj_gelu(x, NULL))
PLAIN(flatten, "Flatten", cj_flatten(x, 1))

/* ---- sequential --------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *sequential_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_ctx *c = cj_module_ctx(m);
    const cj_tensor *input = x;
    for (int i = 0, n = cj_module_children(m); i < n && !c->error; i++) {
        cj_tensor *y = cj__forward_as(cj_module_child(m, i), cj_module_child_name(m, i), x);
        if (x != input && x != y) { /* only the tape may still need it */
            cj__take(c, x);
            cj__tensor_release(x, true);
        }
        x = y;
    }
    return x;
}
static const cj_module_type sequential_type = { "Sequential", sequential_forward, NULL };

cj_module *cj_sequential(cj_ctx *c, cj_module *const *modules)
{
    cj_module *m = cj_module_new(c, &sequential_type, 0);
    for (int i = 0; m && modules && modules[i]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        cj_module_add(m, name, modules[i]);
    }
    return c && c->error ? NULL : m;
}
