/* Batch normalisation with the channels last: x [rows, channels], of which every channel is a column.  Formulas: see normalise.c.
 *
 * Work is cut into blocks of ROWS rows and tiles of TILE channels.  First every block and tile has its sums (statistics: twice over the block, which stays in the first-level
 * cache), then the sums of the blocks are merged in order, then every block and tile is written.  A single block does all that in one task per tile.
 */
#include "kernels/cpu/normalise.h"

#include "kernels/cpu/row_pass.h"

#define ROWS 128
#define VECTORS 4 /* of a tile */
#define TILE (VECTORS * CJ_VL)
#define SMALL 16384

/* The work: what a task needs beside the job.  Sums [block][4][channels], coefficients [COEFS][channels]. */
typedef struct work {
    cj_normalise_job j;
    int64_t blocks, tiles;
    double *sums, *coef;
    bool stream;
} work;
enum { PILOT, FIRST, SECOND, SUMS }; /* of a block: the shift; sums of x - shift and its square, or of g and g·(x - high) */
enum { HIGH, SCALE, SHIFT, BY_G, BY_D, ONE, COEFS }; /* of a channel: y = (x - HIGH)·SCALE + SHIFT, dx = g·BY_G + (x - HIGH)·BY_D + ONE */

static double *sum_of(const work *w, int64_t block, int which) { return w->sums + (block * SUMS + which) * w->j.channels; }
static double *coef_of(const work *w, int which) { return w->coef + which * w->j.channels; }

/* m lanes to and from f64. */
CJ_INLINE void spill(vf v, int m, double *to)
{
    float f[CJ_VL];
    vf_store(f, v);
    for (int i = 0; i < m; i++) to[i] = (double)f[i];
}
CJ_INLINE vf lanes(const double *from, int m)
{
    float f[CJ_VL] = { 0 };
    for (int i = 0; i < m; i++) f[i] = (float)from[i];
    return vf_load(f);
}
/* Vector v of row r of a tile of nv vectors with m lanes each. */
CJ_INLINE vf at(cj_dtype t, const void *x, int64_t i, int m) { return m == CJ_VL ? load_vf(t, x, i) : load_vf_n(t, x, i, m); }

CJ_INLINE void put(cj_dtype t, void *y, int64_t i, vf v, int m, bool stream)
{
    if (m < CJ_VL) store_vf_n(t, y, i, v, m);
    else put_vf(t, y, i, v, stream);
}

/* ---- nv vectors of m lanes from channel c on, over a block of rows --------------------------------------------------------------------------------- */

CJ_INLINE void statistics(cj_dtype t, const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c, int nv, int m)
{
    const int64_t C = w->j.channels;
    const void *x = w->j.x;
    vf a[VECTORS], b[VECTORS], pilot[VECTORS];
    for (int v = 0; v < nv; v++) a[v] = vf_zero();
    for (int64_t r = r0; r < r1; r++)
        for (int v = 0; v < nv; v++) a[v] += at(t, x, r * C + c + v * CJ_VL, m);
    for (int v = 0; v < nv; v++) pilot[v] = a[v] * vf_set1(1.0f / (float)(r1 - r0)), a[v] = b[v] = vf_zero();
    for (int64_t r = r0; r < r1; r++)
        for (int v = 0; v < nv; v++) {
            const vf d = at(t, x, r * C + c + v * CJ_VL, m) - pilot[v];
            a[v] += d;
            b[v] = vf_fma(d, d, b[v]);
        }
    for (int v = 0; v < nv; v++) {
        spill(pilot[v], m, sum_of(w, block, PILOT) + c + v * CJ_VL);
        spill(a[v], m, sum_of(w, block, FIRST) + c + v * CJ_VL);
        spill(b[v], m, sum_of(w, block, SECOND) + c + v * CJ_VL);
    }
}

CJ_INLINE void write_y(cj_dtype t, bool relu, const work *w, int64_t r0, int64_t r1, int64_t c, int nv, int m)
{
    const int64_t C = w->j.channels;
    vf high[VECTORS], scale[VECTORS], shift[VECTORS];
    for (int v = 0; v < nv; v++) {
        high[v] = lanes(coef_of(w, HIGH) + c + v * CJ_VL, m);
        scale[v] = lanes(coef_of(w, SCALE) + c + v * CJ_VL, m);
        shift[v] = lanes(coef_of(w, SHIFT) + c + v * CJ_VL, m);
    }
    for (int64_t r = r0; r < r1; r++)
        for (int v = 0; v < nv; v++) {
            const int64_t i = r * C + c + v * CJ_VL;
            const vf y = vf_fma(at(t, w->j.x, i, m) - high[v], scale[v], shift[v]);
            put(t, w->j.y, i, relu ? vf_max(vf_zero(), y) : y, m, w->stream);
        }
}

CJ_INLINE vf below_relu(bool relu, vf d, vf scale, vf shift, vf dy)
{
    return relu ? vf_and_mask(vf_gt(vf_fma(d, scale, shift), vf_zero()), dy) : dy;
}

CJ_INLINE void gradients(cj_dtype t, bool relu, const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c, int nv, int m)
{
    const int64_t C = w->j.channels;
    vf high[VECTORS], scale[VECTORS], shift[VECTORS], a[VECTORS], b[VECTORS];
    for (int v = 0; v < nv; v++) {
        high[v] = lanes(coef_of(w, HIGH) + c + v * CJ_VL, m);
        scale[v] = lanes(coef_of(w, SCALE) + c + v * CJ_VL, m);
        shift[v] = lanes(coef_of(w, SHIFT) + c + v * CJ_VL, m);
        a[v] = b[v] = vf_zero();
    }
    for (int64_t r = r0; r < r1; r++)
        for (int v = 0; v < nv; v++) {
            const int64_t i = r * C + c + v * CJ_VL;
            const vf d = at(t, w->j.x, i, m) - high[v], g = below_relu(relu, d, scale[v], shift[v], at(t, w->j.dy, i, m));
            a[v] += g;
            b[v] = vf_fma(g, d, b[v]);
        }
    for (int v = 0; v < nv; v++) {
        spill(a[v], m, sum_of(w, block, FIRST) + c + v * CJ_VL);
        spill(b[v], m, sum_of(w, block, SECOND) + c + v * CJ_VL);
    }
}

CJ_INLINE void write_dx(cj_dtype t, bool relu, const work *w, int64_t r0, int64_t r1, int64_t c, int nv, int m)
{
    const int64_t C = w->j.channels;
    vf k[COEFS][VECTORS];
    for (int q = 0; q < COEFS; q++)
        for (int v = 0; v < nv; v++) k[q][v] = lanes(coef_of(w, q) + c + v * CJ_VL, m);
    for (int64_t r = r0; r < r1; r++)
        for (int v = 0; v < nv; v++) {
            const int64_t i = r * C + c + v * CJ_VL;
            const vf d = at(t, w->j.x, i, m) - k[HIGH][v], g = below_relu(relu, d, k[SCALE][v], k[SHIFT][v], at(t, w->j.dy, i, m));
            put(t, w->j.y, i, vf_fma(g, k[BY_G][v], vf_fma(d, k[BY_D][v], k[ONE][v])), m, w->stream);
        }
}

/* ---- the same for f64, one channel after the other --------------------------------------------------------------------------------------------------- */

static void statistics_f64(const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c)
{
    const double *x = w->j.x;
    double sum = 0, square = 0, pilot = 0;
    for (int64_t r = r0; r < r1; r++) pilot += x[r * w->j.channels + c];
    pilot /= (double)(r1 - r0);
    for (int64_t r = r0; r < r1; r++) {
        const double d = x[r * w->j.channels + c] - pilot;
        sum += d;
        square += d * d;
    }
    sum_of(w, block, PILOT)[c] = pilot;
    sum_of(w, block, FIRST)[c] = sum;
    sum_of(w, block, SECOND)[c] = square;
}
static void write_y_f64(const work *w, int64_t r0, int64_t r1, int64_t c)
{
    const double high = coef_of(w, HIGH)[c], scale = coef_of(w, SCALE)[c], shift = coef_of(w, SHIFT)[c];
    for (int64_t r = r0; r < r1; r++) {
        const double y = (((const double *)w->j.x)[r * w->j.channels + c] - high) * scale + shift;
        ((double *)w->j.y)[r * w->j.channels + c] = w->j.relu && y < 0 ? 0 : y;
    }
}
static void backward_f64(const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c, bool write)
{
    double k[COEFS], a = 0, b = 0;
    for (int q = 0; q < (write ? COEFS : BY_G); q++) k[q] = coef_of(w, q)[c];
    for (int64_t r = r0; r < r1; r++) {
        const int64_t i = r * w->j.channels + c;
        const double d = ((const double *)w->j.x)[i] - k[HIGH];
        const double g = w->j.relu && !(d * k[SCALE] + k[SHIFT] > 0) ? 0 : ((const double *)w->j.dy)[i];
        a += g;
        b += g * d;
        if (write) ((double *)w->j.y)[i] = g * k[BY_G] + (d * k[BY_D] + k[ONE]);
    }
    if (write) return;
    sum_of(w, block, FIRST)[c] = a;
    sum_of(w, block, SECOND)[c] = b;
}

/* ---- a block of rows, channels [c0, c1) ----------------------------------------------------------------------------------------------------------------- */

typedef enum phase { STATISTICS, WRITE_Y, GRADIENTS, WRITE_DX } phase;

CJ_INLINE void vectors(cj_dtype t, bool relu, phase p, const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c, int nv, int m)
{
    if (p == STATISTICS) statistics(t, w, block, r0, r1, c, nv, m);
    else if (p == WRITE_Y) write_y(t, relu, w, r0, r1, c, nv, m);
    else if (p == GRADIENTS) gradients(t, relu, w, block, r0, r1, c, nv, m);
    else write_dx(t, relu, w, r0, r1, c, nv, m);
}

CJ_INLINE void channels(cj_dtype t, bool relu, phase p, const work *w, int64_t block, int64_t r0, int64_t r1, int64_t c0, int64_t c1)
{
    int64_t c = c0;
    if (c + TILE == c1) {
        vectors(t, relu, p, w, block, r0, r1, c, VECTORS, CJ_VL);
        return;
    }
    for (; c + CJ_VL <= c1; c += CJ_VL) vectors(t, relu, p, w, block, r0, r1, c, 1, CJ_VL);
    if (c < c1) vectors(t, relu, p, w, block, r0, r1, c, 1, (int)(c1 - c));
}

CJ_INLINE void do_phase(phase p, const work *w, int64_t block, int64_t c0, int64_t c1)
{
    const int64_t r0 = block * ROWS, r1 = w->j.outer - r0 < ROWS ? w->j.outer : r0 + ROWS;
    if (w->j.t == CJ_F64) {
        for (int64_t c = c0; c < c1; c++) {
            if (p == STATISTICS) statistics_f64(w, block, r0, r1, c);
            else if (p == WRITE_Y) write_y_f64(w, r0, r1, c);
            else backward_f64(w, block, r0, r1, c, p == WRITE_DX);
        }
        return;
    }
    if (w->j.relu) CJ_BY_TYPE(w->j.t, channels(T, true, p, w, block, r0, r1, c0, c1))
    else CJ_BY_TYPE(w->j.t, channels(T, false, p, w, block, r0, r1, c0, c1))
    if (w->stream && (p == WRITE_Y || p == WRITE_DX)) vf_stream_end();
}

/* ---- between the passes ------------------------------------------------------------------------------------------------------------------------------- */

static void merge_statistics(const work *w, int64_t c0, int64_t c1)
{
    for (int64_t c = c0; c < c1; c++) {
        cj_moments total = { 0 };
        for (int64_t b = 0; b < w->blocks; b++) {
            const int64_t rows = w->j.outer - b * ROWS < ROWS ? w->j.outer - b * ROWS : ROWS;
            cj__moments_add(&total, (double)rows, sum_of(w, b, PILOT)[c], sum_of(w, b, FIRST)[c], sum_of(w, b, SECOND)[c]);
        }
        w->j.mean[c] = total.mean;
        w->j.var[c] = total.m2 / total.n;
    }
}

static void coefficients(const work *w, int64_t c0, int64_t c1)
{
    const cj_normalise_job *j = &w->j;
    for (int64_t c = c0; c < c1; c++) {
        const double high = j->t == CJ_F64 ? j->mean[c] : (double)(float)j->mean[c];
        const double scale = (j->weight ? j->weight[c] : 1) / sqrt(j->var[c] + j->eps);
        coef_of(w, HIGH)[c] = high;
        coef_of(w, SCALE)[c] = scale;
        coef_of(w, SHIFT)[c] = (j->bias ? j->bias[c] : 0) - (j->mean[c] - high) * scale;
    }
}

static void merge_gradients(const work *w, int64_t c0, int64_t c1)
{
    const cj_normalise_job *j = &w->j;
    const double n = (double)j->outer;
    for (int64_t c = c0; c < c1; c++) {
        double g = 0, gd = 0;
        for (int64_t b = 0; b < w->blocks; b++) {
            g += sum_of(w, b, FIRST)[c];
            gd += sum_of(w, b, SECOND)[c];
        }
        const double low = j->mean[c] - coef_of(w, HIGH)[c], scale = coef_of(w, SCALE)[c], rstd = 1 / sqrt(j->var[c] + j->eps);
        const double gx = (gd - low * g) * rstd, d = j->given ? 0 : -scale * rstd * gx / n;
        j->dweight[c] = gx;
        j->dbias[c] = g;
        coef_of(w, BY_G)[c] = scale;
        coef_of(w, BY_D)[c] = d;
        coef_of(w, ONE)[c] = j->given ? 0 : -d * low - scale * g / n;
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------------------------------------------ */

static int64_t tile_end(const work *w, int64_t tile) { return tile + 1 < w->tiles ? (tile + 1) * TILE : w->j.channels; }

#define TASKS(name, phase)                                                                                                                 \
    static void name(void *arg, int64_t begin, int64_t end, int worker)                                                                    \
    {                                                                                                                                      \
        const work *w = arg;                                                                                                               \
        (void)worker;                                                                                                                      \
        for (int64_t i = begin; i < end; i++) do_phase(phase, w, i / w->tiles, i % w->tiles * TILE, tile_end(w, i % w->tiles));            \
    }
TASKS(statistics_tasks, STATISTICS)
TASKS(write_y_tasks, WRITE_Y)
TASKS(gradients_tasks, GRADIENTS)
TASKS(write_dx_tasks, WRITE_DX)

/* All phases of a tile where there is one block. */
static void forward_tiles(void *arg, int64_t begin, int64_t end, int worker)
{
    const work *w = arg;
    (void)worker;
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t c0 = tile * TILE, c1 = tile_end(w, tile);
        if (!w->j.given) {
            do_phase(STATISTICS, w, 0, c0, c1);
            merge_statistics(w, c0, c1);
        }
        coefficients(w, c0, c1);
        do_phase(WRITE_Y, w, 0, c0, c1);
    }
}
static void backward_tiles(void *arg, int64_t begin, int64_t end, int worker)
{
    const work *w = arg;
    (void)worker;
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t c0 = tile * TILE, c1 = tile_end(w, tile);
        coefficients(w, c0, c1);
        do_phase(GRADIENTS, w, 0, c0, c1);
        merge_gradients(w, c0, c1);
        do_phase(WRITE_DX, w, 0, c0, c1);
    }
}
static void merge_statistics_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    merge_statistics(arg, begin, end);
}
static void merge_gradients_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    merge_gradients(arg, begin, end);
}

static int64_t blocks_of(const cj_normalise_job *j) { return (j->outer + ROWS - 1) / ROWS; }

static work work_of(const cj_normalise_job *j)
{
    work w = { .j = *j, .blocks = blocks_of(j), .tiles = (j->channels + TILE - 1) / TILE };
    w.sums = j->scratch;
    w.coef = j->scratch + w.blocks * SUMS * j->channels;
    w.stream = streams(j->t, j->outer, j->channels) && j->channels % CJ_VL == 0 && (uintptr_t)j->y % (4 * CJ_VL) == 0;
    return w;
}

void CJ_K(cj__normalise_columns)(cj_pool *pool, const cj_normalise_job *j)
{
    work w = work_of(j);
    if (j->outer * j->channels <= SMALL) pool = NULL;
    if (w.blocks == 1) {
        cj__parallel_for(pool, w.tiles, 1, forward_tiles, &w);
        return;
    }
    if (!j->given) {
        cj__parallel_for(pool, w.blocks * w.tiles, 2, statistics_tasks, &w);
        cj__parallel_for(pool, j->channels, 64, merge_statistics_tasks, &w);
    }
    coefficients(&w, 0, j->channels);
    cj__parallel_for(pool, w.blocks * w.tiles, 2, write_y_tasks, &w);
}

void CJ_K(cj__normalise_columns_bwd)(cj_pool *pool, const cj_normalise_job *j)
{
    work w = work_of(j);
    if (j->outer * j->channels <= SMALL) pool = NULL;
    if (w.blocks == 1) {
        cj__parallel_for(pool, w.tiles, 1, backward_tiles, &w);
        return;
    }
    coefficients(&w, 0, j->channels);
    cj__parallel_for(pool, w.blocks * w.tiles, 2, gradients_tasks, &w);
    cj__parallel_for(pool, j->channels, 64, merge_gradients_tasks, &w);
    cj__parallel_for(pool, w.blocks * w.tiles, 2, write_dx_tasks, &w);
}

size_t CJ_K(cj__normalise_columns_scratch)(const cj_normalise_job *j, bool backward)
{
    (void)backward;
    return (size_t)((blocks_of(j) * SUMS + COEFS) * j->channels);
}
