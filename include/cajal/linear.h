/* cajal/linear.h: linear models by their closed forms and by classical solvers.
 *
 * x [n, d] holds an example in each row, f32 or f64; y has n targets. All models have a bias unless no_bias says otherwise; penalties leave it alone. Least squares, ridge and
 * Bayesian regression are written in operators and can be differentiated; the others read values, so a captured step cannot call them. After an error the tensors
 * of a result are poison. For training by gradients use cj_linear (nn.h) with an optimiser.
 */
#ifndef CAJAL_LINEAR_H
#define CAJAL_LINEAR_H

#include <cajal/math.h>
#include <cajal/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- squared error ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cj_fit {
    cj_tensor *weight;    /* [d], or [d, k] where y is [n, k]: prediction x·weight + bias */
    cj_tensor *bias;      /* 0-d or [k]; 0 where there is none */
    cj_tensor *variance;  /* mean squared residual, 0-d or [k]: the likeliest variance of Gaussian noise. NULL of models that are not least squares */
    int64_t rank;         /* of x (centred where there is a bias): below d the weights are not unique, and these are the shortest */
    int64_t iterations;   /* of iterative solvers */
    bool converged;
} cj_fit;
typedef struct cj_fit_opts {
    bool no_bias;
} cj_fit_opts;
/* min 1/2 |y - x·w - b|²: y [n] or [n, k]. Of many solutions the one with the shortest w. Above 16384 examples by the normal
 * equations, whose rounding error is that of the square of x's condition number. */
CJ_API cj_fit cj_least_squares(cj_tensor *x, cj_tensor *y, const cj_fit_opts *opts);
/* min 1/2 |y - x·w - b|² + alpha/2 |w|²: w = (xᵀx + alpha)⁻¹ xᵀy of centred x and y; alpha > 0. */
CJ_API cj_fit cj_ridge(cj_tensor *x, cj_tensor *y, double alpha, const cj_fit_opts *opts);
CJ_API cj_tensor *cj_fit_predict(const cj_fit *f, cj_tensor *x);                       /* x·weight + bias: [n] or [n, k] */

typedef struct cj_lasso_opts {
    bool no_bias;
    bool proximal;        /* FISTA instead of coordinate descent */
    int64_t iterations;   /* 10000 passes */
    double tolerance;     /* 1e-12: the largest change of a weight in a pass */
} cj_lasso_opts;
/* min 1/(2n) |y - x·w - b|² + lambda |w|_1, y [n]: w_j = soft(x_j·(r + x_j w_j) / n, lambda) / (|x_j|² / n), coordinate by coordinate. */
CJ_API cj_fit cj_lasso(cj_tensor *x, cj_tensor *y, double lambda, const cj_lasso_opts *opts);

/* Which inputs a linear model needs: in order[0 … count) the column freed (forward) or kept (backward: the columns in the order in which they would be removed last). */
typedef struct cj_selection {
    int64_t count;
    int64_t *order;       /* [d], the caller's: first `count` are chosen */
    double *residual;     /* [d + 1], the caller's, may be NULL: mean squared residual with 0, 1, …, d inputs along the path */
} cj_selection;
/* Forward: again and again the column whose inclusion, with all others refitted, lowers the residual most. Backward: from all columns, the one whose removal raises it least.
 * Both go on until `count` columns are in. */
CJ_API bool cj_forward_selection(cj_tensor *x, cj_tensor *y, cj_selection *s);
CJ_API bool cj_backward_selection(cj_tensor *x, cj_tensor *y, cj_selection *s);
/* [d]: how much the mean squared residual rises without column j, the others refitted; for independent columns w_j² var(x_j). */
CJ_API cj_tensor *cj_variable_importance(cj_tensor *x, cj_tensor *y);

/* Bayesian regression without bias: prior w ~ N(0, 1/alpha), noise N(0, variance), y [n]. */
typedef struct cj_posterior {
    cj_tensor *mean, *covariance;  /* [d], [d, d]: S⁻¹ = alpha + xᵀx / variance, m = S xᵀy / variance */
    double variance;
} cj_posterior;
CJ_API cj_posterior cj_bayes_linear(cj_tensor *x, cj_tensor *y, double alpha, double variance);
CJ_API cj_posterior cj_bayes_update(cj_posterior prior, cj_tensor *x, cj_tensor *y);       /* after further examples */
typedef struct cj_prediction {
    cj_tensor *mean, *variance;    /* [n]: x·m, variance + xᵀS x */
} cj_prediction;
CJ_API cj_prediction cj_bayes_predict(cj_posterior p, cj_tensor *x);
CJ_API cj_tensor *cj_bayes_evidence(cj_tensor *x, cj_tensor *y, double alpha, double variance);  /* 0-d: log N(y; 0, variance + x xᵀ / alpha) */

/* ---- other losses, as linear programs: y [n] --------------------------------------------------------------------------------------------------------------- */

/* min sum_i max(tau r_i, (tau - 1) r_i), r = y - x·w - b: a share tau of the targets lies below. tau in (0, 1); 0.5 is least absolute deviations. */
CJ_API cj_fit cj_quantile_regression(cj_tensor *x, cj_tensor *y, double tau, const cj_fit_opts *opts);
/* min max_i |r_i| (Chebyshev). */
CJ_API cj_fit cj_minimax_regression(cj_tensor *x, cj_tensor *y, const cj_fit_opts *opts);
/* The w of least |w|_1 with a·w = b (basis pursuit): a [m, d], b [m]. An error where there is none. */
CJ_API cj_tensor *cj_basis_pursuit(cj_tensor *a, cj_tensor *b);

/* ---- generalised linear models: E y = mean(z), z = x·w + b; canonical links, so that d loss / d z = mean(z) - y ------------------------------------------------ */

typedef enum cj_glm_family {
    CJ_GLM_GAUSSIAN,     /* mean z */
    CJ_GLM_BERNOULLI,    /* y in [0, 1], sigmoid(z): logistic regression */
    CJ_GLM_POISSON,      /* y >= 0, e^z */
    CJ_GLM_EXPONENTIAL   /* y >= 0, -1/z, z < 0 */
} cj_glm_family;
typedef struct cj_glm_opts {
    bool no_bias;
    double ridge;         /* alpha/2 |w|² added to the sum of losses */
    int64_t iterations;   /* 100 */
    double tolerance;     /* 1e-10: of the largest element of the gradient, divided by n */
} cj_glm_opts;
CJ_API cj_tensor *cj_glm_mean(cj_glm_family family, cj_tensor *z);
/* Minus log likelihood of each y without terms of y alone: z²/2 - y z, log(1 + e^z) - y z, e^z - y z, -log(-z) - y z. */
CJ_API cj_tensor *cj_glm_loss(cj_glm_family family, cj_tensor *z, cj_tensor *y);
/* Newton's method, which for canonical links is iteratively reweighted least squares; steps are halved while the loss rises. Separable data without ridge have no optimum: then
 * converged is false. */
CJ_API cj_fit cj_glm(cj_glm_family family, cj_tensor *x, cj_tensor *y, const cj_glm_opts *opts);
CJ_API cj_fit cj_logistic_regression(cj_tensor *x, cj_tensor *y, const cj_glm_opts *opts);  /* y of 0 and 1: the Bernoulli family */
/* k classes, y i64 [n]: weight [d, k], bias [k], logits x·weight + bias; Newton's method. Adding a vector to all columns changes nothing: the weights returned sum to 0 over
 * the classes. */
CJ_API cj_fit cj_softmax_regression(cj_tensor *x, cj_tensor *y, int64_t classes, const cj_glm_opts *opts);
/* Many classes from models of two: one against the rest (the highest logit wins) or every pair (most votes win). Predictions i64 [n] of x from logistic models of
 * (train_x, train_y). fits counts the models; may be NULL. */
CJ_API cj_tensor *cj_one_vs_rest(cj_tensor *train_x, cj_tensor *train_y, int64_t classes, cj_tensor *x, int64_t *fits, const cj_glm_opts *opts);
CJ_API cj_tensor *cj_one_vs_one(cj_tensor *train_x, cj_tensor *train_y, int64_t classes, cj_tensor *x, int64_t *fits, const cj_glm_opts *opts);

/* ---- separators: y [n] of -1 and 1 ----------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_perceptron_opts {
    bool random;          /* examples drawn uniformly from CJ_STREAM_DATA; else in order, pass after pass */
    int64_t updates;      /* at most; 100000 */
    int64_t passes;       /* at most; 0: no limit. 1: online, every example is seen once */
    /* sees every update: the weights before it and the example; may be NULL */
    void (*visit)(void *seen, int64_t update, const double *w, int64_t example);
    void *seen;
} cj_perceptron_opts;
typedef struct cj_separator {
    cj_tensor *weight;    /* f64 [d]: sign(x·weight + bias) */
    double bias;          /* perceptron: 0; append a column of ones for one */
    cj_tensor *alpha;     /* f64 [n]: weight = sum_i alpha_i y_i x_i; perceptron: mistakes made on each example */
    double margin;        /* least y_i (x_i·weight + bias) / |weight| */
    int64_t updates;
    bool separated;       /* every example is on its side */
} cj_separator;
/* Rosenblatt's rule from 0: where y_i x_i·w <= 0, w += y_i x_i; ends when a pass has no mistake. Of separable data with |x| <= R and margin rho it makes at most
 * R²/rho² updates (Novikov 1962). */
CJ_API cj_separator cj_perceptron(cj_tensor *x, cj_tensor *y, const cj_perceptron_opts *opts);
typedef struct cj_hard_margin_opts {
    double tolerance;     /* 1e-10: of the optimality conditions */
    int64_t iterations;   /* 1000000 pairs */
} cj_hard_margin_opts;
/* The separator of largest margin: min 1/2 |w|², y_i (x_i·w + b) >= 1; pairs of multipliers at a time (Platt 1998). margin is 1/|w|. Data that cannot be separated: separated is
 * false. */
CJ_API cj_separator cj_hard_margin(cj_tensor *x, cj_tensor *y, const cj_hard_margin_opts *opts);
/* Is there a w with y_i x_i·w > 0 for all i (by a linear program)? With bias: y_i (x_i·w + b). */
CJ_API bool cj_separable(cj_tensor *x, cj_tensor *y, bool bias);
/* Cover (1965): dichotomies of s points in general position in R^n by homogeneous linear functions, 2 sum_{i<n} C(s - 1, i). */
CJ_API double cj_cover_count(int64_t s, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
