/* Reading at any place of a regular file, and writing one so that it is there whole or not at all. */
#ifndef CJ_DATA_FILE_H
#define CJ_DATA_FILE_H

#include "cajal/data.h"
#include "core/core.h"

/* Every error names the operation and the file: "cj_npy_load: x.npy: …". */
bool cj__file_error(cj_ctx *c, const char *op, const char *path, const char *format, ...) __attribute__((format(printf, 4, 5)));
#define cj__file_error(...) cj__refused((cj__file_error)(__VA_ARGS__)) /* always false, as cj__error is */
/* What is wrong inside of a file, and where: "cj_npy_load: x.npy: at byte 12: a comma was expected, ')' was found". */
bool cj__place_error(cj_ctx *c, const char *op, const char *path, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define cj__place_error(...) cj__refused((cj__place_error)(__VA_ARGS__))

/* ---- in ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_reader {
    cj_ctx *ctx;
    const char *op, *path;
    int fd;
    int64_t size;
} cj_reader;

bool cj__reader_open(cj_reader *r, cj_ctx *c, const char *op, const char *path);
bool cj__reader_at(cj_reader *r, int64_t offset, void *out, size_t n); /* all n bytes, or an error */
void cj__reader_close(cj_reader *r);

/* Bytes one after the other: a part of a file, or a member of an archive. */
typedef struct cj_source {
    cj_ctx *ctx;
    const char *op, *path;
    int64_t left;
    bool (*read)(struct cj_source *s, void *out, size_t n);
    cj_reader *file; /* of plain parts */
    int64_t at;
    int64_t begin, size; /* where it begins in the file, its bytes */
    bool packed;         /* they are not those of the file, but what it unpacks to from `begin` on */
} cj_source;

cj_source cj__source_part(cj_reader *r, int64_t offset, int64_t size);
bool cj__source_read(cj_source *s, void *out, size_t n); /* all n bytes, or an error */
/* An error in its byte `at`, counted from its own first byte. */
bool cj__source_error(const cj_source *s, int64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define cj__source_error(...) cj__refused((cj__source_error)(__VA_ARGS__))
/* Bytes of a tensor; false where they are more than a number can count. */
bool cj__bytes_of_shape(cj_dtype dtype, const cj_shape *shape, int64_t *bytes);

/* A tensor of the next bytes: of the innermost scope, or persistent; on the context's device.  The caller has checked that the source has them.
 * fortran: the first axis runs fastest in the source.  NULL after an error. */
cj_tensor *cj__source_tensor(cj_source *s, cj_dtype dtype, cj_shape shape, bool fortran, bool persistent);

/* ---- out ----------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_writer {
    cj_ctx *ctx;
    const char *op, *path;
    char *temporary; /* PATH.tmp */
    int fd;
    int64_t at; /* bytes so far */
    size_t filled;
    char buffer[4096];
} cj_writer;

bool cj__writer_open(cj_writer *w, cj_ctx *c, const char *op, const char *path);
bool cj__writer_put(cj_writer *w, const void *bytes, size_t n);
bool cj__writer_print(cj_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool cj__writer_patch(cj_writer *w, int64_t offset, const void *bytes, size_t n); /* rewrites bytes that were put */
/* ok: flush, synchronise, rename over PATH. Otherwise, or when that fails, PATH stays as it was. Returns whether PATH is the new file. */
bool cj__writer_close(cj_writer *w, bool ok);
bool cj__writer_tensor(cj_writer *w, cj_tensor *t); /* its bytes, row-major */

/* ---- numbers in files are little-endian ------------------------------------------------------------------------------------------------------ */

static inline uint16_t cj__get16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t cj__get32(const unsigned char *p) { return cj__get16(p) | (uint32_t)cj__get16(p + 2) << 16; }
static inline uint64_t cj__get64(const unsigned char *p) { return cj__get32(p) | (uint64_t)cj__get32(p + 4) << 32; }
static inline unsigned char *cj__set16(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    return p + 2;
}
static inline unsigned char *cj__set32(unsigned char *p, uint32_t v) { return cj__set16(cj__set16(p, v & 0xffff), v >> 16); }
static inline unsigned char *cj__set64(unsigned char *p, uint64_t v) { return cj__set32(cj__set32(p, (uint32_t)v), (uint32_t)(v >> 32)); }

/* ---- archives (archive.c) --------------------------------------------------------------------------------------------------------------------- */

/* Room for items and pairs; it grows by no more. NULL after an error. */
cj_archive *cj__archive_new(cj_ctx *c, int items, int pairs);
/* Takes the tensor, which is persistent, also when it fails; name has n bytes. */
bool cj__archive_add(cj_archive *a, const char *name, size_t n, cj_tensor *t);
bool cj__archive_add_pair(cj_archive *a, const char *key, const char *value);
/* Names of what is to be saved: present, not empty, UTF-8, each once. */
bool cj__named_check(cj_ctx *c, const char *op, const cj_named *item, int n);
bool cj__utf8(const char *s, size_t n); /* valid, and no zero byte */

/* ---- .npy inside and outside of archives (npy.c) ----------------------------------------------------------------------------------------------- */

cj_tensor *cj__npy_read(cj_source *f, bool persistent);
/* The header for t; returns its length (at most 512). */
size_t cj__npy_header(const cj_tensor *t, unsigned char out[512]);

#endif
