/* Plots inside: what is kept of them, their axes, and the drawing. */
#ifndef CJ_PLOT_PLOT_H
#define CJ_PLOT_PLOT_H

#include "cajal/plot.h"
#include "core/core.h"
#include "data/file.h"

typedef enum cj_series_kind { CJ_LINE, CJ_POINTS, CJ_BARS, CJ_HEAT, CJ_FIELD, CJ_IMAGES } cj_series_kind;

typedef struct cj_series {
    struct cj_series *next;
    cj_series_kind kind;
    char *label;
    double *x, *y;             /* x NULL: 0, 1, 2, … (lines and points); y: values, or the matrix */
    int64_t n;                 /* values of y */
    int64_t rows, columns;     /* heat maps and fields; images, a row each */
    int64_t height, width;     /* of an image */
    char **names, **row_names; /* bars and columns; rows; captions of images */
    bool *marked;              /* images: captions in red; or NULL */
    double x0, x1, y0, y1;     /* fields */
    int color;
} cj_series;

struct cj_plot {
    cj_object object;
    cj_ctx *ctx;
    char *title, *x_label, *y_label;
    bool log_x, log_y;
    bool fixed_x, fixed_y;
    double x_low, x_high, y_low, y_high;
    int width, height;
    cj_series *first, *last;
    int colors; /* used so far */
};

static inline double cj__series_x(const cj_series *s, int64_t i) { return s->x ? s->x[i] : (double)i; }
const cj_series *cj__plot_find(const cj_plot *p, cj_series_kind kind); /* the first of a kind, or NULL */
/* A matrix, added to the plot; NULL after an error. */
cj_series *cj__series_matrix(cj_plot *p, const char *op, cj_series_kind kind, const double *values, int64_t rows, int64_t columns);

/* ---- axes (axis.c) ------------------------------------------------------------------------------------------------------------------------------- */

#define CJ_MAX_TICKS 64

typedef struct cj_tick {
    double value;
    bool power; /* shown as 10 to the `exponent` */
    int exponent;
    char text[32]; /* empty: a fine grid line */
} cj_tick;

typedef struct cj_axis {
    double low, high;
    bool log;
    int exponent; /* labels are to be multiplied by 10 to this; 0: as they are */
    int n;
    cj_tick tick[CJ_MAX_TICKS];
} cj_axis;

/* The range that the data needs: pad is the share added on both sides; whole: only whole numbers occur; snap: to a tick that is near an end. */
cj_axis cj__axis_make(double low, double high, bool log, double pad_low, double pad_high, bool whole, bool snap, int wanted_ticks);
double cj__axis_place(const cj_axis *a, double v); /* 0 … 1 within the range */
cj_axis cj__plot_x_axis(const cj_plot *p, int wanted_ticks);
cj_axis cj__plot_y_axis(const cj_plot *p, int wanted_ticks);
bool cj__plot_shows(const cj_plot *p, double x, double y); /* finite, and positive where the axis is logarithmic */
/* Text of a number: no exponent, `decimals` digits, a point whatever the locale, a true minus sign. */
void cj__number_text(double v, int decimals, char out[32]);

/* ---- drawing (draw.c): false after an error ------------------------------------------------------------------------------------------------------------ */

bool cj__plot_draw(const cj_plot *p, const char *path);
#if defined CJ_HAVE_CAIRO
typedef struct _cairo cairo_t;
/* images.c; captions in the font that is set, of this size */
bool cj__draw_images(cairo_t *cr, const cj_plot *p, const cj_series *s, double left, double top, double right, double bottom, double font);
#endif

#endif
