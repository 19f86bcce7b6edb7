/* The elements of a tensor on the host: a tensor of the host as it is, one of the device through a copy that cj__host_close frees. */
#ifndef CJ_CORE_HOST_H
#define CJ_CORE_HOST_H

#include "core/core.h"

typedef struct cj_host {
    cj_tensor view; /* shape, strides and dtype of the tensor; data on the host.  Only for looking: it belongs to no scope. */
    void *copy;
    size_t bytes;
} cj_host;

/* False after an error: t unusable, inside a captured step, no memory. */
bool cj__host_open(cj_host *h, cj_tensor *t, const char *op);
void cj__host_close(cj_host *h);

/* Hands the bytes of t in row-major order to sink, piece by piece; stops when sink returns false.  False after an error, or when stopped. */
bool cj__host_bytes(cj_tensor *t, const char *op, bool (*sink)(void *user, const void *bytes, size_t n), void *user);

#endif
