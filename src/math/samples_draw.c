/* Samples of the draws with parameters: through the distributions that make them. */
#include "math/dist.h"
#include "ops/samples_list.h"

CALL(gamma_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_gamma(in[0], in[1]), CJ_SHAPE(2), NULL);
}
CALL(poisson_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_poisson(in[0]), CJ_SHAPE(2), NULL);
}
CALL(binomial_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_binomial(cj_floor(cj_mul_scalar(in[0], 40)), in[1]), CJ_SCALAR, NULL);
}
CALL(von_mises_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_von_mises(in[1], in[0]), CJ_SHAPE(2), NULL);
}
CALL(categorical_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_categorical(in[0]), CJ_SHAPE(3), NULL);
}
CALL(multinomial_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_multinomial(50, in[0]), CJ_SHAPE(3), NULL);
}
CALL(gumbel_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_gumbel(in[0], in[1]), CJ_SHAPE(2), NULL);
}
CALL(logistic_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_logistic(in[0], in[1]), CJ_SHAPE(2), NULL);
}
CALL(laplace_of)
{
    (void)c, (void)s;
    return cj_dist_sample(cj_dist_laplace(in[0], in[1]), CJ_SHAPE(2), NULL);
}

CALL(ordered_exp_of)
{
    (void)c, (void)s;
    return cj__ordered_exp(in[0]);
}
CALL(ordered_of)
{
    (void)c, (void)s;
    return cj__ordered_product(in[0], in[1]);
}

void cj__samples_draw(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *name;
        cj_sample_fn *call;
        int n;
        cj_domain second;
    } rows[] = { { "draw_gamma", gamma_of, 2, CJ_DOMAIN_POSITIVE },         { "draw_poisson", poisson_of, 1, CJ_DOMAIN_REAL },
                 { "draw_binomial", binomial_of, 2, CJ_DOMAIN_UNIT },       { "draw_von_mises", von_mises_of, 2, CJ_DOMAIN_REAL },
                 { "draw_categorical", categorical_of, 1, CJ_DOMAIN_REAL }, { "draw_multinomial", multinomial_of, 1, CJ_DOMAIN_REAL },
                 { "draw_gumbel", gumbel_of, 2, CJ_DOMAIN_POSITIVE },       { "draw_logistic", logistic_of, 2, CJ_DOMAIN_POSITIVE },
                 { "draw_laplace", laplace_of, 2, CJ_DOMAIN_POSITIVE } };
    static const cj_shape sizes[] = { { 2, { 4, 5 } }, { 1, { 129 } }, { 2, { 37, 61 } } };
    static const char *const labels[] = { "plain", "129", "large" };
    if (IS("ordered_exp"))
        for (int k = 0; k < SHAPES; k++)
            input(add(l, shapes[k].label, ordered_exp_of, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | size_flags(shapes[k].a)), shapes[k].a,
                  CJ_DOMAIN_REAL);
    if (IS("ordered_product")) {
        input(input(add(l, "one matrix", ordered_of, CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 5), CJ_DOMAIN_REAL), CJ_SHAPE(5, 3), CJ_DOMAIN_REAL);
        input(input(add(l, "batch", ordered_of, CJ_SAMPLE_FLOAT), CJ_SHAPE(2, 3, 4), CJ_DOMAIN_REAL), CJ_SHAPE(3, 4, 6), CJ_DOMAIN_REAL);
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int i = 0; i < 3 && IS(rows[r].name); i++) {
            cj_sample *s = add(l, labels[i], rows[r].call, CJ_SAMPLE_RANDOM | CJ_SAMPLE_ROUGH | CJ_SAMPLE_FLOAT | size_flags(sizes[i]));
            input(s, sizes[i], CJ_DOMAIN_POSITIVE);
            if (rows[r].n > 1) input(s, sizes[i], rows[r].second);
        }
}
