/* cj__parallel_for on OpenMP (CJ_OPENMP=ON), for programs whose other parts run on OpenMP too: one set of threads instead of two.
 *
 * The contract is that of parallel.c, and so are the results: chunks depend on n and grain only.
 */
#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cajal/limits.h"
#include "core/parallel.h"

struct cj_pool {
    int threads;
    _Atomic bool busy;
};

void cj__parallel_for(cj_pool *p, int64_t n, int64_t grain, cj_range_fn fn, void *arg)
{
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    bool free_pool = false;
    if (!p || n <= grain ||
        !atomic_compare_exchange_strong_explicit(&p->busy, &free_pool, true, memory_order_acquire, memory_order_relaxed)) {
        for (int64_t b = 0; b < n; b += grain) fn(arg, b, b + grain < n ? b + grain : n, 0);
        return;
    }
    int64_t chunks = (n + grain - 1) / grain;
#pragma omp parallel for num_threads(chunks < p->threads ? (int)chunks : p->threads) schedule(dynamic, 1)
    for (int64_t k = 0; k < chunks; k++) {
        int64_t begin = k * grain;
        fn(arg, begin, begin + grain < n ? begin + grain : n, omp_get_thread_num());
    }
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

void cj__parallel_soon(cj_pool *p, const void *data, size_t bytes) { (void)p, (void)data, (void)bytes; }

size_t cj__pool_bytes(int threads) { return threads > 1 ? (sizeof(cj_pool) + 63) & ~(size_t)63 : 0; }

cj_pool *cj__pool_start(void *memory, int threads)
{
    if (!memory || threads <= 1) return NULL;
    cj_pool *p = memory;
    p->threads = threads;
    atomic_init(&p->busy, false);
    return p;
}

void cj__pool_stop(cj_pool *p) { (void)p; }

cj_pool *cj__pool_new(int threads)
{
    if (threads > CJ_MAX_THREADS) threads = CJ_MAX_THREADS;
    void *memory = threads > 1 ? aligned_alloc(64, cj__pool_bytes(threads)) : NULL;
    return cj__pool_start(memory, threads);
}

void cj__pool_free(cj_pool *p) { free(p); }

int cj__pool_threads(const cj_pool *p) { return p ? p->threads : 1; }
