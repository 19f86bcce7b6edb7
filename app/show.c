/* Things to look at: the learning curve, images in letters. */
#include "app/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/answers.h"

/* ---- images ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct picture {
    float *pixel; /* 0 … 1, in rows */
    int64_t truth, said;
    double sure;
} picture;

/* One row of letters per row of pixels, twice as wide as high as letters are; the pictures side by side. */
static void print_pictures(const app_job *j, const picture *p, int n)
{
    static const char shade[] = " .:-=+*#%@";
    for (int64_t y = 0; y < j->data->height; y++) {
        for (int k = 0; k < n; k++) {
            printf("   ");
            for (int64_t x = 0; x < j->data->width; x++) {
                int level = (int)(p[k].pixel[y * j->data->width + x] * 9.99F);
                char ch = shade[level < 0 ? 0 : level > 9 ? 9 : level];
                printf("%c%c", ch, ch);
            }
        }
        printf("\n");
    }
    for (int k = 0; k < n; k++) {
        char text[64];
        int width = 2 * (int)j->data->width;
        bool right = p[k].truth == p[k].said;
        if (right) snprintf(text, sizeof text, "%s (%.0f %%)", j->data->class_names[p[k].said], 100 * p[k].sure);
        else snprintf(text, sizeof text, "%s? it is %s", j->data->class_names[p[k].said], j->data->class_names[p[k].truth]);
        printf("   %*s%-*s", width / 4, "", width - width / 4, text);
    }
    printf("\n");
}

void app_show_images(const app_job *j, int n)
{
    enum { LOOK = 400 };
    app_answers a;
    int64_t features = j->data->features;
    if (!app_answer(j, LOOK, &a)) return;
    float *pixel = malloc((size_t)(a.n * features) * sizeof *pixel);
    cj_scope s = cj_scope_open(j->ctx);
    if (n > 8) n = 8;
    if (a.n >= n && pixel && cj_to_f32(cj_slice(j->data->test_x, 0, 0, a.n, 1), pixel, a.n * features)) {
        picture pic[8];
        int m = 0;
        int64_t wrong = 0;
        while (wrong < a.n && a.said[wrong] == a.truth[wrong]) wrong++;
        for (int64_t i = 0; i < a.n && m < n; i++) {
            if (m == n - 1 && wrong < a.n) i = wrong; /* the last one shown is a mistake, if it made one */
            if (a.said[i] == a.truth[i] || i == wrong) pic[m++] = (picture){ pixel + i * features, a.truth[i], a.said[i], a.sure[i] };
        }
        printf("\nHeld-out images, and what the network says:\n\n");
        print_pictures(j, pic, m);
    }
    free(pixel);
    app_answers_free(&a);
    cj_scope_close(s);
}

bool app_fit_sheet(cj_plot *p, int64_t n, int64_t height, int64_t width, bool captions)
{
    enum { MARGIN = 24, TITLE = 58, CAPTION = 24, LEAST = 720, MOST = 1000 };
    int64_t columns = 1;
    while (2 * columns * columns < 3 * n && (columns + 1) * (width + 1) <= MOST - 2 * MARGIN) columns++;
    if (columns > n) columns = n;
    int64_t rows = (n + columns - 1) / columns;
    columns = (n + rows - 1) / rows; /* the last row as full as the others */
    int64_t scale = (MOST - 2 * MARGIN) / (columns * (width + 1)), usual = 100 / width;
    if (scale > usual) scale = usual;
    if (scale < 1) scale = 1;
    int64_t w = 2 * MARGIN + columns * (width + 1) * scale, h = TITLE + MARGIN + rows * ((height + 1) * scale + (captions ? CAPTION : 0));
    return cj_plot_size(p, w < LEAST ? LEAST : (int)w, h > 4000 ? 4000 : (int)h);
}

/* ---- the learning curve --------------------------------------------------------------------------------------------------------------------------- */

/* Loss on a logarithmic axis and, for classes, the share of wrong answers beside it. */
const char *app_draw_curve(cj_ctx *c, const char *folder, cj_task task)
{
#ifdef CJ_HAVE_CAIRO
    enum { KEYS = 4, LINES = 20000 };
    static const char *const key[KEYS] = { "epoch", "loss", "val_loss", "val_accuracy" };
    static char path[4096];
    double *value = malloc((size_t)LINES * KEYS * sizeof *value), *column = malloc((size_t)LINES * KEYS * sizeof *column);
    int64_t n = value && column ? cj_run_metrics(c, folder, key, KEYS, value, LINES) : -1;
    bool ok = n > 0 && snprintf(path, sizeof path, "%s/curve.png", folder) < (int)sizeof path;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < KEYS; k++) column[k * LINES + i] = k == 3 ? 1 - value[i * KEYS + k] : value[i * KEYS + k];
    if (ok) {
        bool classes = task == CJ_TASK_CLASSIFY || task == CJ_TASK_NODES, held_out = isfinite(value[2]), wrong = held_out && classes;
        cj_plot *p = cj_plot_new(c, wrong ? "Loss, and share of wrong answers" : "Loss");
        cj_plot_labels(p, "epoch",
                       wrong                      ? "cross-entropy; share"
                       : classes                  ? "cross-entropy"
                       : task == CJ_TASK_REGRESS  ? "mean squared error"
                       : task == CJ_TASK_GENERATE ? "loss"
                                                  : "cross-entropy (nats per symbol)");
        cj_plot_log(p, false, classes || task == CJ_TASK_REGRESS);
        cj_plot_line(p, "training loss", column, column + LINES, n);
        if (held_out) cj_plot_line(p, "held-out loss", column, column + 2 * LINES, n);
        if (wrong) cj_plot_line(p, "held out: wrong answers", column, column + 3 * LINES, n);
        ok = cj_plot_save(p, path);
        cj_plot_free(p);
    }
    free(value);
    free(column);
    return ok ? path : NULL;
#else
    (void)c, (void)folder, (void)task;
    return NULL;
#endif
}
