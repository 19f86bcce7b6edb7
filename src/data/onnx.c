/* Reading the initialisers of an ONNX model (onnx.h; writing is in onnx_save.c).
 *
 * protobuf-c unpacks the file, in a region that goes as a whole, so that its memory counts against the cap and nothing stays after a failure.  It does not say where a file is
 * wrong, and makes a structure of 100 bytes out of a message of 2; so the fields are stepped over before, which finds the byte where a file breaks and what it will take.  A file
 * may take 32 MiB and 16 times its size, far more than a real one does.
 */
#include "data/onnx.h"

#if defined CJ_HAVE_PROTOBUF_C
#include <stdlib.h>

#include "data/bytes.h"

/* ---- stepping over the fields ------------------------------------------------------------------------------------------------------------------------------ */

enum { INITIALIZER = 5 }; /* the field of a graph */

typedef struct search {
    const cj_bytes *b;
    int left;      /* initialisers before the one that is looked for */
    size_t at;     /* where that one is */
    uint64_t cost; /* bytes of memory that the fields so far will take */
} search;

/* What protobuf-c keeps of a field while it reads, and of a message besides its structure. */
enum { FIELD_BYTES = 64, MESSAGE_BYTES = 16, TIMES = 16, SPARE = 32 << 20 };

/* A number in groups of 7 bits, the lowest first; at most `most` bytes of it. */
static bool varint(const search *s, size_t *at, size_t end, int most, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < most && *at < end; i++) {
        const unsigned char c = s->b->data[(*at)++];
        *value |= (uint64_t)(c & 0x7f) << (7 * i);
        if (!(c & 0x80)) return true;
    }
    return false;
}

static bool wrong(const search *s, size_t at, const char *what, uint64_t found)
{
    return cj__bytes_error(s->b, at, "%s was expected, %llu was found", what, (unsigned long long)found);
}

/* How a field stands in a file: 0 a number, 1 and 5 eight and four bytes, 2 a length and so many bytes. */
static int wire_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return 2;
    case PROTOBUF_C_TYPE_FLOAT: return 5;
    case PROTOBUF_C_TYPE_DOUBLE: return 1;
    default: return 0;
    }
}

/* Steps over the fields of a message; false where it breaks or takes too much (with an error that says where) or where the one that is looked for was found. */
static bool step(search *s, size_t at, size_t end, const ProtobufCMessageDescriptor *d)
{
    while (at < end) {
        const size_t field = at;
        uint64_t tag, n = 0;
        if (!varint(s, &at, end, 5, &tag) || tag >> 3 == 0 || tag >> 32) return wrong(s, field, "the number of a field", tag);
        const int wire = (int)(tag & 7);
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, (unsigned)(tag >> 3));
        if (wire == 3 || wire == 4 || wire > 5) return wrong(s, field, "wire type 0, 1, 2 or 5", (uint64_t)wire);
        if (f && wire != wire_of(f) && !(wire == 2 && f->label == PROTOBUF_C_LABEL_REPEATED))
            return cj__bytes_error(s->b, field, "field '%s' in wire type %d was expected, type %d was found", f->name, wire_of(f), wire);
        if (s->left >= 0 && d == &cj__onnx__graph__descriptor && f && f->id == INITIALIZER && s->left-- == 0) {
            s->at = field;
            return false;
        }
        const size_t value = at;
        if (wire == 0 || wire == 2) {
            if (!varint(s, &at, end, 10, &n)) return wrong(s, value, "a number of at most 10 bytes", end - value);
        } else {
            n = wire == 1 ? 8 : 4;
        }
        if (wire && n > end - at)
            return cj__bytes_error(s->b, value, "%llu bytes of a field were expected, %zu were found", (unsigned long long)n, end - at);
        const ProtobufCMessageDescriptor *message = f && f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
        s->cost += FIELD_BYTES + (message ? MESSAGE_BYTES + message->sizeof_message : 0);
        if (s->cost > SPARE + TIMES * (uint64_t)s->b->n)
            return cj__bytes_error(s->b, field, "the fields of a model of %zu bytes were expected, too many small ones were found",
                                   s->b->n);
        if (message && !step(s, at, at + (size_t)n, message)) return false;
        if (wire) at += (size_t)n;
    }
    return true;
}

static size_t place_of(const cj_bytes *b, int tensor)
{
    search s = { .b = b, .left = tensor };
    return step(&s, 0, b->n, &cj__onnx__model__descriptor) ? 0 : s.at;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------------------------------------ */

/* One initialiser that is being read. */
typedef struct entry {
    const cj_bytes *b;
    const Cj__Onnx__Tensor *t;
    int number;
    cj_dtype dtype;
    cj_shape shape;
    int64_t numel;
} entry;

#define refuse(e, ...) cj__bytes_error((e)->b, place_of((e)->b, (e)->number), __VA_ARGS__)

static bool read_type(entry *e)
{
    const Cj__Onnx__Tensor *t = e->t;
    if (!t->name || !*t->name || !cj__utf8(t->name, strlen(t->name)))
        return refuse(e, "a name of UTF-8 text was expected for tensor %d, %s was found", e->number,
                      t->name && *t->name ? "other bytes" : "none");
    if (t->data_location || t->n_external_data)
        return refuse(e, "elements in this file were expected of tensor '%.60s', the name of another file was found", t->name);
    e->dtype = CJ_DEFAULT_DTYPE;
    for (int i = 1; i < CJ_DTYPES; i++)
        if (cj__onnx_dtype((cj_dtype)i) == t->data_type) e->dtype = (cj_dtype)i;
    if (e->dtype == CJ_DEFAULT_DTYPE)
        return refuse(
            e, "FLOAT, DOUBLE, BFLOAT16, FLOAT16, INT64, INT32, UINT8 or BOOL was expected of tensor '%.60s', data type %d was found",
            t->name, t->data_type);
    if (t->n_dims > CJ_MAX_DIMS)
        return refuse(e, "at most %d dimensions were expected of tensor '%.60s', %zu were found", CJ_MAX_DIMS, t->name, t->n_dims);
    int64_t bytes;
    e->shape = (cj_shape){ .ndim = (int)t->n_dims };
    for (size_t d = 0; d < t->n_dims; d++) {
        e->shape.dim[d] = t->dims[d];
        if (t->dims[d] < 0)
            return refuse(e, "sizes from 0 on were expected of tensor '%.60s', %lld was found", t->name, (long long)t->dims[d]);
    }
    if (!cj__bytes_of_shape(e->dtype, &e->shape, &bytes) || bytes > (int64_t)CJ_MAX_FILE)
        return refuse(e, "a shape of at most 2 GiB was expected of tensor '%.60s', %s was found", t->name,
                      cj__shape_text(e->shape.ndim, e->shape.dim));
    e->numel = bytes / (int64_t)cj_dtype_size(e->dtype);
    return true;
}

/* The elements in memory as a source. */
typedef struct memory {
    cj_source source;
    const unsigned char *data;
} memory;

static bool read_memory(cj_source *s, void *out, size_t n)
{
    memory *m = (memory *)s;
    memcpy(out, m->data, n);
    m->data += n;
    return true;
}

static cj_tensor *tensor_of(const entry *e, const void *data)
{
    const int64_t bytes = e->numel * (int64_t)cj_dtype_size(e->dtype);
    memory m = { .source = { .ctx = e->b->ctx, .op = e->b->op, .path = e->b->path, .left = bytes, .size = bytes, .read = read_memory },
                 .data = data };
    return cj__source_tensor(&m.source, e->dtype, e->shape, false, true);
}

/* u8, bool and the bits of 16-bit floats stand in 32 bits each. */
static cj_tensor *narrowed(const entry *e)
{
    cj_ctx *c = e->b->ctx;
    const size_t size = cj_dtype_size(e->dtype), bytes = (size_t)e->numel * size;
    const int64_t most = size == 2 ? 0xffff : e->dtype == CJ_BOOL ? 1 : 0xff;
    unsigned char *out = cj__alloc(c, bytes);
    if (!out) return NULL;
    cj_tensor *t = NULL;
    int64_t i = 0;
    for (; i < e->numel; i++) {
        const int32_t v = e->t->int32_data[i];
        if (v < 0 || v > most) break;
        if (size == 2) cj__set16(out + 2 * i, (uint32_t)v);
        else out[i] = (unsigned char)v;
    }
    if (i < e->numel)
        refuse(e, "numbers from 0 to %lld were expected in tensor '%.60s', %d was found", (long long)most, e->t->name, e->t->int32_data[i]);
    else t = tensor_of(e, out);
    cj__free(c, out, bytes);
    return t;
}

/* Elements are raw bytes, or in the field of their type. */
static cj_tensor *read_elements(const entry *e)
{
    const Cj__Onnx__Tensor *t = e->t;
    const size_t size = cj_dtype_size(e->dtype);
    size_t found = t->raw_data.len, want = (size_t)e->numel * size;
    const void *data = t->raw_data.data;
    const bool raw = t->has_raw_data, wide = e->dtype == CJ_I32 || size < 4;
    if (!raw) {
        want = (size_t)e->numel;
        found = e->dtype == CJ_F32   ? t->n_float_data
                : e->dtype == CJ_F64 ? t->n_double_data
                : e->dtype == CJ_I64 ? t->n_int64_data
                                     : t->n_int32_data;
        data = e->dtype == CJ_F32   ? (const void *)t->float_data
               : e->dtype == CJ_F64 ? (const void *)t->double_data
               : e->dtype == CJ_I64 ? (const void *)t->int64_data
                                    : (const void *)t->int32_data;
    }
    if (found != want) {
        refuse(e, "%zu %s of %s %s were expected in tensor '%.60s', %zu were found", want, raw ? "bytes" : "elements",
               cj_dtype_name(e->dtype), cj__shape_text(e->shape.ndim, e->shape.dim), t->name, found);
        return NULL;
    }
    return !raw && wide && e->dtype != CJ_I32 ? narrowed(e) : tensor_of(e, data);
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool names_differ(const cj_bytes *b, cj_region *region, const cj_archive *a)
{
    const char **name = cj__region_alloc(b->ctx, region, (size_t)a->count * sizeof *name + 1);
    if (!name) return false;
    for (int i = 0; i < a->count; i++) name[i] = a->item[i].name;
    qsort(name, (size_t)a->count, sizeof *name, by_name);
    for (int i = 1; i < a->count; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            return cj__bytes_error(b, 0, "every name once was expected, '%.60s' was found twice", name[i]);
    return true;
}

static cj_archive *read_graph(const cj_bytes *b, cj_region *region, const Cj__Onnx__Graph *g)
{
    if (g->n_initializer > INT32_MAX) return NULL; /* a file of 2 GiB has no room for them */
    cj_archive *a = cj__archive_new(b->ctx, (int)g->n_initializer, 0);
    bool ok = a != NULL;
    for (size_t i = 0; i < g->n_initializer && ok; i++) {
        entry e = { .b = b, .t = g->initializer[i], .number = (int)i };
        cj_tensor *t = read_type(&e) ? read_elements(&e) : NULL;
        ok = t && cj__archive_add(a, e.t->name, strlen(e.t->name), t);
    }
    if (ok && names_differ(b, region, a)) return a;
    cj_archive_free(a);
    return NULL;
}

typedef struct pool {
    cj_ctx *ctx;
    cj_region region;
} pool;

static void *pool_alloc(void *user, size_t n) { return cj__region_alloc(((pool *)user)->ctx, &((pool *)user)->region, n ? n : 1); }
static void pool_free(void *user, void *p) { (void)user, (void)p; } /* goes with the region */

static cj_archive *read_model(const cj_bytes *b, pool *p)
{
    ProtobufCAllocator memory = { pool_alloc, pool_free, p };
    search s = { .b = b, .left = -1 };
    if (!step(&s, 0, b->n, &cj__onnx__model__descriptor)) return NULL;
    const Cj__Onnx__Model *model = cj__onnx__model__unpack(&memory, b->n, b->data);
    if (b->ctx->error) return NULL;
    if (!model || !model->graph) {
        cj__bytes_error(b, 0, "an ONNX model with a graph was expected, %s was found", b->n ? "one without" : "an empty file");
        return NULL;
    }
    if (!model->n_opset_import) { /* it comes last: a file that was cut has none */
        cj__bytes_error(b, b->n, "the version of the operators was expected, the end was found");
        return NULL;
    }
    return read_graph(b, &p->region, model->graph);
}

cj_archive *cj_onnx_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!c || !cj__bytes_load(&b, c, "cj_onnx_load", path)) return NULL;
    pool p = { .ctx = c };
    cj_archive *a = read_model(&b, &p);
    cj__region_free(c, &p.region);
    cj__bytes_free(&b);
    return a;
}

#else

#include "cajal/nn.h"

static bool missing(cj_ctx *c, const char *op)
{
    return c &&
           cj__error(c, CJ_EFILE,
                     "%s: this library was built without protobuf-c (Debian: libprotobuf-c-dev protobuf-c-compiler), which ONNX files need",
                     op);
}

cj_archive *cj_onnx_load(cj_ctx *c, const char *path)
{
    (void)path;
    missing(c, "cj_onnx_load");
    return NULL;
}

bool cj_onnx_save(cj_module *m, cj_tensor *x, const char *path, const cj_onnx_opts *opts)
{
    (void)x, (void)path, (void)opts;
    return m && missing(cj_module_ctx(m), "cj_onnx_save");
}

#endif
