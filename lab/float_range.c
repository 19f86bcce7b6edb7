/* float-range: products of many numbers leave the range of a 32-bit float; sums of their logarithms do not.
 *
 *     y = w_50 · w_49 ··· w_1 · x (matrices),   dy/dx is their product:   scale 0.1 per layer gives 1e-50 -> 0,   10 gives 1e50 -> inf,   1 stays
 *     prod p_i of 1000 likelihoods p = 0.5 is 2^-1000 -> 0,   sum log p_i = -1000 log 2 = -693.147
 *
 * The smallest positive f32 is 1.4e-45, the largest 3.4e38.  Layers of the right scale keep the gradient's length.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 50, WIDTH = 8 };

/* The length of d(sum y)/dh for the input and every layer's value h. */
static double gradient_length(cj_ctx *c, double scale, double length[LAYERS + 1])
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *layer = cj_full(c, scale / WIDTH, CJ_SHAPE(WIDTH, WIDTH), CJ_F32); /* its largest eigenvalue is scale */
    cj_tensor *h[LAYERS + 1], *g[LAYERS + 1];
    h[0] = cj_require_grad(cj_ones(c, CJ_SHAPE(1, WIDTH), CJ_F32));
    for (int l = 0; l < LAYERS; l++) h[l + 1] = cj_matmul(h[l], layer);
    cj_grad(h[LAYERS], h, LAYERS + 1, g, .seed = cj_ones(c, CJ_SHAPE(1, WIDTH), CJ_F32)); /* for every layer's value, in one sweep */
    for (int l = 0; l <= LAYERS && cj_ok(c); l++) length[l] = sqrt(cj_item(cj_sum(cj_square(cj_cast(g[l], CJ_F64)))));
    cj_scope_close(s);
    return length[0];
}

static void draw(cj_ctx *c, cj_lab_record *r, double length[3][LAYERS + 1])
{
    cj_plot *p = cj_plot_new(c, "A gradient on its way down 50 layers, in 32-bit floats");
    cj_plot_labels(p, "layers below the output", "length of the gradient");
    cj_plot_log(p, false, true);
    static const char *const label[3] = { "scale 0.1: exactly 0 in the end", "scale 1", "scale 10: infinite in the end" };
    for (int k = 0; k < 3; k++) {
        double y[LAYERS + 1];
        for (int l = 0; l <= LAYERS; l++) y[l] = length[k][LAYERS - l];
        cj_plot_line(p, label[k], NULL, y, LAYERS + 1);
    }
    cj_lab_picture(r, c, p, "float-range");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static const double scale[3] = { 0.1, 1, 10 };
    double length[3][LAYERS + 1];
    for (int k = 0; k < 3; k++) gradient_length(c, control ? sqrt(scale[k]) : scale[k], length[k]);
    if (!cj_ok(c)) return;
    cj_lab_expect(r, "50 layers of scale 0.1: length of the gradient", 0, length[0][0], 0);
    cj_lab_expect(r, "50 layers of scale 1: length of the gradient", sqrt(WIDTH), length[1][0], 1e-6);
    cj_lab_expect(r, "50 layers of scale 10: the gradient is infinite", 1, isinf(length[2][0]), 0);

    cj_scope s = cj_scope_open(c);
    cj_tensor *p = cj_full(c, 0.5, CJ_SHAPE(control ? 100 : 1000), CJ_F32);
    double product = cj_item(cj_prod(p)), sum = cj_item(cj_sum(cj_log(p)));
    cj_scope_close(s);
    cj_lab_expect(r, "product of 1000 likelihoods 0.5", 0, product, 0);
    cj_lab_expect(r, "sum of their logarithms", -693.14718, sum, 0.01);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, length);
}

const cj_lab cj_lab_float_range = {
    .name = "float-range",
    .claim = "through 50 layers a gradient becomes exactly 0 or infinite in 32-bit floats unless the layers keep its scale; logarithms "
             "keep products in range",
    .source = "Hochreiter 1991; IEEE 754",
    .control = "the square roots of the scales, and 100 likelihoods: nothing leaves the range",
    .run = run,
};
