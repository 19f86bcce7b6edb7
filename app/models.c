/* cajal models: what the zoo has. */
#include <stdio.h>
#include <string.h>

#include "app/app.h"

static void print_default(const cj_setting *s, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.10g", value);
    if (s->choices) {
        const char *w = s->choices;
        for (int i = 0; i < (int)value && strchr(w, ' '); i++) w = strchr(w, ' ') + 1;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(w, " "), w);
    }
    char left[96];
    snprintf(left, sizeof left, "%s=%s", s->key, text);
    printf("  %-24s %s%s%s%s\n", left, s->help, s->choices ? ": " : "", s->choices ? s->choices : "", "");
}

static double recipe_value(const cj_model *m, const cj_setting *s)
{
    for (const cj_setting *r = m->recipe; r && r->key; r++)
        if (strcmp(r->key, s->key) == 0) return r->value;
    return s->value;
}

static void print_parameters(cj_module *net)
{
    cj_params *p = cj_module_params(net);
    printf("\nParameters: %s\n", app_count((double)cj_params_numel(p)));
    for (int i = 0; i < cj_params_count(p); i++) {
        char shape[128];
        cj_format_shape(cj_params_at(p, i), shape, sizeof shape);
        const char *open = strchr(shape, '['), *close = open ? strchr(open, ']') : NULL;
        printf("  %-32s %.*s\n", cj_params_name(p, i), close ? (int)(close - open) + 1 : 0, open ? open : "");
    }
}

/* [1, 6, 8, 8] -> "6 x 8 x 8": what one example is. */
static const char *shape_text(cj_shape s, char out[64])
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 1; i < s.ndim && n < 63; i++) n += (size_t)snprintf(out + n, 64 - n, "%s%lld", i > 1 ? " x " : "", (long long)s.dim[i]);
    return out;
}

/* "5 x 5", "all"; "" where it is not known. */
static const char *field_text(const cj_module_row *r, char out[64])
{
    size_t n = 0;
    out[0] = 0;
    if (r->field[0] < 0) return "all";
    for (int i = 0; i < 3 && r->field[i] > 0; i++) n += (size_t)snprintf(out + n, 64 - n, "%s%lld", i ? " x " : "", (long long)r->field[i]);
    return out;
}

cj_shape app_example_of(const app_job *j, cj_dtype *dtype)
{
    *dtype = j->data->is_text || j->task == CJ_TASK_NODES ? CJ_I64 : CJ_F32;
    if (j->data->is_text) return CJ_SHAPE(1, (int64_t)cj_settings_get(j->settings, "context"));
    if (j->task == CJ_TASK_NODES) return CJ_SHAPE(1);
    return j->task == CJ_TASK_TRANSLATE ? CJ_SCALAR : CJ_SHAPE(1, j->data->features);
}

/* Layer by layer: what it has, gives, costs and sees, for one example. Models that are more than one function of x are told by their parameters alone. */
static void print_layers(const app_job *j)
{
    enum { MOST = 2048 };
    static cj_module_row row[MOST];
    cj_dtype dtype;
    cj_shape x = app_example_of(j, &dtype);
    int n = x.ndim > 0 ? cj_module_describe(j->net, x, row, MOST, .dtype = dtype) : -1;
    if (n < 0) cj_clear(j->ctx);
    if (n < 1) return;
    if (n > MOST) n = MOST;
    bool fields = false;
    for (int i = 0; i < n; i++) fields = fields || row[i].field[0];
    printf("\n%-30s %-16s %-16s %12s %10s %14s %s\n", "layer", "kind", "output", "parameters", "memory", "flops",
           fields ? "      sees" : "");
    for (int i = 0; i < n; i++) {
        const cj_module_row *r = &row[i];
        char shape[64], field[64];
        printf("%-30s %-16s %-16s %12s %10s %14s %10s\n", r->path[0] ? r->path : j->model->name, r->type, shape_text(r->output, shape),
               app_count((double)r->params), app_bytes((double)r->bytes + 4.0 * (double)r->activations), app_count(r->flops),
               fields ? field_text(r, field) : "");
    }
    cj_module_summary s = cj_module_summarise(row, n);
    printf("%-30s %-16s %-16s %12s %10s %14s\n", "all", "", "", app_count((double)cj_params_numel(cj_module_params(j->net))),
           app_bytes((double)s.bytes + 4.0 * (double)s.activations), app_count(s.flops));
    printf("Memory: parameters and what a layer gives; flops: of a forward pass; both for one example.%s\n",
           fields ? " Sees: positions of the input." : "");
}

static int print_network(const cj_model *m)
{
    app_job j;
    int status = app_job_open(&j, &(app_job_opts){ .model = m->name });
    if (status == APP_OK) {
        printf("\nAs built for %s:\n", j.data->name);
        print_layers(&j);
        print_parameters(j.net);
    }
    app_job_close(&j);
    return status;
}

static int describe(const char *name)
{
    const cj_model *m = app_model(name);
    if (!m) return APP_USAGE;
    static const char *const task[] = {
        [CJ_TASK_CLASSIFY] = "classes of rows of numbers",    [CJ_TASK_REGRESS] = "values of rows of numbers",
        [CJ_TASK_NEXT_TOKEN] = "the next symbol of a text",   [CJ_TASK_GENERATE] = "how rows of numbers are distributed",
        [CJ_TASK_TRANSLATE] = "the translation of sentences", [CJ_TASK_NODES] = "classes of the nodes of a graph"
    };
    printf("%s: %s\nfamily %s, learns %s; source: zoo/%s.c\n", m->name, m->summary, m->family, task[m->task], m->name);
    printf("\nSettings of the model:\n");
    for (const cj_setting *s = m->settings; s && s->key; s++) print_default(s, s->value);
    printf("\nSettings of the training:\n");
    for (const cj_setting *s = cj_train_settings(); s->key; s++) print_default(s, recipe_value(m, s));
    return print_network(m);
}

int app_models(int argc, char **argv)
{
    const char *name = NULL;
    bool json = false;
    const app_option options[] = {
        { "--describe", "NAME", "settings, defaults, layers and parameters of a model", &name, NULL },
        { "--json", NULL, "one object per line: name, family, summary", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "models",
                              .line = "[--describe NAME] [--json]",
                              .text = "Lists the models, each one file in zoo/.",
                              .examples = "  cajal models\n  cajal models --describe gpt\n" };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (name) return describe(name);
    for (int i = 0; cj_models[i]; i++) {
        const cj_model *m = cj_models[i];
        if (!json) {
            printf("%-16s %-16s %s\n", m->name, m->family, m->summary);
            continue;
        }
        app_json_open();
        app_json_text("name", m->name);
        app_json_text("family", m->family);
        app_json_text("summary", m->summary);
        app_json_close();
    }
    return APP_OK;
}
