/* cajal/math.h: mathematics on tensors: special functions, Fourier transforms, linear algebra.
 *
 * All of it is differentiable to any order unless said otherwise.  f32 and f64.  Complex numbers are a trailing dimension of 2 (real, imaginary): a complex vector of
 * length n is a tensor [n, 2], and axes are counted without the pairs, so -1 is the axis before them.
 */
#ifndef CAJAL_MATH_H
#define CAJAL_MATH_H

#include <cajal/grad.h>
#include <cajal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- special functions, element by element ---------------------------------------------------------------------------------------------- */

/* f64 is computed in long double and narrower types in f64. Outside of its domain a function is NaN. Operands broadcast; integers give f32. */
CJ_API cj_tensor *cj_lgamma(cj_tensor *x);                                       /* log |Gamma(x)| */
CJ_API cj_tensor *cj_gamma(cj_tensor *x);                                        /* Gamma(x): (x - 1)! */
CJ_API cj_tensor *cj_digamma(cj_tensor *x);                                      /* Gamma'(x) / Gamma(x) */
CJ_API cj_tensor *cj_polygamma(int n, cj_tensor *x);                             /* its n-th derivative, n <= 100 */
CJ_API cj_tensor *cj_beta(cj_tensor *a, cj_tensor *b);                           /* Gamma(a) Gamma(b) / Gamma(a + b), a, b > 0 */
CJ_API cj_tensor *cj_lbeta(cj_tensor *a, cj_tensor *b);                          /* its logarithm */
CJ_API cj_tensor *cj_gammainc(cj_tensor *a, cj_tensor *x);                       /* P(a, x): integral of t^(a-1) e^-t from 0 to x, over Gamma(a) */
CJ_API cj_tensor *cj_gammaincc(cj_tensor *a, cj_tensor *x);                      /* 1 - P(a, x), without cancellation. Derivatives in a up to order 8, any in x */
CJ_API cj_tensor *cj_betainc(cj_tensor *a, cj_tensor *b, cj_tensor *x);          /* integral of t^(a-1) (1-t)^(b-1) from 0 to x, over B(a, b); in a and b as above */
CJ_API cj_tensor *cj_gammaincinv(cj_tensor *a, cj_tensor *p);                    /* x with P(a, x) = p; derivatives in both */
CJ_API cj_tensor *cj_betaincinv(cj_tensor *a, cj_tensor *b, cj_tensor *p);       /* x with cj_betainc(a, b, x) = p; derivatives in all three */
CJ_API cj_tensor *cj_stdtr(cj_tensor *df, cj_tensor *z);                         /* Student's distribution function at z; derivatives in both */
CJ_API cj_tensor *cj_stdtrit(cj_tensor *df, cj_tensor *p);                       /* the quantile of Student's distribution; derivatives in both */
CJ_API cj_tensor *cj_erfc(cj_tensor *x);                                         /* 1 - erf(x), without cancellation */
CJ_API cj_tensor *cj_erfinv(cj_tensor *x);                                       /* erf(cj_erfinv(x)) = x */
CJ_API cj_tensor *cj_ndtr(cj_tensor *x);                                         /* the normal distribution function Phi */
CJ_API cj_tensor *cj_ndtri(cj_tensor *p);                                        /* its inverse */
CJ_API cj_tensor *cj_bessel_j0(cj_tensor *x);
CJ_API cj_tensor *cj_bessel_j1(cj_tensor *x);
CJ_API cj_tensor *cj_bessel_i0e(cj_tensor *x);                                   /* e^-|x| I0(x) */
CJ_API cj_tensor *cj_bessel_i1e(cj_tensor *x);                                   /* e^-|x| I1(x) */
CJ_API cj_tensor *cj_sinc(cj_tensor *x);                                         /* sin(pi x) / (pi x), 1 at 0 */
CJ_API cj_tensor *cj_softplus_inverse(cj_tensor *y);                             /* log(e^y - 1), y > 0 */
CJ_API cj_tensor *cj_logaddexp(cj_tensor *a, cj_tensor *b);                      /* log(e^a + e^b) */
CJ_API cj_tensor *cj_xlogy(cj_tensor *x, cj_tensor *y);                          /* x log y, 0 where x is 0 */

/* ---- complex numbers as pairs -------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_complex(cj_tensor *re, cj_tensor *im);           /* [.., 2]; im NULL: zeros */
CJ_API cj_tensor *cj_real(cj_tensor *z);                              /* [..]: a view of the real parts */
CJ_API cj_tensor *cj_imag(cj_tensor *z);
CJ_API cj_tensor *cj_conj(cj_tensor *z);
CJ_API cj_tensor *cj_complex_mul(cj_tensor *a, cj_tensor *b);         /* broadcasts like cj_mul */
CJ_API cj_tensor *cj_complex_abs(cj_tensor *z);                       /* |z|, safe from overflow; gradient 0 at 0 */
CJ_API cj_tensor *cj_complex_angle(cj_tensor *z);                     /* atan2(im, re) */

/* ---- Fourier transforms -------------------------------------------------------------------------------------------------------------------- */

/* X_k = sum_j x_j exp(-2 pi i j k / n) and back, of any length n: products of primes up to 31 by mixed radices, others by Bluestein's chirp. */
typedef enum cj_fft_norm {
    CJ_FFT_BACKWARD, /* cj_fft as it is, cj_ifft divided by n */
    CJ_FFT_ORTHO,    /* both divided by sqrt(n) */
    CJ_FFT_FORWARD   /* cj_fft divided by n */
} cj_fft_norm;
typedef struct cj_fft_opts {
    cj_axes axes;     /* to transform; not given: the last. CJ_AXES(-2, -1) for images */
    cj_shape size;    /* lengths along these axes: what is longer is cut, what is shorter gets zeros at its end; not given: as they are */
    cj_fft_norm norm;
} cj_fft_opts;
CJ_API cj_tensor *cj_fft(cj_tensor *z, const cj_fft_opts *opts);      /* pairs to pairs */
CJ_API cj_tensor *cj_ifft(cj_tensor *z, const cj_fft_opts *opts);
/* Of a real tensor: pairs, and of the last of the axes only the first n/2 + 1 values, which determine the others. */
CJ_API cj_tensor *cj_rfft(cj_tensor *x, const cj_fft_opts *opts);
/* Its inverse, real; without a size the last axis gets 2·(m - 1) values. Imaginary parts that a real sequence does not have are not read. */
CJ_API cj_tensor *cj_irfft(cj_tensor *z, const cj_fft_opts *opts);
CJ_API cj_tensor *cj_fft_freq(cj_ctx *c, int64_t n, double spacing);  /* 0, 1, …, -1 over n·spacing: the frequencies of cj_fft's values, f32 */
CJ_API cj_tensor *cj_fft_shift(cj_tensor *x, cj_axes axes);           /* rolls by n/2: frequency 0 to the middle; real tensors and pairs alike, axes counted with the pairs */
CJ_API cj_tensor *cj_ifft_shift(cj_tensor *x, cj_axes axes);

typedef enum cj_convolve_mode { CJ_CONVOLVE_FULL, CJ_CONVOLVE_SAME, CJ_CONVOLVE_VALID, CJ_CONVOLVE_CYCLIC } cj_convolve_mode;
typedef struct cj_convolve_opts {
    cj_axes axes;  /* not given: the last */
    cj_convolve_mode mode;
} cj_convolve_opts;
/* sum_j a_j b_(k-j) along the axes, by transforms; other axes broadcast. Full: n + m - 1 values; same: the middle n; valid: those that need no values from outside; cyclic:
 * indices modulo n = m. */
CJ_API cj_tensor *cj_fft_convolve(cj_tensor *a, cj_tensor *b, const cj_convolve_opts *opts);

typedef enum cj_window_kind { CJ_WINDOW_HANN, CJ_WINDOW_HAMMING, CJ_WINDOW_BLACKMAN, CJ_WINDOW_BARTLETT, CJ_WINDOW_RECT } cj_window_kind;
typedef struct cj_window_opts {
    bool symmetric;   /* ends alike; else periodic, as spectra want it */
    cj_dtype dtype;
} cj_window_opts;
CJ_API cj_tensor *cj_window(cj_ctx *c, cj_window_kind kind, int64_t n, const cj_window_opts *opts);

typedef struct cj_stft_opts {
    int64_t hop;         /* n/4 */
    cj_tensor *window;   /* [n]; Hann's by default */
    bool no_centre;      /* frame t begins at t·hop; else its middle is there, and the signal is reflected at both ends */
    int64_t length;      /* cj_istft: of the signal; by default as many values as the frames determine */
} cj_stft_opts;
/* Spectra of n values at a time: x [.., T] -> [.., n/2 + 1, frames, 2], as torch.stft(onesided, return_complex). */
CJ_API cj_tensor *cj_stft(cj_tensor *x, int64_t n, const cj_stft_opts *opts);
/* The signal of least squares with these spectra: frames overlapped, added, and divided by the sum of the squared windows. */
CJ_API cj_tensor *cj_istft(cj_tensor *z, int64_t n, const cj_stft_opts *opts);

/* ==== linear algebra ===============================================================================================================================
 *
 * Matrices are the last two axes, [.., m, n]; leading axes are a batch, and those of two arguments broadcast.  f32 and f64; 16-bit floats are
 * CJ_EDTYPE, as in PyTorch. Errors: CJ_ESHAPE (no matrix, not square, sizes that do not fit), CJ_EVALUE (NaN or infinity in the input, a
 * singular or indefinite matrix, no convergence, more than 16384 rows or columns), each with the element of the batch and the pivot.  Empty
 * matrices give empty results, determinant 1 and norm 0.
 *
 * Repeated eigenvalues or singular values have no unique vectors.  Derivatives leave out the terms 1/(w_i - w_j) of values that are equal up to
 * rounding (within n·eps of the largest), so they are always finite.  First derivatives of symmetric functions of the values (sums, norms, log det)
 * are right there; what a function of the vectors would change within the space of a repeated value is lost.  The functions of a matrix below (exp,
 * log, sqrt, inverse, pinv, det, solve) do not go through vectors and are right wherever they are defined.
 */

/* ---- factors and solutions --------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_cholesky_opts {
    bool upper;   /* U with a = Uᵀ·U instead */
} cj_cholesky_opts;
/* L, lower triangular with positive diagonal, a = L·Lᵀ; a symmetric positive definite, of which the lower triangle is read. */
CJ_API cj_tensor *cj_cholesky(cj_tensor *a, const cj_cholesky_opts *opts);
typedef struct cj_triangular_opts {
    bool upper;       /* a is upper triangular; the other triangle is not read */
    bool transpose;   /* aᵀ·x = b */
    bool unit;        /* the diagonal is taken as ones */
} cj_triangular_opts;
/* x with a·x = b for triangular a [.., n, n]; b [.., n, k], or [.., n] as in cj_solve. */
CJ_API cj_tensor *cj_solve_triangular(cj_tensor *a, cj_tensor *b, const cj_triangular_opts *opts);
/* x with a·x = b by LU with partial pivoting; b [.., n, k], or a vector: [n], or [.., n] with exactly a's batch. */
CJ_API cj_tensor *cj_solve(cj_tensor *a, cj_tensor *b);
CJ_API cj_tensor *cj_inverse(cj_tensor *a);
CJ_API cj_tensor *cj_det(cj_tensor *a);              /* [..]; its gradient is the cofactor matrix, also of singular a */
typedef struct cj_slogdet_result {
    cj_tensor *sign, *logabsdet;   /* [..] each; singular: 0 and -inf */
} cj_slogdet_result;
CJ_API cj_slogdet_result cj_slogdet(cj_tensor *a);
CJ_API cj_tensor *cj_logdet(cj_tensor *a);           /* log det a; NaN where det a < 0 */
typedef struct cj_qr_result {
    cj_tensor *q, *r;   /* [.., m, k] with orthonormal columns, [.., k, n] upper triangular; k = min(m, n) */
} cj_qr_result;
CJ_API cj_qr_result cj_qr(cj_tensor *a);             /* Householder; differentiable where the first k columns are independent */

/* ---- spectra ----------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_eigen {
    cj_tensor *values, *vectors;
} cj_eigen;
/* a = V·diag(w)·Vᵀ: w [.., n] ascending, V [.., n, n] with eigenvectors as columns; symmetric a, of which the lower triangle is read. */
CJ_API cj_eigen cj_eigh(cj_tensor *a);
CJ_API cj_tensor *cj_eigvalsh(cj_tensor *a);         /* the values alone */
/* a·V = b·V·diag(w) for symmetric a and positive definite b, with Vᵀ·b·V = 1. */
CJ_API cj_eigen cj_eigh_general(cj_tensor *a, cj_tensor *b);
/* Any square a: complex numbers as pairs, values [.., n, 2], vectors [.., n, n, 2] (columns of length 1), in no particular order. */
CJ_API cj_eigen cj_eig(cj_tensor *a);
CJ_API cj_tensor *cj_eigvals(cj_tensor *a);
typedef struct cj_svd_result {
    cj_tensor *u, *s, *vh;   /* [.., m, k], [.., k] descending, [.., k, n]; k = min(m, n) */
} cj_svd_result;
CJ_API cj_svd_result cj_svd(cj_tensor *a);           /* a = u·diag(s)·vh, thin */
CJ_API cj_tensor *cj_svdvals(cj_tensor *a);
typedef struct cj_rank_opts {
    double rtol;   /* singular values up to rtol · the largest count as 0; eps · max(m, n) of the dtype by default */
} cj_rank_opts;
/* Moore-Penrose inverse; its derivative is that of constant rank (Golub & Pereyra 1973). */
CJ_API cj_tensor *cj_pinv(cj_tensor *a, const cj_rank_opts *opts);
/* The shortest x that minimises |a·x - b|; b as in cj_solve, with m rows. */
CJ_API cj_tensor *cj_lstsq(cj_tensor *a, cj_tensor *b, const cj_rank_opts *opts);
CJ_API cj_tensor *cj_matrix_rank(cj_tensor *a, const cj_rank_opts *opts);         /* i64 [..] */
/* [n, n - rank], orthonormal columns x with a·x = 0; one matrix. Its shape depends on values: not capturable. */
CJ_API cj_tensor *cj_null_space(cj_tensor *a, const cj_rank_opts *opts);
CJ_API cj_tensor *cj_spectral_radius(cj_tensor *a);                               /* [..]: largest |eigenvalue| */
typedef enum cj_definite {
    CJ_INDEFINITE,
    CJ_POSITIVE_DEFINITE,
    CJ_POSITIVE_SEMIDEFINITE,
    CJ_NEGATIVE_DEFINITE,
    CJ_NEGATIVE_SEMIDEFINITE
} cj_definite;
/* Sylvester's criterion on the leading minors of one symmetric matrix; where a minor is 0 up to rounding, the signs of the eigenvalues. The zero
 * matrix is positive semidefinite; CJ_INDEFINITE after an error. Reads values: not capturable. */
CJ_API cj_definite cj_definiteness(cj_tensor *a);

/* ---- functions of a square matrix -------------------------------------------------------------------------------------------------------------- */

CJ_API cj_tensor *cj_matrix_exp(cj_tensor *a);            /* Padé approximant, scaling and squaring (Higham 2005) */
/* Principal logarithm and square root: symmetric matrices by their eigenvalues, which must be positive (root: not negative); others by the
 * Denman-Beavers iteration and inverse scaling and squaring, for matrices without eigenvalues on the negative real axis or at 0. */
CJ_API cj_tensor *cj_matrix_log(cj_tensor *a);
CJ_API cj_tensor *cj_matrix_sqrt(cj_tensor *a);
CJ_API cj_tensor *cj_matrix_inverse_sqrt(cj_tensor *a);
CJ_API cj_tensor *cj_matrix_power(cj_tensor *a, int64_t n); /* by squaring; n < 0: of the inverse */

/* ---- norms, products, structured matrices ------------------------------------------------------------------------------------------------------ */

typedef enum cj_matrix_norm_kind { CJ_NORM_FRO, CJ_NORM_NUC, CJ_NORM_1, CJ_NORM_INF, CJ_NORM_2 } cj_matrix_norm_kind;
/* [..]: sqrt of the sum of squares; sum of the singular values; largest column sum and row sum of |a|; largest singular value. Gradient 0 at 0. */
CJ_API cj_tensor *cj_matrix_norm(cj_tensor *a, cj_matrix_norm_kind kind);
CJ_API cj_tensor *cj_cond(cj_tensor *a, cj_matrix_norm_kind kind);      /* |a|·|a⁻¹|; CJ_NORM_2: s_1 / s_k of any a */
CJ_API cj_tensor *cj_matrix_trace(cj_tensor *a);                   /* [..] */
CJ_API cj_tensor *cj_circulant(cj_tensor *c);               /* [.., n] -> [.., n, n]: element (i, j) is c[i - j mod n] */
/* [.., m], [.., n] -> [.., m, n]: column[i - j] below and on the diagonal, row[j - i] above. */
CJ_API cj_tensor *cj_toeplitz(cj_tensor *column, cj_tensor *row);
CJ_API cj_tensor *cj_circulant_product(cj_tensor *c, cj_tensor *x);                    /* circulant(c)·x over the last axis; long ones by Fourier transforms */
CJ_API cj_tensor *cj_toeplitz_product(cj_tensor *column, cj_tensor *row, cj_tensor *x); /* toeplitz(column, row)·x over the last axis */

/* ---- matrices given as functions ------------------------------------------------------------------------------------------------------------------
 *
 * A linear map is a cj_fn of one tensor: fn(c, user, &x, 1) gives A·x, of x's shape where A is square.  These read values (to stop, to
 * orthogonalise): not capturable, and their results are constants.
 */

/* fn = cj_hessian_product, user = &h: x -> H·x of a scalar function at h.at. */
typedef struct cj_hessian_map {
    cj_fn fn;
    void *user;
    cj_tensor *at;
} cj_hessian_map;
CJ_API cj_tensor *cj_hessian_product(cj_ctx *c, void *user, cj_tensor *const *x, int n);

typedef struct cj_iteration_opts {
    int64_t steps;     /* most steps; power iteration 1000, conjugate gradients 10·numel */
    double tolerance;  /* relative change of the value; conjugate gradients: |b - A·x| / |b|. 1e-12 in f64, 1e-6 in f32 */
} cj_iteration_opts;
typedef struct cj_eigen_pair {
    double value;
    cj_tensor *vector;   /* of length 1 */
    int64_t steps;       /* taken */
    bool converged;
} cj_eigen_pair;
/* The eigenvalue of largest magnitude of a symmetric map, from `start` (not 0, not orthogonal to its vector). */
CJ_API cj_eigen_pair cj_power_iteration(cj_ctx *c, cj_fn fn, void *user, cj_tensor *start, const cj_iteration_opts *opts);
/* The largest singular value of the Jacobian of any differentiable fn at x, by J·v and Jᵀ·u in turn; the vector is the right one. */
CJ_API cj_eigen_pair cj_jacobian_norm(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_iteration_opts *opts);
/* k steps of Lanczos with full reorthogonalisation: Ritz values [j] ascending and vectors [start.shape, j]; j < k where an invariant subspace
 * was found. */
CJ_API cj_eigen cj_lanczos(cj_ctx *c, cj_fn fn, void *user, cj_tensor *start, int64_t k);
/* Hutchinson's estimate of the trace: the mean of xᵀ·A·x over `probes` draws of random signs with like's shape and dtype. */
CJ_API double cj_hutchinson(cj_ctx *c, cj_fn fn, void *user, cj_tensor *like, int64_t probes);
typedef struct cj_cg_result {
    cj_tensor *x;
    int64_t steps;
    double residual;   /* |b - A·x| / |b| */
    bool converged;
} cj_cg_result;
/* A·x = b for symmetric positive definite A by conjugate gradients (Hestenes & Stiefel 1952), from 0. A direction with pᵀ·A·p <= 0 is CJ_EVALUE. */
CJ_API cj_cg_result cj_conjugate_gradients(cj_ctx *c, cj_fn fn, void *user, cj_tensor *b, const cj_iteration_opts *opts);

/* ---- probability ---------------------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_dist_kind {
    CJ_DIST_NORMAL,
    CJ_DIST_LAPLACE,
    CJ_DIST_GUMBEL,
    CJ_DIST_LOGISTIC,
    CJ_DIST_STUDENT_T,
    CJ_DIST_UNIFORM,
    CJ_DIST_EXPONENTIAL,
    CJ_DIST_GAMMA,
    CJ_DIST_BETA,
    CJ_DIST_VON_MISES,
    CJ_DIST_BERNOULLI,
    CJ_DIST_BINOMIAL,
    CJ_DIST_POISSON,
    CJ_DIST_DIRICHLET,
    CJ_DIST_CATEGORICAL,
    CJ_DIST_MULTINOMIAL,
    CJ_DIST_DIAGONAL_NORMAL,
    CJ_DIST_MULTIVARIATE_NORMAL,
    CJ_DIST_LOW_RANK_NORMAL,
    CJ_DISTS
} cj_dist_kind;
/* A distribution by value: a kind and parameter tensors, which broadcast; their joint shape is that of a batch of distributions. Make it with a cj_dist_… below; it lives as
 * long as its tensors. Parameters outside of their range are an error that names distribution, parameter, element and value (checked here, on the host: not by replays). */
typedef struct cj_dist {
    cj_dist_kind kind;
    cj_tensor *p[3];             /* parameters in the order of their constructor */
    int64_t count;               /* multinomial: trials */
    cj_tensor *shift, *factor;   /* cj_dist_affine, or NULL */
    bool exp;                    /* cj_dist_exp */
    cj_tensor *weights;          /* cj_dist_mixture: log weights [.., K], or NULL */
    cj_tensor *logits;           /* categorical, multinomial, mixture: as they were given */
} cj_dist;
CJ_API cj_dist cj_dist_normal(cj_tensor *loc, cj_tensor *scale);
CJ_API cj_dist cj_dist_laplace(cj_tensor *loc, cj_tensor *scale);                  /* e^(-|x - loc|/scale) / (2 scale) */
CJ_API cj_dist cj_dist_gumbel(cj_tensor *loc, cj_tensor *scale);                   /* F(x) = e^(-e^-z), z = (x - loc)/scale */
CJ_API cj_dist cj_dist_logistic(cj_tensor *loc, cj_tensor *scale);                 /* F(x) = sigmoid(z) */
CJ_API cj_dist cj_dist_student_t(cj_tensor *loc, cj_tensor *scale, cj_tensor *df);
CJ_API cj_dist cj_dist_uniform(cj_tensor *low, cj_tensor *high);
CJ_API cj_dist cj_dist_exponential(cj_tensor *rate);
CJ_API cj_dist cj_dist_gamma(cj_tensor *concentration, cj_tensor *rate);           /* x^(a-1) e^(-rate x) rate^a / Gamma(a) */
CJ_API cj_dist cj_dist_beta(cj_tensor *a, cj_tensor *b);
CJ_API cj_dist cj_dist_von_mises(cj_tensor *loc, cj_tensor *concentration);        /* e^(k cos(x - loc)) / (2 pi I0(k)); samples in [-pi, pi) */
CJ_API cj_dist cj_dist_bernoulli(cj_tensor *p);
CJ_API cj_dist cj_dist_binomial(cj_tensor *trials, cj_tensor *p);
CJ_API cj_dist cj_dist_poisson(cj_tensor *rate);
CJ_API cj_dist cj_dist_dirichlet(cj_tensor *concentration);                        /* [.., K]: outcomes fill the last axis */
CJ_API cj_dist cj_dist_categorical(cj_tensor *logits);                             /* [.., K] -> i64 [..]; -INFINITY: never */
CJ_API cj_dist cj_dist_multinomial(int64_t trials, cj_tensor *logits);             /* counts [.., K] */
CJ_API cj_dist cj_dist_diagonal_normal(cj_tensor *loc, cj_tensor *scale);          /* [.., d]: independent coordinates, one outcome per row */
typedef enum cj_matrix_form { CJ_COVARIANCE, CJ_PRECISION, CJ_SCALE_TRIL } cj_matrix_form;
/* loc [.., d] and a matrix [.., d, d]: covariance S, its inverse, or L with S = L·Lᵀ (lower triangle, positive diagonal). S is factored here: the error of an indefinite one is
 * cj_cholesky's. Parameter 1 of the distribution is L. */
CJ_API cj_dist cj_dist_multivariate_normal(cj_tensor *loc, cj_tensor *matrix, cj_matrix_form form);
/* Covariance factor·factorᵀ + diag(diagonal): loc [.., d], factor [.., d, r], diagonal [.., d] > 0. Costs d·r² instead of d³. */
CJ_API cj_dist cj_dist_low_rank_normal(cj_tensor *loc, cj_tensor *factor, cj_tensor *diagonal);
/* Of the coordinates begin … end - 1 of a multivariate or low-rank normal. */
CJ_API cj_dist cj_gaussian_marginal(cj_dist d, int64_t begin, int64_t end);
/* Of its first k coordinates, given that the others are y [.., d - k]: N(m1 + S12·S22⁻¹·(y - m2), S11 - S12·S22⁻¹·S21). */
CJ_API cj_dist cj_gaussian_conditional(cj_dist d, int64_t k, cj_tensor *y);
CJ_API cj_dist cj_dist_log_normal(cj_tensor *loc, cj_tensor *scale);               /* e^X, X normal */
CJ_API cj_dist cj_dist_affine(cj_dist d, cj_tensor *shift, cj_tensor *factor);     /* shift + factor·X of a continuous number; before cj_dist_exp, once */
CJ_API cj_dist cj_dist_exp(cj_dist d);                                             /* e^X of a continuous number */
/* Of the components d [.., K], all of one kind (not categorical or multinomial), one is chosen with probabilities softmax(logits [.., K]). */
CJ_API cj_dist cj_dist_mixture(cj_tensor *logits, cj_dist d);

typedef struct cj_dist_opts {
    cj_stream stream;  /* CJ_STREAM_USER by default */
} cj_dist_opts;
/* `shape` outcomes of each distribution of the batch: [shape, batch] (vectors: and their axis). The same bits at every level and number of threads.
 * Gradients flow to the parameters of continuous kinds: by formula, for gamma, beta, Dirichlet and Student by implicit
 * differentiation (first order); none for von Mises, discrete kinds and mixtures. */
CJ_API cj_tensor *cj_dist_sample(cj_dist d, cj_shape shape, const cj_dist_opts *opts);
typedef struct cj_choice_opts {
    bool replacement;  /* the same index may come again */
    cj_stream stream;  /* CJ_STREAM_USER by default */
} cj_choice_opts;
/* k indices of the last axis of weights [.., K] (not negative, not necessarily normalised), each with a probability proportional to its weight among those that are left:
 * i64 [.., k], in the order in which they were drawn. With k = K and equal weights it is a permutation. As torch.multinomial. */
CJ_API cj_tensor *cj_choice(cj_tensor *weights, int64_t k, const cj_choice_opts *opts);
CJ_API cj_tensor *cj_dist_log_prob(cj_dist d, cj_tensor *x);      /* -INFINITY outside of the support; x broadcasts against the batch */
CJ_API cj_tensor *cj_dist_cdf(cj_dist d, cj_tensor *x);           /* not for von Mises and vectors */
CJ_API cj_tensor *cj_dist_quantile(cj_dist d, cj_tensor *u);      /* continuous kinds over numbers but von Mises, and what affine and exp make of them */
CJ_API cj_tensor *cj_dist_mean(cj_dist d);
CJ_API cj_tensor *cj_dist_variance(cj_dist d);                    /* categorical: none; von Mises: circular */
CJ_API cj_tensor *cj_dist_covariance(cj_dist d);                  /* [.., d, d] of the diagonal, multivariate and low-rank normal */
CJ_API cj_tensor *cj_dist_entropy(cj_dist d);                     /* nats; not for mixtures, binomial, Poisson, multinomial */
CJ_API cj_tensor *cj_dist_mgf(cj_dist d, cj_tensor *t);           /* E e^(t X); INFINITY where the integral is; an error for kinds without a closed form */
CJ_API cj_tensor *cj_dist_kl(cj_dist p, cj_dist q);               /* E_p log(p/q): of one kind, or of two continuous kinds over numbers where known; an error elsewhere */

/* Tables of probabilities along the last axis (not normalised here); 0·log 0 = 0. In nats: divide by log 2 for bits. */
CJ_API cj_tensor *cj_entropy(cj_tensor *p);                            /* -sum p log p: [.., K] -> [..] */
CJ_API cj_tensor *cj_relative_entropy(cj_tensor *p, cj_tensor *q);     /* sum p log(p/q); INFINITY where p > 0 = q */
CJ_API cj_tensor *cj_table_cross_entropy(cj_tensor *p, cj_tensor *q);  /* -sum p log q */
CJ_API cj_tensor *cj_jensen_shannon(cj_tensor *p, cj_tensor *q);       /* the mean of the relative entropies to (p + q)/2 */
CJ_API cj_tensor *cj_mutual_information(cj_tensor *joint);             /* [.., X, Y] -> [..]: of the joint table to the product of its marginals */
CJ_API cj_tensor *cj_conditional_mutual_information(cj_tensor *joint); /* [.., X, Y, Z] -> [..]: I(X; Y | Z), 0 exactly where X and Y are independent given Z */
CJ_API cj_tensor *cj_table_conditional(cj_tensor *joint, cj_axes axes); /* P(axes | the others): joint over its sums along the axes; 0 where such a sum is 0 */
/* Bayes: prior [.., Y] and likelihood P(x | y) [.., Y, X] give P(y | x) [.., X, Y]; 0 where x has probability 0. */
CJ_API cj_tensor *cj_bayes(cj_tensor *prior, cj_tensor *likelihood);
/* Distances of distributions. */
CJ_API cj_tensor *cj_wasserstein1(cj_tensor *x, cj_tensor *y);         /* mean |x_(i) - y_(i)| of sorted samples, last axes of one length */
CJ_API cj_tensor *cj_wasserstein2(cj_tensor *x, cj_tensor *y);         /* mean (x_(i) - y_(i))²: W2² */
/* |m1 - m2|² + tr(S1 + S2 - 2 (S1^(1/2)·S2·S1^(1/2))^(1/2)): W2² of Gaussians with means [.., d] and covariances [.., d, d]. */
CJ_API cj_tensor *cj_gaussian_w2_full(cj_tensor *m1, cj_tensor *s1, cj_tensor *m2, cj_tensor *s2);
CJ_API cj_tensor *cj_gaussian_w2(cj_tensor *m1, cj_tensor *s1, cj_tensor *m2, cj_tensor *s2); /* |m1 - m2|² + |s1 - s2|²: W2² of diagonal Gaussians, last axis */
typedef struct cj_mmd_opts {
    double bandwidth;    /* s of k(a, b) = exp(-|a - b|²/(2 s²)); 0: the median distance of two rows of both samples (its value is read: not capturable) */
    bool linear;         /* k(a, b) = a·b instead */
    bool biased;         /* means over all pairs, also of a row with itself: never below 0 */
} cj_mmd_opts;
/* Squared maximum mean discrepancy (Gretton et al. 2012) of the rows of x [n, d] and y [m, d], unbiased, so it may be below 0:
 * mean over i != j of k(x_i, x_j) + mean over i != j of k(y_i, y_j) - 2 mean k(x_i, y_j). 0-d; n and m at least 2 (biased: 1). */
CJ_API cj_tensor *cj_mmd(cj_tensor *x, cj_tensor *y, const cj_mmd_opts *opts);
/* A number that is large where two samples differ. */
typedef double (*cj_statistic_fn)(void *user, cj_tensor *x, cj_tensor *y);
/* p-value of a statistic of x [n, ..] and y [m, ..] if both have one law: rows are dealt out again `times` times, (1 + deals that reach the statistic)/(1 + times). From the stream
 * CJ_STREAM_SAMPLING; NaN after an error. A small value speaks against one law; a large one proves nothing. */
CJ_API double cj_permutation_test(cj_tensor *x, cj_tensor *y, cj_statistic_fn fn, void *user, int64_t times);
typedef struct cj_sinkhorn_opts {
    double eps;          /* strength of the entropy; 0.05 */
    int64_t iterations;  /* 100 */
} cj_sinkhorn_opts;
/* The cost sum P·cost [n, m] of the transport plan between a [n] and b [m] that minimises cost - eps·entropy, by updates of the potentials in the log domain (Cuturi 2013). */
CJ_API cj_tensor *cj_sinkhorn(cj_tensor *cost, cj_tensor *a, cj_tensor *b, const cj_sinkhorn_opts *opts);
/* mean k(x, x') + mean k(y, y') - 2 mean k(x, y), k = e^(-|x-y|²/(2 width²)): x [n, d], y [m, d]; all pairs, also of a point with itself. */
CJ_API cj_tensor *cj_mmd_rbf(cj_tensor *x, cj_tensor *y, double width);
typedef struct cj_cov_opts {
    bool biased;         /* divide by n instead of n - 1 */
    cj_tensor *weights;  /* [n]: probabilities of the rows, which add up to 1; the covariance of that law */
} cj_cov_opts;
CJ_API cj_tensor *cj_cov(cj_tensor *x, const cj_cov_opts *opts);       /* rows are samples: [n, d] -> [d, d] */
CJ_API cj_tensor *cj_corr(cj_tensor *x);                               /* cov_ij / sqrt(cov_ii cov_jj) */

/* ---- numbers: integrals, roots, minima ---------------------------------------------------------------------------------------------------------- */

typedef double (*cj_real_fn)(void *user, double x);

typedef struct cj_integrate_opts {
    double rtol, atol;    /* 1e-10, 1e-12: the error estimate is to be below atol or rtol·|integral| */
    int64_t intervals;    /* at most; 200, up to 500 */
} cj_integrate_opts;
typedef struct cj_integral {
    double value, error;  /* estimate of its error */
    int64_t evaluations;
    bool converged;
} cj_integral;
/* The integral of f from a to b, either of which may be infinite: adaptive Gauss-Kronrod with 7 and 15 points. A value that is not finite is CJ_EVALUE, with its place. */
CJ_API cj_integral cj_integrate(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_integrate_opts *opts);
typedef struct cj_nodes {
    cj_tensor *x, *w;     /* f64 [n], x ascending */
} cj_nodes;
/* sum_i w_i f(x_i) is the integral of f over [-1, 1], or of f(x) e^(-x²) over all numbers, for polynomials up to degree 2n - 1. n up to 512. */
CJ_API cj_nodes cj_gauss_legendre(cj_ctx *c, int64_t n);
CJ_API cj_nodes cj_gauss_hermite(cj_ctx *c, int64_t n);

typedef struct cj_root_opts {
    double tolerance;     /* of x, relative to 1 + |x|: a few rounding errors for roots, 1.5e-8 for minima, which values cannot show more closely */
    int64_t steps;        /* at most; enough by default */
} cj_root_opts;
typedef struct cj_root {
    double x, value;      /* f(x) */
    int64_t evaluations;
    bool converged;
} cj_root;
/* x with f(x) = 0 between a and b, where f has different signs: by halves; or (Brent) by interpolation, never much slower than that. */
CJ_API cj_root cj_root_bisect(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts);
CJ_API cj_root cj_root_brent(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts);
/* From x by x - f/f', steps halved until |f| falls. A derivative of 0 is CJ_EVALUE, with its place. */
CJ_API cj_root cj_root_newton(cj_ctx *c, cj_real_fn f, cj_real_fn derivative, void *user, double x, const cj_root_opts *opts);
/* A minimum between a and b (the only one if there is one only): by golden sections, or with parabolas (Brent). */
CJ_API cj_root cj_minimum_golden(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts);
CJ_API cj_root cj_minimum_brent(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_root_opts *opts);

/* ---- differential equations, interpolation -------------------------------------------------------------------------------------------------- */

typedef cj_tensor *(*cj_ode_fn)(cj_ctx *c, void *user, double t, cj_tensor *y);   /* dy/dt, of y's shape */
typedef enum cj_ode_method { CJ_ODE_DOPRI5, CJ_ODE_EULER, CJ_ODE_MIDPOINT, CJ_ODE_RK4 } cj_ode_method;
typedef struct cj_ode_opts {
    cj_ode_method method; /* Dormand-Prince 5(4) by default: its steps are chosen by rtol and atol; the others take `steps` equal steps between two times */
    int64_t steps;        /* 1 */
    double rtol, atol;    /* 1e-7, 1e-9: error of one step, root mean square of error / (atol + rtol·|y|) below 1 */
    int64_t most;         /* adaptive steps in all, rejected ones too; more are CJ_EVALUE. 100000 */
    int64_t *taken;       /* receives their number; may be NULL */
} cj_ode_opts;
/* y at the times t[n] (in order, up or down; t[0] is that of y0): [n, y0.shape]. Gradients flow to y0 and to what f uses. Adaptive steps read values: not capturable. */
CJ_API cj_tensor *cj_ode_solve(cj_ctx *c, cj_ode_fn f, void *user, cj_tensor *y0, const double *t, int n, const cj_ode_opts *opts);

typedef enum cj_interp_kind { CJ_INTERP_PIECEWISE_LINEAR, CJ_SPLINE_NATURAL, CJ_SPLINE_CLAMPED, CJ_INTERP_MONOTONE } cj_interp_kind;
typedef struct cj_interp_opts {
    cj_interp_kind kind;  /* linear; natural: second derivative 0 at the ends; clamped: first derivatives slope[0], slope[1]; monotone: never beyond its neighbours (PCHIP) */
    double slope[2];
    bool extrapolate;     /* the outer pieces go on; else the end values do */
} cj_interp_opts;
/* Values y [.., n] at ascending knots x [n], interpolated at places of any shape: [.., at.shape]. Differentiable in y and at. Splines: n up to 4096. */
CJ_API cj_tensor *cj_interp(cj_tensor *x, cj_tensor *y, cj_tensor *at, const cj_interp_opts *opts);

/* ---- calculus ------------------------------------------------------------------------------------------------------------------------------------ */

/* The order-th derivative of a function that works element by element, by forward mode inside of forward mode; order 0 to 8. */
CJ_API cj_tensor *cj_derivative(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int order);
/* sum over k <= n of f^(k)(x0) (x - x0)^k / k!; x0 and x broadcast. n up to 8. */
CJ_API cj_tensor *cj_taylor(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x0, int n, cj_tensor *x);
/* f(x) minus that, as the integral of f^(n+1)(t) (x - t)^n / n! from x0 to x. n up to 7. */
CJ_API cj_integral cj_taylor_remainder(cj_ctx *c, cj_fn fn, void *user, double x0, int n, double x, const cj_integrate_opts *opts);

typedef struct cj_convexity_opts {
    int64_t segments;     /* 200 */
    double tolerance;     /* relative to the values compared; 1e-9 */
    bool values_only;     /* no gradients and Hessians: for functions that are not differentiable */
} cj_convexity_opts;
typedef struct cj_convexity {
    bool convex, strict;  /* no segment broke it; and every chord lies above, not on, the function */
    const char *broken;   /* "chord", "tangent", "monotone gradient" or "Hessian"; NULL: none */
    cj_tensor *a, *b;     /* the segment that breaks it, or NULL */
    double lambda, gap;   /* where on it (chord), and by how much */
} cj_convexity;
/* Tests a function of one tensor with one value on random segments of the box from low to high (two tensors of x's shape): f(la + (1-l)b) <= l f(a) + (1-l) f(b) at nine l;
 * f(b) >= f(a) + <grad f(a), b - a>; <grad f(a) - grad f(b), a - b> >= 0; and, of at most 64 numbers, no negative eigenvalue of the Hessian. Passing proves nothing; failing does. */
CJ_API cj_convexity cj_check_convex(cj_ctx *c, cj_fn fn, void *user, cj_tensor *low, cj_tensor *high, const cj_convexity_opts *opts);
typedef struct cj_interval {
    double low, high;
} cj_interval;
/* The subdifferential of a convex function of one number at x: from its left to its right derivative, by difference quotients of second order. */
CJ_API cj_interval cj_subdifferential(cj_ctx *c, cj_real_fn f, void *user, double x);

#ifdef __cplusplus
}
#endif
#endif
