/* Special functions against reference values of 22 digits, at their poles and outside of their domains, and their gradients at awkward places. */
#include "support.h"

#include <cajal/math.h>
#include <math.h>

static cj_ctx *c;
static int set_up(void **state)
{
    (void)state;
    c = cj_ctx_new(NULL);
    return !c;
}
static int tear_down(void **state)
{
    (void)state;
    cj_ctx_free(c);
    return 0;
}

extern cj_tensor *cj__gammainc_moment(int i, cj_tensor *a, cj_tensor *x);
extern cj_tensor *cj__betainc_moment(int i, int j, cj_tensor *a, cj_tensor *b, cj_tensor *x);
static cj_tensor *gamma_1(cj_tensor *a, cj_tensor *x) { return cj__gammainc_moment(1, a, x); }
static cj_tensor *gamma_2(cj_tensor *a, cj_tensor *x) { return cj__gammainc_moment(2, a, x); }
static cj_tensor *beta_10(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return cj__betainc_moment(1, 0, a, b, x); }
static cj_tensor *beta_01(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return cj__betainc_moment(0, 1, a, b, x); }
static cj_tensor *beta_20(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return cj__betainc_moment(2, 0, a, b, x); }
static cj_tensor *beta_11(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return cj__betainc_moment(1, 1, a, b, x); }
static cj_tensor *beta_02(cj_tensor *a, cj_tensor *b, cj_tensor *x) { return cj__betainc_moment(0, 2, a, b, x); }

static cj_tensor *polygamma_1(cj_tensor *x) { return cj_polygamma(1, x); }
static cj_tensor *polygamma_2(cj_tensor *x) { return cj_polygamma(2, x); }
static cj_tensor *polygamma_3(cj_tensor *x) { return cj_polygamma(3, x); }
static cj_tensor *polygamma_5(cj_tensor *x) { return cj_polygamma(5, x); }
static cj_tensor *logsumexp(cj_tensor *a, cj_tensor *b) { return (cj_logsumexp)((cj_stack)((cj_tensor *[]){ a, b }, 2, 0), NULL); }

typedef struct function {
    const char *name;
    cj_tensor *(*one)(cj_tensor *x);
    cj_tensor *(*two)(cj_tensor *a, cj_tensor *b);
    cj_tensor *(*three)(cj_tensor *a, cj_tensor *b, cj_tensor *x);
} function;
static const function functions[] = {
    { "lgamma", .one = (cj_lgamma) },
    { "gamma", .one = (cj_gamma) },
    { "digamma", .one = (cj_digamma) },
    { "polygamma1", .one = polygamma_1 },
    { "polygamma2", .one = polygamma_2 },
    { "polygamma3", .one = polygamma_3 },
    { "polygamma5", .one = polygamma_5 },
    { "beta", .two = (cj_beta) },
    { "lbeta", .two = (cj_lbeta) },
    { "gammainc", .two = (cj_gammainc) },
    { "gammaincc", .two = (cj_gammaincc) },
    { "gammainc_da", .two = gamma_1 },
    { "gammainc_moment2", .two = gamma_2 },
    { "betainc_moment10", .three = beta_10 },
    { "betainc_moment01", .three = beta_01 },
    { "betainc_moment20", .three = beta_20 },
    { "betainc_moment11", .three = beta_11 },
    { "betainc_moment02", .three = beta_02 },
    { "gammaincinv", .two = (cj_gammaincinv) },
    { "betainc", .three = (cj_betainc) },
    { "betaincinv", .three = (cj_betaincinv) },
    { "stdtr", .two = (cj_stdtr) },
    { "stdtrit", .two = (cj_stdtrit) },
    { "erf", .one = (cj_erf) },
    { "erfc", .one = (cj_erfc) },
    { "erfinv", .one = (cj_erfinv) },
    { "ndtr", .one = (cj_ndtr) },
    { "ndtri", .one = (cj_ndtri) },
    { "bessel_j0", .one = (cj_bessel_j0) },
    { "bessel_j1", .one = (cj_bessel_j1) },
    { "bessel_i0e", .one = (cj_bessel_i0e) },
    { "bessel_i1e", .one = (cj_bessel_i1e) },
    { "sinc", .one = (cj_sinc) },
    { "softplus_inverse", .one = (cj_softplus_inverse) },
    { "log1p", .one = (cj_log1p) },
    { "expm1", .one = (cj_expm1) },
    { "softplus", .one = (cj_softplus) },
    { "log_sigmoid", .one = (cj_log_sigmoid) },
    { "logaddexp", .two = (cj_logaddexp) },
    { "logsumexp", .two = logsumexp },
    { "xlogy", .two = (cj_xlogy) },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct reference {
    int function, args;
    double x[3];
    long double value;
    double moved[2]; /* by the last place of an argument, f64 and f32; 0: not given */
} reference;

static bool parse(char *line, reference *r)
{
    char *word[10];
    int n = 0, bar = 0;
    for (char *w = strtok(line, " \n"); w && n < 10; w = strtok(NULL, " \n")) {
        if (*w == '|') bar = n;
        word[n++] = w;
    }
    if (!bar) bar = n;
    *r = (reference){ .function = -1, .args = bar - 2 };
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(word[0], functions[i].name) == 0) r->function = i;
    if (r->function < 0 || r->args < 1 || r->args > 3) return false;
    for (int i = 0; i < r->args; i++) r->x[i] = strtod(word[1 + i], NULL);
    r->value = strtold(word[bar - 1], NULL);
    for (int i = 0; i < 2 && bar < n; i++) r->moved[i] = strtod(word[bar + 1 + i], NULL);
    return true;
}

static double value_of(const reference *r, cj_dtype t)
{
    cj_tensor *x[3];
    for (int i = 0; i < r->args; i++) x[i] = cj_cast(cj_from_f64(c, &r->x[i], CJ_SCALAR), t);
    const function *f = &functions[r->function];
    return cj_item(f->one ? f->one(x[0]) : f->two ? f->two(x[0], x[1]) : f->three(x[0], x[1], x[2]));
}

/* Every function within 4 units in the last place, in f64 and, where the arguments are f32 numbers, in f32.  A unit is that of the value; where a function passes through zero at
 * a number that is not representable (the fixture says how far the value moves with the last place of the argument) it is at least that move, since no value there is worth
 * more than its argument.  The derivative of gammainc in a is no function of the interface but a piece of gradients: 16 units, and at least 1e-17 (f32: 1e-14), below which
 * its sum of terms of both signs cannot go. */
static void reference_values(void **state)
{
    (void)state;
    FILE *f = fopen(CJ_SOURCE_DIR "/tests/fixtures/special.txt", "r");
    assert_non_null(f);
    char line[512];
    double worst[FUNCTIONS][2] = { 0 };
    int seen[FUNCTIONS][2] = { 0 }, bad = 0;
    while (fgets(line, sizeof line, f)) {
        reference r;
        if (!parse(line, &r)) fail_msg("a line that is not understood: %s", line);
        const bool in_a = strcmp(functions[r.function].name, "gammainc_da") == 0;
        for (int narrow = 0; narrow < 2; narrow++) {
            const double most = fabs((double)r.value);
            for (int i = 0; i < r.args; i++)
                if (narrow && (double)(float)r.x[i] != r.x[i]) goto next;
            if (narrow && (most > 3e38 || (most < 1.2e-38 && most > 0))) continue;
            cj_scope s = cj_scope_open(c);
            const double found = value_of(&r, narrow ? CJ_F32 : CJ_F64),
                         last = narrow ? (double)(nextafterf((float)most, INFINITY) - (float)most) : nextafter(most, INFINITY) - most;
            if (!cj_ok(c)) fail_msg("%s: %s", functions[r.function].name, cj_message(c));
            cj_scope_close(s);
            const double unit = in_a ? fmax(4 * last, narrow ? 2.5e-15 : 2.5e-18) : fmax(last, r.moved[narrow]);
            const double off = (double)(fabsl((long double)found - r.value) / unit);
            if (!(off <= worst[r.function][narrow])) worst[r.function][narrow] = off;
            seen[r.function][narrow]++;
            if (!(off <= 4) && ++bad <= 40)
                print_error("%s %s(%.9g, %.9g, %.9g): expected %.17g, found %.17g, %.1f units\n", narrow ? "f32" : "f64",
                            functions[r.function].name, r.x[0], r.x[1], r.x[2], (double)r.value, found, off);
        }
    next:;
    }
    fclose(f);
    for (int i = 0; i < FUNCTIONS; i++) {
        print_message("%-18s f64 %6.2f units at worst of %3d values, f32 %6.2f of %3d\n", functions[i].name, worst[i][0], seen[i][0],
                      worst[i][1], seen[i][1]);
        assert_true(seen[i][0] >= 10 && seen[i][1] >= 4);
    }
    if (bad) fail_msg("%d values are off", bad);
}

static double at(cj_tensor *(*f)(cj_tensor *x), double v) { return cj_item(f(cj_from_f64(c, &v, CJ_SCALAR))); }

static void poles_and_domains(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_true(at((cj_lgamma), 0) == INFINITY && at((cj_lgamma), -3) == INFINITY);
    assert_true(isnan(at((cj_gamma), -2)) && at((cj_gamma), 0) == INFINITY && at((cj_gamma), 5) == 24);
    assert_true(at((cj_digamma), 0) == -INFINITY && isnan(at((cj_digamma), -1)));
    assert_true(at((cj_erfinv), 1) == INFINITY && at((cj_erfinv), -1) == -INFINITY && isnan(at((cj_erfinv), 1.5)) &&
                at((cj_erfinv), 0) == 0);
    assert_true(isnan(at((cj_erfinv), NAN)) && isnan(at((cj_lgamma), NAN)) && isnan(at((cj_digamma), NAN)) &&
                isnan(at((cj_bessel_i0e), NAN)));
    assert_true(at((cj_bessel_i0e), 0) == 1 && at((cj_bessel_i1e), 0) == 0 && at((cj_bessel_i1e), -2) == -at((cj_bessel_i1e), 2));
    assert_true(at((cj_bessel_i0e), INFINITY) == 0 && at((cj_sinc), 0) == 1);
    const double zero = 0, one = 1, two = 2, inf = INFINITY, minus = -1;
    cj_tensor *t0 = cj_from_f64(c, &zero, CJ_SCALAR), *t1 = cj_from_f64(c, &one, CJ_SCALAR), *t2 = cj_from_f64(c, &two, CJ_SCALAR);
    cj_tensor *ti = cj_from_f64(c, &inf, CJ_SCALAR), *tm = cj_from_f64(c, &minus, CJ_SCALAR);
    assert_true(cj_item(cj_gammainc(t1, t0)) == 0 && cj_item(cj_gammaincc(t1, t0)) == 1 && cj_item(cj_gammainc(t2, ti)) == 1);
    assert_true(isnan(cj_item(cj_gammainc(tm, t1))) && isnan(cj_item(cj_gammainc(t1, tm))) && isnan(cj_item(cj_betainc(t1, t1, t2))));
    assert_true(cj_item(cj_betainc(t2, t1, t0)) == 0 && cj_item(cj_betainc(t2, t1, t1)) == 1);
    assert_true(cj_item(cj_xlogy(t0, t0)) == 0 && fabs(cj_item(cj_beta(t2, t1)) - 0.5) < 1e-15);
    assert_true(cj_item(cj_logaddexp(ti, ti)) == INFINITY && cj_item(cj_logaddexp(cj_neg(ti), cj_neg(ti))) == -INFINITY);
    assert_true(fabs(cj_item(cj_logaddexp(t0, t0)) - M_LN2) < 1e-15);
    assert_true(fabs(at((cj_ndtri), at((cj_ndtr), -3.25)) + 3.25) < 1e-12);
    cj_scope_close(s);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
}

/* First and second derivatives of the incomplete integrals and their inverses in all arguments against differences, far from and near to their means; third and higher ones of
 * I_x(a, b) against those of its closed form for b = 1, x^a; and where derivatives do not exist. */
static cj_tensor *integral(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    switch (*(const int *)user) {
    case 0: return cj_gammainc(in[0], in[1]);
    case 1: return cj_gammaincc(in[0], in[1]);
    case 2: return cj_betainc(in[0], in[1], in[2]);
    case 3: return cj_gammaincinv(in[0], in[1]);
    case 4: return cj_betaincinv(in[0], in[1], in[2]);
    case 5: return cj_stdtrit(in[0], in[1]);
    default: return cj_stdtr(in[0], in[1]);
    }
}
static void incomplete_integrals_have_derivatives(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *a = cj_from_f64(c, (double[]){ 0.3, 1, 2.5, 20, 7, 3 }, CJ_SHAPE(6)),
              *b = cj_from_f64(c, (double[]){ 0.8, 3, 1.5, 16, 0.4, 12 }, CJ_SHAPE(6)),
              *x = cj_from_f64(c, (double[]){ 0.25, 0.9, 0.4, 0.6, 0.5, 0.125 }, CJ_SHAPE(6)),
              *z = cj_from_f64(c, (double[]){ 0, -0.7, 3, 0.01, -12, 1.5 }, CJ_SHAPE(6));
    for (int f = 0; f < 7; f++) {
        const bool beta = f == 2 || f == 4;
        const cj_gradcheck_result g = cj_gradcheck(c, integral, &f,
                                                   beta ? CJ_TENSORS(a, b, x)
                                                        : CJ_TENSORS(a, f < 2    ? b
                                                                        : f == 6 ? z
                                                                                 : x),
                                                   beta ? 3 : 2, .second_order = true);
        if (!g.ok) fail_msg("%d: %s %g %s", f, g.what, g.worst, cj_message(c));
    }
    const double value = 1.75, at = 0.375;
    cj_tensor *p = cj_require_grad(cj_from_f64(c, &value, CJ_SCALAR)), *one = cj_ones(c, CJ_SCALAR, CJ_F64),
              *limit = cj_from_f64(c, &at, CJ_SCALAR);
    cj_tensor *d = cj_betainc(p, one, limit);
    for (int order = 1; order <= 8; order++) { /* d^n x^a / da^n = x^a log^n x */
        cj_tensor *next;
        cj_grad(d, &p, 1, &next, .create_graph = true);
        d = next;
        const double expected = pow(at, value) * pow(log(at), order);
        if (!(fabs(cj_item(d) - expected) <= 1e-13 * exp2(2 * order) * fabs(expected)))
            fail_msg("order %d: %.17g, expected %.17g %s", order, cj_item(d), expected, cj_message(c));
    }
    cj_tensor *beyond;
    cj_grad(d, &p, 1, &beyond);
    assert_int_equal(cj_error(c), CJ_EVALUE);
    assert_non_null(strstr(cj_message(c), "up to order 8"));
    cj_clear(c);
    /* at and beyond the ends: over everything scores have mean 0 and their variance is psi' */
    cj_tensor *whole = cj_require_grad(cj_from_f64(c, &value, CJ_SCALAR)), *first, *second;
    cj_grad(cj_betainc(whole, one, one), &whole, 1, &first, .create_graph = true);
    cj_grad(first, &whole, 1, &second);
    assert_true(fabs(cj_item(first)) < 1e-16 && fabs(cj_item(second)) < 1e-15);
    cj_grad(cj_betainc(whole, one, cj_zeros(c, CJ_SCALAR, CJ_F64)), &whole, 1, &first);
    assert_true(cj_item(first) == 0);
    cj_grad(cj_gammainc(whole, cj_full(c, INFINITY, CJ_SCALAR, CJ_F64)), &whole, 1, &first);
    assert_true(cj_item(first) == 0);
    if (!cj_ok(c)) fail_msg("%s", cj_message(c));
    cj_scope_close(s);
}
static void derivatives(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    /* at 0: sinc'' = -pi²/3, J1' = 1/2, e^-|x| I1' = 1/2 */
    cj_tensor *z = cj_require_grad(cj_zeros(c, CJ_SCALAR, CJ_F64)), *d, *dd;
    cj_grad(cj_sinc(z), &z, 1, &d, .create_graph = true);
    cj_grad(d, &z, 1, &dd);
    assert_true(cj_item(d) == 0 && fabs(cj_item(dd) + M_PI * M_PI / 3) < 1e-12);
    cj_grad(cj_bessel_j1(z), &z, 1, &d);
    assert_true(cj_item(d) == 0.5);
    cj_grad(cj_bessel_i1e(z), &z, 1, &d);
    assert_true(cj_item(d) == 0.5);
    cj_tensor *half = cj_full(c, 0.5, CJ_SCALAR, CJ_F64);
    cj_polygamma(-1, half);
    assert_int_equal(cj_error(c), CJ_EVALUE);
    cj_clear(c);
    cj_lbeta(cj_ones(c, CJ_SHAPE(2), CJ_F64), cj_ones(c, CJ_SHAPE(3), CJ_F64));
    assert_int_equal(cj_error(c), CJ_ESHAPE);
    cj_clear(c);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reference_values), cmocka_unit_test(poles_and_domains),
                                        cmocka_unit_test(incomplete_integrals_have_derivatives), cmocka_unit_test(derivatives) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
