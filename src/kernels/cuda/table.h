/* What the table of kernels is made of besides table.c itself: each turns a call into pointers, sizes and strides, and returns NULL or a message. */
#ifndef CJ_KERNELS_CUDA_TABLE_H
#define CJ_KERNELS_CUDA_TABLE_H

#include "core/core.h"

typedef const char *kernel_fn(void *state, const cj_call *call);

/* table_images.c */
kernel_fn gpu_run_conv, gpu_run_conv_data, gpu_run_conv_weight, gpu_run_conv_gradients, gpu_run_pool_max, gpu_run_pool_put,
    gpu_run_pool_sum, gpu_run_pool_spread, gpu_run_normalise, gpu_run_normalise_bwd, gpu_run_csr_matmul, gpu_run_csr_sampled;

#endif
