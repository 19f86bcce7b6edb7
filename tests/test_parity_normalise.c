/* Parity with PyTorch: normalisation, its gradients and Hessian-vector products, running statistics.  Reference values: tests/fixtures/normalise.txt, made by
 * tools/fixtures_normalise.py, which says how arguments are written. */
#include "parity.h"

#define H(i) ((double)A(i) / 100)
#define EPS(i) ((double)A(i) / 1e4)
#define W in[1]
#define B in[2]

static cj_tensor *counted(cj_ctx *c, const cj_tensor *x)
{
    return cj_cast(cj_arange(c, 1, (double)cj_size(x, 1) + 1, 1, CJ_I64), cj_dtype_of(x));
}
static cj_tensor *mean_of(cj_ctx *c, const cj_tensor *x) { return cj_mul_scalar(counted(c, x), 0.25); }
static cj_tensor *var_of(cj_ctx *c, const cj_tensor *x) { return cj_add_scalar(cj_mul_scalar(counted(c, x), 0.5), 1); }

/* The running statistic after a batch and twice the batch; cumulative: and thrice. */
static cj_tensor *running_after(cj_ctx *c, cj_tensor *x, double momentum, bool var)
{
    cj_tensor *m = cj_keep(momentum > 0 ? mean_of(c, x) : cj_zeros_like(mean_of(c, x))),
              *v = cj_keep(momentum > 0 ? var_of(c, x) : cj_ones_like(var_of(c, x)));
    cj_tensor *batches = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64));
    cj_batch_norm_opts o = { .running_mean = m, .running_var = v, .momentum = momentum, .batches = batches, .cumulative = momentum == 0 };
    for (int k = 1; k <= (momentum > 0 ? 2 : 3); k++) {
        cj_scope s = cj_scope_open(c);
        cj_batch_norm(cj_mul_scalar(x, k), NULL, NULL, &o);
        cj_scope_close(s);
    }
    cj_tensor *result = cj_clone(var ? v : m);
    cj_release(m);
    cj_release(v);
    cj_release(batches);
    return result;
}

static cj_tensor *spectral(cj_tensor *w, cj_tensor *u, int64_t iterations)
{
    u = cj_keep(cj_mul_scalar(cj_cast(u, cj_dtype_of(w)), 0.25));
    cj_tensor *y = cj_spectral_norm(w, u, &(cj_spectral_opts){ .iterations = iterations }).value;
    return y;
}

/* clang-format off */
CASE(batch_norm, cj_batch_norm(X, W, B, &(cj_batch_norm_opts){ .eps = EPS(0), .relu = A(1) != 0 }))
CASE(batch_norm_plain, cj_batch_norm(X, NULL, NULL, NULL))
CASE(batch_norm_eval, cj_batch_norm(X, W, B, &(cj_batch_norm_opts){ .eps = EPS(0), .relu = A(1) != 0, .eval = true,
                                                                    .running_mean = mean_of(c, X), .running_var = var_of(c, X) }))
CASE(instance_norm, cj_instance_norm(X, W, B, 0))
CASE(rms_norm, cj_rms_norm(X, W, EPS(0)))
CASE(group_norm, cj_group_norm(X, A(0), W, B, EPS(1)))
CASE(local_response_norm, cj_local_response_norm(X, A(0), &(cj_lrn_opts){ H(1), H(2), H(3) }))
CASE(weight_norm, cj_weight_norm(X, Y, (int)A(0)))
CASE(spectral_norm, spectral(X, Y, A(0)))
CASE(running_after, running_after(c, X, H(0), A(1) != 0))
CASE(cumulative_after, running_after(c, X, 0, A(0) != 0))

static const parity_row rows[] = { ROW(batch_norm), ROW(batch_norm_plain), ROW(batch_norm_eval), ROW(instance_norm), ROW(rms_norm), ROW(group_norm),
                                   ROW(local_response_norm), ROW(weight_norm), ROW(spectral_norm), ROW(running_after), ROW(cumulative_after) };
/* clang-format on */

static void test_normalise(void **state)
{
    (void)state;
    assert_int_equal(run_cases("normalise.txt", rows, sizeof rows / sizeof *rows), 82);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_normalise) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
