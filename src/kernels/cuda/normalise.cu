/* Batch and group normalisation of x [outer, channels, inner]: y = act((x - mean)/sqrt(var + eps)·weight + bias), and the way back.
 *
 * A set shares its statistics: a channel of all examples (batch), or a group of channels of one (group).  Sums over sets are cut into parts by shape and device alone and put together
 * in order; they and everything else are f64, which memory hides.  Backward, with g the gradient behind the activation and h = (x - mean)/sqrt(var + eps):
 *
 *   dbias = sum g     dweight = sum g·h     dx = (g·w - mean(g·w) - h·mean(g·w·h))/sqrt(var + eps), without the means where the statistics were given
 */
#include "kernels/cuda/state.cuh"

struct norm_args {
    const void *x, *dy;
    int64_t outer, channels, inner, groups;
    double eps;
    bool relu, given;
    const double *mean, *var; /* of every set */
    const void *weight, *bias;
    int weight_type, bias_type;
    void *y; /* or dx */
    /* sums */
    bool blocks; /* a set lies in one piece; else it is a channel of all examples */
    int64_t sets, len, per_part;
    double2 *partial, *sums; /* [parts][sets]; of a set: sum g·w and sum g·w·h for dx */
};

__device__ __forceinline__ int64_t set_of(const norm_args &k, int64_t i)
{
    return k.groups ? i / (k.channels / k.groups * k.inner) : i / k.inner % k.channels;
}
__device__ __forceinline__ double weight_of(const norm_args &k, int64_t c)
{
    return k.weight ? load_as<double>(k.weight_type, k.weight, c) : 1;
}

/* g and h of element i. */
template <class S> static __device__ __forceinline__ double2 slope_of(const norm_args &k, int64_t i)
{
    const int64_t set = set_of(k, i), c = i / k.inner % k.channels;
    const double h = ((double)value_of(((const S *)k.x)[i]) - k.mean[set]) * rsqrt(k.var[set] + k.eps);
    double g = (double)value_of(((const S *)k.dy)[i]);
    if (k.relu && !(h * weight_of(k, c) + (k.bias ? load_as<double>(k.bias_type, k.bias, c) : 0) > 0)) g = 0;
    return make_double2(g, h);
}

/* ---- sums ------------------------------------------------------------------------------------------------------------------------------------------- */

/* Forward x - x0 and its square, x0 the set's first element, so that a large mean costs nothing; backward g and g·h. */
template <class S, bool BACK> static __device__ __forceinline__ double2 term(const norm_args &k, int64_t i, int64_t first)
{
    if (BACK) {
        const double2 s = slope_of<S>(k, i);
        return make_double2(s.x, s.x * s.y);
    }
    const double d = (double)value_of(((const S *)k.x)[i]) - (double)value_of(((const S *)k.x)[first]);
    return make_double2(d, d * d);
}
static __device__ __forceinline__ double2 plus(double2 a, double2 b) { return make_double2(a.x + b.x, a.y + b.y); }

/* A block for a part of a set. */
template <class S, bool BACK> static __global__ void __launch_bounds__(256) sum_sets(const __grid_constant__ norm_args k)
{
    __shared__ double2 part[256];
    const int64_t set = blockIdx.x, begin = (int64_t)blockIdx.y * k.per_part, end = begin + k.per_part < k.len ? begin + k.per_part : k.len;
    const int64_t first = k.blocks ? set * k.len : set * k.inner;
    double2 sum = make_double2(0, 0);
    for (int64_t j = begin + threadIdx.x; j < end; j += 256)
        sum = plus(sum, term<S, BACK>(k, k.blocks ? first + j : j / k.inner * k.channels * k.inner + first + j % k.inner, first));
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = plus(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) k.partial[blockIdx.y * k.sets + set] = part[0];
}

/* Channels that lie side by side: 32 of them across, 8 rows of threads down. */
template <class S, bool BACK> static __global__ void __launch_bounds__(256) sum_columns(const __grid_constant__ norm_args k)
{
    __shared__ double2 part[8][32];
    const int across = threadIdx.x % 32, down = threadIdx.x / 32;
    const int64_t set = (int64_t)blockIdx.x * 32 + across, begin = (int64_t)blockIdx.y * k.per_part,
                  end = begin + k.per_part < k.len ? begin + k.per_part : k.len;
    double2 sum = make_double2(0, 0);
    if (set < k.sets)
        for (int64_t j = begin + down; j < end; j += 8) sum = plus(sum, term<S, BACK>(k, j * k.channels + set, set));
    part[down][across] = sum;
    __syncthreads();
    if (down || set >= k.sets) return;
    for (int i = 1; i < 8; i++) sum = plus(sum, part[i][across]);
    k.partial[blockIdx.y * k.sets + set] = sum;
}

/* Parts to sums, and forward those to statistics. */
template <class S, bool BACK> static __global__ void put_together(const __grid_constant__ norm_args k, int parts, double *mean, double *var)
{
    const int64_t set = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (set >= k.sets) return;
    double2 sum = make_double2(0, 0);
    for (int i = 0; i < parts; i++) sum = plus(sum, k.partial[i * k.sets + set]);
    if (BACK) {
        k.sums[set] = sum;
        return;
    }
    const double d = sum.x / (double)k.len, v = sum.y / (double)k.len - d * d;
    mean[set] = (double)value_of(((const S *)k.x)[k.blocks ? set * k.len : set * k.inner]) + d;
    var[set] = v < 0 ? 0 : v;
}

template <class S, bool BACK> static const char *sum_up(gpu_state *st, norm_args &k, double *mean, double *var)
{
    const bool columns = !k.blocks && k.inner == 1;
    const int64_t blocks = columns ? (k.sets + 31) / 32 : k.sets, least = columns ? 64 : 2048;
    int64_t parts = 8 * st->sms / (blocks > 0 ? blocks : 1), most = (k.len + least - 1) / least;
    parts = parts < most ? parts : most;
    parts = parts < 1 ? 1 : parts > 1024 ? 1024 : parts;
    if (blocks > INT32_MAX || (size_t)(parts + 2) * k.sets * sizeof(double2) > GPU_SCRATCH) return "too many sets for the scratch memory";
    k.per_part = (k.len + parts - 1) / parts;
    k.sums = (double2 *)st->scratch;
    k.partial = k.sums + 2 * k.sets; /* behind the sums there is room for as many again */
    const dim3 grid((unsigned)blocks, (unsigned)parts);
    if (columns) sum_columns<S, BACK><<<grid, 256, 0, st->stream>>>(k);
    else sum_sets<S, BACK><<<grid, 256, 0, st->stream>>>(k);
    put_together<S, BACK><<<(unsigned)((k.sets + 255) / 256), 256, 0, st->stream>>>(k, (int)parts, mean, var);
    return gpu_check(st);
}

/* ---- elements ------------------------------------------------------------------------------------------------------------------------------------------ */

template <class S, class C> static __global__ void normalise(const __grid_constant__ norm_args k, int64_t total)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t set = set_of(k, i), c = i / k.inner % k.channels;
        double y = ((double)value_of(((const S *)k.x)[i]) - k.mean[set]) * rsqrt(k.var[set] + k.eps) * weight_of(k, c);
        if (k.bias) y += load_as<double>(k.bias_type, k.bias, c);
        if (k.relu && y < 0) y = 0;
        put((S *)k.y + i, (C)y);
    }
}

template <class S, class C>
static __global__ void go_back(const __grid_constant__ norm_args k, int64_t total, const double2 *sums, double each)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t set = set_of(k, i);
        const double2 s = slope_of<S>(k, i);
        double d = s.x * weight_of(k, i / k.inner % k.channels);
        if (!k.given) d -= (sums[set].x + s.y * sums[set].y) * each;
        put((S *)k.y + i, (C)(d * rsqrt(k.var[set] + k.eps)));
    }
}

/* From the sums of every channel (of every example, for groups): those of the sets with their weights, and the gradients of weight and bias. */
static __global__ void finish_sets(const __grid_constant__ norm_args k, double2 *sums)
{
    const int64_t set = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, sets = k.groups ? k.outer * k.groups : k.channels;
    if (set >= sets) return;
    const int64_t each = k.groups ? k.channels / k.groups : 1;
    double2 all = make_double2(0, 0);
    for (int64_t j = 0; j < each; j++) {
        const double2 s = k.sums[set * each + j];
        const double w = weight_of(k, k.groups ? set % k.groups * each + j : set);
        all = plus(all, make_double2(w * s.x, w * s.y));
    }
    sums[set] = all;
}
static __global__ void finish_channels(const __grid_constant__ norm_args k, int weight_type, void *dweight, int bias_type, void *dbias)
{
    const int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= k.channels) return;
    double2 all = make_double2(0, 0);
    for (int64_t n = 0; n < (k.groups ? k.outer : 1); n++) all = plus(all, k.sums[n * k.channels + c]);
    if (dweight) store_as(weight_type, dweight, c, all.y);
    if (dbias) store_as(bias_type, dbias, c, all.x);
}

static norm_args args_of(const gpu_norm *n)
{
    norm_args k = {};
    k.x = n->x, k.dy = n->dy, k.y = n->y;
    k.outer = n->outer, k.channels = n->channels, k.inner = n->inner, k.groups = n->groups;
    k.eps = n->eps, k.relu = n->relu, k.given = n->given;
    k.mean = n->mean, k.var = n->var;
    k.weight = n->weight, k.bias = n->bias, k.weight_type = n->weight_type, k.bias_type = n->bias_type;
    return k;
}

const char *gpu_normalise(gpu_state *st, const gpu_norm *n)
{
    gpu_use(st);
    norm_args k = args_of(n);
    const int64_t total = k.outer * k.channels * k.inner;
    k.blocks = k.groups != 0;
    k.sets = k.groups ? k.outer * k.groups : k.channels;
    k.len = k.sets ? total / k.sets : 0;
    if (total == 0) return NULL;
    const char *e = NULL;
    GPU_BY_FLOAT(n->t, if (!k.given) e = sum_up<S, false>(st, k, n->mean, n->var);
                 if (!e) normalise<S, C><<<gpu_blocks(st, total, 256), 256, 0, st->stream>>>(k, total));
    return e ? e : gpu_check(st);
}

const char *gpu_normalise_bwd(gpu_state *st, const gpu_norm *n, void *dweight, void *dbias)
{
    gpu_use(st);
    norm_args k = args_of(n);
    const int64_t total = k.outer * k.channels * k.inner, sets = k.groups ? k.outer * k.groups : k.channels;
    if (total == 0) {
        const char *e = dweight ? gpu_fill(st, n->weight_type, dweight, k.channels, 0) : NULL;
        return e || !dbias ? e : gpu_fill(st, n->bias_type, dbias, k.channels, 0);
    }
    k.blocks = k.groups != 0; /* the channels of every example, or of all */
    k.sets = k.groups ? k.outer * k.channels : k.channels;
    k.len = total / k.sets;
    const char *e = NULL;
    GPU_BY_FLOAT(n->t, e = sum_up<S, true>(st, k, NULL, NULL));
    if (e) return e;
    double2 *sums = k.sums + k.sets;
    finish_sets<<<(unsigned)((sets + 255) / 256), 256, 0, st->stream>>>(k, sums);
    finish_channels<<<(unsigned)((k.channels + 255) / 256), 256, 0, st->stream>>>(k, n->weight_type, dweight, n->bias_type, dbias);
    GPU_BY_FLOAT(n->t, (go_back<S, C><<<gpu_blocks(st, total, 256), 256, 0, st->stream>>>(k, total, sums, (double)sets / (double)total)));
    return gpu_check(st);
}
