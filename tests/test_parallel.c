/* cj__parallel_for: chunk borders, nested calls, many small jobs, several callers with pools of their own.        ctest: threads */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "core/parallel.h"
#include "support.h"

typedef struct job {
    int64_t n, grain;
    atomic_int *seen; /* per item */
    atomic_int chunks, wrong;
    int threads;
} job;

static void count(void *arg, int64_t begin, int64_t end, int worker)
{
    job *j = arg;
    int64_t stop = begin + j->grain < j->n ? begin + j->grain : j->n;
    if (begin % j->grain || begin >= end || end != stop || worker < 0 || worker >= j->threads) atomic_fetch_add(&j->wrong, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add_explicit(&j->seen[i], 1, memory_order_relaxed);
    atomic_fetch_add(&j->chunks, 1);
}

static void run_job(cj_pool *p, int64_t n, int64_t grain)
{
    job j = { .n = n, .grain = grain < 1 ? 1 : grain, .seen = calloc((size_t)n + 1, sizeof(atomic_int)), .threads = cj__pool_threads(p) };
    cj__parallel_for(p, n, grain, count, &j);
    assert_int_equal(j.wrong, 0);
    assert_int_equal(j.chunks, n <= 0 ? 0 : (n + j.grain - 1) / j.grain);
    for (int64_t i = 0; i < n; i++) assert_int_equal(j.seen[i], 1);
    free(j.seen);
}

/* Borders depend on n and grain only, every item is seen once. */
static void borders(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        cj_pool *p = cj__pool_new(threads);
        assert_true(threads > 1 || !p);
        static const int64_t sizes[] = { -3, 0, 1, 2, 7, 63, 64, 65, 1000, 4097 }, grains[] = { -1, 0, 1, 2, 3, 64, 1000, 5000 };
        for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
            for (size_t b = 0; b < sizeof grains / sizeof *grains; b++) run_job(p, sizes[a] < 0 ? 0 : sizes[a], grains[b]);
        cj__parallel_for(p, -3, 1, count, NULL); /* nothing to do */
        cj__pool_free(p);
    }
    cj__pool_free(NULL);
    assert_int_equal(cj__pool_threads(NULL), 1);
}

/* One sum per chunk, added in chunk order: the same bits for any number of threads. */
typedef struct sums {
    const float *x;
    float *part;
    int64_t grain;
} sums;
static void sum_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    sums *s = arg;
    float t = 0;
    for (int64_t i = begin; i < end; i++) t += s->x[i];
    s->part[begin / s->grain] = t;
}
static void same_bits_any_threads(void **state)
{
    (void)state;
    enum { N = 100003, GRAIN = 257 };
    float *x = malloc(N * sizeof *x), part[N / GRAIN + 1], first = 0;
    for (int i = 0; i < N; i++) x[i] = sinf((float)i) * 1e3f;
    for (int threads = 1; threads <= 5; threads++) {
        cj_pool *p = cj__pool_new(threads);
        for (int turn = 0; turn < 20; turn++) {
            memset(part, 0, sizeof part);
            cj__parallel_for(p, N, GRAIN, sum_chunk, &(sums){ x, part, GRAIN });
            float total = 0;
            for (int i = 0; i <= N / GRAIN; i++) total += part[i];
            if (threads == 1 && turn == 0) first = total;
            assert_memory_equal(&total, &first, sizeof total);
        }
        cj__pool_free(p);
    }
    free(x);
}

/* A call inside a call runs on the thread that makes it. */
typedef struct nest {
    cj_pool *pool;
    atomic_int items;
    pthread_t outer;
    atomic_int wandered;
} nest;
typedef struct inner_job {
    nest *n;
    pthread_t self;
} inner_job;
static void inner(void *arg, int64_t begin, int64_t end, int worker)
{
    inner_job *j = arg;
    if (worker != 0 || !pthread_equal(j->self, pthread_self())) atomic_fetch_add(&j->n->wandered, 1);
    atomic_fetch_add(&j->n->items, (int)(end - begin));
}
static void outer(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    nest *n = arg;
    for (int64_t i = begin; i < end; i++) cj__parallel_for(n->pool, 100, 7, inner, &(inner_job){ n, pthread_self() });
}
static void nested(void **state)
{
    (void)state;
    nest n = { .pool = cj__pool_new(3) };
    for (int turn = 0; turn < 50; turn++) {
        n.items = 0;
        cj__parallel_for(n.pool, 40, 1, outer, &n);
        assert_int_equal(n.items, 4000);
    }
    assert_int_equal(n.wandered, 0);
    cj__pool_free(n.pool);
}

/* Chunks that wait for each other: all threads of a pool take part, also after they have slept, and the same thread keeps its number. */
typedef struct meeting {
    int expected;
    atomic_int here, late;
    atomic_int chunks[4]; /* of each worker */
} meeting;
static void meet(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end;
    meeting *m = arg;
    atomic_fetch_add(&m->chunks[worker], 1);
    atomic_fetch_add(&m->here, 1);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > 20) {
            atomic_fetch_add(&m->late, 1);
            return;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    } while (m->here < m->expected);
}
static void all_threads_take_part(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 4; threads++) {
        cj_pool *p = cj__pool_new(threads);
        assert_int_equal(cj__pool_threads(p), threads);
        for (int turn = 0; turn < 6; turn++) {
            meeting m = { .expected = threads };
            cj__parallel_for(p, threads, 1, meet, &m);
            assert_int_equal(m.late, 0);
            for (int i = 0; i < threads; i++) assert_int_equal(m.chunks[i], 1);
            if (turn % 2) nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL); /* they fall asleep */
        }
        cj__pool_free(p);
    }
    cj_pool *p = cj__pool_new(CJ_MAX_THREADS + 3);
    assert_true(cj__pool_threads(p) <= CJ_MAX_THREADS);
    cj__pool_free(p);
}

#if defined __linux__ && !defined CJ_OPENMP
/* The caller changes to another processor while its worker sleeps: the worker must not be woken on the one that the caller now keeps busy. */
typedef struct places {
    atomic_int processor[2], here; /* where each thread ran */
} places;
static void note_place(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end;
    places *x = arg;
    x->processor[worker] = sched_getcpu();
    atomic_fetch_add(&x->here, 1);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now); /* busy: nobody else gets this processor for nothing */
    while (x->here < 2 && now.tv_sec - start.tv_sec < 20);
}
static void caller_that_moves(void **state)
{
    (void)state;
    cpu_set_t before;
    int processors[2], found = 0, together = 0;
    enum { TURNS = 20 };
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &before)) processors[found++] = i;
    if (found < 2) skip();
    cj_pool *p = cj__pool_new(2);
    for (int turn = 0; turn < TURNS; turn++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)processors[turn % 2], &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        places x = { .processor = { -1, -1 } };
        cj__parallel_for(p, 2, 1, note_place, &x);
        assert_int_equal(x.processor[0], processors[turn % 2]);
        assert_true(x.processor[1] >= 0);
        if (turn > 0) together += x.processor[0] == x.processor[1];
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* the worker falls asleep */
    }
    cj__pool_free(p);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_in_range(together, 0, TURNS / 2); /* on a busy machine it may not have fallen asleep in time */
}
#else
static void caller_that_moves(void **state) { (void)state; }
#endif

/* Jobs so small that workers come too late, with pauses in which they fall asleep; now and then it is announced what will be read, which need not stay. */
static void many_small_jobs(void **state)
{
    (void)state;
    cj_pool *p = cj__pool_new(3);
    for (int i = 0; i < 5000; i++) {
        char *read = i % 7 == 0 ? malloc(1000) : NULL;
        if (i % 7 == 0) cj__parallel_soon(p, read, i % 2 ? 1000 : i % 3 ? 0 : (size_t)1 << 30);
        run_job(p, i % 9, 1);
        free(read);
        if (i % 1000 == 999) nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
    }
    cj__pool_free(p);
    for (int i = 0; i < 30; i++) cj__pool_free(cj__pool_new(1 + i % 4)); /* and pools that never work */
}

static void *caller(void *arg)
{
    cj_pool *p = cj__pool_new(2);
    int bad = 0;
    for (int i = 0; i < 300; i++) {
        enum { N = 512 };
        atomic_int seen[N] = { 0 };
        job j = { .n = N, .grain = 5, .seen = seen, .threads = cj__pool_threads(p) };
        cj__parallel_for(p, N, 5, count, &j);
        bad += j.wrong != 0 || j.chunks != (N + 4) / 5;
        for (int k = 0; k < N; k++) bad += seen[k] != 1;
    }
    cj__pool_free(p);
    *(int *)arg = bad;
    return NULL;
}
static void callers_with_own_pools(void **state)
{
    (void)state;
    enum { CALLERS = 3 };
    pthread_t t[CALLERS];
    int bad[CALLERS];
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&t[i], NULL, caller, &bad[i]), 0);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(bad[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borders),
        cmocka_unit_test(same_bits_any_threads),
        cmocka_unit_test(nested),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(caller_that_moves),
        cmocka_unit_test(many_small_jobs),
        cmocka_unit_test(callers_with_own_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
