/* Composites without a kernel of their own: rows of the registry whose meaning is their definition in public operators.
 *
 * The door runs the definition in a frame; tape, forward mode and plans see the operators inside, and plans fuse them.  16-bit floats are widened to f32 first
 * and the result is rounded once, as kernels do.
 */
#ifndef CJ_OPS_COMPOSE_H
#define CJ_OPS_COMPOSE_H

#include "ops/ops.h"

typedef cj_tensor *cj_body(const void *attrs, cj_tensor *const *in, int nin);
/* Runs the body on widened inputs; in[0] must be a float. */
bool cj__compose(cj_ctx *c, const char *name, cj_body *body, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out);

/* CJ_COMPOSE(name) { return …; } defines the body and what a row's .define needs; it sees attrs, in and nin. */
#define CJ_COMPOSE(name)                                                                                                                   \
    static cj_tensor *name##_of(const void *attrs, cj_tensor *const *in, int nin);                                                         \
    static bool define_##name(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)                                \
    {                                                                                                                                      \
        return cj__compose(c, #name, name##_of, attrs, in, nin, out);                                                                      \
    }                                                                                                                                      \
    static cj_tensor *name##_of(const void *attrs __attribute__((unused)), cj_tensor *const *in, int nin __attribute__((unused)))

#define CJ_COMPOSITE_ROW(op_name, op_family, inputs, attribute_bytes)                                                                      \
    {                                                                                                                                      \
        .name = #op_name, .family = op_family, .kind = CJ_COMPOSITE, .nin = inputs, .nout = 1, .attr_size = attribute_bytes,               \
        .define = define_##op_name                                                                                                         \
    }

/* An option that was not given is 0 and means its default; CJ_ZERO means 0. */
static inline double cj__option(double given, double otherwise) { return given == 0 ? otherwise : given == CJ_ZERO ? 0 : given; }
/* A 0-d constant of x's dtype where x lives: unlike cj__const, exact in f64. */
cj_tensor *cj__const_like(cj_tensor *x, double value);

/* Attributes of losses: how to reduce, a choice between forms, parameters. */
typedef struct cj_loss_attrs {
    int64_t reduction, choice; /* cj_reduction */
    double p[2];
} cj_loss_attrs;
cj_tensor *cj__reduced(cj_tensor *loss, int64_t reduction);
/* Usable inputs of equal shapes (broadcasting here is nearly always a mistake) and a reduction that exists; false after an error. */
bool cj__loss_inputs(const char *op, cj_tensor *const *in, int n, int64_t reduction);

/* cj_gumbel_softmax with given noise: the row behind it, which draws nothing. */
cj_tensor *cj__gumbel_softmax(cj_tensor *logits, cj_tensor *noise, int axis, const cj_gumbel_opts *opts);

#endif
