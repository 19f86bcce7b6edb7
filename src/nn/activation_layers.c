/* Every activation operator as a layer, by name; residual and dense connections; noise; bilinear forms. */
#include <math.h>

#include "nn/nn.h"

static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

/* ---- activations ------------------------------------------------------------------------------------------------------------------------------------- */

typedef cj_tensor *activation_fn(cj_tensor *x, const cj_activation_opts *o, cj_tensor *weight);
typedef struct activation {
    activation_fn *fn;
    cj_activation_opts opts;
    cj_tensor *weight; /* prelu */
} activation;

#define AXIS (o->axis.n ? o->axis.axis[0] : -1)
#define PLAIN(name) A(name, cj_##name(x))
#define ALONG(name) A(name, cj_##name(x, AXIS))
/* clang-format off */
#define ACTIVATIONS \
    PLAIN(relu) PLAIN(tanh) PLAIN(sigmoid) PLAIN(silu) PLAIN(softplus) PLAIN(log_sigmoid) PLAIN(hard_sign) PLAIN(relu6) PLAIN(hardsigmoid) PLAIN(hardswish) \
    PLAIN(selu) PLAIN(mish) PLAIN(softsign) PLAIN(tanhshrink) \
    ALONG(softmax) ALONG(log_softmax) ALONG(softmin) ALONG(glu) ALONG(reglu) ALONG(geglu) ALONG(swiglu) \
    A(gelu, cj_gelu(x, NULL)) \
    A(gelu_tanh, cj_gelu(x, &(cj_gelu_opts){ .tanh = true })) \
    A(heaviside, cj_heaviside(x, &(cj_heaviside_opts){ .at_zero = o->value })) \
    A(hardtanh, cj_hardtanh(x, &(cj_hardtanh_opts){ o->low, o->high })) \
    A(leaky_relu, cj_leaky_relu(x, &(cj_leaky_relu_opts){ o->slope })) \
    A(prelu, cj_prelu(x, weight)) \
    A(softshrink, cj_softshrink(x, &(cj_shrink_opts){ o->lambda })) \
    A(hardshrink, cj_hardshrink(x, &(cj_shrink_opts){ o->lambda })) \
    A(threshold, cj_threshold(x, o->threshold, o->value)) \
    A(elu, cj_elu(x, &(cj_elu_opts){ o->alpha })) \
    A(celu, cj_celu(x, &(cj_elu_opts){ o->alpha })) \
    A(softplus_beta, cj_softplus_beta(x, &(cj_softplus_opts){ o->beta, o->threshold })) \
    A(softmax_temperature, cj_softmax_temperature(x, AXIS, o->temperature ? o->temperature : 1)) \
    A(maxout, cj_maxout(x, AXIS, o->pieces ? o->pieces : 2))
/* clang-format on */

#define A(name, expression)                                                                                                                \
    static cj_tensor *apply_##name(cj_tensor *x, const cj_activation_opts *o, cj_tensor *weight)                                           \
    {                                                                                                                                      \
        (void)o, (void)weight;                                                                                                             \
        return expression;                                                                                                                 \
    }
ACTIVATIONS
#undef A

static cj_tensor *activation_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const activation *l = self;
    return l->fn(x, &l->opts, l->weight);
}

typedef struct activation_row {
    const char *name;
    activation_fn *fn;
    cj_module_type type; /* named as the activation */
} activation_row;
#define A(name, expression) { #name, apply_##name, { #name, activation_forward, NULL } },
static const activation_row table[] = { ACTIVATIONS };
#undef A
enum { TABLE = sizeof table / sizeof table[0] };

int cj_activation_count(void) { return TABLE; }
const char *cj_activation_name(int i) { return i >= 0 && i < TABLE ? table[i].name : NULL; }

cj_module *cj_activation_layer(cj_ctx *c, const char *name, const cj_activation_opts *opts)
{
    if (!c) return NULL;
    const activation_row *row = NULL;
    for (int i = 0; i < TABLE && name; i++)
        if (strcmp(table[i].name, name) == 0) row = &table[i];
    if (!row) {
        cj_fail(c, CJ_EVALUE, "activation layer: there is no activation '%s'; cj_activation_name lists them", name ? name : "");
        return NULL;
    }
    cj_module *m = cj_module_new(c, &row->type, sizeof(activation));
    if (!m) return NULL;
    activation *l = cj_module_self(m);
    l->fn = row->fn;
    if (opts) l->opts = *opts;
    if (row->fn == apply_prelu) {
        int64_t channels = l->opts.channels ? l->opts.channels : 1;
        double slope = l->opts.slope == 0 ? 0.25 : l->opts.slope == CJ_ZERO ? 0 : l->opts.slope;
        if (channels < 1) {
            cj_fail(c, CJ_EVALUE, "prelu layer: %lld channels", (long long)channels);
            return NULL;
        }
        cj_scope s = cj_scope_open(c);
        l->weight = cj_module_param(m, "weight", cj_full(c, slope, CJ_SHAPE(channels), CJ_F32));
        cj_scope_close(s);
    }
    return c->error ? NULL : m;
}

/* ---- residual: body(x) + shortcut(x) --------------------------------------------------------------------------------------------------------------- */

static cj_tensor *residual_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_tensor *part[2] = { x, x };
    for (int i = 0; i < cj_module_children(m); i++) part[i] = cj__forward_as(cj_module_child(m, i), cj_module_child_name(m, i), x);
    return cj_add(part[0], part[1]);
}
static const cj_module_type residual_type = { "Residual", residual_forward, NULL };

cj_module *cj_residual_layer(cj_ctx *c, cj_module *body, cj_module *shortcut)
{
    cj_module *m = cj_module_new(c, &residual_type, 0);
    if (!m) return NULL;
    cj_module_add(m, "body", body);
    if (shortcut) cj_module_add(m, "shortcut", shortcut);
    return c->error ? NULL : m;
}

/* ---- dense connection: x and body(x) side by side ---------------------------------------------------------------------------------------------------- */

static cj_tensor *dense_forward(cj_module *m, void *self, cj_tensor *x)
{
    cj_tensor *part[2] = { x, cj__forward_as(cj_module_child(m, 0), "body", x) };
    return cj_cat(part, 2, *(const int *)self);
}
static const cj_module_type dense_type = { "DenseConnection", dense_forward, NULL };

cj_module *cj_dense_connection_layer(cj_ctx *c, cj_module *body, cj_axes axis)
{
    cj_module *m = cj_module_new(c, &dense_type, sizeof(int));
    if (!m) return NULL;
    *(int *)cj_module_self(m) = axis.n ? axis.axis[0] : 1;
    cj_module_add(m, "body", body);
    return c->error ? NULL : m;
}

/* ---- Gaussian noise ------------------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *noise_forward(cj_module *m, void *self, cj_tensor *x)
{
    double std = *(const double *)self;
    if (!cj_module_training(m) || std == 0) return x;
    cj_random_opts draw = { .stream = CJ_STREAM_DROPOUT, .dtype = (cj_dtype)x->dtype };
    return cj_add(x, cj_normal(x->ctx, 0, std, cj_shape_of(x), &draw));
}
static const cj_module_type noise_type = { "GaussianNoise", noise_forward, NULL };

cj_module *cj_noise_layer(cj_ctx *c, double std)
{
    if (c && !(std >= 0 && isfinite(std))) {
        cj_fail(c, CJ_EVALUE, "noise layer: deviation %g", std);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &noise_type, sizeof(double));
    if (m) *(double *)cj_module_self(m) = std;
    return m;
}

/* ---- bilinear: y_o = aᵀ·W_o·b + bias_o --------------------------------------------------------------------------------------------------------------- */

typedef struct bilinear {
    cj_tensor *weight, *bias;
} bilinear;
static const cj_module_type bilinear_type = { "Bilinear", NULL, NULL };

cj_module *cj_bilinear_layer(cj_ctx *c, int64_t in_a, int64_t in_b, int64_t out, const cj_bilinear_opts *opts)
{
    if (!c) return NULL;
    if (in_a < 1 || in_b < 1 || out < 1) {
        cj_fail(c, CJ_EVALUE, "bilinear layer: sizes %lld, %lld -> %lld", (long long)in_a, (long long)in_b, (long long)out);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &bilinear_type, sizeof(bilinear));
    if (!m) return NULL;
    bilinear *l = cj_module_self(m);
    double bound = 1 / sqrt((double)in_a);
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "weight", cj_uniform(c, -bound, bound, CJ_SHAPE(out, in_a, in_b), &init_stream));
    if (!opts || !opts->no_bias) l->bias = cj_module_param(m, "bias", cj_uniform(c, -bound, bound, CJ_SHAPE(out), &init_stream));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_tensor *cj_bilinear_forward(cj_module *m, cj_tensor *a, cj_tensor *b)
{
    if (!cj__module_is(m, &bilinear_type, "bilinear_forward", a)) return a ? a->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    if (!cj__usable(c, "bilinear_forward", 0, a) || !cj__usable(c, "bilinear_forward", 1, b)) return c->poison;
    const bilinear *l = cj_module_self(m);
    int64_t in_a = cj_size(l->weight, 1), in_b = cj_size(l->weight, 2), out = cj_size(l->weight, 0);
    bool fits = a->ndim >= 1 && a->ndim == b->ndim && a->shape[a->ndim - 1] == in_a && b->shape[b->ndim - 1] == in_b;
    for (int d = 0; fits && d + 1 < a->ndim; d++) fits = a->shape[d] == b->shape[d];
    if (!fits)
        return cj_fail(c, CJ_ESHAPE, "bilinear_forward: inputs %s and %s; [.., %lld] and [.., %lld] expected", cj__tensor_text(a),
                       cj__tensor_text(b), (long long)in_a, (long long)in_b);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_shape shape = cj_shape_of(a);
    shape.dim[shape.ndim - 1] = out;
    cj__module_begins(m, a);
    cj_tensor *part[] = { cj_reshape(a, CJ_SHAPE(-1, in_a)), l->weight, cj_reshape(b, CJ_SHAPE(-1, in_b)) };
    cj_tensor *y = cj_reshape(cj_einsum("ni,oij,nj->no", part, 3), shape);
    if (l->bias) y = cj_add(y, l->bias);
    cj__frame_close(c, frame, &y, 1);
    cj__module_ends(m, a, y);
    return y;
}
