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

/* Four more, written as rules of the kind below (rules.c), on every device. */
typedef struct cj_adadelta_opts {
    double lr;             /* 1 */
    double rho;            /* 0.9 */
    double eps;            /* 1e-6 */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_adadelta_opts;
/* v = rho v + (1 - rho) g²; d = g sqrt(u + eps) / sqrt(v + eps); u = rho u + (1 - rho) d²; p -= lr d (Zeiler 2012) */
CJ_API cj_optim *cj_adadelta(cj_params *p, const cj_adadelta_opts *opts);
typedef struct cj_radam_opts {
    double lr;             /* 1e-3 */
    double beta1, beta2;   /* 0.9, 0.999 */
    double eps;            /* 1e-8 */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_radam_opts;
/* Adam whose adaptive rate is rectified, and left out while the variance of its estimate is infinite (Liu et al. 2020) */
CJ_API cj_optim *cj_radam(cj_params *p, const cj_radam_opts *opts);
typedef struct cj_rprop_opts {
    double lr;             /* 0.01: every element's first step; schedules change nothing */
    double shrink, grow;   /* 0.5, 1.2 */
    double least, most;    /* 1e-6, 50 */
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_rprop_opts;
/* p -= s sign(g), s of each element times grow where g keeps its sign and times shrink, with no step, where it changes; for whole batches (Riedmiller & Braun 1993) */
CJ_API cj_optim *cj_rprop(cj_params *p, const cj_rprop_opts *opts);
typedef struct cj_asgd_opts {
    double lr;             /* 0.01 */
    double lambda;         /* 1e-4 */
    double alpha;          /* 0.75 */
    double start;          /* 1e6: steps before the mean begins */
    double weight_decay;
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_asgd_opts;
/* e = lr / (1 + lambda lr (t - 1))^alpha; p = (1 - lambda e) p - e g; the state "ax" is the mean of p (Polyak & Juditsky 1992) */
CJ_API cj_optim *cj_asgd(cj_params *p, const cj_asgd_opts *opts);

/* A rule of your own. update returns the new value of a parameter and puts the new values of its states into state[0 … states-1]; all of the parameter's shape and, for
 * half-precision parameters too, f32 (f64). It is written in operators, so it is captured and fused with the rest of the step, and runs where they run. lr (the rate of
 * this step) and t (1, 2, …) are 0-d f64 tensors. What it returns wrong, or an error in it, changes nothing. */
#define CJ_MAX_RULE_STATES 4
typedef struct cj_rule {
    const char *name;
    cj_tensor *(*update)(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t);
    int states;
    const char *state_name[CJ_MAX_RULE_STATES];  /* in checkpoints, before the parameter's name: "exp_avg.0.weight" */
    double initial[CJ_MAX_RULE_STATES];
    const void *payload;                         /* copied */
    size_t payload_size;
} cj_rule;
typedef struct cj_custom_optim_opts {
    double lr;             /* 0.01 */
    double clip_norm, clip_value;
    bool maximise;
    const cj_comm *comm;
} cj_custom_optim_opts;
CJ_API cj_optim *cj_custom_optim(cj_params *p, const cj_rule *rule, const cj_custom_optim_opts *opts);

/* Gradients of this optimiser's parameters, then the step. False: an error is set and nothing changed. */
CJ_API bool cj_minimise(cj_optim *o, cj_tensor *loss);
/* Adds weight · d loss/d p to the gradients; cj_step then uses their sum. For batches that do not fit. */
CJ_API bool cj_accumulate(cj_optim *o, cj_tensor *loss, double weight);
CJ_API bool cj_step(cj_optim *o);                                    /* from the gradients of cj_backward or cj_accumulate, which are then zeroed */

/* A group: parameters whose name ends with `ending` ("bias", "norm.weight", a whole name) get lr_factor · the rate and a weight decay of their own, from now on; the
 * last group that fits counts. Biases and norms usually do not decay: cj_optim_group(o, "bias", 1, 0). CPU; before a capture. False after an error. */
CJ_API bool cj_optim_group(cj_optim *o, const char *ending, double lr_factor, double weight_decay);
CJ_API void cj_optim_set_lr(cj_optim *o, double lr);                 /* a write into the tensor that plans read; ends a schedule; finite and not negative */
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
/* The rate for batches of `to` examples that has the noise lr / batch of lr at batches of `from`: lr · to / from, but no more than `most` (about 1 / L; 0: no limit). */
CJ_API double cj_batch_scaled_lr(double lr, int64_t from, int64_t to, double most);
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
    CJ_SEARCH_EXACT,   /* -g·d / d·Hd: the minimum along d of a quadratic */
    CJ_SEARCH_BRACKET  /* the minimum along d of any smooth function: a bracket, doubled until it holds one, shrunk by golden sections, then one secant step */
} cj_search;
typedef struct cj_solve_opts {
    int64_t iterations;  /* 100 at most */
    double tolerance;    /* 1e-8: stops when no element of the gradient is larger */
    double step;         /* 1: fixed, or the first one that a search tries */
    cj_search search;
    int history;         /* L-BFGS: 10 pairs */
    double *inverse_hessian; /* BFGS: [size, size] numbers of the caller's for its last estimate; NULL: not wanted */
    bool unscaled;       /* L-BFGS: the first inverse Hessian is I instead of (s·y / y·y) I */
    double damping;      /* Newton, Gauss-Newton: added to the diagonal of the matrix */
    double cg_tolerance; /* Newton-CG: of |Hd + g| / |g|; 0: min(0.5, sqrt|g|) */
    cj_tensor *metric;   /* descent: G, positive definite [size, size], or its diagonal [size]: d = -G^(-1/2) g; NULL: the identity */
} cj_solve_opts;
typedef struct cj_solution {
    double value, gradient;           /* f and the largest element of its gradient */
    int64_t iterations, evaluations;  /* of fn, its derivatives and products included */
    bool converged;                   /* by tolerance */
} cj_solution;
/* d = -g, or -G^(-1/2) g (preconditioned); Armijo */
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

/* Momentum of step t = 1, 2, …: (t - 1) / (t + 2) for convex functions; (sqrt k - 1) / (sqrt k + 1), k = L / m, for strongly convex ones (heavy ball: its square). */
CJ_API double cj_momentum_convex(int64_t t);
CJ_API double cj_momentum_strongly_convex(double condition);
typedef struct cj_accelerated_opts {
    double step;         /* must be given; at most 1 / L */
    double momentum;     /* rho; 0: cj_momentum_convex(t), CJ_ZERO: none */
    bool heavy_ball;     /* the gradient is that of x instead of y */
    int64_t iterations;  /* 100 */
    double tolerance;    /* 1e-8, of the largest element of the gradient */
} cj_accelerated_opts;
/* Nesterov's method: y = x + rho (x - x before), x = y - step · grad f(y). */
CJ_API bool cj_accelerated(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_accelerated_opts *opts);

typedef struct cj_flow_opts {
    int64_t steps;       /* 100 */
    bool euler;          /* gradient descent with step time / steps, to the bit; else Runge and Kutta's rule of order 4 */
} cj_flow_opts;
/* Gradient flow: dx/dt = -grad f(x) from 0 to `time`. */
CJ_API bool cj_gradient_flow(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, double time, cj_solution *out, const cj_flow_opts *opts);

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

typedef struct cj_sampled_opts {
    double step;             /* must be given */
    int64_t iterations;      /* steps; 10 N / batch */
    int64_t batch;           /* 1 */
    bool shuffled;           /* without replacement: each pass sees every example once */
    cj_tensor *probability;  /* [N], with replacement: gradients are divided by N p_i, so that their mean stays the gradient; NULL: uniform */
    bool unweighted;         /* … and not divided: biased */
} cj_sampled_opts;
/* Stochastic gradient descent: x -= step · mean of g_i(x) over a batch of examples drawn from CJ_STREAM_DATA. */
CJ_API bool cj_sampled_descent(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_sampled_opts *opts);

/* The empirical Fisher matrix (1/N) sum_i g_i g_iᵀ at x, f64 [size, size], or its diagonal (1/N) sum_i g_i² [size]. (Gauss-Newton's JᵀJ: cj_gauss_newton.) */
typedef struct cj_fisher_opts {
    bool diagonal;
} cj_fisher_opts;
CJ_API cj_tensor *cj_fisher(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, const cj_fisher_opts *opts);
typedef struct cj_natural_opts {
    double step;         /* 1 */
    double damping;      /* added to the diagonal; 1e-8 */
    bool diagonal;       /* d_k = -g_k / (F_kk + damping) … */
    bool root;           /* … or -g_k / (sqrt F_kk + damping) */
    int64_t iterations;  /* 100 */
    double tolerance;    /* 1e-8 */
} cj_natural_opts;
/* Natural gradient with the empirical Fisher matrix: (F + damping I) d = -g, x += step d. */
CJ_API bool cj_natural_gradient(cj_ctx *c, cj_example_fn fn, void *user, int64_t examples, cj_tensor *const *x, int n, cj_solution *out,
                                const cj_natural_opts *opts);

/* ---- noise on purpose: random numbers from CJ_STREAM_USER ------------------------------------------------------------------------------------------------ */

typedef struct cj_langevin_opts {
    double step;             /* 0.01 */
    double temperature;      /* 1; CJ_ZERO: gradient descent */
    double batch;            /* not 0: the temperature step / (2 batch) of SGD with batches of this size and gradients of variance 1 */
    const cj_rate *rate;     /* not NULL: the step of iteration t (annealing) */
    int64_t iterations;      /* 1000 */
    void (*visit)(void *seen, int64_t t, const double *x, int64_t size);  /* sees every iterate; may be NULL */
    void *seen;
} cj_langevin_opts;
/* Langevin's dynamics: x -= step · grad f(x) + sqrt(2 step temperature) · normal. For small steps x is distributed as e^(-f / temperature). */
CJ_API bool cj_langevin(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_langevin_opts *opts);

typedef struct cj_entropy_sgd_opts {
    double step;             /* 0.1 */
    double scope;            /* gamma; 1 */
    double inner_step;       /* 0.1 */
    int64_t inner;           /* Langevin steps for each gradient; 20, of which the first quarter is not averaged */
    double temperature;      /* 1e-4; CJ_ZERO: none */
    int64_t iterations;      /* 100 */
} cj_entropy_sgd_opts;
/* Entropy-SGD (Chaudhari et al. 2017): descends minus the local entropy; x -= step · gamma (x - <x'>), <x'> the mean of Langevin's dynamics on
 * f(x') + gamma/2 |x' - x|². Prefers wide minima. */
CJ_API bool cj_entropy_sgd(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_entropy_sgd_opts *opts);

/* ---- without derivatives: fn is only evaluated ------------------------------------------------------------------------------------------------------------- */

typedef struct cj_derivative_free_opts {
    enum {
        CJ_FREE_NELDER_MEAD,    /* a simplex that reflects, expands, contracts, shrinks (1965) */
        CJ_FREE_RANDOM_SEARCH,  /* x + step · normal where that is lower; the step follows the 1/5 rule (Rechenberg 1973) */
        CJ_FREE_EVOLUTION,      /* the weighted mean of the better half of 4 + 3 log(size) draws; cumulative step size (Hansen & Ostermeier 2001) */
        CJ_FREE_DIFFERENCES     /* gradient descent with central differences and backtracking */
    } method;
    double step;             /* 0.5: size of the first simplex, deviation of the first draws, first step */
    int64_t iterations;      /* 1000 · size at most */
    double tolerance;        /* 1e-12: of the spread of f (simplex), of the step or deviation (others) */
} cj_derivative_free_opts;
/* value is f, gradient the last step or spread. */
CJ_API bool cj_derivative_free(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_derivative_free_opts *opts);

/* ---- games: x[n] minimises and y[m] maximises fn(x, y), which gets n + m tensors --------------------------------------------------------------------------- */

typedef struct cj_min_max_opts {
    enum {
        CJ_GAME_SIMULTANEOUS,   /* w -= step v(w), w = (x, y), v = (df/dx, -df/dy) */
        CJ_GAME_ALTERNATING,    /* x first; y sees the new x */
        CJ_GAME_EXTRAGRADIENT,  /* w -= step v(w - step v(w)) (Korpelevich 1976) */
        CJ_GAME_CONSENSUS       /* w -= step (v + weight · grad 1/2 |v|²) (Mescheder, Nowozin & Geiger 2017) */
    } method;
    double step;             /* 0.1 */
    double weight;           /* consensus: 1 */
    int64_t iterations;      /* 100 */
    double tolerance;        /* 0: of the largest |v|; 0 never stops early */
} cj_min_max_opts;
/* value is f, gradient the largest |v|. */
CJ_API bool cj_min_max(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_tensor *const *y, int m, cj_solution *out, const cj_min_max_opts *opts);

/* ---- linear programs ---------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_program {
    enum { CJ_PROGRAM_SOLVED, CJ_PROGRAM_INFEASIBLE, CJ_PROGRAM_UNBOUNDED } outcome;
    cj_tensor *x;            /* f64 [n]; poison unless solved */
    double value;            /* cost·x */
    int64_t pivots;
} cj_program;
/* The least cost·x with a·x = b, x >= 0: cost [n], a [m, n], b [m]. Two phases of the simplex method on a dense table (Dantzig's rule; Bland's where it stalls). */
CJ_API cj_program cj_linear_program(cj_tensor *cost, cj_tensor *a, cj_tensor *b);

#ifdef __cplusplus
}
#endif
#endif
