/* The tables that are linked into the library: comma- or blank-separated numbers, sometimes with a first line "rows,columns,names of the classes"
 * (data/embedded/NOTICE).  Numbers are not read by strtod, which listens to the host program's locale.
 */
#include "data/dataset.h"
#include "data/embedded.h"

static bool read_number(const char **at, double *out) { return cj__read_number(at, *at + strcspn(*at, ", \t\r\n"), out); }

static void skip_separators(const char **at)
{
    while (**at == ',' || **at == ' ' || **at == '\t' || **at == '\n' || **at == '\r') ++*at;
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------------------------- */

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
