/* ddpm: a denoising diffusion model of points.
 *
 *     forward      x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) eps,      eps ~ N(0, I),      a_t = prod_{s<=t} (1 - beta_s),      t = 1 … T
 *     loss         mean (eps - e(x_t, t))²,      t uniform: the network e says which noise is in x_t
 *     backward     x_T ~ N(0, I),      x_{t-1} = (x_t - beta_t / sqrt(1 - a_t)·e(x_t, t)) / sqrt(1 - beta_t) + sqrt(beta_t) xi,      xi = 0 at t = 1
 *
 * Ho, Jain & Abbeel, "Denoising diffusion probabilistic models", 2020, with their schedule: beta from 1e-4 to 0.02 in equal steps.  e is a perceptron of x_t beside the
 * sines and cosines of t·10000^(-i/32), i = 0 … 31, which are looked up in a table.  Parameter names: net.0.weight, net.2.weight, … as
 * of a Sequential in PyTorch; buffers betas and alphas_cumprod (a).
 */
#include <cajal/cajal.h>
#include <math.h>
#include <stdlib.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 256, .least = 1, .help = "neurons of each hidden layer" },
    { .key = "layers", .value = 3, .least = 1, .most = 16, .help = "hidden layers" },
    { .key = "diffusion", .value = 1000, .least = 2, .most = 100000, .help = "steps T from a point to noise" },
    { .key = "beta_first", .value = 1e-4, .least = 1e-8, .most = 0.999, .real = true, .help = "noise of the first step" },
    { .key = "beta_last", .value = 0.02, .least = 1e-8, .most = 0.999, .real = true, .help = "noise of the last step" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 8000 },         { .key = "batch", .value = 512 },       { .key = "lr", .value = 1e-3 },
    { .key = "schedule", .value = CJ_COSINE }, { .key = "eval_every", .value = 1000 }, { 0 },
};

enum { WAVES = 32 };

typedef struct ddpm {
    cj_module *net;
    int64_t features, T;
    double *beta, *a;        /* [T], step t at t - 1 */
    cj_tensor *time;         /* [T, 2·WAVES]: how the network sees t */
    cj_tensor *keep, *noise; /* [T, 1]: sqrt(a), sqrt(1 - a) */
} ddpm;

static void ddpm_free(cj_module *m, void *self)
{
    (void)m;
    ddpm *d = self;
    free(d->beta);
}

/* The noise in x [B, features] at the steps whose times [B or 1, 2·WAVES] are given. */
static cj_tensor *predict(const ddpm *d, cj_tensor *x, cj_tensor *time)
{
    return cj_forward(d->net, cj_cat(CJ_TENSORS(x, cj_expand(time, CJ_SHAPE(cj_size(x, 0), 2 * WAVES))), 2, 1));
}

/* The noise in x, if it is a point at step T: what a sampler asks first. */
static cj_tensor *ddpm_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const ddpm *d = self;
    return predict(d, x, cj_slice(d->time, 0, d->T - 1, d->T, 1));
}
static const cj_module_type ddpm_type = { "DDPM", ddpm_forward, ddpm_free };

static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const ddpm *d = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    cj_tensor *t = cj_randint(c, 0, d->T, CJ_SHAPE(cj_size(x, 0)), .stream = CJ_STREAM_SAMPLING);
    cj_tensor *eps = cj_randn(c, cj_shape_of(x), .stream = CJ_STREAM_SAMPLING);
    cj_tensor *noisy = cj_add(cj_mul(cj_embedding(d->keep, t), x), cj_mul(cj_embedding(d->noise, t), eps));
    return cj_mse_loss(predict(d, noisy, cj_embedding(d->time, t)), eps);
}

static cj_tensor *sample(cj_module *m, int64_t n)
{
    const ddpm *d = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    cj_shape shape = CJ_SHAPE(n, d->features);
    cj_tensor *x = cj_randn(c, shape, .stream = CJ_STREAM_SAMPLING);
    for (int64_t t = d->T - 1; t >= 0 && cj_ok(c); t--) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *e = predict(d, x, cj_slice(d->time, 0, t, t + 1, 1));
        x = cj_mul_scalar(cj_sub(x, cj_mul_scalar(e, d->beta[t] / sqrt(1 - d->a[t]))), 1 / sqrt(1 - d->beta[t]));
        if (t > 0) x = cj_add(x, cj_normal(c, 0, sqrt(d->beta[t]), shape, .stream = CJ_STREAM_SAMPLING));
        x = cj_scope_return(s, x);
    }
    return x;
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------------------------- */

static bool make_tables(cj_module *m, double first, double last)
{
    ddpm *d = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    int64_t T = d->T;
    d->beta = malloc((size_t)T * (2 + 2 + 2 * WAVES) * sizeof *d->beta);
    if (!d->beta) {
        cj_fail(c, CJ_EMEMORY, "ddpm: no memory for %lld diffusion steps", (long long)T);
        return false;
    }
    d->a = d->beta + T;
    double *keep = d->a + T, *noise = keep + T, *time = noise + T, product = 1;
    for (int64_t t = 0; t < T; t++) {
        d->beta[t] = first + (last - first) * (double)t / (double)(T - 1);
        d->a[t] = product *= 1 - d->beta[t];
        keep[t] = sqrt(product);
        noise[t] = sqrt(1 - product);
        for (int i = 0; i < WAVES; i++) {
            double angle = (double)t * pow(10000, -i / (double)WAVES);
            time[t * 2 * WAVES + i] = sin(angle);
            time[t * 2 * WAVES + WAVES + i] = cos(angle);
        }
    }
    cj_scope s = cj_scope_open(c);
    cj_module_buffer(m, "betas", cj_cast(cj_from_f64(c, d->beta, CJ_SHAPE(T)), CJ_F32));
    cj_module_buffer(m, "alphas_cumprod", cj_cast(cj_from_f64(c, d->a, CJ_SHAPE(T)), CJ_F32));
    d->keep = cj_keep(cj_cast(cj_from_f64(c, keep, CJ_SHAPE(T, 1)), CJ_F32));
    d->noise = cj_keep(cj_cast(cj_from_f64(c, noise, CJ_SHAPE(T, 1)), CJ_F32));
    d->time = cj_keep(cj_cast(cj_from_f64(c, time, CJ_SHAPE(T, 2 * WAVES)), CJ_F32));
    cj_scope_close(s);
    return cj_ok(c);
}

static cj_module *build(cj_ctx *c, const cj_model_data *data, const cj_options *o)
{
    cj_module *m = cj_module_new(c, &ddpm_type, sizeof(ddpm));
    ddpm *d = cj_module_self(m);
    if (!d) return NULL;
    d->features = data->inputs;
    d->T = cj_option_int(o, "diffusion");
    if (!make_tables(m, cj_option(o, "beta_first"), cj_option(o, "beta_last"))) return NULL;
    int64_t hidden = cj_option_int(o, "hidden");
    int layers = (int)cj_option(o, "layers"), n = 0;
    cj_module *part[2 * 16 + 2];
    for (int l = 0; l < layers; l++) {
        part[n++] = cj_linear(c, l == 0 ? d->features + 2 * WAVES : hidden, hidden);
        part[n++] = cj_activation_layer(c, "silu");
    }
    part[n++] = cj_linear(c, hidden, d->features);
    part[n] = NULL;
    d->net = cj_module_add(m, "net", (cj_sequential)(c, part));
    return m;
}

const cj_model cj_model_ddpm = {
    .name = "ddpm",
    .family = "generative",
    .summary = "denoising diffusion of points (Ho, Jain & Abbeel 2020)",
    .task = CJ_TASK_GENERATE,
    .data = "moons",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = loss,
    .sample = sample,
};
