/* cajal sample: text from a trained language model, one symbol at a time, by one captured plan for all of them; images or points from a generative one.
 *
 *     p = softmax(logits / temperature),   next = argmax_i p_i / e_i  with e_i exponential: a draw from p (the exponential form of Gumbel's trick)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/show.h"

static cj_tensor *choose(cj_ctx *c, cj_tensor *logits, double temperature)
{
    if (temperature == 0) return cj_argmax(logits);
    cj_tensor *p = cj_softmax(cj_mul_scalar(logits, 1 / temperature), -1);
    return cj_argmax(cj_div(p, cj_exponential(c, 1, cj_shape_of(p), .stream = CJ_STREAM_SAMPLING)));
}

/* A text that is being written. */
typedef struct writer {
    app_job *job;
    double temperature;
    cj_plan *plan;
    int64_t read, room; /* symbols that the model has read since it began, and can read */
} writer;

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const writer *w = user;
    out[0] = choose(c, w->job->model->next(w->job->net, in[0]), w->temperature);
}

/* The model reads a symbol; what it chooses to follow, -1 after an error. */
static int64_t read_symbol(writer *w, int64_t symbol)
{
    cj_ctx *c = w->job->ctx;
    cj_scope s = cj_scope_open(c);
    cj_tensor *in = cj_from_i64(c, &symbol, CJ_SHAPE(1)), *out[CJ_MAX_PLAN_OUTPUTS] = { NULL };
    if (w->plan) cj_replay(w->plan, &in, out);
    else w->plan = cj_capture(c, step, w, &in, 1, out);
    double next = cj_ok(c) ? cj_item(out[0]) : -1;
    cj_scope_close(s);
    w->read++;
    return cj_ok(c) ? (int64_t)next : -1;
}

/* What follows text[n]. A model whose room is used up begins again with the last half of what it saw. */
static int64_t next_symbol(writer *w, const int64_t *text, int64_t n)
{
    int64_t from = n - 1, next = -1;
    if (!w->job->model->begin) return -1; /* app_sample has seen to it */
    if (w->read == 0 || w->read == w->room) {
        bool first = w->read == 0;
        w->room = w->job->model->begin(w->job->net, 1);
        w->read = 0;
        if (w->room == 0) return -1;
        int64_t most = first ? w->room : (w->room + 1) / 2;
        from = n > most ? n - most : 0;
    }
    for (int64_t i = from; i < n && cj_ok(w->job->ctx); i++) next = read_symbol(w, text[i]);
    return cj_ok(w->job->ctx) ? next : -1;
}

static int sample_text(writer *w, const char *prompt, int64_t length)
{
    app_job *j = w->job;
    int64_t n = (int64_t)strlen(prompt);
    int64_t *text = malloc((size_t)(n + length + 1) * sizeof *text);
    if (!text) return app_fail(NULL);
    for (int64_t i = 0; i < n; i++) {
        text[i] = j->data->number[(unsigned char)prompt[i]];
        if (text[i] < 0) {
            free(text);
            return app_error("--prompt: the symbol '%c' does not occur in %s", prompt[i], j->data->name);
        }
    }
    if (n == 0) text[n++] = j->data->number['\n'] >= 0 ? j->data->number['\n'] : 0;
    else fputs(prompt, stdout);
    w->read = 0;
    for (int64_t i = 0; i < length && cj_ok(j->ctx); i++, n++) {
        text[n] = next_symbol(w, text, n);
        if (text[n] < 0) break;
        putchar(j->data->symbol[text[n] & 255]);
        fflush(stdout);
    }
    putchar('\n');
    free(text);
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

/* ---- images and points ------------------------------------------------------------------------------------------------------------------------ */

/* The first two columns of rows[n, features] as points. */
static bool add_points(cj_plot *p, const char *label, const double *rows, int64_t n, int64_t features)
{
    double *xy = malloc((size_t)(2 * n) * sizeof *xy);
    if (!xy) return false;
    for (int64_t i = 0; i < n; i++) {
        xy[i] = rows[i * features];
        xy[n + i] = features > 1 ? rows[i * features + 1] : 0;
    }
    bool ok = cj_plot_points(p, label, xy, xy + n, n);
    free(xy);
    return ok;
}

/* A sheet of images, or the rows as points over those that were learned from. */
static bool draw_rows(app_job *j, const double *rows, int64_t n, const char *path)
{
    const cj_dataset *d = j->data;
    char title[128];
    snprintf(title, sizeof title, "%s %s by %s, which learned from %s", app_count((double)n), d->height ? "images" : "points",
             j->model->name, d->name);
    cj_plot *p = cj_plot_new(j->ctx, title);
    bool ok = p != NULL;
    if (d->height) {
        int64_t channels = d->features / (d->height * d->width), show = n < 400 ? n : 400;
        ok = ok && app_fit_sheet(p, show, d->height, d->width, false) &&
             cj_plot_images(p, rows, show, channels == 3 ? 3 : 1, d->height, d->width);
    } else {
        int64_t m = cj_size(d->train_x, 0);
        double *data = malloc((size_t)(m * d->features) * sizeof *data);
        ok = ok && data && cj_to_f64(d->train_x, data, m * d->features) && cj_plot_size(p, 800, 800) &&
             add_points(p, d->name, data, m, d->features) && add_points(p, j->model->name, rows, n, d->features);
        free(data);
    }
    ok = ok && cj_plot_save(p, path);
    cj_plot_free(p);
    return ok;
}

static int64_t usual_samples(const app_job *j) { return j->data->height ? 64 : 1000; }

/* samples.npy and samples.png in the run's folder; false after an error. Without cairo picture becomes "". */
static bool write_rows(app_job *j, int64_t n, const char *array, char *picture)
{
    cj_scope s = cj_scope_open(j->ctx);
    cj_tensor *x = j->model->sample(j->net, n);
    double *rows = malloc((size_t)(n * j->data->features) * sizeof *rows);
    bool ok = rows && cj_to_f64(x, rows, n * j->data->features) && cj_npy_save(x, array);
#ifdef CJ_HAVE_CAIRO
    ok = ok && draw_rows(j, rows, n, picture);
#else
    (void)draw_rows, picture[0] = 0;
#endif
    free(rows);
    cj_scope_close(s);
    return ok;
}

bool app_draw_samples(app_job *j, const char *folder)
{
    char array[4096], picture[4096];
    if (snprintf(array, sizeof array, "%s/samples.npy", folder) >= (int)sizeof array) return false;
    snprintf(picture, sizeof picture, "%s/samples.png", folder);
    bool grad = cj_no_grad(j->ctx);
    cj_module_train(j->net, false);
    bool ok = write_rows(j, usual_samples(j), array, picture);
    cj_grad_mode(j->ctx, grad);
    return ok;
}

static int sample_rows(app_job *j, const char *folder, int64_t n)
{
    char array[4096], picture[4096];
    if (snprintf(array, sizeof array, "%s/samples.npy", folder) >= (int)sizeof array) return app_error("%s: the path is too long", folder);
    snprintf(picture, sizeof picture, "%s/samples.png", folder);
    if (!write_rows(j, n, array, picture)) return app_fail(j->ctx);
    printf("%s: %s rows of %lld numbers\n", array, app_count((double)n), (long long)j->data->features);
    if (picture[0]) printf("%s: %s\n", picture, j->data->height ? "the same as images" : "the same as points, beside the data");
    return APP_OK;
}

int app_sample(int argc, char **argv)
{
    const char *prompt = "", *count = NULL, *length = "300", *temperature = "0.8", *seed = "1", *device = NULL, *threads = NULL;
    bool last = false;
    const app_option options[] = {
        { "--prompt", "TEXT", "how the text begins", &prompt, NULL },
        { "--n", "N", "how many samples; 1 text, 64 images or 1000 points by default", &count, NULL },
        { "--length", "N", "symbols of each; 300 by default", &length, NULL },
        { "--temperature", "T", "0 always takes the likeliest symbol; 0.8 by default", &temperature, NULL },
        { "--seed", "N", "of the draws; 1 by default", &seed, NULL },
        { "--last", NULL, "the last parameters instead of those of the best validation", NULL, &last },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { 0 },
    };
    const app_usage usage = {
        .verb = "sample",
        .line = "RUN [--prompt TEXT] [--n N] [--length N] [--temperature T]",
        .least = 1,
        .most = 1,
        .text = "Writes text with a trained language model. A generative model writes samples.npy and samples.png into its run\n"
                "folder: a sheet of images, or points beside the data.",
        .examples = "  cajal sample runs/gpt-sources --prompt 'static '\n  cajal sample runs/vae-digits --n 100\n"
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    long long n = 0, symbols, number;
    if ((count && app_number("--n", count, 1, &n)) || app_number("--length", length, 1, &symbols) || app_number("--seed", seed, 0, &number))
        return APP_USAGE;
    char *end;
    double t = strtod(temperature, &end);
    if (end == temperature || *end || !(t >= 0) || !isfinite(t))
        return app_error("--temperature: a number of at least 0 was expected, '%s' was found", temperature);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], device, threads, !last, &step);
    bool rows = status == APP_OK && j.model->sample;
    if (status == APP_OK && !rows && !(j.model->begin && j.model->next))
        status = app_error("%s does not write texts; cajal predict applies it", j.model->name);
    writer w = { .job = &j, .temperature = t };
    if (status == APP_OK) {
        app_cancel_on_signal(j.ctx);
        cj_seed(j.ctx, (uint64_t)number);
        cj_module_train(j.net, false);
        cj_no_grad(j.ctx);
    }
    if (!count && status == APP_OK) n = rows ? usual_samples(&j) : 1;
    if (rows && status == APP_OK) status = sample_rows(&j, args.word[0], n);
    for (long long i = 0; i < n && status == APP_OK && !rows; i++) {
        if (n > 1) printf("--- %lld\n", i + 1);
        status = sample_text(&w, prompt, symbols);
    }
    if (w.plan) cj_plan_free(w.plan);
    app_job_close(&j);
    return status;
}
