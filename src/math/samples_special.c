/* Samples of special functions. */
#include "math/math.h"
#include "ops/samples_list.h"

CALL(polygamma)
{
    (void)c;
    return (cj_polygamma)((int)s->at[0], in[0]);
}
/* The first argument of incomplete integrals is a constant: there are no second derivatives in it. */
CALL(lower)
{
    (void)s;
    return (cj_gammainc)(cj_scalar(c, 1.75), in[0]);
}
CALL(upper)
{
    (void)s;
    return (cj_gammaincc)(cj_scalar(c, 0.5), in[0]);
}
CALL(beta_part)
{
    (void)s;
    return (cj_betainc)(cj_scalar(c, 1.5), cj_scalar(c, 2.25), in[0]);
}
CALL(gamma_quantile)
{
    (void)s;
    return (cj_gammaincinv)(cj_scalar(c, 1.75), in[0]);
}
CALL(beta_quantile)
{
    (void)s;
    return (cj_betaincinv)(cj_scalar(c, 1.5), cj_scalar(c, 2.25), in[0]);
}
CALL(student_quantile)
{
    (void)s;
    return (cj_stdtrit)(cj_scalar(c, 3.5), in[0]);
}

void cj__samples_special(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *name;
        cj_tensor *(*f)(cj_tensor *x);
        cj_domain domain;
    } one[] = {
        { "lgamma", (cj_lgamma), CJ_DOMAIN_POSITIVE },
        { "gamma", (cj_gamma), CJ_DOMAIN_POSITIVE },
        { "digamma", (cj_digamma), CJ_DOMAIN_POSITIVE },
        { "erfc", (cj_erfc), CJ_DOMAIN_REAL },
        { "erfinv", (cj_erfinv), CJ_DOMAIN_UNIT },
        { "bessel_j0", (cj_bessel_j0), CJ_DOMAIN_REAL },
        { "bessel_j1", (cj_bessel_j1), CJ_DOMAIN_REAL },
        { "bessel_i0e", (cj_bessel_i0e), CJ_DOMAIN_REAL },
        { "bessel_i1e", (cj_bessel_i1e), CJ_DOMAIN_REAL },
        { "sinc", (cj_sinc), CJ_DOMAIN_REAL },
        { "softplus_inverse", (cj_softplus_inverse), CJ_DOMAIN_POSITIVE },
        { "ndtr", (cj_ndtr), CJ_DOMAIN_REAL },
        { "ndtri", (cj_ndtri), CJ_DOMAIN_UNIT },
    };
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (IS(one[i].name))
            for (int k = 0; k < SHAPES; k++)
                input(add(l, shapes[k].label, unary, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | size_flags(shapes[k].a)), shapes[k].a,
                      one[i].domain)
                    ->fn.unary = one[i].f;
    static const struct {
        const char *name;
        cj_tensor *(*f)(cj_tensor *a, cj_tensor *b);
        cj_domain a, b;
    } two[] = { { "lbeta", (cj_lbeta), CJ_DOMAIN_POSITIVE, CJ_DOMAIN_POSITIVE },
                { "beta", (cj_beta), CJ_DOMAIN_POSITIVE, CJ_DOMAIN_POSITIVE },
                { "logaddexp", (cj_logaddexp), CJ_DOMAIN_POSITIVE, CJ_DOMAIN_UNIT },
                { "xlogy", (cj_xlogy), CJ_DOMAIN_REAL, CJ_DOMAIN_POSITIVE } };
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (IS(two[i].name))
            for (int k = 0; k < SHAPES; k++)
                input(input(add(l, shapes[k].label, binary, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | size_flags(shapes[k].a)), shapes[k].a,
                            two[i].a),
                      shapes[k].b, two[i].b)
                    ->fn.binary = two[i].f;
    const unsigned exact = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT;
    if (IS("polygamma"))
        for (int n = 1; n < 4; n++)
            input(add(l, n == 1 ? "first" : n == 2 ? "second" : "third", polygamma, exact), CJ_SHAPE(3, 5), CJ_DOMAIN_POSITIVE)->at[0] = n;
    if (IS("gammainc")) {
        input(add(l, "lower", lower, exact), CJ_SHAPE(3, 5), CJ_DOMAIN_POSITIVE);
        input(add(l, "upper", upper, exact), CJ_SHAPE(3, 5), CJ_DOMAIN_POSITIVE);
    }
    static const struct {
        const char *name;
        cj_sample_fn *call;
    } inverse[] = { { "gammaincinv", gamma_quantile }, { "betaincinv", beta_quantile }, { "stdtrit", student_quantile } };
    for (size_t i = 0; i < sizeof inverse / sizeof *inverse; i++)
        if (IS(inverse[i].name)) input(add(l, "in p", inverse[i].call, exact), CJ_SHAPE(3, 5), CJ_DOMAIN_UNIT);
    if (IS("betainc")) input(add(l, "in x", beta_part, exact), CJ_SHAPE(3, 5), CJ_DOMAIN_UNIT);
}
