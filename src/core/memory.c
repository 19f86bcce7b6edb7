/* Host memory: one allocator callback below, size-class free lists above, so that a running step asks the system for nothing.
 *
 * Classes grow by a quarter (64, 80, 96, 112, 128, 160, …): at most a fifth of a block is lost.  Freed blocks stay in their class and count as held; when the
 * cap or the system says no, all free blocks go back and the request is tried once more.
 */
#include <stdlib.h>

#include "core/core.h"

#if defined __SANITIZE_ADDRESS__ || defined CJ_NO_CACHE
#define CACHING 0 /* every block is one malloc of its own size, so that the sanitizer sees each tensor's bounds */
#else
#define CACHING 1
#endif

/* Class of a size and the size of that class. Four classes per power of two from 64 bytes on. */
static int class_of(size_t bytes, size_t *rounded)
{
    if (!CACHING) {
        *rounded = bytes ? bytes : 1;
        return 0;
    }
    if (bytes <= 64) {
        *rounded = 64;
        return 0;
    }
    int log = 63 - __builtin_clzll((unsigned long long)(bytes - 1)); /* 2^log < bytes <= 2^(log+1), log >= 6 */
    size_t step = (size_t)1 << (log - 2);
    size_t q = (bytes - ((size_t)1 << log) + step - 1) / step; /* 1 … 4 */
    *rounded = ((size_t)1 << log) + q * step;
    *rounded = (*rounded + 63) & ~(size_t)63;
    return (log - 6) * 4 + (int)q;
}

void *cj__raw_alloc(cj_ctx *c, size_t bytes)
{
    if (c->memory_cap && (bytes > c->memory_cap || c->memory.held > c->memory_cap - bytes)) return NULL;
    void *p = c->alloc(c->alloc_user, NULL, 0, bytes);
    if (!p) return NULL;
    c->memory.held += bytes;
    c->memory.system_allocs++;
    return p;
}

void cj__raw_free(cj_ctx *c, void *p, size_t bytes)
{
    if (!p) return;
    c->memory.held -= bytes;
    c->alloc(c->alloc_user, p, bytes, 0);
}

void cj_memory_trim(cj_ctx *c)
{
    if (!c) return;
    cj__packed_trim(c);
    for (int i = 0; i < CJ_BINS; i++) {
        size_t size = 64;
        if (i > 0) {
            size = ((size_t)64 << ((i - 1) / 4)) + ((size_t)((i - 1) % 4) + 1) * ((size_t)16 << ((i - 1) / 4));
            size = (size + 63) & ~(size_t)63;
        }
        for (cj_free_block *b = c->bin[i], *next; b; b = next) {
            next = b->next;
            cj__raw_free(c, b, size);
        }
        c->bin[i] = NULL;
    }
}

void *cj__try_alloc(cj_ctx *c, size_t bytes)
{
    if (bytes > (size_t)1 << 45) return NULL; /* the last bin */
    size_t size;
    int bin = class_of(bytes, &size);
    cj_free_block *b = c->bin[bin];
    if (b) c->bin[bin] = b->next;
    else if (!(b = cj__raw_alloc(c, size))) return NULL;
    c->memory.live += size;
    if (c->memory.live > c->memory.peak) c->memory.peak = c->memory.live;
    return b;
}

void *cj__alloc(cj_ctx *c, size_t bytes)
{
    void *p = cj__try_alloc(c, bytes);
    if (p) return p;
    cj_memory_trim(c);
    if ((p = cj__try_alloc(c, bytes))) return p;
    size_t size = bytes;
    if (bytes <= (size_t)1 << 45) class_of(bytes, &size);
    if (c->memory_cap && c->memory.held + size > c->memory_cap)
        cj__error(c, CJ_EMEMORY, "memory cap reached: %zu bytes asked for, %zu of %zu in use", bytes, c->memory.held, c->memory_cap);
    else cj__error(c, CJ_EMEMORY, "out of memory: %zu bytes asked for, %zu in use", bytes, c->memory.held);
    return NULL;
}

void cj__free(cj_ctx *c, void *p, size_t bytes)
{
    if (!p) return;
    size_t size;
    int bin = class_of(bytes, &size);
    c->memory.live -= size;
#if CACHING
    cj_free_block *b = p;
    b->next = c->bin[bin];
    c->bin[bin] = b;
#else
    (void)bin;
    cj__raw_free(c, p, size);
#endif
}

void *cj__zalloc(cj_ctx *c, size_t bytes)
{
    void *p = cj__alloc(c, bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

char *cj__strdup(cj_ctx *c, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = cj__alloc(c, n);
    if (p) memcpy(p, s, n);
    return p;
}

void cj__strfree(cj_ctx *c, char *s)
{
    if (s) cj__free(c, s, strlen(s) + 1);
}

void *cj__scratch(cj_ctx *c, size_t bytes)
{
    if (bytes <= c->scratch_bytes) return c->scratch;
    /* The old one goes back to the system and not to the free lists: as it grows from operator to operator, nobody would ask for its sizes again. */
    size_t size, want = bytes + bytes / 4;
    if (c->scratch) {
        class_of(c->scratch_bytes, &size);
        c->memory.live -= size;
        cj__raw_free(c, c->scratch, size);
    }
    c->scratch = NULL;
    c->scratch_bytes = 0;
    void *p = cj__alloc(c, want);
    if (!p) return NULL;
    c->scratch = p;
    c->scratch_bytes = want;
    return p;
}

/* A host storage and its data are one block: 64 bytes of storage, then the data. */
#define STORAGE_HEAD 64
_Static_assert(sizeof(cj_storage) <= STORAGE_HEAD, "storage head");

static void storage_fill(const cj_ctx *c, cj_storage *st, size_t bytes, bool device)
{
    st->bytes = bytes;
    st->refs = 1;
    st->version = 0;
    st->writer = NULL;
    st->trace = c->trace_epoch;
    st->slot = -1;
    st->persistent = 0;
    st->parameter = 0;
    st->packed = NULL;
    st->device = device;
    st->borrowed = 0;
    st->dry = 0;
}

cj_storage *cj__storage_new(cj_ctx *c, size_t bytes, bool device)
{
    cj_storage *st;
    if (!device) {
        st = cj__alloc(c, STORAGE_HEAD + bytes);
        if (!st) return NULL;
        st->block = STORAGE_HEAD + bytes;
        st->data = (char *)st + STORAGE_HEAD;
    } else {
        st = cj__alloc(c, STORAGE_HEAD);
        if (!st) return NULL;
        st->block = bytes;
        st->data = bytes ? c->backend->alloc(c->device_state, bytes) : NULL;
        if (bytes && !st->data) {
            cj__free(c, st, STORAGE_HEAD);
            cj__error(c, CJ_EMEMORY, "out of device memory: %zu bytes asked for", bytes);
            return NULL;
        }
    }
    storage_fill(c, st, bytes, device);
    return st;
}

cj_storage *cj__storage_dry(cj_ctx *c, size_t bytes)
{
    cj_storage *st = cj__alloc(c, STORAGE_HEAD);
    if (!st) return NULL;
    st->block = STORAGE_HEAD;
    st->data = (char *)st + STORAGE_HEAD; /* tells one storage from another; nobody reads there */
    storage_fill(c, st, bytes, false);
    st->dry = 1;
    return st;
}

void cj__storage_release(cj_ctx *c, cj_storage *st)
{
    if (--st->refs > 0) return;
    cj__packed_release(c, st);
    if (st->device) {
        if (st->data && !st->borrowed) c->backend->free(c->device_state, st->data);
        cj__free(c, st, STORAGE_HEAD);
    } else {
        cj__free(c, st, st->block);
    }
}

cj_memory cj_memory_stats(const cj_ctx *c) { return c ? c->memory : (cj_memory){ 0 }; }

void cj_memory_reset_peak(cj_ctx *c)
{
    if (c) c->memory.peak = c->memory.live;
}
