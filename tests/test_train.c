/* The training loop: order, schedules, settings, resuming to the bit, damaged checkpoints, a full disk, and a process that dies at every single file operation. */
#include "stopping_job.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/manifest.h"

/* ---- file operations that fail or kill on demand ---------------------------------------------------------------------------------------------- */

/* The static library's calls come here: the k-th one dies (half-way, if it writes) or says that the disk is full. */
static long calls, die_at, fail_at;

static bool strike(void)
{
    calls++;
    if (calls == die_at) _exit(9);
    if (calls == fail_at) errno = ENOSPC;
    return calls == fail_at;
}

ssize_t write(int fd, const void *p, size_t n)
{
    if (fd > 2 && calls + 1 == die_at) syscall(SYS_write, fd, p, n / 2);
    if (fd > 2 && strike()) return -1;
    return syscall(SYS_write, fd, p, n);
}
int fsync(int fd) { return (void)fd, strike() ? -1 : 0; } /* a dead process needs no disk, and disks are slow */
int rename(const char *from, const char *to) { return strike() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }
int link(const char *from, const char *to) { return strike() ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlink(const char *path) { return strike() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int unlinkat(int fd, const char *path, int flags) { return strike() ? -1 : (int)syscall(SYS_unlinkat, fd, path, flags); }
int ftruncate(int fd, off_t n) { return strike() ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
int mkdir(const char *path, mode_t mode) { return strike() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode); }

/* ---- a small job ------------------------------------------------------------------------------------------------------------------------------------ */

static char folder_text[64];
static const char *folder(const char *name)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* where fsync costs nothing */
    snprintf(folder_text, sizeof folder_text, "%s/cajal-train-%d-%s", where, (int)getpid(), name);
    return folder_text;
}

static void remove_run(const char *path)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", path);
    if (system(command)) fail_msg("%s", command);
}

static cj_train_result run_job(job *j, const char *path, bool resume, int64_t save_every, bool eager)
{
    return cj_train(j->net, &j->train, .val = &j->val, .steps = 23, .batch = 8, .lr = 0.02, .schedule = CJ_COSINE, .warmup = 3,
                    .eval_every = 4, .save_every = save_every, .eager = eager, .folder = path, .resume = resume);
}

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(1 << 20);
    *n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

static bool same_file(const char *a, const char *b)
{
    size_t na = 0, nb = 0;
    char *x = read_all(a, &na), *y = read_all(b, &nb);
    bool same = x && y && na == nb && memcmp(x, y, na) == 0;
    free(x);
    free(y);
    return same;
}

static void newest(const char *path, cj_generation *g)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_generation all[CJ_GENERATIONS];
    if (cj__manifest_read(c, path, all) < 1) fail_msg("no manifest: %s", cj_message(c));
    *g = all[0];
    cj_ctx_free(c);
}

/* Same parameters, best parameters, optimiser, counters, random state and metrics. */
static void assert_same_run(const char *a, const char *b)
{
    cj_generation x, y;
    newest(a, &x);
    newest(b, &y);
    const char *left[4] = { x.model.name, x.state.name, x.best.name, "metrics.jsonl" },
               *right[4] = { y.model.name, y.state.name, y.best.name, "metrics.jsonl" };
    for (int i = 0; i < 4; i++) {
        char p[256], q[256];
        snprintf(p, sizeof p, "%s/%s", a, left[i]);
        snprintf(q, sizeof q, "%s/%s", b, right[i]);
        if (!same_file(p, q)) fail_msg("%s and %s differ", p, q);
    }
}

static char reference[64];
static int make_reference(void **state)
{
    (void)state;
    snprintf(reference, sizeof reference, "%s", folder("reference"));
    job j;
    open_job(&j);
    cj_train_result r = run_job(&j, reference, false, 0, false);
    if (!r.finished) fprintf(stderr, "%s\n", cj_message(j.c));
    cj_ctx_free(j.c);
    return r.finished ? 0 : -1;
}
static int remove_reference(void **state)
{
    (void)state;
    remove_run(reference);
    return 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------------------------------------ */

static void data_order_is_a_permutation_of_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 1000 };
    int64_t a[N], b[N], moved = 0;
    bool seen[N] = { false };
    cj_data_order(7, 3, N, a);
    cj_data_order(7, 3, N, b);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < N; i++) {
        assert_true(a[i] >= 0 && a[i] < N && !seen[a[i]]);
        seen[a[i]] = true;
        moved += a[i] != i;
    }
    assert_true(moved > 950);
    cj_data_order(7, 4, N, b);
    assert_memory_not_equal(a, b, sizeof a);
    cj_data_order(8, 3, N, b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void every_place_is_equally_likely(void **state)
{
    (void)state;
    int count[4][4] = { { 0 } };
    for (int epoch = 0; epoch < 4000; epoch++) {
        int64_t order[4];
        cj_data_order(1, epoch, 4, order);
        for (int i = 0; i < 4; i++) count[i][order[i]]++;
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) assert_true(abs(count[i][k] - 1000) < 130); /* more than four standard deviations */
}

static void schedules(void **state)
{
    (void)state;
    assert_near(cj_schedule_lr(CJ_CONSTANT, 0.1, 50, 100, 0), 0.1, 0);
    assert_near(cj_schedule_lr(CJ_CONSTANT, 0.1, 1, 100, 4), 0.05, 1e-15);
    assert_near(cj_schedule_lr(CJ_LINEAR, 0.1, 25, 100, 0), 0.075, 1e-15);
    assert_near(cj_schedule_lr(CJ_COSINE, 0.1, 0, 100, 0), 0.1, 1e-15);
    assert_near(cj_schedule_lr(CJ_COSINE, 0.1, 50, 100, 0), 0.05, 1e-15);
    assert_near(cj_schedule_lr(CJ_COSINE, 0.1, 55, 100, 10), 0.05, 1e-15);
}

static void text_windows(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3, .threads = 1 });
    cj_examples e;
    assert_true(cj_examples_of_text(cj_arange(c, 0, 100, 1, CJ_I64), 10, &e));
    for (int epoch = 0; epoch < 20; epoch++) {
        cj_tensor *x, *y;
        assert_true(e.batch(c, &e, epoch, cj_arange(c, 0, (double)e.n, 1, CJ_I64), &x, &y));
        assert_near(cj_item(cj_max(cj_sub(y, x))), 1, 0); /* every target is the symbol after */
        assert_near(cj_item(cj_min(cj_sub(y, x))), 1, 0);
        assert_int_equal(cj_size(x, 0), e.n);
        if (epoch == 0) assert_near(cj_item(cj_min(x)), 0, 0);
    }
    assert_int_equal(e.n, 8); /* 9 windows and the symbol after; one window is given up for the offset */
    assert_true(cj_examples_of_text(cj_arange(c, 0, 11, 1, CJ_I64), 10, &e));
    assert_int_equal(e.n, 1); /* unless it is the only one */
    assert_true(cj_examples_of_text(cj_arange(c, 0, 21, 1, CJ_I64), 10, &e));
    assert_int_equal(e.n, 1);
    assert_false(cj_examples_of_text(cj_arange(c, 0, 10, 1, CJ_I64), 10, &e));
    assert_error(c, CJ_EVALUE, "windows of 10 symbols from a text of 10");
    cj_clear(c);
    assert_false(cj_examples_of_text(cj_arange(c, 0, 5, 1, CJ_I64), 10, &e));
    assert_error(c, CJ_EVALUE, "windows of 10 symbols from a text of 5");
    cj_ctx_free(c);
}

static const cj_setting toy_settings[] = { { .key = "hidden", .value = 16, .least = 1 }, { .key = "act", .choices = "relu tanh" }, { 0 } };
static const cj_model toy = { .name = "toy", .settings = toy_settings };

static void settings_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *assignment, *message;
    } bad[] = {
        { "hiden=3", "did you mean 'hidden'" },         { "nonsense=3", "'nonsense' is unknown; cajal models --describe toy" },
        { "hidden=0", "at least 1 was expected, '0'" }, { "hidden=2.5", "a whole number was expected, '2.5'" },
        { "hidden=x", "a number was expected, 'x'" },   { "act=gelu", "one of 'relu tanh' was expected, 'gelu'" },
        { "lr=nan", "a number was expected" },          { "momentum=2", "at most 0.9999 was expected" },
        { "hidden", "key=value was expected" },         { "=3", "key=value was expected" },
    };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_settings *s = cj_settings_new(c, &toy);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(cj_settings_parse(s, bad[i].assignment));
        assert_error(c, CJ_EVALUE, bad[i].message);
        cj_clear(c);
    }
    assert_true(cj_settings_parse(s, "act=tanh") && cj_settings_parse(s, "hidden=32"));
    assert_near(cj_settings_get(s, "act"), 1, 0);
    assert_string_equal(cj_settings_text(s, "act"), "tanh");
    cj_ctx_free(c);
}

static void resuming_with_other_settings_names_them(void **state)
{
    (void)state;
    const char *path = folder("settings");
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_settings *s = cj_settings_new(c, &toy), *same = cj_settings_new(c, &toy), *other = cj_settings_new(c, &toy),
                *fact = cj_settings_new(c, &toy);
    cj_settings_note(s, "data", "digits");
    assert_true(cj_settings_parse(s, "hidden=32") && cj_settings_parse(s, "act=tanh") && cj_settings_parse(s, "lr=0.1") &&
                cj_settings_save(s, path));
    assert_true(cj_settings_parse(same, "hidden=32") && cj_settings_load(same, path));
    assert_near(cj_settings_get(same, "lr"), 0.1, 0); /* what was not given comes from the run */
    assert_string_equal(cj_settings_text(same, "act"), "tanh");
    char text[32];
    assert_true(cj_run_fact(c, path, "data", text, sizeof text));
    assert_string_equal(text, "digits");
    assert_true(cj_settings_parse(other, "hidden=64"));
    assert_false(cj_settings_load(other, path));
    assert_error(c, CJ_EVALUE, "hidden=32, this command asks for hidden=64");
    cj_clear(c);
    cj_settings_note(fact, "data", "wine");
    assert_false(cj_settings_load(fact, path));
    assert_error(c, CJ_EVALUE, "data=digits, this command asks for data=wine");
    cj_clear(c);
    assert_false(cj_settings_load(s, "/nonexistent"));
    assert_error(c, CJ_EFILE, "is no run");
    cj_ctx_free(c);
    remove_run(path);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------------------------------------------- */

static void plan_and_eager_agree_to_the_bit(void **state)
{
    (void)state;
    const char *path = folder("eager");
    job j;
    open_job(&j);
    assert_true(run_job(&j, path, false, 5, true).finished);
    cj_ctx_free(j.c);
    assert_same_run(reference, path);
    remove_run(path);
}

static void a_cancelled_run_resumes_to_the_bit(void **state)
{
    (void)state;
    const char *path = folder("cancel");
    int64_t at = 0;
    for (int i = 0; i < 40; i++) {
        job j;
        open_job(&j);
        j.stop_at = 1 + i % 4;
        cj_train_result r = run_job(&j, path, i > 0, 0, i % 2);
        assert_true(r.step >= at);
        at = r.step;
        bool done = r.finished;
        if (!done) assert_error(j.c, CJ_ECANCELLED, "of 23 steps; the run is saved");
        cj_ctx_free(j.c);
        if (done) break;
    }
    assert_int_equal(at, 23);
    assert_same_run(reference, path);
    remove_run(path);
}

/* The job's rows as images of 2 x 2 pixels that are shifted and mirrored anew in every epoch: cut into pieces and in one piece it is the same. */
static void augmented_runs_resume_to_the_bit(void **state)
{
    (void)state;
    char whole[64];
    snprintf(whole, sizeof whole, "%s", folder("augmented"));
    const char *path = folder("augmented-pieces");
    int64_t at = 0;
    for (int i = -1; i < 40 && at < 23; i++) { /* -1: the whole one */
        job j;
        open_job(&j);
        assert_true(cj_examples_of_images(j.rows.x, j.rows.y, 1, 2, 2, &j.rows, .pad = 1, .flip = 0.5));
        j.stop_at = i < 0 ? 0 : 1 + i % 4;
        cj_train_result r = run_job(&j, i < 0 ? whole : path, i > 0, 0, i >= 0 && i % 2);
        assert_int_equal(r.finished, r.step == 23);
        if (i >= 0) at = r.step;
        else assert_true(r.finished);
        cj_ctx_free(j.c);
    }
    assert_int_equal(at, 23);
    assert_same_run(whole, path);
    cj_generation plain, augmented; /* and it is another run than that of the images as they are */
    newest(reference, &plain);
    newest(whole, &augmented);
    assert_true(plain.model.crc != augmented.model.crc);
    remove_run(whole);
    remove_run(path);
}

/* An augmented example is a function of (seed, epoch, number): not of the batch, nor of what was asked for before. */
static void augmented_examples(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3, .threads = 1 });
    cj_tensor *x = cj_keep(cj_rand(c, CJ_SHAPE(20, 2 * 4 * 3))), *label = cj_keep(cj_arange(c, 0, 20, 1, CJ_I64));
    cj_examples e;
    assert_true(cj_examples_of_images(x, label, 2, 4, 3, &e, .pad = 1));
    assert_int_equal(e.n, 20);
    cj_tensor *all[3], *one, *y;
    for (int k = 0; k < 3; k++) assert_true(e.batch(c, &e, k == 2 ? 8 : 7, label, &all[k], &y)); /* epochs 7, 7, 8 */
    float v[3][480], w[24];
    for (int k = 0; k < 3; k++) assert_true(cj_ndim(all[k]) == 2 && cj_to_f32(all[k], v[k], 480));
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    assert_true(memcmp(v[0], v[2], sizeof v[0]) != 0);
    for (int64_t i = 19; i >= 0; i--) {
        assert_true(e.batch(c, &e, 7, cj_from_i64(c, &i, CJ_SHAPE(1)), &one, &y) && cj_to_f32(one, w, 24));
        assert_memory_equal(w, v[0] + i * 24, sizeof w);
        assert_int_equal(cj_item(y), i);
    }
    cj_seed(c, 4);
    assert_true(e.batch(c, &e, 7, label, &all[1], &y) && cj_to_f32(all[1], v[1], 480));
    assert_true(memcmp(v[0], v[1], sizeof v[0]) != 0); /* another seed, other images */
    /* a shift moves what is there by -1, 0 or 1 rows and columns: each value of the result is 0 or the neighbour that all others of the image come from */
    float from[480];
    assert_true(cj_to_f32(x, from, 480));
    for (int i = 0; i < 20; i++) {
        int fits = 0;
        for (int down = -1; down <= 1; down++)
            for (int right = -1; right <= 1; right++) {
                bool same = true;
                for (int k = 0; k < 24; k++) {
                    int r = k / 3 % 4 - down, s = k % 3 - right;
                    float want = r < 0 || r > 3 || s < 0 || s > 2 ? 0 : from[i * 24 + k / 12 * 12 + r * 3 + s];
                    same = same && v[0][i * 24 + k] == want;
                }
                fits += same;
            }
        assert_int_equal(fits, 1);
    }
    assert_false(cj_examples_of_images(x, label, 3, 4, 3, &e, .pad = 1));
    assert_error(c, CJ_ESHAPE, "images of 3 x 4 x 3 were expected");
    cj_clear(c);
    assert_true(cj_examples_of_images(x, label, 2, 4, 3, &e, .flip = 2)); /* what is wrong with the options is said when they are used */
    assert_false(e.batch(c, &e, 0, label, &one, &y));
    assert_error(c, CJ_EVALUE, ".flip of 0 or more and below 1 was expected");
    cj_augment_opts how = cj_augmentation_opts(CJ_AUGMENT_FLIP_SHIFT, 3, 32, 32);
    assert_true(how.pad == 4 && how.flip == 0.5 && how.rotate == 0);
    how = cj_augmentation_opts(CJ_AUGMENT_AUTO, 3, 32, 32);
    assert_true(how.pad == 4 && how.flip == 0.5);
    how = cj_augmentation_opts(CJ_AUGMENT_AUTO, 1, 28, 28);
    assert_true(how.pad == 3 && how.flip == 0);
    how = cj_augmentation_opts(CJ_AUGMENT_WARP, 1, 16, 28);
    assert_true(how.pad == 2 && how.rotate == 10 && how.scale == 0.1 && how.shear == 0.1 && how.flip == 0);
    how = cj_augmentation_opts(CJ_AUGMENT_NONE, 1, 8, 8);
    assert_true(how.pad == 0 && how.rotate == 0 && how.flip == 0);
    cj_ctx_free(c);
}

/* Runs the job in a child that dies at its k-th file operation. True: it lived to the end. */
static bool run_in_child(const char *path, bool resume, long die, long *counted)
{
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        job j;
        open_job(&j);
        calls = 0;
        die_at = die;
        bool ok = run_job(&j, path, resume, 3, false).finished;
        die_at = 0;
        syscall(SYS_write, pipe_fd[1], &calls, sizeof calls);
        if (!ok) fprintf(stderr, "%s\n", cj_message(j.c));
        _exit(ok ? 0 : 1);
    }
    close(pipe_fd[1]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (counted && read(pipe_fd[0], counted, sizeof *counted) != sizeof *counted) *counted = 0;
    close(pipe_fd[0]);
    assert_true(WIFEXITED(status));
    int code = WEXITSTATUS(status);
    if (code != 0 && code != 9) fail_msg("the child failed with %d when it died at operation %ld", code, die);
    return code == 0;
}

static void killed_at_every_file_operation_it_resumes_to_the_bit(void **state)
{
    (void)state;
    const char *path = folder("killed");
    long all = 0;
    assert_true(run_in_child(path, false, 0, &all));
    remove_run(path);
    assert_true(all > 50);
    for (long k = 1; k <= all; k++) {
        run_in_child(path, false, k, NULL);
        assert_true(run_in_child(path, true, 0, NULL));
        assert_same_run(reference, path);
        remove_run(path);
    }
}

static void a_full_disk_is_an_error_and_the_run_goes_on_later(void **state)
{
    (void)state;
    const char *path = folder("full");
    int failed = 0;
    for (long k = 1; k < 400; k++) {
        job j;
        open_job(&j);
        calls = 0;
        fail_at = k;
        cj_train_result r = run_job(&j, path, false, 3, false);
        bool reached = calls >= k;
        fail_at = 0;
        if (!r.finished) {
            failed++;
            assert_int_equal(cj_error(j.c), CJ_EFILE);
            assert_says(j.c, "No space left on device");
        }
        cj_ctx_free(j.c);
        open_job(&j);
        if (!run_job(&j, path, true, 3, false).finished) fail_msg("operation %ld: %s", k, cj_message(j.c));
        cj_ctx_free(j.c);
        assert_same_run(reference, path);
        remove_run(path);
        if (!reached) break;
    }
    assert_true(failed > 20);
}

/* ---- damage ----------------------------------------------------------------------------------------------------------------------------------------- */

static void damage(const char *path, const char *name, bool cut)
{
    char file[256];
    snprintf(file, sizeof file, "%s/%s", path, name);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    if (cut) {
        assert_int_equal(truncate(file, st.st_size / 2), 0);
        return;
    }
    int fd = open(file, O_RDWR);
    char byte;
    assert_true(pread(fd, &byte, 1, st.st_size - 3) == 1);
    byte ^= 0x10;
    assert_true(pwrite(fd, &byte, 1, st.st_size - 3) == 1);
    close(fd);
}

static void damaged_checkpoints_fall_back_to_the_one_before(void **state)
{
    (void)state;
    const char *path = folder("damage");
    for (int what = 0; what < 8; what++) {
        job j;
        open_job(&j);
        j.stop_at = 15;
        assert_int_equal(run_job(&j, path, false, 3, false).step, 14);
        cj_ctx_free(j.c);
        cj_generation g;
        newest(path, &g);
        const char *victim[4] = { g.model.name, g.state.name, g.best.name, "MANIFEST.json" };
        damage(path, victim[what % 4], what >= 4);
        open_job(&j);
        cj_train_result r = run_job(&j, path, true, 3, false);
        if (!r.finished) fail_msg("%s: %s", victim[what % 4], cj_message(j.c));
        if (what != 3) assert_int_equal(r.first_step, 12); /* a flipped bit in the manifest may hit white space */
        cj_ctx_free(j.c);
        assert_same_run(reference, path);
        remove_run(path);
    }
}

static void without_a_sound_checkpoint_it_says_why(void **state)
{
    (void)state;
    const char *path = folder("ruin");
    job j;
    open_job(&j);
    assert_true(run_job(&j, path, false, 9, false).finished);
    cj_ctx_free(j.c);
    char command[256];
    snprintf(command, sizeof command, "for f in %s/model-*; do printf x >>$f; done", path);
    assert_int_equal(system(command), 0);
    open_job(&j);
    assert_false(run_job(&j, path, true, 9, false).finished);
    assert_error(j.c, CJ_EFILE, "no sound checkpoint");
    cj_clear(j.c);
    assert_int_equal(cj_run_load(j.net, path, false), -1);
    assert_error(j.c, CJ_EFILE, "bytes were expected");
    cj_clear(j.c);
    assert_false(run_job(&j, path, false, 9, false).finished);
    assert_error(j.c, CJ_ESTATE, "has a run already");
    cj_ctx_free(j.c);
    remove_run(path);
}

/* What a folder says about its run: nothing, one checkpoint, several, and the manifest before. */
static void steps_of_a_run(void **state)
{
    (void)state;
    const char *path = folder("steps");
    char from[128], to[128];
    snprintf(from, sizeof from, "%s/MANIFEST.json", path);
    snprintf(to, sizeof to, "%s/MANIFEST.old.json", path);
    job j;
    open_job(&j);
    assert_false(cj_run_exists(path));
    assert_int_equal(cj_run_step(j.c, path), -1);
    assert_ok(j.c);
    assert_true(cj_run_save(j.net, path));
    assert_true(cj_run_exists(path));
    assert_int_equal(cj_run_step(j.c, path), 0);
    assert_false(cj_run_save(j.net, path));
    assert_error(j.c, CJ_ESTATE, "has a run already: choose another folder");
    assert_int_equal(cj_run_step(j.c, path), -1); /* not while an error is set */
    cj_clear(j.c);
    assert_int_equal(rename(from, to), 0);
    assert_true(cj_run_exists(path));
    cj_run_clear(path);
    assert_false(cj_run_exists(path));
    j.stop_at = 15;
    assert_int_equal(run_job(&j, path, false, 3, false).step, 14);
    cj_clear(j.c);
    assert_int_equal(cj_run_step(j.c, path), 14);
    assert_int_equal(rename(from, to), 0);
    assert_true(cj_run_exists(path));
    assert_int_equal(cj_run_step(j.c, path), 14);
    assert_ok(j.c);
    cj_run_clear(path);
    j.stop_at = 0;
    assert_true(run_job(&j, path, false, 0, false).finished); /* by the clock: only the last one */
    assert_int_equal(cj_run_step(j.c, path), 23);
    assert_ok(j.c);
    cj_ctx_free(j.c);
    remove_run(path);
}

static void another_model_does_not_fit(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *net = cj_sequential(c, cj_linear(c, 4, 9), cj_tanh_layer(c), cj_dropout_layer(c, 0.3), cj_linear(c, 9, 2));
    cj_tensor *w = cj_params_at(cj_module_params(net), 0);
    double before = value_at(w, 0);
    assert_int_equal(cj_run_load(net, reference, false), -1);
    assert_error(c, CJ_EFILE, "0.weight is f32 [8, 4] in the checkpoint, f32 [9, 4] in the model");
    cj_clear(c);
    assert_near(value_at(w, 0), before, 0);
    cj_ctx_free(c);
}

static void bad_arguments(void **state)
{
    (void)state;
    job j;
    open_job(&j);
    assert_false(cj_train(j.net, NULL, .steps = 1).finished);
    assert_error(j.c, CJ_EVALUE, "no examples");
    cj_clear(j.c);
    cj_train_opts negative[6] = { { .batch = -1 },  { .epochs = -1 },     { .steps = -1 },
                                  { .warmup = -1 }, { .eval_every = -1 }, { .save_every = -1 } };
    for (int i = 0; i < 6; i++) {
        assert_false((cj_train)(j.net, &j.train, &negative[i]).finished);
        assert_error(j.c, CJ_EVALUE, "negative");
        cj_clear(j.c);
    }
    cj_train_result all_zero = (cj_train)(j.net, &j.train, &(cj_train_opts){ 0 }); /* 10 epochs in batches of 32 */
    assert_true(all_zero.finished);
    assert_int_equal(all_zero.step, 20);
    assert_false(cj_train(j.net, &j.train, .steps = 1, .folder = "/proc/none").finished);
    assert_error(j.c, CJ_EFILE, "cannot be made");
    cj_clear(j.c);
    assert_true(cj_train(j.net, &j.train, .steps = 3, .optimiser = CJ_MOMENTUM).finished);
    assert_ok(j.c);
    cj_ctx_free(j.c);
}

int main(void)
{
#ifndef CJ_HAVE_CJSON
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_order_is_a_permutation_of_seed_and_epoch),
        cmocka_unit_test(every_place_is_equally_likely),
        cmocka_unit_test(schedules),
        cmocka_unit_test(text_windows),
        cmocka_unit_test(settings_say_what_is_wrong),
        cmocka_unit_test(resuming_with_other_settings_names_them),
        cmocka_unit_test(plan_and_eager_agree_to_the_bit),
        cmocka_unit_test(a_cancelled_run_resumes_to_the_bit),
        cmocka_unit_test(augmented_runs_resume_to_the_bit),
        cmocka_unit_test(augmented_examples),
        cmocka_unit_test(killed_at_every_file_operation_it_resumes_to_the_bit),
        cmocka_unit_test(a_full_disk_is_an_error_and_the_run_goes_on_later),
        cmocka_unit_test(damaged_checkpoints_fall_back_to_the_one_before),
        cmocka_unit_test(without_a_sound_checkpoint_it_says_why),
        cmocka_unit_test(steps_of_a_run),
        cmocka_unit_test(another_model_does_not_fit),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, make_reference, remove_reference);
}
