/* linear: linear regression by least squares.
 *
 *     min over W, b of  sum_i |y_i - W x_i - b|²,     W = (XᵀX)⁻¹ Xᵀ Y for centred X and Y
 *
 * Legendre 1805, Gauss 1809.  Solved through the singular values of X (cj_lstsq), never through XᵀX, whose condition is the square of X's; where columns depend on
 * each other the shortest solution is taken.
 */
#include "zoo/linear_model.h"

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    centred k = centre(x, y);
    return linear_model_set_centred(m, &k, cj_t(cj_lstsq(k.x, k.y)));
}

static const cj_module_type type = { "LinearRegression", linear_model_forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    (void)o;
    return linear_model_new(c, &type, d->inputs, d->outputs, 0);
}

const cj_model cj_model_linear = {
    .name = "linear",
    .family = "linear",
    .summary = "least squares (Legendre 1805, Gauss 1809)",
    .task = CJ_TASK_REGRESS,
    .data = "diabetes",
    .recipe = linear_model_recipe,
    .build = build,
    .fit = fit,
};
