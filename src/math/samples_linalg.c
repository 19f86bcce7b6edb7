/* Samples of linear algebra.  Matrices are made well conditioned inside the call, and results are brought into a form that does not depend on
 * the choice of vectors: for a decomposition, functions of the matrix that it makes up. */
#include <math.h>

#include "math/linalg.h"
#include "ops/samples_list.h"

/* x/4 + 3·1: every x of these samples leaves it far from singular. */
static cj_tensor *regular(cj_tensor *x)
{
    return cj_add(cj_mul_scalar(x, 0.25), cj_mul_scalar(cj_eye(x->ctx, cj__columns(x), cj_dtype_of(x)), 3));
}
/* Symmetric with eigenvalues about 1, 2, 3 … and a little of x. */
static cj_tensor *symmetric(cj_tensor *x)
{
    const int64_t n = cj__columns(x);
    cj_tensor *d = cj_add_scalar(cj_arange(x->ctx, 0, (double)n, 1, cj_dtype_of(x)), 1);
    return cj_add(cj_mul_scalar(cj_add(x, cj_t(x)), 0.05), cj_mul(d, cj_eye(x->ctx, n, cj_dtype_of(x))));
}
static cj_tensor *positive(cj_tensor *x) { return cj_add(cj_mul_scalar(cj_matmul(x, cj_t(x)), 0.25), symmetric(x)); }
/* Rows and columns of their own size, so that singular values differ. */
static cj_tensor *graded(cj_tensor *x)
{
    const int64_t n = cj__columns(x), m = cj__rows(x);
    cj_tensor *j = cj_arange(x->ctx, 0, (double)n, 1, cj_dtype_of(x)), *i = cj_arange(x->ctx, 0, (double)m, 1, cj_dtype_of(x));
    cj_tensor *diagonal = cj_cast(cj_eq(cj_unsqueeze(i, -1), j), cj_dtype_of(x));
    return cj_add(cj_mul_scalar(x, 0.1), cj_mul(diagonal, cj_add_scalar(j, 1)));
}
static cj_tensor *scaled(cj_tensor *a, cj_tensor *w) { return cj_mul(a, cj_unsqueeze(w, -2)); }

CALL(factor_lower) { return UNUSED, cj_cholesky(positive(in[0]), NULL); }
CALL(factor_upper) { return UNUSED, cj_cholesky(positive(in[0]), &(cj_cholesky_opts){ .upper = true }); }
CALL(solve_triangle)
{
    return UNUSED,
           cj_solve_triangular(regular(in[0]), in[1], &(cj_triangular_opts){ .upper = s->at[0], .transpose = s->at[1], .unit = s->at[2] });
}
CALL(solve_general) { return UNUSED, cj_solve(regular(in[0]), in[1]); }
CALL(invert) { return UNUSED, cj_inverse(regular(in[0])); }
CALL(determinant) { return UNUSED, cj_det(cj_mul_scalar(regular(in[0]), 0.4)); }
CALL(log_determinant) { return UNUSED, cj_slogdet(regular(in[0])).logabsdet; }
CALL(log_det) { return UNUSED, cj_logdet(regular(in[0])); }
CALL(cofactors) { return UNUSED, cj__cofactor(cj_mul_scalar(regular(in[0]), 0.4)); }
/* V·diag(sin w)·Vᵀ and |V|²: both without signs. */
CALL(eigen_function)
{
    cj_eigen e = cj_eigh(symmetric(in[0]));
    UNUSED;
    return s->at[0] ? cj_square(e.vectors) : cj_matmul(scaled(e.vectors, cj_sin(e.values)), cj_t(e.vectors));
}
CALL(eigen_values) { return UNUSED, cj_eigvalsh(symmetric(in[0])); }
CALL(eigen_pencil)
{
    cj_eigen e =
        cj_eigh_general(symmetric(in[0]), cj_add(cj_mul_scalar(positive(in[1]), 0.1), cj_eye(c, cj__columns(in[1]), cj_dtype_of(in[1]))));
    (void)s;
    return cj_matmul(scaled(e.vectors, cj_sin(e.values)), cj_t(e.vectors));
}
/* Power sums over the eigenvalues, with weights |v|² or without: in any order the same. A rotation in the plane makes a complex pair. */
static cj_tensor *turned(cj_tensor *x)
{
    const int64_t n = cj__columns(x);
    cj_tensor *i = cj_arange(x->ctx, 0, (double)n, 1, cj_dtype_of(x)),
              *up = cj_cast(cj_eq(cj_add_scalar(cj_unsqueeze(i, -1), 1), i), cj_dtype_of(x));
    cj_tensor *first = cj_mul(up, cj_cast(cj_lt_scalar(i, 2), cj_dtype_of(x)));
    return cj_add(graded(x), cj_mul_scalar(cj_sub(first, cj_t(first)), 2));
}
CALL(general_values)
{
    cj_tensor *w = cj_eigvals(turned(in[0])), *re = cj_select(w, -1, 0), *im = cj_select(w, -1, 1);
    UNUSED;
    return cj_sum(cj_mul(cj_sin(re), cj_exp(cj_mul_scalar(cj_square(im), -0.5))), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}
CALL(general_vectors) /* sum over k of exp(-w_re)·cos(w_im)·|v_ik|² */
{
    cj_eigen e = cj_eig(turned(in[0]));
    cj_tensor *re = cj_select(e.values, -1, 0), *im = cj_select(e.values, -1, 1);
    UNUSED;
    cj_tensor *size = cj_sum(cj_square(e.vectors), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
    return cj_sum(scaled(size, cj_mul(cj_exp(cj_mul_scalar(re, -0.25)), cj_cos(im))), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}
CALL(radius) { return UNUSED, cj_spectral_radius(turned(in[0])); }
/* u·diag(sin s)·vh, |u|² and |vh|². */
CALL(singular_function)
{
    cj_svd_result r = cj_svd(graded(in[0]));
    UNUSED;
    return s->at[0] == 1 ? cj_square(r.u) : s->at[0] == 2 ? cj_square(r.vh) : cj_matmul(scaled(r.u, cj_sin(r.s)), r.vh);
}
CALL(singular_values) { return UNUSED, cj_svdvals(graded(in[0])); }
CALL(orthogonal_part) /* signs of columns are the same everywhere: Householder's */
{
    cj_qr_result r = cj_qr(graded(in[0]));
    UNUSED;
    return s->at[0] ? cj_square(r.r) : cj_square(r.q);
}
CALL(pseudo_inverse) { return UNUSED, cj_pinv(graded(in[0]), NULL); }
CALL(least_squares) { return UNUSED, cj_lstsq(graded(in[0]), in[1], NULL); }
CALL(exponential) { return UNUSED, cj_matrix_exp(cj_mul_scalar(in[0], s->number)); }
CALL(logarithm) { return UNUSED, cj_matrix_log(s->at[0] ? positive(in[0]) : regular(in[0])); }
CALL(root) { return UNUSED, cj_matrix_sqrt(s->at[0] ? positive(in[0]) : regular(in[0])); }
CALL(inverse_root) { return UNUSED, cj_matrix_inverse_sqrt(positive(in[0])); }
CALL(power) { return UNUSED, cj_matrix_power(cj_mul_scalar(regular(in[0]), 0.4), s->at[0]); }
CALL(rank) { return UNUSED, cj_matrix_rank(graded(in[0]), NULL); }
CALL(matrix_norm) { return UNUSED, cj_matrix_norm(graded(in[0]), (cj_matrix_norm_kind)s->at[0]); }
CALL(condition) { return UNUSED, cj_cond(cj_slice(graded(in[0]), -2, 0, cj__columns(in[0]), 1), (cj_matrix_norm_kind)s->at[0]); }
CALL(toeplitz_of_three) { return UNUSED, cj_toeplitz_product(in[0], in[1], in[2]); }

void cj__samples_linalg(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const unsigned flags = CJ_SAMPLE_FLOAT;
    const struct {
        const char *label;
        cj_shape a, b; /* a matrix, a right-hand side */
    } squares[] = {
        { "one matrix", CJ_SHAPE(3, 3), CJ_SHAPE(3, 2) },
        { "batch", CJ_SHAPE(2, 4, 4), CJ_SHAPE(2, 4, 1) },
        { "shared right-hand side", CJ_SHAPE(2, 2, 3, 3), CJ_SHAPE(3) },
        { "one element", CJ_SHAPE(1, 1), CJ_SHAPE(1, 1) },
        { "no matrix", CJ_SHAPE(0, 3, 3), CJ_SHAPE(3, 2) },
        { "empty matrix", CJ_SHAPE(2, 0, 0), CJ_SHAPE(2, 0, 3) },
    };
    const struct {
        const char *name;
        cj_sample_fn *call;
        int64_t at; /* the number of variants, at[0] = 0, 1 … */
        bool rhs;
    } of_square[] = {
        { "cholesky", factor_lower, 1, false },  { "cholesky", factor_upper, 1, false },
        { "solve", solve_general, 1, true },     { "inverse", invert, 1, false },
        { "det", determinant, 1, false },        { "slogdet", log_determinant, 1, false },
        { "logdet", log_det, 1, false },         { "cofactor", cofactors, 1, false },
        { "eigh", eigen_function, 2, false },    { "eigvalsh", eigen_values, 1, false },
        { "eigvals", general_values, 1, false }, { "eig", general_vectors, 1, false },
        { "spectral_radius", radius, 1, false }, { "matrix_log", logarithm, 2, false },
        { "matrix_sqrt", root, 2, false },       { "matrix_inverse_sqrt", inverse_root, 1, false },
    };
    enum { SQUARES = sizeof squares / sizeof squares[0] };
    for (size_t k = 0; k < sizeof of_square / sizeof of_square[0]; k++)
        for (int i = 0; i < SQUARES && IS(of_square[k].name); i++)
            for (int64_t at = 0; at < of_square[k].at; at++) {
                cj_sample *s = input(add(l, squares[i].label, of_square[k].call, flags), squares[i].a, real);
                if (of_square[k].rhs) input(s, squares[i].b, real);
                s->at[0] = at;
                s->terms = 1000; /* condition numbers up to 30 */
                s->tolerance = 1e-5;
                s->step = 1e-5;
            }
    for (int i = 0; i < SQUARES; i++)
        for (int form = 0; form < 8 && IS("solve_triangular") && (i < 2 || form == 0); form++) {
            cj_sample *s = input(input(add(l, squares[i].label, solve_triangle, flags), squares[i].a, real), squares[i].b, real);
            s->at[0] = form & 1, s->at[1] = form >> 1 & 1, s->at[2] = form >> 2;
            s->terms = 1000;
            s->tolerance = 1e-5;
        }
    if (IS("eigh_general")) {
        input(input(add(l, "pencil", eigen_pencil, flags), CJ_SHAPE(3, 3), real), CJ_SHAPE(3, 3), real);
        input(input(add(l, "batch", eigen_pencil, flags), CJ_SHAPE(2, 3, 3), real), CJ_SHAPE(3, 3), real);
        for (int i = 0; i < l->n; i++) l->out[i].terms = 1000, l->out[i].tolerance = 1e-5, l->out[i].step = 1e-5;
    }
    const cj_shape any[] = { CJ_SHAPE(4, 3), CJ_SHAPE(2, 3, 4), CJ_SHAPE(3, 3), CJ_SHAPE(2, 1, 3), CJ_SHAPE(0, 3, 2), CJ_SHAPE(2, 0, 3) };
    const char *const any_label[] = { "tall", "wide", "square", "one row", "no matrix", "no rows" };
    const struct {
        const char *name;
        cj_sample_fn *call;
        int64_t at;
        int64_t rhs; /* columns */
    } of_any[] = {
        { "svd", singular_function, 3, 0 },   { "svdvals", singular_values, 1, 0 }, { "qr", orthogonal_part, 2, 0 },
        { "pinv", pseudo_inverse, 1, 0 },     { "lstsq", least_squares, 1, 2 },     { "matrix_rank", rank, 1, 0 },
        { "matrix_norm", matrix_norm, 5, 0 },
    };
    for (size_t k = 0; k < sizeof of_any / sizeof of_any[0]; k++)
        for (int i = 0; i < 6 && IS(of_any[k].name); i++)
            for (int64_t at = 0; at < of_any[k].at; at++) {
                cj_sample *s = input(add(l, any_label[i], of_any[k].call, flags), any[i], real);
                cj_shape b = any[i];
                b.dim[b.ndim - 1] = of_any[k].rhs;
                if (of_any[k].rhs) input(s, b, real);
                s->at[0] = at;
                s->terms = 1000;
                s->tolerance = 1e-5;
                s->step = 1e-5;
            }
    for (int64_t at = CJ_NORM_FRO; at <= CJ_NORM_2 && IS("cond"); at++) {
        cj_sample *s = input(add(l, "square", condition, flags), CJ_SHAPE(2, 3, 3), real);
        s->at[0] = at, s->terms = 1000, s->tolerance = 1e-5, s->step = 1e-5;
    }
    for (int i = 0; i < 4 && IS("matrix_exp"); i++) {
        cj_sample *s = input(add(l, i == 3 ? "squared" : squares[i].label, exponential, flags),
                             i == 3 ? CJ_SHAPE(3, 3) : squares[i ? i + 2 : 0].a, real);
        s->number = i == 3 ? 1 : 0.25;
        s->terms = 1000, s->tolerance = 1e-5, s->step = 1e-5;
    }
    for (int64_t n = -2; n <= 3 && IS("matrix_power"); n++) {
        cj_sample *s = input(add(l, "power", power, flags), CJ_SHAPE(2, 3, 3), real);
        s->at[0] = n, s->terms = 1000, s->tolerance = 1e-5;
    }
    if (IS("matrix_trace")) {
        input(add(l, "matrix", unary, flags), CJ_SHAPE(3, 4), real)->fn.unary = cj_matrix_trace;
        input(add(l, "batch", unary, flags), CJ_SHAPE(2, 3, 3), real)->fn.unary = cj_matrix_trace;
        for (int i = 0; i < l->n; i++) l->out[i].terms = 3;
    }
    if (IS("circulant")) {
        input(add(l, "vector", unary, flags), CJ_SHAPE(5), real)->fn.unary = cj_circulant;
        input(add(l, "batch", unary, flags), CJ_SHAPE(2, 3), real)->fn.unary = cj_circulant;
    }
    if (IS("toeplitz")) {
        input(input(add(l, "wide", binary, flags), CJ_SHAPE(3), real), CJ_SHAPE(5), real)->fn.binary = cj_toeplitz;
        input(input(add(l, "batch", binary, flags), CJ_SHAPE(2, 4), real), CJ_SHAPE(2, 1), real)->fn.binary = cj_toeplitz;
    }
    if (IS("circulant_product")) {
        cj_sample *s = input(input(add(l, "vectors", binary, flags), CJ_SHAPE(4), real), CJ_SHAPE(3, 4), real);
        s->fn.binary = cj_circulant_product, s->terms = 4;
    }
    if (IS("toeplitz_product"))
        input(input(input(add(l, "vectors", toeplitz_of_three, flags), CJ_SHAPE(3), real), CJ_SHAPE(4), real), CJ_SHAPE(2, 4), real)
            ->terms = 4;
}
