/* What a fused chain that is compiled at run time is made of: its arguments, and loads and stores of W neighbours.  jit.cu writes the kernel around it. */
#ifndef CJ_KERNELS_CUDA_EW_JIT_CUH
#define CJ_KERNELS_CUDA_EW_JIT_CUH

#include "kernels/cuda/value.cuh"

struct jit_args {
    int64_t n;
    divider by[CJ_MAX_DIMS];
    char *data[CJ_EW_MAX_ARGS];
    int64_t stride[CJ_EW_MAX_ARGS][CJ_MAX_DIMS]; /* outermost first */
};

/* How the W neighbours of an argument lie: one value for all, one vector, or anywhere. */
enum { JIT_ONE, JIT_VECTOR, JIT_ANYWHERE };
constexpr int JIT_THREADS = 256;

template <int BYTES> struct jit_vector;
template <> struct jit_vector<4> {
    typedef uint32_t type;
};
template <> struct jit_vector<8> {
    typedef uint2 type;
};
template <> struct jit_vector<16> {
    typedef uint4 type;
};

/* 32 bytes are two vectors. */
template <int DTYPE, int BYTES, int WAY, class T, int W>
__device__ __forceinline__ void jit_load(const char *data, int64_t at, int64_t stride, T (&v)[W])
{
    if (WAY == JIT_ONE) {
        const T x = load_as<T>(DTYPE, data, at);
#pragma unroll
        for (int l = 0; l < W; l++) v[l] = x;
    } else if (WAY == JIT_VECTOR) {
        constexpr int SIZE = BYTES * W > 16 ? 16 : BYTES * W, PARTS = BYTES * W / SIZE;
        typename jit_vector<SIZE>::type q[PARTS];
#pragma unroll
        for (int i = 0; i < PARTS; i++) q[i] = ((const typename jit_vector<SIZE>::type *)(data + BYTES * at))[i];
#pragma unroll
        for (int l = 0; l < W; l++) v[l] = load_as<T>(DTYPE, q, l);
    } else {
#pragma unroll
        for (int l = 0; l < W; l++) v[l] = load_as<T>(DTYPE, data, at + l * stride);
    }
}

template <int DTYPE, int BYTES, int WAY, class T, int W>
__device__ __forceinline__ void jit_store(char *data, int64_t at, int64_t stride, const T (&v)[W])
{
    if (WAY == JIT_VECTOR) {
        constexpr int SIZE = BYTES * W > 16 ? 16 : BYTES * W, PARTS = BYTES * W / SIZE;
        typename jit_vector<SIZE>::type q[PARTS];
#pragma unroll
        for (int l = 0; l < W; l++) store_as(DTYPE, q, l, v[l]);
#pragma unroll
        for (int i = 0; i < PARTS; i++) ((typename jit_vector<SIZE>::type *)(data + BYTES * at))[i] = q[i];
    } else {
#pragma unroll
        for (int l = 0; l < W; l++) store_as(DTYPE, data, at + l * stride, v[l]);
    }
}

#endif
