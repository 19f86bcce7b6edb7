/* Named tensors and texts in memory: what .npz and .safetensors files hold. */
#include <stdlib.h>

#include "data/file.h"

typedef struct archive {
    cj_archive public; /* first: the caller's pointer */
    cj_object object;
    cj_ctx *ctx;
    cj_named *item;
    cj_text_pair *pair;
    int items_room, pairs_room;
} archive;

static void archive_drop(archive *a)
{
    cj_ctx *c = a->ctx;
    for (int i = 0; i < a->public.count; i++) {
        cj_release(a->item[i].tensor);
        cj__strfree(c, (char *)a->item[i].name);
    }
    for (int i = 0; i < a->public.pairs; i++) {
        cj__strfree(c, (char *)a->pair[i].key);
        cj__strfree(c, (char *)a->pair[i].value);
    }
    cj__free(c, a->item, (size_t)a->items_room * sizeof *a->item);
    cj__free(c, a->pair, (size_t)a->pairs_room * sizeof *a->pair);
    cj__free(c, a, sizeof *a);
}

static void object_free(cj_object *o) { archive_drop((archive *)((char *)o - offsetof(archive, object))); }

cj_archive *cj__archive_new(cj_ctx *c, int items, int pairs)
{
    archive *a = cj__zalloc(c, sizeof *a);
    if (!a) return NULL;
    a->ctx = c;
    a->items_room = items;
    a->pairs_room = pairs;
    a->item = cj__alloc(c, (size_t)items * sizeof *a->item);
    a->pair = cj__alloc(c, (size_t)pairs * sizeof *a->pair);
    a->public.item = a->item;
    a->public.pair = a->pair;
    if (!a->item || !a->pair) {
        archive_drop(a);
        return NULL;
    }
    cj__object_add(c, &a->object, object_free);
    return &a->public;
}

static char *copy_text(cj_ctx *c, const char *s, size_t n)
{
    char *p = cj__alloc(c, n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

bool cj__archive_add(cj_archive *p, const char *name, size_t n, cj_tensor *t)
{
    archive *a = (archive *)p;
    char *copy = copy_text(a->ctx, name, n);
    if (!copy) {
        cj_release(t);
        return false;
    }
    a->item[a->public.count++] = (cj_named){ copy, t };
    return true;
}

bool cj__archive_add_pair(cj_archive *p, const char *key, const char *value)
{
    archive *a = (archive *)p;
    char *k = copy_text(a->ctx, key, strlen(key)), *v = copy_text(a->ctx, value, strlen(value));
    if (!k || !v) {
        cj__strfree(a->ctx, k);
        cj__strfree(a->ctx, v);
        return false;
    }
    a->pair[a->public.pairs++] = (cj_text_pair){ k, v };
    return true;
}

cj_tensor *cj_archive_find(const cj_archive *a, const char *name)
{
    for (int i = 0; a && name && i < a->count; i++)
        if (strcmp(a->item[i].name, name) == 0) return a->item[i].tensor;
    return NULL;
}

const char *cj_archive_meta(const cj_archive *a, const char *key)
{
    for (int i = 0; a && key && i < a->pairs; i++)
        if (strcmp(a->pair[i].key, key) == 0) return a->pair[i].value;
    return NULL;
}

void cj_archive_free(cj_archive *p)
{
    if (!p) return;
    archive *a = (archive *)p;
    cj__object_remove(a->ctx, &a->object);
    archive_drop(a);
}

/* ---- names ------------------------------------------------------------------------------------------------------------------------------------ */

bool cj__utf8(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + n;
    while (s < end) {
        int more = *s < 0x80 ? 0 : *s >= 0xc2 && *s < 0xe0 ? 1 : *s >= 0xe0 && *s < 0xf0 ? 2 : *s >= 0xf0 && *s < 0xf5 ? 3 : -1;
        if (more < 0 || *s == 0 || end - s <= more) return false;
        if (*s == 0xe0 && s[1] < 0xa0) return false; /* overlong */
        if (*s == 0xed && s[1] > 0x9f) return false; /* surrogates */
        if (*s == 0xf0 && s[1] < 0x90) return false;
        if (*s == 0xf4 && s[1] > 0x8f) return false;
        for (int i = 1; i <= more; i++)
            if ((s[i] & 0xc0) != 0x80) return false;
        s += more + 1;
    }
    return true;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

bool cj__named_check(cj_ctx *c, const char *op, const cj_named *item, int n)
{
    if (n < 0 || (n && !item)) return cj__error(c, CJ_EVALUE, "%s: %d tensors at %p", op, n, (const void *)item);
    for (int i = 0; i < n; i++) {
        const char *name = item[i].name;
        if (!name || !*name) return cj__error(c, CJ_EVALUE, "%s: tensor %d has no name", op, i);
        if (!cj__utf8(name, strlen(name))) return cj__error(c, CJ_EVALUE, "%s: the name of tensor %d is not UTF-8", op, i);
        if (!cj__usable(c, op, i, item[i].tensor)) return false;
    }
    size_t bytes = (size_t)n * sizeof(char *);
    const char **sorted = cj__alloc(c, bytes);
    if (!sorted) return false;
    for (int i = 0; i < n; i++) sorted[i] = item[i].name;
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    bool ok = true;
    for (int i = 1; i < n && ok; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) ok = cj__error(c, CJ_EVALUE, "%s: two tensors have the name '%s'", op, sorted[i]);
    cj__free(c, sorted, bytes);
    return ok;
}
