/* Ordering along contiguous rows (order.c): sorting, the best k, search in sorted rows, runs of equal values.
 *
 * The order is total: NaN is larger than everything, -0 and 0 are equal, and equal values keep their order; so results are unique, whatever the number of threads. */
#ifndef CJ_KERNELS_CPU_ORDER_H
#define CJ_KERNELS_CPU_ORDER_H

#include "cajal/core.h"
#include "core/parallel.h"

#define CJ_ORDER_MAX INT32_MAX /* elements of a row */

/* The first k of every row of x [rows, n], ordered: k == n sorts, k < n with descending gives the k largest.  values (of type t, or NULL) and indices are
 * [rows, k].  scratch: cj_order_scratch bytes. */
typedef void cj_order_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t k, bool descending, void *values,
                         int64_t *indices, void *scratch);
typedef size_t cj_order_scratch_fn(cj_pool *pool, cj_dtype t, int64_t n, int64_t k);

/* y[r, i]: how many elements of row r of `sorted` [rows, n] (of row 0 where shared) are smaller than values[r, i] of [rows, m], or with right: not larger. */
typedef void cj_searchsorted_fn(cj_pool *pool, cj_dtype t, const void *sorted, bool shared, int64_t n, const void *values, int64_t rows,
                                int64_t m, bool right, int64_t *y);

/* The runs of equal values of sorted x[0 … n); NaN equals nothing.  Their number; with `first` also where each begins. */
typedef int64_t cj_runs_fn(cj_dtype t, const void *x, int64_t n, int64_t *first);

#endif
