/* Batch, group, instance and RMS normalisation: definitions in public operators, fused kernels forward and backward.
 *
 *   y = act((x - mean)/sqrt(var + eps)·weight + bias)
 *
 * with mean and biased variance of a channel of all examples (batch), or of a group of channels of one example (group).  The kernels see x as [outer, channels, inner];
 * a permuted view with its channels last is handed over as what it is in memory, [.., channels].  Statistics are f64 for every dtype of x: extra outputs, read by the fused
 * backward and by the running averages.
 */
#include "cajal/grad.h"
#include "ops/compose.h"
#include "ops/ops.h"
#include "ops/which.h"

static bool is_half(const cj_tensor *t) { return t->dtype == CJ_BF16 || t->dtype == CJ_F16; }

static int64_t channels_of(const cj_tensor *x, const cj_normalise_attrs *a) { return x->shape[a->last ? x->ndim - 1 : 1]; }

/* Sets that have statistics of their own, and the elements of one. */
static int64_t sets_of(const cj_tensor *x, const cj_normalise_attrs *a) { return a->groups ? x->shape[0] * a->groups : channels_of(x, a); }

/* Place of the weight or bias among the inputs, where it is one. */
static int at_weight(const cj_normalise_attrs *a) { return a->given ? 3 : 1; }
static int at_bias(const cj_normalise_attrs *a) { return at_weight(a) + a->weight; }

/* ---- definition ------------------------------------------------------------------------------------------------------------------------------- */

/* One value per channel, shaped to broadcast against x. */
static cj_tensor *per_channel(cj_tensor *p, const cj_tensor *x, const cj_normalise_attrs *a)
{
    cj_shape s = { .ndim = a->last ? 1 : x->ndim - 1 };
    for (int d = 0; d < s.ndim; d++) s.dim[d] = 1;
    s.dim[0] = p->shape[0];
    return cj_cast(cj_reshape(p, s), (cj_dtype)x->dtype);
}

static bool define_normalise(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    const cj_normalise_attrs *a = attrs;
    const cj_dtype result = (cj_dtype)in[0]->dtype;
    cj_tensor *x = is_half(in[0]) ? cj_cast(in[0], CJ_F32) : in[0], *mean, *var, *d;
    int64_t each = 1; /* elements of a group */
    for (int k = 1; k < x->ndim; k++) each *= x->shape[k];
    cj_tensor *z = a->groups ? cj_reshape(x, CJ_SHAPE(x->shape[0], a->groups, each / a->groups)) : x;
    if (a->given) {
        mean = in[1], var = in[2];
        d = cj_sub(z, per_channel(mean, x, a));
        z = cj_mul(d, cj_rsqrt(cj_add_scalar(per_channel(var, x, a), a->eps)));
    } else {
        cj_reduce_opts set = { .keepdim = true };
        int channel = a->last ? z->ndim - 1 : 1;
        for (int k = 0; k < z->ndim; k++)
            if (a->groups ? k == 2 : k != channel) set.axes.axis[set.axes.n++] = k;
        mean = cj_mean(z, &set);
        d = cj_sub(z, mean);
        var = cj_mean(cj_square(d), &set);
        z = cj_mul(d, cj_rsqrt(cj_add_scalar(var, a->eps)));
    }
    if (a->groups) z = cj_reshape(z, cj__shape(x));
    if (a->weight) z = cj_mul(z, per_channel(in[at_weight(a)], x, a));
    if (a->bias) z = cj_add(z, per_channel(in[at_bias(a)], x, a));
    if (a->relu) z = cj_relu(z);
    out[0] = cj_cast(z, result);
    out[1] = cj_cast(cj_reshape(mean, CJ_SHAPE(-1)), CJ_F64);
    out[2] = cj_cast(cj_reshape(var, CJ_SHAPE(-1)), CJ_F64);
    return c->error == CJ_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_normalise(cj_call *call)
{
    const cj_normalise_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    const char *op = call->op->name;
    cj_dtype t = (cj_dtype)x->dtype;
    if (!cj_dtype_is_float(t)) return cj__error(call->ctx, CJ_EDTYPE, "%s: the input is %s, a float type expected", op, cj_dtype_name(t));
    if (x->ndim < 2) return cj__error(call->ctx, CJ_ESHAPE, "%s: the input has shape %s, [N, C, ..] expected", op, cj__tensor_text(x));
    int64_t channels = channels_of(x, a), sets;
    if (a->groups && channels % a->groups)
        return cj__error(call->ctx, CJ_EVALUE, "%s: %lld groups do not divide the %lld channels of %s", op, (long long)a->groups,
                         (long long)channels, cj__tensor_text(x));
    sets = sets_of(x, a);
    for (int i = 1; i < call->nin; i++) {
        const cj_tensor *p = call->in[i];
        bool statistic = i < at_weight(a);
        const char *what = statistic ? i == 1 ? "running_mean" : "running_var" : i == at_weight(a) && a->weight ? "weight" : "bias";
        if (p->ndim != 1 || p->shape[0] != channels)
            return cj__error(call->ctx, CJ_ESHAPE, "%s: the %s has shape %s, [%lld] expected", op, what, cj__tensor_text(p),
                             (long long)channels);
        if (!statistic && p->dtype != x->dtype && !(p->dtype == CJ_F32 && is_half(x)))
            return cj__error(call->ctx, CJ_EDTYPE, "%s: the %s is %s, the input %s", op, what, cj_dtype_name((cj_dtype)p->dtype),
                             cj_dtype_name(t));
    }
    if (!a->given && !a->groups && channels && x->numel / channels < 2)
        return cj__error(call->ctx, CJ_EVALUE, "%s: %lld value%s per channel in %s; training needs two at least", op,
                         (long long)(x->numel / channels), x->numel / channels == 1 ? "" : "s", cj__tensor_text(x));
    const int64_t kept = a->given ? 0 : sets; /* statistics that the backward needs */
    return cj__out(call, 0, t, x->ndim, x->shape) && cj__out(call, 1, CJ_F64, 1, &kept) && cj__out(call, 2, CJ_F64, 1, &kept);
}

static cj_normalise_job job_of(const cj_tensor *x, const cj_normalise_attrs *a)
{
    cj_normalise_job j = { .t = (cj_dtype)x->dtype,
                           .channels = channels_of(x, a),
                           .groups = a->groups,
                           .relu = a->relu,
                           .given = a->given,
                           .eps = a->eps,
                           .x = x->data };
    j.outer = a->last ? x->numel / (j.channels ? j.channels : 1) : x->shape[0];
    j.inner = a->last || !x->numel ? 1 : x->numel / (j.outer * j.channels);
    return j;
}

static void convert(const cj_ctx *c, cj_dtype from, const void *x, cj_dtype to, void *y, int64_t n)
{
    c->k->copy(NULL, 1, &n, from, x, &(int64_t){ 1 }, to, y, &(int64_t){ 1 });
}

/* Scratch for the kernel, after four vectors of parameters and their gradients; false after an error. */
static bool with_scratch(cj_ctx *c, cj_normalise_job *j, const cj_tensor *weight, const cj_tensor *bias, bool backward)
{
    int64_t n = j->channels;
    double *p = cj__scratch(c, ((size_t)(4 * n) + c->k->normalise_scratch(j, backward) + 1) * sizeof *p);
    if (!p) return false;
    if (weight) convert(c, (cj_dtype)weight->dtype, weight->data, CJ_F64, p, n), j->weight = p;
    if (bias) convert(c, (cj_dtype)bias->dtype, bias->data, CJ_F64, p + n, n), j->bias = p + n;
    j->dweight = p + 2 * n;
    j->dbias = p + 3 * n;
    j->scratch = p + 4 * n;
    return true;
}

static bool run_normalise(cj_call *call)
{
    const cj_normalise_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    cj_normalise_job j = job_of(x, a);
    if (!x->numel) {
        memset(call->out[1]->data, 0, (size_t)call->out[1]->numel * sizeof(double));
        memset(call->out[2]->data, 0, (size_t)call->out[2]->numel * sizeof(double));
        return true;
    }
    if (!with_scratch(call->ctx, &j, a->weight ? call->in[at_weight(a)] : NULL, a->bias ? call->in[at_bias(a)] : NULL, false)) return false;
    j.mean = (double *)(a->given ? call->in[1]->data : call->out[1]->data);
    j.var = (double *)(a->given ? call->in[2]->data : call->out[2]->data);
    j.y = call->out[0]->data;
    call->ctx->k->normalise(call->ctx->pool, &j);
    return true;
}

/* Inputs x, dy, mean, var [, weight] [, bias]; outputs dx, dweight, dbias, the last two empty where there is nothing to derive for. */
static bool infer_normalise_bwd(cj_call *call)
{
    const cj_normalise_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t n = channels_of(x, a), none = 0;
    cj_dtype t = (cj_dtype)x->dtype;
    return cj__out(call, 0, t, x->ndim, x->shape) &&
           cj__out(call, 1, a->weight ? (cj_dtype)call->in[4]->dtype : t, 1, a->weight ? &n : &none) &&
           cj__out(call, 2, a->bias ? (cj_dtype)call->in[4 + a->weight]->dtype : t, 1, a->bias ? &n : &none);
}

static bool run_normalise_bwd(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_normalise_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    cj_normalise_job j = job_of(x, a);
    if (!with_scratch(c, &j, a->weight ? call->in[4] : NULL, a->bias ? call->in[4 + a->weight] : NULL, true)) return false;
    j.dy = call->in[1]->data;
    j.mean = (double *)call->in[2]->data;
    j.var = (double *)call->in[3]->data;
    j.y = call->out[0]->data;
    if (x->numel) c->k->normalise_bwd(c->pool, &j);
    else memset(j.dweight, 0, (size_t)(2 * j.channels) * sizeof *j.dweight);
    for (int i = 1; i < 3; i++) {
        const cj_tensor *to = call->out[i];
        if (to->numel) convert(c, CJ_F64, i == 1 ? j.dweight : j.dbias, (cj_dtype)to->dtype, to->data, j.channels);
    }
    return true;
}

/* ---- RMS: y = x/sqrt(mean(x²) + eps)·weight over the last axis -------------------------------------------------------------------------------------- */

static bool infer_rms(cj_call *call)
{
    const cj_tensor *x = call->in[0], *w = call->nin > 1 ? call->in[1] : NULL;
    cj_dtype t = (cj_dtype)x->dtype;
    if (!cj_dtype_is_float(t)) return cj__error(call->ctx, CJ_EDTYPE, "rms_norm: the input is %s, a float type expected", cj_dtype_name(t));
    if (x->ndim < 1) return cj__error(call->ctx, CJ_ESHAPE, "rms_norm: a 0-d input");
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[x->ndim - 1] || w->dtype != x->dtype))
        return cj__error(call->ctx, CJ_ESHAPE, "rms_norm: weight %s %s does not fit input %s %s", cj__tensor_text(w),
                         cj_dtype_name((cj_dtype)w->dtype), cj__tensor_text(x), cj_dtype_name(t));
    return cj__out(call, 0, t, x->ndim, x->shape) && cj__out(call, 1, t == CJ_F64 ? CJ_F64 : CJ_F32, x->ndim - 1, x->shape);
}
static bool run_rms(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1];
    if (x->numel)
        call->ctx->k->rms_norm(call->ctx->pool, (cj_dtype)x->dtype, x->data, x->numel / n, n, call->nin > 1 ? call->in[1]->data : NULL,
                               *(const double *)call->attrs, call->out[0]->data, call->out[1]->data);
    return true;
}
static bool define_rms(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    cj_reduce_opts last = { .axes = CJ_AXIS(-1), .keepdim = true };
    cj_tensor *x = is_half(in[0]) ? cj_cast(in[0], CJ_F32) : in[0];
    cj_tensor *rstd = cj_rsqrt(cj_add_scalar(cj_mean(cj_square(x), &last), *(const double *)attrs));
    cj_tensor *y = cj_mul(x, rstd);
    if (nin > 1) y = cj_mul(y, in[1]);
    out[0] = cj_cast(y, (cj_dtype)in[0]->dtype);
    out[1] = cj_squeeze(rstd, -1);
    return c->error == CJ_OK;
}

/* Inputs x, dy, rstd [, weight]; outputs dx, dweight. */
static bool infer_rms_bwd(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    int64_t n = x->shape[x->ndim - 1], none = 0;
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape) && cj__out(call, 1, (cj_dtype)x->dtype, 1, call->nin > 3 ? &n : &none);
}
static bool run_rms_bwd(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_tensor *x = call->in[0];
    const bool weighted = call->nin > 3;
    int64_t n = x->shape[x->ndim - 1], rows = n ? x->numel / n : 0;
    if (!x->numel) {
        memset(call->out[1]->data, 0, (size_t)call->out[1]->numel * cj_dtype_size((cj_dtype)x->dtype));
        return true;
    }
    void *scratch = cj__scratch(c, c->k->layer_norm_bwd_scratch((cj_dtype)x->dtype, rows, n) + 1);
    if (!scratch) return false;
    c->k->rms_norm_bwd(c->pool, (cj_dtype)x->dtype, x->data, call->in[1]->data, weighted ? call->in[3]->data : NULL, call->in[2]->data,
                       rows, n, call->out[0]->data, weighted ? call->out[1]->data : NULL, scratch);
    return true;
}

static bool define_instance(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const cj_normalise_attrs *a = attrs;
    (void)nin;
    if (!cj_dtype_is_float((cj_dtype)in[0]->dtype))
        return cj__error(c, CJ_EDTYPE, "instance_norm: the input is %s, a float type expected", cj_dtype_name((cj_dtype)in[0]->dtype));
    out[0] = cj_group_norm(in[0], channels_of(in[0], a), a->weight ? in[1] : NULL, a->bias ? in[at_bias(a)] : NULL, a->eps);
    return c->error == CJ_OK;
}

/* ---- rows --------------------------------------------------------------------------------------------------------------------------------------------- */

static void d_normalise(cj_vjp_args *v);
static void d_rms(cj_vjp_args *v);

#define FUSED(op_name, outputs, attributes, part)                                                                                          \
    {                                                                                                                                      \
        .name = op_name, .family = "normalisation", .kind = CJ_COMPOSITE, .nin = -1, .nout = outputs, .attr_size = attributes,             \
        .save_in = 31, .save_out = 6, .infer = infer_##part, .run = run_##part, .vjp = d_##part, .define = define_##part                   \
    }
#define BACKWARD(op_name, outputs, attributes, part)                                                                                       \
    {                                                                                                                                      \
        .name = op_name, .family = "normalisation", .kind = CJ_INTERNAL, .flags = CJ_OP_NOGRAD, .nin = -1, .nout = outputs,                \
        .attr_size = attributes, .infer = infer_##part, .run = run_##part                                                                  \
    }
enum { BATCH, GROUP, INSTANCE, RMS, BATCH_BWD, GROUP_BWD, RMS_BWD };
const cj_op cj__ops_normalise[] = {
    [BATCH] = FUSED("batch_norm", 3, sizeof(cj_normalise_attrs), normalise),
    [GROUP] = FUSED("group_norm", 3, sizeof(cj_normalise_attrs), normalise),
    [INSTANCE] = { .name = "instance_norm",
                   .family = "normalisation",
                   .kind = CJ_COMPOSITE,
                   .nin = -1,
                   .nout = 1,
                   .attr_size = sizeof(cj_normalise_attrs),
                   .define = define_instance },
    [RMS] = FUSED("rms_norm", 2, sizeof(double), rms),
    [BATCH_BWD] = BACKWARD("batch_norm_backward", 3, sizeof(cj_normalise_attrs), normalise_bwd),
    [GROUP_BWD] = BACKWARD("group_norm_backward", 3, sizeof(cj_normalise_attrs), normalise_bwd),
    [RMS_BWD] = BACKWARD("rms_norm_backward", 2, sizeof(double), rms_bwd),
};
CJ_OP_TABLE(normalise);

bool cj__op_is_batch_norm(const cj_op *op) { return op == &cj__ops_normalise[BATCH]; }

static void d_normalise(cj_vjp_args *v)
{
    const cj_normalise_attrs *a = v->attrs;
    if (!v->g[0]) return;
    cj_tensor *const *statistics = a->given ? v->in + 1 : v->out + 1;
    cj_tensor *in[6] = { v->in[0], cj_contiguous(v->g[0]), statistics[0], statistics[1] }, *out[3];
    int n = 4;
    if (a->weight) in[n++] = v->in[at_weight(a)];
    if (a->bias) in[n++] = v->in[at_bias(a)];
    cj__apply_n(v->ctx, &cj__ops_normalise[a->groups ? GROUP_BWD : BATCH_BWD], a, in, n, out);
    v->gin[0] = out[0];
    if (a->weight) v->gin[at_weight(a)] = out[1];
    if (a->bias) v->gin[at_bias(a)] = out[2];
}

static void d_rms(cj_vjp_args *v)
{
    if (!v->g[0]) return;
    cj_tensor *in[4] = { v->in[0], cj_contiguous(v->g[0]), v->out[1], v->nin > 1 ? v->in[1] : NULL }, *out[2];
    cj__apply_n(v->ctx, &cj__ops_normalise[RMS_BWD], v->attrs, in, 2 + v->nin, out);
    for (int i = 0; i < v->nin; i++) v->gin[i] = out[i];
}

/* ---- what users call ---------------------------------------------------------------------------------------------------------------------------------- */

/* x and its parameters usable, eps read; false after an error. */
static bool inputs(const char *op, cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps, cj_normalise_attrs *a)
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x)) return false;
    if (weight && !cj__usable(c, op, 1, weight)) return false;
    if (bias && !cj__usable(c, op, 2, bias)) return false;
    *a = (cj_normalise_attrs){ .eps = cj__option(eps, 1e-5), .weight = weight != NULL, .bias = bias != NULL };
    if (!(a->eps >= 0)) return cj__error(c, CJ_EVALUE, "%s: eps %g is negative", op, a->eps);
    return true;
}

static int append(cj_tensor **in, int n, cj_tensor *p)
{
    if (p) in[n++] = cj_contiguous(p);
    return n;
}

/* A running statistic: a vector with a value per channel, in training one that outlives the step. */
static bool running(const cj_tensor *x, const char *what, const cj_tensor *t, bool eval)
{
    cj_ctx *c = x->ctx;
    if (!cj__usable(c, "batch_norm", 3, t)) return false;
    if (t->ndim != 1 || t->shape[0] != x->shape[1])
        return cj__error(c, CJ_ESHAPE, "batch_norm: the %s has shape %s, [%lld] expected", what, cj__tensor_text(t),
                         (long long)x->shape[1]);
    if (!cj_dtype_is_float((cj_dtype)t->dtype))
        return cj__error(c, CJ_EDTYPE, "batch_norm: the %s is %s, a float type expected", what, cj_dtype_name((cj_dtype)t->dtype));
    if (!eval && !(t->flags & CJ_T_PERSISTENT))
        return cj__error(c, CJ_EVALUE, "batch_norm: the %s goes with its scope; it must be a buffer or kept", what);
    return true;
}

static bool batch_options(const cj_tensor *x, const cj_batch_norm_opts *o, double momentum)
{
    cj_ctx *c = x->ctx;
    if (x->ndim < 2) return cj__error(c, CJ_ESHAPE, "batch_norm: the input has shape %s, [N, C, ..] expected", cj__tensor_text(x));
    if (!o->running_mean != !o->running_var)
        return cj__error(c, CJ_EVALUE, "batch_norm: running_%s is missing; both or neither", o->running_mean ? "var" : "mean");
    if (o->eval && !o->running_mean) return cj__error(c, CJ_EVALUE, "batch_norm: eval needs running_mean and running_var");
    if (o->running_mean && (!running(x, "running_mean", o->running_mean, o->eval) || !running(x, "running_var", o->running_var, o->eval)))
        return false;
    if (!(momentum >= 0 && momentum <= 1)) return cj__error(c, CJ_EVALUE, "batch_norm: momentum %g is outside 0 … 1", momentum);
    if (o->cumulative && !o->batches) return cj__error(c, CJ_EVALUE, "batch_norm: a cumulative average needs batches to count them");
    if (o->batches) {
        if (!cj__usable(c, "batch_norm", 5, o->batches)) return false;
        if (o->batches->dtype != CJ_I64 || o->batches->ndim)
            return cj__error(c, CJ_ESHAPE, "batch_norm: batches is %s %s, a 0-d i64 expected", cj_dtype_name((cj_dtype)o->batches->dtype),
                             cj__tensor_text(o->batches));
        if (!o->eval && !(o->batches->flags & CJ_T_PERSISTENT))
            return cj__error(c, CJ_EVALUE, "batch_norm: batches goes with its scope; it must be a buffer or kept");
    }
    return true;
}

/* running += rate·(batch - running), when the caller's scope closes; after what earlier calls in this scope have put off. */
static void bring_forward(cj_tensor *run, cj_tensor *batch, cj_tensor *rate, double momentum)
{
    cj_tensor *last = cj_cast(cj_detach(cj__deferred_value(run->ctx, run)), CJ_F64), *step = cj_sub(cj_detach(batch), last);
    step = rate ? cj_mul(step, rate) : cj_mul_scalar(step, momentum);
    cj_assign_at_close_(run, cj_add(last, step));
}

cj_tensor *cj_batch_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_batch_norm_opts *opts)
{
    if (!x) return CJ_MISSING("batch_norm", x, weight);
    cj_ctx *c = x->ctx;
    cj_batch_norm_opts o = opts ? *opts : (cj_batch_norm_opts){ 0 };
    cj_normalise_attrs a;
    const double momentum = cj__option(o.momentum, 0.1);
    if (!inputs("batch_norm", x, weight, bias, o.eps, &a) || !batch_options(x, &o, momentum)) return c->poison;
    a.relu = o.relu;
    a.given = o.eval;
    /* Channels last in memory: a view that says so, and one back for the result. */
    cj_axes to_last = { .n = x->ndim }, home = { .n = x->ndim };
    for (int d = 0; d < x->ndim; d++) {
        to_last.axis[d] = d == 0 ? 0 : d == x->ndim - 1 ? 1 : d + 1;
        home.axis[d] = d == 0 ? 0 : d == 1 ? x->ndim - 1 : d - 1;
    }
    if (x->ndim > 2 && !cj__contiguous(x)) {
        cj_tensor *view = cj_permute(x, to_last);
        if (c->error) return c->poison;
        a.last = cj__contiguous(view);
        if (a.last) x = view;
    }
    cj_tensor *in[5] = { cj_contiguous(x) }, *out[3];
    int n = 1;
    if (o.eval) n = append(in, append(in, n, cj_cast(cj_detach(o.running_mean), CJ_F64)), cj_cast(cj_detach(o.running_var), CJ_F64));
    n = append(in, append(in, n, weight), bias);
    if (!cj__apply_n(c, &cj__ops_normalise[BATCH], &a, in, n, out)) return c->poison;
    if (!o.eval) {
        const double values = (double)x->numel / (double)channels_of(x, &a); /* of a channel */
        cj_tensor *count = o.batches ? cj_add_scalar(cj__deferred_value(c, o.batches), 1) : NULL;
        cj_tensor *rate = o.cumulative ? cj_reciprocal(cj_cast(count, CJ_F64)) : NULL;
        if (o.running_mean && (momentum > 0 || rate)) {
            bring_forward(o.running_mean, out[1], rate, momentum);
            bring_forward(o.running_var, cj_mul_scalar(out[2], values / (values - 1)), rate, momentum);
        }
        if (count) cj_assign_at_close_(o.batches, count);
        if (c->error) return c->poison;
    }
    return a.last ? cj_permute(out[0], home) : out[0];
}

cj_tensor *cj_group_norm(cj_tensor *x, int64_t groups, cj_tensor *weight, cj_tensor *bias, double eps)
{
    if (!x) return CJ_MISSING("group_norm", x, weight);
    cj_ctx *c = x->ctx;
    cj_normalise_attrs a;
    if (!inputs("group_norm", x, weight, bias, eps, &a)) return c->poison;
    if (groups < 1) return cj_fail(c, CJ_EVALUE, "group_norm: %lld groups", (long long)groups);
    a.groups = groups;
    cj_tensor *in[3] = { cj_contiguous(x) }, *out[3];
    cj__apply_n(c, &cj__ops_normalise[GROUP], &a, in, append(in, append(in, 1, weight), bias), out);
    return out[0];
}

cj_tensor *cj_instance_norm(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, double eps)
{
    static const char op[] = "instance_norm";
    if (!x) return CJ_MISSING(op, x, weight);
    cj_ctx *c = x->ctx;
    cj_normalise_attrs a;
    if (!inputs(op, x, weight, bias, eps, &a)) return c->poison;
    if (a.eps == 0) a.eps = CJ_ZERO; /* for group_norm, which reads it again */
    int64_t positions = 1;
    for (int d = 2; d < x->ndim; d++) positions *= x->shape[d];
    if (x->ndim < 3 || positions < 2 || x->shape[1] < 1)
        return cj_fail(c, CJ_ESHAPE, "%s: the input has shape %s, [N, C, ..] with two positions at least expected", op, cj__tensor_text(x));
    cj_tensor *in[3] = { x }, *out[1];
    cj__apply_n(c, &cj__ops_normalise[INSTANCE], &a, in, append(in, append(in, 1, weight), bias), out);
    return out[0];
}

cj_tensor *cj_rms_norm(cj_tensor *x, cj_tensor *weight, double eps)
{
    if (!x) return CJ_MISSING("rms_norm", x, weight);
    cj_ctx *c = x->ctx;
    cj_normalise_attrs a;
    if (!inputs("rms_norm", x, weight, NULL, eps, &a)) return c->poison;
    double e = cj__option(eps, x->dtype == CJ_F64 ? 0x1p-52 : 0x1p-23);
    cj_tensor *in[2] = { cj_contiguous(x) }, *out[2];
    cj__apply_n(c, &cj__ops_normalise[RMS], &e, in, append(in, 1, weight), out);
    return out[0];
}
