/* Norms of any order and distances made of them.
 *
 * |x|_p = (sum |x|^p)^(1/p).  Scaled by the largest element first, so that squares neither overflow nor vanish; the scale is a constant to the
 * derivative, because the norm does not depend on it.  Where a norm is 0 its derivative is taken as 0: the branch that is not chosen sees 1, so
 * that nothing divides by 0 on the way.
 */
#include <math.h>

#include "cajal/grad.h"
#include "ops/compose.h"

typedef struct norm_attrs {
    double p;
    int64_t keepdim, n, axis[CJ_MAX_DIMS];
} norm_attrs;

/* q^r, and 0 with derivative 0 where q is 0. */
static cj_tensor *safe_pow(cj_tensor *q, double r)
{
    cj_tensor *zero = cj_eq_scalar(q, 0), *safe = cj_where(zero, cj__const_like(q, 1), q);
    return cj_where(zero, cj__const_like(q, 0), r == 0.5 ? cj_sqrt(safe) : cj_pow_scalar(safe, r));
}

static cj_tensor *p_norm(cj_tensor *x, double p, const cj_reduce_opts *over)
{
    if (p == INFINITY) return cj_max(cj_abs(x), over);
    if (p == -INFINITY) return cj_min(cj_abs(x), over);
    if (p == 0) return cj_sum(cj_cast(cj_ne_scalar(x, 0), (cj_dtype)x->dtype), over);
    if (p == 1) return cj_sum(cj_abs(x), over);
    cj_tensor *scale = NULL;
    if (p > 1 && x->numel) { /* 1 where the largest is 0, infinite or NaN */
        cj_tensor *most = cj_detach(cj_max(cj_abs(cj_detach(x)), &(cj_reduce_opts){ .axes = over->axes, .keepdim = true }));
        scale = cj_where(cj_logical_and(cj_gt_scalar(most, 0), cj_lt_scalar(most, INFINITY)), most, cj__const_like(x, 1));
        x = cj_div(x, scale);
    }
    cj_tensor *power;
    if (p == 2) {
        power = cj_square(x);
    } else {
        cj_tensor *a = cj_abs(x), *zero = cj_eq_scalar(a, 0);
        power = cj_where(zero, cj__const_like(x, p > 0 ? 0 : INFINITY), cj_pow_scalar(cj_where(zero, cj__const_like(x, 1), a), p));
    }
    cj_tensor *norm = safe_pow(cj_sum(power, over), p == 2 ? 0.5 : 1 / p);
    return scale ? cj_mul(norm, cj_reshape(scale, cj__shape(norm))) : norm;
}

CJ_COMPOSE(norm)
{
    const norm_attrs *a = attrs;
    cj_reduce_opts over = { .axes.n = (int)a->n, .keepdim = a->keepdim };
    for (int i = 0; i < over.axes.n; i++) over.axes.axis[i] = (int)a->axis[i];
    return p_norm(in[0], a->p, &over);
}

static const cj_reduce_opts last_axis = { .axes = { 1, { -1 } } }, last_kept = { .axes = { 1, { -1 } }, .keepdim = true };

/* Attributes: p.  PyTorch's choice: the product form from 26 rows on. */
CJ_COMPOSE(cdist)
{
    const double p = *(const double *)attrs;
    cj_tensor *a = in[0], *b = in[1];
    if (p == 2 && (a->shape[a->ndim - 2] > 25 || b->shape[b->ndim - 2] > 25)) { /* |a|² + |b|² - 2·a·b, not below 0 */
        cj_tensor *aa = cj_sum(cj_square(a), &last_kept), *bb = cj_t(cj_sum(cj_square(b), &last_kept));
        cj_tensor *square = cj_add(cj_add(cj_mul_scalar(cj_matmul(a, cj_t(b)), -2), aa), bb);
        return safe_pow(cj_relu(square), 0.5);
    }
    return p_norm(cj_sub(cj_unsqueeze(a, -2), cj_unsqueeze(b, -3)), p, &last_axis);
}

typedef struct cosine_attrs {
    int64_t axis;
    double eps;
} cosine_attrs;
/* sum of (a/max(|a|, eps))·(b/max(|b|, eps)), as PyTorch computes it. */
CJ_COMPOSE(cosine_similarity)
{
    const cosine_attrs *t = attrs;
    const cj_reduce_opts along = { .axes = CJ_AXIS((int)t->axis), .keepdim = true };
    cj_tensor *a = cj_div(in[0], cj_clamp(p_norm(in[0], 2, &along), t->eps, INFINITY));
    cj_tensor *b = cj_div(in[1], cj_clamp(p_norm(in[1], 2, &along), t->eps, INFINITY));
    return cj_sum(cj_mul(a, b), &(cj_reduce_opts){ .axes = along.axes });
}

enum { NORM, CDIST, COSINE };
const cj_op cj__ops_distance[] = { [NORM] = CJ_COMPOSITE_ROW(norm, "distance", 1, sizeof(norm_attrs)),
                                   [CDIST] = CJ_COMPOSITE_ROW(cdist, "distance", 2, sizeof(double)),
                                   [COSINE] = CJ_COMPOSITE_ROW(cosine_similarity, "distance", 2, sizeof(cosine_attrs)) };
CJ_OP_TABLE(distance);

/* ---- what users call ---------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_norm(cj_tensor *x, double p, const cj_norm_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    cj_norm_opts o = opts ? *opts : (cj_norm_opts){ 0 };
    if (c->error || !cj__usable(c, "norm", 0, x)) return c->poison;
    if (isnan(p)) return cj_fail(c, CJ_EVALUE, "norm: the order is NaN");
    if (o.axes.n < 0 || o.axes.n > x->ndim) return cj_fail(c, CJ_EVALUE, "norm: %d axes given for %s", o.axes.n, cj__tensor_text(x));
    norm_attrs a = { .p = p, .keepdim = o.keepdim, .n = o.axes.n };
    for (int i = 0; i < o.axes.n; i++) {
        const int axis = cj__axis(c, "norm", o.axes.axis[i], x->ndim);
        if (axis < 0) return c->poison;
        a.axis[i] = axis;
    }
    return cj__apply(&cj__ops_distance[NORM], &a, &x, 1);
}

cj_tensor *cj_cdist(cj_tensor *a, cj_tensor *b, double p)
{
    cj_ctx *c = a ? a->ctx : b ? b->ctx : NULL;
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "cdist", 0, a) || !cj__usable(c, "cdist", 1, b)) return c->poison;
    if (a->ndim < 2 || b->ndim < 2 || a->ndim > CJ_MAX_DIMS - 1 || b->ndim > CJ_MAX_DIMS - 1 ||
        a->shape[a->ndim - 1] != b->shape[b->ndim - 1])
        return cj_fail(c, CJ_ESHAPE, "cdist: %s and %s; [.., P, M] and [.., R, M] expected", cj__tensor_text(a), cj__tensor_text(b));
    if (!cj_dtype_is_float((cj_dtype)b->dtype))
        return cj_fail(c, CJ_EDTYPE, "cdist: the second input is %s, a float type expected", cj_dtype_name((cj_dtype)b->dtype));
    if (!(p >= 0)) return cj_fail(c, CJ_EVALUE, "cdist: order %g; 0 or more expected", p);
    return cj__apply(&cj__ops_distance[CDIST], &p, (cj_tensor *[]){ a, b }, 2);
}

cj_tensor *cj_cosine_similarity(cj_tensor *a, cj_tensor *b, int axis, double eps)
{
    static const char op[] = "cosine_similarity";
    cj_ctx *c = a ? a->ctx : b ? b->ctx : NULL;
    if (!c) return NULL;
    if (c->error || !cj__usable(c, op, 0, a) || !cj__usable(c, op, 1, b)) return c->poison;
    cj_shape both;
    if (!cj__broadcast(a->ndim, a->shape, b->ndim, b->shape, &both.ndim, both.dim))
        return cj_fail(c, CJ_ESHAPE, "%s: %s and %s do not broadcast", op, cj__tensor_text(a), cj__tensor_text(b));
    if (!cj_dtype_is_float((cj_dtype)b->dtype))
        return cj_fail(c, CJ_EDTYPE, "%s: the second input is %s, a float type expected", op, cj_dtype_name((cj_dtype)b->dtype));
    if (!(eps >= 0)) return cj_fail(c, CJ_EVALUE, "%s: eps %g is negative", op, eps);
    cosine_attrs t = { cj__axis(c, op, axis, both.ndim), eps == 0 ? 1e-8 : eps };
    if (t.axis < 0) return c->poison;
    return cj__apply(&cj__ops_distance[COSINE], &t, (cj_tensor *[]){ cj_expand(a, both), cj_expand(b, both) }, 2);
}
