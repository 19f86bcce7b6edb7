/* Convolution and its derivative with respect to x as implicit products, f32, bf16 and f16; the entry of all passes.
 *
 * The product of a band of result points (rows) with the weights (columns) is never unfolded: a table says for every tap and point where its channels lie, and the tiles
 * (conv_tile.h) read them there.  Weights are packed once per call into panels of up to CONV_WIDTH vectors of result channels.  No sum is split between tasks, and the
 * blocks of taps follow from the shape: the bits do not depend on the threads.
 */
#include "kernels/cpu/conv.h"

#include <string.h>

#include "kernels/cpu/conv_dot.h"
#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_passes.h"
#include "kernels/cpu/conv_tile.h"

enum {
    BAND_BYTES = 512 << 10,  /* of a band's source and its results of one panel: they stay in the second-level cache */
    BAND_POINTS = 480,       /* at most */
    TABLE_BYTES = 128 << 10, /* of a band's table, unless one tile needs more */
    PANEL_BYTES = 144 << 10, /* of a panel of weights that is worked on at a time: a block of taps */
    TASKS = 16,              /* wanted at least; a band is cut by result channels below */
    AHEAD = 18,              /* points whose source is fetched ahead */
    TURN_ROWS = 256,         /* rows of a block in which weights are transposed */
    FETCH_BYTES = 768 << 10, /* panels larger than this together do not stay in the second-level cache: the next one is fetched */
};

/* A pass, seen as: every result point gathers `channels` channels through taps and makes `lanes` channels of it. */
typedef struct gather_plan {
    bool data;
    bool dot;                /* few lanes: dot products along the channels (conv_dot.h) */
    int64_t channels, lanes; /* of a group */
    int64_t band;            /* points */
    int64_t phases;
    conv_image source, result;
    int64_t source_floats, out_floats, turned_floats, table; /* of a worker; source: of one image */
    int64_t images;                                          /* that one band has at most */
    size_t worker_bytes, panel_bytes, weight_bytes, zero_bytes, bias_bytes;
} gather_plan;

static bool plain_image(const conv_image *m) { return m->last && m->t == CJ_F32; }

/* How many points along x are taken together: as many as make the least work of it.  A vector costs more in a narrow tile, which waits for the loads of its rows
 * (in hundredths of the widest tile's, measured with 32 registers); points that are written where they lie must be neighbours there. */
static int64_t join_of(const conv_phase *f, const gather_plan *p, int64_t groups, double *of_point)
{
    static const int cost_of_vector[CONV_WIDTH + 1] = { 0, 125, 110, 103 };
    const conv_axis *x = &f->axis[2];
    const bool neighbours = !plain_image(&p->result) || (x->step == 1 && groups == 1);
    int64_t best = 1;
    double least = 0;
    for (int64_t m = 1; m * p->lanes <= CONV_WIDTH * VL && m <= x->points; m++) {
        if (m > 1 && (x->points % m || x->off_step != 1 || !neighbours || !f->taps)) continue;
        const int64_t vectors = (m * p->lanes + VL - 1) / VL;
        const double cost = (double)((x->taps + (m - 1) * x->mul) * vectors * (vectors > 3 ? 103 : cost_of_vector[vectors])) / (double)m;
        if (m == 1 || cost < least) best = m, least = cost;
    }
    *of_point = least * (double)p->channels;
    return p->dot ? 1 : best;
}

/* Whether dot products cost less, in the same measure: a vector of channels for every lane, and the sums of their lanes at the end. */
static bool dot_wins(const conv_phase *f, const gather_plan *p, int64_t groups)
{
    double tiles;
    if (p->lanes > DOT_LANES || p->channels < VL / 2) return false;
    join_of(f, p, groups, &tiles);
    return (double)(f->axis[2].taps * ((p->channels + VL - 1) / VL) * p->lanes * 130) < tiles;
}

/* Images that share a band: the weights are read once for all of its points. */
static int64_t images_of(const conv_phase *f, int64_t band, int64_t n)
{
    return f->points ? conv_max(1, conv_min(band / f->points, n)) : 1;
}

static gather_plan gather_plan_of(const cj_conv_shape *v, bool data, cj_dtype t)
{
    const conv_image x = { t, v->x_last, v->groups * v->c, conv_volume(v->in) },
                     y = { t, v->y_last, v->groups * v->o, conv_volume(v->out) };
    gather_plan p = { .data = data, .phases = data ? conv_volume(v->stride) : 1 };
    p.channels = data ? v->o : v->c, p.lanes = data ? v->c : v->o;
    p.source = data ? y : x, p.result = data ? x : y;
    const conv_phase first = conv_phase_of(v, data, 0);
    p.dot = dot_wins(&first, &p, v->groups);
    p.band = conv_min(BAND_POINTS, BAND_BYTES / 4 / (p.channels + conv_min(p.lanes, CONV_WIDTH * VL)));
    int64_t taps = 1, run = 1, panels = 0, out = 0, widest = 0;
    for (int64_t i = 0; i < p.phases; i++) taps = conv_max(taps, conv_phase_of(v, data, i).taps);
    p.band = conv_min(p.band, TABLE_BYTES / 8 / taps);
    p.band = conv_max(p.band / 60 * 60, 60); /* whole tiles of every height but 9 */
    for (int64_t i = 0; i < p.phases; i++) {
        const conv_phase each = conv_phase_of(v, data, i);
        double cost;
        const int64_t join = join_of(&each, &p, v->groups, &cost);
        const conv_phase f = conv_joined(each, join);
        const conv_copy c = conv_copy_of(&f, plain_image(&p.source), p.channels, p.band, !p.dot);
        p.source_floats = conv_max(p.source_floats, conv_copy_floats(&c, &f, p.channels));
        p.images = conv_max(p.images, images_of(&f, p.band, v->n));
        p.table = conv_max(p.table, c.taps * p.band);
        run = conv_max(run, c.run);
        out = conv_max(out, p.band * join * p.lanes);
        widest = conv_max(widest, conv_up(join * p.lanes, VL));
        panels = conv_max(panels, f.taps * (p.dot ? conv_up(p.channels, VL) * p.lanes : p.channels * conv_up(join * p.lanes, VL)));
    }
    if (!plain_image(&p.result)) p.out_floats = conv_up(out, 16);
    if (p.out_floats && t != CJ_F32 && !p.result.last) p.turned_floats = p.out_floats;
    p.worker_bytes = (size_t)conv_up((p.images * p.source_floats + p.out_floats + p.turned_floats) * 4 + (p.table + p.band) * 8, 64);
    p.panel_bytes = (size_t)conv_up(v->groups * panels * 4, 64);
    p.weight_bytes = t == CJ_F32 ? 0 : (size_t)conv_up(v->groups * v->o * v->c * conv_volume(v->kernel) * 4, 64);
    p.zero_bytes = (size_t)conv_up(run * 4, 64);
    p.bias_bytes = v->bias ? (size_t)conv_up(widest * 4, 64) : 0;
    return p;
}

typedef struct gather_job {
    const cj_conv_shape *v;
    const gather_plan *p;
    const void *a;
    void *y;
    const float *weights;
    float *panels;
    const float *zeros, *bias; /* bias: of all lanes, or NULL */
    char *workers;
    conv_phase each, f; /* of points; of `join` of them together */
    conv_copy c;
    int64_t join, lanes, padded; /* lanes of a joined point, rounded up to vectors */
    int64_t bands, images;       /* bands of an image, or images of a band */
    int64_t cuts, vectors;       /* pieces of the result channels, of so many vectors */
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
    for (int64_t tap = 0; tap < j->f.taps; tap++) element[tap] = conv_tap(j->v, &j->each, tap);
    float block[TURN_ROWS * VL];
    if (lanes < VL) memset(block, 0, sizeof block);
    for (int64_t c = c0; c < c1; c += some) {
        const int64_t n = conv_min(some, c1 - c);
        if (p->data) pack(block, VL, w + (c * p->lanes + lane) * window, 1, window, window, lanes, GEMM_F32);
        else pack(block, VL, w + (lane * p->channels + c) * window, 1, p->channels * window, n * window, lanes, GEMM_F32);
        for (int64_t tap = 0; tap < j->f.taps; tap++) {
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
    const conv_axis *x = &j->each.axis[2];
    const int64_t window = conv_volume(j->v->kernel), blocks = (p->channels + VL - 1) / VL, vectors = j->padded / VL;
    const int64_t by_channel = p->data ? p->lanes * window : window, by_lane = p->data ? window : p->channels * window;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        /* in the order in which they lie in w */
        const int64_t block = p->data ? item / vectors % blocks : item % blocks, u = p->data ? item % vectors : item / blocks % vectors,
                      g = item / blocks / vectors, c0 = block * VL, c1 = conv_min(c0 + VL, p->channels);
        int64_t first = 0; /* vector u lies in the panel that begins with vector `first` */
        int V = conv_panel(vectors);
        while (first + V <= u) first += V, V = conv_panel(vectors - first);
        const float *w = j->weights + g * p->channels * p->lanes * window;
        float *to = j->panels + (g * j->padded + first * VL) * j->f.taps * p->channels + (u - first) * VL;
        if (j->join == 1 && window <= TURN_ROWS && 2 * j->f.taps > window) {
            turn_weights(j, w, c0, c1, u, to, (int64_t)V * VL);
            continue;
        }
        int64_t start[VL], point[VL]; /* where a lane's weights begin, and which of the joined points it belongs to */
        for (int l = 0; l < VL; l++) {
            const int64_t lane = u * VL + l;
            start[l] = lane % p->lanes * by_lane, point[l] = lane < j->lanes ? lane / p->lanes : INT32_MAX;
        }
        for (int64_t tap = 0; tap < j->f.taps; tap++) {
            const int64_t jx = tap % j->f.axis[2].taps, k = conv_tap(j->v, &j->each, tap / j->f.axis[2].taps * x->taps);
            int64_t from[VL]; /* of channel 0; -1: zero */
            for (int l = 0; l < VL; l++) {
                const int64_t own = jx - point[l] * x->mul;
                from[l] = own >= 0 && own < x->taps ? start[l] + k + own * x->k_step : -1;
            }
            for (int64_t c = c0; c < c1; c++) {
                float *row = to + (tap * p->channels + c) * V * VL;
                for (int l = 0; l < VL; l++) row[l] = from[l] < 0 ? 0 : w[from[l] + c * by_channel];
            }
        }
    }
}

/* Of group g for dot products: [taps, vectors of channels, lanes, VL].  Items: groups. */
static void pack_dots(void *arg, int64_t begin, int64_t end, int worker)
{
    const gather_job *j = arg;
    const gather_plan *p = j->p;
    const int64_t window = conv_volume(j->v->kernel), up = conv_up(p->channels, VL);
    const int64_t by_channel = p->data ? p->lanes * window : window, by_lane = p->data ? window : p->channels * window;
    (void)worker;
    for (int64_t g = begin; g < end; g++) {
        const float *w = j->weights + g * p->channels * p->lanes * window;
        float *to = j->panels + g * j->f.taps * up * p->lanes;
        for (int64_t tap = 0; tap < j->f.taps; tap++) {
            const int64_t k = conv_tap(j->v, &j->each, tap);
            for (int64_t c0 = 0; c0 < up; c0 += VL)
                for (int64_t l = 0; l < p->lanes; l++)
                    for (int64_t c = c0; c < c0 + VL; c++) *to++ = c < p->channels ? w[c * by_channel + l * by_lane + k] : 0;
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
    int64_t taller = points - R * count;
    for (int64_t at = 0, tile = 0; at < points; tile++) {
        const int64_t height = taller-- > 0 ? R + 1 : R, late = ahead ? conv_min(height, points - at - AHEAD) : 0;
        int64_t bytes = (next_bytes + count - 1) / count;
        t->ahead_lines = 0;
        t->next = (const char *)next + next_bytes * tile / count;
        if (late > 0 && next_bytes) {
            t->ahead = ahead + at + AHEAD;
            t->ahead_lines = late * ((t->run + 15) / 16);
        } else if (late > 0) {
            t->next = (const char *)ahead[at + AHEAD], bytes = late * t->run * 4;
        }
        t->next_step = conv_min(64, (bytes + steps - 1) / steps);
        t->rows = rows + at, t->c = out + at;
        gather_tiles[V - 1][height - 1][bytes > 0](t);
        at += height;
    }
}

static void gather_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const gather_job *j = arg;
    const gather_plan *p = j->p;
    const conv_phase *f = &j->f;
    const int64_t *size = p->data ? j->v->in : j->v->out;
    const bool direct = plain_image(&p->result);
    float *copy = (float *)(void *)(j->workers + (size_t)worker * p->worker_bytes), *sums = copy + p->images * p->source_floats,
          *turned = sums + p->out_floats;
    float **out = (float **)(void *)(turned + p->turned_floats);
    const float **rows = (const float **)(void *)(out + p->band);
    const int64_t depth = f->taps * p->channels, blocks = conv_max(1, conv_min(j->c.taps, depth * CONV_WIDTH * VL * 4 / PANEL_BYTES));
    const int64_t late =
        j->c.taps - 1 - (j->c.merged ? 0 : f->axis[2].taps / 2); /* the middle of the last line: seldom outside of the image */
    const bool far = depth * j->padded * j->v->groups * 4 > FETCH_BYTES;
    for (int64_t task = begin; task < end; task++) {
        const int64_t cut = task % j->cuts, g = task / j->cuts % j->v->groups, unit = task / j->cuts / j->v->groups;
        const int64_t n0 = j->images > 1 ? unit * j->images : unit / j->bands, n1 = conv_min(n0 + j->images, j->v->n);
        const int64_t p0 = j->images > 1 ? 0 : unit % j->bands * p->band, p1 = conv_min(p0 + p->band, f->points);
        const int64_t each = p1 - p0, points = (n1 - n0) * each;
        const int64_t lane0 = cut * j->vectors * VL, lane1 = conv_min(lane0 + j->vectors * VL, j->lanes);
        for (int64_t n = n0; n < n1; n++) {
            const int64_t at = (n - n0) * each;
            const conv_source s =
                conv_source_of(f, &j->c, &p->source, j->a, n, g * p->channels, p->channels, p0, p1, copy + (n - n0) * p->source_floats);
            conv_rows(f, &j->c, &s, p0, p1, j->zeros, rows + at, p->band);
            if (direct)
                conv_places(&j->each, size, (float *)(uintptr_t)conv_at(&p->result, j->y, n, g * p->lanes, 0), p->result.channels,
                            p0 * j->join, p1 * j->join, j->join, out + at);
        }
        for (int64_t i = 0; !direct && i < points; i++) out[i] = sums + i * j->lanes;
        const float *panels = j->panels + g * j->padded * depth;
        if (p->dot) {
            conv_dot t = { .taps = f->taps,
                           .channels = p->channels,
                           .rows_step = p->band,
                           .bias = j->bias,
                           .w = j->panels + g * f->taps * conv_up(p->channels, VL) * p->lanes };
            dot_band(&t, p->lanes, points, rows, out);
        }
        for (int64_t lane = lane0; !p->dot && lane < lane1;) {
            const int V = conv_panel((j->padded - lane) / VL);
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t tap0 = j->c.taps * b / blocks, tap1 = j->c.taps * (b + 1) / blocks;
                conv_tile t = { .taps = tap1 - tap0,
                                .run = j->c.run,
                                .rows_step = p->band,
                                .b = panels + lane * depth + tap0 * j->c.run * V * VL,
                                .bias = j->bias && b == 0 ? j->bias + lane : NULL,
                                .column = lane,
                                .last = (int)conv_min(VL, j->lanes - lane - (V - 1) * VL),
                                .add = b > 0 };
                /* the next block follows this one; after the last one the next task begins, most likely with those of the next cut */
                const int64_t floats = t.taps * j->c.run * V * VL;
                const float *next = t.b + floats;
                if (next >= panels + j->padded * depth) next = panels;
                band_panel(&t, V, points, rows + tap0 * p->band, out,
                           lane == lane0 && b == blocks - 1 && !j->c.copied && late >= 0 ? rows + late * p->band : NULL, next,
                           far ? floats * 4 : 0);
            }
            lane += V * VL;
        }
        for (int64_t n = n0; !direct && n < n1; n++) {
            const float *from = sums + (n - n0) * each * j->lanes;
            if (j->join > 1) /* then there is one cut: all channels of the points */
                conv_store(&j->each, size, &p->result, j->y, n, g * p->lanes, p->lanes, p0 * j->join, p1 * j->join, from, p->lanes, turned);
            else conv_store(f, size, &p->result, j->y, n, g * p->lanes + lane0, lane1 - lane0, p0, p1, from + lane0, p->lanes, turned);
        }
    }
}

static void gather(cj_pool *pool, const cj_conv_shape *v, bool data, cj_dtype t, const void *a, const void *w, void *y, char *work)
{
    const gather_plan p = gather_plan_of(v, data, t);
    gather_job j = { .v = v, .p = &p, .a = a, .y = y, .weights = w };
    if (p.weight_bytes) {
        CJ_K(cj__convert)(t, w, CJ_F32, work, v->groups * v->o * v->c * conv_volume(v->kernel));
        j.weights = (const float *)(const void *)work, work += p.weight_bytes;
    }
    j.panels = (float *)(void *)work, work += p.panel_bytes;
    memset(work, 0, p.zero_bytes);
    j.zeros = (const float *)(const void *)work, work += p.zero_bytes;
    float *bias = v->bias ? (float *)(void *)work : NULL;
    j.bias = bias;
    j.workers = work + p.bias_bytes;
    for (int64_t i = 0; i < p.phases; i++) {
        j.each = conv_phase_of(v, data, i);
        if (!j.each.points) continue;
        double cost;
        j.join = join_of(&j.each, &p, v->groups, &cost);
        j.f = conv_joined(j.each, j.join);
        j.lanes = j.join * p.lanes, j.padded = conv_up(j.lanes, VL);
        for (int64_t l = 0; bias && l < j.padded; l++) bias[l] = l < j.lanes ? v->bias[l % p.lanes] : 0;
        const int64_t vectors = j.padded / VL;
        j.c = conv_copy_of(&j.f, plain_image(&p.source), p.channels, p.band, !p.dot);
        if (p.dot) cj__parallel_for(pool, v->groups, conv_max(1, 4096 / conv_max(1, p.lanes * p.channels * j.f.taps)), pack_dots, &j);
        else
            cj__parallel_for(pool, v->groups * vectors * ((p.channels + VL - 1) / VL),
                             conv_max(1, 4096 / (VL * VL * conv_max(1, j.f.taps))), pack_weights, &j);
        j.bands = (j.f.points + p.band - 1) / p.band;
        j.images = images_of(&j.f, p.band, v->n);
        const int64_t units = j.images > 1 ? (v->n + j.images - 1) / j.images : v->n * j.bands;
        j.vectors = vectors, j.cuts = 1;
        if (units * v->groups < TASKS && vectors > CONV_WIDTH && vectors % CONV_WIDTH == 0) {
            j.vectors = CONV_WIDTH, j.cuts = vectors / CONV_WIDTH;
        }
        const double work_of_task =
            (double)conv_min(p.band, j.images * j.f.points) * (double)(j.c.taps * j.c.run) * (double)(j.vectors * VL);
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
    if (pass == CJ_CONV_WEIGHT) return CJ_K(cj__conv_weight_workspace)(v, t, threads);
    return gather_workspace(v, pass == CJ_CONV_DATA, t, threads);
}

void CJ_K(cj__conv)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *a, const void *b, void *result,
                    void *workspace)
{
    if (t == CJ_F64) CJ_K(cj__conv_f64)(pool, v, pass, a, b, result);
    else if (depthwise(v)) CJ_K(cj__conv_depthwise)(pool, v, pass, t, a, b, result, workspace);
    else if (pass == CJ_CONV_WEIGHT) CJ_K(cj__conv_weight)(pool, v, t, a, b, result, workspace);
    else gather(pool, v, pass == CJ_CONV_DATA, t, a, b, result, workspace);
}
