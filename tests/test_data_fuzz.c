/* Every reader on damaged files: the committed corpus (tests/fixtures, tests/corpus) and small files of every format, changed at random; a reader gives a
 * result or an error, never a crash, and leaves no memory behind.  $CAJAL_FUZZ_SECONDS per reader (1 by default; 20 in CI, 600 in make test-long); the seed is
 * printed, and $CAJAL_FUZZ_SEED repeats a run.
 */
#include <math.h>
#include <time.h>

#include "files.h"

typedef struct target {
    const char *name;
    bool (*load)(cj_ctx *c, const char *path);
} target;

static bool idx(cj_ctx *c, const char *path) { return cj_idx_load(c, path) != NULL; }
static bool csv(cj_ctx *c, const char *path) { return cj_csv_load(c, path, NULL) != NULL; }
#if defined CJ_HAVE_PNG
static bool image(cj_ctx *c, const char *path) { return cj_image_load(c, path) != NULL; }
#endif
static bool lines(cj_ctx *c, const char *path) { return cj_lines_load(c, path) != NULL; }
static bool mat(cj_ctx *c, const char *path) { return cj_mat_load(c, path) != NULL; }
static bool gml(cj_ctx *c, const char *path) { return cj_gml_load(c, path) != NULL; }
static bool voc(cj_ctx *c, const char *path) { return cj_voc_load(c, path) != NULL; }
static bool ts(cj_ctx *c, const char *path) { return cj_ts_load(c, path) != NULL; }
static bool npy(cj_ctx *c, const char *path) { return !cj_is_poison(cj_npy_load(c, path)); }
static bool npz(cj_ctx *c, const char *path) { return cj_npz_load(c, path) != NULL; }
#if defined CJ_HAVE_CJSON
static bool safetensors(cj_ctx *c, const char *path) { return cj_safetensors_load(c, path) != NULL; }
#endif
static bool wav(cj_ctx *c, const char *path)
{
    int64_t rate;
    return cj_wav_load(c, path, &rate) != NULL;
}
static bool cifar(cj_ctx *c, const char *path)
{
    cj_tensor *x, *y;
    return cj_cifar_load(c, path, 1, &x, &y);
}
static bool pickle(cj_ctx *c, const char *path) /* the damaged file stands for one of eight */
{
    static const char *const parts[] = { "x", "tx", "allx", "y", "ty", "ally", "graph", "test.index" };
    int which = (int)(dice() % 8);
    for (int i = 0; i < 8; i++) {
        char from[400], to[64];
        size_t n;
        snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[i]);
        snprintf(to, sizeof to, "ind.f.%s", parts[i]);
        unsigned char *b = read_all(i == which ? path : from, &n);
        write_all(in_folder(to), b, n);
        free(b);
    }
    return cj_planetoid_load(c, folder, "f") != NULL;
}
static bool vocabulary(cj_ctx *c, const char *path)
{
    size_t n;
    unsigned char *b = read_all(path, &n);
    write_all(in_folder("vocab.bpe"), b, n);
    free(b);
    return cj_tokeniser_gpt2(c, folder) != NULL;
}

/* What a text or a header is made of: joined at random into the files. */
static const char *const words[] = { "graph [ node [ id 1 ] edge [ source 1 target 1 ] ]",
                                     "@data\n",
                                     "@classLabel true a b\n",
                                     "1,2:a\n",
                                     "\"",
                                     "\"\"",
                                     ",",
                                     "\n",
                                     "[",
                                     "]",
                                     "<object>",
                                     "</object>",
                                     "<bndbox>",
                                     "<xmin>",
                                     "-",
                                     "1e999",
                                     "nan",
                                     "\xff\xff\xff\xff",
                                     "RIFF",
                                     "data",
                                     "\x1f\x8b\x08",
                                     "IHDR",
                                     "<!--",
                                     "\x80\x02",
                                     "cnumpy\nndarray\n",
                                     "(",
                                     "t",
                                     "R",
                                     "b",
                                     "}",
                                     "u",
                                     ".",
                                     "9223372036854775808",
                                     "<annotation>",
                                     "\xef\xbb\xbf" };

static size_t change(unsigned char *b, size_t n, size_t room)
{
    int count = 1 + (int)(dice() % 6);
    for (int k = 0; k < count; k++) {
        size_t at = n ? dice() % n : 0, length = 1 + dice() % 16;
        switch (dice() % 7) {
        case 0:
            if (n) b[at] ^= (unsigned char)(1u << dice() % 8);
            break;
        case 1:
            if (n) b[at] = (unsigned char)dice();
            break;
        case 2: /* cut out */
            if (at + length <= n) memmove(b + at, b + at + length, n - at - length), n -= length;
            break;
        case 3: /* double */
            if (at + length <= n && n + length <= room) memmove(b + at + length, b + at, n - at), n += length;
            break;
        case 4: { /* put a word in */
            const char *w = words[dice() % (sizeof words / sizeof words[0])];
            length = strlen(w);
            if (n + length <= room) memmove(b + at + length, b + at, n - at), memcpy(b + at, w, length), n += length;
            break;
        }
        case 5: /* a number of 4 bytes at its edges */
            if (at + 4 <= n)
                memcpy(b + at, (const char *[]){ "\0\0\0\0", "\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\x7f\xff\xff\xff" }[dice() % 4], 4);
            break;
        default: n = dice() % 8 ? n : at; /* end early */
        }
    }
    return n;
}

static void fuzz(const target *t, const char *const *seeds)
{
    const char *text = getenv("CAJAL_FUZZ_SECONDS"), *seed = getenv("CAJAL_FUZZ_SEED");
    double seconds = text ? atof(text) : 1;
    dice_state = seed ? strtoull(seed, NULL, 10) : 20260101;
    printf("%s: seed %llu\n", t->name, (unsigned long long)dice_state);
    unsigned char *good[8], *bad = malloc(1 << 16);
    size_t n[8];
    int count = 0;
    for (; seeds[count]; count++) good[count] = read_all(seeds[count], &n[count]);
    assert_true(count > 0);
    clock_t start = clock();
    long runs = 0, accepted = 0;
    while ((double)(clock() - start) < seconds * CLOCKS_PER_SEC && runs < 2000000) {
        int k = (int)(dice() % (uint64_t)count);
        assert_true(n[k] < 1 << 15);
        memcpy(bad, good[k], n[k]);
        size_t length = runs < count ? n[k] : change(bad, n[k], 1 << 16);
        const char *path = in_folder("fuzz");
        write_all(path, bad, length);
        counted a = { 0 };
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .alloc = counted_alloc, .alloc_user = &a, .threads = 1 });
        cj_scope s = cj_scope_open(c);
        bool ok = t->load(c, path);
        if (ok != cj_ok(c)) fail_msg("%s: %s, but the message is \"%s\"", t->name, ok ? "a result" : "no result", cj_message(c));
        if (!ok && cj_error(c) != CJ_EFILE && cj_error(c) != CJ_ESHAPE) fail_msg("%s: \"%s\"", t->name, cj_message(c));
        accepted += ok;
        cj_scope_close(s);
        cj_ctx_free(c);
        assert_int_equal(a.live, 0);
        runs++;
    }
    printf("%s: %ld files, %ld accepted\n", t->name, runs, accepted);
    assert_true(runs > 10 && accepted > 0);
    for (int i = 0; i < count; i++) free(good[i]);
    free(bad);
}

#define FIXTURE(name) CJ_SOURCE_DIR "/tests/fixtures/" name
#define CORPUS(name) CJ_SOURCE_DIR "/tests/corpus/" name
#define FUZZ(reader, ...)                                                                                                                  \
    static void fuzz_##reader(void **state)                                                                                                \
    {                                                                                                                                      \
        (void)state;                                                                                                                       \
        const char *const seeds[] = { __VA_ARGS__, NULL };                                                                                 \
        fuzz(&(target){ #reader, reader }, seeds);                                                                                         \
    }
FUZZ(idx, CORPUS("small.idx"), CORPUS("i8.idx"), CORPUS("i16.idx"), CORPUS("i32.idx"), CORPUS("f32.idx"), CORPUS("f64.idx"))
FUZZ(csv, CORPUS("small.csv"))
FUZZ(lines, CORPUS("small.csv"), CORPUS("small.ts"))
FUZZ(mat, FIXTURE("small.mat"))
FUZZ(gml, CORPUS("small.gml"))
FUZZ(voc, CORPUS("small.xml"))
FUZZ(ts, CORPUS("small.ts"))
FUZZ(npy, FIXTURE("f4.npy"), FIXTURE("fortran.npy"), FIXTURE("i2.npy"), FIXTURE("version3.npy"), FIXTURE("scalar.npy"), FIXTURE("f2.npy"))
FUZZ(npz, FIXTURE("stored.npz"))
FUZZ(wav, CORPUS("small.wav"), CORPUS("pcm8.wav"), CORPUS("pcm24.wav"), CORPUS("float.wav"))
FUZZ(cifar, CORPUS("small.cifar"))
FUZZ(pickle, FIXTURE("ind.tiny.x"), FIXTURE("ind.tiny.graph"), FIXTURE("ind.tiny.y"), FIXTURE("ind.tiny.allx"), FIXTURE("ind.tiny.tx"))
FUZZ(vocabulary, CORPUS("small.bpe"))
#if defined CJ_HAVE_CJSON
FUZZ(safetensors, FIXTURE("python.safetensors"))
#endif
#if defined CJ_HAVE_PNG
FUZZ(image, CORPUS("small.png"), CORPUS("palette.png"), CORPUS("alpha.png"), CORPUS("deep.png"))
#endif
#if defined CJ_HAVE_JPEG
static bool jpeg(cj_ctx *c, const char *path) { return cj_image_load(c, path) != NULL; }
FUZZ(jpeg, CORPUS("small.jpg"), CORPUS("grey.jpg"))
#endif
/* Compressed files: damage hits the compression, and what it hid. */
#if defined CJ_HAVE_ZLIB
static bool gzip(cj_ctx *c, const char *path) { return idx(c, path); }
static bool packed_mat(cj_ctx *c, const char *path) { return mat(c, path); }
static bool deflated(cj_ctx *c, const char *path) { return npz(c, path); }
FUZZ(gzip, CORPUS("small.idx.gz"))
FUZZ(packed_mat, FIXTURE("packed.mat"))
FUZZ(deflated, FIXTURE("deflated.npz"))
#endif
#if defined CJ_HAVE_LZMA
static bool xz(cj_ctx *c, const char *path) { return idx(c, path); }
FUZZ(xz, CORPUS("small.idx.xz"))
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuzz_idx),
        cmocka_unit_test(fuzz_csv),
        cmocka_unit_test(fuzz_lines),
        cmocka_unit_test(fuzz_mat),
        cmocka_unit_test(fuzz_gml),
        cmocka_unit_test(fuzz_voc),
        cmocka_unit_test(fuzz_ts),
        cmocka_unit_test(fuzz_npy),
        cmocka_unit_test(fuzz_npz),
        cmocka_unit_test(fuzz_wav),
        cmocka_unit_test(fuzz_cifar),
        cmocka_unit_test(fuzz_pickle),
        cmocka_unit_test(fuzz_vocabulary),
#if defined CJ_HAVE_CJSON
        cmocka_unit_test(fuzz_safetensors),
#endif
#if defined CJ_HAVE_PNG
        cmocka_unit_test(fuzz_image),
#endif
#if defined CJ_HAVE_JPEG
        cmocka_unit_test(fuzz_jpeg),
#endif
#if defined CJ_HAVE_ZLIB
        cmocka_unit_test(fuzz_gzip),
        cmocka_unit_test(fuzz_packed_mat),
        cmocka_unit_test(fuzz_deflated),
#endif
#if defined CJ_HAVE_LZMA
        cmocka_unit_test(fuzz_xz),
#endif
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
