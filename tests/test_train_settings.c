/* What can be chosen in the training loop: every optimiser, every schedule, label smoothing, averaged parameters, batches in parts; and rules written outside. */
#include "stopping_job.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/manifest.h"

static const char *const words[] = { "adam",    "sgd",     "momentum", "adamw", "nesterov", "nadam",    "adamax",
                                     "amsgrad", "rmsprop", "adagrad",  "lion",  "sign_sgd", "adadelta", "radam" };

/* ---- optimisers by name --------------------------------------------------------------------------------------------------------------------------- */

static void every_optimiser_learns_the_digits(void **state)
{
    (void)state;
    assert_int_equal(sizeof words / sizeof *words, CJ_OPTIMISERS);
    for (int k = 0; k < CJ_OPTIMISERS; k++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3 });
        cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
        cj_module *net = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_linear(c, 64, 10));
        cj_examples train, test;
        cj_examples_of_rows(d->train_x, d->train_y, &train);
        cj_examples_of_rows(d->test_x, d->test_y, &test);
        cj_settings *s = cj_settings_new(c, NULL);
        assert_true(cj_settings_set(s, "optimiser", words[k]) && cj_settings_set(s, "steps", "900"));
        assert_true(cj_settings_get(s, "lr") == cj_usual_lr((cj_optimiser)k)); /* nobody gave another */
        if (k == CJ_LION) assert_true(cj_settings_set(s, "lr", "0.001"));      /* its usual rate is for long runs */
        cj_train_opts o = cj_settings_train_opts(s);
        assert_int_equal(o.optimiser, k);
        o.val = &test;
        o.eval_every = 900;
        cj_train_result r = (cj_train)(net, &train, &o);
        assert_ok(c);
        if (!(r.finished && r.val.accuracy > 0.9)) fail_msg("%s: accuracy %g", words[k], r.val.accuracy);
        cj_ctx_free(c);
    }
}

static void an_optimiser_given_after_a_rate_keeps_the_rate(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_settings *s = cj_settings_new(c, NULL);
    assert_true(cj_settings_set(s, "lr", "0.25") && cj_settings_set(s, "optimiser", "sgd"));
    assert_true(cj_settings_get(s, "lr") == 0.25);
    assert_false(cj_settings_set(s, "optimiser", "adamx"));
    assert_says(c, "setting optimiser: one of 'adam sgd momentum");
    cj_ctx_free(c);
}

/* ---- schedules ---------------------------------------------------------------------------------------------------------------------------------------- */

static void schedules_have_their_shapes(void **state)
{
    (void)state;
    for (int64_t t = 0; t < 300; t++)
        assert_near(cj_schedule_lr(CJ_STEPS, 0.5, t, 300, 0), 0.5 * (t < 100 ? 1 : t < 200 ? 0.1 : 0.01), 1e-15);
    assert_near(cj_schedule_lr(CJ_EXPONENTIAL, 0.5, 10, 110, 10), 0.5, 1e-15);
    assert_near(cj_schedule_lr(CJ_EXPONENTIAL, 0.5, 60, 110, 10), 0.05, 1e-15);
    assert_near(cj_schedule_lr(CJ_EXPONENTIAL, 0.5, 4, 110, 10), 0.25, 1e-15); /* warming up */
    double highest = 0;
    for (int64_t t = 0; t < 100; t++) highest = fmax(highest, cj_schedule_lr(CJ_ONE_CYCLE, 0.5, t, 100, 0));
    assert_near(highest, 0.5, 1e-12);
    assert_near(cj_schedule_lr(CJ_ONE_CYCLE, 0.5, 0, 100, 0), 0.02, 1e-12);
    assert_near(cj_schedule_lr(CJ_ONE_CYCLE, 0.5, 99, 100, 0), 0.02 / 1e4, 1e-12);
    for (int k = 0; k < 3; k++) {
        int64_t start = (int64_t[]){ 0, 10, 30 }[k], length = (int64_t[]){ 10, 20, 40 }[k];
        assert_near(cj_schedule_lr(CJ_RESTARTS, 0.5, start, 70, 0), 0.5, 1e-12);
        assert_near(cj_schedule_lr(CJ_RESTARTS, 0.5, start + length / 2, 70, 0), 0.25, 1e-12);
    }
    for (int kind = CJ_CONSTANT; kind <= CJ_RESTARTS; kind++)
        for (int64_t n = 1; n < 8; n++) assert_true(isfinite(cj_schedule_lr((cj_schedule)kind, 0.5, n - 1, n, 0)));
}

/* ---- averages and parts: a run that was stopped goes on to the bit -------------------------------------------------------------------------------------- */

static char place[2][96];
static void make_places(void)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    for (int i = 0; i < 2; i++) snprintf(place[i], sizeof place[i], "%s/cajal-settings-%d-%d", where, (int)getpid(), i);
}

static cj_train_opts options(const job *j, int kind, const char *folder)
{
    return (cj_train_opts){ .val = &j->rows,
                            .steps = 23,
                            .batch = 8,
                            .optimiser = (cj_optimiser)kind,
                            .schedule = CJ_RESTARTS,
                            .label_smoothing = 0.1,
                            .ema = 0.8,
                            .accumulate = 3,
                            .eval_every = 4,
                            .save_every = 5,
                            .folder = folder };
}

static void assert_same_file(const char *a, const char *b, const char *what)
{
    static char text[2][1 << 16];
    size_t n[2];
    const char *path[2] = { a, b };
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(path[i], "rb");
        assert_non_null(f);
        n[i] = fread(text[i], 1, sizeof text[i], f);
        fclose(f);
    }
    if (n[0] == 0 || n[0] != n[1] || memcmp(text[0], text[1], n[0]) != 0) fail_msg("%s: %s and %s differ", what, a, b);
}

static void assert_same_runs(cj_ctx *c, const char *what)
{
    cj_generation g[2][CJ_GENERATIONS];
    for (int i = 0; i < 2; i++) assert_true(cj__manifest_read(c, place[i], g[i]) > 0);
    const char *name[2][4];
    for (int i = 0; i < 2; i++)
        name[i][0] = g[i][0].model.name, name[i][1] = g[i][0].state.name, name[i][2] = g[i][0].best.name, name[i][3] = "metrics.jsonl";
    for (int k = 0; k < 4; k++) {
        char path[2][256];
        for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "%s/%s", place[i], name[i][k]);
        assert_same_file(path[0], path[1], what);
    }
}

static void with_averages_and_parts_every_optimiser_resumes_to_the_bit(void **state)
{
    (void)state;
    make_places();
    for (int kind = 0; kind < CJ_OPTIMISERS; kind++) {
        for (int run = 0; run < 2; run++) { /* undisturbed; stopped in step 11, then resumed by another process's context */
            job j;
            open_job(&j);
            cj_train_opts o = options(&j, kind, place[run]);
            if (run) {
                j.stop_at = 11;
                (cj_train)(j.net, &j.train, &o);
                assert_int_equal(cj_error(j.c), CJ_ECANCELLED);
                cj_ctx_free(j.c);
                open_job(&j);
                o = options(&j, kind, place[run]);
                o.resume = true;
            }
            cj_train_result r = (cj_train)(j.net, &j.train, &o);
            assert_ok(j.c);
            assert_true(r.finished && (run ? r.first_step > 0 : r.first_step == 0));
            if (run) assert_same_runs(j.c, words[kind]);
            cj_ctx_free(j.c);
        }
        for (int run = 0; run < 2; run++) {
            cj_run_clear(place[run]);
            char path[256];
            snprintf(path, sizeof path, "rm -rf %s", place[run]);
            assert_int_equal(system(path), 0);
        }
    }
}

static void flat_values(cj_module *m, float *out, int64_t n)
{
    cj_params *p = cj_module_params(m);
    int64_t at = 0;
    for (int i = 0; i < cj_params_count(p); i++) {
        int64_t k = cj_numel(cj_params_at(p, i));
        assert_true(at + k <= n && cj_to_f32(cj_params_at(p, i), out + at, k));
        at += k;
    }
    assert_int_equal(at, n);
}

/* 4·8 + 8 + 8·2 + 2 */
enum { NUMBERS = 58 };

static void trained(const cj_train_opts *how, float *out)
{
    job j;
    open_job(&j);
    /* without the dropout: parts would draw other masks than the whole */
    j.net = cj_sequential(j.c, cj_module_find(j.net, "0"), cj_module_find(j.net, "1"), cj_module_find(j.net, "3"));
    (cj_train)(j.net, &j.train, how);
    assert_ok(j.c);
    flat_values(j.net, out, NUMBERS);
    cj_ctx_free(j.c);
}

/* The sum of the parts' gradients is the batch's gradient; 50 rows make batches of 8 and one of 2, which has fewer rows than parts. */
static void parts_of_a_batch_are_the_batch(void **state)
{
    (void)state;
    float whole[NUMBERS], parts[NUMBERS], eager[NUMBERS];
    cj_train_opts o = { .steps = 30, .batch = 8, .optimiser = CJ_SGD };
    trained(&o, whole);
    o.accumulate = 3;
    trained(&o, parts);
    o.eager = true;
    trained(&o, eager);
    for (int i = 0; i < NUMBERS; i++) assert_near(parts[i], whole[i], 1e-5); /* 30 sums of f32 in another order */
    assert_memory_equal(parts, eager, sizeof parts);
}

/* ema: m = decay·m + (1 - decay)·p with m = p after the first step, from runs of 1, 2, 3 steps without it. */
static void the_module_has_the_moving_average(void **state)
{
    (void)state;
    float p[4][NUMBERS], found[NUMBERS];
    for (int n = 1; n <= 3; n++) trained(&(cj_train_opts){ .steps = n, .batch = 8, .optimiser = CJ_SGD }, p[n]);
    trained(&(cj_train_opts){ .steps = 3, .batch = 8, .optimiser = CJ_SGD, .ema = 0.7 }, found);
    for (int i = 0; i < NUMBERS; i++) {
        double m = p[1][i];
        for (int n = 2; n <= 3; n++) m = 0.7 * m + 0.3 * p[n][i];
        assert_near(found[i], m, 1e-6);
    }
}

static void numbers_have_a_point_in_any_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE")) skip();
    cj_ctx *c = cj_ctx_new(NULL);
    make_places();
    assert_true(mkdir(place[0], 0777) == 0);
    cj_settings *s = cj_settings_new(c, NULL), *t = cj_settings_new(c, NULL);
    assert_string_equal(cj_settings_text(s, "momentum"), "0.9");
    assert_true(cj_settings_set(s, "lr", "0.25") && cj_settings_save(s, place[0]) && cj_settings_load(t, place[0]));
    assert_true(cj_settings_get(t, "lr") == 0.25);
    assert_string_equal(cj_settings_text(t, "lr"), "0.25");
    cj_module *net = cj_linear(c, 64, 10);
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
    cj_examples train;
    cj_examples_of_rows(d->train_x, d->train_y, &train);
    (cj_train)(net, &train, &(cj_train_opts){ .steps = 3, .batch = 8, .folder = place[0] });
    assert_ok(c);
    char path[160], line[1024];
    snprintf(path, sizeof path, "%s/metrics.jsonl", place[0]);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) /* after a comma comes the next key */
        for (char *comma = strchr(line, ','); comma; comma = strchr(comma + 1, ',')) assert_int_equal(comma[1], '"');
    assert_true(f && fclose(f) == 0);
    setlocale(LC_NUMERIC, "C");
    cj_ctx_free(c);
    snprintf(path, sizeof path, "rm -rf %s", place[0]);
    assert_int_equal(system(path), 0);
}

static void wrong_settings_are_sentences(void **state)
{
    (void)state;
    job j;
    open_job(&j);
    cj_train_opts o = { .steps = 1, .ema = 1 };
    (cj_train)(j.net, &j.train, &o);
    assert_says(j.c, "train: label_smoothing 0, ema 1, accumulate 0; 0 to 1, 0 to less than 1");
    cj_clear(j.c);
    o = (cj_train_opts){ .steps = 1, .lr = INFINITY };
    (cj_train)(j.net, &j.train, &o);
    assert_says(j.c, "train: learning rate inf; it must be finite");
    cj_clear(j.c);
    o = (cj_train_opts){ .steps = 1, .task = CJ_TASK_REGRESS, .label_smoothing = 0.1 };
    (cj_train)(j.net, &j.train, &o);
    assert_says(j.c, "train: label_smoothing is for the usual loss of classes");
    cj_ctx_free(j.c);
}

/* ---- rules written outside -------------------------------------------------------------------------------------------------------------------------------- */

static int fault;
static cj_tensor *heavy_ball(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)t;
    state[0] = cj_add(cj_mul_scalar(state[0], *(const double *)payload), g);
    if (fault == 1) return NULL;
    if (fault == 2 && cj_ndim(p) == 1) state[0] = cj_sum(state[0]);
    if (fault == 3 && cj_ndim(p) == 1) return cj_add(p, cj_zeros(c, CJ_SHAPE(7), CJ_F32));
    return cj_sub(p, cj_mul(state[0], lr));
}

typedef struct outside {
    cj_module *net;
    cj_optim *opt;
} outside;
static void outside_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    outside *k = user;
    out[0] = cj_mse_loss(cj_forward(k->net, in[0]), in[1]);
    cj_minimise(k->opt, out[0]);
}

static void descend(int kind, bool capture, float *out)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 9 });
    cj_tensor *in[2] = { cj_keep(cj_randn(c, CJ_SHAPE(6, 3))), cj_keep(cj_randn(c, CJ_SHAPE(6, 2))) }, *loss[CJ_MAX_PLAN_OUTPUTS];
    outside k = { .net = cj_sequential(c, cj_linear(c, 3, 2)) };
    const double momentum = 0.5;
    const cj_rule rule = { .name = "heavy_ball",
                           .update = heavy_ball,
                           .states = 1,
                           .state_name = { "m" },
                           .payload = &momentum,
                           .payload_size = sizeof momentum };
    k.opt = kind ? cj_custom_optim(cj_module_params(k.net), &rule, .lr = 0.1, .clip_norm = 0.9)
                 : cj_sgd(cj_module_params(k.net), .lr = 0.1, .momentum = 0.5, .clip_norm = 0.9);
    const cj_rate rate = cj_rate_exponential(0.1, 0.95);
    assert_true(cj_optim_schedule(k.opt, &rate));
    cj_plan *plan = NULL;
    for (int n = 0; n < 20; n++) {
        cj_scope s = cj_scope_open(c);
        if (!capture) outside_step(c, &k, in, loss);
        else if (!plan) plan = cj_capture(c, outside_step, &k, in, 2, loss);
        else cj_replay(plan, in, loss);
        cj_scope_close(s);
    }
    assert_ok(c);
    assert_int_equal(cj_optim_steps(k.opt), 20);
    assert_near(cj_optim_lr(k.opt), 0.1 * pow(0.95, 20), 1e-15);
    flat_values(k.net, out, 8);
    cj_ctx_free(c);
}

static void a_rule_from_outside_is_an_optimiser_like_any_other(void **state)
{
    (void)state;
    float library[8], eager[8], captured[8];
    descend(0, false, library);
    descend(1, false, eager);
    descend(1, true, captured);
    for (int i = 0; i < 8; i++) assert_near(eager[i], library[i], 1e-6);
    assert_memory_equal(eager, captured, sizeof eager);
}

static void a_rule_that_goes_wrong_changes_nothing(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 9 });
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(6, 3))), *y = cj_keep(cj_randn(c, CJ_SHAPE(6, 2)));
    cj_module *net = cj_sequential(c, cj_linear(c, 3, 2));
    const double momentum = 0.5;
    cj_rule rule = { .name = "heavy_ball",
                     .update = heavy_ball,
                     .states = 1,
                     .state_name = { "m" },
                     .payload = &momentum,
                     .payload_size = sizeof momentum };
    cj_optim *opt = cj_custom_optim(cj_module_params(net), &rule);
    const char *says[] = { "heavy_ball: there is no new value of 0.weight", "heavy_ball: the new m of 0.bias is f32 [], f32 [2] expected",
                           "add:" };
    float before[8], after[8];
    flat_values(net, before, 8);
    for (fault = 1; fault <= 3; fault++) {
        cj_scope s = cj_scope_open(c);
        assert_false(cj_minimise(opt, cj_mse_loss(cj_forward(net, x), y)));
        assert_says(c, says[fault - 1]);
        cj_clear(c);
        cj_scope_close(s);
        flat_values(net, after, 8);
        assert_memory_equal(before, after, sizeof before);
        assert_int_equal(cj_optim_steps(opt), 0);
    }
    fault = 0;
    cj_scope s = cj_scope_open(c);
    assert_true(cj_minimise(opt, cj_mse_loss(cj_forward(net, x), y)));
    cj_scope_close(s);
    assert_false(cj_optim_group(opt, "bias", 1, 0));
    assert_says(c, "optim_group: a rule written in operators has no groups");
    cj_clear(c);
    rule.states = 5;
    assert_null(cj_custom_optim(cj_module_params(net), &rule));
    assert_says(c, "heavy_ball: 5 states; 0 to 4 are possible");
    cj_clear(c);
    rule.states = 1;
    assert_null(cj_custom_optim(cj_module_params(net), &rule, .lr = NAN));
    assert_says(c, "heavy_ball: learning rate nan; it must be finite");
    cj_clear(c);
    assert_null(cj_custom_optim(cj_module_params(net), NULL));
    assert_says(c, "custom_optim: the rule needs a name and an update");
    cj_clear(c);
    assert_null(cj_adadelta(cj_module_params(net), .rho = 1));
    assert_says(c, "adadelta: rho 1; it must be in [0, 1)");
    cj_clear(c);
    assert_null(cj_radam(cj_module_params(net), .beta2 = 0.5));
    assert_says(c, "radam: beta2 0.5; it must be more than 0.6");
    cj_clear(c);
    assert_null(cj_rprop(cj_module_params(net), .shrink = 2));
    assert_says(c, "rprop: shrink 2, grow 1.2");
    cj_clear(c);
    assert_null(cj_asgd(cj_module_params(net), .lambda = -1));
    assert_says(c, "asgd: lambda -1; it must be finite and not negative");
    cj_ctx_free(c);
}

/* Half-precision parameters: an f32 master is updated and rounded. 0.01·1e-3 steps would vanish in bf16 near 1. */
static cj_tensor *down(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)c, (void)payload, (void)g, (void)state, (void)t;
    return cj_sub(p, lr);
}
static const cj_module_type plain = { .name = "plain" };
static void half_precision_has_a_master(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *m = cj_module_new(c, &plain, 1);
    cj_tensor *w = cj_module_param(m, "w", cj_full(c, 1, CJ_SHAPE(3), CJ_BF16));
    const cj_rule rule = { .name = "down", .update = down };
    cj_optim *opt = cj_custom_optim(cj_module_params(m), &rule, .lr = 1e-3);
    for (int n = 0; n < 500; n++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(opt, cj_sum(w)));
        cj_scope_close(s);
    }
    assert_near(cj_item(cj_select(cj_cast(cj_detach(w), CJ_F32), 0, 0)), 0.5, 0.002); /* bf16 near 0.5 has steps of 2^-9 */
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimiser_learns_the_digits),
        cmocka_unit_test(an_optimiser_given_after_a_rate_keeps_the_rate),
        cmocka_unit_test(schedules_have_their_shapes),
        cmocka_unit_test(with_averages_and_parts_every_optimiser_resumes_to_the_bit),
        cmocka_unit_test(parts_of_a_batch_are_the_batch),
        cmocka_unit_test(the_module_has_the_moving_average),
        cmocka_unit_test(numbers_have_a_point_in_any_locale),
        cmocka_unit_test(wrong_settings_are_sentences),
        cmocka_unit_test(a_rule_from_outside_is_an_optimiser_like_any_other),
        cmocka_unit_test(a_rule_that_goes_wrong_changes_nothing),
        cmocka_unit_test(half_precision_has_a_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
