/* cajal/generative.h: what generative models need besides layers: energies of binary units, diffusion, search and draws of sequences.
 *
 * Everything is written in operators and differentiable unless said otherwise; draws come from the stream CJ_STREAM_SAMPLING.  After an error tensors are poison.
 */
#ifndef CAJAL_GENERATIVE_H
#define CAJAL_GENERATIVE_H

#include <cajal/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Boltzmann machines: x of zeros and ones, E(x) = -xᵀUx - bᵀx, p(x) = e^(-E(x))/Z ------------------------------------------------------------ */

CJ_API cj_tensor *cj_binary_states(cj_ctx *c, int64_t n, cj_dtype dtype);                   /* [2^n, n]: unit k of row i is bit k of i; n up to 20 */
CJ_API cj_tensor *cj_boltzmann_energy(cj_tensor *x, cj_tensor *U, cj_tensor *b);            /* x [.., n], U [n, n], b [n] -> [..] */
/* b_k + U_kk + sum over j != k of (U_kj + U_jk) x_j: the logit of x_k = 1 given all others. [.., n] */
CJ_API cj_tensor *cj_boltzmann_field(cj_tensor *x, cj_tensor *U, cj_tensor *b);
CJ_API cj_tensor *cj_boltzmann_log_partition(cj_tensor *U, cj_tensor *b);                   /* log Z by enumeration, 0-d; up to 20 units */
/* x [m, n] after `sweeps` Gibbs sweeps: every unit in turn is drawn given the others. Without gradients. */
CJ_API cj_tensor *cj_boltzmann_gibbs(cj_tensor *x, cj_tensor *U, cj_tensor *b, int64_t sweeps);

/* The restricted machine E(x, h) = -hᵀWx - cᵀx - bᵀh: W [hidden, visible], b [hidden], c [visible]. Rows x [.., visible] and h [.., hidden]. */
typedef struct cj_rbm {
    cj_tensor *W, *b, *c;
} cj_rbm;
CJ_API cj_tensor *cj_rbm_energy(cj_rbm r, cj_tensor *x, cj_tensor *h);      /* [..] */
CJ_API cj_tensor *cj_rbm_hidden(cj_rbm r, cj_tensor *x);                    /* p(h_j = 1|x) = sigmoid(b_j + W_j x) */
CJ_API cj_tensor *cj_rbm_visible(cj_rbm r, cj_tensor *h);                   /* p(x_k = 1|h) = sigmoid(c_k + hᵀW_k) */
CJ_API cj_tensor *cj_rbm_free_energy(cj_rbm r, cj_tensor *x);               /* -cᵀx - sum_j softplus(b_j + W_j x) = -log sum_h e^(-E(x, h)) */
CJ_API cj_tensor *cj_rbm_log_partition(cj_rbm r);                           /* log Z by enumeration of h, 0-d; up to 20 hidden units */
/* x after k steps of block Gibbs sampling: h given x, then x given h. Without gradients. */
CJ_API cj_tensor *cj_rbm_gibbs(cj_rbm r, cj_tensor *x, int64_t k);
/* mean F(x) - mean F(negative), whose gradient is that of contrastive divergence: -mean h(x)xᵀ + mean h(x̄)x̄ᵀ for W. The negative rows count as constants: k Gibbs
 * steps from the data (CD-k), or a chain that goes on from update to update (PCD). */
CJ_API cj_tensor *cj_rbm_contrastive_loss(cj_rbm r, cj_tensor *x, cj_tensor *negative);

/* ---- diffusion: z_t = sqrt(1 - beta_t) z_(t-1) + sqrt(beta_t) eps, t = 1 … T --------------------------------------------------------------------- */

/* beta_t and kept_t = product of 1 - beta_s for s <= t (the share of x's variance in z_t): f64 [T], t = 1 first. Rows of z belong to the times t, i64 [n]. */
typedef struct cj_diffusion {
    int64_t steps;
    cj_tensor *beta, *kept;
} cj_diffusion;
CJ_API cj_diffusion cj_diffusion_of(cj_tensor *beta);                                              /* any schedule, [T] of numbers in (0, 1) */
CJ_API cj_diffusion cj_diffusion_linear(cj_ctx *c, int64_t steps, double first, double last);   /* equally spaced from first to last, both in (0, 1) */
CJ_API cj_tensor *cj_diffusion_step(cj_diffusion d, cj_tensor *z, cj_tensor *t, cj_tensor *eps); /* z_t from z_(t-1) */
CJ_API cj_tensor *cj_diffusion_noised(cj_diffusion d, cj_tensor *x, cj_tensor *t, cj_tensor *eps); /* z_t = sqrt(kept_t) x + sqrt(1 - kept_t) eps */
/* q(z_(t-1)|z_t, x): mean [n, ..] and variance (1 - kept_(t-1))/(1 - kept_t) beta_t, [n, 1 ..]; kept_0 = 1. */
CJ_API cj_mean_variance cj_diffusion_posterior(cj_diffusion d, cj_tensor *x, cj_tensor *z, cj_tensor *t);
CJ_API cj_tensor *cj_diffusion_mean(cj_diffusion d, cj_tensor *z, cj_tensor *t, cj_tensor *eps); /* (z - beta_t/sqrt(1 - kept_t) eps)/sqrt(1 - beta_t) */
CJ_API cj_tensor *cj_diffusion_score(cj_diffusion d, cj_tensor *t, cj_tensor *eps);              /* -eps/sqrt(1 - kept_t): d log q(z_t)/dz for eps = E[eps|z_t] */
/* sigma_t², [n, 1 ..] like z: the posterior's variance; at t = 1, where that is 0, beta_1. */
CJ_API cj_tensor *cj_diffusion_variance(cj_diffusion d, cj_tensor *z, cj_tensor *t);
/* [n]: |posterior mean - mu|²/(2 sigma_t²) with mu = cj_diffusion_mean(z, t, predicted); at t = 1 |x - mu|²/(2 sigma_1²). */
CJ_API cj_tensor *cj_diffusion_mean_loss(cj_diffusion d, cj_tensor *x, cj_tensor *t, cj_tensor *eps, cj_tensor *predicted);
/* [n]: the same number as beta_t²/(2 sigma_t² (1 - beta_t)(1 - kept_t)) |eps - predicted|²; simple: without the factor. */
CJ_API cj_tensor *cj_diffusion_noise_loss(cj_diffusion d, cj_tensor *t, cj_tensor *eps, cj_tensor *predicted, bool simple);
/* The noise in z [n, ..] of time t [n], all of one time. */
typedef cj_tensor *(*cj_denoise_fn)(cj_ctx *c, void *user, cj_tensor *z, cj_tensor *t);
/* Ancestral draws, f32 or f64: z_T normal, then z_(t-1) = mean + sigma_t xi, without xi at t = 1. Without gradients. */
CJ_API cj_tensor *cj_diffusion_sample(cj_ctx *c, cj_diffusion d, cj_denoise_fn fn, void *user, cj_shape shape, cj_dtype dtype);

/* ---- sequences of symbols, one at a time -------------------------------------------------------------------------------------------------------------- */

/* Logits [n, V] of what follows each of n prefixes, i64 [n, t]; log-probabilities are logits too. */
typedef cj_tensor *(*cj_next_fn)(cj_ctx *c, void *user, cj_tensor *prefix);
typedef struct cj_beam_opts {
    int64_t beams;      /* partial hypotheses that are kept; 1: greedy; as many as there are sequences: exhaustive */
    int64_t longest;    /* symbols after the start */
    int64_t end;        /* the symbol that completes a hypothesis; -1: none */
    int64_t completed;  /* stop after so many complete ones; 0: when no partial one is left */
    bool per_symbol;    /* order complete hypotheses by score/length instead of score */
} cj_beam_opts;
/* Complete hypotheses, the best first; those cut at `longest` count as complete. */
typedef struct cj_hypotheses {
    cj_tensor *symbols;  /* i64 [n, longest], after the start; -1 beyond a length */
    cj_tensor *lengths;  /* i64 [n], the end included */
    cj_tensor *scores;   /* f64 [n]: sum of log p, or its mean per symbol */
} cj_hypotheses;
/* After start, i64 [t]; of equal scores the earlier symbol. Reads values: not capturable, no gradients. */
CJ_API cj_hypotheses cj_beam_search(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *start, cj_beam_opts opts);
typedef struct cj_draw_opts {
    int64_t longest;     /* symbols after the start */
    int64_t end;         /* after it only itself follows; -1: none */
    double temperature;  /* p ∝ e^(logit/temperature); 1; CJ_ZERO: the likeliest */
    int64_t top_k;       /* only the k likeliest; 0: all */
    double top_p;        /* only the likeliest that make up this share (at least one); 0: all */
} cj_draw_opts;
/* Each row of start, i64 [n, t], continued symbol by symbol: i64 [n, t + longest]. */
CJ_API cj_tensor *cj_draw_sequences(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *start, cj_draw_opts opts);
/* sum over t > given of log p(x_t|x_<t) of each row of x, i64 [n, T]: [n]. Symbols before `given` (at least 1) are the condition. One call of fn per symbol. */
CJ_API cj_tensor *cj_sequence_log_prob(cj_ctx *c, cj_next_fn fn, void *user, cj_tensor *x, int64_t given);

#ifdef __cplusplus
}
#endif
#endif
