/* zlib as sources and sinks.  Its work space comes from the context's allocator. */
#include "data/zip.h"

/* zlib and liblzma free without a size: it is kept in front of the block. */
#define FRONT 64

void *cj__z_alloc(void *ctx, unsigned count, unsigned size) { return cj__z_calloc(ctx, count, size); }

void *cj__z_calloc(void *ctx, size_t count, size_t size)
{
    size_t bytes = FRONT + count * size;
    char *p = cj__alloc(ctx, bytes);
    if (!p) return NULL;
    memcpy(p, &bytes, sizeof bytes);
    return p + FRONT;
}

void cj__z_free(void *ctx, void *p)
{
    if (!p) return;
    size_t bytes;
    memcpy(&bytes, (char *)p - FRONT, sizeof bytes);
    cj__free(ctx, (char *)p - FRONT, bytes);
}

#if defined CJ_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>

uint32_t cj__crc32(uint32_t crc, const void *bytes, size_t n) { return (uint32_t)crc32_z(crc, bytes, n); }

#define PIECE 65536

/* ---- in ------------------------------------------------------------------------------------------------------------------------------------ */

struct cj_inflater {
    cj_source source; /* first: what the reader sees */
    cj_source *from;
    z_stream z;
    bool ended;
    unsigned char buffer[PIECE];
};

/* More input for zlib, as long as there is some. */
static bool refill(cj_inflater *z)
{
    if (z->z.avail_in || z->from->left == 0) return true;
    size_t n = z->from->left < PIECE ? (size_t)z->from->left : PIECE;
    if (!cj__source_read(z->from, z->buffer, n)) return false;
    z->z.next_in = z->buffer;
    z->z.avail_in = (uInt)n;
    return true;
}

/* How far the packed bytes were read. */
static int64_t packed_at(const cj_inflater *z) { return z->from->size - z->from->left - z->z.avail_in; }

/* Inflates into out; *made tells how much. False after an error. */
static bool inflate_some(cj_inflater *z, void *out, size_t n, size_t *made)
{
    cj_source *s = &z->source;
    z->z.next_out = out;
    z->z.avail_out = (uInt)n;
    while (z->z.avail_out && !z->ended) {
        if (!cj__cancel_check(s->ctx) || !refill(z)) return false;
        bool dry = z->z.avail_in == 0;
        int status = inflate(&z->z, Z_NO_FLUSH);
        if (status == Z_STREAM_END) z->ended = true;
        else if (status == Z_MEM_ERROR) return cj__error(s->ctx, CJ_EMEMORY, "%s: %s: no memory to inflate", s->op, s->path);
        else if (status != Z_OK && status != Z_BUF_ERROR)
            return cj__source_error(z->from, packed_at(z), "sound compressed data was expected, damage was found");
        else if (dry) return cj__source_error(z->from, packed_at(z), "more compressed data was expected, its end was found");
    }
    *made = n - z->z.avail_out;
    return true;
}

static bool read_inflated(cj_source *s, void *out, size_t n)
{
    cj_inflater *z = (cj_inflater *)s;
    char *to = out;
    while (n) {
        size_t want = n < (size_t)1 << 30 ? n : (size_t)1 << 30, made;
        if (!inflate_some(z, to, want, &made)) return false;
        if (made < want)
            return cj__source_error(z->from, packed_at(z), "%lld unpacked bytes were expected, the end was found earlier",
                                    (long long)s->size);
        to += made;
        n -= made;
    }
    return true;
}

cj_inflater *cj__inflate_open(cj_source *compressed, int64_t size, bool gzip)
{
    cj_ctx *c = compressed->ctx;
    cj_inflater *z = cj__alloc(c, sizeof *z);
    if (!z) return NULL;
    memset(z, 0, offsetof(cj_inflater, buffer));
    z->from = compressed;
    z->source = (cj_source){ .ctx = c, .op = compressed->op, .path = compressed->path, .left = size, .read = read_inflated };
    z->source.begin = compressed->begin;
    z->source.size = size;
    z->source.packed = true;
    z->z = (z_stream){ .zalloc = cj__z_alloc, .zfree = cj__z_free, .opaque = c };
    if (inflateInit2(&z->z, gzip ? 15 + 16 : -15) != Z_OK) {
        cj__error(c, CJ_EMEMORY, "%s: %s: no memory to inflate", compressed->op, compressed->path);
        cj__free(c, z, sizeof *z);
        return NULL;
    }
    return z;
}

cj_source *cj__inflate_source(cj_inflater *z) { return &z->source; }

bool cj__inflate_end(cj_inflater *z)
{
    cj_source *s = &z->source;
    char extra;
    size_t made = 0;
    if (s->left)
        return cj__source_error(s, s->size - s->left, "the end of the array was expected, %lld bytes were found", (long long)s->left);
    if (!z->ended && !inflate_some(z, &extra, 1, &made)) return false;
    if (made) return cj__source_error(z->from, packed_at(z), "%lld unpacked bytes were expected, more were found", (long long)s->size);
    return true;
}

void cj__inflate_close(cj_inflater *z)
{
    if (!z) return;
    inflateEnd(&z->z);
    cj__free(z->source.ctx, z, sizeof *z);
}

/* ---- out ----------------------------------------------------------------------------------------------------------------------------------- */

struct cj_deflater {
    cj_writer *to;
    z_stream z;
    unsigned char buffer[PIECE];
};

cj_deflater *cj__deflate_open(cj_writer *w)
{
    cj_ctx *c = w->ctx;
    cj_deflater *z = cj__alloc(c, sizeof *z);
    if (!z) return NULL;
    z->to = w;
    z->z = (z_stream){ .zalloc = cj__z_alloc, .zfree = cj__z_free, .opaque = c };
    if (deflateInit2(&z->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        cj__error(c, CJ_EMEMORY, "%s: %s: no memory to deflate", w->op, w->path);
        cj__free(c, z, sizeof *z);
        return NULL;
    }
    return z;
}

static bool deflate_run(cj_deflater *z, int mode)
{
    int status;
    do {
        z->z.next_out = z->buffer;
        z->z.avail_out = PIECE;
        status = deflate(&z->z, mode);
        if (!cj__writer_put(z->to, z->buffer, PIECE - z->z.avail_out)) return false;
    } while (mode == Z_FINISH ? status != Z_STREAM_END : z->z.avail_out == 0);
    return true;
}

bool cj__deflate_put(cj_deflater *z, const void *bytes, size_t n)
{
    const char *from = bytes;
    while (n) {
        if (!cj__cancel_check(z->to->ctx)) return false;
        size_t piece = n < (size_t)1 << 20 ? n : (size_t)1 << 20;
        z->z.next_in = (const unsigned char *)from;
        z->z.avail_in = (uInt)piece;
        if (!deflate_run(z, Z_NO_FLUSH)) return false;
        from += piece;
        n -= piece;
    }
    return true;
}

bool cj__deflate_end(cj_deflater *z) { return deflate_run(z, Z_FINISH); }

void cj__deflate_close(cj_deflater *z)
{
    if (!z) return;
    deflateEnd(&z->z);
    cj__free(z->to->ctx, z, sizeof *z);
}

#else

/* Four bits at a time, reflected polynomial 0xedb88320. */
uint32_t cj__crc32(uint32_t crc, const void *bytes, size_t n)
{
    static const uint32_t table[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
    const unsigned char *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#endif
