/* .npy and .npz: round trips, NumPy's own files, foreign, cut and damaged files, no space, no memory. */
#include "files.h"

static const cj_dtype all[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16, CJ_I64, CJ_I32, CJ_U8, CJ_BOOL };
enum { ALL = sizeof all / sizeof all[0] };

static cj_ctx *new_ctx(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    assert_true(cj_ok(c));
    return c;
}

/* ---- .npy ---------------------------------------------------------------------------------------------------------------------------------------- */

static void npy_round_trip(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const cj_shape shapes[] = {
        CJ_SCALAR, CJ_SHAPE(1), CJ_SHAPE(5), CJ_SHAPE(0), CJ_SHAPE(2, 0, 3), CJ_SHAPE(3, 4), CJ_SHAPE(2, 1, 2, 1, 2, 1, 2, 2)
    };
    for (int d = 0; d < ALL; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            assert_true(cj_npy_save(make_fixture(c, all[d], shapes[i]), in_folder("a.npy")));
            check_fixture(cj_npy_load(c, in_folder("a.npy")), all[d], shapes[i]);
        }
    assert_true(cj_ok(c));
    assert_false(exists(in_folder("a.npy.tmp")));
    cj_ctx_free(c);
}

static void npy_strided(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    for (int d = 0; d < ALL; d++) {
        cj_tensor *t = make_fixture(c, all[d], CJ_SHAPE(4, 6));
        cj_tensor *views[] = { cj_t(t), cj_slice(t, 1, 1, CJ_END, 2), cj_slice(cj_t(t), 0, 5, 1, -2), cj_select(t, 1, 3),
                               cj_expand(cj_select(t, 0, 1), CJ_SHAPE(3, 6)) };
        for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
            assert_true(cj_npy_save(views[i], in_folder("v.npy")));
            cj_tensor *back = cj_npy_load(c, in_folder("v.npy"));
            assert_true(cj_is_contiguous(back));
            assert_int_equal(cj_numel(back), cj_numel(views[i]));
            assert_int_equal(cj_size(back, 0), cj_size(views[i], 0));
            double a[24], b[24];
            assert_true(cj_to_f64(views[i], a, cj_numel(back)) && cj_to_f64(back, b, cj_numel(back)));
            assert_memory_equal(a, b, (size_t)cj_numel(back) * sizeof a[0]);
        }
    }
    /* more than one piece of the gathering buffer */
    cj_tensor *large = cj_t(cj_reshape(cj_arange(c, 0, 60000, 1, CJ_F64), CJ_SHAPE(200, 300)));
    assert_true(cj_npy_save(large, in_folder("large.npy")));
    cj_tensor *same = cj_all(cj_eq(cj_npy_load(c, in_folder("large.npy")), large), NULL);
    assert_true(cj_item(same) == 1);
    cj_ctx_free(c);
}

static void npy_bits_survive(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const uint32_t bits[] = { 0x7fc12345, 0xff800000, 0x80000000, 1, 0x7f7fffff };
    float values[5];
    memcpy(values, bits, sizeof bits);
    assert_true(cj_npy_save(cj_from_f32(c, values, CJ_SHAPE(5)), in_folder("bits.npy")));
    assert_memory_equal(cj_data(cj_npy_load(c, in_folder("bits.npy"))), bits, sizeof bits);
    cj_ctx_free(c);
}

static void npy_from_numpy(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const struct {
        const char *path;
        cj_dtype dtype;
        cj_shape shape;
    } files[] = {
        { "tests/fixtures/f4.npy", CJ_F32, CJ_SHAPE(2, 3) },    { "tests/fixtures/f8.npy", CJ_F64, CJ_SHAPE(2, 3) },
        { "tests/fixtures/f2.npy", CJ_F16, CJ_SHAPE(2, 3) },    { "tests/fixtures/i8.npy", CJ_I64, CJ_SHAPE(2, 3) },
        { "tests/fixtures/i4.npy", CJ_I32, CJ_SHAPE(2, 3) },    { "tests/fixtures/u1.npy", CJ_U8, CJ_SHAPE(2, 3) },
        { "tests/fixtures/b1.npy", CJ_BOOL, CJ_SHAPE(2, 3) },   { "tests/fixtures/fortran.npy", CJ_F32, CJ_SHAPE(2, 3, 4) },
        { "tests/fixtures/scalar.npy", CJ_F64, CJ_SCALAR },     { "tests/fixtures/empty.npy", CJ_I64, CJ_SHAPE(0, 3) },
        { "tests/fixtures/version2.npy", CJ_F32, CJ_SHAPE(5) }, { "tests/fixtures/version3.npy", CJ_F32, CJ_SHAPE(5) },
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        check_fixture(cj_npy_load(c, files[i].path), files[i].dtype, files[i].shape);
    /* what we write is, byte for byte, what NumPy writes */
    const char *const same[] = { "f4", "f8", "f2", "i8", "i4", "u1", "b1", "scalar", "empty" };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char path[64];
        size_t n, m;
        snprintf(path, sizeof path, "tests/fixtures/%s.npy", same[i]);
        assert_true(cj_npy_save(cj_npy_load(c, path), in_folder("same.npy")));
        unsigned char *theirs = read_all(path, &n), *ours = read_all(in_folder("same.npy"), &m);
        assert_int_equal(n, m);
        assert_memory_equal(theirs, ours, n);
        free(theirs);
        free(ours);
    }
    cj_ctx_free(c);
}

static void refused(cj_ctx *c, const char *path, const char *word)
{
    assert_true(cj_is_poison(cj_npy_load(c, path)));
    assert_int_equal(cj_error(c), CJ_EFILE);
    if (!strstr(cj_message(c), word)) fail_msg("'%s' is not in: %s", word, cj_message(c));
    cj_clear(c);
}

static void npy_foreign(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    refused(c, "tests/fixtures/big_endian.npy", "big-endian");
    refused(c, "tests/fixtures/i2.npy", "'<i2'");
    refused(c, "tests/fixtures/fields.npy", "fields");
    refused(c, "tests/fixtures/stored.npz", "\\x93NUMPY");
    refused(c, in_folder("none.npy"), "No such file");
    refused(c, folder, "folder");
    refused(c, "/dev/zero", "regular");
    assert_true(cj_is_poison(cj_npy_load(c, NULL)));
    assert_int_equal(cj_error(c), CJ_EVALUE);
    assert_true(cj_is_poison(cj_npy_load(c, "tests/fixtures/f4.npy"))); /* nothing happens while an error is set */
    cj_clear(c);
    assert_null(cj_npy_load(NULL, "x"));
    cj_ctx_free(c);
}

/* A file with this dictionary and `bytes` bytes of elements. */
static const char *with_header(const char *dictionary, size_t bytes)
{
    static unsigned char file[4096];
    size_t n = strlen(dictionary);
    memset(file, 0, sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)n;
    file[9] = (unsigned char)(n >> 8);
    memcpy(file + 10, dictionary, n);
    write_all(in_folder("made.npy"), file, 10 + n + bytes);
    return in_folder("made.npy");
}

static void npy_headers(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const struct {
        const char *text;
        size_t bytes;
        int ndim;
    } good[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, 2 },
        { "  { \"shape\" :(2,3),\"descr\":\"<f4\"\t, 'fortran_order':True }\n  ", 24, 2 },
        { "{'descr': '=f8', 'fortran_order': False, 'shape': (3L,)}", 24, 1 },
        { "{'descr': 'f4', 'fortran_order': False, 'shape': ()}", 4, 0 },
        { "{'descr': '|V2', 'fortran_order': False, 'shape': (2,)}", 4, 1 },
        { "{'descr': '<b1', 'fortran_order': False, 'shape': (2,)}", 2, 1 },
        { "{'descr': '>u1', 'fortran_order': False, 'shape': (2,)}", 2, 1 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cj_tensor *t = cj_npy_load(c, with_header(good[i].text, good[i].bytes));
        if (cj_is_poison(t)) fail_msg("%s: %s", good[i].text, cj_message(c));
        assert_int_equal(cj_ndim(t), good[i].ndim);
    }
    const struct {
        const char *text, *word;
    } bad[] = {
        { "", "at byte 10: a dictionary was expected, the end of the header was found" },
        { "{", "at byte 11: a text in quotes was expected" },
        { "{}", "descr was expected" },
        { "[1]", "at byte 10: a dictionary was expected in the header, '[1]' was found" },
        { "{'descr': '<f4', 'fortran_order': False}", "shape was expected" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "once" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "once" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "True or False" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "size" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "comma" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", "parentheses" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "64 bits" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "8 dimensions" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "nothing more" },
        { "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", "comma" },
        { "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", "type" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8'" },
        { "{'descr': '', 'fortran_order': False, 'shape': (1,)}", "type ''" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "12 bytes of f32 [3] were expected, 8 were found" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "4 bytes of f32 [1] were expected, 8 were found" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000,)}", "400000000000 bytes" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) refused(c, with_header(bad[i].text, 8), bad[i].word);
    assert_true(
        cj_is_poison(cj_npy_load(c, with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 8))));
    assert_int_equal(cj_error(c), CJ_EFILE);
    assert_non_null(strstr(cj_message(c), "2^63 or more bytes of f32 [4611686018427387904, 4] were expected, 8 were found"));
    cj_clear(c);
    write_all(in_folder("made.npy"), "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14);
    refused(c, in_folder("made.npy"), "4294967295");
    write_all(in_folder("made.npy"), "\x93NUMPY\x04\x00\x02\x00{}", 12);
    refused(c, in_folder("made.npy"), "version 4.0");
    assert_true(cj_memory_stats(c).peak < 1 << 20); /* nothing was allocated from a lie */
    cj_ctx_free(c);
}

static bool load_npy(cj_ctx *c, const char *path)
{
    cj_tensor *t = cj_npy_load(c, path);
    if (cj_is_poison(t)) return false;
    touch(t);
    return true;
}

static void npy_damaged(void **state)
{
    (void)state;
    damage(load_npy, "tests/fixtures/f4.npy", 400);
    damage(load_npy, "tests/fixtures/fortran.npy", 400);
    damage(load_npy, "tests/fixtures/version2.npy", 400);
    damage(load_npy, "tests/fixtures/b1.npy", 200);
}

static bool save_npy(cj_ctx *c, const char *path) { return cj_npy_save(cj_arange(c, 0, 20000, 1, CJ_F32), path); }

static void npy_full_disk(void **state)
{
    (void)state;
    full_disk(save_npy, 80000);
}

static void npy_unwritable(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_tensor *t = cj_scalar(c, 1);
    const char *const bad[] = { "/nowhere/x.npy", folder, "/dev/null" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cj_npy_save(t, bad[i]));
        assert_int_equal(cj_error(c), CJ_EFILE);
        cj_clear(c);
    }
    assert_true(exists("/dev/null"));
    assert_false(exists("/dev/null.tmp"));
    assert_false(cj_npy_save(t, NULL));
    assert_int_equal(cj_error(c), CJ_EVALUE);
    assert_false(cj_npy_save(t, in_folder("not.npy"))); /* nothing is written while an error is set */
    assert_false(exists(in_folder("not.npy")));
    cj_clear(c);
    assert_false(cj_npy_save(NULL, in_folder("not.npy")));
    /* what a killed process left is no obstacle */
    write_all(in_folder("again.npy.tmp"), "half", 4);
    assert_true(cj_npy_save(t, in_folder("again.npy")));
    assert_false(exists(in_folder("again.npy.tmp")));
    cj_ctx_free(c);
}

static void npy_cancelled(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_tensor *t = cj_scalar(c, 1);
    cj_cancel(c);
    assert_false(cj_npy_save(t, in_folder("cancelled.npy")));
    assert_int_equal(cj_error(c), CJ_ECANCELLED);
    assert_false(exists(in_folder("cancelled.npy")));
    cj_ctx_free(c);
}

static bool memory_npy(cj_ctx *c)
{
    bool ok = load_npy(c, "tests/fixtures/fortran.npy");
    return ok && cj_npy_save(cj_t(cj_npy_load(c, "tests/fixtures/f4.npy")), in_folder("memory.npy"));
}

static void npy_no_memory(void **state)
{
    (void)state;
    fail_every_allocation(memory_npy);
}

/* ---- .npz ---------------------------------------------------------------------------------------------------------------------------------------- */

static void check_numpy_archive(cj_archive *a)
{
    assert_non_null(a);
    assert_int_equal(a->count, 4);
    assert_string_equal(a->item[0].name, "weight");
    check_fixture(cj_archive_find(a, "weight"), CJ_F32, CJ_SHAPE(3, 4));
    check_fixture(cj_archive_find(a, "layer/bias"), CJ_F64, CJ_SHAPE(3));
    check_fixture(cj_archive_find(a, "count"), CJ_I64, CJ_SCALAR);
    check_fixture(cj_archive_find(a, "mask"), CJ_BOOL, CJ_SHAPE(2, 2));
    assert_null(cj_archive_find(a, "weight.npy"));
    assert_null(cj_archive_find(a, NULL));
    assert_null(cj_archive_meta(a, "weight"));
}

static void npz_from_numpy(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_archive *a = cj_npz_load(c, "tests/fixtures/stored.npz");
    check_numpy_archive(a);
#if defined CJ_HAVE_ZLIB
    cj_archive *b = cj_npz_load(c, "tests/fixtures/deflated.npz");
    check_numpy_archive(b);
    cj_archive_free(b);
#endif
    cj_archive_free(a);
    cj_archive_free(NULL);
    cj_ctx_free(c);
}

static void npz_round_trip(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_named item[ALL + 3];
    char name[ALL][8];
    for (int i = 0; i < ALL; i++) {
        snprintf(name[i], sizeof name[i], "%s", cj_dtype_name(all[i]));
        item[i] = (cj_named){ name[i], make_fixture(c, all[i], CJ_SHAPE(3, 2 + i)) };
    }
    item[ALL] = (cj_named){ "größe", cj_t(make_fixture(c, CJ_F32, CJ_SHAPE(3, 4))) };
    item[ALL + 1] = (cj_named){ "empty", cj_zeros(c, CJ_SHAPE(0, 2), CJ_F32) };
    item[ALL + 2] = (cj_named){ "long", cj_zeros(c, CJ_SHAPE(100000), CJ_F64) };
    assert_true(cj_npz_save(c, in_folder("all.npz"), item, ALL + 3));
    cj_archive *a = cj_npz_load(c, in_folder("all.npz"));
    assert_non_null(a);
    assert_int_equal(a->count, ALL + 3);
    for (int i = 0; i < ALL; i++) check_fixture(cj_archive_find(a, name[i]), all[i], CJ_SHAPE(3, 2 + i));
    assert_int_equal(cj_size(cj_archive_find(a, "größe"), 0), 4);
    assert_int_equal(cj_numel(cj_archive_find(a, "long")), 100000);

    assert_true(cj_npz_save(c, in_folder("none.npz"), NULL, 0));
    cj_archive *none = cj_npz_load(c, in_folder("none.npz"));
    assert_non_null(none);
    assert_int_equal(none->count, 0);
    /* the same tensors give the same bytes */
    size_t n, m;
    assert_true(cj_npz_save(c, in_folder("again.npz"), item, ALL + 3));
    unsigned char *x = read_all(in_folder("all.npz"), &n), *y = read_all(in_folder("again.npz"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    cj_ctx_free(c); /* frees the archives too */
}

static void npz_bad_names(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_tensor *t = cj_scalar(c, 1);
    const cj_named bad[][2] = { { { "a", t }, { "a", t } },
                                { { "", t }, { "b", t } },
                                { { NULL, t }, { "b", t } },
                                { { "a", NULL }, { "b", t } },
                                { { "\xff", t }, { "b", t } } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cj_npz_save(c, in_folder("bad.npz"), bad[i], 2));
        assert_int_equal(cj_error(c), CJ_EVALUE);
        assert_false(exists(in_folder("bad.npz")));
        cj_clear(c);
    }
    assert_false(cj_npz_save(c, in_folder("bad.npz"), NULL, 1));
    cj_ctx_free(c);
}

static void patch32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* Contradictions that random damage seldom hits. */
static void npz_lies(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_named item = { "x", make_fixture(c, CJ_F32, CJ_SHAPE(4)) };
    assert_true(cj_npz_save(c, in_folder("x.npz"), &item, 1));
    size_t n;
    unsigned char *good = read_all(in_folder("x.npz"), &n), *bad = malloc(n);
    size_t end = n - 22, central = end - 46 - 5;
    const struct {
        size_t at;
        uint32_t value;
        const char *word;
    } lies[] = {
        { central + 20, 0xffffffff, "zip64" },
        { central + 24, 0xffffffff, "zip64" },
        { central + 42, 0xffffffff, "zip64" },
        { central + 20, 0x7fffffff, "outside" },
        { central + 24, 0x7fffffff, "contradict" },
        { central + 42, 0x7fffffff, "outside" },
        { central + 16, 0x12345678, "check sum" },
        { central + 10, 99, "method 99" },
        { central + 8, 1, "encrypted" },
        { end + 16, 0xffffffff, "zip64" },
        { end + 16, 0x7fffffff, "outside" },
        { end + 12, 0x7fffffff, "outside" },
        { end + 10, 2, "" },
        { end + 4, 1, "several parts were found" },
        { 0, 0, "start" },
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(bad, good, n);
        if (lies[i].at == central + 10 || lies[i].at == central + 8) bad[lies[i].at] = (unsigned char)lies[i].value;
        else patch32(bad + lies[i].at, lies[i].value);
        write_all(in_folder("lie.npz"), bad, n);
        assert_null(cj_npz_load(c, in_folder("lie.npz")));
        assert_int_equal(cj_error(c), CJ_EFILE);
        if (!strstr(cj_message(c), lies[i].word)) fail_msg("lie %zu: %s", i, cj_message(c));
        cj_clear(c);
    }
    assert_true(cj_memory_stats(c).peak < 1 << 20);
    free(good);
    free(bad);
    cj_ctx_free(c);
}

static bool load_npz(cj_ctx *c, const char *path)
{
    cj_archive *a = cj_npz_load(c, path);
    for (int i = 0; a && i < a->count; i++) touch(a->item[i].tensor);
    return a != NULL;
}

static bool save_npz(cj_ctx *c, const char *path)
{
    cj_named item[] = { { "random", cj_rand(c, CJ_SHAPE(10000), NULL) }, { "zero", cj_zeros(c, CJ_SHAPE(10), CJ_F32) } };
    return cj_npz_save(c, path, item, 2);
}

static void npz_damaged(void **state)
{
    (void)state;
    damage(load_npz, "tests/fixtures/stored.npz", 600);
    damage(load_npz, "tests/fixtures/deflated.npz", 600);
}

static void npz_full_disk(void **state)
{
    (void)state;
    full_disk(save_npz, 30000);
}

static bool memory_npz(cj_ctx *c)
{
    cj_archive *a = cj_npz_load(c, "tests/fixtures/stored.npz");
    bool ok = a && cj_npz_save(c, in_folder("memory.npz"), a->item, a->count);
    cj_archive *b = ok ? cj_npz_load(c, in_folder("memory.npz")) : NULL;
    cj_archive_free(a);
    return b != NULL;
}

static void npz_no_memory(void **state)
{
    (void)state;
    fail_every_allocation(memory_npz);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_round_trip), cmocka_unit_test(npy_strided),   cmocka_unit_test(npy_bits_survive),
        cmocka_unit_test(npy_from_numpy), cmocka_unit_test(npy_foreign),   cmocka_unit_test(npy_headers),
        cmocka_unit_test(npy_damaged),    cmocka_unit_test(npy_full_disk), cmocka_unit_test(npy_unwritable),
        cmocka_unit_test(npy_cancelled),  cmocka_unit_test(npy_no_memory), cmocka_unit_test(npz_from_numpy),
        cmocka_unit_test(npz_round_trip), cmocka_unit_test(npz_bad_names), cmocka_unit_test(npz_lies),
        cmocka_unit_test(npz_damaged),    cmocka_unit_test(npz_full_disk), cmocka_unit_test(npz_no_memory),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
