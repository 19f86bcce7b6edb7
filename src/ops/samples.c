/* Inputs of samples: domains, layouts, and which file has the samples of a row. */
#include "ops/samples_list.h"

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

/* ---- the samples of a row ------------------------------------------------------------------------------------------------------------------------------ */

const cj_sample_shapes cj__sample_shapes[SHAPES] = {
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

int cj__samples(const cj_op *op, cj_sample *out)
{
    cj_sample_list l = { op, out, 0 };
    cj__samples_elementwise(&l, op->name);
    cj__samples_activation(&l, op->name);
    cj__samples_reduce(&l, op->name);
    cj__samples_shape(&l, op->name);
    cj__samples_index(&l, op->name);
    cj__samples_product(&l, op->name);
    cj__samples_create(&l, op->name);
    cj__samples_norm(&l, op->name);
    cj__samples_loss(&l, op->name);
    cj__samples_window(&l, op->name);
    cj__samples_order(&l, op->name);
    cj__samples_resample(&l, op->name);
    cj__samples_contract(&l, op->name);
    cj__samples_normalise(&l, op->name);
    cj__samples_recurrent(&l, op->name);
    cj__samples_comm(&l, op->name);
    cj__samples_fourier(&l, op->name);
    cj__samples_special(&l, op->name);
    cj__samples_draw(&l, op->name);
    cj__samples_write(&l, op->name);
    cj__samples_attention(&l, op->name);
    cj__samples_linalg(&l, op->name);
    return l.n;
}
