/* Training in bf16 and f16: the optimiser's f32 master copy takes the updates that half precision would round away. */
#include "support.h"

static const cj_module_type group = { "Group", NULL, NULL };
static const cj_dtype halves[2] = { CJ_BF16, CJ_F16 };

/* The same gradients into an f32 parameter and a half one: masters follow f32 to the bit, and the parameter is the master, rounded. */
static void masters_follow_f32(void **unused)
{
    (void)unused;
    for (int h = 0; h < 2; h++)
        for (int rule = 0; rule < 4; rule++) {
            enum { N = 1037 }; /* beyond one block, odd */
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 3 });
            cj_tensor *start = cj_cast(cj_randn(c, CJ_SHAPE(N)), halves[h]), *p[2];
            cj_optim *o[2];
            for (int k = 0; k < 2; k++) { /* 0: f32, 1: half */
                cj_module *m = cj_module_new(c, &group, 0);
                p[k] = cj_module_param(m, "w", k ? start : cj_cast(start, CJ_F32));
                cj_params *all = cj_module_params(m);
                o[k] = rule == 0   ? cj_sgd(all, .lr = 1e-3)
                       : rule == 1 ? cj_sgd(all, .lr = 1e-3, .momentum = 0.9, .clip_norm = 1)
                       : rule == 2 ? cj_adam(all, .lr = 1e-4)
                                   : cj_adamw(all, .lr = 1e-4, .clip_norm = 1);
            }
            for (int step = 0; step < 5; step++) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *g = cj_cast(cj_randn(c, CJ_SHAPE(N)), halves[h]);
                assert_true(cj_minimise(o[0], cj_dot(p[0], cj_cast(g, CJ_F32))));
                assert_true(cj_minimise(o[1], cj_sum(cj_mul(p[1], g))));
                cj_tensor *rounded = cj_cast(cj_detach(p[0]), halves[h]);
                if (!same_bits(p[1], rounded)) fail_msg("%s, rule %d, step %d", cj_dtype_name(halves[h]), rule, step);
                cj_scope_close(s);
            }
            assert_int_equal(cj_optim_steps(o[1]), 5);
            assert_ok(c);
            cj_ctx_free(c);
        }
}

typedef struct found {
    cj_tensor *master, *moment;
    int n;
} found;
static void find(void *user, const char *name, cj_tensor *t)
{
    found *f = user;
    if (strcmp(name, "master.bf16") == 0) f->master = t;
    if (strcmp(name, "exp_avg.bf16") == 0) f->moment = t;
    f->n++;
}

/* A thousand steps of 2⁻¹⁴ each: bf16 alone would stay where it is. */
static void small_steps_add_up(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *m = cj_module_new(c, &group, 0);
    cj_tensor *w = cj_module_param(m, "w", cj_ones(c, CJ_SHAPE(4), CJ_BF16));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0x1p-14);
    for (int i = 0; i < 1024; i++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(o, cj_sum(w));
        cj_scope_close(s);
    }
    assert_near(value_at(w, 3), 1 - 1024 * 0x1p-14, 0);
    found f = { 0 };
    cj_optim *adam = cj_adam(cj_module_params(m));
    assert_int_equal(cj_optim_state(adam, find, &f), 5); /* step, master, two moments, rate */
    assert_int_equal(cj_dtype_of(f.master), CJ_F32);
    assert_int_equal(cj_dtype_of(f.moment), CJ_F32);
    assert_near(value_at(f.master, 0), value_at(w, 0), 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Gradients (3), (4) and (12) in three dtypes have norm 13: one norm over all of them. */
static void one_norm_over_dtypes(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *m = cj_module_new(c, &group, 0);
    cj_tensor *a = cj_module_param(m, "a", cj_zeros(c, CJ_SHAPE(1), CJ_F32)),
              *b = cj_module_param(m, "b", cj_zeros(c, CJ_SHAPE(1), CJ_F64)),
              *h = cj_module_param(m, "h", cj_zeros(c, CJ_SHAPE(1), CJ_BF16));
    const double clips[] = { 6.5, 100 };
    for (int k = 0; k < 2; k++) {
        cj_optim *o = cj_sgd(cj_module_params(m), .lr = 1, .clip_norm = clips[k]);
        double before[3] = { value_at(a, 0), value_at(b, 0), value_at(h, 0) }, scale = clips[k] < 13 ? clips[k] / (13 + 1e-6) : 1;
        cj_tensor *loss = cj_add(cj_add(cj_mul_scalar(cj_cast(cj_sum(a), CJ_F64), 3), cj_mul_scalar(cj_sum(b), 4)),
                                 cj_mul_scalar(cj_cast(cj_sum(h), CJ_F64), 12));
        assert_true(cj_minimise(o, loss));
        assert_near(value_at(a, 0) - before[0], -3 * scale, 1e-6);
        assert_near(value_at(b, 0) - before[1], -4 * scale, 1e-12);
        assert_near(value_at(h, 0) - before[2], -12 * scale, 0.05);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

typedef struct problem {
    cj_tensor *w1, *w2;
    cj_optim *opt;
} problem;
static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    problem *p = user;
    (void)c;
    cj_tensor *y = cj_matmul(cj_tanh(cj_matmul(in[0], p->w1)), p->w2);
    out[0] = cj_mse_loss(cj_cast(y, CJ_F32), in[1]);
    cj_minimise(p->opt, out[0]);
}

/* A small network whose weights are bf16 learns, in a plan, nearly as well as in f32. */
static void bf16_network_learns(void **unused)
{
    (void)unused;
    double last[2];
    for (int half = 0; half < 2; half++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 6 });
        cj_dtype t = half ? CJ_BF16 : CJ_F32;
        cj_module *m = cj_module_new(c, &group, 0);
        problem p = { cj_module_param(m, "w1", cj_cast(cj_normal(c, 0, 0.4, CJ_SHAPE(8, 32)), t)),
                      cj_module_param(m, "w2", cj_cast(cj_normal(c, 0, 0.2, CJ_SHAPE(32, 1)), t)), NULL };
        p.opt = cj_adam(cj_module_params(m), .lr = 3e-3);
        cj_tensor *x = cj_randn(c, CJ_SHAPE(64, 8)),
                  *in[2] = { cj_keep(cj_cast(x, t)), cj_keep(cj_sin(cj_sum(x, .axes = CJ_AXIS(1), .keepdim = true))) }, *out[2] = { 0 };
        cj_plan *plan = cj_capture(c, step, &p, in, 2, out);
        double first = cj_item(out[0]);
        for (int i = 0; i < 400; i++) assert_true(cj_replay(plan, in, out));
        last[half] = cj_item(out[0]);
        assert_ok(c);
        assert_true(last[half] < 0.2 * first);
        cj_ctx_free(c);
    }
    assert_near(last[1], last[0], 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(masters_follow_f32), cmocka_unit_test(small_steps_add_up),
                                        cmocka_unit_test(one_norm_over_dtypes), cmocka_unit_test(bf16_network_learns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
