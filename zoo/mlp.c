/* mlp: the multi-layer perceptron, for classification.
 *
 *     h_0 = x,   h_l = act(W_l h_{l-1} + b_l)   for l = 1 … layers,   logits = W h_layers + b
 *
 * trained with the cross-entropy of softmax(logits).  Rumelhart, Hinton & Williams, "Learning representations by back-propagating errors", 1986; dropout after
 * every hidden layer as in Srivastava et al. 2014.  Parameter names are those of PyTorch's nn.Sequential: 0.weight, 0.bias, 3.weight, …
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 512, .least = 1, .help = "neurons of each hidden layer" },
    { .key = "layers", .value = 2, .least = 0, .most = 64, .help = "hidden layers; 0 is softmax regression" },
    { .key = "dropout", .value = 0.4, .most = 0.95, .real = true, .help = "share of hidden neurons silent in a training step" },
    { .key = "activation", .value = 0, .choices = "relu tanh gelu sigmoid", .help = "nonlinearity of the hidden layers" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "epochs", .value = 10 }, { .key = "least_steps", .value = 800 }, /* 40 epochs of the digits */
    { .key = "batch", .value = 128 }, { .key = "lr", .value = 2e-3 },         { .key = "schedule", .value = CJ_COSINE }, { 0 },
};

static cj_module *activation(cj_ctx *c, int which)
{
    switch (which) {
    case 1: return cj_tanh_layer(c);
    case 2: return cj_gelu_layer(c);
    case 3: return cj_sigmoid_layer(c);
    default: return cj_relu_layer(c);
    }
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    int64_t hidden = cj_option_int(o, "hidden");
    int layers = (int)cj_option(o, "layers"), n = 0;
    double dropout = cj_option(o, "dropout");
    cj_module *part[3 * 64 + 2];
    for (int l = 0; l < layers; l++) {
        part[n++] = cj_linear(c, l == 0 ? d->inputs : hidden, hidden);
        part[n++] = activation(c, (int)cj_option(o, "activation"));
        if (dropout > 0) part[n++] = cj_dropout_layer(c, dropout);
    }
    part[n++] = cj_linear(c, layers == 0 ? d->inputs : hidden, d->outputs);
    part[n] = NULL;
    return (cj_sequential)(c, part);
}

const cj_model cj_model_mlp = {
    .name = "mlp",
    .family = "feed-forward",
    .summary = "multi-layer perceptron (Rumelhart, Hinton & Williams 1986)",
    .task = CJ_TASK_CLASSIFY,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
};
