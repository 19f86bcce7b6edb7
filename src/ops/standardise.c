/* Normalisations made of operators: neighbouring channels (local response), weights (weight and spectral normalisation), data (z-scores, whitening).
 *
 * All are rows whose definition is all there is; power iterations and the choice of statistics happen in the functions that users call, outside of any derivative.
 */
#include "cajal/grad.h"
#include "ops/compose.h"

static cj_tensor *widened(cj_tensor *x) { return x->dtype == CJ_BF16 || x->dtype == CJ_F16 ? cj_cast(x, CJ_F32) : x; }

static bool float_input(cj_ctx *c, const char *op, const cj_tensor *x)
{
    return cj_dtype_is_float((cj_dtype)x->dtype) ||
           cj__error(c, CJ_EDTYPE, "%s: the input is %s, a float type expected", op, cj_dtype_name((cj_dtype)x->dtype));
}

/* ---- local response (Krizhevsky et al. 2012): x/(k + alpha·mean of x² over neighbouring channels)^beta ----------------------------------------------- */

typedef struct lrn_attrs {
    int64_t size;
    double alpha, beta, k;
} lrn_attrs;
CJ_COMPOSE(local_response_norm)
{
    const lrn_attrs *a = attrs;
    cj_tensor *x = in[0];
    int64_t plane = 1;
    for (int d = 2; d < x->ndim; d++) plane *= x->shape[d];
    cj_tensor *s = cj_reshape(cj_square(x), CJ_SHAPE(x->shape[0], x->shape[1], plane));
    s = cj_pad(s, CJ_SHAPE(a->size / 2, 0), CJ_SHAPE((a->size - 1) / 2, 0), NULL);
    s = cj_avg_pool(s, &(cj_pool_opts){ .kernels = CJ_SHAPE(a->size, 1), .strides = CJ_SHAPE(1, 1) });
    s = cj_add_scalar(cj_mul_scalar(cj_reshape(s, cj__shape(x)), a->alpha), a->k);
    return cj_div(x, cj_pow_scalar(s, a->beta));
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------------------------------- */

/* Attributes: the axis that keeps its slices apart, or -1 for none. */
CJ_COMPOSE(weight_norm)
{
    const int64_t axis = *(const int64_t *)attrs;
    cj_tensor *v = in[0], *g = in[1];
    cj_reduce_opts others = { .keepdim = true };
    for (int d = 0; d < v->ndim; d++)
        if (d != axis) others.axes.axis[others.axes.n++] = d;
    cj_tensor *length = others.axes.n ? cj_sqrt(cj_sum(cj_square(v), &others)) : cj_abs(v);
    if (axis >= 0) {
        cj_shape slices = cj__shape(length);
        g = cj_reshape(g, slices);
    }
    return cj_mul(v, cj_div(g, length));
}

static cj_tensor *matrix_of(cj_tensor *w) { return cj_reshape(w, CJ_SHAPE(w->shape[0], w->shape[0] ? w->numel / w->shape[0] : 0)); }

/* w/sigma and sigma = uᵀ·W·v; inputs w, u, v. */
static bool define_spectral_norm(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)attrs, (void)nin;
    if (!float_input(c, "spectral_norm", in[0])) return false;
    cj_tensor *w = widened(in[0]), *u = cj_cast(in[1], (cj_dtype)w->dtype), *v = cj_cast(in[2], (cj_dtype)w->dtype);
    cj_tensor *sigma = cj_dot(u, cj_matmul(matrix_of(w), v));
    out[0] = cj_cast(cj_div(w, sigma), (cj_dtype)in[0]->dtype);
    out[1] = sigma;
    return c->error == CJ_OK;
}

/* ---- data ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* Deviations from the mean, which is taken twice: what rounding left of a large mean goes in the second round. */
static cj_tensor *centred(cj_tensor *x, const cj_reduce_opts *over, cj_tensor **mean)
{
    cj_tensor *rough = cj_mean(x, over), *d = cj_sub(x, rough), *rest = cj_mean(d, over);
    *mean = cj_add(rough, rest);
    return cj_sub(d, rest);
}

typedef struct standardise_attrs {
    int64_t axes; /* bit d: over axis d */
    int64_t unbiased;
} standardise_attrs;

/* The deviation of a constant feature is rounding only, far below one digit of its mean; it counts as 1. */
static bool define_standardise(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const standardise_attrs *a = attrs;
    (void)nin;
    if (!float_input(c, "standardise", in[0])) return false;
    cj_tensor *x = widened(in[0]), *mean;
    cj_reduce_opts over = { .keepdim = true };
    double n = 1;
    for (int d = 0; d < x->ndim; d++)
        if (a->axes >> d & 1) over.axes.axis[over.axes.n++] = d, n *= (double)x->shape[d];
    cj_tensor *d = centred(x, &over, &mean);
    cj_tensor *var = cj_mul_scalar(cj_mean(cj_square(d), &over), a->unbiased ? n / (n - 1) : 1);
    cj_tensor *least = cj_square(cj_mul_scalar(cj_detach(mean), x->dtype == CJ_F64 ? 0x1p-58 : 0x1p-29));
    cj_tensor *std = cj_sqrt(cj_where(cj_le(var, least), cj__const_like(var, 1), var));
    out[0] = cj_cast(cj_div(d, std), (cj_dtype)in[0]->dtype);
    out[1] = mean;
    out[2] = std;
    return c->error == CJ_OK;
}

typedef struct whiten_attrs {
    double eps;
    int64_t iterations, unbiased;
} whiten_attrs;

/* Z -> (A/c)^(-1/2), Y -> (A/c)^(1/2) by T = (3 - Z·Y)/2, Y <- Y·T, Z <- T·Z; c = |A| keeps the eigenvalues in (0, 1]. */
static cj_tensor *inverse_root(cj_tensor *a, int64_t iterations)
{
    cj_tensor *one = cj_cast(cj_eye(a->ctx, a->shape[0], CJ_F32), (cj_dtype)a->dtype), *length = cj_sqrt(cj_sum(cj_square(a), NULL));
    cj_tensor *y = cj_div(a, length), *z = one, *three = cj_mul_scalar(one, 1.5);
    for (int64_t i = 0; i < iterations; i++) {
        cj_tensor *t = cj_sub(three, cj_mul_scalar(cj_matmul(z, y), 0.5));
        y = cj_matmul(y, t);
        z = cj_matmul(t, z);
    }
    return cj_mul(z, cj_rsqrt(length));
}

static bool define_whiten(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const whiten_attrs *a = attrs;
    (void)nin;
    if (!float_input(c, "whiten", in[0])) return false;
    cj_tensor *x = widened(in[0]), *mean;
    const double n = (double)(x->shape[0] - (a->unbiased ? 1 : 0));
    cj_tensor *d = centred(x, &(cj_reduce_opts){ .axes = CJ_AXIS(0), .keepdim = true }, &mean);
    cj_tensor *cov = cj_mul_scalar(cj_matmul(cj_t(d), d), 1 / n);
    cov = cj_add(cov, cj_mul_scalar(cj_cast(cj_eye(c, x->shape[1], CJ_F32), (cj_dtype)x->dtype), a->eps));
    cj_tensor *matrix = inverse_root(cov, a->iterations);
    out[0] = cj_cast(cj_matmul(d, matrix), (cj_dtype)in[0]->dtype);
    out[1] = cj_squeeze(mean, 0);
    out[2] = matrix;
    return c->error == CJ_OK;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------------ */

#define SEVERAL(op_name, inputs, outputs, attribute_bytes)                                                                                 \
    {                                                                                                                                      \
        .name = #op_name, .family = "normalisation", .kind = CJ_COMPOSITE, .nin = inputs, .nout = outputs, .attr_size = attribute_bytes,   \
        .define = define_##op_name                                                                                                         \
    }
enum { LOCAL_RESPONSE, WEIGHT, SPECTRAL, STANDARDISE, WHITEN };
const cj_op cj__ops_standardise[] = {
    [LOCAL_RESPONSE] = CJ_COMPOSITE_ROW(local_response_norm, "normalisation", 1, sizeof(lrn_attrs)),
    [WEIGHT] = CJ_COMPOSITE_ROW(weight_norm, "normalisation", 2, sizeof(int64_t)),
    [SPECTRAL] = SEVERAL(spectral_norm, 3, 2, 0),
    [STANDARDISE] = SEVERAL(standardise, 1, 3, sizeof(standardise_attrs)),
    [WHITEN] = SEVERAL(whiten, 1, 3, sizeof(whiten_attrs)),
};
CJ_OP_TABLE(standardise);

/* ---- what users call ------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_local_response_norm(cj_tensor *x, int64_t size, const cj_lrn_opts *opts)
{
    static const char op[] = "local_response_norm";
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    cj_lrn_opts o = opts ? *opts : (cj_lrn_opts){ 0 };
    if (c->error || !cj__usable(c, op, 0, x)) return c->poison;
    if (x->ndim < 2) return cj_fail(c, CJ_ESHAPE, "%s: the input has shape %s, [N, C, ..] expected", op, cj__tensor_text(x));
    if (size < 1) return cj_fail(c, CJ_EVALUE, "%s: size %lld; at least 1 expected", op, (long long)size);
    lrn_attrs a = { size, cj__option(o.alpha, 1e-4), cj__option(o.beta, 0.75), cj__option(o.k, 1) };
    return cj__apply(&cj__ops_standardise[LOCAL_RESPONSE], &a, &x, 1);
}

cj_tensor *cj_weight_norm(cj_tensor *v, cj_tensor *g, int axis)
{
    static const char op[] = "weight_norm";
    if (!v || !g) return CJ_MISSING(op, v, g);
    cj_ctx *c = v->ctx;
    if (c->error || !cj__usable(c, op, 0, v) || !cj__usable(c, op, 1, g)) return c->poison;
    int64_t apart = -1;
    if (g->ndim) {
        if ((apart = cj__axis(c, op, axis, v->ndim)) < 0) return c->poison;
        bool fits = g->numel == v->shape[apart] && (g->ndim == 1 || (g->ndim == v->ndim && g->shape[apart] == g->numel));
        if (!fits)
            return cj_fail(c, CJ_ESHAPE, "%s: g has shape %s, [%lld] expected for axis %d of v %s", op, cj__tensor_text(g),
                           (long long)v->shape[apart], (int)apart, cj__tensor_text(v));
    }
    return cj__apply(&cj__ops_standardise[WEIGHT], &apart, (cj_tensor *[]){ v, g }, 2);
}

/* x/max(|x|, eps) */
static cj_tensor *unit(cj_tensor *x, double eps)
{
    cj_tensor *length = cj_sqrt(cj_sum(cj_square(x), NULL));
    return cj_div(x, cj_maximum(length, cj__const_like(length, eps)));
}

static bool spectral_vector(const cj_tensor *w, const char *what, const cj_tensor *t, int64_t n, bool eval)
{
    static const char op[] = "spectral_norm";
    cj_ctx *c = w->ctx;
    if (!cj__usable(c, op, 1, t)) return false;
    if (t->ndim != 1 || t->shape[0] != n || !cj_dtype_is_float((cj_dtype)t->dtype))
        return cj__error(c, CJ_ESHAPE, "%s: %s is %s %s, floats [%lld] expected for w %s", op, what, cj_dtype_name((cj_dtype)t->dtype),
                         cj__tensor_text(t), (long long)n, cj__tensor_text(w));
    if (!eval && !(t->flags & CJ_T_PERSISTENT))
        return cj__error(c, CJ_EVALUE, "%s: %s goes with its scope; it must be a buffer or kept", op, what);
    return true;
}

cj_spectral cj_spectral_norm(cj_tensor *w, cj_tensor *u, const cj_spectral_opts *opts)
{
    static const char op[] = "spectral_norm";
    if (!w) return (cj_spectral){ CJ_MISSING(op, w, u), CJ_POISON_OF(u) };
    cj_ctx *c = w->ctx;
    cj_spectral_opts o = opts ? *opts : (cj_spectral_opts){ 0 };
    const cj_spectral poison = { c->poison, c->poison };
    const double eps = cj__option(o.eps, 1e-12);
    if (c->error || !cj__usable(c, op, 0, w)) return poison;
    if (w->ndim < 2) return cj_fail(c, CJ_ESHAPE, "%s: w has shape %s; two axes at least expected", op, cj__tensor_text(w)), poison;
    if (!float_input(c, op, w)) return poison;
    if (!w->numel) return cj_fail(c, CJ_ESHAPE, "%s: w %s has no elements", op, cj__tensor_text(w)), poison;
    if (o.iterations < 0) return cj_fail(c, CJ_EVALUE, "%s: %lld iterations", op, (long long)o.iterations), poison;
    if (!spectral_vector(w, "u", u, w->shape[0], o.eval)) return poison;
    if (o.v && !spectral_vector(w, "v", o.v, w->numel / w->shape[0], o.eval)) return poison;
    /* Constants of the derivative: made from detached values. */
    cj_tensor *m = matrix_of(widened(cj_detach(w))), *right = NULL;
    /* Where an earlier call in this scope has put off a write, its vectors are the current ones: every call goes on where the last one stopped. */
    cj_tensor *left = cj_cast(cj_detach(cj__deferred_value(c, u)), (cj_dtype)m->dtype);
    if (o.eval && o.v) right = cj_cast(cj_detach(cj__deferred_value(c, o.v)), (cj_dtype)m->dtype);
    else if (o.eval) right = unit(cj_matmul(cj_t(m), left), eps);
    for (int64_t i = 0; i < (o.eval ? 0 : o.iterations ? o.iterations : 1); i++) {
        right = unit(cj_matmul(cj_t(m), left), eps);
        left = unit(cj_matmul(m, right), eps);
    }
    cj_tensor *out[2];
    if (!cj__apply_n(c, &cj__ops_standardise[SPECTRAL], NULL, (cj_tensor *[]){ w, left, right }, 3, out)) return poison;
    if (!o.eval) {
        cj_assign_at_close_(u, left);
        if (o.v) cj_assign_at_close_(o.v, right);
        if (c->error) return poison;
    }
    return (cj_spectral){ out[0], out[1] };
}

/* Does t broadcast to the shape of x? */
static bool fits(const cj_tensor *x, const char *what, const cj_tensor *t)
{
    int n;
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__usable(x->ctx, "standardise", 1, t)) return false;
    if (cj__broadcast(x->ndim, x->shape, t->ndim, t->shape, &n, shape) && n == x->ndim &&
        !memcmp(shape, x->shape, (size_t)n * sizeof *shape))
        return true;
    return cj__error(x->ctx, CJ_ESHAPE, "standardise: %s %s does not fit the input %s", what, cj__tensor_text(t), cj__tensor_text(x));
}

cj_standardised cj_standardise(cj_tensor *x, const cj_standardise_opts *opts)
{
    static const char op[] = "standardise";
    if (!x) return (cj_standardised){ 0 };
    cj_ctx *c = x->ctx;
    cj_standardise_opts o = opts ? *opts : (cj_standardise_opts){ 0 };
    const cj_standardised poison = { c->poison, c->poison, c->poison };
    if (c->error || !cj__usable(c, op, 0, x)) return poison;
    if (!o.mean != !o.std) return cj_fail(c, CJ_EVALUE, "%s: %s is missing; both or neither", op, o.mean ? "std" : "mean"), poison;
    if (o.mean) {
        if (!float_input(c, op, x) || !fits(x, "mean", o.mean) || !fits(x, "std", o.std)) return poison;
        cj_tensor *value = cj_cast(cj_div(cj_sub(widened(x), o.mean), o.std), (cj_dtype)x->dtype);
        return c->error ? poison : (cj_standardised){ value, o.mean, o.std };
    }
    if (x->ndim < 1) return cj_fail(c, CJ_ESHAPE, "%s: a 0-d input", op), poison;
    standardise_attrs a = { .axes = o.axes.n ? 0 : 1, .unbiased = o.unbiased };
    for (int i = 0; i < o.axes.n; i++) {
        int axis = cj__axis(c, op, o.axes.axis[i], x->ndim);
        if (axis < 0) return poison;
        a.axes |= (int64_t)1 << axis;
    }
    int64_t n = 1;
    for (int d = 0; d < x->ndim; d++) n *= a.axes >> d & 1 ? x->shape[d] : 1;
    if (n < (o.unbiased ? 2 : 1))
        return cj_fail(c, CJ_EVALUE, "%s: %lld value%s of a feature in %s", op, (long long)n, n == 1 ? "" : "s", cj__tensor_text(x)),
               poison;
    cj_tensor *out[3];
    return cj__apply_n(c, &cj__ops_standardise[STANDARDISE], &a, &x, 1, out) ? (cj_standardised){ out[0], out[1], out[2] } : poison;
}

cj_whitened cj_whiten(cj_tensor *x, const cj_whiten_opts *opts)
{
    static const char op[] = "whiten";
    if (!x) return (cj_whitened){ 0 };
    cj_ctx *c = x->ctx;
    cj_whiten_opts o = opts ? *opts : (cj_whiten_opts){ 0 };
    const cj_whitened poison = { c->poison, c->poison, c->poison };
    if (c->error || !cj__usable(c, op, 0, x)) return poison;
    if (x->ndim != 2 || x->shape[0] < 2 || x->shape[1] < 1)
        return cj_fail(c, CJ_ESHAPE, "%s: the input has shape %s, [n, d] with two rows at least expected", op, cj__tensor_text(x)), poison;
    whiten_attrs a = { cj__option(o.eps, 1e-5), o.iterations ? o.iterations : 20, o.unbiased };
    if (!(a.eps >= 0)) return cj_fail(c, CJ_EVALUE, "%s: eps %g is negative", op, a.eps), poison;
    if (a.iterations < 1) return cj_fail(c, CJ_EVALUE, "%s: %lld iterations", op, (long long)a.iterations), poison;
    cj_tensor *out[3];
    return cj__apply_n(c, &cj__ops_standardise[WHITEN], &a, &x, 1, out) ? (cj_whitened){ out[0], out[1], out[2] } : poison;
}
