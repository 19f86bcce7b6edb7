/* Readers of data files: values from files written here byte by byte, cut and damaged files, refusals, no memory; the real files where $CAJAL_DATA has them. */
#include <math.h>
#include <stdio.h>

#include "data/bytes.h"
#include "data/file.h"

#include "files.h"
#include "support.h"

#if defined CJ_HAVE_PNG
#define PNG true
#else
#define PNG false
#endif

static cj_ctx *c;
static int setup(void **state)
{
    if (folder_make(state)) return -1;
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    return c ? 0 : -1;
}
static int teardown(void **state)
{
    assert_ok(c);
    cj_ctx_free(c);
    return folder_remove(state);
}

static const char *file(const char *name, const void *bytes, size_t n)
{
    const char *path = in_folder(name);
    write_all(path, bytes, n);
    return path;
}
#define TEXT(name, text) file(name, text, sizeof(text) - 1)

/* The path of a real file, or NULL: then the test case has seen the small files only. */
static const char *real(const char *name)
{
    static char path[8][1024];
    static int turn;
    const char *root = getenv("CAJAL_DATA");
    if (!root || !*root) return NULL;
    char *p = path[turn = (turn + 1) % 8];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return exists(p) ? p : NULL;
}

#define assert_values(t, ...)                                                                                                              \
    do {                                                                                                                                   \
        const double want[] = { __VA_ARGS__ };                                                                                             \
        if (cj_is_poison(t)) fail_msg("%s", cj_message(c));                                                                                \
        assert_int_equal(cj_numel(t), sizeof want / sizeof want[0]);                                                                       \
        double *got = values_of(t);                                                                                                        \
        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)                                                                          \
            if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))) fail_msg("%s[%zu] = %g, not %g", #t, i, got[i], want[i]);       \
        free(got);                                                                                                                         \
    } while (0)

/* ---- IDX -------------------------------------------------------------------------------------------------------------------------------------- */

static bool load_idx(cj_ctx *k, const char *path)
{
    cj_tensor *t = cj_idx_load(k, path);
    if (t) touch(t);
    return t != NULL;
}

static void idx(void **state)
{
    (void)state;
    static const unsigned char u8[] = { 0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 };
    static const unsigned char i16[] = { 0, 0, 11, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 2 }, i8[] = { 0, 0, 9, 1, 0, 0, 0, 1, 0x80 };
    static const unsigned char i32[] = { 0, 0, 12, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfd },
                               f32[] = { 0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0 };
    static const unsigned char f64[] = { 0, 0, 14, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0 };
    cj_tensor *t = cj_idx_load(c, file("a", u8, sizeof u8));
    assert_values(t, 1, 2, 3, 4, 5, 255);
    assert_int_equal(cj_dtype_of(t), CJ_U8);
    assert_int_equal(cj_size(t, 1), 3);
    assert_values(cj_idx_load(c, file("a", i16, sizeof i16)), -2, 258);
    assert_values(cj_idx_load(c, file("a", i8, sizeof i8)), -128);
    assert_values(cj_idx_load(c, file("a", i32, sizeof i32)), -3);
    assert_values(cj_idx_load(c, file("a", f32, sizeof f32)), 1.5);
    assert_values(cj_idx_load(c, file("a", f64, sizeof f64)), -2.5);
    damage(load_idx, file("a", u8, sizeof u8), 3000);
    assert_refused(CJ_EFILE, "6 bytes of elements were expected, 5 were found", cj_idx_load(c, file("a", u8, sizeof u8 - 1)));
    assert_refused(CJ_EFILE, "at byte 0: two zero bytes of an IDX file were expected, 80 75 were found",
                   cj_idx_load(c, TEXT("a", "PK\3\4")));
    assert_refused(CJ_EFILE, "No such file", cj_idx_load(c, in_folder("none")));
    assert_refused(CJ_EFILE, "a folder, not a file", cj_idx_load(c, folder));
    static const unsigned char huge[] = { 0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0 };
    assert_refused(CJ_EFILE, "at byte 4: sizes", cj_idx_load(c, file("a", huge, sizeof huge)));
    const char *mnist = real("mnist/t10k-images-idx3-ubyte.gz");
    if (!mnist) return;
    t = cj_idx_load(c, mnist);
    assert_int_equal(cj_size(t, 0), 10000);
    assert_int_equal(cj_size(t, 2), 28);
    cj_tensor *y = cj_idx_load(c, real("mnist/t10k-labels-idx1-ubyte.gz"));
    const unsigned char *label = cj_data(y);
    const unsigned char first[] = { 7, 2, 1, 0, 4, 1, 4, 9, 5, 9 };
    assert_memory_equal(label, first, sizeof first);
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------------------------------------ */

static void cifar(void **state)
{
    (void)state;
    static unsigned char records[2 * 3074];
    for (size_t i = 0; i < sizeof records; i++) records[i] = (unsigned char)i;
    records[0] = 3;
    records[3073] = 9;
    cj_tensor *x, *y;
    assert_true(cj_cifar_load(c, file("b", records, 2 * 3073), 1, &x, &y));
    assert_values(y, 3, 9);
    assert_int_equal(cj_size(x, 1), 3);
    assert_true(cj_at(x, (int64_t[]){ 0, 1, 0, 2 }) == ((1 + 1024 + 2) & 255));
    records[3074] = 19;
    records[3075] = 99;
    records[0] = records[1] = 4;
    assert_true(cj_cifar_load(c, file("b", records, sizeof records), 2, &x, &y));
    assert_values(y, 4, 4, 19, 99);
    records[3075] = 100;
    assert_refused(CJ_EFILE, "at byte 3075: a class of 0 … 99 was expected, 100 was found",
                   assert_false(cj_cifar_load(c, file("b", records, sizeof records), 2, &x, &y)));
    assert_null(y);
    assert_refused(CJ_EFILE, "records of 3073 bytes", cj_cifar_load(c, file("b", records, 4000), 1, &x, &y));
    assert_refused(CJ_EFILE, "records of 3073 bytes", cj_cifar_load(c, TEXT("b", ""), 1, &x, &y));
    assert_refused(CJ_EVALUE, "1 or 2 labels", cj_cifar_load(c, folder, 3, &x, &y));
#if defined CJ_HAVE_LZMA
    const char *path = real("cifar10/test_batch.bin.xz");
    if (!path) return;
    assert_true(cj_cifar_load(c, path, 1, &x, &y));
    assert_int_equal(cj_size(x, 0), 10000);
    int64_t count[10] = { 0 };
    const int64_t *label = cj_data(y);
    for (int i = 0; i < 10000; i++) count[label[i]]++;
    for (int k = 0; k < 10; k++) assert_int_equal(count[k], 1000); /* balanced, as published */
    assert_int_equal(label[0], 3);                                 /* a cat */
#endif
}

/* ---- WAV -------------------------------------------------------------------------------------------------------------------------------------- */

static size_t wav(unsigned char *out, int kind, int channels, int bits, const void *data, size_t n)
{
    unsigned char *p = out;
    memcpy(p, "RIFF", 4);
    p = cj__set32(p + 4, (uint32_t)(36 + n));
    memcpy(p, "WAVEfmt ", 8);
    p = cj__set32(p + 8, 16);
    p = cj__set16(cj__set16(p, (uint32_t)kind), (uint32_t)channels);
    p = cj__set32(cj__set32(p, 8000), (uint32_t)(8000 * channels * bits / 8));
    p = cj__set16(cj__set16(p, (uint32_t)(channels * bits / 8)), (uint32_t)bits);
    memcpy(p, "data", 4);
    p = cj__set32(p + 4, (uint32_t)n);
    memcpy(p, data, n);
    return (size_t)(p - out) + n;
}

static bool load_wav(cj_ctx *k, const char *path)
{
    int64_t rate;
    cj_tensor *t = cj_wav_load(k, path, &rate);
    if (t) touch(t);
    return t != NULL;
}

static void sound(void **state)
{
    (void)state;
    unsigned char b[256];
    int64_t rate = 0;
    cj_tensor *t = cj_wav_load(c, file("s", b, wav(b, 1, 2, 16, "\0\x80\xff\x7f\0\0\0\x40", 8)), &rate);
    assert_values(t, -1, 0, 32767.0 / 32768, 0.5); /* [channels, frames] */
    assert_int_equal(cj_size(t, 0), 2);
    assert_int_equal(rate, 8000);
    assert_values(cj_wav_load(c, file("s", b, wav(b, 1, 1, 8, "\0\x80\xc0", 3)), NULL), -1, 0, 0.5);
    assert_values(cj_wav_load(c, file("s", b, wav(b, 1, 1, 24, "\0\0\x80\0\0\x40", 6)), NULL), -1, 0.5);
    assert_values(cj_wav_load(c, file("s", b, wav(b, 1, 1, 32, "\0\0\0\xc0", 4)), NULL), -0.5);
    float f = 0.25f;
    double d = -0.125;
    assert_values(cj_wav_load(c, file("s", b, wav(b, 3, 1, 32, &f, 4)), NULL), 0.25);
    assert_values(cj_wav_load(c, file("s", b, wav(b, 3, 1, 64, &d, 8)), NULL), -0.125);
    damage(load_wav, file("s", b, wav(b, 1, 1, 16, "\1\0\2\0", 4)), 3000);
    assert_refused(CJ_EFILE, "format 6 of 8 bits was found", cj_wav_load(c, file("s", b, wav(b, 6, 1, 8, "a", 1)), NULL));
    assert_refused(CJ_EFILE, "RIFF … WAVE of a WAV file was expected, 'RIFX....WAVE' was found",
                   cj_wav_load(c, TEXT("s", "RIFX....WAVE"), NULL));
}

/* ---- CSV -------------------------------------------------------------------------------------------------------------------------------------- */

static bool load_csv(cj_ctx *k, const char *path)
{
    cj_table *t = cj_csv_load(k, path);
    if (t) touch(t->x);
    for (int64_t j = 0; t && j < t->columns; j++)
        for (int64_t i = 0; i < t->column[j].categories; i++) assert_true(strlen(t->column[j].category[i]) < 100);
    return t != NULL;
}

static void csv(void **state)
{
    (void)state;
    const char *path = TEXT("t.csv", "name,x,\"a \"\"b\"\"\"\r\nred,1.5,?\r\n\"gr,een\n\",-2e-1,7\r\n\r\nred,,NA\r\n");
    cj_table *t = cj_csv_load(c, path);
    if (!t) fail_msg("%s", cj_message(c));
    assert_int_equal(t->rows, 3);
    assert_int_equal(t->columns, 3);
    assert_string_equal(t->column[2].name, "a \"b\"");
    assert_int_equal(t->column[0].categories, 2);
    assert_string_equal(t->column[0].category[0], "gr,een\n");
    assert_string_equal(t->column[0].category[1], "red");
    assert_values(t->x, 1, 1.5, NAN, 0, -0.2, 7, 1, NAN, NAN);
    assert_int_equal(t->column[2].missing, 2);
    assert_int_equal(t->column[1].missing, 1);
    cj_table_free(t);
    t = cj_csv_load(c, TEXT("t", " 1  2\n3\t-999 \n"), .delimiter = ' ', .missing = "-999");
    assert_values(t->x, 1, 2, 3, NAN);
    assert_string_equal(t->column[1].name, "1");
    t = cj_csv_load(c, TEXT("t", "1;2\n3;4"), .delimiter = ';', .header = 1);
    assert_values(t->x, 3, 4);
    assert_string_equal(t->column[0].name, "1");
    assert_refused(CJ_EFILE, "at byte 4: 2 columns were expected in row 2, 1 were found", cj_csv_load(c, TEXT("t", "1,2\n3\n")));
    assert_refused(CJ_EFILE, "at byte 2: a closing quote was expected", cj_csv_load(c, TEXT("t", "1,\"2\n3\n")));
    assert_refused(CJ_EFILE, "after a quoted field", cj_csv_load(c, TEXT("t", "\"1\"x,2\n")));
    assert_refused(CJ_EFILE, "an empty file was found", cj_csv_load(c, TEXT("t", "\n\n")));
    assert_refused(CJ_EFILE, "rows were expected after the header", cj_csv_load(c, TEXT("t", "a,b\n")));
    size_t n;
    unsigned char *good = read_all(path, &n);
    for (int i = 0; i < 3000; i++) { /* a shorter table is a table: no cut must fail, none may crash */
        size_t cut = dice() % n;
        load_damaged(load_csv, good, cut, false);
    }
    free(good);
    if (!real("housing/boston_house_prices.csv")) return;
    t = cj_csv_load(c, real("housing/boston.housing.data"), .delimiter = ' ');
    assert_int_equal(t->rows, 506);
    assert_int_equal(t->columns, 14);
    double sum = 0, *v = values_of(t->x);
    for (int i = 0; i < 506; i++) sum += v[14 * i + 13];
    assert_near(sum / 506, 22.5328, 1e-4);
    free(v);
}

/* ---- images ----------------------------------------------------------------------------------------------------------------------------------- */

static bool load_image(cj_ctx *k, const char *path)
{
    cj_tensor *t = cj_image_load(k, path);
    if (t) touch(t);
    return t != NULL;
}

static void images(void **state)
{
    (void)state;
    if (!PNG) skip();
    unsigned char pixel[3 * 5 * 7];
    for (size_t i = 0; i < sizeof pixel; i++) pixel[i] = (unsigned char)(i * 37);
    cj_tensor *t = cj_from_data(c, pixel, CJ_U8, CJ_SHAPE(3, 5, 7));
    assert_true(cj_image_save(t, in_folder("x.png")));
    cj_tensor *back = cj_image_load(c, in_folder("x.png"));
    assert_int_equal(cj_size(back, 2), 7);
    assert_memory_equal(cj_data(back), pixel, sizeof pixel);
    cj_tensor *grey = cj_from_f32(c, (float[]){ 0, 0.5f, 1, 2, -1, 0.25f }, CJ_SHAPE(2, 3));
    assert_true(cj_image_save(grey, in_folder("g.png")));
    assert_values(cj_image_load(c, in_folder("g.png")), 0, 128, 255, 255, 0, 64);
    damage(load_image, in_folder("x.png"), 1500);
    assert_refused(CJ_EFILE, "the first bytes of PNG or JPEG were expected", cj_image_load(c, TEXT("x", "GIF89a")));
    assert_refused(CJ_ESHAPE, "[height, width]", cj_image_save(cj_zeros(c, CJ_SHAPE(2, 5, 7), CJ_U8), in_folder("y.png")));
    assert_refused(CJ_EDTYPE, "u8 or a float type", cj_image_save(cj_zeros(c, CJ_SHAPE(5, 7), CJ_I64), in_folder("y.png")));
}

#if defined CJ_HAVE_JPEG
#include <jpeglib.h>
/* A smooth picture of 24 x 16 in colour. */
static const char *write_jpeg(const char *name)
{
    const char *path = in_folder(name);
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr e;
    j.err = jpeg_std_error(&e);
    jpeg_create_compress(&j);
    FILE *f = fopen(path, "wb");
    jpeg_stdio_dest(&j, f);
    j.image_width = 24;
    j.image_height = 16;
    j.input_components = 3;
    j.in_color_space = JCS_RGB;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 95, TRUE);
    jpeg_start_compress(&j, TRUE);
    for (int y = 0; y < 16; y++) {
        unsigned char row[72], *p = row;
        for (int x = 0; x < 24; x++) row[3 * x] = (unsigned char)(10 * x), row[3 * x + 1] = (unsigned char)(15 * y), row[3 * x + 2] = 100;
        jpeg_write_scanlines(&j, &p, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    fclose(f);
    return path;
}

static void jpeg(void **state)
{
    (void)state;
    const char *path = write_jpeg("x.jpg");
    cj_tensor *t = cj_image_load(c, path);
    if (!t) fail_msg("%s", cj_message(c));
    assert_int_equal(cj_size(t, 0), 3);
    assert_int_equal(cj_size(t, 1), 16);
    assert_int_equal(cj_size(t, 2), 24);
    assert_near(cj_at(t, (int64_t[]){ 0, 8, 12 }), 120, 6);
    assert_near(cj_at(t, (int64_t[]){ 1, 8, 12 }), 120, 6);
    assert_near(cj_at(t, (int64_t[]){ 2, 8, 12 }), 100, 6);
    size_t n;
    unsigned char *good = read_all(path, &n);
    for (size_t cut = 0; cut + 2 < n; cut += 1 + cut / 40) load_damaged(load_image, good, cut, true);
    for (int i = 0; i < 1500; i++) {
        unsigned char bad[2048];
        assert_true(n < sizeof bad);
        memcpy(bad, good, n);
        bad[dice() % n] = (unsigned char)dice();
        load_damaged(load_image, bad, n, false);
    }
    free(good);
}

static void folders(void **state)
{
    (void)state;
    if (!PNG) skip();
    char path[200];
    mkdir(in_folder("set"), 0777);
    mkdir(in_folder("set/cat"), 0777);
    mkdir(in_folder("set/ant"), 0777);
    write_jpeg("set/cat/2.jpg");
    write_jpeg("set/cat/1.jpg");
    TEXT("set/cat/notes.txt", "x");
    assert_true(cj_image_save(cj_full(c, 0.5, CJ_SHAPE(16, 24), CJ_F32), in_folder("set/ant/a.png")));
    snprintf(path, sizeof path, "%s/set", folder);
    cj_image_folder *f = cj_image_folder_load(c, path);
    if (!f) fail_msg("%s", cj_message(c));
    assert_int_equal(f->n, 3);
    assert_string_equal(f->class_names[0], "ant");
    assert_string_equal(f->files[1], "cat/1.jpg");
    assert_values(f->y, 0, 1, 1);
    assert_int_equal(cj_size(f->x, 1), 3);
    assert_true(cj_at(f->x, (int64_t[]){ 0, 2, 7, 7 }) == 128);
    cj_image_folder_free(f);
    f = cj_image_folder_load(c, path, .height = 8, .width = 6, .channels = 1);
    assert_int_equal(cj_size(f->x, 3), 6);
    assert_true(cj_at(f->x, (int64_t[]){ 0, 0, 3, 3 }) == 128);
    assert_true(cj_image_save(cj_zeros(c, CJ_SHAPE(3, 3), CJ_U8), in_folder("set/cat/3.png")));
    assert_refused(CJ_EFILE, "16 x 24 pixels were expected", cj_image_folder_load(c, path));
    TEXT("set/cat/3.png", "no image");
    assert_refused(CJ_EFILE, "cat/3.png", cj_image_folder_load(c, path));
    mkdir(in_folder("bare"), 0777);
    snprintf(path, sizeof path, "%s/bare", folder);
    assert_refused(CJ_EFILE, "one per class, none were found", cj_image_folder_load(c, path));
    assert_refused(CJ_EVALUE, "1 or 3 channels", cj_image_folder_load(c, path, .channels = 2));
    assert_refused(CJ_EFILE, "No such file", cj_image_folder_load(c, "no/such/folder"));
}
#endif

/* ---- texts ------------------------------------------------------------------------------------------------------------------------------------ */

static void texts(void **state)
{
    (void)state;
    cj_lines *l = cj_lines_load(c, TEXT("l", "\xef\xbb\xbf"
                                             "one\r\n\nthr\xc3\xa9\xc3\xa9"));
    assert_int_equal(l->n, 3);
    assert_string_equal(l->line[0], "one");
    assert_string_equal(l->line[1], "");
    assert_string_equal(l->line[2], "thr\xc3\xa9\xc3\xa9");
    assert_int_equal(l->length[2], 7);
    cj_lines_free(l);
    assert_int_equal(cj_lines_load(c, TEXT("l", ""))->n, 0);
    assert_refused(CJ_EFILE, "at byte 2: UTF-8 text was expected, byte 255 was found", cj_lines_load(c, TEXT("l", "ab\xff")));
    assert_refused(CJ_EFILE, "at byte 1: UTF-8 text was expected, byte 0", cj_lines_load(c, TEXT("l", "a\0b")));
    assert_refused(CJ_EFILE, "at byte 0: UTF-8", cj_lines_load(c, TEXT("l", "\xe2\x82")));
    cj_lines *a, *b;
    char path[2][200];
    snprintf(path[0], sizeof path[0], "%s", TEXT("l.a", "x\ny\n"));
    snprintf(path[1], sizeof path[1], "%s", TEXT("l.b", "u\nv"));
    assert_true(cj_parallel_load(c, path[0], path[1], &a, &b));
    assert_string_equal(b->line[1], "v");
    TEXT("l.b", "u\n");
    assert_refused(CJ_EFILE, "2 lines were expected", assert_false(cj_parallel_load(c, path[0], path[1], &a, &b)));
    assert_null(a);
    assert_values(cj_bytes_load(c, TEXT("l", "a\0\xff")), 97, 0, 255);
#if defined CJ_HAVE_ZLIB
    char command[400]; /* gzip members follow each other, as `cat a.gz b.gz` makes them */
    snprintf(command, sizeof command, "cd %s && printf one | gzip >g && printf '\\ntwo' | gzip >>g", folder);
    assert_int_equal(system(command), 0);
    l = cj_lines_load(c, in_folder("g"));
    assert_int_equal(l->n, 2);
    assert_string_equal(l->line[1], "two");
    const char *de = real("multi30k/train.de.gz");
    if (!de) return;
    assert_true(cj_parallel_load(c, de, real("multi30k/train.en.gz"), &a, &b));
    assert_int_equal(a->n, 29000);
#endif
}

/* ---- MATLAB ----------------------------------------------------------------------------------------------------------------------------------- */

static bool load_mat(cj_ctx *k, const char *path)
{
    cj_archive *a = cj_mat_load(k, path);
    for (int i = 0; a && i < a->count; i++) touch(a->item[i].tensor);
    return a != NULL;
}

/* fixtures/small.mat and packed.mat: scipy.io.savemat({'a': [[1.5, 2, 3], [4, 5, 6]], 'u': uint8 2x3x2 of 0 … 11, 'flag': bool, 'word': 'hello', …}) */
static void matlab(void **state)
{
    (void)state;
    const char *const files[] = { CJ_SOURCE_DIR "/tests/fixtures/small.mat", CJ_SOURCE_DIR "/tests/fixtures/packed.mat" };
    for (int k = 0; k < 2; k++) {
#if !defined CJ_HAVE_ZLIB
        if (k == 1) break;
#endif
        cj_archive *a = cj_mat_load(c, files[k]);
        if (!a) fail_msg("%s", cj_message(c));
        assert_values(cj_archive_find(a, "a"), 1.5, 2, 3, 4, 5, 6);
        assert_int_equal(cj_dtype_of(cj_archive_find(a, "a")), CJ_F64);
        assert_values(cj_archive_find(a, "u"), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        assert_int_equal(cj_size(cj_archive_find(a, "u"), 1), 3);
        assert_int_equal(cj_dtype_of(cj_archive_find(a, "u")), CJ_U8);
        assert_int_equal(cj_dtype_of(cj_archive_find(a, "flag")), CJ_BOOL);
        assert_values(cj_archive_find(a, "flag"), 1, 0);
        assert_values(cj_archive_find(a, "big"), -9007199254740993.0);
        assert_int_equal(((const int64_t *)cj_data(cj_archive_find(a, "big")))[0], -9007199254740993);
        assert_string_equal(cj_archive_meta(a, "word"), "hello");
        assert_null(cj_archive_find(a, "cell"));
        cj_archive_free(a);
        size_t n;
        unsigned char *good = read_all(files[k], &n), *bad = malloc(n);
        for (int i = 0; i < 2000; i++) {
            memcpy(bad, good, n);
            for (int m = 0; m < 3; m++) bad[120 + dice() % (n - 120)] = (unsigned char)(dice() & 1 ? dice() : 0);
            load_damaged(load_mat, bad, i % 4 ? n : dice() % n, false);
        }
        free(good);
        free(bad);
    }
    assert_refused(CJ_EFILE, "128 bytes of a MATLAB header were expected, 4 were found", cj_mat_load(c, TEXT("m", "abcd")));
    const char *path = real("olivetti/olivettifaces.mat");
    if (!path) return;
    cj_archive *a = cj_mat_load(c, path);
    cj_tensor *faces = cj_archive_find(a, "faces");
    assert_int_equal(cj_size(faces, 0), 4096);
    assert_int_equal(cj_size(faces, 1), 400);
    assert_true(cj_at(faces, (int64_t[]){ 0, 0 }) == 75);
}

/* An image brought to a size is the bilinear interpolation with half-pixel centres, rounded; grey is 0.299 R + 0.587 G + 0.114 B. */
static void fitted_images(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = { { 3, 5, 7, 11 }, { 6, 9, 4, 5 }, { 5, 4, 5, 4 }, { 1, 6, 3, 2 }, { 7, 1, 2, 6 } };
    for (int i = 0; i < 15; i++) {
        const int64_t h = sizes[i % 5][0], w = sizes[i % 5][1], height = sizes[i % 5][2], width = sizes[i % 5][3];
        const int64_t from = i < 5 ? 1 : 3, to = i < 10 ? from : 1;
        cj_tensor *x = cj_cast(cj_randint(c, 0, 256, CJ_SHAPE(1, from, h, w)), CJ_U8), *y = cj_cast(x, CJ_F64);
        unsigned char out[3 * 7 * 11];
        cj__pixels_fit(&(cj_pixels){ c, from, h, w, (unsigned char *)(uintptr_t)cj_data(x) }, to, height, width, out);
        y = cj_interpolate(y, .size = CJ_SHAPE(height, width), .mode = CJ_INTERP_LINEAR);
        if (to < from) y = cj_sum(cj_mul(y, cj_reshape(F64(c, CJ_SHAPE(3), 0.299, 0.587, 0.114), CJ_SHAPE(3, 1, 1))), .axes = CJ_AXIS(1));
        double *want = values_of(y);
        for (int64_t k = 0; k < to * height * width; k++) assert_true(fabs(want[k] - out[k]) <= 0.5 + 1e-4);
        free(want);
    }
    assert_ok(c);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------------------------------------- */

static bool load_gml(cj_ctx *k, const char *path)
{
    cj_graph *g = cj_gml_load(k, path);
    if (g) touch(g->target), touch(g->offset);
    return g != NULL;
}

#define GML                                                                                                                                \
    "Creator \"x\"\ngraph [\n directed 0 # comment\n node [ id 7 label \"seven\" ]\n node [ id 3 graphics [ x 1 y [ z 2 ] ] ]\n node [ "   \
    "id -1 ]\n"                                                                                                                            \
    " edge [ source 7 target 3 value 2.5 ]\n edge [ source 3 target -1 ]\n edge [ source 3 target 7 ]\n edge [ source -1 target -1 ]\n]\n"

static void gml(void **state)
{
    (void)state;
    const char *path = TEXT("k.gml", GML);
    cj_graph *g = cj_gml_load(c, path);
    if (!g) fail_msg("%s", cj_message(c));
    assert_int_equal(g->nodes, 3);
    assert_int_equal(g->edges, 5);
    assert_values(g->offset, 0, 1, 3, 5);
    assert_values(g->target, 1, 0, 2, 1, 2);
    assert_values(g->weight, 2.5, 2.5, 1, 1, 1);
    assert_string_equal(g->label[0], "seven");
    assert_false(g->directed);
    g = cj_gml_load(c, TEXT("k", "graph [ directed 1 node [ id 1 ] node [ id 2 ] edge [ source 2 target 1 ] ]"));
    assert_int_equal(g->edges, 1);
    assert_values(g->offset, 0, 0, 1);
    assert_null(g->weight);
    /* two nodes that point to the same one, and one that points twice: neighbours in the sorted list, of which only the last two are one */
    g = cj_gml_load(
        c, TEXT("k", "graph [ directed 1 node [ id 1 ] node [ id 2 ] node [ id 3 ] edge [ source 1 target 3 ] edge [ source 2 target 3 ] "
                     "edge [ source 2 target 3 ] edge [ source 3 target 1 ] ]"));
    assert_int_equal(g->edges, 3);
    assert_values(g->offset, 0, 1, 2, 3);
    assert_values(g->target, 2, 2, 0);
    damage(load_gml, TEXT("k", "graph[node[id 1]node[id 2 label \"q\"]edge[source 1 target 2]]"), 3000);
    assert_refused(CJ_EFILE, "at byte 27: edges between nodes were expected, node 9 was found in edge 0 only",
                   cj_gml_load(c, TEXT("k", "graph [ node [ id 1 ] edge [ source 1 target 9 ] ]")));
    assert_refused(CJ_EFILE, "at byte 27: every id once was expected, 1 was found twice",
                   cj_gml_load(c, TEXT("k", "graph [ node [ id 1 ] node [ id 1 ] ]")));
    assert_refused(CJ_EFILE, "graph [ of a GML file was expected, '{}' was found", cj_gml_load(c, TEXT("k", "{}")));
    assert_refused(CJ_EFILE, "an id was expected", cj_gml_load(c, TEXT("k", "graph [ node [ label \"a\" ] ]")));
    char deep[1000] = "graph [ ";
    for (int i = 0; i < 100; i++) strcat(deep, "a [ ");
    assert_refused(CJ_EFILE, "nested at most 64 deep were expected", cj_gml_load(c, file("k", deep, strlen(deep))));
    if (!real("karate/karate.gml")) return;
    g = cj_gml_load(c, real("karate/karate.gml"));
    assert_int_equal(g->nodes, 34);
    assert_int_equal(g->edges, 156);
}

/* fixtures/ind.tiny.*: six nodes, three words, two classes, written by Python 3 with protocol 2 in the layout of Planetoid's files */
static bool load_tiny(cj_ctx *k, const char *path)
{
    (void)path;
    cj_graph *g = cj_planetoid_load(k, folder, "bad");
    if (g) touch(g->x), touch(g->target);
    return g != NULL;
}

static void planetoid(void **state)
{
    (void)state;
    cj_graph *g = cj_planetoid_load(c, CJ_SOURCE_DIR "/tests/fixtures", "tiny");
    if (!g) fail_msg("%s", cj_message(c));
    assert_int_equal(g->nodes, 6);
    assert_int_equal(g->features, 3);
    assert_int_equal(g->classes, 2);
    assert_values(g->x, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 2, 0, 0, 0, 3, 0); /* test.index 5, 4: tx row 0 is node 5 */
    assert_values(g->y, 0, 1, 0, 1, 1, 0);
    assert_values(g->train, 0, 1);
    assert_values(g->val, 2, 3, 4, 5);
    assert_values(g->test, 4, 5);
    assert_values(g->offset, 0, 2, 4, 6, 8, 9, 10);
    assert_values(g->target, 1, 5, 0, 2, 1, 3, 2, 4, 3, 0);
    const char *const parts[] = { "x", "tx", "allx", "y", "ty", "ally", "graph", "test.index" };
    for (int i = 0; i < 8; i++) {
        char from[300], name[64];
        snprintf(from, sizeof from, "%s/tests/fixtures/ind.tiny.%s", CJ_SOURCE_DIR, parts[i]);
        snprintf(name, sizeof name, "ind.bad.%s", parts[i]);
        size_t n;
        unsigned char *b = read_all(from, &n);
        file(name, b, n);
        free(b);
    }
    for (int i = 0; i < 8; i++) { /* each part damaged, the others good */
        char name[64];
        snprintf(name, sizeof name, "ind.bad.%s", parts[i]);
        size_t n;
        unsigned char *good = read_all(in_folder(name), &n), *bad = malloc(n);
        for (int k = 0; k < 800; k++) {
            memcpy(bad, good, n);
            for (int m = 0; m < 2; m++) bad[dice() % n] = (unsigned char)dice();
            file(name, bad, k % 3 ? n : dice() % n);
            load_damaged(load_tiny, bad, 1, false);
        }
        file(name, good, n);
        free(good);
        free(bad);
    }
    TEXT("ind.bad.y", "cos\nsystem\n(S'true'\ntR.");
    assert_refused(CJ_EFILE, "system of os was found", cj_planetoid_load(c, folder, "bad"));
    assert_refused(CJ_EFILE, "No such file", cj_planetoid_load(c, folder, "none"));
    if (!real("cora/planetoid/ind.cora.x")) return;
    g = cj_planetoid_load(c, real("cora/planetoid"), "cora");
    if (!g) fail_msg("%s", cj_message(c));
    assert_int_equal(g->nodes, 2708);
    assert_int_equal(g->features, 1433);
    assert_int_equal(g->classes, 7);
    assert_int_equal(g->edges, 10556); /* 5278 different undirected edges */
    assert_int_equal(cj_numel(g->train), 140);
    assert_int_equal(cj_numel(g->val), 500);
    assert_int_equal(cj_numel(g->test), 1000);
    assert_near(cj_item(cj_sum(g->x)), 49216, 0); /* words in all papers */
}

/* ---- Pascal VOC ------------------------------------------------------------------------------------------------------------------------------- */

static bool load_voc(cj_ctx *k, const char *path) { return cj_voc_load(k, path) != NULL; }

#define VOC                                                                                                                                \
    "<?xml version=\"1.0\"?><!-- c --><annotation verified=\"yes\"><filename> a&amp;b.jpg "                                                \
    "</filename><size><width>640</width><height>480</height>"                                                                              \
    "<depth>3</depth></size><object><name>RBC</name><part><name>x</name></part><difficult>1</difficult><bndbox><xmin>78</xmin><ymin>336</" \
    "ymin>"                                                                                                                                \
    "<xmax>184.5</xmax><ymax>435</ymax></bndbox></object><owner/></annotation>"

static void voc(void **state)
{
    (void)state;
    cj_boxes *b = cj_voc_load(c, TEXT("v.xml", VOC));
    if (!b) fail_msg("%s", cj_message(c));
    assert_string_equal(b->file, "a&b.jpg");
    assert_int_equal(b->n, 1);
    assert_int_equal(b->width, 640);
    assert_int_equal(b->depth, 3);
    assert_string_equal(b->box[0].name, "RBC");
    assert_true(b->box[0].difficult && b->box[0].xmin == 78 && b->box[0].ymin == 336 && b->box[0].xmax == 184.5 && b->box[0].ymax == 435);
    damage(load_voc, TEXT("v.xml", VOC), 3000);
    assert_refused(CJ_EFILE, "a number was expected in <xmin>",
                   cj_voc_load(c, TEXT("v", "<annotation><object><name>a</name><bndbox><xmin>q</xmin></bndbox></object></annotation>")));
    assert_refused(CJ_EFILE, "four corners were expected",
                   cj_voc_load(c, TEXT("v", "<annotation><object><name>a</name></object></annotation>")));
    assert_refused(CJ_EFILE, "<annotation> was expected, html was found", cj_voc_load(c, TEXT("v", "<html></html>")));
}

/* ---- time series ------------------------------------------------------------------------------------------------------------------------------ */

static bool load_ts(cj_ctx *k, const char *path)
{
    cj_timeseries *s = cj_ts_load(k, path);
    if (s) touch(s->x);
    return s != NULL;
}

static void series(void **state)
{
    (void)state;
    const char *path = TEXT("t.ts", "# text\n@problemName q\n@classLabel true a b\n@data\n1,2,3:4,5,6:b\n7,?:8,9:a\n");
    cj_timeseries *s = cj_ts_load(c, path);
    if (!s) fail_msg("%s", cj_message(c));
    assert_int_equal(s->n, 2);
    assert_int_equal(s->channels, 2);
    assert_int_equal(s->length, 3);
    assert_string_equal(s->class_names[1], "b");
    assert_values(s->y, 1, 0);
    assert_values(s->lengths, 3, 2);
    assert_values(s->x, 1, 2, 3, 4, 5, 6, 7, NAN, 0, 8, 9, 0);
    size_t n;
    unsigned char *good = read_all(path, &n), bad[256];
    for (int i = 0; i < 3000; i++) {
        memcpy(bad, good, n);
        bad[dice() % n] = (unsigned char)dice();
        load_damaged(load_ts, bad, i % 3 ? n : dice() % n, false);
    }
    free(good);
    assert_refused(CJ_EFILE, "a class of the header was expected, z was found",
                   cj_ts_load(c, TEXT("t", "@classLabel true a\n@data\n1:z\n")));
    assert_refused(CJ_EFILE, "2 dimensions were expected, 1 were found",
                   cj_ts_load(c, TEXT("t", "@classLabel true a\n@data\n1:2:a\n1:a\n")));
    assert_refused(CJ_EFILE, "@data was expected", cj_ts_load(c, TEXT("t", "@x y\n")));
    assert_refused(CJ_EFILE, "before @data", cj_ts_load(c, TEXT("t", "1,2\n")));
    if (!real("timeseries/ucr/JapaneseVowels_TRAIN.ts")) return;
    s = cj_ts_load(c, real("timeseries/ucr/JapaneseVowels_TRAIN.ts"));
    assert_int_equal(s->n, 270);
    assert_int_equal(s->channels, 12);
    assert_int_equal(s->classes, 9);
}

/* ---- no memory -------------------------------------------------------------------------------------------------------------------------------- */

static bool everything(cj_ctx *k)
{
    cj_graph *g = cj_gml_load(k, in_folder("k.gml"));
    cj_boxes *b = g ? cj_voc_load(k, in_folder("v.xml")) : NULL;
    cj_table *t = b ? cj_csv_load(k, in_folder("t.csv")) : NULL;
    cj_timeseries *s = t ? cj_ts_load(k, in_folder("t.ts")) : NULL;
    cj_graph *p = s ? cj_planetoid_load(k, CJ_SOURCE_DIR "/tests/fixtures", "tiny") : NULL;
    cj_archive *m = p ? cj_mat_load(k, CJ_SOURCE_DIR "/tests/fixtures/small.mat") : NULL;
    cj_graph_free(g);
    return m != NULL;
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx),
        cmocka_unit_test(fitted_images),
        cmocka_unit_test(cifar),
        cmocka_unit_test(sound),
        cmocka_unit_test(csv),
        cmocka_unit_test(images),
#if defined CJ_HAVE_JPEG
        cmocka_unit_test(jpeg),
        cmocka_unit_test(folders),
#endif
        cmocka_unit_test(texts),
        cmocka_unit_test(matlab),
        cmocka_unit_test(gml),
        cmocka_unit_test(planetoid),
        cmocka_unit_test(voc),
        cmocka_unit_test(series),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
