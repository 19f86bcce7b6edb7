/* One elementwise instruction on contiguous f32 operands: what ew.cu hands to ew_fast.cu. */
#ifndef CJ_KERNELS_CUDA_EW_FAST_CUH
#define CJ_KERNELS_CUDA_EW_FAST_CUH

#include "kernels/cuda/state.cuh"

struct fast_args {
    const float *in[3];
    void *y;
    int64_t n;
    float s;
    int scalar; /* bit i: input i is one value */
    int to_bool;
};

/* vector: n is a multiple of 4 and all pointers are aligned to 16 bytes. */
void gpu_ew_fast(const gpu_state *st, int code, const fast_args *k, bool vector);

#endif
