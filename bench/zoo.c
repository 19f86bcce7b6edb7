/* Benchmarks of whole training steps of the zoo's networks, planned, beside the same networks, batches and optimisers in PyTorch.
 *
 * The limit is that of multiply-adds: what the products and convolutions of a step need at least, at the processor's peak.  Memory is what a process has at most
 * over what is resident before the optimiser is made and the first step is taken, for us with capture included, for PyTorch without its import. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/nets.h"
#include "bench/peers.h"

/* ---- a network of the table ------------------------------------------------------------------------------------------------------------- */

typedef struct net {
    const char *name, *script, *argument; /* the peer's */
    const cj_model *model;
    const char *const *settings; /* key=value, ends with NULL */
    cj_model_data data;
    int64_t batch;
    int batches;
    enum { UNIFORM, BINARY, NORMAL } values;
    cj_optim *(*optimiser)(cj_params *p);
    double macs; /* multiply-adds of a step at least */
    double target, share;
} net;

typedef struct running {
    const net *n;
    cj_ctx *c;
    cj_module *module;
    cj_optim *optim[CJ_MAX_PARTS];
    cj_tensor *x, *y; /* [batches, batch, features], [batches, batch] */
    int next;
    cj_plan *plan;
} running;

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    running *t = user;
    const cj_model *m = t->n->model;
    if (m->step) {
        out[0] = m->step(t->module, t->optim, in[0], in[1]);
        return;
    }
    out[0] = m->loss ? m->loss(t->module, in[0], in[1]) : cj_cross_entropy(cj_forward(t->module, in[0]), in[1]);
    cj_minimise(t->optim[0], out[0]);
}

static bool replay(void *arg)
{
    running *t = arg;
    cj_scope s = cj_scope_open(t->c);
    int i = t->next++ % t->n->batches;
    cj_tensor *in[2] = { cj_select(t->x, 0, i), cj_select(t->y, 0, i) };
    if (t->plan) {
        cj_replay(t->plan, in, NULL);
    } else {
        cj_tensor *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
        t->plan = cj_capture(t->c, step, t, in, 2, out);
    }
    cj_scope_close(s);
    return cj_ok(t->c);
}

static bool make_optimisers(running *t)
{
    const char *const *part = t->n->model->parts;
    if (!part) t->optim[0] = t->n->optimiser(cj_module_params(t->module));
    for (int i = 0; part && part[i]; i++) t->optim[i] = t->n->optimiser(cj_module_params(cj_module_find(t->module, part[i])));
    return cj_ok(t->c);
}

static bool make(running *t, const net *n, int threads)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
    *t = (running){ .n = n, .c = c };
    cj_settings *s = cj_settings_new(c, n->model);
    for (const char *const *k = n->settings; k && *k; k++) cj_settings_parse(s, *k);
    cj_options options = cj_settings_options(s);
    if (cj_ok(c)) t->module = n->model->build(c, &n->data, &options);
    cj_scope scope = cj_scope_open(c);
    cj_shape shape = CJ_SHAPE(n->batches, n->batch, n->data.inputs);
    cj_tensor *x = n->values == NORMAL ? cj_randn(c, shape) : cj_rand(c, shape);
    t->x = cj_keep(n->values == BINARY ? cj_cast(cj_lt_scalar(x, 0.2), CJ_F32) : x);
    t->y = cj_keep(cj_randint(c, 0, n->data.outputs, CJ_SHAPE(n->batches, n->batch)));
    cj_scope_close(scope);
    return cj_ok(c);
}

/* ---- one benchmark ---------------------------------------------------------------------------------------------------------------------------- */

static void print_row(bench_run *r, const net *n, const bench_work *work, double ours, double theirs)
{
    bench_step_row(r, n->name, work, 2 * n->macs / bench_fma_peak(r), n->target, n->share);
    bench_memory_row(r, n->name, work->peer, ours, theirs);
}

static bool bench(bench_run *r, const net *n)
{
    running t;
    bool ok = make(&t, n, r->threads);
    double before = bench_memory_begin(t.c);
    ok = ok && make_optimisers(&t);
    for (int i = 0; i < 4 && ok; i++) { /* run, traced again, compiled; each without what the one before held */
        cj_memory_trim(t.c);
        ok = replay(&t);
    }
    double memory = bench_memory_since(before);
    bench_work work = { .step = replay, .arg = &t };
    if (ok) {
        bench_peer *peers = bench_peers_open(r, n->script, n->argument);
        ok = bench_compare(r, &work, 1, peers);
        if (ok) print_row(r, n, &work, memory, bench_peers_memory(peers));
        bench_peers_close(peers);
    }
    if (!ok) app_fail(t.c);
    cj_ctx_free(t.c);
    return ok;
}

#define WITH(...)                                                                                                                          \
    (const char *const[]) { __VA_ARGS__, NULL }

static cj_optim *momentum(cj_params *p) { return cj_sgd(p, .lr = 0.01, .momentum = 0.9); }
static cj_optim *momentum_decay(cj_params *p) { return cj_sgd(p, .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4); }
static cj_optim *plain(cj_params *p) { return cj_sgd(p, .lr = 0.01); }
static cj_optim *adam(cj_params *p) { return cj_adam(p, .lr = 1e-3); }
static cj_optim *adam_half(cj_params *p) { return cj_adam(p, .lr = 2e-4, .beta1 = 0.5); }

/* A layer needs its value, the gradient of its weights and, unless it is the first, that of its input: three products of one size, or two. */

bool bench_lenet(bench_run *r)
{
    extern const cj_model cj_model_lenet5;
    double conv1 = 28.0 * 28 * 32 * 25, conv2 = 14.0 * 14 * 64 * 25 * 32, fc1 = 3136.0 * 512, fc2 = 512.0 * 10;
    return bench(r, &(net){ .name = "lenet",
                            .script = "c_lenet.py",
                            .model = &cj_model_lenet5,
                            .settings = WITH("c1=32", "c3=64", "c5=512", "f6=0", "border=same", "dropout=0"),
                            .data = { .inputs = 784, .outputs = 10, .channels = 1, .height = 28, .width = 28 },
                            .batch = 64,
                            .batches = 8,
                            .optimiser = momentum,
                            .macs = 64 * (2 * conv1 + 3 * (conv2 + fc1 + fc2)),
                            .target = 1.4,
                            .share = 0.8 });
}

bool bench_resnet18(bench_run *r)
{
    extern const cj_model cj_model_resnet;
    double macs = 2 * 1024.0 * 64 * 27 + 3 * 512.0 * 10, in = 64;
    for (int stage = 0; stage < 4; stage++) {
        double out = 64 << stage, pixels = 1024 >> (2 * stage);
        macs += 3 * pixels * out * (9 * in + 3 * 9 * out + (stage > 0 ? in : 0));
        in = out;
    }
    return bench(r, &(net){ .name = "resnet18",
                            .script = "d_resnet18.py",
                            .argument = "cl", /* channels last: the faster one */
                            .model = &cj_model_resnet,
                            .settings = WITH("depth=18"),
                            .data = { .inputs = 3072, .outputs = 10, .channels = 3, .height = 32, .width = 32 },
                            .batch = 32,
                            .batches = 4,
                            .optimiser = momentum_decay,
                            .macs = 32 * macs,
                            .target = 1.15,
                            .share = 0.8 });
}

bool bench_vae(bench_run *r)
{
    extern const cj_model cj_model_vae;
    return bench(r, &(net){ .name = "vae",
                            .script = "g_vae.py",
                            .model = &cj_model_vae,
                            .data = { .inputs = 784, .outputs = 10 },
                            .batch = 128,
                            .batches = 16,
                            .optimiser = adam,
                            .macs = 128.0 * 400 * (2 * 784 + 3 * (20 + 20 + 20 + 784)),
                            .target = 1.4,
                            .share = 0.8 });
}

bool bench_dcgan(bench_run *r)
{
    extern const cj_model cj_model_dcgan;
    double conv1 = 14.0 * 14 * 64 * 16, conv2 = 7.0 * 7 * 128 * 16 * 64, fc = 128.0 * 49;
    double dense = 64.0 * 128 * 49, deconv1 = conv2, deconv2 = conv1;
    /* D learns from two batches; the third passes through it to G, whose value is computed once */
    double macs = 2 * (2 * conv1 + 3 * conv2 + 3 * fc) + 2 * (conv1 + conv2 + fc) + 2 * dense + 3 * (deconv1 + deconv2);
    return bench(r, &(net){ .name = "dcgan",
                            .script = "h_dcgan.py",
                            .model = &cj_model_dcgan,
                            .data = { .inputs = 784, .outputs = 10, .channels = 1, .height = 28, .width = 28 },
                            .batch = 64,
                            .batches = 8,
                            .optimiser = adam_half,
                            .macs = 64 * macs,
                            .target = 1.15,
                            .share = 0.7 });
}

bool bench_rbm(bench_run *r)
{
    extern const cj_model cj_model_rbm;
    return bench(r, &(net){ .name = "rbm",
                            .script = "i_rbm.py",
                            .model = &cj_model_rbm,
                            .data = { .inputs = 784, .outputs = 10 },
                            .batch = 64,
                            .batches = 16,
                            .values = BINARY,
                            .optimiser = plain,
                            .macs = 5 * 64.0 * 784 * 500,
                            .target = 1.4,
                            .share = 0.8 });
}

bool bench_ddpm(bench_run *r)
{
    extern const cj_model cj_model_ddpm;
    return bench(r, &(net){ .name = "ddpm",
                            .script = "j_ddpm.py",
                            .model = &cj_model_ddpm,
                            .data = { .inputs = 2, .outputs = 2 },
                            .batch = 512,
                            .batches = 16,
                            .values = NORMAL,
                            .optimiser = adam,
                            .macs = 512 * (2 * 66.0 * 256 + 3 * (2 * 256.0 * 256 + 256 * 2)),
                            .target = 1.5,
                            .share = 0.8 });
}
