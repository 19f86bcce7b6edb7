/* Data sets from files: small sets of the same formats written here, official splits, validation, what is said where nothing is; the real ones where
 * $CAJAL_DATA has them; check sums. */
#include <math.h>

#include "data/dataset.h"
#include "data/sha256.h"
#include "files.h"
#include "support.h"

static cj_ctx *c;
static char real_data[512]; /* the caller's $CAJAL_DATA */

static int setup(void **state)
{
    const char *data = getenv("CAJAL_DATA");
    snprintf(real_data, sizeof real_data, "%s", data ? data : "");
    if (folder_make(state)) return -1;
    setenv("CAJAL_DATA", folder, 1);
    setenv("HOME", folder, 1);
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    return c ? 0 : -1;
}
static int teardown(void **state)
{
    assert_ok(c);
    cj_ctx_free(c);
    return folder_remove(state);
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    write_all(path, bytes, n);
}
#define TEXT(name, text) put(name, text, sizeof(text) - 1)

static cj_dataset *open_set(const char *name)
{
    cj_dataset *d = cj_dataset_open(c, name);
    if (!d) fail_msg("%s", cj_message(c));
    return d;
}

static void sha256(void **state)
{
    (void)state;
    const struct {
        const char *text, *hex;
    } known[] = { { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }, /* FIPS 180-4's examples */
                  { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
                  { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" } };
    for (int i = 0; i < 3; i++) {
        cj_sha256 s;
        char hex[65];
        cj__sha256_open(&s);
        cj__sha256_put(&s, known[i].text, strlen(known[i].text));
        cj__sha256_close(&s, hex);
        assert_string_equal(hex, known[i].hex);
    }
}

static void what_is_not_there(void **state)
{
    (void)state;
    int n;
    const cj_dataset_info *list = cj_dataset_list(&n);
    for (int i = 0; i < n; i++) {
        const char *at = cj__dataset_folder(list[i].name);
        if (!at) continue;
        assert_null(cj_dataset_open(c, list[i].name));
        assert_error(c, CJ_EFILE, "was looked for in");
        assert_says(c, "cajal data get");
        assert_says(c, at);
        cj_clear(c);
    }
}

/* Images of 28 x 28: pixel j of image i is (i + j) % 256, its class i % 10. */
static void write_mnist(int train, int test)
{
    static unsigned char images[16 + 100 * 784], labels[8 + 100];
    const char *const names[] = { "mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte", "mnist/t10k-images-idx3-ubyte",
                                  "mnist/t10k-labels-idx1-ubyte" };
    for (int part = 0; part < 2; part++) {
        int n = part ? test : train;
        memcpy(images, (unsigned char[]){ 0, 0, 8, 3, 0, 0, 0, (unsigned char)n, 0, 0, 0, 28, 0, 0, 0, 28 }, 16);
        memcpy(labels, (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, (unsigned char)n }, 8);
        for (int i = 0; i < n; i++) {
            labels[8 + i] = (unsigned char)(i % 10);
            for (int j = 0; j < 784; j++) images[16 + i * 784 + j] = (unsigned char)(i + j + 100 * part);
        }
        put(names[2 * part], images, (size_t)(16 + n * 784));
        put(names[2 * part + 1], labels, (size_t)(8 + n));
    }
}

static void images(void **state)
{
    (void)state;
    write_mnist(60, 10);
    cj_dataset *d = open_set("mnist");
    assert_int_equal(d->n, 70);
    assert_int_equal(d->channels * d->height * d->width, d->features);
    assert_int_equal(cj_size(d->train_x, 0), 55);
    assert_int_equal(cj_size(d->val_x, 0), 5);
    assert_int_equal(cj_size(d->test_x, 0), 10);
    bool seen[60] = { false };
    int moved = 0;
    for (int64_t i = 0; i < 60; i++) { /* every training image once, shuffled with its label, scaled */
        cj_tensor *x = i < 55 ? d->train_x : d->val_x, *y = i < 55 ? d->train_y : d->val_y;
        int64_t row = i < 55 ? i : i - 55;
        int first = (int)lrint(cj_at(x, (int64_t[]){ row, 0 }) * 255);
        assert_true(first < 60 && !seen[first]);
        seen[first] = true;
        moved += first != i;
        assert_true(cj_at(y, (int64_t[]){ row }) == first % 10);
        assert_near(cj_at(x, (int64_t[]){ row, 783 }), (double)((first + 783) & 255) / 255, 1e-6);
    }
    assert_true(moved > 40);
    for (int64_t i = 0; i < 10; i++)
        assert_near(cj_at(d->test_x, (int64_t[]){ i, 0 }), (double)(100 + i) / 255, 1e-6); /* the official test rows, in order */
    cj_dataset *none = cj_dataset_open(c, "mnist", .validation = CJ_ZERO);
    assert_int_equal(cj_size(none->train_x, 0), 60);
    assert_int_equal(cj_size(none->val_x, 0), 0);
    assert_refused(CJ_EVALUE, "for validation", cj_dataset_open(c, "mnist", .validation = 1.5));
    TEXT("mnist/t10k-labels-idx1-ubyte", "\0\0\10\1\0\0\0\1\3");
    assert_refused(CJ_EFILE, "10 rows of MNIST were expected", cj_dataset_open(c, "mnist"));
    static unsigned char batch[3073 * 4];
    put("cifar10/data_batch_1.bin", batch, sizeof batch);
    put("cifar10/data_batch_3.bin", batch, sizeof batch);
    put("cifar10/test_batch.bin", batch, 3073);
    d = open_set("cifar10");
    assert_int_equal(d->n, 9);
    assert_int_equal(cj_size(d->test_x, 0), 1);
    assert_string_equal(d->class_names[0], "airplane");
}

static void tables_and_series(void **state)
{
    (void)state;
    char text[4000] = "";
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 14; j++) snprintf(text + strlen(text), 16, " %d", i * 14 + j);
        strcat(text, "\n");
    }
    put("housing/boston.housing.data", text, strlen(text));
    cj_dataset *d = cj_dataset_open(c, "boston", .raw = true);
    if (!d) fail_msg("%s", cj_message(c));
    assert_int_equal(d->features, 13);
    assert_true(cj_at(d->x, (int64_t[]){ 2, 3 }) == 31 && cj_at(d->y, (int64_t[]){ 2, 0 }) == 41);
    assert_int_equal(cj_size(d->test_x, 0) + cj_size(d->val_x, 0) + cj_size(d->train_x, 0), 10);
#if defined CJ_HAVE_ZLIB
    TEXT("housing/housing.csv", "a,median_house_value,ocean_proximity\n1,10,NEAR\n,20,FAR\n3,30,NEAR\n5,40,\n");
    char command[300];
    snprintf(command, sizeof command, "cd %s/housing && tar czf california_housing.tgz housing.csv", folder);
    assert_int_equal(system(command), 0);
    d = cj_dataset_open(c, "california", .raw = true);
    if (!d) fail_msg("%s", cj_message(c));
    assert_int_equal(d->features, 3);
    assert_string_equal(d->feature_names[1], "FAR");
    assert_true(cj_at(d->x, (int64_t[]){ 0, 2 }) == 1 && cj_at(d->x, (int64_t[]){ 0, 1 }) == 0 && isnan(cj_at(d->x, (int64_t[]){ 1, 0 })));
    d = open_set("california");
    for (int64_t i = 0; i < 4; i++) assert_true(isfinite(cj_at(d->x, (int64_t[]){ i, 0 }))); /* missing: the mean */
#endif
    text[0] = 0;
    for (int i = 0; i < 32; i++) snprintf(text + strlen(text), 32, "\"m%d\",%d\n", i, i * i);
    put("timeseries/shampoo.csv", text, strlen(text));
    d = cj_dataset_open(c, "shampoo", .raw = true);
    assert_int_equal(d->n, 20);
    assert_true(cj_at(d->x, (int64_t[]){ 3, 11 }) == 14 * 14 && cj_at(d->y, (int64_t[]){ 3, 0 }) == 15 * 15);
    assert_true(cj_at(d->test_y, (int64_t[]){ -1, 0 }) == 31 * 31); /* the end of time is the test */
    TEXT("timeseries/ucr/GunPoint_TRAIN.ts", "@classLabel true 1 2\n@data\n1,2:1\n3,4:2\n5,6:1\n");
    TEXT("timeseries/ucr/GunPoint_TEST.ts", "@classLabel true 1 2\n@data\n7,8,9:2\n");
    d = open_set("gunpoint");
    assert_int_equal(d->width, 3);
    assert_int_equal(d->classes, 2);
    assert_true(cj_at(d->test_x, (int64_t[]){ 0, 2 }) == 9 && cj_at(d->test_y, (int64_t[]){ 0 }) == 1);
}

static void lines_and_texts(void **state)
{
    (void)state;
    TEXT("sst2/train.tsv", "good film\t1\nbad\t0\n");
    TEXT("sst2/dev.tsv", "so so\t0\n");
    TEXT("sst2/test.tsv", "fine\t1\n");
    cj_dataset *d = open_set("sst2");
    assert_string_equal(d->lines[0]->line[0], "good film");
    assert_int_equal(d->lines[0]->length[0], 9);
    assert_true(cj_at(d->train_y, (int64_t[]){ 0 }) == 1 && cj_at(d->val_y, (int64_t[]){ 0 }) == 0);
    TEXT("sst2/test.tsv", "fine\n");
    assert_refused(CJ_EFILE, "line 1: a sentence, a tab and 0 or 1 were expected", cj_dataset_open(c, "sst2"));
    const char *const parts[] = { "train", "val", "test_2016_flickr" };
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "multi30k/%s.de", parts[i]);
        TEXT(name, "Hund\nKatze\n");
        snprintf(name, sizeof name, "multi30k/%s.en", parts[i]);
        TEXT(name, "dog\ncat\n");
    }
    d = open_set("multi30k-de-en");
    assert_string_equal(d->lines[2]->line[1], "Katze");
    assert_string_equal(d->target[2]->line[1], "cat");
    TEXT("names/names.txt", "ann\nbob\ncarla\ndora\nemma\nfred\ngina\nhugo\nida\njo\n");
    d = open_set("names");
    assert_true(d->is_text);
    assert_int_equal(d->lines[0]->n + d->lines[1]->n + d->lines[2]->n, 10);
    assert_int_equal(d->lines[2]->n, 1);
    assert_int_equal(cj_numel(d->test_x), d->lines[2]->length[0] + 1); /* the same name as text */
    TEXT("wikitext-2/valid.txt", "0123456789");
    TEXT("wikitext-2/test.txt", "abcde");
    d = open_set("wikitext-2");
    assert_int_equal(d->n, 15);
    assert_int_equal(cj_numel(d->test_x), 5);
    assert_int_equal(cj_numel(d->val_x), 1);
    TEXT("wikitext-2/train.txt", "the training text");
    d = open_set("wikitext-2");
    assert_int_equal(cj_numel(d->train_x), 17);
    assert_int_equal(cj_numel(d->val_x), 10);
    TEXT("tinyshakespeare/input.txt", "0123456789012345678901234567890123456789");
    d = open_set("tinyshakespeare");
    assert_int_equal(cj_numel(d->train_x), 36);
    assert_int_equal(cj_numel(d->val_x), 2);
}

static void graphs(void **state)
{
    (void)state;
    const char *const parts[] = { "x", "tx", "allx", "y", "ty", "ally", "graph", "test.index" };
    for (int i = 0; i < 8; i++) {
        char from[300], name[64];
        snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[i]);
        snprintf(name, sizeof name, "cora/planetoid/ind.cora.%s", parts[i]);
        size_t n;
        unsigned char *b = read_all(from, &n);
        put(name, b, n);
        free(b);
    }
    cj_dataset *d = open_set("cora");
    assert_int_equal(d->graph->nodes, 6);
    assert_near(cj_at(d->x, (int64_t[]){ 3, 1 }), 0.5, 1e-7); /* rows sum to 1 */
    assert_near(cj_at(d->x, (int64_t[]){ 4, 0 }), 1, 1e-7);
    d = cj_dataset_open(c, "cora", .raw = true);
    assert_near(cj_at(d->x, (int64_t[]){ 4, 0 }), 2, 0);
    cj_dataset_free(d);
    TEXT("karate/karate.gml", "graph [ node [ id 1 ] ]");
    assert_refused(CJ_EFILE, "34 nodes were expected, 1 were found", cj_dataset_open(c, "karate"));
}

/* data.mnist_tabular: counts, shapes, labels, a first image, and least squares on Boston's houses by the normal equations */
static void real_sets(void **state)
{
    (void)state;
    if (!*real_data) skip();
    setenv("CAJAL_DATA", real_data, 1);
    const struct {
        const char *name;
        int64_t n, features, classes, train, val, test;
    } sets[] = { { "mnist", 70000, 784, 10, 55000, 5000, 10000 },
                 { "cifar10", 20000, 3072, 10, 9000, 1000, 10000 },
                 { "olivetti", 400, 4096, 40, 288, 32, 80 },
                 { "boston", 506, 13, 0, 364, 41, 101 },
                 { "california", 20640, 13, 0, 14861, 1651, 4128 },
                 { "basicmotions", 80, 600, 4, 36, 4, 40 },
                 { "bccd", 364, 57600, 3, 205, 87, 72 } };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", real_data, cj__dataset_folder(sets[i].name));
        if (!exists(path)) continue;
        cj_dataset *d = open_set(sets[i].name);
        assert_int_equal(d->n, sets[i].n);
        assert_int_equal(d->features, sets[i].features);
        assert_int_equal(d->classes, sets[i].classes);
        assert_int_equal(cj_size(d->train_x, 0), sets[i].train);
        assert_int_equal(cj_size(d->val_x, 0), sets[i].val);
        assert_int_equal(cj_size(d->test_x, 0), sets[i].test);
        if (strcmp(d->name, "mnist") == 0) {
            assert_near(cj_item(cj_mean(cj_slice(d->x, 0, 0, 60000, 1))), 0.1307, 1e-4); /* the mean everybody normalises with */
            int64_t count[10] = { 0 }, *y = malloc(70000 * sizeof *y);
            const int64_t published[] = { 980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009 }; /* of the test set */
            assert_true(cj_to_i64(d->test_y, y, 10000));
            for (int k = 0; k < 10000; k++) count[y[k]]++;
            assert_memory_equal(count, published, sizeof count);
            free(y);
        }
        if (strcmp(d->name, "boston") == 0) { /* X'(y - X w) = 0 at the least squares, and R2 = 0.7406 as published */
            cj_dataset *raw = cj_dataset_open(c, "boston", .raw = true);
            cj_tensor *one = cj_ones(c, CJ_SHAPE(506, 1), CJ_F64), *x = cj_cat(CJ_TENSORS(cj_cast(d->x, CJ_F64), one), 2, 1),
                      *y = cj_cast(raw->y, CJ_F64);
            cj_tensor *gram = cj_matmul(cj_transpose(x, 0, 1), x), *w = cj_solve(gram, cj_matmul(cj_transpose(x, 0, 1), y));
            cj_tensor *rest = cj_sub(y, cj_matmul(x, w)), *slope = cj_matmul(cj_transpose(x, 0, 1), rest);
            for (int64_t k = 0; k < 14; k++) assert_near(value_at(slope, k), 0, 1e-8);
            double r2 = 1 - cj_item(cj_sum(cj_square(rest))) / cj_item(cj_sum(cj_square(cj_sub(y, cj_mean(y)))));
            assert_near(r2, 0.7406, 1e-4);
        }
        cj_dataset_free(d);
    }
    setenv("CAJAL_DATA", folder, 1);
}

static bool memory(cj_ctx *k)
{
    const char *const names[] = { "boston", "shampoo", "gunpoint", "multi30k-de-en", "names", "cora", "wikitext-2" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cj_dataset *d = cj_dataset_open(k, names[i]);
        if (!d) return false;
        if (i % 2) cj_dataset_free(d);
    }
    return true;
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256),          cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(images),          cmocka_unit_test(tables_and_series),
        cmocka_unit_test(lines_and_texts), cmocka_unit_test(graphs),
        cmocka_unit_test(real_sets),       cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
