/* Views, copies, picking and reducing in ONNX: the operators whose attributes have sizes in them, some of which follow the batch.
 *
 * Opset 17: Reshape, Expand, Slice, Squeeze and ReduceSum take sizes and axes as inputs, the other reductions as attributes.
 */
#include "data/onnx.h"

#if defined CJ_HAVE_PROTOBUF_C
#include <math.h>

#define UNUSED (void)other, (void)type

static bool sizes_of(cj_onnx *o, int value, cj_onnx_size *size, int *varying)
{
    *varying = 0;
    for (int d = 0; d < cj__onnx_tensor(o, value)->ndim; d++) {
        if (!cj__onnx_size_of(o, value, d, &size[d])) return false;
        *varying += size[d].k > 0;
    }
    return true;
}

/* One size that varies is what is left over: -1. */
CJ_ONNX_CONVERT(reshape)
{
    UNUSED;
    cj_onnx_size size[CJ_MAX_DIMS];
    int64_t shape[CJ_MAX_DIMS];
    int varying, n = cj__onnx_tensor(o, k->out[0])->ndim;
    if (!cj__onnx_tensor(o, k->out[0])->numel) return cj__onnx_refuse(o, "the tensor is empty");
    if (!sizes_of(o, k->out[0], size, &varying)) return false;
    for (int d = 0; d < n; d++) shape[d] = size[d].k ? -1 : size[d].n;
    const char *wanted = varying > 1 ? cj__onnx_shape(o, size, n) : cj__onnx_const_ints(o, shape, n);
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, "Reshape", cj__onnx_name(o, k->in[0]), wanted));
}

/* A size of 1 keeps what is there. */
CJ_ONNX_CONVERT(expand)
{
    UNUSED;
    cj_onnx_size size[CJ_MAX_DIMS], from;
    const cj_tensor *x = cj__onnx_tensor(o, k->in[0]), *y = cj__onnx_tensor(o, k->out[0]);
    int varying, lead = y->ndim - x->ndim;
    if (!sizes_of(o, k->out[0], size, &varying)) return false;
    for (int d = lead; d < y->ndim; d++) {
        if (!cj__onnx_size_of(o, k->in[0], d - lead, &from)) return false;
        if (from.k == size[d].k && from.n == size[d].n) size[d] = (cj_onnx_size){ 1, 0 };
    }
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, "Expand", cj__onnx_name(o, k->in[0]), cj__onnx_shape(o, size, y->ndim)));
}

CJ_ONNX_CONVERT(permute)
{
    UNUSED;
    const cj_permute_attrs *a = k->attrs;
    int64_t order[CJ_MAX_DIMS];
    for (int d = 0; d < a->ndim; d++) order[d] = a->order[d];
    return cj__onnx_named(o, k->out[0], cj__onnx_transpose(o, cj__onnx_name(o, k->in[0]), order, a->ndim));
}

/* Where the last element taken lies at the end of the axis in both batches, the slice goes to the end. */
CJ_ONNX_CONVERT(slice)
{
    (void)type;
    const cj_pick_attrs *a = k->attrs, *b = other ? other->attrs : a;
    int64_t start = a->start, end = start + a->len * a->step, step = a->step, axis = a->axis;
    bool to_end = step > 0 && end >= cj__onnx_tensor(o, k->in[0])->shape[axis];
    if (other && b->len != a->len) to_end &= b->start + b->len * b->step >= o->b->value[k->in[0]].tensor->shape[axis];
    if (b->start != start || b->step != step || b->axis != axis || (b->len != a->len && !to_end))
        return cj__onnx_bound(o, "slice takes other places where there are more examples");
    if (to_end) end = INT64_MAX;
    if (step < 0) end = end < 0 ? INT64_MIN + 1 : end; /* to the very first */
    const char *in[5] = { cj__onnx_name(o, k->in[0]), cj__onnx_const_ints(o, &start, 1), cj__onnx_const_ints(o, &end, 1),
                          cj__onnx_const_ints(o, &axis, 1), cj__onnx_const_ints(o, &step, 1) };
    Cj__Onnx__Node *n = cj__onnx_node(o, "Slice", 5, in);
    return n && cj__onnx_named(o, k->out[0], n->output[0]);
}

CJ_ONNX_CONVERT(select_one)
{
    (void)type;
    const cj_pick_attrs *a = k->attrs, *b = other ? other->attrs : a;
    if (a->start != b->start || a->axis != b->axis) return cj__onnx_bound(o, "select takes another place where there are more examples");
    Cj__Onnx__Node *n =
        cj__onnx_node(o, "Gather", 2, (const char *[]){ cj__onnx_name(o, k->in[0]), cj__onnx_const_number(o, CJ_I64, (double)a->start) });
    return n && cj__onnx_int(o, n, "axis", a->axis) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Windows of an axis: their elements one by one, window and place as axes, the place brought to the end. */
CJ_ONNX_CONVERT(unfold)
{
    (void)type;
    const cj_pick_attrs *a = k->attrs, *b = other ? other->attrs : a;
    const int n = cj__onnx_tensor(o, k->out[0])->ndim;
    if (a->len != b->len) return cj__onnx_bound(o, "unfold has more windows where there are more examples");
    const int64_t shape[2] = { a->len, a->size };
    int64_t *index = cj__onnx_alloc(o, (size_t)(a->len * a->size) * sizeof *index), order[CJ_MAX_DIMS];
    for (int64_t i = 0; index && i < a->len * a->size; i++) index[i] = i / a->size * a->step + i % a->size;
    for (int d = 0; d < n; d++) order[d] = d <= a->axis ? d : d + 1;
    order[n - 1] = a->axis + 1;
    const char *in[2] = { cj__onnx_name(o, k->in[0]), index ? cj__onnx_const_bytes(o, CJ_I64, 2, shape, index) : NULL };
    Cj__Onnx__Node *node = in[0] && in[1] ? cj__onnx_node(o, "Gather", 2, in) : NULL;
    return node && cj__onnx_int(o, node, "axis", a->axis) && cj__onnx_named(o, k->out[0], cj__onnx_transpose(o, node->output[0], order, n));
}

/* Zeros around: what cj_pad makes of a tensor.  Other strides are windows that overlap. */
CJ_ONNX_CONVERT(pad)
{
    UNUSED;
    const cj_strided_attrs *a = k->attrs;
    int64_t pads[2 * CJ_MAX_DIMS], rest = a->offset, step[CJ_MAX_DIMS] = { 0 }, s = 1;
    bool plain = a->ndim == a->base_ndim;
    for (int d = a->base_ndim - 1; d >= 0; d--) step[d] = s, s *= a->base[d];
    for (int d = 0; d < a->ndim && plain; d++) {
        pads[d] = rest / step[d];
        rest -= pads[d] * step[d];
        pads[a->ndim + d] = a->base[d] - a->shape[d] - pads[d];
        plain = a->stride[d] == step[d] && pads[a->ndim + d] >= 0;
    }
    if (!plain) return cj__onnx_refuse(o, "the elements do not lie in one block of the result");
    cj_onnx_size from, to;
    for (int d = 0; d < a->ndim; d++) {
        if (!cj__onnx_size_of(o, k->in[0], d, &from) || !cj__onnx_size_of(o, k->out[0], d, &to)) return false;
        if (from.k != to.k) return cj__onnx_bound(o, "the border around a tensor depends on the batch");
    }
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, "Pad", cj__onnx_name(o, k->in[0]), cj__onnx_const_ints(o, pads, 2 * a->ndim)));
}

CJ_ONNX_CONVERT(same)
{
    UNUSED;
    return cj__onnx_named(o, k->out[0], cj__onnx_name(o, k->in[0]));
}

CJ_ONNX_CONVERT(cast)
{
    UNUSED;
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_cast(o, cj__onnx_name(o, k->in[0]), (cj_dtype)cj__onnx_tensor(o, k->in[0])->dtype,
                                        (cj_dtype)cj__onnx_tensor(o, k->out[0])->dtype));
}

CJ_ONNX_CONVERT(cat)
{
    UNUSED;
    const cj_dtype to = (cj_dtype)cj__onnx_tensor(o, k->out[0])->dtype;
    const char **in = cj__onnx_alloc(o, (size_t)k->nin * sizeof *in);
    for (int i = 0; in && i < k->nin; i++)
        if (!(in[i] = cj__onnx_cast(o, cj__onnx_name(o, k->in[i]), (cj_dtype)cj__onnx_tensor(o, k->in[i])->dtype, to))) return false;
    Cj__Onnx__Node *n = in ? cj__onnx_node(o, "Concat", k->nin, in) : NULL;
    return n && cj__onnx_int(o, n, "axis", *(const int *)k->attrs) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Gather, GatherElements. */
CJ_ONNX_CONVERT(pick)
{
    (void)other;
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 2, (const char *[]){ cj__onnx_name(o, k->in[0]), cj__onnx_name(o, k->in[1]) });
    return n && cj__onnx_int(o, n, "axis", *(const int *)k->attrs) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Updates added where an index says: ScatterElements. */
CJ_ONNX_CONVERT(scatter)
{
    (void)other;
    const char *in[3] = { cj__onnx_name(o, k->in[0]), cj__onnx_name(o, k->in[1]), cj__onnx_name(o, k->in[2]) };
    Cj__Onnx__Node *n = in[0] && in[1] && in[2] ? cj__onnx_node(o, type, 3, in) : NULL;
    return n && cj__onnx_int(o, n, "axis", *(const int *)k->attrs) && cj__onnx_word(o, n, "reduction", "add") &&
           cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Values and their places; of equals the first comes first, as here. */
CJ_ONNX_CONVERT(order)
{
    (void)other;
    const cj_order_attrs *a = k->attrs;
    const cj_tensor *x = cj__onnx_tensor(o, k->in[0]);
    const int64_t count = a->k < 0 ? x->shape[x->ndim - 1] : a->k;
    cj_onnx_size size;
    if (!cj__onnx_size_of(o, k->in[0], x->ndim - 1, &size)) return false;
    if (size.k) return cj__onnx_bound(o, "%s orders the examples", k->op->name);
    const char *in[2] = { cj__onnx_name(o, k->in[0]), cj__onnx_const_ints(o, &count, 1) };
    Cj__Onnx__Node *n = in[0] ? cj__onnx_node(o, type, 2, in) : NULL;
    return n && cj__onnx_int(o, n, "axis", -1) && cj__onnx_int(o, n, "largest", a->descending != 0) &&
           cj__onnx_named(o, k->out[0], n->output[0]) && cj__onnx_named(o, k->out[1], cj__onnx_output(o, n, 1));
}

CJ_ONNX_CONVERT(running_sum)
{
    (void)other;
    const cj_scan_attrs *a = k->attrs;
    const cj_dtype from = (cj_dtype)cj__onnx_tensor(o, k->in[0])->dtype, to = (cj_dtype)cj__onnx_tensor(o, k->out[0])->dtype;
    const char *in[2] = { cj__onnx_cast(o, cj__onnx_name(o, k->in[0]), from, to), cj__onnx_const_number(o, CJ_I64, (double)a->axis) };
    Cj__Onnx__Node *n = in[0] ? cj__onnx_node(o, type, 2, in) : NULL;
    return n && cj__onnx_int(o, n, "reverse", a->reverse != 0) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Resize, whose modes say where a result's pixel lies in the source. */
CJ_ONNX_CONVERT(resize)
{
    (void)other;
    const cj_resample_attrs *a = k->attrs;
    const bool exact = a->mode == CJ_INTERP_NEAREST_EXACT, nearest = exact || a->mode == CJ_INTERP_NEAREST;
    cj_onnx_size size[CJ_MAX_DIMS];
    int varying;
    for (int d = 0; d < 3; d++)
        if (!a->align && fabs(a->advance[d] / a->by[d] * (double)a->out[d] - (double)a->in[d]) > 1e-9)
            return cj__onnx_refuse(o, "the factor is not the ratio of the sizes");
    if (!sizes_of(o, k->out[0], size, &varying)) return false;
    const char *in[4] = { cj__onnx_name(o, k->in[0]), "", "", cj__onnx_shape(o, size, cj__onnx_tensor(o, k->out[0])->ndim) };
    Cj__Onnx__Node *n = in[0] && in[3] ? cj__onnx_node(o, type, 4, in) : NULL;
    if (!n || !cj__onnx_word(o, n, "mode", nearest ? "nearest" : a->mode == CJ_INTERP_LINEAR ? "linear" : "cubic")) return false;
    if (!cj__onnx_word(o, n, "coordinate_transformation_mode",
                       a->align            ? "align_corners"
                       : nearest && !exact ? "asymmetric"
                                           : "half_pixel"))
        return false;
    if (nearest && !cj__onnx_word(o, n, "nearest_mode", exact ? "round_prefer_ceil" : "floor")) return false;
    return cj__onnx_float(o, n, "cubic_coeff_a", -0.75) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* ---- reductions ----------------------------------------------------------------------------------------------------------------------------------------- */

static double length_of(const cj_tensor *x, const cj_reduce_attrs *a)
{
    double n = 1;
    for (int d = 0; d < a->count; d++) n *= (double)x->shape[a->first + d];
    return n;
}

static bool is_mean(const cj_tensor *x, const cj_reduce_attrs *a) { return fabs(a->scale * length_of(x, a) - 1) < 1e-12; }

static const char *reduced(cj_onnx *o, const char *type, const char *x, const cj_reduce_attrs *a)
{
    int64_t axis[CJ_MAX_DIMS];
    for (int d = 0; d < a->count; d++) axis[d] = a->first + d;
    const bool sum = strcmp(type, "ReduceSum") == 0;
    Cj__Onnx__Node *n =
        x ? cj__onnx_node(o, type, sum ? 2 : 1, (const char *[]){ x, sum ? cj__onnx_const_ints(o, axis, a->count) : NULL }) : NULL;
    if (!n || (!sum && !cj__onnx_ints(o, n, "axes", axis, a->count))) return NULL;
    return cj__onnx_int(o, n, "keepdims", a->keepdim) ? n->output[0] : NULL;
}

CJ_ONNX_CONVERT(reduce)
{
    const cj_reduce_attrs *a = k->attrs, *b = other ? other->attrs : a;
    const cj_tensor *x = cj__onnx_tensor(o, k->in[0]), *y = cj__onnx_tensor(o, k->out[0]);
    const bool mean = a->code == CJ_RED_SUM && a->scale != 1 && is_mean(x, a) && (!other || is_mean(o->b->value[k->in[0]].tensor, b));
    if (a->first != b->first || a->count != b->count || (a->scale != b->scale && !mean))
        return cj__onnx_bound(o, "%s divides by the number of examples", k->op->name);
    const char *v = cj__onnx_name(o, k->in[0]);
    if (a->code == CJ_RED_ANY || a->code == CJ_RED_ALL) { /* the largest or smallest of 0 and 1 */
        v = cj__onnx_cast(o, cj__onnx_cast(o, v, (cj_dtype)x->dtype, CJ_BOOL), CJ_BOOL, CJ_I32);
        return cj__onnx_named(o, k->out[0], cj__onnx_cast(o, a->count ? reduced(o, type, v, a) : v, CJ_I32, CJ_BOOL));
    }
    v = cj__onnx_cast(o, v, (cj_dtype)x->dtype, (cj_dtype)y->dtype);
    if (a->count) v = reduced(o, mean ? "ReduceMean" : type, v, a);
    if (a->scale != 1 && !mean) v = cj__onnx_binary(o, "Mul", v, cj__onnx_const_number(o, (cj_dtype)y->dtype, a->scale));
    return cj__onnx_named(o, k->out[0], v);
}

CJ_ONNX_CONVERT(position)
{
    (void)other;
    const cj_reduce_attrs *a = k->attrs;
    if (a->count != 1) return cj__onnx_refuse(o, "it is of several axes");
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 1, (const char *[]){ cj__onnx_name(o, k->in[0]) });
    return n && cj__onnx_int(o, n, "axis", a->first) && cj__onnx_int(o, n, "keepdims", a->keepdim) &&
           cj__onnx_named(o, k->out[0], n->output[0]);
}

const cj_onnx_row cj__onnx_shapes[] = {
    { "reshape", reshape, NULL, true },
    { "expand", expand, NULL, true },
    { "permute", permute, NULL, false },
    { "slice", slice, NULL, true },
    { "select", select_one, NULL, true },
    { "unfold", unfold, NULL, true },
    { "as_strided_scatter", pad, NULL, true },
    { "clone", same, NULL, false },
    { "cast", cast, NULL, false },
    { "cat", cat, NULL, false },
    { "index_select", pick, "Gather", false },
    { "gather", pick, "GatherElements", false },
    { "scatter_add", scatter, "ScatterElements", false },
    { "sort", order, "TopK", false },
    { "topk", order, "TopK", false },
    { "cumsum", running_sum, "CumSum", false },
    { "interpolate", resize, "Resize", false },
    { "sum", reduce, "ReduceSum", true },
    { "mean", reduce, "ReduceSum", true },
    { "prod", reduce, "ReduceProd", true },
    { "max", reduce, "ReduceMax", true },
    { "min", reduce, "ReduceMin", true },
    { "any", reduce, "ReduceMax", true },
    { "all", reduce, "ReduceMin", true },
    { "argmax", position, "ArgMax", false },
    { "argmin", position, "ArgMin", false },
    { 0 },
};

#endif
