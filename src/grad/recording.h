/* A function's operator calls as a graph of values, for those who write it down elsewhere (ONNX).
 *
 * Unlike a trace (plan.h), which is made to be run again, a recording keeps what a reader of the graph wants: views are calls like any other, composites stay whole where
 * the reader knows them, and what depends on neither the input nor a named tensor is a value and no call.  All tensors are held until the recording is freed.
 */
#ifndef CJ_GRAD_RECORDING_H
#define CJ_GRAD_RECORDING_H

#include "grad/plan.h"

typedef enum cj_value_kind {
    CJ_VALUE_CONSTANT, /* the tensor is all there is to know */
    CJ_VALUE_INPUT,
    CJ_VALUE_NAMED, /* one of the named tensors */
    CJ_VALUE_RESULT /* of a call */
} cj_value_kind;

typedef struct cj_value {
    cj_tensor *tensor; /* held, with its data */
    cj_value_kind kind;
    int index; /* which of the named tensors; the call that makes it (the last one, where a composite follows its parts) */
} cj_value;

typedef struct cj_recorded {
    const cj_op *op;
    const void *attrs;
    const int *in, *out; /* values */
    int nin, nout;
    const char *path; /* of the module, or "" */
} cj_recorded;

typedef struct cj_recording {
    cj_ctx *ctx;
    cj_region region;
    cj_recorded *call;
    int calls, calls_room;
    cj_value *value;
    int values, values_room;
    int output;              /* the function's result */
    cj_tensor *const *named; /* the caller's */
    int named_n;
    bool (*whole)(const cj_op *op, const void *attrs);
} cj_recording;

/* Runs fn(user, x) with gradients off and records it; whole says which composites are taken as one call.  False after an error; to be freed either way. */
bool cj__record(cj_recording *r, cj_ctx *c, cj_tensor *(*fn)(void *user, cj_tensor *x), void *user, cj_tensor *x, cj_tensor *const *named,
                int n, bool (*whole)(const cj_op *op, const void *attrs));
void cj__recording_free(cj_recording *r);

#endif
