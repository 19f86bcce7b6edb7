/* Bags of rows, counts and boxes (segment.c). */
#ifndef CJ_KERNELS_CPU_SEGMENT_H
#define CJ_KERNELS_CPU_SEGMENT_H

#include "cajal/core.h"
#include "core/parallel.h"

/* Bags: bag b holds the rows index[offset[b] … offset[b+1]) of a table [rows, d]; the last one ends at n.  Indices are in range, offsets ascend. */
typedef enum cj_bag_mode { CJ_BAG_MODE_SUM, CJ_BAG_MODE_MEAN, CJ_BAG_MODE_MAX } cj_bag_mode;
typedef struct cj_bag {
    cj_bag_mode mode;
    cj_dtype t;
    int64_t rows, d, n, bags;
    const int64_t *index, *offset;
    const void *weight; /* a factor per index (SUM), or NULL */
} cj_bag;
/* y [bags, d]: the sum, mean or maximum of the bag's rows, accumulated in f32 (f64), rounded once; an empty bag gives 0.  MAX: where [bags, d] is the row that each came
 * from, of ties the first, -1 of an empty bag. */
typedef void cj_bag_fn(cj_pool *pool, const cj_bag *b, const void *table, void *y, int64_t *where);
/* Adds to dtable, which is zero at first, what dy [bags, d] gives each row, in the order of the indices. */
typedef void cj_bag_bwd_fn(cj_pool *pool, const cj_bag *b, const void *dy, const int64_t *where, void *dtable);
/* The derivative of the factors: dweight[i] = dy[bag of i] · table[index[i]]. */
typedef void cj_bag_weights_bwd_fn(cj_pool *pool, const cj_bag *b, const void *dy, const void *table, void *dweight);

/* counts[v] = how often v occurs in x[0 … n), every v in [0, bins).  scratch: threads · bins values. */
typedef void cj_count_fn(cj_pool *pool, const int64_t *x, int64_t n, int64_t bins, int64_t *counts, int64_t *scratch);
/* counts[i] of the values in [edge i, edge i+1), edge i = low + i·(high - low)/bins; the last interval is closed, values outside of all are left out.  Returns the first
 * position of a NaN, or -1.  scratch as above. */
typedef int64_t cj_histogram_fn(cj_pool *pool, cj_dtype t, const void *x, int64_t n, int64_t bins, double low, double high, int64_t *counts,
                                int64_t *scratch);

/* Non-maximum suppression: boxes [n, 4] (left, top, right, bottom; f32 or f64), best first; keep[i] = no kept box before it, of the same class (NULL: one class for
 * all), overlaps it by more than the threshold.  scratch: 5·n values of type t. */
typedef void cj_suppress_fn(cj_dtype t, const void *boxes, const int64_t *classes, int64_t n, double threshold, uint8_t *keep,
                            void *scratch);

#endif
