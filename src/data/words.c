/* Vocabularies of words (cajal/words.h): a tokeniser of words, sentences as rows of numbers, and sentences as they are written. */
#include <cajal/model.h>
#include <cajal/words.h>
#include <string.h>

#include "data/tokenise.h"

enum { SPECIAL = 4 }; /* pad, begin, end, unknown */

struct cj_words {
    cj_ctx *ctx;
    cj_tokeniser *t; /* goes with it */
};

/* Takes the tokeniser, which may be NULL after an error. */
static cj_words *words_of(cj_ctx *c, cj_tokeniser *t)
{
    cj_words *w = t ? cj__record_new(c, sizeof *w) : NULL;
    if (!w) return cj__record_free(t), NULL;
    if (!cj__record_own(w, t)) return cj__record_free(w), NULL;
    w->ctx = c;
    w->t = t;
    return w;
}

cj_words *cj_words_new(cj_ctx *c, const char *const *sentences, int64_t n, const cj_words_opts *opts)
{
    static const char *const specials[] = { "<pad>", "<bos>", "<eos>", "<unk>", NULL };
    if (!c || c->error) return NULL;
    cj_words_opts o = opts ? *opts : (cj_words_opts){ 0 };
    if (o.least < 0 || o.most < 0) {
        cj__error(c, CJ_EVALUE, "words: at least %lld occurrences and at most %lld words; neither is negative", (long long)o.least,
                  (long long)o.most);
        return NULL;
    }
    size_t size = 1;
    for (int64_t i = 0; i < n; i++) size += strlen(sentences[i]) + 1;
    char *text = cj__alloc(c, size), *to = text;
    if (!text) return NULL;
    for (int64_t i = 0; i < n; i++) {
        size_t length = strlen(sentences[i]);
        memcpy(to, sentences[i], length);
        to[length] = '\n';
        to += length + 1;
    }
    cj_tokeniser_opts how = {
        .lower = true, .joined = true, .specials = specials, .least = o.least ? o.least : 2, .vocabulary = o.most ? o.most + SPECIAL : 0
    };
    cj_words *w = words_of(c, cj_tokeniser_words(c, text, to - text, &how));
    cj__free(c, text, size);
    return w;
}

void cj_words_free(cj_words *w) { cj__record_free(w); }
bool cj_words_save(const cj_words *w, const char *path) { return w && cj_tokeniser_save(w->t, path); }

cj_words *cj_words_load(cj_ctx *c, const char *path)
{
    cj_tokeniser *t = cj_tokeniser_load(c, path);
    if (t && (t->kind != CJ_TOKENS_WORDS || t->specials != SPECIAL)) {
        cj__place_error(c, "cj_words_load", path, 0, "a vocabulary of words was expected, another tokeniser was found");
        cj__record_free(t);
        return NULL;
    }
    return words_of(c, t);
}

int64_t cj_words_count(const cj_words *w) { return w->t->count; }
const char *cj_words_at(const cj_words *w, int64_t i) { return i >= SPECIAL && i < w->t->count ? w->t->token[i].text : ""; }

/* ---- numbers and sentences ---------------------------------------------------------------------------------------------------------------------------- */

/* A sentence's numbers into out (room for `columns`, or NULL to count); how many columns it needs. */
static int64_t encode_one(const cj_words *w, const char *s, bool begin, int64_t columns, int64_t *out)
{
    int64_t first = begin ? 1 : 0, room = out && columns > first ? columns - first : 0;
    int64_t k = first + cj_encode(w->t, s, -1, room ? out + first : NULL, room);
    if (out && begin) out[0] = CJ_WORD_BEGIN;
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
