/* Parity with PyTorch: recurrent networks, stacked, in both directions, packed; values, gradients and Hessian-vector products.  Reference values:
 * tests/fixtures/recurrent.txt, made by tools/fixtures_recurrent.py. */
#include "parity.h"

/* Arguments: cell, layers, directions, lengths.  Inputs: x, all weights in a row, first states of a single layer. */
static cj_tensor *case_recurrent(cj_ctx *c, const arguments *a, cj_tensor *const *in, int n)
{
    enum { H = 2 };
    static const cj_recurrent_cell cells[] = { CJ_RNN, CJ_LSTM, CJ_GRU, CJ_RNN };
    static const int64_t gates[] = { 1, 4, 3, 1 };
    const int directions = (int)A(2), count = (int)A(1) * directions;
    const int64_t rows = gates[A(0)] * H;
    cj_tensor *w[16];
    int64_t at = 0;
    for (int i = 0; i < 4 * count; i++) {
        const int64_t inputs = i / 4 < directions ? cj_size(in[0], 2) : H * directions;
        const int64_t columns = i % 4 == 0 ? inputs : i % 4 == 1 ? H : 1;
        w[i] = cj_slice(in[1], 0, at, at + rows * columns, 1);
        if (i % 4 < 2) w[i] = cj_reshape(w[i], CJ_SHAPE(rows, columns));
        at += rows * columns;
    }
    cj_recurrent_opts o = { .layers = (int)A(1), .bidirectional = directions == 2 };
    if (A(0) == 3) o.activation = CJ_ACTIVATION_RELU;
    if (A(3)) o.lengths = cj_from_i64(c, (int64_t[]){ 2, 4, 1 }, CJ_SHAPE(3));
    if (n > 2) o.h0 = cj_unsqueeze(in[2], 0);
    if (n > 3) o.c0 = cj_unsqueeze(in[3], 0);
    cj_recurrent_result r = (cj_recurrent)(cells[A(0)], in[0], w, 4 * count, &o);
    cj_tensor *parts[3] = { cj_flatten(r.y, 0), cj_flatten(r.h_n, 0), r.c_n ? cj_flatten(r.c_n, 0) : NULL };
    return cj_cat(parts, r.c_n ? 3 : 2, 0);
}

static const parity_row rows[] = { ROW(recurrent) };

static void test_recurrent(void **state)
{
    (void)state;
    assert_int_equal(run_cases("recurrent.txt", rows, sizeof rows / sizeof *rows), 24);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_recurrent) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
