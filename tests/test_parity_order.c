/* Parity with PyTorch: ordering, scans, segments and bags.  Reference values: tests/fixtures/order.txt, made by tools/fixtures_order.py. */
#include "parity.h"

#define AXIS (int)A(0)

/* clang-format off */
CASE(sort, cj_sort(X, AXIS, &(cj_sort_opts){ .descending = A(1) != 0 }).values)
CASE(argsort, cj_argsort(X, AXIS, &(cj_sort_opts){ .descending = A(1) != 0 }))
CASE(topk, cj_topk(X, A(2), AXIS, &(cj_topk_opts){ .smallest = A(1) != 0 }).values)
CASE(topk_places, cj_topk(X, A(2), AXIS, &(cj_topk_opts){ .smallest = A(1) != 0 }).indices)
CASE(kthvalue, cj_kthvalue(X, A(1), AXIS).values)
CASE(median, cj_median(X, AXIS).values)
CASE(cumsum, cj_cumsum(X, AXIS))
CASE(cumprod, cj_cumprod(X, AXIS))
CASE(logcumsumexp, cj_logcumsumexp(X, AXIS))
CASE(cummax, cj_cummax(X, AXIS).values)
CASE(cummin, cj_cummin(X, AXIS).values)
CASE(cummax_places, cj_cummax(X, AXIS).indices)
CASE(cummin_places, cj_cummin(X, AXIS).indices)
CASE(scatter_reduce, cj_scatter_reduce(X, AXIS, in[2], Y, (cj_combine)A(1), &(cj_scatter_opts){ .exclude_self = A(2) != 0 }))
CASE(unique, A(0) == 0 ? cj_unique(X).values : A(0) == 1 ? cj_unique(X).inverse : cj_unique(X).counts)
CASE(searchsorted, cj_searchsorted(X, Y, &(cj_searchsorted_opts){ .right = A(0) != 0 }))
CASE(embedding_bag, cj_embedding_bag(X, Y, in[2], (cj_combine)A(0), NULL))
CASE(embedding_bag_weighted, cj_embedding_bag(X, Y, in[2], CJ_COMBINE_SUM, &(cj_embedding_bag_opts){ .per_sample_weights = in[3] }))
CASE(embedding_padded, cj_embedding(X, Y, &(cj_lookup_opts){ .padding = true, .padding_idx = A(0) }))
CASE(bincount, cj_bincount(X, &(cj_bincount_opts){ .minlength = A(0) }))
CASE(histogram, cj_histogram(X, A(0), -1, 1).counts)
CASE(histogram_edges, cj_histogram(X, A(0), -1, 1).edges)
CASE(masked_select, cj_masked_select(X, Y))
CASE(masked_softmax, cj_masked_softmax(X, Y, AXIS))
CASE(segment_sum, cj_segment_sum(X, Y, 4))

static const parity_row rows[] = {
    ROW(sort),
    ROW(argsort),
    ROW(topk),
    ROW(topk_places),
    ROW(kthvalue),
    ROW(median),
    ROW(cumsum),
    ROW(cumprod),
    ROW(logcumsumexp),
    ROW(cummax),
    ROW(cummin),
    ROW(cummax_places),
    ROW(cummin_places),
    ROW(scatter_reduce),
    ROW(unique),
    ROW(searchsorted),
    ROW(embedding_bag),
    ROW(embedding_bag_weighted),
    ROW(embedding_padded),
    ROW(bincount),
    ROW(histogram),
    ROW(histogram_edges),
    ROW(masked_select),
    ROW(masked_softmax),
    ROW(segment_sum),
};
/* clang-format on */

static void test_order(void **state)
{
    (void)state;
    assert_int_equal(run_cases("order.txt", rows, sizeof rows / sizeof *rows), 200);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_order) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
