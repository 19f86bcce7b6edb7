/* The elementwise engine (ew.h): from a program to what runs on a block.
 *
 * Values are told from registers first: each instruction makes one, and the last of a register is what an output stores.  Then instructions are taken in
 * order.  A result that only the next instruction reads stays in a register; others get a buffer, the lowest that is free.  An output that lies in memory
 * as the block does is written by the instruction that makes it, large ones past the caches.
 */
#include "kernels/cpu/ew_job.h"

#define STREAM_BYTES ((int64_t)16 << 20) /* outputs from this size on are written past the caches */
#define PREFETCH_FROM (8 * CJ_EW_BLOCK)  /* elements from which on inputs are prefetched */
#define FOREVER INT16_MAX                /* read at the end of the block */

static const uint8_t arity_of[CJ_EW_CODES] = {
#define X(name, n) [CJ_EW_##name] = n,
    CJ_EW_OPS(X)
#undef X
};

/* ---- one instruction -------------------------------------------------------------------------------------------------------------------- */

static int pair_of(int first, int second)
{
    if (first == CJ_EW_MULS && second == CJ_EW_ADDS) return CJ_EW_MULS_ADDS;
    if (first == CJ_EW_MUL_M && second == CJ_EW_ADD_M) return CJ_EW_MUL_ADD_M;
    if (first == CJ_EW_MULS && second == CJ_EW_ADD_M) return CJ_EW_MULS_ADD_M;
    if (first == CJ_EW_STORE && second == CJ_EW_LOAD) return CJ_EW_STORE_LOAD;
    if (first == CJ_EW_STORE && second == CJ_EW_MUL_M) return CJ_EW_STORE_MUL_M;
    if (first == CJ_EW_STORE && second == CJ_EW_END) return CJ_EW_STORE_END;
    if (first == CJ_EW_STREAM && second == CJ_EW_END) return CJ_EW_STREAM_END;
    return -1;
}

/* Takes the prefetch of a place back out of the list, whose first operations are the prefetches. */
static bool take_prefetch(cj_ew_emitter *e, int place)
{
    for (int k = 0; k < e->n && e->op[k].code == CJ_EW_PREFETCH; k++) {
        if (e->op[k].place != place) continue;
        memmove(e->op + k, e->op + k + 1, (size_t)(e->n - k - 1) * sizeof *e->op);
        e->n--;
        return true;
    }
    return false;
}

static cj_ew_op_fn *function_of(const cj_ew_emitter *e, int code)
{
#if CJ_EW_WIDE
    if (e->wide) return CJ_K(cj__ew_f32_wide)[0][code];
#endif
    return CJ_K(cj__ew_f32)[e->tail][code];
}

void CJ_K(cj__ew_put)(cj_ew_emitter *e, int code, int place, float s)
{
    if (code == CJ_EW_LOAD && take_prefetch(e, place)) code = CJ_EW_PREFETCH_LOAD;
    cj_ew_op *last = e->n ? &e->op[e->n - 1] : NULL;
    const int pair = last ? pair_of(last->code, code) : -1;
    if (pair >= 0) {
        last->fn = function_of(e, pair);
        last->code = (uint8_t)pair;
        last->t = s;
        last->other = (uint8_t)place;
        return;
    }
    e->op[e->n++] = (cj_ew_op){ .fn = function_of(e, code), .s = s, .code = (uint8_t)code, .place = (uint8_t)place };
}

static void need_a(cj_ew_emitter *e, int place)
{
    if (e->a != place) CJ_K(cj__ew_put)(e, CJ_EW_LOAD, place, 0);
    e->a = place;
}

static void need_both(cj_ew_emitter *e, int a, int b)
{
    if (a == b) {
        need_a(e, a);
        if (e->b != b) CJ_K(cj__ew_put)(e, CJ_EW_DUP, 0, 0);
    } else if (e->a == b && e->b != b) {
        CJ_K(cj__ew_put)(e, CJ_EW_FLIP, a, 0);
        e->a = a;
    } else {
        need_a(e, a);
        if (e->b != b) CJ_K(cj__ew_put)(e, CJ_EW_LOAD_B, b, 0);
    }
    e->b = b;
}

#if CJ_EW_WIDE
/* Operands beside a come from memory, and one of the first two is in a or comes there. */
static void emit_wide(cj_ew_emitter *e, int code, int arity, int a, int b, int c)
{
    const bool turned = arity == 2 && e->a == b && e->a != a;
    if (!turned) need_a(e, a);
    CJ_K(cj__ew_put)(e, code, turned ? a : b, 0);
    if (turned) e->op[e->n - 1].fn = CJ_K(cj__ew_f32_wide)[1][code];
    if (arity == 3) e->op[e->n - 1].other = (uint8_t)c;
}
#endif

/* The exponents PyTorch treats apart, with its formulas. */
int CJ_K(cj__ew_power)(double s)
{
    return s == 2.0    ? CJ_EW_SQUARE
           : s == 3.0  ? CJ_EW_CUBE
           : s == 1.0  ? CJ_EW_COPY
           : s == 0.5  ? CJ_EW_SQRT
           : s == -1.0 ? CJ_EW_RECIP
           : s == -0.5 ? CJ_EW_RSQRT
           : s == -2.0 ? CJ_EW_RECIP_SQUARE
                       : CJ_EW_POWS;
}

void CJ_K(cj__ew_emit)(cj_ew_emitter *e, const cj_ew_instr *in, int a, int b, int c, int dst)
{
    const int code = in->code;
    if (code == CJ_EW_POWS && in->s == 0.0) {
        CJ_K(cj__ew_put)(e, CJ_EW_CONST, 0, 1.0f);
    } else if (arity_of[code] == 0) {
        CJ_K(cj__ew_put)(e, code, 0, (float)in->s);
    } else if (arity_of[code] == 1) {
        const int f = code == CJ_EW_POWS ? CJ_K(cj__ew_power)(in->s) : code;
        need_a(e, a);
        if (f != CJ_EW_COPY) CJ_K(cj__ew_put)(e, f, 0, (float)in->s);
    } else if ((code == CJ_EW_ADD || code == CJ_EW_MUL || code == CJ_EW_SUB) && (a != b || e->wide)) {
        const int with_memory = code == CJ_EW_ADD ? CJ_EW_ADD_M : code == CJ_EW_MUL ? CJ_EW_MUL_M : CJ_EW_SUB_M;
        if (e->a == b && a != b) {
            CJ_K(cj__ew_put)(e, code == CJ_EW_SUB ? CJ_EW_RSUB_M : with_memory, a, 0);
        } else {
            need_a(e, a);
            CJ_K(cj__ew_put)(e, with_memory, b, 0);
        }
#if CJ_EW_WIDE
    } else if (e->wide) {
        emit_wide(e, code, arity_of[code], a, b, c);
#endif
    } else {
        need_both(e, a, b);
        CJ_K(cj__ew_put)(e, code, c, 0);
    }
    e->a = dst;
    if (e->b == dst) e->b = -1;
}

/* ---- the program as a graph of values ----------------------------------------------------------------------------------------------------- */

/* Values: 0 … n_in-1 are the inputs, n_in + i is the result of instruction i. */
typedef struct graph {
    int16_t operand[CJ_EW_MAX_INSTR][3]; /* -1 beyond the arity */
    int16_t output[CJ_EW_MAX_ARGS];
    int16_t last[CJ_EW_MAX_REGS + CJ_EW_MAX_INSTR];   /* the last instruction that reads it; -1: none */
    bool in_memory[CJ_EW_MAX_REGS + CJ_EW_MAX_INSTR]; /* some reader does not find it in register a */
    bool live[CJ_EW_MAX_INSTR];
    uint8_t place[CJ_EW_MAX_REGS + CJ_EW_MAX_INSTR];
} graph;

static void build_graph(graph *g, const cj_ew_prog *p, bool wide)
{
    int16_t held[CJ_EW_MAX_REGS]; /* the value in each register */
    for (int k = 0; k < p->n_in; k++) held[k] = (int16_t)k;
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *in = &p->instr[i];
        const uint8_t reg[3] = { in->a, in->b, in->c };
        for (int o = 0; o < 3; o++) g->operand[i][o] = o < arity_of[in->code] ? held[reg[o]] : -1;
        held[in->dst] = (int16_t)(p->n_in + i);
    }
    for (int v = 0; v < p->n_in + p->n_instr; v++) {
        g->last[v] = -1;
        g->in_memory[v] = false;
    }
    /* An i64 division by zero counts even if nobody reads the quotient. */
    for (int i = 0; i < p->n_instr; i++) g->live[i] = p->compute != CJ_F32;
    for (int o = 0; o < p->n_out; o++) {
        g->output[o] = held[p->out[o]];
        if (g->output[o] >= p->n_in) g->live[g->output[o] - p->n_in] = true;
    }
    for (int i = p->n_instr - 1, next = -1; i >= 0; i--) { /* next: the live instruction after i */
        if (!g->live[i]) continue;
        const int made = p->n_in + i;
        if (g->last[made] >= 0) {
            bool only_next = g->last[made] == next && g->operand[next][2] != made;
            if (wide && (arity_of[p->instr[next].code] == 3 || g->operand[next][0] == g->operand[next][1]))
                only_next &= g->operand[next][0] == made && g->operand[next][1] != made;
            g->in_memory[made] = !only_next;
        }
        for (int o = 0; o < 3; o++) {
            const int v = g->operand[i][o];
            if (v < 0) continue;
            if (g->last[v] < i) g->last[v] = (int16_t)i;
            if (v >= p->n_in) g->live[v - p->n_in] = true;
        }
        next = i;
    }
}

/* ---- places ----------------------------------------------------------------------------------------------------------------------------------- */

/* May instruction i write output o?  Not while an input in the same memory is still to be read. */
static bool can_write(const cj_ew_job *j, const graph *g, int o, int i)
{
    const int arg = j->p->n_in + o;
    if (j->kind[arg] != CJ_EW_DIRECT || j->tile_dim >= 0) return false;
    for (int k = 0; k < j->p->n_in; k++)
        if (j->args[k].data == j->args[arg].data && g->last[k] > i) return false;
    return true;
}

static bool can_stream(const cj_ew_job *j, int o)
{
    const cj_ew_arg *out = &j->args[j->p->n_in + o];
    if (j->numel * 4 < STREAM_BYTES || (uintptr_t)out->data % 64) return false;
    for (int k = 0; k < j->p->n_in; k++)
        if (j->args[k].data == out->data) return false;
    return true;
}

/* The operations of f32 instruction i, whose result goes to `slot` (or nowhere) and to the outputs of the set `direct`. */
static void emit_f32(cj_ew_job *j, const graph *g, cj_ew_emitter *e, int i, int slot, uint32_t direct)
{
    const int16_t *v = g->operand[i];
    int at[3];
    if (!e->op) return;
    for (int o = 0; o < 3; o++) at[o] = v[o] >= 0 ? g->place[v[o]] : 0;
    CJ_K(cj__ew_emit)(e, &j->p->instr[i], at[0], at[1], at[2], slot);
    if (slot != CJ_EW_NOWHERE) CJ_K(cj__ew_put)(e, CJ_EW_STORE, slot, 0);
    for (int o = 0; o < j->p->n_out; o++) {
        if (!(direct >> o & 1)) continue;
        const bool stream = can_stream(j, o);
        CJ_K(cj__ew_put)(e, stream ? CJ_EW_STREAM : CJ_EW_STORE, CJ_EW_PLACE_ARG(j->p->n_in + o), 0);
        j->streams |= stream;
    }
}

static void add_step(cj_ew_job *j, const graph *g, int i, int dst)
{
    const cj_ew_instr *in = &j->p->instr[i];
    const int16_t *v = g->operand[i];
    uint8_t at[3];
    for (int o = 0; o < 3; o++) at[o] = (uint8_t)(v[o] >= 0 ? g->place[v[o]] : dst);
    cj_ew_block_fn *const *table = j->p->compute == CJ_F64 ? CJ_K(cj__ew_f64) : CJ_K(cj__ew_i64);
    j->steps[j->n_steps++] = (cj_ew_step){ .fn = table[in->code], .s = in->s, .d = (uint8_t)dst, .a = at[0], .b = at[1], .c = at[2] };
}

/* There are enough buffers: values take one no longer than the author's registers hold them. */
static void place_results(cj_ew_job *j, graph *g, cj_ew_emitter *e, cj_ew_emitter *wide)
{
    const cj_ew_prog *p = j->p;
    const bool f32 = p->compute == CJ_F32;
    uint32_t free_slots = (uint32_t)((1u << CJ_EW_MAX_REGS) - 1) & ~((1u << p->n_in) - 1);
    uint32_t written = 0; /* outputs that their instruction stores */
    for (int i = 0; i < p->n_instr; i++) {
        if (!g->live[i]) continue;
        const int made = p->n_in + i;
        uint32_t direct = 0;
        bool kept = false; /* an output takes it from its buffer at the end */
        for (int o = 0; o < p->n_out; o++) {
            if (g->output[o] != made) continue;
            if (can_write(j, g, o, i) && (f32 || !direct)) direct |= 1u << o;
            else kept = true;
        }
        for (int o = 0; o < 3; o++) { /* buffers read for the last time can take the result */
            const int v = g->operand[i][o];
            if (v >= p->n_in && g->place[v] < CJ_EW_MAX_REGS && g->last[v] == i) free_slots |= 1u << g->place[v];
        }
        int dst = CJ_EW_NOWHERE;
        if (!f32 && direct) {
            dst = CJ_EW_PLACE_ARG(p->n_in + __builtin_ctz(direct));
        } else if (!f32 || kept || g->in_memory[made]) {
            dst = __builtin_ctz(free_slots);
            free_slots &= free_slots - 1;
        }
        g->place[made] = (uint8_t)dst;
        written |= direct;
        if (f32) emit_f32(j, g, e, i, dst, direct), emit_f32(j, g, wide, i, dst, direct);
        else add_step(j, g, i, dst);
        if (kept) g->last[made] = FOREVER;
        else if (g->last[made] < 0 && dst < CJ_EW_MAX_REGS) free_slots |= 1u << dst; /* nobody reads it */
    }
    for (int o = 0; o < p->n_out; o++) {
        if (written >> o & 1) continue;
        j->store_from[j->n_stores] = g->place[g->output[o]];
        j->store[j->n_stores++] = (uint8_t)o;
    }
}

/* Are there enough elements, and is every instruction in the wide table? */
static bool goes_wide(const cj_ew_job *j)
{
#if CJ_EW_WIDE
    const cj_ew_prog *p = j->p;
    if (p->compute != CJ_F32 || j->numel < PREFETCH_FROM) return false;
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *in = &p->instr[i];
        const int code = in->code == CJ_EW_POWS ? CJ_K(cj__ew_power)(in->s) : in->code;
        if (!CJ_K(cj__ew_f32_wide)[0][code]) return false;
    }
    return true;
#else
    return (void)j, false;
#endif
}

void CJ_K(cj__ew_plan)(cj_ew_job *j)
{
    const cj_ew_prog *p = j->p;
    graph g;
    const bool wide = goes_wide(j);
    build_graph(&g, p, wide);
    /* An input that is also stored as it is gets a copy if an output may overwrite it. */
    for (int o = 0; o < p->n_out; o++) {
        const int k = g.output[o];
        if (k >= p->n_in || j->kind[k] != CJ_EW_DIRECT) continue;
        for (int q = 0; q < p->n_out; q++)
            if (j->args[p->n_in + q].data == j->args[k].data) j->kind[k] = CJ_EW_WALKED;
    }
    cj_ew_emitter e = { .op = j->ops, .a = -1, .b = -1 }, w = { .op = wide ? j->wide : NULL, .a = -1, .b = -1, .wide = true };
    j->n_stores = j->n_steps = 0;
    j->streams = false;
    for (int k = 0; k < p->n_in; k++) {
        const bool direct = j->kind[k] == CJ_EW_DIRECT && j->tile_dim < 0;
        g.place[k] = (uint8_t)(direct ? CJ_EW_PLACE_ARG(k) : k);
        bool again = false; /* the same memory under another number */
        for (int q = 0; q < k; q++) again |= j->args[q].data == j->args[k].data && g.last[q] >= 0;
        if (direct && p->compute == CJ_F32 && g.last[k] >= 0 && j->numel >= PREFETCH_FROM && !again)
            for (int q = 0; q <= wide; q++) CJ_K(cj__ew_put)(q ? &w : &e, CJ_EW_PREFETCH, g.place[k], 0);
    }
    place_results(j, &g, &e, &w);
    if (p->compute == CJ_F32) CJ_K(cj__ew_put)(&e, CJ_EW_END, 0, 0);
    if (wide) CJ_K(cj__ew_put)(&w, CJ_EW_END, 0, 0);
    j->n_ops = e.n, j->n_wide = w.n;
    j->by_groups = wide && j->tile_dim < 0 && j->n_stores == 0;
    for (int k = 0; k < j->n_args; k++) j->by_groups &= j->kind[k] == CJ_EW_DIRECT || j->kind[k] == CJ_EW_SCALAR;
}
