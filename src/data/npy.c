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
    const char *s;     /* ends with a zero byte */
    const char *start; /* its first byte, which is byte `at` of the source */
    int64_t at;
} scan;

static int64_t place_of(const scan *p) { return p->at + (p->s - p->start); }

static bool refuse(const scan *p, const char *what)
{
    if (!*p->s) return cj__source_error(p->source, place_of(p), "%s was expected, the end of the header was found", what);
    return cj__source_error(p->source, place_of(p), "%s was expected in the header, '%.20s' was found", what, p->s);
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
    if (quote != '\'' && quote != '"') return refuse(p, "a text in quotes");
    const char *end = strchr(p->s + 1, quote);
    size_t n = end ? (size_t)(end - p->s - 1) : 0;
    if (!end || n >= room || memchr(p->s + 1, '\\', n)) return refuse(p, "a short text in quotes");
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
    int64_t at = place_of(p);
    if (*p->s == '[') return cj__source_error(f, at, "elements of one type were expected, an array with fields was found");
    if (!quoted(p, descr, sizeof descr)) return false;
    const char *kind = descr + (strchr("<>=|", descr[0]) && descr[0] ? 1 : 0);
    bool bytes = strcmp(kind, "u1") == 0 || strcmp(kind, "b1") == 0;
    if (descr[0] == '>' && !bytes)
        return cj__source_error(f, at,
                                "little-endian elements were expected, big-endian ones ('%s') were found; convert them with "
                                "a.astype(a.dtype.newbyteorder('<'))",
                                descr);
    for (int i = 0; i < DESCRS; i++)
        if (strcmp(kind, descrs[i].descr + 1) == 0) {
            h->dtype = descrs[i].dtype;
            return true;
        }
    return cj__source_error(f, at, "elements of type f4, f8, f2, V2 (bf16), i8, i4, u1 or b1 were expected, type '%s' was found", descr);
}

static bool read_fortran(scan *p, header *h)
{
    h->fortran = word(p, "True");
    return h->fortran || word(p, "False") || refuse(p, "True or False");
}

static bool read_size(scan *p, int64_t *size)
{
    blanks(p);
    if (*p->s < '0' || *p->s > '9') return refuse(p, "a size");
    for (*size = 0; *p->s >= '0' && *p->s <= '9'; p->s++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *p->s - '0', size))
            return refuse(p, "a size that 64 bits hold");
    if (*p->s == 'L') p->s++; /* Python 2 */
    return true;
}

static bool read_shape(scan *p, header *h)
{
    if (!symbol(p, '(')) return refuse(p, "a shape in parentheses");
    while (!symbol(p, ')')) {
        int64_t size = 0;
        if (!read_size(p, &size)) return false;
        if (h->shape.ndim == CJ_MAX_DIMS)
            return cj__source_error(p->source, place_of(p), "at most %d dimensions were expected, more were found", CJ_MAX_DIMS);
        h->shape.dim[h->shape.ndim++] = size;
        if (!symbol(p, ',') && *p->s != ')') return refuse(p, "a comma");
    }
    return true;
}

/* at: of the text in the source. */
static bool read_dictionary(cj_source *f, const char *text, int64_t at, header *h)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    scan p = { f, text, text, at };
    unsigned seen = 0;
    if (!symbol(&p, '{')) return refuse(&p, "a dictionary");
    while (!symbol(&p, '}')) {
        char key[32];
        int k = 0;
        if (!quoted(&p, key, sizeof key)) return false;
        while (k < 3 && strcmp(key, keys[k]) != 0) k++;
        if (k == 3 || seen & 1u << k) return refuse(&p, "descr, fortran_order and shape, each once,");
        seen |= 1u << k;
        if (!symbol(&p, ':')) return refuse(&p, "a colon");
        if (!(k == 0 ? read_descr(&p, h) : k == 1 ? read_fortran(&p, h) : read_shape(&p, h))) return false;
        if (!symbol(&p, ',') && *p.s != '}') return refuse(&p, "a comma");
    }
    blanks(&p);
    if (*p.s) return refuse(&p, "nothing more");
    return seen == 7 || refuse(&p, !(seen & 1) ? "descr" : !(seen & 2) ? "fortran_order" : "shape");
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------------------- */

static bool read_header(cj_source *f, header *h)
{
    cj_ctx *c = f->ctx;
    unsigned char start[12];
    if (f->left < 10) return cj__source_error(f, 0, "10 bytes of an .npy header were expected, %lld were found", (long long)f->left);
    if (!cj__source_read(f, start, 10)) return false;
    if (memcmp(start, magic, 6) != 0)
        return cj__source_error(f, 0, "\\x93NUMPY of an .npy file was expected, %02x %02x %02x were found", start[0], start[1], start[2]);
    int version = start[6];
    if (version < 1 || version > 3 || start[7] != 0)
        return cj__source_error(f, 6, "version 1.0, 2.0 or 3.0 of the format was expected, version %d.%d was found", version, start[7]);
    if (version > 1 && !cj__source_read(f, start + 10, 2)) return false;
    int64_t n = version == 1 ? cj__get16(start + 8) : cj__get32(start + 8);
    if (n > f->left || n > MAX_HEADER)
        return cj__source_error(f, 8, "a header of at most %lld bytes was expected, one of %lld was found",
                                (long long)(f->left < MAX_HEADER ? f->left : MAX_HEADER), (long long)n);
    int64_t at = f->size - f->left;
    char *text = cj__alloc(c, (size_t)n + 1);
    if (!text) return false;
    text[n] = 0;
    bool ok = cj__source_read(f, text, (size_t)n);
    const char *zero = ok ? memchr(text, 0, (size_t)n) : NULL;
    if (zero) ok = cj__source_error(f, at + (zero - text), "a header in text was expected, a zero byte was found");
    ok = ok && read_dictionary(f, text, at, h);
    cj__free(c, text, (size_t)n + 1);
    return ok;
}

cj_tensor *cj__npy_read(cj_source *f, bool persistent)
{
    header h = { 0 };
    if (!read_header(f, &h)) return NULL;
    int64_t bytes;
    bool possible = cj__bytes_of_shape(h.dtype, &h.shape, &bytes);
    if (!possible || bytes != f->left) {
        char need[32] = "2^63 or more";
        if (possible) snprintf(need, sizeof need, "%lld", (long long)bytes);
        cj__source_error(f, f->size - f->left, "%s bytes of %s %s were expected, %lld were found", need, cj_dtype_name(h.dtype),
                         cj__shape_text(h.shape.ndim, h.shape.dim), (long long)f->left);
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
