/* Recurrent networks of two layers, forward and the gradients of input and weights, planned, beside PyTorch's (peer_recurrent.py). */
#include <cajal/cajal.h>

#include "bench/bench.h"
#include "bench/planned.h"

enum { STEPS = 64, BATCH = 32, MOST = 8 };

typedef struct network {
    cj_recurrent_cell cell;
    int gates, width, layers;
    bool bidirectional, forward_only;
} network;

static int weights_of(const network *w) { return 4 * w->layers * (w->bidirectional ? 2 : 1); }

static void make(bench_planned *p)
{
    const network *w = p->arg;
    const int directions = w->bidirectional ? 2 : 1;
    p->n = w->forward_only ? 1 : 2;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(STEPS, BATCH, w->width)));
    p->in[1] = cj_keep(cj_randn(p->c, CJ_SHAPE(STEPS, BATCH, w->width * directions)));
    for (int i = 0; i < weights_of(w); i++) {
        const int64_t rows = w->gates * w->width, in = i / 4 < directions ? w->width : w->width * directions;
        cj_shape shape = i % 4 == 0 ? CJ_SHAPE(rows, in) : i % 4 == 1 ? CJ_SHAPE(rows, w->width) : CJ_SHAPE(rows);
        p->param[i] = cj_param(cj_uniform(p->c, -0.0625, 0.0625, shape));
    }
}

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const bench_planned *p = user;
    const network *w = p->arg;
    const int n = weights_of(w);
    const bool was = w->forward_only ? cj_no_grad(c) : cj_grad_enabled(c);
    cj_tensor *all[1 + MOST] = { w->forward_only ? in[0] : cj_require_grad(in[0]) };
    for (int i = 0; i < n; i++) all[1 + i] = p->param[i];
    out[0] = cj_recurrent(w->cell, all[0], p->param, n, .layers = w->layers, .bidirectional = w->bidirectional).y;
    if (!w->forward_only) cj_grad(out[0], all, 1 + n, out + 1, .seed = in[1]);
    cj_grad_mode(c, was);
}

static double flops_of(const network *w)
{
    double pairs = 0; /* inputs and units of every layer and direction */
    for (int l = 0; l < w->layers; l++) {
        const double in = l && w->bidirectional ? 2 * w->width : w->width;
        pairs += (w->bidirectional ? 2 : 1) * (in + w->width) * w->width;
    }
    return (w->forward_only ? 2 : 6) * w->gates * pairs * STEPS * BATCH;
}

bool bench_recurrent(bench_run *r)
{
    static const struct {
        const char *name;
        network w;
    } nets[] = { /* as in peer_recurrent.py */
                 { "lstm 2 x 256", { CJ_LSTM, 4, 256, 2, false, false } },
                 { "gru 2 x 256", { CJ_GRU, 3, 256, 2, false, false } },
                 { "rnn 2 x 256", { CJ_RNN, 1, 256, 2, false, false } },
                 { "lstm both ways 128", { CJ_LSTM, 4, 128, 1, true, false } },
                 { "lstm 2 x 256 forward", { CJ_LSTM, 4, 256, 2, false, true } }
    };
    enum { N = sizeof nets / sizeof nets[0] };
    bench_case cases[N];
    for (int i = 0; i < N; i++)
        cases[i] =
            (bench_case){ .name = nets[i].name, .make = make, .step = step, .arg = &nets[i].w, .flops = flops_of(&nets[i].w), .target = 2 };
    return bench_cases(r, "peer_recurrent.py", NULL, cases, N);
}
