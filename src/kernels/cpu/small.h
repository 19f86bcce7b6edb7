/* Factorisations of many small matrices at once: vector lane l works on matrix l.
 *
 * A group of matrices is transposed into [rows, columns, lanes]; then every step of the textbook algorithm is one vector operation.  Pivots
 * differ from lane to lane, so rows are exchanged under masks.  A lane's result does not depend on the other lanes.
 */
#ifndef CJ_KERNELS_CPU_SMALL_H
#define CJ_KERNELS_CPU_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"

enum { CJ_SMALL_MOST = 32 }; /* rows */

typedef enum cj_small_code {
    CJ_SMALL_CHOLESKY, /* y [n, n] = L, zeros above; reads the lower triangle */
    CJ_SMALL_SOLVE,    /* y [n, k] = a⁻¹·b */
    CJ_SMALL_INVERSE,  /* y [n, n] */
    CJ_SMALL_LU        /* y [n]: the diagonal of U, the first one times the sign of the permutation */
} cj_small_code;

typedef struct cj_small {
    cj_small_code code;
    cj_dtype dtype; /* f32 or f64 */
    int64_t count, n, k;
    bool transpose; /* solve with aᵀ */
    bool stream;    /* y is one of many results that no cache holds */
    bool ahead;     /* a is one of many matrices that no cache holds: later ones are asked for meanwhile */
    const void *a, *b;
    void *y;
    int32_t *pivot; /* per matrix: 0, or the first pivot that is zero (not positive), counted from 1 */
    void *work;     /* cj__small_workspace bytes, 64-byte aligned */
} cj_small;
typedef void cj_small_fn(const cj_small *s);
/* Whether n numbers of dtype f32 or f64 are all finite. */
typedef bool cj_finite_fn(cj_dtype t, const void *x, int64_t n);

/* One vector of 64 bytes per element of [n, n + k], and three columns of them. */
static inline size_t cj__small_workspace(int64_t n, int64_t k) { return (size_t)(n * (n + k) + 3 * n) * 64; }

#endif
