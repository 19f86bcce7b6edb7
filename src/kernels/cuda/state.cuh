/* What the kernels share: the state of an open device, the report of a bad index, launch arithmetic. */
#ifndef CJ_KERNELS_CUDA_STATE_CUH
#define CJ_KERNELS_CUDA_STATE_CUH

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/value.cuh"

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
struct gpu_jit;

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
    gpu_jit *jit;
};

/* NULL, or what went wrong with the last launch. */
const char *gpu_check(gpu_state *st);
const char *gpu_fail(gpu_state *st, const char *what, cudaError_t e);
void gpu_gemm_close(gpu_state *st);
void gpu_jit_close(gpu_state *st);

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

/* ---- dtypes --------------------------------------------------------------------------------------------------------------------------------- */

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

#endif
