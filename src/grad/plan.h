/* Capture and plans: what a trace holds, what a plan runs.
 *
 *   trace.c   records a step, compares two recordings
 *   fuse.c    dead code, elementwise chains into programs, chains into the product before them
 *   recompute.c  what is made again instead of being kept
 *   absorb.c  updates of parameters inside the products that make their gradients
 *   layout.c  liveness, buffer offsets, the max-live bound
 *   plan.c    the public calls, the cache, the replay
 */
#ifndef CJ_GRAD_PLAN_H
#define CJ_GRAD_PLAN_H

#include "grad/grad.h"
#include "ops/ops.h"

/* Memory of one trace or plan: freed as a whole. */
typedef struct cj_region {
    struct cj_region_block *block;
} cj_region;
void *cj__region_alloc(cj_ctx *c, cj_region *r, size_t bytes); /* zeroed; NULL after CJ_EMEMORY */
void cj__region_free(cj_ctx *c, cj_region *r);

typedef enum cj_slot_kind { CJ_SLOT_TEMP, CJ_SLOT_INPUT, CJ_SLOT_PERSISTENT } cj_slot_kind;

/* A storage that the step touches. */
typedef struct cj_slot {
    cj_slot_kind kind;
    int input;      /* CJ_SLOT_INPUT: which */
    cj_storage *st; /* CJ_SLOT_PERSISTENT: retained */
    size_t bytes;
    int64_t offset;  /* CJ_SLOT_TEMP: place in the arena, -1 while it has none */
    int first, last; /* kernels that define it and read it last; a result of the plan is read after the last one */
    int uses;        /* reads by live steps */
    bool output;     /* handed out by the plan */
    int inside;      /* CJ_SLOT_TEMP: it lies in the slot with this number less one, that of a concatenation; 0: nowhere */
    int64_t within;  /* … and where, in bytes */
    bool absorbed;   /* CJ_SLOT_TEMP: never stored: the product that makes it does its reader's work (absorb.c) */
    bool device;
} cj_slot;

/* A tensor as a step saw it. */
typedef struct cj_arg {
    int32_t slot;
    uint8_t dtype, ndim, contiguous;
    int64_t offset; /* bytes from the start of the storage */
    int64_t numel;
    int64_t shape[CJ_MAX_DIMS], stride[CJ_MAX_DIMS];
} cj_arg;

typedef struct cj_traced {
    const cj_op *op;
    void *attrs;
    cj_arg *arg; /* inputs, then outputs */
    int nin, nout;
    cj_dtype compute;        /* of elementwise operators */
    const char *file, *path; /* where it was called, and in which module (or NULL) */
    int line;
    cj_called called;
    bool live;
} cj_traced;

struct cj_trace {
    cj_ctx *ctx;
    cj_region region;
    cj_traced *step;
    int n, cap;
    cj_slot *slot;
    int n_slots, cap_slots;
    cj_rng_state rng;           /* at the start */
    uint64_t draws[CJ_STREAMS]; /* taken by the step */
    int n_out;
    cj_arg out[CJ_MAX_PLAN_OUTPUTS];
};

/* What a plan runs, in order. */
typedef enum cj_kernel_kind { CJ_KERNEL_CALL, CJ_KERNEL_FUSED, CJ_KERNEL_PRODUCT /* with an elementwise tail */ } cj_kernel_kind;
typedef struct cj_tail cj_tail;
typedef struct cj_kernel {
    cj_kernel_kind kind;
    const cj_traced *step; /* call, product */
    cj_ew_prog *prog;      /* fused, product */
    cj_arg *ew;            /* the program's arguments: n_in inputs, n_out outputs; strides over the iteration shape */
    int ndim;
    int64_t shape[CJ_MAX_DIMS];
    int in_place;      /* product: the program output whose buffer the product uses, or -1 */
    int product_input; /* product: which program input is the product */
    bool dead;
    int absorbed;             /* call: this input of `update`, less one, is what it makes; 0: none */
    struct cj_kernel *update; /* … which it does */
    /* made by the layout */
    cj_call call;
    cj_tensor *header; /* nin + nout of them */
    cj_ew_arg *args;
    cj_tail *tail;         /* product, on the host: made by plan.c */
    const cj_tensor *soon; /* the matrix that the next product of few rows reads, or NULL */
    int members;
} cj_kernel;

typedef struct cj_compiled {
    cj_region region;
    cj_kernel *kernel;
    int n;
    size_t bytes, bound;
    int fused, removed;
    cj_storage *arena;
    struct cj_patch { /* pointers into inputs, moved at every replay */
        void **at;
        int input;
        int64_t offset;
    } * patch;
    int n_patches;
    const void *last_input[CJ_MAX_PLAN_INPUTS];
    int first_write; /* the first kernel that changes something lasting; up to it a replay can be given up */
    size_t scratch;  /* of the kernels from there on that could otherwise fail for lack of it */
} cj_compiled;

/* Dry: operators are checked and recorded, their kernels do not run. */
cj_trace *cj__trace_begin(cj_ctx *c, cj_tensor *const *in, int n, cj_tensor **alias, bool dry);
bool cj__trace_end(cj_ctx *c, cj_trace *t, cj_tensor *const *out, bool ok);
void cj__trace_free(cj_trace *t);
/* true where both recorded the same; otherwise an error that names the first difference. */
bool cj__trace_same(cj_ctx *c, const cj_trace *a, const cj_trace *b);

/* Another temporary of the same size; its number, or -1 after CJ_EMEMORY. */
int cj__trace_slot_like(cj_trace *t, int slot);

bool cj__kernel_reads(const cj_kernel *k, int slot);
/* Is the argument of an elementwise kernel all of a temporary, element by element in the order of the loop, in the type the program computes in? */
bool cj__lies_whole(const cj_trace *t, const cj_kernel *k, const cj_arg *a);
/* From now on the kernel reads, or makes, slot `to` in place of `from`. */
bool cj__kernel_rename(cj_ctx *c, cj_compiled *p, cj_kernel *k, int from, int to);
bool cj__plan_fuse(cj_ctx *c, cj_trace *t, cj_compiled *p);
/* Finds where every slot is first and last used; bytes that are alive at once, at most, and the kernel at which they are (needs these). */
void cj__plan_lives(cj_trace *t, const cj_compiled *p);
size_t cj__plan_most_live(const cj_trace *t, const cj_compiled *p, int *at);
bool cj__plan_recompute(cj_ctx *c, cj_trace *t, cj_compiled *p);
void cj__plan_absorb(cj_ctx *c, cj_trace *t, cj_compiled *p);
bool cj__plan_layout(cj_ctx *c, cj_trace *t, cj_compiled *p);

#endif
