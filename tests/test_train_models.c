/* What models may bring to the loop: parts with optimisers of their own, a closed-form fit, a loss of their own; and how a run ends early, goes wrong, and is seen by
 * TensorBoard. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cajal/cajal.h"
#include "support.h"

/* ---- two players ------------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *scalar_param(cj_module *m) { return cj_params_at(cj_module_params(m), 0); }
static const cj_module_type player_type = { "Player", NULL, NULL };
static const char *const players[] = { "left", "right", NULL };

/* left minimises (a - 1)², then right minimises (b - a)², with a as left has just made it. */
static cj_tensor *two_steps(cj_module *m, cj_optim *const *optim, cj_tensor *x, cj_tensor *y)
{
    (void)x, (void)y;
    cj_tensor *a = scalar_param(cj_module_find(m, "left")), *b = scalar_param(cj_module_find(m, "right"));
    cj_tensor *loss = cj_sum(cj_square(cj_add_scalar(a, -1)));
    cj_minimise(optim[0], loss);
    cj_minimise(optim[1], cj_sum(cj_square(cj_sub(b, cj_detach(a)))));
    return cj_detach(loss);
}
static const cj_model game = { .name = "game", .task = CJ_TASK_GENERATE, .parts = players, .step = two_steps };

typedef struct game_job {
    cj_ctx *c;
    cj_module *net;
    cj_examples rows;
    int64_t stop_at;
    cj_examples watched;
} game_job;

static bool stopping_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    game_job *j = e->user;
    bool ok = j->rows.batch(c, &j->rows, epoch, index, x, y);
    if (j->stop_at && --j->stop_at == 0) cj_cancel(c); /* after the batch: the step itself is under way */
    return ok;
}

static void open_game(game_job *j)
{
    *j = (game_job){ .c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3, .threads = 1 }) };
    cj_scope s = cj_scope_open(j->c);
    j->net = cj_module_new(j->c, &player_type, 0);
    for (int i = 0; i < 2; i++) {
        cj_module *p = cj_module_add(j->net, players[i], cj_module_new(j->c, &player_type, 0));
        cj_module_param(p, "weight", cj_full(j->c, i ? -2 : 4, CJ_SHAPE(1), CJ_F32));
    }
    cj_tensor *x = cj_keep(cj_zeros(j->c, CJ_SHAPE(6, 1), CJ_F32));
    cj_examples_of_rows(x, x, &j->rows);
    j->watched = (cj_examples){ .n = 6, .batch = stopping_batch, .user = j };
    cj_scope_close(s);
}

static cj_train_result play(game_job *j, const char *folder, bool resume)
{
    return cj_train(j->net, &j->watched, .task = CJ_TASK_GENERATE, .model = &game, .optimiser = CJ_SGD, .lr = 0.1, .batch = 2, .steps = 10,
                    .folder = folder, .resume = resume);
}

static void each_part_has_its_optimiser(void **state)
{
    (void)state;
    game_job j;
    open_game(&j);
    assert_true(play(&j, NULL, false).finished);
    double a = 4, b = -2; /* the same by hand */
    for (int i = 0; i < 10; i++) {
        a -= 0.1 * 2 * (a - 1);
        b -= 0.1 * 2 * (b - a);
    }
    assert_float_equal(cj_item(scalar_param(cj_module_find(j.net, "left"))), a, 1e-5);
    assert_float_equal(cj_item(scalar_param(cj_module_find(j.net, "right"))), b, 1e-5);
    cj_ctx_free(j.c);
}

static void a_cancelled_step_of_several_updates_is_whole(void **state)
{
    (void)state;
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/cajal-game-%d", (int)getpid());
    for (int64_t stop = 1; stop <= 10; stop += 3) {
        game_job whole, cut;
        open_game(&whole);
        assert_true(play(&whole, NULL, false).finished);
        open_game(&cut);
        cut.stop_at = stop;
        cj_run_clear(folder);
        cj_train_result r = play(&cut, folder, false);
        assert_int_equal(r.step, stop); /* not stop - 1: what had begun was finished */
        cj_ctx_free(cut.c);
        open_game(&cut);
        assert_true(play(&cut, folder, true).finished);
        for (int i = 0; i < 2; i++)
            assert_true(cj_item(scalar_param(cj_module_find(cut.net, players[i]))) ==
                        cj_item(scalar_param(cj_module_find(whole.net, players[i]))));
        cj_ctx_free(cut.c);
        cj_ctx_free(whole.c);
    }
    cj_run_clear(folder);
    rmdir(folder);
}

static void a_part_that_is_not_there(void **state)
{
    (void)state;
    game_job j;
    open_game(&j);
    static const char *const wrong[] = { "left", "middle", NULL };
    cj_model m = game;
    m.parts = wrong;
    assert_false(cj_train(j.net, &j.rows, .task = CJ_TASK_GENERATE, .model = &m, .steps = 1).finished);
    assert_non_null(strstr(cj_message(j.c), "game has no part 'middle'"));
    cj_ctx_free(j.c);
}

/* ---- a solution instead of steps ------------------------------------------------------------------------------------------------------------------ */

static bool fit_means(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)x;
    cj_assign_(scalar_param(m), cj_mean(y, .axes = CJ_AXIS(0)));
    return cj_ok(cj_module_ctx(m));
}
static cj_tensor *constant_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return cj_expand(cj_reshape(scalar_param(m), CJ_SHAPE(1, 1)), CJ_SHAPE(cj_size(x, 0), 1));
}
static const cj_module_type constant_type = { "Constant", constant_forward, NULL };

static void a_fit_sees_all_rows_once(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    cj_module *m = cj_module_new(c, &constant_type, 0);
    cj_module_param(m, "weight", cj_zeros(c, CJ_SHAPE(1), CJ_F32));
    const float values[5] = { 1, 2, 4, 8, 10 };
    cj_tensor *y = cj_keep(cj_from_f32(c, values, CJ_SHAPE(5, 1)));
    cj_examples e;
    cj_examples_of_rows(y, y, &e);
    const cj_model mean = { .name = "mean", .task = CJ_TASK_REGRESS, .fit = fit_means };
    cj_train_result r = cj_train(m, &e, .task = CJ_TASK_REGRESS, .model = &mean, .batch = 2, .epochs = 7, .val = &e);
    assert_true(r.finished);
    assert_int_equal(r.step, 1);
    assert_float_equal(cj_item(scalar_param(m)), 5, 1e-6);
    assert_float_equal(r.loss, 12, 1e-5); /* (16 + 9 + 1 + 9 + 25)/5 */
    assert_float_equal(r.val.loss, 12, 1e-5);
    cj_ctx_free(c);
}

/* ---- a loss of its own ------------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *distance_loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)y;
    return cj_mean(cj_square(cj_sub(x, cj_reshape(scalar_param(m), CJ_SHAPE(1, 1)))));
}

static void tasks_without_a_usual_loss_need_one(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    cj_module *m = cj_module_new(c, &player_type, 0);
    cj_module_param(m, "weight", cj_zeros(c, CJ_SHAPE(1), CJ_F32));
    const float values[4] = { 1, 3, 5, 7 };
    cj_tensor *x = cj_keep(cj_from_f32(c, values, CJ_SHAPE(4, 1)));
    cj_examples e;
    cj_examples_of_rows(x, x, &e);
    assert_false(cj_train(m, &e, .task = CJ_TASK_GENERATE, .steps = 1).finished);
    assert_non_null(strstr(cj_message(c), "the model must bring its own"));
    cj_clear(c);
    const cj_model model = { .name = "centre", .task = CJ_TASK_GENERATE, .loss = distance_loss };
    cj_train_result r =
        cj_train(m, &e, .task = CJ_TASK_GENERATE, .model = &model, .val = &e, .optimiser = CJ_SGD, .lr = 0.5, .batch = 4, .steps = 3);
    assert_true(r.finished);
    assert_float_equal(r.val.loss, 5, 1e-5); /* one step reaches the mean, 4 */
    assert_true(isnan(r.val.accuracy));
    assert_float_equal(r.best, 5, 1e-5);
    cj_ctx_free(c);
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------------------------------- */

static void patience_ends_a_run_that_gets_no_better(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    cj_module *m = cj_linear(c, 1, 1, .no_bias = true);
    cj_tensor *x = cj_keep(cj_ones(c, CJ_SHAPE(4, 1), CJ_F32)), *y = cj_keep(cj_full(c, 2, CJ_SHAPE(4, 1), CJ_F32));
    cj_tensor *other = cj_keep(cj_full(c, 1, CJ_SHAPE(4, 1), CJ_F32));
    cj_init_constant_(scalar_param(m), 0);
    cj_examples train, val;
    cj_examples_of_rows(x, y, &train);
    cj_examples_of_rows(x, other, &val); /* w goes from 0 to 2; on the way it passes 1, after which validation only gets worse */
    cj_train_result r = cj_train(m, &train, .task = CJ_TASK_REGRESS, .val = &val, .optimiser = CJ_SGD, .lr = 0.05, .batch = 4, .steps = 100,
                                 .patience = 4, .take_best = true);
    if (!r.finished) fail_msg("%s", cj_message(c));
    assert_true(r.stopped_early);
    /* w after n steps is 2(1 - 0.9^n): nearest to 1 at n = 7 (1.0434; 6: 0.9371), so it stops at 7 + 4 or, had 6 been better, at 10 */
    assert_int_equal(r.best_step, 7);
    assert_int_equal(r.step, 11);
    assert_float_equal(cj_item(scalar_param(m)), 2 * (1 - pow(0.9, 7)), 1e-5); /* and has what was best */
    cj_ctx_free(c);
}

static void a_loss_that_goes_wrong_names_step_layer_and_operator(void **state)
{
    (void)state;
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/cajal-wrong-%d", (int)getpid());
    for (int kind = 0; kind < 3; kind++) {
        bool with_folder = kind > 0, overflow = kind == 2; /* of the update itself: lr/(1 - beta1) is beyond f32 */
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
        cj_module *m = cj_sequential(c, cj_linear(c, 3, 4), cj_relu_layer(c), cj_linear(c, 4, 2));
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(8, 3))), *y = cj_keep(cj_randint(c, 0, 2, CJ_SHAPE(8)));
        cj_examples e;
        cj_examples_of_rows(x, y, &e);
        cj_train_result r = cj_train(m, &e, .lr = overflow ? 1e38 : 1e30, .batch = 8, .steps = 9, .folder = with_folder ? folder : NULL);
        assert_false(r.finished);
        assert_int_equal(cj_error(c), CJ_EVALUE);
        assert_non_null(strstr(cj_message(c), "the loss of step 2 is "));
        const char *where = overflow ? "It began in the update of parameter 0.weight in step 1."
                                     : "It began in linear: the result [8, 2] has an infinity, though all its inputs are finite, in 2.";
        assert_true(with_folder == (strstr(cj_message(c), where) != NULL));
        assert_non_null(strstr(cj_message(c), "smaller lr"));
        if (with_folder) { /* the checkpoint is good */
            cj_clear(c);
            assert_int_equal(cj_run_load(m, folder, false), 0);
            double largest = cj_item(cj_max(cj_abs(scalar_param(m))));
            assert_true(largest < 1);
        }
        cj_ctx_free(c);
        cj_run_clear(folder);
    }
    rmdir(folder);
}

/* sqrt has an infinite derivative at 0: the values are fine, the gradient is not, and it is the layer's whose output that is. */
static cj_tensor *root_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return cj_sqrt(cj_mul_scalar(cj_forward(cj_module_child(m, 0), x), 0));
}
static const cj_module_type root_type = { "Root", root_forward, NULL };

static void a_gradient_that_goes_wrong_names_its_layer(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/cajal-gradient-%d", (int)getpid());
    cj_module *root = cj_module_new(c, &root_type, 0);
    cj_module_add(root, "inner", cj_linear(c, 4, 4));
    cj_module *m = cj_sequential(c, cj_linear(c, 3, 4), root, cj_linear(c, 4, 2));
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(8, 3))), *y = cj_keep(cj_randint(c, 0, 2, CJ_SHAPE(8)));
    cj_examples e;
    cj_examples_of_rows(x, y, &e);
    assert_false(cj_train(m, &e, .lr = 0.1, .batch = 8, .steps = 9, .folder = folder).finished);
    assert_non_null(strstr(cj_message(c), "the loss of step 2 is not a number"));
    if (!strstr(cj_message(c), ", in the gradient of 1.")) fail_msg("%s", cj_message(c));
    cj_run_clear(folder);
    rmdir(folder);
    cj_ctx_free(c);
}

static void watching_passes_over_what_was_not_finite_before(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    const float values[2] = { 0, -1 };
    cj_tensor *x = cj_from_f32(c, values, CJ_SHAPE(2)), *inf = cj_mul_scalar(cj_ones(c, CJ_SHAPE(2), CJ_F32), INFINITY);
    assert_false(cj_watch_nonfinite(c, true));
    cj_exp(x);
    cj_mul(inf, x);                          /* NaN, but from an infinity */
    cj_where(cj_gt_scalar(x, -0.5), x, inf); /* a mask */
    assert_true(cj_ok(c));
    cj_log(cj_transpose(cj_reshape(x, CJ_SHAPE(1, 2)), 0, 1));
    assert_non_null(strstr(cj_message(c), "log: the result [2, 1] has an infinity"));
    cj_clear(c);
    cj_sqrt(cj_slice(x, 0, 1, 2, 1));
    assert_non_null(strstr(cj_message(c), "sqrt: the result [1] has a NaN"));
    cj_clear(c);
    assert_true(cj_watch_nonfinite(c, false));
    cj_log(x);
    assert_true(cj_ok(c));
    cj_ctx_free(c);
}

/* ---- TensorBoard -------------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

/* The bytes of a scalar event but for the time, written out by hand, and the checksum of its length. */
static void events_are_records_of_tensorboard(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    char folder[64], command[160], path[256] = "";
    snprintf(folder, sizeof folder, "/tmp/cajal-events-%d", (int)getpid());
    cj_events *e = cj_events_open(c, folder, 5);
    assert_non_null(e);
    assert_true(cj_events_scalar(e, "loss", 300, 0.5));
    cj_events_close(e);
    snprintf(command, sizeof command, "ls %s/events.out.tfevents.*", folder);
    FILE *f = popen(command, "r");
    assert_non_null(fgets(path, sizeof path, f));
    pclose(f);
    path[strcspn(path, "\n")] = 0;
    unsigned char bytes[512];
    f = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f), at = 0;
    fclose(f);
    int records = 0;
    for (; at + 16 <= n; records++) {
        uint64_t size = number(bytes + at, 8);
        const unsigned char *data = bytes + at + 12;
        if (records == 0)
            assert_memory_equal(data + 11,
                                "\x1a\x0d"
                                "brain.Event:2",
                                15);
        if (records == 1) assert_memory_equal(data + 9, "\x10\x05\x3a\x02\x08\x01", 6);
        if (records == 2) {
            assert_memory_equal(data + 9, "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 20 - 2);
            assert_int_equal(size, 9 + 3 + 2 + 13);
            assert_int_equal(number(bytes + at + 8, 4), 0x139e0d1a); /* of 1b 00 00 00 00 00 00 00 */
        }
        at += 16 + size;
    }
    assert_int_equal(at, n);
    assert_int_equal(records, 3);
    remove(path);
    rmdir(folder);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_has_its_optimiser),
        cmocka_unit_test(a_cancelled_step_of_several_updates_is_whole),
        cmocka_unit_test(a_part_that_is_not_there),
        cmocka_unit_test(a_fit_sees_all_rows_once),
        cmocka_unit_test(tasks_without_a_usual_loss_need_one),
        cmocka_unit_test(patience_ends_a_run_that_gets_no_better),
        cmocka_unit_test(a_loss_that_goes_wrong_names_step_layer_and_operator),
        cmocka_unit_test(a_gradient_that_goes_wrong_names_its_layer),
        cmocka_unit_test(watching_passes_over_what_was_not_finite_before),
        cmocka_unit_test(events_are_records_of_tensorboard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
