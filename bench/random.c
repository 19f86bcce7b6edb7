/* Normal draws, 10^8 of them in one tensor (10^7 with --quick): the counter-based generator beside NumPy's, peer_random.py. */
#include <cajal/cajal.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/planned.h"

typedef struct draws {
    int64_t n;
    cj_dtype dtype;
} draws;

static void make(bench_planned *p) { p->n = 0; }
static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const draws *d = ((bench_planned *)user)->arg;
    (void)in;
    out[0] = cj_randn(c, CJ_SHAPE(d->n), .dtype = d->dtype);
}

bool bench_random(bench_run *r)
{
    int64_t n = r->quick ? 10000000 : 100000000;
    while (n > 10000000 && (size_t)n * 8 * 4 > bench_free_memory()) n /= 10; /* the plan's, a traced one and the peer's */
    if (!r->quick && n < 100000000) bench_note(r, "random: too little free memory for 10^8 doubles, %lld are drawn", (long long)n);
    const draws kinds[] = { { n, CJ_F32 }, { n, CJ_F64 } };
    const bench_case cases[] = {
        { .name = "normal f32", .make = make, .step = step, .arg = &kinds[0], .bytes = 4.0 * (double)n, .target = 3 },
        { .name = "normal f64", .make = make, .step = step, .arg = &kinds[1], .bytes = 8.0 * (double)n, .target = 3 },
    };
    char argument[32];
    snprintf(argument, sizeof argument, "%lld", (long long)n);
    return bench_cases(r, "peer_random.py", argument, cases, 2);
}
