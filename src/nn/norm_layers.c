/* Normalisation layers: batch norm with its running statistics, group, instance and RMS norm, whitening. */
#include "nn/nn.h"

/* ---- batch norm ------------------------------------------------------------------------------------------------------------------------------------------ */

/* x has this many channels, the second axis; else an error that names the layer and both. */
static bool has_channels(const cj_module *m, const cj_tensor *x, int64_t channels)
{
    if (x->ndim >= 2 && x->shape[1] == channels) return true;
    cj_fail(cj_module_ctx(m), CJ_ESHAPE, "%s: input %s; [N, %lld, ..] expected", cj_module_type_name(m), cj__tensor_text(x),
            (long long)channels);
    return false;
}

typedef struct batch_norm {
    cj_tensor *weight, *bias;
    int64_t channels;
    cj_batch_norm_opts opts;
    bool recalibrating; /* statistics are averaged over batches, whatever the mode */
} batch_norm;

static cj_tensor *batch_norm_forward(cj_module *m, void *self, cj_tensor *x)
{
    const batch_norm *l = self;
    if (!has_channels(m, x, l->channels)) return cj_module_ctx(m)->poison;
    cj_batch_norm_opts o = l->opts;
    o.eval = o.running_mean && !cj_module_training(m) && !l->recalibrating;
    o.cumulative = o.cumulative || l->recalibrating;
    return cj_batch_norm(x, l->weight, l->bias, &o);
}
static const cj_module_type batch_norm_type = { "BatchNorm", batch_norm_forward, NULL };

static bool channels_fit(cj_ctx *c, const char *op, int64_t channels)
{
    if (channels < 1) cj_fail(c, CJ_EVALUE, "%s: %lld channels", op, (long long)channels);
    return channels >= 1;
}

cj_module *cj_batch_norm_layer(cj_ctx *c, int64_t channels, const cj_batch_norm_layer_opts *opts)
{
    cj_batch_norm_layer_opts o = opts ? *opts : (cj_batch_norm_layer_opts){ 0 };
    if (!c || !channels_fit(c, "batch_norm layer", channels)) return NULL;
    cj_module *m = cj_module_new(c, &batch_norm_type, sizeof(batch_norm));
    if (!m) return NULL;
    batch_norm *l = cj_module_self(m);
    l->channels = channels;
    l->opts = (cj_batch_norm_opts){ .eps = o.eps, .momentum = o.momentum, .cumulative = o.cumulative, .relu = o.relu };
    cj_shape n = CJ_SHAPE(channels);
    cj_scope s = cj_scope_open(c);
    if (!o.no_affine) {
        l->weight = cj_module_param(m, "weight", cj_ones(c, n, CJ_F32));
        l->bias = cj_module_param(m, "bias", cj_zeros(c, n, CJ_F32));
    }
    if (!o.no_running) {
        l->opts.running_mean = cj_module_buffer(m, "running_mean", cj_zeros(c, n, CJ_F32));
        l->opts.running_var = cj_module_buffer(m, "running_var", cj_ones(c, n, CJ_F32));
        l->opts.batches = cj_module_buffer(m, "num_batches_tracked", cj_zeros(c, CJ_SCALAR, CJ_I64));
    }
    cj_scope_close(s);
    return c->error ? NULL : m;
}

/* Begins or ends recalibration in all batch norms of a tree; at the beginning the statistics are those of no batch. */
static void recalibrating(cj_module *m, bool on)
{
    if (cj_module_type_name(m) == batch_norm_type.name) {
        batch_norm *l = cj_module_self(m);
        if (l->opts.running_mean) l->recalibrating = on;
        if (l->opts.running_mean && on) {
            cj_ctx *c = cj_module_ctx(m);
            cj_assign_(l->opts.running_mean, cj_full(c, 0, CJ_SCALAR, CJ_F32));
            cj_assign_(l->opts.running_var, cj_full(c, 1, CJ_SCALAR, CJ_F32));
            cj_assign_(l->opts.batches, cj_full(c, 0, CJ_SCALAR, CJ_I64));
        }
    }
    for (int i = 0; i < cj_module_children(m); i++) recalibrating(cj_module_child(m, i), on);
}

bool cj_batch_norm_recalibrate(cj_module *m, cj_tensor *const *batches, int n)
{
    if (!m) return false;
    cj_ctx *c = cj_module_ctx(m);
    if (c->error) return false;
    if (n < 1 || !batches) {
        cj_fail(c, CJ_EVALUE, "batch_norm_recalibrate: %d batches", n);
        return false;
    }
    bool training = cj_module_training(m), grad = cj_no_grad(c);
    cj_module_train(m, false);
    cj_scope start = cj_scope_open(c);
    recalibrating(m, true);
    cj_scope_close(start);
    for (int i = 0; i < n && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        cj_forward(m, batches[i]);
        cj_scope_close(s);
    }
    recalibrating(m, false);
    cj_module_train(m, training);
    cj_grad_mode(c, grad);
    return !c->error;
}

/* ---- group, instance, RMS ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct norm {
    cj_tensor *weight, *bias;
    int64_t channels, groups;
    double eps;
} norm;

static cj_tensor *group_norm_forward(cj_module *m, void *self, cj_tensor *x)
{
    const norm *l = self;
    if (!has_channels(m, x, l->channels)) return cj_module_ctx(m)->poison;
    return cj_group_norm(x, l->groups, l->weight, l->bias, l->eps);
}
static cj_tensor *instance_norm_forward(cj_module *m, void *self, cj_tensor *x)
{
    const norm *l = self;
    if (!has_channels(m, x, l->channels)) return cj_module_ctx(m)->poison;
    return cj_instance_norm(x, l->weight, l->bias, l->eps);
}
static cj_tensor *rms_norm_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    const norm *l = self;
    return cj_rms_norm(x, l->weight, l->eps);
}
static const cj_module_type group_norm_type = { "GroupNorm", group_norm_forward, NULL };
static const cj_module_type instance_norm_type = { "InstanceNorm", instance_norm_forward, NULL };
static const cj_module_type rms_norm_type = { "RMSNorm", rms_norm_forward, NULL };

static cj_module *norm_layer(cj_ctx *c, const cj_module_type *type, int64_t channels, int64_t groups, double eps, bool weight, bool bias)
{
    cj_module *m = cj_module_new(c, type, sizeof(norm));
    if (!m) return NULL;
    norm *l = cj_module_self(m);
    l->channels = channels;
    l->groups = groups;
    l->eps = eps;
    cj_scope s = cj_scope_open(c);
    if (weight) l->weight = cj_module_param(m, "weight", cj_ones(c, CJ_SHAPE(channels), CJ_F32));
    if (bias) l->bias = cj_module_param(m, "bias", cj_zeros(c, CJ_SHAPE(channels), CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}

cj_module *cj_group_norm_layer(cj_ctx *c, int64_t groups, int64_t channels, const cj_norm_layer_opts *opts)
{
    cj_norm_layer_opts o = opts ? *opts : (cj_norm_layer_opts){ 0 };
    if (!c || !channels_fit(c, "group_norm layer", channels)) return NULL;
    if (groups < 1 || channels % groups) {
        cj_fail(c, CJ_EVALUE, "group_norm layer: %lld groups do not divide %lld channels", (long long)groups, (long long)channels);
        return NULL;
    }
    return norm_layer(c, &group_norm_type, channels, groups, o.eps, !o.no_affine, !o.no_affine);
}
cj_module *cj_instance_norm_layer(cj_ctx *c, int64_t channels, const cj_instance_norm_layer_opts *opts)
{
    cj_instance_norm_layer_opts o = opts ? *opts : (cj_instance_norm_layer_opts){ 0 };
    if (!c || !channels_fit(c, "instance_norm layer", channels)) return NULL;
    return norm_layer(c, &instance_norm_type, channels, channels, o.eps, o.affine, o.affine);
}
cj_module *cj_rms_norm_layer(cj_ctx *c, int64_t dim, const cj_norm_layer_opts *opts)
{
    cj_norm_layer_opts o = opts ? *opts : (cj_norm_layer_opts){ 0 };
    if (!c || !channels_fit(c, "rms_norm layer", dim)) return NULL;
    return norm_layer(c, &rms_norm_type, dim, 1, o.eps, !o.no_affine, false);
}

/* ---- whitening: features without correlations, of variance 1 ---------------------------------------------------------------------------------------------- */

typedef struct whiten {
    cj_tensor *mean, *matrix; /* running */
    cj_whiten_opts opts;
    double momentum;
} whiten;

static void towards(cj_tensor *running, cj_tensor *batch, double momentum)
{
    cj_tensor *now = cj_detach(running), *new = cj_cast(cj_detach(batch), (cj_dtype)running->dtype);
    cj_assign_at_close_(running, cj_add(now, cj_mul_scalar(cj_sub(new, now), momentum)));
}

static cj_tensor *whiten_forward(cj_module *m, void *self, cj_tensor *x)
{
    const whiten *l = self;
    cj_ctx *c = cj_module_ctx(m);
    if (x->ndim != 2 || x->shape[1] != l->mean->shape[0])
        return cj_fail(c, CJ_ESHAPE, "whiten layer: input %s; [n, %lld] expected", cj__tensor_text(x), (long long)l->mean->shape[0]);
    if (!cj_module_training(m)) return cj_matmul(cj_sub(x, l->mean), l->matrix);
    cj_whitened w = cj_whiten(x, &l->opts);
    towards(l->mean, w.mean, l->momentum);
    towards(l->matrix, w.matrix, l->momentum);
    return w.value;
}
static const cj_module_type whiten_type = { "Whiten", whiten_forward, NULL };

cj_module *cj_whiten_layer(cj_ctx *c, int64_t dim, const cj_whiten_layer_opts *opts)
{
    cj_whiten_layer_opts o = opts ? *opts : (cj_whiten_layer_opts){ 0 };
    if (!c || !channels_fit(c, "whiten layer", dim)) return NULL;
    if (!(o.momentum >= 0 && o.momentum <= 1) || !(o.eps >= 0 || o.eps == CJ_ZERO)) {
        cj_fail(c, CJ_EVALUE, "whiten layer: momentum %g, eps %g; [0, 1] and not negative expected", o.momentum, o.eps);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &whiten_type, sizeof(whiten));
    if (!m) return NULL;
    whiten *l = cj_module_self(m);
    l->opts = (cj_whiten_opts){ .eps = o.eps };
    l->momentum = o.momentum == 0 ? 0.1 : o.momentum;
    cj_scope s = cj_scope_open(c);
    l->mean = cj_module_buffer(m, "running_mean", cj_zeros(c, CJ_SHAPE(dim), CJ_F32));
    l->matrix = cj_module_buffer(m, "running_matrix", cj_eye(c, dim, CJ_F32));
    cj_scope_close(s);
    return c->error ? NULL : m;
}
