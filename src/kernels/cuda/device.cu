/* The device: opening, memory, copies, graphs, and the report of what kernels found.
 *
 * All work of a state runs on one stream, so a freed block may be handed out again at once: whoever gets it runs later.  Blocks are kept by size
 * class (four per power of two); small ones are cut from chunks, large ones are one cudaMalloc each and go back when the device is full.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/state.cuh"

#define CHUNK ((size_t)32 << 20)
#define SMALL ((size_t)1 << 20)

const char *gpu_fail(gpu_state *st, const char *what, cudaError_t e)
{
    snprintf(st->message, sizeof st->message, "%s: %s", what, cudaGetErrorString(e));
    st->failed = true;
    st->code = CJ_EDEVICE;
    return st->message;
}

const char *gpu_check(gpu_state *st)
{
    cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? NULL : gpu_fail(st, "the kernel was not launched", e);
}

void gpu_use(gpu_state *st) { cudaSetDevice(st->device); }

void *gpu_scratch(gpu_state *st, size_t *bytes)
{
    *bytes = GPU_SCRATCH;
    return st->scratch;
}

/* ---- open, close ------------------------------------------------------------------------------------------------------------------------------ */

static bool open_parts(gpu_state *st, cudaError_t *e)
{
    void *mapped = NULL;
    if ((*e = cudaStreamCreateWithFlags(&st->stream, cudaStreamNonBlocking))) return false;
    if ((*e = cudaMalloc((void **)&st->scratch, GPU_SCRATCH)) || (*e = cudaMalloc((void **)&st->workspace, GPU_WORKSPACE))) return false;
    if ((*e = cudaMalloc((void **)&st->bases, CJ_STREAMS * sizeof *st->bases)) ||
        (*e = cudaMalloc((void **)&st->flag.lock, sizeof *st->flag.lock)))
        return false;
    if ((*e = cudaMemsetAsync(st->bases, 0, CJ_STREAMS * sizeof *st->bases, st->stream))) return false;
    if ((*e = cudaMemsetAsync(st->flag.lock, 0, sizeof *st->flag.lock, st->stream))) return false;
    if ((*e = cudaHostAlloc(&mapped, sizeof(gpu_report), cudaHostAllocMapped))) return false;
    st->flag.report = (gpu_report *)mapped; /* one address on both sides: unified addressing */
    memset(st->flag.report, 0, sizeof *st->flag.report);
    return true;
}

void *gpu_open(int index, char *message, size_t n)
{
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || index < 0 || index >= count) {
        if (e != cudaSuccess) snprintf(message, n, "%s", cudaGetErrorString(e));
        else snprintf(message, n, "there is no GPU %d; %d found", index, count);
        return NULL;
    }
    gpu_state *st = (gpu_state *)calloc(1, sizeof *st);
    if (!st) {
        snprintf(message, n, "out of memory");
        return NULL;
    }
    st->device = index;
    cudaDeviceProp prop;
    int driver = 0;
    if ((e = cudaSetDevice(index)) == cudaSuccess && (e = cudaGetDeviceProperties(&prop, index)) == cudaSuccess) {
        st->sms = prop.multiProcessorCount;
        cudaDriverGetVersion(&driver);
        snprintf(st->description, sizeof st->description,
                 "%.120s, compute capability %d.%d, %d multiprocessors, %.0f GiB, driver for CUDA %d.%d", prop.name, prop.major, prop.minor,
                 prop.multiProcessorCount, (double)prop.totalGlobalMem / (1 << 30), driver / 1000, driver % 1000 / 10);
        if (open_parts(st, &e)) {
            cublasStatus_t s = cublasLtCreate(&st->lt);
            if (s == CUBLAS_STATUS_SUCCESS) return st;
            snprintf(message, n, "cuBLASLt: %s", cublasLtGetStatusString(s));
            gpu_close(st);
            return NULL;
        }
    }
    snprintf(message, n, "%s", cudaGetErrorString(e));
    gpu_close(st);
    return NULL;
}

static void release_large(gpu_state *st);

void gpu_close(void *state)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    if (st->stream) cudaStreamSynchronize(st->stream);
    gpu_gemm_close(st);
    gpu_jit_close(st);
    if (st->lt) cublasLtDestroy(st->lt);
    release_large(st);
    for (size_t i = 0; i < st->places_cap; i++) /* what the context did not give back */
        if (st->place[i].p && st->place[i].bin >= 0) {
            size_t size = (size_t)1 << (st->place[i].bin / 4);
            if (size >= SMALL) cudaFree(st->place[i].p);
        }
    for (int i = 0; i < st->n_chunks; i++) cudaFree(st->chunks[i]);
    for (int b = 0; b < GPU_BINS; b++)
        for (gpu_block *k = st->bin[b], *next; k; k = next) next = k->next, free(k);
    for (gpu_block *k = st->spare, *next; k; k = next) next = k->next, free(k);
    free(st->chunks);
    free(st->place);
    cudaFree(st->scratch);
    cudaFree(st->workspace);
    cudaFree(st->bases);
    cudaFree(st->flag.lock);
    if (st->flag.report) cudaFreeHost(st->flag.report);
    if (st->stream) cudaStreamDestroy(st->stream);
    cudaGetLastError();
    free(st);
}

const char *gpu_describe(void *state) { return ((gpu_state *)state)->description; }

/* ---- memory ------------------------------------------------------------------------------------------------------------------------------------- */

/* Class 4·log + q holds up to 2^log·(1 + q/4); at least 512 bytes, so that every block is aligned for cuBLASLt. */
static int class_of(size_t bytes, size_t *rounded)
{
    if (bytes < 512) bytes = 512;
    int log = 63 - __builtin_clzll((unsigned long long)bytes);
    size_t step = ((size_t)1 << log) / 4, q = (bytes - ((size_t)1 << log) + step - 1) / step;
    if (step % 256) { /* the smallest classes are powers of two */
        q = bytes > (size_t)1 << log ? 4 : 0;
    }
    if (q == 4) log++, q = 0;
    *rounded = ((size_t)1 << log) + q * (((size_t)1 << log) / 4);
    return 4 * log + (int)q;
}

static size_t slot_of(const gpu_state *st, const void *p)
{
    return ((uintptr_t)p >> 8) * 0x9E3779B97F4A7C15ull >> 20 & (st->places_cap - 1);
}

static bool place_put(gpu_state *st, void *p, int bin)
{
    if (2 * (st->places + 1) > st->places_cap) {
        size_t old = st->places_cap, cap = old ? 2 * old : 1024;
        gpu_place *was = st->place, *now = (gpu_place *)calloc(cap, sizeof *now);
        if (!now) return false;
        st->place = now;
        st->places_cap = cap;
        for (size_t i = 0; i < old; i++)
            if (was[i].p) {
                size_t k = slot_of(st, was[i].p);
                while (now[k].p) k = (k + 1) & (cap - 1);
                now[k] = was[i];
            }
        free(was);
    }
    size_t k = slot_of(st, p);
    while (st->place[k].p) k = (k + 1) & (st->places_cap - 1);
    st->place[k] = { p, bin };
    st->places++;
    return true;
}

/* Takes p out of the table (backward-shift deletion) and returns its class, or -1. */
static int place_take(gpu_state *st, const void *p)
{
    if (!st->places_cap) return -1;
    size_t mask = st->places_cap - 1, k = slot_of(st, p);
    while (st->place[k].p != p) {
        if (!st->place[k].p) return -1;
        k = (k + 1) & mask;
    }
    int bin = st->place[k].bin;
    for (size_t hole = k, i = (k + 1) & mask;; i = (i + 1) & mask) {
        if (!st->place[i].p) {
            st->place[hole] = {};
            break;
        }
        size_t home = slot_of(st, st->place[i].p);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            st->place[hole] = st->place[i];
            hole = i;
        }
    }
    st->places--;
    return bin;
}

/* Gives the cached large blocks back to the driver. */
static void release_large(gpu_state *st)
{
    if (st->capturing) return; /* the graph may use them */
    if (st->stream) cudaStreamSynchronize(st->stream);
    for (int b = 0; b < GPU_BINS; b++) {
        if ((size_t)1 << (b / 4 < 62 ? b / 4 : 62) < SMALL) continue;
        for (gpu_block *k = st->bin[b], *next; k; k = next) {
            next = k->next;
            cudaFree(k->p);
            k->next = st->spare;
            st->spare = k;
        }
        st->bin[b] = NULL;
    }
}

static bool chunk_new(gpu_state *st)
{
    if (st->n_chunks == st->cap_chunks) {
        int cap = st->cap_chunks ? 2 * st->cap_chunks : 16;
        void **now = (void **)realloc(st->chunks, (size_t)cap * sizeof *now);
        if (!now) return false;
        st->chunks = now;
        st->cap_chunks = cap;
    }
    void *p = NULL;
    if (cudaMalloc(&p, CHUNK) != cudaSuccess) {
        cudaGetLastError();
        release_large(st);
        if (cudaMalloc(&p, CHUNK) != cudaSuccess) {
            cudaGetLastError();
            return false;
        }
    }
    st->chunks[st->n_chunks++] = p;
    st->chunk = (char *)p;
    st->chunk_left = CHUNK;
    return true;
}

static void *fresh(gpu_state *st, size_t size)
{
    if (size < SMALL) {
        if (st->chunk_left < size && !chunk_new(st)) return NULL;
        void *p = st->chunk;
        st->chunk += size;
        st->chunk_left -= size;
        return p;
    }
    void *p = NULL;
    if (cudaMalloc(&p, size) == cudaSuccess) return p;
    cudaGetLastError();
    release_large(st);
    if (cudaMalloc(&p, size) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

void *gpu_alloc(void *state, size_t bytes)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    if (bytes > (size_t)1 << 46) return NULL;
    size_t size;
    int bin = class_of(bytes, &size);
    gpu_block *k = st->bin[bin];
    void *p;
    if (k) {
        st->bin[bin] = k->next;
        p = k->p;
        k->next = st->spare;
        st->spare = k;
    } else if (!(p = fresh(st, size))) {
        return NULL;
    }
    if (place_put(st, p, bin)) return p;
    if (size >= SMALL) cudaFree(p);
    return NULL;
}

void gpu_free(void *state, void *p)
{
    gpu_state *st = (gpu_state *)state;
    int bin = place_take(st, p);
    if (bin < 0) return;
    gpu_block *k = st->spare;
    if (k) st->spare = k->next;
    else if (!(k = (gpu_block *)malloc(sizeof *k))) return; /* the block is lost to the cache, not to the device: its chunk still owns it */
    k->p = p;
    k->next = st->bin[bin];
    st->bin[bin] = k;
}

/* ---- copies and waiting ----------------------------------------------------------------------------------------------------------------------------- */

/* After the stream ran dry: did a kernel report something? */
static bool look_at_flag(gpu_state *st)
{
    static const char *const names[GPU_REPORTERS] = { "index_select",  "index_add",    "gather",   "scatter_add",
                                                      "cross_entropy", "write_slice_", "division", "csr_matmul" };
    volatile gpu_report *r = st->flag.report;
    if (!r->who) return true;
    int who = r->who - 1;
    if (who == GPU_DIVISION) snprintf(st->message, sizeof st->message, "integer division by zero");
    else if (who == GPU_WRITE_SLICE)
        snprintf(st->message, sizeof st->message, "write_slice_: position %lld is outside [0, %lld]", (long long)r->value,
                 (long long)r->limit - 1);
    else
        snprintf(st->message, sizeof st->message, "%s: %s %lld at position %lld is outside [0, %lld)", names[who],
                 who == GPU_CROSS_ENTROPY ? "target" : "index", (long long)r->value, (long long)r->position, (long long)r->limit);
    st->failed = true;
    st->code = who == GPU_DIVISION ? CJ_EVALUE : CJ_EINDEX;
    r->who = 0;
    cudaMemsetAsync(st->flag.lock, 0, sizeof *st->flag.lock, st->stream);
    return false;
}

static bool succeeded(gpu_state *st, const char *what, cudaError_t e)
{
    if (e == cudaSuccess) return true;
    gpu_fail(st, what, e);
    cudaGetLastError();
    return false;
}

bool gpu_sync(void *state)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    return succeeded(st, "waiting for the device", cudaStreamSynchronize(st->stream)) && look_at_flag(st);
}

/* The caller's memory may be reused when this returns: the driver has staged pageable memory by then. */
bool gpu_to_device(void *state, void *dst, const void *src, size_t bytes)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    return !bytes || succeeded(st, "copying to the device", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, st->stream));
}

bool gpu_to_host(void *state, void *dst, const void *src, size_t bytes)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    if (bytes && !succeeded(st, "copying from the device", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, st->stream)))
        return false;
    return gpu_sync(st);
}

bool gpu_copy_bytes(void *state, void *dst, const void *src, size_t bytes)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    return !bytes || succeeded(st, "copying on the device", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, st->stream));
}

const char *gpu_fault_text(void *state, cj_code *code)
{
    gpu_state *st = (gpu_state *)state;
    if (!st->failed) return NULL;
    st->failed = false;
    *code = st->code;
    st->code = CJ_EDEVICE;
    return st->message;
}

/* ---- graphs --------------------------------------------------------------------------------------------------------------------------------------------- */

bool gpu_graph_begin(void *state)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    if (!succeeded(st, "beginning a graph", cudaStreamBeginCapture(st->stream, cudaStreamCaptureModeRelaxed))) return false;
    st->capturing = true;
    return true;
}

void *gpu_graph_end(void *state)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    st->capturing = false;
    if (!succeeded(st, "ending a graph", cudaStreamEndCapture(st->stream, &graph))) return NULL;
    bool ok = succeeded(st, "instantiating a graph", cudaGraphInstantiate(&run, graph, 0));
    cudaGraphDestroy(graph);
    if (ok) cudaGraphUpload(run, st->stream);
    return ok ? (void *)run : NULL;
}

bool gpu_graph_launch(void *state, void *graph)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    return succeeded(st, "launching a graph", cudaGraphLaunch((cudaGraphExec_t)graph, st->stream));
}

void gpu_graph_free(void *state, void *graph)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    cudaStreamSynchronize(st->stream);
    if (graph) cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* The bases travel as kernel arguments: no copy from the host. */
struct bases_arg {
    uint64_t v[CJ_STREAMS];
};
static __global__ void write_bases(uint64_t *bases, bases_arg a)
{
    if (threadIdx.x < CJ_STREAMS) bases[threadIdx.x] = a.v[threadIdx.x];
}

bool gpu_set_bases(void *state, const uint64_t *bases, int n)
{
    gpu_state *st = (gpu_state *)state;
    gpu_use(st);
    bases_arg a = {};
    for (int i = 0; i < n && i < CJ_STREAMS; i++) a.v[i] = bases[i];
    write_bases<<<1, 32, 0, st->stream>>>(st->bases, a);
    return gpu_check(st) == NULL;
}
