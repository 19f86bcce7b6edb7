/* The samples of the operator harness: every row of the registry has some, they have the variety that the harness counts on, and their inputs are what they say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cajal/cajal.h>

#include "ops/samples.h"

static cj_sample sample[CJ_SAMPLES];

/* Internal rows are reached through the composite whose name they begin with. */
static const cj_op *owner(const cj_op *op)
{
    if (op->kind != CJ_INTERNAL) return op;
    char name[64];
    const char *end = strstr(op->name, "_backward");
    assert_non_null(end);
    snprintf(name, sizeof name, "%.*s", (int)(end - op->name), op->name);
    return cj__op_by_name(name);
}

static void test_every_row_has_samples(void **state)
{
    (void)state;
    int missing = 0;
    for (int i = 0; i < cj_op_count(); i++) {
        const cj_op *op = cj__op_at(i), *of = owner(op);
        int n = of ? cj__samples(of, sample) : 0;
        assert_true(n < CJ_SAMPLES);
        if (n > 0) continue;
        print_error("operator %s has no sample in src/ops/samples.c\n", op->name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

/* Elementwise rows: broadcast, 0-d, empty, odd and large; every row with values: one without elements or a reason in its shape. */
static void test_variety(void **state)
{
    (void)state;
    for (int i = 0; i < cj_op_count(); i++) {
        const cj_op *op = cj__op_at(i);
        if (!op->ew || op->kind == CJ_INTERNAL || strcmp(op->family, "loss") == 0) continue;
        int n = cj__samples(op, sample);
        bool zero_d = false, empty = false, odd = false, large = false, broadcast = op->nin < 2;
        for (int k = 0; k < n; k++) {
            large |= (sample[k].flags & CJ_SAMPLE_LARGE) != 0;
            for (int in = 0; in < sample[k].n; in++) {
                const cj_shape *s = &sample[k].in[in].shape;
                zero_d |= s->ndim == 0;
                for (int d = 0; d < s->ndim; d++) {
                    empty |= s->dim[d] == 0;
                    odd |= s->dim[d] == 129 || s->dim[d] == 13;
                }
                broadcast |= s->ndim != sample[k].in[0].shape.ndim;
            }
        }
        if (!(zero_d && empty && odd && large && broadcast)) fail_msg("operator %s: a kind of sample is missing", op->name);
    }
}

/* A layout changes the strides, never the values. */
static void test_layouts(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    for (int i = 0; i < cj_op_count(); i++) {
        int n = cj__samples(cj__op_at(i), sample);
        for (int k = 0; k < n; k++) {
            if (sample[k].flags & CJ_SAMPLE_LARGE) continue;
            for (int in = 0; in < sample[k].n; in++)
                for (int layout = 0; layout <= CJ_LAYOUT_EXPANDED; layout++) {
                    cj_scope s = cj_scope_open(c);
                    cj_layout plain = layout == CJ_LAYOUT_EXPANDED ? CJ_LAYOUT_REPEATED : CJ_LAYOUT_DENSE;
                    cj_tensor *a = cj__sample_input(c, &sample[k], in, CJ_F64, CJ_F64, (cj_layout)layout, 3);
                    cj_tensor *b = cj__sample_input(c, &sample[k], in, CJ_F64, CJ_F64, plain, 3);
                    double x[1024], y[1024];
                    assert_true(cj_numel(a) == cj_numel(b) && cj_numel(a) <= 1024);
                    assert_true(cj_to_f64(a, x, cj_numel(a)) && cj_to_f64(b, y, cj_numel(b)));
                    for (int64_t e = 0; e < cj_numel(a); e++) assert_true(x[e] == y[e] || (isnan(x[e]) && isnan(y[e])));
                    cj_scope_close(s);
                }
        }
    }
    assert_true(cj_ok(c));
    cj_ctx_free(c);
}

/* All float types see the same numbers. */
static void test_values_are_exact(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    static const cj_dtype types[] = { CJ_F32, CJ_BF16, CJ_F16 };
    for (int domain = 0; domain < CJ_DOMAIN_MASK; domain++) {
        cj_sample s = { .n = 1, .in = { { CJ_SHAPE(1024), (cj_domain)domain, 0 } } };
        cj_scope scope = cj_scope_open(c);
        double want[1024], got[1024];
        assert_true(cj_to_f64(cj__sample_input(c, &s, 0, CJ_F64, CJ_F64, CJ_LAYOUT_DENSE, 5), want, 1024));
        for (int t = 0; t < 3; t++) {
            assert_true(cj_to_f64(cj__sample_input(c, &s, 0, CJ_F64, types[t], CJ_LAYOUT_DENSE, 5), got, 1024));
            for (int i = 0; i < 1024; i++) assert_true(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])));
        }
        cj_scope_close(scope);
    }
    cj_ctx_free(c);
}

/* Forwards, backwards, and backwards through the backward pass: when the scope closes, every byte is free again. */
static void test_memory_is_given_back(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    for (int i = 0; i < cj_op_count(); i++) {
        int n = cj__samples(cj__op_at(i), sample);
        for (int k = 0; k < n; k++) {
            if (sample[k].flags & CJ_SAMPLE_LARGE) continue;
            sample[k].dtype = CJ_F32;
            cj_memory before = { 0 };
            for (int turn = 0; turn < 2; turn++) { /* the first turn may make scratch memory grow */
                before = cj_memory_stats(c);
                cj_scope s = cj_scope_open(c);
                cj_tensor *in[CJ_SAMPLE_INPUTS], *leaf[CJ_SAMPLE_INPUTS], *g[CJ_SAMPLE_INPUTS];
                int leaves = 0;
                for (int j = 0; j < sample[k].n; j++) {
                    in[j] = cj__sample_input(c, &sample[k], j, CJ_F32, CJ_F32, CJ_LAYOUT_DENSE, 3);
                    if (cj__sample_value(&sample[k], j)) leaf[leaves++] = in[j] = cj_require_grad(in[j]);
                }
                cj_tensor *y = sample[k].call(c, &sample[k], in);
                if (cj_ok(c) && leaves && cj_requires_grad(y)) { /* writes refuse targets with a history */
                    cj_tensor *sum = cj_sum(cj_mul(y, y));
                    if (!cj_grad(sum, leaf, leaves, g, .create_graph = true, .allow_unused = true))
                        fail_msg("%s %s: %s", sample[k].op->name, sample[k].label, cj_message(c));
                    cj_tensor *again = NULL;
                    for (int j = 0; j < leaves; j++)
                        if (cj_requires_grad(g[j])) again = again ? cj_add(again, cj_sum(g[j])) : cj_sum(g[j]);
                    const bool once = sample[k].flags & CJ_SAMPLE_RANDOM; /* draws have first derivatives only */
                    if (again && !once && !cj_grad(again, leaf, leaves, g, .allow_unused = true))
                        fail_msg("%s %s, twice: %s", sample[k].op->name, sample[k].label, cj_message(c));
                }
                cj_clear(c);
                cj_scope_close(s);
            }
            cj_memory after = cj_memory_stats(c);
            if (after.live != before.live || after.tensors != before.tensors || after.held != before.held)
                fail_msg("%s %s: %lld bytes and %lld headers too many", sample[k].op->name, sample[k].label,
                         (long long)(after.live - before.live), (long long)(after.tensors - before.tensors));
        }
    }
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_row_has_samples), cmocka_unit_test(test_variety),
                                        cmocka_unit_test(test_layouts), cmocka_unit_test(test_values_are_exact),
                                        cmocka_unit_test(test_memory_is_given_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
