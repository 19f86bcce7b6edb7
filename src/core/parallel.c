/* The thread pool behind cj__parallel_for.
 *
 * Every thread has its own share of the chunks, the same one whenever n and grain are the same, so that it meets the data again that it left in its
 * caches; a thread that has finished its share takes chunks from the end of the others'.
 *
 * A job is open while it has chunks that nobody has taken.  Workers join an open job by a compare-and-swap on `state` and leave by counting
 * down; the caller closes the job and waits only for those that joined, so a sleeping worker never holds a small job up.  Workers spin for
 * some microseconds after a job, because the next one usually follows at once, then sleep.
 *
 * A scheduler likes to wake a thread on the processor of the one that wakes it, which here goes on computing: the worker would wait there for its slice,
 * and then the caller for the worker.  So a worker goes to sleep with the caller's processor struck from its affinity, and takes it back when it wakes.
 */
#include "core/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cajal/limits.h"

#if defined __x86_64__ || defined __i386__
#define cpu_relax() __builtin_ia32_pause()
#elif defined __aarch64__
#define cpu_relax() __asm__ volatile("yield")
#else
#define cpu_relax() ((void)0)
#endif

#define SPINS 4000       /* of an idle worker: 40 to 200 µs */
#define CALLER_SPINS 400 /* of a caller that waits for the last chunk, before it lets others have its processor */

typedef struct cj_worker {
    pthread_t thread;
    cj_pool *pool;
    int index;
    _Alignas(64) _Atomic uint64_t share; /* chunks that nobody has taken: first << 32 | end */
} cj_worker;

struct cj_pool {
    int threads;
    /* state = serial << 16 | joined << 1 | open */
    _Alignas(64) _Atomic uint64_t state;
    _Alignas(64) _Atomic int left; /* joined workers that have finished */
    cj_range_fn fn;
    void *arg;
    int64_t n, grain;
    _Atomic bool busy, stop;
    _Atomic int sleepers, caller_processor;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    cj_worker worker[]; /* 0 is the caller */
};

static void run_chunk(const cj_pool *p, int64_t chunk, int index)
{
    const int64_t begin = chunk * p->grain;
    p->fn(p->arg, begin, begin + p->grain < p->n ? begin + p->grain : p->n, index);
}

/* Takes one chunk of a share, from its front or its end; -1 when it is empty. */
static int64_t take(_Atomic uint64_t *share, bool front)
{
    uint64_t s = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        const uint64_t first = s >> 32, end = s & UINT32_MAX;
        if (first >= end) return -1;
        const uint64_t rest = front ? (first + 1) << 32 | end : first << 32 | (end - 1);
        if (atomic_compare_exchange_weak_explicit(share, &s, rest, memory_order_relaxed, memory_order_relaxed))
            return (int64_t)(front ? first : end - 1);
    }
}

static void work(cj_pool *p, int index)
{
    int64_t chunk;
    while ((chunk = take(&p->worker[index].share, true)) >= 0) run_chunk(p, chunk, index);
    for (int i = 1; i < p->threads; i++) {
        _Atomic uint64_t *other = &p->worker[(index + i) % p->threads].share;
        while ((chunk = take(other, false)) >= 0) run_chunk(p, chunk, index);
    }
}

/* Chunk i belongs to thread i * threads / chunks. */
static void deal(cj_pool *p, int64_t chunks)
{
    int64_t first = 0;
    for (int i = 0; i < p->threads; i++) {
        const int64_t end = (chunks * (i + 1)) / p->threads;
        atomic_store_explicit(&p->worker[i].share, (uint64_t)first << 32 | (uint64_t)end, memory_order_relaxed);
        first = end;
    }
}

/* Joins the open job that is newer than `seen`. */
static bool join(cj_pool *p, uint64_t *seen)
{
    uint64_t s = atomic_load_explicit(&p->state, memory_order_acquire);
    while ((s & 1) && s >> 16 != *seen)
        if (atomic_compare_exchange_weak_explicit(&p->state, &s, s + 2, memory_order_acq_rel, memory_order_acquire)) {
            *seen = s >> 16;
            return true;
        }
    return false;
}

#ifdef __linux__
typedef cpu_set_t processors;

static int this_processor(void) { return sched_getcpu(); }

/* Leaves in *old the processors that this thread may use, and from now on does without the caller's; false when there is no other. */
static bool avoid_caller(cj_pool *p, processors *old)
{
    const int caller = atomic_load_explicit(&p->caller_processor, memory_order_relaxed);
    if (caller < 0 || caller >= CPU_SETSIZE || sched_getaffinity(0, sizeof *old, old) != 0) return false;
    cpu_set_t others = *old;
    CPU_CLR((size_t)caller, &others);
    return CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0;
}

static void avoid_nobody(const processors *old) { (void)sched_setaffinity(0, sizeof *old, old); }
#else
typedef int processors;
static int this_processor(void) { return -1; }
static bool avoid_caller(cj_pool *p, processors *old) { return (void)p, (void)old, false; }
static void avoid_nobody(const processors *old) { (void)old; }
#endif

static void sleep_until_work(cj_pool *p, uint64_t seen)
{
    processors all;
    const bool avoiding = avoid_caller(p, &all);
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->sleepers, 1);
    uint64_t s = atomic_load(&p->state);
    if (!((s & 1) && s >> 16 != seen) && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->mutex);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->mutex);
    if (avoiding) avoid_nobody(&all);
}

static void *worker_main(void *arg)
{
    cj_worker *w = arg;
    cj_pool *p = w->pool;
    uint64_t seen = 0;
    int idle = 0;
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        if (join(p, &seen)) {
            work(p, w->index);
            atomic_fetch_add_explicit(&p->left, 1, memory_order_acq_rel);
            idle = 0;
        } else if (++idle < SPINS) {
            cpu_relax();
        } else {
            sleep_until_work(p, seen);
            idle = 0;
        }
    }
    return NULL;
}

void cj__parallel_for(cj_pool *p, int64_t n, int64_t grain, cj_range_fn fn, void *arg)
{
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    bool free_pool = false;
    const int64_t chunks = (n - 1) / grain + 1;
    if (!p || chunks == 1 || chunks > INT32_MAX ||
        !atomic_compare_exchange_strong_explicit(&p->busy, &free_pool, true, memory_order_acquire, memory_order_relaxed)) {
        for (int64_t b = 0; b < n; b += grain) fn(arg, b, b + grain < n ? b + grain : n, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    p->grain = grain;
    deal(p, chunks);
    atomic_store_explicit(&p->left, 0, memory_order_relaxed);
    atomic_store_explicit(&p->caller_processor, this_processor(), memory_order_relaxed);
    uint64_t serial = (atomic_load_explicit(&p->state, memory_order_relaxed) >> 16) + 1;
    atomic_store(&p->state, serial << 16 | 1);
    if (atomic_load(&p->sleepers)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->mutex);
    }
    work(p, 0);
    uint64_t s = atomic_fetch_and_explicit(&p->state, ~(uint64_t)1, memory_order_acq_rel);
    int joined = (int)(s >> 1 & 0x7fff);
    for (int spins = 0; atomic_load_explicit(&p->left, memory_order_acquire) != joined;) {
        if (++spins < CALLER_SPINS) cpu_relax();
        else sched_yield(); /* perhaps the worker waits for this very processor */
    }
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

size_t cj__pool_bytes(int threads) { return (sizeof(cj_pool) + (size_t)threads * sizeof(cj_worker) + 63) & ~(size_t)63; }

cj_pool *cj__pool_start(void *memory, int threads)
{
    if (!memory || threads <= 1) return NULL;
    cj_pool *p = memory;
    atomic_init(&p->state, 0);
    for (int i = 0; i < threads; i++) atomic_init(&p->worker[i].share, 0);
    atomic_init(&p->left, 0);
    atomic_init(&p->busy, false);
    atomic_init(&p->stop, false);
    atomic_init(&p->sleepers, 0);
    atomic_init(&p->caller_processor, -1);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->threads = 1;
    for (int i = 1; i < threads; i++) {
        cj_worker *w = &p->worker[p->threads];
        *w = (cj_worker){ .pool = p, .index = p->threads };
        if (pthread_create(&w->thread, NULL, worker_main, w)) break;
        p->threads++;
    }
    if (p->threads == 1) {
        cj__pool_stop(p);
        return NULL;
    }
    return p;
}

void cj__pool_stop(cj_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 1; i < p->threads; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mutex);
}

cj_pool *cj__pool_new(int threads)
{
    if (threads > CJ_MAX_THREADS) threads = CJ_MAX_THREADS;
    void *memory = threads > 1 ? aligned_alloc(64, cj__pool_bytes(threads)) : NULL;
    cj_pool *p = cj__pool_start(memory, threads);
    if (!p) free(memory);
    return p;
}

void cj__pool_free(cj_pool *p)
{
    cj__pool_stop(p);
    free(p);
}

int cj__pool_threads(const cj_pool *p) { return p ? p->threads : 1; }
