/* Deflate and check sums for archives: zlib where the library was built with it, else only the check sum. */
#ifndef CJ_DATA_ZIP_H
#define CJ_DATA_ZIP_H

#include "data/file.h"

uint32_t cj__crc32(uint32_t crc, const void *bytes, size_t n); /* of zip and gzip; starts from 0 */

/* The context's allocator in the shapes that zlib and liblzma take. */
void *cj__z_alloc(void *ctx, unsigned count, unsigned size);
void *cj__z_calloc(void *ctx, size_t count, size_t size);
void cj__z_free(void *ctx, void *p);

#if defined CJ_HAVE_ZLIB
/* A source that inflates a raw deflate stream of another source into exactly `size` bytes.  Close it. */
typedef struct cj_inflater cj_inflater;
cj_inflater *cj__inflate_open(cj_source *compressed, int64_t size, bool gzip);
cj_source *cj__inflate_source(cj_inflater *z);
bool cj__inflate_end(cj_inflater *z); /* the stream must end here; false after an error */
void cj__inflate_close(cj_inflater *z);

/* Raw deflate of pieces into a writer. */
typedef struct cj_deflater cj_deflater;
cj_deflater *cj__deflate_open(cj_writer *w);
bool cj__deflate_put(cj_deflater *z, const void *bytes, size_t n);
bool cj__deflate_end(cj_deflater *z);
void cj__deflate_close(cj_deflater *z);
#endif

#endif
