/* cajal/plot.h: pictures of numbers.
 *
 * A plot is a data file plus a picture: cj_plot_save(p, "loss.png") writes loss.png (or loss.svg, by the extension) and, beside it, loss.tsv with every
 * number that was drawn.  Pictures need cairo; without it the data file is still written.
 *
 *     cj_plot *p = cj_plot_new(c, "Training");
 *     cj_plot_labels(p, "step", "loss");
 *     cj_plot_log(p, false, true);
 *     cj_plot_line(p, "train", NULL, loss, n);
 *     cj_plot_save(p, "loss.png");
 *     cj_plot_free(p);
 *
 * Errors are the context's: while one is set nothing is added and nothing is written.  Values that are no finite numbers, and on a logarithmic axis those that
 * are not positive, leave gaps.
 */
#ifndef CAJAL_PLOT_H
#define CAJAL_PLOT_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_plot cj_plot;

CJ_API cj_plot *cj_plot_new(cj_ctx *c, const char *title);  /* title may be NULL; NULL after an error */
CJ_API void cj_plot_free(cj_plot *p);                       /* or cj_ctx_free does; NULL is fine */
CJ_API bool cj_plot_labels(cj_plot *p, const char *x, const char *y);
CJ_API bool cj_plot_log(cj_plot *p, bool x, bool y);        /* logarithmic axes */
CJ_API bool cj_plot_range_x(cj_plot *p, double low, double high);  /* instead of what the data needs */
CJ_API bool cj_plot_range_y(cj_plot *p, double low, double high);
CJ_API bool cj_plot_size(cj_plot *p, int width, int height);  /* pixels; 1000 x 640 by default */

/* What is drawn, in this order; values are copied.  Labels appear in the legend and may be NULL; x NULL means 0, 1, 2, … */
CJ_API bool cj_plot_line(cj_plot *p, const char *label, const double *x, const double *y, int64_t n);
CJ_API bool cj_plot_points(cj_plot *p, const char *label, const double *x, const double *y, int64_t n);
/* One bar per name; several calls stand side by side and share the names of the first. */
CJ_API bool cj_plot_bars(cj_plot *p, const char *label, const char *const *names, const double *y, int64_t n);
/* A matrix [rows, columns] as a heat map, row 0 on top, with the numbers where there is room. Names may be NULL: then 0, 1, 2, … */
CJ_API bool cj_plot_heat(cj_plot *p, const double *values, int64_t rows, int64_t columns, const char *const *row_names, const char *const *column_names);
/* A function of x and y as colours behind the lines and points: values[i, j] at y = y0 + (y1-y0)·i/(rows-1), x = x0 + (x1-x0)·j/(columns-1).
 * Its axes are linear. */
CJ_API bool cj_plot_field(cj_plot *p, const double *values, int64_t rows, int64_t columns, double x0, double x1, double y0, double y1);
/* The lines on which the function of such a field has one of the levels, as one line of the plot; nothing where it has none of them. */
CJ_API bool cj_plot_contours(cj_plot *p, const char *label, const double *values, int64_t rows, int64_t columns, double x0, double x1, double y0, double y1,
                             const double *level, int levels);
/* A sheet of images [n, channels, height, width], 1 channel or red, green and blue; values from 0 (black) to 1. Shares a plot with nothing else. */
CJ_API bool cj_plot_images(cj_plot *p, const double *values, int64_t n, int64_t channels, int64_t height, int64_t width);
/* A line of text under each of the images, once; the marked ones in red (marked may be NULL). */
CJ_API bool cj_plot_captions(cj_plot *p, const char *const *caption, const bool *marked);

/* Writes the picture (.png or .svg) and the data file. False after an error; without cairo always, with the data file written. */
CJ_API bool cj_plot_save(cj_plot *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
