/* The capture contract (DESIGN 5.4): what a step may read, what is noticed when it changes, the cache of plans, faults, memory. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 4);

#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)

/* ---- inputs --------------------------------------------------------------------------------------------------------------------------------------- */

static void two_inputs(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *w = user;
    out[0] = cj_matmul(cj_add(in[0], in[1]), w);
    out[1] = cj_sum(cj_exp(cj_mul_scalar(in[0], 0.5)), .axes = CJ_AXIS(1));
}

static void listed_inputs_change(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(3, 2))), *in[2] = { cj_randn(c, CJ_SHAPE(4, 3)), cj_randn(c, CJ_SHAPE(4, 3)) }, *out[2],
              *eager[2];
    cj_plan *p = compiled(c, two_inputs, w, in, 2, out);
    for (int i = 0; i < 5; i++) {
        in[i % 2] = cj_randn(c, CJ_SHAPE(4, 3));
        assert_true(cj_replay(p, in, out));
        two_inputs(c, w, in, eager);
        assert_true(same_bits(out[0], eager[0]) && same_bits(out[1], eager[1]));
    }
    /* the persistent tensor may change too */
    cj_assign_(w, cj_randn(c, CJ_SHAPE(3, 2)));
    assert_true(cj_replay(p, in, out));
    two_inputs(c, w, in, eager);
    assert_true(same_bits(out[0], eager[0]));
    assert_int_equal(cj_plan_statistics(p).plans, 1);
}

/* Slices of one persistent data tensor, another one every time: also when the step reads the whole tensor beside it. */
static void slice_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    out[0] = cj_sub(cj_mul_scalar(in[0], 2), cj_mean((cj_tensor *)user, .axes = CJ_AXIS(0)));
}
static void slices_of_persistent_data(void **state)
{
    (void)state;
    cj_tensor *data = cj_keep(cj_randn(c, CJ_SHAPE(40, 3))), *out[1], *eager[1];
    cj_plan *p = NULL;
    for (int i = 0; i < 10; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in = cj_slice(data, 0, 4 * i, 4 * i + 4, 1);
        if (!p) p = cj_capture(c, slice_step, data, &in, 1, out);
        else assert_true(cj_replay(p, &in, out));
        slice_step(c, data, &in, eager);
        assert_true(same_bits(out[0], eager[0]));
        cj_scope_close(s);
    }
    assert_int_equal(cj_plan_statistics(p).plans, 1);
}

/* A replay bumps the version of what it writes, and of nothing else: a tape that saved what it only reads stays valid. */
static void writes_one_reads_the_other(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)in;
    cj_tensor **two = user;
    cj_add_(two[0], two[1], 2);
    out[0] = cj_sum(two[0]);
}
static void what_is_read_keeps_its_version(void **state)
{
    (void)state;
    cj_tensor *two[2] = { cj_keep(F(4)), cj_param(F(4)) }, *out[1], *g;
    cj_plan *p = compiled(c, writes_one_reads_the_other, two, NULL, 0, out);
    cj_tensor *read = cj_sum(cj_square(two[1])), *written = cj_sum(cj_mul(two[1], two[0]));
    assert_true(cj_replay(p, NULL, out));
    assert_true(cj_grad(read, &two[1], 1, &g));
    assert_false(cj_grad(written, &two[1], 1, &g));
    assert_says(c, "its input 2 was changed by add_ after it had been used");
    cj_clear(c);
}

/* Strided inputs have a plan of their own. */
static void strided_inputs(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(3, 2))), *out[2], *eager[2];
    cj_plan *p = NULL;
    for (int i = 0; i < 8; i++) {
        cj_tensor *a = cj_randn(c, CJ_SHAPE(4, 3)), *b = cj_t(cj_randn(c, CJ_SHAPE(3, 4))), *in[2] = { i % 2 ? a : b, i % 2 ? b : a };
        if (!p) p = cj_capture(c, two_inputs, w, in, 2, out);
        else assert_true(cj_replay(p, in, out));
        two_inputs(c, w, in, eager);
        assert_true(same_bits(out[0], eager[0]) && same_bits(out[1], eager[1]));
    }
    assert_int_equal(cj_plan_statistics(p).plans, 2);
}

/* ---- what a step must not do ------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *unlisted;
static void reads_unlisted(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, out[0] = cj_add(in[0], unlisted);
}
static void reads_item(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    out[0] = cj_mul_scalar(in[0], cj_item(cj_sum(in[0])));
}
static void reads_at(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, cj_at(in[0], (int64_t[]){ 0 }), out[0] = in[0];
}
static void reads_values(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    float v[2];
    cj_to_f32(in[0], v, 2);
    out[0] = in[0];
}
static void keeps(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out) { (void)q, (void)user, out[0] = cj_keep(cj_neg(in[0])); }
static void makes_param(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, out[0] = cj_param(cj_neg(in[0]));
}
static void reads_memory(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    out[0] = cj_add(in[0], cj_from_f32(q, (float[]){ 1, 2 }, CJ_SHAPE(2)));
}
static void counts_nonzero(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, out[0] = cj_nonzero(in[0]);
}
static void captures_again(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_capture(q, reads_unlisted, NULL, in, 1, NULL);
    out[0] = in[0];
}
static void replays_again(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_replay(user, in, NULL);
    out[0] = in[0];
}
static void hands_out_foreign(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, (void)in, out[0] = unlisted;
}
static void hands_out_many(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    for (int i = 0; i <= CJ_MAX_PLAN_OUTPUTS; i++) out[i] = cj_neg(in[0]);
}
static bool host_infer(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)q, (void)payload;
    *shape = cj_shape_of(in[0]);
    *dtype = CJ_F32;
    return true;
}
static bool host_run(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)q, (void)payload;
    memcpy(out, in[0], (size_t)cj_numel(shapes[0]) * 4);
    return true;
}
static void host_effect(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    out[0] = cj_custom(q, &(cj_custom_op){ .name = "beep", .nin = 1, .infer = host_infer, .run = host_run, .effect = CJ_HOST }, in);
}

static void forbidden_steps(void **state)
{
    (void)state;
    unlisted = F(2);
    cj_tensor *x = F(2);
    cj_plan *other = compiled(c, slice_step, cj_keep(F(3, 2)), &x, 1, (cj_tensor *[2]){ 0 });
    static const struct {
        cj_step_fn fn;
        const char *says;
    } bad[] = {
        { reads_unlisted,
          "capture: add reads argument 2, which is neither an input of the step nor persistent; list it or cj_keep it (test_capture.c:" },
        { reads_item, "cj_item: reads a value inside a captured step; return it as an output instead" },
        { reads_at, "cj_at: reads a value inside a captured step" },
        { reads_values, "cj_to_f32: reads a value inside a captured step" },
        { keeps, "cj_keep: a captured step hands values out through its outputs" },
        { makes_param, "cj_param: a parameter is made inside a captured step" },
        { reads_memory, "cj_from_data: the caller's memory is read inside a captured step" },
        { counts_nonzero, "capture: the shape of nonzero depends on values" },
        { captures_again, "a step is being captured already" },
        { replays_again, "replay: called inside a captured step" },
        { hands_out_foreign, "capture: output 1 is not a result of the step" },
        { hands_out_many, "capture: the step has more than 16 results" },
        { host_effect, "has effects on the host" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cj_memory before = cj_memory_stats(c);
        assert_null(cj_capture(c, bad[i].fn, other, &x, 1, NULL));
        assert_error(c, CJ_ECAPTURE, bad[i].says);
        assert_says(c, "(test_capture.c:");
        cj_clear(c);
        assert_null(c->trace);
        assert_int_equal(c->active, 0);
        assert_int_equal(c->depth, 1);
        assert_int_equal(cj_memory_stats(c).tensors, before.tensors);
    }
    cj_tensor *many[CJ_MAX_PLAN_INPUTS + 1];
    for (int i = 0; i <= CJ_MAX_PLAN_INPUTS; i++) many[i] = x;
    assert_null(cj_capture(c, two_inputs, NULL, many, CJ_MAX_PLAN_INPUTS + 1, NULL));
    assert_error(c, CJ_EVALUE, "capture: 65 inputs, at most 64 are possible");
    cj_clear(c);
}

/* The result of one plan lies in the plan's own memory: another plan may read it unlisted, and sees what the last replay left there. */
static void results_of_a_plan_in_another(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2)), *sum;
    cj_plan *first = compiled(c, slice_step, cj_keep(F(3, 2)), &x, 1, &unlisted), *second = compiled(c, reads_unlisted, NULL, &x, 1, &sum);
    assert_true(same_bits(sum, cj_add(x, unlisted)));
    cj_tensor *other = cj_randn(c, CJ_SHAPE(2));
    assert_true(cj_replay(first, &other, &unlisted) && cj_replay(second, &x, &sum));
    assert_true(same_bits(sum, cj_add(x, cj_add_scalar(cj_mul_scalar(other, 2), -1))));
}

/* ---- what is noticed in the second run ------------------------------------------------------------------------------------------------------------------ */

static struct {
    double number, value;
    int op, calls, axis, results;
    cj_tensor *read;
} vary;
static void varying(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *x = cj_mul_scalar(in[0], vary.number);
    x = cj_add(x, cj_full(q, vary.value, CJ_SHAPE(2, 2), CJ_F32));
    x = vary.op ? cj_exp(x) : cj_tanh(x);
    for (int i = 0; i < vary.calls; i++) x = cj_neg(x);
    out[0] = cj_sum(x, .axes = CJ_AXIS(vary.axis));
    out[1] = cj_add(in[0], vary.read);
    for (int i = 0; i < vary.results; i++) out[2 + i] = x;
}

static void changes_are_noticed(void **state)
{
    (void)state;
    cj_tensor *x = F(2, 2), *a = cj_keep(F(2)), *b = cj_keep(F(2)), *wide = cj_keep(F(2, 2));
    for (int k = 0; k < 9; k++) {
        vary.number = 1.5, vary.value = 3, vary.op = vary.calls = vary.axis = vary.results = 0, vary.read = a;
        cj_plan *p = cj_capture(c, varying, NULL, &x, 1, NULL);
        assert_non_null(p);
        const char *says = NULL;
        switch (k) {
        case 0: vary.number = 1.75, says = "call 1, mul_scalar (test_capture.c:"; break;
        case 1: vary.number = 1.75, says = "had the number 1.5 in the first run and 1.75 in the second; pass it as a 0-d tensor"; break;
        case 2: vary.value = 4, says = "full (test_capture.c:"; break;
        case 3: vary.value = 4, says = "had the number 3 in the first run and 4 in the second; pass it as a 0-d tensor"; break;
        case 4: vary.op = 1, says = "call 4 was tanh (test_capture.c:"; break;
        case 5: vary.calls = 2, says = "call 5 was sum"; break;
        case 6: vary.axis = 1, says = "sum (test_capture.c:"; break;
        case 7: vary.read = b, says = "saw another argument 2 in the second run"; break;
        default: vary.results = 1, says = "gave 2 results in the first run and 3 in the second"; break;
        }
        assert_false(cj_replay(p, &x, NULL));
        assert_error(c, CJ_ECAPTURE, says);
        cj_clear(c);
        vary.number = 1.5, vary.value = 3, vary.op = vary.calls = vary.axis = vary.results = 0, vary.read = a;
        assert_true(cj_replay(p, &x, NULL) && cj_replay(p, &x, NULL)); /* as at first: fine again */
        cj_plan_free(p);
    }
    vary.read = a;
    cj_plan *p = cj_capture(c, varying, NULL, &x, 1, NULL);
    vary.read = wide;
    assert_false(cj_replay(p, &x, NULL));
    assert_error(c, CJ_ECAPTURE, "[2] and [2, 2]");
    cj_clear(c);
}

/* ---- the cache ---------------------------------------------------------------------------------------------------------------------------------------- */

static int traced;
static void traced_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    traced++;
    out[0] = cj_sum(cj_square(in[0]));
}
static void cache_of_shapes(void **state)
{
    (void)state;
    cj_tensor *x = F(1), *out[1];
    cj_plan *p = cj_capture(c, traced_step, NULL, &x, 1, out);
    for (int turn = 0; turn < 3; turn++)
        for (int64_t n = 1; n <= 20; n++)
            for (int again = 0; again < 3; again++) {
                cj_scope s = cj_scope_open(c);
                x = cj_full(c, 2, CJ_SHAPE(n), CJ_F32);
                assert_true(cj_replay(p, &x, out));
                assert_near(cj_item(out[0]), 4.0 * (double)n, 0);
                cj_scope_close(s);
                assert_true(cj_plan_statistics(p).plans <= CJ_MAX_PLANS);
            }
    assert_int_equal(cj_plan_statistics(p).plans, CJ_MAX_PLANS);
    /* 20 shapes in turn: each has been driven out when it comes again, and is traced twice anew */
    assert_int_equal(traced, 2 * 20 * 3);
    /* the last 16 are there, and are not traced again */
    for (int64_t n = 5; n <= 20; n++) {
        x = cj_full(c, 2, CJ_SHAPE(n), CJ_F32);
        assert_true(cj_replay(p, &x, out));
    }
    assert_int_equal(traced, 2 * 20 * 3);
    x = cj_full(c, 2, CJ_SHAPE(20), CJ_F64); /* another dtype, another plan */
    assert_true(cj_replay(p, &x, out));
    assert_int_equal(traced, 2 * 20 * 3 + 1);
    cj_plan_free(p);
}

/* Mode is part of the key: dropout in training, none in evaluation. */
typedef struct drop {
    cj_module *net;
} drop;
static void drop_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, out[0] = cj_forward(((drop *)user)->net, in[0]);
}
static void mode_is_part_of_the_key(void **state)
{
    (void)state;
    drop d = { cj_sequential(c, cj_dropout_layer(c, 0.5)) };
    cj_tensor *x = F(1000), *out[1];
    cj_plan *p = compiled(c, drop_step, &d, &x, 1, out);
    assert_true(cj_item(cj_min(out[0])) == 0);
    cj_module_train(d.net, false);
    for (int i = 0; i < 3; i++) {
        assert_true(cj_replay(p, &x, out));
        assert_near(cj_item(cj_min(out[0])), 1, 0);
    }
    cj_module_train(d.net, true);
    assert_true(cj_replay(p, &x, out));
    assert_true(cj_item(cj_min(out[0])) == 0);
    assert_int_equal(cj_plan_statistics(p).plans, 2);
}

/* Division by zero inside a fused program is still an error. */
static void divides(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user, out[0] = cj_add_scalar(cj_remainder(in[0], in[1]), 1);
}
static void faults_in_a_plan(void **state)
{
    (void)state;
    cj_tensor *in[2] = { cj_full(c, 7, CJ_SHAPE(4), CJ_I64), cj_full(c, 4, CJ_SHAPE(4), CJ_I64) }, *out[1];
    cj_plan *p = compiled(c, divides, NULL, in, 2, out);
    assert_near(cj_item(cj_sum(out[0])), 16, 0);
    in[1] = cj_zeros(c, CJ_SHAPE(4), CJ_I64);
    assert_false(cj_replay(p, in, out));
    assert_error(c, CJ_EVALUE, "integer division by zero");
    cj_clear(c);
    cj_tensor *good = cj_full(c, 5, CJ_SHAPE(4), CJ_I64);
    cj_profile_row rows[4];
    assert_true(cj_profile_start(c)); /* what fails is not on the list */
    assert_false(cj_replay(p, in, out));
    assert_error(c, CJ_EVALUE, "integer division by zero");
    cj_clear(c);
    assert_int_equal(cj_profile_stop(c, rows, 4), 0);
    in[1] = good;
    assert_true(cj_replay(p, in, out));
    assert_near(cj_item(cj_sum(out[0])), 12, 0);
}

static void profiler_sees_replays(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(30, 20))), *in[2] = { cj_randn(c, CJ_SHAPE(40, 30)), cj_randn(c, CJ_SHAPE(40, 30)) },
              *out[2];
    cj_plan *p = compiled(c, two_inputs, w, in, 2, out);
    cj_profile_row rows[16];
    assert_true(cj_profile_start(c));
    for (int i = 0; i < 4; i++) assert_true(cj_replay(p, in, out));
    int n = cj_profile_stop(c, rows, 16), seen = 0;
    double flops = 0, bytes = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(rows[i].calls % 4, 0);
        seen += (int)rows[i].calls;
        if (strcmp(rows[i].op, "fused") == 0) bytes = rows[i].bytes;
        if (strcmp(rows[i].op, "matmul") == 0) flops = rows[i].flops;
    }
    assert_int_equal(seen, 4 * cj_plan_statistics(p).kernels);
    assert_near(flops, 4 * 2.0 * 40 * 20 * 30, 0);
    assert_near(bytes, 4 * 4.0 * 40 * 30 * (3 + 2), 0); /* a sum of two, and an exponential */
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* Sixteen values of 1 MB, all of which the step could still look at when it ends; two of them have to exist at once. */
static void long_chain(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *x = in[0];
    for (int i = 0; i < 16; i++) x = cj_softmax(cj_cumsum(x, 1), -1);
    if (user) *(const void **)user = cj_data(x);
    out[0] = cj_sum(cj_mul(x, in[0]), .axes = CJ_AXIS(1));
}
static void a_trace_holds_no_values(void **state)
{
    (void)state;
    const size_t value = 512 * 512 * 4;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(512, 512)), *first[1], *out[1], *eager[1];
    const void *seen = x;
    long_chain(c, NULL, &x, eager);
    cj_memory_trim(c);
    cj_memory_reset_peak(c);
    const size_t before = cj_memory_stats(c).live;
    cj_plan *p = cj_capture(c, long_chain, &seen, &x, 1, first);
    assert_non_null(p);
    assert_null(seen);
    assert_true(cj_replay(p, &x, out));
    assert_true(cj_memory_stats(c).peak - before < 5 * value); /* the arena, what rounding adds to it, and scratch */
    assert_true(same_bits(first[0], eager[0]) && same_bits(out[0], eager[0]));
    cj_tensor *other = cj_randn(c, CJ_SHAPE(512, 512));
    for (int i = 0; i < 2; i++) assert_true(cj_replay(p, &other, out));
    assert_true(same_bits(first[0], eager[0])); /* what the capture handed out is not the plan's */
    assert_false(same_bits(out[0], eager[0]));
}

/* The gradient of w needs 1 MB and is ready first; it waits until the activations, 1 MB each, are gone. */
static void wide_head(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor **w = user, *h = cj_tanh(cj_matmul(cj_tanh(cj_matmul(in[0], w[0])), w[1]));
    h = cj_mean(cj_reshape(h, CJ_SHAPE(16, 256, 64)), .axes = CJ_AXIS(1));
    out[0] = cj_mean(cj_square(cj_matmul(h, w[2])));
    cj_grad(out[0], w, 3, out + 1);
}
static void large_gradients_come_late(void **state)
{
    (void)state;
    cj_tensor *w[3] = { cj_param(cj_mul_scalar(cj_randn(c, CJ_SHAPE(64, 64)), 0.1)),
                        cj_param(cj_mul_scalar(cj_randn(c, CJ_SHAPE(64, 64)), 0.1)), cj_param(cj_randn(c, CJ_SHAPE(64, 4096))) };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(4096, 64)), *out[4], *eager[4];
    cj_plan *p = compiled(c, wide_head, w, &x, 1, out);
    wide_head(c, w, &x, eager);
    for (int i = 0; i < 4; i++) assert_true(same_bits(out[i], eager[i]));
    cj_plan_stats st = cj_plan_statistics(p);
    assert_true(st.bound < (size_t)7 << 19); /* three activations and an operand of 256 KB; almost 1 MB more if it did not wait */
    assert_true(st.bytes >= st.bound && (double)st.bytes <= 1.15 * (double)st.bound);
}

/* A fault of a value is found when the plan runs; the message still says where the operator was called. */
static void picks(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_enter(q, "encoder");
    cj_enter(q, "words");
    out[0] = cj_index_select(in[0], 0, in[1]);
    cj_leave(q);
    cj_leave(q);
}
static void faults_name_the_call(void **state)
{
    (void)state;
    cj_tensor *in[2] = { F(3, 2), cj_full(c, 7, CJ_SHAPE(2), CJ_I64) }, *out[1];
    assert_null(cj_capture(c, picks, NULL, in, 2, out));
    assert_non_null(strstr(cj_message(c), "in encoder.words (test_capture.c:"));
    cj_clear(c);
    in[1] = cj_zeros(c, CJ_SHAPE(2), CJ_I64);
    cj_plan *p = compiled(c, picks, NULL, in, 2, out);
    in[1] = cj_full(c, 7, CJ_SHAPE(2), CJ_I64);
    assert_false(cj_replay(p, in, out));
    assert_non_null(strstr(cj_message(c), "in encoder.words (test_capture.c:"));
    cj_clear(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(listed_inputs_change),
        T(slices_of_persistent_data),
        T(strided_inputs),
        T(what_is_read_keeps_its_version),
        T(forbidden_steps),
        T(results_of_a_plan_in_another),
        T(changes_are_noticed),
        T(cache_of_shapes),
        T(mode_is_part_of_the_key),
        T(faults_in_a_plan),
        T(profiler_sees_replays),
        T(a_trace_holds_no_values),
        T(large_gradients_come_late),
        T(faults_name_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
