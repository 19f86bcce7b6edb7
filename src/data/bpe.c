/* Byte-pair encoding: learning merges from a text, applying them, and GPT-2's own merges.
 *
 * Learning (Sennrich, Haddow, Birch 2016) works on the different words of the text with their counts.  Counts of pairs are kept up to date: a merge
 * changes them only in the words that have the pair.
 */
#include <stdio.h>
#include <stdlib.h>

#include "data/dataset.h"
#include "data/tokenise.h"

/* ---- merges ----------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t pair_hash(int32_t left, int32_t right)
{
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u >> 20;
}

/* Where the pair is, or the free place for it. */
static cj_merge *slot(cj_merge *table, int64_t places, int32_t left, int32_t right)
{
    int64_t i = (int64_t)(pair_hash(left, right) & (uint64_t)(places - 1));
    while (table[i].made && (table[i].left != left || table[i].right != right)) i = (i + 1) & (places - 1);
    return &table[i];
}

const cj_merge *cj__merge_find(const cj_tokeniser *t, int32_t left, int32_t right)
{
    if (!t->merges) return NULL;
    const cj_merge *m = slot(t->merge, t->merge_places, left, right);
    return m->made ? m : NULL;
}

bool cj__merge_add(cj_tokeniser *t, int32_t left, int32_t right, int32_t made)
{
    if (2 * (t->merges + 1) > t->merge_places) {
        int64_t places = t->merge_places ? 4 * t->merge_places : 1024;
        cj_merge *more = cj__record_alloc(t, (size_t)places * sizeof *more);
        if (!more) return false;
        for (int64_t i = 0; i < t->merge_places; i++)
            if (t->merge[i].made) *slot(more, places, t->merge[i].left, t->merge[i].right) = t->merge[i];
        t->merge = more;
        t->merge_places = places;
    }
    cj_merge *m = slot(t->merge, t->merge_places, left, right);
    if (!m->made) *m = (cj_merge){ left, right, made + 1, (int32_t)t->merges++ }; /* made + 1: 0 is a free place */
    return true;
}

/* ---- applying --------------------------------------------------------------------------------------------------------------------------------- */

/* The pair of the lowest rank is merged, everywhere in the word, until none is left. */
static size_t apply(const cj_tokeniser *t, int32_t *symbol, size_t n)
{
    for (;;) {
        const cj_merge *best = NULL;
        for (size_t i = 0; i + 1 < n; i++) {
            const cj_merge *m = cj__merge_find(t, symbol[i], symbol[i + 1]);
            if (m && (!best || m->rank < best->rank)) best = m;
        }
        if (!best) return n;
        size_t to = 0;
        for (size_t i = 0; i < n; to++) {
            bool pair = i + 1 < n && symbol[i] == best->left && symbol[i + 1] == best->right;
            symbol[to] = pair ? best->made - 1 : symbol[i];
            i += pair ? 2 : 1;
        }
        n = to;
    }
}

/* The symbols that a word starts from: its bytes, or its characters and the mark.  room has n + mark places. */
static bool start_symbols(const cj_tokeniser *t, const char *word, size_t n, int32_t *symbol, size_t *count)
{
    *count = 0;
    if (!t->word_end) {
        for (; *count < n; ++*count) symbol[*count] = t->byte[(unsigned char)word[*count]];
        return true;
    }
    size_t bytes;
    for (size_t at = 0; at < n; at += bytes) {
        int kind;
        uint32_t point = cj__code_point(word, n, at, &bytes, &kind);
        int64_t k = cj__token_find(t, word + at, bytes);
        if (k < t->specials) k = t->unknown;
        if (k < 0)
            return cj__error(t->ctx, CJ_EVALUE, "cj_encode: a character of the vocabulary was expected, U+%04X was found", (unsigned)point);
        symbol[(*count)++] = (int32_t)k;
    }
    symbol[(*count)++] = (int32_t)cj__token_find(t, t->word_end, strlen(t->word_end));
    return true;
}

static bool blank(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }

/* The next word of a text: a piece of GPT-2's expression, or what stands between blanks. */
static bool next_word(const cj_tokeniser *t, const char *text, size_t n, size_t *at, size_t *start, size_t *end)
{
    if (!t->word_end) {
        *start = *at;
        if (*at < n) *at = *end = cj__gpt2_piece(text, n, *at);
        return *start < n;
    }
    while (*at < n && blank(text[*at])) ++*at;
    *start = *at;
    while (*at < n && !blank(text[*at])) ++*at;
    *end = *at;
    return *start < n;
}

enum { SHORT = 512 };

bool cj__bpe_encode(const cj_tokeniser *t, const char *text, size_t n, cj_token_list *l)
{
    size_t at = 0, start, end, count;
    int32_t symbols[SHORT];
    while (next_word(t, text, n, &at, &start, &end)) {
        size_t length = end - start, bytes = (length + 1) * sizeof(int32_t);
        int32_t *symbol = length < SHORT ? symbols : cj__alloc(t->ctx, bytes);
        bool ok = symbol && start_symbols(t, text + start, length, symbol, &count);
        if (ok) count = apply(t, symbol, count);
        for (size_t i = 0; ok && i < count; i++) cj__token_put(l, symbol[i]);
        if (symbol && symbol != symbols) cj__free(t->ctx, symbol, bytes);
        if (!ok || !cj__cancel_check(t->ctx)) return false;
    }
    return true;
}

/* ---- learning --------------------------------------------------------------------------------------------------------------------------------- */

typedef struct word {
    int32_t *symbol;
    size_t n;
    int64_t times;
} word;

typedef struct learner {
    cj_tokeniser *t, *words; /* the different words, in the order of the text */
    word *word;
    cj_merge *count; /* by pair: rank is unused, times beside it */
    int64_t *times;
    int64_t places, used;
} learner;

static bool count_pair(learner *s, int32_t left, int32_t right, int64_t times)
{
    if (2 * (s->used + 1) > s->places) {
        int64_t places = s->places ? 4 * s->places : 4096;
        cj_merge *more = cj__record_alloc(s->words, (size_t)places * sizeof *more);
        int64_t *more_times = more ? cj__record_alloc(s->words, (size_t)places * sizeof *more_times) : NULL;
        if (!more_times) return false;
        for (int64_t i = 0; i < s->places; i++)
            if (s->count[i].made) {
                cj_merge *m = slot(more, places, s->count[i].left, s->count[i].right);
                *m = s->count[i];
                more_times[m - more] = s->times[i];
            }
        s->count = more;
        s->times = more_times;
        s->places = places;
    }
    cj_merge *m = slot(s->count, s->places, left, right);
    if (!m->made) {
        *m = (cj_merge){ left, right, 1, 0 };
        s->used++;
    }
    s->times[m - s->count] += times;
    return true;
}

/* The most frequent pair; of several the first in the words in their order.  False where none occurs twice. */
static bool best_pair(const learner *s, int32_t *left, int32_t *right)
{
    int64_t most = 1, ties = 0;
    for (int64_t i = 0; i < s->places; i++) {
        if (s->times[i] > most) most = s->times[i], ties = 0;
        if (s->times[i] == most && most > 1) {
            ties++;
            *left = s->count[i].left;
            *right = s->count[i].right;
        }
    }
    if (ties <= 1) return ties == 1;
    for (int64_t w = 0; w < s->words->count; w++)
        for (size_t i = 0; i + 1 < s->word[w].n; i++) {
            const int32_t *p = s->word[w].symbol + i;
            const cj_merge *m = slot(s->count, s->places, p[0], p[1]);
            if (s->times[m - s->count] != most) continue;
            *left = p[0];
            *right = p[1];
            return true;
        }
    return false;
}

/* Merges the pair in every word that has it; the counts of the word's pairs go out before and come in after. */
static bool merge_everywhere(learner *s, int32_t left, int32_t right, int32_t made)
{
    for (int64_t w = 0; w < s->words->count; w++) {
        word *k = &s->word[w];
        bool has = false;
        for (size_t i = 0; i + 1 < k->n && !has; i++) has = k->symbol[i] == left && k->symbol[i + 1] == right;
        if (!has) continue;
        for (size_t i = 0; i + 1 < k->n; i++)
            if (!count_pair(s, k->symbol[i], k->symbol[i + 1], -k->times)) return false;
        size_t to = 0;
        for (size_t i = 0; i < k->n; to++) {
            bool pair = i + 1 < k->n && k->symbol[i] == left && k->symbol[i + 1] == right;
            k->symbol[to] = pair ? made : k->symbol[i];
            i += pair ? 2 : 1;
        }
        k->n = to;
        for (size_t i = 0; i + 1 < k->n; i++)
            if (!count_pair(s, k->symbol[i], k->symbol[i + 1], k->times)) return false;
    }
    return true;
}

static bool learn(learner *s, const char *text, size_t n, int64_t vocabulary)
{
    cj_tokeniser *t = s->t;
    size_t at = 0, start, end;
    while (next_word(t, text, n, &at, &start, &end))
        if (cj__token_add(s->words, text + start, end - start) < 0) return false;
    s->word = cj__record_alloc(s->words, (size_t)s->words->count * sizeof *s->word);
    if (!s->word) return false;
    for (at = 0; next_word(t, text, n, &at, &start, &end);) s->word[cj__token_find(s->words, text + start, end - start)].times++;
    for (int64_t w = 0; w < s->words->count; w++) {
        const cj_token *k = &s->words->token[w];
        s->word[w].symbol = cj__record_alloc(s->words, ((size_t)k->n + 1) * sizeof(int32_t));
        if (!s->word[w].symbol || !start_symbols(t, k->text, k->n, s->word[w].symbol, &s->word[w].n)) return false;
        for (size_t i = 0; i + 1 < s->word[w].n; i++)
            if (!count_pair(s, s->word[w].symbol[i], s->word[w].symbol[i + 1], s->word[w].times)) return false;
    }
    int32_t left = 0, right = 0;
    while (t->count < vocabulary && best_pair(s, &left, &right)) {
        char text_of[2 * 65536];
        size_t a = t->token[left].n, b = t->token[right].n;
        if (!cj__cancel_check(t->ctx)) return false;
        if (a + b > sizeof text_of) return cj__error(t->ctx, CJ_EVALUE, "cj_tokeniser_bpe: a token of more than %zu bytes", sizeof text_of);
        memcpy(text_of, t->token[left].text, a);
        memcpy(text_of + a, t->token[right].text, b);
        int64_t made = cj__token_add(t, text_of, a + b);
        if (made < 0 || !cj__merge_add(t, left, right, (int32_t)made) || !merge_everywhere(s, left, right, (int32_t)made)) return false;
    }
    return true;
}

/* The symbols that words start from. */
static bool alphabet(cj_tokeniser *t, const char *text, size_t n)
{
    for (int i = 0; i < 256 && !t->word_end; i++) {
        char b = (char)i;
        if ((t->byte[i] = (int32_t)cj__token_add(t, &b, 1)) < 0) return false;
    }
    if (!t->word_end) return true;
    size_t bytes;
    for (size_t at = 0; at < n; at += bytes) {
        int kind;
        cj__code_point(text, n, at, &bytes, &kind);
        if (!blank(text[at]) && cj__token_add(t, text + at, bytes) < 0) return false;
    }
    return cj__token_add(t, t->word_end, strlen(t->word_end)) >= 0;
}

cj_tokeniser *cj_tokeniser_bpe(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts)
{
    if (!c) return NULL;
    if (!text || (opts && opts->word_end && !*opts->word_end))
        return cj__error(c, CJ_EVALUE, "cj_tokeniser_bpe: %s", text ? "the mark of a word's end is empty" : "the text is NULL"), NULL;
    size_t length = n < 0 ? strlen(text) : (size_t)n;
    cj_tokeniser *t = cj__tokeniser_new(c, "cj_tokeniser_bpe", CJ_TOKENS_BPE, opts);
    cj_tokeniser *words = t ? cj__tokeniser_new(c, "cj_tokeniser_bpe", CJ_TOKENS_WORDS, NULL) : NULL;
    bool ok = words != NULL;
    if (ok && opts && opts->word_end) ok = (t->word_end = cj__record_text(t, opts->word_end, strlen(opts->word_end))) != NULL;
    ok = ok && alphabet(t, text, length);
    learner s = { .t = t, .words = words };
    ok = ok && learn(&s, text, length, opts && opts->vocabulary ? opts->vocabulary : 1024);
    cj__record_free(words);
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}

/* ---- GPT-2 ------------------------------------------------------------------------------------------------------------------------------------ */

/* vocab.bpe writes bytes as characters: the printable ones of Latin-1 as themselves, the others from U+0100 on in order.  That is also the order of the first
 * 256 tokens: printable first. */
static void gpt2_alphabet(uint32_t point[256], int order[256])
{
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < 256; b++) {
            bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
            if (printable != (pass == 0)) continue;
            point[b] = pass ? (uint32_t)(256 + n - 188) : (uint32_t)b;
            order[n++] = b;
        }
}

/* Characters of a line's half back to bytes; 0 after an error. */
static size_t gpt2_bytes(const cj_bytes *b, const uint32_t point[256], size_t at, size_t end, char *out, size_t room)
{
    size_t n = 0, bytes;
    for (; at < end; at += bytes) {
        int kind, found = -1;
        uint32_t p = cj__code_point((const char *)b->data, end, at, &bytes, &kind);
        for (int i = 0; i < 256 && found < 0; i++)
            if (point[i] == p) found = i;
        if (found < 0 || n == room)
            return cj__bytes_error(b, at, "a character that stands for a byte was expected, U+%04X was found", (unsigned)p), 0;
        out[n++] = (char)found;
    }
    return n;
}

static bool gpt2_merges(cj_tokeniser *t, const cj_bytes *b)
{
    uint32_t point[256];
    int order[256];
    gpt2_alphabet(point, order);
    for (int i = 0; i < 256; i++) {
        char byte = (char)order[i];
        if ((t->byte[order[i]] = (int32_t)cj__token_add(t, &byte, 1)) < 0) return false;
    }
    const char *text = (const char *)b->data;
    for (size_t at = 0, next; at < b->n; at = next) {
        const char *stop = memchr(text + at, '\n', b->n - at);
        size_t end = stop ? (size_t)(stop - text) : b->n;
        next = end + 1;
        if (end == at || (at == 0 && text[0] == '#' && text[1] == 'v')) continue; /* "#version: 0.2" */
        const char *gap = memchr(text + at, ' ', end - at);
        char pair[512];
        size_t left = gap ? gpt2_bytes(b, point, at, (size_t)(gap - text), pair, 256) : 0;
        size_t right = left ? gpt2_bytes(b, point, (size_t)(gap - text) + 1, end, pair + left, 256) : 0;
        if (!right) return cj_ok(t->ctx) ? cj__bytes_error(b, at, "two texts and a blank between them were expected") : false;
        int64_t x = cj__token_find(t, pair, left), y = cj__token_find(t, pair + left, right);
        if (x < 0 || y < 0) return cj__bytes_error(b, at, "a merge of earlier tokens was expected");
        int64_t made = cj__token_add(t, pair, left + right);
        if (made < 0 || !cj__merge_add(t, (int32_t)x, (int32_t)y, (int32_t)made)) return false;
    }
    return cj__token_add(t, "<|endoftext|>", 13) >= 0;
}

cj_tokeniser *cj_tokeniser_gpt2(cj_ctx *c, const char *folder)
{
    static const cj_dataset_entry place = { .folder = "gpt2-tokenizer" };
    char path[CJ_PATH];
    cj_bytes b;
    if (!c || !cj__cancel_check(c)) return NULL;
    if (folder) snprintf(path, sizeof path, "%s/vocab.bpe", folder);
    else if (!cj__data_path(&place, c, "vocab.bpe", path)) return NULL;
    if (!cj__bytes_load(&b, c, "cj_tokeniser_gpt2", path)) return NULL;
    cj_tokeniser *t = cj__tokeniser_new(c, "cj_tokeniser_gpt2", CJ_TOKENS_BPE, NULL);
    bool ok = t && gpt2_merges(t, &b);
    cj__bytes_free(&b);
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}
