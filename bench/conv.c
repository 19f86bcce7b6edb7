/* Benchmarks of convolution and pooling: value and all derivatives of one operator, planned, channels-last as PyTorch's fastest form is. */
#include "bench/planned.h"

#include <stdio.h>

/* ---- convolution ---------------------------------------------------------------------------------------------------------------------------- */

typedef struct conv_case {
    int64_t n, c, side, o, kernel, groups;
} conv_case;

static const conv_case convs[] = { /* as in peer_conv.py */
                                   { 16, 64, 56, 64, 3, 1 },  { 16, 128, 28, 256, 3, 1 }, { 16, 256, 14, 512, 3, 1 },
                                   { 16, 64, 56, 64, 3, 64 }, { 16, 64, 56, 64, 1, 1 },   { 64, 6, 28, 16, 5, 1 }
};
enum { CONVS = sizeof convs / sizeof *convs };

static void conv_make(bench_planned *p)
{
    const conv_case *k = p->arg;
    cj_ctx *c = p->c;
    p->n = 2;
    p->in[0] = cj_keep(cj_channels_last(cj_randn(c, CJ_SHAPE(k->n, k->c, k->side, k->side))));
    p->in[1] = cj_keep(cj_channels_last(cj_randn(c, CJ_SHAPE(k->n, k->o, k->side, k->side))));
    p->param[0] = cj_param(cj_randn(c, CJ_SHAPE(k->o, k->c / k->groups, k->kernel, k->kernel)));
}

static void conv_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const bench_planned *p = user;
    const conv_case *k = p->arg;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_conv(x, p->param[0], NULL, .padding = k->kernel / 2, .groups = k->groups);
    cj_grad(out[0], CJ_TENSORS(x, p->param[0]), 2, out + 1, .seed = in[1]);
}

bool bench_conv(bench_run *r)
{
    bench_case cases[CONVS];
    char name[CONVS][64];
    for (int i = 0; i < CONVS; i++) {
        const conv_case *k = &convs[i];
        const int64_t taps = k->c / k->groups * k->kernel * k->kernel; /* products in a number of y */
        const double x = (double)(k->n * k->c * k->side * k->side), y = (double)(k->n * k->o * k->side * k->side),
                     w = (double)(k->o * taps);
        snprintf(name[i], sizeof name[i], "conv %lldx%lld, %lldx%lldx%lld^2 -> %lld%s", (long long)k->kernel, (long long)k->kernel,
                 (long long)k->n, (long long)k->c, (long long)k->side, (long long)k->o, k->groups > 1 ? " depthwise" : "");
        /* x, w -> y;  dy, w -> dx;  x, dy -> dw */
        cases[i] = (bench_case){ .name = name[i],
                                 .make = conv_make,
                                 .step = conv_step,
                                 .arg = k,
                                 .bytes = 4 * (3 * x + 3 * y + 3 * w),
                                 .flops = 3 * 2 * y * (double)taps,
                                 .target = 1.2 };
    }
    return bench_cases(r, "peer_conv.py", "conv", cases, CONVS);
}

/* ---- pooling ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct pool_case {
    const char *name;
    bool max;
    int64_t n, c, side, kernel, padding; /* stride 2 */
    double target;
} pool_case;

static const pool_case pools[] = { /* as in peer_conv.py */
                                   { "max pool 2x2, 32x64x56^2", true, 32, 64, 56, 2, 0, 2 },
                                   { "max pool 3x3, 32x64x56^2", true, 32, 64, 56, 3, 1, 2 },
                                   { "avg pool 2x2, 32x64x56^2", false, 32, 64, 56, 2, 0, 1.2 },
                                   { "avg pool 3x3, 32x64x56^2", false, 32, 64, 56, 3, 1, 1.2 }
};
enum { POOLS = sizeof pools / sizeof *pools };

static void pool_make(bench_planned *p)
{
    const pool_case *k = p->arg;
    const int64_t out = k->side / 2;
    p->n = 2;
    p->in[0] = cj_keep(cj_channels_last(cj_randn(p->c, CJ_SHAPE(k->n, k->c, k->side, k->side))));
    p->in[1] = cj_keep(cj_channels_last(cj_randn(p->c, CJ_SHAPE(k->n, k->c, out, out))));
}

static void pool_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const pool_case *k = ((const bench_planned *)user)->arg;
    cj_tensor *x = cj_require_grad(in[0]);
    const cj_pool_opts o = { .kernel = k->kernel, .stride = 2, .padding = k->padding, .values_only = true }; /* as PyTorch's max_pool2d */
    out[0] = k->max ? (cj_max_pool)(x, &o).value : (cj_avg_pool)(x, &o);
    cj_grad(out[0], &x, 1, out + 1, .seed = in[1]);
}

bool bench_pool(bench_run *r)
{
    bench_case cases[POOLS];
    for (int i = 0; i < POOLS; i++) {
        const pool_case *k = &pools[i];
        const double x = (double)(k->n * k->c * k->side * k->side);
        cases[i] = (bench_case){ .name = k->name,
                                 .make = pool_make,
                                 .step = pool_step,
                                 .arg = k,
                                 .bytes = 4 * 2 * (x + x / 4), /* x -> y;  dy -> dx */
                                 .target = k->target };
    }
    return bench_cases(r, "peer_conv.py", "pool", cases, POOLS);
}
