/* Fused chains as kernels of their own: the program is written down as CUDA C++, compiled by NVRTC when a graph is captured, and kept for the state's life.
 *
 * The kernel calls the functions of ew_value.cuh that the interpreter calls, so both give the same bits.  Its text depends on the program, the dtypes, how the arguments lie
 * and how many dimensions there are; sizes and strides are arguments.  NVRTC and the driver are opened on first use.  Where one is missing, or with CAJAL_JIT=0 in the
 * environment, gpu_jit_run says no and the interpreter of ew.cu does the work.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/ew_jit.cuh"
#include "kernels/cuda/jit.cuh"

extern "C" {
extern const char gpu_text_value[], gpu_text_ew_value[], gpu_text_ew_jit[];
}

enum {
    LEAST = 1 << 18
}; /* elements: compiling takes some 40 ms, which a chain of a million elements has won back after 4000 runs, a small one never */

struct jit_kernel {
    jit_kernel *next;
    uint64_t hash;
    char *text;
    CUmodule module; /* NULL: this text does not compile */
    CUfunction run;
};
struct gpu_jit {
    bool works;
    void *nvrtc, *driver;
    char arch[32];
    jit_kernel *kernels;
    decltype(&nvrtcCreateProgram) create;
    decltype(&nvrtcCompileProgram) compile;
    decltype(&nvrtcDestroyProgram) destroy;
    decltype(&nvrtcGetCUBINSize) size;
    decltype(&nvrtcGetCUBIN) cubin;
    decltype(&cuModuleLoadData) load;
    decltype(&cuModuleUnload) unload;
    decltype(&cuModuleGetFunction) find;
    decltype(&cuLaunchKernel) launch;
};

/* ---- a text that grows ------------------------------------------------------------------------------------------------------------------------- */

struct text {
    char *s;
    size_t n, room;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...)
{
    for (int round = 0; round < 2 && !t->failed; round++) {
        va_list v;
        va_start(v, format);
        const int n = vsnprintf(t->s ? t->s + t->n : NULL, t->room - t->n, format, v);
        va_end(v);
        if (n >= 0 && t->n + (size_t)n < t->room) {
            t->n += (size_t)n;
            return;
        }
        const size_t room = 2 * t->room + (size_t)(n < 0 ? 0 : n) + 4096;
        char *s = n < 0 ? NULL : (char *)realloc(t->s, room);
        if (s) t->s = s, t->room = room;
        t->failed = !s;
    }
}

/* ---- opening ------------------------------------------------------------------------------------------------------------------------------------- */

static void *open_first(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static gpu_jit *jit_open(gpu_state *st)
{
    static const char *const compilers[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL };
    static const char *const drivers[] = { "libcuda.so.1", "libcuda.so", NULL };
    gpu_jit *j = (gpu_jit *)calloc(1, sizeof *j);
    if (!j) return NULL;
    const char *wish = getenv("CAJAL_JIT");
    cudaDeviceProp prop;
    if ((wish && strcmp(wish, "0") == 0) || cudaGetDeviceProperties(&prop, st->device) != cudaSuccess) return j;
    snprintf(j->arch, sizeof j->arch, "--gpu-architecture=sm_%d%d", prop.major, prop.minor);
    j->nvrtc = open_first(compilers);
    j->driver = open_first(drivers);
    j->works = j->nvrtc && j->driver;
#define FIND(field, library, name) j->works = j->works && (j->field = (decltype(j->field))dlsym(j->library, name)) != NULL
    FIND(create, nvrtc, "nvrtcCreateProgram");
    FIND(compile, nvrtc, "nvrtcCompileProgram");
    FIND(destroy, nvrtc, "nvrtcDestroyProgram");
    FIND(size, nvrtc, "nvrtcGetCUBINSize");
    FIND(cubin, nvrtc, "nvrtcGetCUBIN");
    FIND(load, driver, "cuModuleLoadData");
    FIND(unload, driver, "cuModuleUnload");
    FIND(find, driver, "cuModuleGetFunction");
    FIND(launch, driver, "cuLaunchKernel");
#undef FIND
    return j;
}

void gpu_jit_close(gpu_state *st)
{
    gpu_jit *j = st->jit;
    if (!j) return;
    for (jit_kernel *k = j->kernels, *next; k; k = next) {
        next = k->next;
        if (k->module) j->unload(k->module);
        free(k->text);
        free(k);
    }
    if (j->nvrtc) dlclose(j->nvrtc);
    if (j->driver) dlclose(j->driver);
    free(j);
    st->jit = NULL;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------------------- */

static const char prologue[] = "typedef signed char int8_t; typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef int "
                               "int32_t; typedef unsigned int uint32_t;\n"
                               "typedef long long int64_t; typedef unsigned long long uint64_t, uintptr_t;\n"
                               "#define INT32_MAX 0x7fffffff\n#define INT32_MIN (-INT32_MAX - 1)\n#define INT64_MAX "
                               "0x7fffffffffffffffll\n#define INT64_MIN (-INT64_MAX - 1)\n"
                               "#define INFINITY __int_as_float(0x7f800000)\n";

/* Names that the headers take from the C side. */
static void put_names(text *t)
{
    put(t, "%s#define CJ_MAX_DIMS %d\n#define CJ_EW_MAX_ARGS %d\n", prologue, CJ_MAX_DIMS, CJ_EW_MAX_ARGS);
#define NAME(name) put(t, "#define %s %d\n", #name, (int)(name))
    NAME(CJ_F32), NAME(CJ_F64), NAME(CJ_BF16), NAME(CJ_F16), NAME(CJ_I64), NAME(CJ_I32), NAME(CJ_U8), NAME(CJ_BOOL);
#define X(name, arity) NAME(CJ_EW_##name);
    CJ_EW_OPS(X)
#undef X
#undef NAME
}

/* Where argument k lies: its offset in elements, as far as it depends on the place. */
static void put_place(text *t, int k, int ndim, const int64_t *stride)
{
    bool some = false;
    for (int d = 0; d < ndim; d++) {
        if (stride[d] == 0) continue;
        put(t, some ? " + (int64_t)i%d" : "(int64_t)i%d", d);
        if (stride[d] != 1) put(t, " * p.stride[%d][%d]", k, d);
        some = true;
    }
    if (!some) put(t, "0");
}

static void put_program(text *t, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t (*stride)[CJ_MAX_DIMS], int width,
                        const int *way)
{
    static const char *const ways[] = { "JIT_ONE", "JIT_VECTOR", "JIT_ANYWHERE" };
    put(t,
        "#include \"names\"\n#include \"kernels/cuda/ew_value.cuh\"\n#include \"kernels/cuda/ew_jit.cuh\"\ntypedef %s T;\nenum { W = %d "
        "};\n"
        "extern \"C\" __global__ void __launch_bounds__(JIT_THREADS) ew(const __grid_constant__ jit_args p)\n{\n    bool fault = false;\n"
        "    const int64_t groups = p.n / W, step = (int64_t)gridDim.x * JIT_THREADS;\n"
        "    for (int64_t g = (int64_t)blockIdx.x * JIT_THREADS + threadIdx.x; g < groups; g += step) {\n        uint32_t left = "
        "(uint32_t)(g * W);\n",
        p->compute == CJ_F64 ? "double" : "float", width);
    for (int d = ndim - 1; d > 0; d--)
        put(t, "        const uint32_t q%d = divide(left, p.by[%d]), i%d = left - q%d * p.by[%d].n;\n        left = q%d;\n", d, d, d, d, d,
            d);
    put(t, "        const uint32_t i0 = left;\n");
    for (int r = 0; r < p->n_regs; r++) put(t, "        T r%d[W];\n", r);
    for (int k = 0; k < p->n_in; k++) {
        put(t, "        jit_load<%d, %d, %s>(p.data[%d], ", (int)args[k].dtype, gpu_elem(args[k].dtype), ways[way[k]], k);
        put_place(t, k, ndim, stride[k]);
        put(t, ", p.stride[%d][%d], r%d);\n", k, ndim - 1, k);
    }
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *s = &p->instr[i];
        const uint8_t from[3] = { s->a, s->b, s->c };
        unsigned long long bits;
        memcpy(&bits, &s->s, sizeof bits);
        put(t, "#pragma unroll\n        for (int l = 0; l < W; l++) r%d[l] = ew_value<T>(%d", s->dst, s->code);
        for (int a = 0; a < 3; a++) {
            if (a < arity_of[s->code]) put(t, ", r%d[l]", from[a]);
            else put(t, ", T(0)");
        }
        put(t, ", T(__longlong_as_double(0x%llxll)), &fault);\n", bits);
    }
    for (int k = p->n_in; k < p->n_in + p->n_out; k++) {
        put(t, "        jit_store<%d, %d, %s>(p.data[%d], ", (int)args[k].dtype, gpu_elem(args[k].dtype), ways[way[k]], k);
        put_place(t, k, ndim, stride[k]);
        put(t, ", p.stride[%d][%d], r%d);\n", k, ndim - 1, p->out[k - p->n_in]);
    }
    put(t, "    }\n}\n");
}

/* ---- compiling --------------------------------------------------------------------------------------------------------------------------------------- */

static bool build(const gpu_jit *j, jit_kernel *k)
{
    text names = {};
    put_names(&names);
    const char *const headers[] = { names.s, gpu_text_value, gpu_text_ew_value, gpu_text_ew_jit };
    const char *const called[] = { "names", "kernels/cuda/value.cuh", "kernels/cuda/ew_value.cuh", "kernels/cuda/ew_jit.cuh" };
    const char *const options[] = { j->arch, "--std=c++17", "--fmad=false" };
    nvrtcProgram program = NULL;
    char *code = NULL;
    size_t size = 0;
    bool ok = !names.failed && j->create(&program, k->text, "chain.cu", 4, headers, called) == NVRTC_SUCCESS &&
              j->compile(program, 3, options) == NVRTC_SUCCESS && j->size(program, &size) == NVRTC_SUCCESS && size > 0;
    ok = ok && (code = (char *)malloc(size)) && j->cubin(program, code) == NVRTC_SUCCESS;
    ok = ok && j->load(&k->module, code) == CUDA_SUCCESS && j->find(&k->run, k->module, "ew") == CUDA_SUCCESS;
    if (program) j->destroy(&program);
    free(code);
    free(names.s);
    return ok;
}

/* The kernel of a text, which it takes over. */
static const jit_kernel *kernel_of(gpu_jit *j, text *t)
{
    uint64_t hash = 14695981039346656037ull; /* FNV-1a */
    for (size_t i = 0; i < t->n; i++) hash = (hash ^ (uint8_t)t->s[i]) * 1099511628211ull;
    for (const jit_kernel *k = j->kernels; k; k = k->next)
        if (k->hash == hash && strcmp(k->text, t->s) == 0) {
            free(t->s);
            return k;
        }
    jit_kernel *k = (jit_kernel *)calloc(1, sizeof *k);
    if (!k) {
        free(t->s);
        return NULL;
    }
    k->hash = hash;
    k->text = t->s;
    k->next = j->kernels;
    j->kernels = k;
    if (!build(j, k)) k->run = NULL;
    return k;
}

bool gpu_jit_run(gpu_state *st, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *size,
                 const int64_t (*stride)[CJ_MAX_DIMS], int64_t n)
{
    if (!st->capturing || n < LEAST || n > INT32_MAX || p->compute == CJ_I64) return false;
    if (!st->jit) st->jit = jit_open(st);
    gpu_jit *j = st->jit;
    if (!j || !j->works) return false;
    const int last = ndim - 1, width = size[last] % 4 == 0 ? 4 : 1, n_args = p->n_in + p->n_out;
    int way[CJ_EW_MAX_ARGS];
    jit_args a = {};
    a.n = n;
    for (int d = 0; d < ndim; d++) a.by[d] = divider_of((uint32_t)size[d]);
    for (int k = 0; k < n_args; k++) {
        const int elem = gpu_elem(args[k].dtype), bytes = elem * width < 16 ? elem * width : 16;
        bool vector = width == 4 && stride[k][last] == 1 && (uintptr_t)args[k].data % bytes == 0;
        for (int d = 0; d < last; d++) vector = vector && stride[k][d] % 4 == 0;
        way[k] = k < p->n_in && stride[k][last] == 0 ? JIT_ONE : vector ? JIT_VECTOR : JIT_ANYWHERE;
        a.data[k] = (char *)args[k].data;
        for (int d = 0; d < ndim; d++) a.stride[k][d] = stride[k][d];
    }
    text t = {};
    put_program(&t, p, args, ndim, stride, width, way);
    if (t.failed) {
        free(t.s);
        return false;
    }
    const jit_kernel *k = kernel_of(j, &t);
    if (!k || !k->run) return false;
    void *arguments[] = { &a };
    return j->launch(k->run, gpu_blocks(st, n / width, JIT_THREADS), 1, 1, JIT_THREADS, 1, 1, 0, (CUstream)st->stream, arguments, NULL) ==
           CUDA_SUCCESS;
}
