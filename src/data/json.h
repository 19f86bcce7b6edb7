/* JSON texts: parsed by cJSON, refused with the file and the byte where they stop making sense. */
#ifndef CJ_DATA_JSON_H
#define CJ_DATA_JSON_H
#include "data/file.h"

#ifdef CJ_HAVE_CJSON
#include <cJSON.h>

/* A text that stands in a file from byte `at` on, zero behind it. */
typedef struct cj_json {
    cj_ctx *ctx;
    const char *op, *path;
    int64_t at;
    char *text;
} cj_json;

/* The object that the text is, blanks around it allowed; `what` says which for the error ("a JSON object").  NULL after an error.  cJSON_Delete frees it. */
cJSON *cj__json_object(const cj_json *j, const char *what);

/* The byte of the file where the key stands, looked for from `from` bytes of the text on; a key that was written with escapes, or is not there: the text's first. */
int64_t cj__json_place(const cj_json *j, size_t from, const char *key);

/* At most `room` - 1 bytes of a small text file into text, zero behind them; false after an error. */
bool cj__json_read(cj_json *j, char *text, size_t room);
#endif
#endif
