/* logistic: logistic regression, for two classes.
 *
 *     p(1 | x) = 1 / (1 + exp(-v)),   v = w·x + b
 *     min over w, b of  sum_i log(1 + exp(v_i)) - y_i v_i + l2/2 |w|²
 *
 * Solved by Newton's method, whose steps are weighted least squares, the directions found with conjugate gradients and products with the Hessian (truncated Newton,
 * Dembo & Steihaug 1983).  Cox, "The regression analysis of binary sequences", 1958.  The logits of the two classes are 0 and v: their softmax is p.
 */
#include "zoo/linear_model.h"

static const cj_setting settings[] = {
    { .key = "l2", .value = 1, .least = 0, .real = true, .help = "strength of the penalty: 1/C of scikit-learn" },
    { 0 },
};

static cj_tensor *forward(cj_module *m, void *self, cj_tensor *x)
{
    cj_tensor *v = linear_model_forward(m, self, x);
    return cj_cat((cj_tensor *[]){ cj_zeros_like(v), v }, 2, -1);
}

static cj_tensor *objective(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    const problem *p = user;
    (void)c, (void)n;
    cj_tensor *nll = cj_bce_with_logits(cj_linear_op(p->x, in[0], in[1]), p->y, .reduction = CJ_SUM);
    return cj_add(nll, half_squares(in[0], p->strength));
}

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const linear_model *l = cj_module_self(m);
    problem p = { .x = cj_cast(x, CJ_F64), .y = cj_unsqueeze(cj_cast(y, CJ_F64), 1), .strength = l->strength };
    return linear_model_solve(m, (cj_newton_cg), objective, &p, 100);
}

static const cj_module_type type = { "LogisticRegression", forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    if (d->outputs != 2) {
        cj_fail(c, CJ_EVALUE, "logistic: two classes expected, the data has %lld; softmax takes any number", (long long)d->outputs);
        return NULL;
    }
    return linear_model_new(c, &type, d->inputs, 1, cj_option(o, "l2"));
}

const cj_model cj_model_logistic = {
    .name = "logistic",
    .family = "linear",
    .summary = "logistic regression (Cox 1958)",
    .task = CJ_TASK_CLASSIFY,
    .data = "breast_cancer",
    .settings = settings,
    .recipe = linear_model_recipe,
    .build = build,
    .fit = fit,
};
