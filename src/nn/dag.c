/* Feed-forward networks whose units are the nodes of any directed graph without circles.
 *
 * Units are evaluated level by level: a unit's level is one more than the highest among the units that feed it, so all units of a level are one product.
 */
#include "nn/nn.h"

bool cj_topological_order(const int64_t (*edge)[2], int64_t edges, int64_t units, int64_t *order, int64_t *level)
{
    if (units < 1 || edges < 0 || (edges && !edge) || !order || !level) return false;
    for (int64_t e = 0; e < edges; e++)
        if (edge[e][0] < 0 || edge[e][0] >= units || edge[e][1] < 0 || edge[e][1] >= units) return false;
    for (int64_t u = 0; u < units; u++) level[u] = 0;
    int64_t round = 0;
    for (bool moved = true; moved; round++) { /* without a circle no path is longer than the number of units */
        moved = false;
        for (int64_t e = 0; e < edges; e++)
            if (level[edge[e][1]] <= level[edge[e][0]]) {
                level[edge[e][1]] = level[edge[e][0]] + 1;
                moved = true;
            }
        if (round > units) return false;
    }
    int64_t n = 0;
    for (int64_t l = 0; n < units; l++)
        for (int64_t u = 0; u < units; u++)
            if (level[u] == l) order[n++] = u;
    return true;
}

typedef struct dag {
    cj_tensor *weight, *bias, *mask; /* [units, units], [units] */
    cj_tensor *order;                /* i64 [units] */
    int64_t inputs, outputs, units, levels;
    int64_t *begin; /* of each level in the order, and the end */
} dag;

static void dag_free(cj_module *m, void *self)
{
    dag *l = self;
    if (l->begin) cj__free(cj_module_ctx(m), l->begin, (size_t)(l->levels + 1) * sizeof *l->begin);
}

static cj_tensor *dag_forward(cj_module *m, void *self, cj_tensor *x)
{
    const dag *l = self;
    cj_ctx *c = cj_module_ctx(m);
    if (x->ndim != 2 || x->shape[1] != l->inputs)
        return cj_fail(c, CJ_ESHAPE, "dag layer: input %s; [n, %lld] expected", cj__tensor_text(x), (long long)l->inputs);
    cj_tensor *w = cj_mul(l->weight, l->mask);
    w = cj_index_select(cj_index_select(w, 0, l->order), 1, l->order); /* rows and columns in the order of evaluation */
    cj_tensor *b = cj_index_select(l->bias, 0, l->order), *h = x;
    for (int64_t k = 1; k < l->levels && !c->error; k++) { /* level 0 are the inputs */
        const int64_t from = l->begin[k], to = l->begin[k + 1];
        cj_tensor *z = cj_linear_op(h, cj_slice(cj_slice(w, 0, from, to, 1), 1, 0, from, 1), cj_slice(b, 0, from, to, 1));
        cj_tensor *part[] = { h, k + 1 < l->levels ? cj_forward(cj_module_child(m, 0), z) : z };
        h = cj_cat(part, 2, 1);
    }
    return cj_slice(h, 1, l->units - l->outputs, l->units, 1);
}
static const cj_module_type dag_type = { "Dag", dag_forward, dag_free };

static bool dag_fits(cj_ctx *c, int64_t inputs, int64_t units, const int64_t *level)
{
    for (int64_t u = 0; u < units; u++)
        if ((u < inputs) != (level[u] == 0)) {
            cj_fail(c, CJ_EVALUE, "dag layer: %s %lld", u < inputs ? "something feeds the input" : "nothing feeds unit", (long long)u);
            return false;
        }
    return true;
}

cj_module *cj_dag_layer(cj_ctx *c, int64_t inputs, int64_t units, const int64_t (*edge)[2], int64_t edges, const char *activation)
{
    if (!c || c->error) return NULL;
    if (inputs < 1 || units <= inputs || units > 1 << 20) {
        cj_fail(c, CJ_EVALUE, "dag layer: %lld units, %lld of them inputs", (long long)units, (long long)inputs);
        return NULL;
    }
    size_t bytes = (size_t)units * sizeof(int64_t);
    int64_t *order = cj__alloc(c, bytes), *level = cj__alloc(c, bytes);
    cj_module *m = NULL;
    if (order && level && !cj_topological_order(edge, edges, units, order, level))
        cj_fail(c, CJ_EVALUE, "dag layer: the edges have a circle, or name units outside of 0 … %lld", (long long)(units - 1));
    if (!c->error && order && level && dag_fits(c, inputs, units, level) && (m = cj_module_new(c, &dag_type, sizeof(dag)))) {
        dag *l = cj_module_self(m);
        l->inputs = inputs;
        l->units = units;
        l->levels = level[order[units - 1]] + 1;
        l->begin = cj__zalloc(c, (size_t)(l->levels + 1) * sizeof *l->begin);
        for (int64_t u = 0; u < units && l->begin; u++) l->begin[level[u] + 1]++;
        for (int64_t k = 0; k < l->levels && l->begin; k++) l->begin[k + 1] += l->begin[k];
        l->outputs = l->begin ? l->begin[l->levels] - l->begin[l->levels - 1] : 0;
        cj_scope s = cj_scope_open(c);
        cj_tensor *at = cj_zeros(c, CJ_SHAPE(units * units), CJ_F32);
        for (int64_t e = 0; e < edges && !c->error; e++) {
            cj_tensor *place = cj_full(c, (double)(edge[e][1] * units + edge[e][0]), CJ_SHAPE(1), CJ_I64);
            at = cj_scatter_reduce(at, 0, place, cj_ones(c, CJ_SHAPE(1), CJ_F32), CJ_COMBINE_MAX, NULL);
        }
        l->mask = cj_module_buffer(m, "mask", cj_reshape(at, CJ_SHAPE(units, units)));
        cj_random_opts draw = { .stream = CJ_STREAM_INIT };
        l->weight = cj_module_param(m, "weight", cj_mul(cj_uniform(c, -1, 1, CJ_SHAPE(units, units), &draw), l->mask));
        l->bias = cj_module_param(m, "bias", cj_zeros(c, CJ_SHAPE(units), CJ_F32));
        l->order = cj_module_buffer(m, "order", cj_from_i64(c, order, CJ_SHAPE(units)));
        cj_scope_close(s);
        cj_module_add(m, "activation", cj_activation_layer(c, activation ? activation : "tanh", NULL));
    }
    cj__free(c, order, bytes);
    cj__free(c, level, bytes);
    return c->error ? NULL : m;
}
