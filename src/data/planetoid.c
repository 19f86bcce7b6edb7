/* Planetoid's citation graphs (Z. Yang, W. Cohen, R. Salakhutdinov, "Revisiting semi-supervised learning with graph embeddings", 2016), as every GCN paper
 * reads them: row k of tx and ty belongs to node test.index[k], the other rows are those of allx and ally in order.
 */
#include <math.h>
#include <stdio.h>

#include "data/graph.h"
#include "data/pickle.h"

#define VALIDATION 500
#define MAX_NODES 10000000

typedef struct part {
    cj_bytes b;
    cj_pickle *p;
} part;

enum { X, TX, ALLX, Y, TY, ALLY, GRAPH, PARTS };

typedef struct planetoid {
    cj_ctx *ctx;
    cj_graph *g;
    void *scratch; /* a record for the pickles */
    part part[PARTS];
    int64_t *test; /* of the scratch */
    int64_t tests, rows, train;
    float *x;
    int64_t *y;
    size_t x_bytes, y_bytes;
} planetoid;

typedef struct csr {
    int64_t rows, columns;
    cj_pickle_array data, indices, indptr;
} csr;

/* A csr_matrix whose parts agree with each other: rows ascend, columns are inside. */
static bool csr_of(const part *s, csr *m)
{
    const cj_bytes *b = &s->b;
    const cj_pickle *p = s->p, *state = p->kind == CJ_PICKLE_OBJECT ? p->item[2] : NULL, *shape = cj__pickle_find(state, "_shape");
    if (!shape || shape->kind != CJ_PICKLE_TUPLE || shape->n != 2) return cj__bytes_error(b, p->at, "a csr_matrix was expected");
    for (int d = 0; d < 2; d++) {
        double v = shape->item[d]->kind == CJ_PICKLE_NUMBER ? shape->item[d]->number : -1;
        if (!(v >= 0 && v <= MAX_NODES))
            return cj__bytes_error(b, shape->at, "a shape of at most %d was expected, %g was found", MAX_NODES, v);
        *(d ? &m->columns : &m->rows) = (int64_t)v;
    }
    if (!cj__pickle_array(b, cj__pickle_find(state, "data"), &m->data) ||
        !cj__pickle_array(b, cj__pickle_find(state, "indices"), &m->indices) ||
        !cj__pickle_array(b, cj__pickle_find(state, "indptr"), &m->indptr))
        return false;
    bool ok = m->indptr.n == m->rows + 1 && m->data.n == m->indices.n && cj__pickle_element(&m->indptr, 0) == 0;
    for (int64_t i = 0; ok && i < m->rows; i++) ok = cj__pickle_element(&m->indptr, i) <= cj__pickle_element(&m->indptr, i + 1);
    ok = ok && cj__pickle_element(&m->indptr, m->rows) == (double)m->data.n;
    for (int64_t i = 0; ok && i < m->indices.n; i++)
        ok = cj__pickle_element(&m->indices, i) >= 0 && cj__pickle_element(&m->indices, i) < (double)m->columns;
    return ok || cj__bytes_error(b, p->at, "a csr_matrix of %lld x %lld whose indices fit was expected", (long long)m->rows,
                                 (long long)m->columns);
}

static bool labels_of(const part *s, int64_t rows, cj_pickle_array *y)
{
    if (!cj__pickle_array(&s->b, s->p, y)) return false;
    return (y->ndim == 2 && y->dim[0] == rows && y->dim[1] > 0) ||
           cj__bytes_error(&s->b, s->p->at, "%lld rows of labels were expected, %lld were found", (long long)rows, (long long)y->dim[0]);
}

static bool load_part(planetoid *s, int i, const char *path)
{
    part *p = &s->part[i];
    if (!cj__bytes_load(&p->b, s->ctx, "cj_planetoid_load", path)) return false;
    p->b.path = cj__record_text(s->scratch, path, strlen(path));
    return p->b.path && (p->p = cj__pickle_read(&p->b, s->scratch)) != NULL;
}

static bool load_index(planetoid *s, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, s->ctx, "cj_planetoid_load", path)) return false;
    const char *at = (const char *)b.data, *end = at + b.n;
    s->test = cj__record_alloc(s->scratch, (b.n / 2 + 1) * sizeof *s->test);
    bool ok = s->test != NULL;
    while (ok) {
        double v;
        while (at < end && (unsigned char)*at <= ' ') at++;
        if (at == end) break;
        const char *start = at;
        ok = cj__read_number(&at, end, &v) && v >= 0 && v < MAX_NODES && v == floor(v) && (at == end || (unsigned char)*at <= ' ');
        if (ok) s->test[s->tests++] = (int64_t)v;
        else cj__bytes_error(&b, (size_t)(start - (const char *)b.data), "a node's number was expected");
    }
    if (ok && !s->tests) ok = cj__bytes_error(&b, 0, "numbers of nodes were expected, none were found");
    cj__bytes_free(&b);
    return ok;
}

/* Rows of one matrix and its labels to their nodes. */
static void place(planetoid *s, const csr *m, const cj_pickle_array *y, const int64_t *node)
{
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t to = node ? node[i] : i, from = (int64_t)cj__pickle_element(&m->indptr, i),
                until = (int64_t)cj__pickle_element(&m->indptr, i + 1);
        for (int64_t k = from; k < until; k++)
            s->x[to * m->columns + (int64_t)cj__pickle_element(&m->indices, k)] = (float)cj__pickle_element(&m->data, k);
        for (int64_t k = 0; k < y->dim[1]; k++)
            if (cj__pickle_element(y, i * y->dim[1] + k) > 0) s->y[to] = k;
    }
}

static bool features(planetoid *s)
{
    csr x, all, test;
    cj_pickle_array y_all, y_test;
    if (!csr_of(&s->part[X], &x) || !csr_of(&s->part[ALLX], &all) || !csr_of(&s->part[TX], &test)) return false;
    if (!labels_of(&s->part[ALLY], all.rows, &y_all) || !labels_of(&s->part[TY], test.rows, &y_test)) return false;
    int64_t last = all.rows + test.rows - 1;
    for (int64_t i = 0; i < s->tests; i++) last = s->test[i] > last ? s->test[i] : last;
    const cj_bytes *b = &s->part[TX].b;
    if (test.rows != s->tests || test.columns != all.columns || x.columns != all.columns || y_test.dim[1] != y_all.dim[1] ||
        x.rows > all.rows)
        return cj__bytes_error(b, s->part[TX].p->at, "%lld rows of %lld columns were expected, %lld of %lld were found",
                               (long long)s->tests, (long long)all.columns, (long long)test.rows, (long long)test.columns);
    if (last + 1 > 4 * (all.rows + test.rows))
        return cj__bytes_error(b, 0, "nodes up to %lld were expected, %lld was found", (long long)(all.rows + test.rows), (long long)last);
    s->rows = last + 1;
    s->train = x.rows;
    if ((uint64_t)s->rows * (uint64_t)all.columns > CJ_MAX_FILE / sizeof(float))
        return cj__bytes_error(b, 0, "features of at most 2 GiB were expected, %lld x %lld were found", (long long)s->rows,
                               (long long)all.columns);
    s->x_bytes = (size_t)(s->rows * all.columns) * sizeof *s->x;
    s->y_bytes = (size_t)s->rows * sizeof *s->y;
    s->x = cj__zalloc(s->ctx, s->x_bytes ? s->x_bytes : 1);
    s->y = s->x ? cj__alloc(s->ctx, s->y_bytes) : NULL;
    if (!s->y) return false;
    for (int64_t i = 0; i < s->rows; i++) s->y[i] = -1;
    place(s, &all, &y_all, NULL);
    place(s, &test, &y_test, s->test);
    cj_graph *g = s->g;
    g->nodes = s->rows;
    g->features = all.columns;
    g->classes = y_all.dim[1];
    return cj__record_tensor(g, g->x = cj_from_f32(s->ctx, s->x, CJ_SHAPE(s->rows, all.columns))) &&
           cj__record_tensor(g, g->y = cj_from_i64(s->ctx, s->y, CJ_SHAPE(s->rows)));
}

static bool split(planetoid *s)
{
    cj_graph *g = s->g;
    cj_ctx *c = s->ctx;
    int64_t *order = s->y; /* its room is enough, its values are a tensor now */
    for (int64_t i = 0; i < s->rows; i++) order[i] = i;
    int64_t val = s->rows - s->train < VALIDATION ? s->rows - s->train : VALIDATION;
    if (!cj__record_tensor(g, g->train = cj_from_i64(c, order, CJ_SHAPE(s->train))) ||
        !cj__record_tensor(g, g->val = cj_from_i64(c, order + s->train, CJ_SHAPE(val))))
        return false;
    for (int64_t i = 0; i < s->rows; i++) order[i] = 0;
    for (int64_t i = 0; i < s->tests; i++) order[s->test[i]] = 1;
    int64_t n = 0;
    for (int64_t i = 0; i < s->rows; i++)
        if (order[i]) order[n++] = i; /* n never passes i */
    return cj__record_tensor(g, g->test = cj_from_i64(c, order, CJ_SHAPE(n)));
}

/* {node: [neighbour, …], …}, in both directions */
static bool edges(planetoid *s)
{
    const part *p = &s->part[GRAPH];
    const cj_pickle *d = p->p->kind == CJ_PICKLE_OBJECT ? p->p->item[2] : p->p;
    if (!d || d->kind != CJ_PICKLE_DICT) return cj__bytes_error(&p->b, p->p->at, "a dictionary of lists was expected");
    size_t n = 0;
    for (size_t i = 0; i < d->n; i += 2) {
        const cj_pickle *from = d->item[i], *to = d->item[i + 1];
        bool ok = from->kind == CJ_PICKLE_NUMBER && to->kind == CJ_PICKLE_LIST && from->number >= 0 && from->number < (double)s->rows;
        if (!ok)
            return cj__bytes_error(&p->b, from->at, "a node below %lld and a list of its neighbours were expected", (long long)s->rows);
        n += to->n;
        if (n > p->b.n) return cj__bytes_error(&p->b, to->at, "fewer edges than bytes were expected");
    }
    size_t bytes = (2 * n + 1) * sizeof(cj_edge);
    cj_edge *edge = cj__alloc(s->ctx, bytes);
    if (!edge) return false;
    int64_t count = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < d->n; i += 2)
        for (size_t k = 0; ok && k < d->item[i + 1]->n; k++) {
            const cj_pickle *to = d->item[i + 1]->item[k];
            ok = to->kind == CJ_PICKLE_NUMBER && to->number >= 0 && to->number < (double)s->rows;
            if (!ok) cj__bytes_error(&p->b, to->at, "a node below %lld was expected", (long long)s->rows);
            int64_t a = (int64_t)d->item[i]->number, b = ok ? (int64_t)to->number : 0;
            edge[count++] = (cj_edge){ a, b, 1, 0 };
            edge[count++] = (cj_edge){ b, a, 1, 0 };
        }
    ok = ok && cj__graph_edges(s->g, edge, count, false);
    cj__free(s->ctx, edge, bytes);
    return ok;
}

cj_graph *cj_planetoid_load(cj_ctx *c, const char *folder, const char *name)
{
    static const char *const endings[] = { "x", "tx", "allx", "y", "ty", "ally", "graph" };
    if (!c || !cj__cancel_check(c)) return NULL;
    if (!folder || !name) return cj__error(c, CJ_EVALUE, "cj_planetoid_load: the %s is NULL", folder ? "name" : "folder"), NULL;
    planetoid s = { .ctx = c };
    s.g = cj__record_new(c, sizeof *s.g);
    s.scratch = s.g ? cj__record_new(c, 1) : NULL;
    bool ok = s.scratch != NULL;
    char path[4096];
    for (int i = 0; ok && i < PARTS; i++) {
        ok = snprintf(path, sizeof path, "%s/ind.%s.%s", folder, name, endings[i]) < (int)sizeof path ||
             cj__error(c, CJ_EVALUE, "cj_planetoid_load: a path of more than %zu bytes", sizeof path);
        ok = ok && load_part(&s, i, path);
    }
    if (ok) {
        snprintf(path, sizeof path, "%s/ind.%s.test.index", folder, name);
        ok = load_index(&s, path);
    }
    ok = ok && features(&s) && split(&s) && edges(&s);
    for (int i = 0; i < PARTS; i++) cj__bytes_free(&s.part[i].b);
    if (s.x) cj__free(c, s.x, s.x_bytes ? s.x_bytes : 1);
    if (s.y) cj__free(c, s.y, s.y_bytes);
    cj__record_free(s.scratch);
    if (ok) return s.g;
    cj__record_free(s.g);
    return NULL;
}
