/* Benchmarks that live on memory bandwidth: an elementwise chain, and the operators over rows (softmax, layer norm, cross-entropy). */
#include <cajal/cajal.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/nets.h"

/* A planned function of fixed inputs. */
typedef struct planned {
    cj_ctx *c;
    cj_tensor *in[2];
    int n;
    cj_tensor *weight, *bias; /* layer norm */
    cj_plan *plan;
} planned;

static bool replay(void *arg)
{
    planned *p = arg;
    return cj_replay(p->plan, p->in, NULL);
}

static bool capture(planned *p, cj_step_fn fn)
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

/* ---- elementwise: y = gelu(a·x + b)·sigmoid(x) + x ------------------------------------------------------------------------------------------ */

static cj_tensor *chain(cj_tensor *x)
{
    cj_tensor *h = cj_gelu(cj_add_scalar(cj_mul_scalar(x, 1.5), 0.25));
    return cj_add(cj_mul(h, cj_sigmoid(x)), x);
}

static void chain_forward(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = chain(in[0]);
}

static void chain_backward(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *x = cj_require_grad(in[0]);
    cj_grad(chain(x), &x, 1, out, .seed = in[1]);
}

static bool chain_new(planned *p, int threads, int64_t n, bool backward)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *p = (planned){ .c = c, .n = backward ? 2 : 1 };
    for (int i = 0; i < p->n; i++) p->in[i] = cj_keep(cj_randn(c, CJ_SHAPE(n)));
    return cj_ok(c) && capture(p, backward ? chain_backward : chain_forward);
}

bool bench_chain_stats(cj_plan_stats *forward, cj_plan_stats *backward)
{
    for (int b = 0; b < 2; b++) {
        planned p;
        bool ok = chain_new(&p, 1, 1024, b);
        *(b ? backward : forward) = cj_plan_statistics(p.plan);
        if (!ok) app_fail(p.c);
        cj_ctx_free(p.c);
        if (!ok) return false;
    }
    return true;
}

bool bench_elementwise(bench_run *r)
{
    int64_t n = r->quick ? 10000000 : 100000000;
    size_t need = (size_t)n * 4 * 12; /* the traced run keeps the chain's values for backward */
    while (n > 10000000 && need > bench_free_memory()) n /= 10, need /= 10;
    if (!r->quick && n < 100000000) bench_note(r, "elementwise: too little free memory for 10^8 floats, %lld are used", (long long)n);
    for (int b = 0; b < 2; b++) {
        planned p;
        bool ok = chain_new(&p, r->threads, n, b);
        double time[99], limit[99], share[99];
        for (int i = 0; i < r->rounds && ok; i++) {
            time[i] = bench_burst(replay, &p, r->seconds);
            limit[i] = bench_copy_rate(r, (size_t)n * 8);
            share[i] = (double)n * (b ? 12 : 8) / time[i] / limit[i];
            ok = isfinite(time[i]);
        }
        if (ok) {
            double s = bench_median(share, r->rounds);
            bench_print(r, (bench_row){ .name = b ? "elementwise backward" : "elementwise forward",
                                        .value = (double)n * (b ? 12e-9 : 8e-9) / bench_median(time, r->rounds),
                                        .unit = "GB/s",
                                        .limit_share = s,
                                        .peer = "streaming copy",
                                        .peer_value = 1e-9 * bench_median(limit, r->rounds),
                                        .ratio = s,
                                        .target = "limit >= 85%",
                                        .met = s >= 0.85 ? 1 : -1 });
        } else {
            app_fail(p.c);
        }
        cj_ctx_free(p.c);
        if (!ok) return false;
    }
    return true;
}

/* ---- rows: forward and backward ----------------------------------------------------------------------------------------------------------------- */

static void softmax_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_softmax(x, -1);
    cj_grad(out[0], &x, 1, out + 1, .seed = in[1]);
}

static void layernorm_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    planned *p = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_layer_norm(x, p->weight, p->bias, 1e-5);
    cj_grad(out[0], CJ_TENSORS(x, p->weight, p->bias), 3, out + 1, .seed = in[1]);
}

static void cross_entropy_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_cross_entropy(x, in[1]);
    cj_grad(out[0], &x, 1, out + 1);
}

typedef struct row_op {
    const char *name;
    cj_step_fn step;
    bool classes; /* the second input is a class per row, not a gradient */
    double bytes; /* moved per element at least: x -> y, then y (or x), dy -> dx; cross-entropy: x, then x -> dx */
} row_op;

static bool row_new(planned *p, const row_op *op, int threads, int64_t rows, int64_t n)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *p = (planned){ .c = c, .n = 2 };
    p->in[0] = cj_keep(cj_randn(c, CJ_SHAPE(rows, n)));
    p->in[1] = cj_keep(op->classes ? cj_randint(c, 0, n, CJ_SHAPE(rows)) : cj_randn(c, CJ_SHAPE(rows, n)));
    p->weight = cj_param(cj_ones(c, CJ_SHAPE(n), CJ_F32));
    p->bias = cj_param(cj_zeros(c, CJ_SHAPE(n), CJ_F32));
    return cj_ok(c) && capture(p, op->step);
}

static bool bench_rows(bench_run *r, const row_op *op)
{
    static const int64_t size[][2] = { { 128, 10 }, { 1024, 1024 }, { 2048, 256 }, { 512, 50257 } }; /* as in peer_rows.py */
    bench_peer *peers = bench_peers_open(r, "peer_rows.py", op->name);
    bool ok = true;
    for (int i = 0; i < 4 && ok; i++) {
        if (i && peers && !bench_peers_next(peers)) {
            bench_peers_close(peers);
            peers = NULL;
        }
        planned p;
        ok = row_new(&p, op, r->threads, size[i][0], size[i][1]);
        bench_work work = { .step = replay, .arg = &p };
        ok = ok && bench_compare(r, &work, 1, peers);
        if (ok) {
            double elements = (double)(size[i][0] * size[i][1]);
            char name[48];
            snprintf(name, sizeof name, "%s %lldx%lld", op->name, (long long)size[i][0], (long long)size[i][1]);
            bench_print(r,
                        (bench_row){ .name = name,
                                     .value = 1e6 * work.time,
                                     .unit = "us",
                                     .limit_share = elements * op->bytes / work.time / bench_copy_rate(r, (size_t)(elements * op->bytes)),
                                     .peer = work.peer,
                                     .peer_value = 1e6 * work.peer_time,
                                     .ratio = work.ratio,
                                     .target = "ratio >= 1.5",
                                     .met = isnan(work.ratio)   ? 0
                                            : work.ratio >= 1.5 ? 1
                                                                : -1 });
        } else {
            app_fail(p.c);
        }
        cj_ctx_free(p.c);
    }
    bench_peers_close(peers);
    return ok;
}

bool bench_softmax(bench_run *r) { return bench_rows(r, &(row_op){ "softmax", softmax_step, false, 20 }); }
bool bench_layernorm(bench_run *r) { return bench_rows(r, &(row_op){ "layernorm", layernorm_step, false, 20 }); }
bool bench_cross_entropy(bench_run *r) { return bench_rows(r, &(row_op){ "cross_entropy", cross_entropy_step, true, 12 }); }
