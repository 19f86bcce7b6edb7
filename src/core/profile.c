/* The profiler: a recorder that times every operator from the moment its kernel starts to the moment the door reports it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/core.h"

typedef struct cj_event {
    const cj_op *op;
    double start, seconds, bytes, flops;
} cj_event;

struct cj_profiler {
    cj_event *event;
    int64_t n, cap;
    double started, kernel; /* kernel: start of the running one */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double bytes_of(const cj_call *call)
{
    double bytes = 0;
    for (int i = 0; i < call->nin; i++) bytes += (double)call->in[i]->numel * (double)cj_dtype_size((cj_dtype)call->in[i]->dtype);
    for (int j = 0; j < call->nout; j++) bytes += (double)call->out[j]->numel * (double)cj_dtype_size((cj_dtype)call->out[j]->dtype);
    return bytes;
}

static bool make_room(cj_ctx *c, cj_profiler *p)
{
    if (p->n < p->cap) return true;
    int64_t cap = p->cap ? 2 * p->cap : 1024;
    cj_event *e = cj__alloc(c, (size_t)cap * sizeof *e);
    if (!e) return false;
    if (p->n) memcpy(e, p->event, (size_t)p->n * sizeof *e);
    cj__free(c, p->event, (size_t)p->cap * sizeof *e);
    p->event = e;
    p->cap = cap;
    return true;
}

/* call NULL: a kernel is about to run. */
static bool record(cj_ctx *c, cj_call *call)
{
    cj_profiler *p = c->profiler;
    if (!call) { /* room first: after a write has run nothing may fail any more */
        if (!make_room(c, p)) return false;
        p->kernel = now();
        return true;
    }
    if (call->op->flags & CJ_OP_VIEW) return true;
    if (call->op->define && !call->op->run) return true; /* a composite: its parts are here */
    if (c->backend) c->backend->sync(c->device_state);
    double end = now();
    p->event[p->n++] =
        (cj_event){ call->op, p->kernel - p->started, end - p->kernel, bytes_of(call), call->op->flops ? call->op->flops(call) : 0 };
    return true;
}

bool cj_profile_start(cj_ctx *c)
{
    if (!c || c->error) return false;
    if (!c->profiler && !(c->profiler = cj__zalloc(c, sizeof *c->profiler))) return false;
    c->profiler->n = 0;
    c->profiler->started = now();
    c->recorder[CJ_REC_PROFILE].record = record;
    c->active |= 1u << CJ_REC_PROFILE;
    return true;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const cj_profile_row *)a)->seconds, y = ((const cj_profile_row *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

int cj_profile_stop(cj_ctx *c, cj_profile_row *rows, int n)
{
    if (!c || !c->profiler) return 0;
    c->active &= (uint8_t) ~(1u << CJ_REC_PROFILE);
    enum { KINDS = 256 };
    cj_profile_row table[KINDS] = { 0 };
    int used = 0;
    for (int64_t i = 0; i < c->profiler->n; i++) {
        const cj_event *e = &c->profiler->event[i];
        int k = 0;
        while (k < used && table[k].op != e->op->name) k++;
        if (k == KINDS) continue;
        if (k == used) table[used++] = (cj_profile_row){ .op = e->op->name };
        table[k].calls++;
        table[k].seconds += e->seconds;
        table[k].bytes += e->bytes;
        table[k].flops += e->flops;
    }
    qsort(table, (size_t)used, sizeof *table, by_time);
    if (rows && n > 0) memcpy(rows, table, (size_t)(n < used ? n : used) * sizeof *rows);
    return used;
}

bool cj_profile_trace(cj_ctx *c, const char *path)
{
    if (!c || !c->profiler) return false;
    if (!path) return cj__error(c, CJ_EVALUE, "profile: the path is NULL");
    FILE *f = fopen(path, "w");
    if (!f) return cj__error(c, CJ_EFILE, "%s: cannot be written", path);
    fputs("[", f);
    for (int64_t i = 0; i < c->profiler->n; i++) {
        const cj_event *e = &c->profiler->event[i];
        fprintf(f,
                "%s\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%.0f,"
                "\"flops\":%.0f}}",
                i ? "," : "", e->op->name, e->op->family, 1e6 * e->start, 1e6 * e->seconds, e->bytes, e->flops);
    }
    fputs("\n]\n", f);
    bool ok = !ferror(f);
    if (fclose(f) || !ok) return cj__error(c, CJ_EFILE, "%s: could not be written to the end", path);
    return true;
}

void cj__profiler_free(cj_ctx *c)
{
    if (!c->profiler) return;
    cj__free(c, c->profiler->event, (size_t)c->profiler->cap * sizeof *c->profiler->event);
    cj__free(c, c->profiler, sizeof *c->profiler);
    c->profiler = NULL;
}
