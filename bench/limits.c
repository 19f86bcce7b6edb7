/* What the machine can do at most, measured in the same run: multiply-adds in registers, streaming copies, reads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/bench.h"
#include "core/parallel.h"

#if defined __x86_64__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

/* ---- multiply-adds: independent chains in registers, enough of them to hide the latency of each -------------------------------------- */

typedef double burst_fn(int64_t steps); /* returns the flops it did */
static volatile float sink;

#if defined __x86_64__
__attribute__((target("avx512f"), noinline)) static double fma_avx512(int64_t steps)
{
    enum { CHAINS = 16 };
    __m512 a[CHAINS], x = _mm512_set1_ps(0.5F), y = _mm512_set1_ps(0.25F);
    for (int i = 0; i < CHAINS; i++) a[i] = _mm512_set1_ps((float)i);
    for (int64_t s = 0; s < steps; s++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
    }
    for (int i = 1; i < CHAINS; i++) a[0] = _mm512_add_ps(a[0], a[i]);
    sink = _mm512_reduce_add_ps(a[0]);
    return (double)steps * CHAINS * 16 * 2;
}

__attribute__((target("avx2,fma"), noinline)) static double fma_avx2(int64_t steps)
{
    enum { CHAINS = 12 };
    __m256 a[CHAINS], x = _mm256_set1_ps(0.5F), y = _mm256_set1_ps(0.25F);
    for (int i = 0; i < CHAINS; i++) a[i] = _mm256_set1_ps((float)i);
    for (int64_t s = 0; s < steps; s++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
    }
    for (int i = 1; i < CHAINS; i++) a[0] = _mm256_add_ps(a[0], a[i]);
    sink = _mm256_cvtss_f32(a[0]);
    return (double)steps * CHAINS * 8 * 2;
}

static burst_fn *best_fma(void)
{
    if (__builtin_cpu_supports("avx512f")) return fma_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_avx2;
    return NULL;
}
#elif defined __aarch64__
static double fma_neon(int64_t steps)
{
    enum { CHAINS = 16 };
    float32x4_t a[CHAINS], x = vdupq_n_f32(0.5F), y = vdupq_n_f32(0.25F);
    for (int i = 0; i < CHAINS; i++) a[i] = vdupq_n_f32((float)i);
    for (int64_t s = 0; s < steps; s++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) a[i] = vfmaq_f32(y, a[i], x);
    }
    for (int i = 1; i < CHAINS; i++) a[0] = vaddq_f32(a[0], a[i]);
    sink = vgetq_lane_f32(a[0], 0);
    return (double)steps * CHAINS * 4 * 2;
}
static burst_fn *best_fma(void) { return fma_neon; }
#else
static burst_fn *best_fma(void) { return NULL; }
#endif

typedef struct fma_job {
    burst_fn *run;
    double rate[64];
} fma_job;

static void fma_part(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)end, (void)worker;
    fma_job *j = arg;
    double start = bench_now(), flops = j->run(100000);
    j->rate[begin % 64] = flops / (bench_now() - start);
}

double bench_fma_peak(bench_run *r)
{
    if (r->fma > 0) return r->fma;
    fma_job j = { .run = best_fma() };
    if (!j.run) return NAN;
    /* Each part of the machine at its best: the sum over the threads of the best burst of each. */
    cj_pool *pool = cj__pool_new(r->threads);
    int n = r->threads < 64 ? r->threads : 64;
    double best[64] = { 0 };
    for (int round = 0; round < (r->quick ? 60 : 200); round++) {
        cj__parallel_for(pool, n, 1, fma_part, &j);
        for (int i = 0; i < n; i++)
            if (j.rate[i] > best[i]) best[i] = j.rate[i];
    }
    cj__pool_free(pool);
    r->fma = 0;
    for (int i = 0; i < n; i++) r->fma += best[i];
    return r->fma;
}

/* ---- copies and reads -------------------------------------------------------------------------------------------------------------------- */

#if defined __x86_64__
__attribute__((target("avx512f"))) static void stream_avx512(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k += 16) _mm512_stream_ps(to + i + k, _mm512_loadu_ps(from + i + k));
    _mm_sfence();
}
__attribute__((target("avx"))) static void stream_avx(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i + 32 <= n; i += 32)
        for (size_t k = 0; k < 32; k += 8) _mm256_stream_ps(to + i + k, _mm256_loadu_ps(from + i + k));
    _mm_sfence();
}
static void stream(float *to, const float *from, size_t n)
{
    if (__builtin_cpu_supports("avx512f")) stream_avx512(to, from, n);
    else if (__builtin_cpu_supports("avx")) stream_avx(to, from, n);
    else memcpy(to, from, n * sizeof *to);
}
#else
static void stream(float *to, const float *from, size_t n) { memcpy(to, from, n * sizeof *to); }
#endif

typedef struct move_job {
    float *to;
    const float *from;
    size_t n, part; /* floats; part is a multiple of 64 */
    enum { STREAM, PLAIN, READ } kind;
} move_job;

static float read_all(const float *from, size_t n)
{
    float s[64] = { 0 };
    for (size_t i = 0; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k++) s[k] += from[i + k];
    for (size_t k = 1; k < 64; k++) s[0] += s[k];
    return s[0];
}

static void move_part(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)end, (void)worker;
    const move_job *j = arg;
    size_t from = (size_t)begin * j->part, n = j->n - from < j->part ? j->n - from : j->part;
    if (from >= j->n) return;
    if (j->kind == STREAM) stream(j->to + from, j->from + from, n);
    else if (j->kind == PLAIN) memcpy(j->to + from, j->from + from, n * sizeof *j->to);
    else sink = read_all(j->from + from, n);
}

typedef struct move_step {
    move_job job;
    cj_pool *pool;
    int threads;
} move_step;

static bool move_once(void *arg)
{
    move_step *m = arg;
    cj__parallel_for(m->pool, m->threads, 1, move_part, &m->job);
    return true;
}

void *bench_pages(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, bytes < (size_t)4 << 20 ? 64 : (size_t)2 << 20, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= (size_t)4 << 20) (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

static double best_move(const bench_run *r, size_t floats, int first, int last, double bytes_per_float)
{
    size_t n = (floats + 63) / 64 * 64;
    float *from = bench_pages(n * sizeof *from), *to = last == READ ? NULL : bench_pages(n * sizeof *to);
    double best = NAN;
    if (from && (to || last == READ)) {
        for (size_t i = 0; i < n; i++) from[i] = 1; /* the pages are there before the clock runs */
        if (to) memset(to, 0, n * sizeof *to);
        for (int threads = 1; threads <= r->threads;
             threads = threads < r->threads && threads * 2 > r->threads ? r->threads : threads * 2) {
            move_step m = { .pool = cj__pool_new(threads), .threads = threads };
            for (int kind = first; kind <= last; kind++) {
                m.job = (move_job){ .to = to, .from = from, .n = n, .part = (n / (size_t)threads + 63) / 64 * 64 };
                m.job.kind = kind;
                double rate = (double)n * bytes_per_float / bench_burst(move_once, &m, r->seconds);
                if (!(best >= rate)) best = rate;
            }
            cj__pool_free(m.pool);
        }
    }
    free(from);
    free(to);
    return best;
}

double bench_copy_rate(const bench_run *r, size_t bytes) { return best_move(r, bytes / 2 / sizeof(float), STREAM, PLAIN, 8); }
double bench_read_rate(const bench_run *r, size_t bytes) { return best_move(r, bytes / sizeof(float), READ, READ, 4); }

size_t bench_free_memory(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) return 0;
    char line[128];
    unsigned long long kb = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kb) == 1) break;
    fclose(f);
    return (size_t)kb * 1024;
}
