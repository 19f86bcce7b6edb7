/* zigzag: a unit whose inputs are all positive pulls all its weights the same way.
 *
 * The gradient of one example with respect to the weights of a unit is delta·h: the error of the unit times its inputs.  Where the inputs come from sigmoids, h > 0 and
 * every weight gets the sign of delta, so a step can raise all weights or lower all of them, and a target with weights of both signs is reached in zig-zags.
 * Zero-centred inputs (tanh) leave every sign free.
 *
 * How much that costs is exact for least squares.  With n independent inputs, uniform on [0, 1], the second moments are I/12 + 11ᵀ/4: condition 1 + 3n, against 1
 * for the same inputs centred, and gradient descent pays for the condition (lab rate-table).
 */
#include "lab/lab.h"

#include <math.h>

enum { EXAMPLES = 512, UNITS = 64, INPUTS = 10, MOST = 5000 };

/* The share of weights whose gradient has the sign of the first one's, over examples: gradients of (w·h - y)²/2 one example at a time, h = act(x·v). */
static double agreement(cj_ctx *c, bool centred)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(EXAMPLES, INPUTS)), *v = cj_randn(c, CJ_SHAPE(INPUTS, UNITS));
    cj_tensor *h = cj_matmul(x, v);
    h = centred ? cj_tanh(h) : cj_sigmoid(h);
    cj_tensor *w = cj_randn(c, CJ_SHAPE(UNITS, 1)), *y = cj_randn(c, CJ_SHAPE(EXAMPLES, 1));
    cj_tensor *delta = cj_sub(cj_matmul(h, w), y);
    cj_tensor *gradient = cj_sign(cj_mul(delta, h)); /* [examples, units] */
    double share = cj_item(cj_mean(cj_cast(cj_eq(gradient, cj_slice(gradient, 1, 0, 1, 1)), CJ_F64)));
    cj_scope_close(s);
    return share;
}

/* Steps of gradient descent, at the best constant rate 2/(smallest + largest eigenvalue), until every weight is within 0.01 of the target (+1, -1, +1 …). */
static int steps_needed(cj_ctx *c, bool centred, double *loss)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *h = cj_rand(c, CJ_SHAPE(4096, INPUTS), .dtype = CJ_F64);
    if (centred) h = cj_add_scalar(h, -0.5);
    double sign[INPUTS];
    for (int i = 0; i < INPUTS; i++) sign[i] = i % 2 ? -1 : 1;
    cj_tensor *target = cj_from_f64(c, sign, CJ_SHAPE(INPUTS, 1)), *y = cj_matmul(h, target);
    const double small = 1.0 / 12, large = centred ? small : small + INPUTS / 4.0;
    cj_tensor *w = cj_keep(cj_add_scalar(cj_zeros(c, CJ_SHAPE(INPUTS, 1), CJ_F64), 0.5)); /* off both, and off the target's plane */
    int steps = 0;
    for (; steps < MOST && cj_ok(c); steps++) {
        cj_scope t = cj_scope_open(c);
        cj_tensor *error = cj_sub(cj_matmul(h, w), y);
        if (loss) loss[steps] = cj_item(cj_mean(cj_square(error)));
        bool there = cj_item(cj_max(cj_abs(cj_sub(w, target)))) < 0.01;
        if (!there) cj_add_(w, cj_matmul(cj_t(h), error), -2 / (small + large) / 4096);
        cj_scope_close(t);
        if (there) break;
    }
    cj_release(w);
    cj_scope_close(s);
    return steps;
}

static void draw(cj_ctx *c, cj_lab_record *r)
{
    static double loss[2][MOST];
    cj_plot *p = cj_plot_new(c, "Least squares towards weights of both signs");
    cj_plot_labels(p, "step of gradient descent", "mean squared error");
    cj_plot_log(p, false, true);
    int n = steps_needed(c, false, loss[0]), m = steps_needed(c, true, loss[1]);
    cj_plot_line(p, "inputs in [0, 1], as from a sigmoid", NULL, loss[0], n);
    cj_plot_line(p, "the same inputs, centred", NULL, loss[1], m);
    cj_lab_picture(r, c, p, "zigzag");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double sigmoid = agreement(c, control), tanh = agreement(c, true);
    int positive = steps_needed(c, control, NULL), centred = steps_needed(c, true, NULL);
    if (!cj_ok(c)) return;
    cj_lab_say(r, "steps to a target of both signs: %d with positive inputs, %d with centred ones", positive, centred);
    cj_lab_expect(r, "weights that agree in sign, fed by sigmoids", 1, sigmoid, 0);
    cj_lab_expect(r, "weights that agree in sign, fed by tanh", 0.5, tanh, 0.03);
    cj_lab_expect_at_least(r, "steps with positive inputs / steps with centred ones", 10, (double)positive / centred);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r);
}

const cj_lab cj_lab_zigzag = {
    .name = "zigzag",
    .claim = "the gradient of a unit fed by sigmoids has one sign for all its weights, half of them with zero-centred inputs, and a target "
             "of both "
             "signs takes many times more steps",
    .source = "LeCun, Bottou, Orr & Mueller 1998",
    .control = "inputs centred everywhere",
    .run = run,
};
