/* lasso: linear regression with a penalty on the absolute weights, which makes most of them exactly zero.
 *
 *     min over W, b of  1/(2n) sum_i |y_i - W x_i - b|² + alpha |W|_1
 *
 * Tibshirani, "Regression shrinkage and selection via the lasso", 1996.  Solved by coordinate descent (Friedman, Hastie & Tibshirani 2010): with G = XᵀX/n and
 * r = Xᵀy/n of centred rows, one weight after the other goes to its own minimum while the others stay,
 *
 *     w_j = S(r_j - sum over k ≠ j of G_jk w_k, alpha) / G_jj,     S(z, a) = sign(z) max(|z| - a, 0)
 */
#include "zoo/linear_model.h"
#include <math.h>
#include <stdlib.h>

static const cj_setting settings[] = {
    { .key = "alpha", .value = 0.05, .least = 0, .real = true, .help = "strength of the penalty, as scikit-learn's Lasso counts it" },
    { 0 },
};

static double soft_threshold(double z, double a) { return z > a ? z - a : z < -a ? z + a : 0; }

/* One output: w[p] from G[p, p] and r[p], until a whole sweep moves no weight by more than 1e-12 of its size. */
static void descend(const double *G, const double *r, double *w, int64_t p, double alpha)
{
    double moved = 1;
    for (int sweep = 0; sweep < 100000 && moved > 1e-12; sweep++) {
        moved = 0;
        for (int64_t j = 0; j < p; j++) {
            if (G[j * p + j] <= 0) continue; /* a constant column */
            double z = r[j];
            for (int64_t k = 0; k < p; k++) z -= k == j ? 0 : G[j * p + k] * w[k];
            double fresh = soft_threshold(z, alpha) / G[j * p + j];
            moved = fmax(moved, fabs(fresh - w[j]) / (1 + fabs(fresh)));
            w[j] = fresh;
        }
    }
}

static bool fit(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const linear_model *l = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    int64_t n = cj_size(x, 0), p = cj_size(x, 1), outputs = cj_size(y, 1);
    centred k = centre(x, y);
    cj_tensor *gram = cj_mul_scalar(cj_matmul(cj_t(k.x), k.x), 1.0 / (double)n);
    cj_tensor *products = cj_mul_scalar(cj_matmul(cj_t(k.y), k.x), 1.0 / (double)n); /* [outputs, p] */
    double *G = calloc((size_t)(p * p), sizeof *G), *r = calloc((size_t)(outputs * p), sizeof *r),
           *w = calloc((size_t)(outputs * p), sizeof *w);
    bool ok = false;
    if (!G || !r || !w) cj_fail(c, CJ_EMEMORY, "lasso: no memory for %lld columns", (long long)p);
    else if (cj_to_f64(gram, G, p * p) && cj_to_f64(products, r, outputs * p)) {
        for (int64_t o = 0; o < outputs; o++) descend(G, r + o * p, w + o * p, p, l->strength);
        ok = linear_model_set_centred(m, &k, cj_from_f64(c, w, CJ_SHAPE(outputs, p)));
    }
    free(G);
    free(r);
    free(w);
    return ok;
}

static const cj_module_type type = { "Lasso", linear_model_forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    return linear_model_new(c, &type, d->inputs, d->outputs, cj_option(o, "alpha"));
}

const cj_model cj_model_lasso = {
    .name = "lasso",
    .family = "linear",
    .summary = "least squares with an absolute penalty (Tibshirani 1996)",
    .task = CJ_TASK_REGRESS,
    .data = "diabetes",
    .settings = settings,
    .recipe = linear_model_recipe,
    .build = build,
    .fit = fit,
};
