/* Information of tables and distances of distributions against closed forms. */
#include "support.h"

#include <cajal/math.h>

static cj_tensor *number(cj_ctx *c, double v) { return cj_from_f64(c, &v, CJ_SCALAR); }

static void tables_with_zeros(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *p = F64(c, CJ_SHAPE(3), 0.5, 0.5, 0), *q = F64(c, CJ_SHAPE(3), 0.25, 0.25, 0.5);
    assert_near(cj_item(cj_entropy(p)), M_LN2, 1e-15);
    assert_near(cj_item(cj_relative_entropy(p, q)), M_LN2, 1e-15);
    assert_true(cj_item(cj_relative_entropy(q, p)) == INFINITY);
    assert_near(cj_item(cj_table_cross_entropy(p, q)), log(4), 1e-15);
    cj_tensor *leaf = cj_require_grad(p), *g; /* the gradient at a zero of p: of 0·log 0, taken as 0 */
    assert_true(cj_grad(cj_relative_entropy(q, cj_add_scalar(cj_mul_scalar(leaf, 0.5), 0.1)), &leaf, 1, &g));
    assert_near(value_at(g, 0), -0.5 * 0.25 / 0.35, 1e-15);
    assert_ok(c);
    cj_ctx_free(c);
}

static void distances(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 2 });
    cj_tensor *x = F64(c, CJ_SHAPE(4), 3, 0, 1, 7), *y = F64(c, CJ_SHAPE(4), 1, 2, 9, 4);
    assert_near(cj_item(cj_wasserstein1(x, y)), (1 + 1 + 1 + 2) / 4.0, 1e-15); /* 0 1 3 7 and 1 2 4 9 */
    assert_near(
        cj_item(cj_gaussian_w2(F64(c, CJ_SHAPE(2), 0, 1), F64(c, CJ_SHAPE(2), 1, 2), F64(c, CJ_SHAPE(2), 1, 1), F64(c, CJ_SHAPE(2), 2, 5))),
        1 + 1 + 9, 1e-15);
    /* on a line with |x - y| the plan of least cost keeps the order; a small eps comes close */
    cj_tensor *cost = cj_abs(cj_sub(cj_unsqueeze(x, 1), cj_unsqueeze(y, 0))), *w = cj_full(c, 0.25, CJ_SHAPE(4), CJ_F64);
    assert_near(cj_item(cj_sinkhorn(cost, w, w, .eps = 0.02, .iterations = 2000)), 1.25, 1e-3);
    /* one point each: there is one plan */
    assert_near(cj_item(cj_sinkhorn(F64(c, CJ_SHAPE(1, 1), 3), F64(c, CJ_SHAPE(1), 1), F64(c, CJ_SHAPE(1), 1))), 3, 1e-12);
    /* two points: 1 + 1 - 2 k */
    assert_near(cj_item(cj_mmd_rbf(F64(c, CJ_SHAPE(1, 2), 0, 0), F64(c, CJ_SHAPE(1, 2), 3, 4), 5)), 2 - 2 * exp(-0.5), 1e-15);
    assert_near(cj_item(cj_mmd_rbf(cj_unsqueeze(x, 1), cj_unsqueeze(x, 1), 1)), 0, 1e-15);
    assert_ok(c);
    cj_ctx_free(c);
}

static void covariances(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *x = F64(c, CJ_SHAPE(3, 2), 1, 2, 2, 4, 6, 3);
    /* deviations (-2, -1, 3) and (-1, 1, 0) */
    assert_near(distance(cj_cov(x), F64(c, CJ_SHAPE(2, 2), 7, 0.5, 0.5, 1)), 0, 1e-14);
    assert_near(distance(cj_cov(x, .biased = true), cj_mul_scalar(cj_cov(x), 2.0 / 3)), 0, 1e-14);
    const double r = 0.5 / sqrt(7);
    assert_near(distance(cj_corr(x), F64(c, CJ_SHAPE(2, 2), 1, r, r, 1)), 0, 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

static void bad_input_is_named(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *v = F64(c, CJ_SHAPE(3), 1, 2, 3), *m = F64(c, CJ_SHAPE(1, 3), 1, 2, 3), *s = number(c, 1);
    assert_poisoned(CJ_ESHAPE, "entropy: tables [.., K] are expected", cj_entropy(s));
    assert_poisoned(CJ_ESHAPE, "mutual_information: a table [.., X, Y] is expected, found [3]", cj_mutual_information(v));
    assert_poisoned(CJ_ESHAPE, "wasserstein1: as many samples of each are expected, found [3] and [2]",
                    cj_wasserstein1(v, F64(c, CJ_SHAPE(2), 1, 2)));
    assert_poisoned(CJ_ESHAPE, "sinkhorn: cost [n, m], a [n] and b [m] are expected, found [1, 3]", cj_sinkhorn(m, v, v));
    assert_poisoned(CJ_EVALUE, "sinkhorn: a positive eps", cj_sinkhorn(m, F64(c, CJ_SHAPE(1), 1), v, .eps = -1));
    assert_poisoned(CJ_ESHAPE, "mmd_rbf: x [n, d] and y [m, d] are expected", cj_mmd_rbf(m, v, 1));
    assert_poisoned(CJ_EVALUE, "mmd_rbf: a positive width is expected, found 0", cj_mmd_rbf(m, m, 0));
    assert_poisoned(CJ_ESHAPE, "cov: [n, d] with at least 2 samples is expected, found [1, 3]", cj_cov(m));
    assert_poisoned(CJ_ESHAPE, "corr: [n, d]", cj_corr(v));
    assert_null(cj_corr(NULL));
    assert_null(cj_jensen_shannon(NULL, NULL));
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tables_with_zeros), cmocka_unit_test(distances), cmocka_unit_test(covariances),
                                        cmocka_unit_test(bad_input_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
