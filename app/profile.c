/* cajal profile: where the time of a training step goes. */
#include <stdio.h>
#include <string.h>

#include <math.h>

#include "app/app.h"
#include "bench/bench.h"

enum { ROWS = 64, SMALL = 1 << 16 };

/* Share of the machine's limit that an operator reached: the time of its multiply-adds at the processor's peak, or of its bytes at the rate of the best copy of as
 * many bytes, whichever is longer, over its time.  NAN for calls too small to be more than a call, and on a device. */
static double share_of_limit(bench_run *limits, const cj_profile_row *p)
{
    double bytes = p->bytes / (double)p->calls, flops = p->flops / (double)p->calls;
    if (!limits || bytes + flops < SMALL) return NAN;
    double moving = bytes / bench_copy_rate(limits, (size_t)fmin(bytes, 1 << 28)), computing = flops / bench_fma_peak(limits);
    return fmax(moving, computing) * (double)p->calls / p->seconds;
}

static int profile(app_job *j, long long steps, const char *trace, bool plan, bool json)
{
    cj_train_opts o = cj_settings_train_opts(j->settings);
    o.task = j->task;
    o.model = j->model;
    o.eager = !plan;
    o.steps = 2; /* memory and caches are warm after two steps */
    (cj_train)(j->net, &j->train, &o);
    o.steps = steps;
    if (!cj_profile_start(j->ctx)) return app_fail(j->ctx);
    cj_train_result r = (cj_train)(j->net, &j->train, &o);
    cj_profile_row row[ROWS];
    int n = cj_profile_stop(j->ctx, row, ROWS);
    if (!r.finished) return app_fail(j->ctx);
    double all = 0;
    for (int i = 0; i < n && i < ROWS; i++) all += row[i].seconds;
    if (!json)
        printf("%s on %s, %lld steps, %s, %s %s, %d threads: %.3f ms per step, %.3f ms of it in %s\n\n%-22s %8s %10s %7s %10s "
               "%10s %9s %9s %9s\n",
               j->model->name, j->data->name, steps, plan ? "planned" : "eager", cj_ctx_device(j->ctx), cj_ctx_isa(j->ctx),
               cj_ctx_threads(j->ctx), 1e3 * r.seconds / (double)steps, 1e3 * all / (double)steps, plan ? "kernels" : "operators",
               plan ? "kernel" : "operator", "calls", "ms", "share", "bytes", "flops", "GB/s", "GFLOP/s", "of limit");
    bench_run limits = { .threads = cj_ctx_threads(j->ctx), .seconds = 0.01, .rounds = 1 };
    bool host = strcmp(cj_ctx_device(j->ctx), "cpu") == 0;
    for (int i = 0; i < n && i < ROWS; i++) {
        const cj_profile_row *p = &row[i];
        double s = p->seconds > 0 ? p->seconds : 1e-12, limit = share_of_limit(host ? &limits : NULL, p);
        if (!json) {
            char text[16] = "-";
            if (isfinite(limit)) snprintf(text, sizeof text, "%.0f%%", 100 * limit);
            printf("%-22s %8llu %10.3f %6.1f%% %10s %10.3g %9.2f %9.2f %9s\n", p->op, (unsigned long long)p->calls, 1e3 * p->seconds,
                   all > 0 ? 100 * p->seconds / all : 0, app_bytes(p->bytes), p->flops, 1e-9 * p->bytes / s, 1e-9 * p->flops / s, text);
            continue;
        }
        app_json_open();
        app_json_text("op", p->op);
        app_json_number("calls", (double)p->calls);
        app_json_number("seconds", p->seconds);
        app_json_number("share", all > 0 ? p->seconds / all : 0);
        app_json_number("bytes", p->bytes);
        app_json_number("flops", p->flops);
        app_json_number("limit_share", limit);
        app_json_close();
    }
    if (!cj_profile_trace(j->ctx, trace)) return app_fail(j->ctx);
    if (!json) printf("\n%s: the steps as a Chrome trace (chrome://tracing, ui.perfetto.dev)\n", trace);
    return APP_OK;
}

int app_profile(int argc, char **argv)
{
    const char *data = NULL, *device = NULL, *threads = NULL, *steps = "20", *trace = "trace.json";
    bool json = false, plan = false;
    const app_option options[] = {
        { "--data", "NAME", "data set; digits, or for texts sources", &data, NULL },
        { "--steps", "N", "training steps to measure; 20 by default", &steps, NULL },
        { "--trace", "FILE", "where the Chrome trace goes; trace.json by default", &trace, NULL },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { "--plan", NULL, "the captured plan's kernels instead of the operators, one by one", NULL, &plan },
        { "--json", NULL, "one object per operator", NULL, &json },
        { 0 },
    };
    const app_usage usage = { .verb = "profile",
                              .line = "MODEL [--data NAME] [--steps N] [--plan] [--trace FILE] [key=value ...]",
                              .least = 1,
                              .most = 1,
                              .settings = true,
                              .text = "Runs training steps of a model and prints, for each operator, time, bytes, floating-point "
                                      "operations and the share of the machine's\n"
                                      "limit: the peak of multiply-adds or the best copy of as many bytes, measured in the same run.",
                              .examples = "  cajal profile mlp hidden=512 batch=128\n  cajal profile gpt --plan --steps 5\n" };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    long long n;
    if (app_number("--steps", steps, 1, &n)) return APP_USAGE;
    app_job j;
    int status = app_job_open(&j, &(app_job_opts){ .model = args.word[0],
                                                   .data = data,
                                                   .device = device,
                                                   .threads = threads,
                                                   .setting = args.setting,
                                                   .settings = args.settings });
    if (status == APP_OK) {
        app_cancel_on_signal(j.ctx);
        status = profile(&j, n, trace, plan, json);
    }
    app_job_close(&j);
    return status;
}
