/* Recording a function as a graph of values (recording.h).
 *
 * The recorder CJ_REC_GRAPH sees every call after it ran.  A tensor that it has not seen is a named one (a parameter, by its data), another header on a value (cj_detach), or
 * a constant.  Calls on constants alone make constants: masks, positions, tables.  Draws never do, though they have no inputs.
 */
#include "grad/recording.h"

#include "cajal/grad.h"

static void *room_for(cj_ctx *c, void *array, int n, int *room, size_t size)
{
    if (n < *room) return array;
    int more = *room ? 2 * *room : 128;
    void *p = cj__alloc(c, (size_t)more * size);
    if (!p) return NULL;
    if (n) memcpy(p, array, (size_t)n * size);
    cj__free(c, array, (size_t)*room * size);
    *room = more;
    return p;
}

static int add_value(cj_recording *r, cj_tensor *t, cj_value_kind kind, int index)
{
    cj_value *v = room_for(r->ctx, r->value, r->values, &r->values_room, sizeof *v);
    if (!v) return -1;
    r->value = v;
    cj__tensor_retain(t, true);
    v[r->values] = (cj_value){ t, kind, index };
    return r->values++;
}

static bool same_view(const cj_tensor *a, const cj_tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0 &&
           memcmp(a->stride, b->stride, a->ndim * sizeof a->stride[0]) == 0;
}

/* The value that a tensor is; -1 after an error. */
static int value_of(cj_recording *r, const cj_op *op, cj_tensor *t)
{
    for (int i = r->values - 1; i >= 0; i--)
        if (r->value[i].tensor == t) return i;
    bool shares = false;
    for (int i = r->values - 1; i >= 0; i--) {
        const cj_value *v = &r->value[i];
        if (v->kind == CJ_VALUE_CONSTANT || v->kind == CJ_VALUE_NAMED || v->tensor->st != t->st) continue;
        if (same_view(v->tensor, t)) return i;
        shares = true;
    }
    for (int i = 0; i < r->named_n; i++)
        if (t->numel && same_view(r->named[i], t)) return add_value(r, t, CJ_VALUE_NAMED, i);
    if (shares) {
        cj__error(r->ctx, CJ_ECAPTURE, "recording: %s reads a piece %s of a value that no operator has made", op->name, cj__tensor_text(t));
        return -1;
    }
    return add_value(r, t, CJ_VALUE_CONSTANT, 0);
}

static const char *path_now(cj_recording *r)
{
    const char *path = r->ctx->path;
    char *copy = cj__region_alloc(r->ctx, &r->region, strlen(path) + 1);
    if (copy) memcpy(copy, path, strlen(path) + 1);
    return copy;
}

static bool whole(const cj_ctx *c, const cj_op *op, const void *attrs) { return ((const cj_recording *)c->recording)->whole(op, attrs); }

/* A composite without a kernel comes after its parts: taken as one it replaces them as the maker of its results. */
static bool record(cj_ctx *c, cj_call *call)
{
    cj_recording *r = c->recording;
    const cj_op *op = call->op;
    const bool parts_known = op->define && !op->run;
    if (parts_known && !r->whole(op, call->attrs)) return true;
    int *in = cj__region_alloc(c, &r->region, (size_t)(call->nin + call->nout + 1) * sizeof *in);
    if (!in) return false;
    int *out = in + call->nin;
    bool depends = op->flags & (CJ_OP_RANDOM | CJ_OP_WRITES);
    for (int i = 0; i < call->nin; i++) {
        if ((in[i] = value_of(r, op, call->in[i])) < 0) return false;
        depends |= r->value[in[i]].kind != CJ_VALUE_CONSTANT;
    }
    if (!depends) {
        for (int j = 0; j < call->nout && !parts_known; j++)
            if (add_value(r, call->out[j], CJ_VALUE_CONSTANT, 0) < 0) return false;
        return true;
    }
    for (int j = 0; j < call->nout; j++) {
        out[j] = parts_known ? value_of(r, op, call->out[j]) : add_value(r, call->out[j], CJ_VALUE_RESULT, r->calls);
        if (out[j] < 0) return false;
        if (parts_known && r->value[out[j]].kind != CJ_VALUE_RESULT) return true; /* it gave one of its inputs back */
    }
    for (int i = 0; i < call->nin; i++)
        for (int j = 0; j < call->nout && parts_known; j++)
            if (in[i] == out[j]) return true;
    cj_recorded *array = room_for(c, r->call, r->calls, &r->calls_room, sizeof *array);
    void *attrs = cj__region_alloc(c, &r->region, op->attr_size + 1);
    const char *path = path_now(r);
    if (!array || !attrs || !path) return false;
    r->call = array;
    if (op->attr_size) memcpy(attrs, call->attrs, op->attr_size);
    if (op->attrs_retain) op->attrs_retain(attrs);
    for (int j = 0; j < call->nout; j++) r->value[out[j]].index = r->calls;
    r->call[r->calls++] = (cj_recorded){ op, attrs, in, out, call->nin, call->nout, path };
    return true;
}

bool cj__record(cj_recording *r, cj_ctx *c, cj_tensor *(*fn)(void *user, cj_tensor *x), void *user, cj_tensor *x, cj_tensor *const *named,
                int n, bool (*is_whole)(const cj_op *op, const void *attrs))
{
    *r = (cj_recording){ .ctx = c, .output = -1, .named = named, .named_n = n, .whole = is_whole };
    if (c->error) return false;
    if (c->recording || c->trace) return cj__error(c, CJ_ESTATE, "recording: called while a step is recorded or captured");
    if (add_value(r, x, CJ_VALUE_INPUT, 0) < 0) return false;
    cj_rng_state rng = cj_rng_get(c);
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    c->recording = r;
    c->recorder[CJ_REC_GRAPH] = (cj_recorder){ .record = record, .whole = whole };
    c->active |= 1u << CJ_REC_GRAPH;
    cj_tensor *y = fn(user, x);
    c->active &= (uint8_t) ~(1u << CJ_REC_GRAPH);
    c->recording = NULL;
    if (!c->error && cj__usable(c, "recording", 0, y)) r->output = value_of(r, &(cj_op){ .name = "the result" }, y);
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    cj_rng_set(c, rng);
    return c->error == CJ_OK;
}

void cj__recording_free(cj_recording *r)
{
    cj_ctx *c = r->ctx;
    if (!c) return;
    for (int i = 0; i < r->calls; i++)
        if (r->call[i].op->attrs_release) r->call[i].op->attrs_release(c, r->call[i].attrs);
    for (int i = 0; i < r->values; i++) cj__tensor_release(r->value[i].tensor, true);
    cj__free(c, r->call, (size_t)r->calls_room * sizeof *r->call);
    cj__free(c, r->value, (size_t)r->values_room * sizeof *r->value);
    cj__region_free(c, &r->region);
    *r = (cj_recording){ 0 };
}
