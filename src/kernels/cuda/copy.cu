/* Copies over any strides and dtypes, constants, ranges. */
#include "kernels/cuda/state.cuh"

/* ---- strided copy --------------------------------------------------------------------------------------------------------------------------- */

struct copy_args {
    int64_t n;
    int ndim, xt, yt;
    bool wide;
    int64_t size[CJ_MAX_DIMS], xs[CJ_MAX_DIMS], ys[CJ_MAX_DIMS];
    divider by[CJ_MAX_DIMS];
    const char *x;
    char *y;
    gpu_position position;
    gpu_flag flag;
};

static __device__ __forceinline__ void places(const copy_args &k, int64_t i, int64_t *x, int64_t *y)
{
    int64_t ax = 0, ay = 0;
    for (int d = k.ndim - 1; d > 0; d--) {
        int64_t r;
        if (k.wide) {
            const int64_t q = i / k.size[d];
            r = i - q * k.size[d];
            i = q;
        } else {
            const uint32_t q = divide((uint32_t)i, k.by[d]);
            r = (uint32_t)i - q * k.by[d].n;
            i = q;
        }
        ax += r * k.xs[d];
        ay += r * k.ys[d];
    }
    *x = ax + i * k.xs[0];
    *y = ay + i * k.ys[0];
}

/* Elements of one size moved as they are. */
template <class E> static __global__ void move(const __grid_constant__ copy_args k)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    E *y = (E *)k.y;
    if (k.position.at) y += gpu_clamp(k.flag, GPU_WRITE_SLICE, *k.position.at, 0, k.position.limit + 1) * k.position.stride;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += step) {
        int64_t from, to;
        places(k, i, &from, &to);
        y[to] = ((const E *)k.x)[from];
    }
}

/* The same where x runs along axis a and y along axis b: squares of TURN by TURN elements go through shared memory, so that both sides move whole lines. */
enum { TURN = 32, TURN_ROWS = 8 };
template <class E> static __global__ void __launch_bounds__(TURN *TURN_ROWS) turn(const __grid_constant__ copy_args k, int a, int b)
{
    __shared__ E square[TURN][TURN + 1];
    const int across = threadIdx.x % TURN, down = threadIdx.x / TURN;
    const int64_t as = (k.size[a] + TURN - 1) / TURN, bs = (k.size[b] + TURN - 1) / TURN, squares = k.n / k.size[a] / k.size[b] * as * bs;
    E *y = (E *)k.y;
    if (k.position.at) y += gpu_clamp(k.flag, GPU_WRITE_SLICE, *k.position.at, 0, k.position.limit + 1) * k.position.stride;
    for (int64_t s = blockIdx.x; s < squares; s += gridDim.x) {
        const int64_t a0 = s % as * TURN, b0 = s / as % bs * TURN;
        int64_t left = s / as / bs, from = 0, to = 0;
        for (int d = k.ndim - 1; d >= 0; d--) {
            if (d == a || d == b) continue;
            from += left % k.size[d] * k.xs[d];
            to += left % k.size[d] * k.ys[d];
            left /= k.size[d];
        }
#pragma unroll
        for (int r = down; r < TURN; r += TURN_ROWS)
            if (a0 + across < k.size[a] && b0 + r < k.size[b])
                square[r][across] = ((const E *)k.x)[from + a0 + across + (b0 + r) * k.xs[b]];
        __syncthreads();
#pragma unroll
        for (int r = down; r < TURN; r += TURN_ROWS)
            if (b0 + across < k.size[b] && a0 + r < k.size[a]) y[to + b0 + across + (a0 + r) * k.ys[a]] = square[across][r];
        __syncthreads();
    }
}

template <class E> static bool try_turn(const gpu_state *st, const copy_args &k)
{
    int a = -1, b = -1;
    for (int d = 0; d < k.ndim; d++) {
        if (k.xs[d] == 1) a = d;
        if (k.ys[d] == 1) b = d;
    }
    if (a < 0 || b < 0 || a == b || k.xs[b] == 0 || k.size[a] < TURN / 2 || k.size[b] < TURN / 2) return false;
    const int64_t squares = k.n / k.size[a] / k.size[b] * ((k.size[a] + TURN - 1) / TURN) * ((k.size[b] + TURN - 1) / TURN);
    turn<E><<<gpu_blocks(st, squares, 1, 64), TURN * TURN_ROWS, 0, st->stream>>>(k, a, b);
    return true;
}

template <class E> static void launch_move(const gpu_state *st, const copy_args &k)
{
    if (!try_turn<E>(st, k)) move<E><<<gpu_blocks(st, k.n, 256), 256, 0, st->stream>>>(k);
}

static __global__ void convert(const __grid_constant__ copy_args k)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += step) {
        int64_t from, to;
        places(k, i, &from, &to);
        if (k.xt == CJ_F32 || k.xt == CJ_BF16 || k.xt == CJ_F16) store_as(k.yt, k.y, to, load_as<float>(k.xt, k.x, from));
        else if (k.xt == CJ_F64) store_as(k.yt, k.y, to, ((const double *)k.x)[from]);
        else store_as(k.yt, k.y, to, load_as<int64_t>(k.xt, k.x, from));
    }
}

const char *gpu_copy(gpu_state *st, int ndim, const int64_t *shape, int xt, const void *x, const int64_t *xs, int yt, void *y,
                     const int64_t *ys, gpu_position position)
{
    gpu_use(st);
    copy_args k = {};
    k.n = 1;
    for (int d = 0; d < ndim; d++) {
        k.n *= shape[d];
        if (shape[d] == 1) continue;
        int n = k.ndim;
        if (n && k.xs[n - 1] == xs[d] * shape[d] && k.ys[n - 1] == ys[d] * shape[d]) k.size[--n] *= shape[d];
        else k.size[n] = shape[d];
        k.xs[n] = xs[d];
        k.ys[n] = ys[d];
        k.ndim = n + 1;
    }
    if (k.n == 0) return NULL;
    if (k.ndim == 0) k.ndim = 1, k.size[0] = 1;
    k.xt = xt, k.yt = yt, k.x = (const char *)x, k.y = (char *)y, k.position = position, k.flag = st->flag;
    int elem = gpu_elem(xt), last = k.ndim - 1;
    if (xt == yt) { /* wider elements where rows are whole and aligned */
        bool unit = k.xs[last] == 1 && k.ys[last] == 1;
        for (int wide = 16; unit && wide > elem; wide /= 2) {
            const int64_t f = wide / elem;
            bool fits = k.size[last] % f == 0 && (uintptr_t)x % wide == 0 && (uintptr_t)y % wide == 0 && position.stride % f == 0;
            for (int d = 0; d < last && fits; d++) fits = k.xs[d] % f == 0 && k.ys[d] % f == 0;
            if (!fits) continue;
            for (int d = 0; d < last; d++) k.xs[d] /= f, k.ys[d] /= f;
            k.size[last] /= f, k.n /= f, k.position.stride /= f;
            elem = wide;
            break;
        }
    }
    k.wide = k.n > INT32_MAX;
    for (int d = 0; d < k.ndim; d++) k.by[d] = divider_of(k.wide ? 1 : (uint32_t)k.size[d]);
    if (xt != yt) convert<<<gpu_blocks(st, k.n, 256), 256, 0, st->stream>>>(k);
    else if (elem == 16) move<uint4><<<gpu_blocks(st, k.n, 256), 256, 0, st->stream>>>(k);
    else if (elem == 8) launch_move<uint64_t>(st, k);
    else if (elem == 4) launch_move<uint32_t>(st, k);
    else if (elem == 2) launch_move<uint16_t>(st, k);
    else launch_move<uint8_t>(st, k);
    return gpu_check(st);
}

/* ---- constants and ranges ---------------------------------------------------------------------------------------------------------------------- */

template <class E> static __global__ void fill(E *y, int64_t n, E value)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) y[i] = value;
}

const char *gpu_fill(gpu_state *st, int t, void *y, int64_t n, double value)
{
    gpu_use(st);
    if (n == 0) return NULL;
    const int elem = gpu_elem(t);
    uint64_t one = 0, bits;
    store_as(t, &one, 0, value);
    bits = elem == 1 ? one * 0x0101010101010101u : elem == 2 ? one * 0x0001000100010001u : elem == 4 ? one * 0x0000000100000001u : one;
    const int64_t bytes = n * elem;
    if (bytes % 16 == 0 && (uintptr_t)y % 16 == 0) {
        const uint4 v = { (uint32_t)bits, (uint32_t)(bits >> 32), (uint32_t)bits, (uint32_t)(bits >> 32) };
        fill<uint4><<<gpu_blocks(st, bytes / 16, 256), 256, 0, st->stream>>>((uint4 *)y, bytes / 16, v);
    } else if (elem == 8) fill<uint64_t><<<gpu_blocks(st, n, 256), 256, 0, st->stream>>>((uint64_t *)y, n, one);
    else if (elem == 4) fill<uint32_t><<<gpu_blocks(st, n, 256), 256, 0, st->stream>>>((uint32_t *)y, n, (uint32_t)one);
    else if (elem == 2) fill<uint16_t><<<gpu_blocks(st, n, 256), 256, 0, st->stream>>>((uint16_t *)y, n, (uint16_t)one);
    else fill<uint8_t><<<gpu_blocks(st, n, 256), 256, 0, st->stream>>>((uint8_t *)y, n, (uint8_t)one);
    return gpu_check(st);
}

static __global__ void range(int t, void *y, int64_t n, double start, double step)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) store_as(t, y, i, start + (double)i * step);
}

const char *gpu_arange(gpu_state *st, int t, void *y, int64_t n, double start, double step)
{
    gpu_use(st);
    if (n == 0) return NULL;
    range<<<gpu_blocks(st, n, 256), 256, 0, st->stream>>>(t, y, n, start, step);
    return gpu_check(st);
}
