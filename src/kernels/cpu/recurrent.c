/* Recurrences in f32: the weight is packed once into panels that stay in the second-level cache, and every step multiplies the state with them (recurrent_steps.h). */
#include "kernels/cpu/recurrent.h"

#include "kernels/cpu/gemm_pack.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/simd_math.h"

#define REAL float
#define VEC vf
#define LANES CJ_VL

CJ_INLINE vf load(const float *p, int n)
{
    if (n == CJ_VL) return vf_load(p);
    return vf_load_n(p, n);
}
CJ_INLINE void store(float *p, vf v, int n)
{
    if (n == CJ_VL) vf_store(p, v);
    else vf_store_n(p, v, n);
}
CJ_INLINE vf splat(float x) { return vf_set1(x); }

/* 1/x for 1 <= x, to the last bit or two: a division of 16 lanes takes as long as the exponential before it. */
CJ_INLINE vf reciprocal(vf x)
{
#if defined CJ_ISA_AVX512
    const vf r = _mm512_rcp14_ps(x);
    return vf_fma(r, vf_fnma(x, r, splat(1)), r);
#else
    return splat(1) / x;
#endif
}
/* As vf_sigmoid and vf_tanh; the exponential stays finite, so that the reciprocal does. */
CJ_INLINE vf sigmoid_of(vf x)
{
    const vf least = splat(-88.0f), c = vf_min(splat(104.0f), vf_max(least, x)); /* NaN passes: it is the second operand */
    return vf_and_mask(vm_not(vf_lt(x, least)), reciprocal(splat(1) + cj_exp_clamped(vf_fma, -c)));
}
CJ_INLINE vf tanh_of(vf x)
{
    const vf t = cj_expm1_neg2abs(x);
    return cj_tanh_signed(x, t * reciprocal(splat(2) + t));
}
CJ_INLINE vf relu_of(vf x) { return vf_max(vf_zero(), x); } /* NaN stays NaN */
CJ_INLINE vf where_positive(vf x, vf g) { return vf_and_mask(vf_gt(x, vf_zero()), g); }

typedef struct job job;
typedef struct fetch fetch;
static void multiply(const job *j, const float *a, int64_t ld, int64_t rows, int64_t panel, float *c, fetch *soon);
static void pack_panels(void *arg, int64_t begin, int64_t end, int worker);

/* As many vectors as a tile is wide, or fewer if that leaves less of the last block empty. */
static int64_t block_units(int64_t hidden)
{
    const int64_t vectors = (hidden + VL - 1) / VL, blocks = (vectors + TILE_WIDTH - 1) / TILE_WIDTH;
    return (vectors + blocks - 1) / blocks * VL;
}
static size_t packed_bytes(const cj_recurrence *r)
{
    const int64_t units = block_units(r->hidden), blocks = (r->hidden + units - 1) / units;
    return (size_t)(cj__cell_gates(r->cell) * r->hidden * blocks * units) * sizeof(float);
}

#include "kernels/cpu/recurrent_steps.h"

/* Rows of a panel, the sums of a product: H of them forward, G·H backward. */
static int64_t panel_rows(const job *j) { return j->backward ? j->gates * j->r->hidden : j->r->hidden; }

/* Panel (block, gate) forward: columns are the gate's rows of W; panel (block) backward: columns are W's own. */
static void pack_panels(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const int64_t H = j->r->hidden, k = panel_rows(j);
    (void)worker;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t block = j->backward ? panel : panel / j->gates, gate = panel % j->gates, u = block * j->units;
        const int64_t columns = H - u < j->units ? H - u : j->units;
        float *to = j->packed + panel * k * j->units;
        if (j->backward) pack_panel(to, j->units, (const float *)j->r->w + u, H, 1, k, columns, GEMM_F32);
        else pack_panel(to, j->units, (const float *)j->r->w + (gate * H + u) * H, 1, H, k, columns, GEMM_F32);
    }
}

#if VL == 16
/* Four vectors of columns over a run of rows of a panel that stays in the first-level cache.  Meanwhile rows for the cells come into the second-level one, a line every four
 * steps: in one go they would wait for each other, and the product for them. */
enum { STRIP = 4 * VL, STRIP_ROWS = 6, STRIP_STEPS = 16 }; /* columns; rows of a; steps in which a row is fetched */
typedef struct strip {
    const float *a, *b;
    int64_t ld, k;
    float *c;
    int add;
    const float *soon; /* a row of STRIP floats, and so many more that lie soon_row apart */
    int64_t soon_row, more;
} strip;

GEMM_INLINE void strip_step(vf acc[STRIP_ROWS][4], const float *a0, const float *a3, int64_t row1, int64_t row2, const float *b,
                            const int R)
{
    vf x[4];
    UNROLL for (int v = 0; v < 4; v++)
    {
        x[v] = vload(b + v * VL);
        VKEEP(x[v]);
    }
    UNROLL for (int i = 0; i < R; i++)
    {
        const vf a = vset1((i < 3 ? a0 : a3)[i % 3 == 0 ? 0 : i % 3 == 1 ? row1 : row2]);
        UNROLL for (int v = 0; v < 4; v++) acc[i][v] = vfma(a, x[v], acc[i][v]);
    }
}

GEMM_INLINE void strip_run(const strip *t, const int R)
{
    vf acc[STRIP_ROWS][4];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < 4; v++) acc[i][v] = t->add ? vload(t->c + i * STRIP + v * VL) : vzero();
    const float *a0 = t->a, *a3 = t->a + 3 * t->ld, *b = t->b, *soon = t->soon;
    int64_t row1 = t->ld, row2 = 2 * t->ld, p = 0, more = t->more;
    __asm__("" : "+r"(row1), "+r"(row2)); /* no pointer per row */
    for (; p + STRIP_STEPS <= t->k; p += STRIP_STEPS) {
        for (int line = 0; line < STRIP; line += VL) {
            __builtin_prefetch(soon + line, 0, 2);
#pragma GCC unroll 4
            for (int q = 0; q < STRIP_STEPS / 4; q++, b += STRIP) strip_step(acc, a0++, a3++, row1, row2, b, R);
        }
        if (more > 0) soon += t->soon_row, more--;
    }
    for (; p < t->k; p++, b += STRIP) strip_step(acc, a0++, a3++, row1, row2, b, R);
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < 4; v++) vstore(t->c + i * STRIP + v * VL, acc[i][v]);
}
#define STRIP_OF(R)                                                                                                                        \
    static __attribute__((noinline)) void strip_##R(const strip *t) { strip_run(t, R); }
/* clang-format off */
STRIP_OF(1) STRIP_OF(2) STRIP_OF(3) STRIP_OF(4) STRIP_OF(5) STRIP_OF(6)

static void (*const strips[STRIP_ROWS])(const strip *) = { strip_1, strip_2, strip_3, strip_4, strip_5, strip_6 };
/* clang-format on */

/* c[rows, STRIP] = a·panel */
static void multiply_strips(const float *a, int64_t ld, int64_t rows, int64_t k, const float *b, float *c, fetch *soon)
{
    enum { RUN = 128 }; /* rows of the panel: 32 KiB */
    const int64_t count = (rows + STRIP_ROWS - 1) / STRIP_ROWS;
    for (int64_t p = 0; p < k; p += RUN)
        for (int64_t i = 0, done = 0; i < count; i++) {
            const int64_t height = (rows - done) / (count - i);
            strip t = { .a = a + done * ld + p,
                        .b = b + p * STRIP,
                        .ld = ld,
                        .k = k - p < RUN ? k - p : RUN,
                        .c = c + done * STRIP,
                        .add = p > 0,
                        .soon = b };
            t.more = fetch_run(soon, t.k / STRIP_STEPS, &t.soon, &t.soon_row) - 1;
            strips[height - 1](&t);
            done += height;
        }
}
#endif

/* The panels lie one behind the other in the order in which they are needed, step after step; together they may be larger than the second-level cache.  So the first tiles of a
 * run of panel rows fetch the next run, a column of cache lines each. */
static void multiply(const job *j, const float *a, int64_t ld, int64_t rows, int64_t panel, float *c, fetch *soon)
{
    enum { RUN = 128, LINE = 16 }; /* rows of a panel that stay in the first-level cache while the tiles pass over them; floats */
    const int V = (int)(j->units / VL), most = tile_rows(V);
    const int64_t k = panel_rows(j), count = (rows + most - 1) / most;
    const float *b = j->packed + panel * k * j->units, *end = j->packed + j->panels * k * j->units;
#if VL == 16
    enum { NEAR = 1 << 18 }; /* floats of all panels that stay in the second-level cache from step to step */
    if (j->units == STRIP && j->panels * k * j->units <= NEAR) {
        multiply_strips(a, ld, rows, k, b, c, soon);
        return;
    }
#endif
    const int64_t calls = (k + RUN - 1) / RUN * count, fetched = (rows + calls - 1) / (calls ? calls : 1); /* rows fetched before a tile */
    for (int64_t p = 0; p < k; p += RUN) {
        tile t = { .k = k - p < RUN ? k - p : RUN,
                   .a = a + p,
                   .a_row = ld,
                   .a_col = 1,
                   .b = b + p * j->units,
                   .b_row = j->units,
                   .c = c,
                   .c_row = j->units,
                   .next_row = j->units,
                   .last = VL,
                   .add = p > 0 };
        const float *next = t.b + t.k * j->units < end ? t.b + t.k * j->units : j->packed;
        for (int64_t i = 0, done = 0; i < count; i++) {
            const int64_t height = (rows - done) / (count - i);
            t.next = next + i * LINE;
            fetch_rows(soon, fetched);
            tiles[V - 1][height - 1][i * LINE < j->units ? B_AHEAD : B_PLAIN](&t);
            t.a += height * ld;
            t.c += height * j->units;
            done += height;
        }
    }
}

int64_t CJ_K(cj__recurrent_saved_f64)(const cj_recurrence *r);
size_t CJ_K(cj__recurrent_workspace_f64)(const cj_recurrence *r, bool backward, int threads);
void CJ_K(cj__recurrent_f64)(cj_pool *pool, const cj_recurrence *r, bool backward, void *workspace);

int64_t CJ_K(cj__recurrent_saved)(const cj_recurrence *r, cj_dtype t)
{
    return t == CJ_F64 ? CJ_K(cj__recurrent_saved_f64)(r) : saved_elements(r);
}
size_t CJ_K(cj__recurrent_workspace)(const cj_recurrence *r, cj_dtype t, bool backward, int threads)
{
    return t == CJ_F64 ? CJ_K(cj__recurrent_workspace_f64)(r, backward, threads) : workspace_of(r, backward, threads);
}
void CJ_K(cj__recurrent)(cj_pool *pool, const cj_recurrence *r, cj_dtype t, bool backward, void *workspace)
{
    if (t == CJ_F64) CJ_K(cj__recurrent_f64)(pool, r, backward, workspace);
    else run_steps(pool, r, backward, workspace);
}
