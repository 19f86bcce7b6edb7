/* Labelled time series in the .ts format of the UCR and UEA archives (sktime, aeon): "# comment" and "@key value" lines, then @data and one case per line,
 * its dimensions separated by colons, values by commas, the class last.
 */
#include <math.h>
#include <stdlib.h>

#include "data/bytes.h"

typedef struct ts {
    const cj_bytes *b;
    const char *at, *end;
    bool labels;
    const char *label[1024]; /* into the bytes */
    size_t label_n[1024];
    int64_t classes;
} ts;

static size_t offset_of(const ts *s, const char *at) { return (size_t)(at - (const char *)s->b->data); }

static const char *line_end(const ts *s, const char *at)
{
    const char *stop = memchr(at, '\n', (size_t)(s->end - at));
    return stop ? stop : s->end;
}

static const char *trim(const char *at, const char *stop)
{
    while (stop > at && (unsigned char)stop[-1] <= ' ') stop--;
    return stop;
}

/* "@classLabel true a b c" */
static bool class_labels(ts *s, const char *at, const char *stop)
{
    bool first = true;
    while (at < stop) {
        while (at < stop && (unsigned char)*at <= ' ') at++;
        const char *word = at;
        while (at < stop && (unsigned char)*at > ' ') at++;
        if (at == word) break;
        if (first) {
            s->labels = at - word == 4 && strncmp(word, "true", 4) == 0;
            first = false;
            continue;
        }
        if (s->classes == 1024) return cj__bytes_error(s->b, offset_of(s, word), "at most 1024 classes were expected");
        s->label[s->classes] = word;
        s->label_n[s->classes++] = (size_t)(at - word);
    }
    return !s->labels || s->classes || cj__bytes_error(s->b, offset_of(s, at), "names of the classes were expected");
}

static bool header(ts *s)
{
    while (s->at < s->end) {
        const char *stop = line_end(s, s->at), *line = s->at, *last = trim(line, stop);
        s->at = stop < s->end ? stop + 1 : s->end;
        size_t n = (size_t)(last - line);
        if (n >= 5 && strncmp(line, "@data", 5) == 0) return true;
        if (n >= 11 && strncmp(line, "@classLabel", 11) == 0 && !class_labels(s, line + 11, last)) return false;
        if (n >= 16 && strncmp(line, "@timeStamps true", 16) == 0)
            return cj__bytes_error(s->b, offset_of(s, line), "series without time stamps were expected");
        if (n && *line != '#' && *line != '@')
            return cj__bytes_error(s->b, offset_of(s, line), "a line with @ or # was expected before @data");
    }
    return cj__bytes_error(s->b, s->b->n, "@data was expected, the end of the file was found");
}

/* One case: dimensions and the longest of them; with out also its values, `length` apart. */
static bool read_case(ts *s, const char *at, const char *stop, int64_t *channels, int64_t *longest, int64_t *class, float *out,
                      int64_t length)
{
    *channels = *longest = 0;
    *class = -1;
    const char *last = stop;
    if (s->labels) {
        while (last > at && last[-1] != ':') last--;
        if (last == at) return cj__bytes_error(s->b, offset_of(s, at), "a class after a colon was expected");
        size_t n = (size_t)(stop - last);
        for (int64_t k = 0; k < s->classes && *class < 0; k++)
            if (s->label_n[k] == n && memcmp(s->label[k], last, n) == 0) *class = k;
        if (*class < 0)
            return cj__bytes_error(s->b, offset_of(s, last), "a class of the header was expected, %.*s was found", (int)(n < 32 ? n : 32),
                                   last);
        last--;
    }
    while (at < last) {
        int64_t n = 0;
        for (++*channels;; n++) {
            double v = NAN;
            while (at < last && *at == ' ') at++;
            if (at < last && *at == '?') at++;
            else if (!cj__read_number(&at, last, &v)) return cj__bytes_error(s->b, offset_of(s, at), "a number was expected");
            if (out) out[(*channels - 1) * length + n] = (float)v;
            if (at == last || *at == ':') break;
            if (*at++ != ',') return cj__bytes_error(s->b, offset_of(s, at - 1), "a comma or a colon was expected");
        }
        *longest = n + 1 > *longest ? n + 1 : *longest;
        if (at < last) at++;
    }
    return *channels > 0 || cj__bytes_error(s->b, offset_of(s, at), "a series was expected");
}

/* All cases; without x only their number and sizes. */
static bool cases(ts *s, cj_timeseries *r, float *x, int64_t *y, int64_t *lengths)
{
    int64_t n = 0, channels, longest, class;
    for (const char *at = s->at, *stop; at < s->end; at = stop + 1) {
        stop = line_end(s, at);
        const char *last = trim(at, stop);
        if (last == at) continue;
        if (!read_case(s, at, last, &channels, &longest, &class, x ? x + n * r->channels * r->length : NULL, r->length)) return false;
        if (n == 0) r->channels = channels;
        if (channels != r->channels)
            return cj__bytes_error(s->b, offset_of(s, at), "%lld dimensions were expected, %lld were found", (long long)r->channels,
                                   (long long)channels);
        if (x) y[n] = class, lengths[n] = longest;
        else r->length = longest > r->length ? longest : r->length;
        n++;
    }
    r->n = n;
    return n > 0 || cj__bytes_error(s->b, s->b->n, "cases were expected after @data, none were found");
}

static bool fill(ts *s, cj_timeseries *r)
{
    cj_ctx *c = s->b->ctx;
    size_t n = (size_t)r->n * (size_t)r->channels, bytes = n * (size_t)r->length * sizeof(float);
    if (n * (size_t)r->length > 64 * s->b->n) /* padding of a few long among many short series */
        return cj__bytes_error(s->b, 0, "series of similar lengths were expected, %lld x %lld x %lld were found", (long long)r->n,
                               (long long)r->channels, (long long)r->length);
    const char **names = cj__record_alloc(r, (size_t)s->classes * sizeof *names);
    float *x = names ? cj__zalloc(c, bytes) : NULL;
    int64_t *y = x ? cj__alloc(c, 2 * (size_t)r->n * sizeof *y) : NULL;
    bool ok = y && cases(s, r, x, y, y + r->n);
    for (int64_t k = 0; ok && k < s->classes; k++) ok = (names[k] = cj__record_text(r, s->label[k], s->label_n[k])) != NULL;
    ok = ok && cj__record_tensor(r, r->x = cj_from_f32(c, x, CJ_SHAPE(r->n, r->channels, r->length)));
    ok = ok && cj__record_tensor(r, r->lengths = cj_from_i64(c, y + r->n, CJ_SHAPE(r->n)));
    if (ok && s->labels) ok = cj__record_tensor(r, r->y = cj_from_i64(c, y, CJ_SHAPE(r->n)));
    r->classes = s->labels ? s->classes : 0;
    r->class_names = names;
    if (y) cj__free(c, y, 2 * (size_t)r->n * sizeof *y);
    if (x) cj__free(c, x, bytes);
    return ok;
}

cj_timeseries *cj_ts_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_ts_load", path)) return NULL;
    ts s = { .b = &b, .at = (const char *)b.data, .end = (const char *)b.data + b.n };
    cj_timeseries *r = cj__record_new(c, sizeof *r);
    bool ok = r && header(&s) && cases(&s, r, NULL, NULL, NULL) && fill(&s, r);
    cj__bytes_free(&b);
    if (ok) return r;
    cj__record_free(r);
    return NULL;
}

void cj_timeseries_free(cj_timeseries *s) { cj__record_free(s); }
