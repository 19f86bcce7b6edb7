/* Multi-head attention with a cache of keys and values, positions, transformer layers: PyTorch's parameter names, examples first. */
#include <math.h>

#include "nn/nn.h"

static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

/* ---- multi-head attention -------------------------------------------------------------------------------------------------------------------------------- */

typedef struct multihead {
    cj_tensor *weight, *bias; /* of q, k and v, one below the other */
    int64_t dim;
    int heads;
    double dropout;
} multihead;

static const cj_module_type multihead_type = { "MultiheadAttention", NULL, NULL };

cj_module *cj_multihead_attention(cj_ctx *c, int64_t dim, int heads, const cj_multihead_opts *opts)
{
    cj_multihead_opts o = opts ? *opts : (cj_multihead_opts){ 0 };
    if (!c) return NULL;
    if (dim < 1 || heads < 1 || dim % heads) {
        cj_fail(c, CJ_EVALUE, "multihead_attention: %d heads do not divide dimension %lld", heads, (long long)dim);
        return NULL;
    }
    if (!(o.dropout >= 0 && o.dropout < 1)) {
        cj_fail(c, CJ_EVALUE, "multihead_attention: dropout %g is outside [0, 1)", o.dropout);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &multihead_type, sizeof(multihead));
    if (!m) return NULL;
    multihead *l = cj_module_self(m);
    l->dim = dim;
    l->heads = heads;
    l->dropout = o.dropout;
    double bound = sqrt(6.0 / (double)(4 * dim)); /* Xavier of [3·dim, dim] */
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "in_proj_weight", cj_uniform(c, -bound, bound, CJ_SHAPE(3 * dim, dim), &init_stream));
    if (!o.no_bias) l->bias = cj_module_param(m, "in_proj_bias", cj_zeros(c, CJ_SHAPE(3 * dim), CJ_F32));
    cj_scope_close(s);
    cj_module *out = cj_linear(c, dim, dim, &(cj_linear_opts){ .no_bias = o.no_bias, .zero_bias = true });
    if (c->error) return NULL;
    cj_module_add(m, "out_proj", out);
    return c->error ? NULL : m;
}

/* Projection `part` (0 query, 1 key, 2 value) of x [N, T, dim], by heads: [N, heads, T, dim/heads] */
static cj_tensor *project(const multihead *l, cj_tensor *x, int part)
{
    int64_t from = part * l->dim, to = from + l->dim;
    cj_tensor *y = cj_linear_op(x, cj_slice(l->weight, 0, from, to, 1), l->bias ? cj_slice(l->bias, 0, from, to, 1) : NULL);
    return cj_transpose(cj_reshape(y, CJ_SHAPE(x->shape[0], x->shape[1], l->heads, l->dim / l->heads)), 1, 2);
}

cj_kv_cache cj_kv_cache_new(cj_module *m, int64_t batch, int64_t capacity)
{
    cj_kv_cache cache = { 0 };
    if (!cj__module_is(m, &multihead_type, "kv_cache_new", NULL)) return cache;
    cj_ctx *c = cj_module_ctx(m);
    const multihead *l = cj_module_self(m);
    if (batch < 1 || capacity < 1) {
        cj_fail(c, CJ_EVALUE, "kv_cache_new: %lld examples of %lld positions", (long long)batch, (long long)capacity);
        return cache;
    }
    cj_shape shape = CJ_SHAPE(batch, l->heads, capacity, l->dim / l->heads);
    cj_scope s = cj_scope_open(c);
    cache.k = cj_keep(cj_zeros(c, shape, cj_dtype_of(l->weight)));
    cache.v = cj_keep(cj_zeros(c, shape, cj_dtype_of(l->weight)));
    cache.length = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64));
    cj_scope_close(s);
    return cache;
}

void cj_kv_cache_free(cj_kv_cache *cache)
{
    if (!cache) return;
    cj_release(cache->k);
    cj_release(cache->v);
    cj_release(cache->length);
    *cache = (cj_kv_cache){ 0 };
}

cj_tensor *cj_multihead_forward(cj_module *m, cj_tensor *query, cj_tensor *key, cj_tensor *value, const cj_multihead_call_opts *opts)
{
    static const char op[] = "multihead_forward";
    cj_multihead_call_opts o = opts ? *opts : (cj_multihead_call_opts){ 0 };
    if (!cj__module_is(m, &multihead_type, op, query)) return query ? query->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    const multihead *l = cj_module_self(m);
    cj_tensor *in[] = { query, key, value };
    static const char *const role[] = { "query", "key", "value" };
    for (int i = 0; i < 3; i++) {
        if (!cj__usable(c, op, i, in[i])) return c->poison;
        if (in[i]->ndim != 3 || in[i]->shape[2] != l->dim || in[i]->shape[0] != query->shape[0])
            return cj_fail(c, CJ_ESHAPE, "%s: the %s is %s; [N, T, %lld] expected, with one N", op, role[i], cj__tensor_text(in[i]),
                           (long long)l->dim);
    }
    if (key->shape[1] != value->shape[1])
        return cj_fail(c, CJ_ESHAPE, "%s: key %s and value %s have different lengths", op, cj__tensor_text(key), cj__tensor_text(value));
    if (o.cache && (!o.cache->k || key->shape[1] > o.cache->k->shape[2]))
        return cj_fail(c, CJ_EINDEX, "%s: %lld positions; the cache has room for %lld", op, (long long)key->shape[1],
                       (long long)(o.cache->k ? o.cache->k->shape[2] : 0));
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    bool grad = cj_grad_enabled(c);
    if (o.cache) cj_no_grad(c);
    cj__module_begins(m, query);
    cj_attention_opts a = { .causal = o.causal, .mask = o.mask, .dropout = cj_module_training(m) ? l->dropout : 0 };
    cj_tensor *y;
    if (query == key && key == value && !o.cache) {
        y = cj_attention_packed(cj_linear_op(query, l->weight, l->bias), l->heads, &a);
    } else {
        cj_tensor *q = project(l, query, 0), *k = project(l, key, 1), *v = project(l, value, 2);
        if (o.cache) { /* what is written stays; the queries see up to the new length */
            cj_write_slice_(o.cache->k, 2, o.cache->length, k);
            cj_write_slice_(o.cache->v, 2, o.cache->length, v);
            a.key_length = cj_add(o.cache->length, cj_full(c, (double)key->shape[1], CJ_SCALAR, CJ_I64));
            k = o.cache->k;
            v = o.cache->v;
        }
        y = cj_reshape(cj_transpose(cj_attention(q, k, v, &a), 1, 2), CJ_SHAPE(query->shape[0], query->shape[1], l->dim));
    }
    y = cj__forward_as(cj_module_child(m, 0), "out_proj", y);
    if (o.cache && !c->error) cj_assign_(o.cache->length, a.key_length);
    cj_grad_mode(c, grad);
    cj__frame_close(c, frame, &y, 1);
    cj__module_ends(m, query, y);
    return y;
}

cj_tensor *cj_multihead_weights(cj_module *m, cj_tensor *query, cj_tensor *key, const cj_multihead_call_opts *opts)
{
    static const char op[] = "multihead_weights";
    cj_multihead_call_opts o = opts ? *opts : (cj_multihead_call_opts){ 0 };
    if (!cj__module_is(m, &multihead_type, op, query)) return query ? query->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    const multihead *l = cj_module_self(m);
    if (!cj__usable(c, op, 0, query) || !cj__usable(c, op, 1, key)) return c->poison;
    if (query->ndim != 3 || key->ndim != 3 || query->shape[2] != l->dim || key->shape[2] != l->dim || key->shape[0] != query->shape[0])
        return cj_fail(c, CJ_ESHAPE, "%s: query %s and key %s; [N, T, %lld] expected, with one N", op, cj__tensor_text(query),
                       cj__tensor_text(key), (long long)l->dim);
    if (o.cache) return cj_fail(c, CJ_EVALUE, "%s: keys in a cache are not seen", op);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *q = project(l, query, 0), *k = project(l, key, 1);
    cj_shape shape = CJ_SHAPE(query->shape[0], l->heads, key->shape[1], key->shape[1]);
    cj_tensor *v = cj_expand(cj_eye(c, key->shape[1], (cj_dtype)q->dtype), shape); /* the weighted sum of unit vectors is the weights */
    cj_tensor *y = cj_attention(q, k, v, &(cj_attention_opts){ .causal = o.causal, .mask = o.mask });
    cj__frame_close(c, frame, &y, 1);
    return y;
}

/* ---- positions ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* angles t·base^(-2i/dim) for t = start … start + length - 1: [length, dim/2], in f64 so that far positions keep their digits */
static cj_tensor *angles(cj_ctx *c, int64_t start, int64_t length, int64_t dim, double base)
{
    cj_tensor *t = cj_arange(c, (double)start, (double)(start + length), 1, CJ_F64);
    const int64_t pairs = dim / 2;
    cj_tensor *i = cj_arange(c, 0, (double)pairs, 1, CJ_F64);
    return cj_outer(t, cj_exp(cj_mul_scalar(i, -2 * log(base) / (double)dim)));
}

static bool even(cj_ctx *c, const char *op, int64_t dim)
{
    if (dim < 2 || dim % 2) cj_fail(c, CJ_EVALUE, "%s: dimension %lld; an even one expected", op, (long long)dim);
    return !c->error;
}

cj_tensor *cj_sinusoidal_positions(cj_ctx *c, int64_t length, int64_t dim)
{
    if (!c) return NULL;
    if (c->error || !even(c, "sinusoidal_positions", dim)) return c->poison;
    if (length < 1) return cj_fail(c, CJ_EVALUE, "sinusoidal_positions: length %lld", (long long)length);
    cj_tensor *a = angles(c, 0, length, dim, 10000);
    cj_tensor *pair[] = { cj_sin(a), cj_cos(a) };
    return cj_cast(cj_reshape(cj_stack(pair, 2, -1), CJ_SHAPE(length, dim)), CJ_F32);
}

typedef struct positions {
    cj_tensor *weight; /* NULL: sinusoidal */
    int64_t dim;
} positions;

static cj_tensor *positions_forward(cj_module *m, void *self, cj_tensor *x)
{
    const positions *l = self;
    cj_ctx *c = cj_module_ctx(m);
    if (x->ndim < 2 || x->shape[x->ndim - 1] != l->dim)
        return cj_fail(c, CJ_ESHAPE, "%s: input %s; [.., T, %lld] expected", cj_module_type_name(m), cj__tensor_text(x), (long long)l->dim);
    int64_t length = x->shape[x->ndim - 2];
    if (l->weight && length > l->weight->shape[0])
        return cj_fail(c, CJ_EINDEX, "%s: %lld positions; there are %lld", cj_module_type_name(m), (long long)length,
                       (long long)l->weight->shape[0]);
    cj_tensor *p =
        l->weight ? cj_slice(l->weight, 0, 0, length, 1) : cj_cast(cj_sinusoidal_positions(c, length, l->dim), (cj_dtype)x->dtype);
    return cj_add(x, p);
}
static const cj_module_type sinusoidal_type = { "SinusoidalPositions", positions_forward, NULL };
static const cj_module_type learned_type = { "LearnedPositions", positions_forward, NULL };

cj_module *cj_sinusoidal_layer(cj_ctx *c, int64_t dim)
{
    if (!c || c->error || !even(c, "sinusoidal layer", dim)) return NULL;
    cj_module *m = cj_module_new(c, &sinusoidal_type, sizeof(positions));
    if (m) ((positions *)cj_module_self(m))->dim = dim;
    return m;
}
cj_module *cj_learned_positions_layer(cj_ctx *c, int64_t capacity, int64_t dim)
{
    if (!c) return NULL;
    if (capacity < 1 || dim < 1) {
        cj_fail(c, CJ_EVALUE, "learned_positions layer: sizes %lld x %lld", (long long)capacity, (long long)dim);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &learned_type, sizeof(positions));
    if (!m) return NULL;
    positions *l = cj_module_self(m);
    l->dim = dim;
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "weight", cj_normal(c, 0, 0.02, CJ_SHAPE(capacity, dim), &init_stream));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_tensor *cj_rotary(cj_tensor *x, int64_t start, double base)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, "rotary", 0, x)) return c->poison;
    int64_t d = x->ndim >= 2 ? x->shape[x->ndim - 1] : 0;
    if (d < 2 || d % 2 || !cj_dtype_is_float((cj_dtype)x->dtype))
        return cj_fail(c, CJ_ESHAPE, "rotary: input %s %s; floats [.., T, d] with an even d expected", cj_dtype_name((cj_dtype)x->dtype),
                       cj__tensor_text(x));
    if (start < 0 || base < 0) return cj_fail(c, CJ_EVALUE, "rotary: start %lld, base %g; neither is negative", (long long)start, base);
    cj_tensor *turn = angles(c, start, x->shape[x->ndim - 2], d, base > 0 ? base : 10000);
    cj_tensor *cosine = cj_cast(cj_cos(turn), (cj_dtype)x->dtype), *sine = cj_cast(cj_sin(turn), (cj_dtype)x->dtype);
    cj_tensor *a = cj_slice(x, -1, 0, d / 2, 1), *b = cj_slice(x, -1, d / 2, d, 1);
    cj_tensor *half[] = { cj_sub(cj_mul(a, cosine), cj_mul(b, sine)), cj_add(cj_mul(a, sine), cj_mul(b, cosine)) };
    return cj_cat(half, 2, -1);
}

/* ---- transformer layers ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct transformer {
    cj_module *self_attn, *cross_attn, *linear1, *linear2, *norm[3], *activation; /* cross_attn: of a decoder */
    double dropout;
    bool norm_first;
} transformer;

static cj_tensor *dropped(cj_module *m, const transformer *l, cj_tensor *x)
{
    return cj_module_training(m) && l->dropout > 0 ? cj_dropout(x, &(cj_dropout_opts){ .p = l->dropout }) : x;
}

typedef enum sublayer { SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD } sublayer;
typedef struct call {
    cj_multihead_call_opts self;
    cj_tensor *memory, *memory_mask;
} call;

/* x + f(norm(x)) or norm(x + f(x)) */
static cj_tensor *add_sublayer(cj_module *m, const transformer *l, sublayer kind, int at, cj_tensor *x, const call *k)
{
    static const char *const norm_name[] = { "norm1", "norm2", "norm3" };
    cj_ctx *c = cj_module_ctx(m);
    cj_tensor *h = l->norm_first ? cj__forward_as(l->norm[at], norm_name[at], x) : x, *y;
    if (kind == FEED_FORWARD) {
        y = dropped(m, l, cj_forward(l->activation, cj__forward_as(l->linear1, "linear1", h)));
        y = cj__forward_as(l->linear2, "linear2", y);
    } else {
        cj_enter(c, kind == SELF_ATTENTION ? "self_attn" : "multihead_attn");
        y = kind == SELF_ATTENTION
                ? cj_multihead_forward(l->self_attn, h, h, h, &k->self)
                : cj_multihead_forward(l->cross_attn, h, k->memory, k->memory, &(cj_multihead_call_opts){ .mask = k->memory_mask });
        cj_leave(c);
    }
    y = cj_add(x, dropped(m, l, y));
    return l->norm_first ? y : cj__forward_as(l->norm[at], norm_name[at], y);
}

static cj_tensor *transformer_run(cj_module *m, cj_tensor *x, const call *k)
{
    const transformer *l = cj_module_self(m);
    int norm = 0;
    x = add_sublayer(m, l, SELF_ATTENTION, norm++, x, k);
    if (l->cross_attn) x = add_sublayer(m, l, CROSS_ATTENTION, norm++, x, k);
    return add_sublayer(m, l, FEED_FORWARD, norm, x, k);
}
static cj_tensor *encoder_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return transformer_run(m, x, &(call){ 0 });
}
static const cj_module_type encoder_type = { "TransformerEncoderLayer", encoder_forward, NULL };
static const cj_module_type decoder_type = { "TransformerDecoderLayer", NULL, NULL };

static cj_module *transformer_layer(cj_ctx *c, const cj_module_type *type, int64_t dim, int heads, const cj_transformer_opts *opts)
{
    cj_transformer_opts o = opts ? *opts : (cj_transformer_opts){ 0 };
    if (!c) return NULL;
    double dropout = o.dropout == 0 ? 0.1 : o.dropout == CJ_ZERO ? 0 : o.dropout;
    if (!(dropout >= 0 && dropout < 1)) {
        cj_fail(c, CJ_EVALUE, "%s: dropout %g is outside [0, 1)", type->name, dropout);
        return NULL;
    }
    cj_module *m = cj_module_new(c, type, sizeof(transformer));
    if (!m) return NULL;
    transformer *l = cj_module_self(m);
    l->dropout = dropout;
    l->norm_first = o.norm_first;
    int64_t wide = o.feed_forward ? o.feed_forward : 2048;
    cj_multihead_opts attention = { .dropout = dropout };
    cj_layer_norm_opts norm = { .eps = o.eps };
    l->self_attn = cj_module_add(m, "self_attn", cj_multihead_attention(c, dim, heads, &attention));
    if (type == &decoder_type) l->cross_attn = cj_module_add(m, "multihead_attn", cj_multihead_attention(c, dim, heads, &attention));
    l->linear1 = cj_module_add(m, "linear1", cj_linear(c, dim, wide, NULL));
    l->linear2 = cj_module_add(m, "linear2", cj_linear(c, wide, dim, NULL));
    l->norm[0] = cj_module_add(m, "norm1", cj_layer_norm_layer(c, dim, &norm));
    l->norm[1] = cj_module_add(m, "norm2", cj_layer_norm_layer(c, dim, &norm));
    if (type == &decoder_type) l->norm[2] = cj_module_add(m, "norm3", cj_layer_norm_layer(c, dim, &norm));
    l->activation = cj_module_add(m, "activation", cj_activation_layer(c, o.activation ? o.activation : "relu", NULL));
    return c->error ? NULL : m;
}
cj_module *cj_transformer_encoder_layer(cj_ctx *c, int64_t dim, int heads, const cj_transformer_opts *opts)
{
    return transformer_layer(c, &encoder_type, dim, heads, opts);
}
cj_module *cj_transformer_decoder_layer(cj_ctx *c, int64_t dim, int heads, const cj_transformer_opts *opts)
{
    return transformer_layer(c, &decoder_type, dim, heads, opts);
}

static cj_tensor *transformer_call(cj_module *m, const cj_module_type *type, const char *op, cj_tensor *x, const call *k)
{
    if (!cj__module_is(m, type, op, x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    if (!cj__usable(c, op, 0, x) || (type == &decoder_type && !cj__usable(c, op, 1, k->memory))) return c->poison;
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj__module_begins(m, x);
    cj_tensor *y = transformer_run(m, x, k);
    cj__frame_close(c, frame, &y, 1);
    cj__module_ends(m, x, y);
    return y;
}
cj_tensor *cj_transformer_encoder_forward(cj_module *m, cj_tensor *x, const cj_multihead_call_opts *opts)
{
    call k = { .self = opts ? *opts : (cj_multihead_call_opts){ 0 } };
    return transformer_call(m, &encoder_type, "transformer_encoder_forward", x, &k);
}
cj_tensor *cj_transformer_decoder_forward(cj_module *m, cj_tensor *x, cj_tensor *memory, cj_tensor *memory_mask,
                                          const cj_multihead_call_opts *opts)
{
    call k = { .self = opts ? *opts : (cj_multihead_call_opts){ 0 }, .memory = memory, .memory_mask = memory_mask };
    return transformer_call(m, &decoder_type, "transformer_decoder_forward", x, &k);
}
