/* NumPy's .npy: the magic "\x93NUMPY", a version, the length of a header, the header — a Python dictionary in text — and the elements.
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * Format: NumPy enhancement proposal 1 (R. Kern, 2007) and its versions 2 (longer headers) and 3 (UTF-8 headers).  Nothing is allocated before the sizes in
 * the header have been compared with the size of the file.
 */
#include <stdio.h>

#include "data/file.h"

static const unsigned char magic[8] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0 }; /* and the version */

#define MAX_HEADER 65536 /* NumPy itself writes at most a few hundred bytes for arrays that have no fields */

static const struct {
    cj_dtype dtype;
    const char *descr; /* as it is written */
} descrs[] = {
    { CJ_F32, "<f4" }, { CJ_F64, "<f8" }, { CJ_F16, "<f2" }, { CJ_BF16, "<V2" },
    { CJ_I64, "<i8" }, { CJ_I32, "<i4" }, { CJ_U8, "|u1" },  { CJ_BOOL, "|b1" },
};
enum { DESCRS = sizeof descrs / sizeof descrs[0] };

/* ---- the header as text --------------------------------------------------------------------------------------------------------------------- */

typedef struct header {
    cj_dtype dtype;
    bool fortran;
    cj_shape shape;
} header;

typedef struct scan {
    cj_source *source;
    const char *s; /* ends with a zero byte */
} scan;

static bool refuse(scan *p, const char *what)
{
    return cj__file_error(p->source->ctx, p->source->op, p->source->path, "the header is malformed: %s at '%.20s'", what, p->s);
}

static void blanks(scan *p)
{
    while (*p->s == ' ' || *p->s == '\t' || *p->s == '\n' || *p->s == '\r') p->s++;
}

static bool symbol(scan *p, char wanted)
{
    blanks(p);
    if (*p->s != wanted) return false;
    p->s++;
    return true;
}

static bool word(scan *p, const char *wanted)
{
    size_t n = strlen(wanted);
    blanks(p);
    if (strncmp(p->s, wanted, n) != 0) return false;
    p->s += n;
    return true;
}

/* 'text' or "text", without escapes. */
static bool quoted(scan *p, char *out, size_t room)
{
    blanks(p);
    char quote = *p->s;
    if (quote != '\'' && quote != '"') return refuse(p, "a text in quotes is expected");
    const char *end = strchr(p->s + 1, quote);
    size_t n = end ? (size_t)(end - p->s - 1) : 0;
    if (!end || n >= room || memchr(p->s + 1, '\\', n)) return refuse(p, "a short text in quotes is expected");
    memcpy(out, p->s + 1, n);
    out[n] = 0;
    p->s = end + 1;
    return true;
}

static bool read_descr(scan *p, header *h)
{
    cj_source *f = p->source;
    char descr[16];
    blanks(p);
    if (*p->s == '[') return cj__file_error(f->ctx, f->op, f->path, "an array with fields cannot be a tensor");
    if (!quoted(p, descr, sizeof descr)) return false;
    const char *kind = descr + (strchr("<>=|", descr[0]) && descr[0] ? 1 : 0);
    bool bytes = strcmp(kind, "u1") == 0 || strcmp(kind, "b1") == 0;
    if (descr[0] == '>' && !bytes)
        return cj__file_error(f->ctx, f->op, f->path, "big-endian elements ('%s'); convert them with a.astype(a.dtype.newbyteorder('<'))",
                              descr);
    for (int i = 0; i < DESCRS; i++)
        if (strcmp(kind, descrs[i].descr + 1) == 0) {
            h->dtype = descrs[i].dtype;
            return true;
        }
    return cj__file_error(f->ctx, f->op, f->path, "elements of type '%s'; tensors have f4, f8, f2, V2 (bf16), i8, i4, u1 or b1", descr);
}

static bool read_fortran(scan *p, header *h)
{
    h->fortran = word(p, "True");
    return h->fortran || word(p, "False") || refuse(p, "True or False is expected");
}

static bool read_size(scan *p, int64_t *size)
{
    blanks(p);
    if (*p->s < '0' || *p->s > '9') return refuse(p, "a size is expected");
    for (*size = 0; *p->s >= '0' && *p->s <= '9'; p->s++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *p->s - '0', size))
            return refuse(p, "a size overflows");
    if (*p->s == 'L') p->s++; /* Python 2 */
    return true;
}

static bool read_shape(scan *p, header *h)
{
    cj_source *f = p->source;
    if (!symbol(p, '(')) return refuse(p, "a shape in parentheses is expected");
    while (!symbol(p, ')')) {
        int64_t size = 0;
        if (!read_size(p, &size)) return false;
        if (h->shape.ndim == CJ_MAX_DIMS) return cj__file_error(f->ctx, f->op, f->path, "an array of more than %d dimensions", CJ_MAX_DIMS);
        h->shape.dim[h->shape.ndim++] = size;
        if (!symbol(p, ',') && *p->s != ')') return refuse(p, "a comma is expected");
    }
    return true;
}

static bool read_dictionary(cj_source *f, const char *text, header *h)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    scan p = { f, text };
    unsigned seen = 0;
    if (!symbol(&p, '{')) return refuse(&p, "a dictionary is expected");
    while (!symbol(&p, '}')) {
        char key[32];
        int k = 0;
        if (!quoted(&p, key, sizeof key)) return false;
        while (k < 3 && strcmp(key, keys[k]) != 0) k++;
        if (k == 3 || seen & 1u << k) return refuse(&p, "descr, fortran_order and shape are expected, each once,");
        seen |= 1u << k;
        if (!symbol(&p, ':')) return refuse(&p, "a colon is expected");
        if (!(k == 0 ? read_descr(&p, h) : k == 1 ? read_fortran(&p, h) : read_shape(&p, h))) return false;
        if (!symbol(&p, ',') && *p.s != '}') return refuse(&p, "a comma is expected");
    }
    blanks(&p);
    if (*p.s) return refuse(&p, "nothing more is expected");
    return seen == 7 || refuse(&p, "descr, fortran_order or shape is missing");
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------------------- */

static bool read_header(cj_source *f, header *h)
{
    cj_ctx *c = f->ctx;
    unsigned char start[12];
    if (f->left < 10) return cj__file_error(c, f->op, f->path, "not an .npy file: only %lld bytes", (long long)f->left);
    if (!cj__source_read(f, start, 10)) return false;
    if (memcmp(start, magic, 6) != 0) return cj__file_error(c, f->op, f->path, "not an .npy file: it does not start with \\x93NUMPY");
    int version = start[6];
    if (version < 1 || version > 3 || start[7] != 0)
        return cj__file_error(c, f->op, f->path, "version %d.%d of the format is unknown", version, start[7]);
    if (version > 1 && !cj__source_read(f, start + 10, 2)) return false;
    int64_t n = version == 1 ? cj__get16(start + 8) : cj__get32(start + 8);
    if (n > f->left || n > MAX_HEADER)
        return cj__file_error(c, f->op, f->path, "a header of %lld bytes is announced, %s", (long long)n,
                              n > f->left ? "more than the file has" : "more than any array needs");
    char *text = cj__alloc(c, (size_t)n + 1);
    if (!text) return false;
    text[n] = 0;
    bool ok = cj__source_read(f, text, (size_t)n);
    if (ok && memchr(text, 0, (size_t)n)) ok = cj__file_error(c, f->op, f->path, "the header is malformed: it contains a zero byte");
    ok = ok && read_dictionary(f, text, h);
    cj__free(c, text, (size_t)n + 1);
    return ok;
}

cj_tensor *cj__npy_read(cj_source *f, bool persistent)
{
    header h = { 0 };
    if (!read_header(f, &h)) return NULL;
    int64_t n = cj__numel(f->ctx, f->op, h.shape.ndim, h.shape.dim);
    if (n < 0) return NULL;
    int64_t bytes = n * (int64_t)cj_dtype_size(h.dtype);
    if (bytes != f->left) {
        cj__file_error(f->ctx, f->op, f->path, "%s %s needs %lld bytes, %lld follow the header", cj_dtype_name(h.dtype),
                       cj__shape_text(h.shape.ndim, h.shape.dim), (long long)bytes, (long long)f->left);
        return NULL;
    }
    return cj__source_tensor(f, h.dtype, h.shape, h.fortran, persistent);
}

cj_tensor *cj_npy_load(cj_ctx *c, const char *path)
{
    if (!c) return NULL;
    cj_reader r;
    if (!cj__reader_open(&r, c, "cj_npy_load", path)) return c->poison;
    cj_source f = cj__source_part(&r, 0, r.size);
    cj_tensor *t = cj__npy_read(&f, false);
    cj__reader_close(&r);
    return t ? t : c->poison;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------------- */

size_t cj__npy_header(const cj_tensor *t, unsigned char out[512])
{
    char *text = (char *)out + 10;
    const char *descr = "";
    for (int i = 0; i < DESCRS; i++)
        if (descrs[i].dtype == (cj_dtype)t->dtype) descr = descrs[i].descr;
    size_t n = (size_t)sprintf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->ndim; i++) n += (size_t)sprintf(text + n, i ? " %lld," : "%lld,", (long long)t->shape[i]);
    if (t->ndim > 1) n--; /* (3, 4) but (3,) */
    n += (size_t)sprintf(text + n, "), }");
    while ((10 + n + 1) % 64) text[n++] = ' '; /* the elements start at a multiple of 64 */
    text[n++] = '\n';
    memcpy(out, magic, sizeof magic);
    cj__set16(out + 8, (uint32_t)n);
    return 10 + n;
}

bool cj_npy_save(cj_tensor *t, const char *path)
{
    if (!t) return false;
    cj_ctx *c = t->ctx;
    if (c->error || !cj__usable(c, "cj_npy_save", 0, t)) return false;
    cj_writer w;
    if (!cj__writer_open(&w, c, "cj_npy_save", path)) return false;
    unsigned char head[512];
    bool ok = cj__writer_put(&w, head, cj__npy_header(t, head)) && cj__writer_tensor(&w, t);
    return cj__writer_close(&w, ok);
}
