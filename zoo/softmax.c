/* softmax: softmax (multinomial logistic) regression.
 *
 *     p(k | x) = exp(v_k) / sum_j exp(v_j),   v = W x + b
 *     min over W, b of  -sum_i log p(y_i | x_i) + l2/2 |W|²
 *
 * A convex problem, solved from all rows by L-BFGS (Liu & Nocedal 1989) as scikit-learn's LogisticRegression does, where l2 = 1/C.  Cox 1958; Nelder & Wedderburn 1972.
 */
#include "zoo/linear_model.h"

static const cj_setting settings[] = {
    { .key = "l2", .value = 1, .least = 0, .real = true, .help = "strength of the penalty: 1/C of scikit-learn" },
    { 0 },
};

static cj_tensor *objective(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    const problem *p = user;
    (void)c, (void)n;
    cj_tensor *nll = cj_cross_entropy(cj_linear_op(p->x, in[0], in[1]), p->y, .reduction = CJ_SUM);
    return cj_add(nll, half_squares(in[0], p->strength));
}

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const linear_model *l = cj_module_self(m);
    problem p = { .x = cj_cast(x, CJ_F64), .y = y, .strength = l->strength };
    return linear_model_solve(m, (cj_lbfgs), objective, &p, 500);
}

static const cj_module_type type = { "SoftmaxRegression", linear_model_forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    return linear_model_new(c, &type, d->inputs, d->outputs, cj_option(o, "l2"));
}

const cj_model cj_model_softmax = {
    .name = "softmax",
    .family = "linear",
    .summary = "softmax regression (Cox 1958)",
    .task = CJ_TASK_CLASSIFY,
    .data = "digits",
    .settings = settings,
    .recipe = linear_model_recipe,
    .build = build,
    .fit = fit,
};
