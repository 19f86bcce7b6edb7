/* Convolution and its derivative with respect to x as implicit products, f32, bf16 and f16; the entry of all passes.
 *
 * The product of a band of result points (rows) with the weights (columns) is never unfolded: tiles read the channels of every tap where they lie (conv_line.h), or where a
 * table says that they do (conv_tile.h, conv_dot.h).  Weights are packed once per call into panels of a few vectors of result channels.  No sum is split between tasks,
 * and the blocks of taps follow from the shape: the bits do not depend on the threads.
 */
#include "kernels/cpu/conv.h"

#include <string.h>

#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/conv_plan.h"

enum {
    PANEL_BYTES = 144 << 10, /* of a panel of weights that is worked on at a time: a block of taps */
    LINE_BYTES = 320 << 10,  /* the same of the tiles along lines */
    TASKS = 16,              /* wanted at least; a band is cut by result channels below */
    AHEAD = 18,              /* points whose source is fetched ahead */
    TURN_ROWS = 256,         /* rows of a block in which weights are transposed */
    WINOGRAD_WAY = 1 << 10,  /* a number that no other layout of packed weights has */
    FETCH_BYTES = 768 << 10, /* panels larger than this together do not stay in the second-level cache: the next one is fetched */
};

typedef struct gather_job {
    const cj_conv_shape *v;
    const gather_plan *p;
    gather_phase g;
    const void *a;
    void *y;
    const float *weights, *panels;
    float *packing;            /* panels that are made */
    const float *zeros, *bias; /* bias: of all lanes, or NULL */
    char *workers;
    int64_t cuts, vectors; /* pieces of the result channels, of so many vectors */
} gather_job;

/* ---- packing of the weights ------------------------------------------------------------------------------------------------------------------------ */

/* Channels c0 … c1 - 1 of vector u of the lanes, of points that are not joined: transposed through a small block, which is then dealt out to the taps.
 * w: of the group; to: of channel 0 and tap 0, rows of `width` floats. */
static void turn_weights(const gather_job *j, const float *w, int64_t c0, int64_t c1, int64_t u, float *to, int64_t width)
{
    const gather_plan *p = j->p;
    const int64_t window = conv_volume(j->v->kernel), lane = u * VL, lanes = conv_min(VL, p->lanes - lane);
    const int64_t some = p->data ? 1 : TURN_ROWS / window; /* channels at a time */
    int64_t element[TURN_ROWS];                            /* of every tap */
    for (int64_t tap = 0; tap < j->g.f.taps; tap++) element[tap] = conv_tap(j->v, &j->g.each, tap);
    float block[TURN_ROWS * VL];
    if (lanes < VL) memset(block, 0, sizeof block);
    for (int64_t c = c0; c < c1; c += some) {
        const int64_t n = conv_min(some, c1 - c);
        if (p->data) pack(block, VL, w + (c * p->lanes + lane) * window, 1, window, window, lanes, GEMM_F32);
        else pack(block, VL, w + (lane * p->channels + c) * window, 1, p->channels * window, n * window, lanes, GEMM_F32);
        for (int64_t tap = 0; tap < j->g.f.taps; tap++) {
            const float *from = block + element[tap] * VL;
            for (int64_t i = 0; i < n; i++) vstore(to + (tap * p->channels + c + i) * width, vload(from + i * window * VL));
        }
    }
}

/* Panel [taps, channels, V·VL] of group g.  Items: blocks of VL channels of a vector of lanes of a group. */
static void pack_weights(void *arg, int64_t begin, int64_t end, int worker)
{
    const gather_job *j = arg;
    const gather_plan *p = j->p;
    const conv_axis *x = &j->g.each.axis[2];
    const int64_t window = conv_volume(j->v->kernel), blocks = (p->channels + VL - 1) / VL, vectors = j->g.padded / VL;
    const int64_t by_channel = p->data ? p->lanes * window : window, by_lane = p->data ? window : p->channels * window;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        /* in the order in which they lie in w */
        const int64_t block = p->data ? item / vectors % blocks : item % blocks, u = p->data ? item % vectors : item / blocks % vectors,
                      g = item / blocks / vectors, c0 = block * VL, c1 = conv_min(c0 + VL, p->channels);
        int64_t first = 0; /* vector u lies in the panel that begins with vector `first` */
        int V = conv_panel(vectors, p->width);
        while (first + V <= u) first += V, V = conv_panel(vectors - first, p->width);
        const float *w = j->weights + g * p->channels * p->lanes * window;
        float *to = j->packing + (g * j->g.padded + first * VL) * j->g.f.taps * p->channels + (u - first) * VL;
        if (j->g.join == 1 && window <= TURN_ROWS && 2 * j->g.f.taps > window) {
            turn_weights(j, w, c0, c1, u, to, (int64_t)V * VL);
            continue;
        }
        int64_t start[VL],
            point[VL]; /* where a lane's weights begin, and which of the joined points (spread: taps along x) it belongs to */
        for (int l = 0; l < VL; l++) {
            const int64_t lane = u * VL + l;
            start[l] = lane % p->lanes * by_lane, point[l] = lane < j->g.lanes ? lane / p->lanes : INT32_MAX;
        }
        for (int64_t tap = 0; tap < j->g.f.taps; tap++) {
            const int64_t jx = tap % j->g.f.axis[2].taps, k = conv_tap(j->v, &j->g.each, tap / j->g.f.axis[2].taps * x->taps);
            int64_t from[VL]; /* of channel 0; -1: zero */
            for (int l = 0; l < VL; l++) {
                const int64_t own = p->spread ? point[l] : jx - point[l] * x->mul;
                from[l] = own >= 0 && own < x->taps ? start[l] + k + own * x->k_step : -1;
            }
            for (int64_t c = c0; c < c1; c++) {
                float *row = to + (tap * p->channels + c) * V * VL;
                for (int l = 0; l < VL; l++) row[l] = from[l] < 0 ? 0 : w[from[l] + c * by_channel];
            }
        }
    }
}

/* Of group g for dot products: [taps, vectors of a run, lanes, VL].  Items: groups. */
static void pack_dots(void *arg, int64_t begin, int64_t end, int worker)
{
    const gather_job *j = arg;
    const gather_plan *p = j->p;
    const int64_t window = conv_volume(j->v->kernel), run = j->g.c.run, taps = run / p->channels; /* of a run */
    const int64_t by_channel = p->data ? p->lanes * window : window, by_lane = p->data ? window : p->channels * window;
    (void)worker;
    for (int64_t g = begin; g < end; g++) {
        const float *w = j->weights + g * p->channels * p->lanes * window;
        float *to = j->packing + g * (j->g.panels / j->v->groups);
        for (int64_t tap = 0; tap < j->g.c.taps; tap++)
            for (int64_t r0 = 0; r0 < run; r0 += VL)
                for (int64_t l = 0; l < p->lanes; l++)
                    for (int64_t r = r0; r < r0 + VL; r++) {
                        const int64_t k = r < run ? conv_tap(j->v, &j->g.each, tap * taps + r / p->channels) : 0;
                        *to++ = r < run ? w[r % p->channels * by_channel + l * by_lane + k] : 0;
                    }
    }
}

/* ---- bands ------------------------------------------------------------------------------------------------------------------------------------------- */

/* All rows of one panel.  ahead: a late tap of every point, to be fetched before its tile comes, or NULL.  next: bytes of weights that come after this panel,
 * to be fetched meanwhile; 0: none, then the tiles fetch the points ahead step by step, as if they lay side by side. */
static void band_panel(conv_tile *t, int V, int64_t points, const float *const *rows, float *const *out, const float *const *ahead,
                       const float *next, int64_t next_bytes)
{
    const int64_t count = (points + conv_tile_rows(V) - 1) / conv_tile_rows(V), R = points / count, steps = conv_max(1, t->taps * t->run);
    const int64_t bytes = (next_bytes + count - 1) / count, lines = (t->run + 15) / 16; /* for a tile; of a run */
    const int64_t next_step = conv_min(64, (bytes + steps - 1) / steps), of_row = (t->run * 4 + steps - 1) / steps;
    const int64_t row_step = (V * VL * 4 + steps - 1) / steps;
    const bool side = t->taps == 1 && t->last == VL && points > R && out[1] - out[0] == V * VL; /* rows of the result lie side by side */
    int64_t taller = points - R * count;
    t->next = (const char *)next;
    for (int64_t at = 0; at < points; t->next += bytes) {
        const int64_t height = taller-- > 0 ? R + 1 : R, late = ahead ? conv_min(height, points - at - AHEAD) : 0;
        t->ahead_lines = 0, t->next_step = next_step;
        if (late > 0 && next_bytes) {
            t->ahead = ahead + at + AHEAD, t->ahead_lines = late * lines;
        } else if (late > 0) {
            t->next = (const char *)ahead[at + AHEAD], t->next_step = conv_min(64, late * of_row);
        }
        t->rows = rows + at, t->c = out + at;
        t->put = side && at ? (const char *)(out[at] + height * V * VL) : NULL, t->put_step = conv_min(64, height * row_step);
        gather_tiles[V - 1][height - 1][next_bytes || late > 0](t);
        at += height;
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------------------------------- */

/* A band of points [p0, p1) of images n0 … n1 - 1, of group `group`. */
typedef struct gather_unit {
    int64_t n0, n1, p0, p1, group;
    conv_source s;        /* of image n0 */
    int64_t source_image; /* floats from one image of the source to the next */
    const char *next;     /* where a source that is copied goes on, and how much of it the next band will most likely copy */
    int64_t next_bytes;
    float *sums; /* where results wait that are not written where they belong, or NULL */
} gather_unit;

#if GEMM_REGISTERS == 32
/* What a panel of V vectors that begins with `lane` needs: a block of taps, its weights, and the bytes that are to be fetched meanwhile. */
typedef struct gather_panel {
    int V;
    int64_t lane, tap0, tap1;
    const float *b;
    const char *next;
    int64_t next_bytes;
    bool ahead; /* fetch the source of the points that come next instead */
    line_tap *taps;
} gather_panel;

/* The taps of a panel that points [x0, x0 + R) of line (z, y) see; base: the source of their image. */
static __attribute__((noinline)) int64_t line_taps(const gather_job *j, const conv_source *s, const gather_panel *k, const float *base,
                                                   int64_t z, int64_t y, int64_t x0, int64_t R, line_tap *to)
{
    const conv_axis *az = &j->g.f.axis[0], *ay = &j->g.f.axis[1], *ax = &j->g.f.axis[2];
    const int64_t x_taps = j->g.c.merged ? 1 : ax->taps, b_tap = j->g.c.run * k->V * VL, tap0 = k->tap0, tap1 = k->tap1;
    const float *b = k->b - tap0 * b_tap; /* of tap 0 */
    line_tap *const first = to;
    for (int64_t jz = 0, iz = z * az->mul + az->off0, tap = 0; jz < az->taps; jz++, iz += az->off_step)
        for (int64_t jy = 0, iy = y * ay->mul + ay->off0; jy < ay->taps; jy++, iy += ay->off_step, tap += x_taps) {
            if (iy < 0 || iy >= ay->size || iz < 0 || iz >= az->size) continue;
            const float *from = base + ((iz - s->z0) * s->lines + iy - s->y0) * s->line_floats + s->left * s->pixel;
            for (int64_t jx = conv_max(0, tap0 - tap); jx < conv_min(x_taps, tap1 - tap); jx++) {
                const int64_t off = ax->off0 + jx * ax->off_step;
                int64_t low = x0, high = x0 + R;
                if (!j->g.inside) conv_inside(ax, off, x0, x0 + R, &low, &high);
                to->from = from + (low * ax->mul + off) * s->pixel;
                to->b = b + (tap + jx) * b_tap;
                to++->edge = low > x0 ? low - x0 : high < x0 + R ? LINE_EDGE + x0 + R - high : 0;
            }
        }
    return to - first;
}

/* Points [begin, end) of line (z, y) of the image whose source is at `base`; c: lane 0 of the first. */
static __attribute__((noinline)) void work_line(const gather_job *j, const gather_unit *u, const gather_panel *k, const float *base,
                                                int64_t z, int64_t y, int64_t begin, int64_t end, double next_of_point, float *c,
                                                line_tile *t)
{
    const conv_axis *ay = &j->g.f.axis[1], *ax = &j->g.f.axis[2];
    const int64_t count = (end - begin + line_rows(k->V) - 1) / line_rows(k->V);
    for (int64_t i = 0, x0 = begin; i < count; i++) {
        const int64_t R = (end - x0) / (count - i);
        if (i == 0 || !j->g.inside) t->taps = line_taps(j, &u->s, k, base, z, y, x0, R, k->taps), t->shift = 0;
        t->c = c + (x0 - begin) * t->c_row + k->lane;
        t->next += t->next_bytes, t->next_bytes = (int64_t)(next_of_point * (double)R);
        if (k->ahead) { /* the last line that the same points of the next line will see */
            const int64_t iy = (y + 1) * ay->mul + ay->off0 + (ay->taps - 1) * ay->off_step;
            t->next_bytes = iy >= 0 && iy < ay->size && (x0 + R) * ax->mul <= ax->size ? R * t->row * 4 : 0;
            if (t->next_bytes) t->next = (const char *)(base + (iy - u->s.y0) * u->s.line_floats + x0 * ax->mul * u->s.pixel);
        }
        line_tiles[k->V - 1][R](t);
        x0 += R, t->shift += R * t->row;
    }
}

static line_tile line_tile_of(const gather_job *j, const gather_unit *u, const gather_panel *k, int64_t c_row)
{
    return (line_tile){ .tap = k->taps,
                        .run = j->g.c.run,
                        .row = j->g.f.axis[2].mul * u->s.pixel,
                        .c_row = c_row,
                        .bias = j->bias && k->tap0 == 0 && !j->p->spread ? j->bias + k->lane : NULL,
                        .last = (int)conv_min(VL, j->g.lanes - k->lane - (k->V - 1) * VL),
                        .add = k->tap0 > 0,
                        .next = k->next };
}

/* Where point x of line (z, y) of image n is written; `done`: points of the band before it. */
static float *result_at(const gather_job *j, const gather_unit *u, int64_t n, int64_t z, int64_t y, int64_t x, int64_t done, int64_t lanes)
{
    const gather_plan *p = j->p;
    if (u->sums) return u->sums + done * lanes;
    return (float *)(uintptr_t)conv_at(&p->result, j->y, n, u->group * p->lanes, 0) +
           conv_pixel(&j->g.each, p->data ? j->v->in : j->v->out, z, y, x) * p->result.channels;
}

/* A block of taps of a panel, for all points of a band. */
static void line_panel(const gather_job *j, const gather_unit *u, const gather_panel *k)
{
    const gather_phase *g = &j->g;
    const conv_axis *ay = &g->f.axis[1], *ax = &g->f.axis[2];
    const int64_t each = u->p1 - u->p0;
    const double next_of_point = (double)k->next_bytes / (double)((u->n1 - u->n0) * each);
    line_tile t = line_tile_of(j, u, k, u->sums ? g->lanes : g->join * ax->step * j->p->result.channels);
    for (int64_t n = u->n0; n < u->n1; n++) {
        const float *base = u->s.base + (n - u->n0) * u->source_image;
        int64_t line = u->p0 / ax->points, z = line / ay->points, y = line - z * ay->points, begin = u->p0 - line * ax->points;
        for (int64_t left = each; left > 0; begin = 0) {
            const int64_t end = conv_min(ax->points, begin + left);
            float *c = result_at(j, u, n, z, y, begin * g->join, (n - u->n0 + 1) * each - left, g->lanes);
            work_line(j, u, k, base, z, y, begin, end, next_of_point, c, &t);
            left -= end - begin;
            if (++y == ay->points) y = 0, z++;
        }
    }
}

/* The terms of a line, added up: point p of the result gets those that pixel p + offset of the source has for it, of every tap along x. */
static __attribute__((noinline)) void add_terms(const gather_job *j, const float *terms, float *c, int64_t c_row)
{
    const conv_axis x = j->g.each.axis[2];
    const int lanes = (int)j->p->lanes;
    const int64_t pixel = j->g.padded, step = x.off_step * pixel + lanes;
    const vf bias = j->bias ? vload(j->bias) : vzero();
    const float *from = terms + (j->g.left + x.off0) * pixel;
    int64_t p = 0;
    for (; p + 2 <= x.points; p += 2, from += 2 * pixel, c += 2 * c_row) {
        vf first = bias, second = bias;
        const float *at = from;
        for (int64_t jx = 0; jx < x.taps; jx++, at += step) first = vadd(first, vload(at)), second = vadd(second, vload(at + pixel));
        vstore_some(c, first, lanes);
        vstore_some(c + c_row, second, lanes);
    }
    for (; p < x.points; p++, from += pixel, c += c_row) {
        vf sum = bias;
        for (int64_t jx = 0; jx < x.taps; jx++) sum = vadd(sum, vload(from + jx * step));
        vstore_some(c, sum, lanes);
    }
}

/* All panels of a band whose pixels are spread, line by line; k: of the first. */
static void spread_band(const gather_job *j, const gather_unit *u, gather_panel k)
{
    const gather_phase *g = &j->g;
    const conv_axis *ay = &g->f.axis[1], *ax = &g->f.axis[2];
    float *terms = (float *)(void *)((char *)k.taps + conv_up(g->c.taps * (int64_t)sizeof(line_tap), 64));
    const int64_t depth = g->f.taps * j->p->channels, lines = (u->p1 - u->p0) / ax->points, first = u->p0 / ax->points;
    const int64_t c_row = u->sums ? j->p->lanes : g->each.axis[2].step * j->p->result.channels;
    const float *b = k.b;
    const double next_of_point = (double)k.next_bytes / (double)((u->n1 - u->n0) * (u->p1 - u->p0));
    memset(terms, 0, (size_t)g->terms * sizeof *terms); /* what lies outside stays zero */
    for (int64_t n = u->n0; n < u->n1; n++)
        for (int64_t l = 0; l < lines; l++) {
            const int64_t z = (first + l) / ay->points, y = (first + l) % ay->points;
            for (k.lane = 0; k.lane < g->padded; k.lane += k.V * VL) {
                k.V = conv_panel((g->padded - k.lane) / VL, LINE_WIDTH), k.b = b + k.lane * depth;
                line_tile t = line_tile_of(j, u, &k, g->padded);
                t.last = VL;
                work_line(j, u, &k, u->s.base + (n - u->n0) * u->source_image, z, y, 0, ax->points, next_of_point,
                          terms + g->left * g->padded, &t);
                k.next = t.next + t.next_bytes;
            }
            add_terms(j, terms, result_at(j, u, n, z, y, 0, ((n - u->n0) * lines + l) * g->each.axis[2].points, j->p->lanes), c_row);
        }
}
#endif

/* ---- tasks ------------------------------------------------------------------------------------------------------------------------------------------- */

/* The table of a band: where taps read and where points are written. */
static void make_table(const gather_job *j, const gather_unit *u, const float **rows, float **out)
{
    const gather_plan *p = j->p;
    const int64_t *size = p->data ? j->v->in : j->v->out;
    for (int64_t n = u->n0; n < u->n1; n++) {
        const int64_t at = (n - u->n0) * (u->p1 - u->p0);
        conv_source s = u->s;
        s.base += (n - u->n0) * u->source_image;
        conv_rows(&j->g.f, &j->g.c, &s, u->p0, u->p1, j->zeros, rows + at, p->band);
        if (!u->sums)
            conv_places(&j->g.each, size, (float *)(uintptr_t)conv_at(&p->result, j->y, n, u->group * p->lanes, 0), p->result.channels,
                        u->p0 * j->g.join, u->p1 * j->g.join, j->g.join, out + at);
    }
    for (int64_t i = 0; u->sums && i < (u->n1 - u->n0) * (u->p1 - u->p0); i++) out[i] = u->sums + i * j->g.lanes;
}

/* Result channels [lane0, lane1) of a band. */
static void work_panels(const gather_job *j, const gather_unit *u, int64_t lane0, int64_t lane1, void *table)
{
    const gather_plan *p = j->p;
    const gather_phase *g = &j->g;
    float **out = table;
    const float **rows = (const float **)(void *)(out + p->band);
    const int64_t depth = g->f.taps * p->channels, points = (u->n1 - u->n0) * (u->p1 - u->p0);
    const int64_t bytes = depth * p->width * VL * 4; /* of a panel */
    const int64_t blocks =
        p->spread ? 1 : conv_max(1, conv_min(g->c.taps, p->lines ? (bytes + LINE_BYTES - 1) / LINE_BYTES : bytes / PANEL_BYTES));
    const int64_t late =
        g->c.taps - 1 - (g->c.merged ? 0 : g->f.axis[2].taps / 2); /* the middle of the last line: seldom outside of the image */
    const bool far = depth * g->padded * j->v->groups * 4 > FETCH_BYTES;
    const float *panels = j->panels + u->group * g->padded * depth;
    if (!p->lines) make_table(j, u, rows, out);
    if (p->dot) {
        const conv_dot t = { .taps = g->c.taps,
                             .run = g->c.run,
                             .rows_step = p->band,
                             .bias = j->bias,
                             .w = j->panels + u->group * (g->panels / j->v->groups) };
        dot_band(t, p->lanes, points, rows, out);
        return;
    }
    for (int64_t lane = lane0; lane < lane1;) {
        const int V = conv_panel((g->padded - lane) / VL, p->width);
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t tap0 = g->c.taps * i / blocks, tap1 = g->c.taps * (i + 1) / blocks;
            const float *b = panels + lane * depth + tap0 * g->c.run * V * VL;
            /* the next block follows this one; after the last one the next task begins, most likely with those of the next cut */
            const int64_t floats = (tap1 - tap0) * g->c.run * V * VL;
            const float *next = b + floats;
            if (next >= panels + g->padded * depth) next = panels;
            const bool ahead = lane == lane0 && i == blocks - 1 && !g->c.copied && late >= 0;
#if GEMM_REGISTERS == 32
            if (p->lines) {
                gather_panel k = { V, lane, tap0, tap1, b, (const char *)next, far ? floats * 4 : 0, ahead, table };
                if (lane == lane0 && !far) k.next = u->next, k.next_bytes = u->next_bytes;
                if (!p->spread) line_panel(j, u, &k);
                else {
                    spread_band(j, u, k);
                    return;
                }
                continue;
            }
#endif
            conv_tile t = { .taps = tap1 - tap0,
                            .run = g->c.run,
                            .rows_step = p->band,
                            .b = b,
                            .bias = j->bias && i == 0 ? j->bias + lane : NULL,
                            .column = lane,
                            .last = (int)conv_min(VL, g->lanes - lane - (V - 1) * VL),
                            .add = i > 0 };
            band_panel(&t, V, points, rows + tap0 * p->band, out, ahead ? rows + late * p->band : NULL, next, far ? floats * 4 : 0);
        }
        lane += V * VL;
    }
}

static void gather_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const gather_job *j = arg;
    const gather_plan *p = j->p;
    const gather_phase *g = &j->g;
    const int64_t *size = p->data ? j->v->in : j->v->out;
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *sums = copy + p->images * p->source_floats,
          *turned = sums + p->out_floats;
    for (int64_t task = begin; task < end; task++) {
        const int64_t cut = task % j->cuts, unit = task / j->cuts / j->v->groups;
        gather_unit u = { .group = task / j->cuts % j->v->groups, .sums = plain_image(&p->result) ? NULL : sums };
        u.n0 = g->images > 1 ? unit * g->images : unit / g->bands, u.n1 = conv_min(u.n0 + g->images, j->v->n);
        gather_band(g, g->images > 1 ? 0 : unit % g->bands, &u.p0, &u.p1);
        u.source_image = g->c.copied ? p->source_floats : p->source.channels * p->source.pixels;
        const int64_t lane0 = cut * j->vectors * VL, lane1 = conv_min(lane0 + j->vectors * VL, g->lanes);
        for (int64_t n = u.n1 - 1; n >= u.n0; n--)
            u.s = conv_source_of(&g->f, &g->c, &p->source, j->a, n, u.group * p->channels, p->channels, u.p0, u.p1,
                                 copy + (n - u.n0) * p->source_floats);
        if (g->c.copied && plain_image(&p->source) && j->v->groups == 1 && p->source.pixels == g->f.axis[1].size * g->f.axis[2].size) {
            const int64_t line = g->f.axis[2].size * p->channels * 4, image = p->source.pixels * p->channels * 4;
            const int64_t to = (u.n1 - 1) * image + (u.s.y0 + u.s.lines) * line;
            u.next = (const char *)j->a + to, u.next_bytes = conv_min(j->v->n * image - to, (u.n1 - u.n0) * u.s.lines * line);
        }
        work_panels(j, &u, lane0, lane1, turned + p->turned_floats);
        const int64_t line = g->f.axis[2].points, each = g->each.axis[2].points, p0 = u.p0 / line * each + u.p0 % line * g->join;
        const int64_t p1 = u.p1 / line * each + u.p1 % line * g->join, first = g->join > 1 ? 0 : lane0; /* joined points have one cut */
        for (int64_t n = u.n0; u.sums && n < u.n1; n++)
            conv_store(&g->each, size, &p->result, j->y, n, u.group * p->lanes + first, g->join > 1 ? p->lanes : lane1 - lane0, p0, p1,
                       sums + (n - u.n0) * (p1 - p0) * p->lanes + first, p->lanes, turned);
    }
}

/* The weights of all phases, one after the other. */
static void pack_phases(cj_pool *pool, const cj_conv_shape *v, const gather_plan *p, cj_dtype t, const void *w, float *packed,
                        void *converted)
{
    gather_job j = { .v = v, .p = p, .weights = w, .packing = packed };
    if (p->weight_bytes) {
        CJ_K(cj__convert)(t, w, CJ_F32, converted, v->groups * v->o * v->c * conv_volume(v->kernel));
        j.weights = converted;
    }
    for (int64_t i = 0; i < p->phases; i++, j.packing += j.g.panels) {
        j.g = gather_phase_of(v, p, i);
        const int64_t taps = conv_max(1, j.g.f.taps), blocks = (p->channels + VL - 1) / VL;
        if (!j.g.f.points) continue;
        if (p->dot) cj__parallel_for(pool, v->groups, conv_max(1, 4096 / (p->lanes * p->channels * taps)), pack_dots, &j);
        else cj__parallel_for(pool, v->groups * (j.g.padded / VL) * blocks, conv_max(1, 4096 / (VL * VL * taps)), pack_weights, &j);
    }
}

static void gather(cj_pool *pool, const cj_conv_shape *v, bool data, cj_dtype t, const void *a, const void *w, void *y, char *work)
{
    const gather_plan p = gather_plan_of(v, data, t);
    gather_job j = { .v = v, .p = &p, .a = a, .y = y, .panels = v->packed };
    if (!v->packed) {
        pack_phases(pool, v, &p, t, w, (float *)(void *)(work + p.weight_bytes), work);
        j.panels = (const float *)(const void *)(work + p.weight_bytes);
    }
    work += p.weight_bytes + p.panel_bytes;
    memset(work, 0, p.zero_bytes);
    j.zeros = (const float *)(const void *)work, work += p.zero_bytes;
    float *bias = v->bias ? (float *)(void *)work : NULL;
    j.bias = bias;
    j.workers = work + p.bias_bytes;
    for (int64_t i = 0; i < p.phases; i++, j.panels += j.g.panels) {
        j.g = gather_phase_of(v, &p, i);
        const gather_phase *g = &j.g;
        if (!g->f.points) continue;
        for (int64_t l = 0; bias && l < g->padded; l++) bias[l] = l < g->lanes ? v->bias[l % p.lanes] : 0;
        const int64_t vectors = g->padded / VL, units = g->images > 1 ? (v->n + g->images - 1) / g->images : v->n * g->bands;
        j.vectors = vectors, j.cuts = 1;
        if (units * v->groups < TASKS && vectors > CONV_WIDTH && vectors % CONV_WIDTH == 0 && g->join == 1) {
            j.vectors = CONV_WIDTH, j.cuts = vectors / CONV_WIDTH;
        }
        const double work_of_task =
            (double)conv_min(g->band, g->images * g->f.points) * (double)(g->c.taps * g->c.run) * (double)(j.vectors * VL);
        cj__parallel_for(pool, units * v->groups * j.cuts, work_of_task < 1e5 ? (int64_t)(1e5 / (work_of_task + 1)) + 1 : 1, gather_tasks,
                         &j);
    }
}

static size_t gather_workspace(const cj_conv_shape *v, bool data, cj_dtype t, int threads)
{
    const gather_plan p = gather_plan_of(v, data, t);
    return p.weight_bytes + p.panel_bytes + p.zero_bytes + p.bias_bytes + (size_t)threads * p.worker_bytes;
}

/* ---- the entry ------------------------------------------------------------------------------------------------------------------------------------------ */

static bool depthwise(const cj_conv_shape *v) { return v->c == 1 && v->o == 1 && v->groups > 1; }

size_t CJ_K(cj__conv_workspace)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, int threads)
{
    if (threads < 1) threads = 1;
    if (t == CJ_F64) return 0;
    if (depthwise(v)) return CJ_K(cj__conv_depthwise_workspace)(v, pass, t, threads);
    if (CJ_K(cj__conv_winograd_fits)(v, pass, t)) return CJ_K(cj__conv_winograd_workspace)(v, pass, threads);
    if (pass == CJ_CONV_WEIGHT) return CJ_K(cj__conv_weight_workspace)(v, t, threads);
    return gather_workspace(v, pass == CJ_CONV_DATA, t, threads);
}

size_t CJ_K(cj__conv_packed)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, cj_conv_layout *layout)
{
    if (t == CJ_F64 || depthwise(v) || pass == CJ_CONV_WEIGHT) return 0;
    if (CJ_K(cj__conv_winograd_fits)(v, pass, t)) {
        *layout = (cj_conv_layout){ .pass = pass, .t = t, .way = WINOGRAD_WAY, .groups = 1, .c = v->c, .o = v->o };
        memcpy(layout->kernel, v->kernel, sizeof layout->kernel);
        return CJ_K(cj__conv_winograd_packed)(v, pass);
    }
    const gather_plan p = gather_plan_of(v, pass == CJ_CONV_DATA, t);
    bool sizes = false; /* how many points are joined depends on the length of a line */
    for (int64_t i = 0; i < p.phases; i++) sizes |= gather_phase_of(v, &p, i).join > 1;
    *layout =
        (cj_conv_layout){ .pass = pass, .t = t, .way = p.width * 4 + p.dot * 2 + p.spread, .groups = v->groups, .c = v->c, .o = v->o };
    for (int d = 0; d < 3; d++) {
        layout->kernel[d] = v->kernel[d], layout->stride[d] = v->stride[d];
        layout->pad[d] = v->pad[d], layout->dilation[d] = v->dilation[d];
        if (sizes) layout->in[d] = v->in[d], layout->out[d] = v->out[d];
    }
    return p.panel_bytes;
}

void CJ_K(cj__conv_pack)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *w, float *packed,
                         void *workspace)
{
    if (CJ_K(cj__conv_winograd_fits)(v, pass, t)) {
        CJ_K(cj__conv_winograd_pack)(pool, v, pass, w, packed);
        return;
    }
    const gather_plan p = gather_plan_of(v, pass == CJ_CONV_DATA, t);
    pack_phases(pool, v, &p, t, w, packed, workspace);
}

void CJ_K(cj__conv)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *a, const void *b, void *result,
                    void *workspace)
{
    if (t == CJ_F64) CJ_K(cj__conv_f64)(pool, v, pass, a, b, result);
    else if (depthwise(v)) CJ_K(cj__conv_depthwise)(pool, v, pass, t, a, b, result, workspace);
    else if (CJ_K(cj__conv_winograd_fits)(v, pass, t)) CJ_K(cj__conv_winograd)(pool, v, pass, a, b, result, workspace);
    else if (pass == CJ_CONV_WEIGHT) CJ_K(cj__conv_weight)(pool, v, t, a, b, result, workspace);
    else gather(pool, v, pass == CJ_CONV_DATA, t, a, b, result, workspace);
}

size_t CJ_K(cj__conv_both_workspace)(const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, int threads)
{
    if (threads < 1) threads = 1;
    if (t != CJ_F64 && depthwise(v)) return CJ_K(cj__conv_depthwise_both_workspace)(v, w, t, threads);
    const size_t data = CJ_K(cj__conv_workspace)(v, CJ_CONV_DATA, t, threads),
                 weight = CJ_K(cj__conv_workspace)(w, CJ_CONV_WEIGHT, t, threads);
    return data > weight ? data : weight;
}

void CJ_K(cj__conv_both)(cj_pool *pool, const cj_conv_shape *v, const cj_conv_shape *w, cj_dtype t, const void *dy, const void *weights,
                         const void *x, void *dx, void *dw, void *workspace)
{
    if (t != CJ_F64 && depthwise(v)) {
        CJ_K(cj__conv_depthwise_both)(pool, v, w, t, dy, weights, x, dx, dw, workspace);
        return;
    }
    CJ_K(cj__conv)(pool, v, CJ_CONV_DATA, t, dy, weights, dx, workspace);
    CJ_K(cj__conv)(pool, w, CJ_CONV_WEIGHT, t, x, dy, dw, workspace);
}
