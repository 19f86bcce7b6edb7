/* Parameter updates: all parameters in one launch (per 100 of them), PyTorch's formulas as in kernels/cpu/update.c.
 *
 * Nothing is uploaded: where the gradients lie travels as kernel arguments; step count, learning rate and gradient norm are read on the device by a small kernel
 * that writes the constants of this step.
 */
#include "kernels/cuda/state.cuh"

#define CHUNK 4096 /* elements of one block */
#define SLICES 100
#define CONSTANTS 4096 /* bytes at the end of the scratch */

enum { SGD, ADAM }; /* cj_update_rule */

struct constants {
    double lr, scale, step, root2, decay;
    int first; /* step: momentum takes the gradient as it is */
};
struct slice {
    const char *g;
    int64_t offset, n;
    int64_t first; /* block */
};
struct table {
    int n;
    int64_t partial_at;
    slice s[SLICES];
};

static __device__ __forceinline__ const slice &slice_of(const table &t, int64_t block)
{
    int low = 0, high = t.n - 1;
    while (low < high) {
        const int mid = (low + high + 1) / 2;
        if (t.s[mid].first <= block) low = mid;
        else high = mid - 1;
    }
    return t.s[low];
}

/* ---- norm and constants ---------------------------------------------------------------------------------------------------------------------------- */

static __device__ double block_sum(double v)
{
    __shared__ double sums[256];
    sums[threadIdx.x] = v;
    __syncthreads();
    for (int d = 128; d; d /= 2) {
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
        __syncthreads();
    }
    return sums[0];
}

static __global__ void __launch_bounds__(256) sum_squares(const __grid_constant__ table t, int dtype, double *partial)
{
    const slice &s = slice_of(t, blockIdx.x);
    const int64_t begin = (blockIdx.x - s.first) * CHUNK, end = begin + CHUNK < s.n ? begin + CHUNK : s.n;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += 256) {
        const double g = load_as<double>(dtype, s.g, i);
        sum += g * g;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[t.partial_at + blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(256) prepare(gpu_update u, const double *partial, int64_t parts, constants *c)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += 256) sum += partial[i];
    if (u.clip_norm > 0) sum = block_sum(sum);
    if (threadIdx.x) return;
    const double t = *u.step + 1, lr = *u.lr, norm = sqrt(sum);
    c->lr = lr;
    c->scale = u.clip_norm > 0 && !(norm <= u.clip_norm) ? u.clip_norm / (norm + 1e-6) : 1;
    c->step = u.rule == ADAM ? lr / (1 - pow(u.beta1, t)) : lr;
    c->root2 = u.rule == ADAM ? sqrt(1 - pow(u.beta2, t)) : 1;
    c->decay = u.decoupled ? 1 - lr * u.weight_decay : u.weight_decay;
    c->first = t == 1;
    *u.step = t;
}

/* ---- the rules on one element --------------------------------------------------------------------------------------------------------------------------- */

struct rule_f32 {
    float lr, scale, step, root2, decay, momentum, undamped, weight1, beta2, weight2, eps;
    bool has_scale, has_decay, coupled, decoupled, near, first, nesterov;
};

static __device__ __forceinline__ void apply(const rule_f32 &c, int rule, float *p, float g, float *m, float *v)
{
    if (c.has_scale) g = g * c.scale;
    if (rule == SGD) {
        if (c.has_decay) g = fmaf(c.decay, *p, g);
        float d = g;
        if (m) {
            *m = c.first ? g : fmaf(c.undamped, g, *m * c.momentum);
            d = c.nesterov ? fmaf(c.momentum, *m, g) : *m;
        }
        *p = fmaf(-c.lr, d, *p);
        return;
    }
    if (c.coupled) g = fmaf(c.decay, *p, g);
    if (c.decoupled) *p = *p * c.decay;
    *m = c.near ? g - (g - *m) * c.weight1 : *m + c.weight1 * (g - *m);
    *v = *v * c.beta2 + c.weight2 * g * g;
    *p = *p - c.step * *m / (sqrtf(*v) / c.root2 + c.eps);
}

static __device__ __forceinline__ rule_f32 rule_of(const gpu_update &u, const constants &c)
{
    const bool near = 1 - u.beta1 >= 0.5;
    return { (float)c.lr,
             (float)c.scale,
             (float)c.step,
             (float)c.root2,
             (float)c.decay,
             (float)u.momentum,
             (float)(1 - u.dampening),
             (float)(near ? u.beta1 : 1 - u.beta1),
             (float)u.beta2,
             (float)(1 - u.beta2),
             (float)u.eps,
             c.scale != 1,
             u.weight_decay != 0,
             u.weight_decay != 0 && !u.decoupled,
             u.weight_decay != 0 && u.decoupled,
             near,
             c.first != 0,
             u.nesterov };
}

static __global__ void __launch_bounds__(256)
    update_f32(const __grid_constant__ table t, const __grid_constant__ gpu_update u, const constants *shared_c)
{
    const rule_f32 c = rule_of(u, *shared_c);
    const slice &s = slice_of(t, blockIdx.x);
    const int64_t begin = (blockIdx.x - s.first) * CHUNK, end = begin + CHUNK < s.n ? begin + CHUNK : s.n;
    const float *g = (const float *)s.g;
    float *p = (float *)u.p + s.offset, *m = u.m ? (float *)u.m + s.offset : NULL, *v = u.v ? (float *)u.v + s.offset : NULL;
    const bool vector = (((uintptr_t)g | (uintptr_t)p | (uintptr_t)m | (uintptr_t)v) & 15) == 0;
    if (vector)
        for (int64_t i = begin + 4 * threadIdx.x; i + 4 <= end; i += 1024) {
            float4 gg = *(const float4 *)(g + i), pp = *(float4 *)(p + i), mm = {}, vv = {};
            if (m) mm = *(float4 *)(m + i);
            if (v) vv = *(float4 *)(v + i);
            float *mp = m ? &mm.x : NULL, *const vp = &vv.x;
            apply(c, u.rule, &pp.x, gg.x, mp, vp);
            apply(c, u.rule, &pp.y, gg.y, m ? &mm.y : NULL, &vv.y);
            apply(c, u.rule, &pp.z, gg.z, m ? &mm.z : NULL, &vv.z);
            apply(c, u.rule, &pp.w, gg.w, m ? &mm.w : NULL, &vv.w);
            *(float4 *)(p + i) = pp;
            if (m) *(float4 *)(m + i) = mm;
            if (v) *(float4 *)(v + i) = vv;
        }
    for (int64_t i = (vector ? begin + (end - begin) / 4 * 4 : begin) + threadIdx.x; i < end; i += 256) {
        float none = 0;
        apply(c, u.rule, &p[i], g[i], m ? &m[i] : NULL, v ? &v[i] : &none);
    }
}

static __global__ void __launch_bounds__(256)
    update_half(const __grid_constant__ table t, const __grid_constant__ gpu_update u, const constants *shared_c)
{
    const rule_f32 c = rule_of(u, *shared_c);
    const slice &s = slice_of(t, blockIdx.x);
    const int64_t begin = (blockIdx.x - s.first) * CHUNK, end = begin + CHUNK < s.n ? begin + CHUNK : s.n;
    float *p = (float *)u.p + s.offset, *m = u.m ? (float *)u.m + s.offset : NULL, *v = u.v ? (float *)u.v + s.offset : NULL;
    uint16_t *half = (uint16_t *)u.half + s.offset;
    for (int64_t i = begin + threadIdx.x; i < end; i += 256) {
        float none = 0;
        apply(c, u.rule, &p[i], load_as<float>(u.t, s.g, i), m ? &m[i] : NULL, v ? &v[i] : &none);
        half[i] = u.t == CJ_BF16 ? to_bf16(p[i]) : to_f16(p[i]);
    }
}

static __global__ void __launch_bounds__(256)
    update_f64(const __grid_constant__ table t, const __grid_constant__ gpu_update u, const constants *shared_c)
{
    const constants c = *shared_c;
    const slice &s = slice_of(t, blockIdx.x);
    const int64_t begin = (blockIdx.x - s.first) * CHUNK, end = begin + CHUNK < s.n ? begin + CHUNK : s.n;
    const double *g = (const double *)s.g, weight = 1 - u.beta1;
    double *p = (double *)u.p + s.offset, *m = u.m ? (double *)u.m + s.offset : NULL, *v = u.v ? (double *)u.v + s.offset : NULL;
    for (int64_t i = begin + threadIdx.x; i < end; i += 256) {
        double d = g[i] * c.scale;
        if (u.rule == SGD) {
            d += u.weight_decay * p[i];
            if (m) {
                m[i] = c.first ? d : u.momentum * m[i] + (1 - u.dampening) * d;
                d = u.nesterov ? d + u.momentum * m[i] : m[i];
            }
            p[i] -= c.lr * d;
            continue;
        }
        if (u.decoupled) p[i] *= c.decay;
        else d += u.weight_decay * p[i];
        m[i] = weight < 0.5 ? m[i] + weight * (d - m[i]) : d - (d - m[i]) * (1 - weight);
        v[i] = v[i] * u.beta2 + (1 - u.beta2) * d * d;
        p[i] -= c.step * m[i] / (sqrt(v[i]) / c.root2 + u.eps);
    }
}

/* ---- launching --------------------------------------------------------------------------------------------------------------------------------------------- */

/* The table of slices [from, from + SLICES); returns its blocks. */
static int64_t table_of(const gpu_slice *s, int n, int from, int64_t partial_at, table *t)
{
    int64_t blocks = 0;
    t->n = 0;
    t->partial_at = partial_at;
    for (int i = from; i < n && i < from + SLICES; i++) {
        if (s[i].n == 0) continue;
        t->s[t->n++] = { (const char *)s[i].g, s[i].offset, s[i].n, blocks };
        blocks += (s[i].n + CHUNK - 1) / CHUNK;
    }
    return blocks;
}

const char *gpu_update_run(gpu_state *st, const gpu_update *u, const gpu_slice *slices, int n)
{
    gpu_use(st);
    table t;
    int64_t parts = 0;
    constants *c = (constants *)(st->scratch + GPU_SCRATCH - CONSTANTS);
    if (u->clip_norm > 0) {
        for (int i = 0; i < n; i++) parts += (slices[i].n + CHUNK - 1) / CHUNK;
        if ((size_t)parts * sizeof(double) > GPU_SCRATCH - CONSTANTS) return "more parameters than the back-end's work space holds";
        parts = 0;
        for (int i = 0; i < n; i += SLICES) {
            const int64_t blocks = table_of(slices, n, i, parts, &t);
            if (blocks) sum_squares<<<(unsigned)blocks, 256, 0, st->stream>>>(t, u->t, (double *)st->scratch);
            parts += blocks;
        }
    }
    prepare<<<1, 256, 0, st->stream>>>(*u, (const double *)st->scratch, parts, c);
    for (int i = 0; i < n; i += SLICES) {
        const int64_t blocks = table_of(slices, n, i, 0, &t);
        if (!blocks) continue;
        if (u->t == CJ_F64) update_f64<<<(unsigned)blocks, 256, 0, st->stream>>>(t, *u, c);
        else if (u->half) update_half<<<(unsigned)blocks, 256, 0, st->stream>>>(t, *u, c);
        else update_f32<<<(unsigned)blocks, 256, 0, st->stream>>>(t, *u, c);
    }
    return gpu_check(st);
}
