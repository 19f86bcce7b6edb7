/* Networks over symbols that tests train: an embedding, recurrent layers, a linear map of what they say. */
#ifndef CJ_TESTS_READER_H
#define CJ_TESTS_READER_H

#include "support.h"

typedef cj_module *(*cell_fn)(cj_ctx *, int64_t, int64_t, const cj_recurrent_layer_opts *);

typedef struct reader {
    cj_module *all, *embedding, *cell, *head;
    cj_optim *optim;
} reader;

typedef struct reader_opts {
    cell_fn cell; /* cj_gru_layer by default */
    int64_t symbols, dim, hidden, outputs;
    int layers;
    bool both; /* directions */
    double lr;
} reader_opts;

/* A module that only holds others; parts are added by name. */
UNUSED static cj_module *holder(cj_ctx *c)
{
    static const cj_module_type type = { .name = "Parts" };
    return cj_module_new(c, &type, 0);
}

UNUSED static reader reader_new(cj_ctx *c, const reader_opts *o)
{
    reader r = { .all = holder(c) };
    cell_fn cell = o->cell ? o->cell : (cj_gru_layer);
    r.embedding = cj_module_add(r.all, "embedding", cj_embedding_layer(c, o->symbols, o->dim));
    r.cell = cj_module_add(
        r.all, "cell",
        cell(c, o->dim, o->hidden, &(cj_recurrent_layer_opts){ .layers = o->layers, .bidirectional = o->both, .batch_first = true }));
    r.head = cj_module_add(r.all, "head", cj_linear(c, o->hidden * (o->both ? 2 : 1), o->outputs));
    r.optim = cj_adam(cj_module_params(r.all), .lr = o->lr ? o->lr : 0.01, .clip_norm = 1);
    assert_ok(c);
    return r;
}

/* Logits [N, T, outputs] of symbols x i64 [N, T]; and of the last step alone, [N, outputs]. */
UNUSED static cj_tensor *reader_steps(reader *r, cj_tensor *x)
{
    return cj_forward(r->head, cj_forward(r->cell, cj_forward(r->embedding, x)));
}
UNUSED static cj_tensor *reader_last(reader *r, cj_tensor *x)
{
    return cj_forward(r->head, cj_select(cj_forward(r->cell, cj_forward(r->embedding, x)), 1, cj_size(x, 1) - 1));
}

/* Targets that cross-entropy passes over where the mask is true. */
UNUSED static cj_tensor *without(cj_tensor *target, cj_tensor *mask)
{
    return cj_where(mask, cj_full(cj_tensor_ctx(target), -100, CJ_SCALAR, CJ_I64), target);
}

/* Minimises loss(user, step), made in a scope of its own; returns the last value. */
UNUSED static double train_steps(cj_ctx *c, cj_optim *o, int steps, cj_tensor *(*loss)(void *user, int step), void *user)
{
    double last = NAN;
    for (int i = 0; i < steps && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *l = loss(user, i);
        if (i == steps - 1) last = cj_item(l);
        cj_minimise(o, l);
        cj_scope_close(s);
    }
    assert_ok(c);
    return last;
}

#endif
