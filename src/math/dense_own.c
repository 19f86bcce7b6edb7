/* Dense decompositions in plain C: Cholesky, LU with partial pivoting, Householder QR, Jacobi's method for symmetric eigenvalues and for
 * singular values (Hestenes 1958), Hessenberg form and complex shifted QR for general eigenvalues (Francis 1961; Golub & Van Loan, chapters 7 and 8).
 *
 * Everything is computed in f64: f32 matrices are widened into the workspace and rounded once at the end.
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "math/dense.h"

typedef double complex number;

/* ---- between f32 and f64 ----------------------------------------------------------------------------------------------------------------------- */

/* A bump allocator over the workspace. */
static void *cut(char **work, int64_t bytes)
{
    char *p = *work;
    *work += (bytes + 63) / 64 * 64;
    return p;
}
static size_t room(int64_t bytes) { return (size_t)((bytes + 63) / 64 * 64); }

/* x itself in f64, else a widened copy in the workspace. */
static double *widen(cj_dtype t, void *x, int64_t n, char **work)
{
    if (t == CJ_F64) return x;
    double *y = cut(work, n * 8);
    for (int64_t i = 0; i < n; i++) y[i] = ((float *)x)[i];
    return y;
}
static double *blank(cj_dtype t, void *x, int64_t n, char **work) { return t == CJ_F64 ? x : cut(work, n * 8); }
static void narrow(cj_dtype t, const double *y, void *x, int64_t n)
{
    if (t == CJ_F64) return;
    for (int64_t i = 0; i < n; i++) ((float *)x)[i] = (float)y[i];
}

/* ---- Cholesky, triangles, LU ------------------------------------------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

static double norm(const double *x, int64_t n)
{
    double largest = 0, s = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(x[i]));
    if (largest == 0) return 0;
    for (int64_t i = 0; i < n; i++) s += x[i] / largest * (x[i] / largest);
    return largest * sqrt(s);
}

static int64_t own_cholesky(cj_dtype t, int64_t n, void *matrix, void *work)
{
    char *left = work;
    double *a = widen(t, matrix, n * n, &left);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) a[i * n + j] = (a[i * n + j] - dot(a + i * n, a + j * n, j)) / a[j * n + j];
        double d = a[i * n + i] - dot(a + i * n, a + i * n, i);
        if (!(d > 0)) return i + 1;
        a[i * n + i] = sqrt(d);
        for (int64_t j = i + 1; j < n; j++) a[i * n + j] = 0;
    }
    narrow(t, a, matrix, n * n);
    return 0;
}

/* Row i of b minus x times row j. */
static void subtract_row(double *b, int64_t k, int64_t i, int64_t j, double x)
{
    for (int64_t c = 0; c < k; c++) b[i * k + c] -= x * b[j * k + c];
}

static int64_t triangular(int64_t n, int64_t k, cj_triangle form, const double *a, double *b)
{
    const int64_t row = form.transpose ? 1 : n, col = form.transpose ? n : 1;
    const bool upper = form.upper != form.transpose;
    for (int64_t step = 0; step < n; step++) {
        int64_t i = upper ? n - 1 - step : step;
        for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); j++) subtract_row(b, k, i, j, a[i * row + j * col]);
        if (form.unit) continue;
        double d = a[i * n + i];
        if (d == 0) return i + 1;
        for (int64_t c = 0; c < k; c++) b[i * k + c] /= d;
    }
    return 0;
}

static int64_t own_triangular(cj_dtype t, int64_t n, int64_t k, cj_triangle form, const void *matrix, void *rhs, void *work)
{
    char *left = work;
    const double *a = widen(t, (void *)matrix, n * n, &left);
    double *b = widen(t, rhs, n * k, &left);
    int64_t info = triangular(n, k, form, a, b);
    narrow(t, b, rhs, n * k);
    return info;
}

static void swap_rows(double *a, int64_t n, int64_t i, int64_t j)
{
    for (int64_t c = 0; c < n && i != j; c++) {
        double x = a[i * n + c];
        a[i * n + c] = a[j * n + c];
        a[j * n + c] = x;
    }
}

static int64_t lu(int64_t n, double *a, int64_t *pivot)
{
    int64_t info = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        pivot[k] = best;
        swap_rows(a, n, k, best);
        double d = a[k * n + k];
        if (d == 0) {
            if (!info) info = k + 1;
            continue;
        }
        for (int64_t i = k + 1; i < n; i++) {
            double x = a[i * n + k] /= d;
            for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= x * a[k * n + j];
        }
    }
    return info;
}

static int64_t own_lu(const cj_dense_place *on, cj_dtype t, int64_t n, void *matrix, int64_t *pivot, void *work)
{
    char *left = work;
    (void)on;
    double *a = widen(t, matrix, n * n, &left);
    int64_t info = lu(n, a, pivot);
    narrow(t, a, matrix, n * n);
    return info;
}

/* a⁻¹·b from P·a = L·U; or a⁻ᵀ·b = Pᵀ·L⁻ᵀ·U⁻ᵀ·b. */
static void lu_solve(int64_t n, int64_t k, bool transpose, const double *a, const int64_t *pivot, double *b)
{
    if (transpose) {
        triangular(n, k, (cj_triangle){ .upper = true, .transpose = true }, a, b);
        triangular(n, k, (cj_triangle){ .transpose = true, .unit = true }, a, b);
        for (int64_t i = n - 1; i >= 0; i--) swap_rows(b, k, i, pivot[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) swap_rows(b, k, i, pivot[i]);
    triangular(n, k, (cj_triangle){ .unit = true }, a, b);
    triangular(n, k, (cj_triangle){ .upper = true }, a, b);
}

static int64_t own_solve(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k, bool transpose, const void *matrix, void *rhs,
                         void *work)
{
    char *left = work;
    (void)on;
    int64_t *pivot = cut(&left, n * 8);
    double *a = cut(&left, n * n * 8), *b = widen(t, rhs, n * k, &left);
    for (int64_t i = 0; i < n * n; i++) a[i] = t == CJ_F64 ? ((const double *)matrix)[i] : (double)((const float *)matrix)[i];
    int64_t info = lu(n, a, pivot);
    if (info) return info;
    lu_solve(n, k, transpose, a, pivot, b);
    narrow(t, b, rhs, n * k);
    return 0;
}

static int64_t own_inverse(const cj_dense_place *on, cj_dtype t, int64_t n, void *matrix, void *work)
{
    char *left = work;
    (void)on;
    int64_t *pivot = cut(&left, n * 8);
    double *x = cut(&left, n * n * 8), *a = widen(t, matrix, n * n, &left);
    int64_t info = lu(n, a, pivot);
    if (info) return info;
    for (int64_t i = 0; i < n * n; i++) x[i] = i % (n + 1) == 0;
    lu_solve(n, n, false, a, pivot, x);
    if (t == CJ_F64) memcpy(matrix, x, (size_t)(n * n) * 8);
    else narrow(t, x, matrix, n * n);
    return 0;
}

/* ---- Householder QR ---------------------------------------------------------------------------------------------------------------------------- */

/* v·(I - tau·u·uᵀ) eliminates x[1 .. n-1] (stride s): x[0] becomes beta, the rest u[1 ..] with u[0] = 1. As LAPACK: no reflection where the rest
 * is zero already. */
static double reflector(double *x, int64_t n, int64_t s)
{
    double rest = 0;
    for (int64_t i = 1; i < n; i++) rest = hypot(rest, x[i * s]);
    if (rest == 0) return 0;
    double alpha = x[0], beta = -copysign(hypot(alpha, rest), alpha);
    for (int64_t i = 1; i < n; i++) x[i * s] /= alpha - beta;
    x[0] = beta;
    return (beta - alpha) / beta;
}

static int64_t own_qr(cj_dtype t, int64_t m, int64_t n, void *matrix, void *q_out, void *r_out, void *work)
{
    char *left = work;
    const int64_t k = m < n ? m : n;
    double *tau = cut(&left, k * 8), *a = widen(t, matrix, m * n, &left), *q = blank(t, q_out, m * k, &left),
           *r = blank(t, r_out, k * n, &left);
    for (int64_t c = 0; c < k; c++) {
        tau[c] = reflector(a + c * n + c, m - c, n);
        for (int64_t j = c + 1; j < n; j++) {
            double s = a[c * n + j];
            for (int64_t i = c + 1; i < m; i++) s += a[i * n + c] * a[i * n + j];
            s *= tau[c];
            a[c * n + j] -= s;
            for (int64_t i = c + 1; i < m; i++) a[i * n + j] -= s * a[i * n + c];
        }
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) r[i * n + j] = j < i ? 0 : a[i * n + j];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) q[i * k + j] = i == j;
    for (int64_t c = k - 1; c >= 0; c--)
        for (int64_t j = c; j < k; j++) {
            double s = q[c * k + j];
            for (int64_t i = c + 1; i < m; i++) s += a[i * n + c] * q[i * k + j];
            s *= tau[c];
            q[c * k + j] -= s;
            for (int64_t i = c + 1; i < m; i++) q[i * k + j] -= s * a[i * n + c];
        }
    narrow(t, q, q_out, m * k);
    narrow(t, r, r_out, k * n);
    return 0;
}

/* ---- Jacobi: rotations until nothing is left to rotate ----------------------------------------------------------------------------------------- */

enum { SWEEPS = 60 };

/* Cosine and sine that diagonalise [[p, r], [r, q]]. */
static void rotation(double p, double q, double r, double *c, double *s)
{
    double theta = (q - p) / (2 * r), tangent = copysign(1, theta) / (fabs(theta) + hypot(1, theta));
    *c = 1 / hypot(1, tangent);
    *s = tangent * *c;
}

static void rotate(double *x, double *y, int64_t n, int64_t stride, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double a = x[i * stride], b = y[i * stride];
        x[i * stride] = c * a - s * b;
        y[i * stride] = s * a + c * b;
    }
}

static int64_t own_eigh(const cj_dense_place *on, cj_dtype t, int64_t n, void *matrix, void *values, bool vectors, void *work)
{
    char *left = work;
    (void)on;
    double *v = cut(&left, n * n * 8), *a = widen(t, matrix, n * n, &left), *w = blank(t, values, n, &left);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            v[i * n + j] = i == j; /* rows are eigenvectors */
            if (j > i) a[i * n + j] = a[j * n + i];
        }
    const double negligible = DBL_EPSILON / (8 * (double)n) * norm(a, n * n);
    bool moved = true;
    for (int sweep = 0; moved; sweep++) {
        if (sweep == SWEEPS) return 1;
        moved = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double r = a[p * n + q], c, s;
                if (fabs(r) <= negligible) continue;
                moved = true;
                rotation(a[p * n + p], a[q * n + q], r, &c, &s);
                rotate(a + p, a + q, n, n, c, s);
                rotate(a + p * n, a + q * n, n, 1, c, s);
                rotate(v + p * n, v + q * n, n, 1, c, s);
                a[p * n + q] = a[q * n + p] = 0;
            }
    }
    for (int64_t i = 0; i < n; i++) w[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++) { /* ascending, by selection */
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            if (w[j] < w[least]) least = j;
        double x = w[i];
        w[i] = w[least];
        w[least] = x;
        swap_rows(v, n, i, least);
    }
    if (vectors)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) a[i * n + j] = v[j * n + i];
    narrow(t, w, values, n);
    if (vectors) narrow(t, a, matrix, n * n);
    return 0;
}

/* A unit vector orthogonal to the rows u[0 .. at-1] of length n, into u[at]: the unit vector that has most left after projecting twice. */
static void complete(double *u, int64_t at, int64_t n)
{
    double *x = u + at * n, best = -1;
    int64_t axis = 0;
    for (int64_t e = 0; e < n; e++) {
        double left = 1;
        for (int64_t i = 0; i < at; i++) left -= u[i * n + e] * u[i * n + e];
        if (left > best) best = left, axis = e;
    }
    for (int64_t e = 0; e < n; e++) x[e] = e == axis;
    for (int twice = 0; twice < 2; twice++)
        for (int64_t i = 0; i < at; i++) {
            double s = dot(u + i * n, x, n);
            for (int64_t e = 0; e < n; e++) x[e] -= s * u[i * n + e];
        }
    double length = norm(x, n);
    for (int64_t e = 0; e < n; e++) x[e] /= length;
}

/* One-sided Jacobi on the rows of b [k, l], k <= l: rotated until they are orthogonal, b = z·diag(s)·y. z [k, k] collects the rotations as
 * columns of its transpose. */
static int64_t row_svd(int64_t k, int64_t l, double *b, double *s, double *zt)
{
    for (int64_t i = 0; i < k * k; i++) zt[i] = i % (k + 1) == 0;
    bool moved = true;
    for (int sweep = 0; moved; sweep++) {
        if (sweep == SWEEPS) return 1;
        moved = false;
        for (int64_t p = 0; p < k; p++)
            for (int64_t q = p + 1; q < k; q++) {
                double pp = dot(b + p * l, b + p * l, l), qq = dot(b + q * l, b + q * l, l), pq = dot(b + p * l, b + q * l, l), c, sn;
                if (fabs(pq) <= DBL_MIN || fabs(pq) <= 4 * DBL_EPSILON * sqrt(pp) * sqrt(qq)) continue;
                moved = true;
                rotation(pp, qq, pq, &c, &sn);
                rotate(b + p * l, b + q * l, l, 1, c, sn);
                rotate(zt + p * k, zt + q * k, k, 1, c, sn);
            }
    }
    double largest = 0;
    for (int64_t i = 0; i < k; i++) largest = fmax(largest, s[i] = norm(b + i * l, l));
    for (int64_t i = 0; i < k; i++) {
        int64_t top = i;
        for (int64_t j = i + 1; j < k; j++)
            if (s[j] > s[top]) top = j;
        double x = s[i];
        s[i] = s[top];
        s[top] = x;
        swap_rows(b, l, i, top);
        swap_rows(zt, k, i, top);
        if (s[i] > DBL_EPSILON * DBL_EPSILON * largest) {
            for (int64_t e = 0; e < l; e++) b[i * l + e] /= s[i];
        } else {
            complete(b, i, l);
        }
    }
    return 0;
}

static int64_t own_svd(cj_dtype t, int64_t m, int64_t n, void *matrix, void *u_out, void *s_out, void *vh_out, void *work)
{
    char *left = work;
    const int64_t k = m < n ? m : n, l = m < n ? n : m;
    double *b = cut(&left, k * l * 8), *zt = cut(&left, k * k * 8), *a = widen(t, matrix, m * n, &left), *s = blank(t, s_out, k, &left);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < l; j++) b[i * l + j] = m < n ? a[i * n + j] : a[j * n + i];
    double scale = 0; /* squares must neither overflow nor vanish */
    for (int64_t i = 0; i < k * l; i++) scale = fmax(scale, fabs(b[i]));
    if (scale > 0)
        for (int64_t i = 0; i < k * l; i++) b[i] /= scale;
    if (row_svd(k, l, b, s, zt)) return 1;
    for (int64_t i = 0; i < k; i++) s[i] *= scale;
    narrow(t, s, s_out, k);
    if (!u_out) return 0;
    double *u = blank(t, u_out, m * k, &left), *vh = blank(t, vh_out, k * n, &left);
    for (int64_t i = 0; i < k; i++) { /* wide: a = z·s·b; tall: its transpose */
        for (int64_t j = 0; j < m; j++) u[j * k + i] = m < n ? zt[i * k + j] : b[i * l + j];
        for (int64_t j = 0; j < n; j++) vh[i * n + j] = m < n ? b[i * l + j] : zt[i * k + j];
    }
    narrow(t, u, u_out, m * k);
    narrow(t, vh, vh_out, k * n);
    return 0;
}

/* ---- general eigenvalues ----------------------------------------------------------------------------------------------------------------------- */

/* a = q·h·qᵀ with h zero below the first subdiagonal, in place. */
static void hessenberg(int64_t n, double *a, double *q)
{
    for (int64_t i = 0; i < n * n; i++) q[i] = i % (n + 1) == 0;
    for (int64_t c = 0; c + 2 < n; c++) {
        double *u = a + (c + 1) * n + c;
        const int64_t len = n - c - 1;
        double tau = reflector(u, len, n), beta = u[0];
        u[0] = 1;
        for (int64_t j = c + 1; j < n; j++) { /* (I - tau u uᵀ)·a */
            double s = 0;
            for (int64_t i = 0; i < len; i++) s += u[i * n] * a[(c + 1 + i) * n + j];
            for (int64_t i = 0; i < len; i++) a[(c + 1 + i) * n + j] -= tau * s * u[i * n];
        }
        for (int which = 0; which < 2; which++) /* ·(I - tau u uᵀ) */
            for (int64_t i = 0; i < n; i++) {
                double *row = (which ? q : a) + i * n + c + 1, s = 0;
                for (int64_t j = 0; j < len; j++) s += row[j] * u[j * n];
                for (int64_t j = 0; j < len; j++) row[j] -= tau * s * u[j * n];
            }
        u[0] = beta;
        for (int64_t i = 1; i < len; i++) u[i * n] = 0;
    }
}

/* The eigenvalue of the last 2 x 2 block of h[.., e] that is nearer to its corner (Wilkinson's shift). */
static number shift_of(const number *h, int64_t n, int64_t e)
{
    number a = h[(e - 1) * n + e - 1], b = h[(e - 1) * n + e], c = h[e * n + e - 1], d = h[e * n + e];
    number half = (a - d) / 2, root = csqrt(half * half + b * c);
    number one = d + half + root, other = d + half - root;
    return cabs(one - d) < cabs(other - d) ? one : other;
}

/* h becomes upper triangular, q collects the rotations: Hessenberg QR with one complex shift at a time. */
static int64_t schur(int64_t n, number *h, number *q)
{
    double size = 0;
    for (int64_t i = 0; i < n * n; i++) size = fmax(size, cabs(h[i]));
    for (int64_t e = n - 1, turn = 0; e > 0; turn++) {
        int64_t b = e;
        for (; b > 0; b--) {
            double near = cabs(h[b * n + b]) + cabs(h[(b - 1) * n + b - 1]);
            if (cabs(h[b * n + b - 1]) <= DBL_EPSILON * (near > 0 ? near : size)) {
                h[b * n + b - 1] = 0;
                break;
            }
        }
        if (b == e) {
            e--, turn = 0;
            continue;
        }
        if (turn == 40 * n + 100) return 1;
        number shift =
            turn % 11 == 10 ? h[e * n + e] + cabs(h[e * n + e - 1]) : shift_of(h, n, e); /* now and then another, against cycles */
        for (int64_t i = b; i <= e; i++) h[i * n + i] -= shift;
        /* One step of QR on the block: rotations from the left, each applied from the right one step later. */
        number c_before = 1, s_before = 0;
        for (int64_t i = b; i <= e; i++) {
            number c = 1, s = 0;
            if (i < e) {
                number x = h[i * n + i], y = h[(i + 1) * n + i];
                double r = hypot(cabs(x), cabs(y));
                if (r > 0) c = x / r, s = y / r;
                for (int64_t j = i; j < n; j++) {
                    number p = h[i * n + j], o = h[(i + 1) * n + j];
                    h[i * n + j] = conj(c) * p + conj(s) * o;
                    h[(i + 1) * n + j] = c * o - s * p;
                }
            }
            if (i > b)
                for (int which = 0; which < 2; which++) {
                    number *m = which ? q : h;
                    int64_t rows = which ? n : i + 1;
                    for (int64_t j = 0; j < rows; j++) {
                        number p = m[j * n + i - 1], o = m[j * n + i];
                        m[j * n + i - 1] = p * c_before + o * s_before;
                        m[j * n + i] = o * conj(c_before) - p * conj(s_before);
                    }
                }
            c_before = c, s_before = s;
        }
        for (int64_t i = b; i <= e; i++) h[i * n + i] += shift;
    }
    return 0;
}

/* Columns of v: q times the eigenvectors of the triangular h, each of length 1 with its largest element real, as LAPACK's. */
static void schur_vectors(int64_t n, const number *h, const number *q, number *y, double *v)
{
    double size = 0;
    for (int64_t i = 0; i < n * n; i++) size = fmax(size, cabs(h[i]));
    for (int64_t k = 0; k < n; k++) {
        number value = h[k * n + k];
        y[k] = 1;
        for (int64_t i = k - 1; i >= 0; i--) {
            number s = h[i * n + k], d = h[i * n + i] - value;
            for (int64_t j = i + 1; j < k; j++) s += h[i * n + j] * y[j];
            if (cabs(d) <= DBL_EPSILON * size) d = DBL_EPSILON * (size > 0 ? size : 1); /* repeated: a vector nearby */
            y[i] = -s / d;
        }
        double length = 0, largest = 0;
        number turn = 1;
        for (int64_t i = 0; i < n; i++) {
            number s = 0;
            for (int64_t j = 0; j <= k; j++) s += q[i * n + j] * y[j];
            v[(i * n + k) * 2] = creal(s), v[(i * n + k) * 2 + 1] = cimag(s);
            length = hypot(length, cabs(s));
            if (cabs(s) > largest * (1 + 1e-10)) largest = cabs(s), turn = conj(s) / cabs(s);
        }
        for (int64_t i = 0; i < n; i++) {
            number s = (v[(i * n + k) * 2] + v[(i * n + k) * 2 + 1] * I) * turn / length;
            v[(i * n + k) * 2] = creal(s), v[(i * n + k) * 2 + 1] = cimag(s);
        }
    }
}

static int64_t own_eig(cj_dtype t, int64_t n, void *matrix, void *w_out, void *v_out, void *work)
{
    char *left = work;
    number *h = cut(&left, n * n * 16), *q = cut(&left, n * n * 16), *y = cut(&left, n * 16);
    double *basis = cut(&left, n * n * 8), *a = widen(t, matrix, n * n, &left), *w = blank(t, w_out, 2 * n, &left);
    double size = norm(a, n * n);
    hessenberg(n, a, basis);
    for (int64_t i = 0; i < n * n; i++) h[i] = a[i], q[i] = basis[i];
    if (schur(n, h, q)) return 1;
    for (int64_t i = 0; i < n; i++) {
        number x = h[i * n + i];
        w[2 * i] = creal(x);
        w[2 * i + 1] = fabs(cimag(x)) <= (double)n * DBL_EPSILON * size ? 0 : cimag(x);
    }
    narrow(t, w, w_out, 2 * n);
    if (!v_out) return 0;
    double *v = blank(t, v_out, 2 * n * n, &left);
    schur_vectors(n, h, q, y, v);
    narrow(t, v, v_out, 2 * n * n);
    return 0;
}

/* ---- the table --------------------------------------------------------------------------------------------------------------------------------- */

static size_t own_workspace(const cj_dense_place *on, cj_dense_code code, cj_dtype t, int64_t m, int64_t n, int64_t k, bool vectors)
{
    const int64_t wide = t == CJ_F64 ? 0 : 8, least = m < n ? m : n;
    const size_t square = room(n * n * 8), copy = room(m * n * wide);
    (void)on;
    switch (code) {
    case CJ_DENSE_CHOLESKY:
    case CJ_DENSE_LU: return copy;
    case CJ_DENSE_TRIANGULAR: return copy + room(n * k * wide);
    case CJ_DENSE_SOLVE: return room(n * 8) + square + room(n * k * wide);
    case CJ_DENSE_INVERSE: return room(n * 8) + square + copy;
    case CJ_DENSE_EIGH: return square + copy + room(n * wide);
    case CJ_DENSE_EIG:
        return 2 * room(n * n * 16) + room(n * 16) + square + copy + room(2 * n * wide) + (vectors ? room(2 * n * n * wide) : 0);
    case CJ_DENSE_SVD:
        return room(m * n * 8) + room(least * least * 8) + copy + room(least * wide) +
               (vectors ? room(m * least * wide) + room(least * n * wide) : 0);
    case CJ_DENSE_QR: return room(least * 8) + copy + room(m * least * wide) + room(least * n * wide);
    default: return 0;
    }
}

const cj_dense cj__dense_own = {
    .name = "own",
    .workspace = own_workspace,
    .cholesky = own_cholesky,
    .triangular = own_triangular,
    .lu = own_lu,
    .solve = own_solve,
    .inverse = own_inverse,
    .eigh = own_eigh,
    .eig = own_eig,
    .svd = own_svd,
    .qr = own_qr,
};
