/* Recording a step, and comparing two recordings.
 *
 * A step cannot look at values, so on the host it is recorded dry: results have shapes and no data, and the plan made of the recording is what runs, the first time
 * too.  So no step ever needs more memory than its plan.  Where somebody watches single operators (profile, non-finite values), and on devices, operators run as they
 * are recorded.
 *
 * A storage met for the first time must be one of three things: made by an operator of this step, a listed input, or persistent.  Anything else could not be found again
 * when the plan runs, so it is an error that names the operator and the line.
 */
#include <math.h>

#include "grad/plan.h"

struct cj_region_block {
    struct cj_region_block *next;
    size_t size, used;
    _Alignas(64) char data[];
};

void *cj__region_alloc(cj_ctx *c, cj_region *r, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct cj_region_block *b = r->block;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > 8192 ? bytes : 8192;
        b = cj__alloc(c, sizeof *b + size);
        if (!b) return NULL;
        *b = (struct cj_region_block){ .next = r->block, .size = size };
        r->block = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    memset(p, 0, bytes);
    return p;
}

void cj__region_free(cj_ctx *c, cj_region *r)
{
    for (struct cj_region_block *b = r->block, *next; b; b = next) {
        next = b->next;
        cj__free(c, b, sizeof *b + b->size);
    }
    r->block = NULL;
}

/* Room for one more item in a growing array. */
static void *grow(cj_ctx *c, void *array, int n, int *cap, size_t size)
{
    if (n < *cap) return array;
    int more = *cap ? 2 * *cap : 64;
    void *p = cj__alloc(c, (size_t)more * size);
    if (!p) return NULL;
    if (n) memcpy(p, array, (size_t)n * size);
    cj__free(c, array, (size_t)*cap * size);
    *cap = more;
    return p;
}

int cj__trace_slot_like(cj_trace *t, int slot)
{
    cj_slot *array = grow(t->ctx, t->slot, t->n_slots, &t->cap_slots, sizeof *array);
    if (!array) return -1;
    t->slot = array;
    t->slot[t->n_slots] = (cj_slot){
        .kind = CJ_SLOT_TEMP, .bytes = t->slot[slot].bytes, .offset = -1, .first = -1, .last = -1, .device = t->slot[slot].device
    };
    return t->n_slots++;
}

static cj_slot *slot_add(cj_trace *t, cj_storage *st, cj_slot_kind kind)
{
    cj_slot *array = grow(t->ctx, t->slot, t->n_slots, &t->cap_slots, sizeof *array);
    if (!array) return NULL;
    t->slot = array;
    st->trace = t->ctx->trace_epoch;
    st->slot = t->n_slots;
    cj_slot *s = &t->slot[t->n_slots++];
    *s = (cj_slot){ .kind = kind, .bytes = st->bytes, .offset = -1, .first = -1, .last = -1, .device = st->device };
    if (kind == CJ_SLOT_PERSISTENT) {
        s->st = st;
        cj__storage_retain(st);
    }
    return s;
}

static bool slot_of(cj_trace *t, const cj_op *op, int i, cj_storage *st, bool output)
{
    cj_ctx *c = t->ctx;
    if (st->trace == c->trace_epoch && st->slot >= 0) return true;
    if (st->persistent) return slot_add(t, st, CJ_SLOT_PERSISTENT) != NULL;
    if (output) return slot_add(t, st, CJ_SLOT_TEMP) != NULL;
    return cj__error(c, CJ_ECAPTURE,
                     "capture: %s reads argument %d, which is neither an input of the step nor persistent; list it or cj_keep it", op->name,
                     i + 1);
}

/* The module path of this call; calls of one module share one copy. */
static const char *path_now(cj_trace *t)
{
    const char *path = t->ctx->path, *before = t->n ? t->step[t->n - 1].path : NULL;
    if (!path[0]) return NULL;
    if (before && strcmp(before, path) == 0) return before;
    char *copy = cj__region_alloc(t->ctx, &t->region, strlen(path) + 1);
    if (copy) memcpy(copy, path, strlen(path) + 1);
    return copy;
}

static void describe(cj_arg *a, const cj_tensor *t)
{
    a->slot = t->st->slot;
    a->dtype = t->dtype;
    a->ndim = t->ndim;
    a->contiguous = cj__contiguous(t);
    a->offset = t->data - (char *)t->st->data;
    a->numel = t->numel;
    memcpy(a->shape, t->shape, t->ndim * sizeof t->shape[0]);
    memcpy(a->stride, t->stride, t->ndim * sizeof t->stride[0]);
}

bool cj__capture_record(cj_ctx *c, cj_call *call)
{
    cj_trace *t = c->trace;
    const cj_op *op = call->op;
    if (op->flags & CJ_OP_VIEW) return true; /* the arguments of later steps carry shape and strides */
    if (op->flags & CJ_OP_HOST) return cj__error(c, CJ_ECAPTURE, "capture: %s has effects on the host", op->name);
    if (op->flags & CJ_OP_DYNAMIC) return cj__error(c, CJ_ECAPTURE, "capture: the shape of %s depends on values", op->name);
    for (int i = 0; i < call->nin; i++)
        if (!slot_of(t, op, i, call->in[i]->st, false)) return false;
    for (int j = 0; j < call->nout; j++)
        if (!slot_of(t, op, j, call->out[j]->st, true)) return false;
    cj_traced *array = grow(c, t->step, t->n, &t->cap, sizeof *array);
    if (!array) return false;
    t->step = array;
    cj_traced *s = &t->step[t->n];
    *s = (cj_traced){ .op = op, .nin = call->nin, .nout = call->nout, .path = path_now(t), .called = c->called };
    cj__position(&s->file, &s->line);
    s->arg = cj__region_alloc(c, &t->region, (size_t)(call->nin + call->nout + 1) * sizeof *s->arg);
    s->attrs = cj__region_alloc(c, &t->region, op->attr_size + 1);
    if (!s->arg || !s->attrs || c->error) return false;
    if (op->attr_size) memcpy(s->attrs, call->attrs, op->attr_size);
    if (op->attrs_retain) op->attrs_retain(s->attrs);
    if (op->flags & CJ_OP_RANDOM) { /* call numbers relative to the start of the step */
        cj_random_attrs *r = s->attrs;
        r->call -= t->rng.call[r->stream];
    }
    for (int i = 0; i < call->nin; i++) describe(&s->arg[i], call->in[i]);
    for (int j = 0; j < call->nout; j++) describe(&s->arg[call->nin + j], call->out[j]);
    if (op->ew) s->compute = cj__ew_compute(op, call->attrs, call->in, call->nin);
    t->n++;
    return true;
}

cj_trace *cj__trace_begin(cj_ctx *c, cj_tensor *const *in, int n, cj_tensor **alias, bool dry)
{
    cj_trace *t = cj__zalloc(c, sizeof *t);
    if (!t) return NULL;
    t->ctx = c;
    t->rng = c->rng;
    c->trace_epoch++;
    /* The step sees inputs on storages of their own, so that an input that is a piece of a larger tensor is told from that tensor. */
    for (int i = 0; i < n; i++) {
        cj_storage *st = cj__storage_new(c, 0, false);
        cj_tensor *h = st ? cj__header(c) : NULL;
        if (!h) {
            if (st) cj__storage_release(c, st);
            cj__trace_free(t);
            return NULL;
        }
        h->st = st;
        st->data = in[i]->data;
        st->bytes = 0;
        st->borrowed = 1;
        h->data = in[i]->data;
        h->dtype = in[i]->dtype;
        h->ndim = in[i]->ndim;
        h->numel = in[i]->numel;
        memcpy(h->shape, in[i]->shape, sizeof h->shape);
        memcpy(h->stride, in[i]->stride, sizeof h->stride);
        cj__update_contiguous(h);
        cj_slot *s = slot_add(t, st, CJ_SLOT_INPUT);
        if (!s) {
            cj__trace_free(t);
            return NULL;
        }
        s->input = i;
        s->device = in[i]->st->device;
        st->device = in[i]->st->device;
        alias[i] = h;
    }
    c->trace = t;
    c->dry = dry;
    c->active |= 1u << CJ_REC_CAPTURE;
    return t;
}

static void stop(cj_ctx *c)
{
    c->trace = NULL;
    c->dry = false;
    c->active &= (uint8_t) ~(1u << CJ_REC_CAPTURE);
}

bool cj__trace_end(cj_ctx *c, cj_trace *t, cj_tensor *const *out, bool ok)
{
    stop(c);
    for (int s = 0; s < CJ_STREAMS; s++) t->draws[s] = c->rng.call[s] - t->rng.call[s];
    for (int k = 0; ok && k < CJ_MAX_PLAN_OUTPUTS && out[k]; k++) {
        if (!cj__usable(c, "capture: output", k, out[k])) return false;
        cj_storage *st = out[k]->st;
        if (!(st->trace == c->trace_epoch && st->slot >= 0) && !st->persistent)
            return cj__error(c, CJ_ECAPTURE, "capture: output %d is not a result of the step", k + 1);
        if (!slot_of(t, &(cj_op){ .name = "output" }, k, st, false)) return false;
        describe(&t->out[k], out[k]);
        t->slot[t->out[k].slot].output = true;
        t->n_out = k + 1;
    }
    return ok;
}

void cj__trace_free(cj_trace *t)
{
    if (!t) return;
    cj_ctx *c = t->ctx;
    if (c->trace == t) stop(c);
    for (int i = 0; i < t->n; i++)
        if (t->step[i].op->attrs_release) t->step[i].op->attrs_release(c, t->step[i].attrs);
    for (int i = 0; i < t->n_slots; i++)
        if (t->slot[i].st) cj__storage_release(c, t->slot[i].st);
    cj__free(c, t->step, (size_t)t->cap * sizeof *t->step);
    cj__free(c, t->slot, (size_t)t->cap_slots * sizeof *t->slot);
    cj__region_free(c, &t->region);
    cj__free(c, t, sizeof *t);
}

/* ---- comparing ---------------------------------------------------------------------------------------------------------------------------------- */

static bool same_attrs(const cj_traced *a, const cj_traced *b)
{
    if (!a->op->attr_size) return true;
    if (a->op->attrs_equal) return a->op->attrs_equal(a->attrs, b->attrs);
    return memcmp(a->attrs, b->attrs, a->op->attr_size) == 0;
}

static bool same_arg(const cj_trace *ta, const cj_arg *a, const cj_trace *tb, const cj_arg *b)
{
    const cj_slot *x = &ta->slot[a->slot], *y = &tb->slot[b->slot];
    return a->slot == b->slot && a->dtype == b->dtype && a->ndim == b->ndim && a->offset == b->offset &&
           memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0 &&
           memcmp(a->stride, b->stride, a->ndim * sizeof a->stride[0]) == 0 && x->kind == y->kind && x->st == y->st && x->input == y->input;
}

static const char *base_name(const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    return slash ? slash + 1 : file ? file : "?";
}

/* Eight bytes of attributes are a double, an integer or a pointer; read as a double the latter two are tiny. */
static bool is_number(const void *attrs) { return fpclassify(*(const double *)attrs) != FP_SUBNORMAL; }

bool cj__trace_same(cj_ctx *c, const cj_trace *a, const cj_trace *b)
{
    int n = a->n < b->n ? a->n : b->n;
    for (int i = 0; i < n; i++) {
        const cj_traced *x = &a->step[i], *y = &b->step[i];
        if (x->op != y->op || x->nin != y->nin || x->nout != y->nout)
            return cj__error(
                c, CJ_ECAPTURE,
                "capture: call %d was %s (%s:%d) in the first run and %s (%s:%d) in the second; a step must do the same every time", i + 1,
                x->op->name, base_name(x->file), x->line, y->op->name, base_name(y->file), y->line);
        if (!same_attrs(x, y)) {
            if (x->op->attr_size == sizeof(double) && is_number(x->attrs) && is_number(y->attrs))
                return cj__error(
                    c, CJ_ECAPTURE,
                    "capture: call %d, %s (%s:%d), had the number %.9g in the first run and %.9g in the second; pass it as a 0-d tensor",
                    i + 1, x->op->name, base_name(y->file), y->line, *(double *)x->attrs, *(double *)y->attrs);
            double va, vb;
            if (cj__full_value(x->op, x->attrs, &va) && cj__full_value(y->op, y->attrs, &vb))
                return cj__error(c, CJ_ECAPTURE,
                                 "capture: call %d, full (%s:%d), had the number %.9g in the first run and %.9g in the second; pass it as "
                                 "a 0-d tensor input",
                                 i + 1, base_name(y->file), y->line, va, vb);
            return cj__error(c, CJ_ECAPTURE, "capture: call %d, %s (%s:%d), had other attributes in the second run", i + 1, x->op->name,
                             base_name(y->file), y->line);
        }
        for (int k = 0; k < x->nin + x->nout; k++)
            if (!same_arg(a, &x->arg[k], b, &y->arg[k]))
                return cj__error(c, CJ_ECAPTURE, "capture: call %d, %s (%s:%d), saw another %s %d in the second run: %s and %s", i + 1,
                                 x->op->name, base_name(y->file), y->line, k < x->nin ? "argument" : "result",
                                 k < x->nin ? k + 1 : k - x->nin + 1, cj__shape_text(x->arg[k].ndim, x->arg[k].shape),
                                 cj__shape_text(y->arg[k].ndim, y->arg[k].shape));
    }
    if (a->n != b->n) return cj__error(c, CJ_ECAPTURE, "capture: the step made %d calls in the first run and %d in the second", a->n, b->n);
    if (a->n_out != b->n_out)
        return cj__error(c, CJ_ECAPTURE, "capture: the step gave %d results in the first run and %d in the second", a->n_out, b->n_out);
    for (int k = 0; k < a->n_out; k++)
        if (!same_arg(a, &a->out[k], b, &b->out[k]))
            return cj__error(c, CJ_ECAPTURE, "capture: result %d is another value in the second run", k + 1);
    return true;
}
