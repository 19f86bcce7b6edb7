/* Shared by tests that train: a loop over random batches in one captured step, errors and accuracies. */
#ifndef CJ_TESTS_EXPERIMENT_H
#define CJ_TESTS_EXPERIMENT_H

#include "support.h"

typedef struct fit_job {
    cj_module *net;
    cj_optim *opt;
} fit_job;

/* Classes (i64 targets) have the cross-entropy, numbers the mean square. */
UNUSED static cj_tensor *fit_loss(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_tensor *z = cj_forward(net, x);
    return cj_dtype_of(y) == CJ_I64 ? cj_cross_entropy(z, y) : cj_mse_loss(z, y);
}

UNUSED static void fit_step(cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)ctx;
    fit_job *f = user;
    out[0] = fit_loss(f->net, in[0], in[1]);
    cj_minimise(f->opt, out[0]);
}

/* Trains on x and y (kept, or alive in an outer scope) for some steps and frees the optimiser; batch 0: all rows in every step. Returns the loss of the last step, infinity
 * where it is not finite. */
UNUSED static double fit(cj_module *net, cj_optim *opt, cj_tensor *x, cj_tensor *y, int64_t batch, int steps)
{
    cj_ctx *ctx = cj_module_ctx(net);
    int64_t rows = cj_size(x, 0);
    cj_scope s = cj_scope_open(ctx);
    fit_job job = { net, opt };
    cj_plan *plan = NULL;
    double last = INFINITY;
    for (int i = 0; i < steps && cj_ok(ctx); i++) {
        cj_scope inner = cj_scope_open(ctx);
        cj_tensor *in[2] = { x, y }, *out[1] = { NULL };
        if (batch) {
            cj_tensor *index = cj_randint(ctx, 0, rows, CJ_SHAPE(batch), .stream = CJ_STREAM_DATA);
            in[0] = cj_index_select(x, 0, index), in[1] = cj_index_select(y, 0, index);
        }
        if (plan) cj_replay(plan, in, out);
        else plan = cj_capture(ctx, fit_step, &job, in, 2, out);
        if (i + 1 == steps && cj_ok(ctx)) last = cj_item(out[0]);
        cj_scope_close(inner);
    }
    if (plan) cj_plan_free(plan);
    cj_optim_free(opt);
    cj_scope_close(s);
    return isfinite(last) ? last : INFINITY;
}

UNUSED static double loss_of(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_scope s = cj_scope_open(cj_module_ctx(net));
    bool training = cj_module_training(net);
    cj_module_train(net, false);
    double loss = cj_item(fit_loss(net, x, y));
    cj_module_train(net, training);
    cj_scope_close(s);
    return isfinite(loss) ? loss : INFINITY;
}

UNUSED static double share_right(cj_tensor *scores, cj_tensor *y)
{
    return cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(scores, .axes = CJ_AXIS(1)), y), CJ_F32)));
}

UNUSED static double accuracy_of(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_scope s = cj_scope_open(cj_module_ctx(net));
    bool training = cj_module_training(net);
    cj_module_train(net, false);
    double right = share_right(cj_forward(net, x), y);
    cj_module_train(net, training);
    cj_scope_close(s);
    return right;
}

/* A linear layer with He's initial values and zero biases. */
UNUSED static cj_module *he_linear(cj_ctx *ctx, int64_t in, int64_t out)
{
    cj_module *m = cj_linear(ctx, in, out, .zero_bias = true);
    bool grad = cj_no_grad(ctx);
    cj_init_kaiming_normal_(cj_params_find(cj_module_params(m), "weight"), CJ_FAN_IN, 0);
    cj_grad_mode(ctx, grad);
    return m;
}

/* a·x + b of log y over log x by least squares: a */
UNUSED static double log_slope(const double *x, const double *y, int n)
{
    double mx = 0, my = 0, xy = 0, xx = 0;
    for (int i = 0; i < n; i++) mx += log(x[i]) / n, my += log(y[i]) / n;
    for (int i = 0; i < n; i++) xy += (log(x[i]) - mx) * (log(y[i]) - my), xx += pow(log(x[i]) - mx, 2);
    return xy / xx;
}

#endif
