/* Whole files in memory: plain, gzip (zlib) and xz (liblzma).  Memory grows by doubling as bytes really arrive, whatever a header announces. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "data/bytes.h"
#include "data/zip.h"

#if defined CJ_HAVE_ZLIB
#include <zlib.h>
#endif
#if defined CJ_HAVE_LZMA
#include <lzma.h>
#endif

/* What stands at a byte: a text in quotes, a byte, or the end. */
static void found_at(const cj_bytes *b, size_t offset, char out[64])
{
    size_t n = offset < b->n ? b->n - offset : 0, plain = 0;
    const unsigned char *p = b->data + (n ? offset : 0);
    while (plain < n && plain < 16 && p[plain] >= ' ' && p[plain] < 127) plain++;
    if (!n) snprintf(out, 64, "the end of the file was found");
    else if (plain) snprintf(out, 64, "'%.*s' was found", (int)plain, (const char *)p);
    else snprintf(out, 64, "byte %d was found", p[0]);
}

bool(cj__bytes_error)(const cj_bytes *b, size_t offset, const char *format, ...)
{
    char text[CJ_MAX_MESSAGE], found[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strstr(text, "found")) return cj__place_error(b->ctx, b->op, b->path, (int64_t)offset, "%s", text);
    found_at(b, offset, found);
    return cj__place_error(b->ctx, b->op, b->path, (int64_t)offset, "%s, %s", text, found);
}

const unsigned char *cj__bytes_at(const cj_bytes *b, size_t offset, size_t n, const char *what)
{
    if (offset <= b->n && n <= b->n - offset) return b->data + offset;
    cj__bytes_error(b, offset, "%zu bytes of %s were expected, %zu were found", n, what, offset <= b->n ? b->n - offset : 0);
    return NULL;
}

void cj__bytes_free(cj_bytes *b)
{
    if (b->data) cj__free(b->ctx, b->data, b->room);
    b->data = NULL;
    b->n = b->room = 0;
}

/* Room for n bytes and the zero byte behind them. */
static bool grow(cj_bytes *b, size_t n)
{
    if (n + 1 <= b->room) return true;
    unsigned char *p = cj__alloc(b->ctx, n + 1);
    if (!p) return false;
    if (b->n) memcpy(p, b->data, b->n);
    if (b->data) cj__free(b->ctx, b->data, b->room);
    b->data = p;
    b->room = n + 1;
    return true;
}

/* ---- unpacking -------------------------------------------------------------------------------------------------------------------------------- */

typedef enum step { STEP_MORE, STEP_END, STEP_DAMAGED, STEP_MEMORY } step;

/* One stream of either library behind the same two calls. */
typedef struct stream {
    cj_packing packing;
#if defined CJ_HAVE_ZLIB
    z_stream z;
#endif
#if defined CJ_HAVE_LZMA
    lzma_stream x;
    lzma_allocator allocator;
#endif
} stream;

static bool stream_open(stream *s, const cj_bytes *from, const unsigned char *in, size_t n, cj_packing packing)
{
    cj_ctx *c = from->ctx;
    memset(s, 0, sizeof *s);
    s->packing = packing;
    bool ok = false;
    if (packing == CJ_PACKED_XZ) {
#if defined CJ_HAVE_LZMA
        s->allocator = (lzma_allocator){ cj__z_calloc, cj__z_free, c };
        s->x.allocator = &s->allocator;
        s->x.next_in = in;
        s->x.avail_in = n;
        ok = lzma_stream_decoder(&s->x, (uint64_t)256 << 20, LZMA_CONCATENATED) == LZMA_OK;
#else
        (void)n;
        return cj__bytes_error(from, (size_t)(in - from->data),
                               "plain bytes were expected, xz was found, and this library was built without liblzma (Debian: liblzma-dev)");
#endif
    } else {
#if defined CJ_HAVE_ZLIB
        s->z = (z_stream){ .zalloc = cj__z_alloc, .zfree = cj__z_free, .opaque = c, .next_in = (unsigned char *)in, .avail_in = (uInt)n };
        ok = inflateInit2(&s->z, packing == CJ_PACKED_GZIP ? 15 + 16 : 15) == Z_OK;
#else
        (void)n;
        return cj__bytes_error(from, (size_t)(in - from->data),
                               "plain bytes were expected, zlib's were found, and this library was built without it (Debian: zlib1g-dev)");
#endif
    }
    return ok || cj__error(c, CJ_EMEMORY, "%s: %s: no memory to unpack", from->op, from->path);
}

/* Fills out[0 … *room), takes from *room what it filled. */
static step stream_step(stream *s, unsigned char *out, size_t *room)
{
#if defined CJ_HAVE_LZMA
    if (s->packing == CJ_PACKED_XZ) {
        s->x.next_out = out;
        s->x.avail_out = *room;
        lzma_ret r = lzma_code(&s->x, LZMA_FINISH);
        *room = s->x.avail_out;
        return r == LZMA_STREAM_END ? STEP_END : r == LZMA_OK ? STEP_MORE : r == LZMA_MEM_ERROR ? STEP_MEMORY : STEP_DAMAGED;
    }
#endif
#if defined CJ_HAVE_ZLIB
    s->z.next_out = out;
    s->z.avail_out = (uInt)*room;
    int r = inflate(&s->z, Z_NO_FLUSH);
    *room = s->z.avail_out;
    if (r == Z_STREAM_END && s->packing == CJ_PACKED_GZIP && s->z.avail_in >= 18)
        r = inflateReset(&s->z); /* gzip members follow each other */
    return r == Z_STREAM_END ? STEP_END : r == Z_OK ? STEP_MORE : r == Z_MEM_ERROR ? STEP_MEMORY : STEP_DAMAGED;
#else
    (void)s, (void)out, (void)room;
    return STEP_DAMAGED;
#endif
}

/* How many packed bytes it has read. */
static size_t stream_read(const stream *s)
{
#if defined CJ_HAVE_LZMA
    if (s->packing == CJ_PACKED_XZ) return (size_t)s->x.total_in;
#endif
#if defined CJ_HAVE_ZLIB
    return (size_t)s->z.total_in;
#else
    return (void)s, 0;
#endif
}

static void stream_close(stream *s)
{
    (void)s;
#if defined CJ_HAVE_LZMA
    if (s->packing == CJ_PACKED_XZ) lzma_end(&s->x);
#endif
#if defined CJ_HAVE_ZLIB
    if (s->packing != CJ_PACKED_XZ) inflateEnd(&s->z);
#endif
}

bool cj__unpack(const cj_bytes *from, size_t offset, size_t n, cj_packing packing, size_t most, cj_bytes *out)
{
    cj_ctx *c = from->ctx;
    *out = (cj_bytes){ .ctx = c, .op = from->op, .path = from->path };
    if (n > UINT32_MAX) return cj__bytes_error(from, offset, "at most 4 GiB of compressed data were expected, %zu bytes were found", n);
    stream s;
    if (!stream_open(&s, from, from->data + offset, n, packing)) return false;
    bool ok = true, ended = false;
    while (ok && !ended) {
        if (out->n + 1 >= out->room) ok = grow(out, out->n ? out->n * 2 : 4096);
        if (!ok) break;
        size_t room = out->room - 1 - out->n, left = room > (size_t)1 << 24 ? (size_t)1 << 24 : room, asked = left;
        step r = stream_step(&s, out->data + out->n, &left);
        out->n += asked - left;
        ended = r == STEP_END;
        if (r == STEP_DAMAGED)
            ok = cj__bytes_error(from, offset + stream_read(&s), "sound compressed data was expected after %zu good bytes", out->n);
        else if (r == STEP_MEMORY) ok = cj__error(c, CJ_EMEMORY, "%s: %s: no memory to unpack", from->op, from->path);
        else if (out->n > most) ok = cj__bytes_error(from, offset, "at most %zu unpacked bytes were expected, more were found", most);
        else ok = cj__cancel_check(c);
    }
    stream_close(&s);
    if (ok) out->data[out->n] = 0;
    else cj__bytes_free(out);
    return ok;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------------------------ */

bool cj__bytes_load(cj_bytes *b, cj_ctx *c, const char *op, const char *path)
{
    *b = (cj_bytes){ .ctx = c, .op = op, .path = path };
    if (!c) return false;
    cj_reader r;
    if (!cj__reader_open(&r, c, op, path)) return false;
    bool ok = (uint64_t)r.size <= CJ_MAX_FILE ||
              cj__place_error(c, op, path, (int64_t)CJ_MAX_FILE, "at most 2 GiB were expected, %lld bytes were found", (long long)r.size);
    ok = ok && grow(b, (size_t)r.size) && cj__reader_at(&r, 0, b->data, (size_t)r.size);
    if (ok) {
        b->n = (size_t)r.size;
        b->data[b->n] = 0;
    }
    cj__reader_close(&r);
    size_t length = ok ? strlen(path) : 0;
    bool gzip = ok && b->n > 2 && b->data[0] == 0x1f && b->data[1] == 0x8b, xz = ok && b->n > 5 &&
                                                                                 memcmp(b->data,
                                                                                        "\xfd"
                                                                                        "7zXZ",
                                                                                        6) == 0;
    if (ok && !gzip && length > 3 && strcmp(path + length - 3, ".gz") == 0)
        ok = cj__bytes_error(b, 0, "the first bytes of gzip were expected, as the name says");
    if (ok && !xz && length > 3 && strcmp(path + length - 3, ".xz") == 0)
        ok = cj__bytes_error(b, 0, "the first bytes of xz were expected, as the name says");
    if (ok && (gzip || xz)) {
        cj_bytes plain;
        ok = cj__unpack(b, 0, b->n, gzip ? CJ_PACKED_GZIP : CJ_PACKED_XZ, CJ_MAX_FILE, &plain);
        cj__bytes_free(b);
        *b = plain;
    }
    if (!ok) cj__bytes_free(b);
    return ok;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------------------------------- */

static bool word(const char **at, const char *end, const char *lower)
{
    const char *s = *at;
    for (; *lower; lower++, s++)
        if (s >= end || (*s | 32) != *lower) return false;
    *at = s;
    return true;
}

/* While digits (2^53) and power of ten (10^22) are exact in double one rounding remains and the result is the nearest double (Clinger, 1990); beyond that
 * the power is taken in long double, and the error stays below an ulp. */
bool cj__read_number(const char **at, const char *end, double *out)
{
    const char *s = *at;
    bool minus = s < end && *s == '-', point = false;
    if (s < end && (*s == '-' || *s == '+')) s++;
    if (word(&s, end, "nan")) return *out = NAN, *at = s, true;
    if (word(&s, end, "inf")) return word(&s, end, "inity"), *out = minus ? -INFINITY : INFINITY, *at = s, true;
    uint64_t digits = 0;
    int count = 0, power = 0;
    for (; s < end && ((*s >= '0' && *s <= '9') || (*s == '.' && !point)); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        count++;
        if (digits < UINT64_MAX / 10 - 1) {
            digits = digits * 10 + (uint64_t)(*s - '0');
            power -= point;
        } else if (power < 100000) {
            power += !point;
        }
    }
    if (!count) return false;
    if (s + 1 < end && (*s == 'e' || *s == 'E')) {
        const char *t = s + 1;
        bool down = *t == '-';
        int e = 0;
        if (*t == '-' || *t == '+') t++;
        if (t < end && *t >= '0' && *t <= '9') {
            for (; t < end && *t >= '0' && *t <= '9'; t++) e = e < 100000 ? e * 10 + (*t - '0') : e;
            power += down ? -e : e;
            s = t;
        }
    }
    while (digits && digits % 10 == 0) {
        digits /= 10;
        power++;
    }
    long double v = (long double)digits;
    int p = power < 0 ? -power : power;
    if (digits && p <= 22) { /* exact as double */
        double ten = 1;
        for (int i = 0; i < p; i++) ten *= 10;
        v = power < 0 ? (double)digits / ten : (double)digits * ten;
    } else if (digits) {
        v = power < 0 ? v / powl(10, p < 6000 ? p : 6000) : v * powl(10, p < 6000 ? p : 6000);
    }
    *out = (double)(minus ? -v : v);
    *at = s;
    return true;
}
