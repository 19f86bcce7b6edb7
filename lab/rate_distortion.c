/* rate-distortion: what a code costs and what it is worth, as the weight of the divergence changes.
 *
 *     loss = D + beta·R,     D = E_q[-log p(x|z)]  (distortion),     R = KL(q(z|x) || p(z))  (rate, nats of the code per image)
 *
 * beta = 1 is the negative evidence lower bound; a larger weight buys a cheaper code for a worse picture, and a very large one makes q the prior: the code says nothing (Higgins et al. 2017;
 * Alemi et al., "Fixing a broken ELBO", 2018).  Other notes put 1/beta before the divergence; that is the same family read the other way round.  A small network on binary digits.
 */
#include "lab/lab.h"

#include <math.h>

enum { HIDDEN = 64, LATENT = 8, STEPS = 500, BATCH = 64, WEIGHTS = 6 };
static const double betas[WEIGHTS] = { 0.1, 0.3, 1, 2, 4, 300 };

typedef struct net {
    cj_module *all, *body, *mean, *logvar, *decoder;
} net;

static net net_new(cj_ctx *c)
{
    static const cj_module_type type = { .name = "Parts" };
    net n = { .all = cj_module_new(c, &type, 0) };
    n.body = cj_module_add(n.all, "body", cj_sequential(c, cj_linear(c, 64, HIDDEN), cj_relu_layer(c)));
    n.mean = cj_module_add(n.all, "mean", cj_linear(c, HIDDEN, LATENT));
    n.logvar = cj_module_add(n.all, "logvar", cj_linear(c, HIDDEN, LATENT));
    n.decoder = cj_module_add(n.all, "decoder", cj_sequential(c, cj_linear(c, LATENT, HIDDEN), cj_relu_layer(c), cj_linear(c, HIDDEN, 64)));
    return n;
}

typedef struct parts {
    cj_tensor *distortion, *rate; /* 0-d, per image */
} parts;

static parts parts_of(net *n, cj_tensor *x)
{
    cj_tensor *h = cj_forward(n->body, x), *mu = cj_forward(n->mean, h), *logvar = cj_forward(n->logvar, h);
    cj_tensor *eps = cj_randn(cj_tensor_ctx(x), cj_shape_of(mu), .stream = CJ_STREAM_SAMPLING);
    cj_tensor *z = cj_add(mu, cj_mul(eps, cj_exp(cj_mul_scalar(logvar, 0.5))));
    double share = 1 / (double)cj_size(x, 0);
    cj_tensor *kl = cj_sum(cj_sub(cj_add(cj_exp(logvar), cj_square(mu)), cj_add_scalar(logvar, 1)));
    return (parts){ cj_mul_scalar(cj_bce_with_logits(cj_forward(n->decoder, z), x, .reduction = CJ_SUM), share),
                    cj_mul_scalar(kl, 0.5 * share) };
}

/* How much the decoder's probabilities change from code to code: 0 where it ignores z. */
static double use_of_code(cj_ctx *c, net *n)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *p = cj_sigmoid(cj_forward(n->decoder, cj_randn(c, CJ_SHAPE(200, LATENT))));
    double spread = cj_item(cj_mean(cj_sqrt(cj_var(p, .axes = CJ_AXIS(0)))));
    cj_scope_close(s);
    return spread;
}

static void draw(cj_ctx *c, cj_lab_record *r, const double *rate, const double *distortion, double least)
{
    cj_plot *p = cj_plot_new(c, "Rate and distortion of codes for digits, by the weight of the rate");
    cj_plot_labels(p, "rate: nats of the code", "distortion: nats of the picture given the code");
    cj_plot_line(p, "weights 0.1 to 300", rate, distortion, WEIGHTS);
    for (int k = 0; k < 3; k++) { /* D + R = -ELBO */
        double level = least + 4 * k, x[2] = { 0, rate[0] }, y[2] = { level, level - rate[0] };
        cj_plot_line(p, k ? NULL : "D + R constant", x, y, 2);
    }
    cj_lab_picture(r, c, p, "rate-distortion");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double rate[WEIGHTS] = { 0 }, distortion[WEIGHTS] = { 0 }, use[WEIGHTS] = { 0 }, least = INFINITY;
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_scope outer = cj_scope_open(c);
    cj_tensor *x = cj_cast(cj_gt_scalar(d->train_x, 0.5), CJ_F32), *test = cj_cast(cj_gt_scalar(d->test_x, 0.5), CJ_F32);
    for (int i = 0; i < WEIGHTS && cj_ok(c); i++) {
        net n = net_new(c);
        cj_optim *o = cj_adam(cj_module_params(n.all), .lr = 5e-3);
        for (int step = 0; step < STEPS && cj_ok(c); step++) {
            cj_scope s = cj_scope_open(c);
            int64_t from = (step * BATCH) % (cj_size(x, 0) - BATCH);
            parts p = parts_of(&n, cj_slice(x, 0, from, from + BATCH, 1));
            cj_minimise(o, cj_add(p.distortion, cj_mul_scalar(p.rate, control ? 1 : betas[i])));
            cj_scope_close(s);
        }
        cj_scope s = cj_scope_open(c);
        parts p = parts_of(&n, test);
        rate[i] = cj_item(p.rate), distortion[i] = cj_item(p.distortion), use[i] = use_of_code(c, &n);
        least = fmin(least, rate[i] + distortion[i]);
        cj_lab_say(r, "weight %5.1f: rate %6.2f, distortion %6.2f, sum %6.2f, use of the code %.3f", betas[i], rate[i], distortion[i],
                   rate[i] + distortion[i], use[i]);
        cj_scope_close(s);
    }
    cj_scope_close(outer);
    cj_dataset_free(d);
    if (!cj_ok(c)) return;
    int falls = 0, rises = 0;
    for (int i = 1; i < WEIGHTS; i++) falls += rate[i]<rate[i - 1], rises += distortion[i]> distortion[i - 1];
    cj_lab_expect(r, "larger weights that lower the rate, of 5", WEIGHTS - 1, falls, 0);
    cj_lab_expect(r, "larger weights that raise the distortion, of 5", WEIGHTS - 1, rises, 0);
    cj_lab_expect(r, "weight 300: rate", 0, rate[WEIGHTS - 1], 0.01);
    cj_lab_expect(r, "weight 300: change of the picture with the code", 0, use[WEIGHTS - 1], 0.02);
    cj_lab_expect_at_least(r, "weight 1: change of the picture with the code", 0.15, use[2]);
    cj_lab_expect(r, "weight 1 has the least sum of rate and distortion: the excess", 0, rate[2] + distortion[2] - least, 0.5);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, rate, distortion, least);
}

const cj_lab cj_lab_rate_distortion = {
    .name = "rate-distortion",
    .claim = "a larger weight of the divergence makes a variational autoencoder's code cheaper and its pictures worse, until the code says "
             "nothing",
    .source = "Alemi et al. 2018; Higgins et al. 2017",
    .control = "the weight 1 whatever is asked for",
    .run = run,
};
