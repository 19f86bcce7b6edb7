/* Shared inside src/nn and src/optim. */
#ifndef CJ_NN_NN_H
#define CJ_NN_NN_H

#include "cajal/grad.h"
#include "cajal/nn.h"
#include "core/core.h"

typedef struct cj_param_item {
    char *name;
    cj_tensor *tensor;
} cj_param_item;

struct cj_params {
    cj_ctx *ctx;
    cj_param_item *item;
    int n, cap;
    cj_tensor *flat[CJ_DTYPES];
    cj_params *older; /* list of the same module, collected before it changed */
};

bool cj__params_add(cj_params *p, const char *name, cj_tensor *t);
void cj__params_clear(cj_params *p);
/* Offset of each parameter of a dtype in the flat buffer (offset may be NULL); returns the buffer's length. */
int64_t cj__params_offsets(const cj_params *p, cj_dtype dtype, int64_t *offset);

/* m is a module of this type and its context without error; else an error that names the function (found through x where m is NULL), and false. */
bool cj__module_is(const cj_module *m, const cj_module_type *type, const char *function, cj_tensor *x);

/* The module's forward pass under a name of the path. */
cj_tensor *cj__forward_as(cj_module *m, const char *name, cj_tensor *x);

/* Who watches modules run (describe.c): ctx->observer. Functions with several inputs call begins and ends as cj_forward does; not after an error. */
typedef struct cj_observer cj_observer;
struct cj_observer {
    void (*begins)(cj_observer *o, cj_module *m, cj_tensor *x);
    void (*ends)(cj_observer *o, cj_module *m, cj_tensor *y);
};
void cj__module_begins(cj_module *m, cj_tensor *x);
void cj__module_ends(cj_module *m, cj_tensor *x, cj_tensor *y);

/* A layer whose "weight" is computed from other members before every pass (reparametrise.c). */
typedef struct cj_reparametrisation cj_reparametrisation;
struct cj_reparametrisation {
    cj_tensor *(*value)(cj_module *m, const cj_reparametrisation *r);
    cj_tensor *original;     /* the parameter that was called weight */
    cj_tensor *scale;        /* weight_g */
    cj_tensor *left, *right; /* weight_u, weight_v of the spectral norm */
    int64_t iterations;
    double eps;
    int axis;
};
cj_tensor *cj__module_own(const cj_module *m, const char *name); /* a parameter or buffer of the module itself, or NULL */
void cj__module_visit_own(cj_module *m, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
bool cj__module_can_reparametrise(cj_module *m, const char *function);
bool cj__module_reparametrise(cj_module *m, const cj_reparametrisation *r, const char *name); /* weight is called `name` from now on */

/* How a layer's result depends on positions of its input; false: not through windows. */
typedef struct cj_window_geometry {
    int axes;
    int64_t kernel[3], stride[3], dilation[3];
    bool whole; /* on all positions */
} cj_window_geometry;
bool cj__conv_window(const cj_module *m, const cj_tensor *x, cj_window_geometry *w);

#endif
