/* Ordering against a plain stable sort: values and places for every type, with ties, NaN and both zeros; boxes by their definitions; and what is refused. */
#include "support.h"

static const double *sorting; /* of the comparison below */
static bool downwards;

static int compare(const void *p, const void *q)
{
    int64_t i = *(const int64_t *)p, k = *(const int64_t *)q;
    double a = sorting[i], b = sorting[k];
    int order = isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
    if (downwards) order = -order;
    return order ? order : (i > k) - (i < k);
}

/* The places of v[0 … n) in order; the caller frees them. */
static int64_t *places(const double *v, int64_t n, bool descending)
{
    int64_t *at = malloc((size_t)(n + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++) at[i] = i;
    sorting = v;
    downwards = descending;
    qsort(at, (size_t)n, sizeof *at, compare);
    return at;
}

static bool same_value(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

/* Rows of values with few digits: ties; every so often something special. */
static cj_tensor *draw(cj_ctx *c, int64_t rows, int64_t n, cj_dtype t, bool special, uint64_t *next)
{
    double *v = malloc((size_t)(rows * n + 1) * sizeof *v);
    for (int64_t i = 0; i < rows * n; i++) {
        *next = *next * 6364136223846793005u + 1442695040888963407u;
        uint64_t r = *next >> 33;
        v[i] = (double)(int64_t)(r % 2001) / 8 - 125;
        if (r % 3 == 0) v[i] = (double)(r >> 8) - 4e6;
        if (special && r % 11 == 0) v[i] = r % 2 ? NAN : r % 4 ? INFINITY : -0.0;
        if (special && r % 13 == 0) v[i] = 0;
        if (t == CJ_U8) v[i] = (double)(r % 256);
    }
    cj_tensor *x = cj_cast(cj_from_f64(c, v, CJ_SHAPE(rows, n)), t);
    free(v);
    return x;
}

static void check_rows(cj_ctx *c, cj_tensor *x, bool descending, int64_t k)
{
    int64_t rows = cj_size(x, 0), n = cj_size(x, 1);
    cj_ordered y = k < 0 ? cj_sort(x, 1, .descending = descending) : cj_topk(x, k, 1, .smallest = !descending);
    assert_ok(c);
    int64_t m = k < 0 ? n : k;
    double *v = values_of(x), *got = values_of(y.values), *at = values_of(y.indices);
    for (int64_t r = 0; r < rows; r++) {
        int64_t *want = places(v + r * n, n, descending);
        for (int64_t i = 0; i < m; i++)
            if ((int64_t)at[r * m + i] != want[i] || !same_value(got[r * m + i], v[r * n + want[i]]))
                fail_msg("%s, %lld x %lld, row %lld, place %lld: %g at %g, expected %g at %lld", cj_dtype_name(cj_dtype_of(x)),
                         (long long)rows, (long long)n, (long long)r, (long long)i, got[r * m + i], at[r * m + i], v[r * n + want[i]],
                         (long long)want[i]);
        free(want);
    }
    free(v), free(got), free(at);
}

static void test_sort_and_topk(void **state)
{
    (void)state;
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16, CJ_I64, CJ_I32, CJ_U8, CJ_BOOL };
    static const int64_t sizes[][2] = { { 3, 1 }, { 5, 2 }, { 2, 40 }, { 2, 41 }, { 3, 300 }, { 2, 5000 }, { 1, 70001 }, { 0, 3 } };
    uint64_t seed = 20261115, next = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int threads = 1; threads <= 2; threads++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads });
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *x = draw(c, sizes[i][0], sizes[i][1], types[t], cj_dtype_is_float(types[t]), &next);
                for (int d = 0; d < 2; d++) {
                    check_rows(c, x, d, -1);
                    check_rows(c, x, d, sizes[i][1] < 7 ? sizes[i][1] : 7);
                    check_rows(c, x, d, sizes[i][1] / 3);
                }
                cj_scope_close(s);
            }
        cj_ctx_free(c);
    }
}

/* The best of rows of every length, which fill the last vector more or less, against sorting them. */
static void test_topk_of_any_length(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 4 });
    for (int64_t n = 1; n <= 130; n++) {
        cj_tensor *x = cj_randn(c, CJ_SHAPE(3, n)), *sorted = cj_sort(x, 1, .descending = true).values;
        const int64_t some[] = { 1, n / 3 + 1, n };
        for (int i = 0; i < 3; i++) {
            cj_tensor *y = cj_topk(x, some[i], 1).values;
            if (!same_bits(y, cj_contiguous(cj_slice(sorted, 1, 0, some[i], 1))))
                fail_msg("%lld of %lld", (long long)some[i], (long long)n);
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* The best k of rows that rise or fall all the way: every element, or none, passes. */
static void test_topk_of_monotone_rows(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *up = cj_arange(c, 0, 5000, 1, CJ_F32), *down = cj_neg(up);
    cj_tensor *x = cj_stack((cj_tensor *[]){ up, down, cj_zeros_like(up), cj_mul_scalar(up, NAN) }, 4, 0);
    for (int d = 0; d < 2; d++)
        for (int64_t k = 1; k < 200; k += 66) check_rows(c, x, d, k);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_axes_and_gradients(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(2, 3), 5, 1, 3, 2, 6, 4)), *g;
    cj_ordered y = cj_sort(x, 0, .descending = true);
    assert_near(distance(y.values, F64(c, CJ_SHAPE(2, 3), 5, 6, 4, 2, 1, 3)), 0, 0);
    assert_near(distance(y.indices, F64(c, CJ_SHAPE(2, 3), 0, 1, 1, 1, 0, 0)), 0, 0);
    assert_true(cj_grad(y.values, &x, 1, &g, .seed = F64(c, CJ_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)));
    assert_near(distance(g, F64(c, CJ_SHAPE(2, 3), 1, 5, 6, 4, 2, 3)), 0, 0);
    assert_near(distance(cj_argsort(x, -1), F64(c, CJ_SHAPE(2, 3), 1, 2, 0, 0, 2, 1)), 0, 0);
    assert_near(distance(cj_kthvalue(x, 2, 1).values, F64(c, CJ_SHAPE(2), 3, 4)), 0, 0);
    assert_near(distance(cj_kthvalue(x, 3, 1).indices, F64(c, CJ_SHAPE(2), 0, 1)), 0, 0);
    assert_near(distance(cj_median(x, 0).values, F64(c, CJ_SHAPE(3), 2, 1, 3)), 0, 0);
    cj_ordered m = cj_median(F64(c, CJ_SHAPE(2, 4), 4, 2, NAN, 1, 4, 2, 3, 1), 1);
    assert_true(isnan(value_at(m.values, 0)) && value_at(m.values, 1) == 2);
    assert_true(value_at(m.indices, 0) == 2 && value_at(m.indices, 1) == 1);
    assert_near(cj_item(cj_sort(cj_scalar(c, 3), 0).values), 3, 0);
    assert_int_equal(cj_numel(cj_topk(cj_scalar(c, 3), 0, 0).values), 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_unique_and_search(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F64(c, CJ_SHAPE(2, 4), 3, -0.0, NAN, 3, 0, 7, NAN, -1);
    cj_uniques u = cj_unique(x);
    assert_int_equal(cj_numel(u.values), 6);
    const double values[] = { -1, 0, 3, 7 }, counts[] = { 1, 2, 2, 1, 1, 1 }, inverse[] = { 2, 1, 4, 2, 1, 3, 5, 0 };
    for (int i = 0; i < 4; i++) assert_near(value_at(u.values, i), values[i], 0);
    for (int i = 0; i < 6; i++) assert_near(value_at(u.counts, i), counts[i], 0);
    assert_int_equal(cj_ndim(u.inverse), 2);
    for (int i = 0; i < 8; i++) assert_near(value_at(u.inverse, i), inverse[i], 0);
    assert_int_equal(cj_numel(cj_unique(cj_zeros(c, CJ_SHAPE(0, 3), CJ_I64)).values), 0);
    cj_tensor *sorted = F64(c, CJ_SHAPE(5), 1, 3, 3, 5, NAN), *v = F64(c, CJ_SHAPE(6), 0, 3, 4, 9, NAN, -INFINITY);
    assert_near(distance(cj_searchsorted(sorted, v), F64(c, CJ_SHAPE(6), 0, 1, 3, 4, 4, 0)), 0, 0);
    assert_near(distance(cj_searchsorted(sorted, v, .right = true), F64(c, CJ_SHAPE(6), 0, 3, 3, 4, 5, 0)), 0, 0);
    cj_tensor *rows = F64(c, CJ_SHAPE(2, 3), 1, 2, 3, 10, 20, 30), *w = F64(c, CJ_SHAPE(2, 2), 2, 9, 2, 25);
    assert_near(distance(cj_searchsorted(rows, w), F64(c, CJ_SHAPE(2, 2), 1, 3, 0, 2)), 0, 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void unique_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_unique(in[0]).values;
}
static void nms_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_nms(in[0], cj_select(in[0], 1, 0), 0.5);
}

static void test_refused(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(2, 4), CJ_F32), *i = cj_zeros(c, CJ_SHAPE(2), CJ_I64), *out[CJ_MAX_PLAN_OUTPUTS];
    assert_poisoned(CJ_EVALUE, "topk: k is 5, the axis has 4 elements", cj_topk(x, 5, 1).values);
    assert_poisoned(CJ_EVALUE, "topk: k is", cj_topk(x, -1, 1).values);
    assert_poisoned(CJ_EVALUE, "kthvalue: k is 0, the axis has 4 elements", cj_kthvalue(x, 0, 1).values);
    assert_poisoned(CJ_EVALUE, "median: k is 0, the axis has 0 elements", cj_median(cj_zeros(c, CJ_SHAPE(3, 0), CJ_F32), 1).values);
    assert_poisoned(CJ_EINDEX, "sort: axis 2", cj_sort(x, 2).values);
    assert_poisoned(CJ_EDTYPE, "searchsorted: the sorted tensor is f32, the values are i64", cj_searchsorted(x, i));
    assert_poisoned(CJ_ESHAPE, "searchsorted: sorted [2, 4] and values [3, 4]", cj_searchsorted(x, cj_zeros(c, CJ_SHAPE(3, 4), CJ_F32)));
    assert_poisoned(CJ_ESHAPE, "box_iou: boxes [2, 3], [.., 4] expected", cj_box_iou(x, cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32)));
    assert_poisoned(CJ_EDTYPE, "box_corners: the boxes are i64, a float type expected", cj_box_corners(i));
    assert_poisoned(CJ_EVALUE, "box_clip: to -1 x 2", cj_box_clip(x, -1, 2));
    assert_poisoned(CJ_ESHAPE, "nms: boxes [2, 4] and scores [3], [n, 4] and [n] expected",
                    cj_nms(x, cj_zeros(c, CJ_SHAPE(3), CJ_F32), 0.5));
    assert_poisoned(CJ_EVALUE, "nms: threshold -1", cj_nms(x, cj_zeros(c, CJ_SHAPE(2), CJ_F32), -1));
    assert_poisoned(CJ_EDTYPE, "nms: the classes are f32, i64 expected", cj_nms(x, i, 0.5, .classes = cj_zeros(c, CJ_SHAPE(2), CJ_F32)));
    assert_null(cj_capture(c, unique_step, NULL, &x, 1, out));
    assert_error(c, CJ_ECAPTURE, "the shape of unique depends on values");
    cj_clear(c);
    assert_null(cj_capture(c, nms_step, NULL, &x, 1, out));
    assert_error(c, CJ_ECAPTURE, "depends on values");
    cj_clear(c);
    assert_null(cj_sort(NULL, 0).values);
    assert_null(cj_median(NULL, 0).values);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* det.boxes */
static void det_boxes(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *b = F64(c, CJ_SHAPE(2, 4), 50, 50, 20, 40, 7, 8, 2, 1), *corners = cj_box_corners(b);
    assert_near(distance(corners, F64(c, CJ_SHAPE(2, 4), 40, 30, 60, 70, 6, 7.5, 8, 8.5)), 0, 0);
    assert_near(distance(cj_box_centres(corners), b), 0, 0);
    for (int64_t i = 0; i < 2; i++) { /* width·height = (right - left)·(bottom - top) */
        double *p = values_of(b), *q = values_of(corners);
        assert_near((q[4 * i + 2] - q[4 * i]) * (q[4 * i + 3] - q[4 * i + 1]), p[4 * i + 2] * p[4 * i + 3], 0);
        free(p), free(q);
    }
    assert_near(distance(cj_box_clip(F64(c, CJ_SHAPE(4), -3, 5, 120, 90), 100, 80), F64(c, CJ_SHAPE(4), 0, 5, 100, 80)), 0, 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* Pixels of an n x n grid in both boxes over those in either; whole coordinates. */
static double pixel_iou(const double *a, const double *b, int n)
{
    int both = 0, either = 0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            bool p = x >= a[0] && x < a[2] && y >= a[1] && y < a[3], q = x >= b[0] && x < b[2] && y >= b[1] && y < b[3];
            both += p && q;
            either += p || q;
        }
    return (double)both / either;
}

/* det.iou */
static void det_iou(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5 });
    cj_scope s = cj_scope_open(c);
    cj_tensor *a = F64(c, CJ_SHAPE(1, 4), 0, 0, 10, 10), *b = F64(c, CJ_SHAPE(3, 4), 5, 5, 15, 15, 0, 0, 10, 10, 20, 20, 30, 30);
    assert_near(distance(cj_box_iou(a, b), F64(c, CJ_SHAPE(1, 3), 1.0 / 7, 1, 0)), 0, 1e-15);
    cj_random_opts f64_opts = { .dtype = CJ_F64 };
    cj_tensor *centres = (cj_rand)(c, CJ_SHAPE(20, 2), &f64_opts), *sizes = (cj_rand)(c, CJ_SHAPE(20, 2), &f64_opts);
    cj_tensor *low = cj_floor(cj_mul_scalar(centres, 12)), *high = cj_add(low, cj_add_scalar(cj_floor(cj_mul_scalar(sizes, 8)), 1));
    cj_tensor *boxes = cj_cat((cj_tensor *[]){ low, high }, 2, 1), *iou = cj_box_iou(boxes, boxes);
    assert_near(distance(iou, cj_t(iou)), 0, 0);
    cj_tensor *moved = cj_add_scalar(cj_mul_scalar(boxes, 4), 16); /* exact in binary */
    assert_near(distance(cj_box_iou(moved, moved), iou), 0, 0);
    double *p = values_of(boxes), *v = values_of(iou);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 20; k++) assert_near(v[20 * i + k], pixel_iou(p + 4 * i, p + 4 * k, 24), 1e-15);
    free(p), free(v);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* det.nms */
static void det_nms(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_scope s = cj_scope_open(c);
    cj_tensor *abc = F64(c, CJ_SHAPE(3, 4), 0, 0, 10, 10, 1, 1, 11, 11, 20, 20, 30, 30), *scores = F64(c, CJ_SHAPE(3), 0.9, 0.8, 0.7);
    assert_near(value_at(cj_box_iou(abc, abc), 1), 81.0 / 119, 1e-15);
    assert_near(distance(cj_nms(abc, scores, 0.5), F64(c, CJ_SHAPE(2), 0, 2)), 0, 0);
    assert_near(distance(cj_nms(abc, scores, 0.7), F64(c, CJ_SHAPE(3), 0, 1, 2)), 0, 0);
    assert_near(distance(cj_nms(abc, cj_neg(scores), 0.5), F64(c, CJ_SHAPE(2), 2, 1)), 0, 0);
    assert_near(
        distance(cj_nms(abc, scores, 0.5, .classes = cj_from_i64(c, (int64_t[]){ 0, 1, 0 }, CJ_SHAPE(3))), F64(c, CJ_SHAPE(3), 0, 1, 2)), 0,
        0);
    assert_near(distance(cj_nms(abc, scores, 0.7, .limit = 2), F64(c, CJ_SHAPE(2), 0, 1)), 0, 0);
    /* against the definition; kept pairs overlap at most by the threshold, and nothing more goes in a second round */
    enum { N = 200 };
    for (int half = 0; half < 2; half++) {
        cj_tensor *low = cj_mul_scalar(cj_rand(c, CJ_SHAPE(N, 2)), 4);
        cj_tensor *boxes = cj_cat((cj_tensor *[]){ low, cj_add_scalar(cj_add(low, cj_rand(c, CJ_SHAPE(N, 2))), 0.5) }, 2, 1);
        cj_tensor *score = cj_rand(c, CJ_SHAPE(N)), *kept = cj_nms(boxes, score, 0.5);
        double *v = values_of(score), *iou = values_of(cj_box_iou(boxes, boxes)), *got = values_of(kept);
        int64_t *order = places(v, N, true), n = 0, keep[N];
        for (int i = 0; i < N; i++) {
            bool free_of = true;
            for (int64_t k = 0; k < n; k++) free_of &= iou[order[i] * N + keep[k]] <= 0.5;
            if (free_of) keep[n++] = order[i];
        }
        assert_int_equal(cj_numel(kept), n);
        for (int64_t i = 0; i < n; i++) assert_int_equal((int64_t)got[i], keep[i]);
        cj_tensor *again = cj_nms(cj_index_select(boxes, 0, kept), cj_index_select(score, 0, kept), 0.5);
        assert_near(distance(again, cj_arange(c, 0, (double)n, 1, CJ_I64)), 0, 0);
        free(order), free(v), free(iou), free(got);
    }
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort_and_topk),
        cmocka_unit_test(test_topk_of_any_length),
        cmocka_unit_test(test_topk_of_monotone_rows),
        cmocka_unit_test(test_axes_and_gradients),
        cmocka_unit_test(test_unique_and_search),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(det_boxes),
        cmocka_unit_test(det_iou),
        cmocka_unit_test(det_nms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
