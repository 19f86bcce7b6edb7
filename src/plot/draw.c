/* The picture, with cairo: white ground, a light grid, colours that colour-blind readers can tell apart (Okabe & Ito 2008; viridis for heat maps). */
#include <math.h>
#include <stdio.h>

#include "plot/plot.h"

#if defined CJ_HAVE_CAIRO
#include <cairo-svg.h>
#include <cairo.h>

#define TITLE 20
#define LABEL 15
#define TICK 13.5
#define SMALL 12

typedef struct rgb {
    double r, g, b;
} rgb;

#define HEX(h)                                                                                                                             \
    {                                                                                                                                      \
        ((h) >> 16 & 255) / 255.0, ((h) >> 8 & 255) / 255.0, ((h)&255) / 255.0                                                             \
    }
static const rgb ink = HEX(0x222222), soft = HEX(0x555555), grid = HEX(0xe4e4e4), fine = HEX(0xf2f2f2), frame = HEX(0x9a9a9a);
static const rgb palette[] = { HEX(0x0072b2), HEX(0xd55e00), HEX(0x009e73), HEX(0xcc79a7), HEX(0xe69f00), HEX(0x56b4e9), HEX(0x333333) };
enum { COLORS = sizeof palette / sizeof palette[0] };
/* Ramps of eleven colours: viridis for fields; for matrices white to blue, or, where both signs occur, blue over white to vermilion. */
enum { RAMP = 11 };
static const rgb viridis[RAMP] = { HEX(0x440154), HEX(0x482475), HEX(0x414487), HEX(0x355f8d), HEX(0x2a788e), HEX(0x21918c),
                                   HEX(0x22a884), HEX(0x44bf70), HEX(0x7ad151), HEX(0xbddf26), HEX(0xfde725) };
static const rgb blues[RAMP] = { HEX(0xf7fbff), HEX(0xe3eef8), HEX(0xcfe1f2), HEX(0xb5d4e9), HEX(0x93c3de), HEX(0x6daed5),
                                 HEX(0x4b97c9), HEX(0x2f7ebc), HEX(0x1864aa), HEX(0x0a4a90), HEX(0x08306b) };
static const rgb signs[RAMP] = { HEX(0x004c80), HEX(0x1f74ad), HEX(0x5a9bc8), HEX(0x95c0dd), HEX(0xcae0ee), HEX(0xf7f7f7),
                                 HEX(0xf8dcc8), HEX(0xf0b48c), HEX(0xe48a50), HEX(0xd2641c), HEX(0xa84a00) };

/* The rectangle of the data, and how numbers become places in it. */
typedef struct canvas {
    cairo_t *cr;
    const cj_plot *plot;
    const char *font;
    double left, top, right, bottom;
    cj_axis x, y;
    double low, high; /* of the colours */
    const rgb *ramp;
} canvas;

/* ---- small things ---------------------------------------------------------------------------------------------------------------------------------- */

static void ink_of(canvas *k, rgb c) { cairo_set_source_rgb(k->cr, c.r, c.g, c.b); }

static void font(canvas *k, double size, bool bold)
{
    cairo_select_font_face(k->cr, k->font, CAIRO_FONT_SLANT_NORMAL, bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(k->cr, size);
}

static double width_of(canvas *k, const char *text)
{
    cairo_text_extents_t e;
    cairo_text_extents(k->cr, text, &e);
    return e.x_advance;
}

/* align 0: starts at x, 0.5: centred, 1: ends at x. y is the base line. */
static void text_at(canvas *k, double x, double y, double align, const char *text)
{
    cairo_move_to(k->cr, x - align * width_of(k, text), y);
    cairo_show_text(k->cr, text);
}

static void text_turned(canvas *k, double x, double y, double angle, double align, const char *text)
{
    cairo_save(k->cr);
    cairo_translate(k->cr, x, y);
    cairo_rotate(k->cr, angle);
    text_at(k, 0, 0, align, text);
    cairo_restore(k->cr);
}

/* Lines of one pixel lie on pixel centres. */
static void stroke_line(canvas *k, double x0, double y0, double x1, double y1)
{
    cairo_move_to(k->cr, floor(x0) + 0.5, floor(y0) + 0.5);
    cairo_line_to(k->cr, floor(x1) + 0.5, floor(y1) + 0.5);
    cairo_stroke(k->cr);
}

/* Cairo's numbers end at 2^23; what lies outside of the picture may lie anywhere outside. */
static double near_picture(double v) { return fmin(fmax(v, -20000), 40000); }
static double place_x(const canvas *k, double v) { return near_picture(k->left + cj__axis_place(&k->x, v) * (k->right - k->left)); }
static double place_y(const canvas *k, double v) { return near_picture(k->bottom - cj__axis_place(&k->y, v) * (k->bottom - k->top)); }

static rgb color_of(const canvas *k, double v)
{
    int last = RAMP - 1;
    double t = (v - k->low) / (k->high - k->low);
    if (!(t > 0)) t = 0;
    if (t > 1) t = 1;
    int i = (int)(t * last);
    if (i == last) i--;
    double f = t * last - i;
    rgb a = k->ramp[i], b = k->ramp[i + 1];
    return (rgb){ a.r + f * (b.r - a.r), a.g + f * (b.g - a.g), a.b + f * (b.b - a.b) };
}

/* ---- ticks ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* A tick's text, powers as 10 with a raised exponent; returns its width and draws it when draw is set, ending at x. */
static double tick_text(canvas *k, const cj_tick *t, double x, double y, double align, bool draw)
{
    char exponent[32] = "";
    font(k, TICK, false);
    double base = width_of(k, t->text), raised = 0;
    if (t->power) {
        cj__number_text(t->exponent, 0, exponent);
        cairo_set_font_size(k->cr, TICK * 0.72);
        raised = width_of(k, exponent) + 1;
        cairo_set_font_size(k->cr, TICK);
    }
    if (draw) {
        double start = x - align * (base + raised);
        text_at(k, start, y, 0, t->text);
        if (t->power) {
            cairo_set_font_size(k->cr, TICK * 0.72);
            text_at(k, start + base + 1, y - TICK * 0.42, 0, exponent);
        }
    }
    return base + raised;
}

static double widest_tick(canvas *k, const cj_axis *a)
{
    double most = 0;
    for (int i = 0; i < a->n; i++)
        if (a->tick[i].text[0]) most = fmax(most, tick_text(k, &a->tick[i], 0, 0, 0, false));
    return most;
}

/* "×10⁶" beside an axis. */
static void axis_power(canvas *k, int exponent, double x, double y, double align)
{
    if (!exponent) return;
    cj_tick t = { .power = true,
                  .exponent = exponent,
                  .text = "\xc3\x97"
                          "10" };
    tick_text(k, &t, x, y, align, true);
}

static bool inside(const canvas *k, bool vertical, double at)
{
    return vertical ? at >= k->top - 0.5 && at <= k->bottom + 0.5 : at >= k->left - 0.5 && at <= k->right + 0.5;
}

static void draw_grid(canvas *k, bool x_axis)
{
    cairo_set_line_width(k->cr, 1);
    for (int pass = 0; pass < 2; pass++) { /* fine lines lie below */
        ink_of(k, pass ? grid : fine);
        for (int i = 0; i < k->y.n; i++) {
            double y = place_y(k, k->y.tick[i].value);
            if ((k->y.tick[i].text[0] != 0) == pass && inside(k, true, y)) stroke_line(k, k->left, y, k->right, y);
        }
        for (int i = 0; x_axis && i < k->x.n; i++) {
            double x = place_x(k, k->x.tick[i].value);
            if ((k->x.tick[i].text[0] != 0) == pass && inside(k, false, x)) stroke_line(k, x, k->top, x, k->bottom);
        }
    }
}

static void draw_y_ticks(canvas *k)
{
    ink_of(k, soft);
    for (int i = 0; i < k->y.n; i++)
        if (k->y.tick[i].text[0]) tick_text(k, &k->y.tick[i], k->left - 10, place_y(k, k->y.tick[i].value) + TICK * 0.36, 1, true);
    axis_power(k, k->y.exponent, k->left, k->top - 10, 0);
}

static void draw_x_ticks(canvas *k)
{
    ink_of(k, soft);
    for (int i = 0; i < k->x.n; i++)
        if (k->x.tick[i].text[0]) tick_text(k, &k->x.tick[i], place_x(k, k->x.tick[i].value), k->bottom + 22, 0.5, true);
    axis_power(k, k->x.exponent, k->right, k->bottom + 42, 1);
}

/* The lines at the left and below. */
static void draw_frame(canvas *k)
{
    ink_of(k, frame);
    cairo_set_line_width(k->cr, 1);
    stroke_line(k, k->left, k->top, k->left, k->bottom);
    stroke_line(k, k->left, k->bottom, k->right, k->bottom);
}

static void draw_titles(canvas *k, double y_label, double x_label)
{
    const cj_plot *p = k->plot;
    ink_of(k, ink);
    if (p->title) {
        double size = TITLE;
        font(k, size, true);
        double room = p->width - k->left - 16, need = width_of(k, p->title);
        if (need > room) font(k, fmax(size * room / need, 8), true);
        text_at(k, k->left, 34, 0, p->title);
    }
    font(k, LABEL, false);
    if (p->x_label) text_at(k, (k->left + k->right) / 2, x_label, 0.5, p->x_label);
    if (p->y_label) text_turned(k, y_label, (k->top + k->bottom) / 2, -M_PI / 2, 0.5, p->y_label);
}

/* ---- lines and points --------------------------------------------------------------------------------------------------------------------------------------- */

static void line_style(canvas *k, const cj_series *s)
{
    static const double dashes[][2] = { { 9, 5 }, { 2.5, 4 }, { 14, 4 } };
    ink_of(k, palette[s->color % COLORS]);
    cairo_set_line_width(k->cr, 2.2);
    cairo_set_line_join(k->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(k->cr, CAIRO_LINE_CAP_ROUND);
    int round = s->color / COLORS; /* the palette again, dashed */
    if (round) cairo_set_dash(k->cr, dashes[(round - 1) % 3], 2, 0);
    else cairo_set_dash(k->cr, NULL, 0, 0);
}

/* Points of a line within one column of pixels: the first, the lowest, the highest and the last one look like all of them. */
typedef struct run {
    bool any, drawn;
    double column, first, last, low, high, x;
    int points;
} run;

static void run_flush(canvas *k, run *r)
{
    if (!r->any) return;
    const double y[] = { r->first, r->low, r->high, r->last };
    for (int i = 0; i < 4; i++) {
        if (r->drawn) cairo_line_to(k->cr, r->x, y[i]);
        else cairo_move_to(k->cr, r->x, y[i]);
        r->drawn = true;
        if (r->points == 1) break;
    }
    r->any = false;
}

static void run_add(canvas *k, run *r, double x, double y)
{
    double column = floor(x * 2);
    if (r->any && r->column == column) {
        r->last = y;
        r->low = fmin(r->low, y);
        r->high = fmax(r->high, y);
        r->points++;
        return;
    }
    run_flush(k, r);
    r->any = true;
    r->column = column;
    r->x = x;
    r->first = r->last = r->low = r->high = y;
    r->points = 1;
}

static void dot(canvas *k, double x, double y, double radius)
{
    cairo_new_sub_path(k->cr);
    cairo_arc(k->cr, x, y, radius, 0, 2 * M_PI);
}

static void draw_line(canvas *k, const cj_series *s, bool on_field)
{
    line_style(k, s);
    run r = { 0 };
    int64_t alone = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double x = cj__series_x(s, i), y = s->y[i];
        if (cj__plot_shows(k->plot, x, y)) {
            run_add(k, &r, place_x(k, x), place_y(k, y));
            alone++;
        } else { /* a gap */
            run_flush(k, &r);
            r.drawn = false;
        }
    }
    run_flush(k, &r);
    if (on_field) { /* a light border keeps it visible on every colour */
        cairo_set_line_width(k->cr, 5);
        cairo_set_source_rgba(k->cr, 1, 1, 1, 0.85);
        cairo_stroke_preserve(k->cr);
        line_style(k, s);
    }
    cairo_stroke(k->cr);
    cairo_set_dash(k->cr, NULL, 0, 0);
    if (alone == 1) /* a line of one point would not be seen */
        for (int64_t i = 0; i < s->n; i++)
            if (cj__plot_shows(k->plot, cj__series_x(s, i), s->y[i])) {
                dot(k, place_x(k, cj__series_x(s, i)), place_y(k, s->y[i]), 4);
                cairo_fill(k->cr);
            }
}

static double point_radius(const cj_series *s) { return s->n <= 300 ? 4.2 : s->n <= 3000 ? 3.2 : 1.8; }

static void draw_points(canvas *k, const cj_series *s, bool outlined)
{
    rgb c = palette[s->color % COLORS];
    double radius = point_radius(s);
    for (int64_t i = 0; i < s->n; i++) {
        double x = cj__series_x(s, i), y = s->y[i];
        if (!cj__plot_shows(k->plot, x, y)) continue;
        dot(k, place_x(k, x), place_y(k, y), radius);
        cairo_set_source_rgba(k->cr, c.r, c.g, c.b, s->n <= 3000 ? 0.85 : 0.5);
        if (s->n <= 3000) {
            cairo_fill_preserve(k->cr);
            cairo_set_line_width(k->cr, outlined ? 1.1 : 0.7);
            cairo_set_source_rgba(k->cr, 1, 1, 1, 0.9);
            cairo_stroke(k->cr);
        } else {
            cairo_fill(k->cr);
        }
    }
}

/* ---- the legend -------------------------------------------------------------------------------------------------------------------------------------------- */

/* How much of the data a box would cover. */
static double covered(const canvas *k, double x, double y, double w, double h)
{
    double hits = 0;
    for (const cj_series *s = k->plot->first; s; s = s->next) {
        if (s->kind != CJ_LINE && s->kind != CJ_POINTS) continue;
        int64_t step = s->n / 2000 + 1;
        double before_x = NAN, before_y = NAN;
        for (int64_t i = 0; i < s->n; i += step) {
            if (!cj__plot_shows(k->plot, cj__series_x(s, i), s->y[i])) continue;
            double px = place_x(k, cj__series_x(s, i)), py = place_y(k, s->y[i]);
            for (int part = 0; part < 4; part++) { /* lines also between their points */
                double f = s->kind == CJ_LINE && !isnan(before_x) ? part / 4.0 : 0;
                double qx = px + f * (before_x - px), qy = py + f * (before_y - py);
                if (f == 0 && part) break;
                hits += qx > x - 6 && qx < x + w + 6 && qy > y - 6 && qy < y + h + 6;
            }
            before_x = px;
            before_y = py;
        }
    }
    return hits;
}

static void legend_mark(canvas *k, const cj_series *s, double x, double y)
{
    rgb c = palette[s->color % COLORS];
    if (s->kind == CJ_LINE) {
        line_style(k, s);
        cairo_move_to(k->cr, x, y);
        cairo_line_to(k->cr, x + 24, y);
        cairo_stroke(k->cr);
        cairo_set_dash(k->cr, NULL, 0, 0);
    } else if (s->kind == CJ_POINTS) {
        ink_of(k, c);
        dot(k, x + 12, y, 4.5);
        cairo_fill(k->cr);
    } else {
        ink_of(k, c);
        cairo_rectangle(k->cr, x + 5, y - 6, 14, 12);
        cairo_fill(k->cr);
    }
}

static void draw_legend(canvas *k, bool above)
{
    int n = 0;
    double most = 0, total = 0;
    font(k, TICK, false);
    for (const cj_series *s = k->plot->first; s; s = s->next)
        if (s->label) {
            n++;
            most = fmax(most, width_of(k, s->label));
            total += width_of(k, s->label) + 58;
        }
    if (!n) return;
    double row = 21, w = most + 32 + 24, h = n * row + 13, x = 0, y = 0;
    bool line_above = above && total < k->right - k->left;
    if (line_above) { /* bars: in one line over the plot */
        x = k->right - total + 26;
        y = k->top - 16;
    } else {
        double best = INFINITY;
        for (int corner = 0; corner < 4; corner++) { /* top right, top left, bottom right, bottom left */
            double cx = corner % 2 ? k->left + 14 : k->right - w - 14, cy = corner < 2 ? k->top + 12 : k->bottom - h - 14;
            double cost = covered(k, cx, cy, w, h);
            if (cost < best) best = cost, x = cx, y = cy;
        }
        cairo_set_source_rgba(k->cr, 1, 1, 1, 0.88);
        cairo_rectangle(k->cr, floor(x) + 0.5, floor(y) + 0.5, floor(w), floor(h));
        cairo_fill_preserve(k->cr);
        ink_of(k, grid);
        cairo_set_line_width(k->cr, 1);
        cairo_stroke(k->cr);
        x += 12;
        y += 7 + row / 2;
    }
    for (const cj_series *s = k->plot->first; s; s = s->next) {
        if (!s->label) continue;
        legend_mark(k, s, x, y);
        ink_of(k, ink);
        font(k, TICK, false);
        text_at(k, x + 32, y + TICK * 0.36, 0, s->label);
        if (line_above) x += width_of(k, s->label) + 58;
        else y += row;
    }
}

/* ---- colours: fields and heat maps ---------------------------------------------------------------------------------------------------------------------------- */

static void color_range(canvas *k, const cj_series *s)
{
    k->low = INFINITY;
    k->high = -INFINITY;
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(s->y[i])) {
            k->low = fmin(k->low, s->y[i]);
            k->high = fmax(k->high, s->y[i]);
        }
    if (!(k->low <= k->high)) k->low = 0, k->high = 1;
    if (k->low == k->high) k->low -= k->low > 0 ? k->low : 0.5, k->high += k->high < 0 ? -k->high : 0.5;
    k->ramp = s->kind == CJ_FIELD ? viridis : blues;
    if (s->kind == CJ_HEAT && k->low < 0 && k->high > 0) { /* zero is white */
        k->ramp = signs;
        k->high = fmax(k->high, -k->low);
        k->low = -k->high;
    }
}

/* The values as the pixels of an image, row 0 below (fields) or above (heat maps). */
static bool draw_matrix(canvas *k, const cj_series *s, bool row0_below, double x, double y, double w, double h, cairo_filter_t filter)
{
    if (!(w > 0.01 && h > 0.01)) return true; /* nothing of it would be seen */
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)s->columns, (int)s->rows);
    unsigned char *pixels = cairo_image_surface_get_data(image);
    if (!pixels) {
        cairo_surface_destroy(image);
        return cj__error(k->plot->ctx, CJ_EMEMORY, "cj_plot_save: no memory for an image of %lld x %lld", (long long)s->columns,
                         (long long)s->rows);
    }
    int stride = cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            double v = s->y[(row0_below ? s->rows - 1 - i : i) * s->columns + j];
            rgb c = color_of(k, v);
            uint32_t p = !isfinite(v) ? 0xffd0d0d0u /* no number: grey */
                                      : 0xff000000u | (uint32_t)(c.r * 255 + 0.5) << 16 | (uint32_t)(c.g * 255 + 0.5) << 8 |
                                            (uint32_t)(c.b * 255 + 0.5);
            memcpy(pixels + i * stride + j * 4, &p, 4);
        }
    cairo_surface_mark_dirty(image);
    cairo_save(k->cr);
    cairo_rectangle(k->cr, x, y, w, h);
    cairo_clip(k->cr);
    bool smooth =
        filter != CAIRO_FILTER_NEAREST && s->rows > 1 && s->columns > 1; /* values sit at the corners: half a pixel lies outside */
    double sx = w / (double)(s->columns - smooth), sy = h / (double)(s->rows - smooth);
    cairo_translate(k->cr, x - (smooth ? sx / 2 : 0), y - (smooth ? sy / 2 : 0));
    cairo_scale(k->cr, sx, sy);
    cairo_set_source_surface(k->cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(k->cr), filter);
    cairo_pattern_set_extend(cairo_get_source(k->cr), CAIRO_EXTEND_PAD);
    cairo_paint(k->cr);
    cairo_restore(k->cr);
    cairo_surface_destroy(image);
    return true;
}

#define BAR_ROOM 98

static void draw_color_bar(canvas *k, double x)
{
    double w = 16, h = k->bottom - k->top;
    cairo_pattern_t *ramp = cairo_pattern_create_linear(0, k->bottom, 0, k->top);
    for (int i = 0; i < RAMP; i++) cairo_pattern_add_color_stop_rgb(ramp, i / (RAMP - 1.0), k->ramp[i].r, k->ramp[i].g, k->ramp[i].b);
    cairo_set_source(k->cr, ramp);
    cairo_rectangle(k->cr, x, k->top, w, h);
    cairo_fill(k->cr);
    cairo_pattern_destroy(ramp);
    ink_of(k, grid);
    cairo_set_line_width(k->cr, 1);
    cairo_rectangle(k->cr, floor(x) + 0.5, floor(k->top) + 0.5, w, floor(h));
    cairo_stroke(k->cr);
    cj_axis a = cj__axis_make(k->low, k->high, false, 0, 0, false, false, (int)(h / 80));
    ink_of(k, soft);
    for (int i = 0; i < a.n; i++) {
        double y = k->bottom - cj__axis_place(&a, a.tick[i].value) * h;
        tick_text(k, &a.tick[i], x + w + 9, y + TICK * 0.36, 0, true);
        cairo_set_line_width(k->cr, 1);
        stroke_line(k, x + w, y, x + w + 4, y);
    }
    axis_power(k, a.exponent, x, k->top - 10, 0);
}

static const char *name_of(char **names, int64_t i, char number[24])
{
    snprintf(number, 24, "%lld", (long long)i);
    return names ? names[i] ? names[i] : "" : number;
}

static double widest_name(canvas *k, char **names, int64_t n)
{
    char number[24];
    double most = 0;
    font(k, TICK, false);
    for (int64_t i = 0; i < n && i < 1000; i++) most = fmax(most, width_of(k, name_of(names, i, number)));
    return most;
}

/* Names under slots of equal width: turned where they are too wide, and only every m-th where there are too many. */
static void draw_slot_names(canvas *k, char **names, int64_t n, bool turned)
{
    char number[24];
    double slot = (k->right - k->left) / (double)n, widest = widest_name(k, names, n);
    int64_t every = 1 + (int64_t)((turned ? TICK * 1.2 : names ? 0 : widest + 10) / slot);
    font(k, TICK, false);
    ink_of(k, soft);
    for (int64_t i = 0; i < n; i += every) {
        double x = k->left + ((double)i + 0.5) * slot;
        if (turned) text_turned(k, x + 5, k->bottom + 18, -M_PI / 5, 1, name_of(names, i, number));
        else text_at(k, x, k->bottom + 22, 0.5, name_of(names, i, number));
    }
}

static bool must_turn(canvas *k, char **names, int64_t n, double room) { return names && widest_name(k, names, n) + 10 > room / (double)n; }

/* As few decimals as tell the values apart: whole numbers have none. */
static int decimals_of(const cj_series *s)
{
    double most = 0;
    bool whole = true;
    for (int64_t i = 0; i < s->n; i++) {
        if (!isfinite(s->y[i])) continue;
        most = fmax(most, fabs(s->y[i]));
        whole &= s->y[i] == floor(s->y[i]);
    }
    return whole ? 0 : most >= 100 ? 0 : most >= 10 ? 1 : most >= 0.1 ? 2 : 3;
}

static void draw_cell_values(canvas *k, const cj_series *s)
{
    double w = (k->right - k->left) / (double)s->columns, h = (k->bottom - k->top) / (double)s->rows;
    double size = fmin(TICK + 1, h * 0.5);
    char text[32];
    int decimals = decimals_of(s);
    double most = 0;
    if (s->n > 2500) return;
    font(k, size, false);
    for (int64_t i = 0; i < s->n; i++) {
        if (!isfinite(s->y[i]) || fabs(s->y[i]) >= 1e6) return;
        cj__number_text(s->y[i], decimals, text);
        most = fmax(most, width_of(k, text));
    }
    if (most + 6 > w || size < 9) return;
    for (int64_t i = 0; i < s->n; i++) {
        rgb c = color_of(k, s->y[i]);
        bool dark = 0.299 * c.r + 0.587 * c.g + 0.114 * c.b < 0.55;
        cairo_set_source_rgb(k->cr, dark ? 1 : 0.1, dark ? 1 : 0.1, dark ? 1 : 0.1);
        cj__number_text(s->y[i], decimals, text);
        int64_t row = i / s->columns, column = i % s->columns;
        text_at(k, k->left + ((double)column + 0.5) * w, k->top + ((double)row + 0.5) * h + size * 0.36, 0.5, text);
    }
}

/* ---- the three kinds of pictures ------------------------------------------------------------------------------------------------------------------------------- */

/* Long names in a small picture may leave none for the data. */
static void keep_room(canvas *k)
{
    k->right = fmax(k->right, k->left + 20);
    k->bottom = fmax(k->bottom, k->top + 20);
}

static bool draw_heat(canvas *k, const cj_series *s)
{
    const cj_plot *p = k->plot;
    char number[24];
    color_range(k, s);
    double names = widest_name(k, s->row_names, s->rows), label = p->y_label ? 30 : 0;
    bool turned = must_turn(k, s->names, s->columns, p->width - names - 180);
    double below = (turned ? widest_name(k, s->names, s->columns) * sin(M_PI / 5) + 24 : 34) + (p->x_label ? 26 : 0) + 8;
    k->left = 24 + label + names + 12;
    k->top = p->title ? 58 : 24;
    k->right = p->width - BAR_ROOM - 26;
    k->bottom = p->height - below;
    keep_room(k);
    double cell = fmin((k->right - k->left) / (double)s->columns, (k->bottom - k->top) / (double)s->rows); /* square cells */
    double spare_x = k->right - k->left - cell * (double)s->columns;
    if (spare_x > 0 && s->rows > 1) k->right -= spare_x;
    k->bottom = fmin(k->bottom, k->top + fmax(cell, (k->bottom - k->top) / 6 / (double)s->rows) * (double)s->rows);
    if (spare_x > 0) k->left += spare_x / 2, k->right += spare_x / 2;

    double w = k->right - k->left, h = k->bottom - k->top;
    if (!draw_matrix(k, s, false, k->left, k->top, w, h, CAIRO_FILTER_NEAREST)) return false;
    ink_of(k, grid);
    cairo_set_line_width(k->cr, 1);
    cairo_rectangle(k->cr, floor(k->left) + 0.5, floor(k->top) + 0.5, floor(w), floor(h));
    cairo_stroke(k->cr);
    draw_cell_values(k, s);
    draw_slot_names(k, s->names, s->columns, turned);
    double slot = h / (double)s->rows;
    int64_t every = 1 + (int64_t)(TICK * 1.2 / slot);
    font(k, TICK, false);
    ink_of(k, soft);
    for (int64_t i = 0; i < s->rows; i += every)
        text_at(k, k->left - 10, k->top + ((double)i + 0.5) * slot + TICK * 0.36, 1, name_of(s->row_names, i, number));
    draw_color_bar(k, k->right + 22);
    draw_titles(k, k->left - names - 26, k->bottom + below - 14);
    return true;
}

static void draw_bar_series(canvas *k, const cj_series *s, int place, int count)
{
    double slot = (k->right - k->left) / (double)s->n, group = slot * (count > 1 ? 0.8 : 0.66), w = group / count;
    double zero = fmin(fmax(k->y.log ? k->bottom : place_y(k, 0), k->top), k->bottom);
    ink_of(k, palette[s->color % COLORS]);
    for (int64_t i = 0; i < s->n; i++) {
        if (!cj__plot_shows(k->plot, 1, s->y[i])) continue;
        double x = k->left + ((double)i + 0.5) * slot - group / 2 + place * w, y = fmin(fmax(place_y(k, s->y[i]), k->top), k->bottom);
        cairo_rectangle(k->cr, x, fmin(y, zero), fmax(w - (count > 1 ? 2 : 0), 0.5), fabs(zero - y));
        cairo_fill(k->cr);
    }
}

static bool draw_bars(canvas *k, const cj_series *s)
{
    const cj_plot *p = k->plot;
    int count = 0, place = 0;
    bool labels = false;
    for (const cj_series *b = s; b; b = b->next) count++, labels |= b->label != NULL;
    bool turned = must_turn(k, s->names, s->n, p->width - 120);
    double below = (turned ? widest_name(k, s->names, s->n) * sin(M_PI / 5) + 24 : 34) + (p->x_label ? 26 : 0) + 10;
    k->top = (p->title ? 58 : 26) + (labels ? 22 : 0);
    k->bottom = p->height - below;
    k->y = cj__plot_y_axis(p, (int)((k->bottom - k->top) / 70));
    if (k->y.exponent && !labels) k->top += 12;
    double ticks = widest_tick(k, &k->y);
    k->left = ticks + 28 + (p->y_label ? 30 : 0);
    k->right = p->width - 28;
    if (turned) k->left = fmax(k->left, widest_name(k, s->names, s->n) * cos(M_PI / 5) - (k->right - k->left) / (double)s->n / 2 + 8);
    keep_room(k);
    k->x = cj__axis_make(0, (double)s->n, false, 0, 0, true, false, 2);
    draw_grid(k, false);
    for (const cj_series *b = s; b; b = b->next) draw_bar_series(k, b, place++, count);
    if (k->y.low < 0 && !k->y.log) {
        ink_of(k, frame);
        cairo_set_line_width(k->cr, 1);
        stroke_line(k, k->left, place_y(k, 0), k->right, place_y(k, 0));
    }
    draw_frame(k);
    draw_y_ticks(k);
    draw_slot_names(k, s->names, s->n, turned);
    draw_titles(k, 30, p->height - 16);
    draw_legend(k, true);
    return true;
}

static bool draw_curves(canvas *k)
{
    const cj_plot *p = k->plot;
    const cj_series *field = cj__plot_find(p, CJ_FIELD);
    k->top = p->title ? 58 : 26;
    k->bottom = p->height - (p->x_label ? 68 : 42);
    k->y = cj__plot_y_axis(p, (int)((k->bottom - k->top) / 70));
    if (k->y.exponent) k->top += 12;
    k->left = widest_tick(k, &k->y) + 28 + (p->y_label ? 30 : 0);
    k->right = p->width - (field ? BAR_ROOM + 26 : 32);
    keep_room(k);
    k->x = cj__plot_x_axis(p, (int)((k->right - k->left) / 100));
    if (!field) draw_grid(k, true);
    cairo_save(k->cr);
    cairo_rectangle(k->cr, k->left - 3, k->top - 3, k->right - k->left + 6, k->bottom - k->top + 6);
    cairo_clip(k->cr);
    bool ok = true;
    for (const cj_series *s = p->first; s && ok; s = s->next) {
        if (s->kind == CJ_FIELD) {
            color_range(k, s);
            double x = place_x(k, s->x0), y = place_y(k, s->y1);
            ok = draw_matrix(k, s, true, x, y, place_x(k, s->x1) - x, place_y(k, s->y0) - y, CAIRO_FILTER_BILINEAR);
        } else if (s->kind == CJ_LINE) {
            draw_line(k, s, field != NULL);
        } else {
            draw_points(k, s, field != NULL);
        }
    }
    cairo_restore(k->cr);
    draw_frame(k);
    draw_y_ticks(k);
    draw_x_ticks(k);
    if (field) draw_color_bar(k, k->right + 24);
    draw_titles(k, 30, p->height - 18);
    draw_legend(k, false);
    return ok;
}

/* ---- files ----------------------------------------------------------------------------------------------------------------------------------------------------------- */

static cairo_status_t put(void *user, const unsigned char *bytes, unsigned int n)
{
    return cj__writer_put(user, bytes, n) ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* A machine without fonts still has the one inside cairo. */
static const char *choose_font(void)
{
    const char *family = "DejaVu Sans";
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(s);
    cairo_text_extents_t e;
    cairo_select_font_face(cr, family, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_text_extents(cr, "0", &e);
    if (cairo_status(cr) != CAIRO_STATUS_SUCCESS || !(e.x_advance > 0)) family = "@cairo:";
    cairo_destroy(cr);
    cairo_surface_destroy(s);
    return family;
}

static bool draw_all(canvas *k)
{
    const cj_series *heat = cj__plot_find(k->plot, CJ_HEAT), *bars = cj__plot_find(k->plot, CJ_BARS),
                    *images = cj__plot_find(k->plot, CJ_IMAGES);
    cairo_set_source_rgb(k->cr, 1, 1, 1);
    cairo_paint(k->cr);
    if (images) {
        k->left = 24, k->right = k->plot->width - 24, k->top = k->plot->title ? 58 : 24, k->bottom = k->plot->height - 24;
        draw_titles(k, k->left, k->plot->height);
        font(k, TICK, false);
        return cj__draw_images(k->cr, k->plot, images, k->left, k->top, k->right, k->bottom, TICK);
    }
    return heat ? draw_heat(k, heat) : bars && bars->n ? draw_bars(k, bars) : draw_curves(k);
}

static bool cairo_ok(cj_writer *w, cairo_status_t status)
{
    if (status == CAIRO_STATUS_SUCCESS) return true;
    if (status == CAIRO_STATUS_NO_MEMORY) return cj__error(w->ctx, CJ_EMEMORY, "%s: %s: no memory for the picture", w->op, w->path);
    return cj__file_error(w->ctx, w->op, w->path, "cairo: %s",
                          cairo_status_to_string(status)); /* or the error of the file, which came first */
}

static bool draw_to(const cj_plot *p, cj_writer *w, bool svg)
{
    cairo_surface_t *surface = svg ? cairo_svg_surface_create_for_stream(put, w, p->width, p->height)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, p->width, p->height);
    if (svg) cairo_svg_surface_set_document_unit(surface, CAIRO_SVG_UNIT_PX);
    canvas k = { .cr = cairo_create(surface), .plot = p, .font = choose_font() };
    bool ok = draw_all(&k) && cairo_ok(w, cairo_status(k.cr));
    cairo_destroy(k.cr);
    if (ok && !svg) ok = cairo_ok(w, cairo_surface_write_to_png_stream(surface, put, w));
    cairo_surface_finish(surface);
    if (ok && svg) ok = cairo_ok(w, cairo_surface_status(surface));
    cairo_surface_destroy(surface);
    return ok && w->ctx->error == CJ_OK;
}

bool cj__plot_draw(const cj_plot *p, const char *path)
{
    char kind = path[strlen(path) - 2]; /* .svg or .png */
    cj_writer w;
    return cj__writer_open(&w, p->ctx, "cj_plot_save", path) && cj__writer_close(&w, draw_to(p, &w, kind == 'v' || kind == 'V'));
}

#else

bool cj__plot_draw(const cj_plot *p, const char *path)
{
    return cj__error(
        p->ctx, CJ_EFILE,
        "cj_plot_save: %s: this library was built without cairo (Debian: libcairo2-dev), which pictures need; the data was written", path);
}

#endif
