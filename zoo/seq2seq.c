/* seq2seq: translation with a recurrent encoder, a recurrent decoder and attention between them.
 *
 *     encoder   H = [h_1 … h_S]: both directions over the source words;   the decoder's first state: tanh(W [last state forwards; backwards])
 *     decoder   s_t = cell(E[y_{t-1}], s_{t-1})
 *     attention a_t = sum_i alpha_ti h_i,   alpha_t = softmax over i of (W_a s_t)·h_i
 *     output    logits of y_t = V tanh(W_c [a_t; s_t])
 *
 * trained with the true y_{t-1} (teacher forcing) on the cross-entropy of y_t with smoothed labels; translated greedily, the likeliest word at every step.  Sutskever,
 * Vinyals & Le 2014; attention after the decoder as in Luong, Pham & Manning, "Effective approaches to attention-based neural machine translation", 2015
 * ("general" score, without input feeding): all steps of a sentence then are three products instead of T small ones.  Parameter names: encoder.embedding.weight,
 * encoder.rnn.weight_ih_l0, …, bridge.weight, decoder.embedding.weight, decoder.rnn.weight_ih_l0, …, attention.weight, combine.weight, head.weight, head.bias.
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "dim", .value = 256, .least = 1, .help = "numbers that stand for a word" },
    { .key = "hidden", .value = 256, .least = 1, .help = "units of the decoder and of each direction of the encoder" },
    { .key = "layers", .value = 1, .least = 1, .most = 8, .help = "layers of encoder and decoder" },
    { .key = "cell", .value = 0, .choices = "gru lstm", .help = "kind of recurrent units" },
    { .key = "dropout", .value = 0.4, .most = 0.95, .real = true, .help = "share of words' numbers and outputs silent in a training step" },
    { .key = "smoothing", .value = 0.1, .most = 0.9, .real = true, .help = "share of the target's probability spread over all words" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "epochs", .value = 12 },
    { .key = "batch", .value = 64 },
    { .key = "lr", .value = 2e-3 },
    { .key = "schedule", .value = CJ_COSINE },
    { .key = "warmup", .value = 200 },
    { .key = "clip", .value = 1 },
    { 0 },
};

typedef struct seq2seq {
    cj_module *source, *encoder, *bridge, *target, *decoder, *attention, *combine, *head;
    int layers;
    int64_t hidden;
    bool lstm;
    double dropout, smoothing;
} seq2seq;

static cj_tensor *drop(cj_module *m, cj_tensor *x, double p) { return p > 0 ? cj_dropout(x, .p = p, .eval = !cj_module_training(m)) : x; }

/* What the decoder knows of a batch of sentences. */
typedef struct memory {
    cj_tensor *states;        /* H [B, S, 2·hidden] */
    cj_tensor *lengths;       /* words of each, i64 [B] */
    cj_recurrent_state state; /* the decoder's first */
} memory;

/* [2·layers, B, hidden] of the encoder: the last layer's two directions side by side, through the bridge, as [layers, B, hidden] of the decoder. */
static cj_tensor *cross_bridge(const seq2seq *s, cj_tensor *last)
{
    int64_t n = cj_size(last, 0), B = cj_size(last, 1);
    cj_tensor *both = cj_cat((cj_tensor *[]){ cj_select(last, 0, n - 2), cj_select(last, 0, n - 1) }, 2, -1);
    cj_tensor *h = cj_tanh(cj_forward(s->bridge, both));
    return cj_contiguous(cj_transpose(cj_reshape(h, CJ_SHAPE(B, s->layers, s->hidden)), 0, 1));
}

static memory encode(cj_module *m, const seq2seq *s, cj_tensor *x)
{
    memory k = { .lengths = cj_sum(cj_cast(cj_ne_scalar(x, CJ_WORD_PAD), CJ_I64), .axes = CJ_AXIS(1)) };
    cj_tensor *e = drop(m, cj_forward(s->source, cj_transpose(x, 0, 1)), s->dropout);
    cj_recurrent_state last = { 0 };
    k.states = cj_transpose(cj_recurrent_forward(s->encoder, e, k.lengths, &last), 0, 1);
    k.state.h = cross_bridge(s, last.h);
    if (s->lstm) k.state.c = cj_zeros_like(k.state.h);
    return k;
}

/* Logits [T, B, words] after the words y i64 [T, B]; the state moves on. */
static cj_tensor *decode(cj_module *m, const seq2seq *s, const memory *k, cj_recurrent_state *state, cj_tensor *y)
{
    cj_tensor *e = drop(m, cj_forward(s->target, y), s->dropout);
    cj_tensor *h = cj_recurrent_forward(s->decoder, e, NULL, state);    /* [T, B, hidden] */
    cj_tensor *query = cj_transpose(cj_forward(s->attention, h), 0, 1); /* [B, T, 2·hidden] */
    cj_tensor *a = cj_attention(query, k->states, k->states, .scale = 1, .key_length = k->lengths);
    cj_tensor *both = cj_cat((cj_tensor *[]){ cj_transpose(a, 0, 1), h }, 2, -1);
    return cj_forward(s->head, drop(m, cj_tanh(cj_forward(s->combine, both)), s->dropout));
}

static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const seq2seq *s = cj_module_self(m);
    memory k = encode(m, s, x);
    cj_tensor *words = cj_transpose(y, 0, 1);
    int64_t T = cj_size(words, 0);
    cj_tensor *before = cj_contiguous(cj_slice(words, 0, 0, T - 1, 1)), *after = cj_contiguous(cj_slice(words, 0, 1, T, 1));
    cj_tensor *logits = decode(m, s, &k, &k.state, before);
    cj_tensor *nothing = cj_full(cj_module_ctx(m), -100, CJ_SCALAR, CJ_I64); /* cross-entropy passes over these */
    cj_tensor *target = cj_where(cj_eq_scalar(after, CJ_WORD_PAD), nothing, after);
    return cj_cross_entropy(logits, target, .label_smoothing = cj_module_training(m) ? s->smoothing : 0);
}

/* ---- translating -------------------------------------------------------------------------------------------------------------------- */

/* The likeliest next words i64 [B]; sentences that have ended stay ended. */
static cj_tensor *next_words(cj_module *m, const seq2seq *s, memory *k, cj_tensor *words, cj_tensor **ended)
{
    cj_tensor *logits = cj_squeeze(decode(m, s, k, &k->state, cj_unsqueeze(words, 0)), 0);
    cj_tensor *next = cj_where(*ended, cj_zeros_like(words), cj_argmax(logits, .axes = CJ_AXIS(-1))); /* CJ_WORD_PAD is 0 */
    *ended = cj_logical_or(*ended, cj_eq_scalar(next, CJ_WORD_END));
    return next;
}

static cj_tensor *translate(cj_module *m, cj_tensor *x, int64_t longest)
{
    const seq2seq *s = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    int64_t B = cj_size(x, 0), T = 0;
    memory k = encode(m, s, x);
    cj_tensor *result = cj_zeros(c, CJ_SHAPE(B, 0), CJ_I64), *words = cj_full(c, CJ_WORD_BEGIN, CJ_SHAPE(B), CJ_I64);
    cj_tensor *ended = cj_zeros(c, CJ_SHAPE(B), CJ_BOOL);
    for (bool going = true; going && T < longest && cj_ok(c); T++) {
        words = next_words(m, s, &k, words, &ended);
        result = cj_cat((cj_tensor *[]){ result, cj_unsqueeze(words, 1) }, 2, 1);
        going = cj_item(cj_all(ended)) == 0;
    }
    return result;
}

/* ---- building ----------------------------------------------------------------------------------------------------------------------- */

static const cj_module_type seq2seq_type = { "Seq2Seq", NULL, NULL };
static const cj_module_type group_type = { "Group", NULL, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    cj_module *m = cj_module_new(c, &seq2seq_type, sizeof(seq2seq));
    seq2seq *s = cj_module_self(m);
    if (!s) return NULL;
    int64_t dim = cj_option_int(o, "dim"), hidden = cj_option_int(o, "hidden");
    s->hidden = hidden;
    s->layers = (int)cj_option(o, "layers");
    s->lstm = cj_option_int(o, "cell") == 1;
    s->dropout = cj_option(o, "dropout");
    s->smoothing = cj_option(o, "smoothing");
    cj_module *(*cell)(cj_ctx *, int64_t, int64_t, const cj_recurrent_layer_opts *) = s->lstm ? (cj_lstm_layer) : (cj_gru_layer);
    cj_recurrent_layer_opts one_way = { .layers = s->layers, .dropout = s->layers > 1 ? s->dropout : 0 }, both_ways = one_way;
    both_ways.bidirectional = true;

    cj_module *encoder = cj_module_add(m, "encoder", cj_module_new(c, &group_type, 0));
    s->source = cj_module_add(encoder, "embedding", cj_embedding_layer(c, d->inputs, dim, .init_std = 0.1));
    s->encoder = cj_module_add(encoder, "rnn", cell(c, dim, hidden, &both_ways));
    s->bridge = cj_module_add(m, "bridge", cj_linear(c, 2 * hidden, s->layers * hidden));
    cj_module *decoder = cj_module_add(m, "decoder", cj_module_new(c, &group_type, 0));
    s->target = cj_module_add(decoder, "embedding", cj_embedding_layer(c, d->outputs, dim, .init_std = 0.1));
    s->decoder = cj_module_add(decoder, "rnn", cell(c, dim, hidden, &one_way));
    s->attention = cj_module_add(m, "attention", cj_linear(c, hidden, 2 * hidden, .no_bias = true));
    s->combine = cj_module_add(m, "combine", cj_linear(c, 3 * hidden, hidden, .no_bias = true));
    s->head = cj_module_add(m, "head", cj_linear(c, hidden, d->outputs));
    return m;
}

const cj_model cj_model_seq2seq = {
    .name = "seq2seq",
    .family = "recurrent",
    .summary = "translation: encoder, decoder, attention (Luong, Pham & Manning 2015)",
    .task = CJ_TASK_TRANSLATE,
    .data = "multi30k-de-en",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = loss,
    .decode = translate,
};
