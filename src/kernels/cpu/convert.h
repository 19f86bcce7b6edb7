/* Conversion of runs of elements between all dtypes (convert.c), shared by the copies, reductions and random draws of this folder. */
#ifndef CJ_KERNELS_CPU_CONVERT_H
#define CJ_KERNELS_CPU_CONVERT_H

#include "cajal/core.h"
#include "kernels/cpu/isa.h"

/* Elements [0, n) of x, contiguous, to y, contiguous; x and y do not overlap (or are the same memory and dtype).
 * Floats to integers truncate and saturate, NaN becomes 0; integers saturate; anything to bool is x != 0; floats round once to nearest even. */
void CJ_K(cj__convert)(cj_dtype xt, const void *x, cj_dtype yt, void *y, int64_t n);

/* The same from strided x: x[0], x[stride], … */
void CJ_K(cj__convert_strided)(cj_dtype xt, const void *x, int64_t stride, cj_dtype yt, void *y, int64_t n);

/* n elements of `size` bytes (1, 2, 4, 8) between strided places. */
void CJ_K(cj__move_strided)(int size, const void *x, int64_t sx, void *y, int64_t sy, int64_t n);

static inline int cj__elem_size(cj_dtype t)
{
    static const unsigned char size[CJ_DTYPES] = { 4, 4, 8, 2, 2, 8, 4, 1, 1 };
    return size[t];
}

#endif
