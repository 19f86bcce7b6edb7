/* Special functions of one number in one precision: included by special.c with REAL, F(x) (the name of a function here), M(x) (the name of a libm function) and LGAMMA_R.
 *
 * f64 results are computed in long double and f32 results in f64, so that the last rounding is the only one that counts.  Domain errors are NaN, poles infinite.
 */

#define PI ((REAL)3.14159265358979323846264338327950288L)

/* ---- gamma -------------------------------------------------------------------------------------------------------------------------------- */

static REAL F(lgamma)(REAL x)
{
    if (x <= 0 && M(floor)(x) == x) return INFINITY;
    int sign;
    return LGAMMA_R(x, &sign);
}

static REAL F(gamma)(REAL x)
{
    if (x < 0 && M(floor)(x) == x) return NAN;
    return M(tgamma)(x);
}

/* psi(x) = log x - 1/2x - sum B_2k / (2k x^2k) for large x, psi(x) = psi(x + 1) - 1/x, and psi(1 - x) - psi(x) = pi cot(pi x). */
static REAL F(digamma)(REAL x)
{
    static const REAL b[] = { 1 / (REAL)12,  -1 / (REAL)120,     1 / (REAL)252, -1 / (REAL)240,
                              1 / (REAL)132, -691 / (REAL)32760, 1 / (REAL)12,  -3617 / (REAL)8160 };
    if (x == 0) return M(copysign)(INFINITY, -x);
    if (x < 0) {
        const REAL part = x - M(floor)(x);
        if (part == 0) return NAN;
        return F(digamma)(1 - x) - PI / M(tan)(PI * (part > (REAL)0.5 ? part - 1 : part));
    }
    REAL sum = 0;
    while (x < 16) {
        sum -= 1 / x;
        x += 1;
    }
    const REAL y = 1 / (x * x);
    REAL tail = 0;
    for (int k = 7; k >= 0; k--) tail = y * (b[k] + tail);
    return sum + M(log)(x) - 1 / (2 * x) - tail;
}

/* zeta(s, x) = sum_j (x + j)^-s by Euler-Maclaurin: N terms, then the integral, half a term and derivatives. s > 1, x > 0. */
static REAL F(zeta)(REAL s, REAL x)
{
    static const REAL b[] = { 1 / (REAL)12, /* B_2k / (2k)! */
                              -1 / (REAL)720,
                              1 / (REAL)30240,
                              -1 / (REAL)1209600,
                              1 / (REAL)47900160,
                              -691 / (REAL)1307674368000,
                              1 / (REAL)74724249600,
                              -3617 / (REAL)10670622842880000 };
    REAL sum = 0;
    int n = 0;
    for (; n < 20 || x + n < s; n++) sum += M(pow)(x + n, -s);
    const REAL y = x + n, p = M(pow)(y, -s);
    sum += y * p / (s - 1) + p / 2;
    REAL term = s * p / y;
    for (int k = 0; k < 8; k++) {
        sum += b[k] * term;
        term *= (s + 2 * k + 1) * (s + 2 * k + 2) / (y * y);
    }
    return sum;
}

/* The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! zeta(n + 1, x); below 0 by steps to the right. */
static REAL F(polygamma)(int n, REAL x)
{
    if (x <= 0 && M(floor)(x) == x) return n % 2 ? (REAL)INFINITY : (REAL)NAN;
    REAL sum = 0;
    while (x < 0) {
        if (x < -10000) return NAN;
        sum += M(pow)(1 / x, (REAL)(n + 1));
        x += 1;
    }
    const REAL z = (sum + F(zeta)((REAL)(n + 1), x)) * M(tgamma)((REAL)(n + 1));
    return n % 2 ? z : -z;
}

/* What Stirling's formula leaves of log Gamma(x), x >= 16: sum of B_2k / (2k (2k-1) x^(2k-1)). */
static REAL F(stirling)(REAL x)
{
    static const REAL b[] = { 1 / (REAL)12,   -1 / (REAL)360,      1 / (REAL)1260, -1 / (REAL)1680,
                              1 / (REAL)1188, -691 / (REAL)360360, 1 / (REAL)156,  -3617 / (REAL)122400 };
    const REAL y = 1 / (x * x);
    REAL sum = 0;
    for (int k = 7; k >= 0; k--) sum = sum * y + b[k];
    return sum / x;
}
/* With a <= b, s = a + b: for large b the logarithms of Gamma(b) and Gamma(s) nearly cancel, and Stirling's terms are subtracted first (Didonato & Morris 1992). */
static REAL F(lbeta)(REAL a, REAL b)
{
    if (a <= 0 || b <= 0) return a != a || b != b ? (REAL)NAN : a == 0 || b == 0 ? (REAL)INFINITY : (REAL)NAN;
    if (a > b) {
        const REAL t = a;
        a = b, b = t;
    }
    const REAL s = a + b, rest = M(log1p)(-a / s); /* log(b/s) */
    if (a >= 16)
        return F(stirling)(a) + (F(stirling)(b) - F(stirling)(s)) + (a - (REAL)0.5) * M(log)(a / s) + b * rest +
               (M(log)(2 * PI) - M(log)(b)) / 2;
    if (b >= 16) return F(lgamma)(a) + (F(stirling)(b) - F(stirling)(s)) + a - a * M(log)(s) + (b - (REAL)0.5) * rest;
    return F(lgamma)(a) + F(lgamma)(b) - F(lgamma)(s);
}

/* ---- incomplete gamma and beta --------------------------------------------------------------------------------------------------------- */

static const REAL F(tiny) = sizeof(REAL) == 8 ? (REAL)1e-300L : (REAL)1e-4000L, F(step) = sizeof(REAL) == 8 ? (REAL)1e-16L : (REAL)1e-19L;

/* x^a e^-x / Gamma(a), through the logarithm relative to the peak at x = a where both are large. */
static REAL F(gamma_density)(REAL a, REAL x)
{
    if (a < 100) return M(exp)(a * M(log)(x) - x - F(lgamma)(a));
    /* Stirling: a log(x/a) - (x - a) + log(a/2pi)/2 - 1/12a + 1/360a³ - 1/1260a⁵ + 1/1680a⁷ */
    const REAL u = (x - a) / a, y = 1 / (a * a);
    const REAL rest = (1 / (REAL)12 - y * (1 / (REAL)360 - y * (1 / (REAL)1260 - y / 1680))) / a;
    return M(exp)(a * (M(log1p)(u) - u) - rest) * M(sqrt)(a / (2 * PI));
}

/* The regularised P(a, x), or Q = 1 - P: the series where x < a + 1, else Lentz's continued fraction. */
static REAL F(gammainc)(REAL a, REAL x, bool upper)
{
    if (!(a > 0) || !(x >= 0)) return NAN;
    if (x == 0) return upper;
    if (isinf(x)) return !upper;
    const REAL d = F(gamma_density)(a, x);
    if (x < a + 1) {
        REAL term = 1 / a, sum = term;
        for (int n = 1; n < 100000 && term > sum * F(step); n++) sum += term *= x / (a + n);
        return upper ? 1 - d * sum : d * sum;
    }
    REAL b = x + 1 - a, c = 1 / F(tiny), e = 1 / b, h = e;
    for (int n = 1; n < 100000; n++) {
        const REAL an = -n * (n - a);
        b += 2;
        e = an * e + b;
        if (M(fabs)(e) < F(tiny)) e = F(tiny);
        c = b + an / c;
        if (M(fabs)(c) < F(tiny)) c = F(tiny);
        e = 1 / e;
        const REAL f = e * c;
        h *= f;
        if (M(fabs)(f - 1) < F(step)) break;
    }
    return upper ? d * h : 1 - d * h;
}

/* dP/da: the terms x^(a+n) e^-x / Gamma(a+n+1) of the series, each times log x - psi(a+n+1). */
static REAL F(gammainc_da)(REAL a, REAL x)
{
    if (!(a > 0) || !(x >= 0)) return NAN;
    if (x == 0 || isinf(x) || x > a + 60 + 40 * M(sqrt)(a)) return 0;
    REAL term = F(gamma_density)(a, x) / a, psi = F(digamma)(a + 1), sum = 0;
    const REAL l = M(log)(x);
    for (int n = 1; n < 100000; n++) {
        sum += term * (l - psi);
        psi += 1 / (a + n);
        term *= x / (a + n);
        if (n > x - a && term * (psi - l) < M(fabs)(sum) * F(step)) break;
    }
    return sum;
}

/* The regularised I_x(a, b), y = 1 - x: Lentz's continued fraction on the side of the mean where it converges fast. */
static REAL F(betainc_xy)(REAL a, REAL b, REAL x, REAL y)
{
    if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return NAN;
    if (x == 0 || y == 0) return x;
    const bool turned = x > (a + 1) / (a + b + 2);
    if (turned) {
        REAL t = a;
        a = b, b = t, t = x, x = y, y = t;
    }
    REAL c = 1, d = 1 - (a + b) * x / (a + 1);
    if (M(fabs)(d) < F(tiny)) d = F(tiny);
    d = 1 / d;
    REAL h = d;
    for (int n = 1; n < 100000; n++) {
        const REAL m2 = 2 * (REAL)n, even = n * (b - n) * x / ((a + m2 - 1) * (a + m2)),
                   odd = -(a + n) * (a + b + n) * x / ((a + m2) * (a + m2 + 1));
        d = 1 + even * d, c = 1 + even / c;
        if (M(fabs)(d) < F(tiny)) d = F(tiny);
        if (M(fabs)(c) < F(tiny)) c = F(tiny);
        d = 1 / d, h *= d * c;
        d = 1 + odd * d, c = 1 + odd / c;
        if (M(fabs)(d) < F(tiny)) d = F(tiny);
        if (M(fabs)(c) < F(tiny)) c = F(tiny);
        d = 1 / d;
        h *= d * c;
        if (M(fabs)(d * c - 1) < F(step)) break;
    }
    const REAL log_y = x < y ? M(log1p)(-x) : M(log)(y), part = M(exp)(a * M(log)(x) + b * log_y - F(lbeta)(a, b)) * h / a;
    return turned ? 1 - part : part;
}
static REAL F(betainc)(REAL a, REAL b, REAL x) { return F(betainc_xy)(a, b, x, 1 - x); }

#include "math/special_moments.h"

/* ---- error function ----------------------------------------------------------------------------------------------------------------------- */

/* From Winitzki's closed form (two digits) by Newton steps with Halley's correction: (erf y - x) / (2/sqrt pi e^-y²). */
static REAL F(erfinv)(REAL x)
{
    if (!(x >= -1 && x <= 1)) return NAN;
    if (x == 1 || x == -1) return x * INFINITY;
    if (x == 0) return x;
    const REAL k = (REAL)0.147, away = (1 - x) * (1 + x), l = M(log)(away), t = 2 / (PI * k) + l / 2;
    REAL y = M(copysign)(M(sqrt)(M(sqrt)(t * t - l / k) - t), x);
    for (int i = 0; i < 4; i++) {
        /* near ±1 in terms of 1 - |x|, which loses nothing */
        const REAL off = x > (REAL)0.5 ? (1 - x) - M(erfc)(y) : x < (REAL)-0.5 ? M(erfc)(-y) - (1 + x) : M(erf)(y) - x;
        const REAL u = off * M(exp)(y * y) * M(sqrt)(PI) / 2;
        y -= u / (1 + y * u);
    }
    return y;
}

/* Phi^-1(p) = -sqrt 2 y with erfc y = 2p for p <= 1/2, in the same way; above, of 1 - p, which is exact. */
static REAL F(ndtri)(REAL p)
{
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -(REAL)INFINITY : (REAL)INFINITY;
    if (p > (REAL)0.5) return -F(ndtri)(1 - p);
    if (p == (REAL)0.5) return 0;
    const REAL k = (REAL)0.147, l = M(log)(4 * p * (1 - p)), t = 2 / (PI * k) + l / 2;
    REAL y = M(sqrt)(M(sqrt)(t * t - l / k) - t);
    for (int i = 0; i < 12; i++) {
        /* near 0, where erfc y - 2p cancels, by erf */
        const REAL off = p > (REAL)0.25 ? (1 - 2 * p) - M(erf)(y) : M(erfc)(y) - 2 * p, u = -off * M(exp)(y * y) * M(sqrt)(PI) / 2;
        const REAL move = u / (1 + y * u);
        y -= move;
        if (!(M(fabs)(move) > F(step) * y)) break;
    }
    return -M(sqrt)((REAL)2) * y;
}

/* ---- inverses of the incomplete integrals ------------------------------------------------------------------------------------------------ */

/* x with P(a, x) = p, by Newton's method for log P (or, above the median, log Q) as a function of u = log x: both are concave, so that it converges from anywhere. */
static REAL F(gammaincinv)(REAL a, REAL p)
{
    if (!(a > 0) || !(p >= 0) || !(p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? 0 : (REAL)INFINITY;
    const bool upper = p > (REAL)0.5;
    const REAL target = M(log)(upper ? 1 - p : p), head = (M(log)(p) + F(lgamma)(a + 1)) / a; /* P = x^a / Gamma(a + 1) near 0 */
    if (head < -100) return M(exp)(head);
    /* Wilson and Hilferty (1931): (x/a)^(1/3) is nearly normal with mean 1 - 1/9a and variance 1/9a */
    const REAL root = 1 - 1 / (9 * a) + M(sqrt)((REAL)2) * F(erfinv)(2 * p - 1) / (3 * M(sqrt)(a));
    REAL u = a > 1 && root > 0 ? M(log)(a * root * root * root) : head < 1 ? head : 1;
    for (int i = 0; i < 200; i++) {
        const REAL x = M(exp)(u), f = F(gammainc)(a, x, upper), slope = (upper ? -1 : 1) * F(gamma_density)(a, x) / f;
        REAL move = (target - M(log)(f)) / slope;
        move = move > 2 ? 2 : move < -2 ? -2 : move;
        u += move;
        if (!(M(fabs)(move) > 4 * F(step) * (1 + M(fabs)(u)))) break;
    }
    return M(exp)(u);
}

/* u = log(x / (1 - x)) with I_x(a, b) = p = 1 - q, in the same way from the mean. */
static REAL F(betaincinv_logit)(REAL a, REAL b, REAL p, REAL q)
{
    if (!(a > 0) || !(b > 0) || !(p >= 0) || !(q >= 0)) return NAN;
    if (p == 0 || q == 0) return p == 0 ? -(REAL)INFINITY : (REAL)INFINITY;
    const bool upper = p > (REAL)0.5;
    const REAL target = M(log)(upper ? q : p), scale = F(lbeta)(a, b);
    REAL u = M(log)(a / b);
    for (int i = 0; i < 400; i++) {
        const REAL x = 1 / (1 + M(exp)(-u)), y = 1 / (1 + M(exp)(u)), log_x = -M(log1p)(M(exp)(-u)), log_y = -M(log1p)(M(exp)(u));
        const REAL f = upper ? F(betainc_xy)(b, a, y, x) : F(betainc_xy)(a, b, x, y);
        const REAL slope = (upper ? -1 : 1) * M(exp)(a * log_x + b * log_y - scale) / f;
        REAL move = (target - M(log)(f)) / slope;
        move = move > 4 ? 4 : move < -4 ? -4 : move;
        u += move;
        if (!(M(fabs)(move) > 4 * F(step) * (1 + M(fabs)(u)))) break;
    }
    return u;
}
static REAL F(betaincinv)(REAL a, REAL b, REAL p)
{
    const REAL u = F(betaincinv_logit)(a, b, p, 1 - p);
    return u < 0 ? M(exp)(u) / (1 + M(exp)(u)) : 1 / (1 + M(exp)(-u));
}
/* Student's quantile: twice the tail beyond z is I_x(v/2, 1/2) with x = v/(v + z²), so z² = v (1 - x)/x. */
static REAL F(stdtrit)(REAL v, REAL p)
{
    if (!(v > 0) || !(p >= 0) || !(p <= 1)) return NAN;
    if (p == (REAL)0.5) return 0;
    const REAL tail = 2 * (p < (REAL)0.5 ? p : 1 - p), u = F(betaincinv_logit)(v / 2, (REAL)0.5, tail, M(fabs)(1 - 2 * p));
    const REAL z = M(sqrt)(v) * M(exp)(-u / 2);
    return p < (REAL)0.5 ? -z : z;
}

/* ---- Bessel --------------------------------------------------------------------------------------------------------------------------------- */

/* e^-|x| I_n(x), n = 0 or 1: the power series, or for large x Hankel's expansion. */
static REAL F(bessel_ie)(int n, REAL x)
{
    const REAL a = M(fabs)(x);
    REAL y;
    if (a != a) return x;
    if (isinf(a)) return 0;
    if (a < 40) {
        const REAL q = a * a / 4;
        REAL term = n ? a / 2 : 1, sum = term;
        for (int k = 1; k < 500 && term > sum * F(step) / 4; k++) sum += term *= q / ((REAL)k * (k + n));
        y = sum * M(exp)(-a);
    } else {
        REAL term = 1, sum = 1;
        const REAL mu = 4 * n * n;
        for (int k = 1; k < 40 && M(fabs)(term) > F(step) / 4; k++) sum += term *= -(mu - (REAL)(2 * k - 1) * (2 * k - 1)) / (k * 8 * a);
        y = sum / M(sqrt)(2 * PI * a);
    }
    return n && x < 0 ? -y : y;
}

#undef PI
#undef REAL
#undef F
#undef M
#undef LGAMMA_R
