/* resnet: convolutions that learn what to add.
 *
 *     y = relu(x' + BN(conv(relu(BN(conv(x))))))        x' = x, or x brought to the block's size where that differs
 *
 * He, Zhang, Ren & Sun, "Deep residual learning for image recognition", 2016: the gradient reaches every block through the sum unchanged, so depth costs nothing.  The
 * networks are those for small images (section 4.2): a 3x3 convolution without pooling in front, then stages, each half as wide and twice as deep in channels as the one
 * before, at last the mean of every map and one linear layer.
 *
 *     depth 6n+2 (20, 32, 44, 56, 110 …)   3 stages of n blocks with 16, 32, 64 maps; shortcuts skip every second pixel and add maps of zeros
 *     depth 18, 34                         4 stages of 2 2 2 2 or 3 4 6 3 blocks with 64, 128, 256, 512 maps; shortcuts are 1x1 convolutions
 *
 * Initial weights are normal with deviation sqrt(2 / fan out).  Parameter names are torchvision's: conv1.weight, bn1.weight, layer1.0.conv1.weight, …,
 * layer2.0.downsample.0.weight, …, fc.weight.
 */
#include <cajal/cajal.h>
#include <stdio.h>

static const cj_setting settings[] = {
    { .key = "depth", .value = 20, .least = 8, .most = 1202, .help = "layers: 6n+2, or 18 or 34 of the wide kind" },
    { .key = "width", .value = 0, .least = 0, .help = "maps of the first stage; 0: 16, of the wide kind 64" },
    { .key = "shortcut", .value = 0, .choices = "auto zeros projection", .help = "how shortcuts change size" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "epochs", .value = 60 },
    { .key = "batch", .value = 64 },
    { .key = "optimiser", .value = CJ_MOMENTUM },
    { .key = "lr", .value = 0.05 },
    { .key = "weight_decay", .value = 5e-4 },
    { .key = "schedule", .value = CJ_COSINE },
    { .key = "warmup", .value = 200 },
    { .key = "augment", .value = CJ_AUGMENT_AUTO },
    { 0 },
};

/* ---- one block ------------------------------------------------------------------------------------------------------------------------ */

typedef struct block {
    cj_module *conv1, *bn1, *conv2, *bn2, *downsample; /* downsample: a projection, or NULL */
    int64_t stride, more;                              /* maps that the block adds */
} block;

static cj_module *conv(cj_ctx *c, int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    cj_module *m =
        cj_conv_layer(c, in, out, CJ_SHAPE(kernel, kernel), .no_bias = true, .conv = { .stride = stride, .padding = kernel / 2 });
    if (m) cj_init_kaiming_normal_(cj_params_at(cj_module_params(m), 0), CJ_FAN_OUT, 0);
    return m;
}

static cj_tensor *shortcut(const block *b, cj_tensor *x)
{
    if (b->downsample) return cj_forward(b->downsample, x);
    if (b->stride > 1) x = cj_slice(cj_slice(x, 2, 0, CJ_END, b->stride), 3, 0, CJ_END, b->stride);
    return b->more ? cj_pad(x, CJ_SHAPE(b->more / 2, 0, 0), CJ_SHAPE(b->more - b->more / 2, 0, 0)) : x;
}

static cj_tensor *block_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const block *b = self;
    cj_tensor *h = cj_forward(b->bn1, cj_forward(b->conv1, x));
    h = cj_forward(b->bn2, cj_forward(b->conv2, h));
    return cj_relu(cj_add(h, shortcut(b, x)));
}
static const cj_module_type block_type = { "BasicBlock", block_forward, NULL };

static cj_module *block_new(cj_ctx *c, int64_t in, int64_t out, int64_t stride, bool project)
{
    cj_module *m = cj_module_new(c, &block_type, sizeof(block));
    block *b = cj_module_self(m);
    if (!b) return NULL;
    b->stride = stride;
    b->more = out - in;
    b->conv1 = cj_module_add(m, "conv1", conv(c, in, out, 3, stride));
    b->bn1 = cj_module_add(m, "bn1", cj_batch_norm_layer(c, out, .relu = true));
    b->conv2 = cj_module_add(m, "conv2", conv(c, out, out, 3, 1));
    b->bn2 = cj_module_add(m, "bn2", cj_batch_norm_layer(c, out));
    if (project && (stride > 1 || in != out))
        b->downsample = cj_module_add(m, "downsample", cj_sequential(c, conv(c, in, out, 1, stride), cj_batch_norm_layer(c, out)));
    return m;
}

/* ---- the network -------------------------------------------------------------------------------------------------------------------------- */

enum { STAGES = 4 };

typedef struct resnet {
    cj_module *conv1, *bn1, *layer[STAGES], *fc;
    int64_t channels, height, width;
} resnet;

/* x: [B, channels·height·width]; result: logits [B, classes]. */
static cj_tensor *resnet_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const resnet *r = self;
    cj_tensor *h = cj_channels_last(cj_reshape(x, CJ_SHAPE(-1, r->channels, r->height, r->width)));
    h = cj_forward(r->bn1, cj_channels_last(cj_forward(r->conv1, h)));
    for (int i = 0; i < STAGES && r->layer[i]; i++) h = cj_forward(r->layer[i], h);
    return cj_forward(r->fc, cj_mean(h, .axes = CJ_AXES(2, 3)));
}
static const cj_module_type resnet_type = { "ResNet", resnet_forward, NULL };

/* Blocks of each stage; their number, 0 for a depth that is none. */
static int stages_of(int depth, int blocks[STAGES])
{
    static const int wide[2][STAGES] = { { 2, 2, 2, 2 }, { 3, 4, 6, 3 } };
    if (depth == 18 || depth == 34) {
        for (int i = 0; i < STAGES; i++) blocks[i] = wide[depth == 34][i];
        return STAGES;
    }
    if ((depth - 2) % 6 != 0) return 0;
    for (int i = 0; i < 3; i++) blocks[i] = (depth - 2) / 6;
    return 3;
}

static cj_module *stage_new(cj_ctx *c, int64_t in, int64_t out, int64_t stride, int blocks, bool project)
{
    cj_module *part[256];
    if (blocks > 255) blocks = 255;
    for (int i = 0; i < blocks; i++) part[i] = block_new(c, i == 0 ? in : out, out, i == 0 ? stride : 1, project);
    part[blocks] = NULL;
    return (cj_sequential)(c, part);
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    int depth = (int)cj_option(o, "depth"), blocks[STAGES], stages = stages_of(depth, blocks), how = (int)cj_option(o, "shortcut");
    if (stages == 0) {
        cj_fail(c, CJ_EVALUE, "resnet: depth=%d is not 6n+2 (8, 14, 20, 26, 32 …), 18 or 34", depth);
        return NULL;
    }
    if (d->channels < 1) {
        cj_fail(c, CJ_EVALUE, "resnet: the data has no images");
        return NULL;
    }
    cj_module *m = cj_module_new(c, &resnet_type, sizeof(resnet));
    resnet *r = cj_module_self(m);
    if (!r) return NULL;
    int64_t width = cj_option_int(o, "width"), in = width ? width : stages == STAGES ? 64 : 16;
    bool project = how == 0 ? stages == STAGES : how == 2;
    r->channels = d->channels, r->height = d->height, r->width = d->width;
    r->conv1 = cj_module_add(m, "conv1", conv(c, d->channels, in, 3, 1));
    r->bn1 = cj_module_add(m, "bn1", cj_batch_norm_layer(c, in, .relu = true));
    for (int i = 0; i < stages && cj_ok(c); i++) {
        char name[24];
        int64_t out = i == 0 ? in : 2 * in;
        snprintf(name, sizeof name, "layer%d", i + 1);
        r->layer[i] = cj_module_add(m, name, stage_new(c, in, out, i == 0 ? 1 : 2, blocks[i], project));
        in = out;
    }
    r->fc = cj_module_add(m, "fc", cj_linear(c, in, d->outputs));
    return m;
}

const cj_model cj_model_resnet = {
    .name = "resnet",
    .family = "convolutional",
    .summary = "residual network for small images, any depth (He et al. 2016)",
    .task = CJ_TASK_CLASSIFY,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
};
