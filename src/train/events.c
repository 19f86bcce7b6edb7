/* Event files for TensorBoard: scalars as records of its format.
 *
 *     record = length (8 bytes), crc(length), data, crc(data)          crc: CRC-32C, rotated by 15 and offset, as TFRecord has it
 *     data   = Event { 1: seconds, 2: step, 3: "brain.Event:2" | 5: Summary { 1: Value { 1: tag, 2: float } } | 7: SessionLog { 1: START } }
 *
 * Fields are protocol buffers': a varint of 8·number + type, then the value.  A session that starts at a step makes TensorBoard forget what older files say of
 * later steps, so a run that was killed and resumed has one curve.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "data/file.h"
#include "train/train.h"

struct cj_events {
    cj_ctx *ctx;
    int fd;
    char path[CJ_MAX_RUN_PATH];
};

/* ---- records ----------------------------------------------------------------------------------------------------------------------------- */

static uint32_t masked_crc(const unsigned char *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0); /* Castagnoli's polynomial, reflected */
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool put_record(cj_events *e, const unsigned char *data, size_t n)
{
    unsigned char record[640], *at = cj__set64(record, n);
    if (n + 16 > sizeof record) return cj__error(e->ctx, CJ_EVALUE, "events: a record of %zu bytes", n);
    at = cj__set32(at, masked_crc(record, 8));
    memcpy(at, data, n);
    at = cj__set32(at + n, masked_crc(data, n));
    ssize_t size = at - record, done = write(e->fd, record, (size_t)size);
    if (done != size) return cj__error(e->ctx, CJ_EFILE, "%s: %s", e->path, strerror(done < 0 ? errno : ENOSPC));
    return true;
}

/* ---- protocol buffers ------------------------------------------------------------------------------------------------------------------------- */

static unsigned char *put_varint(unsigned char *p, uint64_t v)
{
    for (; v > 127; v >>= 7) *p++ = (unsigned char)(v | 128);
    *p++ = (unsigned char)v;
    return p;
}

static unsigned char *put_bytes(unsigned char *p, int field, const void *bytes, size_t n)
{
    p = put_varint(put_varint(p, (uint64_t)field << 3 | 2), n);
    memcpy(p, bytes, n);
    return p + n;
}

/* The time and the step that every event begins with. */
static unsigned char *put_head(unsigned char *p, int64_t step)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    p = cj__set64(put_varint(p, 1 << 3 | 1), bits);
    return put_varint(put_varint(p, 2 << 3), (uint64_t)step);
}

/* ---- files -------------------------------------------------------------------------------------------------------------------------------------- */

cj_events *cj_events_open(cj_ctx *c, const char *folder, int64_t step)
{
    if (!c || !cj__cancel_check(c) || !cj__run_make(c, folder)) return NULL;
    cj_events *e = cj__zalloc(c, sizeof *e);
    if (!e) return NULL;
    e->ctx = c;
    char name[96];
    snprintf(name, sizeof name, "events.out.tfevents.%lld.%ld.cajal", (long long)time(NULL), (long)getpid());
    bool ok = cj__run_path(c, folder, name, e->path);
    e->fd = ok ? open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (ok && e->fd < 0) ok = cj__error(c, CJ_EFILE, "%s: %s", e->path, strerror(errno));
    static const char version[] = "brain.Event:2";
    unsigned char event[128], *at = put_bytes(put_head(event, 0), 3, version, sizeof version - 1);
    ok = ok && put_record(e, event, (size_t)(at - event));
    at = put_bytes(put_head(event, step), 7, "\x08\x01", 2);
    ok = ok && put_record(e, event, (size_t)(at - event));
    if (ok) return e;
    cj_events_close(e);
    return NULL;
}

bool cj_events_scalar(cj_events *e, const char *tag, int64_t step, double value)
{
    if (!e || e->ctx->error) return false;
    size_t n = strlen(tag);
    if (n > 200) return cj__error(e->ctx, CJ_EVALUE, "events: a tag of %zu bytes, 200 are possible", n);
    float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    unsigned char scalar[256], summary[300], event[400], *at = put_bytes(scalar, 1, tag, n);
    at = cj__set32(put_varint(at, 2 << 3 | 5), bits);
    unsigned char *end = put_bytes(summary, 1, scalar, (size_t)(at - scalar));
    at = put_bytes(put_head(event, step), 5, summary, (size_t)(end - summary));
    return put_record(e, event, (size_t)(at - event));
}

void cj_events_close(cj_events *e)
{
    if (!e) return;
    if (e->fd >= 0) close(e->fd);
    cj__free(e->ctx, e, sizeof *e);
}
