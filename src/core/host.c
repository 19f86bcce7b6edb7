/* Tensors seen from the host: for printing and for files.  Strided tensors are gathered into row-major pieces, so that nothing is copied whole. */
#include "core/host.h"

/* The view becomes one of a copy of the storage. */
static bool copy_from_device(cj_host *h, const cj_storage *st)
{
    cj_ctx *c = h->view.ctx;
    h->bytes = st->bytes ? st->bytes : 1;
    h->copy = cj__alloc(c, h->bytes);
    if (!h->copy) return false;
    c->memory.host_copies++;
    if (st->bytes && !c->backend->to_host(c->device_state, h->copy, st->data, st->bytes)) {
        cj__backend_error(c, "copy to host");
        cj__host_close(h);
        return false;
    }
    h->view.data = (char *)h->copy + (h->view.data - (char *)st->data);
    return true;
}

bool cj__host_open(cj_host *h, cj_tensor *t, const char *op)
{
    h->copy = NULL;
    if (!t) return false;
    cj_ctx *c = t->ctx;
    if (!cj__cancel_check(c) || !cj__usable(c, op, 0, t)) return false;
    if (c->trace) {
        cj__error(c, CJ_ECAPTURE, "%s: reads a value inside a captured step; return it as an output instead", op);
        return false;
    }
    h->view = *t;
    return !t->st->device || copy_from_device(h, t->st);
}

void cj__host_close(cj_host *h)
{
    if (h->copy) cj__free(h->view.ctx, h->copy, h->bytes);
    h->copy = NULL;
}

#define PIECE 65536

static void copy_element(char *to, const char *from, size_t size)
{
    switch (size) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    default: memcpy(to, from, 8); return;
    }
}

static bool gather(const cj_tensor *t, char *piece, bool (*sink)(void *user, const void *bytes, size_t n), void *user)
{
    size_t size = cj_dtype_size((cj_dtype)t->dtype), filled = 0;
    int64_t index[CJ_MAX_DIMS] = { 0 }, offset = 0;
    for (int64_t i = 0; i < t->numel; i++) {
        copy_element(piece + filled, t->data + offset * (int64_t)size, size);
        filled += size;
        if (filled == PIECE || i + 1 == t->numel) {
            if (!sink(user, piece, filled)) return false;
            filled = 0;
        }
        for (int d = t->ndim - 1; d >= 0; d--) {
            offset += t->stride[d];
            if (++index[d] < t->shape[d]) break;
            offset -= t->stride[d] * t->shape[d];
            index[d] = 0;
        }
    }
    return true;
}

bool cj__host_bytes(cj_tensor *t, const char *op, bool (*sink)(void *user, const void *bytes, size_t n), void *user)
{
    cj_host h;
    if (!cj__host_open(&h, t, op)) return false;
    cj_ctx *c = t->ctx;
    bool ok = true;
    if (cj__contiguous(&h.view)) {
        size_t bytes = (size_t)t->numel * cj_dtype_size((cj_dtype)t->dtype);
        if (bytes) ok = sink(user, h.view.data, bytes);
    } else {
        char *piece = cj__alloc(c, PIECE);
        ok = piece && gather(&h.view, piece, sink, user);
        cj__free(c, piece, PIECE);
    }
    cj__host_close(&h);
    return ok;
}
