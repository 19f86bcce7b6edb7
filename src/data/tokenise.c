/* Tokenisers: the table of tokens, pieces of text, bytes, characters and words; byte-pair encoding is in bpe.c. */
#include <limits.h>
#include <stdlib.h>

#include "data/tokenise.h"
#include "data/unicode_table.h"

#define MAX_TOKENS 4000000

/* ---- the table -------------------------------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *text, size_t n) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

int64_t cj__token_find(const cj_tokeniser *t, const char *text, size_t n)
{
    uint32_t h = hash_of(text, n);
    for (int64_t i = h & (uint64_t)(t->places - 1); t->places && t->place[i]; i = (i + 1) & (t->places - 1)) {
        const cj_token *k = &t->token[t->place[i] - 1];
        if (k->hash == h && k->n == n && memcmp(k->text, text, n) == 0) return t->place[i] - 1;
    }
    return -1;
}

static void place_token(cj_tokeniser *t, int64_t number)
{
    int64_t i = t->token[number].hash & (uint64_t)(t->places - 1);
    while (t->place[i]) i = (i + 1) & (t->places - 1);
    t->place[i] = (int32_t)number + 1;
}

/* Twice the room for tokens and four times that in places; the old ones stay with the record until it goes. */
static bool grow(cj_tokeniser *t)
{
    int64_t room = t->room ? 2 * t->room : 512;
    if (room > MAX_TOKENS) return cj__error(t->ctx, CJ_EVALUE, "a vocabulary of more than %d tokens", MAX_TOKENS);
    cj_token *token = cj__record_alloc(t, (size_t)room * sizeof *token);
    int32_t *place = token ? cj__record_alloc(t, 4 * (size_t)room * sizeof *place) : NULL;
    if (!place) return false;
    if (t->count) memcpy(token, t->token, (size_t)t->count * sizeof *token);
    t->token = token;
    t->room = room;
    t->place = place;
    t->places = 4 * room;
    for (int64_t i = 0; i < t->count; i++) place_token(t, i);
    return true;
}

int64_t cj__token_add(cj_tokeniser *t, const char *text, size_t n)
{
    int64_t found = cj__token_find(t, text, n);
    if (found >= 0) return found;
    if (t->count == t->room && !grow(t)) return -1;
    char *copy = cj__record_text(t, text, n);
    if (!copy) return -1;
    t->token[t->count] = (cj_token){ copy, (uint32_t)n, hash_of(text, n) };
    place_token(t, t->count);
    return t->count++;
}

cj_tokeniser *cj__tokeniser_new(cj_ctx *c, const char *op, cj_tokeniser_kind kind, const cj_tokeniser_opts *o)
{
    if (!c || !cj__cancel_check(c)) return NULL;
    if (o && (o->vocabulary < 0 || o->vocabulary > MAX_TOKENS || o->least < 0))
        return cj__error(c, CJ_EVALUE, "%s: a vocabulary of 1 … %d was expected, %lld was given", op, MAX_TOKENS, (long long)o->vocabulary),
               NULL;
    cj_tokeniser *t = cj__record_new(c, sizeof *t);
    if (!t) return NULL;
    t->ctx = c;
    t->kind = kind;
    t->unknown = -1;
    t->lower = o && o->lower;
    t->joined = o && o->joined;
    for (const char *const *s = o ? o->specials : NULL; s && *s; s++) {
        int64_t before = t->count;
        if (!**s || cj__token_add(t, *s, strlen(*s)) != before) {
            if (cj_ok(c)) cj__error(c, CJ_EVALUE, "%s: specials that are not empty and differ were expected, '%s' was found", op, *s);
            cj__record_free(t);
            return NULL;
        }
        if (strcmp(*s, "<unk>") == 0) t->unknown = before;
    }
    t->specials = t->count;
    return t;
}

void cj_tokeniser_free(cj_tokeniser *t) { cj__record_free(t); }
int64_t cj_tokeniser_size(const cj_tokeniser *t) { return t ? t->count : 0; }

const char *cj_token_text(const cj_tokeniser *t, int64_t token, int64_t *n)
{
    if (!t || token < 0 || token >= t->count) return NULL;
    if (n) *n = t->token[token].n;
    return t->token[token].text;
}

int64_t cj_token_number(const cj_tokeniser *t, const char *text, int64_t n)
{
    return t && text ? cj__token_find(t, text, n < 0 ? strlen(text) : (size_t)n) : -1;
}

/* ---- pieces of text --------------------------------------------------------------------------------------------------------------------------- */

static int kind_of(uint32_t point)
{
    size_t low = 0, high = sizeof unicode_ranges / sizeof unicode_ranges[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > unicode_ranges[middle].last) low = middle + 1;
        else high = middle;
    }
    bool inside = low < sizeof unicode_ranges / sizeof unicode_ranges[0] && point >= unicode_ranges[low].first;
    return inside ? unicode_ranges[low].kind : CJ_UNICODE_OTHER;
}

uint32_t cj__code_point(const char *text, size_t n, size_t at, size_t *bytes, int *kind)
{
    const unsigned char *s = (const unsigned char *)text + at;
    size_t more = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    *bytes = 1;
    if (more == 1) {
        *kind = (s[0] | 32) >= 'a' && (s[0] | 32) <= 'z' ? CJ_UNICODE_LETTER
                : s[0] >= '0' && s[0] <= '9'             ? CJ_UNICODE_NUMBER
                                                         : kind_of(s[0]);
        return s[0];
    }
    *kind = CJ_UNICODE_OTHER;
    if (more > n - at || !cj__utf8((const char *)s, more)) return 0x110000u + s[0]; /* no code point */
    uint32_t point = s[0] & (0xffu >> (more + 1));
    for (size_t i = 1; i < more; i++) point = point << 6 | (s[i] & 0x3f);
    *bytes = more;
    *kind = kind_of(point);
    return point;
}

/* Behind the run of this kind that begins at `at`. */
static size_t run_end(const char *text, size_t n, size_t at, int kind)
{
    size_t bytes;
    for (int found; at < n; at += bytes) {
        cj__code_point(text, n, at, &bytes, &found);
        if (found != kind) break;
    }
    return at;
}

size_t cj__gpt2_piece(const char *text, size_t n, size_t at)
{
    static const char *const contractions[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < 7 && text[at] == '\''; i++) {
        size_t length = strlen(contractions[i]);
        if (length <= n - at && memcmp(text + at, contractions[i], length) == 0) return at + length;
    }
    size_t bytes, start = at + (text[at] == ' ' && at + 1 < n); /* one blank may come before */
    int kind;
    cj__code_point(text, n, start, &bytes, &kind);
    if (kind != CJ_UNICODE_SPACE) return run_end(text, n, start, kind);
    size_t end = run_end(text, n, at, CJ_UNICODE_SPACE), last = at;
    if (end == n) return n;
    for (size_t i = at; i < end; i += bytes) {
        cj__code_point(text, n, i, &bytes, &kind);
        last = i;
    }
    return last > at ? last : end; /* the last one is left to what follows, unless it is the only one */
}

static bool joins(const char *text, size_t n, size_t at)
{
    unsigned char u = at < n ? (unsigned char)text[at] : 0;
    return u >= 0x80 || (u >= '0' && u <= '9') || ((u | 32) >= 'a' && (u | 32) <= 'z');
}

static bool joined_next(const char *text, size_t n, size_t *at, size_t *start, size_t *end)
{
    while (*at < n && (text[*at] == ' ' || (text[*at] >= 9 && text[*at] <= 13))) ++*at;
    *start = *at;
    if (*at >= n) return false;
    if (joins(text, n, (*at)++))
        while (joins(text, n, *at) || (*at < n && (text[*at] == '\'' || text[*at] == '-') && joins(text, n, *at + 1))) ++*at;
    *end = *at;
    return true;
}

bool cj__word_next(bool joined, const char *text, size_t n, size_t *at, size_t *start, size_t *end)
{
    if (joined) return joined_next(text, n, at, start, end);
    size_t bytes = 0;
    int kind = CJ_UNICODE_SPACE;
    for (; *at < n; *at += bytes) {
        cj__code_point(text, n, *at, &bytes, &kind);
        if (kind != CJ_UNICODE_SPACE) break;
    }
    if (*at >= n) return false;
    *start = *at;
    *at += bytes;
    while (kind != CJ_UNICODE_OTHER && *at < n) {
        int next;
        cj__code_point(text, n, *at, &bytes, &next);
        if (next != CJ_UNICODE_LETTER && next != CJ_UNICODE_NUMBER) break;
        *at += bytes;
    }
    *end = *at;
    return true;
}

/* A word, in small letters where asked for: in `room`, or where it stands.  Joined: also À … Þ of Latin-1, whose second byte is 0x80 … 0x9e (without ×). */
static const char *word_text(const cj_tokeniser *t, const char *word, size_t n, char *room, size_t size)
{
    if (!t->lower || n > size) return word;
    for (size_t i = 0; i < n; i++) {
        unsigned char u = (unsigned char)word[i];
        bool latin = t->joined && i > 0 && (unsigned char)word[i - 1] == 0xc3 && u >= 0x80 && u <= 0x9e && u != 0x97;
        room[i] = (char)((u >= 'A' && u <= 'Z') || latin ? u | 32 : u);
    }
    return room;
}

/* ---- bytes, characters, words ----------------------------------------------------------------------------------------------------------------- */

cj_tokeniser *cj_tokeniser_bytes(cj_ctx *c, const cj_tokeniser_opts *opts)
{
    cj_tokeniser *t = cj__tokeniser_new(c, "cj_tokeniser_bytes", CJ_TOKENS_BYTES, opts);
    if (!t) return NULL;
    for (int i = 0; i < 256; i++) {
        char b = (char)i;
        t->byte[i] = (int32_t)cj__token_add(t, &b, 1);
        if (t->byte[i] >= 0) continue;
        cj__record_free(t);
        return NULL;
    }
    return t;
}

static bool text_given(cj_ctx *c, const char *op, const char *text, int64_t *n)
{
    if (!text) return cj__error(c, CJ_EVALUE, "%s: the text is NULL", op);
    if (*n < 0) *n = (int64_t)strlen(text);
    return true;
}

/* UTF-8 in ascending order of bytes is in ascending order of code points. */
static int by_bytes(const void *a, const void *b)
{
    const cj_token *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

cj_tokeniser *cj_tokeniser_characters(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts)
{
    cj_tokeniser *t = c && text_given(c, "cj_tokeniser_characters", text, &n)
                          ? cj__tokeniser_new(c, "cj_tokeniser_characters", CJ_TOKENS_CHARACTERS, opts)
                          : NULL;
    bool ok = t != NULL;
    size_t bytes;
    for (size_t at = 0; ok && at < (size_t)n; at += bytes) {
        int kind;
        cj__code_point(text, (size_t)n, at, &bytes, &kind);
        ok = cj__token_add(t, text + at, bytes) >= 0;
    }
    if (ok && t->count > t->specials) {
        qsort(t->token + t->specials, (size_t)(t->count - t->specials), sizeof *t->token, by_bytes);
        memset(t->place, 0, (size_t)t->places * sizeof *t->place);
        for (int64_t i = 0; i < t->count; i++) place_token(t, i);
    }
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}

typedef struct counted {
    int64_t times, first;
    const cj_token *token;
} counted;

static int by_times(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}
static int by_times_and_bytes(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    return x->times != y->times ? by_times(a, b) : by_bytes(x->token, y->token);
}

/* All words counted in a table of their own, then the most frequent ones in order. */
static bool count_words(cj_tokeniser *t, cj_tokeniser *all, const char *text, size_t n, const cj_tokeniser_opts *o)
{
    size_t at = 0, start, end;
    char room[256];
    while (cj__word_next(t->joined, text, n, &at, &start, &end))
        if (cj__token_add(all, word_text(t, text + start, end - start, room, sizeof room), end - start) < 0) return false;
    counted *k = cj__record_alloc(all, (size_t)all->count * sizeof *k);
    if (!k) return false;
    for (int64_t i = 0; i < all->count; i++) k[i].first = i, k[i].token = &all->token[i]; /* numbers are given in the order of the text */
    for (at = 0; cj__word_next(t->joined, text, n, &at, &start, &end);)
        k[cj__token_find(all, word_text(t, text + start, end - start, room, sizeof room), end - start)].times++;
    qsort(k, (size_t)all->count, sizeof *k, t->joined ? by_times_and_bytes : by_times);
    for (int64_t i = 0; i < all->count && k[i].times >= (o ? o->least : 0) && (!o || !o->vocabulary || t->count < o->vocabulary); i++) {
        const cj_token *w = &all->token[k[i].first];
        if (cj__token_add(t, w->text, w->n) < 0) return false;
    }
    return true;
}

cj_tokeniser *cj_tokeniser_words(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts)
{
    cj_tokeniser *t =
        c && text_given(c, "cj_tokeniser_words", text, &n) ? cj__tokeniser_new(c, "cj_tokeniser_words", CJ_TOKENS_WORDS, opts) : NULL;
    cj_tokeniser *all = t ? cj__tokeniser_new(c, "cj_tokeniser_words", CJ_TOKENS_WORDS, NULL) : NULL;
    bool ok = all != NULL;
    if (ok && t->unknown < 0) {
        ok = (t->unknown = cj__token_add(t, "<unk>", 5)) >= 0;
        t->specials = t->count;
    }
    ok = ok && count_words(t, all, text, (size_t)n, opts);
    cj__record_free(all);
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}

/* ---- there and back --------------------------------------------------------------------------------------------------------------------------- */

static bool encode(const cj_tokeniser *t, const char *text, size_t n, cj_token_list *l)
{
    size_t at = 0, bytes, start, end;
    int kind;
    char room[256];
    switch (t->kind) {
    case CJ_TOKENS_BYTES:
        for (; at < n; at++) cj__token_put(l, t->byte[(unsigned char)text[at]]);
        return true;
    case CJ_TOKENS_CHARACTERS:
        for (; at < n; at += bytes) {
            uint32_t point = cj__code_point(text, n, at, &bytes, &kind);
            int64_t k = cj__token_find(t, text + at, bytes);
            if (k < t->specials) k = t->unknown;
            if (k < 0)
                return cj__error(t->ctx, CJ_EVALUE, "cj_encode: at byte %zu: a character of the vocabulary was expected, U+%04X was found",
                                 at, (unsigned)point);
            cj__token_put(l, k);
        }
        return true;
    case CJ_TOKENS_WORDS:
        while (cj__word_next(t->joined, text, n, &at, &start, &end)) {
            int64_t k = cj__token_find(t, word_text(t, text + start, end - start, room, sizeof room), end - start);
            cj__token_put(l, k < t->specials ? t->unknown : k);
        }
        return true;
    default: return cj__bpe_encode(t, text, n, l);
    }
}

int64_t cj_encode(const cj_tokeniser *t, const char *text, int64_t n, int64_t *out, int64_t room)
{
    if (!t || !cj__cancel_check(t->ctx) || !text_given(t->ctx, "cj_encode", text, &n)) return -1;
    cj_token_list l = { 0 };
    l.out = out;
    l.room = out ? room : 0;
    return encode(t, text, (size_t)n, &l) ? l.n : -1;
}

static void put_text(const char *s, size_t n, char *out, int64_t room, int64_t *at)
{
    for (size_t i = 0; i < n; i++, ++*at)
        if (*at < room) out[*at] = s[i];
}

int64_t cj_decode(const cj_tokeniser *t, const int64_t *tokens, int64_t count, char *out, int64_t room)
{
    if (!t || !cj__cancel_check(t->ctx)) return -1;
    if (count < 0 || (count && !tokens))
        return cj__error(t->ctx, CJ_EVALUE, "cj_decode: %lld tokens at %p", (long long)count, (const void *)tokens), -1;
    int64_t at = 0;
    if (!out) room = 0;
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= t->count)
            return cj__error(t->ctx, CJ_EVALUE, "cj_decode: token %lld: 0 … %lld was expected, %lld was found", (long long)i,
                             (long long)t->count - 1, (long long)tokens[i]),
                   -1;
        const cj_token *k = &t->token[tokens[i]];
        if (tokens[i] < t->specials && !(t->kind == CJ_TOKENS_WORDS && tokens[i] == t->unknown)) continue;
        size_t n = k->n, mark = t->word_end ? strlen(t->word_end) : 0;
        if (t->kind == CJ_TOKENS_WORDS && at) put_text(" ", 1, out, room, &at);
        bool ends = mark && n >= mark && memcmp(k->text + n - mark, t->word_end, mark) == 0; /* the mark becomes a blank between words */
        put_text(k->text, ends ? n - mark : n, out, room, &at);
        if (ends && i + 1 < count) put_text(" ", 1, out, room, &at);
    }
    if (out && at < room) out[at] = 0;
    return at;
}
