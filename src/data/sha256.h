/* SHA-256 (FIPS 180-4), for checking what was fetched. */
#ifndef CJ_DATA_SHA256_H
#define CJ_DATA_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct cj_sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    unsigned char block[64];
} cj_sha256;

void cj__sha256_open(cj_sha256 *s);
void cj__sha256_put(cj_sha256 *s, const void *bytes, size_t n);
void cj__sha256_close(cj_sha256 *s, char hex[65]);

#endif
