/* Elementwise programs (kernels/cpu/ew.h).
 *
 * Three ways.  One instruction on contiguous f32 operands (or scalars) has a kernel of its own (ew_fast.cu).  Large fused chains of a graph are compiled (jit.cu).  Everything
 * else runs an interpreter: a thread keeps four elements of every register of the program in shared memory, loads each input once, walks the instructions, and
 * stores each output once.  All threads of a block take the same branch at every instruction.
 */
#include "kernels/cuda/ew_fast.cuh"
#include "kernels/cuda/ew_value.cuh"
#include "kernels/cuda/jit.cuh"

/* ---- the interpreter ---------------------------------------------------------------------------------------------------------------------------- */

template <class T> struct step_of {
    uint8_t code, reads, dst, a, b, c;
    T s;
};
struct array_of {
    char *data;
    int dtype;
    int64_t stride[CJ_MAX_DIMS]; /* outermost first; the last one is the innermost dimension's */
};
/* A program with room for ARGS arguments and STEPS instructions; small programs make small launches. */
template <class T, int ARGS, int STEPS> struct program {
    int64_t n;
    int n_in, n_out, n_steps, ndim;
    bool wide;       /* more than 2^31 elements: 64-bit division */
    bool whole_rows; /* the innermost size is a multiple of 4, or there is one dimension: four neighbours share all outer indices */
    int64_t size[CJ_MAX_DIMS];
    divider by[CJ_MAX_DIMS];
    gpu_flag flag;
    uint8_t out[ARGS];
    array_of arg[ARGS];
    step_of<T> step[STEPS];
};

/* Offset of linear element i of an argument. */
template <class P> static __device__ __forceinline__ int64_t offset_of(const P &p, const array_of &a, int64_t i)
{
    int64_t at = 0;
    if (!p.wide) {
        uint32_t left = (uint32_t)i;
        for (int d = p.ndim - 1; d > 0; d--) {
            const uint32_t q = divide(left, p.by[d]);
            at += (int64_t)(left - q * p.by[d].n) * a.stride[d];
            left = q;
        }
        return at + (int64_t)left * a.stride[0];
    }
    for (int d = p.ndim - 1; d > 0; d--) {
        const int64_t q = i / p.size[d];
        at += (i - q * p.size[d]) * a.stride[d];
        i = q;
    }
    return at + i * a.stride[0];
}

template <class T> static __device__ __forceinline__ void load4(const array_of &a, int64_t at, int64_t stride, int lanes, T *v)
{
    if (sizeof(T) == 4 && a.dtype == CJ_F32 && lanes == 4 && stride == 1 && ((uintptr_t)(a.data + 4 * at) & 15) == 0) {
        const float4 q = *(const float4 *)(a.data + 4 * at);
        v[0] = (T)q.x, v[1] = (T)q.y, v[2] = (T)q.z, v[3] = (T)q.w;
        return;
    }
    if (stride == 0) {
        const T x = load_as<T>(a.dtype, a.data, at);
        for (int l = 0; l < 4; l++) v[l] = x;
        return;
    }
#pragma unroll
    for (int l = 0; l < 4; l++) v[l] = l < lanes ? load_as<T>(a.dtype, a.data, at + l * stride) : T(0);
}

/* i64 to i32 and u8 wraps here, unlike a cast between tensors. */
template <class T> static __device__ __forceinline__ void store1(const array_of &a, int64_t at, T v)
{
    if (!is_real<T> && a.dtype == CJ_I32) ((uint32_t *)a.data)[at] = (uint32_t)(int64_t)v;
    else if (!is_real<T> && a.dtype == CJ_U8) ((uint8_t *)a.data)[at] = (uint8_t)(int64_t)v;
    else store_as(a.dtype, a.data, at, v);
}

template <class T> struct alignas(16) four {
    T v[4];
};

template <class T, int ARGS, int STEPS> static __global__ void ew_program(const __grid_constant__ program<T, ARGS, STEPS> p)
{
    extern __shared__ __align__(16) char memory[];
    four<T> *const regs = (four<T> *)memory + threadIdx.x; /* register r is regs[r * blockDim.x] */
    const int pitch = (int)blockDim.x;
    const int64_t groups = (p.n + 3) / 4, stride = (int64_t)gridDim.x * blockDim.x;
    unsigned bad = 0;
    for (int64_t g = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; g < groups; g += stride) {
        const int64_t i = 4 * g;
        const int lanes = p.n - i < 4 ? (int)(p.n - i) : 4;
        for (int k = 0; k < p.n_in; k++) {
            four<T> q;
            if (p.whole_rows) {
                load4<T>(p.arg[k], offset_of(p, p.arg[k], i), p.arg[k].stride[p.ndim - 1], lanes, q.v);
            } else {
#pragma unroll
                for (int l = 0; l < 4; l++)
                    q.v[l] = l < lanes ? load_as<T>(p.arg[k].dtype, p.arg[k].data, offset_of(p, p.arg[k], i + l)) : T(0);
            }
            regs[k * pitch] = q;
        }
        for (int k = 0; k < p.n_steps; k++) {
            const step_of<T> &s = p.step[k];
            four<T> a = {}, b = {}, c = {}, y;
            if (s.reads > 0) a = regs[s.a * pitch];
            if (s.reads > 1) b = regs[s.b * pitch];
            if (s.reads > 2) c = regs[s.c * pitch];
            bool fault[4] = { false, false, false, false };
            switch (s.code) {
#define X(name, arity)                                                                                                                     \
    case CJ_EW_##name:                                                                                                                     \
        _Pragma("unroll") for (int l = 0; l < 4; l++) y.v[l] = ew_value<T>(CJ_EW_##name, a.v[l], b.v[l], c.v[l], s.s, &fault[l]);          \
        break;
                CJ_EW_OPS(X)
#undef X
            default: y = a;
            }
#pragma unroll
            for (int l = 0; l < 4; l++) bad |= fault[l] && l < lanes;
            regs[s.dst * pitch] = y;
        }
        for (int k = 0; k < p.n_out; k++) {
            const array_of &o = p.arg[p.n_in + k];
            const four<T> q = regs[p.out[k] * pitch];
            if (p.whole_rows) {
                const int64_t at = offset_of(p, o, i), s = o.stride[p.ndim - 1];
                if (sizeof(T) == 4 && o.dtype == CJ_F32 && lanes == 4 && s == 1 && ((uintptr_t)(o.data + 4 * at) & 15) == 0)
                    *(float4 *)(o.data + 4 * at) = make_float4((float)q.v[0], (float)q.v[1], (float)q.v[2], (float)q.v[3]);
                else
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        if (l < lanes) store1<T>(o, at + l * s, q.v[l]);
            } else {
#pragma unroll
                for (int l = 0; l < 4; l++)
                    if (l < lanes) store1<T>(o, offset_of(p, o, i + l), q.v[l]);
            }
        }
    }
    if (bad) gpu_clamp(p.flag, GPU_DIVISION, 0, 0, 0);
}

/* ---- launching ------------------------------------------------------------------------------------------------------------------------------------- */

/* Neighbouring dimensions that every argument steps through evenly become one; sizes of 1 go. */
static int collapse(int n_args, const cj_ew_arg *args, int ndim, const int64_t *shape, int64_t *size, int64_t (*stride)[CJ_MAX_DIMS])
{
    int n = 0;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 1) continue;
        bool joins = n > 0;
        for (int k = 0; k < n_args && joins; k++) joins = stride[k][n - 1] == args[k].stride[d] * shape[d];
        if (joins) size[n - 1] *= shape[d];
        else size[n++] = shape[d];
        for (int k = 0; k < n_args; k++) stride[k][n - 1] = args[k].stride[d];
    }
    if (n == 0) {
        size[n++] = 1;
        for (int k = 0; k < n_args; k++) stride[k][0] = 1;
    }
    return n;
}

static bool try_fast(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t (*stride)[CJ_MAX_DIMS], int64_t n)
{
    if (p->compute != CJ_F32 || p->n_instr != 1 || p->n_out != 1 || ndim != 1) return false;
    const cj_ew_instr *s = &p->instr[0];
    const int arity = arity_of[s->code], y = p->n_in;
    const uint8_t from[3] = { s->a, s->b, s->c };
    if (p->out[0] != s->dst || stride[y][0] != 1 || (args[y].dtype != CJ_F32 && args[y].dtype != CJ_BOOL)) return false;
    fast_args k = {};
    k.y = args[y].data;
    k.n = n;
    k.s = (float)s->s;
    k.to_bool = args[y].dtype == CJ_BOOL;
    bool vector = n % 4 == 0 && n >= 1024 && ((uintptr_t)k.y & 15) == 0;
    for (int i = 0; i < arity; i++) {
        const cj_ew_arg *x = &args[from[i]];
        if (from[i] >= p->n_in || x->dtype != CJ_F32 || stride[from[i]][0] > 1 || stride[from[i]][0] < 0) return false;
        k.in[i] = (const float *)x->data;
        if (stride[from[i]][0] == 0 && n > 1) k.scalar |= 1 << i;
        else vector = vector && ((uintptr_t)x->data & 15) == 0;
    }
    gpu_ew_fast(st, s->code, &k, vector);
    return true;
}

template <class T> static T immediate(double s) { return (T)s; }
template <> int64_t immediate<int64_t>(double s) { return f64_to_i64(s); }

template <class T, int ARGS, int STEPS>
static const char *launch(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *size,
                          const int64_t (*stride)[CJ_MAX_DIMS], int64_t n)
{
    program<T, ARGS, STEPS> k;
    const int n_args = p->n_in + p->n_out;
    k.n = n;
    k.n_in = p->n_in, k.n_out = p->n_out, k.n_steps = p->n_instr, k.ndim = ndim;
    k.wide = n > INT32_MAX;
    k.whole_rows = ndim == 1 || size[ndim - 1] % 4 == 0;
    k.flag = st->flag;
    for (int d = 0; d < ndim; d++) {
        k.size[d] = size[d];
        k.by[d] = divider_of(k.wide ? 1 : (uint32_t)size[d]);
    }
    for (int j = 0; j < p->n_out; j++) k.out[j] = p->out[j];
    for (int i = 0; i < n_args; i++) {
        k.arg[i].data = (char *)args[i].data;
        k.arg[i].dtype = args[i].dtype;
        for (int d = 0; d < ndim; d++) k.arg[i].stride[d] = stride[i][d];
    }
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *s = &p->instr[i];
        k.step[i] = { s->code, arity_of[s->code], s->dst, s->a, s->b, s->c, immediate<T>(s->s) };
    }
    int threads = 128;
    while (threads > 32 && (size_t)p->n_regs * threads * sizeof(four<T>) > 48 * 1024) threads /= 2;
    const size_t shared = (size_t)p->n_regs * threads * sizeof(four<T>);
    ew_program<T, ARGS, STEPS><<<gpu_blocks(st, (n + 3) / 4, threads), threads, shared, st->stream>>>(k);
    return gpu_check(st);
}

template <class T>
static const char *launch_sized(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *size,
                                const int64_t (*stride)[CJ_MAX_DIMS], int64_t n)
{
    if (p->n_in + p->n_out <= 4 && p->n_instr <= 2) return launch<T, 4, 2>(st, p, args, ndim, size, stride, n);
    return launch<T, CJ_EW_MAX_ARGS, CJ_EW_MAX_INSTR>(st, p, args, ndim, size, stride, n);
}

const char *gpu_ew(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape)
{
    gpu_use(st);
    int64_t n = 1, size[CJ_MAX_DIMS], stride[CJ_EW_MAX_ARGS][CJ_MAX_DIMS];
    for (int d = 0; d < ndim; d++) n *= shape[d];
    if (n == 0) return NULL;
    const int dims = collapse(p->n_in + p->n_out, args, ndim, shape, size, stride);
    if (try_fast(st, p, args, dims, stride, n) || gpu_jit_run(st, p, args, dims, size, stride, n)) return gpu_check(st);
    switch (p->compute) {
    case CJ_F64: return launch_sized<double>(st, p, args, dims, size, stride, n);
    case CJ_I64: return launch_sized<int64_t>(st, p, args, dims, size, stride, n);
    default: return launch_sized<float>(st, p, args, dims, size, stride, n);
    }
}
