/* The elementwise engine (ew.h): cuts the iteration space into blocks and runs the program on each.
 *
 * Dimensions are collapsed first.  Then every argument is one of few kinds:
 *
 *   direct     contiguous and of the compute type: read and written in place
 *   scalar     one value: a block is filled with it once
 *   periodic   a row repeated (a bias over a batch): written out once, a block starts at the right phase; long rows are read in place
 *   walked     anything else: copied and converted run by run into a block, or out of one
 *
 * A block is a piece of the linear order, except where an input is transposed against the output: there it is a square tile of the two
 * dimensions, so that both are read in whole cache lines.
 *
 * Registers live in buffers of one block on the stack of the running thread.  An output that is direct is the buffer of the last instruction that writes
 * its register; large ones are written past the caches.
 */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/ew_block.h"
#include "kernels/cpu/simd.h"

#define GRAIN (32 * CJ_EW_BLOCK) /* elements of one chunk of the parallel loop */
#define PERIOD_MAX CJ_EW_BLOCK   /* longest row that is repeated in a buffer */
/* One buffer: f32 blocks; f64 and i64 ones have half as many elements.  The odd 128 bytes keep buffers apart that would else share the low 12 bits of
 * their addresses, which the processor takes for a dependence. */
#define SLOT_BYTES ((CJ_EW_BLOCK + PERIOD_MAX) * 4 + 128)
#define TILE_MIN 8                       /* smaller transposed dimensions are walked */
#define STREAM_BYTES ((int64_t)16 << 20) /* outputs from this size on are written past the caches */
#define SMALL 256                        /* elements up to which no plan is made */
#define AHEAD_ELEMENTS (4 * CJ_EW_BLOCK) /* from this size on, inputs are prefetched */

typedef enum arg_kind { DIRECT, SCALAR, PERIODIC, WALKED } arg_kind;

/* Operands are places: 0 … MAX_REGS-1 are block buffers (the first n_in of them the inputs'), then come direct arguments. */
#define PLACE_ARG(k) (CJ_EW_MAX_REGS + (k))

typedef struct link {
    uint8_t op, place; /* cj_ew_link_op */
    float s;
} link;

/* One pass over a block: an instruction with the cheap ones around it. */
typedef struct step {
    cj_ew_block_fn *fn;
    double s;
    uint8_t code;
    uint8_t d, a, b, c;
    uint8_t ahead[2];  /* places of inputs whose next block is prefetched meanwhile, or that of the result: no effect */
    int16_t pace[2];   /* bytes per vector, */
    int ahead_from[2]; /* from this byte of the block on */
    uint8_t n_pre, n_post;
    bool stream, pre_b;
    link links[2 * CJ_EW_MAX_LINKS];
} step;

typedef struct job {
    const cj_ew_prog *p;
    const cj_ew_arg *args;
    int *fault;
    int n_args, n_steps, n_stores;
    int elem, block; /* bytes of a compute element; elements of a block */
    int nd;
    int64_t shape[CJ_MAX_DIMS], numel;
    int64_t stride[CJ_EW_MAX_ARGS][CJ_MAX_DIMS];
    int64_t period[CJ_EW_MAX_ARGS];
    uint8_t kind[CJ_EW_MAX_ARGS];
    uint8_t store[CJ_EW_MAX_ARGS];      /* outputs that are copied out of a buffer at the end of a block … */
    uint8_t store_from[CJ_EW_MAX_ARGS]; /* … and the place they come from */
    step steps[CJ_EW_MAX_INSTR];
    bool streams;
    int tile_dim; /* the dimension tiled against the last one; -1: linear */
    int64_t tiles_row, tiles_col, tile_h, tile_w;
} job;

/* ---- runs: n elements between memory and a block ----------------------------------------------------------------------------------------- */

static void fill_block(int elem, void *block, const void *value, int64_t n)
{
    if (elem == 4) {
        float v, *d = block;
        memcpy(&v, value, 4);
        for (int64_t i = 0; i < n; i++) d[i] = v;
    } else {
        uint64_t v, *d = block;
        memcpy(&v, value, 8);
        for (int64_t i = 0; i < n; i++) d[i] = v;
    }
}

static void load_run(cj_dtype compute, int elem, void *block, cj_dtype t, const char *x, int64_t stride, int64_t n)
{
    if (stride == 0) {
        uint64_t one = 0;
        CJ_K(cj__convert)(t, x, compute, &one, 1);
        fill_block(elem, block, &one, n);
    } else if (t != compute) {
        CJ_K(cj__convert_strided)(t, x, stride, compute, block, n);
    } else if (elem == 4) {
        const float *s = (const float *)x;
        float *d = block;
        if (stride == 1)
            for (int64_t i = 0; i < n; i++) d[i] = s[i];
        else
            for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];
    } else {
        const uint64_t *s = (const uint64_t *)x;
        uint64_t *d = block;
        for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];
    }
}

/* i64 to i32 and u8 wraps here, unlike a cast between tensors. */
static void convert_out(cj_dtype compute, const char *block, cj_dtype t, void *y, int64_t n)
{
    const int64_t *x = (const int64_t *)block;
    if (compute == CJ_I64 && t == CJ_I32)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)y)[i] = (uint32_t)x[i];
    else if (compute == CJ_I64 && t == CJ_U8)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = (uint8_t)x[i];
    else CJ_K(cj__convert)(compute, block, t, y, n);
}

static void store_run(cj_dtype compute, int elem, const char *block, cj_dtype t, char *y, int64_t stride, int64_t n)
{
    if (stride == 1) {
        convert_out(compute, block, t, y, n);
        return;
    }
    uint64_t piece[128];
    const int size = cj__elem_size(t);
    for (int64_t i = 0; i < n; i += 128) {
        int64_t m = n - i < 128 ? n - i : 128;
        const void *from = block + i * elem;
        if (t != compute) {
            convert_out(compute, from, t, piece, m);
            from = piece;
        }
        CJ_K(cj__move_strided)(size, from, 1, y + i * stride * size, stride, m);
    }
}

/* Elements [begin, begin + n) of the linear order, argument k, to or from a block. */
static void walk(const job *j, int k, bool store, int64_t begin, int64_t n, char *block)
{
    const cj_dtype compute = j->p->compute, t = j->args[k].dtype;
    const int elem = j->elem, last = j->nd - 1;
    const int64_t *stride = j->stride[k], size = cj__elem_size(t), inner = j->shape[last];
    int64_t index[CJ_MAX_DIMS], rest = begin;
    char *x = j->args[k].data;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % j->shape[d];
        rest /= j->shape[d];
        x += index[d] * stride[d] * size;
    }
    const int64_t row_stride = last > 0 ? stride[last - 1] * size : 0, step = stride[last];
    const bool copy_rows = !store && t == compute && elem == 4 && step == 1 && inner <= 64;
    const bool fill_rows = !store && t == compute && elem == 4 && step == 0 && inner <= 64;
    for (;;) {
        int64_t run = inner - index[last];
        if (run > n) run = n;
        if (store) store_run(compute, elem, block, t, x, step, run);
        else load_run(compute, elem, block, t, x, step, run);
        block += run * elem;
        n -= run;
        if (n == 0) return;
        x -= index[last] * step * size;
        index[last] = 0;
        int d = last - 1;
        x += row_stride;
        index[d]++;
        /* Short rows, the usual case of a small class dimension: whole rows in a tight loop. */
        if (copy_rows || fill_rows) {
            float *out = (float *)block;
            int64_t rows = j->shape[d] - index[d];
            if (rows > n / inner) rows = n / inner;
            for (int64_t r = 0; r < rows; r++, out += inner, x += row_stride) {
                const float *row = (const float *)x;
                if (fill_rows)
                    for (int64_t i = 0; i < inner; i++) out[i] = row[0];
                else
                    for (int64_t i = 0; i < inner; i++) out[i] = row[i];
            }
            block = (char *)out;
            index[d] += rows;
            n -= rows * inner;
            if (n == 0) return;
        }
        for (; index[d] == j->shape[d]; d--) { /* carry; begin + n is within the space, so d stays >= 0 */
            x += (stride[d - 1] - index[d] * stride[d]) * size;
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

/* ---- preparation ------------------------------------------------------------------------------------------------------------------------- */

/* Drops dimensions of size 1 and joins neighbours that every argument steps through evenly. */
static void collapse(job *j, int ndim, const int64_t *shape)
{
    int nd = 0;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 1) continue;
        bool join = nd > 0;
        for (int k = 0; join && k < j->n_args; k++) join = j->stride[k][nd - 1] == j->args[k].stride[d] * shape[d];
        if (join) nd--;
        j->shape[nd] = join ? j->shape[nd] * shape[d] : shape[d];
        for (int k = 0; k < j->n_args; k++) j->stride[k][nd] = j->args[k].stride[d];
        nd++;
    }
    if (nd == 0) {
        j->shape[nd] = 1;
        for (int k = 0; k < j->n_args; k++) j->stride[k][nd] = 1;
        nd++;
    }
    j->nd = nd;
}

static arg_kind classify(job *j, int k)
{
    const bool input = k < j->p->n_in;
    const int64_t *stride = j->stride[k];
    int d = j->nd - 1;
    int64_t run = 1;
    while (d >= 0 && stride[d] == run) run *= j->shape[d--];
    j->period[k] = run;
    if (d < 0) return j->args[k].dtype == j->p->compute ? DIRECT : WALKED;
    if (!input) return WALKED;
    for (; d >= 0; d--)
        if (stride[d] != 0) return WALKED;
    return run == 1 ? SCALAR : PERIODIC;
}

/* The dimension in which a walked input is contiguous while it strides through the last one. */
static int find_tile(const job *j)
{
    const int last = j->nd - 1;
    for (int k = 0; k < j->p->n_in; k++) {
        if (j->kind[k] != WALKED || j->stride[k][last] == 1 || j->stride[k][last] == 0) continue;
        for (int d = 0; d < last; d++)
            if (j->stride[k][d] == 1 && j->shape[d] >= TILE_MIN && j->shape[last] >= TILE_MIN) return d;
    }
    return -1;
}

/* ---- from instructions to steps ---------------------------------------------------------------------------------------------------------- */

/* Values: 0 … n_in-1 are the inputs, n_in + i is the result of instruction i. */
typedef struct value {
    int16_t uses;      /* operands that read it, outputs included */
    int16_t user;      /* the last instruction that does */
    int16_t last_step; /* the last step that reads it; n_steps for values stored at the end of the block */
    uint8_t place;
} value;

/* A core instruction, links before it and after it; result is the value it leaves. */
typedef struct group {
    int16_t core, result;
    int8_t n_pre, n_post;
    bool pre_b;
    int16_t pre[CJ_EW_MAX_LINKS], post[CJ_EW_MAX_LINKS]; /* instructions */
    int16_t pre_from;                                    /* with links before: the value they start from */
} group;

typedef struct graph {
    const cj_ew_prog *p;
    int16_t operand[CJ_EW_MAX_INSTR][3]; /* values, -1 beyond the arity */
    int16_t output[CJ_EW_MAX_ARGS];
    int16_t owner[CJ_EW_MAX_INSTR]; /* the group an instruction belongs to, or -1 */
    value v[CJ_EW_MAX_REGS + CJ_EW_MAX_INSTR];
    group g[CJ_EW_MAX_INSTR];
    int n_groups;
} graph;

static const uint8_t arity_of[CJ_EW_CODES] = {
#define X(name, n) [CJ_EW_##name] = n,
    CJ_EW_OPS(X)
#undef X
};

static void build_graph(graph *gr, const cj_ew_prog *p)
{
    int16_t held[CJ_EW_MAX_REGS]; /* the value in each register */
    gr->p = p;
    for (int k = 0; k < p->n_in; k++) {
        held[k] = (int16_t)k;
        gr->v[k].uses = 0;
    }
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *in = &p->instr[i];
        const uint8_t reg[3] = { in->a, in->b, in->c };
        for (int o = 0; o < 3; o++) {
            gr->operand[i][o] = -1;
            if (o >= arity_of[in->code]) continue;
            value *v = &gr->v[gr->operand[i][o] = held[reg[o]]];
            v->uses++;
            v->user = (int16_t)i;
        }
        held[in->dst] = (int16_t)(p->n_in + i);
        gr->v[p->n_in + i].uses = 0;
        gr->owner[i] = -1;
    }
    for (int o = 0; o < p->n_out; o++) {
        value *v = &gr->v[gr->output[o] = held[p->out[o]]];
        v->uses++;
        v->user = -1;
    }
}

/* The link that instruction i is for a value that reaches it as operand `v`; -1 if it is none. */
static int link_of(const graph *gr, int i, int v)
{
    const int16_t *operand = gr->operand[i];
    if (operand[0] == operand[1]) return -1;
    switch (gr->p->instr[i].code) {
    case CJ_EW_ADD: return CJ_LINK_ADD;
    case CJ_EW_MUL: return CJ_LINK_MUL;
    case CJ_EW_SUB: return operand[0] == v ? CJ_LINK_SUB : CJ_LINK_RSUB;
    case CJ_EW_ADDS: return CJ_LINK_ADDS;
    case CJ_EW_MULS: return CJ_LINK_MULS;
    case CJ_EW_RELU: return CJ_LINK_RELU;
    default: return -1;
    }
}

/* Functions whose loops take links: those of one and two operands that are not an immediate's or a scalar loop's. */
static bool takes_links(int code)
{
    switch (code) {
    case CJ_EW_FMOD:
    case CJ_EW_REMAINDER:
    case CJ_EW_FLOORDIV:
    case CJ_EW_WHERE:
    case CJ_EW_FMA:
    case CJ_EW_CONST: return false;
    default: return code < CJ_EW_ADDS || code > CJ_EW_GES;
    }
}

/* Makes a finished group of links only the way in to the core of g, through operand o. */
static bool absorb_before(graph *gr, group *g, int o)
{
    const int n_in = gr->p->n_in, v = gr->operand[g->core][o];
    if (v < n_in || gr->v[v].uses != 1) return false;
    group *from = &gr->g[gr->owner[v - n_in]];
    const int start = gr->operand[from->core][0];
    if (from->result != v || from->n_pre || from->n_post >= CJ_EW_MAX_LINKS || start < 0 || link_of(gr, from->core, start) < 0)
        return false;
    g->pre_b = o == 1;
    g->pre_from = (int16_t)start;
    g->pre[0] = from->core;
    for (int l = 0; l < from->n_post; l++) g->pre[l + 1] = from->post[l];
    g->n_pre = (int8_t)(from->n_post + 1);
    from->core = -1;
    return true;
}

/* Collects cheap instructions into the loops of others: fewer passes over the blocks, the same operations in the same order for every element. */
static void make_groups(graph *gr, bool fuse)
{
    const cj_ew_prog *p = gr->p;
    gr->n_groups = 0;
    for (int i = 0; i < p->n_instr; i++) {
        if (gr->owner[i] >= 0) continue;
        const int id = gr->n_groups++;
        group *g = &gr->g[id];
        *g = (group){ .core = (int16_t)i, .result = (int16_t)(p->n_in + i) };
        gr->owner[i] = (int16_t)id;
        if (!fuse || !takes_links(p->instr[i].code)) continue;
        if (link_of(gr, i, gr->operand[i][0]) < 0 && !absorb_before(gr, g, 0) && arity_of[p->instr[i].code] == 2) absorb_before(gr, g, 1);
        while (g->n_post < CJ_EW_MAX_LINKS && gr->v[g->result].uses == 1) {
            const int next = gr->v[g->result].user;
            if (next < 0 || gr->owner[next] >= 0 || link_of(gr, next, g->result) < 0) break;
            g->post[g->n_post++] = (int16_t)next;
            g->result = (int16_t)(p->n_in + next);
            gr->owner[next] = (int16_t)id;
        }
    }
}

/* May output o be written by the step that computes its value?  Not while an input in the same memory is still to be read. */
static bool can_write_direct(const job *j, const graph *gr, int o, int at_step)
{
    const cj_ew_prog *p = j->p;
    const int arg = p->n_in + o;
    if (j->kind[arg] != DIRECT || j->tile_dim >= 0) return false;
    for (int k = 0; k < p->n_in; k++)
        if (j->args[k].data == j->args[arg].data && gr->v[k].last_step > at_step) return false;
    return true;
}

static bool can_stream(const job *j, const graph *gr, int o, int at_step)
{
    const cj_ew_arg *out = &j->args[j->p->n_in + o];
    if (j->p->compute != CJ_F32 || j->numel * 4 < STREAM_BYTES || (uintptr_t)out->data % 64) return false;
    for (int k = 0; k < j->p->n_in; k++)
        if (j->args[k].data == out->data) return false;
    return gr->v[gr->output[o]].last_step <= at_step;
}

/* The value that link instruction i combines with the one that flows through; -1 if there is none. */
static int other_operand(const graph *gr, int i, int flowing)
{
    return gr->operand[i][0] == flowing ? gr->operand[i][1] : gr->operand[i][0];
}

/* Calls each value that step g reads. */
static int values_read(const graph *gr, const group *g, int *list)
{
    int n = 0, flow = g->pre_from;
    for (int l = 0; l < g->n_pre; l++) {
        if (l == 0) list[n++] = flow;
        list[n++] = other_operand(gr, g->pre[l], flow);
        flow = gr->p->n_in + g->pre[l];
    }
    for (int o = 0; o < 3; o++)
        if (!(g->n_pre && o == g->pre_b)) list[n++] = gr->operand[g->core][o];
    flow = gr->p->n_in + g->core;
    for (int l = 0; l < g->n_post; l++) {
        list[n++] = other_operand(gr, g->post[l], flow);
        flow = gr->p->n_in + g->post[l];
    }
    return n;
}

static link make_link(const graph *gr, int i, int *flow)
{
    const int x = other_operand(gr, i, *flow);
    const link l = { (uint8_t)link_of(gr, i, *flow), x >= 0 ? gr->v[x].place : 0, (float)gr->p->instr[i].s };
    *flow = gr->p->n_in + i;
    return l;
}

static void make_step(const graph *gr, const group *g, cj_ew_block_fn *const *table, uint8_t dst, step *s)
{
    const cj_ew_instr *in = &gr->p->instr[g->core];
    const int16_t *operand = gr->operand[g->core];
    int flow = g->pre_from, n = 0;
    s->fn = table[in->code];
    s->code = in->code;
    s->s = in->s;
    s->d = s->ahead[0] = s->ahead[1] = dst;
    s->pace[0] = s->pace[1] = 0;
    s->ahead_from[0] = s->ahead_from[1] = 0;
    s->a = operand[0] >= 0 ? gr->v[g->n_pre && !g->pre_b ? flow : operand[0]].place : dst;
    s->b = operand[1] >= 0 ? gr->v[g->n_pre && g->pre_b ? flow : operand[1]].place : dst;
    s->c = operand[2] >= 0 ? gr->v[operand[2]].place : dst;
    s->n_pre = (uint8_t)g->n_pre;
    s->n_post = (uint8_t)g->n_post;
    s->pre_b = g->pre_b;
    s->stream = false;
    for (int l = 0; l < g->n_pre; l++) s->links[n++] = make_link(gr, g->pre[l], &flow);
    flow = gr->p->n_in + g->core;
    for (int l = 0; l < g->n_post; l++) s->links[n++] = make_link(gr, g->post[l], &flow);
}

/* Orders the groups by their last instruction, gives every value a place, and fills j->steps.  False when the buffers do not suffice: a group runs later than
 * its first instruction would, so its operands live longer than the program's author planned. */
static bool make_steps(job *j, graph *gr)
{
    const cj_ew_prog *p = j->p;
    cj_ew_block_fn *const *table = p->compute == CJ_F32 ? CJ_K(cj__ew_f32) : p->compute == CJ_F64 ? CJ_K(cj__ew_f64) : CJ_K(cj__ew_i64);
    const group *order[CJ_EW_MAX_INSTR], *at[CJ_EW_MAX_INSTR];
    int list[2 * CJ_EW_MAX_LINKS + 4], n_steps = 0;
    for (int i = 0; i < p->n_instr; i++) at[i] = NULL;
    for (int i = 0; i < gr->n_groups; i++)
        if (gr->g[i].core >= 0) at[gr->g[i].result - p->n_in] = &gr->g[i];
    for (int i = 0; i < p->n_instr; i++)
        if (at[i]) order[n_steps++] = at[i];

    for (int v = 0; v < p->n_in + p->n_instr; v++) gr->v[v].last_step = -1;
    for (int s = 0; s < n_steps; s++)
        for (int i = 0, n = values_read(gr, order[s], list); i < n; i++)
            if (list[i] >= 0) gr->v[list[i]].last_step = (int16_t)s;

    j->n_stores = 0;
    j->streams = false;
    uint32_t free_slots = (uint32_t)((1u << CJ_EW_MAX_REGS) - 1) & ~((1u << p->n_in) - 1);
    bool stored[CJ_EW_MAX_ARGS] = { false };
    for (int k = 0; k < p->n_in; k++) gr->v[k].place = (uint8_t)(j->kind[k] == DIRECT && j->tile_dim < 0 ? PLACE_ARG(k) : k);
    for (int s = 0; s < n_steps; s++) {
        const group *g = order[s];
        value *result = &gr->v[g->result];
        int direct = -1;
        bool kept = false; /* some output takes it from its buffer at the end */
        for (int o = 0; o < p->n_out; o++) {
            if (gr->output[o] != g->result) continue;
            if (direct < 0 && can_write_direct(j, gr, o, s)) direct = o;
            else kept = true;
        }
        const int n = values_read(gr, g, list);
        for (int i = 0; i < n; i++) /* buffers read for the last time can take the result */
            if (list[i] >= p->n_in && gr->v[list[i]].place < CJ_EW_MAX_REGS && gr->v[list[i]].last_step == s)
                free_slots |= 1u << gr->v[list[i]].place;
        if (direct >= 0) {
            result->place = (uint8_t)PLACE_ARG(p->n_in + direct);
            stored[direct] = true;
        } else {
            if (!free_slots) return false;
            result->place = (uint8_t)__builtin_ctz(free_slots);
            free_slots &= free_slots - 1;
            if (result->last_step < 0 && !kept) free_slots |= 1u << result->place; /* nobody reads it */
        }
        step *st = &j->steps[s];
        make_step(gr, g, table, result->place, st);
        st->stream = direct >= 0 && !kept && can_stream(j, gr, direct, s);
        j->streams |= st->stream;
        if (kept) result->last_step = (int16_t)n_steps;
    }
    for (int o = 0; o < p->n_out; o++) {
        if (stored[o]) continue;
        j->store_from[j->n_stores] = gr->v[gr->output[o]].place;
        j->store[j->n_stores++] = (uint8_t)o;
    }
    j->n_steps = n_steps;
    return true;
}

static bool is_heavy(int code)
{
    switch (code) {
    case CJ_EW_EXP:
    case CJ_EW_EXPM1:
    case CJ_EW_LOG:
    case CJ_EW_LOG1P:
    case CJ_EW_SIN:
    case CJ_EW_COS:
    case CJ_EW_TANH:
    case CJ_EW_SIGMOID:
    case CJ_EW_ERF:
    case CJ_EW_POW:
    case CJ_EW_ATAN2:
    case CJ_EW_BCE_LOGITS: return true;
    default: return code >= CJ_EW_GELU && code <= CJ_EW_LOGSIGMOID;
    }
}

/* A step that writes past the caches already has memory to wait for. */
static int prefetch_weight(const job *j, int i) { return j->steps[i].stream ? 2 : is_heavy(j->steps[i].code) ? 4 : 1; }

/* The next block of the direct inputs comes in while this one is worked on, evenly over time: every step takes a share of the lines that grows with its own
 * length, or short steps would wait for memory and long ones leave it idle.  Two inputs at most; programs that read more wait for memory anyway. */
static void spread_prefetch(job *j, const graph *gr)
{
    int total = 0, done = 0;
    for (int i = 0; i < j->n_steps; i++) total += prefetch_weight(j, i);
    for (int i = 0; i < j->n_steps; i++) {
        step *s = &j->steps[i];
        const int weight = prefetch_weight(j, i);
        for (int k = 0, n = 0; k < j->p->n_in && n < 2; k++) {
            if (gr->v[k].place < CJ_EW_MAX_REGS || gr->v[k].uses == 0) continue;
            s->ahead[n] = gr->v[k].place;
            s->pace[n] = (int16_t)((4 * CJ_VL * weight + total - 1) / total);
            s->ahead_from[n++] = CJ_EW_BLOCK * 4 * done / total;
        }
        done += weight;
    }
}

static void resolve(job *j)
{
    const cj_ew_prog *p = j->p;
    graph gr;
    build_graph(&gr, p);
    /* An input that is also stored as it is gets a copy if an output may overwrite it. */
    for (int o = 0; o < p->n_out; o++) {
        const int k = gr.output[o];
        if (k >= p->n_in || j->kind[k] != DIRECT) continue;
        for (int q = 0; q < p->n_out; q++)
            if (j->args[p->n_in + q].data == j->args[k].data) j->kind[k] = WALKED;
    }
    make_groups(&gr, p->compute == CJ_F32 && p->n_instr > 1 && j->numel > SMALL);
    if (!make_steps(j, &gr)) {
        for (int i = 0; i < p->n_instr; i++) gr.owner[i] = -1;
        make_groups(&gr, false); /* now the author's own registers are enough */
        make_steps(j, &gr);
    }
    if (j->tile_dim < 0 && p->compute == CJ_F32 && j->numel >= AHEAD_ELEMENTS) spread_prefetch(j, &gr);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct bank {
    _Alignas(64) char slot[CJ_EW_MAX_REGS][SLOT_BYTES];
    char *at[CJ_EW_MAX_REGS + CJ_EW_MAX_ARGS]; /* where each place is for the current block */
} bank;

/* A periodic input short enough for one block and one row more to fit a slot. */
static bool repeats(const job *j, int k) { return j->kind[k] == PERIODIC && j->period[k] * j->elem <= PERIOD_MAX * 4; }

/* Fills what stays the same for all blocks. */
static void open_bank(const job *j, bank *b, int64_t numel)
{
    const cj_ew_prog *p = j->p;
    const int64_t block = numel < j->block ? numel : j->block;
    for (int r = 0; r < CJ_EW_MAX_REGS; r++) b->at[r] = b->slot[r];
    for (int k = 0; k < p->n_in; k++) {
        const cj_ew_arg *x = &j->args[k];
        if (j->kind[k] == SCALAR) {
            load_run(p->compute, j->elem, b->slot[k], x->dtype, x->data, 0, block);
        } else if (j->tile_dim < 0 && repeats(j, k)) {
            const int64_t period = j->period[k], row = period * j->elem, all = (block + period) * j->elem;
            load_run(p->compute, j->elem, b->slot[k], x->dtype, x->data, 1, period);
            for (int64_t i = row; i < all; i *= 2) memcpy(b->slot[k] + i, b->slot[k], (size_t)(2 * i <= all ? i : all - i));
        }
    }
}

static void run_steps(const job *j, bank *b, int n)
{
    for (int i = 0; i < j->n_steps; i++) {
        const step *s = &j->steps[i];
        cj_ew_link links[2 * CJ_EW_MAX_LINKS];
        for (int l = 0; l < s->n_pre + s->n_post; l++)
            links[l] = (cj_ew_link){ .op = s->links[l].op, .s = s->links[l].s, .x = (const float *)b->at[s->links[l].place] };
        const cj_ew_call call = { .d = b->at[s->d],
                                  .a = b->at[s->a],
                                  .b = b->at[s->b],
                                  .c = b->at[s->c],
                                  .s = s->s,
                                  .n = n,
                                  .stream = s->stream,
                                  .fault = j->fault,
                                  .ahead = { b->at[s->ahead[0]] + (s->pace[0] ? CJ_EW_BLOCK * 4 + s->ahead_from[0] : 0),
                                             b->at[s->ahead[1]] + (s->pace[1] ? CJ_EW_BLOCK * 4 + s->ahead_from[1] : 0) },
                                  .pace = { s->pace[0], s->pace[1] },
                                  .n_pre = s->n_pre,
                                  .n_post = s->n_post,
                                  .pre_b = s->pre_b,
                                  .links = links };
        s->fn(&call);
    }
}

/* A periodic input whose row is too long to be repeated: in place where the block lies within a row. */
static void load_long_row(const job *j, bank *b, int k, int64_t begin, int64_t n)
{
    const cj_ew_arg *x = &j->args[k];
    const int64_t period = j->period[k], size = cj__elem_size(x->dtype);
    int64_t phase = begin % period;
    if (phase + n <= period && x->dtype == j->p->compute) {
        b->at[k] = (char *)x->data + phase * size;
        return;
    }
    char *block = b->at[k] = b->slot[k];
    while (n > 0) {
        int64_t run = period - phase < n ? period - phase : n;
        load_run(j->p->compute, j->elem, block, x->dtype, (const char *)x->data + phase * size, 1, run);
        block += run * j->elem;
        n -= run;
        phase = 0;
    }
}

static void run_linear(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const cj_ew_prog *p = j->p;
    bank b;
    (void)worker;
    open_bank(j, &b, end - begin);
    for (int64_t at = begin; at < end; at += j->block) {
        const int64_t n = end - at < j->block ? end - at : j->block;
        for (int k = 0; k < j->n_args; k++) {
            if (j->kind[k] == DIRECT) b.at[PLACE_ARG(k)] = (char *)j->args[k].data + at * j->elem;
            else if (k >= p->n_in) continue;
            else if (j->kind[k] == WALKED) walk(j, k, false, at, n, b.slot[k]);
            else if (j->kind[k] == PERIODIC) {
                if (repeats(j, k)) b.at[k] = b.slot[k] + at % j->period[k] * j->elem;
                else load_long_row(j, &b, k, at, n);
            }
        }
        run_steps(j, &b, (int)n);
        for (int i = 0; i < j->n_stores; i++) walk(j, p->n_in + j->store[i], true, at, n, b.at[j->store_from[i]]);
    }
    if (j->streams) vf_stream_end();
}

/* A tile of h rows (dimension tile_dim) and w columns (the last dimension) at x, to or from a block [h, w]. */
static void tile_argument(const job *j, int k, bool store, char *x, int64_t h, int64_t w, char *block)
{
    const cj_dtype compute = j->p->compute, t = j->args[k].dtype;
    const int64_t size = cj__elem_size(t), row = j->stride[k][j->tile_dim], col = j->stride[k][j->nd - 1];
    if (!store && t == compute && j->elem == 4 && row == 1) {
        float *d = (float *)block;
        for (int64_t c = 0; c < w; c++) {
            const float *s = (const float *)x + c * col;
            for (int64_t r = 0; r < h; r++) d[r * w + c] = s[r];
        }
        return;
    }
    for (int64_t r = 0; r < h; r++, x += row * size, block += w * j->elem) {
        if (store) store_run(compute, j->elem, block, t, x, col, w);
        else load_run(compute, j->elem, block, t, x, col, w);
    }
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const cj_ew_prog *p = j->p;
    const int last = j->nd - 1;
    bank b;
    (void)worker;
    open_bank(j, &b, j->block);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t at[CJ_MAX_DIMS], rest = tile; /* tiles run along the columns first, then down, then over the other dimensions */
        at[last] = rest % j->tiles_col * j->tile_w;
        rest /= j->tiles_col;
        at[j->tile_dim] = rest % j->tiles_row * j->tile_h;
        rest /= j->tiles_row;
        for (int d = last - 1; d >= 0; d--) {
            if (d == j->tile_dim) continue;
            at[d] = rest % j->shape[d];
            rest /= j->shape[d];
        }
        const int64_t h = j->shape[j->tile_dim] - at[j->tile_dim] < j->tile_h ? j->shape[j->tile_dim] - at[j->tile_dim] : j->tile_h;
        const int64_t w = j->shape[last] - at[last] < j->tile_w ? j->shape[last] - at[last] : j->tile_w;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0, n = pass == 0 ? p->n_in : j->n_stores; i < n; i++) {
                const int k = pass == 0 ? i : p->n_in + j->store[i];
                if (pass == 0 && j->kind[k] == SCALAR) continue;
                char *x = j->args[k].data;
                for (int d = 0; d <= last; d++) x += at[d] * j->stride[k][d] * cj__elem_size(j->args[k].dtype);
                tile_argument(j, k, pass == 1, x, h, w, pass == 0 ? b.slot[k] : b.at[j->store_from[i]]);
            }
            if (pass == 0) run_steps(j, &b, (int)(h * w));
        }
    }
}

/* j->stride, j->shape and j->nd are set. */
static void run_job(cj_pool *pool, job *j)
{
    j->elem = j->p->compute == CJ_F32 ? 4 : 8;
    j->block = j->elem == 4 ? CJ_EW_BLOCK : CJ_EW_BLOCK / 2;
    j->numel = 1;
    for (int d = 0; d < j->nd; d++) j->numel *= j->shape[d];
    for (int k = 0; k < j->n_args; k++) j->kind[k] = (uint8_t)classify(j, k);
    j->tile_dim = j->nd > 1 ? find_tile(j) : -1;
    resolve(j);
    if (j->tile_dim < 0) {
        cj__parallel_for(pool, j->numel, GRAIN, run_linear, j);
        return;
    }
    j->tile_h = j->elem == 4 ? 32 : 16;
    j->tile_w = j->block / j->tile_h;
    j->tiles_row = (j->shape[j->tile_dim] + j->tile_h - 1) / j->tile_h;
    j->tiles_col = (j->shape[j->nd - 1] + j->tile_w - 1) / j->tile_w;
    int64_t tiles = j->tiles_row * j->tiles_col;
    for (int d = 0; d < j->nd - 1; d++)
        if (d != j->tile_dim) tiles *= j->shape[d];
    cj__parallel_for(pool, tiles, GRAIN / CJ_EW_BLOCK, run_tiles, j);
}

/* ---- entry points ------------------------------------------------------------------------------------------------------------------------- */

/* One instruction on few contiguous f32: what most eager calls are. */
static bool run_one(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape)
{
    const int out = p->n_in;
    int64_t n = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        for (int k = 0; k <= out; k++)
            if (args[k].stride[d] != n) return false;
        n *= shape[d];
        if (n > CJ_EW_BLOCK) return false;
    }
    for (int k = 0; k <= out; k++)
        if (args[k].dtype != CJ_F32) return false;
    if (n == 0) return true;
    const cj_ew_instr *in = &p->instr[0]; /* operands beyond the arity name any register; nothing reads them */
    void *d = args[out].data;
    cj_ew_call call;
    call.d = d;
    call.a = args[in->a < out ? in->a : out].data;
    call.b = args[in->b < out ? in->b : out].data;
    call.c = args[in->c < out ? in->c : out].data;
    call.s = in->s;
    call.n = (int)n;
    call.stream = false;
    call.ahead[0] = call.ahead[1] = d;
    call.pace[0] = call.pace[1] = 0;
    call.n_pre = call.n_post = 0;
    call.pre_b = false;
    CJ_K(cj__ew_f32)[in->code](&call);
    return true;
}

/* The number of elements if every argument is contiguous f32 (or, an input, one value for all) and there are few; else -1.  Bit k of *scalars: input k. */
static int64_t count_small(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape, uint32_t *scalars)
{
    if (p->compute != CJ_F32) return -1;
    int64_t n = 1;
    uint32_t scalar = 0, contiguous = 0; /* in some dimension of more than one element */
    const int n_args = p->n_in + p->n_out;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        for (int k = 0; k < n_args; k++) {
            if (args[k].stride[d] == n) contiguous |= 1u << k;
            else if (args[k].stride[d] == 0) scalar |= 1u << k;
            else return -1;
        }
        n *= shape[d];
        if (n > SMALL) return -1;
    }
    if (scalar & contiguous || scalar >> p->n_in) return -1;
    for (int k = 0; k < n_args; k++)
        if (args[k].dtype != CJ_F32) return -1;
    *scalars = scalar;
    return n;
}

/* Few elements: a program runs in the author's registers. */
static __attribute__((noinline)) void run_small(const cj_ew_prog *p, const cj_ew_arg *args, int n, uint32_t scalars)
{
    _Alignas(64) float bank[CJ_EW_MAX_REGS][SMALL];
    void *at[CJ_EW_MAX_REGS];
    for (int k = 0; k < p->n_in; k++) {
        at[k] = args[k].data;
        if (scalars >> k & 1) fill_block(4, at[k] = bank[k], args[k].data, n);
    }
    for (int r = p->n_in; r < p->n_regs; r++) at[r] = bank[r];
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *in = &p->instr[i]; /* operands beyond the arity name any register; nothing reads them */
        const cj_ew_call call = {
            .d = at[in->dst], .a = at[in->a], .b = at[in->b], .c = at[in->c], .s = in->s, .n = n, .ahead = { at[in->dst], at[in->dst] }
        };
        CJ_K(cj__ew_f32)[in->code](&call);
    }
    /* An output that is an input as it came must be saved before another output may overwrite that input. */
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] < p->n_in && at[p->out[o]] != bank[p->out[o]]) at[p->out[o]] = memcpy(bank[p->out[o]], at[p->out[o]], (size_t)n * 4);
    for (int o = 0; o < p->n_out; o++) memcpy(args[p->n_in + o].data, at[p->out[o]], (size_t)n * 4);
}

static __attribute__((noinline)) void run_any(cj_pool *pool, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape,
                                              int *fault)
{
    uint32_t scalars;
    const int64_t small = count_small(p, args, ndim, shape, &scalars);
    if (small >= 0) {
        if (small > 0) run_small(p, args, (int)small, scalars);
        return;
    }
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) return;
    job j;
    j.p = p;
    j.args = args;
    j.fault = fault;
    j.n_args = p->n_in + p->n_out;
    collapse(&j, ndim, shape);
    run_job(pool, &j);
}

void CJ_K(cj__ew_run)(cj_pool *pool, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape, int *fault)
{
    const bool one = p->n_instr == 1 && p->n_out == 1 && p->compute == CJ_F32 && p->out[0] == p->instr[0].dst;
    if (!one || !run_one(p, args, ndim, shape)) run_any(pool, p, args, ndim, shape, fault);
}

void CJ_K(cj__ew_span)(const cj_ew_prog *p, const cj_ew_arg *args, int64_t at, int64_t n)
{
    if (n <= 0) return;
    cj_ew_arg moved[CJ_EW_MAX_ARGS];
    int ignored = 0;
    job j;
    j.p = p;
    j.args = moved;
    j.fault = &ignored;
    j.n_args = p->n_in + p->n_out;
    j.nd = 1;
    j.shape[0] = n;
    for (int k = 0; k < j.n_args; k++) {
        moved[k].dtype = args[k].dtype;
        moved[k].data = (char *)args[k].data + at * args[k].stride[0] * cj__elem_size(args[k].dtype);
        j.stride[k][0] = args[k].stride[0];
    }
    run_job(NULL, &j);
}
