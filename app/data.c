/* cajal data: which data sets there are, and what is in one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

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

static int info(const char *name, bool json)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1 });
    cj_dataset *d = cj_dataset_open(c, name);
    if (!d) {
        int n = 0, known = 0;
        const char *names[64];
        const cj_dataset_info *all = cj_dataset_list(&known);
        for (; n < known && n < 64; n++) names[n] = all[n].name;
        const char *nearest = app_nearest(name, names, n);
        int status =
            nearest && strcmp(nearest, name) != 0 ? app_error("there is no data set '%s'; did you mean '%s'?", name, nearest) : app_fail(c);
        cj_ctx_free(c);
        return status;
    }
    double train = (double)cj_size(d->train_x, 0), test = (double)cj_size(d->test_x, 0);
    if (json) {
        app_json_open();
        app_json_text("name", d->name);
        app_json_text("summary", d->summary);
        app_json_number("n", (double)d->n);
        app_json_number("features", (double)d->features);
        app_json_number("classes", (double)d->classes);
        app_json_number("train", train);
        app_json_number("test", test);
        app_json_close();
    } else {
        printf("%s: %s\n", d->name, d->summary);
        if (d->is_text) {
            printf("%s symbols of an alphabet of %lld; the last %s are held out\n", app_count((double)d->n), (long long)d->classes,
                   app_count(test));
            print_text(d);
        } else {
            printf("%s rows of %lld numbers; %s to learn from, %s held out\n", app_count((double)d->n), (long long)d->features,
                   app_count(train), app_count(test));
            if (d->classes) print_classes(d);
        }
    }
    int status = cj_ok(c) ? APP_OK : app_fail(c);
    cj_ctx_free(c);
    return status;
}

int app_data(int argc, char **argv)
{
    bool json = false;
    const app_option options[] = {
        { "--json", NULL, "one object per line: name, family, summary", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "data",
                              .line = "[list | info NAME] [--json]",
                              .text = "Lists the data sets, or says what is in one.",
                              .most = 2,
                              .examples = "  cajal data\n  cajal data info digits\n" };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (args.words == 0 || (args.words == 1 && strcmp(args.word[0], "list") == 0)) return list(json);
    if (strcmp(args.word[0], "info") == 0) return args.words == 2 ? info(args.word[1], json) : app_error("which one? cajal data info NAME");
    return app_error("'list' or 'info NAME' was expected, '%s' was found", args.word[0]);
}
