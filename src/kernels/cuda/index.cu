/* Indexing by tensors.  A bad index is clamped, so that nothing outside is touched, and reported at the next synchronisation.
 *
 * Adding keeps the order of the indices for every element, as the CPU does: the indices are sorted (stable, by radix: Knuth 5.2.5), and one thread per
 * element of a row adds the sources of that row one after the other.
 */
#include "kernels/cuda/state.cuh"

/* ---- index_select, gather ---------------------------------------------------------------------------------------------------------------------- */

/* y[o, j, i] = x[o, index[j], i]; EACH: the index has an entry per element. */
template <class E, bool EACH>
static __global__ void pick(const E *x, int64_t len, int64_t inner, const int64_t *index, int64_t n, E *y, int64_t total, int who,
                            gpu_flag flag)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < total; k += step) {
        int64_t row, i;
        if (total <= INT32_MAX) {
            row = (uint32_t)k / (uint32_t)inner;
            i = (uint32_t)k - (uint32_t)row * (uint32_t)inner;
        } else {
            row = k / inner;
            i = k - row * inner;
        }
        const int64_t o = row / n, j = row - o * n, at = EACH ? k : j;
        const int64_t from = gpu_clamp(flag, who, index[at], at, len);
        y[k] = x[(o * len + from) * inner + i];
    }
}

template <bool EACH>
static const char *launch_pick(gpu_state *st, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                               int64_t n, void *y, int who)
{
    if (outer * n * inner == 0) return NULL;
    if (!EACH) /* rows move in elements as wide as they allow */
        while (elem < 16 && inner % 2 == 0 && ((uintptr_t)x | (uintptr_t)y) % (2 * elem) == 0) elem *= 2, inner /= 2;
    const int64_t total = outer * n * inner;
    const unsigned blocks = gpu_blocks(st, total, 256);
    switch (elem) {
    case 16:
        pick<uint4, EACH><<<blocks, 256, 0, st->stream>>>((const uint4 *)x, len, inner, index, n, (uint4 *)y, total, who, st->flag);
        break;
    case 8:
        pick<uint64_t, EACH>
            <<<blocks, 256, 0, st->stream>>>((const uint64_t *)x, len, inner, index, n, (uint64_t *)y, total, who, st->flag);
        break;
    case 4:
        pick<uint32_t, EACH>
            <<<blocks, 256, 0, st->stream>>>((const uint32_t *)x, len, inner, index, n, (uint32_t *)y, total, who, st->flag);
        break;
    case 2:
        pick<uint16_t, EACH>
            <<<blocks, 256, 0, st->stream>>>((const uint16_t *)x, len, inner, index, n, (uint16_t *)y, total, who, st->flag);
        break;
    default:
        pick<uint8_t, EACH><<<blocks, 256, 0, st->stream>>>((const uint8_t *)x, len, inner, index, n, (uint8_t *)y, total, who, st->flag);
        break;
    }
    return gpu_check(st);
}

/* Nothing to pick from, but something asked for. */
static const char *empty(gpu_state *st, int64_t len, int64_t n)
{
    (void)st;
    return len == 0 && n > 0 ? "the indexed axis has size 0" : NULL;
}

const char *gpu_index_select(gpu_state *st, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                             int64_t n, void *y)
{
    gpu_use(st);
    const char *e = empty(st, len, outer * inner * n);
    return e ? e : launch_pick<false>(st, elem, x, outer, len, inner, index, n, y, GPU_INDEX_SELECT);
}
const char *gpu_gather(gpu_state *st, int elem, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                       void *y)
{
    gpu_use(st);
    const char *e = empty(st, len, outer * inner * n);
    return e ? e : launch_pick<true>(st, elem, x, outer, len, inner, index, n, y, GPU_GATHER);
}

/* ---- a stable radix sort of the indices: 8 bits a pass --------------------------------------------------------------------------------------------- */

#define TILE 1024 /* items of a block */

struct pair {
    uint32_t key, j;
};

static __global__ void make_pairs(const int64_t *index, uint32_t n, int64_t len, pair *out, int who, gpu_flag flag)
{
    const uint32_t j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n) out[j] = { (uint32_t)gpu_clamp(flag, who, index[j], j, len), j };
}

/* count[digit · tiles + tile] */
static __global__ void count_digits(const pair *in, uint32_t n, int shift, uint32_t *count, uint32_t tiles)
{
    __shared__ uint32_t own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t j = blockIdx.x * TILE + threadIdx.x; j < n && j < (blockIdx.x + 1) * TILE; j += 256)
        atomicAdd(&own[in[j].key >> shift & 255], 1u);
    __syncthreads();
    count[threadIdx.x * tiles + blockIdx.x] = own[threadIdx.x];
}

/* Exclusive prefix sum, one block. */
static __global__ void __launch_bounds__(1024) prefix(uint32_t *v, uint32_t n)
{
    __shared__ uint32_t sums[1024];
    const uint32_t per = (n + 1023) / 1024, begin = min(n, threadIdx.x * per), end = min(n, begin + per);
    uint32_t sum = 0;
    for (uint32_t i = begin; i < end; i++) sum += v[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (uint32_t d = 1; d < 1024; d *= 2) {
        const uint32_t left = threadIdx.x >= d ? sums[threadIdx.x - d] : 0;
        __syncthreads();
        sums[threadIdx.x] += left;
        __syncthreads();
    }
    uint32_t at = sums[threadIdx.x] - sum;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t c = v[i];
        v[i] = at;
        at += c;
    }
}

/* Warp w of a tile places items [128 w, 128 w + 128) in order; places within the tile follow the warps. */
static __global__ void __launch_bounds__(256)
    place_digits(const pair *in, uint32_t n, int shift, const uint32_t *start, uint32_t tiles, pair *out)
{
    __shared__ uint32_t at[8][256];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 8 * 256; i += 256) at[i / 256][i % 256] = 0;
    __syncthreads();
    pair item[4];
    uint32_t digit[4], rank[4];
    bool here[4];
    const uint32_t first = blockIdx.x * TILE + warp * 128;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const uint32_t j = first + r * 32 + lane;
        here[r] = j < n;
        item[r] = here[r] ? in[j] : pair{ 0, 0 };
        digit[r] = here[r] ? item[r].key >> shift & 255 : 256; /* 256: nobody */
        const uint32_t same = __match_any_sync(0xffffffffu, digit[r]);
        const uint32_t before = __popc(same & ((1u << lane) - 1)), held = here[r] ? at[warp][digit[r]] : 0;
        __syncwarp();
        rank[r] = held + before;
        if (here[r] && before == 0) at[warp][digit[r]] = held + __popc(same);
        __syncwarp();
    }
    __syncthreads();
    uint32_t sum = start[threadIdx.x * tiles + blockIdx.x]; /* thread d turns the counts of digit d into places */
    for (int w = 0; w < 8; w++) {
        const uint32_t c = at[w][threadIdx.x];
        at[w][threadIdx.x] = sum;
        sum += c;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; r++)
        if (here[r]) out[at[warp][digit[r]] + rank[r]] = item[r];
}

/* Sorted pairs in scratch, or NULL where there is no room. */
static const pair *sort_indices(gpu_state *st, const int64_t *index, int64_t n, int64_t len, int who)
{
    const size_t bytes = (size_t)(n + 32) * sizeof(pair), tiles = (size_t)(n + TILE - 1) / TILE;
    if (n > INT32_MAX || len > INT32_MAX || 2 * bytes + tiles * 256 * sizeof(uint32_t) > GPU_SCRATCH) return NULL;
    pair *a = (pair *)st->scratch, *b = a + n + 32;
    uint32_t *count = (uint32_t *)(b + n + 32);
    make_pairs<<<(unsigned)((n + 255) / 256), 256, 0, st->stream>>>(index, (uint32_t)n, len, a, who, st->flag);
    for (int shift = 0; shift < 32 && (len - 1) >> shift; shift += 8) {
        count_digits<<<(unsigned)tiles, 256, 0, st->stream>>>(a, (uint32_t)n, shift, count, (uint32_t)tiles);
        prefix<<<1, 1024, 0, st->stream>>>(count, (uint32_t)tiles * 256);
        place_digits<<<(unsigned)tiles, 256, 0, st->stream>>>(a, (uint32_t)n, shift, count, (uint32_t)tiles, b);
        pair *t = a;
        a = b;
        b = t;
    }
    return a;
}

/* ---- index_add, scatter_add ---------------------------------------------------------------------------------------------------------------------------- */

/* How elements of a dtype are added: in a type `wide`, bf16 and f16 in f32; integers wrap, bool is or. */
template <class E> struct adder {
    typedef E wide;
    static __device__ __forceinline__ E widen(E a) { return a; }
    static __device__ __forceinline__ E add(E a, E b) { return a + b; }
    static __device__ __forceinline__ E round(E a) { return a; }
};
template <> struct adder<bf16_t> : adder<float> {
    static __device__ __forceinline__ float widen(bf16_t a) { return from_bf16(a.u); }
    static __device__ __forceinline__ bf16_t round(float a) { return { to_bf16(a) }; }
};
template <> struct adder<f16_t> : adder<float> {
    static __device__ __forceinline__ float widen(f16_t a) { return from_f16(a.u); }
    static __device__ __forceinline__ f16_t round(float a) { return { to_f16(a) }; }
};
template <> struct adder<bool> {
    typedef bool wide;
    static __device__ __forceinline__ bool widen(bool a) { return a; }
    static __device__ __forceinline__ bool add(bool a, bool b) { return a || b; }
    static __device__ __forceinline__ bool round(bool a) { return a; }
};

/* Thread (k, i): if k begins a run of equal keys, adds the run's sources to that row and rounds once. */
template <class E>
static __global__ void add_runs(const pair *sorted, int64_t n, int64_t outer, int64_t len, int64_t inner, const E *s, E *y)
{
    const int64_t total = outer * n * inner, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t q = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; q < total; q += step) {
        const int64_t i = q % inner, row = q / inner, k = row % n, o = row / n;
        const uint32_t key = sorted[k].key;
        if (k > 0 && sorted[k - 1].key == key) continue;
        E *to = y + (o * len + key) * inner + i;
        typename adder<E>::wide sum = adder<E>::widen(*to);
        for (int64_t e = k; e < n && sorted[e].key == key; e++)
            sum = adder<E>::add(sum, adder<E>::widen(s[(o * n + sorted[e].j) * inner + i]));
        *to = adder<E>::round(sum);
    }
}

/* A thread per (outer, inner) walks all indices: EACH as in pick.  For scatters, and where the sort has no room. */
template <class E, bool EACH>
static __global__ void add_columns(const int64_t *index, int64_t n, int64_t outer, int64_t len, int64_t inner, const E *s, E *y, int who,
                                   gpu_flag flag)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t q = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; q < outer * inner; q += step) {
        const int64_t o = q / inner, i = q - o * inner;
        for (int64_t j = 0; j < n; j++) {
            const int64_t from = (o * n + j) * inner + i, at = EACH ? from : j;
            E *to = y + (o * len + gpu_clamp(flag, who, index[at], at, len)) * inner + i;
            *to = adder<E>::round(adder<E>::add(adder<E>::widen(*to), adder<E>::widen(s[from])));
        }
    }
}

template <class E>
static void launch_add(gpu_state *st, bool each, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n, const void *s,
                       void *y, int who)
{
    const bool sortable = !each || (outer == 1 && inner == 1);
    const pair *sorted = sortable && n > 1 ? sort_indices(st, index, n, len, who) : NULL;
    if (sorted)
        add_runs<E><<<gpu_blocks(st, outer * n * inner, 128, 64), 128, 0, st->stream>>>(sorted, n, outer, len, inner, (const E *)s, (E *)y);
    else if (each)
        add_columns<E, true>
            <<<gpu_blocks(st, outer * inner, 128), 128, 0, st->stream>>>(index, n, outer, len, inner, (const E *)s, (E *)y, who, st->flag);
    else
        add_columns<E, false>
            <<<gpu_blocks(st, outer * inner, 128), 128, 0, st->stream>>>(index, n, outer, len, inner, (const E *)s, (E *)y, who, st->flag);
}

static const char *add(gpu_state *st, bool each, int t, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index,
                       int64_t n, const void *s, void *y, int who)
{
    const int64_t one = 1, all = outer * len * inner;
    const gpu_position none = {};
    const char *e = x == y ? NULL : gpu_copy(st, 1, &all, t, x, &one, t, y, &one, none);
    if (e || outer * inner * n == 0) return e;
    if ((e = empty(st, len, n))) return e;
    switch (t) {
    case CJ_F64: launch_add<double>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_BF16: launch_add<bf16_t>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_F16: launch_add<f16_t>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_I64: launch_add<uint64_t>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_I32: launch_add<uint32_t>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_U8: launch_add<uint8_t>(st, each, outer, len, inner, index, n, s, y, who); break;
    case CJ_BOOL: launch_add<bool>(st, each, outer, len, inner, index, n, s, y, who); break;
    default: launch_add<float>(st, each, outer, len, inner, index, n, s, y, who); break;
    }
    return gpu_check(st);
}

const char *gpu_index_add(gpu_state *st, int t, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                          const void *s, void *y)
{
    return add(st, false, t, x, outer, len, inner, index, n, s, y, GPU_INDEX_ADD);
}
const char *gpu_scatter_add(gpu_state *st, int t, const void *x, int64_t outer, int64_t len, int64_t inner, const int64_t *index, int64_t n,
                            const void *s, void *y)
{
    return add(st, true, t, x, outer, len, inner, index, n, s, y, GPU_SCATTER_ADD);
}
