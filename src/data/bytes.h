/* A whole file in memory, unpacked where it is compressed, and what every reader of one needs: errors that name the file, the place, what was expected
 * and what was found; a cursor that cannot leave the bytes; results that go with the context.
 */
#ifndef CJ_DATA_BYTES_H
#define CJ_DATA_BYTES_H

#include "data/file.h"

typedef struct cj_bytes {
    cj_ctx *ctx;
    const char *op, *path; /* for errors */
    unsigned char *data;   /* n bytes and a zero byte behind them */
    size_t n, room;
} cj_bytes;

/* Reads the file.  What begins as gzip or xz is unpacked; the result is at most CJ_MAX_FILE bytes.  Memory grows with what is really there. */
#define CJ_MAX_FILE ((size_t)1 << 31)
bool cj__bytes_load(cj_bytes *b, cj_ctx *c, const char *op, const char *path);
void cj__bytes_free(cj_bytes *b);

typedef enum cj_packing { CJ_PACKED_GZIP, CJ_PACKED_ZLIB, CJ_PACKED_XZ } cj_packing;
/* Unpacks n bytes that stand at `offset` of the file; out takes its name and context from `from`. At most `most` bytes, more is an error. */
bool cj__unpack(const cj_bytes *from, size_t offset, size_t n, cj_packing packing, size_t most, cj_bytes *out);

/* "OP: PATH: at byte 12: 4 bytes of a header were expected, 2 were found"; always false.  A format that does not say what was found gets it from the file:
 * "at byte 12: a number was expected" becomes "at byte 12: a number was expected, 'x, y' was found". */
bool cj__bytes_error(const cj_bytes *b, size_t offset, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define cj__bytes_error(...) cj__refused((cj__bytes_error)(__VA_ARGS__))

/* n bytes from `offset` on, or an error that says what was expected there: NULL. */
const unsigned char *cj__bytes_at(const cj_bytes *b, size_t offset, size_t n, const char *what);

/* ---- numbers in big-endian files -------------------------------------------------------------------------------------------------------------- */

static inline uint32_t cj__get32_big(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t cj__get64_big(const unsigned char *p) { return (uint64_t)cj__get32_big(p) << 32 | cj__get32_big(p + 4); }

/* A decimal number at *at, before `end`: sign, digits, point, exponent, nan and inf, whatever the locale.  Moves *at behind it. */
bool cj__read_number(const char **at, const char *end, double *out);

/* ---- results that live until they are freed or the context is --------------------------------------------------------------------------------- */

void *cj__record_new(cj_ctx *c, size_t bytes);                /* zeros; NULL after an error */
void *cj__record_alloc(void *record, size_t bytes);           /* zeros; goes with the record */
char *cj__record_text(void *record, const char *s, size_t n); /* a copy with a zero byte behind it */
bool cj__record_tensor(void *record,
                       cj_tensor *t);           /* makes it persistent; it goes with the record, at once where this fails or t is poison */
bool cj__record_own(void *record, void *other); /* the other, which may be NULL after an error, goes with the record */
void cj__record_free(void *record);             /* NULL is fine */
cj_ctx *cj__record_ctx(const void *record);

/* ---- members of a tar file (tar.c) ------------------------------------------------------------------------------------------------------------ */

typedef struct cj_tar_member {
    char name[512];
    size_t offset, n; /* its bytes in the archive */
} cj_tar_member;
/* The next regular file from *at on; *found tells whether there was one.  False after an error. */
bool cj__tar_next(const cj_bytes *b, size_t *at, cj_tar_member *m, bool *found);
/* The member of this name (or whose name ends with /name), as bytes of its own that borrow the archive's memory: do not free them. */
bool cj__tar_find(const cj_bytes *b, const char *name, cj_bytes *out);

/* ---- readers of bytes, for files and members of archives alike -------------------------------------------------------------------------------- */

/* image.c: an image in host memory, [channels, height, width]; bilinear resampling with half-pixel centres, colour to grey and grey to colour */
typedef struct cj_pixels {
    cj_ctx *ctx;
    int64_t channels, height, width;
    unsigned char *data;
} cj_pixels;
bool cj__image_read(const cj_bytes *b, cj_pixels *out); /* out is to be freed either way */
void cj__pixels_fit(const cj_pixels *p, int64_t channels, int64_t height, int64_t width, unsigned char *out);
void cj__pixels_free(cj_pixels *p);

cj_boxes *cj__voc_read(const cj_bytes *b);                          /* voc.c */
cj_table *cj__csv_read(const cj_bytes *b, const cj_csv_opts *opts); /* csv.c */

#endif
