/* The derivative of a convolution with respect to its weights: dW[tap, c, o] = sum over points p of x[p at tap, c] · dy[p, o], f32, bf16 and f16.
 *
 * Points come in units: bands of an image, or several small images.  A task adds the units of one part to the sums of one chunk of result channels; parts are a fixed
 * function of the shape and are added in order at the end, so the bits do not depend on the threads.
 */
#include <string.h>

#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_outer.h"
#include "kernels/cpu/conv_passes.h"

enum {
    UNIT_BYTES = 28 << 10,                        /* of a chunk of dy of a unit at most: it stays in the first-level cache */
    CHUNK = GEMM_REGISTERS == 32 ? 2 : 3,         /* vectors of a chunk ... */
    CHUNK_SHALLOW = GEMM_REGISTERS == 32 ? 4 : 3, /* ... and with fewer products than ... */
    SHALLOW = 320,                                /* ... these for each of its sums: little is done with what it reads */
    TASKS = 16,                                   /* wanted at least */
    SUMS_BYTES = 16 << 20,                        /* of all parts together, unless one needs more */
    TABLE_BYTES = 128 << 10,
    TURN_ROWS = 256, /* rows of a block in which sums become weights */
};

typedef struct weight_plan {
    conv_phase f;
    conv_copy c;
    conv_image x, y;
    int64_t band, bands, images; /* points of a unit's image, bands of an image, images of a unit */
    int64_t units, parts;
    int64_t vectors, chunk, chunks; /* of the result channels of a group: vectors in all, of a chunk, chunks */
    int64_t rows, sums;             /* taps · run; floats of a part */
    bool copied_y;
    int64_t copy_floats, y_floats, table; /* of a worker; table: runs of a tap at most */
    size_t worker_bytes;
} weight_plan;

static weight_plan weight_plan_of(const cj_conv_shape *v, cj_dtype t)
{
    weight_plan p = { .f = conv_phase_of(v, false, 0),
                      .x = { t, v->x_last, v->groups * v->c, conv_volume(v->in) },
                      .y = { t, v->y_last, v->groups * v->o, conv_volume(v->out) } };
    p.vectors = conv_up(v->o, VL) / VL;
    const bool shallow =
        p.f.taps == 1 || p.f.taps * v->c < SHALLOW || !(p.x.last && t == CJ_F32); /* ... or x has to be turned for every chunk */
    p.chunk = conv_min(p.vectors, shallow ? CHUNK_SHALLOW : CHUNK);
    p.chunks = (p.vectors + p.chunk - 1) / p.chunk;
    const int64_t points = conv_max(p.f.points, 1), line = conv_max(p.f.axis[2].points, 1), lines = points / line;
    const int64_t runs =
        conv_max(1, TABLE_BYTES / (int64_t)sizeof(outer_run) / conv_max(1, p.f.taps)); /* that the table of a tap can hold */
    const int64_t most = conv_max(16, conv_min(UNIT_BYTES / (p.chunk * VL * 4), runs * line));
    if (line <= most) { /* whole lines */
        p.bands = (lines + most / line - 1) / (most / line);
        p.band = (lines + p.bands - 1) / p.bands * line;
    } else {
        p.bands = (points + most - 1) / most;
        p.band = (points + p.bands - 1) / p.bands;
    }
    p.bands = (points + p.band - 1) / p.band;
    p.images = p.bands == 1 ? conv_max(1, conv_min(most / points, v->n)) : 1;
    p.units = p.images > 1 ? (v->n + p.images - 1) / p.images : v->n * p.bands;
    p.c = conv_copy_of(&p.f, p.x.last && t == CJ_F32, v->c, p.band, true);
    p.rows = p.c.taps * p.c.run;
    p.sums = v->groups * p.rows * p.vectors * VL;
    p.parts = (TASKS + v->groups * p.chunks - 1) / (v->groups * p.chunks);
    p.parts = conv_max(1, conv_min(conv_min(p.parts, p.units), SUMS_BYTES / 4 / conv_max(1, p.sums)));
    p.copied_y = !p.y.last || t != CJ_F32 || p.y.channels > p.chunk * VL || v->o % VL;
    /* ... also rows of dy far apart: they would share few sets of the first-level cache */
    p.copy_floats = conv_copy_floats(&p.c, &p.f, v->c);
    p.y_floats = p.copied_y ? p.images * p.band * p.chunk * VL : 0;
    p.table = p.images * conv_min(lines, (p.band + line - 2) / line + 1);
    p.worker_bytes =
        (size_t)conv_up((p.images * p.copy_floats + p.y_floats) * 4 + p.c.taps * (p.table * (int64_t)sizeof(outer_run) + 8), 64);
    return p;
}

typedef struct weight_job {
    const cj_conv_shape *v;
    const weight_plan *p;
    const void *x, *dy;
    char *dw;
    float *sums;
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

/* What the next unit reads, to be fetched while this one is summed: a stretch of x, and one of dy or parts of its rows. */
typedef struct weight_next {
    const char *x, *dy;
    int64_t x_bytes, dy_bytes;
    int64_t dy_row, rows, lines, line; /* bytes between rows; rows left; lines of a row; lines of the first row that are fetched */
} weight_next;

static weight_next next_of(const weight_job *j, weight_unit now, weight_unit u, int64_t g, int64_t lane, int64_t lanes)
{
    const weight_plan *p = j->p;
    const conv_axis *y = &p->f.axis[1], *x = &p->f.axis[2];
    weight_next w = { 0 };
    if (p->x.last && p->x.t == CJ_F32 && j->v->groups == 1 && p->f.axis[0].size == 1) {
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
        if (lanes == p->y.channels) w.dy_bytes = w.rows * w.dy_row, w.rows = 0;
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

/* Lists the points of a unit that each tap sees, in runs.  dy: of point u.p0 of image u.n0; count: of every tap. */
static void list_runs(const weight_job *j, weight_unit u, const conv_source *s, int64_t x_image, const float *dy, int64_t dy_step,
                      outer_run *runs, int64_t *count)
{
    const weight_plan *p = j->p;
    const conv_axis *az = &p->f.axis[0], *ay = &p->f.axis[1], *ax = &p->f.axis[2];
    const int64_t x_taps = p->c.merged ? 1 : ax->taps, x_step = ax->mul * s->pixel, points = u.p1 - u.p0;
    const int64_t line0 = u.p0 / ax->points, z0 = line0 / ay->points, y0 = line0 - z0 * ay->points, x0 = u.p0 - line0 * ax->points;
    for (int64_t tap = 0; tap < p->c.taps; tap++) {
        const int64_t off = ax->off0 + tap % x_taps * ax->off_step, jy = tap / x_taps % ay->taps, jz = tap / x_taps / ay->taps;
        outer_run *const first = runs + tap * p->table, *to = first;
        for (int64_t n = 0; n < u.n1 - u.n0; n++) {
            int64_t z = z0, y = y0, begin = x0, end;
            for (int64_t at = 0; at < points; at += end - begin, begin = 0) {
                end = conv_min(ax->points, begin + points - at);
                const int64_t iz = z * az->mul + az->off0 + jz * az->off_step, iy = y * ay->mul + ay->off0 + jy * ay->off_step;
                if (++y == ay->points) y = 0, z++;
                int64_t low = begin, high = end;
                if (iz < 0 || iz >= az->size || iy < 0 || iy >= ay->size) continue;
                if (!p->c.merged) conv_inside(ax, off, begin, end, &low, &high);
                if (low >= high) continue;
                const float *x = s->base + n * x_image + ((iz - s->z0) * s->lines + iy - s->y0) * s->line_floats +
                                 (low * ax->mul + off + s->left) * s->pixel;
                const float *g = dy + (n * points + at + low - begin) * dy_step;
                if (to > first && to[-1].x + to[-1].points * x_step == x && to[-1].dy + to[-1].points * dy_step == g)
                    to[-1].points += high - low; /* goes on where the last one ends */
                else *to++ = (outer_run){ x, g, high - low };
            }
        }
        count[tap] = to - first;
    }
}

/* Adds the products of a unit's points to the sums of a chunk: [taps, run, lanes of the chunk]. */
static void add_unit(const weight_job *j, weight_unit u, weight_next w, int64_t g, int64_t vector, float *sums, bool add, int worker)
{
    const weight_plan *p = j->p;
    const int64_t vectors = conv_min(p->chunk, p->vectors - vector), lane = vector * VL, lanes = conv_min(vectors * VL, j->v->o - lane);
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *dy = copy + p->images * p->copy_floats;
    outer_run *runs = (outer_run *)(void *)(dy + p->y_floats);
    int64_t *count = (int64_t *)(void *)(runs + p->c.taps * p->table);
    const int64_t points = u.p1 - u.p0;
    conv_source s = { 0 };
    for (int64_t n = u.n1 - 1; n >= u.n0; n--) {
        s = conv_source_of(&p->f, &p->c, &p->x, j->x, n, g * j->v->c, j->v->c, u.p0, u.p1, copy + (n - u.n0) * p->copy_floats);
        if (p->copied_y)
            conv_load(&p->y, j->dy, n, g * j->v->o + lane, lanes, u.p0, points, dy + (n - u.n0) * points * vectors * VL, vectors * VL);
    }
    outer_tile t = { .x_step = p->f.axis[2].mul * s.pixel, .sum_row = vectors * VL, .add = add };
    t.dy_step = p->copied_y ? vectors * VL : p->y.channels;
    list_runs(j, u, &s, p->c.copied ? p->copy_floats : p->x.channels * p->x.pixels,
              p->copied_y ? dy : (const float *)(const void *)conv_at(&p->y, j->dy, u.n0, g * j->v->o + lane, u.p0), t.dy_step, runs,
              count);
    const int64_t wide = conv_min(vectors, OUTER_WIDTH), tall = outer_rows((int)wide), heights = (p->c.run + tall - 1) / tall;
    const int64_t tiles = heights * p->c.taps * ((vectors + wide - 1) / wide);
    const int64_t dy_lines = (w.rows * w.lines + tiles - 1) / tiles; /* with every tile */
    const int64_t all = w.x_bytes + w.dy_bytes;
    int64_t tile = 0;
    /* All taps of some channels one after the other: they read nearly the same lines of x, which stay in the first-level cache. */
    for (int64_t h = 0; h < heights; h++) {
        const int64_t R = (p->c.run - t.row) / (heights - h);
        for (int64_t tap = 0; tap < p->c.taps; tap++)
            for (int64_t v = 0; v < vectors; v += wide, tile++) {
                const int V = (int)conv_min(wide, vectors - v);
                const int64_t steps = conv_max(1, V == 1 ? count[tap] : (u.n1 - u.n0) * points);
                const int64_t at = all * tile / tiles; /* of x, then of dy */
                fetch_dy(&w, dy_lines);
                t.next = at < w.x_bytes ? w.x + at : w.dy + at - w.x_bytes;
                t.next_step = (all / tiles + steps - 1) / steps;
                t.run = runs + tap * p->table, t.runs = count[tap];
                t.column = v * VL;
                t.sum = sums + (tap * p->c.run + t.row) * t.sum_row + v * VL;
                outer_tiles[V - 1][R - 1](&t);
            }
        t.row += R;
    }
}

static void weight_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const weight_job *j = arg;
    const weight_plan *p = j->p;
    for (int64_t task = begin; task < end; task++) {
        const int64_t vector = task % p->chunks * p->chunk, g = task / p->chunks % j->v->groups, part = task / p->chunks / j->v->groups;
        const int64_t from = p->units * part / p->parts, to = p->units * (part + 1) / p->parts;
        float *sums = sums_of(j, part, g, vector);
        /* Lanes that do not exist are multiplied, too: zeros, because whatever else lies there may be slow numbers. */
        float *dy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes) + p->images * p->copy_floats;
        if (p->copied_y && j->v->o % VL) memset(dy, 0, (size_t)p->y_floats * sizeof *dy);
        for (int64_t i = from; i < to; i++) {
            const weight_unit u = unit_of(j, i);
            weight_next w = { 0 };
            if (i + 1 < to) w = next_of(j, u, unit_of(j, i + 1), g, vector * VL, conv_min(p->chunk * VL, j->v->o - vector * VL));
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
        const int64_t g = item / p->vectors, u = item % p->vectors, first = u / p->chunk * p->chunk;
        const int64_t width = conv_min(p->chunk, p->vectors - first) * VL;
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
    return (size_t)conv_up(p.parts * p.sums * 4, 64) + (size_t)threads * p.worker_bytes;
}

void CJ_K(cj__conv_weight)(cj_pool *pool, const cj_conv_shape *v, cj_dtype t, const void *x, const void *dy, void *dw, void *workspace)
{
    const weight_plan p = weight_plan_of(v, t);
    weight_job j = { .v = v, .p = &p, .x = x, .dy = dy, .dw = dw, .sums = workspace };
    if (!v->n) {
        memset(dw, 0, (size_t)(v->groups * v->o * v->c * conv_volume(v->kernel) * cj__elem_size(t)));
        return;
    }
    j.workers = (char *)workspace + conv_up(p.parts * p.sums * 4, 64);
    const double unit = (double)(p.images * p.band * p.rows) * (double)p.chunk * VL;
    const int64_t units = (p.units + p.parts - 1) / p.parts; /* of a task */
    const double task = unit * (double)units;
    cj__parallel_for(pool, v->groups * p.chunks * p.parts, task < 1e5 ? (int64_t)(1e5 / (task + 1)) + 1 : 1, weight_tasks, &j);
    cj__parallel_for(pool, v->groups * p.vectors, conv_max(1, 4096 / conv_max(1, v->c * conv_volume(v->kernel))), finish, &j);
}
