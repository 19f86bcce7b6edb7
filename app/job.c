/* The job that most verbs begin with: a context, a model's settings, its data, the model. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/app.h"

/* ---- stopping ------------------------------------------------------------------------------------------------------------------------------ */

static cj_ctx *volatile running;

static void on_signal(int number)
{
    signal(number, SIG_DFL); /* the second one ends the program; a checkpoint survives that */
    cj_cancel(running);      /* NOLINT(bugprone-signal-handler,cert-sig30-c): made for it */
}

void app_cancel_on_signal(cj_ctx *c)
{
    running = c;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}

static void print_log(void *user, cj_log_level level, const char *message)
{
    (void)user;
    if (level >= CJ_LOG_WARNING) fprintf(stderr, "cajal: warning: %s\n", message);
}

/* ---- model and data ------------------------------------------------------------------------------------------------------------------------ */

const cj_model *app_model(const char *name)
{
    const char *names[64];
    int n = 0;
    for (; n < 64 && cj_models[n]; n++) {
        if (strcmp(cj_models[n]->name, name) == 0) return cj_models[n];
        names[n] = cj_models[n]->name;
    }
    const char *nearest = app_nearest(name, names, n);
    if (nearest) app_error("there is no model '%s'; did you mean '%s'?", name, nearest);
    else app_error("there is no model '%s'; 'cajal models' lists them", name);
    return NULL;
}

/* A text's alphabet belongs to the run: the numbers of symbols mean nothing without it. */
static void note_alphabet(app_job *j)
{
    char hex[513] = "";
    for (int i = 0; i < j->data->classes && i < 256; i++) snprintf(hex + 2 * i, 3, "%02x", j->data->symbol[i]);
    cj_settings_note(j->settings, "alphabet", hex);
}

/* While training, a held-out text is judged by its first windows: the rest would take longer than the training between two looks. */
enum { WINDOWS = 128 };

/* Rows from … to of the training rows, with all others or without. */
static void rows_between(app_job *j, int64_t from, int64_t to, cj_examples *inside, cj_examples *outside)
{
    cj_scope s = cj_scope_open(j->ctx);
    cj_tensor *part[2][2], *all[2] = { j->data->train_x, j->data->train_y };
    for (int k = 0; k < 2; k++) {
        int64_t n = cj_size(all[k], 0);
        cj_tensor *before = cj_slice(all[k], 0, 0, from, 1), *after = cj_slice(all[k], 0, to, n, 1);
        part[0][k] = cj_keep(cj_slice(all[k], 0, from, to, 1));
        part[1][k] = cj_keep(from == 0 ? after : to == n ? before : cj_cat((cj_tensor *[]){ before, after }, 2, 0));
    }
    cj_examples_of_rows(part[0][0], part[0][1], inside);
    cj_examples_of_rows(part[1][0], part[1][1], outside);
    cj_scope_close(s);
}

/* Rows to learn from, to choose by, to judge by. The split has shuffled them. */
static void split_rows(app_job *j, const app_job_opts *o)
{
    int64_t n = cj_size(j->data->train_x, 0);
    cj_examples_of_rows(j->data->test_x, j->data->test_y, &j->test);
    int64_t from = n - (int64_t)((double)n * cj_settings_get(j->settings, "validation")), to = n;
    if (o->folds > 0) cj_fold(n, o->fold, o->folds, &from, &to);
    rows_between(j, from, to, &j->val, &j->train);
}

static int open_data(app_job *j, const app_job_opts *o, const char *name)
{
    j->data = cj_dataset_open(j->ctx, name);
    if (!j->data) return app_fail(j->ctx);
    bool text = j->model->task == CJ_TASK_NEXT_TOKEN;
    if (text != j->data->is_text)
        return app_error("%s learns from %s, and %s is %s; 'cajal data' lists what there is", j->model->name,
                         text ? "a text" : "rows of numbers", name, text ? "a table" : "a text");
    j->task = j->model->task == CJ_TASK_CLASSIFY && j->data->classes == 0 ? CJ_TASK_REGRESS : j->model->task;
    if (!text) {
        split_rows(j, o);
    } else {
        int64_t context = (int64_t)cj_settings_get(j->settings, "context");
        cj_examples_of_text(j->data->train_x, context, &j->train);
        cj_examples_of_text(j->data->test_x, context, &j->test);
        j->val = j->test; /* a text is held out once; training looks at its beginning, the end at all of it */
        if (j->val.n > WINDOWS) j->val.n = WINDOWS;
        note_alphabet(j);
    }
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

static int apply_settings(app_job *j, const app_job_opts *o)
{
    if (o->epochs) cj_settings_set(j->settings, "epochs", o->epochs);
    if (o->steps) cj_settings_set(j->settings, "steps", o->steps);
    for (int i = 0; i < o->settings && cj_ok(j->ctx); i++) cj_settings_parse(j->settings, o->setting[i]);
    if (cj_ok(j->ctx)) return APP_OK;
    app_fail(j->ctx);
    return APP_USAGE;
}

int app_job_open(app_job *j, const app_job_opts *o)
{
    *j = (app_job){ 0 };
    char model[64], data[64];
    long long threads = 0;
    if (o->threads && app_number("--threads", o->threads, 1, &threads)) return APP_USAGE;
    j->ctx = cj_ctx_new(&(cj_ctx_opts){ .device = o->device, .threads = (int)threads, .log = print_log });
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    snprintf(model, sizeof model, "%s", o->model ? o->model : "");
    if (!o->model && !(o->folder && cj_run_fact(j->ctx, o->folder, "model", model, sizeof model)))
        return cj_ok(j->ctx) ? app_error("%s is no run: it has no config.json", o->folder ? o->folder : "this") : app_fail(j->ctx);
    j->model = app_model(model);
    if (!j->model) return APP_USAGE;
    snprintf(data, sizeof data, "%s", o->data ? o->data : j->model->data);
    if (!o->data && o->folder) cj_run_fact(j->ctx, o->folder, "data", data, sizeof data);

    j->settings = cj_settings_new(j->ctx, j->model);
    cj_settings_note(j->settings, "model", model);
    cj_settings_note(j->settings, "data", data);
    int status = apply_settings(j, o);
    if (status) return status;
    if (o->folder && !cj_settings_load(j->settings, o->folder)) return app_fail(j->ctx);
    cj_seed(j->ctx, (uint64_t)cj_settings_get(j->settings, "seed"));
    status = open_data(j, o, data);
    if (status) return status;
    j->net = app_build(j);
    return cj_ok(j->ctx) && j->net ? APP_OK : app_fail(j->ctx);
}

cj_module *app_build(app_job *j)
{
    cj_seed(j->ctx, (uint64_t)cj_settings_get(j->settings, "seed"));
    cj_model_data d = { .outputs = j->task == CJ_TASK_REGRESS ? 1 : j->data->classes, .height = j->data->height, .width = j->data->width };
    d.inputs = j->data->is_text ? d.outputs : j->data->features;
    d.channels = d.height ? d.inputs / (d.height * d.width) : 0;
    cj_options options = cj_settings_options(j->settings);
    return j->model->build(j->ctx, &d, &options);
}

void app_job_close(app_job *j)
{
    running = NULL;
    cj_ctx_free(j->ctx);
    j->ctx = NULL;
}

int app_job_load(app_job *j, const char *folder, const char *device, const char *threads, bool best, int64_t *step)
{
    int status = app_job_open(j, &(app_job_opts){ .folder = folder, .device = device, .threads = threads });
    if (status) return status;
    char alphabet[640];
    if (j->data->is_text && cj_run_fact(j->ctx, folder, "alphabet", alphabet, sizeof alphabet) &&
        strcmp(alphabet, cj_settings_text(j->settings, "alphabet")) != 0)
        return app_error("the text %s has other symbols now than when %s was trained", j->data->name, folder);
    *step = cj_run_load(j->net, folder, best);
    return *step < 0 ? app_fail(j->ctx) : APP_OK;
}
