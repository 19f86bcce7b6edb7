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

/* The data's graph as a model takes it. */
static void normalise_graph(app_job *j)
{
    const cj_graph *g = j->data->graph;
    cj_scope s = cj_scope_open(j->ctx);
    cj_tensor *one = cj_ones(j->ctx, CJ_SHAPE(g->edges), CJ_F32);
    j->graph = cj_csr_keep(cj_graph_normalise(cj_csr_from_parts(g->offset, g->target, one, g->nodes, g->nodes)));
    cj_scope_close(s);
}

static void examples_of_nodes(app_job *j, cj_tensor *nodes, cj_examples *out)
{
    if (nodes) cj_examples_of_rows(nodes, cj_keep(cj_index_select(j->data->graph->y, 0, nodes)), out);
}

/* The sentences of a part as words of the training sentences. */
static void examples_of_lines(app_job *j, int part, cj_examples *out)
{
    const cj_lines *from = j->data->lines[part], *to = j->data->target[part];
    if (!from || !to) return;
    cj_examples_of_pairs(cj_keep(cj_words_encode(j->source, from->line, from->n, false, APP_WORDS)),
                         cj_keep(cj_words_encode(j->target, to->line, to->n, true, APP_WORDS)), out);
}

static const char *kind_of(const cj_dataset *d)
{
    return d->is_text ? "a text" : d->target[0] ? "sentences" : d->graph ? "a graph" : "a table";
}
static const char *kind_for(cj_task task)
{
    return task == CJ_TASK_NEXT_TOKEN ? "a text" : task == CJ_TASK_TRANSLATE ? "sentences" : task == CJ_TASK_NODES ? "a graph" : "a table";
}

static bool has_rows(const cj_tensor *x) { return x && cj_size(x, 0) > 0; }

/* Training rows; images change from epoch to epoch where augment says so. */
static void examples_to_learn_from(app_job *j, cj_tensor *x, cj_tensor *y)
{
    const cj_dataset *d = j->data;
    cj_augmentation kind = (cj_augmentation)cj_settings_get(j->settings, "augment");
    if (kind == CJ_AUGMENT_NONE || d->height < 2) {
        cj_examples_of_rows(x, y, &j->train);
        return;
    }
    int64_t channels = d->features / (d->height * d->width);
    cj_augment_opts how = cj_augmentation_opts(kind, channels, d->height, d->width);
    (cj_examples_of_images)(x, y, channels, d->height, d->width, &j->train, &how);
}

/* Rows to learn from, to choose by, to judge by; with folds, one part of the training rows (shuffled by the split) is what to choose by. */
static void split_rows(app_job *j, const app_job_opts *o)
{
    cj_dataset *d = j->data;
    cj_examples_of_rows(d->test_x, d->test_y, &j->test);
    if (o->folds == 0) {
        examples_to_learn_from(j, d->train_x, d->train_y);
        if (has_rows(d->val_x)) cj_examples_of_rows(d->val_x, d->val_y, &j->val);
        return;
    }
    int64_t n = cj_size(d->train_x, 0), from, to;
    cj_fold(n, o->fold, o->folds, &from, &to);
    cj_scope s = cj_scope_open(j->ctx);
    cj_tensor *in[2], *out[2], *all[2] = { d->train_x, d->train_y };
    for (int k = 0; k < 2; k++) {
        in[k] = cj_keep(cj_slice(all[k], 0, from, to, 1));
        out[k] = cj_keep(cj_cat((cj_tensor *[]){ cj_slice(all[k], 0, 0, from, 1), cj_slice(all[k], 0, to, n, 1) }, 2, 0));
    }
    cj_examples_of_rows(in[0], in[1], &j->val);
    examples_to_learn_from(j, out[0], out[1]);
    cj_scope_close(s);
}

/* Is there a data set of this name? If not, the nearest one is suggested. */
static bool known_data(const char *name)
{
    int n = 0;
    const cj_dataset_info *all = (cj_dataset_list)(&n);
    const char *names[256];
    for (int i = 0; i < n && i < 256; i++) {
        names[i] = all[i].name;
        if (strcmp(names[i], name) == 0) return true;
    }
    const char *nearest = app_nearest(name, names, n < 256 ? n : 256);
    if (nearest) app_error("there is no data set '%s'; did you mean '%s'?", name, nearest);
    else app_error("there is no data set '%s'; 'cajal data' lists them", name);
    return false;
}

/* ---- what a run keeps of its texts ---------------------------------------------------------------------------------------------------------- */

static const char *const kept_words[] = { "source.tokens", "target.tokens" };

bool app_job_keep(app_job *j, const char *folder)
{
    const cj_words *words[] = { j->source, j->target };
    char path[4096];
    for (int k = 0; k < 2 && words[k]; k++)
        if (snprintf(path, sizeof path, "%s/%s", folder, kept_words[k]) >= (int)sizeof path || !cj_words_save(words[k], path)) return false;
    return true;
}

/* The vocabulary that the run has, or that of the sentences. */
static cj_words *vocabulary(app_job *j, const char *folder, int which, const cj_lines *sentences)
{
    char path[4096];
    if (folder && snprintf(path, sizeof path, "%s/%s", folder, kept_words[which]) < (int)sizeof path && access(path, F_OK) == 0)
        return cj_words_load(j->ctx, path);
    return sentences ? cj_words_new(j->ctx, sentences->line, sentences->n) : NULL;
}

/* A text's alphabet or a translation's vocabularies out of the run folder instead of its data; false where it has none. */
static bool open_kept(app_job *j, const char *folder)
{
    cj_dataset *d = &j->kept;
    char hex[640] = "";
    *d = (cj_dataset){ .name = cj_settings_text(j->settings, "data"), .summary = "" };
    j->task = j->model->task;
    if (j->task == CJ_TASK_TRANSLATE) {
        j->source = vocabulary(j, folder, 0, NULL);
        j->target = j->source ? vocabulary(j, folder, 1, NULL) : NULL;
        j->data = j->target ? d : NULL;
    } else if (j->task == CJ_TASK_NEXT_TOKEN && cj_run_fact(j->ctx, folder, "alphabet", hex, sizeof hex)) {
        d->is_text = true;
        for (int i = 0; i < 256; i++) d->number[i] = -1;
        for (const char *at = hex; at[0] && at[1] && d->classes < 256; at += 2) {
            const unsigned long byte = strtoul((char[]){ at[0], at[1], 0 }, NULL, 16);
            d->symbol[d->classes] = (unsigned char)byte;
            d->number[byte] = (int16_t)d->classes++;
        }
        if (d->classes) j->data = d, note_alphabet(j);
    }
    return j->data != NULL;
}

static int open_data(app_job *j, const app_job_opts *o, const char *name)
{
    if (!known_data(name)) return APP_FAILED;
    /* the set's own validation rows, if it has some; else a share of the training rows */
    double share = o->folds > 0 ? 0 : cj_settings_get(j->settings, "validation");
    j->data = cj_dataset_open(j->ctx, name, .validation = share > 0 ? 0 : CJ_ZERO);
    if (j->data && share > 0 && j->data->train_y && !has_rows(j->data->val_x)) {
        cj_dataset_free(j->data);
        j->data = cj_dataset_open(j->ctx, name, .validation = share);
    }
    if (!j->data && o->use && cj_error(j->ctx) == CJ_EFILE) { /* its files are not there */
        char message[CJ_MAX_MESSAGE];
        snprintf(message, sizeof message, "%s", cj_message(j->ctx));
        cj_clear(j->ctx);
        if (open_kept(j, o->folder)) return APP_OK;
        if (cj_ok(j->ctx)) cj_fail(j->ctx, CJ_EFILE, "%s", message);
    }
    if (!j->data) return app_fail(j->ctx);
    cj_dataset *d = j->data;
    j->task = j->model->task == CJ_TASK_CLASSIFY && d->classes == 0 ? CJ_TASK_REGRESS : j->model->task;
    if (strcmp(kind_of(d), kind_for(j->model->task)) != 0)
        return app_error("%s learns from %s, and %s is %s; 'cajal data' lists what there is", j->model->name, kind_for(j->model->task),
                         name, kind_of(d));
    if (j->model->task == CJ_TASK_REGRESS && d->classes > 0)
        return app_error("%s learns values, and %s has classes; 'cajal data' lists what there is", j->model->name, name);
    double augment = cj_settings_get(j->settings, "augment");
    if (d->height < 2 && augment != CJ_AUGMENT_NONE && augment != CJ_AUGMENT_AUTO)
        return app_error("augment=%s is for images, and %s has none: augment=none", cj_settings_text(j->settings, "augment"), name);
    if (j->task == CJ_TASK_NODES) {
        normalise_graph(j);
        examples_of_nodes(j, d->graph->train, &j->train);
        examples_of_nodes(j, d->graph->val, &j->val);
        examples_of_nodes(j, d->graph->test, &j->test);
    } else if (j->task == CJ_TASK_TRANSLATE) {
        j->source = vocabulary(j, o->folder, 0, d->lines[0]);
        j->target = vocabulary(j, o->folder, 1, d->target[0]);
        if (!cj_ok(j->ctx)) return app_fail(j->ctx);
        examples_of_lines(j, 0, &j->train);
        examples_of_lines(j, 1, &j->val);
        examples_of_lines(j, 2, &j->test);
    } else if (!d->is_text) {
        split_rows(j, o);
    } else {
        int64_t context = (int64_t)cj_settings_get(j->settings, "context");
        cj_examples_of_text(d->train_x, context, &j->train);
        if (has_rows(d->val_x)) cj_examples_of_text(d->val_x, context, &j->val);
        cj_examples_of_text(d->test_x, context, &j->test);
        if (j->val.n == 0) j->val = j->test; /* a text that is held out once: training looks at its beginning, the end at all of it */
        note_alphabet(j);
    }
    j->all_val = j->val.n;
    if (d->is_text && j->val.n > WINDOWS) j->val.n = WINDOWS;
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

/* What the model is built for. */
static cj_model_data model_data(const app_job *j)
{
    const cj_dataset *d = j->data;
    cj_model_data m = { .outputs = j->task == CJ_TASK_REGRESS ? 1 : d->classes, .height = d->height, .width = d->width };
    m.inputs = d->is_text ? m.outputs : d->features;
    m.channels = m.height ? m.inputs / (m.height * m.width) : 0;
    if (j->task == CJ_TASK_NODES) m.graph = &j->graph, m.nodes = d->graph->x, m.inputs = d->graph->features, m.outputs = d->graph->classes;
    if (j->task == CJ_TASK_TRANSLATE) m.inputs = cj_words_count(j->source), m.outputs = cj_words_count(j->target);
    return m;
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
    if (status || !j->data) return status ? status : APP_FAILED;
    j->net = app_build(j);
    return cj_ok(j->ctx) && j->net ? APP_OK : app_fail(j->ctx);
}

cj_module *app_build(app_job *j)
{
    cj_seed(j->ctx, (uint64_t)cj_settings_get(j->settings, "seed"));
    cj_model_data d = model_data(j);
    cj_options options = cj_settings_options(j->settings);
    return j->model->build(j->ctx, &d, &options); /* cppcheck-suppress returnDanglingLifetime ; a module keeps neither */
}

void app_job_close(app_job *j)
{
    running = NULL;
    cj_ctx_free(j->ctx);
    j->ctx = NULL;
}

int app_job_load(app_job *j, const char *folder, const char *device, const char *threads, bool best, int64_t *step)
{
    int status = app_job_open(j, &(app_job_opts){ .folder = folder, .device = device, .threads = threads, .use = true });
    if (status) return status;
    char alphabet[640];
    if (j->data && j->data->is_text && cj_run_fact(j->ctx, folder, "alphabet", alphabet, sizeof alphabet) &&
        strcmp(alphabet, cj_settings_text(j->settings, "alphabet")) != 0)
        return app_error("the text %s has other symbols now than when %s was trained", j->data->name, folder);
    *step = cj_run_load(j->net, folder, best);
    return *step < 0 ? app_fail(j->ctx) : APP_OK;
}
