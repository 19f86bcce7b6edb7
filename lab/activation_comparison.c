/* activation-comparison: the same deep network with different activations.
 *
 * Eight layers on the digits as they come (0 … 16), plain gradient descent, everything equal but the activation: the ReLU family is there first; tanh follows, because large
 * inputs saturate it; sigmoid stays behind, because a slope of at most 1/4 per layer leaves the first layers next to nothing to learn from.  (With inputs scaled to
 * 0 … 1 and weights scaled for it, tanh is about as fast as ReLU: the order is not a law.)  A step function has no slope at all: behind it nothing trains, and the loss stays where only the last layer
 * can bring it.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 8, WIDTH = 32, BATCH = 128, EPOCHS = 80, KINDS = 7 };
static const double wanted = 0.3; /* training loss; log 10 = 2.3 at the start */

typedef cj_tensor *activation(cj_tensor *x);
static cj_tensor *leaky(cj_tensor *x) { return cj_leaky_relu(x, .slope = 0.1); }
static cj_tensor *elu(cj_tensor *x) { return cj_elu(x); }
static cj_tensor *pairs(cj_tensor *x) { return cj_maxout(x, -1, 2); }
static cj_tensor *relu(cj_tensor *x) { return cj_relu(x); }
static cj_tensor *hyperbolic(cj_tensor *x) { return cj_tanh(x); }
static cj_tensor *logistic(cj_tensor *x) { return cj_sigmoid(x); }
static cj_tensor *step(cj_tensor *x) { return cj_heaviside(x); }

static const struct kind {
    const char *name;
    activation *f;
    int64_t wide; /* outputs per unit */
    double gain;  /* the initial weights' deviation is gain / sqrt(inputs): He's, and for the maximum of two what keeps the signal's size */
} kinds[KINDS] = {
    { "ReLU", relu, 1, 1.414 },       { "leaky ReLU", leaky, 1, 1.414 }, { "ELU", elu, 1, 1.414 },   { "maxout", pairs, 2, 1 },
    { "tanh", hyperbolic, 1, 1.414 }, { "sigmoid", logistic, 1, 1.414 }, { "step", step, 1, 1.414 },
};

typedef struct net {
    cj_module *root;
    const struct kind *kind;
} net;

static cj_tensor *forward(cj_module *m, void *self, cj_tensor *x)
{
    const net *n = self;
    for (int i = 0; i < LAYERS; i++) {
        x = cj_forward(cj_module_child(m, i), x);
        if (i + 1 < LAYERS) x = n->kind->f(x);
    }
    return x;
}

static cj_module *net_new(cj_ctx *c, const struct kind *k, int64_t in, int64_t out)
{
    static const cj_module_type type = { .name = "deep", .forward = forward };
    cj_module *m = cj_module_new(c, &type, sizeof(net));
    if (!m) return NULL;
    *(net *)cj_module_self(m) = (net){ m, k };
    for (int i = 0; i < LAYERS; i++) {
        int64_t from = i ? WIDTH : in, to = i + 1 < LAYERS ? WIDTH * k->wide : out;
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        cj_module_add(m, name, cj_linear(c, from, to, .init_std = k->gain / sqrt((double)from), .zero_bias = true));
    }
    return m;
}

/* Loss after each epoch; returns the epoch at which it falls below `wanted`, or EPOCHS. */
static int train(cj_ctx *c, const struct kind *k, const cj_dataset *d, double loss[EPOCHS])
{
    cj_module *m = net_new(c, k, d->features, d->classes);
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0.02);
    int64_t n = cj_size(d->train_x, 0);
    int reached = EPOCHS;
    for (int e = 0; e < EPOCHS && cj_ok(c); e++) {
        double sum = 0;
        int batches = 0;
        for (int64_t at = 0; at + BATCH <= n && cj_ok(c); at += BATCH, batches++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *x = cj_slice(d->train_x, 0, at, at + BATCH, 1), *y = cj_slice(d->train_y, 0, at, at + BATCH, 1);
            cj_tensor *l = cj_cross_entropy(cj_forward(m, x), y);
            sum += cj_item(l);
            cj_minimise(o, l);
            cj_scope_close(s);
        }
        loss[e] = sum / batches;
        if (loss[e] < wanted && reached == EPOCHS) reached = e + 1;
    }
    cj_optim_free(o);
    return reached;
}

static void draw(cj_ctx *c, cj_lab_record *r, double loss[KINDS][EPOCHS])
{
    cj_plot *p = cj_plot_new(c, "Eight layers on the digits, one curve per activation");
    cj_plot_labels(p, "epoch", "training loss");
    cj_plot_range_y(p, 0, 2.5);
    for (int i = 0; i < KINDS; i++) cj_plot_line(p, kinds[i].name, NULL, loss[i], EPOCHS);
    cj_lab_picture(r, c, p, "activation-comparison");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static double loss[KINDS][EPOCHS];
    int epochs[KINDS] = { 0 };
    cj_dataset *d = cj_dataset_open(c, "digits", .raw = true);
    for (int i = 0; i < KINDS && cj_ok(c); i++) {
        const struct kind *k = &kinds[control ? 0 : i];
        epochs[i] = train(c, k, d, loss[i]);
        cj_lab_say(r, "%-10s loss %.2f %s %d epochs", k->name, wanted, epochs[i] < EPOCHS ? "after" : "not reached in", epochs[i]);
    }
    cj_dataset_free(d);
    if (!cj_ok(c)) return;
    int slowest = 0;
    for (int i = 0; i < 4; i++) slowest = epochs[i] > slowest ? epochs[i] : slowest;
    cj_lab_expect_at_least(r, "epochs of tanh - epochs of the slowest of the ReLU family", 1, epochs[4] - slowest);
    cj_lab_expect_at_least(r, "epochs of sigmoid / epochs of tanh", 2, (double)epochs[5] / epochs[4]);
    cj_lab_expect_at_least(r, "loss of the step function in the end", 1, loss[6][EPOCHS - 1]);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, loss);
}

const cj_lab cj_lab_activation_comparison = {
    .name = "activation-comparison",
    .claim = "in a deep network the ReLU family trains faster than tanh, tanh faster than sigmoid, and a step function does not train",
    .source = "Glorot & Bengio 2010; Glorot, Bordes & Bengio 2011",
    .control = "ReLU in the place of every other activation",
    .run = run,
};
