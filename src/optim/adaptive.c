/* Optimisers whose rules adapt to the gradients they have seen: AdaGrad, RMSProp, AdaMax, NAdam; and those that take only a sign: SignSGD, Lion. */
#include "optim/optim.h"

/* What all option structs have in common. */
#define COMMON(usual_lr) .lr = cj__value_or(o.lr, usual_lr), .clip_value = o.clip_value, .maximise = o.maximise, .comm = o.comm

cj_optim *cj_adagrad(cj_params *p, const cj_adagrad_opts *opts)
{
    cj_adagrad_opts o = opts ? *opts : (cj_adagrad_opts){ 0 };
    return cj__optim_new(p, &(cj__optim_request){ .name = "adagrad",
                                                  .attrs = { .rule = CJ_UPDATE_ADAGRAD,
                                                             .states = 1,
                                                             .lr_decay = o.lr_decay,
                                                             .eps = cj__value_or(o.eps, 1e-10),
                                                             .weight_decay = o.weight_decay,
                                                             .clip_norm = o.clip_norm },
                                                  .state_name = { "sum" },
                                                  .initial = o.initial,
                                                  COMMON(0.01) });
}

cj_optim *cj_rmsprop(cj_params *p, const cj_rmsprop_opts *opts)
{
    cj_rmsprop_opts o = opts ? *opts : (cj_rmsprop_opts){ 0 };
    bool momentum = o.momentum != 0;
    const char *mean = o.centred ? "grad_avg" : NULL;
    return cj__optim_new(p,
                         &(cj__optim_request){ .name = "rmsprop",
                                               .attrs = { .rule = CJ_UPDATE_RMSPROP,
                                                          .states = 1 + momentum + o.centred,
                                                          .beta2 = cj__value_or(o.alpha, 0.99),
                                                          .eps = cj__value_or(o.eps, 1e-8),
                                                          .momentum = o.momentum,
                                                          .centred = o.centred,
                                                          .weight_decay = o.weight_decay,
                                                          .clip_norm = o.clip_norm },
                                               .state_name = { "square_avg", momentum ? "momentum_buffer" : mean, momentum ? mean : NULL },
                                               COMMON(0.01) });
}

cj_optim *cj_adamax(cj_params *p, const cj_adamax_opts *opts)
{
    cj_adamax_opts o = opts ? *opts : (cj_adamax_opts){ 0 };
    return cj__optim_new(p, &(cj__optim_request){ .name = "adamax",
                                                  .attrs = { .rule = CJ_UPDATE_ADAMAX,
                                                             .states = 2,
                                                             .beta1 = cj__value_or(o.beta1, 0.9),
                                                             .beta2 = cj__value_or(o.beta2, 0.999),
                                                             .eps = cj__value_or(o.eps, 1e-8),
                                                             .weight_decay = o.weight_decay,
                                                             .clip_norm = o.clip_norm },
                                                  .state_name = { "exp_avg", "exp_inf" },
                                                  COMMON(2e-3) });
}

cj_optim *cj_nadam(cj_params *p, const cj_nadam_opts *opts)
{
    cj_nadam_opts o = opts ? *opts : (cj_nadam_opts){ 0 };
    return cj__optim_new(p, &(cj__optim_request){ .name = "nadam",
                                                  .attrs = { .rule = CJ_UPDATE_NADAM,
                                                             .states = 2,
                                                             .beta1 = cj__value_or(o.beta1, 0.9),
                                                             .beta2 = cj__value_or(o.beta2, 0.999),
                                                             .eps = cj__value_or(o.eps, 1e-8),
                                                             .momentum_decay = cj__value_or(o.momentum_decay, 4e-3),
                                                             .weight_decay = o.weight_decay,
                                                             .decoupled = o.decoupled,
                                                             .clip_norm = o.clip_norm },
                                                  .state_name = { "exp_avg", "exp_avg_sq" },
                                                  COMMON(2e-3) });
}

cj_optim *cj_sign_sgd(cj_params *p, const cj_sign_sgd_opts *opts)
{
    cj_sign_sgd_opts o = opts ? *opts : (cj_sign_sgd_opts){ 0 };
    return cj__optim_new(p, &(cj__optim_request){ .name = "sign_sgd",
                                                  .attrs = { .rule = CJ_UPDATE_SIGN,
                                                             .states = o.momentum != 0,
                                                             .momentum = o.momentum,
                                                             .weight_decay = o.weight_decay,
                                                             .decoupled = true,
                                                             .clip_norm = o.clip_norm },
                                                  .state_name = { "momentum_buffer" },
                                                  COMMON(1e-3) });
}

cj_optim *cj_lion(cj_params *p, const cj_lion_opts *opts)
{
    cj_lion_opts o = opts ? *opts : (cj_lion_opts){ 0 };
    return cj__optim_new(p, &(cj__optim_request){ .name = "lion",
                                                  .attrs = { .rule = CJ_UPDATE_LION,
                                                             .states = 1,
                                                             .beta1 = cj__value_or(o.beta1, 0.9),
                                                             .beta2 = cj__value_or(o.beta2, 0.99),
                                                             .weight_decay = o.weight_decay,
                                                             .decoupled = true,
                                                             .clip_norm = o.clip_norm },
                                                  .state_name = { "exp_avg" },
                                                  COMMON(1e-4) });
}
