/* What each operator of ours is in ONNX, opset 17.
 *
 * ONNX takes operands of one type, so what is promoted here is cast there.  A composite that has a row is written as one operator where its attributes allow it; any other is
 * written as its parts, by its definition.  Recurrences: the input terms that our rows take are the linear map before them, which ONNX's LSTM, GRU and RNN have inside.
 */
#include "data/onnx.h"

#if defined CJ_HAVE_PROTOBUF_C
#include <math.h>

#include "kernels/cpu/recurrent.h"

#define UNUSED (void)other, (void)type

static cj_dtype dtype_of(const cj_onnx *o, int value) { return (cj_dtype)cj__onnx_tensor(o, value)->dtype; }
static const char *as(cj_onnx *o, int value, cj_dtype to) { return cj__onnx_cast(o, cj__onnx_name(o, value), dtype_of(o, value), to); }

/* The call that made a value, if it is this operator; else NULL. */
static const cj_recorded *maker(const cj_onnx *o, int value, const char *op)
{
    const cj_value *v = &o->a->value[value];
    const cj_recorded *m = v->kind == CJ_VALUE_RESULT ? &o->a->call[v->index] : NULL;
    return m && strcmp(m->op->name, op) == 0 ? m : NULL;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------------------------------------------------ */

CJ_ONNX_CONVERT(unary)
{
    (void)other;
    return cj__onnx_named(o, k->out[0], cj__onnx_unary(o, type, as(o, k->in[0], dtype_of(o, k->out[0]))));
}

CJ_ONNX_CONVERT(binary)
{
    (void)other;
    const cj_dtype t = dtype_of(o, k->out[0]);
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, type, as(o, k->in[0], t), as(o, k->in[1], t)));
}

CJ_ONNX_CONVERT(scalar)
{
    (void)other;
    const cj_dtype t = dtype_of(o, k->out[0]);
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_binary(o, type, as(o, k->in[0], t), cj__onnx_const_number(o, t, *(const double *)k->attrs)));
}

/* The type in which operands are compared; ONNX has no order of truth values. */
static cj_dtype compared_in(cj_dtype t) { return t == CJ_BOOL || t == CJ_U8 ? CJ_I64 : t; }

/* "!Equal" is Not(Equal). */
static const char *maybe_not(cj_onnx *o, const char *type, const char *x, const char *y)
{
    const char *r = cj__onnx_binary(o, type + (*type == '!'), x, y);
    return *type == '!' ? cj__onnx_unary(o, "Not", r) : r;
}

CJ_ONNX_CONVERT(compare)
{
    (void)other;
    const cj_dtype t = compared_in(cj_promote(cj__onnx_tensor(o, k->in[0]), cj__onnx_tensor(o, k->in[1])));
    return cj__onnx_named(o, k->out[0], maybe_not(o, type, as(o, k->in[0], t), as(o, k->in[1], t)));
}

CJ_ONNX_CONVERT(compare_scalar)
{
    (void)other;
    const double value = *(const double *)k->attrs;
    cj_dtype t = compared_in(dtype_of(o, k->in[0]));
    if (!cj_dtype_is_float(t) && value != nearbyint(value)) t = CJ_F32;
    return cj__onnx_named(o, k->out[0], maybe_not(o, type, as(o, k->in[0], t), cj__onnx_const_number(o, t, value)));
}

CJ_ONNX_CONVERT(logic)
{
    (void)other;
    const char *x = as(o, k->in[0], CJ_BOOL);
    return cj__onnx_named(o, k->out[0], k->nin == 1 ? cj__onnx_unary(o, type, x) : cj__onnx_binary(o, type, x, as(o, k->in[1], CJ_BOOL)));
}

CJ_ONNX_CONVERT(is_nan)
{
    (void)other;
    return cj__onnx_named(o, k->out[0], cj__onnx_unary(o, type, cj__onnx_name(o, k->in[0])));
}

CJ_ONNX_CONVERT(is_finite)
{
    UNUSED;
    const char *x = cj__onnx_name(o, k->in[0]);
    if (!cj_dtype_is_float(dtype_of(o, k->in[0]))) return cj__onnx_refuse(o, "the input is no float");
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_unary(o, "Not", cj__onnx_binary(o, "Or", cj__onnx_unary(o, "IsInf", x), cj__onnx_unary(o, "IsNaN", x))));
}

CJ_ONNX_CONVERT(where)
{
    UNUSED;
    const cj_dtype t = dtype_of(o, k->out[0]);
    Cj__Onnx__Node *n = cj__onnx_node(o, "Where", 3, (const char *[]){ as(o, k->in[0], CJ_BOOL), as(o, k->in[1], t), as(o, k->in[2], t) });
    return n && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* Functions that are two of ONNX's: type is the outer one. */
CJ_ONNX_CONVERT(square)
{
    (void)other;
    const char *x = as(o, k->in[0], dtype_of(o, k->out[0]));
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, type, x, x));
}
CJ_ONNX_CONVERT(expm1_of)
{
    UNUSED;
    const cj_dtype t = dtype_of(o, k->out[0]);
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_binary(o, "Sub", cj__onnx_unary(o, "Exp", as(o, k->in[0], t)), cj__onnx_const_number(o, t, 1)));
}
CJ_ONNX_CONVERT(log1p_of)
{
    UNUSED;
    const cj_dtype t = dtype_of(o, k->out[0]);
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_unary(o, "Log", cj__onnx_binary(o, "Add", as(o, k->in[0], t), cj__onnx_const_number(o, t, 1))));
}
CJ_ONNX_CONVERT(rsqrt)
{
    UNUSED;
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_unary(o, "Reciprocal", cj__onnx_unary(o, "Sqrt", as(o, k->in[0], dtype_of(o, k->out[0])))));
}
CJ_ONNX_CONVERT(log_sigmoid)
{
    UNUSED;
    const char *x = cj__onnx_unary(o, "Neg", as(o, k->in[0], dtype_of(o, k->out[0])));
    return cj__onnx_named(o, k->out[0], cj__onnx_unary(o, "Neg", cj__onnx_unary(o, "Softplus", x)));
}

CJ_ONNX_CONVERT(trunc_of) /* sign(x)·floor(|x|) */
{
    UNUSED;
    const char *x = as(o, k->in[0], dtype_of(o, k->out[0]));
    const char *whole = cj__onnx_unary(o, "Floor", cj__onnx_unary(o, "Abs", x));
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, "Mul", cj__onnx_unary(o, "Sign", x), whole));
}

/* What is left of a division: of fmod with a's sign, of remainder a - floor(a/b)·b. */
CJ_ONNX_CONVERT(rest)
{
    UNUSED;
    const cj_dtype t = dtype_of(o, k->out[0]);
    if (!cj_dtype_is_float(t)) return cj__onnx_refuse(o, "the operands are no floats");
    const char *a = as(o, k->in[0], t), *b = as(o, k->in[1], t);
    if (strcmp(k->op->name, "fmod") == 0) {
        Cj__Onnx__Node *n = a && b ? cj__onnx_node(o, "Mod", 2, (const char *[]){ a, b }) : NULL;
        return n && cj__onnx_int(o, n, "fmod", 1) && cj__onnx_named(o, k->out[0], n->output[0]);
    }
    const char *whole = cj__onnx_unary(o, "Floor", cj__onnx_binary(o, "Div", a, b));
    return cj__onnx_named(o, k->out[0], cj__onnx_binary(o, "Sub", a, cj__onnx_binary(o, "Mul", whole, b)));
}

/* One parameter: a slope, alpha. */
CJ_ONNX_CONVERT(activation)
{
    (void)other;
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 1, (const char *[]){ cj__onnx_name(o, k->in[0]) });
    return n && cj__onnx_float(o, n, "alpha", *(const double *)k->attrs) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------------------------------------- */

CJ_ONNX_CONVERT(linear)
{
    UNUSED;
    const char *x = cj__onnx_name(o, k->in[0]), *w = cj__onnx_name(o, k->in[1]), *bias = k->nin > 2 ? cj__onnx_name(o, k->in[2]) : NULL;
    if (!x || !w || (k->nin > 2 && !bias)) return false;
    if (cj__onnx_tensor(o, k->in[0])->ndim == 2) { /* x wᵀ + b */
        Cj__Onnx__Node *n = cj__onnx_node(o, "Gemm", 3, (const char *[]){ x, w, bias });
        return n && cj__onnx_int(o, n, "transB", 1) && cj__onnx_named(o, k->out[0], n->output[0]);
    }
    const char *y = cj__onnx_binary(o, "MatMul", x, cj__onnx_transpose(o, w, (int64_t[]){ 1, 0 }, 2));
    return cj__onnx_named(o, k->out[0], bias ? cj__onnx_binary(o, "Add", y, bias) : y);
}

/* A sparse matrix of constants is written dense. */
CJ_ONNX_CONVERT(sparse_product)
{
    UNUSED;
    enum { OFFSETS = 0, COLUMNS = 1, VALUES = 5, X = 6 };
    const cj_csr_attrs *a = k->attrs;
    if (o->a->value[k->in[VALUES]].kind != CJ_VALUE_CONSTANT) return cj__onnx_refuse(o, "the sparse matrix is not constant");
    const cj_tensor *offsets = cj__onnx_tensor(o, k->in[OFFSETS]), *columns = cj__onnx_tensor(o, k->in[COLUMNS]),
                    *values = cj__onnx_tensor(o, k->in[VALUES]);
    if (values->dtype != CJ_F32) return cj__onnx_refuse(o, "the sparse matrix is not f32");
    const int64_t shape[2] = { a->transposed ? a->cols : a->rows, a->transposed ? a->rows : a->cols };
    if (shape[0] * shape[1] > (int64_t)1 << 28) return cj__onnx_refuse(o, "the sparse matrix has more than 2^28 places");
    float *dense = cj__onnx_alloc(o, (size_t)(shape[0] * shape[1]) * sizeof *dense);
    if (!dense) return false;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t e = cj__load_i64(offsets, i); e < cj__load_i64(offsets, i + 1); e++) {
            int64_t j = cj__load_i64(columns, e);
            dense[a->transposed ? j * a->rows + i : i * a->cols + j] += (float)cj__load(values, e);
        }
    return cj__onnx_named(o, k->out[0],
                          cj__onnx_binary(o, "MatMul", cj__onnx_const_bytes(o, CJ_F32, 2, shape, dense), cj__onnx_name(o, k->in[X])));
}

/* ---- normalisation -------------------------------------------------------------------------------------------------------------------------------------------- */

CJ_ONNX_CONVERT(last_axis)
{
    (void)other;
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 1, (const char *[]){ cj__onnx_name(o, k->in[0]) });
    return n && cj__onnx_int(o, n, "axis", -1) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* The parameter at place i, or n times a number. */
static const char *given_or(cj_onnx *o, const cj_recorded *k, int i, double otherwise, int64_t n)
{
    return i >= 0 ? cj__onnx_name(o, k->in[i]) : cj__onnx_const_fill(o, otherwise, n);
}

CJ_ONNX_CONVERT(layer_norm)
{
    (void)other;
    const cj_norm_attrs *a = k->attrs;
    const cj_tensor *x = cj__onnx_tensor(o, k->in[0]);
    const char *in[3] = { cj__onnx_name(o, k->in[0]), given_or(o, k, a->affine ? 1 : -1, 1, x->shape[x->ndim - 1]),
                          a->affine > 1 ? cj__onnx_name(o, k->in[2]) : NULL };
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 3, in);
    return n && cj__onnx_int(o, n, "axis", -1) && cj__onnx_float(o, n, "epsilon", a->eps) && cj__onnx_named(o, k->out[0], n->output[0]);
}

/* A statistic, which was widened for our kernel, in the type that it is kept in. */
static const char *statistic(cj_onnx *o, int value, cj_dtype to)
{
    const cj_recorded *widened = maker(o, value, "cast");
    return widened && dtype_of(o, widened->in[0]) == to ? cj__onnx_name(o, widened->in[0]) : as(o, value, to);
}

/* x, mean, var [, weight] [, bias].  ONNX has the channels second. */
CJ_ONNX_CONVERT(batch_norm)
{
    (void)other;
    const cj_normalise_attrs *a = k->attrs;
    const cj_dtype t = dtype_of(o, k->in[0]);
    const int64_t channels = cj__onnx_tensor(o, k->in[1])->numel;
    const int ndim = cj__onnx_tensor(o, k->in[0])->ndim;
    int64_t there[CJ_MAX_DIMS] = { 0, ndim - 1 }, back[CJ_MAX_DIMS] = { 0 };
    for (int d = 2; d < ndim; d++) there[d] = d - 1, back[d - 1] = d;
    back[ndim - 1] = 1;
    const char *x = cj__onnx_name(o, k->in[0]), *in[5];
    in[0] = a->last ? cj__onnx_transpose(o, x, there, ndim) : x;
    in[1] = given_or(o, k, a->weight ? 3 : -1, 1, channels);
    in[2] = given_or(o, k, a->bias ? 3 + a->weight : -1, 0, channels);
    in[3] = statistic(o, k->in[1], t);
    in[4] = statistic(o, k->in[2], t);
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 5, in);
    if (!n || !cj__onnx_float(o, n, "epsilon", a->eps)) return false;
    const char *y = a->relu ? cj__onnx_unary(o, "Relu", n->output[0]) : n->output[0];
    return cj__onnx_named(o, k->out[0], a->last ? cj__onnx_transpose(o, y, back, ndim) : y);
}

/* ---- convolution and pooling ---------------------------------------------------------------------------------------------------------------------------------- */

/* Where the only thing that happens to a convolution is that a parameter of one number per channel is added, it becomes the third input. */
static const char *bias_after(cj_onnx *o, const cj_recorded *k, int *result)
{
    int user = -1, uses = 0;
    for (int i = 0; i < o->a->calls; i++)
        for (int j = 0; o->live[i] && j < o->a->call[i].nin; j++)
            if (o->a->call[i].in[j] == k->out[0]) user = i, uses++;
    const cj_recorded *add = uses == 1 && k->out[0] != o->a->output ? &o->a->call[user] : NULL;
    if (!add || strcmp(add->op->name, "add") != 0 || add->in[0] != k->out[0]) return NULL;
    const cj_recorded *view = maker(o, add->in[1], "reshape");
    const cj_tensor *y = cj__onnx_tensor(o, k->out[0]), *shaped = cj__onnx_tensor(o, add->in[1]);
    if (!view || o->a->value[view->in[0]].kind != CJ_VALUE_NAMED) return NULL;
    const cj_tensor *bias = cj__onnx_tensor(o, view->in[0]);
    if (bias->ndim != 1 || bias->numel != y->shape[1] || shaped->ndim != y->ndim - 1 || shaped->shape[0] != bias->numel) return NULL;
    o->done[user] = true;
    *result = add->out[0];
    return cj__onnx_name(o, view->in[0]);
}

/* Attributes that every operator with windows has; high: how far the last window reaches over the edge. */
static bool windows(cj_onnx *o, Cj__Onnx__Node *n, int nd, const int64_t *kernel, const int64_t *stride, const int64_t *dilation,
                    const int64_t *low, const int64_t *high)
{
    const int first = 3 - nd;
    int64_t pads[6];
    bool dilated = false;
    for (int d = 0; d < nd; d++) {
        pads[d] = low[first + d], pads[nd + d] = high[first + d];
        dilated |= dilation[first + d] != 1;
    }
    return cj__onnx_ints(o, n, "kernel_shape", &kernel[first], nd) && cj__onnx_ints(o, n, "strides", &stride[first], nd) &&
           cj__onnx_ints(o, n, "pads", pads, 2 * nd) && (!dilated || cj__onnx_ints(o, n, "dilations", &dilation[first], nd));
}

CJ_ONNX_CONVERT(conv)
{
    (void)other;
    const cj_conv_attrs *a = k->attrs;
    const cj_tensor *x = cj__onnx_tensor(o, k->in[0]), *w = cj__onnx_tensor(o, k->in[1]);
    const bool transposed = strcmp(k->op->name, "conv_data") == 0;
    const int nd = (int)a->nd, first = 3 - nd;
    int64_t kernel[3] = { 1, 1, 1 }, more[3] = { 0 };
    bool any = false;
    for (int d = first; d < 3; d++) {
        kernel[d] = w->shape[2 + d - first];
        int64_t least = (x->shape[2 + d - first] - 1) * a->stride[d] + a->dilation[d] * (kernel[d] - 1) + 1 - a->low[d] - a->high[d];
        if (transposed) any |= (more[d] = a->size[d] - least) != 0;
    }
    int result = k->out[0];
    const char *bias = k->nin > 2 ? cj__onnx_name(o, k->in[2]) : bias_after(o, k, &result);
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 3, (const char *[]){ cj__onnx_name(o, k->in[0]), cj__onnx_name(o, k->in[1]), bias });
    if (!n || !windows(o, n, nd, kernel, a->stride, a->dilation, a->low, a->high)) return false;
    if (a->groups != 1 && !cj__onnx_int(o, n, "group", a->groups)) return false;
    if (any && !cj__onnx_ints(o, n, "output_padding", more + first, nd)) return false;
    return cj__onnx_named(o, result, n->output[0]);
}

/* MaxPool, and window sums as AveragePool. */
CJ_ONNX_CONVERT(pool)
{
    (void)other;
    const cj_window_attrs *a = k->attrs;
    const bool sum = strcmp(type, "AveragePool") == 0;
    int64_t high[3] = { 0 };
    double window = 1;
    if (cj__onnx_tensor(o, k->in[0])->ndim != a->nd + 2) return cj__onnx_refuse(o, "the input is not [N, C, …]");
    for (int d = 0; d < 3; d++) {
        int64_t over = (a->out[d] - 1) * a->stride[d] + a->dilation[d] * (a->kernel[d] - 1) + 1 - a->in[d] - a->low[d];
        high[d] = over > 0 ? over : 0;
        window *= (double)a->kernel[d];
        if (sum && a->dilation[d] != 1) return cj__onnx_refuse(o, "means of windows with holes came with a later opset");
    }
    Cj__Onnx__Node *n = cj__onnx_node(o, type, 1, (const char *[]){ cj__onnx_name(o, k->in[0]) });
    if (!n || !windows(o, n, (int)a->nd, a->kernel, a->stride, a->dilation, a->low, high)) return false;
    if (sum && !cj__onnx_int(o, n, "count_include_pad", 1)) return false;
    const char *y = n->output[0];
    if (sum && fabs(a->scale * window - 1) > 1e-12)
        y = cj__onnx_binary(o, "Mul", y, cj__onnx_const_number(o, dtype_of(o, k->out[0]), a->scale * window));
    return cj__onnx_named(o, k->out[0], y);
}

/* ---- recurrence -------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Our order of gates to ONNX's: i f g o to i o f c, r z n to z r h.  Blocks of `rows` rows of x. */
static const char *in_their_order(cj_onnx *o, cj_cell cell, const char *x, int64_t rows)
{
    static const int order[CJ_CELLS][4] = { [CJ_CELL_LSTM] = { 0, 3, 1, 2 }, [CJ_CELL_GRU] = { 1, 0, 2 } };
    const int gates = (int)cj__cell_gates(cell);
    const char *part[4];
    const int64_t zero = 0;
    if (gates == 1) return x;
    for (int g = 0; g < gates; g++) {
        const int64_t start = order[cell][g] * rows, end = start + rows;
        Cj__Onnx__Node *n = x ? cj__onnx_node(o, "Slice", 4,
                                              (const char *[]){ x, cj__onnx_const_ints(o, &start, 1), cj__onnx_const_ints(o, &end, 1),
                                                                cj__onnx_const_ints(o, &zero, 1) })
                              : NULL;
        if (!n) return NULL;
        part[g] = n->output[0];
    }
    Cj__Onnx__Node *n = cj__onnx_node(o, "Concat", gates, part);
    return n && cj__onnx_int(o, n, "axis", 0) ? n->output[0] : NULL;
}

/* With an axis of size 1 in front: one direction. */
static const char *one_direction(cj_onnx *o, const char *x)
{
    return cj__onnx_binary(o, "Unsqueeze", x, cj__onnx_const_ints(o, (int64_t[]){ 0 }, 1));
}

/* Biases of the input terms, then those of the recurrence: zeros but for the one of a gru that r multiplies. */
static const char *biases(cj_onnx *o, cj_cell cell, const char *bias, const char *b_n, int64_t H)
{
    const int64_t gates = cj__cell_gates(cell);
    const char *part[3];
    int n = 0;
    part[n++] = bias ? in_their_order(o, cell, bias, H) : cj__onnx_const_fill(o, 0, gates * H);
    part[n++] = cj__onnx_const_fill(o, 0, b_n ? (gates - 1) * H : gates * H);
    if (b_n) part[n++] = b_n;
    Cj__Onnx__Node *node = cj__onnx_node(o, "Concat", n, part);
    return node && cj__onnx_int(o, node, "axis", 0) ? one_direction(o, node->output[0]) : NULL;
}

/* The map from the input to the input terms: the linear call before, or the identity. */
static bool input_terms(cj_onnx *o, int value, const char **x, const char **w, const char **bias)
{
    const cj_recorded *l = maker(o, value, "linear");
    if (l) {
        *x = cj__onnx_name(o, l->in[0]);
        *w = cj__onnx_name(o, l->in[1]);
        *bias = l->nin > 2 ? cj__onnx_name(o, l->in[2]) : NULL;
        return *x && *w && (l->nin < 3 || *bias);
    }
    const int64_t n = cj__onnx_tensor(o, value)->shape[2], shape[2] = { n, n };
    float *eye = cj__onnx_alloc(o, (size_t)(n * n) * sizeof *eye);
    for (int64_t i = 0; eye && i < n; i++) eye[i * n + i] = 1;
    *x = cj__onnx_name(o, value);
    *w = eye ? cj__onnx_const_bytes(o, CJ_F32, 2, shape, eye) : NULL;
    *bias = NULL;
    return *x && *w;
}

CJ_ONNX_CONVERT(recurrence)
{
    (void)other;
    const cj_recurrent_attrs *a = k->attrs;
    const cj_cell cell = (cj_cell)a->cell;
    const int64_t H = cj__onnx_tensor(o, k->in[1])->shape[1];
    const char *x, *w, *bias, *b_n = NULL, *h0 = "", *c0 = NULL;
    int at = 2;
    if (!input_terms(o, k->in[0], &x, &w, &bias)) return false;
    if (a->has & CJ_RECURRENT_BIAS && !(b_n = cj__onnx_name(o, k->in[at++]))) return false;
    if (a->has & CJ_RECURRENT_H0 && !(h0 = one_direction(o, cj__onnx_name(o, k->in[at++])))) return false;
    if (a->has & CJ_RECURRENT_C0 && !(c0 = one_direction(o, cj__onnx_name(o, k->in[at])))) return false;
    const char *r = one_direction(o, in_their_order(o, cell, cj__onnx_name(o, k->in[1]), H));
    w = one_direction(o, in_their_order(o, cell, w, H));
    const char *b = biases(o, cell, bias, b_n, H);
    if (!w || !r || !b) return false;
    const bool states = *h0 || c0;
    Cj__Onnx__Node *n = cj__onnx_node(o, type, states ? 7 : 4, (const char *[]){ x, w, r, b, "", h0, c0 });
    if (!n || !cj__onnx_int(o, n, "hidden_size", H)) return false;
    if (a->reverse && !cj__onnx_word(o, n, "direction", "reverse")) return false;
    if (cell == CJ_CELL_GRU && !cj__onnx_int(o, n, "linear_before_reset", 1)) return false;
    if (cell == CJ_CELL_RNN && a->relu && !cj__onnx_words(o, n, "activations", "Relu")) return false;
    const char *one = cj__onnx_const_ints(o, (int64_t[]){ 1 }, 1), *zero = cj__onnx_const_ints(o, (int64_t[]){ 0 }, 1);
    const int results = cell == CJ_CELL_LSTM ? 3 : 2; /* y [T, 1, N, H], then the last states [1, N, H] */
    for (int j = 0; j < results; j++)
        if (!cj__onnx_named(o, k->out[j], cj__onnx_binary(o, "Squeeze", cj__onnx_output(o, n, j), j ? zero : one))) return false;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------------------------------------------- */

const cj_onnx_row cj__onnx_operators[] = {
    { "add", binary, "Add", false },
    { "sub", binary, "Sub", false },
    { "mul", binary, "Mul", false },
    { "div", binary, "Div", false },
    { "pow", binary, "Pow", false },
    { "maximum", binary, "Max", false },
    { "minimum", binary, "Min", false },
    { "add_scalar", scalar, "Add", false },
    { "mul_scalar", scalar, "Mul", false },
    { "pow_scalar", scalar, "Pow", false },
    { "clamp_min", scalar, "Max", false },
    { "clamp_max", scalar, "Min", false },
    { "eq", compare, "Equal", false },
    { "ne", compare, "!Equal", false },
    { "lt", compare, "Less", false },
    { "le", compare, "LessOrEqual", false },
    { "gt", compare, "Greater", false },
    { "ge", compare, "GreaterOrEqual", false },
    { "eq_scalar", compare_scalar, "Equal", false },
    { "ne_scalar", compare_scalar, "!Equal", false },
    { "lt_scalar", compare_scalar, "Less", false },
    { "le_scalar", compare_scalar, "LessOrEqual", false },
    { "gt_scalar", compare_scalar, "Greater", false },
    { "ge_scalar", compare_scalar, "GreaterOrEqual", false },
    { "logical_and", logic, "And", false },
    { "logical_or", logic, "Or", false },
    { "logical_xor", logic, "Xor", false },
    { "logical_not", logic, "Not", false },
    { "isnan", is_nan, "IsNaN", false },
    { "isfinite", is_finite, NULL, false },
    { "where", where, NULL, false },
    { "neg", unary, "Neg", false },
    { "abs", unary, "Abs", false },
    { "sign", unary, "Sign", false },
    { "exp", unary, "Exp", false },
    { "log", unary, "Log", false },
    { "sqrt", unary, "Sqrt", false },
    { "reciprocal", unary, "Reciprocal", false },
    { "sin", unary, "Sin", false },
    { "cos", unary, "Cos", false },
    { "tanh", unary, "Tanh", false },
    { "sigmoid", unary, "Sigmoid", false },
    { "erf", unary, "Erf", false },
    { "floor", unary, "Floor", false },
    { "ceil", unary, "Ceil", false },
    { "round", unary, "Round", false },
    { "trunc", trunc_of, NULL, false },
    { "fmod", rest, NULL, false },
    { "remainder", rest, NULL, false },
    { "relu", unary, "Relu", false },
    { "softplus", unary, "Softplus", false },
    { "softsign", unary, "Softsign", false },
    { "selu", unary, "Selu", false },
    { "square", square, "Mul", false },
    { "expm1", expm1_of, NULL, false },
    { "log1p", log1p_of, NULL, false },
    { "rsqrt", rsqrt, NULL, false },
    { "log_sigmoid", log_sigmoid, NULL, false },
    { "leaky_relu", activation, "LeakyRelu", false },
    { "elu", activation, "Elu", false },
    { "matmul", binary, "MatMul", false },
    { "linear", linear, NULL, false },
    { "csr_matmul", sparse_product, NULL, false },
    { "softmax", last_axis, "Softmax", false },
    { "log_softmax", last_axis, "LogSoftmax", false },
    { "layer_norm", layer_norm, "LayerNormalization", false },
    { "batch_norm", batch_norm, "BatchNormalization", false },
    { "conv", conv, "Conv", false },
    { "conv_data", conv, "ConvTranspose", false },
    { "max_pool", pool, "MaxPool", false },
    { "max_pool_values", pool, "MaxPool", false },
    { "window_sum", pool, "AveragePool", false },
    { "rnn", recurrence, "RNN", false },
    { "lstm", recurrence, "LSTM", false },
    { "gru", recurrence, "GRU", false },
    { 0 },
};

static const cj_onnx_row *row_of(const cj_op *op)
{
    static const cj_onnx_row *const table[] = { cj__onnx_shapes, cj__onnx_operators };
    for (int t = 0; t < 2; t++)
        for (const cj_onnx_row *r = table[t]; r->op; r++)
            if (strcmp(r->op, op->name) == 0) return r;
    return NULL;
}

bool cj__onnx_whole(const cj_op *op, const void *attrs)
{
    const cj_onnx_row *r = row_of(op);
    if (!r) return false;
    if (r->convert == batch_norm) return ((const cj_normalise_attrs *)attrs)->given; /* else it is of the batch */
    return r->convert != recurrence || !(((const cj_recurrent_attrs *)attrs)->has & CJ_RECURRENT_LENGTHS);
}

bool cj__onnx_convert_call(cj_onnx *o, const cj_recorded *k, const cj_recorded *other)
{
    const cj_onnx_row *r = row_of(k->op);
    o->call = k;
    if (!r)
        return cj__onnx_refuse(o, k->op->flags & CJ_OP_RANDOM   ? "it draws"
                                  : k->op->flags & CJ_OP_WRITES ? "it writes"
                                                                : "there is no such operator");
    if (other && !r->sized && k->op->attr_size) {
        bool same = k->op->attrs_equal ? k->op->attrs_equal(k->attrs, other->attrs) : memcmp(k->attrs, other->attrs, k->op->attr_size) == 0;
        if (!same) return cj__onnx_bound(o, "%s has other attributes where there are more examples", k->op->name);
    }
    return r->convert(o, k, other, r->type);
}

#endif
