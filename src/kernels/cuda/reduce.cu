/* Reductions of [outer, len, inner] over len.
 *
 * Rows (len is the closer axis) take a warp or a block per result; columns (inner is closer) take a lane per result, eight rows at a time.  Where there are too
 * few results to fill the device, len is cut into parts by the shape alone and a second kernel combines them.  Floats accumulate in f64.  No atomics: the
 * order of every sum is fixed by the shape.
 */
#include "kernels/cuda/state.cuh"

enum { PARTS_PER_SM = 8, MOST_PARTS = 2048 }; /* as many blocks as a multiprocessor holds */

/* A partial result of working type W (double or int64_t); `at` is where an extreme was found. */
template <class W> struct part {
    W v;
    int64_t at;
};

struct reduce_args {
    int t, yt;
    const void *x;
    int64_t outer, len, inner, so, sl, si, results, per_part;
    void *y;
    void *partial; /* [parts][results], or NULL: straight to y */
    double scale;
};

template <class W, int CODE> static __device__ __forceinline__ part<W> identity()
{
    if (CODE == CJ_RED_PROD || CODE == CJ_RED_ALL) return { W(1), 0 };
    if (CODE == CJ_RED_SUM || CODE == CJ_RED_ANY) return { W(0), 0 };
    const bool max = CODE == CJ_RED_MAX || CODE == CJ_RED_ARGMAX;
    if constexpr (is_real<W>) return { (W)(max ? -INFINITY : INFINITY), INT64_MAX };
    else return { (W)(max ? INT64_MIN : INT64_MAX), INT64_MAX };
}

/* Does b beat a?  NaN beats all but NaN. */
template <class W, int CODE> static __device__ __forceinline__ bool beats(W b, W a)
{
    return (CODE == CJ_RED_MAX || CODE == CJ_RED_ARGMAX ? b > a : b < a) || (b != b && a == a);
}

template <class W, int CODE> static __device__ __forceinline__ part<W> combine(part<W> a, part<W> b)
{
    switch (CODE) {
    case CJ_RED_SUM: a.v += b.v; return a;
    case CJ_RED_PROD: a.v *= b.v; return a;
    case CJ_RED_ANY: a.v = a.v != 0 || b.v != 0; return a;
    case CJ_RED_ALL: a.v = a.v != 0 && b.v != 0; return a;
    default:
        if (beats<W, CODE>(b.v, a.v)) return b;
        if (beats<W, CODE>(a.v, b.v)) return a;
        return a.at <= b.at ? a : b; /* the first of equals */
    }
}

template <class W, int CODE> static __device__ __forceinline__ part<W> load(const reduce_args &k, int64_t base, int64_t j)
{
    const int64_t i = base + j * k.sl;
    W v = k.t == CJ_F32 && is_real<W> ? (W)((const float *)k.x)[i] : load_as<W>(k.t, k.x, i);
    if (CODE == CJ_RED_ANY || CODE == CJ_RED_ALL) v = v != 0;
    return { v, j };
}

template <class W, int CODE> static __device__ __forceinline__ void finish(const reduce_args &k, int64_t r, part<W> p)
{
    if (CODE == CJ_RED_ARGMAX || CODE == CJ_RED_ARGMIN) ((int64_t *)k.y)[r] = p.at;
    else if (CODE == CJ_RED_SUM && is_real<W>) store_as(k.yt, k.y, r, (W)(p.v * (W)k.scale));
    else if (!is_real<W> && k.yt == CJ_I32) ((int32_t *)k.y)[r] = (int32_t)p.v;
    else store_as(k.yt, k.y, r, p.v);
}

template <class W> static __device__ __forceinline__ part<W> from_lane(part<W> p, int delta)
{
    return { __shfl_down_sync(0xffffffffu, p.v, delta), (int64_t)__shfl_down_sync(0xffffffffu, (long long)p.at, delta) };
}

template <class W, int CODE> static __device__ __forceinline__ part<W> warp_reduce(part<W> p)
{
#pragma unroll
    for (int d = 16; d; d /= 2) p = combine<W, CODE>(p, from_lane(p, d));
    return p;
}

/* Every warp holds a part: combines them in warp order; thread 0 has the result. */
template <class W, int CODE> static __device__ __forceinline__ part<W> block_reduce(part<W> p)
{
    __shared__ part<W> warps[32];
    p = warp_reduce<W, CODE>(p);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = p;
    __syncthreads();
    if (threadIdx.x < 32) {
        p = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : identity<W, CODE>();
        p = warp_reduce<W, CODE>(p);
    }
    return p;
}

/* LANES threads per result: 32 or a block of 256. */
template <class W, int CODE, int LANES> static __global__ void __launch_bounds__(256) reduce_rows(const reduce_args k)
{
    const int64_t r = (int64_t)blockIdx.x * (256 / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    if (r >= k.results) return; /* whole warps only */
    const int64_t begin = (int64_t)blockIdx.y * k.per_part, end = begin + k.per_part < k.len ? begin + k.per_part : k.len;
    const int64_t base = r / k.inner * k.so + r % k.inner * k.si;
    part<W> p = identity<W, CODE>();
#pragma unroll 4
    for (int64_t j = begin + lane; j < end; j += LANES) p = combine<W, CODE>(p, load<W, CODE>(k, base, j));
    p = LANES == 32 ? warp_reduce<W, CODE>(p) : block_reduce<W, CODE>(p);
    if (lane) return;
    if (k.partial) ((part<W> *)k.partial)[blockIdx.y * k.results + r] = p;
    else finish<W, CODE>(k, r, p);
}

/* 32 results across, 8 rows of threads down. */
template <class W, int CODE> static __global__ void __launch_bounds__(256) reduce_columns(const reduce_args k)
{
    __shared__ part<W> tile[8][32];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int64_t r = (int64_t)blockIdx.x * 32 + x;
    const int64_t begin = (int64_t)blockIdx.y * k.per_part, end = begin + k.per_part < k.len ? begin + k.per_part : k.len;
    part<W> p = identity<W, CODE>();
    if (r < k.results) {
        const int64_t base = r / k.inner * k.so + r % k.inner * k.si;
#pragma unroll 4
        for (int64_t j = begin + y; j < end; j += 8) p = combine<W, CODE>(p, load<W, CODE>(k, base, j));
    }
    tile[y][x] = p;
    __syncthreads();
    if (y || r >= k.results) return;
#pragma unroll
    for (int i = 1; i < 8; i++) p = combine<W, CODE>(p, tile[i][x]);
    if (k.partial) ((part<W> *)k.partial)[blockIdx.y * k.results + r] = p;
    else finish<W, CODE>(k, r, p);
}

/* A warp per result over its parts. */
template <class W, int CODE> static __global__ void reduce_parts(const reduce_args k, int parts)
{
    const int64_t r = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (r >= k.results) return;
    part<W> p = identity<W, CODE>();
    for (int i = threadIdx.x % 32; i < parts; i += 32) p = combine<W, CODE>(p, ((const part<W> *)k.partial)[(int64_t)i * k.results + r]);
    p = warp_reduce<W, CODE>(p);
    if (threadIdx.x % 32 == 0) finish<W, CODE>(k, r, p);
}

template <class W, int CODE> static void launch(gpu_state *st, reduce_args k)
{
    const bool columns = k.inner > 1 && (k.si < 0 ? -k.si : k.si) < (k.sl < 0 ? -k.sl : k.sl);
    const int lanes = k.len > 1024 ? 256 : 32;
    const int64_t per_block = columns ? 32 : 256 / lanes, blocks = (k.results + per_block - 1) / per_block;
    const int64_t least = columns ? 64 : 2048; /* elements worth a part */
    int64_t parts = PARTS_PER_SM * st->sms / blocks, most = (k.len + least - 1) / least,
            room = (int64_t)(GPU_SCRATCH / sizeof(part<W>)) / k.results;
    parts = parts < most ? parts : most;
    parts = parts < room ? parts : room;
    parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
    k.per_part = parts > 1 ? (k.len + parts - 1) / parts : k.len;
    if (parts > 1) parts = (k.len + k.per_part - 1) / k.per_part;
    k.partial = parts > 1 ? st->scratch : NULL;
    const dim3 grid((unsigned)blocks, (unsigned)parts);
    if (columns) reduce_columns<W, CODE><<<grid, 256, 0, st->stream>>>(k);
    else if (lanes == 32) reduce_rows<W, CODE, 32><<<grid, 256, 0, st->stream>>>(k);
    else reduce_rows<W, CODE, 256><<<grid, 256, 0, st->stream>>>(k);
    if (parts > 1) reduce_parts<W, CODE><<<(unsigned)((k.results + 7) / 8), 256, 0, st->stream>>>(k, (int)parts);
}

template <class W> static void launch_code(gpu_state *st, int code, const reduce_args &k)
{
    switch (code) {
    case CJ_RED_SUM: launch<W, CJ_RED_SUM>(st, k); break;
    case CJ_RED_PROD: launch<W, CJ_RED_PROD>(st, k); break;
    case CJ_RED_MAX: launch<W, CJ_RED_MAX>(st, k); break;
    case CJ_RED_MIN: launch<W, CJ_RED_MIN>(st, k); break;
    case CJ_RED_ARGMAX: launch<W, CJ_RED_ARGMAX>(st, k); break;
    case CJ_RED_ARGMIN: launch<W, CJ_RED_ARGMIN>(st, k); break;
    case CJ_RED_ANY: launch<W, CJ_RED_ANY>(st, k); break;
    default: launch<W, CJ_RED_ALL>(st, k); break;
    }
}

const char *gpu_reduce(gpu_state *st, int code, int t, const void *x, const int64_t size[3], const int64_t stride[3], void *y, double scale)
{
    gpu_use(st);
    reduce_args k = {};
    k.t = t;
    k.yt = code == CJ_RED_ARGMAX || code == CJ_RED_ARGMIN || ((code == CJ_RED_SUM || code == CJ_RED_PROD) && !gpu_is_float(t)) ? CJ_I64
           : code == CJ_RED_ANY || code == CJ_RED_ALL                                                                          ? CJ_BOOL
                                                                                                                               : t;
    k.x = x, k.y = y, k.scale = scale;
    k.outer = size[0], k.len = size[1], k.inner = size[2];
    k.so = stride[0], k.sl = stride[1], k.si = stride[2];
    k.results = k.outer * k.inner;
    if (k.results == 0) return NULL;
    if (gpu_is_float(t)) launch_code<double>(st, code, k);
    else launch_code<int64_t>(st, code, k);
    return gpu_check(st);
}
