/* Resampling: up-sampling by two, forward and with its derivative, and sampling on a grid; planned, beside peer_resample.py. */
#include <cajal/cajal.h>

#include "bench/bench.h"
#include "bench/planned.h"

typedef struct up_case {
    int64_t n, c, size;
    cj_interpolation mode;
} up_case;

static void up_make(bench_planned *p)
{
    const up_case *u = p->arg;
    p->n = 2;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(u->n, u->c, u->size, u->size)));
    p->in[1] = cj_keep(cj_randn(p->c, CJ_SHAPE(u->n, u->c, 2 * u->size, 2 * u->size)));
}
static void up_forward(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const up_case *u = ((bench_planned *)user)->arg;
    (void)c;
    out[0] = cj_interpolate(in[0], .scale = 2, .mode = u->mode);
}
static void up_both(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const up_case *u = ((bench_planned *)user)->arg;
    (void)c;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_interpolate(x, .scale = 2, .mode = u->mode);
    cj_grad(out[0], &x, 1, out + 1, .seed = in[1]);
}

static void grid_make(bench_planned *p)
{
    const up_case *u = p->arg;
    p->n = 3;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(u->n, u->c, u->size, u->size)));
    p->in[1] = cj_keep(cj_randn(p->c, CJ_SHAPE(u->n, u->c, u->size, u->size)));
    p->in[2] = cj_keep(cj_uniform(p->c, -1, 1, CJ_SHAPE(u->n, u->size, u->size, 2)));
}
static void grid_both(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *x = cj_require_grad(in[0]), *grid = cj_require_grad(in[2]);
    out[0] = cj_grid_sample(x, grid);
    cj_grad(out[0], CJ_TENSORS(x, grid), 2, out + 1, .seed = in[1]);
}

bool bench_resample(bench_run *r)
{
    static const up_case bilinear = { 64, 64, 56, CJ_INTERP_LINEAR }, nearest = { 64, 64, 56, CJ_INTERP_NEAREST },
                         bicubic = { 16, 64, 56, CJ_INTERP_CUBIC }, small = { 8, 16, 16, CJ_INTERP_LINEAR },
                         grid = { 8, 32, 56, CJ_INTERP_LINEAR };
    const double plane = 4.0 * 64 * 64 * 56 * 56; /* bytes of the small images */
    const bench_case cases[] = {
        { "up bilinear 64x64x56x56", up_make, up_forward, &bilinear, 5 * plane, 0, 0.95 },
        { "up bilinear forward, backward", up_make, up_both, &bilinear, 10 * plane, 0, 0.95 },
        { "up nearest 64x64x56x56", up_make, up_forward, &nearest, 5 * plane, 0, 0.95 },
        { "up nearest forward, backward", up_make, up_both, &nearest, 10 * plane, 0, 0.95 },
        { "up bicubic 16x64x56x56, both", up_make, up_both, &bicubic, 2.5 * plane, 0, 0.95 },
        { "up bilinear 8x16x16x16, both", up_make, up_both, &small, 0, 0, 0.95 },
        { "grid_sample 8x32x56x56, both", grid_make, grid_both, &grid, 0, 0, 0.95 },
    };
    return bench_cases(r, "peer_resample.py", NULL, cases, (int)(sizeof cases / sizeof *cases));
}
