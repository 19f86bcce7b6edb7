/* Level lines of a function on a grid.  Every cell is cut into two triangles in which the function is taken to be linear: a level crosses a triangle in one straight line
 * or not at all, so nothing is ambiguous (marching triangles).  The pieces become one line of the plot with gaps between them.
 */
#include <math.h>

#include "plot/plot.h"

typedef struct tracer {
    double *x, *y; /* NULL: only counts */
    int64_t n;
} tracer;

typedef struct corner {
    double x, y, above; /* value - level */
} corner;

static void put(tracer *t, double x, double y)
{
    if (t->x) t->x[t->n] = x, t->y[t->n] = y;
    t->n++;
}

static void cut(tracer *t, const corner p[3])
{
    double x[2], y[2];
    int ends = 0;
    if (!isfinite(p[0].above + p[1].above + p[2].above)) return;
    for (int k = 0; k < 3; k++) {
        const corner *a = &p[k], *b = &p[(k + 1) % 3];
        if ((a->above < 0) == (b->above < 0)) continue;
        double s = a->above / (a->above - b->above);
        x[ends] = a->x + s * (b->x - a->x);
        y[ends++] = a->y + s * (b->y - a->y);
    }
    if (ends < 2) return;
    put(t, x[0], y[0]);
    put(t, x[1], y[1]);
    put(t, NAN, NAN);
}

typedef struct grid {
    const double *values;
    int64_t rows, columns;
    double x0, x1, y0, y1;
} grid;

static corner corner_at(const grid *g, int64_t i, int64_t j, double level)
{
    return (corner){ g->x0 + (g->x1 - g->x0) * (double)j / (double)(g->columns - 1),
                     g->y0 + (g->y1 - g->y0) * (double)i / (double)(g->rows - 1), g->values[i * g->columns + j] - level };
}

static void trace(tracer *t, const grid *g, const double *level, int levels)
{
    t->n = 0;
    for (int k = 0; k < levels; k++)
        for (int64_t i = 0; i + 1 < g->rows; i++)
            for (int64_t j = 0; j + 1 < g->columns; j++) {
                corner a = corner_at(g, i, j, level[k]), b = corner_at(g, i, j + 1, level[k]), c = corner_at(g, i + 1, j + 1, level[k]),
                       d = corner_at(g, i + 1, j, level[k]);
                cut(t, (corner[]){ a, b, c });
                cut(t, (corner[]){ a, c, d });
            }
}

bool cj_plot_contours(cj_plot *p, const char *label, const double *values, int64_t rows, int64_t columns, double x0, double x1, double y0,
                      double y1, const double *level, int levels)
{
    if (!p || !cj__cancel_check(p->ctx)) return false;
    if (!values || !level || levels < 1 || rows < 2 || columns < 2 || !(x0 < x1 && y0 < y1) || !isfinite(x0 + x1 + y0 + y1))
        return cj__error(
            p->ctx, CJ_EVALUE,
            "cj_plot_contours: at least 2 x 2 values, a level and ranges were expected; %lld x %lld values, %d levels, x from %g to "
            "%g, y from %g to %g were found",
            (long long)rows, (long long)columns, levels, x0, x1, y0, y1);
    grid g = { values, rows, columns, x0, x1, y0, y1 };
    tracer t = { 0 };
    trace(&t, &g, level, levels);
    int64_t n = t.n;
    if (n == 0) return true;
    t.x = cj__alloc(p->ctx, 2 * (size_t)n * sizeof *t.x);
    if (!t.x) return false;
    t.y = t.x + n;
    trace(&t, &g, level, levels);
    bool ok = cj_plot_line(p, label, t.x, t.y, n);
    cj__free(p->ctx, t.x, 2 * (size_t)n * sizeof *t.x);
    return ok;
}
