/* backward-cost: all gradients together cost about two forward passes, whatever the size of the network.
 *
 *     forward   h_l = tanh(W_l h_{l-1}):      one product of 2·B·n·n operations per layer
 *     backward  dW_l = g_lᵀ h_{l-1},  g_{l-1} = g_l W_l:   two products of the same size
 *
 * One sweep gives the gradient of every parameter (Linnainmaa 1970; Baur & Strassen 1983: at most a small multiple of the function's cost).  Differences would need a
 * forward pass per parameter.  Operations are counted by the profiler; times are printed, not judged, except for a generous limit.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { BATCH = 64, SIZES = 6 };

typedef struct cost {
    double flops, seconds;
} cost;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cost stop(cj_ctx *c, double start)
{
    cj_profile_row row[64];
    cost k = { .seconds = now() - start };
    int n = cj_profile_stop(c, row, 64);
    for (int i = 0; i < n && i < 64; i++) k.flops += row[i].flops;
    return k;
}

/* The least of several runs: forward alone, and the backward sweep (or, as the wrong way, one more forward pass per gradient of a layer). */
static void measure(cj_ctx *c, int64_t width, int depth, bool wrong, cost *forward, cost *backward)
{
    *forward = *backward = (cost){ .seconds = INFINITY };
    for (int run = 0; run < 8 && cj_ok(c); run++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *w[32], *g[32], *x = cj_randn(c, CJ_SHAPE(BATCH, width));
        for (int l = 0; l < depth; l++) w[l] = cj_require_grad(cj_mul_scalar(cj_randn(c, CJ_SHAPE(width, width)), 1 / sqrt((double)width)));
        cj_profile_start(c);
        double start = now();
        cj_tensor *h = x;
        for (int l = 0; l < depth; l++) h = cj_tanh(cj_matmul(h, w[l]));
        cj_tensor *loss = cj_mean(cj_square(h));
        cost f = stop(c, start);

        cj_profile_start(c);
        start = now();
        for (int l = 0; l < (wrong ? depth : 1); l++) cj_grad(loss, w, depth, g, .retain = true); /* wrong: a sweep per layer */
        cost b = stop(c, start);
        forward->flops = f.flops, backward->flops = b.flops;
        forward->seconds = fmin(forward->seconds, f.seconds), backward->seconds = fmin(backward->seconds, b.seconds);
        cj_scope_close(s);
    }
}

static void draw(cj_ctx *c, cj_lab_record *r, const char *const *names, const double *ratio)
{
    cj_plot *p = cj_plot_new(c, "Backward pass: operations per operation of the forward pass");
    cj_plot_labels(p, "width x depth", "ratio");
    cj_plot_range_y(p, 0, 3);
    cj_plot_bars(p, NULL, names, ratio, SIZES);
    cj_lab_picture(r, c, p, "backward-cost");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static const struct {
        int width, depth;
    } size[SIZES] = { { 32, 2 }, { 128, 2 }, { 256, 2 }, { 64, 4 }, { 64, 8 }, { 64, 16 } };
    static char name[SIZES][32];
    const char *names[SIZES];
    double ratio[SIZES], worst = 0;
    for (int i = 0; i < SIZES && cj_ok(c); i++) {
        cost f, b;
        measure(c, size[i].width, size[i].depth, control, &f, &b);
        if (!cj_ok(c)) return;
        ratio[i] = b.flops / f.flops;
        worst = fmax(worst, b.seconds / f.seconds);
        snprintf(name[i], sizeof name[i], "%d x %d", size[i].width, size[i].depth);
        names[i] = name[i];
        char what[80];
        snprintf(what, sizeof what, "width %d, depth %d: operations back / forth", size[i].width, size[i].depth);
        /* the input needs no gradient: the first layer has one product less */
        cj_lab_expect(r, what, 2 - 1.0 / size[i].depth, ratio[i], 0.1);
        cj_lab_say(r, "time back / forth %.2f; differences would take %d forward passes", b.seconds / f.seconds,
                   size[i].width * size[i].width * size[i].depth);
    }
    cj_lab_expect_at_least(r, "10 / largest ratio of times", 1, 10 / worst);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, names, ratio);
}

const cj_lab cj_lab_backward_cost = {
    .name = "backward-cost",
    .claim = "one backward sweep costs less than two forward passes and gives the gradients of all parameters, at every width and depth",
    .source = "Linnainmaa 1970; Baur & Strassen 1983",
    .control = "a sweep of its own for every layer's gradient",
    .run = run,
};
