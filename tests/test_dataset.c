/* Data sets: values, split, determinism, scaling, texts, errors, no memory. */
#include <math.h>

#include "files.h"

static cj_ctx *new_ctx(uint64_t seed)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = seed });
    assert_true(cj_ok(c));
    return c;
}

static float at(cj_tensor *t, int64_t i, int64_t j) { return (float)cj_at(t, (int64_t[]){ i, j }); }

/* Sum of a column in double. */
static double column(cj_tensor *t, int64_t j)
{
    double sum = 0;
    for (int64_t i = 0; i < cj_size(t, 0); i++) sum += at(t, i, j);
    return sum;
}

/* Sizes and values as scikit-learn 1.2.1 loads them (load_digits … load_diabetes(scaled=False)). */
static void tables_as_in_scikit_learn(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t n, features, classes, first_class, last_class;
        double first, last, sum; /* x[0, 2], x[-1, -1], sum of column 2 */
    } sets[] = {
        { "digits", 1797, 64, 10, 0, 8, 5, 0, 9353 },        { "iris", 150, 4, 3, 0, 2, 1.4, 1.8, 563.7 },
        { "wine", 178, 13, 3, 0, 2, 2.43, 560, 421.24 },     { "breast_cancer", 569, 30, 2, 0, 1, 122.8, 0.07039, 52330.38 },
        { "diabetes", 442, 10, 0, 0, 0, 32.1, 92, 11658.1 },
    };
    cj_ctx *c = new_ctx(0);
    for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
        cj_dataset *d = cj_dataset_open(c, sets[k].name, &(cj_dataset_opts){ .raw = true });
        if (!d) fail_msg("%s", cj_message(c));
        assert_string_equal(d->name, sets[k].name);
        assert_int_equal(d->n, sets[k].n);
        assert_int_equal(d->features, sets[k].features);
        assert_int_equal(d->classes, sets[k].classes);
        assert_int_equal(cj_dtype_of(d->x), CJ_F32);
        assert_int_equal(cj_size(d->x, 0), sets[k].n);
        assert_int_equal(cj_size(d->x, 1), sets[k].features);
        assert_true(at(d->x, 0, 2) == (float)sets[k].first);
        assert_true(at(d->x, d->n - 1, d->features - 1) == (float)sets[k].last);
        assert_true(fabs(column(d->x, 2) - sets[k].sum) < 1e-5 * fabs(sets[k].sum));
        if (sets[k].classes) {
            assert_int_equal(cj_dtype_of(d->y), CJ_I64);
            assert_int_equal(cj_ndim(d->y), 1);
            assert_int_equal(cj_at(d->y, (int64_t[]){ 0 }), sets[k].first_class);
            assert_int_equal(cj_at(d->y, (int64_t[]){ -1 }), sets[k].last_class);
            for (int64_t i = 0; i < d->classes; i++) assert_non_null(d->class_names[i]);
        } else {
            assert_int_equal(cj_dtype_of(d->y), CJ_F32);
            assert_int_equal(cj_size(d->y, 1), 1);
            assert_true(at(d->y, 0, 0) == 151 && at(d->y, -1, 0) == 57);
            assert_true(d->y_mean == 0 && d->y_std == 1);
        }
        for (int64_t j = 0; d->feature_names && j < d->features; j++) assert_non_null(d->feature_names[j]);
        cj_dataset_free(d);
    }
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    cj_ctx_free(c);
}

static void split_is_a_permutation(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(7);
    cj_dataset *d = cj_dataset_open(c, "digits", NULL);
    assert_int_equal(cj_size(d->test_x, 0), 359); /* a fifth of 1797 */
    assert_int_equal(cj_size(d->train_x, 0), 1797 - 359);
    assert_int_equal(cj_size(d->test_y, 0), 359);
    assert_int_equal(d->height * d->width, d->features);
    /* every row is in one part, once */
    float *all = malloc(1797 * 64 * sizeof *all), *parts = malloc(1797 * 64 * sizeof *parts);
    int64_t *y = malloc(1797 * sizeof *y), *parts_y = malloc(1797 * sizeof *y);
    assert_true(cj_to_f32(d->x, all, 1797 * 64) && cj_to_i64(d->y, y, 1797));
    assert_true(cj_to_f32(d->test_x, parts, 359 * 64) && cj_to_f32(d->train_x, parts + 359 * 64, 1438 * 64));
    assert_true(cj_to_i64(d->test_y, parts_y, 359) && cj_to_i64(d->train_y, parts_y + 359, 1438));
    bool *used = calloc(1797, sizeof *used);
    int in_place = 0;
    for (int i = 0; i < 1797; i++) {
        int found = -1;
        for (int j = 0; j < 1797 && found < 0; j++)
            if (!used[j] && y[j] == parts_y[i] && memcmp(all + j * 64, parts + i * 64, 64 * sizeof *all) == 0) found = j;
        assert_true(found >= 0);
        used[found] = true;
        in_place += found == i;
        for (int k = 0; k < 64; k++) assert_true(parts[i * 64 + k] >= 0 && parts[i * 64 + k] <= 1);
    }
    assert_true(in_place < 10); /* shuffled */
    free(all), free(parts), free(y), free(parts_y), free(used);
    cj_ctx_free(c);
}

static bool same(cj_tensor *a, cj_tensor *b)
{
    return cj_numel(a) == cj_numel(b) && memcmp(cj_data(a), cj_data(b), (size_t)cj_numel(a) * cj_dtype_size(cj_dtype_of(a))) == 0;
}

static void the_seed_decides(void **state)
{
    (void)state;
    const char *const names[] = { "iris", "moons", "spirals", "blobs", "xor" };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        cj_ctx *c = new_ctx(7), *b = new_ctx(7);
        assert_false(
            cj_is_poison(cj_rand(b, CJ_SHAPE(3), &(cj_random_opts){ .stream = CJ_STREAM_DATA }))); /* earlier draws change nothing */
        cj_rng_state before = cj_rng_get(b);
        cj_dataset *x = cj_dataset_open(c, names[k], NULL), *y = cj_dataset_open(b, names[k], NULL);
        cj_dataset *z = cj_dataset_open(c, names[k], &(cj_dataset_opts){ .seed = 8 });
        cj_rng_state after = cj_rng_get(b);
        assert_memory_equal(&before, &after, sizeof before); /* and opening draws nothing */
        assert_true(same(x->train_x, y->train_x) && same(x->test_y, y->test_y) && same(x->x, y->x));
        assert_false(same(x->train_x, z->train_x));
        cj_ctx_free(c);
        cj_ctx_free(b);
    }
}

/* Values of an independent implementation of Philox and of the formulas (Python, double): the same on every machine and in every version. */
static void seed_zero(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(0);
    const struct {
        const char *name;
        double x, y; /* of row 1 */
    } first[] = { { "moons", 0.446382554630234, -0.4275445690116577 },
                  { "spirals", -0.6081175439794299, -0.39230821363459195 },
                  { "blobs", -1.112202635152264, 1.852374739965692 },
                  { "xor", 0.08877973648477352, 0.8388273124827937 } };
    for (size_t k = 0; k < sizeof first / sizeof first[0]; k++) {
        cj_dataset *d = cj_dataset_open(c, first[k].name, NULL);
        assert_true(fabs(at(d->x, 1, 0) - first[k].x) < 2e-6 && fabs(at(d->x, 1, 1) - first[k].y) < 2e-6);
    }
    cj_dataset *d = cj_dataset_open(c, "digits", NULL);
    const int64_t labels[] = { 0, 7, 8, 0, 1, 8, 4, 1 }; /* of the first training rows */
    for (int i = 0; i < 8; i++) assert_int_equal(cj_at(d->train_y, (int64_t[]){ i }), labels[i]);
    cj_ctx_free(c);
}

static void shapes_of_generated_points(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(3);
    cj_dataset_opts o = { .n = 600, .noise = CJ_ZERO };
    cj_dataset *d = cj_dataset_open(c, "moons", &o);
    assert_int_equal(d->n, 600);
    for (int64_t i = 0; i < 600; i++) { /* on the half circles */
        double x = at(d->x, i, 0), y = at(d->x, i, 1);
        double r = i % 2 ? hypot(x - 1, y - 0.5) : hypot(x, y);
        assert_true(fabs(r - 1) < 1e-6 && (i % 2 ? y <= 0.5 : y >= 0));
    }
    d = cj_dataset_open(c, "spirals", &(cj_dataset_opts){ .n = 300, .classes = 3, .noise = CJ_ZERO });
    assert_int_equal(d->classes, 3);
    for (int64_t i = 0; i < 300; i++) { /* angle = 3 pi r + 2 pi k / 3 */
        double x = at(d->x, i, 0), y = at(d->x, i, 1), r = hypot(x, y), angle = 3 * M_PI * r + 2 * M_PI * (double)(i % 3) / 3;
        assert_true(fabs(x - r * cos(angle)) < 1e-5 && fabs(y - r * sin(angle)) < 1e-5 && r <= 1 + 1e-6);
    }
    d = cj_dataset_open(c, "blobs", &(cj_dataset_opts){ .n = 5000, .classes = 5, .noise = 0.5 });
    double sum[5][2] = { { 0 } }, spread = 0;
    for (int64_t i = 0; i < 5000; i++) {
        double x = at(d->x, i, 0), y = at(d->x, i, 1), k = (double)(i % 5);
        sum[i % 5][0] += x / 1000;
        sum[i % 5][1] += y / 1000;
        spread += (pow(x - 4 * cos(2 * M_PI * k / 5), 2) + pow(y - 4 * sin(2 * M_PI * k / 5), 2)) / 10000;
    }
    for (int k = 0; k < 5; k++) assert_true(hypot(sum[k][0] - 4 * cos(2 * M_PI * k / 5), sum[k][1] - 4 * sin(2 * M_PI * k / 5)) < 0.08);
    assert_true(fabs(spread - 0.25) < 0.02);
    d = cj_dataset_open(c, "xor", &o);
    for (int64_t i = 0; i < 600; i++) assert_int_equal((int)at(d->x, i, 0) ^ (int)at(d->x, i, 1), (int)cj_at(d->y, (int64_t[]){ i }));
    cj_ctx_free(c);
}

static void tables_are_standardised(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(1);
    const char *const names[] = { "iris", "wine", "breast_cancer", "diabetes" };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        cj_dataset *d = cj_dataset_open(c, names[k], NULL), *raw = cj_dataset_open(c, names[k], &(cj_dataset_opts){ .raw = true });
        int64_t n = cj_size(d->train_x, 0);
        for (int64_t j = 0; j < d->features; j++) { /* over the training rows, not over all */
            double square = 0;
            for (int64_t i = 0; i < n; i++) square += pow(at(d->train_x, i, j), 2);
            assert_true(fabs(column(d->train_x, j)) < 1e-3);
            assert_true(fabs(square / (double)n - 1) < 1e-4);
        }
        if (!d->classes)
            for (int64_t i = 0; i < 5; i++) assert_true(fabs(at(d->y, i, 0) * d->y_std + d->y_mean - at(raw->y, i, 0)) < 1e-3);
    }
    cj_ctx_free(c);
}

static void texts(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(0);
    cj_dataset *d = cj_dataset_open(c, "sources", NULL);
    assert_non_null(d);
    assert_true(d->is_text && d->n > 100000 && d->classes > 60 && d->classes < 128);
    assert_int_equal(cj_dtype_of(d->x), CJ_I64);
    assert_null(d->y);
    assert_int_equal(cj_numel(d->train_x) + cj_numel(d->test_x), d->n);
    const int64_t *x = cj_data(d->x);
    assert_int_equal(d->symbol[x[0]], '/'); /* the first comment */
    assert_int_equal(d->symbol[x[1]], '*');
    for (int64_t i = 1; i < d->classes; i++) assert_true(d->symbol[i] > d->symbol[i - 1]);
    for (int64_t i = 0; i < d->classes; i++) assert_int_equal(d->number[d->symbol[i]], i);
    assert_int_equal(d->number[0], -1);
    assert_ptr_equal((const int64_t *)cj_data(d->test_x), x + cj_numel(d->train_x)); /* the end of the text, not a copy */
    cj_ctx_free(c);
}

static void shakespeare_where_it_is(void **state)
{
    (void)state;
    char tiny[128], command[512];
    snprintf(tiny, sizeof tiny, "%s", in_folder("tinyshakespeare"));
    setenv("HOME", folder, 1);
    setenv("CAJAL_DATA", folder, 1);
    cj_ctx *c = new_ctx(0);
    assert_null(cj_dataset_open(c, "shakespeare", NULL));
    assert_int_equal(cj_error(c), CJ_EFILE);
    assert_non_null(strstr(cj_message(c), "CAJAL_DATA"));
    cj_clear(c);
    mkdir(tiny, 0777);
    write_all(in_folder("tinyshakespeare/input.txt"), "First Citizen:\nspeak.\n", 22);
    for (int pass = 0; pass < 3; pass++) {
        cj_dataset *d = cj_dataset_open(c, "shakespeare", &(cj_dataset_opts){ .held_out = 0.5 });
        if (!d) fail_msg("%s", cj_message(c));
        assert_int_equal(d->n, 22);
        assert_int_equal(cj_numel(d->test_x), 11);
        assert_int_equal(d->symbol[(int64_t)cj_at(d->x, (int64_t[]){ 0 })], 'F');
        if (pass == 0) { /* the cache of the user */
            unsetenv("CAJAL_DATA");
            snprintf(command, sizeof command, "mkdir -p %s/.cache/cajal && mv %s %s/.cache/cajal", folder, tiny, folder);
            assert_int_equal(system(command), 0);
        }
#if defined CJ_HAVE_ZLIB
        if (pass == 1) {
            snprintf(command, sizeof command, "gzip %s/.cache/cajal/tinyshakespeare/input.txt", folder);
            assert_int_equal(system(command), 0);
        }
#endif
    }
#if defined CJ_HAVE_ZLIB
    const char *gz = in_folder(".cache/cajal/tinyshakespeare/input.txt.gz");
    size_t n;
    unsigned char *good = read_all(gz, &n);
    for (size_t cut = 0; cut < n; cut++) { /* cut: an error, always */
        write_all(gz, good, cut);
        assert_null(cj_dataset_open(c, "shakespeare", NULL));
        assert_int_equal(cj_error(c), CJ_EFILE);
        cj_clear(c);
    }
    free(good);
#endif
    write_all(in_folder(".cache/cajal/tinyshakespeare/input.txt"), "", 0);
    assert_null(cj_dataset_open(c, "shakespeare", NULL));
    assert_non_null(strstr(cj_message(c), "empty"));
    cj_ctx_free(c);
}

static void options(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(0);
    cj_dataset *d = cj_dataset_open(c, "iris", &(cj_dataset_opts){ .held_out = CJ_ZERO });
    assert_int_equal(cj_size(d->train_x, 0), 150);
    assert_int_equal(cj_size(d->test_x, 0), 0);
    assert_int_equal(cj_size(d->test_x, 1), 4);
    d = cj_dataset_open(c, "iris", &(cj_dataset_opts){ .held_out = 0.999 });
    assert_int_equal(cj_size(d->train_x, 0), 1);
    d = cj_dataset_open(c, "moons", &(cj_dataset_opts){ .n = 1 });
    assert_int_equal(cj_size(d->train_x, 0), 1);
    const struct {
        const char *name;
        cj_dataset_opts o;
    } bad[] = {
        { "iris", { .held_out = 1 } },   { "iris", { .held_out = -0.1 } }, { "iris", { .held_out = NAN } }, { "moons", { .n = -1 } },
        { "moons", { .classes = 3 } },   { "blobs", { .classes = 1 } },    { "blobs", { .classes = 11 } },  { "xor", { .noise = -1 } },
        { "spirals", { .noise = NAN } }, { "sources", { .held_out = 2 } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_null(cj_dataset_open(c, bad[i].name, &bad[i].o));
        assert_int_equal(cj_error(c), CJ_EVALUE);
        cj_clear(c);
    }
    cj_ctx_free(c);
}

static void unknown_names(void **state)
{
    (void)state;
    cj_ctx *c = new_ctx(0);
    int n;
    const cj_dataset_info *list = cj_dataset_list(&n);
    assert_true(n >= 11);
    assert_null(cj_dataset_open(c, "mnist2", NULL));
    assert_int_equal(cj_error(c), CJ_EVALUE);
    for (int i = 0; i < n; i++) {
        assert_non_null(strstr(cj_message(c), list[i].name));
        assert_true(strlen(list[i].summary) > 10 && strlen(list[i].family) > 3);
    }
    cj_clear(c);
    assert_null(cj_dataset_open(c, NULL, NULL));
    assert_null(cj_dataset_open(NULL, "iris", NULL));
    cj_dataset_free(NULL);
    cj_ctx_free(c);
}

static bool memory(cj_ctx *c)
{
    const char *const names[] = { "iris", "diabetes", "moons", "sources" };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        cj_dataset *d = cj_dataset_open(c, names[k], NULL);
        if (!d) return false;
        if (k % 2) cj_dataset_free(d);
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
        cmocka_unit_test(tables_as_in_scikit_learn),
        cmocka_unit_test(split_is_a_permutation),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(seed_zero),
        cmocka_unit_test(shapes_of_generated_points),
        cmocka_unit_test(tables_are_standardised),
        cmocka_unit_test(texts),
        cmocka_unit_test(options),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(shakespeare_where_it_is),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
