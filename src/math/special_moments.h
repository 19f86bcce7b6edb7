/* Derivatives of the incomplete gamma and beta integrals in their parameters, of any order: included by special_body.h.
 *
 * The densities p(t; a) = t^(a-1) e^-t / Gamma(a) and p(t; a, b) = t^(a-1) (1-t)^(b-1) / B(a, b) have the scores
 *     s = d log p / da = log t - psi(a),   and   s = log t - psi(a) + psi(a+b),  u = d log p / db = log(1-t) - psi(b) + psi(a+b),
 * and the moments C_i = integral of p s^i from 0 to x, C_ij = integral of p s^i u^j, are closed under differentiation:
 *     dC_i/da = C_(i+1) - i psi'(a) C_(i-1),   dC_i/dx = p(x) s(x)^i
 *     dC_ij/da = C_(i+1)j + i (psi'(a+b) - psi'(a)) C_(i-1)j + j psi'(a+b) C_i(j-1), and so in b.
 * C_0 = P(a, x) and C_00 = I_x(a, b).  Scores have mean 0, so that C_1 does not cancel if the integral is taken on the side of x where s has one sign; moments over everything
 * follow from the cumulants, which are polygammas.
 *
 * The integrals are taken in v, the distance from x on the scale of log t or of the logit of t, where p falls from its value at x without a singularity, by the trapezoidal
 * rule in tau, v = w exp(tau - e^-tau) (Takahasi & Mori 1974), with half the step until nothing changes.
 */

typedef struct F(side) { /* one side of x */
    bool beta, up;       /* of the two; above x (gamma; beta turns its sides around) */
    int i, j;
    REAL a, b, x, y, s, u; /* y = 1 - x; the scores at x */
} F(side);

/* log of p(t) dt/dv over that at x, and the scores there. */
static REAL F(fall)(const F(side) * q, REAL v, REAL *s, REAL *u)
{
    if (!q->beta) {
        *s = q->up ? q->s + v : q->s - v;
        return q->up ? q->a * v - q->x * M(expm1)(v) : -q->a * v - q->x * M(expm1)(-v);
    }
    const REAL whole = q->y + q->x * M(exp)(-v), l = whole < (REAL)0.5 ? M(log)(whole) : M(log1p)(q->x * M(expm1)(-v));
    *s = q->s - v - l;
    *u = q->u - l;
    return -q->a * v - (q->a + q->b) * l;
}
static REAL F(power)(REAL x, int n)
{
    REAL y = 1;
    while (n-- > 0) y *= x;
    return y;
}
/* Sum over tau = first, first + h, … as long as p is not lost beside its value at x. */
static REAL F(sum_of)(const F(side) * q, REAL w, REAL first, REAL h)
{
    REAL sum = 0, s = 0, u = 0;
    for (int k = 0; first + k * h < 8; k++) {
        const REAL tau = first + k * h, back = M(exp)(-tau), v = w * M(exp)(tau - back), fall = F(fall)(q, v, &s, &u);
        if (!(fall > -55)) break;
        sum += M(exp)(fall) * F(power)(s, q->i) * F(power)(u, q->j) * v * (1 + back);
    }
    return sum;
}
static REAL F(one_side)(const F(side) * q)
{
    REAL w = 1, s, u; /* to where p has fallen by e or so */
    while (w < (REAL)1e30L && F(fall)(q, w, &s, &u) > -1) w *= 2;
    while (w > (REAL)1e-30L && F(fall)(q, w, &s, &u) < -2) w /= 2;
    const REAL enough = sizeof(REAL) == 8 ? (REAL)1e-6L : (REAL)2e-10L; /* for f32 and f64, of the last step: the digits double */
    REAL h = (REAL)0.5L, sum = F(sum_of)(q, w, -4, h);
    for (int halving = 0; halving < 6; halving++) {
        const REAL old = sum;
        sum += F(sum_of)(q, w, -4 + h / 2, h);
        h /= 2;
        if (M(fabs)(sum - 2 * old) <= enough * M(fabs)(sum)) break;
    }
    return sum * h;
}

enum { F(orders) = 9 };
/* Moments of a pair with mean 0 from its cumulants k: m_ij = sum over p, q of C(i-1, p) C(j, q) k_(p+1)q m_(i-1-p)(j-q). */
static REAL F(from_cumulants)(int i, int j, REAL k[F(orders)][F(orders)])
{
    REAL m[F(orders)][F(orders)], choose[F(orders)][F(orders)] = { { 1 } };
    for (int n = 1; n < F(orders); n++) {
        choose[n][0] = 1;
        for (int p = 1; p <= n; p++) choose[n][p] = choose[n - 1][p - 1] + choose[n - 1][p];
    }
    for (int r = 0; r <= i; r++)
        for (int c = 0; c <= j; c++) {
            m[r][c] = r + c == 0;
            for (int p = 0; r && p < r; p++)
                for (int q = 0; q <= c; q++) m[r][c] += choose[r - 1][p] * choose[c][q] * k[p + 1][q] * m[r - 1 - p][c - q];
            for (int q = 0; !r && q < c; q++) m[r][c] += choose[c - 1][q] * k[0][q + 1] * m[0][c - 1 - q];
        }
    return m[i][j];
}

/* C_i of the gamma density, i <= 8. */
static REAL F(gamma_moment)(int i, REAL a, REAL x)
{
    if (!(a > 0) || !(x >= 0)) return NAN;
    if (i == 0) return F(gammainc)(a, x, false);
    if (x == 0) return 0;
    F(side) q = { .i = i, .a = a, .x = x };
    if (!isinf(x)) q.s = M(log)(x) - F(digamma)(a);
    q.up = isinf(x) || q.s > 0;
    const REAL part = isinf(x) ? 0 : F(gamma_density)(a, x) * F(one_side)(&q);
    if (!q.up) return part;
    REAL k[F(orders)][F(orders)] = { { 0 } };
    for (int n = 2; n <= i; n++) k[n][0] = F(polygamma)(n - 1, a);
    return F(from_cumulants)(i, 0, k) - part;
}

/* C_ij of the beta density, y = 1 - x, i + j <= 8; or, `rest`, what is above x. */
static REAL F(beta_moment_xy)(int i, int j, REAL a, REAL b, REAL x, REAL y, bool rest)
{
    const REAL both = F(digamma)(a + b);
    F(side) q = { .beta = true, .i = i, .j = j, .a = a, .b = b, .x = x, .y = y };
    bool up = y == 0;
    REAL part = 0;
    if (x > 0 && y > 0) {
        const REAL log_x = y < x ? M(log1p)(-y) : M(log)(x), log_y = x < y ? M(log1p)(-x) : M(log)(y);
        q.s = log_x - F(digamma)(a) + both;
        q.u = log_y - F(digamma)(b) + both;
        up = i > j ? q.s > 0 : i < j ? q.u < 0 : x > a / (a + b);
        if (up) q = (F(side)){ .beta = true, .i = j, .j = i, .a = b, .b = a, .x = y, .y = x, .s = q.u, .u = q.s };
        part = M(exp)(a * log_x + b * log_y - F(lbeta)(a, b)) * F(one_side)(&q);
    }
    if (up == rest) return part;
    REAL k[F(orders)][F(orders)] = { { 0 } };
    for (int n = 2; n <= i + j; n++) {
        const REAL shared = F(polygamma)(n - 1, a + b);
        for (int r = 0; r <= n; r++)
            if (r <= i && n - r <= j) k[r][n - r] = (r == n ? F(polygamma)(n - 1, a) : r == 0 ? F(polygamma)(n - 1, b) : 0) - shared;
    }
    return F(from_cumulants)(i, j, k) - part;
}
static REAL F(beta_moment)(int i, int j, REAL a, REAL b, REAL x)
{
    if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return NAN;
    return i + j ? F(beta_moment_xy)(i, j, a, b, x, 1 - x, false) : F(betainc)(a, b, x);
}

/* Student's distribution function: a tail is I_x(v/2, 1/2) / 2 with x = v/(v + z²). */
static REAL F(stdtr)(REAL v, REAL z)
{
    if (!(v > 0) || z != z) return NAN;
    const REAL far = z * z, tail = isinf(z) ? 0 : F(betainc_xy)(v / 2, (REAL)0.5, v / (v + far), far / (v + far)) / 2;
    return z > 0 ? 1 - tail : tail;
}
/* S_i(v, z) = integral of f s^i from 0 to z with Student's density f and s = log x - psi(v/2) + psi((v+1)/2), the score of I_x in its first parameter:
 *     dS_i/dv = (S_(i+1) + i (psi'((v+1)/2) - psi'(v/2)) S_(i-1)) / 2 - z f s^i / 2v,   dS_i/dz = f s^i,   S_0 = F(z) - 1/2,
 * all of it smooth at 0, where x has its end.  Half of what is above x. */
static REAL F(student_moment)(int i, REAL v, REAL z)
{
    if (!(v > 0) || z != z) return NAN;
    const REAL far = z * z, x = isinf(far) ? 0 : v / (v + far), y = isinf(far) ? 1 : far / (v + far);
    const REAL half = F(beta_moment_xy)(i, 0, v / 2, (REAL)0.5, x, y, true) / 2;
    return z < 0 ? -half : half;
}
