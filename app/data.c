/* cajal data: which data sets there are, what is in one, and how to get it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/data.h"

static int list(bool json)
{
    int n = 0;
    const cj_dataset_info *d = cj_dataset_list(&n);
    for (int i = 0; i < n; i++) {
        if (!json) {
            printf("%-16s %-12s %s\n", d[i].name, d[i].family, d[i].summary);
            continue;
        }
        app_json_open();
        app_json_text("name", d[i].name);
        app_json_text("family", d[i].family);
        app_json_text("summary", d[i].summary);
        app_json_close();
    }
    return APP_OK;
}

static void print_text(const cj_dataset *d)
{
    int64_t n = d->n < 240 ? d->n : 240, symbol[240];
    printf("It begins:\n");
    if (!cj_to_i64(cj_slice(d->x, 0, 0, n, 1), symbol, n)) return;
    for (int64_t i = 0; i < n; i++) putchar(d->symbol[symbol[i] & 255]);
    printf("\n");
}

static void print_classes(const cj_dataset *d)
{
    int64_t *y = malloc((size_t)d->n * sizeof *y);
    if (!y || !cj_to_i64(d->y, y, d->n)) {
        free(y);
        return;
    }
    printf("Classes:");
    for (int64_t k = 0; k < d->classes && k < 32; k++) {
        int64_t count = 0;
        for (int64_t i = 0; i < d->n; i++) count += y[i] == k;
        printf(" %s (%lld)", d->class_names[k], (long long)count);
    }
    printf("\n");
    free(y);
}

static void print_range(const char *what, cj_tensor *t)
{
    cj_tensor *there = cj_where(cj_isfinite(t), t, cj_zeros_like(t)); /* NaN is a missing value */
    printf("%s: %.4g … %.4g, mean %.4g\n", what, cj_item(cj_min(there)), cj_item(cj_max(there)), cj_item(cj_mean(there)));
}

static void print_lines(const cj_dataset *d)
{
    for (int k = 0; k < 3; k++)
        printf("%s: %s lines\n", k == 0 ? "Training" : k == 1 ? "Validation" : "Test", app_count((double)d->lines[k]->n));
    for (int64_t i = 0; i < 3 && i < d->lines[0]->n; i++) {
        printf("  %s\n", d->lines[0]->line[i]);
        if (d->target[0]) printf("    %s\n", d->target[0]->line[i]);
    }
}

static void print_rows(const cj_dataset *d, double train, double val, double test)
{
    printf("%s rows of %lld numbers; %s to learn from, ", app_count((double)d->n), (long long)d->features, app_count(train));
    if (val > 0) printf("%s for validation, ", app_count(val));
    printf("%s held out\n", app_count(test));
    if (d->channels)
        printf("Each is [%lld, %lld, %lld]: channels, height, width\n", (long long)d->channels, (long long)d->height, (long long)d->width);
    print_range("Values", d->x);
    if (d->classes && d->y) print_classes(d);
    else if (d->y) print_range("Targets", d->y);
    if (d->boxes) {
        int64_t boxes = 0;
        for (int64_t i = 0; i < d->n; i++) boxes += d->boxes[i]->n;
        printf("%s boxes\n", app_count((double)boxes));
    }
}

int data_unknown(const char *name)
{
    int n = 0, known = 0;
    const char *names[128];
    const cj_dataset_info *all = cj_dataset_list(&known);
    for (; n < known && n < 128; n++) names[n] = all[n].name;
    const char *nearest = app_nearest(name, names, n);
    if (nearest) return app_error("there is no data set '%s'; did you mean '%s'?", name, nearest);
    return app_error("there is no data set '%s'; cajal data lists them", name);
}

static bool is_known(const char *name)
{
    int n = 0;
    const cj_dataset_info *all = cj_dataset_list(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return true;
    return false;
}

/* The picture, where it was asked for; else in runs/data, if it can be drawn and written at all. */
static void show_picture(cj_ctx *c, const cj_dataset *d, const char *asked, bool json)
{
    char usual[160];
    const char *path = asked ? asked : usual;
    snprintf(usual, sizeof usual, "runs/data/%s.png", d->name);
    if (!asked) {
        if (json) return;
        mkdir("runs", 0777);
        mkdir("runs/data", 0777);
    }
    bool ok = data_picture(c, d, path);
    if (ok && !json) printf("Picture: %s\n", path);
    if (!ok && !asked) cj_clear(c);
}

static int info(const char *name, bool json, const char *picture)
{
    if (!is_known(name)) return data_unknown(name);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1 });
    cj_dataset *d = cj_dataset_open(c, name);
    if (!d) {
        int status = app_fail(c);
        cj_ctx_free(c);
        return status;
    }
    bool lines = d->lines[0] && !d->is_text;
    double train = lines                         ? (double)d->lines[0]->n
                   : d->graph && d->graph->train ? (double)cj_numel(d->graph->train)
                                                 : (double)cj_size(d->train_x, 0);
    double val = lines                       ? (double)d->lines[1]->n
                 : d->graph && d->graph->val ? (double)cj_numel(d->graph->val)
                                             : (double)cj_size(d->val_x, 0);
    double test = lines                        ? (double)d->lines[2]->n
                  : d->graph && d->graph->test ? (double)cj_numel(d->graph->test)
                                               : (double)cj_size(d->test_x, 0);
    if (json) {
        app_json_open();
        app_json_text("name", d->name);
        app_json_text("summary", d->summary);
        app_json_number("n", (double)d->n);
        app_json_number("features", (double)d->features);
        app_json_number("classes", (double)d->classes);
        app_json_number("train", train);
        app_json_number("validation", val);
        app_json_number("test", test);
        app_json_close();
    } else {
        printf("%s: %s\n", d->name, d->summary);
        if (d->is_text) {
            printf("%s symbols of an alphabet of %lld; the last %s are held out", app_count((double)d->n), (long long)d->classes,
                   app_count(test));
            if (val > 0) printf(", the %s before them are for validation", app_count(val));
            printf("\n");
            print_text(d);
        } else if (d->graph) {
            printf("%s nodes of %lld features, %s edges in both directions; %s nodes to learn from, %s for validation, %s held out\n",
                   app_count((double)d->n), (long long)d->features, app_count((double)d->graph->edges), app_count(train), app_count(val),
                   app_count(test));
            print_classes(d);
        } else if (d->lines[0]) {
            print_lines(d);
        } else {
            print_rows(d, train, val, test);
        }
    }
    if (cj_ok(c)) show_picture(c, d, picture, json);
    int status = cj_ok(c) ? APP_OK : app_fail(c);
    cj_ctx_free(c);
    return status;
}

int app_data(int argc, char **argv)
{
    bool json = false;
    const char *picture = NULL;
    const app_option options[] = {
        { "--json", NULL, "one object per line: name, family, summary", NULL, &json },
        { "--picture", "FILE", "info: where the picture goes, a sheet of images or a plot; runs/data/NAME.png by default", &picture, NULL },
        { 0 },
    };
    const app_usage usage = {
        .verb = "data",
        .line = "[list | info NAME [--picture FILE.png] | get NAME] [--json]",
        .text = "Lists the data sets, says what is in one, or fetches its files into $CAJAL_DATA or ~/.cache/cajal\n"
                "(what was interrupted goes on; check sums are checked; $CAJAL_DATA_URL: from URL/FOLDER/FILE instead).",
        .most = 2,
        .examples = "  cajal data\n  cajal data get mnist\n  cajal data info mnist\n  cajal data info iris --picture iris.png\n"
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (args.words == 0 || (args.words == 1 && strcmp(args.word[0], "list") == 0)) return list(json);
    bool get = strcmp(args.word[0], "get") == 0;
    if (!get && strcmp(args.word[0], "info") != 0)
        return app_error("'list', 'info NAME' or 'get NAME' was expected, '%s' was found", args.word[0]);
    if (args.words != 2) return app_error("which one? cajal data %s NAME", args.word[0]);
    return get ? data_get(args.word[1]) : info(args.word[1], json, picture);
}
