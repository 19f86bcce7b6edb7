/* Bad input to cajal/math.h, by tables: every parameter of every distribution outside of its range, every decomposition of a matrix that holds NaN or infinity, singular and indefinite
 * matrices with their pivots, empty matrices, repeated eigenvalues under a derivative.  Each gets one sentence that names the place, and nothing is written to the terminal. */
#include <unistd.h>

#include "support.h"

#include <cajal/grad.h>
#include <cajal/math.h>

TEST_CONTEXT(.threads = 2, .seed = 43);

static int wrong;
static char complaint[400]; /* the first one */

/* What the library and those below it write to the terminal while a table is gone through: nothing. */
static int terminal[2];
static FILE *written;
static void listen(void)
{
    fflush(NULL);
    wrong = 0;
    written = tmpfile();
    assert_non_null(written);
    for (int fd = 0; fd < 2; fd++) {
        terminal[fd] = dup(1 + fd);
        dup2(fileno(written), 1 + fd);
    }
}
static long heard(void)
{
    fflush(NULL);
    for (int fd = 0; fd < 2; fd++) {
        dup2(terminal[fd], 1 + fd);
        close(terminal[fd]);
    }
    const long n = lseek(fileno(written), 0, SEEK_END);
    fclose(written);
    return n;
}

/* The error is `code`, its sentence contains `text`, names its place, and is one sentence; CJ_OK: there is none. */
static void expect(cj_code code, const char *text, const char *name)
{
    const char *m = cj_message(c);
    if (cj_error(c) != code || !strstr(m, text) || strchr(m, '\n') || (code != CJ_OK && !strstr(m, "(test_math_errors.c:"))) {
        if (!wrong++) snprintf(complaint, sizeof complaint, "%s: expected \"%s\", found %d \"%s\"", name, text, (int)cj_error(c), m);
    }
    cj_clear(c);
}

static void finished(void)
{
    const long bytes = heard();
    if (wrong) fail_msg("%d wrong, the first: %s", wrong, complaint);
    if (bytes) fail_msg("%ld bytes went to the terminal", bytes);
}

/* ---- parameters of distributions --------------------------------------------------------------------------------------------------------------------- */

typedef enum rule { FINITE, POSITIVE, NOT_NEGATIVE, PROBABILITY, WHOLE, LOGIT, NOT_ZERO, RULES } rule;
static const double outside[RULES][5] = {
    /* ended by a good value */
    [FINITE] = { NAN, INFINITY, -INFINITY, 1 }, [POSITIVE] = { 0, -1.5, NAN, INFINITY, 1 }, [NOT_NEGATIVE] = { -1.5, NAN, INFINITY, 1 },
    [PROBABILITY] = { -0.25, 1.25, NAN, 1 },    [WHOLE] = { -2, 2.5, NAN, INFINITY, 1 },    [LOGIT] = { NAN, INFINITY, 1 },
    [NOT_ZERO] = { 0, NAN, INFINITY, 1 },
};
typedef struct range {
    const char *dist;
    cj_dist (*make)(cj_tensor *const *in);
    int n;
    struct {
        const char *name;
        rule rule;
    } p[3];
} range;
#define LAW(name, expression)                                                                                                              \
    static cj_dist name(cj_tensor *const *in) { return expression; }
LAW(normal, cj_dist_normal(in[0], in[1]))
LAW(laplace, cj_dist_laplace(in[0], in[1]))
LAW(gumbel, cj_dist_gumbel(in[0], in[1]))
LAW(logistic, cj_dist_logistic(in[0], in[1]))
LAW(student, cj_dist_student_t(in[0], in[1], in[2]))
LAW(uniform, cj_dist_uniform(in[0], cj_add_scalar(in[1], 5)))
LAW(exponential, cj_dist_exponential(in[0]))
LAW(gamma_law, cj_dist_gamma(in[0], in[1]))
LAW(beta_law, cj_dist_beta(in[0], in[1]))
LAW(von_mises, cj_dist_von_mises(in[0], in[1]))
LAW(bernoulli, cj_dist_bernoulli(in[0]))
LAW(binomial, cj_dist_binomial(in[0], in[1]))
LAW(poisson, cj_dist_poisson(in[0]))
LAW(dirichlet, cj_dist_dirichlet(in[0]))
LAW(categorical, cj_dist_categorical(in[0]))
LAW(multinomial, cj_dist_multinomial(3, in[0]))
LAW(diagonal, cj_dist_diagonal_normal(in[0], in[1]))
LAW(multivariate, cj_dist_multivariate_normal(in[0], cj_eye(c, 3, CJ_F64), CJ_COVARIANCE))
LAW(low_rank, cj_dist_low_rank_normal(in[0], cj_unsqueeze(in[1], -1), in[2]))
LAW(log_normal, cj_dist_log_normal(in[0], in[1]))
LAW(affine, cj_dist_affine(cj_dist_normal(cj_zeros(c, CJ_SHAPE(3), CJ_F64), cj_ones(c, CJ_SHAPE(3), CJ_F64)), in[0], in[1]))
LAW(mixture, cj_dist_mixture(in[0], cj_dist_normal(cj_zeros(c, CJ_SHAPE(3), CJ_F64), cj_ones(c, CJ_SHAPE(3), CJ_F64))))
static const range ranges[] = {
    { "normal", normal, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "laplace", laplace, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "gumbel", gumbel, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "logistic", logistic, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "student_t", student, 3, { { "loc", FINITE }, { "scale", POSITIVE }, { "df", POSITIVE } } },
    { "uniform", uniform, 2, { { "low", FINITE }, { "high", FINITE } } },
    { "exponential", exponential, 1, { { "rate", POSITIVE } } },
    { "gamma", gamma_law, 2, { { "concentration", POSITIVE }, { "rate", POSITIVE } } },
    { "beta", beta_law, 2, { { "a", POSITIVE }, { "b", POSITIVE } } },
    { "von_mises", von_mises, 2, { { "loc", FINITE }, { "concentration", NOT_NEGATIVE } } },
    { "bernoulli", bernoulli, 1, { { "p", PROBABILITY } } },
    { "binomial", binomial, 2, { { "trials", WHOLE }, { "p", PROBABILITY } } },
    { "poisson", poisson, 1, { { "rate", NOT_NEGATIVE } } },
    { "dirichlet", dirichlet, 1, { { "concentration", POSITIVE } } },
    { "categorical", categorical, 1, { { "logits", LOGIT } } },
    { "multinomial", multinomial, 1, { { "logits", LOGIT } } },
    { "diagonal_normal", diagonal, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "multivariate_normal", multivariate, 1, { { "loc", FINITE } } },
    { "low_rank_normal", low_rank, 3, { { "loc", FINITE }, { "factor", FINITE }, { "diagonal", POSITIVE } } },
    { "normal", log_normal, 2, { { "loc", FINITE }, { "scale", POSITIVE } } },
    { "affine", affine, 2, { { "shift", FINITE }, { "factor", NOT_ZERO } } },
    { "categorical", mixture, 1, { { "logits", LOGIT } } },
};

static void every_parameter_of_every_distribution(void **state)
{
    (void)state;
    bool seen[CJ_DISTS] = { 0 };
    int asked = 0;
    listen();
    for (const range *r = ranges; r < ranges + sizeof ranges / sizeof *ranges; r++) {
        cj_tensor *in[3];
        for (int k = 0; k < r->n; k++) in[k] = cj_ones(c, CJ_SHAPE(3), CJ_F64);
        seen[r->make(in).kind] = true;
        assert_ok(c); /* ones are good */
        for (int k = 0; k < r->n; k++)
            for (const double *bad = outside[r->p[k].rule]; *bad != 1; bad++)
                for (int element = 0; element < 3; element += 2) {
                    cj_scope s = cj_scope_open(c);
                    double v[3] = { 1, 1, 1 };
                    char text[96];
                    v[element] = *bad;
                    cj_tensor *some[3] = { in[0], in[r->n > 1 ? 1 : 0], in[r->n > 2 ? 2 : 0] };
                    some[k] = f64(c, v, CJ_SHAPE(3));
                    snprintf(text, sizeof text, "%s: %s element %d: ", r->dist, r->p[k].name, element);
                    (void)r->make(some);
                    expect(CJ_EVALUE, text, r->dist);
                    asked++;
                    cj_scope_close(s);
                }
    }
    for (int k = 0; k < CJ_DISTS; k++) wrong += !seen[k];
    finished();
    assert_true(asked > 200);
    /* what is no single element: an empty interval, no class, no trials, covariances */
    cj_tensor *two = F64(c, CJ_SHAPE(2), 0, 0), *indefinite = F64(c, CJ_SHAPE(2, 2), 1, 2, 2, 1);
    assert_refused(CJ_EVALUE, "uniform: high - low element 1: a positive number is expected, found -1",
                   cj_dist_uniform(F64(c, CJ_SHAPE(2), 0, 2), F64(c, CJ_SHAPE(2), 1, 1)));
    assert_refused(CJ_EVALUE, "categorical: logsumexp of logits element 0", cj_dist_categorical(F64(c, CJ_SHAPE(2), -INFINITY, -INFINITY)));
    assert_refused(CJ_EVALUE, "multinomial: trials: a number from 0 on is expected, found -1", cj_dist_multinomial(-1, two));
    assert_refused(CJ_EVALUE, "is not positive definite, as seen at pivot 2", cj_dist_multivariate_normal(two, indefinite, CJ_COVARIANCE));
    assert_refused(CJ_EVALUE, "is not positive definite, as seen at pivot 2", cj_dist_multivariate_normal(two, indefinite, CJ_PRECISION));
    assert_refused(CJ_EVALUE, "element 1", cj_dist_multivariate_normal(two, F64(c, CJ_SHAPE(2, 2), 1, 0, 0, -1), CJ_SCALE_TRIL));
}

/* ---- matrices ----------------------------------------------------------------------------------------------------------------------------------------- */

#define OP(name, expression)                                                                                                               \
    static void op_##name(cj_tensor *a) { (void)(expression); }
#define RHS cj_ones(c, CJ_SHAPE(cj_size(a, -2), 2), CJ_F64)
OP(cholesky, cj_cholesky(a))
OP(solve, cj_solve(a, RHS))
OP(solve_triangular, cj_solve_triangular(a, RHS))
OP(inverse, cj_inverse(a))
OP(det, cj_det(a))
OP(slogdet, cj_slogdet(a).sign)
OP(logdet, cj_logdet(a))
OP(qr, cj_qr(a).q)
OP(eigh, cj_eigh(a).values)
OP(eigvalsh, cj_eigvalsh(a))
OP(eigh_general, cj_eigh_general(cj_eye(c, cj_size(a, -1), CJ_F64), a).values)
OP(eig, cj_eig(a).values)
OP(eigvals, cj_eigvals(a))
OP(svd, cj_svd(a).s)
OP(svdvals, cj_svdvals(a))
OP(pinv, cj_pinv(a))
OP(lstsq, cj_lstsq(a, RHS))
OP(matrix_rank, cj_matrix_rank(a))
OP(null_space, cj_null_space(a))
OP(definiteness, cj_definiteness(a))
OP(spectral_radius, cj_spectral_radius(a))
OP(matrix_exp, cj_matrix_exp(a))
OP(matrix_log, cj_matrix_log(a))
OP(matrix_sqrt, cj_matrix_sqrt(a))
OP(matrix_inverse_sqrt, cj_matrix_inverse_sqrt(a))
OP(nuclear_norm, cj_matrix_norm(a, CJ_NORM_NUC))
OP(norm_2, cj_matrix_norm(a, CJ_NORM_2))
OP(cond, cj_cond(a, CJ_NORM_2))
OP(inverse_power, cj_matrix_power(a, -2))
OP(covariance, cj_dist_multivariate_normal(cj_zeros(c, CJ_SHAPE(cj_size(a, -1)), CJ_F64), a, CJ_COVARIANCE).p[1])
typedef struct matrix_op {
    const char *name;
    void (*call)(cj_tensor *a);
    const char *pivot; /* how it says that a pivot is zero; NULL: singular matrices are good */
} matrix_op;
#define SINGULAR "is singular: zero pivot"
#define INDEFINITE "is not positive definite, as seen at pivot"
static const matrix_op matrix_ops[] = {
    { "cholesky", op_cholesky, INDEFINITE },
    { "solve", op_solve, SINGULAR },
    { "solve_triangular", op_solve_triangular, SINGULAR },
    { "inverse", op_inverse, SINGULAR },
    { "det", op_det, NULL },
    { "slogdet", op_slogdet, NULL },
    { "logdet", op_logdet, NULL },
    { "qr", op_qr, NULL },
    { "eigh", op_eigh, NULL },
    { "eigvalsh", op_eigvalsh, NULL },
    { "eigh_general", op_eigh_general, INDEFINITE },
    { "eig", op_eig, NULL },
    { "eigvals", op_eigvals, NULL },
    { "svd", op_svd, NULL },
    { "svdvals", op_svdvals, NULL },
    { "pinv", op_pinv, NULL },
    { "lstsq", op_lstsq, NULL },
    { "matrix_rank", op_matrix_rank, NULL },
    { "null_space", op_null_space, NULL },
    { "definiteness", op_definiteness, NULL },
    { "spectral_radius", op_spectral_radius, NULL },
    { "matrix_exp", op_matrix_exp, NULL },
    { "matrix_log", op_matrix_log, "no real principal logarithm" },
    { "matrix_sqrt", op_matrix_sqrt, NULL },
    { "matrix_inverse_sqrt", op_matrix_inverse_sqrt, "" },
    { "matrix_norm nuclear", op_nuclear_norm, NULL },
    { "matrix_norm 2", op_norm_2, NULL },
    { "cond", op_cond, NULL },
    { "matrix_power -2", op_inverse_power, SINGULAR },
    { "multivariate_normal", op_covariance, INDEFINITE },
};
#define EACH(o) for (const matrix_op *o = matrix_ops; o < matrix_ops + sizeof matrix_ops / sizeof *matrix_ops; o++)

/* Sizes for the small kernels, for LAPACK and for what takes its place. */
static const int64_t sizes[] = { 3, 16, 40 };

static void nan_and_infinity_are_named(void **state)
{
    (void)state;
    static const double values[] = { NAN, INFINITY, -INFINITY };
    listen();
    EACH(o)
    for (int k = 0; k < 3; k++)
        for (int v = 0; v < 3; v++) {
            const int64_t n = sizes[k], row = n - 1, column = n / 2; /* in the triangle that symmetric ones read */
            double *x = calloc((size_t)(n * n), sizeof *x);
            char text[96];
            for (int64_t i = 0; i < n; i++) x[i * n + i] = 2;
            x[row * n + column] = values[v];
            cj_scope s = cj_scope_open(c);
            o->call(f64(c, x, CJ_SHAPE(n, n)));
            snprintf(text, sizeof text, "element [%lld, %lld] of the matrix is %s", (long long)row, (long long)column,
                     v ? "infinite" : "NaN");
            if (o->call == op_covariance)
                snprintf(text, sizeof text, "covariance element %lld: a finite number is expected", (long long)(row * n + column));
            expect(CJ_EVALUE, text, o->name);
            cj_scope_close(s);
            free(x);
        }
    finished();
}

static void singular_matrices_name_the_pivot(void **state)
{
    (void)state;
    listen();
    EACH(o)
    for (int k = 0; k < 3; k++)
        for (int last = 0; last < 2; last++) {
            const int64_t n = sizes[k], pivot = last ? n - 1 : 1;
            double *x = calloc((size_t)(n * n), sizeof *x);
            char text[96];
            for (int64_t i = 0; i < n; i++) x[i * n + i] = i == pivot ? 0 : 2;
            cj_scope s = cj_scope_open(c);
            o->call(f64(c, x, CJ_SHAPE(n, n)));
            const bool counts = o->pivot && (strcmp(o->pivot, SINGULAR) == 0 || strcmp(o->pivot, INDEFINITE) == 0);
            if (counts) snprintf(text, sizeof text, "%s %lld", o->pivot, (long long)pivot + 1);
            if (o->pivot) expect(CJ_EVALUE, counts ? text : o->pivot, o->name);
            else expect(CJ_OK, "", o->name);
            cj_scope_close(s);
            free(x);
        }
    finished();
}

static void empty_matrices_are_good(void **state)
{
    (void)state;
    listen();
    EACH(o)
    {
        cj_scope s = cj_scope_open(c);
        if (o->call != op_covariance) o->call(cj_zeros(c, CJ_SHAPE(0, 0), CJ_F64));
        expect(CJ_OK, "", o->name);
        cj_scope_close(s);
    }
    finished();
}

/* The identity has one eigenvalue and one singular value, n times: derivatives of what goes through them are finite. */
static void repeated_values_have_finite_derivatives(void **state)
{
    (void)state;
    for (int what = 0; what < 6; what++)
        for (int k = 0; k < 3; k++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *a = cj_require_grad(cj_eye(c, sizes[k], CJ_F64)), *g;
            cj_eigen e = what < 2    ? cj_eigh(a)
                         : what == 4 ? cj_eigh_general(a, cj_eye(c, sizes[k], CJ_F64))
                         : what == 5 ? cj_eig(a)
                                     : (cj_eigen){ 0 };
            cj_tensor *y = what == 0   ? cj_sum(cj_square(e.values))
                           : what == 1 ? cj_sum(cj_square(cj_add(e.vectors, a)))
                           : what == 2 ? cj_sum(cj_svd(a).s)
                           : what == 3 ? cj_sum(cj_add(cj_svd(a).u, cj_svd(a).vh))
                           : what == 4 ? cj_sum(e.values)
                                       : cj_sum(cj_square(e.values));
            assert_true(cj_grad(y, &a, 1, &g));
            assert_ok(c);
            double *x = values_of(g);
            for (int64_t i = 0; i < cj_numel(g); i++)
                if (!isfinite(x[i])) fail_msg("case %d of %lld rows: element %lld is %g", what, (long long)sizes[k], (long long)i, x[i]);
            free(x);
            cj_scope_close(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_of_every_distribution),   cmocka_unit_test(nan_and_infinity_are_named),
        cmocka_unit_test(singular_matrices_name_the_pivot),        cmocka_unit_test(empty_matrices_are_good),
        cmocka_unit_test(repeated_values_have_finite_derivatives),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
