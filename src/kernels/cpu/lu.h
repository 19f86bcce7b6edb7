/* Gaussian elimination of one large matrix with row exchanges, P·A = L·U, and the solution of systems with it.
 *
 * Matrices are column-major here, so that a column, which is searched for its pivot and subtracted from others, lies in one piece.  Recursive (Toledo 1997): the left
 * half is factored, the right half solved with it and updated by one product of matrices, then factored; nearly all of the work is products of our own GEMM, on all
 * threads, whose bits do not depend on how many there are.
 */
#ifndef CJ_KERNELS_CPU_LU_H
#define CJ_KERNELS_CPU_LU_H

#include "cajal/core.h"
#include "core/parallel.h"

typedef struct cj_lu {
    cj_dtype dtype; /* f32 or f64 */
    int64_t n, k;   /* rows and columns; right-hand sides */
    int64_t ld;     /* elements from column to column, of right-hand sides too: cj__lu_ld(n) */
    void *a;        /* [n][ld] */
    int32_t *pivot; /* [n]: the row that row i was exchanged with, from 0 */
    void *work;     /* lu_workspace bytes, 64-byte aligned */
} cj_lu;

/* Columns begin on cache lines, and not a power of two apart. */
static inline int64_t cj__lu_ld(int64_t n) { return (n + 15) / 16 * 16 + 16; }

/* Bytes of `work` for factors and k right-hand sides on this many threads. */
typedef size_t cj_lu_workspace_fn(cj_dtype t, int64_t n, int64_t k, int threads);
/* y[j][i] = x[i][j] for x [m, n]; x_row and y_row: elements from row to row. */
typedef void cj_turn_fn(cj_dtype t, int64_t m, int64_t n, const void *x, int64_t x_row, void *y, int64_t y_row);
/* a becomes L, without its unit diagonal, and U. Returns 0, or the first pivot that is 0, counted from 1; goes on past those. */
typedef int64_t cj_lu_factor_fn(cj_pool *pool, const cj_lu *f);
/* The columns of b [k][ld] become A⁻¹ times themselves. */
typedef void cj_lu_solve_fn(cj_pool *pool, const cj_lu *f, void *b);

#endif
