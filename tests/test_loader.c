/* The loader: batches ahead of the loop are those made on the spot, to the bit, of every kind of examples; resumes, evaluations and odd sizes; training with it is training without it;
 * freed in the middle of its work; no memory.        ctest: threads */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 77);

enum { N = 53, BATCH = 8 };

#define CHANGES                                                                                                                            \
    &(cj_augment_opts) { .flip = 0.5, .pad = 1, .rotate = 10, .noise = 0.05 }

static void data(cj_ctx *k, cj_tensor **x, cj_tensor **y)
{
    unsigned char v[N * 36];
    int64_t t[N];
    for (int i = 0; i < N * 36; i++) v[i] = (unsigned char)(i * 37 % 256);
    for (int i = 0; i < N; i++) t[i] = i % 3;
    *x = cj_keep(cj_from_data(k, v, CJ_U8, CJ_SHAPE(N, 1, 6, 6)));
    *y = cj_keep(cj_from_i64(k, t, CJ_SHAPE(N)));
}

/* Batch `at` of an epoch in the loop's order, from the loader and from the operators. */
static void check(const cj_examples *e, cj_tensor *x, cj_tensor *y, int64_t epoch, int64_t at)
{
    int64_t order[N], n = at + BATCH < N ? BATCH : N - at;
    cj_scope s = cj_scope_open(c);
    cj_data_order(77, epoch, N, order);
    cj_tensor *index = cj_from_i64(c, order + at, CJ_SHAPE(n)), *xb, *yb;
    assert_true(e->batch(c, e, epoch, index, &xb, &yb));
    cj_augment_opts o = *CHANGES;
    o.seed = 77, o.epoch = epoch, o.samples = order + at;
    cj_tensor *want = (cj_augment)(cj_mul_scalar(cj_cast(cj_index_select(x, 0, index), CJ_F32), 1.0 / 255), &o);
    assert_near(distance(xb, want), 0, 3e-7); /* v · (1/255), rounded before or after */
    assert_true(same_bits(yb, cj_index_select(y, 0, index)));
    cj_scope_close(s);
}

/* data.batcher (the loader): every index once per epoch, batches as asked for, the last one shorter, seeded */
static void data_batcher(void **state)
{
    (void)state;
    int64_t order[N], again[N], other[N], seen[N] = { 0 };
    cj_tensor *x, *y;
    data(c, &x, &y);
    cj_tensor *ids = cj_keep(cj_arange(c, 0, N, 1, CJ_I64));
    cj_loader *l = cj_loader_new(x, ids, .batch = BATCH);
    cj_examples e;
    assert_true(cj_examples_of_loader(l, &e) && e.n == N);
    cj_data_order(77, 4, N, order), cj_data_order(77, 4, N, again), cj_data_order(78, 4, N, other);
    assert_memory_equal(order, again, sizeof order);
    assert_memory_not_equal(order, other, sizeof order);
    for (int64_t at = 0, sizes = 0; at < N; at += BATCH, sizes++) {
        int64_t n = at + BATCH < N ? BATCH : N - at, got[BATCH];
        cj_scope s = cj_scope_open(c);
        cj_tensor *xb, *yb;
        assert_true(e.batch(c, &e, 4, cj_from_i64(c, order + at, CJ_SHAPE(n)), &xb, &yb));
        assert_int_equal(cj_size(xb, 0), sizes < 6 ? 8 : 5); /* 53 = 6 · 8 + 5 */
        assert_true(cj_to_i64(yb, got, n));
        for (int64_t i = 0; i < n; i++) seen[got[i]]++;
        cj_scope_close(s);
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    /* with replacement: an index that repeats rows is a batch as any other, and images are warped in it */
    cj_tensor *xb, *yb;
    assert_true(e.batch(c, &e, 0, cj_from_i64(c, (int64_t[]){ 5, 5, 2 }, CJ_SHAPE(3)), &xb, &yb));
    assert_true(value_at(yb, 0) == 5 && value_at(yb, 1) == 5 && value_at(yb, 2) == 2);
    cj_loader_free(l);
    cj_release(x), cj_release(y), cj_release(ids);
}

static void ahead_is_on_the_spot(void **state)
{
    (void)state;
    cj_tensor *x, *y;
    data(c, &x, &y);
    for (int threads = -1; threads <= 3; threads += threads < 0 ? 2 : 1) {
        cj_loader *l = cj_loader_new(x, y, .batch = BATCH, .threads = threads, .ahead = 3, .augment = CHANGES);
        cj_examples e;
        assert_true(cj_examples_of_loader(l, &e));
        int64_t asked = 0;
        for (int64_t epoch = 0; epoch < 3; epoch++)
            for (int64_t at = 0; at < N; at += BATCH, asked++) check(&e, x, y, epoch, at);
        assert_int_equal(cj_loader_hits(l), threads < 0 ? 0 : asked - 1);         /* all but the first */
        for (int64_t at = 3 * BATCH; at < N; at += BATCH) check(&e, x, y, 7, at); /* a resumed run: another epoch, from its middle */
        check(&e, x, y, 8, 0);
        assert_int_equal(cj_loader_hits(l), threads < 0 ? 0 : asked - 1 + 4);
        /* an evaluation in between (rows in their own order, larger batches) does not disturb it */
        int64_t rows[3 * BATCH];
        for (int i = 0; i < 3 * BATCH; i++) rows[i] = i;
        cj_tensor *xb, *yb;
        assert_true(e.batch(c, &e, 0, cj_from_i64(c, rows, CJ_SHAPE(3 * BATCH)), &xb, &yb));
        assert_int_equal(cj_size(xb, 0), 3 * BATCH);
        check(&e, x, y, 8, BATCH);
        assert_int_equal(cj_loader_hits(l), threads < 0 ? 0 : asked - 1 + 5);
        assert_refused(CJ_EVALUE, "rows of 0 … 52", e.batch(c, &e, 0, cj_from_i64(c, (int64_t[]){ 53 }, CJ_SHAPE(1)), &xb, &yb));
        cj_loader_free(l);
    }
    cj_release(x), cj_release(y);
}

/* Trains a small network and returns its parameters' sum of squares, bit for bit. */
static double train(bool loader, int threads, int64_t steps, const char *folder, bool resume, int64_t *hits)
{
    cj_ctx *k = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    cj_scope s = cj_scope_open(k);
    cj_tensor *x, *y;
    data(k, &x, &y);
    cj_module *net = cj_sequential(k, cj_flatten_layer(k), cj_linear(k, 36, 3));
    cj_loader *l = cj_loader_new(x, y, .batch = BATCH, .threads = loader ? threads : -1, .augment = CHANGES);
    cj_examples e;
    assert_true(cj_examples_of_loader(l, &e));
    cj_train_result r = cj_train(net, &e, .batch = BATCH, .steps = steps, .lr = 0.01, .folder = folder, .resume = resume);
    if (!r.finished) fail_msg("%s", cj_message(k));
    *hits = cj_loader_hits(l);
    double sum = 0;
    for (int i = 0; i < cj_params_count(cj_module_params(net)); i++)
        sum += cj_item(cj_sum(cj_square(cj_detach(cj_params_at(cj_module_params(net), i)))));
    cj_scope_close(s);
    cj_ctx_free(k); /* with the loader, whose threads may be at work */
    return sum;
}

static void training(void **state)
{
    (void)state;
    int64_t hits, none;
    double ahead = train(true, 2, 40, NULL, false, &hits), spot = train(false, 0, 40, NULL, false, &none);
    assert_true(ahead == spot);
    assert_int_equal(hits, 39);
    assert_int_equal(none, 0);
}

/* Examples of each kind: rows of floats, numbers of nodes, images, windows of a text whose offset changes, sentences of different lengths. */
enum { KINDS = 5 };
static void examples_of(int kind, cj_examples *e)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *numbers = cj_keep(cj_arange(c, 0, N, 1, CJ_I64)), *x = cj_keep(cj_rand(c, CJ_SHAPE(N, 36)));
    cj_tensor *place = cj_reshape(cj_arange(c, 0, 40, 1, CJ_I64), CJ_SHAPE(1, 40)), *row = cj_reshape(numbers, CJ_SHAPE(N, 1));
    cj_tensor *short_ones = cj_lt(place, cj_remainder(row, cj_full(c, 19, CJ_SCALAR, CJ_I64))); /* 0 to 18 words */
    cj_tensor *words = cj_mul(cj_cast(short_ones, CJ_I64), cj_add_scalar(place, 5));
    switch (kind) {
    case 0: assert_true(cj_examples_of_rows(x, x, e)); break;
    case 1: assert_true(cj_examples_of_rows(numbers, numbers, e)); break;
    case 2: assert_true(cj_examples_of_images(x, numbers, 1, 6, 6, e, .flip = 0.5, .pad = 1, .rotate = 10, .noise = 0.05)); break;
    case 3: assert_true(cj_examples_of_text(cj_keep(cj_randint(c, 0, 90, CJ_SHAPE((N + 1) * 7 + 1))), 7, e)); break;
    default: assert_true(cj_examples_of_pairs(cj_keep(words), cj_keep(cj_slice(words, 1, 0, 20, 1)), e)); break;
    }
    cj_scope_close(s);
    assert_int_equal(e->n, N);
}

static void every_kind_is_what_its_examples_give_to_the_bit(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        cj_examples plain, ahead;
        examples_of(kind, &plain);
        if (kind == 4) plain.x = cj_keep(cj_contiguous(plain.x)), plain.y = cj_keep(cj_contiguous(plain.y));
        cj_loader *l = cj_loader_of(c, &plain, .batch = BATCH, .threads = 2);
        if (!cj_examples_of_loader(l, &ahead)) fail_msg("%s", cj_message(c));
        int64_t order[N], asked = 0, widths = 0, last = 0;
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            cj_data_order(77, epoch, N, order);
            for (int64_t at = 0; at < N; at += BATCH, asked++) {
                cj_scope s = cj_scope_open(c);
                cj_tensor *index = cj_from_i64(c, order + at, CJ_SHAPE(at + BATCH < N ? BATCH : N - at)), *x[2], *y[2];
                assert_true(plain.batch(c, &plain, epoch, index, &x[0], &y[0]) && ahead.batch(c, &ahead, epoch, index, &x[1], &y[1]));
                if (!same_bits(x[0], x[1]) || !same_bits(y[0], y[1])) fail_msg("kind %d, epoch %d, row %d", kind, (int)epoch, (int)at);
                widths += cj_ndim(x[1]) > 1 && cj_size(x[1], 1) != last;
                if (cj_ndim(x[1]) > 1) last = cj_size(x[1], 1);
                cj_scope_close(s);
            }
        }
        assert_int_equal(cj_loader_hits(l), asked - 1);
        assert_true(kind != 4 || widths > 1); /* batches of sentences have different widths, and the test has seen some */
        cj_loader_free(l);
    }
    cj_examples own = { .n = N, .batch = NULL };
    assert_refused(CJ_EVALUE, "rows, images, a text or pairs", cj_loader_of(c, &own));
}

/* Batches lie in the loader's own memory; those that somebody still holds are not written over, however many there are. */
static void a_batch_that_is_held_stays_as_it_is(void **state)
{
    (void)state;
    enum { HELD = 20 };
    cj_examples plain, ahead;
    examples_of(0, &plain);
    cj_loader *l = cj_loader_of(c, &plain, .batch = BATCH, .ahead = 2);
    assert_true(cj_examples_of_loader(l, &ahead));
    cj_scope s = cj_scope_open(c);
    cj_tensor *held[HELD], *want[HELD], *y, *kept = NULL;
    int64_t order[N];
    for (int i = 0; i < HELD; i++) {
        int64_t epoch = i / 7, at = i % 7 * BATCH;
        cj_data_order(77, epoch, N, order);
        cj_tensor *index = cj_from_i64(c, order + at, CJ_SHAPE(at + BATCH < N ? BATCH : N - at));
        assert_true(ahead.batch(c, &ahead, epoch, index, &held[i], &y));
        want[i] = cj_index_select(plain.x, 0, index);
        if (i == 9) kept = cj_keep(held[i]); /* beyond its scope, too */
    }
    for (int i = 0; i < HELD; i++) assert_true(same_bits(held[i], want[i]));
    cj_tensor *wanted = cj_keep(want[9]);
    cj_scope_close(s);
    for (int i = HELD; i < 3 * HELD; i++) {
        s = cj_scope_open(c);
        int64_t epoch = i / 7, at = i % 7 * BATCH;
        cj_tensor *x;
        cj_data_order(77, epoch, N, order);
        assert_true(ahead.batch(c, &ahead, epoch, cj_from_i64(c, order + at, CJ_SHAPE(at + BATCH < N ? BATCH : N - at)), &x, &y));
        cj_scope_close(s);
    }
    assert_int_equal(cj_loader_hits(l), 3 * HELD - 1);
    cj_loader_free(l);
    assert_true(same_bits(kept, wanted)); /* and beyond the loader */
    cj_release(kept), cj_release(wanted);
}

static void freed_at_work(void **state)
{
    (void)state;
    counter a = { 0 };
    for (int i = 0; i < 30; i++) {
        cj_ctx *k = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5, .alloc = counting_alloc, .alloc_user = &a });
        cj_tensor *x, *y, *xb, *yb;
        data(k, &x, &y);
        cj_loader *l = cj_loader_new(x, y, .batch = BATCH, .threads = 2, .augment = CHANGES);
        cj_examples e;
        int64_t order[N];
        cj_data_order(5, 0, N, order);
        assert_true(cj_examples_of_loader(l, &e));
        for (int b = 0; b < i % 3; b++) assert_true(e.batch(k, &e, 0, cj_from_i64(k, order + b * BATCH, CJ_SHAPE(BATCH)), &xb, &yb));
        if (i % 5 == 4) { /* cancelled: an error, and nothing hangs */
            cj_cancel(k);
            assert_false(e.batch(k, &e, 0, y, &xb, &yb));
            cj_clear(k);
        }
        if (i % 2) cj_loader_free(l);
        cj_ctx_free(k);
    }
    assert_balanced(&a);
    for (long at = 1; at < 60; at++) { /* no memory at any place: an error, no leak */
        counter b = { .fail_at = at };
        cj_ctx *k = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &b });
        if (k) {
            cj_tensor *x, *y, *xb, *yb;
            data(k, &x, &y);
            cj_loader *l = cj_loader_new(x, y, .batch = BATCH, .augment = CHANGES);
            cj_examples e;
            if (cj_examples_of_loader(l, &e)) (void)e.batch(k, &e, 0, cj_from_i64(k, (int64_t[]){ 1, 2 }, CJ_SHAPE(2)), &xb, &yb);
            cj_ctx_free(k);
        }
        assert_balanced(&b);
    }
}

static void refusals(void **state)
{
    (void)state;
    cj_tensor *x, *y;
    data(c, &x, &y);
    assert_refused(CJ_ESHAPE, "equally many rows", cj_loader_new(x, cj_slice(y, 0, 0, 5, 1)));
    assert_refused(CJ_EDTYPE, "x of f32 or u8", cj_loader_new(y, y));
    assert_refused(CJ_ESHAPE, "must be contiguous", cj_loader_new(cj_transpose(x, 2, 3), y));
    assert_refused(CJ_EVALUE, "at most 64 ahead", cj_loader_new(x, y, .ahead = 65));
    assert_refused(CJ_ESHAPE, "rows of channels x height x width", cj_loader_new(cj_reshape(x, CJ_SHAPE(N, 36)), y, .augment = CHANGES));
    assert_refused(CJ_EVALUE, ".flip", cj_loader_new(x, y, .augment = &(cj_augment_opts){ .flip = 2 }));
    cj_loader_free(NULL);
    cj_release(x), cj_release(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_batcher),
        cmocka_unit_test(ahead_is_on_the_spot),
        cmocka_unit_test(training),
        cmocka_unit_test(every_kind_is_what_its_examples_give_to_the_bit),
        cmocka_unit_test(a_batch_that_is_held_stays_as_it_is),
        cmocka_unit_test(freed_at_work),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
