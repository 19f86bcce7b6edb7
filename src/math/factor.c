/* Cholesky, triangular and general solutions, inverse and determinants, with their derivatives (Giles 2008).
 *
 * Matrices of up to CJ_SMALL_MOST rows go through kernels that work on many matrices at once, one per vector lane (kernels/cpu/small.h); larger ones
 * one by one through math/dense.h.
 */
#include <math.h>

#include "math/linalg.h"

enum { STREAMED = 1 << 21 }; /* elements of a result that would drive everything else out of the caches */

enum { CHOLESKY, TRIANGULAR, SOLVE, INVERSE, DET, SLOGDET, COFACTOR };
static cj_tensor *apply(int row, const void *attrs, cj_tensor *a, cj_tensor *b);

static cj_batch_job job_of(cj_call *call, cj_dense_code code, double cost)
{
    const cj_tensor *a = call->in[0];
    cj_batch_job j = {
        .call = call, .t = (cj_dtype)a->dtype, .n = cj__columns(a), .items = a->numel ? cj__batch(a) : 0, .checked = call->nin
    };
    j.m = cj__rows(a);
    j.k = call->nin > 1 ? cj__columns(call->in[1]) : 0;
    j.cost = cost;
    if (j.items) {
        cj__batch_place(&j);
        j.work = j.dense->workspace(&j.on, code, j.t, j.m, j.n, j.k, true);
    }
    return j;
}
static double cube(const cj_tensor *a) { return (double)cj__columns(a) * (double)cj__columns(a) * (double)cj__columns(a); }
/* Right-hand sides come along in registers and cache, so there must not be too many. */
static bool is_small(const cj_batch_job *j) { return j->n <= CJ_SMALL_MOST && j->k <= 2 * CJ_SMALL_MOST; }

static void small(cj_batch_job *j, void (*group)(const cj_batch_job *, int64_t, int64_t, int32_t *, void *))
{
    if (!is_small(j)) return;
    j->group = group;
    j->work = cj__small_workspace(j->n, j->k);
}

static bool infer_square(cj_call *call)
{
    int64_t n[2];
    if (!cj__real_matrices(call, true)) return false;
    n[0] = n[1] = cj__columns(call->in[0]);
    return cj__out_batch(call, 0, 2, n);
}
static bool infer_rhs(cj_call *call)
{
    if (!cj__real_matrices(call, true)) return false;
    const cj_tensor *b = call->in[1];
    return cj__out(call, 0, (cj_dtype)b->dtype, b->ndim, b->shape);
}

/* ---- Cholesky: dA = L⁻ᵀ·Φ(Lᵀ·dL)·L⁻¹, symmetrised, where Φ takes the lower triangle and half the diagonal -------------------------------------- */

static int64_t each_cholesky(const cj_batch_job *j, int64_t i, void *work)
{
    void *y = cj__item(j->call->out[0], 2, i);
    memcpy(y, cj__item(j->call->in[0], 2, i), (size_t)cj__item_bytes(j->call->in[0], 2));
    return j->dense->cholesky(j->t, j->n, y, work);
}
static void group_of(const cj_batch_job *j, cj_small_code code, int64_t i, int64_t count, bool transpose, int32_t *pivot, void *work)
{
    const cj_call *call = j->call;
    j->call->ctx->k->small(&(cj_small){ .code = code,
                                        .dtype = j->t,
                                        .count = count,
                                        .n = j->n,
                                        .k = j->k,
                                        .transpose = transpose,
                                        .stream = call->out[0]->numel > STREAMED,
                                        .ahead = call->in[0]->numel > STREAMED / 8,
                                        .a = cj__item(call->in[0], 2, i),
                                        .b = call->nin > 1 ? cj__item(call->in[1], 2, i) : NULL,
                                        .y = cj__item(call->out[0], 2, i),
                                        .pivot = pivot,
                                        .work = work });
}
static void group_cholesky(const cj_batch_job *j, int64_t i, int64_t count, int32_t *pivot, void *work)
{
    group_of(j, CJ_SMALL_CHOLESKY, i, count, false, pivot, work);
}
static bool run_cholesky(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_CHOLESKY, cube(call->in[0]) / 3);
    j.each = each_cholesky;
    small(&j, group_cholesky);
    return cj__batch_run(&j, "is not positive definite, as seen at pivot");
}
static void d_cholesky(cj_vjp_args *v)
{
    cj_tensor *l = v->out[0], *phi = cj_tril(cj_matmul(cj_t(l), v->g[0]), 0);
    phi = cj_sub(phi, cj_mul_scalar(cj_sub(phi, cj_tril(phi, -1)), 0.5));
    const cj_triangular_opts transposed = { .transpose = true };
    cj_tensor *left = cj_solve_triangular(l, phi, &transposed); /* L⁻ᵀ·Φ */
    v->gin[0] = cj__symmetric_part(cj_t(cj_solve_triangular(l, cj_t(left), &transposed)));
}

/* ---- triangular solution: dB = A⁻ᵀ·dX, dA = -dB·Xᵀ within the triangle ------------------------------------------------------------------------- */

typedef struct triangle_attrs {
    int64_t upper, transpose, unit;
} triangle_attrs;

static int64_t each_triangular(const cj_batch_job *j, int64_t i, void *work)
{
    const triangle_attrs *at = j->call->attrs;
    void *y = cj__item(j->call->out[0], 2, i);
    memcpy(y, cj__item(j->call->in[1], 2, i), (size_t)cj__item_bytes(j->call->in[1], 2));
    return j->dense->triangular(j->t, j->n, j->k, (cj_triangle){ at->upper, at->transpose, at->unit }, cj__item(j->call->in[0], 2, i), y,
                                work);
}
static bool run_triangular(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_TRIANGULAR, 0);
    j.each = each_triangular;
    j.cost = (double)(j.n * j.n * (j.k + 1)) / 2;
    if (j.k == 0) return true;
    return cj__batch_run(&j, "is singular: zero pivot");
}
static void d_triangular(cj_vjp_args *v)
{
    const triangle_attrs at = *(const triangle_attrs *)v->attrs;
    triangle_attrs other = at;
    other.transpose = !at.transpose;
    cj_tensor *x = v->out[0], *gb = apply(TRIANGULAR, &other, v->in[0], v->g[0]);
    if (v->need[1]) v->gin[1] = gb;
    if (!v->need[0]) return;
    cj_tensor *ga = cj_neg(at.transpose ? cj_matmul(x, cj_t(gb)) : cj_matmul(gb, cj_t(x)));
    v->gin[0] = at.upper ? cj_triu(ga, at.unit ? 1 : 0) : cj_tril(ga, at.unit ? -1 : 0);
}

/* ---- solution: dB = A⁻ᵀ·dX, dA = -dB·Xᵀ -------------------------------------------------------------------------------------------------------- */

static int64_t each_solve(const cj_batch_job *j, int64_t i, void *work)
{
    void *y = cj__item(j->call->out[0], 2, i);
    memcpy(y, cj__item(j->call->in[1], 2, i), (size_t)cj__item_bytes(j->call->in[1], 2));
    return j->dense->solve(&j->on, j->t, j->n, j->k, *(const int64_t *)j->call->attrs, cj__item(j->call->in[0], 2, i), y, work);
}
static void group_solve(const cj_batch_job *j, int64_t i, int64_t count, int32_t *pivot, void *work)
{
    group_of(j, CJ_SMALL_SOLVE, i, count, *(const int64_t *)j->call->attrs, pivot, work);
}
static bool run_solve(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_SOLVE, 0);
    j.cost = (double)(j.n * j.n) * ((double)j.n / 3 + (double)j.k);
    j.each = each_solve;
    small(&j, group_solve);
    if (j.k == 0) return true;
    return cj__batch_run(&j, "is singular: zero pivot");
}
static void d_solve(cj_vjp_args *v)
{
    const int64_t transpose = *(const int64_t *)v->attrs, other = !transpose;
    cj_tensor *x = v->out[0], *gb = apply(SOLVE, &other, v->in[0], v->g[0]);
    if (v->need[1]) v->gin[1] = gb;
    if (v->need[0]) v->gin[0] = cj_neg(transpose ? cj_matmul(x, cj_t(gb)) : cj_matmul(gb, cj_t(x)));
}

/* ---- inverse: dA = -Yᵀ·dY·Yᵀ ------------------------------------------------------------------------------------------------------------------- */

static int64_t each_inverse(const cj_batch_job *j, int64_t i, void *work)
{
    void *y = cj__item(j->call->out[0], 2, i);
    memcpy(y, cj__item(j->call->in[0], 2, i), (size_t)cj__item_bytes(j->call->in[0], 2));
    return j->dense->inverse(&j->on, j->t, j->n, y, work);
}
static void group_inverse(const cj_batch_job *j, int64_t i, int64_t count, int32_t *pivot, void *work)
{
    group_of(j, CJ_SMALL_INVERSE, i, count, false, pivot, work);
}
static bool run_inverse(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_INVERSE, cube(call->in[0]));
    j.each = each_inverse;
    small(&j, group_inverse);
    return cj__batch_run(&j, "is singular: zero pivot");
}
static void d_inverse(cj_vjp_args *v)
{
    cj_tensor *yt = cj_t(v->out[0]);
    v->gin[0] = cj_neg(cj_matmul(yt, cj_matmul(v->g[0], yt)));
}
static void j_inverse(cj_jvp_args *j) { j->tout[0] = j->tan[0] ? cj_neg(cj_matmul(j->out[0], cj_matmul(j->tan[0], j->out[0]))) : NULL; }

/* ---- determinants ------------------------------------------------------------------------------------------------------------------------------ */

/* Element i of a diagonal of dtype t with a stride. */
static double element(cj_dtype t, const void *x, int64_t i) { return t == CJ_F64 ? ((const double *)x)[i] : ((const float *)x)[i]; }

/* The diagonal of U, times the sign of the permutation, to what the row asks for: det, or sign and log |det|. */
static void determinant(const cj_batch_job *j, int64_t i, const void *diagonal, int64_t step, int sign)
{
    cj_tensor *const *out = j->call->out;
    double det = sign, log_abs = 0;
    for (int64_t d = 0; d < j->n; d++) {
        double u = element(j->t, diagonal, d * step);
        if (j->call->nout == 1) det *= u;
        else log_abs += log(fabs(u)), det = u < 0 ? -det : u == 0 ? 0 : det;
    }
    const int64_t bytes = (int64_t)cj_dtype_size(j->t);
    cj__store(j->t, out[0]->data + i * bytes, det);
    if (j->call->nout == 2) cj__store(j->t, out[1]->data + i * bytes, log_abs);
}

/* The copy that is overwritten comes first in the workspace. */
static void *copy_of(const cj_batch_job *j, int64_t i, void **work)
{
    size_t bytes = (size_t)cj__item_bytes(j->call->in[0], 2);
    void *a = *work;
    memcpy(a, cj__item(j->call->in[0], 2, i), bytes);
    *work = (char *)a + (bytes + 63) / 64 * 64;
    return a;
}
static size_t copy_bytes(const cj_batch_job *j) { return ((size_t)cj__item_bytes(j->call->in[0], 2) + 63) / 64 * 64; }

static int64_t each_determinant(const cj_batch_job *j, int64_t i, void *work)
{
    void *a = copy_of(j, i, &work);
    int64_t *pivot = work;
    j->dense->lu(&j->on, j->t, j->n, a, pivot, (char *)work + ((size_t)j->n * 8 + 63) / 64 * 64);
    int sign = 1;
    for (int64_t d = 0; d < j->n; d++)
        if (pivot[d] != d) sign = -sign;
    determinant(j, i, a, j->n + 1, sign);
    return 0;
}
static void group_determinant(const cj_batch_job *j, int64_t i, int64_t count, int32_t *pivot, void *work)
{
    char *diagonal = work;
    const int64_t bytes = j->n * (int64_t)cj_dtype_size(j->t);
    j->call->ctx->k->small(&(cj_small){ .code = CJ_SMALL_LU,
                                        .dtype = j->t,
                                        .count = count,
                                        .n = j->n,
                                        .ahead = j->call->in[0]->numel > STREAMED / 8,
                                        .a = cj__item(j->call->in[0], 2, i),
                                        .y = diagonal,
                                        .pivot = pivot,
                                        .work = (char *)work + CJ_GROUP * bytes });
    for (int64_t d = 0; d < count; d++) {
        determinant(j, i + d, diagonal + d * bytes, 1, 1);
        pivot[d] = 0; /* a singular matrix has a determinant */
    }
}
static bool run_determinant(cj_call *call)
{
    const cj_tensor *a = call->in[0];
    cj_batch_job j = job_of(call, CJ_DENSE_LU, cube(a) / 3 + 20);
    j.each = each_determinant;
    j.work += copy_bytes(&j) + ((size_t)j.n * 8 + 63) / 64 * 64;
    small(&j, group_determinant);
    if (j.group) j.work += (size_t)(CJ_GROUP * j.n * 8);
    if (a->numel == 0) { /* the empty product */
        cj_ctx *c = call->ctx;
        for (int o = 0; o < call->nout; o++)
            if (call->out[o]->numel) c->k->fill(c->pool, (cj_dtype)a->dtype, call->out[o]->data, call->out[o]->numel, o == 0, 0);
        return true;
    }
    return cj__batch_run(&j, "");
}
static bool infer_determinant(cj_call *call)
{
    if (!cj__real_matrices(call, true)) return false;
    for (int o = 0; o < call->nout; o++)
        if (!cj__out_batch(call, o, 0, NULL)) return false;
    return true;
}
static cj_tensor *as_matrices(cj_tensor *g) { return cj_unsqueeze(cj_unsqueeze(g, -1), -1); }
static void d_det(cj_vjp_args *v) { v->gin[0] = cj_mul(as_matrices(v->g[0]), apply(COFACTOR, NULL, v->in[0], NULL)); }
static void d_slogdet(cj_vjp_args *v)
{
    if (v->g[1]) v->gin[0] = cj_mul(as_matrices(v->g[1]), cj_t(cj_inverse(v->in[0])));
}

/* The cofactor matrix C = det(A)·A⁻ᵀ, which exists for singular A too: with A = U·S·Vᵀ it is det(U)·det(V)·U·adj(S)·Vᵀ, adj(S)_i the product of
 * the other values. */
static int64_t each_cofactor(const cj_batch_job *j, int64_t i, void *work)
{
    const int64_t n = j->n;
    const size_t matrix = copy_bytes(j), vector = ((size_t)n * 8 + 63) / 64 * 64;
    void *a = copy_of(j, i, &work);
    char *u = work, *vh = u + matrix, *s = vh + matrix, *copy = s + vector, *pivots = copy + matrix, *rest = pivots + vector;
    void *y = cj__item(j->call->out[0], 2, i);
    if (j->dense->svd(j->t, n, n, a, u, s, vh, rest)) return 1;
    double sign = 1;
    for (int side = 0; side < 2; side++) { /* determinants of orthogonal matrices are signs */
        memcpy(copy, side ? vh : u, (size_t)cj__item_bytes(j->call->in[0], 2));
        j->dense->lu(&j->on, j->t, n, copy, (int64_t *)pivots, rest);
        for (int64_t d = 0; d < n; d++) {
            if (((int64_t *)pivots)[d] != d) sign = -sign;
            if (element(j->t, copy, d * (n + 1)) < 0) sign = -sign;
        }
    }
    double *others = (double *)pivots;
    for (int64_t d = 0; d < n; d++) {
        others[d] = sign;
        for (int64_t e = 0; e < n; e++)
            if (e != d) others[d] *= element(j->t, s, e);
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) {
            double sum = 0;
            for (int64_t d = 0; d < n; d++) sum += element(j->t, u, r * n + d) * others[d] * element(j->t, vh, d * n + c);
            cj__store(j->t, (char *)y + (size_t)(r * n + c) * cj_dtype_size(j->t), sum);
        }
    return 0;
}
static bool run_cofactor(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_SVD, cube(call->in[0]) * 20);
    if (!j.items) return true;
    j.each = each_cofactor;
    size_t lu = j.dense->workspace(&j.on, CJ_DENSE_LU, j.t, j.n, j.n, 0, false);
    j.work = (j.work > lu ? j.work : lu) + 4 * copy_bytes(&j) + 2 * (((size_t)j.n * 8 + 63) / 64 * 64);
    return cj__batch_run(&j, "has singular values that did not converge, code");
}
/* <G, dC> with C = det·Yᵀ, Y = A⁻¹: dA = det·(<G, Yᵀ>·Yᵀ - Yᵀ·Gᵀ·Yᵀ). */
static void d_cofactor(cj_vjp_args *v)
{
    cj_tensor *yt = cj_t(cj_inverse(v->in[0])), *g = v->g[0];
    cj_tensor *along = cj_sum(cj_mul(g, yt), &(cj_reduce_opts){ .axes = CJ_AXES(-2, -1), .keepdim = true });
    cj_tensor *inner = cj_sub(cj_mul(along, yt), cj_matmul(yt, cj_matmul(cj_t(g), yt)));
    v->gin[0] = cj_mul(as_matrices(cj_det(v->in[0])), inner);
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------------------------- */

#define ROW(op_name, ins, outs, attributes, ...)                                                                                           \
    {                                                                                                                                      \
        .name = op_name, .family = "linalg", .kind = CJ_PRIMITIVE, .nin = ins, .nout = outs, .attr_size = attributes, __VA_ARGS__          \
    }
/* clang-format off */
const cj_op cj__ops_factor[] = {
    [CHOLESKY] = ROW("cholesky", 1, 1, 0, .save_out = 1, .infer = infer_square, .run = run_cholesky, .vjp = d_cholesky),
    [TRIANGULAR] = ROW("solve_triangular", 2, 1, sizeof(triangle_attrs), .save_in = 1, .save_out = 1, .infer = infer_rhs,
                       .run = run_triangular, .vjp = d_triangular),
    [SOLVE] = ROW("solve", 2, 1, sizeof(int64_t), .save_in = 1, .save_out = 1, .infer = infer_rhs, .run = run_solve, .vjp = d_solve),
    [INVERSE] = ROW("inverse", 1, 1, 0, .save_out = 1, .infer = infer_square, .run = run_inverse, .vjp = d_inverse,
                    .jvp_rule = CJ_JVP_OWN, .jvp = j_inverse),
    [DET] = ROW("det", 1, 1, 0, .save_in = 1, .infer = infer_determinant, .run = run_determinant, .vjp = d_det),
    [SLOGDET] = ROW("slogdet", 1, 2, 0, .save_in = 1, .infer = infer_determinant, .run = run_determinant, .vjp = d_slogdet),
    [COFACTOR] = ROW("cofactor", 1, 1, 0, .save_in = 1, .infer = infer_square, .run = run_cofactor, .vjp = d_cofactor),
};
/* clang-format on */
CJ_OP_TABLE(factor);

static cj_tensor *apply(int row, const void *attrs, cj_tensor *a, cj_tensor *b)
{
    return cj__apply(&cj__ops_factor[row], attrs, (cj_tensor *[]){ cj_contiguous(a), b ? cj_contiguous(b) : NULL }, b ? 2 : 1);
}

/* ---- what users call --------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *solution(int row, const void *attrs, cj_tensor *a, cj_tensor *b)
{
    const char *op = cj__ops_factor[row].name;
    bool vector;
    if (!cj__given(op, (cj_tensor *[]){ a, b }, 2)) return a ? CJ_POISON_OF(a) : CJ_POISON_OF(b);
    if (!cj__real_matrix(a->ctx, op, a, true) || !cj__together(op, &a, &b, &vector)) return a->ctx->poison;
    cj_tensor *x = cj__apply(&cj__ops_factor[row], attrs, (cj_tensor *[]){ a, b }, 2);
    return vector ? cj_squeeze(x, -1) : x;
}

cj_tensor *cj_cholesky(cj_tensor *a, const cj_cholesky_opts *opts)
{
    if (!a) return NULL;
    if (!opts || !opts->upper) return apply(CHOLESKY, NULL, a, NULL);
    return cj_t(apply(CHOLESKY, NULL, a, NULL));
}
cj_tensor *cj_solve_triangular(cj_tensor *a, cj_tensor *b, const cj_triangular_opts *opts)
{
    cj_triangular_opts o = opts ? *opts : (cj_triangular_opts){ 0 };
    return solution(TRIANGULAR, &(triangle_attrs){ o.upper, o.transpose, o.unit }, a, b);
}
cj_tensor *cj_solve(cj_tensor *a, cj_tensor *b) { return solution(SOLVE, &(int64_t){ 0 }, a, b); }
cj_tensor *cj_inverse(cj_tensor *a) { return a ? apply(INVERSE, NULL, a, NULL) : NULL; }
cj_tensor *cj_det(cj_tensor *a) { return a ? apply(DET, NULL, a, NULL) : NULL; }
cj_slogdet_result cj_slogdet(cj_tensor *a)
{
    if (!a) return (cj_slogdet_result){ 0 };
    cj_tensor *out[2] = { a->ctx->poison, a->ctx->poison }, *dense = cj_contiguous(a);
    cj__apply_n(a->ctx, &cj__ops_factor[SLOGDET], NULL, &dense, 1, out);
    return (cj_slogdet_result){ out[0], out[1] };
}
cj_tensor *cj__cofactor(cj_tensor *a) { return a ? apply(COFACTOR, NULL, a, NULL) : NULL; }
