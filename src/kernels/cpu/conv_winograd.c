/* 3x3 and 5x5 convolutions of stride 1 with fewer multiplications: Winograd's F(2x2, 3x3) and F(2x2, 5x5) (Winograd 1980; Lavin & Gray 2016), f32, channels-last.
 *
 * A tile of 2x2 results sees N x N pixels d of the source, N = R + 1.  With g the R x R kernel and ⊙ elementwise,
 *
 *     y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A,     summed over channels inside the brackets: N² products of matrices [tiles, channels] x [channels, lanes],
 *
 * 16 multiplications a tile and pair of channels where the definition of 3x3 takes 36, and 36 where that of 5x5 takes 100.  A, B and G follow from Toom and Cook's interpolation at
 * the points 0, 1, -1, ∞ and, for 5x5, also 1/2 and -2: of all sets of small numbers the one with the smallest error.  In one dimension, for 3x3,
 *
 *     Bᵀd = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)     Gg = (g0, (g0 + g1 + g2)/2, (g0 - g1 + g2)/2, g2)     Aᵀm = (m0 + m1 + m2, m1 - m2 - m3).
 *
 * The derivative of x is the same convolution of dy with the turned kernel; that of g is Gᵀ [ sum over tiles of (Bᵀ d B) ⊙ (A dy Aᵀ) ] G.
 *
 * The error of 3x3 is about that of plain sums: two thirds of it forward, where the sums are shorter, half as much again for the weights.  That of 5x5 is twice as large; for its weights
 * it would be seven times as large, and so these are left to conv_weight.c.  A value that is not finite spreads to the whole of its tile.
 *
 * A task takes a block of tiles and some lanes through all of it within the second-level cache: transform, N² products, transform.  Sums are split by shape alone
 * (derivative of the weights: a few parts of the tiles, added in order), so that the bits do not depend on the threads.
 */
#include "kernels/cpu/conv_winograd.h"

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/gemm_tile.h"

enum {
    LEAST_CHANNELS = 32,     /* fewer do not pay for the transforms */
    LEAST_TILES = 64,        /* nor do fewer tiles for the larger weights */
    BLOCK_BYTES = 512 << 10, /* of a block of transformed tiles, about */
    LEAST_BLOCK = 24,        /* tiles of a block, ... */
    MOST_BLOCK = 48,
    SUMMED_BLOCK = 96,   /* ... and where they are summed over */
    TASKS = 8,           /* wanted at least */
    PART_TILES = 128,    /* of a part of a sum over tiles, at least */
    TURNED_ROWS = 400,   /* of a block in which weights are turned */
    SKEW = 4 * TILE_LINE /* floats between the places of a tile, so that they do not meet in one set of the first-level cache */
};

/* One pass; source and result are x and y, or dy and dx. */
typedef struct winograd {
    int64_t n, channels, lanes; /* images; channels of the source and of the result */
    int64_t height, width;      /* of the source ... */
    int64_t rows, columns;      /* ... and of the result */
    int64_t top, left;          /* padding */
    int64_t down, across, tiles;
    int side, places;    /* N and N² */
    int64_t block;       /* tiles of a block */
    int64_t parts, part; /* of the tiles, each of so many: blocks, or, in the derivative of the weights, what is summed in one go */
    int64_t cuts, cut;   /* of the lanes, each of so many vectors */
    int64_t ld, place;   /* floats from one transformed tile to the next, and to the next place */
    size_t worker_bytes, weight_bytes, zero_bytes;
} winograd;

static int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool CJ_K(cj__conv_winograd_fits)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t)
{
    const int64_t taps = v->kernel[1], down = ceil_of(v->out[1], 2), across = ceil_of(v->out[2], 2);
    if (t != CJ_F32 || v->groups != 1 || !v->x_last || !v->y_last || v->in[0] != 1 || v->out[0] != 1 || v->kernel[0] != 1) return false;
    if (taps != v->kernel[2] || (taps != 3 && (taps != 5 || pass == CJ_CONV_WEIGHT))) return false;
    for (int d = 1; d < 3; d++)
        if (v->stride[d] != 1 || v->dilation[d] != 1) return false;
    if (v->c % 16 || v->o % 16 || v->c < LEAST_CHANNELS || v->o < LEAST_CHANNELS || v->n * down * across < LEAST_TILES) return false;
    const int64_t all = down * across * (taps + 1) * (taps + 1), plain = v->out[1] * v->out[2] * taps * taps;
    return all * 5 <= plain * 4; /* tiles that reach over the edge are not most of them */
}

static winograd winograd_of(const cj_conv_shape *v, cj_conv_pass pass)
{
    const bool data = pass == CJ_CONV_DATA, weight = pass == CJ_CONV_WEIGHT;
    const int64_t reach = v->kernel[1] - 1;
    winograd w = { .n = v->n, .channels = data ? v->o : v->c, .lanes = data ? v->c : v->o };
    w.height = data ? v->out[1] : v->in[1], w.width = data ? v->out[2] : v->in[2];
    w.rows = data ? v->in[1] : v->out[1], w.columns = data ? v->in[2] : v->out[2];
    w.top = data ? reach - v->pad[1] : v->pad[1], w.left = data ? reach - v->pad[2] : v->pad[2];
    w.down = ceil_of(w.rows, 2), w.across = ceil_of(w.columns, 2), w.tiles = w.n * w.down * w.across;
    w.side = (int)reach + 2, w.places = w.side * w.side;
    const int64_t vectors = w.lanes / VL, panels = ceil_of(vectors, TILE_WIDTH), fit = BLOCK_BYTES / 4 / (w.places * w.channels);
    w.block = weight ? SUMMED_BLOCK : conv_min(conv_max(fit, LEAST_BLOCK), MOST_BLOCK);
    w.block = ceil_of(w.tiles, ceil_of(w.tiles, w.block)); /* blocks of one size */
    if (weight) {
        w.cuts = panels, w.cut = TILE_WIDTH;
        w.parts = conv_max(1, conv_min(ceil_of(TASKS, w.cuts), w.tiles / PART_TILES));
        w.part = ceil_of(w.tiles, w.parts), w.parts = ceil_of(w.tiles, w.part);
    } else {
        w.part = w.block, w.parts = ceil_of(w.tiles, w.block);
        w.cut = ceil_of(panels, conv_min(panels, ceil_of(TASKS, w.parts))) * TILE_WIDTH;
        w.cuts = ceil_of(vectors, w.cut);
    }
    w.ld = conv_up(w.channels, TILE_LINE) + (w.channels / TILE_LINE % 2 ? 0 : TILE_LINE); /* an odd number of cache lines */
    w.place = w.block * w.ld + SKEW;
    w.worker_bytes = (size_t)(w.places * (w.place + w.block * w.cut * VL + SKEW)) * sizeof(float);
    w.weight_bytes = (size_t)((weight ? w.parts : 1) * w.places * w.channels * w.lanes) * sizeof(float);
    w.zero_bytes = (size_t)conv_up(conv_max(w.channels, w.lanes), TILE_LINE) * sizeof(float);
    return w;
}

/* Calls a transform with N a constant. */
#define BY_SIDE(w, call)                                                                                                                   \
    do {                                                                                                                                   \
        if ((w)->side == 4) {                                                                                                              \
            enum { N = 4 };                                                                                                                \
            call;                                                                                                                          \
        } else {                                                                                                                           \
            enum { N = 6 };                                                                                                                \
            call;                                                                                                                          \
        }                                                                                                                                  \
    } while (0)

/* ---- tiles --------------------------------------------------------------------------------------------------------------------------------------------- */

/* The pixels of a square of `size`, from line y and column x on, of an image of rows x columns pixels; zeros outside of it. */
GEMM_INLINE void square(const float *image, int64_t rows, int64_t columns, int64_t channels, int64_t y, int64_t x, const int size,
                        const float *zeros, const float **at)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            at[i * size + j] =
                y + i >= 0 && y + i < rows && x + j >= 0 && x + j < columns ? image + ((y + i) * columns + x + j) * channels : zeros;
}

/* Image, line and column of a tile's first result. */
typedef struct corner {
    int64_t image, y, x;
} corner;
GEMM_INLINE corner corner_of(const winograd *w, int64_t tile)
{
    const int64_t each = w->down * w->across, in_image = tile % each;
    return (corner){ tile / each, in_image / w->across * 2, in_image % w->across * 2 };
}

/* Bᵀ d B of tiles [begin, end). */
GEMM_INLINE void source_tiles(const winograd *w, const int N, const float *source, const float *zeros, int64_t begin, int64_t end,
                              float *to)
{
    for (int64_t tile = begin; tile < end; tile++, to += w->ld) {
        const corner p = corner_of(w, tile);
        const float *at[MOST_PLACES];
        square(source + p.image * w->height * w->width * w->channels, w->height, w->width, w->channels, p.y - w->top, p.x - w->left, N,
               zeros, at);
        for (int64_t c = 0; c < w->channels; c += VL) {
            vf d[MOST_PLACES];
#pragma GCC unroll 6
            for (int j = 0; j < N; j++) {
#pragma GCC unroll 6
                for (int i = 0; i < N; i++) d[i * N + j] = vload(at[i * N + j] + c);
                source_axis(d + j, N, N);
            }
#pragma GCC unroll 6
            for (int i = 0; i < N; i++) {
                source_axis(d + i * N, 1, N);
#pragma GCC unroll 6
                for (int j = 0; j < N; j++) vstore(to + (i * N + j) * w->place + c, d[i * N + j]);
            }
        }
    }
}
static __attribute__((noinline)) void transform_source(const winograd *w, const float *source, const float *zeros, int64_t begin,
                                                       int64_t end, float *to)
{
    BY_SIDE(w, source_tiles(w, N, source, zeros, begin, end, to));
}

/* Aᵀ m A of tiles [begin, end), `lanes` of them from lane0 on, to the result; m: [places][tiles][lanes], its places `place` apart. */
GEMM_INLINE void result_tiles(const winograd *w, const int N, const float *m, int64_t place, int64_t begin, int64_t end, int64_t lane0,
                              int64_t lanes, const float *bias, float *result)
{
    for (int64_t tile = begin; tile < end; tile++, m += lanes) {
        const corner p = corner_of(w, tile);
        float *y = result + ((p.image * w->rows + p.y) * w->columns + p.x) * w->lanes + lane0;
        const int64_t line = w->columns * w->lanes;
        const bool right = p.x + 1 < w->columns, below = p.y + 1 < w->rows;
        for (int64_t l = 0; l < lanes; l += VL) {
            vf column[MOST_SIDE], half[2 * MOST_SIDE], r[4];
#pragma GCC unroll 6
            for (int j = 0; j < N; j++) {
#pragma GCC unroll 6
                for (int i = 0; i < N; i++) column[i] = vload(m + (i * N + j) * place + l);
                result_axis(column, 1, half + j, N, N);
            }
            result_axis(half, 1, r, 1, N), result_axis(half + N, 1, r + 2, 1, N);
            const vf b = bias ? vload(bias + lane0 + l) : vzero();
            vstore(y + l, r[0] + b);
            if (right) vstore(y + w->lanes + l, r[1] + b);
            if (below) vstore(y + line + l, r[2] + b);
            if (below && right) vstore(y + line + w->lanes + l, r[3] + b);
        }
    }
}
static __attribute__((noinline)) void transform_result(const winograd *w, const float *m, int64_t place, int64_t begin, int64_t end,
                                                       int64_t lane0, int64_t lanes, const float *bias, float *result)
{
    BY_SIDE(w, result_tiles(w, N, m, place, begin, end, lane0, lanes, bias, result));
}

/* A dy Aᵀ of tiles [begin, end), `lanes` of them from lane0 on. */
GEMM_INLINE void slope_tiles(const winograd *w, const int N, const float *dy, const float *zeros, int64_t begin, int64_t end, int64_t lane0,
                             int64_t lanes, float *to, int64_t place)
{
    for (int64_t tile = begin; tile < end; tile++, to += lanes) {
        const corner p = corner_of(w, tile);
        const float *at[4];
        square(dy + p.image * w->rows * w->columns * w->lanes, w->rows, w->columns, w->lanes, p.y, p.x, 2, zeros, at);
        for (int i = 0; i < 4; i++)
            if (at[i] != zeros) at[i] += lane0;
        for (int64_t l = 0; l < lanes; l += VL) {
            vf half[2 * MOST_SIDE], z[MOST_SIDE];
            for (int j = 0; j < 2; j++) slope_axis(vload(at[j] + l), vload(at[2 + j] + l), half + j, 2, N);
#pragma GCC unroll 6
            for (int i = 0; i < N; i++) {
                slope_axis(half[2 * i], half[2 * i + 1], z, 1, N);
#pragma GCC unroll 6
                for (int j = 0; j < N; j++) vstore(to + (i * N + j) * place + l, z[j]);
            }
        }
    }
}
static __attribute__((noinline)) void transform_slope(const winograd *w, const float *dy, const float *zeros, int64_t begin, int64_t end,
                                                      int64_t lane0, int64_t lanes, float *to, int64_t place)
{
    BY_SIDE(w, slope_tiles(w, N, dy, zeros, begin, end, lane0, lanes, to, place));
}

/* ---- weights --------------------------------------------------------------------------------------------------------------------------------------------- */

/* Where the transformed weights of a place and a panel of lanes begin: rows of its vectors, one for every channel. */
GEMM_INLINE int64_t panel_of(const winograd *w, int place, int64_t vector) { return (place * w->lanes + vector * VL) * w->channels; }
GEMM_INLINE int panel_vectors(const winograd *w, int64_t vector) { return (int)conv_min(TILE_WIDTH, w->lanes / VL - vector); }

/* G g Gᵀ of one vector of lanes; g: R² vectors, turned: from the last to the first. */
GEMM_INLINE void transform_kernel(const int N, const float *g, bool turned, float *to, int64_t place)
{
    const int R = N - 1;
    vf k[MOST_SIDE], half[MOST_PLACES], u[MOST_SIDE];
    for (int j = 0; j < R; j++) {
        for (int i = 0; i < R; i++) k[i] = vload(g + (turned ? R * R - 1 - i * R - j : i * R + j) * VL);
        kernel_axis(k, 1, half + j, R, N);
    }
    for (int i = 0; i < N; i++) {
        kernel_axis(half + i * R, 1, u, 1, N);
        for (int j = 0; j < N; j++) vstore(to + (i * N + j) * place, u[j]);
    }
}

typedef struct winograd_job {
    const winograd *w;
    const float *a, *b; /* source; dy, or the weights as they are */
    const float *weights, *zeros, *bias;
    float *packing, *result;
    char *workers;
    bool data;
} winograd_job;

/* Items: a vector of lanes and TILE_LINE channels, in the order in which they lie in the weights [o, c, R, R]. */
static void pack_kernels(void *arg, int64_t begin, int64_t end, int worker)
{
    const winograd_job *j = arg;
    const winograd *w = j->w;
    const int64_t blocks = w->channels / TILE_LINE, vectors = w->lanes / VL, place = w->lanes * w->channels,
                  taps = (w->side - 1) * (w->side - 1);
    float g[TURNED_ROWS * VL];
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t c0 = (j->data ? item / vectors : item % blocks) * TILE_LINE, u = j->data ? item % vectors : item / blocks;
        const int64_t first = u / TILE_WIDTH * TILE_WIDTH, V = panel_vectors(w, first);
        float *to = j->packing + panel_of(w, 0, first) + (u - first) * VL;
        if (!j->data) pack(g, VL, j->b + (u * VL * w->channels + c0) * taps, 1, w->channels * taps, TILE_LINE * taps, VL, GEMM_F32);
        for (int64_t c = c0; c < c0 + TILE_LINE; c++) {
            if (j->data) pack(g, VL, j->b + (c * w->lanes + u * VL) * taps, 1, taps, taps, VL, GEMM_F32);
            BY_SIDE(w, transform_kernel(N, j->data ? g : g + (c - c0) * taps * VL, j->data, to + c * V * VL, place));
        }
    }
}

/* Gᵀ u G of one vector of lanes, to R² vectors; the parts of the sums are added in order. */
GEMM_INLINE void transform_sums(const winograd *w, const int N, const float *sum, float *to)
{
    const int R = N - 1;
    const int64_t place = w->lanes * w->channels;
    vf column[MOST_SIDE], half[MOST_PLACES], k[MOST_SIDE];
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            const float *at = sum + (i * N + j) * place;
            column[i] = vload(at);
            for (int64_t part = 1; part < w->parts; part++) column[i] = vadd(column[i], vload(at + part * N * N * place));
        }
        back_axis(column, 1, half + j, N, N);
    }
    for (int i = 0; i < R; i++) {
        back_axis(half + i * N, 1, k, 1, N);
        for (int j = 0; j < R; j++) vstore(to + (i * R + j) * VL, k[j]);
    }
}

/* Items as in pack_kernels. */
static void finish_weights(void *arg, int64_t begin, int64_t end, int worker)
{
    const winograd_job *j = arg;
    const winograd *w = j->w;
    const int64_t blocks = w->channels / TILE_LINE, taps = (w->side - 1) * (w->side - 1);
    float g[TURNED_ROWS * VL];
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t c0 = item % blocks * TILE_LINE, u = item / blocks, first = u / TILE_WIDTH * TILE_WIDTH, V = panel_vectors(w, first);
        for (int64_t c = c0; c < c0 + TILE_LINE; c++) {
            const float *sum = j->packing + panel_of(w, 0, first) + (u - first) * VL + c * V * VL;
            BY_SIDE(w, transform_sums(w, N, sum, g + (c - c0) * taps * VL));
        }
        pack(j->result + (u * VL * w->channels + c0) * taps, w->channels * taps, g, 1, VL, VL, TILE_LINE * taps, GEMM_F32);
    }
}

/* ---- products ------------------------------------------------------------------------------------------------------------------------------------------- */

/* All rows of t by a panel of V vectors.  next: a panel as large as this one that comes soon, or NULL: the first tiles fetch a column of its lines each. */
static void multiply(tile t, int V, int64_t rows, const float *next)
{
    const int64_t count = ceil_of(rows, tile_rows(V)), lines = next ? V * VL / TILE_LINE : 0;
    t.last = VL, t.next_row = t.b_row;
    for (int64_t i = 0, left = rows; i < count; i++) {
        const int64_t height = left / (count - i);
        const bool ahead = i < lines && lines <= count;
        if (ahead) t.next = next + i * TILE_LINE;
        tiles[V - 1][height - 1][ahead ? B_AHEAD : B_PLAIN](&t);
        left -= height;
        t.a += height * t.a_row, t.c += height * t.c_row;
    }
}

static float *worker_memory(const winograd_job *j, int worker)
{
    return (float *)(void *)(j->workers + (size_t)worker * j->w->worker_bytes);
}

/* Forward and data.  Items: a block of tiles and a cut of the lanes. */
static void run_blocks(void *arg, int64_t begin, int64_t end, int worker)
{
    const winograd_job *j = arg;
    const winograd *w = j->w;
    float *source = worker_memory(j, worker), *sums = source + w->places * w->place;
    for (int64_t item = begin; item < end; item++) {
        const int64_t tile0 = item / w->cuts * w->part, tile1 = conv_min(tile0 + w->part, w->tiles), rows = tile1 - tile0;
        const int64_t vector0 = item % w->cuts * w->cut, vector1 = conv_min(vector0 + w->cut, w->lanes / VL),
                      lanes = (vector1 - vector0) * VL;
        const int64_t place = rows * lanes + SKEW;
        if (item == begin || vector0 == 0) transform_source(w, j->a, j->zeros, tile0, tile1, source);
        for (int i = 0; i < w->places; i++)
            for (int64_t u = vector0; u < vector1; u += TILE_WIDTH) {
                const int V = panel_vectors(w, u);
                const bool more = u + TILE_WIDTH < vector1;
                const float *next = more                ? j->weights + panel_of(w, i, u + TILE_WIDTH)
                                    : i + 1 < w->places ? j->weights + panel_of(w, i + 1, vector0)
                                                        : NULL;
                multiply((tile){ .k = w->channels,
                                 .a = source + i * w->place,
                                 .a_row = w->ld,
                                 .a_col = 1,
                                 .b = j->weights + panel_of(w, i, u),
                                 .b_row = (int64_t)V * VL,
                                 .c = sums + i * place + (u - vector0) * VL,
                                 .c_row = lanes },
                         V, rows, next);
            }
        transform_result(w, sums, place, tile0, tile1, vector0 * VL, lanes, j->bias, j->result);
    }
}

/* The sums over tiles.  Items: a part of the tiles and a panel of lanes. */
static void sum_parts(void *arg, int64_t begin, int64_t end, int worker)
{
    const winograd_job *j = arg;
    const winograd *w = j->w;
    float *source = worker_memory(j, worker), *slope = source + w->places * w->place;
    for (int64_t item = begin; item < end; item++) {
        const int64_t part = item / w->cuts, first = part * w->part, last = conv_min(first + w->part, w->tiles);
        const int64_t u = item % w->cuts * w->cut, V = panel_vectors(w, u), lanes = V * VL, place = w->block * lanes + SKEW;
        for (int64_t tile0 = first; tile0 < last; tile0 += w->block) {
            const int64_t tile1 = conv_min(tile0 + w->block, last);
            transform_source(w, j->a, j->zeros, tile0, tile1, source);
            transform_slope(w, j->b, j->zeros, tile0, tile1, u * VL, lanes, slope, place);
            for (int i = 0; i < w->places; i++)
                multiply((tile){ .k = tile1 - tile0,
                                 .a = source + i * w->place,
                                 .a_row = 1,
                                 .a_col = w->ld,
                                 .b = slope + i * place,
                                 .b_row = lanes,
                                 .c = j->packing + part * w->places * w->lanes * w->channels + panel_of(w, i, u),
                                 .c_row = lanes,
                                 .add = tile0 > first ? CJ_GEMM_ADD : 0 },
                         (int)V, w->channels, NULL);
        }
    }
}

/* ---- the entry ------------------------------------------------------------------------------------------------------------------------------------------ */

size_t CJ_K(cj__conv_winograd_workspace)(const cj_conv_shape *v, cj_conv_pass pass, int threads)
{
    const winograd w = winograd_of(v, pass);
    return w.zero_bytes + w.weight_bytes + (size_t)threads * w.worker_bytes;
}

size_t CJ_K(cj__conv_winograd_packed)(const cj_conv_shape *v, cj_conv_pass pass) { return winograd_of(v, pass).weight_bytes; }

void CJ_K(cj__conv_winograd_pack)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const float *weights, float *packed)
{
    const winograd w = winograd_of(v, pass);
    winograd_job j = { .w = &w, .b = weights, .packing = packed, .data = pass == CJ_CONV_DATA };
    cj__parallel_for(pool, w.lanes / VL * (w.channels / TILE_LINE), 4, pack_kernels, &j);
}

void CJ_K(cj__conv_winograd)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, const float *a, const float *b, float *result,
                             char *work)
{
    const winograd w = winograd_of(v, pass);
    winograd_job j = { .w = &w, .a = a, .b = b, .bias = v->bias, .result = result };
    memset(work, 0, w.zero_bytes);
    j.zeros = (const float *)(const void *)work;
    j.packing = (float *)(void *)(work + w.zero_bytes);
    j.workers = work + w.zero_bytes + w.weight_bytes;
    if (pass == CJ_CONV_WEIGHT) {
        cj__parallel_for(pool, w.parts * w.cuts, 1, sum_parts, &j);
        cj__parallel_for(pool, w.lanes / VL * (w.channels / TILE_LINE), 4, finish_weights, &j);
        return;
    }
    if (!v->packed) CJ_K(cj__conv_winograd_pack)(pool, v, pass, b, j.packing);
    j.weights = v->packed ? v->packed : j.packing;
    cj__parallel_for(pool, w.parts * w.cuts, 1, run_blocks, &j);
}
