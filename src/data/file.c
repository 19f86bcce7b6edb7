/* Files: checked reading, and writing to PATH.tmp that becomes PATH only when every byte has reached the disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/host.h"
#include "data/file.h"

#define PIECE ((size_t)16 << 20) /* between two looks at cj_cancel */

bool(cj__file_error)(cj_ctx *c, const char *op, const char *path, const char *format, ...)
{
    char text[CJ_MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cj__error(c, CJ_EFILE, "%s: %s: %s", op, path, text);
}

/* A file's own bytes in a message must not break the line, nor reach a terminal as commands. */
static void make_printable(char *s)
{
    for (size_t n; *s; s += n) {
        unsigned char u = (unsigned char)*s;
        n = u < 0x80 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
        bool whole = strnlen(s, n) == n && cj__utf8(s, n);
        if (whole && u >= ' ' && u != 127 && u != 0xc2) continue; /* U+0080 … U+009F begin with 0xc2 */
        *s = '?';
        n = 1;
    }
}

bool(cj__place_error)(cj_ctx *c, const char *op, const char *path, int64_t offset, const char *format, ...)
{
    char text[CJ_MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_printable(text);
    return cj__error(c, CJ_EFILE, "%s: %s: at byte %lld: %s", op, path, (long long)offset, text);
}

bool(cj__source_error)(const cj_source *s, int64_t at, const char *format, ...)
{
    char text[CJ_MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!s->packed) return cj__place_error(s->ctx, s->op, s->path, s->begin + at, "%s", text);
    return cj__place_error(s->ctx, s->op, s->path, s->begin, "byte %lld of what is packed there: %s", (long long)at, text);
}

bool cj__bytes_of_shape(cj_dtype dtype, const cj_shape *shape, int64_t *bytes)
{
    *bytes = (int64_t)cj_dtype_size(dtype);
    for (int d = 0; d < shape->ndim; d++) /* sizes of 0 last: a huge one beside them counts too; 1/64 as for the elements of a tensor */
        if (shape->dim[d] && (__builtin_mul_overflow(*bytes, shape->dim[d], bytes) || *bytes > INT64_MAX / 64)) return false;
    for (int d = 0; d < shape->ndim; d++) *bytes *= shape->dim[d] != 0;
    return true;
}

static bool path_given(cj_ctx *c, const char *op, const char *path)
{
    if (path && *path) return true;
    return cj__error(c, CJ_EVALUE, "%s: the path is %s", op, path ? "empty" : "NULL");
}

/* ---- in ---------------------------------------------------------------------------------------------------------------------------------- */

bool cj__reader_open(cj_reader *r, cj_ctx *c, const char *op, const char *path)
{
    *r = (cj_reader){ .ctx = c, .op = op, .path = path, .fd = -1 };
    if (!cj__cancel_check(c) || !path_given(c, op, path)) return false;
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "%s: a file is read inside a captured step; read it before and keep it", op);
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (r->fd < 0) return cj__file_error(c, op, path, "%s", strerror(errno));
    struct stat s;
    bool ok = fstat(r->fd, &s) == 0;
    if (!ok) cj__file_error(c, op, path, "%s", strerror(errno));
    else if (!S_ISREG(s.st_mode))
        ok = cj__file_error(c, op, path, "%s", S_ISDIR(s.st_mode) ? "a folder, not a file" : "not a regular file");
    if (!ok) {
        cj__reader_close(r);
        return false;
    }
    r->size = s.st_size;
    return true;
}

bool cj__reader_at(cj_reader *r, int64_t offset, void *out, size_t n)
{
    char *to = out;
    while (n) {
        if (!cj__cancel_check(r->ctx)) return false;
        ssize_t got = pread(r->fd, to, n < PIECE ? n : PIECE, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cj__file_error(r->ctx, r->op, r->path, "%s", strerror(errno));
        if (got == 0)
            return cj__place_error(r->ctx, r->op, r->path, offset, "%zu bytes more were expected, the end of the file was found", n);
        to += got;
        offset += got;
        n -= (size_t)got;
    }
    return true;
}

void cj__reader_close(cj_reader *r)
{
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
}

static bool read_part(cj_source *s, void *out, size_t n)
{
    if (!cj__reader_at(s->file, s->at, out, n)) return false;
    s->at += (int64_t)n;
    return true;
}

cj_source cj__source_part(cj_reader *r, int64_t offset, int64_t size)
{
    return (cj_source){
        .ctx = r->ctx, .op = r->op, .path = r->path, .left = size, .read = read_part, .file = r, .at = offset, .begin = offset, .size = size
    };
}

bool cj__source_read(cj_source *s, void *out, size_t n)
{
    if ((uint64_t)s->left < n)
        return cj__source_error(s, s->size - s->left, "%zu bytes were expected, %lld were found", n, (long long)s->left);
    s->left -= (int64_t)n;
    return s->read(s, out, n);
}

/* ---- tensors in ---------------------------------------------------------------------------------------------------------------------------- */

/* to[i, j, k] = from[k, j, i] for the reversed shape: Fortran order to C order. */
static void reverse_axes(char *to, const char *from, size_t size, const cj_shape *shape, int64_t n)
{
    int64_t stride[CJ_MAX_DIMS], index[CJ_MAX_DIMS] = { 0 }, offset = 0, s = 1;
    for (int d = 0; d < shape->ndim; d++) {
        stride[d] = s;
        s *= shape->dim[d];
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * size, from + (size_t)offset * size, size);
        for (int d = shape->ndim - 1; d >= 0; d--) {
            offset += stride[d];
            if (++index[d] < shape->dim[d]) break;
            offset -= stride[d] * shape->dim[d];
            index[d] = 0;
        }
    }
}

static bool read_elements(cj_source *s, char *to, cj_dtype dtype, const cj_shape *shape, bool fortran, int64_t n)
{
    size_t size = cj_dtype_size(dtype), bytes = (size_t)n * size;
    if (fortran && shape->ndim > 1) {
        char *from = cj__alloc(s->ctx, bytes);
        bool ok = from && cj__source_read(s, from, bytes);
        if (ok) reverse_axes(to, from, size, shape, n);
        cj__free(s->ctx, from, bytes);
        if (!ok) return false;
    } else if (!cj__source_read(s, to, bytes)) {
        return false;
    }
    if (dtype == CJ_BOOL) /* kernels rely on 0 and 1 */
        for (int64_t i = 0; i < n; i++) to[i] = to[i] != 0;
    return true;
}

/* Fills t, which is new. */
static bool fill(cj_source *s, cj_tensor *t, const cj_shape *shape, bool fortran)
{
    cj_ctx *c = s->ctx;
    if (t->numel == 0) return true;
    if (!t->st->device) return read_elements(s, t->data, (cj_dtype)t->dtype, shape, fortran, t->numel);
    char *host = cj__alloc(c, t->st->bytes);
    bool ok = host && read_elements(s, host, (cj_dtype)t->dtype, shape, fortran, t->numel);
    if (ok) {
        c->memory.host_copies++;
        ok = c->backend->to_device(c->device_state, t->data, host, t->st->bytes);
        if (!ok) cj__backend_error(c, "copy to device");
    }
    cj__free(c, host, t->st->bytes);
    return ok;
}

cj_tensor *cj__source_tensor(cj_source *s, cj_dtype dtype, cj_shape shape, bool fortran, bool persistent)
{
    cj_ctx *c = s->ctx;
    bool device = c->backend != NULL;
    if (persistent) {
        cj_tensor *t = cj__tensor_persistent(c, dtype, shape.ndim, shape.dim, device);
        if (!t || fill(s, t, &shape, fortran)) return t;
        cj_release(t);
        return NULL;
    }
    int depth = cj__frame_open(c); /* a half-read tensor goes at once, not with the caller's scope */
    if (!depth) return NULL;
    cj_tensor *t = cj__tensor_new(c, dtype, shape.ndim, shape.dim, device);
    if (t && !fill(s, t, &shape, fortran)) t = NULL;
    cj__frame_close(c, depth, &t, t ? 1 : 0);
    return t;
}

/* ---- out ----------------------------------------------------------------------------------------------------------------------------------- */

bool cj__writer_open(cj_writer *w, cj_ctx *c, const char *op, const char *path)
{
    w->ctx = c;
    w->op = op;
    w->path = path;
    w->fd = -1;
    w->temporary = NULL;
    w->at = 0;
    w->filled = 0;
    if (!cj__cancel_check(c) || !path_given(c, op, path)) return false;
    if (c->trace) return cj__error(c, CJ_ECAPTURE, "%s: a file is written inside a captured step", op);
    struct stat s;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) /* renaming over a device would remove it */
        return cj__file_error(c, op, path, "%s", S_ISDIR(s.st_mode) ? "a folder, not a file" : "not a regular file");
    size_t n = strlen(path);
    w->temporary = cj__alloc(c, n + sizeof ".tmp");
    if (!w->temporary) return false;
    memcpy(w->temporary, path, n);
    memcpy(w->temporary + n, ".tmp", sizeof ".tmp");
    for (int attempt = 0; attempt < 2 && w->fd < 0; attempt++) {
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST || attempt) break;
        unlink(w->temporary); /* left by a killed process */
    }
    if (w->fd >= 0) return true;
    cj__file_error(c, op, w->temporary, "%s", strerror(errno));
    cj__strfree(c, w->temporary);
    w->temporary = NULL;
    return false;
}

static bool write_all(cj_writer *w, const char *bytes, size_t n)
{
    while (n) {
        if (!cj__cancel_check(w->ctx)) return false;
        ssize_t done = write(w->fd, bytes, n < PIECE ? n : PIECE);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return cj__file_error(w->ctx, w->op, w->path, "%s", strerror(errno));
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

static bool flush(cj_writer *w)
{
    size_t n = w->filled;
    w->filled = 0;
    return write_all(w, w->buffer, n);
}

bool cj__writer_put(cj_writer *w, const void *bytes, size_t n)
{
    w->at += (int64_t)n;
    if (w->filled + n > sizeof w->buffer && !flush(w)) return false;
    if (n > sizeof w->buffer) return write_all(w, bytes, n);
    if (n) memcpy(w->buffer + w->filled, bytes, n);
    w->filled += n;
    return true;
}

bool cj__writer_print(cj_writer *w, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) return cj__file_error(w->ctx, w->op, w->path, "%s", strerror(errno));
    return cj__writer_put(w, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

bool cj__writer_patch(cj_writer *w, int64_t offset, const void *bytes, size_t n)
{
    if (!flush(w)) return false;
    const char *from = bytes;
    while (n) {
        ssize_t done = pwrite(w->fd, from, n, offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return cj__file_error(w->ctx, w->op, w->path, "%s", strerror(errno));
        from += done;
        offset += done;
        n -= (size_t)done;
    }
    return true;
}

/* The rename itself lasts only once the folder has reached the disk.  Some file systems cannot do that for folders; then the rename is as good as it gets. */
static void sync_folder(cj_writer *w)
{
    char *slash = strrchr(w->temporary, '/');
    const char *folder = ".";
    if (slash) {
        slash[slash == w->temporary] = 0;
        folder = w->temporary;
    }
    int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

bool cj__writer_close(cj_writer *w, bool ok)
{
    if (w->fd < 0) return false;
    cj_ctx *c = w->ctx;
    size_t length = strlen(w->temporary) + 1;
    ok = ok && flush(w);
    if (ok && fsync(w->fd) < 0) ok = cj__file_error(c, w->op, w->path, "%s", strerror(errno));
    if (close(w->fd) < 0 && ok) ok = cj__file_error(c, w->op, w->path, "%s", strerror(errno));
    w->fd = -1;
    if (ok && rename(w->temporary, w->path) < 0) ok = cj__file_error(c, w->op, w->path, "%s", strerror(errno));
    if (ok) sync_folder(w);
    else unlink(w->temporary);
    cj__free(c, w->temporary, length);
    w->temporary = NULL;
    return ok;
}

static bool put_piece(void *user, const void *bytes, size_t n) { return cj__writer_put(user, bytes, n); }

bool cj__writer_tensor(cj_writer *w, cj_tensor *t) { return cj__host_bytes(t, w->op, put_piece, w); }
