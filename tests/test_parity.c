/* Parity with PyTorch: results, gradients and Hessian-vector products of every operator family, the promotion table, slicing, and the parameters along 100 steps
 * of every optimiser.  Reference values: tests/fixtures/ops.txt, made by tools/fixtures_ops.py.
 *
 * Tolerances: tests/parity.h.  Optimisers: 1e-10 in f64, so the formulas are the same; 1e-6 in f32.
 * Known differences are left out of the fixture and named in tools/fixtures_ops.py.
 */
#include "parity.h"

#include <cajal/nn.h>
#include <cajal/optim.h>

/* clang-format off */
UNARY(neg)
UNARY(abs)
UNARY(sign)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(sqrt) UNARY(rsqrt) UNARY(reciprocal) UNARY(square) UNARY(sin) UNARY(cos) UNARY(tanh) UNARY(sigmoid) UNARY(erf) UNARY(floor)
    UNARY(ceil) UNARY(round) UNARY(trunc) UNARY(relu) UNARY(silu) UNARY(softplus) UNARY(log_sigmoid) UNARY(isnan) UNARY(isfinite)
        UNARY(logical_not) UNARY(nonzero) CASE(gelu, cj_gelu(X, NULL)) CASE(gelu_tanh, cj_gelu(X, &(cj_gelu_opts){ .tanh = true }))
            CASE(clamp, cj_clamp(X, (double)A(0), (double)A(1))) BINARY(add) BINARY(sub) BINARY(mul) BINARY(div) BINARY(maximum)
                BINARY(minimum) BINARY(fmod) BINARY(remainder) BINARY(atan2) BINARY(pow) BINARY(eq) BINARY(ne) BINARY(lt) BINARY(le)
                    BINARY(gt) BINARY(ge) BINARY(logical_and) BINARY(logical_or) BINARY(logical_xor) BINARY(floor_divide) BINARY(matmul)
                        BINARY(outer) CASE(embedding, cj_embedding(X, Y, NULL)) CASE(pow_scalar, cj_pow_scalar(X, (double)A(0))) CASE(where, cj_where(X, Y, in[2]))
                            CASE(masked_fill, cj_masked_fill(X, Y, 0.5))

                                static cj_reduce_opts reduce_opts(const arguments *a)
{
    cj_reduce_opts o = { .keepdim = A(1) != 0 };
    if (A(0) != -9) o.axes = CJ_AXIS((int)A(0));
    return o;
}
#define REDUCTION(name)                                                                                                                    \
    static cj_tensor *case_##name(cj_ctx *c, const arguments *a, cj_tensor *const *in, int n)                                              \
    {                                                                                                                                      \
        (void)c, (void)n;                                                                                                                  \
        cj_reduce_opts o = reduce_opts(a);                                                                                                 \
        return cj_##name(X, &o);                                                                                                           \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(max)
REDUCTION(min)
REDUCTION(argmax)
REDUCTION(argmin)
REDUCTION(any) REDUCTION(all) REDUCTION(logsumexp) CASE(var, cj_var(X, &(cj_var_opts){ .axes = reduce_opts(a).axes, .keepdim = A(1) != 0 }))

    CASE(slice, cj_slice(X, 0, A(0), A(1), A(2))) CASE(unfold, cj_unfold(X, 0, A(0), A(1))) CASE(diagonal, cj_diagonal(X, A(0), 0, 1))
        CASE(tril, cj_tril(X, A(0))) CASE(triu, cj_triu(X, A(0))) CASE(cat, cj_cat(in, n, 1)) CASE(stack, cj_stack(in, n, 1))
            CASE(transpose, cj_mul_scalar(cj_transpose(X, 0, 2), 2)) CASE(to_i64, cj_cast(X, CJ_I64)) CASE(to_bool, cj_cast(X, CJ_BOOL))
                CASE(to_bf16, cj_cast(X, CJ_BF16)) CASE(to_f16, cj_cast(X, CJ_F16)) CASE(index_select, cj_index_select(X, (int)A(0), Y))
                    CASE(index_add, cj_index_add(X, (int)A(0), Y, in[2])) CASE(gather, cj_gather(X, (int)A(0), Y))
                        CASE(scatter_add, cj_scatter_add(X, (int)A(0), Y, in[2])) CASE(one_hot, cj_one_hot(X, A(0)))
                            CASE(linear, cj_linear_op(X, Y, n > 2 ? in[2] : NULL)) CASE(softmax, cj_softmax(X, (int)A(0)))
                                CASE(log_softmax, cj_log_softmax(X, (int)A(0)))
                                    CASE(layer_norm, cj_layer_norm(X, n > 1 ? Y : NULL, n > 2 ? in[2] : NULL, 0))
                                        CASE(attention, cj_attention(X, Y, in[2], &(cj_attention_opts){ .causal = A(0) != 0 }))
                                            CASE(cross_entropy,
                                                 cj_cross_entropy(X, Y, &(cj_loss_opts){ .reduction = (cj_reduction)A(0), .label_smoothing = (double)A(1) / 100, .ignore_index = A(2) }))
#define LOSS(name) CASE(name, cj_##name(X, Y, &(cj_loss_opts){ .reduction = (cj_reduction)A(0) }))
                                                LOSS(mse_loss) LOSS(l1_loss) LOSS(bce_with_logits) LOSS(nll_loss)
                                                    CASE(bce_loss, cj_bce_loss(X, cj_cast(Y, cj_dtype_of(X)),
                                                                               &(cj_loss_opts){ .reduction = (cj_reduction)A(0) }))

static const parity_row functions[] = {
    ROW(neg),
    ROW(abs),
    ROW(sign),
    ROW(exp),
    ROW(expm1),
    ROW(log),
    ROW(log1p),
    ROW(sqrt),
    ROW(rsqrt),
    ROW(reciprocal),
    ROW(square),
    ROW(sin),
    ROW(cos),
    ROW(tanh),
    ROW(sigmoid),
    ROW(erf),
    ROW(floor),
    ROW(ceil),
    ROW(round),
    ROW(trunc),
    ROW(relu),
    ROW(silu),
    ROW(softplus),
    ROW(log_sigmoid),
    ROW(isnan),
    ROW(isfinite),
    ROW(logical_not),
    ROW(nonzero),
    ROW(gelu),
    ROW(gelu_tanh),
    ROW(clamp),
    ROW(add),
    ROW(sub),
    ROW(mul),
    ROW(div),
    ROW(maximum),
    ROW(minimum),
    ROW(fmod),
    ROW(remainder),
    ROW(atan2),
    ROW(pow),
    ROW(eq),
    ROW(ne),
    ROW(lt),
    ROW(le),
    ROW(gt),
    ROW(ge),
    ROW(logical_and),
    ROW(logical_or),
    ROW(logical_xor),
    ROW(floor_divide),
    ROW(matmul),
    ROW(outer),
    ROW(embedding),
    ROW(pow_scalar),
    ROW(where),
    ROW(masked_fill),
    ROW(sum),
    ROW(mean),
    ROW(prod),
    ROW(max),
    ROW(min),
    ROW(argmax),
    ROW(argmin),
    ROW(any),
    ROW(all),
    ROW(logsumexp),
    ROW(var),
    ROW(slice),
    ROW(unfold),
    ROW(diagonal),
    ROW(tril),
    ROW(triu),
    ROW(cat),
    ROW(stack),
    ROW(transpose),
    ROW(to_i64),
    ROW(to_bool),
    ROW(to_bf16),
    ROW(to_f16),
    ROW(index_select),
    ROW(index_add),
    ROW(gather),
    ROW(scatter_add),
    ROW(one_hot),
    ROW(linear),
    ROW(softmax),
    ROW(log_softmax),
    ROW(layer_norm),
    ROW(attention),
    ROW(cross_entropy),
    ROW(mse_loss),
    ROW(l1_loss),
    ROW(bce_with_logits),
    ROW(nll_loss),
    ROW(bce_loss),
};
/* clang-format on */

static void test_operators(void **state)
{
    (void)state;
    assert_int_equal(run_cases("ops.txt", functions, sizeof functions / sizeof *functions), 383);
    assert_int_equal(wrong, 0);
}

/* ---- promotion ---------------------------------------------------------------------------------------------------------------------------------------------- */

static void test_promotion(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    FILE *f = fixture("ops.txt");
    static char line[MAX_LINE];
    int rows = 0, bad = 0;
    cj_scope scope = cj_scope_open(c);
    while (fgets(line, sizeof line, f)) {
        char a[8], b[8], sum[8], quotient[8];
        int da, db;
        if (sscanf(line, "promote %7s %d %7s %d %7s %7s", a, &da, b, &db, sum, quotient) == 6) {
            cj_tensor *x = cj_ones(c, da ? CJ_SHAPE(2) : CJ_SCALAR, dtype_by_name(a)),
                      *y = cj_ones(c, db ? CJ_SHAPE(2) : CJ_SCALAR, dtype_by_name(b));
            cj_dtype want = dtype_by_name(sum), ratio = dtype_by_name(quotient);
            if (cj_promote(x, y) == want && cj_dtype_of(cj_add(x, y)) == want && cj_dtype_of(cj_div(x, y)) == ratio) {
                rows++;
                continue;
            }
            print_error("%s (%d-d) with %s (%d-d): %s, quotient %s; PyTorch %s, %s\n", a, da, b, db, cj_dtype_name(cj_promote(x, y)),
                        cj_dtype_name(cj_dtype_of(cj_div(x, y))), sum, quotient);
            bad++;
        } else if (sscanf(line, "scalar %7s %7s %7s", a, sum, quotient) == 3) {
            cj_tensor *x = cj_ones(c, CJ_SHAPE(2), dtype_by_name(a));
            const char *whole = cj_dtype_name(cj_dtype_of(cj_mul_scalar(x, 2))), *half = cj_dtype_name(cj_dtype_of(cj_mul_scalar(x, 0.5)));
            if (strcmp(whole, sum) == 0 && strcmp(half, quotient) == 0) {
                rows++;
                continue;
            }
            print_error("%s times 2: %s, times 0.5: %s; PyTorch %s, %s\n", a, whole, half, sum, quotient);
            bad++;
        }
    }
    cj_scope_close(scope);
    fclose(f);
    cj_ctx_free(c);
    assert_int_equal(bad, 0);
    assert_int_equal(rows, 8 * 8 * 4 + 8);
}

/* ---- optimisers --------------------------------------------------------------------------------------------------------------------------------------------------- */

static const cj_module_type plain_module = { .name = "plain" };

static cj_optim *optimiser(const char *name, cj_params *p)
{
    if (strcmp(name, "sgd") == 0) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.1 });
    if (strcmp(name, "momentum") == 0) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.05, .momentum = 0.9 });
    if (strcmp(name, "dampening") == 0)
        return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.05, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01 });
    if (strcmp(name, "nesterov") == 0) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.05, .momentum = 0.9, .nesterov = true });
    if (strcmp(name, "adam") == 0) return cj_adam(p, &(cj_adam_opts){ .lr = 0.05 });
    if (strcmp(name, "adam_decay") == 0)
        return cj_adam(p, &(cj_adam_opts){ .lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1 });
    if (strcmp(name, "adamw") == 0) return cj_adamw(p, &(cj_adam_opts){ .lr = 0.05, .weight_decay = 0.1 });
    if (strcmp(name, "clipped") == 0) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.1, .momentum = 0.9, .clip_norm = 0.2 });
    fail_msg("optimiser %s", name);
    return NULL;
}

static void one_step(cj_ctx *c, cj_optim *o, cj_module *m, const values *problem, cj_dtype t)
{
    (void)m;
    cj_params *p = cj_optim_params(o);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_cast(tensor_of(c, &problem[0]), t), *y = cj_cast(tensor_of(c, &problem[1]), t);
    cj_tensor *out = cj_linear_op(x, cj_params_at(p, 0), cj_params_at(p, 1));
    assert_true(cj_minimise(o, cj_mse_loss(out, y, NULL)));
    cj_scope_close(s);
}

static void test_optimisers(void **state)
{
    (void)state;
    FILE *f = fixture("ops.txt");
    static char line[MAX_LINE];
    static values problem[4], v;
    int given = 0, done = 0, number = 0, runs = 0;
    cj_ctx *c = NULL;
    cj_module *m = NULL;
    cj_optim *o = NULL;
    cj_dtype t = CJ_F64;
    char name[32] = "", dtype[8], what[64];
    wrong = 0;
    while (fgets(line, sizeof line, f)) {
        number++;
        int step, used = 0;
        if (strncmp(line, "problem ", 8) == 0) {
            read_values(line + 8, &problem[given++]);
        } else if (sscanf(line, "optimiser %31s %7s", name, dtype) == 2) {
            cj_ctx_free(c);
            c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
            t = dtype_by_name(dtype);
            m = cj_module_new(c, &plain_module, 1);
            cj_module_param(m, "weight", cj_cast(tensor_of(c, &problem[2]), t));
            cj_module_param(m, "bias", cj_cast(tensor_of(c, &problem[3]), t));
            o = optimiser(name, cj_module_params(m));
            assert_non_null(o);
            done = 0;
            runs++;
        } else if (sscanf(line, "step %d %n", &step, &used) == 1) {
            read_values(line + used, &v);
            for (; done < step; done++) one_step(c, o, m, problem, t);
            cj_scope s = cj_scope_open(c);
            bool was = cj_no_grad(c);
            cj_tensor *w = cj_params_at(cj_optim_params(o), 0), *b = cj_params_at(cj_optim_params(o), 1);
            cj_tensor *both[2] = { cj_reshape(w, CJ_SHAPE(6)), b };
            snprintf(what, sizeof what, "%s %s, step %d", name, dtype, step);
            expect(cj_cat(both, 2, 0), &v, t == CJ_F64 ? 1e-10 : 1e-6, number, what);
            cj_grad_mode(c, was);
            cj_scope_close(s);
        }
    }
    cj_ctx_free(c);
    fclose(f);
    assert_int_equal(runs, 16);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_operators), cmocka_unit_test(test_promotion),
                                        cmocka_unit_test(test_optimisers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
