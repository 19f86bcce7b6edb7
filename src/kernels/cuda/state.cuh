/* What the kernels share: the state of an open device, loads and stores by dtype, the report of a bad index, launch arithmetic. */
#ifndef CJ_KERNELS_CUDA_STATE_CUH
#define CJ_KERNELS_CUDA_STATE_CUH

#include <cublasLt.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cuda.h"

#define GPU_SCRATCH                                                                                                                        \
    ((size_t)64 << 20) /* partial results of one kernel; kernels follow one another on one stream, so one buffer serves all */
#define GPU_WORKSPACE ((size_t)32 << 20) /* cuBLASLt's, what NVIDIA recommends for Hopper */
#define GPU_BINS 256

/* A bad index, as the kernel that met it first wrote it into pinned host memory. */
struct gpu_report {
    int who; /* gpu_reporter + 1; 0: nothing happened */
    long long value, position, limit;
};
struct gpu_flag {
    unsigned *lock;     /* device memory: the first reporter takes it */
    gpu_report *report; /* pinned */
};

struct gpu_block {
    gpu_block *next;
    void *p;
};
struct gpu_place { /* where a live allocation belongs */
    void *p;
    int bin;
};
struct gpu_gemm_cache;

struct gpu_state {
    int device, sms;
    cudaStream_t stream;
    cublasLtHandle_t lt;
    char *scratch, *workspace;
    uint64_t *bases; /* of the random streams, read by graphs */
    gpu_flag flag;
    bool capturing, failed;
    cj_code code; /* of the failure */
    char message[512], description[256];
    /* allocator */
    gpu_block *bin[GPU_BINS], *spare; /* free blocks by class; unused list nodes */
    gpu_place *place;
    size_t places, places_cap;
    char *chunk; /* small blocks are cut from it */
    size_t chunk_left;
    void **chunks;
    int n_chunks, cap_chunks;
    gpu_gemm_cache *gemm;
};

/* NULL, or what went wrong with the last launch. */
const char *gpu_check(gpu_state *st);
const char *gpu_fail(gpu_state *st, const char *what, cudaError_t e);
void gpu_gemm_close(gpu_state *st);

static inline unsigned gpu_blocks(const gpu_state *st, int64_t items, int per_block, int per_sm = 16)
{
    int64_t n = (items + per_block - 1) / per_block, most = (int64_t)st->sms * per_sm;
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

/* Clamps an index into [0, limit) and reports it where that changed it. */
__device__ __forceinline__ int64_t gpu_clamp(gpu_flag flag, int who, int64_t index, int64_t position, int64_t limit)
{
    if (index >= 0 && index < limit) return index;
    if (atomicCAS(flag.lock, 0u, 1u) == 0u) {
        volatile gpu_report *r = flag.report;
        r->value = index;
        r->position = position;
        r->limit = limit;
        __threadfence_system();
        r->who = who + 1;
        __threadfence_system();
    }
    return index < 0 ? 0 : limit - 1;
}

/* ---- 16-bit floats ------------------------------------------------------------------------------------------------------------------------- */

struct bf16_t {
    uint16_t u;
};
struct f16_t {
    uint16_t u;
};

__host__ __device__ __forceinline__ float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
__host__ __device__ __forceinline__ uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
__host__ __device__ __forceinline__ float from_bf16(uint16_t h) { return bits_f32((uint32_t)h << 16); }
__host__ __device__ __forceinline__ uint16_t to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    return f != f ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
__host__ __device__ __forceinline__ float from_f16(uint16_t h)
{
    __half_raw x;
    x.x = h;
    return __half2float(x);
}
__host__ __device__ __forceinline__ uint16_t to_f16(float f) { return __half_raw(__float2half_rn(f)).x; }
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

/* By storage type, for kernels instantiated per dtype: S is stored, C computes. */
__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ double value_of(double x) { return x; }
__device__ __forceinline__ float value_of(bf16_t x) { return from_bf16(x.u); }
__device__ __forceinline__ float value_of(f16_t x) { return from_f16(x.u); }
__device__ __forceinline__ void put(float *y, float v) { *y = v; }
__device__ __forceinline__ void put(double *y, double v) { *y = v; }
__device__ __forceinline__ void put(bf16_t *y, float v) { y->u = to_bf16(v); }
__device__ __forceinline__ void put(f16_t *y, float v) { y->u = to_f16(v); }

/* Runs the statement with S and C set for a float dtype. */
#define GPU_BY_FLOAT(t, ...)                                                                                                               \
    switch (t) {                                                                                                                           \
    case CJ_F64: {                                                                                                                         \
        typedef double S;                                                                                                                  \
        typedef double C;                                                                                                                  \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    case CJ_BF16: {                                                                                                                        \
        typedef bf16_t S;                                                                                                                  \
        typedef float C;                                                                                                                   \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    case CJ_F16: {                                                                                                                         \
        typedef f16_t S;                                                                                                                   \
        typedef float C;                                                                                                                   \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    default: {                                                                                                                             \
        typedef float S;                                                                                                                   \
        typedef float C;                                                                                                                   \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }                                                                                                                                      \
    }

/* ---- division by a constant (Granlund and Montgomery, 1994), for indices below 2^31 ---------------------------------------------------------------- */

struct divider {
    uint32_t n, multiplier, shift;
};
static inline divider divider_of(uint32_t n)
{
    divider d = { n, 0, 0 };
    while (d.shift < 32 && (1ull << d.shift) < n) d.shift++;
    d.multiplier = (uint32_t)(((1ull << 32) * ((1ull << d.shift) - n)) / n + 1);
    return d;
}
__device__ __forceinline__ uint32_t divide(uint32_t x, divider d) { return (__umulhi(x, d.multiplier) + x) >> d.shift; }

#endif
