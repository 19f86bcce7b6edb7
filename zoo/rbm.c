/* rbm: the restricted Boltzmann machine, trained by contrastive divergence.
 *
 *     E(x, h) = -hᵀWx - cᵀx - bᵀh,      p(x, h) = exp(-E)/Z,      x and h of zeros and ones
 *     p(h_j = 1|x) = sigmoid(b_j + W_j x)      p(x_k = 1|h) = sigmoid(c_k + hᵀW_k)      both factorise: there are no edges inside a layer
 *     F(x) = -cᵀx - sum_j softplus(b_j + W_j x) = -log sum_h exp(-E(x, h)),      p(x) = exp(-F(x))/Z
 *
 * The gradient of -log p(x) is that of F(x) minus its mean under the model, and the gradient of F(x) is that of E(x, h) at h(x) = p(h = 1|x) held fixed.  CD-k puts one
 * draw x̄ in the place of the model's mean, k Gibbs steps away from the data:
 *
 *     minimise mean E(x, h(x)) - E(x̄, h(x̄)) with x̄, h(x), h(x̄) held fixed:      dW = -mean (h(x) xᵀ - h(x̄) x̄ᵀ)
 *
 * Hinton, "Training products of experts by minimizing contrastive divergence", 2002.  As usual hidden units are drawn, and visible ones are replaced by their
 * probabilities in the last step (visible=sample draws them too).  What is reported is the squared error of x̄, per example; the likelihood itself needs Z.
 * Parameter names: W [hidden, visible], b [hidden], c [visible].
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 500, .least = 1, .help = "hidden units" },
    { .key = "k", .value = 1, .least = 1, .help = "Gibbs steps from the data to the negative example" },
    { .key = "visible", .value = 0, .choices = "mean sample", .help = "what the last Gibbs step leaves of the visible units" },
    { .key = "gibbs", .value = 1000, .least = 1, .help = "Gibbs steps of a sample, from noise" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 5000 }, { .key = "batch", .value = 64 },           { .key = "optimiser", .value = CJ_MOMENTUM },
    { .key = "lr", .value = 0.02 },    { .key = "schedule", .value = CJ_COSINE }, { 0 },
};

typedef struct rbm {
    cj_tensor *W, *b, *c;
    int64_t k, gibbs;
    bool draw_visible;
} rbm;

/* b + W x of every row: what p(h|x) and F(x) are functions of. */
static cj_tensor *field(const rbm *r, cj_tensor *x) { return cj_linear_op(x, r->W, r->b); }

/* Zeros and ones of these probabilities. */
static cj_tensor *draw(cj_tensor *p)
{
    return cj_cast(cj_lt(cj_rand(cj_tensor_ctx(p), cj_shape_of(p), .stream = CJ_STREAM_SAMPLING), p), CJ_F32);
}

/* p(h = 1|x), and p(x = 1|h) after a draw of h. */
static cj_tensor *hidden(const rbm *r, cj_tensor *x) { return cj_sigmoid(field(r, x)); }
static cj_tensor *visible(const rbm *r, cj_tensor *h) { return cj_sigmoid(cj_add(cj_matmul(draw(h), r->W), r->c)); }

/* k Gibbs steps from x, of which h = p(h = 1|x) is known. No gradient flows through them. */
static cj_tensor *negative(const rbm *r, cj_tensor *h)
{
    cj_ctx *c = cj_tensor_ctx(h);
    bool was = cj_no_grad(c);
    cj_tensor *x = visible(r, h);
    for (int64_t i = 1; i < r->k; i++) x = visible(r, hidden(r, draw(x)));
    if (r->draw_visible) x = draw(x);
    cj_grad_mode(c, was);
    return x;
}

static cj_tensor *squared_error(cj_tensor *x, cj_tensor *y)
{
    return cj_mul_scalar(cj_mse_loss(x, y, .reduction = CJ_SUM), 1 / (double)cj_size(x, 0));
}

/* F(x) of every row: [B, visible] -> [B]. */
static cj_tensor *rbm_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const rbm *r = self;
    return cj_rbm_free_energy((cj_rbm){ r->W, r->b, r->c }, x);
}
static const cj_module_type rbm_type = { "RBM", rbm_forward, NULL };

static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const rbm *r = cj_module_self(m);
    return squared_error(negative(r, hidden(r, x)), x);
}

static cj_tensor *mean_row(cj_tensor *x) { return cj_mean(x, .axes = CJ_AXIS(0)); }

/* mean E(x, h) - E(x̄, h̄) is the sum of units · field(rows), less c · (mean x - mean x̄): one product of twice the rows, x above x̄, with units -h/B above h̄/B. */
static cj_tensor *step(cj_module *m, cj_optim *const *optim, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    const rbm *r = cj_module_self(m);
    double each = 1 / (double)cj_size(x, 0);
    bool was = cj_no_grad(cj_module_ctx(m));
    cj_tensor *h = hidden(r, x), *down = cj_mul_scalar(h, -each);
    cj_tensor *fantasy = negative(r, h), *up = cj_mul_scalar(hidden(r, fantasy), each), *units = cj_cat(CJ_TENSORS(down, up), 2, 0);
    cj_tensor *error = squared_error(fantasy, x), *drift = cj_sub(mean_row(fantasy), mean_row(x));
    cj_tensor *rows = cj_cat(CJ_TENSORS(x, fantasy), 2, 0);
    cj_grad_mode(cj_module_ctx(m), was);
    cj_minimise(optim[0], cj_add(cj_sum(cj_mul(units, field(r, rows))), cj_dot(drift, r->c)));
    return error;
}

static cj_tensor *sample(cj_module *m, int64_t n)
{
    const rbm *r = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    cj_tensor *x = cj_rand(c, CJ_SHAPE(n, cj_size(r->W, 1)), .stream = CJ_STREAM_SAMPLING);
    for (int64_t i = 0; i < r->gibbs && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        x = cj_scope_return(s, visible(r, hidden(r, draw(x))));
    }
    return x;
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    cj_module *m = cj_module_new(c, &rbm_type, sizeof(rbm));
    rbm *r = cj_module_self(m);
    if (!r) return NULL;
    int64_t hidden = cj_option_int(o, "hidden");
    r->k = cj_option_int(o, "k");
    r->gibbs = cj_option_int(o, "gibbs");
    r->draw_visible = cj_option(o, "visible") == 1;
    cj_scope s = cj_scope_open(c);
    r->W = cj_module_param(m, "W", cj_normal(c, 0, 0.01, CJ_SHAPE(hidden, d->inputs), .stream = CJ_STREAM_INIT));
    r->b = cj_module_param(m, "b", cj_zeros(c, CJ_SHAPE(hidden), CJ_F32));
    r->c = cj_module_param(m, "c", cj_zeros(c, CJ_SHAPE(d->inputs), CJ_F32));
    cj_scope_close(s);
    return m;
}

const cj_model cj_model_rbm = {
    .name = "rbm",
    .family = "generative",
    .summary = "restricted Boltzmann machine, contrastive divergence (Hinton 2002)",
    .task = CJ_TASK_GENERATE,
    .data = "digits",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = loss,
    .step = step,
    .sample = sample,
};
