/* Plots: ticks, the data file, the pixels, strange numbers, errors, no space, no memory. */
#include <math.h>

#include "files.h"

#include <cajal/plot.h>

#include "plot/plot.h"

#if defined CJ_HAVE_CAIRO
#include <cairo.h>
#endif

/* fontconfig keeps what it has read. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libfontconfig\n"; }

static cj_ctx *new_ctx(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    assert_true(cj_ok(c));
    return c;
}

/* Without cairo saving writes the data and says so. */
static bool saved(cj_ctx *c, cj_plot *p, const char *path)
{
    bool ok = cj_plot_save(p, path);
#if !defined CJ_HAVE_CAIRO
    assert_false(ok);
    if (cj_error(c) == CJ_EFILE && strstr(cj_message(c), "cairo")) {
        cj_clear(c);
        return true;
    }
#endif
    assert_int_equal(ok, cj_ok(c));
    return ok;
}

/* ---- ticks ------------------------------------------------------------------------------------------------------------------------------------------ */

static void expect_ticks(cj_axis a, const char *texts)
{
    char all[1024] = "";
    for (int i = 0; i < a.n; i++) {
        if (!a.tick[i].text[0]) continue;
        if (all[0]) strcat(all, " ");
        strcat(all, a.tick[i].text);
        if (a.tick[i].power) sprintf(all + strlen(all), "^%d", a.tick[i].exponent);
    }
    assert_string_equal(all, texts);
}

static void ticks(void **state)
{
    (void)state;
    expect_ticks(cj__axis_make(0, 1, false, 0, 0, false, false, 5), "0.0 0.2 0.4 0.6 0.8 1.0");
    expect_ticks(cj__axis_make(0, 499, false, 0, 0, true, true, 5), "0 100 200 300 400 500");
    expect_ticks(cj__axis_make(0, 499, false, 0, 0, true, false, 5), "0 100 200 300 400");
    expect_ticks(cj__axis_make(-3, 3, false, 0, 0, false, false, 6), "\xe2\x88\x92"
                                                                     "3 \xe2\x88\x92"
                                                                     "2 \xe2\x88\x92"
                                                                     "1 0 1 2 3");
    expect_ticks(cj__axis_make(1, 4, false, 0, 0, true, false, 9), "1 2 3 4");
    expect_ticks(cj__axis_make(0.0021, 0.0044, false, 0, 0, false, false, 5), "0.0025 0.0030 0.0035 0.0040");
    cj_axis a = cj__axis_make(0, 2.4e7, false, 0, 0, false, false, 5);
    assert_int_equal(a.exponent, 7);
    expect_ticks(a, "0.0 0.5 1.0 1.5 2.0");
    expect_ticks(cj__axis_make(0.01, 100, true, 0, 0, false, false, 6), "0.01 0.1 1 10 100");
    expect_ticks(cj__axis_make(1e-6, 1e2, true, 0, 0, false, false, 5), "10^-6 10^-4 10^-2 10^0 10^2");
    expect_ticks(cj__axis_make(3, 70, true, 0, 0, false, false, 6), "5 10 20 50");
    expect_ticks(cj__axis_make(INFINITY, -INFINITY, false, 0, 0, false, false, 2), "0.0 0.5 1.0");
    a = cj__axis_make(5, 5, false, 0, 0, false, false, 5);
    assert_true(a.low < 5 && a.high > 5);
    assert_true(cj__axis_place(&a, 5) == 0.5);
    a = cj__axis_make(1, 100, true, 0, 0, false, false, 5);
    assert_true(fabs(cj__axis_place(&a, 10) - 0.5) < 1e-12);
    char text[32];
    cj__number_text(-0.001, 2, text);
    assert_string_equal(text, "0.00");
}

/* ---- the data file ---------------------------------------------------------------------------------------------------------------------------------- */

static void expect_file(const char *path, const char *text)
{
    size_t n;
    unsigned char *found = read_all(path, &n);
    found[n] = 0;
    assert_string_equal((char *)found, text);
    free(found);
}

static void data_files(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_plot *p = cj_plot_new(c, "title");
    assert_true(cj_plot_line(p, "a\tb\nc", (double[]){ 1, 2.5 }, (double[]){ 0.1, NAN }, 2));
    assert_true(cj_plot_points(p, NULL, NULL, (double[]){ 1e-9, 1.0 / 3 }, 2));
    assert_true(saved(c, p, in_folder("data.PNG")));
    expect_file(in_folder("data.tsv"), "series\tx\ty\na b c\t1\t0.1\na b c\t2.5\tnan\n1\t0\t1e-09\n1\t1\t0.33333333333333331\n");
    p = cj_plot_new(c, NULL);
    assert_true(cj_plot_bars(p, "x", (const char *[]){ "one", "two" }, (double[]){ 1, 2 }, 2));
    assert_true(saved(c, p, in_folder("bars.svg")));
    expect_file(in_folder("bars.tsv"), "series\tx\ty\nx\tone\t1\nx\ttwo\t2\n");
    p = cj_plot_new(c, NULL);
    assert_true(cj_plot_heat(p, (double[]){ 1, 2, 3, 4 }, 2, 2, (const char *[]){ "r", "s" }, NULL));
    assert_true(saved(c, p, in_folder("heat.png")));
    expect_file(in_folder("heat.tsv"), "row\tcolumn\tvalue\nr\t0\t1\nr\t1\t2\ns\t0\t3\ns\t1\t4\n");
    p = cj_plot_new(c, NULL);
    assert_true(cj_plot_field(p, (double[]){ 1, 2, 3, 4 }, 2, 2, -1, 1, 0, 5));
    assert_true(cj_plot_line(p, "l", NULL, (double[]){ 1 }, 1));
    assert_true(saved(c, p, in_folder("field.png")));
    expect_file(in_folder("field.tsv"), "y\tx\tvalue\n0\t-1\t1\n0\t1\t2\n5\t-1\t3\n5\t1\t4\n\nseries\tx\ty\nl\t0\t1\n");
    cj_ctx_free(c);
}

/* ---- the picture -------------------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_HAVE_CAIRO

/* Pixels that are near a colour. */
static int count_color(const char *path, int width, int height, unsigned color)
{
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    assert_int_equal(cairo_image_surface_get_width(s), width);
    assert_int_equal(cairo_image_surface_get_height(s), height);
    const unsigned char *data = cairo_image_surface_get_data(s);
    int count = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint32_t p;
            memcpy(&p, data + y * cairo_image_surface_get_stride(s) + 4 * x, 4);
            int d = abs((int)(p >> 16 & 255) - (int)(color >> 16 & 255)) + abs((int)(p >> 8 & 255) - (int)(color >> 8 & 255)) +
                    abs((int)(p & 255) - (int)(color & 255));
            count += d < 12;
        }
    cairo_surface_destroy(s);
    return count;
}

static void pixels(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_plot *p = cj_plot_new(c, "Two lines");
    assert_true(cj_plot_labels(p, "x", "y"));
    assert_true(cj_plot_line(p, "one", NULL, (double[]){ 0, 1 }, 2) && cj_plot_line(p, "two", NULL, (double[]){ 1, 0 }, 2));
    assert_true(cj_plot_save(p, in_folder("lines.png")));
    int blue = count_color(in_folder("lines.png"), 1000, 640, 0x0072b2), red = count_color(in_folder("lines.png"), 1000, 640, 0xd55e00);
    assert_true(blue > 800 && blue < 4000 && red > 800 && red < 4000);
    assert_true(count_color(in_folder("lines.png"), 1000, 640, 0xffffff) > 500000);
    assert_true(count_color(in_folder("lines.png"), 1000, 640, 0x222222) > 100); /* the title */

    p = cj_plot_new(c, NULL);
    assert_true(cj_plot_size(p, 400, 300) && cj_plot_bars(p, NULL, NULL, (double[]){ 1 }, 1));
    assert_true(cj_plot_save(p, in_folder("bar.png")));
    blue = count_color(in_folder("bar.png"), 400, 300, 0x0072b2); /* two thirds of the plot */
    assert_true(blue > 400 * 300 / 3 && blue < 400 * 300 * 2 / 3);

    p = cj_plot_new(c, NULL); /* a red and a blue image of two pixels a side, each a square of 60 */
    const double images[2 * 3 * 4] = { 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, /* */ 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1 };
    assert_true(cj_plot_size(p, 48 + 6 * 60, 400) && cj_plot_images(p, images, 2, 3, 2, 2) && cj_plot_save(p, in_folder("images.png")));
    assert_int_equal(count_color(in_folder("images.png"), 408, 400, 0xff0000), 2 * 60 * 2 * 60);
    assert_int_equal(count_color(in_folder("images.png"), 408, 400, 0x0000ff), 2 * 60 * 2 * 60);

    p = cj_plot_new(c, NULL); /* the same with a line of text under each: the second one in red, and less room for the images */
    assert_true(cj_plot_size(p, 48 + 6 * 60, 150) && cj_plot_images(p, images, 2, 3, 2, 2));
    assert_true(cj_plot_captions(p, (const char *[]){ "no red one", "\xc3\xa9\xc3\xa9 much too long for a tile of this size" },
                                 (bool[]){ false, true }));
    assert_true(cj_plot_save(p, in_folder("captions.png")));
    int tile = count_color(in_folder("captions.png"), 408, 150, 0xff0000);
    assert_true(tile == count_color(in_folder("captions.png"), 408, 150, 0x0000ff) && tile > 400 && tile < 102 * 102);
    assert_true(count_color(in_folder("captions.png"), 408, 150, 0x212121) > 3);
    assert_true(count_color(in_folder("captions.png"), 408, 150, 0xcc1a1a) > 3);

    p = cj_plot_new(c, NULL); /* a line of one point, and a million points that end in the same place */
    double *many = malloc(1000000 * sizeof *many);
    for (int i = 0; i < 1000000; i++) many[i] = sin(i * 1e-5);
    assert_true(cj_plot_line(p, NULL, (double[]){ 500000 }, (double[]){ 0.5 }, 1) && cj_plot_line(p, NULL, NULL, many, 1000000));
    free(many);
    assert_true(cj_plot_save(p, in_folder("many.svg")));
    size_t n;
    unsigned char *svg = read_all(in_folder("many.svg"), &n);
    assert_memory_equal(svg, "<?xml", 5);
    assert_true(n > 1000 && n < 1000000); /* of all points only those that show */
    free(svg);
    cj_ctx_free(c);
}

/* ---- the catalogue's row: one picture of every kind --------------------------------------------------------------------------------------------- */

/* Writes both formats; both are whole, and the PNG has at least `least` pixels of the colour. */
static void expect_picture(cj_plot *p, const char *name, unsigned color, int least)
{
    char png[64], svg[64];
    snprintf(png, sizeof png, "%s.png", name);
    snprintf(svg, sizeof svg, "%s.svg", name);
    assert_true(cj_plot_size(p, 600, 400) && cj_plot_save(p, in_folder(png)) && cj_plot_save(p, in_folder(svg)));
    int count = count_color(in_folder(png), 600, 400, color);
    if (count < least) fail_msg("%s has %d pixels of %06x, %d were expected", png, count, color, least);
    size_t n;
    unsigned char *text = read_all(in_folder(svg), &n);
    text[n] = 0;
    assert_memory_equal(text, "<?xml", 5);
    assert_non_null(strstr((char *)text, "</svg>"));
    free(text);
}

/* All that was drawn is between the ends of the axes. */
static void expect_covered(const cj_plot *p)
{
    cj_axis x = cj__plot_x_axis(p, 5), y = cj__plot_y_axis(p, 5);
    for (const cj_series *s = p->first; s; s = s->next)
        for (int64_t i = 0; i < s->n && s->kind <= CJ_POINTS; i++)
            if (cj__plot_shows(p, cj__series_x(s, i), s->y[i]))
                assert_true(cj__series_x(s, i) >= x.low && cj__series_x(s, i) <= x.high && s->y[i] >= y.low && s->y[i] <= y.high);
}

/* Mean place (share of width, of height) of the pixels near a colour. */
static void place_of(const char *path, unsigned color, double *across, double *down)
{
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    int width = cairo_image_surface_get_width(s), height = cairo_image_surface_get_height(s), n = 0;
    const unsigned char *data = cairo_image_surface_get_data(s);
    *across = *down = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint32_t v;
            memcpy(&v, data + y * cairo_image_surface_get_stride(s) + 4 * x, 4);
            int d = abs((int)(v >> 16 & 255) - (int)(color >> 16 & 255)) + abs((int)(v >> 8 & 255) - (int)(color >> 8 & 255)) +
                    abs((int)(v & 255) - (int)(color & 255));
            if (d < 12) *across += x, *down += y, n++;
        }
    cairo_surface_destroy(s);
    assert_true(n > 0);
    *across /= (double)n * width, *down /= (double)n * height;
}

/* [tool.plots] */
static void tool_plots(void **state)
{
    (void)state;
    enum { N = 50, G = 41 };
    cj_ctx *c = new_ctx();
    double x[N], y[N], field[G * G], across, down;

    cj_plot *p = cj_plot_new(c, "Loss"); /* a loss curve on a logarithmic axis */
    for (int i = 0; i < N; i++) y[i] = exp(-0.2 * i);
    assert_true(cj_plot_log(p, false, true) && cj_plot_line(p, "loss", NULL, y, N));
    expect_picture(p, "loss", 0x0072b2, 400);
    expect_covered(p);

    p = cj_plot_new(c, "Scatter"); /* in the upper right quarter of what the axes show */
    for (int i = 0; i < N; i++) x[i] = 0.75 + 0.2 * sin(i), y[i] = 0.75 + 0.2 * cos(2.0 * i);
    assert_true(cj_plot_range_x(p, 0, 1) && cj_plot_range_y(p, 0, 1) && cj_plot_points(p, NULL, x, y, N));
    expect_picture(p, "scatter", 0x0072b2, 200);
    expect_covered(p);
    place_of(in_folder("scatter.png"), 0x0072b2, &across, &down);
    assert_true(across > 0.6 && across < 0.9 && down > 0.1 && down < 0.45);

    p = cj_plot_new(c, "Decision regions"); /* x > 0: the brightest colour of the ramp on the right, the darkest on the left */
    for (int i = 0; i < G * G; i++) field[i] = i % G > G / 2;
    assert_true(cj_plot_field(p, field, G, G, -1, 1, -1, 1) && cj_plot_points(p, "a", (double[]){ -0.5, -0.4 }, (double[]){ 0, 0.5 }, 2));
    expect_picture(p, "regions", 0x0072b2, 20);
    expect_covered(p);

    p = cj_plot_new(c, "Contours and a path"); /* circles of radius 1 and 2, and gradient descent into their middle */
    for (int i = 0; i < G * G; i++) field[i] = pow(-3 + 6.0 * (i % G) / (G - 1), 2) + pow(-3 + 6.0 * (i / G) / (G - 1), 2);
    assert_true(cj_plot_contours(p, "levels", field, G, G, -3, 3, -3, 3, (double[]){ 1, 4 }, 2));
    const cj_series *s = cj__plot_find(p, CJ_LINE);
    double length = 0;
    for (int64_t i = 0; i < s->n; i++) /* linear between grid points h = 0.15 apart: off by at most h²/(4r) in the radius */
        if (isfinite(s->y[i])) {
            double r = hypot(s->x[i], s->y[i]);
            assert_true(fabs(r - 1) < 0.0113 || fabs(r - 2) < 0.0113);
            if (i > 0 && isfinite(s->y[i - 1])) length += hypot(s->x[i] - s->x[i - 1], s->y[i] - s->y[i - 1]);
        }
    assert_true(fabs(length - 6 * M_PI) < 0.02 * 6 * M_PI); /* 2 pi (1 + 2): closed, and each piece once */
    for (int i = 0; i < N; i++) x[i] = 2.5 * pow(0.8, i), y[i] = -1.5 * pow(0.8, i);
    assert_true(cj_plot_line(p, "path", x, y, N));
    expect_picture(p, "contours", 0xd55e00, 100);
    expect_covered(p);

    p = cj_plot_new(c, "Heat"); /* 2 in one cell of four, the others 0: a quarter of the matrix is the ramp's last colour */
    assert_true(cj_plot_heat(p, (double[]){ 0, 0, 2, 0 }, 2, 2, NULL, NULL));
    expect_picture(p, "map", 0xf7fbff, 30000);
    double fraction = (double)count_color(in_folder("map.png"), 600, 400, 0xf7fbff);
    assert_true(fraction < 600 * 400 * 0.75);

    p = cj_plot_new(c, "Histogram"); /* bars of 1, 2, 4: the areas are as the counts */
    assert_true(cj_plot_bars(p, NULL, NULL, (double[]){ 1, 2, 4 }, 3));
    expect_picture(p, "histogram", 0x0072b2, 600 * 400 / 10);
    place_of(in_folder("histogram.png"), 0x0072b2, &across, &down);
    assert_true(across > 0.55); /* more to the right: (1·0 + 2·1 + 4·2)/7 = 1.43 slots instead of 1 */

    p = cj_plot_new(c, "Surrogate losses"); /* of the margin m: 0/1, hinge, logistic (base 2); the surrogates lie above */
    double one[N], hinge[N], logistic[N];
    for (int i = 0; i < N; i++) {
        x[i] = -2 + 4.0 * i / (N - 1);
        one[i] = x[i] <= 0, hinge[i] = fmax(0, 1 - x[i]), logistic[i] = log2(1 + exp(-x[i]));
        assert_true(hinge[i] >= one[i] && logistic[i] >= one[i]);
    }
    assert_true(cj_plot_line(p, "0/1", x, one, N) && cj_plot_line(p, "hinge", x, hinge, N) && cj_plot_line(p, "logistic", x, logistic, N));
    expect_picture(p, "surrogates", 0x009e73, 200);
    expect_covered(p);

    p = cj_plot_new(c, NULL); /* a grid of 9 images, the middle one white on black ground */
    double grid[9 * 4] = { 0 };
    for (int i = 0; i < 4; i++) grid[4 * 4 + i] = 1;
    assert_true(cj_plot_images(p, grid, 9, 1, 2, 2));
    expect_picture(p, "grid", 0x000000, 8 * 50 * 50);
    place_of(in_folder("grid.png"), 0x000000, &across, &down);
    assert_true(across > 0.2 && across < 0.6 && down > 0.3 && down < 0.7);
    cj_ctx_free(c);
}

static void same_bytes(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const char *a = in_folder("a.png"), *b = in_folder("b.png"); /* cairo numbers the parts of an SVG through the whole process */
    cj_plot *p = cj_plot_new(c, "Same");
    assert_true(cj_plot_line(p, "l", NULL, (double[]){ 0, 3, 1 }, 3));
    assert_true(cj_plot_save(p, a) && cj_plot_save(p, b));
    size_t n, m;
    unsigned char *x = read_all(a, &n), *y = read_all(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    cj_ctx_free(c);
}

static bool save_plot(cj_ctx *c, const char *path)
{
    char png[200];
    snprintf(png, sizeof png, "%s.png", path);
    write_all(png, "old", 3);
    cj_plot *p = cj_plot_new(c, "Full");
    bool ok = cj_plot_line(p, "l", NULL, (double[]){ 1, 2 }, 2) && cj_plot_save(p, png);
    if (!ok) {
        size_t n;
        unsigned char *now = read_all(png, &n); /* the old picture is still there */
        assert_int_equal(n, 3);
        free(now);
        strcat(png, ".tmp");
        assert_false(exists(png));
    }
    return ok;
}

static void no_space(void **state)
{
    (void)state;
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 4; most < 4000; most = most * 3) {
        cj_ctx *c = new_ctx();
        limit = before;
        limit.rlim_cur = most;
        setrlimit(RLIMIT_FSIZE, &limit);
        bool ok = save_plot(c, in_folder("full"));
        setrlimit(RLIMIT_FSIZE, &before);
        assert_false(ok);
        assert_int_equal(cj_error(c), CJ_EFILE);
        assert_non_null(strstr(cj_message(c), "File too large"));
        cj_ctx_free(c);
    }
}

#endif

/* ---- strange numbers --------------------------------------------------------------------------------------------------------------------------------------- */

static double strange(void)
{
    static const double odd[] = { 0,      -0.0,   1,      -1,   NAN,      INFINITY, -INFINITY, 1e308,
                                  -1e308, 5e-324, 1e-300, 1e15, 1e15 + 1, 0.1,      123456789, -3e-7 };
    uint64_t d = dice();
    return d % 3 ? odd[d / 3 % (sizeof odd / sizeof odd[0])] : ((double)(d >> 11) * 0x1p-53 - 0.5) * pow(10, (double)(dice() % 20) - 10);
}

static void strange_numbers(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++) {
        cj_ctx *c = new_ctx();
        cj_plot *p = cj_plot_new(c, round % 3 ? "Strange" : NULL);
        int kind = (int)(dice() % 4), series = 1 + (int)(dice() % 3);
        cj_plot_log(p, kind < 3 && dice() % 2, kind < 3 && dice() % 2);
        cj_plot_size(p, 200 + (int)(dice() % 300), 150 + (int)(dice() % 200));
        for (int k = 0; k < series; k++) {
            double x[40], y[40];
            int n = kind == 1 ? 7 : (int)(dice() % 40);
            for (int i = 0; i < 40; i++) x[i] = strange(), y[i] = strange();
            if (kind == 1) assert_true(cj_plot_bars(p, dice() % 2 ? "bars" : NULL, NULL, y, n));
            else if (kind == 2 && k == 0) assert_true(cj_plot_heat(p, y, 1 + (int)(dice() % 5), 1 + (int)(dice() % 5), NULL, NULL));
            else if (kind == 3 && k == 0) assert_true(cj_plot_field(p, y, 4, 5, 1, 2, 3, 4));
            else if (kind != 2) assert_true((dice() % 2 ? cj_plot_line : cj_plot_points)(p, "series", dice() % 2 ? x : NULL, y, n));
        }
        if (!saved(c, p, in_folder(round % 4 ? "strange.png" : "strange.svg"))) fail_msg("%s", cj_message(c));
        cj_ctx_free(c);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------------------------------------------------------- */

static void errors(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_plot *p = cj_plot_new(c, "Errors"), *bars = cj_plot_new(c, NULL);
    const double y[] = { 1, 2 };
    assert_true(cj_plot_line(p, NULL, NULL, y, 2) && cj_plot_bars(bars, NULL, NULL, y, 2));
#define REFUSED(call, code)                                                                                                                \
    do {                                                                                                                                   \
        assert_false(call);                                                                                                                \
        assert_int_equal(cj_error(c), code);                                                                                               \
        assert_true(strlen(cj_message(c)) > 10);                                                                                           \
        cj_clear(c);                                                                                                                       \
    } while (0)
    REFUSED(cj_plot_save(p, in_folder("x.jpg")), CJ_EVALUE);
    REFUSED(cj_plot_save(p, ".png"), CJ_EVALUE);
    REFUSED(cj_plot_save(p, NULL), CJ_EVALUE);
    REFUSED(cj_plot_save(p, "/nowhere/x.png"), CJ_EFILE);
    REFUSED(cj_plot_line(p, NULL, NULL, NULL, 2), CJ_EVALUE);
    REFUSED(cj_plot_line(p, NULL, NULL, y, -1), CJ_EVALUE);
    REFUSED(cj_plot_line(p, "\xff", NULL, y, 2), CJ_EVALUE);
    REFUSED(cj_plot_bars(p, NULL, NULL, y, 2), CJ_EVALUE);
    REFUSED(cj_plot_heat(p, y, 1, 2, NULL, NULL), CJ_EVALUE);
    REFUSED(cj_plot_line(bars, NULL, NULL, y, 2), CJ_EVALUE);
    REFUSED(cj_plot_bars(bars, NULL, NULL, y, 1), CJ_ESHAPE);
    REFUSED(cj_plot_heat(p, y, 0, 2, NULL, NULL), CJ_ESHAPE);
    REFUSED(cj_plot_images(p, y, 1, 1, 1, 2), CJ_EVALUE);
    REFUSED(cj_plot_images(bars, y, 1, 2, 1, 1), CJ_ESHAPE);
    REFUSED(cj_plot_contours(p, NULL, y, 1, 2, 0, 1, 0, 1, y, 1), CJ_EVALUE);
    REFUSED(cj_plot_contours(p, NULL, y, 2, 2, 0, 1, 0, 1, y, 0), CJ_EVALUE);
    REFUSED(cj_plot_captions(p, (const char *[]){ "a" }, NULL), CJ_EVALUE);
    REFUSED(cj_plot_field(p, y, 1, 2, 0, 1, 0, 1), CJ_ESHAPE);
    REFUSED(cj_plot_field(p, y, 2, 2, 1, 1, 0, 1), CJ_EVALUE);
    REFUSED(cj_plot_range_x(p, 1, 1), CJ_EVALUE);
    REFUSED(cj_plot_range_y(p, NAN, 1), CJ_EVALUE);
    REFUSED(cj_plot_size(p, 10, 10), CJ_EVALUE);
    cj_plot *field = cj_plot_new(c, NULL);
    assert_true(cj_plot_field(field, (double[]){ 1, 2, 3, 4 }, 2, 2, 1, 2, 1, 2) && cj_plot_log(field, true, false));
    REFUSED(cj_plot_save(field, in_folder("field.png")), CJ_EVALUE);
    assert_true(cj_plot_range_x(p, -1, 1));
    REFUSED(cj_plot_log(p, true, false), CJ_EVALUE);
    cj_fail(c, CJ_EVALUE, "test"); /* nothing happens while an error is set */
    assert_false(cj_plot_save(p, in_folder("error.png")));
    assert_false(exists(in_folder("error.tsv")));
    assert_null(cj_plot_new(c, NULL));
    assert_null(cj_plot_new(NULL, NULL));
    assert_false(cj_plot_line(NULL, NULL, NULL, y, 2));
    cj_plot_free(NULL);
    cj_plot_free(p);
    cj_ctx_free(c);
}

static bool memory(cj_ctx *c)
{
    cj_plot *p = cj_plot_new(c, "Memory"), *q = cj_plot_new(c, NULL);
    const double y[] = { 1, 2, 3, 4 };
    const char *const names[] = { "a", "b" };
    bool ok = cj_plot_labels(p, "x", "y") && cj_plot_line(p, "l", y, y, 4) && cj_plot_points(p, "p", NULL, y, 4);
    ok = ok && cj_plot_heat(q, y, 2, 2, names, names);
    ok = ok && saved(c, p, in_folder("memory.png")) && saved(c, q, in_folder("memory.svg"));
    cj_plot_free(q);
    return ok;
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks),
        cmocka_unit_test(data_files),
#if defined CJ_HAVE_CAIRO
        cmocka_unit_test(pixels),
        cmocka_unit_test(tool_plots),
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(no_space),
#endif
        cmocka_unit_test(strange_numbers),
        cmocka_unit_test(errors),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
