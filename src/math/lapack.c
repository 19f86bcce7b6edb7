/* Dense decompositions by LAPACK: the table of dense.h on OpenBLAS, opened at run time when the first decomposition asks for it.
 *
 * Opened, not linked: a program that factors nothing does not load a large library and start its threads, and one that finds no OpenBLAS goes on with our
 * own.  LAPACK is column-major, so it sees the transpose of what we store; each function says what that makes of its problem.  OpenBLAS is set
 * to one thread for the whole process: batches are shared out by our own loop, and results must not depend on how many threads a machine has.  What a single
 * matrix gains from threads, it gains in our own products: elimination (eliminate.c) and the vectors of eigh.
 *
 * Fortran's interface: every argument is a pointer, the lengths of strings follow at the end.
 */
#include "math/dense.h"

#if defined CJ_LAPACK_LIBRARY

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

typedef void fortran(void); /* cast to the argument list where it is called */

enum { POTRF, TRSM, SYEVD, SYTRD, STEDC, LARFT, GEEV, GESDD, GELQF, ORGLQ, ROUTINES };
static const char *const names[ROUTINES] = { "potrf", "trsm", "syevd", "sytrd", "stedc", "larft", "geev", "gesdd", "gelqf", "orglq" };
static fortran *routine[ROUTINES][2]; /* f32, f64; written once, before anybody reads */
static bool available;

/* OpenBLAS reads what it is to do from the environment while it is being loaded: here with `settings` in front.  Not by setenv, which may free an array that another thread's
 * getenv is reading: the array is exchanged for a longer copy, which stays, and put back, unless somebody has set a variable meanwhile. */
enum { SETTINGS = 2, ENVIRONMENT = 1024 };
static void *open_with(char *const settings[SETTINGS], char *longer[ENVIRONMENT])
{
    char **before = environ;
    size_t n = 0, at = 0;
    while (before && before[n]) n++;
    if (n + SETTINGS < ENVIRONMENT) {
        for (int i = 0; i < SETTINGS; i++)
            if (settings[i]) longer[at++] = settings[i];
        for (size_t i = 0; i < n; i++) longer[at++] = before[i];
        environ = longer;
    }
    void *library = dlopen(CJ_LAPACK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (environ == longer) environ = before;
    return library;
}

/* One thread, so that it starts none of its own.  An OpenBLAS older than the processor takes its kernels for the first 64-bit ones (Prescott) and runs at half its speed: it is
 * loaded again with the name of a core that has this machine's vectors.  What the user's environment says goes first, and an OpenBLAS that the program holds open
 * already stays as it is. */
static void *open_for_this_processor(void)
{
    static char one[] = "OPENBLAS_NUM_THREADS=1", avx512[] = "OPENBLAS_CORETYPE=SkylakeX", avx2[] = "OPENBLAS_CORETYPE=Haswell";
    static char *longer[2][ENVIRONMENT];
    char *threads = getenv("OPENBLAS_NUM_THREADS") ? NULL : one;
    void *library = open_with((char *[SETTINGS]){ threads }, longer[0]);
    char *core = cj__cpu_kernels(CJ_ISA_LEVEL_AVX512) ? avx512 : cj__cpu_kernels(CJ_ISA_LEVEL_AVX2) ? avx2 : NULL;
    char *(*name_of_core)(void) = NULL;
    if (library) *(void **)&name_of_core = dlsym(library, "openblas_get_corename");
    if (!core || !name_of_core || strcmp(name_of_core(), "Prescott") != 0 || getenv("OPENBLAS_CORETYPE")) return library;
    dlclose(library);
    return open_with((char *[SETTINGS]){ threads, core }, longer[1]);
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
    }
TRANSPOSES(float)
TRANSPOSES(double)
static void transpose_square(cj_dtype t, int64_t n, void *a)
{
    if (t == CJ_F64) square_double(n, a);
    else square_float(n, a);
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

static int query(cj_dtype t, const void *answer) { return (int)(t == CJ_F64 ? *(const double *)answer : *(const float *)answer); }

/* ---- eigenvalues, singular values, QR ---------------------------------------------------------------------------------------------------------- */

static void symmetric(cj_dtype t, int n, void *a, void *w, bool vectors, void *work, int lwork, int *iwork, int liwork, int *info)
{
    ROUTINE(SYEVD, t, text, text, whole, void *, whole, void *, void *, whole, int *, whole, int *, size_t, size_t)
    (vectors ? "V" : "N", "U", &n, a, &n, w, work, &lwork, iwork, &liwork, info, 1, 1);
}

/* With vectors, in the three steps of syevd, a = Q·T·Qᵀ, T = Z·diag(w)·Zᵀ, V = Q·Z, of which the last, a third of the time, is our own products: blocks of REFLECTORS
 * reflectors are I - X·S·Xᵀ with S triangular (Schreiber & Van Loan 1989), and the rows of zᵀ, which are eigenvectors, become zᵀ - (zᵀ·X)·(X·S)ᵀ. */
enum { REFLECTORS = 48, ALONE = 64 /* rows up to which syevd does it all */ };
typedef struct eigen_space { /* bytes */
    size_t z, vector, square, slim, reduce, divide, integers, product;
} eigen_space;

static void reduce(cj_dtype t, int n, void *a, void *d, void *e, void *tau, void *work, int lwork, int *info)
{
    ROUTINE(SYTRD, t, text, whole, void *, whole, void *, void *, void *, void *, whole, int *, size_t)
    ("U", &n, a, &n, d, e, tau, work, &lwork, info, 1);
}
static void divide(cj_dtype t, int n, void *d, void *e, void *z, void *work, int lwork, int *iwork, int liwork, int *info)
{
    ROUTINE(STEDC, t, text, whole, void *, void *, void *, whole, void *, whole, int *, whole, int *, size_t)
    ("I", &n, d, e, z, &n, work, &lwork, iwork, &liwork, info, 1);
}

/* The products of one block: X·S turned, zᵀ·X, and its product with the first, added. */
static void block_products(int64_t n, int64_t rows, int64_t count, cj_gemm g[3])
{
    g[0] = (cj_gemm){ .m = count, .n = rows, .k = count, .batch = 1, .a_row = count, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n };
    g[1] = (cj_gemm){ .m = n, .n = count, .k = rows, .batch = 1, .a_row = n, .a_col = 1, .b_row = 1, .b_col = n, .c_row = count };
    g[2] = (cj_gemm){
        .m = n, .n = rows, .k = count, .batch = 1, .a_row = count, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n, .accumulate = 1
    };
}
static eigen_space eigen_space_of(const cj_dense_place *on, cj_dtype t, int64_t n)
{
    const size_t e = size_of(t);
    double answer = 0;
    int integers = 0, info = 0;
    char *some = (char *)&answer;
    eigen_space s = { .z = round_up((size_t)(n * n) * e),
                      .vector = round_up((size_t)n * e),
                      .square = round_up(REFLECTORS * REFLECTORS * e) };
    s.slim = round_up((size_t)(REFLECTORS * n) * e);
    reduce(t, (int)n, some, some, some, some, &answer, -1, &info);
    s.reduce = round_up((size_t)query(t, &answer) * e);
    divide(t, (int)n, some, some, some, &answer, -1, &integers, -1, &info);
    s.divide = round_up((size_t)query(t, &answer) * e), s.integers = round_up((size_t)integers * sizeof(int));
    for (int64_t done = 0; done < n - 1; done += REFLECTORS) {
        const int64_t count = n - 1 - done < REFLECTORS ? n - 1 - done : REFLECTORS;
        cj_gemm g[3];
        block_products(n, done + count, count, g);
        for (int i = 0; i < 3; i++) {
            const size_t bytes = round_up(on->k->gemm_workspace[t](&g[i], on->threads));
            if (bytes > s.product) s.product = bytes;
        }
    }
    return s;
}
/* LAPACK's two steps and our products work one after the other. */
static size_t eigen_bytes(const eigen_space *s)
{
    size_t work = s->divide + s->integers, ours = 2 * s->square + 3 * s->slim + s->product;
    work = work > s->reduce ? work : s->reduce;
    return s->z + 2 * s->vector + (work > ours ? work : ours);
}

/* Row i of x, of `rows` elements n apart, is reflector done + i: it ends with a 1 in the place where the elimination left a number of T, and zeros. */
#define REFLECTORS_OF(T)                                                                                                                   \
    static void reflectors_##T(int64_t n, int64_t done, int64_t count, const T *a, T *x)                                                   \
    {                                                                                                                                      \
        for (int64_t i = 0; i < count; i++)                                                                                                \
            for (int64_t r = 0; r < done + count; r++) x[i * n + r] = r < done + i ? a[(done + i + 1) * n + r] : r == done + i;            \
    }                                                                                                                                      \
    static void minus_transpose_##T(int64_t n, int64_t step, const T *s, T *y) /* the lower triangle */                                    \
    {                                                                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                                    \
            for (int64_t j = 0; j < n; j++) y[j * n + i] = j <= i ? -s[j * step + i] : 0;                                                  \
    }
REFLECTORS_OF(float)
REFLECTORS_OF(double)

static void back_transform(const cj_dense_place *on, cj_dtype t, int64_t n, const void *a, const char *tau, void *z, char *work,
                           const eigen_space *s)
{
    char *triangle = work, *turned = triangle + s->square, *x = turned + s->square, *xs = x + s->slim, *zx = xs + s->slim,
         *product = zx + s->slim;
    for (int64_t done = 0; done < n - 1; done += REFLECTORS) {
        const int64_t count = n - 1 - done < REFLECTORS ? n - 1 - done : REFLECTORS, rows = done + count;
        const int size = (int)n, height = (int)rows, width = (int)count, step = REFLECTORS;
        ROUTINE(LARFT, t, text, text, whole, whole, const void *, whole, const void *, void *, whole, size_t, size_t)
        ("B", "C", &height, &width, (const char *)a + (size_t)((done + 1) * n) * size_of(t), &size, tau + (size_t)done * size_of(t),
         triangle, &step, 1, 1);
        if (t == CJ_F64)
            reflectors_double(n, done, count, a, (double *)x), minus_transpose_double(count, step, (double *)triangle, (double *)turned);
        else reflectors_float(n, done, count, a, (float *)x), minus_transpose_float(count, step, (float *)triangle, (float *)turned);
        cj_gemm g[3];
        block_products(n, rows, count, g);
        g[0].a = turned, g[0].b = x, g[0].c = xs;
        g[1].a = z, g[1].b = x, g[1].c = zx;
        g[2].a = zx, g[2].b = xs, g[2].c = z;
        for (int i = 0; i < 3; i++) on->k->gemm[t](on->pool, &g[i], product);
    }
}

/* Whether squares of the elements neither overflow nor vanish: else syevd scales the matrix. */
static bool moderate(cj_dtype t, int64_t n, const void *a)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double x = t == CJ_F64 ? ((const double *)a)[i * n + j] : (double)((const float *)a)[i * n + j];
            most = x > most ? x : -x > most ? -x : most;
        }
    return t == CJ_F64 ? most > 1e-140 && most < 1e140 : most > 1e-15 && most < 1e15;
}

static int64_t lapack_eigh(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, void *w, bool vectors, void *work)
{
    double answer = 0;
    int integers = 0, info = 0;
    if (vectors && n > ALONE && moderate(t, n, a)) {
        const eigen_space s = eigen_space_of(on, t, n);
        char *z = work, *e = z + s.z, *tau = e + s.vector, *rest = tau + s.vector;
        reduce(t, (int)n, a, w, e, tau, rest, (int)(s.reduce / size_of(t)), &info);
        divide(t, (int)n, w, e, z, rest, (int)(s.divide / size_of(t)), (int *)(void *)(rest + s.divide), (int)(s.integers / sizeof(int)),
               &info);
        if (info) return 1;
        back_transform(on, t, n, a, tau, z, rest, &s);
        on->k->turn(t, n, n, z, n, a, n);
        return 0;
    }
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

static size_t lapack_workspace(const cj_dense_place *on, cj_dense_code code, cj_dtype t, int64_t m, int64_t n, int64_t k, bool vectors)
{
    const size_t e = size_of(t), least = (size_t)(m < n ? m : n);
    double answer = 0, other = 0;
    int integers = 0, info = 0;
    char *some = (char *)&other; /* stands for a vector or matrix that a query does not read */
    switch (code) {
    case CJ_DENSE_LU:
    case CJ_DENSE_SOLVE:
    case CJ_DENSE_INVERSE: return cj__eliminate_workspace(on, code, t, n, k);
    case CJ_DENSE_EIGH: {
        symmetric(t, (int)n, some, some, vectors, &answer, -1, &integers, -1, &info);
        const size_t alone = round_up((size_t)query(t, &answer) * e) + round_up((size_t)integers * sizeof(int));
        if (!vectors || n <= ALONE) return alone;
        const eigen_space s = eigen_space_of(on, t, n);
        return eigen_bytes(&s) > alone ? eigen_bytes(&s) : alone;
    }
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
    .lu = cj__eliminate_lu,
    .solve = cj__eliminate_solve,
    .inverse = cj__eliminate_inverse,
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
