/* Custom operators: the user's kernel behind the library's door.  A call carries a counted box with the definition and a copy of its payload, so tape and plans can
 * outlive the call; the payload's destructor runs when the last of them lets go. */
#include "grad/grad.h"

typedef struct custom_box {
    int refs;
    size_t size;
    cj_custom_op def;
    _Alignas(16) char payload[];
} custom_box;

typedef struct custom_attrs {
    custom_box *box;
} custom_attrs;

static custom_box *box_of(const void *attrs) { return ((const custom_attrs *)attrs)->box; }

static void box_retain(const void *attrs) { box_of(attrs)->refs++; }
static void box_release(cj_ctx *c, const void *attrs)
{
    custom_box *b = box_of(attrs);
    if (--b->refs) return;
    if (b->def.destroy) b->def.destroy(b->payload);
    cj__free(c, b, b->size);
}
static bool box_equal(const void *x, const void *y)
{
    const custom_box *a = box_of(x), *b = box_of(y);
    return a->def.run == b->def.run && a->def.vjp == b->def.vjp && a->def.payload_size == b->def.payload_size &&
           memcmp(a->payload, b->payload, a->def.payload_size) == 0;
}

static bool infer_custom(cj_call *call)
{
    custom_box *b = box_of(call->attrs);
    cj_shape s = { 0 };
    cj_dtype t = CJ_DEFAULT_DTYPE;
    if (!b->def.infer(call->ctx, b->payload, call->in, &s, &t)) {
        if (!call->ctx->error) cj__error(call->ctx, CJ_EVALUE, "%s: its shape rule failed", b->def.name);
        return false;
    }
    return !call->ctx->error && cj__out(call, 0, cj__dtype_or_default(t), s.ndim, s.dim);
}

static bool run_custom(cj_call *call)
{
    custom_box *b = box_of(call->attrs);
    const void *in[16];
    for (int i = 0; i < call->nin; i++) in[i] = call->in[i]->data;
    if (b->def.run(call->ctx, b->payload, in, call->in, call->out[0]->data)) return true;
    if (!call->ctx->error) cj__error(call->ctx, CJ_EVALUE, "%s: its kernel failed", b->def.name);
    return false;
}

static void d_custom(cj_vjp_args *v)
{
    custom_box *b = box_of(v->attrs);
    if (!b->def.vjp) {
        cj__error(v->ctx, CJ_EGRAPH, "backward: %s has no derivative", b->def.name);
        return;
    }
    b->def.vjp(v->ctx, b->payload, v->in, v->out[0], v->g[0], v->gin);
    for (int i = 0; i < v->nin && !v->ctx->error; i++) {
        const cj_tensor *x = v->in[i], *g = v->gin[i];
        if (!cj_is_poison(g) && (g->ndim != x->ndim || memcmp(g->shape, x->shape, x->ndim * sizeof x->shape[0]) != 0))
            cj__error(v->ctx, CJ_ESHAPE, "backward of %s: the gradient of argument %d has shape %s, the argument %s", b->def.name, i + 1,
                      cj__tensor_text(g), cj__tensor_text(x));
    }
}

#define ROW(extra)                                                                                                                         \
    {                                                                                                                                      \
        .name = "custom", .family = "custom", .kind = CJ_PRIMITIVE, .flags = extra, .nin = -1, .nout = 1,                                  \
        .attr_size = sizeof(custom_attrs), .save_in = ~0u, .save_out = 1, .infer = infer_custom, .run = run_custom, .vjp = d_custom,       \
        .jvp_rule = CJ_JVP_DERIVED, .attrs_retain = box_retain, .attrs_release = box_release, .attrs_equal = box_equal                     \
    }
static const cj_op custom_pure = ROW(0), custom_host = ROW(CJ_OP_HOST);

cj_tensor *cj_custom(cj_ctx *c, const cj_custom_op *op, cj_tensor *const *in)
{
    if (!c) return NULL;
    if (!cj__cancel_check(c)) return c->poison;
    if (!op || !op->name || !op->infer || !op->run)
        return cj_fail(c, CJ_EVALUE, "custom: the definition needs a name, a shape rule and a kernel");
    if (op->nin < 1 || op->nin > 16) return cj_fail(c, CJ_EVALUE, "%s: %d inputs, 1 to 16 are possible", op->name, op->nin);
    if (op->payload_size > CJ_MAX_ATTR_BYTES)
        return cj_fail(c, CJ_EVALUE, "%s: payload of %zu bytes, at most %d are possible", op->name, op->payload_size, CJ_MAX_ATTR_BYTES);
    if (op->payload_size && !op->payload) return cj_fail(c, CJ_EVALUE, "%s: the payload is NULL", op->name);
    if (!in) return cj_fail(c, CJ_EVALUE, "%s: the inputs are NULL", op->name);
    cj_tensor *x[16];
    for (int i = 0; i < op->nin; i++) {
        if (!cj__usable(c, op->name, i, in[i])) return c->poison;
        if (in[i]->st->device)
            return cj_fail(c, CJ_EDEVICE, "%s: argument %d is on the device; a custom operator runs on the host", op->name, i + 1);
        x[i] = cj_contiguous(in[i]);
    }
    size_t size = sizeof(custom_box) + op->payload_size;
    custom_attrs a = { cj__alloc(c, size) };
    if (!a.box) return c->poison;
    a.box->refs = 1;
    a.box->size = size;
    a.box->def = *op;
    if (op->payload_size) memcpy(a.box->payload, op->payload, op->payload_size);
    cj_tensor *y = cj__apply(op->effect == CJ_HOST ? &custom_host : &custom_pure, &a, x, op->nin);
    box_release(c, &a);
    return y;
}
