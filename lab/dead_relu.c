/* dead-relu: units that no input wakes.
 *
 * A ReLU unit whose pre-activation is negative on the whole data set has output 0 and gradient 0 for ever: it is dead.  Steps that are too large throw units there, and so
 * does a bias that begins far below zero.  A dead unit is found by looking once at all of the data; taking it out changes nothing; drawing its weights anew
 * lets it learn again.  A leaky unit always has a slope, and cannot die.
 */
#include "lab/lab.h"

#include <math.h>

enum { HIDDEN = 64, STEPS = 300, RATES = 6, NETS = 5 };

typedef struct net {
    cj_tensor *w1, *b1, *w2, *b2; /* parameters: [2, hidden], [hidden], [hidden, 2], [2] */
} net;

static net net_new(cj_ctx *c, double bias)
{
    return (net){ cj_param(cj_randn(c, CJ_SHAPE(2, HIDDEN))), cj_param(cj_add_scalar(cj_zeros(c, CJ_SHAPE(HIDDEN), CJ_F32), bias)),
                  cj_param(cj_mul_scalar(cj_randn(c, CJ_SHAPE(HIDDEN, 2)), sqrt(2.0 / HIDDEN))),
                  cj_param(cj_zeros(c, CJ_SHAPE(2), CJ_F32)) };
}

static void net_free(net *n)
{
    cj_tensor *p[] = { n->w1, n->b1, n->w2, n->b2 };
    for (int i = 0; i < 4; i++) cj_release(p[i]);
}

static cj_tensor *hidden(const net *n, cj_tensor *x, bool leaky)
{
    cj_tensor *z = cj_add(cj_matmul(x, n->w1), n->b1);
    return leaky ? cj_leaky_relu(z) : cj_relu(z);
}

static cj_tensor *output(const net *n, cj_tensor *x, bool leaky) { return cj_add(cj_matmul(hidden(n, x, leaky), n->w2), n->b2); }

/* The units without a slope on any input, as a bool [hidden]. */
static cj_tensor *dead(const net *n, cj_tensor *x, bool leaky)
{
    if (leaky) return cj_cast(cj_zeros_like(n->b1), CJ_BOOL);
    return cj_logical_not(cj_any(cj_gt_scalar(hidden(n, x, false), 0), .axes = CJ_AXIS(0)));
}

static double share_dead(cj_ctx *c, const net *n, cj_tensor *x, bool leaky)
{
    cj_scope s = cj_scope_open(c);
    double share = cj_item(cj_mean(cj_cast(dead(n, x, leaky), CJ_F32)));
    cj_scope_close(s);
    return share;
}

static double train(cj_ctx *c, net *n, const cj_dataset *d, double lr, int steps, bool leaky)
{
    double last = NAN;
    for (int i = 0; i < steps && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *p[] = { n->w1, n->b1, n->w2, n->b2 }, *g[4];
        cj_tensor *loss = cj_cross_entropy(output(n, d->train_x, leaky), d->train_y);
        last = cj_item(loss);
        cj_grad(loss, p, 4, g);
        bool was = cj_no_grad(c);
        for (int k = 0; k < 4; k++) cj_add_(p[k], g[k], -lr);
        cj_grad_mode(c, was);
        cj_scope_close(s);
    }
    return last;
}

/* Draws the dead units' weights anew; the others stay. */
static void revive(cj_ctx *c, net *n, cj_tensor *x)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *gone = dead(n, x, false);
    bool was = cj_no_grad(c);
    cj_assign_(n->w1, cj_where(gone, cj_randn(c, CJ_SHAPE(2, HIDDEN)), n->w1));
    cj_assign_(n->b1, cj_where(gone, cj_zeros_like(n->b1), n->b1));
    cj_grad_mode(c, was);
    cj_scope_close(s);
}

typedef struct findings {
    double shares[RATES];         /* of dead units, after training at each rate */
    double bad_start;             /* the same before any training, with biases of -4 */
    double gradient;              /* largest |gradient| at a dead unit's weights */
    double pruned;                /* largest change of an output when dead units are taken out */
    double revived, revival_gain; /* the share that is alive again, and the loss that further training wins */
} findings;

static const double rates[RATES] = { 0.1, 0.5, 1, 2, 4, 8 };

static findings find(cj_ctx *c, bool leaky)
{
    findings f = { 0 };
    cj_dataset *d = cj_dataset_open(c, "moons");
    for (int i = 0; i < RATES && cj_ok(c); i++) {
        for (int k = 0; k < NETS; k++) {
            net n = net_new(c, 0);
            train(c, &n, d, rates[i], STEPS, leaky);
            f.shares[i] += share_dead(c, &n, d->train_x, leaky) / NETS;
            net_free(&n);
        }
    }
    net n = net_new(c, -4);
    f.bad_start = share_dead(c, &n, d->train_x, leaky);
    cj_scope s = cj_scope_open(c);
    cj_tensor *gone = dead(&n, d->train_x, leaky), *g = NULL;
    cj_grad(cj_cross_entropy(output(&n, d->train_x, leaky), d->train_y), &n.w1, 1, &g);
    f.gradient = cj_item(cj_max(cj_abs(cj_where(gone, g, cj_zeros_like(g)))));
    net pruned = n;
    pruned.w2 = cj_where(cj_unsqueeze(gone, 1), cj_zeros_like(n.w2), n.w2); /* nothing of a dead unit reaches the output */
    f.pruned = cj_item(cj_max(cj_abs(cj_sub(output(&pruned, d->train_x, leaky), output(&n, d->train_x, leaky)))));
    cj_scope_close(s);
    double stuck = train(c, &n, d, 0.1, STEPS, leaky);
    revive(c, &n, d->train_x);
    f.revived = 1 - share_dead(c, &n, d->train_x, leaky);
    f.revival_gain = stuck - train(c, &n, d, 0.1, STEPS, leaky);
    net_free(&n);
    cj_dataset_free(d);
    return f;
}

static void draw(cj_ctx *c, cj_lab_record *r, const findings *f)
{
    cj_plot *p = cj_plot_new(c, "Dead units after 300 steps on the two moons");
    cj_plot_labels(p, "learning rate", "share of 64 units, mean of 5 nets");
    cj_plot_log(p, true, false);
    double none[RATES] = { 0 };
    cj_plot_line(p, "ReLU", rates, f->shares, RATES);
    cj_plot_line(p, "leaky ReLU", rates, none, RATES);
    cj_lab_picture(r, c, p, "dead-relu");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    findings f = find(c, control);
    if (!cj_ok(c)) return;
    for (int i = 0; i < RATES; i++) cj_lab_say(r, "learning rate %3.1f: %2.0f %% of the units are dead", rates[i], 100 * f.shares[i]);
    cj_lab_expect(r, "share of dead units at learning rate 0.1", 0, f.shares[0], 0.05);
    cj_lab_expect_at_least(r, "share of dead units at learning rate 8", 0.5, f.shares[RATES - 1]);
    int falls = 0;
    for (int i = 1; i < RATES; i++) falls += f.shares[i] < f.shares[i - 1] - 0.05;
    cj_lab_expect(r, "rates at which the share falls again", 0, falls, 0);
    cj_lab_expect_at_least(r, "share of dead units with biases of -4", 0.5, f.bad_start);
    cj_lab_expect(r, "gradient of a dead unit's weights", 0, f.gradient, 0);
    cj_lab_expect(r, "change of the output when dead units are taken out", 0, f.pruned, 0);
    cj_lab_expect_at_least(r, "share of units alive after drawing the dead ones anew", 0.95, f.revived);
    cj_lab_expect_at_least(r, "loss won by training on", 0.02, f.revival_gain);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, &f);
}

const cj_lab cj_lab_dead_relu = {
    .name = "dead-relu",
    .claim = "ReLU units die of large steps and of bad biases, have no gradient then, can be taken out without a change, and learn again "
             "when drawn anew",
    .source = "Maas, Hannun & Ng 2013",
    .control = "leaky units, which cannot die",
    .run = run,
};
