/* rnn: a character language model of plain recurrent units.
 *
 *     h_t = tanh(W x_t + U h_{t-1} + b)
 *
 * Elman, "Finding structure in time", 1990.  Its gradients shrink or grow with the powers of U: the clipping of the recipe holds the growing ones (Pascanu, Mikolov &
 * Bengio 2013), the gates of lstm and gru are the cure for the shrinking ones.  zoo/language.h is what surrounds the cells.
 */
#include "zoo/language.h"

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o) { return language_build(c, d, o, (cj_rnn_layer), false); }

const cj_model cj_model_rnn = {
    .name = "rnn",
    .family = "recurrent",
    .summary = "language model of plain recurrent units (Elman 1990)",
    .task = CJ_TASK_NEXT_TOKEN,
    .data = "sources",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .begin = language_begin,
    .next = language_next,
};
