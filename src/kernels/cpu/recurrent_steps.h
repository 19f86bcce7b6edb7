/* The steps of a recurrence, written once for vectors of f32 and for f64 scalars (recurrent.c, recurrent_f64.c).
 *
 * The file that includes this one defines REAL (an element), VEC (LANES of them, with + - * /), load(p, n), store(p, v, n), splat(x), sigmoid_of(v), tanh_of(v), relu_of(v),
 * where_positive(v, g) (g where v > 0, else 0), and
 *     static int64_t block_units(int64_t hidden)                                              units of a block: columns of one panel of the weight
 *     static size_t packed_bytes(const cj_recurrence *r)                                      of all panels
 *     static void pack_panels(void *job, int64_t begin, int64_t end, int worker)              fills job->packed
 *     static void multiply(const job *j, const REAL *a, int64_t ld, int64_t rows, int64_t panel, REAL *c, fetch *soon)    c[rows, units] = a·panel
 *
 * Hidden units are cut into blocks.  A step of a block is its products and then its cells, while the sums are in cache.  Everything of a block at one step needs the whole state
 * of the step before, and nothing else from other blocks; sequences do not know of each other at all.  So threads take sequences and walk through all steps without meeting, or, where
 * there are too few sequences, blocks of units with a meeting at every step.  A sum runs over all of k in order either way: the bits are the same.
 *
 * Backward, dh of a block is dy + (gradients of the gates of the later step)·W + what came along directly (z·dh of a gru; dh itself where the state was kept).
 */
#ifndef CJ_KERNELS_CPU_RECURRENT_STEPS_H
#define CJ_KERNELS_CPU_RECURRENT_STEPS_H

enum {
    ROW_BLOCK = 48,    /* sequences whose sums are held at a time */
    FEW_SEQUENCES = 4, /* with fewer for each thread, threads take units */
};
static const double UNITS_WORK = 1e5; /* multiply-adds of a step below which that does not pay */

typedef struct job {
    const cj_recurrence *r;
    bool backward;
    int64_t gates, units, blocks; /* G; of a block, their number */
    int64_t ld, gates_ld;         /* elements of a row of the states and of the gates' gradients: an odd number of cache lines */
    int64_t step, panels;         /* where threads take units: the step */
    REAL *packed;
    REAL *state[2]; /* h before and after a step; backward: the gradients of W·h of the later and of this step, [N, gates_ld] */
    REAL *cell;     /* c; backward: dc */
    REAL *direct;   /* backward: the part of dh that did not go through W */
    REAL *sums;     /* of thread 0; G·ROW_BLOCK·units each */
} job;

/* Rows that the cells will need after a product, brought into cache while it runs: the terms of a gate and the gates saved lie in runs of one block, too short for the processor
 * to see them coming. */
enum { STREAMS = 10 };
typedef struct fetch {
    int64_t rows; /* still to come, of each stream or of this one */
    int64_t all;
    int streams, now; /* now: the stream whose turn it is where they are fetched one after another */
    struct {
        const REAL *at;
        int64_t row; /* elements to the next */
        int64_t n;   /* elements */
        bool write;
    } stream[STREAMS];
} fetch;

CJ_INLINE void fetch_add(fetch *f, const void *at, int64_t row, int64_t n, bool write)
{
    if (!at) return;
    f->stream[f->streams].at = at, f->stream[f->streams].row = row, f->stream[f->streams].n = n, f->stream[f->streams].write = write;
    f->streams++;
}
CJ_INLINE void fetch_begin(fetch *f, int64_t rows) { f->rows = f->all = rows, f->streams = f->now = 0; }
/* A few rows of all streams at once. */
CJ_INLINE void fetch_rows(fetch *f, int64_t rows)
{
    enum { LINE = 64 / sizeof(REAL) };
    for (; rows > 0 && f->rows > 0; rows--, f->rows--)
        for (int i = 0; i < f->streams; i++) {
            const REAL *at = f->stream[i].at;
            for (int64_t e = 0; e < f->stream[i].n; e += LINE) {
                if (f->stream[i].write) __builtin_prefetch(at + e, 1, 3);
                else __builtin_prefetch(at + e, 0, 2);
            }
            f->stream[i].at += f->stream[i].row;
        }
}

/* At most so many rows of one stream, for somebody who fetches them one by one: where the first lies, and how many there are. */
CJ_INLINE int64_t fetch_run(fetch *f, int64_t most, const REAL **at, int64_t *row)
{
    if (f->now == f->streams || !f->rows) return 0;
    const int64_t n = f->rows < most ? f->rows : most;
    *row = f->stream[f->now].row;
    *at = f->stream[f->now].at + (f->all - f->rows) * *row;
    f->rows -= n;
    if (!f->rows) f->now++, f->rows = f->all;
    return n;
}

CJ_INLINE int64_t row_elements(int64_t n) { return (n + 15) / 32 * 32 + 16; }
CJ_INLINE size_t whole_lines(int64_t elements) { return ((size_t)elements * sizeof(REAL) + 63) & ~(size_t)63; }

CJ_INLINE job job_of(const cj_recurrence *r, bool backward)
{
    job j = { .r = r, .backward = backward, .gates = cj__cell_gates(r->cell), .units = block_units(r->hidden) };
    j.blocks = (r->hidden + j.units - 1) / j.units;
    j.panels = backward ? j.blocks : j.blocks * j.gates;
    j.ld = row_elements(r->hidden);
    j.gates_ld = row_elements(j.gates * r->hidden);
    return j;
}

/* Lays the workspace out from `at` on; its size when `at` is NULL. */
static size_t lay_out(job *j, char *at, int threads)
{
    char *begin = at;
    const int64_t n = j->r->batch;
    j->packed = (REAL *)(void *)at, at += packed_bytes(j->r);
    for (int i = 0; i < 2; i++) j->state[i] = (REAL *)(void *)at, at += whole_lines(n * (j->backward ? j->gates_ld : j->ld));
    j->cell = (REAL *)(void *)at, at += whole_lines(n * j->ld);
    j->direct = (REAL *)(void *)at, at += j->backward ? whole_lines(n * j->ld) : 0;
    j->sums = (REAL *)(void *)at, at += (size_t)threads * whole_lines(j->gates * ROW_BLOCK * j->units);
    return (size_t)(at - begin);
}

CJ_INLINE int64_t time_of(const cj_recurrence *r, int64_t step) { return r->reverse ? r->steps - 1 - step : step; }
CJ_INLINE bool is_active(const cj_recurrence *r, int64_t t, int64_t row) { return !r->lengths || t < r->lengths[row]; }
/* Is t the first step that this sequence makes? */
CJ_INLINE bool is_first(const cj_recurrence *r, int64_t t, int64_t row)
{
    return t == (r->reverse ? (r->lengths ? r->lengths[row] : r->steps) - 1 : 0);
}
/* Derivatives stop before this step. */
CJ_INLINE bool is_border(const cj_recurrence *r, int64_t step) { return r->truncate > 0 && step > 0 && step % r->truncate == 0; }

CJ_INLINE VEC load_or_zero(const REAL *p, int n)
{
    if (p) return load(p, n);
    return splat(0);
}
CJ_INLINE VEC activation(bool relu, VEC x)
{
    if (relu) return relu_of(x);
    return tanh_of(x);
}
/* g·f'(x) from y = f(x) */
CJ_INLINE VEC slope(bool relu, VEC y, VEC g)
{
    if (relu) return where_positive(y, g);
    return g * (splat(1) - y * y);
}
CJ_INLINE VEC sigmoid_slope(VEC y, VEC g) { return g * y * (splat(1) - y); }
/* What goes on to the step before. */
CJ_INLINE VEC passed(bool border, VEC g)
{
    if (border) return splat(0);
    return g;
}

/* ---- cells: LANES units of one sequence at one step; arrays have their gates `gate` (a, da, dw), `units` (saved) or `block` (sums) apart ------------------------------------- */

typedef struct place {
    int n; /* lanes */
    int64_t gate, units, block;
    const REAL *a, *sum, *b, *h;
    REAL *cell, *saved;
} place;

/* The new state; of an lstm o, which lstm_state multiplies. */
CJ_INLINE VEC cell_forward(const place *p, cj_cell cell, bool relu)
{
#define TERM(k) (load(p->a + (k)*p->gate, p->n) + load(p->sum + (k)*p->block, LANES))
#define SAVE(k, v)                                                                                                                         \
    if (p->saved) store(p->saved + (k)*p->units, v, LANES)
    switch (cell) {
    case CJ_CELL_LSTM: {
        const VEC i = sigmoid_of(TERM(0)), f = sigmoid_of(TERM(1)), g = tanh_of(TERM(2)), o = sigmoid_of(TERM(3));
        const VEC c = f * load(p->cell, LANES) + i * g;
        store(p->cell, c, LANES);
        SAVE(0, i);
        SAVE(1, f);
        SAVE(2, g);
        SAVE(3, o);
        SAVE(4, c);
        return o;
    }
    case CJ_CELL_GRU: {
        const VEC r = sigmoid_of(TERM(0)), z = sigmoid_of(TERM(1)), sum = load(p->sum + 2 * p->block, LANES);
        const VEC u = sum + load_or_zero(p->b, p->n), n = tanh_of(load(p->a + 2 * p->gate, p->n) + r * u);
        SAVE(0, r);
        SAVE(1, z);
        SAVE(2, n);
        SAVE(3, u);
        return (splat(1) - z) * n + z * load(p->h, LANES);
    }
    case CJ_CELL_LIGHT_GRU: {
        const VEC z = sigmoid_of(TERM(0)), n = activation(relu, TERM(1));
        SAVE(0, z);
        SAVE(1, n);
        return (splat(1) - z) * n + z * load(p->h, LANES);
    }
    default: return activation(relu, TERM(0));
    }
#undef TERM
#undef SAVE
}

/* The same backward: dh is the gradient of the new state. */
typedef struct place_back {
    int n;
    int64_t gate, units;
    const REAL *saved, *y, *h, *c;    /* y: the new state; h, c: the ones before, NULL: zero */
    REAL *da, *dn, *dw, *dc, *direct; /* dw: gradients of W·h, zero at a border */
    bool border;
} place_back;

CJ_INLINE void cell_backward(const place_back *p, VEC dh, cj_cell cell, bool relu)
{
    const VEC one = splat(1), zero = splat(0);
#define SAVED(k) load(p->saved + (k)*p->units, LANES)
#define GATE(k, v)                                                                                                                         \
    {                                                                                                                                      \
        const VEC gate_v = (v);                                                                                                            \
        store(p->da + (k)*p->gate, gate_v, p->n);                                                                                          \
        store(p->dw + (k)*p->gate, passed(p->border, gate_v), p->n);                                                                       \
    }
    switch (cell) {
    case CJ_CELL_LSTM: {
        const VEC i = SAVED(0), f = SAVED(1), g = SAVED(2), o = SAVED(3), tanh_c = tanh_of(SAVED(4));
        const VEC c_before = load_or_zero(p->c, p->n);
        const VEC dc = load(p->dc, LANES) + dh * o * (one - tanh_c * tanh_c);
        GATE(0, sigmoid_slope(i, dc * g));
        GATE(1, sigmoid_slope(f, dc * c_before));
        GATE(2, dc * i * (one - g * g));
        GATE(3, sigmoid_slope(o, dh * tanh_c));
        store(p->dc, passed(p->border, dc * f), LANES);
        store(p->direct, zero, LANES);
        break;
    }
    case CJ_CELL_GRU: {
        const VEC r = SAVED(0), z = SAVED(1), n = SAVED(2), h = load_or_zero(p->h, p->n);
        const VEC dn = dh * (one - z) * (one - n * n), du = dn * r;
        GATE(0, sigmoid_slope(r, dn * SAVED(3)));
        GATE(1, sigmoid_slope(z, dh * (h - n)));
        store(p->da + 2 * p->gate, dn, p->n);
        store(p->dn, du, p->n);
        store(p->dw + 2 * p->gate, passed(p->border, du), p->n);
        store(p->direct, passed(p->border, dh * z), LANES);
        break;
    }
    case CJ_CELL_LIGHT_GRU: {
        const VEC z = SAVED(0), n = SAVED(1), h = load_or_zero(p->h, p->n);
        GATE(0, sigmoid_slope(z, dh * (h - n)));
        GATE(1, slope(relu, n, dh * (one - z)));
        store(p->direct, passed(p->border, dh * z), LANES);
        break;
    }
    default: GATE(0, slope(relu, load(p->y, p->n), dh)); store(p->direct, zero, LANES);
    }
#undef SAVED
#undef GATE
}

/* ---- one step of sequences [row0, row1) and units [unit0, unit1) of one block ---------------------------------------------------------------------------------------- */

typedef struct range {
    int64_t row0, row1, unit0, unit1;
} range;

#define FOR_LANES(x) for (int64_t u = (x)->unit0, n = 0; n = (x)->unit1 - u < LANES ? (x)->unit1 - u : LANES, u < (x)->unit1; u += LANES)

/* Where step t of a block and sequence is saved: its gates one after the other, block after block, so that a step writes and reads it from front to back. */
CJ_INLINE REAL *saved_at(const job *j, int64_t t, int64_t block, int64_t row)
{
    const int64_t record = cj__cell_saved(j->r->cell) * j->units;
    return record && j->r->saved ? (REAL *)j->r->saved + ((t * j->blocks + block) * j->r->batch + row) * record : NULL;
}

CJ_INLINE void lanes_forward(const job *j, const range *x, int64_t row, int64_t t, int64_t u, REAL *saved, const REAL *sums,
                             const REAL *before, REAL *after, const cj_cell cell, const int n)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, at = t * r->batch + row, s = row * j->ld + u;
    const place p = { .n = n,
                      .gate = H,
                      .units = j->units,
                      .block = ROW_BLOCK * j->units,
                      .a = (const REAL *)r->a + at * j->gates * H + u,
                      .sum = sums + (row - x->row0) * j->units + u - x->unit0,
                      .b = r->b ? (const REAL *)r->b + u : NULL,
                      .h = before + s,
                      .cell = j->cell + s,
                      .saved = saved ? saved + u - x->unit0 : NULL };
    const VEC h = cell_forward(&p, cell, r->relu);
    store(after + s, h, LANES);
    if (cell != CJ_CELL_LSTM) store((REAL *)r->y + at * H + u, h, n);
}

/* h = o·tanh(c), where o is in its place.  A loop of its own: one chain of operations through gates, cell and state is longer than what a processor looks ahead. */
CJ_INLINE void lstm_state(const job *j, int64_t row, int64_t t, int64_t u, REAL *after, const int n)
{
    const int64_t s = row * j->ld + u;
    const VEC h = load(after + s, LANES) * tanh_of(load(j->cell + s, LANES));
    store(after + s, h, LANES);
    store((REAL *)j->r->y + (t * j->r->batch + row) * j->r->hidden + u, h, n);
}

CJ_INLINE void cells_forward(const job *j, const range *x, int64_t step, const REAL *sums, const cj_cell cell)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, t = time_of(r, step);
    const REAL *before = j->state[step & 1];
    REAL *after = j->state[~step & 1];
    for (int64_t row = x->row0; row < x->row1; row++) {
        REAL *saved = saved_at(j, t, x->unit0 / j->units, row);
        if (!is_active(r, t, row)) {
            FOR_LANES(x)
            {
                store(after + row * j->ld + u, load(before + row * j->ld + u, LANES), LANES);
                store((REAL *)r->y + (t * r->batch + row) * H + u, splat(0), (int)n);
            }
            continue;
        }
        FOR_LANES(x)
        {
            if (n == LANES) lanes_forward(j, x, row, t, u, saved, sums, before, after, cell, LANES);
            else lanes_forward(j, x, row, t, u, saved, sums, before, after, cell, (int)n);
        }
        if (cell != CJ_CELL_LSTM) continue;
        FOR_LANES(x) lstm_state(j, row, t, u, after, (int)n);
    }
}

CJ_INLINE void lanes_backward(const job *j, const range *x, int64_t row, int64_t step, int64_t u, const REAL *saved, const REAL *sums,
                              const cj_cell cell, const int n)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, G = j->gates, t = time_of(r, step), at = t * r->batch + row, s = row * j->ld + u;
    const bool first = is_first(r, t, row);
    const int64_t earlier = r->reverse ? t + 1 : t - 1; /* the step before */
    const REAL *h = first ? r->h0 ? (const REAL *)r->h0 + row * H + u : NULL : (const REAL *)r->y + (earlier * r->batch + row) * H + u;
    const REAL *c = NULL;
    if (cell == CJ_CELL_LSTM && first) c = r->c0 ? (const REAL *)r->c0 + row * H + u : NULL;
    if (cell == CJ_CELL_LSTM && !first) c = saved_at(j, earlier, x->unit0 / j->units, row) + 4 * j->units + u - x->unit0;
    VEC dh = load(j->direct + s, LANES);
    if (sums) dh = dh + load(sums + (row - x->row0) * j->units + u - x->unit0, LANES);
    if (r->dy) dh = dh + load((const REAL *)r->dy + at * H + u, n);
    const place_back p = { .n = n,
                           .gate = H,
                           .units = j->units,
                           .saved = saved ? saved + u - x->unit0 : NULL,
                           .y = (const REAL *)r->y + at * H + u,
                           .h = h,
                           .c = c,
                           .da = (REAL *)r->da + at * G * H + u,
                           .dn = cell == CJ_CELL_GRU ? (REAL *)r->dn + at * H + u : NULL,
                           .dw = j->state[step & 1] + row * j->gates_ld + u,
                           .dc = j->cell + s,
                           .direct = j->direct + s,
                           .border = is_border(r, step) };
    cell_backward(&p, dh, cell, r->relu);
}

/* A sequence that is over: dh goes past the step, its gates have no gradient. */
CJ_INLINE void lanes_kept(const job *j, const range *x, int64_t row, int64_t step, int64_t u, const REAL *sums, int n)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, at = time_of(r, step) * r->batch + row, s = row * j->ld + u;
    if (sums) store(j->direct + s, load(j->direct + s, LANES) + load(sums + (row - x->row0) * j->units + u - x->unit0, LANES), LANES);
    for (int64_t g = 0; g < j->gates; g++) {
        store((REAL *)r->da + (at * j->gates + g) * H + u, splat(0), n);
        store(j->state[step & 1] + row * j->gates_ld + g * H + u, splat(0), n);
    }
    if (r->dn) store((REAL *)r->dn + at * H + u, splat(0), n);
}

CJ_INLINE void cells_backward(const job *j, const range *x, int64_t step, const REAL *sums, const cj_cell cell)
{
    const int64_t t = time_of(j->r, step);
    for (int64_t row = x->row0; row < x->row1; row++) {
        const REAL *saved = saved_at(j, t, x->unit0 / j->units, row);
        const bool active = is_active(j->r, t, row);
        FOR_LANES(x)
        {
            if (!active) lanes_kept(j, x, row, step, u, sums, (int)n);
            else if (n == LANES) lanes_backward(j, x, row, step, u, saved, sums, cell, LANES);
            else lanes_backward(j, x, row, step, u, saved, sums, cell, (int)n);
        }
    }
}

/* dh0 = what came along directly + (gradients of the first step's gates)·W. */
CJ_INLINE void first_state(const job *j, const range *x, const REAL *sums)
{
    const cj_recurrence *r = j->r;
    for (int64_t row = x->row0; row < x->row1; row++) FOR_LANES(x)
        {
            const int64_t s = row * j->ld + u, at = row * r->hidden + u;
            const VEC dh = load(j->direct + s, LANES) + load(sums + (row - x->row0) * j->units + u - x->unit0, LANES);
            if (r->dh0) store((REAL *)r->dh0 + at, dh, (int)n);
            if (r->dc0) store((REAL *)r->dc0 + at, load(j->cell + s, LANES), (int)n);
        }
}

/* What the cells of a range read and write beside the sums: forward of one gate, backward all. */
CJ_INLINE void fetch_forward(fetch *f, const job *j, const range *x, int64_t step, int64_t gate)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, n = x->unit1 - x->unit0, t = time_of(r, step), at = t * r->batch + x->row0;
    fetch_begin(f, x->row1 - x->row0);
    REAL *saved = saved_at(j, t, x->unit0 / j->units, x->row0);
    const int64_t record = cj__cell_saved(r->cell) * j->units, last = gate + 1 < j->gates ? gate : record / j->units - 1;
    fetch_add(f, (const REAL *)r->a + (at * j->gates + gate) * H + x->unit0, j->gates * H, n, false);
    for (int64_t g = gate; saved && g <= last; g++) fetch_add(f, saved + g * j->units, record, j->units, true);
    if (gate == 0) fetch_add(f, (REAL *)r->y + at * H + x->unit0, H, n, true);
}
CJ_INLINE void fetch_backward(fetch *f, const job *j, const range *x, int64_t step)
{
    const cj_recurrence *r = j->r;
    const int64_t H = r->hidden, n = x->unit1 - x->unit0, record = cj__cell_saved(r->cell) * j->units;
    fetch_begin(f, step < 0 ? 0 : x->row1 - x->row0);
    if (step < 0) return;
    const int64_t t = time_of(r, step), at = t * r->batch + x->row0;
    const REAL *saved = saved_at(j, t, x->unit0 / j->units, x->row0);
    /* of the cells of an lstm those before: the later step has brought these here as its own before */
    const int64_t gates = r->cell == CJ_CELL_LSTM ? 4 * j->units : record;
    for (int64_t g = 0; saved && g < gates; g += j->units) fetch_add(f, saved + g, record, j->units, false);
    if (gates < record && step > 0)
        fetch_add(f, saved_at(j, time_of(r, step - 1), x->unit0 / j->units, x->row0) + gates, record, j->units, false);
    if (r->dy) fetch_add(f, (const REAL *)r->dy + at * H + x->unit0, H, n, false);
    for (int64_t g = 0; g < j->gates; g++) fetch_add(f, (REAL *)r->da + (at * j->gates + g) * H + x->unit0, j->gates * H, n, true);
}

/* step: forward 0 … T-1, backward T-1 … 0 and then -1 for the first state. */
static void block_step(const job *j, int64_t step, int64_t row0, int64_t row1, int64_t block, REAL *sums)
{
    const cj_recurrence *r = j->r;
    const int64_t gates_block = ROW_BLOCK * j->units;
    range x = { row0, row1, block * j->units, (block + 1) * j->units < r->hidden ? (block + 1) * j->units : r->hidden };
    for (; x.row0 < row1; x.row0 = x.row1) {
        x.row1 = x.row0 + ROW_BLOCK < row1 ? x.row0 + ROW_BLOCK : row1;
        const int64_t rows = x.row1 - x.row0;
        if (!j->backward) {
            for (int64_t g = 0; g < j->gates; g++) {
                fetch soon;
                fetch_forward(&soon, j, &x, step, g);
                multiply(j, j->state[step & 1] + x.row0 * j->ld, j->ld, rows, block * j->gates + g, sums + g * gates_block, &soon);
            }
            switch (r->cell) {
            case CJ_CELL_LSTM: cells_forward(j, &x, step, sums, CJ_CELL_LSTM); break;
            case CJ_CELL_GRU: cells_forward(j, &x, step, sums, CJ_CELL_GRU); break;
            case CJ_CELL_LIGHT_GRU: cells_forward(j, &x, step, sums, CJ_CELL_LIGHT_GRU); break;
            default: cells_forward(j, &x, step, sums, CJ_CELL_RNN);
            }
            continue;
        }
        const bool later = step + 1 < r->steps && !is_border(r, step + 1); /* does anything come back through W? */
        fetch soon;
        fetch_backward(&soon, j, &x, step);
        if (later) multiply(j, j->state[~step & 1] + x.row0 * j->gates_ld, j->gates_ld, rows, block, sums, &soon);
        const REAL *back = later ? sums : NULL;
        if (step < 0) {
            first_state(j, &x, sums);
            continue;
        }
        switch (r->cell) {
        case CJ_CELL_LSTM: cells_backward(j, &x, step, back, CJ_CELL_LSTM); break;
        case CJ_CELL_GRU: cells_backward(j, &x, step, back, CJ_CELL_GRU); break;
        case CJ_CELL_LIGHT_GRU: cells_backward(j, &x, step, back, CJ_CELL_LIGHT_GRU); break;
        default: cells_backward(j, &x, step, back, CJ_CELL_RNN);
        }
    }
}

/* ---- all steps ------------------------------------------------------------------------------------------------------------------------------------------------------------ */

/* Rows [row0, row1) of `to`, with rows of ld elements, from a [N, H] array or zero. */
static void load_rows(const cj_recurrence *r, REAL *to, int64_t ld, const REAL *from, int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++) {
        if (from) memcpy(to + row * ld, from + row * r->hidden, (size_t)r->hidden * sizeof(REAL));
        memset(to + row * ld + (from ? r->hidden : 0), 0, (size_t)(from ? ld - r->hidden : ld) * sizeof(REAL));
    }
}
static void store_rows(const cj_recurrence *r, REAL *to, const REAL *from, int64_t ld, int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++) memcpy(to + row * r->hidden, from + row * ld, (size_t)r->hidden * sizeof(REAL));
}

static void begin_rows(const job *j, int64_t row0, int64_t row1)
{
    const cj_recurrence *r = j->r;
    if (!j->backward) load_rows(r, j->state[0], j->ld, r->h0, row0, row1);
    else load_rows(r, j->direct, j->ld, r->dh_n, row0, row1);
    if (r->cell == CJ_CELL_LSTM) load_rows(r, j->cell, j->ld, j->backward ? r->dc_n : r->c0, row0, row1);
}
static void end_rows(const job *j, int64_t row0, int64_t row1)
{
    const cj_recurrence *r = j->r;
    if (j->backward) return;
    store_rows(r, r->h_n, j->state[r->steps & 1], j->ld, row0, row1);
    if (r->cell == CJ_CELL_LSTM) store_rows(r, r->c_n, j->cell, j->ld, row0, row1);
}

CJ_INLINE REAL *sums_of(const job *j, int worker)
{
    return j->sums + (size_t)worker * (whole_lines(j->gates * ROW_BLOCK * j->units) / sizeof(REAL));
}
/* The steps in their order; backward the last one (-1) only where the first state's gradient is wanted. */
CJ_INLINE int64_t step_count(const job *j) { return j->r->steps + (j->backward && (j->r->dh0 || j->r->dc0)); }
CJ_INLINE int64_t step_at(const job *j, int64_t k) { return j->backward ? j->r->steps - 1 - k : k; }

static void sequence_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    begin_rows(j, begin, end);
    for (int64_t k = 0; k < step_count(j); k++)
        for (int64_t block = 0; block < j->blocks; block++) block_step(j, step_at(j, k), begin, end, block, sums_of(j, worker));
    end_rows(j, begin, end);
}

static void unit_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t block = begin; block < end; block++) block_step(j, j->step, 0, j->r->batch, block, sums_of(j, worker));
}

static size_t workspace_of(const cj_recurrence *r, bool backward, int threads)
{
    job j = job_of(r, backward);
    return lay_out(&j, NULL, threads);
}

static int64_t saved_elements(const cj_recurrence *r)
{
    const job j = job_of(r, false);
    return r->steps * r->batch * cj__cell_saved(r->cell) * j.blocks * j.units;
}

static void run_steps(cj_pool *pool, const cj_recurrence *r, bool backward, void *workspace)
{
    job j = job_of(r, backward);
    const int threads = cj__pool_threads(pool);
    lay_out(&j, workspace, threads);
    if (packed_bytes(r)) cj__parallel_for(pool, j.panels, 1, pack_panels, &j);
    const double work = (double)r->batch * (double)(j.gates * r->hidden) * (double)r->hidden;
    if (threads > 1 && r->batch < FEW_SEQUENCES * threads && work > UNITS_WORK) {
        begin_rows(&j, 0, r->batch);
        for (int64_t k = 0; k < step_count(&j); k++) {
            j.step = step_at(&j, k);
            cj__parallel_for(pool, j.blocks, 1, unit_tasks, &j);
        }
        end_rows(&j, 0, r->batch);
    } else {
        cj__parallel_for(pool, r->batch, (r->batch + threads - 1) / threads, sequence_tasks, &j);
    }
}

#endif
