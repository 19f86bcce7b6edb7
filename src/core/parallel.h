/* One parallel loop for the whole library (DESIGN 5.7).
 *
 * cj__parallel_for cuts [0, n) into chunks of `grain` items and runs fn on each, on the caller and on the context's workers.  The chunk
 * borders depend on n and grain only, never on the number of threads, so a kernel that keeps one partial result per chunk and
 * combines them in chunk order gives the same bits on any number of threads.  n <= grain runs fn directly, at the cost of a compare.
 */
#ifndef CJ_CORE_PARALLEL_H
#define CJ_CORE_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct cj_pool cj_pool;

/* Works on items [begin, end); begin is a multiple of grain and names the chunk: begin / grain.  worker < cj__pool_threads(pool) is the
 * index of the running thread, for per-thread scratch. */
typedef void (*cj_range_fn)(void *arg, int64_t begin, int64_t end, int worker);

/* pool may be NULL: one thread. */
void cj__parallel_for(cj_pool *pool, int64_t n, int64_t grain, cj_range_fn fn, void *arg);

/* What the loops to come will read, thread i its i-th part of it: workers without work fetch theirs.  It stays until it is told otherwise; bytes 0: nothing. */
void cj__parallel_soon(cj_pool *pool, const void *data, size_t bytes);

/* A context's pool lives in the context's memory: pool_bytes of it, 64-byte aligned.  start returns NULL when there is nothing to start. */
size_t cj__pool_bytes(int threads);
cj_pool *cj__pool_start(void *memory, int threads);
void cj__pool_stop(cj_pool *pool);

/* The same in memory of its own.  threads >= 1 counts the caller.  Returns NULL when threads == 1 or when no thread could be started (then everything runs on the caller). */
cj_pool *cj__pool_new(int threads);
void cj__pool_free(cj_pool *pool);
int cj__pool_threads(const cj_pool *pool);

#endif
