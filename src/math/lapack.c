/* Dense decompositions by LAPACK: the table of dense.h on OpenBLAS, opened at run time when the first decomposition asks for it.
 *
 * Opened, not linked: a program that factors nothing does not load a large library and start its threads, and one that finds no OpenBLAS goes on with our
 * own.  LAPACK is column-major, so it sees the transpose of what we store; each function says what that makes of its problem.  OpenBLAS is set
 * to one thread for the whole process: batches are shared out by our own loop, and results must not depend on how many threads a machine has.
 *
 * Fortran's interface: every argument is a pointer, the lengths of strings follow at the end.
 */
#include "math/dense.h"

#if defined CJ_LAPACK_LIBRARY

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef void fortran(void); /* cast to the argument list where it is called */

enum { POTRF, TRSM, GETRF, GETRS, GETRI, SYEVD, GEEV, GESDD, GELQF, ORGLQ, ROUTINES };
static const char *const names[ROUTINES] = { "potrf", "trsm", "getrf", "getrs", "getri", "syevd", "geev", "gesdd", "gelqf", "orglq" };
static fortran *routine[ROUTINES][2]; /* f32, f64; written once, before anybody reads */
static bool available;

/* An OpenBLAS older than the processor takes its kernels for the first 64-bit ones (Prescott) and runs at half its speed.  It reads the name of a core once, while it is being
 * loaded: so it is loaded again with the name of one that has this machine's vectors, unless the environment names one already or somebody else holds it open. */
static void *open_for_this_processor(void)
{
    void *library = dlopen(CJ_LAPACK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *core = cj__cpu_kernels(CJ_ISA_LEVEL_AVX512) ? "SkylakeX" : cj__cpu_kernels(CJ_ISA_LEVEL_AVX2) ? "Haswell" : NULL;
    char *(*name_of_core)(void) = NULL;
    if (library) *(void **)&name_of_core = dlsym(library, "openblas_get_corename");
    if (!core || !name_of_core || strcmp(name_of_core(), "Prescott") != 0 || getenv("OPENBLAS_CORETYPE")) return library;
    dlclose(library);
    const bool set = setenv("OPENBLAS_CORETYPE", core, 0) == 0;
    library = dlopen(CJ_LAPACK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (set) unsetenv("OPENBLAS_CORETYPE");
    return library;
}

static void open_library(void)
{
    void *library = open_for_this_processor();
    if (!library) return;
    for (int r = 0; r < ROUTINES; r++)
        for (int d = 0; d < 2; d++) {
            char name[16] = { d ? 'd' : 's' };
            strcpy(name + 1, names[r]);
            strcat(name, "_");
            *(void **)&routine[r][d] = dlsym(library, name);
            if (!routine[r][d]) return;
        }
    void (*threads)(int);
    *(void **)&threads = dlsym(library, "openblas_set_num_threads");
    if (threads) threads(1);
    available = true;
}

#define ROUTINE(name, t, ...) ((void (*)(__VA_ARGS__))routine[name][(t) == CJ_F64])
typedef const char *text;
typedef const int *whole;

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t size_of(cj_dtype t) { return t == CJ_F64 ? 8 : 4; }

/* ---- transposes -------------------------------------------------------------------------------------------------------------------------------- */

#define TRANSPOSES(T)                                                                                                                      \
    static void square_##T(int64_t n, T *a)                                                                                                \
    {                                                                                                                                      \
        enum { B = 16 };                                                                                                                   \
        for (int64_t r = 0; r < n; r += B)                                                                                                 \
            for (int64_t c = r; c < n; c += B)                                                                                             \
                for (int64_t i = r; i < n && i < r + B; i++)                                                                               \
                    for (int64_t j = c > i ? c : i + 1; j < n && j < c + B; j++) {                                                         \
                        T x = a[i * n + j];                                                                                                \
                        a[i * n + j] = a[j * n + i];                                                                                       \
                        a[j * n + i] = x;                                                                                                  \
                    }                                                                                                                      \
    }                                                                                                                                      \
    static void other_##T(int64_t m, int64_t n, const T *a, T *y)                                                                          \
    {                                                                                                                                      \
        enum { B = 16 };                                                                                                                   \
        for (int64_t r = 0; r < m; r += B)                                                                                                 \
            for (int64_t c = 0; c < n; c += B)                                                                                             \
                for (int64_t i = r; i < m && i < r + B; i++)                                                                               \
                    for (int64_t j = c; j < n && j < c + B; j++) y[j * m + i] = a[i * n + j];                                              \
    }
TRANSPOSES(float)
TRANSPOSES(double)
static void transpose_square(cj_dtype t, int64_t n, void *a)
{
    if (t == CJ_F64) square_double(n, a);
    else square_float(n, a);
}
static void transpose(cj_dtype t, int64_t m, int64_t n, const void *a, void *y)
{
    if (t == CJ_F64) other_double(m, n, a, y);
    else other_float(m, n, a, y);
}

static bool zero_at(cj_dtype t, const void *a, int64_t i) { return t == CJ_F64 ? ((const double *)a)[i] == 0 : ((const float *)a)[i] == 0; }

/* ---- Cholesky, triangles, LU ------------------------------------------------------------------------------------------------------------------- */

/* Our lower triangle is its upper one: a = Uᵀ·U with U = Lᵀ. */
static int64_t lapack_cholesky(cj_dtype t, int64_t n, void *a, void *work)
{
    (void)work;
    int size = (int)n, info = 0;
    ROUTINE(POTRF, t, text, whole, void *, whole, int *, size_t)("U", &size, a, &size, &info, 1);
    if (info) return info;
    for (int64_t i = 0; i < n; i++) memset((char *)a + (size_t)(i * n + i + 1) * size_of(t), 0, (size_t)(n - i - 1) * size_of(t));
    return 0;
}

/* a·x = b is xᵀ·aᵀ = bᵀ: a solve from the right. */
static int64_t lapack_triangular(cj_dtype t, int64_t n, int64_t k, cj_triangle form, const void *a, void *b, void *work)
{
    (void)work;
    for (int64_t i = 0; i < n && !form.unit; i++) {
        int64_t at = form.upper != form.transpose ? n - 1 - i : i; /* the order of elimination */
        if (zero_at(t, a, at * n + at)) return at + 1;
    }
    const int size = (int)n, columns = (int)k;
    const double one = 1;
    const float one_f32 = 1;
    ROUTINE(TRSM, t, text, text, text, text, whole, whole, const void *, const void *, whole, void *, whole, size_t, size_t, size_t, size_t)
    ("R", form.upper ? "L" : "U", form.transpose ? "T" : "N", form.unit ? "U" : "N", &columns, &size,
     t == CJ_F64 ? (const void *)&one : &one_f32, a, &size, b, &columns, 1, 1, 1, 1);
    return 0;
}

static int factor(cj_dtype t, int64_t n, void *a, int *pivot)
{
    int size = (int)n, info = 0;
    ROUTINE(GETRF, t, whole, whole, void *, whole, int *, int *)(&size, &size, a, &size, pivot, &info);
    return info;
}

static int64_t lapack_lu(cj_dtype t, int64_t n, void *a, int64_t *pivot, void *work)
{
    transpose_square(t, n, a);
    int info = factor(t, n, a, work);
    transpose_square(t, n, a);
    for (int64_t i = 0; i < n; i++) pivot[i] = ((int *)work)[i] - 1;
    return info;
}

static int64_t lapack_solve(cj_dtype t, int64_t n, int64_t k, bool transposed, void *a, void *b, void *work)
{
    int *pivot = work, size = (int)n, columns = (int)k;
    void *x = (char *)work + round_up((size_t)n * sizeof *pivot);
    transpose_square(t, n, a);
    int info = factor(t, n, a, pivot);
    if (info) return info;
    if (k == 1) x = b;
    else transpose(t, n, k, b, x);
    ROUTINE(GETRS, t, text, whole, whole, const void *, whole, const int *, void *, whole, int *, size_t)
    (transposed ? "T" : "N", &size, &columns, a, &size, pivot, x, &size, &info, 1);
    if (k > 1) transpose(t, k, n, x, b);
    return info;
}

static int query(cj_dtype t, const void *answer) { return (int)(t == CJ_F64 ? *(const double *)answer : *(const float *)answer); }

static void invert(cj_dtype t, int size, void *a, const int *pivot, void *work, int lwork, int *info)
{
    ROUTINE(GETRI, t, whole, void *, whole, const int *, void *, whole, int *)(&size, a, &size, pivot, work, &lwork, info);
}
static int64_t lapack_inverse(cj_dtype t, int64_t n, void *a, void *work)
{
    double answer = 0;
    int info = 0, *pivot = work;
    transpose_square(t, n, a);
    if ((info = factor(t, n, a, pivot))) return info;
    invert(t, (int)n, a, pivot, &answer, -1, &info);
    invert(t, (int)n, a, pivot, (char *)work + round_up((size_t)n * sizeof *pivot), query(t, &answer), &info);
    transpose_square(t, n, a);
    return info;
}

/* ---- eigenvalues, singular values, QR ---------------------------------------------------------------------------------------------------------- */

static void symmetric(cj_dtype t, int n, void *a, void *w, bool vectors, void *work, int lwork, int *iwork, int liwork, int *info)
{
    ROUTINE(SYEVD, t, text, text, whole, void *, whole, void *, void *, whole, int *, whole, int *, size_t, size_t)
    (vectors ? "V" : "N", "U", &n, a, &n, w, work, &lwork, iwork, &liwork, info, 1, 1);
}
static int64_t lapack_eigh(cj_dtype t, int64_t n, void *a, void *w, bool vectors, void *work)
{
    double answer = 0;
    int integers = 0, info = 0;
    symmetric(t, (int)n, a, w, vectors, &answer, -1, &integers, -1, &info);
    int lwork = query(t, &answer);
    symmetric(t, (int)n, a, w, vectors, work, lwork, (int *)((char *)work + round_up((size_t)lwork * size_of(t))), integers, &info);
    if (info) return 1;
    if (vectors) transpose_square(t, n, a);
    return 0;
}

static void general(cj_dtype t, int n, void *a, void *re, void *im, void *v, bool vectors, void *work, int lwork, int *info)
{
    const int one = 1;
    ROUTINE(GEEV, t, text, text, whole, void *, whole, void *, void *, void *, whole, void *, whole, void *, whole, int *, size_t, size_t)
    ("N", vectors ? "V" : "N", &n, a, &n, re, im, re, &one, v, &n, work, &lwork, info, 1, 1);
}

/* Real and imaginary parts as geev gives them, column by column: of a complex pair, column j is the real part and j + 1 the imaginary one. */
#define UNPACK(T)                                                                                                                          \
    static void unpack_##T(int64_t n, const T *re, const T *im, const T *packed, T *w, T *v)                                               \
    {                                                                                                                                      \
        for (int64_t j = 0; j < n; j++) {                                                                                                  \
            w[2 * j] = re[j], w[2 * j + 1] = im[j];                                                                                        \
            for (int64_t i = 0; i < n && v; i++) {                                                                                         \
                const T *pair = packed + (im[j] < 0 ? j - 1 : j) * n + i;                                                                  \
                v[(i * n + j) * 2] = pair[0];                                                                                              \
                v[(i * n + j) * 2 + 1] = im[j] == 0 ? 0 : im[j] < 0 ? -pair[n] : pair[n];                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
UNPACK(float)
UNPACK(double)

static int64_t lapack_eig(cj_dtype t, int64_t n, void *a, void *w, void *v, void *work)
{
    const size_t vector = round_up((size_t)n * size_of(t)), matrix = v ? round_up((size_t)(n * n) * size_of(t)) : 64;
    char *re = work, *im = re + vector, *packed = im + vector, *rest = packed + matrix;
    double answer = 0;
    int info = 0;
    transpose_square(t, n, a);
    general(t, (int)n, a, re, im, packed, v != NULL, &answer, -1, &info);
    general(t, (int)n, a, re, im, packed, v != NULL, rest, query(t, &answer), &info);
    if (info) return 1;
    if (t == CJ_F64) unpack_double(n, (double *)re, (double *)im, (double *)packed, w, v);
    else unpack_float(n, (float *)re, (float *)im, (float *)packed, w, v);
    return 0;
}

/* aᵀ = V·S·Uᵀ: its left vectors, stored column by column, are our vh, and its right ones our u. */
static void singular(cj_dtype t, int m, int n, void *a, void *u, void *s, void *vh, void *work, int lwork, int *iwork, int *info)
{
    const int k = m < n ? m : n;
    ROUTINE(GESDD, t, text, whole, whole, void *, whole, void *, void *, whole, void *, whole, void *, whole, int *, int *, size_t)
    (u ? "S" : "N", &n, &m, a, &n, s, vh, &n, u, &k, work, &lwork, iwork, info, 1);
}
static int64_t lapack_svd(cj_dtype t, int64_t m, int64_t n, void *a, void *u, void *s, void *vh, void *work)
{
    const int64_t k = m < n ? m : n;
    double answer = 0;
    int info = 0, *iwork = work;
    singular(t, (int)m, (int)n, a, u, s, vh, &answer, -1, iwork, &info);
    singular(t, (int)m, (int)n, a, u, s, vh, (char *)work + round_up((size_t)(8 * k) * sizeof(int)), query(t, &answer), iwork, &info);
    return info ? 1 : 0;
}

/* aᵀ = L·Q is a = Qᵀ·Lᵀ; Q, stored column by column, is our q. */
static void lq(cj_dtype t, int m, int n, void *a, void *tau, void *work, int lwork, int *info)
{
    ROUTINE(GELQF, t, whole, whole, void *, whole, void *, void *, whole, int *)(&n, &m, a, &n, tau, work, &lwork, info);
}
static void make_q(cj_dtype t, int m, int n, void *a, const void *tau, void *work, int lwork, int *info)
{
    const int k = m < n ? m : n;
    ROUTINE(ORGLQ, t, whole, whole, whole, void *, whole, const void *, void *, whole, int *)(&k, &m, &k, a, &n, tau, work, &lwork, info);
}
static int64_t lapack_qr(cj_dtype t, int64_t m, int64_t n, void *a, void *q, void *r, void *work)
{
    const int64_t k = m < n ? m : n;
    const size_t e = size_of(t);
    char *tau = work, *rest = tau + round_up((size_t)k * e);
    double answer = 0;
    int info = 0;
    lq(t, (int)m, (int)n, a, tau, &answer, -1, &info);
    lq(t, (int)m, (int)n, a, tau, rest, query(t, &answer), &info);
    for (int64_t i = 0; i < k; i++) {
        memset((char *)r + (size_t)(i * n) * e, 0, (size_t)i * e);
        memcpy((char *)r + (size_t)(i * n + i) * e, (char *)a + (size_t)(i * n + i) * e, (size_t)(n - i) * e);
    }
    make_q(t, (int)m, (int)n, a, tau, &answer, -1, &info);
    make_q(t, (int)m, (int)n, a, tau, rest, query(t, &answer), &info);
    for (int64_t i = 0; i < m; i++) memcpy((char *)q + (size_t)(i * k) * e, (char *)a + (size_t)(i * n) * e, (size_t)k * e);
    return 0;
}

/* ---- the table --------------------------------------------------------------------------------------------------------------------------------- */

static size_t lapack_workspace(cj_dense_code code, cj_dtype t, int64_t m, int64_t n, int64_t k, bool vectors)
{
    const size_t e = size_of(t), least = (size_t)(m < n ? m : n), pivots = round_up((size_t)n * sizeof(int));
    double answer = 0, other = 0;
    int integers = 0, info = 0;
    char *some = (char *)&other; /* stands for a vector or matrix that a query does not read */
    switch (code) {
    case CJ_DENSE_LU: return pivots;
    case CJ_DENSE_SOLVE: return pivots + round_up((size_t)(n * k) * e);
    case CJ_DENSE_INVERSE: invert(t, (int)n, some, &integers, &answer, -1, &info); return pivots + round_up((size_t)query(t, &answer) * e);
    case CJ_DENSE_EIGH:
        symmetric(t, (int)n, some, some, vectors, &answer, -1, &integers, -1, &info);
        return round_up((size_t)query(t, &answer) * e) + round_up((size_t)integers * sizeof(int));
    case CJ_DENSE_EIG:
        general(t, (int)n, some, some, some, some, vectors, &answer, -1, &info);
        return 2 * round_up((size_t)n * e) + (vectors ? round_up((size_t)(n * n) * e) : 64) + round_up((size_t)query(t, &answer) * e);
    case CJ_DENSE_SVD:
        singular(t, (int)m, (int)n, some, vectors ? some : NULL, some, some, &answer, -1, &integers, &info);
        return round_up(8 * least * sizeof(int)) + round_up((size_t)query(t, &answer) * e);
    case CJ_DENSE_QR: {
        lq(t, (int)m, (int)n, some, some, &answer, -1, &info);
        make_q(t, (int)m, (int)n, some, some, &other, -1, &info);
        size_t first = (size_t)query(t, &answer), second = (size_t)query(t, &other);
        return round_up(least * e) + round_up((first > second ? first : second) * e);
    }
    default: return 0;
    }
}

static const cj_dense table = {
    .name = "LAPACK",
    .workspace = lapack_workspace,
    .cholesky = lapack_cholesky,
    .triangular = lapack_triangular,
    .lu = lapack_lu,
    .solve = lapack_solve,
    .inverse = lapack_inverse,
    .eigh = lapack_eigh,
    .eig = lapack_eig,
    .svd = lapack_svd,
    .qr = lapack_qr,
};

const cj_dense *cj__dense_lapack(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return available ? &table : NULL;
}

#else
const cj_dense *cj__dense_lapack(void) { return NULL; }
#endif

const cj_dense *cj__dense(void)
{
    const cj_dense *lapack = cj__dense_lapack();
    return lapack ? lapack : &cj__dense_own;
}
