/* attention-map: where heads look when a text is copied and when it is turned around.
 *
 *     x_t = E[symbol_t] + P_t,   q from P_t,   k from x,   v from x:   logits_t = W · (heads of softmax(q kᵀ/sqrt d) v)
 *
 * Every position asks for one other: its own (copy), or the one as far from the end as it is from the beginning (reverse).  The weights of the heads, [from, looks at], then are
 * a diagonal and an anti-diagonal; they are drawn with the symbols as names.  Without positions all queries are the same, and the map is flat.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { LENGTH = 8, SYMBOLS = 6, WIDTH = 32, HEADS = 2, BATCH = 32, STEPS = 300 };

typedef struct net {
    cj_module *all, *embedding, *positions, *attention, *head;
    bool blind; /* without positions */
} net;

static net net_new(cj_ctx *c, bool blind)
{
    static const cj_module_type type = { .name = "Parts" };
    net n = { .all = cj_module_new(c, &type, 0), .blind = blind };
    n.embedding = cj_module_add(n.all, "embedding", cj_embedding_layer(c, SYMBOLS, WIDTH, .init_std = 0.5));
    n.positions = cj_module_add(n.all, "positions", cj_embedding_layer(c, LENGTH, WIDTH, .init_std = 0.5));
    n.attention = cj_module_add(n.all, "attention", cj_multihead_attention(c, WIDTH, HEADS));
    n.head = cj_module_add(n.all, "head", cj_linear(c, WIDTH, SYMBOLS));
    return n;
}

/* Queries and keys of symbols x i64 [N, LENGTH]. */
static void ask(net *n, cj_tensor *x, cj_tensor **query, cj_tensor **key)
{
    cj_ctx *c = cj_tensor_ctx(x);
    cj_tensor *p = cj_forward(n->positions, cj_arange(c, 0, LENGTH, 1, CJ_I64));
    if (n->blind) p = cj_zeros_like(p);
    *query = cj_expand(p, CJ_SHAPE(cj_size(x, 0), LENGTH, WIDTH));
    *key = cj_add(cj_forward(n->embedding, x), p);
}

static void train(cj_ctx *c, net *n, cj_sequence_task task)
{
    cj_optim *o = cj_adam(cj_module_params(n->all), .lr = 0.005);
    for (int i = 0; i < STEPS && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_sequences q = cj_sequence_rows(c, task, BATCH, LENGTH, .symbols = SYMBOLS, .seed = 1, .first = BATCH * i);
        cj_tensor *query, *key;
        ask(n, q.x, &query, &key);
        cj_minimise(o, cj_cross_entropy(cj_forward(n->head, cj_multihead_forward(n->attention, query, key, key)), q.y));
        cj_scope_close(s);
    }
}

static void draw(cj_ctx *c, cj_lab_record *r, const char *task, const int64_t *symbol, const double *alpha)
{
    static const char *const letter[SYMBOLS] = { "a", "b", "c", "d", "e", "f" };
    const char *names[LENGTH];
    for (int t = 0; t < LENGTH; t++) names[t] = letter[symbol[t]];
    for (int h = 0; h < HEADS; h++) {
        char title[80], file[80];
        snprintf(title, sizeof title, "%s: where head %d looks from each symbol", task, h);
        snprintf(file, sizeof file, "attention-map-%s-%d", task, h);
        cj_plot *p = cj_plot_new(c, title);
        cj_plot_size(p, 700, 640);
        cj_plot_labels(p, "looks at", "from");
        cj_plot_heat(p, alpha + (ptrdiff_t)h * LENGTH * LENGTH, LENGTH, LENGTH, names, names);
        cj_lab_picture(r, c, p, file);
    }
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static const struct {
        cj_sequence_task task;
        const char *name;
    } tasks[] = { { CJ_SEQUENCE_COPY, "copy" }, { CJ_SEQUENCE_REVERSE, "reverse" } };
    for (int k = 0; k < 2 && cj_ok(c); k++) {
        cj_scope s = cj_scope_open(c);
        net n = net_new(c, control);
        train(c, &n, tasks[k].task);
        cj_sequences q = cj_sequence_rows(c, tasks[k].task, 1, LENGTH, .symbols = SYMBOLS, .seed = 2);
        cj_tensor *query, *key;
        ask(&n, q.x, &query, &key);
        double alpha[HEADS * LENGTH * LENGTH], sums = 0, there = 0;
        int64_t symbol[LENGTH];
        bool ok =
            cj_to_f64(cj_multihead_weights(n.attention, query, key), alpha, HEADS * LENGTH * LENGTH) && cj_to_i64(q.x, symbol, LENGTH);
        for (int i = 0; ok && i < HEADS * LENGTH; i++) { /* row i % LENGTH of head i / LENGTH */
            const double *row = alpha + (ptrdiff_t)i * LENGTH;
            int t = i % LENGTH, most = 0;
            double sum = 0;
            for (int j = 0; j < LENGTH; j++) {
                sum += row[j];
                if (row[j] > row[most]) most = j;
            }
            sums = fmax(sums, fabs(sum - 1));
            there += (most == (k ? LENGTH - 1 - t : t)) / (double)(HEADS * LENGTH);
        }
        char what[80];
        snprintf(what, sizeof what, "%s: largest distance of a row's sum from 1", tasks[k].name);
        if (ok) cj_lab_expect(r, what, 0, sums, 1e-6);
        snprintf(what, sizeof what, "%s: share of rows with their largest weight on the %s", tasks[k].name,
                 k ? "anti-diagonal" : "diagonal");
        if (ok) cj_lab_expect(r, what, 1, there, 0);
        if (ok && !control && cj_lab_wants_pictures(r)) draw(c, r, tasks[k].name, symbol, alpha);
        cj_scope_close(s);
    }
}

const cj_lab cj_lab_attention_map = {
    .name = "attention-map",
    .claim = "heads that copy a text look along the diagonal, heads that turn it around along the anti-diagonal",
    .source = "Bahdanau, Cho & Bengio 2015; Vaswani et al. 2017",
    .control = "queries without positions",
    .run = run,
};
