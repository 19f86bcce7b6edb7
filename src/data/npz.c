/* NumPy's .npz: a zip file whose members are .npy files.
 *
 * A zip file is read from its end: the end record leads to the central directory, which has name, sizes, check sum and place of every member (PKWARE,
 * APPNOTE.TXT).  Sizes are taken from there, compared with the file, and, for deflated members, with what deflate can reach (1032 to 1), before anything
 * is allocated.  Written files have the date 1980-01-01: the same tensors give the same bytes.
 */
#include <stdio.h>

#include "core/host.h"
#include "data/zip.h"

enum { STORED = 0, DEFLATED = 8 };
#define END_SIZE 22
#define CENTRAL_SIZE 46
#define LOCAL_SIZE 30
#define MAX_NAME 65535
#define DEFLATE_LIMIT 1032 /* no stream expands further */

/* ---- reading ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct member {
    const char *name; /* not ended by a zero byte */
    size_t name_length;
    int method;
    uint32_t crc;
    int64_t packed, size, local; /* bytes in the file, bytes of the .npy, place of the local header */
} member;

#define damaged(r, at, ...) cj__place_error((r)->ctx, (r)->op, (r)->path, at, __VA_ARGS__)

/* The end record is the last one whose comment reaches the end of the file. */
static bool find_end(cj_reader *r, unsigned char end[END_SIZE], int64_t *where)
{
    if (r->size < END_SIZE)
        return damaged(r, 0, "%d bytes of a zip file or more were expected, %lld were found", END_SIZE, (long long)r->size);
    size_t n = r->size < END_SIZE + 65535 ? (size_t)r->size : END_SIZE + 65535;
    unsigned char *tail = cj__alloc(r->ctx, n);
    if (!tail) return false;
    bool ok = cj__reader_at(r, r->size - (int64_t)n, tail, n);
    size_t at = n - END_SIZE + 1;
    bool found = false;
    while (ok && !found && at-- > 0) found = cj__get32(tail + at) == 0x06054b50 && at + END_SIZE + cj__get16(tail + at + 20) == n;
    if (found) {
        memcpy(end, tail + at, END_SIZE);
        *where = r->size - (int64_t)n + (int64_t)at;
    }
    cj__free(r->ctx, tail, n);
    return ok && (found || damaged(r, r->size, "the end record of a zip file was expected before it, none was found"));
}

/* The next entry of the central directory; place: of *at in the file. */
static bool read_entry(cj_reader *r, const unsigned char **at, const unsigned char *end, int64_t place, member *m)
{
    const unsigned char *p = *at;
    if (end - p < CENTRAL_SIZE || cj__get32(p) != 0x02014b50)
        return damaged(r, place, "an entry of the zip directory was expected, none was found in %lld bytes", (long long)(end - p));
    size_t name = cj__get16(p + 28), rest = (size_t)cj__get16(p + 30) + cj__get16(p + 32);
    if ((size_t)(end - p) < CENTRAL_SIZE + name + rest)
        return damaged(r, place, "a directory entry of %zu bytes was expected, %lld were found", CENTRAL_SIZE + name + rest,
                       (long long)(end - p));
    *m = (member){ .name = (const char *)p + CENTRAL_SIZE,
                   .name_length = name,
                   .method = cj__get16(p + 10),
                   .crc = cj__get32(p + 16),
                   .packed = cj__get32(p + 20),
                   .size = cj__get32(p + 24),
                   .local = cj__get32(p + 42) };
    *at = p + CENTRAL_SIZE + name + rest;
    int shown = name < 60 ? (int)name : 60;
    if (memchr(m->name, 0, name)) return damaged(r, place + CENTRAL_SIZE, "a name in text was expected, a zero byte was found");
    if (cj__get16(p + 8) & 1) return damaged(r, place + 8, "plain members were expected, '%.*s' was found encrypted", shown, m->name);
    if (m->packed == UINT32_MAX || m->size == UINT32_MAX || m->local == UINT32_MAX)
        return damaged(r, place + 20, "less than 4 GiB was expected, '%.*s' in zip64 was found, which is not read; use .safetensors", shown,
                       m->name);
    if (m->packed > r->size || m->local > r->size - m->packed)
        return damaged(r, place + 20, "a member inside of the file was expected, %lld bytes from %lld on, outside of it, were found",
                       (long long)m->packed, (long long)m->local);
    if (m->method == STORED ? m->size != m->packed : m->size > DEFLATE_LIMIT * (m->packed + 1))
        return damaged(r, place + 20, "sizes that fit were expected, %lld bytes that unpack to %lld contradict each other and were found",
                       (long long)m->packed, (long long)m->size);
    return true;
}

/* Bytes pass through; their check sum is kept. */
typedef struct summed {
    cj_source source;
    cj_source *from;
    uint32_t crc;
} summed;

static bool read_summed(cj_source *s, void *out, size_t n)
{
    summed *m = (summed *)s;
    if (!cj__source_read(m->from, out, n)) return false;
    m->crc = cj__crc32(m->crc, out, n);
    return true;
}

static cj_tensor *read_npy(cj_source *from, const member *m)
{
    summed s = { .source = *from, .from = from };
    s.source.read = read_summed;
    cj_tensor *t = cj__npy_read(&s.source, true);
    if (t && s.crc != m->crc) {
        cj__place_error(from->ctx, from->op, from->path, from->begin, "check sum %08x of member '%.*s' was expected, %08x was found",
                        (unsigned)m->crc, (int)(m->name_length < 60 ? m->name_length : 60), m->name, (unsigned)s.crc);
        cj_release(t);
        return NULL;
    }
    return t;
}

static cj_tensor *read_deflated(cj_source *part, const member *m)
{
#if defined CJ_HAVE_ZLIB
    cj_inflater *z = cj__inflate_open(part, m->size, false);
    if (!z) return NULL;
    cj_tensor *t = read_npy(cj__inflate_source(z), m);
    if (t && !cj__inflate_end(z)) {
        cj_release(t);
        t = NULL;
    }
    cj__inflate_close(z);
    return t;
#else
    cj__source_error(part, 0, "stored members were expected, '%.*s' was found deflated, and this library was built without zlib",
                     (int)(m->name_length < 60 ? m->name_length : 60), m->name);
    return NULL;
#endif
}

static cj_tensor *read_member(cj_reader *r, const member *m)
{
    unsigned char local[LOCAL_SIZE];
    if (!cj__reader_at(r, m->local, local, LOCAL_SIZE)) return NULL;
    int64_t data = m->local + LOCAL_SIZE + cj__get16(local + 26) + cj__get16(local + 28);
    if (cj__get32(local) != 0x04034b50 || data > r->size - m->packed) {
        damaged(r, m->local, "the start of a member was expected, as the directory says, none was found");
        return NULL;
    }
    cj_source part = cj__source_part(r, data, m->packed);
    if (m->method == STORED) return read_npy(&part, m);
    if (m->method == DEFLATED) return read_deflated(&part, m);
    cj__source_error(&part, 0, "a stored or deflated member was expected, '%.*s' by method %d was found",
                     (int)(m->name_length < 60 ? m->name_length : 60), m->name, m->method);
    return NULL;
}

static bool is_npy(const member *m) { return m->name_length > 4 && memcmp(m->name + m->name_length - 4, ".npy", 4) == 0; }

/* start: of the directory in the file. */
static bool read_members(cj_reader *r, const unsigned char *directory, size_t bytes, int64_t start, int count, cj_archive *a)
{
    const unsigned char *at = directory, *end = directory + bytes;
    int64_t packed = 0;
    for (int i = 0; i < count; i++) {
        member m = { 0 };
        int64_t place = start + (at - directory);
        if (!read_entry(r, &at, end, place, &m)) return false;
        packed += m.packed;
        if (packed > r->size) /* or a small file could fill the memory */
            return damaged(r, place, "members of %lld bytes at most were expected, %lld that overlap were found", (long long)r->size,
                           (long long)packed);
        if (!is_npy(&m)) continue;
        for (int k = 0; k < a->count; k++)
            if (strlen(a->item[k].name) == m.name_length - 4 && memcmp(a->item[k].name, m.name, m.name_length - 4) == 0)
                return damaged(r, place + CENTRAL_SIZE, "members with different names were expected, '%.60s' was found twice",
                               a->item[k].name);
        cj_tensor *t = read_member(r, &m);
        if (!t || !cj__archive_add(a, m.name, m.name_length - 4, t)) return false;
    }
    return true;
}

static cj_archive *load(cj_reader *r)
{
    cj_ctx *c = r->ctx;
    unsigned char end[END_SIZE] = { 0 };
    int64_t where = 0;
    if (!find_end(r, end, &where)) return NULL;
    int count = cj__get16(end + 10);
    int64_t bytes = cj__get32(end + 12), start = cj__get32(end + 16);
    if (cj__get16(end + 4) || cj__get16(end + 6) || cj__get16(end + 8) != count) {
        damaged(r, where, "an archive of one part was expected, several parts were found");
        return NULL;
    }
    if (count == 65535 || bytes == UINT32_MAX || start == UINT32_MAX) {
        damaged(r, where, "a plain zip file was expected, zip64 was found, which is not read; use .safetensors");
        return NULL;
    }
    if (start + bytes > where || bytes < (int64_t)count * CENTRAL_SIZE) {
        damaged(r, where, "a directory of %d members before it was expected, %lld bytes from %lld on, outside, were found", count,
                (long long)bytes, (long long)start);
        return NULL;
    }
    unsigned char *directory = cj__alloc(c, (size_t)bytes + 1);
    cj_archive *a = directory ? cj__archive_new(c, count, 0) : NULL;
    if (a && !(cj__reader_at(r, start, directory, (size_t)bytes) && read_members(r, directory, (size_t)bytes, start, count, a))) {
        cj_archive_free(a);
        a = NULL;
    }
    cj__free(c, directory, (size_t)bytes + 1);
    return a;
}

cj_archive *cj_npz_load(cj_ctx *c, const char *path)
{
    cj_reader r;
    if (!c || !cj__reader_open(&r, c, "cj_npz_load", path)) return NULL;
    cj_archive *a = load(&r);
    cj__reader_close(&r);
    return a;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct packing {
    cj_writer *w;
    uint32_t crc;
    int64_t size;
#if defined CJ_HAVE_ZLIB
    cj_deflater *z;
#endif
} packing;

static bool pack(void *user, const void *bytes, size_t n)
{
    packing *p = user;
    p->crc = cj__crc32(p->crc, bytes, n);
    p->size += (int64_t)n;
#if defined CJ_HAVE_ZLIB
    return cj__deflate_put(p->z, bytes, n);
#else
    return cj__writer_put(p->w, bytes, n);
#endif
}

static bool pack_member(packing *p, cj_tensor *t)
{
    unsigned char head[512];
#if defined CJ_HAVE_ZLIB
    p->z = cj__deflate_open(p->w);
    if (!p->z) return false;
#endif
    bool ok = pack(p, head, cj__npy_header(t, head)) && cj__host_bytes(t, p->w->op, pack, p);
#if defined CJ_HAVE_ZLIB
    ok = ok && cj__deflate_end(p->z);
    cj__deflate_close(p->z);
#endif
    return ok;
}

/* The fields that local header and central entry have in common: from "version needed" to the length of the extra field. */
static unsigned char *common_fields(unsigned char *p, const packing *m, int64_t packed, size_t name)
{
    p = cj__set16(p, 20);
    p = cj__set16(p, 0x0800); /* names are UTF-8 */
#if defined CJ_HAVE_ZLIB
    p = cj__set16(p, DEFLATED);
#else
    p = cj__set16(p, STORED);
#endif
    p = cj__set32(p, 0x00210000); /* 1980-01-01 00:00 */
    p = cj__set32(p, m->crc);
    p = cj__set32(p, (uint32_t)packed);
    p = cj__set32(p, (uint32_t)m->size);
    p = cj__set16(p, (uint32_t)name);
    return cj__set16(p, 0);
}

static bool too_large(cj_writer *w)
{
    return cj__file_error(w->ctx, w->op, w->path, "4 GiB or more would need zip64, which is not written; use .safetensors");
}

/* Writes a member and its entry of the central directory. */
static bool write_member(cj_writer *w, const cj_named *item, unsigned char entry[CENTRAL_SIZE])
{
    packing m = { .w = w };
    size_t name = strlen(item->name) + 4;
    int64_t start = w->at;
    unsigned char local[LOCAL_SIZE];
    memset(local, 0, sizeof local);
    if (!cj__writer_put(w, local, LOCAL_SIZE) || !cj__writer_put(w, item->name, name - 4) || !cj__writer_put(w, ".npy", 4)) return false;
    int64_t data = w->at;
    if (!pack_member(&m, item->tensor)) return false;
    int64_t packed = w->at - data;
    if (m.size >= UINT32_MAX || packed >= UINT32_MAX || start >= UINT32_MAX) return too_large(w);
    common_fields(cj__set32(local, 0x04034b50), &m, packed, name);
    if (!cj__writer_patch(w, start, local, LOCAL_SIZE)) return false;
    memset(entry, 0, CENTRAL_SIZE);
    common_fields(cj__set16(cj__set32(entry, 0x02014b50), 20), &m, packed, name);
    cj__set32(entry + 42, (uint32_t)start);
    return true;
}

static bool write_archive(cj_writer *w, const cj_named *item, int n, unsigned char (*entry)[CENTRAL_SIZE])
{
    for (int i = 0; i < n; i++)
        if (!write_member(w, &item[i], entry[i])) return false;
    int64_t start = w->at;
    for (int i = 0; i < n; i++)
        if (!cj__writer_put(w, entry[i], CENTRAL_SIZE) || !cj__writer_put(w, item[i].name, strlen(item[i].name)) ||
            !cj__writer_put(w, ".npy", 4))
            return false;
    int64_t bytes = w->at - start;
    if (start >= UINT32_MAX || bytes >= UINT32_MAX) return too_large(w);
    unsigned char end[END_SIZE] = { 0 }, *p = cj__set32(end, 0x06054b50) + 4;
    p = cj__set16(p, (uint32_t)n);
    p = cj__set16(p, (uint32_t)n);
    p = cj__set32(p, (uint32_t)bytes);
    cj__set32(p, (uint32_t)start);
    return cj__writer_put(w, end, END_SIZE);
}

bool cj_npz_save(cj_ctx *c, const char *path, const cj_named *item, int n)
{
    const char *op = "cj_npz_save";
    if (!c || !cj__cancel_check(c) || !cj__named_check(c, op, item, n)) return false;
    if (n >= 65535) return cj__error(c, CJ_EVALUE, "%s: %d tensors, a zip file has fewer than 65535; use .safetensors", op, n);
    for (int i = 0; i < n; i++)
        if (strlen(item[i].name) > MAX_NAME - 4)
            return cj__error(c, CJ_EVALUE, "%s: the name of tensor %d is longer than %d bytes", op, i, MAX_NAME - 4);
    size_t bytes = (size_t)n * CENTRAL_SIZE;
    unsigned char(*entry)[CENTRAL_SIZE] = cj__alloc(c, bytes);
    if (!entry) return false;
    cj_writer w;
    bool ok = cj__writer_open(&w, c, op, path);
    if (ok) ok = cj__writer_close(&w, write_archive(&w, item, n, entry));
    cj__free(c, entry, bytes);
    return ok;
}
