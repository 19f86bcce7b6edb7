/* One picture of a data set: images as a sheet, points and series as a plot, texts as the counts of what they are made of. */
#include <stdlib.h>
#include <string.h>

#include "app/data.h"

enum { SHEET = 10, GAP = 2 };

/* 100 rows of `rows`, each image `zoom` times as large, on grey ground. */
static bool sheet(cj_ctx *c, const cj_dataset *d, cj_tensor *rows, const char *path)
{
    int64_t n = cj_size(rows, 0), side = d->height > d->width ? d->height : d->width, zoom = side < 16 ? 4 : side < 40 ? 2 : 1;
    int64_t channels = d->channels ? d->channels : 1, h = d->height * zoom + GAP, w = d->width * zoom + GAP;
    int64_t across = n < SHEET ? n : SHEET, down = (n + SHEET - 1) / SHEET;
    if (down > SHEET) down = SHEET;
    if (d->features > 20000) across = across < 4 ? across : 4, down = down < 4 ? down : 4; /* large images */
    int64_t height = down * h + GAP, width = across * w + GAP, shown = across * down < n ? across * down : n;
    float *x = malloc((size_t)(shown * d->features) * sizeof *x), *out = malloc((size_t)(channels * height * width) * sizeof *out);
    bool ok = x && out && cj_to_f32(cj_slice(rows, 0, 0, shown, 1), x, shown * d->features);
    for (int64_t i = 0; ok && i < channels * height * width; i++) out[i] = 0.35f;
    for (int64_t i = 0; ok && i < shown; i++)
        for (int64_t k = 0; k < channels; k++)
            for (int64_t r = 0; r < d->height * zoom; r++)
                for (int64_t s = 0; s < d->width * zoom; s++)
                    out[(k * height + GAP + i / across * h + r) * width + GAP + i % across * w + s] =
                        x[i * d->features + (k * d->height + r / zoom) * d->width + s / zoom];
    ok = ok && cj_image_save(cj_from_f32(c, out, CJ_SHAPE(channels, height, width)), path);
    free(x);
    free(out);
    return ok;
}

/* The first two columns, a colour per class; values: the first column that correlates most with them. */
static bool points(cj_plot *p, const cj_dataset *d)
{
    int64_t n = d->n, f = d->features;
    double *x = malloc((size_t)(n * f) * sizeof *x), *y = malloc((size_t)n * sizeof *y), *a = malloc((size_t)n * sizeof *a),
           *b = malloc((size_t)n * sizeof *b);
    bool ok = x && y && a && b && cj_to_f64(d->x, x, n * f) && cj_to_f64(d->y, y, n);
    int64_t best = 0, second = f > 1 ? 1 : 0;
    double top = -1;
    for (int64_t j = 0; ok && !d->classes && j < f; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i * f + j] * y[i];
        if (sum * sum > top) top = sum * sum, best = j;
    }
    if (ok)
        cj_plot_labels(p, d->feature_names ? d->feature_names[best] : "0",
                       d->classes ? d->feature_names ? d->feature_names[second] : "1" : "value");
    for (int64_t k = 0; ok && k < (d->classes ? d->classes : 1) && k < 10; k++) {
        int64_t m = 0;
        for (int64_t i = 0; i < n; i++)
            if (!d->classes || y[i] == (double)k) a[m] = x[i * f + best], b[m++] = d->classes ? x[i * f + second] : y[i];
        ok = cj_plot_points(p, d->classes ? d->class_names[k] : NULL, a, b, m);
    }
    free(x), free(y), free(a), free(b);
    return ok;
}

/* The first channel of up to three rows of each class; a series of values in the order of time. */
static bool series(cj_plot *p, const cj_dataset *d)
{
    int64_t n = d->n, f = d->features;
    double *x = malloc((size_t)(n * f) * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    bool ok = x && y && cj_to_f64(d->x, x, n * f) && cj_to_f64(d->y, y, n) && cj_plot_labels(p, "step", "value");
    if (ok && !d->classes) ok = cj_plot_line(p, NULL, NULL, y, n);
    for (int64_t k = 0; ok && k < d->classes && k < 6; k++)
        for (int64_t i = 0, shown = 0; ok && i < n && shown < (d->classes > 3 ? 1 : 2); i++)
            if (y[i] == (double)k) ok = cj_plot_line(p, shown++ ? NULL : d->class_names[k], NULL, x + i * f, d->width);
    free(x), free(y);
    return ok;
}

/* How many of the counts v[i] are 0, 1, 2, …: a bar each. */
static bool bars_of(cj_plot *p, const char *label, const int64_t *v, int64_t n, int64_t most)
{
    double *count = calloc((size_t)most + 1, sizeof *count);
    for (int64_t i = 0; count && i < n; i++) count[v[i] < most ? v[i] : most]++;
    bool ok = count && cj_plot_bars(p, label, NULL, count, most + 1);
    free(count);
    return ok;
}

static bool degrees(cj_plot *p, const cj_graph *g)
{
    int64_t *offset = malloc((size_t)(g->nodes + 1) * sizeof *offset);
    bool ok = offset && cj_to_i64(g->offset, offset, g->nodes + 1) && cj_plot_labels(p, "neighbours", "nodes");
    for (int64_t i = 0; ok && i < g->nodes; i++) offset[i] = offset[i + 1] - offset[i];
    ok = ok && bars_of(p, NULL, offset, g->nodes, 20);
    free(offset);
    return ok;
}

/* Words per line. */
static bool lengths(cj_plot *p, const char *label, const cj_lines *l)
{
    int64_t *words = calloc((size_t)l->n + 1, sizeof *words);
    for (int64_t i = 0; words && i < l->n; i++)
        for (const char *s = l->line[i]; *s; s++) words[i] += *s != ' ' && (s[1] == ' ' || !s[1]);
    bool ok = words && cj_plot_labels(p, "words", "lines") && bars_of(p, label, words, l->n, 40);
    free(words);
    return ok;
}

static bool symbols(cj_plot *p, const cj_dataset *d)
{
    int64_t *x = malloc((size_t)d->n * sizeof *x);
    double count[256] = { 0 };
    bool ok = x && cj_to_i64(d->x, x, d->n);
    char text[256][8];
    const char *names[256];
    for (int64_t i = 0; ok && i < d->n; i++) count[x[i] & 255]++;
    for (int64_t i = 0; i < d->classes && i < 256; i++) {
        unsigned char b = d->symbol[i];
        if (b > ' ' && b < 127) text[i][0] = (char)b, text[i][1] = 0;
        else strcpy(text[i], b == '\n' ? "\\n" : b == ' ' ? "_" : "?");
        names[i] = text[i];
    }
    ok = ok && cj_plot_labels(p, "symbol", "times") && cj_plot_bars(p, NULL, names, count, d->classes < 100 ? d->classes : 100);
    free(x);
    return ok;
}

bool data_picture(cj_ctx *c, const cj_dataset *d, const char *path)
{
    if (d->height > 1) return sheet(c, d, d->train_x, path);
    cj_plot *p = cj_plot_new(c, d->name);
    bool ok = p != NULL;
    if (ok && d->graph) ok = degrees(p, d->graph);
    else if (ok && d->is_text) ok = symbols(p, d);
    else if (ok && d->lines[0])
        ok = lengths(p, d->target[0] ? "source" : NULL, d->lines[0]) && (!d->target[0] || lengths(p, "target", d->target[0]));
    else if (ok && d->width) ok = series(p, d);
    else if (ok) ok = points(p, d);
    ok = ok && cj_plot_save(p, path);
    cj_plot_free(p);
    return ok;
}
