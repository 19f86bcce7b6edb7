/* Optimisers beside SGD and Adam: states restored to the bit, half-precision masters, one and two threads, capture with a schedule; averages; bad values. */
#include "support.h"

enum { N = 5, STEPS = 12 };

static const cj_module_type pair_type = { "Pair", NULL, NULL };

typedef cj_optim *maker(cj_params *p);
static cj_optim *amsgrad(cj_params *p) { return cj_adam(p, .lr = 0.05, .amsgrad = true, .beta2 = 0.9); }
static cj_optim *adagrad(cj_params *p) { return cj_adagrad(p, .lr = 0.1, .lr_decay = 0.1, .initial = 0.2); }
static cj_optim *rmsprop(cj_params *p) { return cj_rmsprop(p, .momentum = 0.5, .centred = true, .eps = 1e-3); }
static cj_optim *adamax(cj_params *p) { return cj_adamax(p, .lr = 0.05, .weight_decay = 0.1); }
static cj_optim *nadam(cj_params *p) { return cj_nadam(p, .lr = 0.05, .weight_decay = 0.1, .decoupled = true); }
static cj_optim *sign_sgd(cj_params *p) { return cj_sign_sgd(p, .lr = 0.01, .momentum = 0.7, .weight_decay = 0.1); }
static cj_optim *lion(cj_params *p) { return cj_lion(p, .lr = 0.01, .weight_decay = 0.1); }
static cj_optim *clipped(cj_params *p)
{
    return cj_sgd(p, .lr = 0.1, .momentum = 0.9, .clip_value = 0.3, .clip_norm = 0.5, .maximise = true);
}
typedef struct rule {
    const char *name;
    maker *make;
    const char *states; /* of f32 parameters */
} rule;
static const rule rules[] = { { "amsgrad", amsgrad, "step exp_avg exp_avg_sq max_exp_avg_sq lr " },
                              { "adagrad", adagrad, "step sum lr " },
                              { "rmsprop", rmsprop, "step square_avg momentum_buffer grad_avg lr " },
                              { "adamax", adamax, "step exp_avg exp_inf lr " },
                              { "nadam", nadam, "step exp_avg exp_avg_sq mu_product lr " },
                              { "sign_sgd", sign_sgd, "step momentum_buffer lr " },
                              { "lion", lion, "step exp_avg lr " },
                              { "clipped", clipped, "step momentum_buffer lr " } };
enum { RULES = sizeof rules / sizeof rules[0] };

typedef struct rig2 {
    cj_ctx *c;
    cj_module *m;
    cj_tensor *a, *b;
    cj_optim *o;
} rig2;

static void build(rig2 *r, maker *make, cj_dtype t, int64_t n, int threads)
{
    r->c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 11 });
    r->m = cj_module_new(r->c, &pair_type, 0);
    r->a = cj_module_param(r->m, "a", cj_cast(cj_cast(cj_randn(r->c, CJ_SHAPE(n)), CJ_BF16), t)); /* bf16 values in every dtype */
    r->b = cj_module_param(r->m, "b", cj_cast(cj_cast(cj_randn(r->c, CJ_SHAPE(3)), CJ_BF16), t));
    r->o = make(cj_module_params(r->m));
    assert_ok(r->c);
}
/* The loss g·a + h·b has gradient (g, h), the same bf16 numbers in every dtype. */
static void step(rig2 *r, int k)
{
    cj_ctx *c = r->c;
    cj_scope s = cj_scope_open(c);
    cj_rng_set(c, (cj_rng_state){ .seed = (uint64_t)(100 + k) });
    cj_dtype t = cj_dtype_of(r->a);
    cj_tensor *g = cj_cast(cj_cast(cj_randn(c, cj_shape_of(r->a)), CJ_BF16), t),
              *h = cj_cast(cj_cast(cj_randn(c, CJ_SHAPE(3)), CJ_BF16), t);
    assert_true(cj_minimise(r->o, cj_add(cj_sum(cj_mul(r->a, g)), cj_sum(cj_mul(r->b, h)))));
    cj_scope_close(s);
}

/* ---- states ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct saved {
    int n;
    char names[256];
    double *value[16];
    int64_t size[16];
} saved;
static void save(void *user, const char *name, cj_tensor *t)
{
    saved *s = user;
    strcat(strcat(s->names, name), " ");
    s->size[s->n] = cj_numel(t);
    s->value[s->n++] = values_of(t); /* f32 in f64: exact */
}
static void load(void *user, const char *name, cj_tensor *t)
{
    saved *s = user;
    (void)name;
    assert_int_equal(cj_numel(t), s->size[s->n]);
    cj_assign_(t, cj_cast(cj_from_f64(cj_tensor_ctx(t), s->value[s->n++], cj_shape_of(t)), cj_dtype_of(t)));
}

static void states_are_restored(void **state)
{
    (void)state;
    for (int k = 0; k < RULES; k++)
        for (int half = 0; half < 2; half++) {
            cj_dtype t = half ? CJ_F16 : CJ_F32;
            rig2 first, second;
            saved optim = { 0 }, module = { 0 };
            build(&first, rules[k].make, t, N, 1);
            for (int i = 0; i < STEPS / 2; i++) step(&first, i);
            cj_optim_state(first.o, save, &optim);
            cj_module_state(first.m, save, &module);
            if (!half) assert_string_equal(optim.names, rules[k].states);
            else assert_non_null(strstr(optim.names, "master.f16 "));
            build(&second, rules[k].make, t, N, 1);
            cj_scope s = cj_scope_open(second.c);
            bool was = cj_no_grad(second.c);
            optim.n = module.n = 0;
            cj_optim_state(second.o, load, &optim);
            cj_module_state(second.m, load, &module);
            cj_grad_mode(second.c, was);
            cj_scope_close(s);
            for (int i = STEPS / 2; i < STEPS; i++) step(&first, i), step(&second, i);
            if (!same_bits(first.a, second.a) || !same_bits(first.b, second.b)) fail_msg("%s: a resumed run differs", rules[k].name);
            assert_int_equal(cj_optim_steps(second.o), STEPS);
            for (int i = 0; i < optim.n; i++) free(optim.value[i]);
            for (int i = 0; i < module.n; i++) free(module.value[i]);
            cj_ctx_free(first.c);
            cj_ctx_free(second.c);
        }
}

/* A half-precision parameter is its f32 twin, rounded, at every step. */
static void half_precision_masters(void **state)
{
    (void)state;
    static const cj_dtype halves[] = { CJ_BF16, CJ_F16 };
    for (int k = 0; k < RULES - 1; k++) /* the last one clips by values and norms, which half-precision gradients round */
        for (int h = 0; h < 2; h++) {
            rig2 wide, narrow;
            build(&wide, rules[k].make, CJ_F32, 700, 1);
            build(&narrow, rules[k].make, halves[h], 700, 1);
            for (int i = 0; i < STEPS; i++) {
                step(&wide, i), step(&narrow, i);
                if (!same_bits(cj_cast(cj_detach(wide.a), halves[h]), narrow.a))
                    fail_msg("%s, step %d: not the rounded master", rules[k].name, i);
            }
            cj_ctx_free(wide.c);
            cj_ctx_free(narrow.c);
        }
}

static void one_and_two_threads(void **state)
{
    (void)state;
    for (int k = 0; k < RULES; k++) {
        rig2 one, two;
        build(&one, rules[k].make, CJ_F32, 50001, 1);
        build(&two, rules[k].make, CJ_F32, 50001, 2);
        for (int i = 0; i < 3; i++) step(&one, i), step(&two, i);
        if (!same_bits(one.a, two.a) || !same_bits(one.b, two.b)) fail_msg("%s: threads show", rules[k].name);
        cj_ctx_free(one.c);
        cj_ctx_free(two.c);
    }
}

/* ---- capture ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct trained {
    rig2 r;
    cj_average *mean;
} trained;
static void captured(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    trained *t = user;
    (void)c;
    cj_tensor *loss = cj_add(cj_sum(cj_square(cj_sub(t->r.a, in[0]))), cj_sum(cj_square(t->r.b)));
    cj_minimise(t->r.o, loss);
    cj_average_update(t->mean);
    out[0] = loss;
}

static void capture_follows_schedule_and_average(void **state)
{
    (void)state;
    for (int k = 0; k < RULES; k++)
        for (int ema = 0; ema < 2; ema++) {
            trained eager, planned;
            cj_rate rate = cj_rate_warmup(cj_rate_cosine(0.1, 0.001, 8), 3, 0.1);
            trained *both[2] = { &eager, &planned };
            for (int i = 0; i < 2; i++) {
                build(&both[i]->r, rules[k].make, CJ_F32, N, 1);
                assert_true(cj_optim_schedule(both[i]->r.o, &rate));
                both[i]->mean = cj_average_new(cj_optim_params(both[i]->r.o), .decay = ema ? 0.8 : 0);
            }
            cj_plan *plan = NULL;
            for (int i = 0; i < STEPS; i++) {
                assert_near(cj_optim_lr(planned.r.o), cj_rate_at(&rate, i), 0);
                for (int j = 0; j < 2; j++) {
                    trained *t = both[j];
                    cj_scope s = cj_scope_open(t->r.c);
                    cj_tensor *x = cj_full(t->r.c, 0.1 * i, CJ_SHAPE(N), CJ_F32), *out[8] = { NULL };
                    if (j == 0) captured(t->r.c, t, &x, out);
                    else if (!plan) assert_non_null(plan = cj_capture(t->r.c, captured, t, &x, 1, NULL));
                    else assert_true(cj_replay(plan, &x, NULL));
                    cj_scope_close(s);
                }
                if (!same_bits(eager.r.a, planned.r.a)) fail_msg("%s, step %d: the plan differs", rules[k].name, i);
            }
            assert_true(cj_plan_statistics(plan).compiled);
            assert_int_equal(cj_average_count(planned.mean), STEPS);
            for (int i = 0; i < 2; i++) assert_true(cj_average_swap_in(both[i]->mean));
            assert_true(same_bits(eager.r.a, planned.r.a));
            assert_ok(planned.r.c);
            cj_plan_free(plan);
            cj_ctx_free(eager.r.c);
            cj_ctx_free(planned.r.c);
        }
}

/* ---- averages ---------------------------------------------------------------------------------------------------------------------------------- */

static void averages_in_and_out(void **state)
{
    (void)state;
    static const cj_dtype dtypes[] = { CJ_F32, CJ_F64, CJ_BF16 };
    for (int d = 0; d < 3; d++) {
        rig2 r;
        double sum[N] = { 0 };
        saved kept = { 0 };
        build(&r, lion, dtypes[d], N, 1);
        cj_average *a = cj_average_new(cj_optim_params(r.o));
        for (int i = 0; i < STEPS; i++) {
            step(&r, i);
            assert_true(cj_average_update(a));
            for (int j = 0; j < N; j++) sum[j] += value_at(r.a, j);
        }
        cj_tensor *before = cj_clone(cj_detach(r.a));
        assert_true(cj_average_swap_in(a));
        double tolerance = dtypes[d] == CJ_F64 ? 1e-14 : dtypes[d] == CJ_F32 ? 1e-6 : 1.0 / 128;
        for (int j = 0; j < N; j++) assert_near(value_at(r.a, j), sum[j] / STEPS, tolerance * (1 + fabs(sum[j] / STEPS)));
        assert_false(cj_average_update(a));
        assert_error(r.c, CJ_ESTATE, "average_update: the averages are in the parameters");
        cj_clear(r.c);
        assert_false(cj_average_swap_in(a));
        assert_error(r.c, CJ_ESTATE, "average_swap_in: the averages are in the parameters");
        cj_clear(r.c);
        assert_true(cj_average_swap_out(a));
        assert_true(same_bits(before, r.a));
        assert_false(cj_average_swap_out(a));
        assert_error(r.c, CJ_ESTATE, "average_swap_out: the averages are not in the parameters");
        cj_clear(r.c);
        assert_int_equal(cj_average_state(a, save, &kept), 2);
        assert_non_null(strstr(kept.names, "averaged "));
        for (int i = 0; i < kept.n; i++) free(kept.value[i]);
        cj_ctx_free(r.c);
    }
}

/* ---- bad values ---------------------------------------------------------------------------------------------------------------------------------- */

static void bad_values(void **state)
{
    (void)state;
    rig2 r;
    build(&r, lion, CJ_F32, N, 1);
    cj_params *p = cj_optim_params(r.o);
#define REFUSES(call, text)                                                                                                                \
    do {                                                                                                                                   \
        assert_false(call);                                                                                                                \
        assert_error(r.c, CJ_EVALUE, text);                                                                                                \
        cj_clear(r.c);                                                                                                                     \
    } while (0)
    REFUSES(cj_adagrad(p, .lr = -1), "learning rate -1");
    REFUSES(cj_adagrad(p, .lr_decay = -1), "adagrad: lr_decay -1; it must not be negative");
    REFUSES(cj_adagrad(p, .initial = -1), "adagrad: initial -1");
    REFUSES(cj_adagrad(p, .eps = -1), "adagrad: eps -1");
    REFUSES(cj_rmsprop(p, .alpha = 1), "rmsprop: alpha 1; it must be in [0, 1)");
    REFUSES(cj_rmsprop(p, .momentum = -0.1), "rmsprop: momentum -0.1");
    REFUSES(cj_adamax(p, .beta1 = 1), "adamax: betas 1 and 0.999; both must be in [0, 1)");
    REFUSES(cj_adam(p, .beta2 = -1, .amsgrad = true), "adam: betas 0.9 and -1");
    REFUSES(cj_nadam(p, .momentum_decay = -1), "nadam: momentum_decay -1");
    REFUSES(cj_nadam(p, .beta2 = NAN), "nadam: betas 0.9 and nan");
    REFUSES(cj_sign_sgd(p, .weight_decay = -1), "sign_sgd: weight decay -1");
    REFUSES(cj_lion(p, .beta2 = 2), "lion: betas 0.9 and 2");
    REFUSES(cj_sgd(p, .clip_value = -1), "sgd: clip_value -1");
    REFUSES(cj_sgd(p, .clip_norm = -1), "sgd: clip_norm -1");
    REFUSES(cj_sgd(p, .momentum = -1), "sgd: momentum -1");
    REFUSES(cj_average_new(p, .decay = 1), "average: decay 1; it must be in [0, 1)");
    int64_t falling[2] = { 5, 3 };
    const cj_rate bad[] = { cj_rate_constant(-1),
                            cj_rate_step(1, 0, 0.5),
                            cj_rate_multi_step(1, falling, 2, 0.5),
                            cj_rate_exponential(1, -1),
                            cj_rate_cosine(1, 0, 0),
                            cj_rate_cosine_restarts(1, 0, 5, 0),
                            cj_rate_polynomial(1, 0, 1),
                            cj_rate_one_cycle(1, 10, .rise = 1),
                            cj_rate_inverse_time(1, 0),
                            cj_rate_inverse_root(1, 0),
                            cj_rate_warmup(cj_rate_constant(1), -1, 0) };
    static const char *const why[] = {
        "the rate must not be negative", "a step schedule needs", "milestones must rise",        "exponential schedule",
        "a cosine schedule needs",       "warm restarts need",    "a polynomial schedule needs", "one cycle needs",
        "1/t schedule must be positive", "1/sqrt(t) schedule",    "a warm-up must not have"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_true(isnan(cj_rate_at(&bad[i], 0)));
        REFUSES(cj_optim_schedule(r.o, &bad[i]), why[i]);
    }
    cj_average *a = cj_average_new(p);
    assert_false(cj_average_swap_in(a));
    assert_error(r.c, CJ_ESTATE, "nothing has been averaged yet");
    cj_clear(r.c);
    step(&r, 0);
    assert_ok(r.c);
    cj_ctx_free(r.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(states_are_restored), cmocka_unit_test(half_precision_masters),
                                        cmocka_unit_test(one_and_two_threads), cmocka_unit_test(capture_follows_schedule_and_average),
                                        cmocka_unit_test(averages_in_and_out), cmocka_unit_test(bad_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
