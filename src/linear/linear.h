/* Shared inside src/linear: examples as numbers on the host. */
#ifndef CJ_LINEAR_LINEAR_H
#define CJ_LINEAR_LINEAR_H

#include "cajal/linear.h"
#include "optim/objective.h"

typedef struct cj__examples {
    cj_ctx *c;
    int64_t n, d, columns; /* columns: d, and one of ones where there is a bias */
    double *x, *y;         /* [n, columns], [n] */
    double *more;          /* zeros, as many as were asked for */
    double *memory;
    size_t bytes;
    cj_dtype dtype; /* of x */
} cj__examples;

/* x is [n, d] of f32 or f64, n and d not 0; y, where it is not NULL, [n].  The error says what else it is. */
bool cj__examples_check(const char *op, cj_tensor *x, cj_tensor *y);
/* Checks and reads them.  False: an error is set, nothing to close. */
bool cj__examples_read(cj__examples *e, const char *op, cj_tensor *x, cj_tensor *y, bool bias, int64_t more);
/* The same, saying here what it promises, for analysers to know that too. */
static inline bool cj__examples_open(cj__examples *e, const char *op, cj_tensor *x, cj_tensor *y, bool bias, int64_t more)
{
    return cj__examples_read(e, op, x, y, bias, more) && e->more && e->n > 0;
}
void cj__examples_close(cj__examples *e);
/* A result from weights [columns, k]: row d is the bias; k 0 means one target, without an axis.  Poison after an error. */
cj_fit cj__fit_of(const cj__examples *e, const double *w, int64_t k);
cj_fit cj__fit_failed(const cj_tensor *x);

#endif
