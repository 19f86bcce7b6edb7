/* Less memory for a plan: results that are cheap to make are made again.
 *
 * What a step computes on the way forward and needs again on the way back lies in memory all the time between.  Where such a value is an elementwise chain, a layer or
 * a batch norm of something that is there anyway (the activation of a layer whose input its own derivative reads, too), keeping it costs its bytes and making it again a few passes
 * over memory.  So, while some large value lives across the moment of most memory without being used there, is cheap and has its operands at hand later, a second kernel
 * makes it again before its first use after that moment (Chen et al., "Training deep nets with sublinear memory cost", 2016, for chains that are worth it without asking).
 * For a very large value one operand, if it is cheap itself, is made again, too: the norm before a residual sum.  The kernels are the same, so the bits are.
 */
#include "grad/plan.h"
#include "ops/which.h"

enum {
    LARGE = 1 << 20, /* bytes of a value that is worth another kernel */
    MOST = 64,       /* values that are made again */
    WORTH = 10,      /* all of this stays undone where it saves less than a tenth */
    CHAIN = 20,      /* a value that is worth two kernels has this part of the memory at least */
};

static bool touches(const cj_kernel *k, int slot)
{
    if (k->kind != CJ_KERNEL_FUSED)
        for (int a = 0; a < k->step->nin + k->step->nout; a++)
            if (k->step->arg[a].slot == slot) return true;
    if (k->kind != CJ_KERNEL_CALL)
        for (int a = 0; a < k->prog->n_in + k->prog->n_out; a++)
            if (k->ew[a].slot == slot) return true;
    return false;
}

static bool writes(const cj_kernel *k, int slot)
{
    if (k->kind == CJ_KERNEL_FUSED) return false;
    for (int a = 0, n = cj__writes(k->step->op, k->step->attrs); a < n; a++)
        if (k->step->arg[a].slot == slot) return true;
    return false;
}

/* The arguments of a cheap kernel that makes `slot`, and how many of them are read; NULL where it is another kind of kernel. */
static const cj_arg *cheap_arguments(const cj_kernel *k, int slot, int *reads)
{
    if (k->kind == CJ_KERNEL_FUSED && k->prog->n_out == 1 && k->ew[k->prog->n_in].slot == slot) {
        *reads = k->prog->n_in;
        return k->ew;
    }
    if (k->kind == CJ_KERNEL_CALL && (cj__op_is_layer_norm(k->step->op) || cj__op_is_batch_norm(k->step->op)) &&
        k->step->arg[k->step->nin].slot == slot) {
        *reads = k->step->nin;
        return k->step->arg;
    }
    return NULL;
}

enum { NONE = -1, TOO_MANY = -2 };

/* The one temporary operand of kernel `made` that is gone before kernel `again`; NONE where all are still there, unchanged. */
static int gone(const cj_trace *t, const cj_compiled *p, const cj_arg *arg, int n, int made, int again)
{
    int missing = NONE;
    for (int a = 0; a < n; a++) {
        const int slot = arg[a].slot;
        const cj_slot *s = &t->slot[slot];
        for (int k = made + 1; k < again; k++)
            if (writes(&p->kernel[k], slot)) return TOO_MANY;
        if (slot == missing || (s->kind == CJ_SLOT_TEMP ? s->last >= again : again <= p->first_write)) continue;
        if (s->kind != CJ_SLOT_TEMP || missing != NONE) return TOO_MANY;
        missing = slot;
    }
    return missing;
}

static bool is_written(const cj_trace *t, const cj_compiled *p, int slot)
{
    for (int k = t->slot[slot].first + 1; k < p->n; k++)
        if (writes(&p->kernel[k], slot)) return true;
    return false;
}

/* The operand that has to be made again first, for `slot` to be made before kernel `again`; NONE where all are there, TOO_MANY where it cannot be done. */
static int needed(const cj_trace *t, const cj_compiled *p, int slot, int again)
{
    const cj_slot *s = &t->slot[slot];
    int reads;
    const cj_arg *arg = s->first < 0 ? NULL : cheap_arguments(&p->kernel[s->first], slot, &reads);
    return !arg || is_written(t, p, slot) ? TOO_MANY : gone(t, p, arg, reads, s->first, again);
}

/* Can this slot be made again behind kernel `peak`, where `most` bytes live?  Then the kernel that first uses it there, and the operand to make before; else -1. */
static int use_behind(const cj_trace *t, const cj_compiled *p, int slot, int peak, size_t most, int *operand)
{
    const cj_slot *s = &t->slot[slot];
    if (s->kind != CJ_SLOT_TEMP || s->output || s->bytes < LARGE || s->first < 0 || s->first >= peak || s->last <= peak) return -1;
    if (touches(&p->kernel[peak], slot)) return -1;
    int again = peak + 1;
    while (!touches(&p->kernel[again], slot)) again++;
    *operand = needed(t, p, slot, again);
    if (*operand >= 0 && (s->bytes < most / CHAIN || needed(t, p, *operand, again) != NONE)) return -1;
    return *operand == TOO_MANY ? -1 : again;
}

/* A copy of the arguments with `from` renamed. */
static cj_arg *renamed(cj_ctx *c, cj_compiled *p, const cj_arg *arg, int n, int from, int to)
{
    cj_arg *own = cj__region_alloc(c, &p->region, (size_t)(n + 1) * sizeof *own);
    for (int a = 0; a < n && own; a++) {
        own[a] = arg[a];
        if (own[a].slot == from) own[a].slot = to;
    }
    return own;
}

bool cj__kernel_rename(cj_ctx *c, cj_compiled *p, cj_kernel *k, int from, int to)
{
    if (!touches(k, from)) return true;
    if (k->kind != CJ_KERNEL_FUSED) {
        cj_traced *own = cj__region_alloc(c, &p->region, sizeof *own);
        if (!own) return false;
        *own = *k->step;
        own->arg = renamed(c, p, k->step->arg, k->step->nin + k->step->nout, from, to);
        if (!own->arg) return false;
        k->step = own;
    }
    if (k->kind == CJ_KERNEL_CALL) return true;
    k->ew = renamed(c, p, k->ew, CJ_EW_MAX_ARGS, from, to);
    return k->ew != NULL;
}

/* Kernel `made` a second time before `again`; from there on its first result is the new slot, which is returned; -1 after an error. */
static int make_again(cj_ctx *c, cj_trace *t, cj_compiled *p, int made, int again)
{
    cj_kernel copy = p->kernel[made];
    const bool call = copy.kind == CJ_KERNEL_CALL;
    const int results = call ? copy.step->nout : 1;
    int fresh = -1;
    for (int j = 0; j < results; j++) {
        const int from = call ? copy.step->arg[copy.step->nin + j].slot : copy.ew[copy.prog->n_in].slot, to = cj__trace_slot_like(t, from);
        if (to < 0 || !cj__kernel_rename(c, p, &copy, from, to)) return -1;
        if (j > 0) continue; /* the statistics of a norm are small and stay where they are */
        fresh = to;
        for (int k = again; k < p->n; k++)
            if (!cj__kernel_rename(c, p, &p->kernel[k], from, to)) return -1;
    }
    memmove(&p->kernel[again + 1], &p->kernel[again], (size_t)(p->n - again) * sizeof copy);
    p->kernel[again] = copy;
    p->n++;
    p->fused += copy.kind == CJ_KERNEL_FUSED;
    if (p->first_write >= again) p->first_write++;
    return fresh;
}

/* The slot again before `again`, after the operand that it needs, if any. */
static bool make_with(cj_ctx *c, cj_trace *t, cj_compiled *p, int slot, int operand, int again)
{
    if (operand == NONE) return make_again(c, t, p, t->slot[slot].first, again) >= 0;
    const int fresh = make_again(c, t, p, t->slot[operand].first, again);
    return fresh >= 0 && make_again(c, t, p, t->slot[slot].first, again + 1) >= 0 &&
           cj__kernel_rename(c, p, &p->kernel[again + 1], operand, fresh);
}

bool cj__plan_recompute(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    const size_t bytes = (size_t)(p->n + MOST + 1) * sizeof *p->kernel;
    cj_kernel *before = p->kernel, *list = cj__region_alloc(c, &p->region, bytes);
    if (!list) return false;
    memcpy(list, p->kernel, (size_t)p->n * sizeof *list);
    const int n = p->n, fused = p->fused, first_write = p->first_write;
    int peak;
    const size_t was = cj__plan_most_live(t, p, &peak);
    p->kernel = list;
    while (p->n < n + MOST) {
        const size_t most = cj__plan_most_live(t, p, &peak);
        int best = -1, at = -1, first = NONE;
        for (int i = 0; i < t->n_slots; i++) {
            if (best >= 0 && t->slot[i].bytes <= t->slot[best].bytes) continue;
            int operand;
            const int again = use_behind(t, p, i, peak, most, &operand);
            if (again >= 0) best = i, at = again, first = operand;
        }
        if (best < 0) break;
        if (!make_with(c, t, p, best, first, at)) return false;
        cj__plan_lives(t, p);
    }
    if (cj__plan_most_live(t, p, &peak) > was - was / WORTH) {
        p->kernel = before, p->n = n, p->fused = fused, p->first_write = first_write;
        cj__plan_lives(t, p);
    }
    return true;
}
