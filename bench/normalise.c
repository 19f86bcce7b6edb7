/* Normalisation: batch norm with ReLU in training, group norm and RMS norm, forward and backward, planned; peer_normalise.py has the same in the same order. */
#include <cajal/cajal.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/planned.h"

typedef struct norm_size {
    const char *name;
    cj_shape x;
    int64_t groups; /* of group norm */
    bool last;      /* channels last in memory */
} norm_size;

static void make(bench_planned *p)
{
    const norm_size *z = p->arg;
    cj_ctx *c = p->c;
    int64_t channels = z->groups < 0 ? z->x.dim[z->x.ndim - 1] : z->x.dim[1];
    p->n = 2;
    for (int i = 0; i < 2; i++) {
        if (z->last) {
            cj_tensor *t = cj_randn(c, CJ_SHAPE(z->x.dim[0], z->x.dim[2], z->x.dim[3], z->x.dim[1]));
            p->in[i] = cj_keep(cj_permute(t, CJ_AXES(0, 3, 1, 2)));
        } else {
            p->in[i] = cj_keep(cj_randn(c, z->x));
        }
    }
    p->param[0] = cj_param(cj_ones(c, CJ_SHAPE(channels), CJ_F32));
    p->param[1] = cj_param(cj_zeros(c, CJ_SHAPE(channels), CJ_F32));
    p->param[2] = cj_keep(cj_zeros(c, CJ_SHAPE(channels), CJ_F32));
    p->param[3] = cj_keep(cj_ones(c, CJ_SHAPE(channels), CJ_F32));
}

static void batch_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const bench_planned *p = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_batch_norm(x, p->param[0], p->param[1], .running_mean = p->param[2], .running_var = p->param[3], .relu = true);
    cj_grad(out[0], CJ_TENSORS(x, p->param[0], p->param[1]), 3, out + 1, .seed = in[1]);
}
static void group_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const bench_planned *p = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_group_norm(x, ((const norm_size *)p->arg)->groups, p->param[0], p->param[1], 0);
    cj_grad(out[0], CJ_TENSORS(x, p->param[0], p->param[1]), 3, out + 1, .seed = in[1]);
}
static void rms_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const bench_planned *p = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_rms_norm(x, p->param[0], 1e-5);
    cj_grad(out[0], CJ_TENSORS(x, p->param[0]), 2, out + 1, .seed = in[1]);
}

bool bench_normalise(bench_run *r)
{
    static const norm_size sizes[] = {
        { "batch_norm relu 64x64x56x56", CJ_SHAPE(64, 64, 56, 56), 0, false },
        { "the same, channels last", CJ_SHAPE(64, 64, 56, 56), 0, true },
        { "batch_norm relu 128x256x14x14", CJ_SHAPE(128, 256, 14, 14), 0, false },
        { "batch_norm relu 128x512", CJ_SHAPE(128, 512), 0, false },
        { "group_norm 32 of 32x256x28x28", CJ_SHAPE(32, 256, 28, 28), 32, false },
        { "rms_norm 2048x1024", CJ_SHAPE(2048, 1024), -1, false },
    };
    enum { N = sizeof sizes / sizeof *sizes };
    bench_case cases[N];
    for (int i = 0; i < N; i++) {
        double elements = 1;
        for (int d = 0; d < sizes[i].x.ndim; d++) elements *= (double)sizes[i].x.dim[d];
        cases[i] = (bench_case){ .name = sizes[i].name,
                                 .make = make,
                                 .step = sizes[i].groups > 0   ? group_step
                                         : sizes[i].groups < 0 ? rms_step
                                                               : batch_step,
                                 .arg = &sizes[i],
                                 .bytes = elements * 20, /* x -> y, then x and dy -> dx */
                                 .target = sizes[i].groups ? 1.5 : 2 };
    }
    return bench_cases(r, "peer_normalise.py", NULL, cases, N);
}
