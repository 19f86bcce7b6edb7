/* The nets whose planned steps are measured; also used to look at them one by one. */
#ifndef CJ_BENCH_NETS_H
#define CJ_BENCH_NETS_H

#include <cajal/cajal.h>

#include "bench/bench.h"

typedef struct bench_net {
    cj_ctx *c;
    cj_module *net;
    cj_optim *opt;
    cj_tensor *x, *y; /* all batches */
    int batches, next;
    cj_plan *plan;
    double before, memory; /* bytes resident before the optimiser is made (bench_memory_begin), and at most over that; NAN: unknown */
} bench_net;

typedef struct bench_gpt_shape {
    int layers, dim, heads, context, vocabulary, batch;
    bool tied; /* the head is the embedding */
} bench_gpt_shape;

bool bench_mlp_new(bench_net *t, int threads);
bool bench_gpt_new(bench_net *t, int threads, const bench_gpt_shape *g);
double bench_gpt_macs(const bench_gpt_shape *g); /* multiply-adds of a step: value and gradient */
bool bench_net_capture(bench_net *t);            /* of the cross-entropy and its update, replayed until it is compiled */
bool bench_net_replay(void *net);                /* one step on the next batch */
void bench_net_free(bench_net *t);

/* A row of milliseconds: met where the ratio is reached, or (share_asked > 0) a share of the limit, seconds, while not slower than the peer. limit 0: none. */
void bench_step_row(bench_run *r, const char *name, const bench_work *work, double limit, double ratio, double share_asked);

/* Bytes: what is resident now, after everything that can go back to the system went; and the most that was since then, over that. NAN where the system does not say. */
double bench_memory_begin(cj_ctx *c);
double bench_memory_since(double before);
void bench_memory_row(bench_run *r, const char *net, const char *peer, double ours, double theirs);

/* Plans of y = gelu(a·x + b)·sigmoid(x) + x and of its gradient (rows.c). */
bool bench_chain_stats(cj_plan_stats *forward, cj_plan_stats *backward);

#endif
