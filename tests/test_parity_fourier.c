/* Fourier transforms, functions of matrices, structured matrices and information beside PyTorch and SciPy (tools/fixtures_fourier.py). */
#include "parity.h"

#include <cajal/cajal.h>

static cj_axes axes_of(long long n) { return n == 1 ? CJ_AXIS(-1) : n == 2 ? CJ_AXES(-2, -1) : CJ_AXES(-3, -2, -1); }
static cj_tensor *projection(cj_tensor *v) { return cj_matmul(v, cj_t(v)); }

CASE(fft, cj_fft(X, .axes = axes_of(A(0)), .norm = (cj_fft_norm)A(1)))
CASE(ifft, cj_ifft(X, .axes = axes_of(A(0)), .norm = (cj_fft_norm)A(1)))
CASE(rfft, cj_rfft(X, .axes = axes_of(A(0)), .norm = (cj_fft_norm)A(1)))
CASE(irfft, cj_irfft(X, .size = CJ_SHAPE(A(0))))
CASE(stft, cj_stft(X, A(0), .hop = A(1)))
CASE(istft, cj_istft(X, A(0), .hop = A(1)))
CASE(window, cj_window(c, (cj_window_kind)A(0), 13, .symmetric = A(1), .dtype = CJ_F64))
CASE(convolve, cj_fft_convolve(X, Y, .mode = (cj_convolve_mode)A(0)))
CASE(convolve2, cj_fft_convolve(X, Y, .mode = (cj_convolve_mode)A(0), .axes = CJ_AXES(-2, -1)))
UNARY(matrix_log)
UNARY(matrix_sqrt)
UNARY(matrix_inverse_sqrt)
CASE(eigh_general, cj_eigh_general(X, Y).values)
BINARY(toeplitz)
CASE(toeplitz_product, cj_toeplitz_product(X, Y, in[2]))
BINARY(circulant_product)
CASE(null_space, projection(cj_null_space(X)))
UNARY(entropy)
BINARY(relative_entropy)
BINARY(jensen_shannon)
UNARY(mutual_information)
BINARY(wasserstein1)

/* clang-format off */
static const parity_row functions[] = {
    ROW(fft), ROW(ifft), ROW(rfft), ROW(irfft), ROW(stft), ROW(istft), ROW(window), ROW(convolve), ROW(convolve2), ROW(matrix_log),
    ROW(matrix_sqrt), ROW(matrix_inverse_sqrt), ROW(eigh_general), ROW(toeplitz), ROW(toeplitz_product), ROW(circulant_product),
    ROW(null_space), ROW(entropy), ROW(relative_entropy), ROW(jensen_shannon), ROW(mutual_information), ROW(wasserstein1),
};
/* clang-format on */

static void equals_pytorch_and_scipy(void **state)
{
    (void)state;
    assert_int_equal(run_cases("fourier.txt", functions, sizeof functions / sizeof *functions), 90);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equals_pytorch_and_scipy) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
