/* Benchmarks that live on memory bandwidth: an elementwise chain, and the operators over rows (softmax, layer norm, cross-entropy). */
#include <cajal/cajal.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/nets.h"
#include "bench/planned.h"

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

static bool chain_new(bench_planned *p, int threads, int64_t n, bool backward)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *p = (bench_planned){ .c = c, .n = backward ? 2 : 1 };
    for (int i = 0; i < p->n; i++) p->in[i] = cj_keep(cj_randn(c, CJ_SHAPE(n)));
    return cj_ok(c) && bench_planned_capture(p, backward ? chain_backward : chain_forward);
}

bool bench_chain_stats(cj_plan_stats *forward, cj_plan_stats *backward)
{
    for (int b = 0; b < 2; b++) {
        bench_planned p;
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
        bench_planned p;
        bool ok = chain_new(&p, r->threads, n, b);
        double time[99], limit[99], share[99];
        for (int i = 0; i < r->rounds && ok; i++) {
            time[i] = bench_burst(bench_planned_replay, &p, r->seconds);
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
    bench_planned *p = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_layer_norm(x, p->param[0], p->param[1], 1e-5);
    cj_grad(out[0], CJ_TENSORS(x, p->param[0], p->param[1]), 3, out + 1, .seed = in[1]);
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

typedef struct row_size {
    int64_t rows, n;
    bool classes;
} row_size;

static void row_make(bench_planned *p)
{
    cj_ctx *c = p->c;
    const row_size *z = p->arg;
    p->n = 2;
    p->in[0] = cj_keep(cj_randn(c, CJ_SHAPE(z->rows, z->n)));
    p->in[1] = cj_keep(z->classes ? cj_randint(c, 0, z->n, CJ_SHAPE(z->rows)) : cj_randn(c, CJ_SHAPE(z->rows, z->n)));
    p->param[0] = cj_param(cj_ones(c, CJ_SHAPE(z->n), CJ_F32));
    p->param[1] = cj_param(cj_zeros(c, CJ_SHAPE(z->n), CJ_F32));
}

static bool bench_rows(bench_run *r, const row_op *op)
{
    row_size size[] = { { 128, 10, 0 }, { 1024, 1024, 0 }, { 2048, 256, 0 }, { 512, 50257, 0 } }; /* as in peer_rows.py */
    enum { N = sizeof size / sizeof *size };
    bench_case cases[N];
    char name[N][48];
    for (int i = 0; i < N; i++) {
        size[i].classes = op->classes;
        snprintf(name[i], sizeof name[i], "%s %lldx%lld", op->name, (long long)size[i].rows, (long long)size[i].n);
        cases[i] = (bench_case){ .name = name[i],
                                 .make = row_make,
                                 .step = op->step,
                                 .arg = &size[i],
                                 .bytes = (double)(size[i].rows * size[i].n) * op->bytes,
                                 .target = 1.5 };
    }
    return bench_cases(r, "peer_rows.py", op->name, cases, N);
}

bool bench_softmax(bench_run *r) { return bench_rows(r, &(row_op){ "softmax", softmax_step, false, 20 }); }
bool bench_layernorm(bench_run *r) { return bench_rows(r, &(row_op){ "layernorm", layernorm_step, false, 20 }); }
bool bench_cross_entropy(bench_run *r) { return bench_rows(r, &(row_op){ "cross_entropy", cross_entropy_step, true, 12 }); }
