/* The derivative of a convolution with respect to its weights: dW[tap, c, o] = sum over points p of x[p at tap, c] · dy[p, o], f32, bf16 and f16.
 *
 * Points come in units: bands of an image, or several small images.  A task adds the units of one part to the sums of one chunk of result channels; parts are a fixed
 * function of the shape and are added in order at the end, so the bits do not depend on the threads.
 */
#include <string.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/conv_tile.h"

enum {
    UNIT_POINTS = 128,     /* at most in a unit: a chunk of dy stays in the first-level cache */
    TASKS = 16,            /* wanted at least */
    SUMS_BYTES = 16 << 20, /* of all parts together, unless one needs more */
    TABLE_BYTES = 128 << 10,
    TURN_ROWS = 256, /* rows of a block in which sums become weights */
};

typedef struct weight_plan {
    conv_phase f;
    conv_copy c;
    conv_image x, y;
    int64_t band, bands, images; /* points of a unit's image, bands of an image, images of a unit */
    int64_t units, parts;
    int64_t vectors, chunks; /* of the result channels of a group: vectors in all, chunks of up to CONV_WIDTH */
    int64_t rows, sums;      /* taps · run; floats of a part */
    bool copied_y;
    int64_t copy_floats, y_floats, table; /* of a worker */
    size_t worker_bytes, zero_bytes;
} weight_plan;

static weight_plan weight_plan_of(const cj_conv_shape *v, cj_dtype t)
{
    weight_plan p = { .f = conv_phase_of(v, false, 0),
                      .x = { t, v->x_last, v->groups * v->c, conv_volume(v->in) },
                      .y = { t, v->y_last, v->groups * v->o, conv_volume(v->out) } };
    const int64_t points = conv_max(p.f.points, 1), most = conv_max(16, conv_min(UNIT_POINTS, TABLE_BYTES / 8 / conv_max(1, p.f.taps)));
    p.bands = (points + most - 1) / most;
    p.band = (points + p.bands - 1) / p.bands;
    p.images = p.bands == 1 ? conv_max(1, conv_min(most / points, v->n)) : 1;
    p.units = p.images > 1 ? (v->n + p.images - 1) / p.images : v->n * p.bands;
    p.c = conv_copy_of(&p.f, p.x.last && t == CJ_F32, v->c, p.band, true);
    p.rows = p.c.taps * p.c.run;
    p.vectors = conv_up(v->o, VL) / VL;
    p.chunks = (p.vectors + CONV_WIDTH - 1) / CONV_WIDTH;
    p.sums = v->groups * p.rows * p.vectors * VL;
    p.parts = (TASKS + v->groups * p.chunks - 1) / (v->groups * p.chunks);
    p.parts = conv_max(1, conv_min(conv_min(p.parts, p.units), SUMS_BYTES / 4 / conv_max(1, p.sums)));
    p.copied_y = !p.y.last || t != CJ_F32 || p.y.channels > CONV_WIDTH * VL || v->o % VL;
    /* ... also rows of dy far apart: they would share few sets of the first-level cache */
    p.copy_floats = conv_copy_floats(&p.c, &p.f, v->c);
    p.y_floats = p.copied_y ? p.images * p.band * CONV_WIDTH * VL : 0;
    p.table = p.c.taps * p.images * p.band;
    p.worker_bytes = (size_t)conv_up((p.images * p.copy_floats + p.y_floats) * 4 + p.table * 8, 64);
    p.zero_bytes = (size_t)conv_up(p.c.run * 4, 64);
    return p;
}

typedef struct weight_job {
    const cj_conv_shape *v;
    const weight_plan *p;
    const void *x, *dy;
    char *dw;
    float *sums;
    const float *zeros;
    char *workers;
} weight_job;

/* The sums of a part, a group and a chunk: [rows, width] floats. */
static float *sums_of(const weight_job *j, int64_t part, int64_t g, int64_t vector)
{
    const weight_plan *p = j->p;
    return j->sums + part * p->sums + (g * p->vectors + vector) * VL * p->rows;
}

/* Images n0 … n1 - 1 and points p0 … p1 - 1 of each. */
typedef struct weight_unit {
    int64_t n0, n1, p0, p1;
} weight_unit;

static weight_unit unit_of(const weight_job *j, int64_t unit)
{
    const weight_plan *p = j->p;
    weight_unit u = { .n0 = p->images > 1 ? unit * p->images : unit / p->bands, .p0 = p->images > 1 ? 0 : unit % p->bands * p->band };
    u.n1 = conv_min(u.n0 + p->images, j->v->n), u.p1 = conv_min(u.p0 + p->band, p->f.points);
    return u;
}

/* What the next unit reads, to be fetched while this one is summed: a stretch of x, where it is read in place, and rows of dy. */
typedef struct weight_next {
    const char *x;
    int64_t x_bytes;
    const char *dy;
    int64_t dy_row, rows, lines, line; /* bytes between rows; rows left; lines of a row; lines of the first row that are fetched */
} weight_next;

static weight_next next_of(const weight_job *j, weight_unit now, weight_unit u, int64_t g, int64_t lane, int64_t lanes)
{
    const weight_plan *p = j->p;
    const conv_axis *y = &p->f.axis[1], *x = &p->f.axis[2];
    weight_next w = { 0 };
    if (!p->c.copied && j->v->groups == 1 && p->f.axis[0].size == 1) {
        int64_t low, high, from = 0, to;
        conv_reach(y, u.p0 / x->points, (u.p1 - 1) / x->points, &low, &high);
        if (now.n0 == u.n0)
            conv_reach(y, now.p0 / x->points, (now.p1 - 1) / x->points, &to, &from), from++; /* the lines before are known */
        from = conv_max(from, low);
        w.x = conv_at(&p->x, j->x, u.n0, 0, from * x->size);
        w.x_bytes = conv_max(0, conv_at(&p->x, j->x, u.n1 - 1, 0, (high + 1) * x->size) - w.x);
    }
    if (p->y.last && p->y.t == CJ_F32) {
        w.dy = conv_at(&p->y, j->dy, u.n0, g * j->v->o + lane, u.p0);
        w.dy_row = p->y.channels * 4, w.rows = (u.n1 - u.n0) * (u.p1 - u.p0), w.lines = (lanes + 15) / 16;
    }
    return w;
}

static void fetch_dy(weight_next *w, int64_t lines)
{
    for (; lines > 0 && w->rows > 0; lines--) {
        __builtin_prefetch(w->dy + w->line * 64, 0, 2);
        if (++w->line == w->lines) w->line = 0, w->rows--, w->dy += w->dy_row;
    }
}

static void add_unit(const weight_job *j, weight_unit u, weight_next w, int64_t g, int64_t vector, float *sums, bool add, int worker)
{
    const weight_plan *p = j->p;
    const int V = (int)conv_min(CONV_WIDTH, p->vectors - vector);
    const int64_t lane = vector * VL, lanes = conv_min(V * VL, j->v->o - lane), ld = p->images * p->band;
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *dy = copy + p->images * p->copy_floats;
    const float **rows = (const float **)(void *)(dy + p->y_floats);
    const int64_t points = u.p1 - u.p0;
    for (int64_t n = u.n0; n < u.n1; n++) {
        const int64_t at = (n - u.n0) * points;
        const conv_source s =
            conv_source_of(&p->f, &p->c, &p->x, j->x, n, g * j->v->c, j->v->c, u.p0, u.p1, copy + (n - u.n0) * p->copy_floats);
        conv_rows(&p->f, &p->c, &s, u.p0, u.p1, j->zeros, rows + at, ld);
        if (p->copied_y) conv_load(&p->y, j->dy, n, g * j->v->o + lane, lanes, u.p0, points, dy + at * V * VL, V * VL);
    }
    conv_tile t = { .taps = (u.n1 - u.n0) * points, .last = (int)(lanes - (V - 1) * VL), .add = add, .sum_row = (int64_t)V * VL };
    t.b = p->copied_y ? dy : (const float *)(const void *)conv_at(&p->y, j->dy, u.n0, g * j->v->o + lane, u.p0);
    t.b_row = p->copied_y ? (int64_t)V * VL : p->y.channels;
    const int64_t tall = conv_tile_rows(V), count = (p->c.run + tall - 1) / tall, R = p->c.run / count, tiles = count * p->c.taps;
    const int64_t dy_lines = (w.rows * w.lines + tiles - 1) / tiles; /* with every tile */
    t.next_step = conv_min(64, (w.x_bytes + tiles * t.taps - 1) / (tiles * t.taps));
    /* All taps of some channels one after the other: they read nearly the same lines of x, which stay in the first-level cache. */
    int64_t taller = p->c.run - R * count, tile = 0;
    for (t.row = 0; t.row < p->c.run;) {
        const int64_t height = taller-- > 0 ? R + 1 : R;
        for (int64_t tap = 0; tap < p->c.taps; tap++, tile++) {
            fetch_dy(&w, dy_lines);
            t.next = w.x + w.x_bytes * tile / tiles;
            t.rows = rows + tap * ld;
            t.sum = sums + (tap * p->c.run + t.row) * V * VL;
            outer_tiles[V - 1][height - 1][w.x_bytes > 0](&t);
        }
        t.row += height;
    }
}

static void weight_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const weight_job *j = arg;
    const weight_plan *p = j->p;
    for (int64_t task = begin; task < end; task++) {
        const int64_t vector = task % p->chunks * CONV_WIDTH, g = task / p->chunks % j->v->groups, part = task / p->chunks / j->v->groups;
        const int64_t from = p->units * part / p->parts, to = p->units * (part + 1) / p->parts;
        float *sums = sums_of(j, part, g, vector);
        for (int64_t i = from; i < to; i++) {
            const weight_unit u = unit_of(j, i);
            weight_next w = { 0 };
            if (i + 1 < to) w = next_of(j, u, unit_of(j, i + 1), g, vector * VL, conv_min(CONV_WIDTH * VL, j->v->o - vector * VL));
            add_unit(j, u, w, g, vector, sums, i > from, worker);
        }
    }
}

/* Adds the parts and turns rows of result channels into rows of weights, a block of them at a time.  Items: vectors of result channels, of all groups. */
static void finish(void *arg, int64_t begin, int64_t end, int worker)
{
    const weight_job *j = arg;
    const weight_plan *p = j->p;
    const int64_t channels = j->v->c, window = conv_volume(j->v->kernel), elements = channels * window, elem = cj__elem_size(p->x.t);
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const int64_t g = item / p->vectors, u = item % p->vectors, first = u / CONV_WIDTH * CONV_WIDTH;
        const int64_t width = conv_min(CONV_WIDTH, p->vectors - first) * VL;
        const int64_t lanes = conv_min(VL, j->v->o - u * VL);
        const float *sums = sums_of(j, 0, g, first) + (u - first) * VL;
        char *dw = j->dw + (g * j->v->o + u * VL) * elements * elem;
        for (int64_t done = 0, c = 0, k = 0; done < elements;) {
            float block[TURN_ROWS * VL], turned[TURN_ROWS * VL];
            const int64_t n = conv_min(TURN_ROWS, elements - done);
            for (int64_t r = 0; r < n; r++) { /* element c·window + k is row k·channels + c of the sums */
                const float *at = sums + (k * channels + c) * width;
                vf x = vload(at);
                for (int64_t part = 1; part < p->parts; part++) x = vadd(x, vload(at + part * p->sums));
                vstore(block + r * VL, x);
                if (++k == window) k = 0, c++;
            }
            char *to = dw + done * elem;
            if (p->x.t == CJ_F32) {
                pack((float *)(void *)to, elements, block, 1, VL, lanes, n, GEMM_F32);
            } else {
                pack(turned, n, block, 1, VL, lanes, n, GEMM_F32);
                for (int64_t l = 0; l < lanes; l++) CJ_K(cj__convert)(CJ_F32, turned + l * n, p->x.t, to + l * elements * elem, n);
            }
            done += n;
        }
    }
}

size_t CJ_K(cj__conv_weight_workspace)(const cj_conv_shape *v, cj_dtype t, int threads)
{
    const weight_plan p = weight_plan_of(v, t);
    return (size_t)conv_up(p.parts * p.sums * 4, 64) + p.zero_bytes + (size_t)threads * p.worker_bytes;
}

void CJ_K(cj__conv_weight)(cj_pool *pool, const cj_conv_shape *v, cj_dtype t, const void *x, const void *dy, void *dw, void *workspace)
{
    const weight_plan p = weight_plan_of(v, t);
    weight_job j = { .v = v, .p = &p, .x = x, .dy = dy, .dw = dw, .sums = workspace };
    if (!v->n) {
        memset(dw, 0, (size_t)(v->groups * v->o * v->c * conv_volume(v->kernel) * cj__elem_size(t)));
        return;
    }
    char *work = (char *)workspace + conv_up(p.parts * p.sums * 4, 64);
    memset(work, 0, p.zero_bytes);
    j.zeros = (const float *)(const void *)work;
    j.workers = work + p.zero_bytes;
    const double unit = (double)(p.images * p.band * p.rows) * (double)conv_min(p.vectors, CONV_WIDTH) * VL;
    const int64_t units = (p.units + p.parts - 1) / p.parts; /* of a task */
    const double task = unit * (double)units;
    cj__parallel_for(pool, v->groups * p.chunks * p.parts, task < 1e5 ? (int64_t)(1e5 / (task + 1)) + 1 : 1, weight_tasks, &j);
    cj__parallel_for(pool, v->groups * p.vectors, conv_max(1, 4096 / conv_max(1, v->c * conv_volume(v->kernel))), finish, &j);
}
