/* Attention by other scores than the scaled product, relative positions, and convolution over the edges of a graph. */
#include <math.h>

#include "nn/nn.h"
#include "ops/ops.h"

static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

/* ---- attention: softmax over the keys of a score of query and key ------------------------------------------------------------------------------------------ */

typedef struct scored {
    cj_tensor *query, *key, *vector; /* matrices and a vector as the score needs them */
    int64_t query_dim, key_dim;
    cj_score score;
} scored;
static const cj_module_type scored_type = { "ScoreAttention", NULL, NULL };

static cj_tensor *weight(cj_module *m, const char *name, cj_shape shape)
{
    cj_ctx *c = cj_module_ctx(m);
    double bound = 1 / sqrt((double)shape.dim[shape.ndim - 1]);
    return cj_module_param(m, name, cj_uniform(c, -bound, bound, shape, &init_stream));
}

cj_module *cj_score_attention(cj_ctx *c, cj_score score, int64_t query_dim, int64_t key_dim, int64_t rank)
{
    static const char op[] = "score_attention";
    if (!c) return NULL;
    bool ranked = score == CJ_SCORE_ADDITIVE || score == CJ_SCORE_REDUCED_RANK;
    if ((unsigned)score > CJ_SCORE_REDUCED_RANK || query_dim < 1 || key_dim < 1 || (ranked && rank < 1)) {
        cj_fail(c, CJ_EVALUE, "%s: score %d of queries [%lld] and keys [%lld] with rank %lld", op, score, (long long)query_dim,
                (long long)key_dim, (long long)rank);
        return NULL;
    }
    if (score == CJ_SCORE_DOT && query_dim != key_dim) {
        cj_fail(c, CJ_EVALUE, "%s: a product of queries [%lld] and keys [%lld]; one size expected", op, (long long)query_dim,
                (long long)key_dim);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &scored_type, sizeof(scored));
    if (!m) return NULL;
    scored *l = cj_module_self(m);
    *l = (scored){ .query_dim = query_dim, .key_dim = key_dim, .score = score };
    cj_scope s = cj_scope_open(c);
    if (score == CJ_SCORE_GENERAL) l->query = weight(m, "weight", CJ_SHAPE(key_dim, query_dim));
    if (ranked) {
        l->query = weight(m, "query", CJ_SHAPE(rank, query_dim));
        l->key = weight(m, "key", CJ_SHAPE(rank, key_dim));
    }
    if (score == CJ_SCORE_ADDITIVE) l->vector = weight(m, "vector", CJ_SHAPE(rank));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* [.., Tq, Tk] */
static cj_tensor *scores(const scored *l, cj_tensor *q, cj_tensor *k)
{
    if (l->query) q = cj_linear_op(q, l->query, NULL);
    if (l->key) k = cj_linear_op(k, l->key, NULL);
    if (l->score != CJ_SCORE_ADDITIVE) return cj_matmul(q, cj_t(k));
    cj_tensor *hidden = cj_tanh(cj_add(cj_unsqueeze(q, -2), cj_unsqueeze(k, -3))); /* [.., Tq, Tk, rank] */
    return cj_squeeze(cj_matmul(hidden, cj_unsqueeze(l->vector, 1)), -1);
}

cj_attended cj_score_attention_forward(cj_module *m, cj_tensor *query, cj_tensor *key, cj_tensor *value, cj_tensor *mask)
{
    static const char op[] = "score_attention_forward";
    cj_ctx *c = m ? cj_module_ctx(m) : query ? query->ctx : NULL;
    const cj_attended poison = { c ? c->poison : NULL, c ? c->poison : NULL };
    if (!c || !cj__module_is(m, &scored_type, op, query)) return poison;
    const scored *l = cj_module_self(m);
    if (!cj__usable(c, op, 0, query) || !cj__usable(c, op, 1, key) || !cj__usable(c, op, 2, value) || (mask && !cj__usable(c, op, 3, mask)))
        return poison;
    if (query->ndim < 2 || query->shape[query->ndim - 1] != l->query_dim || key->ndim != query->ndim ||
        key->shape[key->ndim - 1] != l->key_dim || value->ndim != key->ndim || value->shape[value->ndim - 2] != key->shape[key->ndim - 2])
        return cj_fail(c, CJ_ESHAPE, "%s: query %s, key %s, value %s; [.., Tq, %lld], [.., Tk, %lld] and [.., Tk, d] expected", op,
                       cj__tensor_text(query), cj__tensor_text(key), cj__tensor_text(value), (long long)l->query_dim,
                       (long long)l->key_dim),
               poison;
    if (mask && mask->dtype != CJ_BOOL)
        return cj_fail(c, CJ_EDTYPE, "%s: the mask is %s; bool expected", op, cj_dtype_name((cj_dtype)mask->dtype)), poison;
    int frame = cj__frame_open(c);
    if (!frame) return poison;
    cj__module_begins(m, query);
    cj_tensor *s = scores(l, query, key), *weights = mask ? cj_masked_softmax(s, mask, -1) : cj_softmax(s, -1);
    cj_tensor *out[] = { cj_matmul(weights, value), weights };
    cj__frame_close(c, frame, out, 2);
    cj__module_ends(m, query, out[0]);
    return c->error ? poison : (cj_attended){ out[0], out[1] };
}

/* ---- attention between the positions of a feature map -------------------------------------------------------------------------------------------------------- */

typedef struct map_attention {
    cj_tensor *key, *query, *value; /* [dim, channels], [dim, channels], [out, channels] */
    bool relu;
} map_attention;

/* [N, C, H, W] or [N, C, L] -> [N, positions, C] */
static cj_tensor *tokens(cj_tensor *x) { return cj_transpose(cj_flatten(x, 2), 1, 2); }

static cj_tensor *map_project(const map_attention *l, cj_tensor *t, cj_tensor *w)
{
    cj_tensor *y = cj_linear_op(t, w, NULL);
    return l->relu ? cj_relu(y) : y;
}

static bool is_map(cj_ctx *c, const map_attention *l, cj_tensor *x)
{
    if (x->ndim >= 3 && x->shape[1] == l->key->shape[1]) return true;
    cj_fail(c, CJ_ESHAPE, "MapAttention: input %s; [N, %lld, ..] with positions expected", cj__tensor_text(x), (long long)l->key->shape[1]);
    return false;
}

static cj_tensor *map_attention_forward(cj_module *m, void *self, cj_tensor *x)
{
    const map_attention *l = self;
    cj_ctx *c = cj_module_ctx(m);
    if (!is_map(c, l, x)) return c->poison;
    cj_tensor *t = tokens(x);
    cj_tensor *y = cj_attention(map_project(l, t, l->query), map_project(l, t, l->key), map_project(l, t, l->value),
                                &(cj_attention_opts){ .scale = 1 });
    cj_shape shape = cj_shape_of(x);
    shape.dim[1] = l->value->shape[0];
    return cj_reshape(cj_contiguous(cj_transpose(y, 1, 2)), shape);
}
static const cj_module_type map_attention_type = { "MapAttention", map_attention_forward, NULL };

cj_module *cj_map_attention_layer(cj_ctx *c, int64_t channels, int64_t dim, int64_t out, bool relu)
{
    if (!c) return NULL;
    if (channels < 1 || dim < 1 || out < 1) {
        cj_fail(c, CJ_EVALUE, "map_attention layer: %lld channels, keys of %lld, values of %lld numbers", (long long)channels,
                (long long)dim, (long long)out);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &map_attention_type, sizeof(map_attention));
    if (!m) return NULL;
    map_attention *l = cj_module_self(m);
    l->relu = relu;
    cj_scope s = cj_scope_open(c);
    l->key = weight(m, "key", CJ_SHAPE(dim, channels));
    l->query = weight(m, "query", CJ_SHAPE(dim, channels));
    l->value = weight(m, "value", CJ_SHAPE(out, channels));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_tensor *cj_map_attention_weights(cj_module *m, cj_tensor *x)
{
    if (!cj__module_is(m, &map_attention_type, "map_attention_weights", x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    const map_attention *l = cj_module_self(m);
    if (!cj__usable(c, "map_attention_weights", 0, x) || !is_map(c, l, x)) return c->poison;
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *t = tokens(x), *y = cj_softmax(cj_matmul(map_project(l, t, l->query), cj_t(map_project(l, t, l->key))), -1);
    cj__frame_close(c, frame, &y, 1);
    return y;
}

/* ---- relative positions: a number for every difference of positions ---------------------------------------------------------------------------------------- */

typedef struct relative {
    cj_tensor *weight; /* [heads, 2·span + 1] */
    int64_t span;
} relative;
static const cj_module_type relative_type = { "RelativePositions", NULL, NULL };

cj_module *cj_relative_positions_layer(cj_ctx *c, int64_t heads, int64_t span)
{
    if (!c) return NULL;
    if (heads < 1 || span < 0) {
        cj_fail(c, CJ_EVALUE, "relative_positions layer: %lld heads, differences up to %lld", (long long)heads, (long long)span);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &relative_type, sizeof(relative));
    if (!m) return NULL;
    relative *l = cj_module_self(m);
    l->span = span;
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "weight", cj_normal(c, 0, 0.02, CJ_SHAPE(heads, 2 * span + 1), &init_stream));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_tensor *cj_relative_bias(cj_module *m, int64_t queries, int64_t keys)
{
    if (!cj__module_is(m, &relative_type, "relative_bias", NULL)) return m ? cj_module_ctx(m)->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    const relative *l = cj_module_self(m);
    if (queries < 1 || keys < 1)
        return cj_fail(c, CJ_EVALUE, "relative_bias: %lld queries, %lld keys", (long long)queries, (long long)keys);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *k = cj_arange(c, 0, (double)keys, 1, CJ_F64), *q = cj_unsqueeze(cj_arange(c, 0, (double)queries, 1, CJ_F64), 1);
    cj_tensor *offset = cj_add_scalar(cj_clamp(cj_sub(k, q), (double)-l->span, (double)l->span), (double)l->span);
    cj_tensor *flat = cj_reshape(cj_cast(offset, CJ_I64), CJ_SHAPE(queries * keys));
    cj_tensor *y = cj_reshape(cj_index_select(l->weight, 1, flat), CJ_SHAPE(l->weight->shape[0], queries, keys));
    cj__frame_close(c, frame, &y, 1);
    return y;
}

/* ---- graph convolution (Kipf & Welling 2017): A·x·Wᵀ + b -------------------------------------------------------------------------------------------------------- */

typedef struct graph_conv {
    cj_tensor *weight, *bias;
} graph_conv;
static const cj_module_type graph_conv_type = { "GraphConv", NULL, NULL };

cj_module *cj_graph_conv_layer(cj_ctx *c, int64_t in, int64_t out, const cj_linear_opts *opts)
{
    cj_linear_opts o = opts ? *opts : (cj_linear_opts){ 0 };
    if (!c) return NULL;
    if (in < 1 || out < 1) {
        cj_fail(c, CJ_EVALUE, "graph_conv layer: sizes %lld -> %lld", (long long)in, (long long)out);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &graph_conv_type, sizeof(graph_conv));
    if (!m) return NULL;
    graph_conv *l = cj_module_self(m);
    double bound = sqrt(6 / (double)(in + out)); /* Xavier, as in the article */
    cj_scope s = cj_scope_open(c);
    l->weight = cj_module_param(m, "weight",
                                o.init_std > 0 ? cj_normal(c, 0, o.init_std, CJ_SHAPE(out, in), &init_stream)
                                               : cj_uniform(c, -bound, bound, CJ_SHAPE(out, in), &init_stream));
    if (!o.no_bias) l->bias = cj_module_param(m, "bias", cj_zeros(c, CJ_SHAPE(out), CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_tensor *cj_graph_conv_forward(cj_module *m, cj_csr a, cj_tensor *x)
{
    static const char op[] = "graph_conv_forward";
    if (!cj__module_is(m, &graph_conv_type, op, x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    const graph_conv *l = cj_module_self(m);
    if (!cj__usable(c, op, 1, x)) return c->poison;
    if (x->ndim != 2 || x->shape[0] != a.cols || x->shape[1] != l->weight->shape[1])
        return cj_fail(c, CJ_ESHAPE, "%s: nodes %s; [%lld, %lld] expected", op, cj__tensor_text(x), (long long)a.cols,
                       (long long)l->weight->shape[1]);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj__module_begins(m, x);
    /* the narrower side goes over the edges */
    bool first = l->weight->shape[0] <= l->weight->shape[1];
    cj_tensor *y = first ? cj_csr_matmul(a, cj_linear_op(x, l->weight, NULL)) : cj_linear_op(cj_csr_matmul(a, x), l->weight, NULL);
    if (l->bias) y = cj_add(y, l->bias);
    cj__frame_close(c, frame, &y, 1);
    cj__module_ends(m, x, y);
    return y;
}

cj_csr cj_graph_normalise(cj_csr a)
{
    cj_csr none = { 0 };
    cj_ctx *c = a.values ? a.values->ctx : NULL;
    if (!c || c->error) return none;
    if (a.rows != a.cols) {
        cj_fail(c, CJ_ESHAPE, "graph_normalise: %lld x %lld; a square matrix expected", (long long)a.rows, (long long)a.cols);
        return none;
    }
    /* entries and then the diagonal, as places; values there are added */
    const int64_t n = a.rows;
    cj_tensor *self = cj_arange(c, 0, (double)n, 1, CJ_I64);
    cj_tensor *rows[] = { cj__csr_rows(a), self }, *cols[] = { a.columns, self },
              *values[] = { a.values, cj_ones(c, CJ_SHAPE(n), (cj_dtype)a.values->dtype) };
    cj_csr with = cj_csr_from_coo(cj_cat(rows, 2, 0), cj_cat(cols, 2, 0), cj_cat(values, 2, 0), n, n);
    if (c->error) return none;
    cj_tensor *degree = cj_csr_matmul(with, cj_ones(c, CJ_SHAPE(n), (cj_dtype)a.values->dtype)), *root = cj_rsqrt(degree);
    cj_tensor *scale = cj_mul(cj_index_select(root, 0, cj__csr_rows(with)), cj_index_select(root, 0, with.columns));
    return cj_csr_with_values(with, cj_mul(with.values, scale));
}
