/* Fourier transforms: three linear operators (pairs to pairs, real to half of the pairs, and back), each the other's transpose up to weights, so that they are closed
 * under differentiation.  Kernels and the three algorithms: kernels/cpu/fft.h.
 */
#include <math.h>

#include "cajal/math.h"
#include "kernels/cpu/fft.h"
#include "ops/compose.h"

typedef struct fft_attrs {
    int64_t inverse; /* fft: exponent +1 */
    int64_t axis;    /* fft: without the pairs */
    int64_t n;       /* irfft: length of the result */
    double scale;
} fft_attrs;

/* ---- plans, kept by the context ------------------------------------------------------------------------------------------------------------ */

enum { PLANS = 16 };

typedef struct kept {
    int64_t n;
    cj_dtype dtype;
    bool roots; /* a table of roots of unity instead of a plan */
    void *memory;
    size_t bytes;
    uint64_t used;
} kept;

typedef struct plans {
    cj_object object;
    cj_ctx *ctx;
    uint64_t clock;
    kept kept[PLANS];
} plans;

static void plans_free(cj_object *o)
{
    plans *p = (plans *)(void *)o;
    for (int i = 0; i < PLANS; i++) cj__free(p->ctx, p->kept[i].memory, p->kept[i].bytes);
    p->ctx->fft_plans = NULL;
    cj__free(p->ctx, p, sizeof *p);
}

/* The plan of n, or the roots exp(-2 pi i k / n), k < n/2; NULL after an error. What was not used for longest goes. */
static void *plan_of(cj_ctx *c, int64_t n, cj_dtype t, bool roots)
{
    plans *p = c->fft_plans;
    if (!p) {
        p = cj__zalloc(c, sizeof *p);
        if (!p) return NULL;
        p->ctx = c;
        c->fft_plans = p;
        cj__object_add(c, &p->object, plans_free);
    }
    kept *oldest = &p->kept[0];
    for (int i = 0; i < PLANS; i++) {
        kept *k = &p->kept[i];
        if (k->memory && k->n == n && k->dtype == t && k->roots == roots) {
            k->used = ++p->clock;
            return k->memory;
        }
        if (k->used < oldest->used) oldest = k;
    }
    const size_t bytes = roots ? (size_t)n * (size_t)cj_dtype_size(t) + 64 : cj__fft_plan_bytes(n, t);
    void *memory = cj__alloc(c, bytes);
    if (!memory) return NULL;
    if (roots) cj__fft_roots(memory, n, t);
    else cj__fft_plan_make(memory, n, t);
    cj__free(c, oldest->memory, oldest->bytes);
    *oldest = (kept){ n, t, roots, memory, bytes, ++p->clock };
    return memory;
}

/* ---- the operators ----------------------------------------------------------------------------------------------------------------------- */

static bool layout_ok(cj_call *call, const cj_tensor *x)
{
    if (x->dtype != CJ_F32 && x->dtype != CJ_F64)
        return cj__error(call->ctx, CJ_EDTYPE, "%s: f32 or f64 is expected, found %s", call->op->name, cj_dtype_name((cj_dtype)x->dtype));
    return cj__contiguous(x) || cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
}

static bool infer_fft(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return layout_ok(call, x) && cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static bool infer_rfft(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS + 1];
    if (!layout_ok(call, x)) return false;
    memcpy(shape, x->shape, sizeof x->shape);
    shape[x->ndim - 1] = x->shape[x->ndim - 1] / 2 + 1;
    shape[x->ndim] = 2;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim + 1, shape);
}
static bool infer_irfft(cj_call *call)
{
    const fft_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    if (!layout_ok(call, x)) return false;
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 2] = a->n;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim - 1, shape);
}

static bool transform(cj_ctx *c, cj_fft_job *f, cj_dtype t, int64_t n, size_t before)
{
    f->plan = plan_of(c, n, t, false);
    if (!f->plan) return false;
    char *work = cj__scratch(c, before + c->k->fft_workspace(f, c->threads));
    if (!work) return false;
    c->k->fft(c->pool, f, work + before);
    return true;
}

static bool run_fft(cj_call *call)
{
    const fft_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    cj_fft_job f = { .outer = 1, .inner = 1, .x = x->data, .y = call->out[0]->data, .inverse = a->inverse, .scale = a->scale };
    for (int d = 0; d < x->ndim - 1; d++) {
        if (d < a->axis) f.outer *= x->shape[d];
        if (d > a->axis) f.inner *= x->shape[d];
    }
    return !x->numel || transform(call->ctx, &f, (cj_dtype)x->dtype, x->shape[a->axis], 0);
}

/* Scratch for sequences of pairs in front of the transform's own: room for both, so that neither moves the other. */
static size_t pairs_bytes(int64_t batch, int64_t n, cj_dtype t)
{
    return ((size_t)(batch * n) * 2 * (size_t)cj_dtype_size(t) + 63) & ~(size_t)63;
}

/* Strided copies of plain values: pairs from reals and back. */
static void copy_strided(cj_ctx *c, cj_dtype t, int64_t rows, int64_t n, const void *x, int64_t x_row, int64_t x_step, void *y,
                         int64_t y_row, int64_t y_step)
{
    c->k->copy(c->pool, 2, (int64_t[]){ rows, n }, t, x, (int64_t[]){ x_row, x_step }, t, y, (int64_t[]){ y_row, y_step });
}

static bool run_rfft(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const fft_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    const cj_dtype t = (cj_dtype)x->dtype;
    const int64_t n = x->shape[x->ndim - 1], h = n / 2, batch = n ? x->numel / n : 0;
    if (!x->numel) return true;
    cj_fft_job f = { .outer = batch, .inner = 1, .scale = 1 };
    if (n % 2 == 0) { /* neighbours as pairs: a transform of half the length */
        const void *root = plan_of(c, n, t, true);
        const size_t z = pairs_bytes(batch, h, t);
        f.plan = plan_of(c, h, t, false);
        char *work = root && f.plan ? cj__scratch(c, z + c->k->fft_workspace(&f, c->threads)) : NULL;
        if (!work) return false;
        f.x = x->data, f.y = work;
        c->k->fft(c->pool, &f, work + z);
        c->k->fft_split(c->pool, t, batch, h, root, work, call->out[0]->data, a->scale);
        return true;
    }
    const size_t z = pairs_bytes(batch, n, t);
    f.plan = plan_of(c, n, t, false);
    f.scale = a->scale;
    char *work = f.plan ? cj__scratch(c, 2 * z + c->k->fft_workspace(&f, c->threads)) : NULL;
    if (!work) return false;
    memset(work, 0, z);
    copy_strided(c, t, batch, n, x->data, n, 1, work, 2 * n, 2);
    f.x = work, f.y = work + z;
    c->k->fft(c->pool, &f, work + 2 * z);
    copy_strided(c, t, batch, 2 * (h + 1), work + z, 2 * n, 1, call->out[0]->data, 2 * (h + 1), 1);
    return true;
}

static bool run_irfft(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const fft_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    cj_tensor *y = call->out[0];
    const cj_dtype t = (cj_dtype)x->dtype;
    const int64_t n = a->n, h = n / 2, batch = y->numel / n;
    if (!y->numel) return true;
    cj_fft_job f = { .outer = batch, .inner = 1, .inverse = true, .scale = a->scale };
    if (n % 2 == 0) {
        const void *root = plan_of(c, n, t, true);
        const size_t z = pairs_bytes(batch, h, t);
        f.plan = plan_of(c, h, t, false);
        char *work = root && f.plan ? cj__scratch(c, z + c->k->fft_workspace(&f, c->threads)) : NULL;
        if (!work) return false;
        c->k->fft_join(c->pool, t, batch, h, root, x->data, work, 1);
        f.x = work, f.y = y->data;
        c->k->fft(c->pool, &f, work + z);
        return true;
    }
    /* X_{n-k} = conj X_k; X_0 is real */
    const size_t z = pairs_bytes(batch, n, t);
    f.plan = plan_of(c, n, t, false);
    char *work = f.plan ? cj__scratch(c, 2 * z + c->k->fft_workspace(&f, c->threads)) : NULL;
    if (!work) return false;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t k = 0; k <= h; k++) {
            const int64_t from = 2 * (b * (h + 1) + k), to = 2 * (b * n + k), mirror = 2 * (b * n + (n - k) % n);
            if (t == CJ_F64) {
                const double *in = (const double *)(void *)x->data + from;
                double *out = (double *)(void *)work;
                out[mirror] = in[0], out[mirror + 1] = -in[1];
                out[to] = in[0], out[to + 1] = k ? in[1] : 0;
            } else {
                const float *in = (const float *)(void *)x->data + from;
                float *out = (float *)(void *)work;
                out[mirror] = in[0], out[mirror + 1] = -in[1];
                out[to] = in[0], out[to + 1] = k ? in[1] : 0;
            }
        }
    f.x = work, f.y = work + z;
    c->k->fft(c->pool, &f, work + 2 * z);
    copy_strided(c, t, batch, n, work + z, 2 * n, 2, y->data, n, 1);
    return true;
}

enum { FFT, RFFT, IRFFT };
static cj_tensor *apply(int row, cj_tensor *x, const fft_attrs *a);

static void d_fft(cj_vjp_args *v)
{
    fft_attrs a = *(const fft_attrs *)v->attrs;
    a.inverse = !a.inverse;
    v->gin[0] = apply(FFT, cj_contiguous(v->g[0]), &a);
}
/* [m, 1]: `ends` for the values that stand for themselves (k = 0, and n/2 of an even n), `inside` for those that stand for two. */
static cj_tensor *weights(cj_tensor *like, int64_t n, double ends, double inside)
{
    const int64_t h = n / 2;
    cj_tensor *k = cj_arange(like->ctx, 0, (double)(h + 1), 1, CJ_I64);
    if (like->st && like->st->device) k = cj_to(k, "cuda");
    cj_tensor *alone = cj_logical_or(cj_eq_scalar(k, 0), cj_eq_scalar(k, n % 2 ? -1 : (double)h));
    return cj_unsqueeze(cj_where(alone, cj__const_like(like, ends), cj__const_like(like, inside)), 1);
}
static void d_rfft(cj_vjp_args *v)
{
    fft_attrs a = *(const fft_attrs *)v->attrs;
    a.n = v->in[0]->shape[v->in[0]->ndim - 1];
    v->gin[0] = apply(IRFFT, cj_contiguous(cj_mul(v->g[0], weights(v->g[0], a.n, 1, 0.5))), &a);
}
static void d_irfft(cj_vjp_args *v)
{
    const fft_attrs *a = v->attrs;
    v->gin[0] = cj_mul(apply(RFFT, cj_contiguous(v->g[0]), a), weights(v->g[0], a->n, 1, 2));
}

static double flops_fft(const cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return 2.5 * (double)x->numel * log2((double)x->numel + 1);
}

#define ROW(op_name, short_name)                                                                                                           \
    {                                                                                                                                      \
        .name = #op_name, .family = "fourier", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .attr_size = sizeof(fft_attrs),                  \
        .infer = infer_##short_name, .run = run_##short_name, .vjp = d_##short_name, .jvp_rule = CJ_JVP_LINEAR, .flops = flops_fft         \
    }
const cj_op cj__ops_fourier[] = { [FFT] = ROW(fft, fft), [RFFT] = ROW(rfft, rfft), [IRFFT] = ROW(irfft, irfft) };
CJ_OP_TABLE(fourier);

static cj_tensor *apply(int row, cj_tensor *x, const fft_attrs *a) { return cj__apply(&cj__ops_fourier[row], a, &x, 1); }

/* ---- public ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct request {
    cj_ctx *c;
    const char *op;
    int n_axes, ndim; /* ndim without pairs */
    int axis[CJ_MAX_DIMS];
    int64_t size[CJ_MAX_DIMS]; /* wanted length along each, or 0 */
    cj_fft_norm norm;
} request;

/* Reads the options for a tensor with or without pairs; false after an error. */
static bool ask(request *r, const char *op, cj_tensor *x, bool pairs, const cj_fft_opts *opts)
{
    static const cj_fft_opts none;
    if (!opts) opts = &none;
    cj_ctx *c = x->ctx;
    *r = (request){ .c = c, .op = op, .ndim = x->ndim - pairs, .norm = opts->norm };
    if (!cj__usable(c, op, 0, x)) return false;
    if (x->dtype != CJ_F32 && x->dtype != CJ_F64)
        return cj__error(c, CJ_EDTYPE, "%s: f32 or f64 is expected, found %s", op, cj_dtype_name((cj_dtype)x->dtype));
    if (pairs && (x->ndim < 2 || x->shape[x->ndim - 1] != 2))
        return cj__error(c, CJ_ESHAPE, "%s: complex numbers are pairs: a last axis of size 2 is expected, found %s", op,
                         cj__tensor_text(x));
    if (r->ndim < 1) return cj__error(c, CJ_ESHAPE, "%s: at least one axis is expected, found %s", op, cj__tensor_text(x));
    r->n_axes = opts->axes.n ? opts->axes.n : opts->size.ndim ? opts->size.ndim : 1;
    if (opts->axes.n && opts->size.ndim && opts->axes.n != opts->size.ndim)
        return cj__error(c, CJ_ESHAPE, "%s: %d sizes for %d axes", op, opts->size.ndim, opts->axes.n);
    if (r->n_axes > r->ndim) return cj__error(c, CJ_ESHAPE, "%s: %d axes of %s", op, r->n_axes, cj__tensor_text(x));
    for (int i = 0; i < r->n_axes; i++) {
        r->axis[i] = opts->axes.n ? cj__axis(c, op, opts->axes.axis[i], r->ndim) : r->ndim - r->n_axes + i;
        if (r->axis[i] < 0) return false;
        for (int k = 0; k < i; k++)
            if (r->axis[k] == r->axis[i]) return cj__error(c, CJ_EVALUE, "%s: axis %d is given twice", op, r->axis[i]);
        r->size[i] = opts->size.ndim ? opts->size.dim[i] : 0;
        if (opts->size.ndim && r->size[i] < 1)
            return cj__error(c, CJ_EVALUE, "%s: a length must be at least 1, found %lld", op, (long long)r->size[i]);
        if (!r->size[i] && x->shape[r->axis[i]] < 1)
            return cj__error(c, CJ_ESHAPE, "%s: axis %d of %s is empty", op, r->axis[i], cj__tensor_text(x));
    }
    if ((unsigned)r->norm > CJ_FFT_FORWARD) return cj__error(c, CJ_EVALUE, "%s: norm %d is none", op, (int)r->norm);
    return true;
}

/* x with `size` values along the axis: cut, or zeros after its end. */
static cj_tensor *resize(cj_tensor *x, int axis, int64_t size)
{
    const int64_t n = cj_size(x, axis);
    if (!size || size == n) return x;
    if (size < n) return cj_slice(x, axis, 0, size, 1);
    cj_shape before = { .ndim = x->ndim - axis }, after = before;
    after.dim[0] = size - n;
    return cj_pad(x, before, after, NULL);
}

static double scale_of(const request *r, int64_t n, bool inverse)
{
    if (r->norm == CJ_FFT_ORTHO) return 1 / sqrt((double)n);
    return inverse == (r->norm == CJ_FFT_BACKWARD) ? 1 / (double)n : 1;
}

static cj_tensor *swapped(cj_tensor *x, int a, int b) { return a == b ? x : cj_transpose(x, a, b); }

/* One axis, pairs to pairs. Axes that the kernel cannot take where they are go to the end and back. */
static cj_tensor *along(cj_tensor *z, int axis, bool inverse, double scale)
{
    const int64_t n = cj_size(z, axis);
    const int last = z->ndim - 2;
    const bool move = axis != last && (n > CJ_FFT_LANES_MOST || !cj__fft_smooth(n));
    fft_attrs a = { .inverse = inverse, .axis = move ? last : axis, .scale = scale };
    if (!move) return apply(FFT, cj_contiguous(z), &a);
    return swapped(apply(FFT, cj_contiguous(swapped(z, axis, last)), &a), axis, last);
}

static cj_tensor *complex_transform(const char *op, cj_tensor *z, const cj_fft_opts *opts, bool inverse)
{
    request r;
    if (!z) return NULL;
    if (!ask(&r, op, z, true, opts)) return z->ctx->poison;
    for (int i = 0; i < r.n_axes; i++) z = resize(z, r.axis[i], r.size[i]);
    for (int i = r.n_axes - 1; i >= 0 && cj_ok(r.c); i--) z = along(z, r.axis[i], inverse, scale_of(&r, cj_size(z, r.axis[i]), inverse));
    return z;
}
cj_tensor *(cj_fft)(cj_tensor *z, const cj_fft_opts *opts) { return complex_transform("fft", z, opts, false); }
cj_tensor *(cj_ifft)(cj_tensor *z, const cj_fft_opts *opts) { return complex_transform("ifft", z, opts, true); }

cj_tensor *(cj_rfft)(cj_tensor *x, const cj_fft_opts *opts)
{
    request r;
    if (!x) return NULL;
    if (!ask(&r, "rfft", x, false, opts)) return x->ctx->poison;
    if (r.ndim + 1 > CJ_MAX_DIMS) {
        cj__error(r.c, CJ_ESHAPE, "rfft: the result of %s would have more than %d axes", cj__tensor_text(x), CJ_MAX_DIMS);
        return r.c->poison;
    }
    for (int i = 0; i < r.n_axes; i++) x = resize(x, r.axis[i], r.size[i]);
    const int axis = r.axis[r.n_axes - 1], last = x->ndim - 1;
    const fft_attrs a = { .scale = scale_of(&r, cj_size(x, axis), false) };
    cj_tensor *z = swapped(apply(RFFT, cj_contiguous(swapped(x, axis, last)), &a), axis, last);
    for (int i = r.n_axes - 2; i >= 0 && cj_ok(r.c); i--) z = along(z, r.axis[i], false, scale_of(&r, cj_size(z, r.axis[i]), false));
    return z;
}

cj_tensor *(cj_irfft)(cj_tensor *z, const cj_fft_opts *opts)
{
    request r;
    if (!z) return NULL;
    if (!ask(&r, "irfft", z, true, opts)) return z->ctx->poison;
    const int k = r.n_axes - 1, axis = r.axis[k], last = z->ndim - 2;
    const int64_t n = r.size[k] ? r.size[k] : 2 * (cj_size(z, axis) - 1);
    if (n < 1) {
        cj__error(r.c, CJ_ESHAPE, "irfft: one value says nothing about the length; give it as size");
        return r.c->poison;
    }
    for (int i = 0; i < r.n_axes; i++) z = resize(z, r.axis[i], i == k ? n / 2 + 1 : r.size[i]);
    for (int i = 0; i < k && cj_ok(r.c); i++) z = along(z, r.axis[i], true, scale_of(&r, cj_size(z, r.axis[i]), true));
    const fft_attrs a = { .n = n, .scale = scale_of(&r, n, true) };
    return swapped(apply(IRFFT, cj_contiguous(swapped(z, axis, last)), &a), axis, last);
}

cj_tensor *(cj_fft_freq)(cj_ctx *c, int64_t n, double spacing)
{
    if (!c) return NULL;
    if (n < 1 || !(spacing != 0)) {
        cj__error(c, CJ_EVALUE, "fft_freq: a length of at least 1 and a spacing other than 0 are expected, found %lld and %g", (long long)n,
                  spacing);
        return c->poison;
    }
    cj_tensor *k = cj_arange(c, 0, (double)n, 1, CJ_F32);
    const int64_t first = (n + 1) / 2; /* of the negative ones */
    k = cj_where(cj_ge_scalar(k, (double)first), cj_add_scalar(k, -(double)n), k);
    return cj_mul_scalar(k, 1 / ((double)n * spacing));
}

/* x rolled forwards by `by` places along the axis. */
static cj_tensor *roll(cj_tensor *x, int axis, int64_t by)
{
    const int64_t n = cj_size(x, axis);
    if (n < 2 || by % n == 0) return x;
    cj_tensor *parts[] = { cj_slice(x, axis, n - by, CJ_END, 1), cj_slice(x, axis, 0, n - by, 1) };
    return cj_cat(parts, 2, axis);
}
static cj_tensor *shift(const char *op, cj_tensor *x, cj_axes axes, bool back)
{
    if (!x) return NULL;
    if (!cj__usable(x->ctx, op, 0, x)) return x->ctx->poison;
    for (int i = 0; i < (axes.n ? axes.n : x->ndim) && cj_ok(x->ctx); i++) {
        const int axis = axes.n ? cj__axis(x->ctx, op, axes.axis[i], x->ndim) : i;
        if (axis < 0) return x->ctx->poison;
        const int64_t n = cj_size(x, axis);
        x = roll(x, axis, back ? (n + 1) / 2 : n / 2);
    }
    return x;
}
cj_tensor *(cj_fft_shift)(cj_tensor *x, cj_axes axes) { return shift("fft_shift", x, axes, false); }
cj_tensor *(cj_ifft_shift)(cj_tensor *x, cj_axes axes) { return shift("ifft_shift", x, axes, true); }
