/* One pass over a row of f32, bf16 or f16 that writes a row: head, whole vectors, tail, past the cache where the result is large. */
#ifndef CJ_KERNELS_CPU_ROW_PASS_H
#define CJ_KERNELS_CPU_ROW_PASS_H

#include "kernels/cpu/load.h"

/* Large f32 results go past the cache: nobody finds them there later, and the destination need not be read first. */
#define STREAM_BYTES (16 << 20)

CJ_INLINE bool streams(cj_dtype t, int64_t rows, int64_t n) { return t == CJ_F32 && rows * n * 4 >= STREAM_BYTES && n >= 4 * CJ_VL; }

/* Elements of a row before the first aligned one; a row that is not streamed needs no alignment. */
CJ_INLINE int row_head(const void *y, bool stream)
{
    return stream ? (int)((uintptr_t)(-(intptr_t)(uintptr_t)y) / sizeof(float) % CJ_VL) : 0;
}

CJ_INLINE void put_vf(cj_dtype t, void *y, int64_t i, vf v, bool stream)
{
    if (stream) vf_stream((float *)y + i, v);
    else store_vf(t, y, i, v);
}

/* Runs `value` (an expression of i and m, the lanes in use) over a row: head, whole vectors, tail.  The last pass over a row works from the cache;
 * meanwhile the next row, at `next`, is on its way from memory. */
#define FOR_ROW(t, y, n, stream, load, next, value)                                                                                        \
    do {                                                                                                                                   \
        int64_t i = 0;                                                                                                                     \
        int m = row_head(y, stream);                                                                                                       \
        if (m > 0) store_vf_n(t, y, i, value(load_vf_n(t, load, i, m)), m), i = m;                                                         \
        m = CJ_VL;                                                                                                                         \
        for (; i + CJ_VL <= n; i += CJ_VL) {                                                                                               \
            __builtin_prefetch((const char *)(next) + i * (t == CJ_F32 ? 4 : 2), 0, 2);                                                    \
            put_vf(t, y, i, value(load_vf(t, load, i)), stream);                                                                           \
        }                                                                                                                                  \
        m = (int)(n - i);                                                                                                                  \
        if (m > 0) store_vf_n(t, y, i, value(load_vf_n(t, load, i, m)), m);                                                                \
    } while (0)

#endif
