/* Products with sparse matrices in compressed rows (sparse.c).
 *
 * Row i of the matrix has entries p in [offsets[i], offsets[i+1]) at columns[p]; the value of entry p is values[entry ? entry[p] : p], so that a
 * transposed structure shares the values.  Dense matrices are contiguous with k columns.  Values and dense matrices have one float type; sums are
 * in f32 (f64 of f64), in the order of the entries.
 */
#ifndef CJ_KERNELS_CPU_SPARSE_H
#define CJ_KERNELS_CPU_SPARSE_H

#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef struct cj_csr_shape {
    int64_t rows, entries, k;
    const int64_t *offsets, *columns, *entry; /* entry may be NULL */
} cj_csr_shape;

/* y[i] = sum over p of value(p)·x[columns[p]]: y [rows, k]. */
typedef void cj_csr_matmul_fn(cj_pool *pool, const cj_csr_shape *s, cj_dtype t, const void *values, const void *x, void *y);
/* out[p] = x[i]·y[columns[p]] for the entries p of every row i: the product x·yᵀ where the matrix has entries. */
typedef void cj_csr_dot_fn(cj_pool *pool, const cj_csr_shape *s, cj_dtype t, const void *x, const void *y, void *out);

#endif
