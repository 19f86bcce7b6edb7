/* What every reader says about a wrong, a cut, a damaged and a hostile file: one sentence with the file, the byte, what was expected and what was found. */
#include "files.h"

#include <cajal/cajal.h>

#include "train/manifest.h"

static cj_ctx *c;

#define READER(name, call)                                                                                                                 \
    static bool name(const char *path) { return (call) != NULL; }
READER(idx, cj_idx_load(c, path))
READER(csv, cj_csv_load(c, path))
READER(lines, cj_lines_load(c, path))
READER(mat, cj_mat_load(c, path))
READER(gml, cj_gml_load(c, path))
READER(voc, cj_voc_load(c, path))
READER(ts, cj_ts_load(c, path))
READER(npz, cj_npz_load(c, path))
READER(wav, cj_wav_load(c, path, NULL))
READER(tokeniser, cj_tokeniser_load(c, path))
#if defined CJ_HAVE_PNG || defined CJ_HAVE_JPEG
READER(image, cj_image_load(c, path))
#endif
#if defined CJ_HAVE_CJSON
READER(safetensors, cj_safetensors_load(c, path))
#endif
static bool npy(const char *path) { return !cj_is_poison(cj_npy_load(c, path)); }
static bool cifar(const char *path)
{
    cj_tensor *x, *y;
    return cj_cifar_load(c, path, 1, &x, &y);
}

typedef enum kind { WRONG, CUT, DAMAGED, HOSTILE } kind;

/* Changes b[n] the way of the kind; its new length. */
static size_t spoil(kind k, unsigned char *b, size_t n)
{
    static const char another[] = "PK\3\4 no such file\n\xff";
    switch (k) {
    case WRONG: return memcpy(b, another, sizeof another - 1), sizeof another - 1;
    case CUT: return n * 2 / 3;
    case DAMAGED: return b[n / 2] ^= 0x55, b[n / 2 + 1] = 0, b[n - 3] ^= 0x80, n;
    default: return memset(b + 4, 0xff, 8), n; /* sizes as large as they can be */
    }
}

static void what_readers_say(void **state)
{
    (void)state;
    const struct {
        bool (*load)(const char *path);
        const char *file;
        kind kind;
        const char *says; /* after "OP: PATH: " */
    } cases[] = {
        { idx, "corpus/small.idx", WRONG, "at byte 0: two zero bytes of an IDX file were expected, 80 75 were found" },
        { idx, "corpus/small.idx", CUT, "at byte 12: 12 bytes of elements were expected, 4 were found" },
        { idx, "corpus/small.idx", HOSTILE, "at byte 4: sizes that fit 12 bytes were expected, 4294967295 was found" },
#if defined CJ_HAVE_ZLIB
        { idx, "corpus/small.idx.gz", WRONG, "at byte 0: two zero bytes of an IDX file were expected, 80 75 were found" },
        { idx, "corpus/small.idx.gz", CUT,
          "at byte 27: sound compressed data was expected after 19 good bytes, the end of the file was found" },
        { idx, "corpus/small.idx.gz", DAMAGED, "sound compressed data was expected after " },
        { idx, "corpus/small.idx.gz", HOSTILE, "at byte 11: sound compressed data was expected after 0 good bytes, byte 255 was found" },
#endif
#if defined CJ_HAVE_LZMA
        { idx, "corpus/small.idx.xz", WRONG, "at byte 0: two zero bytes of an IDX file were expected, 80 75 were found" },
        { idx, "corpus/small.idx.xz", CUT,
          "at byte 53: sound compressed data was expected after 24 good bytes, the end of the file was found" },
        { idx, "corpus/small.idx.xz", DAMAGED, "sound compressed data was expected after " },
        { idx, "corpus/small.idx.xz", HOSTILE, "at byte 0: two zero bytes of an IDX file were expected, 253 55 were found" },
#endif
        { cifar, "corpus/small.cifar", WRONG, "at byte 0: records of 3073 bytes were expected, a rest of 19 bytes was found" },
        { cifar, "corpus/small.cifar", CUT, "at byte 0: records of 3073 bytes were expected, a rest of 2048 bytes was found" },
        { csv, "corpus/quotes.csv", CUT, "at byte 29: 3 columns were expected in row 2, 2 were found" },
        { csv, "corpus/quotes.csv", DAMAGED, "at byte 30: a table in text was expected, a zero byte was found" },
        { csv, "corpus/quotes.csv", HOSTILE, "at byte 18: 1 columns were expected in row 1, 3 were found" },
        { npy, "fixtures/f4.npy", WRONG, "at byte 0: \\x93NUMPY of an .npy file was expected, 50 4b 03 were found" },
        { npy, "fixtures/f4.npy", CUT, "at byte 8: a header of at most 91 bytes was expected, one of 118 was found" },
        { npy, "fixtures/f4.npy", DAMAGED, "at byte 77: a header in text was expected, a zero byte was found" },
        { npy, "fixtures/f4.npy", HOSTILE, "at byte 0: \\x93NUMPY of an .npy file was expected, 93 4e 55 were found" },
        { npz, "fixtures/stored.npz", WRONG, "at byte 0: 22 bytes of a zip file or more were expected, 19 were found" },
        { npz, "fixtures/stored.npz", CUT, "at byte 722: the end record of a zip file was expected before it, none was found" },
        { npz, "fixtures/stored.npz", DAMAGED,
          "at byte 1062: a directory of 4 members before it was expected, 225 bytes from 2147484485 on, outside, were found" },
#if defined CJ_HAVE_ZLIB
        { npz, "fixtures/deflated.npz", WRONG, "at byte 0: 22 bytes of a zip file or more were expected, 19 were found" },
        { npz, "fixtures/deflated.npz", CUT, "at byte 543: the end record of a zip file was expected before it, none was found" },
        { npz, "fixtures/deflated.npz", DAMAGED,
          "at byte 793: a directory of 4 members before it was expected, 225 bytes from 2147484216 on, outside, were found" },
#endif
#if defined CJ_HAVE_PNG
        { image, "corpus/small.png", WRONG, "at byte 0: the first bytes of PNG or JPEG were expected, 50 4b were found" },
        { image, "corpus/small.png", CUT, "a whole image was expected" },
        { image, "corpus/small.png", DAMAGED, "a whole image was expected" },
        { image, "corpus/small.png", HOSTILE, "at byte 0: the first bytes of PNG or JPEG were expected, 89 50 were found" },
#endif
#if defined CJ_HAVE_JPEG
        { image, "corpus/small.jpg", WRONG, "at byte 0: the first bytes of PNG or JPEG were expected, 50 4b were found" },
        { image, "corpus/small.jpg", CUT, "a whole image was expected" },
        { image, "corpus/small.jpg", DAMAGED, "a whole image was expected" },
        { image, "corpus/small.jpg", HOSTILE, "a whole image was expected" },
#endif
        { lines, "corpus/languages.txt", WRONG, "at byte 18: UTF-8 text was expected, byte 255 was found" },
        { lines, "corpus/languages.txt", DAMAGED, "at byte 38: UTF-8 text was expected, byte 240 was found" },
        { lines, "corpus/languages.txt", HOSTILE, "at byte 4: UTF-8 text was expected, byte 255 was found" },
        { mat, "fixtures/small.mat", WRONG, "at byte 0: 128 bytes of a MATLAB header were expected, 19 were found" },
        { mat, "fixtures/small.mat", CUT, "at byte 496: 96 bytes of an element were expected, 40 were found" },
        { mat, "fixtures/small.mat", DAMAGED,
          "at byte 376: flags, dimensions and a name were expected, elements of types 6, 5, 84 were found" },
#if defined CJ_HAVE_ZLIB
        { mat, "fixtures/packed.mat", WRONG, "at byte 0: 128 bytes of a MATLAB header were expected, 19 were found" },
        { mat, "fixtures/packed.mat", CUT, "at byte 354: 44 bytes of an element were expected, 28 were found" },
        { mat, "fixtures/packed.mat", DAMAGED, "sound compressed data was expected after " },
#endif
        { gml, "corpus/small.gml", WRONG,
          "at byte 5: a number, a text in quotes or a list in brackets was expected, 'no such file' was found" },
        { gml, "corpus/small.gml", CUT,
          "at byte 91: a number, a text in quotes or a list in brackets was expected, the end of the file was found" },
        { gml, "corpus/small.gml", DAMAGED, "at byte 134: a key or ] was expected, byte 138 was found" },
        { gml, "corpus/small.gml", HOSTILE,
          "at byte 4: a number, a text in quotes or a list in brackets was expected, byte 255 was found" },
        { voc, "corpus/small.xml", WRONG, "at byte 19: a tag was expected, the end of the file was found" },
        { voc, "corpus/small.xml", CUT, "at byte 179: > was expected, the end of the file was found" },
        { wav, "corpus/small.wav", WRONG, "at byte 0: RIFF … WAVE of a WAV file was expected, 'PK' was found" },
        { wav, "corpus/small.wav", CUT, "at byte 36: 8 bytes of a data chunk were expected, 1 were found" },
        { wav, "corpus/small.wav", HOSTILE, "at byte 0: RIFF … WAVE of a WAV file was expected, 'RIFF' was found" },
        { ts, "corpus/small.ts", WRONG, "at byte 0: a line with @ or # was expected before @data, 'PK' was found" },
        { ts, "corpus/small.ts", CUT, "at byte 48: cases were expected after @data, none were found" },
        { ts, "corpus/small.ts", DAMAGED, "at byte 61: a number was expected, 'b' was found" },
#if defined CJ_HAVE_CJSON
        { safetensors, "fixtures/python.safetensors", WRONG,
          "at byte 0: a header of at most 11 bytes was expected, one of 2337207815413910352 was found" },
        { safetensors, "fixtures/python.safetensors", CUT, "at byte 0: a header of at most 512 bytes was expected, one of 664 was found" },
        { safetensors, "fixtures/python.safetensors", DAMAGED,
          "at byte 8: a header of UTF-8 text without zeros was expected, other bytes were found" },
        { safetensors, "fixtures/python.safetensors", HOSTILE,
          "at byte 0: a header of at most 773 bytes was expected, one of 18446744069414584984 was found" },
#endif
        { tokeniser, "corpus/words.tokens", WRONG, "at byte 0: 'cajal tokeniser 1' of a tokeniser was expected, 'PK' was found" },
        { tokeniser, "corpus/words.tokens", CUT, "at byte 106: 3 bytes of a token were expected, 2 were found" },
        { tokeniser, "corpus/words.tokens", DAMAGED, "at byte 81: ' end ' of a tokeniser was expected, 'u' was found" },
        { tokeniser, "corpus/words.tokens", HOSTILE, "at byte 0: 'cajal tokeniser 1' of a tokeniser was expected, 'caja' was found" },
    };
    static const char *const kinds[] = { "wrong", "cut", "damaged", "hostile" };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char from[400];
        size_t n;
        snprintf(from, sizeof from, "%s/tests/%s", CJ_SOURCE_DIR, cases[i].file);
        unsigned char *b = read_all(from, &n);
        b = realloc(b, n + 64);
        n = spoil(cases[i].kind, b, n);
        const char *path = in_folder("spoilt");
        write_all(path, b, n);
        free(b);
        cj_scope s = cj_scope_open(c);
        if (cases[i].load(path)) fail_msg("%s, %s: it was read", cases[i].file, kinds[cases[i].kind]);
        const char *m = cj_message(c);
        bool sentence = strstr(m, path) && strstr(m, "at byte ") && strstr(m, "expected") && strstr(m, "found") && !strchr(m, '\n');
        if (cj_error(c) != CJ_EFILE || !sentence || !strstr(m, cases[i].says))
            fail_msg("%s, %s: \"%s\" does not say \"%s\"", cases[i].file, kinds[cases[i].kind], m, cases[i].says);
        cj_scope_close(s);
        cj_clear(c);
    }
}

#if defined CJ_HAVE_CJSON
/* The files of a run folder, each with one thing wrong. */
static void what_a_run_says(void **state)
{
    (void)state;
#define MODEL(file) "\"model\": {\"name\": \"" file "\", \"bytes\": 1, \"crc32\": 1}"
#define CHECKPOINT(file)                                                                                                                   \
    "{\"number\": 1, \"step\": 1, \"metrics_bytes\": 0, " MODEL(file) ", \"state\": {\"name\": \"s\", \"bytes\": 1, \"crc32\": 1}}"
    const struct {
        const char *file, *text, *says;
    } cases[] = {
        { "config.json", "", "config.json: at byte 0: a JSON object was expected, the end was found" },
        { "config.json", "[1]", "config.json: at byte 0: a JSON object was expected, '[1]' was found" },
        { "config.json", "{\"lr\": 0.1", "config.json: at byte 10: a JSON object was expected, the end was found" },
        { "config.json", "{} x", "config.json: at byte 3: a JSON object was expected, 'x' was found" },
        { "config.json", "{\"epochs\": [1]}",
          "config.json: at byte 2: a number or a short text was expected for 'epochs', something else was found" },
        { "config.json", "{\"steps\": 1}",
          "config.json: at byte 0: a number or a short text was expected for 'epochs', nothing was found" },
        { "config.json", "{\"epochs\": 1, \"steps\": -2}",
          "config.json: at byte 15: setting steps: at least 0 was expected, '-2' was found" },
        { "MANIFEST.json", "{\"checkpoints\": 1}", "MANIFEST.json: at byte 2: a list was expected in the manifest's checkpoints, " },
        { "MANIFEST.json", "{\"checkpoints\": [{\"number\": 1, \"step\": -1}]}",
          "MANIFEST.json: at byte 32: a whole number was expected in the manifest's step, " },
        { "MANIFEST.json", "{\"checkpoints\": [" CHECKPOINT("../m") "]}",
          "MANIFEST.json: at byte 73: a file name was expected in the manifest's model.name, " },
        { "MANIFEST.json", "{\"checkpoints\": [" CHECKPOINT("m") ", " CHECKPOINT("/m") "]}",
          "MANIFEST.json: at byte 215: a file name was expected in the manifest's model.name, " },
        { "MANIFEST.json", "{\"checkpoints\": [" CHECKPOINT("m") ", " CHECKPOINT("m") ", " CHECKPOINT("m") "]}",
          "a list of two was expected in the manifest's checkpoints, " },
        { "metrics.jsonl", "{\"step\": 1}\n{\"step\" 2}\n", "metrics.jsonl: at byte 20: a JSON object was expected, '2}' was found" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_all(in_folder(cases[i].file), cases[i].text, strlen(cases[i].text));
        cj_scope s = cj_scope_open(c);
        cj_generation g[CJ_GENERATIONS];
        double v[8];
        bool read = strcmp(cases[i].file, "config.json") == 0 ? cj_settings_load(cj_settings_new(c, NULL), folder)
                    : strcmp(cases[i].file, "MANIFEST.json") == 0
                        ? cj__manifest_read(c, folder, g) >= 0
                        : cj_run_metrics(c, folder, (const char *const[]){ "step" }, 1, v, 8) >= 0;
        if (read) fail_msg("%s: it was read", cases[i].text);
        if (cj_error(c) != CJ_EFILE || !strstr(cj_message(c), cases[i].says) || !strstr(cj_message(c), "found"))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, cj_message(c), cases[i].says);
        cj_scope_close(s);
        cj_clear(c);
        unlink(in_folder(cases[i].file));
    }
}
#endif

static int setup(void **state)
{
    if (folder_make(state)) return -1;
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    return c ? 0 : -1;
}
static int teardown(void **state)
{
    cj_ctx_free(c);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_readers_say),
#if defined CJ_HAVE_CJSON
        cmocka_unit_test(what_a_run_says),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
