/* The watch: a recorder that stops at the first operator which makes NaN or infinity out of finite numbers.
 *
 * For finding out where a loss went wrong, not for speed: every result is read once more.  Operators that only move or choose values are passed over, since masks
 * are made of infinities.  Results on a device are not looked at.
 */
#include <math.h>

#include "core/core.h"

static double element(const cj_tensor *t, const char *at)
{
    switch (t->dtype) {
    case CJ_F64: return *(const double *)at;
    case CJ_F32: return *(const float *)at;
    case CJ_BF16: return cj__bf16_to_f32(*(const uint16_t *)at);
    default: return cj__f16_to_f32(*(const uint16_t *)at);
    }
}

/* The first value that is not finite; 0 where there is none. */
static double first_nonfinite(const cj_tensor *t)
{
    bool floating = t->dtype == CJ_F32 || t->dtype == CJ_F64 || t->dtype == CJ_BF16 || t->dtype == CJ_F16;
    if (!floating || !t->st || t->st->device) return 0;
    int64_t at[CJ_MAX_DIMS] = { 0 }, size = (int64_t)cj_dtype_size((cj_dtype)t->dtype);
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t offset = 0;
        for (int d = 0; d < t->ndim; d++) offset += at[d] * t->stride[d];
        double v = element(t, t->data + offset * size);
        if (!isfinite(v)) return v;
        for (int d = t->ndim - 1; d >= 0 && ++at[d] == t->shape[d]; d--) at[d] = 0;
    }
    return 0;
}

static bool only_moves(const cj_op *op)
{
    static const char *const name[] = { "where", "masked_fill", "cast", "copy", "clone", "index_select", "gather", "cat", "pad" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (strcmp(op->name, name[i]) == 0) return true;
    return (op->flags & (CJ_OP_VIEW | CJ_OP_WRITES)) != 0;
}

static bool record(cj_ctx *c, cj_call *call)
{
    if (call->nin == 0 || only_moves(call->op)) return true;
    for (int j = 0; j < call->nout; j++) {
        double v = first_nonfinite(call->out[j]);
        if (v == 0) continue;
        for (int i = 0; i < call->nin; i++)
            if (first_nonfinite(call->in[i]) != 0) return true; /* it came from elsewhere */
        return cj__error(c, CJ_EVALUE, "%s: the result %s has %s, though all its inputs are finite", call->op->name,
                         cj__tensor_text(call->out[j]), isnan(v) ? "a NaN" : "an infinity");
    }
    return true;
}

bool cj_watch_nonfinite(cj_ctx *c, bool on)
{
    if (!c) return false;
    bool was = c->active & 1u << CJ_REC_WATCH;
    c->recorder[CJ_REC_WATCH].record = record;
    if (on) c->active |= 1u << CJ_REC_WATCH;
    else c->active &= (uint8_t) ~(1u << CJ_REC_WATCH);
    return was;
}
