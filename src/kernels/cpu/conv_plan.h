/* How a forward or data pass of a convolution is done (conv.c): a function of the shape alone.
 *
 * Every result point gathers `channels` channels of the source through taps and makes `lanes` channels of them.  Three kinds of tiles do it: along lines of points
 * (conv_line.h) wherever lines are long enough, dot products where there are few lanes (conv_dot.h), and tiles of any points (conv_tile.h).
 */
#ifndef CJ_KERNELS_CPU_CONV_PLAN_H
#define CJ_KERNELS_CPU_CONV_PLAN_H

#include "kernels/cpu/conv_dot.h"
#include "kernels/cpu/conv_image.h"
#include "kernels/cpu/conv_line.h"
#include "kernels/cpu/conv_tile.h"

enum {
    BAND_BYTES = 512 << 10,  /* of a band's source and its results of one panel: they stay in the second-level cache */
    BAND_POINTS = 480,       /* at most */
    TABLE_BYTES = 128 << 10, /* of a band's table, unless one tile needs more */
};

typedef struct gather_plan {
    bool data;
    bool dot;                /* few lanes: dot products along the channels */
    bool lines;              /* tiles along lines of points */
    int width;               /* vectors of a panel at most */
    int64_t channels, lanes; /* of a group */
    int64_t band;            /* points at most */
    int64_t phases;
    conv_image source, result;
    int64_t source_floats, out_floats, turned_floats; /* of a worker; source: of one image */
    int64_t images;                                   /* that one band has at most */
    size_t table_bytes, worker_bytes, panel_bytes, weight_bytes, zero_bytes, bias_bytes;
} gather_plan;

/* A phase as the tiles see it: `join` points side by side may be taken as one. */
typedef struct gather_phase {
    conv_phase each, f; /* of points; of joined ones */
    conv_copy c;
    int64_t join, lanes, padded; /* lanes of a joined point, rounded up to vectors */
    int64_t band, pieces, bands; /* points of a band of one image; bands of a line that is longer, or 1; of an image */
    int64_t images;              /* that share a band: the weights are read once for all of its points */
    int64_t panels;              /* floats of the packed weights of all groups */
} gather_phase;

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

/* Whether tiles along its lines can do a phase: these are long enough, and taps leave out few points at their ends. */
static bool lines_fit(const gather_phase *g)
{
#if GEMM_REGISTERS == 32
    const conv_axis *x = &g->f.axis[2];
    if (x->points < (g->padded / VL % 2 ? LINE_LEAST_1 : LINE_LEAST) || g->f.taps == 1) return false;
    for (int64_t jx = 0; jx < x->taps && !g->c.merged; jx++) {
        int64_t low, high;
        conv_inside(x, x->off0 + jx * x->off_step, 0, x->points, &low, &high);
        if (low > LINE_EDGE || x->points - high > LINE_EDGE || (low && high < x->points)) return false;
    }
    return true;
#else
    (void)g;
    return false;
#endif
}

static gather_phase gather_phase_of(const cj_conv_shape *v, const gather_plan *p, int64_t i)
{
    gather_phase g = { .each = conv_phase_of(v, p->data, i), .pieces = 1 };
    double cost;
    g.join = join_of(&g.each, p, v->groups, &cost);
    g.f = conv_joined(g.each, g.join);
    g.lanes = g.join * p->lanes, g.padded = conv_up(g.lanes, VL);
    g.c = conv_copy_of(&g.f, plain_image(&p->source), p->channels, p->band, !p->dot);
    g.panels = v->groups * g.f.taps * (p->dot ? conv_up(p->channels, VL) * p->lanes : p->channels * g.padded);
    if (!g.f.points) return g;
    const int64_t line = g.f.axis[2].points, lines = g.f.points / line;
    g.band = p->band, g.bands = (g.f.points + p->band - 1) / p->band;
    if (p->lines && line > p->band) {
        g.pieces = (line + p->band - 1) / p->band;
        g.band = (line + g.pieces - 1) / g.pieces, g.bands = g.pieces * lines;
    } else if (p->lines) { /* whole lines */
        const int64_t most = p->band / line;
        g.bands = (lines + most - 1) / most;
        const int64_t each = (lines + g.bands - 1) / g.bands;
        g.band = each * line, g.bands = (lines + each - 1) / each;
    }
    g.images = conv_max(1, conv_min(p->band / g.f.points, v->n));
    return g;
}

/* Points [*p0, *p1) of band b of an image. */
GEMM_INLINE void gather_band(const gather_phase *g, int64_t b, int64_t *p0, int64_t *p1)
{
    const int64_t line = g->f.axis[2].points;
    *p0 = g->pieces > 1 ? b / g->pieces * line + b % g->pieces * g->band : b * g->band;
    *p1 = conv_min(*p0 + g->band, g->pieces > 1 ? (b / g->pieces + 1) * line : g->f.points);
}

static gather_plan gather_plan_of(const cj_conv_shape *v, bool data, cj_dtype t)
{
    const conv_image x = { t, v->x_last, v->groups * v->c, conv_volume(v->in) },
                     y = { t, v->y_last, v->groups * v->o, conv_volume(v->out) };
    gather_plan p = { .data = data, .phases = data ? conv_volume(v->stride) : 1, .width = CONV_WIDTH };
    p.channels = data ? v->o : v->c, p.lanes = data ? v->c : v->o;
    p.source = data ? y : x, p.result = data ? x : y;
    const conv_phase first = conv_phase_of(v, data, 0);
    p.dot = dot_wins(&first, &p, v->groups);
    p.lines = !p.dot;
    const int64_t most = conv_min(BAND_POINTS, BAND_BYTES / 4 / (p.channels + conv_min(p.lanes, CONV_WIDTH * VL)));
    p.band = conv_max(most / 60 * 60, 60); /* whole tiles of every height but 9 */
    int64_t taps = 1;
    for (int64_t i = 0; i < p.phases; i++) {
        const gather_phase g = gather_phase_of(v, &p, i);
        taps = conv_max(taps, g.each.taps);
        p.lines = p.lines && (!g.f.points || lines_fit(&g));
    }
    if (p.lines) p.width = LINE_WIDTH;
    else p.band = conv_max(conv_min(p.band, TABLE_BYTES / 8 / taps) / 60 * 60, 60);
    int64_t run = 1, panels = 0, out = 0, widest = 0;
    for (int64_t i = 0; i < p.phases; i++) {
        const gather_phase g = gather_phase_of(v, &p, i);
        p.source_floats = conv_max(p.source_floats, conv_copy_floats(&g.c, &g.f, p.channels));
        p.images = conv_max(p.images, g.images);
        const int64_t table = p.lines ? g.c.taps * (int64_t)sizeof(line_tap) : (g.c.taps + 1) * p.band * (int64_t)sizeof(float *);
        p.table_bytes = (size_t)conv_max((int64_t)p.table_bytes, table);
        run = conv_max(run, g.c.run);
        out = conv_max(out, p.band * g.lanes);
        widest = conv_max(widest, g.padded);
        panels += g.panels;
    }
    if (!plain_image(&p.result)) p.out_floats = conv_up(out, 16);
    if (p.out_floats && t != CJ_F32 && !p.result.last) p.turned_floats = p.out_floats;
    p.worker_bytes = (size_t)conv_up((p.images * p.source_floats + p.out_floats + p.turned_floats) * 4 + (int64_t)p.table_bytes, 64);
    p.panel_bytes = (size_t)conv_up(panels * 4, 64);
    p.weight_bytes = t == CJ_F32 ? 0 : (size_t)conv_up(v->groups * v->o * v->c * conv_volume(v->kernel) * 4, 64);
    p.zero_bytes = (size_t)conv_up(run * 4, 64);
    p.bias_bytes = v->bias ? (size_t)conv_up(widest * 4, 64) : 0;
    return p;
}

#endif
