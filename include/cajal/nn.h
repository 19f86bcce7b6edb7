/* cajal/nn.h: modules and parameters.
 *
 * A module is a tree: names, parameters, children, mode.  Parameter names equal PyTorch's state_dict names ("0.weight").  Modules live as long as the context.
 */
#ifndef CAJAL_NN_H
#define CAJAL_NN_H

#include <cajal/core.h>
#include <cajal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters -------------------------------------------------------------------------------------------------------------------------- */

/* A persistent leaf with t's value (copied): gradients are asked for it, optimisers update it. */
CJ_API cj_tensor *cj_param(cj_tensor *t);

/* The parameters of a tree, each once (a shared one too), in order of first use, with their names. */
typedef struct cj_params cj_params;
CJ_API int cj_params_count(const cj_params *p);
CJ_API cj_tensor *cj_params_at(const cj_params *p, int i);
CJ_API const char *cj_params_name(const cj_params *p, int i);
CJ_API cj_tensor *cj_params_find(const cj_params *p, const char *name);  /* NULL where there is none */
CJ_API int64_t cj_params_numel(const cj_params *p);                      /* elements of all */
/* Lays all parameters of a dtype out as slices of one aligned buffer; the tensors stay valid. cj_params_flat then is that buffer as a 1-D tensor. */
CJ_API bool cj_params_flatten(cj_params *p);
CJ_API cj_tensor *cj_params_flat(const cj_params *p, cj_dtype dtype);    /* NULL before flatten or without such parameters */
CJ_API void cj_zero_grad(cj_params *p);

/* ---- modules ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_module cj_module;

/* How a kind of module works: forward of unary modules; `self` is the memory asked for in cj_module_new. */
typedef struct cj_module_type {
    const char *name;
    cj_tensor *(*forward)(cj_module *m, void *self, cj_tensor *x);
    void (*free)(cj_module *m, void *self);  /* for what self owns besides children and parameters; may be NULL */
} cj_module_type;

CJ_API cj_module *cj_module_new(cj_ctx *c, const cj_module_type *type, size_t self_size);  /* self is zeroed */
CJ_API void *cj_module_self(const cj_module *m);
CJ_API cj_ctx *cj_module_ctx(const cj_module *m);
CJ_API const char *cj_module_type_name(const cj_module *m);
CJ_API cj_module *cj_module_add(cj_module *m, const char *name, cj_module *child);         /* returns the child */
CJ_API cj_tensor *cj_module_param(cj_module *m, const char *name, cj_tensor *value);       /* registers a parameter made from value (or a shared one as it is) */
CJ_API cj_tensor *cj_module_buffer(cj_module *m, const char *name, cj_tensor *value);      /* a persistent tensor that is saved but not trained */
CJ_API int cj_module_children(const cj_module *m);
CJ_API cj_module *cj_module_child(const cj_module *m, int i);
CJ_API const char *cj_module_child_name(const cj_module *m, int i);
CJ_API cj_params *cj_module_params(cj_module *m);                                          /* lives with the module */
/* Parameters and buffers by name, as saved in checkpoints; returns their number, calls visit for each. */
CJ_API int cj_module_state(cj_module *m, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
CJ_API void cj_module_train(cj_module *m, bool training);                                  /* the whole tree; training is the default */
CJ_API bool cj_module_training(const cj_module *m);

/* Runs a unary module in an inner scope: its temporaries go when it returns. */
CJ_API cj_tensor *cj_forward(cj_module *m, cj_tensor *x);

/* ---- layers ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_linear_opts {
    bool no_bias;
    double init_std;   /* 0: PyTorch's default, uniform ±1/sqrt(in) */
    bool zero_bias;
} cj_linear_opts;
CJ_API cj_module *cj_linear(cj_ctx *c, int64_t in, int64_t out, const cj_linear_opts *opts);    /* weight [out, in], bias [out] */
typedef struct cj_embedding_opts {
    double init_std;   /* 0: 1 as in PyTorch */
} cj_embedding_opts;
CJ_API cj_module *cj_embedding_layer(cj_ctx *c, int64_t count, int64_t dim, const cj_embedding_opts *opts);  /* weight [count, dim] */
typedef struct cj_layer_norm_opts {
    double eps;        /* 1e-5 */
    bool no_affine, no_bias;
} cj_layer_norm_opts;
CJ_API cj_module *cj_layer_norm_layer(cj_ctx *c, int64_t dim, const cj_layer_norm_opts *opts);
CJ_API cj_module *cj_dropout_layer(cj_ctx *c, double p);
CJ_API cj_module *cj_relu_layer(cj_ctx *c);
CJ_API cj_module *cj_tanh_layer(cj_ctx *c);
CJ_API cj_module *cj_sigmoid_layer(cj_ctx *c);
CJ_API cj_module *cj_gelu_layer(cj_ctx *c);
CJ_API cj_module *cj_flatten_layer(cj_ctx *c);
/* Modules one after the other, named "0", "1", …; the array ends with NULL. */
CJ_API cj_module *cj_sequential(cj_ctx *c, cj_module *const *modules);

/* ---- models: how a zoo file describes itself ----------------------------------------------------------------------------------------------------- */

/* A setting, given on the command line as key=value. Whole numbers, unless `real` or `choices` says otherwise. */
typedef struct cj_setting {
    const char *key;
    double value;         /* default; of choices: the index of a word */
    const char *help;
    double least, most;   /* what is allowed; most 0: no upper limit */
    bool real;
    const char *choices;  /* words, as in "relu tanh gelu" */
} cj_setting;

typedef enum cj_task { CJ_TASK_CLASSIFY, CJ_TASK_REGRESS, CJ_TASK_NEXT_TOKEN } cj_task;

typedef struct cj_model {
    const char *name, *family, *summary;
    cj_task task;
    const cj_setting *settings;      /* ends with a NULL key */
    const cj_setting *recipe;        /* keys and values that replace the defaults of the training loop (train.h); ends with a NULL key; may be NULL */
    /* Builds the model for inputs of in features (or a vocabulary of in symbols) and out classes. get reads a setting by key. */
    cj_module *(*build)(cj_ctx *c, int64_t in, int64_t out, double (*get)(const void *settings, const char *key), const void *settings);
    /* Loss of a batch: x and y as the task has them. NULL: the task's usual loss on cj_forward. */
    cj_tensor *(*loss)(cj_module *m, cj_tensor *x, cj_tensor *y);
} cj_model;

#ifdef __cplusplus
}
#endif
#endif
