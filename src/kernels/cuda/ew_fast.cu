/* One elementwise instruction on contiguous f32 operands (or scalars): a kernel per instruction, four elements to a thread. */
#include "kernels/cuda/ew_fast.cuh"
#include "kernels/cuda/ew_value.cuh"

template <int CODE, bool VECTOR> static __global__ void ew_fast(fast_args k)
{
    const int64_t n = VECTOR ? k.n / 4 : k.n, step = (int64_t)gridDim.x * blockDim.x;
    bool fault = false;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        constexpr int W = VECTOR ? 4 : 1;
        float v[3][W], y[W];
#pragma unroll
        for (int a = 0; a < 3; a++) {
            if (!k.in[a]) {
                for (int l = 0; l < W; l++) v[a][l] = 0;
            } else if (k.scalar >> a & 1) {
                for (int l = 0; l < W; l++) v[a][l] = *k.in[a];
            } else if (VECTOR) {
                const float4 q = ((const float4 *)k.in[a])[i];
                v[a][0] = q.x, v[a][W > 1 ? 1 : 0] = q.y, v[a][W > 2 ? 2 : 0] = q.z, v[a][W > 3 ? 3 : 0] = q.w;
            } else {
                v[a][0] = k.in[a][i];
            }
        }
#pragma unroll
        for (int l = 0; l < W; l++) y[l] = ew_value<float>(CODE, v[0][l], v[1][l], v[2][l], k.s, &fault);
        if (k.to_bool) {
            if (VECTOR) ((uchar4 *)k.y)[i] = make_uchar4(y[0] != 0, y[W > 1 ? 1 : 0] != 0, y[W > 2 ? 2 : 0] != 0, y[W > 3 ? 3 : 0] != 0);
            else ((uint8_t *)k.y)[i] = y[0] != 0;
        } else if (VECTOR) {
            ((float4 *)k.y)[i] = make_float4(y[0], y[W > 1 ? 1 : 0], y[W > 2 ? 2 : 0], y[W > 3 ? 3 : 0]);
        } else {
            ((float *)k.y)[i] = y[0];
        }
    }
}

template <int CODE> static void launch_fast(const gpu_state *st, const fast_args &k, bool vector)
{
    if (vector) ew_fast<CODE, true><<<gpu_blocks(st, k.n / 4, 256), 256, 0, st->stream>>>(k);
    else ew_fast<CODE, false><<<gpu_blocks(st, k.n, 256), 256, 0, st->stream>>>(k);
}
typedef void launch_fn(const gpu_state *st, const fast_args &k, bool vector);
static launch_fn *const fast_table[CJ_EW_CODES] = {
#define X(name, arity) launch_fast<CJ_EW_##name>,
    CJ_EW_OPS(X)
#undef X
};

void gpu_ew_fast(const gpu_state *st, int code, const fast_args *k, bool vector) { fast_table[code](st, *k, vector); }
