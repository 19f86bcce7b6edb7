/* The inside of the house: tensors, storages, operators, the door and the recorders.  Everything here is private to the library.
 *
 * A tensor is a header (shape, strides, dtype, place in the graph) over a counted storage.  Headers are counted twice: `refs` holds the header itself,
 * `data_refs` holds its data.  A tape node that needs only the shape of an input keeps the header and lets the data go.
 */
#ifndef CJ_CORE_CORE_H
#define CJ_CORE_CORE_H

#include <stdatomic.h>
#include <string.h>

#include "cajal/core.h"
#include "core/parallel.h"
#include "kernels/cpu/cpu.h"

typedef struct cj_storage cj_storage;
typedef struct cj_packed cj_packed;
typedef struct cj_node cj_node;
typedef struct cj_op cj_op;
typedef struct cj_call cj_call;
typedef struct cj_trace cj_trace;
typedef struct cj_backend cj_backend;
typedef struct cj_profiler cj_profiler;
typedef struct cj_tangent cj_tangent;

/* ---- storage ------------------------------------------------------------------------------------------------------------------- */

struct cj_storage {
    void *data;
    size_t bytes; /* usable */
    size_t block; /* size of the allocator block, or of the device allocation */
    int32_t refs;
    uint32_t version;    /* bumped by every write */
    const cj_op *writer; /* the last write, for error messages */
    uint64_t trace;      /* capture in which it was made or classified */
    int32_t slot;        /* its number in that capture */
    uint8_t persistent : 1;
    uint8_t parameter : 1; /* of a parameter: nothing writes to it without bumping the version */
    uint8_t device;
    uint8_t borrowed;  /* data belongs to somebody else: an input of a plan, a plan's arena */
    uint8_t dry;       /* made by a dry trace: it has a size and an address of its own, but no data */
    cj_packed *packed; /* what kernels have made of it (packed.c) */
};

/* ---- tensor --------------------------------------------------------------------------------------------------------------------- */

enum {
    CJ_T_REQUIRES = 1, /* gradients flow through it */
    CJ_T_LEAF = 2,     /* a parameter, or made by cj_require_grad: gradients end here */
    CJ_T_PERSISTENT = 4,
    CJ_T_CLOSED = 8, /* its scope is closed (seen in debug contexts, or while the tape still holds the header) */
    CJ_T_POISON = 16,
    CJ_T_CONTIGUOUS = 32,
    CJ_T_CUT = 64, /* cj_keep of a value that had a graph: differentiating through it is an error */
};

struct cj_tensor {
    cj_ctx *ctx;
    cj_storage *st; /* NULL: the data was let go (only the tape sees such a header) */
    char *data;
    int64_t numel;
    int32_t refs, data_refs;
    uint8_t dtype, ndim, flags, out_index;
    int32_t depth;       /* of the scope it belongs to */
    cj_node *node;       /* its producer on the tape */
    cj_tensor *next;     /* in the list of its scope, or of persistent tensors */
    cj_tensor *prev;     /* only for persistent tensors */
    cj_tensor *grad;     /* of a leaf: persistent */
    cj_tangent *tangent; /* forward mode: one per level */
    uint64_t mark;       /* the backward pass in which `slot` holds */
    int32_t slot;        /* its place among the wanted gradients */
    const char *closed_file;
    int closed_line;
    int64_t shape[CJ_MAX_DIMS];
    int64_t stride[CJ_MAX_DIMS];
};

static inline bool cj__requires(const cj_tensor *t) { return t->flags & CJ_T_REQUIRES; }
static inline bool cj__contiguous(const cj_tensor *t) { return t->flags & CJ_T_CONTIGUOUS; }

/* ---- operators ------------------------------------------------------------------------------------------------------------------ */

typedef enum cj_kind { CJ_PRIMITIVE, CJ_COMPOSITE, CJ_INTERNAL /* fused backward kernels: no derivative of their own */, CJ_WRITE } cj_kind;

/* One execution of an operator: what infer fills, kernels read and recorders see. */
struct cj_call {
    cj_ctx *ctx;
    const cj_op *op;
    const void *attrs;
    cj_tensor *const *in;
    cj_tensor **out;
    int nin, nout;
};

/* What a vjp sees: inputs, outputs, attributes, output gradients.  It fills gin[i] for the inputs with bit i of need set; NULL means zero. */
typedef struct cj_vjp_args {
    cj_ctx *ctx;
    const void *attrs;
    cj_tensor *const *in, *const *out;
    cj_tensor *const *g; /* gradient of each output; never NULL when nout == 1 */
    cj_tensor **gin;
    const bool *need;
    int nin, nout;
} cj_vjp_args;

/* What a jvp sees: tan[i] is the tangent of input i or NULL (zero).  It fills tout[j]. */
typedef struct cj_jvp_args {
    cj_ctx *ctx;
    const void *attrs;
    cj_tensor *const *in, *const *out;
    cj_tensor *const *tan;
    cj_tensor **tout;
    int nin, nout;
} cj_jvp_args;

typedef enum cj_jvp_rule {
    CJ_JVP_DERIVED,     /* double vjp */
    CJ_JVP_ELEMENTWISE, /* diagonal Jacobian: the vjp with the broadcast tangent as gradient */
    CJ_JVP_LINEAR,      /* the operator itself on the tangents */
    CJ_JVP_OWN,         /* the jvp function */
    CJ_JVP_NONE         /* not differentiable: integer or boolean result */
} cj_jvp_rule;

enum {
    CJ_OP_RANDOM = 1,  /* attrs begin with cj_random_attrs */
    CJ_OP_VIEW = 2,    /* makes a header on the input's storage; nothing runs */
    CJ_OP_HOST = 4,    /* reads values on the host: not capturable */
    CJ_OP_DYNAMIC = 8, /* the result's shape depends on values: not capturable */
    CJ_OP_WRITES = 16, /* writes in[0]; with attributes that begin with cj_write_attrs, the first `writes` inputs */
    CJ_OP_WRITES_MANY = 64,
    CJ_OP_QUICK = 128, /* elementwise, f32 in gives f32 out: small calls take the short way */
    CJ_OP_NOGRAD = 32  /* results never require gradients */
};

struct cj_op {
    const char *name;
    const char *family;
    cj_kind kind;
    uint32_t flags;
    int nin, nout; /* nin -1: any number */
    size_t attr_size;
    int ew;                     /* cj_ew_code + 1 for elementwise operators, else 0 */
    uint32_t save_in, save_out; /* bit i: the vjp reads the data of input (output) i */
    /* Checks the inputs and describes the outputs through cj__out or cj__out_view; false after cj__error. */
    bool (*infer)(cj_call *call);
    bool (*run)(cj_call *call); /* CPU kernel; false after cj__error */
    void (*vjp)(cj_vjp_args *v);
    cj_jvp_rule jvp_rule;
    void (*jvp)(cj_jvp_args *j);
    /* Every composite: its definition in public operators (documentation, derivative of any order, reference). */
    bool (*define)(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out);
    double (*flops)(const cj_call *call);
    /* Writers: can a product that nobody else reads do what the operator does with input `input`, its result?  And: does that.  Data pointers of g are set only
     * in the second; the operator itself runs last, and finds that input without data. */
    bool (*absorbs)(const cj_ctx *c, const void *attrs, int input, const cj_gemm *g);
    bool (*absorb)(cj_call *call, int input, cj_gemm *g);
    /* Attributes that own something (custom operators): hold, let go, compare. NULL: plain bytes. */
    void (*attrs_retain)(const void *attrs);
    void (*attrs_release)(cj_ctx *c, const void *attrs);
    bool (*attrs_equal)(const void *a, const void *b);
};

/* Attributes of random operators start with this; a plan rewrites `call` before every replay. */
typedef struct cj_random_attrs {
    uint64_t seed, stream, call;
} cj_random_attrs;

/* Attributes of operators that write several inputs start with this. */
typedef struct cj_write_attrs {
    int64_t writes;
} cj_write_attrs;
static inline int cj__writes(const cj_op *op, const void *attrs)
{
    return !(op->flags & CJ_OP_WRITES) ? 0 : op->flags & CJ_OP_WRITES_MANY ? (int)((const cj_write_attrs *)attrs)->writes : 1;
}

/* The door.  One result, or all of them in out[]. */
cj_tensor *cj__apply(const cj_op *op, const void *attrs, cj_tensor *const *in, int nin);
bool cj__apply_n(cj_ctx *c, const cj_op *op, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out);

/* For infer: a fresh contiguous output j. */
bool cj__out(cj_call *call, int j, cj_dtype dtype, int ndim, const int64_t *shape);
/* Its values can be read while shapes are inferred: it is neither on a device nor part of a step that is being recorded. Else an error. */
bool cj__values_at_hand(const cj_call *call, const cj_tensor *x);
/* For infer of views: output j looks at in[0]'s storage. */
bool cj__out_view(cj_call *call, int j, int64_t offset, int ndim, const int64_t *shape, const int64_t *stride);

/* ---- recorders ------------------------------------------------------------------------------------------------------------------ */

/* The door calls every active recorder after an operator ran.  false: an error was set. */
typedef struct cj_recorder {
    bool (*record)(cj_ctx *c, cj_call *call);
    /* CJ_REC_GRAPH: does it take this composite as one operator?  Where not, the door runs its definition, and the recorder sees the parts. */
    bool (*whole)(const cj_ctx *c, const cj_op *op, const void *attrs);
} cj_recorder;

/* In the order in which they see a call: capture before the recorders that make further calls, tape before forward mode, whose rules read the outputs. */
enum { CJ_REC_PROFILE, CJ_REC_WATCH, CJ_REC_GRAPH, CJ_REC_CAPTURE, CJ_REC_TAPE, CJ_REC_FORWARD, CJ_RECS };
/* grad/ installs tape, forward and capture here when a context is made (core knows none of them). */
void cj__recorders_install(cj_ctx *c);

struct cj_node {
    const cj_op *op;
    int64_t seq;     /* place on the tape */
    uint64_t mark;   /* the backward pass that reached it */
    uint64_t useful; /* the pass in which a wanted gradient lies below it */
    int nin, nout;
    const char *file;
    int line;
    int depth; /* scope in which it was made */
    cj_tensor **in, **out;
    uint32_t *version; /* of the saved ones: inputs, then outputs */
    cj_tensor **g;     /* during backward: gradient of each output */
    void *attrs;
    const char *path; /* the module it was made in, while somebody watches (cj_watch_nonfinite); else NULL */
    size_t size;
};

struct cj_tangent {
    uint64_t level;
    cj_tensor *value;
    cj_tangent *next;
};

/* ---- context -------------------------------------------------------------------------------------------------------------------- */

#define CJ_BINS 160
#define CJ_MAX_SCOPES 64

/* A write that waits for its scope to close. */
typedef struct cj_deferred {
    struct cj_deferred *next;
    const cj_op *op;
    cj_tensor *dst, *src; /* held */
} cj_deferred;

typedef struct cj_scope_frame {
    cj_tensor *head;       /* headers, newest first */
    cj_deferred *deferred; /* newest first */
    int64_t tape_mark;     /* nodes from here on belong to it */
    bool frame;            /* an inner frame of the library: closing it keeps the graph */
    bool step;             /* the frame of a captured step: deferred writes happen at its end, as part of it */
    uint64_t serial;
} cj_scope_frame;

typedef struct cj_free_block {
    struct cj_free_block *next;
} cj_free_block;

/* The operator that the user called, and what it calls the positions that it looks up (NULL: index).  Operators that it is made of speak in its name of what is wrong with an
 * argument.  Strings that live forever. */
typedef struct cj_called {
    const char *op, *index;
} cj_called;

struct cj_ctx {
    /* hot */
    cj_code error;
    atomic_int cancelled;
    bool grad_enabled;
    bool debug;
    bool committing; /* a write of several parts is under way: cancellation waits until it is whole */
    bool whole;      /* the same for several such writes that belong together: a step of a training loop with several optimisers */
    uint8_t active;  /* bit per recorder that must see every call */
    bool dry;        /* a trace that only records: calls are checked and their results have shapes, no kernel runs */
    int fwd_limit;   /* forward mode: how many of the levels below propagate */
    uint64_t fwd_level[CJ_MAX_LEVELS]; /* never reused: a stale tangent belongs to no open level */
    uint64_t fwd_next;
    int depth; /* open scopes */
    cj_scope_frame scope[CJ_MAX_SCOPES];
    cj_tensor *free_headers;
    const cj_cpu_kernels *k;
    cj_pool *pool;
    size_t pool_bytes;
    cj_recorder recorder[CJ_RECS];

    /* tape */
    cj_node **tape;
    int64_t tape_n, tape_cap;
    uint64_t backward_id;

    /* memory */
    cj_free_block *bin[CJ_BINS];
    cj_memory memory;
    size_t memory_cap;
    cj_alloc_fn alloc;
    void *alloc_user;
    void *slabs;           /* header slabs, linked through their first word */
    cj_tensor *persistent; /* list */
    cj_packed *packed;     /* list */
    void *scratch;
    size_t scratch_bytes;

    /* errors and position */
    char message[CJ_MAX_MESSAGE];
    char path[CJ_MAX_PATH_NAME];
    int path_marks[32];
    int path_depth;
    int module_depth; /* path_depth when the running module's forward began: nothing was entered by hand since where they are equal */
    cj_called called; /* what the user called */
    cj_tensor *poison;
    uint64_t scope_serial;

    /* randomness */
    cj_rng_state rng;

    /* capture */
    cj_trace *trace;
    uint64_t trace_epoch;
    int mode; /* what cj_module_train said last; part of a plan's key */

    cj_profiler *profiler;
    void *observer;            /* of src/nn: watches modules run, or NULL */
    void *recording;           /* of src/grad/recording.c: what CJ_REC_GRAPH fills, or NULL */
    const cj_backend *backend; /* device kernels, or NULL */
    void *device_state;
    void *backend_handle;
    char device[16];
    cj_log_fn log;
    void *log_user;
    int threads;
    void *fft_plans; /* of src/math/fft.c, or NULL */
    void *extra;     /* list of objects freed with the context (modules, optimisers, plans) */
};

/* The device back-end: what libcajal-cuda.so's one symbol returns.  No undefined cj_ symbols there: it calls back through `host`. */
struct cj_backend {
    size_t size;
    const char *build_id;
    const char *name;
    void *(*open)(int index, char *message, size_t n);
    void (*close)(void *state);
    void *(*alloc)(void *state, size_t bytes);
    void (*free)(void *state, void *p);
    bool (*to_device)(void *state, void *dst, const void *src, size_t bytes);
    bool (*to_host)(void *state, void *dst, const void *src, size_t bytes);
    bool (*copy)(void *state, void *dst, const void *src, size_t bytes);
    bool (*sync)(void *state);
    /* The kernel of an operator, or NULL.  It returns NULL or a message. */
    const char *(*(*find)(const char *op))(void *state, const cj_call *call);
    /* Graph capture around a run of kernels, and its replay. */
    bool (*graph_begin)(void *state);
    void *(*graph_end)(void *state);
    bool (*graph_launch)(void *state, void *graph);
    void (*graph_free)(void *state, void *graph);
    const char *(*describe)(void *state);
    const char *(*fault)(void *state, cj_code *code); /* message and kind of the last failure, or NULL */
    /* Call numbers of the random streams: a kernel draws with base.call + bases[stream]; zero outside of replays. */
    bool (*set_bases)(void *state, const uint64_t *bases, int n);
};

/* ---- errors (ctx.c) -------------------------------------------------------------------------------------------------------------- */

/* Records the first error; always false, so that checks read `return cj__error(…)`: a macro, for compilers and analysers to know that too. */
bool cj__error(cj_ctx *c, cj_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline bool cj__refused(bool recorded) { return (void)recorded, false; }
#define cj__error(...) cj__refused((cj__error)(__VA_ARGS__))

/* Takes the error back, to say it in another way: its code, and its sentence without the position in the program. */
cj_code cj__error_take(cj_ctx *c, char message[CJ_MAX_MESSAGE]);
/* "[64, 784]" into a rotating per-thread buffer. */
const char *cj__shape_text(int ndim, const int64_t *shape);
const char *cj__tensor_text(const cj_tensor *t);
/* The text of a number, n characters: with a point, whatever the locale of the host program has.  Returns its length. */
int cj__plain_point(char *text, int n);
/* Until c->called is set back to what this returns, the call is one of `op`; the outermost stays. */
static inline cj_called cj__called(cj_ctx *c, const char *op, const char *index)
{
    const cj_called was = c->called;
    if (!was.op) c->called = (cj_called){ op, index };
    return was;
}
/* … and back, once the result is made. */
static inline cj_tensor *cj__called_done(cj_ctx *c, cj_called was, cj_tensor *result)
{
    c->called = was;
    return result;
}
bool cj__cancel_check(cj_ctx *c); /* false when cancelled (sets the error) */
void cj__position(const char **file, int *line);
/* The recorded error came from a call that was made earlier, at file:line in the module path (or NULL): its message says so. */
void cj__error_at(cj_ctx *c, const char *path, const char *file, int line);
void cj__log(cj_ctx *c, cj_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Objects that live as long as the context and are freed with it. */
typedef struct cj_object {
    struct cj_object *next, *prev;
    void (*free)(struct cj_object *);
} cj_object;
void cj__object_add(cj_ctx *c, cj_object *o, void (*free)(cj_object *));
void cj__object_remove(cj_ctx *c, cj_object *o);

/* ---- memory (memory.c) ------------------------------------------------------------------------------------------------------------ */

void *cj__alloc(cj_ctx *c, size_t bytes);     /* 64-byte aligned; NULL after setting CJ_EMEMORY */
void *cj__try_alloc(cj_ctx *c, size_t bytes); /* the same, but no error is set and nothing is given back to make room */
void cj__free(cj_ctx *c, void *p, size_t bytes);
void *cj__zalloc(cj_ctx *c, size_t bytes);
char *cj__strdup(cj_ctx *c, const char *s); /* freed with cj__strfree */
void cj__strfree(cj_ctx *c, char *s);
/* Grow-only scratch of the context, for kernels; valid until the next call. */
void *cj__scratch(cj_ctx *c, size_t bytes);
void *cj__raw_alloc(cj_ctx *c, size_t bytes); /* straight from the callback, under the cap, no error set */
void cj__raw_free(cj_ctx *c, void *p, size_t bytes);

cj_storage *cj__storage_new(cj_ctx *c, size_t bytes, bool device);
cj_storage *cj__storage_dry(cj_ctx *c, size_t bytes); /* for a dry trace: nothing but the size */
void cj__storage_release(cj_ctx *c, cj_storage *st);
static inline void cj__storage_retain(cj_storage *st) { st->refs++; }

/* Memory of `bytes` bytes for what a kernel makes of t, told apart by a key; valid until something is allocated.  *made: it holds what was put there at an earlier call,
 * else the caller fills it.  NULL: nothing is to be kept, because t is no parameter, or was not used since its last write, or memory is short (packed.c). */
void *cj__packed(cj_ctx *c, const cj_tensor *t, const void *key, size_t key_bytes, size_t bytes, bool *made);
void cj__packed_release(cj_ctx *c, cj_storage *st); /* all that belongs to a storage */
void cj__packed_trim(cj_ctx *c);                    /* all */

/* ---- headers (tensor.c) ------------------------------------------------------------------------------------------------------------ */

/* A header in the innermost scope, without storage; NULL after an error. */
cj_tensor *cj__header(cj_ctx *c);
/* A contiguous tensor with its own storage. */
cj_tensor *cj__tensor_new(cj_ctx *c, cj_dtype dtype, int ndim, const int64_t *shape, bool device);
/* The same, persistent. */
cj_tensor *cj__tensor_persistent(cj_ctx *c, cj_dtype dtype, int ndim, const int64_t *shape, bool device);
/* A fresh contiguous tensor of a's shape and dtype, on the host; a is contiguous. */
cj_tensor *cj__tensor_like(const cj_tensor *a);
/* Another header on t's storage. */
cj_tensor *cj__tensor_view(cj_tensor *t, int64_t offset, int ndim, const int64_t *shape, const int64_t *stride);
void cj__tensor_retain(cj_tensor *t, bool data);
void cj__tensor_release(cj_tensor *t, bool data);
void cj__make_persistent(cj_tensor *t);
bool cj__update_contiguous(cj_tensor *t); /* recomputes the flag */
/* Do the channels (axis 1) of a pixel lie side by side, and pixels in row-major order?  A fresh contiguous tensor is given such strides by the second. */
bool cj__channels_last(const cj_tensor *t);
void cj__to_channels_last(cj_tensor *t);
/* numel of a shape, or -1 after an error (negative size, overflow). */
int64_t cj__numel(cj_ctx *c, const char *op, int ndim, const int64_t *shape);
double cj__load(const cj_tensor *t, int64_t offset); /* one element of host data */
int64_t cj__load_i64(const cj_tensor *t, int64_t offset);
void cj__store(cj_dtype dtype, void *p, double v);
/* t usable as an operand: not NULL, not poison, not closed, of this context.  Sets the error, which cj__unusable words. */
void cj__unusable(cj_ctx *c, const char *op, int i, const cj_tensor *t);
static inline bool cj__usable(cj_ctx *c, const char *op, int i, const cj_tensor *t)
{
    if (__builtin_expect(t && t->ctx == c && !(t->flags & (CJ_T_POISON | CJ_T_CLOSED)) && t->st, 1)) return true;
    cj__unusable(c, op, i, t);
    return false;
}

/* Inner frames: everything made inside goes at the end, except keep[], which move to the scope around with their graph. */
int cj__frame_open(cj_ctx *c);
void cj__frame_close(cj_ctx *c, int depth, cj_tensor **keep, int n);
/* Takes a tensor of an inner frame out of it: the caller owns one reference.  A tensor from elsewhere is retained. */
/* Writes src to the persistent dst, through the write operator op, when the innermost scope of the user (or the captured step) ends without an error. */
bool cj__defer(cj_ctx *c, const cj_op *op, cj_tensor *dst, cj_tensor *src);
/* What dst will hold when everything deferred so far is written: the newest value, or dst itself. */
cj_tensor *cj__deferred_value(const cj_ctx *c, cj_tensor *dst);
/* Does now what the scope of this depth has deferred: all of it, or nothing when an error is set. */
bool cj__commit(cj_ctx *c, int depth);
void cj__take(cj_ctx *c, cj_tensor *t);
void cj__give(cj_ctx *c, cj_tensor *t);      /* hands that reference to the innermost scope */
void cj__tape_drop(cj_ctx *c, int64_t mark); /* frees nodes from mark on */
void cj__node_free(cj_ctx *c, cj_node *n);

/* ---- dtypes (dtype.c) --------------------------------------------------------------------------------------------------------------- */

float cj__bf16_to_f32(uint16_t h);
float cj__f16_to_f32(uint16_t h);
uint16_t cj__f32_to_bf16(float f);
uint16_t cj__f32_to_f16(float f);
cj_dtype cj__promote_n(cj_tensor *const *t, int n);
static inline cj_dtype cj__dtype_or_default(cj_dtype t) { return t == CJ_DEFAULT_DTYPE ? CJ_F32 : t; }

/* Is it one of the dtypes? Sets the error. */
bool cj__dtype_ok(cj_ctx *c, const char *op, cj_dtype t);

/* Broadcasts two shapes; false where they do not fit. */
bool cj__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out);

/* Normalises an axis; -1 after an error. */
int cj__axis(cj_ctx *c, const char *op, int axis, int ndim);

/* Registry (ops/registry.c). */
const cj_op *cj__op_by_name(const char *name);
const cj_op *cj__op_at(int i); /* NULL past the end */

bool cj__backend_open(cj_ctx *c, const char *device);
void cj__backend_close(cj_ctx *c);
/* The error of a back-end call that failed: what was tried, or what a kernel found wrong with its data. Returns false. */
bool cj__backend_error(cj_ctx *c, const char *what);

void cj__profiler_free(cj_ctx *c);

#endif
