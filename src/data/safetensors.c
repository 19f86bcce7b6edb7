/* The safetensors format (Hugging Face, 2022): 8 bytes with the length of the header, the header in JSON, then the elements of all tensors.
 *
 *     {"__metadata__": {"epoch": "3"}, "0.weight": {"dtype": "F32", "shape": [10, 64], "data_offsets": [0, 2560]}, …}
 *
 * The rules are those of the reference implementation: the header has at most 100 MB, the offsets cover the rest of the file without hole or overlap, each
 * tensor's bytes are what dtype and shape need.  Written tensors are laid out by falling element size, so that each is aligned; the header keeps the
 * caller's order.  cJSON's hooks are global, so its memory (bounded by the size of the header) does not come from the context's allocator.
 */
#include <stdio.h>
#include <stdlib.h>

#include "data/json.h"

#if defined CJ_HAVE_CJSON
#include <math.h>

#define MAX_HEADER 100000000
#define NODE_BYTES 64 /* of cJSON's memory per byte of a header at worst: "1,1,1,…" */

static const char *const names[CJ_DTYPES] = {
    [CJ_F32] = "F32", [CJ_F64] = "F64", [CJ_BF16] = "BF16", [CJ_F16] = "F16",
    [CJ_I64] = "I64", [CJ_I32] = "I32", [CJ_U8] = "U8",     [CJ_BOOL] = "BOOL",
};

/* ---- reading ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name;
    cj_dtype dtype;
    cj_shape shape;
    int64_t begin, end; /* bytes after the header */
    int order;          /* place in the header */
} entry;

/* The file and its header, which is byte 8 of it. */
typedef struct head {
    cj_reader *r;
    cj_json json;
} head;

/* "… in tensor 'name'": a tensor whose entry is wrong. */
#define refuse(h, name, ...) cj__place_error((h)->r->ctx, (h)->r->op, (h)->r->path, cj__json_place(&(h)->json, 0, name), __VA_ARGS__)

static bool whole_number(const cJSON *j, int64_t *out)
{
    double v = cJSON_IsNumber(j) ? j->valuedouble : -1;
    if (!(v >= 0 && v <= 0x1p53) || v != floor(v)) return false;
    *out = (int64_t)v;
    return true;
}

static bool read_entry(const head *h, const cJSON *j, entry *e)
{
    const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL, *field;
    e->name = j->string;
    if (!cJSON_IsObject(j)) return refuse(h, e->name, "an object was expected for tensor '%.60s', another value was found", e->name);
    cJSON_ArrayForEach(field, j)
    {
        const cJSON **slot = strcmp(field->string, "dtype") == 0          ? &dtype
                             : strcmp(field->string, "shape") == 0        ? &shape
                             : strcmp(field->string, "data_offsets") == 0 ? &offsets
                                                                          : NULL;
        if (!slot || *slot)
            return refuse(h, e->name, "dtype, shape and data_offsets of tensor '%.60s' were expected, each once, '%.20s' was found%s",
                          e->name, field->string, slot ? " twice" : "");
        *slot = field;
    }
    if (!dtype || !cJSON_IsString(dtype) || !cJSON_IsArray(shape) || !cJSON_IsArray(offsets))
        return refuse(h, e->name, "dtype, shape and data_offsets of tensor '%.60s' were expected, one was not found", e->name);

    e->dtype = CJ_DEFAULT_DTYPE;
    for (int i = 1; i < CJ_DTYPES; i++)
        if (strcmp(dtype->valuestring, names[i]) == 0) e->dtype = (cj_dtype)i;
    if (e->dtype == CJ_DEFAULT_DTYPE)
        return refuse(h, e->name, "a dtype of F32 F64 BF16 F16 I64 I32 U8 BOOL was expected for tensor '%.60s', %.20s was found", e->name,
                      dtype->valuestring);

    e->shape = CJ_SCALAR;
    cJSON_ArrayForEach(field, shape)
    {
        if (e->shape.ndim == CJ_MAX_DIMS)
            return refuse(h, e->name, "at most %d dimensions were expected of tensor '%.60s', more were found", CJ_MAX_DIMS, e->name);
        if (!whole_number(field, &e->shape.dim[e->shape.ndim++]))
            return refuse(h, e->name, "whole numbers were expected in the shape of tensor '%.60s', something else was found", e->name);
    }
    const cJSON *begin = offsets->child, *end = begin ? begin->next : NULL;
    if (!end || end->next || !whole_number(begin, &e->begin) || !whole_number(end, &e->end))
        return refuse(h, e->name, "data_offsets of two whole numbers were expected of tensor '%.60s', others were found", e->name);
    int64_t bytes;
    if (e->end < e->begin || !cj__bytes_of_shape(e->dtype, &e->shape, &bytes) || e->end - e->begin != bytes)
        return refuse(h, e->name, "data_offsets that %s %s fits were expected of tensor '%.60s', %lld to %lld were found",
                      cj_dtype_name(e->dtype), cj__shape_text(e->shape.ndim, e->shape.dim), e->name, (long long)e->begin,
                      (long long)e->end);
    return true;
}

static int by_name(const void *a, const void *b) { return strcmp(((const entry *)a)->name, ((const entry *)b)->name); }
static int by_order(const void *a, const void *b) { return ((const entry *)a)->order - ((const entry *)b)->order; }
static int by_begin(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1; /* empty ones first */
    return x->order - y->order;
}

/* Names differ; the bytes of all tensors are the rest of the file. Leaves the entries in the order of the header. */
static bool check_entries(const head *h, entry *e, int n, int64_t bytes)
{
    qsort(e, (size_t)n, sizeof *e, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(e[i - 1].name, e[i].name) == 0)
            return refuse(h, e[i].name, "every name once was expected, '%.60s' was found twice", e[i].name);
    qsort(e, (size_t)n, sizeof *e, by_begin);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (e[i].begin != at)
            return refuse(h, e[i].name, "bytes from %lld on were expected of tensor '%.60s', %s from %lld on were found", (long long)at,
                          e[i].name, e[i].begin < at ? "an overlap" : "a hole and bytes", (long long)e[i].begin);
        at = e[i].end;
    }
    if (at != bytes)
        return cj__place_error(h->r->ctx, h->r->op, h->r->path, h->r->size - bytes,
                               "%lld bytes of tensors were expected after the header, %lld were found", (long long)at, (long long)bytes);
    qsort(e, (size_t)n, sizeof *e, by_order);
    return true;
}

static bool read_metadata(const head *h, const cJSON *meta, cj_archive *a)
{
    const cJSON *j;
    cJSON_ArrayForEach(j, meta)
    {
        if (!cJSON_IsString(j)) return refuse(h, j->string, "a text was expected as metadata '%.60s', another value was found", j->string);
        if (cj_archive_meta(a, j->string))
            return refuse(h, j->string, "every metadata once was expected, '%.60s' was found twice", j->string);
        if (!cj__archive_add_pair(a, j->string, j->valuestring)) return false;
    }
    return true;
}

static bool read_tensors(const head *h, const cJSON *root, const cJSON *meta, int64_t start, entry *e, int n, cj_archive *a)
{
    int i = 0;
    const cJSON *j;
    cJSON_ArrayForEach(j, root)
    {
        if (j == meta) continue;
        e[i].order = i;
        if (!read_entry(h, j, &e[i++])) return false;
    }
    if (!check_entries(h, e, n, h->r->size - start)) return false;
    if (meta && !read_metadata(h, meta, a)) return false;
    for (i = 0; i < n; i++) {
        cj_source part = cj__source_part(h->r, start + e[i].begin, e[i].end - e[i].begin);
        cj_tensor *t = cj__source_tensor(&part, e[i].dtype, e[i].shape, false, true);
        if (!t || !cj__archive_add(a, e[i].name, strlen(e[i].name), t)) return false;
    }
    return true;
}

static cj_archive *read_root(const head *h, const cJSON *root, int64_t start)
{
    cj_ctx *c = h->r->ctx;
    const cJSON *meta = NULL, *j;
    int n = 0;
    cJSON_ArrayForEach(j, root)
    {
        if (strcmp(j->string, "__metadata__") != 0) {
            n++;
        } else if (meta || !cJSON_IsObject(j)) {
            refuse(h, "__metadata__", "one object was expected as __metadata__, another value was found");
            return NULL;
        } else {
            meta = j;
        }
    }
    size_t bytes = (size_t)n * sizeof(entry);
    entry *e = cj__alloc(c, bytes);
    cj_archive *a = e ? cj__archive_new(c, n, meta ? cJSON_GetArraySize(meta) : 0) : NULL;
    if (a && !read_tensors(h, root, meta, start, e, n, a)) {
        cj_archive_free(a);
        a = NULL;
    }
    cj__free(c, e, bytes);
    return a;
}

/* cJSON would end a text at an escaped zero. */
static bool has_escaped_zero(const char *s)
{
    for (; *s; s++) {
        if (*s != '\\') continue;
        if (!*++s) return false; /* a backslash at the very end */
        if (strncmp(s, "u0000", 5) == 0) return true;
    }
    return false;
}

static cj_archive *read_header(cj_reader *r, char *text, int64_t n)
{
    if (!cj__reader_at(r, 8, text, (size_t)n)) return NULL;
    text[n] = 0;
    if (!cj__utf8(text, (size_t)n) || has_escaped_zero(text)) {
        cj__place_error(r->ctx, r->op, r->path, 8, "a header of UTF-8 text without zeros was expected, other bytes were found");
        return NULL;
    }
    head h = { r, { r->ctx, r->op, r->path, 8, text } };
    cJSON *root = cj__json_object(&h.json, "a JSON object as header");
    cj_archive *a = root ? read_root(&h, root, 8 + n) : NULL;
    cJSON_Delete(root);
    return a;
}

static cj_archive *load(cj_reader *r)
{
    cj_ctx *c = r->ctx;
    unsigned char start[8];
    if (r->size < 8) {
        cj__place_error(c, r->op, r->path, 0, "8 bytes of a safetensors file or more were expected, %lld were found", (long long)r->size);
        return NULL;
    }
    if (!cj__reader_at(r, 0, start, 8)) return NULL;
    uint64_t n = cj__get64(start);
    if (n > MAX_HEADER || n > (uint64_t)r->size - 8) {
        bool far = r->size - 8 > MAX_HEADER;
        cj__place_error(c, r->op, r->path, 0, "a header of at most %lld bytes%s was expected, one of %llu was found",
                        far ? (long long)MAX_HEADER : (long long)r->size - 8, far ? " (100 MB)" : "", (unsigned long long)n);
        return NULL;
    }
    if (c->memory_cap && n > (c->memory_cap - (c->memory.held < c->memory_cap ? c->memory.held : c->memory_cap)) / NODE_BYTES) {
        cj__error(c, CJ_EMEMORY, "%s: %s: a header of %llu bytes may need more memory than the cap leaves", r->op, r->path,
                  (unsigned long long)n);
        return NULL;
    }
    char *text = cj__alloc(c, (size_t)n + 1);
    if (!text) return NULL;
    cj_archive *a = read_header(r, text, (int64_t)n);
    cj__free(c, text, (size_t)n + 1);
    return a;
}

cj_archive *cj_safetensors_load(cj_ctx *c, const char *path)
{
    cj_reader r;
    if (!c || !cj__reader_open(&r, c, "cj_safetensors_load", path)) return NULL;
    cj_archive *a = load(&r);
    cj__reader_close(&r);
    return a;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const cj_tensor *t) { return t->numel * (int64_t)cj_dtype_size((cj_dtype)t->dtype); }

static bool add_entry(cJSON *root, const cj_named *item, int64_t begin)
{
    const cj_tensor *t = item->tensor;
    cJSON *j = cJSON_AddObjectToObject(root, item->name);
    if (!j || !cJSON_AddStringToObject(j, "dtype", names[t->dtype])) return false;
    cJSON *shape = cJSON_AddArrayToObject(j, "shape");
    for (int d = 0; d < t->ndim; d++)
        if (!cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->shape[d]))) return false;
    cJSON *offsets = cJSON_AddArrayToObject(j, "data_offsets");
    return cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) &&
           cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(begin + bytes_of(t))));
}

/* The bytes of all tensors of one element size after the other, 8 bytes first. */
static char *header_text(const cj_named *item, int n, const cj_text_pair *pair, int pairs, const int64_t *begin)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL;
    if (pairs) {
        cJSON *meta = cJSON_AddObjectToObject(root, "__metadata__");
        for (int i = 0; i < pairs && ok; i++) ok = cJSON_AddStringToObject(meta, pair[i].key, pair[i].value) != NULL;
    }
    for (int i = 0; i < n && ok; i++) ok = add_entry(root, &item[i], begin[i]);
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

static bool check_pairs(cj_ctx *c, const char *op, const cj_text_pair *pair, int n)
{
    if (n < 0 || (n && !pair)) return cj__error(c, CJ_EVALUE, "%s: %d metadata at %p", op, n, (const void *)pair);
    for (int i = 0; i < n; i++) {
        const char *k = pair[i].key, *v = pair[i].value;
        if (!k || !v || !cj__utf8(k, strlen(k)) || !cj__utf8(v, strlen(v)))
            return cj__error(c, CJ_EVALUE, "%s: metadata %d is NULL or not UTF-8", op, i);
        for (int j = 0; j < i; j++)
            if (strcmp(pair[j].key, k) == 0) return cj__error(c, CJ_EVALUE, "%s: metadata '%.60s' is given twice", op, k);
    }
    return true;
}

static bool write_file(cj_writer *w, const cj_named *item, int n, const char *text)
{
    unsigned char start[8];
    size_t length = strlen(text), padded = (length + 7) & ~(size_t)7;
    if (padded > MAX_HEADER) return cj__file_error(w->ctx, w->op, w->path, "the header would have more than 100 MB");
    cj__set64(start, padded);
    if (!cj__writer_put(w, start, 8) || !cj__writer_put(w, text, length) || !cj__writer_put(w, "        ", padded - length)) return false;
    for (size_t size = 8; size; size /= 2)
        for (int i = 0; i < n; i++)
            if (cj_dtype_size((cj_dtype)item[i].tensor->dtype) == size && !cj__writer_tensor(w, item[i].tensor)) return false;
    return true;
}

bool cj_safetensors_save(cj_ctx *c, const char *path, const cj_named *item, int n, const cj_text_pair *pair, int pairs)
{
    const char *op = "cj_safetensors_save";
    if (!c || !cj__cancel_check(c) || !cj__named_check(c, op, item, n) || !check_pairs(c, op, pair, pairs)) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(item[i].name, "__metadata__") == 0)
            return cj__error(c, CJ_EVALUE, "%s: __metadata__ cannot be the name of a tensor", op);
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *begin = cj__alloc(c, bytes), at = 0;
    if (!begin) return false;
    for (size_t size = 8; size; size /= 2)
        for (int i = 0; i < n; i++)
            if (cj_dtype_size((cj_dtype)item[i].tensor->dtype) == size) {
                begin[i] = at;
                at += bytes_of(item[i].tensor);
            }
    char *text = header_text(item, n, pair, pairs, begin);
    cj__free(c, begin, bytes);
    if (!text) return cj__error(c, CJ_EMEMORY, "%s: no memory for the header", op);
    cj_writer w;
    bool ok = cj__writer_open(&w, c, op, path) && cj__writer_close(&w, write_file(&w, item, n, text));
    cJSON_free(text);
    return ok;
}

#else

static bool missing(cj_ctx *c, const char *op)
{
    return c && cj__error(c, CJ_EFILE, "%s: this library was built without cJSON (Debian: libcjson-dev), which safetensors files need", op);
}

cj_archive *cj_safetensors_load(cj_ctx *c, const char *path)
{
    (void)path;
    missing(c, "cj_safetensors_load");
    return NULL;
}

bool cj_safetensors_save(cj_ctx *c, const char *path, const cj_named *item, int n, const cj_text_pair *pair, int pairs)
{
    (void)path, (void)item, (void)n, (void)pair, (void)pairs;
    return missing(c, "cj_safetensors_save");
}

#endif
