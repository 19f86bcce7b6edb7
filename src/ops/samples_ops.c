/* Samples of elementwise operators, reductions, creation and draws: families of operators share families of shapes. */
#include <math.h>

#include "ops/samples_list.h"

/* ---- calls --------------------------------------------------------------------------------------------------------------------------------------- */

CALL(scalar)
{
    UNUSED;
    return s->fn.scalar(in[0], s->number);
}
CALL(clamp)
{
    UNUSED;
    return cj_clamp(in[0], s->number, s->number2);
}
CALL(where)
{
    UNUSED;
    return cj_where(in[0], in[1], in[2]);
}
CALL(masked_fill)
{
    UNUSED;
    return cj_masked_fill(in[0], in[1], 0.5);
}
CALL(tril)
{
    UNUSED;
    return cj_tril(in[0], s->at[0]);
}
CALL(triu)
{
    UNUSED;
    return cj_triu(in[0], s->at[0]);
}
CALL(gelu_tanh)
{
    UNUSED;
    return cj_gelu(in[0], &(cj_gelu_opts){ .tanh = true });
}
CALL(gelu)
{
    UNUSED;
    return cj_gelu(in[0], NULL);
}
CALL(reduce)
{
    UNUSED;
    return s->fn.reduce(in[0], &(cj_reduce_opts){ .axes = s->axes, .keepdim = s->keepdim });
}
CALL(var)
{
    UNUSED;
    return cj_var(in[0], &(cj_var_opts){ .axes = s->axes });
}
CALL(logsumexp)
{
    UNUSED;
    return cj_logsumexp(in[0], &(cj_reduce_opts){ .axes = s->axes });
}
CALL(full)
{
    UNUSED;
    return cj_full(c, s->number, s->shape, s->dtype);
}
CALL(arange)
{
    UNUSED;
    return cj_arange(c, s->number, s->number2, (double)s->at[0] / 4, s->dtype);
}
CALL(eye)
{
    UNUSED;
    return cj_eye(c, s->at[0], s->dtype);
}
CALL(uniform)
{
    UNUSED;
    return cj_uniform(c, s->number, s->number2, s->shape, &(cj_random_opts){ .dtype = s->dtype });
}
CALL(normal)
{
    UNUSED;
    return cj_normal(c, s->number, s->number2, s->shape, &(cj_random_opts){ .dtype = s->dtype });
}
CALL(bernoulli)
{
    UNUSED;
    return cj_bernoulli(c, s->number, s->shape, &(cj_random_opts){ .dtype = s->dtype, .stream = CJ_STREAM_SAMPLING });
}
CALL(randint)
{
    UNUSED;
    return cj_randint(c, s->at[0], s->at[1], s->shape, &(cj_random_opts){ .dtype = s->dtype });
}
CALL(exponential)
{
    UNUSED;
    return cj_exponential(c, s->number, s->shape, &(cj_random_opts){ .dtype = s->dtype });
}
CALL(dropout)
{
    UNUSED;
    return cj_dropout(in[0], &(cj_dropout_opts){ .p = 0.25 });
}

/* ---- elementwise ------------------------------------------------------------------------------------------------------------------------------------- */

static const struct unary_row {
    const char *name;
    cj_tensor *(*fn)(cj_tensor *x);
    cj_domain domain;
    unsigned flags;
} unaries[] = {
    { "neg", cj_neg, CJ_DOMAIN_REAL, 0 },
    { "abs", cj_abs, CJ_DOMAIN_REAL, 0 },
    { "sign", cj_sign, CJ_DOMAIN_REAL, 0 },
    { "exp", cj_exp, CJ_DOMAIN_REAL, 0 },
    { "expm1", cj_expm1, CJ_DOMAIN_REAL, 0 },
    { "log", cj_log, CJ_DOMAIN_POSITIVE, 0 },
    { "log1p", cj_log1p, CJ_DOMAIN_ABOVE, CJ_SAMPLE_FLOAT },
    { "sqrt", cj_sqrt, CJ_DOMAIN_POSITIVE, 0 },
    { "rsqrt", cj_rsqrt, CJ_DOMAIN_POSITIVE, 0 },
    { "reciprocal", cj_reciprocal, CJ_DOMAIN_NONZERO, 0 },
    { "square", cj_square, CJ_DOMAIN_REAL, 0 },
    { "sin", cj_sin, CJ_DOMAIN_REAL, 0 },
    { "cos", cj_cos, CJ_DOMAIN_REAL, 0 },
    { "tanh", cj_tanh, CJ_DOMAIN_REAL, 0 },
    { "sigmoid", cj_sigmoid, CJ_DOMAIN_REAL, 0 },
    { "erf", cj_erf, CJ_DOMAIN_REAL, 0 },
    { "floor", cj_floor, CJ_DOMAIN_FRACTION, 0 },
    { "ceil", cj_ceil, CJ_DOMAIN_FRACTION, 0 },
    { "round", cj_round, CJ_DOMAIN_FRACTION, 0 },
    { "trunc", cj_trunc, CJ_DOMAIN_FRACTION, 0 },
    { "relu", cj_relu, CJ_DOMAIN_REAL, 0 },
    { "silu", cj_silu, CJ_DOMAIN_REAL, 0 },
    { "softplus", cj_softplus, CJ_DOMAIN_REAL, 0 },
    { "log_sigmoid", cj_log_sigmoid, CJ_DOMAIN_REAL, 0 },
    { "logical_not", cj_logical_not, CJ_DOMAIN_COUNT, 0 },
    { "isnan", cj_isnan, CJ_DOMAIN_SPECIAL, 0 },
    { "isfinite", cj_isfinite, CJ_DOMAIN_SPECIAL, 0 },
};

static void unary_samples(cj_sample_list *l, cj_sample_fn *call, cj_tensor *(*fn)(cj_tensor *), cj_domain domain, unsigned flags)
{
    for (int i = 0; i < SHAPES; i++) {
        if (i == 1 || i == 2 || i == 3) continue; /* the same as "plain" for one operand */
        cj_sample *s = input(add(l, shapes[i].label, call, flags | CJ_SAMPLE_EXACT | size_flags(shapes[i].a)), shapes[i].a, domain);
        s->fn.unary = fn;
    }
}

static const struct binary_row {
    const char *name;
    cj_tensor *(*fn)(cj_tensor *a, cj_tensor *b);
    cj_domain a, b;
} binaries[] = {
    { "add", cj_add, CJ_DOMAIN_REAL, CJ_DOMAIN_REAL },
    { "sub", cj_sub, CJ_DOMAIN_REAL, CJ_DOMAIN_REAL },
    { "mul", cj_mul, CJ_DOMAIN_REAL, CJ_DOMAIN_REAL },
    { "div", cj_div, CJ_DOMAIN_REAL, CJ_DOMAIN_NONZERO },
    { "pow", cj_pow, CJ_DOMAIN_POSITIVE, CJ_DOMAIN_POSITIVE },
    { "maximum", cj_maximum, CJ_DOMAIN_REAL, CJ_DOMAIN_BETWEEN },
    { "minimum", cj_minimum, CJ_DOMAIN_REAL, CJ_DOMAIN_BETWEEN },
    { "fmod", cj_fmod, CJ_DOMAIN_BETWEEN, CJ_DOMAIN_NONZERO },
    { "remainder", cj_remainder, CJ_DOMAIN_BETWEEN, CJ_DOMAIN_NONZERO },
    { "floor_divide", cj_floor_divide, CJ_DOMAIN_BETWEEN, CJ_DOMAIN_NONZERO },
    { "atan2", cj_atan2, CJ_DOMAIN_REAL, CJ_DOMAIN_REAL },
    { "eq", cj_eq, CJ_DOMAIN_COUNT, CJ_DOMAIN_COUNT },
    { "ne", cj_ne, CJ_DOMAIN_SPECIAL, CJ_DOMAIN_COUNT },
    { "lt", cj_lt, CJ_DOMAIN_SPECIAL, CJ_DOMAIN_COUNT },
    { "le", cj_le, CJ_DOMAIN_SPECIAL, CJ_DOMAIN_COUNT },
    { "gt", cj_gt, CJ_DOMAIN_SPECIAL, CJ_DOMAIN_COUNT },
    { "ge", cj_ge, CJ_DOMAIN_SPECIAL, CJ_DOMAIN_COUNT },
    { "logical_and", cj_logical_and, CJ_DOMAIN_COUNT, CJ_DOMAIN_COUNT },
    { "logical_or", cj_logical_or, CJ_DOMAIN_COUNT, CJ_DOMAIN_COUNT },
    { "logical_xor", cj_logical_xor, CJ_DOMAIN_COUNT, CJ_DOMAIN_COUNT },
};

static const struct scalar_row {
    const char *name;
    cj_tensor *(*fn)(cj_tensor *x, double s);
    cj_domain domain;
    double number;
} scalars[] = {
    { "add_scalar", cj_add_scalar, CJ_DOMAIN_REAL, 2 },       { "add_scalar", cj_add_scalar, CJ_DOMAIN_REAL, 0.75 },
    { "mul_scalar", cj_mul_scalar, CJ_DOMAIN_REAL, -3 },      { "mul_scalar", cj_mul_scalar, CJ_DOMAIN_REAL, 0.4 },
    { "pow_scalar", cj_pow_scalar, CJ_DOMAIN_POSITIVE, 2.5 }, { "pow_scalar", cj_pow_scalar, CJ_DOMAIN_REAL, 3 },
    { "pow_scalar", cj_pow_scalar, CJ_DOMAIN_NONZERO, -1 },   { "pow_scalar", cj_pow_scalar, CJ_DOMAIN_REAL, 2 },
    { "pow_scalar", cj_pow_scalar, CJ_DOMAIN_POSITIVE, 0.5 }, { "eq_scalar", cj_eq_scalar, CJ_DOMAIN_SPECIAL, 1 },
    { "ne_scalar", cj_ne_scalar, CJ_DOMAIN_SPECIAL, 1 },      { "lt_scalar", cj_lt_scalar, CJ_DOMAIN_SPECIAL, 1 },
    { "le_scalar", cj_le_scalar, CJ_DOMAIN_SPECIAL, 1 },      { "gt_scalar", cj_gt_scalar, CJ_DOMAIN_SPECIAL, 0.5 },
    { "ge_scalar", cj_ge_scalar, CJ_DOMAIN_SPECIAL, 1 },
};

static void scalar_samples(cj_sample_list *l, const struct scalar_row *r, bool first)
{
    for (int i = 0; i < SHAPES; i++) {
        if (i == 1 || i == 2 || i == 3 || (!first && i != 0 && i != 9)) continue;
        /* a negative power of an integer is a fraction: an error in PyTorch, 0 or 1 here */
        unsigned flags = CJ_SAMPLE_EXACT | size_flags(shapes[i].a) | (r->number < 0 && r->fn == cj_pow_scalar ? CJ_SAMPLE_FLOAT : 0);
        cj_sample *s = input(add(l, shapes[i].label, scalar, flags), shapes[i].a, r->domain);
        s->fn.scalar = r->fn;
        s->number = r->number;
    }
}

static void where_samples(cj_sample_list *l)
{
    for (int i = 0; i < SHAPES; i++) {
        cj_sample *s = add(l, shapes[i].label, where, CJ_SAMPLE_EXACT | size_flags(shapes[i].a));
        input(input(input(s, shapes[i].b, CJ_DOMAIN_MASK), shapes[i].a, CJ_DOMAIN_REAL), shapes[i].b, CJ_DOMAIN_REAL);
    }
    input(input(add(l, "masked_fill", masked_fill, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 5), CJ_DOMAIN_REAL), CJ_SHAPE(5),
          CJ_DOMAIN_MASK);
    input(add(l, "tril", tril, CJ_SAMPLE_EXACT), CJ_SHAPE(2, 4, 5), CJ_DOMAIN_REAL)->at[0] = -1;
    input(add(l, "triu", triu, CJ_SAMPLE_EXACT), CJ_SHAPE(5, 4), CJ_DOMAIN_REAL)->at[0] = 1;
}

void cj__samples_elementwise(cj_sample_list *l, const char *name)
{
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        if (strcmp(unaries[i].name, name) == 0) unary_samples(l, unary, unaries[i].fn, unaries[i].domain, unaries[i].flags);
    for (size_t k = 0; k < sizeof binaries / sizeof *binaries; k++)
        for (int i = 0; i < SHAPES && strcmp(binaries[k].name, name) == 0; i++) {
            cj_sample *s = add(l, shapes[i].label, binary, CJ_SAMPLE_EXACT | size_flags(shapes[i].a));
            input(input(s, shapes[i].a, binaries[k].a), shapes[i].b, binaries[k].b)->fn.binary = binaries[k].fn;
        }
    bool first = true;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (strcmp(scalars[i].name, name) == 0) {
            scalar_samples(l, &scalars[i], first);
            first = false;
        }
    if (strcmp(name, "gelu") == 0) unary_samples(l, gelu, NULL, CJ_DOMAIN_REAL, 0);
    if (strcmp(name, "gelu_tanh") == 0) unary_samples(l, gelu_tanh, NULL, CJ_DOMAIN_REAL, 0);
    if (strcmp(name, "clamp_min") == 0 || strcmp(name, "clamp_max") == 0)
        for (int i = 0; i < SHAPES; i++) {
            bool low = name[6] == 'm' && name[7] == 'i';
            cj_sample *s = input(add(l, shapes[i].label, clamp, CJ_SAMPLE_EXACT | size_flags(shapes[i].a)), shapes[i].a, CJ_DOMAIN_BETWEEN);
            s->number = low ? -0.5 : -INFINITY;
            s->number2 = low ? INFINITY : 1;
            if (i == 0) s->number = -1, s->number2 = 1.5; /* both borders */
        }
    if (IS("where")) where_samples(l);
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------------------------------------ */

void cj__samples_reduce(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape shape;
        cj_axes axes;
        bool keepdim;
    } cases[] = {
        { "all", { 2, { 4, 5 } }, { 0 }, false },
        { "rows", { 2, { 4, 5 } }, { 1, { -1 } }, false },
        { "columns", { 2, { 4, 5 } }, { 1, { 0 } }, true },
        { "middle", { 3, { 2, 7, 3 } }, { 1, { 1 } }, false },
        { "two runs", { 3, { 2, 3, 5 } }, { 2, { 0, 2 } }, true },
        { "0-d", { 0 }, { 0 }, false },
        { "one", { 2, { 3, 1 } }, { 1, { 1 } }, false },
        { "empty result", { 2, { 0, 3 } }, { 1, { 1 } }, false },
        { "129", { 1, { 129 } }, { 0 }, false },
        { "odd", { 2, { 7, 13 } }, { 1, { 0 } }, false },
        { "nothing", { 2, { 3, 0 } }, { 1, { 1 } }, false },
        { "large rows", { 2, { 129, 1031 } }, { 1, { 1 } }, false },
        { "large columns", { 2, { 1031, 129 } }, { 1, { 0 } }, false },
        { "large all", { 2, { 257, 517 } }, { 0 }, false },
    };
    static const struct {
        const char *name;
        cj_tensor *(*fn)(cj_tensor *x, const cj_reduce_opts *o);
        cj_domain domain;
        bool of_nothing;
        unsigned flags;
    } rows[] = {
        { "sum", cj_sum, CJ_DOMAIN_REAL, true, 0 },
        { "mean", cj_mean, CJ_DOMAIN_REAL, false, 0 },
        { "prod", cj_prod, CJ_DOMAIN_NEAR_ONE, true, 0 },
        { "max", cj_max, CJ_DOMAIN_DISTINCT, false, CJ_SAMPLE_EXACT },
        { "min", cj_min, CJ_DOMAIN_DISTINCT, false, CJ_SAMPLE_EXACT },
        { "argmax", cj_argmax, CJ_DOMAIN_DISTINCT, false, CJ_SAMPLE_EXACT },
        { "argmin", cj_argmin, CJ_DOMAIN_DISTINCT, false, CJ_SAMPLE_EXACT },
        { "any", cj_any, CJ_DOMAIN_COUNT, true, CJ_SAMPLE_EXACT },
        { "all", cj_all, CJ_DOMAIN_COUNT, true, CJ_SAMPLE_EXACT },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (strcmp(rows[r].name, name) != 0) continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bool arg = strncmp(name, "arg", 3) == 0, large = numel(cases[i].shape) > 1000;
            if ((!rows[r].of_nothing && strcmp(cases[i].label, "nothing") == 0) || (arg && cases[i].axes.n > 1)) continue;
            if (strcmp(name, "prod") == 0 && large && cases[i].axes.n == 0) continue; /* leaves the range of f32 */
            unsigned flags = rows[r].flags | (large ? CJ_SAMPLE_LARGE : 0) | (strcmp(name, "prod") == 0 ? CJ_SAMPLE_FLOAT : 0);
            cj_sample *s = input(add(l, cases[i].label, reduce, flags), cases[i].shape, rows[r].domain);
            s->fn.reduce = rows[r].fn;
            s->axes = cases[i].axes;
            s->keepdim = cases[i].keepdim;
            s->terms = rows[r].flags ? 0 : (double)numel(cases[i].shape);
            for (int d = 0; d < cases[i].axes.n && s->terms > 0; d++) {
                int axis = cases[i].axes.axis[d] < 0 ? cases[i].shape.ndim - 1 : cases[i].axes.axis[d];
                s->terms = (d ? s->terms : 1) * (double)cases[i].shape.dim[axis];
            }
        }
    }
    if (strcmp(name, "mean") == 0) {
        cj_sample *s = input(add(l, "var", var, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 7), CJ_DOMAIN_REAL);
        s->axes = CJ_AXIS(1);
        s->terms = 7;
    }
    if (strcmp(name, "max") == 0) {
        input(add(l, "ties", reduce, CJ_SAMPLE_ROUGH | CJ_SAMPLE_EXACT), CJ_SHAPE(5, 7), CJ_DOMAIN_COUNT)->fn.reduce = cj_max;
        cj_sample *s = input(add(l, "logsumexp", logsumexp, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 7), CJ_DOMAIN_DISTINCT);
        s->axes = CJ_AXIS(-1);
        s->terms = 7;
    }
    if (strcmp(name, "prod") == 0) { /* one zero, and several: the derivative is the product of the others */
        cj_sample *s = input(add(l, "zeros", reduce, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 3), CJ_DOMAIN_COUNT);
        s->fn.reduce = cj_prod;
        s->axes = CJ_AXIS(1);
        s->flags |= CJ_SAMPLE_ROUGH; /* second order: d_prod treats the zeros as constants */
    }
}

/* ---- creation, draws ------------------------------------------------------------------------------------------------------------------------------------------------------ */

void cj__samples_create(cj_sample_list *l, const char *name)
{
    cj_sample *s;
    if (IS("full")) {
        s = add(l, "plain", full, 0), s->number = 2.5, s->shape = CJ_SHAPE(3, 4);
        s = add(l, "0-d", full, 0), s->number = 5, s->shape = CJ_SCALAR;
        s = add(l, "empty", full, 0), s->number = 1, s->shape = CJ_SHAPE(0, 3);
        s = add(l, "large", full, CJ_SAMPLE_LARGE), s->number = 3, s->shape = CJ_SHAPE(67, 1531);
    }
    if (IS("arange")) {
        s = add(l, "plain", arange, 0), s->number = 0, s->number2 = 7, s->at[0] = 4;
        s = add(l, "backwards", arange, CJ_SAMPLE_FLOAT), s->number = 5, s->number2 = -2, s->at[0] = -3;
        s = add(l, "nothing", arange, 0), s->number = 3, s->number2 = 3, s->at[0] = 4;
        s = add(l, "eye", eye, 0), s->at[0] = 7;
    }
    const unsigned draw = CJ_SAMPLE_RANDOM;
    static const cj_shape sizes[] = { { 2, { 3, 5 } }, { 0, { 0 } }, { 2, { 0, 3 } }, { 1, { 129 } }, { 2, { 67, 1531 } } };
    static const char *const labels[] = { "plain", "0-d", "empty", "129", "large" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        s = NULL;
        unsigned flags = draw | size_flags(sizes[i]);
        if (IS("uniform")) s = add(l, labels[i], uniform, flags), s->number = -1, s->number2 = 3, s->mean = 1, s->deviation = 4 / sqrt(12);
        if (IS("normal")) s = add(l, labels[i], normal, flags), s->number = 0.5, s->number2 = 2, s->mean = 0.5, s->deviation = 2;
        if (IS("bernoulli")) s = add(l, labels[i], bernoulli, flags), s->number = 0.3, s->mean = 0.3, s->deviation = sqrt(0.21);
        if (IS("randint"))
            s = add(l, labels[i], randint, flags), s->at[0] = 0, s->at[1] = 10, s->mean = 4.5, s->deviation = sqrt(99.0 / 12);
        if (IS("exponential")) s = add(l, labels[i], exponential, flags), s->number = 2, s->mean = 0.5, s->deviation = 0.5;
        if (s) s->shape = sizes[i];
    }
    if (IS("bernoulli")) input(add(l, "dropout", dropout, draw | CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT), CJ_SHAPE(7, 13), CJ_DOMAIN_REAL);
}
