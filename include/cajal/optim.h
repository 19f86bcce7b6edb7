/* cajal/optim.h: optimisers over parameters.  Formulas and defaults are PyTorch's.
 *
 * Learning rate, step count and gradient norm live in tensors, so a captured step follows a schedule.  A step changes all parameters and states or, after an error,
 * none.
 */
#ifndef CAJAL_OPTIM_H
#define CAJAL_OPTIM_H

#include <cajal/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_optim cj_optim;

/* Parameters may be f32, f64, bf16 or f16. Half-precision ones have an f32 master copy, owned by the optimiser, that is updated and rounded into the parameter; states
 * are f32. With a comm, every rank starts from rank 0's parameters and gradients are averaged over the ranks before clipping and update. */

typedef struct cj_sgd_opts {
    double lr;             /* 0.01 */
    double momentum;       /* heavy ball */
    double dampening;
    double weight_decay;
    bool nesterov;
    double clip_norm;      /* gradients are scaled down to this norm, taken over all of them; 0: never */
    const cj_comm *comm;   /* NULL: one process */
} cj_sgd_opts;
CJ_API cj_optim *cj_sgd(cj_params *p, const cj_sgd_opts *opts);

typedef struct cj_adam_opts {
    double lr;             /* 1e-3 */
    double beta1, beta2;   /* 0.9, 0.999 */
    double eps;            /* 1e-8 */
    double weight_decay;   /* 0; AdamW: 0.01 */
    double clip_norm;
    const cj_comm *comm;
} cj_adam_opts;
CJ_API cj_optim *cj_adam(cj_params *p, const cj_adam_opts *opts);    /* weight decay added to the gradient */
CJ_API cj_optim *cj_adamw(cj_params *p, const cj_adam_opts *opts);   /* decoupled weight decay (Loshchilov & Hutter 2019) */

/* Gradients of this optimiser's parameters, then the step. False: an error is set and nothing changed. */
CJ_API bool cj_minimise(cj_optim *o, cj_tensor *loss);
/* Adds weight · d loss/d p to the gradients; cj_step then uses their sum. For batches that do not fit. */
CJ_API bool cj_accumulate(cj_optim *o, cj_tensor *loss, double weight);
CJ_API bool cj_step(cj_optim *o);                                    /* from the gradients of cj_backward or cj_accumulate, which are then zeroed */

CJ_API void cj_optim_set_lr(cj_optim *o, double lr);                 /* a write into the tensor that plans read */
CJ_API double cj_optim_lr(const cj_optim *o);
CJ_API int64_t cj_optim_steps(cj_optim *o);
CJ_API cj_params *cj_optim_params(cj_optim *o);
/* State by name ("step", "exp_avg", "master.bf16" …) for checkpoints: calls visit for each tensor. */
CJ_API int cj_optim_state(cj_optim *o, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
CJ_API void cj_optim_free(cj_optim *o);                              /* or with the context */

#ifdef __cplusplus
}
#endif
#endif
