/* Forward mode: tangents carried along, one per open level.
 *
 * Levels nest: the rule that computes the tangent of one level runs with only the levels opened before it active, so a tangent carries tangents of lower levels and
 * perturbations are never confused (d/dx (x · d/dy (x + y)) = 1).  A missing jvp is derived from the vjp: vjp is linear in its gradient u, so
 * jvp(t) = d/du <vjp(u), t>.
 */
#include "grad/grad.h"

cj_tensor *cj__tangent_at(const cj_tensor *t, uint64_t level)
{
    for (cj_tangent *d = t->tangent; d; d = d->next)
        if (d->level == level) return d->value;
    return NULL;
}

bool cj__tangent_set(cj_tensor *t, uint64_t level, cj_tensor *value)
{
    cj_tangent *d = cj__alloc(t->ctx, sizeof *d);
    if (!d) return false;
    cj__tensor_retain(value, true);
    *d = (cj_tangent){ level, value, t->tangent };
    t->tangent = d;
    return true;
}

uint64_t cj__level_open(cj_ctx *c)
{
    if (c->fwd_limit == CJ_MAX_LEVELS) {
        cj__error(c, CJ_EGRAPH, "jvp: more than %d nested forward derivatives", CJ_MAX_LEVELS);
        return 0;
    }
    c->fwd_level[c->fwd_limit++] = ++c->fwd_next;
    return c->fwd_next;
}

void cj__level_close(cj_ctx *c) { c->fwd_limit--; }

/* Diagonal Jacobians: the vjp at the broadcast inputs with the broadcast tangent as gradient; contributions add. */
static bool jvp_elementwise(cj_jvp_args *j, const cj_op *op)
{
    cj_shape s = cj_shape_of(j->out[0]);
    cj_tensor *wide[3], *gin[3];
    for (int i = 0; i < j->nin; i++) wide[i] = cj_expand(j->in[i], s);
    for (int i = 0; i < j->nin; i++) {
        if (!j->tan[i]) continue;
        bool need[3] = { i == 0, i == 1, i == 2 };
        cj_tensor *g = cj_cast(cj_expand(j->tan[i], s), cj_dtype_of(j->out[0]));
        memset(gin, 0, sizeof gin);
        cj_vjp_args v = { j->ctx, j->attrs, wide, j->out, &g, gin, need, j->nin, 1 };
        op->vjp(&v);
        if (!gin[i]) continue;
        cj_tensor *t = cj_cast(gin[i], cj_dtype_of(j->out[0]));
        j->tout[0] = j->tout[0] ? cj_add(j->tout[0], t) : t;
    }
    return j->ctx->error == CJ_OK;
}

static bool jvp_linear(cj_jvp_args *j, const cj_op *op)
{
    cj_ctx *c = j->ctx;
    cj_tensor **t = cj__alloc(c, (size_t)j->nin * sizeof *t);
    if (!t) return false;
    for (int i = 0; i < j->nin; i++) t[i] = j->tan[i] ? j->tan[i] : cj_zeros_like(j->in[i]);
    for (int i = 0; i < j->nin; i++) /* the inputs were prepared for the operator, a tangent may lie otherwise in memory */
        if (op->flags & CJ_OP_VIEW || memcmp(t[i]->stride, j->in[i]->stride, t[i]->ndim * sizeof t[i]->stride[0]) != 0)
            t[i] = cj_contiguous(t[i]);
    bool ok = cj__apply_n(c, op, j->attrs, t, j->nin, j->tout);
    cj__free(c, t, (size_t)j->nin * sizeof *t);
    return ok;
}

/* jvp(t) = d/du <vjp(u), t> */
static bool jvp_derived(cj_jvp_args *j, const cj_op *op)
{
    cj_ctx *c = j->ctx;
    bool was = c->grad_enabled;
    size_t bytes = (size_t)j->nin * (sizeof(cj_tensor *) + sizeof(bool));
    cj_tensor *u[CJ_MAX_OUTPUTS], **gin = cj__zalloc(c, bytes), *sum = NULL, *seed = NULL;
    if (!gin) return false;
    bool *need = (bool *)(gin + j->nin);
    c->grad_enabled = true;
    int64_t from = c->tape_n;
    for (int k = 0; k < j->nout; k++) u[k] = cj_require_grad(cj_zeros_like(j->out[k]));
    for (int i = 0; i < j->nin; i++) need[i] = j->tan[i] != NULL;
    cj_vjp_args v = { c, j->attrs, j->in, j->out, u, gin, need, j->nin, j->nout };
    op->vjp(&v);
    for (int i = 0; i < j->nin && c->error == CJ_OK; i++)
        if (gin[i] && j->tan[i]) {
            cj_tensor *s = cj_sum(cj_mul(gin[i], j->tan[i]), NULL);
            sum = sum ? cj_add(sum, s) : s;
        }
    c->grad_enabled = was;
    bool ok = c->error == CJ_OK;
    if (ok && sum && cj__requires(sum)) {
        seed = cj_ones_like(sum);
        ok = !cj_is_poison(seed) && cj__reverse(c, &sum, &seed, 1, from, u, j->nout, j->tout, was, was);
    }
    if (!was) cj__tape_drop(c, from);
    cj__free(c, gin, bytes);
    return ok;
}

/* The tangents of one level for one call. */
static bool propagate(cj_ctx *c, cj_call *call, uint64_t level)
{
    const cj_op *op = call->op;
    bool any = false;
    for (int i = 0; i < call->nin && !any; i++) any = cj__tangent_at(call->in[i], level) != NULL;
    if (!any || op->flags & CJ_OP_NOGRAD || op->jvp_rule == CJ_JVP_NONE) return true;
    if (!op->vjp) return cj__error(c, CJ_EGRAPH, "jvp: %s has no derivative", op->name);
    int frame = cj__frame_open(c);
    if (!frame) return false;
    cj_tensor **tan = cj__alloc(c, (size_t)call->nin * sizeof *tan), *tout[CJ_MAX_OUTPUTS] = { 0 };
    bool ok = tan != NULL;
    if (ok) {
        for (int i = 0; i < call->nin; i++) tan[i] = cj__tangent_at(call->in[i], level);
        cj_jvp_args j = { c, call->attrs, call->in, call->out, tan, tout, call->nin, call->nout };
        switch (op->jvp_rule) {
        case CJ_JVP_ELEMENTWISE: ok = jvp_elementwise(&j, op); break;
        case CJ_JVP_LINEAR: ok = jvp_linear(&j, op); break;
        case CJ_JVP_OWN: op->jvp(&j); break;
        default: ok = jvp_derived(&j, op); break;
        }
        ok = ok && c->error == CJ_OK;
        for (int k = 0; k < call->nout && ok; k++)
            if (tout[k]) ok = cj__tangent_set(call->out[k], level, tout[k]);
        cj__free(c, tan, (size_t)call->nin * sizeof *tan);
    }
    cj__frame_close(c, frame, NULL, 0);
    return ok;
}

bool cj__forward_record(cj_ctx *c, cj_call *call)
{
    int limit = c->fwd_limit;
    bool ok = true;
    for (int k = 0; k < limit && ok; k++) {
        c->fwd_limit = k;
        ok = propagate(c, call, c->fwd_level[k]);
    }
    c->fwd_limit = limit;
    return ok;
}
