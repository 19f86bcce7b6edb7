/* Contexts are independent: N of them in N threads give the bits of running alone; one of them can be cancelled from outside; the number of threads inside
 * a context changes no bit.        ctest: threads */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "support.h"

enum { WORKERS = 4, STEPS = 12 };

/* A training run that differs with its number: eager for even ones, a captured plan for odd ones. */
typedef struct run {
    int number, threads;
    int64_t rows, hidden;
    int steps;
    double loss[64];
    snapshot end;
    char error[CJ_MAX_MESSAGE];
} run;

static void net_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out) { rig_captured(c, user, in, out); }

static void train(run *r)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = r->threads, .seed = 100 + (uint64_t)r->number });
    rig g = { .c = c };
    cj_scope s = cj_scope_open(c);
    g.net = cj_sequential(c, cj_linear(c, 6, r->hidden), cj_layer_norm_layer(c, r->hidden), cj_gelu_layer(c), cj_dropout_layer(c, 0.2),
                          cj_linear(c, r->hidden, 3));
    g.opt = r->number % 3 ? cj_adam(cj_module_params(g.net), .lr = 0.01, .clip_norm = 1)
                          : cj_sgd(cj_module_params(g.net), .lr = 0.05, .momentum = 0.9);
    g.x = cj_keep(cj_randn(c, CJ_SHAPE(r->rows, 6)));
    g.y = cj_keep(cj_randint(c, 0, 3, CJ_SHAPE(r->rows)));
    cj_scope_close(s);
    cj_tensor *in[2] = { g.x, g.y };
    cj_plan *p = NULL;
    for (int i = 0; i < r->steps && cj_ok(c); i++) {
        s = cj_scope_open(c);
        cj_tensor *out[1] = { NULL };
        if (r->number % 2) {
            if (!p) p = cj_capture(c, net_step, &g, in, 2, out);
            else cj_replay(p, in, out);
        } else {
            net_step(c, &g, in, out);
        }
        r->loss[i] = cj_item(out[0]);
        cj_scope_close(s);
    }
    snprintf(r->error, sizeof r->error, "%s", cj_message(c));
    r->end = snapshot_of(&g);
    cj_ctx_free(c);
}

static void *train_thread(void *r)
{
    train(r);
    return NULL;
}

static void assert_same_run(const run *a, const run *b)
{
    assert_string_equal(a->error, "");
    assert_string_equal(b->error, "");
    assert_memory_equal(a->loss, b->loss, sizeof a->loss[0] * (size_t)a->steps);
    assert_true(a->end.n > 0 && snapshot_same(&a->end, &b->end));
}

static run make_run(int number, int threads, int64_t rows, int64_t hidden, int steps)
{
    return (run){ .number = number, .threads = threads, .rows = rows, .hidden = hidden, .steps = steps };
}

static void contexts_equal_alone(void **state)
{
    (void)state;
    run alone[WORKERS], together[WORKERS];
    pthread_t t[WORKERS];
    for (int i = 0; i < WORKERS; i++) alone[i] = together[i] = make_run(i, 1 + i % 2, 16 + 8 * i, 8 + 4 * i, STEPS);
    for (int i = 0; i < WORKERS; i++) train(&alone[i]);
    for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&t[i], NULL, train_thread, &together[i]), 0);
    for (int i = 0; i < WORKERS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        assert_same_run(&alone[i], &together[i]);
        if (i) assert_false(snapshot_same(&alone[i].end, &alone[0].end)); /* they are different runs */
        snapshot_free(&alone[i].end);
        snapshot_free(&together[i].end);
    }
}

/* Large enough that products, rows, reductions and updates are cut into several chunks. */
static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int number = 0; number < 2; number++) {
        run one = make_run(number, 1, 700, 160, 5);
        train(&one);
        for (int threads = 2; threads <= 3; threads++) {
            run more = make_run(number, threads, 700, 160, 5);
            train(&more);
            assert_same_run(&one, &more);
            snapshot_free(&more.end);
        }
        snapshot_free(&one.end);
    }
}

/* ---- cancelled from outside ------------------------------------------------------------------------------------------------------------------ */

typedef struct stopper {
    cj_ctx *c;
    atomic_int steps;
} stopper;

static void *stop_later(void *arg)
{
    stopper *s = arg;
    while (atomic_load(&s->steps) < 3) sched_yield();
    cj_cancel(s->c);
    return NULL;
}

static void cancelled_by_another_thread(void **state)
{
    (void)state;
    for (int planned = 0; planned < 2; planned++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 7 });
        rig r;
        assert_true(rig_build(&r, c, 64));
        stopper s = { .c = c };
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, stop_later, &s), 0);
        cj_tensor *in[2] = { r.x, r.y };
        cj_plan *p = planned ? cj_capture(c, rig_captured, &r, in, 2, NULL) : NULL;
        long steps = planned;
        while (planned ? cj_replay(p, in, NULL) : rig_step(&r)) {
            steps++;
            atomic_fetch_add(&s.steps, 1);
        }
        pthread_join(t, NULL);
        assert_error(c, CJ_ECANCELLED, "cancelled");
        snapshot before = snapshot_of(&r);
        assert_false(rig_step(&r));
        snapshot after = snapshot_of(&r);
        assert_true(snapshot_same(&before, &after));
        cj_clear(c);
        assert_int_equal(cj_optim_steps(r.opt), steps); /* whole steps only */
        assert_true(rig_step(&r));
        snapshot_free(&before);
        snapshot_free(&after);
        cj_ctx_free(c);
    }
}

/* cj_cancel in a signal handler. */
static cj_ctx *signalled;
static void on_signal(int number)
{
    (void)number;
    cj_cancel(signalled);
}
static void cancelled_by_a_signal(void **state)
{
    (void)state;
    signalled = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    struct sigaction act = { .sa_handler = on_signal }, old;
    sigaction(SIGUSR1, &act, &old);
    cj_tensor *x = cj_ones(signalled, CJ_SHAPE(2), CJ_F32);
    raise(SIGUSR1);
    assert_true(cj_is_poison(cj_neg(x)));
    assert_error(signalled, CJ_ECANCELLED, "cancelled");
    sigaction(SIGUSR1, &old, NULL);
    cj_ctx_free(signalled);
}

/* The allocator callback is called by one thread at a time per context, but shared by contexts. */
static counter shared;
static void *train_counted(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = seed, .alloc = counting_alloc, .alloc_user = &shared });
    rig r;
    bool ok = rig_build(&r, c, 32);
    for (int i = 0; i < 5; i++) ok = ok && rig_step(&r);
    cj_ctx_free(c);
    return ok ? (void *)1 : NULL;
}
static void one_allocator_for_all(void **state)
{
    (void)state;
    pthread_t t[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&t[i], NULL, train_counted, (void *)(i + 1)), 0);
    for (int i = 0; i < WORKERS; i++) {
        void *ok;
        pthread_join(t[i], &ok);
        assert_non_null(ok);
    }
    assert_true(shared.allocs > 0);
    assert_balanced(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_equal_alone),  cmocka_unit_test(threads_change_no_bit), cmocka_unit_test(cancelled_by_another_thread),
        cmocka_unit_test(cancelled_by_a_signal), cmocka_unit_test(one_allocator_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
