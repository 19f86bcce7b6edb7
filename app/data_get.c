/* cajal data get NAME: fetches the files of a data set with the curl program (or wget), goes on where an earlier attempt stopped, checks the SHA-256 of every
 * file and only then gives it its name.  $CAJAL_DATA_URL names another place to fetch them from: URL/FOLDER/FILE.
 */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/data.h"
#include "app/data_files.h"
#include "data/dataset.h"
#include "data/sha256.h"

/* Runs a program; its exit status, 127 where there is none of that name. */
static int run(const char *const *argv)
{
    pid_t child;
    int status;
    char *words[16] = { NULL };
    for (int i = 0; i < 15 && argv[i]; i++) words[i] = (char *)argv[i]; /* they are only read */
    if (posix_spawnp(&child, argv[0], NULL, NULL, words, environ) != 0) return 127;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

/* What curl's exit status means, in words. */
static const char *reason(int status)
{
    switch (status) {
    case 6: return "the server's name is unknown; is there a network?";
    case 7: return "the server cannot be reached; is there a network?";
    case 18:
    case 56: return "the connection broke";
    case 22: return "the server has no such file";
    case 23: return "it cannot be written here";
    case 28: return "the server did not answer in time; is there a network?";
    case 35:
    case 60: return "the connection is not safe";
    default: return "is there a network?";
    }
}

static int fetch(const char *url, const char *path)
{
    const char *const curl[] = { "curl", "-fL", isatty(2) ? "-#" : "-s", "--retry", "2", "--connect-timeout", "20", "-C", "-", "-o", path,
                                 url,    NULL };
    const char *const wget[] = { "wget", "-q", "-c", "-T", "20", "-t", "2", "-O", path, url, NULL };
    int status = run(curl);
    if (status == 127) status = run(wget);
    if (status == 127) return app_error("neither curl nor wget was found (Debian: curl)");
    if (status == 33 || status == 36) { /* the server cannot go on in the middle: from the start */
        unlink(path);
        status = run(curl);
    }
    if (!status) return APP_OK;
    struct stat s;
    bool part = stat(path, &s) == 0 && s.st_size > 0;
    if (!part) unlink(path);
    app_error("%s could not be fetched (status %d): %s%s", url, status, reason(status),
              part ? "; what came so far is kept, and the next call goes on there" : "");
    return APP_FAILED;
}

/* The SHA-256 of a file; false when it cannot be read. */
static bool sum_of(const char *path, char hex[65])
{
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    static unsigned char piece[65536];
    cj_sha256 s;
    size_t n;
    cj__sha256_open(&s);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) cj__sha256_put(&s, piece, n);
    bool ok = !ferror(f);
    fclose(f);
    cj__sha256_close(&s, hex);
    return ok;
}

/* Makes the folders above the file. */
static int make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        int failed = mkdir(path, 0777) && errno != EEXIST;
        if (failed) app_error("%s: %s", path, strerror(errno));
        *p = '/';
        if (failed) return APP_FAILED;
    }
    return APP_OK;
}

static int get_file(const data_file *f, const char *root)
{
    char path[PATH_MAX], part[PATH_MAX + 8], url[PATH_MAX], hex[65];
    const char *from = getenv("CAJAL_DATA_URL");
    if (snprintf(path, sizeof path, "%s/%s/%s", root, f->folder, f->file) >= (int)sizeof path)
        return app_error("a path of more than %d bytes", PATH_MAX);
    snprintf(part, sizeof part, "%s.part", path);
    if (access(path, F_OK) == 0 && sum_of(path, hex) && (!*f->sha256 || strcmp(hex, f->sha256) == 0)) {
        printf("%s/%s is there\n", f->folder, f->file);
        return APP_OK;
    }
    int status = make_folders(path);
    if (from && *from) snprintf(url, sizeof url, "%s/%s/%s", from, f->folder, f->file);
    else snprintf(url, sizeof url, "%s", f->url);
    if (status == APP_OK) status = fetch(url, part);
    if (status != APP_OK) return status;
    if (!sum_of(part, hex)) return app_error("%s: %s", part, strerror(errno));
    if (*f->sha256 && strcmp(hex, f->sha256) != 0) {
        unlink(part);
        app_error("%s: SHA-256 %s was expected, %s was found; the file was removed", url, f->sha256, hex);
        return APP_FAILED;
    }
    if (rename(part, path)) return app_error("%s: %s", path, strerror(errno));
    printf("%s/%s %s\n", f->folder, f->file, *f->sha256 ? "fetched, check sum good" : "fetched");
    return APP_OK;
}

/* The batches out of CIFAR's archive. */
static int unpack(const char *root, const data_file *f)
{
    char archive[2 * PATH_MAX], folder[2 * PATH_MAX];
    snprintf(archive, sizeof archive, "%s/%s/%s", root, f->folder, f->file);
    snprintf(folder, sizeof folder, "%s/%s", root, f->folder);
    const char *const tar[] = { "tar", "-xzf", archive, "-C", folder, "--strip-components=1", NULL };
    return run(tar) ? app_error("%s could not be unpacked", archive) : APP_OK;
}

int data_get(const char *name)
{
    const char *folder = cj__dataset_folder(name), *data = getenv("CAJAL_DATA"), *home = getenv("HOME");
    char root[PATH_MAX];
    int found = 0;
    if (!folder) folder = name; /* gpt2-tokenizer is no data set */
    if (data && *data) snprintf(root, sizeof root, "%s", data);
    else if (home && *home) snprintf(root, sizeof root, "%s/.cache/cajal", home);
    else return app_error("neither $CAJAL_DATA nor $HOME is set: where should it go?");
    for (size_t i = 0; i < sizeof data_files / sizeof data_files[0]; i++) {
        const data_file *f = &data_files[i];
        if (strcmp(f->folder, folder) != 0) continue;
        found++;
        int status = get_file(f, root);
        if (status == APP_OK && strcmp(folder, "cifar10") == 0) status = unpack(root, f);
        if (status != APP_OK) return status;
    }
    if (found) return APP_OK;
    int n = 0;
    const cj_dataset_info *all = cj_dataset_list(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) {
            printf("%s is part of the program\n", name);
            return APP_OK;
        }
    return data_unknown(name);
}
