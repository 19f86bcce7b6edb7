/* The tables that are linked into the library: comma- or blank-separated numbers, sometimes with a first line "rows,columns,names of the classes"
 * (data/embedded/NOTICE).  Numbers are read here and not by strtod, which listens to the host program's locale.
 */
#include "data/dataset.h"
#include "data/embedded.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------------------------------------- */

/* A decimal number of at most 19 digits.  While digits and power of ten are exact in double (2^53, 10^22), one rounding remains and the result is the
 * nearest double (Clinger, 1990); that covers every number in the tables. */
static bool read_number(const char **at, double *out)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const char *s = *at;
    bool minus = *s == '-', point = false;
    uint64_t digits = 0;
    int count = 0, power = 0;
    if (*s == '-' || *s == '+') s++;
    for (; (*s >= '0' && *s <= '9') || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        if (++count > 19) return false;
        digits = digits * 10 + (uint64_t)(*s - '0');
        power -= point;
    }
    if (!count) return false;
    if (*s == 'e' || *s == 'E') {
        bool down = *++s == '-';
        int e = 0;
        if (*s == '-' || *s == '+') s++;
        if (*s < '0' || *s > '9') return false;
        for (; *s >= '0' && *s <= '9' && e < 1000; s++) e = e * 10 + (*s - '0');
        power += down ? -e : e;
    }
    while (digits && digits % 10 == 0) {
        digits /= 10;
        power++;
    }
    if (digits && (power < -22 || power > 22)) return false;
    double v = !digits ? 0 : power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
    *out = minus ? -v : v;
    *at = s;
    return true;
}

static void skip_separators(const char **at)
{
    while (**at == ',' || **at == ' ' || **at == '\t' || **at == '\n' || **at == '\r') ++*at;
}

/* ---- tables --------------------------------------------------------------------------------------------------------------------------------------- */

static const char *find(cj_ctx *c, const char *name)
{
    for (const struct cj_embedded *e = cj_embedded; e->name; e++)
        if (strcmp(e->name, name) == 0) return (const char *)e->data; /* ends with a zero byte */
    cj__error(c, CJ_EFILE, "cj_dataset_open: this library was built without %s", name);
    return NULL;
}

static bool malformed(cj_rows *r, const char *file)
{
    cj_ctx *c = r->ctx;
    cj__rows_free(r);
    return cj__error(c, CJ_EFILE, "cj_dataset_open: the embedded %s is malformed", file);
}

/* n rows of `columns` numbers into x; with labels, one more number per row into y. */
static bool read_rows(cj_rows *r, const char *at, bool labels)
{
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t j = 0; j < r->features + labels; j++) {
            double v;
            skip_separators(&at);
            if (!read_number(&at, &v)) return false;
            if (j < r->features) r->x[i * r->features + j] = (float)v;
            else if (v < 0 || v >= (double)r->classes) return false;
            else r->y[i] = (float)v;
        }
    skip_separators(&at);
    return *at == 0;
}

static bool classes(cj_ctx *c, const char *file, bool first_line, int64_t n, int64_t features, int64_t count, cj_rows *r)
{
    const char *at = find(c, file);
    if (!at || !cj__rows_alloc(r, c, n, features)) return false;
    r->classes = count;
    while (first_line && *at && *at != '\n') at++;
    return read_rows(r, at, true) || malformed(r, file);
}

#define UNUSED (void)e, (void)o, (void)seed

bool cj__table_iris(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    return classes(c, "iris.csv", true, 150, 4, 3, out);
}

bool cj__table_wine(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    return classes(c, "wine.csv", true, 178, 13, 3, out);
}

bool cj__table_breast_cancer(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    return classes(c, "breast_cancer.csv", true, 569, 30, 2, out);
}

bool cj__table_digits(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    return classes(c, "digits.csv", false, 1797, 64, 10, out);
}

bool cj__table_diabetes(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    const char *x = find(c, "diabetes_data.csv"), *y = find(c, "diabetes_target.csv");
    if (!x || !y || !cj__rows_alloc(out, c, 442, 10)) return false;
    if (!read_rows(out, x, false)) return malformed(out, "diabetes_data.csv");
    for (int64_t i = 0; i < out->n; i++) {
        double v;
        skip_separators(&y);
        if (!read_number(&y, &v)) return malformed(out, "diabetes_target.csv");
        out->y[i] = (float)v;
    }
    return true;
}
