/* Fused composites over the last axis: softmax, layer norm, cross-entropy, forward and backward.
 *
 * A row of up to 1024 elements belongs to a warp, a longer one to a block; the row is read once per pass and stays in the cache between passes.  Sums over
 * the rows of a batch (dw, db, the mean loss) are made of parts whose number depends on the shape alone.
 */
#include "kernels/cuda/state.cuh"

/* ---- sums and maxima over the LANES threads of a row; all get the result ---------------------------------------------------------------------------- */

template <class C> static __device__ __forceinline__ C larger(C a, C b) { return a != a || a > b ? a : b; }

template <class C, bool MAX> static __device__ __forceinline__ C over_warp(C v)
{
#pragma unroll
    for (int d = 16; d; d /= 2) {
        const C w = __shfl_xor_sync(0xffffffffu, v, d);
        v = MAX ? larger(v, w) : v + w;
    }
    return v;
}

template <class C, int LANES, bool MAX> static __device__ __forceinline__ C over_row(C v)
{
    v = over_warp<C, MAX>(v);
    if (LANES == 32) return v;
    __shared__ C warps[LANES / 32];
    __syncthreads(); /* the last call's readers are done */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[0];
#pragma unroll
    for (int i = 1; i < LANES / 32; i++) v = MAX ? larger(v, warps[i]) : v + warps[i];
    return v;
}
template <class C, int LANES> static __device__ __forceinline__ C row_sum(C v) { return over_row<C, LANES, false>(v); }
template <class C, int LANES> static __device__ __forceinline__ C row_max(C v) { return over_row<C, LANES, true>(v); }

/* The row of this thread, or false past the end; rows of one block run together or not at all. */
template <int LANES> static __device__ __forceinline__ bool my_row(int64_t rows, int64_t *r, int *lane)
{
    *lane = threadIdx.x % LANES;
    *r = (int64_t)blockIdx.x * (256 / LANES) + threadIdx.x / LANES;
    return *r < rows;
}

/* kernel<S, C, LANES> on a grid that covers the rows. */
#define LAUNCH_ROWS(kernel, ...)                                                                                                           \
    do {                                                                                                                                   \
        if (n <= 1024) kernel<S, C, 32><<<(unsigned)((rows + 7) / 8), 256, 0, st->stream>>>(__VA_ARGS__);                                  \
        else kernel<S, C, 256><<<(unsigned)rows, 256, 0, st->stream>>>(__VA_ARGS__);                                                       \
    } while (0)

/* ---- softmax --------------------------------------------------------------------------------------------------------------------------------------------- */

template <class S, class C, int LANES>
static __global__ void __launch_bounds__(256) softmax(const S *x, int64_t rows, int64_t n, S *y, bool log_form)
{
    int64_t r;
    int lane;
    if (!my_row<LANES>(rows, &r, &lane)) return;
    x += r * n, y += r * n;
    C m = -INFINITY, sum = 0;
    for (int64_t i = lane; i < n; i += LANES) m = larger(m, value_of(x[i]));
    m = row_max<C, LANES>(m);
    for (int64_t i = lane; i < n; i += LANES) sum += exp(value_of(x[i]) - m);
    sum = row_sum<C, LANES>(sum);
    const C shift = log_form ? log(sum) : C(0);
    for (int64_t i = lane; i < n; i += LANES) put(&y[i], log_form ? value_of(x[i]) - m - shift : exp(value_of(x[i]) - m) / sum);
}

template <class S, class C, int LANES>
static __global__ void __launch_bounds__(256) softmax_bwd(const S *y, const S *dy, int64_t rows, int64_t n, S *dx, bool log_form)
{
    int64_t r;
    int lane;
    if (!my_row<LANES>(rows, &r, &lane)) return;
    y += r * n, dy += r * n, dx += r * n;
    C sum = 0;
    for (int64_t i = lane; i < n; i += LANES) sum += log_form ? value_of(dy[i]) : value_of(y[i]) * value_of(dy[i]);
    sum = row_sum<C, LANES>(sum);
    for (int64_t i = lane; i < n; i += LANES) {
        const C v = value_of(y[i]), g = value_of(dy[i]);
        put(&dx[i], log_form ? g - exp(v) * sum : v * (g - sum));
    }
}

const char *gpu_softmax(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, void *y, bool log_form)
{
    gpu_use(st);
    if (rows * n == 0) return NULL;
    GPU_BY_FLOAT(t, LAUNCH_ROWS(softmax, (const S *)x, rows, n, (S *)y, log_form));
    return gpu_check(st);
}
const char *gpu_softmax_bwd(gpu_state *st, int t, const void *y, const void *dy, int64_t rows, int64_t n, void *dx, bool log_form)
{
    gpu_use(st);
    if (rows * n == 0) return NULL;
    GPU_BY_FLOAT(t, LAUNCH_ROWS(softmax_bwd, (const S *)y, (const S *)dy, rows, n, (S *)dx, log_form));
    return gpu_check(st);
}

/* ---- layer norm ------------------------------------------------------------------------------------------------------------------------------------------- */

template <class S, class C, int LANES>
static __global__ void __launch_bounds__(256)
    layer_norm(const S *x, int64_t rows, int64_t n, const S *w, const S *b, C eps, S *y, C *mean, C *rstd)
{
    int64_t r;
    int lane;
    if (!my_row<LANES>(rows, &r, &lane)) return;
    x += r * n, y += r * n;
    C sum = 0, square = 0;
    for (int64_t i = lane; i < n; i += LANES) sum += value_of(x[i]);
    const C m = row_sum<C, LANES>(sum) / (C)n;
    for (int64_t i = lane; i < n; i += LANES) {
        const C d = value_of(x[i]) - m;
        square += d * d;
    }
    const C s = 1 / sqrt(row_sum<C, LANES>(square) / (C)n + eps);
    for (int64_t i = lane; i < n; i += LANES) {
        C v = (value_of(x[i]) - m) * s;
        if (w) v *= value_of(w[i]);
        if (b) v += value_of(b[i]);
        put(&y[i], v);
    }
    if (lane == 0) mean[r] = m, rstd[r] = s;
}

/* dx = rstd·(g - mean(g) - xhat·mean(g·xhat)), g = dy·w */
template <class S, class C, int LANES>
static __global__ void __launch_bounds__(256)
    layer_norm_dx(const S *x, const S *dy, const S *w, const C *mean, const C *rstd, int64_t rows, int64_t n, S *dx)
{
    int64_t r;
    int lane;
    if (!my_row<LANES>(rows, &r, &lane)) return;
    x += r * n, dy += r * n, dx += r * n;
    const C m = mean[r], s = rstd[r];
    C sum = 0, dot = 0;
    for (int64_t i = lane; i < n; i += LANES) {
        const C g = w ? value_of(dy[i]) * value_of(w[i]) : value_of(dy[i]);
        sum += g;
        dot += g * ((value_of(x[i]) - m) * s);
    }
    sum = row_sum<C, LANES>(sum) / (C)n;
    dot = row_sum<C, LANES>(dot) / (C)n;
    for (int64_t i = lane; i < n; i += LANES) {
        const C g = w ? value_of(dy[i]) * value_of(w[i]) : value_of(dy[i]);
        put(&dx[i], s * (g - sum - (value_of(x[i]) - m) * s * dot));
    }
}

/* Sums over a part of the rows, 32 columns to a block: partial[part][0] = dy·xhat, partial[part][1] = dy. */
template <class S, class C>
static __global__ void __launch_bounds__(256)
    layer_norm_parts(const S *x, const S *dy, const C *mean, const C *rstd, int64_t rows, int64_t n, int64_t per_part, C *partial)
{
    __shared__ C tile[2][8][32];
    const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    const int64_t i = (int64_t)blockIdx.x * 32 + tx, begin = (int64_t)blockIdx.y * per_part,
                  end = begin + per_part < rows ? begin + per_part : rows;
    C dw = 0, db = 0;
    if (i < n)
        for (int64_t r = begin + ty; r < end; r += 8) {
            const C g = value_of(dy[r * n + i]);
            dw += g * ((value_of(x[r * n + i]) - mean[r]) * rstd[r]);
            db += g;
        }
    tile[0][ty][tx] = dw;
    tile[1][ty][tx] = db;
    __syncthreads();
    if (ty || i >= n) return;
#pragma unroll
    for (int k = 1; k < 8; k++) dw += tile[0][k][tx], db += tile[1][k][tx];
    partial[(int64_t)blockIdx.y * 2 * n + i] = dw;
    partial[((int64_t)blockIdx.y * 2 + 1) * n + i] = db;
}

template <class S, class C> static __global__ void layer_norm_sum(const C *partial, int parts, int64_t n, S *dw, S *db)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 2 * n) return;
    double sum = 0;
    for (int p = 0; p < parts; p++) sum += (double)partial[(int64_t)p * 2 * n + i];
    put(i < n ? &dw[i] : &db[i - n], (C)sum);
}

const char *gpu_layer_norm(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const void *w, const void *b, double eps, void *y,
                           void *mean, void *rstd)
{
    gpu_use(st);
    if (rows * n == 0) return NULL;
    GPU_BY_FLOAT(t, LAUNCH_ROWS(layer_norm, (const S *)x, rows, n, (const S *)w, (const S *)b, (C)eps, (S *)y, (C *)mean, (C *)rstd));
    return gpu_check(st);
}

const char *gpu_layer_norm_bwd(gpu_state *st, int t, const void *x, const void *dy, const void *w, const void *mean, const void *rstd,
                               int64_t rows, int64_t n, void *dx, void *dw, void *db)
{
    gpu_use(st);
    const char *e = NULL;
    if (rows * n == 0) {
        if (dw) e = gpu_fill(st, t, dw, n, 0);
        return e || !db ? e : gpu_fill(st, t, db, n, 0);
    }
    GPU_BY_FLOAT(t,
                 LAUNCH_ROWS(layer_norm_dx, (const S *)x, (const S *)dy, (const S *)w, (const C *)mean, (const C *)rstd, rows, n, (S *)dx));
    if (dw) {
        const int64_t blocks = (n + 31) / 32, room = (int64_t)(GPU_SCRATCH / (2 * sizeof(double))) / n;
        int64_t parts = 2 * st->sms / blocks, most = (rows + 31) / 32;
        parts = parts < most ? parts : most;
        parts = parts < room ? parts : room;
        parts = parts < 1 ? 1 : parts > 128 ? 128 : parts;
        if (room < 1) return "layer_norm_backward: the rows are too long";
        const int64_t per_part = (rows + parts - 1) / parts;
        parts = (rows + per_part - 1) / per_part;
        const dim3 grid((unsigned)blocks, (unsigned)parts);
        GPU_BY_FLOAT(t, (layer_norm_parts<S, C><<<grid, 256, 0, st->stream>>>((const S *)x, (const S *)dy, (const C *)mean, (const C *)rstd,
                                                                              rows, n, per_part, (C *)st->scratch)));
        GPU_BY_FLOAT(t, (layer_norm_sum<S, C><<<(unsigned)((2 * n + 127) / 128), 128, 0, st->stream>>>((const C *)st->scratch, (int)parts,
                                                                                                       n, (S *)dw, (S *)db)));
    }
    return gpu_check(st);
}

/* ---- cross-entropy: lse(x) - (1-s)·x[target] - s·mean(x) ------------------------------------------------------------------------------------------------------ */

template <class S, class C, int LANES>
static __global__ void __launch_bounds__(256) cross_entropy(const S *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore,
                                                            double smooth, S *each, double *scratch, C *lse, gpu_flag flag)
{
    int64_t r;
    int lane;
    if (!my_row<LANES>(rows, &r, &lane)) return;
    x += r * n;
    C m = -INFINITY, sum = 0, total = 0;
    for (int64_t i = lane; i < n; i += LANES) m = larger(m, value_of(x[i]));
    m = row_max<C, LANES>(m);
    for (int64_t i = lane; i < n; i += LANES) sum += exp(value_of(x[i]) - m);
    const C l = m + log(row_sum<C, LANES>(sum));
    if (smooth != 0) {
        for (int64_t i = lane; i < n; i += LANES) total += value_of(x[i]);
        total = row_sum<C, LANES>(total);
    }
    if (lane) return;
    lse[r] = l;
    double loss = 0;
    if (target[r] != ignore) {
        const double chosen = (double)value_of(x[gpu_clamp(flag, GPU_CROSS_ENTROPY, target[r], r, n)]);
        loss = smooth == 0 ? (double)l - chosen : (double)l - (1 - smooth) * chosen - smooth * ((double)total / (double)n);
    }
    if (each) put(&each[r], (C)loss);
    else scratch[r] = loss;
}

/* One block: counts the rows that are not ignored, sums the losses, writes weight and loss. */
template <class S, class C>
static __global__ void __launch_bounds__(1024)
    cross_entropy_sum(const double *losses, const int64_t *target, int64_t ignore, int64_t rows, bool mean, bool each, S *loss, C *weight)
{
    __shared__ double sums[1024];
    __shared__ long long counts[1024];
    double sum = 0;
    long long count = 0;
    for (int64_t r = threadIdx.x; r < rows; r += 1024) {
        if (!each) sum += losses[r];
        count += target[r] != ignore;
    }
    sums[threadIdx.x] = sum;
    counts[threadIdx.x] = count;
    __syncthreads();
    for (int d = 512; d; d /= 2) {
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d], counts[threadIdx.x] += counts[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x) return;
    const double w = mean ? 1.0 / (double)counts[0] : 1.0;
    *weight = (C)w;
    if (!each) put(loss, (C)(sums[0] * w));
}

const char *gpu_cross_entropy(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore,
                              double smooth, bool each, bool mean, void *loss, void *lse, void *weight)
{
    gpu_use(st);
    if (!each && (size_t)rows * sizeof(double) > GPU_SCRATCH) return "more rows than the back-end's work space holds";
    double *scratch = (double *)st->scratch;
    if (rows)
        GPU_BY_FLOAT(t, LAUNCH_ROWS(cross_entropy, (const S *)x, rows, n, target, ignore, smooth, each ? (S *)loss : (S *)0, scratch,
                                    (C *)lse, st->flag));
    GPU_BY_FLOAT(t,
                 (cross_entropy_sum<S, C><<<1, 1024, 0, st->stream>>>(scratch, target, ignore, rows, mean, each, (S *)loss, (C *)weight)));
    return gpu_check(st);
}

template <class S, class C>
static __global__ void cross_entropy_bwd(const S *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore, double smooth,
                                         const C *lse, const S *g, int64_t s_g, const C *weight, S *dx)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < rows * n; k += step) {
        const int64_t r = rows * n <= INT32_MAX ? (uint32_t)k / (uint32_t)n : k / n, i = k - r * n;
        C v = 0;
        if (target[r] != ignore) {
            const C scale = weight ? (C)((double)value_of(g[0]) * (double)*weight) : value_of(g[r * s_g]), p = exp(value_of(x[k]) - lse[r]);
            const int64_t hot = target[r] < 0 ? 0 : target[r] >= n ? n - 1 : target[r];
            v = i == hot ? (C)((double)scale * ((double)p - (1 - smooth) - smooth / (double)n))
                         : scale * p - (C)((double)scale * smooth / (double)n);
        }
        put(&dx[k], v);
    }
}

const char *gpu_cross_entropy_bwd(gpu_state *st, int t, const void *x, int64_t rows, int64_t n, const int64_t *target, int64_t ignore,
                                  double smooth, const void *lse, const void *g, int64_t s_g, const void *weight, void *dx)
{
    gpu_use(st);
    if (rows * n == 0) return NULL;
    GPU_BY_FLOAT(t, (cross_entropy_bwd<S, C><<<gpu_blocks(st, rows * n, 256), 256, 0, st->stream>>>(
                        (const S *)x, rows, n, target, ignore, smooth, (const C *)lse, (const S *)g, s_g, (const C *)weight, (S *)dx)));
    return gpu_check(st);
}
