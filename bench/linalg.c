/* Benchmarks of linear algebra: one large matrix (the same OpenBLAS as NumPy's), and batches of small ones. */
#include <cajal/cajal.h>

#include "bench/bench.h"
#include "bench/planned.h"

typedef struct problem {
    cj_tensor *(*fn)(cj_tensor *a, cj_tensor *b);
    int64_t batch, n;
    cj_dtype dtype;
} problem;

static void make(bench_planned *p)
{
    const problem *k = p->arg;
    const cj_random_opts o = { .dtype = k->dtype };
    cj_tensor *x = (cj_randn)(p->c, CJ_SHAPE(k->batch, k->n, k->n), &o);
    x = cj_add(cj_mul_scalar(cj_matmul(x, cj_t(x)), 1 / (double)k->n),
               cj_eye(p->c, k->n, k->dtype)); /* positive definite, for all of them */
    p->n = 2;
    p->in[0] = cj_keep(x);
    p->in[1] = cj_keep((cj_randn)(p->c, CJ_SHAPE(k->batch, k->n, 1), &o));
}
static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    out[0] = ((const problem *)((bench_planned *)user)->arg)->fn(in[0], in[1]);
}

static cj_tensor *solve(cj_tensor *a, cj_tensor *b) { return cj_solve(a, b); }
static cj_tensor *svd(cj_tensor *a, cj_tensor *b) { return (void)b, cj_svd(a).u; }
static cj_tensor *eigh(cj_tensor *a, cj_tensor *b) { return (void)b, cj_eigh(a).vectors; }
static cj_tensor *cholesky(cj_tensor *a, cj_tensor *b) { return (void)b, cj_cholesky(a); }
static cj_tensor *inverse(cj_tensor *a, cj_tensor *b) { return (void)b, cj_inverse(a); }
static cj_tensor *det(cj_tensor *a, cj_tensor *b) { return (void)b, cj_det(a); }

bool bench_linalg(bench_run *r)
{
    /* in the order of peer_linalg.py */
    static const problem problems[] = {
        { solve, 1, 512, CJ_F64 },    { svd, 1, 512, CJ_F64 },         { eigh, 1, 512, CJ_F64 },       { cholesky, 1, 512, CJ_F64 },
        { solve, 100000, 4, CJ_F32 }, { cholesky, 100000, 4, CJ_F32 }, { inverse, 100000, 4, CJ_F32 }, { det, 100000, 4, CJ_F32 },
        { solve, 10000, 16, CJ_F32 }, { cholesky, 10000, 16, CJ_F32 }, { inverse, 10000, 16, CJ_F32 }, { det, 10000, 16, CJ_F32 },
        { solve, 100000, 4, CJ_F64 }, { inverse, 10000, 16, CJ_F64 },
    };
    static const char *const names[] = {
        "solve 512 f64",         "svd 512 f64",          "eigh 512 f64",       "cholesky 512 f64",     "solve 100000x4 f32",
        "cholesky 100000x4 f32", "inverse 100000x4 f32", "det 100000x4 f32",   "solve 10000x16 f32",   "cholesky 10000x16 f32",
        "inverse 10000x16 f32",  "det 10000x16 f32",     "solve 100000x4 f64", "inverse 10000x16 f64",
    };
    enum { N = sizeof problems / sizeof *problems };
    bench_case cases[N];
    for (int i = 0; i < N; i++)
        cases[i] =
            (bench_case){ .name = names[i], .make = make, .step = step, .arg = &problems[i], .target = problems[i].batch == 1 ? 0.95 : 5 };
    return bench_cases(r, "peer_linalg.py", NULL, cases, N);
}
