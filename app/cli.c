/* The command line, errors, JSON lines, numbers for people. */
#include "app/app.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *current_verb = "";

/* ---- errors ------------------------------------------------------------------------------------------------------------------------------------ */

static void print_line(const char *text)
{
    fprintf(stderr, "cajal%s%s: ", *current_verb ? " " : "", current_verb);
    for (; *text; text++) fputc(*text == '\n' ? ' ' : *text, stderr);
    fputc('\n', stderr);
}

int app_error(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_line(text);
    return APP_USAGE;
}

/* The message ends with the caller's source line, " (job.c:64)"; here the caller is this program, of which a user need not know the lines. */
int app_fail(const cj_ctx *c)
{
    char text[CJ_MAX_MESSAGE];
    snprintf(text, sizeof text, "%s", c ? cj_message(c) : "out of memory");
    char *line = strstr(text, ".c:"), *end = line ? line + 3 + strspn(line + 3, "0123456789") : NULL;
    while (line && line > text && *line != '(') line--;
    if (line && line > text && strcmp(end, ")") == 0) line[-1] = 0;
    print_line(text);
    return APP_FAILED;
}

/* Letters to change, put in, leave out or swap to make a into b (Damerau and Levenshtein). */
static int edits(const char *a, const char *b)
{
    enum { MOST = 48 };
    int na = (int)strlen(a), nb = (int)strlen(b), d[MOST + 1][MOST + 1];
    if (na > MOST || nb > MOST) return MOST;
    for (int i = 0; i <= na; i++)
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), drop = d[i - 1][j] + 1, add = d[i][j - 1] + 1;
            int best = change < drop ? change : drop;
            if (add < best) best = add;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[na][nb];
}

const char *app_nearest(const char *word, const char *const *names, int n)
{
    const char *nearest = NULL;
    int best = strlen(word) < 4 ? 2 : 4; /* that many edits are another word */
    for (int i = 0; i < n; i++) {
        int e = strncmp(word, names[i], strlen(word)) == 0 ? 1 : edits(word, names[i]); /* a beginning counts as one slip */
        if (e < best) best = e, nearest = names[i];
    }
    return nearest;
}

int app_number(const char *option, const char *text, long long least, long long *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno) return app_error("%s: a whole number was expected, '%s' was found", option, text);
    if (v < least) return app_error("%s: at least %lld was expected, '%s' was found", option, least, text);
    *out = v;
    return APP_OK;
}

/* ---- options ------------------------------------------------------------------------------------------------------------------------------------- */

static void print_help(const app_usage *u, const app_option *options)
{
    printf("cajal %s %s\n\n%s\n", u->verb, u->line, u->text);
    printf("\nOptions:\n");
    for (const app_option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
    printf("  %-22s %s\n", "--help", "this text");
    if (u->examples) printf("\nExamples:\n%s", u->examples);
}

static int unknown_option(const app_usage *u, const app_option *options, const char *word)
{
    const char *names[40] = { "--help" };
    int n = 1;
    for (const app_option *o = options; o->name && n < 40; o++) names[n++] = o->name;
    const char *nearest = app_nearest(word, names, n);
    if (nearest) return app_error("option '%s' is unknown; did you mean '%s'?", word, nearest);
    return app_error("option '%s' is unknown; 'cajal %s --help' lists them", word, u->verb);
}

/* An option at argv[*i]; moves *i over its value. */
static int take_option(const app_usage *u, const app_option *options, int argc, char **argv, int *i)
{
    char name[64];
    const char *word = argv[*i], *equals = strchr(word, '=');
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
    for (const app_option *o = options; o->name; o++) {
        if (strcmp(o->name, name) != 0) continue;
        if (o->flag) {
            if (equals) return app_error("option '%s' takes no value, '%s' was found", name, equals + 1);
            *o->flag = true;
            return APP_OK;
        }
        if (equals) *o->text = equals + 1;
        else if (*i + 1 < argc) *o->text = argv[++*i];
        else return app_error("option '%s' needs a value: %s %s", name, name, o->value);
        return APP_OK;
    }
    return unknown_option(u, options, name);
}

int app_parse(const app_usage *u, const app_option *options, int argc, char **argv, app_args *out)
{
    *out = (app_args){ 0 };
    current_verb = u->verb;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
        } else if (!only_words && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            print_help(u, options);
            return -1;
        } else if (!only_words && word[0] == '-' && word[1]) {
            int status = take_option(u, options, argc, argv, &i);
            if (status) return status;
        } else if (u->settings && !only_words && strchr(word, '=')) {
            if (out->settings == 64) return app_error("more than 64 settings");
            out->setting[out->settings++] = word;
        } else if (out->words >= u->most) {
            return app_error("'%s' was not expected: cajal %s %s", word, u->verb, u->line);
        } else {
            out->word[out->words++] = word;
        }
    }
    if (out->words < u->least) return app_error("something is missing: cajal %s %s", u->verb, u->line);
    return APP_OK;
}

/* ---- JSON lines ---------------------------------------------------------------------------------------------------------------------------------- */

static bool json_first;

static void json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\') printf("\\%c", ch);
        else if (ch < 0x20 || ch == 0x7f) printf("\\u%04x", ch);
        else putchar(ch);
    }
    putchar('"');
}

static void json_key(const char *key)
{
    if (!json_first) putchar(',');
    json_first = false;
    json_string(key);
    putchar(':');
}

void app_json_open(void)
{
    putchar('{');
    json_first = true;
}
void app_json_text(const char *key, const char *value)
{
    json_key(key);
    if (value) json_string(value);
    else fputs("null", stdout);
}
void app_json_number(const char *key, double value)
{
    json_key(key);
    if (isfinite(value)) printf("%.10g", value);
    else fputs("null", stdout);
}
void app_json_numbers(const char *key, const double *value, int64_t n)
{
    json_key(key);
    putchar('[');
    for (int64_t i = 0; i < n; i++) printf(isfinite(value[i]) ? "%s%.10g" : "%snull", i ? "," : "", value[i]);
    putchar(']');
}
void app_json_bool(const char *key, bool value)
{
    json_key(key);
    fputs(value ? "true" : "false", stdout);
}
void app_json_close(void)
{
    puts("}");
    fflush(stdout);
}

/* ---- numbers for people ---------------------------------------------------------------------------------------------------------------------------- */

static char *turn(void)
{
    static char buffer[8][48];
    static int next;
    return buffer[next = (next + 1) % 8];
}

const char *app_bytes(double n)
{
    char *out = turn();
    const char *unit[] = { "B", "kB", "MB", "GB", "TB" };
    int u = 0;
    while (n >= 1000 && u < 4) n /= 1000, u++;
    snprintf(out, 48, u == 0 || n >= 100 ? "%.0f %s" : "%.1f %s", n, unit[u]);
    return out;
}

const char *app_count(double n)
{
    char digits[32], *out = turn(), *to = out;
    snprintf(digits, sizeof digits, "%.0f", n);
    for (size_t i = 0, len = strlen(digits); i < len; i++) {
        *to++ = digits[i];
        if (isdigit((unsigned char)digits[i]) && (len - i - 1) % 3 == 0 && i + 1 < len) *to++ = ',';
    }
    *to = 0;
    return out;
}

const char *app_seconds(double s)
{
    char *out = turn();
    if (s < 60) snprintf(out, 48, "%.1f s", s);
    else if (s < 3600) snprintf(out, 48, "%d min %d s", (int)s / 60, (int)s % 60);
    else snprintf(out, 48, "%d h %d min", (int)s / 3600, (int)s / 60 % 60);
    return out;
}
