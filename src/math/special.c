/* Special functions, element by element, with derivatives in the same functions.
 *
 * The mathematics is in special_body.h, once for f64 (in long double) and once for the narrower types (in f64).
 */
#include <math.h>
#include <stdbool.h>

#include "cajal/grad.h"
#include "math/math.h"
#include "ops/compose.h"

#define REAL double
#define F(x) d_##x
#define M(x) x
#define LGAMMA_R lgamma_r
#include "math/special_body.h"

#define REAL long double
#define F(x) l_##x
#define M(x) x##l
#define LGAMMA_R lgammal_r
#include "math/special_body.h"

typedef struct special_attrs {
    int64_t f; /* which of the functions below */
    int64_t n; /* order of a derivative; upper half of an incomplete integral; orders of a moment: i + 16 j */
} special_attrs;

enum {
    LGAMMA,
    GAMMA,
    DIGAMMA,
    POLYGAMMA,
    LBETA,
    GAMMAINC,
    BETAINC,
    ERFC,
    ERFINV,
    J0,
    J1,
    I0E,
    I1E,
    GAMMAINCINV,
    BETAINCINV,
    STDTRIT,
    BETA,
    NDTR,
    NDTRI,
    GAMMA_MOMENT,
    BETA_MOMENT,
    STDTR,
    STUDENT_MOMENT
};

enum { ORDERS = d_orders }; /* of moments, one more than the highest */

static double in_f64(int f, int64_t n, double x, double y, double z)
{
    switch (f) {
    case LGAMMA: return d_lgamma(x);
    case GAMMA: return d_gamma(x);
    case DIGAMMA: return d_digamma(x);
    case POLYGAMMA: return d_polygamma((int)n, x);
    case LBETA: return d_lbeta(x, y);
    case BETA: return exp(d_lbeta(x, y));
    case NDTR: return erfc(-x * M_SQRT1_2) / 2;
    case NDTRI: return d_ndtri(x);
    case GAMMAINC: return d_gammainc(x, y, n);
    case GAMMA_MOMENT: return n == 1 ? d_gammainc_da(x, y) : d_gamma_moment((int)n, x, y);
    case STDTR: return d_stdtr(x, y);
    case STUDENT_MOMENT: return d_student_moment((int)n, x, y);
    case BETA_MOMENT: return d_beta_moment((int)(n % 16), (int)(n / 16), x, y, z);
    case BETAINC: return d_betainc(x, y, z);
    case GAMMAINCINV: return d_gammaincinv(x, y);
    case BETAINCINV: return d_betaincinv(x, y, z);
    case STDTRIT: return d_stdtrit(x, y);
    case ERFC: return erfc(x);
    case ERFINV: return d_erfinv(x);
    case J0: return j0(x);
    case J1: return j1(x);
    case I0E: return d_bessel_ie(0, x);
    default: return d_bessel_ie(1, x);
    }
}
static double in_long(int f, int64_t n, double x, double y, double z)
{
    switch (f) {
    case LGAMMA: return (double)l_lgamma(x);
    case GAMMA: return (double)l_gamma(x);
    case DIGAMMA: return (double)l_digamma(x);
    case POLYGAMMA: return (double)l_polygamma((int)n, x);
    case LBETA: return (double)l_lbeta(x, y);
    case BETA: return (double)expl(l_lbeta(x, y));
    case NDTR: return (double)(erfcl(-x * 0.70710678118654752440084436210484904L) / 2);
    case NDTRI: return (double)l_ndtri(x);
    case GAMMAINC: return (double)l_gammainc(x, y, n);
    case GAMMA_MOMENT: return (double)(n == 1 ? l_gammainc_da(x, y) : l_gamma_moment((int)n, x, y));
    case STDTR: return (double)l_stdtr(x, y);
    case STUDENT_MOMENT: return (double)l_student_moment((int)n, x, y);
    case BETA_MOMENT: return (double)l_beta_moment((int)(n % 16), (int)(n / 16), x, y, z);
    case BETAINC: return (double)l_betainc(x, y, z);
    case GAMMAINCINV: return (double)l_gammaincinv(x, y);
    case BETAINCINV: return (double)l_betaincinv(x, y, z);
    case STDTRIT: return (double)l_stdtrit(x, y);
    case ERFC: return (double)erfcl(x);
    case ERFINV: return (double)l_erfinv(x);
    case J0: return (double)j0l(x);
    case J1: return (double)j1l(x);
    case I0E: return (double)l_bessel_ie(0, x);
    default: return (double)l_bessel_ie(1, x);
    }
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------------- */

static bool infer(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    for (int i = 0; i < call->nin; i++)
        if (!cj__contiguous(call->in[i]) || call->in[i]->dtype != x->dtype || call->in[i]->numel != x->numel)
            return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}

static void range(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_call *call = arg;
    const special_attrs *a = call->attrs;
    const int f = (int)a->f;
    const cj_dtype t = (cj_dtype)call->in[0]->dtype;
    const size_t size = cj_dtype_size(t);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        double v[3] = { 0 };
        for (int k = 0; k < call->nin; k++) v[k] = cj__load(call->in[k], i);
        cj__store(t, call->out[0]->data + (size_t)i * size,
                  t == CJ_F64 ? in_long(f, a->n, v[0], v[1], v[2]) : in_f64(f, a->n, v[0], v[1], v[2]));
    }
}
static bool run(cj_call *call)
{
    cj__parallel_for(call->ctx->pool, call->in[0]->numel, 256, range, call);
    return true;
}

static cj_tensor *apply(int f, int64_t n, cj_tensor *x, cj_tensor *y, cj_tensor *z);
static cj_tensor *unary(int f, cj_tensor *x) { return apply(f, 0, x, NULL, NULL); }
static cj_tensor *scaled_exp(cj_tensor *log_value, double scale) { return cj_mul_scalar(cj_exp(log_value), scale); }

static void d_lgamma_of(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], unary(DIGAMMA, v->in[0])); }
static void d_gamma_of(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], cj_mul(unary(GAMMA, v->in[0]), unary(DIGAMMA, v->in[0]))); }
static void d_digamma_of(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], apply(POLYGAMMA, 1, v->in[0], NULL, NULL)); }
static void d_polygamma_of(cj_vjp_args *v)
{
    v->gin[0] = cj_mul(v->g[0], apply(POLYGAMMA, ((const special_attrs *)v->attrs)->n + 1, v->in[0], NULL, NULL));
}
static void d_lbeta_of(cj_vjp_args *v)
{
    cj_tensor *both = unary(DIGAMMA, cj_add(v->in[0], v->in[1]));
    for (int i = 0; i < 2; i++)
        if (v->need[i]) v->gin[i] = cj_mul(v->g[0], cj_sub(unary(DIGAMMA, v->in[i]), both));
}
static void d_beta_of(cj_vjp_args *v)
{
    cj_tensor *both = unary(DIGAMMA, cj_add(v->in[0], v->in[1])), *g = cj_mul(v->g[0], apply(BETA, 0, v->in[0], v->in[1], NULL));
    for (int i = 0; i < 2; i++)
        if (v->need[i]) v->gin[i] = cj_mul(g, cj_sub(unary(DIGAMMA, v->in[i]), both));
}
/* The densities whose integrals these are: x^(a-1) e^-x / Gamma(a), x^(a-1) (1-x)^(b-1) / B(a, b), and Student's. */
static cj_tensor *gamma_density(cj_tensor *a, cj_tensor *x)
{
    return cj_exp(cj_sub(cj_sub(cj_mul(cj_add_scalar(a, -1), cj_log(x)), x), unary(LGAMMA, a)));
}
static cj_tensor *beta_density(cj_tensor *a, cj_tensor *b, cj_tensor *x)
{
    cj_tensor *l = cj_add(cj_mul(cj_add_scalar(a, -1), cj_log(x)), cj_mul(cj_add_scalar(b, -1), cj_log1p(cj_neg(x))));
    return cj_exp(cj_sub(l, apply(LBETA, 0, a, b, NULL)));
}
static cj_tensor *student_density(cj_tensor *v, cj_tensor *z)
{
    cj_tensor *half = cj_mul_scalar(v, 0.5), *up = cj_add_scalar(half, 0.5);
    cj_tensor *constant = cj_sub(cj_sub(unary(LGAMMA, up), unary(LGAMMA, half)), cj_mul_scalar(cj_log(cj_mul_scalar(v, M_PI)), 0.5));
    return cj_exp(cj_sub(constant, cj_mul(up, cj_log1p(cj_div(cj_square(z), v)))));
}
/* log x - psi(a), or + psi(a + b) too, to the power n; where x is 0 so is the density that it multiplies, or infinite. */
static cj_tensor *score_power(cj_tensor *x, cj_tensor *shift, int64_t n)
{
    cj_tensor *s = cj_sub(cj_log(cj_masked_fill(x, cj_eq_scalar(x, 0), 1)), shift), *y = s;
    while (--n > 0) y = cj_mul(y, s);
    return y;
}
static bool moment_exists(cj_vjp_args *v, const char *op, int64_t order)
{
    return order < ORDERS || cj__error(v->ctx, CJ_EVALUE, "%s: there are derivatives in its parameters up to order %d", op, ORDERS - 1);
}
/* C_i of special_moments.h; C_0 is the integral itself. */
static cj_tensor *gamma_moment(int64_t i, cj_tensor *a, cj_tensor *x) { return apply(i ? GAMMA_MOMENT : GAMMAINC, i, a, x, NULL); }
static cj_tensor *beta_moment(int64_t i, int64_t j, cj_tensor *a, cj_tensor *b, cj_tensor *x)
{
    return apply(i + j ? BETA_MOMENT : BETAINC, i + 16 * j, a, b, x);
}
static void d_gammainc_of(cj_vjp_args *v)
{
    const double sign = ((const special_attrs *)v->attrs)->n ? -1 : 1;
    cj_tensor *a = v->in[0], *x = v->in[1];
    if (v->need[0]) v->gin[0] = cj_mul(v->g[0], cj_mul_scalar(gamma_moment(1, a, x), sign));
    if (v->need[1]) v->gin[1] = cj_mul(v->g[0], cj_mul_scalar(gamma_density(a, x), sign));
}
static void d_gamma_moment_of(cj_vjp_args *v)
{
    const int64_t i = ((const special_attrs *)v->attrs)->n;
    cj_tensor *a = v->in[0], *x = v->in[1];
    if (v->need[0] && moment_exists(v, "gammainc", i + 1)) {
        cj_tensor *less = cj_mul(apply(POLYGAMMA, 1, a, NULL, NULL), gamma_moment(i - 1, a, x));
        v->gin[0] = cj_mul(v->g[0], cj_sub(gamma_moment(i + 1, a, x), cj_mul_scalar(less, (double)i)));
    }
    if (v->need[1]) v->gin[1] = cj_mul(v->g[0], cj_mul(gamma_density(a, x), score_power(x, unary(DIGAMMA, a), i)));
}
static void d_betainc_of(cj_vjp_args *v)
{
    cj_tensor *a = v->in[0], *b = v->in[1], *x = v->in[2];
    if (v->need[0]) v->gin[0] = cj_mul(v->g[0], beta_moment(1, 0, a, b, x));
    if (v->need[1]) v->gin[1] = cj_mul(v->g[0], beta_moment(0, 1, a, b, x));
    if (v->need[2]) v->gin[2] = cj_mul(v->g[0], beta_density(a, b, x));
}
static void d_beta_moment_of(cj_vjp_args *v)
{
    const int64_t n = ((const special_attrs *)v->attrs)->n, order[2] = { n % 16, n / 16 };
    cj_tensor *a = v->in[0], *b = v->in[1], *x = v->in[2], *sum = cj_add(a, b);
    for (int k = 0; k < 2; k++) { /* in a, in b: raised by one, lowered by the two terms of the score's own derivative */
        if (!v->need[k] || !moment_exists(v, "betainc", order[0] + order[1] + 1)) continue;
        cj_tensor *shared = apply(POLYGAMMA, 1, sum, NULL, NULL), *d = beta_moment(order[0] + !k, order[1] + k, a, b, x);
        for (int l = 0; l < 2; l++) {
            if (!order[l]) continue;
            cj_tensor *slope = l == k ? cj_sub(shared, apply(POLYGAMMA, 1, v->in[k], NULL, NULL)) : shared;
            d = cj_add(d, cj_mul_scalar(cj_mul(slope, beta_moment(order[0] - !l, order[1] - l, a, b, x)), (double)order[l]));
        }
        v->gin[k] = cj_mul(v->g[0], d);
    }
    if (!v->need[2]) return;
    cj_tensor *g = cj_mul(v->g[0], beta_density(a, b, x)), *both = unary(DIGAMMA, sum);
    if (order[0]) g = cj_mul(g, score_power(x, cj_sub(unary(DIGAMMA, a), both), order[0]));
    if (order[1]) g = cj_mul(g, score_power(cj_add_scalar(cj_neg(x), 1), cj_sub(unary(DIGAMMA, b), both), order[1]));
    v->gin[2] = g;
}
/* Inverses: 1 / density there, and where P(a, x(a)) stays, dx/da = -(dP/da) / density. */
static void d_gammaincinv_of(cj_vjp_args *v)
{
    cj_tensor *a = v->in[0], *x = apply(GAMMAINCINV, 0, a, v->in[1], NULL), *per = cj_div(v->g[0], gamma_density(a, x));
    if (v->need[0]) v->gin[0] = cj_neg(cj_mul(per, gamma_moment(1, a, x)));
    if (v->need[1]) v->gin[1] = per;
}
static void d_betaincinv_of(cj_vjp_args *v)
{
    cj_tensor *a = v->in[0], *b = v->in[1], *x = apply(BETAINCINV, 0, a, b, v->in[2]), *per = cj_div(v->g[0], beta_density(a, b, x));
    for (int k = 0; k < 2; k++)
        if (v->need[k]) v->gin[k] = cj_neg(cj_mul(per, beta_moment(!k, k, a, b, x)));
    if (v->need[2]) v->gin[2] = per;
}
/* S_i of special_moments.h, S_0 = F - 1/2: its derivative in the degrees of freedom v, and the one in z. */
static cj_tensor *student_moment(int64_t i, cj_tensor *v, cj_tensor *z)
{
    return i ? apply(STUDENT_MOMENT, i, v, z, NULL) : cj_add_scalar(apply(STDTR, 0, v, z, NULL), -0.5);
}
static cj_tensor *student_score(cj_tensor *v, cj_tensor *z, int64_t i)
{
    cj_tensor *half = cj_mul_scalar(v, 0.5), *shift = cj_sub(unary(DIGAMMA, half), unary(DIGAMMA, cj_add_scalar(half, 0.5)));
    return score_power(cj_div(v, cj_add(v, cj_square(z))), shift, i);
}
static cj_tensor *student_in_v(int64_t i, cj_tensor *v, cj_tensor *z)
{
    cj_tensor *d = student_moment(i + 1, v, z), *edge = cj_div(cj_mul(z, student_density(v, z)), v);
    if (i) {
        cj_tensor *half = cj_mul_scalar(v, 0.5);
        cj_tensor *slope = cj_sub(apply(POLYGAMMA, 1, cj_add_scalar(half, 0.5), NULL, NULL), apply(POLYGAMMA, 1, half, NULL, NULL));
        d = cj_add(d, cj_mul_scalar(cj_mul(slope, student_moment(i - 1, v, z)), (double)i));
        edge = cj_mul(edge, student_score(v, z, i));
    }
    return cj_mul_scalar(cj_sub(d, edge), 0.5);
}
static void d_stdtr_of(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = cj_mul(v->g[0], student_in_v(0, v->in[0], v->in[1]));
    if (v->need[1]) v->gin[1] = cj_mul(v->g[0], student_density(v->in[0], v->in[1]));
}
static void d_student_moment_of(cj_vjp_args *v)
{
    const int64_t i = ((const special_attrs *)v->attrs)->n;
    cj_tensor *n = v->in[0], *z = v->in[1];
    if (v->need[0] && moment_exists(v, "stdtr", i + 1)) v->gin[0] = cj_mul(v->g[0], student_in_v(i, n, z));
    if (v->need[1]) v->gin[1] = cj_mul(v->g[0], cj_mul(student_density(n, z), student_score(n, z, i)));
}
static void d_stdtrit_of(cj_vjp_args *v)
{
    cj_tensor *n = v->in[0], *z = apply(STDTRIT, 0, n, v->in[1], NULL), *per = cj_div(v->g[0], student_density(n, z));
    if (v->need[0]) v->gin[0] = cj_neg(cj_mul(per, student_in_v(0, n, z)));
    if (v->need[1]) v->gin[1] = per;
}
static void d_erfc_of(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], scaled_exp(cj_neg(cj_square(v->in[0])), -1.12837916709551257390)); }
static void d_erfinv_of(cj_vjp_args *v)
{
    v->gin[0] = cj_mul(v->g[0], scaled_exp(cj_square(unary(ERFINV, v->in[0])), 0.88622692545275801365));
}
/* Phi'(x) = e^(-x²/2) / sqrt(2 pi), and its inverse at z = Phi^-1(p). */
static void d_ndtr_of(cj_vjp_args *v)
{
    v->gin[0] = cj_mul(v->g[0], scaled_exp(cj_mul_scalar(cj_square(v->in[0]), -0.5), 0.39894228040143267794));
}
static void d_ndtri_of(cj_vjp_args *v)
{
    v->gin[0] = cj_mul(v->g[0], scaled_exp(cj_mul_scalar(cj_square(unary(NDTRI, v->in[0])), 0.5), 2.50662827463100050242));
}
static void d_j0_of(cj_vjp_args *v) { v->gin[0] = cj_neg(cj_mul(v->g[0], unary(J1, v->in[0]))); }
/* f/x, and `at_zero` where x is 0. */
static cj_tensor *over(cj_tensor *f, cj_tensor *x, double at_zero)
{
    cj_tensor *zero = cj_eq_scalar(x, 0);
    return cj_where(zero, cj__const_like(x, at_zero), cj_div(f, cj_where(zero, cj__const_like(x, 1), x)));
}
static void d_j1_of(cj_vjp_args *v)
{
    cj_tensor *x = v->in[0];
    v->gin[0] = cj_mul(v->g[0], cj_sub(unary(J0, x), over(unary(J1, x), x, 0.5)));
}
static void d_i0e_of(cj_vjp_args *v)
{
    cj_tensor *x = v->in[0];
    v->gin[0] = cj_mul(v->g[0], cj_sub(unary(I1E, x), cj_mul(cj_sign(x), unary(I0E, x))));
}
static void d_i1e_of(cj_vjp_args *v)
{
    cj_tensor *x = v->in[0], *y = unary(I1E, x);
    v->gin[0] = cj_mul(v->g[0], cj_sub(cj_sub(unary(I0E, x), over(y, x, 0.5)), cj_mul(cj_sign(x), y)));
}

#define ROW(code, op_name, inputs, rule)                                                                                                   \
    [code] = { .name = op_name,                                                                                                            \
               .family = "special",                                                                                                        \
               .kind = CJ_PRIMITIVE,                                                                                                       \
               .nin = inputs,                                                                                                              \
               .nout = 1,                                                                                                                  \
               .attr_size = sizeof(special_attrs),                                                                                         \
               .save_in = (1u << (inputs)) - 1,                                                                                            \
               .infer = infer,                                                                                                             \
               .run = run,                                                                                                                 \
               .vjp = rule,                                                                                                                \
               .jvp_rule = CJ_JVP_ELEMENTWISE }
const cj_op cj__ops_special[] = {
    ROW(LGAMMA, "lgamma", 1, d_lgamma_of),
    ROW(GAMMA, "gamma", 1, d_gamma_of),
    ROW(DIGAMMA, "digamma", 1, d_digamma_of),
    ROW(POLYGAMMA, "polygamma", 1, d_polygamma_of),
    ROW(LBETA, "lbeta", 2, d_lbeta_of),
    ROW(GAMMAINC, "gammainc", 2, d_gammainc_of),
    ROW(BETAINC, "betainc", 3, d_betainc_of),
    ROW(ERFC, "erfc", 1, d_erfc_of),
    ROW(ERFINV, "erfinv", 1, d_erfinv_of),
    ROW(J0, "bessel_j0", 1, d_j0_of),
    ROW(J1, "bessel_j1", 1, d_j1_of),
    ROW(I0E, "bessel_i0e", 1, d_i0e_of),
    ROW(I1E, "bessel_i1e", 1, d_i1e_of),
    ROW(GAMMAINCINV, "gammaincinv", 2, d_gammaincinv_of),
    ROW(BETAINCINV, "betaincinv", 3, d_betaincinv_of),
    ROW(STDTRIT, "stdtrit", 2, d_stdtrit_of),
    ROW(BETA, "beta", 2, d_beta_of),
    ROW(NDTR, "ndtr", 1, d_ndtr_of),
    ROW(NDTRI, "ndtri", 1, d_ndtri_of),
    ROW(GAMMA_MOMENT, "gammainc_moment", 2, d_gamma_moment_of),
    ROW(BETA_MOMENT, "betainc_moment", 3, d_beta_moment_of),
    ROW(STDTR, "stdtr", 2, d_stdtr_of),
    ROW(STUDENT_MOMENT, "stdtr_moment", 2, d_student_moment_of),
};
CJ_OP_TABLE(special);
/* Operands of one float type and one shape, dense. */
static cj_tensor *apply(int f, int64_t n, cj_tensor *x, cj_tensor *y, cj_tensor *z)
{
    const special_attrs a = { f, n };
    cj_tensor *in[3] = { x, y, z };
    const cj_op *op = &cj__ops_special[f];
    cj_ctx *c = x ? x->ctx : y ? y->ctx : z ? z->ctx : NULL;
    if (!c) return NULL;
    if (!cj__usable(c, op->name, 0, x) || !x) return c->poison;
    for (int i = 1; i < op->nin && i < 3; i++)
        if (!cj__usable(c, op->name, i, in[i])) return c->poison;
    cj_dtype t = cj__promote_n(in, op->nin);
    const bool half = t == CJ_BF16 || t == CJ_F16; /* f32 inside, so that derivatives are rounded once too */
    const cj_dtype inner = t == CJ_F64 ? CJ_F64 : CJ_F32;
    cj_shape shape = cj__shape(x);
    for (int i = 1; i < op->nin; i++) {
        int nd;
        int64_t out[CJ_MAX_DIMS];
        if (!cj__broadcast(shape.ndim, shape.dim, in[i]->ndim, in[i]->shape, &nd, out)) {
            cj__error(c, CJ_ESHAPE, "%s: %s and %s do not broadcast", op->name, cj__shape_text(shape.ndim, shape.dim),
                      cj__tensor_text(in[i]));
            return c->poison;
        }
        shape.ndim = nd;
        memcpy(shape.dim, out, sizeof out);
    }
    for (int i = 0; i < op->nin; i++) in[i] = cj_contiguous(cj_expand(cj_cast(in[i], inner), shape));
    cj_tensor *out = cj__apply(op, &a, in, op->nin);
    return half ? cj_cast(out, t) : out;
}

/* ---- public ------------------------------------------------------------------------------------------------------------------------------------ */

#define UNARY(name, code)                                                                                                                  \
    cj_tensor *(cj_##name)(cj_tensor * x) { return unary(code, x); }
UNARY(lgamma, LGAMMA)
UNARY(gamma, GAMMA)
UNARY(digamma, DIGAMMA)
UNARY(erfc, ERFC)
UNARY(erfinv, ERFINV)
UNARY(ndtr, NDTR)
UNARY(ndtri, NDTRI)
UNARY(bessel_j0, J0)
UNARY(bessel_j1, J1)
UNARY(bessel_i0e, I0E)
UNARY(bessel_i1e, I1E)

cj_tensor *(cj_polygamma)(int n, cj_tensor *x)
{
    if (!x) return NULL;
    if (n < 0 || n > 100) {
        cj__error(x->ctx, CJ_EVALUE, "polygamma: an order of 0 to 100 is expected, found %d", n);
        return x->ctx->poison;
    }
    return n ? apply(POLYGAMMA, n, x, NULL, NULL) : unary(DIGAMMA, x);
}
cj_tensor *(cj_lbeta)(cj_tensor *a, cj_tensor *b) { return apply(LBETA, 0, a, b, NULL); }
cj_tensor *(cj_beta)(cj_tensor *a, cj_tensor *b) { return apply(BETA, 0, a, b, NULL); }
cj_tensor *(cj_gammainc)(cj_tensor *a, cj_tensor *x) { return apply(GAMMAINC, 0, a, x, NULL); }
cj_tensor *(cj_gammaincc)(cj_tensor *a, cj_tensor *x) { return apply(GAMMAINC, 1, a, x, NULL); }
cj_tensor *(cj_betainc)(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return apply(BETAINC, 0, a, b, x); }
cj_tensor *(cj_gammaincinv)(cj_tensor *a, cj_tensor *p) { return apply(GAMMAINCINV, 0, a, p, NULL); }
cj_tensor *(cj_betaincinv)(cj_tensor *a, cj_tensor *b, cj_tensor *p) { return apply(BETAINCINV, 0, a, b, p); }
cj_tensor *(cj_stdtr)(cj_tensor *df, cj_tensor *z) { return apply(STDTR, 0, df, z, NULL); }
cj_tensor *(cj_stdtrit)(cj_tensor *df, cj_tensor *p) { return apply(STDTRIT, 0, df, p, NULL); }
cj_tensor *cj__gammainc_moment(int i, cj_tensor *a, cj_tensor *x) { return gamma_moment(i, a, x); }
cj_tensor *cj__stdtr_moment(int i, cj_tensor *df, cj_tensor *z) { return student_moment(i, df, z); }
cj_tensor *cj__betainc_moment(int i, int j, cj_tensor *a, cj_tensor *b, cj_tensor *x) { return beta_moment(i, j, a, b, x); }

/* ---- made of operators --------------------------------------------------------------------------------------------------------------------------- */

/* sin(pi x) / (pi x): sin(pi x) = ±sin(pi (x - k)) with k the nearest integer, which is exact; near 0 the series, whose terms up to x^8 leave 1e-17 for |x| < 1/64. */
CJ_COMPOSE(sinc)
{
    cj_tensor *x = in[0], *near = cj_lt_scalar(cj_abs(x), 1.0 / 64), *one = cj__const_like(x, 1);
    cj_tensor *u = cj_square(cj_mul_scalar(cj_where(near, x, cj__const_like(x, 0)), M_PI)), *far = cj_where(near, one, x),
              *k = cj_round(far);
    cj_tensor *odd = cj_ne(cj_mul_scalar(cj_floor(cj_mul_scalar(k, 0.5)), 2), k), *sine = cj_sin(cj_mul_scalar(cj_sub(far, k), M_PI));
    cj_tensor *series = cj_add_scalar(cj_mul_scalar(u, 1.0 / 362880), -1.0 / 5040);
    const double c[] = { 1.0 / 120, -1.0 / 6, 1 };
    for (int i = 0; i < 3; i++) series = cj_add_scalar(cj_mul(series, u), c[i]);
    return cj_where(near, series, cj_div(cj_where(odd, cj_neg(sine), sine), cj_mul_scalar(far, M_PI)));
}
/* log(e^x - 1) = x + log(1 - e^-x), x > 0. */
CJ_COMPOSE(softplus_inverse) { return cj_add(in[0], cj_log(cj_neg(cj_expm1(cj_neg(in[0]))))); }
/* log(e^a + e^b) = larger + log(1 + e^(smaller - larger)); infinities are what they are. */
CJ_COMPOSE(logaddexp)
{
    cj_tensor *a = in[0], *b = in[1], *first = cj_ge(a, b), *large = cj_where(first, a, b), *small = cj_where(first, b, a);
    cj_tensor *finite = cj_isfinite(large), *zero = cj__const_like(a, 0);
    cj_tensor *below = cj_sub(cj_where(finite, small, zero), cj_where(finite, large, zero));
    return cj_add(large, cj_softplus(below));
}
/* x log y, and 0 where x is 0. */
CJ_COMPOSE(xlogy)
{
    cj_tensor *none = cj_eq_scalar(in[0], 0), *y = cj_where(none, cj__const_like(in[1], 1), in[1]);
    return cj_mul(in[0], cj_log(y));
}
enum { SINC, SOFTPLUS_INVERSE, LOGADDEXP, XLOGY };
const cj_op cj__ops_special_composites[] = {
    [SINC] = CJ_COMPOSITE_ROW(sinc, "special", 1, 0),
    [SOFTPLUS_INVERSE] = CJ_COMPOSITE_ROW(softplus_inverse, "special", 1, 0),
    [LOGADDEXP] = CJ_COMPOSITE_ROW(logaddexp, "special", 2, 0),
    [XLOGY] = CJ_COMPOSITE_ROW(xlogy, "special", 2, 0),
};
CJ_OP_TABLE(special_composites);

#define COMPOSED1(name, code)                                                                                                              \
    cj_tensor *(cj_##name)(cj_tensor * x) { return cj__apply(&cj__ops_special_composites[code], NULL, &x, 1); }
#define COMPOSED2(name, code)                                                                                                              \
    cj_tensor *(cj_##name)(cj_tensor * a, cj_tensor * b)                                                                                   \
    {                                                                                                                                      \
        return cj__apply(&cj__ops_special_composites[code], NULL, (cj_tensor *[]){ a, b }, 2);                                             \
    }
COMPOSED1(sinc, SINC)
COMPOSED1(softplus_inverse, SOFTPLUS_INVERSE)
COMPOSED2(logaddexp, LOGADDEXP)
COMPOSED2(xlogy, XLOGY)
