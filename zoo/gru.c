/* gru: a character language model of gated recurrent units.
 *
 *     r, z = sigmoid(W x_t + U h_{t-1} + b)      reset and update, each with its own W, U, b
 *     n    = tanh(W x_t + b + r · (U h_{t-1} + b_u))
 *     h_t  = (1 - z) · n + z · h_{t-1}
 *
 * Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; the reset gate acts after the product, as in cuDNN and PyTorch.
 * zoo/language.h is what surrounds the cells.
 */
#include "zoo/language.h"

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o) { return language_build(c, d, o, (cj_gru_layer), false); }

const cj_model cj_model_gru = {
    .name = "gru",
    .family = "recurrent",
    .summary = "language model of gated recurrent units (Cho et al. 2014)",
    .task = CJ_TASK_NEXT_TOKEN,
    .data = "sources",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .begin = language_begin,
    .next = language_next,
};
