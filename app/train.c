/* cajal train: trains a model, with a progress line, checkpoints that survive kill -9, metrics and pictures in the run folder. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/app.h"
#include "app/show.h"
#include "bench/bench.h"

static bool terminal(void) { return isatty(2) != 0; }

/* ---- progress ---------------------------------------------------------------------------------------------------------------------------- */

typedef struct progress {
    const app_job *job;
    bool quiet;
    bench_run limits; /* of the machine, for the share of its peak; threads 0: not asked */
    cj_metrics last;
    bool have_val;
} progress;

static void metric_text(const progress *p, char *out, size_t n)
{
    if (!p->have_val) snprintf(out, n, "%s", "");
    else if (p->job->task == CJ_TASK_CLASSIFY || p->job->task == CJ_TASK_NODES) snprintf(out, n, "  val %5.2f %%", 100 * p->last.accuracy);
    else snprintf(out, n, "  val %.4f", p->last.loss);
}

/* What is learned from, and how much of it a second: windows of a text are counted in tokens. */
static const char *rate_text(const app_job *j, double rate)
{
    static char out[64];
    bool text = j->task == CJ_TASK_NEXT_TOKEN;
    snprintf(out, sizeof out, "%s %s/s", app_count(text ? rate * (double)j->train.length : rate), text ? "tokens" : "samples");
    return out;
}

/* The line is written over itself, so that one line shows all; without a terminal there is nobody to look at it. */
static void print_progress(void *user, const cj_progress *r)
{
    progress *p = user;
    if (r->val) p->last = *r->val, p->have_val = true;
    if (p->quiet) return;
    if (r->resumed) {
        fprintf(stderr, "resumed after step %lld of %lld (%s)\n", (long long)r->step, (long long)r->steps, r->resumed);
        return;
    }
    if (!terminal() || !isfinite(r->loss)) return;
    char metric[64], share[32] = "";
    metric_text(p, metric, sizeof metric);
    double peak = p->limits.threads > 0 && r->flops > 0 ? bench_fma_peak(&p->limits) : NAN;
    if (isfinite(peak)) snprintf(share, sizeof share, "  %.0f %% of peak", 100 * r->flops / peak);
    char line[256];
    snprintf(line, sizeof line, "step %lld/%lld  epoch %.1f  loss %.4f%s  %s%s  %s  %s left", (long long)r->step, (long long)r->steps,
             r->epoch, r->loss, metric, rate_text(p->job, r->rate), share, app_bytes((double)r->peak_bytes),
             app_seconds(isfinite(r->left) ? r->left : 0));
    struct winsize w; /* a line that wraps cannot be written over */
    int columns = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 255;
    fprintf(stderr, "\r\033[K%.*s", columns, line);
    fflush(stderr);
}

/* ---- the run folder ---------------------------------------------------------------------------------------------------------------------- */

/* runs/MODEL-DATA, or the next free runs/MODEL-DATA-N. */
static void default_folder(const char *model, const char *data, char *out, size_t n)
{
    snprintf(out, n, "runs/%s-%s", model, data);
    struct stat st;
    for (int i = 2; stat(out, &st) == 0 && i < 100000; i++) snprintf(out, n, "runs/%s-%s-%d", model, data, i);
}

static bool has_config(const char *folder)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/config.json", folder) < (int)sizeof path && access(path, F_OK) == 0;
}

/* ---- the end ------------------------------------------------------------------------------------------------------------------------------ */

static void print_json(const app_job *j, const char *folder, const app_outcome *o)
{
    const cj_train_result *r = &o->train;
    app_json_open();
    app_json_text("model", j->model->name);
    app_json_text("data", j->data->name);
    app_json_text("run", folder);
    app_json_number("step", (double)r->step);
    app_json_number("loss", r->loss);
    if (r->val.n > 0) app_json_number("val_loss", r->val.loss);
    if (r->val.n > 0 && !isnan(r->val.accuracy)) app_json_number("val_accuracy", r->val.accuracy);
    if (r->val.n > 0) app_json_number("best", r->best);
    if (o->test.n > 0) app_json_number("test_loss", o->test.loss);
    if (o->test.n > 0 && !isnan(o->test.accuracy)) app_json_number("test_accuracy", o->test.accuracy);
    if (o->test.n > 0 && j->task == CJ_TASK_TRANSLATE) app_json_number("test_bleu", o->bleu);
    app_json_number("seconds", r->seconds);
    app_json_number("rate", r->rate);
    app_json_number("peak_bytes", (double)r->peak_bytes);
    app_json_close();
}

static void print_table(const app_job *j, const char *folder, const app_outcome *o, const char *pictures)
{
    const cj_train_result *r = &o->train;
    bool chosen = r->val.n > 0 && r->best_step < r->step;
    printf("\n");
    if (o->test.n > 0 && j->task == CJ_TASK_TRANSLATE) app_print_bleu(o->bleu);
    app_print_metrics(j, "test", &o->test);
    if (r->val.n > 0) app_print_metrics(j, "validation", &r->val);
    if (chosen)
        printf("  %-18s step %lld of %lld, whose parameters the test is made with\n", "best validation", (long long)r->best_step,
               (long long)r->step);
    if (r->stopped_early)
        printf("  %-18s after %lld evaluations without a better one\n", "stopped", (long long)cj_settings_get(j->settings, "patience"));
    printf("  %-18s %.4f\n", "training loss", r->loss);
    printf("  %-18s %s, %s\n", "time", app_seconds(r->seconds), rate_text(j, r->rate));
    printf("  %-18s %s at most\n", "memory", app_bytes((double)r->peak_bytes));
    if (!folder) return;
    printf("\n  %s/  config.json, metrics.jsonl, model.safetensors, checkpoints (MANIFEST.json)%s\n", folder, pictures);
    if (j->task == CJ_TASK_NEXT_TOKEN) printf("  next: cajal sample %s --prompt 'static '\n", folder);
    else printf("  next: cajal %s %s\n", j->task == CJ_TASK_GENERATE ? "sample" : "eval", folder);
}

/* The training examples, prepared ahead by a thread of their own; on a device rows that do not change are gathered where they lie. False after an error. */
static bool prepare_ahead(const app_job *j, int64_t batch, cj_examples *out)
{
    *out = j->train;
    if (j->model->fit) return true; /* asks for all rows once */
    bool host = strcmp(cj_ctx_device(j->ctx), "cpu") == 0;
    if (!host && j->train.channels == 0) return true;
    cj_loader *l = cj_loader_of(j->ctx, &j->train, .batch = batch);
    return l && cj_examples_of_loader(l, out);
}

/* model.safetensors: what the test is made with, for anybody; checkpoints are for going on. */
static bool save_model(const app_job *j, const char *folder)
{
    char path[4096];
    int n;
    return snprintf(path, sizeof path, "%s/model.safetensors", folder) < (int)sizeof path && app_save_parameters(j->ctx, j->net, path, &n);
}

/* Trains, then looks at the test examples once, with the parameters that the validation examples chose. */
static int train(app_job *j, const app_run *run, app_outcome *out)
{
    bool quiet = run->quiet || run->json;
    bool host = strcmp(cj_ctx_device(j->ctx), "cpu") == 0;
    progress p = { .job = j, .quiet = quiet, .limits = { .threads = host ? cj_ctx_threads(j->ctx) : 0, .quick = true } };
    cj_train_opts o = cj_settings_train_opts(j->settings);
    o.task = j->task;
    o.model = j->model;
    o.val = &j->val;
    o.folder = run->folder;
    o.eager = run->eager;
    o.resume = run->resume;
    o.tensorboard = run->tensorboard;
    o.take_best = true;
    o.progress = print_progress;
    o.user = &p;
    if (!quiet)
        fprintf(stderr, "%s on %s: %s parameters; %s %s to learn from; %s %s, %d threads\n", j->model->name, j->data->name,
                app_count((double)cj_params_numel(cj_module_params(j->net))), app_count((double)j->train.n),
                j->data->is_text ? "windows" : "examples", cj_ctx_device(j->ctx), cj_ctx_isa(j->ctx), cj_ctx_threads(j->ctx));
    app_cancel_on_signal(j->ctx);
    cj_examples ahead;
    if (!prepare_ahead(j, o.batch, &ahead)) return app_fail(j->ctx);
    out->train = (cj_train)(j->net, &ahead, &o);
    out->task = j->task;
    if (!quiet && terminal()) fprintf(stderr, "\n");
    if (!out->train.finished) {
        int status = app_fail(j->ctx);
        if (cj_error(j->ctx) == CJ_ECANCELLED && run->folder) fprintf(stderr, "go on with: cajal train --resume --out %s\n", run->folder);
        return status;
    }
    if (j->all_val > j->val.n) { /* the whole validation text, now that there is time */
        j->val.n = j->all_val;
        if (!cj_evaluate(j->net, &j->val, &out->train.val, .task = j->task, .model = j->model)) return app_fail(j->ctx);
    }
    if (j->test.n > 0 && !run->no_test && !cj_evaluate(j->net, &j->test, &out->test, .task = j->task, .model = j->model))
        return app_fail(j->ctx);
    if (out->test.n > 0 && j->task == CJ_TASK_TRANSLATE) out->bleu = app_bleu(j);
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    if (run->folder && !save_model(j, run->folder)) return app_fail(j->ctx);
    char pictures[256] = "";
    if (run->folder && app_draw_curve(j->ctx, run->folder, j->task)) snprintf(pictures, sizeof pictures, ", curve.png");
    if (run->folder && !run->silent && !app_draw_pictures(j, run->folder, pictures, sizeof pictures)) return app_fail(j->ctx);
    if (run->silent) return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
    if (run->json) {
        print_json(j, run->folder, out);
    } else {
        if (j->data->height && j->task == CJ_TASK_CLASSIFY && !quiet) app_show_images(j, 4);
        print_table(j, run->folder, out, pictures);
    }
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

int app_run_once(const app_run *run, app_outcome *out)
{
    *out = (app_outcome){ 0 };
    bool configured = run->resume && has_config(run->folder);
    app_job_opts how = run->job;
    how.folder = configured || !how.model ? run->folder : NULL;
    app_job j;
    int status = app_job_open(&j, &how);
    bool keep = run->folder && !configured;
    if (status == APP_OK && keep && !(cj_settings_save(j.settings, run->folder) && app_job_keep(&j, run->folder))) status = app_fail(j.ctx);
    if (status == APP_OK) status = train(&j, run, out);
    app_job_close(&j);
    return status;
}

int app_train(int argc, char **argv)
{
    const char *data = NULL, *device = NULL, *threads = NULL, *epochs = NULL, *steps = NULL, *out = NULL;
    app_search_opts search = { 0 };
    bool resume = false, fresh = false, eager = false, tensorboard = false, diagnose = false, json = false, quiet = false, nothing = false;
    const app_option options[] = {
        { "--data", "NAME", "data set ('cajal data' lists them); digits, or for texts sources", &data, NULL },
        { "--epochs", "N", "passes over the training examples", &epochs, NULL },
        { "--steps", "N", "or training steps", &steps, NULL },
        { "--out", "RUN", "run folder; runs/MODEL-DATA by default", &out, NULL },
        { "--resume", NULL, "go on with the run in --out, to the bit", NULL, &resume },
        { "--fresh", NULL, "delete the run in --out and start over", NULL, &fresh },
        { "--seeds", "N", "train with N seeds; mean and spread of the results", &search.seeds, NULL },
        { "--folds", "K", "K-fold cross-validation over the training rows", &search.folds, NULL },
        { "--random", "N", "of a search: N random points instead of the whole grid", &search.random, NULL },
        { "--diagnose", NULL, "do not train: look at what tends to go wrong, and find the learning rate", NULL, &diagnose },
        { "--no-save", NULL, "write no files", NULL, &nothing },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { "--tensorboard", NULL, "event files for TensorBoard in the run folder", NULL, &tensorboard },
        { "--eager", NULL, "operators one by one instead of a captured plan", NULL, &eager },
        { "--json", NULL, "print one JSON object at the end", NULL, &json },
        { "--quiet", NULL, "no progress", NULL, &quiet },
        { 0 },
    };
    const app_usage usage = {
        .verb = "train",
        .line = "MODEL [--data NAME] [--epochs N | --steps N] [--out RUN] [--resume] [key=value ...]",
        .most = 1,
        .settings = true,
        .text = "Trains a model. Settings of the model and of the training are written key=value;\n"
                "'cajal models --describe MODEL' lists them with their defaults. Ctrl-C stops and saves.\n"
                "Several values of a setting make a search: lr=1e-3,1e-2  lr=log:1e-4:1e-1:5  hidden=lin:32:256:8\n"
                "(a grid over all such settings); each is judged by the validation rows, the test is not looked at.\n"
                "The run folder gets config.json, metrics.jsonl, model.safetensors (the best parameters), checkpoints and\n"
                "pictures: curve.png and, where it "
                "makes sense, confusion.png, examples.png, filters.png, attention.png, samples.png, each with its numbers in a .tsv.",
        .examples = "  cajal train mlp --data digits\n  cajal train mlp --data wine hidden=32 lr=1e-2 --epochs 30 --out runs/wine\n"
                    "  cajal train gpt --data sources --steps 200\n  cajal train --resume --out runs/wine\n"
                    "  cajal train mlp lr=log:1e-4:1e-1:5 --epochs 5\n  cajal train mlp --data wine --folds 5\n",
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (args.words == 0 && !(resume && out)) return app_error("which model? cajal train MODEL; 'cajal models' lists them");
    if (resume && !out) return app_error("--resume needs the run folder: --out RUN");
    if (resume && fresh) return app_error("--resume and --fresh exclude each other");
    if (nothing && (resume || out)) return app_error("--no-save excludes --out and --resume");
    if (epochs && steps) return app_error("--epochs and --steps exclude each other");
#ifndef CJ_HAVE_CJSON
    if (out || resume) return app_error("run folders need cJSON, which this build has not (Debian: libcjson-dev)");
    nothing = true;
#endif

    const cj_model *model = args.words ? app_model(args.word[0]) : NULL;
    if (args.words && !model) return APP_USAGE;
    char folder[4096] = "";
    if (out) snprintf(folder, sizeof folder, "%s", out);
    else if (!nothing) default_folder(model->name, data ? data : model->data, folder, sizeof folder);
    if (fresh) {
        char old[4200];
        snprintf(old, sizeof old, "%s/model.safetensors", folder);
        (void)unlink(old);
        cj_run_clear(folder);
    }
    if (!nothing && !resume && (cj_run_exists(folder) || has_config(folder)))
        return app_error("%s has a run already: --resume goes on with it, --fresh deletes it, --out chooses another folder", folder);

    app_run run = { .job = { .model = model ? model->name : NULL,
                             .data = data,
                             .device = device,
                             .threads = threads,
                             .epochs = epochs,
                             .steps = steps,
                             .setting = args.setting,
                             .settings = args.settings },
                    .folder = nothing ? NULL : folder,
                    .resume = resume,
                    .eager = eager,
                    .tensorboard = tensorboard,
                    .json = json,
                    .quiet = quiet };
    app_outcome outcome;
    if (diagnose) return app_diagnose(&run);
    return app_is_search(&run, &search) ? app_search(&run, &search) : app_run_once(&run, &outcome);
}
