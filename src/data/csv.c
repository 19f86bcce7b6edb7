/* Tables of values separated by commas (RFC 4180) or another character, or by blanks.  Two passes over the bytes: the first counts rows and columns, the
 * second fills; a column in which every value that is there is a number is numeric, any other becomes numbers of its different texts in ascending order.
 */
#include <math.h>
#include <stdlib.h>

#include "data/bytes.h"

typedef struct field {
    const char *s; /* without its quotes; doubled quotes are still doubled */
    size_t n;
    bool quoted, last; /* last of its line */
} field;

typedef struct csv {
    const cj_bytes *b;
    char delimiter;
    const char *missing;
    const char *at, *end;
} csv;

static bool blank(char ch) { return ch == ' ' || ch == '\t'; }

static void end_of_line(csv *v)
{
    if (v->at < v->end && *v->at == '\r') v->at++;
    if (v->at < v->end && *v->at == '\n') v->at++;
}

/* Passes over empty lines; false at the end of the text. */
static bool more(csv *v)
{
    while (v->at < v->end && (*v->at == '\n' || *v->at == '\r' || (v->delimiter == ' ' && blank(*v->at)))) v->at++;
    return v->at < v->end;
}

static bool next_field(csv *v, field *f)
{
    if (v->delimiter == ' ')
        while (v->at < v->end && blank(*v->at)) v->at++;
    *f = (field){ .s = v->at };
    if (v->at < v->end && *v->at == '"') {
        const char *open = v->at++;
        f->s = v->at;
        f->quoted = true;
        while (v->at < v->end && (*v->at != '"' || (v->at + 1 < v->end && v->at[1] == '"'))) v->at += 1 + (*v->at == '"');
        if (v->at >= v->end)
            return cj__bytes_error(v->b, (size_t)(open - (const char *)v->b->data),
                                   "a closing quote was expected, the end of the file was found");
        f->n = (size_t)(v->at++ - f->s);
    } else {
        while (v->at < v->end && *v->at != '\n' && *v->at != '\r' && *v->at != v->delimiter && !(v->delimiter == ' ' && *v->at == '\t'))
            v->at++;
        f->n = (size_t)(v->at - f->s);
        while (f->n && blank(f->s[f->n - 1])) f->n--;
        while (f->n && blank(*f->s)) f->s++, f->n--;
    }
    if (v->delimiter == ' ')
        while (v->at < v->end && blank(*v->at)) v->at++;
    f->last = v->at >= v->end || *v->at == '\n' || *v->at == '\r';
    if (f->last) return end_of_line(v), true;
    if (v->delimiter == ' ') return true;
    if (*v->at != v->delimiter)
        return cj__bytes_error(v->b, (size_t)(v->at - (const char *)v->b->data),
                               "'%c' or the end of the line was expected after a quoted field", v->delimiter);
    v->at++;
    return true;
}

static bool equals(const field *f, const char *text) { return f->n == strlen(text) && memcmp(f->s, text, f->n) == 0; }

static bool is_missing(const csv *v, const field *f)
{
    return f->n == 0 || equals(f, "NA") || equals(f, "NaN") || equals(f, "nan") || equals(f, "?") || (v->missing && equals(f, v->missing));
}

static bool is_number(const field *f, double *out)
{
    const char *s = f->s;
    return cj__read_number(&s, f->s + f->n, out) && s == f->s + f->n;
}

/* Columns of the first line, whether it is a header, rows in all, and which columns hold texts. */
static bool measure(csv *v, const cj_csv_opts *o, int64_t *rows, int64_t *columns, bool *header)
{
    field f = { 0 };
    double number;
    bool any = false;
    *rows = *columns = 0;
    if (!more(v)) return cj__bytes_error(v->b, 0, "a table was expected, an empty file was found");
    for (f.last = false; !f.last; ++*columns) {
        if (!next_field(v, &f)) return false;
        any |= is_number(&f, &number) && !f.quoted;
    }
    *header = o->header ? o->header > 0 : !any;
    *rows = !*header;
    while (more(v)) {
        size_t start = (size_t)(v->at - (const char *)v->b->data);
        int64_t found = 0;
        for (f.last = false; !f.last; found++)
            if (!next_field(v, &f)) return false;
        ++*rows;
        if (found != *columns)
            return cj__bytes_error(v->b, start, "%lld columns were expected in row %lld, %lld were found", (long long)*columns,
                                   (long long)*rows, (long long)found);
    }
    return *rows > 0 || cj__bytes_error(v->b, v->b->n, "rows were expected after the header, none were found");
}

/* A field's text with doubled quotes made single. */
static char *field_text(void *record, const field *f)
{
    char *p = cj__record_text(record, f->s, f->n);
    if (!p || !f->quoted) return p;
    char *to = p;
    for (char *s = p; *s; s++) {
        if (*s == '"' && s[1] == '"') s++;
        *to++ = *s;
    }
    *to = 0;
    return p;
}

static int by_text(const void *a, const void *b)
{
    const field *x = a, *y = b;
    int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* One column of texts: its different values in order, and their numbers in x. */
static bool categories(csv *v, cj_table *t, cj_column *k, const field *cell, int64_t j, double *x)
{
    cj_ctx *c = v->b->ctx;
    size_t bytes = (size_t)t->rows * sizeof(field), n = 0, different = 0;
    field *sorted = cj__alloc(c, bytes);
    if (!sorted) return false;
    for (int64_t i = 0; i < t->rows; i++)
        if (!is_missing(v, &cell[i * t->columns + j])) sorted[n++] = cell[i * t->columns + j];
    qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++)
        if (!different || by_text(&sorted[different - 1], &sorted[i]) != 0) sorted[different++] = sorted[i];
    const char **names = cj__record_alloc(t, different * sizeof *names);
    bool ok = names != NULL;
    for (size_t i = 0; ok && i < different; i++) ok = (names[i] = field_text(t, &sorted[i])) != NULL;
    for (int64_t i = 0; ok && i < t->rows; i++) {
        const field *f = &cell[i * t->columns + j], *found = bsearch(f, sorted, different, sizeof *sorted, by_text);
        x[i * t->columns + j] = is_missing(v, f) || !found ? NAN : (double)(found - sorted);
    }
    k->categories = (int64_t)different;
    k->category = names;
    cj__free(c, sorted, bytes);
    return ok;
}

static bool fill(csv *v, cj_table *t, bool header, field *cell, double *x)
{
    cj_column *column = cj__record_alloc(t, (size_t)t->columns * sizeof *column);
    if (!column) return false;
    t->column = column;
    field f;
    more(v);
    for (int64_t j = 0; j < t->columns; j++) {
        char number[24];
        f = (field){ .s = number, .n = (size_t)snprintf(number, sizeof number, "%lld", (long long)j) };
        if (header && !next_field(v, &f)) return false;
        column[j].name = field_text(t, &f);
        if (!column[j].name) return false;
    }
    for (int64_t i = 0; i < t->rows; i++, more(v))
        for (int64_t j = 0; j < t->columns; j++) {
            if (i == 0 && j == 0) more(v);
            if (!next_field(v, &cell[i * t->columns + j])) return false;
        }
    for (int64_t j = 0; j < t->columns; j++) {
        bool numeric = true;
        for (int64_t i = 0; i < t->rows; i++) {
            const field *p = &cell[i * t->columns + j];
            double *to = &x[i * t->columns + j];
            if (is_missing(v, p)) *to = NAN, column[j].missing++;
            else if (!is_number(p, to)) numeric = false;
        }
        if (!numeric && !categories(v, t, &column[j], cell, j, x)) return false;
    }
    return true;
}

cj_table *cj__csv_read(const cj_bytes *b, const cj_csv_opts *opts)
{
    static const cj_csv_opts defaults;
    const cj_csv_opts *o = opts ? opts : &defaults;
    cj_ctx *c = b->ctx;
    const char *text = (const char *)b->data;
    csv v = { b, o->delimiter ? o->delimiter : ',', o->missing, text, text + b->n };
    if (b->n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) v.at += 3;
    const char *zero = memchr(text, 0, b->n);
    if (zero) return cj__bytes_error(b, (size_t)(zero - text), "a table in text was expected, a zero byte was found"), NULL;
    csv second = v;
    int64_t rows, columns;
    bool header;
    if (!measure(&v, o, &rows, &columns, &header)) return NULL;
    cj_table *t = cj__record_new(c, sizeof *t);
    if (!t) return NULL;
    t->rows = rows;
    t->columns = columns;
    size_t n = (size_t)(rows * columns); /* no more than bytes of the file */
    field *cell = cj__alloc(c, n * sizeof *cell);
    double *x = cell ? cj__alloc(c, n * sizeof *x) : NULL;
    bool ok = x && fill(&second, t, header, cell, x);
    if (ok) ok = cj__record_tensor(t, t->x = cj_from_f64(c, x, CJ_SHAPE(rows, columns)));
    if (x) cj__free(c, x, n * sizeof *x);
    if (cell) cj__free(c, cell, n * sizeof *cell);
    if (ok) return t;
    cj__record_free(t);
    return NULL;
}

cj_table *cj_csv_load(cj_ctx *c, const char *path, const cj_csv_opts *opts)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_csv_load", path)) return NULL;
    cj_table *t = cj__csv_read(&b, opts);
    cj__bytes_free(&b);
    return t;
}

void cj_table_free(cj_table *t) { cj__record_free(t); }
