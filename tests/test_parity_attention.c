/* Attention against PyTorch: results, gradients (of masks, too) and Hessians times vectors. */
#include "parity.h"

static cj_tensor *attend(const arguments *a, cj_tensor *const *in, cj_tensor *mask)
{
    return cj_attention(in[0], in[1], in[2], &(cj_attention_opts){ .causal = A(0) != 0, .scale = (double)A(1) / 100, .mask = mask });
}
CASE(attention, attend(a, in, NULL))
CASE(masked, attend(a, in, in[3]))

/* clang-format off */
static const parity_row functions[] = { ROW(attention), ROW(masked) };
/* clang-format on */

static void test_attention(void **state)
{
    (void)state;
    assert_int_equal(run_cases("attention.txt", functions, sizeof functions / sizeof *functions), 15);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_attention) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
