/* cajal lab: experiments that state what they expect, and check it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "app/app.h"
#include "lab/lab.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const cj_lab *find(const char *name)
{
    const char *names[256];
    int n = 0;
    for (; n < 256 && cj_labs[n]; n++) {
        if (strcmp(cj_labs[n]->name, name) == 0) return cj_labs[n];
        names[n] = cj_labs[n]->name;
    }
    const char *nearest = app_nearest(name, names, n);
    if (nearest) app_error("there is no lab '%s'; did you mean '%s'?", name, nearest);
    else app_error("there is no lab '%s'; 'cajal lab list' lists them", name);
    return NULL;
}

static int list(bool json)
{
    for (int i = 0; cj_labs[i]; i++) {
        const cj_lab *l = cj_labs[i];
        if (!json) {
            printf("%-20s %s\n", l->name, l->claim);
            continue;
        }
        app_json_open();
        app_json_text("name", l->name);
        app_json_text("claim", l->claim);
        app_json_text("source", l->source);
        app_json_close();
    }
    return APP_OK;
}

/* ---- one run ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct printer {
    const cj_lab *lab;
    bool json;
    bool control;
    double started;
} printer;

static void print_claim(void *user, const cj_lab_claim *claim)
{
    printer *p = user;
    if (p->json) {
        app_json_open();
        app_json_text("name", p->lab->name);
        app_json_text("claim", claim->what);
        app_json_number("expected", claim->expected);
        app_json_number("found", claim->found);
        app_json_number("tolerance", claim->tolerance);
        app_json_bool("pass", claim->pass);
        app_json_number("seconds", now() - p->started);
        app_json_close();
    } else if (claim->at_least) {
        printf("  %-56s at least %-12.8g found %-14.8g %s\n", claim->what, claim->expected, claim->found, claim->pass ? "PASS" : "FAIL");
    } else {
        printf("  %-56s expected %-12.8g found %-14.8g +-%-8.2g %s\n", claim->what, claim->expected, claim->found, claim->tolerance,
               claim->pass ? "PASS" : "FAIL");
    }
}

static void print_text(void *user, const char *line)
{
    (void)user;
    printf("  %s\n", line);
}

/* Runs a lab in a context of its own. An error of the library counts as a failure. */
static bool run(const cj_lab *l, cj_lab_record *r, bool control)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1 });
    if (!cj_ok(c)) {
        app_fail(c);
        return false;
    }
    app_cancel_on_signal(c);
    l->run(c, r, control);
    bool ok = cj_ok(c);
    if (!ok) app_fail(c);
    app_cancel_on_signal(NULL);
    cj_ctx_free(c);
    return ok;
}

static int show(const char *name, const char *folder)
{
    const cj_lab *l = find(name);
    if (!l) return APP_USAGE;
    if (mkdir(folder, 0777) < 0 && errno != EEXIST) return app_error("%s: the folder cannot be made: %s", folder, strerror(errno));
    printf("%s: %s\n(%s)\n\n", l->name, l->claim, l->source);
    printer p = { .lab = l, .started = now() };
    cj_lab_record r = { .claim = print_claim, .say = print_text, .user = &p, .folder = folder };
    bool ok = run(l, &r, false);
    if (r.path[0]) printf("\n%s\n", r.path);
    return ok && r.failed == 0 && r.passed > 0 ? APP_OK : APP_FAILED;
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------------------------- */

static bool check_one(const cj_lab *l, bool json)
{
    if (!json) printf("%s: %s\n", l->name, l->claim);
    printer p = { .lab = l, .json = json, .started = now() };
    cj_lab_record r = { .claim = print_claim, .user = &p }, control = { 0 };
    bool pass = run(l, &r, false) && r.failed == 0 && r.passed > 0;
    bool control_ran = run(l, &control, true), control_fails = control_ran && control.failed > 0;
    if (json) {
        char claim[256];
        snprintf(claim, sizeof claim, "negative control fails: %s", l->control);
        app_json_open();
        app_json_text("name", l->name);
        app_json_text("claim", claim);
        app_json_number("expected", 1);
        app_json_number("found", control_fails);
        app_json_number("tolerance", 0);
        app_json_bool("pass", control_fails);
        app_json_number("seconds", now() - p.started);
        app_json_close();
    } else {
        printf("  %s: %s (%d of %d expectations)\n\n",
               control_fails ? "control FAILs as it must" : "control PASSES: the check checks nothing", l->control, control.failed,
               control.failed + control.passed);
    }
    return pass && control_fails;
}

static int check(bool json)
{
    int passed = 0, n = 0;
    double start = now();
    for (; cj_labs[n]; n++) passed += check_one(cj_labs[n], json);
    if (!json) printf("%d of %d labs pass, each with a control that fails; %s\n", passed, n, app_seconds(now() - start));
    return passed == n && n > 0 ? APP_OK : APP_FAILED;
}

int app_lab(int argc, char **argv)
{
    const char *out = ".";
    bool json = false;
    const app_option options[] = {
        { "--out", "FOLDER", "where pictures go; here by default", &out, NULL },
        { "--json", NULL, "check: one object per claim: name, claim, expected, found, tolerance, pass, seconds", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "lab",
                              .line = "[list | run NAME | check] [--out FOLDER] [--json]",
                              .most = 2,
                              .text = "Experiments: each states a claim and the numbers it expects. 'run' prints them and draws the "
                                      "picture; 'check' runs all, and for each\n"
                                      "a negative control, a wrong variant in which the same check must fail.",
                              .examples = "  cajal lab run heavy-ball-cycle\n  cajal lab check\n" };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    const char *what = args.words ? args.word[0] : "list";
    if (strcmp(what, "list") == 0) return list(json);
    if (strcmp(what, "check") == 0)
        return args.words == 1 ? check(json) : app_error("'%s' was not expected: check runs all labs", args.word[1]);
    if (strcmp(what, "run") == 0)
        return args.words == 2 ? show(args.word[1], out) : app_error("which one? cajal lab run NAME; 'cajal lab list' lists them");
    return app_error("'list', 'run NAME' or 'check' was expected, '%s' was found", what);
}
