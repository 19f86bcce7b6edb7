/* cajal/study.h: what kind of function this is: linear regions of ReLU networks, smoothness and strong convexity, rates of convergence, landscapes.
 *
 * All of these read values, so a captured step cannot call them; after an error numbers are NaN and counts -1.
 */
#ifndef CAJAL_STUDY_H
#define CAJAL_STUDY_H

#include <cajal/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear regions of networks of linear layers with a ReLU between each two: parameters weight, bias, weight, bias, … as cj_module_params lists them ---- */

/* A piece of an output along the line from + t (to - from): value + slope (t - start) for t from start to end. */
typedef struct cj_piece {
    double start, end;
    double value, slope;
} cj_piece;
/* The exact pieces of output `output` for t in [0, 1], neighbours of the same slope counted as one; from and to are [inputs]. Every layer's joints are solved for, none is
 * sampled. Returns their number, of which at most `room` are written. */
CJ_API int64_t cj_relu_pieces(const cj_params *p, cj_tensor *from, cj_tensor *to, int64_t output, cj_piece *out, int64_t room);
/* i64 [n]: rows of x [n, inputs] with the same hidden units active have the same number, counted in the order in which patterns are met. */
CJ_API cj_tensor *cj_relu_regions(const cj_params *p, cj_tensor *x);
/* Regions into which the hyperplanes weight_i·x + bias_i = 0 cut space: exact, by restriction (Zaslavsky 1975); weight [m, n], bias [m]. The work grows as m^n. */
CJ_API int64_t cj_hyperplane_regions(cj_tensor *weight, cj_tensor *bias);
/* The most that m hyperplanes make in n dimensions: sum_{i <= min(m, n)} C(m, i). */
CJ_API double cj_zaslavsky_bound(int64_t m, int64_t n);
/* Regions that some network of these hidden widths has (Montúfar et al. 2014): prod_{i < layers} floor(width_i / inputs)^inputs · sum_{j <= inputs} C(last width, j).
 * NaN for a width below `inputs`. */
CJ_API double cj_montufar_bound(int64_t inputs, const int64_t *width, int layers);
/* What a line through a network of K layers of D units can have, and the network's parameters, for one input and one output: (D + 1)^K and 3D + 1 + (K - 1) D (D + 1). */
CJ_API double cj_deep_region_bound(int64_t width, int64_t layers);
CJ_API int64_t cj_deep_parameter_count(int64_t width, int64_t layers);

/* The largest jump of fn(x) on the segment from a to b: of `steps` (0: 200) equal parts the one with the largest change, halved on and on towards the half that changes more. Rounding
 * error for a continuous function, the height of the step for one that jumps. */
CJ_API double cj_continuity_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *a, cj_tensor *b, int64_t steps);

/* ---- convex, smooth, strongly convex: a scalar function of one tensor (cj_check_convex of math.h looks for a violated chord) ------------------------------- */

/* Two points, and everything that the first-order conditions compare. With m-strong convexity and L-smoothness:
 *   divergence >= 0;   m/2 distance² <= divergence <= L/2 distance²;   monotone >= m distance²;   monotone >= change²/L
 *   monotone >= mL/(m+L) distance² + change²/(m+L). */
typedef struct cj_two_points {
    double value_u, value_v;
    double divergence;     /* fn(v) - fn(u) - <g(u), v - u> (Bregman) */
    double monotone;       /* <g(v) - g(u), v - u> */
    double distance2, change2;  /* |v - u|², |g(v) - g(u)|² */
    double gradient2;      /* |g(u)|² */
} cj_two_points;
CJ_API cj_two_points cj_compare_points(cj_ctx *c, cj_fn fn, void *user, cj_tensor *u, cj_tensor *v);

typedef struct cj_curvature {
    double smallest, largest;  /* eigenvalues of the Hessian: m and L of a quadratic */
    double condition;          /* largest / smallest */
} cj_curvature;
/* Lanczos on Hessian-vector products with `steps` steps (0: as many as x has elements, up to 200) from a random start. */
CJ_API cj_curvature cj_hessian_extremes(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int64_t steps);

/* How gaps l_t - l* > 0 go to 0: ratio of neighbours towards 1, between 0 and 1, towards 0. By the mean log ratios of the last two quarters; what follows a gap that is not positive
 * is left out. Fewer than 4 gaps: CJ_RATE_UNKNOWN. */
typedef enum cj_rate_class { CJ_RATE_UNKNOWN, CJ_RATE_SUBLINEAR, CJ_RATE_LINEAR, CJ_RATE_SUPERLINEAR } cj_rate_class;
CJ_API cj_rate_class cj_convergence_class(const double *gap, int64_t n);

/* ---- landscapes --------------------------------------------------------------------------------------------------------------------------------------------------- */

/* NONE: the gradient is not 0. SADDLE: the Hessian has eigenvalues of both signs. DEGENERATE: some are 0 and the others of one sign, so that it does not decide. */
typedef enum cj_critical_kind { CJ_CRITICAL_NONE, CJ_CRITICAL_MINIMUM, CJ_CRITICAL_SADDLE, CJ_CRITICAL_MAXIMUM, CJ_CRITICAL_DEGENERATE } cj_critical_kind;
typedef struct cj_critical {
    cj_critical_kind kind;
    int64_t index, flat;       /* negative eigenvalues, and eigenvalues that count as 0 */
    double smallest, largest;  /* eigenvalues */
    double gradient;           /* its length */
    bool converged;            /* cj_critical_point: the gradient is within the tolerance */
} cj_critical;
/* The kind of x taken as a critical point; |eigenvalue| <= flat · max(1, largest |eigenvalue|) counts as 0 (flat 0: 1e-8). The whole Hessian is made: for a few hundred numbers. */
CJ_API cj_critical cj_classify_point(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, double flat);
typedef struct cj_critical_opts {
    int64_t iterations;  /* 200 */
    double tolerance;    /* 1e-9, of the length of the gradient */
    double flat;         /* as above */
} cj_critical_opts;
/* Moves x (kept) to a critical point near it, minimum or not, by Newton's method with steps that shorten the gradient, and says what it is. Give x in f64. */
CJ_API cj_critical cj_critical_point(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_critical_opts *opts);

typedef struct cj_surface_opts {
    bool plain;          /* normal directions as they are; else normalised by filters: each row as long as the parameter's, none for vectors (Li et al. 2018) */
} cj_surface_opts;
/* out[i·n + j] = loss(p + a_i d + b_j e) for two random directions d and e and a, b equally spaced in [-reach, reach]; loss is called without gradients while the parameters hold
 * those values, and they are what they were, to the bit, afterwards. With n odd the middle is the loss as it is. */
CJ_API bool cj_loss_surface(cj_params *p, double (*loss)(void *user), void *user, int64_t n, double reach, double *out, const cj_surface_opts *opts);
typedef struct cj_surface_shape {
    double convex;       /* share of inner points whose Hessian of finite differences has no negative eigenvalue */
    double violated;     /* share of chords (along rows, columns, diagonals) below their middle */
    int64_t minima;      /* inner points below all 8 neighbours */
} cj_surface_shape;
CJ_API cj_surface_shape cj_surface_convexity(const double *value, int64_t n);  /* of values [n, n]; n at least 3 */

/* ---- constructions that approximate ----------------------------------------------------------------------------------------------------------------------------- */

/* sigmoid(k (x - a)) - sigmoid(k (x - b)): 1 on (a, b), 0 elsewhere, as k grows; the area between it and that step is 4 log 2 / k. */
CJ_API cj_tensor *cj_bump(cj_tensor *x, double a, double b, double k);
/* sigmoid(k2 (sum_j bump(x_j; low_j, high_j, k1) - (d - 1/2))): 1 in the box, 0 outside; x [n, d] -> [n]. */
CJ_API cj_tensor *cj_tower(cj_tensor *x, const double *low, const double *high, double k1, double k2);
/* The piecewise-linear function through n ascending knots as one hidden layer: value(x) = offset + slope·x + sum_{0 < i < n-1} jump_i relu(x - x_i); jump has room for n, the first and
 * the last are 0. The same function is o + s·x + sum jump_i/2 |x - x_i| with slope and offset of the second form. False: fewer than 2 knots, or not ascending. */
typedef struct cj_relu_form {
    double offset, slope;          /* with relu(x - x_i) */
    double abs_offset, abs_slope;  /* with |x - x_i| / 2 */
} cj_relu_form;
CJ_API bool cj_relu_interpolant(const double *x, const double *y, int64_t n, cj_relu_form *out, double *jump);
/* sum_k y_k C(n, k) t^k (1 - t)^(n - k), y_k = f(k/n) for k = 0 … n: Bernstein's polynomial, for t in [0, 1]. By de Casteljau's scheme on a copy in `work` [n + 1]. */
CJ_API double cj_bernstein(const double *y, int64_t n, double t, double *work);

#ifdef __cplusplus
}
#endif
#endif
