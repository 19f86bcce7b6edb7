/* MANIFEST.json: which checkpoints a run folder has, with the size and the CRC-32 of every file.
 *
 * The manifest is the commit point: it is written to a temporary file, synchronised, renamed over the old one, and the folder synchronised, after all files it names
 * have gone through the same.  Killed at any instant, a run has the manifest before or the manifest after, each with its files.
 */
#include "train/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/json.h"

#ifdef CJ_HAVE_ZLIB
#include <zlib.h>
#endif

static const char newest[] = "MANIFEST.json", older[] = "MANIFEST.old.json";

bool cj__run_path(cj_ctx *c, const char *folder, const char *name, char out[CJ_MAX_RUN_PATH])
{
    int n = snprintf(out, CJ_MAX_RUN_PATH, "%s/%s", folder, name);
    return n < CJ_MAX_RUN_PATH || cj__error(c, CJ_EFILE, "the path %s/%s is too long", folder, name);
}

bool cj__run_make(cj_ctx *c, const char *folder)
{
    char path[CJ_MAX_RUN_PATH];
    if (!cj__run_path(c, folder, "", path)) return false;
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return cj__error(c, CJ_EFILE, "%s: the run folder cannot be made: %s", path, strerror(errno));
        *p = '/';
    }
    return true;
}

bool cj_run_exists(const char *folder)
{
    char path[CJ_MAX_RUN_PATH];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s", folder, newest) < (int)sizeof path && stat(path, &st) == 0) return true;
    return snprintf(path, sizeof path, "%s/%s", folder, older) < (int)sizeof path && stat(path, &st) == 0;
}

/* ---- checksums ------------------------------------------------------------------------------------------------------------------------------ */

#ifndef CJ_HAVE_ZLIB
/* The reflected polynomial 0xEDB88320, as in zlib and PNG. */
static uint32_t crc32(uint32_t crc, const unsigned char *p, uint32_t n)
{
    crc = ~crc;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}
#endif

bool cj__run_measure(cj_ctx *c, const char *folder, cj_run_file *f)
{
    char path[CJ_MAX_RUN_PATH];
    cj_reader r;
    if (!cj__run_path(c, folder, f->name, path) || !cj__reader_open(&r, c, "checkpoint", path)) return false;
    enum { PIECE = 1 << 18 };
    unsigned char *piece = cj__alloc(c, PIECE);
    bool ok = piece != NULL;
    f->bytes = r.size;
    f->crc = 0;
    for (int64_t at = 0; at < r.size && ok; at += PIECE) {
        size_t n = r.size - at < PIECE ? (size_t)(r.size - at) : PIECE;
        ok = cj__reader_at(&r, at, piece, n);
        if (ok) f->crc = (uint32_t)crc32(f->crc, piece, (uint32_t)n);
    }
    cj__free(c, piece, PIECE);
    cj__reader_close(&r);
    return ok;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------------------- */

#ifdef CJ_HAVE_CJSON
/* A manifest being read: what it says from `from` on is the checkpoint that is looked at. */
typedef struct manifest {
    cj_json json;
    size_t from;
} manifest;

static bool refused(const manifest *m, const char *role, const char *key, const char *expected)
{
    size_t from = role ? (size_t)(cj__json_place(&m->json, m->from, role) - m->json.at) : m->from;
    return cj__place_error(m->json.ctx, m->json.op, m->json.path, cj__json_place(&m->json, from, key),
                           "%s was expected in the manifest's %s%s%s, something else was found", expected, role ? role : "",
                           role ? "." : "", key);
}

static bool whole(const manifest *m, const cJSON *o, const char *role, const char *key, double most, int64_t *out)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble <= most)) return refused(m, role, key, "a whole number");
    *out = (int64_t)v->valuedouble;
    return true;
}

/* A file name of a checkpoint and nothing else: no folder, no surprise. */
static bool plain_name(const char *s)
{
    return s[0] && s[0] != '.' && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(s) &&
           strlen(s) < sizeof((cj_run_file *)0)->name;
}

static bool read_file(const manifest *m, const cJSON *g, const char *role, bool optional, cj_run_file *f)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(g, role);
    *f = (cj_run_file){ 0 };
    if (!o) return optional || refused(m, NULL, role, "a file");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(o, "name");
    int64_t crc;
    if (!cJSON_IsString(name) || !plain_name(name->valuestring)) return refused(m, role, "name", "a file name");
    if (!whole(m, o, role, "bytes", 0x1p53, &f->bytes) || !whole(m, o, role, "crc32", UINT32_MAX, &crc)) return false;
    snprintf(f->name, sizeof f->name, "%s", name->valuestring);
    f->crc = (uint32_t)crc;
    return true;
}

static bool read_generation(const manifest *m, const cJSON *o, cj_generation *g)
{
    return whole(m, o, NULL, "number", 0x1p53, &g->number) && whole(m, o, NULL, "step", 0x1p53, &g->step) &&
           whole(m, o, NULL, "metrics_bytes", 0x1p53, &g->metrics_bytes) && read_file(m, o, "model", false, &g->model) &&
           read_file(m, o, "state", false, &g->state) && read_file(m, o, "best", true, &g->best);
}

/* Adds the generations of one manifest file; false after an error. */
static bool read_one(cj_ctx *c, const char *folder, const char *name, cj_generation *out, int *n)
{
    char path[CJ_MAX_RUN_PATH], text[1 << 14];
    struct stat st;
    if (!cj__run_path(c, folder, name, path)) return false;
    if (stat(path, &st) < 0) return true;
    manifest m = { .json = { .ctx = c, .op = "checkpoint", .path = path } };
    if (!cj__json_read(&m.json, text, sizeof text)) return false;
    cJSON *o = cj__json_object(&m.json, "a manifest, a JSON object,");
    if (!o) return false;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "checkpoints"), *g;
    int count = 0;
    cj_generation found[2];
    bool ok = cJSON_IsArray(list) || refused(&m, NULL, "checkpoints", "a list");
    cJSON_ArrayForEach(g, list)
    {
        m.from = (size_t)cj__json_place(&m.json, count ? m.from + 1 : 0, "number");
        ok = ok && (count < 2 || refused(&m, NULL, "checkpoints", "a list of two")) && read_generation(&m, g, &found[count++]);
    }
    cJSON_Delete(o);
    for (int i = 0; i < count && ok; i++) out[(*n)++] = found[i];
    return ok;
}

int cj__manifest_read(cj_ctx *c, const char *folder, cj_generation out[CJ_GENERATIONS])
{
    int n = 0;
    if (!cj__cancel_check(c)) return -1;
    bool ok = read_one(c, folder, newest, out, &n);
    if (ok && n) { /* the old manifest matters only when the new one cannot be read, or names damaged files */
        if (!read_one(c, folder, older, out, &n) && c->error == CJ_EFILE) cj_clear(c);
        return c->error ? -1 : n;
    }
    if (!ok && c->error != CJ_EFILE) return -1;
    char message[CJ_MAX_MESSAGE] = "";
    if (!ok) cj__error_take(c, message); /* without an error there may be a wish to cancel, which stays */
    bool second = read_one(c, folder, older, out, &n);
    if (second && (n || ok)) {
        if (!ok) cj__log(c, CJ_LOG_WARNING, "%s; the manifest before it is used", message);
        return n;
    }
    if (second) cj__error(c, CJ_EFILE, "%s", message);
    return -1;
}

static void print_file(cj_writer *w, const char *role, const cj_run_file *f)
{
    if (f->name[0])
        cj__writer_print(w, ",\n   \"%s\": {\"name\": \"%s\", \"bytes\": %lld, \"crc32\": %lu}", role, f->name, (long long)f->bytes,
                         (unsigned long)f->crc);
}

bool cj__manifest_write(cj_ctx *c, const char *folder, const cj_generation *g, int n)
{
    char path[CJ_MAX_RUN_PATH], old[CJ_MAX_RUN_PATH], temporary[CJ_MAX_RUN_PATH];
    if (!cj__run_path(c, folder, newest, path) || !cj__run_path(c, folder, older, old) ||
        !cj__run_path(c, folder, "MANIFEST.old.json.tmp", temporary))
        return false;
    unlink(temporary);
    if (link(path, temporary) == 0) rename(temporary, old); /* where there are no hard links, the manifest stands alone */
    cj_writer w;
    bool ok = cj__writer_open(&w, c, "checkpoint", path);
    if (ok) {
        cj__writer_print(&w, "{\"cajal\": \"%s\", \"checkpoints\": [", CJ_VERSION);
        for (int i = 0; i < n; i++) {
            cj__writer_print(&w, "%s\n  {\"number\": %lld, \"step\": %lld, \"metrics_bytes\": %lld", i ? "," : "", (long long)g[i].number,
                             (long long)g[i].step, (long long)g[i].metrics_bytes);
            print_file(&w, "model", &g[i].model);
            print_file(&w, "state", &g[i].state);
            print_file(&w, "best", &g[i].best);
            cj__writer_print(&w, "}");
        }
        ok = cj__writer_print(&w, "\n]}\n") && c->error == CJ_OK;
    }
    return cj__writer_close(&w, ok);
}
#else
int cj__manifest_read(cj_ctx *c, const char *folder, cj_generation out[CJ_GENERATIONS])
{
    (void)folder, (void)out;
    cj__error(c, CJ_EFILE, "run folders need cJSON, which this build has not (Debian: libcjson-dev)");
    return -1;
}
bool cj__manifest_write(cj_ctx *c, const char *folder, const cj_generation *g, int n)
{
    return (void)c, (void)folder, (void)g, (void)n, false;
}
#endif

/* ---- what is left over ---------------------------------------------------------------------------------------------------------------------- */

static bool named(const char *name, const cj_generation *g, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, g[i].model.name) == 0 || strcmp(name, g[i].state.name) == 0 || strcmp(name, g[i].best.name) == 0) return true;
    return false;
}

void cj__run_sweep(const char *folder, const cj_generation *g, int n)
{
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        int number, end = 0;
        for (int role = 0; role < 3 && !end; role++)
            sscanf(e->d_name,
                   role == 0   ? "model-%d.safetensors%n"
                   : role == 1 ? "state-%d.safetensors%n"
                               : "best-%d.safetensors%n",
                   &number, &end);
        bool ours = end && (!e->d_name[end] || strcmp(e->d_name + end, ".tmp") == 0);
        if (ours && !named(e->d_name, g, n)) unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

void cj_run_clear(const char *folder)
{
    static const char *const name[] = { "MANIFEST.json", "MANIFEST.old.json", "MANIFEST.json.tmp", "metrics.jsonl",
                                        "config.json",   "config.json.tmp",   "curve.png",         "curve.tsv" };
    char path[CJ_MAX_RUN_PATH];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, name[i]) < (int)sizeof path) unlink(path);
    cj__run_sweep(folder, NULL, 0);
}
