/* Batch and group normalisation: the arguments of the kernels of normalise.c and normalise_columns.c. */
#ifndef CJ_KERNELS_CPU_NORMALISE_H
#define CJ_KERNELS_CPU_NORMALISE_H

#include "cajal/core.h"
#include "core/parallel.h"
#include "kernels/cpu/isa.h"

/* x, y, dy and dx are contiguous [outer, channels, inner] of dtype t; a set is what shares a mean and a variance.  Statistics and parameters are f64 for every t:
 * there are few of them, and a mean of 1e4 rounded to f32 would already be wrong by 5e-4. */
typedef struct cj_normalise_job {
    cj_dtype t;
    int64_t outer, channels, inner;
    int64_t groups; /* 0: a set is one channel of all examples; else one group of channels of one example */
    bool relu;      /* y = max(normalised, 0) */
    bool given;     /* the statistics are given, and constants for the derivative */
    double eps;
    const void *x, *dy;
    const double *weight, *bias; /* [channels], or NULL */
    double *mean, *var;          /* of each set, the variance biased: results of the forward pass unless given */
    void *y;                     /* y, or dx */
    double *dweight, *dbias;     /* [channels]: results of the backward pass */
    double *scratch;             /* cj_normalise_scratch_fn elements */
} cj_normalise_job;

typedef void cj_normalise_fn(cj_pool *pool, const cj_normalise_job *j);
typedef size_t cj_normalise_scratch_fn(const cj_normalise_job *j, bool backward);

/* normalise_columns.c: channels last (inner == 1, no groups). */
cj_normalise_fn CJ_K(cj__normalise_columns), CJ_K(cj__normalise_columns_bwd);
cj_normalise_scratch_fn CJ_K(cj__normalise_columns_scratch);

/* ---- what both files compute per set and per channel ------------------------------------------------------------------------------- */

/* y = (x - high)·scale + shift: the mean's leading part is subtracted before the multiplication, which keeps the digits of small deviations from a large mean, and the
 * rest, `low`, is in the shift. */
typedef struct cj_affine {
    double high, low, rstd, scale, shift;
} cj_affine;

/* dx = g·dy_masked + d·(x - high) + one */
typedef struct cj_slope {
    double g, d, one;
} cj_slope;

/* Mean and sum of squared deviations of n values, merged part by part (Chan, Golub & LeVeque 1979). */
typedef struct cj_moments {
    double n, mean, m2;
} cj_moments;

/* Adds n values of which sum (x - pilot) and sum (x - pilot)² are known. */
static inline void cj__moments_add(cj_moments *t, double n, double pilot, double sum, double square)
{
    const double mean = pilot + sum / n, m2 = square - sum * sum / n, delta = mean - t->mean, total = t->n + n;
    t->m2 += (m2 > 0 || m2 != m2 ? m2 : 0) + delta * delta * (t->n * n / total);
    t->mean += delta * (n / total);
    t->n = total;
}

#endif
