/* The thread pool behind cj__parallel_for.
 *
 * Every thread has its own share of the chunks, the same one whenever n and grain are the same, so that it meets the data again that it left in its
 * caches; a thread that has finished its share takes chunks from the end of the others'.
 *
 * The share is all that a worker looks at while it is idle: one cache line, which also says what to do, goes over to its processor and that is the whole
 * call.  Whoever takes a chunk holds the job open until it has counted that chunk as done; the caller takes what nobody has begun and then waits for what
 * was begun, so a sleeping worker never holds a small job up.  After a job a worker spins for some microseconds, because the next one usually follows at
 * once, then lets others have its processor now and then, and sleeps in the end: to wake it takes tens of microseconds on a virtual machine.
 *
 * A scheduler likes to wake a thread on the processor of the one that wakes it, which here goes on computing: the worker would wait there for its slice,
 * and then the caller for the worker.  So a worker goes to sleep with the caller's processor struck from its affinity, and takes it back when it has worked.
 * If the caller has moved in the meantime, perhaps to the only processor that is left, it strikes its new one before it wakes the worker.
 */
#include "core/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "cajal/limits.h"

#if defined __x86_64__ || defined __i386__
#define cpu_relax() __builtin_ia32_pause()
#elif defined __aarch64__
#define cpu_relax() __asm__ volatile("yield")
#else
#define cpu_relax() ((void)0)
#endif

#define SPINS 2000                    /* of an idle worker before it yields: 25 to 100 µs */
#define YIELD_SPINS 32                /* between two yields */
#define IDLE_NS 200000                /* of yielding before it sleeps */
#define PATIENCE_NS 10000             /* of a thread that has finished its share with one that has not */
#define SOON_MOST ((size_t)512 << 10) /* bytes that a worker fetches: a part of its second-level cache */
#define SOON_LINES 8                  /* of 64 bytes, between two looks at its share */
#define CALLER_SPINS 400              /* of a caller that waits for the last chunk, before it lets others have its processor */

#ifdef __linux__
typedef cpu_set_t processors;
#else
typedef int processors;
#endif

typedef struct cj_worker {
    /* Written by the caller for every job. */
    _Alignas(64) _Atomic uint64_t share; /* chunks that nobody has taken: first << 32 | end */
    cj_range_fn fn;
    void *arg;
    int64_t n, grain;
    _Atomic(const char *) soon, soon_end; /* what it will read in a while */
    /* Written by the worker; the caller waits for it. */
    _Alignas(64) _Atomic uint64_t done; /* chunks since the pool was started */
    /* Written when it goes to sleep. */
    _Alignas(64) pthread_t thread;
    const char *fetched, *fetched_of; /* how far it has fetched of what it will read */
    cj_pool *pool;
    int index;
    int avoided;    /* processor that it does without, -1 for none; under the mutex */
    processors all; /* where it may run otherwise */
} cj_worker;

struct cj_pool {
    int threads;
    const char *soon; /* what will be read after the job, and … */
    size_t soon_bytes;
    uint64_t done; /* chunks of the workers in all finished jobs */
    _Atomic bool busy;
    _Atomic int caller_processor;
    _Alignas(64) _Atomic bool stop;
    _Atomic int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    cj_worker worker[]; /* 0 is the caller */
};

static void run_chunk(const cj_worker *w, int64_t chunk)
{
    const int64_t begin = chunk * w->grain;
    w->fn(w->arg, begin, begin + w->grain < w->n ? begin + w->grain : w->n, w->index);
}

/* Takes one chunk of a share, from its front or its end; -1 when it is empty. */
static int64_t take(_Atomic uint64_t *share, bool front)
{
    uint64_t s = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        const uint64_t first = s >> 32, end = s & UINT32_MAX;
        if (first >= end) return -1;
        const uint64_t rest = front ? (first + 1) << 32 | end : first << 32 | (end - 1);
        if (atomic_compare_exchange_weak_explicit(share, &s, rest, memory_order_acquire, memory_order_relaxed))
            return (int64_t)(front ? first : end - 1);
    }
}

static bool is_empty(const _Atomic uint64_t *share)
{
    const uint64_t s = atomic_load(share);
    return s >> 32 >= (s & UINT32_MAX);
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t first_chunk(const cj_pool *p, int64_t chunks, int index) { return (chunks * index + p->threads - 1) / p->threads; }

/* Waits a little for a thread that has begun its share to finish it.  What it leaves is in its caches: moving a small chunk costs more than it brings. */
static void let_finish(const cj_pool *p, const cj_worker *w, int other, int64_t start)
{
    const _Atomic uint64_t *share = &p->worker[other].share;
    const int64_t first = first_chunk(p, (w->n - 1) / w->grain + 1, other), now = nanoseconds();
    const int64_t patience = (now - start) / 4 < PATIENCE_NS ? (now - start) / 4 : PATIENCE_NS;
    while (!is_empty(share) && (int64_t)(atomic_load_explicit(share, memory_order_relaxed) >> 32) > first && nanoseconds() - now < patience)
        for (int spins = 0; spins < 8; spins++) cpu_relax();
}

/* Its own share, then what is left of the others'; how many chunks that were. */
static int64_t work(cj_pool *p, int index)
{
    cj_worker *w = &p->worker[index];
    const int64_t start = nanoseconds();
    int64_t chunk, count = 0;
    for (; (chunk = take(&w->share, true)) >= 0; count++) run_chunk(w, chunk);
    for (int i = 1; i < p->threads; i++) {
        const int other = (index + i) % p->threads;
        if (is_empty(&p->worker[other].share)) continue;
        if (count > 0) let_finish(p, w, other, start);
        for (; (chunk = take(&p->worker[other].share, false)) >= 0; count++) run_chunk(w, chunk);
    }
    return count;
}

/* Thread i begins with chunk ceil(i * chunks / threads).  All are told what to do before the first has a chunk: whoever takes one may go on with others'. */
static void deal(cj_pool *p, int64_t chunks, const cj_worker *job)
{
    for (int i = 0; i < p->threads; i++) {
        cj_worker *w = &p->worker[i];
        w->fn = job->fn, w->arg = job->arg, w->n = job->n, w->grain = job->grain;
        const size_t part = p->soon_bytes / (size_t)p->threads;
        const char *soon = p->soon + (size_t)i * part;
        atomic_store_explicit(&w->soon, soon, memory_order_relaxed);
        atomic_store_explicit(&w->soon_end, soon + (part < SOON_MOST ? part : SOON_MOST), memory_order_relaxed);
    }
    int64_t end = chunks;
    for (int i = p->threads - 1; i >= 0; i--) {
        const int64_t first = first_chunk(p, chunks, i);
        atomic_store(&p->worker[i].share, (uint64_t)first << 32 | (uint64_t)end);
        end = first;
    }
}

#ifdef __linux__
static int this_processor(void) { return sched_getcpu(); }

/* From now on w does without the processor; or, where it has no other, goes on as before.  The thread is w's, as it or the caller knows it. */
static void avoid(cj_worker *w, pthread_t thread, int processor)
{
    cpu_set_t others = w->all;
    if (processor < 0 || processor >= CPU_SETSIZE) return;
    CPU_CLR((size_t)processor, &others);
    if (CPU_COUNT(&others) > 0 && pthread_setaffinity_np(thread, sizeof others, &others) == 0) w->avoided = processor;
}

static void avoid_caller(cj_worker *w)
{
    const int caller = atomic_load_explicit(&w->pool->caller_processor, memory_order_relaxed);
    if (pthread_getaffinity_np(pthread_self(), sizeof w->all, &w->all) == 0) avoid(w, pthread_self(), caller);
}

static void avoid_nobody(cj_worker *w)
{
    if (w->avoided >= 0) (void)pthread_setaffinity_np(pthread_self(), sizeof w->all, &w->all);
    w->avoided = -1;
}
#else
static int this_processor(void) { return -1; }
static void avoid(cj_worker *w, pthread_t thread, int processor) { (void)w, (void)thread, (void)processor; }
static void avoid_caller(cj_worker *w) { (void)w; }
static void avoid_nobody(cj_worker *w) { (void)w; }
#endif

static void sleep_until_work(cj_worker *w)
{
    cj_pool *p = w->pool;
    pthread_mutex_lock(&p->mutex);
    avoid_caller(w);
    atomic_fetch_add(&p->sleepers, 1);
    if (is_empty(&w->share) && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->mutex);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->mutex);
}

static void wake(cj_pool *p, int processor)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 1; i < p->threads; i++)
        if (p->worker[i].avoided >= 0 && p->worker[i].avoided != processor) avoid(&p->worker[i], p->worker[i].thread, processor);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
}

/* Fetches what will be read, unless it has done so already, until there is work. */
static void fetch_soon(cj_worker *w)
{
    const char *soon = atomic_load_explicit(&w->soon, memory_order_relaxed);
    const char *end = atomic_load_explicit(&w->soon_end, memory_order_relaxed);
    if (soon != w->fetched_of) w->fetched_of = w->fetched = soon;
    while (w->fetched < end && is_empty(&w->share)) {
        for (int line = 0; line < SOON_LINES; line++) __builtin_prefetch(w->fetched + 64 * line, 0, 2);
        w->fetched += 64 * SOON_LINES;
    }
}

/* Waits until there may be work; true if that took so long that it slept. */
static bool idle(cj_worker *w)
{
    const cj_pool *p = w->pool;
    fetch_soon(w);
    for (int spins = 0; spins < SPINS; spins++) {
        if (!is_empty(&w->share) || atomic_load_explicit(&p->stop, memory_order_relaxed)) return false;
        cpu_relax();
    }
    for (const int64_t start = nanoseconds(); nanoseconds() - start < IDLE_NS;) {
        sched_yield();
        for (int spins = 0; spins < YIELD_SPINS; spins++) {
            if (!is_empty(&w->share) || atomic_load_explicit(&p->stop, memory_order_relaxed)) return false;
            cpu_relax();
        }
    }
    sleep_until_work(w);
    return true;
}

static void *worker_main(void *arg)
{
    cj_worker *w = arg;
    cj_pool *p = w->pool;
    for (uint64_t done = 0;;) {
        const bool slept = idle(w);
        if (atomic_load_explicit(&p->stop, memory_order_acquire)) return NULL;
        const int64_t chunks = work(p, w->index);
        if (chunks > 0) atomic_store_explicit(&w->done, done += (uint64_t)chunks, memory_order_release);
        if (!slept) continue;
        pthread_mutex_lock(&p->mutex);
        avoid_nobody(w);
        pthread_mutex_unlock(&p->mutex);
    }
}

void cj__parallel_soon(cj_pool *p, const void *data, size_t bytes)
{
    if (p) p->soon = data, p->soon_bytes = bytes;
}

static uint64_t done_by_workers(cj_pool *p)
{
    uint64_t done = 0;
    for (int i = 1; i < p->threads; i++) done += atomic_load_explicit(&p->worker[i].done, memory_order_acquire);
    return done;
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
    const int processor = this_processor();
    atomic_store_explicit(&p->caller_processor, processor, memory_order_relaxed);
    deal(p, chunks, &(cj_worker){ .fn = fn, .arg = arg, .n = n, .grain = grain });
    if (atomic_load(&p->sleepers)) wake(p, processor); /* or else the worker sees its share before it sleeps */
    p->done += (uint64_t)(chunks - work(p, 0));
    for (int spins = 0; done_by_workers(p) != p->done;) {
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
    atomic_init(&p->busy, false);
    atomic_init(&p->stop, false);
    atomic_init(&p->sleepers, 0);
    atomic_init(&p->caller_processor, -1);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (int i = 0; i < threads; i++) {
        p->worker[i] = (cj_worker){ .pool = p, .index = i, .avoided = -1 };
        atomic_init(&p->worker[i].share, 0);
        atomic_init(&p->worker[i].soon, NULL);
        atomic_init(&p->worker[i].soon_end, NULL);
        atomic_init(&p->worker[i].done, 0);
    }
    p->done = 0;
    p->soon = NULL, p->soon_bytes = 0;
    p->threads = threads;
    for (int i = 1; i < threads; i++) {
        if (!pthread_create(&p->worker[i].thread, NULL, worker_main, &p->worker[i])) continue;
        p->threads = i;
        break;
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
