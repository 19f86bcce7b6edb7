/* Sparse products on a graph of Cora's size, forward and with derivatives; planned, beside peer_sparse.py.
 *
 * The graph is $CAJAL_DATA/cora/cora.cites where that file is (2708 nodes, 5278 different edges), else random with as many nodes and edges: Q =
 * D^-1/2·(A + I)·D^-1/2.
 */
#include <cajal/cajal.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/planned.h"

enum { NODES = 2708, EDGES = 5278, FEATURES = 1433, HIDDEN = 16, MOST = 16384 };

typedef struct graph {
    int64_t row[2 * MOST + NODES], col[2 * MOST + NODES];
    int edges;
} graph;

/* Each undirected edge once: in both directions. */
static void add_edge(graph *g, int64_t a, int64_t b)
{
    for (int e = 0; e < g->edges; e += 2)
        if ((g->row[e] == a && g->col[e] == b) || (g->row[e] == b && g->col[e] == a)) return;
    if (a == b || g->edges >= 2 * MOST) return;
    g->row[g->edges] = g->col[g->edges + 1] = a;
    g->col[g->edges] = g->row[g->edges + 1] = b;
    g->edges += 2;
}

/* Lines of two paper numbers; papers are counted as they come. */
static bool read_cora(graph *g)
{
    const char *data = getenv("CAJAL_DATA");
    char path[4096];
    long paper[NODES], pair[2];
    int papers = 0;
    snprintf(path, sizeof path, "%s/cora/cora.cites", data ? data : "");
    FILE *f = data ? fopen(path, "r") : NULL;
    if (!f) return false;
    while (fscanf(f, "%ld %ld", &pair[0], &pair[1]) == 2) {
        int at[2];
        for (int i = 0; i < 2; i++) {
            for (at[i] = 0; at[i] < papers && paper[at[i]] != pair[i];) at[i]++;
            if (at[i] == papers && papers < NODES) paper[papers++] = pair[i];
        }
        if (at[0] < NODES && at[1] < NODES) add_edge(g, at[0], at[1]);
    }
    fclose(f);
    return papers == NODES;
}

static void random_graph(graph *g)
{
    uint64_t state = 1;
    g->edges = 0;
    while (g->edges < 2 * EDGES) {
        int64_t end[2];
        for (int i = 0; i < 2; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            end[i] = (int64_t)((state >> 33) % NODES);
        }
        add_edge(g, end[0], end[1]);
    }
}

static cj_csr normalised(cj_ctx *c)
{
    static graph g;
    static float value[2 * MOST + NODES];
    static int degree[NODES];
    g.edges = 0;
    if (!read_cora(&g)) random_graph(&g);
    int n = g.edges;
    for (int i = 0; i < NODES; i++, n++) g.row[n] = g.col[n] = i, degree[i] = 0;
    for (int e = 0; e < n; e++) degree[g.row[e]]++;
    for (int e = 0; e < n; e++) value[e] = (float)(1 / sqrt((double)degree[g.row[e]] * degree[g.col[e]]));
    return cj_csr_keep(cj_csr_from_coo(cj_from_i64(c, g.row, CJ_SHAPE(n)), cj_from_i64(c, g.col, CJ_SHAPE(n)),
                                       cj_from_f32(c, value, CJ_SHAPE(n)), NODES, NODES));
}

/* What a case holds beside its inputs; one case runs at a time. */
static cj_csr matrix, features;

static void graph_make(bench_planned *p)
{
    matrix = normalised(p->c);
    p->n = 2;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(NODES, HIDDEN)));
    p->in[1] = cj_keep(cj_randn(p->c, CJ_SHAPE(NODES, HIDDEN)));
}
static void graph_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *h = cj_require_grad(in[0]);
    out[0] = cj_csr_matmul(matrix, h);
    cj_grad(out[0], &h, 1, out + 1, .seed = in[1]);
}
static void values_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *h = cj_require_grad(in[0]), *v = cj_require_grad(matrix.values);
    out[0] = cj_csr_matmul(cj_csr_with_values(matrix, v), h);
    cj_grad(out[0], CJ_TENSORS(h, v), 2, out + 1, .seed = in[1]);
}

/* 1.27 % ones, as Cora's words have. */
static void layer_make(bench_planned *p)
{
    matrix = normalised(p->c);
    p->n = 3;
    p->in[0] = cj_keep(cj_randn(p->c, CJ_SHAPE(FEATURES, HIDDEN)));
    p->in[1] = cj_keep(cj_randn(p->c, CJ_SHAPE(NODES, HIDDEN)));
    p->in[2] = cj_keep(cj_bernoulli(p->c, 0.0127, CJ_SHAPE(NODES, FEATURES)));
    features = cj_csr_keep(cj_csr_from_dense(p->in[2]));
}
static void layer_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *w = cj_require_grad(in[0]);
    out[0] = cj_csr_matmul(matrix, cj_matmul(in[2], w));
    cj_grad(out[0], &w, 1, out + 1, .seed = in[1]);
}
static void sparse_layer_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *w = cj_require_grad(in[0]);
    out[0] = cj_csr_matmul(matrix, cj_csr_matmul(features, w));
    cj_grad(out[0], &w, 1, out + 1, .seed = in[1]);
}

bool bench_sparse(bench_run *r)
{
    const bench_case cases[] = {
        { "Q h, h 2708x16", graph_make, graph_step, NULL, 0, 0, 2 },
        { "Q h with gradients of Q", graph_make, values_step, NULL, 0, 0, 2 },
        { "Q (x w), x dense 2708x1433", layer_make, layer_step, NULL, 8.0 * NODES * FEATURES, 4.0 * NODES * FEATURES * HIDDEN, 2 },
        { "Q (x w), x sparse 2708x1433", layer_make, sparse_layer_step, NULL, 0, 0, 2 },
    };
    return bench_cases(r, "peer_sparse.py", NULL, cases, (int)(sizeof cases / sizeof *cases));
}
