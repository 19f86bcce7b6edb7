/* Linear algebra: residuals of every decomposition on random matrices, LAPACK against our own, small kernels against both, closed forms,
 * derivatives where eigenvalues repeat, empty matrices, bad input, and the methods for matrices given as functions.  ctest: threads */
#include <time.h>

#include "math/linalg.h"
#include "support.h"

static uint64_t seed;

static cj_ctx *context(int threads, const char *isa) { return cj_ctx_new(&(cj_ctx_opts){ .seed = seed, .threads = threads, .isa = isa }); }
static cj_tensor *normal(cj_ctx *c, cj_shape s, cj_dtype t) { return cj_randn(c, s, .dtype = t); }
static cj_tensor *mm(cj_tensor *a, cj_tensor *b) { return cj_matmul(a, b); }
static cj_tensor *diagonal(cj_tensor *w) { return cj_mul(cj_unsqueeze(w, -1), cj_eye(cj_tensor_ctx(w), cj_size(w, -1), cj_dtype_of(w))); }
static cj_tensor *identity(cj_tensor *like)
{
    return cj_expand(cj_eye(cj_tensor_ctx(like), cj_size(like, -1), cj_dtype_of(like)), cj_shape_of(like));
}
/* Largest element of |a - b| against the largest of |b|. */
static double relative(cj_tensor *a, cj_tensor *b)
{
    double size = cj_numel(b) ? cj_item(cj_max(cj_abs(b))) : 1;
    return distance(a, b) / (size > 0 ? size : 1);
}
static const double eps_of[CJ_DTYPES] = { [CJ_F32] = 0x1p-23, [CJ_F64] = 0x1p-52 };
#define assert_small(expression, limit)                                                                                                    \
    do {                                                                                                                                   \
        double small_value = (expression), small_limit = (limit);                                                                          \
        if (!(small_value <= small_limit))                                                                                                 \
            fail_msg("%s = %.3g, at most %.3g expected (seed %llu)", #expression, small_value, small_limit, (unsigned long long)seed);     \
    } while (0)

/* ---- the two tables ---------------------------------------------------------------------------------------------------------------------------- */

enum { MOST = 48 };
typedef struct arrays {
    double a[MOST * MOST], b[MOST * MOST], u[2 * MOST * MOST], v[MOST * MOST], s[2 * MOST];
    float f[MOST * MOST], g[MOST * MOST];
    char work[1 << 22] __attribute__((aligned(64)));
} arrays;

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / 0x1p52 - 1;
}
static cj_dense_place here(void)
{
    for (int level = CJ_ISA_LEVELS - 1;; level--)
        if (cj__cpu_kernels((cj_isa)level)) return (cj_dense_place){ .k = cj__cpu_kernels((cj_isa)level), .threads = 1 };
}
static void fits(const cj_dense *d, cj_dense_code code, cj_dtype t, int64_t m, int64_t n, int64_t k)
{
    const cj_dense_place on = here();
    assert_true(d->workspace(&on, code, t, m, n, k, true) <= sizeof(((arrays *)0)->work));
}
static double product_error(int64_t m, int64_t k, int64_t n, const double *x, const double *scale, const double *y, const double *want)
{
    double worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * (scale ? scale[p] : 1) * y[p * n + j];
            worst = fmax(worst, fabs(sum - want[i * n + j]));
        }
    return worst;
}

/* One size in one table, f64: every decomposition multiplies back to its matrix. */
static void check_table(const cj_dense *d, int64_t m, int64_t n, arrays *w)
{
    const cj_dense_place on = here();
    uint64_t state = seed * 31 + (uint64_t)(m * 100 + n);
    const int64_t k = m < n ? m : n;
    double *x = calloc((size_t)(MOST * MOST), 8), *y = calloc((size_t)(MOST * MOST), 8);
    for (int64_t i = 0; i < m * n; i++) x[i] = draw(&state);
    fits(d, CJ_DENSE_SVD, CJ_F64, m, n, 0);
    memcpy(w->a, x, (size_t)(m * n) * 8);
    assert_int_equal(d->svd(CJ_F64, m, n, w->a, w->u, w->s, w->v, w->work), 0);
    assert_small(product_error(m, k, n, w->u, w->s, w->v, x), 1e-13 * (double)(m + n));
    for (int64_t i = 1; i < k; i++) assert_true(w->s[i] <= w->s[i - 1]);
    memcpy(w->a, x, (size_t)(m * n) * 8);
    memcpy(y, w->s, (size_t)k * 8);
    assert_int_equal(d->svd(CJ_F64, m, n, w->a, NULL, w->s, NULL, w->work), 0);
    for (int64_t i = 0; i < k; i++) assert_small(fabs(w->s[i] - y[i]), 1e-13 * y[0] * (double)(m + n));
    fits(d, CJ_DENSE_QR, CJ_F64, m, n, 0);
    memcpy(w->a, x, (size_t)(m * n) * 8);
    assert_int_equal(d->qr(CJ_F64, m, n, w->a, w->u, w->v, w->work), 0);
    assert_small(product_error(m, k, n, w->u, NULL, w->v, x), 1e-13 * (double)(m + n));
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < i; j++) assert_true(w->v[i * n + j] == 0);
    if (m == n) {
        int64_t pivot[MOST];
        fits(d, CJ_DENSE_LU, CJ_F64, n, n, 0);
        memcpy(w->a, x, (size_t)(n * n) * 8);
        assert_int_equal(d->lu(&on, CJ_F64, n, w->a, pivot, w->work), 0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                w->u[i * n + j] = i == j ? 1 : j < i ? w->a[i * n + j] : 0;
                w->v[i * n + j] = j >= i ? w->a[i * n + j] : 0;
            }
        memcpy(y, x, (size_t)(n * n) * 8);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double t = y[i * n + j];
                y[i * n + j] = y[pivot[i] * n + j];
                y[pivot[i] * n + j] = t;
            }
        assert_small(product_error(n, n, n, w->u, NULL, w->v, y), 1e-13 * (double)n);
        for (int64_t i = 0; i < n; i++) /* symmetric: the lower triangle of x */
            for (int64_t j = 0; j < n; j++) y[i * n + j] = j <= i ? x[i * n + j] : x[j * n + i];
        fits(d, CJ_DENSE_EIGH, CJ_F64, n, n, 0);
        memcpy(w->a, y, (size_t)(n * n) * 8);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) w->a[i * n + j] = 1e30; /* not read */
        assert_int_equal(d->eigh(&on, CJ_F64, n, w->a, w->s, true, w->work), 0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) w->v[i * n + j] = w->a[j * n + i];
        assert_small(product_error(n, n, n, w->a, w->s, w->v, y), 1e-13 * (double)n);
        for (int64_t i = 1; i < n; i++) assert_true(w->s[i] >= w->s[i - 1]);
        /* a·v = w·v with complex numbers */
        fits(d, CJ_DENSE_EIG, CJ_F64, n, n, 0);
        memcpy(w->a, x, (size_t)(n * n) * 8);
        assert_int_equal(d->eig(CJ_F64, n, w->a, w->s, w->u, w->work), 0);
        for (int64_t e = 0; e < n; e++) {
            double length = 0;
            for (int64_t i = 0; i < n; i++) {
                const double *v = w->u + (i * n + e) * 2, re = w->s[2 * e], im = w->s[2 * e + 1];
                double sum_re = 0, sum_im = 0;
                for (int64_t j = 0; j < n; j++) {
                    sum_re += x[i * n + j] * w->u[(j * n + e) * 2];
                    sum_im += x[i * n + j] * w->u[(j * n + e) * 2 + 1];
                }
                assert_small(hypot(sum_re - (re * v[0] - im * v[1]), sum_im - (re * v[1] + im * v[0])), 1e-12 * (double)n);
                length += v[0] * v[0] + v[1] * v[1];
            }
            assert_small(fabs(length - 1), 1e-12);
        }
    }
    free(x);
    free(y);
}

static void both_tables_decompose_random_matrices(void **state)
{
    (void)state;
    arrays *w = malloc(sizeof *w);
    const cj_dense *const tables[] = { &cj__dense_own, cj__dense_lapack() };
    for (int d = 0; d < 2; d++)
        for (int64_t m = 1; m <= 45 && tables[d]; m += m < 6 ? 1 : 13)
            for (int64_t n = 1; n <= 45; n += n < 6 ? 1 : 13) check_table(tables[d], m, n, w);
    free(w);
}

/* The two tables against each other on the same input, f32 and f64: what has one answer. */
static void own_equals_lapack(void **state)
{
    (void)state;
    const cj_dense *lapack = cj__dense_lapack();
    const cj_dense_place on = here();
    if (!lapack) skip();
    arrays *w = malloc(sizeof *w);
    for (int type = 0; type < 2; type++)
        for (int64_t n = 1; n <= 40; n += n < 5 ? 1 : 7) {
            const cj_dtype t = type ? CJ_F64 : CJ_F32;
            uint64_t random = seed + (uint64_t)n;
            char *x = type ? (char *)w->a : (char *)w->f, *y = type ? (char *)w->b : (char *)w->g;
            const size_t bytes = (size_t)(n * n) * cj_dtype_size(t);
            char *first = malloc(bytes), *spd = malloc(bytes);
            for (int64_t i = 0; i < n * n; i++) {
                double v = draw(&random) / (double)n + (i % (n + 1) == 0 ? 2 : 0);
                cj__store(t, first + (size_t)i * cj_dtype_size(t), v);
                cj__store(t, spd + (size_t)(i % n * n + i / n) * cj_dtype_size(t), v);
                cj__store(t, spd + (size_t)i * cj_dtype_size(t), v);
            }
            for (int what = 0; what < 6; what++) {
                const cj_dense *const tables[] = { &cj__dense_own, lapack };
                for (int d = 0; d < 2; d++) {
                    char *m = d ? y : x;
                    int64_t info = 0, pivot[MOST];
                    memcpy(m, what == 0 || what == 4 ? spd : first, bytes);
                    if (what == 0) info = tables[d]->cholesky(t, n, m, w->work);
                    if (what == 1) info = tables[d]->lu(&on, t, n, m, pivot, w->work);
                    if (what == 2) info = tables[d]->inverse(&on, t, n, m, w->work);
                    if (what == 3) {
                        memcpy(w->u, first, bytes);
                        info = tables[d]->solve(&on, t, n, n, true, w->u, m, w->work);
                    }
                    if (what == 4) {
                        memcpy(w->u, spd, bytes);
                        memset(m, 0, bytes);
                        info = tables[d]->eigh(&on, t, n, w->u, m, false, w->work);
                    }
                    if (what == 5) {
                        memcpy(w->u, first, bytes);
                        info = tables[d]->triangular(t, n, n, (cj_triangle){ .upper = n % 2, .transpose = n % 3 == 0 }, w->u, m, w->work);
                    }
                    assert_int_equal(info, 0);
                }
                for (int64_t i = 0; i < n * n; i++) {
                    double own = type ? ((double *)x)[i] : (double)((float *)x)[i],
                           other = type ? ((double *)y)[i] : (double)((float *)y)[i];
                    if (!(fabs(own - other) <= (60 + 8 * (double)n) * eps_of[t]))
                        fail_msg("problem %d, %s, n %lld: element %lld is %.17g, LAPACK has %.17g", what, cj_dtype_name(t), (long long)n,
                                 (long long)i, own, other);
                }
            }
            free(first);
            free(spd);
        }
    free(w);
}

/* ---- operators: residuals ---------------------------------------------------------------------------------------------------------------------- */

/* f64 residuals below 1e-12 times the condition number, f32 in the same units of its last place. */
static void operators_leave_small_residuals(void **state)
{
    (void)state;
    const char *const levels[] = { "portable", "avx2", "avx512" };
    for (int l = 0; l < 3; l++) {
        cj_ctx *c = context(2, levels[l]);
        if (!c || !cj_ok(c)) { /* this processor has no such level */
            cj_ctx_free(c);
            continue;
        }
        for (int type = 0; type < 2; type++)
            for (int64_t n = 1; n <= 70; n += n < 9 ? 1 : 12) {
                const cj_dtype t = type ? CJ_F64 : CJ_F32;
                const double tolerance = eps_of[t] * 400 * (double)(n + 3);
                cj_scope s = cj_scope_open(c);
                cj_tensor *a = normal(c, CJ_SHAPE(19, n, n), t), *b = normal(c, CJ_SHAPE(19, n, 3), t),
                          *wide = normal(c, CJ_SHAPE(3, n, n + 2), t);
                double cond = cj_item(cj_max(cj_cond(a, CJ_NORM_2)));
                assert_small(relative(mm(a, cj_solve(a, b)), b), tolerance * cond);
                assert_small(relative(mm(a, cj_inverse(a)), identity(a)), tolerance * cond);
                cj_tensor *spd = cj_add(mm(a, cj_t(a)), identity(a)), *lower = cj_cholesky(spd);
                assert_small(relative(mm(lower, cj_t(lower)), spd), tolerance);
                assert_true(distance(lower, cj_tril(lower, 0)) == 0);
                assert_true(distance(cj_cholesky(spd, .upper = true), cj_t(lower)) == 0);
                cj_tensor *x = cj_solve_triangular(lower, b);
                assert_small(relative(mm(lower, x), b), tolerance * cond);
                cj_slogdet_result det = cj_slogdet(spd);
                assert_small(distance(det.logabsdet, cj_mul_scalar(cj_sum(cj_log(cj_diagonal(lower, 0, -2, -1)), .axes = CJ_AXIS(-1)), 2)),
                             tolerance * 10);
                assert_true(cj_item(cj_min(det.sign)) == 1);
                if (n <= 8) assert_small(relative(cj_mul(cj_det(a), cj_det(cj_inverse(a))), cj_ones(c, CJ_SHAPE(19), t)), tolerance * cond);
                if (n % 3 == 1) { /* the rest does not depend on the level */
                    cj_eigen e = cj_eigh(spd);
                    assert_small(relative(mm(mm(e.vectors, diagonal(e.values)), cj_t(e.vectors)), spd), tolerance);
                    assert_small(relative(mm(cj_t(e.vectors), e.vectors), identity(a)), tolerance);
                    assert_small(relative(cj_eigvalsh(spd), e.values), tolerance);
                    cj_svd_result r = cj_svd(wide);
                    assert_small(relative(mm(mm(r.u, diagonal(r.s)), r.vh), wide), tolerance);
                    assert_small(relative(mm(r.vh, cj_t(r.vh)), cj_expand(cj_eye(c, n, t), CJ_SHAPE(3, n, n))), tolerance);
                    cj_qr_result q = cj_qr(cj_t(wide));
                    assert_small(relative(mm(q.q, q.r), cj_t(wide)), tolerance);
                    assert_small(relative(mm(cj_t(q.q), q.q), cj_expand(cj_eye(c, n, t), CJ_SHAPE(3, n, n))), tolerance);
                    cj_tensor *root = cj_matrix_sqrt(spd);
                    assert_small(relative(mm(root, root), spd), tolerance);
                }
                assert_ok(c);
                cj_scope_close(s);
            }
        cj_ctx_free(c);
    }
}

/* The same bits on one thread and on three, also where the batch is cut into chunks. */
static void threads_do_not_change_bits(void **state)
{
    (void)state;
    cj_ctx *c[2] = { context(1, NULL), context(3, NULL) };
    const int64_t sizes[][2] = { { 3000, 4 }, { 500, 16 }, { 40, 31 }, { 9, 60 } };
    for (int k = 0; k < 4; k++) {
        cj_tensor *r[2][6];
        for (int i = 0; i < 2; i++) {
            cj_tensor *a = normal(c[i], CJ_SHAPE(sizes[k][0], sizes[k][1], sizes[k][1]), k % 2 ? CJ_F64 : CJ_F32);
            cj_tensor *spd = cj_add(mm(a, cj_t(a)), identity(a));
            cj_tensor *all[6] = { cj_solve(a, spd), cj_inverse(spd), cj_det(a), cj_cholesky(spd), cj_eigvalsh(spd), cj_svdvals(a) };
            memcpy(r[i], all, sizeof all);
            assert_ok(c[i]);
        }
        for (int j = 0; j < 6; j++) assert_true(same_bits(r[0][j], r[1][j]));
    }
    cj_ctx_free(c[0]);
    cj_ctx_free(c[1]);
}

/* One matrix at a time, beyond the sizes that go to LAPACK whole: elimination and eigenvectors in blocks, with the same bits on one thread and on three. */
static void large_matrices(void **state)
{
    (void)state;
    cj_ctx *c[2] = { context(1, NULL), context(3, NULL) };
    const int64_t sizes[] = { 33, 65, 66, 97, 130, 200, 321 };
    for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
        const cj_dtype t = k % 2 ? CJ_F64 : CJ_F32;
        const int64_t n = sizes[k / 2];
        const double tolerance = eps_of[t] * 100 * (double)n;
        cj_tensor *r[2][7];
        for (int i = 0; i < 2; i++) {
            cj_tensor *a = normal(c[i], CJ_SHAPE(n, n), t), *b = normal(c[i], CJ_SHAPE(n, 1), t), *many = normal(c[i], CJ_SHAPE(n, 37), t);
            cj_tensor *leaf = cj_require_grad(cj_mul_scalar(many, 1)), *turned;
            cj_grad(cj_sum(cj_mul(cj_solve(a, leaf), many)), &leaf, 1, &turned); /* a⁻ᵀ·many */
            cj_eigen e = cj_eigh(cj_add(a, cj_t(a)));
            cj_tensor *all[7] = { cj_solve(a, b), cj_solve(a, many), turned, cj_inverse(a), cj_slogdet(a).logabsdet, e.values, e.vectors };
            memcpy(r[i], all, sizeof all);
            assert_ok(c[i]);
            if (i) continue;
            const double cond = cj_item(cj_cond(a, CJ_NORM_2));
            assert_small(relative(mm(a, all[0]), b), tolerance * cond);
            assert_small(relative(mm(a, all[1]), many), tolerance * cond);
            assert_small(relative(mm(cj_t(a), all[2]), many), tolerance * cond);
            assert_small(relative(mm(a, all[3]), cj_eye(c[i], n, t)), tolerance * cond);
            assert_small(fabs(cj_item(all[4]) - cj_item(cj_sum(cj_log(cj_svdvals(a))))), tolerance * cond);
            assert_small(relative(mm(mm(e.vectors, diagonal(e.values)), cj_t(e.vectors)), cj_add(a, cj_t(a))), tolerance);
            assert_small(relative(mm(cj_t(e.vectors), e.vectors), cj_eye(c[i], n, t)), tolerance);
            cj_tensor *huge = cj_mul_scalar(cj_add(a, cj_t(a)), t == CJ_F64 ? 1e200 : 1e25); /* scaled by LAPACK */
            assert_small(relative(cj_mul_scalar(cj_eigh(huge).values, t == CJ_F64 ? 1e-200 : 1e-25), e.values), tolerance);
            assert_ok(c[i]);
        }
        for (int j = 0; j < 7; j++) assert_true(same_bits(r[0][j], r[1][j]));
    }
    /* a column of zeros: the pivot that fails is its own */
    cj_tensor *gap =
        cj_mul(normal(c[0], CJ_SHAPE(100, 100), CJ_F64), cj_cast(cj_ne_scalar(cj_arange(c[0], 0, 100, 1, CJ_F64), 70), CJ_F64));
    cj_solve(gap, cj_ones(c[0], CJ_SHAPE(100), CJ_F64));
    assert_int_equal(cj_error(c[0]), CJ_EVALUE);
    assert_non_null(strstr(cj_message(c[0]), "zero pivot 71"));
    cj_clear(c[0]);
    cj_ctx_free(c[0]);
    cj_ctx_free(c[1]);
}

/* ---- closed forms ------------------------------------------------------------------------------------------------------------------------------ */

static void closed_forms(void **state)
{
    (void)state;
    cj_ctx *c = context(1, NULL);
    cj_tensor *a = F64(c, CJ_SHAPE(2, 2), 4, 7, 2, 6);
    assert_small(distance(cj_inverse(a), F64(c, CJ_SHAPE(2, 2), 0.6, -0.7, -0.2, 0.4)), 1e-15);
    assert_near(cj_item(cj_det(a)), 10, 1e-14);
    assert_small(distance(cj_solve(a, F64(c, CJ_SHAPE(2), 18, 14)), F64(c, CJ_SHAPE(2), 1, 2)), 1e-14);
    /* Vandermonde of 1, 2, 3, 4: the product of the differences, 1·2·3·1·2·1 */
    assert_near(cj_item(cj_det(F64(c, CJ_SHAPE(4, 4), 1, 1, 1, 1, 1, 2, 4, 8, 1, 3, 9, 27, 1, 4, 16, 64))), 12, 1e-12);
    /* a permutation: sign -1, and a singular matrix */
    cj_tensor *p = F64(c, CJ_SHAPE(2, 3, 3), 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 2, 3, 2, 4, 6, 1, 1, 1);
    assert_near(value_at(cj_det(p), 0), -1, 0);
    assert_near(value_at(cj_det(p), 1), 0, 0);
    cj_slogdet_result s = cj_slogdet(p);
    assert_near(value_at(s.sign, 0), -1, 0);
    assert_near(value_at(s.sign, 1), 0, 0);
    assert_near(value_at(s.logabsdet, 0), 0, 0);
    assert_true(value_at(s.logabsdet, 1) == -INFINITY);
    assert_true(isnan(value_at(cj_logdet(p), 0)));
    /* rotation by 0.7: exp of [[0, -0.7], [0.7, 0]], and back; a nilpotent matrix; a large norm that needs squarings */
    cj_tensor *turn = F64(c, CJ_SHAPE(2, 2), 0, -0.7, 0.7, 0), *rotation = F64(c, CJ_SHAPE(2, 2), cos(0.7), -sin(0.7), sin(0.7), cos(0.7));
    assert_small(distance(cj_matrix_exp(turn), rotation), 1e-15);
    assert_small(distance(cj_matrix_log(rotation), turn), 1e-14);
    assert_small(distance(cj_matrix_sqrt(rotation), F64(c, CJ_SHAPE(2, 2), cos(0.35), -sin(0.35), sin(0.35), cos(0.35))), 1e-15);
    assert_small(distance(cj_matrix_exp(F64(c, CJ_SHAPE(2, 2), 0, 5, 0, 0)), F64(c, CJ_SHAPE(2, 2), 1, 5, 0, 1)), 1e-15);
    assert_small(relative(cj_matrix_exp(cj_mul_scalar(turn, 100)), F64(c, CJ_SHAPE(2, 2), cos(70), -sin(70), sin(70), cos(70))), 1e-13);
    assert_small(distance(cj_matrix_log(F64(c, CJ_SHAPE(2, 2), 1, 5, 0, 1)), F64(c, CJ_SHAPE(2, 2), 0, 5, 0, 0)), 1e-13);
    cj_tensor *x = normal(c, CJ_SHAPE(5, 5), CJ_F64);
    assert_small(relative(cj_matrix_log(cj_matrix_exp(cj_mul_scalar(x, 0.3))), cj_mul_scalar(x, 0.3)), 1e-11);
    assert_small(relative(cj_matrix_power(x, 5), mm(x, mm(x, mm(x, mm(x, x))))), 1e-13);
    assert_small(relative(mm(cj_matrix_power(x, -2), mm(x, x)), identity(x)), 1e-9);
    assert_true(distance(cj_matrix_power(x, 0), identity(x)) == 0);
    /* norms of [[1, -2], [3, 4]]: s² are the roots of z² - 30z + 100 */
    cj_tensor *m = F64(c, CJ_SHAPE(2, 2), 1, -2, 3, 4);
    double s1 = sqrt(15 + sqrt(125)), s2 = sqrt(15 - sqrt(125));
    assert_near(cj_item(cj_matrix_norm(m, CJ_NORM_FRO)), sqrt(30), 1e-14);
    assert_near(cj_item(cj_matrix_norm(m, CJ_NORM_NUC)), s1 + s2, 1e-14);
    assert_near(cj_item(cj_matrix_norm(m, CJ_NORM_1)), 6, 0);
    assert_near(cj_item(cj_matrix_norm(m, CJ_NORM_INF)), 7, 0);
    assert_near(cj_item(cj_matrix_norm(m, CJ_NORM_2)), s1, 1e-14);
    assert_near(cj_item(cj_cond(m, CJ_NORM_2)), s1 / s2, 1e-13);
    assert_near(cj_item(cj_cond(m, CJ_NORM_1)), 6 * 0.7, 1e-14);
    assert_near(cj_item(cj_norm(m, 3)), cbrt(100), 1e-14);
    assert_near(cj_item(cj_matrix_trace(m)), 5, 0);
    /* rank and null space of an outer product */
    cj_tensor *outer = cj_outer(F64(c, CJ_SHAPE(3), 1, 2, 3), F64(c, CJ_SHAPE(4), 1, -1, 2, 1));
    assert_int_equal(value_at(cj_matrix_rank(outer), 0), 1);
    cj_tensor *null = cj_null_space(outer);
    assert_int_equal(cj_size(null, 1), 3);
    assert_small(distance(mm(outer, null), cj_zeros(c, CJ_SHAPE(3, 3), CJ_F64)), 1e-14);
    assert_small(distance(mm(cj_t(null), null), cj_eye(c, 3, CJ_F64)), 1e-14);
    /* circulant and Toeplitz, element by element */
    cj_tensor *first = F64(c, CJ_SHAPE(3), 1, 2, 3);
    assert_true(distance(cj_circulant(first), F64(c, CJ_SHAPE(3, 3), 1, 3, 2, 2, 1, 3, 3, 2, 1)) == 0);
    assert_true(distance(cj_toeplitz(first, F64(c, CJ_SHAPE(2), 9, 7)), F64(c, CJ_SHAPE(3, 2), 1, 7, 2, 1, 3, 2)) == 0);
    assert_true(distance(cj_circulant_product(first, F64(c, CJ_SHAPE(3), 1, 0, -1)), F64(c, CJ_SHAPE(3), -1, -1, 2)) == 0);
    assert_true(distance(cj_toeplitz_product(first, F64(c, CJ_SHAPE(2), 9, 7), F64(c, CJ_SHAPE(2), 1, 2)), F64(c, CJ_SHAPE(3), 15, 4, 7)) ==
                0);
    assert_true(distance(cj_kron(F64(c, CJ_SHAPE(1, 2), 2, 3), F64(c, CJ_SHAPE(2, 1), 5, 7)), F64(c, CJ_SHAPE(2, 2), 10, 15, 14, 21)) == 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- derivatives where values repeat ----------------------------------------------------------------------------------------------------------- */

/* Symmetric functions of the values have their usual gradient where values repeat; functions of the matrix that go through its vectors lose what lies in
 * the space of the repeated value, and stay finite; functions of a matrix lose nothing. */
static void derivatives_at_repeated_values(void **state)
{
    (void)state;
    cj_ctx *c = context(1, NULL);
    cj_tensor *a = cj_require_grad(F64(c, CJ_SHAPE(3, 3), 2, 0, 0, 0, 2, 0, 0, 0, 5)), *g;
    cj_eigen e = cj_eigh(a);
    cj_tensor *again = mm(mm(e.vectors, diagonal(e.values)), cj_t(e.vectors));
    assert_true(cj_grad(cj_sum(cj_square(again)), &a, 1, &g, .retain = true)); /* |A|²: 2A */
    assert_small(distance(g, F64(c, CJ_SHAPE(3, 3), 4, 0, 0, 0, 4, 0, 0, 0, 10)), 1e-13);
    assert_true(cj_grad(cj_sum(cj_exp(cj_eigvalsh(a))), &a, 1, &g)); /* tr e^A: e^A */
    assert_small(distance(g, cj_matrix_exp(cj_detach(a))), 1e-12);
    /* <B, V·diag(w)·Vᵀ> is <B, A>: its gradient is B, without the elements between the two equal values */
    cj_tensor *weight = F64(c, CJ_SHAPE(3, 3), 1, 7, 2, 7, 3, 4, 2, 4, 5);
    assert_true(cj_grad(cj_sum(cj_mul(weight, mm(mm(e.vectors, diagonal(e.values)), cj_t(e.vectors)))), &a, 1, &g, .retain = true));
    assert_small(distance(g, F64(c, CJ_SHAPE(3, 3), 1, 0, 2, 0, 3, 4, 2, 4, 5)), 1e-13);
    cj_svd_result r = cj_svd(a);
    assert_true(cj_grad(cj_sum(cj_square(mm(mm(r.u, diagonal(r.s)), r.vh))), &a, 1, &g));
    assert_small(distance(g, F64(c, CJ_SHAPE(3, 3), 4, 0, 0, 0, 4, 0, 0, 0, 10)), 1e-13);
    assert_true(cj_grad(cj_matrix_norm(a, CJ_NORM_NUC), &a, 1, &g));
    assert_small(distance(g, cj_eye(c, 3, CJ_F64)), 1e-14);
    /* whatever is asked for, nothing is NaN or infinite */
    cj_tensor *same = cj_require_grad(cj_eye(c, 3, CJ_F64));
    assert_true(cj_grad(cj_sum(cj_mul(cj_eigh(same).vectors, normal(c, CJ_SHAPE(3, 3), CJ_F64))), &same, 1, &g));
    assert_true(cj_item(cj_all(cj_isfinite(g))) == 1);
    cj_tensor *zero = cj_require_grad(cj_zeros(c, CJ_SHAPE(3, 2), CJ_F64));
    cj_svd_result flat = cj_svd(zero);
    assert_true(cj_grad(cj_sum(cj_mul(mm(flat.u, flat.vh), normal(c, CJ_SHAPE(3, 2), CJ_F64))), &zero, 1, &g));
    assert_true(cj_item(cj_all(cj_isfinite(g))) == 1);
    assert_true(cj_grad(cj_matrix_norm(zero, CJ_NORM_FRO), &zero, 1, &g));
    assert_true(distance(g, cj_zeros_like(zero)) == 0);
    /* square root at a multiple of the identity: d tr(B·A^(1/2)) = B/(2·2) */
    cj_tensor *four = cj_require_grad(cj_mul_scalar(cj_eye(c, 3, CJ_F64), 4)), *b = normal(c, CJ_SHAPE(3, 3), CJ_F64);
    assert_true(cj_grad(cj_sum(cj_mul(b, cj_matrix_sqrt(four))), &four, 1, &g));
    assert_small(distance(g, cj_mul_scalar(b, 0.25)), 1e-13);
    /* det of a singular matrix: its cofactors */
    cj_tensor *singular = cj_require_grad(F64(c, CJ_SHAPE(2, 2), 1, 2, 2, 4));
    assert_true(cj_grad(cj_det(singular), &singular, 1, &g));
    assert_small(distance(g, F64(c, CJ_SHAPE(2, 2), 4, -2, -2, 1)), 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *third(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    bool was = cj_grad_mode(c, true);
    cj_tensor *x = cj_requires_grad(in[0]) ? in[0] : cj_require_grad(in[0]), *a = cj_add(x, cj_mul_scalar(cj_eye(c, 3, CJ_F64), 4)), *g = x;
    cj_tensor *y = cj_sum(cj_mul(cj_inverse(a), cj_matrix_exp(cj_mul_scalar(a, 0.2))));
    y = cj_add(y, cj_logdet(a));
    for (int order = 0; order < 2 && cj_ok(c); order++) { /* the function has the first two derivatives inside */
        cj_grad(y, &x, 1, &g, .create_graph = true);
        y = cj_sum(cj_square(g));
    }
    cj_grad_mode(c, was);
    return y;
}
static void third_derivatives(void **state)
{
    (void)state;
    cj_ctx *c = context(1, NULL);
    cj_tensor *x = normal(c, CJ_SHAPE(3, 3), CJ_F64);
    cj_gradcheck_result r = cj_gradcheck(c, third, NULL, &x, 1, .no_jvp = true, .tolerance = 1e-5);
    assert_ok(c);
    if (!r.ok) fail_msg("%s (seed %llu)", r.what, (unsigned long long)seed);
    cj_ctx_free(c);
}

/* ---- empty, bad -------------------------------------------------------------------------------------------------------------------------------- */

static void empty_matrices(void **state)
{
    (void)state;
    cj_ctx *c = context(1, NULL);
    cj_tensor *a = cj_zeros(c, CJ_SHAPE(2, 0, 0), CJ_F64), *tall = cj_zeros(c, CJ_SHAPE(3, 0), CJ_F64);
    assert_true(distance(cj_det(a), cj_ones(c, CJ_SHAPE(2), CJ_F64)) == 0);
    assert_true(distance(cj_slogdet(a).sign, cj_ones(c, CJ_SHAPE(2), CJ_F64)) == 0);
    assert_true(distance(cj_slogdet(a).logabsdet, cj_zeros(c, CJ_SHAPE(2), CJ_F64)) == 0);
    assert_int_equal(cj_numel(cj_inverse(a)), 0);
    assert_int_equal(cj_numel(cj_solve(a, cj_zeros(c, CJ_SHAPE(2, 0, 5), CJ_F64))), 0);
    assert_int_equal(cj_numel(cj_cholesky(a)), 0);
    assert_int_equal(cj_numel(cj_eigh(a).vectors), 0);
    cj_svd_result r = cj_svd(tall);
    assert_int_equal(cj_size(r.u, 0), 3);
    assert_int_equal(cj_size(r.s, 0), 0);
    assert_int_equal(cj_size(cj_qr(tall).q, 0), 3);
    assert_int_equal(cj_size(cj_pinv(tall), 1), 3);
    assert_true(distance(cj_lstsq(cj_zeros(c, CJ_SHAPE(0, 2), CJ_F64), cj_zeros(c, CJ_SHAPE(0, 1), CJ_F64)),
                         cj_zeros(c, CJ_SHAPE(2, 1), CJ_F64)) == 0);
    assert_near(cj_item(cj_matrix_norm(tall, CJ_NORM_2)), 0, 0);
    assert_near(cj_item(cj_matrix_norm(tall, CJ_NORM_INF)), 0, 0);
    assert_int_equal(value_at(cj_matrix_rank(tall), 0), 0);
    assert_int_equal(cj_numel(cj_matrix_exp(a)), 0);
    assert_int_equal(cj_definiteness(cj_zeros(c, CJ_SHAPE(0, 0), CJ_F64)), CJ_POSITIVE_SEMIDEFINITE);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *wrong_shape(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    return cj_zeros(c, CJ_SHAPE(cj_numel(in[0]) + 1), CJ_F64);
}
static cj_tensor *negated(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_neg(in[0]);
}

static void bad_input_is_refused_in_a_sentence(void **state)
{
    (void)state;
    cj_ctx *c = context(2, NULL);
    cj_tensor *m23 = cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32), *v = cj_zeros(c, CJ_SHAPE(3), CJ_F32),
              *half = cj_zeros(c, CJ_SHAPE(2, 2), CJ_BF16);
    assert_refused(CJ_ESHAPE, "inverse: the matrix [2, 3] is not square", cj_inverse(m23));
    assert_refused(CJ_ESHAPE, "svd: [3] is not a matrix or a batch of matrices", cj_svd(v).s);
    assert_refused(CJ_EDTYPE, "eigh: the matrix is bf16; f32 or f64 expected", cj_eigh(half).values);
    assert_refused(CJ_EDTYPE, "matrix_norm: the matrix is bf16; f32 or f64 expected", cj_matrix_norm(half, CJ_NORM_2));
    assert_refused(CJ_EDTYPE, "solve: dtypes f64 and f32; both must be the same", cj_solve(cj_eye(c, 3, CJ_F64), v));
    assert_refused(CJ_ESHAPE, "solve: the right-hand side [2, 3] does not fit the matrix [3, 3]", cj_solve(cj_eye(c, 3, CJ_F32), m23));
    assert_refused(CJ_ESHAPE, "solve: the batches of [4, 3, 3] and [2, 3, 1] do not broadcast",
                   cj_solve(cj_zeros(c, CJ_SHAPE(4, 3, 3), CJ_F32), cj_zeros(c, CJ_SHAPE(2, 3, 1), CJ_F32)));
    assert_refused(CJ_EVALUE, "qr: the matrix [1, 16385] has more than 16384 rows or columns",
                   cj_qr(cj_zeros(c, CJ_SHAPE(1, 16385), CJ_F32)).q);
    assert_refused(CJ_EVALUE, "pinv: rtol -1", cj_pinv(m23, .rtol = -1));
    assert_refused(CJ_EVALUE, "matrix_norm: there is no norm 17", cj_matrix_norm(m23, (cj_matrix_norm_kind)17));
    assert_refused(CJ_ESHAPE, "circulant_product: the vector [2, 3] does not fit a matrix with 2 columns",
                   cj_circulant_product(cj_zeros(c, CJ_SHAPE(2), CJ_F32), m23));
    assert_refused(CJ_ESHAPE, "null_space: [2, 2, 2] is not one matrix", cj_null_space(cj_zeros(c, CJ_SHAPE(2, 2, 2), CJ_F32)));
    assert_refused(CJ_ESHAPE, "definiteness: the matrix [2, 3] is not square", cj_definiteness(m23));
    assert_refused(CJ_ESHAPE, "eigh_general: f32 [2, 2] and f32 [3, 3] do not fit",
                   cj_eigh_general(cj_eye(c, 2, CJ_F32), cj_eye(c, 3, CJ_F32)).values);
    /* values, in small matrices and in large ones */
    for (int64_t n = 3; n <= 40; n += 37) {
        cj_tensor *good = cj_add(cj_zeros(c, CJ_SHAPE(4, n, n), CJ_F64), cj_eye(c, n, CJ_F64));
        double *x = values_of(good);
        char text[200];
        x[2 * n * n + 1 * n + 1] = -1;
        assert_refused(CJ_EVALUE, "cholesky: the matrix 2 of the batch is not positive definite, as seen at pivot 2",
                       cj_cholesky(f64(c, x, CJ_SHAPE(4, n, n))));
        x[2 * n * n + 1 * n + 1] = 0;
        assert_refused(CJ_EVALUE, "solve: the matrix 2 of the batch is singular: zero pivot 2",
                       cj_solve(f64(c, x, CJ_SHAPE(4, n, n)), good));
        assert_refused(CJ_EVALUE, "inverse: the matrix is singular: zero pivot 2", cj_inverse(f64(c, x + 2 * n * n, CJ_SHAPE(n, n))));
        assert_refused(CJ_EVALUE, "solve_triangular: the matrix 2 of the batch is singular: zero pivot 2",
                       cj_solve_triangular(f64(c, x, CJ_SHAPE(4, n, n)), good));
        assert_near(value_at(cj_det(f64(c, x, CJ_SHAPE(4, n, n))), 2), 0, 0);
        x[3 * n * n + 2] = NAN;
        snprintf(text, sizeof text, "element [0, 2] of the matrix 3 of the batch is NaN");
        cj_tensor *bad = f64(c, x, CJ_SHAPE(4, n, n));
        assert_refused(CJ_EVALUE, text, cj_svdvals(bad));
        assert_refused(CJ_EVALUE, text, cj_eigh(bad).values);
        assert_refused(CJ_EVALUE, text, cj_eigvals(bad));
        assert_refused(CJ_EVALUE, text, cj_qr(bad).r);
        assert_refused(CJ_EVALUE, text, cj_pinv(bad));
        assert_refused(CJ_EVALUE, text, cj_matrix_exp(bad));
        assert_refused(CJ_EVALUE, "element [0, 2] of the right-hand side 3 of the batch is NaN", cj_solve(good, bad));
        x[0] = INFINITY;
        assert_refused(CJ_EVALUE, "det: element [0, 0] of the matrix is infinite", cj_det(f64(c, x, CJ_SHAPE(n, n))));
        free(x);
    }
    assert_refused(CJ_EVALUE, "matrix_log: the matrix has no real principal logarithm", cj_matrix_log(F64(c, CJ_SHAPE(2, 2), 1, 0, 0, -1)));
    assert_refused(CJ_EVALUE, "matrix_sqrt: the matrix has no real principal square root",
                   cj_matrix_sqrt(F64(c, CJ_SHAPE(2, 2), 1, 0, 0, -1)));
    assert_refused(CJ_EVALUE, "matrix_sqrt: the matrix has no real principal square root",
                   cj_matrix_sqrt(F64(c, CJ_SHAPE(2, 2), 0, 1, 0, 0)));
    assert_refused(CJ_EVALUE, "matrix_exp: the matrix is too large for its exponential",
                   cj_matrix_exp(F64(c, CJ_SHAPE(1, 1), 1e308 * 1.5)));
    /* methods on functions */
    cj_tensor *start = cj_ones(c, CJ_SHAPE(3), CJ_F64), *none = cj_zeros(c, CJ_SHAPE(3), CJ_F64);
    assert_refused(CJ_EVALUE, "power_iteration: the function is NULL", cj_power_iteration(c, NULL, NULL, start).vector);
    assert_refused(CJ_EVALUE, "power_iteration: the start vector has length 0", cj_power_iteration(c, negated, NULL, none).vector);
    assert_refused(CJ_ESHAPE, "lanczos: the function made [4] of [3]; the same shape expected",
                   cj_lanczos(c, wrong_shape, NULL, start, 2).values);
    assert_refused(CJ_EVALUE, "lanczos: 4 steps for vectors of 3 elements; 1 to 3 are possible",
                   cj_lanczos(c, negated, NULL, start, 4).values);
    assert_refused(CJ_EVALUE, "conjugate_gradients: the map is not positive definite", cj_conjugate_gradients(c, negated, NULL, start).x);
    assert_refused(CJ_EDTYPE, "hutchinson: the vector is bf16; f32 or f64 expected", (cj_hutchinson(c, negated, NULL, half, 3), NULL));
    assert_refused(CJ_EVALUE, "hutchinson: 0 probes", (cj_hutchinson(c, negated, NULL, start, 0), NULL));
    /* NULL and poison pass through */
    assert_null(cj_inverse(NULL));
    assert_null(cj_solve(NULL, NULL));
    assert_null(cj_svd(NULL).s);
    (void)cj_inverse(m23);
    assert_true(cj_is_poison(cj_solve(cj_eye(c, 3, CJ_F32), v)));
    cj_clear(c);
    cj_ctx_free(c);
}

static void solve_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_solve(in[0], in[1]);
}
/* A plan meets a singular matrix in a later step: the same sentence, and the next step works again. */
static void a_replay_reports_singular_matrices(void **state)
{
    (void)state;
    cj_ctx *c = context(1, NULL);
    cj_tensor *in[2] = { cj_keep(cj_eye(c, 3, CJ_F32)), cj_keep(cj_ones(c, CJ_SHAPE(3, 1), CJ_F32)) },
              *bad[2] = { cj_keep(cj_zeros(c, CJ_SHAPE(3, 3), CJ_F32)), in[1] };
    cj_tensor *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    cj_plan *p = cj_capture(c, solve_step, NULL, in, 2, out);
    for (int i = 0; i < 3; i++) assert_true(cj_replay(p, in, out));
    assert_false(cj_replay(p, bad, out));
    assert_error(c, CJ_EVALUE, "solve: the matrix is singular: zero pivot 1");
    cj_clear(c);
    assert_true(cj_replay(p, in, out));
    assert_near(value_at(out[0], 2), 1, 0);
    cj_plan_free(p);
    cj_ctx_free(c);
}

/* Every allocation fails once: an error, no leak, no crash. */
static void survives_failing_allocations(void **state)
{
    (void)state;
    for (long fail = 0, done = 0; !done; fail++) {
        counter k = { .fail_at = fail };
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = seed, .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
        if (c) {
            cj_tensor *a = cj_require_grad(normal(c, CJ_SHAPE(2, 40, 40), CJ_F64)), *g;
            cj_tensor *y = cj_add(cj_sum(cj_svdvals(a)), cj_sum(cj_logdet(mm(a, cj_t(a)))));
            y = cj_add(y, cj_sum(cj_matrix_exp(cj_slice(a, 0, 0, 1, 1))));
            bool ok = cj_grad(y, &a, 1, &g) && cj_lanczos(c, negated, NULL, cj_ones(c, CJ_SHAPE(4), CJ_F64), 2).values != NULL;
            if (fail && k.allocs >= fail) assert_true(!ok || cj_ok(c) || cj_error(c) == CJ_EMEMORY);
            done = fail && k.allocs < fail;
            cj_ctx_free(c);
        }
        assert_balanced(&k);
    }
}

int main(void)
{
    const char *given = getenv("CAJAL_SEED");
    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu, LAPACK %s\n", (unsigned long long)seed, cj__dense_lapack() ? "found" : "not found");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_tables_decompose_random_matrices),
        cmocka_unit_test(own_equals_lapack),
        cmocka_unit_test(operators_leave_small_residuals),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(large_matrices),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(derivatives_at_repeated_values),
        cmocka_unit_test(third_derivatives),
        cmocka_unit_test(empty_matrices),
        cmocka_unit_test(bad_input_is_refused_in_a_sentence),
        cmocka_unit_test(a_replay_reports_singular_matrices),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
