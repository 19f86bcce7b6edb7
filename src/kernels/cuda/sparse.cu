/* Products with sparse matrices in compressed rows, as kernels/cpu/sparse.h has them.  A bad column is clamped and reported, bad offsets are cut to the entries that there are. */
#include "kernels/cuda/state.cuh"

/* Element (row, j) of y: the entries of the row one after the other. */
template <class S, class C>
static __global__ void csr_rows(const __grid_constant__ gpu_csr m, const S *values, const S *x, S *y, gpu_flag flag)
{
    const int64_t total = m.rows * m.k;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = i / m.k, j = i - row * m.k;
        const int64_t begin = between(m.offsets[row], 0, m.entries), end = between(m.offsets[row + 1], 0, m.entries);
        C sum = 0;
        for (int64_t p = begin; p < end; p++) {
            const int64_t at = gpu_clamp(flag, GPU_CSR, m.columns[p], p, m.cols);
            const int64_t v = m.entry ? gpu_clamp(flag, GPU_CSR, m.entry[p], p, m.entries) : p;
            sum = fma(value_of(values[v]), value_of(x[at * m.k + j]), sum);
        }
        put(y + i, sum);
    }
}

/* A warp for every row: the dot products of its entries, lanes along k. */
template <class S, class C>
static __global__ void csr_dots(const __grid_constant__ gpu_csr m, const S *x, const S *y, S *out, gpu_flag flag)
{
    const int lane = threadIdx.x % 32;
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
    for (int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < m.rows; row += warps) {
        const int64_t begin = between(m.offsets[row], 0, m.entries), end = between(m.offsets[row + 1], 0, m.entries);
        for (int64_t p = begin; p < end; p++) {
            const int64_t at = gpu_clamp(flag, GPU_CSR, m.columns[p], p, m.cols);
            C sum = 0;
            for (int64_t j = lane; j < m.k; j += 32) sum = fma(value_of(x[row * m.k + j]), value_of(y[at * m.k + j]), sum);
#pragma unroll
            for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
            if (lane == 0) put(out + p, sum);
        }
    }
}

const char *gpu_csr_matmul(gpu_state *st, int t, const gpu_csr *m, const void *values, const void *x, void *y)
{
    gpu_use(st);
    if (m->rows * m->k == 0) return NULL;
    if (m->entries == 0 || m->cols == 0) return gpu_fill(st, t, y, m->rows * m->k, 0);
    GPU_BY_FLOAT(t, (csr_rows<S, C>
                     <<<gpu_blocks(st, m->rows * m->k, 128), 128, 0, st->stream>>>(*m, (const S *)values, (const S *)x, (S *)y, st->flag)));
    return gpu_check(st);
}

const char *gpu_csr_sampled(gpu_state *st, int t, const gpu_csr *m, const void *x, const void *y, void *out)
{
    gpu_use(st);
    if (m->entries == 0) return NULL;
    GPU_BY_FLOAT(t,
                 (csr_dots<S, C><<<gpu_blocks(st, m->rows, 4), 128, 0, st->stream>>>(*m, (const S *)x, (const S *)y, (S *)out, st->flag)));
    return gpu_check(st);
}
