/* Integrals of functions of one number: adaptive Gauss-Kronrod, and the nodes of Gauss-Legendre and Gauss-Hermite.
 *
 * The interval with the largest error estimate is halved until the errors add up to less than was asked for (Piessens et al., QUADPACK, 1983).  Each is measured by Kronrod's
 * 15 points (1964), whose odd ones are Gauss's 7, so that the difference of the two rules costs nothing.
 */
#include <float.h>
#include <math.h>

#include "math/math.h"
#include "ops/ops.h"

/* Nodes from the end to the middle; weights of Kronrod's rule, and of Gauss's at every second node. */
static const double node[8] = { 0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
                                0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
                                0.586087235467691130294144691693013, 0.405845151377397166906606412076961,
                                0.207784955007898467600689403773245, 0 };
static const double kronrod[8] = { 0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
                                   0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
                                   0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
                                   0.204432940075298892414161999234649, 0.209482141084727828012999174891714 };
static const double gauss[4] = { 0.129484966168869693270611432679082, 0.279705391489276667901467771423780,
                                 0.381830050505118944950369775488975, 0.417959183673469387755102040816327 };

/* The integrand over t: x itself, or a map of a finite interval onto an infinite one. */
typedef enum span { FINITE, UPWARDS, DOWNWARDS, WHOLE } span;
typedef struct integrand {
    cj_ctx *c;
    cj_real_fn f;
    void *user;
    span span;
    double end; /* the finite end of a half line */
    int64_t evaluations;
} integrand;

static double at(integrand *k, double t)
{
    double x = t, slope = 1;
    if (k->span == UPWARDS || k->span == DOWNWARDS) { /* end ± t/(1 - t), 0 <= t < 1 */
        const double rest = 1 - t;
        x = k->end + (k->span == UPWARDS ? t : -t) / rest, slope = 1 / (rest * rest);
    } else if (k->span == WHOLE) { /* t/(1 - t²), -1 < t < 1 */
        const double rest = (1 - t) * (1 + t);
        x = t / rest, slope = (1 + t * t) / (rest * rest);
    }
    k->evaluations++;
    const double y = k->f(k->user, x);
    if (!isfinite(y)) cj__error(k->c, CJ_EVALUE, "integrate: the function is %g at %.17g", y, x);
    return y * slope;
}

typedef struct piece {
    double a, b, value, error;
} piece;

static piece measured(integrand *k, double a, double b)
{
    const double middle = 0.5 * (a + b), half = 0.5 * (b - a);
    double y[15], coarse = 0, fine = 0, size = 0, spread = 0;
    for (int i = 0; i < 8; i++) {
        y[i] = at(k, middle - half * node[i]);
        if (i < 7) y[14 - i] = at(k, middle + half * node[i]);
    }
    for (int i = 0; i < 15; i++) {
        const int j = i < 8 ? i : 14 - i;
        fine += kronrod[j] * y[i], size += kronrod[j] * fabs(y[i]);
        if (j % 2) coarse += gauss[j / 2] * y[i];
    }
    for (int i = 0; i < 15; i++) spread += kronrod[i < 8 ? i : 14 - i] * fabs(y[i] - fine / 2);
    size *= fabs(half), spread *= fabs(half);
    /* the difference overestimates: for a smooth function the finer rule is right to about its power 3/2 */
    double error = fabs((fine - coarse) * half);
    if (spread > 0 && error > 0) error = spread * fmin(1, pow(200 * error / spread, 1.5));
    return (piece){ a, b, fine * half, fmax(error, 50 * DBL_EPSILON * size) };
}

cj_integral(cj_integrate)(cj_ctx *c, cj_real_fn f, void *user, double a, double b, const cj_integrate_opts *opts)
{
    enum { MOST = 500 };
    const double rtol = opts && opts->rtol > 0 ? opts->rtol : 1e-10, atol = opts && opts->atol > 0 ? opts->atol : 1e-12;
    const int64_t most = opts && opts->intervals > 0 ? opts->intervals : 200;
    cj_integral r = { NAN, INFINITY, 0, false };
    if (!c || c->error) return r;
    if (!f || isnan(a) || isnan(b) || most > MOST) {
        cj__error(c, CJ_EVALUE, "integrate: a function, two ends and at most %d intervals are expected, found %s, %g to %g and %lld", MOST,
                  f ? "a function" : "NULL", a, b, (long long)most);
        return r;
    }
    const double sign = a > b ? -1 : 1, low = fmin(a, b), high = fmax(a, b);
    if (low == high) return (cj_integral){ 0, 0, 0, true };
    integrand k = { .c = c, .f = f, .user = user, .span = isinf(low) ? (isinf(high) ? WHOLE : DOWNWARDS) : isinf(high) ? UPWARDS : FINITE };
    k.end = k.span == UPWARDS ? low : high;
    piece pieces[MOST];
    int64_t n = 1;
    pieces[0] = k.span == FINITE ? measured(&k, low, high) : measured(&k, k.span == WHOLE ? -1 : 0, 1);
    for (;;) {
        int64_t worst = 0;
        r.value = r.error = 0;
        for (int64_t i = 0; i < n; i++) {
            r.value += pieces[i].value, r.error += pieces[i].error;
            if (pieces[i].error > pieces[worst].error) worst = i;
        }
        r.converged = r.error <= fmax(atol, rtol * fabs(r.value));
        const piece p = pieces[worst];
        const double middle = 0.5 * (p.a + p.b);
        if (r.converged || n == most || c->error || !(p.a < middle && middle < p.b)) break;
        pieces[worst] = measured(&k, p.a, middle);
        pieces[n++] = measured(&k, middle, p.b);
    }
    r.value *= sign, r.evaluations = k.evaluations;
    return c->error ? (cj_integral){ NAN, INFINITY, k.evaluations, false } : r;
}

/* ---- Gauss's rules -------------------------------------------------------------------------------------------------------------------------- */

enum { MOST_NODES = 512 };
static bool nodes_ready(cj_ctx *c, const char *op, int64_t n)
{
    if (!c || c->error) return false;
    if (n < 1 || n > MOST_NODES) return cj__error(c, CJ_EVALUE, "%s: 1 to %d nodes are expected, found %lld", op, MOST_NODES, (long long)n);
    return true;
}
static cj_nodes nodes_of(cj_ctx *c, const double *x, const double *w, int64_t n)
{
    return (cj_nodes){ cj_from_f64(c, x, CJ_SHAPE(n)), cj_from_f64(c, w, CJ_SHAPE(n)) };
}

/* Newton's method for P_n from cos(pi (i + 3/4)/(n + 1/2)); w = 2/((1 - x²) P_n'(x)²). */
cj_nodes(cj_gauss_legendre)(cj_ctx *c, int64_t n)
{
    if (!nodes_ready(c, "gauss_legendre", n)) return (cj_nodes){ c ? c->poison : NULL, c ? c->poison : NULL };
    double x[MOST_NODES], w[MOST_NODES];
    for (int64_t i = 0; i < n; i++) {
        long double z = cosl(3.14159265358979323846264338327950288L * ((long double)i + 0.75L) / ((long double)n + 0.5L)), slope = 1;
        for (int step = 0; step < 20; step++) {
            long double p = 1, before = 0;
            for (int64_t j = 1; j <= n; j++) {
                const long double next = ((2 * (long double)j - 1) * z * p - ((long double)j - 1) * before) / (long double)j;
                before = p, p = next;
            }
            slope = (long double)n * (z * p - before) / (z * z - 1);
            const long double move = p / slope;
            z -= move;
            if (fabsl(move) < 1e-18L) break;
        }
        x[n - 1 - i] = (double)z, w[n - 1 - i] = (double)(2 / ((1 - z * z) * slope * slope));
    }
    if (n % 2) x[n / 2] = 0;
    return nodes_of(c, x, w, n);
}

/* The roots are the eigenvalues of the Jacobi matrix with sqrt(k/2) beside the diagonal (Golub & Welsch 1969), polished by Newton's method for the orthonormal polynomials;
 * w = 1 / (n p_(n-1)(x)²). */
cj_nodes(cj_gauss_hermite)(cj_ctx *c, int64_t n)
{
    if (!nodes_ready(c, "gauss_hermite", n)) return (cj_nodes){ c ? c->poison : NULL, c ? c->poison : NULL };
    double x[MOST_NODES], w[MOST_NODES];
    cj_scope s = cj_scope_open(c);
    cj_tensor *k = cj_sqrt(cj_mul_scalar(cj_arange(c, 1, (double)n + 1, 1, CJ_F64), 0.5)), *eye = cj_eye(c, n + 1, CJ_F64);
    cj_tensor *above = cj_mul(cj_unsqueeze(k, 1), cj_slice(cj_slice(eye, 0, 1, CJ_END, 1), 1, 0, n, 1)); /* (i, i + 1) is k_i */
    cj_to_f64(cj_eigvalsh(cj_add(above, cj_t(above))), x, n);
    cj_scope_close(s);
    if (c->error) return (cj_nodes){ c->poison, c->poison };
    for (int64_t i = 0; i < n; i++) {
        long double z = n % 2 && i == n / 2 ? 0 : x[i], before = 0;
        for (int step = 0; step < 4; step++) {
            long double p = 0.751125544464942482858L; /* pi^(-1/4) */
            before = 0;
            for (int64_t j = 0; j < n; j++) {
                const long double next = z * sqrtl(2 / (long double)(j + 1)) * p - sqrtl((long double)j / (long double)(j + 1)) * before;
                before = p, p = next;
            }
            z -= p / (sqrtl(2 * (long double)n) * before);
        }
        x[i] = (double)z, w[i] = (double)(1 / ((long double)n * before * before));
    }
    if (n % 2) x[n / 2] = 0;
    return nodes_of(c, x, w, n);
}
