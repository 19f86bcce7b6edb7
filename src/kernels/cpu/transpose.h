/* CJ_TRANSPOSE(name, V, M, lanes): defines name(V *x), which transposes `lanes` vectors of `lanes` elements in place; M is the vector of integers of V's size.
 *
 * Read as bits, (row, lane) is rotated by one place in every stage: rows i and i + lanes/2 become their elements in turn. */
#ifndef CJ_KERNELS_CPU_TRANSPOSE_H
#define CJ_KERNELS_CPU_TRANSPOSE_H

#include "kernels/cpu/simd.h"

#define CJ_TRANSPOSE(name, V, M, lanes)                                                                                                    \
    CJ_INLINE void name(V *x)                                                                                                              \
    {                                                                                                                                      \
        M low, high;                                                                                                                       \
        for (int l = 0; l < (lanes); l++) {                                                                                                \
            low[l] = l / 2 + (l % 2) * (lanes);                                                                                            \
            high[l] = low[l] + (lanes) / 2;                                                                                                \
        }                                                                                                                                  \
        for (int stage = 1; stage < (lanes); stage *= 2) {                                                                                 \
            V y[lanes];                                                                                                                    \
            for (int i = 0; i < (lanes) / 2; i++) {                                                                                        \
                y[2 * i] = __builtin_shuffle(x[i], x[i + (lanes) / 2], low);                                                               \
                y[2 * i + 1] = __builtin_shuffle(x[i], x[i + (lanes) / 2], high);                                                          \
            }                                                                                                                              \
            memcpy(x, y, sizeof y);                                                                                                        \
        }                                                                                                                                  \
    }

#endif
