/* lstm: a character language model of long short-term memory cells.
 *
 *     i, f, o = sigmoid(W x_t + U h_{t-1} + b)   each with its own W, U, b;     g = tanh(W x_t + U h_{t-1} + b)
 *     c_t = f · c_{t-1} + i · g                  the cell: what the gates let stay is carried on unchanged, and so are gradients
 *     h_t = o · tanh(c_t)
 *
 * Hochreiter & Schmidhuber, "Long short-term memory", 1997; the forget gate f is by Gers, Schmidhuber & Cummins 2000.  zoo/language.h is what surrounds the cells.
 */
#include "zoo/language.h"

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o) { return language_build(c, d, o, (cj_lstm_layer), true); }

const cj_model cj_model_lstm = {
    .name = "lstm",
    .family = "recurrent",
    .summary = "language model of long short-term memory (Hochreiter & Schmidhuber 1997)",
    .task = CJ_TASK_NEXT_TOKEN,
    .data = "sources",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .begin = language_begin,
    .next = language_next,
};
