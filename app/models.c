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

static int print_parameters(const cj_model *m)
{
    app_job j;
    int status = app_job_open(&j, &(app_job_opts){ .model = m->name });
    if (status == APP_OK) {
        cj_params *p = cj_module_params(j.net);
        printf("\nParameters, as built for %s: %s\n", j.data->name, app_count((double)cj_params_numel(p)));
        for (int i = 0; i < cj_params_count(p); i++) {
            char shape[128];
            cj_format_shape(cj_params_at(p, i), shape, sizeof shape);
            printf("  %-32s %s\n", cj_params_name(p, i), strchr(shape, '[') ? strchr(shape, '[') : shape);
        }
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
    return print_parameters(m);
}

int app_models(int argc, char **argv)
{
    const char *name = NULL;
    bool json = false;
    const app_option options[] = {
        { "--describe", "NAME", "settings, defaults and parameters of a model", &name, NULL },
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
