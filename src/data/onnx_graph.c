/* The pieces of an ONNX graph: names, nodes, attributes, constants, and sizes that depend on the batch (onnx.h).
 *
 * Everything is made in one region and goes with it.  Names of results are MODULE/Type_N; they have a slash, so that no parameter's name is one of them.
 */
#include "data/onnx.h"

#if defined CJ_HAVE_PROTOBUF_C
#include <stdarg.h>

void *cj__onnx_alloc(cj_onnx *o, size_t bytes) { return cj__region_alloc(o->ctx, &o->region, bytes ? bytes : 1); }

const char *cj__onnx_text(cj_onnx *o, const char *format, ...)
{
    char text[CJ_MAX_PATH_NAME + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *copy = cj__onnx_alloc(o, strlen(text) + 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

bool(cj__onnx_bound)(cj_onnx *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(o->bound, sizeof o->bound, format, args);
    va_end(args);
    return false;
}

bool(cj__onnx_refuse)(cj_onnx *o, const char *why)
{
    const cj_recorded *k = o->call;
    return cj__error(o->ctx, CJ_EVALUE, "cj_onnx_save: %s%s%s has no ONNX form: %s", k->op->name, *k->path ? " in " : "", k->path, why);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------------------------ */

/* Room for one more pointer; the old array stays in the region. */
static bool one_more(cj_onnx *o, void *array, int n, int *room)
{
    void **at = array;
    if (n < *room) return true;
    int more = *room ? 2 * *room : 64;
    void *p = cj__onnx_alloc(o, (size_t)more * sizeof(void *));
    if (!p) return false;
    if (n) memcpy(p, *at, (size_t)n * sizeof(void *));
    *at = p;
    *room = more;
    return true;
}

Cj__Onnx__Node *cj__onnx_node(cj_onnx *o, const char *type, int n, const char *const *in)
{
    while (n && !in[n - 1]) n--;
    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL; /* an input that could not be made */
    Cj__Onnx__Node *node = cj__onnx_alloc(o, sizeof *node);
    if (!node || !one_more(o, &o->node, o->nodes, &o->nodes_room)) return NULL;
    cj__onnx__node__init(node);
    node->input = cj__onnx_alloc(o, (size_t)n * sizeof *node->input);
    node->name = (char *)cj__onnx_text(o, "%s/%s_%d", o->call ? o->call->path : "", type, o->serial++);
    node->op_type = (char *)type;
    if (!node->input || !node->name) return NULL;
    for (int i = 0; i < n; i++) node->input[i] = (char *)in[i];
    node->n_input = (size_t)n;
    o->node[o->nodes++] = node;
    return cj__onnx_output(o, node, 0) ? node : NULL;
}

const char *cj__onnx_output(cj_onnx *o, Cj__Onnx__Node *node, int j)
{
    enum { MOST = 4 };
    if (!node->output && !(node->output = cj__onnx_alloc(o, MOST * sizeof *node->output))) return NULL;
    for (; (int)node->n_output <= j; node->n_output++) {
        const char *name = node->n_output ? cj__onnx_text(o, "%s:%d", node->name, (int)node->n_output) : node->name;
        if (!(node->output[node->n_output] = (char *)name)) return NULL;
    }
    return node->output[j];
}

static Cj__Onnx__Attribute *attribute(cj_onnx *o, Cj__Onnx__Node *node, const char *name, int type)
{
    enum { MOST = 8 };
    if (!node) return NULL;
    if (!node->attribute && !(node->attribute = cj__onnx_alloc(o, MOST * sizeof *node->attribute))) return NULL;
    Cj__Onnx__Attribute *a = cj__onnx_alloc(o, sizeof *a);
    if (!a) return NULL;
    cj__onnx__attribute__init(a);
    a->name = (char *)name;
    a->has_type = true;
    a->type = type;
    node->attribute[node->n_attribute++] = a;
    return a;
}

bool cj__onnx_int(cj_onnx *o, Cj__Onnx__Node *node, const char *name, int64_t value)
{
    Cj__Onnx__Attribute *a = attribute(o, node, name, CJ__ONNX__ATTRIBUTE__TYPE__INT);
    if (!a) return false;
    a->has_i = true;
    a->i = value;
    return true;
}

bool cj__onnx_ints(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const int64_t *value, int n)
{
    Cj__Onnx__Attribute *a = attribute(o, node, name, CJ__ONNX__ATTRIBUTE__TYPE__INTS);
    if (!a || !(a->ints = cj__onnx_alloc(o, (size_t)n * sizeof *a->ints))) return false;
    memcpy(a->ints, value, (size_t)n * sizeof *a->ints);
    a->n_ints = (size_t)n;
    return true;
}

bool cj__onnx_float(cj_onnx *o, Cj__Onnx__Node *node, const char *name, double value)
{
    Cj__Onnx__Attribute *a = attribute(o, node, name, CJ__ONNX__ATTRIBUTE__TYPE__FLOAT);
    if (!a) return false;
    a->has_f = true;
    a->f = (float)value;
    return true;
}

bool cj__onnx_word(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const char *value)
{
    Cj__Onnx__Attribute *a = attribute(o, node, name, CJ__ONNX__ATTRIBUTE__TYPE__STRING);
    if (!a) return false;
    a->has_s = true;
    a->s = (ProtobufCBinaryData){ strlen(value), (uint8_t *)value };
    return true;
}

bool cj__onnx_words(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const char *only)
{
    Cj__Onnx__Attribute *a = attribute(o, node, name, CJ__ONNX__ATTRIBUTE__TYPE__STRINGS);
    if (!a || !(a->strings = cj__onnx_alloc(o, sizeof *a->strings))) return false;
    a->strings[0] = (ProtobufCBinaryData){ strlen(only), (uint8_t *)only };
    a->n_strings = 1;
    return true;
}

const char *cj__onnx_unary(cj_onnx *o, const char *type, const char *x)
{
    Cj__Onnx__Node *n = x ? cj__onnx_node(o, type, 1, &x) : NULL;
    return n ? n->output[0] : NULL;
}

const char *cj__onnx_binary(cj_onnx *o, const char *type, const char *x, const char *y)
{
    Cj__Onnx__Node *n = x && y ? cj__onnx_node(o, type, 2, (const char *[]){ x, y }) : NULL;
    return n ? n->output[0] : NULL;
}

int cj__onnx_dtype(cj_dtype t)
{
    static const int number[CJ_DTYPES] = {
        [CJ_F32] = CJ__ONNX__TENSOR__DATA_TYPE__FLOAT,     [CJ_F64] = CJ__ONNX__TENSOR__DATA_TYPE__DOUBLE,
        [CJ_BF16] = CJ__ONNX__TENSOR__DATA_TYPE__BFLOAT16, [CJ_F16] = CJ__ONNX__TENSOR__DATA_TYPE__FLOAT16,
        [CJ_I64] = CJ__ONNX__TENSOR__DATA_TYPE__INT64,     [CJ_I32] = CJ__ONNX__TENSOR__DATA_TYPE__INT32,
        [CJ_U8] = CJ__ONNX__TENSOR__DATA_TYPE__UINT8,      [CJ_BOOL] = CJ__ONNX__TENSOR__DATA_TYPE__BOOL,
    };
    return number[t];
}

const char *cj__onnx_cast(cj_onnx *o, const char *x, cj_dtype from, cj_dtype to)
{
    if (!x || from == to) return x;
    Cj__Onnx__Node *n = cj__onnx_node(o, "Cast", 1, &x);
    return n && cj__onnx_int(o, n, "to", cj__onnx_dtype(to)) ? n->output[0] : NULL;
}

static const Cj__Onnx__Node *transpose_that_made(const cj_onnx *o, const char *x)
{
    for (int i = o->nodes - 1; i >= 0; i--)
        if (o->node[i]->output[0] == x) return strcmp(o->node[i]->op_type, "Transpose") == 0 ? o->node[i] : NULL;
    return NULL;
}

const char *cj__onnx_transpose(cj_onnx *o, const char *x, const int64_t *order, int n)
{
    if (!x) return NULL;
    int64_t both[CJ_MAX_DIMS];
    bool same = true;
    const Cj__Onnx__Node *before = transpose_that_made(o, x);
    for (int d = 0; d < n; d++) {
        both[d] = before ? before->attribute[0]->ints[order[d]] : order[d];
        same &= both[d] == d;
    }
    if (before) x = before->input[0];
    if (same) return x;
    Cj__Onnx__Node *node = cj__onnx_node(o, "Transpose", 1, &x);
    return node && cj__onnx_ints(o, node, "perm", both, n) ? node->output[0] : NULL;
}

/* ---- constants --------------------------------------------------------------------------------------------------------------------------------------- */

static size_t bytes_of(cj_dtype dtype, int ndim, const int64_t *shape)
{
    size_t n = cj_dtype_size(dtype);
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    return n;
}

static bool is_same(const Cj__Onnx__Tensor *t, int type, int ndim, const int64_t *shape, const void *bytes, size_t n)
{
    return t->data_type == type && t->n_dims == (size_t)ndim && t->raw_data.len == n &&
           (!ndim || memcmp(t->dims, shape, (size_t)ndim * sizeof *shape) == 0) && memcmp(t->raw_data.data, bytes, n) == 0;
}

/* Small constants that are there already serve again.  The bytes are not copied. */
static const char *constant(cj_onnx *o, cj_dtype dtype, int ndim, const int64_t *shape, const void *bytes)
{
    enum { SMALL = 64 };
    const size_t n = bytes_of(dtype, ndim, shape);
    for (int i = 0; i < o->tensors && n <= SMALL; i++)
        if (is_same(o->tensor[i], cj__onnx_dtype(dtype), ndim, shape, bytes, n)) return o->tensor[i]->name;
    Cj__Onnx__Tensor *t = cj__onnx_alloc(o, sizeof *t);
    if (!t || !one_more(o, &o->tensor, o->tensors, &o->tensors_room)) return NULL;
    cj__onnx__tensor__init(t);
    t->name = (char *)cj__onnx_text(o, "/constant_%d", o->tensors);
    t->dims = cj__onnx_alloc(o, (size_t)ndim * sizeof *t->dims);
    if (!t->name || !t->dims) return NULL;
    if (ndim) memcpy(t->dims, shape, (size_t)ndim * sizeof *shape);
    t->n_dims = (size_t)ndim;
    t->has_data_type = t->has_raw_data = true;
    t->data_type = cj__onnx_dtype(dtype);
    t->raw_data = (ProtobufCBinaryData){ n, (uint8_t *)bytes };
    o->tensor[o->tensors++] = t;
    return t->name;
}

const char *cj__onnx_const_bytes(cj_onnx *o, cj_dtype dtype, int ndim, const int64_t *shape, const void *bytes)
{
    size_t n = bytes_of(dtype, ndim, shape);
    void *copy = cj__onnx_alloc(o, n);
    if (!copy) return NULL;
    memcpy(copy, bytes, n);
    return constant(o, dtype, ndim, shape, copy);
}

const char *cj__onnx_const_ints(cj_onnx *o, const int64_t *value, int n)
{
    return cj__onnx_const_bytes(o, CJ_I64, 1, &(int64_t){ n }, value);
}

const char *cj__onnx_const_number(cj_onnx *o, cj_dtype dtype, double value)
{
    _Alignas(8) char bytes[8] = { 0 };
    cj__store(dtype, bytes, value);
    return cj__onnx_const_bytes(o, dtype, 0, NULL, bytes);
}

const char *cj__onnx_const_fill(cj_onnx *o, double value, int64_t n)
{
    float *v = cj__onnx_alloc(o, (size_t)n * sizeof *v);
    for (int64_t i = 0; v && i < n; i++) v[i] = (float)value;
    return v ? constant(o, CJ_F32, 1, &n, v) : NULL;
}

/* ---- sizes -------------------------------------------------------------------------------------------------------------------------------------------- */

bool cj__onnx_size_of(cj_onnx *o, int value, int axis, cj_onnx_size *out)
{
    const int64_t n = cj__onnx_tensor(o, value)->shape[axis], m = o->b ? o->b->value[value].tensor->shape[axis] : n;
    *out = (cj_onnx_size){ n, 0 };
    if (n == m) return true;
    if (n % o->batch_a || m % o->batch_b || n / o->batch_a != m / o->batch_b)
        return cj__onnx_bound(o, "a size of %s is %lld for %lld examples and %lld for %lld", o->call ? o->call->op->name : "a constant",
                              (long long)n, (long long)o->batch_a, (long long)m, (long long)o->batch_b);
    out->k = n / o->batch_a;
    return true;
}

/* The batch as a vector of one number. */
static const char *batch_vector(cj_onnx *o, int64_t times)
{
    if (!o->batch) {
        Cj__Onnx__Node *n = cj__onnx_node(o, "Shape", 1, &o->input);
        if (!n || !cj__onnx_int(o, n, "start", 0) || !cj__onnx_int(o, n, "end", 1)) return NULL;
        o->batch = n->output[0];
    }
    return times == 1 ? o->batch : cj__onnx_binary(o, "Mul", o->batch, cj__onnx_const_ints(o, &times, 1));
}

const char *cj__onnx_shape(cj_onnx *o, const cj_onnx_size *size, int n)
{
    const char *part[CJ_MAX_DIMS];
    int parts = 0;
    for (int d = 0; d < n;) {
        int64_t fixed[CJ_MAX_DIMS];
        int m = 0;
        while (d < n && !size[d].k) fixed[m++] = size[d++].n;
        if (m && !(part[parts++] = cj__onnx_const_ints(o, fixed, m))) return NULL;
        if (d < n && !(part[parts++] = batch_vector(o, size[d++].k))) return NULL;
    }
    if (!n) return cj__onnx_const_ints(o, (int64_t[]){ 0 }, 0);
    if (parts == 1) return part[0];
    Cj__Onnx__Node *node = cj__onnx_node(o, "Concat", parts, part);
    return node && cj__onnx_int(o, node, "axis", 0) ? node->output[0] : NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------------------------- */

/* The elements of t, row-major, with one of each axis of `along` only; NULL where they change along it. */
static void *elements(cj_onnx *o, const cj_tensor *t, const bool *along)
{
    const size_t size = cj_dtype_size((cj_dtype)t->dtype);
    int64_t at[CJ_MAX_DIMS] = { 0 }, numel = 1, place[CJ_MAX_DIMS] = { 0 };
    for (int d = t->ndim - 1; d >= 0; d--) {
        place[d] = along[d] ? 0 : numel;
        numel *= along[d] ? 1 : t->shape[d];
    }
    char *out = cj__onnx_alloc(o, (size_t)numel * size);
    for (int64_t i = 0; out && i < t->numel; i++) {
        int64_t from = 0, to = 0;
        bool first = true;
        for (int d = 0; d < t->ndim; d++) {
            from += at[d] * t->stride[d];
            to += at[d] * place[d];
            first &= !along[d] || at[d] == 0;
        }
        if (first) memcpy(out + to * (int64_t)size, t->data + from * (int64_t)size, size);
        else if (memcmp(out + to * (int64_t)size, t->data + from * (int64_t)size, size) != 0) return NULL;
        for (int d = t->ndim - 1; d >= 0 && ++at[d] == t->shape[d]; d--) at[d] = 0;
    }
    return out;
}

/* A constant; one that has the batch among its sizes must be the same for every example, and is spread over them. */
static const char *constant_value(cj_onnx *o, int value)
{
    const cj_tensor *t = cj__onnx_tensor(o, value), *u = o->b ? o->b->value[value].tensor : NULL;
    cj_onnx_size size[CJ_MAX_DIMS];
    bool along[CJ_MAX_DIMS] = { false }, any = false;
    int64_t shape[CJ_MAX_DIMS], numel = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (!cj__onnx_size_of(o, value, d, &size[d])) return NULL;
        any |= along[d] = size[d].k > 0;
        numel *= shape[d] = along[d] ? 1 : size[d].n;
    }
    if (!u && cj__contiguous(t)) return constant(o, (cj_dtype)t->dtype, t->ndim, t->shape, t->data);
    const void *x = elements(o, t, along), *y = u ? elements(o, u, along) : x;
    if (o->ctx->error) return NULL;
    if (!x || !y || memcmp(x, y, (size_t)numel * cj_dtype_size((cj_dtype)t->dtype)) != 0) {
        cj__onnx_bound(o, "a constant of %s depends on the number of examples", o->call ? o->call->op->name : "the result");
        return NULL;
    }
    const char *name = constant(o, (cj_dtype)t->dtype, t->ndim, shape, x);
    return any && name ? cj__onnx_binary(o, "Expand", name, cj__onnx_shape(o, size, t->ndim)) : name;
}

const char *cj__onnx_name(cj_onnx *o, int value)
{
    const cj_value *v = &o->a->value[value];
    if (v->kind == CJ_VALUE_INPUT) return o->input;
    if (v->kind == CJ_VALUE_NAMED) return o->state[v->index].name;
    if (!o->name[value] && v->kind == CJ_VALUE_CONSTANT) o->name[value] = constant_value(o, value);
    if (!o->name[value] && v->kind == CJ_VALUE_RESULT && !o->ctx->error &&
        !*o->bound) /* a further result of an operator that has one in ONNX */
        cj__onnx_refuse(o, "it reads a result that its input's operator does not have there");
    return o->name[value];
}

#endif
