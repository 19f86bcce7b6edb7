/* Running sums, products and extrema along the middle axis of contiguous x [outer, len, inner] (scan.c). */
#ifndef CJ_KERNELS_CPU_SCAN_H
#define CJ_KERNELS_CPU_SCAN_H

#include "cajal/core.h"
#include "core/parallel.h"

typedef enum cj_scan_code { CJ_SCAN_SUM, CJ_SCAN_PROD, CJ_SCAN_LOGSUMEXP, CJ_SCAN_MAX, CJ_SCAN_MIN } cj_scan_code;

/* y of x's type for floats, accumulated in f64 and rounded once, and for extrema; sums and products of integers are i64 and wrap.  LOGSUMEXP takes floats only.
 * index (MAX, MIN): where the extremum so far was seen last; NaN wins.  reverse runs from the end. */
typedef void cj_scan_fn(cj_pool *pool, cj_scan_code code, cj_dtype t, const void *x, int64_t outer, int64_t len, int64_t inner,
                        bool reverse, void *y, int64_t *index);
/* dx from x, y and dy of PROD or LOGSUMEXP (floats), without any division, so that zeros are no exception. */
typedef void cj_scan_bwd_fn(cj_pool *pool, cj_scan_code code, cj_dtype t, const void *x, const void *y, const void *dy, int64_t outer,
                            int64_t len, int64_t inner, void *dx);

#endif
