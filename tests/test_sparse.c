/* Sparse matrices against dense ones: conversions, both products with their derivatives, every bad structure; threads; a graph layer that does not
 * depend on the order of the nodes. */
#include "support.h"

static void assert_same(cj_tensor *a, cj_tensor *b, double tolerance)
{
    assert_int_equal(cj_numel(a), cj_numel(b));
    double *u = values_of(a), *v = values_of(b);
    for (int64_t i = 0; i < cj_numel(a); i++) assert_near(u[i], v[i], tolerance * (1 + fabs(v[i])));
    free(u), free(v);
}

/* A random matrix with about one in `every` elements. */
static cj_tensor *random_dense(cj_ctx *c, int64_t m, int64_t n, double share, cj_dtype t)
{
    return cj_cast(cj_mul(cj_randn(c, CJ_SHAPE(m, n)), cj_bernoulli(c, share, CJ_SHAPE(m, n))), t);
}

static const double tolerance_of[CJ_DTYPES] = { [CJ_F32] = 2e-5, [CJ_F64] = 1e-13, [CJ_BF16] = 0.05, [CJ_F16] = 0.01 };

static void products(void **state)
{
    (void)state;
    const int64_t sizes[][3] = { { 7, 5, 3 }, { 40, 33, 16 }, { 20, 60, 70 }, { 300, 200, 1 }, { 500, 400, 37 }, { 1, 9, 64 } };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 61 });
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = CJ_F32; t <= CJ_F16; t++) {
            cj_scope s = cj_scope_open(c);
            const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            cj_tensor *dense = random_dense(c, m, n, 0.1, (cj_dtype)t);
            cj_csr a = cj_csr_from_dense(dense);
            assert_same(cj_csr_to_dense(a), dense, 0);
            cj_tensor *v = cj_require_grad(cj_detach(a.values)), *x = cj_require_grad(cj_cast(cj_randn(c, CJ_SHAPE(n, k)), (cj_dtype)t));
            a = cj_csr_with_values(a, v);
            cj_tensor *y = cj_csr_matmul(a, x), *seed = cj_cast(cj_randn(c, CJ_SHAPE(m, k)), (cj_dtype)t), *g[2], *want[2];
            assert_true(cj_grad(y, CJ_TENSORS(v, x), 2, g, .seed = seed));
            /* the same with the dense matrix, in f64 */
            cj_tensor *d = cj_require_grad(cj_cast(dense, CJ_F64)), *x64 = cj_require_grad(cj_cast(cj_detach(x), CJ_F64));
            cj_tensor *y64 = cj_matmul(d, x64);
            assert_true(cj_grad(y64, CJ_TENSORS(d, x64), 2, want, .seed = cj_cast(seed, CJ_F64)));
            assert_same(y, y64, tolerance_of[t]);
            assert_same(g[1], want[1], tolerance_of[t]);
            cj_csr places = cj_csr_from_dense(dense);
            cj_tensor *row = cj_index_add(cj_zeros_like(places.columns), 0, places.t_entry, places.t_rows);
            cj_tensor *flat = cj_add(cj_mul(row, cj_full(c, (double)n, CJ_SCALAR, CJ_I64)), places.columns);
            assert_same(g[0], cj_index_select(cj_flatten(want[0], 0), 0, flat), tolerance_of[t] * sqrt((double)k));
            assert_same(cj_csr_matmul_t(a, seed), cj_matmul(cj_t(cj_cast(dense, CJ_F64)), cj_cast(seed, CJ_F64)), tolerance_of[t]);
            assert_same(cj_csr_matmul(a, cj_select(x, 1, 0)), cj_select(y64, 1, 0), tolerance_of[t]);
            assert_ok(c);
            cj_scope_close(s);
        }
    cj_ctx_free(c);
}

static cj_csr fixed; /* the structure under the differences */
static cj_tensor *matmul_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    cj_csr a = cj_csr_with_values(fixed, in[0]);
    return user ? cj_csr_matmul_t(a, in[1]) : cj_csr_matmul(a, in[1]);
}
static cj_tensor *dense_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n, (void)user;
    return cj_csr_to_dense(cj_csr_with_values(fixed, in[0]));
}

static void derivatives(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 62 });
    fixed = cj_csr_from_dense(random_dense(c, 4, 5, 0.5, CJ_F64));
    for (int transposed = 0; transposed < 2; transposed++) {
        cj_tensor *in[2] = { cj_randn(c, cj_shape_of(fixed.values), .dtype = CJ_F64),
                             cj_randn(c, CJ_SHAPE(transposed ? 4 : 5, 2), .dtype = CJ_F64) };
        cj_gradcheck_result r = cj_gradcheck(c, matmul_fn, transposed ? &fixed : NULL, in, 2, .second_order = true);
        if (!r.ok) fail_msg("%s", r.what);
        r = cj_gradcheck(c, dense_fn, NULL, in, 1, .second_order = true);
        if (!r.ok) fail_msg("%s", r.what);
    }
    /* from triples in any order, one place twice: values add and both get the gradient */
    cj_tensor *row = cj_from_i64(c, (int64_t[]){ 2, 0, 2, 0 }, CJ_SHAPE(4)), *col = cj_from_i64(c, (int64_t[]){ 1, 3, 1, 0 }, CJ_SHAPE(4));
    cj_tensor *v = cj_require_grad(cj_from_f64(c, (double[]){ 1, 2, 10, 4 }, CJ_SHAPE(4))), *g;
    cj_csr a = cj_csr_from_coo(row, col, v, 3, 4);
    assert_int_equal(cj_numel(a.values), 3);
    const double want[12] = { 4, 0, 0, 2, 0, 0, 0, 0, 0, 11, 0, 0 };
    assert_same(cj_csr_to_dense(a), cj_from_f64(c, want, CJ_SHAPE(3, 4)), 0);
    assert_true(cj_grad(cj_sum(cj_square(a.values)), &v, 1, &g));
    const double slope[4] = { 22, 4, 22, 8 };
    assert_same(g, cj_from_f64(c, slope, CJ_SHAPE(4)), 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* An empty matrix, rows without entries, infinite values: nothing leaks into other places. */
static void borders(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2 });
    cj_csr none = cj_csr_from_dense(cj_zeros(c, CJ_SHAPE(3, 4), CJ_F32));
    assert_same(cj_csr_matmul(none, cj_ones(c, CJ_SHAPE(4, 2), CJ_F32)), cj_zeros(c, CJ_SHAPE(3, 2), CJ_F32), 0);
    assert_same(cj_csr_matmul_t(none, cj_ones(c, CJ_SHAPE(3, 2), CJ_F32)), cj_zeros(c, CJ_SHAPE(4, 2), CJ_F32), 0);
    assert_int_equal(cj_numel(cj_csr_sampled(none, cj_ones(c, CJ_SHAPE(3, 2), CJ_F32), cj_ones(c, CJ_SHAPE(4, 2), CJ_F32))), 0);
    cj_csr flat = cj_csr_from_dense(cj_zeros(c, CJ_SHAPE(0, 4), CJ_F32));
    assert_int_equal(cj_numel(cj_csr_matmul(flat, cj_ones(c, CJ_SHAPE(4, 2), CJ_F32))), 0);
    cj_tensor *wild = cj_from_f32(c, (float[]){ 0, INFINITY, 0, 0, 0, 2 }, CJ_SHAPE(2, 3));
    cj_csr a = cj_csr_from_dense(wild);
    assert_int_equal(cj_numel(a.values), 2);
    double *v = values_of(cj_csr_to_dense(a));
    assert_true(isinf(v[1]));
    for (int i = 0; i < 6; i++) assert_true(i == 1 || v[i] == (i == 5 ? 2 : 0));
    free(v);
    assert_ok(c);
    cj_ctx_free(c);
}

/* The bits do not depend on threads; a kept matrix works in a captured step. */
static void layer_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_csr_matmul(*(cj_csr *)user, x);
    cj_grad(cj_sum(cj_square(out[0])), &x, 1, out + 1);
}
static void threads_and_plans(void **state)
{
    (void)state;
    double *one = NULL;
    for (int threads = 1; threads <= 2; threads++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 63 });
        cj_csr a = cj_csr_keep(cj_csr_from_dense(random_dense(c, 700, 600, 0.05, CJ_F32)));
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(600, 24))), *out[CJ_MAX_PLAN_OUTPUTS];
        cj_plan *plan = cj_capture(c, layer_step, &a, &x, 1, out);
        double *eager = values_of(out[1]);
        for (int i = 0; i < 3; i++) {
            assert_true(cj_replay(plan, &x, out));
            double *again = values_of(out[1]);
            assert_memory_equal(eager, again, 600 * 24 * sizeof *eager);
            free(again);
        }
        if (one) assert_memory_equal(one, eager, 600 * 24 * sizeof *eager);
        else one = eager;
        if (one != eager) free(eager);
        assert_ok(c);
        cj_csr_release(a);
        cj_ctx_free(c);
    }
    free(one);
}

/* A matrix of one value at n places. */
static cj_csr uniform(cj_ctx *c, const int64_t *row, const int64_t *col, int64_t n, double value, int64_t nodes)
{
    return cj_csr_from_coo(cj_from_i64(c, row, CJ_SHAPE(n)), cj_from_i64(c, col, CJ_SHAPE(n)), cj_full(c, value, CJ_SHAPE(n), CJ_F64),
                           nodes, nodes);
}

/* graph.ring-conv: Q = D^-1/2·(A + I)·D^-1/2. On a ring the layer Q·X·W is a circular convolution with (1/3, 1/3, 1/3) ⊗ W, on a torus with the
 * five-point kernel 1/5 ⊗ W. Renumbering the nodes renumbers the result. */
static void graph_ring_conv(void **state)
{
    (void)state;
    enum { N = 12, H = 4, M = 5, IN = 4, OUT = 3 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 64 });
    cj_tensor *W = cj_randn(c, CJ_SHAPE(IN, OUT), .dtype = CJ_F64);
    int64_t row[5 * H * M], col[5 * H * M], row2[3 * N], col2[3 * N], order[N];
    for (int i = 0; i < N; i++) order[i] = (i * 5 + 3) % N;
    for (int i = 0; i < 3 * N; i++) {
        row[i] = i / 3, col[i] = (i / 3 + i % 3 + N - 1) % N;
        row2[i] = order[row[i]], col2[i] = order[col[i]];
    }
    cj_tensor *x = cj_randn(c, CJ_SHAPE(N, IN), .dtype = CJ_F64), *perm = cj_from_i64(c, order, CJ_SHAPE(N));
    cj_csr ring = uniform(c, row, col, 3 * N, 1.0 / 3, N), renumbered = uniform(c, row2, col2, 3 * N, 1.0 / 3, N);
    cj_tensor *y = cj_matmul(cj_csr_matmul(ring, x), W);
    cj_tensor *kernel = cj_expand(cj_reshape(cj_mul_scalar(cj_t(W), 1.0 / 3), CJ_SHAPE(OUT, IN, 1)), CJ_SHAPE(OUT, IN, 3));
    cj_tensor *line = cj_conv(cj_reshape(cj_t(x), CJ_SHAPE(1, IN, N)), kernel, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC);
    assert_same(y, cj_t(cj_reshape(line, CJ_SHAPE(OUT, N))), 1e-12);
    cj_tensor *moved = cj_index_add(cj_zeros_like(x), 0, perm, x); /* node i is now order[i] */
    assert_same(cj_index_select(cj_matmul(cj_csr_matmul(renumbered, moved), W), 0, perm), y, 1e-12);

    const int step[5][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 0, M - 1 }, { H - 1, 0 } };
    for (int i = 0; i < 5 * H * M; i++) {
        const int node = i / 5;
        row[i] = node, col[i] = (node / M + step[i % 5][0]) % H * M + (node % M + step[i % 5][1]) % M;
    }
    cj_csr torus = uniform(c, row, col, 5 * H * M, 1.0 / 5, H * M);
    x = cj_randn(c, CJ_SHAPE(H * M, IN), .dtype = CJ_F64);
    const double cross[9] = { 0, 0.2, 0, 0.2, 0.2, 0.2, 0, 0.2, 0 };
    kernel = cj_mul(cj_reshape(cj_t(W), CJ_SHAPE(OUT, IN, 1, 1)), cj_from_f64(c, cross, CJ_SHAPE(3, 3)));
    cj_tensor *plane = cj_conv(cj_reshape(cj_t(x), CJ_SHAPE(1, IN, H, M)), kernel, NULL, .padding = 1, .mode = CJ_PAD_CYCLIC);
    assert_same(cj_matmul(cj_csr_matmul(torus, x), W), cj_t(cj_reshape(plane, CJ_SHAPE(OUT, H * M))), 1e-12);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *numbers(cj_ctx *c, int64_t a, int64_t b, int64_t d, int64_t e)
{
    return cj_from_i64(c, (int64_t[]){ a, b, d, e }, CJ_SHAPE(4));
}

static void bad_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    (void)c;
    out[0] = cj_csr_to_dense(cj_csr_from_dense(in[0]));
}

static void bad_input(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *v = cj_ones(c, CJ_SHAPE(4), CJ_F32), *good = numbers(c, 0, 2, 3, 4), *columns = numbers(c, 0, 2, 1, 1);
#define PARTS(o, k, values) cj_csr_from_parts(o, k, values, 3, 3)
    assert_same(cj_csr_to_dense(PARTS(good, columns, v)), cj_from_f32(c, (float[]){ 1, 0, 1, 0, 1, 0, 0, 1, 0 }, CJ_SHAPE(3, 3)), 0);
    assert_refused(CJ_EVALUE, "csr_from_parts: offsets falls from 3 to 2 at row 1", PARTS(numbers(c, 0, 3, 2, 4), columns, v));
    assert_refused(CJ_EVALUE, "csr_from_parts: offsets runs from 0 to 5; 0 to the 4 entries expected",
                   PARTS(numbers(c, 0, 2, 3, 5), columns, v));
    assert_refused(CJ_EVALUE, "csr_from_parts: offsets runs from 1 to 4", PARTS(numbers(c, 1, 2, 3, 4), columns, v));
    assert_refused(CJ_EINDEX, "csr_from_parts: the column of entry 1 is 3, outside [0, 3)", PARTS(good, numbers(c, 0, 3, 1, 1), v));
    assert_refused(CJ_EINDEX, "csr_from_parts: the column of entry 2 is -1, outside [0, 3)", PARTS(good, numbers(c, 0, 2, -1, 1), v));
    assert_refused(CJ_EVALUE, "csr_from_parts: columns 2 and 0 of row 0 are not in order", PARTS(good, numbers(c, 2, 0, 1, 1), v));
    assert_refused(CJ_EVALUE, "csr_from_parts: columns 2 and 2 of row 0 are the same", PARTS(good, numbers(c, 2, 2, 1, 1), v));
    assert_refused(CJ_ESHAPE, "csr_from_parts: offsets is i64 [4]; i64 [6] expected", cj_csr_from_parts(good, columns, v, 5, 3));
    assert_refused(CJ_ESHAPE, "csr_from_parts: columns is f32 [4]; i64 [entries] expected", PARTS(good, v, v));
    assert_refused(CJ_ESHAPE, "csr_from_parts: values are f32 [2]; floats [4] expected",
                   PARTS(good, columns, cj_ones(c, CJ_SHAPE(2), CJ_F32)));
    assert_refused(CJ_ESHAPE, "csr_from_parts: values are i64 [4]; floats [4] expected", PARTS(good, columns, good));
    assert_refused(CJ_EVALUE, "csr_from_parts: a matrix of [-1, 3]", cj_csr_from_parts(good, columns, v, -1, 3));
    assert_refused(CJ_EINDEX, "csr_from_coo: the row of entry 2 is 3, outside [0, 3)", cj_csr_from_coo(good, columns, v, 3, 3));
    assert_refused(CJ_EINDEX, "csr_from_coo: the column of entry 1 is 2, outside [0, 2)", cj_csr_from_coo(columns, columns, v, 3, 2));
    assert_refused(CJ_ESHAPE, "csr_from_dense: f32 [4]; a matrix of floats expected", cj_csr_from_dense(v));
    cj_csr a = PARTS(good, columns, v), broken = a;
    assert_refused(CJ_ESHAPE, "csr_matmul: inner sizes differ: [3, 3] x [4, 2]", cj_csr_matmul(a, cj_ones(c, CJ_SHAPE(4, 2), CJ_F32)));
    assert_refused(CJ_EDTYPE, "csr_matmul: dtypes f32 and f64; both must be the same float type",
                   cj_csr_matmul(a, cj_ones(c, CJ_SHAPE(3, 2), CJ_F64)));
    assert_refused(CJ_ESHAPE, "csr_sampled: [3, 2] x [3, 1]ᵀ at the entries of [3, 3]",
                   cj_csr_sampled(a, cj_ones(c, CJ_SHAPE(3, 2), CJ_F32), cj_ones(c, CJ_SHAPE(3, 1), CJ_F32)));
    /* a structure put together by hand reads nowhere else */
    cj_tensor *x = cj_ones(c, CJ_SHAPE(3, 2), CJ_F32);
    broken.columns = numbers(c, 0, 2, 1, 1000000);
    assert_refused(CJ_EINDEX, "csr_matmul: columns of entry 3 is 1000000, outside [0, 3)", cj_csr_matmul(broken, x));
    broken = a, broken.offsets = numbers(c, 0, 2, 3, 4000);
    assert_refused(CJ_EVALUE, "csr_matmul: offsets runs from 0 to 4000", cj_csr_matmul(broken, x));
    broken = a, broken.t_entry = numbers(c, 0, 1, 2, 9);
    assert_refused(CJ_EINDEX, "csr_matmul: t_entry of entry 3 is 9, outside [0, 4)", cj_csr_matmul_t(broken, x));
    broken = a, broken.rows = 7;
    assert_refused(CJ_ESHAPE, "csr_matmul: offsets is i64 [4]; i64 [8] expected", cj_csr_matmul(broken, x));
    broken = a, broken.t_rows = NULL;
    assert_refused(CJ_EVALUE, "csr_matmul", cj_csr_matmul(broken, x));
    cj_tensor *m = cj_keep(cj_ones(c, CJ_SHAPE(2, 2), CJ_F32)), *out[CJ_MAX_PLAN_OUTPUTS];
    assert_refused(CJ_ECAPTURE, "csr_from_dense: reads the matrix inside a captured step", cj_capture(c, bad_step, NULL, &m, 1, out));
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),          cmocka_unit_test(derivatives),     cmocka_unit_test(borders),
        cmocka_unit_test(threads_and_plans), cmocka_unit_test(graph_ring_conv), cmocka_unit_test(bad_input)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
