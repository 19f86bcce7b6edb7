/* Benchmarks of linear algebra beside NumPy: one large matrix, for which both call an OpenBLAS, and batches of 10^5 small ones (10^4 with --quick). */
#include <cajal/cajal.h>
#include <stdio.h>

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
    static const struct {
        const char *name;
        cj_tensor *(*fn)(cj_tensor *a, cj_tensor *b);
    } large[] = { { "solve", solve }, { "svd", svd }, { "eigh", eigh }, { "cholesky", cholesky } },
      small[] = { { "solve", solve }, { "cholesky", cholesky }, { "inverse", inverse }, { "det", det } };
    const int64_t batch = r->quick ? 10000 : 100000;
    enum { LARGE = 4, SMALL = 4, N = LARGE + 2 * 2 * SMALL };
    problem problems[N];
    bench_case cases[N];
    char names[N][40], argument[32];
    int n = 0;
    for (int i = 0; i < LARGE; i++, n++) {
        problems[n] = (problem){ large[i].fn, 1, 512, CJ_F64 };
        snprintf(names[n], sizeof names[n], "%s 512 f64", large[i].name);
    }
    for (int wide = 0; wide < 2; wide++)
        for (int64_t rows = 4; rows <= 16; rows += 12)
            for (int i = 0; i < SMALL; i++, n++) {
                problems[n] = (problem){ small[i].fn, batch, rows, wide ? CJ_F64 : CJ_F32 };
                snprintf(names[n], sizeof names[n], "%s %lldx%lld %s", small[i].name, (long long)batch, (long long)rows,
                         wide ? "f64" : "f32");
            }
    /* of batches: what has to be read and written */
    for (int i = 0; i < N; i++) {
        const problem *k = &problems[i];
        const int64_t square = k->n * k->n, out = k->fn == solve ? 2 * k->n : k->fn == det ? 1 : square;
        cases[i] = (bench_case){ .name = names[i],
                                 .make = make,
                                 .step = step,
                                 .arg = k,
                                 .bytes = k->batch > 1 ? (double)(k->batch * (square + out)) * (double)cj_dtype_size(k->dtype) : 0,
                                 .target = k->batch == 1 ? 0.95 : 5 };
    }
    snprintf(argument, sizeof argument, "%lld", (long long)batch);
    return bench_cases(r, "peer_linalg.py", argument, cases, N);
}
