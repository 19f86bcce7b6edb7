/* cajal/kernels.h: kernels and what is learned with them.
 *
 * x [n, d] holds an example in each row, f32 or f64. Kernel functions, feature maps and smoothing are written in operators and can be differentiated; the machines (perceptron,
 * logistic, support vectors) read a Gram matrix as numbers, so a captured step cannot call them.
 */
#ifndef CAJAL_KERNELS_H
#define CAJAL_KERNELS_H

#include <cajal/math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernel functions ----------------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_kernel_kind {
    CJ_KERNEL_LINEAR,      /* x·z */
    CJ_KERNEL_POLYNOMIAL,  /* (x·z + offset)^degree */
    CJ_KERNEL_GAUSSIAN,    /* exp(-|x - z|² / (2 width²)) */
    CJ_KERNEL_LAPLACE,     /* exp(-|x - z| / width) */
    CJ_KERNEL_BOX,         /* 1 where |x - z| <= width: for smoothing; it is not positive semidefinite */
    CJ_KERNEL_TANH,        /* tanh(scale·x·z + offset), scale 1/width: not positive semidefinite in general */
    CJ_KERNEL_SQUARED      /* -|x - z|²: not positive semidefinite */
} cj_kernel_kind;
typedef struct cj_kernel {
    cj_kernel_kind kind;
    double width;          /* 0: 1 */
    double offset;         /* 0: 1; CJ_ZERO: 0 */
    int degree;            /* 0: 2 */
} cj_kernel;
/* [n, m] of x [n, d] and z [m, d]. The Gram matrix of n examples is cj_gram(k, x, x): 8·n² bytes in f64; where the features are fewer than n, they are less. */
CJ_API cj_tensor *cj_gram(cj_kernel k, cj_tensor *x, cj_tensor *z);
/* The least eigenvalue of a symmetric matrix, divided by the largest |element| (1 where all are 0): below -1e-10 the kernel is not one. A set of points can also pass by chance. */
CJ_API double cj_mercer_defect(cj_tensor *gram);

/* ---- features ----------------------------------------------------------------------------------------------------------------------------------------- */

/* [n, C(d + q, q)] with phi(x)·phi(z) = (1 + x·z)^q: monomials of degree up to q times the roots of their multinomial coefficients; q from 1 to 20. */
CJ_API cj_tensor *cj_polynomial_features(cj_tensor *x, int degree);
typedef struct cj_fourier {
    cj_tensor *frequency;  /* [d, p], normal with deviation 1/width */
    cj_tensor *phase;      /* [p], uniform in [0, 2π); zeros without phases */
} cj_fourier;
/* phi(x) = sqrt(2/p) cos(x·frequency + phase): E phi(x)·phi(z) is the Gaussian kernel (Rahimi & Recht 2007); without the phases it is k(x - z) + k(x + z). */
CJ_API cj_fourier cj_fourier_draw(cj_ctx *c, int64_t d, int64_t p, double width, cj_dtype dtype);
CJ_API cj_tensor *cj_fourier_features(const cj_fourier *f, cj_tensor *x);  /* [n, p] */
/* Nyström: k(x, marks)·W^(-1/2), W the Gram matrix of the marks [m, d], its eigenvalues up to 1e-12 of the largest left out: [n, m]. */
CJ_API cj_tensor *cj_nystrom_features(cj_kernel k, cj_tensor *marks, cj_tensor *x);

/* ---- machines: gram [n, n], y [n] of -1 and 1; score(x) = sum_i alpha_i y_i k(x_i, x) + bias ----------------------------------------------------------------- */

typedef struct cj_kernel_machine {
    cj_tensor *alpha;      /* f64 [n] */
    double bias;
    int64_t updates;       /* mistakes, steps or pairs */
    bool converged;        /* perceptron: a pass without a mistake; support vectors: the conditions hold to the tolerance */
    double gap;            /* support vectors: primal minus dual */
} cj_kernel_machine;
/* [m]: scores for the rows of across [m, n] = cj_gram(k, x, examples). */
CJ_API cj_tensor *cj_kernel_scores(const cj_kernel_machine *m, cj_tensor *across, cj_tensor *y);
/* In order, pass after pass: where y_w sum_i alpha_i y_i G_iw <= 0, alpha_w += 1. At most `passes` (0: 1000). */
CJ_API cj_kernel_machine cj_kernel_perceptron(cj_tensor *gram, cj_tensor *y, int64_t passes);
/* The same without the matrix: n kernel values at each step. */
CJ_API cj_kernel_machine cj_kernel_perceptron_online(cj_kernel k, cj_tensor *x, cj_tensor *y, int64_t passes);
/* Logistic loss by stochastic gradients, example t mod n at step t: alpha_i += rate·sigmoid(-y_i f(x_i)). */
CJ_API cj_kernel_machine cj_kernel_logistic(cj_tensor *gram, cj_tensor *y, double rate, int64_t steps);
typedef struct cj_svm_opts {
    double c;              /* 1: the most that one example counts; lambda/2 |w|² + mean hinge has c = 1/(lambda n) */
    double tolerance;      /* 1e-6: of the optimality conditions */
    int64_t iterations;    /* 1000000 pairs */
} cj_svm_opts;
/* max sum alpha - 1/2 sum alpha_i alpha_j y_i y_j G_ij, 0 <= alpha <= c, sum alpha_i y_i = 0, by the pair that violates the conditions most (Platt 1998). */
CJ_API cj_kernel_machine cj_svm(cj_tensor *gram, cj_tensor *y, const cj_svm_opts *opts);
/* sum_i k(q, x_i) y_i / sum_i k(q, x_i): q [m, d], y [n] -> [m]. Gaussian and Laplace weights by a softmax, so that narrow widths find the nearest neighbour. */
CJ_API cj_tensor *cj_nadaraya_watson(cj_kernel k, cj_tensor *x, cj_tensor *y, cj_tensor *q);
CJ_API cj_tensor *cj_smoothing_weights(cj_kernel k, cj_tensor *x, cj_tensor *q);  /* [m, n], rows sum to 1 */

/* ---- strings, byte by byte ------------------------------------------------------------------------------------------------------------------------------------- */

CJ_API int64_t cj_spectrum_kernel(const char *a, const char *b, int k);  /* sum over strings of length k of how often they stand in a times in b; -1: k < 1 */
/* Gap-weighted subsequences of length k (Lodhi et al. 2002): every common subsequence counts decay^(its span in a + its span in b); O(k |a| |b|). NaN: k < 1 or no memory. */
CJ_API double cj_subsequence_kernel(const char *a, const char *b, int k, double decay);
CJ_API int64_t cj_edit_distance(const char *a, const char *b);           /* fewest insertions, deletions and substitutions; -1 without memory */

#ifdef __cplusplus
}
#endif
#endif
