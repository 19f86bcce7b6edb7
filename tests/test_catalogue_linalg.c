/* The catalogue's rows on linear algebra, each with its own numbers: LU, Cholesky, definiteness, QR, symmetric eigenvalues, SVD, power iteration
 * and Lanczos, spectral radius, matrix roots, norms, projections and Kronecker products, conjugate gradients; and matrix calculus, whose
 * formulas are checked against derivatives. */
#include <time.h>

#include "support.h"

static uint64_t seed;
static cj_ctx *c;

static int start(void **state)
{
    (void)state;
    c = cj_ctx_new(&(cj_ctx_opts){ .seed = seed, .threads = 2 });
    return 0;
}
static int stop(void **state)
{
    (void)state;
    cj_ctx_free(c);
    return 0;
}
static cj_tensor *normal(cj_shape s) { return cj_randn(c, s, .dtype = CJ_F64); }
static cj_tensor *mm(cj_tensor *a, cj_tensor *b) { return cj_matmul(a, b); }
static cj_tensor *one(int64_t n) { return cj_eye(c, n, CJ_F64); }
static cj_tensor *diagonal(cj_tensor *w) { return cj_mul(cj_unsqueeze(w, -1), one(cj_size(w, -1))); }
static double norm(cj_tensor *x) { return cj_item(cj_norm(x, 2)); }
/* |a - b| / |b| */
static double off(cj_tensor *a, cj_tensor *b) { return norm(cj_sub(a, b)) / fmax(norm(b), 1e-300); }
static double det(cj_tensor *a) { return cj_item(cj_det(a)); }
static double trace(cj_tensor *a) { return cj_item(cj_matrix_trace(a)); }
#define assert_small(expression, limit)                                                                                                    \
    do {                                                                                                                                   \
        double small_value = (expression);                                                                                                 \
        if (!(small_value <= (limit)))                                                                                                     \
            fail_msg("%s = %.3g, at most %.3g expected (seed %llu)", #expression, small_value, (double)(limit), (unsigned long long)seed); \
    } while (0)
/* Singular values from 1 to 1/cond. */
static cj_tensor *conditioned(int64_t m, int64_t n, double cond)
{
    cj_tensor *s =
        cj_pow(cj_full(c, 1 / cond, CJ_SCALAR, CJ_F64), cj_mul_scalar(cj_arange(c, 0, (double)n, 1, CJ_F64), 1 / (double)(n - 1)));
    return mm(mm(cj_qr(normal(CJ_SHAPE(m, n))).q, diagonal(s)), cj_t(cj_qr(normal(CJ_SHAPE(n, n))).q));
}

static void linalg_lu(void **state) /* linalg.lu */
{
    (void)state;
    for (int64_t n = 2; n <= 50; n += 8) {
        cj_tensor *a = conditioned(n, n, 10), *b = conditioned(n, n, 10), *y = normal(CJ_SHAPE(n));
        cj_tensor *x = cj_solve(a, y);
        assert_small(norm(cj_sub(cj_matmul(a, x), y)) / norm(y), 1e-12);
        assert_small(fabs(det(a) / det(cj_t(a)) - 1), 1e-10);
        assert_small(fabs(det(mm(a, b)) / (det(a) * det(b)) - 1), 1e-10);
        assert_small(fabs(det(cj_inverse(a)) * det(a) - 1), 1e-10);
        assert_small(fabs(trace(a) - cj_item(cj_sum(cj_select(cj_eigvals(a), -1, 0)))), 1e-10);
        assert_small(fabs(trace(mm(a, b)) - trace(mm(b, a))), 1e-10);
    }
    assert_true(cj_is_poison(cj_inverse(F64(c, CJ_SHAPE(3, 3), 1, 2, 3, 2, 4, 6, 0, 1, 1))));
    assert_error(c, CJ_EVALUE, "inverse: the matrix is singular: zero pivot 3");
    cj_clear(c);
}

static void linalg_cholesky(void **state) /* linalg.cholesky */
{
    (void)state;
    for (int64_t n = 1; n <= 60; n += 9) {
        cj_tensor *x = normal(CJ_SHAPE(n, n)), *a = cj_add(mm(x, cj_t(x)), one(n)), *l = cj_cholesky(a);
        assert_small(off(mm(l, cj_t(l)), a), 1e-12);
        double log_det = 2 * cj_item(cj_sum(cj_log(cj_diagonal(l, 0, 0, 1))));
        assert_small(fabs(log_det - cj_item(cj_slogdet(a).logabsdet)), 1e-12 * fmax(1, fabs(log_det)) * (double)n);
    }
    assert_true(cj_is_poison(cj_cholesky(F64(c, CJ_SHAPE(2, 2), 1, 2, 2, 1))));
    assert_error(c, CJ_EVALUE, "cholesky: the matrix is not positive definite, as seen at pivot 2");
    cj_clear(c);
    /* Gaussian sampling: the covariance of L·z is A */
    cj_tensor *a = F64(c, CJ_SHAPE(2, 2), 4, 1.2, 1.2, 1), *z = normal(CJ_SHAPE(2, 200000)), *x = mm(cj_cholesky(a), z);
    assert_small(off(cj_mul_scalar(mm(x, cj_t(x)), 1 / 200000.0), a), 0.02);
}

static void linalg_definiteness(void **state) /* linalg.definiteness */
{
    (void)state;
    int seen[5] = { 0 };
    for (int i = 0; i < 1000; i++) {
        cj_scope s = cj_scope_open(c);
        const int64_t n = 1 + i % 5;
        cj_tensor *x = normal(CJ_SHAPE(n, n)), *low = normal(CJ_SHAPE(n, n > 1 ? n - 1 : 1)), *a;
        switch (i % 7) {
        case 0: a = mm(x, cj_t(x)); break;
        case 1: a = cj_neg(mm(x, cj_t(x))); break;
        case 2: a = mm(low, cj_t(low)); break; /* of lower rank */
        case 3: a = cj_neg(mm(low, cj_t(low))); break;
        default: a = cj_add(x, cj_t(x));
        }
        a = cj_mul_scalar(cj_add(a, cj_t(a)), 0.5);
        double *w = values_of(cj_eigvalsh(a)), tiny = 1e-12 * fmax(fabs(w[0]), fabs(w[n - 1]));
        cj_definite want = w[0] > tiny        ? CJ_POSITIVE_DEFINITE
                           : w[n - 1] < -tiny ? CJ_NEGATIVE_DEFINITE
                           : w[0] >= -tiny    ? CJ_POSITIVE_SEMIDEFINITE
                           : w[n - 1] <= tiny ? CJ_NEGATIVE_SEMIDEFINITE
                                              : CJ_INDEFINITE;
        cj_definite got = cj_definiteness(a);
        if (got != want)
            fail_msg("verdict %d, eigenvalues %g … %g say %d (seed %llu, matrix %d)", got, w[0], w[n - 1], want, (unsigned long long)seed,
                     i);
        seen[got]++;
        free(w);
        cj_scope_close(s);
    }
    for (int i = 0; i < 5; i++) assert_true(seen[i] > 20);
    assert_int_equal(cj_definiteness(F64(c, CJ_SHAPE(2, 2), 0, 0, 0, -1)), CJ_NEGATIVE_SEMIDEFINITE); /* its leading minors are 0 and 0 */
    assert_int_equal(cj_definiteness(F64(c, CJ_SHAPE(2, 2), 2, -1, -1, 2)), CJ_POSITIVE_DEFINITE);
    assert_int_equal(cj_definiteness(F64(c, CJ_SHAPE(2, 2), -2, 1, 1, -2)), CJ_NEGATIVE_DEFINITE);
    assert_int_equal(cj_definiteness(F64(c, CJ_SHAPE(2, 2), 1, 2, 2, 1)), CJ_INDEFINITE);
    assert_ok(c);
}

static void linalg_qr(void **state) /* linalg.qr */
{
    (void)state;
    cj_tensor *a = normal(CJ_SHAPE(40, 12));
    cj_qr_result r = cj_qr(a);
    assert_small(norm(cj_sub(mm(cj_t(r.q), r.q), one(12))), 1e-12);
    assert_small(off(mm(r.q, r.r), a), 1e-12);
    assert_true(distance(r.r, cj_triu(r.r, 0)) == 0);
    /* random orthogonal matrices: determinant ±1 */
    assert_near(fabs(det(cj_qr(normal(CJ_SHAPE(9, 9))).q)), 1, 1e-12);
    /* least squares by QR: equal to the normal equations where these are fine, better at condition 1e7 */
    for (int bad = 0; bad < 2; bad++) {
        cj_tensor *x = conditioned(60, 6, bad ? 1e7 : 10), *truth = normal(CJ_SHAPE(6, 1)), *y = mm(x, truth);
        cj_qr_result q = cj_qr(x);
        cj_tensor *by_qr = cj_solve_triangular(q.r, mm(cj_t(q.q), y), .upper = true), *by_normal = cj_solve(mm(cj_t(x), x), mm(cj_t(x), y));
        if (!bad) assert_small(off(by_qr, by_normal), 1e-12);
        else assert_true(off(by_qr, truth) * 100 < off(by_normal, truth));
        assert_small(off(by_qr, truth), bad ? 1e-7 : 1e-13);
        assert_small(off(cj_lstsq(x, y), truth), bad ? 1e-7 : 1e-13);
    }
    assert_ok(c);
}

static void linalg_eig_sym(void **state) /* linalg.eig_sym */
{
    (void)state;
    for (int64_t n = 1; n <= 50; n += 7) {
        cj_tensor *x = normal(CJ_SHAPE(n, n)), *a = cj_add(x, cj_t(x)), *y = normal(CJ_SHAPE(n, n)), *b = cj_add(mm(y, cj_t(y)), one(n));
        cj_eigen e = cj_eigh(a);
        assert_small(norm(cj_sub(mm(a, e.vectors), cj_mul(e.vectors, e.values))), 1e-10 * norm(a));
        assert_small(norm(cj_sub(mm(cj_t(e.vectors), e.vectors), one(n))), 1e-12 * (double)(n + 1));
        assert_near(cj_item(cj_sum(e.values)), trace(a), 1e-10 * norm(a));
        assert_small(fabs(cj_item(cj_prod(e.values)) / det(a) - 1), 1e-9);
        for (int64_t i = 1; i < n; i++) assert_true(value_at(e.values, i) >= value_at(e.values, i - 1));
        cj_eigen g = cj_eigh_general(a, b);
        assert_small(norm(cj_sub(mm(a, g.vectors), cj_mul(mm(b, g.vectors), g.values))), 1e-10 * norm(a) * (double)n);
        assert_small(norm(cj_sub(mm(cj_t(g.vectors), mm(b, g.vectors)), one(n))), 1e-10);
    }
    assert_ok(c);
}

static void linalg_svd(void **state) /* linalg.svd */
{
    (void)state;
    cj_tensor *a = normal(CJ_SHAPE(9, 6));
    cj_svd_result r = cj_svd(a);
    assert_small(off(mm(cj_mul(r.u, r.s), r.vh), a), 1e-10);
    cj_tensor *p = cj_pinv(a);
    assert_small(off(mm(a, mm(p, a)), a), 1e-12);
    assert_small(off(mm(p, mm(a, p)), p), 1e-12);
    assert_small(off(cj_t(mm(a, p)), mm(a, p)), 1e-12);
    assert_near(cj_item(cj_matrix_norm(a, CJ_NORM_2)), value_at(r.s, 0), 1e-14);
    assert_near(cj_item(cj_cond(a, CJ_NORM_2)), value_at(r.s, 0) / value_at(r.s, 5), 1e-10);
    for (int64_t k = 1; k < 6; k++) { /* Eckart and Young */
        cj_tensor *best = mm(cj_mul(cj_slice(r.u, 1, 0, k, 1), cj_slice(r.s, 0, 0, k, 1)), cj_slice(r.vh, 0, 0, k, 1));
        double left = norm(cj_sub(a, best));
        assert_small(fabs(left * left - cj_item(cj_sum(cj_square(cj_slice(r.s, 0, k, 6, 1))))), 1e-12);
        assert_int_equal(value_at(cj_matrix_rank(best), 0), k);
        cj_tensor *other = mm(normal(CJ_SHAPE(9, k)), normal(CJ_SHAPE(k, 6)));
        assert_true(norm(cj_sub(a, other)) > left);
    }
    /* the least-squares solution of least length: rank 2, four unknowns */
    cj_tensor *low = mm(normal(CJ_SHAPE(5, 2)), normal(CJ_SHAPE(2, 4))), *b = normal(CJ_SHAPE(5)), *x = cj_lstsq(low, b),
              *null = cj_null_space(low);
    assert_int_equal(cj_size(null, 1), 2);
    assert_small(off(x, cj_matmul(cj_pinv(low), b)), 1e-12);
    assert_small(norm(cj_matmul(cj_t(low), cj_sub(cj_matmul(low, x), b))), 1e-12);
    assert_small(norm(cj_matmul(cj_t(null), x)), 1e-12);
    assert_ok(c);
}

/* ---- maps given as functions ------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *times_user(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    return cj_matmul(user, in[0]);
}
/* A small network: W2·tanh(W1·x). */
static cj_tensor *network(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *const *w = user;
    return cj_matmul(w[1], cj_tanh(cj_matmul(w[0], in[0])));
}
static cj_tensor *energy(cj_ctx *ctx, void *user, cj_tensor *const *in, int n) { return cj_sum(cj_square(network(ctx, user, in, n))); }

static void linalg_power_method(void **state) /* linalg.power_method */
{
    (void)state;
    cj_tensor *a = normal(CJ_SHAPE(12, 8)), *gram = mm(cj_t(a), a), *s = cj_svdvals(a), *first = normal(CJ_SHAPE(8));
    cj_eigen_pair top = cj_power_iteration(c, times_user, gram, first, .steps = 100000, .tolerance = 1e-14);
    assert_true(top.converged);
    assert_small(fabs(sqrt(top.value) - value_at(s, 0)), 1e-6);
    assert_small(norm(cj_sub(cj_matmul(gram, top.vector), cj_mul_scalar(top.vector, top.value))), 1e-4);
    cj_eigen_pair largest = cj_jacobian_norm(c, times_user, a, first, .steps = 100000, .tolerance = 1e-14);
    assert_small(fabs(largest.value - value_at(s, 0)), 1e-6);
    /* Lanczos: the largest five of a 60 x 60 matrix, and its extremes of the smallest */
    cj_tensor *x = normal(CJ_SHAPE(60, 60)), *sym = cj_add(x, cj_t(x)), *dense = cj_eigvalsh(sym);
    cj_eigen ritz = cj_lanczos(c, times_user, sym, normal(CJ_SHAPE(60)), 60);
    const int64_t n = cj_size(ritz.values, 0);
    for (int64_t i = 0; i < 5; i++) {
        assert_small(fabs(value_at(ritz.values, n - 1 - i) - value_at(dense, 59 - i)), 1e-10 * norm(sym));
        assert_small(fabs(value_at(ritz.values, i) - value_at(dense, i)), 1e-10 * norm(sym));
    }
    assert_small(norm(cj_sub(mm(sym, ritz.vectors), cj_mul(ritz.vectors, ritz.values))), 1e-9 * norm(sym));
    /* the Jacobian and the Hessian of a network, implicit and explicit */
    cj_tensor *w[2] = { normal(CJ_SHAPE(7, 5)), normal(CJ_SHAPE(4, 7)) }, *at = normal(CJ_SHAPE(5));
    cj_tensor *j = cj_jacobian(c, network, w, at), *h = cj_hessian(c, energy, w, at);
    assert_small(fabs(cj_jacobian_norm(c, network, w, at, .steps = 100000, .tolerance = 1e-14).value - value_at(cj_svdvals(j), 0)), 1e-6);
    cj_hessian_map map = { energy, w, at };
    cj_eigen spectrum = cj_lanczos(c, cj_hessian_product, &map, normal(CJ_SHAPE(5)), 5);
    assert_small(off(spectrum.values, cj_eigvalsh(h)), 1e-10);
    /* Hutchinson: exact for a diagonal, unbiased for others: the deviation of one probe is sqrt(2·(|A|² - sum a_ii²)) */
    assert_near(cj_hutchinson(c, times_user, diagonal(cj_arange(c, 0, 6, 1, CJ_F64)), cj_zeros(c, CJ_SHAPE(6), CJ_F64), 1), 15, 1e-12);
    cj_tensor *off_diagonal = cj_sub(h, cj_mul(h, one(5)));
    assert_small(fabs(cj_hutchinson(c, cj_hessian_product, &map, at, 2000) - trace(h)), 6 * sqrt(2 / 2000.0) * norm(off_diagonal));
    assert_ok(c);
}

static void linalg_spectral_radius(void **state) /* linalg.spectral_radius */
{
    (void)state;
    cj_tensor *a = F64(c, CJ_SHAPE(2, 2), 0, 10, 0, 0);
    assert_near(value_at(cj_svdvals(a), 0), 10, 1e-14);
    assert_near(cj_item(cj_spectral_radius(a)), 0, 0);
    assert_near(norm(mm(a, a)), 0, 0);
    cj_tensor *w = cj_eigvals(F64(c, CJ_SHAPE(2, 2), 0, -1, 1, 0)); /* ±i */
    assert_near(value_at(w, 0), 0, 1e-15);
    assert_near(fabs(value_at(w, 1)), 1, 1e-15);
    assert_near(value_at(w, 1) + value_at(w, 3), 0, 1e-15);
    /* companion matrix of (x - 1)(x - 2)(x + 3)(x² + 4) = x⁵ - 3x³ + 6x² - 28x + 24 */
    cj_tensor *companion = F64(c, CJ_SHAPE(5, 5), 0, 0, 0, 0, -24, 1, 0, 0, 0, 28, 0, 1, 0, 0, -6, 0, 0, 1, 0, 3, 0, 0, 0, 1, 0);
    static const double roots[5][2] = { { 1, 0 }, { 2, 0 }, { -3, 0 }, { 0, 2 }, { 0, -2 } };
    double *found = values_of(cj_eigvals(companion));
    for (int r = 0; r < 5; r++) {
        double nearest = INFINITY;
        for (int i = 0; i < 5; i++) nearest = fmin(nearest, hypot(found[2 * i] - roots[r][0], found[2 * i + 1] - roots[r][1]));
        assert_small(nearest, 1e-12);
    }
    free(found);
    assert_near(cj_item(cj_spectral_radius(companion)), 3, 1e-12);
    /* the stationary distribution: eigenvector of Pᵀ for eigenvalue 1 */
    cj_tensor *p = F64(c, CJ_SHAPE(3, 3), 0.5, 0.25, 0.25, 0.2, 0.6, 0.2, 0.1, 0.3, 0.6);
    cj_tensor *still = cj_null_space(cj_sub(cj_t(p), one(3)), .rtol = 1e-12);
    assert_int_equal(cj_size(still, 1), 1);
    still = cj_div(still, cj_sum(still));
    assert_small(norm(cj_sub(mm(cj_matrix_power(cj_t(p), 200), F64(c, CJ_SHAPE(3, 1), 1, 0, 0)), still)), 1e-12);
    assert_near(cj_item(cj_spectral_radius(p)), 1, 1e-14);
    /* the radius, not the singular value, governs the powers: here s_1 > 1 > rho */
    cj_tensor *shear = F64(c, CJ_SHAPE(2, 2), 0.5, 4, 0, 0.5);
    assert_true(value_at(cj_svdvals(shear), 0) > 4 && norm(cj_matrix_power(shear, 100)) < 1e-25);
    assert_ok(c);
}

static void linalg_matfun(void **state) /* linalg.matfun */
{
    (void)state;
    cj_tensor *x = normal(CJ_SHAPE(7, 7)), *y = normal(CJ_SHAPE(7, 7));
    cj_tensor *a = cj_add(mm(x, cj_t(x)), one(7)), *b = cj_add(mm(y, cj_t(y)), one(7)), *root = cj_matrix_sqrt(a),
              *inverse = cj_matrix_inverse_sqrt(a);
    assert_small(off(mm(root, root), a), 1e-10);
    assert_small(norm(cj_sub(mm(inverse, mm(a, inverse)), one(7))), 1e-10);
    double direct = trace(cj_matrix_sqrt(mm(a, b))), symmetric = trace(cj_matrix_sqrt(mm(root, mm(b, root))));
    assert_small(fabs(direct / symmetric - 1), 1e-10);
    /* whitening: data times Cov^(-1/2) has covariance 1; mixed by a root, because a random x may be almost singular */
    cj_tensor *data = mm(normal(CJ_SHAPE(500, 7)), root), *cov = cj_mul_scalar(mm(cj_t(data), data), 1 / 500.0),
              *white = mm(data, cj_matrix_inverse_sqrt(cov));
    assert_small(norm(cj_sub(cj_mul_scalar(mm(cj_t(white), white), 1 / 500.0), one(7))), 1e-10);
    assert_small(off(cj_matrix_exp(cj_matrix_log(a)), a), 1e-10);
    assert_small(fabs(det(cj_matrix_exp(x)) / exp(trace(x)) - 1), 1e-10);
    assert_ok(c);
}

static void linalg_norms(void **state) /* linalg.norms */
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        const int64_t r = 1 + i % 4;
        cj_tensor *a = mm(normal(CJ_SHAPE(6, r)), normal(CJ_SHAPE(r, 5)));
        double two = cj_item(cj_matrix_norm(a, CJ_NORM_2)), fro = cj_item(cj_matrix_norm(a, CJ_NORM_FRO));
        assert_true(two <= fro * (1 + 1e-14) && fro <= sqrt((double)r) * two * (1 + 1e-14));
        /* the dual norm: max <x, y> over |y|_p <= 1 is |x|_p*, reached at y_i = sign(x_i)·|x_i|^(p*-1) scaled */
        const double p = 1.5 + i % 3, dual = p / (p - 1);
        cj_tensor *x = normal(CJ_SHAPE(6)), *y = cj_mul(cj_sign(x), cj_pow_scalar(cj_abs(x), dual - 1));
        y = cj_div(y, cj_norm(y, p));
        double best = cj_item(cj_dot(x, y)), bound = cj_item(cj_norm(x, dual));
        assert_small(fabs(best - bound), 1e-12);
        for (int k = 0; k < 50; k++) {
            cj_tensor *other = normal(CJ_SHAPE(6));
            assert_true(cj_item(cj_dot(x, cj_div(other, cj_norm(other, p)))) <= bound * (1 + 1e-12));
        }
    }
    cj_tensor *x = F64(c, CJ_SHAPE(3), 3, -4, 1);
    assert_near(cj_item(cj_norm(x, 1)), 8, 0);
    assert_near(cj_item(cj_norm(x, INFINITY)), 4, 0);
    assert_near(cj_item(cj_norm(x, 2)), sqrt(26), 1e-15);
    cj_tensor *i = cj_arange(c, 1, 6, 1, CJ_F64), *hilbert = cj_reciprocal(cj_add_scalar(cj_add(cj_unsqueeze(i, -1), i), -1));
    assert_near(cj_item(cj_cond(hilbert, CJ_NORM_2)) / 4.766e5, 1, 1e-4);
    assert_ok(c);
}

static void linalg_projection_kron(void **state) /* linalg.projection_kron */
{
    (void)state;
    cj_tensor *m = normal(CJ_SHAPE(8, 3)), *p = mm(m, cj_solve(mm(cj_t(m), m), cj_t(m)));
    assert_small(off(mm(p, p), p), 1e-12);
    assert_small(off(cj_t(p), p), 1e-12);
    assert_near(trace(p), 3, 1e-12);
    /* vec(P·Q·Rᵀ) = (R ⊗ P)·vec(Q), vec stacking columns */
    cj_tensor *a = normal(CJ_SHAPE(3, 4)), *q = normal(CJ_SHAPE(4, 5)), *r = normal(CJ_SHAPE(2, 5));
    cj_tensor *left = cj_flatten(cj_t(mm(a, mm(q, cj_t(r)))), 0), *right = cj_matmul(cj_kron(r, a), cj_flatten(cj_t(q), 0));
    assert_small(off(left, right), 1e-12);
    /* a circulant matrix is diagonal in the basis of the DFT: the (real) matrix of cosines and sines turns it into 2 x 2 blocks; here by
     * eigenvalues, sum c_j·e^(-2πi·jk/n) */
    enum { N = 7 };
    cj_tensor *first = normal(CJ_SHAPE(N));
    double *v = values_of(first), *w = values_of(cj_eigvals(cj_circulant(first)));
    for (int k = 0; k < N; k++) {
        double re = 0, im = 0, nearest = INFINITY;
        for (int j = 0; j < N; j++) re += v[j] * cos(2 * M_PI * j * k / N), im -= v[j] * sin(2 * M_PI * j * k / N);
        for (int e = 0; e < N; e++) nearest = fmin(nearest, hypot(w[2 * e] - re, w[2 * e + 1] - im));
        assert_small(nearest, 1e-12);
        /* and the vector e^(2πi·jk/n) is its eigenvector */
        double cosine[N], sine[N];
        for (int j = 0; j < N; j++) cosine[j] = cos(2 * M_PI * j * k / N), sine[j] = sin(2 * M_PI * j * k / N);
        cj_tensor *co = f64(c, cosine, CJ_SHAPE(N)), *si = f64(c, sine, CJ_SHAPE(N));
        assert_small(norm(cj_sub(cj_circulant_product(first, co), cj_sub(cj_mul_scalar(co, re), cj_mul_scalar(si, im)))), 1e-12);
    }
    free(v);
    free(w);
    assert_ok(c);
}

static void linalg_cg(void **state) /* linalg.cg */
{
    (void)state;
    const int64_t n = 30;
    cj_tensor *x = normal(CJ_SHAPE(n, n)), *a = cj_add(mm(x, cj_t(x)), cj_mul_scalar(one(n), 20)), *b = normal(CJ_SHAPE(n)),
              *exact = cj_solve(a, b);
    cj_cg_result r = cj_conjugate_gradients(c, times_user, a, b, .steps = n, .tolerance = 1e-14);
    assert_small(off(r.x, exact), 1e-10);
    assert_true(r.steps <= n);
    double kappa = cj_item(cj_cond(a, CJ_NORM_2)), rate = (sqrt(kappa) - 1) / (sqrt(kappa) + 1);
    double from = sqrt(cj_item(cj_dot(exact, cj_matmul(a, exact))));
    for (int t = 1; t < 20; t++) {
        cj_tensor *error = cj_sub(cj_conjugate_gradients(c, times_user, a, b, .steps = t, .tolerance = 1e-300).x, exact);
        assert_true(sqrt(cj_item(cj_dot(error, cj_matmul(a, error)))) <= 2 * pow(rate, t) * from * (1 + 1e-9) + 1e-13);
    }
    /* with Hessian products: Newton's step of a quadratic is exact */
    cj_tensor *w[2] = { normal(CJ_SHAPE(7, 5)), normal(CJ_SHAPE(4, 7)) }, *zero = cj_zeros(c, CJ_SHAPE(5), CJ_F64);
    cj_hessian_map map = { energy, w, zero }; /* at 0 the network is W2·W1·x, so H = 2·(W2·W1)ᵀ·(W2·W1), of rank 4 */
    cj_tensor *product = mm(w[1], w[0]), *h = cj_mul_scalar(mm(cj_t(product), product), 2), *inside = cj_matmul(h, normal(CJ_SHAPE(5)));
    cj_cg_result newton = cj_conjugate_gradients(c, cj_hessian_product, &map, inside, .steps = 20, .tolerance = 1e-10);
    assert_small(norm(cj_sub(cj_matmul(h, newton.x), inside)) / norm(inside), 1e-8);
    assert_ok(c);
}

/* ---- matrix calculus: denominator layout, (df/dx)_ij = df_j/dx_i ------------------------------------------------------------------------------- */

typedef struct parts {
    cj_tensor *a, *b, *d, *e, *g, *m;
} parts;
static cj_tensor *field(cj_tensor *x, cj_tensor *m) { return cj_tanh(cj_matmul(m, x)); }                 /* f: R^4 -> R^4 */
static cj_tensor *other(cj_tensor *x, cj_tensor *m) { return cj_sin(cj_matmul(cj_t(m), cj_square(x))); } /* g: R^4 -> R^4 */
#define FN(name, expression)                                                                                                               \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)                                                           \
    {                                                                                                                                      \
        const parts *p = user;                                                                                                             \
        cj_tensor *x = in[0];                                                                                                              \
        (void)ctx, (void)n, (void)p, (void)x;                                                                                              \
        return expression;                                                                                                                 \
    }
FN(fn_f, field(x, p->m))
FN(fn_g, other(x, p->m))
FN(fn_fg, cj_dot(field(x, p->m), other(x, p->m)))
FN(fn_fag, cj_dot(field(x, p->m), cj_matmul(p->a, other(x, p->m))))
FN(fn_ax, cj_dot(p->b, x))
FN(fn_xax, cj_dot(x, cj_matmul(p->a, x)))
FN(fn_xx, cj_dot(x, x))
FN(fn_af, cj_dot(p->b, field(x, p->m)))
FN(fn_axxb, cj_mul(cj_dot(p->b, x), cj_dot(x, p->e)))
FN(fn_axb_c_dxe, cj_dot(cj_add(cj_matmul(p->a, x), p->b), cj_matmul(p->g, cj_add(cj_matmul(p->d, x), p->e))))
FN(fn_ff, cj_dot(field(x, p->m), field(x, p->m)))
FN(fn_uv, cj_mul(cj_dot(x, x), cj_dot(p->b, cj_sin(x))))
FN(fn_uf, cj_mul(cj_dot(x, x), field(x, p->m)))
FN(fn_xa, cj_mul(x, p->b))
FN(fn_constant, cj_add(p->b, cj_mul_scalar(x, 0)))
FN(fn_x, cj_mul_scalar(x, 1))
FN(fn_matrix_x, cj_matmul(p->a, x))
FN(fn_x_matrix, cj_matmul(x, p->a))
FN(fn_chain, other(field(x, p->m), p->g))
FN(fn_axb, cj_dot(p->b, cj_matmul(x, p->e)))
FN(fn_axtb, cj_dot(p->b, cj_matmul(cj_t(x), p->e)))
static cj_tensor *spd_of(cj_tensor *x) { return cj_add(cj_mul_scalar(cj_add(x, cj_t(x)), 0.5), cj_mul_scalar(one(4), 6)); }
FN(fn_tr_s_inverse, cj_matrix_trace(cj_matmul(p->g, cj_inverse(x))))
FN(fn_logdet, cj_logdet(x))

static parts random_parts(void)
{
    parts p = { normal(CJ_SHAPE(4, 4)), normal(CJ_SHAPE(4)),    normal(CJ_SHAPE(4, 4)),
                normal(CJ_SHAPE(4)),    normal(CJ_SHAPE(4, 4)), cj_mul_scalar(normal(CJ_SHAPE(4, 4)), 0.4) };
    return p;
}
/* J in denominator layout: the transpose of the Jacobian that cj_jacobian gives (numerator layout). */
static cj_tensor *jacobian(cj_fn fn, parts *p, cj_tensor *x)
{
    cj_tensor *j = cj_jacobian(c, fn, p, x);
    return cj_ndim(x) == 1 && cj_ndim(j) == 2 ? cj_t(j) : j;
}
static void equals(cj_fn fn, parts *p, cj_tensor *x, cj_tensor *formula, const char *what)
{
    cj_tensor *j = jacobian(fn, p, x);
    double *v = values_of(x), worst = 0;
    const int64_t n = cj_numel(x);
    if (!(off(j, formula) <= 1e-10 || norm(cj_sub(j, formula)) <= 1e-12))
        fail_msg("%s: autodiff differs by %g (seed %llu)", what, off(j, formula), (unsigned long long)seed);
    for (int64_t i = 0; i < n; i++) { /* central differences */
        const double step = 1e-5, at = v[i];
        cj_tensor *y[2];
        for (int k = 0; k < 2; k++) {
            v[i] = at + (k ? -step : step);
            cj_tensor *moved = f64(c, v, cj_shape_of(x));
            y[k] = fn(c, p, &moved, 1);
        }
        v[i] = at;
        cj_tensor *difference = cj_mul_scalar(cj_sub(y[0], y[1]), 0.5 / step);
        double *d = values_of(difference), *want = values_of(formula);
        const int64_t m = cj_numel(difference);
        for (int64_t k = 0; k < m; k++) worst = fmax(worst, fabs(d[k] - want[i * m + k]) / fmax(1, fabs(want[i * m + k])));
        free(d);
        free(want);
    }
    free(v);
    if (!(worst <= 1e-6)) fail_msg("%s: differences disagree by %g (seed %llu)", what, worst, (unsigned long long)seed);
}
#define EQUALS(fn, formula) equals(fn, &p, x, formula, #fn)

static void calc_scalar_by_vector(void **state) /* calc.scalar_by_vector */
{
    (void)state;
    for (int turn = 0; turn < 5; turn++) {
        parts p = random_parts();
        cj_tensor *x = normal(CJ_SHAPE(4)), *f = field(x, p.m), *g = other(x, p.m), *jf = jacobian(fn_f, &p, x),
                  *jg = jacobian(fn_g, &p, x);
        EQUALS(fn_fg, cj_add(cj_matmul(jf, g), cj_matmul(jg, f)));
        EQUALS(fn_fag, cj_add(cj_matmul(mm(jf, p.a), g), cj_matmul(mm(jg, cj_t(p.a)), f)));
        EQUALS(fn_ax, p.b);
        EQUALS(fn_xax, cj_matmul(cj_add(p.a, cj_t(p.a)), x));
        EQUALS(fn_xx, cj_mul_scalar(x, 2));
        EQUALS(fn_af, cj_matmul(jf, p.b));
        EQUALS(fn_axxb, cj_matmul(cj_add(cj_outer(p.b, p.e), cj_outer(p.e, p.b)), x));
        cj_tensor *left = cj_add(cj_matmul(p.a, x), p.b), *right = cj_add(cj_matmul(p.d, x), p.e);
        EQUALS(fn_axb_c_dxe, cj_add(cj_matmul(cj_t(p.d), cj_matmul(cj_t(p.g), left)), cj_matmul(cj_t(p.a), cj_matmul(p.g, right))));
        EQUALS(fn_ff, cj_mul_scalar(cj_matmul(jf, f), 2));
        cj_tensor *u = cj_dot(x, x), *v = cj_dot(p.b, cj_sin(x));
        EQUALS(fn_uv, cj_add(cj_mul(v, cj_mul_scalar(x, 2)), cj_mul(u, cj_mul(p.b, cj_cos(x)))));
        assert_true(distance(cj_jacobian(c, fn_f, &p, x), cj_t(jf)) == 0); /* numerator layout is the transpose */
    }
    assert_ok(c);
}

static void calc_vector_by_vector(void **state) /* calc.vector_by_vector */
{
    (void)state;
    for (int turn = 0; turn < 5; turn++) {
        parts p = random_parts();
        cj_tensor *x = normal(CJ_SHAPE(4)), *f = field(x, p.m), *jf = jacobian(fn_f, &p, x), *u = cj_dot(x, x);
        EQUALS(fn_uf, cj_add(cj_mul(u, jf), cj_outer(cj_mul_scalar(x, 2), f)));
        EQUALS(fn_xa, diagonal(p.b));
        EQUALS(fn_constant, cj_zeros(c, CJ_SHAPE(4, 4), CJ_F64));
        EQUALS(fn_x, one(4));
        EQUALS(fn_matrix_x, cj_t(p.a));
        EQUALS(fn_x_matrix, p.a);
        parts outer = p;
        outer.m = p.g;
        EQUALS(fn_chain, mm(jf, jacobian(fn_g, &outer, f))); /* (dg/dx)·(df/dg): inner first */
    }
    assert_ok(c);
}

static void calc_scalar_by_matrix(void **state) /* calc.scalar_by_matrix */
{
    (void)state;
    for (int turn = 0; turn < 5; turn++) {
        parts p = random_parts();
        cj_tensor *x = normal(CJ_SHAPE(4, 4));
        EQUALS(fn_axb, cj_outer(p.b, p.e));
        EQUALS(fn_axtb, cj_outer(p.e, p.b));
        x = spd_of(x);
        p.g = cj_add(p.g, cj_t(p.g));
        cj_tensor *inverse = cj_inverse(x);
        EQUALS(fn_tr_s_inverse, cj_neg(mm(inverse, mm(p.g, inverse))));
        EQUALS(fn_logdet, cj_t(inverse));
    }
    assert_ok(c);
}

/* max xy under x + y = k, and quadratics under linear constraints, by Newton on the gradient of the Lagrangian. */
static cj_tensor *xy_lagrangian(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *x = cj_select(in[0], 0, 0), *y = cj_select(in[0], 0, 1), *gamma = cj_select(in[0], 0, 2);
    return cj_sub(cj_mul(x, y), cj_mul(gamma, cj_add_scalar(cj_add(x, y), -*(double *)user)));
}
static cj_tensor *newton(cj_fn fn, void *user, cj_tensor *z)
{
    for (int step = 0; step < 3; step++) { /* exact after one for these */
        cj_tensor *leaf = cj_require_grad(z), *g;
        assert_true(cj_grad(fn(c, user, &leaf, 1), &leaf, 1, &g));
        z = cj_sub(z, cj_solve(cj_hessian(c, fn, user, z), g));
    }
    return z;
}
typedef struct quadratic {
    cj_tensor *q, *b, *a, *r; /* min x·Q·x/2 - b·x under A·x = r */
} quadratic;
static cj_tensor *quadratic_lagrangian(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const quadratic *k = user;
    cj_tensor *x = cj_slice(in[0], 0, 0, 5, 1), *gamma = cj_slice(in[0], 0, 5, 7, 1);
    cj_tensor *f = cj_sub(cj_mul_scalar(cj_dot(x, cj_matmul(k->q, x)), 0.5), cj_dot(k->b, x));
    return cj_sub(f, cj_dot(gamma, cj_sub(cj_matmul(k->a, x), k->r)));
}
static void calc_lagrangian(void **state) /* calc.lagrangian */
{
    (void)state;
    double level = 10;
    cj_tensor *z = newton(xy_lagrangian, &level, F64(c, CJ_SHAPE(3), 1, 2, 0.5));
    assert_small(distance(z, F64(c, CJ_SHAPE(3), 5, 5, 5)), 1e-12);
    double f[2];
    for (int k = 0; k < 2; k++) { /* the multiplier is the derivative of the optimum by the level */
        level = 10 + (k ? -1e-4 : 1e-4);
        double *v = values_of(newton(xy_lagrangian, &level, F64(c, CJ_SHAPE(3), 1, 2, 0.5)));
        f[k] = v[0] * v[1];
        free(v);
    }
    assert_near((f[0] - f[1]) / 2e-4, 5, 1e-8);
    cj_tensor *x = normal(CJ_SHAPE(5, 5));
    quadratic k = { cj_add(mm(x, cj_t(x)), one(5)), normal(CJ_SHAPE(5)), normal(CJ_SHAPE(2, 5)), normal(CJ_SHAPE(2)) };
    /* [[Q, -Aᵀ], [A, 0]]·[x; gamma] = [b; r] */
    cj_tensor *kkt = cj_cat(
        CJ_TENSORS(cj_cat(CJ_TENSORS(k.q, cj_neg(cj_t(k.a))), 2, 1), cj_cat(CJ_TENSORS(k.a, cj_zeros(c, CJ_SHAPE(2, 2), CJ_F64)), 2, 1)), 2,
        0);
    cj_tensor *direct = cj_solve(kkt, cj_cat(CJ_TENSORS(k.b, k.r), 2, 0));
    assert_small(off(newton(quadratic_lagrangian, &k, normal(CJ_SHAPE(7))), direct), 1e-9);
    assert_ok(c);
}

int main(void)
{
    const char *given = getenv("CAJAL_SEED");
    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(linalg_lu),
        TEST(linalg_cholesky),
        TEST(linalg_definiteness),
        TEST(linalg_qr),
        TEST(linalg_eig_sym),
        TEST(linalg_svd),
        TEST(linalg_power_method),
        TEST(linalg_spectral_radius),
        TEST(linalg_matfun),
        TEST(linalg_norms),
        TEST(linalg_projection_kron),
        TEST(linalg_cg),
        TEST(calc_scalar_by_vector),
        TEST(calc_vector_by_vector),
        TEST(calc_scalar_by_matrix),
        TEST(calc_lagrangian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
