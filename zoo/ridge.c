/* ridge: linear regression with a penalty on the squares of the weights.
 *
 *     min over W, b of  sum_i |y_i - W x_i - b|² + alpha |W|²,     (XᵀX + alpha I) Wᵀ = Xᵀ Y for centred X and Y
 *
 * Hoerl & Kennard, "Ridge regression: biased estimation for nonorthogonal problems", 1970.  The matrix is positive for alpha > 0, however many columns there are.
 */
#include "zoo/linear_model.h"

static const cj_setting settings[] = {
    { .key = "alpha", .value = 1, .least = 0, .real = true, .help = "strength of the penalty, as scikit-learn's Ridge counts it" },
    { 0 },
};

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const linear_model *l = cj_module_self(m);
    centred k = centre(x, y);
    cj_tensor *xt = cj_t(k.x);
    cj_tensor *a = cj_add(cj_matmul(xt, k.x), cj_mul_scalar(cj_eye(cj_module_ctx(m), cj_size(x, 1), CJ_F64), l->strength));
    return linear_model_set_centred(m, &k, cj_t(cj_solve(a, cj_matmul(xt, k.y))));
}

static const cj_module_type type = { "Ridge", linear_model_forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    return linear_model_new(c, &type, d->inputs, d->outputs, cj_option(o, "alpha"));
}

const cj_model cj_model_ridge = {
    .name = "ridge",
    .family = "linear",
    .summary = "least squares with a quadratic penalty (Hoerl & Kennard 1970)",
    .task = CJ_TASK_REGRESS,
    .data = "diabetes",
    .settings = settings,
    .recipe = linear_model_recipe,
    .build = build,
    .fit = fit,
};
