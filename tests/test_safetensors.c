/* .safetensors: round trips, a file of the Python package, lying headers, damaged files, no space, no memory. */
#include "data/file.h"
#include "files.h"

static const cj_dtype all[] = { CJ_U8, CJ_F32, CJ_F64, CJ_BF16, CJ_BOOL, CJ_F16, CJ_I64, CJ_I32 };
enum { ALL = sizeof all / sizeof all[0] };

#if defined CJ_HAVE_CJSON

static cj_ctx *new_ctx(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    assert_true(cj_ok(c));
    return c;
}

static void from_python(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_archive *a = cj_safetensors_load(c, "tests/fixtures/python.safetensors");
    assert_non_null(a);
    assert_int_equal(a->count, 10);
    check_fixture(cj_archive_find(a, "weight"), CJ_F32, CJ_SHAPE(3, 4));
    check_fixture(cj_archive_find(a, "bias"), CJ_BF16, CJ_SHAPE(3));
    check_fixture(cj_archive_find(a, "half"), CJ_F16, CJ_SHAPE(2));
    check_fixture(cj_archive_find(a, "double"), CJ_F64, CJ_SHAPE(1, 2));
    check_fixture(cj_archive_find(a, "long"), CJ_I64, CJ_SCALAR);
    check_fixture(cj_archive_find(a, "int"), CJ_I32, CJ_SHAPE(4));
    check_fixture(cj_archive_find(a, "byte"), CJ_U8, CJ_SHAPE(3));
    check_fixture(cj_archive_find(a, "mask"), CJ_BOOL, CJ_SHAPE(2, 2));
    check_fixture(cj_archive_find(a, "empty"), CJ_F32, CJ_SHAPE(0, 3));
    assert_true(cj_item(cj_archive_find(a, "naïve \"name\"\n")) == 1);
    assert_int_equal(a->pairs, 2);
    assert_string_equal(cj_archive_meta(a, "format"), "pt");
    assert_string_equal(cj_archive_meta(a, "é"), "\\ \"x\"\n");
    assert_null(cj_archive_meta(a, "none"));
    cj_ctx_free(c);
}

static void round_trip(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_named item[ALL + 3];
    char name[ALL][8];
    for (int i = 0; i < ALL; i++) {
        snprintf(name[i], sizeof name[i], "%s", cj_dtype_name(all[i]));
        item[i] = (cj_named){ name[i], make_fixture(c, all[i], CJ_SHAPE(3, 3 + i)) };
    }
    item[ALL] = (cj_named){ "größe \"\\\n", cj_slice(cj_t(make_fixture(c, CJ_F32, CJ_SHAPE(3, 4))), 0, 3, 0, -1) };
    item[ALL + 1] = (cj_named){ "empty", cj_zeros(c, CJ_SHAPE(0, 2), CJ_F32) };
    item[ALL + 2] = (cj_named){ "scalar", make_fixture(c, CJ_F64, CJ_SCALAR) };
    const cj_text_pair pair[] = { { "epoch", "3" }, { "", "empty key" }, { "ünïcode", "\t\x01 \"" } };
    assert_true(cj_safetensors_save(c, in_folder("all.safetensors"), item, ALL + 3, pair, 3));
    assert_false(exists(in_folder("all.safetensors.tmp")));
    cj_archive *a = cj_safetensors_load(c, in_folder("all.safetensors"));
    assert_non_null(a);
    assert_int_equal(a->count, ALL + 3);
    for (int i = 0; i < ALL + 3; i++) assert_string_equal(a->item[i].name, item[i].name); /* the caller's order */
    for (int i = 0; i < ALL; i++) check_fixture(a->item[i].tensor, all[i], CJ_SHAPE(3, 3 + i));
    check_fixture(cj_archive_find(a, "scalar"), CJ_F64, CJ_SCALAR);
    double x[9], y[9];
    assert_true(cj_to_f64(item[ALL].tensor, x, 9) && cj_to_f64(a->item[ALL].tensor, y, 9));
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(a->pairs, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(a->pair[i].key, pair[i].key);
        assert_string_equal(a->pair[i].value, pair[i].value);
    }
    /* the elements start at a multiple of 8, and each tensor at a multiple of its element */
    size_t n;
    unsigned char *file = read_all(in_folder("all.safetensors"), &n);
    assert_int_equal(file[0] % 8, 0);
    free(file);

    assert_true(cj_safetensors_save(c, in_folder("none.safetensors"), NULL, 0, NULL, 0));
    cj_archive *none = cj_safetensors_load(c, in_folder("none.safetensors"));
    assert_non_null(none);
    assert_int_equal(none->count + none->pairs, 0);
    cj_archive_free(a);
    cj_ctx_free(c);
}

/* Tensors outlive scopes and go with the archive, except what is kept. */
static void lifetimes(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    cj_scope s = cj_scope_open(c);
    cj_archive *a = cj_safetensors_load(c, "tests/fixtures/python.safetensors");
    cj_scope_close(s);
    check_fixture(cj_archive_find(a, "weight"), CJ_F32, CJ_SHAPE(3, 4));
    cj_tensor *kept = cj_keep(cj_archive_find(a, "weight"));
    cj_archive_free(a);
    check_fixture(kept, CJ_F32, CJ_SHAPE(3, 4));
    cj_release(kept);
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    cj_ctx_free(c);
}

static void bad_arguments(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const char *path = in_folder("bad.safetensors");
    cj_tensor *t = cj_scalar(c, 1);
    const cj_named good = { "a", t };
    const cj_named bad[][2] = {
        { { "a", t }, { "a", t } }, { { "", t }, { "b", t } }, { { "__metadata__", t }, { "b", t } }, { { "\xc0\x80", t }, { "b", t } }
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cj_safetensors_save(c, path, bad[i], 2, NULL, 0));
        assert_int_equal(cj_error(c), CJ_EVALUE);
        cj_clear(c);
    }
    const cj_text_pair pair[][2] = { { { "k", "v" }, { "k", "w" } }, { { NULL, "v" }, { "k", "v" } }, { { "k", "\xff" }, { "l", "v" } } };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        assert_false(cj_safetensors_save(c, path, &good, 1, pair[i], 2));
        assert_int_equal(cj_error(c), CJ_EVALUE);
        cj_clear(c);
    }
    assert_false(exists(path));
    cj_tensor *poison = cj_fail(c, CJ_EVALUE, "test");
    cj_clear(c);
    assert_false(cj_safetensors_save(c, path, &(cj_named){ "p", poison }, 1, NULL, 0));
    assert_int_equal(cj_error(c), CJ_ESTALE);
    assert_null(cj_safetensors_load(NULL, path));
    cj_ctx_free(c);
}

/* A file with this header and `bytes` bytes after it. */
static const char *with_header(const char *json, size_t bytes)
{
    static unsigned char file[8192];
    size_t n = strlen(json);
    memset(file, 0, sizeof file);
    file[0] = (unsigned char)n;
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, json, n);
    write_all(in_folder("made.safetensors"), file, 8 + n + bytes);
    return in_folder("made.safetensors");
}

static void headers(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx();
    const char *const good[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"data_offsets\":[0,8], \"shape\" : [ 2 ],\"dtype\":\"F32\"} }   \n",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
        "{\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cj_archive *a = cj_safetensors_load(c, with_header(good[i], 8));
        if (!a) fail_msg("%s: %s", good[i], cj_message(c));
        assert_non_null(cj_archive_find(a, "a"));
    }
    const struct {
        const char *json, *word;
    } bad[] = {
        { "", "JSON" },
        { "[]", "JSON" },
        { "{\"a\":1}", "object" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "one was not found" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", "each once" },
        { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "each once" },
        { "{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", "C64" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
          "data_offsets that f32 [3] fits were expected of tensor 'a', 0 to 8 were found" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "8 to 0 were found" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", "two whole" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "whole numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", "whole numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1e99],\"data_offsets\":[0,8]}}", "whole numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", "two whole" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", "8 dimensions" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
          "16 bytes of tensors were expected after the header, 8 were found" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          "4 bytes of tensors were expected after the header, 8 were found" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "hole" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          "overlap" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          "twice" },
        { "{\"__metadata__\":1,\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "__metadata__" },
        { "{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "a text was expected as metadata 'k'" },
        { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "twice" },
        { "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "UTF-8" },
        { "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "UTF-8" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} {}", "JSON" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_null(cj_safetensors_load(c, with_header(bad[i].json, 8)));
        assert_int_equal(cj_error(c), CJ_EFILE);
        if (!strstr(cj_message(c), bad[i].word)) fail_msg("'%s' is not in: %s", bad[i].word, cj_message(c));
        cj_clear(c);
    }
    const char *path = in_folder("lie.safetensors");
    write_all(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_null(cj_safetensors_load(c, path));
    assert_non_null(strstr(cj_message(c), "a header of at most 2 bytes was expected, one of 18446744073709551615 was found"));
    cj_clear(c);
    write_all(path, "\x10\0\0\0\0\0\0\0{}", 10);
    assert_null(cj_safetensors_load(c, path));
    assert_non_null(strstr(cj_message(c), "at byte 0: a header of at most 2 bytes was expected, one of 16 was found"));
    cj_clear(c);
    assert_true(cj_memory_stats(c).peak < 1 << 20);
    cj_ctx_free(c);
}

static void deep_nesting(void **state)
{
    (void)state;
    size_t n = 100000;
    unsigned char *file = malloc(n + 8);
    memset(file, '[', n + 8);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(n >> 8 * i);
    memcpy(file + 8, "{\"a\":", 5);
    write_all(in_folder("deep.safetensors"), file, n + 8);
    free(file);
    cj_ctx *c = new_ctx();
    assert_null(cj_safetensors_load(c, in_folder("deep.safetensors")));
    assert_int_equal(cj_error(c), CJ_EFILE);
    cj_ctx_free(c);
}

static void memory_cap(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .memory_cap = 16384 });
    assert_null(cj_safetensors_load(c, "tests/fixtures/python.safetensors"));
    assert_int_equal(cj_error(c), CJ_EMEMORY);
    cj_ctx_free(c);
}

static bool load(cj_ctx *c, const char *path)
{
    cj_archive *a = cj_safetensors_load(c, path);
    for (int i = 0; a && i < a->count; i++) touch(a->item[i].tensor);
    return a != NULL;
}

static void damaged(void **state)
{
    (void)state;
    damage(load, "tests/fixtures/python.safetensors", 1500);
}

static bool save(cj_ctx *c, const char *path)
{
    cj_named item[] = { { "random", cj_rand(c, CJ_SHAPE(10000), NULL) }, { "zero", cj_zeros(c, CJ_SHAPE(10), CJ_F64) } };
    return cj_safetensors_save(c, path, item, 2, &(cj_text_pair){ "k", "v" }, 1);
}

static void no_space(void **state)
{
    (void)state;
    full_disk(save, 40000);
}

static bool memory(cj_ctx *c)
{
    cj_archive *a = cj_safetensors_load(c, "tests/fixtures/python.safetensors");
    bool ok = a && cj_safetensors_save(c, in_folder("memory.safetensors"), a->item, a->count, a->pair, a->pairs);
    cj_archive *b = ok ? cj_safetensors_load(c, in_folder("memory.safetensors")) : NULL;
    cj_archive_free(a);
    return b != NULL;
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(memory);
}

/* Names are UTF-8: every border of RFC 3629, against decoding to the number and asking what that number may be. */
static bool is_utf8(const unsigned char *s, int n)
{
    for (int i = 0; i < n;) {
        int more = s[i] < 0x80 ? 0 : s[i] >> 5 == 6 ? 1 : s[i] >> 4 == 14 ? 2 : s[i] >> 3 == 30 ? 3 : -1;
        if (more < 0 || i + more >= n) return false;
        uint32_t code = more ? s[i] & (0x3fu >> more) : s[i];
        for (int k = 1; k <= more; k++) {
            if (s[i + k] >> 6 != 2) return false;
            code = code << 6 | (s[i + k] & 0x3f);
        }
        static const uint32_t least[] = { 1, 0x80, 0x800, 0x10000 };
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
        i += more + 1;
    }
    return true;
}
static void names_are_utf8(void **state)
{
    (void)state;
    static const unsigned char second[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff },
                               later[] = { 0x41, 0x7f, 0x80, 0xbf, 0xc0 };
    for (int first = 0; first < 256; first++)
        for (size_t i = 0; i < sizeof second; i++)
            for (size_t j = 0; j < sizeof later; j++)
                for (size_t k = 0; k < sizeof later; k++) {
                    const unsigned char s[4] = { (unsigned char)first, second[i], later[j], later[k] };
                    for (int n = 0; n <= 4; n++)
                        if (cj__utf8((const char *)s, (size_t)n) != is_utf8(s, n))
                            fail_msg("%02x %02x %02x %02x, %d bytes", s[0], s[1], s[2], s[3], n);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_utf8), cmocka_unit_test(from_python), cmocka_unit_test(round_trip),   cmocka_unit_test(lifetimes),
        cmocka_unit_test(bad_arguments),  cmocka_unit_test(headers),     cmocka_unit_test(deep_nesting), cmocka_unit_test(memory_cap),
        cmocka_unit_test(damaged),        cmocka_unit_test(no_space),    cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

#else

static void says_what_is_missing(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    assert_null(cj_safetensors_load(c, "tests/fixtures/python.safetensors"));
    assert_non_null(strstr(cj_message(c), "cJSON"));
    cj_clear(c);
    assert_false(cj_safetensors_save(c, in_folder("x"), NULL, 0, NULL, 0));
    assert_int_equal(cj_error(c), CJ_EFILE);
    assert_int_equal(ALL, 8);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(says_what_is_missing) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

#endif
