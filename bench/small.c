/* Benchmarks of overhead: one addition, the training step of a tiny net, the start of the program. */
#include <cajal/cajal.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/app.h"
#include "bench/bench.h"

extern char **environ;

/* ---- overhead: one add of 4 floats, eager ----------------------------------------------------------------------------------------------- */

typedef struct addition {
    cj_ctx *c;
    cj_tensor *a, *b;
} addition;

enum { ADDS = 50 }; /* in one scope, as in a small step */

static bool add_many(void *arg)
{
    addition *x = arg;
    cj_scope s = cj_scope_open(x->c);
    for (int i = 0; i < ADDS; i++) cj_add(x->a, x->b);
    cj_scope_close(s);
    return cj_ok(x->c);
}

bool bench_overhead(bench_run *r)
{
    addition x = { .c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }) };
    x.b = cj_keep(cj_from_f32(x.c, (float[]){ 1, 2, 3, 4 }, CJ_SHAPE(4)));
    cj_tensor *plain = cj_keep(cj_from_f32(x.c, (float[]){ 1, 2, 3, 4 }, CJ_SHAPE(4))), *leaf = cj_require_grad(plain);
    bench_work work[2] = { { .step = add_many, .arg = &x }, { .step = add_many, .arg = &x } };
    uint64_t allocs = 0;
    for (int recorded = 0; recorded < 2 && cj_ok(x.c); recorded++) {
        x.a = recorded ? leaf : plain;
        if (!add_many(&x)) break;
        uint64_t before = cj_memory_stats(x.c).system_allocs;
        if (!bench_compare(r, &work[recorded], 1, NULL)) break;
        allocs += cj_memory_stats(x.c).system_allocs - before;
    }
    bool ok = cj_ok(x.c);
    if (!ok) app_fail(x.c);
    cj_ctx_free(x.c);
    if (!ok) return false;
    for (int i = 0; i < 2; i++) {
        double ns = work[i].time * 1e9 / ADDS, most = i ? 100 : 60;
        bench_print(r, (bench_row){ .name = i ? "overhead recorded" : "overhead",
                                    .value = ns,
                                    .unit = "ns",
                                    .limit_share = NAN,
                                    .peer_value = NAN,
                                    .ratio = NAN,
                                    .target = i ? "<= 100 ns" : "<= 60 ns",
                                    .met = ns <= most ? 1 : -1 });
    }
    bench_print(r, (bench_row){ .name = "overhead system allocations",
                                .value = (double)allocs,
                                .unit = "",
                                .limit_share = NAN,
                                .peer_value = NAN,
                                .ratio = NAN,
                                .target = "0",
                                .met = allocs == 0 ? 1 : -1 });
    return true;
}

/* ---- tiny: 2-16-1, tanh, batch 4, BCE, SGD ------------------------------------------------------------------------------------------------ */

typedef struct tiny {
    cj_ctx *c;
    cj_module *net;
    cj_optim *opt;
    cj_tensor *in[2]; /* x, y */
    cj_plan *plan;
} tiny;

static void tiny_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    tiny *t = user;
    out[0] = cj_bce_with_logits(cj_forward(t->net, in[0]), in[1]);
    cj_minimise(t->opt, out[0]);
}

static bool tiny_new(tiny *t)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    *t = (tiny){ .c = c };
    t->net = cj_sequential(c, cj_linear(c, 2, 16), cj_tanh_layer(c), cj_linear(c, 16, 1));
    t->opt = cj_sgd(cj_module_params(t->net), .lr = 0.1);
    t->in[0] = cj_keep(cj_from_f32(c, (float[]){ 0, 0, 0, 1, 1, 0, 1, 1 }, CJ_SHAPE(4, 2)));
    t->in[1] = cj_keep(cj_from_f32(c, (float[]){ 0, 1, 1, 0 }, CJ_SHAPE(4, 1)));
    return cj_ok(c);
}

static bool tiny_eager(void *arg)
{
    tiny *t = arg;
    cj_tensor *out[1];
    cj_scope s = cj_scope_open(t->c);
    tiny_step(t->c, t, t->in, out);
    cj_scope_close(s);
    return cj_ok(t->c);
}

static bool tiny_replay(void *arg)
{
    tiny *t = arg;
    return cj_replay(t->plan, t->in, NULL);
}

static bool tiny_capture(tiny *t)
{
    cj_scope s = cj_scope_open(t->c);
    cj_tensor *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    t->plan = cj_capture(t->c, tiny_step, t, t->in, 2, out);
    for (int i = 0; i < 3 && t->plan; i++) cj_replay(t->plan, t->in, out);
    cj_scope_close(s);
    return cj_ok(t->c);
}

bool bench_tiny(bench_run *r)
{
    tiny eager, plan;
    bool ok = tiny_new(&eager) & tiny_new(&plan) && tiny_capture(&plan);
    bench_work work[2] = { { .step = tiny_eager, .arg = &eager }, { .step = tiny_replay, .arg = &plan } };
    if (ok) {
        bench_peer *peers = bench_peers_open(r, "b_tiny.py", NULL);
        ok = bench_compare(r, work, 2, peers);
        for (int i = 0; i < 2 && ok; i++)
            bench_print(r, (bench_row){ .name = i ? "tiny plan" : "tiny eager",
                                        .value = 1 / work[i].time,
                                        .unit = "steps/s",
                                        .limit_share = NAN,
                                        .peer = work[i].peer,
                                        .peer_value = 1 / work[i].peer_time,
                                        .ratio = work[i].ratio,
                                        .target = i ? "ratio >= 150" : "ratio >= 40",
                                        .met = isnan(work[i].ratio)              ? 0
                                               : work[i].ratio >= (i ? 150 : 40) ? 1
                                                                                 : -1 });
        bench_peers_close(peers);
    }
    if (ok)
        bench_note(r, "%.2f us a step eager, %.2f us planned (%d kernels)", 1e6 * work[0].time, 1e6 * work[1].time,
                   cj_plan_statistics(plan.plan).kernels);
    else app_fail(cj_ok(eager.c) ? plan.c : eager.c);
    cj_ctx_free(eager.c);
    cj_ctx_free(plan.c);
    return ok;
}

/* ---- start: from exec to the end of the first training step -------------------------------------------------------------------------------- */

/* "step" after the first step, then "peak N kB": the most memory that was ever resident, after 1000 planned steps. */
int bench_first_step(void)
{
    tiny t;
    if (!tiny_new(&t) || !tiny_eager(&t)) return app_fail(t.c);
    if (write(1, "step\n", 5) != 5) return APP_FAILED;
    if (!tiny_capture(&t)) return app_fail(t.c);
    for (int i = 0; i < 1000; i++) tiny_replay(&t);
    cj_ctx_free(t.c);
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (f) fclose(f);
    printf("peak %ld kB\n", kb);
    return APP_OK;
}

static bool start_once(double *seconds, long *kb)
{
    char self[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int up[2];
    if (length < 0 || pipe(up)) return false;
    self[length] = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, up[1], 1);
    posix_spawn_file_actions_addclose(&actions, up[0]);
    posix_spawn_file_actions_addclose(&actions, up[1]);
    char name[] = "cajal", verb[] = "bench", option[] = "--first-step";
    pid_t pid;
    double start = bench_now();
    int failed = posix_spawn(&pid, self, &actions, NULL, (char *[]){ name, verb, option, NULL }, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(up[1]);
    char text[256] = "";
    size_t n = 0;
    *seconds = NAN;
    *kb = 0;
    if (!failed) {
        for (ssize_t got; n < sizeof text - 1 && (got = read(up[0], text + n, sizeof text - 1 - n)) > 0; n += (size_t)got)
            if (n == 0) *seconds = bench_now() - start;
        waitpid(pid, NULL, 0);
        const char *peak = strstr(text, "peak ");
        if (peak) *kb = strtol(peak + 5, NULL, 10);
    }
    close(up[0]);
    return !failed && isfinite(*seconds) && *kb > 0;
}

bool bench_start(bench_run *r)
{
    double best = INFINITY, seconds;
    long most = 0, kb;
    for (int i = 0; i < (r->quick ? 5 : 20); i++) {
        if (!start_once(&seconds, &kb)) {
            app_error("start: the program could not be started");
            return false;
        }
        if (seconds < best) best = seconds;
        if (kb > most) most = kb;
    }
    double ms = 1e3 * best, mb = (double)most * 1024e-6;
    bench_print(r, (bench_row){ .name = "start to first step",
                                .value = ms,
                                .unit = "ms",
                                .limit_share = NAN,
                                .peer_value = NAN,
                                .ratio = NAN,
                                .target = "<= 20 ms",
                                .met = ms <= 20 ? 1 : -1 });
    bench_print(r, (bench_row){ .name = "start resident memory",
                                .value = mb,
                                .unit = "MB",
                                .limit_share = NAN,
                                .peer_value = NAN,
                                .ratio = NAN,
                                .target = "<= 30 MB",
                                .met = mb <= 30 ? 1 : -1 });
    return true;
}
