/* Sequences symbol by symbol (cajal/generative.h): beam search, draws, probabilities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cajal/generative.h>

#include "nn/nn.h"

static bool symbols_fit(cj_ctx *c, const char *op, cj_tensor *x, int axes, int64_t longest)
{
    if (!c || c->error || !cj__usable(c, op, 0, x)) return false;
    if (cj_ndim(x) != axes || cj_dtype_of(x) != CJ_I64 || cj_numel(x) < 1 || longest < 1)
        return cj__error(c, CJ_EVALUE, "%s: %lld symbols after %s; at least 1 after i64 symbols with %d axes expected", op,
                         (long long)longest, cj__tensor_text(x), axes);
    return true;
}

/* log softmax of fn's logits [n, V] */
static cj_tensor *log_next(cj_ctx *c, const char *op, cj_next_fn fn, void *user, cj_tensor *prefix)
{
    cj_tensor *y = fn(c, user, prefix);
    if (!c->error && (cj_ndim(y) != 2 || cj_size(y, 0) != cj_size(prefix, 0) || cj_size(y, 1) < 1))
        cj__error(c, CJ_ESHAPE, "%s: the function made %s of %s; a row of logits for each expected", op, cj__tensor_text(y),
                  cj__tensor_text(prefix));
    return c->error ? c->poison : cj_log_softmax(y, -1);
}

/* ---- beam search ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct hypothesis {
    double score;     /* sum of log p */
    int64_t length;   /* symbols after the start */
    int64_t *symbols; /* start and what follows, in memory of `room` symbols */
    int64_t order;    /* in which it was found: equals keep it */
} hypothesis;

typedef struct search {
    cj_ctx *c;
    int64_t given, room; /* symbols of the start; start and longest */
    hypothesis *item;
    int64_t n, cap;
} search;

/* n numbers of 8 bytes; NULL after an error. */
static void *numbers(cj_ctx *c, int64_t n) { return cj__alloc(c, (size_t)n * sizeof(int64_t)); }
static void release(cj_ctx *c, void *p, int64_t n)
{
    if (p) cj__free(c, p, (size_t)n * sizeof(int64_t));
}

static void clear(search *s)
{
    for (int64_t i = 0; i < s->n; i++) release(s->c, s->item[i].symbols, s->room);
    s->n = 0;
}
static void finish(search *s)
{
    clear(s);
    if (s->item) cj__free(s->c, s->item, (size_t)s->cap * sizeof *s->item);
}

/* A copy of a hypothesis with one symbol more; -1: as it is. */
static bool add(search *s, const hypothesis *h, int64_t symbol, double score)
{
    if (s->n == s->cap) {
        int64_t cap = s->cap ? 2 * s->cap : 16;
        hypothesis *grown = cj__alloc(s->c, (size_t)cap * sizeof *grown);
        if (!grown) return false;
        if (s->item) {
            memcpy(grown, s->item, (size_t)s->n * sizeof *grown);
            cj__free(s->c, s->item, (size_t)s->cap * sizeof *grown);
        }
        s->item = grown;
        s->cap = cap;
    }
    int64_t *symbols = numbers(s->c, s->room);
    if (!symbols) return false;
    memcpy(symbols, h->symbols, (size_t)(s->given + h->length) * sizeof *symbols);
    if (symbol >= 0) symbols[s->given + h->length] = symbol;
    s->item[s->n] = (hypothesis){ score, h->length + (symbol >= 0), symbols, s->n };
    s->n++;
    return true;
}

static int better(const void *a, const void *b)
{
    const hypothesis *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}
static void sort(search *s)
{
    if (s->item) qsort(s->item, (size_t)s->n, sizeof *s->item, better);
}

/* All continuations of the partial hypotheses, the best first. */
static bool extend(search *from, search *to, cj_next_fn fn, void *user)
{
    cj_ctx *c = from->c;
    int64_t length = from->given + from->item[0].length;
    int64_t *prefix = numbers(c, from->n * length);
    if (!prefix) return false;
    for (int64_t i = 0; i < from->n; i++) memcpy(prefix + i * length, from->item[i].symbols, (size_t)length * sizeof *prefix);
    cj_scope scope = cj_scope_open(c);
    cj_tensor *logs = log_next(c, "beam_search", fn, user, cj_from_i64(c, prefix, CJ_SHAPE(from->n, length)));
    release(c, prefix, from->n * length);
    int64_t V = c->error ? 0 : cj_size(logs, 1);
    double *p = c->error ? NULL : numbers(c, from->n * V);
    bool good = p && cj_to_f64(logs, p, from->n * V);
    cj_scope_close(scope);
    for (int64_t i = 0; i < from->n && good; i++)
        for (int64_t v = 0; v < V && good; v++)
            if (p[i * V + v] > -INFINITY) good = add(to, &from->item[i], v, from->item[i].score + p[i * V + v]);
    release(c, p, from->n * V);
    sort(to);
    return good;
}

static cj_hypotheses results(search *done, int64_t longest)
{
    cj_ctx *c = done->c;
    cj_hypotheses out = { c->poison, c->poison, c->poison };
    int64_t n = done->n, *symbols = numbers(c, n * longest + 1), *lengths = numbers(c, n + 1);
    double *scores = numbers(c, n + 1);
    if (symbols && lengths && scores) {
        for (int64_t i = 0; i < done->n; i++) {
            const hypothesis *h = &done->item[i];
            for (int64_t t = 0; t < longest; t++) symbols[i * longest + t] = t < h->length ? h->symbols[done->given + t] : -1;
            lengths[i] = h->length;
            scores[i] = h->score;
        }
        out = (cj_hypotheses){ cj_from_i64(c, symbols, CJ_SHAPE(done->n, longest)), cj_from_i64(c, lengths, CJ_SHAPE(done->n)),
                               cj_from_f64(c, scores, CJ_SHAPE(done->n)) };
    }
    release(c, symbols, n * longest + 1), release(c, lengths, n + 1), release(c, scores, n + 1);
    return out;
}

cj_hypotheses cj_beam_search(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *start, cj_beam_opts o)
{
    static const char op[] = "beam_search";
    cj_tensor *poison = c ? c->poison : NULL;
    cj_hypotheses out = { poison, poison, poison };
    if (!symbols_fit(c, op, start, 1, o.longest)) return out;
    if (!fn || o.beams < 1)
        return cj__error(c, CJ_EVALUE, "%s: %lld beams; a function and at least 1 expected", op, (long long)o.beams), out;
    search partial = { c, cj_numel(start), cj_numel(start) + o.longest, NULL, 0, 0 }, next = partial, done = partial;
    bool was = cj_no_grad(c);
    hypothesis first = { .symbols = numbers(c, partial.room) };
    bool good = first.symbols && cj_to_i64(start, first.symbols, partial.given) && add(&partial, &first, -1, 0);
    release(c, first.symbols, partial.room);
    while (good && partial.n && !(o.completed && done.n >= o.completed)) {
        good = extend(&partial, &next, fn, user);
        clear(&partial);
        for (int64_t i = 0; i < next.n && i < o.beams && good; i++) { /* the best go on; complete ones are set aside */
            const hypothesis *h = &next.item[i];
            bool complete = h->symbols[next.given + h->length - 1] == o.end || h->length == o.longest;
            good = add(complete ? &done : &partial, h, -1, complete && o.per_symbol ? h->score / (double)h->length : h->score);
        }
        clear(&next);
    }
    sort(&done);
    if (good && !c->error) out = results(&done, o.longest);
    finish(&partial), finish(&next), finish(&done);
    cj_grad_mode(c, was);
    return out;
}

/* ---- draws and probabilities -------------------------------------------------------------------------------------------------------------------- */

/* Logits with -infinity where truncation leaves nothing: the k likeliest, and the likeliest whose predecessors make up less than top_p. */
static cj_tensor *truncate_logits(cj_tensor *logs, int64_t top_k, double top_p)
{
    cj_ctx *c = cj_tensor_ctx(logs);
    int64_t V = cj_size(logs, 1);
    if (!top_k && !(top_p > 0)) return logs;
    cj_ordered best = cj_sort(logs, 1, &(cj_sort_opts){ .descending = true });
    cj_tensor *values = best.values;
    if (top_p > 0) {
        cj_tensor *p = cj_exp(values), *before = cj_sub(cj_cumsum(p, 1), p);
        cj_tensor *first = cj_eq_scalar(cj_arange(c, 0, (double)V, 1, CJ_I64), 0);
        values = cj_where(cj_logical_or(cj_lt_scalar(before, top_p), first), values, cj_full(c, -INFINITY, CJ_SCALAR, cj_dtype_of(values)));
    }
    if (top_k && top_k < V)
        values = cj_where(cj_lt_scalar(cj_arange(c, 0, (double)V, 1, CJ_I64), (double)top_k), values,
                          cj_full(c, -INFINITY, CJ_SCALAR, cj_dtype_of(values)));
    return cj_gather(values, 1, cj_argsort(best.indices, 1, NULL)); /* back in the order of the symbols */
}

cj_tensor *cj_draw_sequences(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *start, cj_draw_opts o)
{
    static const char op[] = "draw_sequences";
    if (!symbols_fit(c, op, start, 2, o.longest)) return c ? c->poison : NULL;
    double temperature = o.temperature == 0 ? 1 : o.temperature == CJ_ZERO ? 0 : o.temperature;
    if (!fn || !(temperature >= 0) || o.top_k < 0 || !(o.top_p >= 0 && o.top_p <= 1))
        return cj_fail(c, CJ_EVALUE, "%s: temperature %g, top_k %lld, top_p %g; at least 0, at least 0, 0 to 1 expected", op, temperature,
                       (long long)o.top_k, o.top_p);
    bool was = cj_no_grad(c);
    cj_tensor *x = start;
    for (int64_t t = 0; t < o.longest && !c->error; t++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *logs = log_next(c, op, fn, user, x), *next;
        if (temperature == 0) next = cj_argmax(logs, &(cj_reduce_opts){ .axes = CJ_AXIS(1), .keepdim = true });
        else {
            logs = truncate_logits(cj_log_softmax(cj_mul_scalar(logs, 1 / temperature), 1), o.top_k, o.top_p);
            cj_random_opts stream = { .stream = CJ_STREAM_SAMPLING, .dtype = cj_dtype_of(logs) };
            cj_tensor *gumbel =
                cj_neg(cj_log(cj_exponential(c, 1, cj_shape_of(logs), &stream))); /* the largest of logit + Gumbel is a draw */
            next = cj_argmax(cj_add(logs, gumbel), &(cj_reduce_opts){ .axes = CJ_AXIS(1), .keepdim = true });
        }
        if (o.end >= 0 && t > 0)
            next = cj_where(cj_eq_scalar(cj_slice(x, 1, -1, CJ_END, 1), (double)o.end), cj_slice(x, 1, -1, CJ_END, 1), next);
        x = cj_scope_return(s, cj_cat((cj_tensor *[]){ x, next }, 2, 1));
    }
    cj_grad_mode(c, was);
    return x;
}

cj_tensor *cj_sequence_log_prob(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *x, int64_t given)
{
    static const char op[] = "sequence_log_prob";
    if (!symbols_fit(c, op, x, 2, 1)) return c ? c->poison : NULL;
    if (!fn || given < 1 || given >= cj_size(x, 1))
        return cj_fail(c, CJ_EVALUE, "%s: %lld given symbols of %s; a function and 1 to one less than all expected", op, (long long)given,
                       cj__tensor_text(x));
    cj_tensor *sum = NULL;
    for (int64_t t = given; t < cj_size(x, 1) && !c->error; t++) {
        cj_tensor *logs = log_next(c, op, fn, user, cj_contiguous(cj_slice(x, 1, 0, t, 1)));
        cj_tensor *here = cj_squeeze(cj_gather(logs, 1, cj_contiguous(cj_slice(x, 1, t, t + 1, 1))), 1);
        sum = sum ? cj_add(sum, here) : here;
    }
    return c->error ? c->poison : sum;
}
