/* A sheet of images: tiles of equal size in rows, as large as the rectangle allows, with a line of text under each where there are captions. */
#include <math.h>

#include "plot/plot.h"

bool cj_plot_images(cj_plot *p, const double *values, int64_t n, int64_t channels, int64_t height, int64_t width)
{
    if (!p) return false;
    if (n < 1 || n > 1 << 16 || height < 1 || height > 1 << 14 || width < 1 || width > 1 << 14 || (channels != 1 && channels != 3))
        return cj__error(p->ctx, CJ_ESHAPE, "cj_plot_images: %lld images of %lld x %lld x %lld; 1 or 3 channels were expected",
                         (long long)n, (long long)channels, (long long)height, (long long)width);
    cj_series *s = cj__series_matrix(p, "cj_plot_images", CJ_IMAGES, values, n, channels * height * width);
    if (s) s->height = height, s->width = width;
    return s != NULL;
}

#if defined CJ_HAVE_CAIRO
#include <cairo.h>

/* Tiles in a row so that they are largest; every row of tiles needs `line` more for its captions. */
static int64_t best_columns(const cj_series *s, double w, double h, double line, double *scale)
{
    int64_t best = 1;
    *scale = 0;
    for (int64_t columns = 1; columns <= s->rows; columns++) {
        int64_t lines = (s->rows + columns - 1) / columns;
        double this = fmin(w / ((double)(columns * (s->width + 1))), (h / (double)lines - line) / (double)(s->height + 1));
        if (this > *scale) *scale = this, best = columns;
    }
    return best;
}

static uint32_t level(double v) { return isfinite(v) ? (uint32_t)(255 * fmin(fmax(v, 0), 1) + 0.5) : 128; }

/* The pixels of an image as a tile of its own, so that neighbours do not bleed into each other. */
static bool draw_tile(cairo_t *cr, const cj_series *s, const double *v, double x, double y, double scale)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)s->width, (int)s->height);
    unsigned char *pixels = cairo_image_surface_get_data(image);
    int64_t plane = s->height * s->width, second = s->columns == plane ? 0 : plane;
    if (pixels) {
        int stride = cairo_image_surface_get_stride(image);
        cairo_surface_flush(image);
        for (int64_t i = 0; i < plane; i++) {
            uint32_t c = level(v[i]) << 16 | level(v[i + second]) << 8 | level(v[i + 2 * second]);
            memcpy(pixels + i / s->width * stride + i % s->width * 4, &c, 4);
        }
        cairo_surface_mark_dirty(image);
        cairo_save(cr);
        cairo_translate(cr, x, y);
        cairo_scale(cr, scale, scale);
        cairo_set_source_surface(cr, image, 0, 0);
        cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
        cairo_rectangle(cr, 0, 0, (double)s->width, (double)s->height);
        cairo_fill(cr);
        cairo_restore(cr);
    }
    cairo_surface_destroy(image);
    return pixels != NULL;
}

/* Centred under its tile; what is wider than the tile ends with a full stop. */
static void draw_caption(cairo_t *cr, const char *text, double x, double y, double width)
{
    char part[128];
    cairo_text_extents_t e;
    size_t n = strlen(text) < sizeof part ? strlen(text) : sizeof part - 1;
    while (((unsigned char)text[n] & 0xc0) == 0x80) n--; /* whole characters of UTF-8 */
    memcpy(part, text, n);
    part[n] = 0;
    for (;;) {
        cairo_text_extents(cr, part, &e);
        if (e.x_advance <= width || n <= 2) break;
        do n--;
        while (n > 1 && ((unsigned char)part[n - 1] & 0xc0) == 0x80);
        part[n - 1] = '.';
        part[n] = 0;
    }
    cairo_move_to(cr, x + (width - e.x_advance) / 2, y);
    cairo_show_text(cr, part);
}

bool cj__draw_images(cairo_t *cr, const cj_plot *p, const cj_series *s, double left, double top, double right, double bottom, double font)
{
    double scale, line = s->row_names ? 1.7 * font : 0;
    int64_t columns = best_columns(s, right - left, bottom - top, line, &scale);
    if (scale > 1) scale = floor(scale); /* whole pixels are sharp */
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t row = i / columns, column = i % columns;
        double x = left + (double)(column * (s->width + 1)) * scale;
        double y = top + (double)row * ((double)(s->height + 1) * scale + line);
        if (!draw_tile(cr, s, s->y + i * s->columns, x, y, scale))
            return cj__error(p->ctx, CJ_EMEMORY, "cj_plot_save: no memory for an image of %lld x %lld", (long long)s->width,
                             (long long)s->height);
        if (!s->row_names || !s->row_names[i]) continue;
        bool marked = s->marked && s->marked[i];
        cairo_set_source_rgb(cr, marked ? 0.8 : 0.13, marked ? 0.1 : 0.13, marked ? 0.1 : 0.13);
        draw_caption(cr, s->row_names[i], x, y + (double)s->height * scale + 1.15 * font, (double)s->width * scale);
    }
    return true;
}

#endif
