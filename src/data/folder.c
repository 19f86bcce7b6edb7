/* A folder per class: names sorted, images read one after the other, brought to one size. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "data/bytes.h"

#define MAX_NAMES 4000000

/* Names in a folder that `wanted` accepts, in ascending order of bytes; they go with the record. */
static bool names_in(cj_image_folder *f, const char *path, bool (*wanted)(const char *folder, const char *name), const char ***out,
                     int64_t *count)
{
    cj_ctx *c = cj__record_ctx(f);
    struct dirent **found = NULL;
    int n = scandir(path, &found, NULL, NULL);
    if (n < 0) return cj__file_error(c, "cj_image_folder_load", path, "%s", strerror(errno));
    const char **names = cj__record_alloc(f, (size_t)n * sizeof *names);
    bool ok = names != NULL;
    *count = 0;
    for (int i = 0; i < n; i++) {
        if (ok && found[i]->d_name[0] != '.' && wanted(path, found[i]->d_name)) {
            names[*count] = cj__record_text(f, found[i]->d_name, strlen(found[i]->d_name));
            ok = names[(*count)++] != NULL;
        }
        free(found[i]);
    }
    free(found);
    *out = names;
    return ok;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool is_folder(const char *folder, const char *name)
{
    char path[4096];
    struct stat s;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_image(const char *folder, const char *name)
{
    static const char *const ends[] = { ".png", ".PNG", ".jpg", ".JPG", ".jpeg", ".JPEG" };
    size_t n = strlen(name);
    (void)folder;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0) return true;
    return false;
}

typedef struct collection {
    unsigned char *pixels;
    int64_t *y;
    size_t room;
    int64_t height, width;
    int channels;
} collection;

static bool add_image(cj_image_folder *f, collection *k, const char *path, int64_t total, bool fixed)
{
    cj_ctx *c = cj__record_ctx(f);
    cj_bytes b;
    cj_pixels p = { 0 };
    bool ok = cj__bytes_load(&b, c, "cj_image_folder_load", path) && cj__image_read(&b, &p);
    cj__bytes_free(&b);
    if (ok && !k->height) k->height = p.height, k->width = p.width;
    if (ok && !fixed && (p.height != k->height || p.width != k->width))
        ok =
            cj__place_error(c, "cj_image_folder_load", path, 0,
                            "%lld x %lld pixels were expected, as in the first image, %lld x %lld were found; ask for a height and a width",
                            (long long)k->height, (long long)k->width, (long long)p.height, (long long)p.width);
    size_t one = (size_t)k->channels * (size_t)k->height * (size_t)k->width;
    if (ok && !k->pixels) {
        k->room = one * (size_t)total;
        ok = k->room <= CJ_MAX_FILE ||
             cj__place_error(
                 c, "cj_image_folder_load", path, 0,
                 "at most 2 GiB of pixels were expected, %lld images of this size were found; ask for a smaller height and width",
                 (long long)total);
        ok = ok && (k->pixels = cj__alloc(c, k->room)) != NULL;
    }
    if (ok) cj__pixels_fit(&p, k->channels, k->height, k->width, k->pixels + one * (size_t)f->n);
    cj__pixels_free(&p);
    return ok;
}

static bool load(cj_image_folder *f, const char *path, const cj_image_folder_opts *o, collection *k)
{
    cj_ctx *c = cj__record_ctx(f);
    const char **classes, ***files;
    int64_t *counts, total = 0;
    if (!names_in(f, path, is_folder, &classes, &f->classes)) return false;
    qsort(classes, (size_t)f->classes, sizeof *classes, by_name);
    f->class_names = classes;
    files = cj__record_alloc(f, (size_t)f->classes * sizeof *files);
    counts = files ? cj__record_alloc(f, (size_t)f->classes * sizeof *counts) : NULL;
    if (!counts) return false;
    char name[4096];
    for (int64_t i = 0; i < f->classes; i++) {
        snprintf(name, sizeof name, "%s/%s", path, classes[i]);
        if (!names_in(f, name, is_image, &files[i], &counts[i])) return false;
        qsort(files[i], (size_t)counts[i], sizeof *files[i], by_name);
        total += counts[i];
    }
    if (!total)
        return cj__file_error(c, "cj_image_folder_load", path,
                              "folders with PNG or JPEG files were expected, one per class, none were found");
    if (total > MAX_NAMES)
        return cj__file_error(c, "cj_image_folder_load", path, "at most %d images were expected, %lld were found", MAX_NAMES,
                              (long long)total);
    const char **all = cj__record_alloc(f, (size_t)total * sizeof *all);
    k->y = all ? cj__record_alloc(f, (size_t)total * sizeof *k->y) : NULL;
    if (!k->y) return false;
    f->files = all;
    for (int64_t i = 0; i < f->classes; i++)
        for (int64_t j = 0; j < counts[i]; j++, f->n++) {
            int used = snprintf(name, sizeof name, "%s/%s/%s", path, classes[i], files[i][j]);
            if (used >= (int)sizeof name)
                return cj__file_error(c, "cj_image_folder_load", path, "a path of more than %zu bytes", sizeof name);
            if (!add_image(f, k, name, total, o->height > 0)) return false;
            const char *tail = name + strlen(path) + 1;
            all[f->n] = cj__record_text(f, tail, strlen(tail));
            if (!all[f->n]) return false;
            k->y[f->n] = i;
        }
    return true;
}

cj_image_folder *cj_image_folder_load(cj_ctx *c, const char *path, const cj_image_folder_opts *opts)
{
    static const cj_image_folder_opts defaults;
    const cj_image_folder_opts *o = opts ? opts : &defaults;
    if (!c || !cj__cancel_check(c)) return NULL;
    if (!path || !*path) return cj__error(c, CJ_EVALUE, "cj_image_folder_load: the path is %s", path ? "empty" : "NULL"), NULL;
    if (o->height < 0 || o->width < 0 || !o->height != !o->width || o->height > 65536 || o->width > 65536 ||
        (o->channels != 0 && o->channels != 1 && o->channels != 3))
        return cj__error(c, CJ_EVALUE,
                         "cj_image_folder_load: a height and a width and 1 or 3 channels were expected, %lld x %lld and %d were given",
                         (long long)o->height, (long long)o->width, o->channels),
               NULL;
    cj_image_folder *f = cj__record_new(c, sizeof *f);
    if (!f) return NULL;
    collection k = { .height = o->height, .width = o->width, .channels = o->channels ? o->channels : 3 };
    bool ok = load(f, path, o, &k);
    ok = ok && cj__record_tensor(f, f->x = cj_from_data(c, k.pixels, CJ_U8, CJ_SHAPE(f->n, k.channels, k.height, k.width)));
    ok = ok && cj__record_tensor(f, f->y = cj_from_i64(c, k.y, CJ_SHAPE(f->n)));
    if (k.pixels) cj__free(c, k.pixels, k.room);
    if (ok) return f;
    cj__record_free(f);
    return NULL;
}

void cj_image_folder_free(cj_image_folder *f) { cj__record_free(f); }
