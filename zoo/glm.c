/* glm: generalised linear models with the canonical link.
 *
 *     v = W x + b,   p(y; v) = h(y) exp(y·v - psi(v)),   E[y | x] = psi'(v)
 *     min over W, b of  1/n sum_i (psi(v_i) - y_i·v_i) + alpha/2 |W|²
 *
 * gaussian: psi = v²/2, mean v (least squares); bernoulli: log(1 + e^v), mean sigmoid(v); poisson: e^v, mean e^v, for counts.  Nelder & Wedderburn, "Generalized linear
 * models", 1972.  The problem is convex for every family; Newton's method on it is their iteratively reweighted least squares.  Predictions are means.
 */
#include "zoo/linear_model.h"

static const cj_setting settings[] = {
    { .key = "family", .value = 0, .choices = "gaussian bernoulli poisson", .help = "distribution of y given x" },
    { .key = "alpha",
      .value = 0.001,
      .least = 0,
      .real = true,
      .help = "strength of the penalty, as scikit-learn's PoissonRegressor counts it" },
    { 0 },
};
static const cj_family families[] = { CJ_FAMILY_GAUSSIAN, CJ_FAMILY_BERNOULLI, CJ_FAMILY_POISSON };

static cj_family family_of(cj_module *m) { return families[((const linear_model *)cj_module_self(m))->family]; }

static cj_tensor *forward(cj_module *m, void *self, cj_tensor *x)
{
    return cj_exponential_family_mean(linear_model_forward(m, self, x), family_of(m));
}

/* psi(v) - y·v: the negative log-likelihood but for log h(y), which no parameter changes. */
static cj_tensor *loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    return cj_exponential_family_nll(linear_model_forward(m, cj_module_self(m), x), y, family_of(m));
}

static cj_tensor *objective(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    const problem *p = user;
    (void)c, (void)n;
    return cj_add(cj_exponential_family_nll(cj_linear_op(p->x, in[0], in[1]), p->y, families[p->family]), half_squares(in[0], p->strength));
}

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const linear_model *l = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    double least = cj_item(cj_min(y)), most = cj_item(cj_max(y));
    cj_family family = family_of(m);
    if ((family != CJ_FAMILY_GAUSSIAN && least < 0) || (family == CJ_FAMILY_BERNOULLI && most > 1)) {
        cj_fail(c, CJ_EVALUE, "glm: the %s family has y from 0%s, the data has %g to %g",
                family == CJ_FAMILY_POISSON ? "poisson" : "bernoulli", family == CJ_FAMILY_POISSON ? "" : " to 1", least, most);
        return false;
    }
    problem p = { .x = cj_cast(x, CJ_F64), .y = cj_cast(y, CJ_F64), .strength = l->strength, .family = l->family };
    return linear_model_solve(m, (cj_newton_cg), objective, &p, 100);
}

static const cj_module_type type = { "GeneralisedLinearModel", forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    cj_module *m = linear_model_new(c, &type, d->inputs, d->outputs, cj_option(o, "alpha"));
    if (m) ((linear_model *)cj_module_self(m))->family = (int)cj_option(o, "family");
    return m;
}

const cj_model cj_model_glm = {
    .name = "glm",
    .family = "linear",
    .summary = "generalised linear models: gaussian, bernoulli, poisson (Nelder & Wedderburn 1972)",
    .task = CJ_TASK_REGRESS,
    .data = "diabetes",
    .settings = settings,
    .recipe = linear_model_recipe,
    .build = build,
    .loss = loss,
    .fit = fit,
};
