/* Training steps that programs written in C are known for, beside the rates recorded of them.
 *
 *     KANN, mnist-mlp   784-64-10, ReLU, batch 64, RMSprop                              87 000 samples/s, one thread
 *     KANN, mnist-cnn   two convolutions 3x3 of 32 maps, pool, 128-10, batch 64, RMSprop    397 samples/s, one thread
 *     llm.c             GPT-2 124M on the CPU, 4 texts of 64 symbols, AdamW                  43 tokens/s, two threads
 *
 * These programs are not installed and not run: the rates are those recorded on a machine with two AVX-512 cores of 115 GFLOP/s each, so beside the ratio
 * stands our share of this machine's own limit.  Dropout, which the KANN examples also use, is left out: it costs them a few per cent. */
#include <stdio.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/nets.h"

typedef struct program {
    const char *name, *peer, *unit;
    double rate;  /* of the peer: items a second */
    double items; /* of a step of ours */
    double macs;  /* of a step */
    double target;
} program;

static void measure(bench_run *r, bench_net *t, bool ok, const program *p)
{
    bench_work work = { .step = bench_net_replay, .arg = t };
    if (ok && bench_compare(r, &work, 1, NULL)) {
        double rate = p->items / work.time;
        char target[32];
        snprintf(target, sizeof target, "ratio >= %.3g", p->target);
        bench_print(r, (bench_row){ .name = p->name,
                                    .value = rate,
                                    .unit = p->unit,
                                    .limit_share = 2 * p->macs / work.time / bench_fma_peak(r),
                                    .peer = p->peer,
                                    .peer_value = p->rate,
                                    .ratio = rate / p->rate,
                                    .target = target,
                                    .met = rate >= p->target * p->rate ? 1 : -1 });
    } else {
        app_fail(t->c);
    }
}

enum { IMAGES = 64, BATCHES = 16 }; /* of 28 x 28 */

static bool images(bench_net *t, cj_module *net, cj_shape batches)
{
    t->net = net;
    t->opt = cj_rmsprop(cj_module_params(net), .lr = 1e-3);
    t->x = cj_keep(cj_rand(t->c, batches));
    t->y = cj_keep(cj_randint(t->c, 0, 10, CJ_SHAPE(BATCHES, IMAGES)));
    return cj_ok(t->c) && bench_net_capture(t);
}

static bool small_mlp(bench_run *r)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads });
    bench_net t = { .c = c, .batches = BATCHES };
    cj_module *net = cj_sequential(c, cj_linear(c, 784, 64), cj_relu_layer(c), cj_linear(c, 64, 10));
    bool ok = images(&t, net, CJ_SHAPE(BATCHES, IMAGES, 784));
    measure(r, &t, ok,
            &(program){ .name = "mlp 784-64-10",
                        .peer = "KANN, recorded",
                        .unit = "samples/s",
                        .rate = 87e3,
                        .items = IMAGES,
                        .macs = IMAGES * (2 * 784.0 * 64 + 3 * 64.0 * 10),
                        .target = 4 });
    bench_net_free(&t);
    return ok;
}

static bool small_cnn(bench_run *r)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads });
    bench_net t = { .c = c, .batches = BATCHES };
    cj_module *net = cj_sequential(c, cj_conv_layer(c, 1, 32, CJ_SHAPE(3, 3)), cj_relu_layer(c), cj_conv_layer(c, 32, 32, CJ_SHAPE(3, 3)),
                                   cj_relu_layer(c), cj_max_pool_layer(c, .kernel = 2), cj_flatten_layer(c),
                                   cj_linear(c, 12 * 12 * 32, 128), cj_relu_layer(c), cj_linear(c, 128, 10));
    bool ok = images(&t, net, CJ_SHAPE(BATCHES, IMAGES, 1, 28, 28));
    double conv1 = 26.0 * 26 * 9 * 32, conv2 = 24.0 * 24 * 9 * 32 * 32, dense = 12.0 * 12 * 32 * 128 + 1280;
    measure(r, &t, ok,
            &(program){ .name = "cnn 32-32-128-10",
                        .peer = "KANN, recorded",
                        .unit = "samples/s",
                        .rate = 397,
                        .items = IMAGES,
                        .macs = IMAGES * (2 * conv1 + 3 * (conv2 + dense)),
                        .target = 10 });
    bench_net_free(&t);
    return ok;
}

static bool gpt2(bench_run *r)
{
    const bench_gpt_shape g = { .layers = 12, .dim = 768, .heads = 12, .context = 64, .vocabulary = 50257, .batch = 4, .tied = true };
    bench_net t;
    bool ok = bench_gpt_new(&t, r->threads, &g);
    measure(r, &t, ok,
            &(program){ .name = "gpt-2 124M",
                        .peer = "llm.c, recorded",
                        .unit = "tokens/s",
                        .rate = 43,
                        .items = (double)g.batch * g.context,
                        .macs = bench_gpt_macs(&g),
                        .target = 5 });
    bench_net_free(&t);
    return ok;
}

bool bench_programs(bench_run *r) { return small_mlp(r) && small_cnn(r) && gpt2(r); }
