/* Eigenvalues, singular values, QR, pseudo-inverse and least squares, with their derivatives (Giles 2008; Townsend 2016; Golub & Pereyra 1973).
 *
 * F below is 1/(w_j - w_i), and 0 where the two are equal up to rounding.
 */
#include <float.h>

#include "math/linalg.h"

enum { EIGH, EIGVALSH, EIG, EIGVALS, SVD, SVDVALS, QR, PINV, LSTSQ };
static bool apply(int row, const void *attrs, cj_tensor *a, cj_tensor *b, cj_tensor **out);

static cj_batch_job job_of(cj_call *call, cj_dense_code code, bool vectors, double per_cube)
{
    const cj_tensor *a = call->in[0];
    cj_batch_job j = { .call = call, .t = (cj_dtype)a->dtype, .m = cj__rows(a), .n = cj__columns(a), .items = a->numel ? cj__batch(a) : 0 };
    const double small = (double)(j.m < j.n ? j.m : j.n);
    j.checked = call->nin;
    j.cost = per_cube * small * (double)j.m * (double)j.n;
    if (j.items) {
        cj__batch_place(&j);
        /* the copy that LAPACK overwrites comes first */
        j.work = j.dense->workspace(&j.on, code, j.t, j.m, j.n, 0, vectors) + ((size_t)cj__item_bytes(a, 2) + 63) / 64 * 64;
    }
    return j;
}
static void *copy_of(const cj_batch_job *j, int64_t i, void **work)
{
    size_t bytes = (size_t)cj__item_bytes(j->call->in[0], 2);
    void *a = *work;
    memcpy(a, cj__item(j->call->in[0], 2, i), bytes);
    *work = (char *)a + (bytes + 63) / 64 * 64;
    return a;
}
static bool no_gradient(cj_vjp_args *v)
{
    for (int j = 0; j < v->nout; j++)
        if (v->g[j] && v->g[j]->numel) return false;
    return true;
}
/* d_ij = w_j - w_i, inverted. */
static cj_tensor *inverse_gaps(cj_tensor *w, cj_tensor *tiny)
{
    return cj__reciprocal_or_zero(cj_sub(cj_unsqueeze(w, -2), cj_unsqueeze(w, -1)), tiny);
}

/* ---- symmetric: dA = V·(diag(dw) + F∘(Vᵀ·dV))·Vᵀ, symmetrised ---------------------------------------------------------------------------------- */

static bool infer_eigh(cj_call *call)
{
    if (!cj__real_matrices(call, true)) return false;
    int64_t n = cj__columns(call->in[0]);
    return cj__out_batch(call, 0, 1, &n) && (call->nout == 1 || cj__out_batch(call, 1, 2, (int64_t[]){ n, n }));
}
static int64_t each_eigh(const cj_batch_job *j, int64_t i, void *work)
{
    cj_tensor *const *out = j->call->out;
    void *w = cj__item(out[0], 1, i);
    if (j->call->nout == 1) {
        void *a = copy_of(j, i, &work);
        return j->dense->eigh(&j->on, j->t, j->n, a, w, false, work);
    }
    void *v = cj__item(out[1], 2, i);
    memcpy(v, cj__item(j->call->in[0], 2, i), (size_t)cj__item_bytes(j->call->in[0], 2));
    return j->dense->eigh(&j->on, j->t, j->n, v, w, true, work);
}
static bool run_eigh(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_EIGH, call->nout == 2, 9);
    j.each = each_eigh;
    return cj__batch_run(&j, "has eigenvalues that did not converge, code");
}
static void d_eigh(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_tensor *w = v->out[0], *vectors = v->out[1], *vt = cj_t(vectors), *inner = NULL;
    if (v->g[1]) inner = cj_mul(inverse_gaps(w, cj__rounding_of(w)), cj_matmul(vt, v->g[1]));
    cj_tensor *left = inner ? cj_matmul(vectors, inner) : NULL;
    if (v->g[0]) left = cj__plus(left, cj__column_scale(vectors, v->g[0]));
    v->gin[0] = cj__symmetric_part(cj_matmul(left, vt));
}
static void d_eigvalsh(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_tensor *vectors = cj_eigh(v->in[0]).vectors;
    v->gin[0] = cj__symmetric_part(cj_matmul(cj__column_scale(vectors, v->g[0]), cj_t(vectors)));
}

/* ---- general: complex numbers as pairs --------------------------------------------------------------------------------------------------------- */

typedef struct complex_tensor {
    cj_tensor *re, *im;
} complex_tensor;
static complex_tensor unpaired(cj_tensor *x) { return (complex_tensor){ cj_select(x, -1, 0), cj_select(x, -1, 1) }; }
static complex_tensor adjoint(complex_tensor a) { return (complex_tensor){ cj_t(a.re), cj_neg(cj_t(a.im)) }; }
static complex_tensor product(complex_tensor a, complex_tensor b, cj_tensor *(*times)(cj_tensor *, cj_tensor *))
{
    return (complex_tensor){ cj_sub(times(a.re, b.re), times(a.im, b.im)), cj_add(times(a.re, b.im), times(a.im, b.re)) };
}
/* a⁻¹·b through [[re, -im], [im, re]]. */
static complex_tensor complex_solve(complex_tensor a, complex_tensor b)
{
    cj_tensor *top = cj_cat((cj_tensor *[]){ a.re, cj_neg(a.im) }, 2, -1), *bottom = cj_cat((cj_tensor *[]){ a.im, a.re }, 2, -1);
    cj_tensor *x = cj_solve(cj_cat((cj_tensor *[]){ top, bottom }, 2, -2), cj_cat((cj_tensor *[]){ b.re, b.im }, 2, -2));
    if (x->ctx->error) return (complex_tensor){ x, x };
    int64_t n = cj__rows(x) / 2;
    return (complex_tensor){ cj_slice(x, -2, 0, n, 1), cj_slice(x, -2, n, 2 * n, 1) };
}

static bool infer_eig(cj_call *call)
{
    if (!cj__real_matrices(call, true)) return false;
    int64_t n = cj__columns(call->in[0]);
    return cj__out_batch(call, 0, 2, (int64_t[]){ n, 2 }) && (call->nout == 1 || cj__out_batch(call, 1, 3, (int64_t[]){ n, n, 2 }));
}
static int64_t each_eig(const cj_batch_job *j, int64_t i, void *work)
{
    cj_tensor *const *out = j->call->out;
    void *a = copy_of(j, i, &work);
    return j->dense->eig(j->t, j->n, a, cj__item(out[0], 2, i), j->call->nout == 2 ? cj__item(out[1], 3, i) : NULL, work);
}
static bool run_eig(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_EIG, call->nout == 2, 25);
    j.each = each_eig;
    return cj__batch_run(&j, "has eigenvalues that did not converge, code");
}
/* dA = Re V⁻ᴴ·(diag(dw) + (Vᴴ·dV - VᴴV·diag(Re diag Vᴴ·dV)) / conj(w_j - w_i))·Vᴴ: the second part leaves the columns' length alone. */
static cj_tensor *general_rule(complex_tensor w, complex_tensor vectors, cj_tensor *gw, cj_tensor *gv)
{
    const complex_tensor vh = adjoint(vectors);
    complex_tensor inner = { 0 }; /* times Vᴴ */
    if (gv) {
        complex_tensor p = product(vh, unpaired(gv), cj_matmul), gram = product(vh, vectors, cj_matmul);
        cj_tensor *along = cj_diagonal(p.re, 0, -2, -1);
        p.re = cj_sub(p.re, cj__column_scale(gram.re, along));
        p.im = cj_sub(p.im, cj__column_scale(gram.im, along));
        cj_tensor *dre = cj_sub(cj_unsqueeze(w.re, -2), cj_unsqueeze(w.re, -1)),
                  *dim = cj_sub(cj_unsqueeze(w.im, -2), cj_unsqueeze(w.im, -1));
        /* p / conj(d) = p·d / |d|² */
        cj_tensor *size = cj_add(cj_square(w.re), cj_square(w.im)), *gap = cj_add(cj_square(dre), cj_square(dim));
        cj_tensor *scale = cj__reciprocal_or_zero(gap, cj_square(cj__rounding_of(cj__safe_root(cj_detach(size)))));
        complex_tensor q = product(p, (complex_tensor){ cj_mul(dre, scale), cj_mul(dim, scale) }, cj_mul);
        inner = product(q, vh, cj_matmul);
    }
    if (gw) {
        complex_tensor g = unpaired(gw);
        complex_tensor rows = product((complex_tensor){ cj_unsqueeze(g.re, -1), cj_unsqueeze(g.im, -1) }, vh, cj_mul);
        inner = (complex_tensor){ cj__plus(inner.re, rows.re), cj__plus(inner.im, rows.im) };
    }
    return complex_solve(vh, inner).re;
}
static void d_eig(cj_vjp_args *v)
{
    if (!no_gradient(v)) v->gin[0] = general_rule(unpaired(v->out[0]), unpaired(v->out[1]), v->g[0], v->g[1]);
}
static void d_eigvals(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_eigen e = cj_eig(v->in[0]);
    v->gin[0] = general_rule(unpaired(e.values), unpaired(e.vectors), v->g[0], NULL);
}

/* ---- singular values --------------------------------------------------------------------------------------------------------------------------- */

static bool infer_svd(cj_call *call)
{
    if (!cj__real_matrices(call, false)) return false;
    int64_t m = cj__rows(call->in[0]), n = cj__columns(call->in[0]), k = m < n ? m : n;
    if (call->nout == 1) return cj__out_batch(call, 0, 1, &k);
    return cj__out_batch(call, 0, 2, (int64_t[]){ m, k }) && cj__out_batch(call, 1, 1, &k) &&
           cj__out_batch(call, 2, 2, (int64_t[]){ k, n });
}
static int64_t each_svd(const cj_batch_job *j, int64_t i, void *work)
{
    cj_tensor *const *out = j->call->out;
    void *a = copy_of(j, i, &work);
    if (j->call->nout == 1) return j->dense->svd(j->t, j->m, j->n, a, NULL, cj__item(out[0], 1, i), NULL, work);
    return j->dense->svd(j->t, j->m, j->n, a, cj__item(out[0], 2, i), cj__item(out[1], 1, i), cj__item(out[2], 2, i), work);
}
static bool run_svd(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_SVD, call->nout == 3, 20);
    j.each = each_svd;
    return cj__batch_run(&j, "has singular values that did not converge, code");
}
/* M·S⁻¹ minus what lies in the span of q already: (1 - q·qᵀ)·M·S⁻¹. */
static cj_tensor *outside(cj_tensor *q, cj_tensor *m, cj_tensor *inverse_s)
{
    m = cj__column_scale(m, inverse_s);
    return cj_sub(m, cj_matmul(q, cj_matmul(cj_t(q), m)));
}
/* dA = [U·(F∘(Uᵀ·dU - dUᵀ·U))·S + (1 - U·Uᵀ)·dU·S⁻¹]·Vᵀ + U·diag(dS)·Vᵀ + U·[S·(F∘(Vᵀ·dV - dVᵀ·V))·Vᵀ + S⁻¹·dVᵀ·(1 - V·Vᵀ)], F of the squares. */
static void d_svd(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_tensor *u = v->out[0], *s = v->out[1], *vh = v->out[2], *gu = v->g[0], *gs = v->g[1], *gv = v->g[2] ? cj_t(v->g[2]) : NULL,
              *vv = cj_t(vh);
    cj_tensor *sum = cj_add(cj_unsqueeze(s, -2), cj_unsqueeze(s, -1)), *tiny = cj__rounding_of(s);
    /* 1/(s_j² - s_i²) as a product, so that equality is judged on s itself */
    cj_tensor *f = gu || gv ? cj_mul(inverse_gaps(s, tiny), cj__reciprocal_or_zero(sum, tiny)) : NULL;
    cj_tensor *inverse_s = cj__reciprocal_or_zero(s, cj_squeeze(tiny, -1)), *inner = NULL, *ga = NULL;
    if (gu) {
        cj_tensor *p = cj_matmul(cj_t(u), gu);
        inner = cj__column_scale(cj_mul(f, cj_sub(p, cj_t(p))), s);
    }
    if (gv) {
        cj_tensor *p = cj_matmul(vh, gv);
        inner = cj__plus(inner, cj__row_scale(s, cj_mul(f, cj_sub(p, cj_t(p)))));
    }
    cj_tensor *left = inner ? cj_matmul(u, inner) : NULL;
    if (gs) left = cj__plus(left, cj__column_scale(u, gs));
    if (gu && cj__rows(u) > cj__columns(u)) left = cj__plus(left, outside(u, gu, inverse_s));
    ga = cj_matmul(left, vh);
    if (gv && cj__rows(vv) > cj__columns(vv)) ga = cj_add(ga, cj_matmul(u, cj_t(outside(vv, gv, inverse_s))));
    v->gin[0] = ga;
}
static void d_svdvals(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_svd_result r = cj_svd(v->in[0]);
    v->gin[0] = cj_matmul(cj__column_scale(r.u, v->g[0]), r.vh);
}

/* ---- QR: dA = (dQ + Q·C)·R⁻ᵀ with C the symmetric matrix whose lower triangle is that of R·dRᵀ - dQᵀ·Q ----------------------------------------- */

static bool infer_qr(cj_call *call)
{
    if (!cj__real_matrices(call, false)) return false;
    int64_t m = cj__rows(call->in[0]), n = cj__columns(call->in[0]), k = m < n ? m : n;
    return cj__out_batch(call, 0, 2, (int64_t[]){ m, k }) && cj__out_batch(call, 1, 2, (int64_t[]){ k, n });
}
static int64_t each_qr(const cj_batch_job *j, int64_t i, void *work)
{
    void *a = copy_of(j, i, &work);
    return j->dense->qr(j->t, j->m, j->n, a, cj__item(j->call->out[0], 2, i), cj__item(j->call->out[1], 2, i), work);
}
static bool run_qr(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_QR, true, 4);
    j.each = each_qr;
    return cj__batch_run(&j, "has no QR, code");
}
static void d_qr(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_tensor *q = v->out[0], *r = v->out[1], *gq = v->g[0], *gr = v->g[1], *gy = NULL;
    const int64_t m = cj__rows(q), n = cj__columns(r);
    if (n > m) { /* a = [x | y]: x = q·u, y = q·w, so w = qᵀ·y */
        cj_tensor *w = cj_slice(r, -1, m, n, 1);
        r = cj_slice(r, -1, 0, m, 1);
        if (gr) {
            cj_tensor *gw = cj_slice(gr, -1, m, n, 1);
            gr = cj_slice(gr, -1, 0, m, 1);
            gy = cj_matmul(q, gw);
            gq = cj__plus(gq, cj_matmul(q, cj_matmul(w, cj_t(gw))));
        } else {
            gy = cj_matmul(q, cj_mul_scalar(w, 0));
        }
    }
    cj_tensor *inner = gr ? cj_matmul(r, cj_t(gr)) : NULL;
    if (gq) inner = cj__plus(inner, cj_neg(cj_matmul(cj_t(gq), q)));
    inner = cj_add(cj_tril(inner, 0), cj_t(cj_tril(inner, -1)));
    cj_tensor *left = cj__plus(gq, cj_matmul(q, inner));
    cj_tensor *gx = cj_t(cj_solve_triangular(r, cj_t(left), &(cj_triangular_opts){ .upper = true }));
    v->gin[0] = gy ? cj_cat((cj_tensor *[]){ gx, gy }, 2, -1) : gx;
}

/* ---- pseudo-inverse and least squares: x = V·S⁺·Uᵀ·b ------------------------------------------------------------------------------------------- */

#define LEAST(T)                                                                                                                           \
    /* y [k, columns] = S⁺·Uᵀ·b, x [n, columns] = V·y */                                                                            \
    static void least_##T(int64_t m, int64_t n, int64_t columns, const T *u, const T *s, const T *vh, const T *b, T *y, T *x, double rtol) \
    {                                                                                                                                      \
        const int64_t k = m < n ? m : n;                                                                                                   \
        memset(y, 0, (size_t)(k * columns) * sizeof(T));                                                                                   \
        memset(x, 0, (size_t)(n * columns) * sizeof(T));                                                                                   \
        for (int64_t i = 0; i < m; i++)                                                                                                    \
            for (int64_t r = 0; r < k; r++) {                                                                                              \
                const T f = u[i * k + r];                                                                                                  \
                for (int64_t c = 0; c < columns; c++) y[r * columns + c] += f * b[i * columns + c];                                        \
            }                                                                                                                              \
        for (int64_t r = 0; r < k; r++) {                                                                                                  \
            if ((double)s[r] <= rtol * (double)s[0]) break;                                                                                \
            for (int64_t c = 0; c < columns; c++) y[r * columns + c] /= s[r];                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                                              \
                const T f = vh[r * n + j];                                                                                                 \
                for (int64_t c = 0; c < columns; c++) x[j * columns + c] += f * y[r * columns + c];                                        \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
LEAST(float)
LEAST(double)

static int64_t each_lstsq(const cj_batch_job *j, int64_t i, void *work)
{
    const size_t e = cj_dtype_size(j->t);
    const int64_t m = j->m, n = j->n, k = m < n ? m : n, columns = j->k;
    const double rtol = *(const double *)j->call->attrs;
    void *a = copy_of(j, i, &work), *x = cj__item(j->call->out[0], 2, i);
    char *u = work, *s = u + (size_t)(m * k) * e, *vh = s + (size_t)k * e, *y = vh + (size_t)(k * n) * e,
         *identity = y + (size_t)(k * columns) * e;
    size_t rest = ((size_t)(m * k + k + k * n + k * columns) + (j->call->nin == 1 ? (size_t)(m * m) : 0)) * e;
    if (j->dense->svd(j->t, m, n, a, u, s, vh, (char *)work + (rest + 63) / 64 * 64)) return 1;
    const void *b = j->call->nin == 2 ? cj__item(j->call->in[1], 2, i) : identity;
    if (j->call->nin == 1)
        for (int64_t d = 0; d < m * m; d++) cj__store(j->t, identity + (size_t)d * e, d % (m + 1) == 0);
    if (j->t == CJ_F64) least_double(m, n, columns, (double *)u, (double *)s, (double *)vh, b, (double *)y, x, rtol);
    else least_float(m, n, columns, (float *)u, (float *)s, (float *)vh, b, (float *)y, x, rtol);
    return 0;
}
static bool run_lstsq(cj_call *call)
{
    cj_batch_job j = job_of(call, CJ_DENSE_SVD, true, 22);
    cj_tensor *x = call->out[0];
    if (call->in[0]->numel == 0) { /* nothing to fit, or nothing to fit with */
        if (x->numel) memset(x->data, 0, (size_t)x->numel * cj_dtype_size(j.t));
        return true;
    }
    const int64_t k = j.m < j.n ? j.m : j.n;
    j.k = cj__columns(x);
    if (j.k == 0) return true;
    j.each = each_lstsq;
    j.work += (size_t)(j.m * k + k + k * j.n + k * j.k + (call->nin == 1 ? j.m * j.m : 0)) * cj_dtype_size(j.t) + 64;
    return cj__batch_run(&j, "has singular values that did not converge, code");
}
static bool infer_pinv(cj_call *call)
{
    return cj__real_matrices(call, false) && cj__out_batch(call, 0, 2, (int64_t[]){ cj__columns(call->in[0]), cj__rows(call->in[0]) });
}
static bool infer_lstsq(cj_call *call)
{
    return cj__real_matrices(call, false) && cj__out_batch(call, 0, 2, (int64_t[]){ cj__columns(call->in[0]), cj__columns(call->in[1]) });
}
/* dP = -P·dA·P + P·Pᵀ·dAᵀ·(1 - A·P) + (1 - P·A)·dAᵀ·Pᵀ·P for constant rank. */
static cj_tensor *pinv_rule(cj_tensor *a, cj_tensor *p, cj_tensor *g)
{
    cj_tensor *pt = cj_t(p), *gt = cj_t(g);
    cj_tensor *ga = cj_neg(cj_matmul(pt, cj_matmul(g, pt)));
    cj_tensor *left = cj_matmul(gt, cj_matmul(p, pt)), *right = cj_matmul(cj_matmul(pt, p), gt);
    ga = cj_add(ga, cj_sub(left, cj_matmul(a, cj_matmul(p, left))));
    return cj_add(ga, cj_sub(right, cj_matmul(cj_matmul(right, p), a)));
}
static void d_pinv(cj_vjp_args *v)
{
    if (!no_gradient(v)) v->gin[0] = pinv_rule(v->in[0], v->out[0], v->g[0]);
}
static void d_lstsq(cj_vjp_args *v)
{
    if (no_gradient(v)) return;
    cj_tensor *p = NULL;
    if (!apply(PINV, v->attrs, v->in[0], NULL, &p)) return;
    if (v->need[1]) v->gin[1] = cj_matmul(cj_t(p), v->g[0]);
    if (v->need[0]) v->gin[0] = pinv_rule(v->in[0], p, cj_matmul(v->g[0], cj_t(v->in[1])));
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------------------------- */

#define ROW(op_name, ins, outs, attributes, in, out, part, rule)                                                                           \
    {                                                                                                                                      \
        .name = op_name, .family = "linalg", .kind = CJ_PRIMITIVE, .nin = ins, .nout = outs, .attr_size = attributes, .save_in = in,       \
        .save_out = out, .infer = infer_##part, .run = run_##part, .vjp = rule                                                             \
    }
/* clang-format off */
const cj_op cj__ops_spectral[] = {
    [EIGH]     = ROW("eigh", 1, 2, 0, 0, 3, eigh, d_eigh),
    [EIGVALSH] = ROW("eigvalsh", 1, 1, 0, 1, 0, eigh, d_eigvalsh),
    [EIG]      = ROW("eig", 1, 2, 0, 0, 3, eig, d_eig),
    [EIGVALS]  = ROW("eigvals", 1, 1, 0, 1, 0, eig, d_eigvals),
    [SVD]      = ROW("svd", 1, 3, 0, 0, 7, svd, d_svd),
    [SVDVALS]  = ROW("svdvals", 1, 1, 0, 1, 0, svd, d_svdvals),
    [QR]       = ROW("qr", 1, 2, 0, 0, 3, qr, d_qr),
    [PINV]     = { .name = "pinv", .family = "linalg", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .attr_size = sizeof(double), .save_in = 1,
                   .save_out = 1, .infer = infer_pinv, .run = run_lstsq, .vjp = d_pinv },
    [LSTSQ]    = ROW("lstsq", 2, 1, sizeof(double), 3, 0, lstsq, d_lstsq),
};
/* clang-format on */
CJ_OP_TABLE(spectral);

static bool apply(int row, const void *attrs, cj_tensor *a, cj_tensor *b, cj_tensor **out)
{
    const cj_op *op = &cj__ops_spectral[row];
    for (int j = 0; j < op->nout; j++) out[j] = CJ_POISON_OF(a);
    if (!cj__given(op->name, (cj_tensor *[]){ a, b }, b ? 2 : 1)) return false;
    return cj__apply_n(a->ctx, op, attrs, (cj_tensor *[]){ cj_contiguous(a), b ? cj_contiguous(b) : NULL }, b ? 2 : 1, out);
}

/* ---- what users call --------------------------------------------------------------------------------------------------------------------------- */

cj_eigen cj_eigh(cj_tensor *a)
{
    cj_tensor *out[2];
    apply(EIGH, NULL, a, NULL, out);
    return (cj_eigen){ out[0], out[1] };
}
cj_eigen cj_eig(cj_tensor *a)
{
    cj_tensor *out[2];
    apply(EIG, NULL, a, NULL, out);
    return (cj_eigen){ out[0], out[1] };
}
cj_svd_result cj_svd(cj_tensor *a)
{
    cj_tensor *out[3];
    apply(SVD, NULL, a, NULL, out);
    return (cj_svd_result){ out[0], out[1], out[2] };
}
cj_qr_result cj_qr(cj_tensor *a)
{
    cj_tensor *out[2];
    apply(QR, NULL, a, NULL, out);
    return (cj_qr_result){ out[0], out[1] };
}
static cj_tensor *only(int row, cj_tensor *a)
{
    cj_tensor *out = NULL;
    apply(row, NULL, a, NULL, &out);
    return out;
}
cj_tensor *cj_eigvalsh(cj_tensor *a) { return only(EIGVALSH, a); }
cj_tensor *cj_eigvals(cj_tensor *a) { return only(EIGVALS, a); }
cj_tensor *cj_svdvals(cj_tensor *a) { return only(SVDVALS, a); }

bool cj__rank_tolerance(const char *op, const cj_tensor *a, const cj_rank_opts *opts, double *rtol)
{
    if (!cj__real_matrix(a->ctx, op, a, false)) return false;
    *rtol = opts ? opts->rtol : 0;
    if (!(*rtol >= 0)) return cj__error(a->ctx, CJ_EVALUE, "%s: rtol %g", op, *rtol);
    const int64_t most = cj__rows(a) > cj__columns(a) ? cj__rows(a) : cj__columns(a);
    if (*rtol == 0) *rtol = (double)most * (a->dtype == CJ_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    return true;
}
cj_tensor *cj_pinv(cj_tensor *a, const cj_rank_opts *opts)
{
    cj_tensor *out = NULL;
    double rtol;
    if (!cj__given("pinv", &a, 1) || !cj__rank_tolerance("pinv", a, opts, &rtol)) return CJ_POISON_OF(a);
    apply(PINV, &rtol, a, NULL, &out);
    return out;
}
cj_tensor *cj_lstsq(cj_tensor *a, cj_tensor *b, const cj_rank_opts *opts)
{
    cj_tensor *out = NULL;
    double rtol;
    bool vector;
    if (!cj__given("lstsq", (cj_tensor *[]){ a, b }, 2)) return a ? CJ_POISON_OF(a) : CJ_POISON_OF(b);
    if (!cj__rank_tolerance("lstsq", a, opts, &rtol)) return a->ctx->poison;
    if (!cj__together("lstsq", &a, &b, &vector)) return a->ctx->poison;
    apply(LSTSQ, &rtol, a, b, &out);
    return vector ? cj_squeeze(out, -1) : out;
}
