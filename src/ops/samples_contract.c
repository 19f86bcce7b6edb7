/* Samples of contractions, norms, distances and sparse products. */
#include "ops/samples_list.h"

#include <math.h>

/* ---- contractions ------------------------------------------------------------------------------------------------------------------------------------ */

static const char *const equations[] = {
    "bij,bjk->bik", "ii->i", "ij->", "i,j->ij", "...ij,...jk", "ab,bc,cd->ad", "bhi,bih", "ij,jk->ki"
};
CALL(einsum)
{
    UNUSED;
    return cj_einsum(equations[s->at[0]], in, s->n);
}
CALL(tensordot)
{
    UNUSED;
    return cj_tensordot(in[0], in[1], CJ_AXES(1, 0), CJ_AXES(0, 2));
}

static void contractions(cj_sample_list *l, const char *name)
{
    const struct {
        const char *label;
        int64_t which;
        cj_shape x[3];
        int n;
        double terms;
    } cases[] = {
        { "batched product", 0, { CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 4, 2) }, 2, 4 },
        { "diagonal", 1, { CJ_SHAPE(4, 4) }, 1, 1 },
        { "sum", 2, { CJ_SHAPE(3, 4) }, 1, 12 },
        { "outer product", 3, { CJ_SHAPE(3), CJ_SHAPE(4) }, 2, 1 },
        { "leading axes", 4, { CJ_SHAPE(2, 1, 3, 4), CJ_SHAPE(3, 4, 2) }, 2, 4 },
        { "three operands", 5, { CJ_SHAPE(2, 3), CJ_SHAPE(3, 4), CJ_SHAPE(4, 2) }, 3, 12 },
        { "to a scalar", 6, { CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 4, 3) }, 2, 24 },
        { "transposed result", 7, { CJ_SHAPE(3, 4), CJ_SHAPE(4, 2) }, 2, 4 },
        { "large", 0, { CJ_SHAPE(3, 41, 67), CJ_SHAPE(3, 67, 53) }, 2, 67 },
    };
    if (IS("einsum"))
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            cj_sample *s = add(l, cases[i].label, einsum, CJ_SAMPLE_FLOAT | (i == 8 ? CJ_SAMPLE_LARGE : 0));
            for (int k = 0; k < cases[i].n; k++) input(s, cases[i].x[k], CJ_DOMAIN_REAL);
            s->at[0] = cases[i].which;
            s->terms = cases[i].terms;
        }
    if (IS("tensordot")) {
        cj_sample *s = input(input(add(l, "two axes", tensordot, CJ_SAMPLE_FLOAT), CJ_SHAPE(2, 3, 4), CJ_DOMAIN_REAL), CJ_SHAPE(3, 2, 2),
                             CJ_DOMAIN_REAL);
        s->terms = 6;
    }
    if (IS("kron")) {
        const struct {
            const char *label;
            cj_shape a, b;
        } pairs[] = { { "matrices", CJ_SHAPE(2, 3), CJ_SHAPE(3, 2) },
                      { "vector and matrix", CJ_SHAPE(3), CJ_SHAPE(2, 2) },
                      { "empty", CJ_SHAPE(0, 3), CJ_SHAPE(2, 2) },
                      { "large", CJ_SHAPE(17, 13), CJ_SHAPE(11, 19) } };
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            cj_sample *s = add(l, pairs[i].label, binary, CJ_SAMPLE_EXACT | (i == 3 ? CJ_SAMPLE_LARGE : 0));
            input(input(s, pairs[i].a, CJ_DOMAIN_REAL), pairs[i].b, CJ_DOMAIN_REAL)->fn.binary = cj_kron;
        }
    }
}

/* ---- norms and distances --------------------------------------------------------------------------------------------------------------------------------- */

CALL(norm)
{
    UNUSED;
    return cj_norm(in[0], s->number, &(cj_norm_opts){ .axes = s->axes, .keepdim = s->keepdim });
}
CALL(cdist)
{
    UNUSED;
    return cj_cdist(in[0], in[1], s->number);
}
CALL(cosine)
{
    UNUSED;
    return cj_cosine_similarity(in[0], in[1], (int)s->at[0], 0);
}

static void distances(cj_sample_list *l, const char *name)
{
    const double order[] = { 2, 1, INFINITY, -INFINITY, 3, 0.5, 1.5, 0 };
    static const char *const labels[] = { "p = 2", "p = 1", "p = inf", "p = -inf", "p = 3", "p = 1/2", "p = 3/2", "p = 0" };
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const unsigned flags = CJ_SAMPLE_FLOAT | (order[i] == 0 ? CJ_SAMPLE_ROUGH : 0);
        if (IS("norm")) {
            cj_sample *s = input(add(l, labels[i], norm, flags), CJ_SHAPE(3, 7), CJ_DOMAIN_DISTINCT);
            s->number = order[i], s->terms = 7;
            if (i) s->axes = CJ_AXIS(-1);
            s->keepdim = i % 2;
        }
        if (IS("cdist") && order[i] >= 0) {
            cj_sample *s = add(l, labels[i], cdist, flags);
            input(input(s, CJ_SHAPE(2, 3, 4), CJ_DOMAIN_REAL), CJ_SHAPE(5, 4), CJ_DOMAIN_BETWEEN);
            s->number = order[i], s->terms = 8;
        }
    }
    if (IS("norm")) {
        cj_sample *s = input(add(l, "large", norm, CJ_SAMPLE_FLOAT | CJ_SAMPLE_LARGE), CJ_SHAPE(37, 411), CJ_DOMAIN_REAL);
        s->number = 2, s->axes = CJ_AXIS(0), s->terms = 37;
    }
    if (IS("cdist")) { /* the product form cancels: far points */
        cj_sample *s = add(l, "product form", cdist, CJ_SAMPLE_FLOAT | CJ_SAMPLE_LARGE);
        input(input(s, CJ_SHAPE(31, 24), CJ_DOMAIN_POSITIVE), CJ_SHAPE(27, 24), CJ_DOMAIN_REAL);
        s->number = 2, s->terms = 400;
    }
    if (IS("cosine_similarity")) {
        cj_sample *s =
            input(input(add(l, "rows", cosine, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 5), CJ_DOMAIN_REAL), CJ_SHAPE(3, 5), CJ_DOMAIN_REAL);
        s->at[0] = -1, s->terms = 10;
        s = input(input(add(l, "one against many", cosine, CJ_SAMPLE_FLOAT), CJ_SHAPE(4), CJ_DOMAIN_REAL), CJ_SHAPE(2, 4), CJ_DOMAIN_REAL);
        s->at[0] = 1, s->terms = 10;
    }
}

/* ---- sparse products ----------------------------------------------------------------------------------------------------------------------------------------- */

/* Row i of n has its entries at i and i + 1, around a ring: made by operators, so that a plan has it. */
static cj_csr ring(cj_ctx *c, int64_t n)
{
    cj_tensor *two = cj_full(c, 2, CJ_SCALAR, CJ_I64), *around = cj_full(c, (double)n, CJ_SCALAR, CJ_I64);
    cj_tensor *i = cj_reshape(cj_arange(c, 0, (double)n, 1, CJ_I64), CJ_SHAPE(n, 1)), *pair = cj_arange(c, 0, 2, 1, CJ_I64);
    cj_tensor *offsets = cj_mul(cj_arange(c, 0, (double)n + 1, 1, CJ_I64), two);
    cj_tensor *before = cj_remainder(cj_add(i, cj_sub(around, cj_sub(cj_full(c, 1, CJ_SCALAR, CJ_I64), pair))), around); /* i - 1, i */
    return (cj_csr){ .rows = n,
                     .cols = n,
                     .offsets = offsets,
                     .columns = cj_flatten(cj_remainder(cj_add(i, pair), around), 0),
                     .t_offsets = offsets,
                     .t_rows = cj_flatten(before, 0),
                     .t_entry = cj_flatten(cj_add(cj_mul(before, two), cj_sub(cj_full(c, 1, CJ_SCALAR, CJ_I64), pair)), 0) };
}
CALL(sparse_product)
{
    cj_csr a = cj_csr_with_values(ring(c, s->in[0].shape.dim[0] / 2), in[0]);
    return s->at[0] ? cj_csr_matmul_t(a, in[1]) : cj_csr_matmul(a, in[1]);
}
CALL(sampled_product) { return cj_csr_sampled(ring(c, s->in[0].shape.dim[0]), in[0], in[1]); }

static void sparse(cj_sample_list *l, const char *name)
{
    const struct {
        const char *label;
        int64_t n, k, transposed;
    } cases[] = { { "narrow", 5, 3, 0 }, { "transposed", 5, 3, 1 }, { "large", 211, 67, 0 }, { "large, transposed", 211, 67, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t n = cases[i].n, k = cases[i].k;
        const unsigned flags = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT | (n > 5 ? CJ_SAMPLE_LARGE : 0);
        cj_sample *s = NULL;
        if (IS("csr_matmul"))
            s = input(input(add(l, cases[i].label, sparse_product, flags), CJ_SHAPE(2 * n), CJ_DOMAIN_REAL), CJ_SHAPE(n, k),
                      CJ_DOMAIN_REAL);
        if (IS("csr_sampled") && !cases[i].transposed)
            s = input(input(add(l, cases[i].label, sampled_product, flags), CJ_SHAPE(n, k), CJ_DOMAIN_REAL), CJ_SHAPE(n, k),
                      CJ_DOMAIN_REAL);
        if (!s) continue;
        s->at[0] = cases[i].transposed;
        s->terms = IS("csr_matmul") ? (double)k : (double)k + 2;
    }
}

void cj__samples_contract(cj_sample_list *l, const char *name)
{
    contractions(l, name);
    distances(l, name);
    sparse(l, name);
}
