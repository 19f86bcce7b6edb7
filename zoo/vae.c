/* vae: the variational autoencoder.
 *
 *     q(z|x) = N(mu(x), diag exp(logvar(x)))      p(z) = N(0, I)      p(x|z) = prod_i Bernoulli(x_i; sigmoid(l_i(z)))
 *
 * The loss is the negative evidence lower bound in nats per example, an upper bound of -log p(x):
 *
 *     E_q[-log p(x|z)] + beta·KL(q(z|x) || p(z)),      KL = 1/2 sum_j (exp(logvar_j) + mu_j² - 1 - logvar_j)
 *
 * with one draw z = mu + exp(logvar/2)·eps, eps ~ N(0, I), through which gradients flow (the reparameterisation trick).  Kingma & Welling, "Auto-encoding variational
 * Bayes", 2014; Rezende, Mohamed & Wierstra 2014; beta as in Higgins et al. 2017, 1 for the bound itself.  Values between 0 and 1 count as probabilities of a 1.
 * A sample is sigmoid(l(z)) of a draw z from the prior.  Parameter names: fc1 (encoder), fc21 (mu), fc22 (logvar), fc3, fc4 (decoder).
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 400, .least = 1, .help = "neurons of the encoder's and of the decoder's hidden layer" },
    { .key = "latent", .value = 20, .least = 1, .help = "dimensions of the code z" },
    { .key = "beta", .value = 1, .real = true, .help = "weight of the divergence from the prior; 1: the evidence lower bound" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 6000 },
    { .key = "batch", .value = 128 },
    { .key = "lr", .value = 1e-3 },
    { .key = "schedule", .value = CJ_COSINE },
    { 0 },
};

typedef struct vae {
    cj_module *fc1, *fc21, *fc22, *fc3, *fc4;
    int64_t latent;
    double beta;
} vae;

/* Logits of the pixels. */
static cj_tensor *decode(const vae *v, cj_tensor *z) { return cj_forward(v->fc4, cj_relu(cj_forward(v->fc3, z))); }

/* The reconstruction of x from the mean of its code: probabilities. */
static cj_tensor *vae_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const vae *v = self;
    return cj_sigmoid(decode(v, cj_forward(v->fc21, cj_relu(cj_forward(v->fc1, x)))));
}
static const cj_module_type vae_type = { "VAE", vae_forward, NULL };

static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const vae *v = cj_module_self(m);
    double rows = (double)cj_size(x, 0);
    cj_tensor *h = cj_relu(cj_forward(v->fc1, x));
    cj_tensor *mu = cj_forward(v->fc21, h), *logvar = cj_forward(v->fc22, h);
    cj_tensor *eps = cj_randn(cj_module_ctx(m), cj_shape_of(mu), .stream = CJ_STREAM_SAMPLING);
    cj_tensor *z = cj_add(mu, cj_mul(eps, cj_exp(cj_mul_scalar(logvar, 0.5))));
    cj_tensor *error = cj_bce_with_logits(decode(v, z), x, .reduction = CJ_SUM);
    cj_tensor *kl = cj_sum(cj_sub(cj_add(cj_exp(logvar), cj_square(mu)), cj_add_scalar(logvar, 1)));
    return cj_mul_scalar(cj_add(error, cj_mul_scalar(kl, 0.5 * v->beta)), 1 / rows);
}

static cj_tensor *sample(cj_module *m, int64_t n)
{
    const vae *v = cj_module_self(m);
    return cj_sigmoid(decode(v, cj_randn(cj_module_ctx(m), CJ_SHAPE(n, v->latent), .stream = CJ_STREAM_SAMPLING)));
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    cj_module *m = cj_module_new(c, &vae_type, sizeof(vae));
    vae *v = cj_module_self(m);
    if (!v) return NULL;
    int64_t hidden = cj_option_int(o, "hidden");
    v->latent = cj_option_int(o, "latent");
    v->beta = cj_option(o, "beta");
    v->fc1 = cj_module_add(m, "fc1", cj_linear(c, d->inputs, hidden));
    v->fc21 = cj_module_add(m, "fc21", cj_linear(c, hidden, v->latent));
    v->fc22 = cj_module_add(m, "fc22", cj_linear(c, hidden, v->latent));
    v->fc3 = cj_module_add(m, "fc3", cj_linear(c, v->latent, hidden));
    v->fc4 = cj_module_add(m, "fc4", cj_linear(c, hidden, d->inputs));
    return m;
}

const cj_model cj_model_vae = {
    .name = "vae",
    .family = "generative",
    .summary = "variational autoencoder of images (Kingma & Welling 2014)",
    .task = CJ_TASK_GENERATE,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = loss,
    .sample = sample,
};
