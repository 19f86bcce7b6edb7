/* Discrete Fourier transforms: plans and the kernels that run them (fft.c).
 *
 *   y_k = scale · sum_j x_j · exp(sign · 2 pi i j k / n),   sign -1 (forward) or +1
 *
 * Complex numbers are pairs (re, im).  Three ways, chosen by the length when the plan is made (fft_plan.c):
 *
 *   lanes       as many transforms at once as a vector has lanes, by Stockham's self-sorting passes of radix 8, 4, 2, 3, 5 and any odd prime up to 31.  Used where the
 *               lanes are there: several transforms, or an axis that is not the last.
 *   four-step   one transform of n = n1 · n2: n1-point transforms down the columns (lanes are columns), a twiddle, a transposition, n2-point transforms.
 *   Bluestein   lengths with a larger prime: a convolution with a chirp, by transforms of a smooth length m >= 2n - 1.
 *
 * An inverse transform is a forward one with real and imaginary parts exchanged on the way in and out.
 */
#ifndef CJ_KERNELS_CPU_FFT_H
#define CJ_KERNELS_CPU_FFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

enum { CJ_FFT_STAGES = 48, CJ_FFT_PRIME = 31, CJ_FFT_LANES_MOST = 8192, CJ_FFT_FOUR_STEP_FROM = 192 };

/* A transform in lanes: n = product of the radices. */
typedef struct cj_fft_lanes {
    int64_t n;
    int stages;
    int radix[CJ_FFT_STAGES];
    const void *twiddle[CJ_FFT_STAGES]; /* w^(p·u), [m][radix - 1] pairs, w = exp(-2 pi i / (m·radix)) */
    const void *root[CJ_FFT_STAGES];    /* odd radices above 5: exp(-2 pi i t / radix), t < radix, pairs */
} cj_fft_lanes;

typedef struct cj_fft_plan {
    int64_t n;
    cj_dtype dtype;                    /* CJ_F32 or CJ_F64 */
    cj_fft_lanes whole;                /* n where it is smooth and small enough, else n = 0 */
    cj_fft_lanes first, second;        /* four-step: n1 and n2, else n = 0 */
    const void *middle_re, *middle_im; /* exp(-2 pi i k1 i2 / n), [n1][n2] */
    /* Bluestein */
    struct cj_fft_plan *smooth; /* of length m, or NULL */
    const void *chirp;          /* exp(-pi i j² / n), n pairs */
    const void *spectrum;       /* transform of the wrapped conjugate chirp, divided by m: m pairs */
} cj_fft_plan;

/* Bytes of a plan with its tables for length n >= 1; and the plan in such memory (64-byte aligned). fft_plan.c. */
size_t cj__fft_plan_bytes(int64_t n, cj_dtype dtype);
cj_fft_plan *cj__fft_plan_make(void *memory, int64_t n, cj_dtype dtype);
/* exp(-2 pi i k / n), k < n/2, as pairs. */
void cj__fft_roots(void *table, int64_t n, cj_dtype dtype);
bool cj__fft_smooth(int64_t n); /* no prime factor above CJ_FFT_PRIME */

/* Transforms along the middle axis of x [outer, n, inner] pairs into y of the same shape; both contiguous, not the same memory. inner > 1 needs plan->whole.
 * work: cj_fft_workspace bytes. */
typedef struct cj_fft_job {
    const cj_fft_plan *plan;
    int64_t outer, inner;
    const void *x;
    void *y;
    bool inverse; /* sign +1 */
    double scale;
} cj_fft_job;
typedef void cj_fft_fn(cj_pool *pool, const cj_fft_job *f, void *work);
typedef size_t cj_fft_workspace_fn(const cj_fft_job *f, int threads);

/* Between the transform Z of n/2 pairs (neighbours of a real sequence as pairs) and the first n/2 + 1 values X of the sequence's own transform:
 *   X_k = (Z_k + conj Z_{h-k})/2 + w^k·(Z_k - conj Z_{h-k})/2i,   h = n/2, w = exp(-2 pi i / n), pairs w^k in root.
 * split: X from Z; join: Z from X (imaginary parts of X_0 and X_h count as 0), so that the transform back gives the sequence times n. */
typedef void cj_fft_split_fn(cj_pool *pool, cj_dtype t, int64_t batch, int64_t h, const void *root, const void *z, void *x, double scale);
typedef void cj_fft_join_fn(cj_pool *pool, cj_dtype t, int64_t batch, int64_t h, const void *root, const void *x, void *z, double scale);

#endif
