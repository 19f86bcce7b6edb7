/* lenet5: the convolutional network that read cheques.
 *
 *     image - C1: conv 5x5, 6 maps - S2: pool 2 - C3: conv 5x5, 16 maps - S4: pool 2 - C5: 120 - F6: 84 - one output per class
 *
 * LeCun, Bottou, Bengio & Haffner, "Gradient-based learning applied to document recognition", 1998: a weight is used at every position of the image, so that a digit is
 * the same digit wherever it stands, and every pooling makes the position matter less.  What differs from the paper: every map of C3 sees all maps of S2, rectifiers and
 * maxima are the default (activation=tanh pool=average is the original), and the output is a softmax.
 *
 * Images of 28x28 are padded to 32x32 as in the paper: C1 28x28, S2 14x14, C3 10x10, S4 5x5, and C5 then is a linear layer of 16·5·5 inputs.  Smaller images keep their
 * size in C3 too, down to 4x4 pixels.  Parameter names: conv1.weight, conv2.weight, fc1.weight, fc2.weight, fc3.weight and their biases.
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "c1", .value = 6, .least = 1, .help = "maps of the first convolution" },
    { .key = "c3", .value = 16, .least = 1, .help = "maps of the second convolution" },
    { .key = "c5", .value = 120, .least = 1, .help = "neurons of the first dense layer" },
    { .key = "f6", .value = 84, .least = 0, .help = "neurons of the second dense layer; 0: there is none" },
    { .key = "activation", .value = 0, .choices = "relu tanh", .help = "nonlinearity" },
    { .key = "pool", .value = 0, .choices = "max average", .help = "what stands for four neighbours" },
    { .key = "border", .value = 0, .choices = "auto same valid", .help = "convolutions keep the size of a map or lose four pixels" },
    { .key = "dropout", .value = 0.1, .most = 0.95, .real = true, .help = "share of dense neurons silent in a training step" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "epochs", .value = 10 },
    { .key = "batch", .value = 64 },
    { .key = "lr", .value = 2e-3 },
    { .key = "schedule", .value = CJ_COSINE },
    { 0 },
};

enum { KERNEL = 5, AUTO = 0, SAME = 1 };

typedef struct lenet {
    cj_module *conv1, *conv2, *fc1, *fc2, *fc3;
    int64_t channels, height, width;
    bool tanh, average;
    double dropout;
} lenet;

static cj_tensor *activate(const lenet *l, cj_tensor *x) { return l->tanh ? cj_tanh(x) : cj_relu(x); }

/* Maxima are taken before the rectifier, which changes nothing but four times less to rectify. */
static cj_tensor *stage(const lenet *l, cj_module *conv, cj_tensor *x)
{
    cj_tensor *y = cj_channels_last(cj_forward(conv, x));
    return l->average ? cj_avg_pool(activate(l, y), .kernel = 2) : activate(l, cj_max_pool(y, .kernel = 2, .values_only = true).value);
}

static cj_tensor *dense(cj_module *m, const lenet *l, cj_module *fc, cj_tensor *x)
{
    cj_tensor *y = activate(l, cj_forward(fc, x));
    return l->dropout > 0 ? cj_dropout(y, .p = l->dropout, .eval = !cj_module_training(m)) : y;
}

/* x: [B, channels·height·width]; result: logits [B, classes]. */
static cj_tensor *lenet_forward(cj_module *m, void *self, cj_tensor *x)
{
    const lenet *l = self;
    cj_tensor *h = cj_reshape(x, CJ_SHAPE(-1, l->channels, l->height, l->width));
    h = cj_flatten(stage(l, l->conv2, stage(l, l->conv1, h)), 1);
    h = dense(m, l, l->fc1, h);
    if (l->fc2) h = dense(m, l, l->fc2, h);
    return cj_forward(l->fc3, h);
}
static const cj_module_type lenet_type = { "LeNet5", lenet_forward, NULL };

/* Side of a map after a stage. */
static int64_t after(int64_t side, int64_t padding) { return (side + 2 * padding - (KERNEL - 1)) / 2; }

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    int border = (int)cj_option(o, "border");
    int64_t side = d->height < d->width ? d->height : d->width;
    int64_t pad1 = border == SAME || (border == AUTO && side < 32) ? 2 : 0;
    int64_t pad2 = border == SAME || (border == AUTO && after(side, pad1) < 8) ? 2 : 0;
    int64_t height = after(after(d->height, pad1), pad2), width = after(after(d->width, pad1), pad2);
    if (d->channels < 1 || height < 1 || width < 1) {
        cj_fail(c, CJ_EVALUE, "lenet5: images of at least %d pixels a side are needed, rows of %lld x %lld were found",
                border == AUTO || border == SAME ? 4 : 16, (long long)d->height, (long long)d->width);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &lenet_type, sizeof(lenet));
    lenet *l = cj_module_self(m);
    if (!l) return NULL;
    int64_t c1 = cj_option_int(o, "c1"), c3 = cj_option_int(o, "c3"), c5 = cj_option_int(o, "c5"), f6 = cj_option_int(o, "f6");
    l->channels = d->channels, l->height = d->height, l->width = d->width;
    l->tanh = cj_option(o, "activation") == 1;
    l->average = cj_option(o, "pool") == 1;
    l->dropout = cj_option(o, "dropout");
    l->conv1 = cj_module_add(m, "conv1", cj_conv_layer(c, d->channels, c1, CJ_SHAPE(KERNEL, KERNEL), .conv = { .padding = pad1 }));
    l->conv2 = cj_module_add(m, "conv2", cj_conv_layer(c, c1, c3, CJ_SHAPE(KERNEL, KERNEL), .conv = { .padding = pad2 }));
    l->fc1 = cj_module_add(m, "fc1", cj_linear(c, c3 * height * width, c5));
    if (f6 > 0) l->fc2 = cj_module_add(m, "fc2", cj_linear(c, c5, f6));
    l->fc3 = cj_module_add(m, "fc3", cj_linear(c, f6 > 0 ? f6 : c5, d->outputs));
    return m;
}

const cj_model cj_model_lenet5 = {
    .name = "lenet5",
    .family = "convolutional",
    .summary = "LeNet-5 for images of any size (LeCun et al. 1998)",
    .task = CJ_TASK_CLASSIFY,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
};
