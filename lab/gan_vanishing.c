/* gan-vanishing: a discriminator that is too good leaves the saturating loss nothing to learn from.
 *
 *     saturating       log(1 - D(G(z))) = log(1 - sigmoid(a)):     d/da = -sigmoid(a)          0 where D is sure of a fake
 *     non-saturating   -log D(G(z)) = -log sigmoid(a):             d/da = -(1 - sigmoid(a))    -1 there
 *
 * D is trained longer and longer against a fixed generator far from the data; the gradient that the generator would get by each loss is measured on the way (Goodfellow et al. 2014;
 * Arjovsky & Bottou 2017).
 */
#include "lab/lab.h"

#include <math.h>

enum { STAGES = 12, EACH = 50, BATCH = 128, CURVE = 81 };

static cj_tensor *saturating(cj_tensor *a) { return cj_mean(cj_log_sigmoid(cj_neg(a))); }
static cj_tensor *non_saturating(cj_tensor *a) { return cj_neg(cj_mean(cj_log_sigmoid(a))); }

/* Slope of a loss at logit a. */
static double slope(cj_ctx *c, cj_tensor *(*loss)(cj_tensor *), double a)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(cj_full(c, a, CJ_SHAPE(1), CJ_F64)), *g = NULL;
    double v = cj_grad(loss(x), &x, 1, &g) ? cj_item(g) : NAN;
    cj_scope_close(s);
    return v;
}

typedef struct stage {
    double accuracy, fake, norm[2]; /* of D; mean D(G(z)); |gradient| of the generator by each loss */
} stage;

static stage look(cj_ctx *c, cj_module *G, cj_module *D, double centre)
{
    stage k = { 0 };
    cj_scope s = cj_scope_open(c);
    cj_params *p = cj_module_params(G);
    cj_tensor *w[2] = { cj_params_at(p, 0), cj_params_at(p, 1) }, *g[2], *z = cj_randn(c, CJ_SHAPE(1000, 1));
    cj_tensor *real = cj_add_scalar(cj_randn(c, CJ_SHAPE(1000, 1)), centre);
    cj_tensor *a = cj_forward(D, cj_forward(G, z)), *b = cj_forward(D, real);
    k.accuracy = (cj_item(cj_mean(cj_cast(cj_lt_scalar(a, 0), CJ_F32))) + cj_item(cj_mean(cj_cast(cj_gt_scalar(b, 0), CJ_F32)))) / 2;
    k.fake = cj_item(cj_mean(cj_sigmoid(a)));
    for (int how = 0; how < 2; how++) {
        cj_tensor *loss = how ? non_saturating(a) : saturating(a);
        if (!cj_grad(loss, w, 2, g, .retain = true)) break;
        k.norm[how] = hypot(cj_item(cj_norm(g[0], 2)), cj_item(cj_norm(g[1], 2)));
    }
    cj_scope_close(s);
    return k;
}

static void draw(cj_ctx *c, cj_lab_record *r, const stage *stages)
{
    double x[STAGES], norm[2][STAGES], a[CURVE], loss[2][CURVE];
    for (int i = 0; i < STAGES; i++) x[i] = i * EACH, norm[0][i] = stages[i].norm[0], norm[1][i] = stages[i].norm[1];
    cj_plot *p = cj_plot_new(c, "Gradient of the generator while the discriminator learns");
    cj_plot_labels(p, "steps of the discriminator", "norm of the gradient");
    cj_plot_log(p, false, true);
    cj_plot_line(p, "saturating", x, norm[0], STAGES);
    cj_plot_line(p, "non-saturating", x, norm[1], STAGES);
    cj_lab_picture(r, c, p, "gan-vanishing");
    for (int i = 0; i < CURVE; i++) {
        a[i] = -10 + i * 0.25;
        loss[0][i] = -log1p(exp(a[i])), loss[1][i] = log1p(exp(-a[i]));
    }
    p = cj_plot_new(c, "Losses of a generator");
    cj_plot_labels(p, "logit of D(G(z))", "loss");
    cj_plot_line(p, "log(1 - D)", a, loss[0], CURVE);
    cj_plot_line(p, "-log D", a, loss[1], CURVE);
    cj_lab_picture(r, c, p, "gan-vanishing-losses");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double centre = control ? 0.3 : 10; /* of the data; the generator's is 0 */
    cj_module *G = cj_linear(c, 1, 1), *D = cj_sequential(c, cj_linear(c, 1, 16), cj_tanh_layer(c), cj_linear(c, 16, 1));
    cj_optim *o = cj_adam(cj_module_params(D), .lr = 0.02);
    stage stages[STAGES] = { 0 };
    for (int i = 0; i < STAGES && cj_ok(c); i++) {
        stages[i] = look(c, G, D, centre);
        cj_lab_say(r, "%3d steps: D right %.3f, D(G(z)) %.2e, |gradient| saturating %.2e, non-saturating %.2e", i * EACH,
                   stages[i].accuracy, stages[i].fake, stages[i].norm[0], stages[i].norm[1]);
        for (int k = 0; k < EACH; k++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *fake = cj_detach(cj_forward(G, cj_randn(c, CJ_SHAPE(BATCH, 1)))),
                      *real = cj_add_scalar(cj_randn(c, CJ_SHAPE(BATCH, 1)), centre);
            cj_minimise(o, cj_sub(non_saturating(cj_forward(D, real)), saturating(cj_forward(D, fake))));
            cj_scope_close(s);
        }
    }
    if (!cj_ok(c)) return;
    const stage *last = stages + STAGES - 1;
    double largest = 0;
    for (int i = 0; i < STAGES; i++) largest = fmax(largest, stages[i].norm[0]);
    cj_lab_expect(r, "slope of log(1 - D) at a = -10", -4.54e-5, slope(c, saturating, -10), 5e-8);
    cj_lab_expect(r, "slope of -log D at a = -10", -0.99995, slope(c, non_saturating, -10), 5e-6);
    cj_lab_expect_at_least(r, "D is right at the end", 0.99, last->accuracy);
    cj_lab_expect_at_least(r, "saturating gradient, largest / last", 20, largest / last->norm[0]);
    cj_lab_expect_at_least(r, "last gradient, non-saturating / saturating", 100, last->norm[1] / last->norm[0]);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, stages);
}

const cj_lab cj_lab_gan_vanishing = {
    .name = "gan-vanishing",
    .claim = "the better the discriminator, the smaller the gradient of log(1 - D(G(z))); that of -log D(G(z)) stays",
    .source = "Goodfellow et al. 2014; Arjovsky & Bottou 2017",
    .control = "data so near to the generator's that no discriminator can tell them apart",
    .run = run,
};
