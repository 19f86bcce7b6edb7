/* MATLAB's format 5: a header of 128 bytes, then elements of a tag (type, bytes) and data in multiples of 8 bytes.  A matrix element holds sub-elements:
 * flags, dimensions, name, real part.  Elements may be zlib streams of one element.  ("MAT-File Format", The MathWorks.)
 */
#include "data/bytes.h"

enum { INT8 = 1, UINT8, INT16, UINT16, INT32, UINT32, SINGLE, DOUBLE = 9, INT64 = 12, UINT64, MATRIX, COMPRESSED, UTF8, UTF16 };
enum { CLASS_CHAR = 4, CLASS_DOUBLE = 6, CLASS_UINT64 = 15 };

static size_t size_of(uint32_t type)
{
    static const size_t sizes[] = { 0, 1, 1, 2, 2, 4, 4, 4, 0, 8, 0, 0, 8, 8, 0, 0, 1, 2 };
    return type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

/* The classes of arrays that become tensors, CLASS_DOUBLE … CLASS_UINT64: double single int8 uint8 int16 uint16 int32 uint32 int64 uint64 */
static const cj_dtype class_dtypes[] = { CJ_F64, CJ_F32, CJ_I32, CJ_U8, CJ_I32, CJ_I32, CJ_I32, CJ_I64, CJ_I64, CJ_I64 };

typedef struct element {
    uint32_t type;
    size_t at, n; /* its data */
} element;

/* The element at *at before `end`; moves *at behind it and its padding. */
static bool next_element(const cj_bytes *b, size_t *at, size_t end, element *e)
{
    if (end - *at < 8) return cj__bytes_error(b, *at, "an element's tag of 8 bytes was expected, %zu bytes were found", end - *at);
    const unsigned char *p = b->data + *at;
    uint32_t type = cj__get32(p);
    if (type >> 16) { /* small: type and size in the first four bytes, the data in the next four */
        *e = (element){ type & 0xffff, *at + 4, type >> 16 };
        if (e->n > 4) return cj__bytes_error(b, *at, "a small element of at most 4 bytes was expected, %zu were found", e->n);
        *at += 8;
        return true;
    }
    *e = (element){ type, *at + 8, cj__get32(p + 4) };
    if (e->n > end - e->at) return cj__bytes_error(b, *at, "%zu bytes of an element were expected, %zu were found", e->n, end - e->at);
    size_t padded = type == COMPRESSED ? e->n : (e->n + 7) / 8 * 8;
    *at = padded > end - e->at ? end : e->at + padded;
    return true;
}

static double number(const unsigned char *p, uint32_t type)
{
    uint64_t u;
    double d;
    float f;
    uint32_t w;
    switch (type) {
    case INT8: return (int8_t)p[0];
    case UINT8:
    case UTF8: return p[0];
    case INT16: return (int16_t)cj__get16(p);
    case UINT16:
    case UTF16: return cj__get16(p);
    case INT32: return (int32_t)cj__get32(p);
    case UINT32: return cj__get32(p);
    case SINGLE: return w = cj__get32(p), memcpy(&f, &w, 4), f;
    case DOUBLE: return u = cj__get64(p), memcpy(&d, &u, 8), d;
    case INT64: return (double)(int64_t)cj__get64(p);
    default: return (double)cj__get64(p);
    }
}

/* One element converted, the way the class says; integers of 64 bits keep every bit. */
static void store(cj_dtype dtype, void *out, int64_t i, const unsigned char *p, uint32_t type)
{
    if (dtype == CJ_I64) ((int64_t *)out)[i] = type == INT64 || type == UINT64 ? (int64_t)cj__get64(p) : (int64_t)number(p, type);
    else cj__store(dtype, (char *)out + (size_t)i * cj_dtype_size(dtype), number(p, type));
}

typedef struct matrix {
    int class;
    bool logical, complex;
    cj_shape shape;
    size_t n;
    const char *name;
    size_t name_length;
} matrix;

static cj_tensor *matrix_tensor(const cj_bytes *b, const matrix *m, const element *e)
{
    cj_ctx *c = b->ctx;
    cj_dtype dtype = m->logical ? CJ_BOOL : class_dtypes[m->class - CLASS_DOUBLE];
    size_t size = size_of(e->type), bytes = m->n * cj_dtype_size(dtype);
    void *out = cj__alloc(c, bytes ? bytes : 1);
    if (!out) return NULL;
    int64_t stride[CJ_MAX_DIMS] = { 0 }, index[CJ_MAX_DIMS] = { 0 }, from = 0, s = 1;
    for (int d = 0; d < m->shape.ndim; s *= m->shape.dim[d++]) stride[d] = s; /* column-major in the file */
    for (size_t i = 0; i < m->n; i++) {
        store(dtype, out, (int64_t)i, b->data + e->at + (size_t)from * size, e->type);
        for (int d = m->shape.ndim - 1; d >= 0; d--) {
            from += stride[d];
            if (++index[d] < m->shape.dim[d]) break;
            from -= stride[d] * m->shape.dim[d];
            index[d] = 0;
        }
    }
    cj_tensor *t = cj_from_data(c, out, dtype, m->shape);
    cj__free(c, out, bytes ? bytes : 1);
    if (cj_is_poison(t)) return NULL;
    cj__make_persistent(t);
    return t;
}

/* A row of characters as metadata; what is not ASCII becomes '?'. */
static bool add_text(const cj_bytes *b, const matrix *m, const element *e, cj_archive *a)
{
    cj_ctx *c = b->ctx;
    size_t size = size_of(e->type), room = m->name_length + m->n + 2;
    char *key = cj__zalloc(c, room), *value = key ? key + m->name_length + 1 : NULL;
    if (!key) return false;
    memcpy(key, m->name, m->name_length);
    for (size_t i = 0; i < m->n; i++) {
        double v = number(b->data + e->at + i * size, e->type);
        value[i] = v >= 1 && v < 128 ? (char)v : '?';
    }
    bool ok = cj__archive_add_pair(a, key, value);
    cj__free(c, key, room);
    return ok;
}

static bool read_matrix(const cj_bytes *b, size_t at, size_t end, cj_archive *a)
{
    element flags, dims, name, real;
    size_t start = at;
    if (at == end) return true; /* an empty matrix has no sub-elements */
    if (!next_element(b, &at, end, &flags) || !next_element(b, &at, end, &dims) || !next_element(b, &at, end, &name)) return false;
    if (flags.type != UINT32 || flags.n != 8 || dims.type != INT32 || dims.n % 4 || name.type != INT8)
        return cj__bytes_error(b, start, "flags, dimensions and a name were expected, elements of types %u, %u, %u were found", flags.type,
                               dims.type, name.type);
    const unsigned char *f = b->data + flags.at;
    matrix m = {
        .class = f[0], .logical = f[1] & 2, .complex = f[1] & 8, .n = 1, .name = (const char *)b->data + name.at, .name_length = name.n
    };
    bool text = m.class == CLASS_CHAR;
    if ((!text && (m.class < CLASS_DOUBLE || m.class > CLASS_UINT64)) || m.complex)
        return true; /* cells, structures, sparse: passed over */
    m.shape.ndim = (int)(dims.n / 4);
    if (dims.n / 4 < 2 || dims.n / 4 > CJ_MAX_DIMS)
        return cj__bytes_error(b, dims.at, "2 to %d dimensions were expected, %zu were found", CJ_MAX_DIMS, dims.n / 4);
    for (int d = 0; d < m.shape.ndim; d++) {
        int32_t size = (int32_t)cj__get32(b->data + dims.at + 4 * (size_t)d);
        if (size < 0 || (size && m.n > CJ_MAX_FILE / (size_t)size))
            return cj__bytes_error(b, dims.at + 4 * (size_t)d, "a size was expected, %d was found", size);
        m.shape.dim[d] = size;
        m.n *= (size_t)size;
    }
    if (!next_element(b, &at, end, &real)) return false;
    size_t size = size_of(real.type);
    if (!size || real.n != m.n * size)
        return cj__bytes_error(b, real.at, "%zu numbers were expected, %zu bytes of type %u were found", m.n, real.n, real.type);
    if (!cj__utf8(m.name, m.name_length)) return cj__bytes_error(b, name.at, "a name in UTF-8 was expected");
    if (text) return m.shape.dim[0] != 1 || add_text(b, &m, &real, a);
    cj_tensor *t = matrix_tensor(b, &m, &real);
    return t && cj__archive_add(a, m.name, m.name_length, t);
}

static bool read_all(const cj_bytes *b, cj_archive *a)
{
    element e;
    for (size_t at = 128; at < b->n;) {
        if (!next_element(b, &at, b->n, &e)) return false;
        if (e.type == MATRIX && !read_matrix(b, e.at, e.at + e.n, a)) return false;
        if (e.type != COMPRESSED) continue;
        cj_bytes plain;
        if (!cj__unpack(b, e.at, e.n, CJ_PACKED_ZLIB, CJ_MAX_FILE, &plain)) return false;
        size_t inner = 0;
        element m;
        bool ok = next_element(&plain, &inner, plain.n, &m) && (m.type != MATRIX || read_matrix(&plain, m.at, m.at + m.n, a));
        cj__bytes_free(&plain);
        if (!ok) return false;
    }
    return true;
}

static cj_archive *mat_read(const cj_bytes *b)
{
    const unsigned char *p = cj__bytes_at(b, 0, 128, "a MATLAB header");
    if (!p) return NULL;
    if (cj__get16(p + 124) == 0x0200 && memcmp(p, "MATLAB 7.3", 10) == 0)
        return cj__bytes_error(b, 0, "MATLAB's format 5 was expected, 7.3 (HDF5) was found; save it with -v7"), NULL;
    if (p[126] != 'I' || p[127] != 'M' || cj__get16(p + 124) != 0x0100)
        return cj__bytes_error(b, 124, "version 1 and IM (little-endian) were expected, %02x%02x %02x%02x was found: not a MATLAB 5 file",
                               p[125], p[124], p[126], p[127]),
               NULL;
    element e;
    int n = 0;
    for (size_t at = 128; at < b->n; n++) /* an element each gives one item or one text at most */
        if (!next_element(b, &at, b->n, &e)) return NULL;
    cj_archive *a = cj__archive_new(b->ctx, n ? n : 1, n ? n : 1);
    if (a && read_all(b, a)) return a;
    cj_archive_free(a);
    return NULL;
}

cj_archive *cj_mat_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_mat_load", path)) return NULL;
    cj_archive *a = mat_read(&b);
    cj__bytes_free(&b);
    return a;
}
