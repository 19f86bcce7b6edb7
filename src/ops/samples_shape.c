/* Samples of shapes, indexing, products, normalisation, collectives and writes. */
#include "ops/samples_list.h"

/* ---- calls --------------------------------------------------------------------------------------------------------------------------------------- */

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
    return cj_embedding(in[0], in[1], NULL);
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

/* ---- shapes ---------------------------------------------------------------------------------------------------------------------------------------------------- */

void cj__samples_shape(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const unsigned exact = CJ_SAMPLE_EXACT;
    cj_sample *s;
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

void cj__samples_index(cj_sample_list *l, const char *name)
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

void cj__samples_product(cj_sample_list *l, const char *name)
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

/* ---- normalisation, collectives, writes -------------------------------------------------------------------------------------------------------------------------------------------- */

void cj__samples_norm(cj_sample_list *l, const char *name)
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
}

static cj_tensor *all_sum(cj_tensor *x) { return cj_all_sum(x, NULL); }
static cj_tensor *all_max(cj_tensor *x) { return cj_all_max(x, NULL); }
static cj_tensor *all_gather(cj_tensor *x) { return cj_all_gather(x, NULL); }
static cj_tensor *broadcast(cj_tensor *x) { return cj_broadcast(x, NULL, 0); }

void cj__samples_comm(cj_sample_list *l, const char *name)
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

void cj__samples_write(cj_sample_list *l, const char *name)
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
