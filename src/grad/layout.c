/* Where every temporary of a plan lives: liveness over the kernels, large results as late as possible, elementwise results in the place of an operand that ends there,
 * operands of concatenations inside their results, then offsets in one arena, each at the lowest place that is free during its life. */
#include <stdlib.h>

#include "grad/plan.h"
#include "ops/which.h"

#define ALIGN 64

static void touch(cj_trace *t, int slot, int k)
{
    cj_slot *s = &t->slot[slot];
    if (s->absorbed) return;
    if (s->first < 0) s->first = k;
    s->last = k;
}

/* The product of an in-place tail has no buffer of its own. */
static bool skipped(const cj_kernel *k, int slot)
{
    return k->kind == CJ_KERNEL_PRODUCT && k->in_place >= 0 && k->step->arg[k->step->nin].slot == slot;
}

void cj__plan_lives(cj_trace *t, const cj_compiled *p)
{
    for (int i = 0; i < t->n_slots; i++) t->slot[i].first = t->slot[i].last = -1;
    for (int i = 0; i < p->n; i++) {
        const cj_kernel *k = &p->kernel[i];
        if (k->kind != CJ_KERNEL_FUSED)
            for (int a = 0; a < k->step->nin + k->step->nout; a++)
                if (!skipped(k, k->step->arg[a].slot)) touch(t, k->step->arg[a].slot, i);
        if (k->kind != CJ_KERNEL_CALL)
            for (int a = 0; a < k->prog->n_in + k->prog->n_out; a++)
                if (!skipped(k, k->ew[a].slot)) touch(t, k->ew[a].slot, i);
    }
    for (int i = 0; i < t->n_slots; i++)
        if (t->slot[i].output && t->slot[i].first >= 0) t->slot[i].last = p->n;
    for (bool moved = true; moved;) { /* what lies in another slot is there before that slot is complete */
        moved = false;
        for (int i = 0; i < t->n_slots; i++) {
            cj_slot *whole = t->slot[i].inside ? &t->slot[t->slot[i].inside - 1] : NULL;
            if (!whole || whole->first <= t->slot[i].first) continue;
            whole->first = t->slot[i].first;
            moved = true;
        }
    }
}

/* ---- sharing ----------------------------------------------------------------------------------------------------------------------------------- */

enum { SHARED = 64 << 10 }; /* bytes from which on a result may take the place of an operand */

bool cj__lies_whole(const cj_trace *t, const cj_kernel *k, const cj_arg *a)
{
    int64_t run = 1;
    for (int d = k->ndim - 1; d >= 0; d--) {
        if (k->shape[d] != 1 && a->stride[d] != run) return false;
        run *= k->shape[d];
    }
    const cj_slot *s = &t->slot[a->slot];
    return s->kind == CJ_SLOT_TEMP && !s->device && a->dtype == k->prog->compute &&
           s->bytes == (size_t)run * cj_dtype_size((cj_dtype)a->dtype);
}

/* The input of an elementwise kernel whose place output o can take, because nobody reads it afterwards (and no output before o took it); -1: none.  The engine reads an
 * element of such an input before it writes there. */
static int shared_input(const cj_trace *t, const cj_compiled *p, int at, int o)
{
    const cj_kernel *k = &p->kernel[at];
    const cj_arg *y = &k->ew[k->prog->n_in + o];
    if (t->slot[y->slot].bytes < SHARED || t->slot[y->slot].first != at || t->slot[y->slot].inside || !cj__lies_whole(t, k, y)) return -1;
    for (int i = 0; i < k->prog->n_in; i++) {
        const cj_arg *x = &k->ew[i];
        const cj_slot *s = &t->slot[x->slot];
        if (s->last != at || s->first == at || s->bytes != t->slot[y->slot].bytes || !cj__lies_whole(t, k, x)) continue;
        bool free_to_take = true;
        for (int q = 0; q < k->prog->n_in; q++) free_to_take &= k->ew[q].slot != x->slot || cj__lies_whole(t, k, &k->ew[q]);
        for (int q = 0; q < o; q++) {
            const int taken = shared_input(t, p, at, q);
            free_to_take &= taken < 0 || k->ew[taken].slot != x->slot;
        }
        if (free_to_take) return i;
    }
    return -1;
}

typedef struct piece {
    int slot, first, last;
    size_t bytes;
} piece;

/* The orders in which the pieces are placed; none is the best for every step. */
static int larger_first(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : x->slot - y->slot;
}
static int longer_first(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    const int lx = x->last - x->first, ly = y->last - y->first;
    return lx != ly ? ly - lx : larger_first(a, b);
}
static int earlier_first(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : larger_first(a, b);
}
static int later_first(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->last != y->last ? y->last - x->last : larger_first(a, b);
}

static size_t piece_bytes(const cj_slot *s) { return ((s->bytes ? s->bytes : 1) + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* The lowest offset at which bytes fit beside the pieces already placed that live at the same time. */
static size_t lowest_fit(const cj_trace *t, const piece *placed, int n, const cj_slot *s, size_t bytes)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const cj_slot *o = &t->slot[placed[i].slot];
            if (o->last < s->first || o->first > s->last) continue;
            size_t begin = (size_t)o->offset, end = begin + placed[i].bytes;
            if (begin < at + bytes && at < end) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

/* Gives every piece its offset, in this order; returns what they need together. */
static size_t place_all(cj_trace *t, piece *list, int n, int (*order)(const void *, const void *))
{
    size_t bytes = 0;
    qsort(list, (size_t)n, sizeof *list, order);
    for (int i = 0; i < n; i++) {
        cj_slot *s = &t->slot[list[i].slot];
        s->offset = (int64_t)lowest_fit(t, list, i, s, list[i].bytes);
        if ((size_t)s->offset + list[i].bytes > bytes) bytes = (size_t)s->offset + list[i].bytes;
    }
    return bytes;
}

size_t cj__plan_most_live(const cj_trace *t, const cj_compiled *p, int *at)
{
    const size_t bytes = (size_t)(p->n + 2) * sizeof(int64_t);
    int64_t *change = cj__zalloc(t->ctx, bytes), live = 0, most = 0; /* at each kernel: what begins, less what ended with the one before */
    *at = 0;
    if (!change) return 0; /* the layout fails for it */
    for (int i = 0; i < t->n_slots; i++) {
        const cj_slot *s = &t->slot[i];
        if (s->kind != CJ_SLOT_TEMP || s->inside || s->first < 0) continue;
        change[s->first] += (int64_t)piece_bytes(s);
        change[s->last + 1] -= (int64_t)piece_bytes(s);
    }
    for (int k = 0; k <= p->n; k++) {
        int64_t shared = 0;
        for (int o = 0; k < p->n && p->kernel[k].kind == CJ_KERNEL_FUSED && o < p->kernel[k].prog->n_out; o++)
            if (shared_input(t, p, k, o) >= 0) shared += (int64_t)piece_bytes(&t->slot[p->kernel[k].ew[p->kernel[k].prog->n_in + o].slot]);
        live += change[k];
        if (live - shared > most) most = live - shared, *at = k;
    }
    cj__free(t->ctx, change, bytes);
    return (size_t)most;
}

/* ---- delays ------------------------------------------------------------------------------------------------------------------------------------ */

enum { LARGE = 256 << 10 }; /* bytes of a result that is worth a delay */

static bool has_slot(const cj_arg *arg, int n, int slot)
{
    for (int i = 0; i < n; i++)
        if (arg[i].slot == slot) return true;
    return false;
}

/* Does k touch what `late` makes, or change what it reads? */
static bool in_the_way(const cj_kernel *k, const cj_kernel *late)
{
    const cj_traced *s = late->step;
    if (k->kind != CJ_KERNEL_FUSED) {
        const int written = cj__writes(k->step->op, k->step->attrs);
        for (int a = 0; a < k->step->nin; a++)
            if (has_slot(s->arg + s->nin, s->nout, k->step->arg[a].slot) || (a < written && has_slot(s->arg, s->nin, k->step->arg[a].slot)))
                return true;
    }
    for (int a = 0; k->kind != CJ_KERNEL_CALL && a < k->prog->n_in; a++)
        if (has_slot(s->arg + s->nin, s->nout, k->ew[a].slot)) return true;
    return false;
}

/* The last place up to which kernel i can wait: before whoever needs it, and before the step begins to write.  i + 1: it stays, also where its operands, which would
 * have to wait with it, are not smaller than its result. */
static int late_place(const cj_trace *t, const cj_compiled *p, int i)
{
    const cj_kernel *k = &p->kernel[i];
    const cj_traced *s = k->step;
    size_t made = 0, held = 0;
    if (k->kind != CJ_KERNEL_CALL || s->op->flags & CJ_OP_WRITES || i >= p->first_write) return i + 1;
    for (int a = s->nin; a < s->nin + s->nout; a++) {
        if (t->slot[s->arg[a].slot].kind != CJ_SLOT_TEMP) return i + 1;
        made += t->slot[s->arg[a].slot].bytes;
    }
    int to = i + 1;
    while (made >= LARGE && to < p->first_write && !in_the_way(&p->kernel[to], k)) to++;
    for (int a = 0; a < s->nin; a++) {
        const cj_slot *x = &t->slot[s->arg[a].slot];
        if (x->kind == CJ_SLOT_TEMP && x->last < to) held += x->bytes;
    }
    return held < made ? to : i + 1;
}

/* Large results of small operands, as the gradients of weights are, are made as late as they can be, if less is alive at once then. */
static bool delay(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    int at;
    const size_t bytes = (size_t)(p->n + 1) * sizeof *p->kernel, before = cj__plan_most_live(t, p, &at);
    cj_kernel *was = cj__alloc(c, bytes);
    if (!was) return false;
    memcpy(was, p->kernel, (size_t)p->n * sizeof *was);
    for (int i = p->n - 1; i >= 0; i--) {
        const int to = late_place(t, p, i);
        if (to == i + 1) continue;
        const cj_kernel k = p->kernel[i];
        memmove(&p->kernel[i], &p->kernel[i + 1], (size_t)(to - 1 - i) * sizeof k);
        p->kernel[to - 1] = k;
        cj__plan_lives(t, p);
    }
    if (cj__plan_most_live(t, p, &at) > before - before / 20) { /* locality is worth more */
        memcpy(p->kernel, was, (size_t)p->n * sizeof *was);
        cj__plan_lives(t, p);
    }
    cj__free(c, was, bytes);
    return true;
}

/* ---- concatenations ---------------------------------------------------------------------------------------------------------------------------- */

/* Can operand a of the concatenation p->kernel[k], which begins `within` bytes into the result, be made there?  All of it lies in one piece and ends here. */
static bool fits_inside(const cj_trace *t, const cj_compiled *p, int k, int axis, int a, int64_t within)
{
    const cj_traced *s = p->kernel[k].step;
    const cj_arg *x = &s->arg[a], *y = &s->arg[s->nin];
    const cj_slot *slot = &t->slot[x->slot], *whole = &t->slot[y->slot];
    if (slot->kind != CJ_SLOT_TEMP || slot->inside || slot->device || slot->last != k) return false;
    if (whole->kind != CJ_SLOT_TEMP || y->offset || x->offset || x->dtype != y->dtype || !x->contiguous || within % ALIGN) return false;
    if (slot->bytes != (size_t)x->numel * cj_dtype_size((cj_dtype)x->dtype)) return false;
    for (int d = 0; d < axis; d++)
        if (y->shape[d] != 1) return false;
    for (int b = 0; b < s->nin; b++)
        if (b != a && s->arg[b].slot == x->slot) return false;
    return true;
}

/* Operands of concatenations are made where they are wanted, if that needs hardly more memory. */
static void nest(cj_trace *t, const cj_compiled *p)
{
    for (int k = 0, axis; k < p->n; k++) {
        const cj_traced *s = p->kernel[k].step;
        if (p->kernel[k].kind != CJ_KERNEL_CALL || !cj__op_is_cat(s->op, s->attrs, &axis)) continue;
        int at, whole = s->arg[s->nin].slot;
        const size_t before = cj__plan_most_live(t, p, &at);
        int64_t within = 0;
        for (int a = 0; a < s->nin; a++) {
            cj_slot *x = &t->slot[s->arg[a].slot];
            if (fits_inside(t, p, k, axis, a, within)) x->inside = whole + 1, x->within = within;
            within += s->arg[a].numel * (int64_t)cj_dtype_size((cj_dtype)s->arg[s->nin].dtype);
        }
        cj__plan_lives(t, p);
        if (cj__plan_most_live(t, p, &at) <= before + before / 32) continue;
        for (int a = 0; a < s->nin; a++)
            if (t->slot[s->arg[a].slot].inside == whole + 1) t->slot[s->arg[a].slot].inside = 0;
        cj__plan_lives(t, p);
    }
}

/* ---- places ------------------------------------------------------------------------------------------------------------------------------------ */

/* Results that take the place of an operand live as one slot with it: home[result] is the slot that stands for both, of other slots themselves. */
static void share(cj_trace *t, const cj_compiled *p, int *home)
{
    for (int i = 0; i < t->n_slots; i++) home[i] = i;
    for (int k = 0; k < p->n; k++) {
        const cj_kernel *x = &p->kernel[k];
        for (int o = 0; x->kind == CJ_KERNEL_FUSED && o < x->prog->n_out; o++) {
            const int i = shared_input(t, p, k, o);
            if (i >= 0) home[x->ew[x->prog->n_in + o].slot] = home[x->ew[i].slot];
        }
    }
    for (int i = 0; i < t->n_slots; i++) {
        if (home[i] == i) continue;
        if (t->slot[home[i]].last < t->slot[i].last) t->slot[home[i]].last = t->slot[i].last;
        t->slot[i].first = -1;
    }
}

static bool place(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    const size_t size = (size_t)(t->n_slots + 1) * (sizeof(piece) + sizeof(int));
    piece *list = cj__alloc(c, size);
    if (!list) return false;
    int n = 0, at, *home = (int *)(void *)(list + t->n_slots + 1);
    p->bound = cj__plan_most_live(t, p, &at);
    share(t, p, home);
    for (int i = 0; i < t->n_slots; i++)
        if (t->slot[i].kind == CJ_SLOT_TEMP && t->slot[i].first >= 0 && !t->slot[i].inside)
            list[n++] = (piece){ i, t->slot[i].first, t->slot[i].last, piece_bytes(&t->slot[i]) };
    static int (*const order[])(const void *, const void *) = { larger_first, longer_first, earlier_first, later_first };
    enum { ORDERS = sizeof order / sizeof *order };
    int best = 0;
    size_t least = SIZE_MAX;
    for (int i = 0; i < ORDERS && least > p->bound; i++) {
        const size_t bytes = place_all(t, list, n, order[i]);
        if (bytes < least) best = i, least = bytes;
    }
    p->bytes = place_all(t, list, n, order[best]);
    for (int i = 0; i < t->n_slots; i++) t->slot[i].offset = t->slot[home[i]].offset;
    for (int i = 0; i < t->n_slots; i++) { /* a result inside another, which may lie inside a third, made later */
        int64_t within = 0;
        int whole = i;
        for (; t->slot[whole].inside; whole = t->slot[whole].inside - 1) within += t->slot[whole].within;
        if (whole != i) t->slot[i].offset = t->slot[whole].offset + within;
    }
    cj__free(c, list, size);
    return true;
}

static void *pointer(const cj_trace *t, const cj_compiled *p, const cj_arg *a)
{
    const cj_slot *s = &t->slot[a->slot];
    switch (s->kind) {
    case CJ_SLOT_PERSISTENT: return (char *)s->st->data + a->offset;
    case CJ_SLOT_TEMP: return s->offset < 0 ? NULL : (char *)p->arena->data + s->offset + a->offset;
    default: return NULL; /* set at every replay */
    }
}

static void add_patch(cj_trace *t, cj_compiled *p, const cj_arg *a, void **at)
{
    const cj_slot *s = &t->slot[a->slot];
    if (s->kind == CJ_SLOT_INPUT) p->patch[p->n_patches++] = (struct cj_patch){ at, s->input, a->offset };
}

/* Headers and argument tables with final addresses: replay only calls. */
static bool bind(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    int total = 0;
    for (int i = 0; i < p->n; i++) {
        const cj_kernel *k = &p->kernel[i];
        total += k->kind == CJ_KERNEL_FUSED ? 0 : k->step->nin + k->step->nout;
        total += k->kind == CJ_KERNEL_CALL ? 0 : k->prog->n_in + k->prog->n_out;
    }
    p->patch = cj__region_alloc(c, &p->region, (size_t)(total + 1) * sizeof *p->patch);
    if (!p->patch) return false;
    for (int i = 0; i < p->n; i++) {
        cj_kernel *k = &p->kernel[i];
        if (k->kind != CJ_KERNEL_FUSED) {
            int n = k->step->nin + k->step->nout;
            k->header = cj__region_alloc(c, &p->region, (size_t)(n + 1) * sizeof *k->header);
            cj_tensor **list = cj__region_alloc(c, &p->region, (size_t)(n + 1) * sizeof *list);
            cj_storage *st = cj__region_alloc(c, &p->region, (size_t)(n + 1) * sizeof *st);
            if (!k->header || !list || !st) return false;
            for (int a = 0; a < n; a++) {
                const cj_arg *arg = &k->step->arg[a];
                cj_tensor *h = &k->header[a];
                *h = (cj_tensor){
                    .ctx = c, .st = &st[a], .numel = arg->numel, .refs = 1, .data_refs = 1, .dtype = arg->dtype, .ndim = arg->ndim
                };
                h->flags = arg->contiguous ? CJ_T_CONTIGUOUS : 0;
                memcpy(h->shape, arg->shape, sizeof h->shape);
                memcpy(h->stride, arg->stride, sizeof h->stride);
                st[a] = (cj_storage){ .refs = 1, .device = t->slot[arg->slot].device, .borrowed = 1 };
                if (t->slot[arg->slot].kind == CJ_SLOT_PERSISTENT && t->slot[arg->slot].st->parameter)
                    h->st = t->slot[arg->slot].st; /* kernels keep what they make of it */
                h->data = pointer(t, p, arg);
                add_patch(t, p, arg, (void **)&h->data);
                list[a] = h;
            }
            k->call = (cj_call){ c, k->step->op, k->step->attrs, list, list + k->step->nin, k->step->nin, k->step->nout };
        }
        if (k->kind != CJ_KERNEL_CALL) {
            int n = k->prog->n_in + k->prog->n_out;
            k->args = cj__region_alloc(c, &p->region, (size_t)n * sizeof *k->args);
            if (!k->args) return false;
            for (int a = 0; a < n; a++) {
                k->args[a].dtype = (cj_dtype)k->ew[a].dtype;
                memcpy(k->args[a].stride, k->ew[a].stride, sizeof k->args[a].stride);
                k->args[a].data = pointer(t, p, &k->ew[a]);
                add_patch(t, p, &k->ew[a], &k->args[a].data);
            }
            if (k->kind == CJ_KERNEL_PRODUCT) { /* the program reads the product where the product writes */
                void *c_data = k->in_place >= 0 ? k->args[k->prog->n_in + k->in_place].data : k->args[k->product_input].data;
                k->call.out[0]->data = c_data;
                k->args[k->product_input].data = c_data;
            }
        }
    }
    return true;
}

bool cj__plan_layout(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    const bool device = c->backend != NULL;
    for (int i = 0; i < t->n_slots; i++) t->slot[i].absorbed = false;
    cj__plan_lives(t, p);
    if (!delay(c, t, p) || (!device && !cj__plan_recompute(c, t, p))) return false;
    if (!device) cj__plan_absorb(c, t, p);
    nest(t, p);
    if (!place(c, t, p) || c->error) return false;
    if (!device) cj_memory_trim(c); /* what the trace and earlier steps left would lie beside the arena, unused */
    p->arena = cj__storage_new(c, p->bytes ? p->bytes : 64, device);
    if (!p->arena) return false;
    p->arena->persistent = 1;
    return bind(c, t, p);
}
