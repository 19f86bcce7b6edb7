/* Benchmarks of ordering, scans, lookups and bags, planned; peer peer_order.py. */
#include <cajal/cajal.h>

#include "bench/bench.h"
#include "bench/planned.h"

/* ---- lookups in a table of 50,257 rows: forward, and the dense gradient, whose limit is the zeroing of the table ------------------------------------- */

enum { ROWS = 50257, WIDTH = 256, BAGS = 1024, BAG = 20 };

static void embedding_make(bench_planned *p)
{
    cj_ctx *c = p->c;
    p->n = 2;
    p->param[0] = cj_param(cj_randn(c, CJ_SHAPE(ROWS, WIDTH)));
    p->in[0] = cj_keep(cj_randint(c, 0, ROWS, CJ_SHAPE(16, 128)));
    p->in[1] = cj_keep(cj_randn(c, CJ_SHAPE(16, 128, WIDTH)));
}
static void embedding_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    bench_planned *p = user;
    (void)c;
    out[0] = cj_embedding(p->param[0], in[0]);
    cj_grad(out[0], &p->param[0], 1, out + 1, .seed = in[1]);
}

static void bag_make(bench_planned *p)
{
    cj_ctx *c = p->c;
    p->n = 3;
    p->param[0] = cj_param(cj_randn(c, CJ_SHAPE(ROWS, WIDTH)));
    p->in[0] = cj_keep(cj_randint(c, 0, ROWS, CJ_SHAPE(BAGS * BAG)));
    p->in[1] = cj_keep(cj_arange(c, 0, BAGS * BAG, BAG, CJ_I64));
    p->in[2] = cj_keep(cj_randn(c, CJ_SHAPE(BAGS, WIDTH)));
}
static void bag_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    bench_planned *p = user;
    bool was = cj_no_grad(c);
    out[0] = cj_embedding_bag(p->param[0], in[0], in[1], CJ_COMBINE_SUM);
    cj_grad_mode(c, was);
}
static void bag_grad_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    bench_planned *p = user;
    (void)c;
    out[0] = cj_embedding_bag(p->param[0], in[0], in[1], CJ_COMBINE_SUM);
    cj_grad(out[0], &p->param[0], 1, out + 1, .seed = in[2]);
}

/* ---- rows of numbers ------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct rows {
    int64_t rows, n, k;
} rows;

static void rows_make(bench_planned *p)
{
    const rows *r = p->arg;
    p->n = 1;
    p->in[0] = cj_keep(cj_randn(p->c, r->rows > 1 ? CJ_SHAPE(r->rows, r->n) : CJ_SHAPE(r->n)));
}
static void topk_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const rows *r = ((bench_planned *)user)->arg;
    (void)c;
    cj_ordered best = cj_topk(in[0], r->k, -1);
    out[0] = best.values;
    out[1] = best.indices;
}
static void sort_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_ordered all = cj_sort(in[0], -1);
    out[0] = all.values;
    out[1] = all.indices;
}
static void cumsum_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_cumsum(in[0], -1);
}
static void scatter_make(bench_planned *p)
{
    const rows *r = p->arg;
    p->n = 3;
    for (int i = 0; i < 2; i++) p->in[i] = cj_keep(cj_randn(p->c, CJ_SHAPE(r->n)));
    p->in[2] = cj_keep(cj_randint(p->c, 0, r->n, CJ_SHAPE(r->n)));
}
static void scatter_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_scatter_add(in[0], 0, in[2], in[1]);
}

bool bench_order(bench_run *r)
{
    static const rows large = { 64, 50257, 50 }, small = { 128, 1000, 5 }, million = { 1, 1000000, 0 };
    const double table = 4.0 * ROWS * WIDTH;
    const bench_case cases[] = { /* as in peer_order.py */
                                 { "embedding 50257x256, 2048 rows, and its gradient", embedding_make, embedding_step, NULL, table, 0, 2 },
                                 { "topk 50 of 64x50257", rows_make, topk_step, &large, 4.0 * 64 * 50257, 0, 2 },
                                 { "topk 5 of 128x1000", rows_make, topk_step, &small, 4.0 * 128 * 1000, 0, 2 },
                                 { "sort 10^6", rows_make, sort_step, &million, 0, 0, 0.95 },
                                 { "cumsum 10^6", rows_make, cumsum_step, &million, 8e6, 0, 0.95 },
                                 { "scatter_add 10^6 to 10^6", scatter_make, scatter_step, &million, 0, 0, 0.95 },
                                 { "embedding_bag 1024 of 20 rows", bag_make, bag_step, NULL, 4.0 * BAGS * BAG * WIDTH, 0, 0.95 },
                                 { "embedding_bag and its gradient", bag_make, bag_grad_step, NULL, table, 0, 0.95 }
    };
    return bench_cases(r, "peer_order.py", NULL, cases, sizeof cases / sizeof *cases);
}
