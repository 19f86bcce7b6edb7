/* Segments, bags and counts: what many rows give to few.
 *
 * segment_sum is the transpose of index_select, so the two are closed under differentiation.  scatter_reduce shares the gradient of an extremum between equals.
 * embedding_bag is a composite: a fused kernel that never writes the looked-up rows, and its definition in lookups and segment sums.
 */
#include <math.h>

#include "cajal/grad.h"
#include "ops/ops.h"

static const char *dtype_of(const cj_tensor *x) { return cj_dtype_name((cj_dtype)x->dtype); }

/* A 0-d constant of x's dtype: infinities become the ends of an integer type. */
static cj_tensor *constant(cj_tensor *x, double value) { return cj_cast(cj__const(x, value), (cj_dtype)x->dtype); }

/* What changes nothing in a combination; of a truth, where the cast of any infinity is true, 0 in a maximum. */
static cj_tensor *neutral(cj_tensor *x, cj_combine how)
{
    return constant(x, how == CJ_COMBINE_PROD                         ? 1
                       : how == CJ_COMBINE_MIN                        ? INFINITY
                       : how == CJ_COMBINE_MAX && x->dtype != CJ_BOOL ? -INFINITY
                                                                      : 0);
}

/* ---- segment_sum ---------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct segment_attrs {
    int64_t axis, len;
} segment_attrs;

static bool infer_segment(cj_call *call)
{
    const segment_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    if (!cj__index_dtype(call, index)) return false;
    if (index->ndim != 1 || x->shape[a->axis] != index->numel)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: ids %s for %s along axis %lld; one per element expected", call->op->name,
                         cj__tensor_text(index), cj__tensor_text(x), (long long)a->axis);
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[a->axis] = a->len;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape);
}
static bool run_segment(cj_call *call)
{
    const segment_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    cj_tensor *y = call->out[0];
    if (!cj__index_range(call, index, a->len)) return false;
    int64_t size[3];
    cj__split(y, a->axis, size);
    const cj_dtype t = (cj_dtype)y->dtype;
    void *sum = y->data;
    const void *rows = x->data;
    const int64_t one = 1;
    const bool half = t == CJ_BF16 || t == CJ_F16; /* summed in f32, rounded once */
    if (half) {
        float *wide = cj__scratch(c, (size_t)(x->numel + y->numel) * sizeof *wide + 1);
        if (!wide) return false;
        c->k->copy(c->pool, 1, &x->numel, t, x->data, &one, CJ_F32, wide, &one);
        rows = wide;
        sum = wide + x->numel;
    }
    c->k->fill(c->pool, half ? CJ_F32 : t, sum, y->numel, 0, 0);
    if (x->numel)
        c->k->index_add(c->pool, half ? CJ_F32 : t, sum, size[0], size[1], size[2], (const int64_t *)(const void *)index->data,
                        index->numel, rows);
    if (half) c->k->copy(c->pool, 1, &y->numel, CJ_F32, sum, &one, t, y->data, &one);
    return true;
}
static void d_segment(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = cj_index_select(v->g[0], (int)((const segment_attrs *)v->attrs)->axis, v->in[1]);
}
static void j_segment(cj_jvp_args *j)
{
    const segment_attrs *a = j->attrs;
    if (j->tan[0]) j->tout[0] = cj__segment_sum(j->tan[0], (int)a->axis, j->in[1], a->len);
}

/* ---- scatter_reduce --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct scatter_attrs {
    int64_t axis, how; /* cj_combine, but the mean */
} scatter_attrs;

static bool infer_scatter(cj_call *call)
{
    const scatter_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    if (!cj__index_dtype(call, index)) return false;
    bool fits = x->ndim == index->ndim && s->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++) fits = s->shape[d] == index->shape[d] && (d == a->axis || x->shape[d] == index->shape[d]);
    if (!fits || s->dtype != x->dtype)
        return cj__error(call->ctx, CJ_ESHAPE, "scatter_reduce: source %s %s and index %s do not fit %s %s along axis %lld",
                         cj__tensor_text(s), dtype_of(s), cj__tensor_text(index), cj__tensor_text(x), dtype_of(x), (long long)a->axis);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static bool run_scatter(cj_call *call)
{
    static const cj_reduce_code code[] = { [CJ_COMBINE_PROD] = CJ_RED_PROD, [CJ_COMBINE_MAX] = CJ_RED_MAX, [CJ_COMBINE_MIN] = CJ_RED_MIN };
    const scatter_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0], *index = call->in[1], *s = call->in[2];
    const int64_t *at = (const int64_t *)(const void *)index->data;
    cj_tensor *y = call->out[0];
    cj_dtype t = (cj_dtype)y->dtype;
    int64_t size[3];
    cj__split(x, a->axis, size);
    if (!cj__index_range(call, index, size[1])) return false;
    if (!y->numel) return true;
    memcpy(y->data, x->data, (size_t)y->numel * cj_dtype_size(t));
    if (!s->numel) return true;
    if (a->how == CJ_COMBINE_SUM) c->k->scatter_add(c->pool, t, y->data, size[0], size[1], size[2], at, index->shape[a->axis], s->data);
    else c->k->scatter_reduce(c->pool, code[a->how], t, y->data, size[0], size[1], size[2], at, index->shape[a->axis], s->data);
    return true;
}

static cj_tensor *scatter(cj_tensor *x, int64_t axis, cj_tensor *index, cj_tensor *source, cj_combine how);

static cj_tensor *as_floats(cj_tensor *mask, const cj_tensor *like) { return cj_cast(mask, (cj_dtype)like->dtype); }

/* Whoever equals the extremum has an equal share. */
static void d_extreme(cj_vjp_args *v, int axis)
{
    cj_tensor *x = v->in[0], *index = v->in[1], *s = v->in[2], *y = v->out[0];
    cj_tensor *x_has = as_floats(cj_eq(x, y), x), *s_has = as_floats(cj_eq(s, cj_gather(y, axis, index)), x);
    cj_tensor *share = cj_div(v->g[0], cj_scatter_add(x_has, axis, index, s_has));
    if (v->need[0]) v->gin[0] = cj_mul(x_has, share);
    if (v->need[2]) v->gin[2] = cj_mul(s_has, cj_gather(share, axis, index));
}

/* The product of all others: p/x without zeros; with one zero only that factor has a derivative. */
static cj_tensor *others(cj_tensor *p, cj_tensor *zeros, cj_tensor *rest, cj_tensor *is_zero)
{
    cj_tensor *only = cj_logical_and(cj_eq_scalar(zeros, 1), is_zero);
    return cj_where(cj_eq_scalar(zeros, 0), cj_div(p, rest), cj_where(only, p, constant(p, 0)));
}
static void d_product(cj_vjp_args *v, int axis)
{
    cj_tensor *x = v->in[0], *index = v->in[1], *s = v->in[2], *one = constant(x, 1);
    cj_tensor *x_zero = cj_eq_scalar(x, 0), *s_zero = cj_eq_scalar(s, 0);
    cj_tensor *x_rest = cj_where(x_zero, one, x), *s_rest = cj_where(s_zero, one, s);
    cj_tensor *p = scatter(x_rest, axis, index, s_rest, CJ_COMBINE_PROD);
    cj_tensor *zeros = cj_scatter_add(cj_cast(x_zero, CJ_I64), axis, index, cj_cast(s_zero, CJ_I64));
    if (v->need[0]) v->gin[0] = cj_mul(v->g[0], others(p, zeros, x_rest, x_zero));
    if (v->need[2])
        v->gin[2] =
            cj_mul(cj_gather(v->g[0], axis, index), others(cj_gather(p, axis, index), cj_gather(zeros, axis, index), s_rest, s_zero));
}
static void d_scatter(cj_vjp_args *v)
{
    const scatter_attrs *a = v->attrs;
    if (a->how == CJ_COMBINE_PROD) {
        d_product(v, (int)a->axis);
    } else if (a->how != CJ_COMBINE_SUM) {
        d_extreme(v, (int)a->axis);
    } else {
        if (v->need[0]) v->gin[0] = v->g[0];
        if (v->need[2]) v->gin[2] = cj_gather(v->g[0], (int)a->axis, v->in[1]);
    }
}

/* ---- embedding_bag: inputs weight, indices, offsets [, factors]; results [B, D] and, of a maximum, the rows it came from ------------------------------ */

typedef struct bag_attrs {
    int64_t mode;     /* cj_combine: SUM, MEAN, MAX */
    int64_t weighted; /* there are factors */
} bag_attrs;

static cj_bag bag_of(const bag_attrs *a, const cj_tensor *table, const cj_tensor *index, const cj_tensor *offset, const cj_tensor *factors)
{
    return (cj_bag){ .mode = a->mode == CJ_COMBINE_MAX    ? CJ_BAG_MODE_MAX
                             : a->mode == CJ_COMBINE_MEAN ? CJ_BAG_MODE_MEAN
                                                          : CJ_BAG_MODE_SUM,
                     .t = (cj_dtype)table->dtype,
                     .rows = table->shape[0],
                     .d = table->shape[1],
                     .n = index->numel,
                     .bags = offset->numel,
                     .index = (const int64_t *)(const void *)index->data,
                     .offset = (const int64_t *)(const void *)offset->data,
                     .weight = factors ? factors->data : NULL };
}
static bool infer_bag(cj_call *call)
{
    const bag_attrs *a = call->attrs;
    const cj_tensor *w = call->in[0], *index = call->in[1], *offset = call->in[2];
    if (!cj_dtype_is_float((cj_dtype)w->dtype))
        return cj__error(call->ctx, CJ_EDTYPE, "embedding_bag: the weight is %s, a float type expected", dtype_of(w));
    if (!cj__index_dtype(call, index) || !cj__index_dtype(call, offset)) return false;
    if (w->ndim != 2 || index->ndim != 1 || offset->ndim != 1)
        return cj__error(call->ctx, CJ_ESHAPE, "embedding_bag: weight %s, indices %s, offsets %s; [V, D], [n], [B] expected",
                         cj__tensor_text(w), cj__tensor_text(index), cj__tensor_text(offset));
    if (a->weighted && (call->in[3]->dtype != w->dtype || call->in[3]->ndim != 1 || call->in[3]->numel != index->numel))
        return cj__error(call->ctx, CJ_ESHAPE, "embedding_bag: per_sample_weights %s %s for %lld indices of a weight of %s",
                         cj__tensor_text(call->in[3]), dtype_of(call->in[3]), (long long)index->numel, dtype_of(w));
    const int64_t shape[2] = { offset->numel, w->shape[1] };
    return cj__out(call, 0, (cj_dtype)w->dtype, 2, shape) &&
           cj__out(call, 1, CJ_I64, a->mode == CJ_COMBINE_MAX ? 2 : 1, a->mode == CJ_COMBINE_MAX ? shape : &(int64_t){ 0 });
}
static bool offsets_ascend(cj_ctx *c, const cj_bag *b)
{
    int64_t before = 0;
    for (int64_t i = 0; i < b->bags; before = b->offset[i++])
        if (i == 0 ? b->offset[0] != 0 : b->offset[i] < before || b->offset[i] > b->n)
            return cj__error(c, CJ_EINDEX, "embedding_bag: offset %lld at position %lld; offsets ascend from 0 to at most the %lld indices",
                             (long long)b->offset[i], (long long)i, (long long)b->n);
    return true;
}
static bool run_bag(cj_call *call)
{
    const bag_attrs *a = call->attrs;
    cj_bag b = bag_of(a, call->in[0], call->in[1], call->in[2], a->weighted ? call->in[3] : NULL);
    if (!offsets_ascend(call->ctx, &b) || !cj__index_range(call, call->in[1], b.rows)) return false;
    call->ctx->k->bag(call->ctx->pool, &b, call->in[0]->data, call->out[0]->data, (int64_t *)(void *)call->out[1]->data);
    return true;
}
static bool define_bag(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out);

/* Inputs dy, weight, indices, offsets, where [, factors]; results dweight and dfactors. */
static bool infer_bag_bwd(cj_call *call)
{
    const bag_attrs *a = call->attrs;
    const cj_tensor *w = call->in[1];
    return cj__out(call, 0, (cj_dtype)w->dtype, 2, w->shape) &&
           cj__out(call, 1, (cj_dtype)w->dtype, 1, a->weighted ? call->in[5]->shape : &(int64_t){ 0 });
}
static bool run_bag_bwd(cj_call *call)
{
    const bag_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    const cj_tensor *dy = call->in[0], *w = call->in[1];
    cj_tensor *dw = call->out[0];
    cj_bag b = bag_of(a, w, call->in[2], call->in[3], a->weighted ? call->in[5] : NULL);
    c->k->fill(c->pool, b.t, dw->data, dw->numel, 0, 0);
    c->k->bag_bwd(c->pool, &b, dy->data, (const int64_t *)(const void *)call->in[4]->data, dw->data);
    if (a->weighted) c->k->bag_weights_bwd(c->pool, &b, dy->data, w->data, call->out[1]->data);
    return true;
}
static void d_bag(cj_vjp_args *v);

/* ---- counts ------------------------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_bincount(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj__index_dtype(call, x)) return false;
    if (x->ndim != 1)
        return cj__error(call->ctx, CJ_ESHAPE, "bincount: the input has shape %s, one dimension expected", cj__tensor_text(x));
    if (!cj__values_at_hand(call, x)) return false;
    const int64_t *v = (const int64_t *)(const void *)x->data;
    int64_t bins = *(const int64_t *)call->attrs;
    for (int64_t i = 0; i < x->numel; i++) {
        if (v[i] < 0 || v[i] == INT64_MAX)
            return cj__error(call->ctx, CJ_EINDEX, "bincount: value %lld at position %lld cannot be counted", (long long)v[i],
                             (long long)i);
        if (v[i] >= bins) bins = v[i] + 1;
    }
    return cj__out(call, 0, CJ_I64, 1, &bins);
}
static bool run_bincount(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0];
    const int64_t bins = call->out[0]->numel;
    int64_t *scratch = cj__scratch(c, (size_t)cj__pool_threads(c->pool) * (size_t)bins * sizeof *scratch + 1);
    if (!scratch) return false;
    c->k->count(c->pool, (const int64_t *)(const void *)x->data, x->numel, bins, (int64_t *)(void *)call->out[0]->data, scratch);
    return true;
}

typedef struct histogram_attrs {
    int64_t bins;
    double low, high;
} histogram_attrs;
static bool infer_histogram(cj_call *call) { return cj__out(call, 0, CJ_I64, 1, &((const histogram_attrs *)call->attrs)->bins); }
static bool run_histogram(cj_call *call)
{
    const histogram_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0];
    int64_t *scratch = cj__scratch(c, (size_t)cj__pool_threads(c->pool) * (size_t)a->bins * sizeof *scratch);
    if (!scratch) return false;
    int64_t nan = c->k->histogram(c->pool, (cj_dtype)x->dtype, x->data, x->numel, a->bins, a->low, a->high,
                                  (int64_t *)(void *)call->out[0]->data, scratch);
    return nan < 0 || cj__error(c, CJ_EVALUE, "histogram: the value at position %lld is NaN", (long long)nan);
}

/* ---- means and maxima of segments: x and ids, and how many ------------------------------------------------------------------------------------------- */

static cj_tensor *per_row(cj_tensor *v, const cj_tensor *x)
{
    cj_shape s = { .ndim = x->ndim };
    for (int d = 0; d < s.ndim; d++) s.dim[d] = d ? 1 : v->numel;
    return cj_reshape(v, s);
}
static bool define_segment_mean(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const int64_t len = *(const int64_t *)attrs;
    (void)nin;
    cj_tensor *sum = cj__segment_sum(in[0], 0, in[1], len), *count = cj__segment_sum(cj_ones_like(in[1]), 0, in[1], len);
    if (c->error) return false;
    out[0] = cj_div(sum, per_row(cj_cast(count, (cj_dtype)in[0]->dtype), in[0]));
    return c->error == CJ_OK;
}
static bool define_segment_max(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    cj_tensor *x = in[0];
    cj_shape s = cj__shape(x);
    (void)nin;
    cj_tensor *at = cj_contiguous(cj_expand(per_row(in[1], x), s));
    s.dim[0] = *(const int64_t *)attrs;
    out[0] = scatter(cj_contiguous(cj_expand(neutral(x, CJ_COMBINE_MAX), s)), 0, at, x, CJ_COMBINE_MAX);
    return c->error == CJ_OK;
}

#define SEGMENT_ROW(op_name, part)                                                                                                         \
    {                                                                                                                                      \
        .name = op_name, .family = "segment", .kind = CJ_COMPOSITE, .nin = 2, .nout = 1, .attr_size = sizeof(int64_t),                     \
        .define = define_##part                                                                                                            \
    }
enum { SEGMENT_SUM, SEGMENT_MEAN, SEGMENT_MAX, SCATTER_REDUCE, EMBEDDING_BAG, EMBEDDING_BAG_BWD, BINCOUNT, HISTOGRAM };
const cj_op cj__ops_segment[] = {
    [SEGMENT_SUM] = { .name = "segment_sum",
                      .family = "segment",
                      .kind = CJ_PRIMITIVE,
                      .nin = 2,
                      .nout = 1,
                      .attr_size = sizeof(segment_attrs),
                      .save_in = 2,
                      .infer = infer_segment,
                      .run = run_segment,
                      .vjp = d_segment,
                      .jvp_rule = CJ_JVP_OWN,
                      .jvp = j_segment },
    [SEGMENT_MEAN] = SEGMENT_ROW("segment_mean", segment_mean),
    [SEGMENT_MAX] = SEGMENT_ROW("segment_max", segment_max),
    [SCATTER_REDUCE] = { .name = "scatter_reduce",
                         .family = "segment",
                         .kind = CJ_PRIMITIVE,
                         .nin = 3,
                         .nout = 1,
                         .attr_size = sizeof(scatter_attrs),
                         .save_in = 7,
                         .save_out = 1,
                         .infer = infer_scatter,
                         .run = run_scatter,
                         .vjp = d_scatter,
                         .jvp_rule = CJ_JVP_DERIVED },
    [EMBEDDING_BAG] = { .name = "embedding_bag",
                        .family = "segment",
                        .kind = CJ_COMPOSITE,
                        .nin = -1,
                        .nout = 2,
                        .attr_size = sizeof(bag_attrs),
                        .save_in = 15,
                        .save_out = 2,
                        .infer = infer_bag,
                        .run = run_bag,
                        .vjp = d_bag,
                        .define = define_bag },
    [EMBEDDING_BAG_BWD] = { .name = "embedding_bag_backward",
                            .family = "segment",
                            .kind = CJ_INTERNAL,
                            .flags = CJ_OP_NOGRAD,
                            .nin = -1,
                            .nout = 2,
                            .attr_size = sizeof(bag_attrs),
                            .infer = infer_bag_bwd,
                            .run = run_bag_bwd },
    [BINCOUNT] = { .name = "bincount",
                   .family = "segment",
                   .kind = CJ_PRIMITIVE,
                   .flags = CJ_OP_NOGRAD | CJ_OP_DYNAMIC,
                   .nin = 1,
                   .nout = 1,
                   .attr_size = sizeof(int64_t),
                   .infer = infer_bincount,
                   .run = run_bincount,
                   .jvp_rule = CJ_JVP_NONE },
    [HISTOGRAM] = { .name = "histogram",
                    .family = "segment",
                    .kind = CJ_PRIMITIVE,
                    .flags = CJ_OP_NOGRAD,
                    .nin = 1,
                    .nout = 1,
                    .attr_size = sizeof(histogram_attrs),
                    .infer = infer_histogram,
                    .run = run_histogram,
                    .jvp_rule = CJ_JVP_NONE },
};
CJ_OP_TABLE(segment);

static cj_tensor *scatter(cj_tensor *x, int64_t axis, cj_tensor *index, cj_tensor *source, cj_combine how)
{
    cj_tensor *in[3] = { cj_contiguous(x), cj_contiguous(index), cj_contiguous(source) };
    return cj__apply(&cj__ops_segment[SCATTER_REDUCE], &(scatter_attrs){ axis, how }, in, 3);
}

static void d_bag(cj_vjp_args *v)
{
    const bag_attrs *a = v->attrs;
    if (!v->g[0]) return;
    cj_tensor *in[6] = { cj_contiguous(v->g[0]), v->in[0], v->in[1], v->in[2], v->out[1], a->weighted ? v->in[3] : NULL }, *out[2];
    cj__apply_n(v->ctx, &cj__ops_segment[EMBEDDING_BAG_BWD], a, in, a->weighted ? 6 : 5, out);
    v->gin[0] = out[0];
    if (a->weighted) v->gin[3] = out[1];
}

/* The rows looked up, times their factors, summed by the bag they belong to: that of the last offset up to their place.  A maximum is looked up where the kernel found it. */
static bool define_bag(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const bag_attrs *a = attrs;
    cj_tensor *w = in[0], *index = in[1], *offsets = in[2];
    (void)nin;
    if (a->mode == CJ_COMBINE_MAX) {
        if (w->st->device) return cj__error(c, CJ_EDEVICE, "embedding_bag: no %s kernel for this operator's maxima", c->backend->name);
        cj_tensor *found[3] = { cj_detach(w), index, offsets }, *result[2];
        if (!cj__apply_n(c, &cj__ops_segment[EMBEDDING_BAG], a, found, 3, result)) return false;
        cj_tensor *none = cj_lt_scalar(result[1], 0);
        out[0] = cj_masked_fill(cj_gather(w, 0, cj_where(none, constant(result[1], 0), result[1])), none, 0);
        out[1] = result[1];
        return c->error == CJ_OK;
    }
    cj_tensor *place = cj_sub(cj_cumsum(cj_ones_like(index), 0), cj_ones_like(index));
    cj_tensor *bag = cj_add_scalar(cj_searchsorted(offsets, place, &(cj_searchsorted_opts){ .right = true }), -1);
    cj_tensor *rows = cj_index_select(w, 0, index);
    if (a->weighted) rows = cj_mul(rows, cj_unsqueeze(in[3], -1));
    out[0] = cj__segment_sum(rows, 0, bag, offsets->numel);
    if (a->mode == CJ_COMBINE_MEAN) {
        cj_tensor *count = cj__segment_sum(cj_ones_like(bag), 0, bag, offsets->numel);
        count = cj_maximum(count, cj_ones_like(count));
        out[0] = cj_div(out[0], cj_unsqueeze(cj_cast(count, (cj_dtype)w->dtype), -1));
    }
    out[1] = cj_slice(bag, 0, 0, 0, 1);
    return c->error == CJ_OK;
}

/* ---- what users call --------------------------------------------------------------------------------------------------------------------------------------- */

/* Usable arguments of one context; false after an error. */
static bool usable(const char *op, cj_tensor *const *in, int n)
{
    cj_ctx *c = in[0]->ctx;
    for (int i = 0; i < n; i++)
        if (c->error || !cj__usable(c, op, i, in[i])) return false;
    return true;
}
static cj_tensor *as_index(cj_tensor *index)
{
    return cj_contiguous(index->dtype == CJ_I32 || index->dtype == CJ_U8 ? cj_cast(index, CJ_I64) : index);
}

cj_tensor *cj__segment_sum(cj_tensor *x, int axis, cj_tensor *index, int64_t len)
{
    if (x->st && x->st->device && !(x->flags & CJ_T_POISON)) { /* made of what every device has */
        cj_tensor like = *x;
        like.shape[axis] = len;
        return cj_index_add(cj__zeros_for(&like, x), axis, index, x);
    }
    cj_tensor *in[2] = { cj_contiguous(x), cj_contiguous(index) };
    return cj__apply(&cj__ops_segment[SEGMENT_SUM], &(segment_attrs){ axis, len }, in, 2);
}

static bool segments_ok(const char *op, cj_tensor *x, cj_tensor *ids, int64_t segments)
{
    if (!usable(op, (cj_tensor *[]){ x, ids }, 2)) return false;
    if (segments < 0) return cj__error(x->ctx, CJ_EVALUE, "%s: %lld segments", op, (long long)segments);
    if (x->ndim < 1) return cj__error(x->ctx, CJ_ESHAPE, "%s: a 0-d input", op);
    if (ids->dtype != CJ_I64 && ids->dtype != CJ_I32 && ids->dtype != CJ_U8)
        return cj__error(x->ctx, CJ_EDTYPE, "%s: the ids are %s, i64 expected", op, dtype_of(ids));
    if (ids->ndim != 1 || ids->numel != x->shape[0])
        return cj__error(x->ctx, CJ_ESHAPE, "%s: ids %s for %s; one per row expected", op, cj__tensor_text(ids), cj__tensor_text(x));
    return true;
}
cj_tensor *cj_segment_sum(cj_tensor *x, cj_tensor *ids, int64_t segments)
{
    if (!x || !ids) return CJ_MISSING("segment_sum", x, ids);
    if (!segments_ok("segment_sum", x, ids, segments)) return x->ctx->poison;
    const cj_called was = cj__called(x->ctx, "segment_sum", "id");
    return cj__called_done(x->ctx, was, cj__segment_sum(x, 0, as_index(ids), segments));
}
static cj_tensor *of_segments(int row, cj_tensor *x, cj_tensor *ids, int64_t segments)
{
    const cj_op *op = &cj__ops_segment[row];
    if (!x || !ids) return CJ_MISSING(op->name, x, ids);
    if (!segments_ok(op->name, x, ids, segments)) return x->ctx->poison;
    if (row == SEGMENT_MEAN && !cj_dtype_is_float((cj_dtype)x->dtype))
        return cj_fail(x->ctx, CJ_EDTYPE, "segment_mean: the input is %s; cast it to a float type", dtype_of(x));
    cj_tensor *in[2] = { x, as_index(ids) };
    const cj_called was = cj__called(x->ctx, op->name, "id");
    return cj__called_done(x->ctx, was, cj__apply(op, &segments, in, 2));
}
cj_tensor *cj_segment_mean(cj_tensor *x, cj_tensor *ids, int64_t segments) { return of_segments(SEGMENT_MEAN, x, ids, segments); }
cj_tensor *cj_segment_max(cj_tensor *x, cj_tensor *ids, int64_t segments) { return of_segments(SEGMENT_MAX, x, ids, segments); }

cj_tensor *cj_scatter_reduce(cj_tensor *x, int axis, cj_tensor *index, cj_tensor *source, cj_combine how, const cj_scatter_opts *opts)
{
    static const char op[] = "scatter_reduce";
    if (!x || !index || !source) return CJ_MISSING(op, x, index, source);
    cj_ctx *c = x->ctx;
    if (!usable(op, (cj_tensor *[]){ x, index, source }, 3) || (axis = cj__axis(c, op, axis, x->ndim)) < 0) return c->poison;
    if ((unsigned)how > CJ_COMBINE_MIN) return cj_fail(c, CJ_EVALUE, "%s: %d is no cj_combine", op, (int)how);
    index = as_index(index);
    const bool exclude = opts && opts->exclude_self;
    cj_tensor *count = NULL;
    if (exclude || how == CJ_COMBINE_MEAN) { /* how many come to each place */
        cj_tensor *start = cj_expand(cj_cast(cj__const(x, how == CJ_COMBINE_MEAN && !exclude), CJ_I64), cj__shape(x));
        count = scatter(start, axis, index, cj_ones_like(index), CJ_COMBINE_SUM);
        if (exclude) x = cj_where(cj_gt_scalar(count, 0), neutral(x, how), x);
    }
    if (how != CJ_COMBINE_MEAN) return scatter(x, axis, index, source, how);
    cj_tensor *sum = scatter(x, axis, index, source, CJ_COMBINE_SUM);
    if (c->error) return c->poison;
    count = cj_cast(cj_maximum(count, cj_ones_like(count)), (cj_dtype)x->dtype);
    return cj_dtype_is_float((cj_dtype)x->dtype) ? cj_div(sum, count) : cj_floor_divide(sum, count);
}

cj_tensor *cj_embedding_bag(cj_tensor *weight, cj_tensor *indices, cj_tensor *offsets, cj_combine mode, const cj_embedding_bag_opts *opts)
{
    static const char op[] = "embedding_bag";
    if (!weight || !indices) return CJ_MISSING(op, weight, indices);
    cj_ctx *c = weight->ctx;
    cj_tensor *factors = opts ? opts->per_sample_weights : NULL;
    if (!usable(op, (cj_tensor *[]){ weight, indices, offsets ? offsets : indices, factors ? factors : weight }, 4)) return c->poison;
    if (mode != CJ_COMBINE_SUM && mode != CJ_COMBINE_MEAN && mode != CJ_COMBINE_MAX)
        return cj_fail(c, CJ_EVALUE, "%s: mode %d is none of CJ_COMBINE_SUM, CJ_COMBINE_MEAN, CJ_COMBINE_MAX", op, (int)mode);
    if (factors && mode != CJ_COMBINE_SUM) return cj_fail(c, CJ_EVALUE, "%s: per_sample_weights go with CJ_COMBINE_SUM only", op);
    if (offsets ? indices->ndim != 1 : indices->ndim != 2)
        return cj_fail(c, CJ_ESHAPE, "%s: indices %s %s offsets; %s expected", op, cj__tensor_text(indices), offsets ? "with" : "without",
                       offsets ? "[n]" : "[B, n]");
    if (factors &&
        (factors->ndim != indices->ndim || memcmp(factors->shape, indices->shape, indices->ndim * sizeof indices->shape[0]) != 0))
        return cj_fail(c, CJ_ESHAPE, "%s: per_sample_weights %s for indices %s", op, cj__tensor_text(factors), cj__tensor_text(indices));
    indices = as_index(indices);
    if (!offsets) {
        cj_tensor *bag = cj_arange(c, 0, (double)indices->shape[0], 1, CJ_I64);
        offsets = cj_mul_scalar(bag, (double)indices->shape[1]);
        indices = cj_reshape(indices, CJ_SHAPE(indices->numel));
        if (factors) factors = cj_reshape(factors, CJ_SHAPE(factors->numel));
    }
    if (offsets->numel == 0 && indices->numel)
        return cj_fail(c, CJ_ESHAPE, "%s: %lld indices and no offset", op, (long long)indices->numel);
    cj_tensor *in[4] = { cj_contiguous(weight), indices, as_index(offsets), factors ? cj_contiguous(factors) : NULL }, *out[2];
    cj__apply_n(c, &cj__ops_segment[EMBEDDING_BAG], &(bag_attrs){ mode, factors != NULL }, in, factors ? 4 : 3, out);
    return out[0];
}

cj_tensor *cj_bincount(cj_tensor *x, const cj_bincount_opts *opts)
{
    static const char op[] = "bincount";
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    cj_tensor *weights = opts ? opts->weights : NULL;
    int64_t minlength = opts ? opts->minlength : 0;
    if (!usable(op, (cj_tensor *[]){ x, weights ? weights : x }, 2)) return c->poison;
    if (minlength < 0) return cj_fail(c, CJ_EVALUE, "%s: minlength %lld", op, (long long)minlength);
    if (weights && (weights->ndim != 1 || weights->numel != x->numel))
        return cj_fail(c, CJ_ESHAPE, "%s: weights %s for %s", op, cj__tensor_text(weights), cj__tensor_text(x));
    x = as_index(x);
    cj_tensor *counts = cj__apply(&cj__ops_segment[BINCOUNT], &minlength, &x, 1);
    if (c->error || !weights) return counts;
    return cj__segment_sum(weights->dtype == CJ_F32 ? weights : cj_cast(weights, CJ_F64), 0, x, counts->numel);
}

cj_histogram_result cj_histogram(cj_tensor *x, int64_t bins, double low, double high)
{
    static const char op[] = "histogram";
    if (!x) return (cj_histogram_result){ 0 };
    cj_ctx *c = x->ctx;
    cj_histogram_result r = { c->poison, c->poison };
    if (!usable(op, &x, 1)) return r;
    if (bins < 1 || !isfinite(low) || !isfinite(high) || !(low < high) || !isfinite(high - low)) {
        cj__error(c, CJ_EVALUE, "%s: %lld bins from %g to %g", op, (long long)bins, low, high);
        return r;
    }
    cj_tensor *dense = cj_contiguous(x), *i = cj_arange(c, 0, (double)bins + 1, 1, CJ_F64);
    r.counts = cj__apply(&cj__ops_segment[HISTOGRAM], &(histogram_attrs){ bins, low, high }, &dense, 1);
    cj_tensor *edge = cj_add_scalar(cj_mul_scalar(i, (high - low) / (double)bins), low);
    edge = cj_where(cj_eq_scalar(i, (double)bins), cj_add_scalar(cj_mul_scalar(edge, 0), high), edge);
    r.edges = cj_cast(edge, cj_dtype_is_float((cj_dtype)x->dtype) ? (cj_dtype)x->dtype : CJ_F32);
    return r;
}
