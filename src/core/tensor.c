/* Tensor headers: making, viewing, keeping, releasing; reading values out; creation from the caller's memory. */
#include <math.h>

#include "core/core.h"

/* ---- headers ----------------------------------------------------------------------------------------------------------------------- */

#define SLAB 32

static bool slab_add(cj_ctx *c)
{
    char *slab = cj__alloc(c, 64 + SLAB * sizeof(cj_tensor));
    if (!slab) return false;
    memset(slab, 0, 64 + SLAB * sizeof(cj_tensor)); /* marks of passes and closing places must not be found in old data */
    *(void **)slab = c->slabs;
    c->slabs = slab;
    cj_tensor *t = (cj_tensor *)(slab + 64);
    for (int i = SLAB - 1; i >= 0; i--) {
        t[i].next = c->free_headers;
        c->free_headers = &t[i];
    }
    return true;
}

static cj_tensor *header_raw(cj_ctx *c)
{
    if (!c->free_headers && !slab_add(c)) return NULL;
    cj_tensor *t = c->free_headers;
    c->free_headers = t->next;
    t->ctx = c;
    t->st = NULL;
    t->data = NULL;
    t->numel = 0;
    t->refs = t->data_refs = 1;
    t->flags = 0;
    t->ndim = 0;
    t->out_index = 0;
    t->node = NULL;
    t->grad = NULL;
    t->tangent = NULL;
    t->prev = NULL;
    c->memory.tensors++;
    return t;
}

cj_tensor *cj__header(cj_ctx *c)
{
    cj_tensor *t = header_raw(c);
    if (!t) return NULL;
    cj_scope_frame *f = &c->scope[c->depth - 1];
    t->depth = c->depth - 1;
    t->next = f->head;
    f->head = t;
    return t;
}

void cj__tensor_retain(cj_tensor *t, bool data)
{
    t->refs++;
    if (data) t->data_refs++;
}

static void free_tangents(cj_tensor *t)
{
    for (cj_tangent *d = t->tangent, *next; d; d = next) {
        next = d->next;
        cj__tensor_release(d->value, true);
        cj__free(t->ctx, d, sizeof *d);
    }
    t->tangent = NULL;
}

void cj__tensor_release(cj_tensor *t, bool data)
{
    if (data && --t->data_refs == 0 && t->st) {
        cj__storage_release(t->ctx, t->st);
        t->st = NULL;
        t->data = NULL;
    }
    if (--t->refs > 0) return;
    cj_ctx *c = t->ctx;
    if (t->tangent) free_tangents(t);
    t->flags |= CJ_T_CLOSED;
    t->node = NULL;
    c->memory.tensors--;
    if (c->debug) return; /* stays marked as closed until the context goes */
    t->next = c->free_headers;
    c->free_headers = t;
}

int64_t cj__numel(cj_ctx *c, const char *op, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > CJ_MAX_DIMS) {
        cj__error(c, CJ_ESHAPE, "%s: %d dimensions, at most %d are possible", op, ndim, CJ_MAX_DIMS);
        return -1;
    }
    int64_t n = 1;
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            cj__error(c, CJ_ESHAPE, "%s: negative size in %s", op, cj__shape_text(ndim, shape));
            return -1;
        }
        zero |= shape[i] == 0;
        if (shape[i] && (__builtin_mul_overflow(n, shape[i], &n) || n > INT64_MAX / 64)) {
            cj__error(c, CJ_ESHAPE, "%s: the number of elements of %s overflows", op, cj__shape_text(ndim, shape));
            return -1;
        }
    }
    return zero ? 0 : n;
}

static inline void set_contiguous(cj_tensor *t, int ndim, const int64_t *shape)
{
    int64_t s = 1;
    t->ndim = (uint8_t)ndim;
    for (int i = ndim - 1; i >= 0; i--) {
        t->shape[i] = shape[i];
        t->stride[i] = s;
        s *= shape[i] > 1 ? shape[i] : 1;
    }
    t->flags |= CJ_T_CONTIGUOUS;
}

static bool attach(cj_ctx *c, cj_tensor *t, cj_dtype dtype, int ndim, const int64_t *shape, int64_t numel, bool device, bool dry)
{
    t->dtype = (uint8_t)dtype;
    t->numel = numel;
    set_contiguous(t, ndim, shape);
    size_t bytes = (size_t)numel * cj_dtype_size(dtype);
    t->st = dry ? cj__storage_dry(c, bytes) : cj__storage_new(c, bytes, device);
    if (!t->st) return false;
    t->data = t->st->data;
    return true;
}

cj_tensor *cj__tensor_new(cj_ctx *c, cj_dtype dtype, int ndim, const int64_t *shape, bool device)
{
    int64_t n = cj__numel(c, "tensor", ndim, shape);
    if (n < 0) return NULL;
    cj_tensor *t = cj__header(c);
    if (!t || !attach(c, t, dtype, ndim, shape, n, device, c->dry)) return NULL;
    return t;
}

cj_tensor *cj__tensor_like(const cj_tensor *a)
{
    cj_ctx *c = a->ctx;
    cj_storage *st = cj__storage_new(c, (size_t)a->numel * cj_dtype_size((cj_dtype)a->dtype), false);
    if (!st) return NULL;
    cj_tensor *t = cj__header(c);
    if (!t) {
        cj__storage_release(c, st);
        return NULL;
    }
    t->st = st;
    t->data = st->data;
    t->numel = a->numel;
    t->dtype = a->dtype;
    t->ndim = a->ndim;
    t->flags = CJ_T_CONTIGUOUS;
    for (int d = 0; d < a->ndim; d++) {
        t->shape[d] = a->shape[d];
        t->stride[d] = a->stride[d];
    }
    return t;
}

static void persistent_link(cj_ctx *c, cj_tensor *t)
{
    t->flags |= CJ_T_PERSISTENT;
    t->depth = -1;
    t->prev = NULL;
    t->next = c->persistent;
    if (t->next) t->next->prev = t;
    c->persistent = t;
    if (t->st) t->st->persistent = 1;
}

cj_tensor *cj__tensor_persistent(cj_ctx *c, cj_dtype dtype, int ndim, const int64_t *shape, bool device)
{
    int64_t n = cj__numel(c, "tensor", ndim, shape);
    if (n < 0) return NULL;
    cj_tensor *t = header_raw(c);
    if (!t) return NULL;
    if (!attach(c, t, dtype, ndim, shape, n, device, false)) {
        cj__tensor_release(t, true);
        return NULL;
    }
    persistent_link(c, t);
    return t;
}

bool cj__update_contiguous(cj_tensor *t)
{
    int64_t s = 1;
    bool yes = true;
    for (int i = t->ndim - 1; i >= 0 && yes; i--) {
        if (t->shape[i] != 1) yes = t->stride[i] == s;
        s *= t->shape[i];
    }
    if (t->numel == 0) yes = true;
    t->flags = (uint8_t)(yes ? t->flags | CJ_T_CONTIGUOUS : t->flags & ~CJ_T_CONTIGUOUS);
    return yes;
}

bool cj__channels_last(const cj_tensor *t)
{
    if (t->ndim < 3) return false;
    int64_t s = t->shape[1];
    for (int d = t->ndim - 1; d >= 2; d--) {
        if (t->shape[d] != 1 && t->stride[d] != s) return false;
        s *= t->shape[d];
    }
    return (t->shape[0] == 1 || t->stride[0] == s) && (t->shape[1] == 1 || t->stride[1] == 1);
}

void cj__to_channels_last(cj_tensor *t)
{
    int64_t s = t->shape[1];
    t->stride[1] = 1;
    for (int d = t->ndim - 1; d >= 2; d--) {
        t->stride[d] = s;
        s *= t->shape[d];
    }
    t->stride[0] = s;
    cj__update_contiguous(t);
}

static void view_fill(cj_tensor *v, const cj_tensor *t, int64_t offset, int ndim, const int64_t *shape, const int64_t *stride)
{
    v->st = t->st;
    v->st->refs++;
    v->dtype = t->dtype;
    v->data = t->data + offset * (int64_t)cj_dtype_size((cj_dtype)t->dtype);
    v->ndim = (uint8_t)ndim;
    v->numel = 1;
    for (int i = 0; i < ndim; i++) {
        v->shape[i] = shape[i];
        v->stride[i] = stride[i];
        v->numel *= shape[i];
    }
    cj__update_contiguous(v);
}

cj_tensor *cj__tensor_view(cj_tensor *t, int64_t offset, int ndim, const int64_t *shape, const int64_t *stride)
{
    cj_tensor *v = cj__header(t->ctx);
    if (v) view_fill(v, t, offset, ndim, shape, stride);
    return v;
}

void cj__unusable(cj_ctx *c, const char *op, int i, const cj_tensor *t)
{
    if (!t) {
        cj__error(c, CJ_EVALUE, "%s: argument %d is NULL", op, i + 1);
    } else if (t->ctx != c) {
        cj__error(c, CJ_ECONTEXT, "%s: argument %d belongs to another context", op, i + 1);
    } else if (t->flags & CJ_T_POISON) {
        cj__error(c, CJ_ESTALE, "%s: argument %d is the result of an earlier error that was cleared", op, i + 1);
    } else if (t->flags & CJ_T_CLOSED && t->closed_file && c->debug) {
        const char *slash = strrchr(t->closed_file, '/');
        cj__error(c, CJ_ESTALE, "%s: argument %d is used after its scope was closed at %s:%d", op, i + 1,
                  slash ? slash + 1 : t->closed_file, t->closed_line);
    } else {
        cj__error(c, CJ_ESTALE, "%s: argument %d %s", op, i + 1,
                  t->flags & CJ_T_CLOSED ? "is used after its scope was closed" : "has no data any more");
    }
}

cj_tensor *cj_keep(cj_tensor *t)
{
    if (!t) return NULL;
    cj_ctx *c = t->ctx;
    if (c->error || !cj__usable(c, "cj_keep", 0, t)) return c->poison;
    if (c->trace) {
        cj__error(c, CJ_ECAPTURE, "cj_keep: a captured step hands values out through its outputs or by writes to persistent tensors");
        return c->poison;
    }
    cj_tensor *k = header_raw(c);
    if (!k) return c->poison;
    view_fill(k, t, 0, t->ndim, t->shape, t->stride);
    persistent_link(c, k);
    if (cj__requires(t)) k->flags |= CJ_T_CUT;
    return k;
}

void cj_release(cj_tensor *t)
{
    if (!t || t->flags & CJ_T_POISON || !(t->flags & CJ_T_PERSISTENT) || t->flags & CJ_T_CLOSED) return;
    cj_ctx *c = t->ctx;
    if (t->next) t->next->prev = t->prev;
    if (t->prev) t->prev->next = t->next;
    else c->persistent = t->next;
    cj_tensor *grad = t->grad;
    t->grad = NULL;
    t->flags &= (uint8_t)~CJ_T_PERSISTENT;
    if (c->debug) {
        t->flags |= CJ_T_CLOSED;
        cj__position(&t->closed_file, &t->closed_line);
    }
    cj__tensor_release(t, true);
    if (grad) cj_release(grad);
}

void cj__make_persistent(cj_tensor *t)
{
    if (t->flags & CJ_T_PERSISTENT) return;
    cj_scope_frame *f = &t->ctx->scope[t->depth];
    cj_tensor **link = &f->head;
    while (*link && *link != t) link = &(*link)->next;
    if (*link) *link = t->next;
    persistent_link(t->ctx, t);
}

/* ---- looking ----------------------------------------------------------------------------------------------------------------------- */

static bool shown(const cj_tensor *t) { return t && !(t->flags & (CJ_T_POISON | CJ_T_CLOSED)); }

cj_ctx *cj_tensor_ctx(const cj_tensor *t) { return t ? t->ctx : NULL; }
bool cj_is_poison(const cj_tensor *t) { return !t || t->flags & CJ_T_POISON; }
int cj_ndim(const cj_tensor *t) { return shown(t) ? t->ndim : 0; }
int64_t cj_numel(const cj_tensor *t) { return shown(t) ? t->numel : 0; }
cj_dtype cj_dtype_of(const cj_tensor *t) { return shown(t) ? (cj_dtype)t->dtype : CJ_DEFAULT_DTYPE; }
bool cj_is_contiguous(const cj_tensor *t) { return shown(t) && cj__contiguous(t); }
bool cj_on_device(const cj_tensor *t) { return shown(t) && t->st && t->st->device; }
bool cj_requires_grad(const cj_tensor *t) { return shown(t) && cj__requires(t); }
const void *cj_data(const cj_tensor *t) { return shown(t) && t->st && !t->st->device && !t->st->dry ? t->data : NULL; }

int64_t cj_size(const cj_tensor *t, int axis)
{
    if (!shown(t)) return 0;
    if (axis < 0) axis += t->ndim;
    return axis >= 0 && axis < t->ndim ? t->shape[axis] : 0;
}

int64_t cj_stride(const cj_tensor *t, int axis)
{
    if (!shown(t)) return 0;
    if (axis < 0) axis += t->ndim;
    return axis >= 0 && axis < t->ndim ? t->stride[axis] : 0;
}

cj_shape cj_shape_of(const cj_tensor *t)
{
    cj_shape s = { 0, { 0 } };
    if (!shown(t)) return s;
    s.ndim = t->ndim;
    memcpy(s.dim, t->shape, t->ndim * sizeof s.dim[0]);
    return s;
}

int cj__axis(cj_ctx *c, const char *op, int axis, int ndim)
{
    int a = axis < 0 ? axis + ndim : axis;
    if (a >= 0 && a < ndim) return a;
    cj__error(c, CJ_EINDEX, "%s: axis %d is out of range for %d dimensions", op, axis, ndim);
    return -1;
}

bool cj__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out)
{
    *n = na > nb ? na : nb;
    for (int i = 1; i <= *n; i++) {
        int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        out[*n - i] = x == 1 ? y : x;
    }
    return true;
}

/* ---- values out ---------------------------------------------------------------------------------------------------------------------- */

/* Reading a value on the host: checks, and for device tensors a copy of the whole storage region into scratch. */
static bool readable(cj_tensor *t, const char *op)
{
    cj_ctx *c = t->ctx;
    if (c->error || !cj__usable(c, op, 0, t)) return false;
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "%s: reads a value inside a captured step; return it as an output instead", op);
    return true;
}

typedef void (*visit_fn)(void *out, int64_t i, const cj_tensor *t, int64_t offset);

static void visit(const cj_tensor *t, visit_fn fn, void *out)
{
    int64_t index[CJ_MAX_DIMS] = { 0 }, offset = 0;
    for (int64_t i = 0; i < t->numel; i++) {
        fn(out, i, t, offset);
        for (int d = t->ndim - 1; d >= 0; d--) {
            offset += t->stride[d];
            if (++index[d] < t->shape[d]) break;
            offset -= t->stride[d] * t->shape[d];
            index[d] = 0;
        }
    }
}

static void put_f32(void *out, int64_t i, const cj_tensor *t, int64_t o) { ((float *)out)[i] = (float)cj__load(t, o); }
static void put_f64(void *out, int64_t i, const cj_tensor *t, int64_t o) { ((double *)out)[i] = cj__load(t, o); }
static void put_i64(void *out, int64_t i, const cj_tensor *t, int64_t o) { ((int64_t *)out)[i] = cj__load_i64(t, o); }

/* Host copy of a device tensor's elements, as a header with the same strides on borrowed memory. */
static bool with_host(cj_tensor *t, visit_fn fn, void *out)
{
    if (!t->st->device) {
        visit(t, fn, out);
        return true;
    }
    cj_ctx *c = t->ctx;
    void *host = cj__alloc(c, t->st->bytes ? t->st->bytes : 1);
    if (!host) return false;
    bool ok = c->backend->to_host(c->device_state, host, t->st->data, t->st->bytes);
    c->memory.host_copies++;
    if (ok) {
        cj_tensor h = *t;
        h.data = (char *)host + (t->data - (char *)t->st->data);
        visit(&h, fn, out);
    } else {
        cj__backend_error(c, "copy to host");
    }
    cj__free(c, host, t->st->bytes ? t->st->bytes : 1);
    return ok;
}

static bool values_out(cj_tensor *t, const char *op, int64_t n, visit_fn fn, void *out)
{
    if (!t || !readable(t, op)) return false;
    if (!out && n) return cj__error(t->ctx, CJ_EVALUE, "%s: the caller's memory is NULL", op);
    if (n != t->numel)
        return cj__error(t->ctx, CJ_ESHAPE, "%s: room for %lld elements given, the tensor %s has %lld", op, (long long)n,
                         cj__tensor_text(t), (long long)t->numel);
    return with_host(t, fn, out);
}

bool cj_to_f32(cj_tensor *t, float *out, int64_t n) { return values_out(t, "cj_to_f32", n, put_f32, out); }
bool cj_to_f64(cj_tensor *t, double *out, int64_t n) { return values_out(t, "cj_to_f64", n, put_f64, out); }
bool cj_to_i64(cj_tensor *t, int64_t *out, int64_t n) { return values_out(t, "cj_to_i64", n, put_i64, out); }

double cj_item(cj_tensor *t)
{
    if (!t || !readable(t, "cj_item")) return NAN;
    if (t->numel != 1) {
        cj__error(t->ctx, CJ_ESHAPE, "cj_item: the tensor %s has %lld elements, not 1", cj__tensor_text(t), (long long)t->numel);
        return NAN;
    }
    double v = NAN;
    with_host(t, put_f64, &v);
    return v;
}

double cj_at(cj_tensor *t, const int64_t *index)
{
    if (!t || !readable(t, "cj_at")) return NAN;
    cj_ctx *c = t->ctx;
    int64_t offset = 0;
    if (!index && t->ndim) {
        cj__error(c, CJ_EVALUE, "cj_at: the index is NULL");
        return NAN;
    }
    for (int d = 0; d < t->ndim; d++) {
        int64_t i = index[d] < 0 ? index[d] + t->shape[d] : index[d];
        if (i < 0 || i >= t->shape[d]) {
            cj__error(c, CJ_EINDEX, "cj_at: index %lld is out of range for axis %d of %s", (long long)index[d], d, cj__tensor_text(t));
            return NAN;
        }
        offset += i * t->stride[d];
    }
    cj_tensor one = *t;
    one.ndim = 0;
    one.numel = 1;
    one.data += offset * (int64_t)cj_dtype_size((cj_dtype)t->dtype);
    double v = NAN;
    with_host(&one, put_f64, &v);
    return v;
}

/* ---- values in ----------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_from_data(cj_ctx *c, const void *values, cj_dtype dtype, cj_shape shape)
{
    if (!c) return NULL;
    if (!cj__cancel_check(c)) return c->poison;
    if (c->trace) {
        cj__error(c, CJ_ECAPTURE,
                  "cj_from_data: the caller's memory is read inside a captured step; make the tensor an input of the step or keep it");
        return c->poison;
    }
    dtype = cj__dtype_or_default(dtype);
    int64_t n = cj__numel(c, "cj_from_data", shape.ndim, shape.dim);
    if (n < 0 || !cj__dtype_ok(c, "cj_from_data", dtype)) return c->poison;
    if (!values && n) {
        cj__error(c, CJ_EVALUE, "cj_from_data: the values are NULL");
        return c->poison;
    }
    cj_tensor *t = cj__tensor_new(c, dtype, shape.ndim, shape.dim, c->backend != NULL);
    if (!t) return c->poison;
    size_t bytes = (size_t)n * cj_dtype_size(dtype);
    if (!bytes) return t;
    if (!c->backend) {
        memcpy(t->data, values, bytes);
    } else {
        c->memory.host_copies++;
        if (!c->backend->to_device(c->device_state, t->data, values, bytes)) {
            cj__backend_error(c, "copy to device");
            return c->poison;
        }
    }
    return t;
}

cj_tensor *cj_from_f32(cj_ctx *c, const float *values, cj_shape shape) { return cj_from_data(c, values, CJ_F32, shape); }
cj_tensor *cj_from_f64(cj_ctx *c, const double *values, cj_shape shape) { return cj_from_data(c, values, CJ_F64, shape); }
cj_tensor *cj_from_i64(cj_ctx *c, const int64_t *values, cj_shape shape) { return cj_from_data(c, values, CJ_I64, shape); }
