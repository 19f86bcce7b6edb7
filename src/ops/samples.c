/* Samples for every row of the registry: families of operators share families of shapes. */
#include "ops/samples.h"

#include <math.h>

/* ---- values ---------------------------------------------------------------------------------------------------------------------------------- */

/* splitmix64 (Steele et al. 2014) of the place: the values do not depend on the random streams under test. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double float_value(cj_domain domain, uint64_t r, int64_t at)
{
    double sign = r & 1 ? -1 : 1;
    int64_t k = (int64_t)(r >> 8 & 0xffff);
    switch (domain) {
    case CJ_DOMAIN_REAL: return sign * (double)(4 + k % 77) / 32;
    case CJ_DOMAIN_BETWEEN: return sign * (double)(9 + 2 * (k % 76)) / 64;
    case CJ_DOMAIN_POSITIVE: return (double)(12 + k % 69) / 32;
    case CJ_DOMAIN_NONZERO: return sign * (double)(16 + k % 65) / 32;
    case CJ_DOMAIN_UNIT: return (double)(4 + k % 25) / 32;
    case CJ_DOMAIN_ABOVE: return (double)(-20 + k % 101) / 32;
    case CJ_DOMAIN_NEAR_ONE: return sign * (double)(24 + k % 17) / 32;
    case CJ_DOMAIN_FRACTION: return (double)(k % 12 - 6) / 2 + (double)(4 + (k >> 8) % 9) / 32;
    case CJ_DOMAIN_DISTINCT: return (double)((at * 37 + 11) % 161 - 80) / 32;
    case CJ_DOMAIN_SPECIAL:
        if (k % 7 == 0) return NAN;
        if (k % 7 == 1) return sign * INFINITY;
        return (double)(k / 7 % 4 - 1);
    default: return (double)(k % 4 - 1);
    }
}

static double integer_value(cj_domain domain, cj_dtype values, uint64_t r, int64_t at)
{
    int64_t k = (int64_t)(r >> 8 & 0xffff);
    bool positive = domain == CJ_DOMAIN_POSITIVE || domain == CJ_DOMAIN_NONZERO || domain == CJ_DOMAIN_NEAR_ONE || domain == CJ_DOMAIN_UNIT;
    if (values == CJ_BOOL) return positive ? 1 : (double)(k % 2);
    if (positive) return (double)(1 + k % 3);
    if (domain == CJ_DOMAIN_DISTINCT) return (double)((at * 37 + 11) % 100);
    if (values == CJ_U8) return (double)(k % 6);
    return domain == CJ_DOMAIN_COUNT || domain == CJ_DOMAIN_SPECIAL ? (double)(k % 4 - 1) : (double)(k % 7 - 3);
}

static int64_t index_value(const cj_sample_input *in, uint64_t r, int64_t at)
{
    if (in->domain == CJ_DOMAIN_PERMUTED) { /* a step that shares no factor with the length */
        int64_t step = in->limit % 7 ? 7 : in->limit % 5 ? 5 : 1;
        return (at * step + 2) % in->limit;
    }
    if (in->domain == CJ_DOMAIN_TARGET && at % 3 == 2) return -100;
    return (int64_t)(r >> 8) % in->limit;
}

/* Long inputs repeat after this many elements, a prime: no two rows or blocks are alike, and making them is a copy. */
enum { PERIOD = 4099 };

bool cj__sample_value(const cj_sample *s, int i) { return s->in[i].domain < CJ_DOMAIN_MASK; }

bool cj__sample_layout(const cj_sample *s, cj_layout layout)
{
    if (layout == CJ_LAYOUT_DENSE) return true;
    if (s->flags & CJ_SAMPLE_DENSE || s->n == 0) return false;
    for (int i = 0; i < s->n; i++) {
        int ndim = s->in[i].shape.ndim;
        if (layout == CJ_LAYOUT_TRANSPOSED ? ndim > 1 : ndim > 0) return true;
    }
    return false;
}

/* The base of a layout: its shape, and which of the tensor's elements lies at a place of the base (-1: a gap). */
static cj_shape base_shape(const cj_shape *s, cj_layout layout)
{
    cj_shape b = *s;
    if (!s->ndim) return b;
    if (layout == CJ_LAYOUT_TRANSPOSED)
        for (int d = 0; d < s->ndim; d++) b.dim[d] = s->dim[s->ndim - 1 - d];
    else if (layout == CJ_LAYOUT_SLICED) b.dim[s->ndim - 1] = 2 * s->dim[s->ndim - 1] + 1;
    else if (layout == CJ_LAYOUT_EXPANDED) b.dim[0] = s->dim[0] ? 1 : 0;
    return b;
}

static int64_t element_at(const cj_shape *s, const cj_shape *b, cj_layout layout, int64_t place)
{
    int64_t at[CJ_MAX_DIMS] = { 0 }, e = 0;
    for (int d = b->ndim - 1; d >= 0; d--) {
        at[d] = place % b->dim[d];
        place /= b->dim[d];
    }
    int last = s->ndim - 1;
    for (int d = 0; d < s->ndim; d++) {
        int64_t k = layout == CJ_LAYOUT_TRANSPOSED ? at[last - d] : at[d];
        if (d == last && layout == CJ_LAYOUT_SLICED) {
            if (k % 2 == 0) return -1;
            k /= 2;
        }
        if (d == 0 && layout == CJ_LAYOUT_REVERSED) k = s->dim[0] - 1 - k;
        if (d == 0 && (layout == CJ_LAYOUT_EXPANDED || layout == CJ_LAYOUT_REPEATED)) k = 0;
        e = e * s->dim[d] + k;
    }
    return e;
}

cj_tensor *cj__sample_input(cj_ctx *c, const cj_sample *s, int i, cj_dtype values, cj_dtype dtype, cj_layout layout, uint64_t seed)
{
    const cj_sample_input *in = &s->in[i];
    if (in->domain == CJ_DOMAIN_MASK) dtype = CJ_BOOL;
    else if (!cj__sample_value(s, i)) dtype = CJ_I64;
    if (layout == CJ_LAYOUT_TRANSPOSED && in->shape.ndim < 2) layout = CJ_LAYOUT_SLICED;
    cj_shape base = base_shape(&in->shape, layout);
    int64_t n = cj__numel(c, "sample", base.ndim, base.dim);
    if (n < 0) return c->poison;
    size_t size = cj_dtype_size(dtype);
    char *bytes = cj__alloc(c, (size_t)n * size + 1);
    if (!bytes) return c->poison;
    bool dense = layout == CJ_LAYOUT_DENSE || !in->shape.ndim;
    for (int64_t p = 0; p < n; p++) {
        if (dense && p >= PERIOD) { /* repeats what is there */
            int64_t count = n - p < PERIOD ? n - p : PERIOD;
            memcpy(bytes + (size_t)p * size, bytes, (size_t)count * size);
            p += count - 1;
            continue;
        }
        int64_t e = dense ? p : element_at(&in->shape, &base, layout, p) % PERIOD;
        uint64_t r = mix(seed * 1000003 + (uint64_t)i * 7919 + mix((uint64_t)(e + 1)));
        char *to = bytes + (size_t)p * size;
        if (e < 0) cj__store(dtype, to, 1);
        else if (in->domain == CJ_DOMAIN_MASK) *to = r >> 20 & 1;
        else if (!cj__sample_value(s, i)) *(int64_t *)to = index_value(in, r, e);
        else cj__store(dtype, to, cj_dtype_is_float(values) ? float_value(in->domain, r, e) : integer_value(in->domain, values, r, e));
    }
    cj_tensor *t = cj_from_data(c, bytes, dtype, base);
    cj__free(c, bytes, (size_t)n * size + 1);
    if (!in->shape.ndim) return t;
    switch (layout) {
    case CJ_LAYOUT_TRANSPOSED: {
        cj_axes order = { .n = in->shape.ndim };
        for (int d = 0; d < order.n; d++) order.axis[d] = order.n - 1 - d;
        return cj_permute(t, order);
    }
    case CJ_LAYOUT_SLICED: return cj_slice(t, -1, 1, CJ_END, 2);
    case CJ_LAYOUT_REVERSED: return cj_slice(t, 0, -1, CJ_END, -1);
    case CJ_LAYOUT_EXPANDED: return cj_expand(t, in->shape);
    default: return t;
    }
}

/* ---- calls --------------------------------------------------------------------------------------------------------------------------------------- */

#define CALL(name) static cj_tensor *name(cj_ctx *c, const cj_sample *s, cj_tensor *const *in)
#define UNUSED (void)c, (void)s, (void)in

CALL(unary)
{
    UNUSED;
    return s->fn.unary(in[0]);
}
CALL(binary)
{
    UNUSED;
    return s->fn.binary(in[0], in[1]);
}
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

CALL(reshape)
{
    UNUSED;
    return cj_reshape(in[0], s->shape);
}
CALL(flatten)
{
    UNUSED;
    return cj_flatten(in[0], 0);
}
CALL(permute)
{
    UNUSED;
    return cj_permute(in[0], s->axes);
}
CALL(expand)
{
    UNUSED;
    return cj_expand(in[0], s->shape);
}
CALL(slice)
{
    UNUSED;
    return cj_slice(in[0], (int)s->at[0], s->at[1], s->at[2], s->at[3]);
}
CALL(select_one)
{
    UNUSED;
    return cj_select(in[0], (int)s->at[0], s->at[1]);
}
CALL(diagonal)
{
    UNUSED;
    return cj_diagonal(in[0], s->at[0], (int)s->at[1], (int)s->at[2]);
}
CALL(unfold)
{
    UNUSED;
    return cj_unfold(in[0], (int)s->at[0], s->at[1], s->at[2]);
}
/* as_strided and its transpose have no public name: they close the views under differentiation. Windows of 3, 2 apart, of a row of 9. */
static const cj_strided_attrs windows = { .base_ndim = 2, .ndim = 3, .base = { 4, 9 }, .shape = { 4, 4, 3 }, .stride = { 9, 2, 1 } };
CALL(as_strided)
{
    UNUSED;
    return cj__as_strided(in[0], &windows);
}
CALL(as_strided_scatter)
{
    UNUSED;
    return cj__as_strided_scatter(in[0], &windows);
}
CALL(clone)
{
    UNUSED;
    return cj_clone(in[0]);
}
CALL(cast)
{
    UNUSED;
    /* a cast to the own dtype is no call */
    cj_dtype to = (cj_dtype)s->at[0];
    if (to == cj_dtype_of(in[0])) to = to == CJ_F32 ? CJ_F64 : CJ_F32;
    return cj_cast(in[0], to);
}
CALL(cast_and_back)
{
    UNUSED;
    return cj_cast(cj_cast(in[0], cj_dtype_of(in[0]) == CJ_F32 ? CJ_F64 : CJ_F32), cj_dtype_of(in[0]));
}
CALL(cat)
{
    UNUSED;
    return cj_cat(in, s->n, (int)s->at[0]);
}
CALL(stack)
{
    UNUSED;
    return cj_stack(in, s->n, (int)s->at[0]);
}

CALL(index_select)
{
    UNUSED;
    return cj_index_select(in[0], (int)s->at[0], in[1]);
}
CALL(index_add)
{
    UNUSED;
    return cj_index_add(in[0], (int)s->at[0], in[1], in[2]);
}
CALL(gather)
{
    UNUSED;
    return cj_gather(in[0], (int)s->at[0], in[1]);
}
CALL(scatter_add)
{
    UNUSED;
    return cj_scatter_add(in[0], (int)s->at[0], in[1], in[2]);
}
CALL(embedding)
{
    UNUSED;
    return cj_embedding(in[0], in[1]);
}
CALL(one_hot)
{
    UNUSED;
    return cj_one_hot(in[0], s->at[0]);
}
CALL(nonzero)
{
    UNUSED;
    return cj_nonzero(in[0]);
}

CALL(linear)
{
    UNUSED;
    return cj_linear_op(in[0], in[1], s->n > 2 ? in[2] : NULL);
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

CALL(softmax)
{
    UNUSED;
    return cj_softmax(in[0], (int)s->at[0]);
}
CALL(log_softmax)
{
    UNUSED;
    return cj_log_softmax(in[0], (int)s->at[0]);
}
CALL(layer_norm)
{
    UNUSED;
    return cj_layer_norm(in[0], s->n > 1 ? in[1] : NULL, s->n > 2 ? in[2] : NULL, 0);
}
CALL(attention)
{
    UNUSED;
    return cj_attention(in[0], in[1], in[2], &(cj_attention_opts){ .causal = s->at[0] != 0 });
}
CALL(loss)
{
    UNUSED;
    return s->fn.loss(in[0], in[1],
                      &(cj_loss_opts){ .reduction = (cj_reduction)s->at[0], .label_smoothing = s->number, .ignore_index = s->at[1] });
}

/* A write goes to a copy of the first input. */
CALL(assign_)
{
    UNUSED;
    return cj_assign_(cj_clone(in[0]), in[1]);
}
CALL(assign_view_)
{
    UNUSED;
    cj_tensor *x = cj_clone(in[0]);
    cj_assign_(cj_slice(x, 0, 1, CJ_END, 2), in[1]);
    return x;
}
CALL(add_)
{
    UNUSED;
    return cj_add_(cj_clone(in[0]), in[1], s->number);
}
CALL(write_slice_)
{
    UNUSED;
    return cj_write_slice_(cj_clone(in[0]), (int)s->at[0], cj_select(in[1], 0, 0), in[2]);
}

/* ---- building the lists ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct list {
    const cj_op *op;
    cj_sample *out;
    int n;
} list;

static cj_sample *add(list *l, const char *label, cj_sample_fn *call, unsigned flags)
{
    cj_sample *s = &l->out[l->n < CJ_SAMPLES - 1 ? l->n++ : CJ_SAMPLES - 1];
    *s = (cj_sample){ .op = l->op, .label = label, .call = call, .flags = flags };
    return s;
}
static cj_sample *input(cj_sample *s, cj_shape shape, cj_domain domain)
{
    s->in[s->n++] = (cj_sample_input){ shape, domain, 0 };
    return s;
}
static cj_sample *indices(cj_sample *s, cj_shape shape, cj_domain domain, int64_t limit)
{
    s->in[s->n++] = (cj_sample_input){ shape, domain, limit };
    return s;
}
static int64_t numel(cj_shape s)
{
    int64_t n = 1;
    for (int d = 0; d < s.ndim; d++) n *= s.dim[d];
    return n;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *label;
    cj_shape a, b;
} shapes[] = {
    { "plain", { 2, { 4, 5 } }, { 2, { 4, 5 } } },
    { "row", { 2, { 4, 5 } }, { 1, { 5 } } },
    { "outer", { 2, { 4, 1 } }, { 2, { 1, 5 } } },
    { "0-d and matrix", { 0 }, { 2, { 3, 4 } } },
    { "0-d", { 0 }, { 0 } },
    { "empty", { 2, { 0, 3 } }, { 2, { 1, 3 } } },
    { "odd", { 2, { 7, 13 } }, { 1, { 1 } } },
    { "129", { 1, { 129 } }, { 1, { 129 } } },
    { "3-d", { 3, { 2, 3, 7 } }, { 2, { 3, 1 } } },
    { "large", { 2, { 67, 1531 } }, { 1, { 1531 } } },
    { "large column", { 2, { 517, 97 } }, { 2, { 517, 1 } } },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static unsigned size_flags(cj_shape s) { return numel(s) > 1000 ? CJ_SAMPLE_LARGE : 0; }

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

static void unary_samples(list *l, cj_sample_fn *call, cj_tensor *(*fn)(cj_tensor *), cj_domain domain, unsigned flags)
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

static void scalar_samples(list *l, const struct scalar_row *r, bool first)
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

static void elementwise_samples(list *l, const char *name)
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
}

static void where_samples(list *l)
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

/* ---- reductions ------------------------------------------------------------------------------------------------------------------------------------------ */

static void reduce_samples(list *l, const char *name)
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

/* ---- shapes ---------------------------------------------------------------------------------------------------------------------------------------------------- */

static void shape_samples(list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const unsigned exact = CJ_SAMPLE_EXACT;
    cj_sample *s;
#define IS(word) (strcmp(name, word) == 0)
    if (IS("reshape")) {
        input(add(l, "plain", reshape, exact), CJ_SHAPE(4, 6), real)->shape = CJ_SHAPE(2, -1, 3);
        input(add(l, "0-d", reshape, exact), CJ_SCALAR, real)->shape = CJ_SHAPE(1, 1);
        input(add(l, "empty", reshape, exact), CJ_SHAPE(0, 3), real)->shape = CJ_SHAPE(2, 0);
        input(add(l, "flatten", flatten, exact), CJ_SHAPE(7, 13), real);
        input(add(l, "large", reshape, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(129, 517), real)->shape = CJ_SHAPE(517, 129);
    }
    if (IS("permute")) {
        input(add(l, "plain", permute, exact), CJ_SHAPE(2, 3, 4), real)->axes = CJ_AXES(2, 0, 1);
        input(add(l, "odd", permute, exact), CJ_SHAPE(7, 13), real)->axes = CJ_AXES(1, 0);
        input(add(l, "empty", permute, exact), CJ_SHAPE(2, 0, 3), real)->axes = CJ_AXES(1, 2, 0);
        input(add(l, "large", permute, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(65, 33, 31), real)->axes = CJ_AXES(1, 2, 0);
    }
    if (IS("expand")) {
        input(add(l, "plain", expand, exact), CJ_SHAPE(4, 1), real)->shape = CJ_SHAPE(3, 4, 5);
        input(add(l, "0-d", expand, exact), CJ_SCALAR, real)->shape = CJ_SHAPE(2, 3);
        input(add(l, "empty", expand, exact), CJ_SHAPE(1, 3), real)->shape = CJ_SHAPE(0, 3);
        input(add(l, "odd", expand, exact), CJ_SHAPE(13), real)->shape = CJ_SHAPE(7, 13);
        s = input(add(l, "large", expand, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(1, 1031), real);
        s->shape = CJ_SHAPE(97, 1031);
    }
    if (IS("slice")) {
        static const struct {
            const char *label;
            cj_shape shape;
            int64_t at[4];
        } cases[] = {
            { "plain", { 2, { 5, 6 } }, { 1, 1, 4, 1 } },
            { "step", { 2, { 7, 13 } }, { 1, 2, CJ_END, 3 } },
            { "backwards", { 2, { 7, 5 } }, { 0, -1, CJ_END, -2 } },
            { "nothing", { 2, { 4, 5 } }, { 0, 3, 3, 1 } },
            { "negative", { 1, { 129 } }, { 0, -20, -1, 1 } },
            { "empty", { 2, { 0, 3 } }, { 1, 0, 2, 1 } },
            { "large", { 2, { 301, 517 } }, { 1, 3, CJ_END, 2 } },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            s = input(add(l, cases[i].label, slice, exact | size_flags(cases[i].shape)), cases[i].shape, real);
            memcpy(s->at, cases[i].at, sizeof s->at);
        }
    }
    if (IS("select")) {
        input(add(l, "plain", select_one, exact), CJ_SHAPE(3, 4, 2), real)->at[0] = 1, l->out[l->n - 1].at[1] = -1;
        input(add(l, "vector", select_one, exact), CJ_SHAPE(13), real)->at[1] = 7;
        input(add(l, "large", select_one, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(517, 301), real)->at[0] = 1;
    }
    if (IS("diagonal")) {
        static const struct {
            const char *label;
            cj_shape shape;
            int64_t at[3];
        } cases[] = {
            { "plain", { 2, { 4, 5 } }, { 0, 0, 1 } },   { "above", { 3, { 3, 5, 4 } }, { 1, 1, 2 } },
            { "below", { 2, { 7, 13 } }, { -2, 0, 1 } }, { "swapped", { 3, { 3, 2, 4 } }, { 0, 2, 0 } },
            { "outside", { 2, { 3, 3 } }, { 5, 0, 1 } },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            s = input(add(l, cases[i].label, diagonal, exact), cases[i].shape, real);
            memcpy(s->at, cases[i].at, sizeof cases[i].at);
        }
    }
    if (IS("unfold")) {
        static const struct {
            const char *label;
            cj_shape shape;
            int64_t at[3];
        } cases[] = {
            { "overlapping", { 2, { 3, 9 } }, { 1, 3, 2 } },
            { "apart", { 2, { 13, 2 } }, { 0, 3, 5 } },
            { "whole", { 1, { 7 } }, { 0, 7, 1 } },
            { "large", { 2, { 65, 1031 } }, { 1, 5, 3 } },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            s = input(add(l, cases[i].label, unfold, size_flags(cases[i].shape)), cases[i].shape, real);
            memcpy(s->at, cases[i].at, sizeof cases[i].at);
            s->terms = 3;
        }
    }
    if (IS("as_strided")) input(add(l, "windows", as_strided, CJ_SAMPLE_DENSE), CJ_SHAPE(4, 9), real)->terms = 3;
    if (IS("as_strided_scatter")) input(add(l, "windows", as_strided_scatter, CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 4, 3), real)->terms = 3;
    if (IS("clone"))
        for (int i = 0; i < SHAPES; i++) input(add(l, shapes[i].label, clone, exact | size_flags(shapes[i].a)), shapes[i].a, real);
    if (IS("cast")) {
        static const cj_dtype to[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16, CJ_I64, CJ_I32 };
        for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
            input(add(l, cj_dtype_name(to[i]), cast, exact | CJ_SAMPLE_ROUGH), CJ_SHAPE(7, 13), CJ_DOMAIN_FRACTION)->at[0] = to[i];
            input(add(l, cj_dtype_name(to[i]), cast, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 1531), CJ_DOMAIN_FRACTION)->at[0] = to[i];
        }
        /* f64 through f32: exact at these values and with this step, so a difference quotient sees a straight line; the gradient is rounded */
        s = input(add(l, "and back", cast_and_back, exact | CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 5), real);
        s->step = 0x1p-6;
        s->tolerance = 1e-3;
        input(add(l, "empty", cast, exact | CJ_SAMPLE_ROUGH), CJ_SHAPE(0, 3), real)->at[0] = CJ_F64;
        input(add(l, "0-d", cast, exact | CJ_SAMPLE_ROUGH), CJ_SCALAR, real)->at[0] = CJ_F64;
    }
    if (IS("cat")) {
        input(input(add(l, "rows", cat, exact), CJ_SHAPE(2, 3), real), CJ_SHAPE(4, 3), real);
        input(input(input(add(l, "columns", cat, exact), CJ_SHAPE(3, 2), real), CJ_SHAPE(3, 1), real), CJ_SHAPE(3, 4), real)->at[0] = -1;
        input(input(add(l, "with nothing", cat, exact), CJ_SHAPE(0, 3), real), CJ_SHAPE(7, 3), real);
        input(input(add(l, "stack", stack, exact), CJ_SHAPE(3, 4), real), CJ_SHAPE(3, 4), real)->at[0] = 1;
        input(input(add(l, "large", cat, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(129, 517), real), CJ_SHAPE(129, 65), real)->at[0] = 1;
    }
}

/* ---- indexing ------------------------------------------------------------------------------------------------------------------------------------------------------ */

static void index_samples(list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL, index = CJ_DOMAIN_INDEX;
    if (IS("index_select")) {
        indices(input(add(l, "rows", index_select, CJ_SAMPLE_EXACT), CJ_SHAPE(5, 3), real), CJ_SHAPE(7), index, 5);
        indices(input(add(l, "columns", index_select, CJ_SAMPLE_EXACT), CJ_SHAPE(2, 6, 3), real), CJ_SHAPE(4), index, 6)->at[0] = 1;
        indices(input(add(l, "nothing", index_select, CJ_SAMPLE_EXACT), CJ_SHAPE(5, 3), real), CJ_SHAPE(0), index, 5);
        indices(input(add(l, "embedding", embedding, CJ_SAMPLE_EXACT), CJ_SHAPE(11, 4), real), CJ_SHAPE(3, 5), index, 11);
        indices(input(add(l, "large", index_select, CJ_SAMPLE_EXACT | CJ_SAMPLE_LARGE), CJ_SHAPE(517, 65), real), CJ_SHAPE(2053), index,
                517);
    }
    if (IS("index_add")) {
        input(indices(input(add(l, "rows", index_add, 0), CJ_SHAPE(5, 3), real), CJ_SHAPE(7), index, 5), CJ_SHAPE(7, 3), real)->terms = 4;
        input(indices(input(add(l, "columns", index_add, 0), CJ_SHAPE(2, 6, 3), real), CJ_SHAPE(4), index, 6), CJ_SHAPE(2, 4, 3), real)
            ->at[0] = 1;
        input(indices(input(add(l, "nothing", index_add, 0), CJ_SHAPE(5, 3), real), CJ_SHAPE(0), index, 5), CJ_SHAPE(0, 3), real);
        input(indices(input(add(l, "large", index_add, CJ_SAMPLE_LARGE), CJ_SHAPE(517, 65), real), CJ_SHAPE(2053), index, 517),
              CJ_SHAPE(2053, 65), real)
            ->terms = 64; /* every addition rounds to the dtype */
    }
    if (IS("gather")) {
        indices(input(add(l, "rows", gather, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 3), index, 5)->at[0] = 1;
        indices(input(add(l, "columns", gather, CJ_SAMPLE_EXACT), CJ_SHAPE(5, 3), real), CJ_SHAPE(7, 3), index, 5);
        indices(input(add(l, "empty", gather, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 0), index, 5)->at[0] = 1;
        cj_sample *s = indices(input(add(l, "nll_loss", loss, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 7), real), CJ_SHAPE(5), index, 7);
        s->fn.loss = cj_nll_loss;
        s->terms = 5;
        indices(input(add(l, "large", gather, CJ_SAMPLE_EXACT | CJ_SAMPLE_LARGE), CJ_SHAPE(129, 517), real), CJ_SHAPE(129, 1031), index,
                517)
            ->at[0] = 1;
    }
    if (IS("scatter_add")) {
        input(indices(input(add(l, "rows", scatter_add, 0), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 3), index, 5), CJ_SHAPE(4, 3), real)->at[0] =
            1;
        input(indices(input(add(l, "columns", scatter_add, 0), CJ_SHAPE(3, 4), real), CJ_SHAPE(7, 4), index, 3), CJ_SHAPE(7, 4), real)
            ->terms = 7;
        input(indices(input(add(l, "empty", scatter_add, 0), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 0), index, 5), CJ_SHAPE(4, 0), real)
            ->at[0] = 1;
        indices(add(l, "one_hot", one_hot, 0), CJ_SHAPE(3, 4), index, 5)->at[0] = 5;
        cj_sample *s =
            input(indices(input(add(l, "large", scatter_add, CJ_SAMPLE_LARGE), CJ_SHAPE(129, 517), real), CJ_SHAPE(129, 1031), index, 517),
                  CJ_SHAPE(129, 1031), real);
        s->at[0] = 1;
        s->terms = 64;
    }
    if (IS("nonzero")) {
        input(add(l, "plain", nonzero, CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), CJ_DOMAIN_COUNT);
        input(add(l, "0-d", nonzero, CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT), CJ_SCALAR, CJ_DOMAIN_COUNT);
        input(add(l, "empty", nonzero, CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT), CJ_SHAPE(0, 3), CJ_DOMAIN_COUNT);
        input(add(l, "odd", nonzero, CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT), CJ_SHAPE(7, 13, 3), CJ_DOMAIN_COUNT);
    }
}

/* ---- products -------------------------------------------------------------------------------------------------------------------------------------------------------- */

static void product_samples(list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape a, b;
    } matmuls[] = {
        { "plain", { 2, { 4, 5 } }, { 2, { 5, 3 } } },
        { "vector and matrix", { 1, { 5 } }, { 2, { 5, 3 } } },
        { "matrix and vector", { 2, { 4, 5 } }, { 1, { 5 } } },
        { "dot", { 1, { 13 } }, { 1, { 13 } } },
        { "batch", { 3, { 2, 3, 4 } }, { 3, { 2, 4, 2 } } },
        { "broadcast batch", { 4, { 2, 1, 3, 2 } }, { 3, { 3, 2, 2 } } },
        { "shared matrix", { 3, { 3, 2, 5 } }, { 2, { 5, 2 } } },
        { "no rows", { 2, { 0, 5 } }, { 2, { 5, 3 } } },
        { "no inner", { 2, { 4, 0 } }, { 2, { 0, 3 } } },
        { "one", { 2, { 1, 1 } }, { 2, { 1, 1 } } },
        { "odd", { 2, { 7, 13 } }, { 2, { 13, 5 } } },
        { "tiles", { 2, { 65, 129 } }, { 2, { 129, 33 } } },
        { "large", { 2, { 257, 301 } }, { 2, { 301, 193 } } },
        { "large batch", { 3, { 17, 31, 65 } }, { 3, { 17, 65, 47 } } },
        { "row of many", { 2, { 1, 1031 } }, { 2, { 1031, 517 } } },
        { "column of many", { 2, { 517, 1031 } }, { 2, { 1031, 1 } } },
    };
    for (size_t i = 0; i < sizeof matmuls / sizeof *matmuls && IS("matmul"); i++) {
        unsigned flags = CJ_SAMPLE_FLOAT | (numel(matmuls[i].a) > 200 ? CJ_SAMPLE_LARGE : 0);
        cj_sample *s = input(input(add(l, matmuls[i].label, binary, flags), matmuls[i].a, CJ_DOMAIN_REAL), matmuls[i].b, CJ_DOMAIN_REAL);
        s->fn.binary = cj_matmul;
        s->terms = (double)matmuls[i].a.dim[matmuls[i].a.ndim - 1];
    }
    static const struct {
        const char *label;
        cj_shape x;
        int64_t out;
        bool bias;
    } linears[] = {
        { "plain", { 2, { 4, 5 } }, 3, true },
        { "no bias", { 2, { 3, 7 } }, 4, false },
        { "vector", { 1, { 5 } }, 3, true },
        { "3-d", { 3, { 2, 3, 4 } }, 5, true },
        { "no rows", { 2, { 0, 5 } }, 3, true },
        { "no inner", { 2, { 3, 0 } }, 2, true },
        { "odd", { 2, { 7, 13 } }, 3, true },
        { "large", { 2, { 129, 301 } }, 257, true },
        { "large, no bias", { 3, { 5, 33, 129 } }, 65, false },
    };
    for (size_t i = 0; i < sizeof linears / sizeof *linears && IS("linear"); i++) {
        int64_t k = linears[i].x.dim[linears[i].x.ndim - 1];
        unsigned flags = CJ_SAMPLE_FLOAT | (numel(linears[i].x) > 200 ? CJ_SAMPLE_LARGE : 0);
        cj_sample *s = input(input(add(l, linears[i].label, linear, flags), linears[i].x, CJ_DOMAIN_REAL), CJ_SHAPE(linears[i].out, k),
                             CJ_DOMAIN_REAL);
        if (linears[i].bias) input(s, CJ_SHAPE(linears[i].out), CJ_DOMAIN_REAL);
        s->terms = (double)k + 1;
    }
}

/* ---- creation, draws ------------------------------------------------------------------------------------------------------------------------------------------------------ */

static void create_samples(list *l, const char *name)
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

/* ---- normalisation, losses, writes -------------------------------------------------------------------------------------------------------------------------------------------- */

static void norm_samples(list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape shape;
        int64_t axis;
    } cases[] = {
        { "plain", { 2, { 4, 5 } }, -1 },         { "columns", { 2, { 5, 4 } }, 0 },
        { "middle", { 3, { 2, 7, 3 } }, 1 },      { "0-d", { 0 }, 0 },
        { "empty", { 2, { 0, 3 } }, -1 },         { "one", { 2, { 3, 1 } }, -1 },
        { "odd", { 2, { 3, 13 } }, -1 },          { "129", { 1, { 129 } }, 0 },
        { "large", { 2, { 67, 1031 } }, -1 },     { "long row", { 2, { 3, 20011 } }, -1 },
        { "many rows", { 2, { 3001, 33 } }, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double n = cases[i].shape.ndim ? (double)cases[i].shape.dim[cases[i].axis < 0 ? cases[i].shape.ndim - 1 : cases[i].axis] : 1;
        unsigned flags = CJ_SAMPLE_FLOAT | size_flags(cases[i].shape);
        cj_sample *s;
        if (IS("softmax") || IS("log_softmax")) {
            s = input(add(l, cases[i].label, IS("softmax") ? softmax : log_softmax, flags), cases[i].shape, CJ_DOMAIN_DISTINCT);
            s->at[0] = cases[i].axis;
            s->terms = n;
        }
        if (IS("layer_norm") && cases[i].shape.ndim && cases[i].axis == -1 && n > 1) {
            s = input(add(l, cases[i].label, layer_norm, flags), cases[i].shape, CJ_DOMAIN_REAL);
            cj_shape row = CJ_SHAPE((int64_t)n);
            if (i != 6) input(s, row, CJ_DOMAIN_REAL); /* one without weight, one without bias */
            if (i != 6 && i != 8) input(s, row, CJ_DOMAIN_REAL);
            s->terms = n;
        }
    }
    for (int causal = 0; causal < 2 && IS("softmax"); causal++) {
        cj_shape q = CJ_SHAPE(2, 3, 4), k = causal ? q : CJ_SHAPE(2, 5, 4);
        cj_sample *s = add(l, causal ? "causal attention" : "attention", attention, CJ_SAMPLE_FLOAT);
        input(input(input(s, q, CJ_DOMAIN_REAL), k, CJ_DOMAIN_REAL), k, CJ_DOMAIN_REAL)->at[0] = causal;
        s->terms = 20;
    }
}

static void loss_samples(list *l, const char *name)
{
    cj_sample *s;
    if (IS("cross_entropy")) {
        static const struct {
            const char *label;
            cj_shape x, t;
            cj_domain targets;
            cj_reduction reduction;
            double smooth;
        } cases[] = {
            { "mean", { 2, { 5, 7 } }, { 1, { 5 } }, CJ_DOMAIN_INDEX, CJ_MEAN, 0 },
            { "sum, ignored rows", { 2, { 7, 5 } }, { 1, { 7 } }, CJ_DOMAIN_TARGET, CJ_SUM, 0 },
            { "each, smoothed", { 2, { 4, 13 } }, { 1, { 4 } }, CJ_DOMAIN_INDEX, CJ_NONE, 0.1 },
            { "mean, smoothed, ignored rows", { 3, { 2, 3, 5 } }, { 2, { 2, 3 } }, CJ_DOMAIN_TARGET, CJ_MEAN, 0.2 },
            { "each of 3-d", { 3, { 2, 3, 5 } }, { 2, { 2, 3 } }, CJ_DOMAIN_INDEX, CJ_NONE, 0 },
            { "no rows", { 2, { 0, 5 } }, { 1, { 0 } }, CJ_DOMAIN_INDEX, CJ_SUM, 0 },
            { "large", { 2, { 129, 1031 } }, { 1, { 129 } }, CJ_DOMAIN_TARGET, CJ_MEAN, 0.1 },
            { "many rows", { 2, { 4099, 17 } }, { 1, { 4099 } }, CJ_DOMAIN_INDEX, CJ_MEAN, 0 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int64_t classes = cases[i].x.dim[cases[i].x.ndim - 1];
            s = input(add(l, cases[i].label, loss, CJ_SAMPLE_FLOAT | size_flags(cases[i].x)), cases[i].x, CJ_DOMAIN_REAL);
            indices(s, cases[i].t, cases[i].targets, classes);
            s->fn.loss = cj_cross_entropy;
            s->at[0] = cases[i].reduction;
            s->number = cases[i].smooth;
            s->terms = (double)numel(cases[i].x);
        }
    }
    if (IS("bce_with_logits")) {
        static const cj_reduction reductions[] = { CJ_MEAN, CJ_SUM, CJ_NONE };
        static const char *const labels[] = { "mean", "sum", "each" };
        for (int i = 0; i < 3; i++) {
            s = input(input(add(l, labels[i], loss, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 7), CJ_DOMAIN_REAL), CJ_SHAPE(5, 7), CJ_DOMAIN_UNIT);
            s->fn.loss = cj_bce_with_logits;
            s->at[0] = reductions[i];
            s->terms = 35;
        }
        s = input(input(add(l, "large", loss, CJ_SAMPLE_FLOAT | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 1531), CJ_DOMAIN_REAL), CJ_SHAPE(67, 1531),
                  CJ_DOMAIN_UNIT);
        s->fn.loss = cj_bce_with_logits;
        s->terms = 67 * 1531;
    }
    /* losses that are compositions, under the row that they end in */
    const struct {
        const char *row, *label;
        cj_tensor *(*fn)(cj_tensor *, cj_tensor *, const cj_loss_opts *);
        cj_domain x, t;
    } plain[] = {
        { "square", "mse_loss", cj_mse_loss, CJ_DOMAIN_REAL, CJ_DOMAIN_REAL },
        { "abs", "l1_loss", cj_l1_loss, CJ_DOMAIN_REAL, CJ_DOMAIN_BETWEEN },
        { "log", "bce_loss", cj_bce_loss, CJ_DOMAIN_UNIT, CJ_DOMAIN_UNIT },
    };
    for (int i = 0; i < 3; i++) {
        if (!IS(plain[i].row)) continue;
        s = input(input(add(l, plain[i].label, loss, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 7), plain[i].x), CJ_SHAPE(5, 7), plain[i].t);
        s->fn.loss = plain[i].fn;
        s->terms = 35;
    }
    if (IS("mul"))
        input(input(add(l, "outer product", binary, CJ_SAMPLE_EXACT), CJ_SHAPE(7), CJ_DOMAIN_REAL), CJ_SHAPE(5), CJ_DOMAIN_REAL)
            ->fn.binary = cj_outer;
}

static cj_tensor *all_sum(cj_tensor *x) { return cj_all_sum(x, NULL); }
static cj_tensor *all_max(cj_tensor *x) { return cj_all_max(x, NULL); }
static cj_tensor *all_gather(cj_tensor *x) { return cj_all_gather(x, NULL); }
static cj_tensor *broadcast(cj_tensor *x) { return cj_broadcast(x, NULL, 0); }

static void comm_samples(list *l, const char *name)
{
    const struct {
        const char *row;
        cj_tensor *(*fn)(cj_tensor *);
    } rows[] = { { "all_sum", all_sum }, { "all_max", all_max }, { "all_gather", all_gather }, { "broadcast", broadcast } };
    const cj_shape shapes[] = { CJ_SHAPE(4, 5), CJ_SHAPE(0, 3), CJ_SCALAR };
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 3 && IS(rows[r].row); i++)
            input(add(l, "one process", unary, CJ_SAMPLE_EXACT), shapes[i], CJ_DOMAIN_REAL)->fn.unary = rows[r].fn;
}

static void write_samples(list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    cj_sample *s;
    if (IS("assign_")) {
        input(input(add(l, "plain", assign_, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 5), real);
        input(input(add(l, "broadcast", assign_, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), real), CJ_SHAPE(5), real);
        input(input(add(l, "into a view", assign_view_, CJ_SAMPLE_EXACT), CJ_SHAPE(7, 13), real), CJ_SHAPE(3, 13), real);
        input(input(add(l, "empty", assign_, CJ_SAMPLE_EXACT), CJ_SHAPE(0, 3), real), CJ_SHAPE(1, 3), real);
        input(input(add(l, "large", assign_, CJ_SAMPLE_EXACT | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 1531), real), CJ_SHAPE(1531), real);
    }
    if (IS("add_")) {
        s = input(input(add(l, "plain", add_, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 5), real), s->number = -2;
        s = input(input(add(l, "broadcast", add_, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT), CJ_SHAPE(7, 13), real), CJ_SHAPE(7, 1), real),
        s->number = 0.5;
        s = input(input(add(l, "large", add_, CJ_SAMPLE_EXACT | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 1531), real), CJ_SHAPE(1531), real),
        s->number = 3;
    }
    if (IS("write_slice_")) {
        s = indices(input(add(l, "rows", write_slice_, CJ_SAMPLE_EXACT), CJ_SHAPE(7, 5), real), CJ_SHAPE(1), CJ_DOMAIN_INDEX, 4);
        input(s, CJ_SHAPE(3, 5), real);
        s = indices(input(add(l, "columns", write_slice_, CJ_SAMPLE_EXACT), CJ_SHAPE(3, 13, 2), real), CJ_SHAPE(1), CJ_DOMAIN_INDEX, 9);
        input(s, CJ_SHAPE(3, 4, 2), real)->at[0] = 1;
    }
}

int cj__samples(const cj_op *op, cj_sample *out)
{
    list l = { op, out, 0 };
    elementwise_samples(&l, op->name);
    if (strcmp(op->name, "where") == 0) where_samples(&l);
    reduce_samples(&l, op->name);
    shape_samples(&l, op->name);
    index_samples(&l, op->name);
    product_samples(&l, op->name);
    create_samples(&l, op->name);
    norm_samples(&l, op->name);
    loss_samples(&l, op->name);
    comm_samples(&l, op->name);
    write_samples(&l, op->name);
    return l.n;
}
