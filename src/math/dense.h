/* Decompositions of one dense matrix, row-major, in f32 or f64: what LAPACK does, and our own of the same.
 *
 * Two tables of the same functions: cj__dense_own is plain C (f32 is computed in f64 and rounded once), the reference of the tests and what a
 * build without LAPACK uses; the other calls LAPACK (lapack.c) on one thread, and our own products on all of them.  Elements are finite and sizes at least 1: the callers have
 * looked.  Functions allocate nothing: `work` has the bytes that workspace() gives, 64-byte aligned.
 *
 * They return 0, or what went wrong: the pivot that was zero or not positive, counted from 1; for eigenvalues and singular values 1 when they
 * did not converge.
 */
#ifndef CJ_MATH_DENSE_H
#define CJ_MATH_DENSE_H

#include "cajal/core.h"
#include "core/parallel.h"

typedef enum cj_dense_code {
    CJ_DENSE_CHOLESKY,
    CJ_DENSE_TRIANGULAR,
    CJ_DENSE_LU,
    CJ_DENSE_SOLVE,
    CJ_DENSE_INVERSE,
    CJ_DENSE_EIGH,
    CJ_DENSE_EIG,
    CJ_DENSE_SVD,
    CJ_DENSE_QR,
    CJ_DENSE_CODES
} cj_dense_code;

typedef struct cj_triangle {
    bool upper, transpose, unit; /* of the stored matrix; solve with its transpose; ones on the diagonal */
} cj_triangle;

/* Where a decomposition runs: threads counts those of the pool, 1 without one. Results do not depend on it. */
typedef struct cj_dense_place {
    const struct cj_cpu_kernels *k;
    cj_pool *pool;
    int threads;
} cj_dense_place;

typedef struct cj_dense {
    const char *name;
    /* Bytes for [m, n] (and k right-hand sides); vectors: with eigenvectors or singular vectors. */
    size_t (*workspace)(const cj_dense_place *on, cj_dense_code code, cj_dtype t, int64_t m, int64_t n, int64_t k, bool vectors);
    /* The lower triangle of a [n, n] becomes L, the upper one 0: a = L·Lᵀ. */
    int64_t (*cholesky)(cj_dtype t, int64_t n, void *a, void *work);
    /* b [n, k] becomes a⁻¹·b. */
    int64_t (*triangular)(cj_dtype t, int64_t n, int64_t k, cj_triangle form, const void *a, void *b, void *work);
    /* P·a = L·U in place (L without its unit diagonal); pivot[i]: the row that row i was exchanged with. Goes on past zero pivots. */
    int64_t (*lu)(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, int64_t *pivot, void *work);
    /* b [n, k] becomes a⁻¹·b, or a⁻ᵀ·b. */
    int64_t (*solve)(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k, bool transpose, const void *a, void *b, void *work);
    int64_t (*inverse)(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, void *work);
    /* The lower triangle of a; w [n] ascending; with vectors a becomes V (columns), else it is destroyed. */
    int64_t (*eigh)(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, void *w, bool vectors, void *work);
    /* w [n, 2] and, unless NULL, v [n, n, 2], unit columns: complex numbers as pairs. a is destroyed. */
    int64_t (*eig)(cj_dtype t, int64_t n, void *a, void *w, void *v, void *work);
    /* a [m, n] = u·diag(s)·vh with k = min(m, n): u [m, k], s [k] descending, vh [k, n]; u and vh both NULL: values only. a is destroyed. */
    int64_t (*svd)(cj_dtype t, int64_t m, int64_t n, void *a, void *u, void *s, void *vh, void *work);
    /* a = q·r, q [m, k], r [k, n]; a is destroyed. */
    int64_t (*qr)(cj_dtype t, int64_t m, int64_t n, void *a, void *q, void *r, void *work);
} cj_dense;

/* Elimination on our own products (eliminate.c), which is part of LAPACK's table. */
size_t cj__eliminate_workspace(const cj_dense_place *on, cj_dense_code code, cj_dtype t, int64_t n, int64_t k);
int64_t cj__eliminate_lu(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, int64_t *pivot, void *work);
int64_t cj__eliminate_solve(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k, bool transpose, const void *a, void *b, void *work);
int64_t cj__eliminate_inverse(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, void *work);

extern const cj_dense cj__dense_own;
/* LAPACK's table, or NULL where the library is not built in or not found on this machine. */
const cj_dense *cj__dense_lapack(void);
/* The better of the two. */
const cj_dense *cj__dense(void);

#endif
