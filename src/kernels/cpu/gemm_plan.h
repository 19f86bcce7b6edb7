/* Everything about one product of the ways `panels` and `shared` (gemm.c) that follows from its shape and strides: where its operands are read, how wide panels and tasks are,
 * and the scratch that it needs.  Never from the number of threads, so that the bits do not either.
 */
#ifndef CJ_KERNELS_CPU_GEMM_PLAN_H
#define CJ_KERNELS_CPU_GEMM_PLAN_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_sizes.h"
#include "kernels/cpu/gemm_tile.h"

typedef enum b_mode { B_IN_PLACE, B_COPIED_BY_TILE, B_PACKED, B_SHARED } b_mode;

/* Everything about one product that follows from its shape and strides. */
typedef struct plan {
    gemm_kind kind;
    int64_t vectors, panels, width; /* panels have `width` vectors, ... */
    int64_t front, wide;            /* ... but the first `front` ones, and those behind the next `wide`, one less */
    int64_t k_blocks, kc;
    b_mode mode;
    int far;                            /* a C beyond the caches, of which a short k leaves no time to wait for */
    int near, ahead;                    /* B_IN_PLACE: its rows are prefetched into L1; the next panel is, into L2 */
    int64_t a_ld, super_rows;           /* packed A: floats per row of a block of k (0 when A is read where it lies), rows at a time */
    int64_t block_rows, slab;           /* rows and panels of a task */
    int64_t group_panels, group_blocks; /* B_SHARED: panels and blocks of k that are packed at a time */
    int pack_block;                     /* B_SHARED: each task packs its rows of A, */
    int turned;                         /* or, where they are columns in memory, takes them strip by strip */
    size_t a_bytes, panel_bytes, sum_bytes, worker_bytes;
    double work;
} plan;

/* First column of panel q, and its width in vectors. */
GEMM_INLINE int64_t panel_at(const plan *s, int64_t q, int *V)
{
    const int64_t before = q < s->front ? 0 : min64(q - s->front, s->wide), first = q * (s->width - 1) + before; /* wide ones */
    const int64_t width = q >= s->front && q < s->front + s->wide ? s->width : s->width - 1;
    *V = (int)min64(width, s->vectors - first);
    return first * VL;
}

/* Vectors of a panel: as many as a tile has registers for.  With 32 of them, tiles of width 3 are nearly as good, and better where the rows fill them and not those of width 4,
 * where a panel then stays in L1, or where there are then as many tasks as threads like. */
static int64_t panel_width(const plan *s, const cj_gemm *g)
{
    const int64_t m = g->m, four = ceil_div(s->vectors, 4), three = ceil_div(s->vectors, 3), full = tile_rows(TILE_WIDTH);
    const int copied = s->mode == B_COPIED_BY_TILE;
    if (m <= WIDE_ROWS && s->mode == B_IN_PLACE) return ceil_div(s->vectors, ceil_div(s->vectors, WIDEST));
    if (GEMM_REGISTERS != 32) return TILE_WIDTH;
    if (m >= 7 && m <= 9 && g->n <= 1024) return 3; /* one tile */
    if (m > PACK_A_ROWS && m <= THREE_TILES) return 3;
    if (copied && m < 4 * full && ceil_div(m, full) * full - m >= 4) return 3; /* tiles of width 4 would have room for four rows more */
    if (m >= THREE_ROWS && (copied ? m <= THREE_MOST : s->near && m <= THREE_NEAR)) return 3;
    if (m > THREE_TILES && four > 4 && four < 16 && four % 2 != 0 && three % 2 == 0) return 3;
    return TILE_WIDTH;
}

/* Are a few panels, where each is a task, to be one more, so that two threads have as many each?  Some are then narrower, but none by two vectors. */
static int is_evened(const plan *s, const cj_gemm *g)
{
    const int64_t count = ceil_div(s->vectors, s->width);
    return s->width >= 3 && s->width <= TILE_WIDTH && g->m <= BLOCK_ROWS && count % 2 != 0 && count > 1 && count < EVENED_PANELS &&
           (count + 1) * (s->width - 1) <= s->vectors;
}

/* The vectors are dealt out to panels of nearly the same width.  The narrow ones lie where they even out two halves of the panels, of which the first has one more
 * if their number is odd. */
static void plan_panels(plan *s, const cj_gemm *g)
{
    s->width = panel_width(s, g);
    int64_t narrow = (s->width - s->vectors % s->width) % s->width; /* panels one narrower, so that no sliver is left */
    if (is_evened(s, g)) narrow += s->width;
    const int64_t rest = s->vectors - narrow * (s->width - 1);
    s->wide = rest > 0 ? rest / s->width : 0;
    s->panels = s->wide;
    if (s->wide * s->width < s->vectors) s->panels += ceil_div(s->vectors - s->wide * s->width, s->width - 1);
    s->front = s->panels % 2 != 0 ? s->panels - s->wide : ceil_div(s->panels - s->wide, 2);
}

/* Whether A is better copied: its rows share their cache sets (a tile's six fit the 12 ways of L1 where there is AVX-512), or it is transposed.  With a short k, the
 * tile's part of a transposed A fits in L1; and one line per step comes in time from L2. */
static int is_awkward(const cj_gemm *g)
{
    if (g->a_col == 1) return GEMM_REGISTERS != 32 && g->a_row % 1024 == 0;
    return g->a_row != 1 || (g->k > LONG_K && (double)g->m * (double)g->k > (g->m >= DEEP_ROWS ? TURNED_MORE : TURNED_FLOATS));
}

/* The many blocks of k of the strips pay while C is not far away and meets few of them. */
static int is_turned(const cj_gemm *g)
{
    const double sums = (double)g->m * (double)g->n;
    return g->a_row == 1 && is_awkward(g) && sums <= TURNED_SUMS && sums * (double)g->k <= TURNED_WORK;
}

/* Many rows: all threads pack a group of B together, then each takes blocks of rows. */
static void plan_shared(plan *s, const cj_gemm *g)
{
    s->mode = B_SHARED;
    s->group_panels = min64(s->panels, GROUP_COLUMNS / (TILE_WIDTH * VL));
    const int64_t columns = min64(s->group_panels * TILE_WIDTH * VL, s->vectors * VL), block = s->kc * columns;
    s->turned = is_turned(g);
    if (s->turned) {
        const int64_t copies = ceil_div(STRIP_TURNED, tile_rows(TILE_WIDTH)) * A_MICRO;
        s->worker_bytes = round64((size_t)(s->kc * (s->group_panels * TILE_WIDTH * VL + copies)) * sizeof(float));
        return;
    }
    s->group_blocks = GROUP_FLOATS / block;
    if (s->group_blocks < 1) s->group_blocks = 1;
    s->group_blocks = min64(s->group_blocks, s->k_blocks);
    s->a_bytes = (size_t)(s->group_blocks * block) * sizeof(float);
    int64_t blocks = ceil_div(g->m, SHARED_ROWS * 4) * 4;
    if (blocks < 8 && g->m >= 2 * SHARED_ROWS) blocks = 8; /* enough tasks to even out threads of unequal speed */
    s->block_rows = ceil_div(ceil_div(g->m, blocks), 6) * 6;
    s->pack_block = is_awkward(g) && (g->a_col != 1 || s->panels > 1);
    if (s->pack_block) {
        s->a_ld = s->kc / 32 * 32 + 16;
        s->worker_bytes = round64((size_t)(s->block_rows * s->a_ld) * sizeof(float));
    }
}

/* Is C fetched before it is written, where k is short?  Intel's processors are up to twice as fast with it, AMD's (Zen 5) slower by 5 to 20 %. */
static int is_far(const cj_gemm *g) { return !is_foreseen() && (double)g->m * (double)g->n > FAR_FLOATS; }

/* Is A copied as rows?  The columns of a short one are, even where B is read in place, if rows of B begin inside cache lines or there are many panels: every tile would take a
 * cache line per step for a few floats of it. */
static int packs_a(const plan *s, const cj_gemm *g, int awkward)
{
    if (s->panels < PACK_A_PANELS || g->m <= PACK_A_ROWS || s->work <= TINY) return 0;
    if (awkward && s->mode != B_IN_PLACE) return 1;
    return g->a_row == 1 && g->a_col != 1 && g->m <= DIRECT_ROWS && g->k > LONG_K && (g->b_row % TILE_LINE != 0 || s->panels > PACK_A_MOST);
}

static plan make_plan(const cj_gemm *g, gemm_kind kind)
{
    plan s = { .kind = kind, .work = (double)g->m * (double)g->n * (double)g->k, .vectors = ceil_div(g->n, VL) };
    const int half = kind != GEMM_F32, ragged = !GEMM_MASKS_ARE_FREE && g->n % VL != 0, by_rows = g->b_col == 1 || g->n == 1;
    const int awkward_a = is_awkward(g);
    const int in_l1 = (double)g->k * (double)g->n <= L1_FLOATS && (s.work <= TINY || s.vectors <= TILE_WIDTH);
    const int in_reach = (double)g->k * (double)g->n <= L2_FLOATS, even = g->b_row % TILE_LINE == 0;
    const int in_l2 = GEMM_REGISTERS == 32 && in_reach && !awkward_a && g->m <= (even ? NEAR_B_ROWS : UNEVEN_ROWS);
    const int direct = g->m <= DIRECT_LEAST || in_l1 || in_l2;
    const int foreseen = is_foreseen() && g->m <= (g->b_row % PAGE == 0 ? DIRECT_PAGED : DIRECT_ROWS);
    if (half || !by_rows || ragged) s.mode = B_PACKED;
    else s.mode = direct || foreseen ? B_IN_PLACE : B_COPIED_BY_TILE;
    const int close = in_l1 || (g->m > THREE_TILES && even && (double)g->k * (double)g->n <= NEAR_FLOATS);
    s.near = s.mode == B_IN_PLACE && !close && (in_reach || (!even && !foreseen));
    s.ahead = s.mode == B_IN_PLACE && !in_reach && !foreseen && g->m > PACK_A_ROWS;
    plan_panels(&s, g);
    s.far = is_far(g);
    const int deep = awkward_a && g->a_col != 1 && g->m >= DEEP_ROWS && g->k >= DEEP;
    const int shared = !half && s.mode != B_IN_PLACE && s.work > TINY && (g->m > BLOCK_ROWS || deep);

    /* the same where B is foreseen, so that the sums are */
    const int64_t kc = shared && is_turned(g)                       ? KC_TURNED
                       : shared || (s.mode == B_IN_PLACE && direct) ? KC
                       : g->m > FEW_ROWS                            ? KC_FEW_ROWS
                                                                    : KC_LEAST_ROWS;
    s.k_blocks = g->k > 0 ? ceil_div(g->k, kc) : 1;
    s.kc = (ceil_div(g->k, s.k_blocks) + 15) & ~(int64_t)15;
    if (shared) {
        plan_shared(&s, g);
        return s;
    }

    s.super_rows = g->m;
    if (half || packs_a(&s, g, awkward_a)) {
        s.a_ld = s.kc / 32 * 32 + 16;
        s.super_rows = PACKED_A_LIMIT / (s.a_ld * s.k_blocks) / 48 * 48;
        if (s.super_rows < 48) s.super_rows = 48;
        s.super_rows = min64(s.super_rows, g->m);
        s.a_bytes = round64((size_t)(s.super_rows * s.a_ld * s.k_blocks) * sizeof(float));
    }

    s.slab = half ? 1 : s.panels >= 96 ? 4 : s.panels >= 32 ? 2 : 1;
    /* Panels that meet in the middle of cache lines are not for two threads. */
    const int uneven = !half && g->c_row % TILE_LINE != 0 && s.super_rows >= 4 * FEW_ROWS && (double)g->k * (double)g->n <= NEAR_FLOATS;
    if (uneven) s.slab = s.panels;
    /* A few panels that meet there, or that two threads cannot share evenly, are not either: rows are. */
    const int few = s.mode == B_IN_PLACE && g->m >= HALVES && g->m <= UNEVEN_ROWS && (double)g->k * (double)g->n <= L2_FLOATS;
    if (few && (s.panels == 3 || (s.panels <= 4 && g->c_row % TILE_LINE != 0))) s.slab = s.panels;
    const int64_t slabs = ceil_div(s.panels, s.slab), blocks = ceil_div(s.super_rows, BLOCK_ROWS);
    int64_t wanted = blocks * slabs >= 4 ? blocks : ceil_div(4, slabs);
    while (wanted > blocks && s.super_rows / wanted < (uneven ? 2 : 1) * FEW_ROWS) wanted--;
    if (wanted == 3 && (uneven || slabs == 1)) wanted = 2;
    /* One panel: two tasks of few rows, even if each of them packs it, are still faster than one. */
    const int64_t halves = s.mode == B_PACKED ? PACKED_HALVES : HALVES;
    if (slabs == 1 && wanted == 1 && !half && !uneven && s.super_rows >= halves) wanted = 2;
    s.block_rows = ceil_div(s.super_rows, wanted);

    const int64_t panel = min64(s.kc, g->k) * min64(s.vectors, TILE_WIDTH) * VL; /* wider ones are read in place */
    if (s.mode != B_IN_PLACE && panel > STACK_PANEL) s.panel_bytes = round64((size_t)panel * sizeof(float));
    if (half) s.sum_bytes = (size_t)s.block_rows * TILE_WIDTH * VL * sizeof(float);
    s.worker_bytes = s.panel_bytes + s.sum_bytes;
    return s;
}

#endif
