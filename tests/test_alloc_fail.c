/* The n-th allocation fails, for every n: through a context's whole life, and with malloc itself failing below it.
 *
 * Whatever fails, the error is CJ_EMEMORY (or the file's), a failed step has changed no parameter and no state, everything is given back, and after cj_clear
 * the context goes on.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "support.h"

/* ---- malloc below us: the test program's own, which can be told to fail -------------------------------------------------------------------------- */

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define INTERPOSED 1
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
static _Thread_local long malloc_left; /* > 0: that many more calls of this thread succeed before one fails */
static _Thread_local bool malloc_failed;

static bool refuse(void)
{
    if (malloc_left == 0 || --malloc_left) return false;
    malloc_failed = true;
    return true;
}
void *malloc(size_t n) { return refuse() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return refuse() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return refuse() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return refuse() ? NULL : __libc_memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) { return !refuse() && (*p = __libc_memalign(align, n)) ? 0 : ENOMEM; }
#else
#define INTERPOSED 0
static long malloc_left;
static bool malloc_failed;
#endif

/* ---- what is done while allocations fail -------------------------------------------------------------------------------------------------------------- */

typedef struct session {
    rig r;
    cj_plan *plan;
    bool built;
} session;

/* A part of a session: true when it was done; false after an error, having changed nothing of the rig. */
typedef bool (*part_fn)(session *s);

static bool build(session *s) { return s->built = rig_build(&s->r, s->r.c, 5); }
static bool step(session *s) { return rig_step(&s->r); }

static bool accumulate(session *s)
{
    cj_scope scope = cj_scope_open(s->r.c);
    bool ok = cj_accumulate(s->r.opt, cj_cross_entropy(cj_forward(s->r.net, s->r.x), s->r.y), 1) && cj_step(s->r.opt);
    cj_scope_close(scope);
    return ok;
}

static bool capture(session *s)
{
    cj_tensor *in[2] = { s->r.x, s->r.y }, *out[1];
    cj_scope scope = cj_scope_open(s->r.c);
    s->plan = cj_capture(s->r.c, rig_captured, &s->r, in, 2, out);
    bool ok = s->plan && !isnan(cj_item(out[0]));
    cj_scope_close(scope);
    return ok;
}
static bool replay(session *s)
{
    cj_tensor *in[2] = { s->r.x, s->r.y }, *out[1];
    cj_scope scope = cj_scope_open(s->r.c);
    bool ok = cj_replay(s->plan, in, out);
    if (ok) assert_false(isnan(cj_item(out[0])));
    cj_scope_close(scope);
    return ok;
}

static cj_tensor *loss_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    session *s = user;
    return cj_cross_entropy(cj_forward(s->r.net, in[0]), s->r.y);
}
static cj_tensor *smooth_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n, (void)user;
    return cj_sum(cj_softmax(cj_matmul(cj_tanh(in[0]), cj_t(in[0])), -1));
}
static bool transforms(session *s)
{
    cj_ctx *c = s->r.c;
    cj_scope scope = cj_scope_open(c);
    cj_tensor *t = cj_ones_like(s->r.x), *out;
    cj_jvp(c, loss_fn, s, &s->r.x, &t, 1);
    cj_hvp(c, smooth_fn, s, &s->r.x, &t, 1, &out);
    cj_vjp(c, smooth_fn, s, &s->r.x, 1, NULL, &out);
    cj_tensor *small = cj_slice(s->r.x, 0, 0, 1, 1);
    cj_jacobian(c, smooth_fn, s, small);
    cj_hessian(c, smooth_fn, s, cj_cast(small, CJ_F64));
    cj_tensor *leaf = cj_require_grad(s->r.x), *g;
    cj_per_example_grad(c, smooth_fn, s, &leaf, 1, &s->r.x, 1, &g);
    bool ok = cj_ok(c);
    cj_scope_close(scope);
    return ok;
}

static cj_tensor *block_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return cj_forward(((session *)user)->r.net, in[0]);
}
static bool checkpoint(session *s)
{
    cj_ctx *c = s->r.c;
    cj_scope scope = cj_scope_open(c);
    cj_tensor *logits = cj_checkpoint(c, block_fn, s, &s->r.x, 1);
    bool ok = cj_minimise(s->r.opt, cj_cross_entropy(logits, s->r.y));
    cj_scope_close(scope);
    return ok;
}

static bool views_and_indices(session *s)
{
    cj_ctx *c = s->r.c;
    cj_scope scope = cj_scope_open(c);
    cj_tensor *x = s->r.x, *parts[3] = { x, cj_neg(x), cj_slice(x, 0, 4, CJ_END, -1) };
    cj_tensor *y = cj_cat(parts, 3, 0);
    y = cj_add(cj_stack(parts, 3, 1), cj_unsqueeze(cj_index_select(y, 0, s->r.y), 1));
    y = cj_add(cj_sum(y, .axes = CJ_AXES(0, 2)), cj_cast(cj_one_hot(cj_select(s->r.y, 0, 0), 3), CJ_F32));
    cj_tensor *k = cj_keep(y);
    cj_release(k);
    cj_nonzero(y);
    char text[400];
    cj_format(y, text, sizeof text);
    bool ok = cj_ok(c);
    cj_scope_close(scope);
    return ok;
}

static cj_named names[16];
static int n_names;
static void name_it(void *user, const char *name, cj_tensor *t)
{
    (void)user;
    static char text[16][64];
    snprintf(text[n_names], sizeof text[0], "%s", name);
    names[n_names] = (cj_named){ text[n_names], t };
    n_names++;
}
static char folder[40], path[80];
static bool save_npz(session *s)
{
    n_names = 0;
    cj_module_state(s->r.net, name_it, NULL);
    snprintf(path, sizeof path, "%s/a.npz", folder);
    return cj_npz_save(s->r.c, path, names, n_names);
}
static bool load_npz(session *s)
{
    snprintf(path, sizeof path, "%s/a.npz", folder);
    cj_archive *a = cj_npz_load(s->r.c, path);
    bool ok = a && a->count == n_names;
    cj_archive_free(a);
    return ok;
}
static bool save_safetensors(session *s)
{
    n_names = 0;
    cj_module_state(s->r.net, name_it, NULL);
    cj_optim_state(s->r.opt, name_it, NULL);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return cj_safetensors_save(s->r.c, path, names, n_names, &(cj_text_pair){ "step", "7" }, 1);
}
static bool load_safetensors(session *s)
{
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    cj_archive *a = cj_safetensors_load(s->r.c, path);
    bool ok = a && a->count == n_names;
    cj_archive_free(a);
    return ok;
}
static bool save_npy(session *s)
{
    snprintf(path, sizeof path, "%s/a.npy", folder);
    cj_scope scope = cj_scope_open(s->r.c);
    bool ok = cj_npy_save(cj_t(s->r.x), path) && !cj_is_poison(cj_npy_load(s->r.c, path));
    cj_scope_close(scope);
    return ok;
}

/* A checkpoint as the training loop writes it, and back. */
static bool save_run(session *s)
{
    snprintf(path, sizeof path, "%s/run", folder);
    cj_run_clear(path);
    return cj_run_save(s->r.net, path);
}
static bool load_run(session *s)
{
    snprintf(path, sizeof path, "%s/run", folder);
    return cj_run_load(s->r.net, path, false) == 0;
}

typedef struct part {
    const char *name;
    part_fn run;
    bool changes; /* parameters, when it is done */
} part;
static const part parts[] = {
    { "build", build, true },
    { "step", step, true },
    { "second step", step, true },
    { "accumulate", accumulate, true },
    { "capture", capture, true },
    { "replay, traced", replay, true },
    { "replay, compiled", replay, true },
    { "replay", replay, true },
    { "transforms", transforms, false },
    { "checkpoint", checkpoint, true },
    { "views", views_and_indices, false },
    { "save npy", save_npy, false },
    { "save npz", save_npz, false },
    { "load npz", load_npz, false },
    { "save safetensors", save_safetensors, false },
    { "load safetensors", load_safetensors, false },
    { "save checkpoint", save_run, false },
    { "load checkpoint", load_run, false },
};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Runs one part; when it fails nothing has changed, and it works once memory is back. Returns whether it failed. */
static bool run_part(session *s, const part *p, counter *k, long n)
{
    cj_ctx *c = s->r.c;
    snapshot before = { 0 };
    long left = malloc_left;
    malloc_left = 0; /* the test's own memory comes always */
    if (s->built) before = snapshot_of(&s->r);
    cj_rng_state rng = cj_rng_get(c);
    malloc_left = left;
    bool ok = p->run(s);
    left = malloc_left;
    malloc_left = 0;
    if (!ok) {
        if (cj_error(c) != CJ_EMEMORY && cj_error(c) != CJ_EFILE) fail_msg("%s, allocation %ld: \"%s\"", p->name, n, cj_message(c));
        assert_int_equal(c->depth, 1);
        assert_null(c->trace);
        assert_false(c->committing);
        if (s->built) {
            snapshot after = snapshot_of(&s->r);
            if (!snapshot_same(&before, &after)) fail_msg("%s, allocation %ld: a failed step changed something", p->name, n);
            snapshot_free(&after);
        }
        left = 0;
        k->fail_at = 0;
        cj_clear(c);
        if (p->run == capture) {
            cj_plan_free(s->plan);
            s->plan = NULL;
        }
        cj_rng_set(c, rng);
        if (!p->run(s)) fail_msg("%s, after allocation %ld failed: \"%s\"", p->name, n, cj_message(c));
    } else if (s->built && p->run != build) {
        snapshot after = snapshot_of(&s->r);
        if (snapshot_same(&before, &after) == p->changes)
            fail_msg("%s, allocation %ld: did %s", p->name, n, p->changes ? "nothing" : "too much");
        snapshot_free(&after);
    }
    snapshot_free(&before);
    malloc_left = left;
    return !ok;
}

/* One session in which the n-th allocation (or malloc) fails.  Returns false when none has failed, that is when n is past the end; the result is the state of an
 * undisturbed session in any case. */
static bool session_with(long n, bool below, snapshot *end)
{
    counter k = { .fail_at = below ? 0 : n };
    session s = { 0 };
    malloc_failed = false;
    malloc_left = below ? n : 0;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 6, .alloc = below ? NULL : counting_alloc, .alloc_user = &k });
    bool hit = false;
    if (!c) {
        malloc_left = 0;
        assert_true(below ? malloc_failed : k.allocs >= n);
        assert_int_equal(k.allocs, k.frees);
        return true;
    }
    s.r.c = c;
    for (int i = 0; i < PARTS; i++) {
        bool failed = run_part(&s, &parts[i], &k, n);
        hit |= failed;
    }
    malloc_left = 0;
    assert_ok(c);
    *end = snapshot_of(&s.r);
    cj_ctx_free(c);
    assert_int_equal(k.allocs, k.frees);
    assert_int_equal(k.bytes, 0);
    return below ? malloc_failed : k.allocs >= n || hit;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    snapshot expected, end;
    assert_false(session_with(1000000, false, &expected));
    long n = 1;
    for (;; n++) {
        end = (snapshot){ 0 };
        bool failed = session_with(n, false, &end);
        if (end.n && !snapshot_same(&expected, &end)) fail_msg("allocation %ld: the session ended with other numbers", n);
        snapshot_free(&end);
        if (!failed) break;
    }
    if (n < 50) fail_msg("only %ld allocations", n);
    snapshot_free(&expected);
}

static void every_malloc_fails(void **state)
{
    (void)state;
    if (!INTERPOSED) skip();
    snapshot expected, end;
    assert_false(session_with(0, true, &expected));
    long n = 1;
    for (;; n++) {
        end = (snapshot){ 0 };
        bool failed = session_with(n, true, &end);
        if (end.n && !snapshot_same(&expected, &end)) fail_msg("malloc %ld: the session ended with other numbers", n);
        snapshot_free(&end);
        if (!failed) break;
    }
    if (n < 60) fail_msg("only %ld calls of malloc", n);
    snapshot_free(&expected);
}

/* The training loop itself, with a plan and checkpoints: an allocation fails, the loop says so, and resumed it ends where an undisturbed one does, to the bit. */
static cj_train_result train(cj_ctx *c, cj_module **net, bool resume, cj_examples *rows)
{
    cj_tensor *x = cj_keep(cj_cast(cj_randint(c, -3, 4, CJ_SHAPE(12, 3), .stream = CJ_STREAM_DATA), CJ_F32)),
              *y = cj_keep(cj_cast(cj_gt_scalar(cj_sum(x, .axes = CJ_AXIS(1)), 0), CJ_I64));
    *net = cj_sequential(c, cj_linear(c, 3, 4), cj_tanh_layer(c), cj_dropout_layer(c, 0.2), cj_linear(c, 4, 2));
    if (!cj_ok(c) || !cj_examples_of_rows(x, y, rows)) return (cj_train_result){ 0 };
    return cj_train(*net, rows, .val = rows, .steps = 6, .batch = 4, .eval_every = 3, .save_every = 2, .folder = path, .resume = resume);
}

static bool training_with(long n, bool below, double *end, int64_t *size)
{
    snprintf(path, sizeof path, "%s/train", folder);
    cj_run_clear(path);
    bool hit = false;
    for (int turn = 0;; turn++) {
        counter k = { .fail_at = turn || below ? 0 : n };
        cj_examples rows;
        cj_module *net = NULL;
        malloc_failed = false;
        malloc_left = below && turn == 0 ? n : 0;
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 6, .alloc = below ? NULL : counting_alloc, .alloc_user = &k });
        cj_train_result r = { 0 };
        if (c) r = train(c, &net, true, &rows);
        malloc_left = 0;
        if (turn == 0) hit = below ? malloc_failed : k.allocs >= n;
        if (turn > 0 && !r.finished) fail_msg("allocation %ld, resumed: \"%s\"", n, cj_message(c));
        if (c && !r.finished && cj_error(c) != CJ_EMEMORY && cj_error(c) != CJ_EFILE) fail_msg("allocation %ld: \"%s\"", n, cj_message(c));
        if (r.finished) {
            *size = 0;
            for (int i = 0; i < cj_params_count(cj_module_params(net)); i++) {
                cj_tensor *t = cj_params_at(cj_module_params(net), i);
                assert_true(cj_to_f64(t, end + *size, cj_numel(t)));
                *size += cj_numel(t);
            }
        }
        cj_ctx_free(c);
        assert_balanced(&k);
        if (r.finished) return hit;
    }
}

static void training_survives(bool below)
{
    double expected[64], end[64];
    int64_t size, n_expected;
    assert_false(training_with(below ? 0 : 1000000, below, expected, &n_expected));
    assert_true(n_expected > 20 && n_expected < 64);
    long n = 1;
    for (; training_with(n, below, end, &size); n++) {
        assert_int_equal(size, n_expected);
        if (memcmp(end, expected, (size_t)size * sizeof *end) != 0) fail_msg("allocation %ld: training ended with other numbers", n);
    }
    if (n < 30) fail_msg("only %ld allocations", n);
}
static void training_survives_every_allocation(void **state) { (void)state, training_survives(false); }
static void training_survives_every_malloc(void **state)
{
    (void)state;
    if (!INTERPOSED) skip();
    training_survives(true);
}

/* An allocator that refuses everything: no context, no crash. */
static void *never(void *user, void *p, size_t old_size, size_t new_size)
{
    return (void)user, (void)p, (void)old_size, (void)new_size, NULL;
}
static void nothing_to_be_had(void **state)
{
    (void)state;
    assert_null(cj_ctx_new(&(cj_ctx_opts){ .alloc = never }));
    /* a cap below the context itself */
    for (size_t cap = 1; cap < 40000; cap += 999) {
        counter k = { 0 };
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .memory_cap = cap, .alloc = counting_alloc, .alloc_user = &k });
        if (c) {
            cj_zeros(c, CJ_SHAPE(100, 100), CJ_F32);
            assert_int_equal(cj_error(c), CJ_EMEMORY);
            cj_ctx_free(c);
        }
        assert_balanced(&k);
    }
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/cajal-alloc-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* where fsync costs nothing */
    return mkdtemp(folder) ? 0 : 1;
}
static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(every_malloc_fails),
        cmocka_unit_test(training_survives_every_allocation),
        cmocka_unit_test(training_survives_every_malloc),
        cmocka_unit_test(nothing_to_be_had),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
