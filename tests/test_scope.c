/* Lifetimes: who owns what, when memory comes back, what outlives a scope. */
#include "support.h"

#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)

static cj_ctx *fresh(void) { return cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }); }

static void scope_frees_everything(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    cj_memory before = cj_memory_stats(c);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope a = cj_scope_open(c);
        cj_tensor *x = cj_require_grad(F(100, 100));
        cj_scope b = cj_scope_open(c);
        cj_tensor *y = cj_sum(cj_exp(cj_matmul(x, x)));
        assert_true(cj_item(y) > 0);
        assert_int_equal(c->tape_n, 3);
        uint64_t inside = cj_memory_stats(c).tensors;
        cj_scope_close(b);
        assert_true(cj_memory_stats(c).tensors < inside);
        assert_int_equal(c->tape_n, 0); /* the graph goes with its scope */
        assert_true(cj_item(cj_sum(x)) == 10000);
        cj_scope_close(a);
    }
    cj_memory after = cj_memory_stats(c);
    assert_int_equal(after.tensors, before.tensors);
    assert_true(after.live < 60000 && after.peak > 3 * 40000);
    /* a running program asks the system for nothing new */
    uint64_t allocs = 0;
    for (int turn = 0; turn < 10; turn++) {
        if (turn == 1) allocs = cj_memory_stats(c).system_allocs;
        cj_scope s = cj_scope_open(c);
        cj_sum(cj_exp(cj_matmul(F(100, 100), F(100, 100))));
        cj_scope_close(s);
    }
#if !defined __SANITIZE_ADDRESS__
    assert_int_equal(cj_memory_stats(c).system_allocs, allocs);
#else
    (void)allocs;
#endif
    cj_ctx_free(c);
}

static void keep_and_release(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F(2, 3)), *y = cj_mul_scalar(x, 2), *view = cj_t(y);
    cj_tensor *k = cj_keep(y), *kv = cj_keep(view), *plain = cj_keep(F(2));
    assert_ptr_equal(cj_data(k), cj_data(y)); /* shares memory */
    assert_false(cj_requires_grad(k));
    cj_scope_close(s);
    s = cj_scope_open(c);
    assert_true(cj_item(cj_sum(k)) == 12);
    cj_scope_close(s);
    assert_int_equal(cj_size(kv, 0), 3);
    assert_int_equal(cj_stride(kv, 1), 3);
    assert_ptr_equal(cj_data(kv), cj_data(k));
    /* differentiating through it is an error, never a zero */
    cj_tensor *g;
    s = cj_scope_open(c);
    assert_false(cj_grad(cj_sum(k), &k, 1, &g));
    assert_error(c, CJ_EGRAPH, "grad");
    cj_clear(c);
    assert_false(cj_grad(k, &k, 1, &g, .seed = k));
    assert_error(c, CJ_EGRAPH, "kept and its graph cut; differentiate before cj_keep");
    cj_clear(c);
    cj_tensor *leaf = cj_require_grad(F(2));
    assert_false(cj_grad(cj_sum(leaf), &k, 1, &g));
    assert_error(c, CJ_EGRAPH, "x[0] does not require gradients (kept: its graph was cut)");
    cj_clear(c);
    assert_false(cj_grad(cj_sum(leaf), &plain, 1, &g));
    assert_error(c, CJ_EGRAPH, "x[0] does not require gradients (");
    assert_null(strstr(cj_message(c), "kept"));
    cj_clear(c);
    cj_scope_close(s);
    size_t live = cj_memory_stats(c).live;
    cj_release(k);
    assert_int_equal(cj_memory_stats(c).live, live); /* the view still holds the storage */
    s = cj_scope_open(c);
    assert_true(cj_item(cj_sum(kv)) == 12);
    cj_scope_close(s);
    cj_release(kv);
    assert_true(cj_memory_stats(c).live < live);
    cj_release(plain);
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    /* releasing a temporary is no release */
    s = cj_scope_open(c);
    cj_tensor *t = F(2);
    cj_release(t);
    assert_true(cj_item(cj_sum(t)) == 2);
    cj_scope_close(s);
    /* what is not released goes with the context (ASan) */
    cj_keep(F(1000));
    cj_ctx_free(c);
}

static void scope_return_hands_over(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    cj_scope a = cj_scope_open(c);
    cj_tensor *persistent = cj_keep(F(3));
    cj_tensor *outer = F(4);
    cj_scope b = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F(2, 2)), *y = cj_mul_scalar(x, 3);
    cj_tensor *r = cj_scope_return(b, cj_slice(y, 0, 1, 2, 1));
    assert_true(cj_item(cj_sum(r)) == 6);
    assert_int_equal(cj_size(r, 0), 1);
    assert_false(cj_requires_grad(r));
    assert_int_equal(c->tape_n, 0);
    cj_tensor *g;
    assert_false(cj_grad(r, &r, 1, &g, .seed = r));
    assert_error(c, CJ_EGRAPH, "graph cut");
    cj_clear(c);
    b = cj_scope_open(c);
    assert_ptr_equal(cj_scope_return(b, outer), outer); /* what lives longer is handed out as it is */
    b = cj_scope_open(c);
    assert_ptr_equal(cj_scope_return(b, persistent), persistent);
    assert_int_equal(c->depth, 2);
    b = cj_scope_open(c);
    cj_scope d = cj_scope_open(c);
    assert_true(cj_is_poison(cj_scope_return(b, F(2)))); /* not the innermost one */
    assert_error(c, CJ_ESTATE, "is not the innermost one");
    cj_clear(c);
    cj_scope_close(d);
    cj_scope_close(b);
    b = cj_scope_open(c);
    cj_fail(c, CJ_EVALUE, "broken");
    assert_true(cj_is_poison(cj_scope_return(b, outer)));
    cj_clear(c);
    assert_int_equal(c->depth, 2);
    cj_scope_close(a);
    cj_release(persistent);
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    cj_ctx_free(c);
}

/* A module runs in a frame of its own: its temporaries are gone when it returns, the graph is not. */
static void forward_keeps_nothing(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    cj_module *stages[17] = { NULL };
    for (int i = 0; i < 16; i++) stages[i] = i % 2 ? cj_tanh_layer(c) : cj_sigmoid_layer(c);
    cj_module *net = (cj_sequential)(c, stages);
    enum { SIDE = 200, BYTES = SIDE * SIDE * 4 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F(SIDE, SIDE);
    bool was = cj_no_grad(c);
    cj_memory before = cj_memory_stats(c);
    cj_memory_reset_peak(c);
    cj_tensor *y = cj_forward(net, x);
    cj_memory after = cj_memory_stats(c);
    assert_true(after.live - before.live < 1.4 * BYTES);
    assert_true(after.peak - before.live < 3 * BYTES);
    assert_int_equal(after.tensors, before.tensors + 1);
    assert_true(isfinite(cj_item(cj_sum(y))));
    cj_grad_mode(c, was);
    /* with a graph: tanh and sigmoid save their results, one each */
    cj_tensor *leaf = cj_require_grad(x), *g;
    before = cj_memory_stats(c);
    y = cj_forward(net, leaf);
    after = cj_memory_stats(c);
    assert_true(after.live - before.live > 15 * BYTES && after.live - before.live < 22 * BYTES);
    assert_true(cj_grad(cj_sum(y), &leaf, 1, &g));
    assert_true(cj_memory_stats(c).live - before.live < 5 * BYTES); /* the pass has consumed the graph */
    assert_int_equal(c->tape_n, 0);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* The tape holds data only where a rule reads it: sums and additions save nothing. */
static void tape_saves_only_what_it_needs(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    enum { N = 20000 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F(N)), *g;
    cj_memory before = cj_memory_stats(c);
    int frame = cj__frame_open(c);
    cj_tensor *y = x;
    for (int i = 0; i < 10; i++) y = cj_add_scalar(y, 1);
    y = cj_sum(y);
    cj__frame_close(c, frame, &y, 1);
    assert_true(cj_memory_stats(c).live - before.live < N * 4);
    assert_int_equal(c->tape_n, 11);
    assert_true(cj_item(y) == 11.0 * N);
    assert_true(cj_grad(y, &x, 1, &g));
    assert_true(cj_item(cj_sum(g)) == N);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void views_hold_their_storage(void **state)
{
    (void)state;
    cj_ctx *c = fresh();
    cj_scope a = cj_scope_open(c);
    cj_scope b = cj_scope_open(c);
    cj_tensor *x = cj_arange(c, 0, 1000, 1, CJ_F32);
    cj_tensor *row = cj_scope_return(b, cj_select(cj_reshape(x, CJ_SHAPE(10, 100)), 0, 7));
    for (int i = 0; i < 20; i++) cj_full(c, -1, CJ_SHAPE(1000), CJ_F32); /* would reuse the block if it were free */
    assert_true(cj_item(cj_select(row, 0, 5)) == 705);
    assert_true(cj_item(cj_sum(row)) == 74950);
    cj_scope_close(a);
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    cj_ctx_free(c);
}

static void memory_statistics(void **state)
{
    (void)state;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
    cj_scope s = cj_scope_open(c);
    cj_memory m = cj_memory_stats(c);
    assert_int_equal(m.held, k.bytes);
    assert_int_equal(m.system_allocs, k.allocs);
    cj_tensor *x = F(1000);
    m = cj_memory_stats(c);
    assert_int_equal(m.held, k.bytes);
    assert_int_equal(m.tensors, 1);
    assert_true(m.live >= 4000 && m.live <= m.held && m.peak >= m.live);
    cj_scope_close(s);
    size_t peak = cj_memory_stats(c).peak;
    assert_true(peak >= m.live);
    cj_memory_reset_peak(c);
    assert_true(cj_memory_stats(c).peak < peak);
    assert_int_equal(cj_memory_stats(c).peak, cj_memory_stats(c).live);
    cj_memory_trim(c);
    m = cj_memory_stats(c);
    assert_int_equal(m.held, k.bytes);
    assert_true(m.held < 4000 + 64000);
    /* every size class comes back as it went */
    for (size_t n = 1; n < 300000; n = n * 9 / 8 + 1) {
        size_t held = cj_memory_stats(c).held, live = cj_memory_stats(c).live;
        s = cj_scope_open(c);
        x = cj_zeros(c, CJ_SHAPE((int64_t)n), CJ_U8);
        assert_true(cj_memory_stats(c).live - live >= n);
        assert_true((double)(cj_memory_stats(c).live - live) <= 1.3 * (double)n + 3 * 64 + 64); /* at most a fifth is lost, and the head */
        assert_int_equal((uintptr_t)cj_data(x) % 64, 0);
        cj_scope_close(s);
        assert_int_equal(cj_memory_stats(c).live, live);
        cj_memory_trim(c);
        assert_int_equal(cj_memory_stats(c).held, held);
        assert_int_equal(cj_memory_stats(c).held, k.bytes);
    }
    /* a block is as long as asked for on both sides of every class's end, and at most a quarter and a line longer */
    for (size_t end = 64; end <= 1 << 16; end += end / 64 * 16) {
        for (size_t n = end - 1; n <= end + 1; n++) {
            size_t live = cj_memory_stats(c).live;
            void *p = cj__alloc(c, n);
            size_t got = cj_memory_stats(c).live - live;
            assert_true(p && got >= n && got <= n + n / 4 + 64);
            cj__free(c, p, n);
            assert_int_equal(cj_memory_stats(c).live, live);
        }
    }
    cj_ctx_free(c);
    assert_balanced(&k);
}

/* A cap is a cap: caches are given back before a request is refused. */
static void cap_trims_first(void **state)
{
    (void)state;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .memory_cap = 1 << 20, .alloc = counting_alloc, .alloc_user = &k });
    for (int64_t n = 1000; n < 200000; n += 9000) { /* each in another class; all together far above the cap */
        cj_scope s = cj_scope_open(c);
        assert_false(cj_is_poison(F(n)));
        cj_scope_close(s);
        assert_true((size_t)k.bytes <= 1 << 20);
    }
    assert_ok(c);
    cj_scope s = cj_scope_open(c);
    assert_true(cj_is_poison(F(300000)));
    assert_error(c, CJ_EMEMORY, "memory cap reached");
    cj_clear(c);
    assert_false(cj_is_poison(F(100000)));
    cj_scope_close(s);
    cj_ctx_free(c);
    assert_balanced(&k);
}

/* In debug contexts every closed header is remembered; nothing else changes. */
static void debug_context_trains(void **state)
{
    (void)state;
    cj_ctx *a = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3, .debug = true }),
           *b = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3 });
    rig x, y;
    assert_true(rig_build(&x, a, 7) && rig_build(&y, b, 7));
    for (int i = 0; i < 5; i++) assert_true(rig_step(&x) && rig_step(&y));
    snapshot s = snapshot_of(&x), t = snapshot_of(&y);
    assert_true(snapshot_same(&s, &t));
    assert_int_equal(cj_memory_stats(a).tensors, cj_memory_stats(b).tensors);
    snapshot_free(&s);
    snapshot_free(&t);
    cj_ctx_free(a);
    cj_ctx_free(b);
}

static void log_callback(void *user, cj_log_level level, const char *message) { (void)level, snprintf(user, 64, "%s", message); }

static void context_options(void **state)
{
    (void)state;
    char line[64] = "";
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 3, .isa = "portable", .log = log_callback, .log_user = line });
    assert_string_equal(cj_ctx_isa(c), "portable");
    assert_string_equal(cj_ctx_device(c), "cpu");
    assert_int_equal(cj_ctx_threads(c), 3);
    cj__log(c, CJ_LOG_INFO, "step %d", 7);
    assert_string_equal(line, "step 7");
    cj_ctx_free(c);
    setenv("CAJAL_THREADS", "2", 1);
    c = cj_ctx_new(NULL);
    assert_int_equal(cj_ctx_threads(c), 2);
    cj_ctx_free(c);
    unsetenv("CAJAL_THREADS");
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 100000 });
    assert_true(cj_ctx_threads(c) <= CJ_MAX_THREADS && cj_ctx_threads(c) >= 1);
    cj_ctx_free(c);
    assert_string_equal(cj_version(), CJ_VERSION);
}

/* Seeds and streams: a draw depends on (seed, stream, call) alone. */
static void random_streams(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 11 });
    cj_tensor *a = cj_randn(c, CJ_SHAPE(50)), *b = cj_randn(c, CJ_SHAPE(50));
    assert_false(same_bits(a, b));
    cj_rng_state now = cj_rng_get(c);
    assert_int_equal(now.seed, 11);
    assert_int_equal(now.call[CJ_STREAM_USER], 2);
    assert_int_equal(now.call[CJ_STREAM_DROPOUT], 0);
    cj_dropout(F(3));
    assert_int_equal(cj_rng_get(c).call[CJ_STREAM_DROPOUT], 1);
    assert_int_equal(cj_rng_get(c).call[CJ_STREAM_USER], 2);
    cj_tensor *d = cj_randn(c, CJ_SHAPE(50));
    cj_rng_set(c, now);
    assert_true(same_bits(d, cj_randn(c, CJ_SHAPE(50))));
    cj_seed(c, 11);
    assert_true(same_bits(a, cj_randn(c, CJ_SHAPE(50))));
    assert_true(same_bits(b, cj_randn(c, CJ_SHAPE(50))));
    cj_seed(c, 12);
    assert_false(same_bits(a, cj_randn(c, CJ_SHAPE(50))));
    cj_seed(c, 11);
    assert_false(same_bits(a, cj_randn(c, CJ_SHAPE(50), .stream = CJ_STREAM_INIT)));
    /* a draw that fails takes no number */
    now = cj_rng_get(c);
    cj_randn(c, CJ_SHAPE(-1));
    cj_clear(c);
    cj_rng_state after = cj_rng_get(c);
    assert_memory_equal(&now, &after, sizeof now);
    cj_ctx_free(c);
}

/* A scope that could not be opened is none: closing it closes nothing. */
static void too_many_scopes(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *x = cj_ones(c, CJ_SHAPE(3), CJ_F32);
    cj_scope open[CJ_MAX_SCOPES];
    int n = 0;
    while (cj_ok(c)) open[n++] = cj_scope_open(c);
    assert_error(c, CJ_ESTATE, "scope: more than 63 scopes are open");
    cj_clear(c);
    cj_tensor *inner = cj_add_scalar(x, 1);
    cj_scope_close(open[--n]);
    assert_near(cj_item(cj_sum(inner)), 6, 0);
    while (n > 0) cj_scope_close(open[--n]);
    assert_near(cj_item(cj_sum(x)), 3, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Messages are cut at their length, whatever is added to them. */
static void long_messages(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    char words[2 * CJ_MAX_MESSAGE];
    for (int n = CJ_MAX_MESSAGE - 40; n < CJ_MAX_MESSAGE + 40; n++)
        for (int called = 0; called < 2; called++) {
            memset(words, 'x', (size_t)n);
            words[n] = 0;
            if (called) c->called = (cj_called){ .op = "lossy" };
            cj_fail(c, CJ_EVALUE, "%s", words);
            const char *message = cj_message(c);
            const size_t length = strlen(message), before = called ? strlen("lossy: ") : 0;
            assert_true(length < CJ_MAX_MESSAGE);
            if (called) assert_memory_equal(message, "lossy: ", before);
            const size_t kept = (size_t)n + before < CJ_MAX_MESSAGE ? (size_t)n : CJ_MAX_MESSAGE - 1 - before;
            assert_memory_equal(message + before, words, kept);
            c->called = (cj_called){ 0 };
            cj_clear(c);
        }
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scope_frees_everything),
        cmocka_unit_test(keep_and_release),
        cmocka_unit_test(scope_return_hands_over),
        cmocka_unit_test(forward_keeps_nothing),
        cmocka_unit_test(tape_saves_only_what_it_needs),
        cmocka_unit_test(views_hold_their_storage),
        cmocka_unit_test(memory_statistics),
        cmocka_unit_test(cap_trims_first),
        cmocka_unit_test(debug_context_trains),
        cmocka_unit_test(context_options),
        cmocka_unit_test(random_streams),
        cmocka_unit_test(too_many_scopes),
        cmocka_unit_test(long_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
