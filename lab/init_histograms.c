/* init-histograms: what five initial values do to the activations of a deep network.
 *
 * Ten hidden layers.  Zero weights: every activation is 0 and stays there.  Small ones (deviation 0.01): each layer is smaller than the last, the signal is gone after a
 * few.  Large ones (deviation 1): tanh sits at ±1, ReLU explodes.  Xavier's for tanh and He's for ReLU keep the spread (Glorot & Bengio 2010, He et al. 2015), and only
 * they can be trained.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 10, UNITS = 100, ROWS = 300, STEPS = 150, BINS = 21 };
typedef enum scheme { ZERO, SMALL, LARGE, XAVIER, HE, SCHEMES } scheme;
static const char *const name[SCHEMES] = { "zero", "small", "large", "Xavier", "He" };

static void first_values(cj_tensor *w, scheme s)
{
    switch (s) {
    case ZERO: cj_init_constant_(w, 0); break;
    case SMALL: cj_init_normal_(w, 0, 0.01); break;
    case LARGE: cj_init_normal_(w, 0, 1); break;
    case XAVIER: cj_init_xavier_normal_(w, 1); break;
    default: cj_init_kaiming_normal_(w, CJ_FAN_IN, 0); break;
    }
}

static cj_module *network(cj_ctx *c, scheme s, bool relu)
{
    cj_module *part[2 * LAYERS + 2] = { 0 };
    bool grad = cj_no_grad(c);
    for (int i = 0; i <= LAYERS; i++) {
        part[2 * i] = cj_linear(c, i ? UNITS : 64, i < LAYERS ? UNITS : 10, .zero_bias = true);
        first_values(cj_params_find(cj_module_params(part[2 * i]), "weight"), s);
        if (i < LAYERS) part[2 * i + 1] = relu ? cj_relu_layer(c) : cj_tanh_layer(c);
    }
    cj_grad_mode(c, grad);
    return (cj_sequential)(c, part);
}

typedef struct findings {
    double deviation[LAYERS]; /* of the activations of each layer */
    double saturated[LAYERS]; /* share with |h| > 0.95 */
    double histogram[BINS];   /* of the last hidden layer, in [-1, 1] */
    double loss;              /* after training, infinity where it is not finite */
} findings;

static void look(cj_ctx *c, cj_module *m, cj_tensor *x, findings *f)
{
    bool grad = cj_no_grad(c);
    for (int i = 0; i < 2 * LAYERS && cj_ok(c); i++) {
        x = cj_forward(cj_module_child(m, i), x);
        if (i % 2 == 0) continue;
        double square = cj_item(cj_mean(cj_square(x))), mean = cj_item(cj_mean(x));
        f->deviation[i / 2] = sqrt(fmax(0, square - mean * mean));
        f->saturated[i / 2] = cj_item(cj_mean(cj_cast(cj_gt_scalar(cj_abs(x), 0.95), CJ_F32)));
    }
    for (int b = 0; b < BINS; b++) {
        double low = -1 + 2.0 * b / BINS, high = low + 2.0 / BINS + (b + 1 == BINS ? 1e-6 : 0);
        f->histogram[b] = cj_item(cj_mean(cj_cast(cj_logical_and(cj_ge_scalar(x, low), cj_lt_scalar(x, high)), CJ_F32)));
    }
    cj_grad_mode(c, grad);
}

static void find(cj_ctx *c, const cj_dataset *d, scheme s, bool relu, findings *f)
{
    cj_scope outer = cj_scope_open(c);
    cj_module *m = network(c, s, relu);
    cj_tensor *x = cj_mul_scalar(cj_add_scalar(cj_slice(d->train_x, 0, 0, ROWS, 1), -0.3), 2.5),
              *y = cj_slice(d->train_y, 0, 0, ROWS, 1); /* mean 0, deviation 1 */
    look(c, m, x, f);
    cj_optim *sgd = cj_sgd(cj_module_params(m), .lr = 0.01,
                           .momentum = 0.9); /* 0.03 is at the edge: there rounding decides whether a deep ReLU network leaps */
    f->loss = INFINITY;
    for (int i = 0; i < STEPS && cj_ok(c); i++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *loss = cj_cross_entropy(cj_forward(m, x), y);
        f->loss = cj_item(loss);
        if (isfinite(f->loss)) cj_minimise(sgd, loss);
        else f->loss = INFINITY;
        cj_scope_close(inner);
        if (!isfinite(f->loss)) break;
    }
    cj_optim_free(sgd);
    cj_scope_close(outer);
}

static void draw(cj_ctx *c, cj_lab_record *r, findings f[2][SCHEMES])
{
    double at[BINS], depth[LAYERS];
    for (int b = 0; b < BINS; b++) at[b] = -1 + (2.0 * b + 1) / BINS;
    for (int i = 0; i < LAYERS; i++) depth[i] = i + 1;
    cj_plot *p = cj_plot_new(c, "Activations of the tenth tanh layer before training");
    cj_plot_labels(p, "activation", "share");
    for (int s = 0; s < SCHEMES; s++) cj_plot_line(p, name[s], at, f[0][s].histogram, BINS);
    cj_lab_picture(r, c, p, "init-histograms-tanh");
    p = cj_plot_new(c, "Deviation of the activations, ReLU");
    cj_plot_labels(p, "layer", "standard deviation");
    cj_plot_log(p, false, true);
    for (int s = SMALL; s < SCHEMES; s++) cj_plot_line(p, name[s], depth, f[1][s].deviation, LAYERS);
    cj_lab_picture(r, c, p, "init-histograms");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static findings f[2][SCHEMES];
    cj_dataset *d = cj_dataset_open(c, "digits");
    if (!d) return;
    for (int relu = 0; relu < 2; relu++)
        for (int s = 0; s < SCHEMES && cj_ok(c); s++)
            f[relu][s] = (findings){ 0 }, find(c, d, control ? XAVIER : (scheme)s, relu, &f[relu][s]);
    cj_dataset_free(d);
    if (!cj_ok(c)) return;
    for (int relu = 0; relu < 2; relu++)
        for (int s = 0; s < SCHEMES; s++) {
            char line[256];
            int n = snprintf(line, sizeof line, "%-4s %-6s deviation by layer", relu ? "ReLU" : "tanh", name[s]);
            for (int i = 0; i < LAYERS; i++) n += snprintf(line + n, sizeof line - (size_t)n, " %.2g", f[relu][s].deviation[i]);
            cj_lab_say(r, "%s; loss after %d steps %.3g", line, STEPS, f[relu][s].loss);
        }
    const double guess = log(10);
    for (int relu = 0; relu < 2; relu++) {
        cj_lab_expect(r, relu ? "ReLU, zero: deviation of the last layer" : "tanh, zero: deviation of the last layer", 0,
                      f[relu][ZERO].deviation[LAYERS - 1], 0);
        cj_lab_expect_at_least(r, relu ? "ReLU, small: first over last deviation" : "tanh, small: first over last deviation", 1e6,
                               f[relu][SMALL].deviation[0] / f[relu][SMALL].deviation[LAYERS - 1]);
        for (int s = ZERO; s <= LARGE; s++)
            cj_lab_expect_at_least(r,
                                   relu ? "ReLU, zero, small, large: loss after training, 2.303 at most"
                                        : "tanh, zero, small, large: loss after training, 2.303 at most",
                                   guess - 0.25, fmin(f[relu][s].loss, guess));
    }
    cj_lab_expect_at_least(r, "tanh, large: share of the last layer at ±1", 0.6, f[0][LARGE].saturated[LAYERS - 1]);
    cj_lab_expect_at_least(r, "ReLU, large: last over first deviation", 1e6, f[1][LARGE].deviation[LAYERS - 1] / f[1][LARGE].deviation[0]);
    cj_lab_expect(r, "tanh, Xavier: log of last over first deviation", 0,
                  log(f[0][XAVIER].deviation[LAYERS - 1] / f[0][XAVIER].deviation[0]), log(4));
    cj_lab_expect(r, "ReLU, He: log of last over first deviation", 0, log(f[1][HE].deviation[LAYERS - 1] / f[1][HE].deviation[0]), log(2));
    cj_lab_expect_at_least(r, "tanh, Xavier: loss of guessing less loss after training", 1.8, guess - f[0][XAVIER].loss);
    cj_lab_expect_at_least(r, "ReLU, He: loss of guessing less loss after training", 1.8, guess - f[1][HE].loss);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, f);
}

const cj_lab cj_lab_init_histograms = {
    .name = "init-histograms",
    .claim = "zero and small initial weights lose the signal, large ones saturate tanh and blow up ReLU; Xavier's and He's keep its "
             "spread, and only they train",
    .source = "Glorot & Bengio 2010; He, Zhang, Ren & Sun 2015",
    .control = "all schemes are Xavier's",
    .run = run,
};
