/* cajal/optim.h: optimisers over parameters.  Formulas and defaults are PyTorch's.
 *
 * Learning rate, step count and gradient norm live in tensors, so a captured step follows a schedule.  A step changes all parameters and states or, after an error,
 * none.
 */
#ifndef CAJAL_OPTIM_H
#define CAJAL_OPTIM_H

#include <cajal/grad.h>
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
    double clip_value;     /* every element of a gradient is first cut to [-clip_value, clip_value]; 0: never */
    bool maximise;         /* goes up instead of down */
    const cj_comm *comm;   /* NULL: one process */
} cj_sgd_opts;
CJ_API cj_optim *cj_sgd(cj_params *p, const cj_sgd_opts *opts);

typedef struct cj_adam_opts {
    double lr;             /* 1e-3 */
    double beta1, beta2;   /* 0.9, 0.999 */
    double eps;            /* 1e-8 */
    double weight_decay;   /* 0; AdamW: 0.01 */
    bool amsgrad;          /* divide by the largest second moment so far (Reddi, Kale & Kumar 2018) */
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_adam_opts;
CJ_API cj_optim *cj_adam(cj_params *p, const cj_adam_opts *opts);    /* weight decay added to the gradient */
CJ_API cj_optim *cj_adamw(cj_params *p, const cj_adam_opts *opts);   /* decoupled weight decay (Loshchilov & Hutter 2019) */

/* The rules below are on the CPU. g is the gradient plus weight_decay · p (decoupled: p is multiplied by 1 - lr · weight_decay instead). */

typedef struct cj_adagrad_opts {
    double lr;             /* 0.01 */
    double lr_decay;       /* the rate of step t is lr / (1 + (t - 1) lr_decay) */
    double initial;        /* of the sum */
    double eps;            /* 1e-10 */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_adagrad_opts;
CJ_API cj_optim *cj_adagrad(cj_params *p, const cj_adagrad_opts *opts);      /* G += g²; p -= lr g / (sqrt G + eps) */

typedef struct cj_rmsprop_opts {
    double lr;             /* 0.01 */
    double alpha;          /* 0.99 */
    double eps;            /* 1e-8 */
    double momentum;
    bool centred;          /* divide by the deviation of g instead of its root mean square */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_rmsprop_opts;
CJ_API cj_optim *cj_rmsprop(cj_params *p, const cj_rmsprop_opts *opts);      /* v = alpha v + (1 - alpha) g²; p -= lr g / (sqrt v + eps) */

typedef struct cj_adamax_opts {
    double lr;             /* 2e-3 */
    double beta1, beta2;   /* 0.9, 0.999 */
    double eps;            /* 1e-8 */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_adamax_opts;
CJ_API cj_optim *cj_adamax(cj_params *p, const cj_adamax_opts *opts);        /* u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) m / u */

typedef struct cj_nadam_opts {
    double lr;             /* 2e-3 */
    double beta1, beta2;   /* 0.9, 0.999 */
    double eps;            /* 1e-8 */
    double momentum_decay; /* 4e-3: the momentum of step t is beta1 (1 - 0.96^(t momentum_decay) / 2) */
    double weight_decay;
    bool decoupled;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_nadam_opts;
CJ_API cj_optim *cj_nadam(cj_params *p, const cj_nadam_opts *opts);          /* Adam with Nesterov momentum (Dozat 2016) */

typedef struct cj_sign_sgd_opts {
    double lr;             /* 1e-3 */
    double momentum;       /* not 0: the sign of the mean m = momentum m + (1 - momentum) g */
    double weight_decay;   /* decoupled */
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_sign_sgd_opts;
CJ_API cj_optim *cj_sign_sgd(cj_params *p, const cj_sign_sgd_opts *opts);    /* p -= lr sign(g) (Bernstein et al. 2018) */

typedef struct cj_lion_opts {
    double lr;             /* 1e-4 */
    double beta1, beta2;   /* 0.9, 0.99 */
    double weight_decay;   /* decoupled */
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_lion_opts;
CJ_API cj_optim *cj_lion(cj_params *p, const cj_lion_opts *opts);            /* p -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g (Chen et al. 2023) */

/* Gradients of this optimiser's parameters, then the step. False: an error is set and nothing changed. */
CJ_API bool cj_minimise(cj_optim *o, cj_tensor *loss);
/* Adds weight · d loss/d p to the gradients; cj_step then uses their sum. For batches that do not fit. */
CJ_API bool cj_accumulate(cj_optim *o, cj_tensor *loss, double weight);
CJ_API bool cj_step(cj_optim *o);                                    /* from the gradients of cj_backward or cj_accumulate, which are then zeroed */

CJ_API void cj_optim_set_lr(cj_optim *o, double lr);                 /* a write into the tensor that plans read; ends a schedule */
CJ_API double cj_optim_lr(const cj_optim *o);                        /* of the next step */
CJ_API int64_t cj_optim_steps(cj_optim *o);
CJ_API cj_params *cj_optim_params(cj_optim *o);
/* State by name ("step", "exp_avg", "master.bf16" …) for checkpoints: calls visit for each tensor. */
CJ_API int cj_optim_state(cj_optim *o, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
CJ_API void cj_optim_free(cj_optim *o);                              /* or with the context */

/* ---- schedules: the learning rate as a function of the step t = 0, 1, … ---------------------------------------------------------------------- */

#define CJ_MAX_MILESTONES 16
/* A value made by the functions below; copy it freely. Wrong arguments are kept as `problem`: such a rate is NaN, and cj_optim_schedule says what is wrong. */
typedef struct cj_rate {
    int kind, n;
    double lr, low, start, factor;
    int64_t steps, times, milestone[CJ_MAX_MILESTONES];
    int64_t warmup;
    double warmup_start;
    bool linear;
    const char *problem;   /* NULL: none */
} cj_rate;
CJ_API cj_rate cj_rate_constant(double lr);
CJ_API cj_rate cj_rate_step(double lr, int64_t every, double factor);                                 /* lr · factor^floor(t / every) */
CJ_API cj_rate cj_rate_multi_step(double lr, const int64_t *milestones, int n, double factor);        /* lr · factor^(milestones <= t) */
CJ_API cj_rate cj_rate_exponential(double lr, double factor);                                         /* lr · factor^t */
CJ_API cj_rate cj_rate_cosine(double lr, double low, int64_t steps);                                  /* low + (lr - low)(1 + cos(pi t / steps)) / 2, then low */
CJ_API cj_rate cj_rate_cosine_restarts(double lr, double low, int64_t first, int64_t times);          /* cosines of first, first · times, first · times² … steps */
CJ_API cj_rate cj_rate_polynomial(double lr, int64_t steps, double power);                            /* lr (1 - t / steps)^power, then 0 */
typedef struct cj_one_cycle_opts {
    double rise;             /* 0.3: share of the steps in which the rate rises */
    double start_divisor;    /* 25: the first rate is highest / start_divisor */
    double end_divisor;      /* 1e4: the last one is the first / end_divisor */
    bool linear;             /* lines instead of half cosines */
} cj_one_cycle_opts;
CJ_API cj_rate cj_rate_one_cycle(double highest, int64_t steps, const cj_one_cycle_opts *opts);
CJ_API cj_rate cj_rate_inverse_time(double beta, double offset);                                      /* beta / (t + offset) (Robbins & Monro) */
CJ_API cj_rate cj_rate_inverse_root(double beta, double offset);                                      /* beta / sqrt(t + offset) */
/* r after a line from start · r(0) to r(0) in the first steps: at t < steps r(0)(start + (1 - start) t / steps), then r(t - steps). */
CJ_API cj_rate cj_rate_warmup(cj_rate r, int64_t steps, double start);
CJ_API double cj_rate_at(const cj_rate *r, int64_t step);
/* From now on step t of the optimiser uses r(t), captured steps too (CPU; elsewhere cj_optim_set_lr before each step). NULL: the rate stays where it is. */
CJ_API bool cj_optim_schedule(cj_optim *o, const cj_rate *r);

/* Reduce on plateau: fill in lr and what differs from the defaults, then give it each epoch's loss; what it returns goes to cj_optim_set_lr. When the loss has not
 * fallen below best · (1 - threshold) for more than `patience` calls, lr is multiplied by factor, but not below least. */
typedef struct cj_plateau {
    double lr;
    double factor;      /* 0.1 */
    int64_t patience;   /* 10; -1: none */
    double threshold;   /* 1e-4 */
    int64_t cooldown;   /* calls after a reduction that do not count */
    double least;
    double best;        /* the rest is its own */
    int64_t bad, resting;
    bool started;
} cj_plateau;
CJ_API double cj_plateau_lr(cj_plateau *p, double loss);

/* ---- averages of parameters over the steps ---------------------------------------------------------------------------------------------------- */

typedef struct cj_average cj_average;
typedef struct cj_average_opts {
    double decay;   /* 0: the mean of all updates (Polyak & Ruppert, stochastic weight averaging); else mean = decay · mean + (1 - decay) p, the first one p itself */
} cj_average_opts;
CJ_API cj_average *cj_average_new(cj_params *p, const cj_average_opts *opts);
CJ_API bool cj_average_update(cj_average *a);        /* takes the parameters as they are in; may stand in a captured step */
CJ_API bool cj_average_swap_in(cj_average *a);       /* parameters become their averages (to evaluate, to save) … */
CJ_API bool cj_average_swap_out(cj_average *a);      /* … and what they were, to the bit */
CJ_API int64_t cj_average_count(cj_average *a);      /* updates so far */
CJ_API int cj_average_state(cj_average *a, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
CJ_API void cj_average_free(cj_average *a);          /* or with the context */

/* ---- full-batch methods: minimise fn(x), a function of x[n] that returns one number ---------------------------------------------------------------- */

/* x are persistent tensors (cj_keep, cj_param) of float types; fn gets tensors of their shapes and dtypes. Between evaluations everything is f64 on the host. x gets
 * the last point; false: an error is set and x is as it was. A function that is not finite is an error. `out` may be NULL. */

typedef enum cj_search {
    CJ_SEARCH_USUAL,   /* the method's */
    CJ_SEARCH_FIXED,   /* the step as given */
    CJ_SEARCH_ARMIJO,  /* halve it until f falls by 1e-4 of what the slope promises */
    CJ_SEARCH_WOLFE,   /* and the slope to 0.9 of what it was (strong Wolfe conditions) */
    CJ_SEARCH_EXACT    /* -g·d / d·Hd: the minimum along d of a quadratic */
} cj_search;
typedef struct cj_solve_opts {
    int64_t iterations;  /* 100 at most */
    double tolerance;    /* 1e-8: stops when no element of the gradient is larger */
    double step;         /* 1: fixed, or the first one that a search tries */
    cj_search search;
    int history;         /* L-BFGS: 10 pairs */
    bool unscaled;       /* L-BFGS: the first inverse Hessian is I instead of (s·y / y·y) I */
    double damping;      /* Newton, Gauss-Newton: added to the diagonal of the matrix */
    double cg_tolerance; /* Newton-CG: of |Hd + g| / |g|; 0: min(0.5, sqrt|g|) */
} cj_solve_opts;
typedef struct cj_solution {
    double value, gradient;           /* f and the largest element of its gradient */
    int64_t iterations, evaluations;  /* of fn, its derivatives and products included */
    bool converged;                   /* by tolerance */
} cj_solution;
/* d = -g; Armijo */
CJ_API bool cj_descent(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);
/* Two-loop recursion; Wolfe. With CJ_SEARCH_FIXED the steps of torch.optim.LBFGS: min(1, 1 / |g|_1) · step first, then step. */
CJ_API bool cj_lbfgs(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);
/* The inverse Hessian as a matrix, from I on; Wolfe. */
CJ_API bool cj_bfgs(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);
/* (H + damping I) d = -g, H column by column with cj_hvp; fixed step. */
CJ_API bool cj_newton(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);
/* H d = -g by conjugate gradients with cj_hvp, stopped where the curvature is not positive; Armijo. */
CJ_API bool cj_newton_cg(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);
/* fn returns residuals r of any shape; f = 1/2 sum r²; (JᵀJ + damping I) d = -Jᵀr; fixed step. */
CJ_API bool cj_gauss_newton(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts);

/* f(x) + h(x), f smooth: x = prox(x - step · grad f(x)), prox of step · h. The iteration ends when no element of x has moved by more than tolerance · step. */
typedef struct cj_proximal_opts {
    enum { CJ_PROX_L1, CJ_PROX_BALL, CJ_PROX_BOX } prox;  /* weight · |x|_1 (ISTA: soft threshold); |x|_2 <= radius; low <= x_i <= high (projected gradient) */
    double weight, radius, low, high;
    double step;         /* at most 1 / L, L the largest curvature of f; must be given */
    bool accelerate;     /* FISTA (Beck & Teboulle 2009) */
    int64_t iterations;  /* 1000 */
    double tolerance;    /* 1e-10 */
} cj_proximal_opts;
/* value is f alone, gradient the largest |change of x| / step. */
CJ_API bool cj_proximal(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_proximal_opts *opts);

/* ---- variance-reduced stochastic gradients of a mean of losses, (1/N) sum_i l_i(x) ---------------------------------------------------------------------- */

typedef cj_tensor *(*cj_example_fn)(cj_ctx *c, void *user, cj_tensor *const *x, int n, int64_t example);  /* l_i(x), one number */
typedef struct cj_variance_opts {
    double step;         /* must be given; 1 / (3 L) is usual, L the largest curvature of an l_i */
    int64_t iterations;  /* steps; 10 N */
    int64_t refresh;     /* SVRG: steps between snapshots; 2 N */
} cj_variance_opts;
/* Examples are drawn with replacement from CJ_STREAM_DATA. Both keep a gradient per example, at first those of the start:
 *   SAGA  x -= step (g_i(x) - g_i + mean g)      SAG  store g_i = g_i(x), then x -= step · mean g
 * SVRG keeps the gradients of a snapshot s instead: x -= step (g_i(x) - g_i(s) + mean g(s)). */
CJ_API bool cj_saga(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts);
CJ_API bool cj_sag(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts);
CJ_API bool cj_svrg(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_variance_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
