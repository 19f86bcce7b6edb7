/* Optimisers: one operator updates all parameters of a dtype in one pass.  SGD and Adam(W) are here, the other rules in adaptive.c.
 *
 * The update is an operator like any other, so a captured step contains it.  It reads the learning rate from a tensor and counts its steps in one; it computes the
 * gradient norm, if clipping is on, then changes parameters and states together: all or nothing.
 */
#include <math.h>

#include "ops/product.h"
#include "optim/optim.h"

static bool infer_update(cj_call *call)
{
    const cj_update_attrs *a = call->attrs;
    int first = (int)a->w.writes + 1 + a->grouped;
    const cj_tensor *flat = call->in[1];
    for (int i = first; i < call->nin; i++) {
        const cj_tensor *g = call->in[i];
        if (g->dtype != flat->dtype)
            return cj__error(call->ctx, CJ_EDTYPE, "%s: gradient %d is %s, the parameters %s", call->op->name, i - first,
                             cj_dtype_name((cj_dtype)g->dtype), cj_dtype_name((cj_dtype)flat->dtype));
        if (!cj__contiguous(g)) return cj__error(call->ctx, CJ_ESTATE, "%s: gradient layout", call->op->name);
    }
    return true;
}

#define FEW_SLICES 64

static cj_update_fn *kernel_of(const cj_cpu_kernels *k, int rule)
{
    switch ((cj_update_rule)rule) {
    case CJ_UPDATE_ADAM: return k->adam;
    case CJ_UPDATE_AMSGRAD: return k->amsgrad;
    case CJ_UPDATE_ADAGRAD: return k->adagrad;
    case CJ_UPDATE_RMSPROP: return k->rmsprop;
    case CJ_UPDATE_ADAMAX: return k->adamax;
    case CJ_UPDATE_NADAM: return k->nadam;
    case CJ_UPDATE_SIGN: return k->sign;
    case CJ_UPDATE_LION: return k->lion;
    default: return k->sgd;
    }
}

static bool run_update(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_update_attrs *a = call->attrs;
    cj_tensor *step = call->in[0], *flat = call->in[1], *const *state = call->in + 2 + a->master;
    cj_tensor *p = a->master ? call->in[2] : flat, *held[3] = { NULL };
    for (int k = 0; k < a->states; k++) held[k] = state[k];
    int first = (int)a->w.writes + 1 + a->grouped, n = call->nin - first;
    int64_t at = 0, size = (int64_t)cj_dtype_size((cj_dtype)flat->dtype), align = 64 / size,
            wide = (int64_t)cj_dtype_size((cj_dtype)p->dtype);
    cj_update_slice few[FEW_SLICES], *slice = n <= FEW_SLICES ? few : cj__scratch(c, (size_t)n * sizeof *slice);
    if (!slice) return false;
    for (int i = 0; i < n; i++) {
        const cj_tensor *g = call->in[first + i];
        slice[i] = (cj_update_slice){ .p = p->data + at * wide,
                                      .g = g->data,
                                      .m = held[0] ? held[0]->data + at * wide : NULL,
                                      .v = held[1] ? held[1]->data + at * wide : NULL,
                                      .w = held[2] ? held[2]->data + at * wide : NULL,
                                      .half = a->master ? flat->data + at * size : NULL,
                                      .n = g->data ? g->numel : 0 }; /* 0: the product has done it (absorb) */
        at += (g->numel + align - 1) / align * align;
    }
    double *count = (double *)step->data;
    double t = *count + 1.0, scale = 1;
    if (a->clip_norm > 0) {
        double norm = sqrt(c->k->sumsq(c->pool, (cj_dtype)flat->dtype, slice, n));
        if (!(norm <= a->clip_norm)) scale = a->clip_norm / (norm + 1e-6);
    }
    cj_update_opts o = { .lr = *(const double *)call->in[a->w.writes]->data,
                         .momentum = a->momentum,
                         .dampening = a->dampening,
                         .weight_decay = a->weight_decay,
                         .beta1 = a->beta1,
                         .beta2 = a->beta2,
                         .eps = a->eps,
                         .grad_scale = scale,
                         .nesterov = a->nesterov,
                         .decoupled = a->decoupled,
                         .centred = a->centred,
                         .bias1 = 1 - pow(a->beta1, t),
                         .bias2 = 1 - pow(a->beta2, t),
                         .first = t == 1 };
    if (a->rule == CJ_UPDATE_ADAGRAD) o.lr /= 1 + (t - 1) * a->lr_decay;
    if (a->rule == CJ_UPDATE_NADAM) { /* the momentum warms up; product holds that of all momenta so far */
        double *product = (double *)call->in[a->w.writes - 1]->data;
        double mu = a->beta1 * (1 - 0.5 * pow(0.96, t * a->momentum_decay)),
               next = a->beta1 * (1 - 0.5 * pow(0.96, (t + 1) * a->momentum_decay));
        *product *= mu;
        o.step_g = o.lr * (1 - mu) / (1 - *product);
        o.step_m = o.lr * next / (1 - *product * next);
    }
    cj_update_fn *rule = kernel_of(c->k, a->rule);
    if (!a->grouped) rule(c->pool, (cj_dtype)flat->dtype, slice, n, &o);
    const double *group = a->grouped ? (const double *)call->in[first - 1]->data : NULL; /* [n, 2]: factor of the rate, weight decay */
    for (int i = 0, end; i < n && group; i = end) {
        for (end = i + 1; end < n && group[2 * end] == group[2 * i] && group[2 * end + 1] == group[2 * i + 1];) end++;
        cj_update_opts own = o;
        own.lr *= group[2 * i], own.step_g *= group[2 * i], own.step_m *= group[2 * i];
        own.weight_decay = group[2 * i + 1];
        rule(c->pool, (cj_dtype)flat->dtype, slice + i, end - i, &own);
    }
    *count = t;
    return true;
}

/* Plain descent, p -= lr g, is what a product does that is added to p. */
static bool absorbs(const cj_ctx *c, const void *attrs, int input, const cj_gemm *g)
{
    const cj_update_attrs *a = attrs;
    if (a->rule != CJ_UPDATE_SGD || a->momentum != 0 || a->weight_decay != 0 || a->clip_norm > 0 || a->master || a->grouped) return false;
    return input > a->w.writes && c->k->gemm_one_go(g);
}

static bool absorb(cj_call *call, int input, cj_gemm *g)
{
    const cj_update_attrs *a = call->attrs;
    const int64_t align = 64 / (int64_t)sizeof(float);
    int64_t at = 0;
    for (int i = (int)a->w.writes + 1; i < input; i++) at += (call->in[i]->numel + align - 1) / align * align;
    g->c = (float *)(void *)call->in[1]->data + at;
    g->accumulate = CJ_GEMM_ADD_SCALED;
    g->alpha = -(float)*(const double *)call->in[a->w.writes]->data;
    return cj__gemm_run(call->ctx, CJ_F32, g);
}

#define ROW(op_name)                                                                                                                       \
    {                                                                                                                                      \
        .name = op_name, .family = "update", .kind = CJ_WRITE, .flags = CJ_OP_WRITES | CJ_OP_WRITES_MANY | CJ_OP_NOGRAD, .nin = -1,        \
        .nout = 0, .attr_size = sizeof(cj_update_attrs), .infer = infer_update, .run = run_update, .absorbs = absorbs, .absorb = absorb    \
    }
static const cj_op update_op[] = {
    [CJ_UPDATE_SGD] = ROW("sgd_update"),         [CJ_UPDATE_ADAM] = ROW("adam_update"),       [CJ_UPDATE_AMSGRAD] = ROW("amsgrad_update"),
    [CJ_UPDATE_ADAGRAD] = ROW("adagrad_update"), [CJ_UPDATE_RMSPROP] = ROW("rmsprop_update"), [CJ_UPDATE_ADAMAX] = ROW("adamax_update"),
    [CJ_UPDATE_NADAM] = ROW("nadam_update"),     [CJ_UPDATE_SIGN] = ROW("sign_update"),       [CJ_UPDATE_LION] = ROW("lion_update"),
};

static void optim_free(cj_object *o)
{
    cj_optim *p = (cj_optim *)o;
    for (int t = 0; t < CJ_DTYPES; t++) {
        cj_release(p->step[t]);
        cj_release(p->master[t]);
        cj_release(p->product[t]);
        cj_release(p->group[t]);
        for (int k = 0; k < 3; k++) cj_release(p->state[t][k]);
    }
    cj_release(p->lr);
    cj__custom_free(p);
    cj__free(p->ctx, p, sizeof *p);
}

void cj_optim_free(cj_optim *o)
{
    if (!o) return;
    cj__object_remove(o->ctx, &o->object);
    optim_free(&o->object);
}

static cj_tensor *state(cj_ctx *c, cj_dtype dtype, int ndim, int64_t n, double value)
{
    cj_tensor *t = cj__tensor_persistent(c, dtype, ndim, &n, c->backend != NULL);
    if (!t) return NULL;
    cj_assign_(t, cj_full(c, value, CJ_SCALAR, dtype));
    return t;
}

/* Options: 0 means the usual value, CJ_ZERO zero. */
double cj__value_or(double v, double usual) { return v == 0 ? usual : v == CJ_ZERO ? 0 : v; }

static bool not_negative(cj_ctx *c, const char *rule, const char *what, double v)
{
    return v >= 0 || cj__error(c, CJ_EVALUE, "%s: %s %g; it must not be negative", rule, what, v);
}
static bool values_ok(cj_ctx *c, const cj__optim_request *r)
{
    const cj_update_attrs *a = &r->attrs;
    if (!(r->lr >= 0 && isfinite(r->lr)))
        return cj__error(c, CJ_EVALUE, "%s: learning rate %g; it must be finite and not negative", r->name, r->lr);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1)) {
        if (a->rule == CJ_UPDATE_RMSPROP) return cj__error(c, CJ_EVALUE, "rmsprop: alpha %g; it must be in [0, 1)", a->beta2);
        return cj__error(c, CJ_EVALUE, "%s: betas %g and %g; both must be in [0, 1)", r->name, a->beta1, a->beta2);
    }
    return not_negative(c, r->name, "momentum", a->momentum) && not_negative(c, r->name, "weight decay", a->weight_decay) &&
           not_negative(c, r->name, "eps", a->eps) && not_negative(c, r->name, "clip_norm", a->clip_norm) &&
           not_negative(c, r->name, "clip_value", r->clip_value) && not_negative(c, r->name, "lr_decay", a->lr_decay) &&
           not_negative(c, r->name, "momentum_decay", a->momentum_decay) && not_negative(c, r->name, "initial", r->initial);
}

cj_optim *cj__optim_new(cj_params *p, const cj__optim_request *r)
{
    if (!p || !cj__cancel_check(p->ctx)) return NULL;
    cj_ctx *c = p->ctx;
    const cj_update_attrs *a = &r->attrs;
    const cj_comm *comm = r->comm;
    if (!values_ok(c, r)) return NULL;
    if (p->n == 0) {
        cj_fail(c, CJ_EVALUE, "optimiser: there are no parameters");
        return NULL;
    }
    if (p->n > CJ_MAX_INPUTS - 10) {
        cj_fail(c, CJ_EVALUE, "optimiser: %d parameters, at most %d are possible", p->n, CJ_MAX_INPUTS - 10);
        return NULL;
    }
    if (!cj_params_flatten(p)) return NULL;
    cj_optim *o = cj__zalloc(c, sizeof *o);
    if (!o) return NULL;
    o->ctx = c;
    o->params = p;
    o->count = p->n;
    o->attrs = *a;
    memcpy(o->state_name, r->state_name, sizeof o->state_name);
    o->clip_value = r->clip_value;
    o->maximise = r->maximise;
    o->comm = comm && comm->size > 1 ? comm : NULL;
    cj__object_add(c, &o->object, optim_free);
    cj_scope s = cj_scope_open(c);
    o->lr = state(c, CJ_F64, 0, 0, r->lr);
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        cj_tensor *flat = p->flat[t];
        if (!flat) continue;
        cj_dtype wide = t == CJ_F64 ? CJ_F64 : CJ_F32;
        o->step[t] = state(c, CJ_F64, 0, 0, 0);
        if (a->rule == CJ_UPDATE_NADAM) o->product[t] = state(c, CJ_F64, 0, 0, 1);
        for (int k = 0; k < a->states; k++) o->state[t][k] = state(c, wide, 1, flat->numel, r->initial);
        if (o->comm) cj_assign_(flat, cj_broadcast(flat, comm, 0));
        if ((cj_dtype)t == wide || r->custom) continue;
        o->master[t] = state(c, wide, 1, flat->numel, 0);
        cj_assign_(o->master[t], flat);
    }
    cj_scope_close(s);
    if (c->error) {
        cj_optim_free(o);
        return NULL;
    }
    cj_optim_set_lr(o, r->lr);
    return o;
}

cj_optim *cj_sgd(cj_params *p, const cj_sgd_opts *opts)
{
    cj_sgd_opts o = opts ? *opts : (cj_sgd_opts){ 0 };
    if (p && o.nesterov && (o.momentum <= 0 || o.dampening != 0)) {
        cj_fail(p->ctx, CJ_EVALUE, "sgd: Nesterov needs momentum and no dampening");
        return NULL;
    }
    cj__optim_request r = { .name = "sgd",
                            .attrs = { .rule = CJ_UPDATE_SGD,
                                       .states = o.momentum != 0,
                                       .momentum = o.momentum,
                                       .dampening = o.dampening,
                                       .weight_decay = o.weight_decay,
                                       .nesterov = o.nesterov,
                                       .clip_norm = o.clip_norm },
                            .state_name = { "momentum_buffer" },
                            .lr = cj__value_or(o.lr, 0.01),
                            .clip_value = o.clip_value,
                            .maximise = o.maximise,
                            .comm = o.comm };
    return cj__optim_new(p, &r);
}

static cj_optim *adam(cj_params *p, const cj_adam_opts *opts, bool decoupled)
{
    cj_adam_opts o = opts ? *opts : (cj_adam_opts){ 0 };
    cj__optim_request r = { .name = "adam",
                            .attrs = { .rule = o.amsgrad ? CJ_UPDATE_AMSGRAD : CJ_UPDATE_ADAM,
                                       .states = o.amsgrad ? 3 : 2,
                                       .beta1 = cj__value_or(o.beta1, 0.9),
                                       .beta2 = cj__value_or(o.beta2, 0.999),
                                       .eps = cj__value_or(o.eps, 1e-8),
                                       .weight_decay = cj__value_or(o.weight_decay, decoupled ? 0.01 : 0),
                                       .decoupled = decoupled,
                                       .clip_norm = o.clip_norm },
                            .state_name = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
                            .lr = cj__value_or(o.lr, 1e-3),
                            .clip_value = o.clip_value,
                            .maximise = o.maximise,
                            .comm = o.comm };
    return cj__optim_new(p, &r);
}
cj_optim *cj_adam(cj_params *p, const cj_adam_opts *opts) { return adam(p, opts, false); }
cj_optim *cj_adamw(cj_params *p, const cj_adam_opts *opts) { return adam(p, opts, true); }

/* Scales gradients of several dtypes down to one common norm; those of one dtype are clipped inside the update. */
static void clip_together(const cj_optim *o, cj_tensor **g)
{
    cj_ctx *c = o->ctx;
    cj_tensor *sum = cj_full(c, 0, CJ_SCALAR, CJ_F64), *one = cj_full(c, 1, CJ_SCALAR, CJ_F64);
    for (int i = 0; i < o->params->n; i++) sum = cj_add(sum, cj_sum(cj_square(cj_cast(g[i], CJ_F64)), NULL));
    cj_tensor *norm = cj_sqrt(sum), *scale = cj_mul_scalar(cj_reciprocal(cj_add_scalar(norm, 1e-6)), o->attrs.clip_norm);
    scale = cj_where(cj_le_scalar(norm, o->attrs.clip_norm), one, scale);
    for (int i = 0; i < o->params->n; i++) g[i] = cj_mul(g[i], scale);
}

/* One update per dtype from a gradient per parameter; with a zero, the accumulated gradients are set to it. */
static bool update(cj_optim *o, cj_tensor **g, cj_tensor *zero)
{
    cj_ctx *c = o->ctx;
    cj_params *p = o->params;
    bool fits = p->n == o->count;
    int dtypes = 0;
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        fits = fits && (p->flat[t] != NULL) == (o->step[t] != NULL);
        dtypes += o->step[t] != NULL;
    }
    if (!fits) return cj__error(c, CJ_ESTATE, "optimiser: the module's parameters have changed since it was made");
    cj_tensor **in = cj__alloc(c, (size_t)(p->n + 10) * sizeof *in), *none;
    if (!in) return false;
    /* Whatever can fail comes first; then all updates, which cannot be cancelled half way. */
    for (int i = 0; i < p->n && o->comm; i++) g[i] = cj_mul_scalar(cj_all_sum(g[i], o->comm), 1.0 / o->comm->size);
    for (int i = 0; i < p->n && o->clip_value > 0; i++) g[i] = cj_clamp(g[i], -o->clip_value, o->clip_value);
    if ((dtypes > 1 || o->custom) && o->attrs.clip_norm > 0) clip_together(o, g);
    for (int i = 0; i < p->n && o->maximise; i++) g[i] = cj_neg(g[i]);
    for (int i = 0; i < p->n; i++) g[i] = cj_contiguous(g[i]);
    bool ok = cj__cancel_check(c) && (p->n <= FEW_SLICES || cj__scratch(c, (size_t)p->n * sizeof(cj_update_slice)));
    c->committing = ok;
    if (o->scheduled) ok = ok && cj__optim_write_rate(o);
    if (o->custom) ok = ok && cj__custom_update(o, g);
    for (int t = CJ_F32; t <= CJ_F16 && ok && !o->custom; t++) {
        if (!p->flat[t]) continue;
        int n = 0;
        in[n++] = o->step[t];
        in[n++] = p->flat[t];
        if (o->master[t]) in[n++] = o->master[t];
        for (int k = 0; k < o->attrs.states; k++) in[n++] = o->state[t][k];
        if (o->product[t]) in[n++] = o->product[t];
        cj_update_attrs a = o->attrs;
        a.w.writes = n;
        a.master = o->master[t] != NULL;
        if (dtypes > 1) a.clip_norm = 0;
        a.grouped = o->group[t] != NULL;
        in[n++] = o->lr;
        if (a.grouped) in[n++] = o->group[t];
        for (int i = 0; i < p->n; i++)
            if (p->item[i].tensor->dtype == t) in[n++] = g[i];
        ok = cj__apply_n(c, &update_op[a.rule], &a, in, n, &none);
    }
    for (int i = 0; i < p->n && ok && zero; i++) /* the gradients that were used */
        if (p->item[i].tensor->grad) ok = !cj_is_poison(cj_assign_(p->item[i].tensor->grad, zero));
    c->committing = false;
    cj__free(c, in, (size_t)(p->n + 10) * sizeof *in);
    return ok;
}

bool cj_minimise(cj_optim *o, cj_tensor *loss)
{
    if (!o || o->ctx->error) return false;
    cj_ctx *c = o->ctx;
    cj_params *p = o->params;
    if (!loss) return cj__error(c, CJ_EVALUE, "minimise: the loss is NULL");
    if (!cj__usable(c, "minimise", 0, loss)) return false;
    cj_tensor *few[128], **x = p->n <= 64 ? few : cj__alloc(c, 2 * (size_t)p->n * sizeof *x);
    if (!x) return false;
    for (int i = 0; i < p->n; i++) x[i] = p->item[i].tensor;
    int frame = cj__frame_open(c);
    bool was = c->grad_enabled;
    bool ok = frame && cj_grad(loss, x, p->n, x + p->n, &(cj_grad_opts){ .allow_unused = true });
    c->grad_enabled = false;
    ok = ok && update(o, x + p->n, NULL);
    c->grad_enabled = was;
    cj__frame_close(c, frame, NULL, 0);
    if (x != few) cj__free(c, x, 2 * (size_t)p->n * sizeof *x);
    return ok;
}

bool cj_accumulate(cj_optim *o, cj_tensor *loss, double weight)
{
    if (!o || o->ctx->error) return false;
    if (!loss) return cj__error(o->ctx, CJ_EVALUE, "accumulate: the loss is NULL");
    return cj__usable(o->ctx, "accumulate", 0, loss) && cj_backward(cj_mul_scalar(loss, weight), NULL);
}

bool cj_step(cj_optim *o)
{
    if (!o || o->ctx->error) return false;
    cj_ctx *c = o->ctx;
    cj_params *p = o->params;
    cj_tensor **g = cj__alloc(c, (size_t)p->n * sizeof *g);
    if (!g) return false;
    int frame = cj__frame_open(c);
    bool was = cj_no_grad(c);
    for (int i = 0; i < p->n; i++) g[i] = p->item[i].tensor->grad ? p->item[i].tensor->grad : cj_zeros_like(p->item[i].tensor);
    cj_tensor *zero = cj_scalar(c, 0);
    bool ok = frame && !cj_is_poison(zero) && update(o, g, zero);
    cj_grad_mode(c, was);
    cj__frame_close(c, frame, NULL, 0);
    cj__free(c, g, (size_t)p->n * sizeof *g);
    return ok;
}

void cj_optim_set_lr(cj_optim *o, double lr)
{
    if (!o || o->ctx->error) return;
    if (!(lr >= 0 && isfinite(lr))) {
        cj__error(o->ctx, CJ_EVALUE, "optim_set_lr: learning rate %g; it must be finite and not negative", lr);
        return;
    }
    cj_scope s = cj_scope_open(o->ctx);
    if (!cj_is_poison(cj_assign_(o->lr, cj_full(o->ctx, lr, CJ_SCALAR, CJ_F64)))) o->lr_value = lr, o->scheduled = false;
    cj_scope_close(s);
}
double cj_optim_lr(const cj_optim *o)
{
    if (!o) return NAN;
    return o->scheduled ? cj_rate_at(&o->rate, cj_optim_steps((cj_optim *)o)) : o->lr_value;
}
/* A row (factor of the rate, weight decay) for each parameter of a dtype, in their order. */
bool cj_optim_group(cj_optim *o, const char *ending, double lr_factor, double weight_decay)
{
    if (!o || !cj__cancel_check(o->ctx)) return false;
    cj_ctx *c = o->ctx;
    cj_params *p = o->params;
    if (!ending) return cj__error(c, CJ_EVALUE, "optim_group: the ending is NULL");
    if (!(lr_factor >= 0 && isfinite(lr_factor) && weight_decay >= 0 && isfinite(weight_decay)))
        return cj__error(c, CJ_EVALUE, "optim_group %s: factor %g and weight decay %g must be finite and not negative", ending, lr_factor,
                         weight_decay);
    if (o->custom) return cj__error(c, CJ_EVALUE, "optim_group: a rule written in operators has no groups of parameters");
    if (c->backend) return cj__error(c, CJ_EDEVICE, "optim_group: groups of parameters are on the CPU");
    size_t bytes = (size_t)(2 * p->n + 1) * sizeof(double);
    double *row = cj__alloc(c, bytes);
    if (!row) return false;
    int found = 0;
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    for (int t = CJ_F32; t <= CJ_F16 && !c->error; t++) {
        int n = 0;
        if (!o->step[t]) continue;
        if (o->group[t]) cj_to_f64(o->group[t], row, cj_numel(o->group[t]));
        for (int i = 0; i < p->n; i++) {
            if (p->item[i].tensor->dtype != t) continue;
            double *of = row + 2 * n++;
            const char *name = p->item[i].name;
            size_t length = strlen(name), tail = strlen(ending);
            if (!o->group[t]) of[0] = 1, of[1] = o->attrs.weight_decay;
            if (tail > length || strcmp(name + length - tail, ending) != 0) continue;
            of[0] = lr_factor, of[1] = weight_decay;
            found++;
        }
        cj_tensor *table = cj_from_f64(c, row, CJ_SHAPE(n, 2));
        if (o->group[t]) cj_assign_(o->group[t], table);
        else o->group[t] = cj_keep(table);
    }
    cj_grad_mode(c, was);
    cj_scope_close(s);
    cj__free(c, row, bytes);
    if (!c->error && !found) cj__error(c, CJ_EVALUE, "optim_group: no parameter's name ends with \"%s\"", ending);
    return !c->error;
}

cj_params *cj_optim_params(cj_optim *o) { return o ? o->params : NULL; }

int64_t cj_optim_steps(cj_optim *o)
{
    for (int t = CJ_F32; o && t <= CJ_F16; t++)
        if (o->step[t]) return (int64_t)cj_item(o->step[t]);
    return 0;
}

int cj_optim_state(cj_optim *o, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    int n = 0;
    for (int t = CJ_F32; o && t <= CJ_F16; t++) {
        char name[64];
        cj_tensor *const *held = o->state[t], *const item[6] = { o->step[t], o->master[t], held[0], held[1], held[2], o->product[t] };
        const char *const label[6] = { "step", "master", o->state_name[0], o->state_name[1], o->state_name[2], "mu_product" };
        for (int k = 0; k < 6; k++) {
            if (!item[k]) continue;
            snprintf(name, sizeof name, "%s%s%s", label[k], t == CJ_F32 ? "" : ".", t == CJ_F32 ? "" : cj_dtype_name((cj_dtype)t));
            visit(user, name, item[k]);
            n++;
        }
    }
    n += cj__custom_state(o, visit, user);
    if (o) visit(user, "lr", o->lr), n++;
    return n;
}
