/* BLEU of a corpus with the tokens of mteval-v13a (cajal/metrics.h), as sacreBLEU computes it (Post, "A call for clarity in reporting BLEU scores", 2018). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cajal/metrics.h>

#include "nn/nn.h"

enum { ORDERS = 4 };

/* ---- tokens ----------------------------------------------------------------------------------------------------------------------------------------
 *
 * mteval-v13a is four substitutions over the whole line, from left to right and without overlaps.  Each only puts blanks around one byte, so every pass writes a
 * new buffer; a pass can triple the length at most once per byte, and all four together make at most seven bytes of one. */

typedef struct buffer {
    char *text;
    size_t n, room; /* text may be shorter than what was put: n counts all */
} buffer;

static void put(buffer *b, char byte)
{
    if (b->n < b->room) b->text[b->n] = byte;
    b->n++;
}

static bool digit(char c) { return c >= '0' && c <= '9'; }
static bool stop(char c) { return c == '.' || c == ','; }
/* [{-~ [-` blank-& (-+ :-@ /]: punctuation that always stands alone */
static bool lonely(char c)
{
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || (c >= ':' && c <= '@') ||
           c == '/';
}

static void surround_punctuation(const char *s, size_t n, buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        if (lonely(s[i])) put(out, ' '), put(out, s[i]), put(out, ' ');
        else put(out, s[i]);
    }
}
/* no digit, then a stop: a blank on each side of the stop */
static void stop_after_text(const char *s, size_t n, buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        put(out, s[i]);
        if (i + 1 < n && !digit(s[i]) && stop(s[i + 1])) put(out, ' '), put(out, s[++i]), put(out, ' ');
    }
}
/* a stop, then no digit */
static void stop_before_text(const char *s, size_t n, buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && stop(s[i]) && !digit(s[i + 1])) put(out, ' '), put(out, s[i]), put(out, ' '), put(out, s[++i]);
        else put(out, s[i]);
    }
}
/* a digit, then a hyphen */
static void hyphen_after_digit(const char *s, size_t n, buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        put(out, s[i]);
        if (i + 1 < n && digit(s[i]) && s[i + 1] == '-') put(out, ' '), put(out, s[++i]), put(out, ' ');
    }
}

/* "<skipped>" goes, hyphens at line ends join, entities become what they mean (&amp; before &lt; and &gt;: in this order); one blank at each end. */
static void clean(const char *s, buffer *out)
{
    static const struct {
        const char *from;
        char to;
    } entity[] = { { "&quot;", '"' }, { "&amp;lt;", '<' }, { "&amp;gt;", '>' }, { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' } };
    put(out, ' ');
    while (*s) {
        bool done = true;
        if (strncmp(s, "<skipped>", 9) == 0) s += 9;
        else if (s[0] == '-' && s[1] == '\n') s += 2;
        else if (*s == '\n') put(out, ' '), s++;
        else done = false;
        for (size_t e = 0; e < sizeof entity / sizeof *entity && !done; e++)
            if (strncmp(s, entity[e].from, strlen(entity[e].from)) == 0) {
                put(out, entity[e].to);
                s += strlen(entity[e].from);
                done = true;
            }
        if (!done) put(out, *s++);
    }
    put(out, ' ');
}

/* Bytes of the blank that s begins with, as Python's split knows them; 0: none. */
static size_t blank(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0) return 0;
    if (u[0] == ' ' || (u[0] >= 9 && u[0] <= 13) || (u[0] >= 28 && u[0] <= 31)) return 1;
    if (n >= 2 && u[0] == 0xc2 && (u[1] == 0x85 || u[1] == 0xa0)) return 2;
    if (n < 3) return 0;
    unsigned code = (unsigned)(u[0] << 16 | u[1] << 8 | u[2]);
    bool wide = code == 0xe19a80 || (code >= 0xe28080 && code <= 0xe2808a) || code == 0xe280a8 || code == 0xe280a9 || code == 0xe280af ||
                code == 0xe2819f || code == 0xe38080;
    return wide ? 3 : 0;
}

/* Room for any pass over a text of n bytes, twice. */
static size_t work_room(size_t n) { return 2 * (7 * n + 16); }

/* The token list of text, in one of the two halves of `work` (work_room bytes): blank-separated, of *n bytes. */
/* NOLINTNEXTLINE(readability-non-const-parameter): a and b write there */
static const char *tokenise(const char *text, char *work, size_t room, size_t *n)
{
    static void (*const pass[])(const char *, size_t, buffer *) = { surround_punctuation, stop_after_text, stop_before_text,
                                                                    hyphen_after_digit };
    buffer a = { .text = work, .room = room / 2 }, b = { .text = work + room / 2, .room = room / 2 };
    clean(text, &a);
    for (int i = 0; i < 4; i++) {
        b.n = 0;
        pass[i](a.text, a.n, &b);
        buffer swap = a;
        a = b;
        b = swap;
    }
    *n = a.n;
    return a.text;
}

size_t cj_tokenise_13a(cj_ctx *c, const char *text, char *out, size_t room)
{
    size_t need = work_room(strlen(text)), n;
    char *work = c && !c->error ? cj__alloc(c, need) : NULL;
    if (room) out[0] = 0;
    if (!work) return 0;
    const char *s = tokenise(text, work, need, &n);
    buffer to = { .text = out, .room = room ? room - 1 : 0 };
    for (size_t i = 0; i < n;) {
        size_t skip = blank(s + i, n - i);
        if (skip) {
            i += skip;
            if (to.n && i < n && !blank(s + i, n - i)) put(&to, ' ');
        } else {
            put(&to, s[i++]);
        }
    }
    cj__free(c, work, need);
    if (room) out[to.n < room ? to.n : room - 1] = 0;
    return to.n;
}

/* ---- n-grams -------------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct token {
    const char *text;
    size_t n;
    int *id; /* where its number goes */
} token;

static int by_text(const void *a, const void *b)
{
    const token *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

typedef struct ngram {
    int id[ORDERS];
} ngram;

static int by_numbers(const void *a, const void *b)
{
    const ngram *x = a, *y = b;
    for (int k = 0; k < ORDERS; k++)
        if (x->id[k] != y->id[k]) return x->id[k] < y->id[k] ? -1 : 1;
    return 0;
}

/* The n-grams of one order, sorted; returns their number. */
static int64_t ngrams(const int *id, int64_t n, int order, ngram *out)
{
    int64_t count = n - order + 1 > 0 ? n - order + 1 : 0;
    for (int64_t i = 0; i < count; i++) {
        out[i] = (ngram){ { 0 } };
        for (int k = 0; k < order; k++) out[i].id[k] = id[i + k];
    }
    qsort(out, (size_t)count, sizeof *out, by_numbers);
    return count;
}

/* Memory for one pair of sentences. */
typedef struct desk {
    char *work[2];
    size_t room[2];
    token *tokens;
    int *id;
    ngram *grams;
    size_t most; /* tokens of both */
} desk;

static void clear_desk(cj_ctx *c, desk *d)
{
    for (int i = 0; i < 2; i++)
        if (d->work[i]) cj__free(c, d->work[i], d->room[i]);
    if (d->tokens) cj__free(c, d->tokens, d->most * sizeof *d->tokens);
    if (d->id) cj__free(c, d->id, d->most * sizeof *d->id);
    if (d->grams) cj__free(c, d->grams, d->most * sizeof *d->grams);
    *d = (desk){ 0 };
}

static int64_t split(const char *s, size_t n, token *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < n;) {
        size_t skip = blank(s + i, n - i), from = i;
        if (skip) {
            i += skip;
            continue;
        }
        while (i < n && !blank(s + i, n - i)) i++;
        out[count++] = (token){ .text = s + from, .n = i - from };
    }
    return count;
}

/* Adds a pair's counts. */
static bool add_pair(cj_ctx *c, const char *hypothesis, const char *reference, cj_bleu_score *s)
{
    const char *text[2] = { hypothesis, reference };
    desk d = { .most = 1 };
    size_t n[2];
    const char *tokens[2];
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        d.room[i] = work_room(strlen(text[i]));
        d.work[i] = cj__alloc(c, d.room[i]);
        ok = d.work[i] != NULL;
        if (ok) tokens[i] = tokenise(text[i], d.work[i], d.room[i], &n[i]), d.most += n[i] / 2 + 1;
    }
    if (ok) {
        d.tokens = cj__alloc(c, d.most * sizeof *d.tokens);
        d.id = cj__alloc(c, d.most * sizeof *d.id);
        d.grams = cj__alloc(c, d.most * sizeof *d.grams);
        ok = d.tokens && d.id && d.grams;
    }
    if (ok) {
        int64_t h = split(tokens[0], n[0], d.tokens), r = split(tokens[1], n[1], d.tokens + h);
        for (int64_t i = 0; i < h + r; i++) d.tokens[i].id = &d.id[i];
        qsort(d.tokens, (size_t)(h + r), sizeof *d.tokens, by_text);
        for (int64_t i = 0, number = 1; i < h + r; i++) {
            if (i && by_text(&d.tokens[i - 1], &d.tokens[i]) != 0) number++;
            *d.tokens[i].id = (int)number;
        }
        s->length += h;
        s->reference_length += r;
        for (int order = 1; order <= ORDERS; order++) {
            ngram *a = d.grams, *b = a + h;
            int64_t na = ngrams(d.id, h, order, a), nb = ngrams(d.id + h, r, order, b);
            s->ngrams[order - 1] += na;
            for (int64_t i = 0, j = 0; i < na && j < nb;) { /* both sorted: equal ones meet, each once */
                int o = by_numbers(&a[i], &b[j]);
                s->matches[order - 1] += o == 0;
                i += o <= 0;
                j += o >= 0;
            }
        }
    }
    clear_desk(c, &d);
    return ok;
}

cj_bleu_score cj_bleu(cj_ctx *c, const char *const *hypotheses, const char *const *references, int64_t n)
{
    cj_bleu_score s = { .bleu = NAN };
    if (!c || c->error) return s;
    for (int64_t i = 0; i < n; i++) {
        if (!hypotheses[i] || !references[i]) {
            cj__error(c, CJ_EVALUE, "bleu: sentence %lld is missing", (long long)i);
            return (cj_bleu_score){ .bleu = NAN };
        }
        if (!add_pair(c, hypotheses[i], references[i], &s)) return (cj_bleu_score){ .bleu = NAN };
    }
    double h = (double)s.length, r = (double)s.reference_length, logs = 0, smooth = 1;
    s.brevity = h >= r ? 1 : h > 0 ? exp(1 - r / h) : 0;
    bool empty = s.length == 0;
    for (int k = 0; k < ORDERS; k++) {
        if (s.ngrams[k] == 0) {
            empty = true;
            break;
        }
        double total = (double)s.ngrams[k];
        if (s.matches[k] == 0) smooth *= 2, s.precision[k] = 100 / (smooth * total);
        else s.precision[k] = 100 * (double)s.matches[k] / total;
        logs += log(s.precision[k]) / ORDERS;
    }
    s.bleu = empty ? 0 : s.brevity * exp(logs);
    return s;
}
