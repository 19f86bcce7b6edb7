/* How a forward or data pass of a convolution is done (conv.c): a function of the shape alone.
 *
 * Every result point gathers `channels` channels of the source through taps and makes `lanes` channels of them.  Three kinds of tiles do it: along lines of points
 * (conv_line.h) wherever lines are long enough, dot products where there are few lanes (conv_dot.h), and tiles of any points (conv_tile.h).  Few lanes leave most of a vector
 * empty; then several points may be taken as one (join), or, the other way round, the pixels of the source are spread: each makes the terms of all points along x that see
 * it, taps times lanes of them, and the terms of a point are added in the end.
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
    bool spread;             /* ... of the source */
    int width;               /* vectors of a panel at most */
    int64_t channels, lanes; /* of a group */
    int64_t band;            /* points at most */
    int64_t phases;
    conv_image source, result;
    int64_t source_floats, out_floats, turned_floats; /* of a worker; source: of one image */
    int64_t images;                                   /* that one band has at most */
    size_t table_bytes, worker_bytes, panel_bytes, weight_bytes, zero_bytes, bias_bytes;
} gather_plan;

/* A phase as the tiles see it: `join` points side by side may be taken as one; where they are spread, the points are pixels of the source. */
typedef struct gather_phase {
    conv_phase each, f; /* of points; of joined ones */
    conv_copy c;
    int64_t join, lanes, padded; /* lanes of a joined point, rounded up to vectors */
    bool inside;                 /* no tap along x leaves out a point */
    int64_t left, terms;         /* spread: pixels of zeros before a line of terms; floats of such a line */
    int64_t band, pieces, bands; /* points of a band of one image; bands of a line that is longer, or 1; of an image */
    int64_t images;              /* that share a band: the weights are read once for all of its points */
    int64_t panels;              /* floats of the packed weights of all groups */
} gather_phase;

static bool plain_image(const conv_image *m) { return m->last && m->t == CJ_F32; }

/* How many points along x are taken together: as many as make the least work of it.  A vector costs more in a narrow tile, which waits for the loads of its rows
 * (in hundredths of the widest tile's, measured with 32 registers); points that are written where they lie must be neighbours there.  *cost: of a point, in vectors. */
static int64_t join_of(const conv_phase *f, const gather_plan *p, int64_t groups, double *cost)
{
    static const int cost_of_vector[CONV_WIDTH + 1] = { 0, 125, 110, 103 };
    const conv_axis *x = &f->axis[2];
    const bool neighbours = !plain_image(&p->result) || (x->step == 1 && groups == 1);
    int64_t best = 1;
    double least = 0;
    for (int64_t m = 1; m * p->lanes <= CONV_WIDTH * VL && m <= x->points; m++) {
        if (m > 1 && (x->points % m || x->off_step != 1 || !neighbours || !f->taps)) continue;
        const int64_t vectors = (m * p->lanes + VL - 1) / VL;
        const double each = (double)((x->taps + (m - 1) * x->mul) * vectors * (vectors > 3 ? 103 : cost_of_vector[vectors])) / (double)m;
        if (m == 1 || each < least) best = m, least = each;
    }
    *cost = least * (double)(p->channels * f->axis[0].taps * f->axis[1].taps) / 100;
    return best;
}

/* The cost of dot products in the same measure: a vector of channels for every lane and tap, and the sums of their lanes at the end. */
static double dot_cost(const conv_phase *f, const gather_plan *p)
{
    return 1.3 * (double)(f->taps * ((p->channels + VL - 1) / VL) * p->lanes) + 4 * VL;
}

/* The same where pixels are spread; their terms are read once more. */
static double spread_cost(const conv_phase *f, const gather_plan *p)
{
    const int64_t taps = f->axis[2].taps;
    return 1.05 * (double)(f->axis[0].taps * f->axis[1].taps * p->channels * ((taps * p->lanes + VL - 1) / VL)) + 4 * (double)taps;
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

/* The pixels of the source along x take the place of the points. */
static void spread_phase(gather_phase *g, int64_t lanes)
{
    conv_axis *x = &g->f.axis[2];
    const int64_t last = x->points - 1 + x->off0 + (x->taps - 1) * x->off_step; /* that a point reads */
    g->join = x->taps;
    g->f.points = g->f.points / x->points * x->size, g->f.taps /= x->taps;
    g->left = conv_max(0, -x->off0);
    g->terms = (g->left + x->size + conv_max(0, last + 1 - x->size)) * conv_up(g->join * lanes, VL) + VL; /* vectors are read */
    *x = (conv_axis){ .points = x->size, .step = 1, .mul = 1, .taps = 1, .off_step = 1, .size = x->size };
}

static gather_phase gather_phase_of(const cj_conv_shape *v, const gather_plan *p, int64_t i)
{
    gather_phase g = { .each = conv_phase_of(v, p->data, i), .join = 1, .pieces = 1 };
    double cost;
    g.f = g.each;
    if (p->spread) spread_phase(&g, p->lanes);
    else if (!p->dot) g.join = join_of(&g.each, p, v->groups, &cost), g.f = conv_joined(g.each, g.join);
    g.lanes = g.join * p->lanes, g.padded = conv_up(g.lanes, VL);
    g.c = conv_copy_of(&g.f, plain_image(&p->source), p->channels, p->band, !p->spread);
    g.panels = v->groups * (p->dot ? g.c.taps * conv_up(g.c.run, VL) * p->lanes : g.f.taps * p->channels * g.padded);
    if (!g.f.points) return g;
    g.inside = g.c.merged || p->spread;
    const int64_t line = g.f.axis[2].points, lines = g.f.points / line;
    g.band = p->band, g.bands = (g.f.points + p->band - 1) / p->band;
    if (p->lines && line > p->band) {
        g.pieces = (line + p->band - 1) / p->band;
        g.band = (line + g.pieces - 1) / g.pieces, g.bands = g.pieces * lines;
    } else if (p->lines) { /* whole lines */
        const int64_t most = p->band / line;
        g.bands = (lines + most - 1) / most;
        int64_t each = (lines + g.bands - 1) / g.bands;
        const int64_t even =
            VL / conv_gcd(line, VL); /* so many lines are whole vectors of points, which planes of channels are written in */
        if (!p->result.last && conv_up(each, even) <= most) each = conv_up(each, even);
        g.band = each * line, g.bands = (lines + each - 1) / each;
    }
    g.images = conv_max(1, conv_min(p->band / g.f.points, v->n));
    return g;
}

/* Whether the pixels of the source can be spread: whole lines of them. */
static bool spread_fits(const cj_conv_shape *v, gather_plan *p)
{
    const conv_phase f = conv_phase_of(v, p->data, 0);
    if (f.axis[2].mul != 1 || f.axis[2].taps < 2 || f.axis[2].size > p->band) return false;
    gather_plan s = *p;
    s.spread = true, s.dot = false;
    const gather_phase g = gather_phase_of(v, &s, 0);
    return lines_fit(&g);
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
    const int64_t most = conv_min(BAND_POINTS, BAND_BYTES / 4 / (p.channels + conv_min(p.lanes, CONV_WIDTH * VL)));
    p.band = conv_max(most / 60 * 60, 60); /* whole tiles of every height but 9 */
    const conv_phase first = conv_phase_of(v, data, 0);
    double tiles, dots = dot_cost(&first, &p), spread = spread_cost(&first, &p);
    join_of(&first, &p, v->groups, &tiles);
    p.dot = p.lanes <= DOT_LANES && p.channels >= VL / 2 && dots < tiles;
    p.spread = p.phases == 1 && p.lanes <= DOT_LANES && spread < tiles && (!p.dot || spread < dots) && spread_fits(v, &p);
    if (p.spread) p.dot = false;
    p.lines = !p.dot;
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
        const int64_t table =
            p.lines ? conv_up(g.c.taps * (int64_t)sizeof(line_tap), 64) + g.terms * 4 : (g.c.taps + 1) * p.band * (int64_t)sizeof(float *);
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
