/* Information of tables and distances of distributions, in public operators. */
#include <math.h>

#include "math/dist.h"

/* Two usable tensors with a last axis. */
static bool pair(const char *op, cj_tensor *p, cj_tensor *q)
{
    cj_ctx *c = p ? p->ctx : q ? q->ctx : NULL;
    if (!c || !cj_ok(c) || !cj__usable(c, op, 0, p) || !cj__usable(c, op, 1, q)) return false;
    if (p->ndim < 1 || q->ndim < 1)
        return cj__error(c, CJ_ESHAPE, "%s: tables [.., K] are expected, found %s and %s", op, cj__tensor_text(p), cj__tensor_text(q));
    return true;
}
#define POISON(p, q) CJ_POISON_OF((p) ? (p) : (q))

cj_tensor *(cj_entropy)(cj_tensor *p) { return pair("entropy", p, p) ? cj_neg(cj__last_sum(cj_xlogy(p, p))) : POISON(p, p); }
cj_tensor *(cj_table_cross_entropy)(cj_tensor *p, cj_tensor *q)
{
    return pair("table_cross_entropy", p, q) ? cj_neg(cj__last_sum(cj_xlogy(p, q))) : POISON(p, q);
}
cj_tensor *(cj_relative_entropy)(cj_tensor *p, cj_tensor *q)
{
    if (!pair("relative_entropy", p, q)) return POISON(p, q);
    return cj__last_sum(cj_sub(cj_xlogy(p, p), cj_xlogy(p, q)));
}
cj_tensor *(cj_jensen_shannon)(cj_tensor *p, cj_tensor *q)
{
    if (!pair("jensen_shannon", p, q)) return POISON(p, q);
    cj_tensor *m = cj_mul_scalar(cj_add(p, q), 0.5);
    return cj_mul_scalar(cj_add((cj_relative_entropy)(p, m), (cj_relative_entropy)(q, m)), 0.5);
}
cj_tensor *(cj_mutual_information)(cj_tensor *joint)
{
    if (!pair("mutual_information", joint, joint)) return POISON(joint, joint);
    cj_ctx *c = joint->ctx;
    if (joint->ndim < 2)
        return cj_fail(c, CJ_ESHAPE, "mutual_information: a table [.., X, Y] is expected, found %s", cj__tensor_text(joint));
    cj_tensor *x = cj_sum(joint, &(cj_reduce_opts){ .axes = CJ_AXIS(-1), .keepdim = true });
    cj_tensor *y = cj_sum(joint, &(cj_reduce_opts){ .axes = CJ_AXIS(-2), .keepdim = true });
    cj_tensor *apart = cj_mul(x, y);
    return cj_sum(cj_sub(cj_xlogy(joint, joint), cj_xlogy(joint, apart)), &(cj_reduce_opts){ .axes = CJ_AXES(-2, -1) });
}

cj_tensor *(cj_conditional_mutual_information)(cj_tensor *joint)
{
    if (!pair("conditional_mutual_information", joint, joint)) return POISON(joint, joint);
    if (joint->ndim < 3)
        return cj_fail(joint->ctx, CJ_ESHAPE, "conditional_mutual_information: a table [.., X, Y, Z] is expected, found %s",
                       cj__tensor_text(joint));
    /* sum p(x, y, z) log(p(x, y, z) p(z) / (p(x, z) p(y, z))) */
    cj_tensor *xz = cj_sum(joint, &(cj_reduce_opts){ .axes = CJ_AXIS(-2), .keepdim = true });
    cj_tensor *yz = cj_sum(joint, &(cj_reduce_opts){ .axes = CJ_AXIS(-3), .keepdim = true });
    cj_tensor *z = cj_sum(yz, &(cj_reduce_opts){ .axes = CJ_AXIS(-2), .keepdim = true });
    cj_tensor *terms = cj_sub(cj_add(cj_xlogy(joint, joint), cj_xlogy(joint, z)), cj_add(cj_xlogy(joint, xz), cj_xlogy(joint, yz)));
    return cj_sum(terms, &(cj_reduce_opts){ .axes = CJ_AXES(-3, -2, -1) });
}

/* x / total, 0 where the total is 0. */
static cj_tensor *share(cj_tensor *x, cj_tensor *total)
{
    cj_tensor *some = cj_ne_scalar(total, 0);
    return cj_mul(cj_div(x, cj__else(some, total, 1)), cj_cast(some, (cj_dtype)x->dtype));
}
cj_tensor *(cj_table_conditional)(cj_tensor *joint, cj_axes axes)
{
    if (!pair("table_conditional", joint, joint)) return POISON(joint, joint);
    return share(joint, cj_sum(joint, &(cj_reduce_opts){ .axes = axes, .keepdim = true }));
}
cj_tensor *(cj_bayes)(cj_tensor *prior, cj_tensor *likelihood)
{
    if (!pair("bayes", prior, likelihood)) return POISON(prior, likelihood);
    if (likelihood->ndim < 2 || likelihood->shape[likelihood->ndim - 2] != prior->shape[prior->ndim - 1])
        return cj_fail(prior->ctx, CJ_ESHAPE, "bayes: prior [.., Y] and likelihood [.., Y, X] are expected, found %s and %s",
                       cj__tensor_text(prior), cj__tensor_text(likelihood));
    return (cj_table_conditional)(cj_t(cj_mul(cj_unsqueeze(prior, -1), likelihood)), CJ_AXIS(-1));
}

/* ---- distances ------------------------------------------------------------------------------------------------------------------------------------ */

/* In one dimension the best plan takes the i-th smallest to the i-th smallest: their differences. */
static cj_tensor *sorted_apart(const char *op, cj_tensor *x, cj_tensor *y)
{
    if (!pair(op, x, y)) return POISON(x, y);
    if (x->shape[x->ndim - 1] != y->shape[y->ndim - 1])
        return cj_fail(x->ctx, CJ_ESHAPE, "%s: as many samples of each are expected, found %s and %s", op, cj__tensor_text(x),
                       cj__tensor_text(y));
    return cj_sub(cj_sort(x, -1, NULL).values, cj_sort(y, -1, NULL).values);
}
cj_tensor *(cj_wasserstein1)(cj_tensor *x, cj_tensor *y)
{
    return cj_mean(cj_abs(sorted_apart("wasserstein1", x, y)), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}
cj_tensor *(cj_wasserstein2)(cj_tensor *x, cj_tensor *y)
{
    return cj_mean(cj_square(sorted_apart("wasserstein2", x, y)), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}
cj_tensor *(cj_gaussian_w2_full)(cj_tensor *m1, cj_tensor *s1, cj_tensor *m2, cj_tensor *s2)
{
    if (!pair("gaussian_w2_full", m1, m2) || !pair("gaussian_w2_full", s1, s2)) return POISON(m1, m2);
    if (s1->ndim < 2 || s2->ndim < 2 || s1->shape[s1->ndim - 1] != m1->shape[m1->ndim - 1] ||
        s2->shape[s2->ndim - 1] != m2->shape[m2->ndim - 1])
        return cj_fail(m1->ctx, CJ_ESHAPE,
                       "gaussian_w2_full: means [.., d] and covariances [.., d, d] are expected, found %s, %s, %s and %s",
                       cj__tensor_text(m1), cj__tensor_text(s1), cj__tensor_text(m2), cj__tensor_text(s2));
    cj_tensor *root = cj_matrix_sqrt(s1), *inner = cj_matmul(cj_matmul(root, s2), root);
    inner = cj_mul_scalar(cj_add(inner, cj_t(inner)), 0.5); /* symmetric to the bit: its root goes by eigenvalues */
    cj_tensor *trace = cj_sub(cj_add(cj_matrix_trace(s1), cj_matrix_trace(s2)), cj_mul_scalar(cj_matrix_trace(cj_matrix_sqrt(inner)), 2));
    return cj_add(cj__last_sum(cj_square(cj_sub(m1, m2))), trace);
}
cj_tensor *(cj_gaussian_w2)(cj_tensor *m1, cj_tensor *s1, cj_tensor *m2, cj_tensor *s2)
{
    if (!pair("gaussian_w2", m1, m2) || !pair("gaussian_w2", s1, s2)) return POISON(m1, m2);
    return cj__last_sum(cj_add(cj_square(cj_sub(m1, m2)), cj_square(cj_sub(s1, s2))));
}

/* f = -eps log sum_j b_j e^((g_j - C_ij)/eps), and g alike. */
static cj_tensor *soft_minimum(cj_tensor *cost, cj_tensor *potential, cj_tensor *log_weight, double eps, int axis)
{
    cj_tensor *inner = cj_add(cj_mul_scalar(cj_sub(potential, cost), 1 / eps), log_weight);
    return cj_mul_scalar(cj_logsumexp(inner, &(cj_reduce_opts){ .axes = CJ_AXIS(axis), .keepdim = true }), -eps);
}
cj_tensor *(cj_sinkhorn)(cj_tensor *cost, cj_tensor *a, cj_tensor *b, const cj_sinkhorn_opts *opts)
{
    if (!pair("sinkhorn", a, b) || !pair("sinkhorn", cost, a)) return POISON(a, b);
    const double eps = opts && opts->eps ? opts->eps : 0.05;
    const int64_t iterations = opts && opts->iterations ? opts->iterations : 100;
    if (cost->ndim != 2 || a->ndim != 1 || b->ndim != 1 || cost->shape[0] != a->shape[0] || cost->shape[1] != b->shape[0])
        return cj_fail(cost->ctx, CJ_ESHAPE, "sinkhorn: cost [n, m], a [n] and b [m] are expected, found %s, %s and %s",
                       cj__tensor_text(cost), cj__tensor_text(a), cj__tensor_text(b));
    if (!(eps > 0) || iterations < 1)
        return cj_fail(cost->ctx, CJ_EVALUE, "sinkhorn: a positive eps and at least 1 iteration are expected, found %g and %lld", eps,
                       (long long)iterations);
    cj_tensor *la = cj_unsqueeze(cj_log(a), 1), *lb = cj_unsqueeze(cj_log(b), 0);
    cj_tensor *f = cj_mul_scalar(cj_unsqueeze(a, 1), 0), *g = cj_mul_scalar(cj_unsqueeze(b, 0), 0);
    for (int64_t i = 0; i < iterations && cj_ok(cost->ctx); i++) {
        f = soft_minimum(cost, g, lb, eps, 1);
        g = soft_minimum(cost, f, la, eps, 0);
    }
    cj_tensor *plan = cj_exp(cj_add(cj_add(cj_mul_scalar(cj_sub(cj_add(f, g), cost), 1 / eps), la), lb));
    return cj_sum(cj_mul(plan, cost), NULL);
}

cj_tensor *(cj_mmd_rbf)(cj_tensor *x, cj_tensor *y, double width)
{
    if (!pair("mmd_rbf", x, y)) return POISON(x, y);
    if (x->ndim != 2 || y->ndim != 2 || x->shape[1] != y->shape[1])
        return cj_fail(x->ctx, CJ_ESHAPE, "mmd_rbf: x [n, d] and y [m, d] are expected, found %s and %s", cj__tensor_text(x),
                       cj__tensor_text(y));
    if (!(width > 0)) return cj_fail(x->ctx, CJ_EVALUE, "mmd_rbf: a positive width is expected, found %g", width);
    return cj_mmd(x, y, &(cj_mmd_opts){ .bandwidth = width, .biased = true });
}

cj_tensor *(cj_cov)(cj_tensor *x, const cj_cov_opts *opts)
{
    if (!pair("cov", x, x)) return POISON(x, x);
    cj_tensor *w = opts ? opts->weights : NULL;
    if (w) {
        if (!cj__usable(x->ctx, "cov", 1, w)) return x->ctx->poison;
        if (x->ndim != 2 || w->ndim != 1 || w->shape[0] != x->shape[0])
            return cj_fail(x->ctx, CJ_ESHAPE, "cov: [n, d] and weights [n] are expected, found %s and %s", cj__tensor_text(x),
                           cj__tensor_text(w));
        w = cj_unsqueeze(w, 1);
        cj_tensor *r = cj_sub(x, cj_sum(cj_mul(w, x), &(cj_reduce_opts){ .axes = CJ_AXIS(0), .keepdim = true }));
        return cj_matmul(cj_t(r), cj_mul(w, r));
    }
    const bool biased = opts && opts->biased;
    if (x->ndim != 2 || x->shape[0] < (biased ? 1 : 2))
        return cj_fail(x->ctx, CJ_ESHAPE, "cov: [n, d] with at least %d samples is expected, found %s", biased ? 1 : 2, cj__tensor_text(x));
    cj_tensor *r = cj_sub(x, cj_mean(x, &(cj_reduce_opts){ .axes = CJ_AXIS(0), .keepdim = true }));
    return cj_mul_scalar(cj_matmul(cj_t(r), r), 1 / (double)(x->shape[0] - !biased));
}
cj_tensor *(cj_corr)(cj_tensor *x)
{
    if (!x) return NULL;
    const cj_called was = cj__called(x->ctx, "corr", NULL);
    cj_tensor *v = cj__called_done(x->ctx, was, (cj_cov)(x, NULL)), *s = v && cj_ndim(v) == 2 ? cj_sqrt(cj_diagonal(v, 0, 0, 1)) : v;
    return !cj_ok(x->ctx) ? v : cj_div(cj_div(v, cj_unsqueeze(s, 0)), cj_unsqueeze(s, 1));
}
