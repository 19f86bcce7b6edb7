/* heavy-ball-cycle: momentum tuned for quadratics can fail on a function that is not one.
 *
 *     f'(x) = 25 x (x < 1),   x + 24 (1 <= x < 2),   25 x - 24 (x >= 2)          strongly convex: m = 1, L = 25, minimum at 0
 *     heavy ball   x+ = x - eta f'(x) + rho (x - x-)       eta = 4/(sqrt L + sqrt m)^2 = 1/9, rho = ((sqrt k - 1)/(sqrt k + 1))^2 = 4/9
 *
 * From x_0 = x_-1 = 3.3 it falls into the 3-cycle 792/1225, -2208/1225, 2592/1225 and stays there; gradient descent and Nesterov's method, with their usual
 * steps, converge from everywhere.  The function is that of Lessard, Recht & Packard, "Analysis and design of optimization algorithms via integral quadratic
 * constraints", 2016.  All starting points are iterated at once, as one f64 tensor; the gradient is the library's.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 600, SHOWN = 48, CYCLING = 40 /* 3.07, 3.08 … 3.46 */, STARTS = CYCLING + 3 };

typedef enum { HEAVY_BALL, GRADIENT_DESCENT, NESTEROV } method;

/* The integral of f': continuous at 1 and 2. */
static cj_tensor *f(cj_tensor *x)
{
    cj_tensor *square = cj_square(x);
    cj_tensor *left = cj_mul_scalar(square, 12.5);
    cj_tensor *middle = cj_add_scalar(cj_add(cj_mul_scalar(square, 0.5), cj_mul_scalar(x, 24)), -12);
    cj_tensor *right = cj_add_scalar(cj_sub(cj_mul_scalar(square, 12.5), cj_mul_scalar(x, 24)), 36);
    return cj_where(cj_lt_scalar(x, 1), left, cj_where(cj_lt_scalar(x, 2), middle, right));
}

static cj_tensor *slope(cj_tensor *x)
{
    cj_tensor *leaf = cj_require_grad(x), *g = NULL;
    cj_grad(cj_sum(f(leaf)), &leaf, 1, &g);
    return g;
}

static cj_tensor *next(method how, cj_tensor *x, cj_tensor *previous, double eta, double rho)
{
    cj_tensor *ahead = cj_add(x, cj_mul_scalar(cj_sub(x, previous), rho));
    switch (how) {
    case HEAVY_BALL: return cj_sub(ahead, cj_mul_scalar(slope(x), eta));
    case NESTEROV: return cj_sub(ahead, cj_mul_scalar(slope(ahead), eta));
    default: return cj_sub(x, cj_mul_scalar(slope(x), eta));
    }
}

/* path[t] receives all iterates of step t. */
static void iterate(cj_ctx *c, method how, double eta, double rho, const double *start, double (*path)[STARTS])
{
    cj_tensor *x0 = cj_from_f64(c, start, CJ_SHAPE(STARTS));
    cj_tensor *x = cj_keep(cj_clone(x0)), *previous = cj_keep(cj_clone(x0));
    for (int t = 0; t <= STEPS && cj_ok(c); t++) {
        cj_scope s = cj_scope_open(c);
        cj_to_f64(x, path[t], STARTS);
        cj_tensor *y = next(how, x, previous, eta, rho);
        cj_assign_(previous, x);
        cj_assign_(x, y);
        cj_scope_close(s);
    }
    cj_release(x);
    cj_release(previous);
}

/* Largest distance of the last three iterates, in the order of the cycle, from it. */
static double distance_from_cycle(double (*path)[STARTS], int i)
{
    static const double cycle[3] = { 792.0 / 1225, -2208.0 / 1225, 2592.0 / 1225 };
    double best = INFINITY;
    for (int phase = 0; phase < 3; phase++) {
        double worst = 0;
        for (int k = 0; k < 3; k++) worst = fmax(worst, fabs(path[STEPS - 2 + k][i] - cycle[(k + phase) % 3]));
        best = fmin(best, worst);
    }
    return best;
}

static double largest_end(double (*path)[STARTS], int from, int to)
{
    double worst = 0;
    for (int i = from; i < to; i++) worst = fmax(worst, fabs(path[STEPS][i]));
    return worst;
}

static void draw(cj_ctx *c, cj_lab_record *r, double (*heavy)[STARTS], double (*gd)[STARTS], double (*nag)[STARTS], int shown)
{
    double t[SHOWN], y[4][SHOWN];
    for (int i = 0; i < SHOWN; i++) {
        t[i] = i;
        y[0][i] = heavy[i][shown];
        y[1][i] = heavy[i][CYCLING + 1];
        y[2][i] = nag[i][shown];
        y[3][i] = gd[i][shown];
    }
    cj_plot *p = cj_plot_new(c, "Heavy ball falls into a 3-cycle; the others reach the minimum at 0");
    cj_plot_labels(p, "step", "x");
    cj_plot_line(p, "heavy ball from 3.3", t, y[0], SHOWN);
    cj_plot_line(p, "heavy ball from 3.5", t, y[1], SHOWN);
    cj_plot_line(p, "Nesterov from 3.3", t, y[2], SHOWN);
    cj_plot_line(p, "gradient descent from 3.3", t, y[3], SHOWN);
    cj_lab_picture(r, c, p, "heavy-ball-cycle");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    double start[STARTS];
    for (int i = 0; i < CYCLING; i++) start[i] = 3.07 + 0.01 * i;
    start[CYCLING] = 2, start[CYCLING + 1] = 3.5, start[CYCLING + 2] = 10;
    const int shown = 23; /* 3.3 */

    double(*path)[STARTS] = malloc((STEPS + 1) * sizeof *path), (*gd)[STARTS] = malloc((STEPS + 1) * sizeof *gd),
    (*nag)[STARTS] = malloc((STEPS + 1) * sizeof *nag);
    if (path && gd && nag) {
        iterate(c, HEAVY_BALL, 1.0 / 9, control ? 1.0 / 4 : 4.0 / 9, start, path);
        iterate(c, GRADIENT_DESCENT, 2.0 / 26, 0, start, gd);
        iterate(c, NESTEROV, 1.0 / 25, 2.0 / 3, start, nag);
    } else {
        cj_fail(c, CJ_EMEMORY, "heavy-ball-cycle: out of memory");
    }
    if (cj_ok(c)) {
        double last[3] = { path[STEPS - 2][shown], path[STEPS - 1][shown], path[STEPS][shown] };
        double low = fmin(last[0], fmin(last[1], last[2])), high = fmax(last[0], fmax(last[1], last[2])),
               middle = last[0] + last[1] + last[2] - low - high;
        cj_lab_expect(r, "heavy ball from 3.3: largest of the last three", 2592.0 / 1225, high, 1e-12);
        cj_lab_expect(r, "heavy ball from 3.3: middle one", 792.0 / 1225, middle, 1e-12);
        cj_lab_expect(r, "heavy ball from 3.3: smallest", -2208.0 / 1225, low, 1e-12);
        double worst = 0;
        for (int i = 0; i < CYCLING; i++) worst = fmax(worst, distance_from_cycle(path, i));
        cj_lab_expect(r, "heavy ball from 3.07 ... 3.46: distance from the cycle", 0, worst, 1e-12);
        cj_lab_expect(r, "heavy ball from 2, 3.5 and 10: distance from 0", 0, largest_end(path, CYCLING, STARTS), 1e-12);
        cj_lab_expect(r, "gradient descent (2/26), all starts: distance from 0", 0, largest_end(gd, 0, STARTS), 1e-12);
        cj_lab_expect(r, "Nesterov (1/25, 2/3), all starts: distance from 0", 0, largest_end(nag, 0, STARTS), 1e-12);
        if (!control && cj_lab_wants_pictures(r)) draw(c, r, path, gd, nag, shown);
    }
    free(path), free(gd), free(nag);
}

const cj_lab cj_lab_heavy_ball_cycle = {
    .name = "heavy-ball-cycle",
    .claim = "heavy ball, tuned for quadratics, cycles forever on a strongly convex function where gradient descent and Nesterov converge",
    .source = "Lessard, Recht & Packard 2016; Polyak 1964",
    .control = "momentum 1/4 instead of 4/9: there is no cycle to fall into",
    .run = run,
};
