/* Benchmarks of the zoo's models of sequences and graphs: training steps of lstm and gcn, text from gpt symbol by symbol. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/nets.h"
#include "bench/peers.h"

extern const cj_model cj_model_lstm, cj_model_gpt, cj_model_gcn;

/* Settings of a model as pairs, ends with NULL; what is not named is 0. */
typedef struct pair {
    const char *key;
    double value;
} pair;
static double value_of(const void *settings, const char *key)
{
    for (const pair *p = settings; p->key; p++)
        if (strcmp(p->key, key) == 0) return p->value;
    return 0;
}

static double larger(double a, double b) { return a > b ? a : b; }

static bool measure(bench_run *r, bench_net *t, bool ready, const char *name, const char *script, const char *argument, double limit,
                    double ratio, double share_asked)
{
    bench_work work = { .step = bench_net_replay, .arg = t };
    bool ok = ready;
    if (ok) {
        bench_peer *peers = bench_peers_open(r, script, argument);
        ok = bench_compare(r, &work, 1, peers);
        if (ok) bench_step_row(r, name, &work, limit, ratio, share_asked);
        if (ok) bench_memory_row(r, name, work.peer, t->memory, bench_peers_memory(peers));
        bench_peers_close(peers);
    }
    if (!ok) app_fail(t->c);
    bench_net_free(t);
    return ok;
}

/* ---- training ------------------------------------------------------------------------------------------------------------------------------ */

/* 2 layers of 256 over 32 windows of 64 symbols, Adam: as e_lstm.py. */
bool bench_lstm(bench_run *r)
{
    enum { V = 96, H = 256, B = 32, T = 64 };
    const pair settings[] = { { "hidden", H }, { "layers", 2 }, { "dim", H }, { "context", T }, { 0 } };
    bench_net t = { .c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads }), .batches = 8 };
    t.net = cj_model_lstm.build(t.c, &(cj_model_data){ .inputs = V, .outputs = V }, &(cj_options){ value_of, settings });
    t.x = cj_keep(cj_randint(t.c, 0, V, CJ_SHAPE(8, B, T + 1)));
    t.before = bench_memory_begin(t.c);
    t.opt = cj_adam(cj_module_params(t.net), .lr = 1e-3);
    /* forward and two products of the same size backward */
    double flops = 3 * 2.0 * B * T * (2 * 4.0 * H * (H + H) + H * V);
    bool ready = cj_ok(t.c) && bench_net_capture(&t);
    return measure(r, &t, ready, "lstm", "e_lstm.py", NULL, flops / bench_fma_peak(r), 2, 0.7);
}

/* A random graph of Cora's size, full batch, Adam with weight decay: as k_gcn.py, whose fastest form has sparse features. */
bool bench_gcn(bench_run *r)
{
    enum { N = 2708, E = 5429, FEATURES = 1433, CLASSES = 7, LABELLED = 140 };
    const pair settings[] = { { "hidden", 16 }, { "dropout", 0.5 }, { 0 } };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads });
    bench_net t = { .c = c, .batches = 1 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *a = cj_randint(c, 0, N, CJ_SHAPE(E)), *b = cj_randint(c, 0, N, CJ_SHAPE(E)), *loops = cj_arange(c, 0, N, 1, CJ_I64);
    cj_tensor *row = cj_cat((cj_tensor *[]){ a, b, loops }, 3, 0), *col = cj_cat((cj_tensor *[]){ b, a, loops }, 3, 0);
    cj_tensor *degree = cj_index_add(cj_zeros(c, CJ_SHAPE(N), CJ_F32), 0, row, cj_ones(c, CJ_SHAPE(2 * E + N), CJ_F32));
    cj_tensor *weight = cj_rsqrt(cj_mul(cj_index_select(degree, 0, row), cj_index_select(degree, 0, col)));
    cj_csr graph = cj_csr_from_coo(row, col, weight, N, N);
    cj_tensor *nodes = cj_bernoulli(c, 0.0127, CJ_SHAPE(N, FEATURES));
    t.net = cj_model_gcn.build(c, &(cj_model_data){ .inputs = FEATURES, .outputs = CLASSES, .graph = &graph, .nodes = nodes },
                               &(cj_options){ value_of, settings });
    t.x = cj_keep(cj_reshape(cj_arange(c, 0, LABELLED, 1, CJ_I64), CJ_SHAPE(1, LABELLED)));
    t.y = cj_keep(cj_randint(c, 0, CLASSES, CJ_SHAPE(1, LABELLED)));
    cj_scope_close(s);
    t.before = bench_memory_begin(c);
    t.opt = cj_adam(cj_module_params(t.net), .lr = 0.01, .weight_decay = 5e-4);
    bool ready = cj_ok(c) && bench_net_capture(&t);
    return measure(r, &t, ready, "gcn", "k_gcn.py", "coo-sx", 0, 3, 0);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------------------------------------- */

enum { SYMBOLS = 127 }; /* after a first one */

typedef struct decoder {
    cj_ctx *c;
    cj_module *net;
    cj_tensor *last; /* symbols, persistent i64 [B] */
    cj_plan *plan;
} decoder;

static void next_symbols(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    decoder *d = user;
    (void)c, (void)in, (void)out;
    cj_assign_(d->last, cj_argmax(cj_model_gpt.next(d->net, d->last), .axes = CJ_AXIS(-1)));
}

/* The likeliest symbols, all 127 of them. */
static bool decode(void *arg)
{
    decoder *d = arg;
    cj_scope s = cj_scope_open(d->c);
    cj_model_gpt.begin(d->net, cj_size(d->last, 0));
    cj_assign_(d->last, cj_zeros_like(d->last));
    for (int i = 0; i < SYMBOLS && cj_ok(d->c); i++) {
        if (d->plan) cj_replay(d->plan, NULL, NULL);
        else d->plan = cj_capture(d->c, next_symbols, d, NULL, 0, NULL);
    }
    cj_scope_close(s);
    return cj_ok(d->c);
}

bool bench_decode(bench_run *r)
{
    enum { V = 96, D = 256, LAYERS = 4 };
    static const int batches[] = { 1, 16 };
    const pair settings[] = { { "layers", LAYERS }, { "dim", D }, { "heads", 8 }, { "context", SYMBOLS + 1 }, { 0 } };
    bench_peer *peers = bench_peers_open(r, "f_gpt.py", NULL);
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        if (peers && !bench_peers_next(peers)) { /* the first is the training step */
            bench_peers_close(peers);
            peers = NULL;
        }
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads });
        decoder d = { .c = c, .last = cj_keep(cj_zeros(c, CJ_SHAPE(batches[i]), CJ_I64)) };
        d.net = cj_model_gpt.build(c, &(cj_model_data){ .inputs = V, .outputs = V }, &(cj_options){ value_of, settings });
        cj_module_train(d.net, false);
        cj_no_grad(c);
        bench_work work = { .step = decode, .arg = &d };
        ok = cj_ok(c) && decode(&d) && bench_compare(r, &work, 1, peers);
        /* every symbol reads all weights and multiplies with them; on average half of the caches */
        double weights = LAYERS * 12.0 * D * D + D * V, cached = LAYERS * 2.0 * D * SYMBOLS / 2 * batches[i];
        double bytes = 4 * (weights + cached), flops = 2 * batches[i] * weights + 2 * cached;
        double limit = SYMBOLS * larger(bytes / bench_read_rate(r, (size_t)bytes), flops / bench_fma_peak(r));
        char name[32];
        snprintf(name, sizeof name, "gpt decode x%d", batches[i]);
        if (ok) bench_step_row(r, name, &work, limit, 4, 0.8);
        else app_fail(c);
        cj_ctx_free(c);
    }
    bench_peers_close(peers);
    return ok;
}
