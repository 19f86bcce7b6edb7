/* Conversion of runs of elements between all dtypes.
 *
 * A pair of dtypes is a read into one of four working types (f32, f64, i64, i32) and a write from it, instantiated per pair by inlining with constant
 * dtypes; the compiler vectorises the loops.  Among f32, bf16 and f16 the vectors of simd.h convert.
 */
#include "kernels/cpu/convert.h"

#include "kernels/cpu/load.h"
#include "kernels/cpu/simd.h"

/* ---- write one value ----------------------------------------------------------------------------------------------------------------- */

/* f64 to f32 rounded to odd (Boldo and Melquiond, 2008): a second rounding, to a type at least two bits narrower, is then a single one. */
CJ_INLINE float f32_round_to_odd(double x)
{
    const float f = (float)x;
    if ((double)f == x || x != x) return f;
    uint32_t u = cj_f32_bits(f);
    if (fabs((double)f) > fabs(x)) u--; /* towards zero */
    return cj_f32_from_bits(u | 1u);
}

/* Clamped before the cast so that the cast is always defined; the largest float below 2^k stands in for 2^k - 1 until the select. */
CJ_INLINE int32_t i32_from_f64(double x)
{
    double c = x < 2147483647.0 ? x : 2147483647.0;
    c = c > -2147483648.0 ? c : -2147483648.0;
    const int32_t r = (int32_t)c;
    return x != x ? 0 : r;
}
CJ_INLINE int32_t i32_from_f32(float x)
{
    float c = x < 0x1.fffffep30f ? x : 0x1.fffffep30f;
    c = c > -0x1p31f ? c : -0x1p31f;
    int32_t r = (int32_t)c;
    r = x >= 0x1p31f ? INT32_MAX : r;
    return x != x ? 0 : r;
}
CJ_INLINE int64_t i64_from_f64(double x)
{
    double c = x < 0x1.fffffffffffffp62 ? x : 0x1.fffffffffffffp62;
    c = c > -0x1p63 ? c : -0x1p63;
    int64_t r = (int64_t)c;
    r = x >= 0x1p63 ? INT64_MAX : r;
    return x != x ? 0 : r;
}
CJ_INLINE uint8_t u8_from_f32(float x)
{
    float c = x < 255.0f ? x : 255.0f;
    c = c > 0.0f ? c : 0.0f;
    const int32_t r = (int32_t)c;
    return (uint8_t)(x != x ? 0 : r);
}
CJ_INLINE uint8_t u8_from_f64(double x)
{
    double c = x < 255.0 ? x : 255.0;
    c = c > 0.0 ? c : 0.0;
    const int32_t r = (int32_t)c;
    return (uint8_t)(x != x ? 0 : r);
}
CJ_INLINE int32_t i32_from_i64(int64_t x)
{
    x = x < INT32_MAX ? x : INT32_MAX;
    return (int32_t)(x > INT32_MIN ? x : INT32_MIN);
}
CJ_INLINE uint8_t u8_from_i64(int64_t x)
{
    x = x < 255 ? x : 255;
    return (uint8_t)(x > 0 ? x : 0);
}

CJ_INLINE void write_f32(cj_dtype t, void *y, int64_t i, float v)
{
    switch (t) {
    case CJ_F64: ((double *)y)[i] = v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = cj_bf16_from_f32(v); break;
    case CJ_F16: ((uint16_t *)y)[i] = cj_f16_from_f32(v); break;
    case CJ_I64: ((int64_t *)y)[i] = i64_from_f64(v); break;
    case CJ_I32: ((int32_t *)y)[i] = i32_from_f32(v); break;
    case CJ_U8: ((uint8_t *)y)[i] = u8_from_f32(v); break;
    case CJ_BOOL: ((uint8_t *)y)[i] = v != 0.0f; break;
    default: ((float *)y)[i] = v; break;
    }
}
CJ_INLINE void write_f64(cj_dtype t, void *y, int64_t i, double v)
{
    switch (t) {
    case CJ_F64: ((double *)y)[i] = v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = cj_bf16_from_f32(f32_round_to_odd(v)); break;
    case CJ_F16: ((uint16_t *)y)[i] = cj_f16_from_f32(f32_round_to_odd(v)); break;
    case CJ_I64: ((int64_t *)y)[i] = i64_from_f64(v); break;
    case CJ_I32: ((int32_t *)y)[i] = i32_from_f64(v); break;
    case CJ_U8: ((uint8_t *)y)[i] = u8_from_f64(v); break;
    case CJ_BOOL: ((uint8_t *)y)[i] = v != 0.0; break;
    default: ((float *)y)[i] = (float)v; break;
    }
}
CJ_INLINE void write_i64(cj_dtype t, void *y, int64_t i, int64_t v)
{
    switch (t) {
    case CJ_F64: ((double *)y)[i] = (double)v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = cj_bf16_from_f32((float)v); break;
    case CJ_F16: ((uint16_t *)y)[i] = cj_f16_from_f32((float)v); break;
    case CJ_I64: ((int64_t *)y)[i] = v; break;
    case CJ_I32: ((int32_t *)y)[i] = i32_from_i64(v); break;
    case CJ_U8: ((uint8_t *)y)[i] = u8_from_i64(v); break;
    case CJ_BOOL: ((uint8_t *)y)[i] = v != 0; break;
    default: ((float *)y)[i] = (float)v; break;
    }
}
CJ_INLINE void write_i32(cj_dtype t, void *y, int64_t i, int32_t v)
{
    switch (t) {
    case CJ_F64: ((double *)y)[i] = (double)v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = cj_bf16_from_f32((float)v); break;
    case CJ_F16: ((uint16_t *)y)[i] = cj_f16_from_f32((float)v); break;
    case CJ_I64: ((int64_t *)y)[i] = v; break;
    case CJ_I32: ((int32_t *)y)[i] = v; break;
    case CJ_U8: ((uint8_t *)y)[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); break;
    case CJ_BOOL: ((uint8_t *)y)[i] = v != 0; break;
    default: ((float *)y)[i] = (float)v; break;
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE int is_f32_like(cj_dtype t) { return t == CJ_F32 || t == CJ_BF16 || t == CJ_F16; }

CJ_INLINE void convert_pair(cj_dtype xt, const void *restrict x, cj_dtype yt, void *restrict y, int64_t n)
{
    int64_t i = 0;
    if (is_f32_like(xt)) {
        if (is_f32_like(yt))
            for (; i + CJ_VL <= n; i += CJ_VL) store_vf(yt, y, i, load_vf(xt, x, i));
        else if (xt != CJ_F32) { /* a block of f32 first: the two simple loops vectorise */ float block[256];
            for (; i + 256 <= n; i += 256) {
                for (int j = 0; j < 256; j += CJ_VL) vf_store(block + j, load_vf(xt, x, i + j));
                for (int j = 0; j < 256; j++) write_f32(yt, y, i + j, block[j]);
            }
        }
        for (; i < n; i++) write_f32(yt, y, i, load_one(xt, x, i));
    } else if (xt == CJ_F64) {
        for (; i < n; i++) write_f64(yt, y, i, ((const double *)x)[i]);
    } else if (xt == CJ_I64) {
        for (; i < n; i++) write_i64(yt, y, i, ((const int64_t *)x)[i]);
    } else if (xt == CJ_I32) {
        for (; i < n; i++) write_i32(yt, y, i, ((const int32_t *)x)[i]);
    } else if (xt == CJ_U8) {
        for (; i < n; i++) write_i32(yt, y, i, ((const uint8_t *)x)[i]);
    } else {
        for (; i < n; i++) write_i32(yt, y, i, ((const uint8_t *)x)[i] != 0);
    }
}

#define FROM(xt)                                                                                                                           \
    static void from_##xt(const void *x, cj_dtype yt, void *y, int64_t n)                                                                  \
    {                                                                                                                                      \
        switch (yt) {                                                                                                                      \
        case CJ_F64: convert_pair(xt, x, CJ_F64, y, n); break;                                                                             \
        case CJ_BF16: convert_pair(xt, x, CJ_BF16, y, n); break;                                                                           \
        case CJ_F16: convert_pair(xt, x, CJ_F16, y, n); break;                                                                             \
        case CJ_I64: convert_pair(xt, x, CJ_I64, y, n); break;                                                                             \
        case CJ_I32: convert_pair(xt, x, CJ_I32, y, n); break;                                                                             \
        case CJ_U8: convert_pair(xt, x, CJ_U8, y, n); break;                                                                               \
        case CJ_BOOL: convert_pair(xt, x, CJ_BOOL, y, n); break;                                                                           \
        default: convert_pair(xt, x, CJ_F32, y, n); break;                                                                                 \
        }                                                                                                                                  \
    }
FROM(CJ_F32)
FROM(CJ_F64)
FROM(CJ_BF16)
FROM(CJ_F16)
FROM(CJ_I64)
FROM(CJ_I32)
FROM(CJ_U8)
FROM(CJ_BOOL)
#undef FROM

void CJ_K(cj__convert)(cj_dtype xt, const void *x, cj_dtype yt, void *y, int64_t n)
{
    if (n <= 0) return;
    if (xt == yt) {
        if (x != y) memcpy(y, x, (size_t)n * (size_t)cj__elem_size(xt));
        return;
    }
    switch (xt) {
    case CJ_F64: from_CJ_F64(x, yt, y, n); break;
    case CJ_BF16: from_CJ_BF16(x, yt, y, n); break;
    case CJ_F16: from_CJ_F16(x, yt, y, n); break;
    case CJ_I64: from_CJ_I64(x, yt, y, n); break;
    case CJ_I32: from_CJ_I32(x, yt, y, n); break;
    case CJ_U8: from_CJ_U8(x, yt, y, n); break;
    case CJ_BOOL: from_CJ_BOOL(x, yt, y, n); break;
    default: from_CJ_F32(x, yt, y, n); break;
    }
}

/* ---- strided --------------------------------------------------------------------------------------------------------------------------- */

#define MOVE(type)                                                                                                                         \
    do {                                                                                                                                   \
        const type *p = x;                                                                                                                 \
        type *q = y;                                                                                                                       \
        if (sx == 0) {                                                                                                                     \
            const type v = *p;                                                                                                             \
            if (sy == 1)                                                                                                                   \
                for (int64_t i = 0; i < n; i++) q[i] = v;                                                                                  \
            else                                                                                                                           \
                for (int64_t i = 0; i < n; i++) q[i * sy] = v;                                                                             \
        } else if (sy == 1)                                                                                                                \
            for (int64_t i = 0; i < n; i++) q[i] = p[i * sx];                                                                              \
        else if (sx == 1)                                                                                                                  \
            for (int64_t i = 0; i < n; i++) q[i * sy] = p[i];                                                                              \
        else                                                                                                                               \
            for (int64_t i = 0; i < n; i++) q[i * sy] = p[i * sx];                                                                         \
    } while (0)

void CJ_K(cj__move_strided)(int size, const void *x, int64_t sx, void *y, int64_t sy, int64_t n)
{
    if (n <= 0) return;
    switch (size) {
    case 1: MOVE(uint8_t); break;
    case 2: MOVE(uint16_t); break;
    case 4: MOVE(uint32_t); break;
    default: MOVE(uint64_t); break;
    }
}
#undef MOVE

void CJ_K(cj__convert_strided)(cj_dtype xt, const void *x, int64_t stride, cj_dtype yt, void *y, int64_t n)
{
    const int xe = cj__elem_size(xt), ye = cj__elem_size(yt);
    if (stride == 1) {
        CJ_K(cj__convert)(xt, x, yt, y, n);
        return;
    }
    if (xt == yt) {
        CJ_K(cj__move_strided)(xe, x, stride, y, 1, n);
        return;
    }
    uint64_t block[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t m = n - i < 256 ? n - i : 256;
        CJ_K(cj__move_strided)(xe, (const char *)x + i * stride * xe, stride, block, 1, m);
        CJ_K(cj__convert)(xt, block, yt, (char *)y + i * ye, m);
    }
}
