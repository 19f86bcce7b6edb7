/* Planned steps of single operators beside the same in PyTorch (planned.h). */
#include "bench/planned.h"

#include <math.h>
#include <stdio.h>

#include "app/app.h"

bool bench_planned_replay(void *planned)
{
    bench_planned *p = planned;
    return cj_replay(p->plan, p->in, NULL);
}

bool bench_planned_capture(bench_planned *p, cj_step_fn fn)
{
    cj_scope s = cj_scope_open(p->c);
    cj_tensor *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    p->plan = cj_capture(p->c, fn, p, p->in, p->n, out);
    cj_scope_close(s);
    cj_memory_trim(p->c);
    for (int i = 0; i < 2 && p->plan; i++) {
        s = cj_scope_open(p->c);
        cj_replay(p->plan, p->in, out);
        cj_scope_close(s);
        cj_memory_trim(p->c); /* what the traced run held */
    }
    return cj_ok(p->c);
}

static double larger(double a, double b) { return a > b ? a : b; }

static void print_case(bench_run *r, const bench_case *k, const bench_work *work)
{
    double limit = 0; /* seconds */
    if (k->bytes > 0) limit = k->bytes / bench_copy_rate(r, (size_t)k->bytes);
    if (k->flops > 0 && isfinite(bench_fma_peak(r))) limit = larger(limit, k->flops / bench_fma_peak(r));
    double share = limit > 0 ? limit / work->time : NAN;
    bool met = work->ratio >= k->target || (share >= 0.8 && work->ratio >= 0.95);
    char target[48];
    snprintf(target, sizeof target, "ratio >= %.3g%s", k->target, k->bytes > 0 || k->flops > 0 ? ", or limit >= 80%" : "");
    bench_print(r, (bench_row){ .name = k->name,
                                .value = 1e6 * work->time,
                                .unit = "us",
                                .limit_share = share,
                                .peer = work->peer,
                                .peer_value = 1e6 * work->peer_time,
                                .ratio = work->ratio,
                                .target = k->target > 0 ? target : NULL,
                                .met = isnan(work->ratio) || k->target <= 0 ? 0
                                       : met                                ? 1
                                                                            : -1 });
}

bool bench_cases(bench_run *r, const char *script, const char *argument, const bench_case *cases, int n)
{
    bench_peer *peers = bench_peers_open(r, script, argument);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        if (i && peers && !bench_peers_next(peers)) {
            bench_peers_close(peers);
            peers = NULL;
        }
        bench_planned p = { .c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads }), .arg = cases[i].arg };
        cases[i].make(&p);
        bench_work work = { .step = bench_planned_replay, .arg = &p };
        ok = cj_ok(p.c) && bench_planned_capture(&p, cases[i].step) && bench_compare(r, &work, 1, peers);
        if (ok) print_case(r, &cases[i], &work);
        else app_fail(p.c);
        cj_ctx_free(p.c);
    }
    bench_peers_close(peers);
    return ok;
}
