/* Shared by the full-batch methods: a function of tensors as a function of one vector of doubles.
 *
 * The methods compute in f64 on the host, between evaluations of the function, which sees tensors of x's shapes and dtypes.  x itself is written once, at the end.
 */
#ifndef CJ_OPTIM_OBJECTIVE_H
#define CJ_OPTIM_OBJECTIVE_H

#include "optim/optim.h"

#define CJ__MAX_X 64 /* tensors of one function, as in the transforms of grad.h */

typedef struct cj__objective {
    const char *name; /* of the method, for errors */
    cj_ctx *ctx;
    cj_fn fn;
    void *user;
    cj_tensor *const *x;
    int n;
    int64_t size;        /* elements of all x */
    int64_t evaluations; /* of the function, with or without derivatives */
    double *memory;      /* the method's vectors */
    size_t bytes;
} cj__objective;

/* Checks the arguments and takes memory for `vectors` vectors of size and `more` further doubles; the first vector gets x.  False: an error is set, nothing to close. */
bool cj__objective_open(cj__objective *ob, int vectors, int64_t more);
/* f(w) and, where g is not NULL, its gradient.  NaN after an error. */
double cj__objective_at(cj__objective *ob, const double *w, double *g);
/* H(w) v */
bool cj__objective_hvp(cj__objective *ob, const double *w, const double *v, double *out);
/* The tensors at w, in the innermost scope. */
bool cj__objective_tensors(cj__objective *ob, const double *w, cj_tensor **out);
/* Writes w into x unless an error is set, gives the memory back; true when all went well. */
bool cj__objective_close(cj__objective *ob, const double *w);

/* One example's loss as a function: fn = cj__example_loss, user = the example. */
typedef struct cj__example {
    cj_example_fn fn;
    void *user;
    int64_t example;
} cj__example;
cj_tensor *cj__example_loss(cj_ctx *c, void *user, cj_tensor *const *x, int n);
/* The gradient of the example there; false after an error: a loss or gradient that is not finite is one. */
bool cj__example_gradient(cj__objective *ob, int64_t example, const double *w, double *g);

/* Checks that methods share: a step must be positive and finite; iterations and tolerance not negative. */
bool cj__step_ok(cj_ctx *c, const char *name, double step);
bool cj__limits_ok(cj_ctx *c, const char *name, int64_t iterations, double tolerance);
/* f and the largest element of g at w are finite, or an error that says after how many iterations they are not. */
bool cj__finite(cj__objective *ob, double f, const double *g, int64_t iterations);
/* n normal numbers from CJ_STREAM_USER. */
bool cj__normal(cj_ctx *c, double *out, int64_t n);

/* Elements of all x; what is no tensor counts as none (opening the objective refuses it). */
int64_t cj__total(cj_tensor *const *x, int n);
double cj__dot(const double *a, const double *b, int64_t n);
double cj__largest(const double *a, int64_t n);                 /* |a|, NaN where there is one */
void cj__axpy(double s, const double *a, double *y, int64_t n); /* y += s a */
/* a x = b by elimination with pivots; a [n, n] and b are used up, b becomes x.  False: a is singular. */
bool cj__solve(double *a, double *b, int64_t n);

/* ---- line searches (line_search.c): a step along d from w, where f and the slope g·d < 0 are known ------------------------------------------------ */

typedef struct cj__line {
    cj__objective *ob;
    const double *w, *d;
    double f, slope;
    double *trial;    /* at the end: w + step d … */
    double *gradient; /* … its gradient, where the search computes gradients … */
    double value;     /* … and f there */
} cj__line;

/* The step that a search of this kind takes, at first try `step`; 0 where there is none (the function is as low as rounding lets it be) or after an error.
 * line->gradient is valid afterwards for every kind. */
double cj__line_search(cj__line *line, cj_search kind, double step);

/* ---- descent (descent.c): the loop of all methods that go along a direction ------------------------------------------------------------------------ */

typedef struct cj__method cj__method;
struct cj__method {
    cj_search usual;
    /* d at w from the gradient g; may change `step`.  False after an error. */
    bool (*direction)(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d);
    /* The step s and the change y of the gradient have been made; both may be used as scratch.  May be NULL. */
    void (*moved)(cj__method *m, int64_t size, double *s, double *y);
    int vectors; /* of its own, beside more doubles: here from the start of the loop on */
    int64_t more;
    double *memory;
    double step;  /* that the search tries first; the option's before each direction */
    int64_t done; /* iterations */
};
bool cj__descend(cj__objective *ob, cj__method *m, cj_solution *out, const cj_solve_opts *opts);

#endif
