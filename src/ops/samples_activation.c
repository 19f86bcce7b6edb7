/* Samples of the activations that are compositions.  Their corners lie on multiples of 1/32, so most inputs are odd multiples of 1/64; units whose last corner is
 * beyond the domain see a multiple of it.
 */
#include "ops/compose.h"
#include "ops/samples_list.h"

/* ---- calls --------------------------------------------------------------------------------------------------------------------------------------- */

#define ONE(name, expression)                                                                                                              \
    static cj_tensor *name(cj_tensor *x) { return expression; }

/* clang-format off */
ONE(heaviside, cj_heaviside(x, NULL))
ONE(heaviside_half, cj_heaviside(x, &(cj_heaviside_opts){ .at_zero = 0.5 }))
ONE(hardtanh, cj_hardtanh(x, NULL))
ONE(hardtanh_wide, cj_hardtanh(x, &(cj_hardtanh_opts){ -0.25, 2 }))
ONE(relu6, cj_relu6(cj_mul_scalar(x, 4)))
ONE(leaky_relu, cj_leaky_relu(x, NULL))
ONE(leaky_relu_steep, cj_leaky_relu(x, &(cj_leaky_relu_opts){ 0.25 }))
ONE(hardsigmoid, cj_hardsigmoid(cj_mul_scalar(x, 2)))
ONE(hardswish, cj_hardswish(cj_mul_scalar(x, 2)))
ONE(softshrink, cj_softshrink(x, NULL))
ONE(hardshrink, cj_hardshrink(x, &(cj_shrink_opts){ 1 }))
ONE(threshold, cj_threshold(x, 0.5, 20))
ONE(elu, cj_elu(x, NULL))
ONE(elu_half, cj_elu(x, &(cj_elu_opts){ 0.5 }))
ONE(celu, cj_celu(x, &(cj_elu_opts){ 2 }))
ONE(softplus_beta, cj_softplus_beta(x, &(cj_softplus_opts){ .beta = 2 }))
ONE(softplus_threshold, cj_softplus_beta(x, &(cj_softplus_opts){ .beta = 16, .threshold = 32.25 }))
ONE(logit, cj_logit(x, NULL))
ONE(logit_clamped, cj_logit(x, &(cj_logit_opts){ 0.203125 }))
/* clang-format on */

/* One tensor in, no axis. */
static const struct {
    const char *name, *label; /* label NULL: all shapes, else one sample */
    cj_tensor *(*fn)(cj_tensor *x);
    cj_domain domain;
    unsigned flags;
} plain[] = {
    { "heaviside", NULL, heaviside, CJ_DOMAIN_REAL, 0 },
    { "heaviside", "at zero", heaviside_half, CJ_DOMAIN_COUNT, CJ_SAMPLE_ROUGH },
    { "hard_sign", NULL, cj_hard_sign, CJ_DOMAIN_REAL, 0 },
    { "hard_sign", "at zero", cj_hard_sign, CJ_DOMAIN_COUNT, CJ_SAMPLE_ROUGH },
    { "hardtanh", NULL, hardtanh, CJ_DOMAIN_BETWEEN, 0 },
    { "hardtanh", "other borders", hardtanh_wide, CJ_DOMAIN_BETWEEN, 0 },
    { "relu6", NULL, relu6, CJ_DOMAIN_BETWEEN, 0 },
    { "leaky_relu", NULL, leaky_relu, CJ_DOMAIN_REAL, 0 },
    { "leaky_relu", "steep", leaky_relu_steep, CJ_DOMAIN_REAL, 0 },
    { "hardsigmoid", NULL, hardsigmoid, CJ_DOMAIN_BETWEEN, 0 },
    { "hardswish", NULL, hardswish, CJ_DOMAIN_BETWEEN, 0 },
    { "softshrink", NULL, softshrink, CJ_DOMAIN_BETWEEN, 0 },
    { "hardshrink", NULL, hardshrink, CJ_DOMAIN_BETWEEN, 0 },
    { "threshold", NULL, threshold, CJ_DOMAIN_BETWEEN, 0 },
    { "elu", NULL, elu, CJ_DOMAIN_REAL, 0 },
    { "elu", "alpha", elu_half, CJ_DOMAIN_REAL, 0 },
    { "celu", NULL, celu, CJ_DOMAIN_REAL, 0 },
    { "selu", NULL, cj_selu, CJ_DOMAIN_REAL, 0 },
    { "softplus_beta", NULL, softplus_beta, CJ_DOMAIN_REAL, 0 },
    { "softplus_beta", "threshold", softplus_threshold, CJ_DOMAIN_REAL, 0 },
    { "mish", NULL, cj_mish, CJ_DOMAIN_REAL, 0 },
    { "softsign", NULL, cj_softsign, CJ_DOMAIN_REAL, 0 },
    { "tanhshrink", NULL, cj_tanhshrink, CJ_DOMAIN_REAL, 0 },
    { "logit", NULL, logit, CJ_DOMAIN_UNIT, 0 },
    { "logit", "clamped", logit_clamped, CJ_DOMAIN_UNIT, 0 },
};

CALL(prelu)
{
    UNUSED;
    return cj_prelu(in[0], in[1]);
}
CALL(along_axis)
{
    UNUSED;
    static cj_tensor *(*const fn[])(cj_tensor *, int) = { cj_glu, cj_reglu, cj_geglu, cj_swiglu, cj_softmin };
    return fn[s->at[1]](in[0], (int)s->at[0]);
}
CALL(maxout)
{
    UNUSED;
    return cj_maxout(in[0], (int)s->at[0], s->at[1]);
}
CALL(softmax_temperature)
{
    UNUSED;
    return cj_softmax_temperature(in[0], (int)s->at[0], s->number);
}
CALL(gumbel_softmax)
{
    UNUSED;
    return cj__gumbel_softmax(in[0], in[1], (int)s->at[0], &(cj_gumbel_opts){ .tau = s->number, .hard = s->at[1] != 0 });
}

/* ---- lists ------------------------------------------------------------------------------------------------------------------------------------------ */

static void plain_samples(cj_sample_list *l, const char *name)
{
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
        for (int i = 0; i < SHAPES && IS(plain[k].name); i++) {
            if (i == 1 || i == 2 || i == 3 || i == 10 || (plain[k].label && i)) continue; /* nothing new for one operand */
            unsigned flags = CJ_SAMPLE_EXACT | plain[k].flags | size_flags(shapes[i].a);
            cj_sample *s = input(add(l, plain[k].label ? plain[k].label : shapes[i].label, unary, flags), shapes[i].a, plain[k].domain);
            s->fn.unary = plain[k].fn;
            s->terms = 1; /* differences of neighbours cancel */
        }
}

/* Even axes for the gated units, multiples of 3 for maxout. */
static void axis_samples(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape shape;
        int64_t axis;
    } cases[] = {
        { "plain", { 2, { 4, 6 } }, -1 },     { "columns", { 2, { 6, 5 } }, 0 },       { "middle", { 3, { 2, 12, 3 } }, 1 },
        { "vector", { 1, { 6 } }, 0 },        { "empty", { 2, { 0, 6 } }, -1 },        { "odd", { 2, { 7, 18 } }, -1 },
        { "large", { 2, { 67, 1536 } }, -1 }, { "many rows", { 2, { 3001, 36 } }, 1 },
    };
    static const char *const simple[] = { "glu", "reglu", "geglu", "swiglu", "softmin" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double n = (double)cases[i].shape.dim[cases[i].axis < 0 ? cases[i].shape.ndim - 1 : cases[i].axis];
        unsigned flags = size_flags(cases[i].shape);
        cj_sample *s = NULL;
        for (int k = 0; k < 5; k++)
            if (IS(simple[k])) {
                s = input(add(l, cases[i].label, along_axis, flags), cases[i].shape, CJ_DOMAIN_REAL);
                s->at[1] = k;
            }
        if (IS("maxout")) {
            s = input(add(l, cases[i].label, maxout, flags | CJ_SAMPLE_EXACT), cases[i].shape, CJ_DOMAIN_DISTINCT);
            s->at[1] = 3;
        }
        if (IS("softmax_temperature")) {
            s = input(add(l, cases[i].label, softmax_temperature, flags), cases[i].shape, CJ_DOMAIN_DISTINCT);
            s->number = 2;
        }
        if (IS("gumbel_softmax")) {
            s = input(add(l, cases[i].label, gumbel_softmax, flags), cases[i].shape, CJ_DOMAIN_DISTINCT);
            input(s, cases[i].shape, CJ_DOMAIN_BETWEEN)->number = 2;
        }
        if (!s) continue;
        s->at[0] = cases[i].axis;
        s->terms = n;
    }
    if (IS("gumbel_softmax")) { /* the derivative is not that of the value */
        cj_sample *s = input(input(add(l, "hard", gumbel_softmax, CJ_SAMPLE_ROUGH), CJ_SHAPE(5, 7), CJ_DOMAIN_DISTINCT), CJ_SHAPE(5, 7),
                             CJ_DOMAIN_BETWEEN);
        s->at[0] = -1, s->at[1] = 1, s->number = 1, s->terms = 7;
    }
}

void cj__samples_activation(cj_sample_list *l, const char *name)
{
    plain_samples(l, name);
    axis_samples(l, name);
    if (IS("prelu")) {
        static const struct {
            const char *label;
            cj_shape x;
            int64_t weights;
        } cases[] = {
            { "one", { 2, { 4, 5 } }, 1 },
            { "per channel", { 2, { 4, 5 } }, 5 },
            { "images", { 4, { 2, 3, 2, 5 } }, 3 },
            { "vector", { 1, { 13 } }, 1 },
            { "0-d", { 0 }, 1 },
            { "empty", { 2, { 0, 3 } }, 3 },
            { "large", { 3, { 17, 65, 97 } }, 65 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            cj_sample *s = input(add(l, cases[i].label, prelu, size_flags(cases[i].x)), cases[i].x, CJ_DOMAIN_REAL);
            input(s, CJ_SHAPE(cases[i].weights), CJ_DOMAIN_UNIT)->terms = 1;
        }
    }
}
