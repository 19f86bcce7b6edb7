/* What kernels make of a parameter and read at every call: weights packed for a convolution, say.
 *
 * It lies beside the parameter's storage, goes with it, and holds for one version of it: every write bumps the version.  Training writes after every step, and what is used once
 * need not be kept; so a first call after a write only leaves a note, and memory is given from the second one on.  It counts as live, and is given back when memory is short
 * (cj_memory_trim).
 */
#include "core/core.h"

struct cj_packed {
    cj_packed *next;           /* of the same storage */
    cj_packed *before, *after; /* in the list of the context */
    cj_storage *st;
    const char *at; /* the tensor's first element */
    void *data;     /* NULL: a note */
    size_t bytes;
    uint32_t version, key_bytes;
    char key[];
};

static void forget_data(cj_ctx *c, cj_packed *p)
{
    if (!p->data) return;
    cj__free(c, p->data, p->bytes);
    c->memory.packed -= p->bytes;
    p->data = NULL;
}

static void remove_one(cj_ctx *c, cj_packed *p)
{
    cj_packed **link = &p->st->packed;
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    if (p->before) p->before->after = p->after;
    else c->packed = p->after;
    if (p->after) p->after->before = p->before;
    forget_data(c, p);
    cj__free(c, p, sizeof *p + p->key_bytes);
}

void cj__packed_release(cj_ctx *c, cj_storage *st)
{
    while (st->packed) remove_one(c, st->packed);
}

void cj__packed_trim(cj_ctx *c)
{
    while (c->packed) remove_one(c, c->packed);
}

static cj_packed *add_one(cj_ctx *c, cj_storage *st, const char *at, const void *key, size_t key_bytes)
{
    cj_packed *p = cj__try_alloc(c, sizeof *p + key_bytes);
    if (!p) return NULL;
    *p =
        (cj_packed){ .next = st->packed, .after = c->packed, .st = st, .at = at, .version = st->version, .key_bytes = (uint32_t)key_bytes };
    memcpy(p->key, key, key_bytes);
    if (c->packed) c->packed->before = p;
    return c->packed = st->packed = p;
}

void *cj__packed(cj_ctx *c, const cj_tensor *t, const void *key, size_t key_bytes, size_t bytes, bool *made)
{
    cj_storage *st = t->st;
    *made = false;
    if (!st->parameter) return NULL;
    cj_packed *p = st->packed;
    while (p && !(p->at == t->data && p->key_bytes == key_bytes && memcmp(p->key, key, key_bytes) == 0)) p = p->next;
    if (!p) {
        add_one(c, st, t->data, key, key_bytes);
        return NULL;
    }
    if (p->version != st->version) {
        forget_data(c, p);
        p->version = st->version;
        return NULL;
    }
    *made = p->data;
    if (!p->data && (p->data = cj__try_alloc(c, bytes))) p->bytes = bytes, c->memory.packed += bytes;
    return p->data;
}
