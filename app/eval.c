/* cajal eval and cajal predict: a trained run on the held-out data, and on new examples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/app.h"

enum { LONGEST_TRANSLATION = 60 }; /* words */
static double translate_all(app_job *j);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void app_print_metrics(const app_job *j, const char *of, const cj_metrics *m)
{
    char label[64];
    if (m->n == 0) return;
    snprintf(label, sizeof label, "%s accuracy", of);
    if (j->task == CJ_TASK_CLASSIFY || j->task == CJ_TASK_NODES)
        printf("  %-18s %.2f %% of %s examples\n", label, 100 * m->accuracy, app_count((double)m->n));
    snprintf(label, sizeof label, "%s text", of);
    if (j->task == CJ_TASK_NEXT_TOKEN)
        printf("  %-18s %.3f bits per symbol, %.1f %% of %s symbols right\n", label, m->loss / log(2), 100 * m->accuracy,
               app_count((double)m->n));
    snprintf(label, sizeof label, "%s loss", of);
    printf("  %-18s %.4f\n", label, m->loss);
}

static int evaluate(app_job *j, const char *folder, int64_t step, bool json)
{
    double start = now();
    cj_metrics m = { 0 };
    if (!cj_evaluate(j->net, &j->test, &m, .task = j->task, .model = j->model)) return app_fail(j->ctx);
    double bleu = j->task == CJ_TASK_TRANSLATE ? translate_all(j) : NAN;
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    double seconds = now() - start, rate = seconds > 0 ? (double)m.n / seconds : 0;
    if (json) {
        app_json_open();
        app_json_text("run", folder);
        app_json_number("step", (double)step);
        app_json_number("test_loss", m.loss);
        if (!isnan(m.accuracy)) app_json_number("test_accuracy", m.accuracy);
        if (j->task == CJ_TASK_TRANSLATE) app_json_number("test_bleu", bleu);
        app_json_number("n", (double)m.n);
        app_json_number("seconds", seconds);
        app_json_number("rate", rate);
        app_json_number("peak_bytes", (double)cj_memory_stats(j->ctx).peak);
        app_json_close();
        return APP_OK;
    }
    printf("%s: %s on %s, after step %lld\n", folder, j->model->name, j->data->name, (long long)step);
    if (j->task == CJ_TASK_TRANSLATE) printf("  %-18s %.2f (sacreBLEU's 13a on detokenised text, greedy decoding)\n", "test BLEU", bleu);
    app_print_metrics(j, "test", &m);
    printf("  %-18s %s, %s/s\n", "time", app_seconds(seconds), app_count(rate));
    return APP_OK;
}

/* BLEU of the held-out translations; NaN after an error. */
static double translate_all(app_job *j)
{
    enum { BATCH = 100, ROOM = 2048 };
    const cj_lines *references = j->data->target[2];
    int64_t n = j->test.n;
    cj_ctx *c = j->ctx;
    char *text = calloc((size_t)n, ROOM);
    const char **line = calloc((size_t)n, sizeof *line);
    int64_t *words = calloc(BATCH, 2 * LONGEST_TRANSLATION * sizeof *words);
    bool ok = text && line && words;
    cj_module_train(j->net, false);
    bool grad = cj_no_grad(c);
    for (int64_t at = 0; at < n && ok; at += BATCH) {
        cj_scope s = cj_scope_open(c);
        int64_t end = at + BATCH < n ? at + BATCH : n;
        cj_tensor *x, *y, *index = cj_arange(c, (double)at, (double)end, 1, CJ_I64);
        ok = j->test.batch(c, &j->test, 0, index, &x, &y);
        cj_tensor *w = ok ? j->model->decode(j->net, x, LONGEST_TRANSLATION) : NULL;
        ok = ok && cj_to_i64(w, words, cj_numel(w));
        for (int64_t i = at; i < end && ok; i++) {
            line[i] = text + i * ROOM;
            cj_words_text(j->target, words + (i - at) * cj_size(w, 1), cj_size(w, 1), text + i * ROOM, ROOM);
        }
        cj_scope_close(s);
    }
    cj_grad_mode(c, grad);
    double bleu = ok ? cj_bleu(c, line, references->line, n).bleu : NAN;
    free(text);
    free(line);
    free(words);
    return bleu;
}

int app_eval(int argc, char **argv)
{
    const char *device = NULL, *threads = NULL;
    bool last = false, json = false;
    const app_option options[] = {
        { "--last", NULL, "the last parameters instead of those of the best validation", NULL, &last },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { "--json", NULL, "print one JSON object", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "eval",
                              .line = "RUN [--last] [--json]",
                              .least = 1,
                              .most = 1,
                              .examples = "  cajal eval runs/demo\n",
                              .text = "Evaluates a run on the test data, which it has neither learned from nor been chosen by." };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], device, threads, !last, &step);
    if (status == APP_OK) status = evaluate(&j, args.word[0], step, json);
    app_job_close(&j);
    return status;
}

static int predict(app_job *j, const char *file, bool json)
{
    cj_ctx *c = j->ctx;
    if (j->data->is_text) return app_error("%s continues texts: use cajal sample", j->model->name);
    if (j->task == CJ_TASK_GENERATE) return app_error("%s makes new examples: use cajal sample", j->model->name);
    cj_tensor *x = cj_npy_load(c, file);
    if (!cj_ok(c)) return app_fail(c);
    if (cj_ndim(x) == 1) x = cj_unsqueeze(x, 0);
    if (cj_ndim(x) != 2 || cj_size(x, 1) != j->data->features) {
        char shape[128];
        cj_format_shape(x, shape, sizeof shape);
        return app_error("%s: rows of %lld numbers were expected, %s was found", file, (long long)j->data->features, shape);
    }
    cj_module_train(j->net, false);
    cj_no_grad(c);
    cj_tensor *y = cj_forward(j->net, cj_cast(x, CJ_F32));
    cj_tensor *p = j->task == CJ_TASK_CLASSIFY ? cj_softmax(y, -1) : y;
    for (int64_t i = 0; i < cj_size(x, 0) && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *row = cj_select(p, 0, i);
        int64_t best = j->task == CJ_TASK_CLASSIFY ? (int64_t)cj_item(cj_argmax(row)) : 0;
        double value = cj_item(cj_select(row, 0, best));
        if (j->task != CJ_TASK_CLASSIFY) value = value * j->data->y_std + j->data->y_mean;
        const char *name = j->task == CJ_TASK_CLASSIFY ? j->data->class_names[best] : NULL;
        if (json) {
            app_json_open();
            app_json_number("row", (double)i);
            if (name) app_json_text("class", name);
            app_json_number(name ? "probability" : "value", value);
            app_json_close();
        } else if (name) {
            printf("%lld\t%s\t%.4f\n", (long long)i, name, value);
        } else {
            printf("%lld\t%g\n", (long long)i, value);
        }
        cj_scope_close(s);
    }
    return cj_ok(c) ? APP_OK : app_fail(c);
}

int app_predict(int argc, char **argv)
{
    bool json = false;
    const app_option options[] = {
        { "--json", NULL, "one object per row: row, class, probability", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "predict",
                              .line = "RUN FILE.npy [--json]",
                              .least = 2,
                              .most = 2,
                              .examples = "  cajal predict runs/demo digits.npy\n",
                              .text = "Applies a run to new examples: a NumPy file of rows, scaled as the training data was (digits: 0 to "
                                      "1). Prints row, class, probability." };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], NULL, NULL, true, &step);
    if (status == APP_OK) status = predict(&j, args.word[1], json);
    app_job_close(&j);
    return status;
}
