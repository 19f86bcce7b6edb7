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

extern cj_tensor *cj__gammainc_da(cj_tensor *a, cj_tensor *x);

static cj_tensor *call(const char *name, cj_tensor *const *x)
{
    static const struct {
        const char *name;
        cj_tensor *(*f)(cj_tensor *x);
    } one[] = { { "lgamma", (cj_lgamma) },
                { "gamma", (cj_gamma) },
                { "digamma", (cj_digamma) },
                { "erfinv", (cj_erfinv) },
                { "erfc", (cj_erfc) },
                { "bessel_j0", (cj_bessel_j0) },
                { "bessel_j1", (cj_bessel_j1) },
                { "bessel_i0e", (cj_bessel_i0e) },
                { "bessel_i1e", (cj_bessel_i1e) },
                { "sinc", (cj_sinc) },
                { "softplus_inverse", (cj_softplus_inverse) } };
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (strcmp(name, one[i].name) == 0) return one[i].f(x[0]);
    if (strncmp(name, "polygamma", 9) == 0) return cj_polygamma(name[9] - '0', x[0]);
    if (strcmp(name, "lbeta") == 0) return cj_lbeta(x[0], x[1]);
    if (strcmp(name, "gammainc") == 0) return cj_gammainc(x[0], x[1]);
    if (strcmp(name, "gammaincc") == 0) return cj_gammaincc(x[0], x[1]);
    if (strcmp(name, "gammainc_da") == 0) return cj__gammainc_da(x[0], x[1]);
    if (strcmp(name, "betainc") == 0) return cj_betainc(x[0], x[1], x[2]);
    fail_msg("%s is not known", name);
    return NULL;
}

/* f64 within 4 units in the last place; f32, where its arguments are exact, within 1. Derivatives in a: 16 units, or 1e-17 (f32: 1e-14), below which the sum of
 * terms of both signs cannot go. */
static void reference_values(void **state)
{
    (void)state;
    FILE *f = fopen(CJ_SOURCE_DIR "/tests/fixtures/special.txt", "r");
    assert_non_null(f);
    char line[512];
    int lines = 0, bad = 0, narrow = 0;
    while (fgets(line, sizeof line, f)) {
        char *word[8];
        int n = 0;
        for (char *w = strtok(line, " \n"); w && n < 8; w = strtok(NULL, " \n")) word[n++] = w;
        cj_scope s = cj_scope_open(c);
        cj_tensor *x[3], *single[3];
        const double expected = strtod(word[n - 1], NULL);
        bool exact = true;
        for (int i = 1; i < n - 1; i++) {
            const double v = strtod(word[i], NULL);
            exact = exact && (double)(float)v == v;
            x[i - 1] = cj_from_f64(c, &v, CJ_SCALAR);
            single[i - 1] = cj_cast(x[i - 1], CJ_F32);
        }
        const double found = cj_item(call(word[0], x)), ulp = nextafter(fabs(expected), INFINITY) - fabs(expected);
        const bool in_a = strcmp(word[0], "gammainc_da") == 0;
        const double allowed = in_a ? fmax(16 * ulp, 1e-17) : 4 * ulp;
        if (!cj_ok(c)) fail_msg("%s", cj_message(c));
        if (!(fabs(found - expected) <= allowed)) {
            print_error("%s(%s%s%s): expected %.17g, found %.17g, %.1f ulp\n", word[0], word[1], n > 3 ? ", " : "", n > 3 ? word[2] : "",
                        expected, found, (found - expected) / ulp);
            bad++;
        }
        if (exact && fabs(expected) < 3e38 && fabs(expected) > 1e-37 && strcmp(word[0], "sinc") && strcmp(word[0], "softplus_inverse")) {
            const double value = cj_item(call(word[0], single)),
                         step = (double)nextafterf((float)fabs(expected), INFINITY) - (double)(float)fabs(expected);
            narrow++;
            if (!(fabs(value - expected) <= (in_a ? fmax(step, 1e-14) : step)))
                print_error("f32 %s(%s): expected %.9g, found %.9g\n", word[0], word[1], expected, value), bad++;
        }
        cj_scope_close(s);
        lines++;
    }
    fclose(f);
    assert_true(lines > 300 && narrow > 150);
    if (bad) fail_msg("%d of %d values are off", bad, lines);
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

/* First derivatives of P(a, x) in a against differences, and where derivatives do not exist. */
static cj_tensor *lower(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    return cj_sum(cj_gammainc(in[0], in[1]));
}
static void derivatives(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_tensor *a = cj_from_f64(c, (double[]){ 0.3, 1, 2.5, 20 }, CJ_SHAPE(4)),
              *x = cj_from_f64(c, (double[]){ 0.5, 0.9, 4, 17 }, CJ_SHAPE(4));
    cj_gradcheck_result g = cj_gradcheck(c, lower, NULL, CJ_TENSORS(a, x), 2);
    if (!g.ok) fail_msg("%s", g.what);
    /* at 0: sinc'' = -pi²/3, J1' = 1/2, e^-|x| I1' = 1/2 */
    cj_tensor *z = cj_require_grad(cj_zeros(c, CJ_SCALAR, CJ_F64)), *d, *dd;
    cj_grad(cj_sinc(z), &z, 1, &d, .create_graph = true);
    cj_grad(d, &z, 1, &dd);
    assert_true(cj_item(d) == 0 && fabs(cj_item(dd) + M_PI * M_PI / 3) < 1e-12);
    cj_grad(cj_bessel_j1(z), &z, 1, &d);
    assert_true(cj_item(d) == 0.5);
    cj_grad(cj_bessel_i1e(z), &z, 1, &d);
    assert_true(cj_item(d) == 0.5);
    cj_tensor *p = cj_require_grad(cj_ones(c, CJ_SCALAR, CJ_F64)), *half = cj_full(c, 0.5, CJ_SCALAR, CJ_F64);
    cj_grad(cj_betainc(p, half, half), &p, 1, &d);
    assert_int_equal(cj_error(c), CJ_EVALUE);
    assert_non_null(strstr(cj_message(c), "only to x"));
    cj_clear(c);
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
                                        cmocka_unit_test(derivatives) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
