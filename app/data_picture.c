/* One picture of a data set: images as a sheet (with their boxes), points and series as a plot, texts and graphs as the counts of what they are made of. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/data.h"

enum { SHEET = 10, GAP = 2 };

/* ---- images --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct canvas {
    float *pixel; /* [channels, height, width] */
    int64_t channels, height, width;
} canvas;

static void dot(canvas *c, int64_t row, int64_t column, const float colour[3])
{
    if (row < 0 || column < 0 || row >= c->height || column >= c->width) return;
    for (int64_t k = 0; k < c->channels; k++) c->pixel[(k * c->height + row) * c->width + column] = colour[k % 3];
}

/* The boxes of an image whose upper left pixel is (top, left), a colour per name. */
static void draw_boxes(canvas *c, const cj_boxes *b, int64_t top, int64_t left, int64_t zoom)
{
    static const float colours[][3] = { { 0.9f, 0.1f, 0.1f }, { 0.1f, 0.3f, 1 }, { 0, 0.6f, 0.2f }, { 1, 0.8f, 0 } };
    for (int64_t i = 0; i < b->n; i++) {
        const cj_box *k = &b->box[i];
        const float *colour = colours[(unsigned char)k->name[0] % 4];
        int64_t y0 = (int64_t)k->ymin * zoom, y1 = (int64_t)k->ymax * zoom, x0 = (int64_t)k->xmin * zoom, x1 = (int64_t)k->xmax * zoom;
        if (y1 >= b->height * zoom) y1 = b->height * zoom - 1;
        if (x1 >= b->width * zoom) x1 = b->width * zoom - 1;
        for (int64_t x = x0; x <= x1; x++) dot(c, top + y0, left + x, colour), dot(c, top + y1, left + x, colour);
        for (int64_t y = y0; y <= y1; y++) dot(c, top + y, left + x0, colour), dot(c, top + y, left + x1, colour);
    }
}

/* 100 rows of `rows`, each image `zoom` times as large, on grey ground. */
static bool sheet(cj_ctx *c, const cj_dataset *d, cj_tensor *rows, const char *path)
{
    int64_t n = cj_size(rows, 0), side = d->height > d->width ? d->height : d->width, zoom = side < 16 ? 4 : side < 40 ? 2 : 1;
    int64_t across = n < SHEET ? n : SHEET, down = (n + SHEET - 1) / SHEET;
    if (down > SHEET) down = SHEET;
    if (d->features > 20000) across = across < 4 ? across : 4, down = down < 4 ? down : 4; /* large images */
    if (d->boxes) zoom = 2;
    int64_t h = d->height * zoom + GAP, w = d->width * zoom + GAP;
    canvas s = { .channels = d->channels ? d->channels : 1, .height = down * h + GAP, .width = across * w + GAP };
    int64_t shown = across * down < n ? across * down : n, pixels = s.channels * s.height * s.width;
    float *x = malloc((size_t)(shown * d->features) * sizeof *x);
    s.pixel = malloc((size_t)pixels * sizeof *s.pixel);
    bool ok = x && s.pixel && cj_to_f32(cj_slice(rows, 0, 0, shown, 1), x, shown * d->features);
    for (int64_t i = 0; ok && i < pixels; i++) s.pixel[i] = 0.35f;
    for (int64_t i = 0; ok && i < shown; i++) {
        int64_t top = GAP + i / across * h, left = GAP + i % across * w;
        for (int64_t k = 0; k < s.channels; k++)
            for (int64_t r = 0; r < d->height * zoom; r++)
                for (int64_t t = 0; t < d->width * zoom; t++)
                    s.pixel[(k * s.height + top + r) * s.width + left + t] =
                        x[i * d->features + (k * d->height + r / zoom) * d->width + t / zoom];
        if (d->boxes) draw_boxes(&s, d->boxes[i], top, left, zoom); /* the training rows are the first of all */
    }
    ok = ok && cj_image_save(cj_from_f32(c, s.pixel, CJ_SHAPE(s.channels, s.height, s.width)), path);
    free(x);
    free(s.pixel);
    return ok;
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------------------------------- */

/* How much column j says about y: of classes the variance between them over the variance inside, of values the squared covariance. */
static double tells(const double *x, const double *y, int64_t n, int64_t f, int64_t j, int64_t classes)
{
    double sum = 0, square = 0, mean = 0, between = 0, total = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i * f + j] / (double)n;
    if (!classes) {
        for (int64_t i = 0; i < n; i++) sum += (x[i * f + j] - mean) * y[i];
        return sum * sum;
    }
    for (int64_t k = 0; k < classes; k++) {
        double m = 0, count = 0;
        for (int64_t i = 0; i < n; i++)
            if (y[i] == (double)k) m += x[i * f + j], count++;
        if (count > 0) between += count * (m / count - mean) * (m / count - mean);
    }
    for (int64_t i = 0; i < n; i++) square = x[i * f + j] - mean, total += square * square;
    return total > 0 ? between / total : 0;
}

/* One column: how often its values occur in each class. */
static bool histogram(cj_plot *p, const cj_dataset *d, const double *x, const double *y)
{
    enum { BINS = 24 };
    double low = x[0], high = x[0], count[BINS];
    char text[BINS][16];
    const char *names[BINS];
    for (int64_t i = 0; i < d->n; i++) low = fmin(low, x[i]), high = fmax(high, x[i]);
    for (int b = 0; b < BINS; b++) {
        snprintf(text[b], sizeof text[b], "%.2g", low + (high - low) * (b + 0.5) / BINS);
        names[b] = text[b];
    }
    bool ok = cj_plot_labels(p, d->feature_names ? d->feature_names[0] : "value", "rows");
    for (int64_t k = 0; ok && k < d->classes && k < 4; k++) {
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < d->n; i++) {
            int b = high > low ? (int)((x[i] - low) / (high - low) * BINS) : 0;
            if (y[i] == (double)k) count[b < BINS ? b : BINS - 1]++;
        }
        ok = cj_plot_bars(p, d->class_names[k], names, count, BINS);
    }
    return ok;
}

/* The two columns that tell most about the classes, a colour per class; of values the one that tells most, and the value. */
static bool points(cj_plot *p, const cj_dataset *d)
{
    int64_t n = d->n, f = d->features;
    double *x = malloc((size_t)(n * f) * sizeof *x), *y = malloc((size_t)n * sizeof *y), *a = malloc((size_t)n * sizeof *a),
           *b = malloc((size_t)n * sizeof *b), top = -1, next = -1;
    bool ok = x && y && a && b && cj_to_f64(d->x, x, n * f) && cj_to_f64(d->y, y, n), one = f == 1 && d->classes;
    int64_t best = 0, second = f > 1 ? 1 : 0;
    for (int64_t j = 0; ok && (f > 2 || !d->classes) && j < f; j++) {
        double v = tells(x, y, n, f, j, d->classes);
        if (v > top) next = top, second = best, top = v, best = j;
        else if (v > next) next = v, second = j;
    }
    if (ok && one) ok = histogram(p, d, x, y);
    else if (ok)
        ok = cj_plot_labels(p, d->feature_names ? d->feature_names[best] : "0",
                            d->classes ? d->feature_names ? d->feature_names[second] : "1" : "value");
    for (int64_t k = 0; ok && !one && k < (d->classes ? d->classes : 1) && k < 10; k++) {
        int64_t m = 0;
        for (int64_t i = 0; i < n; i++)
            if (!d->classes || y[i] == (double)k) a[m] = x[i * f + best], b[m++] = d->classes ? x[i * f + second] : y[i];
        ok = cj_plot_points(p, d->classes ? d->class_names[k] : NULL, a, b, m);
    }
    free(x), free(y), free(a), free(b);
    return ok;
}

/* ---- series, texts, graphs ---------------------------------------------------------------------------------------------------------------------------- */

/* The first channel of the first row of each class, as far as it goes; a series of values in the order of time. */
static bool series(cj_plot *p, const cj_dataset *d)
{
    int64_t n = d->n, f = d->features;
    double *x = malloc((size_t)(n * f) * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    bool ok = x && y && cj_to_f64(d->x, x, n * f) && cj_to_f64(d->y, y, n) && cj_plot_labels(p, "step", "value");
    if (ok && !d->classes) ok = cj_plot_line(p, NULL, NULL, y, n);
    for (int64_t k = 0; ok && k < d->classes && k < 8; k++)
        for (int64_t i = 0; ok && i < n; i++) {
            if (y[i] != (double)k) continue;
            int64_t length = d->width; /* zeros at the end fill up a shorter series */
            while (length > 1 && x[i * f + length - 1] == 0) length--;
            ok = cj_plot_line(p, d->class_names[k], NULL, x + i * f, length);
            break;
        }
    free(x), free(y);
    return ok;
}

/* How many of the counts v[i] are 0, 1, 2, …: a bar each, the last for all from `most` on. */
static bool bars_of(cj_plot *p, const char *label, const int64_t *v, int64_t n, int64_t most)
{
    enum { BARS = 64 };
    double count[BARS] = { 0 };
    char text[BARS][8];
    const char *names[BARS];
    for (int64_t i = 0; i < n; i++) count[v[i] < most ? v[i] : most]++;
    for (int64_t i = 0; i <= most; i++) {
        snprintf(text[i], sizeof text[i], i < most ? "%d" : "%d+", (int)i);
        names[i] = text[i];
    }
    return cj_plot_bars(p, label, names, count, most + 1);
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
    bool ok = words && cj_plot_labels(p, "words", "lines") && bars_of(p, label, words, l->n, 45);
    free(words);
    return ok;
}

/* The most frequent symbols of a text. */
static bool symbols(cj_plot *p, const cj_dataset *d)
{
    enum { MOST = 32 };
    int64_t *x = malloc((size_t)d->n * sizeof *x), shown = d->classes < MOST ? d->classes : MOST;
    double count[256] = { 0 }, height[MOST];
    bool ok = x && cj_to_i64(d->x, x, d->n);
    char text[MOST][8];
    const char *names[MOST];
    for (int64_t i = 0; ok && i < d->n; i++) count[x[i] & 255]++;
    for (int64_t k = 0; k < shown; k++) {
        int best = 0;
        for (int i = 1; i < 256; i++)
            if (count[i] > count[best]) best = i;
        unsigned char b = d->symbol[best];
        height[k] = count[best];
        count[best] = -1;
        if (b > ' ' && b < 127) snprintf(text[k], sizeof text[k], "%c", b);
        else if (b == '\n' || b == ' ') strcpy(text[k], b == ' ' ? "\xe2\x90\xa3" : "\\n");
        else snprintf(text[k], sizeof text[k], "%02x", b);
        names[k] = text[k];
    }
    ok = ok && cj_plot_labels(p, shown < d->classes ? "the most frequent symbols" : "symbol", "times") &&
         cj_plot_bars(p, NULL, names, height, shown);
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
