/* Texts as lines. */
#include "data/bytes.h"

/* The byte where UTF-8 ends, or n. */
static size_t utf8_until(const unsigned char *s, size_t n)
{
    size_t lo = 0;
    while (lo < n) {
        size_t more = s[lo] < 0x80 ? 1 : s[lo] < 0xe0 ? 2 : s[lo] < 0xf0 ? 3 : 4;
        if (more > n - lo || !cj__utf8((const char *)s + lo, more)) return lo;
        lo += more;
    }
    return n;
}

static cj_lines *lines_read(const cj_bytes *b)
{
    const unsigned char *text = b->data;
    size_t start = b->n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, n = 0, good = utf8_until(text + start, b->n - start) + start;
    if (good < b->n) return cj__bytes_error(b, good, "UTF-8 text was expected, byte %d was found", text[good]), NULL;
    for (size_t i = start; i < b->n; i++) n += text[i] == '\n' || i + 1 == b->n;
    cj_lines *l = cj__record_new(b->ctx, sizeof *l);
    char *copy = l ? cj__record_text(l, (const char *)text + start, b->n - start) : NULL;
    char **line = copy ? cj__record_alloc(l, n * sizeof *line) : NULL;
    int64_t *length = line ? cj__record_alloc(l, n * sizeof *length) : NULL;
    if (!length) return cj__record_free(l), NULL;
    for (char *s = copy, *end = copy + (b->n - start); s < end; l->n++) {
        char *stop = memchr(s, '\n', (size_t)(end - s)), *next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > s && stop[-1] == '\r') stop--;
        *stop = 0;
        line[l->n] = s;
        length[l->n] = stop - s;
        s = next;
    }
    l->line = (const char *const *)line;
    l->length = length;
    return l;
}

static cj_lines *lines_load(cj_ctx *c, const char *op, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, op, path)) return NULL;
    cj_lines *l = lines_read(&b);
    cj__bytes_free(&b);
    return l;
}

cj_lines *cj_lines_load(cj_ctx *c, const char *path) { return lines_load(c, "cj_lines_load", path); }
void cj_lines_free(cj_lines *l) { cj__record_free(l); }

static int64_t end_of(const cj_lines *l) { return l->n ? l->line[l->n - 1] - l->line[0] + l->length[l->n - 1] : 0; }

bool cj_parallel_load(cj_ctx *c, const char *path_a, const char *path_b, cj_lines **a, cj_lines **b)
{
    if (!c || !a || !b) return false;
    *a = lines_load(c, "cj_parallel_load", path_a);
    *b = *a ? lines_load(c, "cj_parallel_load", path_b) : NULL;
    bool ok = *a && *b;
    if (ok && (*a)->n != (*b)->n)
        ok = cj__place_error(c, "cj_parallel_load", path_b, end_of(*b), "%lld lines were expected, as many as in %s, %lld were found",
                             (long long)(*a)->n, path_a, (long long)(*b)->n);
    if (ok) return true;
    cj_lines_free(*a);
    cj_lines_free(*b);
    *a = *b = NULL;
    return false;
}
