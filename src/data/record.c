/* Results of readers: a structure the caller sees, and blocks and tensors that go with it, freed together by its owner or with the context. */
#include "data/bytes.h"

typedef struct block {
    struct block *next;
    cj_tensor *tensor; /* or NULL: memory follows */
    void *record;      /* or another record */
    size_t bytes;      /* of the block with this header */
} block;

#define FRONT 64 /* what follows a header keeps the alignment of the allocator */
_Static_assert(sizeof(block) <= FRONT, "");

typedef struct header {
    cj_object object;
    cj_ctx *ctx;
    block *blocks;
    size_t bytes;
} header;
#define HEADER ((sizeof(header) + FRONT - 1) / FRONT * FRONT)

static header *header_of(const void *record) { return (header *)((char *)record - HEADER); }
cj_ctx *cj__record_ctx(const void *record) { return header_of(record)->ctx; }

static void drop(header *h)
{
    for (block *b = h->blocks, *next; b; b = next) {
        next = b->next;
        if (b->tensor) cj_release(b->tensor);
        if (b->record) drop(header_of(b->record));
        cj__free(h->ctx, b, b->bytes);
    }
    cj__free(h->ctx, h, h->bytes);
}

static void object_free(cj_object *o) { drop((header *)((char *)o - offsetof(header, object))); }

void *cj__record_new(cj_ctx *c, size_t bytes)
{
    header *h = cj__zalloc(c, HEADER + bytes);
    if (!h) return NULL;
    h->ctx = c;
    h->bytes = HEADER + bytes;
    cj__object_add(c, &h->object, object_free);
    return (char *)h + HEADER;
}

static block *block_new(void *record, size_t bytes)
{
    header *h = header_of(record);
    block *b = cj__zalloc(h->ctx, FRONT + bytes);
    if (!b) return NULL;
    b->bytes = FRONT + bytes;
    b->next = h->blocks;
    h->blocks = b;
    return b;
}

void *cj__record_alloc(void *record, size_t bytes)
{
    block *b = block_new(record, bytes ? bytes : 1);
    return b ? (char *)b + FRONT : NULL;
}

char *cj__record_text(void *record, const char *s, size_t n)
{
    char *p = cj__record_alloc(record, n + 1);
    if (p) memcpy(p, s, n);
    return p;
}

bool cj__record_tensor(void *record, cj_tensor *t)
{
    if (cj_is_poison(t)) return false;
    cj__make_persistent(t);
    block *b = block_new(record, 0);
    if (b) b->tensor = t;
    else cj_release(t);
    return b != NULL;
}

bool cj__record_own(void *record, void *other)
{
    block *b = other ? block_new(record, 0) : NULL;
    if (!b) return cj__record_free(other), false;
    cj__object_remove(cj__record_ctx(other), &header_of(other)->object); /* the context no longer sees it */
    b->record = other;
    return true;
}

void cj__record_free(void *record)
{
    if (!record) return;
    header *h = header_of(record);
    cj__object_remove(h->ctx, &h->object);
    drop(h);
}
