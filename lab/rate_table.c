/* rate-table: how many steps gradient descent, heavy ball and Nesterov's method need on a quadratic of condition number k.
 *
 *     f(w) = 1/2 sum_i l_i w_i^2, 50 eigenvalues l_i log-spaced from m = 1/k to L = 1, w_0 = (1, …, 1); steps until the RMS of w falls below 1e-6
 *     gradient descent   w+ = w - eta l w                            eta = 2/(m + L)
 *     heavy ball         w+ = w - eta l w + rho (w - w-)             eta = 4/(sqrt L + sqrt m)^2, rho = ((sqrt k - 1)/(sqrt k + 1))^2      (Polyak 1964)
 *     Nesterov           v = w + rho (w - w-),  w+ = v - eta l v     eta = 1/L,                   rho = (sqrt k - 1)/(sqrt k + 1)          (Nesterov 1983)
 *
 * The first needs a number of steps that grows like k, the other two like sqrt k.  Without strong convexity (here: eigenvalues so small that t steps do not see them)
 * the gap f - f* falls like 1/t with gradient descent and like 1/t^2 with Nesterov's momentum (t-1)/(t+2).
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

typedef enum { GRADIENT_DESCENT, HEAVY_BALL, NESTEROV, METHODS } method;
static const char *const method_name[METHODS] = { "gradient descent", "heavy ball", "Nesterov" };

enum { MOST = 60000, CURVE = 700 };

static cj_tensor *log_spaced(cj_ctx *c, double low, double high, int n)
{
    double value[1024];
    for (int i = 0; i < n; i++) value[i] = low * pow(high / low, (double)i / (n - 1));
    return cj_from_f64(c, value, CJ_SHAPE(n));
}

/* w and the iterate before it, changed in place. */
static void step(cj_tensor *l, cj_tensor *w, cj_tensor *before, double eta, double rho, bool nesterov)
{
    cj_scope s = cj_scope_open(cj_tensor_ctx(w));
    cj_tensor *v = rho == 0 ? w : cj_add(w, cj_mul_scalar(cj_sub(w, before), rho));
    cj_tensor *next = cj_sub(v, cj_mul_scalar(cj_mul(l, nesterov ? v : w), eta));
    cj_assign_(before, w);
    cj_assign_(w, next);
    cj_scope_close(s);
}

static double rms(cj_tensor *w)
{
    cj_scope s = cj_scope_open(cj_tensor_ctx(w));
    double r = sqrt(cj_item(cj_mean(cj_square(w))));
    cj_scope_close(s);
    return r;
}

/* Steps until RMS < 1e-6, or MOST. curve (may be NULL) receives the RMS of the first CURVE steps. */
static int count(cj_ctx *c, method how, double kappa, bool wrong, double *curve)
{
    double m = 1 / kappa, root = sqrt(kappa), q = (root - 1) / (root + 1), eta = 1, rho = 0;
    if (how == GRADIENT_DESCENT) eta = wrong ? 1 : 2 / (m + 1);
    if (how == HEAVY_BALL) eta = 4 / ((1 + sqrt(m)) * (1 + sqrt(m))), rho = wrong ? q : q * q;
    if (how == NESTEROV) rho = wrong ? q * q : q;
    cj_scope s = cj_scope_open(c);
    cj_tensor *l = log_spaced(c, m, 1, 50);
    cj_tensor *w = cj_ones(c, CJ_SHAPE(50), CJ_F64), *before = cj_ones(c, CJ_SHAPE(50), CJ_F64);
    int t = 0;
    for (; t < MOST && cj_ok(c); t++) {
        double error = rms(w);
        if (curve && t < CURVE) curve[t] = error;
        if (error < 1e-6) break;
        step(l, w, before, eta, rho, how == NESTEROV);
    }
    cj_scope_close(s);
    return t;
}

/* Slope of log gap against log t between two times, on a quadratic whose curvature reaches down to 1e-10. */
static double gap_slope(cj_ctx *c, bool nesterov, int from, int to)
{
    enum { N = 1000 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *l = log_spaced(c, 1e-10, 1, N);
    cj_tensor *w = cj_ones(c, CJ_SHAPE(N), CJ_F64), *before = cj_ones(c, CJ_SHAPE(N), CJ_F64);
    double gap[2] = { 0 };
    for (int t = 1; t <= to && cj_ok(c); t++) {
        step(l, w, before, 1, nesterov ? (t - 1.0) / (t + 2.0) : 0, nesterov);
        if (t == from || t == to) gap[t == to] = 0.5 * cj_item(cj_sum(cj_mul(l, cj_square(w))));
    }
    cj_scope_close(s);
    return log(gap[1] / gap[0]) / log((double)to / from);
}

static void draw(cj_ctx *c, cj_lab_record *r, double curve[METHODS][CURVE], const int steps[METHODS])
{
    cj_plot *p = cj_plot_new(c, "Quadratic of condition number 100: steps until the error is below 1e-6");
    cj_plot_labels(p, "step", "RMS error");
    cj_plot_log(p, false, true);
    for (int how = 0; how < METHODS; how++) {
        char label[64];
        snprintf(label, sizeof label, "%s: %d", method_name[how], steps[how]);
        cj_plot_line(p, label, NULL, curve[how], steps[how] < CURVE ? steps[how] + 1 : CURVE);
    }
    cj_lab_picture(r, c, p, "rate-table");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static const double kappa[4] = { 10, 100, 1000, 10000 };
    static const int expected[4][METHODS] = { { 62, 24, 39 }, { 612, 85, 139 }, { 6107, 288, 455 }, { MOST, 972, 1455 } };
    static double curve[METHODS][CURVE];
    int found[4][METHODS] = { { 0 } };
    for (int i = 0; i < 4 && cj_ok(c); i++)
        for (int how = 0; how < METHODS && cj_ok(c); how++) {
            char what[64];
            found[i][how] = count(c, (method)how, kappa[i], control, i == 1 ? curve[how] : NULL);
            snprintf(what, sizeof what, "kappa %g: steps of %s", kappa[i], method_name[how]);
            if (expected[i][how] == MOST) cj_lab_expect_at_least(r, what, MOST, found[i][how]);
            else cj_lab_expect(r, what, expected[i][how], found[i][how], 0);
        }
    if (!cj_ok(c)) return;
    cj_lab_expect(r, "gradient descent: exponent of kappa, 10 to 1000", 1, log10((double)found[2][0] / found[0][0]) / 2, 0.05);
    cj_lab_expect(r, "heavy ball: exponent of kappa, 100 to 10000", 0.5, log10((double)found[3][1] / found[1][1]) / 2, 0.05);
    cj_lab_expect(r, "Nesterov: exponent of kappa, 100 to 10000", 0.5, log10((double)found[3][2] / found[1][2]) / 2, 0.05);
    cj_lab_expect(r, "convex, gradient descent: gap falls like t to the", -1, gap_slope(c, false, 100, 2000), 0.05);
    cj_lab_expect(r, "convex, Nesterov: gap falls like t to the", -2, gap_slope(c, true, 100, 2000), 0.05);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, curve, found[1]);
}

const cj_lab cj_lab_rate_table = {
    .name = "rate-table",
    .claim =
        "on a quadratic, gradient descent needs steps like kappa, heavy ball and Nesterov like its square root: 612, 85, 139 at kappa 100",
    .source = "Polyak 1964; Nesterov 1983",
    .control = "step 1/L for gradient descent, and the momenta of heavy ball and Nesterov exchanged",
    .run = run,
};
