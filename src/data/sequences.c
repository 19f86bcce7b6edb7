/* Sequences with known answers (copy, reverse, recall, the adding problem, parity, brackets), and a text in pieces: windows that follow each other, stretches from
 * anywhere, sentences.
 *
 * The adding problem is Hochreiter & Schmidhuber's (1997): the sum of the two marked numbers, which are uniform, has mean 1 and variance 2/12.
 */
#include "data/augment.h"
#include "data/dataset.h"

static cj_tensor *poison(cj_ctx *c) { return c ? c->poison : NULL; }

/* ---- tasks -------------------------------------------------------------------------------------------------------------------------------- */

typedef struct task {
    const char *name;
    bool answers; /* y has a symbol for every step */
} task;
static const task tasks[] = {
    [CJ_SEQUENCE_COPY] = { "copy", true },      [CJ_SEQUENCE_REVERSE] = { "reverse", true }, [CJ_SEQUENCE_RECALL] = { "recall", false },
    [CJ_SEQUENCE_ADDING] = { "adding", false }, [CJ_SEQUENCE_PARITY] = { "parity", false },  [CJ_SEQUENCE_BRACKETS] = { "brackets", false },
};
enum { TASKS = sizeof tasks / sizeof *tasks };

/* Symbols of one row and its answers. */
static void symbols_row(cj_draws *d, cj_sequence_task which, int64_t length, int64_t symbols, int64_t *x, int64_t *y)
{
    for (int64_t t = 0; t < length; t++) x[t] = cj__draw_below(d, symbols);
    switch (which) {
    case CJ_SEQUENCE_COPY:
        for (int64_t t = 0; t < length; t++) y[t] = x[t];
        break;
    case CJ_SEQUENCE_REVERSE:
        for (int64_t t = 0; t < length; t++) y[t] = x[length - 1 - t];
        break;
    case CJ_SEQUENCE_RECALL: *y = x[0]; break;
    default: /* parity */
        *y = 0;
        for (int64_t t = 0; t < length; t++) *y ^= x[t];
    }
}

/* A walk that never falls below 0 and ends there: 2·kind opens, 2·kind + 1 closes. `open` has room for length/2 kinds. A row that must not match gets one other symbol: the
 * numbers of opened and closed brackets of some kind then differ. */
static void brackets_row(cj_draws *d, int64_t length, bool match, int64_t *open, int64_t *x)
{
    int64_t depth = 0;
    for (int64_t t = 0; t < length; t++) {
        bool opens = depth == 0 || (depth < length - t && cj__draw_below(d, 2) == 0);
        if (opens) open[depth++] = cj__draw_below(d, 2);
        else depth--;
        x[t] = 2 * open[opens ? depth - 1 : depth] + !opens;
    }
    if (match) return;
    int64_t at = cj__draw_below(d, length);
    x[at] = (x[at] + 1 + cj__draw_below(d, 3)) % 4;
}

static float adding_row(cj_draws *d, int64_t length, float *x)
{
    int64_t half = length / 2, mark[2] = { cj__draw_below(d, half), half + cj__draw_below(d, length - half) };
    for (int64_t t = 0; t < length; t++) x[2 * t] = (float)cj__draw_unit(d), x[2 * t + 1] = t == mark[0] || t == mark[1];
    return x[2 * mark[0]] + x[2 * mark[1]];
}

static bool allowed(cj_ctx *c, cj_sequence_task which, int64_t n, int64_t length, int64_t symbols, int64_t first)
{
    if ((unsigned)which >= TASKS) return cj__error(c, CJ_EVALUE, "cj_sequence_rows: there is no task %d", (int)which);
    const char *name = tasks[which].name;
    int64_t shortest = which == CJ_SEQUENCE_ADDING || which == CJ_SEQUENCE_BRACKETS ? 2 : 1;
    if (n < 1 || first < 0 || length < shortest || n > INT32_MAX / length)
        return cj__error(c, CJ_EVALUE, "cj_sequence_rows: %lld rows of %s of length %lld from row %lld", (long long)n, name,
                         (long long)length, (long long)first);
    if (which == CJ_SEQUENCE_BRACKETS && length % 2)
        return cj__error(c, CJ_EVALUE, "cj_sequence_rows: brackets of the odd length %lld", (long long)length);
    if (symbols < 2) return cj__error(c, CJ_EVALUE, "cj_sequence_rows: %s of %lld symbols", name, (long long)symbols);
    return true;
}

cj_sequences cj_sequence_rows(cj_ctx *c, cj_sequence_task which, int64_t n, int64_t length, const cj_sequence_opts *opts)
{
    const cj_sequence_opts o = opts ? *opts : (cj_sequence_opts){ 0 };
    const cj_sequences none = { poison(c), poison(c) };
    const int64_t symbols = which == CJ_SEQUENCE_PARITY ? 2 : o.symbols ? o.symbols : 8;
    if (!c || c->error != CJ_OK || !allowed(c, which, n, length, symbols, o.first)) return none;
    const bool real = which == CJ_SEQUENCE_ADDING;
    const int64_t width = real ? 2 * length : length, answers = tasks[which].answers ? length : 1;
    const size_t x_bytes = (size_t)(n * width) * (real ? sizeof(float) : sizeof(int64_t)),
                 y_bytes = (size_t)(n * answers) * (real ? sizeof(float) : sizeof(int64_t)), open_bytes = (size_t)length * sizeof(int64_t);
    void *x = cj__alloc(c, x_bytes), *y = cj__alloc(c, y_bytes);
    int64_t *open = cj__alloc(c, open_bytes);
    cj_sequences s = none;
    if (x && y && open) {
        uint64_t seed = o.seed ? o.seed : cj_rng_get(c).seed;
        for (int64_t i = 0; i < n; i++) {
            cj_draws d = cj__draws(seed, (int64_t)CJ_CALL_POINTS, o.first + i, 1 + (unsigned)which);
            if (real) {
                ((float *)y)[i] = adding_row(&d, length, (float *)x + i * width);
            } else if (which == CJ_SEQUENCE_BRACKETS) {
                ((int64_t *)y)[i] = (o.first + i) % 2 == 0;
                brackets_row(&d, length, ((int64_t *)y)[i], open, (int64_t *)x + i * width);
            } else {
                symbols_row(&d, which, length, symbols, (int64_t *)x + i * width, (int64_t *)y + i * answers);
            }
        }
        cj_shape rows = CJ_SHAPE(n, length), pairs = CJ_SHAPE(n, length, 2), one = CJ_SHAPE(n);
        s.x = real ? cj_from_f32(c, x, pairs) : cj_from_i64(c, x, rows);
        s.y = real ? cj_from_f32(c, y, one) : cj_from_i64(c, y, tasks[which].answers ? rows : one);
    }
    cj__free(c, open, open_bytes);
    cj__free(c, y, y_bytes);
    cj__free(c, x, x_bytes);
    return s;
}

/* ---- a text in pieces ---------------------------------------------------------------------------------------------------------------------- */

static bool is_text(cj_tensor *text, const char *op)
{
    cj_ctx *c = cj_tensor_ctx(text);
    if (!c || !cj__usable(c, op, 0, text)) return false;
    if (cj_ndim(text) != 1 || cj_dtype_of(text) != CJ_I64)
        return cj__error(c, CJ_ESHAPE, "%s: a text is i64 [N], this is %s %s", op, cj_dtype_name(cj_dtype_of(text)), cj__tensor_text(text));
    return true;
}

int64_t cj_text_windows(cj_tensor *text, int64_t batch, int64_t length)
{
    if (!is_text(text, "cj_text_windows")) return 0;
    int64_t row = batch < 1 ? 0 : (cj_numel(text) - 1) / batch;
    if (row < 1 || length < 1) {
        cj__error(cj_tensor_ctx(text), CJ_EVALUE, "cj_text_windows: %lld rows of windows of %lld symbols from a text of %lld",
                  (long long)batch, (long long)length, (long long)cj_numel(text));
        return 0;
    }
    return (row + length - 1) / length;
}

bool cj_text_window(cj_tensor *text, int64_t batch, int64_t length, int64_t k, cj_tensor **x, cj_tensor **y)
{
    cj_ctx *c = cj_tensor_ctx(text);
    *x = *y = poison(c);
    int64_t windows = cj_text_windows(text, batch, length);
    if (!windows) return false;
    if (k < 0 || k >= windows) return cj__error(c, CJ_EINDEX, "cj_text_window: window %lld of %lld", (long long)k, (long long)windows);
    int64_t row = (cj_numel(text) - 1) / batch, from = k * length, to = from + length < row ? from + length : row;
    for (int later = 0; later < 2; later++) {
        cj_tensor *rows = cj_reshape(cj_slice(text, 0, later, later + batch * row, 1), CJ_SHAPE(batch, row));
        *(later ? y : x) = cj_contiguous(cj_slice(rows, 1, from, to, 1));
    }
    return c->error == CJ_OK;
}

/* text[start_i + t] for t < length, i64 [n, length]; starts as i64 [n, 1]. */
static cj_tensor *stretches(cj_tensor *text, cj_tensor *start, int64_t length)
{
    int64_t n = cj_size(start, 0), last = cj_numel(text) - 1;
    cj_tensor *where = cj_add(start, cj_arange(cj_tensor_ctx(text), 0, (double)length, 1, CJ_I64));
    where = cj_clamp(cj_reshape(where, CJ_SHAPE(n * length)), 0, (double)last);
    return cj_reshape(cj_index_select(text, 0, where), CJ_SHAPE(n, length));
}

bool cj_text_chunks(cj_tensor *text, int64_t n, int64_t length, cj_tensor **x, cj_tensor **y)
{
    cj_ctx *c = cj_tensor_ctx(text);
    *x = *y = poison(c);
    if (!is_text(text, "cj_text_chunks")) return false;
    if (n < 1 || length < 1 || length >= cj_numel(text))
        return cj__error(c, CJ_EVALUE, "cj_text_chunks: %lld stretches of %lld symbols from a text of %lld", (long long)n,
                         (long long)length, (long long)cj_numel(text));
    cj_tensor *start = cj_randint(c, 0, cj_numel(text) - length, CJ_SHAPE(n, 1), &(cj_random_opts){ .stream = CJ_STREAM_DATA });
    *x = stretches(text, start, length);
    *y = stretches(text, cj_add_scalar(start, 1), length);
    return c->error == CJ_OK;
}

bool cj_text_sentences(cj_tensor *text, int64_t end, cj_tensor **start, cj_tensor **length)
{
    cj_ctx *c = cj_tensor_ctx(text);
    *start = *length = poison(c);
    if (!is_text(text, "cj_text_sentences")) return false;
    int64_t n = cj_numel(text);
    if (n < 1) return cj__error(c, CJ_EVALUE, "cj_text_sentences: the text is empty");
    cj_tensor *after =
        cj_add_scalar(cj_reshape(cj_nonzero(cj_eq_scalar(text, (double)end)), CJ_SHAPE(-1)), 1); /* where the next would begin */
    int64_t count = cj_numel(after);
    cj_tensor *zero = cj_zeros(c, CJ_SHAPE(1), CJ_I64), *all = cj_full(c, (double)n, CJ_SHAPE(1), CJ_I64);
    bool whole = count > 0 && cj_item(cj_select(after, 0, count - 1)) == (double)n;
    if (!whole) after = cj_cat((cj_tensor *[]){ after, all }, 2, 0), count++;
    *start = cj_cat((cj_tensor *[]){ zero, cj_slice(after, 0, 0, count - 1, 1) }, 2, 0);
    *length = cj_sub(after, *start);
    return c->error == CJ_OK;
}

cj_tensor *cj_text_rows(cj_tensor *text, cj_tensor *start, cj_tensor *length, int64_t pad)
{
    cj_ctx *c = cj_tensor_ctx(text);
    const char *op = "cj_text_rows";
    if (!is_text(text, op) || !cj__usable(c, op, 1, start) || !cj__usable(c, op, 2, length)) return poison(c);
    int64_t n = cj_numel(start), N = cj_numel(text);
    if (cj_ndim(start) != 1 || cj_ndim(length) != 1 || cj_numel(length) != n || n < 1 || cj_dtype_of(start) != CJ_I64 ||
        cj_dtype_of(length) != CJ_I64)
        return cj_fail(c, CJ_ESHAPE, "%s: starts and lengths are i64 [n], these are %s and %s", op, cj__tensor_text(start),
                       cj__tensor_text(length));
    double first = cj_item(cj_min(start, NULL)), shortest = cj_item(cj_min(length, NULL)),
           last = cj_item(cj_max(cj_add(start, length), NULL));
    if (c->error == CJ_OK && !(first >= 0 && shortest >= 0 && last <= (double)N))
        return cj_fail(c, CJ_EINDEX, "%s: a sentence lies outside the %lld symbols of the text", op, (long long)N);
    int64_t longest = (int64_t)cj_item(cj_max(length, NULL));
    cj_tensor *beyond = cj_ge(cj_arange(c, 0, (double)longest, 1, CJ_I64), cj_reshape(length, CJ_SHAPE(n, 1)));
    return cj_where(beyond, cj_full(c, (double)pad, CJ_SCALAR, CJ_I64), stretches(text, cj_reshape(start, CJ_SHAPE(n, 1)), longest));
}
