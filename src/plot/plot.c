/* Plots: what the caller adds, and the data file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plot/plot.h"

#define MAX_SIZE 8192 /* pixels */

/* ---- memory ------------------------------------------------------------------------------------------------------------------------------------- */

static void names_free(cj_ctx *c, char **names, int64_t n)
{
    for (int64_t i = 0; names && i < n; i++) cj__strfree(c, names[i]);
    cj__free(c, names, (size_t)n * sizeof *names);
}

static void series_free(cj_ctx *c, cj_series *s)
{
    if (!s) return;
    cj__strfree(c, s->label);
    cj__free(c, s->x, (size_t)s->n * sizeof *s->x);
    cj__free(c, s->y, (size_t)s->n * sizeof *s->y);
    names_free(c, s->names, s->kind == CJ_BARS ? s->n : s->columns);
    names_free(c, s->row_names, s->rows);
    cj__free(c, s->marked, (size_t)s->rows * sizeof *s->marked);
    cj__free(c, s, sizeof *s);
}

static void drop(cj_object *o)
{
    cj_plot *p = (cj_plot *)((char *)o - offsetof(cj_plot, object));
    cj_ctx *c = p->ctx;
    for (cj_series *s = p->first, *next; s; s = next) {
        next = s->next;
        series_free(c, s);
    }
    cj__strfree(c, p->title);
    cj__strfree(c, p->x_label);
    cj__strfree(c, p->y_label);
    cj__free(c, p, sizeof *p);
}

static bool copy_text(cj_ctx *c, char **to, const char *text)
{
    if (!text || !*text) return true;
    if (!cj__utf8(text, strlen(text))) return cj__error(c, CJ_EVALUE, "cj_plot: a text is not UTF-8");
    *to = cj__strdup(c, text);
    return *to != NULL;
}

static bool copy_names(cj_ctx *c, char ***to, const char *const *names, int64_t n)
{
    if (!names) return true;
    *to = cj__zalloc(c, (size_t)n * sizeof **to);
    bool ok = *to != NULL;
    for (int64_t i = 0; i < n && ok; i++) ok = copy_text(c, &(*to)[i], names[i]);
    return ok;
}

static bool copy_values(cj_ctx *c, double **to, const double *values, int64_t n)
{
    if (!values) return true;
    *to = cj__alloc(c, (size_t)n * sizeof **to);
    if (*to && n) memcpy(*to, values, (size_t)n * sizeof **to);
    return *to != NULL;
}

/* ---- the plot ------------------------------------------------------------------------------------------------------------------------------------ */

cj_plot *cj_plot_new(cj_ctx *c, const char *title)
{
    if (!c || !cj__cancel_check(c)) return NULL;
    cj_plot *p = cj__zalloc(c, sizeof *p);
    if (!p) return NULL;
    p->ctx = c;
    p->width = 1000;
    p->height = 640;
    if (!copy_text(c, &p->title, title)) {
        drop(&p->object);
        return NULL;
    }
    cj__object_add(c, &p->object, drop);
    return p;
}

void cj_plot_free(cj_plot *p)
{
    if (!p) return;
    cj__object_remove(p->ctx, &p->object);
    drop(&p->object);
}

static bool usable(cj_plot *p) { return p && cj__cancel_check(p->ctx); }

bool cj_plot_labels(cj_plot *p, const char *x, const char *y)
{
    if (!usable(p)) return false;
    char *new_x = NULL, *new_y = NULL;
    if (!copy_text(p->ctx, &new_x, x) || !copy_text(p->ctx, &new_y, y)) {
        cj__strfree(p->ctx, new_x);
        return false;
    }
    cj__strfree(p->ctx, p->x_label);
    cj__strfree(p->ctx, p->y_label);
    p->x_label = new_x;
    p->y_label = new_y;
    return true;
}

bool cj_plot_log(cj_plot *p, bool x, bool y)
{
    if (!usable(p)) return false;
    if ((x && p->fixed_x && p->x_low <= 0) || (y && p->fixed_y && p->y_low <= 0))
        return cj__error(p->ctx, CJ_EVALUE, "cj_plot_log: the range of a logarithmic axis is positive");
    p->log_x = x;
    p->log_y = y;
    return true;
}

static bool range_ok(cj_plot *p, bool log, double low, double high)
{
    if (isfinite(low) && isfinite(high) && low < high && (!log || low > 0)) return true;
    return cj__error(p->ctx, CJ_EVALUE, "cj_plot_range: %g to %g is no range of %s axis", low, high, log ? "a logarithmic" : "an");
}

bool cj_plot_range_x(cj_plot *p, double low, double high)
{
    if (!usable(p) || !range_ok(p, p->log_x, low, high)) return false;
    p->fixed_x = true;
    p->x_low = low;
    p->x_high = high;
    return true;
}

bool cj_plot_range_y(cj_plot *p, double low, double high)
{
    if (!usable(p) || !range_ok(p, p->log_y, low, high)) return false;
    p->fixed_y = true;
    p->y_low = low;
    p->y_high = high;
    return true;
}

bool cj_plot_size(cj_plot *p, int width, int height)
{
    if (!usable(p)) return false;
    if (width < 200 || height < 150 || width > MAX_SIZE || height > MAX_SIZE)
        return cj__error(p->ctx, CJ_EVALUE, "cj_plot_size: %d x %d pixels; 200 x 150 to %d x %d are possible", width, height, MAX_SIZE,
                         MAX_SIZE);
    p->width = width;
    p->height = height;
    return true;
}

const cj_series *cj__plot_find(const cj_plot *p, cj_series_kind kind)
{
    const cj_series *s = p->first;
    while (s && s->kind != kind) s = s->next;
    return s;
}

/* Lines, points and fields have axes of numbers; bars and heat maps have axes of names, images have none. */
static bool has_numbers(cj_series_kind kind) { return kind == CJ_LINE || kind == CJ_POINTS || kind == CJ_FIELD; }

static bool fits(cj_plot *p, const char *op, cj_series_kind kind, int64_t n)
{
    const cj_series *f = p->first;
    if (!f || (has_numbers(kind) && has_numbers(f->kind))) return true;
    if (kind != f->kind || kind != CJ_BARS)
        return cj__error(p->ctx, CJ_EVALUE, "%s: bars, heat maps and images share a plot with nothing else", op);
    if (kind == CJ_BARS && f->n != n) return cj__error(p->ctx, CJ_ESHAPE, "%s: %lld bars beside %lld", op, (long long)n, (long long)f->n);
    return true;
}

static cj_series *series_new(cj_plot *p, const char *op, cj_series_kind kind, const double *y, int64_t n)
{
    if (!usable(p)) return NULL;
    if (n < 0 || n > (int64_t)1 << 40 || (n && !y)) {
        cj__error(p->ctx, CJ_EVALUE, "%s: %lld values at %p", op, (long long)n, (const void *)y);
        return NULL;
    }
    if (!fits(p, op, kind, n)) return NULL;
    cj_series *s = cj__zalloc(p->ctx, sizeof *s);
    if (!s) return NULL;
    s->kind = kind;
    s->n = n;
    if (copy_values(p->ctx, &s->y, y, n)) return s;
    series_free(p->ctx, s);
    return NULL;
}

static bool series_add(cj_plot *p, cj_series *s, bool ok)
{
    if (!ok) {
        series_free(p->ctx, s);
        return false;
    }
    if (s->kind < CJ_HEAT) s->color = p->colors++;
    if (p->last) p->last->next = s;
    else p->first = s;
    p->last = s;
    return true;
}

static bool add_xy(cj_plot *p, const char *op, cj_series_kind kind, const char *label, const double *x, const double *y, int64_t n)
{
    cj_series *s = series_new(p, op, kind, y, n);
    if (!s) return false;
    return series_add(p, s, copy_text(p->ctx, &s->label, label) && copy_values(p->ctx, &s->x, x, n));
}

bool cj_plot_line(cj_plot *p, const char *label, const double *x, const double *y, int64_t n)
{
    return add_xy(p, "cj_plot_line", CJ_LINE, label, x, y, n);
}

bool cj_plot_points(cj_plot *p, const char *label, const double *x, const double *y, int64_t n)
{
    return add_xy(p, "cj_plot_points", CJ_POINTS, label, x, y, n);
}

bool cj_plot_bars(cj_plot *p, const char *label, const char *const *names, const double *y, int64_t n)
{
    cj_series *s = series_new(p, "cj_plot_bars", CJ_BARS, y, n);
    if (!s) return false;
    return series_add(p, s, copy_text(p->ctx, &s->label, label) && copy_names(p->ctx, &s->names, names, n));
}

static cj_series *matrix_new(cj_plot *p, const char *op, cj_series_kind kind, const double *values, int64_t rows, int64_t columns)
{
    if (!usable(p)) return NULL;
    if (rows < 1 || columns < 1 || rows > 1 << 20 || columns > 1 << 20) {
        cj__error(p->ctx, CJ_ESHAPE, "%s: a matrix of %lld rows and %lld columns", op, (long long)rows, (long long)columns);
        return NULL;
    }
    cj_series *s = series_new(p, op, kind, values, rows * columns);
    if (!s) return NULL;
    s->rows = rows;
    s->columns = columns;
    return s;
}

cj_series *cj__series_matrix(cj_plot *p, const char *op, cj_series_kind kind, const double *values, int64_t rows, int64_t columns)
{
    cj_series *s = matrix_new(p, op, kind, values, rows, columns);
    return s && series_add(p, s, true) ? s : NULL;
}

bool cj_plot_heat(cj_plot *p, const double *values, int64_t rows, int64_t columns, const char *const *row_names,
                  const char *const *column_names)
{
    cj_series *s = matrix_new(p, "cj_plot_heat", CJ_HEAT, values, rows, columns);
    if (!s) return false;
    return series_add(p, s, copy_names(p->ctx, &s->names, column_names, columns) && copy_names(p->ctx, &s->row_names, row_names, rows));
}

bool cj_plot_captions(cj_plot *p, const char *const *caption, const bool *marked)
{
    if (!usable(p)) return false;
    cj_series *s = (cj_series *)cj__plot_find(p, CJ_IMAGES);
    if (!s || s->row_names || !caption)
        return cj__error(p->ctx, CJ_EVALUE, "cj_plot_captions: a plot with images that have no captions yet was expected");
    if (marked) {
        s->marked = cj__alloc(p->ctx, (size_t)s->rows * sizeof *s->marked);
        if (!s->marked) return false;
        memcpy(s->marked, marked, (size_t)s->rows * sizeof *s->marked);
    }
    return copy_names(p->ctx, &s->row_names, caption, s->rows);
}

bool cj_plot_field(cj_plot *p, const double *values, int64_t rows, int64_t columns, double x0, double x1, double y0, double y1)
{
    if (!usable(p)) return false;
    if (!isfinite(x0) || !isfinite(x1) || !isfinite(y0) || !isfinite(y1) || x0 >= x1 || y0 >= y1)
        return cj__error(p->ctx, CJ_EVALUE, "cj_plot_field: x from %g to %g, y from %g to %g", x0, x1, y0, y1);
    if (rows < 2 || columns < 2) return cj__error(p->ctx, CJ_ESHAPE, "cj_plot_field: a field has at least 2 rows and 2 columns");
    cj_series *s = matrix_new(p, "cj_plot_field", CJ_FIELD, values, rows, columns);
    if (!s) return false;
    s->x0 = x0, s->x1 = x1, s->y0 = y0, s->y1 = y1;
    return series_add(p, s, true);
}

/* ---- the data file --------------------------------------------------------------------------------------------------------------------------------- */

/* As short as reads back equal, with a point whatever the locale. */
static bool put_number(cj_writer *w, double v)
{
    char text[40];
    int n = 0;
    for (int digits = 6; digits <= 17; digits += digits < 15 ? 9 : 2) {
        n = snprintf(text, sizeof text, "%.*g", digits, v);
        if (digits == 17 || isnan(v) || strtod(text, NULL) == v) break;
    }
    return cj__writer_put(w, text, (size_t)cj__plain_point(text, n));
}

/* Tabs and line ends in names would be read as structure. */
static bool put_name(cj_writer *w, const char *name, int64_t number)
{
    if (!name) return cj__writer_print(w, "%lld", (long long)number);
    for (; *name; name++)
        if (!cj__writer_put(w, *name == '\t' || *name == '\n' || *name == '\r' ? " " : name, 1)) return false;
    return true;
}

static bool put_series(cj_writer *w, const cj_series *s, int64_t number)
{
    for (int64_t i = 0; i < s->n; i++) {
        bool ok = put_name(w, s->label, number) && cj__writer_put(w, "\t", 1);
        if (s->kind == CJ_BARS) ok = ok && put_name(w, s->names ? s->names[i] : NULL, i);
        else ok = ok && put_number(w, cj__series_x(s, i));
        if (!ok || !cj__writer_put(w, "\t", 1) || !put_number(w, s->y[i]) || !cj__writer_put(w, "\n", 1)) return false;
    }
    return true;
}

static bool put_matrix(cj_writer *w, const cj_series *s)
{
    if (!cj__writer_print(w, s->kind == CJ_HEAT     ? "row\tcolumn\tvalue\n"
                             : s->kind == CJ_IMAGES ? "image\tvalue\tlevel\n"
                                                    : "y\tx\tvalue\n"))
        return false;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            bool ok;
            if (s->kind == CJ_IMAGES) {
                ok = put_name(w, s->row_names ? s->row_names[i] : NULL, i) && cj__writer_print(w, "\t%lld", (long long)j);
            } else if (s->kind == CJ_HEAT) {
                ok = put_name(w, s->row_names ? s->row_names[i] : NULL, i) && cj__writer_put(w, "\t", 1) &&
                     put_name(w, s->names ? s->names[j] : NULL, j);
            } else {
                ok = put_number(w, s->y0 + (s->y1 - s->y0) * (double)i / (double)(s->rows - 1)) && cj__writer_put(w, "\t", 1) &&
                     put_number(w, s->x0 + (s->x1 - s->x0) * (double)j / (double)(s->columns - 1));
            }
            if (!ok || !cj__writer_put(w, "\t", 1) || !put_number(w, s->y[i * s->columns + j]) || !cj__writer_put(w, "\n", 1)) return false;
        }
    return true;
}

/* A table per matrix, then one table of all other series; an empty line between tables. */
static bool put_data(cj_writer *w, const cj_plot *p)
{
    bool head = false;
    int64_t number = 0;
    for (const cj_series *s = p->first; s; s = s->next)
        if (s->kind >= CJ_HEAT && (!put_matrix(w, s) || (s->next && !cj__writer_put(w, "\n", 1)))) return false;
    for (const cj_series *s = p->first; s; s = s->next) {
        if (s->kind >= CJ_HEAT) continue;
        if (!head && !cj__writer_print(w, "series\tx\ty\n")) return false;
        head = true;
        if (!put_series(w, s, number++)) return false;
    }
    return true;
}

static bool has_ending(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    if (n <= m) return false;
    for (size_t i = 0; i < m; i++) {
        char ch = path[n - m + i];
        if ((ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch) != ending[i]) return false;
    }
    return true;
}

bool cj_plot_save(cj_plot *p, const char *path)
{
    if (!usable(p)) return false;
    cj_ctx *c = p->ctx;
    if (!path || (!has_ending(path, ".png") && !has_ending(path, ".svg")))
        return cj__error(c, CJ_EVALUE, "cj_plot_save: '%s' ends neither in .png nor in .svg", path ? path : "NULL");
    if ((p->log_x || p->log_y) && cj__plot_find(p, CJ_FIELD)) return cj__error(c, CJ_EVALUE, "cj_plot_save: a field has linear axes");
    char *data = cj__strdup(c, path);
    if (!data) return false;
    strcpy(data + strlen(data) - 3, "tsv");
    cj_writer w;
    bool ok = cj__writer_open(&w, c, "cj_plot_save", data) && cj__writer_close(&w, put_data(&w, p)) && cj__plot_draw(p, path);
    cj__strfree(c, data);
    return ok;
}
