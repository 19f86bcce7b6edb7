/* Functions of a square matrix: exponential, principal logarithm and square root.
 *
 * All three have the same derivative rule (Mathias 1996): for f([[A, E], [0, A]]) the upper right block is the derivative of f at A in the
 * direction E, and its transpose that at Aᵀ.  So each is closed under differentiation, whatever eigenvalues repeat.  Everything is computed in f64.
 *
 * exp     [13/13] Padé approximant with scaling and squaring (Higham 2005)
 * sqrt    symmetric: by eigenvalues; else the product form of the Denman-Beavers iteration (Cheng, Higham, Kenney & Laub 2001)
 * log     symmetric: by eigenvalues; else inverse scaling and squaring, log(1 + X) by Gauss-Legendre quadrature of X·(1 + tX)⁻¹ (Dieci, Morini &
 * Papini 1996)
 */
#include <float.h>
#include <math.h>

#include "math/linalg.h"

enum { EXP, LOG, SQRT };

/* ---- on one f64 matrix ------------------------------------------------------------------------------------------------------------------------- */

typedef struct workshop { /* what a computation needs: sizes, the library, blocks of n·n numbers to work in */
    cj_ctx *c;
    const cj_dense *dense;
    cj_dense_place on;
    int64_t n;
    double *block; /* BLOCKS matrices */
    char *work;
    void *product; /* workspace of a product */
} workshop;
enum { BLOCKS = 8 };

static double *block(const workshop *w, int i) { return w->block + i * w->n * w->n; }

/* y = a·b; y is neither. */
static cj_gemm product(int64_t n)
{
    return (cj_gemm){ .m = n, .n = n, .k = n, .batch = 1, .a_row = n, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n };
}
static void times(const workshop *w, const double *a, const double *b, double *y)
{
    cj_gemm g = product(w->n);
    g.a = a, g.b = b, g.c = y;
    w->on.k->gemm[CJ_F64](w->on.pool, &g, w->product);
}
/* y = sum of f[i]·m[i] over `terms` matrices, plus d on the diagonal; y may be one of them. */
static void combine(const workshop *w, double *y, double d, int terms, const double *const *m, const double *f)
{
    const int64_t n = w->n;
    for (int64_t i = 0; i < n * n; i++) {
        double s = 0;
        for (int t = 0; t < terms; t++) s += f[t] * m[t][i];
        y[i] = s;
    }
    for (int64_t i = 0; i < n; i++) y[i * (n + 1)] += d;
}
static double norm_1(const workshop *w, const double *a, double shift)
{
    double largest = 0;
    for (int64_t j = 0; j < w->n; j++) {
        double s = 0;
        for (int64_t i = 0; i < w->n; i++) s += fabs(a[i * w->n + j] - (i == j ? shift : 0));
        largest = s > largest ? s : largest;
    }
    return largest;
}
static size_t bytes_of(const workshop *w) { return (size_t)(w->n * w->n) * sizeof(double); }

static int64_t exponential(const workshop *w, double *a)
{
    static const double b[14] = { 64764752532480000.0,
                                  32382376266240000.0,
                                  7771770303897600.0,
                                  1187353796428800.0,
                                  129060195264000.0,
                                  10559470521600.0,
                                  670442572800.0,
                                  33522128640.0,
                                  1323241920.0,
                                  40840800.0,
                                  960960.0,
                                  16380.0,
                                  182.0,
                                  1.0 };
    const int64_t n = w->n;
    const double size = norm_1(w, a, 0);
    int squarings = size > 5.371920351148152 ? (int)ceil(log2(size / 5.371920351148152)) : 0;
    for (int64_t i = 0; i < n * n; i++) a[i] = ldexp(a[i], -squarings);
    double *a2 = block(w, 0), *a4 = block(w, 1), *a6 = block(w, 2), *u = block(w, 3), *v = block(w, 4), *x = block(w, 5);
    const double *const powers[] = { a6, a4, a2 };
    times(w, a, a, a2);
    times(w, a2, a2, a4);
    times(w, a2, a4, a6);
    combine(w, x, 0, 3, powers, (double[]){ b[13], b[11], b[9] });
    times(w, a6, x, u);
    combine(w, x, b[1], 4, (const double *const[]){ u, a6, a4, a2 }, (double[]){ 1, b[7], b[5], b[3] });
    times(w, a, x, u);
    combine(w, x, 0, 3, powers, (double[]){ b[12], b[10], b[8] });
    times(w, a6, x, v);
    combine(w, v, b[0], 4, (const double *const[]){ v, a6, a4, a2 }, (double[]){ 1, b[6], b[4], b[2] });
    combine(w, x, 0, 2, (const double *const[]){ v, u }, (double[]){ 1, -1 });
    combine(w, u, 0, 2, (const double *const[]){ v, u }, (double[]){ 1, 1 });
    if (w->dense->solve(&w->on, CJ_F64, n, n, false, x, u, w->work)) return 1;
    for (int s = 0; s < squarings; s++) {
        times(w, u, u, x);
        double *other = u;
        u = x;
        x = other;
    }
    memcpy(a, u, bytes_of(w));
    for (int64_t i = 0; i < n * n; i++)
        if (!isfinite(a[i])) return 1;
    return 0;
}

/* M = A, X = A;  X <- X·(1 + M⁻¹)/2,  M <- (1 + (M + M⁻¹)/2)/2:  M -> 1, X -> A^(1/2). Uses blocks 0 to 3. */
static int64_t denman_beavers(const workshop *w, double *a)
{
    double *m = block(w, 0), *inverse = block(w, 1), *x = block(w, 2), *y = block(w, 3), last = INFINITY;
    memcpy(m, a, bytes_of(w));
    memcpy(x, a, bytes_of(w));
    for (int step = 0; step < 100; step++) {
        memcpy(inverse, m, bytes_of(w));
        if (w->dense->inverse(&w->on, CJ_F64, w->n, inverse, w->work)) return 1;
        combine(w, m, 0.5, 2, (const double *const[]){ m, inverse }, (double[]){ 0.25, 0.25 });
        combine(w, inverse, 0.5, 1, (const double *const[]){ inverse }, (double[]){ 0.5 });
        times(w, x, inverse, y);
        double *other = x, distance = norm_1(w, m, 1);
        x = y, y = other;
        if (!(distance < 1e300)) return 1;
        if (distance <= (double)w->n * DBL_EPSILON || (distance < 1e-9 && distance >= last / 2)) {
            memcpy(a, x, bytes_of(w));
            return 0;
        }
        last = distance;
    }
    return 1;
}

static bool is_symmetric(const workshop *w, const double *a)
{
    for (int64_t i = 0; i < w->n; i++)
        for (int64_t j = 0; j < i; j++)
            if (a[i * w->n + j] != a[j * w->n + i]) return false;
    return true;
}

/* V·f(w)·Vᵀ; eigenvalues of a root may be 0 within rounding, those of a logarithm may not. */
static int64_t by_eigenvalues(const workshop *w, double *a, int function)
{
    const int64_t n = w->n;
    double *values = block(w, 0), *scaled = block(w, 1), *transposed = block(w, 2);
    if (w->dense->eigh(&w->on, CJ_F64, n, a, values, true, w->work)) return 1;
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(values[i]));
    for (int64_t i = 0; i < n; i++) {
        double v = values[i];
        if (function == LOG ? v <= 0 : v < -(double)n * DBL_EPSILON * largest) return 1;
        v = function == LOG ? log(v) : sqrt(v > 0 ? v : 0);
        for (int64_t r = 0; r < n; r++) {
            scaled[r * n + i] = a[r * n + i] * v;
            transposed[i * n + r] = a[r * n + i];
        }
    }
    times(w, scaled, transposed, a);
    for (int64_t i = 0; i < n; i++) /* to the bit */
        for (int64_t j = 0; j < i; j++) a[j * n + i] = a[i * n + j];
    return 0;
}

static int64_t square_root(const workshop *w, double *a) { return is_symmetric(w, a) ? by_eigenvalues(w, a, SQRT) : denman_beavers(w, a); }

static int64_t logarithm(const workshop *w, double *a)
{
    /* nodes and weights on [-1, 1] */
    static const double node[4] = { 0.18343464249564980, 0.52553240991632899, 0.79666647741362674, 0.96028985649753623 };
    static const double weight[4] = { 0.36268378337836198, 0.31370664587788729, 0.22238103445337447, 0.10122853629037626 };
    if (is_symmetric(w, a)) return by_eigenvalues(w, a, LOG);
    int roots = 0;
    while (norm_1(w, a, 1) > 0.25) {
        if (roots++ == 60 || denman_beavers(w, a)) return 1;
    }
    double *x = block(w, 0), *m = block(w, 1), *y = block(w, 2), *sum = block(w, 3);
    combine(w, x, -1, 1, (const double *const[]){ a }, (double[]){ 1 });
    memset(sum, 0, bytes_of(w));
    for (int q = 0; q < 8; q++) {
        double t = (1 + (q % 2 ? -node[q / 2] : node[q / 2])) / 2, f = weight[q / 2] / 2;
        combine(w, m, 1, 1, (const double *const[]){ x }, (double[]){ t });
        memcpy(y, x, bytes_of(w));
        if (w->dense->solve(&w->on, CJ_F64, w->n, w->n, false, m, y, w->work)) return 1;
        combine(w, sum, 0, 2, (const double *const[]){ sum, y }, (double[]){ 1, f });
    }
    for (int64_t i = 0; i < w->n * w->n; i++) a[i] = ldexp(sum[i], roots);
    return 0;
}

/* ---- the rows ---------------------------------------------------------------------------------------------------------------------------------- */

static bool infer(cj_call *call)
{
    if (!cj__real_matrices(call, true)) return false;
    int64_t n = cj__columns(call->in[0]);
    return cj__out_batch(call, 0, 2, (int64_t[]){ n, n });
}

/* One matrix after the other: the products inside are shared out among the threads. */
static bool run(cj_call *call, int64_t (*function)(const workshop *, double *), const char *wrong)
{
    cj_ctx *c = call->ctx;
    const cj_tensor *a = call->in[0];
    cj_tensor *y = call->out[0];
    if (!a->numel) return true;
    workshop w = { .c = c, .dense = cj__dense(), .on = { c->k, c->pool, c->pool ? c->threads : 1 }, .n = cj__columns(a) };
    const int64_t n = w.n, items = cj__batch(a);
    size_t solve = w.dense->workspace(&w.on, CJ_DENSE_SOLVE, CJ_F64, n, n, n, true),
           invert = w.dense->workspace(&w.on, CJ_DENSE_INVERSE, CJ_F64, n, n, n, true),
           eigh = w.dense->workspace(&w.on, CJ_DENSE_EIGH, CJ_F64, n, n, n, true), work = solve > invert ? solve : invert;
    work = ((work > eigh ? work : eigh) + 63) / 64 * 64;
    const cj_gemm g = product(n);
    const size_t products = (c->k->gemm_workspace[CJ_F64](&g, w.on.threads) + 63) / 64 * 64;
    w.product = cj__scratch(c, products + work + (BLOCKS + 1) * bytes_of(&w));
    w.work = w.product ? (char *)w.product + products : NULL;
    if (!w.work) return false;
    double *memory = (double *)(void *)(w.work + work);
    w.block = memory + n * n;
    for (int64_t i = 0; i < items; i++) {
        char place[48] = "";
        if (items > 1) snprintf(place, sizeof place, " %lld of the batch", (long long)i);
        for (int64_t e = 0; e < n * n; e++) {
            memory[e] = cj__load(a, i * n * n + e);
            if (!isfinite(memory[e]))
                return cj__error(c, CJ_EVALUE, "%s: element [%lld, %lld] of the matrix%s is %s", call->op->name, (long long)(e / n),
                                 (long long)(e % n), place, isnan(memory[e]) ? "NaN" : "infinite");
        }
        if (function(&w, memory)) return cj__error(c, CJ_EVALUE, "%s: the matrix%s %s", call->op->name, place, wrong);
        for (int64_t e = 0; e < n * n; e++)
            cj__store((cj_dtype)y->dtype, y->data + (size_t)(i * n * n + e) * cj_dtype_size((cj_dtype)y->dtype), memory[e]);
    }
    return true;
}
static bool run_exp(cj_call *call) { return run(call, exponential, "is too large for its exponential"); }
static bool run_log(cj_call *call) { return run(call, logarithm, "has no real principal logarithm: an eigenvalue is 0 or negative"); }
static bool run_sqrt(cj_call *call)
{
    return run(call, square_root, "has no real principal square root that can be computed: an eigenvalue is 0 or negative");
}

/* The upper right block of f([[a, e], [0, a]]). */
static cj_tensor *directional(int row, cj_tensor *a, cj_tensor *e);
#define RULES(name, row)                                                                                                                   \
    static void d_##name(cj_vjp_args *v) { v->gin[0] = directional(row, cj_t(v->in[0]), v->g[0]); }                                        \
    static void j_##name(cj_jvp_args *j) { j->tout[0] = j->tan[0] ? directional(row, j->in[0], j->tan[0]) : NULL; }
RULES(exp, EXP)
RULES(log, LOG)
RULES(sqrt, SQRT)

#define ROW(op_name, part)                                                                                                                 \
    {                                                                                                                                      \
        .name = op_name, .family = "linalg", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .save_in = 1, .infer = infer, .run = run_##part,   \
        .vjp = d_##part, .jvp_rule = CJ_JVP_OWN, .jvp = j_##part                                                                           \
    }
const cj_op cj__ops_matfun[] = { [EXP] = ROW("matrix_exp", exp), [LOG] = ROW("matrix_log", log), [SQRT] = ROW("matrix_sqrt", sqrt) };
CJ_OP_TABLE(matfun);

static cj_tensor *apply(int row, cj_tensor *a)
{
    return a ? cj__apply(&cj__ops_matfun[row], NULL, (cj_tensor *[]){ cj_contiguous(a) }, 1) : NULL;
}

static cj_tensor *directional(int row, cj_tensor *a, cj_tensor *e)
{
    if (a->ctx->error || !a->numel) return a->ctx->error ? a->ctx->poison : e;
    const int64_t n = cj__columns(a);
    cj_tensor *top = cj_cat((cj_tensor *[]){ a, e }, 2, -1), *bottom = cj_cat((cj_tensor *[]){ cj_zeros_like(a), a }, 2, -1);
    cj_tensor *f = apply(row, cj_cat((cj_tensor *[]){ top, bottom }, 2, -2));
    return cj_slice(cj_slice(f, -2, 0, n, 1), -1, n, 2 * n, 1);
}

cj_tensor *cj_matrix_exp(cj_tensor *a) { return apply(EXP, a); }
cj_tensor *cj_matrix_log(cj_tensor *a) { return apply(LOG, a); }
cj_tensor *cj_matrix_sqrt(cj_tensor *a) { return apply(SQRT, a); }
