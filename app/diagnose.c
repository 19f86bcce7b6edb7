/* cajal train --diagnose: what an experienced eye looks at before a long training. */
#include <math.h>
#include <stdio.h>

#include "app/app.h"

static cj_module *make(void *user) { return app_build(user); }

static void print_finding(const cj_finding *f, bool json)
{
    if (json) {
        app_json_open();
        app_json_text("what", f->what);
        app_json_number("found", f->found);
        app_json_number("low", f->low);
        app_json_number("high", f->high);
        app_json_bool("healthy", f->healthy);
        app_json_text("advice", f->advice);
        app_json_close();
        return;
    }
    printf("  %-4s  %-46s %9.3g   (healthy: %g to %g)\n", f->healthy ? "ok" : "LOOK", f->what, f->found, f->low, f->high);
    if (!f->healthy) printf("        %s\n", f->advice);
}

static int find_rate(app_job *j, const cj_diagnose_opts *o, bool json)
{
    static const char *const kind[] = { "slow", "good", "explodes" };
    cj_lr_trial trial[9];
    for (int i = 0; i < 9; i++) trial[i].lr = pow(10, -5 + 0.5 * i);
    double best = (cj_lr_find)(j->ctx, make, j, &j->train, trial, 9, o);
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    if (json) {
        app_json_open();
        app_json_number("lr", best);
        app_json_close();
        return APP_OK;
    }
    printf("\nThe loss after %lld steps (Adam) with rates from 1e-5 to 0.1:\n", (long long)(o->steps ? o->steps : 30));
    for (int i = 0; i < 9; i++)
        printf("  lr=%-8.2g %10.4f  %s%s\n", trial[i].lr, trial[i].loss, kind[trial[i].kind],
               trial[i].lr == best ? "  <- the best of them" : "");
    if (isnan(best)) printf("  none of them leads anywhere: see above\n");
    return APP_OK;
}

int app_diagnose(const app_run *run)
{
    app_job j;
    int status = app_job_open(&j, &run->job);
    if (status == APP_OK && (j.model->fit || j.model->step))
        status = app_error("%s is not trained by the gradient of one loss: there is nothing to diagnose", j.model->name);
    if (status == APP_OK) {
        app_cancel_on_signal(j.ctx);
        cj_diagnose_opts o = { .task = j.task,
                               .model = j.model,
                               .classes = j.task == CJ_TASK_CLASSIFY || j.task == CJ_TASK_NEXT_TOKEN ? j.data->classes : 0,
                               .lr = cj_settings_get(j.settings, "lr"),
                               .batch = (int64_t)cj_settings_get(j.settings, "batch") };
        cj_finding f[8];
        int n = (cj_diagnose)(j.ctx, make, &j, &j.train, f, 8, &o), sick = 0;
        if (!run->json && n >= 0) printf("%s on %s, lr=%g:\n\n", j.model->name, j.data->name, o.lr);
        for (int i = 0; i < n; i++) print_finding(&f[i], run->json), sick += !f[i].healthy;
        if (n < 0) status = app_fail(j.ctx);
        else status = find_rate(&j, &o, run->json);
        if (status == APP_OK && !run->json) printf("\n%s\n", sick ? "Something to look at." : "Nothing stands in the way of a training.");
    }
    app_job_close(&j);
    return status;
}
