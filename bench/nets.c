/* Benchmarks of whole planned training steps: a multi-layer perceptron, a GPT, and how good their plans are. */
#include "bench/nets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/peers.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* ---- memory -------------------------------------------------------------------------------------------------------------------------------- */

/* Bytes of a line of /proc/self/status; NAN where there is none. */
static double status(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    double kilobytes = NAN;
    size_t n = strlen(key);
    while (f && isnan(kilobytes) && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && line[n] == ':') kilobytes = strtod(line + n + 1, NULL);
    if (f) fclose(f);
    return 1024 * kilobytes;
}

static bool forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    bool ok = f && fputs("5", f) >= 0;
    return f && fclose(f) == 0 && ok;
}

double bench_memory_begin(cj_ctx *c)
{
    cj_memory_trim(c);
#ifdef __GLIBC__
    malloc_trim(0); /* what the benchmark before left */
#endif
    return forget_peak() ? status("VmRSS") : NAN;
}

double bench_memory_since(double before) { return status("VmHWM") - before; }

void bench_memory_row(bench_run *r, const char *net, const char *peer, double ours, double theirs)
{
    char name[64];
    snprintf(name, sizeof name, "%s memory", net);
    bench_print(r, (bench_row){ .name = name,
                                .value = 1e-6 * ours,
                                .unit = "MB",
                                .limit_share = NAN,
                                .peer = peer,
                                .peer_value = 1e-6 * theirs,
                                .ratio = theirs / ours,
                                .target = "ratio >= 1.67",
                                .met = isfinite(theirs / ours) ? (ours <= 0.6 * theirs ? 1 : -1) : 0 });
}

/* ---- a step with rotating batches --------------------------------------------------------------------------------------------------------- */

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    bench_net *t = user;
    out[0] = cj_cross_entropy(cj_forward(t->net, in[0]), in[1]);
    cj_minimise(t->opt, out[0]);
}

static void batch(bench_net *t, int i, cj_tensor **in)
{
    if (t->y) { /* [batches, ...] each */
        in[0] = cj_select(t->x, 0, i);
        in[1] = cj_select(t->y, 0, i);
    } else { /* symbols [batches, B, T + 1]: the next one is the target */
        cj_tensor *x = cj_select(t->x, 0, i);
        int64_t T = cj_size(x, 1) - 1;
        in[0] = cj_slice(x, 1, 0, T, 1);
        in[1] = cj_slice(x, 1, 1, T + 1, 1);
    }
}

bool bench_net_replay(void *arg)
{
    bench_net *t = arg;
    cj_scope s = cj_scope_open(t->c);
    cj_tensor *in[2];
    batch(t, t->next++ % t->batches, in);
    cj_replay(t->plan, in, NULL);
    cj_scope_close(s);
    return cj_ok(t->c);
}

bool bench_net_capture(bench_net *t)
{
    cj_scope s = cj_scope_open(t->c);
    cj_tensor *in[2], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    batch(t, 0, in);
    t->plan = cj_capture(t->c, step, t, in, 2, out);
    cj_scope_close(s);
    for (int i = 0; i < 3 && t->plan; i++) { /* each without what the one before held */
        cj_memory_trim(t->c);
        bench_net_replay(t);
    }
    t->memory = bench_memory_since(t->before);
    return cj_ok(t->c);
}

/* 784-512-512-10, ReLU, Adam: as a_mlp.py. */
bool bench_mlp_new(bench_net *t, int threads)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *t = (bench_net){ .c = c, .batches = 16 };
    t->net = cj_sequential(c, cj_linear(c, 784, 512), cj_relu_layer(c), cj_linear(c, 512, 512), cj_relu_layer(c), cj_linear(c, 512, 10));
    t->x = cj_keep(cj_rand(c, CJ_SHAPE(16, 128, 784)));
    t->y = cj_keep(cj_randint(c, 0, 10, CJ_SHAPE(16, 128)));
    t->before = bench_memory_begin(c);
    t->opt = cj_adam(cj_module_params(t->net), .lr = 1e-3);
    return cj_ok(c) && bench_net_capture(t);
}

static double gpt_setting(const void *settings, const char *key)
{
    const bench_gpt_shape *g = settings;
    if (strcmp(key, "layers") == 0) return g->layers;
    if (strcmp(key, "dim") == 0) return g->dim;
    if (strcmp(key, "heads") == 0) return g->heads;
    if (strcmp(key, "context") == 0) return g->context;
    if (strcmp(key, "tied") == 0) return g->tied;
    return 0; /* no dropout */
}

/* The zoo's gpt with AdamW. */
bool bench_gpt_new(bench_net *t, int threads, const bench_gpt_shape *g)
{
    extern const cj_model cj_model_gpt;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *t = (bench_net){ .c = c, .batches = 8 };
    t->net = cj_model_gpt.build(c, &(cj_model_data){ .inputs = g->vocabulary, .outputs = g->vocabulary }, &(cj_options){ gpt_setting, g });
    t->x = cj_keep(cj_randint(c, 0, g->vocabulary, CJ_SHAPE(8, g->batch, g->context + 1)));
    t->before = bench_memory_begin(c);
    t->opt = cj_adamw(cj_module_params(t->net), .lr = 3e-4);
    return cj_ok(c) && bench_net_capture(t);
}

double bench_gpt_macs(const bench_gpt_shape *g)
{
    double tokens = (double)g->batch * g->context, d = g->dim, T = g->context;
    /* forward and two products of the same size backward; of the attention only what the causal mask leaves */
    return 3 * tokens * (g->layers * (12 * d * d + 2 * d * T / 2) + d * g->vocabulary);
}

void bench_net_free(bench_net *t) { cj_ctx_free(t->c); }

void bench_step_row(bench_run *r, const char *name, const bench_work *work, double limit, double ratio, double share_asked)
{
    double share = limit > 0 ? limit / work->time : NAN;
    char target[64];
    if (share_asked > 0) snprintf(target, sizeof target, "ratio >= %.3g, or limit >= %.0f%%", ratio, 100 * share_asked);
    else snprintf(target, sizeof target, "ratio >= %.3g", ratio);
    bool met = work->ratio >= ratio || (share_asked > 0 && share >= share_asked && work->ratio >= 1);
    bench_print(r, (bench_row){ .name = name,
                                .value = 1e3 * work->time,
                                .unit = "ms",
                                .limit_share = share,
                                .peer = work->peer,
                                .peer_value = 1e3 * work->peer_time,
                                .ratio = work->ratio,
                                .target = target,
                                .met = isnan(work->ratio) ? 0
                                       : met              ? 1
                                                          : -1 });
}

/* ---- mlp, gpt -------------------------------------------------------------------------------------------------------------------------------- */

static const bench_gpt_shape f_gpt = { .layers = 4, .dim = 256, .heads = 8, .context = 128, .vocabulary = 96, .batch = 16 };

bool bench_mlp(bench_run *r)
{
    bench_net t;
    bool ok = bench_mlp_new(&t, r->threads);
    bench_work work = { .step = bench_net_replay, .arg = &t };
    double peak = bench_fma_peak(r);
    if (ok) {
        bench_peer *peers = bench_peers_open(r, "a_mlp.py", NULL);
        ok = bench_compare(r, &work, 1, peers);
        /* forward, dW and (not for the first layer) dX */
        double flops = 2.0 * 128 * (2 * 784 * 512 + 3 * (512 * 512 + 512 * 10));
        if (ok) bench_step_row(r, "mlp", &work, flops / peak, 1.4, 0.8);
        if (ok) bench_memory_row(r, "mlp", work.peer, t.memory, bench_peers_memory(peers));
        bench_peers_close(peers);
    }
    if (!ok) app_fail(t.c);
    bench_net_free(&t);
    return ok;
}

bool bench_gpt(bench_run *r)
{
    const bench_gpt_shape *g = &f_gpt;
    bench_net t;
    bool ok = bench_gpt_new(&t, r->threads, g);
    bench_work work = { .step = bench_net_replay, .arg = &t };
    double peak = bench_fma_peak(r);
    if (ok) {
        bench_peer *peers = bench_peers_open(r, "f_gpt.py", NULL);
        ok = bench_compare(r, &work, 1, peers);
        if (ok) bench_step_row(r, "gpt", &work, 2 * bench_gpt_macs(g) / peak, 1.4, 0.8);
        if (ok) bench_memory_row(r, "gpt", work.peer, t.memory, bench_peers_memory(peers));
        bench_peers_close(peers);
    }
    if (!ok) app_fail(t.c);
    bench_net_free(&t);
    return ok;
}

/* ---- plan quality ------------------------------------------------------------------------------------------------------------------------------- */

static void print_count(bench_run *r, const char *name, double value, const char *unit, double most, const char *target)
{
    bench_print(r, (bench_row){ .name = name,
                                .value = value,
                                .unit = unit,
                                .limit_share = NAN,
                                .peer_value = NAN,
                                .ratio = NAN,
                                .target = target,
                                .met = value <= most ? 1 : -1 });
}

static void print_plan(bench_run *r, const char *net, cj_plan_stats s)
{
    char name[64];
    snprintf(name, sizeof name, "plan %s bytes/bound", net);
    print_count(r, name, (double)s.bytes / (double)s.bound, "", 1.15, "<= 1.15");
    snprintf(name, sizeof name, "plan %s allocations", net);
    print_count(r, name, (double)s.allocations, "a replay", 0, "0");
    bench_note(r, "%s: %d kernels (%d elementwise) from %d operators, %s planned", net, s.kernels, s.elementwise, s.operators,
               app_bytes((double)s.bytes));
}

bool bench_plan(bench_run *r)
{
    cj_plan_stats forward, backward;
    if (!bench_chain_stats(&forward, &backward)) return false;
    print_count(r, "plan chain forward", forward.kernels, "kernels", 1, "1");
    print_count(r, "plan chain backward", backward.kernels, "kernels", 1, "1");
    bench_net t;
    bool ok = bench_mlp_new(&t, r->threads);
    if (ok) print_plan(r, "mlp", cj_plan_statistics(t.plan));
    else app_fail(t.c);
    bench_net_free(&t);
    bench_gpt_shape g = f_gpt;
    cj_plan_stats s[2];
    for (int more = 0; more < 2 && ok; more++) {
        g.layers = f_gpt.layers + more;
        ok = bench_gpt_new(&t, r->threads, &g);
        if (ok) s[more] = cj_plan_statistics(t.plan);
        else app_fail(t.c);
        bench_net_free(&t);
    }
    if (!ok) return false;
    print_plan(r, "gpt", s[0]);
    print_count(r, "plan gpt block elementwise", s[1].elementwise - s[0].elementwise, "kernels", 12, "<= 12");
    bench_note(r, "a block runs %d kernels, elementwise ones included", s[1].kernels - s[0].kernels);
    return true;
}
