/* Samples of recurrent networks. */
#include "ops/samples_list.h"

typedef cj_recurrent_result layer_fn(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh,
                                     const cj_recurrent_opts *opts);

enum {
    BIASES = 1,
    STATES = 2,
    LENGTHS = 4,
    REVERSE = 8,
    OTHER = 16,
    BATCH_FIRST = 32
}; /* other: the activation that is not the usual one */

/* in: x, w_ih, w_hh, then b_ih and b_hh [2, G·H], or h0 and c0 [2, N, H], or lengths - 1 [N].  The result has y, h_n and c_n in it. */
CALL(sequence)
{
    (void)c;
    layer_fn *const fn[] = { cj_rnn, cj_lstm, cj_gru, cj_light_gru };
    const int64_t cell = s->at[0], what = s->at[1];
    cj_recurrent_opts o = { .reverse = what & REVERSE, .batch_first = what & BATCH_FIRST };
    if (what & STATES) o.h0 = cj_select(in[3], 0, 0), o.c0 = cell == CJ_LSTM ? cj_select(in[3], 0, 1) : NULL;
    if (what & LENGTHS) o.lengths = cj_add_scalar(in[3], 1);
    if (what & OTHER) o.activation = cell == CJ_RNN ? CJ_ACTIVATION_RELU : CJ_ACTIVATION_TANH;
    cj_tensor *b_ih = what & BIASES ? cj_select(in[3], 0, 0) : NULL, *b_hh = what & BIASES ? cj_select(in[3], 0, 1) : NULL;
    cj_tensor *w_ih = cj_mul_scalar(in[1], s->number), *w_hh = cj_mul_scalar(in[2], s->number);
    cj_recurrent_result r = fn[cell](in[0], w_ih, w_hh, b_ih, b_hh, &o);
    cj_tensor *state = r.c_n ? cj_sub(r.h_n, cj_mul_scalar(r.c_n, 0.5)) : r.h_n;
    return cj_add(r.y, what & BATCH_FIRST ? cj_unsqueeze(state, 1) : state);
}

void cj__samples_recurrent(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const int64_t gates[] = { 1, 4, 3, 2 };
    const int64_t cell = IS("rnn") ? CJ_RNN : IS("lstm") ? CJ_LSTM : IS("gru") ? CJ_GRU : IS("light_gru") ? CJ_LIGHT_GRU : -1;
    if (cell < 0) return;
    const struct {
        const char *label;
        int64_t what, T, N, I, H;
        unsigned flags;
    } cases[] = {
        { "biases", BIASES, 4, 2, 3, 2, 0 },
        { "first states", STATES, 3, 2, 2, 3, 0 },
        { "reverse, first states", STATES | REVERSE, 3, 2, 2, 3, 0 },
        { "lengths", LENGTHS, 4, 3, 2, 2, 0 },
        { "reverse, lengths", LENGTHS | REVERSE, 4, 3, 2, 2, 0 },
        { "batch first", BIASES | BATCH_FIRST, 3, 2, 2, 2, 0 },
        { "one step, one unit", BIASES, 1, 1, 1, 1, 0 },
        { "empty batch", BIASES, 3, 0, 2, 2, 0 },
        { "other activation", BIASES | OTHER, 3, 2, 2, 3, 0 },
        { "large", BIASES, 5, 53, 31, 77, CJ_SAMPLE_LARGE },
        { "whole blocks", BIASES, 4, 21, 9, 120, CJ_SAMPLE_LARGE },
        { "one long sequence", BIASES, 3, 1, 16, 257, CJ_SAMPLE_LARGE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t what = cases[i].what, T = cases[i].T, N = cases[i].N, I = cases[i].I, H = cases[i].H, G = gates[cell];
        if (what & OTHER && cell != CJ_RNN && cell != CJ_LIGHT_GRU) continue;
        /* not CJ_SAMPLE_EXACT: the products inside read transposed weights in another order */
        cj_sample *s = add(l, cases[i].label, sequence, CJ_SAMPLE_FLOAT | cases[i].flags);
        input(s, what & BATCH_FIRST ? CJ_SHAPE(N, T, I) : CJ_SHAPE(T, N, I), real);
        input(s, CJ_SHAPE(G * H, I), real);
        input(s, CJ_SHAPE(G * H, H), real);
        if (what & BIASES) input(s, CJ_SHAPE(2, G * H), real);
        if (what & STATES) input(s, CJ_SHAPE(2, N, H), real);
        if (what & LENGTHS) indices(s, CJ_SHAPE(N), CJ_DOMAIN_INDEX, T);
        s->at[0] = cell, s->at[1] = what;
        s->number = cases[i].flags ? 1.0 / 32 : 1.0 / 4; /* of the weights: states of a moderate size */
        s->terms = (double)(4 * T * (I + H));
    }
}
