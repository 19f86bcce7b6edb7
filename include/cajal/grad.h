/* cajal/grad.h: differentiation, capture and replay.
 *
 * Reverse mode records a tape while operators run; every rule is written in operators, so gradients have gradients.  Forward mode carries tangents along.
 * Both compose: hvp is forward over reverse.
 */
#ifndef CAJAL_GRAD_H
#define CAJAL_GRAD_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- marking ---------------------------------------------------------------------------------------------------------------------- */

/* A leaf with x's value whose gradient can be asked for. Lives in the innermost scope (parameters: cj_param in nn.h). */
CJ_API cj_tensor *cj_require_grad(cj_tensor *x);
CJ_API cj_tensor *cj_detach(cj_tensor *x);          /* the same value without its history */
/* No tape between these two: bool was = cj_no_grad(c); … cj_grad_mode(c, was); */
CJ_API bool cj_no_grad(cj_ctx *c);
CJ_API bool cj_grad_mode(cj_ctx *c, bool enabled);  /* returns the mode before */
CJ_API bool cj_grad_enabled(const cj_ctx *c);

/* ---- reverse mode -------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_grad_opts {
    bool create_graph;    /* the gradients can be differentiated again (keeps the graph) */
    bool retain;          /* keep the graph for another pass */
    bool allow_unused;    /* a value that does not depend on x gives zeros instead of an error */
    cj_tensor *seed;      /* gradient of y; ones for one-element y */
} cj_grad_opts;
/* d y / d x_i for i < n into out. y has one element, or a seed is given. All or nothing: false leaves out poisoned. */
CJ_API bool cj_grad(cj_tensor *y, cj_tensor *const *x, int n, cj_tensor **out, const cj_grad_opts *opts);
/* Adds gradients to every leaf that y depends on, as PyTorch's backward; read them with cj_leaf_grad. */
CJ_API bool cj_backward(cj_tensor *y, const cj_grad_opts *opts);
CJ_API cj_tensor *cj_leaf_grad(cj_tensor *leaf);    /* NULL before the first backward */
CJ_API void cj_leaf_zero_grad(cj_tensor *leaf);

/* ---- transforms: functions of functions ------------------------------------------------------------------------------------------------ */

/* A differentiable function: in[n] -> one tensor. */
typedef cj_tensor *(*cj_fn)(cj_ctx *c, void *user, cj_tensor *const *in, int n);

typedef struct cj_pair {
    cj_tensor *value, *derivative;
} cj_pair;
/* vᵀJ: value and, in out[n], the gradients of <v, fn(x)>. */
CJ_API cj_tensor *cj_vjp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *v, cj_tensor **out);
/* Jt: value and directional derivative along t[n] (entries may be NULL: zero). One forward pass, no tape. */
CJ_API cj_pair cj_jvp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, cj_tensor *const *t, int n);
/* H·t of a scalar function, forward over reverse; out[n]. Returns the value. */
CJ_API cj_tensor *cj_hvp(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, cj_tensor *const *t, int n, cj_tensor **out);
typedef struct cj_jacobian_opts {
    bool forward;   /* column by column with jvp instead of row by row with vjp */
} cj_jacobian_opts;
/* [y.shape, x.shape] for one input. */
CJ_API cj_tensor *cj_jacobian(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, const cj_jacobian_opts *opts);
/* [x.shape, x.shape] of a scalar function. */
CJ_API cj_tensor *cj_hessian(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x);
/* Gradients of a scalar loss for every example: fn sees batch[m] with first axis cut to one example; out[i] is [B, x_i.shape]. */
CJ_API bool cj_per_example_grad(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *const *batch, int m, cj_tensor **out);
/* fn(in) without keeping its intermediate values: backward runs fn again, with the same random numbers. */
CJ_API cj_tensor *cj_checkpoint(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *in, int n);

typedef struct cj_gradcheck_opts {
    double step;       /* 1e-6 */
    double tolerance;  /* 1e-6, of |a-n| / max(1, |a|+|n|) */
    bool second_order; /* checks the gradient's gradient too */
    bool no_jvp;       /* skip forward mode */
} cj_gradcheck_opts;
typedef struct cj_gradcheck_result {
    bool ok;
    double worst;      /* largest relative error */
    int input;         /* where it was; -1: in no single input, where forward and reverse mode differ */
    int64_t element;
    int64_t kinks;     /* elements left out: the function has a corner there, and the derivative lies between its two slopes */
    char what[160];    /* "vjp", "jvp", "second order" and the numbers */
} cj_gradcheck_result;
/* Compares derivatives of fn at f64 inputs with central differences, all inputs jointly. */
CJ_API cj_gradcheck_result cj_gradcheck(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, const cj_gradcheck_opts *opts);

/* ---- custom operators --------------------------------------------------------------------------------------------------------------------- */

/* An operator of the user's: a host kernel on contiguous tensors and, if it has one, a vjp written in operators. */
typedef struct cj_custom_op {
    const char *name;
    int nin;                /* inputs */
    const void *payload;    /* copied by value into each call (at most CJ_MAX_ATTR_BYTES) */
    size_t payload_size;
    void (*destroy)(void *payload); /* called when the last user of a copy is gone; may be NULL */
    /* Shape and dtype of the result from the inputs'; false after cj_fail. */
    bool (*infer)(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype);
    /* Fills out from in; all contiguous. false after cj_fail. */
    bool (*run)(cj_ctx *c, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out);
    /* Gradients of the inputs in operators; entries may stay NULL (zero). NULL: not differentiable. */
    void (*vjp)(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin);
    enum { CJ_PURE, CJ_HOST } effect;  /* host: has effects outside; cannot be captured */
} cj_custom_op;
CJ_API cj_tensor *cj_custom(cj_ctx *c, const cj_custom_op *op, cj_tensor *const *in);

/* ---- capture and replay ---------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_plan cj_plan;
/* A step: reads its listed inputs and persistent tensors, writes persistent tensors, hands results out in out[] (leading entries, others NULL). */
typedef void (*cj_step_fn)(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out);

/* Records the step and runs it once with all its effects; out (may be NULL) receives its results. On the host the values inside the step do not exist while fn is
 * called: the plan makes them, in its own memory, when fn has returned. NULL after an error. */
CJ_API cj_plan *cj_capture(cj_ctx *c, cj_step_fn fn, void *user, cj_tensor *const *in, int n, cj_tensor **out);
/* Runs it again. The first replay of a shape is traced once more and compared; from the second on the compiled plan runs. out (may be NULL) receives views of the
 * plan's results, valid until the next replay. */
CJ_API bool cj_replay(cj_plan *p, cj_tensor *const *in, cj_tensor **out);
CJ_API void cj_plan_free(cj_plan *p);
typedef struct cj_plan_stats {
    int kernels;            /* run per replay */
    int elementwise;        /* of them fused elementwise programs */
    int operators;          /* recorded */
    int removed;            /* dead */
    size_t bytes;           /* planned for temporaries */
    size_t bound;           /* the max-live lower bound */
    uint64_t allocations;   /* in the last replay */
    double flops;           /* floating-point operations of a replay, where the operators know theirs */
    int plans;              /* shapes compiled */
    bool compiled;
} cj_plan_stats;
CJ_API cj_plan_stats cj_plan_statistics(const cj_plan *p);
CJ_API bool cj_plan_print(const cj_plan *p, FILE *f);  /* one line per kernel */

#ifdef __cplusplus
}
#endif
#endif
