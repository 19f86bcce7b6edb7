/* cajal/core.h: the context, errors, lifetimes, tensors.
 *
 * A context (cj_ctx) owns a device, memory, random state, the first error and a log callback; there are no globals.  One thread uses a context at a
 * time; contexts are independent.  Creation takes the context, operators find it through their inputs.
 *
 * Errors.  A failing operator returns poison and records the first error in the context; every operator passes poison on.  NULL counts as poison
 * everywhere.  While an error is set nothing is computed and nothing is written.  cj_clear makes the context usable again.
 *
 * Lifetimes.  Tensors belong to the innermost open scope and go when it closes; parameters and what cj_keep returns stay until cj_release or
 * cj_ctx_free.  Nobody frees a temporary.
 */
#ifndef CAJAL_CORE_H
#define CAJAL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cajal/limits.h>

#if defined _WIN32
#define CJ_API
#else
#define CJ_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_ctx cj_ctx;
typedef struct cj_tensor cj_tensor;

/* ---- numbers ------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_dtype {
    CJ_DEFAULT_DTYPE, /* f32 where a dtype is asked for and none is given */
    CJ_F32,
    CJ_F64,
    CJ_BF16, /* storage types on the CPU: computed in f32, rounded when stored */
    CJ_F16,
    CJ_I64,
    CJ_I32,
    CJ_U8,
    CJ_BOOL,
    CJ_DTYPES
} cj_dtype;

CJ_API const char *cj_dtype_name(cj_dtype t);   /* "f32", "i64", … */
CJ_API size_t cj_dtype_size(cj_dtype t);        /* bytes of one element */
CJ_API bool cj_dtype_is_float(cj_dtype t);
/* The dtype of a result of a and b, as PyTorch promotes: category first (bool < integer < float), then width; a 0-d tensor never widens within a category. */
CJ_API cj_dtype cj_promote(const cj_tensor *a, const cj_tensor *b);

/* Zero in an option struct means "the usual default"; this value means zero itself where zero is meaningful and not the default. */
#define CJ_ZERO (-0x1p-1000)

/* A shape by value: CJ_SHAPE(4, 2); CJ_SCALAR is the shape of a 0-d tensor. */
typedef struct cj_shape {
    int ndim;
    int64_t dim[CJ_MAX_DIMS];
} cj_shape;
#define CJ_SHAPE(...)                                                                                                                      \
    ((cj_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#define CJ_SCALAR ((cj_shape){ 0, { 0 } })

/* An axis, or a set of them, by value, so that "not given" differs from axis 0: CJ_AXIS(0), CJ_AXIS(-1), CJ_AXES(0, 2).
 * The zero value means "not given": all axes for reductions, the last axis where an operator works along one. */
typedef struct cj_axes {
    int n;
    int axis[CJ_MAX_DIMS];
} cj_axes;
#define CJ_AXES(...) ((cj_axes){ (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), { __VA_ARGS__ } })
#define CJ_AXIS(i) ((cj_axes){ 1, { (i) } })

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_code {
    CJ_OK,
    CJ_ESHAPE,    /* shapes that do not fit */
    CJ_EDTYPE,    /* dtypes that do not fit */
    CJ_EDEVICE,   /* device mismatch, missing device or missing kernel */
    CJ_EINDEX,    /* an index, axis or class out of range */
    CJ_EVALUE,    /* any other argument out of range */
    CJ_EMEMORY,   /* no memory, or the cap of the context reached */
    CJ_ECANCELLED,/* cj_cancel */
    CJ_ESTALE,    /* poison of an earlier, cleared error; or a tensor used after its scope */
    CJ_ECONTEXT,  /* tensors of two contexts in one call */
    CJ_EGRAPH,    /* differentiation: consumed graph, changed value, no derivative */
    CJ_ECAPTURE,  /* capture and replay: the step does something that cannot be replayed */
    CJ_EFILE,     /* files: missing, cut, malformed, no space */
    CJ_ECOMM,     /* an exchange between processes failed */
    CJ_ESTATE,    /* a call at the wrong time (closing a scope that is not the innermost …) */
    CJ_CODES
} cj_code;

CJ_API bool cj_ok(const cj_ctx *c);             /* no error is set (NULL: false) */
CJ_API cj_code cj_error(const cj_ctx *c);       /* the first error's code */
CJ_API const char *cj_code_name(cj_code code);  /* "CJ_ESHAPE" */
CJ_API const char *cj_message(const cj_ctx *c); /* one sentence: operator, shapes, module path, file:line; "" without error */
CJ_API void cj_clear(cj_ctx *c);                /* forgets the error; poison made before it now raises CJ_ESTALE */
/* Sets an error from outside (custom operators, data sources); the first one stays. Returns poison, so that `return cj_fail(…)` reads well. */
CJ_API cj_tensor *cj_fail(cj_ctx *c, cj_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Stops the work of a context: the next operator, and every loop of the library, sees CJ_ECANCELLED. Callable from any thread or signal handler. */
CJ_API void cj_cancel(cj_ctx *c);

/* ---- context ------------------------------------------------------------------------------------------------------------------- */

/* All host memory comes through one callback: p NULL allocates (64-byte aligned), n 0 frees, both given never happens. Thread-safe. */
typedef void *(*cj_alloc_fn)(void *user, void *p, size_t old_size, size_t new_size);

typedef enum cj_log_level { CJ_LOG_DEBUG, CJ_LOG_INFO, CJ_LOG_WARNING } cj_log_level;
typedef void (*cj_log_fn)(void *user, cj_log_level level, const char *message);

typedef struct cj_ctx_opts {
    const char *device;    /* "cpu" (default), "cuda", "cuda:1" */
    uint64_t seed;         /* of all random streams */
    int threads;           /* 0: the machine's cores (or $CAJAL_THREADS) */
    size_t memory_cap;     /* bytes of host memory this context may hold; 0: no cap */
    const char *isa;       /* "avx512", "avx2", "neon", "portable"; NULL: $CJ_ISA, else the best of the machine */
    cj_alloc_fn alloc;     /* NULL: the C library */
    void *alloc_user;
    cj_log_fn log;         /* NULL: silent */
    void *log_user;
    bool debug;            /* headers are never reused: every use of a closed tensor is found, with the line that closed it */
} cj_ctx_opts;

/* Returns NULL only when not even the context itself could be allocated; any other failure is an error inside it. opts may be NULL. */
CJ_API cj_ctx *cj_ctx_new(const cj_ctx_opts *opts);
CJ_API void cj_ctx_free(cj_ctx *c); /* frees everything that belongs to it; NULL is fine */
CJ_API const char *cj_ctx_device(const cj_ctx *c);
CJ_API const char *cj_ctx_isa(const cj_ctx *c);
CJ_API int cj_ctx_threads(const cj_ctx *c);
CJ_API const char *cj_version(void);

/* Waits until the device has finished what was asked of it; reports what went wrong there. On the CPU nothing is ever under way. False after an error. */
CJ_API bool cj_sync(cj_ctx *c);

/* Random streams: every draw names one. Key (seed, stream), counter (call number of the stream, element). */
typedef enum cj_stream { CJ_STREAM_USER, CJ_STREAM_INIT, CJ_STREAM_DATA, CJ_STREAM_DROPOUT, CJ_STREAM_SAMPLING, CJ_STREAMS } cj_stream;
CJ_API void cj_seed(cj_ctx *c, uint64_t seed);  /* restarts all streams */
typedef struct cj_rng_state {
    uint64_t seed;
    uint64_t call[CJ_STREAMS];
} cj_rng_state;
CJ_API cj_rng_state cj_rng_get(const cj_ctx *c);
CJ_API void cj_rng_set(cj_ctx *c, cj_rng_state s);

typedef struct cj_memory {
    size_t live;         /* bytes of tensors alive */
    size_t peak;         /* highest `live` since the context was made or cj_memory_reset_peak */
    size_t held;         /* bytes obtained from the system, caches included: what the cap limits */
    uint64_t system_allocs; /* calls of the allocator callback */
    uint64_t tensors;    /* headers alive */
    uint64_t host_copies;/* copies between host and device, each way */
    size_t packed;       /* of live: bytes of packed weights, kept from call to call while nobody writes to the parameter */
    uint64_t packs;      /* how often weights of convolutions were packed */
} cj_memory;
CJ_API cj_memory cj_memory_stats(const cj_ctx *c);
CJ_API void cj_memory_reset_peak(cj_ctx *c);
CJ_API void cj_memory_trim(cj_ctx *c);          /* gives cached memory back to the system */

/* ---- scopes -------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_scope {
    cj_ctx *ctx;
    int depth;
} cj_scope;
CJ_API cj_scope cj_scope_open(cj_ctx *c);
CJ_API void cj_scope_close(cj_scope s);         /* the innermost one; everything made since is gone, graph included */
/* Closes s and hands one tensor, without its graph, to the scope around it. */
CJ_API cj_tensor *cj_scope_return(cj_scope s, cj_tensor *t);
/* A persistent tensor with t's value, cut from the graph (differentiating through it later is an error). Shares memory where it can. */
CJ_API cj_tensor *cj_keep(cj_tensor *t);
/* Ends a persistent tensor early (cj_keep, cj_param); NULL is fine. */
CJ_API void cj_release(cj_tensor *t);

/* ---- tensors ------------------------------------------------------------------------------------------------------------------- */

CJ_API cj_ctx *cj_tensor_ctx(const cj_tensor *t);
CJ_API bool cj_is_poison(const cj_tensor *t);
CJ_API int cj_ndim(const cj_tensor *t);
CJ_API int64_t cj_size(const cj_tensor *t, int axis);    /* negative axes count from the end */
CJ_API int64_t cj_stride(const cj_tensor *t, int axis);  /* in elements */
CJ_API int64_t cj_numel(const cj_tensor *t);
CJ_API cj_shape cj_shape_of(const cj_tensor *t);
CJ_API cj_dtype cj_dtype_of(const cj_tensor *t);
CJ_API bool cj_is_contiguous(const cj_tensor *t);
CJ_API bool cj_on_device(const cj_tensor *t);
CJ_API bool cj_requires_grad(const cj_tensor *t);
/* First element in host memory; NULL for poison and for device tensors. Read it through cj_stride. */
CJ_API const void *cj_data(const cj_tensor *t);
CJ_API double cj_item(cj_tensor *t);                     /* the value of a one-element tensor; NaN for poison */
CJ_API double cj_at(cj_tensor *t, const int64_t *index); /* one element; NaN when out of range (an error) */
/* Copies all elements, in row-major order and converted to the asked type, to the caller's memory of n elements. False on error. */
CJ_API bool cj_to_f32(cj_tensor *t, float *out, int64_t n);
CJ_API bool cj_to_f64(cj_tensor *t, double *out, int64_t n);
CJ_API bool cj_to_i64(cj_tensor *t, int64_t *out, int64_t n);

/* Creation from the caller's memory (copied), row-major. */
CJ_API cj_tensor *cj_from_f32(cj_ctx *c, const float *values, cj_shape shape);
CJ_API cj_tensor *cj_from_f64(cj_ctx *c, const double *values, cj_shape shape);
CJ_API cj_tensor *cj_from_i64(cj_ctx *c, const int64_t *values, cj_shape shape);
CJ_API cj_tensor *cj_from_data(cj_ctx *c, const void *values, cj_dtype dtype, cj_shape shape);

/* Text of a tensor as PyTorch prints it: "tensor([0.3342, 0.8208])". Writes at most n bytes, ends with a zero byte, returns the length needed. */
CJ_API size_t cj_format(cj_tensor *t, char *out, size_t n);
/* "Size([5, 10])" */
CJ_API size_t cj_format_shape(const cj_tensor *t, char *out, size_t n);
CJ_API bool cj_print(cj_tensor *t, FILE *f);             /* cj_format and a newline */

/* ---- several processes ------------------------------------------------------------------------------------------------------------ */

/* How processes exchange values: the seam behind which MPI, NCCL or anything else works. The functions get contiguous host memory of n elements, are called in the same
 * order on every rank, and return false when the exchange failed. The struct outlives its users. Collectives on tensors: cj_all_sum … in ops.h. */
typedef enum cj_comm_op { CJ_COMM_SUM, CJ_COMM_MAX } cj_comm_op;
typedef struct cj_comm cj_comm;
struct cj_comm {
    int rank, size;  /* 0 <= rank < size */
    void *user;
    bool (*all_reduce)(const cj_comm *comm, void *data, int64_t n, cj_dtype dtype, cj_comm_op op);          /* in place, the same bits on every rank */
    bool (*all_gather)(const cj_comm *comm, const void *mine, void *all, int64_t n, cj_dtype dtype);        /* all: size · n elements, by rank */
    bool (*broadcast)(const cj_comm *comm, void *data, int64_t n, cj_dtype dtype, int root);                /* root's values to everybody */
};
CJ_API const cj_comm *cj_comm_self(void);  /* one process; what NULL means everywhere */

/* ---- the caller's line ----------------------------------------------------------------------------------------------------------- */

/* Remembers, for this thread, where the program is; errors name it. The macros of <cajal/sugar.h> call it before every operator. */
CJ_API void cj_here(const char *file, int line);

/* Names the part of the model that is running, for errors: cj_enter(c, "encoder"); … cj_leave(c); */
CJ_API void cj_enter(cj_ctx *c, const char *name);
CJ_API void cj_leave(cj_ctx *c);

/* ---- profiler -------------------------------------------------------------------------------------------------------------------- */

/* Records every operator (or plan step) with its time, bytes and flops until stopped. */
typedef struct cj_profile_row {
    const char *op;
    uint64_t calls;
    double seconds, bytes, flops;
} cj_profile_row;
CJ_API bool cj_profile_start(cj_ctx *c);
CJ_API int cj_profile_stop(cj_ctx *c, cj_profile_row *rows, int n);  /* sorted by time; returns the number of operators seen */
CJ_API bool cj_profile_trace(cj_ctx *c, const char *path);           /* the last recording as a Chrome trace */

/* While on, an operator that makes NaN or infinity out of finite inputs is an error that names it and the module's path: for finding where a loss went
 * wrong. Slow; operators one by one, on the CPU. Returns whether it was on. */
CJ_API bool cj_watch_nonfinite(cj_ctx *c, bool on);

#ifdef __cplusplus
}
#endif
#endif
