/* Loads, stores and conversions by dtype, and division of indices: on nothing but the language, because the kernels that are compiled at run time (jit.cu) include this file, too. */
#ifndef CJ_KERNELS_CUDA_VALUE_CUH
#define CJ_KERNELS_CUDA_VALUE_CUH

#ifndef __CUDACC_RTC__
#include <cuda_fp16.h>
#include <math.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#endif

/* ---- 16-bit floats ------------------------------------------------------------------------------------------------------------------------- */

struct bf16_t {
    uint16_t u;
};
struct f16_t {
    uint16_t u;
};

__host__ __device__ __forceinline__ float bits_f32(uint32_t u)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(u);
#else
    float f;
    memcpy(&f, &u, 4);
    return f;
#endif
}
__host__ __device__ __forceinline__ uint32_t f32_bits(float f)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(f);
#else
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
#endif
}
__host__ __device__ __forceinline__ float from_bf16(uint16_t h) { return bits_f32((uint32_t)h << 16); }
__host__ __device__ __forceinline__ uint16_t to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    return f != f ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
__host__ __device__ __forceinline__ float from_f16(uint16_t h)
{
    float f;
#ifdef __CUDA_ARCH__
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
#else
    __half_raw x;
    x.x = h;
    f = __half2float(x);
#endif
    return f;
}
__host__ __device__ __forceinline__ uint16_t to_f16(float f)
{
    uint16_t h;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
#else
    h = __half_raw(__float2half_rn(f)).x;
#endif
    return h;
}
/* f64 to f32 rounded to odd, so that a second rounding to 16 bits is a single one (Boldo and Melquiond, 2008). */
__host__ __device__ __forceinline__ float f32_round_to_odd(double x)
{
    const float f = (float)x;
    if ((double)f == x || x != x) return f;
    uint32_t u = f32_bits(f);
    if (fabs((double)f) > fabs(x)) u--;
    return bits_f32(u | 1u);
}

/* ---- conversions: truncate and saturate, NaN to 0, as casts do --------------------------------------------------------------------------------- */

__host__ __device__ __forceinline__ int64_t f64_to_i64(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}
__host__ __device__ __forceinline__ int64_t between(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

template <class W> constexpr bool is_real = W(0.5) != W(0);

/* One element in a working type: float (for f32, bf16, f16), double, or int64_t. */
template <class W> __host__ __device__ __forceinline__ W load_as(int t, const void *x, int64_t i)
{
    switch (t) {
    case CJ_F32: return (W)((const float *)x)[i];
    case CJ_F64: return (W)((const double *)x)[i];
    case CJ_BF16: return (W)from_bf16(((const uint16_t *)x)[i]);
    case CJ_F16: return (W)from_f16(((const uint16_t *)x)[i]);
    case CJ_I64: return (W)((const int64_t *)x)[i];
    case CJ_I32: return (W)((const int32_t *)x)[i];
    default: return (W)((const uint8_t *)x)[i];
    }
}
template <> __host__ __device__ __forceinline__ int64_t load_as<int64_t>(int t, const void *x, int64_t i)
{
    switch (t) {
    case CJ_I64: return ((const int64_t *)x)[i];
    case CJ_I32: return ((const int32_t *)x)[i];
    case CJ_U8:
    case CJ_BOOL: return ((const uint8_t *)x)[i];
    default: return f64_to_i64(load_as<double>(t, x, i));
    }
}

__host__ __device__ __forceinline__ void store_as(int t, void *y, int64_t i, double v)
{
    switch (t) {
    case CJ_F32: ((float *)y)[i] = (float)v; break;
    case CJ_F64: ((double *)y)[i] = v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = to_bf16(f32_round_to_odd(v)); break;
    case CJ_F16: ((uint16_t *)y)[i] = to_f16(f32_round_to_odd(v)); break;
    case CJ_I64: ((int64_t *)y)[i] = f64_to_i64(v); break;
    case CJ_I32: ((int32_t *)y)[i] = (int32_t)between(f64_to_i64(v), INT32_MIN, INT32_MAX); break;
    case CJ_U8: ((uint8_t *)y)[i] = (uint8_t)between(f64_to_i64(v), 0, 255); break;
    default: ((uint8_t *)y)[i] = v != 0; break;
    }
}
__host__ __device__ __forceinline__ void store_as(int t, void *y, int64_t i, float v)
{
    switch (t) {
    case CJ_F32: ((float *)y)[i] = v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = to_bf16(v); break;
    case CJ_F16: ((uint16_t *)y)[i] = to_f16(v); break;
    case CJ_BOOL: ((uint8_t *)y)[i] = v != 0; break;
    default: store_as(t, y, i, (double)v);
    }
}
__host__ __device__ __forceinline__ void store_as(int t, void *y, int64_t i, int64_t v)
{
    switch (t) {
    case CJ_F32: ((float *)y)[i] = (float)v; break;
    case CJ_F64: ((double *)y)[i] = (double)v; break;
    case CJ_BF16: ((uint16_t *)y)[i] = to_bf16((float)v); break;
    case CJ_F16: ((uint16_t *)y)[i] = to_f16((float)v); break;
    case CJ_I64: ((int64_t *)y)[i] = v; break;
    case CJ_I32: ((int32_t *)y)[i] = (int32_t)between(v, INT32_MIN, INT32_MAX); break;
    case CJ_U8: ((uint8_t *)y)[i] = (uint8_t)between(v, 0, 255); break;
    default: ((uint8_t *)y)[i] = v != 0; break;
    }
}

/* ---- division by a constant (Granlund and Montgomery, 1994), for indices below 2^31 ---------------------------------------------------------------- */

struct divider {
    uint32_t n, multiplier, shift;
};
#ifndef __CUDACC_RTC__
static inline divider divider_of(uint32_t n)
{
    divider d = { n, 0, 0 };
    while (d.shift < 32 && (1ull << d.shift) < n) d.shift++;
    d.multiplier = (uint32_t)(((1ull << 32) * ((1ull << d.shift) - n)) / n + 1);
    return d;
}
#endif
__device__ __forceinline__ uint32_t divide(uint32_t x, divider d) { return (__umulhi(x, d.multiplier) + x) >> d.shift; }

#endif
