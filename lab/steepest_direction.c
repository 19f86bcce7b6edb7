/* steepest-direction: of all unit directions D, the one that lowers f(x + eta D) most tends to -grad f / |grad f| as eta falls.
 *
 *     f(x, y) = (1 - x)² + 2 (y - x²)² + x y / 2        at (0.3, -0.8), where the curvature pulls the best direction aside for long steps
 *
 * A direction d is one of descent exactly where <grad f, d> < 0: for short steps the sign of the change follows the sign of the inner product.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { DIRECTIONS = 20000, LENGTHS = 7 };
static const double lengths[LENGTHS] = { 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001 };

/* f of points [n, 2]. */
static cj_tensor *f(cj_tensor *p)
{
    cj_tensor *x = cj_select(p, 1, 0), *y = cj_select(p, 1, 1);
    cj_tensor *bend = cj_square(cj_sub(y, cj_square(x)));
    return cj_add(cj_add(cj_square(cj_add_scalar(cj_neg(x), 1)), cj_mul_scalar(bend, 2)), cj_mul_scalar(cj_mul(x, y), 0.5));
}
static cj_tensor *value(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_sum(f(in[0]));
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_tensor *at = cj_from_f64(c, (double[]){ 0.3, -0.8 }, CJ_SHAPE(1, 2)), *g;
    cj_vjp(c, value, NULL, &at, 1, NULL, &g);
    cj_tensor *d = cj_randn(c, CJ_SHAPE(DIRECTIONS, 2), .dtype = CJ_F64);
    d = cj_div(d, cj_sqrt(cj_sum(cj_square(d), .axes = CJ_AXIS(1), .keepdim = true)));
    cj_tensor *down = cj_neg(g);
    if (control) { /* Newton's direction -H⁻¹ grad */
        cj_tensor *h = cj_reshape(cj_hessian(c, value, NULL, at), CJ_SHAPE(2, 2));
        down = cj_neg(cj_reshape(cj_solve(h, cj_reshape(g, CJ_SHAPE(2, 1))), CJ_SHAPE(1, 2)));
    }
    down = cj_div(down, cj_sqrt(cj_sum(cj_square(down))));
    const double here = cj_item(f(at));
    double angle[LENGTHS] = { 0 };
    for (int i = 0; i < LENGTHS && cj_ok(c); i++) {
        cj_tensor *after = f(cj_add(at, cj_mul_scalar(d, lengths[i])));
        cj_tensor *best = cj_index_select(d, 0, cj_reshape(cj_argmin(after), CJ_SHAPE(1)));
        angle[i] = acos(fmin(1, cj_item(cj_sum(cj_mul(best, down))))) * 180 / M_PI;
        cj_lab_say(r, "step %-6g  the best of %d directions is %.3f degrees from -grad", lengths[i], DIRECTIONS, angle[i]);
    }
    if (!cj_ok(c)) return;
    cj_lab_expect(r, "angle between the best direction and -grad for steps of 0.001, in degrees", 0, angle[LENGTHS - 1], 0.15);
    cj_lab_expect_at_least(r, "the same for steps of 1, where curvature counts", 5, angle[0]);
    cj_lab_expect_at_least(r, "it falls about like the step: from 0.3 to 0.03 by a factor of", 5, angle[1] / fmax(angle[3], 1e-9));
    /* descent directions: all but those within 0.01 of orthogonal */
    cj_tensor *slope = cj_sum(cj_mul(d, control ? down : cj_div(g, cj_sqrt(cj_sum(cj_square(g))))), .axes = CJ_AXIS(1));
    cj_tensor *clear = cj_gt_scalar(cj_abs(slope), 0.01);
    cj_tensor *falls = cj_lt_scalar(f(cj_add(at, cj_mul_scalar(d, 1e-4))), here);
    cj_tensor *agree = cj_eq(cj_lt_scalar(slope, 0), falls);
    const double share = cj_item(cj_sum(cj_cast(cj_logical_and(agree, clear), CJ_F64))) / cj_item(cj_sum(cj_cast(clear, CJ_F64)));
    cj_lab_expect(r, "share of directions whose change has the sign of <grad, d>", 1, share, 0);
    if (control || !cj_lab_wants_pictures(r)) return;
    cj_plot *p = cj_plot_new(c, "The best direction turns to the negative gradient as steps get short");
    cj_plot_labels(p, "length of the step", "degrees from -grad");
    cj_plot_log(p, true, true);
    cj_plot_line(p, "best of 20000 directions", lengths, angle, LENGTHS);
    cj_lab_picture(r, c, p, "steepest-direction");
}

const cj_lab cj_lab_steepest_direction = {
    .name = "steepest-direction",
    .claim = "the unit direction that lowers a function most tends to its negative gradient as the step gets short",
    .source = "Cauchy 1847",
    .control = "compares with Newton's direction -H^-1 grad, and takes its inner products for those of the gradient",
    .run = run,
};
