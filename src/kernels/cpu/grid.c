/* Sampling on a grid (grid.h), a block of positions at a time: neighbours and weights of the block are worked out once and used for every channel.
 *
 * The derivative goes in two passes: to the image, where a task owns channels and walks all positions in order, and to the positions, where a task
 * owns positions and walks all channels; so no sum depends on the number of threads.
 */
#include "kernels/cpu/grid.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

enum { BLOCK = 64, AXES = 3, TAPS = 16 };

typedef struct grid_job {
    const cj_grid_shape *v;
    cj_dtype t;
    const void *x, *grid, *dy;
    void *y;                 /* results, dx or dgrid */
    int64_t plane, blocks;   /* pixels of an image, blocks of its positions */
    int64_t channels, parts; /* of a task that owns channels; such tasks of an image */
} grid_job;

static int64_t plane_of(const cj_grid_shape *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->axes; d++) n *= v->size[d];
    return n;
}
static int neighbours_of(const cj_grid_shape *v)
{
    int n = 1;
    for (int d = 0; d < v->axes; d++) n *= v->taps;
    return n;
}

/* ---- one axis: neighbours of the positions of a block, their weights, and the derivatives of these by the position ----------------------------------------- */

typedef struct axis_taps { /* an outside neighbour is pixel 0 without weight */
    int32_t at[4][BLOCK];
    double weight[4][BLOCK], slope[4][BLOCK];
} axis_taps;

/* A pixel position beyond the border brought in; *slope is multiplied by the derivative. */
static double brought_in(const cj_grid_shape *v, int64_t n, double at, double *slope)
{
    if (v->border == CJ_GRID_ZEROS) return at;
    if (v->border == CJ_GRID_REFLECT) {
        const double low = v->align ? 0 : -0.5, span = v->align ? (double)(n - 1) : (double)n;
        if (span <= 0) {
            *slope = 0;
            return 0;
        }
        const double far = fabs(at - low), turns = floor(far / span), extra = far - turns * span;
        const bool back = fmod(turns, 2) != 0;
        *slope *= at < low ? -1 : 1;
        if (back) *slope = -*slope;
        at = (back ? span - extra : extra) + low;
    }
    if (at > 0 && at < (double)(n - 1)) return at;
    *slope = 0;
    return at > 0 ? (double)(n - 1) : 0;
}

static double cubic(double t)
{
    t = fabs(t);
    return t <= 1 ? (1.25 * t - 2.25) * t * t + 1 : -0.75 * (((t - 5) * t + 8) * t - 4);
}
static double cubic_slope(double t)
{
    const double sign = t < 0 ? -1 : 1;
    t = fabs(t);
    return sign * (t <= 1 ? (3.75 * t - 4.5) * t : -0.75 * ((3 * t - 10) * t + 8));
}

static void put_taps(const cj_grid_shape *v, int64_t n, double p, axis_taps *t, int64_t i)
{
    double slope = (double)(v->align ? n - 1 : n) / 2, at = (p + 1) * slope - (v->align ? 0 : 0.5);
    const bool number = at == at;
    at = number ? fmin(fmax(at, -1e9), 1e9) : -1e9; /* so far out only the side counts */
    if (v->taps < 4) at = brought_in(v, n, at, &slope);
    const double low = v->taps == 1 ? nearbyint(at) : floor(at), part = at - low;
    for (int k = 0; k < v->taps; k++) {
        double place = v->taps == 4 ? low + k - 1 : low + k, nothing = 0;
        if (v->taps == 4) place = brought_in(v, n, place, &nothing);
        const bool inside = number && place >= 0 && place < (double)n;
        t->at[k][i] = inside ? (int32_t)place : 0;
        t->weight[k][i] = !inside ? 0 : v->taps == 1 ? 1 : v->taps == 2 ? (k ? part : 1 - part) : cubic(part - (k - 1));
        t->slope[k][i] = !inside || v->taps == 1 ? 0 : slope * (v->taps == 2 ? (k ? 1 : -1) : cubic_slope(part - (k - 1)));
    }
}

/* ---- a block: offsets and weights of all neighbours; weight[1 + d]: the derivatives of the weights along axis d ------------------------------------------------ */

typedef struct block {
    int64_t begin, count;
    int neighbours;
    axis_taps axis[AXES];
    int32_t offset[TAPS][BLOCK];
    double weight[1 + AXES][TAPS][BLOCK];
} block;

static void fill_block(const grid_job *j, block *b, int64_t image, int64_t number, bool slopes)
{
    const cj_grid_shape *v = j->v;
    b->begin = number * BLOCK;
    b->count = v->positions - b->begin < BLOCK ? v->positions - b->begin : BLOCK;
    b->neighbours = neighbours_of(v);
    for (int d = 0; d < v->axes; d++) {
        const int64_t at = (image * v->positions + b->begin) * v->axes + v->axes - 1 - d;
        for (int64_t i = 0; i < b->count; i++) {
            const int64_t place = at + i * v->axes;
            put_taps(v, v->size[d], j->t == CJ_F64 ? ((const double *)j->grid)[place] : (double)((const float *)j->grid)[place],
                     &b->axis[d], i);
        }
    }
    for (int q = 0; q < b->neighbours; q++) {
        for (int64_t i = 0; i < BLOCK; i++) b->offset[q][i] = 0;
        for (int d = 0, k = q; d < v->axes; d++, k /= v->taps) {
            const int32_t *at = b->axis[d].at[k % v->taps], size = (int32_t)v->size[d];
            for (int64_t i = 0; i < b->count; i++) b->offset[q][i] = b->offset[q][i] * size + at[i];
        }
        for (int by = 0; by <= (slopes ? v->axes : 0); by++) {
            double *w = b->weight[by][q];
            for (int64_t i = 0; i < BLOCK; i++) w[i] = i < b->count;
            for (int d = 0, k = q; d < v->axes; d++, k /= v->taps) {
                const double *factor = by == d + 1 ? b->axis[d].slope[k % v->taps] : b->axis[d].weight[k % v->taps];
                for (int64_t i = 0; i < b->count; i++) w[i] *= factor[i];
            }
        }
    }
}

/* y[i] = sum over neighbours of weight·x[offset], the weights in the type of x. */
static void combine_f32(const block *b, const float (*w)[BLOCK], const float *x, float *y)
{
    for (int64_t i = 0; i < b->count; i += CJ_VL) {
        vf sum = vf_load(w[0] + i) * vf_gather(x, vi_load(b->offset[0] + i));
        for (int q = 1; q < b->neighbours; q++) sum = vf_fma(vf_load(w[q] + i), vf_gather(x, vi_load(b->offset[q] + i)), sum);
        const int64_t left = b->count - i;
        vf_store_n(y + i, sum, left < CJ_VL ? (int)left : CJ_VL);
    }
}
static void combine_f64(const block *b, const double (*w)[BLOCK], const double *x, double *y)
{
    for (int64_t i = 0; i < b->count; i++) {
        y[i] = 0;
        for (int q = 0; q < b->neighbours; q++) y[i] += w[q][i] * x[b->offset[q][i]];
    }
}

static void narrowed(const block *b, int by, float (*w)[BLOCK])
{
    for (int q = 0; q < b->neighbours; q++)
        for (int64_t i = 0; i < BLOCK; i++) w[q][i] = (float)b->weight[by][q][i];
}

/* ---- forward: tasks are blocks ------------------------------------------------------------------------------------------------------------------------------ */

static void forward(void *arg, int64_t begin, int64_t end, int worker)
{
    const grid_job *j = arg;
    const cj_grid_shape *v = j->v;
    block b;
    float w[TAPS][BLOCK];
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->blocks;
        fill_block(j, &b, image, task % j->blocks, false);
        if (j->t == CJ_F32) narrowed(&b, 0, w);
        for (int64_t c = image * v->c; c < (image + 1) * v->c; c++) {
            if (j->t == CJ_F32) combine_f32(&b, w, (const float *)j->x + c * j->plane, (float *)j->y + c * v->positions + b.begin);
            else combine_f64(&b, b.weight[0], (const double *)j->x + c * j->plane, (double *)j->y + c * v->positions + b.begin);
        }
    }
}

/* ---- to the positions: tasks are blocks --------------------------------------------------------------------------------------------------------------------- */

/* lines[d][i] = sum over neighbours of weight[d]·x[offset]: every neighbour is fetched once for all axes. */
CJ_INLINE void combine_axes(const block *b, int axes, float (*const w)[TAPS][BLOCK], const float *x, float (*lines)[BLOCK])
{
    for (int64_t i = 0; i < b->count; i += CJ_VL) {
        vf sum[AXES], pixel = vf_gather(x, vi_load(b->offset[0] + i));
        for (int d = 0; d < axes; d++) sum[d] = vf_load(w[d][0] + i) * pixel;
        for (int q = 1; q < b->neighbours; q++) {
            pixel = vf_gather(x, vi_load(b->offset[q] + i));
            for (int d = 0; d < axes; d++) sum[d] = vf_fma(vf_load(w[d][q] + i), pixel, sum[d]);
        }
        for (int d = 0; d < axes; d++) vf_store(lines[d] + i, sum[d]); /* a block is whole vectors */
    }
}

static void slopes_f32(const grid_job *j, const block *b, float (*const w)[TAPS][BLOCK], int64_t c, double (*sum)[BLOCK])
{
    const float *x = (const float *)j->x + c * j->plane, *dy = (const float *)j->dy + c * j->v->positions + b->begin;
    float lines[AXES][BLOCK];
    if (j->v->axes == 2) combine_axes(b, 2, w, x, lines);
    else combine_axes(b, 3, w, x, lines);
    for (int d = 0; d < j->v->axes; d++)
        for (int64_t i = 0; i < b->count; i++) sum[d][i] += (double)(lines[d][i] * dy[i]);
}

static void slopes_f64(const grid_job *j, const block *b, int64_t c, double (*sum)[BLOCK])
{
    const double *dy = (const double *)j->dy + c * j->v->positions + b->begin;
    double line[BLOCK];
    for (int d = 0; d < j->v->axes; d++) {
        combine_f64(b, b->weight[d + 1], (const double *)j->x + c * j->plane, line);
        for (int64_t i = 0; i < b->count; i++) sum[d][i] += line[i] * dy[i];
    }
}

static void to_grid(void *arg, int64_t begin, int64_t end, int worker)
{
    const grid_job *j = arg;
    const cj_grid_shape *v = j->v;
    block b;
    float w[AXES][TAPS][BLOCK];
    double sum[AXES][BLOCK];
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->blocks;
        fill_block(j, &b, image, task % j->blocks, true);
        memset(sum, 0, sizeof sum);
        for (int d = 0; d < v->axes && j->t == CJ_F32; d++) narrowed(&b, d + 1, w[d]);
        for (int64_t c = image * v->c; c < (image + 1) * v->c; c++)
            if (j->t == CJ_F32) slopes_f32(j, &b, w, c, sum);
            else slopes_f64(j, &b, c, sum);
        for (int64_t i = 0; i < b.count; i++)
            for (int d = 0; d < v->axes; d++) {
                const int64_t to = (image * v->positions + b.begin + i) * v->axes + v->axes - 1 - d;
                if (j->t == CJ_F32) ((float *)j->y)[to] = (float)sum[d][i];
                else ((double *)j->y)[to] = sum[d][i];
            }
    }
}

/* ---- to the image: tasks are runs of channels ------------------------------------------------------------------------------------------------------------------ */

#define SCATTER(name, type)                                                                                                                \
    static void name(const block *b, const type(*w)[BLOCK], type *dx, const type *dy)                                                      \
    {                                                                                                                                      \
        for (int64_t i = 0; i < b->count; i++)                                                                                             \
            for (int q = 0; q < b->neighbours; q++) dx[b->offset[q][i]] += w[q][i] * dy[i];                                                \
    }
SCATTER(scatter_f32, float)
SCATTER(scatter_f64, double)

static void to_image(void *arg, int64_t begin, int64_t end, int worker)
{
    const grid_job *j = arg;
    const cj_grid_shape *v = j->v;
    const size_t elem = j->t == CJ_F64 ? 8 : 4;
    block b;
    float w[TAPS][BLOCK];
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->parts, first = task % j->parts * j->channels;
        const int64_t last = first + j->channels < v->c ? first + j->channels : v->c;
        memset((char *)j->y + (size_t)((image * v->c + first) * j->plane) * elem, 0, (size_t)((last - first) * j->plane) * elem);
        for (int64_t n = 0; n < j->blocks; n++) {
            fill_block(j, &b, image, n, false);
            if (j->t == CJ_F32) narrowed(&b, 0, w);
            for (int64_t c = image * v->c + first; c < image * v->c + last; c++) {
                const int64_t at = c * v->positions + b.begin;
                if (j->t == CJ_F32) scatter_f32(&b, w, (float *)j->y + c * j->plane, (const float *)j->dy + at);
                else scatter_f64(&b, b.weight[0], (double *)j->y + c * j->plane, (const double *)j->dy + at);
            }
        }
    }
}

static grid_job job_of(const cj_grid_shape *v, cj_dtype t, const void *x, const void *grid)
{
    grid_job j = { .v = v, .t = t, .x = x, .grid = grid, .plane = plane_of(v), .blocks = (v->positions + BLOCK - 1) / BLOCK };
    j.channels = v->n < 8 ? 8 : 64; /* few images: more tasks for each, though every task works out its weights anew */
    j.parts = (v->c + j.channels - 1) / j.channels;
    return j;
}
void CJ_K(cj__grid_sample)(cj_pool *pool, const cj_grid_shape *v, cj_dtype t, const void *x, const void *grid, void *y)
{
    grid_job j = job_of(v, t, x, grid);
    j.y = y;
    cj__parallel_for(pool, v->n * j.blocks, 4, forward, &j);
}
void CJ_K(cj__grid_sample_bwd)(cj_pool *pool, const cj_grid_shape *v, cj_dtype t, const void *x, const void *grid, const void *dy, void *dx,
                               void *dgrid)
{
    grid_job j = job_of(v, t, x, grid);
    j.dy = dy;
    if (dx) {
        j.y = dx;
        cj__parallel_for(pool, v->n * j.parts, 1, to_image, &j);
    }
    if (dgrid) {
        j.y = dgrid;
        cj__parallel_for(pool, v->n * j.blocks, 4, to_grid, &j);
    }
}
