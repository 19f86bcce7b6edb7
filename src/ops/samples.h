/* Samples: for every row of the registry the calls that show it at work.  `cajal selftest`, `cajal ops` and the tests feed on them.
 *
 * A sample is a call of public operators on inputs that are described, not stored: shape and domain.  The same sample is built in any context, dtype and memory
 * layout.  Values are multiples of 1/32 or 1/64 of at most 8 significant bits, so that f64, f32, bf16 and f16 see exactly the same numbers, and they keep away
 * from the kinks of the operator (0 for abs, whole numbers for floor, ties for max), so that differences approximate derivatives.
 */
#ifndef CJ_OPS_SAMPLES_H
#define CJ_OPS_SAMPLES_H

#include "ops/ops.h"

typedef enum cj_domain {
    CJ_DOMAIN_REAL,     /* 1/8 <= |v| <= 5/2, multiples of 1/32; integers: -3 … 3 */
    CJ_DOMAIN_BETWEEN,  /* the same, odd multiples of 1/64: never equal to a REAL */
    CJ_DOMAIN_POSITIVE, /* 3/8 … 5/2; integers 1 … 4 */
    CJ_DOMAIN_NONZERO,  /* 1/2 <= |v| <= 5/2; integers 1 … 4 */
    CJ_DOMAIN_UNIT,     /* 1/8 … 7/8 */
    CJ_DOMAIN_ABOVE,    /* -5/8 … 5/2: for log1p */
    CJ_DOMAIN_NEAR_ONE, /* ±(3/4 … 5/4): products of many */
    CJ_DOMAIN_FRACTION, /* -3 … 3, away from multiples of 1/2 */
    CJ_DOMAIN_DISTINCT, /* up to 160 different values in scrambled order, then again */
    CJ_DOMAIN_COUNT,    /* -1, 0, 1, 2: ties and zeros */
    CJ_DOMAIN_SPECIAL,  /* the same with NaN and infinities */
    CJ_DOMAIN_MASK,     /* bool */
    CJ_DOMAIN_INDEX,    /* i64 in [0, limit) */
    CJ_DOMAIN_PERMUTED, /* i64, each of 0 … limit-1 once */
    CJ_DOMAIN_TARGET    /* i64 in [0, limit), every third -100 */
} cj_domain;

typedef enum cj_layout {
    CJ_LAYOUT_DENSE,
    CJ_LAYOUT_TRANSPOSED, /* axes stored in the opposite order */
    CJ_LAYOUT_SLICED,     /* every second element of a longer last axis */
    CJ_LAYOUT_REVERSED,   /* first axis stored backwards: a negative stride */
    CJ_LAYOUT_EXPANDED,   /* first axis stretched from size 1: stride 0 */
    CJ_LAYOUT_REPEATED,   /* the values of EXPANDED, dense */
    CJ_LAYOUTS
} cj_layout;

enum {
    CJ_SAMPLE_EXACT = 1,    /* the layout of the inputs does not change a bit of the result */
    CJ_SAMPLE_LARGE = 2,    /* crosses blocks and thread grains; too large for difference quotients */
    CJ_SAMPLE_ROUGH = 4,    /* sits on kinks, or is not smooth: no difference quotients */
    CJ_SAMPLE_RANDOM = 8,   /* draws */
    CJ_SAMPLE_DYNAMIC = 16, /* cannot be captured */
    CJ_SAMPLE_DENSE = 32,   /* wants contiguous inputs */
    CJ_SAMPLE_FLOAT = 64    /* no integers (their meaning differs) */
};

typedef struct cj_sample cj_sample;
typedef cj_tensor *cj_sample_fn(cj_ctx *c, const cj_sample *s, cj_tensor *const *in);

enum { CJ_SAMPLE_INPUTS = 4, CJ_SAMPLES = 40 };
typedef struct cj_sample_input {
    cj_shape shape;
    cj_domain domain;
    int64_t limit;
} cj_sample_input;

struct cj_sample {
    const cj_op *op; /* the row that the call must reach */
    const char *label;
    cj_sample_fn *call;
    cj_sample_input in[CJ_SAMPLE_INPUTS];
    int n;
    unsigned flags;
    double terms;           /* length of the reduction behind one result element; 0: elementwise */
    double mean, deviation; /* of draws */
    double step, tolerance; /* of difference quotients; 0: the usual ones */
    /* what the call reads */
    union {
        cj_tensor *(*unary)(cj_tensor *x);
        cj_tensor *(*binary)(cj_tensor *a, cj_tensor *b);
        cj_tensor *(*scalar)(cj_tensor *x, double s);
        cj_tensor *(*reduce)(cj_tensor *x, const cj_reduce_opts *o);
        cj_tensor *(*loss)(cj_tensor *x, cj_tensor *t, const cj_loss_opts *o);
        cj_tensor *(*many)(cj_tensor *const *in, cj_reduction reduction);
    } fn;
    double number, number2;
    int64_t at[4];
    cj_axes axes;
    bool keepdim;
    cj_shape shape;
    cj_dtype dtype; /* of the run: for calls without inputs */
};

/* The samples of a row into out[CJ_SAMPLES]; their number.  Internal rows (fused backward) have none: their composites reach them. */
int cj__samples(const cj_op *op, cj_sample *out);
/* Is input i a float-like value (it takes the dtype of the run), not an index or a mask? */
bool cj__sample_value(const cj_sample *s, int i);
/* Can this layout be made for the sample? */
bool cj__sample_layout(const cj_sample *s, cj_layout layout);
/* Input i in the innermost scope of c: the values of kind `values` (a float type, i64, u8 or bool: the domain depends on it), stored as dtype. */
cj_tensor *cj__sample_input(cj_ctx *c, const cj_sample *s, int i, cj_dtype values, cj_dtype dtype, cj_layout layout, uint64_t seed);

#endif
