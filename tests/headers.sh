#!/bin/sh
# Every public header compiles alone, as C17 and as C++17, without a warning, with each compiler that is there.
set -eu
cd "$(dirname "$0")/.."
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude"
failed=0
for h in include/cajal/*.h; do
    name=cajal/$(basename "$h")
    [ "$name" != cajal/sugar.h ] || continue
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        # shellcheck disable=SC2086 # the flags are words
        printf '#include <%s>\nint main(void) { return 0; }\n' "$name" | $cc -x c -std=c17 $strict - || failed=1
    done
    for cxx in g++ clang++; do
        command -v $cxx >/dev/null || continue
        # shellcheck disable=SC2086
        printf '#include <%s>\nint main() { return 0; }\n' "$name" | $cxx -x c++ -std=c++17 $strict - || failed=1
    done
done

# The sugar gives no warning either, with and without options, nested, with array literals.
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    # shellcheck disable=SC2086
    $cc -x c -std=c17 $strict - <<'EOF' || failed=1
#include <cajal/cajal.h>
int main(void)
{
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *x = cj_from_f32(c, (float[]){ 1, 2, 3, 4 }, CJ_SHAPE(2, 2));
    cj_tensor *y = cj_sum(cj_sum(x, .axes = CJ_AXIS(0), .keepdim = true));
    cj_print(cj_add(y, cj_randn(c, CJ_SHAPE(2, 2), .stream = CJ_STREAM_INIT)), stdout);
    cj_module *net = cj_sequential(c, cj_linear(c, 2, 8), cj_tanh_layer(c), cj_linear(c, 8, 1, .no_bias = true));
    cj_optim *opt = cj_adam(cj_module_params(net), .lr = 0.05);
    cj_minimise(opt, cj_mse_loss(cj_forward(net, x), y));
    cj_op_count();
    cj_ctx_free(c);
    return 0;
}
EOF
done
exit $failed
