/* cajal bench gemm: our packed product beside OpenBLAS, BLIS and oneDNN, shape by shape.
 *
 * The peers are opened with dlopen, so this builds and runs without them.  For each shape all programs alternate in short bursts, and the ratio is
 * the median over the rounds of (peer time / our time): on a shared machine only interleaved ratios mean anything.  The limit is measured in the same
 * run: the peak of the multiply-add units, or, for one row times a matrix, the read bandwidth of a buffer as large as the matrix.
 *
 *     gemm_peers [--json] [--threads N] [--rounds N] [--only TEXT[,TEXT...]] [--shape MxNxK[NN|TN|NT|TT],...] [--seed N]
 *
 * --only keeps the shapes whose name or size contains one of the texts; --shape measures the given shapes instead of the list.
 */
#include "bench/gemm_peers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "core/parallel.h"
#include "kernels/cpu/gemm.h"

/* ---- the peers ---------------------------------------------------------------------------------------------------------------------------- */

typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                            float beta, float *c, int ldc);
typedef int dnnl_sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                          int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct cj_peer {
    const char *name;
    cblas_sgemm_fn *cblas;
    dnnl_sgemm_fn *dnnl;
    void (*set_threads_int)(int);
    void (*set_threads_long)(int64_t);
} cj_peer;

enum { MAX_PEERS = 3 };

static void *symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

/* OpenBLAS and BLIS choose their kernels by a list of processors that were known when they were built: on a newer one they may fall back to those for
 * SSE3 and AVX2.  With AVX-512 they shall have the kernels that they have for it; what the environment says goes first.  OpenBLAS finds them itself on AMD's
 * processors.  BLIS 0.x counts its architectures from 0, which is Skylake-X, and reads the variable at its first product. */
static void choose_kernels(void *blis)
{
#if defined __x86_64__
    if (!__builtin_cpu_supports("avx512f")) return;
    if (__builtin_cpu_is("intel")) setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    const char *(*version)(void) = NULL;
    *(void **)&version = symbol(blis, "bli_info_get_version_str");
    if (version && strncmp(version(), "0.", 2) == 0) setenv("BLIS_ARCH_TYPE", "0", 0);
#else
    (void)blis;
#endif
}

/* Opens what is installed; returns how many.  The environment shortens the time that idle peers spin after a product (to some 100 µs): long enough for
 * the next product of their own burst, short enough not to steal the core from the next program's. */
static int open_peers(cj_peer peers[MAX_PEERS])
{
    setenv("OPENBLAS_THREAD_TIMEOUT", "19", 0);
    setenv("GOMP_SPINCOUNT", "5000", 0);
    int n = 0;
    void *blis = dlopen("libblis.so.4", RTLD_NOW | RTLD_LOCAL);
    choose_kernels(blis); /* before OpenBLAS, which reads the environment while it is opened */
    void *openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    cj_peer p = { .name = "openblas" };
    *(void **)&p.cblas = symbol(openblas, "cblas_sgemm");
    *(void **)&p.set_threads_int = symbol(openblas, "openblas_set_num_threads");
    if (p.cblas && p.set_threads_int) peers[n++] = p;
    p = (cj_peer){ .name = "blis" };
    *(void **)&p.cblas = symbol(blis, "cblas_sgemm");
    *(void **)&p.set_threads_long = symbol(blis, "bli_thread_set_num_threads");
    if (p.cblas && p.set_threads_long) peers[n++] = p;
    p = (cj_peer){ .name = "onednn" };
    *(void **)&p.dnnl = symbol(dnnl, "dnnl_sgemm");
    *(void **)&p.set_threads_int = symbol(dnnl, "omp_set_num_threads");
    if (p.dnnl && p.set_threads_int) peers[n++] = p;
    return n;
}

static void peer_threads(const cj_peer *p, int threads)
{
    if (p->set_threads_long) p->set_threads_long(threads);
    if (p->set_threads_int) p->set_threads_int(threads);
}

/* ---- ours --------------------------------------------------------------------------------------------------------------------------------- */

cj_gemm_fn cj__gemm_f32_portable, cj__gemm_f32_avx2, cj__gemm_f32_avx512, cj__gemm_f32_neon;
cj_gemm_workspace_fn cj__gemm_workspace_f32_portable, cj__gemm_workspace_f32_avx2, cj__gemm_workspace_f32_avx512,
    cj__gemm_workspace_f32_neon;

typedef struct ours {
    cj_gemm_fn *run;
    cj_gemm_workspace_fn *workspace;
} ours;

static ours our_product(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return (ours){ cj__gemm_f32_avx512, cj__gemm_workspace_f32_avx512 };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (ours){ cj__gemm_f32_avx2, cj__gemm_workspace_f32_avx2 };
    return (ours){ cj__gemm_f32_portable, cj__gemm_workspace_f32_portable };
#else
    return (ours){ cj__gemm_f32_neon, cj__gemm_workspace_f32_neon };
#endif
}

/* ---- limits ------------------------------------------------------------------------------------------------------------------------------- */

/* Wall time; for one thread its processor time, which neighbours on the same core do not add to. */
static clockid_t bench_clock = CLOCK_MONOTONIC;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(bench_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined __x86_64__
#define FMA_LANES 16
typedef float fma_vector __attribute__((vector_size(64)));
#define FMA_TARGET __attribute__((target("avx512f,fma"), noinline))
#define FMA_CHAIN(r) "vfmadd231ps %%zmm31, %%zmm31, %%zmm" #r "\n\t"

/* 16 independent chains of multiply-adds in registers (on zeros, which take as long as anything else). */
FMA_TARGET static double fma_burst(int64_t steps)
{
    __asm__ volatile("vpxord %%zmm31, %%zmm31, %%zmm31" ::: "xmm31");
    const double start = seconds();
    for (int64_t s = 0; s < steps; s++) {
        __asm__ volatile(FMA_CHAIN(0) FMA_CHAIN(1) FMA_CHAIN(2) FMA_CHAIN(3) FMA_CHAIN(4) FMA_CHAIN(5) FMA_CHAIN(6) FMA_CHAIN(7)
                             FMA_CHAIN(8) FMA_CHAIN(9) FMA_CHAIN(10) FMA_CHAIN(11) FMA_CHAIN(12) FMA_CHAIN(13) FMA_CHAIN(14) FMA_CHAIN(15)::
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                                   "xmm12", "xmm13", "xmm14", "xmm15");
    }
    return (double)steps * 16 * FMA_LANES * 2 / (seconds() - start);
}

FMA_TARGET static float read_all(const float *p, int64_t n)
{
    fma_vector s[8] = { { 0 } };
    for (int64_t i = 0; i + 128 <= n; i += 128) {
#pragma GCC unroll 8
        for (int q = 0; q < 8; q++) {
            fma_vector x;
            memcpy(&x, p + i + 16 * q, sizeof x);
            s[q] += x;
        }
    }
    float total = 0;
    for (int q = 0; q < 8; q++) total += s[q][0];
    return total;
}
static int has_wide(void) { return __builtin_cpu_supports("avx512f"); }
#else
static double fma_burst(int64_t steps) { return (void)steps, 0; }
static float read_all(const float *p, int64_t n)
{
    float s = 0;
    for (int64_t i = 0; i < n; i++) s += p[i];
    return s;
}
static int has_wide(void) { return 0; }
#endif

typedef struct limit_job {
    const float *p;
    int64_t n;
    int parts;
    double rate[64];
    volatile float sink;
} limit_job;

static void fma_part(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)end, (void)worker;
    ((limit_job *)arg)->rate[begin] = fma_burst(200000);
}

static double fma_peak(cj_pool *pool, int threads)
{
    if (!has_wide()) return 0;
    double best = 0;
    for (int round = 0; round < 9; round++) {
        limit_job job = { 0 };
        cj__parallel_for(pool, threads, 1, fma_part, &job);
        double sum = 0;
        for (int i = 0; i < threads; i++) sum += job.rate[i];
        if (sum > best) best = sum;
    }
    return best;
}

static void read_part(void *arg, int64_t begin, int64_t end, int worker)
{
    limit_job *job = arg;
    (void)end, (void)worker;
    job->sink = read_all(job->p + begin * (job->n / job->parts), job->n / job->parts);
}

static double read_burst(cj_pool *pool, int threads, const float *p, int64_t n, int times)
{
    limit_job job = { .p = p, .n = n, .parts = threads };
    const double start = seconds();
    for (int i = 0; i < times; i++) cj__parallel_for(pool, threads, 1, read_part, &job);
    return (double)n * 4 * times / (seconds() - start);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct shape {
    char name[24];
    int m, n, k, ta, tb;
    double target; /* least ratio to the best peer */
} shape;

enum { MAX_SHAPES = 96 };

static int list_shapes(shape *s, uint64_t seed)
{
    static const shape fixed[] = {
        { "tiny", 4, 16, 2, 0, 0, 2 },
        { "tiny", 4, 1, 16, 0, 0, 2 },
        { "tiny TN", 16, 2, 4, 1, 0, 2 },
        { "tiny NT", 4, 2, 16, 0, 1, 2 },
        { "cube 4", 4, 4, 4, 0, 0, 2 },
        { "cube 8", 8, 8, 8, 0, 0, 2 },
        { "cube 16", 16, 16, 16, 0, 0, 1.3 },
        { "cube 32", 32, 32, 32, 0, 0, 1 },
        { "cube 64", 64, 64, 64, 0, 0, 1 },
        { "cube 64 TN", 64, 64, 64, 1, 0, 1 },
        { "cube 64 NT", 64, 64, 64, 0, 1, 1 },
        { "cube 128", 128, 128, 128, 0, 0, 1 },
        { "cube 256", 256, 256, 256, 0, 0, 1 },
        { "cube 256 TN", 256, 256, 256, 1, 0, 1 },
        { "cube 256 NT", 256, 256, 256, 0, 1, 1 },
        { "cube 512", 512, 512, 512, 0, 0, 1 },
        { "cube 1024", 1024, 1024, 1024, 0, 0, 1 },
        { "cube 1024 TN", 1024, 1024, 1024, 1, 0, 1 },
        { "cube 1024 NT", 1024, 1024, 1024, 0, 1, 1 },
        { "cube 2048", 2048, 2048, 2048, 0, 0, 1 },
        { "MLP forward", 128, 512, 784, 0, 0, 1 },
        { "MLP dW", 784, 512, 128, 1, 0, 1 },
        { "MLP dX", 128, 784, 512, 0, 1, 1 },
        { "MLP classes", 128, 10, 512, 0, 0, 1 },
        { "MLP classes dW", 512, 10, 128, 1, 0, 1 },
        { "MLP classes dX", 128, 512, 10, 0, 1, 1 },
        { "GPT d256", 2048, 1024, 256, 0, 0, 1 },
        { "GPT d256 dW", 256, 1024, 2048, 1, 0, 1 },
        { "GPT d256 dX", 2048, 256, 1024, 0, 1, 1 },
        { "attention QK", 128, 128, 64, 0, 1, 1 },
        { "attention PV", 128, 64, 128, 0, 0, 1 },
        { "LSTM step", 32, 1024, 256, 0, 0, 1 },
        { "LSTM step NT", 32, 1024, 256, 0, 1, 1 },
        { "LSTM dW", 256, 1024, 32, 1, 0, 1 },
        { "convolution", 64, 3136, 576, 0, 0, 1 },
        { "conv rows", 3136, 64, 576, 0, 0, 1 },
        { "conv rows NT", 3136, 64, 576, 0, 1, 1 },
        { "conv dW", 576, 64, 3136, 1, 0, 1 },
        { "LeNet conv", 576, 6, 25, 0, 0, 1 },
        { "decode", 1, 3072, 768, 0, 0, 1 },
        { "decode NT", 1, 3072, 768, 0, 1, 1 },
        { "decode", 1, 768, 3072, 0, 0, 1 },
        { "decode NT", 1, 768, 3072, 0, 1, 1 },
        { "decode", 1, 1024, 256, 0, 0, 1 },
        { "decode NT", 1, 1024, 256, 0, 1, 1 },
        { "decode", 1, 256, 64, 0, 0, 1 },
        { "decode B4", 4, 3072, 768, 0, 0, 1 },
        { "decode B4 NT", 4, 3072, 768, 0, 1, 1 },
        { "decode B16", 16, 3072, 768, 0, 0, 1 },
        { "decode B16 NT", 16, 1024, 256, 0, 1, 1 },
        { "decode B32", 32, 768, 768, 0, 0, 1 },
        { "column", 1024, 1, 1024, 0, 0, 1 },
        { "column TN", 1024, 1, 1024, 1, 0, 1 },
    };
    int count = (int)(sizeof fixed / sizeof *fixed);
    memcpy(s, fixed, sizeof fixed);
    uint64_t x = seed * 0x9E3779B97F4A7C15ULL | 1;
    for (int i = 0; i < 10; i++) { /* odd and skinny: one size of three small, any layout */
        int size[3];
        for (int d = 0; d < 3; d++) {
            x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
            const uint64_t r = x * 0x2545F4914F6CDD1DULL >> 33;
            size[d] = d == i % 3 ? 1 + (int)(r % 40) : 17 + (int)(r % 900);
        }
        s[count++] = (shape){ "random", size[0], size[1], size[2], i % 4 == 1, i % 4 == 2, 0.93 };
    }
    return count;
}

/* ---- measuring ---------------------------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    cj_peer peers[MAX_PEERS];
    int peer_count, threads, rounds, json;
    cj_pool *pool;
    ours our;
    float *a, *b, *c;
    void *workspace;
    size_t workspace_bytes;
} bench;

/* Our call takes a description of the product.  Like any caller that repeats a product, the bench fills it in once. */
static cj_gemm describe(const shape *s)
{
    const int lda = s->ta ? s->m : s->k, ldb = s->tb ? s->k : s->n;
    return (cj_gemm){ .m = s->m,
                      .n = s->n,
                      .k = s->k,
                      .batch = 1,
                      .a_row = s->ta ? 1 : lda,
                      .a_col = s->ta ? lda : 1,
                      .b_row = s->tb ? 1 : ldb,
                      .b_col = s->tb ? ldb : 1,
                      .c_row = s->n };
}

/* One burst of `times` products by program `who` (-1: ours). */
static double burst(const bench *z, const shape *s, int who, int times)
{
    const int lda = s->ta ? s->m : s->k, ldb = s->tb ? s->k : s->n;
    const cj_peer *p = who >= 0 ? &z->peers[who] : NULL;
    cj_gemm g = describe(s);
    g.a = z->a, g.b = z->b, g.c = z->c;
    const double start = seconds();
    for (int i = 0; i < times; i++) {
        if (!p) {
            z->our.run(z->pool, &g, z->workspace);
        } else if (p->dnnl) {
            p->dnnl(s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->m, s->n, s->k, 1, z->a, lda, z->b, ldb, 0, z->c, s->n);
        } else {
            p->cblas(101, s->ta ? 112 : 111, s->tb ? 112 : 111, s->m, s->n, s->k, 1, z->a, lda, z->b, ldb, 0, z->c, s->n);
        }
    }
    return (seconds() - start) / times;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

typedef struct result {
    double ours, peer[MAX_PEERS], ratio, bandwidth; /* seconds, ratio to the best peer, bytes per second */
    int best;
} result;

enum { MAX_ROUNDS = 64 };

/* Some schedulers wake a helper on the processor of the thread that calls it, where it waits for a time slice: the product then takes as long as on one
 * thread, or longer, and whose turn that is is chance.  So the caller has a processor for itself, and the helpers of all programs share the others. */
static void place_threads(int alone)
{
#ifdef __linux__
    static cpu_set_t all;
    static int known;
    if (!known && sched_getaffinity(0, sizeof all, &all) == 0) known = 1;
    if (!known || CPU_COUNT(&all) < 2) return;
    cpu_set_t mine, others = all;
    int first = 0;
    while (!CPU_ISSET((size_t)first, &all)) first++;
    CPU_ZERO(&mine);
    CPU_SET((size_t)first, &mine);
    CPU_CLR((size_t)first, &others);
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return;
    for (const struct dirent *d; (d = readdir(tasks));) {
        const pid_t id = (pid_t)strtol(d->d_name, NULL, 10);
        if (id > 0) (void)sched_setaffinity(id, sizeof all, !alone ? &all : id == getpid() ? &mine : &others);
    }
    closedir(tasks);
#else
    (void)alone;
#endif
}

/* Every core that idles in someone's spin loop is stolen from the next program; wait it out when there are threads. */
static void settle(const bench *z)
{
    if (z->threads > 1) nanosleep(&(struct timespec){ 0, 1200000 }, NULL);
}

static result measure(bench *z, const shape *s)
{
    double times[MAX_PEERS + 1][MAX_ROUNDS], ratios[MAX_PEERS][MAX_ROUNDS], bandwidth[MAX_ROUNDS];
    int repeats[MAX_PEERS + 1];
    for (int who = -1; who < z->peer_count; who++) { /* warm up, and find how many products last half a millisecond */
        settle(z);
        burst(z, s, who, 2);
        place_threads(z->threads > 1); /* by now it has started its helpers */
        const double one = burst(z, s, who, 3);
        repeats[who + 1] = one > 5e-4 ? 1 : (int)(5e-4 / (one + 1e-9)) + 1;
    }
    for (int round = 0; round < z->rounds; round++) {
        for (int turn = 0; turn <= z->peer_count; turn++) {
            const int who = (round + turn) % (z->peer_count + 1);
            settle(z);
            burst(z, s, who - 1, repeats[who] / 2 + 1); /* the helpers wake up */
            times[who][round] = burst(z, s, who - 1, repeats[who]);
        }
        for (int q = 0; q < z->peer_count; q++) ratios[q][round] = times[q + 1][round] / times[0][round];
        if (s->m == 1) {
            const int64_t size = (int64_t)s->n * s->k;
            settle(z);
            read_burst(z->pool, z->threads, z->b, size, 2);
            bandwidth[round] = read_burst(z->pool, z->threads, z->b, size, repeats[0]);
        }
    }
    result r = { .ratio = z->peer_count ? INFINITY : NAN, .best = -1 };
    r.ours = median(times[0], z->rounds);
    for (int q = 0; q < z->peer_count; q++) {
        const double ratio = median(ratios[q], z->rounds);
        r.peer[q] = median(times[q + 1], z->rounds);
        if (ratio < r.ratio) r.ratio = ratio, r.best = q;
    }
    if (s->m == 1) r.bandwidth = median(bandwidth, z->rounds);
    return r;
}

static void size_text(const shape *s, char text[40]) { snprintf(text, 40, "%dx%dx%d", s->m, s->n, s->k); }

/* Whether one of the texts, separated by commas, is part of the shape's name or size. */
static int is_wanted(const shape *s, const char *texts)
{
    char size[40], text[64];
    size_text(s, size);
    while (*texts) {
        const size_t length = strcspn(texts, ",");
        snprintf(text, sizeof text, "%.*s", (int)length, texts);
        if (*text && (strstr(s->name, text) || strstr(size, text))) return 1;
        texts += length + (texts[length] == ',');
    }
    return 0;
}

/* MxNxK, and the layout of A and B: N as it lies, T transposed. */
static int parse_shape(const char *text, shape *s)
{
    char layout[3] = "NN";
    int end = 0;
    *s = (shape){ .name = "given", .target = 0.93 };
    if (sscanf(text, "%dx%dx%d%n%2[NT]%n", &s->m, &s->n, &s->k, &end, layout, &end) < 3 || s->m < 1 || s->n < 1 || s->k < 1) return 0;
    if ((text[end] != 0 && text[end] != ',') || !layout[1]) return 0;
    s->ta = layout[0] == 'T', s->tb = layout[1] == 'T';
    return 1;
}

/* Shapes separated by commas, behind the `count` that are there; how many there are then, or -1. */
static int parse_shapes(const char *texts, shape shapes[MAX_SHAPES], int count)
{
    for (; *texts; texts += strcspn(texts, ","), texts += *texts == ',')
        if (count == MAX_SHAPES || !parse_shape(texts, &shapes[count++])) return -1;
    return count;
}

static void print_result(const bench *z, const shape *s, const result *r, double peak)
{
    const double flop = 2.0 * s->m * s->n * s->k, rate = flop / r->ours;
    const double share = s->m == 1 ? 4.0 * s->n * s->k / r->ours / r->bandwidth : peak > 0 ? rate / peak : 0;
    char size[40];
    size_text(s, size);
    if (z->json) {
        printf("{\"name\":\"gemm %s %s %c%c "
               "%dT\",\"value\":%.3f,\"unit\":\"GFLOP/s\",\"limit_share\":%.3f,\"peer\":\"%s\",\"peer_value\":%.3f,\"ratio\":%.3f,"
               "\"target\":%.2f}\n",
               s->name, size, s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', z->threads, rate / 1e9, share,
               r->best >= 0 ? z->peers[r->best].name : "none", r->best >= 0 ? flop / r->peer[r->best] / 1e9 : 0,
               r->best >= 0 ? r->ratio : 0, s->target);
        return;
    }
    printf("%-15s %-15s %c%c %d %8.0f ns %8.1f %4.0f%%%s", s->name, size, s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', z->threads, r->ours * 1e9,
           rate / 1e9, share * 100, s->m == 1 ? "r" : " ");
    for (int q = 0; q < z->peer_count; q++) printf(" %8.1f", flop / r->peer[q] / 1e9);
    printf("  %5.2f%s\n", r->ratio, r->ratio < s->target * 0.995 ? r->ratio < 0.93 || s->target > 1 ? " **" : " *" : "");
    fflush(stdout);
}

static void bench_threads(bench *z, const shape *shapes, int count, const char *only, int threads)
{
    z->threads = threads;
    bench_clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    z->pool = cj__pool_new(threads);
    for (int q = 0; q < z->peer_count; q++) peer_threads(&z->peers[q], threads);
    const double peak = fma_peak(z->pool, threads);
    if (!z->json) {
        printf("\n%d thread%s, multiply-add peak %.0f GFLOP/s\n%-15s %-15s tt T %11s %8s share ", threads, threads > 1 ? "s" : "",
               peak / 1e9, "", "m x n x k", "ours", "GFLOP/s");
        for (int q = 0; q < z->peer_count; q++) printf(" %8s", z->peers[q].name);
        printf("  ratio to best\n");
    }
    double log_sum = 0, worst = INFINITY;
    int measured = 0;
    for (int i = 0; i < count; i++) {
        const shape *s = &shapes[i];
        if (only && !is_wanted(s, only)) continue;
        const result r = measure(z, s);
        print_result(z, s, &r, peak);
        log_sum += log(r.ratio), measured++;
        if (r.ratio < worst) worst = r.ratio;
    }
    if (measured && z->peer_count) {
        const double mean = exp(log_sum / measured);
        if (z->json)
            printf(
                "{\"name\":\"gemm geometric mean "
                "%dT\",\"value\":%.3f,\"unit\":\"x\",\"limit_share\":0,\"peer\":\"best\",\"peer_value\":1,\"ratio\":%.3f,\"target\":1}\n",
                threads, mean, mean);
        else printf("geometric mean %.3f, worst %.3f\n", mean, worst);
    }
    place_threads(0);
    cj__pool_free(z->pool);
}

int cj_bench_gemm(int argc, const char **argv)
{
    bench z = { .rounds = 9, .our = our_product() };
    const char *only = NULL;
    int threads = 0, count = 0;
    shape shapes[MAX_SHAPES];
    uint64_t seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) z.json = 1;
        else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0) threads = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0) z.rounds = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--only") == 0) only = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--shape") == 0) {
            count = parse_shapes(argv[++i], shapes, count);
            if (count > 0) continue;
            fprintf(stderr, "%s: --shape takes up to %d shapes MxNxK, each with NN, TN, NT, TT or nothing behind it; '%s' was found\n",
                    argv[0], MAX_SHAPES, argv[i]);
            return 2;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[++i], NULL, 0);
        else {
            fprintf(stderr,
                    "usage: %s [--json] [--threads N] [--rounds N] [--only TEXT[,TEXT...]] [--shape MxNxK[NN|TN|NT|TT],...] [--seed N]\n",
                    argv[0]);
            return 2;
        }
    }
    if (z.rounds < 1) z.rounds = 1;
    if (z.rounds > MAX_ROUNDS) z.rounds = MAX_ROUNDS;
    z.peer_count = open_peers(z.peers);

    if (count == 0) count = list_shapes(shapes, seed);
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        const shape *s = &shapes[i];
        const size_t need[3] = { (size_t)s->m * (size_t)s->k, (size_t)s->k * (size_t)s->n, (size_t)s->m * (size_t)s->n };
        for (int d = 0; d < 3; d++)
            if (need[d] > size) size = need[d];
        for (int tt = 0; tt < 2; tt++) {
            const cj_gemm g = describe(s);
            const size_t bytes = z.our.workspace(&g, threads > 1 ? threads : tt + 1);
            if (bytes > z.workspace_bytes) z.workspace_bytes = bytes;
        }
    }
    /* A, B and C lie in one block, at different offsets from a page: stores to C that look like loads of the next A or B by their last 12 bits would
     * hold those up, which says nothing about a product. */
    const size_t stride = (size + 4095) / 4096 * 4096 + 1360;
    float *memory = bench_pages(3 * stride * sizeof *memory);
    z.workspace = bench_pages(z.workspace_bytes + 64);
    if (!memory || !z.workspace) {
        fprintf(stderr, "gemm_peers: out of memory\n");
        free(memory), free(z.workspace);
        return 1;
    }
    z.a = memory, z.b = memory + stride, z.c = memory + 2 * stride;
    for (size_t i = 0; i < size; i++) z.a[i] = (float)(i % 251) * 0.01F - 1, z.b[i] = (float)(i % 241) * 0.01F - 1, z.c[i] = 0;
    if (threads) bench_threads(&z, shapes, count, only, threads);
    else
        for (int t = 1; t <= 2; t++) bench_threads(&z, shapes, count, only, t);
    free(memory), free(z.workspace);
    return 0;
}

#ifdef CJ_BENCH_MAIN
int main(int argc, char **argv) { return cj_bench_gemm(argc, (const char **)(void *)argv); }
#endif
