/* schedule-gallery: what learning rates do over the steps, and why they fall.
 *
 * Stochastic gradient descent on the mean of (x - z)²/2, z standard normal:  x_(t+1) = x_t - r_t (x_t - z_t)
 *
 *     r_t = r          the variance of x stays at r / (2 - r)
 *     r_t = 1/(t + 1)  x_t is the mean of z_0 … z_(t-1): variance 1/t (Robbins & Monro 1951)
 *     r_t = r, averaged over the steps: variance about 1/t as well (Polyak & Juditsky 1992)
 */
#include "lab/lab.h"

#include <math.h>

enum { STEPS = 400, WIDTH = 2000, SCHEDULES = 11 };

static cj_rate schedule(int k)
{
    static const int64_t milestone[2] = { 200, 300 };
    switch (k) {
    case 0: return cj_rate_constant(0.5);
    case 1: return cj_rate_step(0.5, 100, 0.5);
    case 2: return cj_rate_multi_step(0.5, milestone, 2, 0.1);
    case 3: return cj_rate_exponential(0.5, 0.99);
    case 4: return cj_rate_cosine(0.5, 0, STEPS);
    case 5: return cj_rate_cosine_restarts(0.5, 0, 58, 2);
    case 6: return cj_rate_polynomial(0.5, STEPS, 2);
    case 7: return cj_rate_one_cycle(0.5, STEPS);
    case 8: return cj_rate_inverse_time(1, 1);
    case 9: return cj_rate_inverse_root(0.5, 1);
    default: return cj_rate_warmup(cj_rate_cosine(0.5, 0, STEPS - 50), 50, 0);
    }
}
static const char *const name[SCHEDULES] = { "constant",   "step",      "multi-step", "exponential", "cosine",         "restarts",
                                             "polynomial", "one cycle", "1/(t+1)",    "1/sqrt(t+1)", "warm-up, cosine" };

/* WIDTH independent descents side by side; the variance at the end, and that of the average of the iterates. */
static double descend(cj_ctx *c, const cj_rate *rate, double *averaged)
{
    static const cj_module_type holder = { "holder", NULL, NULL };
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *x = cj_module_param(m, "x", cj_full(c, 3, CJ_SHAPE(WIDTH), CJ_F64));
    cj_optim *o = cj_sgd(cj_module_params(m));
    cj_average *mean = cj_average_new(cj_module_params(m));
    cj_optim_schedule(o, rate);
    for (int t = 0; t < STEPS && cj_ok(c); t++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *z = cj_cast(cj_randn(c, CJ_SHAPE(WIDTH)), CJ_F64);
        cj_minimise(o, cj_mul_scalar(cj_sum(cj_square(cj_sub(x, z))), 0.5));
        if (t >= STEPS / 4) cj_average_update(mean); /* after the way to the minimum */
        cj_scope_close(s);
    }
    double last = cj_item(cj_mean(cj_square(cj_detach(x))));
    cj_average_swap_in(mean);
    *averaged = cj_item(cj_mean(cj_square(cj_detach(x))));
    cj_average_swap_out(mean);
    cj_optim_free(o);
    return last;
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double variance[SCHEDULES] = { 0 }, averaged[SCHEDULES] = { 0 };
    for (int k = 0; k < SCHEDULES && cj_ok(c); k++) {
        const cj_rate rate = schedule(control ? 0 : k);
        variance[k] = descend(c, &rate, &averaged[k]);
        cj_lab_say(r, "%-16s variance after %d steps %.5f, of the averaged iterates %.5f", name[k], STEPS, variance[k], averaged[k]);
    }
    if (!cj_ok(c)) return;
    /* A variance estimated from WIDTH normal numbers is off by sqrt(2/WIDTH), 3.2 %; four of these are allowed. */
    cj_lab_expect(r, "constant rate 1/2: the variance is r/(2 - r)", 1.0 / 3, variance[0], 0.13 / 3);
    cj_lab_expect(r, "rate 1/(t+1): the variance times t", 1, variance[8] * STEPS, 0.13);
    cj_lab_expect(r, "constant rate, averaged: the variance times the averaged steps", 1, averaged[0] * (0.75 * STEPS), 0.15);
    for (int k = 4; k <= 7; k += 3) cj_lab_expect_at_least(r, name[k], 10, variance[0] / variance[k]);

    cj_plateau plateau = { .lr = 0.5, .factor = 0.5, .patience = 3 };
    double lr = 0.5;
    for (int epoch = 0; epoch < 16; epoch++) lr = cj_plateau_lr(&plateau, epoch < 4 || control ? 4 - epoch : 1); /* falls, then stays */
    cj_lab_expect(r, "plateau: 12 calls without progress and patience 3 halve the rate three times", 0.5 / 8, lr, 1e-12);

    if (control || !cj_lab_wants_pictures(r)) return;
    cj_plot *p = cj_plot_new(c, "Learning rates over 400 steps");
    cj_plot_labels(p, "step", "rate");
    cj_plot_range_y(p, 0, 0.55);
    static double rate[STEPS];
    for (int k = 0; k < SCHEDULES; k++) {
        const cj_rate of = schedule(k);
        for (int t = 0; t < STEPS; t++) rate[t] = cj_rate_at(&of, t);
        cj_plot_line(p, name[k], NULL, rate, STEPS);
    }
    cj_lab_picture(r, c, p, "schedule-gallery");
}

const cj_lab cj_lab_schedule_gallery = {
    .name = "schedule-gallery",
    .claim = "a constant rate leaves noise of variance r/(2 - r); a rate of 1/(t + 1), or an average over the steps, brings it down to 1/t",
    .source = "Robbins & Monro 1951; Polyak & Juditsky 1992",
    .control = "every schedule is the constant one, and the loss never stops falling",
    .run = run,
};
