/* metrics.jsonl read back, for pictures and tools. */
#include <math.h>
#include <stdio.h>

#include "data/json.h"
#include "train/train.h"

#ifdef CJ_HAVE_CJSON
static bool read_line(const cj_json *j, const char *const *keys, int nkeys, double *out)
{
    cJSON *o = cj__json_object(j, "a JSON object");
    for (int k = 0; k < nkeys && o; k++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, keys[k]);
        out[k] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    }
    cJSON_Delete(o);
    return o != NULL;
}

int64_t cj_run_metrics(cj_ctx *c, const char *folder, const char *const *keys, int nkeys, double *out, int64_t room)
{
    char path[CJ_MAX_RUN_PATH];
    cj_reader r;
    if (!c || c->error || !cj__run_path(c, folder, "metrics.jsonl", path) || !cj__reader_open(&r, c, "metrics", path)) return -1;
    size_t size = (size_t)r.size;
    char *text = cj__alloc(c, size + 1);
    bool ok = text && cj__reader_at(&r, 0, text, size);
    cj__reader_close(&r);
    int64_t n = 0;
    for (char *p = text; ok && p < text + size && n < room; n++) {
        char *end = memchr(p, '\n', (size_t)(text + size - p));
        if (!end) break; /* a line that was never finished */
        *end = 0;
        ok = read_line(&(cj_json){ c, "metrics", path, p - text, p }, keys, nkeys, out + n * nkeys);
        p = end + 1;
    }
    cj__free(c, text, size + 1);
    return ok ? n : -1;
}
#else
int64_t cj_run_metrics(cj_ctx *c, const char *folder, const char *const *keys, int nkeys, double *out, int64_t room)
{
    (void)folder, (void)keys, (void)nkeys, (void)out, (void)room;
    if (c) cj__error(c, CJ_EFILE, "run folders need cJSON, which this build has not (Debian: libcjson-dev)");
    return -1;
}
#endif
