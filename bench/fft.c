/* Fourier transforms, planned, beside SciPy's (pocketfft). */
#include <cajal/math.h>

#include "bench/planned.h"

typedef struct fft_case {
    int64_t batch, n;
} fft_case;

static void make(bench_planned *p)
{
    const fft_case *k = p->arg;
    p->n = 1;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(k->batch, k->n, 2)));
}

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_fft(in[0]);
}

bool bench_fft(bench_run *r)
{
    static const fft_case k[] = {
        { 1, 1024 }, { 1, 2187 }, { 1, 1009 }, { 1, 1 << 20 }, { 4096, 16 }, { 4096, 64 }, { 1024, 256 }
    }; /* as in peer_fft.py */
    static const bench_case cases[] = {
        { "fft 1024", make, step, &k[0], 0, 0, 0.7 },
        { "fft 3^7", make, step, &k[1], 0, 0, 0.7 },
        { "fft 1009", make, step, &k[2], 0, 0, 0.7 },
        { "fft 2^20", make, step, &k[3], 16 << 20, 0, 0.7 },
        { "fft 4096x16", make, step, &k[4], 4096 * 16 * 16, 0, 2 },
        { "fft 4096x64", make, step, &k[5], 4096 * 64 * 16, 0, 2 },
        { "fft 1024x256", make, step, &k[6], 1024 * 256 * 16, 0, 2 },
    };
    return bench_cases(r, "peer_fft.py", NULL, cases, sizeof cases / sizeof *cases);
}
