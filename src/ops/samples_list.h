/* Building lists of samples: shared by the files that hold them, one per group of families.  Short names, because the lists are long. */
#ifndef CJ_OPS_SAMPLES_LIST_H
#define CJ_OPS_SAMPLES_LIST_H

#include "ops/samples.h"

typedef struct cj_sample_list {
    const cj_op *op;
    cj_sample *out;
    int n;
} cj_sample_list;

static inline cj_sample *add(cj_sample_list *l, const char *label, cj_sample_fn *call, unsigned flags)
{
    cj_sample *s = &l->out[l->n < CJ_SAMPLES - 1 ? l->n++ : CJ_SAMPLES - 1];
    *s = (cj_sample){ .op = l->op, .label = label, .call = call, .flags = flags };
    return s;
}
static inline cj_sample *input(cj_sample *s, cj_shape shape, cj_domain domain)
{
    s->in[s->n++] = (cj_sample_input){ shape, domain, 0 };
    return s;
}
static inline cj_sample *indices(cj_sample *s, cj_shape shape, cj_domain domain, int64_t limit)
{
    s->in[s->n++] = (cj_sample_input){ shape, domain, limit };
    return s;
}
static inline int64_t numel(cj_shape s)
{
    int64_t n = 1;
    for (int d = 0; d < s.ndim; d++) n *= s.dim[d];
    return n;
}

/* Shapes of elementwise operators: b broadcasts against a. */
typedef struct cj_sample_shapes {
    const char *label;
    cj_shape a, b;
} cj_sample_shapes;
enum { SHAPES = 11 };
extern const cj_sample_shapes cj__sample_shapes[SHAPES];
#define shapes cj__sample_shapes
static inline unsigned size_flags(cj_shape s) { return numel(s) > 1000 ? CJ_SAMPLE_LARGE : 0; }

/* A call: how a sample reaches its operator. */
#define CALL(name) static cj_tensor *name(cj_ctx *c, const cj_sample *s, cj_tensor *const *in)
#define UNUSED (void)c, (void)s, (void)in
#define IS(word) (strcmp(name, word) == 0)

static inline cj_tensor *unary(cj_ctx *c, const cj_sample *s, cj_tensor *const *in)
{
    (void)c;
    return s->fn.unary(in[0]);
}
static inline cj_tensor *binary(cj_ctx *c, const cj_sample *s, cj_tensor *const *in)
{
    (void)c;
    return s->fn.binary(in[0], in[1]);
}

/* Each adds the samples of the row of that name, if the row is one of its families. */
void cj__samples_elementwise(cj_sample_list *l, const char *name);
void cj__samples_activation(cj_sample_list *l, const char *name);
void cj__samples_reduce(cj_sample_list *l, const char *name);
void cj__samples_create(cj_sample_list *l, const char *name);
void cj__samples_shape(cj_sample_list *l, const char *name);
void cj__samples_index(cj_sample_list *l, const char *name);
void cj__samples_product(cj_sample_list *l, const char *name);
void cj__samples_norm(cj_sample_list *l, const char *name);
void cj__samples_loss(cj_sample_list *l, const char *name);
void cj__samples_window(cj_sample_list *l, const char *name);
void cj__samples_order(cj_sample_list *l, const char *name);
void cj__samples_resample(cj_sample_list *l, const char *name);
void cj__samples_contract(cj_sample_list *l, const char *name);
void cj__samples_normalise(cj_sample_list *l, const char *name);
void cj__samples_recurrent(cj_sample_list *l, const char *name);
void cj__samples_comm(cj_sample_list *l, const char *name);
void cj__samples_fourier(cj_sample_list *l, const char *name); /* src/math */
void cj__samples_special(cj_sample_list *l, const char *name);
void cj__samples_draw(cj_sample_list *l, const char *name);
void cj__samples_write(cj_sample_list *l, const char *name);
void cj__samples_attention(cj_sample_list *l, const char *name);
void cj__samples_linalg(cj_sample_list *l, const char *name); /* src/math */

#endif
