/* What the tests of readers and writers share: a folder of their own, whole files, damage, an allocator that fails on demand. */
#ifndef CJ_TESTS_FILES_H
#define CJ_TESTS_FILES_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <cajal/core.h>
#include <cajal/data.h>
#include <cajal/ops.h>

/* ---- a folder ---------------------------------------------------------------------------------------------------------------------------------- */

static char folder[64];

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/cajal-test-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* where fsync costs nothing */
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A path in it, in one of a few turning buffers. */
static const char *in_folder(const char *name)
{
    static char path[8][160];
    static int turn;
    char *p = path[turn = (turn + 1) % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static inline bool exists(const char *path) { return access(path, F_OK) == 0; }

static inline unsigned char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *p = malloc(*n + 1);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

static inline void write_all(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* ---- an allocator that counts, and fails at the n-th call ------------------------------------------------------------------------------------------ */

typedef struct counted {
    long calls, fail_at; /* fail_at 0: never; from that call on every one fails once `stays` is set, else only that one */
    bool stays;
    long live;
} counted;

static inline void *counted_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    counted *a = user;
    (void)old_size;
    if (!new_size) {
        if (p) a->live--;
        free(p);
        return NULL;
    }
    a->calls++;
    if (a->fail_at && (a->stays ? a->calls >= a->fail_at : a->calls == a->fail_at)) return NULL;
    a->live++;
    return aligned_alloc(64, (new_size + 63) & ~(size_t)63);
}

/* Runs body with the 1st, 2nd, … allocation failing until it runs through.  body returns whether it worked; a failure must be CJ_EMEMORY. */
static inline void fail_every_allocation(bool (*body)(cj_ctx *c))
{
    for (int stays = 0; stays < 2; stays++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            assert_true(n < 10000);
            counted a = { .fail_at = 0, .stays = stays != 0 };
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .alloc = counted_alloc, .alloc_user = &a, .threads = 1 });
            assert_non_null(c);
            a.fail_at = a.calls + n;
            size_t live = cj_memory_stats(c).live;
            cj_scope s = cj_scope_open(c);
            done = body(c) && a.calls < a.fail_at;
            if (!cj_ok(c)) assert_int_equal(cj_error(c), CJ_EMEMORY);
            cj_scope_close(s);
            (void)live;
            cj_ctx_free(c);
            assert_int_equal(a.live, 0);
        }
    }
}

/* ---- no space ------------------------------------------------------------------------------------------------------------------------------------ */

/* Runs save(path) while no file may become larger than `bytes`: it must fail with CJ_EFILE, leave the old file and no other. */
static inline void full_disk(bool (*save)(cj_ctx *c, const char *path), size_t most)
{
    const char *path = in_folder("full");
    for (size_t bytes = 0; bytes < most; bytes += most / 7 + 1) {
        write_all(path, "old", 3);
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
        struct rlimit before, limit;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = bytes;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        bool ok = save(c, path);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_false(ok);
        assert_int_equal(cj_error(c), CJ_EFILE);
        assert_non_null(strstr(cj_message(c), "File too large"));
        size_t n;
        unsigned char *now = read_all(path, &n);
        assert_int_equal(n, 3);
        assert_memory_equal(now, "old", 3);
        free(now);
        char temporary[200];
        snprintf(temporary, sizeof temporary, "%s.tmp", path);
        assert_false(exists(temporary));
        cj_clear(c);
        assert_true(save(c, path)); /* the context works again */
        cj_ctx_free(c);
    }
}

/* ---- damage --------------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t dice_state = 0x9e3779b97f4a7c15u;
static inline uint64_t dice(void) /* splitmix64 */
{
    uint64_t z = dice_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* load returns whether it gave something; whatever it gave it has looked at.  Either that or an error, and memory stays near the size of the file. */
static inline void load_damaged(bool (*load)(cj_ctx *c, const char *path), const unsigned char *bytes, size_t n, bool must_fail)
{
    const char *path = in_folder("damaged");
    write_all(path, bytes, n);
    counted a = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .alloc = counted_alloc, .alloc_user = &a, .threads = 1 });
    cj_scope s = cj_scope_open(c);
    bool ok = load(c, path);
    assert_int_equal(ok, cj_ok(c));
    if (!ok) assert_true(cj_error(c) == CJ_EFILE || cj_error(c) == CJ_ESHAPE);
    if (must_fail) assert_false(ok);
    assert_true(cj_memory_stats(c).peak < ((size_t)4 << 20));
    cj_clear(c);
    assert_false(cj_is_poison(cj_zeros(c, CJ_SHAPE(2), CJ_F32))); /* the context works again */
    cj_scope_close(s);
    cj_ctx_free(c);
    assert_int_equal(a.live, 0);
}

/* Every shorter file must be refused; with flipped bytes it may be refused. */
static inline void damage(bool (*load)(cj_ctx *c, const char *path), const char *path, int flips)
{
    size_t n;
    unsigned char *good = read_all(path, &n), *bad = malloc(n + 64);
    for (size_t cut = 0; cut < n; cut++) load_damaged(load, good, cut, true);
    for (int i = 0; i < flips; i++) {
        memcpy(bad, good, n);
        int count = 1 + (int)(dice() % 4);
        for (int k = 0; k < count; k++) {
            size_t at = dice() % n;
            bad[at] = (dice() & 1) ? (unsigned char)(bad[at] ^ 1u << dice() % 8) : (unsigned char)dice();
        }
        load_damaged(load, bad, n, false);
    }
    free(good);
    free(bad);
}

/* ---- values of the fixtures (tools/fixtures_files.py) --------------------------------------------------------------------------------------------------- */

static inline double fixture_value(cj_dtype dtype, int64_t i)
{
    if (cj_dtype_is_float(dtype)) return (double)i / 4 - 2;
    return dtype == CJ_BOOL ? i % 3 == 0 : dtype == CJ_U8 ? (double)i : (double)(i - 2);
}

static inline void check_fixture(cj_tensor *t, cj_dtype dtype, cj_shape shape)
{
    assert_false(cj_is_poison(t));
    assert_int_equal(cj_dtype_of(t), dtype);
    cj_shape found = cj_shape_of(t);
    assert_int_equal(found.ndim, shape.ndim);
    for (int d = 0; d < shape.ndim; d++) assert_int_equal(found.dim[d], shape.dim[d]);
    int64_t n = cj_numel(t);
    double *v = malloc((size_t)n * sizeof *v + 1);
    assert_true(cj_to_f64(t, v, n));
    for (int64_t i = 0; i < n; i++) assert_true(v[i] == fixture_value(dtype, i));
    free(v);
}

static inline cj_tensor *make_fixture(cj_ctx *c, cj_dtype dtype, cj_shape shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    double *v = malloc((size_t)n * sizeof *v + 1);
    for (int64_t i = 0; i < n; i++) v[i] = fixture_value(dtype, i);
    cj_tensor *t = cj_from_f64(c, v, shape);
    free(v);
    return cj_cast(t, dtype);
}

/* Reads everything, so that a sanitizer sees it. */
static inline void touch(cj_tensor *t)
{
    int64_t n = cj_numel(t);
    double *v = malloc((size_t)n * sizeof *v + 1);
    assert_true(cj_to_f64(t, v, n));
    free(v);
    char text[64];
    cj_format(t, text, sizeof text);
}

#endif
