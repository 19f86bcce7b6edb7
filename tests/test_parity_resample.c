/* Parity with PyTorch: resampling, contractions, norms and distances.  Reference values: tests/fixtures/resample.txt and contract.txt, made by
 * tools/fixtures_resample.py and fixtures_contract.py, where known differences are named. */
#include "parity.h"

#define MODE (cj_interpolation) A(0)
#define RESIZE(...) cj_interpolate(X, &(cj_interpolate_opts){ .mode = MODE, .align_corners = A(1), __VA_ARGS__ })
#define ORDER (A(0) == 99999 ? INFINITY : A(0) == -99999 ? -INFINITY : (double)A(0) / 100)

static const char *const equations[] = {
    "bij,bjk->bik",    "ii->i",        "ii",         "ij->ji",    "ij->j",          "i,i",      "i,j->ij",   "...ij,...jk->...ik", "ba",
    "bhid,bhjd->bhij", "ab,bc,cd->ad", "iij,jk->ik", "ab,ab->ab", "a...,a...->...", "abc,cd->", "ab,cb->ca", "bn,anm,bm->ba",      "aB,Bc",
    "ab,bc->abc",      "i...->...",    "ij,jk",      "...a,...a"
};

/* clang-format off */
CASE(interpolate_1d, RESIZE(.size = CJ_SHAPE(A(2))))
CASE(interpolate_2d, RESIZE(.size = CJ_SHAPE(A(2), A(3))))
CASE(interpolate_3d, RESIZE(.size = CJ_SHAPE(3, 2, 5)))
CASE(interpolate_scale, RESIZE(.scale = (double)A(2) / 100))
CASE(pixel_shuffle, cj_pixel_shuffle(X, A(0)))
CASE(pixel_unshuffle, cj_pixel_unshuffle(X, A(0)))
CASE(grid_sample, cj_grid_sample(X, Y, &(cj_grid_opts){ .mode = MODE, .padding = (cj_pad_mode)A(1), .align_corners = A(2) }))
CASE(affine_grid, cj_affine_grid(X, CJ_SHAPE(2, 1, 3, 4), A(0)))
CASE(affine_grid_3d, cj_affine_grid(X, CJ_SHAPE(1, 1, 2, 3, 2), A(0)))

CASE(einsum, cj_einsum(equations[A(0)], in, n))
CASE(tensordot, cj_tensordot(X, Y, CJ_AXES(1, 0), CJ_AXES(0, 2)))
CASE(norm, cj_norm(X, ORDER, NULL))
CASE(norm_rows, cj_norm(X, ORDER, &(cj_norm_opts){ .axes = CJ_AXIS(1), .keepdim = A(1) }))
CASE(cdist, cj_cdist(X, Y, ORDER))
CASE(cosine_similarity, cj_cosine_similarity(X, Y, -1, 0))
BINARY(kron)

static const parity_row resampling[] = {
    ROW(interpolate_1d), ROW(interpolate_2d), ROW(interpolate_3d), ROW(interpolate_scale), ROW(pixel_shuffle), ROW(pixel_unshuffle), ROW(grid_sample),
    ROW(affine_grid), ROW(affine_grid_3d),
};
static const parity_row contractions[] = {
    ROW(einsum), ROW(tensordot), ROW(kron), ROW(norm), ROW(norm_rows), ROW(cdist), ROW(cosine_similarity),
};
/* clang-format on */

static void test_resampling(void **state)
{
    (void)state;
    assert_int_equal(run_cases("resample.txt", resampling, sizeof resampling / sizeof *resampling), 90);
    assert_int_equal(wrong, 0);
}

static void test_contractions(void **state)
{
    (void)state;
    assert_int_equal(run_cases("contract.txt", contractions, sizeof contractions / sizeof *contractions), 71);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_resampling), cmocka_unit_test(test_contractions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
