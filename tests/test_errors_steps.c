/* A training step that fails changes nothing: cancelled at any operator, out of memory, with a constant that has changed; and the context goes on after cj_clear. */
#include <pthread.h>
#include <unistd.h>

#include "errors.h"

/* ---- a failed step changes nothing ------------------------------------------------------------------------------------------------------------------- */

/* Recorder in the profiler's place: calls cj_cancel when the k-th kernel is about to run. */
static long kernels_seen, cancel_at;
static bool cancelling_record(cj_ctx *c, cj_call *call)
{
    if (!call && ++kernels_seen == cancel_at) cj_cancel(c);
    return true;
}
static void watch(cj_ctx *c, long at)
{
    kernels_seen = 0;
    cancel_at = at;
    c->recorder[CJ_REC_PROFILE].record = cancelling_record;
    c->active |= 1u << CJ_REC_PROFILE;
}
static void unwatch(cj_ctx *c) { c->active &= (uint8_t) ~(1u << CJ_REC_PROFILE); }

static void cancelled_at_any_operator(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 }), *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig r, undisturbed;
    assert_true(rig_build(&r, c, 5) && rig_build(&undisturbed, d, 5));
    long cancelled = 0;
    for (long at = 1;; at++) {
        snapshot before = snapshot_of(&r);
        cj_memory memory = cj_memory_stats(c);
        watch(c, at);
        bool ok = rig_step(&r);
        long seen = kernels_seen;
        unwatch(c);
        assert_int_equal(cj_memory_stats(c).tensors, memory.tensors);
        if (ok) { /* the flag rose in the last kernel or never: the step is whole */
            assert_true(seen <= at);
            snapshot after = snapshot_of(&r);
            assert_false(snapshot_same(&before, &after));
            snapshot_free(&after);
            snapshot_free(&before);
            break;
        }
        assert_error(c, CJ_ECANCELLED, "cancelled");
        assert_unchanged(&r, &before, at);
        snapshot_free(&before);
        cj_clear(c);
        cj_rng_set(c, memory.live ? cj_rng_get(d) : cj_rng_get(d)); /* the draws of the step that was given up */
        cancelled++;
    }
    assert_true(cancelled > 15);
    cj_clear(c);
    assert_true(rig_step(&undisturbed));
    for (int i = 0; i < 3; i++) {
        cj_rng_set(c, cj_rng_get(d));
        assert_true(rig_step(&r) && rig_step(&undisturbed));
    }
    snapshot a = snapshot_of(&r), b = snapshot_of(&undisturbed);
    assert_true(snapshot_same(&a, &b));
    snapshot_free(&a);
    snapshot_free(&b);
    cj_ctx_free(c);
    cj_ctx_free(d);
}

/* The same for gradients that are accumulated and for a compiled plan. */
static bool accumulate_and_step(rig *r)
{
    cj_scope s = cj_scope_open(r->c);
    bool ok = true;
    for (int half = 0; half < 2 && ok; half++) ok = cj_accumulate(r->opt, cj_cross_entropy(cj_forward(r->net, r->x), r->y), 0.5);
    ok = ok && cj_step(r->opt);
    cj_scope_close(s);
    return ok;
}

static void cancelled_in_accumulate(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig r;
    assert_true(rig_build(&r, c, 5));
    for (long at = 1;; at++) {
        snapshot before = snapshot_of(&r);
        watch(c, at);
        bool ok = accumulate_and_step(&r);
        unwatch(c);
        snapshot after = snapshot_of(&r);
        bool same = snapshot_same(&before, &after);
        snapshot_free(&before);
        snapshot_free(&after);
        if (ok) {
            assert_false(same);
            break;
        }
        assert_error(c, CJ_ECANCELLED, "cancelled");
        assert_true(same);
        /* gradients are whole: of every parameter, or of none */
        cj_clear(c);
        int with = 0, n = cj_params_count(cj_module_params(r.net));
        for (int i = 0; i < n; i++) {
            cj_tensor *g = cj_leaf_grad(cj_params_at(cj_module_params(r.net), i));
            if (g) assert_true(isfinite(cj_item(cj_sum(g))));
            with += g && cj_item(cj_sum(cj_abs(g))) > 0;
        }
        if (with != 0 && with != n) fail_msg("cancelled at %ld: %d of %d gradients", at, with, n);
        cj_zero_grad(cj_module_params(r.net));
        assert_ok(c);
    }
    cj_ctx_free(c);
}

static void cancelled_in_replay(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig r;
    assert_true(rig_build(&r, c, 5));
    cj_tensor *in[2] = { r.x, r.y }, *out[1];
    cj_plan *p = cj_capture(c, rig_captured, &r, in, 2, NULL);
    assert_true(cj_replay(p, in, NULL) && cj_replay(p, in, NULL));
    assert_true(cj_plan_statistics(p).compiled);
    int refused = 0;
    for (long at = 1;; at++) {
        snapshot before = snapshot_of(&r);
        watch(c, at);
        bool ok = cj_replay(p, in, out);
        unwatch(c);
        snapshot after = snapshot_of(&r);
        bool same = snapshot_same(&before, &after) && memcmp(&before.rng, &after.rng, sizeof after.rng) == 0;
        snapshot_free(&before);
        snapshot_free(&after);
        if (ok) {
            assert_false(same);
            break;
        }
        assert_true(cj_is_poison(out[0]));
        assert_error(c, CJ_ECANCELLED, "cancelled");
        assert_true(same);
        cj_clear(c);
        refused++;
    }
    assert_true(refused > 5);
    cj_ctx_free(c);
}

static bool cancels(cj_ctx *c, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    cj_cancel(c);
    return run_zero(c, payload, in, shapes, out);
}

static void cancel_is_seen_and_cleared(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x = F(2);
    cj_cancel(c);
    assert_false(cj_ok(c));
    assert_int_equal(cj_error(c), CJ_ECANCELLED);
    assert_string_equal(cj_message(c), "cancelled");
    assert_true(cj_is_poison(cj_neg(x)));
    assert_error(c, CJ_ECANCELLED, "cancelled");
    cj_clear(c);
    assert_true(cj_ok(c));
    /* from inside an operator */
    cj_tensor *y = cj_custom(c, &(cj_custom_op){ .name = "stop", .nin = 1, .infer = infer_same, .run = cancels }, &x);
    assert_true(cj_is_poison(cj_add(y, y)));
    assert_int_equal(cj_error(c), CJ_ECANCELLED);
    cj_clear(c);
    assert_works(c);
    cj_ctx_free(c);
}

/* Whatever allocation fails in a call, whoever records it: the context has an error and the result is poison, or neither. */
static cj_tensor *honest(cj_tensor *y)
{
    assert_true(cj_is_poison(y) != cj_ok(y->ctx));
    return y;
}
static void many_calls(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_tensor *y = in[0], *kept = user;
    for (int i = 0; i < 100 && cj_ok(c); i++) {
        y = honest(cj_add(honest(cj_tanh(y)), honest(cj_t(honest(cj_t(in[0]))))));
        if (kept) honest(cj_assign_(kept, cj_detach(y)));
    }
    out[0] = y;
}
static cj_tensor *many_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    cj_tensor *y;
    many_calls(cj_module_ctx(m), NULL, &x, &y);
    return y;
}
static bool watched_by(cj_ctx *c, int recorder, cj_tensor *x, cj_tensor *kept, cj_module *m)
{
    cj_tensor *out = c->poison;
    switch (recorder) {
    case 0: many_calls(c, kept, &(cj_tensor *){ cj_require_grad(x) }, &out); break;
    case 1: cj_plan_free(cj_capture(c, many_calls, kept, &x, 1, &out)); break;
    default: {
        char path[64];
        snprintf(path, sizeof path, "/tmp/cajal-errors-%d.onnx", (int)getpid());
        cj_onnx_save(m, x, path, NULL);
        unlink(path);
    }
    }
    return cj_ok(c);
}
/* Once one allocation has failed all others do: one alone would be tried again. */
static void go_on_failing(counter *k)
{
    if (k->fail_at && k->allocs >= k->fail_at) k->fail_at = k->allocs + 1;
}
static void what_fails_is_poison(void **state)
{
    (void)state;
    static const cj_module_type type = { "Many", many_forward, NULL };
    for (int recorder = 0; recorder < 3; recorder++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            counter k = { .before = go_on_failing };
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
            cj_tensor *x = cj_keep(cj_ones(c, CJ_SHAPE(3, 3), CJ_F32)), *kept = cj_keep(cj_zeros(c, CJ_SHAPE(3, 3), CJ_F32));
            cj_module *m = cj_module_new(c, &type, 1);
            k.fail_at = k.allocs + n;
            if (!watched_by(c, recorder, x, kept, m)) assert_int_equal(cj_error(c), CJ_EMEMORY);
            done = k.allocs < k.fail_at;
            cj_ctx_free(c);
            assert_balanced(&k);
        }
    }
}

/* What is held may be the cap to the byte, and not a byte more. */
static bool fits(size_t cap, size_t *held)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .memory_cap = cap });
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(1000, 1000), CJ_F32);
    const bool ok = x && cj_ok(c);
    *held = cj_memory_stats(c).held;
    cj_ctx_free(c);
    return ok;
}
static void memory_cap_to_the_byte(void **state)
{
    (void)state;
    size_t held, again;
    assert_true(fits(0, &held));
    assert_true(fits(held, &again) && again == held);
    assert_false(fits(held - 1, &again));
}

/* The cap is reached at every place of a step in turn: while building, in the forward pass, in the middle of the backward pass. */
static void memory_cap(void **state)
{
    (void)state;
    int built = 0, forward = 0, backward = 0, done = 0;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig undisturbed;
    assert_true(rig_build(&undisturbed, d, 400) && rig_step(&undisturbed));
    snapshot expected = snapshot_of(&undisturbed);
    for (size_t cap = 16 << 10; done < 2; cap += 4 << 10) {
        counter k = { 0 };
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5, .memory_cap = cap, .alloc = counting_alloc, .alloc_user = &k });
        if (!c) continue;
        rig r;
        if (!rig_build(&r, c, 400)) {
            assert_error(c, CJ_EMEMORY, "memory cap reached");
            built++;
            cj_ctx_free(c);
            assert_balanced(&k);
            continue;
        }
        assert_true(cj_memory_stats(c).held <= cap);
        snapshot before = snapshot_of(&r);
        uint64_t tensors = cj_memory_stats(c).tensors;
        cj_scope s = cj_scope_open(c);
        cj_tensor *loss = cj_cross_entropy(cj_forward(r.net, r.x), r.y);
        bool whole = cj_ok(c);
        bool ok = cj_minimise(r.opt, loss);
        if (!ok) {
            assert_error(c, CJ_EMEMORY, "memory cap reached");
            assert_says(c, "(test_errors_steps.c:");
            assert_true(isnan(cj_item(cj_neg(loss))) || whole);
        }
        cj_scope_close(s);
        assert_int_equal(cj_memory_stats(c).tensors, tensors);
        assert_true(cj_memory_stats(c).held <= cap && (size_t)k.bytes <= cap);
        if (ok) {
            snapshot after = snapshot_of(&r);
            assert_true(snapshot_same(&expected, &after));
            snapshot_free(&after);
            done++;
        } else {
            assert_unchanged(&r, &before, (long)cap);
            cj_clear(c);
            cj_memory_trim(c);
            if (cap - cj_memory_stats(c).held > 40 << 10) assert_works(c);
            *(whole ? &backward : &forward) += 1;
        }
        snapshot_free(&before);
        cj_ctx_free(c);
        assert_balanced(&k);
    }
    assert_true(built > 2 && forward > 2);
    assert_true(backward > 2);
    snapshot_free(&expected);
    cj_ctx_free(d);
}

/* A changed constant under replay; the rest of the capture contract is in test_capture.c. */
static double factor;
static void scaled(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_mul_scalar(in[0], factor);
}
static void changed_constant(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x = cj_ones(c, CJ_SHAPE(2), CJ_F32);
    factor = 2;
    cj_plan *p = cj_capture(c, scaled, NULL, &x, 1, NULL);
    factor = 2.5;
    assert_false(cj_replay(p, &x, NULL));
    assert_error(c, CJ_ECAPTURE, "mul_scalar (test_errors_steps.c:");
    assert_says(c, "had the number 2 in the first run and 2.5 in the second; pass it as a 0-d tensor");
    cj_clear(c);
    assert_works(c);
    factor = 2;
    assert_true(cj_replay(p, &x, NULL) && cj_replay(p, &x, NULL));
    cj_ctx_free(c);
}

/* What a user gets wrong around a step: each is one sentence that says where, and parameters, states and random numbers are as they were. */
static void bad_input_changes_nothing(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig r;
    assert_true(rig_build(&r, c, 5) && rig_step(&r));
    snapshot before = snapshot_of(&r);
    const double rate = cj_optim_lr(r.opt);
    cj_module *inner = cj_sequential(c, cj_linear(c, 3, 4), cj_linear(c, 5, 2)), *outer = cj_sequential(c, cj_linear(c, 3, 3), inner);
    int members = cj_module_children(inner), named = cj_params_count(cj_module_params(inner));
    assert_ok(c);
#define STAYS(code, text, ...)                                                                                                             \
    do {                                                                                                                                   \
        cj_scope scope = cj_scope_open(c);                                                                                                 \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_error(c, code, text);                                                                                                       \
        assert_sentence(c, text);                                                                                                          \
        cj_scope_close(scope);                                                                                                             \
        cj_clear(c);                                                                                                                       \
        assert_unchanged(&r, &before, __LINE__);                                                                                           \
    } while (0)
    /* a layer fed the wrong shape is named by its path */
    STAYS(CJ_ESHAPE, ", in 1.1", cj_minimise(r.opt, cj_sum(cj_forward(outer, F(2, 3)))));
    /* targets out of range */
    cj_tensor *wrong = cj_keep(cj_full(c, 99, cj_shape_of(r.y), CJ_I64)), *below = cj_keep(cj_full(c, -1, cj_shape_of(r.y), CJ_I64));
    STAYS(CJ_EINDEX, "cross_entropy: target 99 at position 0 is outside",
          cj_minimise(r.opt, cj_cross_entropy(cj_forward(r.net, r.x), wrong)));
    STAYS(CJ_EINDEX, "cross_entropy: target -1 at position 0 is outside",
          cj_minimise(r.opt, cj_cross_entropy(cj_forward(r.net, r.x), below)));
    /* learning rates that are not finite */
    STAYS(CJ_EVALUE, "learning rate nan", (cj_optim_set_lr(r.opt, NAN), 0));
    STAYS(CJ_EVALUE, "learning rate inf", (cj_optim_set_lr(r.opt, INFINITY), 0));
    STAYS(CJ_EVALUE, "learning rate inf", cj_radam(cj_module_params(inner), .lr = INFINITY));
    assert_true(cj_optim_lr(r.opt) == rate);
    /* names used twice */
    STAYS(CJ_EVALUE, "module Sequential: '1' is there already", cj_module_add(inner, "1", cj_relu_layer(c)));
    STAYS(CJ_EVALUE, "module Linear: 'weight' is there already", cj_module_param(cj_module_child(inner, 0), "weight", F(2)));
    STAYS(CJ_EVALUE, "module Linear: 'bias' is there already", cj_module_buffer(cj_module_child(inner, 0), "bias", F(2)));
    assert_int_equal(cj_module_children(inner), members);
    assert_int_equal(cj_params_count(cj_module_params(inner)), named);
#undef STAYS
    assert_true(rig_step(&r));
    snapshot_free(&before);
    cj_ctx_free(c);
}

/* cj_watch_nonfinite looks at every element, of results of any layout and of inputs. */
static void one_value_that_is_not_finite(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    assert_false(cj_watch_nonfinite(c, true));
    for (int t = 0; t < 4; t++)
        for (int bad = 0; bad < 24; bad++) {
            float v[24];
            for (int i = 0; i < 24; i++) v[i] = i == bad ? 0 : (float)(i + 1);
            cj_tensor *x = cj_cast(cj_from_f32(c, v, CJ_SHAPE(2, 3, 4)), types[t]), *view = cj_transpose(cj_slice(x, 2, 0, 4, 1), 0, 2);
            assert_ok(c);
            cj_log(view);
            assert_error(c, CJ_EVALUE, "log: the result [4, 3, 2] has an infinity, though all its inputs are finite");
            cj_clear(c);
            cj_tensor *there = (cj_watch_nonfinite(c, false), cj_log(view));
            assert_true(isinf(cj_item(cj_min(there))));
            assert_false(cj_watch_nonfinite(c, true));
            cj_sub(there, there);                             /* NaN from an infinity that was there */
            cj_masked_fill(x, cj_eq_scalar(x, 0), -INFINITY); /* these only move what is given to them */
            cj_cast(cj_full(c, 1e30, CJ_SCALAR, CJ_F32), CJ_F16);
            assert_ok(c);
        }
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_at_any_operator),
        cmocka_unit_test(cancelled_in_accumulate),
        cmocka_unit_test(cancelled_in_replay),
        cmocka_unit_test(cancel_is_seen_and_cleared),
        cmocka_unit_test(what_fails_is_poison),
        cmocka_unit_test(memory_cap_to_the_byte),
        cmocka_unit_test(memory_cap),
        cmocka_unit_test(bad_input_changes_nothing),
        cmocka_unit_test(changed_constant),
        cmocka_unit_test(one_value_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
