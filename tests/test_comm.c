/* The seam between processes, played by threads: two contexts that train on half a batch each, through a comm of barriers and shared memory, equal one that sees
 * the whole batch.
 *
 * ctest: threads
 */
#include <pthread.h>

#include "support.h"

enum { RANKS = 2, FEATURES = 6, BATCH = 16, STEPS = 20 };

/* What the ranks share. */
typedef struct meeting {
    pthread_barrier_t barrier;
    const void *data[RANKS];
} meeting;

static void meet(meeting *m) { pthread_barrier_wait(&m->barrier); }

static bool thread_reduce(const cj_comm *comm, void *data, int64_t n, cj_dtype t, cj_comm_op op)
{
    meeting *m = comm->user;
    if (t != CJ_F32) return false;
    float *sum = malloc((size_t)n * sizeof *sum + 1);
    m->data[comm->rank] = data;
    meet(m);
    for (int64_t i = 0; i < n; i++) {
        const float a = ((const float *)m->data[0])[i], b = ((const float *)m->data[1])[i];
        sum[i] = op == CJ_COMM_SUM ? a + b : a > b ? a : b;
    }
    meet(m);
    memcpy(data, sum, (size_t)n * sizeof *sum);
    free(sum);
    return true;
}
static bool thread_gather(const cj_comm *comm, const void *mine, void *all, int64_t n, cj_dtype t)
{
    meeting *m = comm->user;
    size_t bytes = (size_t)n * cj_dtype_size(t);
    m->data[comm->rank] = mine;
    meet(m);
    for (int r = 0; r < RANKS; r++) memcpy((char *)all + (size_t)r * bytes, m->data[r], bytes);
    meet(m);
    return true;
}
static bool thread_broadcast(const cj_comm *comm, void *data, int64_t n, cj_dtype t, int root)
{
    meeting *m = comm->user;
    m->data[comm->rank] = data;
    meet(m);
    if (comm->rank != root) memcpy(data, m->data[root], (size_t)n * cj_dtype_size(t));
    meet(m);
    return true;
}

typedef struct worker {
    cj_comm comm;
    double loss[STEPS], weight[FEATURES], gathered[RANKS], maximum, slope, gradient;
    bool ok, planned;
} worker;

typedef struct task {
    cj_module *net;
    cj_optim *opt;
} task;
static void train_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    task *t = user;
    (void)c;
    cj_tensor *loss = cj_mse_loss(cj_forward(t->net, in[0]), in[1]);
    cj_minimise(t->opt, loss);
    out[0] = loss;
}

/* Rank r of n sees examples r, r+n, … of the same data. */
static void *train(void *arg)
{
    worker *w = arg;
    const cj_comm *comm = w->comm.size > 1 ? &w->comm : NULL;
    int n = w->comm.size, r = w->comm.rank;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 1 });
    cj_tensor *x = cj_randn(c, CJ_SHAPE(BATCH, FEATURES)), *y = cj_sum(x, .axes = CJ_AXIS(1), .keepdim = true);
    cj_seed(c, 100 + (uint64_t)r); /* other initial weights on every rank: rank 0's count */
    cj_tensor *in[2] = { cj_keep(cj_clone(cj_slice(x, 0, r, CJ_END, n))), cj_keep(cj_clone(cj_slice(y, 0, r, CJ_END, n))) },
              *out[2] = { 0 };
    task t = { .net = cj_linear(c, FEATURES, 1) };
    t.opt = cj_adam(cj_module_params(t.net), .lr = 0.05, .clip_norm = 2, .comm = comm);
    cj_plan *p = w->planned ? cj_capture(c, train_step, &t, in, 2, out) : NULL;
    for (int i = 0; i < STEPS && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        if (!w->planned) train_step(c, &t, in, out);
        else if (i) cj_replay(p, in, out);
        w->loss[i] = cj_item(cj_mul_scalar(cj_all_sum(out[0], comm), 1.0 / n));
        cj_scope_close(s);
    }
    cj_to_f64(cj_params_find(cj_module_params(t.net), "weight"), w->weight, FEATURES);
    cj_tensor *rank = cj_require_grad(cj_full(c, r, CJ_SCALAR, CJ_F32)), *g = NULL;
    cj_to_f64(cj_all_gather(rank, comm), w->gathered, n);
    cj_tensor *maximum = cj_all_max(cj_mul_scalar(rank, 3), comm), *tie = cj_all_max(cj_mul_scalar(rank, 0), comm);
    w->maximum = cj_item(maximum);
    if (cj_grad(cj_add(cj_square(maximum), tie), &rank, 1, &g)) w->slope = cj_item(g);
    /* the loss is the sum over ranks of (1 + r)·gathered[1]²: its gradient reaches rank 1 from everywhere */
    cj_tensor *part = cj_mul_scalar(cj_sum(cj_square(cj_select(cj_all_gather(rank, comm), 0, n - 1))), 1 + r);
    if (cj_grad(part, &rank, 1, &g)) w->gradient = cj_item(g);
    w->ok = cj_ok(c);
    if (!w->ok) fprintf(stderr, "rank %d: %s\n", r, cj_message(c));
    cj_ctx_free(c);
    return NULL;
}

static void two_ranks_equal_one(void **unused)
{
    (void)unused;
    for (int planned = 0; planned < 2; planned++) {
        worker alone = { .comm = { .size = 1 }, .planned = planned }, w[RANKS];
        meeting m;
        pthread_t thread[RANKS];
        train(&alone);
        assert_true(alone.ok);
        pthread_barrier_init(&m.barrier, NULL, RANKS);
        for (int r = 0; r < RANKS; r++) {
            w[r] = (worker){ .comm = { .rank = r,
                                       .size = RANKS,
                                       .user = &m,
                                       .all_reduce = thread_reduce,
                                       .all_gather = thread_gather,
                                       .broadcast = thread_broadcast },
                             .planned = planned };
            assert_int_equal(pthread_create(&thread[r], NULL, train, &w[r]), 0);
        }
        for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
        pthread_barrier_destroy(&m.barrier);
        for (int r = 0; r < RANKS; r++) {
            assert_true(w[r].ok);
            for (int i = 0; i < STEPS; i++) assert_near(w[r].loss[i], alone.loss[i], 1e-5 * alone.loss[0]);
            for (int i = 0; i < FEATURES; i++) assert_near(w[r].weight[i], w[0].weight[i], 0);
            for (int i = 0; i < FEATURES; i++) assert_near(w[r].weight[i], alone.weight[i], 1e-5);
            assert_near(w[r].gathered[0], 0, 0);
            assert_near(w[r].gathered[1], 1, 0);
            assert_near(w[r].maximum, 3, 0);
            assert_near(w[r].slope, r == 1 ? 2 * 2 * 3 * 3 : 0, 0); /* both ranks' (3r)² at rank 1; the tie's share is times 0 */
            assert_near(w[r].gradient, r == 1 ? 2 * (1 + 2) : 0, 0);
        }
        assert_true(alone.loss[STEPS - 1] < alone.loss[0]);
    }
}

static bool broken(const cj_comm *comm, void *data, int64_t n, cj_dtype t, cj_comm_op op)
{
    (void)comm, (void)data, (void)n, (void)t, (void)op;
    return false;
}

static void one_process_and_errors(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 2 });
    assert_int_equal(cj_comm_self()->size, 1);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 4)), *t = cj_t(x); /* a strided value too */
    assert_true(same_bits(cj_all_sum(t, NULL), cj_contiguous(t)));
    assert_true(same_bits(cj_all_max(t, cj_comm_self()), cj_contiguous(t)));
    assert_true(same_bits(cj_select(cj_all_gather(t, NULL), 0, 0), cj_contiguous(t)));
    assert_true(same_bits(cj_broadcast(t, NULL, 0), cj_contiguous(t)));
    cj_tensor *leaf = cj_require_grad(x), *g;
    assert_true(cj_grad(cj_sum(cj_mul(cj_all_max(leaf, NULL), x)), &leaf, 1, &g));
    assert_true(same_bits(g, x));
    assert_true(cj_is_poison(cj_broadcast(x, NULL, 1)));
    assert_error(c, CJ_EINDEX, "broadcast: root 1, there are 1 processes");
    cj_clear(c);
    const cj_comm bad = { .rank = 0, .size = 2, .all_reduce = broken };
    assert_true(cj_is_poison(cj_all_sum(x, &bad)));
    assert_error(c, CJ_ECOMM, "all_sum: the exchange of [3, 4] among 2 processes failed");
    cj_clear(c);
    assert_null(cj_all_sum(NULL, NULL));
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(two_ranks_equal_one), cmocka_unit_test(one_process_and_errors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
