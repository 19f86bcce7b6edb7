/* min-max-xy: two players on f(x, y) = x·y, x going down and y going up.
 *
 *     both at once      (x, y) -= s (y, -x)                        the radius grows by sqrt(1 + s²) every step: a spiral outwards
 *     one after another x -= s y, then y += s x (the new x)        the product of two shears: an ellipse, for ever
 *     consensus         v + g grad |v|²/2, v = (y, -x)             the radius shrinks by sqrt((1 - s g)² + s²)
 *
 * The saddle at 0 is the only solution; what gradients do near it is what makes adversarial training delicate (Mescheder, Nowozin & Geiger 2017).
 */
#include "lab/lab.h"

#include <math.h>

enum { STEPS = 100 };

static cj_tensor *product(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_sum(cj_mul(in[0], in[1]));
}

typedef struct path {
    double x[STEPS + 1], y[STEPS + 1], radius, widest; /* at the end; the largest on the way */
} path;

static void follow(cj_ctx *c, int method, double step, path *p)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_keep(cj_full(c, 1, CJ_SHAPE(1), CJ_F64)), *y = cj_keep(cj_full(c, 0, CJ_SHAPE(1), CJ_F64));
    *p = (path){ .x[0] = 1, .widest = 1 };
    for (int i = 1; i <= STEPS && cj_ok(c); i++) {
        cj_min_max(c, product, NULL, &x, 1, &y, 1, NULL, .method = method, .step = step, .weight = 1, .iterations = 1);
        p->x[i] = cj_item(x), p->y[i] = cj_item(y);
        p->radius = hypot(p->x[i], p->y[i]);
        p->widest = fmax(p->widest, p->radius);
    }
    cj_release(x);
    cj_release(y);
    cj_scope_close(s);
}

static void draw(cj_ctx *c, cj_lab_record *r, const path *both, const path *turns, const path *consensus)
{
    enum { GRID = 81 };
    static double saddle[GRID * GRID];
    const double middle = (GRID - 1) / 2.0;
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++) saddle[i * GRID + j] = (i - middle) * (j - middle) * (1.8 * 1.8) / (middle * middle);
    cj_plot *p = cj_plot_new(c, "Gradients of x·y: x goes down, y goes up, from (1, 0)");
    cj_plot_size(p, 900, 860);
    cj_plot_labels(p, "x", "y");
    cj_plot_field(p, saddle, GRID, GRID, -1.8, 1.8, -1.8, 1.8);
    cj_plot_line(p, "both at once", both->x, both->y, STEPS + 1);
    cj_plot_line(p, "one after another", turns->x, turns->y, STEPS + 1);
    cj_plot_line(p, "consensus", consensus->x, consensus->y, STEPS + 1);
    cj_lab_picture(r, c, p, "min-max-xy");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static path both, turns, consensus, slow, fast;
    follow(c, control ? CJ_GAME_EXTRAGRADIENT : CJ_GAME_SIMULTANEOUS, 0.1, &both);
    follow(c, CJ_GAME_ALTERNATING, 0.1, &turns);
    follow(c, CJ_GAME_CONSENSUS, 0.1, &consensus);
    follow(c, control ? CJ_GAME_EXTRAGRADIENT : CJ_GAME_SIMULTANEOUS, 0.05, &slow);
    follow(c, control ? CJ_GAME_EXTRAGRADIENT : CJ_GAME_SIMULTANEOUS, 0.2, &fast);
    if (!cj_ok(c)) return;
    cj_lab_say(r, "both at once, 100 steps of 0.05, 0.1, 0.2: radius %.4f, %.4f, %.4f", slow.radius, both.radius, fast.radius);
    cj_lab_expect(r, "both at once: radius after 100 steps of 0.1, (1 + 0.01)^50", pow(1.01, 50), both.radius, 1e-12);
    cj_lab_expect(r, "and rounded", 1.6446, both.radius, 5e-5);
    cj_lab_expect(r, "steps of 0.05: (1 + 0.0025)^50", pow(1.0025, 50), slow.radius, 1e-12);
    cj_lab_expect(r, "steps of 0.2: (1 + 0.04)^50", pow(1.04, 50), fast.radius, 1e-12);
    cj_lab_expect_at_least(r, "one after another: 1.1 / largest radius on the way", 1, 1.1 / turns.widest);
    cj_lab_expect(r, "consensus: radius after 100 steps, 0.90554^100", 4.906e-5, consensus.radius, 5e-9);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, &both, &turns, &consensus);
}

const cj_lab cj_lab_min_max_xy = {
    .name = "min-max-xy",
    .claim = "on x·y simultaneous gradient steps spiral outwards, alternating ones go round, consensus steps come to the saddle",
    .source = "Mescheder, Nowozin & Geiger 2017",
    .control = "extragradient steps in place of simultaneous ones",
    .run = run,
};
