/* Kernels, their feature maps, and smoothing, written in operators. */
#include <math.h>

#include "cajal/kernels.h"
#include "core/core.h"

static bool rows_ok(const char *op, cj_tensor *x, cj_tensor *z)
{
    if (!x || x->ctx->error || !cj__usable(x->ctx, op, 1, x) || !cj__usable(x->ctx, op, 2, z)) return false;
    if (x->ndim == 2 && z->ndim == 2 && x->shape[1] == z->shape[1]) return true;
    return cj__error(x->ctx, CJ_ESHAPE, "%s: %s and %s; [n, d] and [m, d] expected", op, cj__tensor_text(x), cj__tensor_text(z));
}

/* |x_i - z_j|² as differences: exact 0 for equal rows, which the expansion of the square is not. */
static cj_tensor *squared_distances(cj_tensor *x, cj_tensor *z)
{
    cj_tensor *way = cj_sub(cj_unsqueeze(x, 1), cj_unsqueeze(z, 0));
    return cj_sum(cj_square(way), &(cj_reduce_opts){ .axes = CJ_AXIS(2) });
}

static double width_of(cj_kernel k) { return k.width != 0 ? k.width : 1; }

/* log k of the two that are exponentials */
static cj_tensor *log_kernel(cj_kernel k, cj_tensor *x, cj_tensor *z)
{
    double w = width_of(k);
    cj_tensor *d = squared_distances(x, z);
    return k.kind == CJ_KERNEL_GAUSSIAN ? cj_mul_scalar(d, -0.5 / (w * w)) : cj_mul_scalar(cj_sqrt(d), -1 / w);
}

cj_tensor *cj_gram(cj_kernel k, cj_tensor *x, cj_tensor *z)
{
    static const char op[] = "gram";
    if (!rows_ok(op, x, z)) return x ? x->ctx->poison : NULL;
    double offset = k.offset == CJ_ZERO ? 0 : k.offset != 0 ? k.offset : 1;
    if (!(width_of(k) > 0) || k.degree < 0)
        return cj_fail(x->ctx, CJ_EVALUE, "%s: width %g, degree %d; a positive width and degree expected", op, k.width, k.degree);
    switch (k.kind) {
    case CJ_KERNEL_LINEAR: return cj_matmul(x, cj_t(z));
    case CJ_KERNEL_POLYNOMIAL: return cj_pow_scalar(cj_add_scalar(cj_matmul(x, cj_t(z)), offset), k.degree ? k.degree : 2);
    case CJ_KERNEL_GAUSSIAN:
    case CJ_KERNEL_LAPLACE: return cj_exp(log_kernel(k, x, z));
    case CJ_KERNEL_BOX: return cj_cast(cj_le_scalar(squared_distances(x, z), k.width * k.width), (cj_dtype)x->dtype);
    case CJ_KERNEL_TANH: return cj_tanh(cj_add_scalar(cj_mul_scalar(cj_matmul(x, cj_t(z)), 1 / width_of(k)), offset));
    case CJ_KERNEL_SQUARED: return cj_neg(squared_distances(x, z));
    }
    return cj_fail(x->ctx, CJ_EVALUE, "%s: kernel %d is none", op, (int)k.kind);
}

double cj_mercer_defect(cj_tensor *gram)
{
    if (!gram || gram->ctx->error) return NAN;
    cj_scope s = cj_scope_open(gram->ctx);
    double least = cj_item(cj_min(cj_eigvalsh(gram), NULL)), most = cj_item(cj_max(cj_abs(gram), NULL));
    cj_scope_close(s);
    return gram->ctx->error ? NAN : least / (most > 0 ? most : 1);
}

/* ---- features ---------------------------------------------------------------------------------------------------------------------------------- */

/* The exponents (e_1 … e_d) with sum up to q, one after the other: e_d runs fastest.  False after the last. */
static bool next_exponents(int64_t *e, int64_t d, int64_t q)
{
    int64_t sum = 0;
    for (int64_t j = 0; j < d; j++) sum += e[j];
    for (int64_t j = d; j-- > 0;) {
        if (sum < q) return e[j]++, true;
        sum -= e[j], e[j] = 0;
    }
    return false;
}

cj_tensor *cj_polynomial_features(cj_tensor *x, int degree)
{
    static const char op[] = "polynomial_features";
    if (!rows_ok(op, x, x)) return x ? x->ctx->poison : NULL;
    cj_ctx *c = x->ctx;
    if (degree < 1 || degree > 20) return cj_fail(c, CJ_EVALUE, "%s: degree %d; 1 to 20 expected", op, degree);
    int64_t d = x->shape[1], count = 1, f = 0;
    for (int64_t i = 1; i <= degree && count <= 1000000; i++) count = count * (d + i) / i;
    if (count > 1000000 || d < 1)
        return cj_fail(c, CJ_EVALUE, "%s: degree %d of %lld inputs; 1 to 1000000 features expected", op, degree, (long long)d);
    size_t bytes = (size_t)(count * (d + 1) + d) * sizeof(double);
    double *power = cj__zalloc(c, bytes), *root = power ? power + count * d : NULL;
    if (!power) return c->poison;
    int64_t *e = (int64_t *)(root + count);
    do { /* (1 + x·z)^q = sum q! / (e_0! e_1! … e_d!) prod (x_j z_j)^e_j, e_0 = q - sum e */
        int64_t sum = 0;
        double log_coefficient = lgamma(degree + 1.);
        for (int64_t j = 0; j < d; j++) power[f * d + j] = (double)e[j], sum += e[j], log_coefficient -= lgamma((double)e[j] + 1);
        root[f++] = sqrt(round(exp(log_coefficient - lgamma((double)(degree - sum) + 1))));
    } while (next_exponents(e, d, degree));
    cj_tensor *exponents = cj_cast(cj_from_f64(c, power, CJ_SHAPE(1, count, d)), (cj_dtype)x->dtype),
              *roots = cj_cast(cj_from_f64(c, root, CJ_SHAPE(count)), (cj_dtype)x->dtype);
    cj__free(c, power, bytes);
    return cj_mul(cj_prod(cj_pow(cj_unsqueeze(x, 1), exponents), &(cj_reduce_opts){ .axes = CJ_AXIS(2) }), roots);
}

cj_fourier cj_fourier_draw(cj_ctx *c, int64_t d, int64_t p, double width, cj_dtype dtype)
{
    if (c && !c->error && (d < 1 || p < 1 || !(width > 0)))
        cj_fail(c, CJ_EVALUE, "fourier_draw: %lld inputs, %lld features, width %g; all positive expected", (long long)d, (long long)p,
                width);
    if (!c || c->error) return (cj_fourier){ c ? c->poison : NULL, c ? c->poison : NULL };
    const cj_random_opts *o = &(cj_random_opts){ .dtype = dtype };
    return (cj_fourier){ cj_normal(c, 0, 1 / width, CJ_SHAPE(d, p), o), cj_uniform(c, 0, 2 * M_PI, CJ_SHAPE(p), o) };
}

cj_tensor *cj_fourier_features(const cj_fourier *f, cj_tensor *x)
{
    if (!x || x->ctx->error || cj_is_poison(f->frequency)) return x ? x->ctx->poison : NULL;
    return cj_mul_scalar(cj_cos(cj_add(cj_matmul(x, f->frequency), f->phase)), sqrt(2 / (double)f->frequency->shape[1]));
}

cj_tensor *cj_nystrom_features(cj_kernel k, cj_tensor *marks, cj_tensor *x)
{
    if (!rows_ok("nystrom_features", x, marks)) return x ? x->ctx->poison : NULL;
    cj_eigen e = cj_eigh(cj_gram(k, marks, marks));
    cj_tensor *floor = cj_mul_scalar(cj_max(e.values, NULL), 1e-12), *kept = cj_gt(e.values, floor);
    cj_tensor *inverse_root = cj_where(kept, cj_rsqrt(cj_where(kept, e.values, cj_ones_like(e.values))), cj_zeros_like(e.values));
    return cj_matmul(cj_gram(k, x, marks), cj_matmul(cj_mul(e.vectors, inverse_root), cj_t(e.vectors)));
}

/* ---- smoothing ------------------------------------------------------------------------------------------------------------------------------------ */

cj_tensor *cj_smoothing_weights(cj_kernel k, cj_tensor *x, cj_tensor *q)
{
    static const char op[] = "smoothing_weights";
    if (!rows_ok(op, q, x)) return q ? q->ctx->poison : NULL;
    if (!(width_of(k) > 0)) return cj_fail(x->ctx, CJ_EVALUE, "%s: width %g; a positive number expected", op, k.width);
    if (k.kind == CJ_KERNEL_GAUSSIAN || k.kind == CJ_KERNEL_LAPLACE) return cj_softmax(log_kernel(k, q, x), -1);
    cj_tensor *w = cj_gram(k, q, x);
    return cj_div(w, cj_sum(w, &(cj_reduce_opts){ .axes = CJ_AXIS(1), .keepdim = true }));
}

cj_tensor *cj_nadaraya_watson(cj_kernel k, cj_tensor *x, cj_tensor *y, cj_tensor *q)
{
    cj_tensor *w = cj_smoothing_weights(k, x, q);
    return cj_matmul(w, y);
}
