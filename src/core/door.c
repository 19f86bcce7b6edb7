/* The door: every operator call of the library comes through here.
 *
 * check the inputs -> infer the outputs -> run the kernel (a dry trace leaves that to the plan) -> tell the recorders.  A call costs a header and a block from the free lists; the path
 * for small elementwise calls is what the `overhead` benchmark measures.
 */
#include "core/core.h"

bool cj__out(cj_call *call, int j, cj_dtype dtype, int ndim, const int64_t *shape)
{
    cj_ctx *c = call->ctx;
    int64_t n = cj__numel(c, call->op->name, ndim, shape);
    if (n < 0) return false;
    bool device = call->nin ? call->in[0]->st->device : c->backend != NULL;
    return (call->out[j] = cj__tensor_new(c, dtype, ndim, shape, device)) != NULL;
}

bool cj__out_view(cj_call *call, int j, int64_t offset, int ndim, const int64_t *shape, const int64_t *stride)
{
    return (call->out[j] = cj__tensor_view(call->in[0], offset, ndim, shape, stride)) != NULL;
}

static bool check_inputs(cj_ctx *c, const cj_op *op, cj_tensor *const *in, int nin)
{
    for (int i = 0; i < nin; i++) {
        const cj_tensor *t = in[i];
        if (!cj__usable(c, op->name, i, t)) return false;
        if (t->st->device != in[0]->st->device)
            return cj__error(c, CJ_EDEVICE, "%s: argument 1 is on the %s, argument %d on the %s; move one with cj_to", op->name,
                             in[0]->st->device ? "device" : "host", i + 1, t->st->device ? "device" : "host");
    }
    if (op->nin >= 0 && nin != op->nin) return cj__error(c, CJ_EVALUE, "%s: %d inputs given, %d expected", op->name, nin, op->nin);
    return true;
}

static bool run_device(cj_ctx *c, cj_call *call)
{
    const char *(*kernel)(void *, const cj_call *) = c->backend->find(call->op->name);
    if (!kernel) return cj__error(c, CJ_EDEVICE, "%s: no %s kernel for this operator", call->op->name, c->backend->name);
    const char *fault = kernel(c->device_state, call);
    if (fault) return cj__error(c, CJ_EDEVICE, "%s: %s", call->op->name, fault);
    return true;
}

bool cj__values_at_hand(const cj_call *call, const cj_tensor *x)
{
    if (x->st->device)
        return cj__error(call->ctx, CJ_EDEVICE,
                         "%s: no device kernel for this operator, whose shape depends on values; move the tensor with cj_to",
                         call->op->name);
    if (x->st->dry) return cj__error(call->ctx, CJ_ECAPTURE, "capture: the shape of %s depends on values", call->op->name);
    return true;
}

/* Does forward mode, a recording that does not know it, or a device without such a kernel ask for the definition of this composite instead of its fused kernel? */
static bool wants_definition(cj_ctx *c, const cj_op *op, const void *attrs, cj_tensor *const *in, int nin)
{
    if (!op->run || (nin > 0 && in[0]->st->device && !c->backend->find(op->name))) return true;
    if (c->active & 1u << CJ_REC_GRAPH && !c->recorder[CJ_REC_GRAPH].whole(c, op, attrs)) return true;
    if (c->fwd_limit == 0) return false;
    for (int i = 0; i < nin; i++)
        if (in[i]->tangent) return true;
    return false;
}

bool cj__apply_n(cj_ctx *c, const cj_op *op, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    for (int j = 0; j < op->nout; j++) out[j] = c->poison;
    if (__builtin_expect(c->error != CJ_OK || atomic_load_explicit(&c->cancelled, memory_order_relaxed), 0))
        if (!cj__cancel_check(c)) return false;
    if (!check_inputs(c, op, in, nin)) return false;
    if (op->kind == CJ_COMPOSITE && wants_definition(c, op, attrs, in, nin)) {
        int frame = cj__frame_open(c);
        if (!frame) return false;
        const cj_called was = cj__called(c, op->name, NULL);
        bool ok = op->define(c, attrs, in, nin, out) && c->error == CJ_OK;
        c->called = was;
        cj__frame_close(c, frame, out, op->nout);
        /* the parts were recorded one by one; who watches calls hears of the whole, too */
        if (ok && !op->run && c->active & (1u << CJ_REC_PROFILE | 1u << CJ_REC_GRAPH)) {
            cj_call whole = { c, op, attrs, in, out, nin, op->nout };
            if (c->active & 1u << CJ_REC_PROFILE) ok = c->recorder[CJ_REC_PROFILE].record(c, &whole);
            if (ok && c->active & 1u << CJ_REC_GRAPH) ok = c->recorder[CJ_REC_GRAPH].record(c, &whole);
        }
        if (!ok)
            for (int j = 0; j < op->nout; j++) out[j] = c->poison;
        return ok;
    }
    cj_call call = { c, op, attrs, in, out, nin, op->nout };
    cj_tensor *fresh[CJ_MAX_OUTPUTS] = { 0 };
    call.out = fresh;
    if (!op->infer(&call)) return false;
    bool writes = op->flags & CJ_OP_WRITES; /* recorded before it runs: once something is written nothing may fail any more */
    if (__builtin_expect(writes && c->active & 1u << CJ_REC_CAPTURE, 0) && !c->recorder[CJ_REC_CAPTURE].record(c, &call)) return false;
    if (!(op->flags & CJ_OP_VIEW) && !c->dry) {
        bool device = (nin ? in[0] : fresh[0])->st->device; /* a context with a device works on tensors of the host, too */
        if (c->active & 1u << CJ_REC_PROFILE && !c->recorder[CJ_REC_PROFILE].record(c, NULL)) return false;
        if (device ? !run_device(c, &call) : !op->run(&call)) return false;
    }
    if (op->flags & CJ_OP_WRITES)
        for (int i = 0, n = cj__writes(op, attrs); i < n; i++) {
            in[i]->st->version++;
            in[i]->st->writer = op;
        }
    if (__builtin_expect(c->active, 0))
        for (int r = CJ_REC_PROFILE; r <= CJ_REC_CAPTURE; r++)
            if (c->active & 1u << r && !(writes && r == CJ_REC_CAPTURE) && !c->recorder[r].record(c, &call)) return false;
    if (c->grad_enabled && !(op->flags & CJ_OP_NOGRAD)) {
        for (int i = 0; i < nin; i++)
            if (in[i]->flags & CJ_T_REQUIRES) {
                if (!c->recorder[CJ_REC_TAPE].record(c, &call)) return false;
                break;
            }
    }
    if (__builtin_expect(c->fwd_limit, 0) && !c->recorder[CJ_REC_FORWARD].record(c, &call)) return false;
    for (int j = 0; j < op->nout; j++) out[j] = fresh[j];
    return true;
}

cj_tensor *cj__apply(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin)
{
    cj_ctx *c = NULL;
    for (int i = 0; i < nin && !c; i++)
        if (in[i]) c = in[i]->ctx;
    if (!c) return NULL;
    cj_tensor *out[CJ_MAX_OUTPUTS];
    out[0] = c->poison; /* also of an operator without results */
    cj__apply_n(c, op, attrs, in, nin, out);
    return out[0];
}
