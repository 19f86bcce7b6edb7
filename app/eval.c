/* cajal eval: a trained run on the test data; of classes what is taken for what, of translations BLEU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/answers.h"

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

void app_print_bleu(double bleu) { printf("  %-18s %.2f (sacreBLEU's 13a on detokenised text, greedy decoding)\n", "test BLEU", bleu); }

double app_bleu(app_job *j)
{
    enum { BATCH = 100 };
    const cj_lines *references = j->data->target[2];
    int64_t n = j->test.n;
    cj_ctx *c = j->ctx;
    char *text = calloc((size_t)n, APP_SENTENCE);
    const char **line = calloc((size_t)n, sizeof *line);
    bool ok = text && line;
    for (int64_t at = 0; at < n && ok; at += BATCH) {
        cj_scope s = cj_scope_open(c);
        int64_t end = at + BATCH < n ? at + BATCH : n;
        cj_tensor *x, *y, *index = cj_arange(c, (double)at, (double)end, 1, CJ_I64);
        ok = j->test.batch(c, &j->test, 0, index, &x, &y) && app_translate(j, x, text + at * APP_SENTENCE);
        for (int64_t i = at; i < end; i++) line[i] = text + i * APP_SENTENCE;
        cj_scope_close(s);
    }
    double bleu = ok ? cj_bleu(c, line, references->line, n).bleu : NAN;
    free(text);
    free(line);
    return bleu;
}

/* ---- classes ------------------------------------------------------------------------------------------------------------------------------ */

static void print_classes_json(const app_job *j, const app_answers *a)
{
    for (int64_t k = 0; k < a->classes; k++) {
        app_json_open();
        app_json_text("class", app_class_name(j, k));
        app_json_number("precision", a->scores[k].precision);
        app_json_number("recall", a->scores[k].recall);
        app_json_number("f1", a->scores[k].f1);
        app_json_number("n", (double)a->scores[k].support);
        app_json_numbers("said", a->counts + k * a->classes, a->classes);
        app_json_close();
    }
}

static void print_scores(const char *name, const cj_class_scores *s)
{
    printf("  %-18s %9.2f %% %9.2f %% %9.2f %% %8s\n", name, 100 * s->precision, 100 * s->recall, 100 * s->f1,
           app_count((double)s->support));
}

static void print_classes(const app_job *j, const app_answers *a)
{
    enum { FEW = 12, MANY = 100 };
    if (a->classes > MANY) return;
    printf("\n  %-18s %11s %11s %11s %8s\n", "class", "precision", "recall", "F1", "examples");
    for (int64_t k = 0; k < a->classes; k++) print_scores(app_class_name(j, k), &a->scores[k]);
    print_scores("mean of classes", &a->macro);
    if (a->classes > FEW) return;
    printf("\n  %-18s what it is said to be\n  %-18s", "what it is", "");
    for (int64_t k = 0; k < a->classes; k++) printf(" %6.6s", app_class_name(j, k));
    for (int64_t i = 0; i < a->classes; i++) {
        printf("\n  %-18s", app_class_name(j, i));
        for (int64_t k = 0; k < a->classes; k++) printf(" %6.0f", a->counts[i * a->classes + k]);
    }
    printf("\n");
}

static int evaluate(app_job *j, const char *folder, int64_t step, bool json)
{
    double start = now();
    cj_metrics m = { 0 };
    if (!cj_evaluate(j->net, &j->test, &m, .task = j->task, .model = j->model)) return app_fail(j->ctx);
    double bleu = j->task == CJ_TASK_TRANSLATE ? app_bleu(j) : NAN;
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    double seconds = now() - start, rate = seconds > 0 ? (double)m.n / seconds : 0;
    app_answers a = { 0 };
    bool classes = app_answer(j, 0, &a);
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    if (json) {
        if (classes) print_classes_json(j, &a);
        app_json_open();
        app_json_text("run", folder);
        app_json_number("step", (double)step);
        app_json_number("test_loss", m.loss);
        if (!isnan(m.accuracy)) app_json_number("test_accuracy", m.accuracy);
        if (j->task == CJ_TASK_TRANSLATE) app_json_number("test_bleu", bleu);
        if (classes) app_json_number("test_f1", a.macro.f1);
        app_json_number("n", (double)m.n);
        app_json_number("seconds", seconds);
        app_json_number("rate", rate);
        app_json_number("peak_bytes", (double)cj_memory_stats(j->ctx).peak);
        app_json_close();
        app_answers_free(&a);
        return APP_OK;
    }
    printf("%s: %s on %s, after step %lld\n", folder, j->model->name, j->data->name, (long long)step);
    if (j->task == CJ_TASK_TRANSLATE) app_print_bleu(bleu);
    app_print_metrics(j, "test", &m);
    printf("  %-18s %s, %s/s\n", "time", app_seconds(seconds), app_count(rate));
    if (classes) print_classes(j, &a);
    app_answers_free(&a);
    return APP_OK;
}

int app_eval(int argc, char **argv)
{
    const char *device = NULL, *threads = NULL;
    bool last = false, json = false;
    const app_option options[] = {
        { "--last", NULL, "the last parameters instead of those of the best validation", NULL, &last },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { "--json", NULL, "JSON: an object for each class, and at last one with the metrics", NULL, &json },
        { 0 },
    };
    const app_usage usage = {
        .verb = "eval",
        .line = "RUN [--last] [--json]",
        .least = 1,
        .most = 1,
        .examples = "  cajal eval runs/demo\n",
        .text = "Evaluates a run on the test data, which it has neither learned from nor been chosen by. Of classes it prints\n"
                "precision, recall and F1 of each, and the confusion matrix."
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], device, threads, !last, &step);
    if (status == APP_OK && j.test.n == 0 && j.data == &j.kept)
        status =
            app_error("%s can be judged on %s only, and its files are gone: cajal data get %s", args.word[0], j.data->name, j.data->name);
    if (status == APP_OK) status = evaluate(&j, args.word[0], step, json);
    app_job_close(&j);
    return status;
}
