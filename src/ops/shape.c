/* Shape operators.  Most are views: a new header on the same storage.  Copies: clone, cast, cat, and reshape or contiguous where the strides ask for it. */
#include <stdlib.h>

#include "ops/ops.h"
#include "ops/which.h"

/* ---- reshape: a view whenever the strides allow --------------------------------------------------------------------------------------------- */

typedef struct shape_attrs {
    int ndim;
    int64_t dim[CJ_MAX_DIMS];
} shape_attrs;

/* Strides of x under a new shape, or false.  Walks both shapes from the back, matching blocks of equal size. */
static bool view_strides(const cj_tensor *x, int ndim, const int64_t *shape, int64_t *stride)
{
    if (cj__contiguous(x) || x->numel == 0) {
        int64_t s = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            stride[d] = s;
            s *= shape[d] > 1 ? shape[d] : 1;
        }
        return true;
    }
    int from = x->ndim - 1, to = ndim - 1;
    while (to >= 0 || from >= 0) {
        while (from >= 0 && x->shape[from] == 1) from--;
        if (from < 0) {
            for (; to >= 0; to--) stride[to] = 1;
            return true;
        }
        int64_t base = x->stride[from], have = x->shape[from], want = 1;
        /* take whole input axes into one block while they are jointly contiguous */
        while (true) {
            while (to >= 0 && want < have && shape[to] <= have / want && want * shape[to] <= have) {
                stride[to] = base * want;
                want *= shape[to--];
            }
            if (want == have) break;
            int next = from - 1;
            while (next >= 0 && x->shape[next] == 1) next--;
            if (next < 0 || x->stride[next] != base * have) return false;
            from = next;
            have *= x->shape[from];
            if (to < 0) return false;
        }
        from--;
        while (to >= 0 && shape[to] == 1) { /* a size 1 takes any stride */
            stride[to--] = base * have;
        }
    }
    return true;
}

static bool infer_reshape(cj_call *call)
{
    const shape_attrs *a = call->attrs;
    int64_t stride[CJ_MAX_DIMS];
    if (!view_strides(call->in[0], a->ndim, a->dim, stride)) return cj__error(call->ctx, CJ_ESTATE, "reshape: input layout");
    return cj__out_view(call, 0, 0, a->ndim, a->dim, stride);
}
static void d_reshape(cj_vjp_args *v) { v->gin[0] = cj_reshape(v->g[0], cj__shape(v->in[0])); }

/* ---- permute, expand ------------------------------------------------------------------------------------------------------------------------ */

typedef cj_permute_attrs permute_attrs;

static bool infer_permute(cj_call *call)
{
    const permute_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS], stride[CJ_MAX_DIMS];
    for (int d = 0; d < a->ndim; d++) {
        shape[d] = x->shape[a->order[d]];
        stride[d] = x->stride[a->order[d]];
    }
    return cj__out_view(call, 0, 0, a->ndim, shape, stride);
}
static void d_permute(cj_vjp_args *v)
{
    const permute_attrs *a = v->attrs;
    cj_axes inverse = { .n = a->ndim };
    for (int d = 0; d < a->ndim; d++) inverse.axis[a->order[d]] = d;
    v->gin[0] = cj_permute(v->g[0], inverse);
}

static bool infer_expand(cj_call *call)
{
    const shape_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t stride[CJ_MAX_DIMS];
    int lead = a->ndim - x->ndim;
    for (int d = 0; d < a->ndim; d++) stride[d] = d < lead || x->shape[d - lead] != a->dim[d] ? 0 : x->stride[d - lead];
    return cj__out_view(call, 0, 0, a->ndim, a->dim, stride);
}
static void d_expand(cj_vjp_args *v) { v->gin[0] = cj__sum_to(v->g[0], v->in[0]); }

/* ---- slice, select, diagonal, unfold: views at regular places ---------------------------------------------------------------------------------- */

typedef enum pick_kind { SLICE_AXIS, SELECT_AXIS, DIAGONAL_AXES, UNFOLD_AXIS } pick_kind;
typedef cj_pick_attrs pick_attrs;

/* The view of a base with these strides. */
static void pick_view(const pick_attrs *a, int ndim, const int64_t *shape, const int64_t *stride, int *n, int64_t *vshape, int64_t *vstride,
                      int64_t *offset)
{
    *n = 0;
    for (int d = 0; d < ndim; d++) {
        if (d == a->axis && (a->kind == SLICE_AXIS || a->kind == UNFOLD_AXIS)) {
            vshape[*n] = a->len;
            vstride[(*n)++] = stride[d] * a->step;
        } else if (!(d == a->axis || (a->kind == DIAGONAL_AXES && d == a->axis2))) {
            vshape[*n] = shape[d];
            vstride[(*n)++] = stride[d];
        }
    }
    *offset = a->start * stride[a->axis];
    if (a->kind == DIAGONAL_AXES) { /* start counts along axis2 when positive, along axis when negative */
        *offset = a->start >= 0 ? a->start * stride[a->axis2] : -a->start * stride[a->axis];
        vshape[*n] = a->len;
        vstride[(*n)++] = stride[a->axis] + stride[a->axis2];
    } else if (a->kind == UNFOLD_AXIS) {
        *offset = 0;
        vshape[*n] = a->size;
        vstride[(*n)++] = stride[a->axis];
    }
}

static bool infer_pick(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    int n;
    int64_t shape[CJ_MAX_DIMS + 1], stride[CJ_MAX_DIMS + 1], offset;
    if (((const pick_attrs *)call->attrs)->kind == UNFOLD_AXIS && x->ndim == CJ_MAX_DIMS)
        return cj__error(call->ctx, CJ_ESHAPE, "unfold: the result would have more than %d dimensions", CJ_MAX_DIMS);
    pick_view(call->attrs, x->ndim, x->shape, x->stride, &n, shape, stride, &offset);
    return cj__out_view(call, 0, offset, n, shape, stride);
}

static void d_pick(cj_vjp_args *v)
{
    const cj_tensor *x = v->in[0];
    cj_strided_attrs s = { .base_ndim = x->ndim };
    int64_t stride[CJ_MAX_DIMS], k = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        s.base[d] = x->shape[d];
        stride[d] = k;
        k *= x->shape[d];
    }
    pick_view(v->attrs, x->ndim, x->shape, stride, &s.ndim, s.shape, s.stride, &s.offset);
    v->gin[0] = cj__as_strided_scatter(v->g[0], &s);
}

/* ---- as_strided and its transpose: closed under differentiation ---------------------------------------------------------------------------------- */

static bool infer_as_strided(cj_call *call)
{
    const cj_strided_attrs *a = call->attrs;
    return cj__out_view(call, 0, a->offset, a->ndim, a->shape, a->stride);
}
static void d_as_strided(cj_vjp_args *v) { v->gin[0] = cj__as_strided_scatter(v->g[0], v->attrs); }

static bool infer_scatter(cj_call *call)
{
    const cj_strided_attrs *a = call->attrs;
    return cj__out(call, 0, (cj_dtype)call->in[0]->dtype, a->base_ndim, a->base);
}

/* Do two elements of the view share a place?  Sorted by stride, each stride must step over everything before it. */
static bool overlaps(const cj_strided_attrs *a)
{
    int64_t reach = 0;
    bool used[CJ_MAX_DIMS] = { 0 };
    for (int i = 0; i < a->ndim; i++) {
        int best = -1;
        for (int d = 0; d < a->ndim; d++)
            if (!used[d] && (best < 0 || llabs(a->stride[d]) < llabs(a->stride[best]))) best = d;
        if (best < 0) break;
        used[best] = true;
        if (a->shape[best] == 1) continue;
        if (llabs(a->stride[best]) <= reach) return true;
        reach += llabs(a->stride[best]) * (a->shape[best] - 1);
    }
    return false;
}

/* Rows of bytes, of which those from `from` to `to` will be written. */
typedef struct gaps {
    char *data;
    int64_t row, from, to;
} gaps;

static void clear_gaps(void *arg, int64_t begin, int64_t end, int worker)
{
    const gaps *x = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        memset(x->data + i * x->row, 0, (size_t)x->from);
        memset(x->data + i * x->row + x->to, 0, (size_t)(x->row - x->to));
    }
}

/* Is the view a run of neighbours in every row of y, as a slice of the last axis is?  Then what lies around the runs, in rows of elements. */
static bool runs_in_rows(const cj_strided_attrs *a, int64_t numel, gaps *x)
{
    int64_t run = 1, rows = 1;
    int d = a->ndim - 1;
    for (; d >= 0 && a->stride[d] == run; d--) run *= a->shape[d];
    if (d < 0 || a->stride[d] < run) return false;
    const int64_t row = a->stride[d];
    for (; d >= 0 && a->stride[d] == row * rows; d--) rows *= a->shape[d];
    *x = (gaps){ .row = row, .from = a->offset, .to = a->offset + run };
    return d < 0 && row * rows == numel && x->to <= row;
}

/* Zeros where the view will not write; everywhere, if it may write anywhere or adds. */
static void clear_around(cj_ctx *c, const cj_strided_attrs *a, cj_tensor *y, bool adds)
{
    enum { CHUNK = 1 << 16 }; /* bytes of a task */
    const int64_t size = (int64_t)cj_dtype_size((cj_dtype)y->dtype), bytes = y->numel * size;
    gaps x;
    if (!adds && runs_in_rows(a, y->numel, &x)) {
        x = (gaps){ y->data, x.row * size, x.from * size, x.to * size };
        cj__parallel_for(c->pool, bytes / x.row, x.row < CHUNK ? CHUNK / x.row : 1, clear_gaps, &x);
        return;
    }
    const int64_t whole = bytes / CHUNK * CHUNK;
    x = (gaps){ y->data, CHUNK, CHUNK, CHUNK };
    cj__parallel_for(c->pool, whole / CHUNK, 1, clear_gaps, &x);
    memset(y->data + whole, 0, (size_t)(bytes - whole));
}

static bool run_scatter(cj_call *call)
{
    const cj_strided_attrs *a = call->attrs;
    cj_ctx *c = call->ctx;
    cj_tensor *g = call->in[0], *y = call->out[0];
    size_t size = cj_dtype_size((cj_dtype)y->dtype);
    clear_around(c, a, y, overlaps(a) || !g->numel);
    if (!g->numel) return true;
    char *at = y->data + a->offset * (int64_t)size;
    if (!overlaps(a)) {
        c->k->copy(c->pool, a->ndim, a->shape, (cj_dtype)g->dtype, g->data, g->stride, (cj_dtype)y->dtype, at, a->stride);
        return true;
    }
    /* Overlapping windows are added one window position after the other; within one position (fixed last axis) nothing overlaps. */
    cj_ew_prog p = { .compute = y->dtype == CJ_F64                      ? CJ_F64
                                : cj_dtype_is_float((cj_dtype)y->dtype) ? CJ_F32
                                                                        : CJ_I64,
                     .n_in = 2,
                     .n_out = 1,
                     .n_instr = 1,
                     .n_regs = 3,
                     .out = { 2 },
                     .instr = { { .code = CJ_EW_ADD, .dst = 2, .b = 1 } } };
    int last = a->ndim - 1, fault = 0;
    for (int64_t i = 0; i < a->shape[last]; i++) {
        cj_ew_arg args[3] = { { .data = at + i * a->stride[last] * (int64_t)size, .dtype = (cj_dtype)y->dtype },
                              { .data = g->data + i * g->stride[last] * (int64_t)size, .dtype = (cj_dtype)g->dtype } };
        memcpy(args[0].stride, a->stride, sizeof args[0].stride);
        memcpy(args[1].stride, g->stride, sizeof args[1].stride);
        args[2] = args[0];
        c->k->ew_run(c->pool, &p, args, last, a->shape, &fault);
    }
    return true;
}
static void d_scatter(cj_vjp_args *v) { v->gin[0] = cj__as_strided(cj_contiguous(v->g[0]), v->attrs); }

/* ---- clone, cast, cat ------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_clone(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static bool infer_cast(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return cj__out(call, 0, *(const cj_dtype *)call->attrs, x->ndim, x->shape);
}
static bool run_copy(cj_call *call)
{
    cj_tensor *x = call->in[0], *y = call->out[0];
    if (x->numel)
        call->ctx->k->copy(call->ctx->pool, x->ndim, x->shape, (cj_dtype)x->dtype, x->data, x->stride, (cj_dtype)y->dtype, y->data,
                           y->stride);
    return true;
}
/* The gradient of a channels-last image lies as the image does: what comes before it would otherwise mix both layouts all the way back. */
static void d_clone(cj_vjp_args *v)
{
    const cj_tensor *x = v->in[0];
    const bool image = x->ndim >= 3 && x->ndim <= 5 && !cj__contiguous(x) && cj__channels_last(x);
    v->gin[0] = image ? cj_channels_last(v->g[0]) : v->g[0];
}
static void d_cast(cj_vjp_args *v)
{
    if (cj_dtype_is_float((cj_dtype)v->in[0]->dtype)) v->gin[0] = cj_cast(v->g[0], (cj_dtype)v->in[0]->dtype);
}

static bool infer_cat(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *first = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, first->shape, sizeof shape);
    shape[axis] = 0;
    for (int i = 0; i < call->nin; i++) {
        const cj_tensor *x = call->in[i];
        bool fits = x->ndim == first->ndim;
        for (int d = 0; d < x->ndim && fits; d++) fits = d == axis || x->shape[d] == first->shape[d];
        if (!fits)
            return cj__error(call->ctx, CJ_ESHAPE, "cat: %s does not fit %s along axis %d", cj__tensor_text(x), cj__tensor_text(first),
                             axis);
        if (__builtin_add_overflow(shape[axis], x->shape[axis], &shape[axis]))
            return cj__error(call->ctx, CJ_ESHAPE, "cat: the size of axis %d overflows", axis);
    }
    return cj__out(call, 0, cj__promote_n(call->in, call->nin), first->ndim, shape);
}
static bool run_cat(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    cj_tensor *y = call->out[0];
    int64_t at = 0;
    for (int i = 0; i < call->nin; i++) {
        cj_tensor *x = call->in[i];
        char *to = y->data + at * y->stride[axis] * (int64_t)cj_dtype_size((cj_dtype)y->dtype);
        if (x->numel && x->data != to) /* a plan may have made it there */
            call->ctx->k->copy(call->ctx->pool, x->ndim, x->shape, (cj_dtype)x->dtype, x->data, x->stride, (cj_dtype)y->dtype, to,
                               y->stride);
        at += x->shape[axis];
    }
    return true;
}
static void d_cat(cj_vjp_args *v)
{
    int axis = *(const int *)v->attrs;
    int64_t at = 0;
    for (int i = 0; i < v->nin; i++) {
        int64_t n = v->in[i]->shape[axis];
        if (v->need[i]) v->gin[i] = cj__sum_to(cj_slice(v->g[0], axis, at, at + n, 1), v->in[i]);
        at += n;
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------ */

#define VIEW(op_name, attr, inf, rule)                                                                                                     \
    {                                                                                                                                      \
        .name = op_name, .family = "shape", .kind = CJ_PRIMITIVE, .flags = CJ_OP_VIEW, .nin = 1, .nout = 1, .attr_size = sizeof(attr),     \
        .infer = inf, .vjp = rule, .jvp_rule = CJ_JVP_LINEAR                                                                               \
    }
enum { RESHAPE, PERMUTE, EXPAND, SLICE, SELECT, DIAGONAL, UNFOLD, AS_STRIDED, SCATTER, CLONE, CAST, CAT };
const cj_op cj__ops_shape[] = {
    [RESHAPE] = VIEW("reshape", shape_attrs, infer_reshape, d_reshape),
    [PERMUTE] = VIEW("permute", permute_attrs, infer_permute, d_permute),
    [EXPAND] = VIEW("expand", shape_attrs, infer_expand, d_expand),
    [SLICE] = VIEW("slice", pick_attrs, infer_pick, d_pick),
    [SELECT] = VIEW("select", pick_attrs, infer_pick, d_pick),
    [DIAGONAL] = VIEW("diagonal", pick_attrs, infer_pick, d_pick),
    [UNFOLD] = VIEW("unfold", pick_attrs, infer_pick, d_pick),
    [AS_STRIDED] = VIEW("as_strided", cj_strided_attrs, infer_as_strided, d_as_strided),
    [SCATTER] = { .name = "as_strided_scatter",
                  .family = "shape",
                  .kind = CJ_PRIMITIVE,
                  .nin = 1,
                  .nout = 1,
                  .attr_size = sizeof(cj_strided_attrs),
                  .infer = infer_scatter,
                  .run = run_scatter,
                  .vjp = d_scatter,
                  .jvp_rule = CJ_JVP_LINEAR },
    [CLONE] = { .name = "clone",
                .family = "shape",
                .kind = CJ_PRIMITIVE,
                .nin = 1,
                .nout = 1,
                .infer = infer_clone,
                .run = run_copy,
                .vjp = d_clone,
                .jvp_rule = CJ_JVP_LINEAR },
    [CAST] = { .name = "cast",
               .family = "shape",
               .kind = CJ_PRIMITIVE,
               .nin = 1,
               .nout = 1,
               .attr_size = sizeof(cj_dtype),
               .infer = infer_cast,
               .run = run_copy,
               .vjp = d_cast,
               .jvp_rule = CJ_JVP_LINEAR },
    [CAT] = { .name = "cat",
              .family = "shape",
              .kind = CJ_PRIMITIVE,
              .nin = -1,
              .nout = 1,
              .attr_size = sizeof(int),
              .infer = infer_cat,
              .run = run_cat,
              .vjp = d_cat,
              .jvp_rule = CJ_JVP_LINEAR },
};
CJ_OP_TABLE(shape);

bool cj__op_is_cast(const cj_op *op) { return op == &cj__ops_shape[CAST]; }
bool cj__op_is_cat(const cj_op *op, const void *attrs, int *axis)
{
    if (op != &cj__ops_shape[CAT]) return false;
    *axis = *(const int *)attrs;
    return true;
}

static bool good(cj_tensor *x, const char *op) { return x->ctx->error == CJ_OK && cj__usable(x->ctx, op, 0, x); }

cj_tensor *cj__as_strided(cj_tensor *x, const cj_strided_attrs *a) { return cj__apply(&cj__ops_shape[AS_STRIDED], a, &x, 1); }
cj_tensor *cj__as_strided_scatter(cj_tensor *g, const cj_strided_attrs *a) { return cj__apply(&cj__ops_shape[SCATTER], a, &g, 1); }

cj_tensor *cj_clone(cj_tensor *x) { return cj__apply(&cj__ops_shape[CLONE], NULL, &x, 1); }

cj_tensor *cj_contiguous(cj_tensor *x)
{
    if (!x) return NULL;
    if (!good(x, "contiguous")) return x->ctx->poison;
    return cj__contiguous(x) ? x : cj_clone(x);
}

cj_tensor *cj__image(cj_tensor *x) { return x && good(x, "contiguous") && cj__is_image(x) ? x : cj_contiguous(x); }

cj_tensor *cj_channels_last(cj_tensor *x)
{
    if (!x) return NULL;
    if (!good(x, "channels_last")) return x->ctx->poison;
    if (x->ndim < 3 || x->ndim > 5)
        return cj_fail(x->ctx, CJ_ESHAPE, "channels_last: the input %s; [N, C, ..] with 1 to 3 spatial axes expected", cj__tensor_text(x));
    cj_axes last = { .n = x->ndim }, back = { .n = x->ndim }; /* N, .., C and its inverse */
    for (int d = 1; d < x->ndim; d++) {
        last.axis[d] = d + 1 < x->ndim ? d + 1 : 1;
        back.axis[d] = d > 1 ? d - 1 : x->ndim - 1;
    }
    return cj_permute(cj_contiguous(cj_permute(x, last)), back);
}

cj_tensor *cj_cast(cj_tensor *x, cj_dtype dtype)
{
    if (!x) return NULL;
    if ((unsigned)dtype >= CJ_DTYPES) return cj_fail(x->ctx, CJ_EDTYPE, "cast: unknown dtype %d", (int)dtype);
    dtype = cj__dtype_or_default(dtype);
    if (good(x, "cast") && x->dtype == dtype) return x;
    return cj__apply(&cj__ops_shape[CAST], &dtype, &x, 1);
}

cj_tensor *cj_reshape(cj_tensor *x, cj_shape shape)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "reshape")) return c->poison;
    shape_attrs a;
    memset(&a, 0, sizeof a);
    a.ndim = shape.ndim;
    if (shape.ndim < 0 || shape.ndim > CJ_MAX_DIMS)
        return cj_fail(c, CJ_ESHAPE, "reshape: %d dimensions, at most %d are possible", shape.ndim, CJ_MAX_DIMS);
    int open = -1;
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) {
        a.dim[d] = shape.dim[d];
        if (shape.dim[d] == -1 && open < 0) open = d;
        else if (shape.dim[d] < 0) return cj_fail(c, CJ_ESHAPE, "reshape: bad size in %s", cj__shape_text(shape.ndim, shape.dim));
        else if (__builtin_mul_overflow(n, shape.dim[d], &n))
            return cj_fail(c, CJ_ESHAPE, "reshape: %s overflows", cj__shape_text(shape.ndim, shape.dim));
    }
    if (open >= 0) {
        if (n == 0 || x->numel % n) n = -1;
        else {
            a.dim[open] = x->numel / n;
            n = x->numel;
        }
    }
    if (n != x->numel)
        return cj_fail(c, CJ_ESHAPE, "reshape: %s does not have the elements of %s", cj__tensor_text(x),
                       cj__shape_text(shape.ndim, shape.dim));
    int64_t stride[CJ_MAX_DIMS];
    if (!view_strides(x, a.ndim, a.dim, stride)) x = cj_clone(x);
    return cj__apply(&cj__ops_shape[RESHAPE], &a, &x, 1);
}

cj_tensor *cj_flatten(cj_tensor *x, int first_axis)
{
    if (!x) return NULL;
    if (!good(x, "flatten")) return x->ctx->poison;
    if (x->ndim == 0) return cj_reshape(x, CJ_SHAPE(1));
    int f = cj__axis(x->ctx, "flatten", first_axis, x->ndim);
    if (f < 0) return x->ctx->poison;
    cj_shape s = { .ndim = f + 1 };
    s.dim[f] = 1;
    for (int d = 0; d < x->ndim; d++)
        if (d < f) s.dim[d] = x->shape[d];
        else s.dim[f] *= x->shape[d];
    return cj_reshape(x, s);
}

cj_tensor *cj_permute(cj_tensor *x, cj_axes order)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "permute")) return c->poison;
    if (order.n != x->ndim) return cj_fail(c, CJ_ESHAPE, "permute: %d axes given for %s", order.n, cj__tensor_text(x));
    permute_attrs a;
    memset(&a, 0, sizeof a);
    a.ndim = order.n;
    bool seen[CJ_MAX_DIMS] = { 0 };
    for (int d = 0; d < order.n; d++) {
        int k = cj__axis(c, "permute", order.axis[d], x->ndim);
        if (k < 0) return c->poison;
        if (seen[k]) return cj_fail(c, CJ_EVALUE, "permute: axis %d is given twice", k);
        seen[k] = true;
        a.order[d] = k;
    }
    return cj__apply(&cj__ops_shape[PERMUTE], &a, &x, 1);
}

cj_tensor *cj_transpose(cj_tensor *x, int a, int b)
{
    if (!x) return NULL;
    if (!good(x, "transpose")) return x->ctx->poison;
    a = cj__axis(x->ctx, "transpose", a, x->ndim);
    b = cj__axis(x->ctx, "transpose", b, x->ndim);
    if (a < 0 || b < 0) return x->ctx->poison;
    cj_axes order = { .n = x->ndim };
    for (int d = 0; d < x->ndim; d++) order.axis[d] = d == a ? b : d == b ? a : d;
    return cj_permute(x, order);
}

cj_tensor *cj_t(cj_tensor *x) { return cj_transpose(x, -1, -2); }

cj_tensor *cj_expand(cj_tensor *x, cj_shape shape)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "expand")) return c->poison;
    shape_attrs a;
    memset(&a, 0, sizeof a);
    a.ndim = shape.ndim;
    int lead = shape.ndim - x->ndim;
    bool fits = lead >= 0 && shape.ndim <= CJ_MAX_DIMS, same = lead == 0;
    for (int d = 0; d < shape.ndim && fits; d++) {
        int64_t have = d < lead ? 1 : x->shape[d - lead];
        a.dim[d] = shape.dim[d] == -1 && d >= lead ? have : shape.dim[d];
        fits = a.dim[d] >= 0 && (have == a.dim[d] || have == 1);
        same &= have == a.dim[d];
    }
    if (!fits) return cj_fail(c, CJ_ESHAPE, "expand: %s does not expand to %s", cj__tensor_text(x), cj__shape_text(shape.ndim, shape.dim));
    if (cj__numel(c, "expand", a.ndim, a.dim) < 0) return c->poison;
    return same ? x : cj__apply(&cj__ops_shape[EXPAND], &a, &x, 1);
}

cj_tensor *cj_squeeze(cj_tensor *x, int axis)
{
    if (!x) return NULL;
    if (!good(x, "squeeze")) return x->ctx->poison;
    int k = cj__axis(x->ctx, "squeeze", axis, x->ndim);
    if (k < 0) return x->ctx->poison;
    if (x->shape[k] != 1) return cj_fail(x->ctx, CJ_ESHAPE, "squeeze: axis %d of %s has not size 1", k, cj__tensor_text(x));
    cj_shape s = { 0 };
    for (int d = 0; d < x->ndim; d++)
        if (d != k) s.dim[s.ndim++] = x->shape[d];
    return cj_reshape(x, s);
}

cj_tensor *cj_unsqueeze(cj_tensor *x, int axis)
{
    if (!x) return NULL;
    if (!good(x, "unsqueeze")) return x->ctx->poison;
    int k = cj__axis(x->ctx, "unsqueeze", axis, x->ndim + 1);
    if (k < 0) return x->ctx->poison;
    if (x->ndim == CJ_MAX_DIMS)
        return cj_fail(x->ctx, CJ_ESHAPE, "unsqueeze: %s has %d dimensions already", cj__tensor_text(x), CJ_MAX_DIMS);
    cj_shape s = { 0 };
    for (int d = 0; d <= x->ndim; d++) s.dim[s.ndim++] = d == k ? 1 : x->shape[d < k ? d : d - 1];
    return cj_reshape(x, s);
}

static pick_attrs pick(int kind, int axis)
{
    pick_attrs a;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.kind = kind;
    a.axis = axis;
    return a;
}

cj_tensor *cj_slice(cj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "slice")) return c->poison;
    int k = cj__axis(c, "slice", axis, x->ndim);
    if (k < 0) return c->poison;
    if (step == 0) return cj_fail(c, CJ_EVALUE, "slice: the step is 0");
    int64_t n = x->shape[k];
    pick_attrs a = pick(SLICE_AXIS, k);
    a.step = step;
    if (start < 0) start += n;
    if (step > 0) {
        if (stop < 0) stop += n;
        start = start < 0 ? 0 : start > n ? n : start;
        stop = stop < 0 ? 0 : stop > n ? n : stop;
        a.len = stop > start ? (stop - start - 1) / step + 1 : 0;
    } else { /* backwards, down to stop exclusive; CJ_END: to the first element */
        stop = stop == CJ_END ? -1 : stop < 0 ? stop + n : stop;
        start = start < 0 ? -1 : start >= n ? n - 1 : start;
        stop = stop < -1 ? -1 : stop;
        a.len = start > stop ? (start - stop - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1 : 0;
    }
    if (a.len <= 1) a.step = step > 0 ? 1 : -1; /* not used, and it may be too large to multiply */
    a.start = a.len ? start : 0;
    return cj__apply(&cj__ops_shape[SLICE], &a, &x, 1);
}

cj_tensor *cj_select(cj_tensor *x, int axis, int64_t index)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "select")) return c->poison;
    int k = cj__axis(c, "select", axis, x->ndim);
    if (k < 0) return c->poison;
    int64_t i = index < 0 ? index + x->shape[k] : index;
    if (i < 0 || i >= x->shape[k])
        return cj_fail(c, CJ_EINDEX, "select: index %lld is out of range for axis %d of %s", (long long)index, k, cj__tensor_text(x));
    pick_attrs a = pick(SELECT_AXIS, k);
    a.start = i;
    return cj__apply(&cj__ops_shape[SELECT], &a, &x, 1);
}

cj_tensor *cj_diagonal(cj_tensor *x, int64_t offset, int axis1, int axis2)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "diagonal")) return c->poison;
    pick_attrs a = pick(DIAGONAL_AXES, cj__axis(c, "diagonal", axis1, x->ndim));
    a.axis2 = cj__axis(c, "diagonal", axis2, x->ndim);
    if (a.axis < 0 || a.axis2 < 0) return c->poison;
    if (a.axis == a.axis2) return cj_fail(c, CJ_EVALUE, "diagonal: both axes are %d", a.axis);
    int64_t rows = x->shape[a.axis], cols = x->shape[a.axis2];
    a.len = offset >= 0 ? (rows < cols - offset ? rows : cols - offset) : (rows + offset < cols ? rows + offset : cols);
    if (a.len < 0) a.len = 0;
    a.start = a.len ? offset : 0;
    return cj__apply(&cj__ops_shape[DIAGONAL], &a, &x, 1);
}

cj_tensor *cj_unfold(cj_tensor *x, int axis, int64_t size, int64_t step)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "unfold")) return c->poison;
    int k = cj__axis(c, "unfold", axis, x->ndim);
    if (k < 0) return c->poison;
    if (size < 1 || step < 1 || size > x->shape[k])
        return cj_fail(c, CJ_EVALUE, "unfold: windows of %lld every %lld do not fit axis %d of %s", (long long)size, (long long)step, k,
                       cj__tensor_text(x));
    pick_attrs a = pick(UNFOLD_AXIS, k);
    a.size = size;
    a.step = step;
    a.len = (x->shape[k] - size) / step + 1;
    return cj__apply(&cj__ops_shape[UNFOLD], &a, &x, 1);
}

cj_tensor *cj_cat(cj_tensor *const *x, int n, int axis)
{
    cj_ctx *c = NULL;
    for (int i = 0; i < n && x && !c; i++)
        if (x[i]) c = x[i]->ctx;
    if (!c) return NULL;
    if (n > CJ_MAX_INPUTS) return cj_fail(c, CJ_EVALUE, "cat: %d tensors, at most %d are possible", n, CJ_MAX_INPUTS);
    for (int i = 0; i < n; i++)
        if (c->error || !cj__usable(c, "cat", i, x[i])) return c->poison;
    axis = cj__axis(c, "cat", axis, x[0]->ndim);
    return axis < 0 ? c->poison : cj__apply(&cj__ops_shape[CAT], &axis, x, n);
}

cj_tensor *cj_stack(cj_tensor *const *x, int n, int axis)
{
    cj_ctx *c = NULL;
    for (int i = 0; i < n && x && !c; i++)
        if (x[i]) c = x[i]->ctx;
    if (!c) return NULL;
    for (int i = 0; i < n; i++)
        if (c->error || !cj__usable(c, "stack", i, x[i])) return c->poison;
    if (n > CJ_MAX_INPUTS) return cj_fail(c, CJ_EVALUE, "stack: %d tensors, at most %d are possible", n, CJ_MAX_INPUTS);
    for (int i = 1; i < n; i++)
        if (x[i]->ndim != x[0]->ndim || memcmp(x[i]->shape, x[0]->shape, x[0]->ndim * sizeof x[0]->shape[0]) != 0)
            return cj_fail(c, CJ_ESHAPE, "stack: argument %d is %s, %s expected as the first", i + 1, cj__tensor_text(x[i]),
                           cj__tensor_text(x[0]));
    cj_tensor *row[CJ_MAX_INPUTS];
    const cj_called was = cj__called(c, "stack", NULL);
    for (int i = 0; i < n; i++) row[i] = cj_unsqueeze(x[i], axis);
    return cj__called_done(c, was, cj_cat(row, n, axis < 0 && !cj_is_poison(row[0]) ? axis + row[0]->ndim : axis));
}

cj_tensor *cj_to(cj_tensor *x, const char *device)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, "to")) return c->poison;
    bool host = !device || strcmp(device, "cpu") == 0;
    if (host == !x->st->device) return x;
    if (!c->backend) return cj_fail(c, CJ_EDEVICE, "to: this context has no device; make it with .device = \"%s\"", device);
    if (c->trace) return cj_fail(c, CJ_ECAPTURE, "to: a copy between host and device inside a captured step");
    x = cj_contiguous(x);
    if (cj_is_poison(x)) return x;
    cj_tensor *y = cj__tensor_new(c, (cj_dtype)x->dtype, x->ndim, x->shape, !host);
    if (!y) return c->poison;
    size_t bytes = (size_t)x->numel * cj_dtype_size((cj_dtype)x->dtype);
    c->memory.host_copies++;
    bool ok = host ? c->backend->to_host(c->device_state, y->data, x->data, bytes)
                   : c->backend->to_device(c->device_state, y->data, x->data, bytes);
    if (!ok) return cj__backend_error(c, "to"), c->poison;
    return y;
}

/* Keeps where row - column + diagonal >= 0 (tril) or <= 0 (triu). */
static cj_tensor *triangle(cj_tensor *x, int64_t diagonal, bool lower)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (!good(x, lower ? "tril" : "triu")) return c->poison;
    if (x->ndim < 2) return cj_fail(c, CJ_ESHAPE, "%s: needs a matrix, got %s", lower ? "tril" : "triu", cj__tensor_text(x));
    int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
    cj_tensor *i = cj_reshape(cj_arange(c, 0, (double)rows, 1, CJ_I64), CJ_SHAPE(rows, 1)), *j = cj_arange(c, 0, (double)cols, 1, CJ_I64);
    cj_tensor *d = cj_sub(cj_add_scalar(i, (double)diagonal), j);
    return cj_where(lower ? cj_ge_scalar(d, 0) : cj_le_scalar(d, 0), x, cj_full(c, 0, CJ_SCALAR, (cj_dtype)x->dtype));
}
cj_tensor *cj_tril(cj_tensor *x, int64_t diagonal) { return triangle(x, diagonal, true); }
cj_tensor *cj_triu(cj_tensor *x, int64_t diagonal) { return triangle(x, diagonal, false); }
