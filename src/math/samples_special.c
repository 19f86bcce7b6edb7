/* Samples of special functions. */
#include "math/math.h"
#include "ops/samples_list.h"

CALL(polygamma)
{
    (void)c;
    return (cj_polygamma)((int)s->at[0], in[0]);
}
CALL(lower)
{
    (void)c, (void)s;
    return (cj_gammainc)(in[0], in[1]);
}
CALL(upper)
{
    (void)c, (void)s;
    return (cj_gammaincc)(in[0], in[1]);
}
CALL(beta_part)
{
    (void)c, (void)s;
    return (cj_betainc)(in[0], in[1], in[2]);
}
CALL(gamma_moment)
{
    (void)c;
    return cj__gammainc_moment((int)s->at[0], in[0], in[1]);
}
CALL(beta_moment)
{
    (void)c;
    return cj__betainc_moment((int)s->at[0], (int)s->at[1], in[0], in[1], in[2]);
}
CALL(student_part)
{
    (void)c, (void)s;
    return (cj_stdtr)(in[0], in[1]);
}
CALL(student_moment)
{
    (void)c;
    return cj__stdtr_moment((int)s->at[0], in[0], in[1]);
}
CALL(gamma_quantile)
{
    (void)c, (void)s;
    return (cj_gammaincinv)(in[0], in[1]);
}
CALL(beta_quantile)
{
    (void)c, (void)s;
    return (cj_betaincinv)(in[0], in[1], in[2]);
}
CALL(student_quantile)
{
    (void)c, (void)s;
    return (cj_stdtrit)(in[0], in[1]);
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
    /* positive parameters before the limit or the probability */
    static const struct {
        const char *name, *label;
        cj_sample_fn *call;
        int parameters;
        cj_domain last;
        int64_t at[2];
    } integrals[] = {
        { "gammainc", "lower", lower, 1, CJ_DOMAIN_POSITIVE, { 0 } },
        { "gammainc", "upper", upper, 1, CJ_DOMAIN_POSITIVE, { 0 } },
        { "betainc", "in all", beta_part, 2, CJ_DOMAIN_UNIT, { 0 } },
        { "gammainc_moment", "first", gamma_moment, 1, CJ_DOMAIN_POSITIVE, { 1 } },
        { "gammainc_moment", "second", gamma_moment, 1, CJ_DOMAIN_POSITIVE, { 2 } },
        { "betainc_moment", "of a", beta_moment, 2, CJ_DOMAIN_UNIT, { 1, 0 } },
        { "betainc_moment", "of b", beta_moment, 2, CJ_DOMAIN_UNIT, { 0, 1 } },
        { "betainc_moment", "of both", beta_moment, 2, CJ_DOMAIN_UNIT, { 1, 1 } },
        { "stdtr", "in both", student_part, 1, CJ_DOMAIN_REAL, { 0 } },
        { "stdtr_moment", "first", student_moment, 1, CJ_DOMAIN_REAL, { 1 } },
        { "stdtr_moment", "second", student_moment, 1, CJ_DOMAIN_REAL, { 2 } },
        { "gammaincinv", "in both", gamma_quantile, 1, CJ_DOMAIN_UNIT, { 0 } },
        { "betaincinv", "in all", beta_quantile, 2, CJ_DOMAIN_UNIT, { 0 } },
        { "stdtrit", "in both", student_quantile, 1, CJ_DOMAIN_UNIT, { 0 } },
    };
    for (size_t i = 0; i < sizeof integrals / sizeof *integrals; i++) {
        if (!IS(integrals[i].name)) continue;
        cj_sample *s = add(l, integrals[i].label, integrals[i].call, exact);
        for (int k = 0; k < integrals[i].parameters; k++) input(s, CJ_SHAPE(2, 3), CJ_DOMAIN_POSITIVE);
        input(s, CJ_SHAPE(2, 3), integrals[i].last);
        s->at[0] = integrals[i].at[0], s->at[1] = integrals[i].at[1];
    }
}
