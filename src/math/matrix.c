/* Linear algebra made of other operators: powers, norms, ranks, structured matrices, the generalised eigenproblem, definiteness. */
#include <float.h>
#include <math.h>

#include "math/linalg.h"

enum {
    LOGDET,
    EIGH_GENERAL,
    INVERSE_SQRT,
    POWER,
    RANK,
    RADIUS,
    NORM,
    COND,
    TRACE,
    CIRCULANT,
    TOEPLITZ,
    CIRCULANT_PRODUCT,
    TOEPLITZ_PRODUCT
};

/* A body that fails: the error is set. */
#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) return in[0]->ctx->poison;                                                                                       \
    } while (0)
static bool square(const char *op, const cj_tensor *a) { return cj__real_matrix(a->ctx, op, a, true); }
static bool matrix(const char *op, const cj_tensor *a) { return cj__real_matrix(a->ctx, op, a, false); }
static cj_tensor *sum_last(cj_tensor *x) { return cj_sum(x, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }); }
static cj_tensor *largest(cj_tensor *x)
{
    if (x->ctx->error || x->shape[x->ndim - 1]) return cj_max(x, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
    return sum_last(x); /* of nothing: 0 */
}

/* ---- determinants, functions ------------------------------------------------------------------------------------------------------------------- */

CJ_COMPOSE(logdet)
{
    CHECK(square("logdet", in[0]));
    cj_slogdet_result r = cj_slogdet(in[0]);
    return cj_masked_fill(r.logabsdet, cj_lt_scalar(r.sign, 0), NAN);
}

/* B = L·Lᵀ turns A·v = w·B·v into (L⁻¹·A·L⁻ᵀ)·z = w·z with v = L⁻ᵀ·z. */
static bool define_eigh_general(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)attrs, (void)nin;
    if (!square("eigh_general", in[0]) || !square("eigh_general", in[1])) return false;
    if (in[0]->dtype != in[1]->dtype || cj__columns(in[0]) != cj__columns(in[1]))
        return cj__error(c, in[0]->dtype != in[1]->dtype ? CJ_EDTYPE : CJ_ESHAPE, "eigh_general: %s %s and %s %s do not fit",
                         cj_dtype_name((cj_dtype)in[0]->dtype), cj__tensor_text(in[0]), cj_dtype_name((cj_dtype)in[1]->dtype),
                         cj__tensor_text(in[1]));
    cj_tensor *l = cj_cholesky(in[1], NULL), *left = cj_solve_triangular(l, in[0], NULL);
    cj_eigen e = cj_eigh(cj__symmetric_part(cj_solve_triangular(l, cj_t(left), NULL)));
    out[0] = e.values;
    out[1] = cj_solve_triangular(l, e.vectors, &(cj_triangular_opts){ .transpose = true });
    return c->error == CJ_OK;
}

CJ_COMPOSE(matrix_inverse_sqrt)
{
    CHECK(square("matrix_inverse_sqrt", in[0]));
    return cj_inverse(cj_matrix_sqrt(in[0]));
}

CJ_COMPOSE(matrix_power)
{
    CHECK(square("matrix_power", in[0]));
    int64_t n = *(const int64_t *)attrs;
    cj_tensor *base = n < 0 ? cj_inverse(in[0]) : in[0], *y = NULL;
    for (uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n; left; left >>= 1) {
        if (left & 1) y = y ? cj_matmul(y, base) : base;
        if (left > 1) base = cj_matmul(base, base);
    }
    if (y && n != 1) return y;
    cj_tensor *one = cj_eye(in[0]->ctx, cj__columns(in[0]), (cj_dtype)in[0]->dtype);
    return y ? cj_clone(y) : cj_clone(cj_expand(one, cj__shape(in[0])));
}

/* ---- ranks, norms ------------------------------------------------------------------------------------------------------------------------------ */

CJ_COMPOSE(matrix_rank)
{
    CHECK(matrix("matrix_rank", in[0]));
    cj_tensor *s = cj_detach(cj_svdvals(in[0]));
    cj_tensor *limit = cj_mul_scalar(cj_unsqueeze(largest(s), -1), *(const double *)attrs);
    return sum_last(cj_cast(cj_gt(s, limit), CJ_I64));
}

CJ_COMPOSE(spectral_radius)
{
    CHECK(square("spectral_radius", in[0]));
    return largest(cj__safe_root(sum_last(cj_square(cj_eigvals(in[0])))));
}

/* The last two axes as one: of a permuted matrix too. */
static cj_tensor *elements(cj_tensor *a) { return cj_flatten(a, a->ndim - 2); }

CJ_COMPOSE(matrix_norm)
{
    CHECK(matrix("matrix_norm", in[0]));
    cj_tensor *a = in[0];
    switch (*(const int64_t *)attrs) {
    case CJ_NORM_FRO: return cj__safe_root(sum_last(cj_square(elements(a))));
    case CJ_NORM_NUC: return sum_last(cj_svdvals(a));
    case CJ_NORM_1: return largest(sum_last(cj_t(cj_abs(a))));
    case CJ_NORM_INF: return largest(sum_last(cj_abs(a)));
    default: return largest(cj_svdvals(a));
    }
}

CJ_COMPOSE(cond)
{
    const cj_matrix_norm_kind kind = (cj_matrix_norm_kind) * (const int64_t *)attrs;
    CHECK(kind == CJ_NORM_2 ? matrix("cond", in[0]) : square("cond", in[0]));
    if (kind != CJ_NORM_2) return cj_mul(cj_matrix_norm(in[0], kind), cj_matrix_norm(cj_inverse(in[0]), kind));
    cj_tensor *s = cj_svdvals(in[0]);
    if (s->ctx->error || s->shape[s->ndim - 1] == 0) return largest(s);
    return cj_div(cj_select(s, -1, 0), cj_select(s, -1, s->shape[s->ndim - 1] - 1));
}

/* ---- products and structure -------------------------------------------------------------------------------------------------------------------- */

CJ_COMPOSE(matrix_trace)
{
    CHECK(matrix("matrix_trace", in[0]));
    return sum_last(cj_diagonal(in[0], 0, -2, -1));
}

/* x [.., n] at places (i - j + shift) mod n of its last axis -> [.., rows, columns] */
static cj_tensor *along_diagonals(cj_tensor *x, int64_t rows, int64_t columns, int64_t shift)
{
    cj_ctx *c = x->ctx;
    cj_tensor *i = cj_unsqueeze(cj_arange(c, (double)shift, (double)(shift + rows), 1, CJ_I64), -1),
              *j = cj_arange(c, 0, (double)columns, 1, CJ_I64);
    cj_tensor *place = cj_sub(i, j), *n = cj_full(c, (double)x->shape[x->ndim - 1], CJ_SCALAR, CJ_I64);
    cj_tensor *y = cj_index_select(x, -1, cj_flatten(cj_remainder(place, n), 0));
    if (c->error) return c->poison;
    cj_shape s = cj__shape(y);
    s.dim[s.ndim - 1] = rows;
    s.dim[s.ndim++] = columns;
    return cj_reshape(y, s);
}
static bool vectors(const char *op, cj_tensor *const *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (in[i]->ndim < 1 || in[i]->ndim >= CJ_MAX_DIMS || in[i]->shape[in[i]->ndim - 1] < 1)
            return cj__error(in[i]->ctx, CJ_ESHAPE, "%s: %s is not a vector or a batch of vectors", op, cj__tensor_text(in[i]));
        if (in[i]->dtype != in[0]->dtype)
            return cj__error(in[i]->ctx, CJ_EDTYPE, "%s: dtypes %s and %s; both must be the same", op,
                             cj_dtype_name((cj_dtype)in[0]->dtype), cj_dtype_name((cj_dtype)in[i]->dtype));
    }
    return true;
}
static int64_t length(const cj_tensor *x) { return x->shape[x->ndim - 1]; }

CJ_COMPOSE(circulant)
{
    CHECK(vectors("circulant", in, 1));
    return along_diagonals(in[0], length(in[0]), length(in[0]), 0);
}
/* row[n-1] … row[1] column[0] … column[m-1]: place i - j + n - 1. */
CJ_COMPOSE(toeplitz)
{
    CHECK(vectors("toeplitz", in, 2));
    const int64_t m = length(in[0]), n = length(in[1]);
    cj_tensor *above = cj_slice(in[1], -1, -1, 0, -1);
    return along_diagonals(cj_cat((cj_tensor *[]){ above, in[0] }, 2, -1), m, n, n - 1);
}
static cj_tensor *times_vector(const char *op, cj_tensor *a, cj_tensor *x)
{
    if (a->ctx->error) return a;
    if (length(a) != length(x))
        return cj_fail(a->ctx, CJ_ESHAPE, "%s: the vector %s does not fit a matrix with %lld columns", op, cj__tensor_text(x),
                       (long long)length(a));
    return cj_squeeze(cj_matmul(a, cj_unsqueeze(x, -1)), -1);
}
/* From here on a product by Fourier transforms costs less than the matrix. */
enum { BY_TRANSFORMS = 64 };
/* The convolution of sequences along the last axis, with as many axes on both sides. */
static cj_tensor *convolve(cj_tensor *a, cj_tensor *b, cj_convolve_mode mode)
{
    while (a->ndim < b->ndim && !a->ctx->error) a = cj_unsqueeze(a, 0);
    while (b->ndim < a->ndim && !b->ctx->error) b = cj_unsqueeze(b, 0);
    return cj_fft_convolve(a, b, &(cj_convolve_opts){ .mode = mode });
}
/* The eigenvectors of every circulant matrix are the waves: circulant(c)·x is a cyclic convolution. */
CJ_COMPOSE(circulant_product)
{
    CHECK(vectors("circulant_product", in, 2));
    if (length(in[0]) >= BY_TRANSFORMS && length(in[0]) == length(in[1])) return convolve(in[0], in[1], CJ_CONVOLVE_CYCLIC);
    return times_vector("circulant_product", cj_circulant(in[0]), in[1]);
}
CJ_COMPOSE(toeplitz_product)
{
    CHECK(vectors("toeplitz_product", in, 3));
    const int64_t m = length(in[0]), n = length(in[1]);
    if (m >= BY_TRANSFORMS && n >= BY_TRANSFORMS && n == length(in[2])) { /* y_i = sum_j t_(i-j+n-1) x_j, t as in toeplitz above */
        cj_tensor *t = cj_cat((cj_tensor *[]){ cj_slice(in[1], -1, -1, 0, -1), in[0] }, 2, -1);
        return cj_slice(convolve(t, in[2], CJ_CONVOLVE_FULL), -1, n - 1, n - 1 + m, 1);
    }
    return times_vector("toeplitz_product", cj_toeplitz(in[0], in[1]), in[2]);
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------------------------- */

/* clang-format off */
const cj_op cj__ops_matrix[] = {
    [LOGDET]            = CJ_COMPOSITE_ROW(logdet, "linalg", 1, 0),
    [EIGH_GENERAL]      = { .name = "eigh_general", .family = "linalg", .kind = CJ_COMPOSITE, .nin = 2, .nout = 2, .define = define_eigh_general },
    [INVERSE_SQRT]      = CJ_COMPOSITE_ROW(matrix_inverse_sqrt, "linalg", 1, 0),
    [POWER]             = CJ_COMPOSITE_ROW(matrix_power, "linalg", 1, sizeof(int64_t)),
    [RANK]              = { .name = "matrix_rank", .family = "linalg", .kind = CJ_COMPOSITE, .flags = CJ_OP_NOGRAD, .nin = 1, .nout = 1,
                            .attr_size = sizeof(double), .define = define_matrix_rank, .jvp_rule = CJ_JVP_NONE },
    [RADIUS]            = CJ_COMPOSITE_ROW(spectral_radius, "linalg", 1, 0),
    [NORM]              = CJ_COMPOSITE_ROW(matrix_norm, "linalg", 1, sizeof(int64_t)),
    [COND]              = CJ_COMPOSITE_ROW(cond, "linalg", 1, sizeof(int64_t)),
    [TRACE]             = CJ_COMPOSITE_ROW(matrix_trace, "linalg", 1, 0),
    [CIRCULANT]         = CJ_COMPOSITE_ROW(circulant, "linalg", 1, 0),
    [TOEPLITZ]          = CJ_COMPOSITE_ROW(toeplitz, "linalg", 2, 0),
    [CIRCULANT_PRODUCT] = CJ_COMPOSITE_ROW(circulant_product, "linalg", 2, 0),
    [TOEPLITZ_PRODUCT]  = CJ_COMPOSITE_ROW(toeplitz_product, "linalg", 3, 0),
};
/* clang-format on */
CJ_OP_TABLE(matrix);

static cj_tensor *one(int row, const void *attrs, cj_tensor *a) { return cj__apply(&cj__ops_matrix[row], attrs, &a, 1); }
/* The same for matrices: 16-bit floats are refused before compose widens them. */
static cj_tensor *real(int row, const void *attrs, cj_tensor *a)
{
    if (!cj__given(cj__ops_matrix[row].name, &a, 1) || !matrix(cj__ops_matrix[row].name, a)) return CJ_POISON_OF(a);
    return one(row, attrs, a);
}
static cj_tensor *two(int row, cj_tensor *a, cj_tensor *b) { return cj__apply(&cj__ops_matrix[row], NULL, (cj_tensor *[]){ a, b }, 2); }

cj_tensor *cj_logdet(cj_tensor *a) { return real(LOGDET, NULL, a); }
cj_eigen cj_eigh_general(cj_tensor *a, cj_tensor *b)
{
    cj_tensor *out[2];
    out[0] = out[1] = a ? CJ_POISON_OF(a) : CJ_POISON_OF(b);
    if (a || b) cj__apply_n((a ? a : b)->ctx, &cj__ops_matrix[EIGH_GENERAL], NULL, (cj_tensor *[]){ a, b }, 2, out);
    return (cj_eigen){ out[0], out[1] };
}
cj_tensor *cj_matrix_inverse_sqrt(cj_tensor *a) { return real(INVERSE_SQRT, NULL, a); }
cj_tensor *cj_matrix_power(cj_tensor *a, int64_t n) { return real(POWER, &n, a); }
cj_tensor *cj_spectral_radius(cj_tensor *a) { return real(RADIUS, NULL, a); }
static cj_tensor *of_kind(int row, cj_tensor *a, cj_matrix_norm_kind kind)
{
    if (!a || a->ctx->error) return CJ_POISON_OF(a);
    if (kind < CJ_NORM_FRO || kind > CJ_NORM_2)
        return cj_fail(a->ctx, CJ_EVALUE, "%s: there is no norm %d", cj__ops_matrix[row].name, (int)kind);
    return real(row, &(int64_t){ kind }, a);
}
cj_tensor *cj_matrix_norm(cj_tensor *a, cj_matrix_norm_kind kind) { return of_kind(NORM, a, kind); }
cj_tensor *cj_cond(cj_tensor *a, cj_matrix_norm_kind kind) { return of_kind(COND, a, kind); }
cj_tensor *cj_matrix_trace(cj_tensor *a) { return real(TRACE, NULL, a); }
cj_tensor *cj_circulant(cj_tensor *c) { return one(CIRCULANT, NULL, c); }
cj_tensor *cj_toeplitz(cj_tensor *column, cj_tensor *row) { return two(TOEPLITZ, column, row); }
cj_tensor *cj_circulant_product(cj_tensor *c, cj_tensor *x) { return two(CIRCULANT_PRODUCT, c, x); }
cj_tensor *cj_toeplitz_product(cj_tensor *column, cj_tensor *row, cj_tensor *x)
{
    return cj__apply(&cj__ops_matrix[TOEPLITZ_PRODUCT], NULL, (cj_tensor *[]){ column, row, x }, 3);
}

cj_tensor *cj_matrix_rank(cj_tensor *a, const cj_rank_opts *opts)
{
    double rtol;
    if (!cj__given("matrix_rank", &a, 1) || !cj__rank_tolerance("matrix_rank", a, opts, &rtol)) return CJ_POISON_OF(a);
    return one(RANK, &rtol, a);
}

/* The right singular vectors past the rank; rows of zeros below a wide matrix make all of them appear. */
cj_tensor *cj_null_space(cj_tensor *a, const cj_rank_opts *opts)
{
    double rtol;
    if (!cj__given("null_space", &a, 1) || !cj__rank_tolerance("null_space", a, opts, &rtol)) return CJ_POISON_OF(a);
    cj_ctx *c = a->ctx;
    if (a->ndim != 2) return cj_fail(c, CJ_ESHAPE, "null_space: %s is not one matrix", cj__tensor_text(a));
    const int64_t m = cj__rows(a), n = cj__columns(a);
    cj_tensor *tall = m < n ? cj_cat((cj_tensor *[]){ a, cj_zeros(c, CJ_SHAPE(n - m, n), (cj_dtype)a->dtype) }, 2, 0) : a;
    int64_t rank = 0;
    if (!cj_to_i64(cj_matrix_rank(a, &(cj_rank_opts){ .rtol = rtol }), &rank, 1)) return c->poison;
    return cj_t(cj_slice(cj_svd(tall).vh, 0, rank, CJ_END, 1));
}

/* ---- definiteness ------------------------------------------------------------------------------------------------------------------------------ */

cj_definite cj_definiteness(cj_tensor *a)
{
    if (!cj__given("definiteness", &a, 1) || !square("definiteness", a)) return CJ_INDEFINITE;
    cj_ctx *c = a->ctx;
    if (a->ndim != 2) return cj__error(c, CJ_ESHAPE, "definiteness: %s is not one matrix", cj__tensor_text(a)), CJ_INDEFINITE;
    const int64_t n = cj__columns(a);
    int frame = cj__frame_open(c);
    if (!frame) return CJ_INDEFINITE;
    bool was = cj_no_grad(c), positive = true, negative = true, decided = n > 0;
    double scale = n ? cj_item(cj_matrix_norm(a, CJ_NORM_2)) : 0, before = 1;
    const double eps = (double)n * (a->dtype == CJ_F64 ? DBL_EPSILON : (double)FLT_EPSILON) * 8, clear = sqrt(eps);
    for (int64_t k = 1; k <= n && decided && c->error == CJ_OK; k++) {
        double minor = cj_item(cj_det(cj_slice(cj_slice(a, 0, 0, k, 1), 1, 0, k, 1)));
        /* the ratio of consecutive minors is a pivot; a small one passes its rounding error on to the next, magnified by scale / pivot */
        decided = fabs(minor) > clear * scale * fabs(before);
        positive &= minor > 0;
        negative &= k % 2 ? minor < 0 : minor > 0;
        before = minor;
    }
    cj_definite verdict = decided && positive ? CJ_POSITIVE_DEFINITE : decided && negative ? CJ_NEGATIVE_DEFINITE : CJ_INDEFINITE;
    if (!decided && c->error == CJ_OK) {
        double low = 0, high = 0;
        cj_tensor *w = cj_eigvalsh(a);
        if (n) low = cj_item(cj_select(w, 0, 0)), high = cj_item(cj_select(w, 0, n - 1));
        verdict = low > eps * scale     ? CJ_POSITIVE_DEFINITE
                  : low >= -eps * scale ? CJ_POSITIVE_SEMIDEFINITE
                  : high < -eps * scale ? CJ_NEGATIVE_DEFINITE
                  : high <= eps * scale ? CJ_NEGATIVE_SEMIDEFINITE
                                        : CJ_INDEFINITE;
    }
    cj_grad_mode(c, was);
    cj__frame_close(c, frame, NULL, 0);
    return c->error ? CJ_INDEFINITE : verdict;
}
