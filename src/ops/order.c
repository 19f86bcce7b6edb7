/* Ordering: sort, the k best, order statistics, runs of equal values, search.
 *
 * The order is total, with NaN above everything, and equal values keep their order, so that results are unique.  The derivative of what was picked goes back to
 * where it came from: sort and topk give the places, gather and scatter_add do the rest, to any order.
 */
#include "ops/ops.h"

typedef cj_order_attrs order_attrs;

static int64_t row_length(const cj_tensor *x) { return x->shape[x->ndim - 1]; }

static bool infer_order(cj_call *call)
{
    const order_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__contiguous(x)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    memcpy(shape, x->shape, sizeof shape);
    if (row_length(x) > CJ_ORDER_MAX)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: an axis of %lld elements, at most %lld are possible", call->op->name,
                         (long long)row_length(x), (long long)CJ_ORDER_MAX);
    if (a->k >= 0) shape[x->ndim - 1] = a->k;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape) && cj__out(call, 1, CJ_I64, x->ndim, shape);
}
static bool run_order(cj_call *call)
{
    const order_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0];
    if (!call->out[0]->numel) return true;
    const int64_t n = row_length(x), k = a->k < 0 ? n : a->k;
    void *scratch = cj__scratch(c, c->k->order_scratch(c->pool, (cj_dtype)x->dtype, n, k));
    if (!scratch) return false;
    c->k->order(c->pool, (cj_dtype)x->dtype, x->data, x->numel / n, n, k, a->descending != 0, call->out[0]->data,
                (int64_t *)(void *)call->out[1]->data, scratch);
    return true;
}
static void d_order(cj_vjp_args *v)
{
    if (v->g[0]) v->gin[0] = cj_scatter_add(cj__zeros_for(v->in[0], v->g[0]), -1, v->out[1], v->g[0]);
}
static void j_order(cj_jvp_args *j)
{
    j->tout[0] = cj_gather(j->tan[0], -1, j->out[1]);
    j->tout[1] = NULL;
}

/* ---- runs of equal values: of a sorted vector and the places its values had ------------------------------------------------------------------------ */

static bool infer_unique(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj__values_at_hand(call, x)) return false;
    int64_t count = call->ctx->k->runs((cj_dtype)x->dtype, x->data, x->numel, NULL);
    return cj__out(call, 0, (cj_dtype)x->dtype, 1, &count) && cj__out(call, 1, CJ_I64, 1, x->shape) && cj__out(call, 2, CJ_I64, 1, &count);
}
static bool run_unique(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    const int64_t *place = (const int64_t *)(const void *)call->in[1]->data;
    int64_t *inverse = (int64_t *)(void *)call->out[1]->data, *counts = (int64_t *)(void *)call->out[2]->data;
    const size_t size = cj_dtype_size((cj_dtype)x->dtype);
    const int64_t runs = call->ctx->k->runs((cj_dtype)x->dtype, x->data, x->numel, counts); /* where they begin, for now */
    for (int64_t r = 0; r < runs; r++) {
        const int64_t first = counts[r], end = r + 1 < runs ? counts[r + 1] : x->numel;
        memcpy(call->out[0]->data + (size_t)r * size, x->data + (size_t)first * size, size);
        for (int64_t i = first; i < end; i++) inverse[place[i]] = r;
        counts[r] = end - first;
    }
    return true;
}

/* ---- search ------------------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_search(cj_call *call)
{
    const cj_tensor *s = call->in[0], *x = call->in[1];
    if (s->dtype != x->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "searchsorted: the sorted tensor is %s, the values are %s",
                         cj_dtype_name((cj_dtype)s->dtype), cj_dtype_name((cj_dtype)x->dtype));
    bool fits = s->ndim == 1 || (s->ndim == x->ndim && s->ndim > 0);
    for (int d = 0; d < s->ndim - 1 && fits; d++) fits = s->shape[d] == x->shape[d];
    if (!fits)
        return cj__error(call->ctx, CJ_ESHAPE,
                         "searchsorted: sorted %s and values %s; one row, or rows with the same leading axes expected", cj__tensor_text(s),
                         cj__tensor_text(x));
    return cj__out(call, 0, CJ_I64, x->ndim, x->shape);
}
static bool run_search(cj_call *call)
{
    const cj_tensor *s = call->in[0], *x = call->in[1];
    const bool shared = s->ndim == 1;
    const int64_t m = shared ? x->numel : row_length(x);
    if (x->numel)
        call->ctx->k->searchsorted(call->ctx->pool, (cj_dtype)s->dtype, s->data, shared, row_length(s), x->data, x->numel / m, m,
                                   *(const int64_t *)call->attrs != 0, (int64_t *)(void *)call->out[0]->data);
    return true;
}

#define ORDER_ROW(op_name)                                                                                                                 \
    {                                                                                                                                      \
        .name = op_name, .family = "ordering", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 2, .attr_size = sizeof(order_attrs), .save_out = 2, \
        .infer = infer_order, .run = run_order, .vjp = d_order, .jvp_rule = CJ_JVP_OWN, .jvp = j_order                                     \
    }
enum { SORT, TOPK, UNIQUE, SEARCHSORTED };
const cj_op cj__ops_order[] = {
    [SORT] = ORDER_ROW("sort"),
    [TOPK] = ORDER_ROW("topk"),
    [UNIQUE] = { .name = "unique",
                 .family = "ordering",
                 .kind = CJ_PRIMITIVE,
                 .flags = CJ_OP_NOGRAD | CJ_OP_DYNAMIC,
                 .nin = 2,
                 .nout = 3,
                 .infer = infer_unique,
                 .run = run_unique,
                 .jvp_rule = CJ_JVP_NONE },
    [SEARCHSORTED] = { .name = "searchsorted",
                       .family = "ordering",
                       .kind = CJ_PRIMITIVE,
                       .flags = CJ_OP_NOGRAD,
                       .nin = 2,
                       .nout = 1,
                       .attr_size = sizeof(int64_t),
                       .infer = infer_search,
                       .run = run_search,
                       .jvp_rule = CJ_JVP_NONE },
};
CJ_OP_TABLE(order);

/* ---- what users call --------------------------------------------------------------------------------------------------------------------------------- */

/* Along another axis: swap it to the back, work there, swap it home.  A 0-d tensor is a row of one.  name: who asks; k as in the attributes, checked. */
static cj_ordered along(const char *name, int row, cj_tensor *x, int axis, int64_t k, bool descending)
{
    if (!x) return (cj_ordered){ 0 };
    cj_ctx *c = x->ctx;
    cj_ordered out = { c->poison, c->poison };
    if (c->error || !cj__usable(c, name, 0, x)) return out;
    if (x->ndim == 0) {
        out = along(name, row, cj_reshape(x, CJ_SHAPE(1)), axis, k, descending);
        cj_shape s = k == 0 ? CJ_SHAPE(0) : CJ_SCALAR;
        return (cj_ordered){ cj_reshape(out.values, s), cj_reshape(out.indices, s) };
    }
    axis = cj__axis(c, name, axis, x->ndim);
    if (axis < 0) return out;
    if (row == TOPK && k > x->shape[axis]) {
        cj__error(c, CJ_EVALUE, "%s: k is %lld, the axis has %lld elements", name, (long long)k, (long long)x->shape[axis]);
        return out;
    }
    const bool moved = axis != x->ndim - 1;
    if (moved) x = cj_transpose(x, axis, -1);
    x = cj_contiguous(x);
    cj_tensor *result[2];
    cj__apply_n(c, &cj__ops_order[row], &(order_attrs){ k, descending }, &x, 1, result);
    for (int i = 0; i < 2 && moved; i++) result[i] = cj_transpose(result[i], axis, -1);
    return (cj_ordered){ result[0], result[1] };
}

cj_ordered cj_sort(cj_tensor *x, int axis, const cj_sort_opts *opts) { return along("sort", SORT, x, axis, -1, opts && opts->descending); }
cj_tensor *cj_argsort(cj_tensor *x, int axis, const cj_sort_opts *opts)
{
    return along("argsort", SORT, x, axis, -1, opts && opts->descending).indices;
}
cj_ordered cj_topk(cj_tensor *x, int64_t k, int axis, const cj_topk_opts *opts)
{
    return along("topk", TOPK, x, axis, k < 0 ? INT64_MAX : k, !(opts && opts->smallest));
}

/* The k-th smallest is the last of the k smallest, or of the n-k+1 largest. */
static cj_ordered kth(const char *name, cj_tensor *x, int64_t k, int axis)
{
    cj_ctx *c = x->ctx;
    cj_ordered none = { c->poison, c->poison };
    if (c->error || !cj__usable(c, name, 0, x)) return none;
    if (x->ndim == 0) x = cj_reshape(x, CJ_SHAPE(1));
    axis = cj__axis(c, name, axis, x->ndim);
    if (axis < 0) return none;
    const int64_t n = x->shape[axis];
    if (k < 1 || k > n) {
        cj__error(c, CJ_EVALUE, "%s: k is %lld, the axis has %lld elements", name, (long long)k, (long long)n);
        return none;
    }
    const bool low = k <= n - k + 1;
    cj_ordered best = along(name, TOPK, x, axis, low ? k : n - k + 1, !low);
    return (cj_ordered){ cj_select(best.values, axis, -1), cj_select(best.indices, axis, -1) };
}
cj_ordered cj_kthvalue(cj_tensor *x, int64_t k, int axis) { return x ? kth("kthvalue", x, k, axis) : (cj_ordered){ 0 }; }

/* The lower of the two middle ones; a row with NaN gives NaN. */
cj_ordered cj_median(cj_tensor *x, int axis)
{
    if (!x) return (cj_ordered){ 0 };
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, "median", 0, x)) return (cj_ordered){ c->poison, c->poison };
    if (x->ndim == 0) x = cj_reshape(x, CJ_SHAPE(1));
    int at = cj__axis(c, "median", axis, x->ndim);
    if (at < 0) return (cj_ordered){ c->poison, c->poison };
    cj_ordered middle = kth("median", x, (x->shape[at] + 1) / 2, at);
    if (c->error || !cj_dtype_is_float((cj_dtype)x->dtype)) return middle;
    cj_ordered last = along("median", TOPK, x, at, 1, true); /* NaN, if there is one */
    cj_tensor *top = cj_squeeze(last.values, at), *nan = cj_isnan(top);
    return (cj_ordered){ cj_where(nan, top, middle.values), cj_where(nan, cj_squeeze(last.indices, at), middle.indices) };
}

cj_uniques cj_unique(cj_tensor *x)
{
    if (!x) return (cj_uniques){ 0 };
    cj_ctx *c = x->ctx;
    cj_tensor *out[3] = { c->poison, c->poison, c->poison };
    if (c->error || !cj__usable(c, "unique", 0, x)) return (cj_uniques){ out[0], out[1], out[2] };
    cj_ordered s = along("unique", SORT, cj_flatten(x, 0), 0, -1, false);
    cj_tensor *in[2] = { s.values, s.indices };
    if (!c->error) cj__apply_n(c, &cj__ops_order[UNIQUE], NULL, in, 2, out);
    return (cj_uniques){ out[0], cj_reshape(out[1], cj__shape(x)), out[2] };
}

cj_tensor *cj_searchsorted(cj_tensor *sorted, cj_tensor *values, const cj_searchsorted_opts *opts)
{
    if (!cj__given("searchsorted", (cj_tensor *[]){ sorted, values }, 2)) return cj__poison_of((cj_tensor *[]){ sorted, values }, 2);
    int64_t right = opts && opts->right;
    cj_tensor *in[2] = { cj_contiguous(sorted), cj_contiguous(values) };
    return cj__apply(&cj__ops_order[SEARCHSORTED], &right, in, 2);
}
