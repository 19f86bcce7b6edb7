/* Shared by the files that write ONNX: the graph under construction, and the small pieces of which an operator's nodes are made.
 *
 *   onnx.proto            the messages of the format
 *   onnx.c                files: what is written around a graph, what is read
 *   onnx_graph.c          names, nodes, attributes, constants, sizes that depend on the batch
 *   onnx_operators.c      what each operator of ours is in ONNX
 *   onnx_shapes.c         the same for views and other operators whose sizes follow the batch
 */
#ifndef CJ_DATA_ONNX_H
#define CJ_DATA_ONNX_H

#include "data/file.h"
#include "grad/recording.h"
#include "ops/ops.h"

#if defined CJ_HAVE_PROTOBUF_C
#include <onnx.pb-c.h>

enum { CJ_ONNX_OPSET = 17, CJ_ONNX_IR = 8 };

/* Two recordings of one function, of two batch sizes: what differs between them depends on the batch.  Without the second the batch is fixed. */
typedef struct cj_onnx {
    cj_ctx *ctx;
    cj_region region; /* everything made here */
    const cj_recording *a, *b;
    int64_t batch_a, batch_b;
    const cj_named *state; /* what is named: initialisers of these names */
    const char *input;
    const char **name; /* of a's values; NULL: not made yet */
    bool *live, *done; /* calls that the result needs; that an earlier one has taken in */
    Cj__Onnx__Node **node;
    int nodes, nodes_room;
    Cj__Onnx__Tensor **tensor; /* constants */
    int tensors, tensors_room;
    const char *batch; /* the name of the batch size, i64 [1], or NULL */
    int serial;
    const cj_recorded *call; /* the one that is being written: its path is part of new names */
    char bound[160];         /* not empty: why the batch has to be fixed */
} cj_onnx;

/* A size: n, or with k > 0 k times the batch. */
typedef struct cj_onnx_size {
    int64_t n, k;
} cj_onnx_size;

/* ---- pieces (onnx_graph.c); NULL or false after an error, or when `bound` was set ---------------------------------------------------------------- */

void *cj__onnx_alloc(cj_onnx *o, size_t bytes);
const char *cj__onnx_text(cj_onnx *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A node with one result; inputs may be NULL (left out) at the end. */
Cj__Onnx__Node *cj__onnx_node(cj_onnx *o, const char *type, int n, const char *const *in);
const char *cj__onnx_output(cj_onnx *o, Cj__Onnx__Node *node, int j); /* its further results */
bool cj__onnx_int(cj_onnx *o, Cj__Onnx__Node *node, const char *name, int64_t value);
bool cj__onnx_ints(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const int64_t *value, int n);
bool cj__onnx_float(cj_onnx *o, Cj__Onnx__Node *node, const char *name, double value);
bool cj__onnx_word(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const char *value);
bool cj__onnx_words(cj_onnx *o, Cj__Onnx__Node *node, const char *name, const char *only); /* a list of one */
/* One node, its result's name. */
const char *cj__onnx_unary(cj_onnx *o, const char *type, const char *x);
const char *cj__onnx_binary(cj_onnx *o, const char *type, const char *x, const char *y);
const char *cj__onnx_cast(cj_onnx *o, const char *x, cj_dtype from, cj_dtype to);
const char *cj__onnx_transpose(cj_onnx *o, const char *x, const int64_t *order, int n); /* of a transpose: one, or none where they cancel */
/* Constants: i64 [n]; a number of a dtype, 0-d; n times a number, f32 [n]; any bytes. */
const char *cj__onnx_const_ints(cj_onnx *o, const int64_t *value, int n);
const char *cj__onnx_const_number(cj_onnx *o, cj_dtype dtype, double value);
const char *cj__onnx_const_fill(cj_onnx *o, double value, int64_t n);
const char *cj__onnx_const_bytes(cj_onnx *o, cj_dtype dtype, int ndim, const int64_t *shape, const void *bytes);
int cj__onnx_dtype(cj_dtype t); /* the format's number of it */

/* The values of the recording: their tensors, names, sizes. */
static inline const cj_tensor *cj__onnx_tensor(const cj_onnx *o, int value) { return o->a->value[value].tensor; }
const char *cj__onnx_name(cj_onnx *o, int value);
bool cj__onnx_size_of(cj_onnx *o, int value, int axis, cj_onnx_size *out);
const char *cj__onnx_shape(cj_onnx *o, const cj_onnx_size *size, int n);                        /* i64 [n] */
bool cj__onnx_bound(cj_onnx *o, const char *format, ...) __attribute__((format(printf, 2, 3))); /* always false */
#define cj__onnx_bound(...) cj__refused((cj__onnx_bound)(__VA_ARGS__))
bool cj__onnx_refuse(cj_onnx *o, const char *why); /* "attention in h.0 has no ONNX form: why"; always false */
#define cj__onnx_refuse(...) cj__refused((cj__onnx_refuse)(__VA_ARGS__))

/* ---- operators ------------------------------------------------------------------------------------------------------------------------------------- */

typedef bool cj_onnx_convert(cj_onnx *o, const cj_recorded *k, const cj_recorded *other, const char *type);
typedef struct cj_onnx_row {
    const char *op;
    cj_onnx_convert *convert;
    const char *type;
    bool sized; /* its attributes may differ between batches: it looks at both */
} cj_onnx_row;
extern const cj_onnx_row cj__onnx_shapes[]; /* end with a NULL name */
extern const cj_onnx_row cj__onnx_operators[];

#define CJ_ONNX_CONVERT(name) static bool name(cj_onnx *o, const cj_recorded *k, const cj_recorded *other, const char *type)

/* Gives a value its name; false where the name could not be made. */
static inline bool cj__onnx_named(cj_onnx *o, int value, const char *name)
{
    o->name[value] = name;
    return name != NULL;
}

/* Is a composite written as one operator, or as its parts? */
bool cj__onnx_whole(const cj_op *op, const void *attrs);
/* The nodes of one call: its results get names. */
bool cj__onnx_convert_call(cj_onnx *o, const cj_recorded *k, const cj_recorded *other);

#endif
#endif
