/* Recurrent layers: stacks of rnn, lstm, gru and light_gru with their weights under PyTorch's names. */
#include <math.h>
#include <stdio.h>

#include "nn/nn.h"

enum { MAX_LAYERS = 64 };

typedef struct recurrent {
    cj_recurrent_cell cell;
    cj_recurrent_opts opts;
    int n;
    cj_tensor *weight[]; /* cj_recurrent's list */
} recurrent;

static cj_recurrent_result run(cj_module *m, cj_tensor *x, cj_tensor *lengths, const cj_recurrent_state *state)
{
    const recurrent *l = cj_module_self(m);
    const int64_t in = l->weight[0]->shape[1];
    if ((x->ndim != 2 && x->ndim != 3) || x->shape[x->ndim - 1] != in) {
        cj_tensor *poison = cj_fail(cj_module_ctx(m), CJ_ESHAPE, "%s: input %s; [%s, %lld] or [T, %lld] expected", cj_module_type_name(m),
                                    cj__tensor_text(x), l->opts.batch_first ? "N, T" : "T, N", (long long)in, (long long)in);
        return (cj_recurrent_result){ poison, poison, l->cell == CJ_LSTM ? poison : NULL };
    }
    cj_recurrent_opts o = l->opts;
    o.eval = !cj_module_training(m);
    o.lengths = lengths;
    if (state) {
        o.h0 = state->h;
        o.c0 = state->c;
    }
    return cj_recurrent(l->cell, x, l->weight, l->n, &o);
}
static cj_tensor *recurrent_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return run(m, x, NULL, NULL).y;
}
/* by cell: the name and the number of gates */
static const cj_module_type types[] = { [CJ_RNN] = { "RNN", recurrent_forward, NULL },
                                        [CJ_LSTM] = { "LSTM", recurrent_forward, NULL },
                                        [CJ_GRU] = { "GRU", recurrent_forward, NULL },
                                        [CJ_LIGHT_GRU] = { "LightGRU", recurrent_forward, NULL } };
static const int gates[] = { [CJ_RNN] = 1, [CJ_LSTM] = 4, [CJ_GRU] = 3, [CJ_LIGHT_GRU] = 2 };

static cj_module *recurrent_layer(cj_ctx *c, cj_recurrent_cell cell, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts)
{
    cj_recurrent_layer_opts o = opts ? *opts : (cj_recurrent_layer_opts){ 0 };
    if (!c) return NULL;
    const char *name = types[cell].name;
    if (in < 1 || hidden < 1) {
        cj_fail(c, CJ_EVALUE, "%s layer: sizes %lld -> %lld", name, (long long)in, (long long)hidden);
        return NULL;
    }
    int layers = o.layers ? o.layers : 1, directions = o.bidirectional ? 2 : 1, each = o.no_bias ? 2 : 4;
    if (layers < 1 || layers > MAX_LAYERS) {
        cj_fail(c, CJ_EVALUE, "%s layer: %d layers; 1 to %d expected", name, layers, MAX_LAYERS);
        return NULL;
    }
    if (!(o.dropout >= 0 && o.dropout <= 1)) {
        cj_fail(c, CJ_EVALUE, "%s layer: dropout %g is outside [0, 1]", name, o.dropout);
        return NULL;
    }
    int n = layers * directions * each;
    cj_module *m = cj_module_new(c, &types[cell], sizeof(recurrent) + (size_t)n * sizeof(cj_tensor *));
    if (!m) return NULL;
    recurrent *l = cj_module_self(m);
    l->cell = cell;
    l->opts = (cj_recurrent_opts){
        .layers = layers, .bidirectional = o.bidirectional, .batch_first = o.batch_first, .dropout = o.dropout, .activation = o.activation
    };
    double bound = 1 / sqrt((double)hidden);
    int64_t rows = gates[cell] * hidden;
    static const char *const part[] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    cj_scope s = cj_scope_open(c);
    for (int layer = 0; layer < layers; layer++)
        for (int direction = 0; direction < directions; direction++)
            for (int k = 0; k < each; k++) {
                char label[48];
                snprintf(label, sizeof label, "%s_l%d%s", part[k], layer, direction ? "_reverse" : "");
                cj_shape shape = k == 0   ? CJ_SHAPE(rows, layer ? directions * hidden : in)
                                 : k == 1 ? CJ_SHAPE(rows, hidden)
                                          : CJ_SHAPE(rows);
                l->weight[l->n++] =
                    cj_module_param(m, label, cj_uniform(c, -bound, bound, shape, &(cj_random_opts){ .stream = CJ_STREAM_INIT }));
            }
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_module *cj_rnn_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts)
{
    return recurrent_layer(c, CJ_RNN, in, hidden, opts);
}
cj_module *cj_lstm_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts)
{
    return recurrent_layer(c, CJ_LSTM, in, hidden, opts);
}
cj_module *cj_gru_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts)
{
    return recurrent_layer(c, CJ_GRU, in, hidden, opts);
}
cj_module *cj_light_gru_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts)
{
    return recurrent_layer(c, CJ_LIGHT_GRU, in, hidden, opts);
}

cj_tensor *cj_recurrent_forward(cj_module *m, cj_tensor *x, cj_tensor *lengths, cj_recurrent_state *state)
{
    static const char op[] = "recurrent_forward";
    const cj_module_type *type = &types[CJ_LSTM]; /* named where m is none of them */
    for (int i = 0; m && i < (int)(sizeof types / sizeof types[0]); i++)
        if (cj_module_type_name(m) == types[i].name) type = &types[i];
    if (!cj__module_is(m, type, op, x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = cj_module_ctx(m);
    if (!cj__usable(c, op, 0, x)) return c->poison;
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_recurrent_result r = run(m, x, lengths, state);
    cj_tensor *keep[3] = { r.y, r.h_n, r.c_n };
    cj__frame_close(c, frame, keep, r.c_n ? 3 : 2);
    if (c->error) return c->poison;
    if (state) *state = (cj_recurrent_state){ keep[1], r.c_n ? keep[2] : NULL };
    return keep[0];
}
