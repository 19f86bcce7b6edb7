/* The writes: assign_, add_, write_slice_.  Each bumps the version of the storage, so that a tape that saved the old value notices. */
#include "ops/ops.h"

static bool writable(cj_call *call)
{
    const cj_tensor *dst = call->in[0];
    if (cj__requires(dst) && !(dst->flags & CJ_T_LEAF))
        return cj__error(call->ctx, CJ_EGRAPH,
                         "%s: the target was computed and its history would be lost; write to a parameter or a detached value",
                         call->op->name);
    if (cj__requires(dst) && call->ctx->grad_enabled)
        return cj__error(call->ctx, CJ_EGRAPH, "%s: the target is a leaf that requires gradients; write to it under cj_no_grad",
                         call->op->name);
    for (int d = 0; d < dst->ndim; d++)
        if (dst->stride[d] == 0 && dst->shape[d] > 1)
            return cj__error(call->ctx, CJ_EVALUE, "%s: the target %s is an expanded view; its elements share memory", call->op->name,
                             cj__tensor_text(dst));
    return true;
}

static bool infer_onto(cj_call *call)
{
    const cj_tensor *dst = call->in[0], *src = call->in[1];
    int n;
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__broadcast(dst->ndim, dst->shape, src->ndim, src->shape, &n, shape) || n != dst->ndim ||
        memcmp(shape, dst->shape, (size_t)n * sizeof *shape) != 0)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: %s does not fit into %s", call->op->name, cj__tensor_text(src), cj__tensor_text(dst));
    return writable(call);
}

/* src's strides over dst's shape. */
static void onto_strides(const cj_tensor *dst, const cj_tensor *src, int64_t *stride)
{
    int lead = dst->ndim - src->ndim;
    for (int d = 0; d < dst->ndim; d++) stride[d] = d < lead || src->shape[d - lead] == 1 ? 0 : src->stride[d - lead];
}

static bool run_assign(cj_call *call)
{
    cj_tensor *dst = call->in[0], *src = call->in[1];
    int64_t stride[CJ_MAX_DIMS];
    onto_strides(dst, src, stride);
    if (dst->numel && !(dst->data == src->data && memcmp(stride, dst->stride, dst->ndim * sizeof *stride) == 0))
        call->ctx->k->copy(call->ctx->pool, dst->ndim, dst->shape, (cj_dtype)src->dtype, src->data, stride, (cj_dtype)dst->dtype, dst->data,
                           dst->stride);
    return true;
}

static bool run_add_onto(cj_call *call)
{
    cj_tensor *dst = call->in[0], *src = call->in[1];
    double scale = *(const double *)call->attrs;
    cj_ew_prog p;
    p.compute = dst->dtype == CJ_F64 ? CJ_F64 : cj_dtype_is_float((cj_dtype)dst->dtype) ? CJ_F32 : CJ_I64;
    p.n_in = 2, p.n_out = 1, p.n_instr = 2, p.n_regs = 3, p.out[0] = 2;
    p.instr[0] = (cj_ew_instr){ .code = CJ_EW_MULS, .dst = 2, .a = 1, .s = scale };
    p.instr[1] = (cj_ew_instr){ .code = CJ_EW_ADD, .dst = 2, .a = 0, .b = 2 };
    cj_ew_arg args[3];
    args[0] = (cj_ew_arg){ .data = dst->data, .dtype = (cj_dtype)dst->dtype };
    memcpy(args[0].stride, dst->stride, sizeof dst->stride);
    args[1] = (cj_ew_arg){ .data = src->data, .dtype = (cj_dtype)src->dtype };
    onto_strides(dst, src, args[1].stride);
    args[2] = args[0];
    int fault = 0;
    if (dst->numel) call->ctx->k->ew_run(call->ctx->pool, &p, args, dst->ndim, dst->shape, &fault);
    return true;
}

static bool infer_write_slice(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    const cj_tensor *dst = call->in[0], *position = call->in[1], *src = call->in[2];
    bool fits = dst->ndim == src->ndim && dst->dtype == src->dtype;
    for (int d = 0; d < dst->ndim && fits; d++) fits = d == axis ? src->shape[d] <= dst->shape[d] : src->shape[d] == dst->shape[d];
    if (!fits)
        return cj__error(call->ctx, CJ_ESHAPE, "write_slice_: %s %s does not fit into %s %s along axis %d", cj__tensor_text(src),
                         cj_dtype_name((cj_dtype)src->dtype), cj__tensor_text(dst), cj_dtype_name((cj_dtype)dst->dtype), axis);
    if (position->numel != 1 || position->dtype != CJ_I64)
        return cj__error(call->ctx, CJ_EVALUE, "write_slice_: the position has shape %s and dtype %s, one i64 expected",
                         cj__tensor_text(position), cj_dtype_name((cj_dtype)position->dtype));
    return writable(call);
}
static bool run_write_slice(cj_call *call)
{
    int axis = *(const int *)call->attrs;
    cj_tensor *dst = call->in[0], *src = call->in[2];
    int64_t at = *(const int64_t *)call->in[1]->data;
    if (at < 0 || at > dst->shape[axis] - src->shape[axis])
        return cj__error(call->ctx, CJ_EINDEX, "write_slice_: position %lld with %lld rows is outside axis %d of %s", (long long)at,
                         (long long)src->shape[axis], axis, cj__tensor_text(dst));
    if (src->numel)
        call->ctx->k->copy(call->ctx->pool, src->ndim, src->shape, (cj_dtype)src->dtype, src->data, src->stride, (cj_dtype)dst->dtype,
                           dst->data + at * dst->stride[axis] * (int64_t)cj_dtype_size((cj_dtype)dst->dtype), dst->stride);
    return true;
}

#define ROW(op_name, n, attr, inf, exec)                                                                                                   \
    {                                                                                                                                      \
        .name = op_name, .family = "write", .kind = CJ_WRITE, .flags = CJ_OP_WRITES | CJ_OP_NOGRAD, .nin = n, .nout = 0,                   \
        .attr_size = attr, .infer = inf, .run = exec                                                                                       \
    }
enum { ASSIGN, ADD, WRITE_SLICE };
const cj_op cj__ops_write[] = {
    [ASSIGN] = ROW("assign_", 2, 0, infer_onto, run_assign),
    [ADD] = ROW("add_", 2, sizeof(double), infer_onto, run_add_onto),
    [WRITE_SLICE] = ROW("write_slice_", 3, sizeof(int), infer_write_slice, run_write_slice),
};
CJ_OP_TABLE(write);

/* The first byte of a view that is not empty, and the one behind its last. */
static void extent(const cj_tensor *t, const char **begin, const char **end)
{
    int64_t low = 0, high = 1;
    for (int d = 0; d < t->ndim; d++) *(t->stride[d] < 0 ? &low : &high) += (t->shape[d] - 1) * t->stride[d];
    *begin = t->data + low * (int64_t)cj_dtype_size((cj_dtype)t->dtype);
    *end = t->data + high * (int64_t)cj_dtype_size((cj_dtype)t->dtype);
}

/* The source, or a copy of it where the write would change what it has still to read: the two lie over each other, and not element on element. */
static cj_tensor *apart(const cj_tensor *dst, cj_tensor *src)
{
    if (!dst || !src || cj_is_poison(dst) || cj_is_poison(src) || dst->st != src->st || !dst->numel || !src->numel) return src;
    if (dst->data == src->data && dst->ndim == src->ndim && memcmp(dst->shape, src->shape, dst->ndim * sizeof dst->shape[0]) == 0 &&
        memcmp(dst->stride, src->stride, dst->ndim * sizeof dst->stride[0]) == 0)
        return src;
    const char *begin[2], *end[2];
    extent(dst, &begin[0], &end[0]);
    extent(src, &begin[1], &end[1]);
    return begin[0] < end[1] && begin[1] < end[0] ? cj_clone(src) : src;
}

static cj_tensor *write(int row, const void *attrs, cj_tensor **in, int n)
{
    cj_ctx *c = NULL;
    for (int i = 0; i < n && !c; i++)
        if (in[i]) c = in[i]->ctx;
    if (!c) return NULL;
    in[n - 1] = apart(in[0], in[n - 1]);
    return cj__apply_n(c, &cj__ops_write[row], attrs, in, n, (cj_tensor *[1]){ 0 }) ? in[0] : c->poison;
}
cj_tensor *cj_assign_(cj_tensor *dst, cj_tensor *src) { return write(ASSIGN, NULL, (cj_tensor *[]){ dst, src }, 2); }
cj_tensor *cj_assign_at_close_(cj_tensor *dst, cj_tensor *src)
{
    cj_ctx *c = dst ? dst->ctx : src ? src->ctx : NULL;
    if (!c || c->error) return c ? c->poison : NULL;
    if (!cj__usable(c, "assign_at_close_", 0, dst) || !cj__usable(c, "assign_at_close_", 1, src)) return c->poison;
    if (!(dst->flags & CJ_T_PERSISTENT))
        return cj_fail(c, CJ_EVALUE, "assign_at_close_: the target goes with its scope; it must be a buffer, a parameter or kept");
    if (src->st->device != dst->st->device)
        return cj_fail(c, CJ_EDEVICE, "assign_at_close_: the value and the target are on different devices");
    /* All checks now: nothing of several writes may fail when some are done. */
    bool was = c->grad_enabled;
    c->grad_enabled = false;
    bool fits = infer_onto(&(cj_call){ .ctx = c, .op = &cj__ops_write[ASSIGN], .in = (cj_tensor *[]){ dst, src }, .nin = 2 });
    c->grad_enabled = was;
    return fits && cj__defer(c, &cj__ops_write[ASSIGN], dst, src) ? dst : c->poison;
}
cj_tensor *cj_add_(cj_tensor *dst, cj_tensor *src, double scale) { return write(ADD, &scale, (cj_tensor *[]){ dst, src }, 2); }
cj_tensor *cj_write_slice_(cj_tensor *dst, int axis, cj_tensor *position, cj_tensor *src)
{
    if (!dst) return write(WRITE_SLICE, &axis, (cj_tensor *[]){ dst, position, src }, 3);
    if (dst->ctx->error || !cj__usable(dst->ctx, "write_slice_", 0, dst)) return dst->ctx->poison;
    axis = cj__axis(dst->ctx, "write_slice_", axis, dst->ndim);
    return axis < 0 ? dst->ctx->poison : write(WRITE_SLICE, &axis, (cj_tensor *[]){ dst, position, src }, 3);
}
