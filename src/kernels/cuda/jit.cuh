/* Fused chains that are compiled at run time: what ew.cu asks of jit.cu. */
#ifndef CJ_KERNELS_CUDA_JIT_CUH
#define CJ_KERNELS_CUDA_JIT_CUH

#include "kernels/cuda/state.cuh"

/* How many registers an instruction reads. */
static const uint8_t arity_of[CJ_EW_CODES] = {
#define X(name, arity) arity,
    CJ_EW_OPS(X)
#undef X
};

/* Launches the program as a kernel of its own; dimensions as ew.cu has collapsed them.  False: it has to be interpreted. */
bool gpu_jit_run(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *size,
                 const int64_t (*stride)[CJ_MAX_DIMS], int64_t n);

#endif
