/* Capture and replay: the cache of plans by shape, the two traces that are compared, the compiled run. */
#include <stdio.h>

#include "grad/plan.h"
#include "ops/product.h"

typedef struct key_input {
    uint8_t dtype, ndim, device;
    int64_t shape[CJ_MAX_DIMS], stride[CJ_MAX_DIMS];
} key_input;

/* One shape of the step: traced, compiled, and traced once more to compare. */
typedef struct entry {
    key_input *key;
    int mode;
    bool grad;
    uint64_t used;
    cj_trace *trace;
    bool compared; /* a second trace was the same */
    cj_compiled *compiled;
    void *graph;         /* device: the captured kernels */
    cj_tensor **staging; /* device: fixed places of the inputs */
} entry;

struct cj_plan {
    cj_object object;
    cj_ctx *ctx;
    cj_step_fn fn;
    void *user;
    int n_in;
    entry *entry[CJ_MAX_PLANS];
    int n;
    uint64_t clock;
    entry *current;
    uint64_t last_allocs;
};

/* ---- entries ---------------------------------------------------------------------------------------------------------------------------------------- */

static void compiled_free(cj_ctx *c, cj_compiled *p)
{
    if (!p) return;
    if (p->arena) cj__storage_release(c, p->arena);
    cj__region_free(c, &p->region);
    cj__free(c, p, sizeof *p);
}

static void entry_free(cj_plan *p, entry *e)
{
    cj_ctx *c = p->ctx;
    if (e->graph) c->backend->graph_free(c->device_state, e->graph);
    for (int i = 0; e->staging && i < p->n_in; i++) cj_release(e->staging[i]);
    cj__free(c, e->staging, (size_t)(p->n_in + 1) * sizeof *e->staging);
    compiled_free(c, e->compiled);
    cj__trace_free(e->trace);
    cj__free(c, e->key, (size_t)(p->n_in + 1) * sizeof *e->key);
    cj__free(c, e, sizeof *e);
}

static void plan_free(cj_object *o)
{
    cj_plan *p = (cj_plan *)o;
    for (int i = 0; i < p->n; i++) entry_free(p, p->entry[i]);
    cj__free(p->ctx, p, sizeof *p);
}

void cj_plan_free(cj_plan *p)
{
    if (!p) return;
    cj__object_remove(p->ctx, &p->object);
    plan_free(&p->object);
}

static void make_key(key_input *k, const cj_tensor *t)
{
    memset(k, 0, sizeof *k);
    k->dtype = t->dtype;
    k->ndim = t->ndim;
    k->device = t->st->device;
    memcpy(k->shape, t->shape, t->ndim * sizeof t->shape[0]);
    memcpy(k->stride, t->stride, t->ndim * sizeof t->stride[0]);
}

static bool key_fits(const key_input *k, const cj_tensor *t)
{
    return k->dtype == t->dtype && k->ndim == t->ndim && k->device == t->st->device &&
           memcmp(k->shape, t->shape, t->ndim * sizeof t->shape[0]) == 0 &&
           memcmp(k->stride, t->stride, t->ndim * sizeof t->stride[0]) == 0;
}

static entry *find_entry(cj_plan *p, cj_tensor *const *in)
{
    for (int i = 0; i < p->n; i++) {
        entry *e = p->entry[i];
        bool same = e->mode == p->ctx->mode && e->grad == p->ctx->grad_enabled;
        for (int k = 0; k < p->n_in && same; k++) same = key_fits(&e->key[k], in[k]);
        if (same) return e;
    }
    return NULL;
}

static entry *new_entry(cj_plan *p, cj_tensor *const *in)
{
    cj_ctx *c = p->ctx;
    if (p->n == CJ_MAX_PLANS) { /* the least recently used goes */
        int oldest = 0;
        for (int i = 1; i < p->n; i++)
            if (p->entry[i]->used < p->entry[oldest]->used) oldest = i;
        if (p->current == p->entry[oldest]) p->current = NULL;
        entry_free(p, p->entry[oldest]);
        p->entry[oldest] = p->entry[--p->n];
    }
    entry *e = cj__zalloc(c, sizeof *e);
    if (!e) return NULL;
    e->key = cj__alloc(c, (size_t)(p->n_in + 1) * sizeof *e->key);
    if (!e->key) {
        cj__free(c, e, sizeof *e);
        return NULL;
    }
    for (int i = 0; i < p->n_in; i++) make_key(&e->key[i], in[i]);
    e->mode = c->mode;
    e->grad = c->grad_enabled;
    p->entry[p->n++] = e;
    return e;
}

/* ---- tracing ------------------------------------------------------------------------------------------------------------------------------------------ */

/* Can the step be recorded without running its operators one by one?  Nobody looks at them, and the plan runs on the host. */
static bool dry(const cj_ctx *c) { return !c->backend && !c->active && !c->observer; }

/* Records the step; unless the trace is dry it runs with all its effects, and out receives its results. */
static cj_trace *trace_step(cj_plan *p, cj_tensor *const *in, cj_tensor **out, bool dry)
{
    cj_ctx *c = p->ctx;
    cj_tensor *alias[CJ_MAX_PLAN_INPUTS], *result[2 * CJ_MAX_PLAN_OUTPUTS] = { 0 }; /* twice: to notice too many */
    if (c->trace) {
        cj__error(c, CJ_ECAPTURE, "capture: a step is being captured already");
        return NULL;
    }
    int frame = cj__frame_open(c);
    if (!frame) return NULL;
    c->scope[frame - 1].step = true;
    cj_trace *t = cj__trace_begin(c, in, p->n_in, alias, dry);
    if (t) {
        p->fn(c, p->user, alias, result);
        if (result[CJ_MAX_PLAN_OUTPUTS]) cj__error(c, CJ_ECAPTURE, "capture: the step has more than %d results", CJ_MAX_PLAN_OUTPUTS);
        cj__commit(c, frame);
        /* an input handed out as it is: the plan has to own its results */
        for (int k = 0; k < CJ_MAX_PLAN_OUTPUTS && result[k] && !c->error; k++)
            for (int i = 0; i < p->n_in; i++)
                if (!cj_is_poison(result[k]) && result[k]->st == alias[i]->st) {
                    result[k] = cj_clone(result[k]);
                    break;
                }
        if (!cj__trace_end(c, t, result, c->error == CJ_OK)) {
            cj__trace_free(t);
            t = NULL;
        }
    }
    int n = 0;
    while (t && n < CJ_MAX_PLAN_OUTPUTS && result[n]) n++;
    if (dry) n = 0;
    for (int k = 0; k < n; k++) result[k] = cj_detach(result[k]); /* results leave without their graph */
    if (t && c->error) {
        cj__trace_free(t);
        t = NULL;
        n = 0;
    }
    cj__frame_close(c, frame, result, n);
    if (out)
        for (int k = 0; k < n; k++) out[k] = result[k];
    return t;
}

static bool inputs_ok(cj_ctx *c, const char *op, cj_tensor *const *in, int n)
{
    if (!cj__cancel_check(c)) return false;
    if (n && !in) return cj__error(c, CJ_EVALUE, "%s: the inputs are NULL", op);
    for (int i = 0; i < n; i++)
        if (!cj__usable(c, op, i, in[i])) return false;
    return true;
}

/* ---- running -------------------------------------------------------------------------------------------------------------------------------------------- */

/* A product and the elementwise program that follows it, described when the plan is made; pointers are read at every replay, for inputs move. */
struct cj_tail {
    cj_ctx *c;
    const cj_kernel *k;
    cj_gemm gemm;
    int n;                                               /* arguments of the program */
    int64_t row[CJ_EW_MAX_ARGS], column[CJ_EW_MAX_ARGS]; /* strides */
    bool plain; /* all f32 and contiguous along a row: the instructions run without the engine around them */
    bool after; /* few elements: once over the whole result instead of row by row */
};

enum { TAIL_AFTER = 256 }; /* elements up to which the program runs once over the whole result */

/* The elementwise program on a finished block of the product. */
static void run_tail(void *arg, int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    (void)b;
    const cj_tail *t = arg;
    const cj_ew_arg *from = t->k->args;
    if (t->plain) {
        float *at[CJ_EW_MAX_ARGS];
        for (int a = 0; a < t->n; a++) at[a] = (float *)from[a].data + i0 * t->row[a] + j0;
        t->c->k->ew_rows(t->k->prog, at, t->row, i1 - i0, j1 - j0);
        return;
    }
    cj_ew_arg args[CJ_EW_MAX_ARGS];
    int fault = 0;
    for (int a = 0; a < t->n; a++) {
        args[a].dtype = from[a].dtype;
        args[a].data = (char *)from[a].data + (i0 * t->row[a] + j0 * t->column[a]) * (int64_t)cj_dtype_size(from[a].dtype);
        args[a].stride[0] = t->row[a];
        args[a].stride[1] = t->column[a];
    }
    t->c->k->ew_run(NULL, t->k->prog, args, 2, (int64_t[]){ i1 - i0, j1 - j0 }, &fault);
}

static cj_tail *make_tail(cj_ctx *c, cj_region *r, const cj_kernel *k)
{
    cj_tail *t = cj__region_alloc(c, r, sizeof *t);
    if (!t) return NULL;
    t->c = c;
    t->k = k;
    t->n = k->prog->n_in + k->prog->n_out;
    if (cj__op_is_linear(k->step->op)) cj__linear_describe(&t->gemm, &k->call);
    else cj__gemm_describe(&t->gemm, k->call.in[0], k->call.in[1], k->call.out[0]);
    int last = k->ndim - 1;
    t->plain = k->prog->compute == CJ_F32;
    t->after = t->gemm.m * t->gemm.n <= TAIL_AFTER;
    for (int a = 0; a < t->n; a++) {
        t->column[a] = k->shape[last] == 1 ? 1 : k->args[a].stride[last];
        for (int d = last - 1; d >= 0; d--) /* a row: the innermost dimension above the last that is longer than 1 */
            if (k->shape[d] > 1) {
                t->row[a] = k->args[a].stride[d];
                break;
            }
        t->plain = t->plain && k->args[a].dtype == CJ_F32 && t->column[a] == 1;
        t->after = t->after && (t->gemm.m == 1 || t->row[a] == t->gemm.n);
    }
    t->after = t->after && t->plain;
    if (!t->after) {
        t->gemm.tail = run_tail;
        t->gemm.tail_arg = t;
    }
    return t;
}

static bool run_product(cj_ctx *c, const cj_kernel *k)
{
    cj_tail *t = k->tail;
    t->gemm.a = k->call.in[0]->data;
    t->gemm.b = k->call.in[1]->data;
    t->gemm.c = k->call.out[0]->data;
    if (k->call.nin > 2)
        t->gemm.bias = k->call.in[2]->data; /* of a linear; an input of the step has no address yet when the plan is made */
    if (!cj__gemm_run(c, CJ_F32, &t->gemm)) return false;
    if (!t->after) return true;
    float *at[CJ_EW_MAX_ARGS];
    for (int a = 0; a < t->n; a++) at[a] = k->args[a].data;
    c->k->ew_rows(k->prog, at, t->row, 1, t->gemm.m * t->gemm.n);
    return true;
}

/* One operation per instruction and element. */
static double fused_flops(const cj_call *call) { return (double)((const cj_ew_prog *)call->attrs)->n_instr * (double)call->out[0]->numel; }
static const cj_op fused_op = {
    .name = "fused", .family = "elementwise", .kind = CJ_INTERNAL, .flags = CJ_OP_NOGRAD, .flops = fused_flops
};

static bool run_absorbed(const cj_kernel *k)
{
    cj_gemm g;
    cj__gemm_describe(&g, k->call.in[0], k->call.in[1], k->call.out[0]);
    return k->update->step->op->absorb(&k->update->call, k->absorbed - 1, &g);
}

static bool run_kernel(cj_ctx *c, cj_kernel *k)
{
    if (k->soon) cj__parallel_soon(c->pool, k->soon->data, (size_t)k->soon->numel * cj_dtype_size((cj_dtype)k->soon->dtype));
    if (k->absorbed) return run_absorbed(k);
    if (k->kind == CJ_KERNEL_CALL) {
        c->called = k->step->called;
        const bool ok = k->step->op->run(&k->call);
        c->called = (cj_called){ 0 };
        return ok;
    }
    if (k->kind == CJ_KERNEL_PRODUCT) return run_product(c, k);
    int fault = 0;
    int64_t numel = 1;
    for (int d = 0; d < k->ndim; d++) numel *= k->shape[d];
    if (numel) c->k->ew_run(c->pool, k->prog, k->args, k->ndim, k->shape, &fault);
    return !fault || cj__error(c, CJ_EVALUE, "plan: integer division by zero");
}

typedef const char *device_kernel(void *state, const cj_call *call);

/* A fused program as a call: the program is the attributes, the arguments are headers over the iteration shape. */
static const char *run_fused_device(cj_ctx *c, const cj_kernel *k, device_kernel *kernel)
{
    cj_tensor header[CJ_EW_MAX_ARGS], *list[CJ_EW_MAX_ARGS];
    cj_storage st = { .device = 1 };
    int n = k->prog->n_in + k->prog->n_out;
    for (int a = 0; a < n; a++) {
        header[a] =
            (cj_tensor){ .ctx = c, .st = &st, .data = k->args[a].data, .dtype = (uint8_t)k->args[a].dtype, .ndim = (uint8_t)k->ndim };
        header[a].numel = 1;
        for (int d = 0; d < k->ndim; d++) header[a].numel *= k->shape[d];
        memcpy(header[a].shape, k->shape, sizeof k->shape);
        memcpy(header[a].stride, k->args[a].stride, sizeof header[a].stride);
        cj__update_contiguous(&header[a]);
        list[a] = &header[a];
    }
    const cj_call call = { c, &fused_op, k->prog, list, list + k->prog->n_in, k->prog->n_in, k->prog->n_out };
    /* what comes back is a message of the back-end, not the call */
    // cppcheck-suppress returnDanglingLifetime
    return kernel(c->device_state, &call);
}

/* On a device every kernel is a call; fused programs go by the name "fused". */
static bool run_kernel_device(cj_ctx *c, cj_kernel *k)
{
    const cj_op *op = k->kind == CJ_KERNEL_FUSED ? &fused_op : k->step->op;
    device_kernel *kernel = c->backend->find(op->name);
    if (!kernel) return cj__error(c, CJ_EDEVICE, "%s: no %s kernel for this operator", op->name, c->backend->name);
    const char *fault = k->kind == CJ_KERNEL_FUSED ? run_fused_device(c, k, kernel) : kernel(c->device_state, &k->call);
    return !fault || cj__error(c, CJ_EDEVICE, "%s: %s", op->name, fault);
}

/* Random calls count from where the context's streams are now. */
static void renumber(cj_ctx *c, cj_trace *t, int sign)
{
    for (int i = 0; i < t->n; i++) {
        if (!(t->step[i].op->flags & CJ_OP_RANDOM)) continue;
        cj_random_attrs *r = t->step[i].attrs;
        r->seed = c->rng.seed;
        r->call += sign > 0 ? c->rng.call[r->stream] : -c->rng.call[r->stream];
    }
}

static bool any_draws(const cj_trace *t)
{
    for (int s = 0; s < CJ_STREAMS; s++)
        if (t->draws[s]) return true;
    return false;
}

static void patch_inputs(entry *e, cj_tensor *const *in, int n)
{
    cj_compiled *p = e->compiled;
    bool moved = false;
    for (int i = 0; i < n; i++) {
        moved |= p->last_input[i] != in[i]->data;
        p->last_input[i] = in[i]->data;
    }
    if (!moved) return;
    for (int k = 0; k < p->n_patches; k++) *p->patch[k].at = in[p->patch[k].input]->data + p->patch[k].offset;
}

static bool profiled(cj_ctx *c, cj_kernel *k, bool (*run)(cj_ctx *, cj_kernel *))
{
    if (!c->recorder[CJ_REC_PROFILE].record(c, NULL) || !run(c, k)) return false;
    if (k->kind != CJ_KERNEL_FUSED) return c->recorder[CJ_REC_PROFILE].record(c, &k->call);
    /* What the profiler looks at: the sizes of what is read and written. */
    cj_tensor header[CJ_EW_MAX_ARGS], *argument[CJ_EW_MAX_ARGS];
    for (int i = 0; i < k->prog->n_in + k->prog->n_out; i++) {
        header[i] = (cj_tensor){ .dtype = (uint8_t)k->args[i].dtype, .numel = 1 };
        for (int d = 0; d < k->ndim; d++) header[i].numel *= k->args[i].stride[d] ? k->shape[d] : 1;
        argument[i] = &header[i];
    }
    cj_call call = { .ctx = c,
                     .op = &fused_op,
                     .attrs = k->prog,
                     .in = argument,
                     .out = argument + k->prog->n_in,
                     .nin = k->prog->n_in,
                     .nout = k->prog->n_out };
    return c->recorder[CJ_REC_PROFILE].record(c, &call);
}

/* What a kernel has written is of a new version, at once: later kernels of the step may keep what they make of it. */
static void bump_version(const entry *e, const cj_kernel *k)
{
    const cj_traced *s = k->step;
    if (k->kind != CJ_KERNEL_CALL || !(s->op->flags & CJ_OP_WRITES)) return;
    for (int i = 0, n = cj__writes(s->op, s->attrs); i < n; i++) {
        cj_storage *st = e->trace->slot[s->arg[i].slot].st;
        if (!st) continue;
        st->version++;
        st->writer = s->op;
    }
}

static bool run_host(cj_plan *p, entry *e, cj_tensor *const *in)
{
    cj_ctx *c = p->ctx;
    cj_trace *t = e->trace;
    patch_inputs(e, in, p->n_in);
    bool draws = any_draws(t), ok = !e->compiled->scratch || cj__scratch(c, e->compiled->scratch);
    if (draws) renumber(c, t, 1);
    for (int i = 0; i < e->compiled->n && ok; i++) {
        cj_kernel *k = &e->compiled->kernel[i];
        /* Once the step has begun to write it runs to its end: all or nothing. */
        if (__builtin_expect(atomic_load_explicit(&c->cancelled, memory_order_relaxed), 0) && i <= e->compiled->first_write)
            ok = cj__cancel_check(c);
        if (!ok) break;
        ok = __builtin_expect(c->active & 1u << CJ_REC_PROFILE, 0) ? profiled(c, k, run_kernel) : run_kernel(c, k);
        bump_version(e, k);
        if (!ok) cj__error_at(c, k->step->path, k->step->file, k->step->line);
    }
    if (draws) renumber(c, t, -1);
    return ok;
}

static bool run_device_once(cj_plan *p, entry *e)
{
    for (int i = 0; i < e->compiled->n; i++)
        if (!cj__cancel_check(p->ctx) || !run_kernel_device(p->ctx, &e->compiled->kernel[i])) return false;
    return true;
}

/* Inputs are copied to fixed places, then all kernels run as one graph. */
static bool run_device(cj_plan *p, entry *e, cj_tensor *const *in)
{
    cj_ctx *c = p->ctx;
    const cj_backend *b = c->backend;
    if (!e->staging) {
        e->staging = cj__zalloc(c, (size_t)(p->n_in + 1) * sizeof *e->staging);
        for (int i = 0; e->staging && i < p->n_in; i++)
            if (!(e->staging[i] = cj__tensor_persistent(c, (cj_dtype)in[i]->dtype, in[i]->ndim, in[i]->shape, true))) return false;
        if (!e->staging) return false;
    }
    for (int i = 0; i < p->n_in; i++) {
        if (!cj__contiguous(in[i])) return cj__error(c, CJ_ECAPTURE, "replay: input %d is not contiguous", i + 1);
        size_t bytes = (size_t)in[i]->numel * cj_dtype_size((cj_dtype)in[i]->dtype);
        bool ok = in[i]->st->device ? b->copy(c->device_state, e->staging[i]->data, in[i]->data, bytes)
                                    : b->to_device(c->device_state, e->staging[i]->data, in[i]->data, bytes);
        if (!in[i]->st->device) c->memory.host_copies++;
        if (!ok) return cj__backend_error(c, "replay");
    }
    if (any_draws(e->trace) && b->set_bases && !b->set_bases(c->device_state, c->rng.call, CJ_STREAMS))
        return cj__backend_error(c, "replay");
    if (!e->graph) {
        patch_inputs(e, e->staging, p->n_in);
        if (!b->graph_begin(c->device_state)) return cj__backend_error(c, "capture");
        bool ok = run_device_once(p, e);
        e->graph = b->graph_end(c->device_state);
        if (!ok || !e->graph) return ok ? cj__backend_error(c, "capture") : false;
    }
    if (!b->graph_launch(c->device_state, e->graph)) return cj__backend_error(c, "replay");
    if (any_draws(e->trace) && b->set_bases) b->set_bases(c->device_state, (uint64_t[CJ_STREAMS]){ 0 }, CJ_STREAMS);
    return true;
}

/* Products of few rows do hardly more than read a matrix; while they and what lies between them run, idle threads can fetch the next one.  After the last comes the
 * first again, at the next replay. */
static const cj_tensor *read_matrix(const cj_kernel *k)
{
    enum { FEW_ROWS = 64, LEAST_BYTES = 64 << 10 };
    if (k->kind == CJ_KERNEL_FUSED || !cj__op_is_linear(k->step->op)) return NULL;
    const cj_tensor *w = k->call.in[1];
    if (k->call.out[0]->numel > FEW_ROWS * w->shape[0] || (size_t)w->numel * cj_dtype_size((cj_dtype)w->dtype) < LEAST_BYTES) return NULL;
    return cj__contiguous(w) ? w : NULL;
}
static void look_ahead(cj_compiled *p)
{
    const cj_tensor *next = NULL;
    for (int turn = 0; turn < 2; turn++)
        for (int i = p->n - 1; i >= 0; i--) {
            const cj_tensor *w = read_matrix(&p->kernel[i]);
            if (!w) continue;
            p->kernel[i].soon = next;
            next = w;
        }
}

static bool compile(cj_plan *p, entry *e)
{
    cj_ctx *c = p->ctx;
    cj_compiled *k = cj__zalloc(c, sizeof *k);
    if (!k) return false;
    if (!cj__plan_fuse(c, e->trace, k) || !cj__plan_layout(c, e->trace, k)) {
        compiled_free(c, k);
        return false;
    }
    for (int i = 0; i < k->n && !c->backend; i++) {
        cj_kernel *product = &k->kernel[i];
        if (product->kind != CJ_KERNEL_PRODUCT || (product->tail = make_tail(c, &k->region, product))) continue;
        compiled_free(c, k);
        return false;
    }
    if (!c->backend) look_ahead(k);
    e->compiled = k;
    return true;
}

/* The results as headers on the arena, or on what the step wrote. */
static bool hand_out(cj_plan *p, entry *e, cj_tensor **out)
{
    cj_ctx *c = p->ctx;
    for (int k = 0; k < e->trace->n_out; k++) {
        const cj_arg *a = &e->trace->out[k];
        const cj_slot *s = &e->trace->slot[a->slot];
        cj_storage *st = s->kind == CJ_SLOT_PERSISTENT ? s->st : e->compiled->arena;
        cj_tensor *h = cj__header(c);
        if (!h) return false;
        h->st = st;
        cj__storage_retain(st);
        h->dtype = a->dtype;
        h->ndim = a->ndim;
        h->numel = a->numel;
        memcpy(h->shape, a->shape, sizeof h->shape);
        memcpy(h->stride, a->stride, sizeof h->stride);
        h->data = (char *)st->data + (s->kind == CJ_SLOT_TEMP ? s->offset : 0) + a->offset;
        cj__update_contiguous(h);
        out[k] = h;
    }
    return true;
}

/* What a replay hands out that fails. */
static bool no_results(cj_ctx *c, const cj_trace *t, cj_tensor **out)
{
    for (int k = 0; out && t && k < t->n_out; k++) out[k] = c->poison;
    return false;
}

static void count_draws(cj_ctx *c, const cj_trace *t)
{
    for (int s = 0; s < CJ_STREAMS; s++) c->rng.call[s] += t->draws[s];
}

/* The results of a traced run stay when the plan runs again: each gets a copy of its piece of the arena, made before the run and filled after it. */
static bool own_storages(cj_plan *p, const entry *e, cj_tensor **out)
{
    for (int k = 0; k < e->trace->n_out; k++) {
        const cj_slot *s = &e->trace->slot[e->trace->out[k].slot];
        if (s->kind != CJ_SLOT_TEMP) continue;
        cj_storage *own = cj__storage_new(p->ctx, s->bytes, false);
        if (!own) return false;
        cj__storage_release(p->ctx, out[k]->st);
        out[k]->st = own;
        out[k]->data = (char *)own->data + e->trace->out[k].offset;
    }
    return true;
}

static void fill_storages(const entry *e, cj_tensor *const *out)
{
    for (int k = 0; k < e->trace->n_out; k++) {
        const cj_slot *s = &e->trace->slot[e->trace->out[k].slot];
        if (s->kind == CJ_SLOT_TEMP) memcpy(out[k]->st->data, (char *)e->compiled->arena->data + s->offset, s->bytes);
    }
}

/* Does what a dry trace has recorded: with the random numbers that the trace has counted, and with results of their own. */
static bool run_recorded(cj_plan *p, entry *e, cj_tensor *const *in, cj_tensor **out)
{
    cj_ctx *c = p->ctx;
    for (int s = 0; s < CJ_STREAMS; s++) c->rng.call[s] -= e->trace->draws[s];
    if (!e->compiled && !compile(p, e)) return false;
    if (out && !(hand_out(p, e, out) && own_storages(p, e, out))) return false;
    if (!run_host(p, e, in)) return false;
    if (out) fill_storages(e, out);
    count_draws(c, e->trace);
    return true;
}

/* The first two runs of a shape, with all the effects of the step: the first is recorded, the second has to be the same. */
static bool traced_run(cj_plan *p, entry *e, cj_tensor *const *in, cj_tensor **out)
{
    cj_ctx *c = p->ctx;
    bool recorded = dry(c);
    cj_trace *t = trace_step(p, in, out, recorded);
    if (!t) return false;
    if (!e->trace) {
        e->trace = t;
        return !recorded || run_recorded(p, e, in, out);
    }
    e->compared = cj__trace_same(c, e->trace, t);
    cj__trace_free(t);
    if (!e->compared) return false;
    if (recorded) return run_recorded(p, e, in, out);
    if (e->compiled || compile(p, e)) return true;
    if (c->error != CJ_EMEMORY) return false;
    /* The step itself has been done, so too little memory for the plan is no failure of this call: the next one tries again, before it does anything. */
    c->error = CJ_OK;
    c->message[0] = 0;
    return true;
}

cj_plan *cj_capture(cj_ctx *c, cj_step_fn fn, void *user, cj_tensor *const *in, int n, cj_tensor **out)
{
    if (!c) return NULL;
    if (n < 0 || n > CJ_MAX_PLAN_INPUTS) {
        cj__error(c, CJ_EVALUE, "capture: %d inputs, at most %d are possible", n, CJ_MAX_PLAN_INPUTS);
        return NULL;
    }
    if (!fn) {
        cj__error(c, CJ_EVALUE, "capture: the step is NULL");
        return NULL;
    }
    if (!inputs_ok(c, "capture", in, n)) return NULL;
    cj_plan *p = cj__zalloc(c, sizeof *p);
    if (!p) return NULL;
    p->ctx = c;
    p->fn = fn;
    p->user = user;
    p->n_in = n;
    cj__object_add(c, &p->object, plan_free);
    entry *e = new_entry(p, in);
    if (e) e->used = ++p->clock;
    p->current = e;
    if (e && traced_run(p, e, in, out)) return p;
    cj_plan_free(p);
    return NULL;
}

bool cj_replay(cj_plan *p, cj_tensor *const *in, cj_tensor **out)
{
    if (!p) return false;
    cj_ctx *c = p->ctx;
    if (p->current) no_results(c, p->current->trace, out);
    if (!inputs_ok(c, "replay", in, p->n_in)) return false;
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "replay: called inside a captured step");
    entry *e = p->current;
    bool same = e && e->mode == c->mode && e->grad == c->grad_enabled;
    for (int k = 0; k < p->n_in && same; k++) same = key_fits(&e->key[k], in[k]);
    if (!same) e = find_entry(p, in);
    if (!e && !(e = new_entry(p, in))) return false;
    e->used = ++p->clock;
    p->current = e;
    if (!e->compared) return traced_run(p, e, in, out) || no_results(c, e->trace, out);
    if (!e->compiled && !compile(p, e)) return false;
    if (out && !hand_out(p, e, out)) return false;
    uint64_t before = c->memory.system_allocs;
    bool ok = c->backend ? run_device(p, e, in) : run_host(p, e, in);
    p->last_allocs = c->memory.system_allocs - before;
    for (int i = 0; c->backend && i < e->compiled->n; i++) bump_version(e, &e->compiled->kernel[i]);
    if (!ok) return no_results(c, e->trace, out);
    count_draws(c, e->trace);
    return true;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------------------------------------- */

static double flops_of(const cj_kernel *k)
{
    if (k->kind != CJ_KERNEL_FUSED) return k->call.op && k->call.op->flops ? k->call.op->flops(&k->call) : 0;
    double elements = 1;
    for (int d = 0; d < k->ndim; d++) elements *= (double)k->shape[d];
    return k->prog->n_instr * elements;
}

cj_plan_stats cj_plan_statistics(const cj_plan *p)
{
    cj_plan_stats s = { 0 };
    if (!p || !p->current) return s;
    const entry *e = p->current;
    for (int i = 0; i < p->n; i++) s.plans += p->entry[i]->compiled && p->entry[i]->compared;
    if (e->trace) s.operators = e->trace->n;
    s.compiled = e->compiled && e->compared;
    if (!e->compiled) return s;
    s.kernels = e->compiled->n;
    s.elementwise = e->compiled->fused;
    s.removed = e->compiled->removed;
    s.bytes = e->compiled->bytes;
    s.bound = e->compiled->bound;
    s.allocations = p->last_allocs;
    for (int i = 0; i < e->compiled->n; i++) s.flops += flops_of(&e->compiled->kernel[i]);
    return s;
}

bool cj_plan_print(const cj_plan *p, FILE *f)
{
    if (!p || !f || !p->current || !p->current->compiled) return false;
    const cj_compiled *k = p->current->compiled;
    static const char *const names[] = {
#define X(name, arity) #name,
        CJ_EW_OPS(X)
#undef X
    };
    fprintf(f, "%4s  %-22s %-28s %s\n", "", "kernel", "result", "what");
    for (int i = 0; i < k->n; i++) {
        const cj_kernel *q = &k->kernel[i];
        const cj_arg *y = q->kind == CJ_KERNEL_CALL
                              ? (q->step->nout ? &q->step->arg[q->step->nin] : &q->step->arg[q->step->nin ? 1 % q->step->nin : 0])
                              : &q->ew[q->prog->n_in];
        char shape[96];
        snprintf(shape, sizeof shape, "%s %s", cj_dtype_name((cj_dtype)y->dtype), cj__shape_text(y->ndim, y->shape));
        const char *slash = q->step->file ? strrchr(q->step->file, '/') : NULL;
        fprintf(f, "%4d  %-22s %-28s ", i, q->kind == CJ_KERNEL_FUSED ? "fused" : q->step->op->name, shape);
        if (q->kind != CJ_KERNEL_CALL)
            for (int j = 0; j < q->prog->n_instr; j++)
                fprintf(f, "%s%s", j ? " " : q->kind == CJ_KERNEL_PRODUCT ? "then " : "", names[q->prog->instr[j].code]);
        if (q->absorbed) fprintf(f, "then %s", q->update->step->op->name);
        if (q->step->file) fprintf(f, "  (%s:%d)", slash ? slash + 1 : q->step->file, q->step->line);
        fputc('\n', f);
    }
    fprintf(f, "%d kernels (%d elementwise) from %d operators, %d dead; %zu bytes planned, %zu live at once\n", k->n, k->fused,
            p->current->trace->n, k->removed, k->bytes, k->bound);
    return !ferror(f);
}
