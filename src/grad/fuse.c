/* From a trace to kernels: dead steps go, elementwise chains become one program each, and a chain on the result of a product runs as the product's tail.
 *
 * A chain (group) is open while further elementwise steps of the same shape and compute type may join it.  It is placed where it closes: when a step that
 * is not elementwise-aligned with it reads one of its values, when something is written, or at the end.  Until then nobody has read what it makes, so running its members
 * later than they were recorded changes nothing.  The members are the same instructions that eager mode runs, so the bits are the same
 * (of bf16 and f16 what stays inside is not rounded).
 */
#include "grad/plan.h"
#include "ops/product.h"
#include "ops/which.h"

#define MAX_VALUES 96

/* A tail saves a small product the start of another kernel, and a huge one a trip to memory.  In between the result is still in the caches when a kernel of its own
 * comes for it, in longer rows than the blocks of a product: 784-512-512-10 steps were 7 to 15 % slower with tails. */
#define TAIL_SMALL 4096
#define TAIL_LARGE ((int64_t)1 << 24)

/* A value inside a group: loaded, constant or computed. */
typedef struct value {
    cj_arg arg; /* of loads and results; strides of loads are over the group's shape */
    bool loaded, constant;
    double number;
    cj_ew_instr instr; /* of results: a, b, c are value numbers */
    int inside;        /* reads by members of the group */
    int last;          /* instruction that reads it last */
    int reg;
} value;

typedef struct group {
    int ndim, n, loads, results;
    int64_t shape[CJ_MAX_DIMS];
    cj_dtype compute;
    value v[MAX_VALUES];
    int members;
    struct group *next;
    cj_traced *first;
} group;

typedef struct fuser {
    cj_ctx *c;
    cj_trace *t;
    cj_compiled *p;
    group *open;   /* oldest first */
    cj_region own; /* what is needed until the kernels are made */
    bool device;
    int *producer; /* per slot: the step that made it, or -1 */
    group **owner; /* per slot: the open group that makes it, or NULL */
    int room;
} fuser;

/* ---- dead code ------------------------------------------------------------------------------------------------------------------------------------ */

static bool has_effect(const cj_trace *t, const cj_traced *s)
{
    for (int i = 0, n = cj__writes(s->op, s->attrs); i < n; i++)
        if (t->slot[s->arg[i].slot].kind != CJ_SLOT_TEMP) return true;
    return false;
}

/* From the end: a step lives if it writes something lasting or something that is still wanted. */
static void find_live(cj_trace *t)
{
    for (int i = t->n - 1; i >= 0; i--) {
        cj_traced *s = &t->step[i];
        bool live = has_effect(t, s);
        for (int j = 0; j < s->nout && !live; j++) {
            const cj_slot *slot = &t->slot[s->arg[s->nin + j].slot];
            live = slot->uses > 0 || slot->output || slot->kind != CJ_SLOT_TEMP;
        }
        for (int k = 0, n = cj__writes(s->op, s->attrs); k < n && !live; k++)
            live = t->slot[s->arg[k].slot].uses > 0 || t->slot[s->arg[k].slot].output;
        s->live = live;
        for (int k = 0; k < s->nin && live; k++) t->slot[s->arg[k].slot].uses++;
    }
}

/* ---- groups --------------------------------------------------------------------------------------------------------------------------------------------- */

static bool same_shape(int na, const int64_t *a, int nb, const int64_t *b) { return na == nb && memcmp(a, b, (size_t)na * sizeof *a) == 0; }

/* Zeros and ones as numbers: a copy, which the f32 engine makes of what it has computed or loads. */
static bool is_indicator(const fuser *f, const cj_traced *s)
{
    return !f->device && cj__op_is_cast(s->op) && s->arg[0].dtype == CJ_BOOL && s->arg[1].dtype == CJ_F32;
}
static int code_of(const cj_traced *s) { return s->op->ew ? s->op->ew - 1 : CJ_EW_COPY; }
static cj_dtype compute_of(const cj_traced *s) { return s->op->ew ? s->compute : CJ_F32; }

static bool fusible(const fuser *f, const cj_traced *s)
{
    if (!s->op->ew) return is_indicator(f, s);
    const cj_arg *y = &s->arg[s->nin];
    if (s->compute == CJ_I64) return y->dtype == CJ_I64 || y->dtype == CJ_BOOL; /* narrower integers wrap when stored */
    return true;
}

/* Logic on booleans gives 0 or 1 in any compute type. */
static bool any_compute(const cj_traced *s)
{
    int code = code_of(s);
    if (code != CJ_EW_AND && code != CJ_EW_OR && code != CJ_EW_XOR && code != CJ_EW_NOT) return false;
    for (int i = 0; i < s->nin; i++)
        if (s->arg[i].dtype != CJ_BOOL) return false;
    return true;
}

static int find_value(const group *g, int slot)
{
    for (int i = 0; i < g->n; i++)
        if (!g->v[i].loaded && !g->v[i].constant && g->v[i].arg.slot == slot) return i;
    return -1;
}

/* The argument read over the group's shape: leading and size-1 dimensions have stride 0. */
static void widen(const group *g, const cj_arg *a, cj_arg *wide)
{
    *wide = *a;
    int lead = g->ndim - a->ndim;
    for (int d = 0; d < g->ndim; d++) {
        wide->shape[d] = g->shape[d];
        wide->stride[d] = d < lead || (a->shape[d - lead] == 1 && g->shape[d] != 1) ? 0 : a->stride[d - lead];
    }
    wide->ndim = (uint8_t)g->ndim;
}

static bool constant_of(const fuser *f, const cj_arg *a, double *number)
{
    int p = f->producer[a->slot];
    if (p < 0 || f->t->slot[a->slot].output) return false;
    double v;
    if (!cj__full_value(f->t->step[p].op, f->t->step[p].attrs, &v)) return false;
    double stored = 0; /* as eager mode has it: rounded to the constant's dtype */
    cj__store((cj_dtype)a->dtype, &stored, v);
    cj_tensor t = { .data = (char *)&stored, .dtype = a->dtype };
    *number = cj__load(&t, 0);
    return true;
}

static bool emit(fuser *f, cj_kernel k)
{
    cj_compiled *p = f->p;
    if (p->n == f->room) return cj__error(f->c, CJ_ESTATE, "plan: more kernels than steps");
    p->kernel[p->n++] = k;
    return true;
}

/* Numbers registers: loads first, then each result takes the register of a value that is not read any more, or a new one. */
static int assign_registers(group *g)
{
    int n_regs = 0, n_loads = 0, free_regs[MAX_VALUES], n_free = 0;
    for (int i = 0; i < g->n; i++)
        if (g->v[i].loaded) g->v[i].reg = n_loads++;
    n_regs = n_loads;
    for (int i = 0; i < g->n; i++) {
        value *v = &g->v[i];
        if (v->loaded) continue;
        v->reg = n_free ? free_regs[--n_free] : n_regs++;
        for (int k = 0; k < i; k++) { /* computed values whose last reader is this one */
            value *u = &g->v[k];
            if (!u->loaded && u->last == i) free_regs[n_free++] = u->reg;
        }
    }
    return n_regs;
}

/* For each value the instruction that reads it last; what somebody else reads is stored and so lives to the end of the program. */
static void find_last(const fuser *f, group *g)
{
    static const uint8_t arity[] = {
#define X(name, n) n,
        CJ_EW_OPS(X)
#undef X
    };
    for (int i = 0; i < g->n; i++) g->v[i].last = -1;
    for (int i = 0; i < g->n; i++) {
        value *v = &g->v[i];
        if (v->loaded || v->constant) continue;
        const uint8_t operand[3] = { v->instr.a, v->instr.b, v->instr.c };
        for (int j = 0; j < arity[v->instr.code] && j < 3; j++) g->v[operand[j]].last = i;
    }
    for (int i = 0; i < g->n; i++) {
        value *v = &g->v[i];
        if (v->loaded || v->constant) continue;
        const cj_slot *s = &f->t->slot[v->arg.slot];
        if (s->uses > v->inside || s->output) v->last = MAX_VALUES;
    }
}

/* Makes the program of a group and places it here. */
static bool close_group(fuser *f, group *g)
{
    group **link = &f->open;
    while (*link && *link != g) link = &(*link)->next;
    if (*link) *link = g->next;
    cj_ctx *c = f->c;
    cj_kernel k = { .kind = CJ_KERNEL_FUSED, .ndim = g->ndim, .in_place = -1, .step = g->first, .members = g->members };
    memcpy(k.shape, g->shape, sizeof k.shape);
    k.prog = cj__region_alloc(c, &f->p->region, sizeof *k.prog);
    k.ew = cj__region_alloc(c, &f->p->region, CJ_EW_MAX_ARGS * sizeof *k.ew);
    if (!k.prog || !k.ew) return false;
    int n_out = 0;
    find_last(f, g);
    for (int i = 0; i < g->n; i++)
        if (!g->v[i].loaded && !g->v[i].constant) f->owner[g->v[i].arg.slot] = NULL;
    cj_ew_prog *p = k.prog;
    p->compute = g->compute;
    p->n_regs = assign_registers(g);
    for (int i = 0; i < g->n; i++)
        if (g->v[i].loaded) k.ew[p->n_in++] = g->v[i].arg;
    for (int i = 0; i < g->n; i++) {
        value *v = &g->v[i];
        if (v->loaded) continue;
        cj_ew_instr in = v->instr;
        if (v->constant) in = (cj_ew_instr){ .code = CJ_EW_CONST, .s = v->number };
        else in.a = (uint8_t)g->v[v->instr.a].reg, in.b = (uint8_t)g->v[v->instr.b].reg, in.c = (uint8_t)g->v[v->instr.c].reg;
        in.dst = (uint8_t)v->reg;
        p->instr[p->n_instr++] = in;
        if (!v->constant && v->last == MAX_VALUES) {
            p->out[n_out] = (uint8_t)v->reg;
            k.ew[p->n_in + n_out++] = v->arg;
        }
    }
    p->n_out = n_out;
    return n_out == 0 || emit(f, k);
}

static bool close_all(fuser *f)
{
    while (f->open)
        if (!close_group(f, f->open)) return false;
    return true;
}

/* Closes the groups whose values the arguments of s read, except `joined`. */
static bool close_read(fuser *f, const cj_traced *s, const group *joined)
{
    for (int i = 0; i < s->nin; i++) {
        group *g = f->owner[s->arg[i].slot];
        if (g && g != joined && !close_group(f, g)) return false;
    }
    return true;
}

static group *group_new(fuser *f, const cj_traced *s)
{
    const cj_arg *y = &s->arg[s->nin];
    group *g = cj__region_alloc(f->c, &f->own, sizeof *g);
    if (!g) return NULL;
    g->ndim = y->ndim;
    memcpy(g->shape, y->shape, sizeof g->shape);
    g->compute = compute_of(s);
    group **link = &f->open;
    while (*link) link = &(*link)->next;
    *link = g;
    return g;
}

/* Can s read argument i from group g as it is computed there? */
static bool aligned(const group *g, const cj_arg *a)
{
    int k = find_value(g, a->slot);
    if (k < 0 || a->offset != 0 || !same_shape(a->ndim, a->shape, g->ndim, g->shape)) return false;
    const cj_arg *own = &g->v[k].arg; /* row-major, or as it was made */
    return (a->contiguous && own->contiguous) || memcmp(a->stride, own->stride, a->ndim * sizeof a->stride[0]) == 0;
}

static bool compatible(const group *g, const cj_traced *s)
{
    const cj_arg *y = &s->arg[s->nin];
    return same_shape(y->ndim, y->shape, g->ndim, g->shape) && (g->compute == compute_of(s) || any_compute(s));
}

static int count_args(const fuser *f, const group *g)
{
    int n = g->loads;
    for (int i = 0; i < g->n; i++)
        if (!g->v[i].loaded && !g->v[i].constant &&
            (f->t->slot[g->v[i].arg.slot].uses > g->v[i].inside || f->t->slot[g->v[i].arg.slot].output))
            n++;
    return n;
}

static bool has_room(const fuser *f, group *g, const cj_traced *s)
{
    _Static_assert(CJ_EW_MAX_REGS <= CJ_EW_MAX_ARGS, "every argument has a register until the end");
    if (g->n + s->nin + 1 > MAX_VALUES || g->results + s->nin + 1 > CJ_EW_MAX_INSTR) return false;
    find_last(f, g);
    return assign_registers(g) + s->nin + 1 <= CJ_EW_MAX_REGS;
}

/* Moves everything of b into a. */
static bool merge(fuser *f, group *a, group *b)
{
    if (a->n + b->n + 4 > MAX_VALUES || a->results + b->results + 4 > CJ_EW_MAX_INSTR ||
        count_args(f, a) + count_args(f, b) + 4 > CJ_EW_MAX_ARGS)
        return false;
    int base = a->n;
    for (int i = 0; i < b->n; i++) {
        value v = b->v[i];
        v.instr.a = (uint8_t)(v.instr.a + base);
        v.instr.b = (uint8_t)(v.instr.b + base);
        v.instr.c = (uint8_t)(v.instr.c + base);
        a->v[a->n++] = v;
        if (!v.loaded && !v.constant) f->owner[v.arg.slot] = a;
    }
    a->loads += b->loads;
    a->results += b->results;
    a->members += b->members;
    group **link = &f->open;
    while (*link && *link != b) link = &(*link)->next;
    if (*link) *link = b->next;
    return true;
}

/* Tells 0 from -0, and a NaN is itself. */
static bool same_bits(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static int operand(fuser *f, group *g, const cj_arg *a)
{
    double number;
    if (f->owner[a->slot] == g) {
        int k = find_value(g, a->slot);
        g->v[k].inside++;
        return k;
    }
    value v = { 0 };
    if (constant_of(f, a, &number)) {
        for (int i = 0; i < g->n; i++)
            if (g->v[i].constant && same_bits(g->v[i].number, number)) return i;
        v.constant = true;
        v.number = number;
        g->results++;
    } else {
        widen(g, a, &v.arg);
        for (int i = 0; i < g->n; i++)
            if (g->v[i].loaded && g->v[i].arg.slot == a->slot && g->v[i].arg.offset == a->offset && g->v[i].arg.dtype == a->dtype &&
                memcmp(g->v[i].arg.stride, v.arg.stride, (size_t)g->ndim * sizeof v.arg.stride[0]) == 0)
                return i;
        v.loaded = true;
        g->loads++;
    }
    g->v[g->n] = v;
    return g->n++;
}

static bool add_step(fuser *f, cj_traced *s)
{
    group *g = NULL;
    for (int i = 0; i < s->nin; i++) { /* the group of an argument, or several merged */
        group *o = f->owner[s->arg[i].slot];
        if (!o || o == g || !compatible(o, s) || !aligned(o, &s->arg[i])) continue;
        if (!g) g = o;
        else if (g->compute == o->compute) merge(f, g, o);
    }
    for (int i = 0; i < s->nin && g; i++) /* a value of this very group read in another way: it must exist first */
        if (f->owner[s->arg[i].slot] == g && !aligned(g, &s->arg[i])) g = NULL;
    if (g && !has_room(f, g, s)) g = NULL;
    if (!close_read(f, s, g)) return false;
    if (!g && !(g = group_new(f, s))) return false;
    if (!g->first) g->first = s;
    value v = { .arg = s->arg[s->nin], .instr = { .code = (uint8_t)code_of(s) } };
    if (cj__ew_has_scalar(code_of(s))) v.instr.s = *(const double *)s->attrs;
    int k[3] = { 0 };
    for (int i = 0; i < s->nin; i++) k[i] = operand(f, g, &s->arg[i]);
    v.instr.a = (uint8_t)k[0], v.instr.b = (uint8_t)k[1], v.instr.c = (uint8_t)k[2];
    g->v[g->n++] = v;
    g->results++;
    g->members++;
    f->owner[s->arg[s->nin].slot] = g;
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------------------------------------------- */

/* All of a temporary that nobody writes again. */
static bool whole_temporary(const fuser *f, const cj_kernel *k, const cj_arg *a)
{
    if (!cj__lies_whole(f->t, k, a)) return false;
    for (int i = 0; i < f->p->n; i++) {
        const cj_traced *w = f->p->kernel[i].step;
        for (int b = 0, n = f->p->kernel[i].kind == CJ_KERNEL_CALL ? cj__writes(w->op, w->attrs) : 0; b < n; b++)
            if (w->arg[b].slot == a->slot) return false;
    }
    return true;
}

/* x · 1, as the gradient of a sum is made. */
static bool is_times_one(const cj_kernel *k)
{
    const cj_ew_prog *p = k->prog;
    if (k->kind != CJ_KERNEL_FUSED || k->dead || p->n_in != 1 || p->n_out != 1 || (p->compute != CJ_F32 && p->compute != CJ_F64))
        return false;
    if (p->n_instr == 1) return p->instr[0].code == CJ_EW_MULS && p->instr[0].s == 1 && p->instr[0].a == 0;
    return p->n_instr == 2 && p->instr[0].code == CJ_EW_CONST && p->instr[0].s == 1 && p->instr[1].code == CJ_EW_MUL &&
           p->instr[1].a + p->instr[1].b == p->instr[0].dst && p->out[0] == p->instr[1].dst; /* the input is register 0 */
}

/* Who reads such a product reads its factor instead. */
static bool remove_copies(fuser *f)
{
    cj_compiled *p = f->p;
    for (int i = 0; i < p->n; i++) {
        cj_kernel *k = &p->kernel[i];
        if (!is_times_one(k) || f->t->slot[k->ew[1].slot].output || !whole_temporary(f, k, &k->ew[0]) || !whole_temporary(f, k, &k->ew[1]))
            continue;
        for (int other = i + 1; other < p->n; other++)
            if (!cj__kernel_rename(f->c, p, &p->kernel[other], k->ew[1].slot, k->ew[0].slot)) return false;
        k->dead = true;
    }
    return true;
}

/* ---- tails ----------------------------------------------------------------------------------------------------------------------------------------------------- */

/* A product whose result is one row-major matrix made by one call of the GEMM. */
static bool plain_product(const cj_kernel *k)
{
    if (k->kind != CJ_KERNEL_CALL || k->dead || k->step->arg[k->step->nin].dtype != CJ_F32) return false;
    if (cj__op_is_linear(k->step->op)) return true;
    return cj__op_is_matmul(k->step->op) && k->step->arg[2].ndim == 2;
}

/* The program argument steps evenly over the rows and columns of an [m, n] matrix: columns by 0 or 1. */
static bool matrix_strides(const cj_kernel *k, const cj_arg *a, int64_t *row, int64_t *column)
{
    int last = k->ndim - 1;
    *column = k->shape[last] == 1 ? 1 : a->stride[last];
    if (*column != 0 && *column != 1) return false;
    *row = 0;
    int64_t size = 1;
    bool any = false;
    for (int d = last - 1; d >= 0; d--) {
        if (k->shape[d] == 1) continue;
        if (!any) *row = a->stride[d];
        else if (a->stride[d] != *row * size) return false;
        any = true;
        size *= k->shape[d];
    }
    return true;
}

bool cj__kernel_reads(const cj_kernel *k, int slot)
{
    if (k->dead) return false;
    if (k->kind != CJ_KERNEL_FUSED)
        for (int i = 0; i < k->step->nin; i++)
            if (k->step->arg[i].slot == slot) return true;
    if (k->kind != CJ_KERNEL_CALL)
        for (int i = 0; i < k->prog->n_in; i++)
            if (k->ew[i].slot == slot) return true;
    return false;
}

static bool kernel_makes(const cj_kernel *k, int slot)
{
    if (k->dead) return false;
    if (k->kind != CJ_KERNEL_FUSED) /* a product with a tail may be read itself, too */
        for (int j = 0; j < k->step->nout; j++)
            if (k->step->arg[k->step->nin + j].slot == slot) return true;
    if (k->kind != CJ_KERNEL_CALL)
        for (int j = 0; j < k->prog->n_out; j++)
            if (k->ew[k->prog->n_in + j].slot == slot) return true;
    return false;
}

/* Where the product with this chain as its tail can stand: at the chain's place (the product waits), at the product's (the chain comes earlier), or nowhere (-1). */
static int tail_place(const fuser *f, int product, int chain, int input)
{
    const cj_compiled *p = f->p;
    const cj_kernel *q = &p->kernel[product], *k = &p->kernel[chain];
    const cj_arg *y = &q->step->arg[q->step->nin], *a = &k->ew[input];
    int64_t row, column;
    if (k->prog->compute != CJ_F32 || y->numel == 0 || k->ndim < 1) return -1;
    if (y->numel > TAIL_SMALL && y->numel < TAIL_LARGE) return -1;
    if (!same_shape(y->ndim, y->shape, k->ndim, k->shape) || a->offset != 0 ||
        memcmp(a->stride, y->stride, y->ndim * sizeof y->stride[0]) != 0)
        return -1;
    for (int i = 0; i < k->prog->n_in + k->prog->n_out; i++)
        if (!matrix_strides(k, &k->ew[i], &row, &column) || (i != input && k->ew[i].slot == a->slot)) return -1;
    bool wait = true, early = true;
    for (int other = product + 1; other < chain; other++) {
        const cj_kernel *o = &p->kernel[other];
        if (o->dead) continue;
        if (o->kind == CJ_KERNEL_CALL && o->step->op->flags & CJ_OP_WRITES) return -1;
        if (cj__kernel_reads(o, a->slot)) wait = false;
        for (int i = 0; i < k->prog->n_in; i++)
            if (kernel_makes(o, k->ew[i].slot)) early = false;
    }
    return wait ? chain : early ? product : -1;
}

static bool read_elsewhere(const fuser *f, int slot, int chain)
{
    if (f->t->slot[slot].output) return true;
    for (int other = 0; other < f->p->n; other++)
        if (other != chain && cj__kernel_reads(&f->p->kernel[other], slot)) return true;
    return false;
}

static bool attach_tail(fuser *f, int chain)
{
    cj_compiled *p = f->p;
    cj_kernel *k = &p->kernel[chain];
    for (int product = chain - 1; product >= 0; product--) {
        cj_kernel *q = &p->kernel[product];
        if (!plain_product(q)) continue;
        int made = q->step->arg[q->step->nin].slot;
        for (int i = 0; i < k->prog->n_in; i++) {
            int at = k->ew[i].slot == made ? tail_place(f, product, chain, i) : -1;
            if (at < 0) continue;
            cj_kernel both = *k;
            both.kind = CJ_KERNEL_PRODUCT;
            both.step = q->step;
            both.product_input = i;
            both.in_place = -1;
            for (int j = 0; j < k->prog->n_out && !read_elsewhere(f, made, chain); j++)
                if (k->ew[k->prog->n_in + j].dtype == CJ_F32) both.in_place = j;
            k->dead = q->dead = true;
            p->kernel[at] = both;
            return true;
        }
    }
    return false;
}

static void attach_tails(fuser *f)
{
    for (int chain = 0; chain < f->p->n; chain++)
        if (f->p->kernel[chain].kind == CJ_KERNEL_FUSED && !f->p->kernel[chain].dead) attach_tail(f, chain);
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------------------------------------------------ */

/* Constants that were folded everywhere, and calls whose results nobody reads any more. */
static void sweep(fuser *f)
{
    cj_compiled *p = f->p;
    for (int i = p->n - 1; i >= 0; i--) {
        cj_kernel *k = &p->kernel[i];
        if (k->dead || k->kind != CJ_KERNEL_CALL || has_effect(f->t, k->step)) continue;
        bool wanted = k->step->nout == 0;
        for (int j = 0; j < k->step->nout && !wanted; j++) {
            int slot = k->step->arg[k->step->nin + j].slot;
            wanted = f->t->slot[slot].output || f->t->slot[slot].kind != CJ_SLOT_TEMP;
            for (int o = i + 1; o < p->n && !wanted; o++) wanted = cj__kernel_reads(&p->kernel[o], slot);
        }
        k->dead = !wanted;
    }
    int n = 0;
    for (int i = 0; i < p->n; i++)
        if (!p->kernel[i].dead) p->kernel[n++] = p->kernel[i];
    p->n = n;
    p->first_write = n;
    for (int i = n - 1; i >= 0; i--) {
        p->fused += p->kernel[i].kind == CJ_KERNEL_FUSED;
        if (p->kernel[i].kind == CJ_KERNEL_CALL && has_effect(f->t, p->kernel[i].step)) p->first_write = i;
    }
}

bool cj__plan_fuse(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    find_live(t);
    fuser f = { .c = c, .t = t, .p = p, .room = t->n + 1 };
    for (int i = 0; i < t->n_slots; i++) f.device |= t->slot[i].device;
    p->kernel = cj__region_alloc(c, &p->region, (size_t)f.room * sizeof *p->kernel);
    f.producer = cj__region_alloc(c, &f.own, (size_t)(t->n_slots + 1) * sizeof *f.producer);
    f.owner = cj__region_alloc(c, &f.own, (size_t)(t->n_slots + 1) * sizeof *f.owner);
    bool ok = p->kernel && f.producer && f.owner;
    for (int i = 0; i < t->n_slots && ok; i++) f.producer[i] = -1;
    for (int i = 0; i < t->n && ok; i++) {
        cj_traced *s = &t->step[i];
        if (!s->live) {
            p->removed++;
            continue;
        }
        if (fusible(&f, s)) {
            ok = add_step(&f, s);
        } else {
            ok = s->op->flags & CJ_OP_WRITES ? close_all(&f) : close_read(&f, s, NULL);
            ok = ok && emit(&f, (cj_kernel){ .kind = CJ_KERNEL_CALL, .step = s, .in_place = -1, .members = 1 });
        }
        for (int j = 0; j < s->nout; j++) f.producer[s->arg[s->nin + j].slot] = i;
        for (int k = 0, n = cj__writes(s->op, s->attrs); k < n; k++) f.producer[s->arg[k].slot] = -1; /* no longer what its maker made */
    }
    ok = ok && close_all(&f);
    ok = ok && remove_copies(&f);
    if (ok && !f.device) attach_tails(&f);
    if (ok) sweep(&f);
    cj__region_free(c, &f.own);
    return ok;
}
