/* Vocabularies of words (cajal/words.h): counted by sorting, looked up by bisection, so that the numbers depend on the sentences alone. */
#include <cajal/model.h>
#include <cajal/words.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { SPECIAL = 4 }; /* pad, begin, end, unknown */

typedef struct word {
    const char *text; /* in w->bytes, ends with a zero byte */
    int64_t count, number;
} word;

struct cj_words {
    cj_object object;
    cj_ctx *ctx;
    char *bytes;
    size_t size;
    word *by_text;          /* sorted by text */
    const char **by_number; /* without the four */
    int64_t n, room;        /* words; room of by_text */
};

/* ---- cutting ------------------------------------------------------------------------------------------------------------------------------------- */

static bool letter(const char *s)
{
    unsigned char u = (unsigned char)*s;
    return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') || u >= 0x80;
}
static bool blank(char c) { return c == ' ' || (c >= 9 && c <= 13); }

/* Bytes of the word that s begins with, after skipping *skip blanks; 0 at the end. */
static size_t word_length(const char *s, size_t *skip)
{
    size_t i = 0;
    while (blank(s[i])) i++;
    *skip = i;
    s += i;
    if (!*s) return 0;
    if (!letter(s)) return 1;
    size_t n = 1;
    while (letter(s + n) || ((s[n] == '\'' || s[n] == '-') && letter(s + n + 1))) n++;
    return n;
}

/* In lower case: ASCII, and À … Þ of Latin-1, whose second byte in UTF-8 is 0x80 … 0x9e (without ×). */
static void lower(const char *s, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char u = (unsigned char)s[i];
        bool latin = i > 0 && (unsigned char)s[i - 1] == 0xc3 && u >= 0x80 && u <= 0x9e && u != 0x97;
        out[i] = (char)((u >= 'A' && u <= 'Z') || latin ? u + 0x20 : u);
    }
    out[n] = 0;
}

/* ---- making ---------------------------------------------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(((const word *)a)->text, ((const word *)b)->text); }
static int frequent_first(const void *a, const void *b)
{
    const word *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->text, y->text);
}

static void drop(cj_words *w)
{
    if (w->bytes) cj__free(w->ctx, w->bytes, w->size);
    if (w->by_text) cj__free(w->ctx, w->by_text, (size_t)w->room * sizeof *w->by_text);
    if (w->by_number) cj__free(w->ctx, w->by_number, (size_t)w->room * sizeof *w->by_number);
    cj__free(w->ctx, w, sizeof *w);
}
static void object_free(cj_object *o) { drop((cj_words *)((char *)o - offsetof(cj_words, object))); }

void cj_words_free(cj_words *w)
{
    if (!w) return;
    cj__object_remove(w->ctx, &w->object);
    drop(w);
}

/* Every word of every sentence into bytes and by_text; returns their number. */
static int64_t collect(cj_words *w, const char *const *sentences, int64_t n)
{
    int64_t words = 0;
    char *to = w->bytes;
    for (int64_t i = 0; i < n; i++) {
        size_t skip, length;
        for (const char *s = sentences[i]; (length = word_length(s, &skip)) > 0; s += skip + length) {
            lower(s + skip, length, to);
            w->by_text[words++] = (word){ .text = to, .count = 1 };
            to += length + 1;
        }
    }
    return words;
}

/* Sorts, counts equal words and keeps those with enough occurrences, numbered. */
static void number(cj_words *w, int64_t words, const cj_words_opts *o)
{
    int64_t kinds = 0, least = o->least > 0 ? o->least : 2;
    qsort(w->by_text, (size_t)words, sizeof *w->by_text, by_text);
    for (int64_t i = 0; i < words; i++) {
        if (kinds && strcmp(w->by_text[kinds - 1].text, w->by_text[i].text) == 0) w->by_text[kinds - 1].count++;
        else w->by_text[kinds++] = w->by_text[i];
    }
    qsort(w->by_text, (size_t)kinds, sizeof *w->by_text, frequent_first);
    while (w->n < kinds && w->by_text[w->n].count >= least && (o->most == 0 || w->n < o->most)) {
        w->by_text[w->n].number = w->n + SPECIAL;
        w->by_number[w->n] = w->by_text[w->n].text;
        w->n++;
    }
    qsort(w->by_text, (size_t)w->n, sizeof *w->by_text, by_text);
}

cj_words *cj_words_new(cj_ctx *c, const char *const *sentences, int64_t n, const cj_words_opts *opts)
{
    if (!c || c->error) return NULL;
    cj_words_opts o = opts ? *opts : (cj_words_opts){ 0 };
    if (o.least < 0 || o.most < 0) {
        cj__error(c, CJ_EVALUE, "words: at least %lld occurrences and at most %lld words; neither is negative", (long long)o.least,
                  (long long)o.most);
        return NULL;
    }
    cj_words *w = cj__zalloc(c, sizeof *w);
    if (!w) return NULL;
    w->ctx = c;
    w->size = 1;
    w->room = 1;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = strlen(sentences[i]);
        w->size += 2 * bytes + 1; /* a word of one byte takes two with its end */
        w->room += (int64_t)bytes;
    }
    w->bytes = cj__alloc(c, w->size);
    w->by_text = cj__alloc(c, (size_t)w->room * sizeof *w->by_text);
    w->by_number = cj__alloc(c, (size_t)w->room * sizeof *w->by_number);
    if (!w->bytes || !w->by_text || !w->by_number) {
        drop(w);
        return NULL;
    }
    number(w, collect(w, sentences, n), &o);
    cj__object_add(c, &w->object, object_free);
    return w;
}

int64_t cj_words_count(const cj_words *w) { return w->n + SPECIAL; }
const char *cj_words_at(const cj_words *w, int64_t i) { return i >= SPECIAL && i < w->n + SPECIAL ? w->by_number[i - SPECIAL] : ""; }

/* ---- numbers and sentences ---------------------------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const cj_words *w, const char *text)
{
    const word key = { .text = text }, *found = bsearch(&key, w->by_text, (size_t)w->n, sizeof key, by_text);
    return found ? found->number : CJ_WORD_UNKNOWN;
}

/* A sentence's numbers into out (room for `columns`, or NULL to count); how many columns it needs. */
static int64_t encode_one(const cj_words *w, const char *s, bool begin, int64_t columns, int64_t *out)
{
    int64_t k = 0;
    size_t skip, length;
    char text[256];
    if (begin) k++, out ? (void)(out[0] = CJ_WORD_BEGIN) : (void)0;
    for (; (length = word_length(s, &skip)) > 0; s += skip + length, k++) {
        if (!out || k >= columns) continue;
        out[k] = CJ_WORD_UNKNOWN;
        if (length >= sizeof text) continue;
        lower(s + skip, length, text);
        out[k] = number_of(w, text);
    }
    if (out) out[k < columns ? k : columns - 1] = CJ_WORD_END;
    return k + 1;
}

cj_tensor *cj_words_encode(const cj_words *w, const char *const *sentences, int64_t n, bool begin, int64_t longest)
{
    if (!w) return NULL;
    cj_ctx *c = w->ctx;
    if (c->error) return c->poison;
    int64_t least = begin ? 2 : 1, columns = least;
    if (n < 1 || (longest != 0 && longest < least))
        return cj_fail(c, CJ_EVALUE, "words: %lld sentences of at most %lld columns", (long long)n, (long long)longest);
    for (int64_t i = 0; i < n; i++) {
        int64_t need = encode_one(w, sentences[i], begin, 0, NULL);
        if (need > columns) columns = need;
    }
    if (longest && columns > longest) columns = longest;
    size_t bytes = (size_t)(n * columns) * sizeof(int64_t);
    int64_t *numbers = cj__zalloc(c, bytes); /* CJ_WORD_PAD is 0 */
    if (!numbers) return c->poison;
    for (int64_t i = 0; i < n; i++) encode_one(w, sentences[i], begin, columns, numbers + i * columns);
    cj_tensor *t = cj_from_i64(c, numbers, CJ_SHAPE(n, columns));
    cj__free(c, numbers, bytes);
    return t;
}

typedef struct page {
    char *out;
    size_t n, room;
} page;

static void put(page *p, char byte)
{
    if (p->n < p->room) p->out[p->n] = byte;
    p->n++;
}

/* The first letter as a capital: the inverse of lower. */
static void put_capital(page *p, const char *text)
{
    unsigned char u = (unsigned char)text[0], v = u ? (unsigned char)text[1] : 0;
    bool latin = u == 0xc3 && v >= 0xa0 && v <= 0xbe && v != 0xb7;
    put(p, (char)(u >= 'a' && u <= 'z' ? u - 0x20 : u));
    if (latin) put(p, (char)(v - 0x20));
    for (const char *s = text + (latin ? 2 : 1); *s; s++) put(p, *s);
}

size_t cj_words_text(const cj_words *w, const int64_t *numbers, int64_t n, char *out, size_t room)
{
    page p = { .out = out, .room = room ? room - 1 : 0 };
    bool glue = true, quoted = false; /* glue: no blank before the next word */
    for (int64_t i = 0; i < n && numbers[i] != CJ_WORD_END; i++) {
        const char *text = cj_words_at(w, numbers[i]);
        if (!*text) continue;
        bool quote = strcmp(text, "\"") == 0, opens = strcmp(text, "(") == 0 || (quote && !quoted);
        bool leans = (!text[1] && strchr(".,!?;:)%", text[0])) || (quote && quoted); /* on the word before */
        if (!glue && !leans) put(&p, ' ');
        if (p.n == 0) put_capital(&p, text);
        else
            for (const char *s = text; *s; s++) put(&p, *s);
        if (quote) quoted = !quoted;
        glue = opens;
    }
    if (room) out[p.n < room ? p.n : room - 1] = 0;
    return p.n;
}
