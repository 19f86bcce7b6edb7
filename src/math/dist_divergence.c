/* Relative entropies in closed form: of two distributions of one kind by their formula, and of different kinds over numbers through
 *
 *     KL(p | q) = -H(p) - E_p log q
 *
 * where q's log-density is made of functions whose mean under p is known: x, x², e^(-x/s), log x, log(1 - x).  Where p has mass outside of q's support it is infinite.
 */
#include <math.h>

#include "math/dist.h"

static cj_tensor *one_minus(cj_tensor *x) { return cj_add_scalar(cj_neg(x), 1); }

/* ---- two kinds ----------------------------------------------------------------------------------------------------------------------------------- */

/* Support of a kind over numbers; uniform's ends are its parameters. */
typedef enum support { LINE, POSITIVE, UNIT, INTERVAL } support;
static support support_of(cj_dist_kind kind)
{
    switch (kind) {
    case CJ_DIST_EXPONENTIAL:
    case CJ_DIST_GAMMA: return POSITIVE;
    case CJ_DIST_BETA: return UNIT;
    case CJ_DIST_UNIFORM: return INTERVAL;
    default: return LINE;
    }
}
/* (x log x - x) at the ends of a uniform law, over its length: the mean of log x. */
static cj_tensor *uniform_log(cj_tensor *low, cj_tensor *high)
{
    return cj_add_scalar(cj_div(cj_sub(cj_xlogy(high, high), cj_xlogy(low, low)), cj_sub(high, low)), -1);
}
/* E_p log x, for p on the positive numbers (uniform: where it is). */
static cj_tensor *mean_log(const cj_dist *p)
{
    cj_tensor *a = p->p[0], *b = p->p[1];
    switch (p->kind) {
    case CJ_DIST_EXPONENTIAL: return cj_neg(cj_add_scalar(cj_log(a), CJ_EULER));
    case CJ_DIST_GAMMA: return cj_sub(cj_digamma(a), cj_log(b));
    case CJ_DIST_BETA: return cj_sub(cj_digamma(a), cj_digamma(cj_add(a, b)));
    default: return uniform_log(a, b);
    }
}
/* Where p's mass lies in q's support [low, high] it is x, else INFINITY. */
static cj_tensor *inside(const cj_dist *p, cj_tensor *low, cj_tensor *high, cj_tensor *x)
{
    const support s = support_of(p->kind);
    cj_tensor *begin = s == INTERVAL ? p->p[0] : cj__const_like(x, s == LINE ? -INFINITY : 0);
    cj_tensor *end = s == INTERVAL ? p->p[1] : cj__const_like(x, s == UNIT ? 1 : INFINITY);
    return cj__else(cj_logical_and(cj_ge(begin, low), cj_le(end, high)), x, INFINITY);
}

/* -E_p log q, or NULL where it has no closed form. */
static cj_tensor *cross_entropy(const cj_dist *p, const cj_dist *q)
{
    cj_tensor *u = q->p[0], *v = q->p[1], *m = (cj_dist_mean)(*p), *zero = cj__const_like(u, 0), *infinity = cj__const_like(u, INFINITY);
    const support s = support_of(p->kind);
    switch (q->kind) {
    case CJ_DIST_NORMAL: { /* log v + log(2 pi)/2 + E (x - u)² / 2v² */
        cj_tensor *square = cj_add((cj_dist_variance)(*p), cj_square(cj_sub(m, u)));
        return cj_add(cj_add_scalar(cj_log(v), 0.5 * CJ_LOG_2PI), cj_mul_scalar(cj_div(square, cj_square(v)), 0.5));
    }
    case CJ_DIST_GUMBEL: { /* log v + E z + E e^-z, z = (x - u)/v */
        if (p->kind == CJ_DIST_BETA || p->kind == CJ_DIST_STUDENT_T) return NULL;
        cj_tensor *e = cj_mul((cj_dist_mgf)(*p, cj_neg(cj_reciprocal(v))), cj_exp(cj_div(u, v)));
        return cj_add(cj_add(cj_log(v), cj_div(cj_sub(m, u), v)), e);
    }
    case CJ_DIST_LAPLACE: { /* log 2v + E|x - u| / v; of a normal s sqrt(2/pi) e^(-z²/2) + (m - u)(2 Phi(z) - 1), z = (m - u)/s */
        if (p->kind != CJ_DIST_NORMAL) return NULL;
        cj_tensor *far = cj_sub(m, u), *z = cj_div(far, p->p[1]), *bell = cj_mul(p->p[1], cj_exp(cj_mul_scalar(cj_square(z), -0.5)));
        cj_tensor *e = cj_add(cj_mul_scalar(bell, sqrt(2 / M_PI)), cj_mul(far, cj_erf(cj_mul_scalar(z, M_SQRT1_2))));
        return cj_add(cj_log(cj_mul_scalar(v, 2)), cj_div(e, v));
    }
    case CJ_DIST_EXPONENTIAL: return inside(p, zero, infinity, cj_sub(cj_mul(u, m), cj_log(u)));
    case CJ_DIST_GAMMA: {
        if (s == LINE) return inside(p, zero, infinity, cj_mul(m, cj_mul(u, v)));
        cj_tensor *e = cj_sub(cj_mul(v, m), cj_mul(cj_add_scalar(u, -1), mean_log(p)));
        return inside(p, zero, infinity, cj_add(e, cj_sub(cj_lgamma(u), cj_mul(u, cj_log(v)))));
    }
    case CJ_DIST_BETA: {
        cj_tensor *one = cj__const_like(u, 1);
        if (p->kind != CJ_DIST_UNIFORM) return inside(p, zero, one, cj_mul(m, cj_mul(u, v)));
        cj_tensor *e = cj_mul(cj_add_scalar(u, -1), mean_log(p));
        e = cj_add(e, cj_mul(cj_add_scalar(v, -1), uniform_log(one_minus(p->p[1]), one_minus(p->p[0]))));
        return inside(p, zero, one, cj_sub(cj_lbeta(u, v), e));
    }
    case CJ_DIST_UNIFORM: return inside(p, u, v, cj_add(cj_log(cj_sub(v, u)), cj_mul_scalar(m, 0)));
    default: return NULL;
    }
}
static cj_tensor *between_kinds(const cj_dist *p, const cj_dist *q)
{
    cj_ctx *c = p->p[0]->ctx;
    if (cj__dist_is_gaussian(p) && cj__dist_is_gaussian(q)) return cj__gaussian_kl(p, q);
    if (p->kind == CJ_DIST_BERNOULLI && q->kind == CJ_DIST_POISSON) /* 0! = 1! = 1 */
        return cj_sub(cj_sub(q->p[0], cj_xlogy(p->p[0], q->p[0])), (cj_dist_entropy)(*p));
    cj_tensor *cross = NULL;
    if (p->kind <= CJ_DIST_BETA && q->kind <= CJ_DIST_BETA && !p->exp && !q->exp) cross = cross_entropy(p, q);
    if (cross) return cj_sub(cross, (cj_dist_entropy)(*p));
    return cj_fail(c, CJ_EVALUE, "kl: there is no closed form for %s and %s", cj__dists[p->kind].name, cj__dists[q->kind].name);
}

/* ---- one kind -------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *dirichlet_kl(cj_tensor *a, cj_tensor *b)
{
    cj_tensor *sa = cj__last_sum(a), *sb = cj__last_sum(b);
    cj_tensor *norm = cj_add(cj_sub(cj_lgamma(sa), cj_lgamma(sb)), cj__last_sum(cj_sub(cj_lgamma(b), cj_lgamma(a))));
    return cj_add(norm, cj__last_sum(cj_mul(cj_sub(a, b), cj_sub(cj_digamma(a), cj_unsqueeze(cj_digamma(sa), -1)))));
}
/* p log(p/q), 0 where p is 0 */
static cj_tensor *term(cj_tensor *p, cj_tensor *q) { return cj_sub(cj_xlogy(p, p), cj_xlogy(p, q)); }

cj_tensor *(cj_dist_kl)(cj_dist p, cj_dist q)
{
    cj_ctx *c = cj__dist_ctx(&p, "kl");
    if (!c || !cj__dist_ctx(&q, "kl")) return CJ_POISON_OF(p.p[0] ? p.p[0] : q.p[0]);
    if (p.weights || q.weights || p.shift || q.shift) return cj__dist_none(p.weights || p.shift ? &p : &q, "kl");
    if (p.kind != q.kind) return between_kinds(&p, &q);
    if (p.exp != q.exp || p.count != q.count)
        return cj_fail(c, CJ_EVALUE, "kl: two distributions alike in exp and trials are expected, found two of %s that are not",
                       cj__dists[p.kind].name);
    /* e^X is one-to-one: the divergence stays */
    cj_tensor *a = p.p[0], *b = p.p[1], *u = q.p[0], *v = q.p[1];
    switch (p.kind) {
    case CJ_DIST_NORMAL:
    case CJ_DIST_DIAGONAL_NORMAL: {
        cj_tensor *r = cj_square(cj_div(b, v)), *z = cj_square(cj_div(cj_sub(a, u), v));
        cj_tensor *k = cj_mul_scalar(cj_sub(cj_add_scalar(cj_add(r, z), -1), cj_log(r)), 0.5);
        return p.kind == CJ_DIST_NORMAL ? k : cj__last_sum(k);
    }
    case CJ_DIST_LAPLACE: {
        cj_tensor *far = cj_abs(cj_sub(a, u)), *r = cj_div(b, v);
        return cj_add_scalar(cj_sub(cj_add(cj_div(far, v), cj_mul(r, cj_exp(cj_neg(cj_div(far, b))))), cj_log(r)), -1);
    }
    case CJ_DIST_GUMBEL: {
        cj_tensor *r = cj_div(b, v), *z = cj_div(cj_sub(a, u), v);
        cj_tensor *k = cj_add(cj_sub(z, cj_log(r)), cj_exp(cj_sub(cj_lgamma(cj_add_scalar(r, 1)), z)));
        return cj_add_scalar(cj_add(k, cj_mul_scalar(r, CJ_EULER)), -CJ_EULER - 1);
    }
    case CJ_DIST_UNIFORM: {
        cj_tensor *inside = cj_logical_and(cj_le(u, a), cj_ge(v, b));
        return cj__else(inside, cj_log(cj_div(cj_sub(v, u), cj_sub(b, a))), INFINITY);
    }
    case CJ_DIST_EXPONENTIAL: {
        cj_tensor *r = cj_div(u, a);
        return cj_sub(cj_add_scalar(r, -1), cj_log(r));
    }
    case CJ_DIST_GAMMA: {
        cj_tensor *k = cj_add(cj_mul(u, cj_log(cj_div(b, v))), cj_sub(cj_lgamma(u), cj_lgamma(a)));
        return cj_add(cj_add(k, cj_mul(cj_sub(a, u), cj_digamma(a))), cj_mul(cj_sub(v, b), cj_div(a, b)));
    }
    case CJ_DIST_BETA: {
        cj_tensor *all = cj_digamma(cj_add(a, b)), *k = cj_sub(cj_lbeta(u, v), cj_lbeta(a, b));
        return cj_add(k, cj_add(cj_mul(cj_sub(a, u), cj_sub(cj_digamma(a), all)), cj_mul(cj_sub(b, v), cj_sub(cj_digamma(b), all))));
    }
    case CJ_DIST_DIRICHLET: return dirichlet_kl(a, u);
    case CJ_DIST_VON_MISES: { /* log(I0(v)/I0(b)) + A(b) (b - v cos(a - u)), A = I1/I0 */
        cj_tensor *i0 = cj_bessel_i0e(b), *logs = cj_add(cj_log(cj_div(cj_bessel_i0e(v), i0)), cj_sub(v, b));
        return cj_add(logs, cj_mul(cj_div(cj_bessel_i1e(b), i0), cj_sub(b, cj_mul(v, cj_cos(cj_sub(a, u))))));
    }
    case CJ_DIST_MULTIVARIATE_NORMAL:
    case CJ_DIST_LOW_RANK_NORMAL: return cj__gaussian_kl(&p, &q);
    case CJ_DIST_BERNOULLI: return cj_add(term(a, u), term(one_minus(a), one_minus(u)));
    case CJ_DIST_BINOMIAL: /* of as many trials; INFINITY where q has fewer */
        return cj__else(cj_ge(u, a), cj__else(cj_eq(u, a), cj_mul(a, cj_add(term(b, v), term(one_minus(b), one_minus(v)))), NAN), INFINITY);
    case CJ_DIST_POISSON: return cj_add(term(a, u), cj_sub(u, a));
    case CJ_DIST_CATEGORICAL: return cj_relative_entropy(cj_exp(a), cj_exp(u));
    case CJ_DIST_MULTINOMIAL: return cj_mul_scalar(cj_relative_entropy(cj_exp(a), cj_exp(u)), (double)p.count);
    default: return cj__dist_none(&p, "kl");
    }
}
