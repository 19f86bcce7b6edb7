/* Indexing by tensors: index_select and index_add, gather and scatter_add are each other's derivatives; all are linear in their values. */
#include "cajal/grad.h"
#include "ops/ops.h"

bool cj__index_dtype(cj_call *call, const cj_tensor *index)
{
    if (index->dtype == CJ_I64) return true;
    return cj__error(call->ctx, CJ_EDTYPE, "%s: the index is %s, i64 expected", call->op->name, cj_dtype_name((cj_dtype)index->dtype));
}

bool cj__index_range(cj_call *call, const cj_tensor *index, int64_t len)
{
    const int64_t *v = (const int64_t *)index->data;
    int64_t bad = index->numel ? call->ctx->k->index_check(call->ctx->pool, v, index->numel, len) : -1;
    if (bad < 0) return true;
    const char *what = call->ctx->called.index ? call->ctx->called.index : "index";
    return cj__error(call->ctx, CJ_EINDEX, "%s: %s %lld at position %lld is outside [0, %lld)", call->op->name, what, (long long)v[bad],
                     (long long)bad, (long long)len);
}

/* ---- index_select, index_add ------------------------------------------------------------------------------------------------------------ */

static bool infer_select(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    if (!cj__index_dtype(call, index)) return false;
    if (index->ndim != 1)
        return cj__error(call->ctx, CJ_ESHAPE, "index_select: the index has shape %s, one dimension expected", cj__tensor_text(index));
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = index->numel;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape);
}
static bool run_select(cj_call *call)
{
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    cj__split(x, *(const int *)call->attrs, size);
    if (!cj__index_range(call, index, size[1])) return false;
    if (call->out[0]->numel)
        call->ctx->k->index_select(call->ctx->pool, (int)cj_dtype_size((cj_dtype)x->dtype), x->data, size[0], size[1], size[2],
                                   (const int64_t *)index->data, index->numel, call->out[0]->data);
    return true;
}
static void d_select(cj_vjp_args *v)
{
    const int axis = *(const int *)v->attrs;
    if (v->need[0]) v->gin[0] = cj__segment_sum(v->g[0], axis, v->in[1], v->in[0]->shape[axis]);
}

static bool infer_add(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    if (!cj__index_dtype(call, index)) return false;
    bool fits = index->ndim == 1 && s->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++) fits = s->shape[d] == (d == axis ? index->numel : x->shape[d]);
    if (!fits)
        return cj__error(call->ctx, CJ_ESHAPE, "index_add: source %s and index %s do not fit %s along axis %d", cj__tensor_text(s),
                         cj__tensor_text(index), cj__tensor_text(x), axis);
    if (s->dtype != x->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "index_add: source is %s, the tensor %s", cj_dtype_name((cj_dtype)s->dtype),
                         cj_dtype_name((cj_dtype)x->dtype));
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static bool run_add(cj_call *call)
{
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    cj_tensor *y = call->out[0];
    int64_t size[3];
    cj__split(x, *(const int *)call->attrs, size);
    if (!cj__index_range(call, index, size[1])) return false;
    if (!y->numel) return true;
    memcpy(y->data, x->data, (size_t)y->numel * cj_dtype_size((cj_dtype)y->dtype));
    if (s->numel)
        call->ctx->k->index_add(call->ctx->pool, (cj_dtype)y->dtype, y->data, size[0], size[1], size[2], (const int64_t *)index->data,
                                index->numel, s->data);
    return true;
}
static void d_add(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = v->g[0];
    if (v->need[2]) v->gin[2] = cj_index_select(v->g[0], *(const int *)v->attrs, v->in[1]);
}

/* ---- gather, scatter_add -------------------------------------------------------------------------------------------------------------------- */

static bool same_but(const cj_tensor *a, const cj_tensor *b, int axis)
{
    bool same = a->ndim == b->ndim;
    for (int d = 0; d < a->ndim && same; d++) same = d == axis || a->shape[d] == b->shape[d];
    return same;
}

static bool infer_gather(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    if (!cj__index_dtype(call, index)) return false;
    if (!same_but(x, index, axis))
        return cj__error(call->ctx, CJ_ESHAPE, "gather: index %s does not fit %s off axis %d", cj__tensor_text(index), cj__tensor_text(x),
                         axis);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, index->shape);
}
static bool run_gather(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    cj__split(x, axis, size);
    if (!cj__index_range(call, index, size[1])) return false;
    if (index->numel)
        call->ctx->k->gather(call->ctx->pool, (int)cj_dtype_size((cj_dtype)x->dtype), x->data, size[0], size[1], size[2],
                             (const int64_t *)index->data, index->shape[axis], call->out[0]->data);
    return true;
}
static void d_gather(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = cj_scatter_add(cj__zeros_for(v->in[0], v->g[0]), *(const int *)v->attrs, v->in[1], v->g[0]);
}

static bool infer_scatter(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    if (!cj__index_dtype(call, index)) return false;
    if (!same_but(x, index, axis) || !same_but(s, index, -1) || s->dtype != x->dtype)
        return cj__error(call->ctx, CJ_ESHAPE, "scatter_add: source %s %s and index %s do not fit %s %s along axis %d", cj__tensor_text(s),
                         cj_dtype_name((cj_dtype)s->dtype), cj__tensor_text(index), cj__tensor_text(x), cj_dtype_name((cj_dtype)x->dtype),
                         axis);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static bool run_scatter(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    cj_tensor *y = call->out[0];
    int64_t size[3];
    cj__split(x, axis, size);
    if (!cj__index_range(call, index, size[1])) return false;
    if (!y->numel) return true;
    memcpy(y->data, x->data, (size_t)y->numel * cj_dtype_size((cj_dtype)y->dtype));
    if (s->numel)
        call->ctx->k->scatter_add(call->ctx->pool, (cj_dtype)y->dtype, y->data, size[0], size[1], size[2], (const int64_t *)index->data,
                                  index->shape[axis], s->data);
    return true;
}
static void d_scatter(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = v->g[0];
    if (v->need[2]) v->gin[2] = cj_gather(v->g[0], *(const int *)v->attrs, v->in[1]);
}

/* Forward mode: linear in the values, the index has no tangent. */
static void j_select(cj_jvp_args *j)
{
    if (j->tan[0]) j->tout[0] = cj_index_select(j->tan[0], *(const int *)j->attrs, j->in[1]);
}
static void j_gather(cj_jvp_args *j)
{
    if (j->tan[0]) j->tout[0] = cj_gather(j->tan[0], *(const int *)j->attrs, j->in[1]);
}
static void j_add(cj_jvp_args *j)
{
    cj_tensor *x = j->tan[0] ? j->tan[0] : cj_zeros_like(j->in[0]), *s = j->tan[2] ? j->tan[2] : cj_zeros_like(j->in[2]);
    j->tout[0] = cj_index_add(x, *(const int *)j->attrs, j->in[1], s);
}
static void j_scatter(cj_jvp_args *j)
{
    cj_tensor *x = j->tan[0] ? j->tan[0] : cj_zeros_like(j->in[0]), *s = j->tan[2] ? j->tan[2] : cj_zeros_like(j->in[2]);
    j->tout[0] = cj_scatter_add(x, *(const int *)j->attrs, j->in[1], s);
}

/* ---- nonzero ---------------------------------------------------------------------------------------------------------------------------------- */

/* Counts first, because the shape of the result is the count. */
static bool infer_nonzero(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj__values_at_hand(call, x)) return false;
    int64_t count = 0;
    for (int64_t i = 0; i < x->numel; i++) count += cj__load(x, i) != 0;
    return cj__out(call, 0, CJ_I64, 2, (int64_t[]){ count, x->ndim });
}
static bool run_nonzero(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    int64_t *y = (int64_t *)call->out[0]->data;
    for (int64_t i = 0; i < x->numel; i++) {
        if (cj__load(x, i) == 0) continue;
        for (int d = 0; d < x->ndim; d++) *y++ = i / x->stride[d] % x->shape[d];
    }
    return true;
}

#define ROW(op_name, n, mask, inf, exec, rule, forward)                                                                                    \
    {                                                                                                                                      \
        .name = op_name, .family = "indexing", .kind = CJ_PRIMITIVE, .nin = n, .nout = 1, .attr_size = sizeof(int), .save_in = mask,       \
        .infer = inf, .run = exec, .vjp = rule, .jvp_rule = CJ_JVP_OWN, .jvp = forward                                                     \
    }
enum { INDEX_SELECT, INDEX_ADD, GATHER, SCATTER_ADD, NONZERO };
const cj_op cj__ops_index[] = {
    [INDEX_SELECT] = ROW("index_select", 2, 2, infer_select, run_select, d_select, j_select),
    [INDEX_ADD] = ROW("index_add", 3, 2, infer_add, run_add, d_add, j_add),
    [GATHER] = ROW("gather", 2, 2, infer_gather, run_gather, d_gather, j_gather),
    [SCATTER_ADD] = ROW("scatter_add", 3, 2, infer_scatter, run_scatter, d_scatter, j_scatter),
    [NONZERO] = { .name = "nonzero",
                  .family = "indexing",
                  .kind = CJ_PRIMITIVE,
                  .flags = CJ_OP_NOGRAD | CJ_OP_DYNAMIC,
                  .nin = 1,
                  .nout = 1,
                  .infer = infer_nonzero,
                  .run = run_nonzero,
                  .jvp_rule = CJ_JVP_NONE },
};
CJ_OP_TABLE(index);

/* Kernels want contiguous operands; the copies are operators of their own, so that tape and plan see them. */
static cj_tensor *apply(int row, int axis, cj_tensor *x, cj_tensor *index, cj_tensor *source, int n)
{
    const cj_op *op = &cj__ops_index[row];
    cj_tensor *in[3] = { x, index, source };
    if (!x) return cj__missing(op->name, in, n);
    cj_ctx *c = x->ctx;
    for (int i = 0; i < n; i++)
        if (c->error || !cj__usable(c, op->name, i, in[i])) return c->poison;
    axis = cj__axis(c, op->name, axis, x->ndim);
    if (axis < 0) return c->poison;
    if (index->dtype == CJ_I32 || index->dtype == CJ_U8) in[1] = cj_cast(index, CJ_I64);
    for (int i = 0; i < n; i++) in[i] = cj_contiguous(in[i]);
    return cj__apply(op, &axis, in, n);
}
cj_tensor *cj_index_select(cj_tensor *x, int axis, cj_tensor *index) { return apply(INDEX_SELECT, axis, x, index, NULL, 2); }
cj_tensor *cj_index_add(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source) { return apply(INDEX_ADD, axis, x, index, source, 3); }
cj_tensor *cj_gather(cj_tensor *x, int axis, cj_tensor *index) { return apply(GATHER, axis, x, index, NULL, 2); }
cj_tensor *cj_scatter_add(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source)
{
    return apply(SCATTER_ADD, axis, x, index, source, 3);
}

cj_tensor *cj_nonzero(cj_tensor *x)
{
    if (!cj__given("nonzero", &x, 1)) return CJ_POISON_OF(x);
    cj_tensor *dense = cj_contiguous(x);
    return cj__apply(&cj__ops_index[NONZERO], NULL, &dense, 1);
}

static cj_tensor *embedding(cj_ctx *c, cj_tensor *weight, cj_tensor *index, const cj_lookup_opts *opts)
{
    if (c->error || !cj__usable(c, "embedding", 0, weight) || !cj__usable(c, "embedding", 1, index)) return c->poison;
    if (weight->ndim != 2) return cj_fail(c, CJ_ESHAPE, "embedding: the weight has shape %s, [V, D] expected", cj__tensor_text(weight));
    if (index->ndim + 1 > CJ_MAX_DIMS) return cj_fail(c, CJ_ESHAPE, "embedding: index %s has too many dimensions", cj__tensor_text(index));
    cj_shape s = cj__shape(index);
    s.dim[s.ndim++] = weight->shape[1];
    cj_tensor *y = cj_reshape(cj_index_select(weight, 0, cj_reshape(index, CJ_SHAPE(index->numel))), s);
    if (!opts || !opts->padding) return y;
    const int64_t rows = weight->shape[0], at = opts->padding_idx < 0 ? opts->padding_idx + rows : opts->padding_idx;
    if (at < 0 || at >= rows)
        return cj_fail(c, CJ_EINDEX, "embedding: padding_idx %lld is outside the %lld rows", (long long)opts->padding_idx, (long long)rows);
    return cj_where(cj_unsqueeze(cj_eq_scalar(index, (double)at), -1), cj_detach(y), y); /* the row is used, but gets no gradient */
}
cj_tensor *cj_embedding(cj_tensor *weight, cj_tensor *index, const cj_lookup_opts *opts)
{
    if (!weight || !index) return CJ_MISSING("embedding", weight, index);
    const cj_called was = cj__called(weight->ctx, "embedding", NULL);
    return cj__called_done(weight->ctx, was, embedding(weight->ctx, weight, index, opts));
}

static cj_tensor *one_hot(cj_ctx *c, cj_tensor *index, int64_t classes)
{
    if (c->error || !cj__usable(c, "one_hot", 0, index)) return c->poison;
    if (classes < 1) return cj_fail(c, CJ_EVALUE, "one_hot: %lld classes", (long long)classes);
    cj_shape s = cj__shape(index);
    if (s.ndim + 1 > CJ_MAX_DIMS) return cj_fail(c, CJ_ESHAPE, "one_hot: index %s has too many dimensions", cj__tensor_text(index));
    s.dim[s.ndim++] = 1;
    cj_tensor *at = cj_reshape(index, s);
    s.dim[s.ndim - 1] = classes;
    return cj_scatter_add(cj_full(c, 0, s, CJ_I64), -1, at, cj_ones_like(cj_cast(at, CJ_I64)));
}
cj_tensor *cj_one_hot(cj_tensor *index, int64_t classes)
{
    if (!index) return NULL;
    const cj_called was = cj__called(index->ctx, "one_hot", NULL);
    return cj__called_done(index->ctx, was, one_hot(index->ctx, index, classes));
}
