/* Linear algebra beside PyTorch: values, gradients and Hessian-vector products of what does not depend on the choice of vectors
 * (tools/fixtures_linalg.py). */
#include "parity.h"

#include <cajal/cajal.h>

static cj_tensor *sym(cj_tensor *a) { return cj_mul_scalar(cj_add(a, cj_t(a)), 0.5); }
static cj_tensor *scaled(cj_tensor *a, cj_tensor *w) { return cj_mul(a, cj_unsqueeze(w, -2)); }
static cj_tensor *last(cj_tensor *x) { return cj_sum(x, .axes = CJ_AXIS(-1)); }

static cj_tensor *eigen_function(cj_tensor *a, bool squares)
{
    cj_eigen e = cj_eigh(sym(a));
    return squares ? cj_square(e.vectors) : cj_matmul(scaled(e.vectors, cj_sin(e.values)), cj_t(e.vectors));
}
static cj_tensor *general_function(cj_tensor *a, bool vectors)
{
    cj_eigen e = cj_eig(a);
    cj_tensor *w = vectors ? e.values : cj_eigvals(a), *re = cj_select(w, -1, 0), *im = cj_select(w, -1, 1);
    if (!vectors) return last(cj_mul(cj_sin(re), cj_exp(cj_mul_scalar(cj_square(im), -0.5))));
    return last(scaled(last(cj_square(e.vectors)), cj_mul(cj_exp(cj_mul_scalar(re, -0.25)), cj_cos(im))));
}
static cj_tensor *singular_function(cj_tensor *a, long long part)
{
    cj_svd_result r = cj_svd(a);
    return part == 1 ? cj_square(r.u) : part == 2 ? cj_square(r.vh) : cj_matmul(scaled(r.u, cj_sin(r.s)), r.vh);
}

CASE(cholesky, cj_cholesky(sym(X), .upper = A(0)))
BINARY(solve)
UNARY(inverse)
UNARY(det)
CASE(slogdet, cj_slogdet(X).logabsdet)
UNARY(logdet)
CASE(eigh, eigen_function(X, A(0)))
CASE(eigvalsh, cj_eigvalsh(sym(X)))
UNARY(matrix_exp)
CASE(eig, general_function(X, A(0)))
CASE(solve_triangular, cj_solve_triangular(X, Y, .upper = A(0), .unit = A(1)))
CASE(svd, singular_function(X, A(0)))
UNARY(svdvals)
CASE(qr, A(0) ? cj_qr(X).r : cj_qr(X).q)
CASE(pinv, cj_pinv(X))
CASE(lstsq, cj_lstsq(X, Y))
CASE(matrix_norm, cj_matrix_norm(X, (cj_matrix_norm_kind)A(0)))
CASE(vector_norm, cj_norm(X, (double)A(0)))
CASE(matrix_power, cj_matrix_power(X, A(0)))
CASE(cond, cj_cond(X, (cj_matrix_norm_kind)A(0)))
BINARY(kron)
CASE(trace, cj_matrix_trace(X))
CASE(rank, cj_matrix_rank(X))

/* clang-format off */
static const parity_row functions[] = {
    ROW(cholesky), ROW(solve), ROW(inverse), ROW(det), ROW(slogdet), ROW(logdet), ROW(eigh), ROW(eigvalsh), ROW(matrix_exp), ROW(eig),
    ROW(solve_triangular), ROW(svd), ROW(svdvals), ROW(qr), ROW(pinv), ROW(lstsq), ROW(matrix_norm), ROW(vector_norm), ROW(matrix_power),
    ROW(cond), ROW(kron), ROW(trace), ROW(rank),
};
/* clang-format on */

static void equals_pytorch(void **state)
{
    (void)state;
    assert_int_equal(run_cases("linalg.txt", functions, sizeof functions / sizeof *functions), 103);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equals_pytorch) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
