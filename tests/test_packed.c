/* Packed weights of convolutions are kept beside the parameter while nobody writes to it: counted, to the bit, given back. */
#include "support.h"

TEST_CONTEXT(.threads = 2, .seed = 31);

static uint64_t packs(void) { return cj_memory_stats(c).packs; }
static size_t packed(void) { return cj_memory_stats(c).packed; }

/* The value and the gradient of x, by weights that nobody keeps anything of. */
static void afresh(cj_tensor *x, cj_tensor *w, int64_t stride, cj_tensor *y[2])
{
    x = cj_require_grad(x);
    y[0] = cj_conv(x, cj_add_scalar(w, 0), NULL, .padding = 1, .stride = stride);
    assert_true(cj_grad(cj_sum(cj_square(y[0])), &x, 1, y + 1));
}
static void by_parameter(cj_tensor *x, cj_tensor *w, int64_t stride, cj_tensor *y[2])
{
    x = cj_require_grad(x);
    y[0] = cj_conv(x, w, NULL, .padding = 1, .stride = stride);
    assert_true(cj_grad(cj_sum(cj_square(y[0])), &x, 1, y + 1));
}

static void write(cj_tensor *w, cj_tensor *value)
{
    const bool was = cj_no_grad(c);
    assert_false(cj_is_poison(cj_assign_(w, value)));
    cj_grad_mode(c, was);
}

/* Weights of all ways of packing: wide and narrow, few results (dot products, spread), joined points, strides, groups of one. */
static void many_calls_few_packs(void **unused)
{
    (void)unused;
    const struct {
        int64_t in, out, side, kernel, stride;
        cj_dtype t;
    } cases[] = { { 64, 70, 16, 3, 1, CJ_F32 },  { 6, 16, 28, 5, 1, CJ_F32 }, { 16, 6, 20, 5, 1, CJ_F32 },  { 64, 3, 12, 3, 1, CJ_F32 },
                  { 3, 5, 12, 3, 1, CJ_F32 },    { 40, 33, 9, 3, 2, CJ_F32 }, { 20, 24, 11, 1, 1, CJ_F32 }, { 32, 32, 5, 3, 1, CJ_F32 },
                  { 33, 40, 14, 3, 1, CJ_BF16 }, { 8, 8, 10, 3, 2, CJ_F16 },  { 48, 80, 13, 3, 1, CJ_F32 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int last = 0; last < 2; last++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *x = cj_cast(cj_randn(c, CJ_SHAPE(2, cases[i].in, cases[i].side, cases[i].side)), cases[i].t), *y[2], *z[2];
            cj_tensor *first = cj_cast(cj_randn(c, CJ_SHAPE(cases[i].out, cases[i].in, cases[i].kernel, cases[i].kernel)), cases[i].t);
            cj_tensor *w = cj_param(first);
            if (last) x = cj_channels_last(x);
            assert_int_equal(packed(), 0);
            afresh(x, w, cases[i].stride, y);
            const uint64_t before = packs();
            for (int k = 0; k < 6; k++) {
                by_parameter(x, w, cases[i].stride, z);
                assert_true(same_bits(y[0], z[0]) && same_bits(y[1], z[1]));
                /* both passes: once for a single use, once more to be kept */
                assert_int_equal(packs() - before, k == 0 ? 2 : 4);
                assert_true(k == 0 ? packed() == 0 : packed() > 0);
            }
            const size_t kept = packed();
            write(w, cj_cast(cj_randn(c, cj_shape_of(w)), cases[i].t));
            afresh(x, w, cases[i].stride, z);
            assert_false(same_bits(y[0], z[0]));
            for (int k = 0; k < 3; k++) {
                by_parameter(x, w, cases[i].stride, y);
                assert_true(same_bits(y[0], z[0]) && same_bits(y[1], z[1]));
                assert_true(k == 0 ? packed() == 0 : packed() == kept);
            }
            cj_release(w);
            assert_int_equal(packed(), 0); /* the tape of this scope is consumed, nothing else holds the storage */
            cj_scope_close(s);
        }
}

/* Images of several sizes share the packed weights where these are the same: as they are for small ones, and transformed for large ones. */
static void several_sizes(void **unused)
{
    (void)unused;
    size_t kept[2] = { 0 };
    for (int large = 0; large < 2; large++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *w = cj_param(cj_randn(c, CJ_SHAPE(64, 32, 3, 3)));
        for (int64_t side = 0; side < 4; side++)
            for (int k = 0; k < 2; k++) {
                cj_tensor *x = cj_channels_last(cj_randn(c, CJ_SHAPE(1, 32, side + (large ? 16 : 11), side + (large ? 16 : 11))));
                assert_true(same_bits(cj_conv(x, w, NULL, .padding = 1), cj_conv(x, cj_add_scalar(w, 0), NULL, .padding = 1)));
                if (side == 0) kept[large] = packed();
            }
        assert_true(kept[large] > 0 && packed() == kept[large]);
        cj_release(w);
        cj_scope_close(s);
    }
    assert_true(kept[1] > kept[0]); /* 16 numbers for 9 */
}

typedef struct net {
    cj_tensor *w[2];
    cj_tensor *fresh; /* what the step writes to w[0], in the middle, where it is not NULL */
} net;

static void step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    const net *n = user;
    (void)ctx;
    out[0] = cj_conv(cj_relu(cj_conv(in[0], n->w[0], NULL, .padding = 1)), n->w[1], NULL);
    if (n->fresh) cj_assign_(n->w[0], cj_add(cj_detach(n->w[0]), n->fresh));
    out[1] = cj_conv(in[0], n->w[0], NULL, .padding = 1);
}

/* A plan keeps them, too, and sees writes from outside, and its own in the middle of the step. */
static void plans(void **unused)
{
    (void)unused;
    for (int writes = 0; writes < 2; writes++) {
        cj_scope s = cj_scope_open(c);
        net n = { .w = { cj_param(cj_randn(c, CJ_SHAPE(40, 33, 3, 3))), cj_param(cj_randn(c, CJ_SHAPE(17, 40, 3, 3))) } };
        if (writes) n.fresh = cj_keep(cj_randn(c, CJ_SHAPE(40, 33, 3, 3)));
        cj_tensor *x = cj_keep(cj_channels_last(cj_randn(c, CJ_SHAPE(3, 33, 12, 15)))), *now = cj_keep(cj_add_scalar(n.w[0], 0)), *out[2];
        cj_no_grad(c);
        cj_plan *p = cj_capture(c, step, &n, &x, 1, out);
        assert_ok(c);
        for (int k = 0; k < 8; k++) {
            if (k == 5) write(n.w[1], cj_randn(c, CJ_SHAPE(17, 40, 3, 3)));
            cj_tensor *w0 = now; /* by hand: every step so far has added to it */
            for (int r = 0; writes && r <= k; r++) w0 = cj_add(w0, n.fresh);
            const uint64_t before = packs();
            assert_true(cj_replay(p, &x, out));
            const uint64_t done = packs() - before;
            cj_tensor *second = writes ? cj_add(w0, n.fresh) : w0;
            cj_tensor *want = cj_conv(cj_relu(cj_conv(x, w0, NULL, .padding = 1)), cj_add_scalar(n.w[1], 0), NULL);
            assert_true(same_bits(out[0], want));
            assert_true(same_bits(out[1], cj_conv(x, second, NULL, .padding = 1)));
            if (!writes && (k == 3 || k == 4 || k == 7)) assert_int_equal(done, 0);
            if (!writes && k == 5) assert_int_equal(done, 1); /* w[1] alone */
            if (writes) assert_true(done >= 2);               /* w[0] twice, of two versions */
        }
        cj_plan_free(p);
        cj_grad_mode(c, true);
        cj_release(x), cj_release(now), cj_release(n.fresh), cj_release(n.w[0]), cj_release(n.w[1]);
        cj_scope_close(s);
        assert_int_equal(packed(), 0);
    }
}

/* Training, planned or not, holds none: every step has weights of its own. */
static void training_keeps_none(void **unused)
{
    (void)unused;
    cj_module *m = cj_conv_layer(c, 3, 24, CJ_SHAPE(3, 3));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0.01);
    for (int k = 0; k < 4; k++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *loss = cj_mean(cj_square(cj_forward(m, cj_randn(c, CJ_SHAPE(2, 3, 8, 8)))));
        assert_true(cj_minimise(o, loss));
        cj_scope_close(s);
        assert_int_equal(packed(), 0);
    }
    const size_t live = cj_memory_stats(c).live;
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(2, 3, 8, 8)));
    for (int k = 0; k < 3; k++) {
        cj_scope s = cj_scope_open(c);
        cj_forward(m, x);
        cj_scope_close(s);
    }
    assert_true(packed() > 0 && cj_memory_stats(c).live > live);
    cj_memory_trim(c); /* they are a cache, too */
    assert_int_equal(packed(), 0);
    cj_release(x);
    cj_optim_free(o);
}

/* Short memory is no failure: nothing is kept, or what is kept makes room. */
static void little_memory(void **unused)
{
    (void)unused;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 32, .memory_cap = 12 << 20 });
    cj_tensor *w = cj_param(cj_randn(d, CJ_SHAPE(256, 128, 3, 3))), *x = cj_keep(cj_randn(d, CJ_SHAPE(1, 128, 7, 7))), *first = NULL;
    for (int k = 0; k < 5; k++) {
        cj_scope s = cj_scope_open(d);
        cj_tensor *y = cj_conv(x, w, NULL, .padding = 1);
        assert_ok(d);
        if (!first) first = cj_keep(y);
        assert_true(same_bits(first, y));
        cj_scope_close(s);
        if (k == 2) { /* most of the memory that is left */
            cj_tensor *large = cj_keep(cj_ones(d, CJ_SHAPE((int64_t)((12 << 20) - cj_memory_stats(d).live) / 4 - 100000), CJ_F32));
            assert_ok(d);
            cj_release(large);
        }
    }
    cj_ctx_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_calls_few_packs), cmocka_unit_test(several_sizes), cmocka_unit_test(plans),
                                        cmocka_unit_test(training_keeps_none), cmocka_unit_test(little_memory) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
