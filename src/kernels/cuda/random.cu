/* Random draws: the bits of kernels/cpu/random.c, from the same header.  A thread turns one Philox block into four (or two) elements.
 *
 * Compiled without contraction (-fmad=false) and with IEEE division and square root, so that every rounding is the CPU's. */
#include "core/philox.h"
#include "kernels/cuda/state.cuh"

struct draw_args {
    int kind, t;
    uint32_t key[2];
    uint64_t call, threshold;
    const uint64_t *base; /* added to call; NULL outside graphs */
    double a, b, top64;
    float top32;
    int64_t n;
    void *y;
};

static __device__ __forceinline__ void words_of(const draw_args &k, uint64_t block, uint32_t w[4])
{
    cj_philox_block(k.key, k.call + (k.base ? *k.base : 0), block, w);
}

static __global__ void draw32(const draw_args k)
{
    const int64_t blocks = (k.n + 3) / 4, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t block = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += step) {
        uint32_t w[4];
        float v[4];
        words_of(k, (uint64_t)block, w);
        if (k.kind == CJ_DRAW_NORMAL) {
            cj_philox_normal_f32(w[0], w[1], (float)k.a, (float)k.b, v);
            cj_philox_normal_f32(w[2], w[3], (float)k.a, (float)k.b, v + 2);
        } else {
#pragma unroll
            for (int l = 0; l < 4; l++)
                v[l] = k.kind == CJ_DRAW_EXPONENTIAL ? cj_philox_exponential_f32(w[l], (float)k.a)
                       : k.kind == CJ_DRAW_BERNOULLI ? (float)cj_philox_bernoulli(w[l], k.threshold)
                                                     : cj_philox_uniform_f32(w[l], (float)k.a, (float)(k.b - k.a), k.top32);
        }
#pragma unroll
        for (int l = 0; l < 4; l++)
            if (4 * block + l < k.n) store_as(k.t, k.y, 4 * block + l, v[l]);
    }
}

static __global__ void draw64(const draw_args k)
{
    const int64_t blocks = (k.n + 1) / 2, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t block = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += step) {
        uint32_t w[4];
        words_of(k, (uint64_t)block, w);
        const uint64_t u[2] = { cj_philox_word64(w[0], w[1]), cj_philox_word64(w[2], w[3]) };
        const bool second = 2 * block + 1 < k.n;
        if (k.kind == CJ_DRAW_INTEGER) {
            const uint64_t lo = (uint64_t)(int64_t)k.a, range = (uint64_t)(int64_t)k.b - lo;
            store_as(k.t, k.y, 2 * block, (int64_t)(lo + cj_philox_below(u[0], range)));
            if (second) store_as(k.t, k.y, 2 * block + 1, (int64_t)(lo + cj_philox_below(u[1], range)));
            continue;
        }
        double v[2];
        if (k.kind == CJ_DRAW_NORMAL) cj_philox_normal_f64(u[0], u[1], k.a, k.b, v);
        else
            for (int l = 0; l < 2; l++)
                v[l] = k.kind == CJ_DRAW_EXPONENTIAL ? cj_philox_exponential_f64(u[l], k.a)
                                                     : cj_philox_uniform_f64(u[l], k.a, k.b - k.a, k.top64);
        store_as(k.t, k.y, 2 * block, v[0]);
        if (second) store_as(k.t, k.y, 2 * block + 1, v[1]);
    }
}

/* The largest number of dtype t below b. */
static float top_f32(int t, double b)
{
    if (t == CJ_F32 || t == CJ_F64) {
        const float f = (float)b;
        return (double)f < b ? f : nextafterf(f, -INFINITY);
    }
    uint64_t h = 0; /* room for any dtype */
    store_as(t, &h, 0, b);
    const float f = load_as<float>(t, &h, 0);
    if ((double)f < b) return f;
    h = f > 0 ? h - 1 : f < 0 ? h + 1 : 0x8001; /* the next number down */
    return load_as<float>(t, &h, 0);
}

const char *gpu_random(gpu_state *st, int kind, int t, uint64_t seed, uint64_t stream, uint64_t call, double a, double b, int64_t n,
                       void *y)
{
    gpu_use(st);
    if (n == 0) return NULL;
    draw_args k = {};
    k.kind = kind, k.t = t, k.call = call, k.a = a, k.b = b, k.n = n, k.y = y;
    k.base = st->capturing && stream < CJ_STREAMS ? st->bases + stream : NULL;
    k.threshold = cj_philox_threshold(a);
    cj_philox_key(seed, stream, k.key);
    if (kind == CJ_DRAW_UNIFORM) {
        k.top32 = a < b ? top_f32(t, b) : (float)a;
        k.top64 = a < b ? nextafter(b, -INFINITY) : a;
    }
    if (kind == CJ_DRAW_INTEGER || (t == CJ_F64 && kind != CJ_DRAW_BERNOULLI))
        draw64<<<gpu_blocks(st, (n + 1) / 2, 256), 256, 0, st->stream>>>(k);
    else draw32<<<gpu_blocks(st, (n + 3) / 4, 256), 256, 0, st->stream>>>(k);
    return gpu_check(st);
}
