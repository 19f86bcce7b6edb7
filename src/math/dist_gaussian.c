/* Correlated Gaussians: N(mu, S) with S = L·Lᵀ by its Cholesky factor, and low-rank ones with S = W·Wᵀ + diag(D).
 *
 * A low-rank S [d, d] is never formed: with the capacitance C = 1 + Wᵀ·D⁻¹·W = K·Kᵀ [r, r]
 *     S⁻¹ = D⁻¹ - D⁻¹·W·C⁻¹·Wᵀ·D⁻¹        (Woodbury 1950)
 *     log det S = log det C + sum log D
 * Everything follows from two things that both kinds know: x -> xᵀ·S⁻¹·x for columns x, and log det S.
 */
#include <math.h>

#include "math/dist.h"

typedef struct gaussian {
    cj_tensor *loc;              /* [.., d] */
    cj_tensor *l;                /* [.., d, d], or NULL: low-rank */
    cj_tensor *w, *diagonal, *k; /* [.., d, r], [.., d], [.., r, r] */
    bool one;                    /* no batch of matrices */
} gaussian;

static cj_tensor *squares(cj_tensor *x, int axis) { return cj_sum(cj_square(x), &(cj_reduce_opts){ .axes = CJ_AXIS(axis) }); }
static cj_tensor *pivots(cj_tensor *l) { return cj_diagonal(l, 0, -2, -1); }
static int64_t last(const cj_tensor *x) { return x->shape[x->ndim - 1]; }

static gaussian opened(const cj_dist *d)
{
    gaussian g = { .loc = d->p[0] };
    if (d->kind == CJ_DIST_MULTIVARIATE_NORMAL) {
        g.l = d->p[1];
        g.one = g.l->ndim == 2;
        return g;
    }
    g.w = d->p[1], g.diagonal = d->p[2];
    g.one = g.w->ndim == 2 && g.diagonal->ndim == 1;
    cj_tensor *scaled = cj_div(g.w, cj_unsqueeze(g.diagonal, -1));
    cj_tensor *c = cj_matmul(cj_t(g.w), scaled);
    g.k = cj_cholesky(cj_add(c, cj_eye(d->p[0]->ctx, last(g.w), (cj_dtype)g.w->dtype)), NULL);
    return g;
}

/* xᵀ·S⁻¹·x for every column of x [.., d, n]: [.., n]. */
static cj_tensor *mahalanobis(const gaussian *g, cj_tensor *x)
{
    if (g->l) return squares(cj_solve_triangular(g->l, x, NULL), -2);
    cj_tensor *scaled = cj_div(x, cj_unsqueeze(g->diagonal, -1)),
              *whole = cj_sum(cj_mul(x, scaled), &(cj_reduce_opts){ .axes = CJ_AXIS(-2) });
    return cj_sub(whole, squares(cj_solve_triangular(g->k, cj_matmul(cj_t(g->w), scaled), NULL), -2));
}
/* The same for vectors along the last axis, [.., d] -> [..]: as columns of one system where there is one matrix for all. */
static cj_tensor *mahalanobis_of_rows(const gaussian *g, cj_tensor *x)
{
    if (!g->one) return cj_squeeze(mahalanobis(g, cj_unsqueeze(x, -1)), -1);
    cj_shape lead = cj__shape(x);
    cj_tensor *flat = mahalanobis(g, cj_t(cj_reshape(x, CJ_SHAPE(-1, lead.dim[lead.ndim - 1]))));
    lead.ndim--;
    return cj_reshape(flat, lead);
}
static cj_tensor *half_log_det(const gaussian *g)
{
    if (g->l) return cj__last_sum(cj_log(pivots(g->l)));
    return cj_add(cj__last_sum(cj_log(pivots(g->k))), cj_mul_scalar(cj__last_sum(cj_log(g->diagonal)), 0.5));
}
/* x·S·xᵀ for rows x [.., d]: [..]. */
static cj_tensor *spread(const gaussian *g, cj_tensor *x)
{
    cj_tensor *row = cj_unsqueeze(x, -2), *y = cj_squeeze(squares(cj_matmul(row, g->l ? g->l : g->w), -1), -1);
    return g->l ? y : cj_add(y, cj__last_sum(cj_mul(cj_square(x), g->diagonal)));
}
/* x [..] in the shape of the batch. */
static cj_tensor *over_batch(const gaussian *g, cj_tensor *x) { return cj_add(x, cj_mul_scalar(cj_select(g->loc, -1, 0), 0)); }

cj_tensor *cj__gaussian_log_prob(const cj_dist *d, cj_tensor *x)
{
    const gaussian g = opened(d);
    cj_tensor *m = mahalanobis_of_rows(&g, cj_sub(x, g.loc));
    return cj_sub(cj_add_scalar(cj_mul_scalar(m, -0.5), -0.5 * CJ_LOG_2PI * (double)last(g.loc)), half_log_det(&g));
}
cj_tensor *cj__gaussian_variance(const cj_dist *d)
{
    cj_tensor *v = squares(d->p[1], -1);
    if (d->kind == CJ_DIST_LOW_RANK_NORMAL) v = cj_add(v, d->p[2]);
    return cj_add(v, cj_mul_scalar(d->p[0], 0));
}
cj_tensor *cj__gaussian_entropy(const cj_dist *d)
{
    const gaussian g = opened(d);
    return over_batch(&g, cj_add_scalar(half_log_det(&g), 0.5 * (1 + CJ_LOG_2PI) * (double)last(g.loc)));
}
cj_tensor *cj__gaussian_mgf(const cj_dist *d, cj_tensor *t)
{
    const gaussian g = opened(d);
    return cj_exp(cj_add(cj__last_sum(cj_mul(t, g.loc)), cj_mul_scalar(spread(&g, t), 0.5)));
}

/* (log det Sq - log det Sp + tr(Sq⁻¹·Sp) + |mp - mq|²_q - d) / 2: the trace is the sum of xᵀ·Sq⁻¹·x over the columns x of any root of Sp. */
cj_tensor *cj__gaussian_kl(const cj_dist *dp, const cj_dist *dq)
{
    const gaussian p = opened(dp), q = opened(dq);
    cj_ctx *c = dp->p[0]->ctx;
    if (!cj_ok(c)) return c->poison;
    const int64_t n = last(p.loc);
    if (last(q.loc) != n)
        return cj_fail(c, CJ_ESHAPE, "kl: two Gaussians of one dimension are expected, found %lld and %lld", (long long)n,
                       (long long)last(q.loc));
    cj_tensor *trace = cj__last_sum(mahalanobis(&q, p.l ? p.l : p.w));
    if (!p.l) {
        cj_tensor *root = cj_mul(cj_unsqueeze(cj_sqrt(p.diagonal), -2), cj_eye(c, n, (cj_dtype)p.loc->dtype));
        trace = cj_add(trace, cj__last_sum(mahalanobis(&q, root)));
    }
    cj_tensor *far = mahalanobis_of_rows(&q, cj_sub(p.loc, q.loc)), *logs = cj_sub(half_log_det(&q), half_log_det(&p));
    return cj_add(logs, cj_mul_scalar(cj_add_scalar(cj_add(trace, far), -(double)n), 0.5));
}

/* [.., n, m] for a batch: as it is, or repeated to the batch of the outcomes. */
static cj_tensor *repeated(cj_tensor *a, cj_shape batch)
{
    if (a->ndim == 2) return a;
    batch.ndim--; /* the outcome's own axis */
    batch.dim[batch.ndim++] = a->shape[a->ndim - 2];
    batch.dim[batch.ndim++] = a->shape[a->ndim - 1];
    return cj_expand(a, batch);
}
/* loc + L·e, or loc + W·e + sqrt(D)·e'; `batch` is the joint shape of the parameters. */
cj_tensor *cj__gaussian_sample(const cj_dist *d, cj_shape shape, cj_shape batch, cj_stream stream)
{
    cj_ctx *c = d->p[0]->ctx;
    const cj_random_opts o = { (cj_dtype)d->p[0]->dtype, stream };
    cj_shape inner = shape;
    inner.dim[inner.ndim - 1] = last(d->p[1]);
    cj_tensor *x = cj_add(d->p[0], cj__ordered_product(cj_randn(c, inner, &o), cj_t(repeated(d->p[1], batch))));
    if (d->kind == CJ_DIST_LOW_RANK_NORMAL) x = cj_add(x, cj_mul(cj_sqrt(d->p[2]), cj_randn(c, shape, &o)));
    return x;
}

/* ---- making them ------------------------------------------------------------------------------------------------------------------------------- */

static bool is_vector(const cj_tensor *x) { return x->ndim >= 1 && last(x) >= 1; }

/* Do the leading axes of a (without its last `skip`) and those of b broadcast? */
static bool batches_fit(const cj_tensor *a, int skip_a, const cj_tensor *b, int skip_b)
{
    int nd;
    int64_t shape[CJ_MAX_DIMS];
    return cj__broadcast(a->ndim - skip_a, a->shape, b->ndim - skip_b, b->shape, &nd, shape);
}

cj_dist(cj_dist_multivariate_normal)(cj_tensor *loc, cj_tensor *matrix, cj_matrix_form form)
{
    static const char name[] = "multivariate_normal";
    static const char *const forms[] = { "covariance", "precision", "scale_tril" };
    cj_dist d = { .kind = CJ_DIST_MULTIVARIATE_NORMAL };
    cj_ctx *c = loc ? loc->ctx : matrix ? matrix->ctx : NULL;
    if (!c) return d;
    d.p[0] = d.p[1] = c->poison;
    if ((unsigned)form > CJ_SCALE_TRIL) {
        cj__error(c, CJ_EVALUE, "%s: form %d is none of covariance, precision and scale_tril", name, (int)form);
        return d;
    }
    cj_tensor *m = cj__dist_finite(c, name, 0, "loc", loc), *a = m ? cj__dist_finite(c, name, 1, forms[form], matrix) : NULL;
    if (!a) return d;
    if (!is_vector(m) || a->ndim < 2 || last(a) != last(m) || a->shape[a->ndim - 2] != last(m) || !batches_fit(m, 1, a, 2)) {
        cj__error(c, CJ_ESHAPE, "%s: loc [.., d] and %s [.., d, d] are expected, found %s and %s", name, forms[form], cj__tensor_text(m),
                  cj__tensor_text(a));
        return d;
    }
    const cj_dtype t = cj__promote_n((cj_tensor *[]){ m, a }, 2);
    m = cj_cast(m, t), a = cj_cast(a, t);
    if (form == CJ_COVARIANCE) a = cj_cholesky(a, NULL);
    else if (form == CJ_PRECISION) {
        /* P = U·Uᵀ with U upper triangular, by Cholesky of P turned around; then S = L·Lᵀ with L = (Uᵀ)⁻¹ */
        cj_tensor *turned = cj_slice(cj_slice(a, -1, -1, CJ_END, -1), -2, -1, CJ_END, -1), *l = cj_cholesky(turned, NULL);
        cj_tensor *u = cj_slice(cj_slice(l, -1, -1, CJ_END, -1), -2, -1, CJ_END, -1);
        a = cj_tril(cj_solve_triangular(cj_t(u), cj_eye(c, last(m), t), NULL), 0);
    } else {
        if (!cj__dist_positive(c, name, 1, "diagonal of scale_tril", pivots(a))) return d;
        a = cj_tril(a, 0);
    }
    if (cj_ok(c)) d.p[0] = m, d.p[1] = a;
    return d;
}

cj_dist(cj_dist_low_rank_normal)(cj_tensor *loc, cj_tensor *factor, cj_tensor *diagonal)
{
    static const char name[] = "low_rank_normal";
    cj_dist d = { .kind = CJ_DIST_LOW_RANK_NORMAL };
    cj_ctx *c = loc ? loc->ctx : factor ? factor->ctx : diagonal ? diagonal->ctx : NULL;
    if (!c) return d;
    d.p[0] = d.p[1] = d.p[2] = c->poison;
    cj_tensor *m = cj__dist_finite(c, name, 0, "loc", loc), *w = m ? cj__dist_finite(c, name, 1, "factor", factor) : NULL;
    cj_tensor *v = w ? cj__dist_positive(c, name, 2, "diagonal", diagonal) : NULL;
    if (!v) return d;
    if (!is_vector(m) || w->ndim < 2 || last(w) < 1 || w->shape[w->ndim - 2] != last(m) || !is_vector(v) || last(v) != last(m) ||
        !batches_fit(m, 1, w, 2) || !batches_fit(m, 1, v, 1) || !batches_fit(w, 2, v, 1)) {
        cj__error(c, CJ_ESHAPE, "%s: loc [.., d], factor [.., d, r] and diagonal [.., d] are expected, found %s, %s and %s", name,
                  cj__tensor_text(m), cj__tensor_text(w), cj__tensor_text(v));
        return d;
    }
    const cj_dtype t = cj__promote_n((cj_tensor *[]){ m, w, v }, 3);
    d.p[0] = cj_cast(m, t), d.p[1] = cj_cast(w, t), d.p[2] = cj_cast(v, t);
    return d;
}

/* ---- blocks ---------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *diagonal_matrix(cj_tensor *v) { return cj_mul(cj_unsqueeze(v, -2), cj_eye(v->ctx, last(v), (cj_dtype)v->dtype)); }

cj_tensor *(cj_dist_covariance)(cj_dist d)
{
    if (!cj__dist_ctx(&d, "covariance")) return CJ_POISON_OF(d.p[0]);
    if (d.weights) return cj__dist_none(&d, "covariance");
    if (d.kind == CJ_DIST_DIAGONAL_NORMAL) return diagonal_matrix((cj_dist_variance)(d));
    if (d.kind != CJ_DIST_MULTIVARIATE_NORMAL && d.kind != CJ_DIST_LOW_RANK_NORMAL) return cj__dist_none(&d, "covariance");
    cj_tensor *s = cj_matmul(d.p[1], cj_t(d.p[1]));
    return d.kind == CJ_DIST_LOW_RANK_NORMAL ? cj_add(s, diagonal_matrix(d.p[2])) : s;
}

/* Mean and covariance of a Gaussian with d coordinates, 0 <= begin < end <= d; false after an error. */
static bool whole(const char *op, const cj_dist *d, int64_t begin, int64_t end, cj_tensor **mean, cj_tensor **s)
{
    cj_ctx *c = cj__dist_ctx(d, op);
    if (!c) return false;
    if (d->kind != CJ_DIST_MULTIVARIATE_NORMAL && d->kind != CJ_DIST_LOW_RANK_NORMAL)
        return cj__error(c, CJ_EVALUE, "%s: a multivariate or low-rank normal is expected, found %s", op, cj__dists[d->kind].name);
    const int64_t n = last(d->p[0]);
    if (begin < 0 || begin >= end || end > n)
        return cj__error(c, CJ_EVALUE, "%s: coordinates %lld to %lld are not among %lld", op, (long long)begin, (long long)end - 1,
                         (long long)n);
    *mean = d->p[0], *s = (cj_dist_covariance)(*d);
    return cj_ok(c);
}
static cj_tensor *part(cj_tensor *x, int axis, int64_t begin, int64_t end) { return cj_slice(x, axis, begin, end, 1); }
static cj_tensor *block(cj_tensor *s, int64_t r0, int64_t r1, int64_t c0, int64_t c1) { return part(part(s, -2, r0, r1), -1, c0, c1); }

cj_dist(cj_gaussian_marginal)(cj_dist d, int64_t begin, int64_t end)
{
    cj_tensor *m, *s;
    if (!whole("gaussian_marginal", &d, begin, end, &m, &s)) return d;
    return (cj_dist_multivariate_normal)(part(m, -1, begin, end), block(s, begin, end, begin, end), CJ_COVARIANCE);
}

/* With S22 = K·Kᵀ and A = K⁻¹·S21: mean m1 + Aᵀ·K⁻¹·(y - m2), covariance S11 - Aᵀ·A. */
cj_dist(cj_gaussian_conditional)(cj_dist d, int64_t k, cj_tensor *y)
{
    cj_tensor *m, *s;
    if (!whole("gaussian_conditional", &d, 0, k, &m, &s)) return d;
    cj_ctx *c = m->ctx;
    const int64_t n = last(m);
    if (!cj__usable(c, "gaussian_conditional", 2, y)) return d;
    if (k == n || y->ndim < 1 || last(y) != n - k) {
        cj__error(c, CJ_ESHAPE, "gaussian_conditional: values of the last %lld coordinates are expected, found %s", (long long)(n - k),
                  cj__tensor_text(y));
        return d;
    }
    cj_tensor *root = cj_cholesky(block(s, k, n, k, n), NULL), *a = cj_solve_triangular(root, block(s, k, n, 0, k), NULL);
    cj_tensor *z = cj_solve_triangular(root, cj_unsqueeze(cj_sub(y, part(m, -1, k, n)), -1), NULL);
    cj_tensor *mean = cj_add(part(m, -1, 0, k), cj_squeeze(cj_matmul(cj_t(a), z), -1));
    return (cj_dist_multivariate_normal)(mean, cj_sub(block(s, 0, k, 0, k), cj_matmul(cj_t(a), a)), CJ_COVARIANCE);
}
