/* Shared by the files of probability: draws with tensors as parameters, and what a distribution is made of. */
#ifndef CJ_MATH_DIST_H
#define CJ_MATH_DIST_H

#include "cajal/math.h"
#include "math/math.h"
#include "ops/compose.h"

typedef enum cj_draw_kind {
    CJ_DRAW_GAMMA,
    CJ_DRAW_POISSON,
    CJ_DRAW_BINOMIAL, /* trials and probability */
    CJ_DRAW_VON_MISES,
    CJ_DRAW_CATEGORICAL, /* logits [.., K] -> i64 [..] */
    CJ_DRAW_MULTINOMIAL,
    CJ_DRAW_GUMBEL, /* standard noise from here on */
    CJ_DRAW_LOGISTIC,
    CJ_DRAW_LAPLACE
} cj_draw_kind;
cj_tensor *cj__draw(cj_draw_kind kind, cj_tensor *a, cj_tensor *b, int64_t count, cj_shape shape, cj_stream stream);
cj_tensor *cj__draw_noise(cj_ctx *c, cj_draw_kind kind, cj_shape shape, cj_dtype dtype, cj_stream stream);
/* e^x with the same bits at every level: of a number, and of a tensor (ordered.c). */
double cj__even_exp(double x);
cj_tensor *cj__ordered_exp(cj_tensor *x);
/* z [.., k] and matrices a [.., k, m], whose batch is the end of z's: [.., m], with sums in one order (ordered.c). */
cj_tensor *cj__ordered_product(cj_tensor *z, cj_tensor *a);

/* Kinds as a table: name, number of parameters, does an outcome fill the last axis. */
typedef struct cj_dist_row {
    const char *name;
    int params;
    bool vector;
} cj_dist_row;
extern const cj_dist_row cj__dists[];

/* The context of a distribution whose parameters are usable, or NULL; the error is set where there is a context. */
cj_ctx *cj__dist_ctx(const cj_dist *d, const char *what);
/* "no closed form": sets the error. */
cj_tensor *cj__dist_none(const cj_dist *d, const char *what);
/* The distribution without its outermost layer (exp, then affine), and a mixture's components. */
cj_dist cj__dist_inner(const cj_dist *d);
static inline cj_dist cj__dist_component(const cj_dist *d)
{
    cj_dist one = *d;
    one.weights = NULL;
    return one;
}
/* An axis for the components of a mixture: the last, or in front of an outcome's own. */
static inline cj_tensor *cj__dist_apart(const cj_dist *d, cj_tensor *x) { return cj_unsqueeze(x, cj__dists[d->kind].vector ? -2 : -1); }
/* A float tensor whose elements are finite (positive); else the error that names distribution, parameter, element and value, and NULL. */
cj_tensor *cj__dist_finite(cj_ctx *c, const char *dist, int i, const char *name, cj_tensor *t);
cj_tensor *cj__dist_positive(cj_ctx *c, const char *dist, int i, const char *name, cj_tensor *t);

/* Multivariate and low-rank normal (dist_gaussian.c). */
static inline bool cj__dist_is_gaussian(const cj_dist *d)
{
    return d->kind == CJ_DIST_MULTIVARIATE_NORMAL || d->kind == CJ_DIST_LOW_RANK_NORMAL;
}
cj_tensor *cj__gaussian_sample(const cj_dist *d, cj_shape shape, cj_shape batch, cj_stream stream);
cj_tensor *cj__gaussian_log_prob(const cj_dist *d, cj_tensor *x);
cj_tensor *cj__gaussian_variance(const cj_dist *d);
cj_tensor *cj__gaussian_entropy(const cj_dist *d);
cj_tensor *cj__gaussian_mgf(const cj_dist *d, cj_tensor *t);
cj_tensor *cj__gaussian_kl(const cj_dist *p, const cj_dist *q);

static inline cj_tensor *cj__last_sum(cj_tensor *x) { return cj_sum(x, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }); }
/* condition ? a : value */
static inline cj_tensor *cj__else(cj_tensor *condition, cj_tensor *a, double value)
{
    return cj_where(condition, a, cj__const_like(a, value));
}

#define CJ_EULER 0.57721566490153286061
#define CJ_LOG_2PI 1.83787706640934548356

#endif
