/* The register tile: R rows of C times V vectors of columns, summed over k with every accumulator in a register.
 *
 *     acc[i][v] += A[i,p] * B[p, v*VL .. v*VL+VL)        for p = 0 .. k-1, in this order
 *
 * A is read by broadcast straight from wherever it lies (any row and column stride: plain, transposed or packed), B by vectors from rows b_row
 * apart (plain row-major, or a packed panel with b_row = V*VL).  Row addresses are formed as one pointer per four rows plus 0, 1, 2 or 3 row
 * strides, so 9 rows cost 6 address registers.
 *
 * Tile shapes: on the AVX-512 machines measured, a core sustains two multiply-adds but only about one vector load per cycle, so a tile wants
 * (R + V) <= R*V / 2.  6x4, 8x3 and 9x3 vectors reach 98 % of the peak, 14x2 only 86-94 % and 16x1 52 %.  With 16 registers: 4x3 and 6x2.
 */
#ifndef CJ_KERNELS_CPU_GEMM_TILE_H
#define CJ_KERNELS_CPU_GEMM_TILE_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_simd.h"

#if GEMM_REGISTERS == 32
#define TILE_ROWS_1 12
#define TILE_ROWS_2 12
#define TILE_ROWS_3 9
#define TILE_ROWS_4 6
#define TILE_WIDTH 4 /* vectors in the widest packed panel */
#define WIDEST 6     /* vectors of the widest tile: up to four rows have registers left, and B is read in longer runs */
#define WIDE_ROWS 4
#else
#define TILE_ROWS_1 12
#define TILE_ROWS_2 6
#define TILE_ROWS_3 4
#define TILE_WIDTH 3
#define WIDEST 4
#define WIDE_ROWS 2
#endif
#define TILE_MAX_ROWS 12
#define TILE_LINE 16 /* floats in a cache line */

typedef struct tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    const float *bias; /* V*VL values (less in the last vector), or NULL */
    float
        *copy; /* the copying tile writes the rows of B that it reads here, as a packed panel; or what it reads of A, in rows of A_MICRO */
    const float *next; /* the prefetching tiles meanwhile bring one line (or all) of each of the next rows of B, next_row apart, into L2 */
    int64_t next_row;
    int last;      /* lanes of the last vector that exist in C: 1..VL */
    int back;      /* by so many columns the last vector begins earlier, to end with C; then it is its last lanes that count */
    int b_back;    /* the same for B, unless it is a packed panel; both are 0 or VL - last */
    int add, relu; /* C += instead of C = (CJ_GEMM_ADD, CJ_GEMM_ADD_SCALED); clamp at zero */
    float alpha;   /* CJ_GEMM_ADD_SCALED: what the sums are multiplied by */
    int far;       /* C is fetched early even if k is short */
} tile;

typedef void tile_fn(const tile *t);

/* How B is read: as it is; copied on the way; or while the next panel is prefetched into L2, a line per step, one every other step, or all; or while the
 * rows of this panel that come soon are prefetched into L1; and with them, into L2, the lines of a transposed A that the tiles after this one read. */
enum { B_PLAIN, B_COPY, B_AHEAD, B_AHEAD_HALF, B_AHEAD_ALL, B_NEAR, B_NEAR_TURNED, B_MODES };
/* Or as it is, while a transposed A is copied; or by the first tile of a panel, after which others may prefetch. */
enum { A_COPY = B_MODES, B_FIRST };
enum { A_MICRO = 8 }; /* floats in a row of a copy of A */

#define UNROLL _Pragma("GCC unroll 12")

#if !GEMM_MASKS_ARE_FREE
/* Finishes a tile whose last vector is ragged from a copy of its sums: without masks, one element after another. */
static __attribute__((noinline)) void tile_edge(const tile *t, const float *sum, int R, int V)
{
    const int columns = (V - 1) * VL + t->last;
    for (int i = 0; i < R; i++) {
        float *c = t->c + i * t->c_row;
        for (int j = 0; j < columns; j++) {
            float y = sum[i * V * VL + j];
            if (t->add) y = fma1(t->add == CJ_GEMM_ADD_SCALED ? t->alpha : 1, y, c[j]);
            if (t->bias) y += t->bias[j];
            c[j] = t->relu && y < 0 ? 0 : y;
        }
    }
}
#endif

/* Where the tile stands in k. */
typedef struct tile_at {
    const float *a0, *a4, *a8; /* rows 0, 4 and 8 */
    const float *b, *next;
    float *copy;
} tile_at;

typedef struct tile_strides {
    int64_t row1, row2, row3, b_row, next_row;
    int64_t
        a_col; /* in bytes: of a stride in floats the compiler would make two loops, for 1 and for the rest, and the second a slower one */
    int64_t b_last; /* where the last vector of B begins */
} tile_strides;

GEMM_INLINE const float *bytes_on(const float *p, int64_t bytes) { return (const float *)(const void *)((const char *)p + bytes); }

/* One step of k.  R, V and mode are constants at every call, so that all loops unroll and acc lives in registers.  A masked load takes a turn of a
 * multiply-add unit on some machines: only tiles of one vector, which may be wider than B, have one; the others read the last vector from further back. */
GEMM_INLINE void tile_step(vf acc[TILE_MAX_ROWS][WIDEST], tile_at *x, const tile_strides *s, vmask last, const int R, const int V,
                           const int mode)
{
    vf b[WIDEST];
    UNROLL for (int v = 0; v < V; v++)
    {
        if (GEMM_MASKS_ARE_FREE && V == 1) b[v] = vload_first(x->b, last);
        else b[v] = vload(x->b + (v == V - 1 ? s->b_last : v * VL));
        if (R > 1) VKEEP(b[v]);
        if (mode == B_COPY) vstore(x->copy + v * VL, b[v]);
    }
#if VL >= 8
    if (mode == A_COPY) copy_eight(x->copy, x->a0, vfirst(R));
#endif
    UNROLL for (int i = 0; i < R; i++)
    {
        const float *q = i < 4 ? x->a0 : i < 8 ? x->a4 : x->a8;
        const vf a = vset1(q[i % 4 == 0 ? 0 : i % 4 == 1 ? s->row1 : i % 4 == 2 ? s->row2 : s->row3]);
        UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(a, b[v], acc[i][v]);
    }
    x->b += s->b_row;
    x->a0 = bytes_on(x->a0, s->a_col);
    if (R > 4) x->a4 = bytes_on(x->a4, s->a_col);
    if (R > 8) x->a8 = bytes_on(x->a8, s->a_col);
    if (mode == B_COPY) x->copy += V * VL;
    if (mode == A_COPY) x->copy += A_MICRO;
    if (mode == B_AHEAD) __builtin_prefetch(x->next, 0, 2);
    if (mode == B_AHEAD_ALL) UNROLL for (int v = 0; v < V * VL / TILE_LINE; v++) __builtin_prefetch(x->next + v * TILE_LINE, 0, 2);
    if (mode == B_NEAR || mode == B_NEAR_TURNED)
        UNROLL for (int v = 0; v <= V * VL / TILE_LINE; v++) __builtin_prefetch(x->next + v * TILE_LINE, 0, 3);
    if (mode == B_NEAR_TURNED) __builtin_prefetch(x->a0 + TILE_LINE, 0, 2);
    if (mode != B_PLAIN && mode != B_COPY && mode != A_COPY) x->next += s->next_row;
}

GEMM_INLINE void tile_steps(vf acc[TILE_MAX_ROWS][WIDEST], tile_at *at, const tile_strides *s, int64_t steps, vmask last, const int R,
                            const int V, const int mode)
{
    tile_at x = *at;
    if (mode == B_AHEAD_HALF) {
        for (; steps > 1; steps -= 2) {
            tile_step(acc, &x, s, last, R, V, B_AHEAD);
            tile_step(acc, &x, s, last, R, V, B_PLAIN);
        }
    }
    for (; steps > 0; steps--) tile_step(acc, &x, s, last, R, V, mode == B_AHEAD_HALF ? B_PLAIN : mode);
    *at = x;
}

/* Where masks are not free, B must be readable up to a full last vector: the driver packs such a panel. */
GEMM_INLINE void tile_run(const tile *t, const int R, const int V, const int mode)
{
    const int64_t c_last = (V - 1) * VL - t->back;
    const vmask last = t->back ? vlast(t->last) : vfirst(t->last);
    vf acc[TILE_MAX_ROWS][WIDEST];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] = vzero();

    tile_strides s = { .row1 = t->a_row,
                       .row2 = 2 * t->a_row,
                       .row3 = 3 * t->a_row,
                       .b_row = t->b_row,
                       .next_row = t->next_row,
                       .a_col = t->a_col * (int64_t)sizeof(float),
                       .b_last = (V - 1) * VL - t->b_back };
    tile_at at = { .a0 = t->a, .b = t->b, .next = t->next, .copy = t->copy };
    if (R > 4) at.a4 = at.a0 + 4 * s.row1;
    if (R > 8) at.a8 = at.a0 + 8 * s.row1;
    /* Keeps the compiler from turning the address sums into one running pointer per row, which would spill. */
    __asm__("" : "+r"(s.row1), "+r"(s.row2), "+r"(s.row3), "+r"(s.a_col), "+r"(s.b_row), "+r"(s.b_last));

    /* C is wanted at the end.  It is fetched in three goes on the way there: all at once would hold up the loads of B; but a short way leaves no time. */
    const int64_t steps = t->k > 64 && R >= 3 ? t->k / 4 : 0;
    if (steps > 0 || t->far) {
        const float *row = t->c;
        for (int go = 0; go < 3; go++, row += R / 3 * t->c_row) {
            UNROLL for (int i = 0; i < R / 3 + R % 3; i++) UNROLL for (int v = 0; v < V; v++)
            {
                if (i < R / 3 || go == 2) __builtin_prefetch(row + i * t->c_row + v * VL, 1, 3);
            }
            if (steps > 0 && go < 2) tile_steps(acc, &at, &s, steps, last, R, V, mode);
        }
    }
    tile_steps(acc, &at, &s, t->k - 2 * steps, last, R, V, mode);

#if !GEMM_MASKS_ARE_FREE
    if (t->last < VL) {
        float sum[TILE_MAX_ROWS * WIDEST * VL];
        UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) vstore(sum + (i * V + v) * VL, acc[i][v]);
        tile_edge(t, sum, R, V);
        return;
    }
#endif
#define C_LOAD(p, v) (GEMM_MASKS_ARE_FREE && (v) == V - 1 ? vload_first((p) + c_last, last) : vload((p) + (v)*VL))
    float *c = t->c;
    const int64_t ldc = t->c_row;
    if (t->add) {
        const vf alpha = vset1(t->add == CJ_GEMM_ADD_SCALED ? t->alpha : 1);
        UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] = vfma(alpha, acc[i][v], C_LOAD(c + i * ldc, v));
    }
    if (t->bias) {
        UNROLL for (int v = 0; v < V; v++)
        {
            const vf bias = C_LOAD(t->bias, v);
            UNROLL for (int i = 0; i < R; i++) acc[i][v] = vadd(acc[i][v], bias);
        }
    }
    if (t->relu) UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] = vrelu(acc[i][v]);
#undef C_LOAD
    UNROLL for (int i = 0; i < R; i++, c += ldc)
    {
        UNROLL for (int v = 0; v < V; v++)
        {
            if (GEMM_MASKS_ARE_FREE && v == V - 1) vstore_first(c + c_last, acc[i][v], last);
            else vstore(c + v * VL, acc[i][v]);
        }
    }
}

#define TILE(R, V)                                                                                                                         \
    static void tile_plain_##R##x##V(const tile *t) { tile_run(t, R, V, B_PLAIN); }                                                        \
    static void tile_copy_##R##x##V(const tile *t) { tile_run(t, R, V, B_COPY); }                                                          \
    static void tile_ahead_##R##x##V(const tile *t) { tile_run(t, R, V, B_AHEAD); }                                                        \
    static void tile_half_##R##x##V(const tile *t) { tile_run(t, R, V, B_AHEAD_HALF); }                                                    \
    static void tile_all_##R##x##V(const tile *t) { tile_run(t, R, V, B_AHEAD_ALL); }                                                      \
    static void tile_near_##R##x##V(const tile *t) { tile_run(t, R, V, B_NEAR); }                                                          \
    static void tile_both_##R##x##V(const tile *t) { tile_run(t, R, V, B_NEAR_TURNED); }
#define WIDE(R, V)                                                                                                                         \
    static void tile_plain_##R##x##V(const tile *t) { tile_run(t, R, V, B_PLAIN); }                                                        \
    static void tile_near_##R##x##V(const tile *t) { tile_run(t, R, V, B_NEAR); }
#define TILE_ENTRY(R, V)                                                                                                                   \
    {                                                                                                                                      \
        tile_plain_##R##x##V, tile_copy_##R##x##V, tile_ahead_##R##x##V, tile_half_##R##x##V, tile_all_##R##x##V, tile_near_##R##x##V,     \
            tile_both_##R##x##V                                                                                                            \
    }
#define WIDE_ENTRY(R, V)                                                                                                                   \
    {                                                                                                                                      \
        tile_plain_##R##x##V, NULL, NULL, NULL, NULL, tile_near_##R##x##V, tile_near_##R##x##V                                             \
    }

#define TURNED(R, V)                                                                                                                       \
    static void tile_turned_##R##x##V(const tile *t) { tile_run(t, R, V, A_COPY); }

/* clang-format off */
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1) TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
TILE(1, 3) TILE(2, 3) TILE(3, 3) TILE(4, 3)
#if GEMM_REGISTERS == 32
TILE(7, 2) TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2)
TILE(5, 3) TILE(6, 3) TILE(7, 3) TILE(8, 3) TILE(9, 3)
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4)
WIDE(1, 5) WIDE(2, 5) WIDE(3, 5) WIDE(4, 5) WIDE(1, 6) WIDE(2, 6) WIDE(3, 6) WIDE(4, 6)
#else
WIDE(1, 4) WIDE(2, 4)
#endif

static tile_fn *const tiles[WIDEST][TILE_MAX_ROWS][B_MODES] = {
    {TILE_ENTRY(1, 1), TILE_ENTRY(2, 1), TILE_ENTRY(3, 1), TILE_ENTRY(4, 1), TILE_ENTRY(5, 1), TILE_ENTRY(6, 1),
     TILE_ENTRY(7, 1), TILE_ENTRY(8, 1), TILE_ENTRY(9, 1), TILE_ENTRY(10, 1), TILE_ENTRY(11, 1), TILE_ENTRY(12, 1)},
#if GEMM_REGISTERS == 32
    {TILE_ENTRY(1, 2), TILE_ENTRY(2, 2), TILE_ENTRY(3, 2), TILE_ENTRY(4, 2), TILE_ENTRY(5, 2), TILE_ENTRY(6, 2),
     TILE_ENTRY(7, 2), TILE_ENTRY(8, 2), TILE_ENTRY(9, 2), TILE_ENTRY(10, 2), TILE_ENTRY(11, 2), TILE_ENTRY(12, 2)},
    {TILE_ENTRY(1, 3), TILE_ENTRY(2, 3), TILE_ENTRY(3, 3), TILE_ENTRY(4, 3), TILE_ENTRY(5, 3), TILE_ENTRY(6, 3),
     TILE_ENTRY(7, 3), TILE_ENTRY(8, 3), TILE_ENTRY(9, 3)},
    {TILE_ENTRY(1, 4), TILE_ENTRY(2, 4), TILE_ENTRY(3, 4), TILE_ENTRY(4, 4), TILE_ENTRY(5, 4), TILE_ENTRY(6, 4)},
    {WIDE_ENTRY(1, 5), WIDE_ENTRY(2, 5), WIDE_ENTRY(3, 5), WIDE_ENTRY(4, 5)},
    {WIDE_ENTRY(1, 6), WIDE_ENTRY(2, 6), WIDE_ENTRY(3, 6), WIDE_ENTRY(4, 6)},
#else
    {TILE_ENTRY(1, 2), TILE_ENTRY(2, 2), TILE_ENTRY(3, 2), TILE_ENTRY(4, 2), TILE_ENTRY(5, 2), TILE_ENTRY(6, 2)},
    {TILE_ENTRY(1, 3), TILE_ENTRY(2, 3), TILE_ENTRY(3, 3), TILE_ENTRY(4, 3)},
    {WIDE_ENTRY(1, 4), WIDE_ENTRY(2, 4)},
#endif
};

/* Tiles that copy a transposed A: as wide as a panel that is not the only one.  All panels share the copies, and so the heights of the widest. */
#if VL == 16
TURNED(1, 4) TURNED(2, 4) TURNED(3, 4) TURNED(4, 4) TURNED(5, 4) TURNED(6, 4)
TURNED(1, 3) TURNED(2, 3) TURNED(3, 3) TURNED(4, 3) TURNED(5, 3) TURNED(6, 3)
static tile_fn *const turned_tiles[2][TILE_ROWS_4] = {
    {tile_turned_1x3, tile_turned_2x3, tile_turned_3x3, tile_turned_4x3, tile_turned_5x3, tile_turned_6x3},
    {tile_turned_1x4, tile_turned_2x4, tile_turned_3x4, tile_turned_4x4, tile_turned_5x4, tile_turned_6x4}};
#elif VL == 8
TURNED(1, 3) TURNED(2, 3) TURNED(3, 3) TURNED(4, 3) TURNED(1, 2) TURNED(2, 2) TURNED(3, 2) TURNED(4, 2)
static tile_fn *const turned_tiles[2][TILE_ROWS_3] = {{tile_turned_1x2, tile_turned_2x2, tile_turned_3x2, tile_turned_4x2},
                                                      {tile_turned_1x3, tile_turned_2x3, tile_turned_3x3, tile_turned_4x3}};
#endif
/* clang-format on */

/* Rows of the tallest tile that is V vectors wide. */
GEMM_INLINE int tile_rows(int V)
{
#if GEMM_REGISTERS == 32
    return V > 4 ? WIDE_ROWS : V == 4 ? TILE_ROWS_4 : V == 3 ? TILE_ROWS_3 : V == 2 ? TILE_ROWS_2 : TILE_ROWS_1;
#else
    return V == 4 ? WIDE_ROWS : V == 3 ? TILE_ROWS_3 : V == 2 ? TILE_ROWS_2 : TILE_ROWS_1;
#endif
}

/* Vectors of the next panel when `left` vectors of columns remain, such that no narrow panel is left over if it can be avoided. */
GEMM_INLINE int tile_panel(int64_t left)
{
    if (left <= 3) return (int)left;
#if TILE_WIDTH == 4
    return left == 5 || left == 6 || left == 9 ? 3 : 4;
#else
    return left == 4 ? 2 : 3;
#endif
}

#endif
