/* Settings: key=value for the loop and the model, with limits, and config.json that remembers them.
 *
 * A value is kept as the text that was given, so that config.json shows what the user wrote, and as the number it means.  What was set by hand is marked: on resume the
 * others come from config.json, and these must agree with it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "data/bytes.h"
#include "data/json.h"
#include "train/train.h"

#define MAX_ITEMS 96
#define MAX_TEXT 640

typedef struct item {
    const cj_setting *setting; /* NULL: a fact without limits */
    char key[32];
    char text[MAX_TEXT];
    double value;
    bool given;
} item;

struct cj_settings {
    cj_object object;
    cj_ctx *ctx;
    const char *model;
    int n;
    item item[MAX_ITEMS];
};

static const cj_setting loop[] = {
    { .key = "epochs", .value = 10, .least = 0, .help = "passes over the training examples" },
    { .key = "steps", .value = 0, .least = 0, .help = "training steps; 0: as many as the epochs have" },
    { .key = "least_steps", .value = 0, .least = 0, .help = "epochs go on until so many steps are done" },
    { .key = "batch", .value = 32, .least = 1, .help = "examples in a step" },
    { .key = "optimiser",
      .value = CJ_ADAM,
      .choices = "adam sgd momentum adamw nesterov nadam adamax amsgrad rmsprop adagrad lion sign_sgd adadelta radam",
      .help = "how the gradients change the parameters" },
    { .key = "lr",
      .value = 1e-3,
      .least = 0,
      .real = true,
      .help = "learning rate; where an optimiser is given without one, its usual rate" },
    { .key = "momentum",
      .value = 0.9,
      .least = 0,
      .most = 0.9999,
      .real = true,
      .help = "of optimiser=momentum and nesterov; beta1 of adam and its kin" },
    { .key = "weight_decay", .value = 0, .least = 0, .real = true, .help = "pull of the parameters to zero" },
    { .key = "clip", .value = 0, .least = 0, .real = true, .help = "largest total norm of the gradients; 0: any" },
    { .key = "schedule",
      .value = CJ_CONSTANT,
      .choices = "constant cosine linear steps exponential one_cycle restarts",
      .help = "how the learning rate goes down" },
    { .key = "warmup", .value = 0, .least = 0, .help = "steps in which the learning rate goes up" },
    { .key = "label_smoothing",
      .value = 0,
      .least = 0,
      .most = 0.9999,
      .real = true,
      .help = "share of a target's weight that all classes get" },
    { .key = "ema",
      .value = 0,
      .least = 0,
      .most = 0.999999,
      .real = true,
      .help = "decay of an average of the parameters to evaluate and keep; 0: none" },
    { .key = "accumulate", .value = 1, .least = 1, .help = "parts in which a batch is computed, one after the other, to save memory" },
    { .key = "seed",
      .value = 1,
      .least = 0,
      .most = 9007199254740992.0,
      .help = "of everything random: initial values, order of the data, dropout, split" },
    { .key = "eval_every", .value = 0, .least = 0, .help = "steps between evaluations; 0: once an epoch" },
    { .key = "validation",
      .value = 0.1,
      .least = 0,
      .most = 0.9,
      .real = true,
      .help = "share of the training rows to choose by, where the data set has none of its own" },
    { .key = "augment",
      .value = CJ_AUGMENT_NONE,
      .choices = "none shift flip flip_shift warp auto",
      .help = "how training images change from epoch to epoch" },
    { .key = "patience", .value = 0, .least = 0, .help = "evaluations without a better one after which training stops; 0: never" },
    { .key = "save_every", .value = 0, .least = 0, .help = "steps between checkpoints; 0: by the clock" },
    { 0 },
};
cj_options cj_settings_options(const cj_settings *s) { return (cj_options){ cj_settings_get, s }; }

const cj_setting *cj_train_settings(void) { return loop; }

/* ---- values ------------------------------------------------------------------------------------------------------------------------------- */

/* The i-th word of "relu tanh gelu" into out; false past the end. */
static bool word_at(const char *words, int i, char out[MAX_TEXT])
{
    for (;; i--) {
        size_t n = strcspn(words, " ");
        if (i == 0 && n && n < MAX_TEXT) {
            memcpy(out, words, n);
            out[n] = 0;
            return true;
        }
        if (!words[n] || i <= 0) return false;
        words += n + 1;
    }
}

static void set_default(item *it, double value)
{
    it->value = value;
    if (it->setting->choices && word_at(it->setting->choices, (int)value, it->text)) return;
    cj__plain_point(it->text, snprintf(it->text, sizeof it->text, "%.10g", value));
}

static bool parse_value(cj_ctx *c, const cj_setting *s, const char *text, double *value)
{
    if (s->choices) {
        char word[MAX_TEXT];
        for (int i = 0; word_at(s->choices, i, word); i++)
            if (strcmp(word, text) == 0) {
                *value = i;
                return true;
            }
        return cj__error(c, CJ_EVALUE, "setting %s: one of '%s' was expected, '%.60s' was found", s->key, s->choices, text);
    }
    const char *at = text, *end = text + strlen(text);
    double v;
    if (!cj__read_number(&at, end, &v) || at != end || !isfinite(v))
        return cj__error(c, CJ_EVALUE, "setting %s: a number was expected, '%.60s' was found", s->key, text);
    if (!s->real && v != floor(v))
        return cj__error(c, CJ_EVALUE, "setting %s: a whole number was expected, '%.60s' was found", s->key, text);
    if (v < s->least) return cj__error(c, CJ_EVALUE, "setting %s: at least %g was expected, '%.60s' was found", s->key, s->least, text);
    if (s->most > 0 && v > s->most)
        return cj__error(c, CJ_EVALUE, "setting %s: at most %g was expected, '%.60s' was found", s->key, s->most, text);
    *value = v;
    return true;
}

static item *find(const cj_settings *s, const char *key)
{
    for (int i = 0; s && i < s->n; i++)
        if (strcmp(s->item[i].key, key) == 0) return (item *)&s->item[i];
    return NULL;
}

static item *add(cj_settings *s, const cj_setting *setting, const char *key)
{
    item *it = find(s, key);
    if (!it) {
        if (s->n == MAX_ITEMS) {
            cj__error(s->ctx, CJ_EVALUE, "settings: more than %d", MAX_ITEMS);
            return NULL;
        }
        it = &s->item[s->n++];
        *it = (item){ 0 };
        snprintf(it->key, sizeof it->key, "%s", key);
    }
    it->setting = setting;
    return it;
}

static void settings_free(cj_object *o) { cj__free(((cj_settings *)o)->ctx, o, sizeof(cj_settings)); }

cj_settings *cj_settings_new(cj_ctx *c, const cj_model *model)
{
    if (!c || !cj__cancel_check(c)) return NULL;
    cj_settings *s = cj__zalloc(c, sizeof *s);
    if (!s) return NULL;
    s->ctx = c;
    cj__object_add(c, &s->object, settings_free);
    s->model = model ? model->name : NULL;
    const cj_setting *table[2] = { loop, model ? model->settings : NULL };
    for (int t = 0; t < 2; t++)
        for (const cj_setting *d = table[t]; d && d->key; d++) {
            item *it = add(s, d, d->key);
            if (!it) return NULL;
            set_default(it, d->value);
        }
    for (const cj_setting *d = model ? model->recipe : NULL; d && d->key; d++) {
        item *it = find(s, d->key);
        if (it && it->setting) set_default(it, d->value);
    }
    return s;
}

/* Letters to change, put in or leave out to make a into b (Levenshtein 1966). */
static int edits(const char *a, const char *b)
{
    int row[64], n = (int)strlen(b);
    if (n >= 64) return 64;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            row[j] = change < other ? change : other;
        }
    }
    return row[n];
}

static bool unknown(const cj_settings *s, const char *key)
{
    const char *nearest = NULL;
    int best = 4;
    for (int i = 0; i < s->n; i++) {
        int d = s->item[i].setting ? edits(key, s->item[i].key) : 64;
        if (d < best) best = d, nearest = s->item[i].key;
    }
    const char *model = s->model ? s->model : "MODEL";
    if (nearest)
        return cj__error(s->ctx, CJ_EVALUE, "setting '%s' is unknown; did you mean '%s'? (cajal models --describe %s lists them)", key,
                         nearest, model);
    return cj__error(s->ctx, CJ_EVALUE, "setting '%s' is unknown; cajal models --describe %s lists them", key, model);
}

bool cj_settings_set(cj_settings *s, const char *key, const char *value)
{
    if (!s || s->ctx->error) return false;
    item *it = find(s, key);
    if (!it || !it->setting) return unknown(s, key);
    if (strlen(value) >= MAX_TEXT) return cj__error(s->ctx, CJ_EVALUE, "setting %s: the value is too long", key);
    if (!parse_value(s->ctx, it->setting, value, &it->value)) return false;
    snprintf(it->text, sizeof it->text, "%s", value);
    it->given = true;
    static const char *const otherwise[] = { "steps", "least_steps" }; /* epochs given by hand are what counts */
    for (int i = 0; i < 2 && strcmp(key, "epochs") == 0 && it->value > 0; i++)
        if (find(s, otherwise[i]) && !find(s, otherwise[i])->given) set_default(find(s, otherwise[i]), 0);
    if (strcmp(key, "optimiser") == 0 && find(s, "lr") && !find(s, "lr")->given)
        set_default(find(s, "lr"), cj_usual_lr((cj_optimiser)it->value));
    return true;
}

bool cj_settings_parse(cj_settings *s, const char *assignment)
{
    if (!s || s->ctx->error) return false;
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return cj__error(s->ctx, CJ_EVALUE, "a setting key=value was expected, '%.60s' was found", assignment);
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)(equals - assignment), assignment);
    return cj_settings_set(s, key, equals + 1);
}

double cj_settings_get(const void *settings, const char *key)
{
    const item *it = find(settings, key);
    return it ? it->value : NAN;
}

const char *cj_settings_text(const cj_settings *s, const char *key)
{
    const item *it = find(s, key);
    return it ? it->text : "";
}

void cj_settings_note(cj_settings *s, const char *key, const char *value)
{
    if (!s || s->ctx->error) return;
    item *it = add(s, NULL, key);
    if (!it) return;
    snprintf(it->text, sizeof it->text, "%s", value);
    it->value = NAN;
    it->given = true;
}

cj_train_opts cj_settings_train_opts(const cj_settings *s)
{
    return (cj_train_opts){
        .epochs = (int64_t)cj_settings_get(s, "epochs"),
        .steps = (int64_t)cj_settings_get(s, "steps"),
        .batch = (int64_t)cj_settings_get(s, "batch"),
        .optimiser = (cj_optimiser)cj_settings_get(s, "optimiser"),
        .lr = cj_settings_get(s, "lr") == 0 ? CJ_ZERO : cj_settings_get(s, "lr"),
        .momentum = cj_settings_get(s, "momentum") == 0 ? CJ_ZERO : cj_settings_get(s, "momentum"),
        .weight_decay = cj_settings_get(s, "weight_decay") == 0 ? CJ_ZERO : cj_settings_get(s, "weight_decay"),
        .clip = cj_settings_get(s, "clip"),
        .schedule = (cj_schedule)cj_settings_get(s, "schedule"),
        .warmup = (int64_t)cj_settings_get(s, "warmup"),
        .label_smoothing = cj_settings_get(s, "label_smoothing"),
        .ema = cj_settings_get(s, "ema"),
        .accumulate = (int64_t)cj_settings_get(s, "accumulate"),
        .eval_every = (int64_t)cj_settings_get(s, "eval_every"),
        .least_steps = (int64_t)cj_settings_get(s, "least_steps"),
        .patience = (int64_t)cj_settings_get(s, "patience"),
        .save_every = (int64_t)cj_settings_get(s, "save_every"),
    };
}

/* ---- config.json -------------------------------------------------------------------------------------------------------------------------- */

#ifdef CJ_HAVE_CJSON
/* When a checkpoint is written changes nothing that is computed. */
static bool may_differ(const char *key) { return strcmp(key, "save_every") == 0; }

bool cj_settings_save(const cj_settings *s, const char *folder)
{
    char path[CJ_MAX_RUN_PATH];
    if (!s || s->ctx->error || !cj__run_path(s->ctx, folder, "config.json", path)) return false;
    if (!cj__run_make(s->ctx, folder)) return false;
    cJSON *o = cJSON_CreateObject();
    bool ok = o && cJSON_AddStringToObject(o, "cajal", CJ_VERSION);
    for (int i = 0; i < s->n && ok; i++) {
        const item *it = &s->item[i];
        bool number = it->setting && !it->setting->choices;
        ok = number ? cJSON_AddNumberToObject(o, it->key, it->value) != NULL : cJSON_AddStringToObject(o, it->key, it->text) != NULL;
    }
    char *text = ok ? cJSON_Print(o) : NULL;
    cJSON_Delete(o);
    if (!text) return cj__error(s->ctx, CJ_EMEMORY, "%s: out of memory", path);
    cj_writer w;
    ok = cj__writer_open(&w, s->ctx, "config", path);
    ok = ok && cj__writer_put(&w, text, strlen(text)) && cj__writer_put(&w, "\n", 1);
    ok = cj__writer_close(&w, ok);
    cJSON_free(text);
    return ok;
}

/* config.json of a run. */
typedef struct config {
    cj_json json;
    char path[CJ_MAX_RUN_PATH], text[1 << 14];
} config;

/* The object in config.json; NULL after an error, or without one where the file is not there. */
static cJSON *read_config(cj_ctx *c, const char *folder, config *f)
{
    struct stat st;
    if (!cj__run_path(c, folder, "config.json", f->path) || stat(f->path, &st) < 0) return NULL;
    f->json = (cj_json){ .ctx = c, .op = "config", .path = f->path };
    return cj__json_read(&f->json, f->text, sizeof f->text) ? cj__json_object(&f->json, "a JSON object") : NULL;
}

static bool value_text(const cJSON *v, char out[MAX_TEXT])
{
    if (cJSON_IsNumber(v)) return cj__plain_point(out, snprintf(out, MAX_TEXT, "%.17g", v->valuedouble)) > 0;
    return cJSON_IsString(v) && snprintf(out, MAX_TEXT, "%s", v->valuestring) < MAX_TEXT;
}

static bool load_item(cj_settings *s, item *it, const char *folder, const config *f, const cJSON *v)
{
    char text[MAX_TEXT];
    int64_t place = cj__json_place(&f->json, 0, it->key);
    if (!value_text(v, text))
        return cj__place_error(s->ctx, "config", f->path, place, "a number or a short text was expected for '%s', %s was found", it->key,
                               v ? "something else" : "nothing");
    if (!it->setting) {
        if (strcmp(text, it->text) == 0) return true;
        return cj__error(s->ctx, CJ_EVALUE,
                         "the run in %s has %s=%s, this command asks for %s=%s: resume with the same, or start another run with --out",
                         folder, it->key, text, it->key, it->text);
    }
    double value = 0;
    if (!parse_value(s->ctx, it->setting, text, &value)) {
        char message[CJ_MAX_MESSAGE];
        cj__error_take(s->ctx, message);
        return cj__place_error(s->ctx, "config", f->path, place, "%s", message);
    }
    if (it->given && value != it->value && !may_differ(it->key))
        return cj__error(s->ctx, CJ_EVALUE,
                         "the run in %s has %s=%s, this command asks for %s=%s: resume with the same, or start another run with --out",
                         folder, it->key, cJSON_IsNumber(v) ? (snprintf(text, sizeof text, "%.10g", value), text) : text, it->key,
                         it->text);
    if (!it->given) set_default(it, value);
    return true;
}

bool cj_settings_load(cj_settings *s, const char *folder)
{
    if (!s || s->ctx->error) return false;
    config f;
    cJSON *o = read_config(s->ctx, folder, &f);
    if (!o) {
        if (!s->ctx->error) cj__error(s->ctx, CJ_EFILE, "%s is no run: it has no config.json", folder);
        return false;
    }
    bool ok = true;
    for (int settings = 0; settings < 2; settings++) /* facts first: another model has other settings, but that is not the point */
        for (int i = 0; i < s->n && ok; i++)
            if ((s->item[i].setting != NULL) == (settings == 1))
                ok = load_item(s, &s->item[i], folder, &f, cJSON_GetObjectItemCaseSensitive(o, s->item[i].key));
    cJSON_Delete(o);
    return ok;
}

bool cj_run_fact(cj_ctx *c, const char *folder, const char *key, char *out, size_t n)
{
    if (!c || c->error) return false;
    config f;
    cJSON *o = read_config(c, folder, &f);
    char text[MAX_TEXT];
    bool ok = o && value_text(cJSON_GetObjectItemCaseSensitive(o, key), text);
    if (ok) ok = snprintf(out, n, "%s", text) < (int)n;
    cJSON_Delete(o);
    return ok;
}
#else
static bool no_json(cj_ctx *c) { return cj__error(c, CJ_EFILE, "run folders need cJSON, which this build has not (Debian: libcjson-dev)"); }
bool cj_settings_save(const cj_settings *s, const char *folder) { return (void)folder, s && no_json(s->ctx); }
bool cj_settings_load(cj_settings *s, const char *folder) { return (void)folder, s && no_json(s->ctx); }
bool cj_run_fact(cj_ctx *c, const char *folder, const char *key, char *out, size_t n)
{
    return (void)folder, (void)key, (void)out, (void)n, c && no_json(c);
}
#endif
