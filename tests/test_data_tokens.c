/* Tokenisers: the pieces of GPT-2's expression and its tokens against the regex module and tiktoken (tools/fixtures_tokens.py), byte-pair encoding learnt here,
 * characters, words, the catalogue's rows of tokenisation. */
#include <math.h>

#include "data/tokenise.h"
#include "files.h"
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 11);

/* The fixture: a text of many languages, the lengths of its pieces, its tokens. */
static char *languages;
static size_t bytes;
static int64_t pieces, tokens, lengths, *piece, *token, *length; /* length: bytes of each token */

static int64_t *numbers(FILE *f, int64_t *n)
{
    long long v;
    assert_int_equal(fscanf(f, "%lld", &v), 1);
    *n = v;
    int64_t *out = malloc((size_t)*n * sizeof *out);
    for (int64_t i = 0; i < *n; i++) {
        assert_int_equal(fscanf(f, "%lld", &v), 1);
        out[i] = v;
    }
    return out;
}

static int load(void **state)
{
    if (setup(state)) return -1;
    languages = (char *)read_all(CJ_SOURCE_DIR "/tests/fixtures/languages.txt", &bytes);
    languages[bytes] = 0;
    FILE *f = fopen(CJ_SOURCE_DIR "/tests/fixtures/languages_tokens.txt", "r");
    assert_non_null(f);
    piece = numbers(f, &pieces);
    token = numbers(f, &tokens);
    length = numbers(f, &lengths);
    fclose(f);
    return 0;
}

static int unload(void **state)
{
    free(languages), free(piece), free(token), free(length);
    return teardown(state);
}

static void pieces_as_the_regex_module_finds_them(void **state)
{
    (void)state;
    size_t at = 0;
    for (int64_t i = 0; i < pieces; i++) {
        size_t end = cj__gpt2_piece(languages, bytes, at);
        if ((int64_t)(end - at) != piece[i])
            fail_msg("piece %lld at byte %zu has %zu bytes, not %lld", (long long)i, at, end - at, (long long)piece[i]);
        at = end;
    }
    assert_int_equal(at, bytes);
}

static bool round_trip(const cj_tokeniser *t, const char *text, int64_t n)
{
    int64_t count = cj_encode(t, text, n, NULL, 0);
    assert_true(count >= 0);
    int64_t *out = malloc((size_t)count * sizeof *out + 1);
    assert_int_equal(cj_encode(t, text, n, out, count), count);
    char *back = malloc((size_t)n + 8);
    int64_t length = cj_decode(t, out, count, back, n + 8);
    bool same = length == n && memcmp(back, text, (size_t)n) == 0;
    free(out), free(back);
    return same;
}

static void gpt2_as_tiktoken_has_it(void **state)
{
    (void)state;
    const char *root = getenv("CAJAL_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/gpt2-tokenizer/vocab.bpe", root ? root : "");
    if (!root || !exists(path)) skip();
    cj_tokeniser *t = cj_tokeniser_gpt2(c, NULL);
    if (!t) fail_msg("%s", cj_message(c));
    assert_int_equal(cj_tokeniser_size(t), 50257);
    assert_int_equal(cj_token_number(t, "<|endoftext|>", -1), 50256);
    assert_int_equal(cj_token_number(t, " the", -1), 262);
    int64_t *out = malloc((size_t)tokens * sizeof *out);
    assert_int_equal(cj_encode(t, languages, (int64_t)bytes, out, tokens), tokens);
    for (int64_t i = 0; i < tokens; i++)
        if (out[i] != token[i]) fail_msg("token %lld is %lld, not %lld", (long long)i, (long long)out[i], (long long)token[i]);
    assert_true(round_trip(t, languages, (int64_t)bytes));
    free(out);
    char noise[4096]; /* any bytes come back, also those that are no UTF-8 */
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)dice();
    assert_true(round_trip(t, noise, sizeof noise));
    cj_tokeniser_free(t);
}

/* languages.bpe has those of GPT-2's merges that this text takes, in their order: the others change nothing in it, so every token is tiktoken's. */
static void gpt2_without_its_files(void **state)
{
    folder_make(state);
    size_t n;
    unsigned char *merges = read_all(CJ_SOURCE_DIR "/tests/fixtures/languages.bpe", &n);
    write_all(in_folder("vocab.bpe"), merges, n);
    free(merges);
    cj_tokeniser *t = cj_tokeniser_gpt2(c, folder);
    if (!t) fail_msg("%s", cj_message(c));
    int64_t *out = malloc((size_t)tokens * sizeof *out), at = 0;
    assert_int_equal(cj_encode(t, languages, (int64_t)bytes, out, tokens), tokens);
    for (int64_t i = 0; i < tokens; i++) {
        int64_t has;
        const char *text = cj_token_text(t, out[i], &has);
        if (has != length[i])
            fail_msg("token %lld at byte %lld has %lld bytes, not %lld", (long long)i, (long long)at, (long long)has, (long long)length[i]);
        assert_memory_equal(text, languages + at, (size_t)has);
        at += has;
    }
    assert_int_equal(at, bytes);
    assert_true(round_trip(t, languages, (int64_t)bytes));
    free(out);
    cj_tokeniser_free(t);
    folder_remove(state);
}

static void gpt2_refuses(void **state)
{
    (void)state;
    folder_make(state);
    write_all(in_folder("vocab.bpe"), "#version: 0.2\nh e\nhe l\n", 23);
    cj_tokeniser *t = cj_tokeniser_gpt2(c, folder);
    assert_int_equal(cj_tokeniser_size(t), 256 + 2 + 1);
    int64_t out[8];
    assert_int_equal(cj_encode(t, "hello", -1, out, 8), 3);
    assert_int_equal(out[0], 257);
    write_all(in_folder("vocab.bpe"), "h e\nxy z\n", 9);
    assert_refused(CJ_EFILE, "at byte 4: a merge of earlier tokens was expected", cj_tokeniser_gpt2(c, folder));
    write_all(in_folder("vocab.bpe"), "he\n", 3);
    assert_refused(CJ_EFILE, "at byte 0: two texts and a blank", cj_tokeniser_gpt2(c, folder));
    write_all(in_folder("vocab.bpe"), "h \xe2\x82\xac\n", 6);
    assert_refused(CJ_EFILE, "at byte 2: a character that stands for a byte was expected, U+20AC was found", cj_tokeniser_gpt2(c, folder));
    folder_remove(state);
}

/* tok.bpe: low x 5, lower x 2, newest x 6, widest x 3 (Sennrich et al. 2016) merges es, est, est_, lo, low */
static void byte_pairs(void **state)
{
    (void)state;
    char text[512] = "";
    const struct {
        const char *word;
        int times;
    } corpus[] = { { "low ", 5 }, { "lower ", 2 }, { "newest ", 6 }, { "widest ", 3 } };
    for (int w = 0; w < 4; w++)
        for (int i = 0; i < corpus[w].times; i++) strcat(text, corpus[w].word);
    const char *const merges[] = { "es", "est", "est_", "lo", "low" };
    enum { ALPHABET = 11 }; /* l o w e r n s t i d and the mark */
    int64_t before = INT64_MAX;
    for (int k = 0; k <= 5; k++) {
        cj_tokeniser *t = cj_tokeniser_bpe(c, text, -1, .vocabulary = ALPHABET + k, .word_end = "_");
        assert_int_equal(cj_tokeniser_size(t), ALPHABET + k); /* one more per merge */
        for (int i = 0; i < k; i++) assert_string_equal(cj_token_text(t, ALPHABET + i, NULL), merges[i]);
        int64_t count = cj_encode(t, text, -1, NULL, 0);
        assert_true(count <= before); /* never longer */
        before = count;
        assert_true(round_trip(t, "low lower newest", 16));
        cj_tokeniser_free(t);
    }
    cj_tokeniser *t = cj_tokeniser_bpe(c, languages, (int64_t)bytes, .vocabulary = 600); /* bytes: lossless on anything */
    assert_int_equal(cj_tokeniser_size(t), 600);
    assert_true(round_trip(t, languages, (int64_t)bytes));
    assert_true(round_trip(t, "\xff\xfe never seen \xf0\x9f\xa6\x8a", 18));
    cj_tokeniser *again = cj_tokeniser_bpe(c, languages, (int64_t)bytes, .vocabulary = 600);
    for (int64_t i = 0; i < 600; i++) { /* deterministic */
        int64_t n, m;
        const char *a = cj_token_text(t, i, &n), *b = cj_token_text(again, i, &m);
        assert_true(n == m && memcmp(a, b, (size_t)n) == 0);
    }
    assert_refused(CJ_EVALUE, "a character of the vocabulary was expected, U+007A was found",
                   cj_encode(cj_tokeniser_bpe(c, "a b", -1, .word_end = "_"), "z", -1, NULL, 0));
    assert_refused(CJ_EVALUE, "the mark of a word's end is empty", cj_tokeniser_bpe(c, "a", -1, .word_end = ""));
}

/* The encoder's counts of pairs are kept by difference; a direct count after every merge must choose the same merges. */
static void merges_against_a_direct_count(void **state)
{
    (void)state;
    char text[1500];
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = "ab cd a"[dice() % 7];
    text[sizeof text - 1] = 0;
    cj_tokeniser *t = cj_tokeniser_bpe(c, text, -1, .vocabulary = 30, .word_end = "$");
    int64_t start = 5;      /* a b c d and the mark */
    char word[400][32][32]; /* words of symbols */
    int count[400], words = 0;
    char copy[1500];
    strcpy(copy, text);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) {
        size_t n = strlen(w);
        if (n > 30 || words == 400) continue;
        count[words] = (int)n + 1;
        for (size_t i = 0; i < n; i++) snprintf(word[words][i], 32, "%c", w[i]);
        strcpy(word[words++][n], "$");
    }
    for (int64_t k = start; k < cj_tokeniser_size(t); k++) {
        int best = 1;
        char a[32] = "", b[32] = "";
        for (int w = 0; w < words; w++)
            for (int i = 0; i + 1 < count[w]; i++) {
                int times = 0;
                for (int v = 0; v < words; v++)
                    for (int j = 0; j + 1 < count[v]; j++)
                        times += !strcmp(word[v][j], word[w][i]) && !strcmp(word[v][j + 1], word[w][i + 1]);
                if (times > best) best = times, strcpy(a, word[w][i]), strcpy(b, word[w][i + 1]);
            }
        char made[64];
        snprintf(made, sizeof made, "%s%s", a, b);
        assert_string_equal(cj_token_text(t, k, NULL), made);
        for (int w = 0; w < words; w++)
            for (int i = 0; i + 1 < count[w]; i++)
                if (!strcmp(word[w][i], a) && !strcmp(word[w][i + 1], b)) {
                    strcpy(word[w][i], made);
                    for (int j = i + 1; j + 1 < count[w]; j++) memmove(word[w][j], word[w][j + 1], sizeof word[w][j]);
                    count[w]--;
                }
    }
}

/* tok.vocab: vocabularies of letters, words and sub-words; counts, <unk>, there and back; one-hot columns sum to 1 */
static void vocabularies(void **state)
{
    (void)state;
    const char *text = "the cat, the dog! \xc3\xa9t\xc3\xa9 the cat";
    cj_tokeniser *t = cj_tokeniser_characters(c, text, -1);
    assert_int_equal(cj_tokeniser_size(t), 12); /* blank ! , a c d e g h o t é */
    assert_string_equal(cj_token_text(t, 0, NULL), " ");
    assert_string_equal(cj_token_text(t, 11, NULL), "\xc3\xa9");
    assert_true(round_trip(t, text, (int64_t)strlen(text)));
    assert_refused(CJ_EVALUE, "at byte 1: a character of the vocabulary was expected, U+0078 was found", cj_encode(t, "cx", -1, NULL, 0));
    const char *const specials[] = { "<pad>", "<bos>", "<eos>", "<unk>", NULL };
    t = cj_tokeniser_characters(c, text, -1, .specials = specials);
    int64_t out[16];
    assert_int_equal(cj_encode(t, "cx", -1, out, 16), 2);
    assert_int_equal(out[1], 3);
    t = cj_tokeniser_words(c, text, -1, .specials = specials);
    assert_int_equal(cj_tokeniser_size(t), 4 + 6);
    assert_string_equal(cj_token_text(t, 4, NULL), "the"); /* three times */
    assert_string_equal(cj_token_text(t, 5, NULL), "cat"); /* twice */
    assert_string_equal(cj_token_text(t, 6, NULL), ",");   /* once, the first seen */
    assert_int_equal(cj_encode(t, "the \xc3\xa9t\xc3\xa9 bird", -1, out, 16), 3);
    assert_int_equal(out[2], 3);
    char back[64];
    assert_int_equal(cj_decode(t, (int64_t[]){ 1, 4, 3, 2 }, 4, back, sizeof back), 9);
    assert_string_equal(back, "the <unk>");
    t = cj_tokeniser_words(c, "The the THE a", -1, .lower = true, .vocabulary = 2);
    assert_int_equal(cj_tokeniser_size(t), 2); /* <unk>, the */
    assert_int_equal(cj_encode(t, "THE a", -1, out, 16), 2);
    assert_true(out[0] == 1 && out[1] == 0);
    t = cj_tokeniser_bytes(c);
    assert_int_equal(cj_tokeniser_size(t), 256);
    assert_true(round_trip(t, "\0\xff z", 4));
    /* the token matrix: a one-hot column per token */
    t = cj_tokeniser_words(c, text, -1);
    int64_t n = cj_encode(t, text, -1, out, 16);
    cj_tensor *hot = cj_one_hot(cj_from_i64(c, out, CJ_SHAPE(n)), cj_tokeniser_size(t));
    for (int64_t i = 0; i < n; i++) assert_near(value_at(cj_sum(hot, .axes = CJ_AXIS(1)), i), 1, 0);
    assert_refused(CJ_EVALUE, "token 0: 0 … 6 was expected, 99 was found", cj_decode(t, (int64_t[]){ 99 }, 1, NULL, 0));
    const char *const twice[] = { "<a>", "<a>", NULL };
    assert_refused(CJ_EVALUE, "specials that are not empty and differ", cj_tokeniser_bytes(c, .specials = twice));
    assert_refused(CJ_EVALUE, "the text is NULL", cj_tokeniser_words(c, NULL, 0));
}

/* tok.tradeoff: larger vocabularies, shorter sequences: characters, byte pairs, words; a model of neighbours in bits per character beside it */
/* ---- in files ------------------------------------------------------------------------------------------------------------------------------------------ */

/* The same numbers for the same text, and the same text for the same numbers, after a way through a file. */
static void same_from_file(cj_tokeniser *t, const char *text, int64_t n)
{
    const char *path = in_folder("kept.tokens");
    assert_true(cj_tokeniser_save(t, path));
    cj_tokeniser *again = cj_tokeniser_load(c, path);
    if (!again) fail_msg("%s", cj_message(c));
    assert_int_equal(cj_tokeniser_size(again), cj_tokeniser_size(t));
    for (int64_t k = 0; k < cj_tokeniser_size(t); k++) {
        int64_t a, b;
        const char *x = cj_token_text(t, k, &a), *y = cj_token_text(again, k, &b);
        assert_int_equal(a, b);
        assert_memory_equal(x, y, (size_t)a);
    }
    int64_t count = cj_encode(t, text, n, NULL, 0), *x = malloc(((size_t)count + 1) * sizeof *x),
            *y = malloc(((size_t)count + 1) * sizeof *y);
    assert_true(count > 0);
    assert_int_equal(cj_encode(t, text, n, x, count), count);
    assert_int_equal(cj_encode(again, text, n, y, count), count);
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
    int64_t bytes_of = cj_decode(t, x, count, NULL, 0);
    assert_int_equal(cj_decode(again, x, count, NULL, 0), bytes_of);
    free(x), free(y);
    cj_tokeniser_free(again);
    cj_tokeniser_free(t);
}

static bool kept_words(cj_ctx *k)
{
    cj_words *w = cj_words_new(k, (const char *[]){ "a rose is a rose" }, 1), *v = NULL;
    bool ok = w && cj_words_save(w, in_folder("memory.tokens")) && (v = cj_words_load(k, in_folder("memory.tokens"))) != NULL;
    return ok && cj_words_count(v) == 4 + 2;
}

static void tokenisers_in_files(void **state)
{
    static const char *const specials[] = { "<pad>", "<unk>", NULL };
    folder_make(state);
    int64_t n = (int64_t)bytes;
    same_from_file(cj_tokeniser_bytes(c), languages, n);
    same_from_file(cj_tokeniser_bytes(c, .specials = specials), languages, n);
    same_from_file(cj_tokeniser_characters(c, languages, n, .specials = specials), languages, n);
    same_from_file(cj_tokeniser_words(c, languages, n, .least = 2, .lower = true), languages, n);
    same_from_file(cj_tokeniser_words(c, languages, n, .joined = true, .lower = true, .specials = specials), languages, n);
    same_from_file(cj_tokeniser_bpe(c, languages, n, .vocabulary = 500), languages, n);
    same_from_file(cj_tokeniser_bpe(c, languages, n, .vocabulary = 900, .word_end = "_", .specials = specials), languages, n);
    cj_tokeniser *t = cj_tokeniser_bytes(c);
    assert_true(cj_tokeniser_save(t, in_folder("bytes.tokens")));
    assert_refused(CJ_EFILE, "a vocabulary of words was expected, another tokeniser was found",
                   cj_words_load(c, in_folder("bytes.tokens")));
    assert_refused(CJ_EFILE, "No such file", cj_tokeniser_load(c, in_folder("none")));
    assert_refused(CJ_EFILE, "No such file", cj_tokeniser_save(t, in_folder("none/x")));
    const struct {
        const char *text, *word;
    } bad[] = {
        { "", "at byte 0: 'cajal tokeniser 1' of a tokeniser was expected, the end of the file was found" },
        { "cajal tokeniser 1\nkind 9 lower 0 joined 0 specials 0 unknown -1 tokens 0 merges 0 end 0\n", "at byte 87: a kind of tokeniser" },
        { "cajal tokeniser 1\nkind 2 lower 0 joined 0 specials 1 unknown 0 tokens 2 merges 0 end 0\n1 a\n1 a\n",
          "every token once was expected" },
        { "cajal tokeniser 1\nkind 2 lower 0 joined 0 specials 1 unknown 0 tokens 2 merges 0 end 0\n1 a\n9 b\n",
          "9 bytes of a token were expected, 2 were found" },
        { "cajal tokeniser 1\nkind 0 lower 0 joined 0 specials 0 unknown -1 tokens 1 merges 0 end 0\n1 a\n", "none was found for byte 0" },
        { "cajal tokeniser 1\nkind 3 lower 0 joined 0 specials 0 unknown -1 tokens 3 merges 1 end 1\n1 _\n1 a\n2 ab\n1 1 2\n",
          "a token that is the two before it was expected" },
        { "cajal tokeniser 1\nkind 1 lower 0 joined 0 specials 0 unknown -1 tokens 1 merges 0 end 0\n1 a\nmore",
          "the end of the file was expected, 'more'" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_all(in_folder("bad.tokens"), bad[i].text, strlen(bad[i].text));
        assert_refused(CJ_EFILE, bad[i].word, cj_tokeniser_load(c, in_folder("bad.tokens")));
    }
    fail_every_allocation(kept_words);
    folder_remove(state);
}

static double bits_per_character(const cj_tokeniser *t, const char *text, int64_t n, double *tokens_per_character)
{
    int64_t count = cj_encode(t, text, n, NULL, 0), *x = malloc((size_t)count * sizeof *x), size = cj_tokeniser_size(t);
    cj_encode(t, text, n, x, count);
    double *times = calloc((size_t)size, sizeof *times), bits = 0;
    for (int64_t i = 0; i < count; i++) times[x[i]]++;
    for (int64_t i = 0; i < count; i++) bits -= log2(times[x[i]] / (double)count); /* the best model of single tokens */
    free(x), free(times);
    *tokens_per_character = (double)count / (double)n;
    return bits / (double)n;
}

static void vocabulary_against_length(void **state)
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "sources");
    int64_t n = 60000, *number = malloc((size_t)n * sizeof *number);
    char *text = malloc((size_t)n);
    assert_true(cj_to_i64(cj_slice(d->x, 0, 0, n, 1), number, n));
    for (int64_t i = 0; i < n; i++) text[i] = (char)d->symbol[number[i]];
    double length, before = 2, bits, bits_before = 100;
    const int64_t sizes[] = { 0, 300, 400, 600, 1000 };
    for (int k = 0; k < 5; k++) {
        cj_tokeniser *t = k ? cj_tokeniser_bpe(c, text, n, .vocabulary = sizes[k]) : cj_tokeniser_bytes(c);
        bits = bits_per_character(t, text, n, &length);
        assert_true(length < before); /* monotone */
        assert_true(bits < bits_before);
        if (!k) assert_near(length, 1, 0);
        before = length;
        bits_before = bits;
        cj_tokeniser_free(t);
    }
    cj_tokeniser *words = cj_tokeniser_words(c, text, n);
    assert_true(cj_tokeniser_size(words) > 1000); /* the other end: most tokens, and fewer of them than characters */
    bits_per_character(words, text, n, &length);
    assert_true(length < 0.5);
    free(number), free(text);
}

static bool everything(cj_ctx *k)
{
    cj_tokeniser *t = cj_tokeniser_bpe(k, "aaab aab ab aaab", -1, .vocabulary = 262);
    if (!t || cj_encode(t, "aaab", -1, NULL, 0) < 0) return false;
    return cj_tokeniser_words(k, "a b a", -1) && cj_tokeniser_characters(k, "abc", -1);
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_as_the_regex_module_finds_them),
        cmocka_unit_test(gpt2_as_tiktoken_has_it),
        cmocka_unit_test(gpt2_without_its_files),
        cmocka_unit_test(gpt2_refuses),
        cmocka_unit_test(byte_pairs),
        cmocka_unit_test(merges_against_a_direct_count),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(vocabulary_against_length),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(tokenisers_in_files),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
