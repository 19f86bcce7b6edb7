/* The recurrent language model that lstm.c, gru.c and rnn.c are: embedding, recurrent layers, a linear map to the alphabet.
 *
 *     e_t = E[token_t],   h_t = cell(e_t, h_{t-1}),   logits_t = W h_t + b
 *
 * trained with the cross-entropy of the next symbol at every position (Graves, "Generating sequences with recurrent neural networks", 2013).  Windows begin with the
 * state zero and gradients go through all of a window; texts are continued symbol by symbol from the state alone.  Parameter names: embedding.weight,
 * rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0, rnn.weight_ih_l1, …, head.weight, head.bias.
 */
#ifndef CJ_ZOO_LANGUAGE_H
#define CJ_ZOO_LANGUAGE_H

#include <cajal/cajal.h>
#include <stdint.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 256, .least = 1, .help = "units of each recurrent layer" },
    { .key = "layers", .value = 2, .least = 1, .most = 16, .help = "recurrent layers" },
    { .key = "dim", .value = 64, .least = 1, .help = "numbers that stand for a symbol" },
    { .key = "context", .value = 64, .least = 1, .help = "symbols of a training window" },
    { .key = "dropout", .value = 0.1, .most = 0.95, .real = true, .help = "probability of zero after every recurrent layer" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 6000 },     { .key = "batch", .value = 32 },
    { .key = "lr", .value = 3e-3 },        { .key = "schedule", .value = CJ_COSINE },
    { .key = "warmup", .value = 100 },     { .key = "clip", .value = 1 },
    { .key = "eval_every", .value = 500 }, { 0 },
};

typedef cj_module *(*cell_layer)(cj_ctx *, int64_t, int64_t, const cj_recurrent_layer_opts *);

typedef struct language {
    cj_module *embedding, *rnn, *head;
    double dropout;
    int layers;
    int64_t hidden;
    bool lstm;
    cj_recurrent_state state; /* of texts that are continued: persistent [layers, B, hidden] each */
} language;

static cj_tensor *logits_of(cj_module *m, language *l, cj_tensor *h)
{
    return cj_forward(l->head, l->dropout > 0 ? cj_dropout(h, .p = l->dropout, .eval = !cj_module_training(m)) : h);
}

/* x: symbols, i64 [B, T]; result: logits [B, T, symbols]. The layers work time first, [T, B, ..]: what happens at one time then lies together. */
static cj_tensor *language_forward(cj_module *m, void *self, cj_tensor *x)
{
    language *l = self;
    cj_tensor *e = cj_forward(l->embedding, cj_transpose(x, 0, 1));
    return cj_transpose(logits_of(m, l, cj_forward(l->rnn, e)), 0, 1);
}

/* ---- symbol by symbol: the state is all that is remembered ------------------------------------------------------------------------------ */

static void forget(cj_module *m, void *self)
{
    (void)m;
    language *l = self;
    cj_release(l->state.h);
    cj_release(l->state.c);
    l->state = (cj_recurrent_state){ 0 };
}

static int64_t language_begin(cj_module *m, int64_t batch)
{
    language *l = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    cj_tensor *zero = cj_zeros(c, CJ_SHAPE(l->layers, batch, l->hidden), CJ_F32);
    if (l->state.h && cj_size(l->state.h, 1) == batch) {
        cj_assign_(l->state.h, zero);
        if (l->lstm) cj_assign_(l->state.c, zero);
    } else {
        forget(m, l);
        l->state.h = cj_keep(cj_clone(zero));
        if (l->lstm) l->state.c = cj_keep(cj_clone(zero));
    }
    return cj_ok(c) ? INT64_MAX : 0;
}

static cj_tensor *language_next(cj_module *m, cj_tensor *symbols)
{
    language *l = cj_module_self(m);
    cj_recurrent_state s = l->state;
    cj_tensor *e = cj_forward(l->embedding, cj_unsqueeze(symbols, 0));
    cj_tensor *h = cj_recurrent_forward(l->rnn, e, NULL, &s);
    cj_assign_(l->state.h, s.h);
    if (l->lstm) cj_assign_(l->state.c, s.c);
    return logits_of(m, l, cj_squeeze(h, 0));
}

static const cj_module_type language_type = { "LanguageModel", language_forward, forget };

static cj_module *language_build(cj_ctx *c, const cj_model_data *d, const cj_options *o, cell_layer cell, bool lstm)
{
    cj_module *m = cj_module_new(c, &language_type, sizeof(language));
    language *l = cj_module_self(m);
    if (!l) return NULL;
    l->layers = (int)cj_option(o, "layers");
    l->hidden = cj_option_int(o, "hidden");
    l->dropout = cj_option(o, "dropout");
    l->lstm = lstm;
    int64_t dim = cj_option_int(o, "dim");
    cj_recurrent_layer_opts how = { .layers = l->layers, .dropout = l->layers > 1 ? l->dropout : 0 };
    l->embedding = cj_module_add(m, "embedding", cj_embedding_layer(c, d->inputs, dim));
    l->rnn = cj_module_add(m, "rnn", cell(c, dim, l->hidden, &how));
    l->head = cj_module_add(m, "head", cj_linear(c, l->hidden, d->outputs));
    return m;
}

#endif
