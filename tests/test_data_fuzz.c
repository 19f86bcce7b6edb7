/* Every reader on damaged files: the committed corpus (tests/corpus, tests/fixtures) changed at random.  A reader gives a result or an error, never a crash; the
 * error is one sentence that names the file, the byte, what was expected and what was found; no memory is left behind, also where an allocation failed on the way.
 *
 *   $CAJAL_FUZZ_SECONDS   per reader: 1 by default, 20 in CI, 600 in make test-long
 *   $CAJAL_FUZZ_SEED      repeats a run; the seed is printed
 *
 * test_data_fuzz READER runs one of them; tools/fuzz-coverage.sh measures how much of each reader they reach.   ctest: fuzz
 */
#include <glob.h>
#include <math.h>
#include <time.h>

#include "data/bytes.h"
#include "files.h"
#include "train/manifest.h"

#include <cajal/cajal.h>

typedef struct target {
    const char *name;
    bool (*load)(cj_ctx *c, const char *path);
    bool may_disagree; /* settings given by hand that are not those of the file */
} target;

static bool nowhere; /* there is no file: an error without a byte */

static bool looked_at(cj_tensor *t)
{
    if (cj_is_poison(t)) return false;
    touch(t);
    return true;
}
static bool all_looked_at(const cj_archive *a)
{
    for (int i = 0; a && i < a->count; i++) {
        touch(a->item[i].tensor);
        assert_non_null(cj_archive_find(a, a->item[i].name)); /* of two MATLAB arrays of one name the first */
    }
    for (int i = 0; a && i < a->pairs; i++) assert_non_null(cj_archive_meta(a, a->pair[i].key));
    if (a) assert_true(!cj_archive_find(a, "none of these") && !cj_archive_meta(a, "none of these"));
    return a != NULL;
}

/* ---- readers ------------------------------------------------------------------------------------------------------------------------------------- */

static bool idx(cj_ctx *c, const char *path)
{
    cj_tensor *t = cj_idx_load(c, path);
    return t && looked_at(t);
}
static bool bytes(cj_ctx *c, const char *path)
{
    cj_tensor *t = cj_bytes_load(c, path);
    return t && looked_at(t);
}
static bool csv(cj_ctx *c, const char *path)
{
    static const char delimiters[] = { 0, 0, 0, ',', ';', ' ', '\t' };
    cj_csv_opts o = { .delimiter = delimiters[dice() % 7], .header = (int)(dice() % 3) - 1, .missing = dice() % 4 ? NULL : "-9" };
    cj_table *t = (cj_csv_load)(c, path, dice() % 4 ? NULL : &o);
    for (int64_t j = 0; t && j < t->columns; j++)
        for (int64_t i = 0; i < t->column[j].categories; i++) assert_non_null(t->column[j].category[i]);
    return t && looked_at(t->x);
}
static bool lines(cj_ctx *c, const char *path)
{
    cj_lines *l = cj_lines_load(c, path);
    for (int64_t i = 0; l && i < l->n; i++) assert_int_equal(strlen(l->line[i]), l->length[i]);
    return l != NULL;
}
/* The damaged text is one side; the other has as many lines as the text had before. */
static bool parallel(cj_ctx *c, const char *path)
{
    cj_lines *a, *b;
    const char *other = in_folder("other");
    write_all(other, "one\ntwo\nthree\n", 14);
    return dice() % 2 ? cj_parallel_load(c, path, other, &a, &b) : cj_parallel_load(c, other, path, &a, &b);
}
static bool mat(cj_ctx *c, const char *path) { return all_looked_at(cj_mat_load(c, path)); }
static bool gml(cj_ctx *c, const char *path)
{
    cj_graph *g = cj_gml_load(c, path);
    return g && looked_at(g->target) && looked_at(g->offset);
}
static bool voc(cj_ctx *c, const char *path)
{
    cj_boxes *b = cj_voc_load(c, path);
    for (int64_t i = 0; b && i < b->n; i++) assert_true(b->box[i].xmin <= b->box[i].xmax && strlen(b->box[i].name) < 1 << 16);
    return b != NULL;
}
static bool ts(cj_ctx *c, const char *path)
{
    cj_timeseries *s = cj_ts_load(c, path);
    return s && looked_at(s->x) && looked_at(s->lengths);
}

static bool npy(cj_ctx *c, const char *path)
{
    nowhere = dice() % 64 == 0;
    return looked_at(cj_npy_load(c, !nowhere ? path : dice() % 2 ? folder : in_folder("none")));
}
static bool npz(cj_ctx *c, const char *path) { return all_looked_at(cj_npz_load(c, path)); }
static bool wav(cj_ctx *c, const char *path)
{
    int64_t rate;
    cj_tensor *t = cj_wav_load(c, path, &rate);
    return t && looked_at(t);
}
static bool cifar(cj_ctx *c, const char *path)
{
    cj_tensor *x, *y;
    return cj_cifar_load(c, path, 1 + (int)(dice() % 2), &x, &y) && looked_at(x) && looked_at(y);
}

/* Copies a file to FOLDER/name. */
static void copy_to(const char *from, const char *name)
{
    size_t n;
    unsigned char *b = read_all(from, &n);
    write_all(in_folder(name), b, n);
    free(b);
}

static bool planetoid(cj_ctx *c, const char *path) /* the damaged file stands for one of eight */
{
    static const char *const parts[] = { "x", "tx", "allx", "y", "ty", "ally", "graph", "test.index" };
    static bool copied;
    char from[400], to[64];
    for (int i = 0; i < 8 && !copied; i++) {
        snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[i]);
        snprintf(to, sizeof to, "ind.f.%s", parts[i]);
        copy_to(from, to);
    }
    copied = true;
    int which = (int)(dice() % 8);
    size_t n;
    unsigned char *b = read_all(path, &n);
    for (int i = 0; i < 8 && dice() % 4; i++) { /* mostly the part that it came from */
        size_t m;
        snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[i]);
        unsigned char *good = read_all(from, &m);
        if (m > 20 && n > 20 && memcmp(good, b, 20) == 0) which = i;
        if (n && b[0] >= '0' && b[0] <= '9') which = 7;
        free(good);
    }
    snprintf(to, sizeof to, "ind.f.%s", parts[which]);
    write_all(in_folder(to), b, n);
    free(b);
    cj_graph *g = cj_planetoid_load(c, folder, "f");
    bool ok = g && looked_at(g->x) && looked_at(g->target) && looked_at(g->test);
    snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[which]);
    copy_to(from, to);
    return ok;
}

/* A tar file in memory: the members one after the other, and one by its name. */
static bool tar(cj_ctx *c, const char *path)
{
    cj_bytes b, member;
    cj_tar_member m;
    size_t at = 0;
    bool found = true, ok = cj__bytes_load(&b, c, "cj__tar_next", path);
    while (ok && found) {
        ok = cj__tar_next(&b, &at, &m, &found);
        assert_true(!ok || !found || m.offset + m.n <= b.n);
    }
    ok = ok && cj__tar_find(&b, "b.txt", &member);
    cj__bytes_free(&b);
    return ok;
}

/* ---- texts as tokens ------------------------------------------------------------------------------------------------------------------------------- */

static bool there_and_back(const cj_tokeniser *t, const char *text, int64_t n, bool lossless)
{
    int64_t count = t ? cj_encode(t, text, n, NULL, 0) : -1;
    if (count < 0) return false;
    int64_t *token = malloc(((size_t)count + 1) * sizeof *token);
    char *back = malloc((size_t)n + 1);
    assert_int_equal(cj_encode(t, text, n, token, count), count);
    int64_t length = cj_decode(t, token, count, back, n + 1);
    if (lossless) {
        assert_int_equal(length, n);
        assert_memory_equal(back, text, (size_t)n);
    }
    free(token), free(back);
    return length >= 0;
}

/* Every tokeniser learnt from the damaged text, and the text through it: bytes, characters and byte-pair encoding give it back whatever it is. */
static bool tokens(cj_ctx *c, const char *path)
{
    static const char *const specials[] = { "<pad>", "<unk>", NULL };
    size_t size;
    unsigned char *b = read_all(path, &size);
    const char *text = (const char *)b;
    int64_t n = (int64_t)size;
    bool ok = there_and_back(cj_tokeniser_bytes(c), text, n, true) && there_and_back(cj_tokeniser_characters(c, text, n), text, n, true) &&
              there_and_back(cj_tokeniser_characters(c, "abc", 3, .specials = specials), text, n, false) &&
              there_and_back(cj_tokeniser_words(c, text, n, .lower = dice() % 2), text, n, false) &&
              there_and_back(cj_tokeniser_words(c, text, n, .least = 2, .vocabulary = 20, .specials = specials), text, n, false) &&
              there_and_back(cj_tokeniser_bpe(c, text, n, .vocabulary = 300), text, n, true) &&
              there_and_back(cj_tokeniser_bpe(c, text, n, .vocabulary = 60, .word_end = "_"), text, n, false);
    free(b);
    return ok;
}

/* A vocabulary of the damaged text's lines, and the lines through it. */
static bool words(cj_ctx *c, const char *path)
{
    cj_lines *l = cj_lines_load(c, path);
    cj_words *w = l ? cj_words_new(c, l->line, l->n, .least = 1) : NULL;
    if (!w) return false;
    if (l->n == 0) return true;
    cj_tensor *x = cj_words_encode(w, l->line, l->n, dice() % 2, dice() % 2 ? 0 : 8);
    int64_t n = cj_is_poison(x) ? -1 : cj_numel(x), *number = malloc((size_t)(n + 2) * sizeof *number);
    char text[256];
    if (n >= 0 && cj_to_i64(x, number, n)) cj_words_text(w, number, n, text, sizeof text);
    if (n >= 0 && cj_words_save(w, in_folder("kept.tokens"))) cj_words_load(c, in_folder("kept.tokens"));
    free(number);
    return n >= 0 && cj_ok(c);
}

static bool tokeniser(cj_ctx *c, const char *path)
{
    static const char text[] = "the cat, h\xc3\xa9llo  42";
    cj_tokeniser *t = cj_tokeniser_load(c, path);
    bool ok = t && (there_and_back(t, text, sizeof text - 1, false) || cj_error(c) == CJ_EVALUE); /* a character that it does not know */
    if (ok) cj_clear(c);
    return ok && cj_tokeniser_save(t, in_folder("again.tokens"));
}

static bool vocabulary(cj_ctx *c, const char *path)
{
    copy_to(path, "vocab.bpe");
    cj_tokeniser *t = cj_tokeniser_gpt2(c, folder);
    return t && there_and_back(t, "hello h\xc3\xa9llo  42'll", 18, true);
}

/* ---- images -------------------------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_HAVE_PNG
static bool png(cj_ctx *c, const char *path)
{
    cj_tensor *t = cj_image_load(c, path);
    return t && looked_at(t);
}
#endif
#if defined CJ_HAVE_JPEG
static bool jpeg(cj_ctx *c, const char *path)
{
    cj_tensor *t = cj_image_load(c, path);
    return t && looked_at(t);
}
#endif
#if defined CJ_HAVE_PNG && defined CJ_HAVE_JPEG
/* A folder per class; the damaged image is the second of three. */
static bool images(cj_ctx *c, const char *path)
{
    static bool made;
    if (!made) {
        mkdir(in_folder("set"), 0777), mkdir(in_folder("set/ant"), 0777), mkdir(in_folder("set/bee"), 0777);
        copy_to(CJ_SOURCE_DIR "/tests/corpus/small.png", "set/ant/1.png");
        copy_to(CJ_SOURCE_DIR "/tests/corpus/small.jpg", "set/bee/1.jpg");
        write_all(in_folder("set/bee/notes.txt"), "x", 1);
        made = true;
    }
    copy_to(path, "set/bee/0.png");
    cj_image_folder_opts o = { .channels = dice() % 2 ? 1 : 3 };
    if (dice() % 4) o.height = 1 + (int64_t)(dice() % 9), o.width = 1 + (int64_t)(dice() % 9);
    if (dice() % 64 == 0) o.height = o.width = 65536; /* more than there may be */
    cj_image_folder *f = (cj_image_folder_load)(c, in_folder("set"), &o);
    return f && looked_at(f->x) && looked_at(f->y);
}
#endif

/* ---- files of runs, and sets ------------------------------------------------------------------------------------------------------------------------------ */

#if defined CJ_HAVE_CJSON
static bool safetensors(cj_ctx *c, const char *path) { return all_looked_at(cj_safetensors_load(c, path)); }

static bool config(cj_ctx *c, const char *path)
{
    char text[64];
    copy_to(path, "config.json");
    cj_settings *s = cj_settings_new(c, NULL);
    if (dice() % 4 == 0 && s) cj_settings_set(s, "lr", "0.01");
    bool ok = s && cj_settings_load(s, folder);
    if (ok) cj_run_fact(c, folder, "lr", text, sizeof text);
    return ok;
}

static bool manifest(cj_ctx *c, const char *path)
{
    cj_generation all[CJ_GENERATIONS];
    copy_to(path, dice() % 2 ? "MANIFEST.json" : "MANIFEST.old.json");
    int n = cj__manifest_read(c, folder, all);
    for (int i = 0; i < n; i++) assert_true(strlen(all[i].model.name) < sizeof all[i].model.name);
    unlink(in_folder("MANIFEST.json")), unlink(in_folder("MANIFEST.old.json"));
    return n >= 0;
}

static bool metrics(cj_ctx *c, const char *path)
{
    double v[3 * 64];
    copy_to(path, "metrics.jsonl");
    return cj_run_metrics(c, folder, (const char *const[]){ "step", "loss", "accuracy" }, 3, v, 64) >= 0;
}
#endif

#if defined CJ_HAVE_PROTOBUF_C
static bool onnx(cj_ctx *c, const char *path) { return all_looked_at(cj_onnx_load(c, path)); }
#endif

/* A data set whose files are those of tests/corpus/sets but for set_file, which is the damaged one. */
static char set_name[64], set_file[160];
static bool sets(cj_ctx *c, const char *path)
{
    static bool made;
    if (!made) {
        char command[400];
        snprintf(command, sizeof command, "cp -r '%s/tests/corpus/sets' '%s/data'", CJ_SOURCE_DIR, folder);
        assert_int_equal(system(command), 0);
        setenv("CAJAL_DATA", in_folder("data"), 1);
        made = true;
    }
    char good[400], place[200];
    snprintf(place, sizeof place, "data/%s", set_file);
    snprintf(good, sizeof good, "%s/tests/corpus/sets/%s", CJ_SOURCE_DIR, set_file);
    copy_to(path, place);
    cj_dataset *d = cj_dataset_open(c, set_name);
    bool ok = d != NULL;
    if (d && d->train_x && cj_numel(d->train_x)) touch(d->train_x);
    copy_to(good, place);
    return ok;
}

/* ---- damage --------------------------------------------------------------------------------------------------------------------------------------------- */

/* What texts and headers are made of: put into the files at random. */
static const char *const pieces[] = {
    "graph [ node [ id 1 ] edge [ source 1 target 1 ] ]",
    "directed 1 ",
    "node [ id 1 ]",
    "a [ ",
    "#",
    "value 2 ",
    "label \"x\" ",
    "@data\n",
    "@classLabel true a b\n",
    "@timeStamps true\n",
    "1,2:a\n",
    "?",
    ":",
    "\"",
    "\"\"",
    ",",
    ";",
    "\n",
    "\r\n",
    "\t",
    "[",
    "]",
    "{",
    "<object>",
    "</object>",
    "<bndbox>",
    "<xmin>",
    "<difficult>1</difficult>",
    "<size><x/><depth>3</depth></size>",
    "<!-- x -->",
    "<?x?>",
    "<x/>",
    "&lt;",
    "-",
    "1e999",
    "1e-9",
    "12345678901234567890123",
    "nan",
    "-inf",
    "infinity",
    "NA",
    "\xff\xff\xff\xff",
    "RIFF",
    "data",
    "fmt ",
    "\x1f\x8b\x08",
    "\xfd"
    "7zXZ",
    "IHDR",
    "<!--",
    "\x80\x02",
    "cnumpy\nndarray\n",
    "c__builtin__\nlist\n",
    "(",
    "t",
    "R",
    "b",
    "}",
    "u",
    ".",
    "s",
    "N",
    "K\1",
    "M\1\2",
    "J\1\2\3\4",
    "G?\xf0",
    "\x8a\2\1\2",
    "\x88",
    "\x89",
    "\x85",
    "\x86",
    "\x87",
    "q\1",
    "h\1",
    "X\1",
    "U\1x",
    "]",
    ")",
    "a",
    "e",
    "9223372036854775808",
    "<annotation>",
    "\xef\xbb\xbf",
    "\xc3\xa9",
    "\xe2\x82\xac",
    "\xf0\x9f\x98\x80",
    "\xc0\xaf",
    "'s",
    "  ",
    "'descr': ",
    "'shape': (1, 2)",
    "True",
    "False",
    "'<f8'",
    "'>f4'",
    "\"x\"",
    "(1, 1, 1, 1, 1, 1, 1, 1, 1)",
    "\"dtype\":",
    "\"F32\"",
    "\"shape\":",
    "\"__metadata__\":{\"a\":\"b\"},",
    "\\u0000",
    "1.5",
    "-1",
    "0",
    "PK\5\6",
    "PK\1\2",
    "PK\3\4",
    "ustar",
    "17 path=a/b.txt\n",
    "\"lr\":",
    "\"step\":",
    "*\2\10\1", /* an initialiser, raw_data, a group, a size below 0 */
    "J\4\1\2\3\4",
    "\x0b",
    "\10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
};

/* Changes b, of n bytes, in 1 to 6 places; other is a second file of the corpus. */
static size_t change(unsigned char *b, size_t n, size_t room, const unsigned char *other, size_t other_n)
{
    static const char *const edges[] = { "\0\0\0\0", "\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\x7f\xff\xff\xff", "\1\0\0\0", "\0\0\0\1" };
    int count = 1 + (int)(dice() % 6);
    for (int k = 0; k < count; k++) {
        size_t at = n ? dice() % n : 0, length = 1 + dice() % (dice() % 4 ? 16 : 64);
        switch (dice() % 10) {
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
        case 4:
        case 5: { /* put a piece in, or over what stands there */
            const char *w = pieces[dice() % (sizeof pieces / sizeof pieces[0])];
            length = strlen(w);
            if (dice() % 2 && at + length <= n) memcpy(b + at, w, length);
            else if (n + length <= room) memmove(b + at + length, b + at, n - at), memcpy(b + at, w, length), n += length;
            break;
        }
        case 6: /* a number of 4 bytes, or of 1, at its edges */
            length = dice() % 2 ? 4 : 1;
            if (at + length <= n) memcpy(b + at, edges[dice() % 6], length);
            break;
        case 7: { /* a part of another file */
            size_t from = other_n ? dice() % other_n : 0;
            if (length > other_n - from) length = other_n - from;
            if (n + length <= room) memmove(b + at + length, b + at, n - at), memcpy(b + at, other + from, length), n += length;
            break;
        }
        case 8: /* a part many times over */
            length = 1 + dice() % 8;
            if (at + length <= n && dice() % 8 == 0)
                for (size_t times = dice() % 300; times > 0 && n + length <= room; times--)
                    memmove(b + at + length, b + at, n - at), n += length;
            break;
        default: n = dice() % 8 ? n : at; /* end early */
        }
    }
    return n;
}

/* One sentence with the file, the byte, what was expected and what was found. */
static void check_sentence(const target *t, const cj_ctx *c)
{
    const char *m = cj_message(c);
    bool named = strstr(m, folder) != NULL, place = strstr(m, "at byte ") && strstr(m, "expected") && strstr(m, "found");
    bool one_line = true;
    for (const char *s = m; *s; s++) one_line &= (unsigned char)*s >= ' ' && *s != 127;
    if (strlen(m) < CJ_MAX_MESSAGE - 1 && !(named && (place || nowhere) && one_line)) fail_msg("%s: \"%s\"", t->name, m);
}

static bool load_one(const target *t, const char *path, bool starved)
{
    counted a = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .alloc = counted_alloc, .alloc_user = &a, .threads = 1 });
    if (starved) a.fail_at = a.calls + 1 + (long)(dice() % 48), a.stays = dice() % 2;
    cj_scope s = cj_scope_open(c);
    bool ok = t->load(c, path);
    if (ok != cj_ok(c)) fail_msg("%s: %s, but the message is \"%s\"", t->name, ok ? "a result" : "no result", cj_message(c));
    if (cj_error(c) == CJ_EFILE) check_sentence(t, c);
    else if (!ok && !(starved && cj_error(c) == CJ_EMEMORY) && !(t->may_disagree && cj_error(c) == CJ_EVALUE))
        fail_msg("%s: \"%s\"", t->name, cj_message(c));
    cj_scope_close(s);
    cj_ctx_free(c);
    assert_int_equal(a.live, 0);
    return ok;
}

enum { SEEDS = 64, ROOM = 1 << 16 };

static void fuzz(const target *t, const char *const *patterns)
{
    const char *text = getenv("CAJAL_FUZZ_SECONDS"), *seed = getenv("CAJAL_FUZZ_SEED");
    double seconds = text ? atof(text) : 1;
    dice_state = seed ? strtoull(seed, NULL, 10) : 20260101;
    printf("%s: seed %llu\n", t->name, (unsigned long long)dice_state);
    unsigned char *good[SEEDS], *bad = malloc(ROOM);
    size_t n[SEEDS];
    char *name[SEEDS];
    int count = 0;
    for (; *patterns; patterns++) {
        glob_t g;
        if (glob(*patterns, 0, NULL, &g) != 0) fail_msg("%s: the corpus has no %s", t->name, *patterns);
        for (size_t i = 0; i < g.gl_pathc && count < SEEDS; i++, count++) {
            good[count] = read_all(g.gl_pathv[i], &n[count]);
            name[count] = strdup(g.gl_pathv[i]);
            assert_true(n[count] < ROOM / 2);
        }
        globfree(&g);
    }
    clock_t start = clock();
    long runs = 0, accepted = 0;
    while ((double)(clock() - start) < seconds * CLOCKS_PER_SEC || runs < count) {
        int k = runs < count ? (int)runs : (int)(dice() % (uint64_t)count), other = (int)(dice() % (uint64_t)count);
        const char *set = strstr(name[k], "/corpus/sets/");
        if (set) { /* …/corpus/sets/FOLDER/FILE */
            static const char *const named[][2] = { { "housing/boston", "boston" },
                                                    { "housing/california", "california" },
                                                    { "timeseries/ucr", "gunpoint" },
                                                    { "timeseries/air", "airline" },
                                                    { "multi30k", "multi30k-de-en" } };
            snprintf(set_file, sizeof set_file, "%s", set + 13);
            snprintf(set_name, sizeof set_name, "%.*s", (int)strcspn(set + 13, "/"), set + 13);
            for (int i = 0; i < 5; i++)
                if (strncmp(set_file, named[i][0], strlen(named[i][0])) == 0) snprintf(set_name, sizeof set_name, "%s", named[i][1]);
        }
        memcpy(bad, good[k], n[k]);
        size_t length = runs < count ? n[k] : change(bad, n[k], ROOM, good[other], n[other]); /* first the corpus as it is */
        const char *path = in_folder("fuzz");
        write_all(path, bad, length);
        accepted += load_one(t, path, runs >= count && dice() % 8 == 0);
        runs++;
    }
    printf("%s: %d files in the corpus, %ld runs, %ld accepted\n", t->name, count, runs, accepted);
    assert_true(runs > count && accepted > 0);
    for (int i = 0; i < count; i++) free(good[i]), free(name[i]);
    free(bad);
}

#define FIXTURE(name) CJ_SOURCE_DIR "/tests/fixtures/" name
#define CORPUS(name) CJ_SOURCE_DIR "/tests/corpus/" name
#define FUZZ_AGAINST(reader, given, ...)                                                                                                   \
    static void fuzz_##reader(void **state)                                                                                                \
    {                                                                                                                                      \
        (void)state;                                                                                                                       \
        const char *const seeds[] = { __VA_ARGS__, NULL };                                                                                 \
        fuzz(&(target){ #reader, reader, given }, seeds);                                                                                  \
    }
#define FUZZ(reader, ...) FUZZ_AGAINST(reader, false, __VA_ARGS__)
FUZZ(idx, CORPUS("*.idx"))
FUZZ(bytes, CORPUS("*.idx"), CORPUS("*.csv"))
FUZZ(csv, CORPUS("*.csv"))
FUZZ(lines, CORPUS("*.csv"), CORPUS("*.ts"), CORPUS("*.txt"))
FUZZ(parallel, CORPUS("three.txt"))
FUZZ(tokens, CORPUS("*.txt"))
FUZZ(words, CORPUS("*.txt"))
FUZZ(vocabulary, CORPUS("*.bpe"))
FUZZ(tokeniser, CORPUS("*.tokens"))
FUZZ(mat, FIXTURE("small.mat"), CORPUS("*.mat"))
FUZZ(gml, CORPUS("*.gml"))
FUZZ(voc, CORPUS("*.xml"))
FUZZ(ts, CORPUS("*.ts"))
FUZZ(npy, FIXTURE("*.npy"), CORPUS("*.npy"))
FUZZ(npz, FIXTURE("stored.npz"), CORPUS("*.npz"))
FUZZ(wav, CORPUS("*.wav"))
FUZZ(cifar, CORPUS("*.cifar"))
FUZZ(planetoid, FIXTURE("ind.tiny.*"), CORPUS("*.pickle"))
FUZZ(tar, CORPUS("*.tar"))
FUZZ(sets, CORPUS("sets/*/*.*"), CORPUS("sets/*/*-ubyte"), CORPUS("sets/*/*/*.ts"))
#if defined CJ_HAVE_CJSON
FUZZ(safetensors, FIXTURE("python.safetensors"), CORPUS("*.safetensors"))
FUZZ_AGAINST(config, true, CORPUS("config*.json"))
FUZZ(manifest, CORPUS("manifest*.json"))
FUZZ(metrics, CORPUS("*.jsonl"))
#endif
#if defined CJ_HAVE_PROTOBUF_C
FUZZ(onnx, CORPUS("*.onnx"))
#endif
#if defined CJ_HAVE_PNG
FUZZ(png, CORPUS("*.png"))
#endif
#if defined CJ_HAVE_JPEG
FUZZ(jpeg, CORPUS("*.jpg"))
#endif
#if defined CJ_HAVE_PNG && defined CJ_HAVE_JPEG
FUZZ(images, CORPUS("*.png"), CORPUS("*.jpg"))
#endif
/* Compressed files: damage hits the compression, and what it hid. */
#if defined CJ_HAVE_ZLIB
static bool gzip(cj_ctx *c, const char *path) { return idx(c, path); }
static bool packed_mat(cj_ctx *c, const char *path) { return mat(c, path); }
static bool deflated(cj_ctx *c, const char *path) { return npz(c, path); }
FUZZ(gzip, CORPUS("*.idx.gz"))
FUZZ(packed_mat, FIXTURE("packed.mat"))
FUZZ(deflated, FIXTURE("deflated.npz"))
#endif
#if defined CJ_HAVE_LZMA
static bool xz(cj_ctx *c, const char *path) { return idx(c, path); }
FUZZ(xz, CORPUS("*.idx.xz"))
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuzz_idx),
        cmocka_unit_test(fuzz_bytes),
        cmocka_unit_test(fuzz_csv),
        cmocka_unit_test(fuzz_lines),
        cmocka_unit_test(fuzz_parallel),
        cmocka_unit_test(fuzz_tokens),
        cmocka_unit_test(fuzz_words),
        cmocka_unit_test(fuzz_vocabulary),
        cmocka_unit_test(fuzz_tokeniser),
        cmocka_unit_test(fuzz_mat),
        cmocka_unit_test(fuzz_gml),
        cmocka_unit_test(fuzz_voc),
        cmocka_unit_test(fuzz_ts),
        cmocka_unit_test(fuzz_npy),
        cmocka_unit_test(fuzz_npz),
        cmocka_unit_test(fuzz_wav),
        cmocka_unit_test(fuzz_cifar),
        cmocka_unit_test(fuzz_planetoid),
        cmocka_unit_test(fuzz_tar),
        cmocka_unit_test(fuzz_sets),
#if defined CJ_HAVE_CJSON
        cmocka_unit_test(fuzz_safetensors),
        cmocka_unit_test(fuzz_config),
        cmocka_unit_test(fuzz_manifest),
        cmocka_unit_test(fuzz_metrics),
#endif
#if defined CJ_HAVE_PROTOBUF_C
        cmocka_unit_test(fuzz_onnx),
#endif
#if defined CJ_HAVE_PNG
        cmocka_unit_test(fuzz_png),
#endif
#if defined CJ_HAVE_JPEG
        cmocka_unit_test(fuzz_jpeg),
#endif
#if defined CJ_HAVE_PNG && defined CJ_HAVE_JPEG
        cmocka_unit_test(fuzz_images),
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
    if (argc > 1) { /* one reader; 77, skipped, where this build has it not */
        char name[64];
        bool known = false;
        snprintf(name, sizeof name, "fuzz_%s", argv[1]);
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) known |= strcmp(tests[i].name, name) == 0;
        if (!known) return 77;
        cmocka_set_test_filter(name);
    }
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
