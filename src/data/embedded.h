/* The files of data/embedded/, unpacked and linked into the library (tools/embed.sh). */
#ifndef CJ_DATA_EMBEDDED_H
#define CJ_DATA_EMBEDDED_H

#include <stddef.h>

struct cj_embedded {
    const char *name;          /* "iris.csv" */
    const unsigned char *data; /* followed by a zero byte */
    size_t size;
};
extern const struct cj_embedded cj_embedded[]; /* ends with a NULL name */

#endif
