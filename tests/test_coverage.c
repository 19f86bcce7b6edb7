/* docs/coverage.tsv against the tree: every file, symbol, test case and lab that it names exists, and no row of the families that are done is missing. */
#include <ctype.h>
#include <sys/stat.h>

#include "support.h"

static const char *root(void)
{
    const char *env = getenv("CAJAL_SOURCE");
#ifdef CJ_SOURCE_DIR
    return env && *env ? env : CJ_SOURCE_DIR;
#else
    return env && *env ? env : ".";
#endif
}

/* The text of a file under the root, or NULL; the caller frees it. */
static char *read_text(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root(), name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = NULL;
    size_t n = 0, got;
    do {
        text = realloc(text, n + 65537);
        got = fread(text + n, 1, 65536, f);
        n += got;
    } while (got);
    text[n] = 0;
    fclose(f);
    return text;
}

/* How often a word stands in a text, alone (not as a part of a longer name). */
static int count_word(const char *text, const char *word)
{
    int found = 0;
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n) {
        char before = p == text ? ' ' : p[-1], after = p[n];
        found += !(isalnum((unsigned char)before) || before == '_') && !(isalnum((unsigned char)after) || after == '_');
    }
    return found;
}

/* "file:symbol" */
static void check_symbol(const char *id, const char *where)
{
    char file[512];
    const char *colon = strrchr(where, ':');
    if (!colon || !colon[1]) fail_msg("%s: '%s' is not file:symbol", id, where);
    snprintf(file, sizeof file, "%.*s", (int)(colon - where), where);
    char *text = read_text(file);
    if (!text) fail_msg("%s: there is no file %s", id, file);
    if (count_word(text, colon + 1) < 1) fail_msg("%s: %s has no %s", id, file, colon + 1);
    free(text);
}

/* "tests/test_x.c:case": the function is there, is in the list of tests, and the file names the row. */
static void check_case(const char *id, const char *where)
{
    char file[512];
    const char *colon = strrchr(where, ':');
    if (!colon || !colon[1]) fail_msg("%s: '%s' is not file:case", id, where);
    snprintf(file, sizeof file, "%.*s", (int)(colon - where), where);
    char *text = read_text(file), definition[256];
    if (!text) fail_msg("%s: there is no file %s", id, file);
    snprintf(definition, sizeof definition, "static void %s(void **state)", colon + 1);
    if (!strstr(text, definition)) fail_msg("%s: %s has no test case %s", id, file, colon + 1);
    if (count_word(text, colon + 1) < 2) fail_msg("%s: %s is not in the list of tests of %s", id, colon + 1, file);
    if (!strstr(text, id)) fail_msg("%s: %s does not name the row", id, file);
    free(text);
}

/* "lab:NAME": the file of that name describes a lab of that name. */
static void check_lab(const char *id, const char *name)
{
    char file[512], quoted[256];
    int n = snprintf(file, sizeof file, "lab/%s.c", name);
    for (int i = 4; i < n; i++)
        if (file[i] == '-') file[i] = '_';
    char *text = read_text(file);
    if (!text) fail_msg("%s: there is no file %s", id, file);
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    if (!strstr(text, quoted)) fail_msg("%s: %s describes no lab %s", id, file, quoted);
    free(text);
}

static const char *const done_families[] = { "tensor",
                                             "ad",
                                             "act",
                                             "loss",
                                             "init",
                                             "norm",
                                             "reg",
                                             "module",
                                             "ff",
                                             "lin",
                                             "convolution",
                                             "pooling",
                                             "receptive-field",
                                             "position",
                                             "residual",
                                             "landscape",
                                             "approx",
                                             "approximation",
                                             "opt",
                                             "sched",
                                             "train" };

static void rows_are_true(void **state)
{
    (void)state;
    char *text = read_text("docs/coverage.tsv"), *save, *ids[1024];
    assert_non_null(text);
    int rows = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (*line == '#') continue;
        char *where = strchr(line, '\t'), *shown = where ? strchr(where + 1, '\t') : NULL;
        if (!where || !shown || strchr(shown + 1, '\t')) fail_msg("not three columns: %s", line);
        *where++ = *shown++ = 0;
        for (int i = 0; i < rows; i++)
            if (strcmp(ids[i], line) == 0) fail_msg("%s stands twice", line);
        ids[rows++] = line;
        char *inner;
        for (char *w = strtok_r(where, " ", &inner); w; w = strtok_r(NULL, " ", &inner)) check_symbol(line, w);
        for (char *w = strtok_r(shown, " ", &inner); w; w = strtok_r(NULL, " ", &inner)) {
            if (strncmp(w, "lab:", 4) == 0) check_lab(line, w + 4);
            else check_case(line, w);
        }
    }
    assert_true(rows >= 23);
    /* the catalogue lies beside the repository, not in it; where it is, no row of the families done so far may be missing */
    char *catalogue = read_text("../shared/catalogue.tsv");
    if (catalogue) {
        for (char *line = strtok_r(catalogue, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char *family = strchr(line, '\t');
            if (!family) fail_msg("the catalogue's row %s has no family", line);
            *family++ = 0;
            size_t length = strcspn(family, "\t");
            bool done = false;
            for (size_t i = 0; i < sizeof done_families / sizeof *done_families && !done; i++)
                done = strlen(done_families[i]) == length && strncmp(family, done_families[i], length) == 0;
            if (!done) continue;
            bool there = false;
            for (int i = 0; i < rows && !there; i++) there = strcmp(ids[i], line) == 0;
            if (!there) fail_msg("the catalogue's row %s is not in docs/coverage.tsv", line);
        }
        free(catalogue);
    }
    free(text);
}

/* The check itself can fail. */
static void words_are_whole(void **state)
{
    (void)state;
    assert_int_equal(count_word("cj_add cj_add_ cj_address xcj_add (cj_add)", "cj_add"), 2);
    assert_int_equal(count_word("", "x"), 0);
    assert_null(read_text("no/such/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_are_true), cmocka_unit_test(words_are_whole) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
