/* libcajal-cuda.so: the table that the library asks for, and the kernels by operator name.
 *
 * This file knows tensors and attributes and turns a call into pointers, sizes and strides; the .cu files know nothing else.  It calls no function of the
 * library: the object has no undefined cj_ symbol.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "cajal/ops.h"
#include "core/core.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/table.h"
#include "ops/attrs.h"

/* ---- dtypes: the rules of core/dtype.c and ops/elementwise.c ------------------------------------------------------------------------------------ */

static int category(int t) { return gpu_is_float(t) ? 2 : t == CJ_BOOL ? 0 : 1; }
static int rank(int t) { return t == CJ_F64 || t == CJ_I64 ? 3 : t == CJ_F32 || t == CJ_I32 ? 2 : 1; }
static int promote2(int a, int b)
{
    if (a == CJ_DEFAULT_DTYPE) return b;
    if (b == CJ_DEFAULT_DTYPE || a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (rank(a) == rank(b)) return CJ_F32; /* bf16 with f16 */
    return rank(a) > rank(b) ? a : b;
}
static int promote(cj_tensor *const *t, int n)
{
    int dims = CJ_DEFAULT_DTYPE, scalars = CJ_DEFAULT_DTYPE;
    for (int i = 0; i < n; i++)
        if (t[i]->ndim) dims = promote2(dims, t[i]->dtype);
        else scalars = promote2(scalars, t[i]->dtype);
    if (dims == CJ_DEFAULT_DTYPE) return scalars;
    return scalars == CJ_DEFAULT_DTYPE || category(scalars) <= category(dims) ? dims : scalars;
}
static cj_dtype compute_of(int t) { return t == CJ_F64 ? CJ_F64 : gpu_is_float(t) ? CJ_F32 : CJ_I64; }

static bool has_scalar(int code) { return code == CJ_EW_CONST || (code >= CJ_EW_ADDS && code <= CJ_EW_GES); }
/* Comparisons and logic give bool whatever they compute in. */
static bool gives_bool(int code)
{
    return (code >= CJ_EW_EQ && code <= CJ_EW_XOR) || (code >= CJ_EW_EQS && code <= CJ_EW_GES) || code == CJ_EW_NOT ||
           code == CJ_EW_ISNAN || code == CJ_EW_ISFINITE;
}
static cj_dtype compute_dtype(const cj_call *call, int code)
{
    if (!gives_bool(code)) return compute_of(call->out[0]->dtype);
    int t = promote(call->in, call->nin);
    const double s = has_scalar(code) ? *(const double *)call->attrs : 0;
    return !gpu_is_float(t) && s != nearbyint(s) ? CJ_F32 : compute_of(t);
}

/* ---- elementwise ----------------------------------------------------------------------------------------------------------------------------------- */

/* x over the shape of y. */
static cj_ew_arg arg_over(const cj_tensor *x, const cj_tensor *y)
{
    cj_ew_arg a = { .data = x->data, .dtype = (cj_dtype)x->dtype };
    int lead = y->ndim - x->ndim;
    for (int d = 0; d < y->ndim; d++) a.stride[d] = d < lead || x->shape[d - lead] == 1 ? 0 : x->stride[d - lead];
    return a;
}

static const char *run_ew(void *state, const cj_call *call)
{
    const cj_tensor *y = call->out[0];
    const int code = call->op->ew - 1, nin = call->nin;
    cj_ew_prog p;
    cj_ew_arg args[4];
    p.compute = compute_dtype(call, code);
    p.n_in = nin, p.n_out = 1, p.n_instr = 1, p.n_regs = nin + 1;
    p.out[0] = (uint8_t)nin;
    p.instr[0] = (cj_ew_instr){ .code = (uint8_t)code, .dst = (uint8_t)nin, .a = 0, .b = 1, .c = 2 };
    if (has_scalar(code)) p.instr[0].s = *(const double *)call->attrs;
    for (int i = 0; i < nin; i++) args[i] = arg_over(call->in[i], y);
    args[nin] = arg_over(y, y);
    return gpu_ew(state, &p, args, y->ndim, y->shape);
}

/* attrs is a program; the inputs broadcast to the first output's shape. */
static const char *run_fused(void *state, const cj_call *call)
{
    const cj_ew_prog *p = call->attrs;
    const cj_tensor *y = call->out[0];
    cj_ew_arg args[CJ_EW_MAX_ARGS];
    if (p->n_in != call->nin || p->n_out != call->nout || call->nin + call->nout > CJ_EW_MAX_ARGS)
        return "the program does not fit its arguments";
    for (int i = 0; i < call->nin; i++) args[i] = arg_over(call->in[i], y);
    for (int j = 0; j < call->nout; j++) args[call->nin + j] = arg_over(call->out[j], y);
    return gpu_ew(state, p, args, y->ndim, y->shape);
}

/* ---- copies and writes --------------------------------------------------------------------------------------------------------------------------------- */

static const gpu_position nowhere;

static const char *run_copy(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0], *y = call->out[0];
    return gpu_copy(state, x->ndim, x->shape, x->dtype, x->data, x->stride, y->dtype, y->data, y->stride, nowhere);
}

static const char *run_cat(void *state, const cj_call *call)
{
    const int axis = *(const int *)call->attrs;
    const cj_tensor *y = call->out[0];
    int64_t at = 0;
    for (int i = 0; i < call->nin; i++) {
        const cj_tensor *x = call->in[i];
        const char *e = gpu_copy(state, x->ndim, x->shape, x->dtype, x->data, x->stride, y->dtype,
                                 y->data + at * y->stride[axis] * gpu_elem(y->dtype), y->stride, nowhere);
        if (e) return e;
        at += x->shape[axis];
    }
    return NULL;
}

static const char *run_assign(void *state, const cj_call *call)
{
    const cj_tensor *dst = call->in[0], *src = call->in[1];
    const cj_ew_arg a = arg_over(src, dst);
    if (dst->data == src->data && dst->dtype == src->dtype && memcmp(a.stride, dst->stride, dst->ndim * sizeof a.stride[0]) == 0)
        return NULL;
    return gpu_copy(state, dst->ndim, dst->shape, src->dtype, src->data, a.stride, dst->dtype, dst->data, dst->stride, nowhere);
}

static const char *run_add_onto(void *state, const cj_call *call)
{
    const cj_tensor *dst = call->in[0];
    cj_ew_prog p = { .compute = compute_of(dst->dtype), .n_in = 2, .n_out = 1, .n_instr = 2, .n_regs = 3, .out = { 2 } };
    p.instr[0] = (cj_ew_instr){ .code = CJ_EW_MULS, .dst = 2, .a = 1, .s = *(const double *)call->attrs };
    p.instr[1] = (cj_ew_instr){ .code = CJ_EW_ADD, .dst = 2, .a = 0, .b = 2 };
    const cj_ew_arg own = arg_over(dst, dst), args[3] = { own, arg_over(call->in[1], dst), own };
    return gpu_ew(state, &p, args, dst->ndim, dst->shape);
}

static const char *run_write_slice(void *state, const cj_call *call)
{
    const int axis = *(const int *)call->attrs;
    const cj_tensor *dst = call->in[0], *src = call->in[2];
    const gpu_position at = { (const int64_t *)(const void *)call->in[1]->data, dst->shape[axis] - src->shape[axis], dst->stride[axis] };
    return gpu_copy(state, src->ndim, src->shape, src->dtype, src->data, src->stride, dst->dtype, dst->data, dst->stride, at);
}

/* Do two elements of the view share a place?  As in ops/shape.c. */
static bool overlaps(const cj_strided_attrs *a)
{
    int64_t reach = 0;
    bool used[CJ_MAX_DIMS] = { 0 };
    for (int i = 0; i < a->ndim; i++) {
        int best = -1;
        for (int d = 0; d < a->ndim; d++)
            if (!used[d] && (best < 0 || llabs(a->stride[d]) < llabs(a->stride[best]))) best = d;
        used[best] = true;
        if (a->shape[best] == 1) continue;
        if (llabs(a->stride[best]) <= reach) return true;
        reach += llabs(a->stride[best]) * (a->shape[best] - 1);
    }
    return false;
}

/* Zeros with g added at the view's places; overlapping windows one position after the other, so that the order is fixed. */
static const char *run_strided_scatter(void *state, const cj_call *call)
{
    const cj_strided_attrs *a = call->attrs;
    const cj_tensor *g = call->in[0], *y = call->out[0];
    const int size = gpu_elem(y->dtype);
    const char *e = gpu_fill(state, y->dtype, y->data, y->numel, 0);
    if (e || !g->numel) return e;
    char *at = y->data + a->offset * size;
    if (!overlaps(a)) return gpu_copy(state, a->ndim, a->shape, g->dtype, g->data, g->stride, y->dtype, at, a->stride, nowhere);
    const cj_ew_prog p = { .compute = compute_of(y->dtype),
                           .n_in = 2,
                           .n_out = 1,
                           .n_instr = 1,
                           .n_regs = 3,
                           .out = { 2 },
                           .instr = { { .code = CJ_EW_ADD, .dst = 2, .b = 1 } } };
    const int last = a->ndim - 1;
    for (int64_t i = 0; i < a->shape[last] && !e; i++) {
        cj_ew_arg args[3] = { { .data = at + i * a->stride[last] * size, .dtype = (cj_dtype)y->dtype },
                              { .data = g->data + i * g->stride[last] * size, .dtype = (cj_dtype)g->dtype } };
        memcpy(args[0].stride, a->stride, sizeof args[0].stride);
        memcpy(args[1].stride, g->stride, sizeof args[1].stride);
        args[2] = args[0];
        e = gpu_ew(state, &p, args, last, a->shape);
    }
    return e;
}

/* ---- creation ----------------------------------------------------------------------------------------------------------------------------------------------- */

static const char *run_full(void *state, const cj_call *call)
{
    const cj_full_attrs *a = call->attrs;
    const cj_tensor *y = call->out[0];
    return gpu_fill(state, y->dtype, y->data, y->numel, a->value);
}
static const char *run_arange(void *state, const cj_call *call)
{
    const cj_range_attrs *a = call->attrs;
    return gpu_arange(state, call->out[0]->dtype, call->out[0]->data, a->n, a->start, a->step);
}
static const char *run_draw(void *state, const cj_call *call)
{
    const cj_draw_attrs *a = call->attrs;
    const cj_tensor *y = call->out[0];
    return gpu_random(state, a->kind, y->dtype, a->base.seed, a->base.stream, a->base.call, a->a, a->b, y->numel, y->data);
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* The axes [first, last) as one dimension; the operator's shape rule has made sure that the strides allow it. */
static void merge(const cj_tensor *x, int first, int last, int64_t *size, int64_t *stride)
{
    *size = *stride = 1;
    bool any = false;
    for (int d = last - 1; d >= first; d--) {
        if (x->shape[d] == 1) continue;
        if (!any) *stride = x->stride[d];
        any = true;
        *size *= x->shape[d];
    }
}
static const char *run_reduce(void *state, const cj_call *call)
{
    const cj_reduce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t size[3], stride[3];
    merge(x, 0, a->first, &size[0], &stride[0]);
    merge(x, a->first, a->first + a->count, &size[1], &stride[1]);
    merge(x, a->first + a->count, x->ndim, &size[2], &stride[2]);
    return gpu_reduce(state, a->code, x->dtype, x->data, size, stride, call->out[0]->data, a->scale);
}

/* ---- indexing -------------------------------------------------------------------------------------------------------------------------------------------------- */

/* x as [outer, len, inner] around an axis. */
static void split(const cj_tensor *x, int axis, int64_t size[3])
{
    size[0] = size[2] = 1;
    size[1] = x->shape[axis];
    for (int d = 0; d < axis; d++) size[0] *= x->shape[d];
    for (int d = axis + 1; d < x->ndim; d++) size[2] *= x->shape[d];
}
static const char *run_index_select(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    split(x, *(const int *)call->attrs, size);
    return gpu_index_select(state, gpu_elem(x->dtype), x->data, size[0], size[1], size[2], (const int64_t *)(const void *)index->data,
                            index->numel, call->out[0]->data);
}
static const char *run_gather(void *state, const cj_call *call)
{
    const int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    split(x, axis, size);
    return gpu_gather(state, gpu_elem(x->dtype), x->data, size[0], size[1], size[2], (const int64_t *)(const void *)index->data,
                      index->shape[axis], call->out[0]->data);
}
static const char *run_index_add(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    split(x, *(const int *)call->attrs, size);
    return gpu_index_add(state, x->dtype, x->data, size[0], size[1], size[2], (const int64_t *)(const void *)index->data, index->numel,
                         call->in[2]->data, call->out[0]->data);
}
static const char *run_scatter_add(void *state, const cj_call *call)
{
    const int axis = *(const int *)call->attrs;
    const cj_tensor *x = call->in[0], *index = call->in[1];
    int64_t size[3];
    split(x, axis, size);
    return gpu_scatter_add(state, x->dtype, x->data, size[0], size[1], size[2], (const int64_t *)(const void *)index->data,
                           index->shape[axis], call->in[2]->data, call->out[0]->data);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------------------------------------------- */

/* The batch of a product: merged dimensions, innermost first, with the steps of a, b and y. */
typedef struct batch {
    int n;
    int64_t size[CJ_MAX_DIMS], a[CJ_MAX_DIMS], b[CJ_MAX_DIMS], y[CJ_MAX_DIMS];
} batch;

/* x as the product sees it: strides over the batch dimensions of y, then row and column. */
typedef struct operand {
    const char *data;
    int64_t step[CJ_MAX_DIMS], row, col;
} operand;

static operand operand_of(const cj_tensor *x, int dims)
{
    operand o = { .data = x->data, .row = x->stride[x->ndim - 2], .col = x->stride[x->ndim - 1] };
    for (int d = 0; d < dims; d++) {
        int own = d - (dims - (x->ndim - 2));
        o.step[d] = own < 0 || x->shape[own] == 1 ? 0 : x->stride[own];
    }
    return o;
}

static batch batch_of(const cj_tensor *y, const operand *a, const operand *b)
{
    batch t = { 0 };
    for (int d = y->ndim - 3; d >= 0; d--) {
        if (y->shape[d] == 1) continue;
        const int64_t sa = a->step[d], sb = b->step[d], sy = y->stride[d];
        const int k = t.n - 1;
        if (t.n && sa == t.a[k] * t.size[k] && sb == t.b[k] * t.size[k] && sy == t.y[k] * t.size[k]) {
            t.size[k] *= y->shape[d];
            continue;
        }
        t.a[t.n] = sa, t.b[t.n] = sb, t.y[t.n] = sy, t.size[t.n++] = y->shape[d];
    }
    return t;
}

/* Copies an operand whose batch does not step evenly (heads cut out of one projection) to row-major scratch, so that the batch is one product. */
static const char *pack(gpu_state *st, const cj_tensor *y, int64_t rows, int64_t cols, operand *o, size_t *used)
{
    const int dims = y->ndim - 2;
    int64_t shape[CJ_MAX_DIMS], from[CJ_MAX_DIMS], to[CJ_MAX_DIMS], next = rows * cols, size = gpu_elem(y->dtype);
    bool even = true;
    for (int d = dims - 1; d >= 0; d--) {
        shape[d] = y->shape[d], from[d] = o->step[d], to[d] = next;
        even = even && (y->shape[d] == 1 || o->step[d] == next);
        next *= y->shape[d];
    }
    size_t room;
    char *scratch = gpu_scratch(st, &room);
    if (even || *used + (size_t)(next * size) > room) return NULL; /* as it is */
    scratch += *used;
    const bool transposed = o->row == 1 && o->col != 1; /* stays so: memory is read in its own order */
    shape[dims] = transposed ? cols : rows, shape[dims + 1] = transposed ? rows : cols;
    from[dims] = transposed ? o->col : o->row, from[dims + 1] = transposed ? o->row : o->col;
    to[dims] = shape[dims + 1], to[dims + 1] = 1;
    const char *e = gpu_copy(st, y->ndim, shape, y->dtype, o->data, from, y->dtype, scratch, to, nowhere);
    o->data = scratch;
    o->row = transposed ? 1 : cols;
    o->col = transposed ? rows : 1;
    for (int d = 0; d < dims; d++) o->step[d] = to[d];
    *used += ((size_t)(next * size) + 255) & ~(size_t)255;
    return e;
}

static const char *run_matmul(void *state, const cj_call *call)
{
    const cj_tensor *y = call->out[0];
    const int dims = y->ndim - 2;
    operand a = operand_of(call->in[0], dims), b = operand_of(call->in[1], dims);
    const int64_t m = y->shape[dims], n = y->shape[dims + 1], k = call->in[0]->shape[call->in[0]->ndim - 1], elem = gpu_elem(y->dtype);
    if (!y->numel) return NULL;
    batch t = batch_of(y, &a, &b);
    const char *e = NULL;
    if (t.n > 1 && k > 0) {
        size_t used = 0;
        if (!(e = pack(state, y, m, k, &a, &used))) e = pack(state, y, k, n, &b, &used);
        if (e) return e;
        t = batch_of(y, &a, &b);
    }
    cj_gemm g = {
        .m = m, .n = n, .k = k, .batch = 1, .a_row = a.row, .a_col = a.col, .b_row = b.row, .b_col = b.col, .c_row = y->stride[dims]
    };
    int64_t outer = 1;
    if (t.n == 1 && t.b[0] == 0 && t.a[0] == m * a.row && t.y[0] == m * g.c_row) g.m *= t.size[0]; /* one tall product */
    else if (t.n) g.batch = t.size[0], g.a_batch = t.a[0], g.b_batch = t.b[0], g.c_batch = t.y[0];
    for (int i = 1; i < t.n; i++) outer *= t.size[i];
    for (int64_t o = 0; o < outer && !e; o++) {
        int64_t left = o, oa = 0, ob = 0, oy = 0;
        for (int i = 1; i < t.n; i++) {
            const int64_t at = left % t.size[i];
            left /= t.size[i];
            oa += at * t.a[i], ob += at * t.b[i], oy += at * t.y[i];
        }
        g.a = a.data + oa * elem, g.b = b.data + ob * elem, g.c = y->data + oy * elem;
        e = gpu_gemm(state, y->dtype, &g);
    }
    return e;
}

static const char *run_linear(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
    const int64_t out = w->shape[0], in = w->shape[1];
    const cj_gemm g = { .m = out ? y->numel / out : 0,
                        .n = out,
                        .k = in,
                        .batch = 1,
                        .a = x->data,
                        .b = w->data,
                        .c = y->data,
                        .a_row = in,
                        .a_col = 1,
                        .b_row = w->stride[1],
                        .b_col = w->stride[0],
                        .c_row = out,
                        .bias = call->nin > 2 ? call->in[2]->data : NULL };
    return gpu_gemm(state, y->dtype, &g);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------------------------- */

static int64_t row_length(const cj_tensor *x) { return x->shape[x->ndim - 1]; }
static int64_t row_count(const cj_tensor *x) { return x->numel ? x->numel / row_length(x) : 0; }

static const char *run_softmax(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return gpu_softmax(state, x->dtype, x->data, row_count(x), row_length(x), call->out[0]->data, false);
}
static const char *run_log_softmax(void *state, const cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return gpu_softmax(state, x->dtype, x->data, row_count(x), row_length(x), call->out[0]->data, true);
}
static const char *run_softmax_bwd(void *state, const cj_call *call)
{
    const cj_tensor *y = call->in[0];
    return gpu_softmax_bwd(state, y->dtype, y->data, call->in[1]->data, row_count(y), row_length(y), call->out[0]->data, false);
}
static const char *run_log_softmax_bwd(void *state, const cj_call *call)
{
    const cj_tensor *y = call->in[0];
    return gpu_softmax_bwd(state, y->dtype, y->data, call->in[1]->data, row_count(y), row_length(y), call->out[0]->data, true);
}
static const char *run_layer_norm(void *state, const cj_call *call)
{
    const cj_norm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    return gpu_layer_norm(state, x->dtype, x->data, row_count(x), row_length(x), a->affine > 0 ? call->in[1]->data : NULL,
                          a->affine > 1 ? call->in[2]->data : NULL, a->eps, call->out[0]->data, call->out[1]->data, call->out[2]->data);
}
static const char *run_layer_norm_bwd(void *state, const cj_call *call)
{
    const cj_norm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    return gpu_layer_norm_bwd(state, x->dtype, x->data, call->in[1]->data, a->affine > 0 ? call->in[4]->data : NULL, call->in[2]->data,
                              call->in[3]->data, row_count(x), row_length(x), call->out[0]->data, a->affine > 0 ? call->out[1]->data : NULL,
                              a->affine > 0 ? call->out[2]->data : NULL);
}
static const char *run_cross_entropy(void *state, const cj_call *call)
{
    const cj_ce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    return gpu_cross_entropy(state, x->dtype, x->data, x->shape[0], x->shape[1], (const int64_t *)(const void *)call->in[1]->data,
                             a->ignore, a->smooth, a->reduction == CJ_NONE, a->reduction == CJ_MEAN, call->out[0]->data, call->out[1]->data,
                             call->out[2]->data);
}
static const char *run_cross_entropy_bwd(void *state, const cj_call *call)
{
    const cj_ce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *g = call->in[4];
    return gpu_cross_entropy_bwd(state, x->dtype, x->data, x->shape[0], x->shape[1], (const int64_t *)(const void *)call->in[1]->data,
                                 a->ignore, a->smooth, call->in[2]->data, g->data, g->ndim ? 1 : 0,
                                 a->reduction == CJ_NONE ? NULL : call->in[3]->data, call->out[0]->data);
}

/* ---- updates ---------------------------------------------------------------------------------------------------------------------------------------------------------------- */

static const char *run_update(void *state, const cj_call *call)
{
    const cj_update_attrs *a = call->attrs;
    const cj_tensor *flat = call->in[1],
                    *p = a->master ? call->in[2] : flat, *const *states = (const cj_tensor *const *)call->in + 2 + a->master;
    const int first = (int)a->w.writes + 1, n = call->nin - first;
    const int64_t align = 64 / gpu_elem(flat->dtype);
    const gpu_update u = { .t = flat->dtype,
                           .rule = a->rule,
                           .momentum = a->momentum,
                           .dampening = a->dampening,
                           .weight_decay = a->weight_decay,
                           .beta1 = a->beta1,
                           .beta2 = a->beta2,
                           .eps = a->eps,
                           .clip_norm = a->clip_norm,
                           .nesterov = a->nesterov,
                           .decoupled = a->decoupled,
                           .step = (double *)(void *)call->in[0]->data,
                           .lr = (const double *)(const void *)call->in[first - 1]->data,
                           .p = p->data,
                           .m = a->states > 0 ? states[0]->data : NULL,
                           .v = a->states > 1 ? states[1]->data : NULL,
                           .half = a->master ? flat->data : NULL };
    gpu_slice slice[CJ_MAX_INPUTS];
    int64_t at = 0;
    if (n > CJ_MAX_INPUTS) return "too many parameters";
    for (int i = 0; i < n; i++) {
        const cj_tensor *g = call->in[first + i];
        slice[i] = (gpu_slice){ g->data, at, g->numel };
        at += (g->numel + align - 1) / align * align;
    }
    return gpu_update_run(state, &u, slice, n);
}

/* ---- the table ---------------------------------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    kernel_fn *run;
} row;

static const row rows[] = {
    { "add", run_ew },
    { "sub", run_ew },
    { "mul", run_ew },
    { "div", run_ew },
    { "pow", run_ew },
    { "maximum", run_ew },
    { "minimum", run_ew },
    { "fmod", run_ew },
    { "remainder", run_ew },
    { "floor_divide", run_ew },
    { "atan2", run_ew },
    { "where", run_ew },
    { "add_scalar", run_ew },
    { "mul_scalar", run_ew },
    { "pow_scalar", run_ew },
    { "clamp_min", run_ew },
    { "clamp_max", run_ew },
    { "neg", run_ew },
    { "abs", run_ew },
    { "sign", run_ew },
    { "exp", run_ew },
    { "expm1", run_ew },
    { "log", run_ew },
    { "log1p", run_ew },
    { "sqrt", run_ew },
    { "rsqrt", run_ew },
    { "reciprocal", run_ew },
    { "square", run_ew },
    { "sin", run_ew },
    { "cos", run_ew },
    { "tanh", run_ew },
    { "sigmoid", run_ew },
    { "erf", run_ew },
    { "floor", run_ew },
    { "ceil", run_ew },
    { "round", run_ew },
    { "trunc", run_ew },
    { "relu", run_ew },
    { "eq", run_ew },
    { "ne", run_ew },
    { "lt", run_ew },
    { "le", run_ew },
    { "gt", run_ew },
    { "ge", run_ew },
    { "eq_scalar", run_ew },
    { "ne_scalar", run_ew },
    { "lt_scalar", run_ew },
    { "le_scalar", run_ew },
    { "gt_scalar", run_ew },
    { "ge_scalar", run_ew },
    { "logical_and", run_ew },
    { "logical_or", run_ew },
    { "logical_xor", run_ew },
    { "logical_not", run_ew },
    { "isnan", run_ew },
    { "isfinite", run_ew },
    { "gelu", run_ew },
    { "gelu_backward", run_ew },
    { "gelu_tanh", run_ew },
    { "gelu_tanh_backward", run_ew },
    { "silu", run_ew },
    { "silu_backward", run_ew },
    { "softplus", run_ew },
    { "log_sigmoid", run_ew },
    { "tanh_backward", run_ew },
    { "sigmoid_backward", run_ew },
    { "relu_backward", run_ew },
    { "bce_with_logits", run_ew },
    { "fused", run_fused },
    { "sum", run_reduce },
    { "mean", run_reduce },
    { "prod", run_reduce },
    { "max", run_reduce },
    { "min", run_reduce },
    { "argmax", run_reduce },
    { "argmin", run_reduce },
    { "any", run_reduce },
    { "all", run_reduce },
    { "clone", run_copy },
    { "cast", run_copy },
    { "cat", run_cat },
    { "as_strided_scatter", run_strided_scatter },
    { "full", run_full },
    { "arange", run_arange },
    { "uniform", run_draw },
    { "normal", run_draw },
    { "bernoulli", run_draw },
    { "randint", run_draw },
    { "exponential", run_draw },
    { "index_select", run_index_select },
    { "index_add", run_index_add },
    { "gather", run_gather },
    { "scatter_add", run_scatter_add },
    { "matmul", run_matmul },
    { "linear", run_linear },
    { "softmax", run_softmax },
    { "log_softmax", run_log_softmax },
    { "softmax_backward", run_softmax_bwd },
    { "log_softmax_backward", run_log_softmax_bwd },
    { "layer_norm", run_layer_norm },
    { "layer_norm_backward", run_layer_norm_bwd },
    { "cross_entropy", run_cross_entropy },
    { "cross_entropy_backward", run_cross_entropy_bwd },
    { "batch_norm", gpu_run_normalise },
    { "group_norm", gpu_run_normalise },
    { "batch_norm_backward", gpu_run_normalise_bwd },
    { "group_norm_backward", gpu_run_normalise_bwd },
    { "csr_matmul", gpu_run_csr_matmul },
    { "csr_sampled", gpu_run_csr_sampled },
    { "conv", gpu_run_conv },
    { "conv_data", gpu_run_conv_data },
    { "conv_weight", gpu_run_conv_weight },
    { "conv_gradients", gpu_run_conv_gradients },
    { "max_pool", gpu_run_pool_max },
    { "max_pool_values", gpu_run_pool_max },
    { "window_put", gpu_run_pool_put },
    { "window_put_taps", gpu_run_pool_put },
    { "window_sum", gpu_run_pool_sum },
    { "window_spread", gpu_run_pool_spread },
    { "assign_", run_assign },
    { "add_", run_add_onto },
    { "write_slice_", run_write_slice },
    { "sgd_update", run_update },
    { "adam_update", run_update },
};

#define SLOTS 512            /* a power of two, several times the rows */
static uint16_t slot[SLOTS]; /* row + 1 */

static unsigned hash(const char *s)
{
    unsigned h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return (h ^ h >> 15) & (SLOTS - 1);
}

static void fill_slots(void)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned k = hash(rows[i].name);
        while (slot[k]) k = (k + 1) & (SLOTS - 1);
        slot[k] = (uint16_t)(i + 1);
    }
}

static const char *(*find(const char *op))(void *, const cj_call *)
{
    for (unsigned k = hash(op); slot[k]; k = (k + 1) & (SLOTS - 1))
        if (strcmp(rows[slot[k] - 1].name, op) == 0) return rows[slot[k] - 1].run;
    return NULL;
}

static const cj_backend backend = {
    .size = sizeof(cj_backend),
    .build_id = CJ_VERSION "/" __DATE__,
    .name = "cuda",
    .open = gpu_open,
    .close = gpu_close,
    .alloc = gpu_alloc,
    .free = gpu_free,
    .to_device = gpu_to_device,
    .to_host = gpu_to_host,
    .copy = gpu_copy_bytes,
    .sync = gpu_sync,
    .find = find,
    .graph_begin = gpu_graph_begin,
    .graph_end = gpu_graph_end,
    .graph_launch = gpu_graph_launch,
    .graph_free = gpu_graph_free,
    .describe = gpu_describe,
    .fault = gpu_fault_text,
    .set_bases = gpu_set_bases,
};

CJ_API const cj_backend *cj_backend_table(void);
const cj_backend *cj_backend_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_slots);
    return &backend;
}
