/* cajal/math.h: mathematics on tensors: special functions, Fourier transforms.
 *
 * All of it is differentiable to any order unless said otherwise.  f32 and f64.  Complex numbers are a trailing dimension of 2 (real, imaginary): a complex vector of
 * length n is a tensor [n, 2], and axes are counted without the pairs, so -1 is the axis before them.
 */
#ifndef CAJAL_MATH_H
#define CAJAL_MATH_H

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
CJ_API cj_tensor *cj_gammaincc(cj_tensor *a, cj_tensor *x);                      /* 1 - P(a, x), without cancellation. First derivatives in a, any in x */
CJ_API cj_tensor *cj_betainc(cj_tensor *a, cj_tensor *b, cj_tensor *x);          /* integral of t^(a-1) (1-t)^(b-1) from 0 to x, over B(a, b); derivatives in x only */
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

#ifdef __cplusplus
}
#endif
#endif
