/* dcgan: two networks against each other.
 *
 *     discriminator D: image -> a, with D = sigmoid(a) the probability that the image is from the data
 *     generator     G: z ~ N(0, I) -> image
 *
 * A step first makes D better at telling them apart, then G better at being taken for the data:
 *
 *     L_D = mean -log D(x) + mean -log(1 - D(G(z)))        -log D = softplus(-a),   -log(1 - D) = softplus(a)
 *     L_G = mean -log D(G(z))                              the form that does not saturate: its gradient is largest while D is sure that the image is made
 *
 * With the best D, L_D = log 4 - 2·JS(data, G): it rises to log 4 = 1.386 when nothing can be told apart any more.  Goodfellow et al., "Generative adversarial nets",
 * 2014; convolutions, batch norms, slopes of 0.2, normal initial values of deviation 0.02 and Adam with momentum 0.5 as in Radford, Metz & Chintala 2016.
 *
 *     G: fc z -> 2w x H/4 x W/4, BN, relu, deconv 4x4/2 -> w, BN, relu, deconv 4x4/2 -> channels, tanh        D: conv 4x4/2 -> w, lrelu, conv 4x4/2 -> 2w, BN, lrelu, fc -> 1
 *
 * Images lie between -1 and 1 inside, between 0 and 1 outside.  Parameter names: generator.fc.weight, generator.bn1.weight, generator.deconv1.weight, …,
 * discriminator.conv1.weight, …
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "latent", .value = 64, .least = 1, .help = "dimensions of the noise z" },
    { .key = "width", .value = 64, .least = 1, .help = "maps next to the image; twice as many further in" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 3000 },
    { .key = "batch", .value = 64 },
    { .key = "lr", .value = 2e-4 },
    { .key = "momentum", .value = 0.5 },
    { 0 },
};

static const double deviation = 0.02;

/* ---- the generator ---------------------------------------------------------------------------------------------------------------------- */

typedef struct generator {
    cj_module *fc, *bn1, *deconv1, *bn2, *deconv2;
    int64_t latent, maps, height, width; /* of the first images, a quarter of the last ones a side */
} generator;

/* z: [B, latent]; result: images [B, channels, height, width] between -1 and 1. */
static cj_tensor *generate(cj_module *m, void *self, cj_tensor *z)
{
    (void)m;
    const generator *g = self;
    cj_tensor *h = cj_reshape(cj_forward(g->fc, z), CJ_SHAPE(-1, g->maps, g->height, g->width));
    h = cj_forward(g->bn1, cj_channels_last(h));
    h = cj_forward(g->bn2, cj_forward(g->deconv1, h));
    return cj_tanh(cj_forward(g->deconv2, h));
}
static const cj_module_type generator_type = { "Generator", generate, NULL };

static void shuffle_weights(cj_module *m)
{
    cj_params *p = cj_module_params(m);
    for (int i = 0; i < cj_params_count(p); i++) {
        cj_tensor *w = cj_params_at(p, i);
        if (cj_ndim(w) > 1) cj_init_normal_(w, 0, deviation);
    }
}

static cj_module *generator_new(cj_ctx *c, const cj_model_data *d, int64_t latent, int64_t width)
{
    cj_module *m = cj_module_new(c, &generator_type, sizeof(generator));
    generator *g = cj_module_self(m);
    if (!g) return NULL;
    *g = (generator){ .latent = latent, .maps = 2 * width, .height = d->height / 4, .width = d->width / 4 };
    g->fc = cj_module_add(m, "fc", cj_linear(c, latent, g->maps * g->height * g->width, .no_bias = true));
    g->bn1 = cj_module_add(m, "bn1", cj_batch_norm_layer(c, g->maps, .relu = true));
    g->deconv1 = cj_module_add(
        m, "deconv1", cj_conv_transpose_layer(c, g->maps, width, CJ_SHAPE(4, 4), .conv = { .stride = 2, .padding = 1 }, .no_bias = true));
    g->bn2 = cj_module_add(m, "bn2", cj_batch_norm_layer(c, width, .relu = true));
    g->deconv2 =
        cj_module_add(m, "deconv2", cj_conv_transpose_layer(c, width, d->channels, CJ_SHAPE(4, 4), .conv = { .stride = 2, .padding = 1 }));
    if (cj_ok(c)) shuffle_weights(m);
    return m;
}

/* ---- the discriminator -------------------------------------------------------------------------------------------------------------------- */

typedef struct discriminator {
    cj_module *conv1, *conv2, *bn2, *fc;
} discriminator;

/* x: images [B, channels, height, width] between -1 and 1; result: a [B, 1]. */
static cj_tensor *discriminate(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const discriminator *d = self;
    cj_tensor *h = cj_leaky_relu(cj_channels_last(cj_forward(d->conv1, x)), .slope = 0.2);
    h = cj_leaky_relu(cj_forward(d->bn2, cj_forward(d->conv2, h)), .slope = 0.2);
    return cj_forward(d->fc, cj_flatten(h, 1));
}
static const cj_module_type discriminator_type = { "Discriminator", discriminate, NULL };

static cj_module *discriminator_new(cj_ctx *c, const cj_model_data *d, int64_t width)
{
    cj_module *m = cj_module_new(c, &discriminator_type, sizeof(discriminator));
    discriminator *n = cj_module_self(m);
    if (!n) return NULL;
    n->conv1 = cj_module_add(m, "conv1", cj_conv_layer(c, d->channels, width, CJ_SHAPE(4, 4), .conv = { .stride = 2, .padding = 1 }));
    n->conv2 = cj_module_add(m, "conv2",
                             cj_conv_layer(c, width, 2 * width, CJ_SHAPE(4, 4), .conv = { .stride = 2, .padding = 1 }, .no_bias = true));
    n->bn2 = cj_module_add(m, "bn2", cj_batch_norm_layer(c, 2 * width));
    n->fc = cj_module_add(m, "fc", cj_linear(c, 2 * width * (d->height / 4) * (d->width / 4), 1));
    if (cj_ok(c)) shuffle_weights(m);
    return m;
}

/* ---- both ----------------------------------------------------------------------------------------------------------------------------------- */

typedef struct dcgan {
    cj_module *generator, *discriminator;
    int64_t channels, height, width;
} dcgan;

static cj_tensor *noise(cj_module *m, int64_t n)
{
    const generator *g = cj_module_self(((dcgan *)cj_module_self(m))->generator);
    return cj_randn(cj_module_ctx(m), CJ_SHAPE(n, g->latent), .stream = CJ_STREAM_SAMPLING);
}

/* Rows between 0 and 1 to images between -1 and 1. */
static cj_tensor *images(const dcgan *g, cj_tensor *x)
{
    return cj_reshape(cj_add_scalar(cj_mul_scalar(x, 2), -1), CJ_SHAPE(-1, g->channels, g->height, g->width));
}

static cj_tensor *real_loss(const dcgan *g, cj_tensor *x)
{
    return cj_mean(cj_softplus(cj_neg(cj_forward(g->discriminator, x))));
} /* -log D */
static cj_tensor *made_loss(const dcgan *g, cj_tensor *x)
{
    return cj_mean(cj_softplus(cj_forward(g->discriminator, x)));
} /* -log(1 - D) */

/* a of rows x: logits of "from the data". */
static cj_tensor *dcgan_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const dcgan *g = self;
    return cj_forward(g->discriminator, images(g, x));
}
static const cj_module_type dcgan_type = { "DCGAN", dcgan_forward, NULL };

/* L_D of rows x and images made. The order is PyTorch's: batch norms remember the last batch best. */
static cj_tensor *telling_apart(const dcgan *g, cj_tensor *x, cj_tensor *made)
{
    cj_tensor *real = real_loss(g, images(g, x));
    return cj_add(real, made_loss(g, made));
}

/* L_D, to report. */
static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const dcgan *g = cj_module_self(m);
    cj_tensor *made = cj_forward(g->generator, noise(m, cj_size(x, 0)));
    return telling_apart(g, x, made);
}

static const char *const parts[] = { "discriminator", "generator", NULL };

static cj_tensor *step(cj_module *m, cj_optim *const *optim, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const dcgan *g = cj_module_self(m);
    cj_tensor *made = cj_forward(g->generator, noise(m, cj_size(x, 0)));
    cj_tensor *apart = telling_apart(g, x, cj_detach(made));
    cj_minimise(optim[0], apart);
    cj_minimise(optim[1], real_loss(g, made)); /* judged by the better discriminator */
    return apart;
}

static cj_tensor *sample(cj_module *m, int64_t n)
{
    const dcgan *g = cj_module_self(m);
    cj_tensor *x = cj_forward(g->generator, noise(m, n));
    return cj_mul_scalar(cj_add_scalar(cj_flatten(x, 1), 1), 0.5);
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    if (d->channels < 1 || d->height % 4 || d->width % 4) {
        cj_fail(c, CJ_EVALUE, "dcgan: images whose sides are multiples of 4 are needed, rows of %lld x %lld were found",
                (long long)d->height, (long long)d->width);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &dcgan_type, sizeof(dcgan));
    dcgan *g = cj_module_self(m);
    if (!g) return NULL;
    int64_t width = cj_option_int(o, "width");
    g->channels = d->channels, g->height = d->height, g->width = d->width;
    g->generator = cj_module_add(m, "generator", generator_new(c, d, cj_option_int(o, "latent"), width));
    g->discriminator = cj_module_add(m, "discriminator", discriminator_new(c, d, width));
    return m;
}

const cj_model cj_model_dcgan = {
    .name = "dcgan",
    .family = "generative",
    .summary = "convolutional generative adversarial network (Radford, Metz & Chintala 2016)",
    .task = CJ_TASK_GENERATE,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = loss,
    .parts = parts,
    .step = step,
    .sample = sample,
};
