/* Texts: the project's own sources, linked into the library, and tiny Shakespeare (A. Karpathy, char-rnn, 2015) where the user has it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/embedded.h"
#include "data/zip.h"

#define MAX_TEXT ((int64_t)1 << 30)

bool cj__text_sources(const cj_dataset_entry *e, cj_ctx *c, cj_text *out)
{
    (void)e;
    for (const struct cj_embedded *f = cj_embedded; f->name; f++)
        if (strcmp(f->name, "sources.txt") == 0) {
            *out = (cj_text){ c, f->data, f->size, NULL };
            return true;
        }
    return cj__error(c, CJ_EFILE, "cj_dataset_open: this library was built without sources.txt");
}

void cj__text_free(cj_text *t)
{
    if (t->owned) cj__free(t->ctx, t->owned, t->n);
    t->owned = NULL;
}

static bool read_plain(cj_source *s, cj_text *out)
{
    size_t n = (size_t)s->left;
    unsigned char *p = cj__alloc(s->ctx, n ? n : 1);
    if (!p) return false;
    if (!cj__source_read(s, p, n)) {
        cj__free(s->ctx, p, n ? n : 1);
        return false;
    }
    *out = (cj_text){ s->ctx, p, n, p };
    return true;
}

/* The last four bytes of a gzip file are the size of its text (modulo 2^32); deflate expands at most 1032 times. */
static bool read_gzip(cj_reader *r, cj_text *out)
{
#if defined CJ_HAVE_ZLIB
    unsigned char tail[4];
    if (r->size < 18) return cj__file_error(r->ctx, r->op, r->path, "not a gzip file");
    if (!cj__reader_at(r, r->size - 4, tail, 4)) return false;
    int64_t n = cj__get32(tail);
    if (n > 1032 * r->size || n > MAX_TEXT)
        return cj__file_error(r->ctx, r->op, r->path, "%lld bytes are announced, more than it can hold", (long long)n);
    cj_source part = cj__source_part(r, 0, r->size);
    cj_inflater *z = cj__inflate_open(&part, n, true);
    if (!z) return false;
    bool ok = read_plain(cj__inflate_source(z), out);
    if (ok && !cj__inflate_end(z)) {
        cj__text_free(out);
        ok = false;
    }
    cj__inflate_close(z);
    return ok;
#else
    (void)out;
    return cj__file_error(r->ctx, r->op, r->path, "it is compressed, and this library was built without zlib");
#endif
}

static bool read_file(cj_ctx *c, const char *path, cj_text *out)
{
    cj_reader r;
    if (!cj__reader_open(&r, c, "cj_dataset_open", path)) return false;
    size_t n = strlen(path);
    bool ok;
    if (r.size > MAX_TEXT) {
        ok = cj__file_error(c, r.op, path, "a text of more than 1 GiB");
    } else if (n > 3 && strcmp(path + n - 3, ".gz") == 0) {
        ok = read_gzip(&r, out);
    } else {
        cj_source part = cj__source_part(&r, 0, r.size);
        ok = read_plain(&part, out);
    }
    cj__reader_close(&r);
    return ok;
}

bool cj__text_shakespeare(const cj_dataset_entry *e, cj_ctx *c, cj_text *out)
{
    (void)e;
    static const char *const files[] = { "tinyshakespeare/input.txt", "tinyshakespeare/input.txt.gz", "tinyshakespeare.txt" };
    const char *data = getenv("CAJAL_DATA"), *home = getenv("HOME");
    for (int place = 0; place < 2; place++) {
        const char *root = place ? home : data;
        if (!root || !*root) continue;
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            char path[4096];
            int n = snprintf(path, sizeof path, place ? "%s/.cache/cajal/%s" : "%s/%s", root, files[i]);
            if (n > 0 && n < (int)sizeof path && access(path, F_OK) == 0) return read_file(c, path, out);
        }
    }
    return cj__error(c, CJ_EFILE,
                     "cj_dataset_open: shakespeare was found neither as %s/%s nor as ~/.cache/cajal/%s; put it there or set $CAJAL_DATA",
                     data && *data ? data : "$CAJAL_DATA", files[0], files[0]);
}
