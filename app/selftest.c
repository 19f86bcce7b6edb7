/* cajal selftest: the operator harness on this machine. One line per operator, with what passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/app.h"
#include "app/harness.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "vjp jvp plan": the checks that ran and passed, or those that failed. */
static void join(const harness_row *r, bool failed, char *out, size_t n)
{
    size_t at = 0;
    out[0] = 0;
    for (int k = HARNESS_VJP; k < HARNESS_CHECKS; k++)
        if (failed ? r->failed[k] > 0 : r->ran[k] && !r->failed[k])
            at += (size_t)snprintf(out + at, n - at, "%s%s", at ? " " : "", harness_check_names[k]);
}

static void print_row(const harness_row *r, bool verbose, double seconds)
{
    char passed[256];
    join(r, false, passed, sizeof passed);
    printf("%-22s %s  %s%s", r->name, r->passed ? "ok  " : "FAIL", passed, r->no_device_kernel ? " (no device kernel)" : "");
    if (verbose) {
        int ran = 0;
        for (int k = 0; k < HARNESS_CHECKS; k++) ran += r->ran[k];
        printf("  [%d samples, %d comparisons, %.2f s]", r->samples, ran, seconds);
    }
    putchar('\n');
    for (int k = 0; k < HARNESS_CHECKS; k++)
        if (r->failed[k]) printf("    %s: %d of %d failed; %s\n", harness_check_names[k], r->failed[k], r->ran[k], r->why[k]);
    fflush(stdout);
}

static void print_json(const harness_row *r, double seconds)
{
    char passed[256], failed[256];
    join(r, false, passed, sizeof passed);
    join(r, true, failed, sizeof failed);
    const char *why = NULL;
    for (int k = HARNESS_CHECKS - 1; k >= 0; k--)
        if (r->failed[k]) why = r->why[k];
    app_json_open();
    app_json_text("name", r->name);
    app_json_bool("pass", r->passed);
    app_json_number("samples", r->samples);
    app_json_text("passed", passed);
    app_json_text("failed", r->failed[HARNESS_REACHED] ? "reached" : failed);
    app_json_text("why", why);
    app_json_bool("device_kernel", r->device);
    app_json_number("seconds", seconds);
    app_json_close();
}

static int find(const char *name)
{
    int n = cj_op_count();
    const char *names[512];
    for (int i = 0; i < n; i++)
        if (strcmp(cj_op_at(i).name, name) == 0) return i;
    for (int i = 0; i < n && i < 512; i++) names[i] = cj_op_at(i).name;
    const char *nearest = app_nearest(name, names, n < 512 ? n : 512);
    if (nearest) app_error("operator '%s' is unknown; did you mean '%s'?", name, nearest);
    else app_error("operator '%s' is unknown; 'cajal ops' lists them", name);
    return -1;
}

int app_selftest(int argc, char **argv)
{
    const char *device = NULL, *isa = NULL, *seed_text = NULL;
    bool json = false, verbose = false, quick = false;
    const app_option options[] = {
        { "--device", "cpu|cuda", "check the kernels of a device too", &device, NULL },
        { "--isa", "LEVEL", "portable, avx2, avx512 or neon: the level under test (the best of the machine)", &isa, NULL },
        { "--seed", "N", "of values and draws (1)", &seed_text, NULL },
        { "--quick", NULL, "fewer samples per check", NULL, &quick },
        { "--json", NULL, "one object per line", NULL, &json },
        { "-v", NULL, "samples, comparisons and seconds of each operator", NULL, &verbose },
        { 0 },
    };
    const app_usage usage = { .verb = "selftest",
                              .line = "[--device cpu|cuda] [--isa LEVEL] [--seed N] [--quick] [--json] [-v] [OP ...]",
                              .text = "Checks every operator on this machine: derivatives of first and second order, dtypes, layouts, "
                                      "threads, plans, instruction sets.",
                              .examples = "  cajal selftest\n  cajal selftest --quick softmax matmul\n",
                              .most = 8 };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    long long seed = 1;
    if (seed_text) {
        int status = app_number("--seed", seed_text, 0, &seed);
        if (status) return status;
    }
    int chosen[8];
    for (int i = 0; i < args.words; i++)
        if ((chosen[i] = find(args.word[i])) < 0) return APP_USAGE;
    char message[512] = "";
    harness *h =
        harness_new(&(harness_opts){ .device = device, .isa = isa, .seed = (uint64_t)seed, .quick = quick }, message, sizeof message);
    if (!h) {
        app_error("%s", message);
        return APP_FAILED;
    }
    if (!json)
        printf("isa %s (of %s), device %s, seed %lld%s\n", harness_isa(h), harness_levels(h), device ? device : "cpu", seed,
               quick ? ", quick" : "");
    int passed = 0, failed = 0, agreed = 0, without = 0;
    double begin = now();
    static harness_row row;
    for (int i = 0, n = args.words ? args.words : cj_op_count(); i < n; i++) {
        double from = now();
        harness_run(h, args.words ? chosen[i] : i, &row);
        if (row.passed) passed++;
        else failed++;
        agreed += row.device;
        without += row.no_device_kernel;
        if (json) print_json(&row, now() - from);
        else if (verbose || !row.passed || !quick || args.words) print_row(&row, verbose, now() - from);
    }
    if (json) {
        app_json_open();
        app_json_number("passed", passed);
        app_json_number("failed", failed);
        app_json_number("agree_on_device", agreed);
        app_json_number("without_device_kernel", without);
        app_json_text("isa", harness_isa(h));
        app_json_number("seed", (double)seed);
        app_json_number("seconds", now() - begin);
        app_json_close();
    } else {
        if (device && strcmp(device, "cpu") != 0)
            printf("on %s: %d operators agree with the CPU, %d have no kernel there yet\n", device, agreed, without);
        printf("%d passed, %d failed (%s, seed %lld, %s)\n", passed, failed, harness_isa(h), seed, app_seconds(now() - begin));
    }
    harness_free(h);
    return failed ? APP_FAILED : APP_OK;
}
