/* The edges of indexing, sparse matrices and contractions: every reason to refuse an argument, derivatives by one input alone,
 * tensors without elements and of one, indices of other types, and what a NULL, a poisoned argument or an earlier error leads to. */
#include "errors.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

static cj_tensor *ints(const int64_t *v, int64_t n) { return cj_from_i64(c, v, CJ_SHAPE(n)); }
#define INTS(...) ints((int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define NORMAL(...) cj_randn(c, CJ_SHAPE(__VA_ARGS__), .dtype = CJ_F64)
static void same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_ok(c);
    assert_near(distance(a, b), 0, tolerance);
}

/* ---- NULL, poison, an earlier error -------------------------------------------------------------------------------------------------- */

/* Arguments: a matrix F, a vector v, bools m, indices i [2], j [2, 2] and o [3], a position p, a kept matrix k.
 * After them, of each: whether its NULL is an error that names it (!). */
#define OPERATORS(X)                                                                                                                       \
    X(segment_sum, "Fi", "!!", cj_segment_sum(t[0], t[1], 2))                                                                              \
    X(segment_mean, "Fi", "!!", cj_segment_mean(t[0], t[1], 2))                                                                            \
    X(scatter_reduce, "FjF", "!!!", cj_scatter_reduce(t[0], 0, t[1], t[2], CJ_COMBINE_MAX))                                                \
    X(embedding_bag, "Fii", "!!.", cj_embedding_bag(t[0], t[1], t[2], CJ_COMBINE_SUM))                                                     \
    X(bincount, "iv", "..", cj_bincount(t[0], .weights = t[1]))                                                                            \
    X(histogram, "F", ".", cj_histogram(t[0], 2, 0, 1).counts)                                                                             \
    X(index_select, "Fi", "!!", cj_index_select(t[0], 0, t[1]))                                                                            \
    X(embedding, "Fi", "!!", cj_embedding(t[0], t[1]))                                                                                     \
    X(one_hot, "i", ".", cj_one_hot(t[0], 2))                                                                                              \
    X(topk, "F", ".", cj_topk(t[0], 1, 0).indices)                                                                                         \
    X(kthvalue, "F", ".", cj_kthvalue(t[0], 1, 0).values)                                                                                  \
    X(median, "F", ".", cj_median(t[0], 0).values)                                                                                         \
    X(unique, "F", ".", cj_unique(t[0]).values)                                                                                            \
    X(cummax, "F", ".", cj_cummax(t[0], 0).indices)                                                                                        \
    X(masked_select, "Fm", "!!", cj_masked_select(t[0], t[1]))                                                                             \
    X(masked_softmax, "Fm", "!!", cj_masked_softmax(t[0], t[1], 0))                                                                        \
    X(masked_mean, "Fm", "!!", cj_masked_mean(t[0], t[1]))                                                                                 \
    X(assign_at_close_, "kF", "!!", cj_assign_at_close_(t[0], t[1]))                                                                       \
    X(write_slice_, "FpF", "!!!", cj_write_slice_(t[0], 0, t[1], t[2]))                                                                    \
    X(csr_from_dense, "F", ".", cj_csr_from_dense(t[0]).values)                                                                            \
    X(csr_from_parts, "oiv", "!!!", cj_csr_from_parts(t[0], t[1], t[2], 2, 2).t_rows)                                                      \
    X(csr_from_coo, "iiv", "!!!", cj_csr_from_coo(t[0], t[1], t[2], 2, 2).t_entry)                                                         \
    X(einsum, "FF", "!!", cj_einsum("ab,bc->ac", t, 2))                                                                                    \
    X(tensordot, "FF", "!!", cj_tensordot(t[0], t[1], CJ_AXIS(1), CJ_AXIS(0)))                                                             \
    X(kron, "FF", "!!", cj_kron(t[0], t[1]))                                                                                               \
    X(matmul, "FF", "!!", cj_matmul(t[0], t[1]))                                                                                           \
    X(linear, "FFv", "!!.", cj_linear_op(t[0], t[1], t[2]))                                                                                \
    X(norm, "F", ".", cj_norm(t[0], 2))                                                                                                    \
    X(cdist, "FF", "!!", cj_cdist(t[0], t[1], 2))                                                                                          \
    X(cosine_similarity, "FF", "!!", cj_cosine_similarity(t[0], t[1], 0, 0))
#define DEFINE(name, args, nulls, ...)                                                                                                     \
    static cj_tensor *call_##name(cj_tensor **t) { return __VA_ARGS__; }
OPERATORS(DEFINE)
#define ROW(name, args, nulls, ...) { #name, args, nulls, call_##name },
static const struct {
    const char *name, *args, *nulls;
    cj_tensor *(*call)(cj_tensor **t);
} operators[] = { OPERATORS(ROW) };

static void arguments(void **state)
{
    (void)state;
    cj_tensor *kinds[128] = { ['F'] = F(2, 2),
                              ['v'] = F(2),
                              ['m'] = cj_ones(c, CJ_SHAPE(2, 2), CJ_BOOL),
                              ['i'] = INTS(0, 1),
                              ['j'] = I(2, 2),
                              ['o'] = INTS(0, 1, 2),
                              ['p'] = INDEX(0),
                              ['k'] = cj_keep(F(2, 2)) };
    cj_tensor *x = F(2, 2), *earlier = cj_fail(c, CJ_EVALUE, "cleared");
    cj_clear(c);
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++) {
        const int n = (int)strlen(operators[k].args);
        char says[100];
        cj_tensor *t[3] = { 0 };
        assert_null(operators[k].call(t));
        for (int i = 0; i < n; i++) t[i] = kinds[(int)operators[k].args[i]];
        if (cj_is_poison(operators[k].call(t))) fail_msg("%s", cj_message(c));
        for (int i = 0; i < n; i++) {
            cj_tensor *good = t[i];
            t[i] = earlier;
            snprintf(says, sizeof says, "%s: argument %d is the result of an earlier error", operators[k].name, i + 1);
            assert_poisoned(CJ_ESTALE, says, operators[k].call(t));
            t[i] = NULL;
            snprintf(says, sizeof says, "%s: argument %d is NULL", operators[k].name, i + 1);
            if (operators[k].nulls[i] == '!') assert_poisoned(CJ_EVALUE, says, operators[k].call(t));
            t[i] = good;
        }
        cj_fail(c, CJ_EINDEX, "the first error");
        assert_poisoned(CJ_EINDEX, "the first error", operators[k].call(t));
    }
    cj_release(kinds['k']);
    assert_null(cj_einsum("a", NULL, 1));
    assert_null(cj_dot(NULL, NULL));
    assert_poisoned(CJ_EVALUE, "dot: argument 1 is NULL", cj_dot(NULL, F(2)));
    assert_poisoned(CJ_EVALUE, "dot: argument 2 is NULL", cj_dot(F(2), NULL));
    for (int k = 0; k < 2; k++) {
        cj_tensor *a = k ? F(2) : earlier, *b = k ? earlier : F(2);
        assert_poisoned(CJ_ESTALE, k ? "argument 2 is the result of an earlier" : "argument 1 is the result of an earlier", cj_dot(a, b));
        assert_poisoned(CJ_ESTALE, "is the result of an earlier error", cj_outer(a, b));
        assert_poisoned(CJ_ESTALE, k ? "searchsorted: argument 2 is the result" : "searchsorted: argument 1 is the result",
                        cj_searchsorted(a, b));
        assert_poisoned(CJ_ESTALE, k ? "multilabel_margin_loss: argument 2 is" : "multilabel_margin_loss: argument 1 is",
                        cj_multilabel_margin_loss(a, b));
    }
    assert_poisoned(CJ_ESTALE, "linear: argument 3 is the result", cj_linear_op(F(2, 2), F(2, 2), earlier));
    cj_scope s = cj_scope_open(c);
    cj_tensor *closed = F(2);
    cj_scope_close(s);
    assert_poisoned(CJ_ESTALE, "linear: argument 3 is used after its scope was closed", cj_linear_op(x, x, closed));
}

/* ---- derivatives --------------------------------------------------------------------------------------------------------------------- */

/* Functions of float tensors, t[0] and t[1] and of LINEAR t[2]; from INDEXED on t[2] is an index, from VECTORS on one of one axis. */
enum { LINEAR, BILINEAR, INDEXED = 12, VECTORS = 14, GREATEST = 17 };
typedef struct partial {
    int which, input; /* the input that is free */
    cj_tensor *t[3];
} partial;
static cj_tensor *at, *rows_at;
static cj_csr matrix;
static cj_tensor *of_one(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    partial p = *(partial *)user;
    cj_tensor **t = p.t;
    t[p.input] = in[0];
    switch (p.which) {
    case LINEAR: return cj_linear_op(t[0], t[1], cj_select(t[2], 1, 0));
    case BILINEAR: return cj_matmul(t[0], cj_t(t[1]));
    case 2: return cj_scatter_reduce(t[0], 1, at, t[1], CJ_COMBINE_SUM);
    case 3: return cj_scatter_reduce(t[0], 1, at, t[1], CJ_COMBINE_PROD);
    case 4: return cj_scatter_reduce(t[0], 1, at, t[1], CJ_COMBINE_MAX);
    case 5: return cj_scatter_reduce(t[0], 1, at, t[1], CJ_COMBINE_MEAN, .exclude_self = true);
    case 6: return cj_index_add(t[0], 0, rows_at, t[1]);
    case 7: return cj_scatter_add(t[0], 1, at, t[1]);
    case 8: return cj_csr_matmul(cj_csr_with_values(matrix, cj_slice(cj_flatten(t[0], 0), 0, 0, 4, 1)), cj_t(t[1]));
    case 9: return cj_csr_sampled(matrix, t[0], t[1]);
    case 10: return cj_einsum("ij,kj->", t, 2);
    case 11: return cj_cosine_similarity(t[0], t[1], -1, 0.5);
    case INDEXED: return cj_gather(t[0], 0, t[2]);
    case 13: return cj_scatter_add(t[0], 0, t[2], t[0]);
    case VECTORS: return cj_index_select(t[0], 0, t[2]);
    case 15: return cj_index_add(t[0], 0, t[2], t[0]);
    case 16: return cj_segment_sum(t[0], t[2], 3);
    default: return cj_embedding_bag(t[0], t[2], INDEX(0), CJ_COMBINE_MAX);
    }
}

static void one_input_alone(void **state)
{
    (void)state;
    at = cj_randint(c, 0, 3, CJ_SHAPE(3, 3));
    rows_at = INTS(2, 0, 2);
    matrix = cj_csr_from_parts(INTS(0, 2, 3, 4), INTS(0, 2, 1, 1), D(4), 3, 3);
    partial p = { .t = { NORMAL(3, 3), NORMAL(3, 3), NORMAL(3, 3) } };
    for (p.which = 0; p.which < INDEXED; p.which++)
        for (p.input = 0; p.input < (p.which == LINEAR ? 3 : 2); p.input++) {
            cj_gradcheck_result r = cj_gradcheck(c, of_one, &p, &p.t[p.input], 1, .second_order = true);
            if (!r.ok) fail_msg("function %d by input %d: %s %s", p.which, p.input, r.what, cj_message(c));
        }
    assert_ok(c);
}

/* Along an index nothing changes: the derivatives are zeros, forwards and backwards. */
static void along_the_index(void **state)
{
    (void)state;
    partial p = { .input = 2, .t = { NORMAL(3, 2) } };
    for (p.which = INDEXED; p.which < GREATEST; p.which++) {
        cj_tensor *index = p.which < VECTORS ? cj_ones(c, CJ_SHAPE(3, 2), CJ_I64) : INTS(2, 0, 2), *g;
        cj_pair r = cj_jvp(c, of_one, &p, &index, CJ_TENSORS(cj_ones_like(index)), 1);
        same(r.derivative, D(3, 2), 0);
        same(cj_vjp(c, of_one, &p, &index, 1, cj_ones_like(r.value), &g), r.value, 0);
        same(g, cj_zeros_like(index), 0);
    }
}

/* ---- refused ------------------------------------------------------------------------------------------------------------------------- */

static void counted_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx, (void)user;
    out[0] = cj_bincount(cj_add_scalar(in[0], 1));
}

static void refused_segments(void **state)
{
    (void)state;
    cj_tensor *x = F(4, 2), *w = F(3, 2), *i = INTS(0, 2, 1, 2), *zero = INDEX(0), *out[CJ_MAX_PLAN_OUTPUTS];
    assert_poisoned(CJ_ESHAPE, "segment_sum: a 0-d input", cj_segment_sum(cj_zeros(c, CJ_SCALAR, CJ_F32), i, 3));
    assert_poisoned(CJ_ESHAPE, "segment_mean: ids [4, 1] for [4, 2]; one per row", cj_segment_mean(x, cj_reshape(i, CJ_SHAPE(4, 1)), 3));
    assert_poisoned(CJ_EDTYPE, "scatter_reduce: the index is f32, i64 expected", cj_scatter_reduce(x, 0, x, x, CJ_COMBINE_MAX));
    assert_poisoned(CJ_ESHAPE, "source [4, 2] f32 and index [4] do not fit [4, 2] f32", cj_scatter_reduce(x, 0, i, x, CJ_COMBINE_MAX));
    assert_poisoned(CJ_ESHAPE, "source [4] f32 and index [4, 2] do not", cj_scatter_reduce(x, 0, I(4, 2), F(4), CJ_COMBINE_MAX));
    assert_poisoned(CJ_EINDEX, "scatter_reduce: axis 2 is out of range", cj_scatter_reduce(x, 2, I(4, 2), x, CJ_COMBINE_MAX));
#define BAG(...) cj_embedding_bag(__VA_ARGS__)
    assert_poisoned(CJ_EDTYPE, "embedding_bag: the weight is i64, a float type expected", BAG(I(3, 2), i, zero, CJ_COMBINE_SUM));
    assert_poisoned(CJ_EDTYPE, "embedding_bag: the index is f32, i64 expected", BAG(w, F(4), zero, CJ_COMBINE_SUM));
    assert_poisoned(CJ_EDTYPE, "embedding_bag: the index is f32, i64 expected", BAG(w, i, F(1), CJ_COMBINE_SUM));
    assert_poisoned(CJ_ESHAPE, "embedding_bag: weight [3], indices [4], offsets [1]; [V, D]", BAG(F(3), i, zero, CJ_COMBINE_SUM));
    assert_poisoned(CJ_ESHAPE, "weight [3, 2], indices [4], offsets [1, 1]; [V, D]", BAG(w, i, I(1, 1), CJ_COMBINE_SUM));
    assert_poisoned(CJ_ESHAPE, "per_sample_weights [4] f64 for 4 indices of a weight of f32",
                    BAG(w, i, zero, CJ_COMBINE_SUM, .per_sample_weights = D(4)));
    assert_poisoned(CJ_ESHAPE, "per_sample_weights [4, 1] for indices [4]", BAG(w, i, zero, CJ_COMBINE_SUM, .per_sample_weights = F(4, 1)));
    assert_poisoned(CJ_ESHAPE, "indices [4, 1] with offsets; [n] expected", BAG(w, I(4, 1), zero, CJ_COMBINE_SUM));
    assert_poisoned(CJ_EINDEX, "embedding_bag: index 2 at position 1 is outside [0, 2)",
                    cj_jvp(c, of_one, &(partial){ GREATEST, 0, { NULL, NULL, i } }, CJ_TENSORS(F(2, 2)), CJ_TENSORS(F(2, 2)), 1).value);
    assert_poisoned(CJ_EDTYPE, "bincount: the index is f32, i64 expected", cj_bincount(F(3)));
    assert_poisoned(CJ_ESHAPE, "bincount: the input has shape [2, 3], one dimension expected", cj_bincount(I(2, 3)));
    assert_poisoned(CJ_ESHAPE, "bincount: weights [4, 1] for [4]", cj_bincount(i, .weights = F(4, 1)));
    assert_refused(CJ_ECAPTURE, "the shape of bincount depends on values", cj_capture(c, counted_step, NULL, &i, 1, out));
    static const double ends[][2] = { { -INFINITY, 1 }, { NAN, 1 }, { 0, INFINITY }, { 0, NAN }, { 2, 1 }, { -1e308, 1e308 } };
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        char says[64];
        snprintf(says, sizeof says, "histogram: 3 bins from %g to %g", ends[k][0], ends[k][1]);
        assert_poisoned(CJ_EVALUE, says, cj_histogram(x, 3, ends[k][0], ends[k][1]).counts);
    }
}

static void refused_indices(void **state)
{
    (void)state;
    cj_tensor *x = F(2, 3), *eight = cj_zeros(c, CJ_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), CJ_I64), *kept = cj_keep(F(2, 3));
    assert_poisoned(CJ_EDTYPE, "index_add: the index is f32, i64 expected", cj_index_add(x, 0, F(1), F(1, 3)));
    assert_poisoned(CJ_ESHAPE, "index_add: source [1, 3] and index [1, 1] do not fit [2, 3]", cj_index_add(x, 0, I(1, 1), F(1, 3)));
    assert_poisoned(CJ_ESHAPE, "index_add: source [3] and index [1] do not fit [2, 3]", cj_index_add(x, 0, I(1), F(3)));
    assert_poisoned(CJ_ESHAPE, "scatter_add: source [2, 2] f32 and index [2, 2] do not", cj_scatter_add(x, 0, I(2, 2), F(2, 2)));
    assert_poisoned(CJ_ESHAPE, "scatter_add: source [1, 3] f32 and index [2, 3] do not", cj_scatter_add(x, 0, I(2, 3), F(1, 3)));
    assert_poisoned(CJ_ESHAPE, "scatter_add: source [2, 3] f64 and index [2, 3] do not", cj_scatter_add(x, 0, I(2, 3), D(2, 3)));
    assert_poisoned(CJ_ESHAPE, "has too many dimensions", cj_embedding(x, eight));
    assert_poisoned(CJ_ESHAPE, "has too many dimensions", cj_one_hot(eight, 2));
    assert_poisoned(CJ_EINDEX, "kthvalue: axis 2 is out of range", cj_kthvalue(x, 1, 2).values);
    assert_poisoned(CJ_ESHAPE, "searchsorted: sorted [] and values []", cj_searchsorted(cj_scalar(c, 1), cj_scalar(c, 2)));
    assert_poisoned(CJ_ESHAPE, "searchsorted: sorted [2, 3] and values [3]", cj_searchsorted(x, F(3)));
    assert_poisoned(CJ_ESHAPE, "searchsorted: sorted [2, 3, 4] and values [1, 3, 4]", cj_searchsorted(F(2, 3, 4), F(1, 3, 4)));
    assert_poisoned(CJ_ESHAPE, "assign_: [2, 3] does not fit into [1, 3]", cj_assign_(F(1, 3), x));
    assert_poisoned(CJ_ESHAPE, "[2, 2] does not fit into [2, 3]", cj_assign_at_close_(kept, F(2, 2)));
    cj_release(kept);
}

static void refused_contractions(void **state)
{
    (void)state;
    cj_tensor *x = F(2, 3), *v = F(3), *five = cj_ones(c, CJ_SHAPE(1, 1, 1, 1, 1), CJ_F32), *scalar = cj_zeros(c, CJ_SCALAR, CJ_F32);
    char longest[257] = { 0 };
    memset(longest, ' ', 256);
#define EINSUM(text, n, ...) cj_einsum(text, CJ_TENSORS(__VA_ARGS__), n)
    assert_poisoned(CJ_EVALUE, "einsum: the equation is longer than 255 characters", EINSUM(longest, 1, x));
    assert_poisoned(CJ_EVALUE, "einsum: no equation", EINSUM(NULL, 1, x));
    assert_poisoned(CJ_EVALUE, "einsum: a second '...' at position 4 of \"...a...\"", EINSUM("...a...", 1, x));
    assert_poisoned(CJ_EVALUE, "einsum: '?' at position 5 of \"ab->a?\"", EINSUM("ab->a?", 1, x));
    assert_poisoned(CJ_EVALUE, "einsum: 'B' of the result of \"AC->B\" is in no operand", EINSUM("AC->B", 1, x));
    assert_poisoned(CJ_ESHAPE, "einsum: 'A' of \"A,A->A\" has size 2 in operand 2 and 3 before", EINSUM("A,A->A", 2, v, F(2)));
    assert_poisoned(CJ_ESHAPE, "'...' of \"...a,...a\" has size 3 in operand 2 and 2 before", EINSUM("...a,...a", 2, x, F(3, 3)));
    assert_poisoned(CJ_ESHAPE, "a product of two operands has 10 axes", EINSUM("abcde,fghij,abcde,fghij->", 4, five, five, five, five));
#define DOT(a, b, of_a, of_b) cj_tensordot(a, b, of_a, of_b)
    assert_poisoned(CJ_EVALUE, "tensordot: -1 axes of the first and -1", DOT(x, x, (cj_axes){ .n = -1 }, (cj_axes){ .n = -1 }));
    assert_poisoned(CJ_EVALUE, "tensordot: 9 axes of the first and 9", DOT(x, x, (cj_axes){ .n = 9 }, (cj_axes){ .n = 9 }));
    assert_poisoned(CJ_ESHAPE, "leave more than 8 axes", DOT(five, five, (cj_axes){ 0 }, (cj_axes){ 0 }));
    assert_poisoned(CJ_EINDEX, "tensordot: axis 2 is out of range", DOT(x, x, CJ_AXIS(2), CJ_AXIS(0)));
    assert_poisoned(CJ_EINDEX, "tensordot: axis -3 is out of range", DOT(x, x, CJ_AXIS(0), CJ_AXIS(-3)));
    assert_poisoned(CJ_EVALUE, "tensordot: an axis is given twice", DOT(F(3, 3), F(3, 3), CJ_AXES(0, 1), CJ_AXES(1, 1)));
    assert_poisoned(CJ_ESHAPE, "kron: [1, 1, 1, 1, 1] and [3]; at most 4 axes each", cj_kron(five, v));
    assert_poisoned(CJ_ESHAPE, "kron: [3] and [1, 1, 1, 1, 1]; at most 4 axes each", cj_kron(v, five));
    assert_poisoned(CJ_ESHAPE, "matmul: [3] x []: a 0-d operand", cj_matmul(v, scalar));
    assert_poisoned(CJ_ESHAPE, "linear: input [2, 3] does not fit weight [3]", cj_linear_op(x, v, NULL));
    assert_poisoned(CJ_ESHAPE, "linear: input [] does not fit weight [2, 3]", cj_linear_op(scalar, x, NULL));
    assert_poisoned(CJ_ESHAPE, "linear: bias [1, 2] does not fit weight [2, 3]", cj_linear_op(v, x, F(1, 2)));
    assert_poisoned(CJ_ESHAPE, "dot: [2, 3] x [3] are not vectors", cj_dot(x, v));
    assert_poisoned(CJ_ESHAPE, "dot: [3] x [2, 3] are not vectors", cj_dot(v, x));
    assert_poisoned(CJ_ESHAPE, "outer: [2, 3] x [3] are not vectors", cj_outer(x, v));
    assert_poisoned(CJ_ESHAPE, "outer: [3] x [2, 3] are not vectors", cj_outer(v, x));
    assert_poisoned(CJ_EVALUE, "norm: -1 axes given for [2, 3]", cj_norm(x, 2, .axes = { .n = -1 }));
    assert_poisoned(CJ_EVALUE, "norm: 3 axes given for [2, 3]", cj_norm(x, 2, .axes = CJ_AXES(0, 1, 0)));
    cj_tensor *wide = cj_ones(c, CJ_SHAPE(1, 1, 1, 1, 1, 1, 1, 3), CJ_F32), *pairs[][2] = { { v, x }, { x, v }, { wide, x }, { x, wide } };
    for (int k = 0; k < 4; k++) assert_poisoned(CJ_ESHAPE, "[.., P, M] and [.., R, M] expected", cj_cdist(pairs[k][0], pairs[k][1], 2));
    assert_poisoned(CJ_EDTYPE, "cosine_similarity: the second input is i64, a float type expected", cj_cosine_similarity(v, I(3), 0, 0));
}

/* One field of a good matrix replaced at a time. */
static void refused_matrices(void **state)
{
    (void)state;
    cj_tensor *offsets = INTS(0, 2, 3, 4), *columns = INTS(0, 2, 1, 1), *v = F(4), *x = F(3, 2);
    const cj_csr good = cj_csr_from_parts(offsets, columns, v, 3, 3);
    cj_csr m;
    assert_ok(c);
#define WITH(...) (m = good, __VA_ARGS__, m)
    assert_poisoned(CJ_ESHAPE, "csr_matmul: offsets is i32", cj_csr_matmul(WITH(m.offsets = cj_cast(offsets, CJ_I32)), x));
    assert_poisoned(CJ_ESHAPE, "csr_matmul: columns is i64 [2, 2]",
                    cj_csr_matmul(WITH(m.columns = cj_reshape(columns, CJ_SHAPE(2, 2))), x));
    assert_poisoned(CJ_EDTYPE, "csr_matmul: dtypes i64 and i64", cj_csr_matmul(WITH(m.values = I(4)), I(3, 2)));
    assert_poisoned(CJ_ESHAPE, "csr_matmul: values [2, 2] for 4 entries", cj_csr_matmul(cj_csr_with_values(good, F(2, 2)), x));
    assert_poisoned(CJ_ESHAPE, "csr_matmul: values [3] for 4 entries", cj_csr_matmul(cj_csr_with_values(good, F(3)), x));
    assert_poisoned(CJ_ESHAPE, "csr_matmul: inner sizes differ: [3, 3] x [3, 2, 1]", cj_csr_matmul(good, F(3, 2, 1)));
    assert_poisoned(CJ_ESHAPE, "csr_matmul: inner sizes differ: [3, 3]ᵀ x [4, 2]", cj_csr_matmul_t(good, F(4, 2)));
    assert_poisoned(CJ_EVALUE, "csr_matmul: argument 6 is NULL", cj_csr_matmul(WITH(m.values = NULL), x));
    assert_poisoned(CJ_EVALUE, "csr_matmul: argument 7 is NULL", cj_csr_matmul(good, NULL));
    assert_null(cj_csr_matmul(WITH(m.values = NULL), NULL));
    assert_poisoned(CJ_ESHAPE, "csr_sampled: t_entry is i64 [1]", cj_csr_sampled(WITH(m.t_entry = INDEX(0)), x, x));
    assert_poisoned(CJ_EVALUE, "csr_sampled: offsets falls from 3 to 0", cj_csr_sampled(WITH(m.offsets = INTS(0, 3, 0, 4)), x, x));
    cj_tensor *sampled[][2] = { { F(3), x }, { x, F(3) }, { F(2, 2), x }, { x, F(2, 2) }, { x, F(3, 1) } };
    for (int k = 0; k < 5; k++) assert_poisoned(CJ_ESHAPE, "at the entries of [3, 3]", cj_csr_sampled(good, sampled[k][0], sampled[k][1]));
    static const int64_t sizes[][2] = { { -1, 3 }, { 3, -1 }, { INT64_MAX, 3 }, { 3, INT64_MAX } };
    for (int k = 0; k < 4; k++) {
        char says[100];
        const int64_t rows = sizes[k][0], cols = sizes[k][1];
        snprintf(says, sizeof says, ": a matrix of [%lld, %lld]", (long long)rows, (long long)cols);
        assert_poisoned(CJ_EVALUE, says, cj_csr_matmul(WITH(m.rows = rows, m.cols = cols), x));
        assert_poisoned(CJ_EVALUE, says, cj_csr_to_dense(WITH(m.rows = rows, m.cols = cols)));
        assert_poisoned(CJ_EVALUE, says, cj_csr_from_parts(offsets, columns, v, rows, cols).values);
        assert_poisoned(CJ_EVALUE, says, cj_csr_from_coo(columns, columns, v, rows, cols).values);
    }
    assert_poisoned(CJ_EVALUE, ": argument 1 is NULL", cj_csr_from_parts(NULL, NULL, v, 3, 3).offsets);
    assert_poisoned(CJ_EVALUE, ": argument 1 is NULL", cj_csr_from_coo(NULL, NULL, v, 3, 3).offsets);
    assert_poisoned(CJ_ESHAPE, "values are f32 [2, 2]; floats [4]", cj_csr_from_parts(offsets, columns, F(2, 2), 3, 3).values);
    assert_poisoned(CJ_ESHAPE, "csr_from_coo: row is f32 [4]; i64 [entries]", cj_csr_from_coo(v, columns, v, 3, 3).values);
    assert_poisoned(CJ_ESHAPE, "csr_from_coo: col is i64 [3]; i64 [4]", cj_csr_from_coo(columns, I(3), v, 3, 3).values);
    assert_poisoned(CJ_ESHAPE, "csr_from_coo: values are f32 [3]; floats [4]", cj_csr_from_coo(columns, columns, F(3), 3, 3).values);
    assert_poisoned(CJ_ESHAPE, "csr_from_dense: i64 [3, 3]; a matrix of floats expected", cj_csr_from_dense(I(3, 3)).values);
    assert_poisoned(CJ_EVALUE, "csr_to_dense: argument 2 is NULL", cj_csr_to_dense(WITH(m.t_rows = NULL)));
    for (int k = 0; k < 3; k++) { /* the first error stays */
        cj_fail(c, CJ_EINDEX, "the first error");
        cj_tensor *y = k == 0 ? cj_csr_to_dense(good) : k == 1 ? cj_csr_matmul(good, x) : cj_csr_sampled(good, x, x);
        assert_poisoned(CJ_EINDEX, "the first error", y);
    }
}

/* ---- values -------------------------------------------------------------------------------------------------------------------------- */

static void index_types(void **state)
{
    (void)state;
    cj_tensor *x = NORMAL(4, 3), *i = INTS(2, 0, 3, 2), *j = cj_randint(c, 0, 4, CJ_SHAPE(4, 3));
    for (int t = 0; t < 2; t++) {
        const cj_dtype type = t ? CJ_U8 : CJ_I32;
        cj_tensor *k = cj_cast(i, type), *m = cj_cast(j, type), *zero = cj_cast(INTS(0, 3), type);
        same(cj_index_select(x, 0, k), cj_index_select(x, 0, i), 0);
        same(cj_scatter_reduce(x, 0, m, x, CJ_COMBINE_MIN), cj_scatter_reduce(x, 0, j, x, CJ_COMBINE_MIN), 0);
        same(cj_segment_sum(x, k, 4), cj_segment_sum(x, i, 4), 0);
        same(cj_embedding_bag(x, k, zero, CJ_COMBINE_MEAN), cj_embedding_bag(x, i, INTS(0, 3), CJ_COMBINE_MEAN), 0);
        same(cj_bincount(k), INTS(1, 0, 2, 1), 0);
    }
}

/* Bags of equal length with factors: [B, n] indices, [B, n] factors. */
static void square_bags(void **state)
{
    (void)state;
    cj_tensor *w = NORMAL(5, 3), *index = cj_randint(c, 0, 5, CJ_SHAPE(2, 4)), *factors = NORMAL(2, 4);
    double *v = values_of(w), *at_row = values_of(index), *f = values_of(factors),
           *got = values_of(cj_embedding_bag(w, index, NULL, CJ_COMBINE_SUM, .per_sample_weights = factors));
    for (int b = 0; b < 2; b++)
        for (int d = 0; d < 3; d++) {
            double sum = 0;
            for (int k = 0; k < 4; k++) sum += f[4 * b + k] * v[3 * (int)at_row[4 * b + k] + d];
            assert_near(got[3 * b + d], sum, 1e-14);
        }
    free(v), free(at_row), free(f), free(got);
    same((cj_embedding_bag)(w, index, NULL, CJ_COMBINE_MAX, NULL), cj_max(cj_embedding(w, index), .axes = CJ_AXIS(1)), 0);
    same(cj_embedding_bag(w, I(0), I(0), CJ_COMBINE_SUM), D(0, 3), 0);
    same(cj_embedding_bag(w, I(2, 0), NULL, CJ_COMBINE_MEAN), D(2, 3), 0);
}

static void no_options(void **state)
{
    (void)state;
    cj_tensor *x = NORMAL(3, 4), *i = INTS(1, 3, 1), *mask = cj_gt_scalar(x, 0), *m = cj_arange(c, 0, 4, 1, CJ_F64);
    same((cj_bincount)(i, NULL), INTS(0, 2, 0, 1), 0);
    cj_tensor *sums = cj_bincount(i, .weights = cj_from_f32(c, (float[]){ 1, 2, 4 }, CJ_SHAPE(3)));
    same(sums, F64(c, CJ_SHAPE(4), 0, 5, 0, 2), 0);
    assert_int_equal(cj_dtype_of(sums), CJ_F32);
    same((cj_masked_mean)(x, mask, NULL), cj_masked_mean(x, mask), 0);
    same(cj_masked_mean(x, mask, .axes = CJ_AXES(0, 1), .keepdim = true), cj_reshape(cj_masked_mean(x, mask), CJ_SHAPE(1, 1)), 1e-15);
    same((cj_searchsorted)(m, F64(c, CJ_SHAPE(3), 1, 1.5, 9), NULL), INTS(1, 2, 4), 0);
    same(cj_searchsorted(m, cj_full(c, 2, CJ_SCALAR, CJ_F64), .right = true), cj_full(c, 3, CJ_SCALAR, CJ_I64), 0);
}

/* Of no axes, of no elements, of one. */
static void small_tensors(void **state)
{
    (void)state;
    cj_tensor *scalar = cj_full(c, 3, CJ_SCALAR, CJ_F64), *v = F64(c, CJ_SHAPE(3), 1, 2, 4), *g, *first = cj_zeros(c, CJ_SCALAR, CJ_I64);
    cj_tensor *square = F64(c, CJ_SHAPE(2, 2), 1, 2, 3, 4), *w = cj_require_grad(NORMAL(4, 3));
    for (int axis = -1; axis < 1; axis++) {
        same(cj_kthvalue(scalar, 1, axis).values, scalar, 0);
        same(cj_kthvalue(scalar, 1, axis).indices, first, 0);
        same(cj_median(scalar, axis).values, scalar, 0);
        same(cj_median(scalar, axis).indices, first, 0);
    }
    same(cj_median(INTS(5, 9, 7, 1), 0).values, cj_full(c, 5, CJ_SCALAR, CJ_I64), 0);
    same(cj_median(INTS(5, 9, 7, 1), 0).indices, first, 0);
    same(cj_tensordot(scalar, v, (cj_axes){ 0 }, (cj_axes){ 0 }), cj_mul_scalar(v, 3), 0);
    same(cj_tensordot(v, scalar, (cj_axes){ 0 }, (cj_axes){ 0 }), cj_mul_scalar(v, 3), 0);
    same(cj_kron(square, F64(c, CJ_SHAPE(2), 5, 7)), F64(c, CJ_SHAPE(2, 4), 5, 7, 10, 14, 15, 21, 20, 28), 0);
    same(cj_einsum("a,b->b", CJ_TENSORS(F64(c, CJ_SHAPE(1), 3), v), 2), cj_mul_scalar(v, 3), 0);
    for (int how = CJ_COMBINE_SUM; how <= CJ_COMBINE_MIN; how++)
        same(cj_scatter_reduce(D(0, 3), 1, I(0, 2), D(0, 2), (cj_combine)how), D(0, 3), 0);
    assert_true(cj_grad(cj_sum(cj_matmul(D(2, 0, 4), w)), &w, 1, &g));
    same(g, D(4, 3), 0);
    same(cj_linear_op(D(2, 0), D(0, 0), NULL), D(2, 0), 0);
}

/* A running product of halves, forwards: 2, 2·½, 2·½·3 along the first factor. */
FUNCTION_OF_X(running, cj_cumprod(x, 0));
static void half_products(void **state)
{
    (void)state;
    for (cj_dtype type = CJ_BF16; type <= CJ_F16; type++) {
        cj_tensor *x = cj_cast(F64(c, CJ_SHAPE(3), 2, 0.5, 3), type), *along = cj_cast(F64(c, CJ_SHAPE(3), 1, 0, 0), type);
        cj_pair r = cj_jvp(c, running, NULL, &x, &along, 1);
        same(r.value, F64(c, CJ_SHAPE(3), 2, 1, 3), 0);
        same(r.derivative, F64(c, CJ_SHAPE(3), 1, 0.5, 1.5), 0);
        assert_int_equal(cj_dtype_of(r.value), type);
    }
}

static void writes(void **state)
{
    (void)state;
    cj_tensor *x = F64(c, CJ_SHAPE(2, 2), 1, 2, 3, 4), *v = F64(c, CJ_SHAPE(3), 7, 8, 9), *w = D(3), *kept = cj_keep(D(3));
    same(cj_write_slice_(x, 0, INDEX(2), D(0, 2)), F64(c, CJ_SHAPE(2, 2), 1, 2, 3, 4), 0); /* nothing, at the end */
    same(cj_assign_(x, x), F64(c, CJ_SHAPE(2, 2), 1, 2, 3, 4), 0);
    same(cj_assign_(x, cj_slice(x, 0, 0, 1, 1)), F64(c, CJ_SHAPE(2, 2), 1, 2, 1, 2), 0); /* its own first row onto all */
    same(cj_assign_(cj_expand(w, CJ_SHAPE(1, 3)), v), cj_reshape(v, CJ_SHAPE(1, 3)), 0);
    same(w, v, 0);
    cj_scope s = cj_scope_open(c);
    same(cj_assign_at_close_(kept, v), D(3), 0);
    cj_scope_close(s);
    same(kept, v, 0);
    cj_release(kept);
}

/* Writes whose source lies over the target: as if it had been copied first, small and large. */
static void writes_onto_themselves(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 96; n = 3 * n) {
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(n, n))), *was = cj_clone(x), *line = cj_reshape(x, CJ_SHAPE(n * n));
        assert_true(same_bits(cj_assign_(x, cj_t(x)), cj_contiguous(cj_t(was))));
        cj_assign_(x, was);
        assert_near(distance(cj_add_(x, cj_t(x), 2), cj_add(was, cj_mul_scalar(cj_t(was), 2))), 0, 1e-5);
        cj_assign_(x, was);
        cj_assign_(line, cj_slice(line, 0, -1, -n * n - 1, -1)); /* backwards */
        assert_true(same_bits(line, cj_contiguous(cj_slice(cj_reshape(was, CJ_SHAPE(n * n)), 0, -1, -n * n - 1, -1))));
        cj_assign_(x, was);
        cj_write_slice_(x, 0, INDEX(1), cj_slice(x, 0, 0, n - 1, 1)); /* one row down */
        assert_true(same_bits(cj_slice(x, 0, 1, n, 1), cj_slice(was, 0, 0, n - 1, 1)) &&
                    same_bits(cj_select(x, 0, 0), cj_select(was, 0, 0)));
        cj_assign_(x, was);
        cj_assign_(cj_slice(x, 1, 1, n, 1), cj_slice(x, 1, 0, n - 1, 1));
        assert_true(same_bits(cj_contiguous(cj_slice(x, 1, 1, n, 1)), cj_contiguous(cj_slice(was, 1, 0, n - 1, 1))));
        cj_assign_(x, was);
        assert_true(same_bits(cj_add_(x, x, -1), cj_zeros_like(was))); /* element on element */
        cj_release(x);
    }
}

/* Gradients where a size is 0: of the right shapes, and zeros. */
static void gradients_of_nothing(void **state)
{
    (void)state;
    cj_tensor *a = cj_require_grad(F(2, 3, 4)), *b = cj_require_grad(cj_zeros(c, CJ_SHAPE(4, 0), CJ_F32)), *g[3];
    cj_tensor *pair[2] = { a, b };
    assert_true(cj_grad(cj_sum(cj_matmul(a, b)), pair, 2, g));
    assert_near(cj_item(cj_sum(cj_abs(g[0]))), 0, 0);
    assert_true(cj_size(g[1], 0) == 4 && cj_size(g[1], 1) == 0 && cj_numel(g[0]) == 24);
    cj_tensor *x = cj_require_grad(cj_zeros(c, CJ_SHAPE(2, 3, 0), CJ_F32)), *w = cj_require_grad(cj_zeros(c, CJ_SHAPE(4, 0), CJ_F32)),
              *bias = cj_require_grad(F(4));
    cj_tensor *three[3] = { x, w, bias };
    assert_true(cj_grad(cj_sum(cj_linear_op(x, w, bias)), three, 3, g));
    assert_true(cj_ndim(g[0]) == 3 && cj_numel(g[0]) == 0 && cj_size(g[1], 0) == 4 && cj_size(g[1], 1) == 0);
    assert_near(cj_item(cj_max(g[2])), 6, 0); /* of six rows */
    assert_near(cj_item(cj_min(g[2])), 6, 0);
    assert_poisoned(CJ_EDTYPE, "linear: the bias is f64, the input f32", cj_linear_op(F(2, 2), F(3, 2), cj_cast(F(3), CJ_F64)));
    assert_poisoned(CJ_EVALUE, "sum: -1 axes", cj_sum(F(2, 2), .axes = { .n = -1 }));
    assert_poisoned(CJ_EVALUE, "max: 9 axes", cj_max(F(2, 2), .axes = { .n = 9 }));
    assert_poisoned(CJ_EVALUE, "masked_mean: -1 axes", cj_masked_mean(F(2, 2), cj_ones(c, CJ_SHAPE(2, 2), CJ_BOOL), .axes = { .n = -1 }));
    assert_poisoned(CJ_EVALUE, "masked_mean: 9 axes", cj_masked_mean(F(2, 2), cj_ones(c, CJ_SHAPE(2, 2), CJ_BOOL), .axes = { .n = 9 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments),
        cmocka_unit_test(refused_segments),
        cmocka_unit_test(refused_indices),
        cmocka_unit_test(refused_contractions),
        cmocka_unit_test(refused_matrices),
        cmocka_unit_test(one_input_alone),
        cmocka_unit_test(along_the_index),
        cmocka_unit_test(index_types),
        cmocka_unit_test(square_bags),
        cmocka_unit_test(no_options),
        cmocka_unit_test(small_tensors),
        cmocka_unit_test(half_products),
        cmocka_unit_test(writes),
        cmocka_unit_test(writes_onto_themselves),
        cmocka_unit_test(gradients_of_nothing),
    };
    return cmocka_run_group_tests_name("edges: indices", tests, setup, teardown);
}
