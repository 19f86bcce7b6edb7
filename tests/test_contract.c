/* Contractions against loops over all indices, norms at the limits of their range, distances. */
#include "support.h"

/* ---- einsum: every result by a loop over all letters ------------------------------------------------------------------------------------------------- */

typedef struct operand {
    const char *letters;
    cj_shape shape;
    double *v;
} operand;

static int64_t place(const operand *x, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; x->letters[d]; d++) at = at * x->shape.dim[d] + index[x->letters[d] - 'a'];
    return at;
}

/* Letters a … z with sizes; operands and result as strings of letters. */
static void check_einsum(cj_ctx *c, const char *equation, const char *const *terms, int n, const char *result, const int64_t *size)
{
    cj_scope s = cj_scope_open(c);
    operand x[4];
    cj_tensor *in[4];
    int64_t all = 1, results = 1, index[26];
    bool used[26] = { 0 };
    for (int i = 0; i < n; i++) {
        x[i] = (operand){ .letters = terms[i], .shape.ndim = (int)strlen(terms[i]) };
        for (int d = 0; terms[i][d]; d++) {
            x[i].shape.dim[d] = size[terms[i][d] - 'a'];
            if (!used[terms[i][d] - 'a']) all *= size[terms[i][d] - 'a'];
            used[terms[i][d] - 'a'] = true;
        }
        in[i] = cj_randn(c, x[i].shape, .dtype = CJ_F64);
        x[i].v = values_of(in[i]);
    }
    operand y = { .letters = result, .shape.ndim = (int)strlen(result) };
    for (int d = 0; result[d]; d++) results *= y.shape.dim[d] = size[result[d] - 'a'];
    double *want = calloc((size_t)results, sizeof *want);
    for (int64_t q = 0; q < all; q++) {
        int64_t rest = q;
        for (int k = 0; k < 26; k++)
            if (used[k]) index[k] = rest % size[k], rest /= size[k];
        double product = 1;
        for (int i = 0; i < n; i++) product *= x[i].v[place(&x[i], index)];
        want[place(&y, index)] += product;
    }
    cj_tensor *got = cj_einsum(equation, in, n);
    if (!cj_ok(c)) fail_msg("%s: %s", equation, cj_message(c));
    assert_int_equal(cj_ndim(got), y.shape.ndim);
    for (int d = 0; d < y.shape.ndim; d++) assert_int_equal(cj_size(got, d), y.shape.dim[d]);
    double *v = values_of(got);
    for (int64_t i = 0; i < results; i++)
        if (!(fabs(v[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
            fail_msg("%s: element %ld is %.17g, expected %.17g", equation, (long)i, v[i], want[i]);
    for (int i = 0; i < n; i++) free(x[i].v);
    free(v), free(want);
    cj_scope_close(s);
}

static void einsum_by_loops(void **state)
{
    (void)state;
    const int64_t size[26] = { 2, 3, 4, 5, 3, 2 };
    const struct {
        const char *equation, *term[4], *result;
        int n;
    } cases[] = {
        { "ab,bc->ac", { "ab", "bc" }, "ac", 2 },
        { "ab , bc -> ca", { "ab", "bc" }, "ca", 2 },
        { "abc,acd->abd", { "abc", "acd" }, "abd", 2 },
        { "abc->cab", { "abc" }, "cab", 1 },
        { "aab->b", { "aab" }, "b", 1 },
        { "aaa->a", { "aaa" }, "a", 1 },
        { "abab->ba", { "abab" }, "ba", 1 },
        { "aab,bcc->ac", { "aab", "bcc" }, "ac", 2 },
        { "ab,cd->dacb", { "ab", "cd" }, "dacb", 2 },
        { "abc,dbe->ade", { "abc", "dbe" }, "ade", 2 },
        { "ab,b,bc->ac", { "ab", "b", "bc" }, "ac", 3 },
        { "ab,bc,cd,de->ae", { "ab", "bc", "cd", "de" }, "ae", 4 },
        { "a,b,c,d->dcba", { "a", "b", "c", "d" }, "dcba", 4 },
        { "abcd,bcd->a", { "abcd", "bcd" }, "a", 2 },
        { "ab,ab,ab->", { "ab", "ab", "ab" }, "", 3 },
        { "ab,bc", { "ab", "bc" }, "ac", 2 },
        { "ba", { "ba" }, "ab", 1 },
        { "aba", { "aba" }, "b", 1 },
    };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 51 });
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_einsum(c, cases[i].equation, cases[i].term, cases[i].n, cases[i].result, size);
    cj_ctx_free(c);
}

/* As many operands as there may be. */
static void einsum_of_eight(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x[8];
    double product = 1;
    for (int i = 0; i < 8; i++) {
        x[i] = cj_from_f64(c, (double[]){ i + 1, -1 }, CJ_SHAPE(2));
        product *= i;
    }
    assert_near(cj_item(cj_einsum("a,b,c,d,e,f,g,h->", x, 8)), product, 0); /* the product of the sums, of which the first is 0 */
    x[0] = cj_from_f64(c, (double[]){ 3, 0.5 }, CJ_SHAPE(2));
    assert_near(cj_item(cj_einsum("a,b,c,d,e,f,g,h->", x, 8)), 3.5 * 5040, 1e-9);
    assert_near(value_at(cj_einsum("a,b,c,d,e,f,g,h->ah", x, 8), 1), 3 * 720 * -1, 1e-9);
    assert_ok(c);
    cj_ctx_free(c);
}

static void einsum_errors(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *m = cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32), *v = cj_zeros(c, CJ_SHAPE(4), CJ_F32), *ints = cj_zeros(c, CJ_SHAPE(2, 3), CJ_I64);
    const struct {
        const char *equation;
        cj_tensor *in[2];
        int n;
        cj_code code;
        const char *says;
    } cases[] = {
        { "a?->a", { m }, 1, CJ_EVALUE, "einsum: '?' at position 1 of \"a?->a\"; a letter, '...', ',' or '->' expected" },
        { "ab-a", { m }, 1, CJ_EVALUE, "einsum: '-' at position 2 of \"ab-a\"; '->' expected" },
        { "ab->ab,", { m }, 1, CJ_EVALUE, "einsum: ',' at position 6 of \"ab->ab,\" after the result" },
        { "ab,b->a", { m }, 1, CJ_EVALUE, "has more operands than the 1 given" },
        { "ab->a", { m, v }, 2, CJ_EVALUE, "has fewer operands than the 2 given" },
        { "abc->a", { m }, 1, CJ_ESHAPE, "einsum: operand 1 of \"abc->a\" has 3 letters, [2, 3] has 2 axes" },
        { "a->a", { m }, 1, CJ_ESHAPE, "einsum: operand 1 of \"a->a\" has 1 letters, [2, 3] has 2 axes" },
        { "ab,b->a", { m, v }, 2, CJ_ESHAPE, "einsum: 'b' of \"ab,b->a\" has size 4 in operand 2 and 3 before" },
        { "aa->a", { m }, 1, CJ_ESHAPE, "einsum: 'a' of \"aa->a\" has size 3 in operand 1 and 2 before" },
        { "ab->ac", { m }, 1, CJ_EVALUE, "einsum: 'c' of the result of \"ab->ac\" is in no operand" },
        { "ab->aa", { m }, 1, CJ_EVALUE, "einsum: 'a' stands twice in the result of \"ab->aa\"" },
        { "......ab", { m }, 1, CJ_EVALUE, "einsum: a second '...' at position 3" },
        { "ab", { ints }, 1, CJ_EDTYPE, "einsum: the input is i64, a float type expected" },
        { "abcdefghijklmnopqrs", { m }, 1, CJ_EVALUE, "einsum: too many letters at position 16" },
        { NULL, { m }, 1, CJ_EVALUE, "einsum: no equation" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(cj_is_poison(cj_einsum(cases[i].equation, cases[i].in, cases[i].n)));
        assert_error(c, cases[i].code, cases[i].says);
        cj_clear(c);
    }
    cj_tensor *nine[9] = { v, v, v, v, v, v, v, v, v };
    cj_einsum("a,a,a,a,a,a,a,a,a", nine, 9);
    assert_error(c, CJ_EVALUE, "einsum: 9 operands; at most 8");
    cj_clear(c);
    cj_tensor *wide = cj_zeros(c, CJ_SHAPE(1, 1, 1, 1, 2), CJ_F32);
    cj_einsum("abcde,fghij->abcdefghij", CJ_TENSORS(wide, wide), 2);
    assert_error(c, CJ_ESHAPE, "has 10 axes; at most 8");
    cj_ctx_free(c);
}

/* ---- tensordot, kron ------------------------------------------------------------------------------------------------------------------------------------- */

static void assert_same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_int_equal(cj_numel(a), cj_numel(b));
    double *u = values_of(a), *v = values_of(b);
    for (int64_t i = 0; i < cj_numel(a); i++) assert_near(u[i], v[i], tolerance);
    free(u), free(v);
}

/* vec(P·Q·Rᵀ) = (R ⊗ P)·vec(Q), columns stacked; (A ⊗ B)(C ⊗ D) = AC ⊗ BD. */
static void kron_identities(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 52 });
    cj_tensor *P = cj_randn(c, CJ_SHAPE(3, 4), .dtype = CJ_F64), *Q = cj_randn(c, CJ_SHAPE(4, 2), .dtype = CJ_F64),
              *R = cj_randn(c, CJ_SHAPE(5, 2), .dtype = CJ_F64), *S = cj_randn(c, CJ_SHAPE(2, 3), .dtype = CJ_F64);
    cj_tensor *product = cj_matmul(cj_matmul(P, Q), cj_t(R));
    assert_same(cj_flatten(cj_contiguous(cj_t(product)), 0), cj_matmul(cj_kron(R, P), cj_flatten(cj_contiguous(cj_t(Q)), 0)), 1e-12);
    assert_same(cj_matmul(cj_kron(P, R), cj_kron(Q, S)), cj_kron(cj_matmul(P, Q), cj_matmul(R, S)), 1e-12);
    cj_tensor *ints = cj_kron(cj_from_i64(c, (int64_t[]){ 1, 2 }, CJ_SHAPE(2)), cj_from_i64(c, (int64_t[]){ 1, 10, 100 }, CJ_SHAPE(3)));
    assert_same(ints, cj_from_i64(c, (int64_t[]){ 1, 10, 100, 2, 20, 200 }, CJ_SHAPE(6)), 0);
    assert_same(cj_tensordot(P, Q, CJ_AXIS(1), CJ_AXIS(0)), cj_matmul(P, Q), 1e-14);
    assert_same(cj_tensordot(P, Q, (cj_axes){ 0 }, (cj_axes){ 0 }), cj_einsum("ab,cd->abcd", CJ_TENSORS(P, Q), 2), 1e-14);
    assert_near(cj_item(cj_tensordot(P, P, CJ_AXES(0, 1), CJ_AXES(0, 1))), cj_item(cj_sum(cj_square(P))), 1e-12);
    assert_ok(c);
    cj_tensordot(P, Q, CJ_AXIS(0), CJ_AXIS(0));
    assert_error(c, CJ_ESHAPE, "tensordot: axis 0 of [3, 4] and axis 0 of [4, 2] have different sizes");
    cj_clear(c);
    cj_tensordot(P, Q, CJ_AXES(0, 1), CJ_AXIS(0));
    assert_error(c, CJ_EVALUE, "tensordot: 2 axes of the first and 1 of the second; pairs expected");
    cj_clear(c);
    cj_tensordot(P, P, CJ_AXES(0, 0), CJ_AXES(0, 0));
    assert_error(c, CJ_EVALUE, "tensordot: an axis is given twice");
    cj_clear(c);
    cj_tensordot(P, P, CJ_AXIS(5), CJ_AXIS(0));
    assert_says(c, "tensordot");
    cj_clear(c);
    cj_tensor *deep = cj_zeros(c, CJ_SHAPE(1, 1, 1, 1, 1), CJ_F32);
    cj_kron(deep, deep);
    assert_error(c, CJ_ESHAPE, "kron: [1, 1, 1, 1, 1] and [1, 1, 1, 1, 1]; at most 4 axes each");
    cj_ctx_free(c);
}

/* ---- norms ------------------------------------------------------------------------------------------------------------------------------------------------- */

static double element(cj_tensor *t, int64_t i) { return cj_at(t, &i); }
static double norm_of(cj_ctx *c, const double *v, int n, cj_dtype t, double p)
{
    return cj_item(cj_norm(cj_cast(cj_from_f64(c, v, CJ_SHAPE(n)), t), p));
}

static void norms(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    const double v[] = { 3, -4, 0, 12 };
    assert_near(norm_of(c, v, 4, CJ_F64, 2), 13, 1e-14);
    assert_near(norm_of(c, v, 4, CJ_F64, 1), 19, 0);
    assert_near(norm_of(c, v, 4, CJ_F64, INFINITY), 12, 0);
    assert_near(norm_of(c, v, 4, CJ_F64, -INFINITY), 0, 0);
    assert_near(norm_of(c, v, 4, CJ_F64, 0), 3, 0);
    assert_near(norm_of(c, v, 4, CJ_F64, 3), cbrt(27 + 64 + 1728), 1e-13);
    assert_near(norm_of(c, v, 2, CJ_F64, -1), 1 / (1 / 3.0 + 1 / 4.0), 1e-14);
    assert_near(norm_of(c, v, 4, CJ_F64, -1), 0, 0); /* 1/0 in the sum */
    /* the ends of the range: squares of these leave f32 */
    for (int p = 2; p <= 4; p++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double big = pow(10, 30.0 * sign), w[] = { 3 * big, 4 * big };
            double want = pow(pow(3, p) + pow(4, p), 1.0 / p) * big;
            assert_near(norm_of(c, w, 2, CJ_F32, p) / want, 1, 1e-6);
            cj_tensor *x = cj_require_grad(cj_cast(cj_from_f64(c, w, CJ_SHAPE(2)), CJ_F32)), *g;
            assert_true(cj_grad(cj_norm(x, p), &x, 1, &g));
            double *d = values_of(g), unit = pow(pow(3, p) + pow(4, p), 1.0 / p);
            assert_near(d[0], pow(3 / unit, p - 1), 1e-6);
            assert_near(d[1], pow(4 / unit, p - 1), 1e-6);
            free(d);
        }
    const double wild[] = { 1, INFINITY, 2 }, nowhere[] = { 1, NAN }, zeros[] = { 0, 0, 0 };
    assert_true(isinf(norm_of(c, wild, 3, CJ_F32, 2)));
    assert_true(isnan(norm_of(c, nowhere, 2, CJ_F32, 2)));
    /* at 0 every order has gradient 0 */
    const double orders[] = { 0.5, 1, 1.5, 2, 3, INFINITY };
    for (size_t i = 0; i < 6; i++) {
        cj_tensor *x = cj_require_grad(cj_from_f64(c, zeros, CJ_SHAPE(3))), *g;
        cj_tensor *y = cj_norm(x, orders[i]);
        assert_near(cj_item(y), 0, 0);
        assert_true(cj_grad(y, &x, 1, &g));
        for (int k = 0; k < 3; k++) assert_near(element(g, k), 0, 0);
    }
    cj_tensor *empty = cj_norm(cj_zeros(c, CJ_SHAPE(2, 0), CJ_F32), 2, .axes = CJ_AXIS(1));
    assert_int_equal(cj_numel(empty), 2);
    assert_near(element(empty, 0), 0, 0);
    assert_ok(c);
    cj_norm(cj_zeros(c, CJ_SHAPE(2), CJ_F32), NAN);
    assert_error(c, CJ_EVALUE, "norm: the order is NaN");
    cj_clear(c);
    cj_norm(cj_zeros(c, CJ_SHAPE(2), CJ_I64), 2);
    assert_error(c, CJ_EDTYPE, "norm: the input is i64, a float type expected");
    cj_clear(c);
    cj_norm(cj_zeros(c, CJ_SHAPE(2), CJ_F32), 2, .axes = CJ_AXIS(3));
    assert_says(c, "norm");
    cj_ctx_free(c);
}

static void distances(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 53 });
    const double orders[] = { 0, 1, 1.5, 2, INFINITY };
    for (size_t o = 0; o < 5; o++)
        for (int64_t rows = 4; rows <= 30; rows += 26) { /* 30 rows of p = 2: the product form */
            cj_tensor *a = cj_randn(c, CJ_SHAPE(rows, 6), .dtype = CJ_F64), *b = cj_randn(c, CJ_SHAPE(5, 6), .dtype = CJ_F64);
            double *x = values_of(a), *y = values_of(b), *d = values_of(cj_cdist(a, b, orders[o]));
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < 5; j++) {
                    double sum = 0, most = 0, p = orders[o];
                    for (int k = 0; k < 6; k++) {
                        double r = fabs(x[i * 6 + k] - y[j * 6 + k]);
                        sum += p == 0 ? r != 0 : pow(r, p == INFINITY ? 1 : p), most = fmax(most, r);
                    }
                    assert_near(d[i * 5 + j], p == INFINITY ? most : p == 0 ? sum : pow(sum, 1 / p), 1e-12);
                }
            free(x), free(y), free(d);
        }
    /* a point and itself: distance and gradient 0 in both forms (the product form may leave a rounding error of the square) */
    for (int64_t rows = 3; rows <= 30; rows += 27) {
        cj_tensor *a = cj_require_grad(cj_randint(c, -4, 5, CJ_SHAPE(rows, 3), .dtype = CJ_F64)), *g;
        cj_tensor *same = cj_diagonal(cj_cdist(a, cj_detach(a), 2), 0, 0, 1);
        assert_true(cj_grad(cj_sum(same), &a, 1, &g));
        double *v = values_of(g), *d = values_of(same);
        for (int64_t i = 0; i < rows * 3; i++) assert_near(v[i], 0, 0);
        for (int64_t i = 0; i < rows; i++) assert_near(d[i], 0, 0);
        free(v), free(d);
    }
    cj_tensor *a = cj_from_f64(c, (double[]){ 1, 0, 1, 1 }, CJ_SHAPE(2, 2)), *b = cj_from_f64(c, (double[]){ 0, 2, 3, 3 }, CJ_SHAPE(2, 2));
    cj_tensor *cosine = cj_cosine_similarity(a, b, 1, 0);
    assert_near(element(cosine, 0), 0, 1e-15);
    assert_near(element(cosine, 1), 1, 1e-15);
    assert_near(cj_item(cj_cosine_similarity(cj_zeros(c, CJ_SHAPE(3), CJ_F64), cj_ones(c, CJ_SHAPE(3), CJ_F64), 0, 0)), 0, 0);
    assert_ok(c);
    cj_cdist(a, cj_zeros(c, CJ_SHAPE(2, 3), CJ_F64), 2);
    assert_error(c, CJ_ESHAPE, "cdist: [2, 2] and [2, 3]; [.., P, M] and [.., R, M] expected");
    cj_clear(c);
    cj_cdist(a, b, -1);
    assert_error(c, CJ_EVALUE, "cdist: order -1; 0 or more expected");
    cj_clear(c);
    cj_cdist(a, cj_cast(b, CJ_I64), 2);
    assert_error(c, CJ_EDTYPE, "cdist: the second input is i64, a float type expected");
    cj_clear(c);
    cj_cosine_similarity(a, cj_zeros(c, CJ_SHAPE(3), CJ_F64), 1, 0);
    assert_error(c, CJ_ESHAPE, "cosine_similarity: [2, 2] and [3] do not broadcast");
    cj_clear(c);
    cj_cosine_similarity(a, b, 1, -1);
    assert_error(c, CJ_EVALUE, "cosine_similarity: eps -1 is negative");
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(einsum_by_loops), cmocka_unit_test(einsum_of_eight),
                                        cmocka_unit_test(einsum_errors),   cmocka_unit_test(kron_identities),
                                        cmocka_unit_test(norms),           cmocka_unit_test(distances) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
