/* loss-surface: the loss around a trained network, with skips and without.
 *
 * Two random directions in the space of all weights, each row as long as the weight's own row (Li et al. 2018), span a plane through the trained parameters; the training
 * loss on a grid of that plane is a surface whose middle is the trained loss.  Around a deep plain network it is rugged, around its residual twin it is a bowl: fewer
 * local minima, more points where the curvature is not negative, fewer chords that run below the surface.
 */
#include "lab/lab.h"

#include <math.h>

enum { WIDTH = 16, BLOCKS = 30, GRID = 21, ROWS = 200, STEPS = 300, NETS = 3 };

typedef struct net {
    cj_module *m;
    cj_tensor *x, *y;
} net;

static cj_module *linear(cj_ctx *c, int64_t in, int64_t out, double variance)
{
    return cj_linear(c, in, out, .init_std = sqrt(variance / (double)in), .zero_bias = true);
}

static cj_module *deep(cj_ctx *c, bool skips)
{
    cj_module *part[BLOCKS + 4] = { linear(c, 64, WIDTH, 1) };
    for (int i = 0; i < BLOCKS; i++) {
        cj_module *body = cj_sequential(c, cj_relu_layer(c), linear(c, WIDTH, WIDTH, skips ? 2.0 / BLOCKS : 2));
        part[i + 1] = skips ? cj_residual_layer(c, body, NULL) : body;
    }
    part[BLOCKS + 1] = cj_relu_layer(c), part[BLOCKS + 2] = linear(c, WIDTH, 10, 1);
    return (cj_sequential)(c, part);
}

static double loss_here(void *user)
{
    const net *n = user;
    return cj_item(cj_cross_entropy(cj_forward(n->m, n->x), n->y));
}

/* Adam on all rows; returns the loss at the end. */
static double train(cj_ctx *c, net *n)
{
    cj_optim *adam = cj_adam(cj_module_params(n->m), .lr = 3e-3);
    for (int i = 0; i < STEPS && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(adam, cj_cross_entropy(cj_forward(n->m, n->x), n->y));
        cj_scope_close(s);
    }
    cj_optim_free(adam);
    cj_scope s = cj_scope_open(c);
    double loss = loss_here(n);
    cj_scope_close(s);
    return loss;
}

typedef struct findings {
    double trained, middle, convex, violated, minima; /* means over the nets */
    double surface[GRID * GRID];                      /* of the first */
} findings;

static void find(cj_ctx *c, const cj_dataset *d, bool skips, findings *f)
{
    cj_scope s = cj_scope_open(c);
    net n = { NULL, cj_slice(d->train_x, 0, 0, ROWS, 1), cj_slice(d->train_y, 0, 0, ROWS, 1) };
    for (int k = 0; k < NETS && cj_ok(c); k++) {
        double surface[GRID * GRID];
        n.m = deep(c, skips);
        f->trained += train(c, &n) / NETS;
        if (!cj_loss_surface(cj_module_params(n.m), loss_here, &n, GRID, 1, surface)) break;
        cj_surface_shape shape = cj_surface_convexity(surface, GRID);
        f->middle += surface[GRID * GRID / 2] / NETS;
        f->convex += shape.convex / NETS, f->violated += shape.violated / NETS, f->minima += (double)shape.minima / NETS;
        for (int i = 0; i < GRID * GRID && !k; i++) f->surface[i] = surface[i];
    }
    cj_scope_close(s);
}

static void draw(cj_ctx *c, cj_lab_record *r, const findings *f, const char *title, const char *name)
{
    double level[12], height[GRID * GRID];
    for (int i = 0; i < 12; i++) level[i] = log10(0.02) + 0.3 * i;
    for (int i = 0; i < GRID * GRID; i++) height[i] = log10(fmax(f->surface[i], 1e-3));
    cj_plot *p = cj_plot_new(c, title);
    cj_plot_size(p, 720, 640);
    cj_plot_labels(p, "along the first direction, in lengths of the rows", "along the second");
    cj_plot_field(p, height, GRID, GRID, -1, 1, -1, 1);
    cj_plot_contours(p, "log10 of the loss", height, GRID, GRID, -1, 1, -1, 1, level, 12);
    cj_lab_picture(r, c, p, name);
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static findings plain, skips;
    plain = skips = (findings){ 0 };
    cj_dataset *d = cj_dataset_open(c, "digits");
    if (!d) return;
    find(c, d, false, &plain);
    find(c, d, !control, &skips);
    cj_dataset_free(d);
    if (!cj_ok(c)) return;
    const findings *both[] = { &plain, &skips };
    for (int i = 0; i < 2; i++)
        cj_lab_say(r, "%-12s trained to %.3f; %4.1f %% of the points convex, %4.1f %% of the chords violated, %.1f local minima",
                   i ? "with skips" : "plain", both[i]->trained, 100 * both[i]->convex, 100 * both[i]->violated, both[i]->minima);
    cj_lab_expect(r, "plain: middle of the surface less the trained loss", 0, plain.middle - plain.trained, 1e-6);
    cj_lab_expect(r, "with skips: middle of the surface less the trained loss", 0, skips.middle - skips.trained, 1e-6);
    cj_lab_expect_at_least(r, "share of convex points, with skips less plain", 0.1, skips.convex - plain.convex);
    cj_lab_expect_at_least(r, "share of violated chords, plain over with skips", 1.5, plain.violated / skips.violated);
    cj_lab_expect_at_least(r, "local minima, plain less with skips", 0.5, plain.minima - skips.minima);
    if (control || !cj_lab_wants_pictures(r)) return;
    draw(c, r, &plain, "30 plain layers: training loss around the trained weights", "loss-surface-plain");
    draw(c, r, &skips, "30 residual layers: training loss around the trained weights", "loss-surface");
}

const cj_lab cj_lab_loss_surface = {
    .name = "loss-surface",
    .claim = "around a deep network with skips the training loss is a bowl; without them it is rugged",
    .source = "Li, Xu, Taylor, Studer & Goldstein 2018",
    .control = "the network with skips has none",
    .run = run,
};
