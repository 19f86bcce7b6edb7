/* Catalogue rows of graphs at work: normalised adjacency, nodes told apart from a few labels, links, graphs that are drawn, filters of a graph.  Real graphs are looked at where $CAJAL_DATA has
 * them; everything is shown on drawn ones, too. */
#include <unistd.h>

#include "reader.h"
#include "zoo.h"

extern const cj_model cj_model_gcn;

TEST_CONTEXT(.threads = 1, .seed = 121);

/* The data set, or NULL where $CAJAL_DATA does not have it. */
static cj_dataset *data_if_there(const char *name)
{
    if (!getenv("CAJAL_DATA")) return NULL;
    cj_dataset *d = cj_dataset_open(c, name);
    if (!d) cj_clear(c);
    return d;
}

/* 0 and 1 [n, n]: nodes of one of two halves are joined with probability `in`, of both with `out`. */
static cj_tensor *two_blocks(int64_t n, double in, double out)
{
    cj_tensor *side = cj_ge_scalar(cj_arange(c, 0, (double)n, 1, CJ_I64), (double)n / 2), *same = cj_eq(cj_unsqueeze(side, 1), side);
    cj_tensor *p = cj_where(same, cj_full(c, in, CJ_SCALAR, CJ_F32), cj_full(c, out, CJ_SCALAR, CJ_F32));
    cj_tensor *edge = cj_triu(cj_cast(cj_lt(cj_rand(c, CJ_SHAPE(n, n)), p), CJ_F32), 1);
    return cj_add(edge, cj_t(edge));
}
static cj_csr adjacency(const cj_graph *g)
{
    return cj_csr_from_parts(g->offset, g->target, cj_ones(c, CJ_SHAPE(g->edges), CJ_F32), g->nodes, g->nodes);
}

static void check_normalised(cj_csr a)
{
    cj_tensor *A = cj_cast(cj_csr_to_dense(a), CJ_F64), *with = cj_add(A, cj_eye(c, a.rows, CJ_F64)),
              *root = cj_rsqrt(cj_sum(with, .axes = CJ_AXIS(1)));
    cj_tensor *Q = cj_mul(cj_mul(with, cj_unsqueeze(root, 1)), root);
    cj_tensor *found = cj_cast(cj_csr_to_dense(cj_graph_normalise(a)), CJ_F64);
    assert_near(distance(found, Q), 0, 1e-6);
    assert_near(distance(found, cj_t(found)), 0, 1e-7);
    double *w = values_of(cj_eigvalsh(Q));
    assert_true(w[0] > -1);
    assert_near(w[a.rows - 1], 1, 1e-12);
    free(w);
}

/* graph.data */
static void graph_data(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int trial = 0; trial < 3; trial++) check_normalised(cj_csr_from_dense(two_blocks(30, 0.3, 0.1)));
    /* a graph in GML, and the degrees of what was read */
    char path[] = "/tmp/cajal-graph-XXXXXX";
    int f = mkstemp(path);
    static const char text[] = "graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ] edge [ source 0 target 1 ] edge [ source 1 target 2 ] ]";
    assert_true(f >= 0 && write(f, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && close(f) == 0);
    cj_graph *g = cj_gml_load(c, path);
    unlink(path);
    assert_non_null(g);
    assert_true(g->nodes == 3 && g->edges == 4); /* an undirected edge has two entries */
    cj_tensor *degree = cj_csr_matmul(adjacency(g), cj_ones(c, CJ_SHAPE(3), CJ_F32));
    assert_near(distance(degree, cj_from_f32(c, (float[]){ 1, 2, 1 }, CJ_SHAPE(3))), 0, 0);
    check_normalised(adjacency(g));
    cj_dataset *karate = data_if_there("karate"), *cora = data_if_there("cora");
    if (karate) {
        assert_true(karate->graph->nodes == 34 && karate->graph->edges == 2 * 78 && karate->graph->classes == 2);
        check_normalised(adjacency(karate->graph));
    }
    if (cora) assert_true(cora->graph->nodes == 2708 && cora->graph->features == 1433 && cora->graph->classes == 7);
    print_message("karate %s, cora %s\n", karate ? "read" : "not there", cora ? "read" : "not there");
    cj_dataset_free(karate);
    cj_dataset_free(cora);
    cj_scope_close(s);
}

/* Share of the nodes `test` that a GCN (or, with no edges, a network of features alone) tells right after learning from `train`. */
static double classify(cj_csr graph, cj_tensor *x, cj_tensor *y, cj_tensor *train, cj_tensor *test, int64_t classes, int64_t *params)
{
    cj_csr q = cj_csr_keep(cj_graph_normalise(graph));
    cj_module *m = zoo_build(c, &cj_model_gcn, (cj_model_data){ .inputs = cj_size(x, 1), .outputs = classes, .graph = &q, .nodes = x },
                             WITH("hidden=16"));
    assert_ok(c);
    *params = cj_params_numel(cj_module_params(m));
    cj_tensor *rows = cj_keep(train), *labels = cj_keep(cj_index_select(y, 0, train));
    cj_examples e;
    assert_true(cj_examples_of_rows(rows, labels, &e));
    cj_train(m, &e, .task = CJ_TASK_NODES, .model = &cj_model_gcn, .steps = 200, .lr = 0.01, .batch = cj_numel(train));
    assert_ok(c);
    cj_module_train(m, false);
    bool was = cj_no_grad(c);
    double share = cj_accuracy(cj_forward(m, test), cj_index_select(y, 0, test));
    cj_grad_mode(c, was);
    cj_release(rows);
    cj_release(labels);
    cj_csr_release(q);
    return share;
}

static cj_csr no_edges(int64_t n)
{
    return cj_csr_from_parts(cj_zeros(c, CJ_SHAPE(n + 1), CJ_I64), cj_zeros(c, CJ_SHAPE(0), CJ_I64), cj_zeros(c, CJ_SHAPE(0), CJ_F32), n,
                             n);
}

/* graph.node-classification */
static void graph_node_classification(void **state)
{
    (void)state;
    enum { N = 200 };
    cj_scope s = cj_scope_open(c);
    int64_t params;
    /* two halves, features that tell little, ten labels in each */
    cj_tensor *A = two_blocks(N, 0.1, 0.01), *y = cj_cast(cj_ge_scalar(cj_arange(c, 0, N, 1, CJ_I64), N / 2), CJ_I64),
              *all = cj_arange(c, 0, N, 1, CJ_I64);
    cj_tensor *own = cj_eq(cj_unsqueeze(y, 1), cj_cast(cj_ge_scalar(cj_arange(c, 0, 20, 1, CJ_I64), 10),
                                                       CJ_I64)); /* half of the features are larger for each side */
    cj_tensor *x = cj_add(cj_abs(cj_randn(c, CJ_SHAPE(N, 20))), cj_mul_scalar(cj_cast(own, CJ_F32), 0.2));
    cj_tensor *train = cj_arange(c, 0, N, 10, CJ_I64);
    double with = classify(cj_csr_from_dense(A), x, y, train, all, 2, &params),
           without_it = classify(no_edges(N), x, y, train, all, 2, &params);
    print_message("two halves, twenty labels: %.3f right with the edges, %.3f without\n", with, without_it);
    assert_true(with > 0.9 && with > without_it + 0.15);
    cj_dataset *cora = data_if_there("cora"), *karate = data_if_there("karate");
    if (cora) {
        const cj_graph *g = cora->graph;
        double a = classify(adjacency(g), g->x, g->y, g->train, g->test, 7, &params),
               b = classify(no_edges(g->nodes), g->x, g->y, g->train, g->test, 7, &params);
        print_message("cora: %.3f right with the edges, %.3f without, %d parameters\n", a, b, (int)params);
        assert_int_equal(params, 23063);
        assert_true(a >= 0.79 && b < 0.65);
    }
    if (karate) { /* the two leaders are labelled, 1 and 34 in Zachary's count; nodes are their own features */
        const cj_graph *g = karate->graph;
        cj_tensor *two = cj_from_i64(c, (int64_t[]){ 0, 33 }, CJ_SHAPE(2));
        double a = classify(adjacency(g), cj_eye(c, 34, CJ_F32), g->y, two, cj_arange(c, 0, 34, 1, CJ_I64), 2, &params);
        print_message("karate club: %.3f right from two labels\n", a);
        assert_true(a > 0.9);
    }
    cj_dataset_free(cora);
    cj_dataset_free(karate);
    cj_scope_close(s);
}

/* ---- auto-encoders of graphs ---------------------------------------------------------------------------------------------------------------------------------------- */

/* z = Q relu(Q x W1) W2; an edge of i and j has the logit z_i·z_j + b. */
typedef struct pairs {
    cj_module *all, *first, *second;
    cj_tensor *bias, *x, *target, *mask; /* mask: 1 for the pairs that count */
    cj_csr q;
} pairs;

static cj_tensor *scores(pairs *p)
{
    cj_tensor *h = cj_relu(cj_graph_conv_forward(p->first, p->q, p->x)), *z = cj_graph_conv_forward(p->second, p->q, h);
    return cj_add(cj_matmul(z, cj_t(z)), p->bias);
}

static cj_tensor *pairs_loss(void *user, int step)
{
    (void)step;
    pairs *p = user;
    cj_tensor *each = cj_bce_with_logits(scores(p), p->target, .reduction = CJ_NONE);
    return cj_div(cj_sum(cj_mul(each, p->mask)), cj_sum(p->mask));
}

static pairs pairs_new(cj_tensor *seen, cj_tensor *x, cj_tensor *mask)
{
    pairs p = { .all = holder(c), .x = x, .target = seen, .mask = mask, .q = cj_graph_normalise(cj_csr_from_dense(seen)) };
    p.first = cj_module_add(p.all, "first", cj_graph_conv_layer(c, cj_size(x, 1), 16, .no_bias = true));
    p.second = cj_module_add(p.all, "second", cj_graph_conv_layer(c, 16, 8, .no_bias = true));
    p.bias = cj_module_param(p.all, "bias", cj_full(c, -1, CJ_SCALAR, CJ_F32));
    return p;
}

/* graph.generative: edges drawn from a two-block graph's auto-encoder have its density and its blocks */
static void graph_generative(void **state)
{
    (void)state;
    enum { N = 60 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *A = two_blocks(N, 0.5, 0.05), *pairs_of_two = cj_triu(cj_ones(c, CJ_SHAPE(N, N), CJ_F32), 1);
    pairs p = pairs_new(A, cj_eye(c, N, CJ_F32), pairs_of_two);
    train_steps(c, cj_adam(cj_module_params(p.all), .lr = 0.01), 150, pairs_loss, &p);
    double loss = cj_item(pairs_loss(&p, 0)), density = cj_item(cj_sum(cj_mul(A, pairs_of_two))) / (N * (N - 1) / 2.0);
    double baseline = -density * log(density) - (1 - density) * log(1 - density);
    cj_tensor *prob = cj_sigmoid(scores(&p));
    assert_near(distance(prob, cj_t(prob)), 0, 1e-6);
    cj_tensor *drawn = cj_mul(cj_cast(cj_lt(cj_rand(c, CJ_SHAPE(N, N)), prob), CJ_F32), pairs_of_two);
    const double inside = 2 * (N / 2.0) * (N / 2.0 - 1) / 2, across = (N / 2.0) * (N / 2.0);
    cj_tensor *between = cj_slice(cj_slice(drawn, 0, 0, N / 2, 1), 1, N / 2, N, 1);
    double edges = cj_item(cj_sum(drawn)), cross = cj_item(cj_sum(between)), found = edges / (N * (N - 1) / 2.0);
    print_message("log-loss %.3f (density alone %.3f); drawn: density %.3f (%.3f), %.2f inside, %.2f across the blocks\n", loss, baseline,
                  found, density, (edges - cross) / inside, cross / across);
    assert_true(loss < baseline - 0.05);
    assert_near(found, density, 0.05);
    assert_near((edges - cross) / inside, 0.5, 0.12);
    assert_near(cross / across, 0.05, 0.08);
    cj_scope_close(s);
}

/* Ends of edges, i64 [n] each. */
typedef struct ends {
    cj_tensor *a, *b;
} ends;
typedef struct linker {
    pairs p;
    ends known;
    int64_t nodes;
} linker;

/* z_i·z_j of pairs [n]. */
static cj_tensor *linked(linker *l, ends e)
{
    cj_tensor *h = cj_relu(cj_graph_conv_forward(l->p.first, l->p.q, l->p.x)), *z = cj_graph_conv_forward(l->p.second, l->p.q, h);
    return cj_sum(cj_mul(cj_index_select(z, 0, e.a), cj_index_select(z, 0, e.b)), .axes = CJ_AXIS(1));
}
static ends any_pairs(int64_t n, int64_t nodes)
{
    return (ends){ cj_randint(c, 0, nodes, CJ_SHAPE(n)), cj_randint(c, 0, nodes, CJ_SHAPE(n)) };
}
static ends both(ends e, ends f) { return (ends){ cj_cat((cj_tensor *[]){ e.a, f.a }, 2, 0), cj_cat((cj_tensor *[]){ e.b, f.b }, 2, 0) }; }

/* Edges against as many pairs from anywhere (of which few are edges). */
static cj_tensor *linker_loss(void *user, int step)
{
    (void)step;
    linker *l = user;
    int64_t n = cj_numel(l->known.a);
    cj_tensor *label = cj_cat((cj_tensor *[]){ cj_ones(c, CJ_SHAPE(n), CJ_F32), cj_zeros(c, CJ_SHAPE(n), CJ_F32) }, 2, 0);
    return cj_bce_with_logits(linked(l, both(l->known, any_pairs(n, l->nodes))), label);
}

/* Area under the curve of edges that were taken out against pairs that are none. */
static double link_area(cj_csr graph, cj_tensor *x)
{
    cj_scope s = cj_scope_open(c);
    int64_t nodes = graph.rows;
    cj_tensor *entry = cj_arange(c, 0, (double)cj_numel(graph.columns), 1, CJ_I64);
    cj_tensor *row = cj_searchsorted(cj_slice(graph.offsets, 0, 1, CJ_END, 1), entry, .right = true),
              *up = cj_lt(row, graph.columns); /* each edge once */
    cj_tensor *a = cj_masked_select(row, up), *b = cj_masked_select(graph.columns, up),
              *order = cj_argsort(cj_rand(c, CJ_SHAPE(cj_numel(a))), 0);
    int64_t n = cj_numel(a), out = n / 10;
    a = cj_index_select(a, 0, order), b = cj_index_select(b, 0, order);
    ends held = { cj_slice(a, 0, 0, out, 1), cj_slice(b, 0, 0, out, 1) }, known = { cj_slice(a, 0, out, n, 1), cj_slice(b, 0, out, n, 1) };
    ends ways = both(known, (ends){ known.b, known.a });
    linker l = { .p = { .all = holder(c), .x = x }, .known = known, .nodes = nodes };
    l.p.q = cj_graph_normalise(cj_csr_from_coo(ways.a, ways.b, cj_ones(c, CJ_SHAPE(2 * (n - out)), CJ_F32), nodes, nodes));
    l.p.first = cj_module_add(l.p.all, "first", cj_graph_conv_layer(c, cj_size(x, 1), 32, .no_bias = true));
    l.p.second = cj_module_add(l.p.all, "second", cj_graph_conv_layer(c, 32, 16, .no_bias = true));
    train_steps(c, cj_adam(cj_module_params(l.p.all), .lr = 0.01), 100, linker_loss, &l);
    ends none = any_pairs(20 * out, nodes);
    cj_tensor *key = cj_add(cj_mul_scalar(none.a, (double)nodes), none.b),
              *edges = cj_add(cj_mul_scalar(row, (double)nodes), graph.columns); /* sorted */
    cj_tensor *there = cj_sub(cj_searchsorted(edges, key, .right = true), cj_searchsorted(edges, key)),
              *free_pair = cj_logical_and(cj_eq_scalar(there, 0), cj_ne(none.a, none.b));
    none =
        (ends){ cj_slice(cj_masked_select(none.a, free_pair), 0, 0, out, 1), cj_slice(cj_masked_select(none.b, free_pair), 0, 0, out, 1) };
    cj_tensor *score = linked(&l, both(held, none)),
              *label = cj_cat((cj_tensor *[]){ cj_ones(c, CJ_SHAPE(out), CJ_I64), cj_zeros(c, CJ_SHAPE(out), CJ_I64) }, 2, 0);
    assert_near(distance(score, linked(&l, both((ends){ held.b, held.a }, (ends){ none.b, none.a }))), 0, 1e-6); /* symmetric */
    double area = cj_roc_auc(score, label);
    cj_scope_close(s);
    return area;
}

/* graph.link-prediction */
static void graph_link_prediction(void **state)
{
    (void)state;
    enum { N = 200 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *side = cj_cast(cj_ge_scalar(cj_arange(c, 0, N, 1, CJ_I64), N / 2), CJ_F32),
              *x = cj_cat((cj_tensor *[]){ cj_unsqueeze(side, 1), cj_unsqueeze(cj_add_scalar(cj_neg(side), 1), 1) }, 2, 1);
    double drawn = link_area(cj_csr_from_dense(two_blocks(N, 0.2, 0.01)), x);
    print_message("two halves: area %.3f (%.3f for who knows the halves)\n", drawn, 0.75);
    assert_true(drawn > 0.65);
    cj_dataset *cora = data_if_there("cora");
    if (cora) {
        double words = link_area(adjacency(cora->graph), cora->graph->x),
               noise = link_area(adjacency(cora->graph), cj_randn(c, CJ_SHAPE(2708, 32)));
        print_message("cora: area %.3f from the words, %.3f from random features\n", words, noise);
        assert_true(words >= 0.85 && noise < words);
    }
    cj_dataset_free(cora);
    cj_scope_close(s);
}

/* graph.poly-filter: H = sum of theta_i A^i commutes with A; on a directed ring it is the circular convolution with taps theta */
static void graph_poly_filter(void **state)
{
    (void)state;
    enum { N = 7, TAPS = 4 };
    cj_scope s = cj_scope_open(c);
    static const double theta[TAPS] = { 0.5, -1, 2, 0.25 };
    for (int ring = 0; ring < 2; ring++) {
        double a[N * N] = { 0 };
        for (int i = 0; i < N; i++) a[i * N + (i + N - 1) % N] = 1; /* (A x)_i = x_(i-1) */
        cj_tensor *A = ring ? f64(c, a, CJ_SHAPE(N, N)) : cj_randn(c, CJ_SHAPE(N, N), .dtype = CJ_F64), *power = cj_eye(c, N, CJ_F64),
                  *H = cj_zeros(c, CJ_SHAPE(N, N), CJ_F64);
        for (int i = 0; i < TAPS; i++) H = cj_add(H, cj_mul_scalar(power, theta[i])), power = cj_matmul(A, power);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64), *other = cj_randn(c, CJ_SHAPE(N, N), .dtype = CJ_F64);
        assert_near(distance(cj_matmul(H, A), cj_matmul(A, H)), 0, 1e-10);
        assert_near(distance(cj_matmul(H, cj_matmul(A, x)), cj_matmul(A, cj_matmul(H, x))), 0, 1e-10);
        assert_true(distance(cj_matmul(other, A), cj_matmul(A, other)) > 0.1);
        if (!ring) continue;
        double *v = values_of(x), *y = values_of(cj_matmul(H, x));
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k < TAPS; k++) sum += theta[k] * v[(i - k + N) % N];
            assert_near(y[i], sum, 1e-13);
        }
        free(v), free(y);
        /* the converse needs powers of A up to n-1 to be independent: any circulant H is a polynomial of the ring */
        double *h = values_of(H);
        for (int k = TAPS; k < N; k++) assert_near(h[k * N], 0, 0);
        for (int k = 0; k < TAPS; k++) assert_near(h[k * N], theta[k], 0);
        free(h);
    }
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_data),        cmocka_unit_test(graph_node_classification),
        cmocka_unit_test(graph_generative),  cmocka_unit_test(graph_link_prediction),
        cmocka_unit_test(graph_poly_filter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
