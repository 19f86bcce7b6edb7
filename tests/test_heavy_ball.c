/* opt.heavy_ball: four ways to write Polyak's heavy ball give the same iterates, and the optimiser of the library is one of them. */
#include "support.h"

enum { N = 50 };

static cj_tensor *eigenvalues(cj_ctx *c, double kappa)
{
    double l[N];
    for (int i = 0; i < N; i++) l[i] = pow(kappa, (double)i / (N - 1) - 1); /* 1/kappa … 1 */
    return cj_from_f64(c, l, CJ_SHAPE(N));
}

/* f(w) = 1/2 sum l w²; its gradient is l·w. */
static void opt_heavy_ball_forms_agree(void **state)
{
    (void)state;
    static const double rho[] = { 0, 0.5, 0.9 };
    for (int k = 0; k < 3; k++) {
        double eta = 0.7, r = rho[k];
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
        cj_tensor *l = eigenvalues(c, 100), *one = cj_ones(c, CJ_SHAPE(N), CJ_F64);
        cj_module *holder = cj_module_new(c, &(cj_module_type){ .name = "w" }, 0);
        cj_tensor *p = cj_module_param(holder, "w", one);
        cj_optim *sgd = cj_sgd(cj_module_params(holder), .lr = eta, .momentum = r);
        cj_tensor *a = one, *a_before = one, *b = one, *b_before = one, *v = cj_zeros(c, CJ_SHAPE(N), CJ_F64), *w = one, *m = v, *z = one;
        for (int t = 0; t < 60; t++) {
            cj_tensor *next = cj_add(cj_sub(a, cj_mul_scalar(cj_mul(l, a), eta)), cj_mul_scalar(cj_sub(a, a_before), r));
            a_before = a, a = next; /* w - eta g + rho (w - w-) */
            next = cj_sub(cj_sub(cj_mul_scalar(b, 1 + r), cj_mul_scalar(b_before, r)), cj_mul_scalar(cj_mul(l, b), eta));
            b_before = b, b = next; /* u = (1 + rho) w - rho w-,  w+ = u - eta g(w) */
            v = cj_sub(cj_mul_scalar(v, r), cj_mul(l, w));
            w = cj_add(w, cj_mul_scalar(v, eta)); /* velocity */
            m = cj_add(cj_mul_scalar(m, r), cj_mul_scalar(cj_mul(l, z), 1 - r));
            z = cj_sub(z, cj_mul_scalar(m, eta / (1 - r))); /* averaged gradient, eta = alpha (1 - beta) */
            cj_scope s = cj_scope_open(c);
            assert_true(cj_minimise(sgd, cj_mul_scalar(cj_sum(cj_mul(l, cj_square(p))), 0.5)));
            cj_scope_close(s);
        }
        assert_ok(c);
        assert_near(distance(a, b), 0, 1e-12);
        assert_near(distance(a, w), 0, 1e-12);
        assert_near(distance(a, z), 0, 1e-12);
        assert_near(distance(a, p), 0, 1e-12);
        if (r == 0) { /* gradient descent: (1 - eta l)^60 */
            double *value = values_of(a), *eigen = values_of(l);
            for (int i = 0; i < N; i++) assert_near(value[i], pow(1 - eta * eigen[i], 60), 1e-12);
            free(value);
            free(eigen);
        }
        cj_ctx_free(c);
    }
}

/* Steps of the library's optimiser until the RMS of w is below 1e-6, from w = 1. */
static int steps(double eta, double rho)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *l = eigenvalues(c, 100);
    cj_module *holder = cj_module_new(c, &(cj_module_type){ .name = "w" }, 0);
    cj_tensor *w = cj_module_param(holder, "w", cj_ones(c, CJ_SHAPE(N), CJ_F64));
    cj_optim *sgd = cj_sgd(cj_module_params(holder), .lr = eta, .momentum = rho);
    int t = 0;
    for (double rms = 1; rms >= 1e-6 && cj_ok(c) && t < 1000; t++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(sgd, cj_mul_scalar(cj_sum(cj_mul(l, cj_square(w))), 0.5));
        rms = sqrt(cj_item(cj_mean(cj_square(w))));
        cj_scope_close(s);
    }
    assert_ok(c);
    cj_ctx_free(c);
    return t;
}

static void opt_heavy_ball_counts(void **state)
{
    (void)state;
    assert_int_equal(steps(2 / 1.01, 0), 612);
    assert_int_equal(steps(4 / (1.1 * 1.1), 81.0 / 121), 85);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opt_heavy_ball_forms_agree),
        cmocka_unit_test(opt_heavy_ball_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
