/* Optimisers written in operators, by cj_custom_optim: Adadelta, RAdam, Rprop, averaged SGD.  Steps and defaults are PyTorch's. */
#include <math.h>

#include "optim/optim.h"

#define COMMON(usual_lr)                                                                                                                   \
    &(cj_custom_optim_opts)                                                                                                                \
    {                                                                                                                                      \
        .lr = cj__value_or(o.lr, usual_lr), .clip_norm = o.clip_norm, .clip_value = o.clip_value, .maximise = o.maximise, .comm = o.comm   \
    }

static bool share(cj_params *p, const char *rule, const char *what, double v)
{
    return (v >= 0 && v < 1) || cj__error(p->ctx, CJ_EVALUE, "%s: %s %g; it must be in [0, 1)", rule, what, v);
}
static bool not_negative(cj_params *p, const char *rule, const char *what, double v)
{
    return (v >= 0 && isfinite(v)) || cj__error(p->ctx, CJ_EVALUE, "%s: %s %g; it must be finite and not negative", rule, what, v);
}
static cj_tensor *decayed(cj_tensor *g, cj_tensor *p, double decay) { return decay != 0 ? cj_add(g, cj_mul_scalar(p, decay)) : g; }
/* decay · mean + (1 - decay) · x */
static cj_tensor *moving(cj_tensor *mean, cj_tensor *x, double decay)
{
    return cj_add(cj_mul_scalar(mean, decay), cj_mul_scalar(x, 1 - decay));
}

/* ---- Adadelta ----------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *adadelta(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)c, (void)t;
    const cj_adadelta_opts *o = payload;
    g = decayed(g, p, o->weight_decay);
    state[0] = moving(state[0], cj_square(g), o->rho);
    cj_tensor *d = cj_mul(cj_div(cj_sqrt(cj_add_scalar(state[1], o->eps)), cj_sqrt(cj_add_scalar(state[0], o->eps))), g);
    state[1] = moving(state[1], cj_square(d), o->rho);
    return cj_sub(p, cj_mul(d, lr));
}

cj_optim *cj_adadelta(cj_params *p, const cj_adadelta_opts *opts)
{
    cj_adadelta_opts o = opts ? *opts : (cj_adadelta_opts){ 0 };
    o.rho = cj__value_or(o.rho, 0.9);
    o.eps = cj__value_or(o.eps, 1e-6);
    if (!p || !share(p, "adadelta", "rho", o.rho) || !not_negative(p, "adadelta", "eps", o.eps) ||
        !not_negative(p, "adadelta", "weight decay", o.weight_decay))
        return NULL;
    const cj_rule rule = { .name = "adadelta",
                           .update = adadelta,
                           .states = 2,
                           .state_name = { "square_avg", "acc_delta" },
                           .payload = &o,
                           .payload_size = sizeof o };
    return cj_custom_optim(p, &rule, COMMON(1));
}

/* ---- RAdam: rho_t = rho_inf - 2 t beta2^t / (1 - beta2^t), rho_inf = 2 / (1 - beta2) - 1; where rho_t > 5 the adaptive rate is multiplied by
 * sqrt((rho_t - 4)(rho_t - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho_t)), else left out. ----------------------------------------------------------- */

static cj_tensor *radam(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    const cj_radam_opts *o = payload;
    double inf = 2 / (1 - o->beta2) - 1;
    g = decayed(g, p, o->weight_decay);
    state[0] = moving(state[0], g, o->beta1);
    state[1] = moving(state[1], cj_square(g), o->beta2);
    cj_tensor *power = cj_exp(cj_mul_scalar(t, log(o->beta2)));
    cj_tensor *bias1 = cj_neg(cj_expm1(cj_mul_scalar(t, log(o->beta1)))), *bias2 = cj_neg(cj_expm1(cj_mul_scalar(t, log(o->beta2))));
    cj_tensor *rho = cj_add_scalar(cj_neg(cj_div(cj_mul_scalar(cj_mul(t, power), 2), bias2)), inf);
    cj_tensor *r = cj_maximum(rho, cj_full(c, 5, CJ_SCALAR, CJ_F64));
    cj_tensor *rectified =
        cj_sqrt(cj_mul_scalar(cj_div(cj_mul(cj_add_scalar(r, -4), cj_add_scalar(r, -2)), r), inf / ((inf - 4) * (inf - 2))));
    cj_tensor *step = cj_div(lr, bias1), *adaptive = cj_mul(cj_mul(step, rectified), cj_sqrt(bias2));
    cj_tensor *scaled = cj_div(state[0], cj_add_scalar(cj_sqrt(state[1]), o->eps));
    return cj_sub(p, cj_where(cj_gt_scalar(rho, 5), cj_mul(scaled, adaptive), cj_mul(state[0], step)));
}

cj_optim *cj_radam(cj_params *p, const cj_radam_opts *opts)
{
    cj_radam_opts o = opts ? *opts : (cj_radam_opts){ 0 };
    o.beta1 = cj__value_or(o.beta1, 0.9);
    o.beta2 = cj__value_or(o.beta2, 0.999);
    o.eps = cj__value_or(o.eps, 1e-8);
    if (!p || !share(p, "radam", "beta1", o.beta1) || !share(p, "radam", "beta2", o.beta2) || !not_negative(p, "radam", "eps", o.eps) ||
        !not_negative(p, "radam", "weight decay", o.weight_decay))
        return NULL;
    if (!(o.beta2 > 0.6)) { /* the rectification divides by rho_inf - 4 and is real above it */
        cj_fail(p->ctx, CJ_EVALUE, "radam: beta2 %g; it must be more than 0.6", o.beta2);
        return NULL;
    }
    const cj_rule rule = {
        .name = "radam", .update = radam, .states = 2, .state_name = { "exp_avg", "exp_avg_sq" }, .payload = &o, .payload_size = sizeof o
    };
    return cj_custom_optim(p, &rule, COMMON(1e-3));
}

/* ---- Rprop ---------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *rprop(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)c, (void)lr, (void)t;
    const cj_rprop_opts *o = payload;
    cj_tensor *agreement = cj_mul(g, state[0]), *s = state[1];
    cj_tensor *kept = cj_gt_scalar(agreement, 0), *turned = cj_lt_scalar(agreement, 0);
    s = cj_where(kept, cj_mul_scalar(s, o->grow), cj_where(turned, cj_mul_scalar(s, o->shrink), s));
    state[1] = cj_clamp(s, o->least, o->most);
    state[0] = cj_where(turned, cj_zeros_like(g), g);
    return cj_sub(p, cj_mul(cj_sign(state[0]), state[1]));
}

cj_optim *cj_rprop(cj_params *p, const cj_rprop_opts *opts)
{
    cj_rprop_opts o = opts ? *opts : (cj_rprop_opts){ 0 };
    o.shrink = cj__value_or(o.shrink, 0.5);
    o.grow = cj__value_or(o.grow, 1.2);
    o.least = cj__value_or(o.least, 1e-6);
    o.most = cj__value_or(o.most, 50);
    if (!p) return NULL;
    if (!(o.shrink > 0 && o.shrink < 1 && o.grow > 1 && isfinite(o.grow) && o.least >= 0 && o.least <= o.most)) {
        cj_fail(p->ctx, CJ_EVALUE, "rprop: shrink %g, grow %g, steps from %g to %g; 0 < shrink < 1 < grow and 0 <= least <= most expected",
                o.shrink, o.grow, o.least, o.most);
        return NULL;
    }
    const cj_rule rule = { .name = "rprop",
                           .update = rprop,
                           .states = 2,
                           .state_name = { "prev", "step_size" },
                           .initial = { 0, cj__value_or(o.lr, 0.01) },
                           .payload = &o,
                           .payload_size = sizeof o };
    return cj_custom_optim(p, &rule, COMMON(0.01));
}

/* ---- averaged SGD ----------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *asgd(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    const cj_asgd_opts *o = payload;
    cj_tensor *one = cj_full(c, 1, CJ_SCALAR, CJ_F64), *before = cj_add_scalar(t, -1);
    cj_tensor *eta = cj_div(lr, cj_pow_scalar(cj_add(one, cj_mul_scalar(cj_mul(lr, before), o->lambda)), o->alpha));
    cj_tensor *weight = cj_reciprocal(cj_maximum(one, cj_add_scalar(before, -o->start)));
    g = decayed(g, p, o->weight_decay);
    p = cj_sub(cj_mul(p, cj_sub(one, cj_mul_scalar(eta, o->lambda))), cj_mul(g, eta));
    state[0] = cj_add(state[0], cj_mul(cj_sub(p, state[0]), weight));
    return p;
}

cj_optim *cj_asgd(cj_params *p, const cj_asgd_opts *opts)
{
    cj_asgd_opts o = opts ? *opts : (cj_asgd_opts){ 0 };
    o.lambda = cj__value_or(o.lambda, 1e-4);
    o.alpha = cj__value_or(o.alpha, 0.75);
    o.start = cj__value_or(o.start, 1e6);
    if (!p || !not_negative(p, "asgd", "lambda", o.lambda) || !not_negative(p, "asgd", "alpha", o.alpha) ||
        !not_negative(p, "asgd", "start", o.start) || !not_negative(p, "asgd", "weight decay", o.weight_decay))
        return NULL;
    const cj_rule rule = { .name = "asgd", .update = asgd, .states = 1, .state_name = { "ax" }, .payload = &o, .payload_size = sizeof o };
    return cj_custom_optim(p, &rule, COMMON(0.01));
}
