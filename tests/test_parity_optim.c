/* Optimisers, averages, schedules and L-BFGS against PyTorch (tools/fixtures_optim.py): 100 steps of each rule in f64 to 1e-10 (where PyTorch computes in f64) and in f32 to 1e-6, learning rates
 * to 1e-12. */
#include "parity.h"

#include <cajal/optim.h>

static const cj_module_type plain_module = { .name = "plain" };

static cj_optim *optimiser(const char *name, cj_params *p)
{
#define IS(word) (strcmp(name, word) == 0)
    if (IS("adagrad")) return cj_adagrad(p, &(cj_adagrad_opts){ .lr = 0.1 });
    if (IS("adagrad_decay"))
        return cj_adagrad(p, &(cj_adagrad_opts){ .lr = 0.2, .lr_decay = 0.01, .weight_decay = 0.1, .initial = 0.3, .eps = 1e-6 });
    if (IS("rmsprop")) return cj_rmsprop(p, &(cj_rmsprop_opts){ .lr = 0.002 });
    if (IS("rmsprop_momentum"))
        return cj_rmsprop(p, &(cj_rmsprop_opts){ .lr = 0.0005, .alpha = 0.9, .momentum = 0.8, .weight_decay = 0.1, .eps = 1e-6 });
    if (IS("rmsprop_centred")) return cj_rmsprop(p, &(cj_rmsprop_opts){ .lr = 0.002, .alpha = 0.95, .centred = true, .eps = 1e-3 });
    if (IS("rmsprop_both"))
        return cj_rmsprop(p, &(cj_rmsprop_opts){ .lr = 0.001, .alpha = 0.9, .centred = true, .momentum = 0.5, .eps = 1e-2 });
    if (IS("amsgrad")) return cj_adam(p, &(cj_adam_opts){ .lr = 0.005, .amsgrad = true, .beta1 = 0.9, .beta2 = 0.9 });
    if (IS("amsgrad_decoupled"))
        return cj_adamw(p, &(cj_adam_opts){ .lr = 0.005, .amsgrad = true, .weight_decay = 0.1, .beta1 = 0.3, .beta2 = 0.99 });
    if (IS("adamax")) return cj_adamax(p, &(cj_adamax_opts){ .lr = 0.005 });
    if (IS("adamax_decay"))
        return cj_adamax(p, &(cj_adamax_opts){ .lr = 0.005, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1, .eps = 1e-6 });
    if (IS("nadam")) return cj_nadam(p, &(cj_nadam_opts){ .lr = 0.005 });
    if (IS("nadam_decoupled"))
        return cj_nadam(p, &(cj_nadam_opts){
                               .lr = 0.005, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1, .momentum_decay = 0.02, .decoupled = true });
    if (IS("sgd_maximise")) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.001, .momentum = 0.5, .weight_decay = 0.1, .maximise = true });
    if (IS("clip_value")) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.1, .momentum = 0.9, .clip_value = 0.05 });
    if (IS("sgd")) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.05 });
    if (IS("nesterov")) return cj_sgd(p, &(cj_sgd_opts){ .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1 });
    if (IS("adam")) return cj_adam(p, &(cj_adam_opts){ .lr = 0.005, .weight_decay = 0.1 });
    if (IS("adamw")) return cj_adamw(p, &(cj_adam_opts){ .lr = 0.005, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1 });
    if (IS("adadelta")) return cj_adadelta(p, &(cj_adadelta_opts){ .lr = 0.5 });
    if (IS("adadelta_decay")) return cj_adadelta(p, &(cj_adadelta_opts){ .lr = 0.3, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.1 });
    if (IS("radam")) return cj_radam(p, &(cj_radam_opts){ .lr = 0.01 });
    if (IS("radam_decay"))
        return cj_radam(p, &(cj_radam_opts){ .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1 });
    if (IS("rprop")) return cj_rprop(p, &(cj_rprop_opts){ .lr = 0.01 });
    if (IS("rprop_limits")) return cj_rprop(p, &(cj_rprop_opts){ .lr = 0.02, .shrink = 0.4, .grow = 1.1, .least = 1e-4, .most = 0.05 });
    if (IS("asgd")) return cj_asgd(p, &(cj_asgd_opts){ .lr = 0.05 });
    if (IS("asgd_mean")) return cj_asgd(p, &(cj_asgd_opts){ .lr = 0.1, .lambda = 0.01, .alpha = 0.6, .start = 20, .weight_decay = 0.1 });
    fail_msg("optimiser %s", name);
    return NULL;
}

static cj_rate schedule(const char *name)
{
    if (IS("constant")) return cj_rate_constant(0.4);
    if (IS("step")) return cj_rate_step(0.4, 7, 0.5);
    if (IS("multi_step")) return cj_rate_multi_step(0.4, (int64_t[]){ 3, 11, 12, 30 }, 4, 0.2);
    if (IS("exponential")) return cj_rate_exponential(0.4, 0.9);
    if (IS("cosine")) return cj_rate_cosine(0.4, 0.01, 39);
    if (IS("restarts")) return cj_rate_cosine_restarts(0.4, 0.02, 5, 2);
    if (IS("polynomial")) return cj_rate_polynomial(0.4, 25, 1.7);
    if (IS("one_cycle")) return cj_rate_one_cycle(0.4, 40, NULL);
    if (IS("one_cycle_linear"))
        return cj_rate_one_cycle(0.4, 40, &(cj_one_cycle_opts){ .linear = true, .rise = 0.5, .start_divisor = 10, .end_divisor = 100 });
    if (IS("warmup_exponential")) return cj_rate_warmup(cj_rate_exponential(0.4, 0.9), 8, 0.1);
    fail_msg("schedule %s", name);
    return cj_rate_constant(NAN);
}

static values given[4];

typedef struct regression {
    cj_ctx *c;
    cj_optim *o;
    cj_params *p;
    cj_dtype t;
    int done;
} regression;

static void begin(regression *r, cj_dtype t)
{
    cj_ctx_free(r->c);
    *r = (regression){ .c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }), .t = t };
    cj_module *m = cj_module_new(r->c, &plain_module, 1);
    cj_module_param(m, "weight", cj_cast(tensor_of(r->c, &given[2]), t));
    cj_module_param(m, "bias", cj_cast(tensor_of(r->c, &given[3]), t));
    r->p = cj_module_params(m);
}

static void step(regression *r)
{
    cj_scope s = cj_scope_open(r->c);
    cj_tensor *x = cj_cast(tensor_of(r->c, &given[0]), r->t), *y = cj_cast(tensor_of(r->c, &given[1]), r->t);
    assert_true(cj_minimise(r->o, cj_mse_loss(cj_linear_op(x, cj_params_at(r->p, 0), cj_params_at(r->p, 1)), y, NULL)));
    cj_scope_close(s);
    r->done++;
}

static void parameters(regression *r, const values *want, double tol, int line, const char *what)
{
    cj_scope s = cj_scope_open(r->c);
    bool was = cj_no_grad(r->c);
    cj_tensor *both[2] = { cj_reshape(cj_params_at(r->p, 0), CJ_SHAPE(6)), cj_params_at(r->p, 1) };
    expect(cj_cat(both, 2, 0), want, tol, line, what);
    cj_grad_mode(r->c, was);
    cj_scope_close(s);
}

/* PyTorch keeps the product of NAdam's momenta and the rate of averaged SGD in f32, 6e-8 of each, whatever the parameters are. */
static double allowed(const regression *r, const char *name)
{
    if (r->t == CJ_F32) return 1e-6;
    return strncmp(name, "nadam", 5) == 0 ? 1e-8 : strncmp(name, "asgd", 4) == 0 ? 3e-8 : 1e-10;
}

/* The states "ax" of averaged SGD, one after the other. */
typedef struct gathered {
    cj_tensor *part[2];
    int n;
} gathered;
static void take_mean(void *user, const char *name, cj_tensor *t)
{
    gathered *k = user;
    if (strncmp(name, "ax.", 3) == 0 && k->n < 2) k->part[k->n++] = t;
}
static void mean_state(regression *r, const values *want, int line)
{
    gathered k = { .n = 0 };
    cj_scope s = cj_scope_open(r->c);
    cj_optim_state(r->o, take_mean, &k);
    assert_int_equal(k.n, 2);
    k.part[0] = cj_reshape(k.part[0], CJ_SHAPE(6));
    expect(cj_cat(k.part, 2, 0), want, allowed(r, "asgd"), line, "asgd's mean");
    cj_scope_close(s);
}

static void averages(regression *r, const char *name, const values *want, int line)
{
    begin(r, CJ_F64);
    r->o = cj_sgd(r->p, &(cj_sgd_opts){ .lr = 0.3 });
    cj_average *a = cj_average_new(r->p, &(cj_average_opts){ .decay = IS("ema") ? 0.9 : 0 });
    for (int k = 0; k < 20; k++) {
        step(r);
        assert_true(cj_average_update(a));
    }
    assert_true(cj_average_swap_in(a));
    parameters(r, want, 1e-12, line, name);
}

static void rates(const char *name, const values *want, int line)
{
    const cj_rate r = schedule(name);
    for (int64_t t = 0; t < want->n; t++) {
        double found = cj_rate_at(&r, t);
        if (fabs(found - want->v[t]) <= 1e-12) continue;
        print_error("line %d, %s at step %lld: %.17g, PyTorch has %.17g\n", line, name, (long long)t, found, want->v[t]);
        wrong++;
        return;
    }
}

static cj_tensor *regression_loss(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)user, (void)n;
    return cj_mse_loss(cj_linear_op(tensor_of(c, &given[0]), x[0], x[1]), tensor_of(c, &given[1]), NULL);
}

/* torch.optim.LBFGS without a line search, 12 iterations. */
static void lbfgs(regression *r, const values *want, int line)
{
    begin(r, CJ_F64);
    cj_tensor *x[2] = { cj_params_at(r->p, 0), cj_params_at(r->p, 1) };
    cj_solution found;
    assert_true(cj_lbfgs(r->c, regression_loss, NULL, x, 2, &found,
                         &(cj_solve_opts){ .iterations = 12, .history = 4, .step = 0.5, .search = CJ_SEARCH_FIXED, .tolerance = CJ_ZERO }));
    assert_int_equal(found.iterations, 12);
    parameters(r, want, 1e-10, line, "lbfgs");
}

static void test_fixture(void **state)
{
    (void)state;
    FILE *f = fixture("optim.txt");
    static char line[MAX_LINE];
    static values v, losses;
    regression r = { 0 };
    int known = 0, number = 0, runs = 0, schedules = 0, means = 0, plateaus = 0, solves = 0;
    char name[32] = "", dtype[8] = "", what[64];
    wrong = 0;
    while (fgets(line, sizeof line, f)) {
        number++;
        int at, used = 0;
        if (strncmp(line, "problem ", 8) == 0) {
            read_values(line + 8, &given[known++]);
        } else if (sscanf(line, "optimiser %31s %7s", name, dtype) == 2) {
            begin(&r, dtype_by_name(dtype));
            r.o = optimiser(name, r.p);
            assert_non_null(r.o);
            runs++;
        } else if (sscanf(line, "step %d %n", &at, &used) == 1) {
            read_values(line + used, &v);
            while (r.done < at) step(&r);
            snprintf(what, sizeof what, "%s %s, step %d", name, dtype, at);
            parameters(&r, &v, allowed(&r, name), number, what);
        } else if (strncmp(line, "mean ", 5) == 0) {
            read_values(line + 5, &v);
            mean_state(&r, &v, number);
        } else if (sscanf(line, "average %31s %n", name, &used) == 1) {
            read_values(line + used, &v);
            averages(&r, name, &v, number);
            means++;
        } else if (sscanf(line, "schedule %31s %n", name, &used) == 1) {
            read_values(line + used, &v);
            rates(name, &v, number);
            schedules++;
        } else if (sscanf(line, "lbfgs fixed %n", &used) == 0 && used) {
            read_values(line + used, &v);
            lbfgs(&r, &v, number);
            solves++;
        } else if (strncmp(line, "losses ", 7) == 0) {
            read_values(line + 7, &losses);
        } else if (strncmp(line, "plateau ", 8) == 0) {
            read_values(line + 8, &v);
            cj_plateau p = { .lr = 0.4, .factor = 0.5, .patience = 2, .cooldown = 1, .threshold = 1e-3, .least = 0.02 };
            for (int64_t i = 0; i < v.n; i++) assert_float_equal(cj_plateau_lr(&p, losses.v[i]), v.v[i], 1e-15);
            plateaus++;
        }
    }
    cj_ctx_free(r.c);
    fclose(f);
    assert_int_equal(runs, 52);
    assert_int_equal(schedules, 10);
    assert_int_equal(means, 2);
    assert_int_equal(plateaus, 1);
    assert_int_equal(solves, 1);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_fixture) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
