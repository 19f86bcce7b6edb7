/* A tokeniser in a file: its kind, its tokens in their order, its merges in theirs.
 *
 *     cajal tokeniser 1
 *     kind 2 lower 1 joined 1 specials 4 unknown 3 tokens 12 merges 0 end 0
 *     5 <pad>
 *     …
 *
 * A token is the number of its bytes, a blank, the bytes and a line feed, so that any bytes may be in it; `end` is the mark of a word's end, as a token's number
 * plus 1 (0: none); a merge is three numbers of tokens: left, right, made.
 */
#include <stdio.h>
#include <stdlib.h>

#include "data/tokenise.h"

static const char first_line[] = "cajal tokeniser 1\n";
enum { KIND, LOWER, JOINED, SPECIALS, UNKNOWN, TOKENS, MERGES, END, FACTS };
static const char *const facts[FACTS] = { "kind ", " lower ", " joined ", " specials ", " unknown ", " tokens ", " merges ", " end " };

/* ---- out ----------------------------------------------------------------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b) { return ((const cj_merge *)a)->rank - ((const cj_merge *)b)->rank; }

/* A BPE of characters starts from its specials too; the mark of a word's end is one of its tokens. */
static bool write_merges(const cj_tokeniser *t, cj_writer *w)
{
    size_t bytes = (size_t)t->merges * sizeof(cj_merge);
    cj_merge *sorted = bytes ? cj__alloc(t->ctx, bytes) : NULL;
    int64_t n = 0;
    bool ok = !bytes || sorted;
    for (int64_t i = 0; sorted && i < t->merge_places; i++)
        if (t->merge[i].made) sorted[n++] = t->merge[i];
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_rank);
    for (int64_t i = 0; ok && i < n; i++)
        ok = cj__writer_print(w, "%d %d %d\n", (int)sorted[i].left, (int)sorted[i].right, (int)sorted[i].made - 1);
    if (sorted) cj__free(t->ctx, sorted, bytes);
    return ok;
}

bool cj_tokeniser_save(const cj_tokeniser *t, const char *path)
{
    cj_writer w;
    if (!t || t->ctx->error || !cj__writer_open(&w, t->ctx, "cj_tokeniser_save", path)) return false;
    int64_t end = t->word_end ? cj__token_find(t, t->word_end, strlen(t->word_end)) + 1 : 0;
    const int64_t value[FACTS] = { t->kind, t->lower, t->joined, t->specials, t->unknown, t->count, t->merges, end };
    bool ok = cj__writer_print(&w, "%s", first_line);
    for (int i = 0; i < FACTS && ok; i++) ok = cj__writer_print(&w, "%s%lld", facts[i], (long long)value[i]);
    ok = ok && cj__writer_put(&w, "\n", 1);
    for (int64_t i = 0; i < t->count && ok; i++)
        ok = cj__writer_print(&w, "%u ", (unsigned)t->token[i].n) && cj__writer_put(&w, t->token[i].text, t->token[i].n) &&
             cj__writer_put(&w, "\n", 1);
    ok = ok && write_merges(t, &w);
    return cj__writer_close(&w, ok);
}

/* ---- in ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cursor {
    const cj_bytes *b;
    size_t at;
} cursor;

static bool literal(cursor *s, const char *text)
{
    size_t n = strlen(text);
    if (n > s->b->n - s->at || memcmp(s->b->data + s->at, text, n) != 0)
        return cj__bytes_error(s->b, s->at, "'%.*s' of a tokeniser was expected", (int)strcspn(text, "\n"), text);
    s->at += n;
    return true;
}

/* A whole number of -1 … most. */
static bool number(cursor *s, int64_t most, int64_t *out)
{
    size_t start = s->at;
    bool minus = s->at < s->b->n && s->b->data[s->at] == '-';
    int64_t v = 0, digits = 0;
    for (s->at += minus; s->at < s->b->n && s->b->data[s->at] >= '0' && s->b->data[s->at] <= '9' && digits < 12; s->at++, digits++)
        v = v * 10 + (s->b->data[s->at] - '0');
    *out = minus ? -v : v;
    return (digits > 0 && *out >= -1 && *out <= most) ||
           cj__bytes_error(s->b, start, "a whole number of -1 … %lld was expected", (long long)most);
}

static bool read_tokens(cj_tokeniser *t, cursor *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t n;
        size_t start = s->at;
        if (!number(s, (int64_t)s->b->n, &n) || !literal(s, " ")) return false;
        if (n < 1) return cj__bytes_error(s->b, start, "the bytes of a token were expected, %lld was found", (long long)n);
        if (!cj__bytes_at(s->b, s->at, (size_t)n, "a token")) return false;
        int64_t made = cj__token_add(t, (const char *)s->b->data + s->at, (size_t)n);
        if (made < 0) return false;
        if (made < i) return cj__bytes_error(s->b, start, "every token once was expected, number %lld was found again", (long long)made);
        s->at += (size_t)n;
        if (!literal(s, "\n")) return false;
    }
    return true;
}

static bool read_merges(cj_tokeniser *t, cursor *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t left, right, made;
        size_t start = s->at;
        if (!number(s, t->count - 1, &left) || !literal(s, " ") || !number(s, t->count - 1, &right) || !literal(s, " ") ||
            !number(s, t->count - 1, &made) || !literal(s, "\n"))
            return false;
        bool ok = left >= 0 && right >= 0 && made >= 0;
        const cj_token *a = ok ? &t->token[left] : NULL, *b = ok ? &t->token[right] : NULL, *m = ok ? &t->token[made] : NULL;
        ok = ok && m->n == a->n + b->n && memcmp(m->text, a->text, a->n) == 0 && memcmp(m->text + a->n, b->text, b->n) == 0;
        if (!ok) return cj__bytes_error(s->b, start, "a token that is the two before it was expected");
        if (!cj__merge_add(t, (int32_t)left, (int32_t)right, (int32_t)made)) return false;
    }
    return true;
}

/* The tokens of the 256 bytes, from which bytes and the BPE of bytes start. */
static bool find_bytes(cj_tokeniser *t, const cj_bytes *b)
{
    bool needed = t->kind == CJ_TOKENS_BYTES || (t->kind == CJ_TOKENS_BPE && !t->word_end);
    for (int i = 0; needed && i < 256; i++) {
        char byte = (char)i;
        int64_t found = cj__token_find(t, &byte, 1);
        if (found < 0) return cj__bytes_error(b, b->n, "a token for every byte was expected, none was found for byte %d", i);
        t->byte[i] = (int32_t)found;
    }
    return true;
}

static bool read_all(cj_tokeniser *t, const cj_bytes *b)
{
    cursor s = { b, 0 };
    int64_t v[FACTS];
    if (!literal(&s, first_line)) return false;
    for (int i = 0; i < FACTS; i++)
        if (!literal(&s, facts[i]) || !number(&s, (int64_t)b->n, &v[i])) return false;
    size_t where = s.at;
    bool sound = v[KIND] >= CJ_TOKENS_BYTES && v[KIND] <= CJ_TOKENS_BPE && v[SPECIALS] >= 0 && v[SPECIALS] <= v[TOKENS] &&
                 v[UNKNOWN] < v[TOKENS] && v[MERGES] >= 0 && v[END] >= 0 && v[END] <= v[TOKENS] &&
                 (v[KIND] != CJ_TOKENS_WORDS || v[UNKNOWN] >= 0) && (v[KIND] == CJ_TOKENS_BPE || (!v[MERGES] && !v[END]));
    if (!sound) return cj__bytes_error(b, where, "a kind of tokeniser and numbers that fit it were expected before it, others were found");
    t->kind = (cj_tokeniser_kind)v[KIND];
    t->lower = v[LOWER] != 0;
    t->joined = v[JOINED] != 0;
    if (!literal(&s, "\n") || !read_tokens(t, &s, v[TOKENS])) return false;
    t->specials = v[SPECIALS];
    t->unknown = v[UNKNOWN];
    if (v[END]) t->word_end = t->token[v[END] - 1].text;
    if (t->word_end && memchr(t->word_end, 0, t->token[v[END] - 1].n))
        return cj__bytes_error(b, where, "a mark of a word's end without zero bytes was expected, token %lld was found",
                               (long long)v[END] - 1);
    if (!read_merges(t, &s, v[MERGES]) || !find_bytes(t, b)) return false;
    return s.at == b->n || cj__bytes_error(b, s.at, "the end of the file was expected");
}

cj_tokeniser *cj_tokeniser_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!c || !cj__bytes_load(&b, c, "cj_tokeniser_load", path)) return NULL;
    cj_tokeniser *t = cj__tokeniser_new(c, "cj_tokeniser_load", CJ_TOKENS_BYTES, NULL);
    bool ok = t && read_all(t, &b);
    cj__bytes_free(&b);
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}
