/* Writes that wait for their scope: running statistics and averages change when a step succeeded, and only then. */
#include "support.h"

static void committed_at_close(void **unused)
{
    (void)unused;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
    cj_tensor *mean = cj_keep(cj_zeros(c, CJ_SHAPE(3), CJ_F32)), *count = cj_keep(cj_full(c, 7, CJ_SCALAR, CJ_I64));

    cj_scope s = cj_scope_open(c);
    assert_ptr_equal(cj_assign_at_close_(mean, cj_ones(c, CJ_SHAPE(3), CJ_F32)), mean);
    cj_assign_at_close_(count, cj_add_scalar(count, 1));
    assert_near(value_at(mean, 2), 0, 0); /* not yet */
    cj_scope_close(s);
    assert_near(value_at(mean, 2), 1, 0);
    assert_near(value_at(count, 0), 8, 0);

    /* in order: the last one stays; a scope inside has closed with its own */
    s = cj_scope_open(c);
    cj_assign_at_close_(count, cj_full(c, 20, CJ_SCALAR, CJ_I64));
    cj_scope inner = cj_scope_open(c);
    cj_assign_at_close_(mean, cj_full(c, 5, CJ_SCALAR, CJ_F32)); /* broadcasts */
    cj_scope_close(inner);
    assert_near(value_at(mean, 0), 5, 0);
    cj_assign_at_close_(count, cj_full(c, 21, CJ_SCALAR, CJ_I64));
    cj_tensor *kept = cj_scope_return(s, cj_add_scalar(mean, 1));
    assert_near(value_at(count, 0), 21, 0);
    assert_near(value_at(kept, 0), 6, 0);

    /* no scope: at once */
    cj_assign_at_close_(count, cj_full(c, 3, CJ_SCALAR, CJ_I64));
    assert_near(value_at(count, 0), 3, 0);
    assert_ok(c);
    cj_ctx_free(c);
    assert_balanced(&k);
}

static void dropped_after_an_error(void **unused)
{
    (void)unused;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
    cj_tensor *a = cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F32)), *b = cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F32)),
              *one = cj_keep(cj_ones(c, CJ_SHAPE(2), CJ_F32));

    cj_scope s = cj_scope_open(c); /* an error before the close, seen at the close */
    cj_assign_at_close_(a, one);
    cj_matmul(cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32), cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32));
    cj_assign_at_close_(b, one);
    cj_scope_close(s);
    assert_error(c, CJ_ESHAPE, "matmul");
    cj_clear(c);
    assert_near(value_at(a, 0) + value_at(b, 0), 0, 0);

    s = cj_scope_open(c); /* cleared inside: what the failed part had deferred is gone, what follows counts */
    cj_assign_at_close_(a, one);
    cj_reshape(one, CJ_SHAPE(5));
    cj_clear(c);
    cj_assign_at_close_(b, one);
    cj_scope_close(s);
    assert_near(value_at(a, 0), 0, 0);
    assert_near(value_at(b, 0), 1, 0);

    s = cj_scope_open(c); /* cancelled: both or neither */
    cj_assign_at_close_(a, one);
    cj_assign_at_close_(b, cj_mul_scalar(one, 9));
    cj_cancel(c);
    cj_scope_close(s);
    assert_error(c, CJ_ECANCELLED, "cancelled");
    cj_clear(c);
    assert_near(value_at(a, 0), 0, 0);
    assert_near(value_at(b, 0), 1, 0);

    s = cj_scope_open(c); /* released before the close */
    cj_tensor *gone = cj_keep(one);
    cj_assign_at_close_(a, one);
    cj_assign_at_close_(gone, one);
    cj_release(gone);
    cj_scope_close(s);
    cj_clear(c);

    /* what is refused, is refused when it is asked for */
    assert_true(cj_is_poison(cj_assign_at_close_(a, cj_ones(c, CJ_SHAPE(3), CJ_F32))));
    assert_error(c, CJ_ESHAPE, "assign_: [3] does not fit into [2]");
    cj_clear(c);
    assert_true(cj_is_poison(cj_assign_at_close_(cj_zeros(c, CJ_SHAPE(2), CJ_F32), one)));
    assert_error(c, CJ_EVALUE, "goes with its scope");
    cj_clear(c);
    assert_true(cj_is_poison(cj_assign_at_close_(a, NULL)));
    cj_clear(c);
    assert_null(cj_assign_at_close_(NULL, NULL));
    cj_ctx_free(c);
    assert_balanced(&k);
}

/* A layer that centres its input and follows the mean with an exponential average. */
typedef struct centre {
    cj_tensor *running;
} centre;
static cj_tensor *centre_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    cj_tensor *running = ((centre *)self)->running, *mean = cj_mean(x, .axes = CJ_AXIS(0));
    cj_assign_at_close_(running, cj_add(cj_mul_scalar(running, 0.9), cj_mul_scalar(cj_detach(mean), 0.1)));
    return cj_sub(x, mean);
}
static const cj_module_type centre_type = { "Centre", centre_forward, NULL };

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_module *m = user;
    (void)c;
    out[0] = cj_sum(cj_square(cj_forward(m, in[0])));
}

/* Inside cj_forward's own frames nothing is committed; a captured step commits at its end, and every replay does. */
static void layers_and_plans(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    cj_module *m = cj_module_new(c, &centre_type, sizeof(centre)), *net = cj_sequential(c, m);
    cj_tensor *running = ((centre *)cj_module_self(m))->running = cj_module_buffer(m, "running", cj_zeros(c, CJ_SHAPE(4), CJ_F32));
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(8, 4))), *out[2] = { 0 };
    double mean = 0, want = 0;
    for (int i = 0; i < 8; i++) mean += value_at(x, 4 * i) / 8;

    cj_scope s = cj_scope_open(c);
    cj_forward(net, x);
    assert_near(value_at(running, 0), 0, 0);
    cj_scope_close(s);
    want = 0.1 * mean;
    assert_near(value_at(running, 0), want, 1e-6);

    cj_plan *p = cj_capture(c, step, net, &x, 1, out);
    for (int i = 0; i < 6; i++) {
        want = 0.9 * want + 0.1 * mean;
        assert_near(value_at(running, 0), want, 1e-6);
        assert_true(cj_replay(p, &x, out));
    }
    assert_true(cj_plan_statistics(p).compiled);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(committed_at_close), cmocka_unit_test(dropped_after_an_error),
                                        cmocka_unit_test(layers_and_plans) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
