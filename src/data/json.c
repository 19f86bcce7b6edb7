/* JSON texts, see json.h. */
#include "data/json.h"

#ifdef CJ_HAVE_CJSON
#include <string.h>

cJSON *cj__json_object(const cj_json *j, const char *what)
{
    const char *end = NULL;
    cJSON *o = cJSON_ParseWithLengthOpts(j->text, strlen(j->text) + 1, &end, 0);
    while (o && (*end == ' ' || *end == '\n' || *end == '\t' || *end == '\r')) end++;
    if (cJSON_IsObject(o) && !*end) return o;
    const char *found = o && !*end ? j->text : end ? end : ""; /* a sound text that is no object is wrong from its start */
    cj__place_error(j->ctx, j->op, j->path, j->at + (end ? found - j->text : 0), "%s was expected, %s%.20s%s was found", what,
                    *found ? "'" : "", *found ? found : "the end", *found ? "'" : "");
    cJSON_Delete(o);
    return NULL;
}

int64_t cj__json_place(const cj_json *j, size_t from, const char *key)
{
    size_t n = strlen(key);
    for (const char *s = j->text + from; (s = strstr(s, key)); s++)
        if (s > j->text && s[-1] == '"' && s[n] == '"') return j->at + (s - j->text);
    return j->at;
}

bool cj__json_read(cj_json *j, char *text, size_t room)
{
    cj_reader r;
    if (!cj__reader_open(&r, j->ctx, j->op, j->path)) return false;
    bool ok = r.size < (int64_t)room ||
              cj__place_error(j->ctx, j->op, j->path, (int64_t)room - 1, "a file of at most %zu bytes was expected, one of %lld was found",
                              room - 1, (long long)r.size);
    size_t n = ok ? (size_t)r.size : 0;
    ok = ok && cj__reader_at(&r, 0, text, n);
    cj__reader_close(&r);
    if (!ok) return false;
    text[n] = 0;
    j->text = text;
    if (strlen(text) == n) return true;
    return cj__place_error(j->ctx, j->op, j->path, (int64_t)strlen(text), "text was expected, a zero byte was found");
}
#endif
