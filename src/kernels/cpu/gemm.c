/* The packed matrix product for f32, and for bf16 and f16 as storage types.
 *
 *     C[i,j] = act(sum_p A[i,p] B[p,j] + bias[j])      or  C += ...
 *
 * Blocking after Goto and van de Geijn (2008), as in BLIS (Van Zee and van de Geijn, 2015): k is cut into blocks, C into panels of up to TILE_WIDTH
 * vectors of columns and tasks of rows, and the innermost work is a register tile (gemm_tile.h).  The ways, chosen by shape and strides alone, in this order:
 *
 *   tiny     up to 16 x 16 and k <= 32, where masks are free: one function per layout, no setup (gemm_tiny.h)
 *   lanes    14 to 16 or 58 to 64 rows and transposed B, where vectors have 16 lanes: the rows of A are the lanes (gemm_lanes.h)
 *   slim     9 to 16 columns and a long k, where vectors have 16 lanes: a row of C is a vector (gemm_slim.h)
 *   pairs    a transposed A that is near and two to four columns, where vectors have 16 lanes (gemm_pairs.h)
 *   thin     few rows, one column, or up to 16 columns and a long k: dot products or a sweep over the matrix (gemm_thin.h)
 *   narrow   up to 16 columns and a short k, where masks are free: any number of rows in the ways of the tiny products
 *   short    a k of a few steps, where vectors have 16 lanes: the rows of C are written one after another (gemm_short.h)
 *   rest     a few columns more than whole vectors, where vectors have 16 lanes: they are taken apart (gemm_rest.h), the others in one of these ways
 *   small    B is row-major, and its k is short (is_low), or the product is small and B fits in L1: tiles straight on A, B and C, by rows
 *   flipped  A transposed and few columns: the transposed product is computed in one of the two ways below, and turned
 *   panels   up to BLOCK_ROWS rows: a task takes a slab of panels.  While its first tile reads B where it lies, it writes the packed panel from which
 *            the others read, and the tiles after it prefetch the next panel.  A is read in place, or packed first by all threads if its strides are
 *            awkward.  With few rows (DIRECT_LEAST, DIRECT_ROWS) or a B in L2 it is only read in place; out of L2, its next rows are prefetched into L1
 *   shared   more rows: all threads pack a group of B, then each takes blocks of rows, which it packs for itself if their strides are awkward.  The
 *            rows of a transposed A are taken a strip at a time, and the tiles of the first panel copy what they read of it for those of the others
 *
 * A is packed as plain rows of an odd number of cache lines: broadcasts do not care about the layout, and a row copy is cheaper than interleaving.
 * No sum is ever split between tasks, and the blocks of k follow from shape and strides: the bits do not depend on the threads.
 */
#include "kernels/cpu/gemm.h"

#include "kernels/cpu/gemm_few.h"
#include "kernels/cpu/gemm_lanes.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_pairs.h"
#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/gemm_rest.h"
#include "kernels/cpu/gemm_short.h"
#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_slim.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/gemm_tiny.h"
#include "kernels/cpu/isa.h"

/* One item of the batch on its way through the phases. */
typedef struct run {
    const cj_gemm *g;
    const plan *s;
    const void *a, *b;
    void *c;
    int64_t item, row0, rows; /* the rows [row0, row0 + rows) that are packed in `packed_a`; or of a part of a transposed A, ... */
    int64_t columns, across;  /* ... its panels, and the number of such parts side by side */
    float *packed_a;          /* or the group of B, when B is shared */
    int64_t panel0, panel1, block0, block1; /* the group */
    char *workers;                          /* scratch of worker 0; the others follow */
} run;

/* Does a task take whole rows of C?  Then it packs them, too: they need not cross over from another thread. */
static int packs_by_task(const plan *s) { return s->slab == s->panels; }

/* Rows of A packed in one go: few rows in smaller pieces, so that every thread has some. */
static int64_t pack_rows(const plan *s, int64_t rows)
{
    if (packs_by_task(s)) return s->block_rows;
    return rows <= 2 * PACK_ROWS ? PACK_ROWS / 2 : PACK_ROWS;
}

/* Item (piece of pack_rows() rows, block of k), so that the slice of A that a task works on is contiguous. */
static void pack_a_pieces(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *r = arg;
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    const int64_t height = pack_rows(s, r->rows);
    (void)worker;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t kb = piece % s->k_blocks, p0 = kb * s->kc, i = piece / s->k_blocks * height;
        pack(r->packed_a + (kb * s->super_rows + i) * s->a_ld, s->a_ld, kind_at(r->a, (r->row0 + i) * g->a_row + p0 * g->a_col, s->kind),
             g->a_row, g->a_col, min64(height, r->rows - i), min64(s->kc, g->k - p0), s->kind);
    }
}

/* The right edge of a panel.  Where B is read (or copied) as it lies, the last vector is moved back to end with the row, if a column lies before it. */
GEMM_INLINE void set_edge(tile *t, int V, int64_t columns, int in_place)
{
    t->last = (int)(columns - (V - 1) * VL);
    if (GEMM_MASKS_ARE_FREE && in_place && V > 1) t->back = t->b_back = VL - t->last;
}

/* All row tiles of one panel; t holds everything but the rows.  mode B_COPY: the first tile writes the packed panel, from which the others read; B_FIRST: it only reads it.  The
 * others (or all) fetch the next panel (t->next, if any) into L2: a column of cache lines each, half of one if there are tiles enough, or else the first
 * of them everything.  turned: A is transposed and lies beyond L1; then the rest of them fetch the lines of A that come after theirs, for one line per step of k is
 * more than a processor foresees, and perhaps another one has just written them. */
static void panel_rows(tile *t, int V, int64_t rows, int mode, int turned, const cj_gemm *tail, int64_t item, int64_t i, int64_t j0)
{
    const int64_t count = ceil_div(rows, tile_rows(V)), R = rows / count, others = mode == B_COPY || mode == B_FIRST ? count - 1 : count;
    int64_t taller = rows - R * count, ahead = 0;
    int ahead_mode = B_AHEAD;
    const float *next = t->next;
    if (next) {
        ahead = (V * VL + TILE_LINE - 1) / TILE_LINE;
        if (others > 2 * ahead) ahead *= 2, ahead_mode = B_AHEAD_HALF;
        else if (others < ahead) ahead = 1, ahead_mode = B_AHEAD_ALL;
    }
    int64_t turn = 0;
    for (int64_t left = rows; left > 0;) {
        const int64_t height = taller-- > 0 ? R + 1 : R;
        if (mode != B_COPY && mode != B_FIRST && mode != B_NEAR && mode != B_NEAR_TURNED) {
            mode = turn < ahead ? ahead_mode : B_PLAIN;
            if (ahead_mode == B_AHEAD) t->next = next + turn * TILE_LINE;
            else if (ahead_mode == B_AHEAD_HALF) t->next = next + turn / 2 * TILE_LINE + turn % 2 * (t->k / 2) * t->next_row;
            if (mode == B_PLAIN && turned) mode = B_AHEAD, t->next = t->a + TILE_LINE, t->next_row = t->a_col;
            turn++;
        }
        tiles[V - 1][height - 1][mode == B_FIRST ? B_PLAIN : mode](t);
        if (mode == B_COPY) t->b = t->copy, t->b_row = (int64_t)V * VL, t->b_back = 0;
        if (mode == B_COPY || mode == B_FIRST) mode = B_PLAIN;
        left -= height;
        t->a += height * t->a_row;
        t->c += height * t->c_row;
    }
    if (tail) call_tail(tail, item, i, rows, j0, j0 + (V - 1) * VL + t->last);
}

/* Rounds the f32 sums of a block to 16 bits, after adding C, bias and the activation. */
static void finish_half(const run *r, const float *sum, int64_t ld, int64_t i0, int64_t rows, int64_t j0, int64_t columns)
{
    const cj_gemm *g = r->g;
    const gemm_kind kind = r->s->kind;
    for (int64_t i = i0; i < i0 + rows; i++, sum += ld) {
        uint16_t *c = (uint16_t *)r->c + i * g->c_row + j0;
        for (int64_t j = 0; j < columns; j++) {
            float y = sum[j];
            if (g->accumulate) y = load1(c, j, kind) + y;
            if (g->bias) y += load1(g->bias, j0 + j, kind);
            if (g->act == CJ_GEMM_RELU && y < 0) y = 0;
            c[j] = kind == GEMM_BF16 ? f32_to_bf16(y) : f32_to_f16(y);
        }
    }
    if (g->tail) call_tail(g, r->item, i0, rows, j0, j0 + columns);
}

static void run_task(const run *r, int64_t i0, int64_t rows, int64_t panel0, int64_t panel1, int worker)
{
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    const int half = s->kind != GEMM_F32;
    float on_stack[STACK_PANEL] __attribute__((aligned(64)));
    char *scratch = r->workers + (size_t)worker * s->worker_bytes;
    float *panel = s->panel_bytes ? (float *)(void *)scratch : on_stack;
    float *sums = (float *)(void *)(scratch + s->panel_bytes);
    const int turned = g->a_row == 1 && g->a_col >= TILE_LINE && !s->a_ld && s->work >= PARALLEL_WORK;

    for (int64_t kb = 0; kb < s->k_blocks; kb++) {
        const int64_t p0 = kb * s->kc, kc = min64(s->kc, g->k - p0);
        const int first = kb == 0, final = kb == s->k_blocks - 1;
        for (int64_t q = panel0; q < panel1; q++) {
            int V;
            const int64_t j0 = panel_at(s, q, &V), columns = min64((int64_t)V * VL, g->n - j0);
            tile t = { .k = kc, .add = !first ? CJ_GEMM_ADD : half ? 0 : g->accumulate, .alpha = g->alpha, .far = s->far };
            set_edge(&t, V, columns, s->mode != B_PACKED);
            if (s->a_ld) {
                t.a = r->packed_a + (kb * s->super_rows + i0 - r->row0) * s->a_ld;
                t.a_row = s->a_ld, t.a_col = 1;
            } else {
                t.a = (const float *)r->a + i0 * g->a_row + p0 * g->a_col;
                t.a_row = g->a_row, t.a_col = g->a_col;
            }
            const void *b = kind_at(r->b, p0 * g->b_row + j0 * g->b_col, s->kind);
            t.b = b, t.b_row = g->b_row, t.copy = panel;
            if (s->mode == B_COPIED_BY_TILE || s->ahead) {
                const int64_t q1 = q + 1 < panel1 ? q + 1 : final ? panel1 : panel0, p1 = q + 1 < panel1 ? p0 : final ? 0 : p0 + s->kc;
                if (q1 < s->panels) {
                    int V1;
                    t.next = (const float *)r->b + p1 * g->b_row + panel_at(s, q1, &V1) + TILE_LINE - 1, t.next_row = g->b_row;
                }
            }
            if (s->mode == B_PACKED) {
                pack_panel(panel, (int64_t)V * VL, b, g->b_row, g->b_col, kc, columns, s->kind);
                t.b = panel, t.b_row = (int64_t)V * VL;
            }
            if (half) {
                t.c = sums, t.c_row = (int64_t)V * VL, t.last = VL;
                panel_rows(&t, V, rows, B_PLAIN, 0, NULL, 0, 0, 0);
                if (final) finish_half(r, sums, (int64_t)V * VL, i0, rows, j0, columns);
                continue;
            }
            t.c = (float *)r->c + i0 * g->c_row + j0, t.c_row = g->c_row;
            if (final) {
                t.bias = g->bias ? (const float *)g->bias + j0 : NULL;
                t.relu = g->act == CJ_GEMM_RELU;
            }
            if (s->near) t.next = t.b + NEAR_ROWS * t.b_row, t.next_row = t.b_row;
            const int in_place = !s->near ? (s->ahead ? B_FIRST : B_PLAIN) : turned ? B_NEAR_TURNED : B_NEAR;
            const int mode = s->mode == B_COPIED_BY_TILE ? B_COPY : in_place;
            /* the rows of each task by themselves: the sign of a NaN follows from the tile that sums it, and the tiles should not from the threads */
            const float *const next = t.next;
            for (int64_t i = 0; i < rows; i += s->block_rows, t.next = next)
                panel_rows(&t, V, min64(s->block_rows, rows - i), mode, turned, final && g->tail ? g : NULL, r->item, i0 + i, j0);
        }
    }
}

static void run_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *r = arg;
    const plan *s = r->s;
    const int64_t slabs = ceil_div(s->panels, s->slab);
    if (s->a_ld && packs_by_task(s)) pack_a_pieces(arg, begin * s->k_blocks, end * s->k_blocks, worker);
    if (slabs == 1 && s->mode == B_PACKED && s->kind == GEMM_F32) { /* the rows of several tasks: B is packed once for all of them */
        const int64_t i = begin * s->block_rows;
        run_task(r, r->row0 + i, min64(end * s->block_rows, r->rows) - i, 0, s->panels, worker);
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task / slabs * s->block_rows, q = task % slabs * s->slab;
        run_task(r, r->row0 + i, min64(s->block_rows, r->rows - i), q, min64(q + s->slab, s->panels), worker);
    }
}

/* ---- B packed by all threads ---- */

/* The packed panel of block kb that starts at column j0. */
GEMM_INLINE float *shared_panel(const run *r, int64_t kb, int64_t j0)
{
    const plan *s = r->s;
    int V;
    const int64_t first = panel_at(s, r->panel0, &V);
    const int64_t last = panel_at(s, r->panel1 - 1, &V), columns = last + V * VL - first;
    return r->packed_a + ((kb - r->block0) * columns + j0 - first) * s->kc;
}

static void pack_shared(const run *r, int64_t kb, int64_t q, int64_t p, int64_t rows)
{
    const cj_gemm *g = r->g;
    int V;
    const int64_t j0 = panel_at(r->s, q, &V), p0 = kb * r->s->kc + p;
    pack_panel(shared_panel(r, kb, j0) + p * V * VL, (int64_t)V * VL, kind_at(r->b, p0 * g->b_row + j0 * g->b_col, r->s->kind), g->b_row,
               g->b_col, rows, min64((int64_t)V * VL, g->n - j0), r->s->kind);
}

/* Row-major B in strips of PACK_ROWS rows, so that it is read along its rows; transposed B by panels. */
static int64_t shared_strips(const run *r) { return r->g->b_col == 1 ? ceil_div(r->s->kc, PACK_ROWS) : r->panel1 - r->panel0; }

static void pack_b_strips(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *r = arg;
    const int64_t strips = shared_strips(r);
    (void)worker;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t kb = r->block0 + strip / strips, kc = min64(r->s->kc, r->g->k - kb * r->s->kc), x = strip % strips;
        if (r->g->b_col != 1) {
            pack_shared(r, kb, r->panel0 + x, 0, kc);
        } else if (x * PACK_ROWS < kc) {
            for (int64_t q = r->panel0; q < r->panel1; q++) pack_shared(r, kb, q, x * PACK_ROWS, min64(PACK_ROWS, kc - x * PACK_ROWS));
        }
    }
}

/* The tile of panel q whose rows begin at i0, but for A. */
static tile shared_tile(const run *r, int64_t kb, int64_t q, int64_t i0, int *V)
{
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    const int64_t j0 = panel_at(s, q, V);
    tile t = { .k = min64(s->kc, g->k - kb * s->kc),
               .b = shared_panel(r, kb, j0),
               .b_row = (int64_t)*V * VL,
               .c = (float *)r->c + i0 * g->c_row + j0,
               .c_row = g->c_row,
               .add = kb > 0 ? CJ_GEMM_ADD : g->accumulate,
               .alpha = g->alpha,
               .far = s->far };
    set_edge(&t, *V, min64((int64_t)*V * VL, g->n - j0), 0);
    if (kb == s->k_blocks - 1) {
        t.bias = g->bias ? (const float *)g->bias + j0 : NULL;
        t.relu = g->act == CJ_GEMM_RELU;
    }
    return t;
}

/* Rows [i0, i0 + rows) by all panels of the group. */
static void run_block(const run *r, int64_t kb, const float *a, int64_t i0, int64_t rows)
{
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    const int final = kb == s->k_blocks - 1;
    for (int64_t q = r->panel0; q < r->panel1; q++) {
        int V;
        tile t = shared_tile(r, kb, q, i0, &V);
        t.a = a, t.a_row = s->pack_block ? s->a_ld : g->a_row, t.a_col = s->pack_block ? 1 : g->a_col;
        if (q + 1 < r->panel1) t.next = t.b + s->kc * V * VL, t.next_row = t.b_row;
        panel_rows(&t, V, rows, B_PLAIN, 0, final && g->tail ? g : NULL, r->item, i0, t.c - (float *)r->c - i0 * g->c_row);
    }
}

/* ---- strips of a transposed A ----
 *
 * The rows are cut into strips and the panels into groups.  The tiles of a group's first panel copy what they read of the strip, unless it is a sliver or alone; those of the others
 * read the copies, and the first of them fetch half a column each of the lines of the next strip.  A thread takes some of the groups and strips, and packs B for itself: what another
 * one has packed would have to come out of its caches at every block of k.  What a tile does follows from the shape alone. */

/* Panels of a group, and rows of a strip: an even number of strips. */
static int64_t turned_group(const plan *s) { return s->panels < TURNED_PANELS ? s->panels : min64(ceil_div(s->panels, 2), TURNED_PANELS); }
static int64_t turned_strip(const cj_gemm *g)
{
    const int64_t most = tile_rows(TILE_WIDTH), strips = ceil_div(g->m, 2 * STRIP_TURNED) * 2;
    return ceil_div(ceil_div(g->m, strips), most) * most;
}

/* Rows [i0, i0 + rows) by panels [q0, q1), a group. */
static void run_turned_group(const run *r, int64_t kb, int64_t i0, int64_t rows, int64_t q0, int64_t q1, const float *next, float *copies)
{
    const cj_gemm *g = r->g;
    const int64_t count = ceil_div(rows, tile_rows(TILE_WIDTH));
    int64_t fetched = 0; /* halves of columns */
    int first;
    (void)panel_at(r->s, q0, &first);
    const int are_copied = q1 - q0 > 1 && first >= TILE_WIDTH - 1;
    for (int64_t q = q0; q < q1; q++) {
        int V;
        tile t = shared_tile(r, kb, q, i0, &V);
        const int copied = are_copied && q > q0, copying = are_copied && q == q0;
        const float *a = (const float *)r->a + i0 + kb * r->s->kc * g->a_col;
        const int64_t j0 = t.c - (float *)r->c - i0 * g->c_row;
        t.a_row = 1, t.a_col = copied ? A_MICRO : g->a_col;
        for (int64_t x = 0, done = 0, height; x < count; x++, done += height, t.c += height * t.c_row) {
            height = (rows - done) / (count - x);
            t.copy = copies + x * t.k * A_MICRO;
            t.a = copied ? t.copy : a + done;
            if (copying) {
#if VL >= 8
                turned_tiles[V - TILE_WIDTH + 1][height - 1](&t);
                continue;
#else
                pack(t.copy, A_MICRO, t.a, t.a_col, 1, t.k, height, GEMM_F32);
#endif
            }
            const int fetches = !copying && fetched < 2 * ceil_div(rows, TILE_LINE);
            if (fetches) t.next = next + fetched / 2 * TILE_LINE + fetched % 2 * (t.k / 2) * g->a_col, t.next_row = g->a_col, fetched++;
            tiles[V - 1][height - 1][fetches ? B_AHEAD_HALF : B_PLAIN](&t);
        }
        if (g->tail && kb == r->s->k_blocks - 1) call_tail(g, r->item, i0, rows, j0, min64(j0 + (int64_t)V * VL, g->n));
    }
}

/* Rows [begin, end), whole strips, by panels [panel0, panel1), whole groups. */
static void run_turned_part(run *r, int64_t begin, int64_t end, float *copies)
{
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    const int64_t strip = turned_strip(g), group = turned_group(s);
    for (int64_t kb = 0; kb < s->k_blocks; kb++) {
        r->block0 = kb, r->block1 = kb + 1;
        pack_b_strips(r, 0, shared_strips(r), 0);
        for (int64_t i = begin; i < end; i += strip) {
            const int last = i + strip >= end;
            const float *next = (const float *)r->a + (last ? begin : i + strip) + min64(kb + last, s->k_blocks - 1) * s->kc * g->a_col;
            for (int64_t q = r->panel0; q < r->panel1; q += group)
                run_turned_group(r, kb, i, min64(strip, end - i), q, min64(q + group, r->panel1), next, copies);
        }
    }
}

static void run_turned_parts(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *of = arg;
    const cj_gemm *g = of->g;
    const plan *s = of->s;
    float *packed = (float *)(void *)(of->workers + (size_t)worker * s->worker_bytes),
          *copies = packed + s->kc * s->group_panels * TILE_WIDTH * VL;
    const int64_t group = turned_group(s), most = s->group_panels / group * group;
    for (int64_t part = begin; part < end; part++) {
        const int64_t row0 = part / of->across * of->rows, row1 = min64(row0 + of->rows, g->m);
        const int64_t q0 = part % of->across * of->columns, q1 = min64(q0 + of->columns, s->panels);
        run r = *of;
        r.packed_a = packed;
        for (r.panel0 = q0; r.panel0 < q1; r.panel0 = r.panel1) {
            r.panel1 = min64(r.panel0 + most, q1);
            run_turned_part(&r, row0, row1, copies);
        }
    }
}

/* A part for every thread, of the groups if there are so many. */
static void run_turned(cj_pool *pool, run *r)
{
    const int64_t threads = cj__pool_threads(pool), strip = turned_strip(r->g), group = turned_group(r->s);
    const int64_t groups = ceil_div(r->s->panels, group), strips = ceil_div(r->g->m, strip);
    r->columns = ceil_div(groups, min64(groups, threads)) * group;
    r->across = ceil_div(r->s->panels, r->columns);
    const int64_t down = min64(strips, ceil_div(threads, r->across));
    r->rows = ceil_div(strips, down) * strip;
    cj__parallel_for(pool, r->across * ceil_div(r->g->m, r->rows), 1, run_turned_parts, r);
}

static void run_shared_task(const run *r, int64_t i0, int64_t rows, int worker)
{
    const cj_gemm *g = r->g;
    const plan *s = r->s;
    for (int64_t kb = r->block0; kb < r->block1; kb++) {
        const int64_t p0 = kb * s->kc, kc = min64(s->kc, g->k - p0);
        const float *a = (const float *)r->a + i0 * g->a_row + p0 * g->a_col;
        if (s->pack_block) {
            float *block = (float *)(void *)(r->workers + (size_t)worker * s->worker_bytes);
            pack(block, s->a_ld, a, g->a_row, g->a_col, rows, kc, s->kind);
            a = block;
        }
        run_block(r, kb, a, i0, rows);
    }
}

static void run_shared_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *r = arg;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task * r->s->block_rows;
        run_shared_task(r, i, min64(r->s->block_rows, r->g->m - i), worker);
    }
}

static void run_shared(cj_pool *pool, run *r)
{
    const plan *s = r->s;
    for (r->panel0 = 0; r->panel0 < s->panels; r->panel0 = r->panel1) {
        r->panel1 = min64(r->panel0 + s->group_panels, s->panels);
        for (r->block0 = 0; r->block0 < s->k_blocks; r->block0 = r->block1) {
            r->block1 = min64(r->block0 + s->group_blocks, s->k_blocks);
            cj__parallel_for(pool, (r->block1 - r->block0) * shared_strips(r), 1, pack_b_strips, r);
            cj__parallel_for(pool, ceil_div(r->g->m, s->block_rows), 1, run_shared_tasks, r);
        }
    }
}

/* For each super block of rows, pack A, then the tasks. */
static void run_panels(cj_pool *pool, run *r)
{
    const plan *s = r->s;
    for (r->row0 = 0; r->row0 < r->g->m; r->row0 += s->super_rows) {
        r->rows = min64(s->super_rows, r->g->m - r->row0);
        if (s->a_ld && !packs_by_task(s))
            cj__parallel_for(pool, s->k_blocks * ceil_div(r->rows, pack_rows(s, r->rows)), 1, pack_a_pieces, r);
        const int64_t tasks = ceil_div(r->rows, s->block_rows) * ceil_div(s->panels, s->slab);
        cj__parallel_for(pool, tasks, pool ? 1 : tasks, run_tasks, r);
    }
}

/* One item of the batch. */
static void run_item(cj_pool *pool, const cj_gemm *g, const plan *s, int64_t item, char *workspace)
{
    run r = { .g = g, .s = s, .item = item, .packed_a = (float *)(void *)workspace, .workers = workspace + s->a_bytes };
    r.a = kind_at(g->a, item * g->a_batch, s->kind);
    r.b = kind_at(g->b, item * g->b_batch, s->kind);
    r.c = (char *)g->c + item * g->c_batch * (int64_t)kind_size(s->kind);
    if (s->work < (s->near ? PARALLEL_NEAR : PARALLEL_WORK)) pool = NULL;
    if (s->mode != B_SHARED) run_panels(pool, &r);
    else if (s->turned) run_turned(pool, &r);
    else run_shared(pool, &r);
}

typedef struct batch_run {
    const cj_gemm *g;
    const plan *s;
    char *workspace;
} batch_run;

static void run_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const batch_run *r = arg;
    for (int64_t item = begin; item < end; item++)
        run_item(NULL, r->g, r->s, item, r->workspace + (size_t)worker * (r->s->a_bytes + r->s->worker_bytes));
}

static int items_are_small(const cj_gemm *g, const plan *s) { return g->batch > 1 && s->work < ITEM_WORK; }

static size_t workspace_size(const cj_gemm *g, int threads, gemm_kind kind)
{
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return 0;
    const plan s = make_plan(g, kind);
    if (threads < 1) threads = 1;
    if (items_are_small(g, &s)) return (s.a_bytes + s.worker_bytes) * (size_t)threads;
    return s.a_bytes + s.worker_bytes * (size_t)threads;
}

static void gemm_planned(cj_pool *pool, const cj_gemm *g, void *workspace, gemm_kind kind)
{
    if (g->m <= 0 || g->n <= 0) return;
    const plan s = make_plan(g, kind);
    if (items_are_small(g, &s)) {
        batch_run r = { g, &s, workspace };
        const double chunk = s.work > 0 ? PARALLEL_WORK / 2 / s.work : 64;
        int64_t grain = chunk < 1 ? 1 : chunk > 64 ? 64 : (int64_t)chunk;
        cj__parallel_for(pool, g->batch, grain, run_items, &r);
        return;
    }
    for (int64_t item = 0; item < g->batch; item++) run_item(pool, g, &s, item, workspace);
}

/* ---- columns of a transposed A ---- */

/* C = A B with A transposed and few columns: computed as C' = B' A', whose vectors run along m, and turned back.  Turning B and C pays if they are smaller than A and the
 * last vector of a row of C were mostly empty. */
static int is_flipped(const cj_gemm *g)
{
    if (g->a_row != 1 || g->a_col == 1 || g->n == 1 || g->batch != 1 || g->k == 0) return 0;
    if (g->n <= FEW_COLUMNS) return g->m >= 64;
    return g->n <= FLIPPED_COLUMNS && 2 * g->n <= g->m && 2 * g->n <= g->k && 20 * g->n <= 17 * VL * ceil_div(g->n, VL);
}

static cj_gemm flipped(const cj_gemm *g, float *c)
{
    return (cj_gemm){ .m = g->n,
                      .n = g->m,
                      .k = g->k,
                      .batch = 1,
                      .a = g->b,
                      .b = g->a,
                      .c = c,
                      .a_row = g->b_col,
                      .a_col = g->b_row,
                      .b_row = g->a_col,
                      .b_col = 1,
                      .c_row = g->m };
}

static size_t flipped_bytes(const cj_gemm *g) { return round64((size_t)(g->m * g->n) * sizeof(float)); }

typedef struct turn {
    const cj_gemm *g;
    const float *turned;
} turn;

/* Rows [begin, end) of C from the columns of its transpose, VL x VL elements at a time. */
static void turn_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const turn *t = arg;
    const cj_gemm *g = t->g;
    (void)worker;
    for (int64_t i = begin; i < end; i += VL) {
        const int rows = (int)min64(VL, end - i);
        for (int64_t j = 0; j < g->n; j += VL) {
            const int columns = (int)min64(VL, g->n - j);
            vf x[VL];
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) x[q] = q < columns ? vload_some(t->turned + (j + q) * g->m + i, rows) : vzero();
            transpose_block(x);
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) {
                if (q >= rows) break;
                float *c = (float *)g->c + (i + q) * g->c_row + j;
                vf y = x[q];
                if (g->accumulate) y = vadd(vload_some(c, columns), y);
                if (g->bias) y = vadd(y, vload_some((const float *)g->bias + j, columns));
                if (g->act == CJ_GEMM_RELU) y = vrelu(y);
                vstore_some(c, y, columns);
            }
        }
    }
    if (g->tail) call_tail(g, 0, begin, end - begin, 0, g->n);
}

static void gemm_flipped(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    float *turned = workspace;
    const cj_gemm f = flipped(g, turned);
    if ((double)g->m * (double)g->n * (double)g->k < PARALLEL_WORK) pool = NULL;
    gemm_planned(pool, &f, (char *)workspace + flipped_bytes(g), GEMM_F32);
    turn t = { g, turned };
    cj__parallel_for(pool, g->m, TURN_ROWS, turn_rows, &t);
}

/* ---- small ---- */

/* Rows [begin, end) of a product of a few thousand multiply-adds, or of one whose threads should not take columns: no plan, no packing, B by rows. */
static void small_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_gemm *g = arg;
    int64_t left = ceil_div(g->n, VL), j0 = 0;
    (void)worker;
    while (left > 0) {
        const int V = tile_panel(left);
        const int64_t columns = min64((int64_t)V * VL, g->n - j0);
        tile t = { .k = g->k,
                   .a = (const float *)g->a + begin * g->a_row,
                   .a_row = g->a_row,
                   .a_col = g->a_col,
                   .b = (const float *)g->b + j0,
                   .b_row = g->b_row,
                   .c = (float *)g->c + begin * g->c_row + j0,
                   .c_row = g->c_row,
                   .bias = g->bias ? (const float *)g->bias + j0 : NULL,
                   .add = g->accumulate,
                   .alpha = g->alpha,
                   .relu = g->act == CJ_GEMM_RELU };
        set_edge(&t, V, columns, 1);
        panel_rows(&t, V, end - begin, B_PLAIN, 0, g->tail ? g : NULL, 0, begin, j0);
        left -= V;
        j0 += V * VL;
    }
}

/* Where C is large, writing it is the work, and shared, too.  Few rows are two tasks, so that tiles are high. */
static void gemm_small(cj_pool *pool, const cj_gemm *g)
{
    const int few = g->m <= FEW_ROWS;
    if (g->m * g->n < SHARED_SUMS && (double)(g->m * g->n * g->k) < (few ? PARALLEL_NEAR : PARALLEL_WORK))
        small_rows((void *)(uintptr_t)g, 0, g->m, 0);
    else cj__parallel_for(pool, g->m, ceil_div(g->m, few ? 2 : 4), small_rows, (void *)(uintptr_t)g);
}

/* With a short k the columns of B that a tile reads stay in L1 as they are: a copy would cost more than lines that are crossed, but not more than rows that share
 * their cache sets. */
static int is_low(const cj_gemm *g)
{
    if (g->k <= SHORT_K) return g->k * g->n <= L1_FLOATS;
    return g->m >= LOW_ROWS && g->k * g->n <= LOW_FLOATS && g->b_row % (PAGE / 2) != 0;
}

static int is_small(const cj_gemm *g)
{
    if (g->n <= FLIPPED_FEW && is_flipped(g)) return 0; /* vectors would be mostly empty */
    return g->batch == 1 && g->m <= TINY && g->n <= TINY && g->k <= SMALL_K && (g->b_col == 1 || g->n == 1) &&
           (GEMM_MASKS_ARE_FREE || g->n % VL == 0) && (is_low(g) || (g->k * g->n <= L1_FLOATS && g->m * g->n * g->k <= TINY));
}

/* ---- narrow ---- */

static int is_narrow(const cj_gemm *g)
{
    return GEMM_MASKS_ARE_FREE && g->n <= VL && g->k < LONG_K && g->a_col == 1 && (g->b_col == 1 || g->n == 1) && g->batch == 1;
}

static void gemm_narrow(cj_pool *pool, const cj_gemm *g)
{
    const double chunks = (double)g->m * (double)g->n * (double)g->k / (PARALLEL_NARROW / 2);
    const int parallel = chunks >= 2;
    const int64_t grain = parallel ? ceil_div(ceil_div(g->m, chunks < 8 ? (int64_t)chunks : 8), TINY_ROWS) * TINY_ROWS : g->m;
    cj__parallel_for(parallel ? pool : NULL, g->m, grain, narrow_rows, (void *)(uintptr_t)g);
}

/* ---- rest ---- */

static cj_gemm without_rest(const cj_gemm *g, int64_t rest)
{
    cj_gemm whole = *g;
    whole.n -= rest;
    return whole;
}

static __attribute__((noinline)) void gemm_larger(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    const thin_form form = thin_form_of(g);
    const slim_form slim = slim_form_of(g);
    int64_t rest;
    if (is_lanes(g)) gemm_lanes(pool, g, workspace);
    else if (slim != SLIM_NO) gemm_slim(pool, g, slim, workspace);
    else if (is_pairs(g)) gemm_pairs(pool, g);
    else if (is_few(form)) gemm_few(pool, g, workspace);
    else if (form != THIN_NO) gemm_thin(pool, g, form, workspace);
    else if (is_narrow(g)) gemm_narrow(pool, g);
    else if (is_short(g)) gemm_short(pool, g, workspace);
    else if ((rest = rest_columns(g)) > 0) {
        const cj_gemm whole = without_rest(g, rest);
        if (is_tiny(&whole)) gemm_tiny(&whole);
        else gemm_larger(pool, &whole, workspace);
        gemm_rest(pool, g, rest, workspace);
    } else if (is_small(g)) gemm_small(pool, g);
    else if (is_flipped(g)) gemm_flipped(pool, g, workspace);
    else gemm_planned(pool, g, workspace, GEMM_F32);
}

void CJ_K(cj__gemm_f32)(cj_pool *pool, const cj_gemm *g, void *workspace)
{
    if (g->m <= 0 || g->n <= 0) return;
    if (is_tiny(g)) gemm_tiny(g);
    else gemm_larger(pool, g, workspace);
}

size_t CJ_K(cj__gemm_workspace_f32)(const cj_gemm *g, int threads)
{
    if (is_tiny(g)) return 0;
    const thin_form form = thin_form_of(g);
    if (is_lanes(g)) return lanes_bytes(g, threads);
    if (slim_form_of(g) != SLIM_NO) return slim_bytes(g);
    if (is_pairs(g)) return 0;
    if (is_few(form)) return few_bytes(g, threads > 1 ? threads : 1);
    if (form != THIN_NO) return slice_bytes(g, form);
    if (is_narrow(g)) return 0;
    if (is_short(g)) return short_bytes(g, threads > 1 ? threads : 1);
    const int64_t rest = rest_columns(g);
    if (rest > 0) {
        const cj_gemm whole = without_rest(g, rest);
        const size_t bytes = CJ_K(cj__gemm_workspace_f32)(&whole, threads), more = rest_bytes(g, rest);
        return bytes > more ? bytes : more;
    }
    if (is_small(g)) return 0;
    if (!is_flipped(g)) return workspace_size(g, threads, GEMM_F32);
    const cj_gemm f = flipped(g, NULL);
    return flipped_bytes(g) + workspace_size(&f, threads, GEMM_F32);
}

int CJ_K(cj__gemm_one_go)(const cj_gemm *g)
{
    if (g->m <= 0 || g->n <= 0 || g->batch != 1 || is_tiny(g) || is_lanes(g) || is_pairs(g)) return 0;
    if (thin_form_of(g) != THIN_NO || slim_form_of(g) != SLIM_NO || is_narrow(g)) return 0;
    if (is_short(g)) return 1;
    if (rest_columns(g) > 0) return 0;
    return is_small(g) || (!is_flipped(g) && make_plan(g, GEMM_F32).k_blocks == 1);
}

void CJ_K(cj__gemm_bf16)(cj_pool *pool, const cj_gemm *g, void *workspace) { gemm_planned(pool, g, workspace, GEMM_BF16); }
size_t CJ_K(cj__gemm_workspace_bf16)(const cj_gemm *g, int threads) { return workspace_size(g, threads, GEMM_BF16); }

void CJ_K(cj__gemm_f16)(cj_pool *pool, const cj_gemm *g, void *workspace) { gemm_planned(pool, g, workspace, GEMM_F16); }
size_t CJ_K(cj__gemm_workspace_f16)(const cj_gemm *g, int threads) { return workspace_size(g, threads, GEMM_F16); }
